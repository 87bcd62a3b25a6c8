"""Code shared by tests and benchmarks: a MySQL client, starting and stopping of servers, and
running sysbench. It needs only Python's standard library.
"""

"""What tests and benchmarks share: a MySQL client of our own, servers started and stopped, sysbench
driven. Python's standard library only.
"""

"""The parts of tests/logic.py: where the scripts come from, their records, a client that sends many
statements at once, the comparison, and the list of what is known to differ.
"""

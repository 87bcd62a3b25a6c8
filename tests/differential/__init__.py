"""The parts of tests/differ.py: random statements, the comparison of answers, and the reduction of
differences.
"""

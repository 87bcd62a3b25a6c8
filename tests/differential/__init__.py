"""What tests/differ.py is made of: statements at random, their answers compared, what is found made
small.
"""

"""A test runner that writes the outcome of each test (outcomes.py)."""

from django.test.runner import DiscoverRunner
from outcomes import Result


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result

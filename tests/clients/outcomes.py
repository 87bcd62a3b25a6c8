"""A result of unittest that writes each outcome, a line of JSON, to the file SUITE_RESULTS."""

import json
import os
import unittest


def identity(test):
    """The test's dotted name. A class that cannot be set up counts as one test of that name."""
    if isinstance(test, unittest.suite._ErrorHolder):
        what, _, name = test.description.rstrip(')').partition(' (')
        return f'{name}.{what}'
    if isinstance(test, unittest.case._SubTest):
        return test.test_case.id()
    return test.id()


class Result(unittest.TextTestResult):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.file = open(os.environ['SUITE_RESULTS'], 'a', buffering=1)

    def tell(self, test, outcome, why=''):
        self.file.write(json.dumps([identity(test), outcome, why]) + '\n')

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, 'ok')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, 'skipped', reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.tell(test, 'skipped', 'an expected failure')

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.tell(test, 'failed', 'unexpected success')

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, 'failed', self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, 'failed', self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(subtest, 'failed', self._exc_info_to_string(err, test))

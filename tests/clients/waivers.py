"""Files of waivers: tests of a suite that fail for a reason that is known.

    [foreign keys]                          a reason, as in docs/compatibility.md
    delete.tests.OnDeleteTests.test_cascade
    ? a.test.of.threads                     a test that may also pass, or be missing
"""

import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'waivers')


class Waivers:
    """Of one suite: `reasons` by test; `unsteady` are tests that may also pass or be missing."""

    def __init__(self, suite):
        self.path = os.path.join(FOLDER, f'{suite}.txt')
        self.reasons, self.unsteady = {}, set()
        if not os.path.exists(self.path):
            return
        reason = None
        with open(self.path) as f:
            for number, line in enumerate(f, 1):
                line = line.strip()
                if not line or line.startswith('#'):
                    continue
                if line.startswith('['):
                    reason = line[1:-1]
                    continue
                test = line.removeprefix('? ')
                assert reason, f'{self.path}:{number}: a test without a reason'
                assert test not in self.reasons, f'{self.path}:{number}: {test} is there twice'
                self.reasons[test] = reason
                if test != line:
                    self.unsteady.add(test)

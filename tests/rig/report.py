"""Prints the results of tests: one line per test, and last a summary line like cargo's, which CI
and people already know.
"""

import time


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.started = time.monotonic()

    def ok(self, name, detail=''):
        self.passed += 1
        print(f'ok      {name:44} {detail}', flush=True)

    def fail(self, name, why):
        self.failed += 1
        print(f'FAILED  {name}\n{indented(why)}', flush=True)

    def outcome(self, name, complaint):
        """Reports a test that has passed if there is no complaint."""
        if complaint:
            self.fail(name, complaint)
        else:
            self.ok(name)

    def skip(self, name, why):
        self.skipped += 1
        print(f'ignored {name:44} {why}', flush=True)

    def end(self):
        """Prints the summary. Returns the exit status."""
        print(
            f'test result: {"FAILED" if self.failed else "ok"}. {self.passed} passed; {self.failed}'
            f' failed; {self.skipped} ignored; finished in {time.monotonic() - self.started:.0f}s',
            flush=True,
        )
        return 1 if self.failed else 0


def indented(text):
    return ''.join(f'        {line}\n' for line in str(text).strip().split('\n'))

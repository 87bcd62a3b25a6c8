"""Reads waivers.txt: the records whose results are known to differ, with reasons.

    = A reason, in a sentence.
    evidence/slt_lang_droptrigger.test          every record of a script
    evidence/in1.test:345,350                   the records that begin in these lines
    random/groupby/* ^SELECT DISTINCT           the records of these scripts whose text matches

A record that is waived and passes is a failure: then the waiver goes.
"""

import fnmatch
import os
import re

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'waivers.txt')


class Waivers:
    def __init__(self, path=FILE):
        self.rules, self.reasons = [], []
        with open(path, encoding='utf-8') as f:
            for line in f:
                line = line.strip()
                if line.startswith('= '):
                    self.reasons.append(line[2:])
                elif line and not line.startswith('#'):
                    scripts, _, pattern = line.partition(' ')
                    scripts, _, at = scripts.partition(':')
                    lines = frozenset(map(int, at.split(','))) if at else None
                    pattern = re.compile(pattern.strip().encode()) if pattern else None
                    self.rules.append((scripts, lines, pattern, len(self.reasons) - 1))

    def of(self, script):
        """A function that gives the number of the reason why a record is waived, or None."""
        rules = [rule for rule in self.rules if fnmatch.fnmatchcase(script, rule[0])]

        def reason(record):
            for _, lines, pattern, number in rules:
                if lines and record.line not in lines:
                    continue
                if not pattern or pattern.search(record.sql):
                    return number
            return None

        return reason

#!/usr/bin/env python3
"""Runs SQLite's sqllogictest corpus, in its reading for MySQL.

  tests/logic.py                            the sample
  tests/logic.py --all                      each of the 5.7 million queries
  tests/logic.py --all random/expr select4  the scripts whose names contain these
  tests/logic.py --server mariadb evidence/in1

Each script runs in a database of its own. What is known to differ is in tests/corpus/waivers.txt
with its reason. The run fails if another record differs, if a waived record does not differ, or if
an answer takes ANSWER_S. Queries that take SLOW_S are shown. LOGIC_CORPUS names a folder with other
scripts.

The sample has the scripts outside `index` and `random` as they are. Of each folder in these two it
has every sixth script, with all statements that are no queries and with every eighth query,
beginning with a query that the script's name selects.
"""

import argparse
import collections
import json
import multiprocessing
import os
import sys
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from corpus import compare, pipe, records, source, waivers  # noqa: E402
from rig import servers  # noqa: E402
from rig.client import Connection  # noqa: E402

SCRIPTS, QUERIES = 6, 8
SAMPLED = ('index/', 'random/')
# Sessions at once: while Python reads one answer, the server calculates others.
JOBS = 4
SHOWN, SHOWN_OF_SCRIPT = 40, 5
SLOW_S = 1.0
ANSWER_S = 60
# The corpus is from a time when MySQL's sql_mode was empty.
SETUP = "SET sql_mode = '', autocommit = 0"


class Outcome:
    """What a script gave."""

    def __init__(self, name):
        self.name, self.queries, self.passed, self.seconds = name, 0, 0, 0.0
        self.failures, self.waived, self.slow = [], collections.Counter(), []

    @property
    def folder(self):
        return os.path.dirname(self.name) or self.name

    def count(self, record, reason, complaint, answer):
        self.queries += record.types is not None
        if record.types and answer.seconds > SLOW_S:
            self.slow.append((record.line, answer.seconds, text(record)))
        if complaint and reason is not None:
            self.waived[reason] += 1
        elif complaint:
            self.failures.append((record.line, complaint, text(record)))
        elif reason is not None:
            self.failures.append((record.line, 'is waived, but passes', text(record)))
        else:
            self.passed += 1


def text(record):
    return record.sql.decode('utf-8', 'replace')


def sampled_scripts(names):
    """Every n-th script of each folder, beginning with the first."""
    seen = collections.Counter()
    for name in names:
        folder = os.path.dirname(name)
        if not name.startswith(SAMPLED) or seen[folder] % SCRIPTS == 0:
            yield name
        seen[folder] += 1


def sampled_queries(found, name):
    """All statements, and every n-th query."""
    number = zlib.crc32(name.encode())
    for record in found:
        number += record.types is not None
        if record.types is None or number % QUERIES == 0:
            yield record


def run_script(job):
    name, socket, is_sample = job
    outcome, began = Outcome(name), time.monotonic()
    connection = Connection(socket=socket, timeout=ANSWER_S)
    schema = 'logic_' + name.removesuffix('.test').replace('/', '_')
    for sql in (
        f'DROP DATABASE IF EXISTS {schema}', f'CREATE DATABASE {schema}', f'USE {schema}', SETUP,
    ):  # fmt: skip
        connection.query(sql)
    through, waived, labels = pipe.Pipe(connection), waivers.Waivers().of(name), {}
    try:
        found = records.read(source.corpus().read(name))
        if is_sample and name.startswith(SAMPLED):
            found = sampled_queries(found, name)
        for batch in pipe.batches(found):
            answers = through.answers([record.sql for record in batch])
            for record, answer in zip(batch, answers):
                complaint = compare.complaint(record, answer, labels)
                outcome.count(record, waived(record), complaint, answer)
        for answer in through.answers([b'DROP DATABASE ' + schema.encode()]):
            if answer.error:
                outcome.failures.append((0, str(answer.error), 'DROP DATABASE'))
    except (OSError, records.Malformed) as e:
        outcome.failures.append((0, f'{type(e).__name__}: {e}', 'the rest of the script'))
    connection.close()
    outcome.seconds = time.monotonic() - began
    return outcome


def show(outcome, left):
    for line, complaint, sql in outcome.failures[: min(left, SHOWN_OF_SCRIPT)]:
        print(f'FAILED  {outcome.name}:{line}: {complaint[:400]}\n        {sql[:600]}', flush=True)
    for line, seconds, sql in outcome.slow[:SHOWN_OF_SCRIPT]:
        print(f'SLOW    {outcome.name}:{line}: {seconds:.1f} s\n        {sql[:1500]}', flush=True)


def summary(outcomes):
    folders = collections.defaultdict(list)
    for outcome in outcomes:
        folders[outcome.folder].append(outcome)
    print(f'\n{"folder":28}{"queries":>9}{"passed":>9}{"waived":>8}{"failed":>8}{"seconds":>9}')
    for folder, parts in sorted(folders.items()):
        waived = sum(sum(o.waived.values()) for o in parts)
        print(
            f'{folder:28}{sum(o.queries for o in parts):9}{sum(o.passed for o in parts):9}'
            f'{waived:8}{sum(len(o.failures) for o in parts):8}'
            f'{sum(o.seconds for o in parts):9.1f}'
        )
    reasons = sum((o.waived for o in outcomes), collections.Counter())
    for number, count in reasons.items():
        print(f'{count} waived: {waivers.Waivers().reasons[number]}')


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('names', nargs='*', help='parts of the names of scripts; all without')
    p.add_argument('--all', action='store_true', help='every query')
    p.add_argument('--jobs', type=int, default=JOBS)
    p.add_argument('--failures', metavar='FILE', help='writes each failure as a line of JSON')
    servers.add_arguments(p)
    a = p.parse_args()
    try:
        names = source.corpus().names()
    except source.OutOfReach as e:
        print(f'not run: {e}\ntest result: ok. 0 passed; 0 failed; 1 ignored')
        return 0
    if not a.all:
        names = sampled_scripts(names)
    # Those at the end, of joins of many tables, take longest.
    names = [n for n in names if not a.names or any(x in n for x in a.names)][::-1]
    if not names:
        sys.exit('no such script')
    began, outcomes, left = time.monotonic(), [], SHOWN
    log = open(a.failures, 'w') if a.failures else None
    # Nothing is lost here that a commit has to wait for.
    with servers.make(a, servers.scratch('logic'), innodb_flush_log_at_trx_commit=0) as server:
        with multiprocessing.Pool(a.jobs) as pool:
            jobs = [(name, server.socket, not a.all) for name in names]
            for outcome in pool.imap_unordered(run_script, jobs):
                outcomes.append(outcome)
                show(outcome, left)
                left = max(0, left - len(outcome.failures))
                for failure in outcome.failures if log else ():
                    log.write(json.dumps([outcome.name, *failure]) + '\n')
        cpu, alive = server.cpu_s(), server.alive()
    summary(outcomes)
    failed = sum(len(o.failures) for o in outcomes) + (not alive)
    queries, slow = (sum(x) for x in zip(*((o.queries, len(o.slow)) for o in outcomes)))
    print(
        f'{queries} queries; {slow} slow; CPU of the server {cpu:.0f} s\n'
        f'test result: {"FAILED" if failed else "ok"}.'
        f' {sum(o.passed for o in outcomes)} passed; {failed} failed;'
        f' {sum(sum(o.waived.values()) for o in outcomes)} ignored;'
        f' finished in {time.monotonic() - began:.0f}s'
    )
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

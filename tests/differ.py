#!/usr/bin/env python3
"""Runs random statements on Redolith and on MariaDB. Rows, types, errors and counts must be equal.

  tests/differ.py                          a short run with a fixed seed, as `make test` does
  tests/differ.py --seconds 3600 --seed 7  a long one
  tests/differ.py --seed 7 --round 12      one round again (a round makes tables, and runs
                                           statements on them)
  tests/differ.py --wild                   with combinations in which MariaDB is known to have rules
                                           of its own
  tests/differ.py --only tlp,norec,keys    against Redolith alone: no MariaDB is started

The oracles of a round:
  mariadb   each statement as text on both servers
  prepared  each statement as a prepared statement with its literals as parameters, against its text
  keys      a query of the table with keys, against the same rows without keys
  tlp       WHERE p, NOT p and p IS NULL give all rows together (Rigger and Su, OOPSLA 2020)
  norec     WHERE p counts what evaluating p for each row counts (Rigger and Su, ESEC/FSE 2020)

A difference is reduced and printed as statements that show it. A known and intended difference
passes by a rule of differential/rules.py, or because MariaDB gives the same answer to a rewritten
statement. Such differences are counted. The exit status says whether there was any other.
"""

import argparse
import collections
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from differential import rules  # noqa: E402
from differential.answers import prepared, same_rows, text  # noqa: E402
from differential.statements import Statements  # noqa: E402
from differential.tables import Table  # noqa: E402
from differential.tree import shrink  # noqa: E402
from rig import servers  # noqa: E402
from rig.client import Connection, MySQLError  # noqa: E402

STRICT = (
    'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,'
    'NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'
)
# Without ONLY_FULL_GROUP_BY, each server could choose the row of a group that is shown.
MODES = [STRICT, STRICT] + [
    'ONLY_FULL_GROUP_BY' + more
    for more in (
        '',
        ',STRICT_ALL_TABLES',
        ',NO_UNSIGNED_SUBTRACTION',
        ',STRICT_TRANS_TABLES,NO_ZERO_DATE',
        ',ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_IN_DATE',
    )
]
STATEMENTS_A_ROUND = 60
TRIES = 250  # to reduce a difference
SCHEMA = 'differ'


# The statements that change `t`.
CHANGES = ('insert', 'update', 'delete', 'update_many', 'delete_many', 'copy')


class Side:
    """A server and a connection, which is made again after a statement has ended it."""

    def __init__(self, server):
        self.server, self.connection = server, None

    def open(self, mode):
        if self.connection is None:
            self.connection = Connection(
                socket=self.server if isinstance(self.server, str) else self.server.socket,
                timeout=60,
            )
        c = self.connection
        # MySQL rounds fractions of seconds. MariaDB does so only with this mode.
        more = ',TIME_ROUND_FRACTIONAL' if mode and 'MariaDB' in c.version else ''
        c.query(
            "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci, time_zone = '+00:00', sql_mode ="
            f" '{mode}{more}'"
        )
        if 'MariaDB' in c.version:
            # The cache takes the rows that are equal in a collation for one, whatever collation the
            # subquery's comparison has.
            c.query("SET optimizer_switch = 'subquery_cache=off'")
            # The default is that of MySQL here.
            c.query('SET group_concat_max_len = 1024')
        c.query(
            f'CREATE DATABASE IF NOT EXISTS {SCHEMA} CHARACTER SET utf8mb4 COLLATE'
            ' utf8mb4_general_ci'
        )
        c.query(f'USE {SCHEMA}')
        return c

    def make(self, mode, tables):
        """Makes fresh tables. `tables` has CREATE TABLE and INSERT of each."""
        c = self.open('')
        c.query(f'DROP DATABASE {SCHEMA}')
        c = self.open('')
        for statement in tables:
            c.query(statement)
        return self.open(mode)


class Finding(Exception):
    pass


class Round:
    def __init__(self, run, seed, number):
        self.run, self.number = run, number
        self.random = random.Random(f'{seed} {number}')
        self.t, self.u = (
            Table(self.random, 't', self.random.randint(5, 12), run.wild),
            Table(self.random, 'u', self.random.randint(4, 8), run.wild),
        )
        self.mode = self.random.choice(MODES)
        self.statements = Statements(self.random, self.t, self.u, run.wild)
        # Statements for Redolith alone may have any form.
        self.conditions = Statements(self.random, self.t, self.u, True)

    def setup(self, only=None, rows=None):
        t, u = self.t, self.u
        out = []
        for table, name, keys in ((t, 't', True), (t, 'n', False), (u, 'u', True)):
            kept = table.rows if rows is None else rows[table.name]
            out.append(table.ddl(name, keys, only))
            if kept:
                out.append(table.insert(name, kept, only))
        return out

    def go(self, count):
        """Makes the tables and runs `count` statements of all kinds."""
        self.make_tables()
        makers = [
            ('constants', 2),
            ('rows', 6),
            ('groups', 4),
            ('concats', 2),
            ('join', 3),
            ('joins', 5),
            ('rollup', 2),
            ('subselect', 2),
            ('correlated', 3),
            ('union', 3),
            ('set_operation', 4),
            ('recursion', 2),
            ('windows', 4),
            ('insert', 4),
            ('update', 3),
            ('delete', 1),
            ('update_many', 3),
            ('delete_many', 1),
            ('copy', 2),
        ]
        names, weights = [n for n, _ in makers], [w for _, w in makers]
        for _ in range(count):
            name = self.random.choices(names, weights)[0]
            node = getattr(self.statements, name)()
            self.check(name, node)
            if 'tlp' in self.run.only and self.random.random() < 0.25:
                self.look('tlp', self.conditions.condition(self.conditions.one, 3), self.tlp)
            if 'norec' in self.run.only and self.random.random() < 0.25:
                self.look('norec', self.conditions.condition(self.conditions.one, 3), self.norec)

    def make_tables(self, only=None, rows=None):
        for side in self.run.sides:
            side.make(self.mode, self.setup(only, rows))

    def check(self, name, node):
        self.run.statements += 1
        changes = name in CHANGES
        if 'mariadb' in self.run.only:
            self.look(
                'mariadb', node, self.against_mariadb_changing if changes else self.against_mariadb
            )
        if 'prepared' in self.run.only and self.random.random() < 0.5:
            self.look(
                'prepared',
                node,
                self.against_prepared_changing if changes else self.against_prepared,
            )
        if (
            'keys' in self.run.only
            and not changes
            and name != 'constants'
            and ' FROM t' in node.text()
        ):
            self.look('keys', node, self.against_keys)

    def look(self, what, node, oracle):
        """Asks an oracle. A difference is reduced and kept."""
        said = oracle(node)
        self.run.asked[what] += 1
        if said is None:
            return
        kind, rule = said[0], said[-1]
        if rule:
            self.run.passed[rule] += 1
            return
        self.run.found += 1
        if self.run.found <= self.run.most:

            def still(n):
                again = oracle(n)
                return again is not None and again[0] == kind and not again[-1]

            shrink(node, still, TRIES)
            self.fewer_rows(node, still)
            said = oracle(node) or said
            self.run.report(self, what, node, said)
            self.make_tables()

    def fewer_rows(self, node, still):
        """Keeps only the columns that the statement names and the rows that are needed."""
        words = set(
            node.text()
            .replace('.', ' ')
            .replace('(', ' ')
            .replace(')', ' ')
            .replace(',', ' ')
            .split()
        )
        only = {n for n in [*self.t.columns, *self.u.columns] if n in words}
        rows = {'t': list(self.t.rows), 'u': list(self.u.rows)}
        self.kept = (None, rows)
        try:
            self.make_tables(only, rows)
            if not still(node):
                only = None
                self.make_tables()
            for name in rows:
                step = max(len(rows[name]) // 2, 1)
                while step:
                    at = 0
                    while at < len(rows[name]):
                        fewer = {**rows, name: rows[name][:at] + rows[name][at + step :]}
                        self.make_tables(only, fewer)
                        if still(node):
                            rows = fewer
                        else:
                            at += step
                    step //= 2
            self.make_tables(only, rows)
            self.kept = (only, rows)
        except MySQLError as e:
            print('while making it smaller:', e)

    # ---- oracles: None, or (what differs, theirs, ours, the rule that lets it pass)

    def compared(self, sql, theirs, ours, ordered, warnings=False):
        kind = rules.differs(sql, theirs, ours, ordered, same_rows, warnings)
        return kind and (kind, theirs, ours, rules.known(sql, theirs, ours))

    def ask(self, side, sql, values=None):
        c = side.connection or side.open(self.mode)
        try:
            return text(c, sql) if values is None else prepared(c, sql, values)
        except (OSError, AssertionError) as e:
            side.connection = None
            raise Finding(f'{type(e).__name__} {e} after {sql} {values}') from e

    def against_mariadb(self, node):
        sql = node.text()
        theirs, ours = (self.ask(side, sql) for side in self.run.sides)
        ordered = ' ORDER BY ' in sql
        said = self.compared(sql, theirs, ours, ordered)

        def same(other):
            again = self.ask(self.run.sides[0], other)
            return not again.error and rules.differs(sql, again, ours, ordered, same_rows) in (
                None,
                'types',
            )

        return self.explained(sql, said, same)

    def explained(self, sql, said, same):
        """True if MariaDB gives the same answer to a rewritten statement."""
        return said if said is None or said[-1] else (*said[:-1], rules.rewritten(sql, same))

    def changed(self, side, sql, values=None):
        """The answer to a change and the table after it. The change is rolled back."""
        self.ask(side, 'BEGIN')
        said = self.ask(side, sql, values)
        table = self.ask(side, 'SELECT * FROM t ORDER BY id')
        self.ask(side, 'ROLLBACK')
        return said, table

    def against_mariadb_changing(self, node):
        sql = node.text()
        (theirs, their_table), (ours, our_table) = (
            self.changed(side, sql) for side in self.run.sides
        )
        # The warnings of the change also explain the table.
        their_table.warnings, our_table.warnings = theirs.warnings, ours.warnings
        said = self.compared(sql, theirs, ours, False, self.run.warnings) or (
            None if theirs.error else self.compared(sql, their_table, our_table, True)
        )

        def same(other):
            again, table = self.changed(self.run.sides[0], other)
            return rules.differs(sql, again, ours, False, same_rows) is None and (
                again.error or rules.differs(sql, table, our_table, True, same_rows) is None
            )

        return self.explained(sql, said, same)

    def marked(self, node):
        values = []
        return node.text(values), values

    def against_prepared(self, node):
        return self.parameters(node, lambda side, *statement: (self.ask(side, *statement), None))

    def against_prepared_changing(self, node):
        return self.parameters(node, self.changed)

    def parameters(self, node, ask):
        """Compares the text with parameters. Parameters may differ from literals: if MariaDB gives
        the same answer for parameters as Redolith, both are right.
        """
        sql, (marked, values) = node.text(), self.marked(node)
        ordered, side = ' ORDER BY ' in sql, self.run.sides[-1]
        as_text, as_prepared = ask(side, sql), ask(side, marked, values)
        said = self.parameters_differ(sql, as_text, as_prepared, ordered)
        if said and not said[-1] and len(self.run.sides) > 1:
            theirs = ask(self.run.sides[0], marked, values)
            if self.parameters_differ(sql, theirs, as_prepared, ordered) is None:
                return (*said[:-1], 'parameters-are-not-literals')
        return said

    def parameters_differ(self, sql, one, other, ordered):
        (a, table), (b, other_table) = one, other
        said = self.compared(sql, a, b, ordered) or (
            self.compared(sql, table, other_table, True) if table and not a.error else None
        )
        # Each server may derive its own type from a parameter.
        return None if said and said[0] == 'types' else said

    def against_keys(self, node):
        sql = node.text()
        other = sql.replace(' FROM t', ' FROM n').replace(' JOIN t ', ' JOIN n ')
        side = self.run.sides[-1]
        a, b = self.ask(side, sql), self.ask(side, other)
        if ' LIMIT ' in sql and ' ORDER BY ' not in sql:
            return None
        if a.error or b.error:  # rows that are not read cannot fail
            return None
        return self.compared(sql, b, a, ' ORDER BY ' in sql)

    def tlp(self, node):
        side, p = self.run.sides[-1], node.text()
        parts = [
            self.ask(side, f'SELECT id FROM t WHERE {q}')
            for q in (p, f'NOT ({p})', f'({p}) IS NULL')
        ]
        if any(a.error for a in parts):
            return None
        got = sorted(row for a in parts for row in a.rows)
        whole = self.ask(side, 'SELECT id FROM t')
        return None if got == sorted(whole.rows) else ('partition', *parts[:2], None)

    def norec(self, node):
        side, p = self.run.sides[-1], node.text()
        a = self.ask(side, f'SELECT COUNT(*) FROM t WHERE {p}')
        b = self.ask(side, f'SELECT ({p}) IS TRUE FROM n')
        if a.error or b.error:
            return None
        return (
            None
            if int(a.rows[0][0]) == sum(row[0] == b'1' for row in b.rows)
            else ('count', a, b, None)
        )


class Run:
    def __init__(self, a, sides):
        self.sides, self.only, self.most, self.warnings, self.wild = (
            sides,
            set(a.only.split(',')),
            a.most,
            a.warnings,
            a.wild,
        )
        self.seed, self.statements, self.found = a.seed, 0, 0
        self.asked, self.passed, self.reports = collections.Counter(), collections.Counter(), []

    def report(self, round, what, node, said):
        """Prints the statements that show the difference, and the answers."""
        only, rows = round.kept
        sql, both = node.text(), what in ('tlp', 'norec', 'keys')
        print(f'\n==== {what}: {said[0]} differ (round {round.number} of seed {self.seed})')
        print(f"SET sql_mode = '{round.mode}';")
        for statement in round.setup(only, rows):
            name = re.match(r'(?:CREATE TABLE|INSERT INTO) (\w)', statement)[1]
            if re.search(rf'\b{name}\b', sql) or both and name != 'u':
                print(statement + ';')
        print(sql + ';')
        for name, answer in zip(['expected', 'got'], said[1:3]):
            print(f'  {name}: {answer.shown(12)}')
        sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--round', type=int, help='only this one')
    p.add_argument('--rounds', type=int, default=0, help='so many, whatever time they take')
    p.add_argument('--seconds', type=int, default=40)
    p.add_argument('--only', default='mariadb,prepared,keys,tlp,norec')
    p.add_argument('--most', type=int, default=20, help='differences that are made small and shown')
    p.add_argument(
        '--warnings', action='store_true', help='compare the numbers of warnings of changes, too'
    )
    p.add_argument(
        '--wild',
        action='store_true',
        help=(
            'combinations, too, that are left out because MariaDB and MySQL are known to differ'
            ' (differential/expressions.py)'
        ),
    )
    p.add_argument('--binary', help='the redolith to test (default: the release build)')
    p.add_argument('--sockets', help='MARIADB,REDOLITH: servers that are running already')
    a = p.parse_args()
    if a.sockets:
        return run(a, [Side(s) for s in a.sockets.split(',')])
    scratch = servers.scratch('differ')
    redolith = servers.Redolith(os.path.join(scratch, 'redolith'), binary=a.binary)
    if not set(a.only.split(',')) & {'mariadb', 'prepared'}:
        with redolith:
            return run(a, [Side(redolith)])
    with (
        redolith,
        servers.MariaDB(
            os.path.join(scratch, 'mariadb'),
            {
                'innodb_flush_log_at_trx_commit': 0,
                'innodb_buffer_pool_size': '64M',
                'character_set_server': 'utf8mb4',
            },
        ) as mariadb,
    ):
        return run(a, [Side(mariadb), Side(redolith)])


def numbers(a):
    """The numbers of the rounds: one, a fixed count, or as many as the time permits."""
    if a.round:
        yield a.round
        return
    number, end = 0, time.monotonic() + a.seconds
    while number < a.rounds if a.rounds else time.monotonic() < end:
        number += 1
        yield number


def run(a, sides):
    r, rounds, failed, started = Run(a, sides), 0, 0, time.monotonic()
    for number in numbers(a):
        rounds += 1
        round = Round(r, a.seed, number)
        try:
            round.go(STATEMENTS_A_ROUND)
        except (Finding, MySQLError) as e:
            failed += 1
            print(f'\n==== round {round.number}: {type(e).__name__} {e}', flush=True)
            for side in sides:
                side.connection = None
    print(
        f'\n{rounds} rounds of seed {a.seed}: {r.statements} statements; asked {dict(r.asked)};'
        f' known and meant: {dict(r.passed)}; found: {r.found}'
    )
    failed += r.found
    print(
        f'test result: {"FAILED" if failed else "ok"}. {sum(r.asked.values()) - failed} passed;'
        f' {failed} failed; {sum(r.passed.values())} ignored; finished in'
        f' {time.monotonic() - started:.0f}s'
    )
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

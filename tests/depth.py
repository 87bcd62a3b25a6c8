#!/usr/bin/env python3
"""Runs statements whose trees have the greatest permitted height, and higher ones, as text and
prepared, on a server whose threads have half the default stack (`thread_stack`).

  tests/depth.py

A statement that is too high or too wide has to be refused by MySQL's error number, and the greatest
one that is not refused has to run. A stack that is too small ends the server.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers  # noqa: E402
from rig.client import MySQLError, outcome  # noqa: E402
from rig.report import Report  # noqa: E402

STACK = '16M'
# The tree of the statement is too high: ER_STACK_OVERRUN_NEED_MORE.
TOO_HIGH = 1436
OVERFLOW = ' + 9223372036854775807'
# Statements with a row of links: the text before the row, its first term, each further link, and
# the text after the row.
ROWS = [
    ('SELECT ', '1', '+1', ''),
    ('SELECT ', '1', ' XOR 1', ''),
    ('SELECT ', '1', '=1', ''),
    ('SELECT ', '1', ' IS NULL', ''),
    ('SELECT ', '1', ' IS TRUE', ''),
    ('SELECT ', "'a'", ' COLLATE utf8mb4_bin', ''),
    ('SELECT ', "'2020-01-01'", ' + INTERVAL 1 DAY', ''),
    # The statement is evaluated: it fails at its last term.
    ('SELECT ', '1', '+1', OVERFLOW),
    ('SELECT id FROM t WHERE ', 'id', '+1', ' > 3 ORDER BY k'),
    ('SELECT id FROM t ORDER BY ', 'id', '+1', ''),
    ('SELECT ', 'id', '+1', ' AS x, SUM(k) FROM t GROUP BY x HAVING x + 1 > 3 ORDER BY x + 1'),
    ('SELECT SUM(', 'k', '+1', ') AS x FROM t HAVING x > 3'),
    ('INSERT INTO t (k) VALUES (', '1', '+1', ')'),
    ('INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE k = ', 'k', '*1', ''),
    ('UPDATE t SET k = ', 'k', '*1', ''),
    ('DELETE FROM t WHERE ', 'k', '+1', ' < 0'),
]
SUMS = '1+1+1+1+1+1+1+1+1+1+1+1+1'
# Statements of levels: the text before them, the text that opens a level, the innermost text, and
# the text that closes a level.
LEVELS = [
    ('SELECT ', '(', '1', ')'),
    ('SELECT ', '- ', '1', ''),
    ('SELECT ', '1+(', '1', ')'),
    ('SELECT ', f'({SUMS}+', '1', f')+{SUMS}'),
    ('SELECT ', 'UPPER(', "'a'", ')'),
    ('SELECT ', 'EXTRACT(DAY_MICROSECOND FROM ', "'2020-01-01 00:00:00'", ')'),
    ('SELECT ', 'COALESCE(NULL,', "'a'", ')'),
    ('SELECT ', 'IF(1,', "'a'", ',2)'),
    ('SELECT ', 'CASE WHEN 1 THEN ', "'a'", ' END'),
    ('SELECT ', 'CAST(', "'a'", ' AS CHAR)'),
    ('SELECT ', '(SELECT ', '1', ')'),
    ('SELECT * FROM ', '(SELECT * FROM ', 't', ') d'),
    ('SELECT 1 FROM t WHERE ', 'EXISTS (SELECT 1 FROM t WHERE ', '1', ')'),
    ('SELECT 1 FROM t WHERE ', '1 IN (SELECT id FROM t WHERE ', '1', ')'),
    ('SELECT 1 FROM t WHERE ', 'EXISTS (SELECT 1 FROM t d WHERE d.id = t.id AND ', '1', ')'),
    ('SELECT 1 FROM t WHERE ', 't.k IN (SELECT d.k FROM t d WHERE d.id >= t.id AND ', '1', ')'),
    ('SELECT 1 FROM t WHERE ', 't.k = (SELECT MAX(t.id + d.k) FROM t d WHERE ', '1', ')'),
    ('SELECT 1 FROM t WHERE ', 'id IN (1,2,', '1', ')'),
    ('SELECT 1 FROM t WHERE ', '1 BETWEEN 0 AND ', '1', ''),
    ('SELECT 1 FROM t WHERE ', 'NOT ', '1', ''),
    ('', '(', 'SELECT 1', ')'),
]


def expect(c, sql, code):
    got = outcome(c.query, sql)
    assert got == code, f'{sql[:100]}: {got}, not {code}'


def greatest(c, statement):
    """The size of the greatest of these statements that is accepted. It runs, and the next greater
    one is refused.
    """

    def accepted(n):
        try:
            c.close_statement(c.prepare(statement(n)))
            return True
        except MySQLError as e:
            assert e.code == TOO_HIGH, f'{statement(1)}: {e}'
            return False

    good, bad = 1, 8192
    assert accepted(good) and not accepted(bad), statement(good)
    while bad - good > 1:
        middle = (good + bad) // 2
        if accepted(middle):
            good = middle
        else:
            bad = middle
    text = statement(good)
    wanted = 1690 if OVERFLOW in text else 0
    expect(c, text, wanted)
    prepared = c.prepare(text)
    got = outcome(c.execute, prepared)
    assert got == wanted, f'{statement(1)}, prepared: {got}, not {wanted}'
    c.close_statement(prepared)
    expect(c, statement(bad), TOO_HIGH)
    return good


def rows(c):
    """A row of links has 450 links at least."""
    for before, first, link, after in ROWS:
        n = greatest(c, lambda n: before + first + link * n + after)
        assert n >= 450, f'{before}{first}{link}: {n}'


def levels(c):
    """A statement has 35 levels at least."""
    for before, opens, inner, closes in LEVELS:
        n = greatest(c, lambda n: before + opens * n + inner + closes * n)
        assert n >= 35, f'{before}{opens}: {n}'


def rows_in_rows(c):
    """Heights of rows within each other add up."""
    nested = '1'
    for _ in range(100):
        nested = f'({nested}{"+1" * 900})'
    expect(c, f'SELECT {nested}', TOO_HIGH)
    expect(c, f"SELECT 'a'{' COLLATE binary' * 50_000}", TOO_HIGH)
    # So do orders of rows, of which each column is a level or two, and names of names.
    for links, code in ((1, 0), (2, 0), (3, 0), (16, TOO_HIGH), (120, TOO_HIGH)):
        ordered, before, after = '1', '(' + '0,' * 999, ')<(' + '0,' * 999 + '0)'
        expect(c, f'SELECT {before * links}{ordered}{after * links}', code)
    for links, code in ((1, 0), (2, 0), (16, TOO_HIGH)):
        named = [f'(SELECT a{n}){"+1" * 3000} AS a{n + 1}' for n in range(links)]
        expect(c, f'SELECT 1 AS a0, {", ".join(named)}', code)
    # A value that names a column does not include the tree of that column's value.
    c.query('CREATE TABLE w (a INT, b INT, c INT, d INT)')
    row = '+1' * 1600
    c.query(f'INSERT INTO w VALUES (1{row}, a{row}, 1, 1)')
    c.query(f'INSERT INTO w VALUES (1{row}, a{row}, b{row}, c{row})')
    assert c.value('SELECT COUNT(*) FROM w WHERE a = 1601 AND b = 3201') == '2'
    # The statement is refused because of its grammar, not because of its length.
    expect(c, f'SELECT 1 FROM t {"NATURAL " * 100_000} JOIN t u', 1064)


def flat(c):
    """Terms of AND, OR, ||, IN and of a call are no levels."""

    def of(n, word, term):
        return word.join([term] * n)

    for sql, answer in [
        (f'SELECT id FROM t WHERE {of(4000, " OR ", "id = 2")}', '2'),
        (f'SELECT id FROM t WHERE {of(4000, " AND ", "id = 2")}', '2'),
        (f'SELECT id FROM t WHERE id IN ({of(9000, ",", "2")})', '2'),
        (f"""SELECT LENGTH({of(20_000, '||', "'ab'")})""", '40000'),
        (f"""SELECT LENGTH({of(5000, '||', "'ab' COLLATE utf8mb4_bin")})""", '10000'),
        (f"""SELECT LENGTH(CONCAT({of(255, ',', "'ab'")}))""", '510'),
    ]:
        got = c.value(sql)
        assert got == answer, f'{sql[:60]}: {got}'
    expect(c, f'SELECT 1 WHERE {of(20_000, " OR ", "1")}', TOO_HIGH)


def copies(c):
    """Names of other parts of the statement do not turn a short text into a large tree."""
    c.query(f'CREATE TABLE doubled ({", ".join(f"c{n} DOUBLE" for n in range(60))})')
    for columns in (8, 60):
        names = ', '.join(f'c{n}' for n in range(columns))
        values = ''.join(f', c{n} + c{n}' for n in range(columns - 1))
        c.query(f'INSERT INTO doubled ({names}) VALUES (1{values})')
    assert c.rows('SELECT c6, c7, c8 FROM doubled LIMIT 1') == [(b'64', b'128', None)]
    assert c.value('SELECT c59 = POW(2, 59) FROM doubled WHERE c59 > 0') == '1'

    def having(names):
        listed = ', '.join(['x'] * names)
        return f'SELECT id{"+k" * 300} AS x FROM t HAVING x IN ({listed}) LIMIT 1'

    assert len(c.rows(having(20))) == 1
    expect(c, having(2000), TOO_HIGH)


def counts(c):
    """Numbers of parts do not wrap."""

    def listed(part):
        return ','.join([part] * (1 << 16))

    expect(c, f'SELECT 1 IN ({listed("(SELECT 2)")})', TOO_HIGH)
    expect(c, f'SELECT {listed("1")}', 1117)

    def conditions(n):
        exists = 'EXISTS (SELECT 1 FROM t d WHERE d.k = t.k)'
        return f'SELECT id FROM t WHERE {" AND ".join([exists] * n)}'

    assert c.rows(conditions(1000)) == [(b'1',), (b'2',), (b'3',)]
    expect(c, conditions(1001), 1235)
    expect(c, conditions(10_000), 1235)


def errors(c):
    """An error in the innermost of many levels is told soon."""
    levels = 30
    opens = 'SELECT 1 FROM t RIGHT JOIN LATERAL (' * levels
    closes = ') d ON TRUE' * levels
    expect(c, f'{opens}SELECT nothing FROM t{closes}', 1054)


def views(c):
    """Views in views end somewhere (VBIND-3)."""
    for select in ('SELECT id FROM', 'SELECT id + 1 AS id FROM', 'SELECT MAX(id) AS id FROM'):
        c.query(f'CREATE OR REPLACE VIEW v0 AS {select} t')
        for n in range(1, 1000):
            made = outcome(c.query, f'CREATE OR REPLACE VIEW v{n} AS {select} v{n - 1}')
            if made:
                break
        assert made == TOO_HIGH and 60 <= n < 200, f'{n} of {select}: {made}'
        assert int(c.value(f'SELECT COUNT(*) FROM v{n - 1}')) in (1, 3)
        # A long chain of expressions in the place of a column.
        c.query(f'SELECT id FROM v{n - 1} WHERE id{"+1" * 900} > 0')


def main():
    report = Report()
    with servers.Redolith(servers.scratch('depth'), {'thread_stack': STACK}) as server:
        assert server.connect().value('SELECT @@thread_stack') == str(16 << 20)
        for test in (rows, levels, rows_in_rows, flat, copies, counts, errors, views):
            c = server.connect(timeout=120)
            try:
                c.query(
                    'DROP DATABASE IF EXISTS deep; CREATE DATABASE deep; USE deep; CREATE TABLE t'
                    ' (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, c'
                    ' VARCHAR(20), KEY (k)); INSERT INTO t (k, c) VALUES (5, \'a\'), (6,'
                    " 'it''s'), (7, NULL)"
                )
                c.query("SET sql_mode = 'PIPES_AS_CONCAT,STRICT_ALL_TABLES'")
                test(c)
                report.ok(test.__doc__.split('.')[0].replace('\n    ', ' '))
            except (AssertionError, OSError, MySQLError) as e:
                report.fail(test.__name__, f'{type(e).__name__}: {e}\n{server.last_words()}')
                server.kill()
                server.start()
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

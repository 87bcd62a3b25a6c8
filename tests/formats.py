#!/usr/bin/env python3
"""Opens, reads, writes and opens again the directories that earlier releases have made.

  tests/formats.py                         every directory in tests/formats
  tests/formats.py --make NAME --binary B  makes tests/formats/NAME-clean.tar.gz and
                                           NAME-killed.tar.gz with the program B

Each release that changes the format adds an archive of a directory, which is kept forever.
"""

import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import check, servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'formats')
SETTINGS = dict(
    innodb_buffer_pool_size='16M', innodb_redo_log_capacity='8M', innodb_log_buffer_size='1M'
)
# Tables with every kind of column, index, default and long value.
TABLES = {
    'types': (
        """CREATE TABLE types (id INT AUTO_INCREMENT PRIMARY KEY, t TINYINT UNSIGNED ZEROFILL,
                b BIGINT UNSIGNED, d DECIMAL(20,5), f FLOAT, g DOUBLE(8,3),
                c CHAR(5) CHARACTER SET latin1, v VARCHAR(50) NOT NULL DEFAULT 'it''s',
                x TEXT, y VARBINARY(9), z LONGBLOB, da DATE, ti TIME(3),
                dt DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
                ts TIMESTAMP NULL, ye YEAR, bi BIT(12),
                e ENUM('a','b','') , s SET('p','q','r'), ex INT DEFAULT (1 + 2), h INT INVISIBLE,
                UNIQUE KEY u (v, b), KEY k (c DESC, da))
                COMMENT='every type'"""
    ),
    'plain': 'CREATE TABLE plain (a INT, b VARCHAR(20) COLLATE utf8mb4_bin, KEY (b))',
    'many': 'CREATE TABLE many (id INT PRIMARY KEY, k INT NOT NULL, pad CHAR(100), KEY k (k))',
}
QUERIES = [
    'SELECT * FROM types ORDER BY id',
    'SELECT id, h FROM types ORDER BY id',
    'SELECT id, v FROM types WHERE v >= "a" ORDER BY v, b',
    'SHOW CREATE TABLE types',
    'SHOW CREATE TABLE plain',
    'SELECT a, b FROM plain ORDER BY a',
    'SELECT COUNT(*), SUM(k), MIN(id), MAX(pad) FROM many',
    'SELECT id FROM many WHERE k BETWEEN 5 AND 9 ORDER BY k, id',
    (
        "SELECT schema_name, default_collation_name FROM information_schema.schemata WHERE"
        " schema_name LIKE 'd%' ORDER BY 1"
    ),
]
# Texts that earlier releases have shown, and those of now.
SHOWN = [
    (b'varchar(20) COLLATE utf8mb4_bin', b'varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin')
]


def as_shown_now(value):
    if value is None:
        return None
    value = bytes.fromhex(value)
    for before, now in SHOWN:
        value = value.replace(before, now)
    return value.hex()


def rows(connection, query):
    return [[None if v is None else v.hex() for v in row] for row in connection.rows(query)]


def fill(server):
    c = server.connect()
    c.query(
        "CREATE DATABASE d; CREATE DATABASE d2 COLLATE latin1_bin; USE d; SET time_zone = '+00:00'"
    )
    for create in TABLES.values():
        c.query(create)
    for n in range(1, 40):
        c.query(
            f"""INSERT INTO types (t, b, d, f, g, c, v, x, y, z, da, ti, dt, ts, ye, bi, e, s, h)
                VALUES ({n}, {n} * 1000000007, {n}.5, {n} / 8, {n} / 8,
                'c{n}', 'v{n}',
                REPEAT('long {n} ', {n * 40}), X'00FF{n:02x}', REPEAT('blob', {n * 300}),
                '2024-01-{n % 28 + 1}', '10:{n:02}:00.125', '2024-02-03 04:05:06.{n:06}',
                '2024-03-04 05:06:{n:02}', 2000 + {n}, {n}, {n % 3 + 1}, {n % 8}, {n})"""
        )
    c.query("INSERT INTO types (v) VALUES (DEFAULT)")
    c.query("UPDATE types SET dt = '2024-02-03 04:05:06' WHERE id = 40")
    c.query("INSERT INTO plain VALUES (1, 'x'), (2, NULL), (NULL, 'X'), (3, 'ä')")
    for n in range(0, 3000, 100):
        c.query(
            'INSERT INTO many VALUES '
            + ', '.join(f"({i}, {i % 37}, 'row {i}')" for i in range(n, n + 100))
        )
    c.query('DELETE FROM many WHERE id % 5 = 0')
    c.query('UPDATE many SET k = k + 1 WHERE id % 3 = 0')
    return c


def make(name, a):
    for end in ('clean', 'killed'):
        server = servers.make(a, servers.scratch('formats'), **SETTINGS)
        with server:
            c = fill(server)
            expected = {q: rows(c, q) for q in QUERIES}
            if end == 'killed':
                other = server.connect(database='d')
                other.query(
                    "BEGIN; UPDATE many SET k = 999 WHERE id < 50; INSERT INTO plain VALUES (77,"
                    " 'never'); DELETE FROM types WHERE id = 7"
                )
                # A durable commit follows, so that the changes are in the log.
                c.query('CREATE DATABASE d3')
                expected = {q: rows(c, q) for q in QUERIES}
                server.kill()
            else:
                server.stop()
            with open(os.path.join(server.data, 'expected.json'), 'w') as f:
                json.dump(expected, f)
            os.remove(os.path.join(server.data, 'redolith.lock'))
            archive = os.path.join(HERE, f'{name}-{end}.tar.gz')
            subprocess.run(
                [
                    'tar',
                    '-C',
                    server.data,
                    '--sort=name',
                    '--owner=0',
                    '--group=0',
                    '-czf',
                    archive,
                    '.',
                ],
                check=True,
            )
            print(f'{os.path.relpath(archive)}: {os.path.getsize(archive)} bytes')


def opened(archive, a):
    """Checks an archive. Returns a complaint or None."""
    server = servers.make(a, servers.scratch('formats'), **SETTINGS)
    os.makedirs(server.data)
    subprocess.run(['tar', '-C', server.data, '-xzf', archive], check=True)
    expected_at = os.path.join(server.data, 'expected.json')
    with open(expected_at) as f:
        expected = {
            query: [[as_shown_now(value) for value in row] for row in answer]
            for query, answer in json.load(f).items()
        }
    os.remove(expected_at)
    wrong = []
    with server:
        for time in ('first', 'second'):
            c = server.connect(database='d')
            c.query("SET time_zone = '+00:00'")
            for query, before in expected.items():
                now = rows(c, query)
                if now != before:
                    wrong.append(
                        f'{time} start: {query}\n  {str(before)[:400]}\n  {str(now)[:400]}'
                    )
            wrong += [f'{time} start: {w}' for w in check.tables(c, 'd')]
            # The second start reads the rows that are written now.
            c.query(
                "ALTER TABLE plain COMMENT 'touched'; INSERT INTO types (v) VALUES ('later');"
                " DELETE FROM types WHERE v = 'later'"
            )
            expected = {q: rows(c, q) for q in QUERIES}
            if time == 'first':
                server.stop()
                server.start()
    return '\n'.join(wrong)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--make', metavar='NAME')
    servers.add_arguments(p)
    a = p.parse_args()
    if a.make:
        return make(a.make, a)
    report = Report()
    for name in sorted(os.listdir(HERE)):
        try:
            report.outcome(f'formats: {name}', opened(os.path.join(HERE, name), a))
        except (servers.NotUp, MySQLError, OSError) as e:
            report.fail(f'formats: {name}', e)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

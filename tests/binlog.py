#!/usr/bin/env python3
"""The binary log beside the tables: sessions change rows of all types at random, with DDL between,
rotations and a kill -9. Then mariadb-binlog checks every file, and MariaDB runs all of them: its
tables must have the rows of ours.

  tests/binlog.py [--seconds 6] [--sessions 4] [--seed N]
"""

import argparse
import glob
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402

SETTINGS = dict(
    log_bin=None,
    max_binlog_size='64K',
    innodb_buffer_pool_size='32M',
    innodb_redo_log_capacity='32M',
    innodb_log_buffer_size='1M',
)
# MariaDB runs the text, so it has nothing that MariaDB does not know.
COLUMNS = """t TINYINT UNSIGNED, m MEDIUMINT NOT NULL DEFAULT -7, b BIGINT UNSIGNED,
    d DECIMAL(20,5), f FLOAT, g DOUBLE, c CHAR(5) CHARACTER SET latin1, bi BINARY(3),
    v VARCHAR(300), vb VARBINARY(9), x TEXT, y LONGBLOB, da DATE, ti TIME(3), dt DATETIME(6),
    ts TIMESTAMP NULL, ye YEAR, bt BIT(12), e ENUM('a','b',''), s SET('p','q','r')"""
TABLES = {
    'types': f'CREATE TABLE types (id INT AUTO_INCREMENT PRIMARY KEY, {COLUMNS}, KEY (m))',
    'words': (
        'CREATE TABLE words (a VARCHAR(20) COLLATE utf8mb4_bin, n INT, u INT, '
        'text MEDIUMTEXT, PRIMARY KEY (a, n), UNIQUE KEY (u))'
    ),
    # Of two equal rows a replica may change either.
    'plain': 'CREATE TABLE plain (a INT, b VARCHAR(20), KEY (a))',
}
IMAGES = ['FULL', 'FULL', 'MINIMAL', 'NOBLOB']
# Deadlock, lock wait, duplicate key, an index that is there or has gone: what concurrent sessions
# meet.
EXPECTED = {1213, 1205, 1062, 1061, 1091}


class Load:
    """One session with random statements."""

    def __init__(self, server, seed, number):
        self.server, self.number, self.random = server, number, random.Random(seed)
        self.statements, self.complaint = 0, ''

    def value(self, name):
        r = self.random
        if name != 'm' and r.random() < 0.1:
            return 'NULL'
        return {
            't': lambda: r.randrange(256),
            'm': lambda: r.randrange(-(1 << 23), 1 << 23),
            'b': lambda: r.randrange(1 << 64),
            'd': lambda: f'{r.randrange(-(10**15), 10**15)}.{r.randrange(10**5):05}',
            'f': lambda: r.randrange(-1000, 1000) / 8,
            'g': lambda: r.random() * 10 ** r.randrange(-20, 20),
            'c': lambda: r.choice(["'é'", "'abc  '", "''", "'Zürç'"]),
            'bi': lambda: f"X'{r.randrange(1 << 16):04x}'",
            'v': lambda: self.text(300),
            'vb': lambda: f"X'{r.randrange(1 << 40):010x}00'",
            'x': lambda: self.text(r.choice([10, 3000])),
            'y': lambda: f"REPEAT('{r.choice('abc')}', {r.choice([3, 900, 20000])})",
            'da': lambda: f"'{r.randrange(1, 9999):04}-{r.randrange(1, 13):02}-28'",
            'ti': lambda: (
                f"'{r.choice(['-', ''])}{r.randrange(838)}:{r.randrange(60):02}:00"
                f".{r.randrange(1000):03}'"
            ),
            'dt': lambda: f"'{r.randrange(1000, 9999)}-01-02 03:04:05.{r.randrange(10**6):06}'",
            'ts': lambda: f"'{r.randrange(1971, 2037)}-05-06 07:08:{r.randrange(60):02}'",
            'ye': lambda: r.randrange(1901, 2155),
            'bt': lambda: r.randrange(1 << 12),
            'e': lambda: r.choice(["'a'", "'b'", "''"]),
            's': lambda: r.choice(["''", "'p'", "'p,r'", "'p,q,r'"]),
        }[name]()

    def text(self, most):
        word = self.random.choice(['a', 'ü', '日', '🦀', 'xyz '])
        return "'" + word * self.random.randrange(most // len(word.encode()) + 1) + "'"

    def columns(self):
        names = 't m b d f g c bi v vb x y da ti dt ts ye bt e s'.split()
        return self.random.sample(names, self.random.randrange(1, len(names)))

    def statement(self):
        r, columns = self.random, self.columns()
        id = r.randrange(1, 120)
        key = f"'{r.choice('abAB')}', {r.randrange(8)}"
        values = ', '.join(str(self.value(c)) for c in columns)
        sets = ', '.join(f'{c} = {self.value(c)}' for c in columns)
        names = ', '.join(columns)
        unique = r.choice(['NULL', r.randrange(40)])
        return r.choice(
            [
                lambda: f'INSERT INTO types ({names}) VALUES ({values})',
                lambda: f'INSERT IGNORE INTO types (id, {names}) VALUES ({id}, {values})',
                lambda: f'REPLACE INTO types (id, {names}) VALUES ({id}, {values})',
                lambda: (
                    f'INSERT INTO types (id, {names}) VALUES ({id}, {values}), '
                    f'({id + 1}, {values}) ON DUPLICATE KEY UPDATE {sets}'
                ),
                lambda: f'UPDATE types SET {sets} WHERE id BETWEEN {id} AND {id + r.randrange(3)}',
                lambda: f'UPDATE types SET id = id + 150 WHERE id = {id}',
                lambda: f'UPDATE types SET {sets} ORDER BY m LIMIT 2',
                lambda: f'DELETE FROM types WHERE id BETWEEN {id} AND {id + 2}',
                lambda: 'DELETE FROM types ORDER BY id DESC LIMIT 2',
                lambda: f'INSERT INTO words VALUES ({key}, {unique}, {self.text(9000)})',
                lambda: f'REPLACE INTO words VALUES ({key}, {unique}, {self.text(90)})',
                lambda: f'UPDATE words SET u = {unique} WHERE (a, n) = ({key})',
                lambda: f'DELETE FROM words WHERE n = {r.randrange(8)} LIMIT 1',
                lambda: f"INSERT INTO plain VALUES ({r.randrange(9)}, 'x'), (NULL, 'y')",
                # With a minimal image no column is given.
                lambda: 'INSERT INTO plain () VALUES (), ()',
                lambda: f"UPDATE plain SET b = 'u{r.randrange(9)}' WHERE a = {r.randrange(9)}",
                lambda: f'DELETE FROM plain WHERE a = {r.randrange(9)} LIMIT 2',
            ]
        )()

    def definition(self):
        r, own = self.random, f'own{self.number}'
        return r.choice(
            [
                f'CREATE TABLE IF NOT EXISTS {own} (a INT PRIMARY KEY, b TEXT)',
                f'DROP TABLE IF EXISTS {own}, nothing',
                f"ALTER TABLE types COMMENT 'ü {r.randrange(100)}'",
                'ALTER TABLE words ADD INDEX more (n)',
                'DROP INDEX more ON words',
                'TRUNCATE TABLE plain',
                'CREATE DATABASE IF NOT EXISTS other',
                f'ALTER DATABASE other COLLATE {r.choice(["latin1_bin", "utf8mb4_general_ci"])}',
                f'CREATE TABLE IF NOT EXISTS other.t{self.number} LIKE words',
            ]
        )

    def transaction(self, c):
        r = self.random
        if r.random() < 0.2:
            c.query(f'SET binlog_row_image = {r.choice(IMAGES)}')
        if r.random() < 0.02:
            return c.query(self.definition())
        if r.random() < 0.5:
            return c.query(self.statement())
        c.query('BEGIN')
        for n in range(r.randrange(1, 6)):
            try:
                c.query(self.statement())
            except MySQLError as e:
                if e.code == 1213 or e.code not in EXPECTED:
                    raise
            if r.random() < 0.2:
                c.query(f'SAVEPOINT s{n}')
                c.query(self.statement())
                if r.random() < 0.5:
                    c.query(f'ROLLBACK TO s{n}')
        c.query(r.choice(['COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK']))

    def run(self, end, killed):
        try:
            c = self.server.connect(database='d')
            c.query('SET innodb_lock_wait_timeout = 1, time_zone = "+00:00"')
            while time.monotonic() < end:
                try:
                    self.transaction(c)
                except MySQLError as e:
                    if e.code not in EXPECTED:
                        raise
                    c.query('ROLLBACK')
                self.statements += 1
        except (OSError, EOFError) as e:
            if not killed.is_set():
                self.complaint = f'session {self.number}: {e!r}'
        except MySQLError as e:
            self.complaint = f'session {self.number}: {e}'


def load(server, a, seed, kill):
    """Runs all sessions for some seconds. Returns the number of transactions and complaints."""
    loads = [Load(server, f'{seed} {n}', n) for n in range(a.sessions)]
    end = time.monotonic() + a.seconds
    killed = threading.Event()
    threads = [threading.Thread(target=one.run, args=(end, killed)) for one in loads]
    for t in threads:
        t.start()
    if kill:
        time.sleep(a.seconds * 0.8)
        killed.set()
        server.kill()
    for t in threads:
        t.join()
    return sum(one.statements for one in loads), [o.complaint for o in loads if o.complaint]


def comparable(row):
    """The row. Of a DOUBLE, the servers write the same number in other ways."""
    double = 6
    is_types = len(row) > double and row[double] is not None
    return (*row[:double], float(row[double]), *row[double + 1 :]) if is_types else tuple(row)


def contents(server):
    """The rows of all tables."""
    c = server.connect(database='d')
    c.query('SET time_zone = "+00:00"')
    tables = c.rows(
        "SELECT table_schema, table_name FROM information_schema.tables "
        "WHERE table_schema IN ('d', 'other') ORDER BY 1, 2"
    )
    found = {}
    for schema, name in tables:
        table = f'{schema.decode()}.{name.decode()}'
        found[table] = sorted(map(comparable, c.rows(f'SELECT * FROM {table}')), key=repr)
    return found


def difference(ours, theirs):
    if ours.keys() != theirs.keys():
        return f'tables: {sorted(ours)} here, {sorted(theirs)} there'
    for table in ours:
        if ours[table] != theirs[table]:
            only = [r for r in ours[table] if r not in theirs[table]]
            other = [r for r in theirs[table] if r not in ours[table]]
            return (
                f'{table}: {len(ours[table])} rows here, {len(theirs[table])} there.'
                f' Only here: {repr(only[:1])[:2000]}. Only there: {repr(other[:1])[:2000]}'
            )
    return ''


def binlog(*arguments):
    command = ['mariadb-binlog', '--no-defaults', *arguments]
    return subprocess.run(command, capture_output=True, timeout=600)


def verify(files):
    for path in files:
        read = binlog('--verify-binlog-checksum', '-vv', path)
        if read.returncode or b'ERROR' in read.stderr:
            return f'{os.path.basename(path)}: {read.stderr.decode(errors="replace")[-2000:]}'
        if b'end_log_pos' not in read.stdout:
            return f'{os.path.basename(path)}: no event'
    return ''


def replay(files, to):
    """Runs the files in another server."""
    text = binlog('--verify-binlog-checksum', *files)
    if text.returncode:
        return text.stderr.decode(errors='replace')[-2000:]
    client = ['mariadb', '--no-defaults', f'--socket={to.socket}', '--user=root', '--binary-mode']
    ran = subprocess.run(client, input=text.stdout, capture_output=True, timeout=600)
    return ran.stderr.decode(errors='replace')[-2000:] if ran.returncode else ''


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--seconds', type=float, default=6, help='of load, before and after the kill')
    p.add_argument('--sessions', type=int, default=4)
    p.add_argument('--seed', type=int, default=int(time.time()))
    p.add_argument('--binary', help='the redolith to test (default: the release build)')
    a = p.parse_args()
    servers.need('mariadb-binlog', 'mariadb', 'mariadbd')
    print(f'seed {a.seed}', flush=True)
    report, dir = Report(), servers.scratch('binlog')
    for gtids in ('OFF', 'ON'):
        settings = dict(SETTINGS, gtid_mode=gtids)
        place = os.path.join(dir, f'gtids-{gtids}')
        ours = servers.Redolith(os.path.join(place, 'ours'), settings, binary=a.binary)
        with ours, servers.MariaDB(os.path.join(place, 'theirs')) as theirs:
            c = ours.connect()
            c.query('CREATE DATABASE d')
            c.query('CREATE DATABASE other')
            c.query('USE d')
            for create in TABLES.values():
                c.query(create)
            first, complaints = load(ours, a, f'{a.seed} {gtids} before', True)
            ours.start()
            second, more = load(ours, a, f'{a.seed} {gtids} after', False)
            report.outcome(f'gtid_mode={gtids}: load', '\n'.join(complaints + more))
            here = contents(ours)
            ours.stop()
            files = sorted(glob.glob(os.path.join(ours.data, 'binlog.[0-9]*')))
            report.outcome(f'gtid_mode={gtids}: mariadb-binlog reads the files', verify(files))
            complaint = replay(files, theirs)
            report.outcome(f'gtid_mode={gtids}: MariaDB runs the files', complaint)
            if not complaint:
                complaint = difference(here, contents(theirs))
                report.outcome(f'gtid_mode={gtids}: its tables have our rows', complaint)
            rows = sum(len(table) for table in here.values())
            print(f'        {first + second} transactions, {len(files)} files, {rows} rows')
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

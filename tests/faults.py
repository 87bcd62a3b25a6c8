#!/usr/bin/env python3
"""Checks a server whose disk fails: a full disk, damaged or torn pages, a read-only disk.

  tests/faults.py             everything; the full disk needs root, for a small file system of its
                              own
  tests/faults.py full torn   some of it

  FULL-1     on a full disk statements fail with 1114 (table is full) or 1026 (error writing file),
             and nothing else; reading goes on
  FULL-2     no acknowledged row is lost, and no failed row is stored: before and after there is
             room again, after a kill -9 and a restart
  FULL-3     when there is room again, inserts work, without a restart
  FULL-4     ALTER TABLE that makes an index or copies rows fails whole on a full disk, as do its
             temporary files, and when it is killed with the server: table, files and room are as
             before, and with room it succeeds
  FULL-5     with the redo log and the binary log on a full disk, statements wait, or fail as in
             FULL-1 or, where the redo log has no room for innodb_lock_wait_timeout, with 1205;
             reading goes on; KILL ends each wait (1317), and SIGTERM the server, also one
             that starts; FULL-2 and FULL-3 hold
  CORRUPT-1  a damaged page is an error that names table, file and page; the server runs on and
             serves other tables
  TORN-1     pages torn at a kill -9 are repaired from their doublewrite copies
  START-1    a directory that cannot be used is an error that names the directory and the reason
  START-2    a start takes back a transaction whose rollback needs more redo than the log has room
             for, with and without a binary log
"""

import argparse
import contextlib
import os
import random
import re
import struct
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import check, servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402
from rig.small_disk import SmallDisk  # noqa: E402

PAGE = 16384
FULL = {1114, 1026}
BINLOG = dict(log_bin='binlog', server_id=1)
SETTINGS = dict(innodb_buffer_pool_size='64M', innodb_redo_log_capacity='64M')


class Failed(Exception):
    """A test's claim that does not hold."""


def claim(holds, why):
    if not holds:
        raise Failed(why)


def stopped(server):
    """Shuts the server down. The test fails if the shutdown is not clean."""
    complaint = check.clean_shutdown(server)
    claim(not complaint, complaint)


def error_of(statement):
    """The error with which a call of the client fails, or None."""
    try:
        statement()
    except MySQLError as e:
        return e
    return None


# ---- the full disk


class Writer(threading.Thread):
    """Inserts rows, one or several per transaction, until it is stopped. Remembers the acknowledged
    rows.
    """

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.server, self.number, self.acked, self.errors, self.trouble, self.stopping = (
            server,
            number,
            set(),
            0,
            None,
            False,
        )
        self.since_error = 0
        self.connection, self.expected, self.codes = None, FULL, set()
        # The rows of the transaction of which nothing is known yet.
        self.pending = set()

    def run(self):
        rng, id = random.Random(self.number), self.number
        try:
            c = self.server.connect(database='f')
            self.connection = int(c.value('SELECT CONNECTION_ID()'))
            while not self.stopping:
                ids = [id := id + 100 for _ in range(rng.randint(1, 4))]
                self.pending = set(ids)
                try:
                    if len(ids) == 1:
                        c.query(self.insert(ids[0], rng))
                    else:
                        c.query('BEGIN')
                        for i in ids:
                            c.query(self.insert(i, rng))
                        c.query('COMMIT')
                    self.acked.update(ids)
                    self.since_error += 1
                except MySQLError as e:
                    if e.code not in self.expected:
                        raise
                    self.errors += 1
                    self.codes.add(e.code)
                    self.since_error = 0
                    c.query('ROLLBACK')
                    time.sleep(0.02)
                self.pending = set()
            c.close()
        except (MySQLError, OSError, EOFError) as e:
            self.trouble = f'writer {self.number}: {type(e).__name__}: {e}'

    def insert(self, id, rng):
        return (
            f"INSERT INTO t VALUES ({id}, {rng.randrange(1 << 30)}, REPEAT('{rng.choice('abc')}',"
            f" {rng.randint(1000, 7000)}))"
        )


def whole(server, acked, unknown=()):
    """Checks FULL-2: the primary key and the index have exactly the acknowledged rows. `unknown`:
    sets of rows of transactions that a kill has cut off; all of a set are there, or none.
    """
    c = server.connect(database='f')
    there = {int(r[0]) for r in c.rows('SELECT id FROM t')}
    for rows in unknown:
        claim(rows <= there or not rows & there, f'a part of a transaction is there: {rows}')
        acked = acked | (rows & there)
    claim(
        not acked - there,
        f'{len(acked - there)} acknowledged rows are lost: {sorted(acked - there)[:5]}',
    )
    claim(
        not there - acked,
        f'{len(there - acked)} rows are there whose statement failed: {sorted(there - acked)[:5]}',
    )
    by_k = int(c.value('SELECT COUNT(*) FROM t FORCE INDEX (k) WHERE k >= 0'))
    claim(by_k == len(there), f'{by_k} rows by index k, {len(there)} by the primary key')
    c.close()


def wait_until(what, holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        claim(time.monotonic() < end, f'{what}: not within {seconds} s')
        time.sleep(0.05)


def small_disk(dir, mib, report, what):
    """A disk of so many MiB; nothing, and a test that is skipped, where there can be none."""
    try:
        return SmallDisk(dir, mib)
    except OSError as e:
        report.skip(what, str(e))
        return contextlib.nullcontext()


def full(dir, a, report):
    """FULL-1, FULL-2, FULL-3"""
    with small_disk(dir, 400, report, 'full disk') as disk:
        if not disk:
            return
        server = servers.make(a, os.path.join(disk.path, 's'), **SETTINGS)
        server.out = os.path.join(dir, 'server.out')
        with server:
            c = server.connect()
            c.query(
                'CREATE DATABASE f; CREATE TABLE f.t (id INT PRIMARY KEY, k INT NOT NULL, v TEXT,'
                ' KEY k (k)); CREATE TABLE f.big (id INT PRIMARY KEY, v LONGTEXT)'
            )
            writers = [Writer(server, n) for n in range(1, 9)]
            for w in writers:
                w.start()
            wait_until('the first rows', lambda: all(len(w.acked) > 5 for w in writers))
            disk.leave(4 << 20)
            alive = lambda: claim(
                server.alive() and not any(w.trouble for w in writers),
                '\n'.join(w.trouble for w in writers if w.trouble) + '\n' + server.last_words(),
            )
            wait_until(
                'every writer meets the full disk',
                lambda: alive() or all(w.errors > 3 for w in writers),
            )
            claim(int(c.value('SELECT COUNT(*) FROM f.t')) > 0, 'reading on the full disk')
            e = error_of(lambda: c.query("INSERT INTO f.big VALUES (1, REPEAT('x', 12000000))"))
            claim(e and e.code in FULL, f'a large row on a full disk: {e}')
            e = error_of(lambda: c.query('CREATE TABLE f.more (a INT)'))
            claim(e is None or e.code in FULL, f'CREATE TABLE on a full disk: {e}')
            report.ok(
                'full: statements fail, the server lives',
                f'{disk.kind}; {sum(w.errors for w in writers)} errors, {disk.free_bytes() >> 10}'
                ' KiB left',
            )
            disk.give_room()
            for w in writers:
                w.since_error = 0
            wait_until(
                'inserts work again', lambda: alive() or all(w.since_error > 5 for w in writers)
            )
            for w in writers:
                w.stopping = True
            for w in writers:
                w.join(30)
            alive()
            acked = set().union(*(w.acked for w in writers))
            whole(server, acked)
            claim(
                error_of(lambda: c.query("INSERT INTO f.big VALUES (1, REPEAT('x', 12000000))"))
                is None,
                'the large row, with room',
            )
            wrong = check.tables(c, 'f')
            claim(not wrong, '\n'.join(wrong))
            report.ok('full: room again, service again', f'{len(acked)} rows acknowledged')

            # The disk gets full once more within a transaction; then the server is killed.
            disk.leave(2 << 20)
            c.query('USE f; BEGIN')
            mine, e = 0, None
            while not e and mine < 100000:
                e = error_of(
                    lambda: c.query(
                        f"INSERT INTO t VALUES ({10_000_000 + mine}, 1, REPEAT('z', 7000))"
                    )
                )
                mine += 1
            claim(e and e.code in FULL, f'a long transaction on a full disk: {e} after {mine} rows')
            c.query('ROLLBACK')
            whole(server, acked)
            c.query('BEGIN')
            error_of(lambda: c.query("INSERT INTO t VALUES (10000000, 1, 'z')"))
            server.kill()
            try:
                server.start()
                words = 'started on the full disk'
            except servers.NotUp as e:
                claim('full' in str(e) or 'No space' in str(e), f'the start on a full disk: {e}')
                words = 'the start waits for room'
            disk.give_room()
            if not server.alive():
                server.start()
            whole(server, acked)
            c = server.connect(database='f')
            c.query("INSERT INTO t VALUES (10000000, 1, 'z')")
            acked.add(10_000_000)
            server.stop()
            server.start()
            whole(server, acked)
            c = server.connect()
            wrong = check.tables(c, 'f')
            claim(not wrong, '\n'.join(wrong))
            c.close()
            stopped(server)
            report.ok('full: rollback, kill -9, restart', words)

            # The server says why it does not start (START-1).
            if disk.kind == 'ext4':
                disk.remount('ro')
                says(server, 'read-only')
                disk.remount('rw')
                report.ok('start: read-only file system', '')


def full_logs(dir, a, report):
    """FULL-5"""
    with small_disk(dir, 200, report, 'full disk of the logs') as disk:
        if not disk:
            return
        more = dict(BINLOG, log_bin=os.path.join(disk.path, 'binlog'))
        # A small redo log is soon full where the binary log holds its checkpoint. The time limit is
        # that of the wait for room in it, too.
        more |= dict(innodb_redo_log_capacity='16M', innodb_lock_wait_timeout=3)
        server = servers.make(a, os.path.join(dir, 's'), **(SETTINGS | more))
        os.makedirs(os.path.join(disk.path, 'redo'))
        os.makedirs(server.data)
        os.symlink(os.path.join(disk.path, 'redo'), os.path.join(server.data, 'redo'))
        with server:
            c = server.connect()
            c.query('CREATE DATABASE f; USE f')
            c.query('CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v TEXT, KEY k (k))')
            writers = []

            def write(number):
                """Starts four writers, and fills the disk when each of them has written."""
                new = [Writer(server, number + n) for n in range(4)]
                for w in new:
                    w.expected = FULL | {1205, 1317}
                    w.start()
                writers.extend(new)
                wait_until('the first rows', lambda: all(len(w.acked) > 5 for w in new))
                disk.leave(4096)
                return new

            def stuck(of):
                """Waits until no writer gets a commit through any more."""

                def rests():
                    before = [len(w.acked) for w in of]
                    time.sleep(3)
                    trouble = [w.trouble for w in of if w.trouble]
                    claim(server.alive() and not trouble, f'{trouble} {server.last_words()}')
                    return before == [len(w.acked) for w in of]

                wait_until('commits wait for room', rests, 300)

            def acked():
                return set().union(*(w.acked for w in writers))

            first = write(1)
            stuck(first)
            count = int(c.value('SELECT COUNT(*) FROM t'))
            claim(count >= len(acked()), f'reading: {count} rows of {len(acked())}')
            errors = sum(w.errors for w in first)
            for w in first:
                is_told = lambda: c.query(f'KILL QUERY {w.connection}') and 1317 in w.codes
                wait_until('KILL QUERY ends a wait', is_told, 30)
            stuck(first)
            report.ok(
                'full logs: commits wait, reading and KILL do not',
                f'{disk.kind}; {len(acked())} rows acknowledged, {errors} errors before the kills',
            )

            disk.give_room()
            for w in first:
                w.since_error = 0
            wait_until('inserts work again', lambda: all(w.since_error > 5 for w in first))
            for w in first:
                w.stopping = True
            for w in first:
                w.join(30)
                claim(not w.is_alive() and not w.trouble, w.trouble)
            whole(server, acked())
            report.ok('full logs: room again, service again', f'{len(acked())} rows')

            # The server ends while commits wait: by SIGTERM, and by kill -9.
            for number, how in ((11, 'SIGTERM'), (21, 'kill -9')):
                cut = write(number)
                stuck(cut)
                if how == 'SIGTERM':
                    claim(server.stop(60) is not None, 'SIGTERM: it runs on for a minute')
                else:
                    server.kill()
                for w in cut:
                    w.join(30)
                    claim(not w.is_alive(), f'writer {w.number} waits for a server that is gone')
                # A start that finds no room waits for it, or says so. SIGTERM ends it.
                words = start_without_room(server, 'full', 'No space')
                claim(server.stop(60) is not None, 'a start: SIGTERM does not end it')
                disk.give_room()
                server.start()
                unknown = [w.pending for w in cut]
                whole(server, acked(), unknown)
                there = {int(r[0]) for r in server.connect(database='f').rows('SELECT id FROM t')}
                cut[0].acked |= there & set().union(*unknown)
                report.ok(f'full logs: {how}', f'a start without room: {words}')
            wrong = check.tables(server.connect(), 'f')
            claim(not wrong, '\n'.join(wrong))
            stopped(server)
            # A start waits for the room that the next file of the binary log needs.
            disk.leave(0)
            words = start_without_room(server, 'No space')
            claim(words == WAITS, f'with {disk.free_bytes()} bytes for the binary log: {words}')
            claim(server.stop(30) is not None, 'SIGTERM does not end a start that waits')
            disk.give_room()
            server.start()
            whole(server, acked())
            stopped(server)
            report.ok('full logs: SIGTERM of a start that waits', '')


WAITS = 'it waits for room'


def start_without_room(server, *said):
    """Starts a server whose disk is full, and tells what it does. If it does not start, it says one
    of these words.
    """
    told = os.path.getsize(server.out)
    try:
        server.start(wait_s=5)
        return 'it starts'
    except servers.NotUp:
        pass

    def says_so():
        with open(server.out, 'rb') as f:
            f.seek(told)
            now = f.read().decode(errors='replace')
        return any(word in now for word in said)

    # A slow start may have come to the full disk only after the five seconds, or to its end.
    wait_until('a start without room', lambda: says_so() or starts(server), 60)
    if not says_so():
        claim(server.alive(), f'a start without room: {server.last_words()}')
        return 'it starts'
    return WAITS if server.alive() else 'it says so'


def starts(server):
    """Whether a start has ended: the server answers, or is gone."""
    try:
        server.connect().close()
    except (OSError, MySQLError):
        return not server.alive()
    return True


ALTERS = {
    'an index': 'ADD INDEX by_v (v, k)',
    'a unique index': 'ADD UNIQUE INDEX by_id (id, v)',
    'a copy': 'MODIFY k BIGINT NOT NULL, ADD COLUMN more INT DEFAULT 7, ADD INDEX by_v (v)',
}


def alter(dir, a, report):
    """FULL-4"""
    with small_disk(dir, 1000, report, 'alter: full disk') as disk:
        if not disk:
            return
        files = os.path.join(disk.path, 'tmp')
        os.makedirs(files)
        server = servers.make(a, os.path.join(disk.path, 's'), tmpdir=files, **SETTINGS)
        server.out = os.path.join(dir, 'server.out')
        with server:
            c = server.connect(timeout=300)
            c.query('CREATE DATABASE f; USE f')
            c.query(
                'CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v VARCHAR(300), KEY k (k))'
            )
            c.query("INSERT INTO t VALUES (1, 1, REPEAT('v', 200))")
            for n in range(17):
                c.query(
                    f'INSERT INTO t SELECT id + {1 << n}, (id * 7919) % 100003, '
                    f"CONCAT(MD5(id + {1 << n}), REPEAT('v', 170)) FROM t"
                )
            create, sums = definition_of(c), sums_of(c)
            tables = os.path.join(server.data, 'tables')
            names = sorted(os.listdir(tables))

            def unchanged(what):
                claim(definition_of(c) == create, f'the definition, {what}')
                claim(sums_of(c) == sums, f'the rows, {what}')
                wrong = check.tables(c, 'f')
                claim(not wrong, f'{what}: ' + '\n'.join(wrong))
                claim(sorted(os.listdir(tables)) == names, f'{os.listdir(tables)}, {what}')
                claim(not os.listdir(files), f'{os.listdir(files)}, {what}')

            errors = []
            for room in (0, 1, 4, 12):
                for what, action in ALTERS.items():
                    disk.leave(room << 20)
                    e = error_of(lambda do=action: c.query(f'ALTER TABLE t {do}'))
                    claim(e and e.code in FULL, f'{what} with {room} MiB: {e}')
                    errors.append(e.code)
                    disk.give_room()
                    unchanged(f'after {what} with {room} MiB')
            report.ok('alter: on a full disk', f'errors {sorted(set(errors))}')

            for n in range(9):
                what, action = list(ALTERS.items())[n % 3]
                other = server.connect(timeout=300, database='f')
                thread = threading.Thread(
                    target=lambda c=other, do=action: ended(lambda: c.query(f'ALTER TABLE t {do}'))
                )
                thread.start()
                time.sleep(0.05 + 0.1 * (n // 3))
                server.kill()
                thread.join(60)
                server.start()
                c = server.connect(timeout=300, database='f')
                if definition_of(c) != create:
                    continue  # it was done before the kill
                unchanged(f'after a kill -9 in {what}')
            report.ok('alter: kill -9', '')

            if definition_of(c) == create:
                for action in ALTERS.values():
                    c.query(f'ALTER TABLE t {action.replace("by_v (v)", "by_v_only (v)")}')
                wrong = check.tables(c, 'f')
                claim(not wrong, '\n'.join(wrong))
            c.close()
            stopped(server)
            report.ok('alter: with room', '')


def definition_of(c):
    return c.rows('SHOW CREATE TABLE t')[0][1]


def sums_of(c):
    return c.value("SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT(id, k, v)))) FROM t")


def ended(call):
    """Runs a call that ends with its server."""
    try:
        call()
    except (MySQLError, OSError):
        pass


def says(server, *words):
    """Checks START-1: the server does not start, and says why."""
    try:
        server.start()
    except servers.NotUp as e:
        missing = [w for w in words if w.lower() not in str(e).lower()]
        claim(not missing, f'the error does not say {missing}: {e}')
        claim('panicked' not in str(e), str(e))
        return
    server.stop()
    raise Failed('it started')


# ---- damage


def table_file(server, marker):
    """The file that contains a text."""
    dir = os.path.join(server.data, 'tables')
    for name in sorted(os.listdir(dir)):
        path = os.path.join(dir, name)
        with open(path, 'rb') as f:
            if marker in f.read():
                return path
    raise Failed(f'no table file holds {marker}')


def damage(path, page):
    """Flips some bits of a page. A second call restores the page."""
    with open(path, 'r+b') as f:
        f.seek(page * PAGE + 9000)
        old = f.read(4)
        f.seek(page * PAGE + 9000)
        f.write(bytes(b ^ 0x55 for b in old))


def corrupt(dir, a, report):
    """CORRUPT-1"""
    server = servers.make(a, os.path.join(dir, 'corrupt'), **SETTINGS)
    with server:
        c = server.connect()
        c.query(
            'CREATE DATABASE f; USE f; CREATE TABLE bad (id INT PRIMARY KEY, v VARCHAR(200));'
            ' CREATE TABLE good (id INT PRIMARY KEY, v VARCHAR(200))'
        )
        for name in ('bad', 'good'):
            for first in range(0, 8000, 1000):
                c.query(
                    f'INSERT INTO {name} VALUES '
                    + ', '.join(
                        f"({i}, '{name} marker {i:06} {'.' * 150}')"
                        for i in range(first, first + 1000)
                    )
                )
        c.close()
        stopped(server)
        path = table_file(server, b'bad marker 004000')
        with open(path, 'rb') as f:
            page = f.read().index(b'bad marker 004000') // PAGE
        damage(path, page)
        server.start()
        c = server.connect(database='f')
        for what in (
            'SELECT COUNT(v) FROM bad',
            'SELECT v FROM bad WHERE id = 4000',
            'SELECT * FROM bad WHERE id = 4000 FOR UPDATE',
            'UPDATE bad SET v = 1',
            'DELETE FROM bad',
        ):
            e = error_of(lambda: c.query(what))
            claim(e is not None, f'{what} read a damaged page')
            missing = [
                w
                for w in ("'bad'", os.path.basename(path), f':{page}', 'corrupt')
                if w not in e.message.replace('f.bad', 'bad')
            ]
            claim(not missing, f'{what}: the error {e} does not name {missing}')
        claim(c.value('SELECT COUNT(*) FROM good') == '8000', 'another table')
        claim(
            c.value('SELECT v FROM bad WHERE id = 1').startswith('bad marker 000001'),
            'a whole page of the damaged table',
        )
        c.query(
            "INSERT INTO good VALUES (9000, 'x'); INSERT INTO bad VALUES (9000, 'x'); DELETE FROM"
            " bad WHERE id = 9000"
        )
        found = check.tables(c, 'f')
        claim(
            any('bad' in x for x in found) and not any('good' in x for x in found),
            f'CHECK TABLE says {found}',
        )
        claim(server.alive(), server.last_words())
        report.ok(
            'corrupt: an error with table, file, page', f'{len(found)} complaints of CHECK TABLE'
        )
        # A transaction that cannot be rolled back because of a damaged page delays neither other
        # transactions nor the start.
        damage(path, page)
        stopped(server)
        server.start()
        c = server.connect(database='f')
        c.query('BEGIN; UPDATE good SET v = 2 WHERE id < 100; UPDATE bad SET v = 2')
        server.connect(database='f').query(
            "INSERT INTO good VALUES (9001, 'makes the log durable')"
        )
        server.kill()
        damage(path, page)
        os.remove(os.path.join(server.data, 'doublewrite.rdl'))
        server.start()
        c = server.connect(database='f')
        claim(
            c.value('SELECT COUNT(*) FROM good WHERE v = 2') == '0',
            'what was unfinished is rolled back',
        )
        claim(
            error_of(lambda: c.query('SELECT COUNT(v) FROM bad')) is not None,
            'the damage is still told',
        )
        c.query('DROP TABLE bad')
        c.query('CREATE TABLE bad (id INT PRIMARY KEY)')
        wrong = check.tables(c, 'f')
        claim(not wrong, '\n'.join(wrong))
        c.close()
        stopped(server)
        report.ok('corrupt: restart, drop', '')


def checkpoint_lsn(server):
    """The checkpoint's LSN from the newer block of redo/control."""
    with open(os.path.join(server.data, 'redo', 'control'), 'rb') as f:
        data = f.read()
    blocks = [
        struct.unpack_from('<QQ', data, at + 24)
        for at in (0, 65536)
        if data[at : at + 8] == b'REDOLOG\0'
    ]
    return max(blocks)[1]


def torn_candidates(server):
    """Pages after the checkpoint whose doublewrite copy equals the page: (file, page)."""
    checkpoint, segment_bytes, out = checkpoint_lsn(server), 4096 + 128 * PAGE, {}
    with open(os.path.join(server.data, 'doublewrite.rdl'), 'rb') as f:
        data = f.read()
    for at in range(0, len(data), segment_bytes):
        count, magic = struct.unpack_from('<I8s', data, at + 4)
        for i in range(count if magic == b'RDLDBLW1' else 0):
            no, space = struct.unpack_from('<II', data, at + 32 + 16 * i)
            copy = data[at + 4096 + i * PAGE :][:PAGE]
            if struct.unpack_from('<Q', copy, 16)[0] <= checkpoint:
                continue
            name = {0: 'system.rdl', 1: 'undo.rdl'}.get(space, f'tables/{space}.rdl')
            path = os.path.join(server.data, name)
            if os.path.exists(path):
                with open(path, 'rb') as f:
                    f.seek(no * PAGE)
                    if f.read(PAGE) == copy:
                        out[path, no] = copy
    return out


def pages_repaired(server, since):
    """The number of repaired pages in the server's output after `since` bytes."""
    with open(server.out, 'rb') as f:
        f.seek(since)
        said = f.read()
    more = re.findall(rb'(\d+) more pages were repaired', said)
    return said.count(b'repaired from its doublewrite copy') + sum(int(n) for n in more)


def torn(dir, a, report):
    """TORN-1"""
    server = servers.make(
        a,
        os.path.join(dir, 'torn'),
        **SETTINGS,
        innodb_max_dirty_pages_pct=1,
        innodb_max_dirty_pages_pct_lwm=0,
    )
    with server:
        c = server.connect()
        c.query(
            'CREATE DATABASE f; CREATE TABLE f.t (id INT PRIMARY KEY, k INT NOT NULL, v TEXT, KEY k'
            ' (k))'
        )
        c.close()
        acked, repaired = set(), 0
        for round in range(10):
            writers = [Writer(server, n + 10 * round) for n in range(1, 9)]
            for w in writers:
                w.start()
            time.sleep(2.0 + round % 6 * 0.3)
            wait_until('300 rows in a round', lambda: sum(len(w.acked) for w in writers) >= 300)
            server.kill()
            for w in writers:
                w.join(30)
                acked |= w.acked
            pages = list(torn_candidates(server))[:40]
            for path, no in pages:
                with open(path, 'r+b') as f:  # the first half of the page is older
                    f.seek(no * PAGE)
                    f.write(bytes(8192))
            told = os.path.getsize(server.out)
            server.start()
            # Pages whose write had not begun at the kill are repaired, too. The server answers
            # before it has reported all pages.
            wait_until(
                f'{len(pages)} torn pages are repaired',
                lambda: pages_repaired(server, told) >= len(pages),
            )
            c = server.connect(database='f')
            there = {int(r[0]) for r in c.rows('SELECT id FROM t')}
            claim(not acked - there, f'{len(acked - there)} acknowledged rows are lost')
            wrong = check.tables(c, 'f')
            claim(not wrong, '\n'.join(wrong))
            c.close()
            repaired += pages_repaired(server, told)
            if repaired >= 40 or repaired and round >= 5:
                break
        claim(repaired > 0, 'no page could be torn: the test saw nothing')
        stopped(server)
        report.ok(
            'torn: repaired from the doublewrite file',
            f'{repaired} pages, {len(acked)} rows acknowledged',
        )


def start(dir, a, report):
    plain = os.path.join(dir, 'plain')
    with open(plain, 'w') as f:
        f.write('a file\n')
    for title, data in (('below a file', os.path.join(plain, 'data')), ('a file', plain)):
        server = servers.make(a, os.path.join(dir, 'start'), **SETTINGS)
        server.data = data
        says(server, data, 'cannot')
        report.ok(f'start: data directory {title}', '')
        server.remove()
    server = servers.make(a, os.path.join(dir, 'start'), **SETTINGS)
    server.data = os.path.join(dir, 'not', 'yet', 'there')
    with server:
        claim(server.connect().value('SELECT 1') == '1', 'a missing directory is made')
        report.ok('start: a missing directory is made', '')
    server = servers.make(a, os.path.join(dir, 'start'), **SETTINGS)
    with server:
        c = server.connect()
        c.query('CREATE DATABASE f; CREATE TABLE f.t (a INT)')
        server.stop()
        os.rename(os.path.join(server.data, 'redo'), os.path.join(server.data, 'away'))
        says(server, 'redo')
        os.rename(os.path.join(server.data, 'away'), os.path.join(server.data, 'redo'))
        server.start()
        report.ok('start: tables without a redo log', 'refused; with it again it starts')
    server = servers.make(
        a, os.path.join(dir, 'start'), innodb_redo_log_capacity='64M', innodb_log_buffer_size='64M'
    )
    with server:
        claim(
            server.connect().value('SELECT @@innodb_log_buffer_size') == str(32 << 20),
            'the log buffer is made to fit',
        )
        claim('innodb-log-buffer-size' in server.last_words(100), 'and that is told')
        report.ok('start: a log buffer larger than the log', '')


def rollback(dir, a, report):
    """Tests START-2."""
    for title, more in (('without a binary log', {}), ('with a binary log', BINLOG)):
        settings = SETTINGS | dict(innodb_redo_log_capacity='8M') | more
        with servers.make(a, os.path.join(dir, 'rollback'), **settings) as server:
            c = server.connect()
            c.query('CREATE DATABASE f; USE f')
            c.query(
                'CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(250), KEY (k, c))'
            )
            c.query("INSERT INTO t VALUES (0, 0, 'acknowledged')")
            c.query('BEGIN')
            digits = '(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3)'
            tables = ', '.join(f'{digits} t{n}' for n in range(8))
            number = ' + '.join(f't{n}.d * {4**n}' for n in range(8))
            c.query(
                f"INSERT INTO t SELECT 1 + {number}, t0.d * 7 + t5.d, REPEAT('x', 200)"
                f' FROM {tables}'
            )
            server.kill()
            server.start()
            c = server.connect()
            c.query('USE f')
            left = [tuple(row) for row in c.rows('SELECT id, c FROM t')]
            claim(left == [(b'0', b'acknowledged')], f'all is taken back, and not {left[:3]}')
            claim(c.rows('CHECK TABLE t')[0][3] == b'OK', 'the table is whole')
            c.query("INSERT INTO t VALUES (1, 1, 'again')")
            stopped(server)
            report.ok(f'start: a large rollback in a small redo log, {title}', '')
            server.remove()


TESTS = dict(full=full, full_logs=full_logs, alter=alter, corrupt=corrupt, torn=torn)
TESTS |= dict(start=start, rollback=rollback)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('tests', nargs='*', help=', '.join(TESTS))
    servers.add_arguments(parser)
    a = parser.parse_args()
    unknown = set(a.tests) - set(TESTS)
    if unknown:
        sys.exit(f'no test {", ".join(sorted(unknown))}; there are {", ".join(TESTS)}')
    report = Report()
    dir = servers.scratch('faults')
    for name, test in TESTS.items():
        if a.tests and name not in a.tests:
            continue
        here = os.path.join(dir, name)
        os.makedirs(here)
        try:
            test(here, a, report)
        except (Failed, servers.NotUp, MySQLError, OSError, subprocess.SubprocessError) as e:
            line = [
                f.lineno for f in traceback.extract_tb(e.__traceback__) if f.filename == __file__
            ][-1]
            report.fail(
                name, f'{type(e).__name__}, line {line}: {e}\nkept: {os.path.relpath(here)}'
            )
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""Kills the server under load again and again, and checks all that it has acknowledged.

  tests/kill.py                     20 rounds, a new seed
  tests/kill.py --rounds 500 --seed 7
  tests/kill.py --binlog            with a binary log, in files of 1 MiB
  tests/kill.py --binlog --commit classic
  tests/kill.py --rounds 1 --threads 128 --seconds 60 --at-end --switch-ms 100

In each round, sysbench oltp_write_only and the oracle's own connections write. The server gets
SIGKILL at a random moment (in one round of four once more while it recovers) and is started again.
Then these rules must hold for all rounds so far:

  KILL-1  every transaction whose COMMIT was answered is there completely;
  KILL-2  a transaction whose answer never came is there completely or not at all, and a later
          round finds the same;
  KILL-3  no transaction is there that was rolled back or never sent;
  KILL-4  CHECK TABLE finds no error in any table; sysbench's tables have as many rows as they were
          made with;
  KILL-5  `redolith dump` prints every kind of file of the killed directory, before the restart;
  KILL-6  with --binlog: the files of the binary log have the transactions that are there, each once
          and whole, and no other; and all bytes that they had before the restart, but for the flag
          that says that a file is open;
  KILL-8  with --commit classic: the files of the killed directory, before the restart, have every
          transaction that was acknowledged;
  KILL-7  an XA transaction whose XA PREPARE was answered, and whose end was not sent, is prepared
          still; no other one is prepared than those whose end was not answered.

An oracle transaction inserts one to three rows with its token into `token`, and counts itself in
`worker`. Some are XA transactions: the oracle ends those that it finds prepared. The oracle writes
`sent` into its record before COMMIT, and `acked` after the answer. The record survives the server.
In every other round (with --at-end in all rounds) three settings change every --switch-ms: the
writer of the log, the interval of flushes, and whether a commit waits for the device or only for
the write (both survive a kill). With --commit classic, the settings of its stages change, too, and
each commit waits for the device. kill -9 keeps the page cache; the simulator tests power loss.
"""

import argparse
import collections
import os
import random
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import binlog_files, check, dumps, servers, sysbench  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402

ORACLE = 'oracle'
SETTINGS = dict(
    innodb_buffer_pool_size='64M',
    innodb_flush_log_at_trx_commit=1,
    max_connections=500,
    innodb_lock_wait_timeout=5,
)
RETRY = {1205, 1213}
PAD = 'x' * 150


class Record:
    """The oracle's record: a file of lines `sent token rows` and `acked token`, and a copy in
    memory.
    """

    def __init__(self, path):
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC, 0o644)
        self.sent, self.acked, self.settled, self.doubts, self.ended = {}, set(), {}, {}, 0
        self.lock, self.next = threading.Lock(), 1

    def token(self):
        with self.lock:
            self.next += 1
            return self.next

    def send(self, token, worker, rows):
        os.write(self.file, f'sent {token} {worker} {rows}\n'.encode())
        self.sent[token] = (worker, rows)

    def ack(self, token):
        os.write(self.file, f'acked {token}\n'.encode())
        self.acked.add(token)

    def prepare(self, token, worker, rows, state):
        """The state of an XA transaction: preparing, prepared, ending; None: it has ended."""
        os.write(self.file, f'{state} {token}\n'.encode())
        if state:
            self.doubts[token] = (worker, rows, state)
        else:
            self.doubts.pop(token, None)


class Worker(threading.Thread):
    """A connection of the oracle, which works until the server is gone."""

    def __init__(self, server, record, number, seed):
        super().__init__(daemon=True)
        self.server, self.record, self.number, self.random, self.trouble = (
            server,
            record,
            number,
            random.Random(seed),
            None,
        )

    def run(self):
        try:
            c = self.server.connect(database=ORACLE)
            while True:
                try:
                    self.transaction(c)
                except MySQLError as e:
                    if e.code not in RETRY:
                        raise
                    c.query('ROLLBACK')
        except OSError:
            pass  # the kill
        except MySQLError as e:
            self.trouble = f'worker {self.number}: {e}'

    def transaction(self, c):
        token, rows, kind = self.record.token(), self.random.randint(1, 3), self.random.random()
        xa = kind > 0.8
        c.query(f"XA START '{token}'" if xa else 'BEGIN')
        steps = [
            lambda: c.query(f'UPDATE worker SET n = n + 1, last = {token} WHERE id = {self.number}')
        ]
        steps += [
            lambda i=i: c.query(
                f"INSERT INTO token VALUES ({token}, {i}, {self.number},"
                f" '{PAD[: self.random.randint(0, 150)]}')"
            )
            for i in range(rows)
        ]
        self.random.shuffle(steps)
        try:
            for step in steps:
                step()
        except MySQLError:
            if xa:
                c.query(f"XA END '{token}'; XA ROLLBACK '{token}'")
            raise
        if xa:
            return self.two_phases(c, token, rows, kind)
        if kind < 0.05:  # rolled back: must never be seen
            c.query('ROLLBACK')
            return
        if kind < 0.10:  # a rollback to a savepoint inside a transaction that commits
            c.query('SAVEPOINT s')
            c.query(f"INSERT INTO token VALUES ({token}, 99, {self.number}, 'undone')")
            c.query('ROLLBACK TO s')
        self.record.send(token, self.number, rows)
        c.query('COMMIT')
        self.record.ack(token)


    def two_phases(self, c, token, rows, kind):
        end, doubt = f"'{token}'", (token, self.number, rows)
        c.query(f'XA END {end}')
        if kind > 0.98:
            self.record.send(token, self.number, rows)
            c.query(f'XA COMMIT {end} ONE PHASE')
            return self.record.ack(token)
        self.record.prepare(*doubt, 'preparing')
        c.query(f'XA PREPARE {end}')
        self.record.prepare(*doubt, 'prepared')
        if kind > 0.96:
            time.sleep(0.05)
        self.record.prepare(*doubt, 'ending')
        if kind < 0.83:
            c.query(f'XA ROLLBACK {end}')
        else:
            self.record.send(token, self.number, rows)
            c.query(f'XA COMMIT {end}')
            self.record.ack(token)
        self.record.prepare(*doubt, None)


class Switcher(threading.Thread):
    """Changes the writer mode and its settings under load, until the server is gone."""

    SETTINGS = {
        'redolith_log_writer': ['auto', 'session', 'leader', 'dedicated'],
        'redolith_log_flush_pace_us': [-1, 0, 0, 500, 3000],
        'redolith_log_flush_depth': [0, 1, 2, 4],
        'innodb_flush_log_at_trx_commit': [1, 1, 2],
    }

    # What keeps every commit in the stages of the classic commit.
    CLASSIC = {
        'innodb_flush_log_at_trx_commit': [1],
        'sync_binlog': [0, 1, 1, 3],
        'binlog_order_commits': [0, 1],
        'binlog_max_flush_queue_time': [0, 100],
        'binlog_group_commit_sync_delay': [0, 0, 500],
        'binlog_group_commit_sync_no_delay_count': [0, 8],
    }

    def __init__(self, server, every_s, seed, classic):
        super().__init__(daemon=True)
        self.settings = {**self.SETTINGS, **(self.CLASSIC if classic else {})}
        self.server, self.every_s, self.random, self.trouble, self.count = (
            server,
            every_s,
            random.Random(seed),
            None,
            0,
        )

    def run(self):
        try:
            c = self.server.connect()
            while True:
                for name, values in self.settings.items():
                    c.query(f'SET GLOBAL {name} = {self.random.choice(values)}')
                self.count += 1
                time.sleep(self.every_s)
        except OSError:
            pass  # the kill
        except MySQLError as e:
            self.trouble = f'switching the writer: {e}'


def prepare(server, a):
    c = server.connect()
    c.query(f'CREATE DATABASE {ORACLE}; CREATE DATABASE {sysbench.SCHEMA}; USE {ORACLE}')
    c.query(
        'CREATE TABLE token (token BIGINT NOT NULL, part INT NOT NULL, worker INT NOT NULL, pad'
        ' VARCHAR(200), PRIMARY KEY (token, part), KEY worker (worker, token))'
    )
    c.query('CREATE TABLE worker (id INT PRIMARY KEY, n BIGINT NOT NULL, last BIGINT NOT NULL)')
    c.query('INSERT INTO worker VALUES ' + ', '.join(f'({i}, 0, 0)' for i in range(a.connections)))
    c.close()
    sysbench.run(
        server, 'oltp_write_only', 'prepare', threads=2, tables=a.tables, table_size=a.table_size
    )


def end_doubts(c, record, rng):
    """Ends the XA transactions that are prepared. Returns the complaints."""
    found = {int(data) for _, _, _, data in c.rows('XA RECOVER')}
    wrong = [
        f'KILL-7: XA transaction {token} was prepared, and is gone'
        for token, (_, _, state) in record.doubts.items()
        if state == 'prepared' and token not in found
    ]
    for token in found:
        if token not in record.doubts:
            wrong.append(f'KILL-7: XA transaction {token} is prepared, and had ended')
            continue
        worker, rows, _ = record.doubts[token]
        if rng.random() < 0.5:
            record.send(token, worker, rows)
            c.query(f"XA COMMIT '{token}'")
            record.ack(token)
        else:
            c.query(f"XA ROLLBACK '{token}'")
    record.doubts, record.ended = {}, record.ended + len(found)
    return wrong


def verify(server, record, a, rng):
    """Returns all complaints after a restart."""
    c = server.connect(database=ORACLE)
    wrong = end_doubts(c, record, rng)
    found = {}
    for token, part, worker in c.rows('SELECT token, part, worker FROM token'):
        found.setdefault(int(token), []).append((int(part), int(worker)))
    for token, (worker, rows) in record.sent.items():
        there = found.pop(token, [])
        whole = sorted(there) == [(i, worker) for i in range(rows)]
        if token in record.acked and not whole:
            wrong.append(
                f'KILL-1: token {token} was acknowledged; {len(there)} of its {rows} rows are there'
            )
        elif there and not whole:
            wrong.append(f'KILL-2: token {token} is there in part: {there}, not {rows} rows')
        elif record.settled.setdefault(token, whole) != whole:
            wrong.append(
                f'KILL-2: token {token} was {"there" if not whole else "absent"} after an earlier'
                ' restart, and no longer is'
            )
    wrong += [
        f'KILL-3: token {t} is there and was never sent: {rows}'
        for t, rows in list(found.items())[:10]
    ]
    lived = [t for t, there in record.settled.items() if there]
    for id, n, last in c.rows('SELECT id, n, last FROM worker'):
        own = [t for t in lived if record.sent[t][0] == int(id)]
        if (int(n), int(last)) != (len(own), max(own, default=0)):
            wrong.append(
                f'KILL-2: worker {id.decode()} says n={n.decode()} last={last.decode()}; its tokens'
                f' say n={len(own)} last={max(own, default=0)}'
            )
    wrong += [
        f'KILL-4: {x}'
        for x in (
            check.tables(c, ORACLE)
            + check.tables(c, sysbench.SCHEMA)
            + check.row_counts(c, sysbench.SCHEMA, a.table_size)
        )
    ]
    c.close()
    return wrong


class Binlog:
    """What was read of the binary log so far: the tokens, and up to where."""

    def __init__(self):
        self.tokens, self.file, self.end, self.kept = collections.Counter(), '', 4, {}
        self.prepared = {}

    def keep(self, server):
        """Keeps the bytes of the files that are not read yet, before a restart."""
        unread = [n for n in binlog_files.names(server.data) if n >= self.file]
        self.kept = {name: self.read(server, name) for name in unread}

    @staticmethod
    def read(server, name):
        with open(os.path.join(server.data, name), 'rb') as f:
            data = bytearray(f.read())
        data[21:23] = b''
        return data

    def lacking(self, server, record):
        """The transactions that were acknowledged, and are not in the files of now (KILL-8)."""
        here = Binlog()
        here.file, here.end, here.prepared = self.file, self.end, dict(self.prepared)
        try:
            here.read_on(server, torn=True)
        except (binlog_files.Wrong, OSError) as e:
            return [f'KILL-8: {e}']
        lacks = record.acked - set(self.tokens) - set(here.tokens)
        return [f'KILL-8: not in the files before the restart: {sorted(lacks)[:10]}'] * bool(lacks)

    def read_on(self, server, torn=False):
        for name in binlog_files.names(server.data):
            if name < self.file:
                continue
            path, begin = os.path.join(server.data, name), self.end if name == self.file else 4
            found, end = binlog_files.inserted(
                path, f'{ORACLE}.token', self.prepared, begin, torn
            )
            self.file, self.end = name, end
            for transaction in found:
                # 6 bytes of the table's number, 2 of flags, 2 without further data, the number of
                # columns, their bitmap; then a row: its bitmap of NULLs, and the token.
                self.tokens.update({struct.unpack_from('<Q', b, 13)[0] for b in transaction})

    def complaints(self, server, record):
        try:
            self.read_on(server)
        except (binlog_files.Wrong, OSError) as e:
            return [f'KILL-6: {e}']
        for name, before in self.kept.items():
            if not self.read(server, name).startswith(before):
                return [f'KILL-6: {name} was made again with other bytes']
        there = {t for t, whole in record.settled.items() if whole}
        return [
            f'KILL-6: {what}: {sorted(tokens)[:10]}'
            for what, tokens in [
                ('in the tables and not in the binary log', there - set(self.tokens)),
                ('in the binary log and not in the tables', set(self.tokens) - there),
                ('twice in the binary log', {t for t, n in self.tokens.items() if n > 1}),
            ]
            if tokens
        ]


def one_round(server, record, binlog, a, rng, switch):
    """Runs load, kill and restart. Returns the complaints, and a description of the round."""
    before = len(record.acked)
    workers = [Worker(server, record, i, rng.random()) for i in range(a.connections)]
    load = sysbench.spawn(
        server,
        'oltp_write_only',
        'run',
        threads=a.threads,
        tables=a.tables,
        table_size=a.table_size,
        time=600,
    )
    drain = threading.Thread(target=load.stdout.read, daemon=True)
    drain.start()
    if switch:
        workers.append(
            Switcher(server, a.switch_ms / 1000, rng.random(), a.commit == 'classic')
        )
    for w in workers:
        w.start()
    moment_s = a.seconds if a.at_end else rng.uniform(0.2, a.seconds)
    time.sleep(moment_s)
    died_before = not server.alive()
    server.kill()
    for w in workers:
        w.join(30)
    load.kill()
    load.wait()
    wrong = [w.trouble for w in workers if w.trouble]
    if died_before:
        wrong.append(f'the server ended by itself:\n{server.last_words()}')
    there = dumps.files_of(server.data)
    wrong += [f'KILL-5: there is no file of the kind {k}' for k in dumps.DUMPS if not there[k]]
    printed = dumps.complaints(server.binary, server.data, options=['--limit=500'])
    wrong += [f'KILL-5: {x}' for x in printed]
    if binlog:
        binlog.keep(server)
        if a.commit == 'classic':
            wrong += binlog.lacking(server, record)
    words = f'killed after {moment_s:.2f} s, {len(record.acked) - before} acked'
    if switch:
        words += f', {workers[-1].count} switches'
    if rng.random() < 0.25:
        again_s = rng.uniform(0.0, 0.4)
        first = server.process
        start = threading.Thread(target=start_quietly, args=(server,), daemon=True)
        start.start()
        while server.process is first and start.is_alive():
            time.sleep(0.001)
        time.sleep(again_s)
        server.kill()
        start.join(60)
        words += f', and {again_s:.2f} s into the restart'
    restart_s = server.start()
    wrong += verify(server, record, a, rng)
    if binlog:
        wrong += binlog.complaints(server, record)
        words += f', {sum(binlog.tokens.values())} tokens in the binary log'
    return wrong, f'{words}; up again in {restart_s:.2f} s'


def start_quietly(server):
    try:
        server.start()
    except servers.NotUp:
        pass


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument('--seconds', type=float, default=2.5, help='the latest moment of the kill')
    parser.add_argument(
        '--at-end', action='store_true', help='kill at that moment, not at a random one before'
    )
    parser.add_argument(
        '--switch-ms',
        type=float,
        default=20,
        help='how often the settings of the log writer change; 0: never',
    )
    parser.add_argument('--binlog', action='store_true', help='with a binary log')
    parser.add_argument(
        '--commit', choices=['unified', 'classic'], default='unified', help='with --binlog'
    )
    parser.add_argument('--threads', type=int, default=16, help='of sysbench')
    parser.add_argument('--connections', type=int, default=6, help='of the oracle')
    parser.add_argument('--tables', type=int, default=8)
    parser.add_argument('--table-size', type=int, default=10000)
    servers.add_arguments(parser)
    a = parser.parse_args()
    report = Report()
    if a.commit == 'classic' and not a.binlog:
        parser.error('--commit classic needs --binlog')
    print(f'seed {a.seed}: tests/kill.py --seed {a.seed} --rounds {a.rounds}', flush=True)
    dir = servers.scratch('kill')
    server = servers.make(
        a,
        dir,
        **SETTINGS,
        **({'log_bin': None, 'max_binlog_size': '1M'} if a.binlog else {}),
        **({'redolith_binlog_commit': a.commit} if a.commit != 'unified' else {}),
        **(
            {'innodb_log_file_size': '64M'}
            if a.server == 'mariadb'
            else {'innodb_redo_log_capacity': '64M'}
        ),
    )
    with server:
        prepare(server, a)
        record = Record(os.path.join(dir, 'record'))
        binlog = Binlog() if a.binlog else None
        for i in range(a.rounds):
            try:
                switch = a.server == 'redolith' and a.switch_ms > 0 and (a.at_end or i % 2 == 1)
                wrong, words = one_round(
                    server, record, binlog, a, random.Random(f'{a.seed}/{i}'), switch
                )
            except (servers.NotUp, MySQLError, OSError) as e:
                wrong, words = [f'{type(e).__name__}: {e}', server.last_words()], ''
            if wrong:
                report.fail(
                    f'round {i + 1}',
                    '\n'.join(wrong[:20]) + f'\nseed {a.seed}; kept: {os.path.relpath(dir)}',
                )
                break  # the directory is evidence: nothing may write to it any more
            report.ok(f'round {i + 1}', words)
        print(
            f'{len(record.sent)} transactions sent, {len(record.acked)} acknowledged,'
            f' {record.ended} found prepared,'
            f' {sum(record.settled.values())} there'
        )
        if report.failed:
            sys.exit(report.end())  # the `with` ends the server and keeps its files
        report.outcome('clean shutdown', check.clean_shutdown(server))
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

"""Commits that wait for replicas: with a client that acknowledges as it likes, and with a stock
MariaDB.
"""

import threading
import time

from rig.client import MySQLError
from rig.dumping import FORMAT, MAGIC, ROTATE, Dump
from rig.replica import WITH_GTIDS, replica_of, same_rows, source, wait_for

VARIABLE = 'rpl_semi_sync_replica'
OLD_VARIABLE = 'rpl_semi_sync_slave'
# A figure that no test reaches: what does not end a wait must not look as if it did.
LONG_MS = 600_000


class Statement(threading.Thread):
    """A statement in a connection of its own, which may wait."""

    def __init__(self, server, text, connection=None):
        super().__init__(daemon=True)
        self.c, self.text, self.error = connection or server.connect(), text, None
        self.start()

    def run(self):
        try:
            self.c.query(self.text)
        except (MySQLError, OSError, EOFError) as e:
            self.error = e

    def waits(self, seconds=0.3):
        self.join(seconds)
        return self.is_alive()

    def ends(self):
        self.join(30)
        assert not self.is_alive(), f'{self.text}: still waits'
        return self.error


def status(c, name):
    return c.rows(f"SHOW STATUS LIKE 'Rpl_semi_sync_source_{name}'")[0][1].decode()


def figures(c):
    rows = c.rows("SHOW STATUS LIKE 'Rpl_semi_sync_source_%'")
    return {name.decode()[21:]: value.decode() for name, value in rows}


def variables(c):
    """Old and new names have one value."""
    names = {
        'enabled': ('enabled', 'OFF'),
        'timeout': ('timeout', '10000'),
        'trace_level': ('trace_level', '32'),
        'wait_for_slave_count': ('wait_for_replica_count', '1'),
        'wait_no_slave': ('wait_no_replica', 'ON'),
        'wait_point': ('wait_point', 'AFTER_SYNC'),
    }
    for old, (new, default) in names.items():
        for name in (f'rpl_semi_sync_master_{old}', f'rpl_semi_sync_source_{new}'):
            assert c.rows(f"SHOW VARIABLES LIKE '{name}'")[0][1].decode() == default, name
    c.query('SET GLOBAL rpl_semi_sync_master_timeout = 77')
    assert c.value('SELECT @@rpl_semi_sync_source_timeout') == '77'
    c.query('SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2')
    assert c.value('SELECT @@rpl_semi_sync_master_wait_for_slave_count') == '2'
    c.query('SET GLOBAL rpl_semi_sync_master_wait_for_slave_count = DEFAULT')
    c.query("SET GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_COMMIT'")
    c.query('SET GLOBAL rpl_semi_sync_source_wait_point = DEFAULT')
    assert len(figures(c)) == 14, figures(c)
    assert len(c.rows("SHOW STATUS LIKE 'Rpl_semi_sync_master_%'")) == 14


def follower(s, name=VARIABLE, server_id=77):
    """A client that has everything, and acknowledges nothing by itself."""
    file, position, *_ = s.connect().rows('SHOW MASTER STATUS')[0]
    dump = Dump(s, file.decode(), int(position), semi_sync=name, server_id=server_id)
    dump.file = file.decode()
    assert [dump.next().type, dump.next().type] == [ROTATE, FORMAT]
    return dump


def own_client():
    """Tests SEMI-1 and SEMI-2."""
    with source('semi-sync') as s:
        c = s.connect()
        variables(c)
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (a INT PRIMARY KEY)')
        dump = follower(s)
        c.query(f'SET GLOBAL rpl_semi_sync_source_timeout = {LONG_MS}')
        c.query('SET GLOBAL rpl_semi_sync_source_enabled = ON')
        assert status(c, 'status') == 'ON' and status(c, 'clients') == '1'
        for text in (
            'INSERT INTO d.t VALUES (1)',
            'CREATE TABLE d.u (a INT)',
            'INSERT INTO d.t SELECT 2',
            'BEGIN; INSERT INTO d.t VALUES (3); UPDATE d.t SET a = 4 WHERE a = 3; COMMIT',
        ):
            before = int(status(c, 'yes_tx'))
            one, (*first, last) = s.connect(), text.split('; ')
            for part in first:
                one.query(part)
            statement = Statement(s, last, one)
            event = dump.next_asking()
            assert statement.waits(), text
            states = [row[6] for row in c.rows('SHOW PROCESSLIST')]
            assert b'Waiting for semi-sync ACK from replica' in states, states
            # What is before the events does not end the wait.
            dump.acknowledge(event.end - 1, dump.file)
            assert statement.waits(), text
            dump.acknowledge(event.end, dump.file)
            assert statement.ends() is None
            assert int(status(c, 'yes_tx')) == before + 1
        # Others see a commit that waits.
        statement = Statement(s, 'INSERT INTO d.t VALUES (5)')
        event = dump.next_asking()
        assert c.value('SELECT COUNT(*) FROM d.t WHERE a = 5') == '1' and statement.waits()
        # KILL QUERY ends the wait; the commit stays.
        c.query(f'KILL QUERY {statement.c.connection_id}')
        error = statement.ends()
        assert error.code == 1317 and 'committed' in error.message, error
        assert c.value('SELECT COUNT(*) FROM d.t WHERE a = 5') == '1'
        statement = Statement(s, 'INSERT INTO d.t VALUES (6)')
        dump.next_asking()
        c.query(f'KILL {statement.c.connection_id}')
        assert statement.ends() is not None
        # Statements without events, and sessions that do not log, do not wait.
        quick = s.connect()
        quick.query('SELECT * FROM d.t; UPDATE d.t SET a = a; SET sql_log_bin = 0')
        quick.query('INSERT INTO d.t VALUES (7)')
        # Two replicas are to acknowledge.
        other = follower(s, OLD_VARIABLE, server_id=78)
        c.query('SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2')
        statement = Statement(s, 'INSERT INTO d.t VALUES (8)')
        event = dump.next_asking()
        dump.acknowledge(event.end, dump.file)
        dump.acknowledge(event.end, dump.file)
        assert statement.waits()
        other.acknowledge(other.next_asking().end, other.file)
        assert statement.ends() is None
        c.query('SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1')
        other.c.close()
        # A shutdown does not wait for replicas, which would take LONG_MS.
        statement = Statement(s, 'INSERT INTO d.t VALUES (9)')
        assert statement.waits()
        began = time.monotonic()
        assert s.stop() == 0 and time.monotonic() - began < 60
        assert statement.ends() is not None


def timeout():
    """Tests SEMI-2."""
    with source('semi-sync-timeout', rpl_semi_sync_master_enabled='ON') as s:
        c = s.connect()
        c.query('SET GLOBAL rpl_semi_sync_source_timeout = 300')
        c.query('CREATE DATABASE d')
        assert status(c, 'status') == 'OFF' and status(c, 'no_times') == '1'
        assert 'semi-synchronous replication is off' in s.last_words(), s.last_words()
        c.query('CREATE TABLE d.t (a INT PRIMARY KEY)')
        dump = follower(s)
        # It has everything, so commits wait again.
        wait_for('a replica that has caught up', lambda: status(c, 'status') == 'ON')
        began = time.monotonic()
        c.query('INSERT INTO d.t VALUES (1)')
        assert time.monotonic() - began > 0.2 and status(c, 'status') == 'OFF'
        for n in range(2, 20):
            c.query(f'INSERT INTO d.t VALUES ({n})')
        assert status(c, 'no_tx') == '21', figures(c)
        end = dump.next_asking().end
        while end < int(c.rows('SHOW MASTER STATUS')[0][1]):
            end = dump.next_asking().end
        dump.acknowledge(end, dump.file)
        wait_for('a replica that has caught up', lambda: status(c, 'status') == 'ON')
        # Without a replica commits need not wait.
        c.query(f'SET GLOBAL rpl_semi_sync_source_timeout = {LONG_MS}')
        c.query('SET GLOBAL rpl_semi_sync_source_wait_no_replica = OFF')
        statement = Statement(s, 'INSERT INTO d.t VALUES (20)')
        dump.next_asking()
        dump.c.close()
        assert statement.ends() is None
        assert status(c, 'status') == 'OFF' and status(c, 'clients') == '0'


def hostile():
    """Tests REPL-6: what is no acknowledgement, or is ahead of what was sent, ends the dump, and no
    commit's wait.
    """
    with source('semi-sync-hostile') as s:
        c = s.connect()
        c.query(f'SET GLOBAL rpl_semi_sync_source_timeout = {LONG_MS}')
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (a INT PRIMARY KEY)')
        c.query('SET GLOBAL rpl_semi_sync_source_enabled = ON')
        acks = lambda end: [
            (b'\xef' + (end + 1).to_bytes(8, 'little') + b'binlog.000001', 0),
            (b'\xef' + b'\xff' * 8 + b'binlog.000001', 0),
            (b'\xef' + (4).to_bytes(8, 'little') + b'binlog.000002', 0),
            (b'\xef' + (4).to_bytes(8, 'little') + b'binlog.999999', 0),
            (b'\xef' + (4).to_bytes(8, 'little') + b'/etc/passwd', 0),
            (b'\xef' + (4).to_bytes(8, 'little') + b'binlog.1', 0),
            (b'\xef' + (4).to_bytes(8, 'little'), 0),
            (b'\xef' + (4).to_bytes(8, 'little') + b'\0' * 512, 0),
            (b'\xef' + (4).to_bytes(8, 'little') + b'x' * 513, 0),
            (b'\xef' + end.to_bytes(8, 'little') + b'binlog.000001', 5),
            (b'\xef\1\2\3', 0),
            (b'\xef', 0),
            (b'', 0),
            (b'\1', 0),
            (b'\3SELECT 1', 0),
            (b'\x12' + b'\4\0\0\0\0\0\7\0\0\0', 0),
            (MAGIC, 0),
            (b'\xef' * 100_000, 0),
        ]
        for case in range(len(acks(0))):
            dump = follower(s)
            waits = Statement(s, f'INSERT INTO d.t VALUES ({case})')
            bytes, sequence = acks(dump.next_asking().end)[case]
            dump.send_ack(bytes, sequence)
            try:
                while dump.next():
                    pass
                raise AssertionError(f'{bytes[:40]}: the dump goes on')
            except (OSError, EOFError, MySQLError):
                pass
            assert waits.waits(0.1), bytes[:40]
            # A dump that begins at the end has what is before it.
            follower(s)
            assert waits.ends() is None
        # A flood of acknowledgements that say nothing new.
        dump = follower(s)
        waits = Statement(s, 'INSERT INTO d.t VALUES (1000)')
        event = dump.next_asking()
        one = (22).to_bytes(3, 'little') + b'\0\xef' + (4).to_bytes(8, 'little') + b'binlog.000001'
        began = time.monotonic()
        dump.c.io.sendall(one * 100_000)
        assert waits.waits()
        dump.acknowledge(event.end, dump.file)
        assert waits.ends() is None
        took = time.monotonic() - began
        assert took < 20, took
        assert s.rss_kib() < 600 << 10, s.rss_kib()
        # One that asks for nothing, reads nothing, and one that says half a word.
        silent, half = follower(s, server_id=79), follower(s, server_id=80)
        half.c.io.sendall(one[:9])
        for n in range(1001, 1010):
            waits = Statement(s, f'INSERT INTO d.t VALUES ({n})')
            dump.acknowledge(dump.next_asking().end, dump.file)
            assert waits.ends() is None
        assert status(c, 'clients') == '3' and silent and half
        assert s.alive() and 'panicked' not in s.last_words()


def mariadb(by_gtids=False):
    """A MariaDB that acknowledges, is killed, comes back, and has every commit that its source has
    acknowledged before the source was killed.
    """
    theirs = {'rpl_semi_sync_slave_enabled': 'ON'}
    # A replica on a busy machine may rest for seconds, and no commit gives it up.
    ours = {'rpl_semi_sync_source_enabled': 'ON', 'rpl_semi_sync_source_timeout': str(LONG_MS)}
    if by_gtids:
        # Every few commits begin another file.
        ours |= {**WITH_GTIDS, 'max_binlog_size': '4096'}
    with source('semi-sync-mariadb', **ours) as s, replica_of('semi-sync-mariadb-r', **theirs) as r:
        r.by_gtids = by_gtids
        r.attach(s)
        c = s.connect()
        wait_for('a replica that acknowledges', lambda: status(c, 'status') == 'ON')
        wait_for('the replica', lambda: status(c, 'clients') == '1')
        assert r.c.rows("SHOW STATUS LIKE 'Rpl_semi_sync_slave_status'")[0][1] == b'ON'
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (a INT PRIMARY KEY, b INT)')
        for n in range(100):
            c.query(f'INSERT INTO d.t VALUES ({n}, 0)')
        c.query('FLUSH LOGS')
        for n in range(100, 200):
            c.query(f'INSERT INTO d.t VALUES ({n}, 0)')
        for n in range(20):
            name = f"'{'g' * 64}', '{n:064}'"
            for verb in ('START', 'END', 'PREPARE', 'COMMIT'):
                c.query(f'XA {verb} {name}')
                if verb == 'START':
                    c.query(f'INSERT INTO d.t VALUES ({1000 + n}, 1)')
        found = figures(c)
        assert int(found['yes_tx']) >= 240 and found['no_times'] == '0', found
        r.wait_for_end(s)
        same_rows(s, r)
        # Without its replica a commit waits as long as it is set to, and only the first one.
        c.query('SET GLOBAL rpl_semi_sync_source_timeout = 1000')
        r.kill()
        began = time.monotonic()
        c.query('INSERT INTO d.t VALUES (200, 0)')
        waited = time.monotonic() - began
        assert waited > 0.8 and status(c, 'status') == 'OFF', waited
        for n in range(201, 300):
            c.query(f'INSERT INTO d.t VALUES ({n}, 0)')
        r.kill_and_start()
        wait_for('a replica that has caught up', lambda: status(c, 'status') == 'ON', 60)
        assert figures(c)['no_times'] == '1', figures(c)
        # STOP SLAVE ends the dump, START SLAVE begins another.
        r.c.query('STOP SLAVE IO_THREAD')
        wait_for('the end of the dump', lambda: status(c, 'clients') == '0')
        r.c.query('START SLAVE IO_THREAD')
        wait_for('the next dump', lambda: status(c, 'clients') == '1')
        wait_for('a replica that has caught up', lambda: status(c, 'status') == 'ON')
        c.query(f'SET GLOBAL rpl_semi_sync_source_timeout = {LONG_MS}')
        told = [acknowledged(s, first) for first in range(100_000, 900_000, 100_000)]
        time.sleep(2)
        wait_for('acknowledged rows', lambda: sum(len(seen) for _, seen in told) > 50)
        s.kill()
        rows = [n for thread, seen in told for n in (thread.join(), seen)[1]]
        wait_for('the relay log', lambda: relayed(r))
        there = {int(row[0]) for row in r.c.rows('SELECT a FROM d.t')}
        missing = sorted(set(rows) - there)
        assert not missing, f'{len(missing)} of {len(rows)} acknowledged rows: {missing[:5]}'
        return f'{len(rows)} commits acknowledged before the kill, all on the replica'


def relayed(r):
    """Whether the replica has applied all that it has received."""
    now = r.status()
    if r.by_gtids:
        return now['Gtid_IO_Pos'] == r.c.value('SELECT @@gtid_slave_pos')
    return now['Read_Master_Log_Pos'] == now['Exec_Master_Log_Pos']


def acknowledged(s, first):
    """A session that inserts until its server dies, and what it was told is committed."""
    seen = []

    def run():
        c = s.connect()
        try:
            for n in range(first, first + 100_000):
                c.query(f'INSERT INTO d.t VALUES ({n}, 1)')
                seen.append(n)
        except (MySQLError, OSError, EOFError):
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, seen

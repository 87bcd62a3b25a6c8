#!/usr/bin/env python3
"""Reads a server's binary log the way replicas do: over COM_BINLOG_DUMP with a client that sees the
bytes, and with a stock MariaDB as a replica.

  tests/replica.py                a minute
  tests/replica.py --kills 10     source and replica are killed 10 times each under load
  tests/replica.py --only kills   one part alone

The parts with data compare every row of every table on both servers.
"""

import argparse
import os
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, 'following')]
import load  # noqa: E402
import semi_sync  # noqa: E402
import statements as following_statements  # noqa: E402
from rig import java, python, servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.dumping import (  # noqa: E402
    DUMP,
    DUMP_GTID,
    FORMAT,
    HEARTBEAT,
    IN_USE_AT,
    MAGIC,
    NON_BLOCK,
    REGISTER,
    ROTATE,
    Dump,
)
from rig.replica import WITH_GTIDS, replica_of, same_rows, source, wait_for  # noqa: E402
from rig.report import Report  # noqa: E402
from rig.sysbench import SysbenchFailed  # noqa: E402

FAILURES = (
    AssertionError,
    MySQLError,
    OSError,
    servers.NotUp,
    subprocess.SubprocessError,
    SysbenchFailed,
)


def files_of(events, checksum='CRC32'):
    """The files that a dump's events are from, as a client writes them. `checksum`: what the client
    said, which holds before the first FORMAT_DESCRIPTION.
    """
    files = {}
    for event in events:
        if event.type == ROTATE and event.made:
            crc = 4 if files or checksum == 'CRC32' else 0
            name = event.raw[27 : len(event.raw) - crc].decode()
            files[name] = bytearray(MAGIC)
        else:
            files[name] += event.raw
    return files


def error_of(act):
    try:
        act()
    except MySQLError as e:
        return e.code, e.message
    return None


def names(connection):
    return [row[0].decode() for row in connection.rows('SHOW BINARY LOGS')]


def statements():
    with source('replica-statements', gtid_mode='ON', enforce_gtid_consistency='ON') as s:
        c = s.connect()
        assert names(c) == ['binlog.000001']
        c.query('FLUSH BINARY LOGS')
        c.query('FLUSH LOGS')
        c.query('FLUSH ENGINE LOGS')
        assert names(c) == [f'binlog.00000{n}' for n in (1, 2, 3)]
        for text in ('SHOW MASTER STATUS', 'SHOW BINARY LOG STATUS'):
            file, position, *_ = c.rows(text)[0]
            path = os.path.join(s.data, file.decode())
            assert int(position) == os.path.getsize(path), (file, position)
        events = c.rows("SHOW BINLOG EVENTS IN 'binlog.000002'")
        assert [row[2] for row in events] == [b'Format_desc', b'Previous_gtids', b'Rotate']
        assert events[2][5] == b'binlog.000003;pos=4', events
        assert c.rows("SHOW BINLOG EVENTS IN 'binlog.000002' LIMIT 1, 1") == events[1:2]
        assert c.rows("SHOW BINLOG EVENTS IN 'binlog.000002' FROM 126") == events[1:]
        assert c.rows('SHOW BINLOG EVENTS LIMIT 1')[0][0] == b'binlog.000001'
        show = lambda rest: error_of(lambda: c.rows(f'SHOW BINLOG EVENTS {rest}'))
        assert show("IN 'binlog.000009'")[0] == 1220
        assert 'Wrong offset' in show('FROM 7')[1] and 'Wrong offset' in show('FROM 70000')[1]
        assert error_of(lambda: c.query("PURGE BINARY LOGS TO 'binlog.9'"))[0] == 1373
        assert c.query("PURGE BINARY LOGS TO 'binlog.000002'")[0].warnings == 0
        assert names(c) == ['binlog.000002', 'binlog.000003']
        c.query("PURGE MASTER LOGS BEFORE '2020-01-01 00:00:00'")
        assert len(names(c)) == 2
        c.query('PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY')
        assert names(c) == ['binlog.000003']
        assert not os.path.exists(os.path.join(s.data, 'binlog.000002'))
        assert c.value('SELECT @@gtid_executed') == c.value('SELECT @@gtid_purged') == ''
        uuid = c.value('SELECT @@server_uuid')
        assert c.value(f"SELECT GTID_SUBSET('{uuid}:2-3', '{uuid}:1-5')") == '1'
        assert c.value(f"SELECT GTID_SUBTRACT('{uuid}:1-5', '{uuid}:3')") == f'{uuid}:1-2:4-5'
        assert error_of(lambda: c.rows("SELECT GTID_SUBSET('x', '')"))[0] == 1772
        assert c.rows("SHOW STATUS LIKE 'Redolith_binlog_dumps'")[0][1] == b'0'
    with servers.Redolith(servers.scratch('replica-off')) as s:
        c = s.connect()
        assert c.rows('SHOW MASTER STATUS') == []
        for text in ('SHOW BINARY LOGS', 'SHOW BINLOG EVENTS'):
            assert error_of(lambda text=text: c.rows(text))[0] == 1381
        assert error_of(lambda: c.query('RESET MASTER'))[0] == 1186
        assert error_of(Dump(s).rest) == (1236, 'Binary log is not open')


def raw_stream():
    with source('replica-raw', gtid_mode='ON', enforce_gtid_consistency='ON') as s:
        for _ in range(3):
            s.connect().query('FLUSH LOGS')
        s.stop()
        s.start()
        s.kill()
        s.start()
        wanted = names(s.connect())
        assert len(wanted) == 6, wanted
        for checksum in ('CRC32', 'NONE'):
            events = Dump(s, flags=NON_BLOCK, checksum=checksum).rest()
            files = files_of(events, checksum)
            assert list(files) == wanted, list(files)
            for name, got in files.items():
                with open(os.path.join(s.data, name), 'rb') as f:
                    there = bytearray(f.read())
                there[IN_USE_AT] = 0
                assert got == there, name
            if checksum == 'CRC32':
                crc_of_first = files
        assert crc_of_first
        for name in wanted:
            path = os.path.join(s.dir, name)
            with open(path, 'wb') as f:
                f.write(crc_of_first[name])
            said = subprocess.run(
                ['mariadb-binlog', '--no-defaults', '--verify-binlog-checksum', path],
                capture_output=True,
                text=True,
            )
            assert said.returncode == 0 and not said.stderr, said.stderr
        # From the middle: the file's head is made, the rest is the file's.
        events = Dump(s, wanted[1], 126, flags=NON_BLOCK).rest()
        assert events[0].made and events[1].type == FORMAT and events[1].end == 0
        assert len(files_of(events)) == 5
        # With GTIDs a dump begins where the replica lacks something: it has everything here.
        c = s.connect()
        c.query("SET @source_binlog_checksum = 'CRC32'")
        c.command(DUMP_GTID, struct.pack('<HII', NON_BLOCK, 9, 0) + struct.pack('<QIQ', 4, 8, 0))
        dump = Dump.__new__(Dump)
        dump.c, dump.semi_sync = c, None
        assert list(files_of(dump.rest())) == wanted[-1:]


def refusals():
    with source('replica-refusals') as s:
        s.connect().query('FLUSH LOGS')
        behind = 'Client requested source to start replication from position > file size'
        for file, position, text in (
            ('binlog.000003', 4, 'Could not find first log file name in binary log index file'),
            ('../data/ibdata1', 4, 'Could not find first log file name in binary log index file'),
            ('binlog.000001', 3, 'Client requested source to start replication from position < 4'),
            ('binlog.000001', 5000, behind),
            ('binlog.000001', 50, behind),
            ('binlog.000001', 127, behind),
        ):
            assert error_of(Dump(s, file, position).rest) == (1236, text), (file, position)
        assert error_of(Dump(s, checksum=None, flags=NON_BLOCK).rest)[0] == 1236
        for code, payload in (
            (DUMP, b''),
            (DUMP, b'\4\0\0\0\1'),
            (DUMP_GTID, b''),
            (DUMP_GTID, b'\0\0\1\0\0\0\xff\xff\xff\xff'),
            (DUMP_GTID, struct.pack('<HII', 0, 1, 0) + struct.pack('<QI', 4, 0xFFFFFFFF)),
            (DUMP_GTID, struct.pack('<HII', 0, 1, 0) + struct.pack('<QIQ', 4, 8, 1 << 60)),
            (REGISTER, b''),
            (REGISTER, b'\1\0\0\0\xff'),
        ):
            c = s.connect()
            c.command(code, payload)
            assert error_of(c._checked)[0] == 1835, (code, payload)
        hostile_requests(s)
        c = s.connect()
        c.command(DUMP_GTID, struct.pack('<HII', 0, 1, 0) + struct.pack('<QIQ', 4, 8, 0))
        assert 'AUTO_POSITION' in error_of(c._checked)[1]
        # A damaged event is told, and not sent.
        path = os.path.join(s.data, 'binlog.000001')
        with open(path, 'r+b') as f:
            f.seek(130)
            f.write(b'\xff')
        code, text = error_of(Dump(s, flags=NON_BLOCK).rest)
        assert code == 1236 and 'position 126' in text, text


def hostile_requests(s):
    """Each ends its connection with an error, and nothing else."""
    end = int(s.connect().rows('SHOW MASTER STATUS')[0][1])
    by_position = lambda file, position=4: (DUMP, struct.pack('<IHI', position, 0, 9) + file)
    set_of = lambda *numbers: struct.pack(f'<QI{len(numbers)}Q', 4, 8 * len(numbers), *numbers)
    by_gtids = lambda bytes: (DUMP_GTID, struct.pack('<HII', 0, 9, 0) + bytes)
    last = names(s.connect())[-1].encode()
    requests = [
        *(by_position(last, at) for at in range(5, end) if at != 126),
        *(by_position(last, at) for at in (0, end + 1, 1 << 31, (1 << 32) - 1)),
        *(by_position(file) for file in (b'.', b'..', b'/', b'binlog', b'binlog.', b'binlog.-1')),
        *(by_position(file) for file in (b'binlog.000000', b'binlog.1', b'BINLOG.000001')),
        *(by_position(file) for file in (b'\0', last + b'\0', last + b'/..', b'\xff' * 100_000)),
        *(by_position(file) for file in (b'binlog.99999999999999999999', b'binlog.index')),
        # Sets: more than there is, intervals that are empty, backwards, or overlap.
        *(by_gtids(set_of(n)) for n in (1, 1 << 32, (1 << 64) - 1)),
        *(by_gtids(set_of(1, 0, 0, 1, *pair)) for pair in ((1, 1), (5, 2), (0, 9), (1, 1 << 63))),
        by_gtids(set_of(1, 0, 0, 2, 1, 5, 3, 9)),
        by_gtids(struct.pack('<QI', 4, 2 << 20) + bytes(2 << 20)),
        (DUMP_GTID, struct.pack('<HII', 0, 9, 1 << 31)),
    ]
    for code, payload in requests:
        c = s.connect()
        c.command(code, payload)
        try:
            while c._read()[0] == 0:
                pass
            error = None
        except (OSError, EOFError) as e:
            error = e
        assert error is None, (code, payload[:60], error)
        try:
            c._read()
            raise AssertionError(f'{code}, {payload[:60]}: the connection goes on')
        except (OSError, EOFError):
            pass
    assert s.alive() and 'panicked' not in s.last_words()


def following():
    """Tests REPL-5."""
    with source('replica-following') as s:
        c = s.connect()
        first = Dump(s, heartbeat=100_000_000)
        first.c.timeout = 10
        kinds = [first.next().type for _ in range(3)]
        assert kinds == [ROTATE, FORMAT, 35], kinds
        beat = first.next()
        assert beat.type == HEARTBEAT and beat.raw[19:-4] == b'binlog.000001', beat.raw
        assert beat.end == int(c.rows('SHOW MASTER STATUS')[0][1])
        state = lambda: next(r for r in c.rows('SHOW PROCESSLIST') if r[4] == b'Binlog Dump')[6]
        said = b'Source has sent all binlog to replica; waiting for more updates'
        # Another state is that of a dump that sends, as it does for each heartbeat.
        wait_for('a dump that has sent all', lambda: state() == said)
        c.query('FLUSH LOGS')
        # Heartbeats come ten times a second.
        event = next(e for e in (first.next() for _ in range(300)) if e.type != HEARTBEAT)
        assert event.type == ROTATE and not event.made
        assert [first.next().type for _ in range(3)] == [ROTATE, FORMAT, 35]
        # A second dump of the same replica ends the first.
        second = Dump(s)
        assert second.next().type == ROTATE
        wait_for('the end of the first dump', lambda: dumps(c) == 1)
        # Registered replicas are shown while they are connected.
        replica = s.connect()
        replica.query("SET @slave_uuid = '3e11fa47-71ca-11e1-9e33-c80aa9429562'")
        replica.command(REGISTER, struct.pack('<IB2sBBHII', 9, 2, b'h9', 0, 0, 3399, 0, 0))
        replica.receive()
        wanted = (b'9', b'h9', b'3399', b'1', b'3e11fa47-71ca-11e1-9e33-c80aa9429562')
        assert c.rows('SHOW REPLICAS') == c.rows('SHOW SLAVE HOSTS') == [wanted]
        replica.close()
        wait_for('a replica that left', lambda: c.rows('SHOW REPLICAS') == [])
        # KILL and a shutdown end dumps.
        for how in ('KILL', 'KILL QUERY'):
            dump = Dump(s, server_id=0)
            dump.next()
            wait_for('a dump', lambda: dumps(c) == 2)
            c.query(f'{how} {dump.c.connection_id}')
            wait_for(f'{how} of a dump', lambda: dumps(c) == 1)
        began = time.monotonic()
        # With dumps that go on, it would end them after its patience, and fail.
        assert s.stop() == 0 and time.monotonic() - began < 60


def dumps(c):
    return int(c.rows("SHOW STATUS LIKE 'Redolith_binlog_dumps'")[0][1])


def mariadb_follows(theirs=False):
    gtids = WITH_GTIDS if theirs else {}
    with source('replica-source', **gtids) as s, replica_of('replica-mariadb') as r:
        r.by_gtids = theirs
        s.connect().query('FLUSH LOGS')
        r.attach(s)
        r.wait_for_end(s)
        for act in (s.stop, s.kill, s.stop):
            s.connect().query('FLUSH LOGS')
            act()
            s.start()
            r.wait_for_end(s)
        r.c.query('STOP SLAVE')
        s.connect().query('FLUSH LOGS')
        r.c.query('START SLAVE')
        r.wait_for_end(s)
        assert len(names(s.connect())) == 9, names(s.connect())
        beats = lambda: int(r.c.rows("SHOW STATUS LIKE 'Slave_received_heartbeats'")[0][1])
        before = beats()
        wait_for('heartbeats', lambda: beats() > before + 2)
        assert len(s.connect().rows('SHOW SLAVE HOSTS')) == 1
        # MariaDB's GTID of such an end is longer than MySQL's, and a replica that has counted
        # further than a heartbeat says stops.
        c = s.connect()
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (id INT PRIMARY KEY)')
        for n in range(4):
            name = f"'{'g' * 64}', '{chr(97 + n) * 64}'"
            c.query(f'XA START {name}')
            c.query(f'INSERT INTO d.t VALUES ({n})')
            c.query(f'XA END {name}')
            c.query(f'XA PREPARE {name}')
        c.query('FLUSH LOGS')
        for n in range(4):
            c.query(f"XA COMMIT '{'g' * 64}', '{chr(97 + n) * 64}'")
        r.wait_for_end(s)
        before = beats()
        wait_for('heartbeats behind XA COMMIT', lambda: beats() > before + 2)
        r.wait_for_end(s)
        assert same_rows(s, r) == 4
        r.c.query('STOP SLAVE')
        wait_for('the end of the dump', lambda: dumps(s.connect()) == 0)


def mariadb_binlog():
    """What mariadb-binlog fetches are the files, byte for byte."""
    with source('replica-remote', version='10.11.0-redolith') as s:
        c = s.connect()
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)')
        for n in range(4):
            c.query(f"INSERT INTO d.t VALUES ({n}, REPEAT('x', 400000))")
            c.query(f"UPDATE d.t SET v = 'y' WHERE id = {n}")
        c.query('FLUSH LOGS')
        subprocess.run(
            [
                *('mariadb-binlog', '--no-defaults', '--read-from-remote-server', '--raw'),
                *('--to-last-log', '--host=127.0.0.1', f'--port={s.port}', '--user=root'),
                *(f'--result-file={s.dir}/', 'binlog.000001'),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        wanted = names(c)
        assert len(wanted) > 3, wanted
        for name in wanted:
            with open(os.path.join(s.data, name), 'rb') as f:
                there = bytearray(f.read())
            there[IN_USE_AT] = 0
            with open(os.path.join(s.dir, name), 'rb') as f:
                assert f.read() == there, name


def mariadb_snapshot():
    """mariadb-dump --gtid makes a replica that goes on behind the snapshot."""
    with source('replica-dump', **WITH_GTIDS) as s, replica_of('replica-dump-r') as r:
        r.by_gtids = True
        c = s.connect()
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (id INT PRIMARY KEY)')
        for n in range(5):
            c.query(f'INSERT INTO d.t VALUES ({n})')
        snapshot = subprocess.run(
            [
                *('mariadb-dump', '--no-defaults', '--host=127.0.0.1', f'--port={s.port}'),
                *('--user=root', '--single-transaction', '--master-data=1', '--gtid'),
                *('--databases', 'd'),
            ],
            check=True,
            capture_output=True,
            timeout=300,
        ).stdout
        assert b"SET GLOBAL gtid_slave_pos='0-1-7'" in snapshot, snapshot
        for n in range(5, 9):
            c.query(f'INSERT INTO d.t VALUES ({n})')
        subprocess.run(
            ['mariadb', '--no-defaults', '-uroot', '-h127.0.0.1', f'-P{r.port}'],
            input=snapshot,
            check=True,
            timeout=300,
        )
        r.attach(s)
        r.wait_for_end(s)
        assert same_rows(s, r) == 9
        # Another source's transactions are told from this one's.
        r.c.query('STOP SLAVE')
        r.c.query("SET GLOBAL gtid_slave_pos = '0-3-7'")
        r.c.query('START SLAVE')
        wait_for('the refusal', lambda: r.status()['Last_IO_Errno'] == '1236')
        said = r.status()['Last_IO_Error']
        assert 'GTID 0-3-7' in said and 'that transaction is 0-1-7' in said, said


def kills(report, name, count, gtid_mode='OFF', theirs=False, **options):
    """Replicas follow under load, and through kills of both ends. `theirs`: by GTIDs of MariaDB."""
    gtids = {'gtid_mode': gtid_mode, 'enforce_gtid_consistency': gtid_mode}
    gtids = WITH_GTIDS if theirs else gtids
    with source(f'replica-{name}', **gtids) as s, replica_of(f'replica-{name}-r', **options) as r:
        r.by_gtids = theirs
        said = load.kills(s, r, count)
        if gtid_mode == 'ON':
            own_gtids_only(s, r)
        report.ok(name, f'{count} + {count} kills: {said}')


def all_statements(theirs=False):
    packets = {'max_allowed_packet': '64M'}
    options = {
        'slave_max_allowed_packet': '1073741824',
        'character_set_server': 'latin1',
        'enforce_storage_engine': 'InnoDB',
        **packets,
    }
    # The events of a transaction travel in one frame of the redo log.
    ours = {'innodb_log_buffer_size': '32M', **packets}
    if theirs:
        ours |= WITH_GTIDS
    with source('replica-all', **ours) as s, replica_of('replica-all-r', **options) as r:
        r.by_gtids = theirs
        r.attach(s)
        following_statements.run(s)
        r.wait_for_end(s)
        same_rows(s, r)
        following_statements.same_definitions(s, r)


def python_reader(report):
    """python-mysql-replication rebuilds the tables under load, through a kill of the source."""
    name = 'python-mysql-replication'
    with source('replica-python', binlog_row_metadata='FULL') as s:
        reader = subprocess.Popen(
            [python.environment(), os.path.join(HERE, 'following', 'reader.py'), s.socket],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=servers.die_with_parent,
        )
        under_load = load.Load(s)
        for killed in (True, False):
            under_load.begin()
            time.sleep(3)
            if killed:
                s.kill()
            under_load.end(killed)
            if killed:
                s.start()
        s.connect().query('CREATE TABLE sbtest.finish (id INT)')
        try:
            said, _ = reader.communicate(timeout=120)
        finally:
            reader.kill()
        assert reader.returncode == 0, said
        report.ok(name, said.splitlines()[-1])


def java_lines(c):
    """The rows of all tables, as the Java program has them."""
    tables = c.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE ="
        " 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys')"
    )
    lines = []
    for schema, table in tables:
        name = f'{schema.decode()}\t{table.decode()}'
        lines.append(name)
        for row in c.rows(f'SELECT * FROM `{schema.decode()}`.`{table.decode()}`'):
            lines.append('\t'.join([name, *('NULL' if v is None else v.hex() for v in row)]))
    return lines


def java_reader(report):
    """mysql-binlog-connector-java, the library under Debezium, goes on from a snapshot under load,
    through a kill of the source, and has the source's rows at the end.
    """
    name = 'mysql-binlog-connector-java'
    if not java.is_here():
        report.ok(name, 'not run: it needs java, javac and mvn (apt-get install maven default-jdk)')
        return
    command = java.program(os.path.join(HERE, 'following', 'Reader.java'))
    with source('replica-java') as s:
        under_load = load.Load(s)
        under_load.begin()
        time.sleep(1)
        c = s.connect()
        c.query('FLUSH TABLES WITH READ LOCK')
        c.query('START TRANSACTION WITH CONSISTENT SNAPSHOT')
        file, position, *_ = c.rows('SHOW MASTER STATUS')[0]
        snapshot = java_lines(c)
        c.query('UNLOCK TABLES')
        reader = subprocess.Popen(
            [*command, '127.0.0.1', str(s.port), file.decode(), position.decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=servers.die_with_parent,
        )
        reader.stdin.write('\n'.join(snapshot) + '\n')
        reader.stdin.close()
        reader.stdin = None
        time.sleep(3)
        s.kill()
        under_load.end(True)
        s.start()
        under_load.begin()
        time.sleep(2)
        under_load.end()
        s.connect().query('CREATE TABLE sbtest.finish (id INT)')
        try:
            got, said = reader.communicate(timeout=120)
        finally:
            reader.kill()
        assert reader.returncode == 0, said
        wanted = sorted(java_lines(s.connect()))
        assert sorted(got.splitlines()) == wanted, differing(got.splitlines(), wanted)
        changes = said.splitlines()[-1]
        report.ok(name, f'{changes}, {len(wanted)} lines, {len(snapshot)} of a snapshot')


def differing(here, there):
    return sorted(set(here) ^ set(there))[:4]


def own_gtids_only(s, r):
    """MariaDB's GTIDs are not MySQL's: a replica that asks for them goes on by file and position,
    and says so in its error log.
    """
    r.c.query('STOP SLAVE')
    r.c.query('CHANGE MASTER TO MASTER_USE_GTID = slave_pos')
    r.c.query('START SLAVE')
    s.connect().query('CREATE TABLE sbtest.after_gtids (id INT)')
    r.wait_for_end(s)
    assert r.status()['Using_Gtid'] == 'No', r.status()
    assert 'Falling back to Using_Gtid=No' in r.last_words(), r.last_words()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--kills', type=int, default=2, help='of the source, and of the replica')
    parser.add_argument('--only', action='append', help='these tests')
    a = parser.parse_args()
    servers.need('mariadbd', 'mariadb-binlog', 'sysbench')
    report = Report()
    parallel = {'slave_parallel_threads': '4', 'slave_parallel_mode': 'optimistic'}
    tests = {
        'statements': statements,
        'raw-stream': raw_stream,
        'refusals': refusals,
        'following': following,
        'mariadb-binlog': mariadb_binlog,
        'mariadb-snapshot': mariadb_snapshot,
        'mariadb': mariadb_follows,
        'all-statements': all_statements,
        'kills': lambda: kills(report, 'kills', a.kills),
        'gtids': lambda: kills(report, 'gtids', (a.kills + 1) // 2, gtid_mode='ON'),
        'semi-sync': semi_sync.own_client,
        'semi-sync-timeout': semi_sync.timeout,
        'semi-sync-hostile': semi_sync.hostile,
        'semi-sync-mariadb': lambda: report.ok('semi-sync-mariadb', semi_sync.mariadb()),
        'semi-sync-gtids': lambda: report.ok('semi-sync-gtids', semi_sync.mariadb(by_gtids=True)),
        'python': lambda: python_reader(report),
        'java': lambda: java_reader(report),
        'parallel': lambda: kills(report, 'parallel', 0, **parallel),
        'mariadb-idle-gtids': lambda: mariadb_follows(theirs=True),
        'all-statements-gtids': lambda: all_statements(theirs=True),
        'mariadb-gtids': lambda: kills(report, 'mariadb-gtids', a.kills, theirs=True, **parallel),
    }
    reports_itself = {'kills', 'gtids', 'parallel', 'python', 'java', 'semi-sync-mariadb'}
    reports_itself |= {'mariadb-gtids', 'semi-sync-gtids'}
    for name, test in tests.items():
        if a.only and name not in a.only:
            continue
        try:
            test()
        except FAILURES as e:
            import traceback

            report.fail(name, f'{traceback.format_exc()}{e}')
        else:
            if name not in reports_itself:
                report.ok(name)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

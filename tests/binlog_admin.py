#!/usr/bin/env python3
"""Administration of the binary log beside its readers: a reset, changes of its options, expiry,
filters, a full disk, and many values of server_uuid. mariadb-binlog checks the files, and a stock
MariaDB replicates.

  tests/binlog_admin.py [--only NAME]...
"""

import argparse
import itertools
import os
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from binlog import binlog, verify  # noqa: E402
from rig import servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.replica import replica_of, same_rows, source, wait_for  # noqa: E402
from rig.report import Report  # noqa: E402
from rig.small_disk import SmallDisk  # noqa: E402

GTIDS = dict(gtid_mode='ON', enforce_gtid_consistency='ON')


def error_of(act):
    try:
        act()
    except MySQLError as e:
        return e.code
    return None


def names(c):
    return [row[0].decode() for row in c.rows('SHOW BINARY LOGS')]


def check_files(server, names):
    complaint = verify([os.path.join(server.data, name) for name in names])
    assert not complaint, complaint


class Load:
    """Sessions that insert rows, some of them long transactions, until the load ends or the server
    is killed.
    """

    def __init__(self, server, sessions=3):
        self.server, self.ended, self.wrong = server, threading.Event(), []
        self.acknowledged = 0
        c = server.connect()
        c.query('CREATE DATABASE IF NOT EXISTS d')
        for n in range(sessions):
            columns = 'id INT PRIMARY KEY AUTO_INCREMENT, x TEXT'
            c.query(f'CREATE TABLE IF NOT EXISTS d.t{n} ({columns})')
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(sessions)]
        for thread in self.threads:
            thread.start()

    def run(self, n):
        try:
            c = self.server.connect(database='d')
            # Each session counts its own transactions: it could miss a number of all.
            for mine in itertools.count():
                if self.ended.is_set():
                    break
                c.query('BEGIN')
                for _ in range(mine % 7 + 1):
                    c.query(f"INSERT INTO t{n} (x) VALUES (REPEAT('x', 2000))")
                if mine % 50 == 7:
                    # Beyond what stays in memory.
                    c.query(f"INSERT INTO t{n} (x) SELECT REPEAT('y', 60000) FROM t{n} LIMIT 30")
                c.query('COMMIT')
                self.acknowledged += 1
        except (OSError, EOFError, MySQLError) as e:
            if not self.ended.is_set():
                self.wrong.append(repr(e))

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong


def reset():
    """Tests REPL-7."""
    with source('admin-reset', **GTIDS) as s, replica_of('admin-reset-r') as r:
        c = s.connect()
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (id INT PRIMARY KEY)')
        c.query('INSERT INTO d.t VALUES (1), (2)')
        c.query('FLUSH LOGS')
        r.attach(s)
        r.wait_for_end(s)
        assert c.value('SELECT @@gtid_executed').endswith(':1-3')
        c.query('RESET BINARY LOGS AND GTIDS')
        assert names(c) == ['binlog.000001'], names(c)
        assert c.value('SELECT @@gtid_executed') == c.value('SELECT @@gtid_purged') == ''
        wait_for('the replica stops', lambda: r.status()['Last_IO_Errno'] == '1236')
        assert 'begun anew' in r.status()['Last_IO_Error'], r.status()
        c.query('INSERT INTO d.t VALUES (3)')
        # The new log is there again after a crash, with the same names.
        s.kill()
        s.start()
        c = s.connect()
        assert names(c) == ['binlog.000001', 'binlog.000002']
        assert c.value('SELECT @@gtid_executed').endswith(':1')
        r.c.query('STOP SLAVE')
        r.c.query('RESET SLAVE')
        r.attach(s)
        r.wait_for_end(s)
        same_rows(s, r)
        c.query('RESET MASTER TO 42')
        assert names(c) == ['binlog.000042']
        assert not os.path.exists(os.path.join(s.data, 'binlog.000001'))
        assert error_of(lambda: c.query('RESET MASTER TO 2000000001')) == 3567
        c.query('INSERT INTO d.t VALUES (4)')
        check_files(s, names(c))
        read = binlog('-vv', os.path.join(s.data, 'binlog.000042')).stdout
        assert read.count(b'### INSERT INTO') == 1


def reset_under_load():
    """Tests BINLOG-FILES-2: resets, and kills at any moment of them."""
    with source('admin-reset-load', max_binlog_size='65536', **GTIDS) as s:
        for round in range(4):
            load = Load(s)
            c = s.connect()
            for _ in range(4):
                c.query('RESET MASTER')
            killer = threading.Timer(round * 0.23, lambda: (load.ended.set(), s.kill()))
            killer.start()
            try:
                while True:
                    c.query('RESET MASTER')
            except (OSError, EOFError):
                pass
            killer.join()
            load.end()
            s.start()
            c = s.connect()
            files = names(c)
            assert files == [f'binlog.{n:06}' for n in range(1, len(files) + 1)], files
            there = sorted(f for f in os.listdir(s.data) if f.startswith('binlog.0'))
            assert there == files, (there, files)
            check_files(s, files)
            for n in range(3):
                assert c.rows(f'CHECK TABLE d.t{n}')[0][3] == b'OK'


def options():
    """Checksums and the largest size change under a load and its replica."""
    with source('admin-options') as s, replica_of('admin-options-r') as r:
        r.attach(s)
        load, c = Load(s), s.connect()
        for n in range(8):
            c.query(f"SET GLOBAL binlog_checksum = '{['NONE', 'CRC32'][n % 2]}'")
            c.query(f'SET GLOBAL max_binlog_size = {[65536, 1 << 20][n // 2 % 2]}')
            assert c.value('SELECT @@binlog_checksum') == ['NONE', 'CRC32'][n % 2]
            time.sleep(0.3)
        spilled = lambda: int(c.rows("SHOW GLOBAL STATUS LIKE 'Binlog_cache_disk_use'")[0][1])
        wait_for(
            'a load', lambda: load.acknowledged > 20 and len(names(c)) > 9 and spilled() > 0, 120
        )
        load.end()
        r.wait_for_end(s)
        same_rows(s, r)
        files = names(c)
        check_files(s, files)
        status = dict(c.rows("SHOW GLOBAL STATUS LIKE '%binlog%'"))
        assert int(status[b'Redolith_binlog_rotations']) >= len(files), status
        assert int(status[b'Binlog_cache_use']) >= load.acknowledged, status
        assert int(status[b'Binlog_cache_disk_use']) > 0, status
        on_disk = sum(os.path.getsize(os.path.join(s.data, name)) for name in files)
        assert int(status[b'Redolith_binlog_bytes']) == on_disk, (status, on_disk)


def expiry():
    # On a slow machine seconds may pass between two statements, so that a file that was in use just
    # before may have expired, too.
    with source('admin-expiry', binlog_expire_logs_seconds='0') as s:
        c = s.connect()
        c.query('CREATE DATABASE d')
        c.query('FLUSH LOGS')
        c.query('FLUSH LOGS')
        assert names(c) == [f'binlog.00000{n}' for n in (1, 2, 3)]
        c.query('SET GLOBAL binlog_expire_logs_seconds = 3')
        time.sleep(4.2)
        c.query('SET GLOBAL binlog_expire_logs_auto_purge = OFF')
        c.query('FLUSH LOGS')
        assert len(names(c)) == 4
        c.query('SET GLOBAL binlog_expire_logs_auto_purge = ON')
        c.query('FLUSH LOGS')
        kept = names(c)
        assert kept[-2:] == ['binlog.000004', 'binlog.000005'], kept
        assert kept[:-2] in ([], ['binlog.000003']), kept
        time.sleep(4.2)
        s.stop()
        s.options['binlog_expire_logs_seconds'] = '3'
        s.start()
        c = s.connect()
        wait_for('a start removes files', lambda: 'binlog.000004' not in names(c))
        assert names(c)[-1] == 'binlog.000006'
        c.query('SET GLOBAL binlog_expire_logs_seconds = 0')
        time.sleep(4.2)
        before = names(c)
        c.query('FLUSH LOGS')
        assert names(c) == [*before, 'binlog.000007'], (before, names(c))
        assert error_of(lambda: c.query('SET GLOBAL expire_logs_days = 3')) == 1231


def purges_and_kills():
    """After a purge and a kill, and after a stop that a kill cuts short, the log goes on with the
    files that are there, and every start succeeds.
    """
    with source('admin-purges') as s:
        c = s.connect()
        c.query('CREATE DATABASE d')
        c.query('CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, x TEXT)')
        rows = 0

        def insert(c, count):
            for _ in range(count):
                c.query("INSERT INTO d.t (x) VALUES (REPEAT('x', 2000))")
            return count

        for n in range(6):
            for _ in range(3):
                rows += insert(c, 20)
                c.query('FLUSH LOGS')
            rows += insert(c, 5)
            last = names(c)[-1]
            c.query(f"PURGE BINARY LOGS TO '{last}'")
            assert names(c) == [last]
            with open(os.path.join(s.data, last), 'rb') as f:
                # Without the flag that says that the file is open.
                events = f.read()[23:]
            if n % 2:
                s.process.terminate()
                time.sleep(0.03 * n)
            s.kill()
            for _ in range(2):
                s.start()
                c = s.connect()
                assert names(c)[0] == last, names(c)
                with open(os.path.join(s.data, last), 'rb') as f:
                    assert f.read()[23:].startswith(events), 'other events'
                check_files(s, names(c))
                assert int(c.value('SELECT COUNT(*) FROM d.t')) == rows
                time.sleep(1.2)
                s.kill()
            s.start()
            c = s.connect()


def filters():
    shown = {}
    for name, filter in (
        ('do', {'binlog_do_db': 'a', 'binlog-do-db': 'b'}),
        ('ignore', {'binlog_ignore_db': 'c'}),
    ):
        with source(f'admin-filter-{name}', **filter) as s:
            c = s.connect()
            for db in 'abc':
                c.query(f'CREATE DATABASE {db}')
                c.query(f'CREATE TABLE {db}.none (id INT PRIMARY KEY)')
            for default in 'ac':
                c.query(f'USE {default}')
                c.query(f'CREATE TABLE b.from_{default} (id INT PRIMARY KEY)')
                for db in 'abc':
                    c.query(f'INSERT INTO {db}.none VALUES ({ord(default)})')
            c.query('BEGIN')
            for db in 'cac':
                c.query(f'DELETE FROM {db}.none LIMIT 1')
            c.query('COMMIT')
            events = [row[5].decode() for row in c.rows('SHOW BINLOG EVENTS')]
            shown[name] = events
            tables = [e.split('(')[1] for e in events if e.startswith('table_id') and '(' in e]
            assert tables == ['a.none)', 'b.none)', 'a.none)', 'b.none)', 'a.none)'], tables
            has = lambda text: any(text in event for event in events)
            assert has('CREATE DATABASE b') and not has('CREATE DATABASE c')
            # A definition counts by the default database, and without one it is logged.
            assert has('b.from_a') and not has('b.from_c') and has('CREATE TABLE c.none')
            *_, do, ignore, _ = c.rows('SHOW MASTER STATUS')[0]
            assert (do, ignore) == ((b'a,b', b'') if name == 'do' else (b'', b'c')), (do, ignore)
            check_files(s, names(c))


def full_disk():
    """Statements that wait for the full disk of the binary log are killed, and so is the server."""
    dir = servers.scratch('admin-full')
    with SmallDisk(dir, 256) as small:
        settings = {
            'log_bin': os.path.join(small.path, 'binlog'),
            'innodb_buffer_pool_size': '64M',
            'binlog_row_image': 'FULL',
        }
        with servers.Redolith(os.path.join(dir, 'server'), settings) as s:
            c = s.connect()
            c.query('CREATE DATABASE d')
            c.query('CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, x MEDIUMTEXT)')
            small.leave(4096)
            acknowledged, codes = 0, []
            waiter = s.connect(database='d')

            def insert():
                nonlocal acknowledged
                try:
                    while True:
                        waiter.query("INSERT INTO t (x) VALUES (REPEAT('x', 900000))")
                        acknowledged += 1
                except (MySQLError, OSError, EOFError) as e:
                    codes.append(getattr(e, 'code', repr(e)))

            def waits():
                before = acknowledged
                time.sleep(2)
                return before > 0 and acknowledged == before

            def run_and_kill(target, connection):
                thread = threading.Thread(target=target)
                thread.start()
                wait_for('it waits', waits, 120)
                assert thread.is_alive(), codes
                id = connection.value_id
                c.query(f'KILL QUERY {id}')
                thread.join(20)
                assert not thread.is_alive() and codes.pop() == 1317, codes

            waiter.value_id = int(waiter.value('SELECT CONNECTION_ID()'))
            run_and_kill(insert, waiter)
            assert int(c.value('SELECT COUNT(*) FROM d.t')) == acknowledged
            flusher = s.connect()
            flusher.value_id = int(flusher.value('SELECT CONNECTION_ID()'))
            for text in (
                'FLUSH LOGS',
                "PURGE BINARY LOGS TO 'binlog.000001'",
                'RESET MASTER',
                'CREATE TABLE d.u (a INT)',
            ):

                def flush(text=text):
                    codes.append(error_of(lambda: flusher.query(text)))

                run_and_kill(flush, flusher)
            assert error_of(lambda: c.rows('SHOW BINARY LOG STATUS')) == 1105
            thread = threading.Thread(target=insert)
            thread.start()
            wait_for('the commit waits', waits, 60)
            assert s.stop(30) is not None, 'the server had to be killed'
            thread.join()
            small.give_room()
            # A second start finds what the first has made.
            for _ in range(2):
                s.start()
                c = s.connect()
                count = int(c.value('SELECT COUNT(*) FROM d.t'))
                assert count == acknowledged, (count, acknowledged)
                files = names(c)
                if _ == 0:
                    assert s.stop() == 0


def server_uuids():
    """Tests STATE-1: gtid_executed has room for the transactions of 48 values of server_uuid. A
    client cannot add any, and a start with the 49th is refused.
    """
    with source('admin-uuids', **GTIDS) as s:
        path = os.path.join(s.data, 'server_uuid')
        s.connect().query('CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)')
        for n in range(48):
            c = s.connect(database='d')
            c.query(f'INSERT INTO t VALUES ({n})')
            many = ','.join(f'{i:08x}-0000-0000-0000-000000000000:1-9' for i in range(5000))
            for name in ('gtid_purged', 'gtid_executed') if n in (0, 47) else ():
                assert error_of(lambda: c.query(f"SET GLOBAL {name} = '{many}'")) == 1238
            executed = c.value('SELECT @@gtid_executed').split(',')
            assert len(executed) == n + 1, executed
            assert s.stop() == 0
            os.remove(path)
            if n < 47:
                s.start()
        for _ in range(2):
            try:
                s.start()
                raise AssertionError('it starts with the 49th server_uuid')
            except servers.NotUp as e:
                assert 'of 48 values of server_uuid' in str(e), e
        # What the message says: one of the values of before.
        with open(path, 'w') as f:
            f.write(executed[0].strip().partition(':')[0] + '\n')
        s.start()
        c = s.connect(database='d')
        c.query('INSERT INTO t VALUES (100)')
        s.kill()
        s.start()
        c = s.connect(database='d')
        assert c.value('SELECT COUNT(*) FROM t') == '49'
        assert len(c.value('SELECT @@gtid_executed').split(',')) == 48
        # Or to forget them.
        assert s.stop() == 0
        os.remove(path)
        s.options['gtid_mode'] = 'OFF'
        s.options['enforce_gtid_consistency'] = 'OFF'
        s.start()
        s.connect().query('RESET BINARY LOGS AND GTIDS')
        assert s.stop() == 0
        s.options.update(GTIDS)
        s.start()
        c = s.connect(database='d')
        c.query('INSERT INTO t VALUES (101)')
        assert c.value('SELECT @@gtid_executed').endswith(':1')


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', action='append', help='these tests')
    a = parser.parse_args()
    servers.need('mariadb-binlog', 'mariadbd')
    report = Report()
    for test in (
        *(reset, reset_under_load, options, expiry, purges_and_kills),
        *(filters, full_disk, server_uuids),
    ):
        name = test.__name__.replace('_', '-')
        if a.only and name not in a.only:
            continue
        try:
            test()
        except (AssertionError, MySQLError, OSError, servers.NotUp) as e:
            report.fail(name, f'{traceback.format_exc()}{e}')
        else:
            report.ok(name)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

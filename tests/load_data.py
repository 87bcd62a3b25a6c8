#!/usr/bin/env python3
"""LOAD DATA and INTO OUTFILE: beside MariaDB, with stock clients, with clients that keep to no
protocol, and with kills, crashes and full disks in the middle.

  tests/load_data.py [--only NAME]... [--rounds N] [--seed N]
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from loading import differential  # noqa: E402
from loading.clients import WITH_FILES, asked, client, packet  # noqa: E402
from rig import servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.python import environment  # noqa: E402
from rig.report import Report  # noqa: E402
from rig.small_disk import SmallDisk  # noqa: E402

# A row of the table that most tests load.
TABLE = 'CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b VARCHAR(100))'
A = argparse.Namespace(rounds=150, seed=1)


def error_of(act):
    try:
        act()
    except MySQLError as e:
        return e.code
    return None


class Loaded:
    """A server with a table and a folder for files."""

    def __init__(self, name, **options):
        self.dir = servers.scratch(f'load-{name}')
        self.files = os.path.join(self.dir, 'files')
        os.makedirs(self.files)
        options = {'secure_file_priv': self.files, 'local_infile': 'ON'} | options
        options = {k: v for k, v in options.items() if v != 'default'}
        self.server = servers.Redolith(os.path.join(self.dir, 'server'), options)

    def __enter__(self):
        self.server.__enter__()
        self.c = self.server.connect()
        self.c.query('CREATE DATABASE d')
        self.c.query(TABLE)
        self.c.query('USE d')
        return self

    def __exit__(self, kind, *more):
        self.server.__exit__(kind, *more)
        if kind is None:
            shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.files, name)

    def write(self, name, text):
        with open(self.path(name), 'wb') as f:
            f.write(text)
        return self.path(name)

    def rows(self, name, count):
        """A file with rows of the table."""
        with open(self.path(name), 'w') as f:
            for n in range(count):
                f.write(f'{n}\t{n * 7}\trow number {n}\n')
        return self.path(name)

    def count(self):
        return int(self.server.connect(database='d').value('SELECT COUNT(*) FROM t'))

    def waits_for_statement(self, c):
        """Returns when a statement of the connection runs. A KILL QUERY before ends nothing."""
        for _ in range(3000):
            rows = self.c.rows('SHOW PROCESSLIST')
            if any(int(r[0]) == c.connection_id and r[4] == b'Query' for r in rows):
                return
            time.sleep(0.01)
        raise AssertionError('the statement does not run')

    def is_well(self, rows=0):
        """The table has so many rows, and others may write it."""
        assert self.count() == rows, self.count()
        c = self.server.connect(database='d')
        c.query('SET lock_wait_timeout = 5, innodb_lock_wait_timeout = 5')
        c.query("INSERT INTO t VALUES (-1, 0, '')")
        c.query('DELETE FROM t WHERE id = -1')


def beside_mariadb():
    """Tests the splitter, the conversions and the writer."""
    with Loaded('differential') as s:
        os.chmod(s.files, 0o777)
        options = {'secure_file_priv': s.files, 'explicit_defaults_for_timestamp': 'ON'}
        m = servers.MariaDB(os.path.join(s.dir, 'mariadb'), options)
        with m:
            connections = s.c, m.connect()
            connections[1].query('CREATE DATABASE d CHARACTER SET utf8mb4')
            for c in connections:
                c.query('USE d')
                c.query('DROP TABLE IF EXISTS t')
            complaints = []
            for seed in range(A.seed, A.seed + A.rounds):
                for act in (differential.load, differential.write):
                    if complaint := act(seed, s.files, connections):
                        complaints.append(f'{act.__name__}: {complaint}')
            assert not complaints, '\n\n'.join(complaints[:5])


def folders():
    """Tests SECURE-1, SECURE-2 and SECURE-3."""
    with Loaded('default', secure_file_priv='default', local_infile='default') as s:
        path = s.rows('f', 3)
        load = f"LOAD DATA INFILE '{path}' INTO TABLE t"
        assert s.c.value('SELECT @@secure_file_priv') is None
        assert error_of(lambda: s.c.query(load)) == 1290
        assert error_of(lambda: s.c.query(f"SELECT 1 INTO OUTFILE '{s.path('o')}'")) == 1290
        assert error_of(lambda: client(s.server).query(load.replace('DATA', 'DATA LOCAL'))) == 3948
        s.c.query('SET GLOBAL local_infile = ON')
        assert error_of(lambda: s.c.query(load.replace('DATA', 'DATA LOCAL'))) == 3948
        local = client(s.server, [b'1\t2\t3\n'])
        assert local.query(load.replace('DATA', 'DATA LOCAL'))[-1].info.startswith('Records: 1')
        assert error_of(lambda: s.c.query('SET GLOBAL secure_file_priv = ""')) == 1238
    with Loaded('folders') as s:
        outside = os.path.join(s.dir, 'outside')
        os.makedirs(outside)
        os.makedirs(s.path('inside'))
        secret = os.path.join(outside, 'secret')
        shutil.copy(s.rows('good', 3), secret)
        shutil.copy(secret, s.path('inside/f'))
        os.symlink(secret, s.path('link'))
        os.symlink(outside, s.path('folder'))
        os.symlink(s.path('good'), os.path.join(outside, 'back'))
        os.symlink(s.path('inside'), s.path('turn'))
        os.symlink(os.path.join(outside, 'nothing'), s.path('dangling'))
        os.mkfifo(s.path('pipe'))
        sql = "LOAD DATA INFILE '{}' REPLACE INTO TABLE t".format
        load = lambda name: error_of(lambda: s.c.query(sql(name)))
        for name in ('good', 'inside/f', 'turn/f', 'inside/../good', './good'):
            assert load(s.path(name)) is None, name
        assert load(os.path.join(outside, 'back')) is None
        for name in ('link', 'folder/secret', '../outside/secret', 'inside/../../outside/secret'):
            assert load(s.path(name)) == 1290, name
        for name in (secret, '/etc/passwd', 'f', '', '/', '.', '..', '/etc/nothing'):
            assert load(name) == 1290, name
        for name, code in (('nothing', 13), ('dangling', 13), ('pipe', 1085), ('inside', 1085)):
            assert load(s.path(name)) == code, (name, load(s.path(name)))
        write = lambda name: error_of(lambda: s.c.query(f"SELECT 1 INTO OUTFILE '{name}'"))
        for name in ('out', 'inside/out', 'turn/out2'):
            assert write(s.path(name)) is None, name
        for name in ('good', 'dangling', 'pipe', 'inside', 'out'):
            assert write(s.path(name)) == 1086, name
        for name in ('link', 'folder/o', '../outside/o', '../o', 'inside/../../o'):
            assert write(s.path(name)) == 1290, name
        for name in ('/tmp/redolith-o', 'o', 'redo/o'):
            assert write(name) == 1290, name
        assert write(s.path('nothing/o')) == 1
        assert sorted(os.listdir(outside)) == ['back', 'secret']
        # Not even while somebody changes the links.
        ended = threading.Event()

        def swap():
            while not ended.is_set():
                for to in ('inside', outside):
                    os.symlink(to, s.path('new'))
                    os.rename(s.path('new'), s.path('swapped'))

        with open(secret, 'w') as f:
            f.write('4711\t1\tsecret\n')
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            end = time.monotonic() + 2
            shutil.copy(s.path('good'), s.path('inside/secret'))
            while time.monotonic() < end:
                load(s.path('swapped/secret'))
        finally:
            ended.set()
            thread.join()
        assert s.c.value('SELECT COUNT(*) FROM t WHERE id = 4711') == '0'
    with Loaded('anywhere', secure_file_priv='') as s:
        sql = "LOAD DATA INFILE '{}' REPLACE INTO TABLE t".format
        load = lambda name: error_of(lambda: s.c.query(sql(name)))
        assert load(s.rows('f', 3)) is None
        for name in ('/dev/zero', '/dev/tty', '/tmp'):
            assert load(name) in (1085, 29), (name, load(name))
        # A relative path begins at the data directory.
        shutil.copy(s.path('f'), os.path.join(s.server.data, 'f'))
        assert load('f') is None and load('./f') is None and load('g') == 13


def hostile_clients():
    """Tests FILE-1, FILE-2 and FILE-3, and INFILE-4."""
    with Loaded('hostile', net_read_timeout='2', max_allowed_packet='65536') as s:
        # The client never answers.
        c = asked(s.server)
        started = time.monotonic()
        ended(c)
        assert 1 < time.monotonic() - started < 20
        s.is_well()
        # It hangs up in the middle: before a packet, in a header, and in a body.
        row = packet(2, b'1\t2\t3\n')
        for sent in (b'', row, row[:2], packet(2, b'x' * 99)[:50]):
            c = asked(s.server)
            c.io.sendall(sent)
            c.io.close()
            s.is_well()
        # It breaks the protocol.
        for sent in (packet(3, b'1\t2\t3\n'), packet(2, b'') + packet(0, b'\x03SELECT 1')):
            c = asked(s.server)
            c.io.sendall(sent)
            ended(c)
            s.is_well()
        early = client(s.server)
        load = b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE t"
        early.io.sendall(packet(0, load) + packet(1, b'1'))
        ended(early)
        s.is_well()
        # Packets of 16 MiB and more, which are longer than max_allowed_packet.
        line = b'%d\t2\t' + b'y' * 100 + b'\n'
        rows = [line % n for n in range(400_000)]
        c = client(s.server, [b''.join(rows)])
        assert len(c.file('')[0]) > 1 << 25
        assert c.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")[-1].affected == 400_000
        c.query('DELETE FROM t')
        # A body of 16 MiB - 1 bytes, which an empty packet continues, is not the end of the file.
        text = b''.join(rows)[: 0xFF_FFFF]
        c = asked(s.server)
        c.io.sendall(packet(2, text) + packet(3, b'') + packet(4, b'\n-5\t1\tz\n') + packet(5, b''))
        c.seq = 6
        assert c.receive().info.startswith(f'Records: {text.count(bytes([10])) + 2} ')
        s.c.query('DELETE FROM t')
        # A line without an end: an error that names the setting, and the session goes on.
        c = client(s.server, [b'1\t2\t3\n'] + [b'x' * 60000] * 100)
        try:
            c.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")
            raise AssertionError('a line without end was loaded')
        except MySQLError as e:
            assert e.code == 3170 and 'max_allowed_packet' in str(e), e
        assert c.value('SELECT 1') == '1'
        # Whatever the pieces: a row is refused if it is longer.
        for spare, code in ((0, None), (1, 3170)):
            text = b'1\t2\t3\n' + b'2\t2\t' + b'y' * (65536 - 5 + spare) + b'\n'
            for size in (999, 1 << 20):
                pieces = [text[at : at + size] for at in range(0, len(text), size)]
                c = client(s.server, pieces)
                load = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t"
                assert error_of(lambda: c.query(load)) == code, (spare, size)
        s.c.query('DELETE FROM t')
        # A long row that comes in small packets is not split again for each of them.
        long = [b'1\t2\t'] + [b'y'] * 30_000 + [b'\n']
        c = client(s.server, long)
        cpu = s.server.cpu_s()
        assert c.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")[-1].affected == 1
        assert s.server.cpu_s() - cpu < 2, s.server.cpu_s() - cpu
        s.c.query('DELETE FROM t')
        # But what belongs to no row is passed over.
        c = client(s.server, [b'x' * 60000] * 100 + [b'\n1\t2\tok\n'])
        assert c.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t IGNORE 1 LINES")[-1].affected == 1
        s.c.query('DELETE FROM t')
        # An error at the first of many rows: the rest is read away, in bounded memory.
        c = client(s.server, [b'7\t7\t7\n'] * 2 + [b'z' * 60000 + b'\n'] * 2000)
        s.c.query('FLUSH STATUS')
        replace = "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE t"
        assert error_of(lambda: c.query(replace)) in (1261, 1366)
        assert c.value('SELECT 1') == '1'
        assert peak(s) < 4 << 20, peak(s)
        s.is_well()
        # An endless file, which a kill ends.
        for how, survives in (('KILL QUERY', False), ('KILL', False)):
            c = asked(s.server)
            c.io.settimeout(20)
            stream = threading.Thread(target=endless, args=(c,))
            stream.start()
            time.sleep(0.5)
            started = time.monotonic()
            s.c.query(f'{how} {c.connection_id}')
            # The rows are given up at once, whatever the client sends, which has no end.
            s.is_well()
            assert time.monotonic() - started < 20
            stream.join(30)
            assert not stream.is_alive(), how
        # A KILL QUERY lets a client go on that ends its file.
        c = asked(s.server)
        c.io.sendall(packet(2, b'1\t2\t3\n'))
        time.sleep(0.2)
        s.c.query(f'KILL QUERY {c.connection_id}')
        time.sleep(0.2)
        c.io.sendall(packet(3, b'2\t2\t3\n') + packet(4, b''))
        c.seq = 5
        assert error_of(c.receive) == 1317
        assert c.value('SELECT 1') == '1'
        s.is_well()


def peak(s):
    """The most memory that clients have made grow."""
    return int(dict(s.c.rows("SHOW STATUS LIKE 'Redolith_memory_peak'"))[b'Redolith_memory_peak'])


def endless(c):
    number, n = 2, 0
    try:
        while True:
            body = b''.join(b'%d\t1\tx\n' % k for k in range(n, n + 500))
            c.io.sendall(packet(number, body))
            number, n = number + 1, n + 500
    except OSError:
        pass


def ended(c):
    """Waits until the server has ended the connection."""
    c.io.settimeout(60)
    try:
        while c.io.recv(4096):
            pass
    except ConnectionError:
        pass
    c.io.close()


def kills_and_crashes():
    """All rows or none. Tests INFILE-2."""
    count = 1_500_000
    with Loaded('kills') as s:
        path = s.rows('f', count)
        load = f"LOAD DATA INFILE '{path}' INTO TABLE t"

        def is_loaded(wait):
            """Whether the statement came to its end before a KILL."""
            c, codes = s.server.connect(database='d'), []
            thread = threading.Thread(target=lambda: codes.append(error_of(lambda: c.query(load))))
            thread.start()
            s.waits_for_statement(c)
            time.sleep(wait)
            s.c.query(f'KILL QUERY {c.connection_id}')
            thread.join(30)
            assert codes in ([1317], [None]), codes
            assert c.value('SELECT 1') == '1'
            return codes == [None]

        def is_loaded_before_crash(wait):
            c = s.server.connect(database='d')
            c.send(load)
            time.sleep(wait)
            s.server.kill()
            s.server.start()
            s.c = s.server.connect(database='d')
            assert s.c.rows('CHECK TABLE t')[0][3] == b'OK'
            return s.count() != 0

        kills = (is_loaded, (0.05, 0.3, 0.8)), (is_loaded_before_crash, (0.2, 0.7))
        for stopped, waits in kills:
            for wait in waits:
                # A fast machine may have loaded the file by then.
                while stopped(wait):
                    s.is_well(count)
                    s.c.query('TRUNCATE TABLE t')
                    wait /= 2
                s.is_well()
        # In a transaction, too, with rows that were there before.
        s.c.query("INSERT INTO t VALUES (1400000, 1, 'taken')")
        s.c.query('BEGIN')
        s.c.query("INSERT INTO t VALUES (-2, 1, 'mine')")
        assert error_of(lambda: s.c.query(load)) == 1062
        s.c.query('COMMIT')
        assert s.count() == 2


def binary_log():
    """The rows are logged as rows, and none of a statement that has failed."""
    servers.need('mariadb-binlog')
    with Loaded('binlog', log_bin='binlog') as s:
        s.c.query(f"LOAD DATA INFILE '{s.rows('f', 2000)}' INTO TABLE t")
        s.c.query("INSERT INTO t VALUES (-3, 1, 'taken')")
        s.write('bad', b'-1\t1\ta\n-2\t1\tb\n-3\t1\tc\n')
        bad = f"LOAD DATA INFILE '{s.path('bad')}' INTO TABLE t"
        assert error_of(lambda: s.c.query(bad)) == 1062
        s.c.query('FLUSH LOGS')
        log = os.path.join(s.server.data, 'binlog.000001')
        read = subprocess.run(['mariadb-binlog', '-vv', log], capture_output=True)
        assert read.stdout.count(b'### INSERT INTO') == 2001, read.stdout[-500:]


def bounded_memory():
    """A million rows, from a file and from a client. Tests INFILE-1 and INFILE-3."""
    with Loaded('memory', innodb_buffer_pool_size='32M') as s:
        path = s.rows('f', 1_000_000)
        s.c.query(f"LOAD DATA INFILE '{s.rows('small', 1000)}' INTO TABLE t")
        s.c.query('TRUNCATE TABLE t')
        s.c.query('FLUSH STATUS')
        s.c.query(f"LOAD DATA INFILE '{path}' INTO TABLE t")
        assert s.count() == 1_000_000
        assert s.c.value('SELECT SUM(a) FROM t') == str(7 * 999_999 * 1_000_000 // 2)
        assert peak(s) < 4 << 20, peak(s)
        s.c.query('TRUNCATE TABLE t')

        def pieces():
            with open(path, 'rb') as f:
                while piece := f.read(100_000):
                    yield piece

        local = client(s.server, pieces)
        assert local.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t")[-1].affected == 1_000_000
        assert peak(s) < 4 << 20, peak(s)
        out = s.path('out')
        s.c.query(f"SELECT * FROM t ORDER BY id INTO OUTFILE '{out}'")
        assert peak(s) < 6 << 20, peak(s)
        assert subprocess.run(['cmp', path, out]).returncode == 0
        # A row is charged for what its text takes, not for the most that a character set could
        # make of it, nor for the longest text of a document.
        for value, charset, length in (
            ("REPEAT('a', 40000000)", 'CHARACTER SET utf8mb4', 40_000_001),
            ("CAST(CONCAT('[\"', REPEAT('a', 40000000), '\"]') AS JSON)", '', 40_000_005),
        ):
            row = s.path(f'row-{length}')
            s.c.query(f"SELECT {value} INTO OUTFILE '{row}' {charset}")
            assert os.path.getsize(row) == length
            os.remove(row)


def full_disk():
    with Loaded('small-files') as s:
        small = SmallDisk(s.files, 16)
        with small:
            s.c.query(f"LOAD DATA INFILE '{s.rows('f', 100_000)}' INTO TABLE t")
            big = os.path.join(small.path, 'out')
            write = f"SELECT x.* FROM t x, t y LIMIT 2000000 INTO OUTFILE '{big}'"
            assert error_of(lambda: s.c.query(write)) == 1026
            assert not os.path.exists(big)
            assert s.c.value('SELECT 1') == '1'
    # The table does not fit onto the disk of the data: an error or a wait, which a kill ends.
    dir = servers.scratch('load-small')
    small, s = SmallDisk(dir, 160), Loaded('small-data', innodb_redo_log_capacity='16M')
    s.server.data = os.path.join(small.path, 'data')
    with small, s:
        path, codes = s.rows('f', 4_000_000), []
        # The client waits longer than the test.
        c = s.server.connect(database='d', timeout=300)
        load = f"LOAD DATA INFILE '{path}' INTO TABLE t"
        thread = threading.Thread(target=lambda: codes.append(error_of(lambda: c.query(load))))
        thread.start()
        thread.join(60)
        if thread.is_alive():
            s.c.query(f'KILL QUERY {c.connection_id}')
            thread.join(200)
        assert codes and codes[0] in (1114, 1205, 1317), codes
        assert s.count() == 0
        s.server.stop()
        s.server.start()
        assert s.count() == 0


def stock_clients():
    """PyMySQL and the mariadb command line."""
    servers.need('mariadb')
    with Loaded('stock') as s:
        path = s.rows('f', 5000)
        text = (
            'import pymysql, sys\n'
            'path, socket = sys.argv[1:]\n'
            'for size in (16384, 1 << 24):\n'
            '    c = pymysql.connect(unix_socket=socket, user="root", database="d",\n'
            '                        local_infile=True, max_allowed_packet=size)\n'
            '    k = c.cursor()\n'
            '    k.execute("DELETE FROM t")\n'
            '    k.execute(f"LOAD DATA LOCAL INFILE \'{path}\' INTO TABLE t")\n'
            '    assert k.rowcount == 5000, k.rowcount\n'
            '    try:\n'
            '        k.execute("LOAD DATA LOCAL INFILE \'/nothing/there\' INTO TABLE t")\n'
            '        raise SystemExit("a file that is not there was loaded")\n'
            '    except (pymysql.err.MySQLError, OSError):\n'
            '        pass\n'
            '    c.commit()\n'
            'c = pymysql.connect(unix_socket=socket, user="root", database="d")\n'
            'try:\n'
            '    c.cursor().execute(f"LOAD DATA LOCAL INFILE \'{path}\' INTO TABLE t")\n'
            '    raise SystemExit("a client sent a file that it had not agreed to send")\n'
            'except (pymysql.err.MySQLError, RuntimeError):\n'
            '    pass\n'
        )
        done = subprocess.run(
            [environment(), '-c', text, path, s.server.socket],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert s.count() == 5000
        command = ['mariadb', '--no-defaults', '-uroot', f'-S{s.server.socket}', 'd']
        sql = f"DELETE FROM t; LOAD DATA LOCAL INFILE '{path}' INTO TABLE t; SELECT COUNT(*) FROM t"
        run = lambda *more: subprocess.run(
            [*command, *more], capture_output=True, text=True, timeout=300
        )
        done = run('--local-infile=1', '-N', '-e', sql)
        assert done.stdout == '5000\n', done
        done = run('--local-infile=0', '-N', '-e', sql.partition('; ')[2])
        assert done.returncode and '3948' in done.stderr, done
        again = f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t"
        done = run('--local-infile=1', '-vvv', '-e', again)
        assert 'Records: 5000  Deleted: 0  Skipped: 5000  Warnings: 5000' in done.stdout, done
        # A file that the client does not have.
        done = run('--local-infile=1', '-e', "LOAD DATA LOCAL INFILE '/nothing' INTO TABLE t")
        assert done.returncode, done
        assert s.count() == 5000


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', action='append', help='these tests')
    parser.add_argument('--rounds', type=int, default=150, help='of the differential')
    parser.add_argument('--seed', type=int, default=1)
    a = parser.parse_args(namespace=A)
    servers.need('mariadbd')
    report = Report()
    tests = (
        beside_mariadb,
        folders,
        hostile_clients,
        kills_and_crashes,
        binary_log,
        bounded_memory,
        full_disk,
        stock_clients,
    )
    for test in tests:
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

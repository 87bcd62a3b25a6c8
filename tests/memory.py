#!/usr/bin/env python3
"""Checks the memory that clients make grow: it is refused beyond its limits, a slow client delays
its statement but takes no memory, and memory is given back.

  tests/memory.py

The resident memory of the process is read from /proc and compared with margins of a hundred
megabytes and more. The only time limit is the wait for memory to be given back.
"""

import os
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers  # noqa: E402
from rig.client import MAX_PACKET, SENT, MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402
from rig.small_disk import SmallDisk  # noqa: E402

MIB = 1 << 20
STATEMENT, SERVER = 64, 256  # MiB
# The pool and the log buffer are small, because their memory is touched little by little and stays.
OPTIONS = {
    'innodb_buffer_pool_size': 32 * MIB,
    'innodb_log_buffer_size': 4 * MIB,
    'redolith_statement_memory': STATEMENT * MIB,
    'redolith_server_memory': SERVER * MIB,
    'max_connections': 500,
}
# The time limit for giving back the memory. The server does so up to 25 s after the last change.
PATIENCE_S = 90


def rss(server):
    return server.rss_kib() >> 10


def status(c, name):
    return int(c.rows(f"SHOW GLOBAL STATUS LIKE 'Redolith_memory_{name}'")[0][1])


def refused(c, sql, setting='redolith_statement_memory', code=3170):
    try:
        c.query(sql)
    except MySQLError as e:
        assert e.code == code and setting in e.message, e
        return
    raise AssertionError(f'not refused: {sql[:80]}')


def tables(c):
    c.query(
        'CREATE DATABASE m; USE m; CREATE TABLE many (id INT PRIMARY KEY AUTO_INCREMENT, c'
        ' VARCHAR(1000) NOT NULL)'
    )
    c.query("INSERT INTO many (c) VALUES (REPEAT('x', 1000))")
    for _ in range(13):
        c.query('INSERT INTO many (c) SELECT c FROM many')


def a_long_row(server):
    """A row of 1.2 GB is refused before it is made. A row that has room comes completely, in
    packets of 16 MiB.
    """
    c, other = server.connect(database='m'), server.connect(database='m')
    before = rss(server)
    row = ', '.join(f"REPEAT('{chr(97 + n)}', 60000000)" for n in range(20))
    refused(c, f'SELECT {row}')
    assert other.value('SELECT 1') == '1'
    assert rss(server) < before + 2 * STATEMENT + 100, f'{before} MiB before, {rss(server)} after'
    got = c.rows("SELECT REPEAT('a', 17000000), 7, REPEAT('b', 11000000)")[0]
    assert got == (b'a' * 17000000, b'7', b'b' * 11000000)
    for n in (
        MAX_PACKET - 4,
        MAX_PACKET - 5,
    ):  # with its length, the row fills a packet, or is one byte shorter
        assert c.rows(f"SELECT REPEAT('a', {n})")[0] == (b'a' * n,)
    assert c.value('SELECT 1') == '1'


def a_slow_client(server):
    """Clients do not read 2 GB of rows. The server makes only rows that it can send."""
    before, slow = rss(server), [server.connect(database='m') for _ in range(4)]
    for c in slow:
        c.send("SELECT REPEAT(c, 64) FROM many")
    c = server.connect(database='m')
    states = lambda: [(r[4], r[6]) for r in c.rows('SHOW PROCESSLIST')]
    until(lambda: states().count((b'Query', b'Sending to client')) == len(slow), states)
    assert rss(server) < before + 100, f'{before} MiB before, {rss(server)} with slow clients'
    for c in slow:
        c.io.close()


def packets(server):
    """Many packets arrive partly. The last ones are refused, and their sessions go on after they
    have sent the rest.
    """
    first = server.connect()
    base, before = status(first, 'used'), rss(server)
    clients, size = [server.connect() for _ in range(16)], 20 * MIB
    text = b"\x03SELECT LENGTH('" + b'a' * size + b"')"
    parts = [text[n : n + MAX_PACKET] for n in range(0, len(text), MAX_PACKET)]
    stream = b''.join(struct.pack('<I', len(p))[:3] + bytes([n]) + p for n, p in enumerate(parts))
    for c in clients:
        c.seq = len(parts)
        c.io.sendall(stream[:-1])
    until(lambda: status(first, 'refusals') > 0, lambda: 'no packet was refused')
    assert base < status(first, 'used') <= SERVER * MIB
    assert rss(server) < before + SERVER + 200, f'{before} MiB before, {rss(server)} with packets'
    answers = []
    for c in clients:
        c.io.sendall(stream[-1:])
        try:
            answers.append(c.receive_all()[0].rows[0][0] == str(size).encode())
        except MySQLError as e:
            assert e.code == 3170 and 'redolith_' in e.message, e
            answers.append(None)
        assert c.value('SELECT 1') == '1'
    assert None in answers and True in answers and False not in answers, answers
    for c in clients:
        c.close()
    # Long data is kept for an EXECUTE that may never come.
    keepers = [server.connect() for _ in range(8)]
    for k in keepers:
        s = k.prepare('SELECT LENGTH(?)')
        for _ in range(40):
            k.long_data(s, 0, b'a' * MIB)
        k.statement = s
    outcome = []
    for k in keepers:
        try:
            outcome.append(k.execute(k.statement, [SENT]).rows[0][0] == str(40 * MIB).encode())
        except MySQLError as e:
            assert e.code == 3170 and 'redolith_server_memory' in e.message, e
            outcome.append(None)
        assert k.value('SELECT 1') == '1'
    assert None in outcome and True in outcome and False not in outcome, outcome
    for k in keepers + [first]:
        k.close()


def what_the_server_tells(server):
    """The description of columns with long comments exceeds the limit of a statement. It is refused
    before it is made.
    """
    c = server.connect(database='m')
    columns = ', '.join(f"c{n} TINYINT COMMENT '{'x' * 1000}'" for n in range(1000))
    for n in range(60):
        c.query(f'CREATE TABLE told{n} ({columns})')
    before = rss(server)
    refused(c, "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE COLUMN_COMMENT = 'y'")
    assert rss(server) < before + STATEMENT + 40, f'{before} MiB before, {rss(server)} after'
    assert (
        len(c.rows('SHOW FULL COLUMNS FROM told7')) == 1000
        and len(c.rows('SHOW CREATE TABLE told7')[0][1]) > 1000000
    )
    slow = [server.connect(database='m') for _ in range(20)]
    base = status(c, 'used')
    for s in slow:
        s.send('; '.join(['SHOW FULL COLUMNS FROM told7'] * 30))
    until(
        lambda: status(c, 'used') > base + 20 * MIB,
        lambda: f'{status(c, "used") - base} bytes are counted',
    )
    for s in slow:
        s.io.close()
    until(
        lambda: status(c, 'used') < base + MIB,
        lambda: f'{status(c, "used") - base} bytes are still counted',
    )
    for n in range(60):
        c.query(f'DROP TABLE told{n}')
    c.close()


def long_rows(server):
    """Rows of 20 MB wait for a lock, as many as there is memory for. A session that has written
    such a row keeps no memory of it.
    """
    c, size = server.connect(database='m'), 20000000
    c.query('CREATE TABLE rows_of_blobs (id INT PRIMARY KEY, b LONGBLOB)')
    base, before = status(c, 'used'), rss(server)
    c.query('FLUSH STATUS; BEGIN; INSERT INTO rows_of_blobs (id) VALUES (1)')
    clients = [server.connect(database='m') for _ in range(16)]
    for x in clients:
        x.send(f"INSERT INTO rows_of_blobs VALUES (1, REPEAT('a', {size}))")
    until(
        lambda: status(c, 'refusals') > 0,
        lambda: f'none is refused, {status(c, "used") - base} bytes are counted',
    )
    assert status(c, 'used') > SERVER * MIB // 2
    assert rss(server) < before + SERVER + 200, f'{before} MiB before, {rss(server)} with rows'
    c.query('ROLLBACK')
    answers = []
    for x in clients:
        try:
            x.receive_all()
            answers.append(0)
        except MySQLError as e:
            assert e.code != 3170 or 'redolith_server_memory' in e.message, e
            answers.append(e.code)
    # Two sessions that both read the first row as a duplicate and then both want its place meet in
    # a deadlock, as in MySQL.
    assert {0, 1062, 3170} <= set(answers) <= {0, 1062, 1213, 3170}, answers
    assert answers.count(0) == 1, answers
    # A row that is read exists once, and rows are read one after the other.
    c.query(
        f"INSERT INTO rows_of_blobs VALUES (2, REPEAT('b', {size})), (3, REPEAT('c', {size})), (4,"
        f" REPEAT('d', {size})), (5, REPEAT('e', {size}))"
    )
    assert c.value('SELECT SUM(LENGTH(b)) FROM rows_of_blobs') == str(5 * size)
    refused(
        c,
        'SELECT COUNT(*) FROM rows_of_blobs v, rows_of_blobs w, rows_of_blobs x, rows_of_blobs y'
        ' WHERE v.b < w.b AND w.b < x.b AND x.b < y.b',
    )
    until(
        lambda: status(c, 'used') <= base + MIB,
        lambda: f'{status(c, "used") - base} bytes are still counted',
    )
    c.query('DROP TABLE rows_of_blobs')
    for x in clients + [c]:
        x.close()


def one_value_many_times(server):
    """A short statement may name a long value in thousands of places. What it would make of them is
    refused before it is made.
    """
    c, size, columns = server.connect(database='m'), 20000000, range(120)
    made = ', '.join(f'c{n} LONGTEXT' for n in columns)
    c.query(f'CREATE TABLE wide (id INT PRIMARY KEY, a LONGTEXT, {made})')
    c.query(f"INSERT INTO wide (id, a) VALUES (1, REPEAT('x', {size}))")
    c.query('CREATE TABLE texts (id INT PRIMARY KEY, a TEXT)')
    c.query("INSERT INTO texts VALUES (1, REPEAT('x', 60000)), (2, REPEAT('y', 60000))")

    def refused_in_time(*statement):
        # Memory that the statement before has given back may be resident still.
        server.forget_peak()
        before = rss(server)
        refused(c, *statement)
        peak = server.peak_kib() >> 10
        why = f'{statement[0][:60]}: {before} MiB before, up to {peak}'
        assert peak < before + 2 * STATEMENT, why

    many = ', '.join(['a'] * 20000)
    for sql in (
        f'SELECT {many} FROM texts',
        f'SELECT {many} FROM texts ORDER BY id',
        f'SELECT DISTINCT {many} FROM texts',
        f'SELECT {many} FROM texts WHERE id > 0 GROUP BY id, a',
        f'SELECT {many} FROM texts UNION SELECT {many} FROM texts',
        f'SELECT COUNT(DISTINCT {many}) FROM texts',
        'UPDATE wide SET ' + ', '.join(f'c{n} = a' for n in range(40)),
    ):
        refused_in_time(sql)
    # More than 2 GiB are no row.
    refused_in_time('UPDATE wide SET ' + ', '.join(f'c{n} = a' for n in columns), 'Row size', 1118)
    assert c.value('SELECT LENGTH(a) FROM wide WHERE c0 IS NULL') == str(size)
    c.query('DROP TABLE wide, texts')
    c.close()


def together(server):
    """Sessions take memory until the server has no more. Other sessions go on, and all memory is
    given back when the sessions end.
    """
    c = server.connect(database='m')
    base, greedy, told = status(c, 'used'), [server.connect(database='m') for _ in range(8)], 0
    for g in greedy:
        try:
            for n in range(3):
                g.query(f"SET @v{n} = REPEAT('a', 20000000)")
            g.query(
                'SELECT COUNT(*) FROM (SELECT DISTINCT CONCAT(c, id) AS x FROM many LIMIT 20000)'
                ' AS d'
            )
        except MySQLError as e:
            assert e.code == 3170 and 'redolith_server_memory' in e.message, e
            told += 1
            assert g.value('SELECT 1') == '1'
    assert told > 0 and status(c, 'used') > SERVER * MIB // 2
    assert c.value('SELECT COUNT(*) FROM many WHERE id % 2 = 0') is not None
    c.query(f'SET GLOBAL redolith_server_memory = {2 * SERVER * MIB}')
    greedy[-1].query("SET @v0 = REPEAT('a', 20000000)")
    c.query(f'SET GLOBAL redolith_server_memory = {SERVER * MIB}')
    for g in greedy:
        g.close()
    until(
        lambda: status(c, 'used') <= base + MIB,
        lambda: f'{status(c, "used")} bytes are still counted, {base} before',
    )
    assert status(c, 'peak') > SERVER * MIB // 2 and status(c, 'refusals') > 0
    c.query('FLUSH STATUS')
    assert status(c, 'refusals') == 0 and status(c, 'peak') < SERVER * MIB // 2


# Statements that never end: each fills files in another way.
PRODUCT = 'm.many a, m.many b, m.many d'
ENDLESS = (
    f'SELECT a.c FROM {PRODUCT} ORDER BY CONCAT(a.c, b.id, d.id)',
    f'SELECT COUNT(*) FROM (SELECT a.c, b.id, d.id AS i, MAX(a.id) FROM {PRODUCT} GROUP BY 1, 2, 3)'
    ' g',
    f'SELECT COUNT(DISTINCT b.id, d.id, a.c) FROM {PRODUCT}',
    f'SELECT COUNT(*) FROM (SELECT DISTINCT b.id, d.id AS i, a.c FROM {PRODUCT}) g',
)


def late_rows(c):
    """Joins, groups and keys that outgrow their statement give the right rows."""
    concat = 'CONCAT(c, id)'
    for sql, wanted in (
        (f'SELECT COUNT(*), SUM(n) FROM (SELECT {concat} AS g, COUNT(*) AS n FROM copy GROUP BY g)'
         ' d', (16384, 16384)),
        (f'SELECT COUNT(DISTINCT {concat}), SUM(DISTINCT id) FROM copy', None),
        (f'SELECT COUNT(*), MIN(g) = MAX(g) FROM (SELECT {concat} AS g FROM copy UNION SELECT'
         f' {concat} FROM copy) d', (16384, 0)),
        (f'SELECT COUNT(*), MAX(g) FROM (SELECT {concat} AS g FROM copy EXCEPT SELECT {concat} FROM'
         ' copy WHERE id > 9) d', None),
        ('SELECT COUNT(*), SUM(b.id - a.id) FROM copy a STRAIGHT_JOIN (SELECT id, c FROM copy) b ON'
         ' a.id = b.id', (16384, 0)),
        # All rows have one key.
        ('SELECT COUNT(*), SUM(b.id = b.id) FROM (SELECT 1 AS n UNION ALL SELECT 2) a STRAIGHT_JOIN'
         ' (SELECT id, c, id * 0 + 2 AS n FROM copy) b ON a.n = b.n', (16384, 16384)),
    ):
        files = lambda: int(c.rows("SHOW STATUS LIKE 'Created_tmp_files'")[0][1])
        before, row = files(), c.rows(sql)[0]
        assert files() > before, sql
        if wanted is None:
            c.query(f'SET SESSION redolith_statement_memory = {256 * MIB}')
            assert c.rows(sql)[0] == row, (sql, row)
            c.query(f'SET SESSION redolith_statement_memory = {4 * MIB}')
        else:
            assert tuple(int(value) for value in row) == wanted, (sql, row)


def temporary_files(report):
    """Sorts, derived tables and copies that outgrow their statement go to files. The files have no
    names, have a bound together, and go with their statement: when it ends, with KILL, and with
    kill -9. A full disk is that statement's error.
    """
    dir = servers.scratch('temporary')
    options = {**OPTIONS, 'redolith_statement_memory': 4 * MIB, 'tmpdir': dir}
    with servers.Redolith(os.path.join(dir, 'server'), options) as server:
        c = server.connect()
        tables(c)
        space = lambda: int(
            c.rows("SHOW GLOBAL STATUS LIKE 'Redolith_temporary_space_used'")[0][1]
        )
        files = lambda: sorted(set(os.listdir(dir)) - {'server', 'small', 'image'})
        c.query('USE m; CREATE TABLE copy LIKE many; FLUSH STATUS')
        c.query('INSERT INTO copy SELECT * FROM many; INSERT INTO copy (c) SELECT c FROM copy')
        assert c.value('SELECT COUNT(*) FROM copy') == '16384'
        assert len(c.rows('SELECT id, c FROM copy ORDER BY RIGHT(c, 3), id DESC')) == 16384
        ids = [int(row[0]) for row in c.rows('SELECT id, c FROM copy ORDER BY c, id DESC')]
        assert ids == sorted(ids, reverse=True)
        assert c.value('SELECT SUM(id) FROM (SELECT * FROM copy ORDER BY c) d') == str(sum(ids))
        made = int(c.rows("SHOW STATUS LIKE 'Created_tmp_files'")[0][1])
        merges = int(c.rows("SHOW STATUS LIKE 'Sort_merge_passes'")[0][1])
        # The copy, the derived table and three sorts have a file each. A sort of more than 64
        # parts merges once more, into a second file, and writes its next parts to a third.
        assert 3 <= merges <= 6 and made == 5 + 2 * (merges - 3), (made, merges)
        late_rows(c)
        c.query(f'SET GLOBAL redolith_temporary_space = {64 * MIB}')
        for endless in ENDLESS:
            refused(c, endless, 'redolith_temporary_space', 1114)
            assert space() == 0
        report.ok('temporary files: rows, order and bound')

        c.query(f'SET GLOBAL redolith_temporary_space = {8 << 30}')
        other = server.connect()
        for endless in ENDLESS:
            other.send(endless)
            until(lambda: space() > 100 * MIB, lambda: f'{space()} bytes in files')
            assert files() == [], files()
            c.query(f'KILL QUERY {other.connection_id}')
            began = time.monotonic()
            try:
                other.receive_all()
                raise AssertionError('not killed')
            except MySQLError as e:
                assert e.code == 1317, e
            assert time.monotonic() - began < 20, time.monotonic() - began
            until(lambda: space() == 0, lambda: f'{space()} bytes are left')
        other.send(endless)
        until(lambda: space() > 100 * MIB, lambda: f'{space()} bytes in files')
        server.kill()
        assert files() == [], files()
        report.ok('temporary files: KILL and kill -9 leave none')
    try:
        small = SmallDisk(dir, 40)
    except OSError as e:
        return report.skip('temporary files: a full disk', str(e))
    with (
        small,
        servers.Redolith(os.path.join(dir, 'server'), {**options, 'tmpdir': small.path}) as server,
    ):
        c = server.connect()
        tables(c)
        free = small.free_bytes()
        for endless in ENDLESS:
            refused(c, endless, 'writing file', 1026)
        assert c.value('SELECT COUNT(*) FROM m.many') == '8192'
        until(lambda: small.free_bytes() >= free - MIB, lambda: f'{free}, {small.free_bytes()}')
        report.ok('temporary files: a full disk')


def until(true, why):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)


def given_back(server, base):
    """Waits until the process has given back unused memory."""
    until(lambda: rss(server) < base + 100, lambda: f'{base} MiB at first, {rss(server)} MiB stay')


def test(report):
    with servers.Redolith(servers.scratch('memory'), OPTIONS) as server:
        c = server.connect()
        tables(c)
        c.query('SELECT COUNT(*) FROM m.many')
        base = rss(server)
        for what in (
            a_long_row,
            a_slow_client,
            packets,
            what_the_server_tells,
            long_rows,
            one_value_many_times,
            together,
        ):
            try:
                what(server)
                report.ok(
                    what.__name__.replace('_', ' '),
                    f'{rss(server)} MiB resident after it, {base} before all',
                )
            except (AssertionError, OSError, MySQLError) as e:
                report.fail(what.__name__, f'{type(e).__name__}: {e}')
        report.outcome('memory is given back', complaint(lambda: given_back(server, base)))
        report.ok('at the end', f'{rss(server)} MiB resident')
        c.close()


def complaint(check):
    try:
        check()
    except AssertionError as e:
        return str(e)


def main():
    report = Report()
    test(report)
    try:
        temporary_files(report)
    except (AssertionError, OSError, MySQLError) as e:
        report.fail('temporary files', f'{type(e).__name__}: {e}')
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

"""Tests the protocol packet by packet with the rig's own client: packets that no driver would send,
and behaviour on which drivers rely.
"""

import socket as sockets
import struct
import time
from decimal import Decimal

from rig import client
from rig.client import Connection, MySQLError

MIB = 1 << 20
IN_TRANSACTION, AUTOCOMMIT = 1, 2


def code(call):
    """The number of the error with which a call ends."""
    try:
        call()
    except MySQLError as e:
        return e.code
    return None


def same(got, expected, what=''):
    if got != expected:
        raise AssertionError(f'{what}: expected {expected!r}, got {got!r}')


def schema(c, name):
    c.query(
        f'DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE'
        f' utf8mb4_general_ci; USE {name}'
    )


def unknown_commands(server):
    c = server.connect()
    for command in (0x1D, 0x40, 0x7F):
        c.command(command, b'junk')
        same(code(c.receive), 1047, f'command {command:#x}')
    same(c.value('SELECT 1'), '1', 'after unknown commands')


def logins(server):
    for where in (dict(socket=server.socket), dict(port=server.port)):
        same(code(lambda: Connection(**where, password='wrong')), 1045, 'wrong password')
        same(code(lambda: Connection(**where, user='nobody_of_this_name')), 1045, 'unknown user')
        same(code(lambda: Connection(**where, database='no_such_schema')), 1049, 'unknown schema')
        same(Connection(**where).value('SELECT 1'), '1', 'root')


def before_login(server):
    """Clients without a login get no answers, and their garbage harms no other client."""
    for first in (
        b'\x03SELECT 1',
        b'',
        b'\xff' * 40,
        b'\x85\xa6',
        struct.pack('<IIB23x', client.CAPABILITIES, 1 << 24, 45) + b'root',
    ):
        s = sockets.socket(sockets.AF_UNIX)
        s.settimeout(60)
        s.connect(server.socket)
        s.recv(4096)
        s.sendall(struct.pack('<I', len(first) | 1 << 24) + first)
        s.shutdown(sockets.SHUT_WR)
        answer = b''
        while chunk := s.recv(4096):
            answer += chunk
        if answer and answer[4] != 0xFF:
            raise AssertionError(f'{first!r} instead of a login was answered {answer!r}')
        s.close()
    same(server.connect().value('SELECT 1'), '1', 'another connection')


def commands(server):
    c = server.connect()
    schema(c, 'p_commands')
    same(c.ping().affected, 0, 'ping')
    c.init_db('p_commands')
    same(c.value('SELECT DATABASE()'), 'p_commands', 'init_db')
    same(code(lambda: c.init_db('no_such_schema')), 1049, 'init_db of nothing')
    same(c.statistics().startswith('Uptime:'), True, 'statistics')
    same(c.rows(b'SELECT 1\0'), [(b'1',)], 'a zero byte behind a statement, as mysqlslap sends it')
    same(c.execute(c.prepare(b'SELECT 1\0')).rows, [(b'1',)], 'the same, prepared')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), n_me INT)')
    every = ['id', 'name', 'n_me']
    for pattern, expected in (
        (b'', every),
        (b'%', every),
        (b'N%', every[1:]),
        (b'n_me', every[1:]),
        (b'N\\_me', every[2:]),
        (b'd', []),
    ):
        c.command(0x04, b't\0' + pattern)  # COM_FIELD_LIST
        names = []
        while (p := c._checked())[0] != 0xFE:
            names.append(client.column(p).name)
        same(names, expected, f'field list {pattern}')
    c.command(0x1B, b'\1\0')  # COM_SET_OPTION: multi statements off
    c._checked()
    same(code(lambda: c.query('SELECT 1; SELECT 2')), 1064, 'multi statements off')
    c.command(0x1B, b'\0\0')
    c._checked()
    same(len(c.query('SELECT 1; SELECT 2')), 2, 'multi statements on')


def status_flags(server):
    c = server.connect()
    schema(c, 'p_status')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, v INT)')
    flags = lambda sql: c.query(sql)[-1].status & (IN_TRANSACTION | AUTOCOMMIT)
    same(flags('SELECT 1'), AUTOCOMMIT, 'idle')
    same(flags('BEGIN'), AUTOCOMMIT | IN_TRANSACTION, 'BEGIN')
    same(flags('INSERT INTO t VALUES (1, 1)'), AUTOCOMMIT | IN_TRANSACTION, 'in the transaction')
    same(flags('COMMIT'), AUTOCOMMIT, 'COMMIT')
    same(flags('SET autocommit = 0'), 0, 'autocommit off')
    same(flags('UPDATE t SET v = 2'), IN_TRANSACTION, 'implicit transaction')
    same(flags('ROLLBACK'), 0, 'ROLLBACK')


def capabilities(server):
    plain = client.CAPABILITIES & ~client.DEPRECATE_EOF
    c = server.connect(capabilities=plain)
    schema(c, 'p_capabilities')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10), (2, NULL)')
    same(
        c.rows('SELECT * FROM t ORDER BY id'),
        [(b'1', b'10'), (b'2', None)],
        'text rows without DEPRECATE_EOF',
    )
    s = c.prepare('SELECT * FROM t WHERE id > ? ORDER BY id')
    same(c.execute(s, [0]).rows, [(b'1', b'10'), (b'2', None)], 'binary rows without DEPRECATE_EOF')
    same(len(c.query('SELECT 1; SELECT 2; SELECT 3')), 3, 'several results without DEPRECATE_EOF')
    same(c.query('UPDATE t SET v = 10 WHERE id = 1')[0].affected, 0, 'changed rows')
    found = server.connect(
        database='p_capabilities', capabilities=client.CAPABILITIES | client.FOUND_ROWS
    )
    same(found.query('UPDATE t SET v = 10 WHERE id = 1')[0].affected, 1, 'found rows')
    single = server.connect(capabilities=client.CAPABILITIES & ~client.MULTI_STATEMENTS)
    same(code(lambda: single.query('SELECT 1; SELECT 2')), 1064, 'no CLIENT_MULTI_STATEMENTS')


def statements(server):
    c = server.connect()
    schema(c, 'p_statements')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100), b LONGBLOB)')
    insert = c.prepare('INSERT INTO t VALUES (?, ?, ?)')
    same((insert.params, len(insert.columns)), (3, 0), 'parameters of an INSERT')
    same(c.execute(insert, [1, 'a', b'\0\xff']).affected, 1, 'execute')
    c.execute(insert, [2, None, None])
    # A client that binds the same types again does not send them again.
    c.command(
        0x17,
        struct.pack('<IBI', insert.id, 0, 1)
        + b'\0\1'
        + bytes([8, 0, 253, 0, 252, 0])
        + struct.pack('<q', 3)
        + b'\1x\1y',
    )
    same(c.receive(binary=True).affected, 1, 'with types')
    c.command(
        0x17, struct.pack('<IBI', insert.id, 0, 1) + b'\0\0' + struct.pack('<q', 4) + b'\1z\1w'
    )
    same(c.receive(binary=True).affected, 1, 'without types')
    select = c.prepare('SELECT id, v, b FROM t WHERE id >= ? ORDER BY id')
    same([x.name for x in select.columns], ['id', 'v', 'b'], 'columns of a SELECT')
    rows = [(b'1', b'a', b'\0\xff'), (b'2', None, None), (b'3', b'x', b'y'), (b'4', b'z', b'w')]
    same(c.execute(select, [1]).rows, rows, 'rows')
    same(c.execute(select, ['1']).rows, rows, 'a string for a number')
    same(c.execute(select, [3.0]).rows, rows[2:], 'a double for a number')
    same(c.execute(select, [None]).rows, [], 'NULL')
    # The table of a prepared statement changes.
    c.query('CREATE INDEX tv ON t (v)')
    same(c.execute(select, [4]).rows, rows[3:], 'after an index was made')
    c.query('DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100), b LONGBLOB)')
    same(c.execute(select, [0]).rows, [], 'after the table was made anew')
    # A parameter may be sent as long data.
    c.long_data(insert, 1, b'long ')
    c.long_data(insert, 1, b'text')
    for _ in range(20):
        c.long_data(insert, 2, b'q' * 100_000)
    same(c.execute(insert, [7, client.SENT, client.SENT]).affected, 1, 'long data')
    same(c.rows('SELECT id, v, LENGTH(b) FROM t'), [(b'7', b'long text', b'2000000')], 'long data')
    # Statements can be reset and closed.
    c.command(0x1A, struct.pack('<I', insert.id))
    c.receive()
    c.close_statement(insert)
    same(code(lambda: c.execute(insert, [9, 'x', b''])), 1243, 'a closed statement')
    same(
        code(lambda: c.execute(client.Statement(987654, 0, []), [])),
        1243,
        'a statement that never was',
    )
    same(code(lambda: c.prepare('SELECT nope FROM t')), 1054, 'prepare of what cannot run')
    same(code(lambda: c.prepare('SELEC')), 1064, 'prepare of nonsense')
    empty = c.prepare('BEGIN')
    same(
        (
            c.execute(empty).status & IN_TRANSACTION,
            c.execute(c.prepare('COMMIT')).status & IN_TRANSACTION,
        ),
        (1, 0),
        'BEGIN and COMMIT, prepared',
    )
    many = [c.prepare(f'SELECT v FROM t WHERE id = {i % 10} AND v = ?') for i in range(3000)]
    same(c.execute(many[7], ['long text']).rows, [(b'long text',)], 'one of 3,000')
    for s in many:
        c.close_statement(s)


def decimals(server):
    """Arithmetic with a DECIMAL of a client is exact, whatever its scale."""
    c = server.connect()
    schema(c, 'p_decimals')
    c.query('CREATE TABLE acct (id INT PRIMARY KEY, bal DECIMAL(20,2), r DECIMAL(30,6))')
    c.query('INSERT INTO acct VALUES (1, 123456789012345678.01, 1.5)')
    add = c.prepare('UPDATE acct SET bal = bal + ?, r = r * ? WHERE id = ?')
    for amount, factor in (('0.01', '2'), ('0.1', '2.5'), ('7', '0.25'), ('-0.02', '2')):
        c.execute(add, (Decimal(amount), Decimal(factor), 1))
    same(c.rows('SELECT bal, r FROM acct'), [(b'123456789012345685.10', b'3.750000')], 'sums')
    found = c.prepare('SELECT id FROM acct WHERE bal = ?')
    same(c.execute(found, (Decimal('123456789012345685.1'),)).rows, [(b'1',)], 'equal')
    same(c.execute(found, (Decimal('123456789012345685.11'),)).rows, [], 'not equal')
    echo = c.prepare('SELECT ? + 0, ? + 1.05')
    for scale in (1, 3, 1, 0):
        v = Decimal(5).scaleb(-scale)
        got = c.execute(echo, (v, v)).rows
        same(got, [(str(v).encode(), str(v + Decimal('1.05')).encode())], f'scale {scale}')
    put = c.prepare('INSERT INTO acct VALUES (?, ?, ?)')
    c.execute(put, (2, Decimal('99999999999999999.99'), None))
    same(c.value('SELECT bal FROM acct WHERE id = 2'), '99999999999999999.99', 'INSERT')


def odd_times(server):
    """Clients may put all hours of a TIME into one byte, and may bind what is no time."""
    c = server.connect()
    schema(c, 'p_times')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, t TIME, d DATE, dt DATETIME)')
    time = lambda *parts: client.Packed(client.TIME, struct.pack('<BIBBB', *parts))
    date = lambda *parts: client.Packed(client.DATE, struct.pack('<HBB', *parts))
    put = c.prepare('INSERT INTO t VALUES (?, ?, ?, NULL)')
    good = date(2026, 12, 1)
    for id, t, text in (
        (1, time(0, 0, 100, 0, 1), b'100:00:01'),
        (2, time(1, 1, 200, 0, 0), b'-224:00:00'),
        (3, time(0, 40, 0, 0, 0), b'838:59:59'),
        (4, client.Packed(client.TIME, b'\0\1'), b'00:00:00'),
    ):
        c.execute(put, (id, t, good))
        same(c.rows(f'SELECT t, d FROM t WHERE id = {id}'), [(text, b'2026-12-01')], 'TIME')
    same(code(lambda: c.execute(put, (5, None, date(2026, 13, 1)))), 1292, 'month 13')
    moment = c.prepare('INSERT INTO t VALUES (?, NULL, NULL, ?)')
    day = client.Packed(client.DATETIME, struct.pack('<HBBBBB', 2026, 12, 1, 24, 0, 0))
    same(code(lambda: c.execute(moment, (6, day))), 1292, 'hour 24')
    c.query("SET sql_mode = ''")
    same(c.execute(put, (7, None, date(2026, 13, 1))).warnings, 1, 'a warning')
    same(c.execute(moment, (8, day)).warnings, 1, 'a warning')
    zero = [(b'0000-00-00', None), (None, b'0000-00-00 00:00:00')]
    same(c.rows('SELECT d, dt FROM t WHERE id > 6 ORDER BY id'), zero, 'zero dates')


def cursors(server):
    """A cursor keeps its rows, whatever happens after its statement."""
    READ_ONLY, CURSOR_EXISTS, LAST_ROW_SENT, ROWS = 1, 0x40, 0x80, 6000
    without_eof = client.CAPABILITIES & ~client.DEPRECATE_EOF
    for capabilities in (client.CAPABILITIES, without_eof):
        c = server.connect(capabilities=capabilities)
        schema(c, 'p_cursors')
        c.query('CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(200))')
        values = ','.join(f"({id}, REPEAT('x', 100))" for id in range(ROWS))
        c.query(f'INSERT INTO t VALUES {values}')

        def end(p):
            same(p[0], 0xFE, 'the end')
            return struct.unpack_from('<H', p, 3)[0]

        def open_cursor(s):
            c.command(0x17, struct.pack('<IBI', s.id, READ_ONLY, 1))
            count = c._checked()[0]
            columns = [client.column(c._read()) for _ in range(count)]
            same(end(c._checked()) & 0xC0, CURSOR_EXISTS, 'the end of the definitions')
            return columns

        def fetch(s, columns, n):
            c.command(0x1C, struct.pack('<II', s.id, n))
            rows = []
            while (p := c._checked())[0] == 0:
                rows.append(client.binary_row(p, columns))
            return rows, end(p) & 0xC0

        s = c.prepare('SELECT id, s FROM t ORDER BY id DESC')
        short = c.prepare('SHOW TABLES')
        c.query('BEGIN; UPDATE t SET s = UPPER(s) WHERE id = 0')
        columns = open_cursor(s)
        shown = open_cursor(short)
        c.query('ROLLBACK; DROP TABLE t')
        got = []
        for n in (1, 999, 2000, 3000):
            rows, status = fetch(s, columns, n)
            same((len(rows), status), (n, CURSOR_EXISTS), 'a fetch')
            got += rows
        same([int(id) for id, _ in got], [*range(ROWS)][::-1], 'the rows')
        same({s for _, s in got}, {b'x' * 100, b'X' * 100}, 'their strings')
        same(fetch(s, columns, 10), ([], LAST_ROW_SENT), 'behind the last row')
        same(code(lambda: fetch(s, columns, 10)), 1421, 'the cursor is closed')
        same(fetch(short, shown, 2), ([(b't',)], LAST_ROW_SENT), 'SHOW TABLES')
        same(code(lambda: open_cursor(s)), 1146, 'without its table')
        same(code(lambda: fetch(s, columns, 10)), 1421, 'no cursor')
        c.close()


def big_packets(server):
    c = server.connect()
    schema(c, 'p_packets')
    c.query(f'SET GLOBAL max_allowed_packet = {64 * MIB}')
    c = server.connect(database='p_packets')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)')
    edge = client.MAX_PACKET - 1 - len("SELECT LENGTH('')")  # the command byte counts
    for n in (edge - 1, edge, edge + 1, 17 * MIB):
        same(c.value(f"SELECT LENGTH('{'x' * n}')"), str(n), f'a statement of {n} bytes')
    insert, select = (
        c.prepare('INSERT INTO t VALUES (?, ?)'),
        c.prepare('SELECT b FROM t WHERE id = ?'),
    )
    value = bytes(range(256)) * (20 * MIB // 256)
    c.execute(insert, [1, value])
    same(c.rows('SELECT LENGTH(b) FROM t'), [(str(len(value)).encode(),)], 'length')
    same(c.execute(select, [1]).rows == [(value,)], True, '20 MiB, binary')
    same(c.rows('SELECT b FROM t') == [(value,)], True, '20 MiB, text')
    c.query(f'SET GLOBAL max_allowed_packet = {1 * MIB}')
    small = server.connect()
    try:
        got = code(lambda: small.query(f"SELECT LENGTH('{'x' * (2 * MIB)}')"))
    except OSError:
        got = 1153  # MySQL closes the connection, which may lose the error
    same(got, 1153, 'a packet over max_allowed_packet')
    same(server.connect().value('SELECT 1'), '1', 'others go on')
    c.query(f'SET GLOBAL max_allowed_packet = {64 * MIB}')


def resets(server):
    c = server.connect()
    schema(c, 'p_resets')
    c.query('CREATE TABLE t (id INT PRIMARY KEY)')
    for reset in (lambda: c.reset(), lambda: c.change_user('root', database='p_resets')):
        s = c.prepare('SELECT 1')
        c.query("SET @x = 5; SET SESSION sql_mode = ''; BEGIN; INSERT INTO t VALUES (1)")
        reset()
        same(c.value('SELECT COUNT(*) FROM p_resets.t'), '0', 'rolled back')
        same(c.value('SELECT @x'), None, 'user variables')
        same('STRICT_TRANS_TABLES' in c.value('SELECT @@sql_mode'), True, 'session settings')
        same(code(lambda: c.execute(s)), 1243, 'statements')
    same(code(lambda: c.change_user('nobody_of_this_name')), 1045, 'change_user to nobody')


def kill(server):
    a, b = server.connect(), server.connect()
    b.query(f'KILL {a.connection_id}')
    try:
        a.query('SELECT 1')
    except (OSError, MySQLError):
        return
    raise AssertionError('the killed connection still answers')


def fill(server, limit):
    """Opens connections of root until one is refused. An administrator has one seat beyond the
    limit.
    """
    open_ones = []
    try:
        while len(open_ones) < limit + 5:
            open_ones.append(server.connect())
        raise AssertionError(f'{len(open_ones)} connections, though max_connections is {limit}')
    except MySQLError as e:
        same((e.code, e.message), (1040, 'Too many connections'), 'one too many')
    return open_ones


def eventually(what, call):
    """Waits until `call` is true: the server notices a closed socket a moment later."""
    deadline = time.monotonic() + 120
    while not call():
        if time.monotonic() > deadline:
            raise AssertionError(f'not within 120 s: {what}')
        time.sleep(0.01)


def status(c, name):
    return int(c.rows(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def max_connections(server):
    c = server.connect()
    before, connected = (
        int(c.value('SELECT @@max_connections')),
        lambda: status(c, 'Threads_connected'),
    )
    eventually('only this connection is left', lambda: connected() == 1)
    c.query('FLUSH STATUS')
    refused = status(c, 'Connection_errors_max_connections')
    c.query('SET GLOBAL max_connections = 20')
    others = fill(server, 20)
    same(1 + len(others), 21, 'connections at max_connections=20')
    same(
        (connected(), status(c, 'Max_used_connections')),
        (21, 21),
        'Threads_connected, Max_used_connections',
    )
    same(
        status(c, 'Connection_errors_max_connections') - refused,
        1,
        'Connection_errors_max_connections',
    )
    # The limit is raised while the server runs.
    c.query('SET GLOBAL max_connections = 40')
    others += fill(server, 40 - len(others))
    same(1 + len(others), 41, 'connections at max_connections=40')
    # The limit is lowered. No connection is ended, and no new one is accepted before enough have
    # left.
    c.query('SET GLOBAL max_connections = 30')
    same([o.value('SELECT 1') for o in others], ['1'] * 40, 'answers after the limit was lowered')
    for o in others[25:]:
        o.close()
    eventually('15 have left', lambda: connected() == 26)
    others = others[:25] + fill(server, 30 - 25)
    same(1 + len(others), 31, 'connections at max_connections=30')
    # Clients vanish without COM_QUIT: one with a reset, one in the middle of a packet, one in a
    # transaction with a lock.
    schema(c, 'p_vanish')
    c.query('CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)')
    others[0].query('BEGIN; UPDATE p_vanish.t SET v = 2')
    others[1].io.sendall(b'\x50\0\0')
    others[2].io.sendall(b'\x09\0\0\0\x03SELE')
    for o in others:
        o.io.close()
    eventually('the vanished have left', lambda: connected() == 1)
    c.query('UPDATE p_vanish.t SET v = v + 10')
    same(
        c.value('SELECT v FROM p_vanish.t'),
        '11',
        'the transaction of one who vanished was rolled back',
    )
    for o in fill(server, 30):
        o.close()
    same(code(lambda: c.query('SET GLOBAL max_connections = nonsense')), 1232, 'no number')
    same(code(lambda: c.query('SET SESSION max_connections = 5')), 1229, 'of a session')
    c.query('SET GLOBAL max_connections = 0')
    same(c.value('SELECT @@max_connections') in ('1', '10'), True, 'the least value')
    c.query(f'SET GLOBAL max_connections = {before}; DROP DATABASE p_vanish')
    eventually('only this connection is left', lambda: connected() == 1)
    c.query('FLUSH STATUS')
    same(status(c, 'Max_used_connections'), 1, 'Max_used_connections after FLUSH STATUS')


ALL = [
    unknown_commands,
    logins,
    before_login,
    commands,
    status_flags,
    capabilities,
    statements,
    decimals,
    odd_times,
    cursors,
    big_packets,
    resets,
    kill,
    max_connections,
]

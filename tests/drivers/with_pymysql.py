"""Tests PyMySQL with a running server, inside the virtual environment: with_pymysql.py SOCKET PORT.
Prints one line per test.
"""

import datetime
import decimal
import sys
import traceback

import pymysql

SOCKET, PORT = sys.argv[1], int(sys.argv[2])
D, T = datetime.datetime, datetime.timedelta
TYPES = [
    ('TINYINT', [-128, 127]),
    ('SMALLINT UNSIGNED', [65535]),
    ('MEDIUMINT', [-8388608]),
    ('INT', [-2147483648, 2147483647]),
    ('BIGINT', [-9223372036854775808]),
    ('BIGINT UNSIGNED', [18446744073709551615]),
    ('DECIMAL(20,5)', [decimal.Decimal('-123456789012345.12345')]),
    ('FLOAT', [1.5]),
    ('DOUBLE', [0.1, 1e100]),
    ('CHAR(10)', ['abc', 'äöü日']),
    ('VARCHAR(30)', ["it's \\ \"q\" %", '😀']),
    ('TEXT', ['x' * 60000]),
    ('MEDIUMTEXT', ['m' * 200000]),
    ('LONGTEXT', ['l']),
    ('VARCHAR(5) CHARACTER SET latin1', ['é']),
    ('BINARY(3)', [b'\0\xff\1']),
    ('VARBINARY(300)', [bytes(range(256))]),
    ('BLOB', [b'\x1a\0\r\n']),
    ('DATE', [datetime.date(2024, 2, 29)]),
    ('TIME', [T(hours=12, minutes=3), -T(hours=838, minutes=59, seconds=59)]),
    ('TIME(6)', [T(seconds=1, microseconds=5)]),
    ('DATETIME', [D(2024, 2, 29, 23, 59, 59)]),
    ('DATETIME(6)', [D(2024, 2, 29, 1, 2, 3, 123456)]),
    ('TIMESTAMP NULL', [D(2024, 2, 29, 1, 2, 3)]),
]


def connect(**more):
    return pymysql.connect(**{'unix_socket': SOCKET, 'user': 'root', **more})


def types():
    for where in (dict(), dict(unix_socket=None, host='127.0.0.1', port=PORT)):
        with connect(**where) as c, c.cursor() as cur:
            cur.execute('DROP DATABASE IF EXISTS pymysql_types')
            cur.execute(
                'CREATE DATABASE pymysql_types CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci'
            )
            c.select_db('pymysql_types')
            for n, (sql, values) in enumerate(TYPES):
                cur.execute(f'CREATE TABLE t{n} (id INT PRIMARY KEY AUTO_INCREMENT, v {sql})')
                cur.executemany(
                    f'INSERT INTO t{n} (v) VALUES (%s)', [(v,) for v in [*values, None]]
                )
                c.commit()
                cur.execute(f'SELECT v FROM t{n} ORDER BY id')
                got = [row[0] for row in cur.fetchall()]
                assert got == [*values, None], f'{sql}: {got}'
            cur.execute('DROP DATABASE pymysql_types')


def transactions():
    with connect() as c, c.cursor() as cur:
        cur.execute('DROP DATABASE IF EXISTS pymysql_trx')
        cur.execute('CREATE DATABASE pymysql_trx')
        c.select_db('pymysql_trx')
        cur.execute('CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)')
        c.begin()
        assert cur.execute('INSERT INTO t (v) VALUES (1), (2)') == 2
        assert cur.lastrowid == 1
        c.rollback()
        cur.execute('SELECT COUNT(*) FROM t')
        assert cur.fetchone() == (0,)
        cur.execute('INSERT INTO t (v) VALUES (%s)', (5,))  # autocommit is off by default
        with connect(database='pymysql_trx') as other, other.cursor() as o:
            o.execute('SELECT COUNT(*) FROM t')
            assert o.fetchone() == (0,)
        c.commit()
        c.autocommit(True)
        with c.cursor(pymysql.cursors.SSDictCursor) as ss:
            ss.execute('SELECT id, v FROM t')
            assert ss.fetchall() == [{'id': 3, 'v': 5}]
        c.ping()
        assert c.get_server_info()
        assert c.character_set_name() == 'utf8mb4'
        cur.execute('DROP DATABASE pymysql_trx')


def errors():
    def code(sql, **where):
        try:
            with connect(**where) as c, c.cursor() as cur:
                cur.execute(sql)
        except pymysql.MySQLError as e:
            return e.args[0]

    with connect(autocommit=True) as c, c.cursor() as cur:
        cur.execute('DROP DATABASE IF EXISTS pymysql_err')
        cur.execute('CREATE DATABASE pymysql_err')
        cur.execute('CREATE TABLE pymysql_err.t (id INT PRIMARY KEY)')
        cur.execute('INSERT INTO pymysql_err.t VALUES (1)')
    db = dict(database='pymysql_err')
    for sql, expected in [
        ('INSERT INTO t VALUES (1)', 1062),
        ('SELECT * FROM nope', 1146),
        ('SELECT nope FROM t', 1054),
        ('SELEC 1', 1064),
    ]:
        assert code(sql, **db) == expected, (sql, code(sql, **db))
    assert code('SELECT 1', password='wrong') == 1045
    assert code('SELECT 1', user='nobody_of_this_name') == 1045
    assert code('SELECT 1', database='no_such_schema') == 1049
    with connect(autocommit=True) as c, c.cursor() as cur:
        cur.execute('DROP DATABASE pymysql_err')


status = 0
for test in (types, transactions, errors):
    try:
        test()
        print(f'ok {test.__name__}', flush=True)
    except Exception:
        status = 1
        print(f'FAILED {test.__name__}\n{traceback.format_exc()}', flush=True)
sys.exit(status)

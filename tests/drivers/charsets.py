"""Compares text in every character set with MariaDB, byte by byte: stored text, returned text and
refused text.

    tests/drivers/run --only charsets

The test combines all character sets of statements (`character_set_client`), of literals
(`character_set_connection`) and of columns, with bytes that are text in some of them only: in plain
literals, after introducers, in hexadecimal, as parameters of prepared statements of both kinds, as
patterns, as names and in comments. Both servers get the same statements. Results are compared as
bytes, errors and warnings by number.
"""

import struct
import threading

from rig import client
from rig.client import BLOB, VAR_STRING, MySQLError

SETS = ['binary', 'ascii', 'latin1', 'utf8mb3', 'utf8mb4']
COLUMNS = {
    'b': 'VARBINARY(40)',
    'a': 'VARCHAR(40) CHARACTER SET ascii',
    'l': 'VARCHAR(40) CHARACTER SET latin1',
    'u': 'VARCHAR(40) CHARACTER SET utf8mb3',
    'm': 'VARCHAR(40) CHARACTER SET utf8mb4',
    't': 'TEXT CHARACTER SET latin1',
    'x': 'TEXT CHARACTER SET utf8mb4',
}
# ASCII; one character of latin1; characters of two, three and four bytes in UTF-8; characters that
# latin1 and UTF-8 encode differently; bytes that are text in latin1 only.
TEXTS = [
    b'plain',
    b'\xe9',
    'é'.encode(),
    '€'.encode(),
    b'a\x80',
    'ж'.encode(),
    '😀'.encode(),
    b'a\xffb',
    b'\xc3',
    b'x\xe2\x82',
]
# There are many pairs of different client and connection, so only a few texts are used for them.
FEW = [b'\xe9', 'é'.encode(), '€ж'.encode(), '😀'.encode(), b'a\xffb']
INTRODUCERS = ['latin1', 'utf8mb4', 'utf8mb3', 'ascii', 'binary']


def forms(text):
    """The forms of a value in a statement: (the form, its declared character set or None for the
    connection's).
    """
    yield b"'%s'" % text, None
    yield b"N'%s'" % text, 'utf8mb3'
    yield b'0x%s' % text.hex().encode(), 'binary'
    for name in INTRODUCERS:
        yield b"_%s'%s'" % (name.encode(), text), name
        # MariaDB does not check bytes that are declared as ASCII.
        if name != 'ascii' or text.isascii():
            yield b"_%s x'%s'" % (name.encode(), text.hex().encode()), name


def is_utf8(text):
    try:
        return bool(text.decode())
    except UnicodeDecodeError:
        return False


def code(call):
    try:
        return call()
    except MySQLError as e:
        return f'error {e.code}'


class Session:
    """A connection that notes the outcome of every statement."""

    def __init__(self, server):
        self.c, self.said, self.place = server.connect(), [], ()

    def note(self, sql, got):
        self.said.append((self.place, sql, got))

    def rows(self, sql):
        self.note(sql, code(lambda: self.c.query(sql)[-1].rows))

    def whole(self, sql):
        """Notes the rows, the bytes of the columns' names, and the declared character sets."""

        def run():
            r = self.c.query(sql)[-1]
            return r.rows, [c.raw_name for c in r.columns], [c.charset for c in r.columns]

        self.note(sql, code(run))

    def do(self, sql):
        """Notes a statement that changes rows, with the number of its warnings."""

        def run():
            r = self.c.query(sql)[-1]
            return r.affected, r.warnings

        self.note(sql, code(run))

    def names(self, client, connection, results):
        self.c.query(
            f'SET character_set_client={client}, character_set_connection={connection},'
            f' character_set_results={results}'
        )
        self.client, self.connection = client, connection

    def stored(self):
        self.rows(
            f"SELECT id, {', '.join(f'HEX({n})' for n in COLUMNS)}, {', '.join(COLUMNS)} FROM t"
            " ORDER BY id"
        )
        self.c.query('DELETE FROM t')

    def prepared(self, sql, params):
        """`params` are pairs of a type and bytes."""

        def run():
            statement = self.c.prepare(sql)
            types, values = (
                b''.join(bytes([t, 0]) for t, _ in params),
                b''.join(client.lenenc_bytes(v) for _, v in params),
            )
            self.c.command(
                0x17,
                struct.pack('<IBI', statement.id, 0, 1)
                + bytes((len(params) + 7) // 8)
                + b'\x01'
                + types
                + values,
            )
            try:
                r = self.c.receive(binary=True)
                return (r.affected, r.warnings) if r.columns is None else r.rows
            finally:
                self.c.close_statement(statement)

        self.note((sql, params), code(run))

    def columns_for(self, text, charset):
        """The columns for a text. MariaDB stores any bytes in a column of ASCII if they come as
        ASCII or as bytes; MySQL and Redolith store only ASCII.
        """
        raw = {self.connection if charset is None else charset, self.client} & {'binary', 'ascii'}
        return [n for n in COLUMNS if n != 'a' or not raw or text.isascii()]


def literals(s, texts):
    for n, text in enumerate(texts):
        for form, charset in forms(text):
            s.rows(b'SELECT HEX(%s), CHARSET(%s), %s' % (form, form, form))
            into = s.columns_for(text, charset)
            s.do(
                b'INSERT INTO t(id, %s) VALUES (%d, %s)'
                % (', '.join(into).encode(), n, b', '.join([form] * len(into)))
            )
        s.stored()


def strictly(s, texts):
    s.c.query("SET sql_mode='STRICT_ALL_TABLES'")
    for text in texts:
        for n in s.columns_for(text, None):
            s.do(b"INSERT INTO t(%s) VALUES ('%s')" % (n.encode(), text))
    s.stored()
    s.c.query("SET sql_mode=''")


def parameters(s, texts):
    for n, text in enumerate(texts):
        for kind, charset in ((VAR_STRING, None), (BLOB, 'binary')):
            into = s.columns_for(text, charset)
            s.prepared(
                f"INSERT INTO t(id, {', '.join(into)}) VALUES ({n},"
                f" {', '.join(['?'] * len(into))})",
                [(kind, text)] * len(into),
            )
            s.prepared('SELECT HEX(?), CHARSET(?), ?', [(kind, text)] * 3)
        s.prepared(
            b"INSERT INTO t(id, b, l, m, t, x) SELECT 9, ?, '%s', _latin1'%s', _binary'%s', ?"
            % (text, text, text),
            [(VAR_STRING, text)] * 2,
        )
        s.rows(b"SET @v = '%s', @w = x'%s'" % (text, text.hex().encode()))
        s.rows('SELECT HEX(@v), CHARSET(@v), @v')
        s.c.query(
            "PREPARE p FROM 'INSERT INTO t(id, b, l, u, m, t, x) VALUES (10, ?, ?, ?, ?, ?, ?)'"
        )
        s.do('EXECUTE p USING @v, @v, @v, @v, @v, @v')
        s.do('EXECUTE p USING @w, @w, @w, @w, @w, @w')
    s.stored()


def comparisons(s, texts):
    """Compares and matches texts with stored rows."""
    s.c.query(
        "INSERT INTO t VALUES (1, x'E9', 'a', x'E962', _latin1 x'E962', _latin1 x'E962', x'E9',"
        " _latin1 x'80'), (2, 'plain', 'plain', 'plain', 'plain', 'plain', 'plain', 'plain'), (3,"
        " x'C3A9', '', _utf8mb4 x'E282AC', _utf8mb4 x'D0B6', _utf8mb4 x'F09F9880', '', '')"
    )
    for text in texts:
        for n in COLUMNS:
            for condition in (b"%s = '%s'", b"%s LIKE '%s%%%%'", b"%s IN ('%s', 'plain')"):
                s.rows(b'SELECT id FROM t WHERE ' + condition % (n.encode(), text))
        s.prepared('SELECT id FROM t WHERE l = ?', [(VAR_STRING, text)])
        s.prepared('SELECT id FROM t WHERE m LIKE ?', [(VAR_STRING, text + b'%')])
        s.prepared('SELECT id FROM t WHERE b = ?', [(BLOB, text)])
    s.c.query('DELETE FROM t')


def texts_around(s, texts):
    """Uses texts in names, aliases, comments, defaults and lengths."""
    for text in texts:
        if text == '😀'.encode():
            continue  # Names may have characters of four bytes here, but not in MySQL.
        s.rows(b'/* %s */ SELECT 1 -- %s' % (text, text))
        s.rows(b"SELECT LENGTH('%s'), HEX(CONCAT('%s', 'x'))" % (text, text))
        if is_utf8(text):
            s.rows(b"SELECT CHAR_LENGTH('%s'), HEX(LEFT('%s', 1))" % (text, text))
        s.whole(b'SELECT 1 AS `n%s`' % text)
        s.whole(b"SELECT 1 AS 'n%s'" % text)
        s.whole(b'SELECT l.id AS n%s FROM t AS l' % text)
        s.rows(b'SELECT `n%s` FROM t' % text)


def definitions(s, texts):
    for text in texts:
        if text == '😀'.encode():
            continue
        s.do(
            b"CREATE TABLE `n%s` (`c%s` INT, d VARCHAR(9) CHARACTER SET latin1 DEFAULT '%s', e"
            b" VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT '%s', f VARCHAR(9) CHARACTER SET utf8mb4"
            b" DEFAULT (CONCAT('%s', 'x')), g ENUM('%s', 'y') CHARACTER SET latin1)" % ((text,) * 6)
        )
        s.do(b"INSERT INTO `n%s`(`c%s`, g) VALUES (1, '%s')" % (text, text, text))
        s.whole(
            b'SELECT *, HEX(d), HEX(e), HEX(f), HEX(g) FROM `n%s` WHERE `c%s` = 1' % (text, text)
        )
        s.rows(
            "SELECT HEX(TABLE_NAME), TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA ="
            " DATABASE() AND TABLE_NAME <> 't'"
        )
        s.do(b'DROP TABLE IF EXISTS `n%s`' % text)


def results(s):
    """Reads the same rows in every character set of results."""
    s.c.query(
        "SET NAMES utf8mb4; INSERT INTO t VALUES (1, x'E9FF', 'a', 'é€', 'éж', 'éж😀', 'é', '😀')"
    )
    for charset in SETS + ['NULL']:
        s.names('utf8mb4', 'utf8mb4', charset)
        s.place = ('results', charset)
        s.whole(f"SELECT {', '.join(COLUMNS)}, 'é' AS `é`, 'ж' AS ж FROM t")
        s.prepared(f"SELECT {', '.join(COLUMNS)}, 'é' AS `é` FROM t", [])
    s.c.query('DELETE FROM t; SET NAMES utf8mb4')


def said(server):
    s = Session(server)
    s.c.query(
        "SET sql_mode=''; DROP DATABASE IF EXISTS charsets; CREATE DATABASE charsets CHARACTER SET"
        " utf8mb4; USE charsets"
    )
    s.c.query(
        'CREATE TABLE t (id INT, ' + ', '.join(f'{n} {ty}' for n, ty in COLUMNS.items()) + ')'
    )
    for charset in SETS:
        for connection in SETS:
            s.names(charset, connection, charset)
            same = charset == connection
            for part in (literals, parameters, comparisons, texts_around) + (
                (strictly, definitions) if same else ()
            ):
                s.place = (part.__name__, charset, connection)
                part(s, TEXTS if same else FEW)
    results(s)
    s.c.query('DROP DATABASE charsets')
    s.c.close()
    return s.said


# These numbers have one meaning; the number of operands decides which is used.
MIXED = {'error 1267', 'error 1270', 'error 1271'}


def agree(place, sql, ours, theirs):
    if (
        ours == theirs
        or {ours if isinstance(ours, str) else '', theirs if isinstance(theirs, str) else ''}
        <= MIXED
    ):
        return True
    # A word may have any characters here. In MariaDB it may have only letters of the client's
    # character set.
    sql = sql if isinstance(sql, bytes) else b''
    if place[0] == 'texts_around' and b' AS n' in sql and theirs == 'error 1064':
        return True
    # An alias that is not text is refused here. MariaDB keeps the part of it that is text.
    if b" AS 'n" in sql and ours == 'error 1300':
        return True
    # A text that cannot be converted for a comparison is an error in MariaDB, and equal to nothing
    # here.
    return place[0] == 'comparisons' and (theirs == 'error 1300' or theirs in MIXED and ours == [])


def compare(server, other):
    """Asks both servers at the same time. Returns the differences."""
    answers = {}
    threads = [
        threading.Thread(target=lambda s=s: answers.update({s: said(s)})) for s in (server, other)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    pairs = list(zip(answers[server], answers[other], strict=True))
    return len(pairs), [(*a, b[2]) for a, b in pairs if not agree(*a, b[2])]

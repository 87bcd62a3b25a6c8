"""A MySQL client in one file, so that tests see the bytes. It speaks the text and the binary
protocol over one connection, without a pool and without retries.

    c = Connection(socket='/run/x.sock', database='test')
    c.query('SELECT 1')[0].rows            -> [(b'1',)]
    s = c.prepare('SELECT ?'); c.execute(s, [1]).rows

Every value comes back in the form of the text protocol (bytes, None for NULL), also from the binary
protocol, so the same expectation holds for both. Protocol: MySQL manual, "Client/Server Protocol",
4.1 with CLIENT_DEPRECATE_EOF.
"""

import hashlib
import select
import socket as sockets
import struct
from dataclasses import dataclass, field
from decimal import Decimal

LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DB = 1, 2, 4, 8
PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION = 1 << 9, 1 << 13, 1 << 15
MULTI_STATEMENTS, MULTI_RESULTS, PS_MULTI_RESULTS, PLUGIN_AUTH, DEPRECATE_EOF = (
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 24,
)
CAPABILITIES = (
    LONG_PASSWORD
    | LONG_FLAG
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH
    | DEPRECATE_EOF
)
LOCAL_FILES = 1 << 7
UTF8MB4_GENERAL_CI = 45
MORE_RESULTS = 0x0008
MAX_PACKET = 0xFF_FFFF

TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = (
    range(1, 14)
)
INTEGERS = {
    TINY: ('b', 1),
    SHORT: ('h', 2),
    YEAR: ('h', 2),
    LONG: ('i', 4),
    INT24: ('i', 4),
    LONGLONG: ('q', 8),
}
UNSIGNED, ZEROFILL = 32, 64
NEWDECIMAL, BLOB, VAR_STRING = 246, 252, 253
SENT = object()


class MySQLError(Exception):
    """An ERR packet with its number, SQLSTATE and message."""

    def __init__(self, code, sqlstate, message):
        super().__init__(f'{code} ({sqlstate}): {message}')
        self.code, self.sqlstate, self.message = code, sqlstate, message


def outcome(f, *args):
    """The error number with which a call ends, or 0."""
    try:
        f(*args)
        return 0
    except MySQLError as e:
        return e.code


@dataclass
class Column:
    schema: str
    table: str
    org_table: str
    name: str
    org_name: str
    charset: int
    length: int
    type: int
    flags: int
    decimals: int
    raw_name: bytes = b''  # the name in the character set of results


@dataclass
class Result:
    """One result set (columns is not None) or one OK."""

    columns: list | None = None
    rows: list = field(default_factory=list)
    affected: int = 0
    insert_id: int = 0
    status: int = 0
    warnings: int = 0
    info: str = ''


@dataclass
class Packed:
    """A date or time as the binary protocol sends it, without its length."""

    type: int
    body: bytes


@dataclass
class Statement:
    id: int
    params: int
    columns: list


class Connection:
    def __init__(
        self,
        socket=None,
        host='127.0.0.1',
        port=3306,
        user='root',
        password='',
        database=None,
        capabilities=CAPABILITIES,
        timeout=60,
    ):
        self.buffer, self.timeout, self.answers = bytearray(), timeout, 0
        # With LOCAL_FILES among the capabilities: gives the pieces of a file that the server asks
        # for by its name.
        self.file = lambda name: []
        if socket:
            self.io = sockets.socket(sockets.AF_UNIX)
            self.io.settimeout(timeout)
            self.io.connect(socket)
        else:
            self.io = sockets.create_connection((host, port), timeout)
            self.io.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
        try:
            self._handshake(user, password, database, capabilities)
        except BaseException:
            self.io.close()
            raise

    # ---- commands

    def query(self, sql):
        """Runs a text statement, or several separated by semicolons. Returns all results."""
        self.send(sql)
        return self.receive_all()

    def rows(self, sql):
        """Returns the rows of a SELECT."""
        return self.query(sql)[-1].rows

    def value(self, sql):
        """Returns the only value of the only row, as text."""
        v = self.rows(sql)[0][0]
        return None if v is None else v.decode('utf-8', 'replace')

    def send(self, sql):
        """Sends a text statement without waiting for its answer, which receive_all() reads."""
        self.command(0x03, sql if isinstance(sql, bytes) else sql.encode())

    def receive_all(self):
        results = [self.receive()]
        while results[-1].status & MORE_RESULTS:
            results.append(self.receive())
        return results

    def answered(self, seconds):
        """True if an answer has begun to arrive within `seconds`."""
        return bool(self.buffer) or bool(select.select([self.io], [], [], seconds)[0])

    def command(self, code, payload=b''):
        """Sends a command packet. The caller reads the answer."""
        self.seq = 0
        self._write(bytes([code]) + payload)

    def ping(self):
        self.command(0x0E)
        return self.receive()

    def init_db(self, name):
        self.command(0x02, name.encode())
        return self.receive()

    def reset(self):
        self.command(0x1F)
        return self.receive()

    def change_user(self, user, password='', database=''):
        self.command(
            0x11,
            user.encode()
            + b'\0'
            + bytes([20 if password else 0])
            + native_password(password, self.scramble)
            + database.encode()
            + b'\0'
            + struct.pack('<H', UTF8MB4_GENERAL_CI)
            + b'mysql_native_password\0',
        )
        return self._authenticated(password)

    def statistics(self):
        self.command(0x09)
        return self._read().decode()

    def prepare(self, sql):
        self.command(0x16, sql if isinstance(sql, bytes) else sql.encode())
        p = self._checked()
        _, id, columns, params = struct.unpack_from('<BIHH', p)
        for _ in range(params):
            self._read()
        if params and not self.deprecate_eof:
            self._read()
        cols = [column(self._read()) for _ in range(columns)]
        if columns and not self.deprecate_eof:
            self._read()
        return Statement(id, params, cols)

    def execute(self, statement, params=()):
        """Runs a prepared statement. Parameters are int, float, Decimal, str, bytes, None,
        Packed for dates and times, or SENT for a parameter that long_data has sent.
        """
        types, values, nulls = b'', b'', bytearray((len(params) + 7) // 8)
        for i, v in enumerate(params):
            if v is None:
                nulls[i // 8] |= 1 << i % 8
                types += bytes([NULL, 0])
            elif v is SENT:
                types += bytes([BLOB, 0])
            elif isinstance(v, int):
                types += bytes([LONGLONG, 0x80 if v > 0x7FFF_FFFF_FFFF_FFFF else 0])
                values += struct.pack('<q' if v <= 0x7FFF_FFFF_FFFF_FFFF else '<Q', v)
            elif isinstance(v, float):
                types += bytes([DOUBLE, 0])
                values += struct.pack('<d', v)
            elif isinstance(v, Packed):
                types += bytes([v.type, 0])
                values += bytes([len(v.body)]) + v.body
            elif isinstance(v, Decimal):
                types += bytes([NEWDECIMAL, 0])
                values += lenenc_bytes(str(v).encode())
            else:
                types += bytes([VAR_STRING if isinstance(v, str) else BLOB, 0])
                values += lenenc_bytes(v.encode() if isinstance(v, str) else v)
        head = struct.pack('<IBI', statement.id, 0, 1)
        self.command(0x17, head + (bytes(nulls) + b'\x01' + types + values if params else b''))
        return self.receive(binary=True)

    def long_data(self, statement, param, chunk):
        """Sends COM_STMT_SEND_LONG_DATA, which has no answer."""
        self.command(0x18, struct.pack('<IH', statement.id, param) + chunk)

    def close_statement(self, statement):
        self.command(0x19, struct.pack('<I', statement.id))

    def close(self):
        try:
            self.command(0x01)
        except OSError:
            pass
        self.io.close()

    # ---- answers

    def receive(self, binary=False):
        """Reads the next result: OK or rows. An error is raised."""
        p = self._checked()
        if p[0] == 0xFB:
            for piece in self.file(p[1:].decode()):
                self._write(piece)
            self._write(b'')
            return self.receive(binary)
        if p[0] == 0:
            return ok(p)
        count, _ = lenenc(p, 0)
        r = Result(columns=[column(self._read()) for _ in range(count)])
        if not self.deprecate_eof:
            self._read()
        while True:
            p = self._checked()
            if p[0] == 0xFE and len(p) < MAX_PACKET and (self.deprecate_eof or len(p) < 9):
                if self.deprecate_eof:
                    end = ok(p)
                    r.status, r.warnings, r.info = end.status, end.warnings, end.info
                else:
                    r.warnings, r.status = struct.unpack_from('<HH', p, 1)
                return r
            r.rows.append(binary_row(p, r.columns) if binary else text_row(p, count))

    def _checked(self):
        p = self._read()
        if p[0] == 0xFF:
            (code,) = struct.unpack_from('<H', p, 1)
            has_state = p[3:4] == b'#'
            raise MySQLError(
                code,
                p[4:9].decode() if has_state else '',
                p[9 if has_state else 3 :].decode('utf-8', 'replace'),
            )
        return p

    # ---- packets

    def _handshake(self, user, password, database, capabilities):
        p = self._checked()
        end = p.index(b'\0', 1)
        self.protocol, self.version = p[0], p[1:end].decode()
        (self.connection_id,) = struct.unpack_from('<I', p, end + 1)
        low, self.charset, self.status, high = struct.unpack_from('<HBHH', p, end + 14)
        self.server_capabilities = low | high << 16
        self.scramble = p[end + 5 : end + 13] + p[end + 32 : end + 44]
        caps = capabilities & (self.server_capabilities | FOUND_ROWS) | (
            CONNECT_WITH_DB if database else 0
        )
        self.deprecate_eof = bool(caps & DEPRECATE_EOF)
        b = struct.pack('<IIB23x', caps, MAX_PACKET + 1, UTF8MB4_GENERAL_CI) + user.encode() + b'\0'
        b += bytes([20 if password else 0]) + native_password(password, self.scramble)
        b += (database.encode() + b'\0' if database else b'') + b'mysql_native_password\0'
        self._write(b)
        self._authenticated(password)

    def _authenticated(self, password):
        p = self._checked()
        if (
            p[0] == 0xFE
        ):  # the server asks for another plug-in; this client knows only native passwords
            name, _, rest = p[1:].partition(b'\0')
            if name != b'mysql_native_password':
                raise MySQLError(2059, 'HY000', f'server wants {name.decode()}')
            self.scramble = rest[:20]
            self._write(native_password(password, self.scramble))
            p = self._checked()
        return ok(p)

    def _read(self):
        whole = b''
        while True:
            head = self._exactly(4)
            n, self.seq = head[0] | head[1] << 8 | head[2] << 16, (head[3] + 1) % 256
            part = self._exactly(n)
            whole = part if not whole else whole + part
            if n < MAX_PACKET:
                return whole

    def _exactly(self, n):
        while len(self.buffer) < n:
            chunk = self.io.recv(max(65536, n - len(self.buffer)))
            if not chunk:
                raise ConnectionError('the server closed the connection')
            self.buffer += chunk
        out = bytes(self.buffer[:n])
        del self.buffer[:n]
        return out

    def _write(self, payload):
        parts = [payload[i : i + MAX_PACKET] for i in range(0, len(payload), MAX_PACKET)] or [b'']
        if len(parts[-1]) == MAX_PACKET:
            parts.append(b'')
        for part in parts:
            self.io.sendall(struct.pack('<I', len(part) | self._next_seq() << 24) + part)

    def _next_seq(self):
        n, self.seq = self.seq, (self.seq + 1) % 256
        return n

    seq = 0


# ---- pieces of packets


def native_password(password, scramble):
    if not password:
        return b''
    sha = lambda b: hashlib.sha1(b).digest()
    once = sha(password.encode())
    return bytes(a ^ b for a, b in zip(once, sha(scramble + sha(once))))


def lenenc(p, at):
    first = p[at]
    if first < 0xFB:
        return first, at + 1
    if first == 0xFB:
        return None, at + 1
    n = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(p[at + 1 : at + 1 + n], 'little'), at + 1 + n


def lenenc_bytes(b):
    n = len(b)
    head = (
        bytes([n])
        if n < 251
        else b'\xfc' + struct.pack('<H', n)
        if n < 1 << 16
        else b'\xfd' + struct.pack('<I', n)[:3]
        if n < 1 << 24
        else b'\xfe' + struct.pack('<Q', n)
    )
    return head + b


def string(p, at):
    n, at = lenenc(p, at)
    return (None, at) if n is None else (p[at : at + n], at + n)


def ok(p):
    affected, at = lenenc(p, 1)
    insert_id, at = lenenc(p, at)
    status, warnings = struct.unpack_from('<HH', p, at)
    info = p[at + 4 :]
    if (
        info and info[0] < 0xFB and info[0] == len(info) - 1
    ):  # MariaDB sends the text as a length-encoded string, MySQL as the rest of the packet
        info = info[1:]
    return Result(
        affected=affected,
        insert_id=insert_id,
        status=status,
        warnings=warnings,
        info=info.decode('utf-8', 'replace'),
    )


def column(p):
    at, raw = 0, []
    for _ in range(6):
        s, at = string(p, at)
        raw.append(s)
    names = [s.decode('utf-8', 'replace') for s in raw]
    charset, length, type, flags, decimals = struct.unpack_from('<HIBHB', p, at + 1)
    return Column(
        names[1],
        names[2],
        names[3],
        names[4],
        names[5],
        charset,
        length,
        type,
        flags,
        decimals,
        raw[4],
    )


def text_row(p, count):
    at, row = 0, []
    for _ in range(count):
        v, at = string(p, at)
        row.append(v)
    return tuple(row)


def binary_row(p, columns):
    at, row = 1 + (len(columns) + 9) // 8, []
    for i, c in enumerate(columns):
        if p[1 + (i + 2) // 8] >> (i + 2) % 8 & 1:
            row.append(None)
        else:
            v, at = binary_value(p, at, c)
            row.append(v)
    assert at == len(p), f'{len(p) - at} bytes after a binary row'
    return tuple(row)


def binary_value(p, at, c):
    """Reads a value and returns it in the form of the text protocol."""
    if c.type in INTEGERS:
        code, n = INTEGERS[c.type]
        (v,) = struct.unpack_from(
            '<' + (code.upper() if c.flags & UNSIGNED or c.type == YEAR else code), p, at
        )
        text = (
            f'{v:04}'
            if c.type == YEAR
            else str(v).zfill(c.length)
            if c.flags & ZEROFILL
            else str(v)
        )
        return text.encode(), at + n
    if c.type == FLOAT:
        return real_text(struct.unpack_from('<f', p, at)[0], c.decimals, 6).encode(), at + 4
    if c.type == DOUBLE:
        return real_text(struct.unpack_from('<d', p, at)[0], c.decimals, 17).encode(), at + 8
    if c.type in (DATE, DATETIME, TIMESTAMP):
        b, at = string(p, at)
        year, month, day, hour, minute, second, us = struct.unpack(
            '<HBBBBBI', b + bytes(11 - len(b))
        )
        text = f'{year:04}-{month:02}-{day:02}'
        if c.type != DATE:
            text += f' {hour:02}:{minute:02}:{second:02}' + fraction(us, c.decimals)
        return text.encode(), at
    if c.type == TIME:
        b, at = string(p, at)
        negative, days, hour, minute, second, us = struct.unpack('<BIBBBI', b + bytes(12 - len(b)))
        return (
            f'{"-" if negative else ""}{days * 24 + hour:02}:{minute:02}:{second:02}'
            + fraction(us, c.decimals)
        ).encode(), at
    return string(p, at)


def fraction(us, digits):
    return f'.{us:06}'[: digits + 1] if 0 < digits <= 6 else ''


def real_text(v, decimals, digits):
    """MySQL's text of a FLOAT or DOUBLE: the shortest digits, with an exponent only from 1e15 on or
    below 1e-15.
    """
    if decimals < 31:
        return f'{v:.{decimals}f}'
    s = repr(v) if digits == 17 else f'{v:.{digits}g}'
    sign, s = ('-', s[1:]) if s.startswith('-') else ('', s)
    mantissa, _, exponent = s.partition('e')
    whole, _, part = mantissa.partition('.')
    ten = int(exponent or 0) + len(whole)
    d = (whole + part).lstrip('0')
    ten -= len(whole + part) - len(d)
    d = d.rstrip('0')
    if not d:
        return sign + '0'
    if ten > 15 or ten < -14:
        return sign + d[0] + ('.' + d[1:] if d[1:] else '') + f'e{ten - 1}'
    if ten <= 0:
        return sign + '0.' + '0' * -ten + d
    return sign + (d.ljust(ten, '0') if len(d) <= ten else d[:ten] + '.' + d[ten:])

#!/usr/bin/env python3
"""Checks that clients without a login, and clients that break the protocol, cannot harm a server.

  tests/doors.py                  everything, on a server of its own, through loopback only
  tests/doors.py attack           some of it
  tests/doors.py attack --silent 5000 --slow 1000 --junk 1000 --reopen 500 --logins 600

  DOOR-1   logins succeed while thousands of sockets are silent, send a byte a second or send junk;
           their 50th and 99th percentiles with and without the attack are printed
  DOOR-2   meanwhile the server holds no more clients than it has login seats, and little memory
  DOOR-3   if no more files can be opened, the server closes clients that have not logged in; it
           neither spins nor refuses clients forever
  DOOR-4   the server answers an invalid packet with an error or closes the connection, before and
           after login; other clients notice nothing
"""

import argparse
import os
import random
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import client, servers  # noqa: E402
from rig.client import Connection, MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402

MIB = 1 << 20
SEATS = 1024
# A second of the attack has this number of parts, so that the load is even.
TURNS = 100
# The pause between two logins, which spreads the logins over some seconds of the attack.
PAUSE_S = 0.005
ENDED = (ConnectionError, BrokenPipeError, socket.timeout)


class Failed(Exception):
    """A test's claim that does not hold."""


def claim(holds, why):
    if not holds:
        raise Failed(why)


def status(c, name):
    return int(c.rows(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


# ---- DOOR-1, DOOR-2: an attack in a process of its own


class Attack:
    """Keeps `counts` sockets of each kind open. Sockets that the server closes are opened again, at
    most `reopen` per second.
    """

    def __init__(self, port, counts, reopen):
        self.address, self.counts, self.reopen = ('127.0.0.1', port), counts, reopen
        self.epoll, self.open, self.opened = select.epoll(), {}, 0
        self.now = {kind: 0 for kind in counts}

    def connect(self, kind):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(self.address)
        self.epoll.register(
            s, select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if kind == 'junk' else 0)
        )
        self.open[s.fileno()] = (s, kind)
        self.now[kind] += 1
        self.opened += 1

    def close(self, fd):
        s, kind = self.open.pop(fd)
        self.now[kind] -= 1
        self.epoll.unregister(s)
        s.close()

    def event(self, fd, what):
        s, kind = self.open[fd]
        try:
            if what & select.EPOLLOUT:
                # The length is possible for a login, so that the server waits for the rest, or
                # arbitrary.
                head = (
                    struct.pack('<I', random.randrange(1 << 14) | 1 << 24)
                    if random.random() < 0.5
                    else random.randbytes(4)
                )
                s.send(head + random.randbytes(random.randrange(200)))
                self.epoll.modify(s, select.EPOLLIN | select.EPOLLRDHUP)
            elif not s.recv(4096):
                self.close(fd)
        except BlockingIOError:
            pass
        except OSError:
            self.close(fd)

    def trickle(self, part, parts):
        """Sends a byte of an apparent login on each slow socket of one part of the second."""
        for fd, (s, kind) in list(self.open.items()):
            if kind == 'slow' and fd % parts == part:
                try:
                    s.send(b'\x01')
                except BlockingIOError:
                    pass
                except OSError:
                    self.close(fd)

    def run(self):
        for kind, n in self.counts.items():
            for i in range(n):
                self.connect(kind)
                if i % 100 == 0:
                    self.events(0)
        print('up', flush=True)
        counted = time.monotonic()
        turn = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            self.events(max(0, counted + 1 / TURNS - time.monotonic()))
            now = time.monotonic()
            if now < counted + 1 / TURNS:
                continue
            turn, counted = turn + 1, now
            self.trickle(turn % TURNS, TURNS)
            allowed = self.reopen // TURNS
            for kind, n in self.counts.items():
                missing = min(n - self.now[kind], allowed)
                allowed -= missing
                for _ in range(missing):
                    self.connect(kind)
        print(self.opened, flush=True)

    def events(self, timeout):
        for fd, what in self.epoll.poll(timeout):
            if fd in self.open:
                self.event(fd, what)


def logins(server, n, attacked=False):
    """The sorted durations, in milliseconds, of n logins over TCP. Under attack, three logins in
    a hundred may be ended and are repeated: on a busy machine a login may take so long that the
    server may close it (LOGIN-1).
    """
    took, ended = [], 0
    for _ in range(n):
        began = time.monotonic()
        while True:
            try:
                c = Connection(port=server.port)
                break
            except ConnectionError:
                ended += 1
                claim(attacked and ended <= n * 3 // 100, f'{ended} of {n} logins were ended')
        took.append((time.monotonic() - began) * 1000)
        c.close()
        time.sleep(PAUSE_S)
    return sorted(took)


def percentiles(took):
    return (
        f'p50 {took[len(took) // 2]:.1f} ms, p99 {took[len(took) * 99 // 100]:.1f} ms, longest'
        f' {took[-1]:.1f} ms'
    )


def attack(a, report):
    counts = {'silent': a.silent, 'slow': a.slow, 'junk': a.junk}
    with servers.Redolith(servers.scratch('doors'), binary=a.binary) as server:
        logins(server, 50)
        quiet = logins(server, a.logins)
        memory = server.rss_kib()
        inside = server.connect()
        command = [
            sys.executable,
            os.path.abspath(__file__),
            '--attack',
            str(server.port),
            str(a.reopen),
            *(str(n) for n in counts.values()),
        ]
        attacker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=servers.die_with_parent,
        )
        try:
            burst = logins(server, a.logins, attacked=True)
            claim(attacker.stdout.readline() == 'up\n', 'the attacker has ended')
            steady = logins(server, a.logins, attacked=True)
            taken, given_way = (
                status(inside, 'Redolith_login_seats_taken'),
                status(inside, 'Redolith_login_seats_given_way'),
            )
            grown = (server.rss_kib() - memory) // 1024
        finally:
            attacker.stdin.close()
        opened = int(attacker.stdout.readline())
        attacker.wait(60)
        print(
            f'        {", ".join(f"{n} {kind}" for kind, n in counts.items())}; {opened}'
            f' connections made by the attacker; {given_way} seats given way'
        )
        print(
            f'        {a.logins} logins each; quiet: {percentiles(quiet)}\n        while the attack'
            f' begins: {percentiles(burst)}\n        while it lasts: {percentiles(steady)}',
            flush=True,
        )
        report.ok(
            'DOOR-1: logins under attack',
            f'p99 x{steady[len(steady) * 99 // 100] / quiet[len(quiet) * 99 // 100]:.1f}',
        )
        claim(given_way > 0 or sum(counts.values()) < SEATS, 'nobody gave way: this was no attack')
        claim(taken <= SEATS, f'{taken} clients were logging in')
        claim(grown <= 64, f'the server grew by {grown} MiB')
        report.ok('DOOR-2: seats and memory', f'{taken} seats taken, {grown} MiB more memory')


# ---- DOOR-3: no more files


def files(a, report):
    with servers.Redolith(
        servers.scratch('doors'), dict(open_files_limit=256, max_connections=1000), binary=a.binary
    ) as server:
        first = server.connect()
        seats = 256 // 4
        silent = [socket.create_connection(('127.0.0.1', server.port)) for _ in range(2 * seats)]
        wait_for(
            'half of the silent ones have given way',
            lambda: status(first, 'Redolith_login_seats_given_way') == seats,
        )
        inside, stuck = [first], None
        while stuck is None:
            claim(len(inside) < 256, 'there is no limit on files')
            stuck = login_in_background(server, inside)
            claim(not isinstance(inside[-1], OSError), f'a login was ended: {inside[-1]!r}')
        errors = status(first, 'Connection_errors_accept')
        claim(errors > 0, 'accept has not failed, but a login waits')
        claim(
            status(first, 'Redolith_login_seats_taken') == 0,
            'clients that have not logged in still hold files',
        )
        time.sleep(1)
        # Ten attempts per second, and some more in case the machine is slow to read the counter.
        again = status(first, 'Connection_errors_accept') - errors
        claim(
            again <= 50, f'{again} attempts to accept a connection within about a second: it spins'
        )
        for c in inside[1:20]:
            c.close()
        stuck.join(60)
        claim(
            not stuck.is_alive() and inside[-1].value('SELECT 7') == '7',
            'a login waits though there is room again',
        )
        report.ok(
            'DOOR-3: no more files',
            f'{len(inside)} were logged in; {errors} failures of accept, {again} while nothing'
            ' changed',
        )
        for s in silent:
            s.close()


def login_in_background(server, inside):
    """Logs in within a thread. Returns None if the connection is in the list, or the thread if the
    login does not end: accept fails, and nobody holds a file any more who has not logged in. A
    login that is only slow holds one.
    """
    count = lambda name: status(inside[0], name)
    before = count('Connection_errors_accept')
    is_shut_out = lambda: (
        count('Connection_errors_accept') > before and not count('Redolith_login_seats_taken')
    )

    def login():
        try:
            inside.append(Connection(port=server.port))
        except OSError as e:
            inside.append(e)

    t = threading.Thread(target=login, daemon=True)
    t.start()
    wait_for('a login ends or is shut out', lambda: not t.is_alive() or is_shut_out())
    t.join(1)
    return t if t.is_alive() else None


def wait_for(what, call):
    deadline = time.monotonic() + 60
    while not call():
        claim(time.monotonic() < deadline, f'not within 60 s: {what}')
        time.sleep(0.01)


# ---- DOOR-4: invalid packets


def packet(number, body, length=None):
    return struct.pack('<I', (len(body) if length is None else length) | number << 24) + body


def raw(server):
    """A socket that has received the server's greeting."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(server.socket)
    greeting = s.recv(4096)
    claim(greeting[4] == 10, f'greeted with {greeting!r}')
    return s


def answer(s, bytes):
    """Sends `bytes` and ends the sending side. Returns all bytes until the server closes."""
    got = b''
    try:
        s.sendall(bytes)
        s.shutdown(socket.SHUT_WR)
        while chunk := s.recv(65536):
            got += chunk
    except ConnectionError:
        pass
    finally:
        s.close()
    return got


CAPS = client.CAPABILITIES
ATTRIBUTES, LENENC_AUTH, PLUGIN, SSL, PROTOCOL_41 = 1 << 20, 1 << 21, 1 << 19, 1 << 11, 1 << 9


def login_body(caps=CAPS, user=b'root\0', auth=b'\0', rest=b'mysql_native_password\0', charset=45):
    return struct.pack('<IIB23x', caps & 0xFFFFFFFF, 1 << 24, charset) + user + auth + rest


def lying_logins():
    """Login packets with wrong lengths, flags or numbers. The second value says whether the server
    may accept the login all the same.
    """
    yield 'nothing', b'', False
    yield 'the largest length there is', packet(1, b'x' * 100, 0xFFFFFF), False
    yield 'above what a login may have', packet(1, b'x' * 100, 20000), False
    yield 'an empty packet', packet(1, b''), False
    for number in (0, 2, 77, 255):
        yield f'number {number}', packet(number, login_body()), False
    body = login_body()
    for cut in range(len(body)):
        yield f'a body cut at {cut}', packet(1, body[:cut]), True
    for cut in range(4 + len(body)):
        yield f'ends at byte {cut}', packet(1, body)[:cut], False
    for bit in range(32):
        yield f'without or with flag {bit}', packet(1, login_body(CAPS ^ 1 << bit)), True
    yield 'no flags at all', packet(1, login_body(0)), False
    yield 'all flags', packet(1, login_body(0xFFFFFFFF)), False
    yield 'protocol 9', packet(1, b'\x85\x24\0\0\0root\0'), True
    yield (
        'TLS, which is not there',
        packet(1, struct.pack('<IIB23x', CAPS | SSL, 1 << 24, 45)),
        False,
    )
    yield 'TLS hello', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(500), False
    for n in (1, 19, 20, 21, 250, 251, 252, 253, 254, 255):
        yield (
            f'a password of {n} bytes, of which there are 3',
            packet(1, login_body(auth=bytes([n]) + b'abc')),
            False,
        )
    for head in (b'\xfb', b'\xfc\xff\xff', b'\xfd\xff\xff\xff', b'\xfe' + b'\xff' * 8, b'\xff'):
        yield (
            f'a password of length {head!r}',
            packet(1, login_body(CAPS | LENENC_AUTH, auth=head + b'abc')),
            False,
        )
        attributes = b'mysql_native_password\0' + head + b'\1a\1b'
        yield (
            f'attributes of length {head!r}',
            packet(1, login_body(CAPS | ATTRIBUTES, rest=attributes)),
            True,
        )
        attributes = b'mysql_native_password\0\x0a\1a' + head + b'b'
        yield (
            f'an attribute of length {head!r}',
            packet(1, login_body(CAPS | ATTRIBUTES, rest=attributes)),
            True,
        )
    yield 'a user of 10,000 bytes', packet(1, login_body(user=b'u' * 10000 + b'\0')), False
    yield 'a user that is no UTF-8', packet(1, login_body(user=b'\xff\xfe\0')), False
    yield 'a user without an end', packet(1, login_body()[:32] + b'r' * 50), False
    yield 'a character set that is not there', packet(1, login_body(charset=0)), True
    yield (
        'another plug-in',
        packet(1, login_body(rest=b'caching_sha2_password\0')) + packet(3, b'x' * 40),
        False,
    )
    yield 'two logins at once', packet(1, login_body()) * 2, True
    yield 'a command instead', packet(0, b'\x03SELECT 1'), False


def lies_before_login(server, report):
    tried = 0
    for what, bytes, may_come_in in lying_logins():
        got = answer(raw(server), bytes)
        # An OK begins with 0, an error with 0xff, a request for another plug-in with 0xfe.
        claim(
            not got or got[4] in (0xFF, 0xFE) or (may_come_in and got[4] == 0), f'{what}: {got!r}'
        )
        tried += 1
    # A login may arrive byte by byte.
    s = raw(server)
    for b in packet(1, login_body()):
        s.sendall(bytes_of(b))
    claim(s.recv(4096)[4] == 0, 'a login, byte by byte')
    s.close()
    report.ok('DOOR-4: lies before login', f'{tried} packets')


def bytes_of(b):
    return bytes([b])


def answers(c):
    """The first byte of the next packet, or None at the end of the connection."""
    try:
        return c._read()[:1]
    except ENDED:
        return None


def lying_executes(c):
    """Bodies of COM_STMT_EXECUTE after the statement's number, for parameters INT and VARCHAR."""
    head = struct.pack('<BI', 0, 1)
    good = head + b'\0\1' + bytes([3, 0, 253, 0]) + struct.pack('<i', 7) + b'\3abc'
    for cut in range(len(good)):
        yield good[:cut]
    for kind in range(256):
        for sign in (0, 0x80, 0xFF):
            yield head + b'\0\1' + bytes([kind, sign, 253, 0]) + b'\xff' * 12
    for nulls in range(256):
        yield head + bytes([nulls, 1, 3, 0, 253, 0]) + struct.pack('<i', 7) + b'\3abc'
    for length in (
        b'\xfb',
        b'\xfc\xff\xff',
        b'\xfd\xff\xff\xff',
        b'\xfe' + b'\xff' * 8,
        b'\xfe' + b'\0' * 8,
        b'\xff',
        b'\xfa',
    ):
        yield head + b'\0\1' + bytes([3, 0, 253, 0]) + struct.pack('<i', 7) + length + b'abc'
    for kind, sizes in ((7, range(14)), (10, range(14)), (11, range(15)), (12, range(14))):
        for size in (*sizes, 255):
            for fill in (b'\0', b'\x7f', b'\xff'):
                yield (
                    head + b'\0\1' + bytes([kind, 0, 253, 0]) + bytes([size]) + fill * 12 + b'\3abc'
                )
    for flags in range(256):
        yield struct.pack('<BI', flags, 1) + good[5:]
    for count in (0, 2, 0xFFFFFFFF):
        yield struct.pack('<BI', 0, count) + good[5:]
    yield head + b'\0\2' + good[7:]
    yield good + b'junk'
    yield head + b'\0' + b'\0'


def lies_after_login(server, report):
    c, tried = server.connect(), 0
    c.query(
        'CREATE DATABASE doors; USE doors; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100));'
        ' INSERT INTO t VALUES (7, "abc")'
    )

    def ask(command, payload):
        nonlocal c, tried
        tried += 1
        if c is None:
            c = server.connect(database='doors')
        c.command(command, payload)
        first = answers(c)
        if first is None:
            c = None
        return first

    def settle():
        """Makes a new connection, because the rest of an answer does not matter."""
        nonlocal c
        if c is not None:
            c.io.close()
            c = None

    for command in range(256):
        if command in (0x01, 0x12, 0x18, 0x19):
            continue  # QUIT, and commands without an answer
        for payload in (b'', b'\xff', b'\xff' * 50):
            ask(command, payload)
            settle()
    claim(ask(0x7F, b'') == b'\xff' and ask(0x40, b'x') == b'\xff', 'an unknown command')
    for payload in (
        b'',
        b'root',
        b'root\0',
        b'root\0\xff',
        b'root\0\x14abc',
        b'root\0\0\0',
        b'root\0\0doors\0\xff',
        b'root\0\0doors\0\x2d\0mysql_native_password',
        b'root\0\0doors\0\x2d\0mysql_native_password\0\xfe' + b'\xff' * 8,
        b'nobody\0\0\0',
        b'root\0\x03abc',
        b'\0\0\0',
        b'\xff' * 300,
    ):
        ask(0x11, payload)
        settle()
    c = server.connect(database='doors')
    s = c.prepare('SELECT * FROM t WHERE id = ? AND v = ?')
    for body in lying_executes(c):
        if c is None or c.io.fileno() < 0:
            c = server.connect(database='doors')
            s = c.prepare('SELECT * FROM t WHERE id = ? AND v = ?')
        c.command(0x17, struct.pack('<I', s.id) + body)
        try:
            c.receive(binary=True)
        except MySQLError:
            pass
        except ENDED:
            settle()
        tried += 1
    c = server.connect(database='doors')
    for wrong in (0, 99, 0xFFFFFFFF):
        claim(ask(0x17, struct.pack('<IBI', wrong, 0, 1)) == b'\xff', 'execute of nothing')
        c.command(0x18, struct.pack('<IH', wrong, 0) + b'data')
        c.command(0x18, b'\1')
        c.command(0x19, struct.pack('<I', wrong))
        c.command(0x19, b'\1')
        claim(c.value('SELECT 1') == '1', 'after commands without an answer that name nothing')
    s = c.prepare('SELECT ?')
    for parameter in (0, 1, 7, 0xFFFF):
        c.command(0x18, struct.pack('<IH', s.id, parameter) + b'long')
    ask(0x17, struct.pack('<IBI', s.id, 0, 1) + b'\0\1\xfc\0')
    settle()
    report.ok('DOOR-4: lies after login', f'{tried} packets')


def lying_headers(server, report):
    """Sends command packets with wrong numbers and lengths, and a statement cut at every byte."""
    tried = 0
    whole = packet(0, b'\x03SELECT 41 + 1')
    for number in (1, 2, 128, 255):
        c = server.connect()
        c.io.sendall(packet(number, b'\x03SELECT 1'))
        claim(answers(c) in (b'\xff', None), f'a command numbered {number}')
        tried += 1
    for cut in range(1, len(whole)):
        c = server.connect()
        c.io.sendall(whole[:cut])
        time.sleep(0.001)
        c.io.sendall(whole[cut:])
        c.seq = 1
        claim(c.receive().rows == [(b'42',)], f'a statement in two parts, cut at {cut}')
        c.io.sendall(whole[:cut])
        c.io.close()
        tried += 2
    c = server.connect()
    c.io.sendall(packet(0, b'', 0xFFFFFF))
    c.io.close()
    c = server.connect()
    c.io.sendall(packet(0, b''))
    claim(answers(c) in (b'\xff', None), 'a command of no bytes')
    c = server.connect()
    c.io.sendall(whole * 200)
    for _ in range(200):
        c.seq = 1
        claim(c.receive().rows == [(b'42',)], 'statements sent at once')
    c.query('SET GLOBAL max_allowed_packet = 65536')
    c = server.connect()
    c.io.sendall(packet(0, b'\x03' + b'x' * 100_000))
    claim(answers(c) == b'\xff', 'a packet above max_allowed_packet')
    report.ok('DOOR-4: lying headers', f'{tried + 203} packets')


def hostile(a, report):
    with servers.Redolith(servers.scratch('doors'), binary=a.binary) as server:
        witness = server.connect()
        memory = server.rss_kib()
        for test in (lies_before_login, lies_after_login, lying_headers):
            test(server, report)
            claim(witness.value('SELECT 6 * 7') == '42', 'another connection')
        wait_for('all others are gone', lambda: status(witness, 'Threads_connected') == 1)
        grown = (server.rss_kib() - memory) // 1024
        claim(grown <= 64, f'the server grew by {grown} MiB')
        witness.close()
        claim(server.stop() == 0, 'the shutdown failed')


TESTS = {'attack': attack, 'files': files, 'hostile': hostile}


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('tests', nargs='*', metavar='|'.join(TESTS), help='all of them if none is named')
    p.add_argument('--binary', help='the redolith to test (default: the release build)')
    p.add_argument('--silent', type=int, default=5000)
    p.add_argument('--slow', type=int, default=1000)
    p.add_argument('--junk', type=int, default=1000)
    p.add_argument(
        '--reopen', type=int, default=500, help='connections a second that the attacker makes anew'
    )
    p.add_argument('--logins', type=int, default=600)
    p.add_argument('--attack', nargs=5, type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if unknown := set(a.tests) - set(TESTS):
        p.error(f'no test {", ".join(sorted(unknown))}; there is: {", ".join(TESTS)}')
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if a.attack:
        port, reopen, *counts = a.attack
        Attack(port, dict(zip(('silent', 'slow', 'junk'), counts)), reopen).run()
        return 0
    report = Report()
    for name in a.tests or TESTS:
        try:
            TESTS[name](a, report)
        except (Failed, MySQLError, OSError, servers.NotUp):
            report.fail(name, traceback.format_exc())
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

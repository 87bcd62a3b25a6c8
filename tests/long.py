#!/usr/bin/env python3
"""Runs endless statements, four of each kind at a time. Other sessions must be served, KILL and
max_execution_time must end the statements, and SIGTERM must end the server.

  tests/long.py                          every kind
  tests/long.py --measure [--time 5]     the 99th percentile of point selects alone, and beside four
                                         statements of each kind

The server has one worker thread per CPU, but two at most. No time is checked: a session that is not
served hangs, and the client's time-out of a minute ends the test.
"""

import argparse
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers, sysbench  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402

FOUR = 4
# The servers that share the kinds when SIGTERM comes.
PARTS = 4
LONG = 'BENCHMARK(100000000000, 1+1)'
BIG = "REPEAT('a', 16000000)"
WHO = 'SELECT CONNECTION_ID()'
# Each statement takes minutes at least and returns no rows meanwhile.
KINDS = {
    'DO BENCHMARK': f'DO {LONG}',
    'SELECT BENCHMARK': f'SELECT {LONG}',
    'nested BENCHMARK': 'SELECT BENCHMARK(1000000000, (SELECT BENCHMARK(1000, 1)))',
    'BENCHMARK in WHERE': f'SELECT id FROM few WHERE {LONG}',
    'BENCHMARK in ORDER BY': f'SELECT id FROM few ORDER BY {LONG}',
    'BENCHMARK in VALUES': f'INSERT INTO other VALUES (CONNECTION_ID(), {LONG})',
    'BENCHMARK in SET': f'UPDATE other SET v = {LONG}',
    'BENCHMARK in @a': f'SET @a = {LONG}',
    'MD5 of long strings': f'DO BENCHMARK(100000, MD5({BIG}))',
    'LIKE over long strings': f"DO BENCHMARK(100000, {BIG} LIKE '%ab_c%')",
    'REGEXP over long strings': f"DO BENCHMARK(100000, {BIG} REGEXP 'a*b|c+d')",
    'one REGEXP': (
        f"SELECT REPEAT(CONCAT({', '.join(['HEX(RANDOM_BYTES(1024))'] * 8)}), 1000) REGEXP"
        " '([0-7][0-9a-f]{4000}|[8-f][0-9a-f]{3000})[g-z]'"
    ),
    'LOCATE and REPLACE': f"DO BENCHMARK(100000, LOCATE('b', REPLACE({BIG}, 'aa', 'a')))",
    'JSON_ARRAY_INSERT of many': (
        "DO BENCHMARK(100000, JSON_ARRAY_INSERT('[]'" + ", '$[0]', 1" * 20_000 + '))'
    ),
    'CONVERT': f'DO BENCHMARK(100000, CONVERT({BIG} USING latin1))',
    'join without matches': (
        'SELECT COUNT(*) FROM many a, many b, many c WHERE a.k + b.k + c.k = -1'
    ),
    'join of derived tables': (
        'SELECT COUNT(*) FROM (SELECT k FROM many) a, (SELECT k FROM many) b, (SELECT k FROM'
        ' many) c'
    ),
    'GROUP BY': 'SELECT COUNT(*) FROM many a, many b, many c GROUP BY a.k % 10',
    'INFORMATION_SCHEMA': (
        'SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b,'
        ' information_schema.columns c, information_schema.columns d'
    ),
    'UPDATE of a scan': (
        'UPDATE few SET id = id WHERE id IN (SELECT a.id FROM many a, many b, many c WHERE a.k +'
        ' b.k + c.k = -1)'
    ),
    'correlated EXISTS': (
        'SELECT COUNT(*) FROM many a, many b WHERE EXISTS (SELECT 1 FROM many c WHERE c.id = a.id +'
        ' b.id AND c.k = -1)'
    ),
    'correlated EXISTS of a scan': (
        'SELECT COUNT(*) FROM many a, many b WHERE EXISTS (SELECT 1 FROM many c WHERE c.k > a.k +'
        ' b.k + 2000000)'
    ),
    'correlated value': (
        'SELECT SUM((SELECT COUNT(*) FROM many c WHERE c.id < a.id + b.id)) FROM many a, many b'
    ),
    'hash of IN': (
        'SELECT COUNT(*) FROM many a, many b WHERE a.k + b.k IN (SELECT c.k + 1000000 FROM many c'
        ' WHERE c.k = b.k)'
    ),
    'correlated UPDATE': (
        'UPDATE few SET id = id WHERE id = (SELECT COUNT(*) FROM many a, many b WHERE a.k + b.k <'
        ' few.id - 100)'
    ),
    'SLEEP in WHERE': 'SELECT COUNT(*) FROM few WHERE SLEEP(3600)',
    'SLEEP': 'SELECT SLEEP(3600)',
    'SLEEP in VALUES': 'INSERT INTO other VALUES (CONNECTION_ID(), SLEEP(3600))',
}
# Statements that are long because the table is. They end by themselves, so they run again and
# again.
AGAIN = {
    'CHECK TABLE': 'CHECK TABLE many',
    'sort': (
        'SELECT COUNT(*) FROM (SELECT a.k FROM many a, few b, few c ORDER BY a.k + b.id DESC, c.id'
        ' LIMIT 1000000) d'
    ),
    'CREATE INDEX': None,
    'SHOW': "SHOW VARIABLES WHERE Variable_name LIKE '%a%' AND Value <> ''",
}


def tables(server):
    c = server.connect()
    c.query(
        'CREATE DATABASE long_test; USE long_test; CREATE TABLE few (id INT PRIMARY KEY); CREATE'
        ' TABLE other (id BIGINT PRIMARY KEY, v BIGINT)'
    )
    c.query('CREATE TABLE many (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, c VARCHAR(60))')
    c.query('INSERT INTO other VALUES (-1, 0), (-2, 0)')
    c.query('INSERT INTO few VALUES ' + ', '.join(f'({n})' for n in range(30)))
    for part in range(20):
        c.query(
            'INSERT INTO many (k, c) VALUES '
            + ', '.join(f"({n}, 'row {n} of many')" for n in range(part * 1000, part * 1000 + 1000))
        )
    c.close()


class Four:
    """Four connections, each with a statement that runs until it is ended."""

    def __init__(self, server, sql, again=False):
        self.server, self.errors = server, []
        self.connections = [server.connect(database='long_test', timeout=3600) for _ in range(FOUR)]
        self.ids = [int(c.value(WHO)) for c in self.connections]
        self.ended = False
        self.threads = [
            threading.Thread(target=self.run, args=(c, n, sql, again), daemon=True)
            for n, c in enumerate(self.connections)
        ]
        for t in self.threads:
            t.start()

    def run(self, c, n, sql, again):
        try:
            while True:
                if sql is None:
                    c.query(f'CREATE INDEX i{n} ON many (c, k); DROP INDEX i{n} ON many')
                else:
                    c.query(sql)
                if not again or self.ended:
                    self.errors.append(None)
                    return
        except MySQLError as e:
            self.errors.append(e.code)
        except OSError:
            self.errors.append('closed')

    def wait(self):
        for t in self.threads:
            t.join(60)
        return not any(t.is_alive() for t in self.threads)

    def end(self, c, how='KILL QUERY'):
        self.ended = True
        for id in self.ids:
            try:
                c.query(f'{how} {id}')
            except MySQLError as e:
                if e.code != 1094:
                    raise
        while not self.wait():
            raise AssertionError('statements that were killed go on')
        for connection in self.connections:
            connection.io.close()


class Loops:
    """Four clients that run a short statement again and again, to measure others meanwhile. They
    are C programs and give way to others (nice), so that what others feel is the server's work.
    """

    def __init__(self, server, sql):
        self.processes = []
        for n in range(FOUR):
            text = sql or f'CREATE INDEX i{n} ON many (c, k); DROP INDEX i{n} ON many'
            statements = subprocess.Popen(['yes', text + ';'], stdout=subprocess.PIPE)
            client = ['nice', '-n', '19', 'mariadb', '--no-defaults', '-uroot', '-S', server.socket]
            self.processes += [
                statements,
                subprocess.Popen(
                    [*client, '--force', 'long_test'],
                    stdin=statements.stdout,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                ),
            ]
            statements.stdout.close()

    def end(self, _):
        assert all(p.poll() is None for p in self.processes), 'a client has ended by itself'
        for p in self.processes:
            p.kill()
            p.wait()


def running(c, four):
    """Waits until all four statements run. The previous statements may still be in the list, and a
    KILL of these would end nothing.
    """
    while not four.errors:
        rows = c.rows('SHOW PROCESSLIST')
        if (
            sum(int(r[0]) in four.ids and r[4] == b'Query' and r[7] != WHO.encode() for r in rows)
            == FOUR
        ):
            return
    raise AssertionError(f'one has ended by itself: {four.errors}')


def one_kind(server, name, sql, again):
    four = Four(server, sql, again)
    c = server.connect(database='long_test', timeout=60)
    if not again:
        running(c, four)
    for n in range(20):
        assert c.value(f'SELECT id FROM few WHERE id = {n}') == str(n)
    new = server.connect(database='long_test', timeout=60)
    assert new.value('SELECT 1') == '1'
    new.close()
    answers = 'SLEEP' == name
    four.end(c, 'KILL' if name == 'DO BENCHMARK' else 'KILL QUERY')
    expected = (
        {'closed', 1317}
        if name == 'DO BENCHMARK'
        else {None} if answers else {1317, None} if again else {1317}
    )
    assert set(four.errors) <= expected, f'they ended with {four.errors}'
    if not again and sql.startswith('SELECT') and not answers:
        c.query('SET max_execution_time = 100')
        try:
            c.query(sql)
            raise AssertionError('it has ended in time')
        except MySQLError as e:
            assert e.code == 3024, e
    c.close()


def test(report):
    with servers.Redolith(servers.scratch('long')) as server:
        tables(server)
        for name, sql, again in [(n, s, False) for n, s in KINDS.items()] + [
            (n, s, True) for n, s in AGAIN.items()
        ]:
            try:
                one_kind(server, name, sql, again)
                report.ok(name)
            except (AssertionError, OSError, MySQLError) as e:
                report.fail(name, f'{type(e).__name__}: {e}')
                server.kill()
                server.start()
    # SIGTERM comes while four statements of each kind run at once. All kinds on one server would be
    # more than a hundred statements, and the server gives them ten seconds to end: too few on a
    # busy machine, where each one that looks at its end needs a CPU for a moment.
    for part in range(PARTS):
        with servers.Redolith(servers.scratch('long')) as server:
            tables(server)
            kinds = list(KINDS)[part::PARTS]
            fours = [Four(server, KINDS[name]) for name in kinds]
            c = server.connect(timeout=60)
            assert c.value('SELECT 1') == '1'
            status = server.stop(wait_s=30)
            if status == 0:
                report.ok('SIGTERM', ', '.join(kinds))
            else:
                report.fail('SIGTERM', f'{kinds}: exit status {status}\n{server.last_words()}')
            del fours


def p99(server, threads, time_s):
    out = sysbench.run(
        server,
        'oltp_point_select',
        'run',
        threads=threads,
        time=time_s,
        tables=1,
        table_size=10000,
        percentile=99,
    )
    return sysbench.number(r'99th percentile:\s+([\d.]+)', out), sysbench.tps(out)


def measure(time_s, threads, only):
    with servers.Redolith(servers.scratch('long')) as server:
        tables(server)
        c = server.connect()
        c.query(f'CREATE DATABASE {sysbench.SCHEMA}')
        sysbench.run(server, 'oltp_point_select', 'prepare', tables=1, table_size=10000)
        for n in threads:
            print(f'\n{n} connections, oltp_point_select: 99th percentile in ms, transactions/s')
            alone, rate = p99(server, n, time_s)
            print(f'{"alone":28} {alone:8.2f} {rate:9.0f}', flush=True)
            for name, sql, again in [
                (k, s, False) for k, s in KINDS.items() if not k.startswith('SLEEP')
            ] + [(k, s, True) for k, s in AGAIN.items()]:
                if only and not any(text in name for text in only):
                    continue
                four = Loops(server, sql) if again else Four(server, sql)
                beside, rate = p99(server, n, time_s)
                four.end(c)
                print(
                    f'{name:28} {beside:8.2f} {rate:9.0f}  x {beside / max(alone, 0.01):.1f}',
                    flush=True,
                )


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--measure', action='store_true')
    p.add_argument('--time', type=int, default=5, help='seconds for each figure')
    p.add_argument('--only', nargs='*', help='kinds whose names have one of these texts')
    p.add_argument('--threads', type=int, nargs='*', default=[1, 8])
    a = p.parse_args()
    if a.measure:
        return measure(a.time, a.threads, a.only)
    report = Report()
    test(report)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""Runs an unchanged mysqlslap (Debian: mariadb-slap): the study's command with its columns and key
at several numbers of connections, and each other kind of load of mysqlslap.

  tests/slap.py                          small numbers of rows and queries, as CI runs it
  tests/slap.py --rows 2000 --only study-150 --only study-600     the study's own numbers

Each run must end with status 0, write nothing to standard error, and leave nothing behind. At the
end the server must stop cleanly.
"""

import argparse
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import check, servers  # noqa: E402
from rig.report import Report  # noqa: E402

AUTO = ['--auto-generate-sql']
STUDY = [*AUTO, '--auto-generate-sql-guid-primary', '--number-int-cols=20', '--number-char-cols=20']
CREATE = (
    "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20)); INSERT INTO a (v) VALUES"
    " ('x'), ('y')"
)
QUERY = (
    "SELECT * FROM a WHERE id = 1; UPDATE a SET v = 'z' WHERE id = 2; INSERT INTO a (v) VALUES"
    " ('n'); DELETE FROM a WHERE v = 'n' LIMIT 1"
)


def study(connections, rows, *more, load='mixed', engine='innodb'):
    return [
        *STUDY,
        f'--engine={engine}',
        f'--concurrency={connections}',
        f'--auto-generate-sql-write-number={rows}',
        f'--auto-generate-sql-execute-number={rows}',
        f'--auto-generate-sql-load-type={load}',
        *more,
    ]


def runs(rows, dir):
    """The names and arguments of all runs."""
    files = {name: os.path.join(dir, f'{name}.sql') for name in ('create', 'query')}
    for name, text in (('create', CREATE), ('query', QUERY)):
        with open(files[name], 'w') as f:
            f.write(text)
    yield from ((f'study-{n}', study(n, rows)) for n in (1, 150, 600, 1000))
    yield from (
        (f'load-{load}', study(20, rows, load=load))
        for load in ('mixed', 'write', 'key', 'read', 'update')
    )
    yield from (
        (f'engine-{e}', study(10, rows, engine=e))
        for e in (
            'myisam',
            'memory',
            'aria',
            'archive',
            'csv',
            'blackhole',
            'rocksdb',
            'no_such_engine',
            'innodb,myisam',
        )
    )
    yield 'secondary-indexes', study(10, rows, '--auto-generate-sql-secondary-indexes=3')
    yield 'commit', study(10, rows, '--commit=5')
    yield 'detach', study(10, rows, '--detach=7')
    yield 'iterations', study(10, rows, '--iterations=3')
    yield (
        'number-of-queries',
        [*STUDY, '--engine=innodb', '--concurrency=10', '--number-of-queries=300'],
    )
    yield (
        'concurrencies',
        [*STUDY, '--engine=innodb', '--concurrency=1,10,40', '--number-of-queries=80'],
    )
    for load in ('mixed', 'key', 'update'):
        yield (
            f'auto-increment-{load}',
            [
                *AUTO,
                '--auto-generate-sql-add-autoincrement',
                '--concurrency=10',
                f'--auto-generate-sql-execute-number={rows}',
                f'--auto-generate-sql-load-type={load}',
                '--auto-generate-sql-unique-query-number=30',
                '--auto-generate-sql-unique-write-number=30',
            ],
        )
    yield 'plain', [*AUTO, '--concurrency=10', '--iterations=2']
    yield (
        'files',
        [
            f'--create={files["create"]}',
            f'--query={files["query"]}',
            '--delimiter=;',
            '--concurrency=20',
            '--iterations=2',
            '--number-of-queries=400',
        ],
    )
    yield (
        'pre-and-post',
        [
            '--create=CREATE TABLE b (i INT)',
            '--query=INSERT INTO b VALUES (1)',
            '--concurrency=5',
            '--iterations=3',
            '--pre-query=SELECT 1',
            '--post-query=SELECT COUNT(*) FROM b',
            '--init-command=SET autocommit = 1',
            '--csv',
        ],
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        '--rows',
        type=int,
        default=10,
        help='rows that each connection finds, and queries that it runs',
    )
    parser.add_argument('--only', action='append', help='the name of a run')
    servers.add_arguments(parser)
    a = parser.parse_args()
    servers.need('mariadb-slap')
    report, dir = Report(), servers.scratch('slap')
    with servers.make(a, dir, innodb_buffer_pool_size='256M') as server:
        c = server.connect()
        where = [
            '--no-defaults',
            '--skip-ssl',
            '--user=root',
            f'--socket={server.socket}',
            '--create-schema=slap_test',
        ]
        for name, arguments in runs(a.rows, dir):
            if a.only and name not in a.only:
                continue
            # The study does this before each run.
            most = max(
                int(n)
                for n in re.search(r'--concurrency=([\d,]+)', ' '.join(arguments))[1].split(',')
            )
            end = (
                time.monotonic() + 120
            )  # connections of the previous run: the server notices a closed socket later
            while (
                int(c.rows("SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1]) > 1
                and time.monotonic() < end
            ):
                time.sleep(0.02)
            c.query(f'SET GLOBAL max_connections = {most + 1}')
            p = subprocess.run(
                ['mariadb-slap', *where, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=3600,
            )
            left = c.rows("SHOW DATABASES LIKE 'slap_test'")
            if p.returncode or p.stderr or left:
                said = re.sub(r"'\w{40,}'", "'..'", p.stderr)
                leftover = ' slap_test is still there' if left else ''
                last_words = '' if server.alive() else server.last_words()
                report.fail(
                    name, f'status {p.returncode}: {said[:1500]}{leftover}\n{last_words}'
                )
                if not server.alive():
                    return report.end()
                c.query('DROP DATABASE IF EXISTS slap_test')
            else:
                seconds = re.search(
                    r'Average number of seconds to run all queries: ([\d.]+)', p.stdout
                )
                report.ok(name, f'{float(seconds[1]):8.2f} s' if seconds else '')
        report.outcome('clean shutdown', check.clean_shutdown(server))
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

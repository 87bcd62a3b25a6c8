#!/usr/bin/env python3
"""Runs sysbench end to end: every oltp script, with prepared and text statements, and CHECK TABLE
of every table after each script.

  tests/sysbench.py                      every script for 60 s in both modes, then the study's
                                         commands
  tests/sysbench.py --time 3 --study small   what CI runs
  tests/sysbench.py --study full --only study   250 tables x 25,000 rows, 128 connections, 3,000,000
                                                transactions or 360 s

Every script but three keeps the number of rows; this is checked, too. At the end the server is shut
down, started again, and checked again.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import check, servers, sysbench  # noqa: E402
from rig.report import Report  # noqa: E402

STUDY = {
    'small': dict(tables=25, table_size=500, threads=128, events=20000, time=20),
    'full': dict(tables=250, table_size=25000, threads=128, events=3000000, time=360),
}


def script(server, report, name, mode, a):
    """Runs prepare, run, check and cleanup of a script."""
    title = f'{name} --db-ps-mode={mode}'
    tables = 1 if name in sysbench.ONE_TABLE else a.tables
    shape = dict(tables=tables, table_size=a.table_size)
    if name == 'bulk_insert':
        shape = {}
    try:
        with_rows = server.connect()
        with_rows.query(
            f'DROP DATABASE IF EXISTS {sysbench.SCHEMA}; CREATE DATABASE {sysbench.SCHEMA}'
        )
        prepare_threads = a.threads if name == 'bulk_insert' else min(tables, 4)
        sysbench.run(server, name, 'prepare', threads=prepare_threads, db_ps_mode=mode, **shape)
        out = sysbench.run(
            server, name, 'run', threads=a.threads, time=a.time, db_ps_mode=mode, **shape
        )
        complaints = check.tables(with_rows, sysbench.SCHEMA)
        if name not in sysbench.MOVES_ROWS:
            complaints += check.row_counts(with_rows, sysbench.SCHEMA, a.table_size)
        if not sysbench.transactions(out):
            complaints.append('no transaction was done')
        sysbench.run(
            server,
            name,
            'cleanup',
            threads=prepare_threads if name == 'bulk_insert' else 1,
            **shape,
        )
        left = with_rows.rows(f'SHOW TABLES FROM {sysbench.SCHEMA}')
        complaints += [f'{row[0].decode()} is still there after cleanup' for row in left]
        with_rows.close()
        if complaints:
            report.fail(title, '\n'.join(complaints))
        else:
            report.ok(
                title,
                f'{sysbench.tps(out):9.0f}/s  p95 {sysbench.p95_ms(out):.2f} ms '
                f' {sysbench.ignored_errors(out):.0f} ignored errors',
            )
    except (sysbench.SysbenchFailed, OSError, servers.MySQLError) as e:
        report.fail(
            title, f'{type(e).__name__}: {e}\n{"" if server.alive() else server.last_words()}'
        )
        if not server.alive():
            server.start()


def study(server, report, size):
    """Runs the study's three commands."""
    s = STUDY[size]
    common = dict(
        tables=s['tables'], table_size=s['table_size'], report_interval=5, rand_type='uniform'
    )
    try:
        c = server.connect()
        c.query(f'DROP DATABASE IF EXISTS {sysbench.SCHEMA}; CREATE DATABASE {sysbench.SCHEMA}')
        sysbench.run(server, 'oltp_write_only', 'prepare', threads=s['threads'], **common)
        out = sysbench.run(
            server,
            'oltp_write_only',
            'run',
            threads=s['threads'],
            events=s['events'],
            time=s['time'],
            **common,
        )
        complaints = check.tables(c, sysbench.SCHEMA) + check.row_counts(
            c, sysbench.SCHEMA, s['table_size']
        )
        if complaints:
            report.fail(f'study, {size}', '\n'.join(complaints))
            return
        report.ok(
            f'study, {size}', f'{sysbench.tps(out):9.0f}/s  p95 {sysbench.p95_ms(out):.2f} ms'
        )
        server.stop()
        server.start()
        c = server.connect()
        complaints = check.tables(c, sysbench.SCHEMA) + check.row_counts(
            c, sysbench.SCHEMA, s['table_size']
        )
        sysbench.run(server, 'oltp_write_only', 'cleanup', threads=s['threads'], **common)
        if complaints:
            report.fail('study, after a restart', '\n'.join(complaints))
        else:
            report.ok('study, after a restart', '')
    except (sysbench.SysbenchFailed, OSError, servers.MySQLError) as e:
        report.fail(
            f'study, {size}',
            f'{type(e).__name__}: {e}\n{"" if server.alive() else server.last_words()}',
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--time', type=int, default=60, help='seconds per script')
    parser.add_argument('--threads', type=int, default=16)
    parser.add_argument('--tables', type=int, default=8)
    parser.add_argument('--table-size', type=int, default=2000)
    parser.add_argument('--study', choices=['small', 'full', 'none'], default='small')
    parser.add_argument('--only', action='append', help='a script, or "study"')
    servers.add_arguments(parser)
    a = parser.parse_args()
    report = Report()
    server = servers.make(
        a,
        servers.scratch('sysbench'),
        innodb_buffer_pool_size='256M',
        max_connections=2000,
        max_prepared_stmt_count=1048576,
    )
    with server:
        for mode in ['auto', 'disable']:
            for name in sysbench.SCRIPTS:
                if not a.only or name in a.only:
                    script(server, report, name, mode, a)
        if a.study != 'none' and (not a.only or 'study' in a.only):
            study(server, report, a.study)
        report.outcome('clean shutdown', check.clean_shutdown(server))
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

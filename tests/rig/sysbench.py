"""Runs sysbench and reads its output."""

import re
import subprocess

from .servers import die_with_parent, need

SCRIPTS = [
    'oltp_write_only',
    'oltp_read_write',
    'oltp_read_only',
    'oltp_point_select',
    'oltp_update_index',
    'oltp_update_non_index',
    'oltp_insert',
    'oltp_delete',
    'bulk_insert',
    'select_random_points',
    'select_random_ranges',
]
ONE_TABLE = {'select_random_points', 'select_random_ranges'}  # these accept only --tables=1
MOVES_ROWS = {
    'oltp_insert',
    'oltp_delete',
    'bulk_insert',
}  # all others keep the number of rows
SCHEMA = 'sbtest'


class SysbenchFailed(Exception):
    pass


def command(server, script, verb, threads=1, **options):
    """The command line. Options have sysbench's own names."""
    need('sysbench')
    all_options = {
        'db-driver': 'mysql',
        'mysql-socket': server.socket,
        'mysql-user': 'root',
        'mysql-db': SCHEMA,
        'mysql-ssl': 'off',
        'threads': threads,
        **{k.replace('_', '-') if k != 'table_size' else k: v for k, v in options.items()},
    }
    return ['sysbench', script, *(f'--{k}={v}' for k, v in all_options.items()), verb]


def spawn(server, script, verb, threads=1, **options):
    """Starts sysbench. The caller reads stdout and waits."""
    return subprocess.Popen(
        command(server, script, verb, threads, **options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def run(server, script, verb, threads=1, **options):
    """Runs sysbench to its end and returns its output. A reported failure is an exception."""
    p = spawn(server, script, verb, threads, **options)
    try:
        out = p.communicate(timeout=900)[0]
    except BaseException:
        p.kill()
        p.wait()
        raise
    if p.returncode or 'FATAL' in out:
        raise SysbenchFailed(
            f'{" ".join(p.args)}\nended with status {p.returncode}:\n{out[-1500:]}'
        )
    return out


def number(pattern, out):
    """The number that the pattern's group finds in sysbench's report, or 0."""
    found = re.search(pattern, out)
    return float(found[1]) if found else 0.0


def transactions(out):
    return number(r'transactions:\s+(\d+)', out)


def tps(out):
    return number(r'transactions:\s+\d+\s+\(([\d.]+)', out)


def p95_ms(out):
    return number(r'95th percentile:\s+([\d.]+)', out)


def ignored_errors(out):
    return number(r'ignored errors:\s+(\d+)', out)

#!/usr/bin/env python3
"""Tests `redolith lab` end to end with the smallest runs: every row is in the reports, a stopped
run keeps its rows, and no process outlives a run.

  tests/lab.py                         study 1, also with another script and paces, and studies 2 to
                                       5 beside MariaDB
  tests/lab.py --quick                 study 1 without its other script, and what ends a run
  tests/lab.py --keep DIR              leaves the reports there, to look at
"""

import argparse
import csv
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers  # noqa: E402
from rig.report import Report  # noqa: E402

MODES = ['auto', 'leader', 'session', 'dedicated']
SMALL = [
    '--tables=1',
    '--table-size=100',
    '--time=1',
    '--warmup=1',
    '--repeat=1',
    '--threads=1,4',
    '--pool=64M',
    '--quick',
]
REDO = ['redo', *SMALL]
WRITERS = [
    'writers',
    '--peer=mariadb',
    '--writes=5',
    '--repeat=1',
    '--threads=4,8',
    '--pool=64M',
    '--quick',
]
BINLOG = ['binlog', '--peer=mariadb', *SMALL]
DOUBLEWRITE = ['doublewrite', '--peer=mariadb', '--data=3', *SMALL, '--threads=4']
DOUBLEWRITE_ROWS = ['OFF', 'ON', 'LEGACY', 'REDO', 'MariaDB, OFF', 'MariaDB, ON']
INSERT = [
    'insert',
    '--peer=mariadb',
    '--rows=4000',
    '--threads=1,3',
    '--repeat=1',
    '--pool=64M',
    '--quick',
]
INSERT_ROWS = [
    f'{server}, {cut}'
    for server in ('Redolith', 'MariaDB')
    for cut in ('ranges kept apart', 'keys generated', 'every nth row')
]
BINLOG_ROWS = [
    'binary log off',
    'unified',
    'classic, sync_binlog=0',
    'classic, sync_binlog=1',
    'classic, sync_binlog=1, order_commits=0',
    'MariaDB, binary log off',
    'MariaDB, sync_binlog=0',
    'MariaDB, sync_binlog=1',
]
PACES = ['0 us', '200 us', '500 us', '1500 us', '-1 (the server chooses)']
PACE = [
    'redo',
    '--tables=1',
    '--table-size=100',
    '--time=2',
    '--warmup=1',
    '--repeat=1',
    '--threads=4',
    '--modes=leader',
    '--pool=64M',
    '--quick',
    '--script=oltp_update_index',
    '--sections=modes,pace',
]
ENDLESS = [
    'redo',
    '--tables=1',
    '--table-size=100',
    '--time=60',
    '--repeat=1',
    '--threads=4',
    '--modes=auto',
    '--pool=64M',
]
LIMIT_S = 600


def running(marker):
    """The command lines of the processes that contain `marker`, except the lab itself."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                line = f.read().replace(b'\0', b' ').decode('utf-8', 'replace')
        except OSError:
            continue
        if marker in line and ' lab ' not in line:
            found.append(line)
    return found


def quota():
    """The option for a CPU quota, if this machine permits control groups for CPU."""
    makes = os.geteuid() == 0 and any(
        os.path.exists(f'{t}/{f}') and os.access(t, os.W_OK)
        for t, f in [
            ('/sys/fs/cgroup/cpu', 'cpu.cfs_quota_us'),
            ('/sys/fs/cgroup/cpu,cpuacct', 'cpu.cfs_quota_us'),
        ]
    )
    return ['--cpu-quota=1'] if makes else []


def control_groups(pid):
    return [
        os.path.join(at, d)
        for at, dirs, _ in os.walk('/sys/fs/cgroup')
        for d in dirs
        if d.startswith(f'redolith-lab-{pid}-')
    ]


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


class Lab:
    def __init__(self, binary, dir, arguments):
        self.dir = dir
        self.process = subprocess.Popen(
            [binary, 'lab', *arguments, f'--dir={dir}'],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=servers.die_with_parent,
        )

    def end(self):
        """Waits for the end. Returns the exit status and the output."""
        out = self.process.communicate(timeout=LIMIT_S)[0]
        return self.process.returncode, out

    def ends_well(self):
        status, out = self.end()
        must(status == 0, f'status {status}:\n{out}')

    def folder(self):
        return os.path.join(self.dir, os.listdir(self.dir)[0])

    def read(self, name):
        with open(os.path.join(self.folder(), name)) as f:
            return f.read()


def must(condition, why):
    if not condition:
        raise AssertionError(why)


def whole(lab, rows, points):
    """Checks a complete run: every file has these rows and this number of points, and no data is
    left.
    """
    page, text, results = (
        lab.read('report.html'),
        lab.read('report.md'),
        json.loads(lab.read('report.json')),
    )
    lines = list(csv.DictReader(lab.read('points.csv').splitlines()))
    must(results['finished'], 'it is not finished')
    failed = [p for p in results['points'] if p['error']]
    must(not failed, f'failed points: {failed}')
    must(
        len(lines) == len(results['points']) == points,
        f'{len(lines)} points, not {points}: {results["notes"]}',
    )
    for row in rows:
        must(f'<th>{row}</th>' in page and f'| {row} |' in text, f'{row} is in no table')
        must(
            any(line['row'] == row and float(line['per_s']) > 0 for line in lines),
            f'{row} did nothing',
        )
    must('<svg' in page and 'http' not in page, 'plots, and nothing from elsewhere')
    must(not os.path.exists(os.path.join(lab.folder(), 'data')), 'data directories are left')
    return results, text


def redo(lab):
    lab.ends_well()
    results = json.loads(lab.read('report.json'))
    # Settings that the server does not have are left out with a message.
    placements = next(s for s in results['sections'] if s['id'] == 'placements')['rows']
    left_out = [n for n in results['notes'] if n.startswith('"dedicated: ')]
    must(
        len(placements) + len(left_out) == (4 if len(os.sched_getaffinity(0)) > 1 else 1),
        f'{placements}, left out: {left_out}',
    )
    purge_off = not any(
        n.startswith('Purge off is left out for redolith:') for n in results['notes']
    )
    _, text = whole(lab, MODES + placements, 2 * len(MODES) + len(placements) * (1 + purge_off))
    counters = list(csv.DictReader(lab.read('counters.csv').splitlines()))
    writes = [
        float(c['difference'])
        for c in counters
        if c['row'] == 'leader' and c['counter'] == 'log_write_requests'
    ]
    must(writes and min(writes) > 0, f'log_write_requests of leader: {writes}')
    must(
        '| log_on_flush_waits |' in text and '| auto / best fixed mode |' in text,
        'counters and ratios',
    )
    return f'{len(results["points"])} points'


def pace(lab):
    """Runs another script and the rows of pace, with the quota if there can be one."""
    lab.ends_well()
    results, text = whole(lab, ['leader'] + PACES, 1 + len(PACES))
    must(
        [s['id'] for s in results['sections']] == ['modes', 'pace']
        and {s['script'] for s in results['sections']} == {'oltp_update_index'},
        f'sections: {[(s["id"], s["script"]) for s in results["sections"]]}',
    )
    must('## When and how often to flush, at 4 connections: oltp_update_index' in text, 'headings')
    must(not control_groups(lab.process.pid), f'left behind: {control_groups(lab.process.pid)}')
    if quota():
        must('- CPU quota of each server: 1 CPU (' in text, 'the quota is not in the report')
    return (
        f'{len(results["points"])} points,'
        f' {"with a quota of one CPU" if quota() else "no quota: no right to make control groups"}'
    )


def writers(binary, dir):
    lab = Lab(binary, dir, WRITERS)
    lab.ends_well()
    results, text = whole(lab, ['ON', 'OFF', 'auto', 'MariaDB'], 4 * 2)
    must(all(p['figures']['seconds'] > 0 for p in results['points']), 'seconds')
    must(
        '--auto-generate-sql-load-type=mixed' in text and 'Scaled: 5 statements per client' in text,
        'the command, and what was scaled',
    )
    return f'{len(results["points"])} points'


def binlog(binary, dir):
    lab = Lab(binary, dir, BINLOG)
    lab.ends_well()
    results, text = whole(lab, BINLOG_ROWS, len(BINLOG_ROWS) * 2)
    # Two ratios to the row without the binary log and two to MariaDB, and five rows that have a
    # peak. Whether the claims are met says nothing about so short a run.
    must(
        [c['what'].split(':')[0] for c in results['checks']]
        == [
            'unified / binary log off, 1 conn.',
            'unified / binary log off, 4 conn.',
            'classic, sync_binlog=1 / MariaDB, sync_binlog=1, 1 conn.',
            'classic, sync_binlog=1 / MariaDB, sync_binlog=1, 4 conn.',
            *BINLOG_ROWS[:5],
        ]
        and [c['least'] for c in results['checks']] == [0.9, 0.9, 1.3, 1.3, *5 * [0.9]]
        and all(c['met'] == (c['value'] >= c['least']) for c in results['checks']),
        f'checks: {results["checks"]}',
    )
    # With one connection, each commit is a flush of the redo log, whatever the binary log does.
    for p in results['points']:
        counted = {c['name']: c['after'] - c['before'] for c in p['figures']['counters']}
        flushes = counted.get('os_log_fsyncs', counted.get('data_fsyncs'))
        must(flushes and flushes > 0, f'{p["row"]}: flushes of the redo log: {flushes}')
    must(
        '| MariaDB, sync_binlog=1 / MariaDB, binary log off |' in text
        and '**Flushes of the redo log, per commit**' in text
        and '**Checks**' in text,
        'ratios, flushes and checks',
    )
    options = {s['name']: s['options'] for s in results['servers']}
    must(
        '--log-bin=ON' in options['redolith, binary log on']
        and '--log-bin=OFF' in options['redolith, binary log off'],
        f'options: {options}',
    )
    return f'{len(results["points"])} points'


def doublewrite(binary, dir):
    lab = Lab(binary, dir, DOUBLEWRITE)
    lab.ends_well()
    results, text = whole(lab, DOUBLEWRITE_ROWS, len(DOUBLEWRITE_ROWS))
    must(
        [s['id'] for s in results['sections']] == ['doublewrite-oltp_read_write-3x'],
        f'sections: {[s["id"] for s in results["sections"]]}',
    )
    claims = {c['what'].split(',')[0].split(':')[0] for c in results['checks']}
    must(claims == {'ON', 'REDO', 'ON / OFF', 'REDO / OFF'}, f'claims: {claims}')
    options = {s['name']: s['options'] for s in results['servers']}
    must(
        len(options) == len(DOUBLEWRITE_ROWS)
        and all('--innodb-io-capacity=20000' in o for o in options.values())
        and '--innodb-doublewrite=REDO' in options['redolith, REDO, data 3x'],
        f'options: {options}',
    )
    must('**Pages written, per transaction**' in text, 'pages written')
    return f'{len(results["points"])} points'


def insert(binary, dir):
    """A point fails if its copy is not the source (COPY-1), and `whole` permits no such point."""
    lab = Lab(binary, dir, INSERT)
    lab.ends_well()
    results, text = whole(lab, [*INSERT_ROWS, 'Redolith', 'MariaDB'], 2 * (6 + 2 + 2 + 2))
    must(
        [s['id'].removeprefix('insert-') for s in results['sections']]
        == ['narrow', 'medium', 'wide', 'nokey'],
        f'sections: {[s["id"] for s in results["sections"]]}',
    )
    must(
        all(p['figures']['done'] in (4000, 1000, 200) for p in results['points']),
        f'rows: {[p["figures"]["done"] for p in results["points"]]}',
    )
    # Three sessions to one for each of our rows, one session to MariaDB, and bytes of redo.
    must(len(results['checks']) == 6 + 2 * 6, f'checks: {results["checks"]}')
    for title in ('Redo log, bytes per row', 'Waits for page latches, per 1000 rows'):
        must(f'**{title}**' in text, title)
    return f'{len(results["points"])} points'


def ended(binary, dir, how):
    """Ends the lab while sysbench runs. All processes that it has started must end, too (CHILD-1,
    LAB-1).
    """
    lab = Lab(binary, dir, ENDLESS + quota())
    sockets = f'redolith-lab-{lab.process.pid}/'
    must(
        wait_for(lambda: any('--report-checkpoints' in line for line in running(sockets)), 300),
        f'sysbench was never started: {running(sockets)}',
    )
    must(
        bool(control_groups(lab.process.pid)) == bool(quota()),
        f'control groups: {control_groups(lab.process.pid)}',
    )
    lab.process.send_signal(how)
    status, out = lab.end()
    must(
        wait_for(lambda: not running(sockets) and not running(lab.folder()), 60),
        f'left behind: {running(sockets) + running(lab.folder())}',
    )
    return lab, status, out


def interrupted(binary, dir):
    """LAB-2"""
    lab, status, out = ended(binary, dir, signal.SIGINT)
    must(status == 1 and 'Stopped before its end.' in out, f'status {status}:\n{out}')
    must(
        json.loads(lab.read('report.json'))['finished'] is False
        and 'is not finished' in lab.read('report.html'),
        'the report does not say so',
    )
    must(not os.path.exists(os.path.join(lab.folder(), 'data')), 'data directories are left')
    must(not control_groups(lab.process.pid), f'left behind: {control_groups(lab.process.pid)}')


def killed(binary, dir):
    lab, status, _ = ended(binary, dir, signal.SIGKILL)
    must(status == -signal.SIGKILL, f'status {status}')
    shutil.rmtree(os.path.join(tempfile.gettempdir(), f'redolith-lab-{lab.process.pid}'))
    # The next lab would also remove them. A process leaves its group a moment after its command
    # line is gone.
    groups = control_groups(lab.process.pid)
    must(wait_for(lambda: all([is_removed(group) for group in groups]), 10), f'busy: {groups}')


def is_removed(group):
    try:
        os.rmdir(group)
    except FileNotFoundError:
        pass
    except OSError as e:
        if e.errno != errno.EBUSY:
            raise
        return False
    return True


def missing(binary, dir):
    """The message about a missing tool names its package."""
    p = subprocess.run(
        [binary, 'lab', 'redo', '--quick', f'--dir={dir}'],
        env={'PATH': '/nowhere'},
        capture_output=True,
        text=True,
    )
    must(p.returncode == 1 and 'sysbench' in p.stderr and 'apt-get install' in p.stderr, p.stderr)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--binary', default=servers.BINARY)
    p.add_argument('--keep', metavar='DIR')
    p.add_argument('--quick', action='store_true')
    a = p.parse_args()
    report, scratch, binary = Report(), a.keep or servers.scratch('lab'), os.path.abspath(a.binary)
    dirs = {
        name: os.path.join(scratch, name)
        for name in (
            'redo',
            'pace',
            'missing',
            'writers',
            'binlog',
            'doublewrite',
            'insert',
            'interrupted',
            'killed',
        )
    }
    for dir in dirs.values():
        shutil.rmtree(dir, ignore_errors=True)
    both, tests = Lab(binary, dirs['redo'], REDO), []
    if not a.quick:
        # These two take most of the time. They run together, because their figures do not matter.
        paces = Lab(binary, dirs['pace'], PACE + quota())
        tests = [
            ('lab redo, another script and paces', lambda: pace(paces)),
            ('lab writers', lambda: writers(binary, dirs['writers'])),
            ('lab binlog', lambda: binlog(binary, dirs['binlog'])),
            ('lab doublewrite', lambda: doublewrite(binary, dirs['doublewrite'])),
            ('lab insert', lambda: insert(binary, dirs['insert'])),
        ]
    for name, test in [
        ('lab redo', lambda: redo(both)),
        *tests,
        ('missing tool', lambda: missing(binary, dirs['missing'])),
        ('Ctrl-C', lambda: interrupted(binary, dirs['interrupted'])),
        ('kill -9', lambda: killed(binary, dirs['killed'])),
    ]:
        try:
            report.ok(name, test() or '')
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as e:
            report.fail(name, e)
    if not a.keep:
        shutil.rmtree(scratch, ignore_errors=True)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())

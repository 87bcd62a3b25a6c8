"""Medians, ratios and targets, as Markdown."""

import statistics
from collections import defaultdict

BASE, OURS = 'mariadb', 'redolith'
MANY = (8, 32, 128, 512, 1024)
# The project's targets (README, docs/performance.md): test, connections, figure, bound.
TARGETS = [
    (test, n, 'tps', 1.0 if n == 1 else 1.3)
    for test in ('oltp_write_only', 'oltp_update_index')
    for n in (1, *MANY)
]
TARGETS += [(test, 128, 'cpu', 0.6) for test in ('oltp_write_only', 'oltp_update_index')]
TARGETS += [
    (test, n, 'tps', 1.0) for test in ('oltp_point_select', 'oltp_read_write') for n in (1, 32, 128)
]
MEMORY_MIB, START_S, RECOVERY_S = 64, 1.0, 10.0
HEAD = (
    '| connections | server | transactions/s | p95 ms | server us/txn | client us/txn | flushes/txn'
    ' | KiB written/txn | tps ratio | server CPU ratio |'
)


def by_point(points):
    """Groups the points without failures: {(test, connections): {server: [points by turn]}}."""
    groups = defaultdict(lambda: defaultdict(list))
    for p in points:
        if not p.error:
            groups[p.test, p.connections][p.server].append(p)
    return groups


def median(points, field):
    return statistics.median(getattr(p, field) for p in points)


def ratios(servers, server, field):
    """A server's figure divided by the base's figure, turn by turn, so that drift cancels out."""
    base = {p.turn: getattr(p, field) for p in servers.get(BASE, [])}
    return [getattr(p, field) / base[p.turn] for p in servers.get(server, []) if base.get(p.turn)]


def spread(values):
    """The median, and the range if there are several values."""
    if not values:
        return ''
    m = f'{statistics.median(values):.2f}'
    return m if len(values) == 1 else f'{m} ({min(values):.2f}-{max(values):.2f})'


def tables(points):
    lines, groups = [], by_point(points)
    for test in dict.fromkeys(p.test for p in points):
        lines += [f'### {test}', '', HEAD, '|' + '---:|' * 10]
        for (t, connections), servers in groups.items():
            if t != test:
                continue
            for server, of_server in servers.items():
                f = lambda field, digits: f'{median(of_server, field):,.{digits}f}'
                against = (
                    ['1', '1']
                    if server == BASE
                    else [
                        spread(ratios(servers, server, 'tps')),
                        spread(ratios(servers, server, 'server_us_per_txn')),
                    ]
                )
                lines.append(
                    '| '
                    + ' | '.join(
                        [
                            f'{connections:,}',
                            server,
                            f('tps', 0),
                            f('p95_ms', 2),
                            f('server_us_per_txn', 1),
                            f('client_us_per_txn', 1),
                            f('flushes_per_txn', 3),
                            f('written_kib_per_txn', 2),
                            *against,
                        ]
                    )
                    + ' |'
                )
        lines.append('')
    failed = [
        f'- {p.test}, {p.connections} connections, {p.server}: {p.error}' for p in points if p.error
    ]
    if failed:
        lines += ['Points that failed:', '', *failed, '']
    noisy = [
        f'- {p.test}, {p.connections} connections, {p.server}: {p.ignored_errors}'
        for p in points
        if p.ignored_errors
    ]
    if noisy:
        lines += ['Errors that sysbench ignored (deadlocks, lock waits):', '', *noisy, '']
    return lines


def verdict(holds):
    return 'holds' if holds else '**missed**'


def targets(points, probes):
    """Every target with the measured figure. No figure is rounded in Redolith's favour."""
    lines, unmeasured, groups = ['| target | measured | |', '|---|---:|---|'], 0, by_point(points)
    for test, n, figure, bound in TARGETS:
        values = ratios(groups[test, n], OURS, 'tps' if figure == 'tps' else 'server_us_per_txn')
        m = statistics.median(values) if values else None
        what = (
            f'at least {bound:.1f}x MariaDB\'s transactions/s'
            if figure == 'tps'
            else f'at most {bound:.1f}x MariaDB\'s server CPU per transaction'
        )
        holds = m is not None and (m >= bound if figure == 'tps' else m <= bound)
        if m is None:
            unmeasured += 1
            continue
        lines.append(
            f'| {test}, {n:,} connection{"s" * (n > 1)}: {what} | {spread(values)} |'
            f' {verdict(holds)} |'
        )
    ours = {kind: of.get(OURS, {}) for kind, of in probes.items()}
    for what, kind, key, unit, bound in [
        (
            'resident memory that 1,024 idle connections add: at most 64 MiB',
            'memory',
            'added_mib',
            'MiB',
            MEMORY_MIB,
        ),
        ('start on an empty directory: under 1 s', 'start', 'start_s', 's', START_S),
        (
            'restart after a kill with 512 MiB of redo: under 10 s',
            'recovery',
            'recovery_s',
            's',
            RECOVERY_S,
        ),
    ]:
        value = ours.get(kind, {}).get(key)
        holds = value is not None and (value <= bound if kind == 'memory' else value < bound)
        if kind == 'recovery' and ours.get(kind, {}).get('redo_mib', 0) < 512:
            value = None
        if value is None:
            unmeasured += 1
            continue
        lines.append(f'| {what} | {value} {unit} | {verdict(holds)} |')
    if len(lines) == 2:
        lines = []
    if unmeasured:
        lines += ['', f'Not measured in this run: {unmeasured} of {len(TARGETS) + 3} targets.']
    return lines


def probe_tables(probes):
    lines = []
    for kind, of in probes.items():
        for server, figures in of.items():
            lines.append(
                f'- {kind}, {server}: ' + ', '.join(f'{k} {v}' for k, v in figures.items())
            )
    return lines


def markdown(about, points, probes):
    lines = [
        '## Machine and settings',
        '',
        *(f'- {k}: {v}' for k, v in about.items()),
        '',
        '## Targets',
        '',
        *targets(points, probes),
        '',
    ]
    if points:
        lines += [
            '## Points',
            '',
            'Medians over the turns; ratios are to MariaDB in the same turn, with their range.',
            '',
            *tables(points),
        ]
    if probes:
        lines += ['## Memory, start, recovery', '', *probe_tables(probes), '']
    return '\n'.join(lines)

"""Measures one point of the benchmark: runs sysbench against one server and notes the cost for the
server, the client and the device.
"""

import os
import re
import time
from dataclasses import asdict, dataclass

from rig import sysbench
from rig.servers import cpu_s

QUIET_CPU_S = 0.05  # a server that uses less than this in a second has settled
SETTLE_LIMIT_S = 20


@dataclass
class Point:
    test: str
    connections: int
    server: str
    turn: int
    tps: float = 0.0
    p95_ms: float = 0.0
    server_us_per_txn: float = 0.0
    client_us_per_txn: float = 0.0
    flushes_per_txn: float = 0.0
    written_kib_per_txn: float = 0.0
    ignored_errors: int = 0
    error: str = ''

    def as_dict(self):
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items()}


class Device:
    """The block device below a directory, as /proc/diskstats counts it."""

    def __init__(self, directory):
        dev = os.stat(directory).st_dev
        node = os.path.realpath(f'/sys/dev/block/{os.major(dev)}:{os.minor(dev)}')
        if os.path.exists(os.path.join(node, 'partition')):
            node = os.path.dirname(node)  # flushes are counted for the whole disk
        self.name = os.path.basename(node) if os.path.isdir(node) else None

    def counters(self):
        """Flushes completed and KiB written so far; zeros where the kernel does not say."""
        with open('/proc/diskstats') as f:
            for line in f:
                fields = line.split()
                if fields[2] == self.name:
                    return int(fields[18]) if len(fields) > 18 else 0, int(fields[9]) / 2
        return 0, 0.0


def settle(running):
    """Waits until all servers are idle, so that no server works during another server's turn."""
    for _ in range(SETTLE_LIMIT_S):
        before = [s.cpu_s() for s in running]
        time.sleep(1)
        if all(s.cpu_s() - b < QUIET_CPU_S for s, b in zip(running, before)):
            return


def point(server, name, turn, test, connections, warm_s, measure_s, device, **shape):
    """Runs the test, and measures between two checkpoints of sysbench."""
    result = Point(test, connections, name, turn)
    warm_s += connections // 256  # many connections take longer to come to rest
    end_s = warm_s + measure_s
    client = sysbench.spawn(
        server,
        test,
        'run',
        threads=connections,
        time=end_s + 1,
        percentile=95,
        rand_type='uniform',
        report_checkpoints=f'{warm_s},{end_s}',
        **shape,
    )
    out, marks = [], []
    try:
        for line in client.stdout:
            out.append(line)
            if 'Checkpoint report' in line and len(marks) < 2:
                marks.append(
                    (time.monotonic(), server.cpu_s(), cpu_s(client.pid), *device.counters())
                )
        client.wait()
    except BaseException:
        client.kill()
        client.wait()
        raise
    parts = re.split(r'Checkpoint report.*\n', ''.join(out))
    if len(marks) < 2 or len(parts) < 3:
        result.error = ' '.join(''.join(out).split())[-300:]
        return result
    (t0, s0, c0, f0, w0), (t1, s1, c1, f1, w1) = marks
    report = parts[2]
    result.tps, result.p95_ms, result.ignored_errors = (
        sysbench.tps(report),
        sysbench.p95_ms(report),
        int(sysbench.ignored_errors(report)),
    )
    n = max(result.tps * (t1 - t0), 1.0)
    result.server_us_per_txn, result.client_us_per_txn = (s1 - s0) / n * 1e6, (c1 - c0) / n * 1e6
    result.flushes_per_txn, result.written_kib_per_txn = (f1 - f0) / n, (w1 - w0) / n
    return result

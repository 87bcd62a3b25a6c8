"""Measures figures that are not rates: memory of idle connections, time to start and to recover."""

import shutil
import time

from rig import sysbench
from rig.client import Connection
from rig.servers import NotUp

IDLE_CONNECTIONS = 1024
MIB = 1 << 20
REDO_BYTES = 512 * MIB
REDO_CAPACITY = {
    'mariadb': dict(
        innodb_log_file_size='4G',
        innodb_max_dirty_pages_pct=99,
        innodb_max_dirty_pages_pct_lwm=0,
        innodb_flush_method='O_DIRECT',
    ),
    'redolith': dict(innodb_redo_log_capacity='4G'),
}
FILL_LIMIT_S = 600


def memory(server):
    """Resident MiB of an idle server, and the increase by 1,024 idle connections."""
    with server:
        Connection(socket=server.socket).close()
        time.sleep(2)
        idle = server.rss_kib() / 1024
        connections = [Connection(socket=server.socket) for _ in range(IDLE_CONNECTIONS)]
        time.sleep(2)
        added = server.rss_kib() / 1024 - idle
        for c in connections:
            c.close()
    return dict(idle_mib=round(idle, 1), added_mib=round(added, 1), connections=IDLE_CONNECTIONS)


def start(server, runs=5):
    """Seconds from the start of the process on an empty directory to its first answer: the median
    of some runs. For MariaDB, mariadb-install-db has made the directory before, untimed.
    """
    times = []
    for _ in range(runs):
        shutil.rmtree(server.data, ignore_errors=True)
        try:
            times.append(server.start())
        finally:
            server.stop()
    server.remove()
    return dict(start_s=round(sorted(times)[runs // 2], 3), runs=runs)


def recovery(server, tell):
    """Fills the redo log until 512 MiB lie between checkpoint and end, kills the server, and times
    its restart to the first answer.
    """
    shape = dict(tables=8, table_size=100000)
    with server:
        c = server.connect()
        c.query(f'CREATE DATABASE {sysbench.SCHEMA}')
        tell('loading 8 tables of 100,000 rows')
        sysbench.run(server, 'oltp_write_only', 'prepare', threads=2, **shape)
        load = sysbench.spawn(
            server,
            'oltp_write_only',
            'run',
            threads=64,
            time=FILL_LIMIT_S,
            rand_type='uniform',
            **shape,
        )
        try:
            age = 0
            while age < REDO_BYTES and load.poll() is None:
                time.sleep(0.2)
                rows = c.rows("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age'")
                if not rows:
                    raise NotUp('the server does not show Innodb_checkpoint_age')
                age = int(rows[0][1])
                tell(f'{age // MIB} of {REDO_BYTES // MIB} MiB of redo')
        finally:
            server.kill()
            load.kill()
            load.wait()
        took = server.start(wait_s=300)
        answered = int(
            server.connect(database=sysbench.SCHEMA).value('SELECT COUNT(*) FROM sbtest1')
        )
        if answered != shape['table_size']:
            raise NotUp(f'{answered} rows after recovery, not {shape["table_size"]}')
    return dict(recovery_s=round(took, 2), redo_mib=age // MIB)

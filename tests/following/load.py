"""The load of a source while replicas read its binary log: sysbench's oltp_read_write, and a
session that makes, changes and drops tables. Both are begun again after the source was killed.
"""

import threading
import time

from rig import sysbench
from rig.client import MySQLError
from rig.replica import same_rows, wait_for

SIZES = {'tables': 4, 'table_size': 1000}
DDL = [
    'CREATE TABLE d{n} (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(40), b DECIMAL(9,3),'
    ' c DATETIME(3), KEY (a)) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci',
    "INSERT INTO d{n} (a, b, c) VALUES ('é', 1.5, '2026-01-02 03:04:05.678'), (NULL, -7, NULL)",
    'ALTER TABLE d{n} ADD UNIQUE KEY u (b, id), COMMENT = {comment}',
    "UPDATE d{n} SET a = CONCAT(a, 'x') WHERE id = 1",
    'INSERT INTO d{n} (a) SELECT a FROM d{n}',
    'CREATE TABLE f{n} (x INT NOT NULL DEFAULT 3, PRIMARY KEY (id)) SELECT * FROM d{n}',
    'DELETE FROM d{n} WHERE id = 2',
    'RENAME TABLE d{n} TO r{n}, r{n} TO d{n}, d{n} TO r{n}',
    'CREATE INDEX i ON r{n} (b)',
    'ALTER TABLE r{n} DROP INDEX u, RENAME INDEX i TO j',
    'CREATE TABLE l{n} LIKE r{n}',
    'INSERT INTO l{n} SELECT * FROM r{n}',
    'DROP INDEX j ON r{n}',
    'TRUNCATE TABLE r{n}',
    'INSERT INTO r{n} (a) VALUES ({n})',
]
KEPT = 3


class Changes(threading.Thread):
    """A session with definitions. It ends with `end`, or with an error."""

    def __init__(self, source, first):
        super().__init__()
        self.source, self.n, self.failed, self.over = source, first, None, threading.Event()
        self.start()

    def run(self):
        try:
            c = self.source.connect(database=sysbench.SCHEMA)
            while not self.over.is_set():
                n, self.n = self.n, self.n + 1
                for text in DDL:
                    c.query(text.format(n=n, comment=f"'ü {n}'"))
                for kind in 'drlf':
                    c.query(f'DROP TABLE IF EXISTS {kind}{n - KEPT}')
                # MariaDB waits for the disk some times per definition.
                self.over.wait(0.2)
        except (MySQLError, OSError, EOFError) as e:
            self.failed = e


class Load:
    def __init__(self, source, threads=4, rate=300):
        self.source, self.threads, self.rate, self.next = source, threads, rate, KEPT
        source.connect().query(f'CREATE DATABASE {sysbench.SCHEMA}')
        sysbench.run(source, 'oltp_read_write', 'prepare', **SIZES)

    def begin(self):
        limits = {'time': 600, 'rate': self.rate}
        self.sysbench = sysbench.spawn(
            self.source, 'oltp_read_write', 'run', self.threads, **limits, **SIZES
        )
        self.changes = Changes(self.source, self.next)

    def end(self, killed=False):
        """Ends the load. `killed`: its source was killed, so all sessions end with an error."""
        self.changes.over.set()
        self.changes.join()
        self.next = self.changes.n
        alive = self.sysbench.poll() is None
        if not killed:
            self.sysbench.kill()
        said, _ = self.sysbench.communicate(timeout=300)
        if not killed:
            assert not self.changes.failed and alive, (self.changes.failed, said)
        else:
            wrong = isinstance(self.changes.failed, MySQLError) and self.changes.failed
            # 1053: the server is shutting down.
            assert not wrong or wrong.code == 1053, wrong


def kills(source, replica, kills, pause=1.5):
    """Kills source and replica in turn, `kills` times each, and returns what is then the same on
    both.
    """
    replica.attach(source)
    load = Load(source)
    load.begin()
    time.sleep(pause if kills else 4)
    for n in range(2 * kills):
        if n % 2:
            replica.kill_and_start()
        else:
            source.kill()
            load.end(killed=True)
            source.start()
            load.begin()
        time.sleep(pause)
        replica_runs(source, replica)
    # Each start begins a file. The load goes on until there are more for their size.
    files = lambda: len(source.connect().rows('SHOW BINARY LOGS'))
    wait_for('files begun for their size', lambda: files() > 2 * kills + 1, 180)
    load.end()
    replica.wait_for_end(source, 300)
    rows = same_rows(source, replica)
    said = f'{files()} files, {load.next} rounds of DDL, {rows} rows'
    return f'{said}, {replica.applied_twice} applied twice' if replica.applied_twice else said


def replica_runs(source, replica):
    """Waits until the replica reads from the source again, by itself."""

    def runs():
        now = replica.status()
        if now['Last_SQL_Errno'] != '0' and not replica.skip_applied(now):
            raise AssertionError(now)
        assert now['Last_IO_Errno'] != '1236', now
        return (now['Slave_IO_Running'], now['Slave_SQL_Running']) == ('Yes', 'Yes')

    wait_for('the replica is connected again', runs)

"""One connection works while another changes definitions. It must never see half of a change, and
get only the errors of such a race.
"""

import threading
import time

from protocol import same, schema
from rig.client import MySQLError

SECONDS = 2
# The limit for works that were not yet done once: DDL waits for the disk.
PATIENCE_S = 120
# The errors of a statement while a table is changed or gone: no such table, a changed definition, a
# deadlock of metadata locks.
RACES = {1146, 1412, 1213}


def several(server, database, *works):
    """Runs each of `works` again and again at the same time, each with a connection of its own.
    Raises the first error that is not the error of a race. Returns how often each was done.
    """
    done, failed, began = [0] * len(works), [], time.monotonic()

    def goes_on():
        seconds = time.monotonic() - began
        return not failed and (seconds < SECONDS or 0 in done and seconds < PATIENCE_S)

    def work(at):
        try:
            c = server.connect(database=database)
            while goes_on():
                try:
                    works[at](c)
                    done[at] += 1
                except MySQLError as e:
                    if e.code not in RACES:
                        raise
            c.close()
        except Exception as e:  # noqa: BLE001  # told by the test's own thread
            failed.append(e)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(works))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    if 0 in done:
        raise AssertionError(f'one was never done: {done}')


def looks_beside_alter(server):
    """Runs SHOW INDEX, SHOW CREATE TABLE and INFORMATION_SCHEMA beside ALTER TABLE and inserts of
    the same table.
    """
    c = server.connect()
    schema(c, 'p_beside')
    c.query('CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL, b VARCHAR(20))')

    def alters(c):
        c.query('ALTER TABLE t ADD INDEX ab (a, b), ADD INDEX ba (b, a)')
        c.query('ALTER TABLE t DROP INDEX ab, DROP INDEX ba')

    def shows(c):
        keys = [r[2] for r in c.rows('SHOW INDEX FROM t')]
        same(
            keys in ([b'PRIMARY'], [b'PRIMARY', b'ab', b'ab', b'ba', b'ba']),
            True,
            f'SHOW INDEX: {keys}',
        )
        text = c.rows('SHOW CREATE TABLE t')[0][1]
        same(b'KEY `ab`' in text, b'KEY `ba`' in text, text)

    def reads(c):
        c.rows(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema ="
            " 'p_beside'"
        )
        c.rows('DESCRIBE t')

    def inserts(c):
        c.query("INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')")

    several(server, 'p_beside', alters, shows, reads, inserts)
    rows = c.value('SELECT COUNT(*) FROM t')
    same(c.value('SELECT COUNT(*) FROM t WHERE a > 0'), rows, 'rows')
    same(c.rows('CHECK TABLE t')[-1][-1], b'OK', 'CHECK TABLE')
    c.query('DROP DATABASE p_beside')


def tables_come_and_go(server):
    """Runs CREATE, RENAME and DROP of a table beside readers and writers. Every answer must be that
    of a complete table.
    """
    c = server.connect()
    schema(c, 'p_beside')

    def makes(c):
        c.query(
            'CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v)); INSERT INTO t VALUES (1, 1), (2,'
            ' 2), (3, 3)'
        )
        c.query('RENAME TABLE t TO u')
        c.query('DROP TABLE u')

    def reads(c):
        for table in 'tu':
            try:
                same(
                    c.value(f'SELECT COUNT(*) FROM {table} FORCE INDEX (v)') in ('0', '3'),
                    True,
                    'rows',
                )
                same(
                    [r[2] for r in c.rows(f'SHOW INDEX FROM {table}')],
                    [b'PRIMARY', b'v'],
                    'SHOW INDEX',
                )
            except MySQLError as e:
                if e.code not in RACES:
                    raise

    def writes(c):
        c.query('UPDATE u SET v = v + 1')

    several(server, 'p_beside', makes, reads, writes)
    c.query('DROP DATABASE p_beside')


ALL = [looks_beside_alter, tables_come_and_go]

"""What one connection sees and does while another changes definitions: never half of a change, and
no
error but those that such a race has.
"""

import threading
import time

from protocol import same, schema
from rig.client import MySQLError

SECONDS = 2
# For what was not done once by then: a change of definitions waits for the disk some times.
PATIENCE_S = 120
# Of who comes while a table is being changed or is gone: no such table, a definition that has
# changed, a deadlock of metadata locks.
RACES = {1146, 1412, 1213}


def several(server, database, *works):
    """Each of `works` again and again, at the same time, with a connection of its own; the first
    error that is no race. How often each was done.
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
    """SHOW INDEX, SHOW CREATE TABLE and INFORMATION_SCHEMA beside ALTER TABLE of the same table,
    under inserts.
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
    """CREATE, RENAME and DROP of a table beside those who read and write it: an answer is that of a
    whole table.
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

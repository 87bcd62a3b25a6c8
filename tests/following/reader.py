"""Rebuilds the tables of a server from its binary log with python-mysql-replication, inside the
virtual environment: reader.py SOCKET. It follows until the table sbtest.finish is made, also
through restarts of the server, and then compares every table with the server's.
"""

import collections
import re
import sys
import time

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import QueryEvent, XidEvent
from pymysqlreplication.row_event import (
    DeleteRowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)

ROWS = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
NAME = r'(?:IF EXISTS )?(?:`?(\w+)`?\.)?`?(\w+)`?'


class Tables:
    """The rows of each table, as a bag: a row that is changed or deleted must be there."""

    def __init__(self):
        self.rows, self.changes, self.definitions = {}, 0, 0

    def define(self, schema, text):
        def name(found, group=1):
            return found[group] or schema, found[group + 1]

        def match(what, group=1):
            return re.match(what.replace('NAME', NAME), text, re.I | re.S)

        self.definitions += 1
        if found := match('CREATE TABLE NAME'):
            self.rows[name(found)] = collections.Counter()
        elif found := match('TRUNCATE TABLE NAME'):
            self.rows[name(found)].clear()
        elif found := match('DROP TABLE NAME'):
            self.rows.pop(name(found), None)
        elif text.upper().startswith('RENAME TABLE '):
            for step in text[len('RENAME TABLE ') :].split(','):
                found = re.match(f'{NAME} TO {NAME}', step.strip(), re.I)
                self.rows[name(found, 3)] = self.rows.pop(name(found))

    def apply(self, event):
        bag = self.rows[event.schema, event.table]
        for row in event.rows:
            self.changes += 1
            for values in (row.get('before_values'), row.get('values')):
                if values and not isinstance(event, WriteRowsEvent):
                    old = as_row(values)
                    if bag[old] < 1:
                        raise SystemExit(f'{event.table} has no {old}')
                    bag[old] -= 1
                    if not bag[old]:
                        del bag[old]
            if isinstance(event, UpdateRowsEvent):
                bag[as_row(row['after_values'])] += 1
            elif isinstance(event, WriteRowsEvent):
                bag[as_row(row['values'])] += 1


def as_row(values):
    return tuple(sorted(values.items()))


def follow(settings, tables, place):
    """Applies whole transactions behind `place`, which it moves. Returns whether it is the end."""
    reader = BinLogStreamReader(
        connection_settings=settings,
        server_id=99,
        blocking=True,
        resume_stream=True,
        log_file=place[0],
        log_pos=place[1],
        only_events=[QueryEvent, XidEvent, TableMapEvent, *ROWS],
        slave_heartbeat=1,
        verify_checksum=True,
        enable_logging=False,
    )
    try:
        transaction = []
        for event in reader:
            if isinstance(event, ROWS):
                # Reads the rows while the tables' maps are those of the event.
                event.rows
                transaction.append(event)
            elif isinstance(event, XidEvent):
                for change in transaction:
                    tables.apply(change)
                transaction = []
                place[:] = reader.log_file, reader.log_pos
            elif isinstance(event, QueryEvent) and event.query != 'BEGIN':
                schema = event.schema.decode()
                tables.define(schema, event.query)
                place[:] = reader.log_file, reader.log_pos
                if ('sbtest', 'finish') in tables.rows:
                    return True
    finally:
        reader.close()


def main():
    settings = {'unix_socket': sys.argv[1], 'user': 'root', 'charset': 'utf8mb4'}
    tables, place, begun = Tables(), ['binlog.000001', 4], 0
    while True:
        begun += 1
        try:
            if follow(settings, tables, place):
                break
        except (pymysql.OperationalError, pymysql.InterfaceError, OSError) as e:
            if 1236 in e.args:
                raise
            time.sleep(0.1)
    with pymysql.connect(**settings) as c, c.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(
            'SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t FROM information_schema.TABLES'
            " WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys')"
        )
        names = {(row['s'], row['t']) for row in cursor.fetchall()}
        if names != tables.rows.keys():
            raise SystemExit(f'tables: {names ^ tables.rows.keys()}')
        for schema, table in sorted(names):
            cursor.execute(f'SELECT * FROM `{schema}`.`{table}`')
            wanted = collections.Counter(map(as_row, cursor.fetchall()))
            if wanted != tables.rows[schema, table]:
                only = list((wanted - tables.rows[schema, table]).items())[:2]
                other = list((tables.rows[schema, table] - wanted).items())[:2]
                raise SystemExit(f'{table}: only in the server {only}; only here {other}')
    rows = sum(bag.total() for bag in tables.rows.values())
    print(
        f'{tables.changes} changes, {tables.definitions} definitions, {rows} rows in'
        f' {len(names)} tables, {begun} connections'
    )


if __name__ == '__main__':
    main()

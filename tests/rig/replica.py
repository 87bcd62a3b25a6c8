"""A source with a binary log, a stock MariaDB that replicates from it, and the comparison of their
tables.
"""

import time

from . import servers

FLOAT, DOUBLE = 4, 5
OWN_SCHEMAS = {'mysql', 'sys', 'information_schema', 'performance_schema'}
# What a statement says that was applied before the replica died, and is applied again: a row or a
# table that is there already, or has gone.
APPLIED_BEFORE = {1007, 1008, 1032, 1050, 1051, 1061, 1062, 1091, 1146}
# With GTIDs the replica notes its position with the rows, but behind a definition.
DEFINED_BEFORE = APPLIED_BEFORE - {1032, 1062}

# MariaDB's replicas follow by GTIDs only if the source's version is 10 or more.
WITH_GTIDS = {'gtid_mode': 'ON', 'enforce_gtid_consistency': 'ON', 'version': '10.11.0-redolith'}


def wait_for(what, until, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return
        time.sleep(0.02)
    raise AssertionError(f'{what}: not within {seconds} s')


def source(name, **options):
    # The server's shortest files, so that rotations come in the middle of the load.
    options = {'log_bin': 'binlog', 'server_id': '1', 'max_binlog_size': '1048576', **options}
    return servers.Redolith(servers.scratch(name), options)


def replica_of(name, **options):
    """A MariaDB that can be killed: it fetches its relay log again when it starts, from the
    position to which it has applied the old one.
    """
    options = {
        'server_id': '2',
        'slave_net_timeout': '5',
        'relay_log_recovery': 'ON',
        'innodb_flush_log_at_trx_commit': '2',
        **options,
    }
    return Replica(servers.scratch(name), options)


class Replica(servers.MariaDB):
    """A stock MariaDB that replicates from a server."""

    applied_twice = 0
    # The position at which the replica has gone on after it was killed.
    resumed = None
    by_gtids = False

    def attach(self, source, file='binlog.000001', position=4):
        self.c = self.connect()
        place = f"MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}"
        if self.by_gtids:
            place = 'MASTER_USE_GTID = slave_pos'
        self.c.query(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {source.port},"
            f" MASTER_USER = 'root', {place},"
            ' MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 0.5'
        )
        self.c.query('START SLAVE')

    def status(self):
        result = self.c.query('SHOW SLAVE STATUS')[0]
        return {c.name: (v or b'').decode() for c, v in zip(result.columns, result.rows[0])}

    def kill_and_start(self):
        self.kill()
        self.options['skip_slave_start'] = 'ON'
        self.start()
        self.c = self.connect()
        self.resumed = self.place(self.status())
        self.c.query('START SLAVE')

    def place(self, status):
        if self.by_gtids:
            return self.c.value('SELECT @@gtid_slave_pos')
        return status['Relay_Master_Log_File'], status['Exec_Master_Log_Pos']

    def skip_applied(self, status):
        """Skips a transaction that the replica had applied, but not noted, when it was killed:
        MariaDB writes its position to a file after the commit. Only the first transaction after a
        kill can be one.
        """
        known = DEFINED_BEFORE if self.by_gtids else APPLIED_BEFORE
        is_first = self.place(status) == self.resumed
        if not is_first or int(status['Last_SQL_Errno']) not in known:
            return False
        self.resumed = None
        self.applied_twice += 1
        if self.by_gtids:
            # The skip counter does not go with GTIDs and several workers.
            prefix, _, number = self.c.value('SELECT @@gtid_slave_pos').rpartition('-')
            self.c.query('STOP SLAVE')
            self.c.query(f"SET GLOBAL gtid_slave_pos = '{prefix}-{int(number) + 1}'")
            self.c.query('START SLAVE')
            return True
        self.c.query('SET GLOBAL sql_slave_skip_counter = 1')
        self.c.query('START SLAVE SQL_THREAD')
        return True

    def wait_for_end(self, source, seconds=60):
        """Waits until the replica has applied everything that the source has."""
        file, position, *_ = source.connect().rows('SHOW MASTER STATUS')[0]
        wanted = (file.decode(), position.decode())
        if self.by_gtids:
            wanted = source.connect().value('SELECT @@gtid_binlog_pos')
        end = time.monotonic() + seconds
        while True:
            now = self.status()
            assert not self.by_gtids or now['Using_Gtid'] == 'Slave_Pos', now
            runs = (now['Slave_IO_Running'], now['Slave_SQL_Running']) == ('Yes', 'Yes')
            # Positions in files name the present file, but GTIDs may be the same for long.
            if self.place(now) == wanted and (runs or not self.by_gtids):
                assert runs, now
                return
            if now['Last_SQL_Errno'] != '0' and self.skip_applied(now):
                continue
            # 1236: the source refuses the dump for good.
            assert not now['Last_SQL_Error'] and now['Last_IO_Errno'] != '1236', now
            assert time.monotonic() < end, f'{wanted}: {now}'
            time.sleep(0.05)


def rows_of(server):
    """The rows of all tables, sorted."""
    c, found = server.connect(), {}
    c.query("SET time_zone = '+00:00'")
    for (schema,) in c.rows('SHOW DATABASES'):
        schema = schema.decode()
        if schema in OWN_SCHEMAS:
            continue
        for (table,) in c.rows(f'SHOW TABLES FROM `{schema}`'):
            name = f'`{schema}`.`{table.decode()}`'
            result = c.query(f'SELECT * FROM {name}')[0]
            # Servers write the same floating-point number in other ways.
            real = [n for n, column in enumerate(result.columns) if column.type in (FLOAT, DOUBLE)]
            rows = [list(row) for row in result.rows]
            for n in real:
                for row in rows:
                    row[n] = row[n] and float(row[n])
            found[name] = sorted(rows, key=repr)
    return found


def same_rows(here, there):
    """Raises unless all tables of both servers have the same rows. Returns how many there are."""
    ours, theirs = rows_of(here), rows_of(there)
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for table in ours:
        if ours[table] != theirs[table]:
            only = [r for r in ours[table] if r not in theirs[table]]
            other = [r for r in theirs[table] if r not in ours[table]]
            raise AssertionError(
                f'{table}: {len(ours[table])} rows on the source, {len(theirs[table])} on the'
                f' replica. {len(only)} only there: {repr(only[:1])[:1000]}; {len(other)} only'
                f' here: {repr(other[:1])[:1000]}'
            )
    return sum(map(len, ours.values()))

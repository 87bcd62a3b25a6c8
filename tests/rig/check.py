"""Checks that every server and its tables must pass after every test."""


def clean_shutdown(server):
    """Stops the server. Returns a complaint if the shutdown was not clean."""
    status = server.stop()
    return '' if status == 0 else f'clean shutdown: exit status {status}\n{server.last_words()}'


def tables(connection, schema):
    """Runs CHECK TABLE for every table of a schema. Returns the complaints."""
    connection.query(f'USE `{schema}`')
    names = [row[0].decode() for row in connection.rows('SHOW TABLES')]
    complaints = []
    for name in names:
        for table, _, kind, text in connection.rows(f'CHECK TABLE `{name}`'):
            if (kind, text) != (b'status', b'OK'):
                complaints.append(
                    f'{table.decode()}: {kind.decode()}: {text.decode("utf-8", "replace")}'
                )
    return complaints


def row_counts(connection, schema, expected):
    """Returns complaints about sbtest tables with an unexpected number of rows."""
    connection.query(f'USE `{schema}`')
    out = []
    for name in [row[0].decode() for row in connection.rows("SHOW TABLES LIKE 'sbtest%'")]:
        by_key = int(connection.value(f'SELECT COUNT(*) FROM `{name}`'))
        if by_key != expected:
            out.append(f'{name}: {by_key} rows, not {expected}')
    return out

"""Answers of a server in a form in which the answers of two servers can be compared."""

import math
from dataclasses import dataclass, field

from rig.client import MySQLError

DOUBLES = (4, 5)
CLASSES = {
    **{t: 'integer' for t in (1, 2, 3, 8, 9, 13)},
    **{t: 'double' for t in DOUBLES},
    246: 'decimal',
    10: 'date',
    12: 'datetime',
    7: 'datetime',
    11: 'time',
    16: 'bit',
    6: 'null',
}
LAST_DIGITS = 1e-12


@dataclass
class Answer:
    """The answer to a statement: the number of an error, or rows, or the content of an OK packet;
    and the numbers of its warnings.
    """

    error: int = 0
    message: str = ''
    types: list = field(default_factory=list)
    rows: list | None = None
    affected: int = 0
    warnings: frozenset = frozenset()

    def shown(self, most=None):
        """The answer in words, with at most `most` rows."""
        if self.error:
            return f'error {self.error} {self.message}'
        if self.rows is None:
            return f'OK, {self.affected} affected, warnings {sorted(self.warnings)}'
        rows = [
            tuple('NULL' if v is None else v.decode('utf-8', 'backslashreplace') for v in row)
            for row in self.rows
        ]
        return f'{len(rows)} rows of {self.types}: {rows[:most]}, warnings {sorted(self.warnings)}'


def answer(result, warnings=frozenset()):
    if result.columns is None:
        return Answer(affected=result.affected, warnings=warnings)
    return Answer(
        types=[CLASSES.get(c.type, 'string') for c in result.columns],
        rows=result.rows,
        warnings=warnings,
    )


def warned(connection, result):
    return (
        frozenset(int(row[1]) for row in connection.rows('SHOW WARNINGS'))
        if result.warnings
        else frozenset()
    )


def text(connection, sql):
    """The answer to a text statement."""
    try:
        result = connection.query(sql)[-1]
        return answer(result, warned(connection, result))
    except MySQLError as e:
        return Answer(error=e.code, message=e.message)


def prepared(connection, sql, values=()):
    """The answer to a prepared statement."""
    try:
        statement = connection.prepare(sql)
        try:
            result = connection.execute(statement, values)
            return answer(result, warned(connection, result))
        finally:
            connection.close_statement(statement)
    except MySQLError as e:
        return Answer(error=e.code, message=e.message)


def same_value(a, b, double):
    if a == b:
        return True
    if a is None or b is None or not double:
        return False
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    return math.isclose(x, y, rel_tol=1e-5 if double == 'float' else LAST_DIGITS, abs_tol=1e-300)


def same_rows(a, b, types, ordered):
    """True if the rows are equal. The last digits of doubles may differ."""
    if len(a) != len(b):
        return False
    if not ordered:
        key = lambda row: [
            (v is None, (rounded(v), exact(v)) if d else v or b'') for v, d in zip(row, doubles)
        ]
        doubles = [t == 'double' for t in types]
        a, b = sorted(a, key=key), sorted(b, key=key)
    return all(
        same_value(x, y, t == 'double') for p, q in zip(a, b) for x, y, t in zip(p, q, types)
    )


def exact(v):
    try:
        return float(v) if v is not None else 0.0
    except ValueError:
        return 0.0


def rounded(v):
    try:
        return float(f'{float(v):.12g}') if v is not None else 0.0
    except ValueError:
        return 0.0

"""Compares a query's rows with what a script expects, as SQLite's sqllogictest does for MySQL."""

import hashlib
import re

INTEGER = re.compile(rb'\s*([-+]?\d+)')
NUMBER = re.compile(rb'\s*([-+]?\d+\.?\d*(?:e[-+]?\d+)?)')
PRINTABLE = bytes(c if 32 <= c <= 126 else ord('@') for c in range(256))


def rendered(values, types):
    """The values as the scripts print them: by the type that the query's line gives each column."""
    if types.strip(b'I') == b'':
        return [b'NULL' if v is None else v if v.isdigit() else integer(v) for v in values]
    forms, width = [FORMS[t] for t in types], len(types)
    return [
        b'NULL' if v is None else forms[i % width](v) for i, v in enumerate(values)
    ]


def integer(v):
    """As a driver converts a value to an integer: the fraction is cut off, other text is 0."""
    found = (NUMBER if b'e' in v else INTEGER).match(v)
    return b'%d' % int(float(found[1]) if b'e' in v else int(found[1])) if found else b'0'


def real(v):
    found = NUMBER.match(v)
    return b'%.3f' % float(found[1] if found else 0)


def text(v):
    return v.translate(PRINTABLE) or b'(empty)'


FORMS = {ord('I'): integer, ord('R'): real, ord('T'): text}


def in_order(values, width, sort):
    """The values of all rows in the order that the query's line names."""
    if sort == b'rowsort' and width > 1:
        rows = sorted(values[i : i + width] for i in range(0, len(values), width))
        return [v for row in rows for v in row]
    return values if sort == b'nosort' else sorted(values)


def digest(values):
    return hashlib.md5(b''.join(v + b'\n' for v in values)).hexdigest().encode()


def complaint(record, answer, labels):
    """What is wrong with an answer, or None. Results of one label must be the same."""
    if answer.error:
        return None if not record.succeeds else 'error %d: %s' % answer.error
    if record.types is None:
        return None if record.succeeds else 'no error'
    if answer.width != len(record.types):
        return f'{answer.width} columns'
    values = in_order(rendered(answer.values, record.types), answer.width, record.sort)
    expected = record.expected
    if len(expected) == 1 and b' values hashing to ' in expected[0]:
        got = [b'%d values hashing to %s' % (len(values), digest(values))]
    else:
        got = values
    if got != expected:
        return f'expected {shown(expected)}, got {shown(values)}'
    if record.label:
        found = digest(values)
        if labels.setdefault(record.label, found) != found:
            return f'another result than before with label {record.label.decode()}'
    return None


def shown(values, most=12):
    words = ['NULL' if v is None else v.decode('utf-8', 'replace') for v in values[:most]]
    return ' '.join(words) + (f' .. ({len(values)} values)' if len(values) > most else '')

"""Reads the records of a sqllogictest script that a MySQL server runs.

Records are separated by blank lines, a line that begins with `#` is a comment, and `skipif` and
`onlyif` lines before a record say for which servers it is.
"""

import re
from dataclasses import dataclass

ENGINE = b'mysql'
BLANK = re.compile(rb'\n[ \t]*\n')


@dataclass(slots=True)
class Record:
    """A statement, which `succeeds` or has to fail, or, with `types`, a query."""

    line: int
    sql: bytes
    succeeds: bool = True
    types: bytes | None = None
    sort: bytes = b'nosort'
    label: bytes | None = None
    expected: list | None = None


class Malformed(Exception):
    """A line that the format does not have."""


def read(text):
    """Yields the records of a script in their order."""
    line = 1
    for block in BLANK.split(text.replace(b'\r\n', b'\n')):
        at, line = line, line + block.count(b'\n') + 2
        lines = [(n, s) for n, s in enumerate(block.split(b'\n'), at) if is_content(s)]
        lines = for_this_server(lines)
        if not lines or lines[0][1].startswith(b'hash-threshold'):
            continue  # whether a result is hashed is seen by what is expected
        at, words = lines[0][0], lines[0][1].split()
        rest = [s for _, s in lines[1:]]
        if words[0] == b'halt':
            return
        if words[0] == b'statement':
            yield Record(at, b'\n'.join(rest), words[1] == b'ok')
        elif words[0] == b'query':
            yield query(at, words, rest)
        else:
            raise Malformed(f'line {at}: {words[0].decode()}')


def is_content(line):
    return line and not line.startswith(b'#')


def for_this_server(lines):
    """The lines behind the conditions, or none if a condition excludes this server."""
    for i, (_, line) in enumerate(lines):
        if not line.startswith((b'skipif', b'onlyif')):
            return lines[i:]
        words = line.split()
        if (words[1].lower() == ENGINE) == (words[0] == b'skipif'):
            return []
    return []


def query(at, words, rest):
    end = rest.index(b'----') if b'----' in rest else len(rest)
    words += [b'nosort'] if len(words) == 2 else []
    return Record(
        at,
        b'\n'.join(rest[:end]),
        types=words[1],
        sort=words[2],
        label=words[3] if len(words) > 3 else None,
        expected=rest[end + 1 :],
    )

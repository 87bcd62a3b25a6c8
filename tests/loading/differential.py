"""Random files with random clauses on Redolith and on MariaDB: both must load the same rows and
write the same files.
"""

import os
import random

from rig.client import MySQLError

# Types that both servers convert alike. (MariaDB notes spaces behind numbers, and words errors of
# DECIMAL, DOUBLE and TIME in its own way.)
TYPES = (
    'INT',
    'INT NOT NULL',
    'INT DEFAULT 7',
    'TINYINT UNSIGNED',
    'VARCHAR(5)',
    'VARCHAR(5) NOT NULL',
    "CHAR(3) DEFAULT 'q'",
    'TEXT',
    'VARBINARY(9)',
    'BLOB NOT NULL',
    'DATE',
    "ENUM('a', 'b')",
    "ENUM('a', 'b') NOT NULL",
    'TIMESTAMP NULL',
    "TIMESTAMP NOT NULL DEFAULT '2020-01-01'",
    'YEAR',
)
MODES = ('', 'STRICT_TRANS_TABLES', 'STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE')
WORDS = (b'1', b'22', b'-5', b'abc', b'x', b'2020-01-02', b'NULL', b'\\N', b'\\0', b'\\n', b'')
WORDS += (b'a', b'b', b' ', b'N', b'999999999999', b'"', b"'", 'é'.encode(), b'\\')
# Both mean that a text is no number or only begins with one; MariaDB chooses by other rules.
ALIKE = {1366: 1265}


def quoted(text):
    return f"x'{text.hex()}'" if text else "''"


class Clauses:
    """FIELDS and LINES, as SQL and as the texts that separate fields and lines."""

    def __init__(self, random, for_reading=True):
        one = random.choice
        fields = one([None, None, b',', b'||', b'\t', b'', b'ab', b'::', b'n'])
        enclosed = one([None, None, b'"', b"'", b''])
        escaped = one([None, None, None, b'\\', b'', b'"', b'!'])
        lines = one([None, None, None, b'\r\n', b'XX', b'', b'aab', b';'])
        starting = one([None] * 6 + [b'>', b'ab', b''])
        sql = [
            f'TERMINATED BY {quoted(fields)}' if fields is not None else '',
            f'{one(["", "OPTIONALLY "])}ENCLOSED BY {quoted(enclosed)}'
            if enclosed is not None
            else '',
            f'ESCAPED BY {quoted(escaped)}' if escaped is not None else '',
        ]
        sql = ' '.join(filter(None, sql))
        more = [
            f'TERMINATED BY {quoted(lines)}' if lines is not None else '',
            f'STARTING BY {quoted(starting)}' if starting is not None else '',
        ]
        more = ' '.join(filter(None, more))
        self.sql = (f' FIELDS {sql}' if sql else '') + (f' LINES {more}' if more else '')
        if for_reading and random.random() < 0.2:
            self.sql += f' IGNORE {one([0, 1, 2, 5])} LINES'
        self.field = b'\t' if fields is None else fields
        self.line = b'\n' if lines is None else lines
        self.escaped, self.enclosed = b'\\' if escaped is None else escaped, enclosed or b''
        self.starting = starting or b''
        self.separators = [
            t for t in (self.field, self.enclosed, escaped, self.line, starting, b'\t', b'\n') if t
        ]


def content(random, clauses):
    out = b''
    for _ in range(random.randrange(40)):
        kind = random.random()
        if kind < 0.4:
            out += random.choice(WORDS)
        elif kind < 0.6:
            out += clauses.field
        elif kind < 0.72:
            out += clauses.line
        else:
            text = random.choice(clauses.separators)
            out += text if kind < 0.9 else text[:1]
    return out


def load(seed, files, connections):
    """Loads a file on both servers. Returns the complaint."""
    r = random.Random(seed)
    columns = [r.choice(TYPES) for _ in range(r.randrange(1, 5))]
    names = 'abcd'[: len(columns)]
    unique = r.random() < 0.4 and 'TEXT' not in columns[0] and 'BLOB' not in columns[0]
    ddl = ', '.join(f'{name} {ty}' for name, ty in zip(names, columns))
    ddl += ', UNIQUE (a)' if unique else ''
    ddl = f'CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {ddl}) CHARACTER SET utf8mb4'
    clauses = Clauses(r)
    path = os.path.join(files, 'f')
    with open(path, 'wb') as f:
        f.write(content(r, clauses))
    targets, setting = list(names), ''
    if r.random() < 0.4:
        targets.insert(0, 'id')
    if r.random() < 0.3:
        r.shuffle(targets)
    if r.random() < 0.3:
        # MariaDB takes NULL for the present time there, MySQL as an error.
        usable = [
            n
            for n, name in enumerate(targets)
            if name == 'id' or not columns[names.index(name)].startswith('TIMESTAMP NOT NULL')
        ]
        n = r.choice(usable or [0])
        value = r.choice(['@v', "CONCAT(@v, 'z')", 'NULL', 'a'])
        setting, targets[n] = f' SET {targets[n]} = {value}', '@v'
    duplicates = r.choice(['', '', ' IGNORE', ' REPLACE'])
    sql = (
        f"LOAD DATA INFILE '{path}'{duplicates} INTO TABLE t CHARACTER SET utf8mb4{clauses.sql}"
        f' ({", ".join(targets)}){setting}'
    )
    mode, answers = r.choice(MODES), []
    for c in connections:
        c.query('DROP TABLE IF EXISTS t')
        c.query(f"SET sql_mode = '{mode}', timestamp = 1700000000, @v = NULL")
        c.query(ddl)
        try:
            info = c.query(sql)[-1].info.split('  Warnings')[0]
        except MySQLError as e:
            info = ALIKE.get(e.code, e.code)
        warnings = [(level, int(code)) for level, code, _ in c.rows('SHOW WARNINGS')]
        if any(code == 167 for _, code in warnings):
            return None  # MariaDB's own error where AUTO_INCREMENT has reached its end
        # Strict errors come one by one in Redolith, and the rest of the row's in MariaDB.
        warnings = [ALIKE.get(code, code) for level, code in warnings if level == b'Warning']
        if isinstance(info, int):
            warnings = []
        answers.append((info, warnings, c.rows('SELECT * FROM t ORDER BY id')))
    if answers[0] == answers[1]:
        return None
    with open(path, 'rb') as f:
        text = f.read()
    return f'seed {seed}, {mode!r}\n{ddl}\n{sql}\n{text}\n{answers[0]}\n{answers[1]}'


def write(seed, files, connections):
    """Writes the same rows by both servers, and reads a file back. Returns the complaint."""
    r = random.Random(seed)
    clauses = Clauses(r, for_reading=False)
    if not clauses.field and not clauses.enclosed:
        return None  # the widths of TEXT differ
    ddl = 'CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(60), b TEXT, c DATE, d DECIMAL(5, 2))'
    texts = (b'a', b'ab', b',', b'||', b'\t', b'\n', b'"', b"'", b'\\', b'!', b'n', b'0', b'N')
    texts += (b'NULL', b'\0', b'', b'X', b'>', b'\r', b'::', b';', 'ö'.encode())

    def value():
        if r.random() < 0.15:
            return 'NULL'
        text = b''.join(r.choices(texts, k=r.randrange(7)))
        return f"CONVERT(x'{text.hex()}' USING utf8mb4)"

    rows = ', '.join(
        f"({n}, {value()}, {value()}, {r.choice(['NULL', '20240506'])},"
        f" {r.choice(['NULL', '-1.5', '12'])})"
        for n in range(r.randrange(1, 5))
    )
    read = []
    for n, c in enumerate(connections):
        path = os.path.join(files, f'out{n}')
        if os.path.exists(path):
            os.remove(path)
        c.query('DROP TABLE IF EXISTS t')
        c.query("SET sql_mode = ''")
        c.query(ddl)
        c.query(f'INSERT INTO t VALUES {rows}')
        c.query(f"SELECT * FROM t ORDER BY id INTO OUTFILE '{path}'{clauses.sql}")
        with open(path, 'rb') as f:
            read.append(f.read())
    if read[0] != read[1]:
        return f'seed {seed}\n{rows}\n{clauses.sql}\n{read[0]}\n{read[1]}'
    if not is_unambiguous(clauses):
        return None
    c = connections[0]
    before = c.rows('SELECT * FROM t ORDER BY id')
    c.query('DELETE FROM t')
    c.query(f"LOAD DATA INFILE '{path}' INTO TABLE t CHARACTER SET utf8mb4{clauses.sql}")
    after = c.rows('SELECT * FROM t ORDER BY id')
    if after != before:
        return f'seed {seed}\n{rows}\n{clauses.sql}\n{read[0]}\n{before}\n{after}'
    return None


def is_unambiguous(clauses):
    """Whether what is written reads back as it was."""
    kinds = [clauses.field, clauses.line, clauses.enclosed, clauses.escaped, clauses.starting]
    first = [kind[:1] for kind in kinds if kind]
    return (
        clauses.escaped == b'\\'
        and clauses.field not in (b'', b'n', b'ab')
        and clauses.line not in (b'', b'aab')
        and clauses.starting in (b'', b'>')
        and len(first) == len(set(first))
    )

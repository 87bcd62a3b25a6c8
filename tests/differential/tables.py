"""Makes random tables of every type, with rows that have the edge values of each type."""

import re

from .tree import Value


def quoted(text):
    return (
        "'"
        + text.replace('\\', '\\\\').replace("'", "\\'").replace('\n', '\\n').replace('\0', '\\0')
        + "'"
    )


def integers(low, high):
    return [
        str(n)
        for n in sorted({low, low + 1, -1, 0, 1, 2, 5, 10, 42, 99, high - 1, high})
        if low <= n <= high
    ]


TEXTS = [
    quoted(s)
    for s in (
        '',
        'a',
        'A',
        'abc',
        'ABC ',
        'b',
        'aB_c%',
        '0',
        '1',
        '12',
        '-3.5',
        '1e2',
        ' 7x',
        'ß',
        'é',
        'Éa',
        'x,y',
        '2024-02-29',
        '10:11:12',
        'zz',
        'a b c',
    )
]
WIDE_TEXTS = TEXTS + [quoted(s) for s in ('日本', '😀a')]
BYTES = ["''", "'a'", "'AB'", "X'00FF'", "X'61'", "'12'"]
DATES = [
    f"'{d}'"
    for d in (
        '2024-02-29',
        '2023-12-31',
        '1970-01-01',
        '1000-01-01',
        '9999-12-31',
        '2024-01-01',
        '2000-06-15',
    )
]
TIMES = ['00:00:00', '10:11:12', '-01:02:03', '838:59:59', '-838:59:59', '23:59:59', '00:00:01']
MOMENTS = [
    '2024-02-29 10:11:12',
    '2023-12-31 23:59:59',
    '1970-01-02 00:00:01',
    '2024-01-01 00:00:00',
    '2037-12-31 12:00:00',
]


def moments(fractions, wide=True):
    more = ['9999-12-31 23:59:59', '1000-01-01 00:00:00'] if wide else []
    # '9999-12-31 23:59:59.5' rounds past the greatest moment. Only MySQL reports this.
    return [f"'{m}{f}'" for m in MOMENTS + more for f in fractions if (m[:4], f) != ('9999', '.5')]


# The columns by name: (definition, kind, values).
TYPES = {
    'ti': ('TINYINT', 'int', integers(-128, 127)),
    'tu': ('TINYINT UNSIGNED', 'int', integers(0, 255)),
    'si': ('SMALLINT', 'int', integers(-32768, 32767)),
    'mi': ('MEDIUMINT', 'int', integers(-8388608, 8388607)),
    'i': ('INT', 'int', integers(-2147483648, 2147483647)),
    'iu': ('INT UNSIGNED', 'int', integers(0, 4294967295)),
    'iz': ('INT(8) ZEROFILL', 'int', integers(0, 123456)),
    'bi': ('BIGINT', 'int', integers(-9223372036854775808, 9223372036854775807)),
    'bu': ('BIGINT UNSIGNED', 'int', integers(0, 18446744073709551615)),
    'de': (
        'DECIMAL(10,3)',
        'dec',
        ['0', '1', '-1', '0.5', '-0.5', '2.345', '9999999.999', '-9999999.999', '12.000'],
    ),
    'dl': (
        'DECIMAL(40,10)',
        'dec',
        [
            '0',
            '1.5',
            '-0.0000000001',
            '123456789012345678901234567890.1234567890',
            '12345678901234.1234567890',
            '-7',
        ],
    ),
    'dz': ('DECIMAL(5,0) UNSIGNED', 'dec', ['0', '1', '99999', '50']),
    'fl': ('FLOAT', 'dbl', ['0', '1', '-1.5', '0.1', '1e10', '-3.4e38', '1e-20', '123456']),
    'db': (
        'DOUBLE',
        'dbl',
        ['0', '1', '-1.5', '0.1', '1e300', '-1e-300', '1e15', '123456.789', '2.5'],
    ),
    'ch': ('CHAR(10)', 'str', [t for t in TEXTS if len(t) < 12]),
    'vc': ('VARCHAR(30)', 'str', WIDE_TEXTS),
    'vb': ('VARCHAR(20) COLLATE utf8mb4_bin', 'str', WIDE_TEXTS),
    'l1': ('VARCHAR(20) CHARACTER SET latin1', 'str', TEXTS),
    'tx': ('TEXT', 'str', WIDE_TEXTS),
    'bn': ('BINARY(4)', 'bin', BYTES),
    'vn': ('VARBINARY(10)', 'bin', BYTES),
    'bl': ('BLOB', 'bin', BYTES),
    'd': ('DATE', 'date', DATES),
    'dt': ('DATETIME', 'dtm', moments([''])),
    'd6': ('DATETIME(6)', 'dtm', moments(['', '.5', '.123456'])),
    'ts': ('TIMESTAMP NULL', 'dtm', moments([''], wide=False)),
    'ts3': ('TIMESTAMP(3) NULL', 'dtm', moments(['', '.250'], wide=False)),
    't': ('TIME', 'time', [f"'{t}'" for t in TIMES]),
    't3': ('TIME(3)', 'time', [f"'{t}'" for t in TIMES] + ["'10:11:12.345'", "'-00:00:00.500'"]),
    'y': ('YEAR', 'year', ['0', '1901', '1970', '2024', '2155', '2000']),
    'e': ("ENUM('a','B','cc','10')", 'enum', ["'a'", "'B'", "'cc'", "'10'"]),
    's': ("SET('x','y','z')", 'set', ["''", "'x'", "'x,z'", "'x,y,z'", "'y'"]),
    'b1': ('BIT(1)', 'bit', ["b'0'", "b'1'"]),
    'b10': ('BIT(10)', 'bit', ["b'0'", "b'1'", "b'1111111111'", "b'101'"]),
}
KEYABLE = [n for n, (ddl, _, _) in TYPES.items() if ddl not in ('TEXT', 'BLOB')]


# Most products of these values are out of range, which is an error when the row is read, and each
# server chooses the rows that it reads. From 1e15 on, and for very small numbers, each server has
# its own texts of a DOUBLE.
EXTREMES = {
    '123456789012345678901234567890.1234567890',
    '1e300',
    '-1e-300',
    '1e15',
    '-3.4e38',
    '1e-20',
}
# A DOUBLE halfway between two integers is rounded to the even one in MySQL, and up in MariaDB if it
# becomes bits.
EVEN_AND_A_HALF = {'2.5'}


class Table:
    """A table with `id`, some columns, some keys and some rows."""

    def __init__(self, random, name, count, wild=False):
        names = random.sample(list(TYPES), min(count, len(TYPES)))
        self.name = name
        left_out = set() if wild else EXTREMES | EVEN_AND_A_HALF
        self.columns = {
            n: (ddl, kind, [c for c in choices if c not in left_out])
            for n, (ddl, kind, choices) in ((n, TYPES[n]) for n in names)
        }
        self.nullable = {n: random.random() < 0.8 for n in names}
        # Without NULL, MariaDB would make a TIMESTAMP NOT NULL with a default of its own.
        self.nullable |= {n: True for n in names if n in ('ts', 'ts3')}
        keyable = [n for n in names if n in KEYABLE]
        self.keys = [
            random.sample(keyable, random.choice([1, 1, 2, 3]))
            for _ in range(random.randint(1, 4))
            if len(keyable) >= 3
        ]
        self.rows = [self.row(random, n) for n in range(random.choice([3, 8, 15, 30]))]

    def row(self, random, id):
        values = [str(id + 1)]
        for n, (_, _, choices) in self.columns.items():
            values.append(
                'NULL' if self.nullable[n] and random.random() < 0.15 else random.choice(choices)
            )
        return values

    def of_kind(self, *kinds):
        return [n for n, (_, kind, _) in self.columns.items() if kind in kinds]

    def ddl(self, name=None, keys=True, only=None):
        columns = [
            f'{n} {ddl}' + ('' if self.nullable[n] else ' NOT NULL')
            for n, (ddl, _, _) in self.columns.items()
            if only is None or n in only
        ]
        keys = [
            f'KEY ({", ".join(k)})' for k in self.keys if keys and (only is None or set(k) <= only)
        ]
        return (
            f'CREATE TABLE {name or self.name}'
            f' ({", ".join(["id INT PRIMARY KEY", *columns, *keys])})'
        )

    def insert(self, name=None, rows=None, only=None):
        names = ['id', *self.columns]
        kept = [i for i, n in enumerate(names) if only is None or n == 'id' or n in only]
        rows = self.rows if rows is None else rows
        values = ', '.join('(' + ', '.join(row[i] for i in kept) + ')' for row in rows)
        return (
            f'INSERT INTO {name or self.name} ({", ".join(names[i] for i in kept)}) VALUES {values}'
        )


def literal(random, kind, typed=False, null=True):
    """A literal of a kind, with its value if a parameter can have it. `typed` asks for DATE '..'
    instead of its text.
    """

    def number(text):
        return Value(text, int(text) if -(2**63) <= int(text) < 2**63 else None)

    def text(quoted_text):
        if quoted_text.startswith("'") and '\\' not in quoted_text:
            return Value(quoted_text, quoted_text[1:-1])
        return Value(quoted_text)

    if random.random() < 0.04 and null:
        return Value('NULL')
    if kind in ('int', 'bool', 'set_number'):
        return number(
            random.choice(
                [
                    '0',
                    '1',
                    '2',
                    '3',
                    '-1',
                    '5',
                    '10',
                    '42',
                    '127',
                    '255',
                    '-128',
                    '1000',
                    '2147483647',
                    '9223372036854775807',
                    '-9223372036854775808',
                    '18446744073709551615',
                    '20240229',
                    '101112',
                ]
                if random.random() < 0.5
                else ['0', '1', '2', '3', '-1', '10']
            )
        )
    if kind == 'dec':
        return Value(
            random.choice(
                [
                    '0.0',
                    '0.5',
                    '-0.5',
                    '1.5',
                    '2.345',
                    '-99.99',
                    '0.001',
                    '10.0',
                    '12345678901234567890.12',
                ]
            )
        )
    if kind == 'dbl':
        # From 1e15 on, each server has its own texts of a DOUBLE: digits or an exponent.
        v = random.choice(
            [
                '0e0',
                '1e0',
                '-1.5e0',
                '1e10',
                '3.5e0' if typed else '2.5e0',
                '1e-5',
                '1e10' if typed else '1e15',
            ]
        )
        return Value(v, float(v))
    if kind == 'str':
        return text(random.choice(WIDE_TEXTS if random.random() < 0.3 else TEXTS))
    if kind == 'bin':
        # Beside text, MySQL refuses bytes that are not text; MariaDB takes them unchanged.
        return Value(
            random.choice(['0x0041' if typed else '0x00FF', '0x61', "_binary'a'", "_binary''"])
        )
    if kind == 'date':
        v = random.choice(DATES)
        return Value(f'DATE {v}') if typed or random.random() < 0.5 else text(v)
    if kind == 'dtm':
        v = random.choice(moments(['', '.5', '.123456']))
        return Value(f'TIMESTAMP {v}') if typed or random.random() < 0.5 else text(v)
    if kind == 'time':
        v = "'" + random.choice(TIMES) + random.choice(['', '.25', '.123456']) + "'"
        v = re.sub(r'(838:59:59)[.]\d+', r'\1', v)
        return Value(f'TIME {v}') if typed or random.random() < 0.5 else text(v)
    if kind == 'year':
        # In functions other than NULLIF, each server gives two digits its own meaning.
        return number(
            random.choice(
                ['0', '1901', '2024', '1970', '2155']
                if typed
                else ['0', '1901', '2024', '1970', '24', '70', '2155', '99']
            )
        )
    if kind == 'enum':
        return text(random.choice(["'a'", "'b'", "'cc'", "'10'", "'q'", "''"]))
    if kind == 'set':
        return text(random.choice(["'x'", "'x,y'", "'z'", "''", "'X,Z'"]))
    return number(random.choice(['0', '1', '5', '1023']))

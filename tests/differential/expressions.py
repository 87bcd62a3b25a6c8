"""Makes random expressions. Each production gives a node of one kind, usually from operands of the
kinds that it wants.
"""

from .tables import literal
from .tree import Node, Value

KINDS = ['int', 'dec', 'dbl', 'str', 'bin', 'date', 'dtm', 'time', 'bool']
NUMBERS = ['int', 'dec', 'dbl']
UNITS = ['DAY', 'HOUR', 'MINUTE', 'SECOND', 'MONTH', 'YEAR', 'WEEK', 'QUARTER', 'MICROSECOND']
PAIRS = [
    ('DAY_HOUR', "'1 2'"),
    ('HOUR_MINUTE', "'1:30'"),
    ('MINUTE_SECOND', "'-2:05'"),
    ('YEAR_MONTH', "'1-2'"),
    ('DAY_SECOND', "'1 1:1:1'"),
    ('SECOND_MICROSECOND', "'1.5'"),
]
FORMATS = [
    "'%Y-%m-%d'",
    "'%H:%i:%s'",
    "'%Y-%m-%d %T.%f'",
    "'%W %M %D'",
    "'%j %U %u'",
    "'%y%c%e %k %l %p'",
    "'%a %b %X %V'",
    "'%r'",
    "'%d/%m/%y'",
]

# Texts of a DATE as people write them, and numbers that are moments.
DAY_TEXTS = [
    '2024-1-9',
    '2024-02-29',
    '24-3-1',
    '20240115',
    '2023-12-31 23:59:59',
    '2024-1-9 1:2:3',
]
DAY_NUMBERS = [
    '20240131',
    '240131',
    '20240131101112',
    '240131235959',
    '99991231',
    '10000101000000',
]
NAMED_DAYS = [
    '5 Sept 2013',
    '31 dec 2023',
    '1 Ma 2024',
    '29 FEBRUARY 2024',
    '5 SepX 2013',
    '3 j 2024',
]
DAY_TIMES = ['10 12:30:00', '0 1:2:3', '31 23:59', '32 1:1:1', '1 24:00:00', '7']

# Integers that are equal as doubles.
LONG = ['9007199254740991', '9007199254740992', '9007199254740993', '9007199254740994']

# The productions of each kind: (weight, text with the kinds of the operands in braces).
PRODUCTIONS = {
    'int': [
        (6, '({num} + {num})'),
        (4, '({num} - {num})'),
        (4, '({num} * {num})'),
        (2, '({num} DIV {num})'),
        (3, '({num} % {num})'),
        (2, '(-{num})'),
        (2, '({int} & {int})'),
        (2, '({int} | {int})'),
        (1, '({int} ^ {int})'),
        (1, '({int} << {small})'),
        (1, '({int} >> {small})'),
        (1, '(~{int})'),
        (2, 'ABS({num})'),
        (1, 'CEILING({num})'),
        (1, 'FLOOR({num})'),
        (2, 'ROUND({num}, {digits})'),
        (1, 'ROUND({num})'),
        (1, 'TRUNCATE({num}, {digits})'),
        (1, 'SIGN({num})'),
        (1, 'MOD({num}, {num})'),
        (2, 'LENGTH({str})'),
        (1, 'CHAR_LENGTH({str})'),
        (1, 'LOCATE({str}, {str})'),
        (1, 'INSTR({str}, {str})'),
        (1, 'STRCMP({str}, {str})'),
        (1, 'ASCII({str})'),
        (1, 'ORD({str})'),
        (1, 'FIELD({str}, {str}, {str})'),
        (1, 'FIND_IN_SET({str}, {str})'),
        (1, 'CRC32({str})'),
        (1, 'BIT_COUNT({int})'),
        (1, 'YEAR({day})'),
        (1, 'MONTH({day})'),
        (1, 'DAY({day})'),
        (1, 'DAYOFWEEK({day})'),
        (1, 'WEEKDAY({day})'),
        (1, 'DAYOFYEAR({day})'),
        (1, 'WEEK({day}, {small})'),
        (1, 'YEARWEEK({day})'),
        (1, 'QUARTER({day})'),
        (1, 'HOUR({time})'),
        (1, 'MINUTE({time})'),
        (1, 'SECOND({time})'),
        (1, 'MICROSECOND({time})'),
        (1, 'TO_DAYS({day})'),
        (1, 'TO_SECONDS({dtm})'),
        (1, 'TIME_TO_SEC({time})'),
        (2, 'DATEDIFF({day}, {day})'),
        (2, 'TIMESTAMPDIFF({unit}, {dtm}, {dtm})'),
        (1, 'EXTRACT({field} FROM {dtm})'),
        (2, 'CAST({whole} AS SIGNED)'),
        (1, 'CAST({num} AS UNSIGNED)'),
        (1, 'UNIX_TIMESTAMP({ts})'),
        (1, 'INTERVAL({num}, {num}, {num})'),
        (1, 'INTERVAL({long}, {long}, {long})'),
    ],
    'dec': [
        (4, '({dec} + {dec})'),
        (3, '({dec} * {dec})'),
        (3, '({num} / {num})'),
        (3, 'CAST({any} AS DECIMAL({precision}))'),
        (2, 'ROUND({dec}, {digits})'),
        (1, '(-{dec})'),
        (1, 'ABS({dec})'),
        (1, '({dec} % {dec})'),
        (1, 'TRUNCATE({dec}, {digits})'),
    ],
    'dbl': [
        (3, '({dbl} + {num})'),
        (2, '({dbl} * {num})'),
        (2, '({dbl} / {num})'),
        (1, 'SQRT({num})'),
        (1, 'LN({num})'),
        (1, 'LOG2({num})'),
        (1, 'LOG10({num})'),
        (1, '({str} + 0)'),
        (1, 'DEGREES({num})'),
        (1, 'RADIANS({num})'),
        (1, 'ROUND({dbl}, {digits})'),
        (1, '(-{str})'),
    ],
    'str': [
        (4, 'CONCAT({shown}, {shown})'),
        (2, 'CONCAT_WS({str}, {shown}, {shown})'),
        (2, 'LOWER({str})'),
        (2, 'UPPER({str})'),
        (2, 'LEFT({str}, {small})'),
        (2, 'RIGHT({str}, {small})'),
        (2, 'SUBSTRING({str}, {small}, {small})'),
        (1, 'SUBSTRING({str}, {small})'),
        (2, 'TRIM({str})'),
        (1, 'LTRIM({str})'),
        (1, 'RTRIM({str})'),
        (1, 'TRIM(BOTH {str} FROM {str})'),
        (1, 'LPAD({str}, {small}, {str})'),
        (1, 'RPAD({str}, {small}, {str})'),
        (1, 'REPEAT({str}, {small})'),
        (2, 'REPLACE({str}, {other}, {other})'),
        (1, 'REVERSE({str})'),
        (1, 'INSERT({str}, {small}, {small}, {str})'),
        (2, 'HEX({shown})'),
        (1, 'BIN({int})'),
        (1, 'OCT({int})'),
        (1, 'CONV({str}, 10, 16)'),
        (1, 'QUOTE({str})'),
        (1, 'FORMAT({num}, {small})'),
        (1, 'MD5({str})'),
        (2, 'DATE_FORMAT({dtm}, {format})'),
        (1, 'TIME_FORMAT({time}, {clock})'),
        (1, 'DAYNAME({day})'),
        (1, 'MONTHNAME({day})'),
        (1, 'SUBSTRING_INDEX({str}, {str}, {small})'),
        (3, 'CAST({shown} AS CHAR)'),
        (1, 'CAST({shown} AS CHAR(3))'),
        (1, 'ELT({small}, {str}, {str})'),
        (1, 'SPACE({small})'),
        (1, 'TO_BASE64({str})'),
        (1, 'SHA1({str})'),
        (2, '({daynumber} {plus} INTERVAL {small} {unit})'),
        # Beside a date, a text and a number are dates. MariaDB says DATE of the result, MySQL text.
        (1, 'CONCAT(GREATEST({day}, {daytext}))'),
        (1, 'CONCAT(LEAST({daytext}, {day}, {daytext}))'),
        (1, 'CONCAT(GREATEST({daytext}, {daynumber}, {date}))'),
    ],
    'bin': [
        (2, 'CAST({str} AS BINARY)'),
        (1, 'UNHEX({str})'),
        (1, 'CONCAT({bin}, {bin})'),
        (1, 'CAST({str} AS BINARY(5))'),
        (1, 'FROM_BASE64({str})'),
    ],
    'date': [
        (3, 'DATE({dtm})'),
        (2, 'LAST_DAY({day})'),
        (3, '({date} {plus} INTERVAL {small} {dayunit})'),
        (2, 'CAST({day} AS DATE)'),
        (1, 'MAKEDATE({year}, {small})'),
        (1, 'FROM_DAYS({days})'),
        (1, "STR_TO_DATE({str}, '%Y-%m-%d')"),
        (1, "STR_TO_DATE({named}, '%d %M %Y')"),
        (1, "STR_TO_DATE({named}, '%d %b %Y')"),
    ],
    'dtm': [
        (3, 'TIMESTAMP({day})'),
        (1, 'TIMESTAMP({day}, {time})'),
        (4, '({day} {plus} INTERVAL {small} {unit})'),
        (1, '({day} {plus} INTERVAL {pair})'),
        (2, 'ADDTIME({dtm}, {time})'),
        (2, 'CAST({day} AS DATETIME)'),
        (1, 'CAST({day} AS DATETIME(3))'),
        (1, "CONVERT_TZ({ts}, '+00:00', '+02:00')"),
        (1, 'FROM_UNIXTIME({seconds})'),
        (1, "STR_TO_DATE({str}, '%Y-%m-%d %H:%i:%s')"),
    ],
    'time': [
        (2, 'TIME({dtm})'),
        (2, 'TIMEDIFF({dtm}, {dtm})'),
        (1, 'TIMEDIFF({time}, {time})'),
        (2, 'CAST({time} AS TIME)'),
        (1, 'CAST({time} AS TIME(2))'),
        (1, 'SEC_TO_TIME({num})'),
        (1, "STR_TO_DATE({daytime}, '%d %H:%i:%s')"),
        (1, 'MAKETIME({small}, {small}, {small})'),
        (1, 'ADDTIME({time}, {time})'),
        (1, 'SUBTIME({time}, {time})'),
    ],
    'bool': [
        (12, '({same} {cmp} {same})'),
        (2, '({any} {cmp} {any})'),
        (4, '({bool} AND {bool})'),
        (4, '({bool} OR {bool})'),
        (2, '(NOT {bool})'),
        (1, '({bool} XOR {bool})'),
        (3, '({any} IS NULL)'),
        (1, '({any} IS NOT NULL)'),
        (1, '({bool} IS TRUE)'),
        (1, '({bool} IS NOT FALSE)'),
        (3, '({same} BETWEEN {same} AND {same})'),
        (1, '({same} NOT BETWEEN {same} AND {same})'),
        (4, '({same} IN ({same}, {same}, {same}))'),
        (1, '({same} NOT IN ({same}, {same}))'),
        (3, '({str} LIKE {pattern})'),
        (1, '({str} NOT LIKE {pattern})'),
        (1, 'ISNULL({any})'),
    ],
}
# Productions for any kind. The result has the kind of the operands.
CHOICES = [
    (3, 'IF({bool}, {same}, {same})'),
    (2, 'IFNULL({same}, {same})'),
    (2, 'COALESCE({same}, {same}, {same})'),
    (2, 'NULLIF({same}, {same})'),
    (2, 'CASE WHEN {bool} THEN {same} ELSE {same} END'),
    (1, 'CASE {any1} WHEN {any1} THEN {same} WHEN {any1} THEN {same} END'),
    (1, 'GREATEST({same}, {same})'),
    (1, 'LEAST({same}, {same})'),
]
# The kinds that an operand may have instead of the wanted kind. Unless a run is `--wild`, numbers
# and texts do not stand for dates and times, and times do not stand for dates, because the two
# servers read them differently.
MIXED = {
    'int': ['dec', 'dbl', 'str', 'bool'],
    'dec': ['int', 'dbl', 'str'],
    'dbl': ['int', 'dec', 'str'],
    'str': ['int', 'date', 'bool'],
    'bin': ['str'],
    'bool': ['int', 'str'],
    'date': ['dtm'],
    'dtm': ['date'],
    'time': ['time'],
    'year': ['year'],
    'enum': ['str'],
    'set': ['str'],
    'bit': ['int'],
}
PATTERNS = ["'%a%'", "'a_'", "'%'", "''", "'_%'", "'A%C'", "'%\\\\%'", "'1%'", "'%-02-%'"]


class Expressions:
    """Makes expressions. `columns` has the texts of columns by kind. `mixed` is the share of
    operands of another kind than wanted; with `wild`, of any kind.
    """

    def __init__(self, random, columns, wild=False, mixed=0.1):
        self.random, self.columns, self.mixed, self.wild = random, columns, mixed, wild
        self.weighted = {
            kind: ([p for _, p in list], [w for w, _ in list]) for kind, list in PRODUCTIONS.items()
        }
        if not wild:
            # Each pair of kinds has its own rule of comparison, and MariaDB's rules differ.
            self.weighted['bool'] = (
                [
                    p.replace('({any} {cmp} {any})', '({same} {cmp} {cousin})')
                    for p in self.weighted['bool'][0]
                ],
                self.weighted['bool'][1],
            )
        self.choices = ([p for _, p in CHOICES], [w for w, _ in CHOICES])

    def expression(self, kind, depth):
        r = self.random
        if r.random() < self.mixed:
            kind = r.choice(KINDS if self.wild else MIXED.get(kind, NUMBERS))
        if kind == 'num':
            kind = r.choice(NUMBERS)
        if depth <= 0 or r.random() < 0.25:
            return self.leaf(kind)
        if kind != 'bool' and r.random() < 0.12:
            return self.produce(r.choices(*self.choices)[0], kind, depth)
        if kind not in self.weighted:
            return self.leaf(kind)
        return self.produce(r.choices(*self.weighted[kind])[0], kind, depth)

    def leaf(self, kind):
        if kind == 'bool':
            return self.produce('({same} {cmp} {same})', kind, 0)
        columns = self.columns.get(kind)
        if columns and self.random.random() < 0.7:
            return Value(self.random.choice(columns))
        return literal(self.random, kind, typed=not self.wild)

    def produce(self, pattern, kind, depth):
        r = self.random
        same = (
            r.choice(
                [k for k in [*KINDS[:-1], 'year', 'enum', 'set', 'bit'] if k in self.columns]
                or KINDS[:-1]
            )
            if kind == 'bool'
            else kind
        )
        any1 = r.choice(KINDS[:-1])
        parts, rest = [], pattern
        while '{' in rest:
            before, _, rest = rest.partition('{')
            name, _, rest = rest.partition('}')
            parts += [before, self.operand(name, same, any1, depth - 1)]
        return Node(*parts, rest, simple=('1', 'NULL'))

    def operand(self, name, same, any1, depth):
        r = self.random
        if name == 'same':
            return self.expression(same, depth)
        if name == 'any':
            return self.expression(r.choice([*KINDS, 'year', 'enum', 'set', 'bit']), depth)
        if name == 'cousin':
            return self.expression(r.choice(MIXED.get(same, NUMBERS)), depth)
        if name == 'whole':
            # As in MySQL, a moment with a fraction is rounded; MariaDB cuts it. After an aggregate,
            # no rule can see this.
            return self.expression(
                r.choice(
                    [*KINDS, 'year', 'enum', 'set', 'bit']
                    if self.wild
                    else [*NUMBERS, 'str', 'bool', 'year', 'enum', 'set', 'bit']
                ),
                depth,
            )
        if name == 'shown':
            # MariaDB guesses the number of digits of a DOUBLE when it makes a column of a temporary
            # table for the text.
            return self.expression(
                r.choice(
                    [k for k in [*KINDS, 'year', 'enum', 'set', 'bit'] if self.wild or k != 'dbl']
                ),
                depth,
            )
        if name == 'other':
            # REPLACE with a NULL is NULL in MySQL, but not in MariaDB.
            return (
                self.expression('str', depth)
                if self.wild
                else literal(r, 'str', typed=True, null=False)
            )
        if name == 'any1':
            return self.expression(any1, depth)
        if name == 'day':
            return self.expression(r.choice(['date', 'dtm']), depth)
        if name == 'ts':
            return self.leaf('dtm')
        if name == 'small':
            v = r.choice(['0', '1', '2', '3', '5', '-1', '-2', '10'])
            return Value(v, int(v))
        if name in ('long', 'daynumber'):
            v = r.choice(LONG if name == 'long' else DAY_NUMBERS)
            return Value(v, int(v))
        if name in ('daytext', 'named', 'daytime'):
            v = r.choice({'daytext': DAY_TEXTS, 'named': NAMED_DAYS, 'daytime': DAY_TIMES}[name])
            return Value(f"'{v}'", v)
        fixed = {
            'cmp': ['=', '<', '>', '<=', '>=', '<>', '<=>'],
            'unit': UNITS,
            'dayunit': ['DAY', 'WEEK', 'MONTH', 'YEAR'],
            'plus': ['+', '-'],
            'format': FORMATS,
            'pattern': PATTERNS,
            'pair': [f'{v} {u}' for u, v in PAIRS],
            'precision': ['10,2', '5,0', '65,30', '30,10', '3,3'],
            'seconds': ['0', '1', '1700000000', '1700000000.5', '-1'],
            'clock': ["'%H:%i:%s'", "'%T.%f'", "'%h %l %p %k'", "'%r'"],
            'digits': ['0', '1', '2', '-1', '-2', '5'],
            'days': ['400000', '739000', '3652424', '3652425'],
            'year': ['2024', '0', '70', '99', '9999'],
            'field': [
                'YEAR',
                'DAY',
                'HOUR',
                'SECOND',
                'DAY_HOUR',
                'YEAR_MONTH',
                'MICROSECOND',
                'MINUTE_SECOND',
                'DAY_MICROSECOND',
            ],
        }
        if name == 'digits' and not self.wild:
            # If more digits are asked for than there are, MariaDB adds zeros.
            return r.choice(['0', '-1', '-2'])
        if name in ('format', 'clock') and not self.wild:
            # MariaDB cuts a long %r in temporary tables.
            return r.choice([f for f in fixed[name] if f != "'%r'"])
        if name in fixed:
            return r.choice(fixed[name])
        return self.expression(name, depth)

"""Known and intended differences. Each rule has a name and a reason. The differences that a rule
lets pass are counted.
"""

import math
import re
import struct
import time

NOT_BUILT = {1235}
# Numbers have different widths in MariaDB and MySQL, so the comparison only checks whether a value
# is a number.
LOOSE = {t: 'number' for t in ('integer', 'decimal', 'double', 'null', 'bit')}
# Codes that one server distinguishes and the other does not.
SAME_ERRORS = [{1292, 1411}, {1264, 167}, {1690, 1264}, {1292, 1916}, {1264, 1916}, {1690, 1916}]


def rule(name, reason):
    def make(f):
        RULES.append((name, reason, f))
        return f

    return make


RULES = []


@rule('not-built', 'Redolith refuses statements that it does not support yet (1235)')
def _(sql, theirs, ours):
    return ours.error in NOT_BUILT


@rule(
    'no-date-1525',
    'MySQL 8.0 refuses a constant that is not a date in a comparison with dates (1525); MariaDB'
    ' warns, where it looks at the constant',
)
def _(sql, theirs, ours):
    refused = re.fullmatch("Incorrect (?:DATE|DATETIME|TIME) value: '(.*)'", ours.message)
    return ours.error == 1525 and (
        theirs.error in (1292, 1690)
        or 1292 in theirs.warnings
        or 'FROM (SELECT' in sql
        or refused is not None
        and f"'{refused[1]}'" in sql
    )


@rule('same-error', 'the two servers have different numbers for the same error')
def _(sql, theirs, ours):
    return any(theirs.error in s and ours.error in s for s in SAME_ERRORS)


def known(sql, theirs, ours):
    """The name of the rule that lets this difference pass, or None."""
    return next((name for name, _, f in RULES if f(sql, theirs, ours)), None)


# What may be a text: a literal, a column, or a function.
MAYBE_TEXT = re.compile(r"'|\b(?:ch|vc|vb|l1|tx|bn|vn|bl|e|s|t|t3|x1)\b|[A-Z0-9_]\(")
EXTREME = re.compile(r'\b(?:GREATEST|LEAST)\(')


@rule(
    'extreme-of-no-date',
    'GREATEST and LEAST compare texts if what is no date wins beside a date, as in MySQL; MariaDB'
    ' gives the zero date',
)
def _(sql, theirs, ours):
    return EXTREME.search(sql) is not None and '0000-00-00' in theirs.shown()


@rule('base64', 'MySQL gives NULL for a text that is not base 64; MariaDB refuses it (1958)')
def _(sql, theirs, ours):
    return theirs.error == 1958 or 1958 in theirs.warnings


@rule(
    'strict-conditions',
    'as the manual of MySQL 8.0 says, a text that is not a number and a date out of range are'
    ' errors in strict mode if a condition of a change is evaluated with them; they are not if an'
    ' index decides, and MariaDB only warns of some',
)
def _(sql, theirs, ours):
    said = (1264, 1292, 1365, 1411, 1441)
    one, other = (theirs, ours) if theirs.error in said else (ours, theirs)
    return (
        one.error in said
        and other.error in (0, 1062, 1690)
        and re.match('INSERT|REPLACE|UPDATE|DELETE', sql) is not None
    )


@rule(
    'date-with-number',
    'MySQL compares a date or a time with a number that is not a date as numbers, MariaDB as dates',
)
def _(sql, theirs, ours):
    return (
        1292 in theirs.warnings
        and re.search(r'[<>=]|BETWEEN| IN ', sql) is not None
        and re.search(r'\b(d|dt|d6|ts|ts3|y|t3|t)\b|DATE|TIME', sql) is not None
    )


@rule('longest-time', 'the longest TIME is 838:59:59 in MySQL, 838:59:59.999999 in MariaDB')
def _(sql, theirs, ours):
    return (
        re.search(r'838:59:5|8385959|83859[:.]', theirs.shown() + ours.shown()) is not None
        or 1292 in theirs.warnings | ours.warnings
        and re.search('TIMEDIFF|ADDTIME|SUBTIME|SEC_TO_TIME|MAKETIME', sql) is not None
    )


@rule('bit-extremes', 'MIN and MAX of BIT are bits; MariaDB prints the number')
def _(sql, theirs, ours):
    return 'bit' in ours.types and re.search('MIN|MAX', sql) is not None


@rule(
    'time-with-moment',
    'as in MySQL, the text of a date with a time is compared with a TIME by its time',
)
def _(sql, theirs, ours):
    return (
        re.search(r"'\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", sql) is not None
        and re.search(
            r'\bt3?\b(?! [ab]\b)[^;]*(=|<|>|BETWEEN|IN )', sql.partition('WHERE')[2] or sql
        )
        is not None
    )


@rule(
    'not-in-null',
    'it is unknown whether a row is missing from a subquery that has a NULL; MariaDB 10.11 says'
    ' that it is',
)
def _(sql, theirs, ours):
    more = (
        bool(theirs.rows) and not ours.rows
        or not (theirs.error or ours.error)
        and theirs.rows is None
        and theirs.affected > ours.affected
    )
    return re.search(r'NOT IN \(SELECT|<> ALL \(SELECT', sql) is not None and more


@rule('time-as-date', 'as in MySQL, a time becomes a moment of today where a date is wanted')
def _(sql, theirs, ours):
    return time.strftime('%Y-%m-%d', time.gmtime()) in ours.shown() + theirs.shown()


@rule('zero-date-fraction', 'a number below 1 is the zero date with a fraction, as in MySQL')
def _(sql, theirs, ours):
    return '0000-00-00 00:00:00.' in ours.shown()


@rule('hex-no-text', 'bytes that are not text equal nothing; MariaDB refuses them (1300)')
def _(sql, theirs, ours):
    return theirs.error == 1300


@rule(
    'variance-overflow',
    'the squares of the greatest doubles overflow, and the servers replace them by different'
    ' values',
)
def _(sql, theirs, ours):
    return 'STDDEV' in sql and ('1.797' in theirs.shown() or '1.797' in ours.shown())


@rule(
    'seconds-are-whole',
    'TIME_TO_SEC and TO_SECONDS are integers, as in MySQL; MariaDB keeps fractions',
)
def _(sql, theirs, ours):
    return re.search('TIME_TO_SEC|TO_SECONDS', sql) is not None


@rule('cast-binary', 'CAST AS BINARY(n) has n bytes, as in MySQL; MariaDB cuts characters')
def _(sql, theirs, ours):
    return 'AS BINARY(' in sql


@rule('number-to-text', 'MariaDB reads text beside a number as latin1 in some functions')
def _(sql, theirs, ours):
    def read(a, b):
        try:
            return (
                b''.join(
                    c.encode('cp1252') if c not in '\x81\x8d\x8f\x90\x9d' else c.encode('latin1')
                    for c in a.decode()
                )
                == b
            )
        except UnicodeError:
            return False

    return 'Ã' in theirs.shown() and 'Ã' not in ours.shown() or all_like(theirs, ours, read)


@rule(
    'bits-of-decimals',
    'for the bits of signed numbers beyond 64 bits, MariaDB stops at the greatest BIGINT in'
    ' BIT_OR, but not in |',
)
def _(sql, theirs, ours):
    return 'BIT_' in sql and 1916 in theirs.warnings


@rule('past-the-end', 'as in MySQL, a value that rounds past the year 9999 is NULL')
def _(sql, theirs, ours):
    return '9999-12-31 23:59:59' in theirs.shown() + sql and 'NULL' in ours.shown()


@rule(
    'half-a-second-of-bits',
    'as in MySQL, fractions of times are rounded where integers are wanted; MariaDB cuts them',
)
def _(sql, theirs, ours):
    return re.search('BIT_|[&|^~]|<<|>>', sql) is not None and ours.rows is not None


@rule('round-of-times', 'ROUND and TRUNCATE of times are numbers, as in MySQL; MariaDB gives times')
def _(sql, theirs, ours):
    return re.search('ROUND|TRUNCATE|FLOOR|CEILING', sql) is not None and (
        theirs.types != ours.types or re.search(r'\b(d6|dt|ts3?|t3)\b|TIME|DATE', sql) is not None
    )


@rule(
    'collations',
    'a literal that a column of latin1 cannot hold is refused later or earlier (1267; with more'
    ' operands 1270 and 1271)',
)
def _(sql, theirs, ours):
    return bool({1267, 1270, 1271} & {theirs.error, ours.error})


@rule(
    'pad-with-nothing',
    'LPAD and RPAD with an empty text give an empty text, as in MySQL; MariaDB gives NULL',
)
def _(sql, theirs, ours):
    return re.search('[LR]PAD', sql) is not None


@rule('round-out-of-range', 'ROUND to a number out of the range of its type is an error (1690)')
def _(sql, theirs, ours):
    return ours.error == 1690 and 'ROUND' in sql


@rule(
    'digits-of-deviations',
    'STDDEV is a DOUBLE with all its digits, as in MySQL; MariaDB shows a fixed number of digits',
)
def _(sql, theirs, ours):
    return 'STDDEV' in sql and 'double' in ours.types


@rule(
    'unix-times',
    'UNIX_TIMESTAMP of a moment out of the range of Unix times is 0, as in MySQL; it is NULL in'
    ' MariaDB, whose Unix times end in 2038',
)
def _(sql, theirs, ours):
    return 'UNIX_TIMESTAMP' in sql


@rule(
    'replace-with-null',
    'REPLACE with a NULL is NULL, as in MySQL; MariaDB gives the text if nothing is replaced',
)
def _(sql, theirs, ours):
    return re.search(r'REPLACE\(', sql) is not None and (
        'NULL' in ours.shown()
        or re.search(r"REPLACE\(.*NULL", sql) is not None
        or bool(
            ours.rows is not None
            and theirs.rows
            and len(ours.rows) < len(theirs.rows)
            and re.search('WHERE|HAVING| ON ', sql)
        )
    )


@rule(
    'timediff-of-date',
    'beside a DATE, the other argument of TIMEDIFF is read as a date, as in MySQL; MariaDB gives'
    ' NULL or reads a time',
)
def _(sql, theirs, ours):
    return 'TIMEDIFF' in sql and 'NULL' in theirs.shown() + ours.shown()


@rule(
    'times-between-texts',
    'BETWEEN compares a TIME and texts as texts, unless a column is compared with constants, as in'
    ' MySQL; MariaDB compares them as times',
)
def _(sql, theirs, ours):
    return (
        'BETWEEN' in sql
        and re.search(r"TIME|\bt3?\b(?! [ab]\b)", sql.partition('SELECT')[2].replace(' FROM t', ''))
        is not None
    )


@rule(
    'long-integers-and-texts',
    'integers of more than 15 digits are compared with texts as doubles, as in MySQL, unless a'
    ' BIGINT column meets constants; MariaDB compares some as decimals',
)
def _(sql, theirs, ours):
    return (
        re.search(r'\d{16}', sql + theirs.shown() + ours.shown()) is not None
        and re.search("'| IN |BETWEEN", sql) is not None
    )


@rule(
    'zero-of-a-number',
    'a number may be the zero date in NO_ZERO_DATE, too, as in MySQL; MariaDB gives NULL',
)
def _(sql, theirs, ours):
    return (
        'NULL' in theirs.shown()
        and (
            '0000-00-00' in ours.shown()
            or 'AS DATE' in sql
            and 1292 in theirs.warnings - ours.warnings
        )
        or any(
            a.error == 1292
            and re.match(r"Incorrect (date|datetime) value: '-?0\.\d+'", a.message) is not None
            for a in (theirs, ours)
        )
    )


@rule(
    'enum-into-set',
    'a name that is a number goes into a SET as text, as in MySQL; MariaDB takes some of its bits',
)
def _(sql, theirs, ours):
    return (
        re.search(r'\bs\b', sql) is not None
        and re.search(r'\be\b', sql) is not None
        and re.match('INSERT|REPLACE|UPDATE', sql) is not None
    )


@rule(
    'beyond-times',
    'a TIME is compared with a number that is not a time as a number, as in MySQL; in MariaDB such'
    ' a number equals nothing or everything',
)
def _(sql, theirs, ours):
    return (
        re.search(r'20240229|\b101112\b|\d{9}', sql) is not None
        and re.search(
            r"\bt3?\b|TIME '",
            sql.replace(' FROM t', '').replace('UPDATE t', '').replace('INTO t', ''),
        )
        is not None
    )


def as_numbers(rows):
    """The different rows, in which texts of numbers are numbers."""

    def cell(text):
        try:
            return float(text)
        except (TypeError, ValueError):
            return text

    return {tuple(map(cell, row)) for row in rows or ()}


@rule(
    'union-of-digits',
    'a number in a column of texts of a UNION has the digits of its own column; MariaDB cuts or'
    ' rounds them to the width of a literal',
)
def _(sql, theirs, ours):
    return (
        ' UNION ' in sql
        and 'string' in ours.types
        and as_numbers(theirs.rows) == as_numbers(ours.rows)
    )


def cut(a, b):
    """Whether a value may be `b`, cut to the width of a column."""
    if a == b or a is None or b is None:
        return a == b
    if b.startswith(a) or re.fullmatch(rb'-?9+(\.9+)?', a):
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-6)
    except ValueError:
        return False


@rule(
    'union-cuts',
    'MariaDB cuts some values to the width of the column that it makes for a UNION',
)
def _(sql, theirs, ours):
    by_text = lambda rows: sorted(rows, key=lambda row: [cell or b'' for cell in row])
    pairs = zip(by_text(theirs.rows or ()), by_text(ours.rows or ()))
    return (
        ' UNION ' in sql
        and len(theirs.rows or ()) == len(ours.rows or ())
        and all(cut(a, b) for rows in pairs for a, b in zip(*rows))
    )


@rule(
    'union-of-floats',
    'FLOAT beside an integer literal is FLOAT in a UNION, as in MySQL; MariaDB makes a double',
)
def _(sql, theirs, ours):
    return ' UNION ' in sql and re.search(r'\bfl\b', sql) is not None and 'double' in ours.types


@rule(
    'union-of-integers',
    'a quotient that is no INT is whole in a UNION; MariaDB makes the greatest INT of it',
)
def _(sql, theirs, ours):
    return ' UNION ' in sql and '2147483647' in str(theirs.rows)


@rule(
    'union-of-bits',
    'bits beside decimals and doubles are numbers in a UNION; the column is of texts in MariaDB'
    ' and MySQL',
)
def _(sql, theirs, ours):
    return (
        ' UNION ' in sql
        and re.search(r'\bb1(0)?\b', sql) is not None
        and bool({'decimal', 'double'} & {*ours.types})
        and as_numbers(theirs.rows) == as_numbers(ours.rows)
    )


@rule(
    'union-of-binary',
    'a number beside a BINARY in a UNION is its digits, and so is a BIT beside the sum of a number'
    ' and an interval; MariaDB fills them up with zero bytes',
)
def _(sql, theirs, ours):
    return (
        ' UNION ' in sql
        and re.search(r'\bbn\b|\bb1(0)?\b.*INTERVAL|INTERVAL.*\bb1(0)?\b', sql) is not None
        and '\\x00' in str(theirs.rows)
    )


@rule(
    'bits-into-text',
    'BIT goes into TEXT and BLOB as a number, like into VARCHAR; MariaDB stores bytes there',
)
def _(sql, theirs, ours):
    return re.search(r'\bb1(0)?\b', sql) is not None and re.search(r'\b(tx|bl)\b', sql) is not None


@rule(
    'chosen-bits',
    'IF and COALESCE of BIT give the number, as in MySQL; MariaDB gives bits after DISTINCT and'
    ' GROUP BY',
)
def _(sql, theirs, ours):
    return any(a == 'bit' != b for a, b in zip(theirs.types, ours.types))


@rule(
    'subquery-before-its-query',
    'a subquery is run before the outer query has rows, and may fail (1690) where MariaDB does not'
    ' run it',
)
def _(sql, theirs, ours):
    return ours.error == 1690 and '(SELECT' in sql


@rule(
    'operand-beside-null',
    'beside a NULL, an operand that is not a number is not evaluated; in strict mode MariaDB'
    ' refuses it (1292, 1365)',
)
def _(sql, theirs, ours):
    return (
        theirs.error in (1292, 1365)
        and 'NULL' in sql
        and re.match('INSERT|REPLACE|UPDATE|DELETE', sql) is not None
    )


@rule(
    'last-day-of-all',
    'FROM_DAYS past the year 9999 is the zero date, and its DATEDIFF is NULL, as in MySQL',
)
def _(sql, theirs, ours):
    return 'FROM_DAYS(3652425)' in sql


@rule(
    'distinct-doubles',
    'MariaDB adds distinct doubles in their order, and texts by the number at their beginning',
)
def _(sql, theirs, ours):
    return 'SUM(DISTINCT' in sql and (
        bool({'double'} & {*ours.types, *theirs.types}) or 'TIME' in sql
    )


@rule(
    'sum-of-bytes',
    'SUM and AVG of bytes are doubles with all their digits, as in MySQL; MariaDB shows whole'
    ' numbers',
)
def _(sql, theirs, ours):
    return (
        re.search('SUM|AVG', sql) is not None and re.search('BINARY|UNHEX|BASE64', sql) is not None
    )


@rule(
    'year-with-time',
    'a YEAR and a TIME are compared as numbers, as in MySQL; MariaDB takes both for dates',
)
def _(sql, theirs, ours):
    return (
        re.search(r'\by\b', sql) is not None
        and re.search(r'\bt3?\b', sql.replace(' FROM t', '').replace('UPDATE t', '')) is not None
    )


@rule(
    'quotients',
    'a quotient has all its digits, as in MySQL; MariaDB cuts the quotients of constants and of'
    ' dates',
)
def _(sql, theirs, ours):
    return ' / ' in sql and re.search("[<>=]|BETWEEN| IN |DATE|TIME", sql) is not None


@rule(
    'fraction-with-index',
    'MariaDB finds a time with a fraction in an index of whole seconds, and a number with a'
    ' fraction in an index of years or whole decimals',
)
def _(sql, theirs, ours):
    return (
        re.search(r'\b(ts|ts3|dt|a\.t)\b', sql) is not None
        and re.search(r'\d\d:\d\d:\d\d\.\d', sql) is not None
        or re.search(r'\b(y|dz)\b', sql) is not None
        and re.search(r'[<>=]+ \d+(\.\d|e-)|\d+(\.\d+|e-\d+) [<>=]', sql) is not None
        and bool(theirs.rows)
        and ours.rows is not None
        and len(theirs.rows) > len(ours.rows)
    )


@rule(
    'no-time',
    'TIME of a value that is not a time is NULL, and so are comparisons with it; MariaDB compares'
    ' the text',
)
def _(sql, theirs, ours):
    return re.search(r"TIME\(", sql) is not None and 'NULL' in ours.shown()


@rule('sixty-five-digits', 'MariaDB keeps more decimals of a product with more than 65 digits')
def _(sql, theirs, ours):
    return re.search(r"\d{50}\.\d", ours.shown()) is not None


MINUS_ZERO = re.compile(rb'^-0\.0+$')


def numeric(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def paired(theirs, ours):
    """Pairs of the values of two results, or None if the results have different sizes."""
    if not theirs.rows or not ours.rows or len(theirs.rows) != len(ours.rows):
        return None
    # Texts of one number are equal, so that the other columns decide about their order.
    of_text = lambda v: b'' if v is None or numeric(v) is not None else v
    key = lambda row: [(v is None, numeric(v) is None, numeric(v) or 0.0, of_text(v)) for v in row]
    rows = zip(sorted(theirs.rows, key=key), sorted(ours.rows, key=key))
    return [pair for a, b in rows for pair in zip(a, b)]


def all_like(theirs, ours, like):
    """True if the values of each pair are equal or `like` accepts them. The rows are paired as they
    stand in the answers, or in their order.
    """
    pairs = paired(theirs, ours)
    if pairs is None:
        return False
    as_answered = [pair for a, b in zip(theirs.rows, ours.rows) for pair in zip(a, b)]
    return any(
        all(a == b or a is not None and b is not None and like(a, b) for a, b in pairs)
        for pairs in (pairs, as_answered)
    )


NUMBER = re.compile(rb'(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)')


def numbers_like(theirs, ours, like):
    """Whether every two values are the same but for numbers in them, which are `like`."""

    def same(a, b):
        one, other = NUMBER.split(a), NUMBER.split(b)
        return (
            len(one) == len(other)
            and one[::2] == other[::2]
            and all(x == y or like(x, y) for x, y in zip(one[1::2], other[1::2]))
        )

    return all_like(theirs, ours, same)


def same_float(a, b):
    """Whether two texts of numbers are of one FLOAT, which shows six digits."""
    x, y = float(a), float(b)
    return max(abs(x), abs(y)) < 3.4e38 and (
        struct.pack('f', x) == struct.pack('f', y) or f'{x:.6g}' == f'{y:.6g}'
    )


@rule(
    'zero-year-chosen',
    'the year 0 from CASE, IF or COALESCE is the text 0000, as in MySQL; MariaDB says 0',
)
def _(sql, theirs, ours):
    differ = [(a, b) for a, b in paired(theirs, ours) or () if a != b]
    return (
        re.search(r'CASE|IF|COALESCE', sql) is not None
        and bool(differ)
        and all(a and b and a == b.replace(b'0000', b'0') for a, b in differ)
    )


@rule(
    'texts-of-bits-in-groups',
    'a text with a BIT in it keeps the bytes of the BIT after GROUP BY and DISTINCT; MariaDB loses'
    ' them',
)
def _(sql, theirs, ours):
    differ = [(a, b) for a, b in paired(theirs, ours) or () if a != b]
    return (
        re.search('GROUP BY|DISTINCT', sql) is not None
        and 'CONCAT' in sql
        and bool(differ)
        and all(a is not None and b and a == b.translate(None, bytes(range(32))) for a, b in differ)
    )


def instead(theirs, ours, cut, whole):
    """Whether each of their rows that we lack has a value that is `cut`, and each of our rows that
    they lack one that is `whole`: groups that are cut to the same value are one group.
    """

    def shown(rows):
        return [
            tuple(v if numeric(v) is None else f'{numeric(v):.12g}'.encode() for v in row)
            for row in rows or ()
        ]

    one, other = shown(theirs.rows), shown(ours.rows)
    lacked = [row for row in one if row not in other]
    return (
        bool(lacked)
        and all(any(v and cut(v) for v in row) for row in lacked)
        and all(any(v and whole(v) for v in row) for row in other if row not in one)
    )


@rule(
    'rounded-doubles-in-groups',
    'a double from ROUND or TRUNCATE stays unchanged after DISTINCT and GROUP BY; MariaDB keeps it'
    ' in a column of too few digits and cuts it',
)
def _(sql, theirs, ours):
    return (
        re.search('GROUP BY|DISTINCT', sql) is not None
        and re.search('ROUND|TRUNCATE', sql) is not None
        and 'double' in ours.types
        and instead(
            theirs,
            ours,
            lambda a: re.fullmatch(rb'-?(10{5,}|9{6,})', a),
            lambda b: abs(numeric(b) or 0) > 99999,
        )
    )


@rule(
    'groups-of-minus-zero',
    'MariaDB distinguishes -0.0 and 0.0 in GROUP BY and DISTINCT; MySQL and Redolith do not',
)
def _(sql, theirs, ours):
    return (
        re.search('GROUP BY|DISTINCT', sql) is not None
        and any(v and MINUS_ZERO.match(v) for row in theirs.rows or () for v in row)
        and len(ours.rows or ()) < len(theirs.rows)
    )


@rule(
    'outer-joins-of-functions',
    'MariaDB believes that INTERVAL() or FIELD() with a NULL refuses the rows that an outer join'
    ' has filled up',
)
def _(sql, theirs, ours):
    return (
        re.search('INTERVAL\\(|FIELD\\(', sql) is not None
        and 'LEFT JOIN' in sql
        and len(theirs.rows or ()) < len(ours.rows or ())
    )


@rule(
    'timediff-of-number',
    'beside a moment, TIMEDIFF reads a number as a moment in strict mode, too, which fails (1292),'
    ' as in MySQL; MariaDB gives NULL and goes on',
)
def _(sql, theirs, ours):
    return 'TIMEDIFF(' in sql and ours.error == 1292 and theirs.error in (0, 1048, 1062)


@rule(
    'weeks-of-times',
    'a TIME plus weeks, months or years is a moment counted from today, as in MySQL 8.0.28;'
    ' MariaDB does not add these to a TIME',
)
def _(sql, theirs, ours):
    return (
        re.search(r'INTERVAL \S+ (WEEK|MONTH|QUARTER|YEAR)', sql) is not None
        and 1441 in theirs.warnings - ours.warnings
    )


@rule(
    'groups-of-quotients',
    'quotients that show the same digits form one group, as in MySQL; MariaDB groups by more'
    ' digits',
)
def _(sql, theirs, ours):
    return (
        re.search('GROUP BY|DISTINCT', sql) is not None
        and ' / ' in sql
        and len(theirs.rows or ()) > len(ours.rows or ())
        and {tuple(row) for row in theirs.rows} == {tuple(row) for row in ours.rows or ()}
    )


@rule(
    'scale-of-quotients',
    'ROUND and TRUNCATE to more digits than a DECIMAL has leave it unchanged, as in MySQL; MariaDB'
    ' finds more digits',
)
def _(sql, theirs, ours):
    def rounded(a, b):
        x, y = numeric(a), numeric(b)
        digits = len(b.partition(b'.')[2])
        return (
            x is not None and y is not None and b'e' not in b and abs(x - y) <= 1.01 * 10.0**-digits
        )

    return (
        re.search('ROUND|TRUNCATE', sql) is not None
        and ('/' in sql or 'AVG' in sql)
        and all_like(theirs, ours, rounded)
    )


@rule(
    'doubles-of-char',
    'MariaDB shows -CAST(x AS CHAR) and CAST(x AS CHAR) + 0 without decimals, also of CASTs to'
    ' BINARY',
)
def _(sql, theirs, ours):
    def whole(a, b):
        x, y = numeric(a), numeric(b)
        return x is not None and y is not None and b'.' not in a[:-1] and abs(x - y) <= 0.5

    return re.search(
        r'\(-\(*CAST\(.* AS (CHAR|BINARY)|AS (CHAR|BINARY)(\(\d\))?\) \+ 0', sql
    ) is not None and all_like(theirs, ours, whole)


@rule(
    'round-beyond-precision',
    'MariaDB cuts the ROUND of a DECIMAL in a temporary table to the digits of the operand',
)
def _(sql, theirs, ours):
    return 'ROUND' in sql and all_like(
        theirs,
        ours,
        lambda a, b: (
            re.fullmatch(rb'-?9+(\.9+)?', a) is not None
            and re.fullmatch(rb'-?10+(\.0+)?', b) is not None
            or (a, b) == (b'0', b'0000')
        ),
    )


@rule(
    'least-integer-in-groups',
    'the least BIGINT, chosen beside an unsigned integer, does not fit into the column that'
    ' MariaDB makes for it in a temporary table',
)
def _(sql, theirs, ours):
    return (
        re.search('DISTINCT|GROUP BY', sql) is not None
        and '-9223372036854775808' in sql
        and '8000000000000000' in str(ours.rows)
    )


@rule(
    'distinct-rounds',
    'MariaDB adds distinct ROUNDs of a DECIMAL that it has cut to the digits of the operand',
)
def _(sql, theirs, ours):
    return (
        re.search(r'(SUM|AVG)\(DISTINCT (ROUND|TRUNCATE)\(', sql) is not None
        and 'decimal' in ours.types
    )


@rule(
    'double-in-temporary-table',
    'MariaDB cuts a DOUBLE with fixed digits to 17 digits in a temporary table',
)
def _(sql, theirs, ours):
    def cut(a, b):
        x, y = numeric(a), numeric(b)
        return x is not None and y is not None and abs(y) > abs(x) >= 1e16

    return (
        re.search('DISTINCT|GROUP BY', sql) is not None
        and 'double' in ours.types
        and all_like(theirs, ours, cut)
    )


@rule(
    'chosen-floats',
    'a choice among FLOAT and integers other than INT is a FLOAT, as in MySQL; MariaDB makes it a'
    ' DOUBLE beside BIGINT and literals, and in a temporary table',
)
def _(sql, theirs, ours):
    return (
        re.search('DISTINCT|GROUP BY|IF|COALESCE|CASE|GREATEST|LEAST', sql) is not None
        and re.search(r'\bfl\b', sql) is not None
        and numbers_like(theirs, ours, same_float)
    )


@rule(
    'cast-to-unsigned',
    'CAST of a negative number AS UNSIGNED is its complement, as in MySQL; MariaDB gives 0 for'
    ' numbers with a fraction (1916)',
)
def _(sql, theirs, ours):
    return 'AS UNSIGNED' in sql and 1916 in theirs.warnings


@rule(
    'microseconds-past-times',
    'a TIME with microseconds past 838:59:59 is out of range (1441), as in MySQL; MariaDB goes up'
    ' to 838:59:59.999999',
)
def _(sql, theirs, ours):
    return (
        1441 in ours.warnings - theirs.warnings
        and 'INTERVAL' in sql
        and re.search(r"\bt3?\b(?! [ab]\b)|TIME", sql.replace(' FROM t', '')) is not None
    )


@rule(
    'great-numbers-as-times',
    'a number of eleven digits without a month is not a moment, and it is out of range as a TIME:'
    ' ADDTIME and SUBTIME give NULL, as in MySQL',
)
def _(sql, theirs, ours):
    changed = re.match('SELECT', sql) is None
    return re.search(r'(ADD|SUB)TIME\(.*(1e10|\bfl\b|\bdb\b)', sql) is not None and (
        changed or 'NULL' in ours.shown()
    )


@rule(
    'zero-date-of-fractions',
    'TIMESTAMP of a number below 1 is the zero date with a fraction, as in MySQL; MariaDB gives'
    ' NULL, which no column accepts',
)
def _(sql, theirs, ours):
    return re.search(r'TIMESTAMP\(0\.\d', sql) is not None and (
        theirs.error == 1048 or 'NULL' in theirs.shown()
    )


@rule(
    'sign-of-nullif',
    'NULLIF, IFNULL, COALESCE, IF and CASE of a negative TIME keep its sign in arithmetic, as in'
    ' MySQL',
)
def _(sql, theirs, ours):
    def sign(a, b):
        x, y = numeric(a), numeric(b)
        return x is not None and y is not None

    return (
        re.search(r'(NULLIF|IFNULL|COALESCE|IF)\(.*\) [-+*/]|CASE.* END [-+*/]', sql) is not None
        and all_like(theirs, ours, sign)
        and re.search(r"TIME|\bt3?\b(?! [ab]\b)", sql.replace(' FROM t', '')) is not None
    )


@rule(
    'zeros-of-nullif',
    'NULLIF of a ZEROFILL column is text with the zeros of the column, as in MySQL; without them in'
    ' MariaDB',
)
def _(sql, theirs, ours):
    return re.search(r'NULLIF\((a\.|b\.)?iz\b', sql) is not None and all_like(
        theirs, ours, lambda x, y: x.replace(b'0', b'') == y.replace(b'0', b'')
    )


@rule(
    'sum-of-chosen-bytes',
    'a hexadecimal literal that was chosen is a text for SUM and AVG, as in MySQL; a number in'
    ' MariaDB',
)
def _(sql, theirs, ours):
    return (
        re.search(r'(SUM|AVG)\(.*(IFNULL|COALESCE|IF|NULLIF|CASE)\b.*0x', sql) is not None
        and 'double' in ours.types
        and 'double' not in theirs.types
    )


@rule(
    'distinct-hexadecimal', 'MariaDB adds the first digit of a hexadecimal number in SUM(DISTINCT)'
)
def _(sql, theirs, ours):
    return 'SUM(DISTINCT 0x' in sql and all_like(
        theirs, ours, lambda a, b: numeric(a) is not None and numeric(b) is not None
    )


@rule(
    'years-and-texts',
    'a YEAR is compared with a text that is not a year as a number, as in MySQL; MariaDB takes the'
    ' year at the beginning of the text',
)
def _(sql, theirs, ours):
    return (
        re.search(r"\by (?:[<>=]+ |BETWEEN |NOT BETWEEN |IN \()[^()]*(' 7x'|'-?\d+:\d\d:)", sql)
        is not None
    )


@rule(
    'no-logarithm',
    'a number without a logarithm gives a warning (3020), in strict mode an error, as in MySQL; in'
    ' MariaDB it gives a division by zero (1365) or nothing',
)
def _(sql, theirs, ours):
    return ours.error == 3020


@rule(
    'minus-zero-doubles', 'a DOUBLE changes from 0 to -0, as in MySQL; MariaDB leaves it unchanged'
)
def _(sql, theirs, ours):
    return (
        re.match('UPDATE', sql) is not None
        and not (theirs.error or ours.error)
        and theirs.rows is None
        and theirs.affected < ours.affected
        and re.search(r'\* -|-\d\S* \*|\(-|e0 \*|\* \S*e0', sql) is not None
    )


@rule(
    'minus-zero-in-subqueries',
    'MariaDB does not find -0.0 among the values of a subquery that contain 0',
)
def _(sql, theirs, ours):
    return (
        re.search(r'(%|MOD).* IN \(SELECT', sql) is not None
        and 'NOT IN' not in sql
        and len(theirs.rows or ()) < len(ours.rows or ())
    )


@rule(
    'years-and-moments',
    'beside a date that is not a constant, a YEAR stands for day 0 of its year; MariaDB compares'
    ' it with the year of the date',
)
def _(sql, theirs, ours):
    return (
        re.search(
            r'\by (NOT )?IN \(SELECT [^'
            r' ]*(DATE|TIME|TIMESTAMP|INTERVAL|\bd\b|\bdt\b|\bd6\b|\bts3?\b)',
            sql,
        )
        is not None
    )


@rule(
    'zeros-of-literals',
    'a zero that results from numbers with decimals is stored with their decimals; MariaDB and'
    ' MySQL store it without decimals: open',
)
def _(sql, theirs, ours):
    return re.search(r'\d\.\d|\bd[ez]\b', sql) is not None and all_like(
        theirs, ours, lambda a, b: a == b'0' and re.fullmatch(rb'-?0\.0+', b) is not None
    )


@rule(
    'integers-of-moments',
    'a moment with a fraction is rounded when it becomes an integer, as in MySQL; MariaDB cuts it'
    ' after functions',
)
def _(sql, theirs, ours):
    stored = (
        re.match('INSERT|REPLACE|UPDATE', sql) is not None
        and re.search(r"\.\d|FRAC|MICRO|\b(d6|ts3|t3)\b", sql) is not None
    )
    counted = theirs.rows is None and not (theirs.error or ours.error)
    if stored and counted and re.search(r'\b(ti|tu|si|mi|i|iu|iz|bi|bu) = .*TIME', sql):
        return True
    return (stored or re.search('AS (UN)?SIGNED', sql) is not None) and all_like(
        theirs,
        ours,
        lambda a, b: (
            a.lstrip(b'-').isdigit()
            and b.lstrip(b'-').isdigit()
            and abs(int(b)) - abs(int(a)) in (1, 41, 4041)
        ),
    )


@rule(
    'numbers-into-sets',
    'a text with a number beyond the members of a SET stands for none of them, as in MySQL;'
    ' MariaDB takes some of its bits',
)
def _(sql, theirs, ours):
    counted = (
        theirs.rows is None
        and 1265 in theirs.warnings & ours.warnings
        and re.search(r'\bs = ', sql) is not None
    )
    return re.match('INSERT|REPLACE|UPDATE', sql) is not None and (
        counted
        or all_like(
            theirs, ours, lambda a, b: b == b'' and re.fullmatch(rb'[xyz](,[xyz])*', a) is not None
        )
    )


@rule(
    'hexadecimal-through-nullif',
    'NULLIF of a hexadecimal literal is stored as text, as in MySQL; MariaDB stores the number',
)
def _(sql, theirs, ours):
    return (
        re.match('INSERT|REPLACE|UPDATE', sql) is not None
        and 'NULLIF(0x' in sql
        and ours.warnings | {ours.error} != theirs.warnings | {theirs.error}
    )


@rule(
    'names-first', 'an unknown name (1054) is reported before a column missing in GROUP BY (1055)'
)
def _(sql, theirs, ours):
    return (theirs.error, ours.error) == (1055, 1054)


@rule(
    'unsigned-beside-times',
    'a TIME or a date is an integer in arithmetic, and beside an unsigned integer the result is'
    ' unsigned (1690 below 0), as in MySQL; MariaDB calculates with decimals',
)
def _(sql, theirs, ours):
    return (
        ours.error == 1690
        and re.search(r'BIGINT UNSIGNED value .*(`(t|d|dt|ts|y)`|time|date)', ours.message)
        is not None
    )


@rule('minus-no-time', 'a TIME of 0 has no sign, as in MySQL')
def _(sql, theirs, ours):
    return all_like(theirs, ours, lambda a, b: a == b'-' + b and b.strip(b'0:.') == b'')


@rule(
    'digits-of-parameters',
    'a parameter of TIMEDIFF is a TIME with six decimals, as in MySQL 8.0.22; a literal has the'
    ' decimals that are written',
)
def _(sql, theirs, ours):
    return 'TIMEDIFF(' in sql and all_like(
        theirs,
        ours,
        lambda a, b: (
            numeric(a) is not None and numeric(a) == numeric(b) and b.rstrip(b'0') == a.rstrip(b'0')
        ),
    )


@rule(
    'negative-numbers-into-bits',
    'a number that BIT cannot hold sets all its bits, as in MySQL; MariaDB takes a negative number'
    ' from COALESCE for a DECIMAL and stores 0',
)
def _(sql, theirs, ours):
    return re.match('INSERT|REPLACE|UPDATE', sql) is not None and all_like(
        theirs, ours, lambda a, b: not a.strip(b'\0') and b in (b'\x01', b'\x03\xff')
    )


@rule(
    'ignored-overflows',
    'IGNORE does not turn an overflow in a calculation (1690) into a warning, as in MySQL; in'
    ' MariaDB it does',
)
def _(sql, theirs, ours):
    return ours.error == 1690 and not theirs.error and ' IGNORE ' in sql


@rule(
    'latin1-in-subqueries',
    'a text of latin1 is compared with texts of a subquery in utf8mb4 by the collation of utf8mb4,'
    ' as in MySQL; in MariaDB by the collation of latin1',
)
def _(sql, theirs, ours):
    return re.search(r'\bl1\b.* IN \(SELECT .*\bvb\b', sql) is not None and theirs.rows != ours.rows


@rule(
    'cut-noons', 'MariaDB cuts the PM of %r in a temporary table if the hours have three digits'
)
def _(sql, theirs, ours):
    return '%r' in sql and all_like(
        theirs, ours, lambda a, b: b.startswith(a) and b[-2:] in (b'AM', b'PM')
    )


@rule(
    'ord-of-four-bytes',
    'ORD of a character of several bytes does not fit into the column of MariaDB in a temporary'
    ' table',
)
def _(sql, theirs, ours):
    return 'ORD(' in sql and all_like(
        theirs,
        ours,
        lambda a, b: (
            numeric(b) is not None
            and 2**16 <= numeric(b) < 2**32
            and (a == b'2147483647' or b.startswith(a))
        ),
    )


@rule(
    'rounded-decimals-in-groups',
    'a ROUND of a DECIMAL in GROUP BY does not fit into the temporary table of MariaDB (1916), and'
    ' MariaDB finds equal values twice',
)
def _(sql, theirs, ours):
    return (
        1916 in theirs.warnings - ours.warnings
        and re.search('ROUND|TRUNCATE', sql) is not None
        and re.search('GROUP BY|DISTINCT', sql) is not None
    )


@rule(
    'no-integer-1916',
    'in strict mode MariaDB refuses numbers beyond 64 bits where an integer is wanted (1916, which'
    ' MySQL does not have)',
)
def _(sql, theirs, ours):
    return theirs.error == 1916


@rule(
    'quotients-into-texts',
    'a quotient is stored as text with the digits that it shows; MariaDB stores nine or more'
    ' decimals',
)
def _(sql, theirs, ours):
    def shorter(a, b):
        x, y, digits = numeric(a), numeric(b), len(b.partition(b'.')[2])
        return (
            x is not None
            and y is not None
            and b'e' not in b
            and len(a) > len(b)
            and digits >= 4
            and abs(x - y) <= 0.51 * 10.0**-digits
        )

    return (
        re.match('INSERT|REPLACE|UPDATE', sql) is not None
        and ' / ' in sql
        and 'string' in ours.types
        and all_like(theirs, ours, shorter)
    )


@rule(
    'doubles-as-text', 'the last digits of a DOUBLE in a text, and from where on it has an exponent'
)
def _(sql, theirs, ours):
    return numbers_like(
        theirs,
        ours,
        lambda x, y: (
            max(len(x), len(y)) > 15 and math.isclose(float(x), float(y), rel_tol=1e-14)
        ),
    )


@rule(
    'casts-of-one',
    'MariaDB takes two CASTs of one value for the same value in a condition that compares them,'
    ' whatever the CASTs make of it',
)
def _(sql, theirs, ours):
    return (
        re.search(
            r'CAST\((.+) AS ([A-Z]+)(\(\d+(,\d+)?\))?\) [<>=]+ CAST\(\1 AS \2\b', sql
        )
        is not None
    )


@rule(
    'halves-into-bits',
    'half of an odd number rounds to the even one where a DOUBLE becomes bits, as in MySQL; away'
    ' from 0 in MariaDB',
)
def _(sql, theirs, ours):
    return (
        re.match('SELECT', sql) is None
        and re.search(r'[&|^~]|<<|>>', sql) is not None
        and re.search(r"\b(fl|db)\b|\de[-\d]|'-?\d*\.5'", sql) is not None
        and not (theirs.error or ours.error)
    )


@rule(
    'quotients-in-groups',
    'an integer quotient does not fit into the INT that MariaDB makes of it in a temporary table',
)
def _(sql, theirs, ours):
    return (
        re.search('DISTINCT|GROUP BY', sql) is not None
        and ' DIV ' in sql
        and instead(
            theirs,
            ours,
            lambda a: a in (b'2147483647', b'-2147483648'),
            lambda b: abs(numeric(b) or 0) >= 2**31,
        )
    )


@rule(
    'bytes-in-groups',
    'MariaDB counts characters for the width of a temporary table\'s column of bytes, and cuts a'
    ' text of several bytes a character that is among them',
)
def _(sql, theirs, ours):
    return (
        re.search('DISTINCT|GROUP BY', sql) is not None
        and re.search("0x|X'|BINARY|UNHEX|BASE64|\\b(bn|vn|bl|b1|b10)\\b", sql) is not None
        and all_like(
            theirs, ours, lambda a, b: b.startswith(a) and any(byte > 127 for byte in b)
        )
    )


@rule(
    'quotients-of-texts',
    'a quotient of what a function gives as text has all its digits, as in MySQL; MariaDB cuts'
    ' them to four',
)
def _(sql, theirs, ours):
    def cut(a, b):
        x, y, digits = numeric(a), numeric(b), len(a.partition(b'.')[2])
        return (
            x is not None
            and y is not None
            and b'e' not in a
            and 4 <= digits < len(b.partition(b'.')[2])
            and abs(x - y) <= 0.51 * 10.0**-digits
        )

    return (
        ' / ' in sql
        and re.search(
            r'\b(HEX|BIN|OCT|CONV|MD5|SHA1|UNHEX|TO_BASE64|FROM_BASE64|SPACE)\(|AS BINARY', sql
        )
        is not None
        and 'double' in ours.types
        and all_like(theirs, ours, cut)
    )


@rule(
    'order-of-conditions',
    'each server chooses the condition of a join that it evaluates first and that may fail (1690),'
    ' even if there are no rows; MariaDB looks for a constant among the terms of an OR first',
)
def _(sql, theirs, ours):
    chosen = ' JOIN ' in sql or re.search(r" OR [-\d'(]", sql) is not None
    return chosen and {theirs.error, ours.error} == {0, 1690}


@rule(
    'casts-of-bytes',
    'a CAST of bytes that are not text is NULL with a warning (1300), as in MySQL; MariaDB writes'
    ' ? for them',
)
def _(sql, theirs, ours):
    return re.search(r'AS CHAR|CONVERT\(', sql) is not None and (
        1300 in (theirs.warnings | ours.warnings) or 1300 in (theirs.error, ours.error)
    )


@rule(
    'bytes-in-unions',
    'bytes that are not text stay beside text in a UNION; MariaDB writes ? for them',
)
def _(sql, theirs, ours):
    return ' UNION ' in sql and all_like(theirs, ours, lambda a, b: b'?' in a and b'?' not in b)


@rule(
    'union-of-quotients',
    'a quotient beside a text in a UNION has the digits of a quotient; MariaDB adds digits',
)
def _(sql, theirs, ours):
    return (
        ' UNION ' in sql
        and ' / ' in sql
        and numbers_like(
            theirs, ours, lambda a, b: abs(float(a) - float(b)) <= 0.51 * 10.0**-4
        )
    )


@rule(
    'decimals-of-names',
    'a name of a day or month is a DOUBLE with all its digits in arithmetic, as in MySQL; MariaDB'
    ' shows a fixed number of them',
)
def _(sql, theirs, ours):
    def cut(a, b):
        digits = len(a.partition(b'.')[2])
        return abs(float(a) - float(b)) <= 0.51 * 10.0**-digits

    return re.search(r'(MONTH|DAY)NAME\(', sql) is not None and numbers_like(theirs, ours, cut)


CONVERSIONS = {1264, 1265, 1292, 1366, 1406, 1411, 1441, 1690, 167, 1048, 1365}


@rule(
    'another-first',
    'if several values do not fit, Redolith names the first in the order of the table, MariaDB the'
    ' first in the given order',
)
def _(sql, theirs, ours):
    return (
        bool(theirs.error and ours.error)
        and {theirs.error, ours.error} <= CONVERSIONS
        and re.match('INSERT|REPLACE|UPDATE', sql) is not None
    )


# A fraction of zeros and a zero year, which the two servers print differently in expressions.
# DECIMAL has up to 38 decimals in MariaDB and up to 30 in MySQL.
LONG_SCALE = re.compile(rb'(\.\d{30})\d+$')
ZEROS = re.compile(rb'(:\d\d(?:\.\d*?[1-9])?)\.?0+$')


DECIMAL = re.compile(rb'^-?\d+\.\d+$')
MINUS_NOTHING = re.compile(rb'^-(0\.0+)$')


def normal(value, folded, round_scale):
    """A value without the details in which its print may differ."""
    if value is None:
        return None
    value = (
        ZEROS.sub(rb'\1', value)
        if b':' in value and b'.' in value
        else b'0'
        if value == b'0000'
        else value
    )
    value = LONG_SCALE.sub(rb'\1', value)
    # The remainder of a negative number has its sign, even if the remainder is 0.
    value = MINUS_NOTHING.sub(rb'\1', value)
    if DECIMAL.match(value) and round_scale:
        value = value.rstrip(b'0').rstrip(b'.')
    return value.decode('utf-8', 'replace').casefold().rstrip().encode() if folded else value


def differs(sql, theirs, ours, ordered, same_rows, warnings=False):
    """A word for the difference, or None if there is none."""
    if theirs.error or ours.error:
        return None if theirs.error == ours.error else 'error'
    if (theirs.rows is None) != (ours.rows is None):
        return 'kind of answer'
    if theirs.rows is not None:
        # Each server may choose which of several equal texts stands for all.
        folded = re.search('DISTINCT|GROUP BY|MIN|MAX|GREATEST|LEAST', sql) is not None
        # ROUND to more digits than there are adds zeros in MariaDB. TIME of a text has six digits
        # in MySQL. The digits of a parameter are known late.
        rounds = re.search(r'ROUND|TRUNCATE|\bTIME\(|ADDTIME|SUBTIME', sql) is not None
        a, b = (
            [[normal(v, folded, rounds) for v in row] for row in rows]
            for rows in (theirs.rows, ours.rows)
        )
        if not same_rows(
            a,
            b,
            ['double' if 'double' in pair else pair[0] for pair in zip(ours.types, theirs.types)],
            ordered,
        ):
            return 'rows'
        return (
            'types'
            if [LOOSE.get(t, t) for t in theirs.types] != [LOOSE.get(t, t) for t in ours.types]
            and 'NULL' not in sql
            else None
        )
    if theirs.affected != ours.affected:
        return 'affected'
    return 'warnings' if warnings and theirs.warnings != ours.warnings else None


# Rewritten statements for MariaDB. If MariaDB then gives Redolith's answer, the difference is
# explained.
REWRITINGS = []


def rewriting(name, reason):
    def make(f):
        REWRITINGS.append((name, reason, f))
        return f

    return make


@rewriting('index', 'MariaDB gives different answers with and without an index')
def _(sql):
    if not re.match('SELECT', sql):
        return []
    return [
        re.sub(r'\b(FROM|JOIN) t\b', r'\1 n', sql),
        re.sub(r'\b((?:FROM|JOIN) (?:t a|u b|t|u)\b)', r'\1 USE INDEX ()', sql),
    ]


DATED = re.compile(
    r"DATE|TIMESTAMP|CONVERT_TZ|FROM_|INTERVAL|LAST_DAY|ADDTIME|SUBTIME|"
    r"(?<![.\w'])(?:[ab]\.)?(?:d|dt|d6|ts|ts3)\b"
)
COMPARISON = re.compile(r' (?:<=>|<=|>=|<>|=|<|>|NOT BETWEEN|BETWEEN|AND|NOT IN|IN) |, ')


def parentheses(sql):
    """The ranges of the text in parentheses. Quoted texts are kept together."""
    open, quoted, at = [], False, 0
    while at < len(sql):
        c = sql[at]
        if quoted:
            at += c == '\\'
            quoted = c != "'"
        elif c == "'":
            quoted = True
        elif c == '(':
            open.append(at + 1)
        elif c == ')' and open:
            yield open.pop(), at
        at += 1


def operands(sql):
    """The ranges of the operands of comparisons and lists."""
    inner = list(parentheses(sql))
    for begin, end in inner:
        cuts = [
            m
            for m in COMPARISON.finditer(sql, begin, end)
            if not any(begin < b <= m.start() < e for b, e in inner)
            and sql.count("'", begin, m.start()) % 2 == 0
        ]
        edges = [begin, *(edge for m in cuts for edge in m.span()), end]
        for a, b in zip(edges[::2], edges[1::2]) if cuts else []:
            yield a, b


@rewriting(
    'dates-as-numbers',
    'a date is compared as a number with a number that is not a constant or not a date, as in'
    ' MySQL; MariaDB compares dates',
)
def _(sql):
    found = [(a, b) for a, b in operands(sql) if DATED.search(sql, a, b)]
    together = sql
    for a, b in sorted((a, b) for a, b in found if not any(c < a and b < d for c, d in found))[
        ::-1
    ]:
        together = together[:a] + f'({together[a:b]} + 0)' + together[b:]
    return [sql[:a] + f'({sql[a:b]} + 0)' + sql[b:] for a, b in found[:12]] + [together]


@rewriting(
    'minus-zero',
    'the remainder of a negative DECIMAL may be 0, which MariaDB distinguishes from -0.0 in'
    ' comparisons',
)
def _(sql):
    inner = list(parentheses(sql))

    def own(a, b):
        """The text in these parentheses without the text in inner parentheses."""
        return ''.join(
            c for i, c in enumerate(sql[a:b], a) if not any(a < x <= i < y for x, y in inner)
        )

    places = [
        (a - 4 if sql[a - 4 : a] == 'MOD(' else a - 1, b + 1)
        for a, b in inner
        if sql[a - 4 : a] == 'MOD(' or ' % ' in own(a, b)
    ]
    opened, closed = [a for a, _ in places], [b for _, b in places]
    return (
        [
            ''.join(
                '(' * opened.count(i) + c + ' + 0)' * closed.count(i + 1) for i, c in enumerate(sql)
            )
        ]
        if places
        else []
    )


@rewriting(
    'char-of-numbers',
    'a number cast to a text is compared as this text; MariaDB compares it without decimals',
)
def _(sql):
    places = [
        (a - 5, b)
        for a, b in parentheses(sql)
        if sql[a - 5 : a] == 'CAST(' and re.search(r' AS CHAR(\(\d+\))?$', sql[a:b])
    ]
    opened, closed = [a for a, _ in places], [b for _, b in places]
    return (
        [
            ''.join(
                'CONCAT(' * opened.count(i) + c + ')' * closed.count(i) for i, c in enumerate(sql)
            )
        ]
        if places
        else []
    )


def extremes(sql):
    """The place of each call of GREATEST and LEAST, and the ranges of its arguments."""
    inner = list(parentheses(sql))
    for begin, end in inner:
        name = EXTREME.search(sql, max(begin - 9, 0), begin)
        if name is None:
            continue
        commas = [
            i
            for i in range(begin, end)
            if sql[i] == ','
            and not any(begin < a <= i < b for a, b in inner)
            and len(re.findall(r"(?<!\\)'", sql[begin:i])) % 2 == 0
        ]
        edges = [begin, *(edge for i in commas for edge in (i, i + 1)), end]
        yield (name.start(), end + 1), list(zip(edges[::2], edges[1::2]))


@rewriting(
    'extremes-of-texts',
    'GREATEST and LEAST compare numbers with texts, and a TIME with texts, as texts, as in MySQL,'
    ' and their result is a text where a number is wanted; MariaDB compares numbers and times.'
    ' Beside a date both compare dates',
)
def _(sql):
    places = [
        place
        for call, arguments in extremes(sql)
        if not any(DATED.search(sql, a, b) for a, b in arguments)
        and any(MAYBE_TEXT.search(sql, a, b) for a, b in arguments)
        for place in [call, *arguments]
    ]
    opened, closed = [a for a, _ in places], [b for _, b in places]
    return (
        [
            ''.join(
                ')' * closed.count(i) + 'CONCAT(' * opened.count(i) + c
                for i, c in enumerate(sql + ' ')
            )
        ]
        if places
        else []
    )


def rewritten(sql, same):
    """The name of the rewriting that removes a difference. `same` asks MariaDB."""
    return next(
        (name for name, _, f in REWRITINGS for other in f(sql) if other != sql and same(other)),
        None,
    )

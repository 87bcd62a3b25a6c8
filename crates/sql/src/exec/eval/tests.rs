//! Expressions, each with the text that a SELECT of MySQL 8.0 shows for it.
use super::{Eval, Scope};
use crate::exec::fixture::Server;
use crate::exec::tests::Client;
use crate::exec::{Env, NoVariables, StatementSettings};
use crate::plan::{ArithOp, Expr, ExprKind, ExprType, Statement};
use redolith_types::{Decimal, Value};

fn check(cases: &[(&str, &str)]) {
    let server = Server::new();
    let mut c = Client::new(&server);
    for (text, wanted) in cases {
        assert_eq!(c.rows(&format!("SELECT {text}"), &[]), *wanted, "{text}");
    }
}

/// Tests EVAL-2.
#[test]
fn three_valued_logic_and_comparisons() {
    check(&[
        (
            "NULL AND 0, NULL AND 1, NULL OR 1, NULL OR 0, NOT NULL, 1 XOR NULL, 1 XOR 0",
            "0,NULL,1,NULL,NULL,NULL,1",
        ),
        ("1 = 1.0, 'a' = 'A ', 'a' = BINARY 'A', '10' = 10, 'x' = 0, '1e1' = 10", "1,1,0,1,1,1"),
        ("NULL = NULL, NULL <=> NULL, 1 <=> NULL, NULL <> 1", "NULL,1,0,NULL"),
        (
            "2 BETWEEN 1 AND 3, 2 BETWEEN NULL AND 1, 2 BETWEEN NULL AND 3, 2 NOT BETWEEN 3 AND 4",
            "1,0,NULL,1",
        ),
        (
            "1 IN (1, NULL), 2 IN (1, NULL), 2 IN (1, 3), 5 IN (9, 7, 5, 3, 1), 6 NOT IN (9, 7, 5, \
                3, 1)",
            "1,NULL,0,1,1",
        ),
        ("'b' IN ('a', 'B', 'c', 'd', 'e')", "1"),
        ("NULL IS NULL, 0 IS FALSE, NULL IS NOT TRUE, 3 IS TRUE, NULL IS UNKNOWN", "1,1,1,1,1"),
        ("18446744073709551615 > -1, 9223372036854775807 < 9223372036854775808, -1 < 0.5", "1,1,1"),
        (
            "DATE '2024-01-02' = '2024-01-02', TIMESTAMP '2024-01-02 00:00:00' = DATE \
                '2024-01-02', '2024-01-02' < DATE '2024-01-03'",
            "1,1,1",
        ),
        (
            "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, CASE WHEN NULL THEN 1 ELSE 2 END, CASE 5 \
                WHEN 1 THEN 1 END",
            "b,2,NULL",
        ),
        (
            "IF(1, 'y', 'n'), IFNULL(NULL, 3), NULLIF(1, 1), NULLIF(1, 2), COALESCE(NULL, NULL, \
                'z'), ISNULL(NULL)",
            "y,3,NULL,1,z,1",
        ),
        ("GREATEST(1, 3, 2), LEAST(1.5, 3), GREATEST('b', 'A'), GREATEST(1, NULL)", "3,1.5,b,NULL"),
        (
            "FIELD('b', 'a', 'B'), ELT(2, 'a', 'b'), ELT(3, 'a'), INTERVAL(23, 1, 15, 17, 30, 44)",
            "2,b,NULL,3",
        ),
    ]);
}

#[test]
fn arithmetic() {
    check(&[
        ("1 + 2, 5 - 7, 3 * 4, 7 / 2, 7 DIV 2, 7 % 3, -7 % 3, 7 MOD -3", "3,-2,12,3.5000,3,1,-1,1"),
        (
            "1.5 + 2, 1.10 * 2, 1 / 3, 2.0 / 3, 1e1 + 1, '2' + 3, '1.5x' * 2",
            "3.5,2.20,0.3333,0.66667,11,5,3",
        ),
        (
            "1 / 3 * 100, 1 / 3 * 3, 1 / 3 = 0.3333, CONCAT(2 / 3), IFNULL(NULL, 1 / 3) * 3, AVG(1 \
                / 3) * 3",
            "33.3333,1.0000,0,0.6667,1.0000,1.00000000",
        ),
        ("1 / 0, 1 DIV 0, 1 % 0, 1e0 / 0", "NULL,NULL,NULL,NULL"),
        (
            "5 & 3, 5 | 3, 5 ^ 3, 1 << 4, 256 >> 4, ~0, 1 << 64, -1 & 255",
            "1,7,6,16,16,18446744073709551615,0,255",
        ),
        ("-5, -(-5), -1.5, -'3'", "-5,5,-1.5,-3"),
        ("ABS(-3), ABS(-3.5), CEIL(1.2), FLOOR(-1.2), SIGN(-2), SIGN(0)", "3,3.5,2,-2,-1,0"),
        (
            "ROUND(2.5), ROUND(-2.5), ROUND(1.005, 2), ROUND(1234, -2), ROUND(2.5e0), \
                TRUNCATE(1.999, 1), TRUNCATE(-1.9, 0)",
            "3,-3,1.01,1200,2,1.9,-1",
        ),
        (
            "SQRT(16), SQRT(-1), POW(2, 10), LOG(0), LOG2(8), LOG10(100), EXP(0), LN(1), LOG(2, 8)",
            "4,NULL,1024,NULL,3,2,1,0,3",
        ),
        ("PI() > 3.14, DEGREES(PI()), RADIANS(180) = PI(), ATAN(1, 1) = PI() / 4", "1,180,1,1"),
        (
            "CRC32('MySQL'), BIT_COUNT(7), CONV('a', 16, 2), CONV(-17, 10, -18), BIN(5), OCT(9), \
                HEX(255)",
            "3259397556,3,1010,-H,101,11,FF",
        ),
        (
            "18446744073709551615 + 0, 9223372036854775807 + 0.5",
            "18446744073709551615,9223372036854775807.5",
        ),
        ("RAND(3) = RAND(3), RAND() < 1", "1,1"),
    ]);
    let server = Server::new();
    let mut c = Client::new(&server);
    assert_eq!(
        c.error("SELECT 9223372036854775807 + 1"),
        (1690, "BIGINT value is out of range in '(9223372036854775807 + 1)'".into())
    );
    assert_eq!(c.error("SELECT CAST(1 AS UNSIGNED) - 2").0, 1690);
    assert_eq!(c.error("SELECT 1e308 * 10").0, 1690);
    assert_eq!(c.error("SELECT EXP(1000)").0, 1690);
    c.rows("SELECT 1 / 0", &[]);
    assert_eq!(c.session.warnings(), [(1365, "Division by 0")]);
    c.rows("SELECT '5x' + 1", &[]);
    assert_eq!(c.session.warnings(), [(1292, "Truncated incorrect DOUBLE value: '5x'")]);
}

#[test]
fn strings() {
    check(&[
        ("CONCAT('a', 1, 'b'), CONCAT('a', NULL), CONCAT_WS(',', 'a', NULL, 'b')", "a1b,NULL,a,b"),
        ("LENGTH('é'), CHAR_LENGTH('é'), BIT_LENGTH('a'), UPPER('aé'), LOWER('ÀB')", "2,1,8,AÉ,àb"),
        (
            "LEFT('foobar', 3), RIGHT('foobar', 2), SUBSTRING('Quadratically', 5, 6), \
                SUBSTRING('Sakila', -3), SUBSTR('ab', 0)",
            "foo,ar,ratica,ila,",
        ),
        (
            "SUBSTRING_INDEX('www.mysql.com', '.', 2), SUBSTRING_INDEX('www.mysql.com', '.', -2), \
                SUBSTRING_INDEX('aaa', 'aa', -1), SUBSTRING_INDEX(BINARY 'aaa', 'aa', -1)",
            "www.mysql,mysql.com,a,",
        ),
        (
            "TRIM('  a '), LTRIM(' a'), RTRIM('a '), TRIM(LEADING 'x' FROM 'xxa'), TRIM(BOTH 'x' \
                FROM 'xax')",
            "a,a,a,a,a",
        ),
        (
            "REVERSE('aé'), REPEAT('ab', 2), REPLACE('www', 'w', 'Ww'), INSERT('Quadratic', 3, 4, \
                'What'), SPACE(2)",
            "éa,abab,WwWwWw,QuWhattic,  ",
        ),
        ("LPAD('hi', 5, '?!'), RPAD('hi', 1, '?'), LPAD('hi', 4, '')", "?!?hi,h,"),
        (
            "LOCATE('bar', 'foobarbar'), LOCATE('bar', 'foobarbar', 5), INSTR('FOO', 'o'), \
                LOCATE('x', 'a'), FIND_IN_SET('b', 'a,B,c')",
            "4,7,2,0,2",
        ),
        (
            "STRCMP('a', 'b'), STRCMP('A', 'a'), ASCII('2'), ORD('é'), CHAR(77, 121), HEX('abc'), \
                UNHEX('4D'), UNHEX('x')",
            "-1,0,50,50089,My,616263,M,NULL",
        ),
        (
            "QUOTE('Don\\'t'), FORMAT(12332.123456, 4), FORMAT(-1234567, 0), FORMAT(0.5, 0)",
            "'Don\\'t',12,332.1235,-1,234,567,1",
        ),
        (
            "MD5('a'), SHA1('abc')",
            "0cc175b9c0f1b6a831c399e269772661,a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        (
            "SHA2('abc', 224), SHA2('abc', 1)",
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7,NULL",
        ),
        (
            "TO_BASE64('abc'), FROM_BASE64('YWJj'), INET_ATON('10.0.5.9'), INET_NTOA(167773449), \
                INET_ATON('+1.2.3.4')",
            "YWJj,abc,167773449,10.0.5.9,NULL",
        ),
        (
            "CHARSET('a'), COLLATION(_latin1'a'), CHARSET(1), LENGTH(UUID()), \
                LENGTH(UUID_TO_BIN(UUID()))",
            "utf8mb4,latin1_swedish_ci,binary,36,16",
        ),
        (
            "'abc' LIKE 'A%', 'abc' LIKE 'a_c', 'abc' LIKE 'a\\_c', 'a_c' LIKE 'a\\_c', 'abc' LIKE \
                '%b%c', 'ab' LIKE 'ab ', 'a%' LIKE 'a|%' ESCAPE '|'",
            "1,1,0,1,1,0,1",
        ),
        (
            "'abc' REGEXP '^a.c$', 'ABC' REGEXP 'b', 'abc' NOT REGEXP 'x', NULL REGEXP 'a', 'é' \
                REGEXP '^.$'",
            "1,1,1,NULL,1",
        ),
    ]);
}

/// Calls in which `?` is a length, a count, a position or an amount.
const CALLS_WITH_NUMBERS: &[&str] = &[
    "LPAD('a', ?, '€')",
    "LPAD('a', ?, 'xy')",
    "RPAD('a', ?, '€')",
    "RPAD('', ?, ?)",
    "REPEAT('a', ?)",
    "REPEAT('', ?)",
    "REPEAT('€', ?)",
    "SPACE(?)",
    "LEFT('€a', ?)",
    "RIGHT('€a', ?)",
    "SUBSTRING('€a', ?)",
    "SUBSTRING('€a', ?, ?)",
    "SUBSTRING('€a', 2, ?)",
    "SUBSTRING_INDEX('a,b', ',', ?)",
    "INSERT('€ab', ?, ?, 'x')",
    "INSERT('€ab', 2, ?, 'x')",
    "LOCATE('a', '€a', ?)",
    "ELT(?, 'a')",
    "FORMAT(1.5, ?)",
    "FORMAT(?, ?)",
    "CHAR(?)",
    "CONV(?, 10, ?)",
    "CONV(?, ?, 2)",
    "CONV(?, -10, -2)",
    "BIN(?)",
    "HEX(?)",
    "SHA2('a', ?)",
    "ROUND(1.5, ?)",
    "ROUND(1.5e0, ?)",
    "TRUNCATE(1.5, ?)",
    "ABS(?)",
    "RAND(?)",
    "FROM_DAYS(?)",
    "MAKEDATE(?, 1)",
    "MAKEDATE(2024, ?)",
    "MAKETIME(?, 1, 1)",
    "MAKETIME(1, ?, 1)",
    "MAKETIME(1, 1, ?)",
    "SEC_TO_TIME(?)",
    "FROM_UNIXTIME(?)",
    "WEEK('2024-01-01', ?)",
    "INET_NTOA(?)",
    "REGEXP_SUBSTR('a', 'a', ?)",
    "REGEXP_SUBSTR('a', 'a', 1, ?)",
    "REGEXP_INSTR('a', 'a', ?, ?)",
    "REGEXP_REPLACE('a', 'a', 'b', 1, ?)",
    "'2024-01-01' + INTERVAL ? YEAR",
    "'2024-01-01' - INTERVAL ? QUARTER",
    "'2024-01-01' - INTERVAL ? WEEK",
    "'2024-01-01' + INTERVAL ? HOUR",
    "'2024-01-01' - INTERVAL ? SECOND",
    "'2024-01-01' - INTERVAL ? MICROSECOND",
    "TIME'1:00:00' - INTERVAL ? MICROSECOND",
    "'2024-01-01' + INTERVAL ? DAY_MICROSECOND",
    "CAST(? AS YEAR)",
    "CAST(? AS TIME)",
    "CAST(? AS DATETIME)",
    "1 << ?",
    "? DIV -1",
    "? % -1",
];

/// Numbers at the ends of their range give a value, NULL or an error.
#[test]
fn numbers_of_any_size_are_arguments() {
    let server = Server::new();
    let mut c = Client::new(&server);
    for call in CALLS_WITH_NUMBERS {
        for n in ["-9223372036854775808", "9223372036854775807", "18446744073709551615"] {
            c.outcome(&format!("SELECT {}", call.replace("?", n)));
        }
    }
    assert_eq!(c.rows("SELECT LPAD('a', 9223372036854775807, '€')", &[]), "NULL");
    let wrong = "Result of lpad() was larger than max_allowed_packet (67108864) - truncated";
    assert_eq!(c.session.warnings(), [(1301, wrong)]);
}

#[test]
fn functions_of_any_number_of_arguments_have_a_limit() {
    let server = Server::new();
    let mut c = Client::new(&server);
    for name in ["COALESCE", "GREATEST", "FIELD", "ELT", "CONCAT_WS", "CHAR"] {
        let call = |count: usize| format!("SELECT LENGTH({name}(1{}))", ", 1".repeat(count - 1));
        assert_eq!(c.outcome(&call(65_535)), None, "{name}");
        assert_eq!(c.error(&call(65_536)).0, 1582, "{name}");
    }
}

#[test]
fn dates_and_times() {
    check(&[
        (
            "DATE '2024-01-31' + INTERVAL 1 MONTH, DATE_SUB('2024-03-01', INTERVAL 1 DAY), \
                DATE_ADD('2024-01-01', INTERVAL '1:30' HOUR_MINUTE)",
            "2024-02-29,2024-02-29,2024-01-01 01:30:00",
        ),
        (
            "DATE_ADD('2024-01-01 00:00:00', INTERVAL 1.5 SECOND), DATE_ADD('2018-12-31 23:59:59', \
                INTERVAL '1 1:1:1' DAY_SECOND)",
            "2024-01-01 00:00:01.500000,2019-01-02 01:01:00",
        ),
        (
            "YEAR('2024-05-06'), QUARTER('2024-05-06'), MONTH('2024-05-06'), DAY('2024-05-06'), \
                DAYOFWEEK('2007-02-03'), WEEKDAY('2007-11-06'), DAYOFYEAR('2007-02-03')",
            "2024,2,5,6,7,1,34",
        ),
        (
            "WEEK('2008-02-20', 1), YEARWEEK('1987-01-01'), WEEKOFYEAR('2008-02-20'), \
                DAYNAME('2007-02-03'), MONTHNAME('2008-02-03')",
            "8,198652,8,Saturday,February",
        ),
        (
            "HOUR('10:05:03'), MINUTE('2008-02-03 10:05:03'), SECOND('10:05:03'), \
                MICROSECOND('12:00:00.123456')",
            "10,5,3,123456",
        ),
        (
            "LAST_DAY('2023-02-05'), DATEDIFF('2010-11-30 23:59:59', '2010-12-31'), \
                TO_DAYS('2007-10-07'), FROM_DAYS(730669)",
            "2023-02-28,-31,733321,2000-07-03",
        ),
        (
            "TIMESTAMPDIFF(MONTH, '2003-02-01', '2003-05-01'), TIMESTAMPDIFF(YEAR, '2002-05-01', \
                '2001-01-01'), TIMESTAMPDIFF(MINUTE, '2003-02-01', '2003-05-01 12:05:55')",
            "3,-1,128885",
        ),
        (
            "TIME_TO_SEC('22:23:00'), SEC_TO_TIME(2378), MAKEDATE(2011, 32), MAKETIME(12, 15, 30), \
                TO_SECONDS('2009-11-29')",
            "80580,00:39:38,2011-02-01,12:15:30,63426672000",
        ),
        (
            "UNIX_TIMESTAMP('2015-11-13 10:20:19'), FROM_UNIXTIME(1447430881), FROM_UNIXTIME(0, \
                '%Y')",
            "1447410019,2015-11-13 16:08:01,1970",
        ),
        (
            "DATE_FORMAT('2009-10-04 22:23:00', '%W %M %Y'), TIME_FORMAT('25:00:00', '%H'), \
                STR_TO_DATE('01,5,2013', '%d,%m,%Y') = DATE '2013-05-01', \
                STR_TO_DATE('200442 Monday', '%X%V %W'), FROM_UNIXTIME(0, '%Y%')",
            "Sunday October 2009,25,1,2004-10-18,1970%",
        ),
        (
            "CONVERT_TZ('2004-01-01 12:00:00', '+00:00', '+10:00'), CONVERT_TZ('2004-01-01 \
                12:00:00', 'GMT', 'MET')",
            "2004-01-01 22:00:00,NULL",
        ),
        (
            "DATE('2024-01-02 03:04:05'), TIME('2024-01-02 03:04:05'), TIMESTAMP('2024-01-02', \
                '12:00:00')",
            "2024-01-02,03:04:05,2024-01-02 12:00:00",
        ),
        (
            "TIMEDIFF('2008-12-31 23:59:59', '2008-12-30 01:01:01'), ADDTIME('01:00:00', \
                '02:00:01'), SUBTIME('2007-12-31 23:59:59', '1 1:1:1')",
            "46:58:58,03:00:01,2007-12-30 22:58:58",
        ),
        (
            "NOW() = NOW(), CURDATE() = DATE(NOW()), UTC_DATE() IS NOT NULL, NOW(3) >= NOW()",
            "1,1,1,1",
        ),
        (
            "DATE_ADD('x', INTERVAL 1 DAY), YEAR('nonsense'), STR_TO_DATE('10:99:00', '%H:%i:%s')",
            "NULL,NULL,NULL",
        ),
    ]);
}

#[test]
fn casts() {
    check(&[
        (
            "CAST('12abc' AS SIGNED), CAST(-1 AS UNSIGNED), CAST(1.5 AS SIGNED), CAST('1.9' AS \
                SIGNED)",
            "12,18446744073709551615,2,1",
        ),
        (
            "CAST('1.239' AS DECIMAL(5,2)), CAST(5 AS DECIMAL(4,1)), CAST('x' AS DECIMAL)",
            "1.24,5.0,0",
        ),
        (
            "CAST(123 AS CHAR), CAST('abcdef' AS CHAR(3)), HEX(CAST('a' AS BINARY(3))), \
                CONVERT('é' USING latin1) = 'é'",
            "123,abc,610000,1",
        ),
        (
            "CAST('2024-01-02 10:00' AS DATE), CAST('10:11:12.7' AS TIME), CAST(20240102030405 AS \
                DATETIME)",
            "2024-01-02,10:11:13,2024-01-02 03:04:05",
        ),
        (
            "CAST(99999999999999999999 AS SIGNED), CAST(-1e30 AS SIGNED), CAST(1e19 AS SIGNED), \
                CAST('99999999999999999999' AS SIGNED)",
            "9223372036854775807,-9223372036854775808,9223372036854775807,-1",
        ),
        ("CAST('1.5' AS DOUBLE), CAST(NULL AS SIGNED), CAST('nonsense' AS DATE)", "1.5,NULL,NULL"),
    ]);
}

#[test]
fn the_session() {
    let server = Server::new();
    let mut c = Client::new(&server);
    assert_eq!(
        c.rows("SELECT DATABASE(), USER(), CONNECTION_ID() > 0, VERSION() LIKE '8.0%'", &[]),
        "test,root@localhost,1,1"
    );
    assert_eq!(c.rows("SELECT @a := 5, @a + 1, @nothing", &[]), "5,6,NULL");
    assert_eq!(c.rows("SELECT @A", &[]), "5");
    assert_eq!(c.done("SELECT 1, 'x' INTO @p, @q", &[]).affected, 1);
    assert_eq!(c.rows("SELECT @p, @q", &[]), "1,x");
    assert_eq!(c.rows("SELECT LAST_INSERT_ID(7), LAST_INSERT_ID()", &[]), "7,7");
    assert_eq!(c.rows("SELECT SLEEP(0.01), BENCHMARK(10, 1 + 1)", &[]), "0,0");
}

/// Binary strings are operands of bit operators byte by byte, unless all of them are literals.
#[test]
fn bits_of_binary_strings() {
    check(&[
        (
            "HEX(_binary X'F0F0' | _binary X'0F0F'), HEX(_binary X'FF00' & X'0FF0'), HEX(X'FF' ^ \
                _binary X'0F'), HEX(CAST('a' AS BINARY(2)) | BINARY 'bb')",
            "FFFF,0F00,F0,6362",
        ),
        ("HEX(~_binary X'F00F55'), ~X'01', ~_binary''", "0FF0AA,18446744073709551614,"),
        ("X'F0' | X'0F', b'1' ^ X'03', X'01' << 4, '5' | '2', _binary'5' | 2", "255,2,16,7,7"),
        (
            "HEX(_binary X'0001' << 9), HEX(_binary X'8001' >> 1), HEX(_binary X'00FF' << 4), \
                HEX(_binary X'0FF0' >> 4), HEX(_binary X'0102' << X'08')",
            "0200,4000,0FF0,00FF,0200",
        ),
        (
            "HEX(_binary X'FFFF' << 16), HEX(_binary X'FFFF' >> 17), HEX(_binary X'FFFF' << -1), \
                HEX(_binary X'FFFF' >> 0), HEX(_binary'' << 3)",
            "0000,0000,0000,FFFF,",
        ),
        (
            "_binary'a' | NULL, NULL & _binary'a', _binary'a' << NULL, X'01' | NULL",
            "NULL,NULL,NULL,NULL",
        ),
        (
            "BIT_COUNT(_binary X'FF00FF00FF00FF00FF00'), BIT_COUNT(X'FF01'), BIT_COUNT(_binary''), \
                BIT_COUNT('7')",
            "40,9,0,3",
        ),
    ]);
    let server = Server::new();
    let mut c = Client::new(&server);
    assert_eq!(
        c.error("SELECT _binary'ab' | _binary'a'"),
        (3513, "Binary operands of bitwise operators must be of equal length".into())
    );
}

#[test]
fn long_numbers_and_times() {
    check(&[
        (
            "FORMAT(12345678901234567890123456789012345678901234567890123456789012345, 2)",
            "12,345,678,901,234,567,890,123,456,789,012,345,678,901,234,567,890,123,456,789,012,\
                345.00",
        ),
        ("FORMAT(12.5, 3), FORMAT(7, 1), FORMAT(-1.005, 2)", "12.500,7.0,-1.01"),
        (
            "CAST('3000000000:00:00' AS TIME), CAST('-3000000000:00:00' AS TIME), \
                SEC_TO_TIME(-10000000000000), SEC_TO_TIME(10000000000000)",
            "838:59:59,-838:59:59,-838:59:59,838:59:59",
        ),
        (
            "'2024-01-01' + INTERVAL 'abc' DAY_HOUR, '2024-01-01' + INTERVAL '1 2x' DAY_HOUR, \
                '2024-01-01' + INTERVAL '1 2 3' DAY_HOUR, \
                DATE'2024-01-01' + INTERVAL '' YEAR_MONTH",
            "2024-01-01 00:00:00,2024-01-02 02:00:00,NULL,2024-01-01",
        ),
    ]);
    let server = Server::new();
    let mut c = Client::new(&server);
    c.rows("SELECT CAST('3000000000:00:00' AS TIME)", &[]);
    let wrong = "Truncated incorrect time value: '3000000000:00:00'";
    assert_eq!(c.session.warnings(), [(1292, wrong)]);
}

/// An expression that disagrees with its type (which the binder prevents) ends the statement, not
/// the server.
#[test]
fn expressions_at_odds_with_their_types_are_errors() {
    let server = Server::new();
    let mut session = server.session();
    let Statement::Select(select) = session.plan("SELECT (SELECT 1)").unwrap().body else {
        panic!("a select")
    };
    let params =
        [Value::Decimal(Decimal::parse(format!("-1{}", "0".repeat(50)).as_bytes()).unwrap())];
    let disk = server.engine.disk.clone();
    let mut env = Env::new(&mut session.state, &NoVariables, &*disk, StatementSettings::default());
    let mut code = |e: &Expr| Eval::new(Scope::new(&params), &mut env).eval(e).unwrap_err().code;
    assert_eq!(code(&select.output[0]), 1815, "no subquery was run");
    let sides = [
        Expr::new(ExprKind::Param(0), ExprType::bigint(20)),
        Expr::literal(Value::Int(-1), ExprType::bigint(2)),
    ];
    let rest = Expr::new(
        ExprKind::Arith { op: ArithOp::Modulo, sides: Box::new(sides) },
        ExprType::bigint(21),
    );
    assert_eq!(code(&rest), 1690, "the least of 128 bits by -1");
}

//! A range of an index gives the same rows as a scan of the table, for every bound.
use crate::exec::fixture::Server;
use crate::exec::tests::Client;
use redolith_types::Value;

/// Compares every operator with every constant, through the index `k` on `c` and without it. `held`
/// are the column's values.
fn index_and_scan_agree(zones: &[i32], ty: &str, held: &[&str], constants: &[&str]) {
    let server = Server::new();
    for order in ["", "DESC"] {
        let mut c = Client::new(&server);
        c.ddl(&format!(
            "CREATE TABLE t(id INT PRIMARY KEY AUTO_INCREMENT, c {ty} NULL, KEY k(c {order}))"
        ));
        for value in held {
            c.done(&format!("INSERT IGNORE INTO t(c) VALUES ({value})"), &[]);
        }
        assert_eq!(c.rows("SELECT COUNT(*) FROM t", &[]), held.len().to_string());
        let mut conditions: Vec<String> = Vec::new();
        for constant in constants {
            conditions
                .extend(["=", "<=>", "<", "<=", ">", ">="].map(|op| format!("c {op} {constant}")));
            conditions
                .extend(constants.iter().map(|high| format!("c BETWEEN {constant} AND {high}")));
        }
        for (zone, condition) in
            zones.iter().flat_map(|zone| conditions.iter().map(move |condition| (zone, condition)))
        {
            c.settings.zone_offset_secs = *zone;
            let mut rows = |hint: &str| {
                c.rows(
                    &format!("SELECT id FROM t {hint} INDEX (k) WHERE {condition} ORDER BY id"),
                    &[],
                )
            };
            assert_eq!(
                rows("FORCE"),
                rows("IGNORE"),
                "{ty} {order} {condition}, {zone} s east of UTC"
            );
        }
        c.ddl("DROP TABLE t");
    }
}

#[test]
fn of_years() {
    let held = ["NULL", "'0000'", "1901", "1970", "2000", "2024", "2155"];
    let constants = [
        "NULL",
        "-1",
        "-0.5",
        "0",
        "0.5",
        "1",
        "20",
        "69",
        "70",
        "99",
        "100",
        "1900",
        "1900.5",
        "1901",
        "1999.5",
        "2000",
        "2000.5",
        "2024e0",
        "'2024'",
        "'24'",
        "2155",
        "2155.5",
        "2156",
        "3000",
        "9999",
        "18446744073709551615",
        "1e300",
        "'x'",
    ];
    index_and_scan_agree(&[0], "YEAR", &held, &constants);
}

#[test]
fn of_bits() {
    let held = ["NULL", "b'0'", "b'1'", "b'101'", "b'1111'"];
    let constants = [
        "NULL",
        "-9223372036854775808",
        "-1",
        "-0.5",
        "-0.5e0",
        "0",
        "0.4",
        "1",
        "4.5",
        "5e0",
        "15",
        "15.5",
        "16",
        "1e30",
        "18446744073709551615",
    ];
    index_and_scan_agree(&[0], "BIT(4)", &held, &constants);
}

#[test]
fn of_timestamps() {
    let held = [
        "NULL",
        "0",
        "'1970-01-02 00:00:00'",
        "'2023-12-31 23:59:59'",
        "'2024-02-29 12:00:00'",
        "'2038-01-17 00:00:00'",
    ];
    let constants = [
        "'0000-00-00 00:00:00'",
        "'0000-01-01 00:00:00'",
        "'0001-01-01 00:00:00'",
        "'1960-01-01 00:00:00'",
        "'1970-01-01 00:00:00'",
        "'2023-12-31 23:59:59'",
        "'2024-00-10 00:00:00'",
        "'2024-02-00 00:00:00'",
        "'2024-02-29 12:00:00'",
        "'2024-02-29 12:00:00.5'",
        "'2038-02-01 00:00:00'",
        "'9999-12-31 23:59:59'",
        "'9999-12-31'",
        "19600101",
    ];
    index_and_scan_agree(&[-5 * 3600, 0, 14 * 3600], "TIMESTAMP", &held, &constants);
}

/// LIKE finds the same rows through an index as in a scan, whatever the collation and the part of
/// the column that the index has. Tests PATH-6.
#[test]
fn of_patterns() {
    let server = Server::new();
    let held = [
        "NULL",
        "''",
        "' '",
        "'a'",
        "'A'",
        "'a '",
        "'ab'",
        "'Ab'",
        "'aB '",
        "'ab  '",
        "'abc'",
        "'abcdefg'",
        "'abcdefgh'",
        "'abcdefgh '",
        "'abcdefghij'",
        "'ab\tc'",
        "'á'",
        "'áB'",
        "'ß'",
        "'ss'",
        "'sst'",
        "'%x'",
        "'_x'",
        "'a%b'",
        "'a_b'",
        "'a\\\\b'",
        "'zzzz'",
        "'ÿÿÿ'",
    ];
    let patterns = [
        "''",
        "'%'",
        "'_'",
        "' %'",
        "'a'",
        "'a%'",
        "'A%'",
        "'a %'",
        "'ab%'",
        "'aB_'",
        "'ab  %'",
        "'abc%'",
        "'abcdefgh%'",
        "'abcdefgh %'",
        "'abcdefghi%'",
        "'a_c%'",
        "'%c'",
        "'_b%'",
        "'á%'",
        "'áb%'",
        "'ß%'",
        "'s%'",
        "'ss%'",
        "'\\\\%x'",
        "'\\\\_x%'",
        "'a\\\\%%'",
        "'a!%%' ESCAPE '!'",
        "'a%%' ESCAPE 'a'",
        "'a|\\\\%' ESCAPE '|'",
        "'ÿ%'",
        "NULL",
        "CONCAT('a', '%')",
        "CONCAT('%', 'c')",
    ];
    let mut types: Vec<String> = ["VARBINARY(20)", "BLOB"].map(String::from).into();
    for collation in [
        "latin1_swedish_ci",
        "latin1_bin",
        "utf8mb3_general_ci",
        "utf8mb4_bin",
        "utf8mb4_unicode_ci",
        "utf8mb4_0900_ai_ci",
        "utf8mb4_0900_as_cs",
        "utf8mb4_0900_bin",
    ] {
        types.push(format!("VARCHAR(20) COLLATE {collation}"));
        types.push(format!("CHAR(20) COLLATE {collation}"));
        types.push(format!("TEXT COLLATE {collation}"));
    }
    for ty in &types {
        for part in ["(c)", "(c DESC)", "(c(2))", "(c(9) DESC)", "(n, c)"] {
            if !part.contains("c(") && (ty.starts_with("TEXT") || ty.starts_with("BLOB")) {
                continue;
            }
            let mut c = Client::new(&server);
            c.ddl(&format!(
                "CREATE TABLE t(id INT PRIMARY KEY AUTO_INCREMENT, n INT DEFAULT 1, c {ty} NULL, \
                KEY k{part})"
            ));
            for value in held {
                c.done(&format!("INSERT INTO t(c) VALUES ({value})"), &[]);
            }
            for pattern in patterns {
                for rest in ["", "OR c LIKE 'ss%'", "OR c = 'zzzz'", "AND c > 'a'"] {
                    let mut rows = |hint: &str| {
                        c.rows(
                            &format!(
                                "SELECT id FROM t {hint} INDEX (k) WHERE n = 1 AND \
                                (c LIKE {pattern} {rest}) ORDER BY id"
                            ),
                            &[],
                        )
                    };
                    assert_eq!(rows("FORCE"), rows("IGNORE"), "{ty} {part} {pattern} {rest}");
                }
            }
            for pattern in ["ab%", "%b%", "_b%", ""] {
                let param = [Value::text(pattern)];
                let mut rows = |hint: &str| {
                    c.rows(
                        &format!(
                            "SELECT id FROM t {hint} INDEX (k) WHERE n = 1 AND c LIKE ? \
                            ORDER BY id"
                        ),
                        &param,
                    )
                };
                assert_eq!(rows("FORCE"), rows("IGNORE"), "{ty} {part} {pattern} as a parameter");
            }
            c.ddl("DROP TABLE t");
        }
    }
}

/// Numbers and dates beyond the column's range must give the expected rows; it is not enough that
/// both ways agree.
/// Tests PATH-3.
#[test]
fn beyond_the_range_of_the_column() {
    let server = Server::new();
    let mut c = Client::new(&server);
    c.ddl(
        "CREATE TABLE t(id INT PRIMARY KEY, y YEAR, b BIT(4), ts TIMESTAMP NULL, KEY(y), KEY(b), \
        KEY(ts))",
    );
    c.done(
        "INSERT INTO t VALUES (1, '0000', b'0', '2023-01-01'), (2, 2000, b'1', '2024-01-01'), \
        (3, 2155, b'1111', '2038-01-01')",
        &[],
    );
    c.settings.zone_offset_secs = -5 * 3600;
    for (condition, rows) in [
        ("y BETWEEN 2000 AND 9999", "2|3"),
        ("y < 3000", "1|2|3"),
        ("y > 3000", ""),
        ("y > 20", "3"), // 20 is the year 2020.
        ("b > -1", "1|2|3"),
        ("b < -1", ""),
        ("ts <= '9999-12-31 23:59:59'", "1|2|3"),
        ("ts > '9999-12-31 23:59:59'", ""),
        ("ts BETWEEN '1000-01-01' AND '2023-12-31'", "1"),
    ] {
        assert_eq!(
            c.rows(&format!("SELECT id FROM t WHERE {condition} ORDER BY id"), &[]),
            rows,
            "{condition}"
        );
    }
}

//! Every type is stored and read back unchanged: as a literal, as a parameter, in text rows and in
//! binary rows.
use mysql_async::prelude::*;
use mysql_async::{Conn, Params, Row, Value};
use redolith_e2e::fresh;

fn bytes(s: &str) -> Value {
    Value::Bytes(s.as_bytes().to_vec())
}

/// One type: its SQL, and values as (parameter, SQL literal, text row). `None`: the binary row
/// equals the parameter.
struct Case {
    sql: &'static str,
    values: Vec<(Value, &'static str, &'static [u8])>,
}

fn case(sql: &'static str, values: Vec<(Value, &'static str, &'static [u8])>) -> Case {
    Case { sql, values }
}

fn cases() -> Vec<Case> {
    use Value::{Date, Double, Float, Int, Time, UInt};
    vec![
        case(
            "TINYINT",
            vec![(Int(-128), "-128", b"-128"), (Int(127), "127", b"127"), (Int(0), "0", b"0")],
        ),
        case("TINYINT UNSIGNED", vec![(Int(255), "255", b"255")]),
        case("SMALLINT", vec![(Int(-32768), "-32768", b"-32768"), (Int(32767), "32767", b"32767")]),
        case("SMALLINT UNSIGNED", vec![(Int(65535), "65535", b"65535")]),
        case(
            "MEDIUMINT",
            vec![(Int(-8388608), "-8388608", b"-8388608"), (Int(8388607), "8388607", b"8388607")],
        ),
        case("MEDIUMINT UNSIGNED", vec![(Int(16777215), "16777215", b"16777215")]),
        case(
            "INT",
            vec![
                (Int(-2147483648), "-2147483648", b"-2147483648"),
                (Int(2147483647), "2147483647", b"2147483647"),
            ],
        ),
        case("INT UNSIGNED", vec![(Int(4294967295), "4294967295", b"4294967295")]),
        case(
            "BIGINT",
            vec![
                (Int(i64::MIN), "-9223372036854775808", b"-9223372036854775808"),
                (Int(i64::MAX), "9223372036854775807", b"9223372036854775807"),
            ],
        ),
        case(
            "BIGINT UNSIGNED",
            vec![(UInt(u64::MAX), "18446744073709551615", b"18446744073709551615")],
        ),
        case(
            "DECIMAL(20,5)",
            vec![
                (
                    bytes("-123456789012345.12345"),
                    "-123456789012345.12345",
                    b"-123456789012345.12345",
                ),
                (bytes("0.00000"), "0", b"0.00000"),
            ],
        ),
        case(
            "DECIMAL(65,0)",
            vec![(
                bytes("99999999999999999999999999999999999999999999999999999999999999999"),
                "99999999999999999999999999999999999999999999999999999999999999999",
                b"99999999999999999999999999999999999999999999999999999999999999999",
            )],
        ),
        case("FLOAT", vec![(Float(1.5), "1.5", b"1.5"), (Float(-0.25), "-0.25", b"-0.25")]),
        case(
            "DOUBLE",
            vec![
                (Double(1.0e100), "1e100", b"1e100"),
                (Double(0.1), "0.1", b"0.1"),
                (Double(f64::MAX), "1.7976931348623157e308", b"1.7976931348623157e308"),
            ],
        ),
        case(
            "CHAR(10)",
            vec![
                (bytes("abc"), "'abc'", b"abc"),
                (bytes(""), "''", b""),
                (bytes("äöü日本"), "'äöü日本'", "äöü日本".as_bytes()),
            ],
        ),
        case(
            "VARCHAR(20)",
            vec![
                (bytes("with  "), "'with  '", b"with  "),
                (bytes("😀"), "'😀'", "😀".as_bytes()),
                (bytes("it's \\ \"q\""), r#"'it''s \\ "q"'"#, br#"it's \ "q""#),
            ],
        ),
        case("VARCHAR(20) COLLATE utf8mb4_bin", vec![(bytes("aA"), "'aA'", b"aA")]),
        case("VARCHAR(20) CHARACTER SET latin1", vec![(bytes("é"), "'é'", "é".as_bytes())]),
        case("TINYTEXT", vec![(bytes("t"), "'t'", b"t")]),
        case("TEXT", vec![(bytes("text\nof lines"), "'text\nof lines'", b"text\nof lines")]),
        case("MEDIUMTEXT", vec![(bytes("m"), "'m'", b"m")]),
        case("LONGTEXT", vec![(bytes("l"), "'l'", b"l")]),
        case("BINARY(4)", vec![(Value::Bytes(vec![0, 255, 1, 0]), "x'00FF0100'", &[0, 255, 1, 0])]),
        case(
            "VARBINARY(10)",
            vec![
                (Value::Bytes(vec![0, 39, 92, 255]), "x'00275CFF'", &[0, 39, 92, 255]),
                (bytes(""), "''", b""),
            ],
        ),
        case("TINYBLOB", vec![(Value::Bytes(vec![1]), "x'01'", &[1])]),
        case("BLOB", vec![(Value::Bytes(vec![0, 10, 13, 26]), "x'000A0D1A'", &[0, 10, 13, 26])]),
        case("MEDIUMBLOB", vec![(Value::Bytes(vec![2]), "x'02'", &[2])]),
        case("LONGBLOB", vec![(Value::Bytes(vec![3]), "x'03'", &[3])]),
        case(
            "DATE",
            vec![
                (Date(2024, 2, 29, 0, 0, 0, 0), "'2024-02-29'", b"2024-02-29"),
                (Date(9999, 12, 31, 0, 0, 0, 0), "'9999-12-31'", b"9999-12-31"),
            ],
        ),
        case(
            "TIME",
            vec![
                (Time(false, 0, 12, 34, 56, 0), "'12:34:56'", b"12:34:56"),
                (Time(true, 34, 22, 59, 59, 0), "'-838:59:59'", b"-838:59:59"),
                (Time(false, 0, 0, 0, 0, 0), "'00:00:00'", b"00:00:00"),
            ],
        ),
        case("TIME(3)", vec![(Time(false, 1, 1, 2, 3, 456000), "'25:02:03.456'", b"25:02:03.456")]),
        case(
            "DATETIME",
            vec![
                (Date(2024, 2, 29, 23, 59, 59, 0), "'2024-02-29 23:59:59'", b"2024-02-29 23:59:59"),
                (Date(1000, 1, 1, 0, 0, 0, 0), "'1000-01-01 00:00:00'", b"1000-01-01 00:00:00"),
            ],
        ),
        case(
            "DATETIME(6)",
            vec![(
                Date(2024, 2, 29, 1, 2, 3, 123456),
                "'2024-02-29 \
            01:02:03.123456'",
                b"2024-02-29 01:02:03.123456",
            )],
        ),
        case(
            "TIMESTAMP NULL",
            vec![(Date(2024, 2, 29, 1, 2, 3, 0), "'2024-02-29 01:02:03'", b"2024-02-29 01:02:03")],
        ),
        case(
            "TIMESTAMP(2) NULL",
            vec![(
                Date(2024, 2, 29, 1, 2, 3, 120000),
                "'2024-02-29 \
            01:02:03.12'",
                b"2024-02-29 01:02:03.12",
            )],
        ),
    ]
}

async fn rows<P: Into<Params> + Send>(c: &mut Conn, sql: &str, params: Option<P>) -> Vec<Value> {
    let rows: Vec<Row> = match params {
        Some(p) => c.exec(sql, p).await.unwrap_or_else(|e| panic!("{sql}: {e}")),
        None => c.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")),
    };
    rows.into_iter().map(|mut r| r.take::<Value, _>(0).expect("a value")).collect()
}

async fn round_trip(schema: &str, tcp: bool) {
    let mut c = fresh(schema, tcp).await;
    c.query_drop("SET time_zone = '+00:00'").await.expect("a time zone");
    for (n, case) in cases().into_iter().enumerate() {
        c.query_drop(format!("CREATE TABLE t{n} (id INT PRIMARY KEY, v {})", case.sql))
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", case.sql));
        for (i, (param, literal, _)) in case.values.iter().enumerate() {
            let (by_literal, by_param) = (2 * i, 2 * i + 1);
            c.query_drop(format!("INSERT INTO t{n} VALUES ({by_literal}, {literal})"))
                .await
                .unwrap_or_else(|e| panic!("{} {literal}: {e}", case.sql));
            c.exec_drop(format!("INSERT INTO t{n} VALUES (?, ?)"), (by_param, param.clone()))
                .await
                .unwrap_or_else(|e| panic!("{} {param:?}: {e}", case.sql));
        }
        c.exec_drop(format!("INSERT INTO t{n} VALUES (?, ?)"), (1000, Value::NULL))
            .await
            .expect("inserts a NULL");
        let text = rows(&mut c, &format!("SELECT v FROM t{n} ORDER BY id"), None::<()>).await;
        let binary =
            rows(&mut c, &format!("SELECT v FROM t{n} WHERE id >= ? ORDER BY id"), Some((0,)))
                .await;
        let mut expected_text: Vec<_> = case
            .values
            .iter()
            .flat_map(|(_, _, t)| [Value::Bytes(t.to_vec()), Value::Bytes(t.to_vec())])
            .collect();
        let mut expected_binary: Vec<_> =
            case.values.iter().flat_map(|(p, _, _)| [p.clone(), p.clone()]).collect();
        expected_text.push(Value::NULL);
        expected_binary.push(Value::NULL);
        assert_eq!(text, expected_text, "text rows of {}", case.sql);
        assert_eq!(binary, expected_binary, "binary rows of {}", case.sql);
    }
}

#[tokio::test]
async fn every_type_over_the_socket() {
    round_trip("e2e_types_socket", false).await;
}

#[tokio::test]
async fn every_type_over_tcp() {
    round_trip("e2e_types_tcp", true).await;
}

#[tokio::test]
async fn long_values_in_both_protocols() {
    let mut c = fresh("e2e_long", false).await;
    c.query_drop("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)").await.expect("creates");
    for (id, len) in [(1, 100), (2, 8_000), (3, 20_000), (4, 1_000_000)] {
        let value: Vec<u8> = (0..len).map(|i| (i * 7 + id) as u8).collect();
        c.exec_drop("INSERT INTO t VALUES (?, ?)", (id, value.clone())).await.expect("inserts");
        let binary: Option<Vec<u8>> =
            c.exec_first("SELECT v FROM t WHERE id = ?", (id,)).await.expect("selects");
        let text: Option<Vec<u8>> =
            c.query_first(format!("SELECT v FROM t WHERE id = {id}")).await.expect("selects");
        assert_eq!(binary.as_ref(), Some(&value), "{len} bytes, binary");
        assert_eq!(text.as_ref(), Some(&value), "{len} bytes, text");
    }
}

#[tokio::test]
async fn many_columns_and_rows() {
    let mut c = fresh("e2e_many", false).await;
    let columns: Vec<String> = (0..60).map(|i| format!("c{i} INT")).collect();
    c.query_drop(format!("CREATE TABLE t (id INT PRIMARY KEY, {})", columns.join(", ")))
        .await
        .expect("creates");
    let insert = format!("INSERT INTO t VALUES (?{})", ", ?".repeat(60));
    for id in 0..300i64 {
        let values: Vec<Value> = (0..=60)
            .map(|i| if i > 0 && (id + i) % 3 == 0 { Value::NULL } else { Value::Int(id + i) })
            .collect();
        c.exec_drop(&insert, values).await.expect("inserts");
    }
    let rows: Vec<Row> = c.exec("SELECT * FROM t ORDER BY id", ()).await.expect("selects");
    assert_eq!(rows.len(), 300);
    for (id, row) in rows.into_iter().enumerate() {
        let expected: Vec<Value> =
            (0..=60)
                .map(|i| {
                    if i > 0 && (id + i) % 3 == 0 {
                        Value::NULL
                    } else {
                        Value::Int((id + i) as i64)
                    }
                })
                .collect();
        assert_eq!(row.unwrap(), expected);
    }
}

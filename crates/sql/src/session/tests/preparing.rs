//! Tests statements that are prepared with the protocol's commands or with PREPARE.
use super::{TABLE, World, execute, lines, query};
use crate::sink::StatusFlags;
use crate::status::Counter;
use redolith_engine::runtime::block_on;
use redolith_types::{Date, DateTime, Decimal, Value};

#[test]
fn prepared_statements() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    query(&mut a, TABLE);
    let insert = block_on(a.prepare(b"INSERT INTO t (id, k, c) VALUES (?, ?, ?)")).unwrap();
    assert_eq!((insert.id, insert.params.len(), insert.columns.len()), (1, 3, 0));
    let select = block_on(a.prepare(b"SELECT c, k FROM t WHERE id = ?")).unwrap();
    assert_eq!(select.columns.iter().map(|c| &*c.name).collect::<Vec<_>>(), ["c", "k"]);
    for i in 1..=3 {
        assert_eq!(
            execute(&mut a, insert.id, &[Value::Int(i), Value::Int(i * 10), Value::text("x")]),
            [format!("ok 1 {i}")]
        );
    }
    assert_eq!(execute(&mut a, select.id, &[Value::Int(2)]), ["x|20"]);
    assert_eq!(
        execute(&mut a, insert.id, &[Value::Int(2), Value::Int(0), Value::Null]),
        ["error 1062"]
    );
    // The handle of another session shares the plan.
    let before = world.db.plans.len();
    let other = block_on(b.prepare(b"SELECT c, k FROM t WHERE id = ?")).unwrap();
    assert_eq!(world.db.plans.len(), before);
    assert_eq!(execute(&mut b, other.id, &[Value::Int(3)]), ["x|30"]);
    // DDL makes plans stale; new plans replace them.
    assert_eq!(lines(&mut b, "CREATE INDEX ck ON t (c, k)"), ["ok 0 0"]);
    assert_eq!(execute(&mut a, select.id, &[Value::Int(2)]), ["x|20"]);
    query(&mut b, "DROP TABLE t");
    assert_eq!(execute(&mut a, select.id, &[Value::Int(2)]), ["error 1146"]);
    query(&mut b, TABLE);
    assert_eq!(execute(&mut a, select.id, &[Value::Int(2)]), [] as [&str; 0]);
    a.close_statement(select.id);
    assert_eq!(execute(&mut a, select.id, &[Value::Int(2)]), ["error 1243"]);
    assert_eq!(block_on(a.prepare(b"SELECT 1; SELECT 2")).unwrap_err().code, 1064);
}

/// Tests PREP-2.
#[test]
fn every_way_of_preparing_counts() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    let count =
        |world: &World| world.db.prepared_statements.load(std::sync::atomic::Ordering::Relaxed);
    query(&mut a, TABLE);
    query(&mut a, "SET GLOBAL max_prepared_stmt_count = 3");
    let first = block_on(a.prepare(b"SELECT 1")).unwrap();
    assert_eq!(
        lines(&mut a, "PREPARE s1 FROM 'SELECT 1'; PREPARE s2 FROM 'SELECT 2'"),
        ["ok 0 0", "ok 0 0"]
    );
    assert_eq!(lines(&mut b, "PREPARE s1 FROM 'SELECT 1'"), ["error 1461"]);
    assert_eq!(block_on(b.prepare(b"SELECT 1")).unwrap_err().code, 1461);
    assert_eq!(
        lines(&mut a, "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'"),
        ["Prepared_stmt_count|3"]
    );
    assert_eq!(
        block_on(b.describe(b"SELECT * FROM t")).unwrap().len(),
        3,
        "COM_FIELD_LIST keeps no statement"
    );
    // Another statement of the same name replaces the first, and a statement with a syntax error
    // only removes it.
    assert_eq!(
        lines(&mut a, "PREPARE s1 FROM 'SELECT 3'; EXECUTE s1; PREPARE s1 FROM 'SELEKT'"),
        ["ok 0 0", "3", "error 1064"]
    );
    assert_eq!(count(&world), 2);
    a.close_statement(first.id);
    a.close_statement(first.id);
    query(&mut a, "DEALLOCATE PREPARE s2");
    assert_eq!(count(&world), 0);
    // A session's statements no longer count when it is reset, when it ends, and when it is dropped
    // without an end.
    for _ in 0..3 {
        block_on(b.prepare(b"SELECT 1")).unwrap();
    }
    block_on(b.reset());
    assert_eq!(
        (count(&world), lines(&mut b, "PREPARE s1 FROM 'SELECT 1'; EXECUTE s1").len()),
        (0, 2)
    );
    block_on(b.end());
    assert_eq!(count(&world), 0);
    block_on(a.prepare(b"SELECT 1")).unwrap();
    drop(a);
    assert_eq!(count(&world), 0);
}

/// Tests SES-2.
#[test]
fn set_transaction_outlives_a_stale_plan() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    query(&mut a, TABLE);
    query(&mut a, "INSERT INTO t (k) VALUES (1)");
    let update = block_on(a.prepare(b"UPDATE t SET k = k + 1")).unwrap().id;
    assert_eq!(execute(&mut a, update, &[]), ["ok 1 0"]);
    assert_eq!(lines(&mut b, "ALTER TABLE t ADD INDEX ck (c, k)"), ["ok 0 0"]);
    query(&mut a, "SET TRANSACTION READ ONLY");
    assert_eq!(execute(&mut a, update, &[]), ["error 1792"]);
    assert_eq!(lines(&mut a, "SELECT k FROM t"), ["2"]);
    // The setting was for one transaction.
    assert_eq!(execute(&mut a, update, &[]), ["ok 1 0"]);
}

#[test]
fn begin_and_commit_can_be_prepared() {
    let world = World::new();
    let (mut a, mut b) = (world.session(), world.session());
    query(&mut a, TABLE);
    let begin = block_on(a.prepare(b"BEGIN")).unwrap().id;
    let commit = block_on(a.prepare(b"COMMIT")).unwrap().id;
    execute(&mut a, begin, &[]);
    assert!(a.status().has(StatusFlags::IN_TRANSACTION));
    query(&mut a, "INSERT INTO t (k) VALUES (1)");
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["0"]);
    execute(&mut a, commit, &[]);
    assert!(!a.status().has(StatusFlags::IN_TRANSACTION));
    assert_eq!(lines(&mut b, "SELECT COUNT(*) FROM t"), ["1"]);
}

/// BIND-3: if the place of a parameter does not decide its type, each value decides it.
/// Tests EXPR-1.
#[test]
fn parameters_are_of_their_values_types() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    query(
        &mut s,
        "CREATE TABLE d (id INT PRIMARY KEY, d DECIMAL(10, 2)); INSERT INTO d VALUES (1, 10.00)",
    );
    let number =
        |text: &str| Value::Decimal(redolith_types::Decimal::parse(text.as_bytes()).unwrap());
    let any = block_on(s.prepare(b"SELECT ? + 1, COALESCE(?, 0), ROUND(?, 1)")).unwrap().id;
    let mut with = |a: &Value<'_>| execute(&mut s, any, &[a.clone(), a.clone(), a.clone()]);
    assert_eq!(with(&Value::Int(1)), ["2|1|1"]);
    assert_eq!(with(&number("1.25")), ["2.25|1.25|1.3"]);
    assert_eq!(with(&Value::Double(1.5)), ["2.5|1.5|1.5"]);
    assert_eq!(with(&Value::Null), ["NULL|0|NULL"]);
    assert_eq!(with(&Value::Int(3)), ["4|3|3"]);
    let text = block_on(s.prepare(b"SELECT IFNULL(?, 0)")).unwrap().id;
    assert_eq!(execute(&mut s, text, &[Value::text("abc")]), ["abc"]);
    let change = block_on(s.prepare(b"UPDATE d SET d = COALESCE(?, 0) WHERE id = ?")).unwrap().id;
    assert_eq!(execute(&mut s, change, &[number("1.5"), Value::Int(1)]), ["ok 1 0"]);
    let sum = block_on(s.prepare(b"SELECT SUM(d * ?) FROM d")).unwrap().id;
    assert_eq!(execute(&mut s, sum, &[number("1.125")]), ["1.68750"]);
    // A parameter compared with an expression that depends on an open parameter is open, too.
    query(&mut s, "CREATE TABLE b (v VARCHAR(5) COLLATE utf8mb4_bin); INSERT INTO b VALUES ('3')");
    let both = [Value::text("ß"), Value::text("x")];
    for condition in [
        "COALESCE(?, 1) NOT BETWEEN v AND ?",
        "COALESCE(?, 1) > ?",
        "COALESCE(?, 1) NOT IN (v, ?)",
        "v < COALESCE(?, 1) AND ? < 'y'",
    ] {
        let statement =
            block_on(s.prepare(format!("SELECT {condition} FROM b").as_bytes())).unwrap().id;
        let text = condition.replacen('?', "'ß'", 1).replacen('?', "'x'", 1);
        assert_eq!(
            execute(&mut s, statement, &both),
            lines(&mut s, &format!("SELECT {text} FROM b")),
            "{condition}"
        );
    }
    // If a column decides the type of a parameter, other values need no other plan.
    let known = block_on(s.prepare(b"UPDATE t SET k = ? WHERE id = ?")).unwrap();
    assert!(
        block_on(s.find_prepared(b"UPDATE t SET k = ? WHERE id = ?")).unwrap().1.untyped.is_empty()
    );
    assert_eq!(execute(&mut s, known.id, &[Value::text("5"), Value::Int(1)]), ["ok 0 0"]);
    // The statement sees a changed definition.
    query(
        &mut s,
        "DROP TABLE d; CREATE TABLE d (id INT PRIMARY KEY, d DECIMAL(10, 3)); INSERT INTO d VALUES \
            (1, 1.5)",
    );
    assert_eq!(execute(&mut s, sum, &[number("1.125")]), ["1.687500"]);
}

#[test]
fn a_parameter_that_is_no_number_equals_nothing() {
    let world = World::new();
    let mut s = world.session();
    let table = "CREATE TABLE d (id INT PRIMARY KEY, d DOUBLE, n DECIMAL(9,2), s VARCHAR(9), \
        t DATE, y YEAR, j JSON, KEY (d), KEY (t))";
    query(&mut s, table);
    // Without strict mode, a text that is no number gives a warning.
    query(&mut s, "SET sql_mode = ''");
    query(
        &mut s,
        "INSERT INTO d VALUES (0, 0, 0, 'a', '2024-01-01', 0, '0'), \
            (1, 1, 1, '', '0000-00-00', 2024, NULL), (2, 2, 2, '2', NULL, NULL, NULL)",
    );
    let nan = Value::Double(f64::NAN);
    let mut run = |text: &str, params: &[Value<'_>]| {
        let prepared = block_on(s.prepare(text.as_bytes())).expect(text);
        let answer = execute(&mut s, prepared.id, params);
        s.close_statement(prepared.id);
        answer
    };
    for column in ["id", "d", "n", "s", "t", "y", "j", "d + 1", "IF(id, s, d)"] {
        for operator in ["= ?", "<=> ?", "< ?", ">= ?", "IN (?)", "NOT IN (?)", "BETWEEN ? AND 9"] {
            let text = format!("DELETE FROM d WHERE {column} {operator}");
            assert_eq!(run(&text, std::slice::from_ref(&nan)), ["ok 0 0"], "{text}");
        }
    }
    let both = [nan.clone(), nan.clone()];
    assert_eq!(run("SELECT ? = ?", &both), ["NULL"]);
    assert_eq!(run("SELECT ? <=> ?", &both), ["0"]);
    assert_eq!(run("SELECT COUNT(*) FROM d WHERE d IN (?, 1)", &both[..1]), ["1"]);
    for infinite in [f64::NAN, f64::INFINITY] {
        let params = [Value::Double(infinite)];
        for text in [
            "SELECT JSON_ARRAY(?)",
            "SELECT JSON_OBJECT('a', ?)",
            "SELECT CAST(? AS JSON)",
            "INSERT INTO d (id, j) VALUES (9, CAST(? AS JSON))",
            "SELECT ROUND(?)",
        ] {
            assert_eq!(run(text, &params), ["error 1690"], "{text}");
        }
    }
}

#[test]
fn an_execution_that_fails_before_it_begins_leaves_its_own_error_alone() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, TABLE);
    let prepared = block_on(s.prepare(b"SELECT k FROM t WHERE id = ?")).unwrap().id;
    let warnings = ["Note|1051|Unknown table 'test.nowhere'"];
    for (id, params, error) in [
        (prepared, vec![], "Error|1210|Incorrect arguments to EXECUTE"),
        (99, vec![], "Error|1243|Unknown prepared statement handler (99) given to EXECUTE"),
        (prepared, vec![Value::Int(1)], "Error|1146|Table 'test.t' doesn't exist"),
    ] {
        if error.contains("1146") {
            query(&mut s, "DROP TABLE t");
        }
        query(&mut s, "DROP TABLE IF EXISTS nowhere");
        assert_eq!(lines(&mut s, "SHOW WARNINGS"), warnings);
        assert!(execute(&mut s, id, &params)[0].starts_with("error"));
        assert_eq!(lines(&mut s, "SHOW WARNINGS"), [error]);
    }
    query(&mut s, "SET GLOBAL max_prepared_stmt_count = 1");
    query(&mut s, "DROP TABLE IF EXISTS nowhere");
    assert_eq!(block_on(s.prepare(b"SELECT 1")).unwrap_err().code, 1461);
    assert_eq!(lines(&mut s, "SHOW COUNT(*) WARNINGS"), ["1"]);
}

#[test]
fn a_description_is_made_of_the_sessions_own_variables() {
    let world = World::new();
    for (value, is_string) in [("1", false), ("'text'", true), ("2", false)] {
        let mut s = world.session();
        lines(&mut s, &format!("SET @a = {value}"));
        let prepared = block_on(s.prepare(b"SELECT @a")).unwrap();
        assert_eq!(prepared.columns[0].ty.kind.is_string(), is_string);
    }
}

#[test]
fn statements_of_prepare_are_counted() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "PREPARE p FROM 'SELECT 1'; EXECUTE p; EXECUTE p; DEALLOCATE PREPARE p");
    lines(&mut s, "PREPARE p FROM 'SELEC'");
    lines(&mut s, "EXECUTE p");
    let count = |counter| world.db.status.counters.get(counter);
    assert_eq!(count(Counter::ComPrepareSql), 2);
    assert_eq!(count(Counter::ComExecuteSql), 3);
    assert_eq!(count(Counter::ComDeallocateSql), 1);
    assert_eq!(count(Counter::ComSelect), 2);
}

/// BIND-3: a plan for parameters of some types never runs with parameters of other types.
#[test]
fn parameters_of_other_types_compare_otherwise() {
    let world = World::new();
    let mut s = world.session();
    query(&mut s, "CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(20), d DATE, KEY (v), KEY (d))");
    query(
        &mut s,
        "INSERT INTO p VALUES (1, '1', '2024-01-01'), (2, '1.0', '2024-02-29'), (3, 'x', NULL)",
    );
    let day = Date::new(2024, 1, 1).unwrap();
    let at = |hour| Value::DateTime(DateTime::new(day, hour, 0, 0, 0).unwrap());
    let kinds: [(&[u8], Vec<(Value<'static>, &str)>); 3] = [
        (
            b"SELECT id FROM p WHERE v = ? ORDER BY id",
            vec![
                (Value::Int(1), "1,2"),
                (Value::text("1"), "1"),
                (Value::Decimal(Decimal::from(1u64)), "1,2"),
                (Value::text("x"), "3"),
                (Value::Double(1.0), "1,2"),
                (Value::Null, ""),
                (Value::UInt(1), "1,2"),
            ],
        ),
        (
            b"SELECT id FROM p WHERE d <= ? ORDER BY id",
            vec![
                (Value::Date(day), "1"),
                (Value::Int(20240229), "1,2"),
                (at(10), "1"),
                (Value::text("2023-12-31"), ""),
                (at(0), "1"),
                (Value::Null, ""),
                (Value::text("2024-02-29"), "1,2"),
            ],
        ),
        (
            b"SELECT COALESCE(?, 0) + 1",
            vec![
                (Value::Int(1), "2"),
                (Value::Double(0.5), "1.5"),
                (Value::text("2"), "3"),
                (Value::Int(i64::MAX), "error 1690"),
                (Value::Decimal(Decimal::from(u64::MAX)), "18446744073709551616"),
                (Value::Null, "1"),
            ],
        ),
    ];
    for (text, values) in kinds {
        let id = block_on(s.prepare(text)).unwrap().id;
        // Each value follows each other one.
        for (first, first_rows) in &values {
            for (second, second_rows) in &values {
                for (value, rows) in [(first, first_rows), (second, second_rows)] {
                    let found = execute(&mut s, id, std::slice::from_ref(value)).join(",");
                    assert_eq!(found, **rows, "{value:?} of {}", text.escape_ascii());
                }
            }
        }
    }
}

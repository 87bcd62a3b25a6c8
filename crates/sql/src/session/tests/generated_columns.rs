//! Generated columns: the text of their expressions, what these may name, and what they cost.
use super::{World, execute, lines};
use redolith_engine::runtime::block_on;
use redolith_types::{Generation, Value};

/// The generations of the table's columns.
fn kept(w: &World, table: &str) -> Vec<Option<Generation>> {
    let table = w.server.engine.dict.table("test", table).unwrap();
    table.def.columns.iter().map(|column| column.generation.clone()).collect()
}

/// Tests GENCOL-1: a table that is made from its own SHOW CREATE TABLE has the same expressions,
/// and they have the same values whatever the session's mode and character set are.
#[test]
fn the_text_of_an_expression_makes_the_same_values() {
    let w = World::new();
    let mut s = w.session();
    let modes = "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE'";
    for (mode, expression) in [
        ("''", "a + b * -c"),
        ("''", "CONCAT(s, 'é', \"\\n\", b) COLLATE utf8mb4_bin"),
        ("''", "NOT a BETWEEN 0 AND 1"),
        ("''", "a || b"),
        (modes, "s || 'x\\' || \"b\""),
        (modes, "NOT a BETWEEN 0 AND 1"),
        ("''", "j->>'$.k'"),
        ("''", "CASE WHEN a > 1 THEN s ELSE HEX(s) END"),
        ("''", "DATE_FORMAT(d + INTERVAL a DAY, '%Y')"),
        ("''", "IF(s LIKE 'x%' ESCAPE '|', UPPER(s), t.s)"),
    ] {
        let columns = "a INT, b INT, c INT, s VARCHAR(9), d DATETIME, j JSON";
        let insert = "INSERT INTO t (a, b, c, s, d, j) VALUES \
            (2, 3, 4, 'xy', 20200101000000, JSON_OBJECT(0x6b, 7))";
        lines(&mut s, &format!("SET sql_mode = {mode}"));
        let made = format!("CREATE TABLE t ({columns}, g VARCHAR(50) AS ({expression}) STORED)");
        assert_eq!(lines(&mut s, &made), ["ok 0 0"], "{expression}");
        lines(&mut s, "SET sql_mode = ''");
        let before = kept(&w, "t");
        assert_eq!(lines(&mut s, insert), ["ok 1 0"]);
        let value = lines(&mut s, "SELECT g FROM t");
        let shown = lines(&mut s, "SHOW CREATE TABLE t").remove(0);
        let text = shown.split_once('|').unwrap().1.to_string();
        assert_eq!(lines(&mut s, "DROP TABLE t"), ["ok 0 0"]);
        assert_eq!(lines(&mut s, &text), ["ok 0 0"], "{text}");
        assert_eq!(kept(&w, "t"), before);
        lines(&mut s, &format!("SET sql_mode = {modes}"));
        lines(&mut s, "SET NAMES latin1");
        assert_eq!(lines(&mut s, insert), ["ok 1 0"]);
        lines(&mut s, "SET NAMES utf8mb4");
        lines(&mut s, "SET sql_mode = ''");
        assert_eq!(lines(&mut s, "SELECT g FROM t"), value, "{expression}");
        lines(&mut s, "DROP TABLE t");
    }
}

/// Tests GENCOL-1 and GENCOL-2.
#[test]
fn an_expression_needs_nothing_but_columns_before_it() {
    let w = World::new();
    let mut s = w.session();
    for (expression, code) in [
        ("a + later_base", 0),
        ("FROM_UNIXTIME(a)", 0),
        ("UNIX_TIMESTAMP('2020-02-02')", 0),
        ("before_it + 1", 0),
        ("g", 3107),
        ("behind_it + 1", 3107),
        ("n", 3109),
        ("UNIX_TIMESTAMP()", 3763),
        ("CONNECTION_ID()", 3763),
        ("UUID()", 3763),
        ("SLEEP(1)", 3763),
        ("LAST_INSERT_ID()", 3763),
        ("COUNT(*)", 3763),
        ("ROW_NUMBER() OVER ()", 3763),
        ("VALUES(a)", 3763),
        ("DEFAULT(a)", 3763),
        ("@x", 3765),
        ("(@x := 1)", 3765),
        ("@@sql_mode", 3765),
        ("EXISTS (SELECT 1)", 3102),
        ("a > ALL (SELECT 1)", 3102),
        ("(a, 1)", 3764),
        ("gone", 1054),
        ("u.a", 1054),
        ("ABS(a, a)", 1582),
        ("JSON_VALUE(a, '$')", 1235),
    ] {
        let made = lines(
            &mut s,
            &format!(
                "CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, a INT, before_it INT AS (a), \
                    g VARCHAR(90) AS ({expression}), behind_it INT AS (a), later_base INT)"
            ),
        );
        let expected = if code == 0 { "ok 0 0".into() } else { format!("error {code}") };
        assert_eq!(made, [expected], "{expression}");
        lines(&mut s, "DROP TABLE IF EXISTS t");
    }
    let refused = block_on(s.prepare(b"CREATE TABLE t (a INT, g INT AS (a + ?))"));
    let code = match refused {
        Err(e) => e.code,
        Ok(prepared) => {
            let got = execute(&mut s, prepared.id, &[Value::Int(1)]);
            got[0].strip_prefix("error ").map_or(0, |code| code.parse().unwrap())
        }
    };
    assert_eq!(code, 3102);
}

/// A plan that was made before a column became a generated one is not used after.
#[test]
fn a_prepared_statement_meets_a_new_expression() {
    let w = World::new();
    let (mut s, mut other) = (w.session(), w.session());
    lines(&mut s, "CREATE TABLE t (id INT PRIMARY KEY, g INT AS (id + 1) STORED)");
    let insert = block_on(s.prepare(b"INSERT INTO t (id) VALUES (?)")).unwrap().id;
    let update = block_on(s.prepare(b"UPDATE t SET id = id + ?")).unwrap().id;
    assert_eq!(execute(&mut s, insert, &[Value::Int(1)]), ["ok 1 0"]);
    let alter = "ALTER TABLE t MODIFY g INT AS (id * 100) STORED";
    assert_eq!(lines(&mut other, alter), ["ok 1 0"]);
    assert_eq!(execute(&mut s, insert, &[Value::Int(2)]), ["ok 1 0"]);
    assert_eq!(lines(&mut s, "SELECT * FROM t"), ["1|100", "2|200"]);
    assert_eq!(execute(&mut s, update, &[Value::Int(7)]), ["ok 2 0"]);
    assert_eq!(lines(&mut s, "SELECT * FROM t"), ["8|800", "9|900"]);
}

/// A table with a generated primary key has its generated columns one place further on.
#[test]
fn a_generated_primary_key_shifts_the_columns() {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "SET sql_generate_invisible_primary_key = ON");
    let create = "CREATE TABLE t (b INT AS (a + 1) STORED, c INT AS (b * 2)) SELECT 4 AS a";
    assert_eq!(lines(&mut s, create), ["ok 1 1"]);
    assert_eq!(lines(&mut s, "INSERT INTO t (a) VALUES (7)"), ["ok 1 2"]);
    assert_eq!(lines(&mut s, "SELECT a, b, c FROM t"), ["4|5|10", "7|8|16"]);
}

/// A dictionary whose text of an expression is damaged gives errors. The rows can still be read,
/// and the table can be dropped.
#[test]
fn a_damaged_expression_is_an_error() {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE t (a INT, g INT AS (a + 1) STORED, later INT AS (a))");
    assert_eq!(lines(&mut s, "INSERT INTO t (a) VALUES (1)"), ["ok 1 0"]);
    for expression in [
        "",
        "(",
        "1), (2",
        "SLEEP(9)",
        "(SELECT 1)",
        "@x",
        "?",
        "VALUES(a)",
        "SUM(a)",
        "`gone` + 1",
        "`g` + 1",
        "`later` + 1",
        "1; DROP TABLE t",
    ] {
        let old = w.server.engine.dict.table("test", "t").unwrap();
        let mut def = old.def.clone();
        def.columns[1].generation.as_mut().unwrap().expression = expression.into();
        let to = redolith_engine::dict::alter::Alteration {
            def,
            added: 0,
            dropped: Vec::new(),
            auto_increment: None,
            record: None,
        };
        let kill = redolith_engine::lock::KillFlag::new();
        let how = redolith_engine::dict::index_build::Building::in_memory(kill);
        block_on(w.server.engine.alter_table(&old, to, &how)).unwrap();
        for text in ["INSERT INTO t (a) VALUES (1)", "UPDATE t SET a = 9", "REPLACE t (a) SELECT 1"]
        {
            assert!(lines(&mut s, text)[0].starts_with("error"), "{expression}: {text}");
        }
        assert_eq!(lines(&mut s, "SELECT * FROM t"), ["1|2|1"]);
    }
    assert_eq!(lines(&mut s, "DROP TABLE t"), ["ok 0 0"]);
}

/// A long value is charged to the statement while it is made.
#[test]
fn a_long_value_needs_the_memory_of_a_statement() {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE t (s TEXT, n INT, g LONGTEXT AS (REPEAT(s, n)) STORED)");
    let insert = "INSERT INTO t (s, n) VALUES ('0123456789', 300000)";
    let update = "UPDATE t SET n = n + 1";
    let again = "INSERT INTO t (s, n) VALUES ('0123456789', 2) ON DUPLICATE KEY UPDATE n = 300002";
    let start = w.server.memory.used();
    for (text, length) in [(insert, "3000000"), (update, "3000010"), (again, "3000020")] {
        if text == again {
            lines(&mut s, "DELETE FROM t");
            lines(&mut s, "ALTER TABLE t ADD UNIQUE KEY (s(10))");
            lines(&mut s, "INSERT INTO t (s, n) VALUES ('0123456789', 1)");
        }
        for (bound, is_refused) in [(1 << 20, true), (64 << 20, false)] {
            lines(&mut s, &format!("SET redolith_statement_memory = {bound}"));
            w.server.memory.reset_counts();
            let got = lines(&mut s, text);
            assert_eq!(got[0].starts_with("error"), is_refused, "{text}: {got:?}");
            assert!(w.server.memory.peak() - start <= bound + (64 << 10), "{text}");
            assert_eq!(s.state.memory.statement.used(), 0, "{text}");
        }
        assert_eq!(lines(&mut s, "SELECT LENGTH(g) FROM t"), [length], "{text}");
    }
    // Rows give back what they were charged for, however many there are.
    lines(&mut s, "DELETE FROM t");
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    for n in 0..30 {
        let insert = format!("INSERT INTO t (s, n) VALUES ('01234567{n:02}', 9000)");
        assert_eq!(lines(&mut s, &insert), ["ok 1 0"]);
    }
    let updates = [
        "UPDATE t SET n = n + 1",
        "UPDATE t SET n = n + 1 ORDER BY s DESC",
        "UPDATE t, (SELECT 1 AS one) AS d SET n = n + one",
    ];
    for text in updates {
        assert_eq!(lines(&mut s, text), ["ok 30 0"], "{text}");
    }
    assert_eq!(lines(&mut s, "SELECT SUM(LENGTH(g)) FROM t"), ["2700900"]);
}

//! Tests what histograms do to plans, and who changes them.
use super::{World, execute, lines, query};
use crate::session::Session;
use redolith_engine::runtime::block_on;
use redolith_types::Value;

const TABLES: &str = "CREATE DATABASE s; USE s; \
     CREATE TABLE a (id INT PRIMARY KEY, b_id INT, x INT, name VARCHAR(80), KEY (b_id)); \
     CREATE TABLE b (id INT PRIMARY KEY, y INT)";

/// Of 1000 rows of `a`, nine tenths have x = 1, and each other value of x has one row. So has each
/// row of `b` its own y.
fn filled(world: &World) -> Session {
    let mut s = world.session();
    query(&mut s, TABLES);
    let x = |n: u32| if n.is_multiple_of(10) { n } else { 1 };
    let rows: Vec<_> = (1..=1000)
        .map(|n| format!("({n}, {n}, {}, '{}')", x(n), "n".repeat(n as usize % 60)))
        .collect();
    query(&mut s, &format!("INSERT INTO a VALUES {}", rows.join(", ")));
    let rows: Vec<_> = (1..=1000).map(|n| format!("({n}, {n})")).collect();
    query(&mut s, &format!("INSERT INTO b VALUES {}", rows.join(", ")));
    s
}
/// The tables that EXPLAIN names, in its order.
fn order(session: &mut Session, text: &str) -> Vec<String> {
    let rows = lines(session, &format!("EXPLAIN {text}"));
    rows.iter().map(|row| row.split('|').nth(2).unwrap().to_string()).collect()
}
/// The percentage of rows that EXPLAIN expects a condition on `a` to leave.
fn filtered(session: &mut Session, condition: &str) -> String {
    let rows = lines(session, &format!("EXPLAIN FORMAT=JSON SELECT * FROM a WHERE {condition}"));
    let (_, rest) = rows[0].split_once("\"filtered\":").expect(condition);
    let number = rest.trim_start_matches([' ', '"']);
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
    format!("{:.2}", number[..end].parse::<f64>().unwrap())
}

#[test]
fn conditions_on_columns_without_an_index_are_estimated() {
    let world = World::new();
    let mut s = filled(&world);
    assert_eq!(filtered(&mut s, "x = 1"), "10.00");
    query(&mut s, "ANALYZE TABLE a UPDATE HISTOGRAM ON x, name WITH 1024 BUCKETS");
    for (condition, expected) in [
        ("x = 1", "90.00"),
        ("x = 20", "0.10"),
        ("x = 21", "0.00"),
        ("x <> 1", "10.00"),
        ("x > 1", "10.00"),
        ("1 < x", "10.00"),
        ("x >= 1", "100.00"),
        ("x < -5", "0.00"),
        ("x BETWEEN 10 AND 100", "1.00"),
        ("x NOT BETWEEN 10 AND 100", "99.00"),
        ("x IN (1, 10, 20)", "90.20"),
        ("x NOT IN (1, 10, 20)", "9.80"),
        ("x IS NULL", "0.00"),
        ("x IS NOT NULL", "100.00"),
        ("x <=> NULL", "0.00"),
        ("x = '1'", "90.00"),
        ("x = 1 OR x = 20", "90.01"),
        // 42 characters tell, so this has all longer names.
        ("name = 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'", "28.80"),
    ] {
        assert_eq!(filtered(&mut s, condition), expected, "{condition}");
    }
    // Members of an ENUM are known by their names; numbers and other collations say nothing.
    query(&mut s, "ALTER TABLE a ADD e ENUM('r', 'm') DEFAULT 'm'");
    query(&mut s, "ANALYZE TABLE a UPDATE HISTOGRAM ON e");
    for (condition, expected) in [
        ("e = 'm'", "100.00"),
        ("e = 'r'", "0.00"),
        ("e = 2", "10.00"),
        ("e = 'M' COLLATE utf8mb4_bin", "10.00"),
    ] {
        assert_eq!(filtered(&mut s, condition), expected, "{condition}");
    }
    query(&mut s, "ANALYZE TABLE a DROP HISTOGRAM ON x");
    assert_eq!(filtered(&mut s, "x = 1"), "10.00");
}

/// Tests PLAN-3: plans follow a new histogram, and one that goes, whoever holds them.
#[test]
fn join_orders_follow_the_values() {
    let join = |x: u32| {
        format!("SELECT COUNT(*) FROM a JOIN b ON a.b_id = b.y WHERE a.x = {x} AND b.id < 500")
    };
    let world = World::new();
    let (mut s, mut other) = (filled(&world), world.session());
    let before = order(&mut s, &join(1));
    assert_eq!(
        (lines(&mut s, &join(1)), lines(&mut s, &join(20))),
        (vec!["450".into()], vec!["1".into()])
    );
    query(&mut s, "ANALYZE TABLE a UPDATE HISTOGRAM ON x WITH 1024 BUCKETS");
    assert_eq!(order(&mut s, &join(20)), ["a", "b"], "one row begins");
    // A plan depends on the value, and each value finds its own.
    assert_eq!(
        (lines(&mut s, &join(1)), lines(&mut s, &join(20))),
        (vec!["450".into()], vec!["1".into()])
    );
    let prepared = block_on(
        s.prepare(b"SELECT COUNT(*) FROM a JOIN b ON a.b_id = b.y WHERE a.x = ? AND b.id < 500"),
    );
    let prepared = prepared.unwrap().id;
    assert_eq!(execute(&mut s, prepared, &[Value::Int(1)]), ["450"]);
    query(&mut other, "ANALYZE TABLE s.a DROP HISTOGRAM ON x");
    assert_eq!(order(&mut s, &join(1)), before);
    assert_eq!(execute(&mut s, prepared, &[Value::Int(20)]), ["1"]);
    assert_eq!(lines(&mut s, &join(20)), ["1"]);
}

/// Tests HISTOGRAM-4: with little memory some rows are looked at, and what is kept is an estimate.
#[test]
fn a_sample_takes_little_memory() {
    let world = World::new();
    let mut s = filled(&world);
    query(&mut s, "SET redolith_statement_memory = 1 << 20");
    for n in 1..=12u32 {
        let rows: Vec<_> =
            (1..=1000).map(|i| format!("({}, 1, {i}, NULL)", n * 1000 + i)).collect();
        query(&mut s, &format!("INSERT INTO a VALUES {}", rows.join(", ")));
    }
    query(&mut s, "ANALYZE TABLE a UPDATE HISTOGRAM ON x, name");
    let rate = lines(
        &mut s,
        "SELECT JSON_EXTRACT(HISTOGRAM, '$.\"sampling-rate\"') \
         FROM information_schema.column_statistics WHERE column_name = 'x'",
    );
    let rate: f64 = rate[0].parse().unwrap();
    assert!(rate > 0.01 && rate < 0.9, "{rate}");
}

/// FLUSH TABLES WITH READ LOCK holds off the change, as it does definitions.
#[test]
fn a_read_lock_of_all_tables_refuses_the_change() {
    let world = World::new();
    let mut s = filled(&world);
    query(&mut s, "FLUSH TABLES WITH READ LOCK");
    assert_eq!(lines(&mut s, "ANALYZE TABLE a UPDATE HISTOGRAM ON x"), ["error 1223"]);
    query(&mut s, "UNLOCK TABLES");
    assert_eq!(lines(&mut s, "ANALYZE TABLE a UPDATE HISTOGRAM ON x").len(), 1);
}

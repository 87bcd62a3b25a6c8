//! Tests when statistics are made, and when plans are made anew because of them.
use super::{World, execute, lines, query};
use crate::session::Session;
use redolith_engine::dict::estimate::Statistics;
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::sync::Arc;

const TABLES: &str = "CREATE DATABASE s; USE s; \
     CREATE TABLE a (id INT PRIMARY KEY, b_id INT, x INT, KEY (b_id), KEY (x)); \
     CREATE TABLE b (id INT PRIMARY KEY, name INT)";

fn of(world: &World, table: &str) -> Option<Arc<Statistics>> {
    block_on(world.db.engine.table("s", table)).unwrap().unwrap().statistics()
}
/// Gives table `a` the rows from `first` to `last`.
fn fill(session: &mut Session, first: u32, last: u32) {
    let rows: Vec<_> = (first..=last).map(|n| format!("({n}, {}, {})", n % 10, n % 3)).collect();
    query(session, &format!("INSERT INTO a VALUES {}", rows.join(", ")));
}
/// The tables that EXPLAIN names, in its order.
fn order(session: &mut Session, text: &str) -> Vec<String> {
    let rows = lines(session, &format!("EXPLAIN {text}"));
    rows.iter().map(|row| row.split('|').nth(2).unwrap().to_string()).collect()
}

/// Tests SAMPLE-1, PATH-5 and that statements without a choice look at no statistics.
#[test]
fn only_statements_with_a_choice_want_statistics() {
    let world = World::new();
    let mut a = world.session();
    query(&mut a, TABLES);
    fill(&mut a, 1, 2000);
    query(&mut a, "SELECT x FROM a WHERE id = 7");
    query(&mut a, "SELECT x FROM a WHERE id BETWEEN 7 AND 9 ORDER BY x");
    query(&mut a, "SELECT id FROM a WHERE b_id = 7");
    query(&mut a, "UPDATE a SET x = 1 WHERE id = 7");
    query(&mut a, "SELECT x FROM a WHERE id = 7 AND b_id = 7 AND x = 1");
    assert!(of(&world, "a").is_none());
    query(&mut a, "SELECT id FROM a WHERE b_id = 7 AND x = 1");
    let first = of(&world, "a").unwrap();
    assert_eq!(first.rows, 2000);
    let table = block_on(world.db.engine.table("s", "a")).unwrap().unwrap();
    assert!(first.are_current(&table));
    query(&mut a, "ANALYZE TABLE a");
    assert!(!first.are_current(&table), "ANALYZE TABLE makes new ones");
    let second = of(&world, "a").unwrap();
    fill(&mut a, 2001, 2250);
    assert!(second.are_current(&table), "an eighth more, but fewer than a tenth and 100 rows");
    fill(&mut a, 2251, 2400);
    assert!(!second.are_current(&table));
    query(&mut a, "SELECT id FROM a WHERE b_id = 7 AND x = 1");
    assert_eq!(of(&world, "a").unwrap().rows, 2400);
}

/// Tests PLAN-3: both kinds of plans are made anew when the statistics are old.
#[test]
fn plans_follow_the_statistics() {
    const JOIN: &str = "SELECT COUNT(*) FROM a JOIN b ON a.b_id = b.id WHERE b.name = 3";
    let world = World::new();
    let mut a = world.session();
    query(&mut a, TABLES);
    query(&mut a, "INSERT INTO b VALUES (1, 1), (2, 2), (3, 3), (4, 3)");
    fill(&mut a, 1, 5);
    let prepared = block_on(a.prepare(JOIN.as_bytes())).unwrap().id;
    assert_eq!(execute(&mut a, prepared, &[]), ["2"]);
    fill(&mut a, 6, 1000);
    let count = world.db.plans.len();
    assert_eq!(lines(&mut a, JOIN), ["200"]);
    assert_eq!(order(&mut a, JOIN), ["b", "a"]);
    assert_eq!(execute(&mut a, prepared, &[]), ["200"]);
    let rows: Vec<_> = (5..=5000).map(|n| format!("({n}, 9)")).collect();
    query(&mut a, &format!("INSERT INTO b VALUES {}", rows.join(", ")));
    query(&mut a, "DELETE FROM a WHERE id > 20");
    assert_eq!(order(&mut a, JOIN), ["a", "b"]);
    assert_eq!(lines(&mut a, JOIN), ["4"]);
    assert_eq!(execute(&mut a, prepared, &[]), ["4"]);
    assert!(world.db.plans.len() <= count + 3, "a new plan takes the place of the old one");
    let with = block_on(a.prepare(b"SELECT a.id FROM a, b WHERE a.b_id = b.id AND a.x = ?"));
    assert_eq!(execute(&mut a, with.unwrap().id, &[Value::Int(9)]), [] as [&str; 0]);
}

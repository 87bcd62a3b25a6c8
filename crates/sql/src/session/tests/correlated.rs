//! How often correlated subqueries are run, what they keep, and what their evaluation must not do
//! twice. Their answers are tested by `tests/sql/cases/correlated.test`.
use super::memory::failed;
use super::{World, execute, lines};
use crate::session::Session;
use redolith_engine::runtime::block_on;
use redolith_types::Value;

fn world() -> (World, Session) {
    let world = World::new();
    let mut s = world.session();
    for text in [
        "CREATE TABLE o (id INT PRIMARY KEY, k INT, s VARCHAR(10))",
        "CREATE TABLE i (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v INT, s VARCHAR(600))",
        "CREATE TABLE j (id INT PRIMARY KEY, k INT, v INT, KEY k (k))",
    ] {
        assert_eq!(lines(&mut s, text), ["ok 0 0"]);
    }
    let rows: Vec<_> = (1..=40).map(|n| format!("({n}, {}, '{n}x')", n % 10)).collect();
    lines(&mut s, &format!("INSERT INTO o VALUES {}", rows.join(", ")));
    let rows: Vec<_> = (1..=50).map(|n| format!("({}, {n}, 'a{n}')", n % 7)).collect();
    lines(&mut s, &format!("INSERT INTO i (k, v, s) VALUES {}", rows.join(", ")));
    lines(&mut s, "INSERT INTO j SELECT id, k, v FROM i");
    (world, s)
}
/// The rows that a statement reads by scans, in steps of a table without an index.
fn scanned(s: &mut Session, text: &str) -> u64 {
    lines(s, "FLUSH STATUS");
    let answer = lines(s, text);
    assert!(!failed(&answer), "{text}: {answer:?}");
    let shown = lines(s, "SHOW SESSION STATUS LIKE 'Handler_read_rnd_next'");
    shown[0].split_once('|').unwrap().1.parse().unwrap()
}

/// Tests SUB-1 and SUB-2: ten values of `o.k` make ten runs, and what does not depend on the row is
/// run once.
#[test]
fn a_subquery_is_run_for_each_value_that_it_takes() {
    let (_world, mut s) = world();
    let (o, i) = (41, 51);
    let value = "SELECT SUM((SELECT MAX(v) FROM i WHERE i.k = o.k)) FROM o";
    assert_eq!(scanned(&mut s, value), o + 10 * i);
    let once = "SELECT SUM((SELECT MAX(v) FROM i)) FROM o";
    assert_eq!(scanned(&mut s, once), o + i);
    let nested = "SELECT SUM((SELECT COUNT(*) FROM i WHERE i.k = o.k AND v > (SELECT AVG(v) FROM \
                  i))) FROM o";
    assert_eq!(scanned(&mut s, nested), o + 11 * i);
    let two_away = "SELECT SUM((SELECT COUNT(*) FROM j WHERE j.k = o.k AND v > (SELECT AVG(v) FROM \
                    i WHERE k < o.k))) FROM o";
    assert_eq!(scanned(&mut s, two_away), o + 10 * i);
    let derived =
        "SELECT SUM((SELECT MAX(d.v) FROM (SELECT k, v FROM i) d WHERE d.k = o.k)) FROM o";
    assert_eq!(scanned(&mut s, derived), o + i);
}

/// Tests SUB-3: after two runs, which end at the first row that matches, the third makes a table.
#[test]
fn equalities_are_answered_from_a_hash_table() {
    let (_world, mut s) = world();
    for (test, rows) in [
        ("EXISTS (SELECT 1 FROM i WHERE i.k = o.k AND i.v > 30)", 28),
        ("NOT EXISTS (SELECT 1 FROM i WHERE i.k = o.k AND i.v > 30)", 12),
        ("o.id IN (SELECT v FROM i WHERE i.k = o.k)", 6),
        ("o.id NOT IN (SELECT v FROM i WHERE i.k = o.k)", 34),
        ("o.id NOT IN (SELECT NULLIF(v, 7) FROM i WHERE i.k = o.k)", 30),
    ] {
        let text = format!("SELECT COUNT(*) FROM o WHERE {test}");
        assert!(scanned(&mut s, &text) <= 41 + 3 * 51, "{text}");
        // Without the hash table, for comparison.
        let slow = text.replace("i.k = o.k", "i.k <= o.k AND i.k >= o.k");
        assert_eq!(lines(&mut s, &text), [rows.to_string()], "{text}");
        assert_eq!(lines(&mut s, &slow), [rows.to_string()], "{slow}");
    }
}

/// An index serves the runs, and its table is read whole only when that is no more work.
#[test]
fn an_index_serves_until_a_hash_table_pays() {
    let (_world, mut s) = world();
    let text = "SELECT COUNT(*) FROM o WHERE EXISTS (SELECT 1 FROM j WHERE j.k = o.k AND v < 50)";
    assert_eq!(scanned(&mut s, text), 41);
    let many = "SELECT COUNT(*) FROM o a, o b WHERE EXISTS (SELECT 1 FROM j WHERE j.k = a.id * 100 \
                + b.id)";
    let scans = scanned(&mut s, many);
    assert_eq!(scans, 41 + 40 * 41 + 51);
}

/// Tests CORR-1: an expression has all its answers after as many beginnings.
#[test]
fn many_subqueries_in_an_expression_are_answered() {
    let (_world, mut s) = world();
    let one = "(SELECT COUNT(*) FROM i WHERE i.k = o.k)";
    let sum = vec![one; 60].join(" + ");
    let answer = lines(&mut s, &format!("SELECT id, {sum} FROM o WHERE id < 3 ORDER BY id"));
    assert_eq!(answer, ["1|480", "2|420"]);
    let grouped = format!("SELECT MAX({sum}), SUM({one}) FROM o GROUP BY {one} ORDER BY {one}");
    lines(&mut s, &grouped);
    let listed = format!("SELECT COUNT(*) FROM o WHERE {one} IN (7, {one} * 2 + 1, 8)");
    assert_eq!(lines(&mut s, &listed), ["28"]);
}

/// Tests CORR-2: a volatile subquery is run for each row, and its answer serves the evaluation.
#[test]
fn a_volatile_subquery_is_run_for_each_row() {
    let (_world, mut s) = world();
    let text = "SELECT SUM((SELECT COUNT(*) + 0 * RAND() FROM i WHERE i.k = o.k)) FROM o";
    assert_eq!(scanned(&mut s, text), 41 + 40 * 51);
    let two = "(SELECT MAX(v + 0 * RAND()) FROM i WHERE i.k = o.k AND EXISTS (SELECT 1 FROM j \
               WHERE j.id = i.id AND j.v = o.id - o.id + i.v + 0 * RAND()))";
    let text = format!("SELECT COUNT(*) FROM o WHERE {two} = {two} + 0 * o.k OR {two} IS NULL");
    assert!(lines(&mut s, &text)[0].parse::<u32>().unwrap() > 0);
}

/// The beginnings before the last do not warn.
#[test]
fn an_evaluation_warns_once() {
    let (_world, mut s) = world();
    for text in [
        "SELECT (s + 0) + (SELECT MAX(v) FROM i WHERE i.k = o.k) FROM o WHERE id < 4",
        "SELECT (s + 0) + (SELECT MAX(v) FROM i WHERE i.k = o.k) FROM o WHERE id < 4 ORDER BY 1",
        "SELECT SUM((s + 0) + (SELECT MAX(v) FROM i WHERE i.k = o.k)) FROM o WHERE id < 4",
        "SELECT 1 FROM o WHERE id < 4 AND (s + 0) < (SELECT MAX(v) FROM i WHERE i.k = o.k)",
    ] {
        lines(&mut s, text);
        assert_eq!(lines(&mut s, "SHOW COUNT(*) WARNINGS"), ["3"], "{text}");
    }
}

/// Tests CORR-3.
#[test]
fn what_subqueries_keep_is_bounded_and_given_back() {
    let (world, mut s) = world();
    for _ in 0..6 {
        lines(
            &mut s,
            "INSERT INTO i (k, v, s) SELECT k, v + 50, CONCAT(REPEAT('a', 500), id) FROM i",
        );
    }
    let start = world.db.memory.used();
    let texts = [
        "SELECT COUNT(*) FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.s = o.s)",
        "SELECT COUNT(*) FROM o WHERE o.s IN (SELECT i.s FROM i WHERE i.k = o.k)",
        "SELECT COUNT(*) FROM o WHERE (SELECT MAX(CONCAT(i.s, o.id)) FROM i WHERE i.k = o.k) > 'b'",
        "SELECT SUM((SELECT COUNT(*) FROM INFORMATION_SCHEMA.COLUMNS WHERE ORDINAL_POSITION > \
         o.id)) FROM o",
    ];
    let answers = texts.map(|text| lines(&mut s, text));
    // The hash tables do not fit, and the subqueries are run instead.
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    for (text, answer) in texts.iter().zip(&answers) {
        let again = lines(&mut s, text);
        assert!(again == *answer || again == ["error 3170"], "{text}: {again:?}");
        assert_eq!((s.state.memory.statement.used(), world.db.memory.used()), (0, start), "{text}");
    }
    assert_eq!(lines(&mut s, texts[0]), answers[0]);
}

#[test]
fn parameters_stand_inside_and_outside() {
    let (_world, mut s) = world();
    let text = "SELECT COUNT(*) FROM o WHERE id > ? AND EXISTS (SELECT 1 FROM i WHERE i.k = o.k \
                AND i.v > ?)";
    let id = block_on(s.prepare(text.as_bytes())).unwrap().id;
    for (least, v, rows) in [(0, 30, "28"), (20, 30, "14"), (0, 49, "4"), (0, 50, "0")] {
        assert_eq!(execute(&mut s, id, &[Value::Int(least), Value::Int(v)]), [rows]);
    }
    // Statements that differ in literals share a plan, and no answers.
    for (v, rows) in [(30, "28"), (49, "4"), (50, "0"), (30, "28")] {
        let text = format!(
            "SELECT COUNT(*) FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k AND i.v > {v})"
        );
        assert_eq!(lines(&mut s, &text), [rows]);
    }
}

/// A subquery in a long select list that names an earlier item does not hide the later ones.
#[test]
fn later_items_of_a_long_list_have_names() {
    let world = World::new();
    let mut s = world.session();
    let items = (0..20).map(|n| format!("{n} AS a{n}")).collect::<Vec<_>>().join(", ");
    let text = format!("SELECT {items}, (SELECT a3) AS b, 5 AS c HAVING c = 5 AND b = 3");
    let row = (0..20).chain([3, 5]).map(|n| n.to_string()).collect::<Vec<_>>().join("|");
    assert_eq!(lines(&mut s, &text), [row]);
}

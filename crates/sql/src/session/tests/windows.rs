//! Tests window functions against joins that say the same, and their limits.
use super::{World, lines};
use crate::processes::Kill;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const TABLE: &str = "CREATE TABLE w (id INT PRIMARY KEY, g INT NOT NULL, v INT, d DECIMAL(8,2), \
    s VARCHAR(9))";
const ROWS: &str = "INSERT INTO w WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r \
    WHERE n < 400) SELECT n, n * 7 % 5, IF(n % 11 = 0, NULL, n * 7919 % 101 - 50), IF(n % 13 = 0, \
    NULL, n * 104729 % 1009 / 100), IF(n % 7 = 0, NULL, CHAR(97 + n * 31 % 26)) FROM r";

/// WIN-1, WIN-3: what moves gives the same as what is calculated anew.
#[test]
fn moving_frames_are_like_joins() {
    let world = World::new();
    let mut s = world.session();
    assert_eq!(lines(&mut s, TABLE), ["ok 0 0"]);
    assert_eq!(lines(&mut s, ROWS), ["ok 400 0"]);
    let calls = [
        "COUNT(*)",
        "COUNT(#.v)",
        "SUM(#.v)",
        "AVG(#.d)",
        "SUM(#.d)",
        "MIN(#.v)",
        "MAX(#.d)",
        "MIN(#.s)",
        "MAX(#.s)",
        "BIT_OR(#.id)",
        "BIT_XOR(#.id)",
        "BIT_AND(#.id)",
    ];
    let rows_frames = [
        ("3 PRECEDING", "2 FOLLOWING", "b.id BETWEEN a.id - 3 AND a.id + 2"),
        ("UNBOUNDED PRECEDING", "1 PRECEDING", "b.id < a.id"),
        ("CURRENT ROW", "UNBOUNDED FOLLOWING", "b.id >= a.id"),
        ("2 FOLLOWING", "40 FOLLOWING", "b.id BETWEEN a.id + 2 AND a.id + 40"),
        ("60 PRECEDING", "50 PRECEDING", "b.id BETWEEN a.id - 60 AND a.id - 50"),
        ("5 PRECEDING", "7 PRECEDING", "1 = 0"),
    ];
    let range_frames = [
        ("3 PRECEDING", "CURRENT ROW", "b.v BETWEEN a.v - 3 AND a.v OR b.v <=> a.v"),
        ("10 PRECEDING", "4 FOLLOWING", "b.v BETWEEN a.v - 10 AND a.v + 4 OR b.v <=> a.v"),
        (
            "1 FOLLOWING",
            "9 FOLLOWING",
            "b.v BETWEEN a.v + 1 AND a.v + 9 OR b.v IS NULL AND a.v IS NULL",
        ),
        ("CURRENT ROW", "UNBOUNDED FOLLOWING", "b.v >= a.v OR a.v IS NULL"),
    ];
    let own: Vec<String> = calls.iter().map(|call| call.replace('#', "a")).collect();
    // A row of the join without a row of `b` is an empty frame.
    let other = calls.join(", ").replace('#', "b").replace("COUNT(*)", "COUNT(b.id)");
    let frames = rows_frames.iter().map(|f| ("id ROWS", f));
    let mut frames: Vec<(String, &str)> = frames
        .chain(range_frames.iter().map(|f| ("v RANGE", f)))
        .map(|(over, (start, end, same))| {
            (format!("PARTITION BY g % 1 ORDER BY {over} BETWEEN {start} AND {end}"), *same)
        })
        .collect();
    frames.push(("PARTITION BY g".to_string(), "b.g = a.g"));
    for (over, same) in frames {
        let own: String = own.iter().map(|call| format!(", {call} OVER ({over})")).collect();
        let window = format!("SELECT a.id{own} FROM w a ORDER BY 1");
        let join = format!(
            "SELECT a.id, {other} FROM w a LEFT JOIN w b ON {same} GROUP BY a.id ORDER BY 1"
        );
        assert_eq!(lines(&mut s, &window), lines(&mut s, &join), "{window}");
    }
}

/// A long partition is bounded by memory and by time, and the session goes on.
#[test]
fn long_partitions_are_ended() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, TABLE);
    lines(&mut s, ROWS);
    let text = "SELECT SUM(x) FROM (SELECT VAR_POP(a.v) OVER (ORDER BY a.id, b.id ROWS BETWEEN \
        50000 PRECEDING AND CURRENT ROW) AS x FROM w a, w b) d";
    lines(&mut s, "SET max_execution_time = 300");
    assert_eq!(lines(&mut s, text), ["error 3024"]);
    lines(&mut s, "SET max_execution_time = 0");
    let (process, done) = (s.state.process.clone(), AtomicBool::new(false));
    let killed = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                process.kill(Kill::Query);
                std::thread::yield_now();
            }
        });
        let answer = lines(&mut s, text);
        done.store(true, Relaxed);
        answer
    });
    s.state.process.forget_kill_query();
    assert_eq!(killed, ["error 1317"]);
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    assert_eq!(lines(&mut s, text), ["error 3170"]);
    assert_eq!(s.state.memory.statement.used(), 0, "MEM-2");
    // Partitions that fit may be many.
    let text = "SELECT COUNT(*), MAX(x) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY \
        b.v) AS x FROM w a, w b) d";
    assert_eq!(lines(&mut s, text), ["160000|400"]);
}

/// An aggregate has as many arguments with OVER as it has without.
#[test]
fn aggregates_over_have_their_arguments() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)");
    lines(&mut s, "INSERT INTO t VALUES (1, 1, NULL), (2, 2, NULL), (3, 3, 5)");
    let aggregates = [
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "STD",
        "STDDEV_SAMP",
        "VAR_POP",
        "VAR_SAMP",
        "JSON_ARRAYAGG",
        "JSON_OBJECTAGG",
    ];
    for name in aggregates {
        for args in ["", "*", "a", "a, b", "a, b, id"] {
            let over = "OVER (ORDER BY id ROWS 1 PRECEDING)";
            let found = lines(&mut s, &format!("SELECT {name}({args}) {over} FROM t"));
            let plain = lines(&mut s, &format!("SELECT {name}({args}) FROM t WHERE a = 1"));
            let is_error = |lines: &[String]| lines[0].starts_with("error");
            assert_eq!(is_error(&found), is_error(&plain), "{name}({args}): {found:?} {plain:?}");
            assert!(is_error(&found) || found.len() == 3, "{name}({args}): {found:?}");
        }
    }
}

/// JSON aggregates take the texts of ENUM and SET.
#[test]
fn json_aggregates_over_enums_have_texts() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('z','b'), x SET('p','q'))");
    lines(&mut s, "INSERT INTO t VALUES (1, 'z', 'q'), (2, 'b', 'p,q')");
    for call in ["JSON_ARRAYAGG(e)", "JSON_ARRAYAGG(x)", "JSON_OBJECTAGG(e, x)", "MAX(e)"] {
        let whole = lines(&mut s, &format!("SELECT {call} FROM t")).remove(0);
        let over = lines(&mut s, &format!("SELECT {call} OVER (ORDER BY e) FROM t ORDER BY id"));
        assert_eq!(over[1], whole, "{call}");
    }
}

/// What an aggregate keeps from row to row is in the account.
#[test]
fn documents_of_windows_are_counted() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(1000))");
    let rows = "INSERT INTO t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r \
        WHERE n < 500) SELECT n, REPEAT('x', 1000) FROM r";
    assert_eq!(lines(&mut s, rows), ["ok 500 0"]);
    lines(&mut s, "SET redolith_statement_memory = 20000000");
    let calls = |n: usize| vec!["JSON_LENGTH(JSON_ARRAYAGG(s) OVER ())"; n].join(", ");
    let found = lines(&mut s, &format!("SELECT {} FROM t LIMIT 1", calls(2)));
    assert_eq!(found, ["500|500"]);
    let found = lines(&mut s, &format!("SELECT {} FROM t LIMIT 1", calls(100)));
    assert_eq!(found, ["error 3170"]);
}

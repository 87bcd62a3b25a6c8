//! Tests INTERSECT and EXCEPT against their definition, and that a recursion without an end ends.
use super::{World, lines};
use crate::processes::Kill;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// SETOP-1: counts of multisets.
#[test]
fn operators_count_rows() {
    let world = World::new();
    let mut s = world.session();
    let query = |list: &[u8]| {
        let rows: Vec<_> = list.iter().map(|n| format!("SELECT {n}")).collect();
        format!("({})", rows.join(" UNION ALL "))
    };
    let lists: [&[u8]; 5] = [&[1], &[1, 1, 2], &[1, 2, 2, 3], &[2, 2, 2], &[4, 1, 1, 1]];
    let operators =
        [("INTERSECT", false), ("INTERSECT", true), ("EXCEPT", false), ("EXCEPT", true)];
    for (a, b, (word, all)) in lists
        .iter()
        .flat_map(|a| lists.iter().map(move |b| (a, b)))
        .flat_map(|(a, b)| operators.iter().map(move |o| (a, b, *o)))
    {
        let mut wanted = Vec::new();
        for n in 1..=4u8 {
            let count = |list: &[u8]| list.iter().filter(|m| **m == n).count();
            let (mut x, mut y) = (count(a), count(b));
            if !all {
                (x, y) = (x.min(1), y.min(1));
            }
            let times = if word == "EXCEPT" { x.saturating_sub(y) } else { x.min(y) };
            wanted.extend(std::iter::repeat_n(n.to_string(), times));
        }
        let more = if all { " ALL" } else { "" };
        let text = format!("{} {word}{more} {} ORDER BY 1", query(a), query(b));
        assert_eq!(lines(&mut s, &text), wanted, "{text}");
    }
}

/// REC-3: a recursion whose iterations have no end, and one whose rows have none, are killed.
#[test]
fn a_runaway_recursion_is_killed() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "SET cte_max_recursion_depth = 4294967295");
    for text in [
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n % 7 FROM r) SELECT COUNT(*) FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT a.n FROM r a JOIN \
            (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) b) SELECT COUNT(*) FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
    ] {
        lines(&mut s, "SET max_execution_time = 30, redolith_statement_memory = DEFAULT");
        assert_eq!(lines(&mut s, text), ["error 3024"], "{text}");
        lines(&mut s, "SET max_execution_time = 0");
        let process = s.state.process.clone();
        let done = AtomicBool::new(false);
        let killed = std::thread::scope(|scope| {
            scope.spawn(|| {
                // A KILL before the statement begins is forgotten.
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
        assert_eq!(killed, ["error 1317"], "{text}");
        lines(&mut s, "SET redolith_statement_memory = 1048576");
        lines(&mut s, "SET GLOBAL redolith_temporary_space = 0");
        assert_eq!(lines(&mut s, text), ["error 3170"], "{text}");
        lines(&mut s, "SET GLOBAL redolith_temporary_space = DEFAULT");
        assert_eq!(lines(&mut s, "SELECT 1"), ["1"]);
        assert_eq!(s.state.memory.statement.used(), 0, "MEM-2");
    }
}

/// REC-1 and REC-2: each iteration sees the rows of the one before, in columns of the seed's types.
#[test]
fn iterations_follow_each_other() {
    let world = World::new();
    let mut s = world.session();
    for (text, rows) in [
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n, 0 AS d UNION ALL SELECT n * 2, d + 1 FROM r WHERE \
                d < 2 UNION ALL SELECT n * 3, d + 1 FROM r WHERE d < 2) SELECT n, d FROM r",
            &["1|0", "2|1", "3|1", "4|2", "6|2", "6|2", "9|2"][..],
        ),
        (
            "WITH RECURSIVE r AS (SELECT CAST(1 AS DECIMAL(5,1)) AS n UNION ALL SELECT n / 3 FROM \
                r WHERE n > 0.1) SELECT n FROM r",
            &["1.0", "0.3", "0.1"],
        ),
        (
            "WITH RECURSIVE r AS (SELECT 'ab' AS s UNION ALL SELECT CONCAT(s, s) FROM r) SELECT s \
                FROM r",
            &["error 1406"],
        ),
    ] {
        assert_eq!(lines(&mut s, text), rows, "{text}");
    }
}

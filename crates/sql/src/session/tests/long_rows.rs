//! Rows with long columns are charged one after the other, while a statement holds them (MEM-1,
//! MEM-2).
use super::memory::failed;
use super::{World, lines};

/// Five rows with one long column, and row 100 with two long columns, which together exceed the
/// limit.
const SETUP: &[&str] = &[
    "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, a LONGBLOB, b LONGTEXT, KEY \
        (n))",
    "INSERT INTO t (id, a) VALUES (1, REPEAT('a', 400000)), (2, REPEAT('b', 400000)), (3, \
        REPEAT('c', 400000)), (4, 'd'), (5, REPEAT('e', 400000))",
    "INSERT INTO t VALUES (100, 1, REPEAT('a', 700000), REPEAT('b', 700000))",
];
/// Statements that hold more than one and less than 64 MiB at a time.
const GROWING: &[&str] = &[
    "SELECT LENGTH(a) FROM t WHERE id = 100",
    "SELECT id FROM t WHERE b LIKE 'x%'",
    "SELECT COUNT(*) FROM t x, t y, t z WHERE x.id < 4 AND y.id < 4 AND z.id < 4 AND x.a > '' AND \
        y.a > '' AND z.a > ''",
    "SELECT SUM(LENGTH(a)) FROM t",
    "SELECT LENGTH(a) FROM t ORDER BY LENGTH(b)",
    "UPDATE t SET n = n + 1 WHERE a = 'x'",
    "UPDATE t SET n = LENGTH(a) WHERE id = 100 ORDER BY id",
    "UPDATE t SET id = 201 - id WHERE id > 99",
    "UPDATE t SET id = 201 - id WHERE id > 99 ORDER BY n",
    "UPDATE t SET a = CONCAT(a, 'x'), b = REPEAT('b', 300000) WHERE id = 1",
    "INSERT INTO t (id) VALUES (100) ON DUPLICATE KEY UPDATE n = n + 1",
    "INSERT INTO t VALUES (6, 1, REPEAT('a', 500000), REPEAT('b', 500000))",
    "DELETE FROM t WHERE id > 5 AND b = 'x'",
    "CHECKSUM TABLE t",
];
/// Statements that hold less: they read rows without the long columns, or one row after the other.
const STEADY: &[&str] = &[
    "SELECT COUNT(*), SUM(n) FROM t",
    "SELECT n FROM t WHERE id = 100",
    "SELECT id FROM t ORDER BY n",
    "SELECT LENGTH(a) FROM t WHERE id < 100",
    "SELECT SUM(LENGTH(a)) FROM t WHERE id < 100 GROUP BY id % 3",
    "SELECT x.id FROM t x JOIN t y ON x.id = y.n + 1 WHERE y.id < 4 AND x.id < 4 AND x.a > ''",
    "SELECT id FROM t x WHERE id IN (SELECT LENGTH(a) - 399999 FROM t WHERE id < 100) AND a > '' \
        AND id < 100",
    "UPDATE t SET n = n + 1",
    "UPDATE t SET n = n + 1 ORDER BY n DESC",
    "UPDATE t SET n = LENGTH(a) WHERE id < 100",
    "UPDATE t SET a = UPPER(a) WHERE id < 3",
    "UPDATE t SET id = id + 10 WHERE id IN (1, 2, 3)",
    "UPDATE t SET id = id - 10 WHERE id IN (11, 12, 13) ORDER BY id",
    "INSERT INTO t (id) VALUES (1), (2), (3), (5) ON DUPLICATE KEY UPDATE n = LENGTH(a)",
    "INSERT INTO t VALUES (7, 1, 'x', REPEAT('b', 300000)), (8, 1, 'x', REPEAT('b', 300000)), (9, \
        1, 'x', REPEAT('b', 300000))",
    "REPLACE INTO t VALUES (7, 1, 'x', REPEAT('b', 300000)), (8, 1, 'x', REPEAT('b', 300000)), (9, \
        1, 'x', REPEAT('b', 300000))",
    "DELETE FROM t WHERE id IN (7, 8, 9)",
];

#[test]
fn rows_are_in_the_account_while_they_are_needed() {
    let world = World::new();
    let mut s = world.session();
    for text in SETUP {
        assert!(lines(&mut s, text)[0].starts_with("ok"), "{text}");
    }
    let start = world.db.memory.used();
    for (bound, fits) in [(1 << 20, false), (64 << 20, true)] {
        lines(&mut s, &format!("SET redolith_statement_memory = {bound}"));
        for text in GROWING.iter().chain(STEADY) {
            let answer = lines(&mut s, text);
            if fits || STEADY.contains(text) {
                assert!(!failed(&answer), "{bound}: {text}: {:?}", answer.last());
            } else {
                assert_eq!(answer.last().map(|l| &**l), Some("error 3170"), "{text}");
            }
            assert_eq!(
                (s.state.memory.statement.used(), world.db.memory.used()),
                (0, start),
                "MEM-2: {text}"
            );
            assert!(s.scratch.row.capacity() <= 8 << 10, "a session keeps no long row: {text}");
        }
    }
}

/// The charge precedes the read: it is the length in the row's reference to the long column.
#[test]
fn a_row_is_charged_before_it_is_read() {
    let world = World::new();
    let mut s = world.session();
    for text in SETUP {
        assert!(lines(&mut s, text)[0].starts_with("ok"), "{text}");
    }
    world.db.memory.reset_counts();
    assert_eq!(lines(&mut s, "SELECT LENGTH(a) FROM t WHERE id = 100"), ["700000"]);
    let peak = world.db.memory.peak();
    assert!((1_400_000..1_400_000 + (128 << 10)).contains(&peak), "{peak}: the row is there once");
}

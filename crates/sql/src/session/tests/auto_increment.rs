//! Sessions that take AUTO_INCREMENT values side by side, in each `innodb_autoinc_lock_mode`.
use super::{Session, World, lines};
use crate::processes::Kill;
use crate::settings::Var;

fn world(mode: &str) -> World {
    let w = World::new();
    w.db.settings.set_option(Var::InnodbAutoincLockMode, Some(mode)).unwrap();
    let mut s = w.session();
    for text in [
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, tag INT)",
        "CREATE TABLE src (n INT PRIMARY KEY)",
        "INSERT INTO src VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12)",
    ] {
        let out = lines(&mut s, text);
        assert!(!out[0].starts_with("error"), "{text}: {out:?}");
    }
    w
}
fn waits(s: &Session) -> bool {
    s.trx.locks().waits_for().is_some()
}

/// Tests COUNT-1: several sessions insert rows of a SELECT, and single rows.
#[test]
fn values_of_a_statement_follow_each_other_in_modes_0_and_1() {
    for mode in ["0", "1", "2"] {
        let w = world(mode);
        let many = "SELECT NULL, NULL, {} FROM src a, src b, src c, src d LIMIT 5000";
        std::thread::scope(|scope| {
            for tag in 0..6 {
                let mut s = w.session();
                scope.spawn(move || {
                    let text = format!("INSERT INTO t {}", many.replace("{}", &tag.to_string()));
                    assert!(lines(&mut s, &text)[0].starts_with("ok 5000 "));
                });
            }
            let mut s = w.session();
            scope.spawn(move || {
                for _ in 0..40 {
                    let out = lines(&mut s, "INSERT INTO t (tag) VALUES (9), (9), (9)");
                    let first: u64 = out[0].rsplit(' ').next().unwrap().parse().unwrap();
                    let sum = format!("SELECT SUM(tag) FROM t WHERE id BETWEEN {first} AND ");
                    assert_eq!(lines(&mut s, &format!("{sum}{}", first + 2)), ["27"]);
                }
            });
        });
        let mut s = w.session();
        let count = "SELECT COUNT(*), COUNT(DISTINCT id) FROM t";
        assert_eq!(lines(&mut s, count), ["30120|30120"], "mode {mode}");
        let apart = "SELECT COUNT(*) FROM (SELECT tag FROM t WHERE tag < 9 GROUP BY tag HAVING \
            MAX(id) - MIN(id) <> 4999) AS x";
        let apart = lines(&mut s, apart);
        assert!(mode == "2" || apart == ["0"], "mode {mode}: {apart:?}");
    }
}

/// Runs `hold` in a session that keeps a row's lock, `bulk` in one that stops at that row, and
/// `third` with a session that meets the AUTO-INC lock of `bulk`.
fn beside_a_bulk_insert(mode: &str, third: impl FnOnce(&World, Session)) -> World {
    let w = world(mode);
    let mut holder = w.session();
    lines(&mut holder, "ALTER TABLE t AUTO_INCREMENT = 100");
    assert_eq!(lines(&mut holder, "BEGIN; INSERT INTO t (u) VALUES (3)"), ["ok 0 0", "ok 1 100"]);
    std::thread::scope(|scope| {
        let mut bulk = w.session();
        let process = bulk.state.process.clone();
        let locks = bulk.trx.locks().clone();
        let runs = scope.spawn(move || lines(&mut bulk, "INSERT INTO t (u) SELECT n FROM src"));
        while locks.waits_for().is_none() {
            std::thread::yield_now();
        }
        third(&w, w.session());
        assert_eq!(process.killed(), Kill::None);
        assert_eq!(lines(&mut holder, "ROLLBACK"), ["ok 0 0"]);
        assert_eq!(runs.join().unwrap(), ["ok 12 101"]);
    });
    w
}

/// Tests AUTOINC-1 and COUNT-1.
#[test]
fn who_waits_for_a_bulk_insert_depends_on_the_mode() {
    for mode in ["0", "1", "2"] {
        let expected = if mode == "2" { ["ok 1 113"] } else { ["error 1205"] };
        let w = beside_a_bulk_insert(mode, |_, mut s| {
            lines(&mut s, "SET innodb_lock_wait_timeout = 1");
            assert_eq!(lines(&mut s, "INSERT INTO t (tag) VALUES (1)"), expected, "mode {mode}");
            assert!(!waits(&s));
            // A value below the counter takes none, but in mode 0 each statement waits.
            let given = if mode == "0" { ["error 1205"] } else { ["ok 1 50"] };
            assert_eq!(lines(&mut s, "INSERT INTO t (id) VALUES (50)"), given, "mode {mode}");
        });
        // The lock has gone with the statement, although the transaction may go on.
        let mut s = w.session();
        assert_eq!(lines(&mut s, "BEGIN; INSERT INTO t (tag) SELECT 5")[0], "ok 0 0");
        assert!(lines(&mut w.session(), "INSERT INTO t (tag) VALUES (6)")[0].starts_with("ok 1 "));
    }
}

#[test]
fn a_wait_for_the_lock_can_be_killed_and_is_part_of_deadlocks() {
    beside_a_bulk_insert("1", |_, mut s| {
        std::thread::scope(|scope| {
            let (process, locks) = (s.state.process.clone(), s.trx.locks().clone());
            let runs = scope.spawn(move || lines(&mut s, "INSERT INTO t (tag) SELECT 7"));
            while locks.waits_for().is_none() {
                std::thread::yield_now();
            }
            let shown = locks.waits_for().unwrap().to_string();
            assert!(shown.starts_with("AUTO-INC lock of table "), "{shown}");
            process.kill(Kill::Query);
            assert_eq!(runs.join().unwrap(), ["error 1317"]);
        });
    });
    // The holder of the row wants the lock of the statement that waits for the row.
    let w = world("0");
    let mut holder = w.session();
    lines(&mut holder, "BEGIN; INSERT INTO src VALUES (20); SELECT n FROM src FOR UPDATE");
    lines(&mut holder, "INSERT INTO t (id, u) VALUES (100, 3)");
    std::thread::scope(|scope| {
        let mut bulk = w.session();
        let locks = bulk.trx.locks().clone();
        let runs = scope.spawn(move || lines(&mut bulk, "INSERT INTO t (u) SELECT n FROM src"));
        while locks.waits_for().is_none() {
            std::thread::yield_now();
        }
        let out = lines(&mut holder, "INSERT INTO t (tag) SELECT 8; ROLLBACK");
        let bulk = runs.join().unwrap();
        let victims = [&out[0], &bulk[0]].iter().filter(|line| **line == "error 1213").count();
        assert_eq!(victims, 1, "{out:?} {bulk:?}");
    });
}

/// The examples of MySQL's manual for mixed-mode inserts.
#[test]
fn mixed_rows_take_as_many_values_as_the_mode_says() {
    for (mode, next) in [("0", "103"), ("1", "105"), ("2", "105")] {
        let w = world(mode);
        let mut s = w.session();
        lines(&mut s, "ALTER TABLE t AUTO_INCREMENT = 101");
        let mixed = "INSERT INTO t (id, tag) VALUES (1, 1), (NULL, 2), (5, 3), (NULL, 4)";
        assert_eq!(lines(&mut s, mixed), ["ok 4 101"]);
        assert_eq!(
            lines(&mut s, "SELECT id FROM t ORDER BY tag"),
            ["1", "101", "5", "102"],
            "mode {mode}"
        );
        assert_eq!(
            lines(&mut s, "INSERT INTO t (tag) VALUES (9)"),
            [format!("ok 1 {next}")],
            "mode {mode}"
        );
        // In mode 0 a row that is not inserted takes no value.
        lines(&mut s, "INSERT IGNORE INTO t (u) VALUES (1)");
        let n = |s: &mut Session| lines(s, "SELECT MAX(id) FROM t")[0].parse::<u64>().unwrap();
        let before = n(&mut s);
        lines(&mut s, "INSERT IGNORE INTO t (u) VALUES (1)");
        lines(&mut s, "INSERT INTO t (u) VALUES (2)");
        assert_eq!(n(&mut s) - before, if mode == "0" { 1 } else { 2 }, "mode {mode}");
    }
}

/// `auto_increment_increment` and `auto_increment_offset` make a sequence in every mode.
#[test]
fn values_follow_increment_and_offset() {
    for mode in ["0", "1", "2"] {
        let w = world(mode);
        let mut s = w.session();
        lines(&mut s, "SET auto_increment_increment = 10, auto_increment_offset = 3");
        assert_eq!(lines(&mut s, "INSERT INTO t (tag) VALUES (1), (1)"), ["ok 2 3"]);
        assert_eq!(lines(&mut s, "INSERT INTO t (tag) SELECT n FROM src LIMIT 3"), ["ok 3 23"]);
        assert_eq!(lines(&mut s, "INSERT INTO t (id) VALUES (50)"), ["ok 1 50"]);
        assert_eq!(lines(&mut s, "INSERT INTO t (tag) VALUES (1)"), ["ok 1 53"]);
        // An offset above the increment does not count.
        lines(&mut s, "SET auto_increment_increment = 1, auto_increment_offset = 9");
        assert_eq!(
            lines(&mut s, "SELECT GROUP_CONCAT(id ORDER BY id) FROM t"),
            ["3,13,23,33,43,50,53"]
        );
    }
}

//! ALTER TABLE of columns: all of it or nothing, beside other sessions, in bounded memory.
use super::{World, lines};
use crate::processes::Kill;

fn world(doublings: u32) -> World {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(300), u INT)");
    lines(&mut s, "INSERT INTO s (v, u) VALUES (REPEAT('x', 200), 7)");
    for _ in 0..doublings {
        lines(&mut s, "INSERT INTO s (v, u) SELECT v, u FROM s");
    }
    lines(&mut s, "UPDATE s SET u = id % 2000");
    w
}
fn files(w: &World) -> Vec<String> {
    let engine = &w.server.engine;
    let mut names = engine.disk.list(&engine.store.spaces.tables_dir()).unwrap();
    names.sort();
    names
}
fn statement(w: &World, text: &str) -> Vec<String> {
    lines(&mut w.session(), text)
}
const SUMS: &str = "SELECT COUNT(*), SUM(id), SUM(LENGTH(v)), SUM(u) FROM s";

/// Tests ALTER-4 and NEWTABLE-3: a statement that fails leaves the table with its file, and no
/// other file; one that succeeds leaves only the new file.
#[test]
fn what_fails_or_is_killed_changes_nothing() {
    let w = world(11);
    let before = (files(&w), statement(&w, SUMS), statement(&w, "SHOW CREATE TABLE s"));
    let now = || (files(&w), statement(&w, SUMS), statement(&w, "SHOW CREATE TABLE s"));
    for (text, error) in [
        ("ALTER TABLE s ADD x INT, ADD UNIQUE (u)", "error 1062"),
        ("ALTER TABLE s DROP PRIMARY KEY, DROP id, ADD PRIMARY KEY (u)", "error 1062"),
        ("ALTER TABLE s MODIFY u TINYINT", "error 1264"),
        ("ALTER TABLE s MODIFY v VARCHAR(100), RENAME TO other", "error 1406"),
        ("ALTER TABLE s ADD x INT DEFAULT (1 / 0)", "error 1365"),
    ] {
        assert_eq!(statement(&w, text), [error], "{text}");
        assert_eq!(now(), before, "{text}");
    }
    let mut s = w.session();
    let process = s.state.process.clone();
    let trx = s.trx.locks().clone();
    std::thread::scope(|scope| {
        let text = "ALTER TABLE s ADD x DOUBLE DEFAULT (SLEEP(0.01))";
        let runs = scope.spawn(move || lines(&mut s, text));
        while trx.trx_id().0 == 0 {
            std::thread::yield_now();
        }
        let mut other = w.session();
        lines(&mut other, "SET lock_wait_timeout = 1");
        assert_eq!(lines(&mut other, "SELECT COUNT(*) FROM s"), ["error 1205"]);
        process.kill(Kill::Query);
        assert_eq!(runs.join().unwrap(), ["error 1317"]);
    });
    assert_eq!(now(), before);
    let text = "ALTER TABLE s ADD x INT NOT NULL FIRST, MODIFY u BIGINT, ADD KEY (u, x)";
    assert_eq!(statement(&w, text), ["ok 2048 0"]);
    assert_eq!(statement(&w, SUMS), before.1);
    assert_eq!(files(&w).len(), before.0.len());
    assert_ne!(files(&w), before.0);
    assert!(statement(&w, "CHECK TABLE s EXTENDED")[0].ends_with("|OK"));
}

/// Tests ALTER-3: the file stays.
#[test]
fn definitions_alone_change_without_a_copy() {
    let w = world(2);
    let before = (files(&w), statement(&w, SUMS));
    for text in [
        "ALTER TABLE s RENAME COLUMN u TO w",
        "ALTER TABLE s CHANGE w u INT DEFAULT 5 COMMENT 'said'",
        "ALTER TABLE s ALTER u SET DEFAULT 6",
        "ALTER TABLE s ALTER u DROP DEFAULT, ALTER v SET INVISIBLE, COMMENT 'both'",
        "ALTER TABLE s ALTER v SET VISIBLE, AUTO_INCREMENT = 50",
    ] {
        assert_eq!(statement(&w, text), ["ok 0 0"], "{text}");
        assert_eq!(files(&w), before.0, "{text}");
    }
    assert_eq!(statement(&w, SUMS), before.1);
    assert_eq!(statement(&w, "INSERT INTO s (u) VALUES (1)"), ["ok 1 50"]);
}

/// Plans, prepared statements and old views meet the new table.
#[test]
fn who_knew_the_old_table_finds_the_new_one() {
    let w = world(2);
    let (mut s, mut old) = (w.session(), w.session());
    lines(&mut s, "PREPARE p FROM 'SELECT * FROM s WHERE id = ?'; SET @a = 2");
    assert_eq!(lines(&mut s, "EXECUTE p USING @a").len(), 1);
    lines(&mut old, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    assert_eq!(statement(&w, "ALTER TABLE s DROP v, ADD n INT DEFAULT 9"), ["ok 4 0"]);
    assert_eq!(lines(&mut s, "EXECUTE p USING @a"), ["2|2|9"]);
    // A view from before the new table cannot read it.
    assert_eq!(lines(&mut old, "SELECT * FROM s"), ["error 1412"]);
    lines(&mut old, "COMMIT");
    assert_eq!(lines(&mut old, "SELECT COUNT(*) FROM s"), ["4"]);
    lines(&mut s, "ALTER TABLE s RENAME COLUMN n TO m, RENAME TO r");
    assert_eq!(lines(&mut s, "EXECUTE p USING @a"), ["error 1146"]);
    assert_eq!(lines(&mut s, "SELECT m FROM r WHERE id = 4"), ["9"]);
}

/// The rows are never in memory as a whole.
#[test]
fn rows_are_copied_while_they_are_read() {
    let w = world(13);
    let mut s = w.session();
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    assert_eq!(lines(&mut s, "ALTER TABLE s ADD c INT, ADD KEY (v(9))"), ["ok 8192 0"]);
    assert_eq!(lines(&mut s, "SELECT COUNT(DISTINCT id) FROM s"), ["8192"]);
}

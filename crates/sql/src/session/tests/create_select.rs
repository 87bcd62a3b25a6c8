//! CREATE TABLE .. SELECT: all of it or nothing, beside other sessions, in bounded memory.
use super::{World, lines};
use crate::processes::Kill;

fn world(rows: u32) -> World {
    let w = World::new();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(300))");
    lines(&mut s, "INSERT INTO s (v) VALUES (REPEAT('x', 200))");
    for _ in 0..rows {
        lines(&mut s, "INSERT INTO s (v) SELECT v FROM s");
    }
    w
}
/// The files of tables.
fn files(w: &World) -> usize {
    let engine = &w.server.engine;
    let dir = engine.store.spaces.tables_dir();
    engine.disk.list(&dir).unwrap().len()
}
fn statement(w: &World, text: &str) -> Vec<String> {
    lines(&mut w.session(), text)
}

/// Tests CTAS-2, NEWTABLE-1 and NEWTABLE-2: neither table nor file is left.
#[test]
fn what_fails_or_is_killed_leaves_nothing() {
    let w = world(11);
    let before = files(&w);
    for (text, error) in [
        ("CREATE TABLE t (UNIQUE (u)) SELECT id, id % 2000 AS u FROM s", "error 1062"),
        ("CREATE TABLE t SELECT id, 9223372036854773800 + id AS n FROM s", "error 1690"),
        ("CREATE TABLE t (n SMALLINT) SELECT id * 20 AS n FROM s", "error 1264"),
        ("CREATE TABLE t (PRIMARY KEY (v)) SELECT v FROM s", "error 1062"),
    ] {
        assert_eq!(statement(&w, text), [error], "{text}");
        assert_eq!(files(&w), before, "{text}");
    }
    let mut s = w.session();
    let process = s.state.process.clone();
    let (trx, engine) = (s.trx.locks().clone(), w.server.engine.clone());
    std::thread::scope(|scope| {
        let text = "CREATE TABLE t SELECT a.id, b.v FROM s a, s b, s c";
        let runs = scope.spawn(move || lines(&mut s, text));
        while trx.trx_id().0 == 0 {
            std::thread::yield_now();
        }
        assert!(engine.dict.table("test", "t").is_none());
        assert_eq!(statement(&w, "SELECT COUNT(*) FROM t"), ["error 1146"]);
        process.kill(Kill::Query);
        assert_eq!(runs.join().unwrap(), ["error 1317"]);
    });
    assert_eq!(files(&w), before);
    assert_eq!(statement(&w, "CREATE TABLE t (KEY (v(5))) SELECT * FROM s"), ["ok 2048 0"]);
    assert_eq!(files(&w), before + 1);
    let sums = "SELECT COUNT(*), SUM(id), SUM(LENGTH(v)) FROM";
    assert_eq!(statement(&w, &format!("{sums} t")), statement(&w, &format!("{sums} s")));
    assert!(statement(&w, "CHECK TABLE t")[0].ends_with("|OK"));
}

/// Others wait for the new table's name, and the sources keep their definition.
#[test]
fn other_definitions_wait() {
    let w = world(10);
    let mut s = w.session();
    let locks = s.trx.locks().clone();
    let process = s.state.process.clone();
    std::thread::scope(|scope| {
        let runs =
            scope.spawn(move || lines(&mut s, "CREATE TABLE t SELECT a.id FROM s a, s b, s c"));
        while locks.trx_id().0 == 0 {
            std::thread::yield_now();
        }
        let mut other = w.session();
        lines(&mut other, "SET lock_wait_timeout = 1");
        assert_eq!(lines(&mut other, "CREATE TABLE t (a INT)"), ["error 1205"]);
        assert_eq!(lines(&mut other, "DROP TABLE s"), ["error 1205"]);
        assert_eq!(lines(&mut other, "INSERT INTO s (v) VALUES ('y')"), ["ok 1 1025"]);
        process.kill(Kill::Query);
        assert_eq!(runs.join().unwrap(), ["error 1317"]);
    });
    assert_eq!(statement(&w, "CREATE TABLE t (a INT); DROP TABLE t, s"), ["ok 0 0", "ok 0 0"]);
}

/// The source is never in memory as a whole.
#[test]
fn rows_go_to_the_table_while_they_come() {
    let w = world(13);
    let mut s = w.session();
    lines(&mut s, "SET redolith_statement_memory = 1048576");
    assert_eq!(lines(&mut s, "CREATE TABLE t SELECT * FROM s"), ["ok 8192 0"]);
    assert_eq!(lines(&mut s, "SELECT COUNT(DISTINCT id) FROM t"), ["8192"]);
}

/// A prepared statement makes the table anew each time, with the parameters of the time.
#[test]
fn it_can_be_prepared() {
    let w = world(2);
    let mut s = w.session();
    lines(&mut s, "PREPARE p FROM 'CREATE TABLE t SELECT id, ? AS p FROM s WHERE id < ?'");
    lines(&mut s, "SET @a = 'text', @b = 3");
    for _ in 0..2 {
        assert_eq!(lines(&mut s, "EXECUTE p USING @a, @b"), ["ok 2 0"]);
        assert_eq!(lines(&mut s, "SELECT * FROM t"), ["1|text", "2|text"]);
        lines(&mut s, "DROP TABLE t; ALTER TABLE s COMMENT 'changed'");
    }
    lines(&mut s, "SET @a = 1.25, @b = 2");
    assert_eq!(lines(&mut s, "EXECUTE p USING @a, @b"), ["ok 1 0"]);
    assert_eq!(lines(&mut s, "SELECT p + 1 FROM t"), ["2.25"]);
}

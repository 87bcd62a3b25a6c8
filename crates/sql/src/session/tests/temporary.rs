//! Temporary tables: whose they are, when they end, and what nobody sees of them.
use super::{Lines, Session, World, execute, lines, query};
use crate::exec::fixture::Server;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::temporary::TEMPORARY_SCHEMA;
use redolith_engine::runtime::block_on;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

/// The number of temporary tables that the engine has.
fn kept(w: &World) -> usize {
    w.db.engine.dict.tables(TEMPORARY_SCHEMA).len()
}
fn run(s: &mut Session, texts: &[&str]) {
    for text in texts {
        let out = lines(s, text);
        assert!(!out.iter().any(|line| line.starts_with("error")), "{text}: {out:?}");
    }
}
/// The files of tables.
fn files(w: &World) -> usize {
    w.db.engine.disk.list(&w.db.engine.store.spaces.tables_dir()).unwrap().len()
}
fn wait_until(w: &World, is: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is() {
            return;
        }
        block_on(w.db.engine.runtime.sleep(Duration::from_millis(5)));
    }
    panic!("it has not come");
}

/// Tests TEMPTABLE-9.
#[test]
fn they_end_with_their_session() {
    let w = World::new();
    let before = (files(&w), w.db.memory.used());
    let ends: [fn(Session); 3] = [
        |mut s| block_on(s.end()),
        |mut s| {
            block_on(s.reset());
            assert_eq!(lines(&mut s, "SELECT * FROM a"), ["error 1146"]);
            run(&mut s, &["CREATE TEMPORARY TABLE a (y INT)"]);
            block_on(s.end());
        },
        // The connection's task is gone, in the middle of a transaction.
        |s| drop(s),
    ];
    for end in ends {
        let mut s = w.session();
        run(
            &mut s,
            &[
                "CREATE TEMPORARY TABLE a (x INT)",
                "CREATE TEMPORARY TABLE b (x INT PRIMARY KEY, KEY (x)) SELECT 1 AS x",
                "BEGIN",
                "INSERT INTO a VALUES (1), (2)",
                "INSERT INTO b VALUES (2), (3)",
                "DELETE FROM b WHERE x = 1",
            ],
        );
        assert_eq!(kept(&w), 2);
        assert!(w.db.memory.used() > before.1, "their memory counts");
        end(s);
        wait_until(&w, || kept(&w) == 0 && files(&w) == before.0);
        assert_eq!(w.db.memory.used(), before.1);
    }
}

/// A connection's task goes at any of its waits, while a table takes the place of another.
/// Tests TEMPTABLE-9.
#[test]
fn a_replacement_that_is_given_up_leaves_no_table() {
    let w = World::new();
    let before = files(&w);
    let (mut given_up, mut finished) = (0, 0);
    while finished < 3 {
        let mut s = w.session();
        run(&mut s, &["CREATE TEMPORARY TABLE a (x INT)", "INSERT INTO a VALUES (1), (2)"]);
        let mut out = Lines::default();
        {
            let text = b"ALTER TABLE a MODIFY x BIGINT, ALGORITHM = COPY";
            let mut altering = pin!(s.query(text, &mut out));
            let mut poll = || altering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            // Each turn gives up later.
            let waits = given_up / 2;
            let ready = (0..=waits).any(|n| {
                if n > 0 {
                    block_on(w.db.engine.runtime.sleep(Duration::from_millis(1)));
                }
                poll().is_ready()
            });
            if ready {
                finished += 1;
            }
            given_up += 1;
        }
        drop(s);
        wait_until(&w, || kept(&w) == 0 && files(&w) == before);
    }
    assert!(given_up > 6, "{given_up}");
}

/// Tests TEMPTABLE-5: neither the cache of texts nor that of prepared statements knows them.
#[test]
fn no_session_uses_the_plans_of_another() {
    let w = World::new();
    let (mut a, mut b) = (w.session(), w.session());
    run(&mut a, &["CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
    let text = "SELECT * FROM t WHERE id > 0";
    let prepare = |s: &mut Session| block_on(s.prepare(text.as_bytes())).unwrap();
    let first = prepare(&mut b).id;
    assert_eq!((lines(&mut a, text), lines(&mut b, text)), (vec!["1".into()], vec!["1".into()]));
    run(&mut a, &["CREATE TEMPORARY TABLE t (v CHAR(1), id INT)", "INSERT INTO t VALUES ('a', 2)"]);
    for _ in 0..3 {
        assert_eq!(
            (lines(&mut a, text), lines(&mut b, text)),
            (vec!["a|2".into()], vec!["1".into()])
        );
    }
    let (own, shared) = (prepare(&mut a), prepare(&mut b));
    assert_eq!((own.columns.len(), shared.columns.len()), (2, 1));
    assert_eq!(execute(&mut a, own.id, &[]), ["a|2"]);
    assert_eq!(execute(&mut b, shared.id, &[]), ["1"]);
    assert_eq!(execute(&mut b, first, &[]), ["1"]);
    // A handle follows what the name means.
    run(&mut b, &["CREATE TEMPORARY TABLE t (id INT)", "INSERT INTO t VALUES (7), (8)"]);
    assert_eq!(execute(&mut b, first, &[]), ["7", "8"]);
    run(&mut b, &["TRUNCATE t"]);
    assert_eq!(execute(&mut b, first, &[]), [""; 0]);
    run(&mut b, &["DROP TEMPORARY TABLE t"]);
    run(&mut a, &["DROP TEMPORARY TABLE t"]);
    assert_eq!(
        (execute(&mut b, first, &[]), execute(&mut a, own.id, &[])),
        (vec!["1".into()], vec!["1".into()])
    );
    assert_eq!(kept(&w), 0);
}

/// Tests TEMPTABLE-1 with what a rollback finds when the table is gone: rows of all kinds, long
/// ones too, and a savepoint behind it.
#[test]
fn a_rollback_passes_over_a_table_that_was_dropped() {
    let w = World::new();
    let mut s = w.session();
    run(
        &mut s,
        &[
            "CREATE TABLE b (x INT PRIMARY KEY)",
            "CREATE TEMPORARY TABLE t (x INT PRIMARY KEY, l LONGTEXT, k INT DEFAULT 3, KEY (k))",
            "INSERT INTO t (x, l) VALUES (1, REPEAT('a', 50000)), (2, 'b')",
            "BEGIN",
            "INSERT INTO b VALUES (1)",
            "UPDATE t SET k = x, l = REPEAT('c', 60000)",
            "SAVEPOINT s",
            "INSERT INTO t (x, l) VALUES (3, REPEAT('d', 70000))",
            "DELETE FROM t WHERE x = 1",
            "INSERT INTO b VALUES (2)",
            "DROP TEMPORARY TABLE t",
            "CREATE TEMPORARY TABLE t (x INT) SELECT x FROM b",
            "ROLLBACK TO s",
        ],
    );
    assert_eq!(lines(&mut s, "SELECT x FROM t"), [""; 0], "they went in after the savepoint");
    assert_eq!(lines(&mut s, "SELECT x FROM b"), ["1"]);
    run(&mut s, &["INSERT INTO t VALUES (9)", "ROLLBACK"]);
    assert_eq!(lines(&mut s, "SELECT x FROM b"), [""; 0]);
    assert_eq!(lines(&mut s, "SELECT x FROM t"), [""; 0]);
    // Purge comes to the rows of a table that is gone.
    run(
        &mut s,
        &[
            "INSERT INTO t VALUES (1), (2)",
            "BEGIN",
            "DELETE FROM t",
            "DROP TEMPORARY TABLE t",
            "COMMIT",
        ],
    );
    wait_until(&w, || w.db.engine.history.is_empty());
    assert_eq!(lines(&mut s, "CHECK TABLE b")[0], "test.b|check|status|OK");
}

/// Tests TEMPTABLE-8.
#[test]
fn the_binary_log_has_nothing_of_them() {
    let w = World::over(Server::logging());
    let mut s = w.session();
    run(&mut s, &["CREATE TABLE b (x INT PRIMARY KEY)", "SET binlog_rows_query_log_events = 1"]);
    let end = |w: &World| {
        let binlog = w.server.binlog.as_ref().unwrap();
        block_on(binlog.catch_up(w.db.engine.store.log.durable()));
        binlog.status().position.unwrap()
    };
    let before = end(&w);
    run(
        &mut s,
        &[
            "CREATE TEMPORARY TABLE t (x INT AUTO_INCREMENT PRIMARY KEY, y INT)",
            "INSERT INTO t (y) VALUES (1), (2)",
            "UPDATE t SET y = 3",
            "BEGIN",
            "DELETE FROM t WHERE x = 1",
            "SAVEPOINT a",
            "REPLACE INTO t VALUES (2, 2)",
            "COMMIT",
            "CREATE TEMPORARY TABLE b LIKE b",
            "INSERT INTO b SELECT x FROM t",
            "DELETE t, b FROM t JOIN b USING (x)",
            "CREATE TEMPORARY TABLE u SELECT * FROM t",
            "ALTER TABLE t ADD COLUMN z INT FIRST",
            "CREATE INDEX z ON t (z)",
            "ALTER TABLE t RENAME TO v",
            "TRUNCATE v",
            "DROP TABLE v, u",
            "DROP TEMPORARY TABLE b",
            "DROP TEMPORARY TABLE IF EXISTS b",
        ],
    );
    let after = end(&w);
    assert_eq!((before.file, before.offset), (after.file, after.offset));
    block_on(s.end());
    assert_eq!(end(&w).offset, after.offset);
}

/// Names of other sessions do not matter, and no lock is waited for: not for an open transaction
/// of another session that uses the table behind the name, and not for one of its definitions.
#[test]
fn many_sessions_make_and_drop_tables_at_once() {
    let w = World::new();
    run(&mut w.session(), &["CREATE TABLE t (x INT)"]);
    std::thread::scope(|threads| {
        for n in 0..4 {
            let w = &w;
            threads.spawn(move || {
                let mut s = w.session();
                for round in 0..15 {
                    let x = n * 1000 + round;
                    run(
                        &mut s,
                        &[
                            "CREATE TEMPORARY TABLE t (x INT, CONSTRAINT c CHECK (x >= 0))",
                            "BEGIN",
                            &format!("INSERT INTO t VALUES ({x})"),
                        ],
                    );
                    assert_eq!(lines(&mut s, "SELECT x FROM t"), [x.to_string()]);
                    run(&mut s, &["DROP TEMPORARY TABLE t", "COMMIT"]);
                }
                block_on(s.end());
            });
        }
    });
    assert_eq!(kept(&w), 0);
}

/// The number of tables is bounded by the memory of the server.
#[test]
fn their_number_is_bounded() {
    let w = World::new();
    let mut s = w.session();
    w.db.memory.set_limit(w.db.memory.used() + (200 << 10));
    let made = (0..100)
        .map(|n| lines(&mut s, &format!("CREATE TEMPORARY TABLE t{n} (x INT)")))
        .take_while(|out| *out == ["ok 0 0"])
        .count();
    assert!((5..40).contains(&made), "{made}");
    assert_eq!(lines(&mut s, "CREATE TEMPORARY TABLE u (x INT)"), ["error 3170"]);
    assert_eq!(kept(&w), made);
    run(&mut s, &["DROP TEMPORARY TABLE t0", "CREATE TEMPORARY TABLE u (x INT)"]);
    block_on(s.end());
    assert_eq!(kept(&w), 0);
}

/// A statement that fails, or is killed, leaves no table, whatever becomes of the transaction.
#[test]
fn a_select_that_fails_leaves_no_table() {
    let w = World::new();
    let mut s = w.session();
    run(&mut s, &["CREATE TABLE b (x INT)", "INSERT INTO b VALUES (1), (1)"]);
    for open in [false, true] {
        if open {
            run(&mut s, &["BEGIN", "INSERT INTO b VALUES (2)"]);
        }
        let text = "CREATE TEMPORARY TABLE t (UNIQUE (x)) SELECT x FROM b";
        assert_eq!(lines(&mut s, text), ["error 1062"]);
        assert_eq!(lines(&mut s, "SELECT * FROM t"), ["error 1146"]);
        assert_eq!(kept(&w), 0);
    }
    run(&mut s, &["COMMIT"]);
    let mut out = Lines::default();
    s.state.process.kill(crate::processes::Kill::Query);
    block_on(s.query(b"CREATE TEMPORARY TABLE t SELECT * FROM b", &mut out));
    s.state.process.forget_kill_query();
    assert_eq!(kept(&w), usize::from(query(&mut s, "SELECT x FROM t").lines != ["error 1146"]));
}

/// Tests TEMPTABLE-4, and TEMPTABLE-6 with every kind of statement that takes names.
#[test]
fn only_their_session_can_name_them() {
    let w = World::new();
    let (mut a, mut b) = (w.session(), w.session());
    run(
        &mut a,
        &[
            "CREATE TABLE t (x INT)",
            "INSERT INTO t VALUES (1)",
            "CREATE VIEW v AS SELECT x FROM t",
            "CREATE TEMPORARY TABLE t (x INT, y INT)",
            "INSERT INTO t VALUES (2, 2)",
        ],
    );
    assert_eq!(lines(&mut a, "SELECT x FROM t UNION ALL SELECT x FROM v"), ["2", "1"]);
    assert_eq!(lines(&mut b, "SELECT x FROM t UNION ALL SELECT x FROM v"), ["1", "1"]);
    assert_eq!(lines(&mut a, "CREATE VIEW u AS SELECT * FROM t"), ["error 1352"]);
    assert_eq!(lines(&mut a, "CREATE OR REPLACE VIEW v AS SELECT * FROM t"), ["error 1352"]);
    // A change of a view of the table behind the name, with rows of the temporary table.
    run(&mut a, &["UPDATE v SET x = 5", "INSERT INTO v SELECT x FROM t", "DELETE FROM t"]);
    assert_eq!(lines(&mut b, "SELECT x FROM t ORDER BY x"), ["2", "5"]);
    let inner = w.db.engine.dict.tables(TEMPORARY_SCHEMA)[0].def.name.clone();
    let name = format!("`{TEMPORARY_SCHEMA}`.`{inner}`");
    for text in [
        format!("SELECT * FROM {name}"),
        format!("INSERT INTO {name} VALUES (1, 1)"),
        format!("UPDATE {name} SET x = 1"),
        format!("DELETE FROM {name}"),
        format!("DROP TABLE {name}"),
        format!("DROP TEMPORARY TABLE {name}"),
        format!("TRUNCATE {name}"),
        format!("ALTER TABLE {name} ADD z INT"),
        format!("CREATE INDEX z ON {name} (x)"),
        format!("RENAME TABLE {name} TO z"),
        format!("RENAME TABLE t TO {name}"),
        format!("ALTER TABLE t RENAME TO `{TEMPORARY_SCHEMA}`.z"),
        format!("CREATE TABLE z LIKE {name}"),
        format!("CREATE TABLE `{TEMPORARY_SCHEMA}`.z (x INT)"),
        format!("CREATE TEMPORARY TABLE `{TEMPORARY_SCHEMA}`.z (x INT)"),
        format!("CREATE VIEW `{TEMPORARY_SCHEMA}`.z AS SELECT 1"),
        format!("SHOW CREATE TABLE {name}"),
        format!("SHOW COLUMNS FROM {name}"),
        format!("SHOW INDEX FROM {name}"),
        format!("SHOW TABLES FROM `{TEMPORARY_SCHEMA}`"),
        format!("SHOW TABLE STATUS FROM `{TEMPORARY_SCHEMA}`"),
        format!("CHECK TABLE {name}"),
        format!("LOCK TABLES {name} READ"),
        format!("FLUSH TABLES {name} WITH READ LOCK"),
        format!("USE `{TEMPORARY_SCHEMA}`"),
        format!("DROP DATABASE `{TEMPORARY_SCHEMA}`"),
        format!("CREATE DATABASE `{TEMPORARY_SCHEMA}`"),
        format!("ALTER DATABASE `{TEMPORARY_SCHEMA}` COLLATE utf8mb4_bin"),
    ] {
        for s in [&mut a, &mut b] {
            let out = lines(s, &text);
            assert!(out.len() == 1 && out[0].starts_with("error"), "{text}: {out:?}");
        }
    }
    let listed = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema LIKE '#%'";
    assert_eq!(lines(&mut a, listed), ["0"]);
    assert_eq!(lines(&mut a, "SHOW DATABASES LIKE '#%'"), [""; 0]);
    assert_eq!(lines(&mut a, &format!("SHOW OPEN TABLES FROM `{TEMPORARY_SCHEMA}`")), [""; 0]);
    assert_eq!(kept(&w), 1);
}

/// Tests TEMPTABLE-7 and TEMPTABLE-10: an open definition of another session does not hold up what
/// is said of a temporary table, and the transaction stays open.
#[test]
fn they_wait_for_nobody() {
    let w = World::new();
    let (mut a, mut b) = (w.session(), w.session());
    run(&mut a, &["CREATE TABLE t (x INT)"]);
    run(&mut b, &["FLUSH TABLES WITH READ LOCK"]);
    run(
        &mut a,
        &[
            "SET lock_wait_timeout = 1",
            "CREATE TEMPORARY TABLE t (x INT)",
            "BEGIN",
            "INSERT INTO t VALUES (1)",
            "CREATE TEMPORARY TABLE u LIKE t",
            "INSERT INTO u SELECT x FROM t",
            "DROP TEMPORARY TABLE u",
        ],
    );
    assert!(a.transaction.active, "TEMPTABLE-10");
    run(&mut b, &["UNLOCK TABLES"]);
    assert_eq!(query(&mut a, "ROLLBACK").last.warnings, 2, "TEMPTABLE-10");
    assert_eq!(lines(&mut a, "SELECT * FROM t"), [""; 0]);
    run(&mut a, &["XA START 'x'"]);
    for text in ["SELECT * FROM t", "CREATE TEMPORARY TABLE u (x INT)", "DROP TEMPORARY TABLE t"] {
        assert_eq!(lines(&mut a, text), ["error 4091"], "{text}");
    }
    run(&mut a, &["XA END 'x'", "XA ROLLBACK 'x'", "DROP TABLE t"]);
    assert_eq!(kept(&w), 0);
}

/// A disk from which files cannot be removed while `refuses` is set.
struct Keeping {
    disk: RealDisk,
    refuses: AtomicBool,
}
impl Disk for Keeping {
    redolith_disk::forward_disk! {
        disk: open exists list create_dir_all rename sync_dir lock_dir now wall_us random
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.refuses.load(Relaxed) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => self.disk.remove(path),
        }
    }
}

/// The engine has dropped or replaced a table when the old file cannot be removed, so the session
/// must not name the old table any more.
#[test]
fn a_file_that_cannot_be_removed_leaves_no_table_behind() {
    let disk = Arc::new(Keeping { disk: RealDisk::new(), refuses: AtomicBool::new(false) });
    let w = World::over(Server::on(disk.clone(), |_| ()));
    let mut s = w.session();
    for (statement, after) in [
        ("TRUNCATE t", vec![]),
        ("ALTER TABLE t ADD COLUMN z INT DEFAULT 5", vec!["1|5".to_string()]),
        ("DROP TEMPORARY TABLE t", vec!["error 1146".to_string()]),
    ] {
        run(&mut s, &["CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)"]);
        disk.refuses.store(true, Relaxed);
        assert_eq!(lines(&mut s, statement), ["error 1030"], "{statement}");
        disk.refuses.store(false, Relaxed);
        assert_eq!(lines(&mut s, "SELECT * FROM t"), after, "{statement}");
        run(&mut s, &["DROP TEMPORARY TABLE IF EXISTS t"]);
    }
    assert_eq!(kept(&w), 0);
    block_on(s.end());
}

/// FLUSH TABLES without names locks everything, and temporary tables are not locked.
#[test]
fn flush_of_temporary_tables_locks_nothing() {
    let w = World::new();
    let (mut a, mut b) = (w.session(), w.session());
    run(&mut a, &["CREATE TABLE other (id INT)", "CREATE TEMPORARY TABLE t (id INT)"]);
    run(&mut a, &["FLUSH TABLES t WITH READ LOCK", "INSERT INTO other VALUES (1)"]);
    run(&mut b, &["SET lock_wait_timeout = 1", "INSERT INTO other VALUES (2)"]);
}

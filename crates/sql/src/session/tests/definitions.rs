//! Definitions beside the locks and the definitions of other sessions.
use super::binlog::Log;
use super::{TABLE, World, lines, query};
use crate::session::Session;
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockSet};
use redolith_engine::runtime::block_on;
use redolith_types::Collation;

/// A session that waits for locks long enough for every test, but not for ever.
fn patient(w: &World) -> Session {
    let mut s = w.session();
    query(&mut s, "SET lock_wait_timeout = 20");
    s
}

/// Runs a text in another session until it waits for the lock, then `meanwhile`, after which the
/// text must get its locks. Returns the text's answers.
fn beside(w: &World, text: &str, lock: &str, meanwhile: impl FnOnce()) -> Vec<String> {
    let (mut s, lock) = (patient(w), w.server.engine.dict.metadata_lock(lock));
    std::thread::scope(|scope| {
        let runs = scope.spawn(move || lines(&mut s, text));
        while !lock.has_waiters() {
            assert!(!runs.is_finished(), "{text} waits");
            std::thread::yield_now();
        }
        meanwhile();
        runs.join().unwrap()
    })
}
fn done(s: &mut Session, texts: &[&str]) {
    for text in texts {
        let got = lines(s, text);
        assert!(!got.iter().any(|line| line.starts_with("error")), "{text}: {got:?}");
    }
}

/// A restore, which defines its locked table anew, meets a backup.
/// Tests SLOCK-2.
#[test]
fn who_has_locked_a_table_defines_it_while_the_global_read_lock_waits() {
    let w = World::new();
    let mut s = patient(&w);
    done(&mut s, &[TABLE, "LOCK TABLES t WRITE"]);
    let backup = "FLUSH TABLES WITH READ LOCK; UNLOCK TABLES";
    let answers = beside(&w, backup, "d", || {
        done(
            &mut s,
            &[
                "ALTER TABLE t DISABLE KEYS",
                "INSERT INTO t (k) VALUES (1)",
                "ALTER TABLE t ENABLE KEYS",
                "ALTER TABLE t ADD INDEX c (c), ADD n INT",
                "TRUNCATE t",
                "DROP TABLE t",
                "UNLOCK TABLES",
            ],
        );
    });
    assert_eq!(answers, ["ok 0 0", "ok 0 0"]);
    // A LOCK TABLES that fails keeps nothing.
    assert_eq!(lines(&mut s, "LOCK TABLES t WRITE"), ["error 1146"]);
    assert!(w.server.engine.dict.metadata_lock("d").is_free());
}

/// Tests MDL-2.
#[test]
fn drop_database_lets_its_users_finish() {
    let w = World::new();
    let mut s = patient(&w);
    done(&mut s, &["CREATE DATABASE other", "CREATE TABLE other.t (a INT)"]);
    done(&mut s, &["BEGIN", "SELECT * FROM other.t"]);
    let answers = beside(&w, "DROP DATABASE other", "t/other/t", || {
        // The statement asks for the database's lock, and its transaction has the table's.
        assert_eq!(lines(&mut s, "CHECKSUM TABLE other.t"), ["other.t|0"]);
        done(&mut s, &["COMMIT"]);
    });
    assert_eq!(answers, ["ok 1 0"]);
    assert!(w.server.engine.dict.schema("other").is_none());
}

/// Tests DDL-2.
#[test]
fn a_definition_comes_from_what_is_there_under_the_locks() {
    let w = World::new();
    let mut s = patient(&w);
    done(&mut s, &["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"]);
    let texts = ["CREATE TABLE made LIKE t", "CREATE VIEW seen AS SELECT * FROM t"];
    for (text, (name, columns)) in texts.into_iter().zip([("made", 2), ("seen", 3)]) {
        done(&mut s, &["LOCK TABLES t WRITE"]);
        let add = format!("ALTER TABLE t ADD c{columns} INT");
        let answers = beside(&w, text, "t/test/t", || done(&mut s, &[&add, "UNLOCK TABLES"]));
        assert_eq!(answers, ["ok 0 0"], "{text}");
        assert_eq!(lines(&mut s, &format!("SHOW COLUMNS FROM {name}")).len(), columns, "{text}");
    }
}

/// Tests DDL-3: a statement that finds the table is in the log between the definitions that make
/// and drop it.
#[test]
fn what_finds_a_table_is_logged_before_the_table_goes() {
    let mut log = Log::new();
    let mut s = patient(&log.world);
    done(&mut s, &["CREATE TABLE t (a INT)"]);
    log.skip();
    done(&mut s, &["LOCK TABLES t WRITE"]);
    let text = "CREATE TABLE IF NOT EXISTS t (b INT)";
    let answers = beside(&log.world, text, "t/test/t", || {
        done(&mut s, &["DROP TABLE t", "UNLOCK TABLES"]);
    });
    assert_eq!(answers, ["ok 0 0"]);
    assert_eq!(log.new_lines(), ["test: DROP TABLE t".into(), format!("test: {text}")]);
    assert_eq!(lines(&mut s, "SELECT b FROM t"), [""; 0]);
    // It does not wait for those who use the table.
    done(&mut s, &["BEGIN", "INSERT INTO t VALUES (1)"]);
    let mut other = log.world.session();
    done(&mut other, &["SET lock_wait_timeout = 1", text]);
    assert_eq!(log.new_lines(), [format!("test: {text}")]);
    done(&mut s, &["COMMIT"]);
}

/// The database's collation counts that the statement finds under its locks, as on a replica.
/// Tests DDL-2.
#[test]
fn a_conversion_to_the_default_takes_the_collation_under_the_locks() {
    let w = World::new();
    done(
        &mut w.session(),
        &[
            "CREATE DATABASE late COLLATE latin1_swedish_ci",
            "CREATE TABLE late.t (c CHAR(5)) CHARACTER SET ascii",
        ],
    );
    let engine = &w.server.engine;
    let (mut user, lock) = (MetadataLockSet::new(), engine.dict.metadata_lock("d/late"));
    assert!(user.try_lock(&lock, MetadataLockMode::Exclusive));
    let text = "ALTER TABLE late.t CONVERT TO CHARACTER SET DEFAULT";
    let answers = beside(&w, text, "d/late", || {
        block_on(engine.alter_schema("late", Collation::Utf8mb4GeneralCi, None)).unwrap();
        user.release_all();
    });
    assert_eq!(answers, ["ok 0 0"]);
    let def = &engine.dict.table("late", "t").unwrap().def;
    let charset = Collation::Utf8mb4GeneralCi.charset();
    assert_eq!(def.collation.charset(), charset);
    assert_eq!(def.columns[0].ty.collation().map(Collation::charset), Some(charset));
}

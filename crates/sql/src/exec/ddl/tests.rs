use crate::exec::fixture::{Server, Session};
use crate::exec::locks::table_lock;
use crate::plan::{DdlStmt, Statement, TableLock, TableName};
use crate::session_state::Done;
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockSet, MetadataLockWait};
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::sync::Arc;
use std::time::Duration;

fn tables(s: &Session<'_>) -> Vec<String> {
    s.server.engine.dict.tables("test").iter().map(|t| t.def.name.clone()).collect()
}

#[test]
fn tables_come_and_go() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl(
        "CREATE TABLE t (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
        PRIMARY KEY (id)) /*! ENGINE = innodb */",
    )
    .unwrap();
    assert_eq!(s.ddl_error("CREATE TABLE t (a INT)"), (1050, "Table 't' already exists".into()));
    s.ddl("CREATE TABLE IF NOT EXISTS t (a INT)").unwrap();
    assert_eq!(s.warnings(), [(1050, "Table 't' already exists")]);
    assert_eq!(s.ddl_error("CREATE TABLE nowhere.t (a INT)").0, 1049);
    s.ddl("CREATE TABLE u LIKE t").unwrap();
    assert_eq!(s.table("u").def.columns, s.table("t").def.columns);
    assert_eq!(s.ddl_error("DROP TABLE t, x, y"), (1051, "Unknown table 'test.x,test.y'".into()));
    assert_eq!(tables(s), ["t", "u"]);
    s.ddl("DROP TABLE IF EXISTS t, x").unwrap();
    assert_eq!(s.warnings(), [(1051, "Unknown table 'test.x'")]);
    assert_eq!(tables(s), ["u"]);
    assert!(
        s.server.engine.dict.metadata_lock("t/test/t").is_free()
            && s.server.engine.dict.metadata_lock("d/test").is_free()
    );
}

#[test]
fn databases_come_and_go() {
    let server = Server::new();
    let s = &mut server.session();
    assert_eq!(s.ddl("CREATE DATABASE other DEFAULT CHARACTER SET latin1").unwrap().affected, 1);
    assert_eq!(s.ddl_error("CREATE DATABASE other").0, 1007);
    s.ddl("CREATE DATABASE IF NOT EXISTS other").unwrap();
    assert_eq!(s.warnings(), [(1007, "Can't create database 'other'; database exists")]);
    s.ddl("CREATE TABLE other.t (a INT)").unwrap();
    s.ddl("CREATE TABLE other.u (a INT)").unwrap();
    s.state.schema = Some("other".into());
    assert_eq!(s.ddl("DROP DATABASE other").unwrap().affected, 2);
    assert_eq!(s.state.schema, None);
    assert_eq!(s.ddl_error("DROP DATABASE other").0, 1008);
    s.ddl("DROP DATABASE IF EXISTS other").unwrap();
    assert_eq!(s.warnings()[0].0, 1008);
    assert_eq!(s.ddl_error("CREATE DATABASE mysql").0, 1044);
}

#[test]
fn truncate_begins_anew() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT = 7").unwrap();
    assert_eq!(s.table("t").take_auto_increment(1), 7);
    s.insert("t", &[&[Value::Int(7)]]);
    s.ddl("TRUNCATE TABLE t").unwrap();
    let t = s.table("t");
    assert_eq!(
        (t.rows.load(std::sync::atomic::Ordering::Relaxed), t.take_auto_increment(1)),
        (0, 1)
    );
    assert_eq!(s.ddl_error("TRUNCATE TABLE x"), (1146, "Table 'test.x' doesn't exist".into()));
}

#[test]
fn renames_follow_each_other() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE a (x INT)").unwrap();
    s.ddl("CREATE TABLE b (y INT)").unwrap();
    s.ddl("RENAME TABLE a TO tmp, b TO a, tmp TO b").unwrap();
    assert_eq!(
        (s.table("a").def.columns[0].name.as_str(), s.table("b").def.columns[0].name.as_str()),
        ("y", "x")
    );
    assert_eq!(tables(s), ["a", "b"]);
    assert_eq!(s.ddl_error("RENAME TABLE a TO c, x TO d").0, 1146);
    assert_eq!(s.ddl_error("RENAME TABLE a TO b").0, 1050);
    assert_eq!(s.ddl_error("RENAME TABLE a TO nowhere.a").0, 1049);
    assert_eq!(tables(s), ["a", "b"]);
    s.ddl("ALTER TABLE a RENAME TO c").unwrap();
    assert_eq!(tables(s), ["b", "c"]);
}

#[test]
fn indexes_come_and_go() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (id INT PRIMARY KEY, k INT, c CHAR(10) CHARACTER SET latin1)").unwrap();
    let row = |id, k, c| [Value::Int(id), Value::Int(k), Value::text(c)];
    s.insert("t", &[&row(1, 5, "a"), &row(2, 6, "b"), &row(3, 5, "a")]);
    let done = s.ddl("CREATE INDEX k ON t(k)").unwrap();
    assert_eq!(&*done.info, "Records: 0  Duplicates: 0  Warnings: 0");
    assert_eq!(s.ddl_error("CREATE INDEX k ON t(c)"), (1061, "Duplicate key name 'k'".into()));
    assert_eq!(
        s.ddl_error("CREATE UNIQUE INDEX u ON t(c, k)"),
        (1062, "Duplicate entry 'a-5' for key 't.u'".into())
    );
    // Of a prefix key, the prefix is named.
    s.ddl("CREATE TABLE prefixes (id INT PRIMARY KEY, s VARCHAR(10))").unwrap();
    let text = |id, s| [Value::Int(id), Value::text(s)];
    s.insert("prefixes", &[&text(1, "ABC "), &text(2, "ABD")]);
    assert_eq!(
        s.ddl_error("CREATE UNIQUE INDEX u ON prefixes (s(2))"),
        (1062, "Duplicate entry 'AB' for key 'prefixes.u'".into())
    );
    s.ddl("DROP TABLE prefixes").unwrap();
    assert_eq!(s.table("t").def.indexes.len(), 2);
    s.ddl("ALTER TABLE t DROP INDEX k, ADD INDEX k (c)").unwrap();
    assert_eq!(
        s.ddl_error("ALTER TABLE t DROP INDEX k, ADD INDEX k (c), RENAME INDEX k TO q").0,
        1176
    );
    s.ddl("ALTER TABLE t RENAME INDEX k TO q, COMMENT 'said', AUTO_INCREMENT = 5").unwrap();
    let t = s.table("t");
    assert_eq!(
        (
            t.def.indexes[1].name.as_str(),
            t.def.indexes[1].columns[0].column,
            t.def.comment.as_str()
        ),
        ("q", 2, "said")
    );
    assert!(block_on(s.server.engine.check_table(&t)).unwrap().errors.is_empty());
    assert_eq!(s.ddl_error("DROP INDEX nope ON t").0, 1091);
    s.ddl("DROP INDEX q ON t").unwrap();
    assert_eq!(s.table("t").def.indexes.len(), 1);
}

/// Tests DDL-2.
#[test]
fn a_definition_waits_for_those_who_use_the_table() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (a INT)").unwrap();
    let (mut user, lock, free) = (
        MetadataLockSet::new(),
        table_lock(&server.engine, "test", "t"),
        server.engine.dict.metadata_lock("d/test"),
    );
    assert!(user.try_lock(&lock, MetadataLockMode::Read));
    s.lock_wait_timeout = Duration::from_millis(20);
    assert_eq!(s.ddl_error("DROP TABLE t").0, 1205);
    s.kill.kill();
    s.lock_wait_timeout = Duration::from_secs(600);
    assert_eq!(s.ddl_error("ALTER TABLE t COMMENT 'x'").0, 1317);
    assert!(free.is_free());
    s.kill.clear();
    std::thread::scope(|scope| {
        let dropper = scope.spawn(|| server.session().ddl("DROP TABLE t"));
        while !lock.has_waiters() {
            std::thread::yield_now();
        }
        user.release_all();
        dropper.join().unwrap().unwrap();
    });
    assert!(tables(s).is_empty());
}

/// Binds a definition, makes other definitions, and returns what running the first one answers.
fn run_late(s: &mut Session<'_>, text: &str, meanwhile: &[&str]) -> Option<Done> {
    let bound_at = s.server.engine.dict.version();
    let plan = s.plan(text).unwrap();
    meanwhile.iter().for_each(|text| drop(s.ddl(text).unwrap()));
    let Statement::Ddl(stmt) = &plan.body else { panic!("not a definition: {text}") };
    let mut cx = super::DdlContext {
        engine: &s.server.engine,
        session: &mut s.state,
        locks: &mut s.locks,
        lock_wait_timeout: s.lock_wait_timeout,
        generates_keys: false,
        server_collation: redolith_types::Collation::Utf8mb4GeneralCi,
        sorting: None,
        log: None,
    };
    let done = match stmt {
        DdlStmt::CreateView(create) => block_on(super::create_view(&mut cx, create, &plan)),
        stmt => block_on(super::run(&mut cx, stmt, bound_at)),
    };
    done.unwrap()
}

/// Tests DICT-2, BIND-2 and PLAN-2.
#[test]
fn what_was_bound_to_another_table_is_bound_again() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (a INT, b INT)").unwrap();
    let again = ["DROP TABLE t", "CREATE TABLE t (b INT)"];
    assert_eq!(run_late(s, "CREATE INDEX i ON t(b)", &again), None);
    assert!(s.table("t").def.indexes.is_empty());
    let view = "CREATE VIEW v AS SELECT * FROM t";
    assert_eq!(run_late(s, view, &["CREATE INDEX i ON t (b)"]), None);
    assert!(run_late(s, view, &["CREATE TABLE another (a INT)"]).is_some());
}

/// Tests DDL-2.
#[test]
fn an_old_default_collation_is_not_used() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE DATABASE d COLLATE latin1_bin").unwrap();
    s.ddl("CREATE TABLE x (a INT)").unwrap();
    let change = |to: &str| format!("ALTER DATABASE d COLLATE {to}");
    for text in ["CREATE TABLE d.t (c CHAR(5))", "CREATE VIEW d.v AS SELECT a FROM x"] {
        s.ddl(&change("latin1_bin")).unwrap();
        assert_eq!(run_late(s, text, &[&change("utf8mb4_bin")]), None, "{text}");
        // Other definitions do not matter, although they change the dictionary's version.
        let other = format!("CREATE TABLE another{} (a INT)", text.len());
        assert!(run_late(s, text, &[&other]).is_some(), "{text}");
    }
    let t = server.engine.dict.table("d", "t").unwrap();
    assert_eq!(t.def.collation, redolith_types::Collation::Utf8mb4Bin);
}

/// The last RENAME counts, and its name is what is locked.
#[test]
fn of_two_new_names_the_last_is_locked() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (a INT CHECK (a > 0))").unwrap();
    s.ddl("CREATE TABLE other (a INT, CONSTRAINT b_chk_1 CHECK (a > 0))").unwrap();
    let twice = "ALTER TABLE t RENAME TO a, RENAME TO b";
    assert_eq!(s.ddl_error(twice).0, 3822, "the constraint goes with the last name");
    s.ddl("DROP TABLE other").unwrap();
    let (mut user, lock) =
        (MetadataLockSet::new(), |name| table_lock(&server.engine, "test", name));
    assert!(user.try_lock(&lock("b"), MetadataLockMode::Exclusive));
    assert_eq!(s.ddl_after(20, twice).unwrap_err().code, 1205);
    user.release_all();
    assert!(user.try_lock(&lock("a"), MetadataLockMode::Exclusive));
    s.ddl_after(20, twice).unwrap();
    assert_eq!(tables(s), ["b"]);
}

#[test]
fn lock_tables_names_what_may_be_used() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (a INT)").unwrap();
    s.ddl("CREATE TABLE u (a INT)").unwrap();
    let name = |n: &str| TableName { schema: "test".into(), name: n.into() };
    let kill = s.kill.clone();
    let wait = MetadataLockWait {
        runtime: &server.engine.runtime,
        timeout: Duration::from_millis(20),
        kill: &kill,
    };
    block_on(s.locks.lock_tables(
        &server.engine,
        &[(name("t"), TableLock::Write), (name("u"), TableLock::Read)],
        wait,
    ))
    .unwrap();
    assert!(s.locks.check("test", "u", false).is_ok());
    assert_eq!(s.locks.check("test", "u", true).unwrap_err().code, 1099);
    assert_eq!(s.ddl_error("CREATE TABLE v (a INT)").0, 1100);
    s.ddl("TRUNCATE t").unwrap();
    s.locks.end_transaction();
    assert_eq!(server.session().ddl_after(20, "TRUNCATE t").unwrap_err().code, 1205);
    s.locks.unlock_tables();
    assert!(!s.locks.has_locked_tables());
    server.session().ddl("TRUNCATE t").unwrap();
    assert_eq!(
        block_on(s.locks.lock_tables(&server.engine, &[(name("x"), TableLock::Read)], wait))
            .unwrap_err()
            .code,
        1146
    );
    assert!(!s.locks.has_locked_tables());
}

/// Tests ECAT-1 and CAT-1.
#[test]
fn the_catalog_gives_one_info_per_table() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (a INT)").unwrap();
    use crate::Catalog;
    let first = server.catalog.table("test", "t").unwrap();
    assert!(Arc::ptr_eq(&first, &server.catalog.table("test", "t").unwrap()));
    s.ddl("CREATE INDEX a ON t(a)").unwrap();
    let second = server.catalog.table("test", "t").unwrap();
    assert!(!first.is_current() && second.is_current() && second.def.indexes.len() == 1);
    let plan = s.plan("SELECT a FROM t").unwrap();
    assert!(block_on(server.catalog.ready(&plan, 0)).unwrap());
    s.ddl("DROP TABLE t").unwrap();
    assert!(server.catalog.table("test", "t").is_none());
    assert!(!block_on(server.catalog.ready(&plan, 0)).unwrap());
}

use super::*;
use crate::exec::fixture::Server;
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockSet};

#[test]
fn tables_are_checked() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (id INT PRIMARY KEY, k INT, KEY (k))").unwrap();
    s.insert("t", &[&[Value::Int(1), Value::Int(2)], &[Value::Int(2), Value::Null]]);
    let check = s.run("CHECK TABLE t, nope").unwrap();
    assert_eq!(check.columns, ["Table", "Op", "Msg_type", "Msg_text"]);
    assert_eq!(
        check.rows,
        [
            ["test.t", "check", "status", "OK"],
            ["test.nope", "check", "Error", "Table 'test.nope' doesn't exist"],
            ["test.nope", "check", "status", "Operation failed"],
        ]
    );
    assert_eq!(s.rows("ANALYZE TABLE t"), [["test.t", "analyze", "status", "OK"]]);
    assert_eq!(
        s.rows("REPAIR TABLE t")[0][2..],
        ["note", "The storage engine for the table doesn't support repair"]
    );
    assert_eq!(s.rows("OPTIMIZE TABLE t")[0][2], "note");
    assert!(s.table("t").metadata_lock.is_free());
}

#[test]
fn a_check_waits_for_writers() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let (mut writer, table) = (MetadataLockSet::new(), s.table("t"));
    assert!(writer.try_lock(&table.metadata_lock, MetadataLockMode::Write));
    s.run("SET lock_wait_timeout = 1").unwrap();
    assert_eq!(s.error("CHECK TABLE t"), 1205);
    assert_eq!(s.rows("ANALYZE TABLE t").len(), 1);
}

#[test]
fn checksums_are_of_rows_not_of_pages() {
    let server = Server::new();
    let s = &mut server.session();
    for name in ["a", "b"] {
        s.ddl(&format!("CREATE TABLE {name} (x INT, v VARCHAR(10))")).unwrap();
    }
    let (one, two) = ([Value::Int(1), Value::text("one")], [Value::Int(2), Value::Null]);
    s.insert("a", &[&one, &two]);
    s.insert("b", &[&two, &one]);
    let sums = s.rows("CHECKSUM TABLE a, b, nope");
    assert_eq!(sums[0][1], sums[1][1]);
    assert_eq!((sums[2][1].as_str(), s.warnings()[0].0), ("NULL", 1146));
    s.insert("b", &[&two]);
    assert_ne!(s.rows("CHECKSUM TABLE b")[0][1], sums[1][1]);
}

#[test]
fn lock_tables_until_unlock_tables() {
    let server = Server::new();
    let (s, other) = (&mut server.session(), &mut server.session());
    s.ddl("CREATE TABLE t (a INT)").unwrap();
    s.run("LOCK TABLES t READ").unwrap();
    assert_eq!(s.locks.check("test", "t", true).unwrap_err().code, 1099);
    assert_eq!(other.ddl_after(20, "DROP TABLE t").unwrap_err().code, 1205);
    assert!(matches!(s.run("UNLOCK TABLES").unwrap().ran, Ran::Commit(_)));
    s.locks.end_transaction();
    assert!(!s.locks.has_locked_tables() && s.table("t").metadata_lock.is_free());
    assert!(matches!(s.run("UNLOCK TABLES").unwrap().ran, Ran::Done(_)));
}

/// Tests SLOCK-2.
#[test]
fn the_global_read_lock_stops_writers_and_definitions() {
    let server = Server::new();
    let (s, other) = (&mut server.session(), &mut server.session());
    s.ddl("CREATE TABLE t (a INT)").unwrap();
    s.run("FLUSH TABLES WITH READ LOCK").unwrap();
    for text in ["CREATE TABLE u (a INT)", "CREATE DATABASE d", "DROP TABLE t"] {
        assert_eq!(other.ddl_after(20, text).unwrap_err().code, 1205, "{text}");
    }
    assert_eq!(s.error("CREATE DATABASE d"), 1223);
    assert!(s.locks.check("test", "t", false).is_ok());
    assert_eq!(s.locks.check("test", "t", true).unwrap_err().code, 1223);
    s.run("UNLOCK TABLES").unwrap();
    s.locks.end_transaction();
    other.ddl("CREATE TABLE u (a INT)").unwrap();
}

#[test]
fn kill_reaches_others() {
    let server = Server::new();
    let (s, other) = (&mut server.session(), server.session());
    s.run(&format!("KILL QUERY {}", other.state.id)).unwrap();
    assert_eq!(other.state.process.killed(), crate::processes::Kill::Query);
    s.run(&format!("SET @id = {}", other.state.id)).unwrap();
    s.run("KILL @id").unwrap();
    assert_eq!(other.state.process.killed(), crate::processes::Kill::Connection);
    assert_eq!(s.error("KILL 4711"), 1094);
    assert_eq!(s.error(&format!("KILL {}", s.state.id)), 1317);
}

#[test]
fn use_changes_the_database_and_its_collation() {
    let server = Server::new();
    let s = &mut server.session();
    s.ddl("CREATE DATABASE old COLLATE latin1_bin").unwrap();
    s.run("USE old").unwrap();
    assert_eq!(s.state.schema.as_deref(), Some("old"));
    assert_eq!(
        (s.value("@@collation_database"), s.value("@@character_set_database")),
        (Value::text("latin1_bin"), Value::text("latin1"))
    );
    assert_eq!(s.error("USE nowhere"), 1049);
    assert_eq!(s.error("RESET MASTER"), 1186);
    s.run("FLUSH LOGS").unwrap();
    s.run("FLUSH STATUS").unwrap();
}

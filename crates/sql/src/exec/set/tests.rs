use super::*;
use crate::exec::admin::Ran;
use crate::exec::fixture::Server;

/// Tests RESIZE-5.
#[test]
fn a_pool_grows_as_far_as_there_is_memory() {
    let server = crate::exec::fixture::Server::new();
    let engine = &server.engine;
    let (has, used) = (engine.pool_bytes(), engine.pool_used_bytes());
    assert!(used > 0 && used < has, "{used} of {has}");
    let wanted = has + (1 << 20);
    assert!(pool_has_memory(engine, wanted, Some(wanted - used)).is_ok());
    assert!(pool_has_memory(engine, wanted, None).is_ok());
    let e = pool_has_memory(engine, wanted, Some(wanted - used - 1)).unwrap_err();
    assert_eq!((e.code, &e.sqlstate), (1037, b"HY001"));
    // A size that is no growth takes nothing that is not taken already.
    assert!(pool_has_memory(engine, has, Some(0)).is_ok());
}

#[test]
fn user_variables_are_set_together() {
    let server = Server::new();
    let s = &mut server.session();
    s.run("SET @a = 1").unwrap();
    s.run("SET @a = 9, @b = @a + 1, @OLD_MODE = @@sql_mode").unwrap();
    assert_eq!(
        (s.value("@a"), s.state.user_variables.get("b").unwrap().value.clone()),
        (Value::Int(9), Value::Int(2))
    );
    assert_eq!(s.value("@b * 10"), Value::Int(20));
    let mode = s.value("@@sql_mode");
    s.run("SET sql_mode = ''").unwrap();
    assert_eq!(s.value("@@sql_mode"), Value::text(""));
    s.run("SET SESSION sql_mode = @old_mode").unwrap();
    assert_eq!(s.value("@@sql_mode"), mode);
}

#[test]
fn scopes_and_errors() {
    let server = Server::new();
    let s = &mut server.session();
    s.run("SET GLOBAL wait_timeout = 100, SESSION wait_timeout = 50").unwrap();
    assert_eq!(
        (s.value("@@global.wait_timeout"), s.value("@@wait_timeout")),
        (Value::UInt(100), Value::UInt(50))
    );
    s.run("SET @@session.wait_timeout = DEFAULT").unwrap();
    assert_eq!(s.value("@@wait_timeout"), Value::UInt(100));
    for (text, code) in [
        ("SET nonsense = 1", 1193),
        ("SET max_connections = 5", 1229),
        ("SET GLOBAL sql_log_bin = 1", 1228),
        ("SET version = 'x'", 1238),
        ("SET autocommit = 2", 1231),
        ("SET wait_timeout = 'x'", 1232),
        ("SET @a = @@nonsense", 1193),
        ("SET @a = @@session.max_connections", 1238),
        ("SET timestamp = 'x'", 1232),
        ("SET autocommit = (SELECT 1)", 1235),
        ("SET PERSIST wait_timeout = 1", 1235),
    ] {
        assert_eq!(s.error(text), code, "{text}");
    }
    s.run("SET wait_timeout = 0").unwrap();
    assert_eq!(s.warnings(), [(1292, "Truncated incorrect wait_timeout value: '0'")]);
    assert_eq!(s.value("@@wait_timeout"), Value::UInt(1));
}

/// Tests SETS-1.
#[test]
fn one_wrong_item_changes_nothing() {
    let server = Server::new();
    let s = &mut server.session();
    for (items, code) in [
        ("GLOBAL innodb_flush_log_at_timeout = 5, GLOBAL redolith_log_writer = 'nonsense'", 1231),
        ("NAMES latin1, @a = 5, wait_timeout = 7, nonsense = 1", 1193),
        (
            "GLOBAL innodb_monitor_disable = 'module_log', GLOBAL innodb_monitor_enable = \
                'nonsense'",
            1231,
        ),
        ("timestamp = 5, last_insert_id = 6, autocommit = 0, timestamp = -1", 1231),
    ] {
        assert_eq!(s.error(&format!("SET {items}")), code, "{items}");
    }
    assert_eq!(s.value("@@global.innodb_flush_log_at_timeout"), Value::UInt(1));
    assert_eq!((s.value("@a"), s.value("@@wait_timeout")), (Value::Null, Value::UInt(28800)));
    assert_eq!(
        (s.value("@@character_set_client"), s.value("@@autocommit")),
        (Value::text("utf8mb4"), Value::Int(1))
    );
    assert_eq!(
        (s.value("@@last_insert_id"), s.value("@@global.innodb_monitor_disable")),
        (Value::UInt(0), Value::text(""))
    );
}

#[test]
fn the_log_writers_default_is_neither_on_nor_off() {
    let server = Server::new();
    let s = &mut server.session();
    let mut writer = |to: &str| {
        s.run(&format!("SET GLOBAL innodb_log_writer_threads = {to}")).unwrap();
        s.value("@@global.redolith_log_writer")
    };
    assert_eq!(
        [writer("ON"), writer("OFF"), writer("DEFAULT")],
        ["dedicated", "session", "auto"].map(Value::text)
    );
}

#[test]
fn what_clients_and_dumps_send() {
    let server = Server::new();
    let s = &mut server.session();
    for text in [
        "SET NAMES utf8mb4",
        "SET NAMES 'latin1' COLLATE latin1_bin",
        "SET AUTOCOMMIT = 0",
        "SET @@session.autocommit = OFF",
        "SET character_set_results = NULL",
        "SET SESSION character_set_results = 'binary'",
        "/*!40100 SET @@SQL_MODE='' */",
        "/*!40103 SET TIME_ZONE='+00:00' */",
        "SET SQL_QUOTE_SHOW_CREATE=1",
        "SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0",
        "SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS",
        "SET optimizer_switch='semijoin=off'",
        "SET @@GLOBAL.innodb_io_capacity = 4000",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET CHARACTER SET utf8mb4",
    ] {
        s.run(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    assert_eq!(s.value("@@transaction_isolation"), Value::text("READ-COMMITTED"));
    assert_eq!(s.value("@@autocommit"), Value::Int(0));
}

#[test]
fn the_next_transaction() {
    let server = Server::new();
    let s = &mut server.session();
    s.run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY").unwrap();
    assert_eq!(
        s.next,
        NextTransaction { isolation: Some(Isolation::Serializable), read_only: Some(true) }
    );
    s.run("SET @@transaction_isolation = 'READ-UNCOMMITTED'").unwrap();
    assert_eq!(s.next.isolation, Some(Isolation::ReadUncommitted));
    assert_eq!(s.value("@@transaction_isolation"), Value::text("REPEATABLE-READ"));
    assert_eq!(s.error("SET @@transaction_isolation = 'CHAOS'"), 1231);
    s.in_transaction = true;
    assert_eq!(s.error("SET TRANSACTION READ WRITE"), 1568);
    s.run("SET SESSION TRANSACTION READ ONLY").unwrap();
    assert_eq!(s.value("@@transaction_read_only"), Value::Int(1));
}

#[test]
fn autocommit_on_ends_the_transaction() {
    let server = Server::new();
    let s = &mut server.session();
    s.run("SET autocommit = 0").unwrap();
    s.in_transaction = true;
    assert!(matches!(s.run("SET autocommit = 0").unwrap().ran, Ran::Done(_)));
    assert!(matches!(s.run("SET @a = 1, autocommit = ON").unwrap().ran, Ran::Commit(_)));
    assert!(matches!(s.run("SET autocommit = 1").unwrap().ran, Ran::Done(_)));
}

#[test]
fn what_only_the_session_knows() {
    let server = Server::new();
    let s = &mut server.session();
    s.run("SET timestamp = 1700000000.25, last_insert_id = 7, insert_id = 9").unwrap();
    assert_eq!(
        (s.value("@@timestamp"), s.value("@@last_insert_id"), s.value("@@insert_id")),
        (Value::Double(1700000000.25), Value::UInt(7), Value::UInt(9))
    );
    let settings = statement_settings(&s.vars, false);
    assert_eq!((settings.insert_id, settings.timestamp_us), (Some(9), Some(1_700_000_000_250_000)));
    s.run("SET timestamp = DEFAULT, time_zone = '+02:00'").unwrap();
    assert_eq!(
        (
            statement_settings(&s.vars, false).timestamp_us,
            statement_settings(&s.vars, false).zone_offset_secs
        ),
        (None, 7200)
    );
}

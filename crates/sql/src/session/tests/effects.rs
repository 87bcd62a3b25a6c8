//! Checks when each session variable takes effect: at once for later statements, even if they were
//! planned or prepared before, unless MySQL differs.
use super::{World, execute, lines, query};
use crate::settings::{Access, Kind, Scope, Var};
use redolith_types::Value;

/// A way to see that a variable has taken effect.
struct Effect {
    var: &'static str,
    value: &'static str,
    /// A statement, and its answers before and after the change.
    ask: &'static str,
    before: &'static str,
    after: &'static str,
    /// A prepared statement keeps the value under which it was prepared.
    bound_at_prepare: bool,
}

const fn at_once(
    var: &'static str,
    value: &'static str,
    ask: &'static str,
    before: &'static str,
    after: &'static str,
) -> Effect {
    Effect { var, value, ask, before, after, bound_at_prepare: false }
}
const fn at_prepare(
    var: &'static str,
    value: &'static str,
    ask: &'static str,
    before: &'static str,
    after: &'static str,
) -> Effect {
    Effect { var, value, ask, before, after, bound_at_prepare: true }
}

const EFFECTS: &[Effect] = &[
    at_once(
        "block_encryption_mode",
        "'aes-256-ecb'",
        "SELECT HEX(AES_ENCRYPT('a', 'k'))",
        "53E61674DBCC997DD27BD802A2EB9F22",
        "450262894A2499BDCF3C9DC237A78E80",
    ),
    at_once(
        "cte_max_recursion_depth",
        "2",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n \
            FROM r WHERE n > 2",
        "3",
        "error 3636",
    ),
    at_once("default_week_format", "3", "SELECT WEEK('2008-02-20')", "7", "8"),
    at_prepare("div_precision_increment", "1", "SELECT 1.0 / 3", "0.33333", "0.33"),
    at_once(
        "explain_format",
        "TREE",
        "EXPLAIN SELECT 1",
        "1|SIMPLE|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|No tables used",
        "-> Rows fetched before execution  (cost=0.00 rows=1)\n",
    ),
    at_once(
        "group_concat_max_len",
        "4",
        "SELECT GROUP_CONCAT(n SEPARATOR '') FROM (SELECT 12345 AS n) AS d",
        "12345",
        "1234",
    ),
    at_once(
        "time_zone",
        "'+02:00'",
        "SELECT FROM_UNIXTIME(0)",
        "1970-01-01 00:00:00",
        "1970-01-01 02:00:00",
    ),
    at_once(
        "time_zone",
        "'+02:00'",
        "SELECT UNIX_TIMESTAMP('2020-01-01 00:00:00')",
        "1577836800",
        "1577829600",
    ),
    at_once(
        "time_zone",
        "'-01:00'",
        "SELECT at FROM stamps",
        "2020-01-01 00:00:00",
        "2019-12-31 23:00:00",
    ),
    at_once(
        "time_zone",
        "'-01:00'",
        "SELECT COUNT(*) FROM stamps WHERE at = '2020-01-01 00:00:00'",
        "1",
        "0",
    ),
    at_once("sql_mode", "''", "DO CAST('2020-02-30' AS DATE)", "ok 0 0", "ok 0 0"),
    at_once("sql_mode", "'NO_UNSIGNED_SUBTRACTION'", "SELECT CAST(1 AS SIGNED) - 2", "-1", "-1"),
    at_prepare("sql_mode", "'PIPES_AS_CONCAT'", "SELECT 1 || 0", "1", "10"),
    at_prepare("sql_mode", "'ANSI_QUOTES'", "SELECT \"n\" FROM one", "n", "1"),
    at_prepare("sql_mode", "'NO_BACKSLASH_ESCAPES'", r"SELECT LENGTH('\\')", "1", "2"),
    at_prepare("sql_mode", "'HIGH_NOT_PRECEDENCE'", "SELECT NOT 1 BETWEEN 0 AND 2", "0", "1"),
    at_once("sql_mode", "''", "INSERT INTO narrow VALUES (300)", "error 1264", "ok 1 0"),
    at_once("sql_mode", "''", "INSERT INTO narrow VALUES (1 / 0)", "error 1365", "ok 1 0"),
    at_prepare("collation_connection", "'utf8mb4_bin'", "SELECT 'a' = 'A'", "1", "0"),
    at_prepare(
        "character_set_connection",
        "'latin1'",
        "SELECT LENGTH('\u{e9}'), CHARSET('a')",
        "2|utf8mb4",
        "1|latin1",
    ),
    at_prepare("character_set_client", "'latin1'", "SELECT HEX('\u{e9}')", "C3A9", "C383C2A9"),
    at_once("sql_notes", "0", "SHOW COUNT(*) WARNINGS", "1", "0"),
];

/// Variables whose effect is checked by the tests below or in other files.
const ELSEWHERE: &[&str] = &[
    "auto_increment_increment",
    "auto_increment_offset",
    "autocommit",
    "binlog_row_image",
    "binlog_rows_query_log_events",
    "character_set_database",
    "character_set_results",
    "character_set_server",
    "collation_database",
    "collation_server",
    "default_collation_for_utf8mb4",
    "gtid_next",
    "histogram_generation_max_mem_size",
    "identity",
    "innodb_flush_log_at_trx_commit",
    "innodb_lock_wait_timeout",
    "insert_id",
    "interactive_timeout",
    "last_insert_id",
    "lock_wait_timeout",
    "max_allowed_packet",
    "max_error_count",
    "max_execution_time",
    "net_read_timeout",
    "net_write_timeout",
    "parser_max_mem_size",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "redolith_statement_memory",
    "show_gipk_in_create_table_and_information_schema",
    "sql_generate_invisible_primary_key",
    "sql_log_bin",
    "timestamp",
    "transaction_isolation",
    "transaction_read_only",
    "wait_timeout",
];
/// Variables that accept only one value.
const NOTHING_TO_SAY: &[&str] = &[
    "default_storage_engine",
    "default_tmp_storage_engine",
    "lc_messages",
    "lc_time_names",
    "optimizer_switch",
];

/// Tests SET-3.
#[test]
fn every_variable_with_an_effect_is_tested() {
    for var in Var::all() {
        let v = var.get();
        let settable = v.access == Access::Dynamic
            && v.scope != Scope::Global
            && v.only.is_none()
            && v.inert.is_none();
        let tested = EFFECTS.iter().any(|e| e.var == v.name)
            || ELSEWHERE.contains(&v.name)
            || NOTHING_TO_SAY.contains(&v.name);
        assert_eq!(settable, tested, "{}", v.name);
    }
}

fn world() -> World {
    let w = World::new();
    let mut s = w.session();
    for text in [
        "CREATE TABLE stamps (at TIMESTAMP)",
        "INSERT INTO stamps VALUES ('2020-01-01 00:00:00')",
        "CREATE TABLE one (n INT)",
        "INSERT INTO one VALUES (1)",
        "CREATE TABLE narrow (n TINYINT)",
    ] {
        assert!(lines(&mut s, text)[0].starts_with("ok"), "{text}");
    }
    w
}

/// The statement's answer. For `sql_notes`, another statement makes a note first.
fn ask(s: &mut super::super::Session, e: &Effect) -> String {
    if e.var == "sql_notes" {
        lines(s, "DROP TABLE IF EXISTS nowhere");
    }
    lines(s, e.ask).join(",")
}

#[test]
fn a_change_counts_for_the_next_statement() {
    let w = world();
    for e in EFFECTS {
        let mut s = w.session();
        // The second run uses a plan from the cache.
        for _ in 0..2 {
            assert_eq!(ask(&mut s, e), e.before, "{} {}", e.var, e.ask);
        }
        for set in [
            format!("SET SESSION {} = {}", e.var, e.value),
            format!("SET @@{} = {}", e.var, e.value),
            format!("SET @@session.{} = {}", e.var, e.value),
        ] {
            assert_eq!(lines(&mut s, &set), ["ok 0 0"], "{set}");
            for _ in 0..2 {
                assert_eq!(ask(&mut s, e), e.after, "{set}: {}", e.ask);
            }
            assert_eq!(lines(&mut s, &format!("SET {} = DEFAULT", e.var)), ["ok 0 0"]);
            assert_eq!(ask(&mut s, e), e.before, "{} = DEFAULT: {}", e.var, e.ask);
        }
    }
}

#[test]
fn a_change_counts_within_a_transaction() {
    let w = world();
    for e in EFFECTS {
        let mut s = w.session();
        lines(&mut s, "BEGIN; SELECT * FROM one");
        assert_eq!(ask(&mut s, e), e.before, "{} {}", e.var, e.ask);
        lines(&mut s, &format!("SET {} = {}", e.var, e.value));
        assert_eq!(ask(&mut s, e), e.after, "{} {}", e.var, e.ask);
        lines(&mut s, "ROLLBACK");
    }
}

#[test]
fn prepared_statements_go_by_what_is_set_when_they_run() {
    let w = world();
    for e in EFFECTS.iter().filter(|e| e.var != "sql_notes") {
        let mut s = w.session();
        let id = redolith_engine::runtime::block_on(s.prepare(e.ask.as_bytes())).unwrap().id;
        assert_eq!(execute(&mut s, id, &[]).join(","), e.before, "{} {}", e.var, e.ask);
        lines(&mut s, &format!("SET {} = {}", e.var, e.value));
        let then = if e.bound_at_prepare { e.before } else { e.after };
        assert_eq!(execute(&mut s, id, &[]).join(","), then, "{} {}", e.var, e.ask);
        // A statement that is prepared now sees the new value.
        let id = redolith_engine::runtime::block_on(s.prepare(e.ask.as_bytes())).unwrap().id;
        assert_eq!(execute(&mut s, id, &[]).join(","), e.after, "{} {}", e.var, e.ask);
    }
}

#[test]
fn global_values_are_of_sessions_that_begin() {
    for e in EFFECTS {
        // The client sets the character sets.
        if e.var.starts_with("character_set") || e.var == "collation_connection" {
            continue;
        }
        let w = world();
        let mut s = w.session();
        assert_eq!(ask(&mut s, e), e.before, "{} {}", e.var, e.ask);
        assert_eq!(lines(&mut s, &format!("SET GLOBAL {} = {}", e.var, e.value)), ["ok 0 0"]);
        assert_eq!(ask(&mut s, e), e.before, "SET GLOBAL {}: {}", e.var, e.ask);
        assert_eq!(ask(&mut w.session(), e), e.after, "SET GLOBAL {}: {}", e.var, e.ask);
        // DEFAULT is the current GLOBAL value.
        lines(&mut s, &format!("SET SESSION {} = DEFAULT", e.var));
        assert_eq!(ask(&mut s, e), e.after, "{} = DEFAULT: {}", e.var, e.ask);
        redolith_engine::runtime::block_on(s.reset());
        assert_eq!(ask(&mut s, e), e.after, "{} after a reset: {}", e.var, e.ask);
    }
}

/// Variables whose values the session itself keeps.
#[test]
fn what_the_session_knows_counts_at_once() {
    let w = world();
    let mut s = w.session();
    lines(&mut s, "CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY, n INT)");
    let id = redolith_engine::runtime::block_on(
        s.prepare(b"SELECT UNIX_TIMESTAMP(NOW()), LAST_INSERT_ID(), CONNECTION_ID()"),
    )
    .unwrap()
    .id;
    lines(&mut s, "SET timestamp = 1000000000, last_insert_id = 7, pseudo_thread_id = 42");
    assert_eq!(execute(&mut s, id, &[]), ["1000000000|7|42"]);
    lines(&mut s, "SET identity = 8, timestamp = DEFAULT");
    assert_eq!(lines(&mut s, "SELECT LAST_INSERT_ID(), UNIX_TIMESTAMP() > 1000000000"), ["8|1"]);
    lines(&mut s, "BEGIN; SET insert_id = 50");
    assert_eq!(lines(&mut s, "INSERT INTO numbered(n) VALUES (1), (2)"), ["ok 2 50"]);
    // The value was for one statement.
    assert_eq!(lines(&mut s, "INSERT INTO numbered(n) VALUES (3)"), ["ok 1 52"]);
    // MySQL's generators begin at the two seeds: the first number is (3 * 1 + 2) / 0x3fffffff.
    lines(&mut s, "SET rand_seed1 = 1, rand_seed2 = 2");
    let first = lines(&mut s, "SELECT RAND() * 0x3fffffff, RAND() * 0x3fffffff");
    assert_eq!(first, ["5|55"]);
    lines(&mut s, "SET rand_seed1 = 1, rand_seed2 = 2");
    assert_eq!(lines(&mut s, "SELECT RAND() * 0x3fffffff, RAND() * 0x3fffffff"), first);
}

#[test]
fn row_locks_are_waited_for_as_long_as_is_set_now() {
    let w = world();
    let (mut a, mut b) = (w.session(), w.session());
    lines(&mut a, "CREATE TABLE locked (id INT PRIMARY KEY); INSERT INTO locked VALUES (1), (2)");
    lines(&mut a, "BEGIN; SELECT * FROM locked WHERE id = 1 FOR UPDATE");
    let prepared = redolith_engine::runtime::block_on(
        b.prepare(b"SELECT * FROM locked WHERE id = 1 FOR UPDATE"),
    )
    .unwrap()
    .id;
    // The transaction begins with the default of 50 seconds.
    lines(&mut b, "BEGIN; SELECT * FROM locked WHERE id = 2 FOR UPDATE");
    lines(&mut b, "SET SESSION innodb_lock_wait_timeout = 1");
    assert_eq!(lines(&mut b, "SELECT * FROM locked WHERE id = 1 FOR UPDATE"), ["error 1205"]);
    assert_eq!(execute(&mut b, prepared, &[]), ["error 1205"]);
    lines(&mut b, "ROLLBACK");
}

#[test]
fn definitions_are_waited_for_as_long_as_is_set_now() {
    let w = world();
    let (mut a, mut b) = (w.session(), w.session());
    lines(&mut a, "BEGIN; INSERT INTO one VALUES (2)");
    lines(&mut b, "BEGIN; SELECT * FROM narrow; SET lock_wait_timeout = 1");
    assert_eq!(lines(&mut b, "DROP TABLE one"), ["error 1205"]);
    lines(&mut a, "ROLLBACK");
}

#[test]
fn isolation_and_access_are_of_the_next_transaction() {
    let w = world();
    let (mut a, mut b) = (w.session(), w.session());
    let count = "SELECT COUNT(*) FROM one";
    lines(&mut a, "BEGIN");
    assert_eq!(lines(&mut a, count), ["1"]);
    lines(
        &mut a,
        "SET SESSION transaction_isolation = 'READ-COMMITTED', transaction_read_only = ON",
    );
    lines(&mut b, "INSERT INTO one VALUES (2)");
    assert_eq!(lines(&mut a, count), ["1"], "a snapshot of REPEATABLE READ");
    assert_eq!(lines(&mut a, "INSERT INTO one VALUES (3)"), ["ok 1 0"]);
    // This form is for the next transaction only, so it is refused within a transaction.
    assert_eq!(lines(&mut a, "SET @@transaction_isolation = 'SERIALIZABLE'"), ["error 1568"]);
    lines(&mut a, "COMMIT; BEGIN");
    assert_eq!(lines(&mut a, count), ["3"]);
    lines(&mut b, "INSERT INTO one VALUES (4)");
    assert_eq!(lines(&mut a, count), ["4"], "READ COMMITTED");
    assert_eq!(lines(&mut a, "INSERT INTO one VALUES (5)"), ["error 1792"]);
    lines(&mut a, "COMMIT");
    // The setting is for the next transaction only.
    lines(&mut a, "SET @@transaction_read_only = OFF");
    assert_eq!(lines(&mut a, "INSERT INTO one VALUES (6)"), ["ok 1 0"]);
    assert_eq!(lines(&mut a, "INSERT INTO one VALUES (7)"), ["error 1792"]);
    // The GLOBAL value is for sessions that begin.
    lines(&mut b, "SET GLOBAL transaction_read_only = ON");
    assert_eq!(lines(&mut b, "INSERT INTO one VALUES (8)"), ["ok 1 0"]);
    assert_eq!(lines(&mut w.session(), "INSERT INTO one VALUES (9)"), ["error 1792"]);
}

#[test]
fn autocommit_that_is_switched_on_commits() {
    let w = world();
    let (mut a, mut b) = (w.session(), w.session());
    let count = "SELECT COUNT(*) FROM one";
    lines(&mut a, "SET autocommit = 0; INSERT INTO one VALUES (2)");
    assert_eq!(lines(&mut b, count), ["1"]);
    // A change from 0 to 1 commits. Setting 1 again within BEGIN has no effect.
    lines(&mut a, "SET autocommit = 1");
    assert_eq!(lines(&mut b, count), ["2"]);
    lines(&mut a, "BEGIN; INSERT INTO one VALUES (3); SET autocommit = 1");
    assert_eq!(lines(&mut b, count), ["2"]);
    lines(&mut a, "SET autocommit = 0; SET autocommit = DEFAULT");
    assert_eq!(lines(&mut b, count), ["3"]);
    let id =
        redolith_engine::runtime::block_on(a.prepare(b"INSERT INTO one VALUES (?)")).unwrap().id;
    lines(&mut a, "SET autocommit = 0");
    execute(&mut a, id, &[Value::Int(4)]);
    lines(&mut a, "ROLLBACK");
    assert_eq!(lines(&mut b, count), ["3"]);
}

#[test]
fn databases_are_made_in_the_sessions_character_set() {
    let w = world();
    let mut s = w.session();
    lines(
        &mut s,
        "SET SESSION character_set_server = latin1; CREATE DATABASE narrow_ones; USE narrow_ones",
    );
    assert_eq!(
        lines(&mut s, "SELECT @@character_set_database, @@collation_database"),
        ["latin1|latin1_swedish_ci"]
    );
    lines(
        &mut s,
        "SET SESSION collation_server = DEFAULT; CREATE DATABASE wide_ones; USE wide_ones",
    );
    assert_eq!(lines(&mut s, "SELECT @@character_set_database"), ["utf8mb4"]);
    // SET CHARACTER SET takes the connection's collation from the database.
    lines(&mut s, "USE narrow_ones; SET CHARACTER SET utf8mb4");
    assert_eq!(
        lines(&mut s, "SELECT @@character_set_client, @@collation_connection"),
        ["utf8mb4|latin1_swedish_ci"]
    );
}

#[test]
fn packets_are_as_long_as_when_the_session_began() {
    let w = world();
    let mut s = w.session();
    assert_eq!(lines(&mut s, "SET GLOBAL max_allowed_packet = 1048576"), ["ok 0 0"]);
    assert_eq!(s.max_allowed_packet(), 64 << 20);
    assert_eq!(lines(&mut s, "SELECT LENGTH(REPEAT('a', 2000000))"), ["2000000"]);
    assert_eq!(w.session().max_allowed_packet(), 1 << 20);
    assert_eq!(lines(&mut w.session(), "SELECT LENGTH(REPEAT('a', 2000000))"), ["NULL"]);
    assert_eq!(lines(&mut s, "SET SESSION max_allowed_packet = 1024"), ["error 1621"]);
}

#[test]
fn timeouts_of_the_connection_are_those_of_now() {
    let w = world();
    let mut s = w.session();
    lines(&mut s, "BEGIN; SET wait_timeout = 5, net_read_timeout = 6, net_write_timeout = 7");
    assert_eq!((s.wait_timeout_s(), s.net_read_timeout_s(), s.net_write_timeout_s()), (5, 6, 7));
    // `interactive_timeout` counts only when an interactive client logs in.
    lines(&mut s, "SET interactive_timeout = 9");
    assert_eq!(s.wait_timeout_s(), 5);
    assert_eq!(query(&mut s, "SET GLOBAL wait_timeout = 11").lines, ["ok 0 0"]);
    assert_eq!((s.wait_timeout_s(), w.session().wait_timeout_s()), (5, 11));
}

#[test]
fn variables_of_the_session_are_told_apart() {
    let of_session = Var::all()
        .iter()
        .filter(|v| v.get().kind == Kind::OfSession && v.get().access == Access::Dynamic);
    assert_eq!(of_session.count(), 7);
}

#[test]
fn a_new_session_has_no_notes_from_its_first_statement_on() {
    let w = world();
    lines(&mut w.session(), "SET GLOBAL sql_notes = OFF");
    let mut s = w.session_without_database();
    lines(&mut s, "DROP TABLE IF EXISTS test.nowhere");
    assert_eq!(lines(&mut s, "SHOW COUNT(*) WARNINGS"), ["0"]);
}

//! Checks the limits of statements: the results of functions, waits, and plans in the cache.
use super::{TABLE, World, execute, lines};
use crate::exec::fixture::Server;
use crate::plan::Expr;
use crate::processes::Kill;
use crate::session::VariableTooLong;
use crate::sink::StatusFlags;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::runtime::block_on;
use redolith_types::Value;
use std::sync::Arc;
use std::time::Duration;

/// The copy is in no account.
#[test]
fn long_user_variables_are_not_copied() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "SET @long = REPEAT('a', 2000), @short = 'abc', @number = 12, @null = NULL");
    assert_eq!(s.user_variable("long", 1999), Err(VariableTooLong));
    assert_eq!(s.user_variable("long", 2000), Ok(Some("a".repeat(2000))));
    assert_eq!(s.user_variable("short", 3), Ok(Some("abc".into())));
    assert_eq!(s.user_variable("number", 3), Ok(Some("12".into())));
    assert_eq!((s.user_variable("null", 3), s.user_variable("none", 3)), (Ok(None), Ok(None)));
}

/// Tests EVAL-3.
#[test]
fn results_of_functions_are_bounded() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, "SET GLOBAL max_allowed_packet = 4096");
    let mut s = world.session();
    lines(
        &mut s,
        "SET @most = REPEAT('a', 4096), @half = REPEAT('a', 2048), @third = REPEAT('a', 3072)",
    );
    // Each pair has the longest permitted result and a longer one, which is NULL.
    for (fits, grows) in [
        ("CAST('' AS BINARY(4096))", "CAST('' AS BINARY(4294967294))"),
        ("CAST('x' AS BINARY(4096))", "CAST('x' AS BINARY(4097))"),
        ("HEX(@half)", "HEX(CONCAT(@half, 'a'))"),
        ("HEX(HEX(REPEAT('a', 1024)))", "HEX(HEX(HEX(REPEAT('a', 1024))))"),
        ("TO_BASE64(REPEAT('a', 3000))", "TO_BASE64(@third)"),
        ("QUOTE(REPEAT('''', 2047))", "QUOTE(REPEAT('''', 2048))"),
        ("CONCAT(@half, @half)", "CONCAT(@half, @half, 'a')"),
        ("CONCAT_WS('-', @half, NULL, REPEAT('a', 2047))", "CONCAT_WS('-', @half, @half)"),
        ("INSERT(@third, 1, 0, REPEAT('b', 1024))", "INSERT(@third, 1, 0, REPEAT('b', 1025))"),
        ("REPLACE(@half, 'a', 'bb')", "REPLACE(@half, 'a', 'bbb')"),
        ("LPAD(@half, 4096, 'xy')", "LPAD(@half, 4097, 'xy')"),
        ("RPAD(@half, 4096, 'xy')", "RPAD(@half, 4097, 'xy')"),
        ("REPEAT('ab', 2048)", "REPEAT('ab', 2049)"),
        ("SPACE(4096)", "SPACE(4097)"),
        // The capitals of these letters are longer.
        ("UPPER(REPEAT('ɐ', 1365))", "UPPER(REPEAT('ɐ', 2048))"),
        (
            "DATE_FORMAT('2024-01-03', REPEAT('%W', 400))",
            "DATE_FORMAT('2024-01-03', REPEAT('%W', 500))",
        ),
        (
            "TIME_FORMAT('10:00:00', REPEAT('%r', 300))",
            "TIME_FORMAT('10:00:00', REPEAT('%r', 500))",
        ),
        (
            "CONVERT(CAST(REPEAT('é', 1365) AS CHAR CHARACTER SET latin1) USING utf8mb4)",
            "CONVERT(CONCAT(CAST(REPEAT('é', 2000) AS CHAR CHARACTER SET latin1), CAST(REPEAT('é', \
                100) AS CHAR CHARACTER SET latin1)) USING utf8mb4)",
        ),
    ] {
        assert_eq!(
            lines(&mut s, &format!("SELECT LENGTH({fits}) BETWEEN 2000 AND 4096")),
            ["1"],
            "{fits}"
        );
        assert_eq!(lines(&mut s, &format!("SELECT {grows} IS NULL")), ["1"], "{grows}");
        let warning = lines(&mut s, "SHOW WARNINGS");
        assert!(
            warning.len() == 1 && warning[0].starts_with("Warning|1301|Result of "),
            "{grows}: {warning:?}"
        );
    }
    // A stored value may be longer, and functions that only choose return it.
    lines(
        &mut s,
        "CREATE TABLE w (c TEXT); INSERT INTO w VALUES (@most); SET GLOBAL max_allowed_packet = \
            1024",
    );
    let mut s = world.session();
    assert_eq!(
        lines(&mut s, "SELECT LENGTH(COALESCE(c, 'x')), LENGTH(IF(1, c, 'x')) FROM w"),
        ["4096|4096"]
    );
    assert_eq!(lines(&mut s, "SELECT CONCAT(c, 'x') IS NULL FROM w"), ["1"]);
}

/// A disk whose clock has run for a day, as in a server that has been up for a day.
struct Late {
    disk: RealDisk,
}
impl Disk for Late {
    redolith_disk::forward_disk! {
        disk: open exists list
        create_dir_all remove rename sync_dir lock_dir wall_us random
    }
    fn now(&self) -> Duration {
        self.disk.now() + Duration::from_secs(86_400)
    }
}

#[test]
fn a_user_lock_is_waited_for_as_long_as_is_said() {
    let world = World::over(Server::on(Arc::new(Late { disk: RealDisk::new() }), |_| ()));
    let (mut holder, mut waiter) = (world.session(), world.session());
    assert_eq!(lines(&mut holder, "SELECT GET_LOCK('x', 0)"), ["1"]);
    assert_eq!(lines(&mut waiter, "SELECT GET_LOCK('x', 0)"), ["0"]);
    // The session is killed while it waits.
    waiter.state.process.interrupt.kill();
    for timeout in ["3600", "1e18", "18446744073709549568e0", "1e308", "-1"] {
        assert_eq!(
            lines(&mut waiter, &format!("SELECT GET_LOCK('x', {timeout})")),
            ["error 1317"],
            "{timeout}"
        );
    }
}

#[test]
fn plans_that_are_large_or_hardly_come_again_are_not_kept() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, TABLE);
    lines(&mut s, "CREATE TABLE w (a INT, b INT)");
    let before = (world.db.plans.len(), world.db.plans.bytes());
    // A dump may send rows whose second row does not have the form of the first.
    for n in 2000..2005 {
        let rows = "(1, 'x'), (2, NULL), ".repeat(n);
        assert_eq!(
            lines(&mut s, &format!("INSERT INTO t (k, c) VALUES {rows}(3, 'y')"))[0]
                .split(' ')
                .nth(1),
            Some(&*(2 * n + 1).to_string())
        );
    }
    let list = |n: usize| vec!["7"; n].join(", ");
    for n in 6000..6005 {
        assert_eq!(lines(&mut s, &format!("SELECT id FROM t WHERE id IN ({})", list(n))), ["7"]);
    }
    assert_eq!((world.db.plans.len(), world.db.plans.bytes()), before);

    // A prepared statement keeps its own plan.
    let text = format!("INSERT INTO w (a, b) VALUES {}(?, ?)", "(1, 2), ".repeat(4000));
    let id = block_on(s.prepare(text.as_bytes())).unwrap().id;
    assert_eq!(execute(&mut s, id, &[Value::Int(1), Value::Int(2)]), ["ok 4001 0"]);
    assert_eq!((world.db.plans.len(), world.db.plans.bytes()), before);
    lines(&mut s, "ALTER TABLE w ADD INDEX (b)");
    assert_eq!(execute(&mut s, id, &[Value::Int(1), Value::Int(2)]), ["ok 4001 0"]);
    assert_eq!((world.db.plans.len(), world.db.plans.bytes()), before);
}

#[test]
fn plans_weigh_what_they_hold() {
    let world = World::new();
    let mut s = world.session();
    lines(&mut s, TABLE);
    // This returns the weight that a text's plan adds to the cache.
    let mut weigh = |text: String| {
        let before = world.db.plans.bytes();
        assert!(!lines(&mut s, &text).iter().any(|line| line.starts_with("error")), "{text}");
        world.db.plans.bytes() - before
    };
    for (before, item, after) in [
        ("SELECT ", "k + 1, ", "1 FROM t"),
        ("SELECT COUNT(*) FROM t GROUP BY ", "k + #, ", "id"),
        ("SELECT id FROM t ORDER BY ", "k + 1, ", "id"),
        ("SELECT 1 FROM t WHERE k + 1 IN (", "1, ", "1)"),
        ("SELECT 1 FROM t WHERE k IN (", "1, ", "1)"),
        ("SELECT 1 FROM (SELECT k + 1 IN (", "1, ", "1) FROM t) d"),
        ("SELECT 1 FROM t LEFT JOIN t u ON u.c IN (", "'a', ", "'b')"),
        ("SELECT id FROM t GROUP BY id HAVING id + 1 IN (", "1, ", "1)"),
        ("SELECT 1 WHERE 1 IN (SELECT 1 FROM t WHERE k + 1 IN (", "1, ", "1))"),
        ("INSERT INTO t (k) VALUES (1), ", "(1 + 1), ", "(2)"),
        ("INSERT INTO t (k) SELECT 1 FROM t WHERE id IN (", "1, ", "1)"),
        ("INSERT INTO t (k) VALUES (1) ON DUPLICATE KEY UPDATE k = k IN (", "1, ", "1)"),
        ("UPDATE t SET c = k + 1 IN (", "1, ", "1)"),
        ("UPDATE t SET c = 1 WHERE id IN (", "1, ", "1)"),
        ("DELETE FROM t WHERE k + 1 IN (", "1, ", "1)"),
        ("DELETE FROM t ORDER BY ", "k + 1, ", "c LIMIT 1"),
    ] {
        // The number in place of `#` makes keys distinct: equal keys are kept once.
        let mut list = |items: usize| {
            let items: String = (0..items).map(|n| item.replace('#', &n.to_string())).collect();
            weigh(format!("{before}{items}{after}"))
        };
        let (one, many) = (list(1), list(101));
        assert!(many - one >= 100 * size_of::<Expr>(), "{before}{item}{after}: {one}, {many}");
    }
}

/// Tests SLEEP-3.
#[test]
fn waits_end_when_the_client_is_gone() {
    let world = World::new();
    let (mut holder, mut waiter) = (world.session(), world.session());
    lines(&mut holder, "CREATE TABLE t (id INT PRIMARY KEY) ENGINE = InnoDB");
    assert_eq!(lines(&mut holder, "SELECT GET_LOCK('x', 0)"), ["1"]);
    let processes = world.server.processes.clone();
    for text in [
        "SELECT GET_LOCK('x', 1000)",
        "SELECT 1 + GET_LOCK('x', 1000)",
        "INSERT INTO t VALUES (SLEEP(1000))",
        "DO SLEEP(1000)",
    ] {
        let process = waiter.state.process.clone();
        process.set_client_is_gone(Some(Box::new(|| true)));
        let all = processes.clone();
        let clock = std::thread::spawn(move || {
            while process.killed() == Kill::None {
                all.tick(0);
                std::thread::yield_now();
            }
        });
        assert_eq!(lines(&mut waiter, text), ["error 1317"], "{text}");
        clock.join().unwrap();
        block_on(waiter.end());
        waiter = world.session();
    }
    assert_eq!(lines(&mut holder, "SELECT COUNT(*) FROM t"), ["0"]);
}

/// Tests ULOCK-1.
#[test]
fn two_sessions_do_not_wait_for_each_others_user_locks() {
    let world = World::new();
    let (mut first, mut second) = (world.session(), world.session());
    for ask in ["GET_LOCK('b', -1)", "1 * GET_LOCK('b', -1)"] {
        assert_eq!(lines(&mut first, "SELECT GET_LOCK('a', 0)"), ["1"]);
        assert_eq!(lines(&mut second, "BEGIN; SELECT GET_LOCK('b', 0)"), ["ok 0 0", "1"]);
        let text = format!("SELECT {ask}");
        std::thread::scope(|s| {
            let waits = s.spawn(|| lines(&mut first, &text));
            while world.db.user_locks.waiting() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(lines(&mut second, "SELECT GET_LOCK('a', -1)"), ["error 3058"]);
            // A call that does not wait closes no cycle. The transaction and its locks are still
            // there.
            assert_eq!(lines(&mut second, "SELECT GET_LOCK('a', 0)"), ["0"]);
            assert!(second.status().has(StatusFlags::IN_TRANSACTION));
            assert_eq!(lines(&mut second, "SELECT RELEASE_LOCK('b')"), ["1"]);
            assert_eq!(waits.join().unwrap(), ["1"]);
        });
        lines(&mut first, "DO RELEASE_LOCK('a'), RELEASE_LOCK('b')");
        lines(&mut second, "COMMIT");
    }
}

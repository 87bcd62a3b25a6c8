//! Checks the counters of the field study around known loads. The tests read the counters where a
//! user reads them: in INFORMATION_SCHEMA.INNODB_METRICS.
//!
//! The log lies on a disk that counts its requests, so "a flush" here is a flush that the device
//! saw. The disk can hold back a write, and can run an action when a session looks at the clock.
//! The engine's `log/tests/counters.rs` has the same events without sessions.
mod rig;

use super::{lines, query};
use crate::session::Session;
use redolith_engine::WriterMode;
use redolith_engine::runtime::block_on;
use redolith_engine::testing::log::FRAME_HEADER;
use rig::{Counts, Rig, counts, more, moves};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A counter of the study moves, or its comment says why it is always 0.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Says {
    Moves,
    Why0,
}
use Says::*;

/// All counters that the study names, in its order.
const STUDY: [(&str, Says); 40] = [
    ("log_write_requests", Moves),
    ("log_writes", Moves),
    ("log_writer_no_waits", Moves),
    ("log_writer_waits", Moves),
    ("log_writer_wait_loops", Moves),
    ("log_write_notifier_no_waits", Why0),
    ("log_write_notifier_waits", Why0),
    ("log_write_notifier_wait_loops", Why0),
    ("log_flusher_no_waits", Moves),
    ("log_flusher_waits", Moves),
    ("log_flusher_wait_loops", Moves),
    ("log_flush_notifier_no_waits", Why0),
    ("log_flush_notifier_waits", Why0),
    ("log_flush_notifier_wait_loops", Why0),
    ("log_on_flush_no_waits", Moves),
    ("log_on_flush_waits", Moves),
    ("log_on_flush_wait_loops", Moves),
    ("log_flush_lsn_avg_rate", Moves),
    ("log_flush_total_time", Moves),
    ("log_flush_avg_time", Moves),
    ("log_waits", Moves),
    ("log_on_buffer_space_no_waits", Moves),
    ("log_on_buffer_space_waits", Moves),
    ("log_on_buffer_space_wait_loops", Moves),
    ("log_on_recent_written_wait_loops", Moves),
    ("log_on_recent_closed_wait_loops", Why0),
    ("log_writer_on_file_space_waits", Why0),
    ("log_on_write_no_waits", Moves),
    ("log_on_write_waits", Moves),
    ("log_on_write_wait_loops", Moves),
    // These counters replace the counters that are always 0 or belong to the same path.
    ("log_on_file_space_no_waits", Moves),
    ("log_on_file_space_waits", Moves),
    ("log_on_file_space_wait_loops", Moves),
    ("log_groups", Moves),
    ("log_flushes", Moves),
    ("log_flush_waiters", Moves),
    ("log_lsn_current", Moves),
    ("log_lsn_last_flush", Moves),
    ("log_lsn_last_checkpoint", Moves),
    ("log_checkpoints", Moves),
];

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(20), KEY (k))";

#[test]
fn every_counter_of_the_study_moves_or_says_why_not() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    for mode in [None, Some(WriterMode::Session), Some(WriterMode::Dedicated)] {
        rig.write_with(mode);
        let first = mode_number(mode) * 100;
        (first..first + 20)
            .for_each(|n| drop(query(&mut s, &format!("INSERT INTO t VALUES ({n}, 1, 'x')"))));
    }
    for (name, says) in STUDY {
        let found = lines(
            &mut s,
            &format!(
                "SELECT comment, count FROM information_schema.innodb_metrics WHERE name = '{name}'"
            ),
        );
        let [row] = &found[..] else { panic!("{name}: {found:?}") };
        let (comment, count) = row.rsplit_once('|').unwrap();
        assert_eq!(comment.starts_with("0: "), says == Why0, "{name}: {comment}");
        assert!(says == Moves || count == "0", "{name} is {count}, though it says: {comment}");
    }
}
fn mode_number(setting: Option<WriterMode>) -> u64 {
    setting.map_or(0, |mode| mode as u64)
}

/// With one connection, every commit is one flush and one write of the device, and the number of
/// mini-transactions of each statement is known.
#[test]
fn statements_of_one_connection_are_counted_exactly() {
    let load: [(&str, u64); 10] = [
        // The three are the row with its undo, its entry in the index on k, and the commit.
        ("INSERT INTO t VALUES (1, 10, 'a')", 3),
        ("INSERT INTO t VALUES (2, 20, 'b'), (3, 30, 'c')", 5),
        // No index entry moves.
        ("UPDATE t SET c = 'x' WHERE id = 1", 2),
        ("UPDATE t SET c = 'y' WHERE id IN (1, 2, 3)", 4),
        // The old index entry is deleted, and a new one is inserted.
        ("UPDATE t SET k = 11 WHERE id = 1", 4),
        ("DELETE FROM t WHERE id = 2", 3),
        ("BEGIN; UPDATE t SET c = 'p' WHERE id = 1; UPDATE t SET c = 'q' WHERE id = 3; COMMIT", 3),
        // The old row and its entry are deleted; then an INSERT follows.
        ("REPLACE INTO t VALUES (3, 30, 'same key')", 5),
        (
            "BEGIN; INSERT INTO t VALUES (7, 70, 'g'); SAVEPOINT s; INSERT INTO t VALUES (8, 80, \
                'h'); ROLLBACK TO s; COMMIT",
            2 + 2 + 2 + 1,
        ),
        ("INSERT INTO t VALUES (9, 90, 'i') ON DUPLICATE KEY UPDATE c = 'j'", 3),
    ];
    for mode in [None, Some(WriterMode::Session), Some(WriterMode::Leader)] {
        let rig = Rig::new(1 << 20, 1 << 20);
        rig.write_with(mode);
        let mut s = rig.world.session();
        query(&mut s, TABLE);
        rig.quiet();
        let (begun, begun_device) = (counts(&mut s), rig.device());
        for (text, requests) in load {
            let (before, device) = (counts(&mut s), rig.device());
            let answered = lines(&mut s, text);
            assert!(answered.iter().all(|l| l.starts_with("ok")), "{text}: {answered:?}");
            let after = counts(&mut s);
            assert_eq!(more(&before, &after, "log_write_requests"), requests, "{text}");
            assert_eq!(
                moves(
                    &before,
                    &after,
                    ["log_on_flush_waits", "log_on_flush_no_waits", "log_flushes", "log_groups"]
                ),
                [1, 0, 1, 1],
                "{text}"
            );
            assert_eq!(
                moves(&before, &after, ["log_writes", "os_log_fsyncs", "os_log_written"]),
                std::array::from_fn(|i| rig.device()[i] - device[i])
            );
            assert_eq!(
                moves(&before, &after, ["log_writes", "os_log_fsyncs", "trx_rw_commits"]),
                [1, 1, 1],
                "{text}"
            );
        }
        // A statement that writes nothing waits for nothing.
        let (before, device) = (counts(&mut s), rig.device());
        for text in [
            "SELECT * FROM t",
            "SELECT * FROM t WHERE id = 1 FOR UPDATE",
            "BEGIN; SELECT COUNT(*) FROM t; COMMIT",
            "SET @a = 1",
            "DELETE FROM t WHERE id = 1000",
        ] {
            query(&mut s, text);
        }
        let after = counts(&mut s);
        assert_eq!(
            moves(
                &before,
                &after,
                ["log_write_requests", "log_on_flush_waits", "log_writes", "os_log_fsyncs"]
            ),
            [0; 4]
        );
        assert_eq!(rig.device(), device);
        // A rollback is written to the log, but no session waits for it.
        query(&mut s, "BEGIN; UPDATE t SET c = 'z' WHERE id = 1; ROLLBACK");
        let last = counts(&mut s);
        assert_eq!(
            moves(&after, &last, ["log_write_requests", "log_on_flush_waits", "trx_rollbacks"]),
            [3, 0, 1]
        );
        // These are sums over the whole load.
        let commits = load.len() as u64;
        let sum = |name| more(&begun, &after, name);
        assert_eq!(
            (
                sum("log_flushes"),
                sum("os_log_fsyncs"),
                sum("log_on_flush_waits"),
                sum("commit_wait_us_count")
            ),
            (commits, commits, commits, commits)
        );
        assert_eq!(
            rig.device()[..2].iter().zip(begun_device).map(|(a, b)| a - b).collect::<Vec<_>>(),
            [commits, commits]
        );
        assert_eq!(
            sum("log_flush_total_bytes"),
            after["log_lsn_last_flush"] - begun["log_lsn_last_flush"]
        );
        assert_eq!(
            sum("log_write_request_bytes"),
            after["log_lsn_current"] - begun["log_lsn_current"]
        );
        // Averages are quotients of sums over the server's life. Two counters show the same sum of
        // times, in whole milliseconds and in microseconds.
        assert_eq!(
            after["log_flush_lsn_avg_rate"],
            after["log_flush_total_bytes"] / after["log_flushes"]
        );
        assert_eq!(
            after["log_flush_avg_time"],
            after["log_flush_total_time_us"] / after["log_flushes"]
        );
        assert_eq!(after["log_flush_total_time"], after["log_flush_total_time_us"] / 1000);
        assert!(
            sum("log_flush_total_time_us") > 0
                && after["log_flush_lsn_avg_rate"] > 0
                && after["log_flush_max_time"] >= after["log_flush_avg_time"]
        );
        let dedicated = [
            "log_writer_no_waits",
            "log_writer_waits",
            "log_writer_wait_loops",
            "log_flusher_no_waits",
            "log_flusher_waits",
            "log_flusher_wait_loops",
        ];
        assert_eq!(moves(&begun, &after, dedicated), [0; 6], "there is no dedicated writer");
        assert_eq!(
            sum("log_waits")
                + sum("log_on_buffer_space_waits")
                + sum("log_on_file_space_waits")
                + sum("log_on_write_waits"),
            0
        );
    }
}

/// Runs one session per thread with `commits` commits each. Returns the number of all commits.
fn commit_from_threads(rig: &Rig, threads: u64, commits: u64, first: u64) -> u64 {
    std::thread::scope(|scope| {
        for t in 0..threads {
            let mut s = rig.world.session();
            scope.spawn(move || {
                for n in 0..commits {
                    let id = first + t * commits + n;
                    assert_eq!(
                        lines(&mut s, &format!("INSERT INTO t VALUES ({id}, {n}, 'x')")),
                        ["ok 1 0"]
                    );
                }
            });
        }
    });
    threads * commits
}

#[test]
fn groups_of_many_connections_add_up() {
    let rig = Rig::new(1 << 22, 8 << 20);
    rig.write_with(Some(WriterMode::Leader));
    rig.world.server.engine.store.log.set_policy(|policy| policy.depth = Some(1));
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    rig.quiet();
    let (mut commits, before, device) = (0, counts(&mut s), rig.device());
    // The load is repeated until the events that depend on timing have happened, too.
    let after = loop {
        commits += commit_from_threads(&rig, 16, 40, commits);
        let after = counts(&mut s);
        let happened = moves(&before, &after, ["log_flush_waiters", "log_on_flush_wait_loops"])
            .iter()
            .all(|n| *n > 0);
        if happened || commits > 5_000 {
            break after;
        }
    };
    let more = |name| more(&before, &after, name);
    assert_eq!((more("trx_rw_commits"), more("commit_wait_us_count")), (commits, commits));
    assert_eq!(
        more("log_on_flush_waits") + more("log_on_flush_no_waits"),
        commits,
        "each commit is counted as one of the two"
    );
    // Beside three requests per commit, there are splits of pages, and undo pages (with the space
    // for them) that a session takes when it finds none free.
    let (requests, splits, undo_pages) = (
        more("log_write_requests"),
        more("index_page_splits"),
        undo_pages(&after) - undo_pages(&before),
    );
    let most = 3 * (commits + splits) + 2 * undo_pages;
    assert!(
        (3 * commits..=most).contains(&requests),
        "{requests} for {commits} commits, {splits} splits, {undo_pages} undo pages"
    );
    let seen = rig.device();
    assert_eq!(
        (more("log_writes"), more("os_log_fsyncs")),
        (seen[0] - device[0], seen[1] - device[1])
    );
    assert!(
        more("log_flushes") == more("log_groups") && more("log_flushes") < commits,
        "commits share flushes"
    );
    // Every wait ended by the session's own flush, by another session's flush, or by a look without
    // a wake-up. (A session leads once more if the log before its commit was still being copied.
    // That flush is a group, too.)
    let (groups, waiters, waits) =
        (more("log_groups"), more("log_flush_waiters"), more("log_on_flush_waits"));
    let again = more("log_on_recent_written_wait_loops");
    assert!(
        groups + waiters <= waits + again,
        "{groups} groups, {waiters} waiters, {waits} waits, {again} led again"
    );
    assert!(more("log_flush_waiters") > 0 && more("log_on_flush_wait_loops") > 0);
    assert!((2..=16).contains(&after["log_flush_group_max"]), "{}", after["log_flush_group_max"]);
    assert_eq!(
        after["log_waiters_per_flush"],
        100 * (after["log_flush_waiters"] + after["log_groups"]) / after["log_flushes"]
    );
}
fn undo_pages(c: &Counts) -> u64 {
    c["trx_undo_slots_used"] + c["trx_undo_slots_cached"]
}

#[test]
fn the_dedicated_writer_is_counted() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    rig.quiet();
    rig.write_with(Some(WriterMode::Dedicated));
    // The dedicated writer takes over at the next hand-over.
    let (mut n, begun) = (0, counts(&mut s));
    while more(&begun, &counts(&mut s), "log_writer_no_waits") == 0 {
        query(&mut s, &format!("INSERT INTO t VALUES ({n}, 0, 'x')"));
        n += 1;
    }
    // The dedicated writer ends the waits of sessions and has none of its own. A session that is
    // preempted between its place in the queue and its sleep may see by itself that its wait is
    // over. On a busy machine this may happen to one of many commits, so that a turn is short.
    let (mut turns, mut exact) = (0, false);
    while turns < 10 || !exact {
        assert!(turns < 200, "each wait is ended by the flusher");
        turns += 1;
        let before = counts(&mut s);
        for id in n..n + 5 {
            query(&mut s, &format!("INSERT INTO t VALUES ({id}, 0, 'x')"));
        }
        n += 5;
        // The flusher wakes the session before it counts.
        rig.until("all flushes are counted", || more(&before, &rig.metrics(), "log_flushes") >= 5);
        let after = counts(&mut s);
        assert_eq!(
            moves(
                &before,
                &after,
                ["log_writes", "log_flushes", "os_log_fsyncs", "log_on_flush_waits"]
            ),
            [5; 4]
        );
        let [waiters, groups] = moves(&before, &after, ["log_flush_waiters", "log_groups"]);
        assert!(waiters <= 5 && groups == 0, "{waiters} waiters, {groups} groups");
        exact |= waiters == 5;
    }
    // Each write and each flush had a waiting session. Between two of them, the threads slept and
    // were woken.
    for (who, begun) in [("log_writer", &begun), ("log_flusher", &begun)] {
        let [no_waits, waits, loops] = ["no_waits", "waits", "wait_loops"]
            .map(|what| more(begun, &counts(&mut s), &format!("{who}_{what}")));
        assert!(
            no_waits >= 50 && waits > 0 && loops > 0,
            "{who}: {no_waits} no_waits, {waits} waits, {loops} wait_loops"
        );
    }
}

/// Only `innodb_flush_log_at_timeout` flushes redo that no commit waits for.
#[test]
fn redo_without_a_waiter_is_flushed_when_the_setting_says() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let (engine, mut s) = (rig.world.server.engine.clone(), rig.world.session());
    query(&mut s, TABLE);
    rig.quiet();
    let before = rig.device();
    query(
        &mut s,
        "SET SESSION innodb_flush_log_at_trx_commit = 0; INSERT INTO t VALUES (1, 0, 'x')",
    );
    block_on(engine.runtime.sleep(Duration::from_millis(2500)));
    assert_eq!(rig.device(), before);
    engine.store.log.set_flush_seconds(1);
    rig.until("the device is asked", || rig.device() != before);
}

/// `innodb_flush_log_at_trx_commit` decides what a commit waits for.
#[test]
fn durability_levels_are_counted_apart() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    rig.quiet();
    let names = [
        "log_write_requests",
        "log_on_flush_waits",
        "log_on_write_waits",
        "log_on_write_no_waits",
        "log_writes",
        "trx_rw_commits",
    ];
    for (level, n, expected) in
        [(1, 0, [3, 1, 0, 0, 1, 1]), (2, 1, [3, 0, 1, 0, 1, 1]), (0, 2, [3, 0, 0, 0, 0, 1])]
    {
        query(&mut s, &format!("SET SESSION innodb_flush_log_at_trx_commit = {level}"));
        let before = counts(&mut s);
        assert_eq!(lines(&mut s, &format!("INSERT INTO t VALUES ({n}, 0, 'x')")), ["ok 1 0"]);
        assert_eq!(
            moves(&before, &counts(&mut s), names),
            expected,
            "innodb_flush_log_at_trx_commit={level}"
        );
    }
}

/// Values of `innodb_flush_log_at_trx_commit`, and the counters of the waits of such commits.
const LEVELS: [(u64, &str); 2] = [(1, "log_on_flush"), (2, "log_on_write")];

/// Another commit has the log written after a commit has got its place in the log and before it
/// waits. So the commit has nothing to wait for.
#[test]
fn a_commit_that_another_has_made_safe_does_not_wait() {
    for mode in [WriterMode::Session, WriterMode::Leader] {
        let rig = Rig::new(1 << 20, 1 << 20);
        let [mut s, mut other] = [rig.world.session(), rig.world.session()];
        query(&mut s, TABLE);
        rig.write_with(Some(mode));
        rig.quiet();
        for (level, kind) in LEVELS {
            query(&mut s, &format!("SET innodb_flush_log_at_trx_commit = {level}"));
            let mut other_session = rig.world.session();
            query(&mut other_session, &format!("SET innodb_flush_log_at_trx_commit = {level}"));
            query(&mut s, &format!("BEGIN; INSERT INTO t VALUES ({level}, 0, 'x')"));
            let before = counts(&mut other);
            let (engine, sentence) = (
                rig.world.server.engine.clone(),
                format!("INSERT INTO t VALUES (1{level}, 0, 'x')"),
            );
            let (log, rows) = (engine.store.log.clone(), engine.store.log.tail());
            let when_it_has_its_place = move || {
                let is_there = log.tail() > rows;
                if is_there {
                    assert_eq!(lines(&mut other_session, &sentence), ["ok 1 0"]);
                }
                is_there
            };
            *rig.asked.clock.lock() =
                Some((std::thread::current().id(), Box::new(when_it_has_its_place)));
            assert_eq!(lines(&mut s, "COMMIT"), ["ok 0 0"]);
            assert!(rig.asked.clock.lock().is_none(), "the other one has committed meanwhile");
            let after = counts(&mut other);
            let names = ["no_waits", "waits", "wait_loops"].map(|what| format!("{kind}_{what}"));
            assert_eq!(
                moves(&before, &after, names.each_ref().map(|n| &n[..])),
                [1, 1, 0],
                "{kind}, {mode:?}"
            );
            assert_eq!(
                moves(&before, &after, ["trx_rw_commits", "log_writes", "log_flushes"]),
                [2, 1, u64::from(level == 1)]
            );
        }
    }
}

/// While one session's write is at the disk, another session commits, looks, and must wait. It
/// writes next.
#[test]
fn who_comes_while_another_writes_looks_again() {
    for mode in [WriterMode::Session, WriterMode::Leader] {
        let rig = Rig::new(1 << 20, 1 << 20);
        let mut s = rig.world.session();
        query(&mut s, TABLE);
        rig.write_with(Some(mode));
        rig.quiet();
        for (level, kind) in LEVELS {
            let names = ["no_waits", "waits", "wait_loops"].map(|what| format!("{kind}_{what}"));
            let before = counts(&mut s);
            std::thread::scope(|scope| {
                let commit = |n: u64| {
                    let mut s = rig.world.session();
                    query(&mut s, &format!("SET innodb_flush_log_at_trx_commit = {level}"));
                    scope.spawn(move || {
                        assert_eq!(
                            lines(&mut s, &format!("INSERT INTO t VALUES ({n}, 0, 'x')")),
                            ["ok 1 0"]
                        )
                    });
                };
                rig.asked.gate.close();
                commit(10 * level);
                rig.asked.gate.wait_for_one();
                commit(10 * level + 1);
                while more(&before, &counts(&mut s), &names[2]) == 0 {
                    std::thread::yield_now();
                }
                rig.asked.gate.open();
            });
            let after = counts(&mut s);
            assert_eq!(
                moves(&before, &after, names.each_ref().map(|n| &n[..])),
                [0, 2, 1],
                "{kind}, {mode:?}"
            );
            let flushes = if level == 1 { 2 } else { 0 };
            assert_eq!(
                moves(&before, &after, ["trx_rw_commits", "log_writes", "log_flushes"]),
                [2, 2, flushes]
            );
        }
    }
}

/// `recent_written`: a commit lies in the log behind a frame that another thread is still copying.
/// The test writes a long frame itself. The scheduler decides how long a thread copies, so the test
/// tries until a commit has come in time.
#[test]
fn a_commit_behind_a_slow_copy_looks_until_it_is_done() {
    const LONG: usize = 8 << 20;
    let rig = Rig::new(32 << 20, 8 << 20);
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    rig.write_with(Some(WriterMode::Session));
    rig.quiet();
    let log = &rig.world.server.engine.store.log;
    let names = [
        "log_on_recent_written_wait_loops",
        "log_on_flush_waits",
        "log_on_flush_no_waits",
        "log_on_flush_wait_loops",
    ];
    for id in 0.. {
        // A checkpoint would flush the log, so make it before it becomes due.
        if log.tail().0 - log.checkpoint_lsn().0 > log.capacity_bytes() / 4 {
            rig.quiet();
        }
        query(&mut s, &format!("BEGIN; INSERT INTO t VALUES ({id}, 0, 'x')"));
        let (before, begun) = (counts(&mut s), log.tail());
        let copied = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut frame = vec![0; FRAME_HEADER + LONG];
                let credit = loop {
                    match log.credit(frame.len()) {
                        Ok(credit) => break credit,
                        Err(_) => block_on(log.wait_space(frame.len() as u64)).unwrap(),
                    }
                };
                log.append(&mut frame, credit, |_, _| {}, |_, _| copied.store(true, Relaxed));
            });
            while log.tail() == begun && !copied.load(Relaxed) {
                std::hint::spin_loop();
            }
            assert_eq!(lines(&mut s, "COMMIT"), ["ok 0 0"]);
        });
        let [loops, waits, no_waits, flush_loops] = moves(&before, &counts(&mut s), names);
        assert_eq!((waits, no_waits, flush_loops), (1, 0, 0), "it is still one wait");
        if loops > 0 {
            break;
        }
    }
    assert_eq!(
        counts(&mut s)["log_on_recent_closed_wait_loops"],
        0,
        "dirty pages wait for no order"
    );
}

/// Room is given back after a request for it and before the wait for it.
#[test]
fn room_that_comes_in_time_is_no_wait() {
    // A buffer of 64 MiB is larger than the files, so the files are scarce. A buffer of 256 KiB is
    // scarce itself.
    for (buffer_bytes, scarce, other) in [(64 << 20, "file", "buffer"), (1 << 18, "buffer", "file")]
    {
        let rig = Rig::new(buffer_bytes, 1 << 20);
        let mut s = rig.world.session();
        rig.quiet();
        let log = &rig.world.server.engine.store.log;
        let before = counts(&mut s);
        let mut held = Vec::new();
        while let Ok(credit) = log.credit(64 << 10) {
            held.push(credit);
        }
        let late = log.wait_space(64 << 10);
        drop(held);
        block_on(late).unwrap();
        let after = counts(&mut s);
        for (what, moved) in [(scarce, 1), (other, 0)] {
            let names = ["no_waits", "waits", "wait_loops"]
                .map(|event| format!("log_on_{what}_space_{event}"));
            assert_eq!(
                moves(&before, &after, names.each_ref().map(|n| &n[..])),
                [moved, 0, 0],
                "{what}"
            );
        }
        assert_eq!(more(&before, &after, "log_waits"), 0);
    }
}

/// Permits checkpoints again when it is dropped.
struct Opens<'r>(&'r Rig);
impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.asked.checkpoints.open();
    }
}

/// Runs transactions larger than the log buffer, and more of them than fit into the log.
#[test]
fn a_buffer_and_a_log_that_are_too_small_are_waited_for() {
    let rig = Rig::new(1 << 18, 1 << 18);
    let mut s = rig.world.session();
    query(&mut s, "CREATE TABLE b (id INT PRIMARY KEY, v LONGBLOB)");
    query(&mut s, "SET innodb_lock_wait_timeout = 600");
    // The statement writes half a megabyte; the buffer has a quarter of a megabyte.
    let large = |first: u64| {
        let rows: Vec<_> =
            (first..first + 12).map(|id| format!("({id}, REPEAT('v', 40000))")).collect();
        format!("INSERT INTO b VALUES {}", rows.join(", "))
    };
    let before = counts(&mut s);
    assert_eq!(lines(&mut s, &large(0)), ["ok 12 0"]);
    let after = counts(&mut s);
    let [waits, buffer, files] = moves(
        &before,
        &after,
        ["log_waits", "log_on_buffer_space_waits", "log_on_file_space_waits"],
    );
    assert!(buffer > 0 && waits == buffer + files, "{waits}: {buffer} + {files}");
    assert!(more(&before, &after, "log_on_buffer_space_wait_loops") >= buffer);
    assert_eq!(
        moves(&before, &after, ["log_on_flush_waits", "trx_rw_commits"]),
        [1, 1],
        "a wait for room is no commit's wait"
    );
    // Four megabytes fit into the log, and thirty pass through it. While no checkpoint is made, its
    // writers are slowed and then wait.
    rig.asked.checkpoints.close();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut looks = rig.world.session();
            // The gate is opened even after a panic, because the other thread waits for it.
            let _open = Opens(&rig);
            // A wait is counted under the resource for which it begins, its loops under the
            // resource that they wait for. A wait that begins for the buffer may go on for a file.
            rig.until("a writer is slowed, or waits", || {
                moves(
                    &before,
                    &counts(&mut looks),
                    ["log_on_file_space_wait_loops", "log_throttle_waits"],
                ) != [0, 0]
            });
        });
        (1..60).for_each(|n| assert_eq!(lines(&mut s, &large(n * 12)), ["ok 12 0"]));
    });
    let after = counts(&mut s);
    let [waits, buffer, files] = moves(
        &before,
        &after,
        ["log_waits", "log_on_buffer_space_waits", "log_on_file_space_waits"],
    );
    assert_eq!(waits, buffer + files);
    let [loops, slowed] =
        moves(&before, &after, ["log_on_file_space_wait_loops", "log_throttle_waits"]);
    assert!(loops >= files && loops + slowed > 0);
    let [checkpoints, moved, written] =
        moves(&before, &after, ["log_checkpoints", "log_lsn_last_checkpoint", "log_lsn_current"]);
    assert!(
        checkpoints > 0 && moved > written - after["log_capacity"],
        "{checkpoints} checkpoints moved it by {moved} of {written}"
    );
    assert_eq!(after["log_writer_on_file_space_waits"], 0);
}

/// With one connection, every number is known beforehand.
#[test]
fn a_known_load_is_counted_exactly() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    let rows: Vec<_> = (1..=10).map(|id| format!("({id}, {id}, NULL)")).collect();
    query(&mut s, &format!("INSERT INTO t VALUES {}", rows.join(", ")));
    rig.quiet();
    let (before, frames) = (rig.metrics(), rig.world.server.engine.store.log.tail());
    for n in 1..=10 {
        query(&mut s, &format!("UPDATE t SET c = 'x{n}' WHERE id = {n}"));
    }
    query(&mut s, "SELECT * FROM t");
    query(&mut s, "BEGIN");
    query(&mut s, "DELETE FROM t WHERE id <= 2");
    query(&mut s, "INSERT INTO t VALUES (11, 11, NULL)");
    query(&mut s, "COMMIT");
    query(&mut s, "BEGIN");
    query(&mut s, "UPDATE t SET k = 0 WHERE id = 5");
    query(&mut s, "ROLLBACK");
    let after = rig.metrics();
    let more = |name| more(&before, &after, name);
    assert_eq!(
        (
            more("trx_rw_commits"),
            more("trx_nl_ro_commits"),
            more("trx_ro_commits"),
            more("trx_rollbacks")
        ),
        (11, 1, 0, 1)
    );
    assert_eq!(
        (more("dml_updates"), more("dml_deletes"), more("dml_inserts"), more("dml_reads")),
        (11, 2, 1, 10 + 10 + 2 + 1)
    );
    // Each of the eleven commits waits for its own flush, which the session itself does.
    assert_eq!(
        (more("log_flushes"), more("log_on_flush_waits"), more("commit_wait_us_count")),
        (11, 11, 11)
    );
    assert_eq!(
        (
            more("log_flush_waiters"),
            more("log_groups"),
            more("log_on_write_waits"),
            more("log_waits")
        ),
        (0, 11, 0, 0)
    );
    assert_eq!(
        more("log_flush_total_bytes"),
        after["log_lsn_last_flush"] - before["log_lsn_last_flush"]
    );
    assert_eq!(more("log_write_request_bytes"), after["log_lsn_current"] - frames.0);
    // An update that moves no index entry writes the row with its undo, and the commit. The deletes
    // and the insert write the row and its entry in the index on k, and one commit. The update that
    // is rolled back writes the row and two entries, undoes each, and writes the end.
    assert_eq!(more("log_write_requests"), 10 * 2 + (3 * 2 + 1) + (3 + 3 + 1));
    assert_eq!(after["commit_wait_us_le_inf"], after["commit_wait_us_count"]);
}

/// The session's value of innodb_flush_log_at_trx_commit or, without one, the current GLOBAL value
/// decides what a commit waits for.
#[test]
fn commits_wait_as_far_as_is_set() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let [mut a, mut b] = [rig.world.session(), rig.world.session()];
    query(&mut a, TABLE);
    query(&mut a, "INSERT INTO t VALUES (1, 1, NULL), (2, 2, NULL)");
    rig.quiet();
    let log = &rig.world.server.engine.store.log;
    // This returns the writes, syncs, waits for the write, and waits for the device of one commit.
    let commit = |s: &mut Session, n: u32| {
        let before = rig.metrics();
        query(s, &format!("UPDATE t SET k = {n} WHERE id = 1"));
        moves(
            &before,
            &rig.metrics(),
            ["log_writes", "os_log_fsyncs", "log_on_write_waits", "log_on_flush_waits"],
        )
    };
    assert_eq!(commit(&mut a, 10), [1, 1, 0, 1]);
    query(&mut b, "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    assert_eq!(commit(&mut a, 11), [1, 0, 1, 0]);
    assert!(log.written() == log.tail() && log.durable() < log.written());
    query(&mut b, "SET GLOBAL innodb_flush_log_at_trx_commit = 0");
    assert_eq!(commit(&mut a, 12), [0, 0, 0, 0]);
    assert!(log.written() < log.tail());
    // A later durable commit makes the earlier log durable, too: one write, then a sync of both.
    query(&mut a, "SET innodb_flush_log_at_trx_commit = 1");
    assert_eq!(commit(&mut a, 13), [1, 1, 0, 1]);
    assert_eq!(log.durable(), log.tail());
    assert_eq!(commit(&mut b, 14), [0, 0, 0, 0]);
    assert_eq!(
        lines(
            &mut a,
            "SELECT @@innodb_flush_log_at_trx_commit, @@GLOBAL.innodb_flush_log_at_trx_commit"
        ),
        ["1|0"]
    );
    query(&mut a, "SET innodb_flush_log_at_trx_commit = DEFAULT");
    assert_eq!(commit(&mut a, 15), [0, 0, 0, 0]);
    // A definition is durable at every level.
    query(&mut a, "CREATE TABLE u (id INT PRIMARY KEY)");
    assert_eq!(log.durable(), log.tail());
    // The interval begins when it is set.
    assert_eq!(commit(&mut a, 16), [0, 0, 0, 0]);
    log.set_flush_seconds(1);
    rig.until("all is durable", || log.durable() == log.tail());
    for wrong in ["3", "-1"] {
        assert_eq!(
            lines(&mut a, &format!("SET GLOBAL innodb_flush_log_at_trx_commit = {wrong}")),
            ["error 1231"]
        );
    }
    assert_eq!(lines(&mut a, "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit"), ["0"]);
}

/// COUNTER-2: a rollback waits like a commit if, and only if, a row of it has had a new
/// AUTO_INCREMENT value.
#[test]
fn rollbacks_of_new_values_wait_as_far_as_is_set() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let mut s = rig.world.session();
    query(&mut s, "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, k INT)");
    query(&mut s, "INSERT INTO a (k) VALUES (1), (2)");
    rig.quiet();
    let log = &rig.world.server.engine.store.log;
    let rollback = |s: &mut Session, change: &str| {
        query(s, &format!("BEGIN; {change}"));
        let before = rig.metrics();
        assert_eq!(lines(s, "ROLLBACK"), ["ok 0 0"]);
        moves(
            &before,
            &rig.metrics(),
            ["log_writes", "os_log_fsyncs", "log_on_write_waits", "log_on_flush_waits"],
        )
    };
    let new = "INSERT INTO a (k) VALUES (3)";
    assert_eq!(rollback(&mut s, new), [1, 1, 0, 1]);
    assert_eq!(log.durable(), log.tail());
    for nothing_new in ["UPDATE a SET k = 4", "DELETE FROM a", "INSERT INTO a VALUES (3, 3)"] {
        assert_eq!(rollback(&mut s, nothing_new), [0, 0, 0, 0], "{nothing_new}");
    }
    query(&mut s, "SET innodb_flush_log_at_trx_commit = 2");
    assert_eq!(rollback(&mut s, new), [1, 0, 1, 0]);
    query(&mut s, "SET innodb_flush_log_at_trx_commit = 0");
    assert_eq!(rollback(&mut s, new), [0, 0, 0, 0]);
    query(&mut s, "INSERT INTO a (k) VALUES (6)");
    assert_eq!(lines(&mut s, "SELECT id FROM a"), ["1", "2", "6"]);
}

#[test]
fn monitors_stand_still_and_go_on_around_a_load() {
    let rig = Rig::new(1 << 20, 1 << 20);
    let mut s = rig.world.session();
    query(&mut s, TABLE);
    rig.quiet();
    let names = ["log_write_requests", "log_on_flush_waits", "log_flushes", "os_log_fsyncs"];
    let (mut id, once) = (0, [3, 1, 1, 1]);
    let mut insert = |s: &mut Session| {
        id += 1;
        assert_eq!(lines(s, &format!("INSERT INTO t VALUES ({id}, 0, 'x')")), ["ok 1 0"]);
    };
    let reset = |s: &mut Session, name: &str| -> String {
        lines(
            s,
            &format!(
                "SELECT count, count_reset, status FROM \
            information_schema.innodb_metrics WHERE name = '{name}'"
            ),
        )
        .remove(0)
    };
    let begun = counts(&mut s);
    insert(&mut s);
    let on = counts(&mut s);
    assert_eq!(moves(&begun, &on, names), once);
    // While the monitor is off, the load is not counted, and it is not added when the count goes
    // on.
    assert_eq!(lines(&mut s, "SET GLOBAL innodb_monitor_disable = module_log"), ["ok 0 0"]);
    insert(&mut s);
    assert_eq!(moves(&on, &counts(&mut s), names), [0; 4]);
    assert_eq!(
        lines(
            &mut s,
            "SET GLOBAL innodb_monitor_enable = 'module_log'; SET GLOBAL innodb_monitor_enable = \
                'os_log_fsyncs'"
        ),
        ["ok 0 0"; 2]
    );
    insert(&mut s);
    assert_eq!(moves(&on, &counts(&mut s), names), once);
    // `reset` restarts only the second column.
    query(&mut s, "SET GLOBAL innodb_monitor_reset = 'log\\_write\\_req%'");
    insert(&mut s);
    let sum = counts(&mut s)["log_write_requests"];
    assert_eq!(reset(&mut s, "log_write_requests"), format!("{sum}|3|enabled"));
    // `reset_all` does nothing while the monitor is on, and restarts everything while it is off.
    query(&mut s, "SET GLOBAL innodb_monitor_reset_all = log_write_requests");
    assert_eq!(reset(&mut s, "log_write_requests"), format!("{sum}|3|enabled"));
    query(
        &mut s,
        "SET GLOBAL innodb_monitor_disable = log_write_requests; SET GLOBAL \
            innodb_monitor_reset_all = log_write_requests",
    );
    insert(&mut s);
    assert_eq!(reset(&mut s, "log_write_requests"), "0|0|disabled");
    query(&mut s, "SET GLOBAL innodb_monitor_enable = log_write_requests");
    insert(&mut s);
    assert_eq!(reset(&mut s, "log_write_requests"), "3|3|enabled");
    // The engine has counted all the time.
    let engine = rig.metrics();
    assert_eq!(engine["log_write_requests"], begun["log_write_requests"] + 6 * 3);
}

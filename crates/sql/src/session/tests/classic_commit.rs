//! The classic commit as sessions see it: when a commit shows, what is in the file when it is
//! acknowledged, and what the settings change.
use super::{Session, World, lines};
use crate::binlog::register;
use crate::exec::fixture::Server;
use crate::processes::Kill;
use redolith_engine::runtime::block_on;
use redolith_replication::{Binlog, StageCounted};
use std::sync::Arc;
use std::time::Duration;

/// A server with the classic commit, and the table `t` of integers.
struct Classic {
    world: World,
    session: Session,
}
impl Classic {
    fn new() -> Classic {
        let world = World::over(Server::logging());
        let binlog = world.server.binlog.clone().unwrap();
        register(&binlog, &world.server.engine, &world.db.settings, &world.db.status);
        let session = world.session();
        let mut me = Classic { world, session };
        me.run("SET GLOBAL redolith_binlog_commit = classic");
        me.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)");
        me
    }
    fn run(&mut self, text: &str) -> Vec<String> {
        run(&mut self.session, text)
    }
    fn binlog(&self) -> &Arc<Binlog> {
        self.world.server.binlog.as_ref().unwrap()
    }
    /// How many transactions the published files have, without the help of a statement that waits,
    /// and how often they were synced.
    fn files(&self) -> (u64, u64) {
        (self.binlog().status().executed.len(), self.binlog().counters().syncs)
    }
    fn stages(&self) -> [(u64, u64); 3] {
        self.binlog()
            .stages_counted()
            .map(|StageCounted { groups, sessions, .. }| (groups, sessions))
    }
}
fn run(session: &mut Session, text: &str) -> Vec<String> {
    let out = lines(session, text);
    assert!(!out.iter().any(|line| line.starts_with("error")), "{text}: {out:?}");
    out
}

/// Tests STAGES-1.
#[test]
fn an_acknowledged_commit_is_in_the_synced_file() {
    let mut server = Classic::new();
    let ((transactions, syncs), before) = (server.files(), server.stages());
    for n in 1..=3 {
        server.run(&format!("INSERT INTO t VALUES ({n}, 0)"));
        assert_eq!(server.files(), (transactions + n, syncs + n));
    }
    let [flush, sync, commit] = server.stages();
    let [f, s, c] = before;
    assert_eq!(
        [flush, sync, commit],
        [f, s, c].map(|(groups, sessions)| (groups + 3, sessions + 3))
    );
    // Definitions, and both ends of an XA transaction.
    let texts = [
        "CREATE TABLE u (a INT)",
        "XA START 'a'; UPDATE t SET v = 1 WHERE id = 1; XA END 'a'; XA PREPARE 'a'",
        "XA COMMIT 'a'",
    ];
    for text in texts {
        let (transactions, syncs) = server.files();
        server.run(text);
        let now = server.files();
        assert!(now.0 == transactions + 1 && now.1 > syncs, "{text}: {now:?}");
    }
    assert_eq!(server.run("SELECT v FROM t WHERE id = 1"), ["1"]);
}

#[test]
fn the_file_is_synced_as_often_as_sync_binlog_says() {
    let mut server = Classic::new();
    for (every, commits, expected) in [(0, 4, 0), (1, 4, 4), (3, 6, 2)] {
        // What the last round has left to be synced is synced with this commit.
        server.run(&format!("SET GLOBAL sync_binlog = 1; INSERT INTO t VALUES (-1 - {every}, 0)"));
        server.run(&format!("SET GLOBAL sync_binlog = {every}"));
        let (transactions, syncs) = server.files();
        for n in 0..commits {
            server.run(&format!("INSERT INTO t VALUES ({}, 0)", 100 * every + n));
        }
        assert_eq!(server.files(), (transactions + commits, syncs + expected), "{every}");
    }
}

/// A commit that does not wait for the redo log cannot wait for the file either.
#[test]
fn commits_that_wait_for_nothing_pass_no_stage() {
    let mut server = Classic::new();
    let before = server.stages();
    server.run("SET GLOBAL innodb_flush_log_at_trx_commit = 2; INSERT INTO t VALUES (1, 0)");
    server.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1; SET sql_log_bin = 0");
    server.run("INSERT INTO t VALUES (2, 0)");
    assert_eq!(server.stages(), before);
    server.run("SET sql_log_bin = 1; SET GLOBAL redolith_binlog_commit = unified");
    server.run("INSERT INTO t VALUES (3, 0)");
    assert_eq!(server.stages(), before);
}

#[test]
fn without_an_order_sessions_show_their_own_commits() {
    let mut server = Classic::new();
    server.run("SET GLOBAL binlog_order_commits = OFF");
    let [.., before] = server.stages();
    server.run("INSERT INTO t VALUES (1, 0)");
    let mut other = server.world.session();
    assert_eq!(run(&mut other, "SELECT id FROM t"), ["1"]);
    assert_eq!(server.stages()[2], before);
}

/// Tests STAGES-1: while a commit is in the stages, nobody sees it, and its locks hold.
#[test]
fn a_commit_is_hidden_until_it_has_passed() {
    let mut server = Classic::new();
    server.run("INSERT INTO t VALUES (1, 0)");
    server.run("SET GLOBAL binlog_group_commit_sync_delay = 400000");
    in_one_of_ten_rounds(|n| {
        let ([flush, _, commits], mut writer) = (server.stages(), server.world.session());
        let mut hidden = false;
        std::thread::scope(|scope| {
            let disk = server.world.server.engine.disk.clone();
            let began = disk.now();
            let commit = scope.spawn(move || {
                run(&mut writer, "UPDATE t SET v = v + 1 WHERE id = 1");
                disk.now() - began
            });
            while server.stages()[0].0 == flush.0 {
                std::thread::yield_now();
            }
            let seen = server.run("SELECT v FROM t");
            // A commit is counted before it shows.
            hidden = server.stages()[2].0 == commits.0;
            // The lock is free when the commit shows.
            let locked = server.run("SELECT v FROM t FOR UPDATE");
            let passed = commit.join().unwrap();
            assert!(passed >= Duration::from_millis(400), "{passed:?}");
            assert_eq!(locked, [(n + 1).to_string()]);
            if hidden {
                assert_eq!(seen, [n.to_string()]);
            }
        });
        assert_eq!(server.run("SELECT v FROM t"), [(n + 1).to_string()]);
        hidden
    });
}
/// On a busy machine a commit may pass all stages before a statement runs beside it. What such a
/// round shows is nothing, so that rounds follow until one has shown what it is for. Ten that show
/// nothing are a failure: the statement waits for the commit.
fn in_one_of_ten_rounds(round: impl FnMut(usize) -> bool) {
    assert!((0..10).any(round), "the statements have never run beside the commit");
}

/// Whoever knows the name of a transaction sees what it has changed.
#[test]
fn a_commit_shows_when_its_gtid_is_told() {
    let mut server = Classic::new();
    server.run("INSERT INTO t VALUES (1, 0)");
    server.run("SET GLOBAL sync_binlog = 0");
    server.run("SET GLOBAL binlog_group_commit_sync_delay = 1000000");
    let mut v = 0;
    for ask in ["SELECT @@gtid_executed", "SHOW BINARY LOG STATUS"] {
        in_one_of_ten_rounds(|_| {
            let (before, mut writer) = (server.run(ask), server.world.session());
            let [flush, _, commits] = server.stages();
            let mut beside = false;
            v += 1;
            std::thread::scope(|scope| {
                let text = "UPDATE t SET v = v + 1 WHERE id = 1";
                let commit = scope.spawn(move || run(&mut writer, text));
                while server.stages()[0].0 == flush.0 {
                    std::thread::yield_now();
                }
                let told = server.run(ask);
                assert_ne!(told, before);
                assert_eq!(server.run("SELECT v FROM t"), [v.to_string()]);
                beside = server.stages()[2].0 == commits.0;
                commit.join().unwrap();
            });
            beside
        });
    }
}

/// Tests SEMI-5: with AFTER_SYNC a commit is hidden until a replica has acknowledged it, with
/// AFTER_COMMIT it shows before. The kill of the session that leads ends the wait, and the commit
/// stays.
#[test]
fn a_commit_is_hidden_until_replicas_have_it() {
    let mut server = Classic::new();
    server.run("INSERT INTO t VALUES (1, 0)");
    server.run("SET GLOBAL rpl_semi_sync_source_enabled = ON");
    server.run("SET GLOBAL rpl_semi_sync_source_timeout = 1000000");
    let binlog = server.binlog().clone();
    let replica = binlog.semi_sync().join(1, &[], None, 0);
    for (point, killed, before, after) in [
        ("AFTER_SYNC", false, "0", "1"),
        ("AFTER_COMMIT", false, "2", "2"),
        ("AFTER_SYNC", true, "2", "3"),
    ] {
        server.run(&format!("SET GLOBAL rpl_semi_sync_source_wait_point = {point}"));
        let mut writer = server.world.session();
        let (process, lsn) = (writer.state.process.clone(), binlog.lsn());
        let waits = binlog.semi_sync().status().waits;
        std::thread::scope(|scope| {
            let commit = scope.spawn(move || lines(&mut writer, "UPDATE t SET v = v + 1"));
            while binlog.lsn() == lsn || binlog.semi_sync().status().waits == waits {
                std::thread::yield_now();
            }
            // Nor does a statement that tells of the commit show it.
            server.run("SELECT @@gtid_executed");
            assert_eq!(server.run("SELECT v FROM t"), [before], "{point}");
            if killed {
                process.kill(Kill::Query);
                assert_eq!(commit.join().unwrap(), ["error 1317"]);
            } else {
                replica.acknowledged(binlog.end().unwrap());
                assert_eq!(commit.join().unwrap(), ["ok 1 0"]);
            }
            assert_eq!(server.run("SELECT v FROM t"), [after], "{point}");
        });
    }
}

#[test]
fn enough_sessions_end_the_delay() {
    let mut server = Classic::new();
    server.run("SET GLOBAL binlog_group_commit_sync_delay = 1000000");
    server.run("SET GLOBAL binlog_group_commit_sync_no_delay_count = 3");
    let disk = server.world.server.engine.disk.clone();
    // A busy machine may bring one of the sessions too late, or all of them too slowly. No round
    // is within the delay if the delay does not end.
    let mut rounds = Vec::new();
    let ended = (0..10).any(|round| {
        let (syncs, began) = (server.stages()[1], disk.now());
        std::thread::scope(|scope| {
            for n in 3 * round..3 * round + 3 {
                let mut session = server.world.session();
                scope.spawn(move || run(&mut session, &format!("INSERT INTO t VALUES ({n}, 0)")));
            }
        });
        let (passed, after) = (disk.now() - began, server.stages()[1]);
        let group = (after.0 - syncs.0, after.1 - syncs.1);
        rounds.push((passed, group));
        passed < Duration::from_secs(1) && group == (1, 3)
    });
    assert!(ended, "{rounds:?}");
}

/// Sessions that commit at once, while the settings change: each commit is in the file once, and
/// shows.
#[test]
fn many_sessions_pass_together() {
    let mut server = Classic::new();
    let (transactions, _) = server.files();
    let [flush, ..] = server.stages();
    std::thread::scope(|scope| {
        for session in 0..8 {
            let mut mine = server.world.session();
            scope.spawn(move || {
                for n in 0..100 {
                    let id = 1000 * session + n;
                    run(&mut mine, &format!("INSERT INTO t VALUES ({id}, 0)"));
                    let seen = run(&mut mine, &format!("SELECT id FROM t WHERE id = {id}"));
                    assert_eq!(seen, [id.to_string()]);
                }
            });
        }
        for n in 0..40 {
            let names = ["sync_binlog", "binlog_order_commits", "binlog_max_flush_queue_time"];
            server.run(&format!("SET GLOBAL {} = {}", names[n % 3], n / 3 % 2));
            block_on(server.world.server.engine.runtime.sleep(Duration::from_millis(2)));
        }
    });
    assert_eq!(server.files().0, transactions + 800);
    // A leader may take a commit along before its session has come.
    assert!((flush.1 + 1..=flush.1 + 800).contains(&server.stages()[0].1));
    assert_eq!(server.run("SELECT COUNT(*) FROM t"), ["800"]);
}

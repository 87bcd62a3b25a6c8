//! The counters of waits, which each test brings about deliberately. The SQL layer tests the
//! counters that a session can move at will; these tests cause the events that it cannot.
use crate::base::WouldBlock;
use crate::log::commit::leader::CommitQueue;
use crate::log::tests::fixture::{MemDisk, TestRuntime};
use crate::log::tests::{append, append_with, config, counter, created};
use crate::log::*;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::task::Context;

/// A snapshot of every counter of the log, to which later values are compared.
struct Before(Vec<(&'static str, u64)>);
impl Before {
    fn of(log: &Log) -> Before {
        let mut all = Vec::new();
        log.counters(|name, n| all.push((name, n)));
        Before(all)
    }
    /// The counters `log_on_*` and `log_waits` that have moved, in the order of their names.
    fn moved(&self, log: &Log) -> Vec<(&'static str, u64)> {
        let waits =
            self.0.iter().filter(|(name, _)| name.starts_with("log_on_") || *name == "log_waits");
        let mut all: Vec<_> = waits
            .map(|(name, n)| (*name, counter(log, name) - n))
            .filter(|(_, n)| *n > 0)
            .collect();
        all.sort();
        all
    }
    fn more(&self, log: &Log, name: &str) -> u64 {
        counter(log, name) - self.0.iter().find(|(n, _)| *n == name).unwrap().1
    }
}

fn is_ready<T>(f: Pin<&mut impl Future<Output = T>>) -> bool {
    f.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_wait_is_counted_as_one_of_two_kinds() {
    let (log, runtime) = created(&MemDisk::default());
    let (_, end) = append(&log, &[1; 100]);
    let before = Before::of(&log);
    runtime.block_on(log.wait_durable(end));
    assert_eq!(before.moved(&log), [("log_on_flush_waits", 1)]);
    runtime.block_on(log.wait_durable(end));
    assert_eq!(before.moved(&log), [("log_on_flush_no_waits", 1), ("log_on_flush_waits", 1)]);
    runtime.block_on(log.owned_wait(end));
    assert_eq!(before.moved(&log), [("log_on_flush_no_waits", 2), ("log_on_flush_waits", 1)]);
    // The engine's own flushes do not count as a session's.
    let (_, end) = append(&log, &[1; 100]);
    runtime.block_on(log.flush_to(end));
    assert_eq!(before.moved(&log), [("log_on_flush_no_waits", 2), ("log_on_flush_waits", 1)]);
    assert_eq!(
        (
            before.more(&log, "log_flushes"),
            before.more(&log, "os_log_fsyncs"),
            before.more(&log, "log_writes")
        ),
        (2, 2, 2)
    );
}

#[test]
fn waits_for_a_write_are_counted_apart_and_flush_nothing() {
    let (log, runtime) = created(&MemDisk::default());
    let (_, end) = append(&log, &[1; 100]);
    let before = Before::of(&log);
    runtime.block_on(log.wait_written(end));
    runtime.block_on(log.wait_written(end));
    assert_eq!(before.moved(&log), [("log_on_write_no_waits", 1), ("log_on_write_waits", 1)]);
    assert_eq!(
        (
            before.more(&log, "log_writes"),
            before.more(&log, "log_flushes"),
            before.more(&log, "os_log_fsyncs")
        ),
        (1, 0, 0)
    );
    assert!(log.written() == end && log.durable() < end);
}

#[test]
fn who_looks_again_while_another_leads_is_counted() {
    let (log, _runtime) = created(&MemDisk::default());
    let (_, end) = append(&log, &[1; 100]);
    assert!(log.waits().try_lead(), "somebody leads, and is not ready");
    let before = Before::of(&log);
    let (mut flush, mut write) = (pin!(log.wait_durable(end)), pin!(log.wait_written(end)));
    for _ in 0..3 {
        assert!(!is_ready(flush.as_mut()) && !is_ready(write.as_mut()));
    }
    let waited = [
        ("log_on_flush_wait_loops", 3),
        ("log_on_flush_waits", 1),
        ("log_on_write_wait_loops", 3),
        ("log_on_write_waits", 1),
    ];
    assert_eq!(before.moved(&log), waited);
    CommitQueue::flush(&*log, true);
    assert!(is_ready(flush.as_mut()) && is_ready(write.as_mut()));
    assert_eq!(before.moved(&log), waited);
    // One flush ended two waits, and the wait of its leader.
    assert_eq!(
        (
            before.more(&log, "log_flush_waiters"),
            before.more(&log, "log_groups"),
            counter(&log, "log_flush_group_max")
        ),
        (2, 1, 3)
    );
    assert_eq!(counter(&log, "log_waiters_per_flush"), 300);
}

/// `recent_written`: a thread has reserved its place and is slow to copy, so that no frame behind
/// it can be written.
#[test]
fn a_slow_copier_is_waited_for_and_counted() {
    let (log, runtime) = created(&MemDisk::default());
    let ((reserved, is_reserved), (go_on, may_go_on)) = (channel(), channel());
    std::thread::scope(|s| {
        s.spawn(|| {
            let (go_on, log) = (may_go_on, &log);
            let (credit, seat) = (log.credit(100).unwrap(), log.order.seat());
            seat.reserve(&log.order, 100);
            reserved.send(()).unwrap();
            go_on.recv().unwrap();
            seat.copied();
            seat.entered(100);
            credit.spend(100);
        });
        is_reserved.recv().unwrap();
        let (_, end) = append(&log, &[1; 100]);
        let before = Before::of(&log);
        let mut wait = pin!(log.wait_durable(end));
        assert!(!is_ready(wait.as_mut()));
        let loops = before.more(&log, "log_on_recent_written_wait_loops");
        assert!(loops >= 1 && !is_ready(wait.as_mut()));
        assert!(
            before.more(&log, "log_on_recent_written_wait_loops") > loops,
            "each look is counted"
        );
        assert_eq!((before.more(&log, "log_writes"), log.durable() < end), (0, true));
        go_on.send(()).unwrap();
        runtime.block_on(wait);
        assert_eq!(
            before.moved(&log).last(),
            Some(&(
                "log_on_recent_written_wait_loops",
                before.more(&log, "log_on_recent_written_wait_loops")
            ))
        );
        assert_eq!((before.more(&log, "log_on_flush_waits"), log.durable() >= end), (1, true));
    });
    assert_eq!(
        counter(&log, "log_on_recent_closed_wait_loops"),
        0,
        "dirty pages wait for no order"
    );
}

/// Appends until there is no more room, or until the log's end reaches `limit`.
fn fill(log: &Log, limit: u64) {
    loop {
        match log.credit(3000) {
            Ok(c) if log.tail().0 < limit => drop(append_with(log, c, &[1; 2900])),
            Ok(_) => return,
            Err(WouldBlock::LogSpace(_)) => return,
            Err(e) => panic!("{e:?}"),
        }
    }
}

#[test]
fn waits_for_the_buffer_are_counted() {
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig { segment_bytes: 1 << 20, capacity_bytes: 1 << 23, ..config() };
    let log = Log::create(Arc::new(MemDisk::default()), runtime.clone(), config).unwrap();
    runtime.run();
    fill(&log, u64::MAX);
    let before = Before::of(&log);
    // Room becomes free before the wait looks again.
    let late = log.wait_space(3000);
    runtime.block_on(log.flush_to(log.tail()));
    runtime.block_on(late).unwrap();
    assert_eq!(before.moved(&log), [("log_on_buffer_space_no_waits", 1)]);
    // There is no room, so the waiting session writes the buffer out.
    fill(&log, u64::MAX);
    let before = Before::of(&log);
    runtime.block_on(log.wait_space(3000)).unwrap();
    let moved = before.moved(&log);
    // The flush that the session leads does not count as a commit's.
    assert_eq!(
        moved,
        [("log_on_buffer_space_wait_loops", 1), ("log_on_buffer_space_waits", 1), ("log_waits", 1)]
    );
}

#[test]
fn waits_for_the_files_are_counted() {
    let (log, runtime) = created(&MemDisk::default());
    let fill = |log: &Log| {
        for _ in 0..100 {
            fill(log, u64::MAX);
            runtime.block_on(log.flush_to(log.tail()));
            runtime.run();
        }
    };
    fill(&log);
    let before = Before::of(&log);
    {
        let mut wait = pin!(log.wait_space(3000));
        assert!(!is_ready(wait.as_mut()) && !is_ready(wait.as_mut()));
        assert_eq!(
            before.moved(&log),
            [("log_on_file_space_wait_loops", 2), ("log_on_file_space_waits", 1), ("log_waits", 1)]
        );
        log.write_checkpoint(log.durable(), b"");
        runtime.run();
        assert!(is_ready(wait.as_mut()));
    }
    fill(&log);
    let before = Before::of(&log);
    assert!(log.credit(3000).is_err());
    let late = log.wait_space(3000);
    log.write_checkpoint(log.durable(), b"");
    runtime.run();
    runtime.block_on(late).unwrap();
    assert_eq!(before.moved(&log), [("log_on_file_space_no_waits", 1)]);
    assert_eq!(
        counter(&log, "log_writer_on_file_space_waits"),
        0,
        "room is taken before the bytes are made"
    );
}

//! Several durable writes in flight (`write/overlapped_writes.rs`), which end in any order.
use crate::log::tests::fixture::{MemDisk, TestRuntime};
use crate::log::tests::{append, counter, created, payload, recovered};
use crate::log::write::overlapped_writes::PAD_MIN;
use crate::log::*;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

fn segment(n: u64) -> PathBuf {
    Path::new("/data/redo").join(format!("log_{n}"))
}
/// Appends a frame and polls the wait for it once, with company, so that the leader submits its
/// write.
fn commit(log: &Arc<Log>, runtime: &TestRuntime, bytes: &[u8]) -> (Lsn, OwnedWait) {
    let (_, end) = append(log, bytes);
    let mut ticket = log.owned_wait(end);
    log.waits.flushed_for(1000);
    assert!(!settled(&mut ticket) || log.durable() >= end);
    runtime.run();
    (end, ticket)
}
/// Polls the wait more often than a leader steps back in the run queue.
fn settled(ticket: &mut OwnedWait) -> bool {
    (0..20).any(|_| poll(ticket))
}
fn poll(ticket: &mut OwnedWait) -> bool {
    std::pin::Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}
fn deep(depth: usize) -> (MemDisk, Arc<Log>, Arc<TestRuntime>) {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    log.set_policy(|policy| policy.mode = Some(WriterMode::Leader));
    log.set_policy(|policy| policy.depth = Some(depth));
    (disk, log, runtime)
}

/// Tests FLIGHT-3.
#[test]
fn no_write_is_in_flight_behind_bytes_that_need_a_sync() {
    let (_disk, log, runtime) = deep(4);
    append(&log, b"written only");
    log.write_only();
    assert!(log.durable() < log.written());
    for (bytes, submitted) in [(b"a", 0), (b"b", 1)] {
        let (end, mut ticket) = commit(&log, &runtime, bytes);
        assert!(poll(&mut ticket) && log.durable() >= end);
        assert_eq!(counter(&log, "log_writes_submitted"), submitted);
    }
}

/// LOG-2, WRITER-4: whichever write ends first, no commit is acknowledged before everything below
/// it is durable. A crash leaves this prefix.
#[test]
fn durable_is_a_prefix_of_what_is_over() {
    let (disk, log, runtime) = deep(3);
    let held = || disk.held(&segment(0)) + disk.held(&segment(1));
    disk.hold(&segment(0));
    disk.hold(&segment(1));
    let (a, mut ta) = commit(&log, &runtime, b"a");
    let (b, mut tb) = commit(&log, &runtime, b"b");
    let (c, mut tc) = commit(&log, &runtime, b"c");
    let (d, mut td) = commit(&log, &runtime, b"d");
    // The fourth write waits for room (FLIGHT-1).
    assert_eq!((held(), log.durable() < a), (3, true));
    disk.end(&segment(0), 1);
    assert!(!poll(&mut ta) && !poll(&mut tb) && !poll(&mut tc) && !poll(&mut td));
    let (frames, ..) = recovered(&disk.crashed(|| false));
    assert_eq!(frames.len(), 0, "b is on the disk, and behind a hole");
    disk.end(&segment(0), 0);
    assert_eq!((log.durable() >= b, log.durable() < c), (true, true));
    assert!(poll(&mut ta) && poll(&mut tb) && !poll(&mut tc) && !poll(&mut td));
    let (frames, ..) = recovered(&disk.crashed(|| false));
    assert_eq!(frames.iter().map(|f| f.2.clone()).collect::<Vec<_>>(), [b"a", b"b"]);
    // Now the fourth wait has the leadership.
    assert!(!settled(&mut td));
    assert_eq!(held(), 2);
    disk.end(&segment(1), 0);
    assert!(!settled(&mut td));
    disk.end(&segment(0), 0);
    assert!(poll(&mut tc) && poll(&mut td) && log.durable() >= d);
    assert_eq!(
        (counter(&log, "log_writes_submitted"), counter(&log, "log_writes_overlapped")),
        (4, 3)
    );
    assert!(log.waits.try_lead(), "nobody waits, nobody leads");
}

/// FLIGHT-5
#[test]
fn one_at_a_time_where_errors_are_told_once() {
    let (disk, log, runtime) = deep(4);
    disk.share_reports();
    for n in 0..20u8 {
        let (end, mut ticket) = commit(&log, &runtime, &[n]);
        assert!(poll(&mut ticket) && log.durable() >= end);
    }
    assert_eq!((log.depth(), counter(&log, "log_writes_submitted")), (1, 0));
}

/// The depth changes at any time, writes end in any order, sessions go away, and the machine
/// crashes. Every acknowledged commit comes back.
#[test]
fn commits_survive_ends_in_any_order() {
    let mut seed = 7u64;
    let mut draw = move |n: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    let (mut overlapped, mut out_of_order) = (0, 0);
    for turn in 0..60 {
        let (disk, log, runtime) = deep(1 + turn % 4);
        let segments: Vec<_> = (0..8).map(segment).filter(|s| disk.has(s)).collect();
        segments.iter().for_each(|s| disk.hold(s));
        let (mut open, mut acked, mut all) = (Vec::new(), 0, Vec::new());
        for n in 0..40 {
            if log.credit(1200).is_err() {
                break; // The log is full, and nothing makes a checkpoint here.
            }
            let (end, ticket) = commit(&log, &runtime, &payload(n));
            all.push(end);
            open.push(ticket);
            if draw(8) == 0 {
                drop(open.swap_remove(draw(open.len() as u64) as usize));
            }
            if draw(10) == 0 {
                log.set_policy(|policy| policy.depth = Some(1 + draw(5) as usize));
            }
            let flying: Vec<_> = segments.iter().filter(|s| disk.held(s) > 0).collect();
            overlapped += (segments.iter().map(|s| disk.held(s)).sum::<usize>() > 1) as u32;
            if !flying.is_empty() && draw(3) > 0 {
                let of = flying[draw(flying.len() as u64) as usize];
                let which = draw(disk.held(of) as u64) as usize;
                out_of_order += (which > 0) as u32;
                disk.end(of, which);
            }
            open.retain_mut(|t| {
                let done = poll(t);
                acked += done as u32;
                !done
            });
        }
        let durable = log.durable();
        let (frames, ..) = recovered(&disk.crashed(|| draw(2) == 0));
        let promised = all.iter().filter(|e| **e <= durable).count();
        assert!(frames.len() >= promised, "turn {turn}: {} frames of {promised}", frames.len());
        for (n, f) in frames.iter().enumerate() {
            assert_eq!(f.2, payload(n as u64));
        }
        assert!(acked as usize <= promised);
        // All writes end, and all waits end with them.
        loop {
            (0..3).for_each(|_| open.retain_mut(|t| !settled(t)));
            let Some(of) = segments.iter().find(|s| disk.held(s) > 0) else { break };
            disk.end(of, draw(disk.held(of) as u64) as usize);
        }
        assert!(open.is_empty(), "turn {turn}: {} sessions wait for nothing", open.len());
        assert!(log.waits.try_lead(), "turn {turn}: nobody waits, nobody leads");
    }
    assert!(
        overlapped > 100 && out_of_order > 50,
        "{overlapped} overlapped, {out_of_order} out of order"
    );
}

/// FLIGHT-4: `durable` is never inside a PAD, so that recovery can begin wherever a checkpoint can
/// be.
#[test]
fn a_checkpoint_is_never_inside_a_pad() {
    for short in 1..40u64 {
        let (disk, log, runtime) = deep(2);
        let segments: Vec<_> = (0..6).map(segment).filter(|s| disk.has(s)).collect();
        let end_all =
            || segments.iter().for_each(|s| (0..disk.held(s)).for_each(|_| disk.end(s, 0)));
        segments.iter().for_each(|s| disk.hold(s));
        let (_, mut first) = commit(&log, &runtime, b"first");
        // The second frame ends just before the end of a segment.
        let room = 16384 - log.tail().0 % 16384 - short - FRAME_HEADER as u64;
        let (_, mut second) = commit(&log, &runtime, &vec![7; room as usize]);
        let filled = short >= PAD_MIN as u64;
        assert_eq!(log.tail().0 % 16384, if filled { 0 } else { 16384 - short });
        end_all();
        assert!(settled(&mut first) && settled(&mut second));
        log.write_checkpoint(log.durable(), b"here");
        let (_, mut third) = commit(&log, &runtime, b"third");
        end_all();
        assert!(settled(&mut third));
        let (frames, ..) = recovered(&disk.crashed(|| false));
        assert_eq!(
            frames.iter().map(|f| f.2.clone()).collect::<Vec<_>>(),
            [b"third"],
            "{short} bytes before the end"
        );
    }
}

/// Padding ends with the overlap: a session that commits alone writes the same block again and
/// again.
#[test]
fn who_commits_alone_pads_nothing() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    log.set_policy(|policy| policy.depth = Some(4));
    for n in 0..50 {
        let (_, end) = append(&log, &payload(n)[..50.min(payload(n).len())]);
        runtime.block_on(log.owned_wait(end));
    }
    assert!(log.tail().0 < 4096 + 50 * (50 + FRAME_HEADER as u64) + 1, "{}", log.tail());
    assert_eq!(counter(&log, "log_flushes"), 50);
    assert_eq!(recovered(&disk).0.len(), 50);
}

/// LOG-4: a failed write in flight ends the process, and no commit is acknowledged.
#[test]
#[should_panic(expected = "poisoned: writing the redo log")]
fn a_failed_write_in_flight_is_the_end() {
    let (disk, log, runtime) = deep(2);
    disk.hold(&segment(0));
    let (_, mut t) = commit(&log, &runtime, b"a");
    disk.refuse_sync();
    assert!(!poll(&mut t));
    disk.end(&segment(0), 0);
}

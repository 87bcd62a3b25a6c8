//! The log as a whole, on a disk in memory.
mod counters;
pub(in crate::log) mod fixture;
mod overlapped_writes;
mod resize;

use super::write_policy::WritePolicy;
use super::*;
use crate::base::WouldBlock;
use fixture::{MemDisk, TestRuntime};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

type Frames = Vec<(u64, u64, Vec<u8>)>;

pub(in crate::log) fn config() -> LogConfig {
    LogConfig {
        dir: "/data/redo".into(),
        segment_bytes: 16384,
        capacity_bytes: 1 << 17,
        buffer_bytes: 1 << 16,
    }
}
pub(in crate::log) fn created(disk: &MemDisk) -> (Arc<Log>, Arc<TestRuntime>) {
    let runtime = Arc::new(TestRuntime::default());
    let log = Log::create(Arc::new(disk.clone()), runtime.clone(), config()).unwrap();
    runtime.run();
    (log, runtime)
}
/// All frames that a recovery finds, and the scanner at its end.
fn scanned(disk: &MemDisk) -> (Frames, FrameScanner) {
    let (_, mut scanner) = Log::recover(Arc::new(disk.clone()), config()).unwrap();
    let mut frames = Frames::new();
    while let Some(f) = scanner.next().unwrap() {
        frames.push((f.start.0, f.end.0, f.payload.to_vec()));
    }
    (frames, scanner)
}
pub(in crate::log) fn recovered(disk: &MemDisk) -> (Frames, Arc<Log>, Arc<TestRuntime>) {
    let (frames, scanner) = scanned(disk);
    let runtime = Arc::new(TestRuntime::default());
    let log = scanner.finish(runtime.clone()).unwrap();
    runtime.run();
    (frames, log, runtime)
}
pub(in crate::log) fn append_with(log: &Log, credit: Credit<'_>, payload: &[u8]) -> (Lsn, Lsn) {
    let mut frame = vec![0; FRAME_HEADER];
    frame.extend_from_slice(payload);
    let mut range = None;
    let end = log.append(&mut frame, credit, |_, _| {}, |s, e| range = Some((s, e)));
    assert_eq!(range.unwrap().1, end);
    range.unwrap()
}
pub(in crate::log) fn append(log: &Log, payload: &[u8]) -> (Lsn, Lsn) {
    append_with(log, log.credit(FRAME_HEADER + payload.len()).unwrap(), payload)
}
/// A payload that contains its number. Its length varies.
pub(in crate::log) fn payload(n: u64) -> Vec<u8> {
    let len = 8 + (n * 37 % 900) as usize;
    n.to_le_bytes().iter().copied().cycle().take(len).collect()
}
pub(in crate::log) fn counter(log: &Log, name: &str) -> u64 {
    let mut v = None;
    log.counters(|n, x| {
        if n == name {
            v = Some(x);
        }
    });
    v.unwrap_or_else(|| panic!("no counter {name}"))
}

#[test]
fn frames_come_back() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let mut want = Frames::new();
    for n in 0..60 {
        let (s, e) = append(&log, &payload(n));
        want.push((s.0, e.0, payload(n)));
        if n % 7 == 0 {
            runtime.block_on(log.wait_durable(e));
            assert!(log.durable() >= e);
        }
    }
    runtime.block_on(log.close());
    assert_eq!((log.durable(), log.tail()), (log.tail(), Lsn(want[59].1)));
    assert_eq!(counter(&log, "log_write_requests"), 60);
    assert_eq!(counter(&log, "log_on_flush_waits"), 9);
    assert_eq!(counter(&log, "log_flushes"), 10);
    let (frames, log, _) = recovered(&disk);
    assert_eq!(frames, want);
    assert!(log.tail() > Lsn(want[59].1), "the epoch frame");
}

/// Closing the log waits for the segment that is being made, because another engine may open the
/// directory then.
#[test]
fn a_closed_log_makes_no_segment() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    disk.hold_new();
    let mut n = 0;
    while disk.first_held().is_none() {
        let (_, end) = append(&log, &payload(n));
        runtime.block_on(log.wait_durable(end));
        n += 1;
        assert!(n < 200, "no segment was asked for");
    }
    let mut close = pin!(log.close());
    let mut poll = || {
        runtime.run();
        close.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    };
    let mut ended = 0;
    while let Some(path) = disk.first_held() {
        assert!(!poll(), "closed while {} was being made", path.display());
        disk.end(&path, 0);
        ended += 1;
        runtime.run();
    }
    assert!(ended >= 2, "a segment is written and synced");
    assert!(poll());
    let there = disk.paths();
    runtime.tick();
    assert_eq!(disk.paths(), there);
    assert_eq!(recovered(&disk).0.len() as u64, n);
}

/// Tests WRITE-2.
#[test]
fn a_sync_covers_what_was_written_when_it_began() {
    let disk = MemDisk::default();
    let (log, _runtime) = created(&disk);
    let (_, first) = append(&log, b"first");
    log.write_only();
    let second = Arc::new(Mutex::new(Lsn(0)));
    let (its_log, end) = (log.clone(), second.clone());
    disk.during_sync(move || {
        assert!(its_log.syncing.try_lock().is_none(), "another sync could begin");
        assert!(its_log.writing.try_lock().is_some(), "`writing` is held during I/O");
        *end.lock() = append(&its_log, b"second").1;
        its_log.write_only();
    });
    log.sync_only();
    assert_eq!((log.written(), log.durable()), (*second.lock(), first));
    log.sync_only();
    assert_eq!(log.durable(), *second.lock());
}

/// MODE-1: whatever the order of changes, every commit becomes durable, and recovery finds it.
/// Tests WRITE-1.
#[test]
fn modes_change_while_sessions_commit() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let all = [WriterMode::Session, WriterMode::Leader, WriterMode::Dedicated];
    let mut want = Frames::new();
    for n in 0..120 {
        log.set_policy(|policy| policy.mode = Some(all[(n * n / 3 % 3) as usize]));
        if n % 3 > 0 {
            // The dedicated writer takes the leadership or leaves it. Without this run it finds the
            // mode changed again.
            runtime.run();
        }
        let (s, e) = append(&log, &payload(n));
        want.push((s.0, e.0, payload(n)));
        let ticket = log.owned_wait(e);
        if n % 5 == 0 {
            // The session of this commit is gone.
            drop(ticket);
            continue;
        }
        if n % 2 == 0 {
            log.set_policy(|policy| policy.mode = None);
            assert_eq!(log.mode(), WriterMode::Leader);
        }
        runtime.block_on(ticket);
        assert!(log.durable() >= e);
    }
    assert!(counter(&log, "log_writer_no_waits") > 5, "the dedicated writer has written too");
    runtime.block_on(log.close());
    drop(log);
    runtime.run();
    runtime.tick();
    assert_eq!(runtime.tasks(), 0, "the dedicated writer ends with the log");
    assert_eq!(recovered(&disk).0, want);
}

/// Tests MODE-2.
#[test]
fn a_thread_that_is_refused_leaves_another_mode() {
    for given in [0, 1] {
        let disk = MemDisk::default();
        let (log, runtime) = created(&disk);
        let refused = || runtime.threads_refused.load(SeqCst);
        let commit = |n| {
            let (_, end) = append(&log, &payload(n));
            runtime.block_on(log.owned_wait(end));
            assert!(log.durable() >= end);
        };
        *runtime.threads_left.lock() = Some(given);
        let proposed = WritePolicy { mode: WriterMode::Dedicated, ..WritePolicy::default() };
        log.propose(proposed);
        assert_eq!((log.mode(), refused()), (WriterMode::Leader, 1));
        commit(1);
        // A proposal does not try again, and neither does another setting.
        log.propose(proposed);
        log.set_policy(|policy| policy.depth = Some(4));
        assert_eq!((log.mode(), log.depth(), refused()), (WriterMode::Leader, 4, 1));
        // Who sets the mode tries again. Other modes can be set.
        for tries in [2, 3] {
            log.set_policy(|policy| policy.mode = Some(WriterMode::Dedicated));
            assert_eq!((log.mode(), refused()), (WriterMode::Leader, tries));
        }
        let reason = log.writer_reason();
        assert!(reason.ends_with("; the system refuses the threads of dedicated"), "{reason}");
        commit(2);
        log.set_policy(|policy| policy.mode = Some(WriterMode::Session));
        assert_eq!((log.mode(), refused()), (WriterMode::Session, 3));
        commit(3);
        // The system gives threads again: the same setting once more is enough.
        log.set_policy(|policy| policy.mode = Some(WriterMode::Dedicated));
        assert_eq!((log.mode(), refused()), (WriterMode::Leader, 4));
        *runtime.threads_left.lock() = None;
        log.set_policy(|policy| policy.mode = Some(WriterMode::Dedicated));
        assert_eq!((log.mode(), refused()), (WriterMode::Dedicated, 4));
        assert!(!log.writer_reason().contains("refuses"), "{}", log.writer_reason());
        runtime.run();
        commit(4);
        assert!(counter(&log, "log_writer_no_waits") > 0, "the dedicated writer has written");
        runtime.block_on(log.close());
        drop(log);
        runtime.run();
        runtime.tick();
        assert_eq!(runtime.tasks(), 0, "the dedicated threads end with the log");
        assert_eq!(recovered(&disk).0.len(), 4);
    }
}

#[test]
fn redo_without_a_waiter_is_flushed_within_a_second() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let (_, e) = append(&log, b"change");
    runtime.run();
    assert!(log.durable() < e);
    runtime.tick();
    runtime.tick();
    assert_eq!(log.durable(), e);
    drop(log);
    runtime.tick();
    assert_eq!(runtime.tasks(), 0, "background tasks end with the log");
}

/// SCAN-1: whatever sectors of the last write reach the disk, the log ends behind the last whole
/// frame, and never before the durable LSN.
#[test]
fn a_torn_tail_ends_the_log() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let mut frames = Frames::new();
    for n in 0..20 {
        let (s, e) = append(&log, &payload(n));
        frames.push((s.0, e.0, payload(n)));
    }
    let durable = log.tail();
    runtime.block_on(log.wait_durable(durable));
    let segment = Path::new("/data/redo/log_0");
    let before = disk.crashed(|| false);
    let mut n = 20;
    while log.tail().0 < durable.0 + 2500 {
        let (s, e) = append(&log, &payload(n));
        frames.push((s.0, e.0, payload(n)));
        n += 1;
    }
    runtime.block_on(log.wait_durable(log.tail()));
    assert!(log.tail().0 < 16384, "the test is about one segment");
    let (old, new) = (before.content(segment), disk.content(segment));
    let first = old.iter().zip(&new).position(|(a, b)| a != b).unwrap() / 512;
    let last = old.iter().zip(&new).rposition(|(a, b)| a != b).unwrap() / 512;
    assert!(last - first >= 4);
    for kept in 0u32..1 << (last - first + 1).min(10) {
        let mut torn = old.clone();
        for sector in (first..=last).filter(|s| kept & 1 << (s - first) != 0) {
            torn[sector * 512..][..512].copy_from_slice(&new[sector * 512..][..512]);
        }
        let prefix = (kept.trailing_ones() as u64 + first as u64) * 512;
        let image = before.crashed(|| false);
        image.put(segment, torn);
        let (found, scanner) = scanned(&image);
        // In file 0 the byte n of the stream lies at 4096 + n.
        let mut whole =
            frames.iter().take_while(|f| f.1 <= durable.0 || f.1 + 4096 <= prefix).count();
        // Sectors after the gap may happen to be equal, or the frame may not reach into the gap.
        while whole < found.len() && found[whole] == frames[whole] {
            let (s, e, _) = &frames[whole];
            let same = |l: u64| image.content(segment)[l as usize + 4096] == new[l as usize + 4096];
            assert!((*s..*e).all(same), "kept {kept:b}");
            whole += 1;
        }
        assert_eq!(found, frames[..whole], "kept {kept:b}");
        assert_eq!(scanner.position().0, frames[whole - 1].1);
    }
}

/// LOG-3, FILES-2, FRAME-1: the log goes round its segments many times, with a crash now and then.
/// Each recovery finds exactly the frames appended since the checkpoint.
#[test]
fn the_log_wraps_over_reused_segments() {
    let mut disk = MemDisk::default();
    let (mut log, mut runtime) = created(&disk);
    let mut frames = Frames::new();
    let (mut n, mut recycled) = (0, 0);
    for round in 0..40 {
        for _ in 0..20 {
            let (s, e) = append(&log, &payload(n));
            frames.push((s.0, e.0, payload(n)));
            n += 1;
        }
        runtime.block_on(log.wait_durable(log.tail()));
        runtime.run();
        if round % 3 == 2 {
            let at = frames.len() / 2;
            log.write_checkpoint(Lsn(frames[at].0), &n.to_le_bytes());
            frames.drain(..at);
            runtime.run();
        }
        if round % 8 == 7 {
            // These frames are appended and perhaps written, but never durable. They must not come
            // back in a later epoch.
            append(&log, b"orphan");
            append(&log, b"orphan");
            if round % 16 == 7 {
                runtime.block_on(log.wait_written(log.tail()));
            }
            recycled += counter(&log, "log_segments_recycled");
            disk = disk.crashed(|| false);
            let (found, new_log, new_runtime) = recovered(&disk);
            assert_eq!(found, frames, "round {round}");
            (log, runtime) = (new_log, new_runtime);
        }
    }
    assert!(log.tail().0 > 4 * config().capacity_bytes / 2);
    assert!(log.segments.count() as u64 <= config().capacity_bytes / config().segment_bytes + 2);
    assert!(recycled > 5, "{recycled}");
}

/// SCAN-3: whole frames of the epoch before, beyond the end of the log, never rejoin it, even if a
/// new frame ends where one of them begins.
#[test]
fn orphans_do_not_rejoin() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let a = append(&log, b"kept");
    runtime.block_on(log.wait_durable(a.1));
    let lost = append(&log, &[1; 5000]);
    // The orphans lie in blocks of their own.
    let orphans: Vec<_> = (0..3).map(|_| append(&log, &[2; 4096])).collect();
    let before = disk.crashed(|| false);
    runtime.block_on(log.wait_durable(log.tail()));
    let segment = Path::new("/data/redo/log_0");
    // The first block of the last write is lost, and the others are on the disk.
    let (old, mut torn) = (before.content(segment), disk.content(segment));
    torn[8192..12288].copy_from_slice(&old[8192..12288]);
    let image = before.crashed(|| false);
    image.put(segment, torn);

    let (frames, log, runtime) = recovered(&image);
    assert_eq!(frames.len(), 1);
    // This frame fills the gap exactly up to the first orphan.
    let gap = (orphans[0].0.0 - log.tail().0) as usize;
    assert!(lost.1 == orphans[0].0 && gap > FRAME_HEADER);
    let b = append(&log, &vec![3; gap - FRAME_HEADER]);
    assert_eq!(b.1, orphans[0].0);
    runtime.block_on(log.wait_durable(b.1));
    let at = orphans[1].0.0 as usize + 4096;
    assert_eq!(image.content(segment)[at + FRAME_HEADER], 2, "an orphan is still on the disk");
    let (frames, _, _) = recovered(&image.crashed(|| false));
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1].1, b.1.0);
}

/// SCAN-3: a recovery that is interrupted or repeated changes nothing but the epoch.
/// Tests SCAN-2.
#[test]
fn recovery_again_and_again() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let mut want = Frames::new();
    for n in 0..10 {
        let (s, e) = append(&log, &payload(n));
        want.push((s.0, e.0, payload(n)));
    }
    runtime.block_on(log.wait_durable(log.tail()));
    let mut image = disk.crashed(|| false);
    for n in 10..600 {
        let (found, log, runtime) = recovered(&image);
        assert_eq!(found, want);
        if n % 5 == 0 {
            let (s, e) = append(&log, &payload(n));
            want.push((s.0, e.0, payload(n)));
            runtime.block_on(log.wait_durable(e));
        }
        if n % 50 == 0 {
            // The checkpoint lies in the middle of several epochs.
            let at = want.len() / 2;
            log.write_checkpoint(Lsn(want[at].0), b"");
            want.drain(..at);
        }
        image = image.crashed(|| false);
    }
}

/// A checkpoint may lie where an epoch begins: there the log had ended. Tests SCAN-2.
#[test]
fn a_checkpoint_where_an_epoch_begins() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    append(&log, b"before");
    runtime.block_on(log.wait_durable(log.tail()));
    let end = log.tail();
    let second = disk.crashed(|| false);
    let (_, log, runtime) = recovered(&second);
    let (s, e) = append(&log, b"behind");
    runtime.block_on(log.wait_durable(e));
    log.write_checkpoint(end, b"");
    let mut image = second.crashed(|| false);
    for _ in 0..3 {
        let (found, log, _runtime) = recovered(&image);
        assert_eq!(found, [(s.0, e.0, b"behind".to_vec())]);
        assert_eq!(log.checkpoint_lsn(), end);
        image = image.crashed(|| false);
    }
}

#[test]
fn the_checkpoint_payload_comes_back() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let (payload, _) = Log::recover(Arc::new(disk.crashed(|| false)), config()).unwrap();
    assert_eq!(payload, b"");
    let (s, e) = append(&log, b"change");
    runtime.block_on(log.wait_durable(e));
    log.write_checkpoint(s, &[7; CHECKPOINT_PAYLOAD_MAX]);
    assert_eq!(log.checkpoint_lsn(), s);
    let (payload, scanner) = Log::recover(Arc::new(disk.crashed(|| false)), config()).unwrap();
    assert_eq!((payload, scanner.checkpoint_lsn()), (vec![7; CHECKPOINT_PAYLOAD_MAX], s));
}

/// LOG-1
#[test]
#[should_panic(expected = "LOG-1")]
fn a_checkpoint_above_durable_is_a_bug() {
    let (log, _) = created(&MemDisk::default());
    let (_, e) = append(&log, b"change");
    log.write_checkpoint(e, b"");
}

/// LOG-4
#[test]
#[should_panic(expected = "writing the redo log")]
fn a_failed_flush_is_the_end() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let (_, e) = append(&log, b"change");
    disk.refuse_sync();
    runtime.block_on(log.wait_durable(e));
}

#[test]
fn a_full_buffer_blocks_and_waiting_writes_it_out() {
    let disk = MemDisk::default();
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig { segment_bytes: 1 << 20, capacity_bytes: 1 << 23, ..config() };
    let log = Log::create(Arc::new(disk), runtime.clone(), config).unwrap();
    runtime.run();
    let mut blocked = 0;
    for _ in 0..100 {
        let credit = loop {
            match log.credit(5000) {
                Ok(c) => break c,
                Err(WouldBlock::LogSpace(n)) => {
                    blocked += 1;
                    runtime.block_on(log.wait_space(n)).unwrap();
                }
                Err(e) => panic!("{e:?}"),
            }
        };
        append_with(&log, credit, &[1; 4000]);
        assert!(log.tail().0 - log.written().0 <= 1 << 16);
    }
    assert!((5..20).contains(&blocked), "{blocked}");
    assert_eq!(counter(&log, "log_waits"), blocked);
    assert_eq!(counter(&log, "log_on_buffer_space_waits"), blocked);
}

#[test]
fn a_full_log_blocks_until_the_checkpoint_moves() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let fill = |log: &Log| {
        loop {
            match log.credit(3000) {
                Ok(c) => drop(append_with(log, c, &[1; 2900])),
                Err(WouldBlock::LogSpace(_)) if log.durable() < log.tail() => {
                    runtime.block_on(log.flush_to(log.tail()))
                }
                Err(WouldBlock::LogSpace(_)) => break,
                Err(e) => panic!("{e:?}"),
            }
            runtime.run();
        }
    };
    fill(&log);
    let age = log.tail().0 - log.checkpoint_lsn().0;
    assert!(age <= config().capacity_bytes && age > config().capacity_bytes / 2, "{age}");
    {
        let mut wait = pin!(log.wait_space(3000));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        assert!(
            pin!(log.checkpoint_wanted()).poll(&mut cx).is_ready(),
            "the checkpointer is called"
        );
        // Work that makes room goes on.
        let c = log.credit_reserved(1000).unwrap();
        append_with(&log, c, &[9; 900]);
        runtime.block_on(log.flush_to(log.tail()));
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        log.write_checkpoint(log.durable(), b"");
        runtime.run();
        assert!(matches!(wait.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
    }
    fill(&log);
    assert!(log.tail().0 > 3 * config().capacity_bytes / 2);
}

/// Tests CREDIT-3.
#[test]
fn a_refund_wakes_who_waits() {
    let (log, runtime) = created(&MemDisk::default());
    let held: Vec<_> = (0..).map_while(|_| log.credit(4096).ok()).collect();
    let mut wait = pin!(log.wait_space(5000));
    assert!(matches!(log.credit(5000), Err(WouldBlock::LogSpace(5000))));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    drop(held);
    runtime.block_on(wait).unwrap();
    assert!(log.credit(5000).is_ok());
}

/// A session waits for more than a smaller buffer can ever have room for.
#[test]
fn a_request_that_has_become_too_large_goes_back() {
    let (log, _runtime) = created(&MemDisk::default());
    let held: Vec<_> = (0..).map_while(|_| log.credit(4096).ok()).collect();
    let mut wait = pin!(log.wait_space(5000));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    log.room.set_buffer(8192, Some);
    assert!(wait.as_mut().poll(&mut cx).is_ready());
    assert!(matches!(log.credit(5000), Err(WouldBlock::Failed(Error::Unsupported(_)))));
    drop(held);
}

/// Tests CREDIT-3: an append that has used all of its credit gives nothing back, but leaves bytes
/// to flush. Here no other session flushes.
#[test]
fn an_append_wakes_who_waits_for_something_to_flush() {
    struct Woken(AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig { segment_bytes: 1 << 20, capacity_bytes: 1 << 23, ..config() };
    let log = Log::create(Arc::new(MemDisk::default()), runtime.clone(), config).unwrap();
    runtime.run();
    runtime.block_on(log.flush_to(log.tail()));
    let payload = vec![1; log.credit_max() - FRAME_HEADER];
    let credit = log.credit(log.credit_max()).unwrap();
    assert!(matches!(log.credit(8000), Err(WouldBlock::LogSpace(8000))));
    let mut wait = pin!(log.wait_space(8000));
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = woken.clone().into();
    let mut cx = Context::from_waker(&waker);
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    append_with(&log, credit, &payload);
    assert!(woken.0.load(Relaxed));
    runtime.block_on(wait).unwrap();
    assert!(log.credit(8000).is_ok());
}

#[test]
fn a_full_disk_blocks_and_is_told() {
    let disk = MemDisk::default();
    let runtime = Arc::new(TestRuntime::default());
    let log = Log::create(Arc::new(disk.clone()), runtime.clone(), config()).unwrap();
    disk.set_full(true);
    runtime.run();
    let blocked = || {
        loop {
            match log.credit(1000) {
                Ok(c) => drop(append_with(&log, c, &[1; 900])),
                Err(WouldBlock::LogSpace(_)) => break,
                Err(e) => panic!("{e:?}"),
            }
        }
    };
    blocked();
    assert!(log.tail().0 < 16384);
    for _ in 0..2 {
        assert!(matches!(runtime.block_on(log.wait_space(1000)), Err(Error::DiskFull(_))));
        blocked();
    }
    // The log can still be made durable, and the reserve can be used.
    runtime.block_on(log.wait_durable(log.tail()));
    assert!(log.credit_reserved(1000).is_ok());
    disk.set_full(false);
    runtime.block_on(log.wait_space(1000)).unwrap();
    blocked();
    assert!(log.tail().0 > 2 * 16384);
}

/// Tests LEAD-2.
#[test]
fn a_dropped_wait_leaves_the_others_led() {
    let (log, runtime) = created(&MemDisk::default());
    let mut cx = Context::from_waker(Waker::noop());
    // In company the leader first steps back in the run queue, and is dropped there.
    let (_, a) = append(&log, b"a");
    runtime.block_on(async { assert!(log.waits.try_lead()) });
    let mut first = Box::pin(log.wait_durable(a));
    assert!(first.as_mut().poll(&mut cx).is_pending());
    let (_, b) = append(&log, b"b");
    let mut second = Box::pin(log.wait_durable(b));
    assert!(second.as_mut().poll(&mut cx).is_pending());
    log.waits.hand_over();
    assert!(log.durable() < a);
    // The leadership has been handed to the first wait, which passes it on to the second.
    drop(first);
    runtime.block_on(second);
    assert_eq!(log.durable(), b);
    // The leadership is free again.
    assert!(log.waits.try_lead());
    log.waits.hand_over();
    let (_, c) = append(&log, b"c");
    runtime.block_on(log.owned_wait(c));
    assert_eq!(log.durable(), c);
}

/// A program may keep a commit that it does not poll. Tests WAIT-6.
#[test]
fn a_wait_that_is_not_polled_holds_nobody_up_for_long() {
    let (log, runtime) = created(&MemDisk::default());
    let mut cx = Context::from_waker(Waker::noop());
    let taken = || counter(&log, "log_idle_leaders");
    let mut kept = Vec::new();
    let mut polled = |bytes| {
        let (_, lsn) = append(&log, bytes);
        let mut wait = Box::pin(log.owned_wait(lsn));
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        kept.push(wait);
        lsn
    };
    // It leads, and lets others go first. At the watch's second look it has not come back.
    log.waits.flushed_for(16);
    assert!(log.waits.in_company());
    let a = polled(b"a");
    assert!(!log.waits.try_lead());
    let (_, b) = append(&log, b"b");
    let mut other = Box::pin(log.owned_wait(b));
    assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    runtime.tick();
    assert_eq!((taken(), log.durable() < a), (0, true));
    runtime.tick();
    assert_eq!((taken(), log.durable() >= b), (1, true));
    runtime.block_on(other);
    // Another one has been handed the leadership.
    runtime.block_on(async { assert!(log.waits.try_lead()) });
    let c = polled(b"c");
    assert!(log.waits.hand_over().is_some());
    (0..2).for_each(|_| runtime.tick());
    assert_eq!((taken(), log.durable() >= c), (2, true));
    // Those that are polled again, or dropped, have no leadership: LEAD-1.
    assert!(log.waits.try_lead(), "it is free");
    runtime.block_on(kept.remove(0));
    drop(kept);
    assert!(!log.waits.try_lead(), "it is in use");
    log.waits.hand_over();
    // Who comes back in time leads on, whatever the watch has seen.
    log.waits.flushed_for(16);
    let (_, d) = append(&log, b"d");
    let mut wait = Box::pin(log.owned_wait(d));
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    runtime.tick();
    runtime.block_on(wait);
    assert_eq!((taken(), log.durable()), (2, d));
}

/// A session that waits for room in the buffer may be handed the leadership when the buffer has
/// room again and the capacity is short. The session must not keep the leadership.
#[test]
fn a_wait_for_the_checkpoint_has_no_leadership() {
    let (log, runtime) = created(&MemDisk::default());
    let mut cx = Context::from_waker(Waker::noop());
    let older = log.credit(FRAME_HEADER + 10).unwrap();
    // The end of the buffer, counted from the bytes written here, comes just before the capacity's
    // end.
    let written = log.capacity_now() / 16 * 15 - config().buffer_bytes as u64 - 200;
    while log.tail().0 < written - 1000 {
        append(&log, &[1; 400]);
        runtime.block_on(log.flush_to(log.tail()));
    }
    let rest = (written - log.tail().0) as usize - FRAME_HEADER;
    append(&log, &vec![1; rest]);
    runtime.block_on(log.flush_to(log.tail()));
    runtime.block_on(async { assert!(log.waits.try_lead()) });
    loop {
        match log.credit(FRAME_HEADER + 400) {
            Ok(credit) => drop(append_with(&log, credit, &[2; 400])),
            Err(_)
                if log.room.scarce(append::credit::Class::Ordinary)
                    == append::credit::Scarce::Files =>
            {
                log.allocator.notify();
                runtime.run();
            }
            Err(_) => break,
        }
    }
    let mut wait = pin!(log.wait_space((FRAME_HEADER + 400) as u64));
    // This frame is not whole yet when the frames before it are flushed.
    let mut frame = vec![3; FRAME_HEADER + 10];
    let (len, seat) = (frame.len() as u64, log.order.seat());
    let start = seat.reserve(&log.order, len);
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    assert_eq!(counter(&log, "log_on_buffer_space_waits"), 1);
    log.flush(true);
    assert_eq!(log.durable(), Lsn(start));
    let crc = frame::payload_crc(log.seed, &frame[FRAME_HEADER..]);
    frame::finish(&mut frame, frame::KIND_CHANGES, start, start, crc);
    // SAFETY: the range was just reserved, with credit.
    unsafe { log.ring.fill(start, &frame) };
    seat.copied();
    seat.entered(len);
    older.spend(len);
    let _capacity: Vec<_> =
        [1000, 30, 1].iter().flat_map(|n| std::iter::from_fn(|| log.credit(*n).ok())).collect();
    assert!(log.waits.hand_over().is_some(), "to the one who waits");
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    assert_eq!(counter(&log, "log_on_file_space_wait_loops"), 1, "for the checkpoint");
    assert!(log.waits.try_lead(), "it has passed the leadership on");
}

/// A damaged header does no harm. A missing segment is an error, whether its first bytes or its
/// last bytes are needed.
#[test]
fn segments_with_a_damaged_header_are_read_and_missing_ones_are_named() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let (s, e) = append(&log, b"change");
    runtime.block_on(log.wait_durable(e));
    log.write_checkpoint(s, b"");
    let image = disk.crashed(|| false);
    let path = Path::new("/data/redo/log_0");
    let whole = image.content(path);
    let mut b = whole.clone();
    b[17] ^= 1;
    image.put(path, b);
    let (frames, scanner) = scanned(&image);
    assert_eq!(frames.len(), 1);
    scanner.judge_end(None).unwrap();
    scanner.finish(Arc::new(TestRuntime::default())).unwrap();
    assert_eq!(image.content(path)[..4096], whole[..4096], "its header is whole again");
    let later = Path::new("/data/redo/log_1");
    assert!(image.exists(later), "segments are made ahead");
    log.write_checkpoint(e, b"");
    let image = disk.crashed(|| false);
    image.remove(later).unwrap();
    let gone = Log::recover(Arc::new(image), config()).map(drop).unwrap_err().to_string();
    assert!(gone.contains("segment 1"), "{gone}");
    let image = disk.crashed(|| false);
    image.remove(path).unwrap();
    let gone = Log::recover(Arc::new(image), config()).map(drop).unwrap_err().to_string();
    assert!(gone.contains("segment 0"), "{gone}");
}

/// A log of several commits, one after the other, and the beginning and the end of each frame.
fn committed(disk: &MemDisk) -> Vec<(Lsn, Lsn)> {
    let (log, runtime) = created(disk);
    (0..200u64)
        .map(|n| {
            let place = append(&log, &[n as u8; 300]);
            runtime.block_on(log.wait_durable(place.1));
            place
        })
        .collect()
}
fn judged(image: &MemDisk) -> crate::Result<usize> {
    let (frames, scanner) = scanned(image);
    scanner.judge_end(None).map(|()| frames.len())
}
fn names(image: &MemDisk) -> Vec<String> {
    image.list(&config().dir).unwrap()
}
fn flip(image: &MemDisk, lsn: u64) {
    let config = config();
    let path = config.dir.join(format!("log_{}", lsn / config.segment_bytes));
    let mut b = image.content(&path);
    b[4096 + (lsn % config.segment_bytes) as usize] ^= 0x20;
    image.put(&path, b);
}

/// TAIL-2: a flipped byte is damage if it was durable when a later frame was made. In the last
/// frame it is a torn tail.
/// Tests JUDGE-2.
#[test]
fn damage_of_the_log_is_not_taken_for_its_end() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    assert_eq!(judged(&disk.crashed(|| false)).unwrap(), frames.len());
    let before = names(&disk.crashed(|| false));
    for (n, (start, end)) in frames.iter().enumerate().step_by(7) {
        for at in [start.0, start.0 + 5, start.0 + 17, start.0 + 100, end.0 - 1] {
            let image = disk.crashed(|| false);
            flip(&image, at);
            let refused = judged(&image).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("LSN {start}")) && refused.contains("log_"),
                "frame {n}, byte {at}: {refused}"
            );
            assert_eq!(names(&image), before, "nothing is made or removed");
        }
    }
    let image = disk.crashed(|| false);
    flip(&image, frames[frames.len() - 1].0.0 + 50);
    assert_eq!(
        judged(&image).unwrap(),
        frames.len() - 1,
        "the last frame proves nothing of itself"
    );
}

/// TAIL-1, TAIL-4
#[test]
fn a_log_that_is_cut_short_is_found_by_what_is_known_elsewhere() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    let cut = frames[150].0;
    let zeroed = |disk: &MemDisk| {
        let image = disk.crashed(|| false);
        let config = config();
        for n in cut.0 / config.segment_bytes..=frames[199].1.0 / config.segment_bytes {
            let path = config.dir.join(format!("log_{n}"));
            let mut b = image.content(&path);
            let from = 4096 + cut.0.saturating_sub(n * config.segment_bytes) as usize;
            b[from..].fill(0);
            image.put(&path, b);
        }
        image
    };
    let (taken, scanner) = scanned(&zeroed(&disk));
    assert_eq!(taken.len(), 150);
    scanner.judge_end(Some((cut, "page 1:2 of undo.rdl".into()))).unwrap();
    let refused = scanner
        .judge_end(Some((Lsn(cut.0 + 1), "page 1:2 of undo.rdl".into())))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("page 1:2 of undo.rdl has LSN"), "{refused}");
}

/// TAIL-1: the witness knows of commits that an older copy of a segment does not have.
#[test]
fn an_older_segment_is_found_by_the_witness() {
    let disk = MemDisk::default();
    let (log, runtime) = created(&disk);
    let place = |n: u8| {
        let place = append(&log, &[n; 300]);
        runtime.block_on(log.wait_durable(place.1));
        place
    };
    let early = place(1);
    let old = disk.crashed(|| true).content(Path::new("/data/redo/log_0"));
    let late = place(2);
    let older = || {
        let image = disk.crashed(|| true);
        image.put(Path::new("/data/redo/log_0"), old.clone());
        image
    };
    assert_eq!(judged(&older()).unwrap(), 1, "nothing tells it from a crash");
    runtime.tick();
    runtime.run();
    let refused = judged(&older()).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("LSN {}", early.1))
            && refused.contains(&format!("durable up to LSN {}", late.1)),
        "{refused}"
    );
    assert_eq!(judged(&disk.crashed(|| true)).unwrap(), 2);
}

/// SCAN-7: copies of segments from before a start are distinguished from the log's end, whatever
/// the witness names.
#[test]
fn a_segment_from_before_the_start_is_found_at_once() {
    let disk = MemDisk::default();
    let config = config();
    let frames = committed(&disk);
    let stopped = disk.crashed(|| false);
    let (taken, scanner) = scanned(&stopped);
    assert_eq!(taken.len(), frames.len());
    let runtime = Arc::new(TestRuntime::default());
    let log = scanner.finish(runtime.clone()).unwrap();
    let place = append(&log, &[9; 300]);
    runtime.block_on(log.wait_durable(place.1));
    let last = frames[frames.len() - 1].1.0;
    let path = config.dir.join(format!("log_{}", last / config.segment_bytes));
    let image = stopped.crashed(|| true);
    assert_eq!(judged(&image).unwrap(), frames.len() + 1);
    image.put(&path, disk.content(&path));
    let refused = judged(&image).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("LSN {last}")) && refused.contains("redo/control says"),
        "{refused}"
    );
}

/// TAIL-7: two writes meet within a frame, and the crash takes the later one. A higher durable LSN
/// proves more.
#[test]
fn a_frame_whose_rest_was_in_a_lost_write_ends_the_log() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    let bytes = config().segment_bytes;
    let crosses =
        |(s, e): &(Lsn, Lsn)| s.0 / bytes != e.0 / bytes && e.0 % bytes > 0 && e.0 % bytes < 300;
    let n = frames.iter().position(crosses).unwrap();
    let (boundary, end) = (frames[n].1.0 / bytes * bytes, frames[n].1.0);
    let path = config().dir.join(format!("log_{}", boundary / bytes));
    let seed = frame::seed(
        FrameScanner::open(Arc::new(disk.crashed(|| false)), config()).unwrap().log_id(),
        1,
    );
    let image = |durable: u64| {
        let image = disk.crashed(|| false);
        let mut b = image.content(&path);
        b[4096..4096 + (end - boundary) as usize].fill(0);
        for (s, e) in frames[n + 1..].iter().filter(|(_, e)| e.0 <= boundary + bytes) {
            let at = |lsn: Lsn| 4096 + (lsn.0 - boundary) as usize;
            let frame = &mut b[at(*s)..at(*e)];
            let crc = frame::payload_crc(seed, &frame[FRAME_HEADER..]);
            frame::finish(frame, frame::KIND_CHANGES, s.0, durable.min(s.0), crc);
        }
        image.put(&path, b);
        // Later segments hold frames that name a higher durable LSN.
        for later in boundary / bytes + 1..20 {
            let path = config().dir.join(format!("log_{later}"));
            if image.exists(&path) {
                image.put(&path, vec![0; 4096 + bytes as usize]);
            }
        }
        image
    };
    assert_eq!(judged(&image(boundary)).unwrap(), n);
    assert!(
        matches!(judged(&image(boundary + 1)), Err(crate::Error::Damaged(_))),
        "no write ends there"
    );
    assert!(
        matches!(judged(&image(boundary + 4096)), Err(crate::Error::Damaged(_))),
        "the whole frame was durable"
    );
    // SCAN-8: the next start is interrupted after it has overwritten a part of the torn frame's
    // header.
    let interrupted = |knows: bool| {
        let image = image(boundary);
        let (_, mut scanner) = scanned(&image);
        let end = scanner.position();
        if knows {
            scanner.control.raise_epoch(end.0);
        }
        let path = config().dir.join(format!("log_{}", end.0 / bytes));
        let mut b = image.content(&path);
        b[4096 + (end.0 % bytes) as usize..][..16].fill(0xee);
        image.put(&path, b);
        image
    };
    let refused = judged(&interrupted(false)).unwrap_err().to_string();
    assert!(
        refused.contains("redo/control says") || refused.contains("a whole frame"),
        "{refused}"
    );
    assert_eq!(judged(&interrupted(true)).unwrap(), n);
    // A start that finishes leaves a log that the next start accepts, although the torn frame's
    // proof is gone.
    let image = interrupted(true);
    drop(scanned(&image).1.finish(Arc::new(TestRuntime::default())).unwrap());
    assert_eq!(judged(&image.crashed(|| false)).unwrap(), n);
}

/// TAIL-6: the file of a segment never ends before the segment does.
#[test]
fn a_segment_that_is_cut_off_where_the_log_ends_is_damage() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    let config = config();
    let n = frames[150].0.0 / config.segment_bytes;
    let image = disk.crashed(|| false);
    for later in n + 1..20 {
        let _ = image.remove(&config.dir.join(format!("log_{later}")));
    }
    let path = config.dir.join(format!("log_{n}"));
    let mut b = image.content(&path);
    b.truncate(4096 + (frames[150].0.0 % config.segment_bytes) as usize / 4096 * 4096);
    image.put(&path, b);
    // Missing segments are reported first, as far as they are known to have existed.
    let refused =
        Log::recover(Arc::new(image.clone()), config.clone()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("is missing"), "{refused}");
    let image = disk.crashed(|| false);
    let mut b = image.content(&path);
    b.truncate(4096 + (frames[150].0.0 % config.segment_bytes) as usize / 4096 * 4096);
    image.put(&path, b);
    assert!(matches!(judged(&image), Err(crate::Error::Damaged(_))));
}

/// TAIL-6, where the last frames lie in a segment that begins with the rest of a frame: what is cut
/// off is the file behind the one in which the reading ends.
#[test]
fn a_segment_that_is_cut_off_behind_a_frame_of_two_segments_is_damage() {
    let disk = MemDisk::default();
    let config = config();
    let (log, runtime) = created(&disk);
    let segment = |lsn: Lsn| lsn.0 / config.segment_bytes;
    loop {
        let (start, end) = append(&log, &[7; 300]);
        runtime.block_on(log.wait_durable(end));
        if segment(start) < segment(end) && !end.0.is_multiple_of(config.segment_bytes) {
            break;
        }
    }
    let (_, end) = append(&log, &[8; 300]);
    runtime.block_on(log.wait_durable(end));
    let last = segment(end);
    let path = config.dir.join(format!("log_{last}"));
    let image = disk.crashed(|| false);
    let mut b = image.content(&path);
    b.truncate(4096);
    image.put(&path, b);
    let refused = judged(&image).unwrap_err().to_string();
    assert!(refused.contains(&format!("log_{last} is cut off")), "{refused}");
}

/// SCAN-9: blocks that the disk cannot read.
#[test]
fn unreadable_blocks_count_where_frames_need_them() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    let config = config();
    let file = |lsn: u64| config.dir.join(format!("log_{}", lsn / config.segment_bytes));
    let offset = |lsn: u64| 4096 + lsn % config.segment_bytes / 4096 * 4096;
    // Behind the end, where no frame can begin any more.
    let behind = frames[199].1.0.next_multiple_of(4096) + 4096;
    let image = disk.crashed(|| false);
    image.lose(&file(behind), offset(behind)..u64::MAX);
    assert_eq!(judged(&image).unwrap(), 200);
    assert_eq!(recovered(&image).0.len(), 200);
    // Before the end.
    for n in [0, 100, 199] {
        let image = disk.crashed(|| false);
        let at = frames[n].1.0 - 1;
        image.lose(&file(at), offset(at)..offset(at) + 4096);
        let refused = judged(&image).unwrap_err();
        assert!(matches!(refused, crate::Error::Damaged(_)), "{refused}");
        assert!(refused.to_string().contains("EIO"), "{refused}");
    }
    // Damage, and behind it a block that cannot be read, in front of frames that prove that the log
    // went on.
    let image = disk.crashed(|| false);
    flip(&image, frames[100].0.0 + 40);
    let at = frames[130].0.0;
    if file(at) == file(frames[100].0.0) {
        image.lose(&file(at), offset(at)..offset(at) + 4096);
    }
    assert!(matches!(judged(&image), Err(crate::Error::Damaged(_))));
    // A header, and each block of the control file: another one has a state.
    let image = disk.crashed(|| false);
    image.lose(&file(0), 0..4096);
    assert_eq!(judged(&image).unwrap(), 200);
    let mut good = 0;
    for at in recovery::checkpoint_file::BLOCKS_AT.into_iter().flatten() {
        let image = disk.crashed(|| false);
        image.lose(&config.dir.join("control"), at..at + 4096);
        match Log::recover(Arc::new(image.clone()), config.clone()).map(drop) {
            Ok(()) => good += usize::from(judged(&image).is_ok()),
            Err(e) => assert!(!matches!(e, crate::Error::Io { .. }), "{e}"),
        }
    }
    assert!(good > 1, "{good}");
}

/// TAIL-3, TAIL-5: an older control file is refused, whichever of its blocks is lost.
#[test]
fn a_control_file_older_than_the_log_is_refused() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    let control = config().dir.join("control");
    let old = disk.content(&control);
    let image = disk.crashed(|| false);
    let (_, scanner) = scanned(&image);
    let runtime = Arc::new(TestRuntime::default());
    let log = scanner.finish(runtime.clone()).unwrap();
    let (_, e) = append(&log, b"in the next epoch");
    runtime.block_on(log.wait_durable(e));
    let image = image.crashed(|| false);
    assert_eq!(judged(&image).unwrap(), frames.len() + 1);
    // The epoch's frame is damaged too, and the frames behind it are found.
    let next = image.crashed(|| false);
    flip(&next, frames[199].1.0 + 3);
    assert!(matches!(judged(&next), Err(crate::Error::Damaged(_))));
    image.put(&control, old);
    let refused = judged(&image).unwrap_err().to_string();
    assert!(refused.contains("redo/control") && refused.contains("epoch 2"), "{refused}");
}

/// The scanner can read again from the checkpoint.
/// Tests SCAN-6.
#[test]
fn a_scanner_reads_again() {
    let disk = MemDisk::default();
    let frames = committed(&disk);
    let (_, mut scanner) = scanned(&disk.crashed(|| false));
    scanner.rewind();
    let mut again = 0;
    while scanner.next().unwrap().is_some() {
        again += 1;
    }
    assert_eq!(again, frames.len());
}

/// Four threads append and commit. At any moment a crash leaves every acknowledged frame, and only
/// whole frames in order.
#[test]
fn threads_commit_and_a_crash_keeps_what_was_acknowledged() {
    let disk = MemDisk::default();
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig { segment_bytes: 1 << 18, capacity_bytes: 1 << 24, ..config() };
    let log = Log::create(Arc::new(disk.clone()), runtime.clone(), config.clone()).unwrap();
    runtime.run();
    let acked: Vec<Mutex<Vec<u64>>> = (0..4).map(|_| Mutex::default()).collect();
    let check = || {
        let before: Vec<Vec<u64>> = acked.iter().map(|a| a.lock().clone()).collect();
        let image = disk.crashed(|| false);
        let (_, mut scanner) = Log::recover(Arc::new(image), config.clone()).unwrap();
        let mut found = vec![Vec::new(); 4];
        while let Some(f) = scanner.next().unwrap() {
            let n = u64::from_le_bytes(f.payload[..8].try_into().unwrap());
            assert_eq!(f.payload, payload(n));
            found[n as usize % 4].push(n);
        }
        for (thread, acked) in before.iter().enumerate() {
            assert!(found[thread].len() >= acked.len(), "an acknowledged frame is lost");
            assert!(
                found[thread].iter().enumerate().all(|(i, n)| *n == i as u64 * 4 + thread as u64)
            );
        }
        found.iter().map(Vec::len).sum::<usize>()
    };
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let (log, runtime, acked) = (&log, &runtime, &acked);
            s.spawn(move || {
                for i in 0..500 {
                    let n = i * 4 + thread;
                    let bytes = payload(n);
                    let credit = loop {
                        match log.credit(bytes.len() + FRAME_HEADER + 100) {
                            Ok(c) => break c,
                            Err(WouldBlock::LogSpace(n)) => {
                                runtime.block_on(log.wait_space(n)).unwrap()
                            }
                            Err(e) => panic!("{e:?}"),
                        }
                    };
                    let (_, e) = append_with(log, credit, &bytes);
                    runtime.block_on(log.wait_durable(e));
                    assert!(log.durable() >= e);
                    acked[thread as usize].lock().push(n);
                }
            });
        }
        for _ in 0..10 {
            check();
            std::thread::yield_now();
        }
    });
    assert_eq!(check(), 2000);
    assert_eq!(counter(&log, "log_write_requests"), 2000);
    assert!(counter(&log, "log_flushes") <= 2000);
}

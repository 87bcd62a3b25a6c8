//! Capacity and buffer change while the log runs, and writers are slowed as the log fills.
use crate::base::WouldBlock;
use crate::log::tests::fixture::{MemDisk, TestRuntime};
use crate::log::tests::{append, append_with, config, counter, created, payload};
use crate::log::*;
use std::path::Path;
use std::pin::pin;
use std::task::Context;

/// Takes credit, and waits for room if necessary.
fn credit_for<'l>(log: &'l Log, runtime: &TestRuntime, bytes: usize) -> Credit<'l> {
    loop {
        match log.credit(bytes) {
            Ok(c) => return c,
            Err(WouldBlock::LogSpace(n)) => runtime.block_on(log.wait_space(n)).unwrap(),
            Err(e) => panic!("{e:?}"),
        }
    }
}

/// Four threads append while the buffer's size changes all the time. Afterwards every frame is
/// there, unchanged.
/// Tests LOGBUF-6.
#[test]
fn the_buffer_changes_its_size_under_load() {
    let disk = MemDisk::default();
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig {
        segment_bytes: 1 << 20,
        capacity_bytes: 1 << 26,
        buffer_bytes: 1 << 18,
        ..config()
    };
    let log = Log::create(Arc::new(disk.clone()), runtime.clone(), config.clone()).unwrap();
    runtime.run();
    let mut splits = std::collections::BTreeSet::new();
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let (log, runtime) = (&log, &runtime);
                s.spawn(move || {
                    let mut splits = Vec::new();
                    for i in 0..5000 {
                        let bytes = payload(i * 4 + thread);
                        let credit = credit_for(log, runtime, bytes.len() + FRAME_HEADER + 3000);
                        let (_, e) = append_with(log, credit, &bytes);
                        if i % 100 == thread {
                            runtime.block_on(log.wait_durable(e));
                        }
                        // One of the threads changes the size, so that the number of changes does
                        // not depend on the scheduler.
                        if thread == 0 && i % 50 == 0 {
                            log.set_buffer(
                                [1 << 18, 1 << 20, 300 << 10, 1 << 19, 520 << 10, 1 << 21]
                                    [i as usize / 50 % 6],
                            );
                            runtime.run();
                            splits.push(log.ring.split_at());
                        }
                    }
                    splits
                })
            })
            .collect();
        threads.into_iter().for_each(|t| splits.extend(t.join().unwrap()));
    });
    runtime.block_on(log.close());
    assert!(splits.len() > 3, "{} changes were made", splits.len());
    let (_, mut scanner) = Log::recover(Arc::new(disk.crashed(|| false)), config).unwrap();
    let mut next = [0; 4];
    while let Some(f) = scanner.next().unwrap() {
        let n = u64::from_le_bytes(f.payload[..8].try_into().unwrap());
        assert_eq!(f.payload, payload(n));
        assert_eq!(std::mem::replace(&mut next[n as usize % 4], n / 4 + 1), n / 4);
    }
    assert_eq!(next, [5000; 4]);
}

#[test]
fn a_buffer_of_another_size_holds_as_much_as_it_says() {
    let disk = MemDisk::default();
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig {
        segment_bytes: 1 << 20,
        capacity_bytes: 1 << 26,
        buffer_bytes: 1 << 18,
        ..config()
    };
    let log = Log::create(Arc::new(disk), runtime.clone(), config).unwrap();
    runtime.run();
    let fill = || {
        runtime.block_on(log.flush_to(log.tail()));
        let from = log.written().0 / 4096 * 4096;
        while let Ok(c) = log.credit(2000) {
            append_with(&log, c, &[5; 1900]);
        }
        log.tail().0 - from
    };
    // The size changes twice while nothing is written.
    for bytes in [1 << 21, 1 << 19] {
        log.set_buffer(bytes);
        runtime.run();
        assert_eq!(log.buffer_bytes(), bytes);
    }
    for (bytes, set) in [
        (1u64 << 20, 1 << 20),
        (700_000, 696_320),
        (1 << 18, 1 << 18),
        (5, 1 << 18),
        (400 << 10, 400 << 10),
    ] {
        log.set_buffer(bytes);
        runtime.run();
        assert_eq!(log.buffer_bytes(), set);
        // The bytes lie on both sides of the LSN at which the memories change.
        fill();
        let held = fill();
        assert!(held <= set && held > set - 4000, "{held} of {set}");
    }
}

/// The number of the log's files on the disk.
fn files(disk: &MemDisk) -> usize {
    disk.list(Path::new("/data/redo")).unwrap().iter().filter(|n| n.starts_with("log_")).count()
}

#[test]
fn the_capacity_changes_and_files_come_and_go() {
    let disk = MemDisk::default();
    let runtime = Arc::new(TestRuntime::default());
    let config = LogConfig {
        segment_bytes: 1 << 16,
        capacity_bytes: 1 << 22,
        buffer_bytes: 1 << 18,
        ..config()
    };
    let log = Log::create(Arc::new(disk.clone()), runtime.clone(), config.clone()).unwrap();
    runtime.run();
    // Appends numbered frames until there is no room without a checkpoint.
    let mut n = 0;
    let mut fill = |log: &Log, runtime: &TestRuntime, most: u64| {
        let end = log.tail().0 + most;
        while log.tail().0 < end {
            let bytes = payload(n);
            match log.credit(2000) {
                Ok(c) => drop(append_with(log, c, &bytes)),
                Err(WouldBlock::LogSpace(_)) if log.written() < log.tail() => {
                    runtime.block_on(log.flush_to(log.tail()));
                    runtime.run();
                    continue;
                }
                Err(WouldBlock::LogSpace(n)) => {
                    // Only a wait for room may notify the segment allocator.
                    let mut wait = pin!(log.wait_space(n));
                    let ready =
                        wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
                    runtime.run();
                    if !ready
                        && wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
                    {
                        break;
                    }
                    continue;
                }
                Err(e) => panic!("{e:?}"),
            }
            n += 1;
        }
        runtime.block_on(log.flush_to(log.tail()));
        runtime.run();
    };
    let age = |log: &Log| log.tail().0 - log.checkpoint_lsn().0;
    fill(&log, &runtime, 1 << 30);
    assert!(age(&log) > 3 << 20 && age(&log) < 1 << 22 && log.is_slow());
    assert!(files(&disk) > 60, "{}", files(&disk));

    // Downwards: writers are not stopped, and the files are removed as the checkpoint moves.
    log.set_capacity(1 << 20);
    runtime.run();
    assert!(log.capacity_bytes() == 1 << 20 && log.capacity_now() > 1 << 20);
    // However little a checkpoint moves, all kinds of work have room.
    for _ in 0..300 {
        log.write_checkpoint(Lsn(log.checkpoint_lsn().0 + 2048), b"");
        runtime.run();
        assert!(log.capacity_now() >= (age(&log) + age(&log) / 8).min(1 << 22));
        assert!(log.credit_reserved(2000).is_ok() && log.credit_last(100).is_ok());
    }
    assert!(log.credit(2000).is_ok() && log.capacity_now() < 1 << 22);
    let mut steps = 0;
    while log.capacity_now() > 1 << 20 {
        fill(&log, &runtime, 1 << 15);
        log.write_checkpoint(Lsn((log.checkpoint_lsn().0 + (1 << 17)).min(log.durable().0)), b"");
        runtime.run();
        steps += 1;
        assert!(steps < 500);
    }
    assert!(age(&log) <= 1 << 20);
    assert!(files(&disk) <= 18 && files(&disk) == log.segments.count(), "{}", files(&disk));
    fill(&log, &runtime, 1 << 30);
    assert!(age(&log) <= 1 << 20);

    // With the checkpoint at the end, segments that lie ready are removed at once.
    log.set_capacity(1 << 22);
    log.write_checkpoint(log.durable(), b"");
    fill(&log, &runtime, 1 << 30);
    assert!(age(&log) > 3 << 20, "up at once");
    log.write_checkpoint(log.durable(), b"");
    runtime.run();
    assert!(files(&disk) > 60);
    log.set_capacity(1 << 20);
    runtime.run();
    assert!(log.capacity_now() == 1 << 20 && files(&disk) <= 18, "{}", files(&disk));
    fill(&log, &runtime, 1 << 18);

    // The log is longer than the capacity of the next start.
    log.set_capacity(1 << 23);
    fill(&log, &runtime, 1 << 30);
    let (checkpoint, tail) = (log.checkpoint_lsn(), log.tail());
    assert!(tail.0 - checkpoint.0 > 6 << 20);
    runtime.block_on(log.close());
    drop(log);
    let small = LogConfig { capacity_bytes: 1 << 20, ..config };
    let (_, scanner) = Log::recover(Arc::new(disk.clone()), small).unwrap();
    let runtime = Arc::new(TestRuntime::default());
    let log = scanner.finish(runtime.clone()).unwrap();
    runtime.run();
    assert!(log.capacity_bytes() == 1 << 20 && log.capacity_now() > tail.0 - checkpoint.0);
    fill(&log, &runtime, 1 << 14);
    log.write_checkpoint(log.durable(), b"");
    runtime.run();
    assert!(log.capacity_now() == 1 << 20 && files(&disk) <= 18, "{}", files(&disk));
    fill(&log, &runtime, 1 << 30);
    assert!(age(&log) <= 1 << 20);
}

/// A cut lowers the end of the segments that may be written, then the control file's end, and then
/// removes segments: a checkpoint in between leaves the lower end in the control file.
#[test]
fn a_checkpoint_during_a_cut_names_no_segment_that_goes() {
    let (log, runtime) = created(&MemDisk::default());
    log.set_capacity(1 << 22);
    runtime.run();
    while log.segments.count() < 4 {
        match log.credit(1000) {
            Ok(c) => drop(append_with(&log, c, &[1; 900])),
            Err(_) => runtime.block_on(log.flush_to(log.tail())),
        }
        runtime.run();
    }
    let end_told = || log.control.lock().control.state().segments_end;
    log.write_checkpoint(log.durable(), b"");
    assert_eq!(end_told(), log.segments.end());
    let lower = log.room.lower_files_end(log.segments.end() - log.segments.bytes);
    assert!(lower < log.segments.end());
    log.write_checkpoint(log.durable(), b"");
    assert_eq!(end_told(), lower);
}

#[test]
fn a_log_that_is_nearly_full_holds_its_writers_up() {
    let (log, runtime) = created(&MemDisk::default());
    while !log.is_slow() {
        match log.credit(1000) {
            Ok(c) => drop(append_with(&log, c, &[1; 900])),
            Err(_) => runtime.block_on(log.flush_to(log.tail())),
        }
        runtime.run();
    }
    for _ in 0..8 {
        runtime.block_on(log.flush_to(log.tail()));
        append(&log, &[1; 900]);
    }
    assert_eq!(counter(&log, "log_throttle_waits"), 0);
    let mut cx = Context::from_waker(Waker::noop());
    let mut held = 0;
    for _ in 0..100 {
        let mut pause = pin!(log.throttle());
        if pause.as_mut().poll(&mut cx).is_pending() {
            held += 1;
            runtime.tick();
            assert!(pause.as_mut().poll(&mut cx).is_ready());
        }
    }
    assert!(
        held > 0
            && counter(&log, "log_throttle_waits") == held
            && counter(&log, "log_throttle_time_us") >= 1000 * held
    );
    runtime.block_on(log.flush_to(log.tail()));
    log.write_checkpoint(log.durable(), b"");
    assert!(!log.is_slow());
}

/// On a full disk the log is as long as its files: page cleaners, the checkpoint and the barrier of
/// the binary log have to go by that, or they wait for a length that never comes.
#[test]
fn a_log_that_cannot_grow_is_as_long_as_its_files() {
    let (log, runtime) = created(&MemDisk::default());
    assert_eq!(log.usable_bytes(), log.capacity_bytes());
    log.room.failed(Error::DiskFull("a segment".into()));
    let bounds = log.room.bounds();
    let left = (bounds.files_end - bounds.checkpoint).max(bounds.segment_bytes);
    assert_eq!(log.usable_bytes(), left.min(bounds.capacity_bytes));
    log.room.lower_files_end(bounds.checkpoint + bounds.segment_bytes);
    assert_eq!(log.usable_bytes(), bounds.segment_bytes);
    log.room.update(|b| b.files_end = b.checkpoint);
    assert_eq!(log.usable_bytes(), bounds.segment_bytes, "never nothing");
    log.room.update(|b| b.files_end = bounds.files_end);
    // The next segment that is made shows that there is room again.
    log.allocator.notify();
    runtime.run();
    assert_eq!(log.usable_bytes(), log.capacity_bytes());
}

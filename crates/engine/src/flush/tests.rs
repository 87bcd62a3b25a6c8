//! Tests of cleaners, doublewrite, repair and checkpoint, against files in memory and a redo log
//! that consists of a few numbers.
use super::doublewrite::SEGMENT_PAGES;
use super::*;
use crate::buf::testing::{MemDisk, Threads, pid, pool};
use crate::buf::{BufferPool, Counters, Latch, PageGuard};
use crate::checkpoint::{CheckpointSource, Checkpointer};
use crate::page::header;
use crate::runtime::BoxFuture;
use crate::runtime::block_on;
use crate::{PAGE_SIZE, PageId, SpaceId, WouldBlock};
use parking_lot::Mutex;
use redolith_disk::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::task::{Context, Waker};

const DBLWR: &str = doublewrite::FILE;
/// The log id of the rigs.
const LOG: u64 = 7;

/// A log without contents: frames are LSN ranges, and a change is (start, end, page).
struct FakeLog {
    tail: AtomicU64,
    slots: [AtomicU64; 16],
    durable: AtomicU64,
    checkpoint: AtomicU64,
    capacity: u64,
    flushes: AtomicU64,
    changes: Mutex<Vec<(u64, u64, PageId)>>,
    disk: Arc<MemDisk>,
    /// Whether sessions wait for the checkpoint to move, all the time.
    pressed: AtomicBool,
}
impl FakeLog {
    fn new(disk: &Arc<MemDisk>, capacity: u64) -> Arc<FakeLog> {
        Arc::new(FakeLog {
            tail: AtomicU64::new(1000),
            slots: std::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            durable: AtomicU64::new(1000),
            checkpoint: AtomicU64::new(1000),
            capacity,
            flushes: AtomicU64::new(0),
            changes: Mutex::default(),
            disk: disk.clone(),
            pressed: AtomicBool::new(false),
        })
    }
    /// Runs a mini-transaction on one page, with `len` bytes of log by worker `slot`.
    fn change(&self, page: &mut PageGuard, slot: usize, len: u64) {
        let guess = self.tail.load(SeqCst);
        self.slots[slot].store(guess, SeqCst);
        let start = self.tail.fetch_add(len, SeqCst);
        self.changes.lock().push((start, start + len, page.id()));
        page.mark_dirty(Lsn(start), Lsn(start + len));
        self.slots[slot].store(u64::MAX, SeqCst);
    }
    fn has_room(&self, len: u64) -> bool {
        self.tail.load(SeqCst) + len * 16 < self.checkpoint.load(SeqCst) + self.capacity
    }
}
impl LogView for FakeLog {
    fn tail(&self) -> Lsn {
        Lsn(self.tail.load(SeqCst))
    }
    fn dirty_low(&self) -> Lsn {
        Lsn(self.slots.iter().map(|s| s.load(SeqCst)).min().unwrap())
    }
    fn durable(&self) -> Lsn {
        Lsn(self.durable.load(SeqCst))
    }
    fn checkpoint(&self) -> Lsn {
        Lsn(self.checkpoint.load(SeqCst))
    }
    fn usable_bytes(&self) -> u64 {
        self.capacity
    }
    fn flush_to(&self, lsn: Lsn) -> BoxFuture<()> {
        assert!(lsn <= self.tail());
        self.flushes.fetch_add(1, SeqCst);
        self.durable.fetch_max(lsn.0, SeqCst);
        Box::pin(std::future::ready(()))
    }
    fn pressure(&self) -> BoxFuture<()> {
        match self.pressed.load(SeqCst) {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(std::future::pending()),
        }
    }
    /// Checks CKPT-1 against the data files that a crash at this moment would leave.
    fn write_checkpoint(&self, lsn: Lsn, payload: &[u8]) {
        assert_eq!(payload, lsn.0.to_le_bytes());
        assert!(lsn <= self.durable());
        let synced = self.disk.space(16).synced_bytes();
        let mut changes = self.changes.lock();
        changes.retain(|&(start, end, id)| {
            if start < lsn.0 {
                let page: &header::Page =
                    synced[id.no as usize * PAGE_SIZE..].first_chunk().unwrap();
                assert!(
                    header::verify(page, id) == Ok(()) && header::lsn(page).0 >= end,
                    "CKPT-1: {lsn} passes page {id}, changed {start}..{end}"
                );
            }
            start >= lsn.0
        });
        assert!(self.checkpoint.swap(lsn.0, SeqCst) < lsn.0);
    }
}
struct Source;
impl CheckpointSource for Source {
    fn payload(&self, lsn: Lsn) -> Vec<u8> {
        lsn.0.to_le_bytes().to_vec()
    }
}

struct Rig {
    disk: Arc<MemDisk>,
    pool: Arc<BufferPool>,
    log: Arc<FakeLog>,
    dblwr: Arc<Doublewrite>,
    writer: Writer,
    checkpointer: Checkpointer,
}
fn rig(pages: u32, frames: usize, mode: DoublewriteMode) -> Rig {
    let disk = Arc::new(MemDisk::default());
    disk.fill(16, pages);
    let pool = pool(&disk, frames);
    let log = FakeLog::new(&disk, 64 << 20);
    let config = DoublewriteConfig { mode, ..DoublewriteConfig::default() };
    let dblwr = Doublewrite::open(&*disk, Path::new(""), &config, 4, LOG).unwrap();
    disk.log.lock().clear();
    let writer = Writer::new(pool.clone(), log.clone(), Arc::new(Threads), dblwr.clone());
    let checkpointer = Checkpointer::new(pool.clone(), log.clone(), Arc::new(Source));
    Rig { disk, pool, log, dblwr, writer, checkpointer }
}
impl Rig {
    fn fix(&self, no: u32, latch: Latch) -> PageGuard {
        fix(&self.pool, pid(16, no), latch)
    }
    fn change(&self, no: u32, byte: u8) {
        let mut page = self.fix(no, Latch::X);
        page.bytes_mut()[header::BODY..].fill(byte);
        self.log.change(&mut page, 0, 100);
    }
    /// A flusher whose tasks are the test's.
    fn flusher(&self, runtime: Arc<dyn crate::runtime::Runtime>) -> Flusher {
        let Rig { pool, log, dblwr, disk, .. } = self;
        Flusher::idle(pool, log, dblwr, disk, runtime, Arc::new(Source))
    }
    fn claim(&self, want: usize) -> Vec<u32> {
        self.pool.dirty.claim_oldest(&self.pool.frames, want)
    }
}
fn fix(pool: &Arc<BufferPool>, id: PageId, latch: Latch) -> PageGuard {
    loop {
        match pool.fix(id, latch) {
            Ok(guard) => return guard,
            Err(WouldBlock::Page(id)) => block_on(pool.load(id)).unwrap(),
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Tests FLUSH-2.
#[test]
fn copies_are_durable_before_pages_are_written_and_the_log_before_both() {
    let rig = rig(300, 256, DoublewriteMode::On);
    (0..128).for_each(|no| rig.change(no, 7));
    rig.log.tail.fetch_add(2 << 20, SeqCst);
    let next = rig.log.tail();
    (128..200).for_each(|no| rig.change(no, 7));
    assert!(rig.log.durable() < rig.log.tail());
    assert_eq!(block_on(rig.writer.write(rig.claim(SEGMENT_PAGES), false)), SEGMENT_PAGES);
    assert_eq!(rig.log.flushes.load(SeqCst), 1);
    let events = rig.disk.log.lock().clone();
    assert_eq!(events[..2], [(DBLWR.to_string(), 'w', 0), (DBLWR.to_string(), 's', 0)]);
    assert!(
        events.len() == 2 + SEGMENT_PAGES / 32
            && events[2..].iter().all(|e| e.0 == "space_16" && e.1 == 'w'),
        "neighbours go together"
    );
    // The pages are written and not synced, so the checkpoint stays.
    assert_eq!(
        (rig.pool.dirty.pages(), rig.checkpointer.possible()),
        (200 - SEGMENT_PAGES, Lsn(1000))
    );
    assert!(block_on(rig.writer.sync()) && !block_on(rig.writer.sync()));
    rig.log.durable.store(next.0 + 1, SeqCst);
    assert_eq!((rig.checkpointer.possible(), rig.checkpointer.write()), (next, next));
    assert_eq!(block_on(rig.writer.write(rig.claim(SEGMENT_PAGES), false)), 200 - SEGMENT_PAGES);
    block_on(rig.writer.sync());
    assert_eq!(rig.checkpointer.write(), rig.log.tail());
    let counters = &rig.pool.counters;
    assert_eq!(
        (
            counters.pages_written.get(),
            counters.dblwr_pages_written.get(),
            counters.dblwr_writes.get()
        ),
        (200, 200, 2)
    );
}

/// The header alone follows from a stamp; the header with other pages does not. Tests REGISTER-2.
#[test]
fn a_write_that_begins_with_the_header_tells_of_other_pages() {
    let rig = rig(100, 128, DoublewriteMode::On);
    let runs = [(0..4, vec![3]), (0..1, vec![0]), (0..40, vec![31, 39]), (7..9, vec![8])];
    for (pages, told) in runs {
        pages.clone().for_each(|no| rig.change(no, 7));
        assert_eq!(block_on(rig.writer.write(rig.claim(100), false)), pages.len());
        block_on(rig.writer.sync());
        let told: Vec<PageId> = told.into_iter().map(|no| pid(16, no)).collect();
        assert_eq!(std::mem::take(&mut *rig.disk.told.lock()), told, "{pages:?}");
    }
}

#[test]
fn without_doublewrite_there_is_one_write_per_page_and_syncs_are_shared() {
    let rig = rig(100, 128, DoublewriteMode::Off);
    for no in (0..80).step_by(2) {
        rig.change(no, 7);
    }
    while block_on(rig.writer.write(rig.claim(10), false)) > 0 {}
    assert_eq!(
        (
            rig.writer.unsynced(),
            rig.disk.mem(DBLWR).writes.load(Relaxed),
            rig.disk.space(16).writes.load(Relaxed)
        ),
        (4, 0, 100 + 40)
    );
    let syncs = rig.disk.space(16).syncs.load(Relaxed);
    block_on(rig.writer.sync());
    assert_eq!(
        (rig.disk.space(16).syncs.load(Relaxed) - syncs, rig.checkpointer.write()),
        (1, rig.log.tail())
    );
}

#[test]
fn a_page_changed_while_it_is_written_is_written_again_later() {
    let rig = rig(10, 64, DoublewriteMode::On);
    rig.change(3, 1);
    rig.disk.space(16).hold();
    let first_change = rig.pool.oldest_dirty();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| block_on(rig.writer.write(rig.claim(9), false)));
        while rig.pool.dirty.pages() > 0 {
            std::thread::yield_now();
        }
        rig.log.tail.fetch_add(2 << 20, SeqCst);
        rig.change(3, 2);
        assert_eq!(rig.claim(9), [], "FLUSH-4");
        assert_eq!(rig.checkpointer.possible(), first_change);
        // The write reaches the data file only after the doublewrite file, so it is released until
        // it ends.
        while !write.is_finished() {
            rig.disk.space(16).release();
            rig.disk.space(16).hold();
            std::thread::yield_now();
        }
        assert_eq!(write.join().unwrap(), 1);
    });
    rig.disk.space(16).release();
    block_on(rig.writer.sync());
    rig.log.durable.store(rig.log.tail().0, SeqCst);
    assert_eq!(rig.checkpointer.possible(), Lsn(1100 + (2 << 20)), "up to the second change");
    assert_eq!(block_on(rig.writer.write(rig.claim(9), false)), 1);
    block_on(rig.writer.sync());
    assert_eq!(rig.disk.space(16).synced_bytes()[3 * PAGE_SIZE + 100], 2);
    assert_eq!(rig.checkpointer.write(), rig.log.tail());
}

#[test]
fn latched_pages_are_left_for_later_and_dropped_spaces_for_ever() {
    let rig = rig(20, 64, DoublewriteMode::On);
    (0..6).for_each(|no| rig.change(no, 9));
    let latched = rig.fix(2, Latch::X);
    assert_eq!(block_on(rig.writer.write(rig.claim(9), false)), 5);
    assert_eq!(rig.pool.dirty.pages(), 1);
    drop(latched);
    assert_eq!(rig.pool.drop_space(crate::SpaceId(16), Lsn::MAX), None);
    assert_eq!((rig.claim(9), rig.pool.pages().data), (vec![], 0));
    block_on(rig.writer.sync());
    assert_eq!(rig.checkpointer.possible(), rig.log.tail());
}

#[test]
fn a_slot_holds_the_checkpoint_and_so_does_the_source() {
    struct Binlog;
    impl CheckpointSource for Binlog {
        fn limit(&self) -> Lsn {
            Lsn(1150)
        }
        fn payload(&self, lsn: Lsn) -> Vec<u8> {
            lsn.0.to_le_bytes().to_vec()
        }
    }
    let rig = rig(10, 64, DoublewriteMode::On);
    rig.log.slots[3].store(1040, SeqCst);
    rig.log.tail.store(1500, SeqCst);
    rig.log.durable.store(1200, SeqCst);
    assert_eq!(rig.checkpointer.possible(), Lsn(1040));
    rig.log.slots[3].store(u64::MAX, SeqCst);
    assert_eq!(rig.checkpointer.possible(), Lsn(1200));
    let held = Checkpointer::new(rig.pool.clone(), rig.log.clone(), Arc::new(Binlog));
    assert_eq!(
        (held.possible(), held.write(), rig.log.checkpoint()),
        (Lsn(1150), Lsn(1150), Lsn(1150))
    );
    assert_eq!(held.write(), Lsn(1150));
}

/// Two syncs of a file are in flight. The first one fails and loses the writes; the second one
/// succeeds, and its task runs first.
/// Tests FLUSH-7.
#[test]
#[should_panic(expected = "another fsync, which ran at the same time, has failed")]
fn a_sync_beside_a_failed_one_does_not_count() {
    let rig = rig(10, 64, DoublewriteMode::Off);
    let file = rig.disk.space(16);
    file.hold();
    file.fail_sync.store(true, Relaxed);
    let mut syncs = [0; 2].map(|_| Box::pin(rig.writer.sync_files(vec![SpaceId(16)])));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(syncs.iter_mut().all(|sync| sync.as_mut().poll(&mut cx).is_pending()));
    file.release();
    let _ = syncs[1].as_mut().poll(&mut cx);
}

/// A file grows, and its sync, on the thread of the session, fails: the device reports the loss to
/// this sync alone. The flusher's sync of another file has succeeded by then, and does not count.
/// Tests FLUSH-7.
#[test]
#[should_panic(expected = "another fsync, which ran at the same time, has failed")]
fn a_sync_beside_a_failed_growth_does_not_count() {
    let rig = rig(10, 64, DoublewriteMode::Off);
    let (syncs, growing) = (rig.writer.syncs(), rig.disk.mem("grows"));
    let before = rig.disk.space(16).syncs.load(SeqCst);
    let mut sync = Box::pin(rig.writer.sync_files(vec![SpaceId(16)]));
    let growth = Fails {
        before: Mutex::new(Some(Box::new(|| {
            // The other sync ends while this one has failed, and has not said so.
            let mut cx = Context::from_waker(Waker::noop());
            assert!(sync.as_mut().poll(&mut cx).is_pending());
            assert_eq!(rig.disk.space(16).syncs.load(SeqCst), before + 1);
        }))),
        file: growing,
    };
    assert!(syncs.sync_blocking(&growth).is_err());
    drop(growth);
    let mut cx = Context::from_waker(Waker::noop());
    let _ = sync.as_mut().poll(&mut cx);
}
/// A file whose sync fails after a call of the test.
struct Fails<'t> {
    before: Mutex<Option<Box<dyn FnOnce() + Send + 't>>>,
    file: Arc<crate::buf::testing::MemFile>,
}
impl File for Fails<'_> {
    redolith_disk::forward_file!(file: read_at write_at write_durable_at len set_len submit);
    fn sync(&self) -> std::io::Result<()> {
        self.before.lock().take().expect("one sync")();
        Err(std::io::Error::from_raw_os_error(5))
    }
}

/// Tests FLUSH-8: a cleaner for which sessions wait looks only at as many pages as it needs to find
/// some that it can write, and at the whole list where there are none at its end.
#[test]
fn a_cleaner_looks_no_deeper_than_it_has_to() {
    const FRAMES: usize = 2048;
    let rig = rig(FRAMES as u32, FRAMES, DoublewriteMode::Off);
    (0..FRAMES as u32).for_each(|no| rig.change(no, 1));
    assert_eq!(rig.pool.free_frames(), 0);
    let flusher = rig.flusher(Arc::new(Threads));
    let mut waits = Box::pin(rig.pool.wait_frame());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending() && rig.pool.frame_freed.has_waiters());
    let mut depths = Vec::new();
    loop {
        let (claimed, depth) = flusher.claim_cold(8);
        if claimed.is_empty() {
            break assert!(depth >= FRAMES, "{depth}");
        }
        depths.push(depth);
    }
    // Each batch stays claimed, so the next one lies behind it.
    assert_eq!(depths[0], 32);
    assert!(depths.iter().any(|depth| *depth > 32), "{depths:?}");
    let looked_at: usize = depths.iter().sum();
    let found = rig.pool.pages().total;
    assert!(depths.len() > 1 && looked_at < depths.len() * found, "{depths:?}");
}

/// Tests FLUSH-9: sessions and cleaners ask for checkpoints all the time, and none comes before
/// time has passed.
#[test]
fn checkpoints_under_pressure_pause() {
    let rig = rig(10, 64, DoublewriteMode::Off);
    rig.log.pressed.store(true, SeqCst);
    let runtime = Arc::new(Stepped(rig.disk.clone()));
    let flusher = rig.flusher(runtime);
    let mut task = Box::pin(flusher.checkpoints());
    let mut cx = Context::from_waker(Waker::noop());
    let mut ask = || {
        rig.log.tail.fetch_add(100, SeqCst);
        rig.log.durable.fetch_add(100, SeqCst);
        flusher.notify();
        assert!(task.as_mut().poll(&mut cx).is_pending());
        rig.pool.counters.checkpoints.get()
    };
    let mut before = ask();
    for _ in 0..20 {
        rig.disk.now_ms.fetch_add(1, SeqCst);
        let after = ask();
        assert_eq!(after, before + 1);
        assert_eq!((ask(), ask()), (after, after), "without a pause");
        before = after;
    }
}
/// A runtime whose time is the disk's.
struct Stepped(Arc<MemDisk>);
impl crate::runtime::Runtime for Stepped {
    fn spawn(&self, _: &'static str, _: BoxFuture<()>) {
        unreachable!("the test polls the only task");
    }
    fn sleep(&self, time: std::time::Duration) -> BoxFuture<()> {
        let (disk, until) = (self.0.clone(), self.0.now_ms.load(SeqCst) + time.as_millis() as u64);
        Box::pin(std::future::poll_fn(move |_| match disk.now_ms.load(SeqCst) >= until {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

/// Two batches lie in the same doublewrite file, which is written through the page cache. The first
/// sync fails; the second one, which the kernel would let succeed, has not begun by then.
/// Tests FLUSH-6.
#[test]
fn syncs_of_a_doublewrite_file_in_the_page_cache_take_turns() {
    let disk = MemDisk::default();
    let file = disk.mem(DBLWR);
    file.page_cache.store(true, Relaxed);
    let config = DoublewriteConfig::default();
    let dblwr = Doublewrite::open(&disk, Path::new(""), &config, 4, LOG).unwrap();
    let segments = [0; 2].map(|_| dblwr.acquire().unwrap());
    let copies = || {
        let bytes = doublewrite::Copies::bytes(1);
        let mut copies = doublewrite::Copies::new(redolith_disk::AlignedBuf::new(bytes));
        let mut page = [1; PAGE_SIZE];
        header::set_id(&mut page, pid(16, 3));
        copies.push(pid(16, 3), &page);
        copies
    };
    let mut writes = segments.each_ref().map(|segment| Box::pin(dblwr.write(segment, copies())));
    let mut cx = Context::from_waker(Waker::noop());
    file.hold();
    assert!(writes.iter_mut().all(|write| write.as_mut().poll(&mut cx).is_pending()));
    assert_eq!(file.held(), 2);
    file.release();
    file.hold();
    assert!(writes.iter_mut().all(|write| write.as_mut().poll(&mut cx).is_pending()));
    assert_eq!(file.held(), 1, "one sync at a time");
    file.fail_sync.store(true, Relaxed);
    file.release();
    for write in writes {
        assert!(block_on(write).is_err());
    }
}

/// Tests FLUSH-5.
#[test]
#[should_panic(expected = "writing page 16:5 of space_16 (table t16) failed")]
fn a_failed_page_write_ends_the_process() {
    let rig = rig(10, 64, DoublewriteMode::Off);
    rig.change(5, 1);
    rig.disk.space(16).fail_writes.store(true, Relaxed);
    block_on(rig.writer.write(rig.claim(9), false));
}

/// FLUSH-3: there are more batches than segments, and a segment is reused only after a sync.
/// Tests DBLWR-1.
#[test]
fn the_ring_syncs_before_it_laps() {
    let rig = rig(40, 64, DoublewriteMode::On);
    for round in 0..12 {
        rig.change(round, 5);
        assert_eq!(block_on(rig.writer.write(rig.claim(9), false)), 1);
        assert!(rig.writer.sync_due());
    }
    let events = rig.disk.log.lock().clone();
    let (mut unsynced, mut used) = (Vec::new(), [false; 4]);
    for (name, what, offset) in events {
        match (name.as_str(), what) {
            (DBLWR, 'w') => {
                let segment = (offset / doublewrite::SEGMENT_BYTES) as usize;
                assert!(!unsynced.contains(&segment), "FLUSH-3");
                unsynced.push(segment);
                used[segment] = true;
            }
            ("space_16", 's') => unsynced.clear(),
            _ => {}
        }
    }
    assert_eq!(used, [true; 4]);
    assert!(rig.dblwr.acquire().is_none(), "all four wait for a sync");
}

/// In mode ATOMIC a file with atomic writes gets no copies, a file without them does, and so does a
/// file that turns out to refuse them: no page is ever written in place without one of the two.
#[test]
fn atomic_writes_fall_back_to_copies() {
    let rig = rig(100, 128, DoublewriteMode::Atomic);
    let (file, dblwr) = (rig.disk.space(16), rig.disk.mem(DBLWR));
    let batch = |expected: usize| {
        (0..10).for_each(|no| rig.change(no, 7));
        rig.disk.log.lock().clear();
        let (atomic, copied) = (file.atomic_writes.load(Relaxed), dblwr.writes.load(Relaxed));
        assert_eq!(block_on(rig.writer.write(rig.claim(20), false)), 10);
        block_on(rig.writer.sync());
        // The copies are durable before the last writes in place.
        let events = rig.disk.log.lock().clone();
        let last_copy = events.iter().rposition(|e| e.0 == DBLWR);
        let last_page = events.iter().rposition(|e| e.0 == "space_16" && e.1 == 'w');
        assert!(last_copy < last_page, "{events:?}");
        assert_eq!(rig.pool.counters.pages_written_atomically.get(), expected as u64);
        (file.atomic_writes.load(Relaxed) - atomic, dblwr.writes.load(Relaxed) - copied)
    };
    file.atomic.store(true, Relaxed);
    assert_eq!(batch(10), (10, 0), "a write for each page, and no copies");
    file.refuses_atomic.store(true, Relaxed);
    assert_eq!(batch(10), (10, 1), "refused, then copied");
    assert!(!file.atomic.load(Relaxed));
    assert_eq!(batch(10), (0, 1), "the file is known now");
    for no in 0..10 {
        let at = no * PAGE_SIZE;
        let page = file.bytes()[at..at + PAGE_SIZE].try_into().unwrap();
        assert_eq!(header::verify(&page, pid(16, no as u32)), Ok(()));
    }
}

/// In mode LEGACY a batch ends with the sync of its pages' files, and batches use one segment.
#[test]
fn legacy_batches_take_turns() {
    let rig = rig(40, 64, DoublewriteMode::Legacy);
    for round in 0..5 {
        rig.change(round, 5);
        assert_eq!(block_on(rig.writer.write(rig.claim(9), false)), 1);
        assert_eq!(rig.writer.unsynced(), 0);
    }
    let events = rig.disk.log.lock().clone();
    let expected = [(DBLWR, 'w'), (DBLWR, 's'), ("space_16", 'w'), ("space_16", 's')];
    let told: Vec<(&str, char)> = events.iter().map(|e| (e.0.as_str(), e.1)).collect();
    assert_eq!(told, expected.repeat(5));
    assert!(events.iter().filter(|e| e.0 == DBLWR).all(|e| e.2 == 0));
}

/// One flusher follows another on the same pool and doublewrite file, as at recovery: no page stays
/// counted as in flight, and no segment stays taken.
#[test]
fn a_stopped_flusher_leaves_nothing_unsettled() {
    let rig = rig(40, 64, DoublewriteMode::On);
    for round in 0..6 {
        let settings = FlushSettings::default();
        settings.checkpoint_interval_ms.set(1_000_000);
        let (pool, log) = (rig.pool.clone(), rig.log.clone());
        let flusher = Flusher::start(
            pool,
            log,
            rig.dblwr.clone(),
            rig.disk.clone(),
            Arc::new(Threads),
            Arc::new(settings),
            Arc::new(Source),
            2,
        );
        rig.change(round, 5);
        rig.disk.now_ms.fetch_add(1000, Relaxed);
        while rig.pool.dirty.pages() > 0 {
            // The server is idle: time passes, and the log does not move.
            rig.disk.now_ms.fetch_add(100, Relaxed);
            std::thread::yield_now();
        }
        block_on(flusher.stop());
        assert_eq!(rig.checkpointer.possible(), rig.log.durable());
    }
    assert!(rig.dblwr.acquire().is_some());
}

fn repaired(io: &MemDisk, dir: &Path, checkpoint: Lsn) -> crate::Result<Vec<Repaired>> {
    Copies::read(io, dir, checkpoint, Some(LOG))?.repair(io)
}
fn torn(new: &[u8], old: &[u8], cut: usize, new_first: bool) -> Vec<u8> {
    let (a, b) = if new_first { (new, old) } else { (old, new) };
    [&a[..cut], &b[cut..]].concat()
}

/// Tests DBLWR-3.
/// Tests PAGE-2 and REPAIR-2.
#[test]
fn pages_torn_at_every_sector_are_repaired() {
    let rig = rig(12, 64, DoublewriteMode::On);
    let old = rig.disk.space(16).bytes();
    (0..12).for_each(|no| rig.change(no, 0xAA));
    assert_eq!(block_on(rig.writer.write(rig.claim(99), false)), 12);
    let new = rig.disk.space(16).bytes();
    let (io, path) = (&*rig.disk, Path::new(""));
    assert_eq!(repaired(io, path, Lsn(1000)).unwrap(), []);
    for (no, new_first) in [(0, true), (7, false), (11, true)] {
        let at = no as usize * PAGE_SIZE;
        for cut in (512..PAGE_SIZE).step_by(512) {
            let page = torn(&new[at..at + PAGE_SIZE], &old[at..at + PAGE_SIZE], cut, new_first);
            rig.disk.space(16).write_at(&page, at as u64).unwrap();
            let repaired = repaired(io, path, Lsn(1000)).unwrap();
            assert_eq!(
                (repaired.len(), repaired[0].page, repaired[0].table.as_str()),
                (1, pid(16, no), "t16"),
                "cut {cut}"
            );
            assert!(repaired[0].to_string().contains("repaired from its doublewrite copy"));
            assert!(rig.disk.space(16).synced_bytes() == new, "cut {cut}");
        }
    }
    // A page of zeros (the write was lost and the growth kept) is repaired too; a page past the
    // file's end is left to redo.
    rig.disk.space(16).write_at(&[0; PAGE_SIZE], 4 * PAGE_SIZE as u64).unwrap();
    rig.disk.space(16).set_len(11 * PAGE_SIZE as u64).unwrap();
    assert_eq!(repaired(io, path, Lsn(1000)).unwrap().len(), 1);
    assert!(rig.disk.space(16).synced_bytes() == new[..11 * PAGE_SIZE]);
    // The space has been dropped.
    redolith_disk::Disk::remove(io, Path::new("space_16")).unwrap();
    assert_eq!(repaired(io, path, Lsn(1000)).unwrap(), []);
    assert_eq!(repaired(io, Path::new("none"), Lsn(0)).unwrap(), []);
}

/// REPAIR-1: a page is repaired from the youngest of its copies, not from a copy older than the
/// checkpoint, and not from a torn copy.
#[test]
fn only_whole_copies_past_the_checkpoint_repair() {
    let rig = rig(4, 64, DoublewriteMode::On);
    for byte in [1, 2, 3] {
        rig.change(1, byte);
        block_on(rig.writer.write(rig.claim(99), false));
    }
    let good = rig.disk.space(16).bytes();
    let (io, path, at) = (&*rig.disk, Path::new(""), PAGE_SIZE as u64);
    let damage = || rig.disk.space(16).write_at(&[0x77; 512], at + 512).unwrap();
    damage();
    assert_eq!(repaired(io, path, Lsn(1299)).unwrap()[0].copy, Some(Lsn(1300)));
    assert!(rig.disk.space(16).bytes() == good);
    damage();
    assert_eq!(
        repaired(io, path, Lsn(1300)).unwrap(),
        [],
        "all copies are older than the checkpoint"
    );
    assert!(matches!(
        block_on(pool(&rig.disk, 64).load(pid(16, 1))),
        Err(crate::Error::Corrupt { .. })
    ));
    // The youngest copy is torn. So the second write was synced, and a torn page can only come from
    // the first or the second write.
    rig.disk.mem(DBLWR).write_at(&[0x77; 512], 2 * doublewrite::SEGMENT_BYTES + 8192).unwrap();
    assert_eq!(repaired(io, path, Lsn(1000)).unwrap()[0].copy, Some(Lsn(1200)));
    // Entries of a torn header are ignored.
    damage();
    rig.disk.mem(DBLWR).write_at(&[0x77; 512], doublewrite::SEGMENT_BYTES).unwrap();
    assert_eq!(repaired(io, path, Lsn(1000)).unwrap()[0].copy, Some(Lsn(1100)));
}

/// Whether pages were written and the checkpoint moved while pages were changed.
fn enough(counters: &Counters) -> bool {
    counters.pages_written.get() > 500 && counters.checkpoints.get() > 5
}

/// In a small pool 8 threads load, create and change pages beside cleaners and checkpoints, and the
/// log fills up: nothing hangs, no change is lost, and no checkpoint passes a dirty page
/// (`FakeLog::write_checkpoint` checks this).
#[test]
fn everything_at_once_in_a_small_pool() {
    const PAGES: u32 = 300;
    const CHANGES: u64 = 600;
    let disk = Arc::new(MemDisk::default());
    disk.fill(16, PAGES);
    let pool = pool(&disk, 96);
    let log = FakeLog::new(&disk, 16 << 20);
    let config = DoublewriteConfig::default();
    let dblwr = Doublewrite::open(&*disk, Path::new(""), &config, 4, LOG).unwrap();
    let settings = FlushSettings::default();
    settings.checkpoint_interval_ms.set(1);
    let flusher = Flusher::start(
        pool.clone(),
        log.clone(),
        dblwr,
        disk.clone(),
        Arc::new(Threads),
        Arc::new(settings),
        Arc::new(Source),
        2,
    );
    let model: Arc<Vec<AtomicU64>> = Arc::new((0..PAGES).map(|_| AtomicU64::new(0)).collect());
    let threads: Vec<_> = (0..8usize)
        .map(|t| {
            let (pool, log, model, flusher, disk) =
                (pool.clone(), log.clone(), model.clone(), flusher.clone(), disk.clone());
            std::thread::spawn(move || {
                let mut x = t as u32 * 977 + 1;
                let mut turn = 0;
                // How soon enough pages are written depends on how the threads run.
                while turn < CHANGES || !enough(&pool.counters) {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let id = pid(16, (x >> 8) % PAGES);
                    disk.now_ms.fetch_add(u64::from(turn % 4 == 0), Relaxed);
                    // Up to three other pages are latched S first, in page order, before the page
                    // that changes.
                    let others: Vec<u32> = (1..=(x >> 28) % 4)
                        .map(|k| id.no.saturating_sub(k))
                        .filter(|&no| no < id.no)
                        .collect();
                    let held: Vec<_> = others
                        .iter()
                        .rev()
                        .map_while(|&no| pool.fix(pid(16, no), Latch::S).ok())
                        .collect();
                    let page = if (x >> 5).is_multiple_of(16) {
                        pool.create(id)
                    } else {
                        pool.fix(id, Latch::X)
                    };
                    match page {
                        Ok(mut page) => {
                            let count = model[id.no as usize].fetch_add(1, Relaxed) + 1;
                            page.bytes_mut()[1000..1008].copy_from_slice(&count.to_le_bytes());
                            log.change(&mut page, t, 10_000);
                        }
                        Err(blocked) => {
                            drop(held);
                            match blocked {
                                WouldBlock::Page(id) => block_on(pool.load(id)).unwrap(),
                                _ => block_on(pool.wait_frame()),
                            }
                            continue;
                        }
                    }
                    turn += 1;
                    drop(held);
                    while !log.has_room(10_000) {
                        // All threads may wait here, and no other thread makes time pass.
                        disk.now_ms.fetch_add(1, Relaxed);
                        flusher.notify();
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(block_on(flusher.sharp()), log.tail());
    block_on(flusher.stop());
    assert_eq!((log.changes.lock().len(), pool.dirty.pages()), (0, 0));
    assert!(log.tail().0 > 2 * log.capacity, "the log came round");
    let synced = disk.space(16).synced_bytes();
    for no in 0..PAGES {
        let page: &header::Page = synced[no as usize * PAGE_SIZE..].first_chunk().unwrap();
        assert_eq!(header::verify(page, pid(16, no)), Ok(()));
        let count = model[no as usize].load(Relaxed);
        let found = u64::from_le_bytes(page[1000..1008].try_into().unwrap());
        assert!(found == count || count == 0, "page {no}: {found} of {count} changes");
    }
    let pages = pool.pages();
    assert_eq!(pages.data + pages.free, 96);
    assert!(enough(&pool.counters));
}

//! Models of the dirty index: changes, cleaners, evictions and the checkpoint run at the same time.
//! The reservations of the log, the frames, the dirty index, the cleaner and the checkpoint are the
//! engine's own; the log's contents and the disk are left out.
use super::*;
use crate::buf::resize::{Left, Moved};
use crate::buf::testing::{MemDisk, Threads, pid};
use crate::buf::{BufConfig, BufferPool, Latch};
use crate::checkpoint::{CheckpointSource, Checkpointer};
use crate::log::Reservations;
use crate::page::header;
use crate::runtime::BoxFuture;
use crate::runtime::block_on;
use crate::sync::loom_model::explore;
use crate::{PAGE_SIZE, PageId};
use loom::thread;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

/// A log as far as the checkpoint needs it. All of it is durable.
struct Frames {
    order: Reservations,
    /// (start, end, page) of each change.
    changes: Mutex<Vec<(Lsn, Lsn, PageId)>>,
}
/// A frame is as long as the span of one bucket of the dirty index.
const FRAME: u64 = 4096;
impl LogView for Frames {
    fn tail(&self) -> Lsn {
        Lsn(self.order.tail())
    }
    fn dirty_low(&self) -> Lsn {
        Lsn(self.order.dirty_low())
    }
    fn durable(&self) -> Lsn {
        Lsn::MAX
    }
    fn checkpoint(&self) -> Lsn {
        Lsn(0)
    }
    fn usable_bytes(&self) -> u64 {
        FRAME
    }
    fn flush_to(&self, _: Lsn) -> BoxFuture<()> {
        unreachable!("it is durable")
    }
    fn pressure(&self) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }
    fn write_checkpoint(&self, _: Lsn, _: &[u8]) {}
}
struct NoSource;
impl CheckpointSource for NoSource {
    fn payload(&self, _: Lsn) -> Vec<u8> {
        Vec::new()
    }
}

struct Model {
    disk: Arc<MemDisk>,
    pool: Arc<BufferPool>,
    log: Arc<Frames>,
    writer: Writer,
    checkpointer: Checkpointer,
}
const P: PageId = PageId { space: crate::SpaceId(1), no: 0 };
const Q: PageId = PageId { space: crate::SpaceId(1), no: 1 };

impl Model {
    /// Two clean pages, on disk and in memory.
    fn new() -> Arc<Model> {
        Model::of(2)
    }
    /// The same, with so many frames.
    fn of(frames: usize) -> Arc<Model> {
        let disk = Arc::new(MemDisk::default());
        disk.fill(1, 2);
        let config = BufConfig { frames, ..BufConfig::new(0, FRAME) };
        let pool = BufferPool::new(&config, disk.clone(), disk.clone()).unwrap();
        let log =
            Arc::new(Frames { order: Reservations::new(FRAME, 3), changes: Mutex::default() });
        let off = DoublewriteConfig { mode: DoublewriteMode::Off, ..Default::default() };
        let doublewrite = Doublewrite::open(&*disk, Path::new(""), &off, 1, 1).unwrap();
        let writer = Writer::new(pool.clone(), log.clone(), Arc::new(Threads), doublewrite);
        let checkpointer = Checkpointer::new(pool.clone(), log.clone(), Arc::new(NoSource));
        [P, Q].iter().for_each(|&id| drop(pool.create(id).unwrap()));
        Arc::new(Model { disk, pool, log, writer, checkpointer })
    }
    /// Runs a mini-transaction with the steps of `Log::append`, or nothing if the page is not in
    /// memory.
    fn change(&self, thread: usize, id: PageId) {
        let Ok(mut page) = self.pool.fix(id, Latch::X) else { return };
        let seat = self.log.order.seat_no(thread);
        let start = seat.reserve(&self.log.order, FRAME);
        let (start, end) = (Lsn(start), Lsn(start + FRAME));
        self.log.changes.lock().push((start, end, id));
        seat.copied();
        page.mark_dirty(start, end);
        seat.entered(FRAME);
    }
    /// Runs one round of a cleaner.
    fn clean(&self) {
        let claimed = self.pool.dirty.claim_oldest(&self.pool.frames, 1);
        block_on(async {
            self.writer.write(claimed, true).await;
            self.writer.sync().await;
        });
    }
    /// LSN of a page in its file, as the file is now or as a crash would leave it.
    fn on_disk(&self, id: PageId, synced: bool) -> Lsn {
        let file = self.disk.space(id.space.0);
        let bytes = if synced { file.synced_bytes() } else { file.bytes() };
        header::lsn(bytes[id.no as usize * PAGE_SIZE..].first_chunk().unwrap())
    }
    /// How far a checkpoint would go, and the LSNs of the pages that a crash right after it would
    /// leave.
    fn look(&self) -> (Lsn, [Lsn; 2]) {
        (self.checkpointer.possible(), [P, Q].map(|id| self.on_disk(id, true)))
    }
    /// Checks CKPT-1 and DIRTY-1: each change below the checkpoint is in the pages that the crash
    /// left. The check runs at the end, when all changes are known.
    fn judge(&self, (checkpoint, left): (Lsn, [Lsn; 2])) {
        for &(start, end, id) in &*self.log.changes.lock() {
            assert!(
                start >= checkpoint || left[id.no as usize] >= end,
                "CKPT-1: {checkpoint} passes {start}..{end} of page {id}"
            );
        }
    }
    fn start(self: &Arc<Self>, f: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
        let model = self.clone();
        thread::spawn(move || f(&model))
    }
}

/// A page becomes dirty while the checkpoint is computed.
#[test]
fn loom_a_checkpoint_beside_a_change() {
    explore(4, || {
        let m = Model::new();
        let change = m.start(|m| m.change(0, P));
        let seen = m.look();
        change.join().unwrap();
        m.judge(seen);
        assert_eq!(m.checkpointer.possible(), Lsn(FRAME), "the page is dirty");
    });
}
/// One thread changes two pages one after the other, and another thread changes a page beside it.
/// Tests DIRTY-2.
#[test]
fn loom_a_checkpoint_beside_changes_of_two() {
    explore(2, || {
        let m = Model::new();
        let (one, other) = (m.start(|m| m.change(0, P)), m.start(|m| m.change(1, Q)));
        let seen = m.look();
        one.join().unwrap();
        other.join().unwrap();
        m.judge(seen);
    });
}
/// DIRTY-1: a dirty page is copied, written and synced, while it changes again and the checkpoint
/// is computed.
#[test]
fn loom_a_checkpoint_beside_a_cleaner_and_a_change() {
    explore(2, || {
        let m = Model::new();
        m.change(0, P);
        let (clean, change) = (m.start(Model::clean), m.start(|m| m.change(0, P)));
        let seen = m.look();
        clean.join().unwrap();
        change.join().unwrap();
        m.judge(seen);
        m.judge(m.look());
        // The pages that the cleaner left are written; then nothing holds the checkpoint back.
        m.clean();
        m.judge(m.look());
        assert_eq!(m.checkpointer.possible(), Lsn(3 * FRAME));
    });
}
/// BUF-2: a page that becomes dirty stays in memory, or was evicted before.
/// Tests PIN-3.
#[test]
fn loom_a_page_is_evicted_while_it_is_changed() {
    explore(3, || {
        let m = Model::new();
        m.change(0, Q);
        let change = m.start(|m| m.change(1, P));
        let made = m.pool.create(pid(1, 2)).is_ok();
        change.join().unwrap();
        assert_ne!(made, m.pool.contains(P));
        assert_eq!(
            m.log.changes.lock().len(),
            if made { 1 } else { 2 },
            "BUF-2: a change was thrown away"
        );
    });
}
/// BUF-2, PIN-4: a page that was dirty is evicted only when its file has the changes, so a later
/// reader of the file sees them.
#[test]
fn loom_a_page_is_evicted_while_a_cleaner_writes_it() {
    explore(3, || {
        let m = Model::new();
        m.change(0, Q);
        m.change(0, P);
        let clean = m.start(|m| {
            m.clean();
            m.clean();
        });
        let made = m.pool.create(pid(1, 2)).is_ok();
        for id in [P, Q].into_iter().filter(|&id| made && !m.pool.contains(id)) {
            assert_eq!(
                m.on_disk(id, false),
                m.log.changes.lock().iter().find(|c| c.2 == id).unwrap().1,
                "BUF-2: page {id}"
            );
        }
        clean.join().unwrap();
    });
}
/// PIN-4, DIRTY-1: a dirty page moves to another frame while a cleaner writes it.
#[test]
fn loom_a_page_moves_while_a_cleaner_writes_it() {
    explore(3, || {
        let m = Model::of(3);
        m.change(0, P);
        let at = m.pool.fix(P, Latch::S).unwrap().frame().0;
        let clean = m.start(Model::clean);
        let mut left = Left::default();
        let moved = m.pool.move_page(at, &mut left);
        let seen = m.look();
        clean.join().unwrap();
        assert!(!m.pool.give_left(&mut left));
        m.judge(seen);
        m.clean();
        m.judge(m.look());
        assert_eq!(m.checkpointer.possible(), Lsn(2 * FRAME), "the page is clean");
        assert_eq!(m.on_disk(P, true), Lsn(2 * FRAME));
        let page = m.pool.fix(P, Latch::S).unwrap();
        assert_eq!((page.lsn(), page.is_dirty()), (Lsn(2 * FRAME), false));
        assert_eq!(page.frame().0 != at, matches!(moved, Moved::To(_)));
    });
}

//! The checkpoint: the position from which recovery reads the redo log. Every change below it is
//! durable in the data files.
//!
//! CKPT-1: the checkpoint never passes a change that is not yet in its data file and synced, a
//! frame whose pages are not yet in the dirty index, the end of the last frame that is durable
//! (WRITER-5), or the position from which the source (the binary log) still needs the redo log.
//!
//! **The order of reading is tail, slots, buckets.** A frame below the tail that was read announced
//! itself in its slot before it reserved its place. Either the slot still shows the frame when the
//! slots are read, and holds the checkpoint back. Or the slot was cleared, which happens after the
//! frame's pages entered the dirty index, and then the buckets, which are read last, show the
//! pages. Frames at or above the tail are above the checkpoint. The other order loses frames: if a
//! page enters a bucket just after the bucket was read, and the frame's slot is cleared just before
//! the slot is read, neither shows the frame. A page leaves its bucket only after its file was
//! synced, so that a bucket may be read late but not early.
use crate::Lsn;
use crate::buf::BufferPool;
use crate::canary::{Canary, planted};
use crate::flush::LogView;
use parking_lot::Mutex;
use std::sync::Arc;

/// The data to store with a checkpoint, and a reason other than pages to hold the checkpoint back.
pub(crate) trait CheckpointSource: Send + Sync + 'static {
    /// The position from which the redo log is still needed for another reason than pages (the
    /// binary log); `Lsn::MAX` if there is none.
    fn limit(&self) -> Lsn {
        Lsn::MAX
    }
    /// The data that recovery is to find with a checkpoint at `lsn`. It may be newer than the
    /// checkpoint: it is read after [`CheckpointSource::limit`].
    fn payload(&self, lsn: Lsn) -> Vec<u8>;
}

pub(crate) struct Checkpointer {
    pool: Arc<BufferPool>,
    log: Arc<dyn LogView>,
    source: Arc<dyn CheckpointSource>,
    /// Held through the write of a checkpoint, so that checkpoints are written one at a time and
    /// only go up.
    writing: Mutex<()>,
}

impl Checkpointer {
    pub(crate) fn new(
        pool: Arc<BufferPool>,
        log: Arc<dyn LogView>,
        source: Arc<dyn CheckpointSource>,
    ) -> Checkpointer {
        Checkpointer { pool, log, source, writing: Mutex::new(()) }
    }
    /// How far the checkpoint may go now (CKPT-1).
    pub(crate) fn possible(&self) -> Lsn {
        let tail = self.log.tail();
        let slots = self.log.dirty_low();
        let buckets =
            if planted(Canary::CheckpointTooFar) { Lsn::MAX } else { self.pool.oldest_dirty() };
        tail.min(slots).min(buckets).min(self.log.durable_frames()).min(self.source.limit())
    }
    /// Whether a checkpoint now, without a sync, would free at least `bytes` of redo log.
    pub(crate) fn would_gain(&self, bytes: u64) -> bool {
        self.possible().0.saturating_sub(self.log.checkpoint().0) >= bytes
    }
    /// Writes a checkpoint at the highest possible position. The caller has synced the files whose
    /// changes are to count. Returns the position of the latest checkpoint.
    pub(crate) fn write(&self) -> Lsn {
        let _one = self.writing.lock();
        let (last, lsn) = (self.log.checkpoint(), self.possible());
        if lsn <= last {
            return last;
        }
        self.log.write_checkpoint(lsn, &self.source.payload(lsn));
        self.pool.counters.checkpoints.add(1);
        lsn
    }
    /// Stores the source's data with the latest checkpoint, which stays where it is. Waits for the
    /// disk on this thread.
    pub(crate) fn write_payload(&self) {
        let _one = self.writing.lock();
        let lsn = self.log.checkpoint();
        self.log.write_checkpoint(lsn, &self.source.payload(lsn));
    }
}

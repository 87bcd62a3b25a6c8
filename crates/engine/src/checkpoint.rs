//! The checkpoint: the position from which recovery reads the log. Every change below it is durable
//! in the data files.
//!
//! CKPT-1: the checkpoint never passes a change that is not in its data file and synced, a frame
//! whose pages are not in the dirty index yet, the durable log, or what the source (binary log)
//! still needs.
//!
//! **The order of reading is tail, slots, buckets.** A frame below the tail that was read has
//! announced itself in its slot before it reserved; so either its slot still shows when the slots
//! are read, and holds the checkpoint back, or the slot was cleared, which happens after its pages
//! entered the dirty index, and the buckets, read last, show them. Frames at or above the tail are
//! above the checkpoint. The other order loses frames: a page that enters a bucket just after it
//! was read, by a frame whose slot is cleared just before it is read, is seen in neither. A page
//! leaves its bucket only after its file was synced, so that a bucket may be read late but not
//! early.
use crate::Lsn;
use crate::buf::BufferPool;
use crate::canary::{Canary, planted};
use crate::flush::LogView;
use parking_lot::Mutex;
use std::sync::Arc;

/// What is stored with a checkpoint, and what else holds it back.
pub(crate) trait CheckpointSource: Send + Sync + 'static {
    /// The log from here on is still needed for other reasons than pages (binary log); MAX if it is
    /// not.
    fn limit(&self) -> Lsn {
        Lsn::MAX
    }
    /// What recovery wants to find with a checkpoint at `lsn`.
    fn payload(&self, lsn: Lsn) -> Vec<u8>;
}

pub(crate) struct Checkpointer {
    pool: Arc<BufferPool>,
    log: Arc<dyn LogView>,
    source: Arc<dyn CheckpointSource>,
    /// One checkpoint is written at a time, so that they only go up.
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
        tail.min(slots).min(buckets).min(self.log.durable()).min(self.source.limit())
    }
    /// Whether a checkpoint now would free that much log, without a sync.
    pub(crate) fn would_gain(&self, bytes: u64) -> bool {
        self.possible().0.saturating_sub(self.log.checkpoint().0) >= bytes
    }
    /// Writes a checkpoint as far as possible; the caller has synced what it wants to count.
    /// Returns the position it is at.
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
}

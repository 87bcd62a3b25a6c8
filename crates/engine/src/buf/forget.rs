//! Forgetting the pages of a space that has been dropped.
//!
//! FORGET-1: meanwhile no page of the space moves to another frame, which the walk may have passed.
use super::frame::{FrameRef, NO_PAGE, unpack};
use super::guard::Latch;
use super::pool::Pool;
use crate::{Lsn, SpaceId};
use std::sync::atomic::Ordering::*;

/// The most frames that one part looks at: this takes some hundred microseconds.
const PART: u32 = 4096;

/// The pages of a space are being forgotten, in parts, between which the caller lets others run.
/// Nobody uses the pages any more, except perhaps a cleaner.
pub(crate) struct Forgetting<'a> {
    pool: &'a Pool,
    space: SpaceId,
    durable: Lsn,
    instance: usize,
    /// The next frame of the instance.
    at: u32,
    stays: Option<Lsn>,
}

impl Pool {
    /// Begins to forget the pages of a space. Pages stay whose changes are past `durable`, the
    /// durable end of the redo log: they hold back the checkpoint, which must not end inside a log
    /// frame.
    pub(crate) fn begin_forgetting(&self, space: SpaceId, durable: Lsn) -> Forgetting<'_> {
        self.forgotten.lock().push(space);
        self.cancel_loads(space);
        let at = self.instances[0].first;
        Forgetting { pool: self, space, durable, instance: 0, at, stays: None }
    }
    /// Forgets the pages of a space in one go. Returns the greatest LSN of the pages that stay.
    #[must_use = "what stays is to be dropped later"]
    pub fn drop_space(&self, space: SpaceId, durable: Lsn) -> Option<Lsn> {
        let mut forgetting = self.begin_forgetting(space, durable);
        while forgetting.part() {}
        forgetting.end()
    }
}

impl Forgetting<'_> {
    /// Looks at some frames. Returns true if there are more.
    pub(crate) fn part(&mut self) -> bool {
        let used = self.pool.instances[self.instance].used();
        let end = used.end.min(self.at + PART);
        (self.at..end).for_each(|index| self.forget(index));
        self.at = end;
        if end == used.end {
            self.instance += 1;
            match self.pool.instances.get(self.instance) {
                Some(next) => self.at = next.first,
                None => return false,
            }
        }
        true
    }
    fn forget(&mut self, index: u32) {
        let (pool, frame) = (self.pool, self.pool.frames.get(index));
        let packed = frame.id.load(Acquire);
        if packed == NO_PAGE || (packed >> 32) as u32 != self.space.0 {
            return;
        }
        let Some(guard) = pool.fix_at(FrameRef(index), unpack(packed), Latch::X) else { return };
        if frame.is_dirty() {
            if guard.lsn() > self.durable {
                self.stays = self.stays.max(Some(guard.lsn()));
                return;
            }
            pool.dirty.take_out(&pool.frames, index, false);
        }
        drop(guard);
        // A page that is being written is evicted later, like any clean page.
        pool.evict_page(index, packed);
    }
    /// Ends the walk. Returns the greatest LSN of the pages that stay.
    #[must_use = "what stays is to be dropped later"]
    pub(crate) fn end(self) -> Option<Lsn> {
        self.pool.frame_freed.notify();
        self.stays
    }
}
impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        let mut forgotten = self.pool.forgotten.lock();
        if let Some(at) = forgotten.iter().position(|space| *space == self.space) {
            forgotten.swap_remove(at);
        }
    }
}

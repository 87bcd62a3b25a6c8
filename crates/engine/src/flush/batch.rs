//! Turns claimed pages into copies that can be written.
use super::Writer;
use super::doublewrite::{Copies, SEGMENT_PAGES};
use crate::Lsn;
use crate::page::header;
use parking_lot::lock_api::RawRwLock;
use redolith_disk::AlignedBuf;
use std::sync::atomic::Ordering::*;

/// Pages handled before other tasks get a turn: some 50 us.
const TURN: usize = 16;

/// The copies of a batch, and the entries to finish when the pages are durable in their files.
pub(super) struct Batch {
    pub copies: Copies,
    /// The copied frames, in the order of the copies; this task alone writes them (PIN-4).
    pub frames: Vec<u32>,
    /// Start LSNs under which the dirty index still counts the pages.
    pub starts: Vec<Lsn>,
}

impl Writer {
    /// Copies claimed pages, in the order of their place on disk, and stamps the copies. With
    /// `wait` it waits for latches; otherwise a page whose latch is taken stays dirty.
    pub(super) async fn copy(&self, mut claimed: Vec<u32>, wait: bool) -> Batch {
        assert!(claimed.len() <= SEGMENT_PAGES);
        let frames = &self.pool.frames;
        claimed.sort_unstable_by_key(|&index| frames.get(index).id.load(Relaxed));
        let mut batch = Batch {
            copies: Copies::new(self.buffer(claimed.len())),
            frames: Vec::with_capacity(claimed.len()),
            starts: Vec::with_capacity(claimed.len()),
        };
        for turn in claimed.chunks(TURN) {
            turn.iter().for_each(|&index| self.copy_page(index, wait, &mut batch));
            self.runtime.yield_now().await;
        }
        for first in (0..batch.frames.len()).step_by(TURN) {
            for n in first..batch.frames.len().min(first + TURN) {
                header::stamp(batch.copies.page_mut(n));
            }
            self.runtime.yield_now().await;
        }
        batch
    }
    fn copy_page(&self, index: u32, wait: bool, batch: &mut Batch) {
        let frame = self.pool.frames.get(index);
        assert!(frame.writing.load(Relaxed), "PIN-4");
        let latched = frame.latch.try_lock_shared() || {
            if wait {
                frame.latch.lock_shared();
            }
            wait
        };
        // A page is not dirty any more if its space was dropped.
        let take = latched && frame.is_dirty();
        if take {
            // SAFETY: S-latched.
            batch.copies.push(frame.page_id(), unsafe { frame.page() });
            batch.frames.push(index);
            batch.starts.push(self.pool.dirty.take_out(&self.pool.frames, index, true));
        } else {
            frame.writing.store(false, Release);
        }
        if latched {
            // SAFETY: latched above.
            unsafe { frame.latch.unlock_shared() };
        }
    }
    /// Memory for `pages` copies, taken from an earlier batch if the size fits.
    fn buffer(&self, pages: usize) -> AlignedBuf {
        let bytes = Copies::bytes(pages);
        let mut spare = self.buffers.lock();
        match spare.iter().position(|b| b.len() == bytes) {
            Some(i) => spare.swap_remove(i),
            None => AlignedBuf::new(bytes),
        }
    }
    pub(super) fn give_buffer(&self, buf: AlignedBuf) {
        let mut spare = self.buffers.lock();
        if spare.len() < 4 && buf.len() == Copies::bytes(SEGMENT_PAGES) {
            spare.push(buf);
        }
    }
}

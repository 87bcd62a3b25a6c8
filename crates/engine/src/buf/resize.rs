//! The steps by which the pool grows and shrinks while it is used. One task at a time takes them
//! ([`crate::pool_resize`]).
//!
//! The pool grows in two steps: the page table gets more heads, then each instance gets further
//! frames, whose memory is not resident before they are used. It shrinks in parts of some frames at
//! the high end of an instance. A free frame is taken off the free list. A page moves to another
//! frame of its instance, for which the coldest page is evicted if none is free. Then the part's
//! memory is given back.
//!
//! RESIZE-1: a page that moves is in the pool all the time: who looks for it finds it in one of the
//! two frames, or waits for a latch that the move holds for the time of a copy.
//! RESIZE-2: no step takes longer than some hundred frames do, and none waits for the disk.
use super::frame::{FrameRef, NO_PAGE, pack, unpack};
use super::guard::{Latch, PageGuard};
use super::lru::{OLD, Standing, YOUNG};
use super::pool::{LEAST_FRAMES, Pool};
use super::share::HUGE_FRAMES;
use crate::{PageId, Result};
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering::*;

/// The frames at the high end of an instance that are being withdrawn.
pub(crate) struct Withdrawal {
    instance: usize,
    frames: Range<u32>,
}
/// Frames whose pages have moved while threads waited for their latches (PIN-5).
#[derive(Default)]
pub(crate) struct Left(Vec<u32>);

/// How far one step came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The frames are withdrawn, and their memory is given back.
    Done,
    /// Some frames are in use, or pages on them are being written or read.
    Busy,
    /// No page can be evicted before a cleaner has written it.
    NoFrame,
}
/// What became of a page that was to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is in this frame.
    To(u32),
    /// It is being written or made, it has just gone, or its space is being forgotten.
    Not,
    NoFrame,
}

impl Pool {
    /// The fewest and the most frames that the pool may have.
    pub(crate) fn sizes(&self) -> RangeInclusive<u32> {
        LEAST_FRAMES * self.instances.len() as u32..=self.shares.most()
    }
    pub(crate) fn instances(&self) -> usize {
        self.instances.len()
    }
    /// The frames that each instance has at present.
    pub(super) fn frame_ranges(&self) -> Vec<Range<u32>> {
        let ends = self.instances.iter().map(|instance| instance.lists.lock().end());
        ends.enumerate().map(|(i, end)| self.shares.first(i)..end).collect()
    }

    /// Whether the page table is too small for `frames` frames and begins to grow. Then the caller
    /// repeats [`Pool::grow_table`] for each of these shards until it is done, and ends the growth.
    pub(crate) fn begin_table_growth(&self, frames: u32) -> Result<Option<usize>> {
        Ok(self.table.begin_growth(frames)?.then(|| self.table.shards()))
    }
    /// Divides some chains of a shard. Returns true if there are more.
    pub(crate) fn grow_table(&self, shard: usize) -> bool {
        self.table.split_part(&self.frames, shard)
    }
    pub(crate) fn end_table_growth(&self) {
        self.table.end_growth();
    }
    /// Gives instances that have less than their share of `frames` frames the rest. The page table
    /// is large enough for them. Fails, and changes nothing, where the system has not so much
    /// memory.
    pub(crate) fn grow(&self, frames: u32) -> Result<()> {
        for (i, instance) in self.instances.iter().enumerate() {
            let (end, wanted) = (instance.lists.lock().end(), self.shares.end(i, frames));
            self.frames.allow(end..wanted.max(end))?;
        }
        for (i, instance) in self.instances.iter().enumerate() {
            let (mut lists, wanted) = (instance.lists.lock(), self.shares.end(i, frames));
            if lists.end() < wanted {
                self.size.fetch_add(wanted - lists.end(), Relaxed);
                lists.grow(wanted);
            }
        }
        self.frame_freed.notify();
        Ok(())
    }
    /// The next frames to withdraw of an instance on the way to `frames` frames; `None` if it has
    /// no more than its share. The parts end where huge pages do.
    pub(crate) fn begin_withdrawal(&self, instance: usize, frames: u32) -> Option<Withdrawal> {
        let wanted = self.shares.end(instance, frames);
        let mut lists = self.instances[instance].lists.lock();
        let before = lists.end();
        if before > wanted {
            lists.drop_fresh(wanted);
        }
        let until = lists.end();
        self.size.fetch_sub(before - until, Relaxed);
        if until <= wanted {
            return None;
        }
        let end = wanted.max((until - 1) / HUGE_FRAMES * HUGE_FRAMES);
        lists.shrink(end);
        Some(Withdrawal { instance, frames: end..until })
    }
    /// Goes on with a withdrawal. The caller repeats this until it is done, and lets others run
    /// meanwhile.
    pub(crate) fn withdraw(&self, part: &Withdrawal, left: &mut Left) -> Step {
        let Some(pages) = self.withdraw_free(part) else { return Step::Done };
        let no_frame = pages.into_iter().any(|index| self.move_page(index, left) == Moved::NoFrame);
        self.give_left(left);
        match self.withdraw_free(part) {
            None => Step::Done,
            Some(_) if no_frame => Step::NoFrame,
            Some(_) => Step::Busy,
        }
    }
    /// Withdraws the free frames of a part. Returns those with pages; or `None` if all are
    /// withdrawn, which ends the withdrawal.
    fn withdraw_free(&self, part: &Withdrawal) -> Option<Vec<u32>> {
        let (mut pages, mut all) = (Vec::new(), true);
        let mut lists = self.instances[part.instance].lists.lock();
        for index in part.frames.clone() {
            let standing = lists.withdraw(&self.frames, index);
            all &= standing == Standing::Withdrawn;
            if standing == Standing::Page {
                pages.push(index);
            }
        }
        if !all {
            return Some(pages);
        }
        lists.withdrawn();
        self.instances[part.instance].note_use(&lists);
        drop(lists);
        self.size.fetch_sub(part.frames.len() as u32, Relaxed);
        // SAFETY: withdrawn frames are reserved, and only the caller's task can give them out
        // again.
        unsafe { self.frames.discard(part.frames.clone()) };
        None
    }
    /// Gives up a withdrawal: the pool keeps the frames.
    pub(crate) fn give_up(&self, part: &Withdrawal) {
        let mut lists = self.instances[part.instance].lists.lock();
        lists.give_up_shrinking(&self.frames, part.frames.end);
        drop(lists);
        self.frame_freed.notify();
    }
    /// Gives those frames back whose pages have moved and which no thread has pinned any more.
    /// Returns whether there are others.
    pub(crate) fn give_left(&self, left: &mut Left) -> bool {
        left.0.retain(|&index| {
            let reserved = self.frames.get(index).try_reserve_left();
            if reserved {
                self.give_frame(index);
            }
            !reserved
        });
        !left.0.is_empty()
    }

    /// Moves the page of a frame to another frame of the same instance (RESIZE-1).
    pub(crate) fn move_page(&self, from: u32, left: &mut Left) -> Moved {
        let (frame, instance) = (self.frames.get(from), self.owner(from));
        let packed = frame.id.load(Acquire);
        if packed == NO_PAGE || frame.writing.load(Acquire) {
            return Moved::Not;
        }
        let Some(to) = instance.take(self) else { return Moved::NoFrame };
        let id = unpack(packed);
        // PIN-5: both latches are held until the page has moved.
        let moved = self.fix_at(FrameRef(from), id, Latch::X).is_some_and(|old| {
            let new = PageGuard::lock(self, to, self.frames.get(to), Latch::X);
            // SAFETY: the frame is reserved by us.
            unsafe { self.frames.get(to).page_mut() }.copy_from_slice(&old[..]);
            let moved = self.exchange(from, to, id);
            drop(new);
            moved
        });
        if !moved {
            self.give_frame(to);
            return Moved::Not;
        }
        self.counters.pages_moved.add(1);
        left.0.push(from);
        Moved::To(to)
    }
    /// Lets frame `to` take the place of frame `from`, which has page `id`. The caller has the X
    /// latches of both. Returns false, and changes nothing, if another task has to do with the
    /// frame.
    fn exchange(&self, from: u32, to: u32, id: PageId) -> bool {
        let (old, new) = (self.frames.get(from), self.frames.get(to));
        // FORGET-1
        let forgotten = self.forgotten.lock();
        if forgotten.contains(&id.space) {
            return false;
        }
        let mut lists = self.owner(from).lists.lock();
        // Who has made or read the page puts it into a list by its frame.
        let listed = matches!(old.lru_list.load(Relaxed), YOUNG | OLD);
        let mut shard = self.table.lock(id);
        if !listed || !self.dirty.hand_over(&self.frames, from, to) {
            return false;
        }
        new.first_access.store(old.first_access.load(Relaxed), Relaxed);
        new.last_access.store(old.last_access.load(Relaxed), Relaxed);
        new.publish(pack(id));
        shard.replace(&self.frames, from, to);
        old.id.store(NO_PAGE, Release);
        old.version.fetch_add(1, Relaxed);
        lists.replace(&self.frames, from, to);
        true
    }
}

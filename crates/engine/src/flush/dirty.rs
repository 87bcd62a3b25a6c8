//! The dirty index holds the pages with changes that are not on disk. Pages are in buckets by the
//! place in the redo log where their oldest such change begins (`lsn >> shift`: a bucket per MiB,
//! or less in a small log).
//!
//! Entering a page costs a commit one short leaf mutex and two links. The pages in a bucket have no
//! order and need none: the checkpoint wants the oldest bucket that is not empty, and cleaners want
//! pages that are roughly the oldest.
//!
//! DIRTY-1: a page with a change that is not durable in its data file is counted in the bucket of
//! that change or of an older change: as `listed` until a cleaner has copied the page, then as
//! `in_flight` until the data file has been synced after the write.
//! DIRTY-2: `low` is at most the oldest start counted in the bucket, and MAX only if the bucket
//! counts nothing.
//!
//! The buckets form a ring as long as the log. If the log is longer (its capacity was raised),
//! places a lap apart share a bucket: the order of writing suffers, but DIRTY-2 holds.
//!
//! Lock order: a bucket's mutex is a leaf.
use crate::Lsn;
use crate::buf::frame::{CLEAN, Frame, Frames, NONE};
use crate::sync::buf::{AtomicU64, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering::*};

const LEAST_BUCKETS: u64 = if cfg!(loom) { 4 } else { 64 };

#[repr(align(64))]
struct Bucket {
    low: AtomicU64,
    list: Mutex<List>,
}
struct List {
    head: u32,
    tail: u32,
    listed: u32,
    in_flight: u32,
}
impl List {
    fn push(&mut self, frames: &Frames, index: u32) {
        let frame = frames.get(index);
        frame.dirty_prev.store(NONE, Relaxed);
        frame.dirty_next.store(self.head, Relaxed);
        match self.head {
            NONE => self.tail = index,
            head => frames.get(head).dirty_prev.store(index, Relaxed),
        }
        self.head = index;
        self.listed += 1;
    }
    fn remove(&mut self, frames: &Frames, frame: &Frame) {
        let (prev, next) = (frame.dirty_prev.load(Relaxed), frame.dirty_next.load(Relaxed));
        match prev {
            NONE => self.head = next,
            prev => frames.get(prev).dirty_next.store(next, Relaxed),
        }
        match next {
            NONE => self.tail = prev,
            next => frames.get(next).dirty_prev.store(prev, Relaxed),
        }
        self.listed -= 1;
    }
    fn replace(&mut self, frames: &Frames, from: u32, to: u32) {
        let (frame, new) = (frames.get(from), frames.get(to));
        let (prev, next) = (frame.dirty_prev.load(Relaxed), frame.dirty_next.load(Relaxed));
        new.dirty_prev.store(prev, Relaxed);
        new.dirty_next.store(next, Relaxed);
        match prev {
            NONE => self.head = to,
            prev => frames.get(prev).dirty_next.store(to, Relaxed),
        }
        match next {
            NONE => self.tail = to,
            next => frames.get(next).dirty_prev.store(to, Relaxed),
        }
    }
}

pub(crate) struct DirtyIndex {
    buckets: Box<[Bucket]>,
    shift: u32,
    pages: AtomicUsize,
}

impl DirtyIndex {
    /// Makes an index for a redo log that holds `log_bytes` between checkpoint and tail.
    pub(crate) fn new(log_bytes: u64) -> DirtyIndex {
        let shift = (log_bytes / 256).max(1).ilog2().clamp(12, 20);
        // A server's log may be enlarged later; spare buckets for that cost nothing.
        let least = if log_bytes >= 8 << 20 { 2048 } else { LEAST_BUCKETS };
        let count = ((log_bytes >> shift) + 2).next_power_of_two().clamp(least, 16384);
        let bucket = |_| Bucket {
            low: AtomicU64::new(u64::MAX),
            list: Mutex::new(List { head: NONE, tail: NONE, listed: 0, in_flight: 0 }),
        };
        DirtyIndex { buckets: (0..count).map(bucket).collect(), shift, pages: AtomicUsize::new(0) }
    }
    fn bucket(&self, start: u64) -> &Bucket {
        &self.buckets[(start >> self.shift) as usize & (self.buckets.len() - 1)]
    }
    /// Pages with changes that no cleaner has copied yet.
    pub(crate) fn pages(&self) -> usize {
        self.pages.load(Relaxed)
    }
    /// Enters a clean page, whose first change begins at `start`. The caller has the page's X
    /// latch.
    pub(crate) fn enter(&self, frames: &Frames, index: u32, start: Lsn) {
        let bucket = self.bucket(start.0);
        let mut list = bucket.list.lock();
        if start.0 < bucket.low.load(Relaxed) {
            bucket.low.store(start.0, Release);
        }
        frames.get(index).oldest.store(start.0, Release);
        list.push(frames, index);
        drop(list);
        self.pages.fetch_add(1, Relaxed);
    }
    /// Takes a dirty page out: the page is clean from here on unless it is changed again. With
    /// `in_flight` the page stays counted until [`DirtyIndex::written`]. The caller has the page's
    /// latch (the task that set `writing` needs only S). Returns the start LSN under which the page
    /// was counted.
    pub(crate) fn take_out(&self, frames: &Frames, index: u32, in_flight: bool) -> Lsn {
        let frame = frames.get(index);
        let oldest = frame.oldest.load(Relaxed);
        assert_ne!(oldest, CLEAN);
        let bucket = self.bucket(oldest);
        let mut list = bucket.list.lock();
        list.remove(frames, frame);
        frame.oldest.store(CLEAN, Release);
        if in_flight {
            list.in_flight += 1;
        }
        bucket.left(&list);
        drop(list);
        self.pages.fetch_sub(1, Relaxed);
        Lsn(oldest)
    }
    /// Enters frame `to` in the place of frame `from`, whose page moves there, under the X latches
    /// of both (PIN-5). Returns false, and changes nothing, if the page is being written: the
    /// writer knows it by its frame.
    pub(crate) fn hand_over(&self, frames: &Frames, from: u32, to: u32) -> bool {
        let (frame, new) = (frames.get(from), frames.get(to));
        let oldest = frame.oldest.load(Relaxed);
        if oldest == CLEAN {
            return !frame.writing.load(Acquire);
        }
        let mut list = self.bucket(oldest).list.lock();
        // PIN-4: the flag is set under this mutex.
        if frame.writing.load(Relaxed) {
            return false;
        }
        list.replace(frames, from, to);
        new.oldest.store(oldest, Release);
        frame.oldest.store(CLEAN, Release);
        true
    }
    /// Settles pages that were taken out in flight and are durable in their files now. `starts` has
    /// the results of `take_out`.
    pub(crate) fn written(&self, mut starts: Vec<Lsn>) {
        starts.sort_unstable();
        for run in starts.chunk_by(|a, b| a.0 >> self.shift == b.0 >> self.shift) {
            let bucket = self.bucket(run[0].0);
            let mut list = bucket.list.lock();
            assert!(list.in_flight as usize >= run.len(), "DIRTY-1");
            list.in_flight -= run.len() as u32;
            bucket.left(&list);
        }
    }
    /// PIN-4: claims up to `want` pages for writing, the pages of the oldest buckets first.
    pub(crate) fn claim_oldest(&self, frames: &Frames, want: usize) -> Vec<u32> {
        let mut out = Vec::new();
        let oldest = self.oldest();
        if oldest == Lsn::MAX {
            return out;
        }
        for turn in 0..self.buckets.len() as u64 {
            let bucket = self.bucket(oldest.0 + (turn << self.shift));
            if bucket.low.load(Acquire) == u64::MAX {
                continue;
            }
            let list = bucket.list.lock();
            let mut at = list.tail;
            while at != NONE && out.len() < want {
                let frame = frames.get(at);
                if !frame.writing.load(Relaxed) {
                    frame.writing.store(true, Release);
                    out.push(at);
                }
                at = frame.dirty_prev.load(Relaxed);
            }
            if out.len() >= want {
                break;
            }
        }
        out
    }
    /// PIN-4: claims one page for writing if it is dirty and no other task writes it.
    pub(crate) fn claim(&self, frame: &Frame) -> bool {
        let oldest = frame.oldest.load(Acquire);
        if oldest == CLEAN {
            return false;
        }
        let list = self.bucket(oldest).list.lock();
        // If `oldest` is unchanged under the bucket's mutex, the page is still listed in this
        // bucket.
        let claimed = frame.oldest.load(Acquire) == oldest && !frame.writing.load(Relaxed);
        if claimed {
            frame.writing.store(true, Release);
        }
        drop(list);
        claimed
    }
    /// Start of the oldest change that may not be in its data file; MAX if there is none.
    pub(crate) fn oldest(&self) -> Lsn {
        Lsn(self.buckets.iter().map(|bucket| bucket.low.load(Acquire)).min().unwrap_or(u64::MAX))
    }
    /// About how many pages have their oldest change in the `bytes` of log from `from` on and are
    /// not being written.
    pub(crate) fn count(&self, from: Lsn, bytes: u64) -> usize {
        let span = ((bytes >> self.shift) + 1).min(self.buckets.len() as u64);
        let listed = |turn: u64| {
            let bucket = self.bucket(from.0 + (turn << self.shift));
            if bucket.low.load(Relaxed) == u64::MAX {
                0
            } else {
                bucket.list.lock().listed as usize
            }
        };
        (0..span).map(listed).sum()
    }
}
impl Bucket {
    /// Keeps DIRTY-2 after a page has left.
    fn left(&self, list: &List) {
        if list.listed + list.in_flight == 0 {
            self.low.store(u64::MAX, Release);
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    fn frames(n: u32) -> Frames {
        let frames = Frames::new(n).unwrap();
        // SAFETY: each frame is initialised once, before anybody uses it.
        (0..n).for_each(|i| unsafe { frames.init(i) });
        frames
    }
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_page_is_counted_until_its_file_is_synced() {
        let (dirty, frames) = (DirtyIndex::new(256 * MIB), frames(4));
        assert_eq!(dirty.oldest(), Lsn::MAX);
        dirty.enter(&frames, 0, Lsn(5 * MIB + 700));
        dirty.enter(&frames, 1, Lsn(5 * MIB + 300));
        dirty.enter(&frames, 2, Lsn(9 * MIB));
        assert_eq!(
            (dirty.oldest(), dirty.pages(), dirty.count(Lsn(5 * MIB), MIB)),
            (Lsn(5 * MIB + 300), 3, 2)
        );
        assert_eq!(dirty.claim_oldest(&frames, 2), [0, 1]);
        assert_eq!(dirty.claim_oldest(&frames, 9), [2], "0 and 1 are being written");
        assert!(!dirty.claim(frames.get(2)));
        let starts = [dirty.take_out(&frames, 0, true), dirty.take_out(&frames, 1, true)];
        assert_eq!(starts, [Lsn(5 * MIB + 700), Lsn(5 * MIB + 300)]);
        assert_eq!((dirty.pages(), dirty.oldest()), (1, Lsn(5 * MIB + 300)));
        // Page 0 is changed again while it is written: it gets a second, younger entry.
        dirty.enter(&frames, 0, Lsn(12 * MIB));
        dirty.written(vec![starts[1]]);
        assert_eq!(dirty.oldest(), Lsn(5 * MIB + 300));
        dirty.written(vec![starts[0]]);
        assert_eq!(dirty.oldest(), Lsn(9 * MIB));
        dirty.take_out(&frames, 2, false);
        assert_eq!(dirty.oldest(), Lsn(12 * MIB));
    }

    #[test]
    fn a_page_that_moves_keeps_its_place_unless_it_is_being_written() {
        let (dirty, frames) = (DirtyIndex::new(256 * MIB), frames(6));
        (0..3).for_each(|i| dirty.enter(&frames, i, Lsn(5 * MIB + u64::from(i))));
        // The first, the last and one between, which has no neighbours then.
        for (from, to) in [(2, 5), (0, 3), (1, 4)] {
            assert!(dirty.hand_over(&frames, from, to));
            assert!(!frames.get(from).is_dirty() && frames.get(to).is_dirty());
        }
        assert!(dirty.hand_over(&frames, 0, 1), "a clean page has no entry");
        assert_eq!((dirty.pages(), dirty.oldest()), (3, Lsn(5 * MIB)));
        assert!(!dirty.claim(frames.get(0)));
        assert_eq!(dirty.claim_oldest(&frames, 2), [3, 4]);
        assert!(!dirty.hand_over(&frames, 3, 0), "PIN-4");
        assert_eq!(dirty.take_out(&frames, 4, false), Lsn(5 * MIB + 1));
        assert!(!dirty.hand_over(&frames, 4, 1), "PIN-4: clean, and still being written");
        assert!(dirty.hand_over(&frames, 5, 2));
        assert_eq!(dirty.claim_oldest(&frames, 9), [2]);
    }

    #[test]
    fn a_log_longer_than_the_ring_shares_buckets() {
        let (dirty, frames) = (DirtyIndex::new(MIB), frames(3));
        let lap = dirty.buckets.len() as u64 * 4096;
        dirty.enter(&frames, 0, Lsn(2 * lap + 10));
        dirty.enter(&frames, 1, Lsn(10));
        dirty.enter(&frames, 2, Lsn(5000));
        assert_eq!(dirty.oldest(), Lsn(10));
        let start = dirty.take_out(&frames, 1, true);
        dirty.written(vec![start]);
        assert_eq!(dirty.oldest(), Lsn(10), "as long as the other is in the bucket");
        let start = dirty.take_out(&frames, 0, true);
        dirty.written(vec![start]);
        assert_eq!(dirty.oldest(), Lsn(5000));
    }
}

//! The dirty index: pages with changes that are not on disk, by the MiB of the log in which the oldest such change begins (`lsn >> 20`).
//!
//! Entering costs a commit one short leaf mutex and two links; there is no order inside a bucket, and none is needed: the checkpoint wants the oldest
//! bucket that is not empty, and cleaners want pages that are about the oldest.
//!
//! DIRTY-1: a page with a change that is not durable in its data file is counted in the bucket of that change or an older one: `listed` until a cleaner
//! has copied it, `in_flight` until the data file has been synced after the write.
//! DIRTY-2: a bucket serves one MiB of the log at a time; the ring has a bucket for each MiB that the log may hold past the checkpoint.
//! DIRTY-3: `low` is at most the oldest start counted in the bucket, and MAX only if nothing is.
//!
//! Lock order: a bucket's mutex is a leaf.
use crate::Lsn;
use crate::buf::frame::{CLEAN, Frame, Frames, NONE};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

pub(crate) const BUCKET_SHIFT: u32 = 20;

#[repr(align(64))]
struct Bucket {
    low: AtomicU64,
    list: Mutex<List>,
}
struct List {
    /// Which MiB of the log, while the bucket is not empty.
    number: u64,
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
}

pub(crate) struct DirtyIndex {
    buckets: Box<[Bucket]>,
    pages: AtomicUsize,
}

impl DirtyIndex {
    /// `log_bytes`: the most that the log holds between the checkpoint and its tail.
    pub fn new(log_bytes: u64) -> DirtyIndex {
        let count = ((log_bytes >> BUCKET_SHIFT) + 2).next_power_of_two();
        let bucket = |_| Bucket {
            low: AtomicU64::new(u64::MAX),
            list: Mutex::new(List { number: 0, head: NONE, tail: NONE, listed: 0, in_flight: 0 }),
        };
        DirtyIndex { buckets: (0..count).map(bucket).collect(), pages: AtomicUsize::new(0) }
    }
    fn bucket(&self, number: u64) -> &Bucket {
        &self.buckets[number as usize & (self.buckets.len() - 1)]
    }
    /// Pages with changes that no cleaner has copied yet.
    pub fn pages(&self) -> usize {
        self.pages.load(Relaxed)
    }
    /// Puts a clean page in, whose first change begins at `start`. The caller has its X latch.
    pub fn enter(&self, frames: &Frames, index: u32, start: Lsn) {
        let number = start.0 >> BUCKET_SHIFT;
        let bucket = self.bucket(number);
        let mut list = bucket.list.lock();
        if list.listed + list.in_flight == 0 {
            list.number = number;
            bucket.low.store(start.0, Release);
        } else {
            assert_eq!(list.number, number, "DIRTY-2: the log is longer than the ring of dirty buckets");
            bucket.low.fetch_min(start.0, Release);
        }
        frames.get(index).oldest.store(start.0, Release);
        list.push(frames, index);
        drop(list);
        self.pages.fetch_add(1, Relaxed);
    }
    /// Takes a dirty page out: it is clean from here on unless changed again. With `in_flight` it stays counted until [`DirtyIndex::settle`].
    /// The caller has the page's latch (S is enough for the one that set `writing`). Returns the bucket's number.
    pub fn take_out(&self, frames: &Frames, index: u32, in_flight: bool) -> u64 {
        let frame = frames.get(index);
        let oldest = frame.oldest.load(Relaxed);
        assert_ne!(oldest, CLEAN);
        let number = oldest >> BUCKET_SHIFT;
        let bucket = self.bucket(number);
        let mut list = bucket.list.lock();
        assert_eq!(list.number, number, "DIRTY-2");
        list.remove(frames, frame);
        frame.oldest.store(CLEAN, Release);
        if in_flight {
            list.in_flight += 1;
        }
        bucket.settle(&list);
        drop(list);
        self.pages.fetch_sub(1, Relaxed);
        number
    }
    /// `count` pages taken out of bucket `number` in flight are durable in their files.
    pub fn settle(&self, number: u64, count: u32) {
        let bucket = self.bucket(number);
        let mut list = bucket.list.lock();
        assert!(list.number == number && list.in_flight >= count, "DIRTY-1");
        list.in_flight -= count;
        bucket.settle(&list);
    }
    /// Offers the pages of the bucket to `claim`, oldest entry first, under the bucket's mutex, until it has taken `want`.
    fn claim_in(&self, frames: &Frames, number: u64, want: usize, out: &mut Vec<u32>) {
        let bucket = self.bucket(number);
        if bucket.low.load(Acquire) == u64::MAX {
            return;
        }
        let list = bucket.list.lock();
        if list.number != number {
            return;
        }
        let mut at = list.tail;
        while at != NONE && out.len() < want {
            let frame = frames.get(at);
            if !frame.writing.load(Relaxed) {
                frame.writing.store(true, Release);
                out.push(at);
            }
            at = frame.dirty_prev.load(Relaxed);
        }
    }
    /// FRAME-4: claims up to `want` pages for writing, out of the oldest buckets first, among changes that begin in `from..=to`.
    pub fn claim_oldest(&self, frames: &Frames, from: Lsn, to: Lsn, want: usize) -> Vec<u32> {
        let mut out = Vec::with_capacity(want);
        for number in self.span(from, to) {
            self.claim_in(frames, number, want, &mut out);
            if out.len() >= want {
                break;
            }
        }
        out
    }
    /// FRAME-4: claims one page for writing if it is dirty and nobody writes it.
    pub fn claim(&self, frame: &Frame) -> bool {
        let oldest = frame.oldest.load(Acquire);
        if oldest == CLEAN {
            return false;
        }
        let list = self.bucket(oldest >> BUCKET_SHIFT).list.lock();
        // Unchanged under the mutex of its bucket: it is still listed there.
        let claimed = frame.oldest.load(Acquire) == oldest && !frame.writing.load(Relaxed);
        if claimed {
            frame.writing.store(true, Release);
        }
        drop(list);
        claimed
    }
    /// Start of the oldest change that may not be in its data file, looking from the checkpoint `from` to the log's tail `to`; MAX if there is none.
    pub fn oldest(&self, from: Lsn, to: Lsn) -> Lsn {
        let low = self.span(from, to).map(|number| self.bucket(number).low.load(Acquire)).find(|&low| low != u64::MAX);
        Lsn(low.unwrap_or(u64::MAX))
    }
    /// Pages whose oldest change begins in `from..=to`, listed or in flight.
    pub fn count(&self, from: Lsn, to: Lsn) -> usize {
        let in_bucket = |number| {
            let bucket = self.bucket(number);
            if bucket.low.load(Relaxed) == u64::MAX {
                return 0;
            }
            let list = bucket.list.lock();
            if list.number == number { list.listed as usize } else { 0 }
        };
        self.span(from, to).map(in_bucket).sum()
    }
    fn span(&self, from: Lsn, to: Lsn) -> impl Iterator<Item = u64> + use<> {
        let (first, last) = (from.0 >> BUCKET_SHIFT, to.0 >> BUCKET_SHIFT);
        assert!(last.saturating_sub(first) < self.buckets.len() as u64, "DIRTY-2: {from}..{to}");
        first..=last
    }
}
impl Bucket {
    /// DIRTY-3, after something left.
    fn settle(&self, list: &List) {
        if list.listed + list.in_flight == 0 {
            self.low.store(u64::MAX, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(n: u32) -> Frames {
        let frames = Frames::new(n).unwrap();
        // SAFETY: once each, nobody else is there.
        (0..n).for_each(|i| unsafe { frames.init(i) });
        frames
    }
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_page_is_counted_until_its_file_is_synced() {
        let (dirty, frames) = (DirtyIndex::new(64 * MIB), frames(4));
        let all = |d: &DirtyIndex| d.oldest(Lsn(0), Lsn(60 * MIB));
        assert_eq!(all(&dirty), Lsn::MAX);
        dirty.enter(&frames, 0, Lsn(5 * MIB + 700));
        dirty.enter(&frames, 1, Lsn(5 * MIB + 300));
        dirty.enter(&frames, 2, Lsn(9 * MIB));
        assert_eq!((all(&dirty), dirty.pages(), dirty.count(Lsn(0), Lsn(6 * MIB))), (Lsn(5 * MIB + 300), 3, 2));
        assert_eq!(dirty.claim_oldest(&frames, Lsn(0), Lsn(60 * MIB), 2), [0, 1]);
        assert_eq!(dirty.claim_oldest(&frames, Lsn(0), Lsn(60 * MIB), 9), [2], "0 and 1 are being written");
        assert!(!dirty.claim(frames.get(2)));
        assert_eq!((dirty.take_out(&frames, 0, true), dirty.take_out(&frames, 1, true)), (5, 5));
        assert_eq!((dirty.pages(), all(&dirty)), (1, Lsn(5 * MIB + 300)));
        // Changed again while it is written: a second, younger entry.
        dirty.enter(&frames, 0, Lsn(12 * MIB));
        dirty.settle(5, 1);
        assert_eq!(all(&dirty), Lsn(5 * MIB + 300));
        dirty.settle(5, 1);
        assert_eq!(all(&dirty), Lsn(9 * MIB));
        dirty.take_out(&frames, 2, false);
        assert_eq!(all(&dirty), Lsn(12 * MIB));
    }

    #[test]
    #[should_panic(expected = "DIRTY-2")]
    fn the_ring_never_laps_a_bucket_in_use() {
        let (dirty, frames) = (DirtyIndex::new(2 * MIB), frames(2));
        dirty.enter(&frames, 0, Lsn(0));
        dirty.enter(&frames, 1, Lsn(4 * MIB));
    }
}

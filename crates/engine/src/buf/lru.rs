//! The free frames of one instance, and the order in which it evicts pages.
//!
//! There are two lists, young and old. A page enters at the head of old (the midpoint) and is
//! evicted from old's tail; young's tail flows over into old, which keeps about 3/8 of the pages. A
//! hit touches no list: it leaves the pool's clock in the frame, and the next scan for a victim
//! acts on the clock:
//! - a page accessed again `old_blocks_time` after its first access moves to the head of young
//!   (InnoDB's rule, so that a scan cannot push out the hot pages);
//! - a page accessed since it entered old, though not for long enough, goes once more round old (so
//!   that a small pool keeps its index roots);
//! - a page at young's tail that was accessed since it came there goes once more round young,
//!   instead of over into old.
//!
//! Lock order: an instance's mutex, then a page table shard. No other lock is taken inside.
use super::frame::{Frame, Frames, NONE};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// The lists, in a frame's `lru_list`. 0: the frame is in no list, and has an owner.
pub(super) const YOUNG: u32 = 1;
pub(super) const OLD: u32 = 2;
const FREE: u32 = 3;
/// The frame is outside the pool's size. It is in no list and reserved.
const WITHDRAWN: u32 = 4;
/// The most pages that go round young again before one page must flow over.
const MAX_ROTATE: usize = 8;
/// Accesses within this time are one visit to a page; a later access is another visit.
pub(crate) const VISIT_MS: u32 = 3;

struct List {
    head: u32,
    tail: u32,
    len: usize,
    tag: u32,
}
impl List {
    fn new(tag: u32) -> List {
        List { head: NONE, tail: NONE, len: 0, tag }
    }
    fn push_head(&mut self, frames: &Frames, index: u32, now: u32) {
        let frame = frames.get(index);
        debug_assert_eq!(frame.lru_list.load(Relaxed), 0);
        frame.lru_prev.store(NONE, Relaxed);
        frame.lru_next.store(self.head, Relaxed);
        match self.head {
            NONE => self.tail = index,
            head => frames.get(head).lru_prev.store(index, Relaxed),
        }
        self.head = index;
        self.len += 1;
        frame.lru_list.store(self.tag, Relaxed);
        frame.lru_since.store(now, Relaxed);
    }
    fn remove(&mut self, frames: &Frames, index: u32) {
        let frame = frames.get(index);
        debug_assert_eq!(frame.lru_list.load(Relaxed), self.tag);
        let (prev, next) = (frame.lru_prev.load(Relaxed), frame.lru_next.load(Relaxed));
        match prev {
            NONE => self.head = next,
            prev => frames.get(prev).lru_next.store(next, Relaxed),
        }
        match next {
            NONE => self.tail = prev,
            next => frames.get(next).lru_prev.store(prev, Relaxed),
        }
        self.len -= 1;
        frame.lru_list.store(0, Relaxed);
    }
    /// Puts frame `to`, which is in no list, in the place of frame `from`.
    fn replace(&mut self, frames: &Frames, from: u32, to: u32) {
        let (frame, new) = (frames.get(from), frames.get(to));
        let (prev, next) = (frame.lru_prev.load(Relaxed), frame.lru_next.load(Relaxed));
        new.lru_prev.store(prev, Relaxed);
        new.lru_next.store(next, Relaxed);
        new.lru_since.store(frame.lru_since.load(Relaxed), Relaxed);
        match prev {
            NONE => self.head = to,
            prev => frames.get(prev).lru_next.store(to, Relaxed),
        }
        match next {
            NONE => self.tail = to,
            next => frames.get(next).lru_prev.store(to, Relaxed),
        }
        frame.lru_list.store(0, Relaxed);
        new.lru_list.store(self.tag, Relaxed);
    }
}

/// What a frame is for the task that withdraws it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has a page.
    Page,
    /// A load or a create has it, or threads that look for the page that has left it.
    Owned,
    Withdrawn,
}

/// What an eviction scan does with a page.
#[derive(Debug, PartialEq)]
enum Verdict {
    Promote,
    SecondChance,
    Victim,
}
fn judge(frame: &Frame, old_blocks_time_ms: u32) -> Verdict {
    let (first, last) = (frame.first_access.load(Relaxed), frame.last_access.load(Relaxed));
    let since = frame.lru_since.load(Relaxed);
    if last <= since.saturating_add(VISIT_MS) || first == 0 {
        Verdict::Victim
    } else if last.saturating_sub(first) >= old_blocks_time_ms {
        Verdict::Promote
    } else {
        Verdict::SecondChance
    }
}

pub(crate) struct Lists {
    free: List,
    /// Frames whose memory is not resident: from here to `end`.
    fresh: u32,
    /// The end of the frames that the pool uses. While the pool shrinks, further frames below
    /// `fresh` have pages, or owners that will give them back.
    end: u32,
    /// The end of the frames that have ever been used: their metadata is there.
    used_end: u32,
    young: List,
    old: List,
    old_share: f64,
    /// The page in old at which a scan in several parts goes on: InnoDB's hazard pointer. It moves
    /// on when its page leaves the list.
    next: u32,
    /// The number of moves to young.
    pub made_young: u64,
}

impl Lists {
    pub(super) fn new(frames: Range<u32>, old_blocks_pct: u32) -> Lists {
        let mut lists = Lists {
            free: List::new(FREE),
            fresh: frames.start,
            end: frames.end,
            used_end: frames.start,
            young: List::new(YOUNG),
            old: List::new(OLD),
            old_share: 0.0,
            next: NONE,
            made_young: 0,
        };
        lists.set_old_blocks_pct(old_blocks_pct);
        lists
    }
    /// Sets the share of old. The lists reach the new share as pages come, go and are looked at.
    pub(super) fn set_old_blocks_pct(&mut self, pct: u32) {
        self.old_share = f64::from(pct.clamp(5, 95)) / 100.0;
    }
    pub(super) fn free_len(&self) -> usize {
        self.free.len + self.untouched_len()
    }
    /// The number of frames that no page has been in.
    pub(super) fn untouched_len(&self) -> usize {
        self.end.saturating_sub(self.fresh) as usize
    }
    pub(super) fn pages(&self) -> usize {
        self.young.len + self.old.len
    }
    pub(super) fn old_pages(&self) -> usize {
        self.old.len
    }
    /// The end of the frames that may have pages.
    pub(super) fn fresh(&self) -> u32 {
        self.fresh
    }
    /// The end of the frames that the pool uses.
    pub(super) fn end(&self) -> u32 {
        self.end
    }
    /// Takes a frame off the free list. The frame is reserved.
    pub(super) fn take_free(&mut self, frames: &Frames) -> Option<u32> {
        if self.free.head != NONE {
            let index = self.free.head;
            self.free.remove(frames, index);
            return Some(index);
        }
        if self.fresh >= self.end {
            return None;
        }
        let index = self.fresh;
        self.fresh += 1;
        if index < self.used_end {
            // It was withdrawn.
            frames.get(index).lru_list.store(0, Relaxed);
        } else {
            // SAFETY: each index passes `used_end` once, and nobody has had it before.
            unsafe { frames.init(index) };
            self.used_end = index + 1;
        }
        Some(index)
    }
    /// Gives back a reserved frame without a page, which is in no list. Returns whether it is free:
    /// a frame outside the pool's size is withdrawn.
    pub(super) fn give_free(&mut self, frames: &Frames, index: u32) -> bool {
        let stays = index < self.end;
        if stays {
            self.free.push_head(frames, index, 0);
        } else {
            frames.get(index).lru_list.store(WITHDRAWN, Relaxed);
        }
        stays
    }
    /// Gives the frames below `end` to the pool. The memory of further frames is allowed.
    pub(super) fn grow(&mut self, end: u32) {
        debug_assert!(self.fresh <= self.end && self.end <= end, "no frame is being withdrawn");
        self.end = end;
    }
    /// Takes frames off the high end, down to `end` at most, that were not used since the pool got
    /// them.
    pub(super) fn drop_fresh(&mut self, end: u32) {
        self.end = self.end.min(end.max(self.fresh));
    }
    /// Begins to withdraw the frames from `end` on: none of them is given out any more.
    pub(super) fn shrink(&mut self, end: u32) {
        self.end = self.end.min(end);
    }
    /// Withdraws a frame from `end` on if it is free, and tells what it is.
    pub(super) fn withdraw(&mut self, frames: &Frames, index: u32) -> Standing {
        debug_assert!(index >= self.end);
        if index >= self.fresh {
            return Standing::Withdrawn;
        }
        let frame = frames.get(index);
        match frame.lru_list.load(Relaxed) {
            YOUNG | OLD => Standing::Page,
            FREE => {
                self.free.remove(frames, index);
                frame.lru_list.store(WITHDRAWN, Relaxed);
                Standing::Withdrawn
            }
            WITHDRAWN => Standing::Withdrawn,
            _ => Standing::Owned,
        }
    }
    /// All frames from `end` on have been withdrawn.
    pub(super) fn withdrawn(&mut self) {
        self.fresh = self.fresh.min(self.end);
    }
    /// Takes back what was withdrawn of the frames up to `end`, where not all of them could be.
    pub(super) fn give_up_shrinking(&mut self, frames: &Frames, end: u32) {
        let taken = self.end..end.min(self.fresh);
        self.end = self.end.max(end);
        for index in taken {
            if frames.get(index).lru_list.load(Relaxed) == WITHDRAWN {
                frames.get(index).lru_list.store(0, Relaxed);
                self.give_free(frames, index);
            }
        }
    }
    /// Puts frame `to` in the place of frame `from`, which has a page.
    pub(super) fn replace(&mut self, frames: &Frames, from: u32, to: u32) {
        if self.next == from {
            self.next = to;
        }
        match frames.get(from).lru_list.load(Relaxed) {
            YOUNG => self.young.replace(frames, from, to),
            _ => self.old.replace(frames, from, to),
        }
    }
    pub(super) fn insert(&mut self, frames: &Frames, index: u32, now: u32) {
        self.old.push_head(frames, index, now);
        self.balance(frames, now);
    }
    pub(super) fn remove(&mut self, frames: &Frames, index: u32) {
        match frames.get(index).lru_list.load(Relaxed) {
            YOUNG => self.young.remove(frames, index),
            OLD => self.leave_old(frames, index),
            _ => {}
        }
    }
    fn leave_old(&mut self, frames: &Frames, index: u32) {
        if self.next == index {
            self.next = frames.get(index).lru_prev.load(Relaxed);
        }
        self.old.remove(frames, index);
    }
    /// Lets young's tail flow over until old has its share of the pages.
    fn balance(&mut self, frames: &Frames, now: u32) {
        let mut rotations = 0;
        while self.young.len > 0 && (self.old.len as f64) < self.old_share * self.pages() as f64 {
            let index = self.young.tail;
            let frame = frames.get(index);
            let again = frame.last_access.load(Relaxed)
                > frame.lru_since.load(Relaxed).saturating_add(VISIT_MS);
            self.young.remove(frames, index);
            if again && rotations < MAX_ROTATE {
                rotations += 1;
                self.young.push_head(frames, index, now);
            } else {
                self.old.push_head(frames, index, now);
            }
        }
    }
    /// Walks old from its tail over at most `depth` frames, moves pages that were accessed again,
    /// and calls `take` on each victim in turn. If `take` returns true, the frame leaves the lists.
    /// The scan stops after `want` frames were taken.
    pub(super) fn scan(
        &mut self,
        frames: &Frames,
        now: u32,
        old_time_ms: u32,
        depth: usize,
        want: usize,
        take: impl FnMut(u32, &Frame) -> bool,
    ) {
        let from = self.old.tail;
        self.scan_from(frames, from, now, old_time_ms, depth, want, take);
    }
    /// Does the same in parts, between which the caller lets go of the mutex. The first part begins
    /// at the tail, and each further part where the part before has ended. Returns true if pages
    /// are left.
    pub(super) fn scan_part(
        &mut self,
        frames: &Frames,
        first: bool,
        now: u32,
        old_time_ms: u32,
        depth: usize,
        want: usize,
        take: impl FnMut(u32, &Frame) -> bool,
    ) -> bool {
        let from = if first { self.old.tail } else { self.next };
        self.next = self.scan_from(frames, from, now, old_time_ms, depth, want, take);
        self.next != NONE
    }
    fn scan_from(
        &mut self,
        frames: &Frames,
        from: u32,
        now: u32,
        old_time_ms: u32,
        depth: usize,
        want: usize,
        mut take: impl FnMut(u32, &Frame) -> bool,
    ) -> u32 {
        let (mut at, mut seen, mut taken) = (from, 0, 0);
        while at != NONE && seen < depth && taken < want {
            let (index, frame) = (at, frames.get(at));
            at = frame.lru_prev.load(Relaxed);
            seen += 1;
            match judge(frame, old_time_ms) {
                Verdict::Promote => {
                    self.leave_old(frames, index);
                    self.young.push_head(frames, index, now);
                    self.made_young += 1;
                }
                Verdict::SecondChance => {
                    self.leave_old(frames, index);
                    self.old.push_head(frames, index, now);
                }
                Verdict::Victim if take(index, frame) => {
                    self.leave_old(frames, index);
                    taken += 1;
                }
                Verdict::Victim => {}
            }
        }
        self.balance(frames, now);
        at
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    fn access(frames: &Frames, index: u32, at: u32) {
        let frame = frames.get(index);
        frame.last_access.store(at, Relaxed);
        let _ = frame.first_access.compare_exchange(0, at, Relaxed, Relaxed);
    }
    fn victims(lists: &mut Lists, frames: &Frames, now: u32, want: usize) -> Vec<u32> {
        let mut out = Vec::new();
        lists.scan(frames, now, 1000, 100, want, |i, _| {
            out.push(i);
            true
        });
        out
    }
    fn filled(n: u32) -> (Frames, Lists) {
        let frames = Frames::new(n).unwrap();
        let mut lists = Lists::new(0..n, 37);
        for i in 0..n {
            assert_eq!(lists.take_free(&frames), Some(i));
            lists.insert(&frames, i, 10);
            access(&frames, i, 11);
        }
        assert_eq!((lists.take_free(&frames), lists.pages()), (None, n as usize));
        (frames, lists)
    }

    #[test]
    fn pages_seen_once_leave_in_the_order_they_came() {
        let (frames, mut lists) = filled(8);
        assert_eq!(victims(&mut lists, &frames, 50, 3), [0, 1, 2]);
        assert_eq!(victims(&mut lists, &frames, 50, 99), [3, 4, 5, 6, 7]);
        assert_eq!(lists.pages(), 0);
    }

    #[test]
    fn a_page_used_again_after_old_blocks_time_becomes_young_and_outlives_a_scan() {
        let (frames, mut lists) = filled(8);
        access(&frames, 0, 1100);
        access(&frames, 1, 500);
        assert_eq!(
            victims(&mut lists, &frames, 1200, 2),
            [2, 3],
            "0 is promoted, 1 has a second chance"
        );
        assert_eq!((lists.made_young, lists.old_pages()), (1, 5));
        // Page 1 was not used again: it follows the pages that were before it in the list.
        assert_eq!(victims(&mut lists, &frames, 1300, 4), [4, 5, 6, 7]);
        // Young keeps page 0 only while old has its share of the pages.
        assert_eq!(victims(&mut lists, &frames, 1400, 4), [1]);
        assert_eq!(lists.pages(), 1);
    }

    #[test]
    fn young_overflows_into_old_and_its_used_tail_goes_round() {
        let (frames, mut lists) = filled(10);
        (0..10).for_each(|i| access(&frames, i, 2000));
        assert_eq!(
            victims(&mut lists, &frames, 2000, 1),
            [],
            "all are promoted, the overflow is not looked at in this scan"
        );
        assert_eq!((lists.made_young, lists.old_pages()), (10, 4));
        access(&frames, 4, 2500);
        lists.remove(&frames, 0);
        lists.remove(&frames, 1);
        lists.remove(&frames, 2);
        lists.balance(&frames, 2600);
        assert_eq!(frames.get(4).lru_list.load(Relaxed), YOUNG, "used since: turned round");
        assert_eq!(frames.get(5).lru_list.load(Relaxed), OLD);
    }

    #[test]
    fn the_share_of_old_may_change() {
        let (frames, mut lists) = filled(20);
        (0..20).for_each(|i| access(&frames, i, 2000));
        assert_eq!(victims(&mut lists, &frames, 2000, 1), []);
        assert_eq!((lists.pages(), lists.old_pages()), (20, 8));
        lists.set_old_blocks_pct(60);
        lists.balance(&frames, 9000);
        assert_eq!(lists.old_pages(), 12, "young flows over");
        lists.set_old_blocks_pct(1);
        lists.balance(&frames, 9000);
        assert_eq!(lists.old_pages(), 12, "nothing flows back");
        assert_eq!(victims(&mut lists, &frames, 9000, 2).len(), 2);
        assert_eq!((lists.pages(), lists.old_pages()), (18, 10));
    }

    /// Frames that are in use stand at the tail. A scan in parts gets past them, also when others
    /// take pages out in between.
    #[test]
    fn a_scan_in_parts_sees_each_page_once() {
        let (frames, mut lists) = filled(12);
        let mut seen = Vec::new();
        let mut part = |lists: &mut Lists, first: bool| {
            let more = lists.scan_part(&frames, first, 50, 1000, 3, 99, |i, _| {
                seen.push(i);
                i % 4 == 3
            });
            (more, std::mem::take(&mut seen))
        };
        assert_eq!(part(&mut lists, true), (true, vec![0, 1, 2]));
        // The next page of the scan leaves the list, and so does a page that the scan has seen.
        lists.remove(&frames, 3);
        lists.remove(&frames, 1);
        assert_eq!(part(&mut lists, false), (true, vec![4, 5, 6]));
        assert_eq!(part(&mut lists, false), (true, vec![7, 8, 9]));
        assert_eq!(part(&mut lists, false), (false, vec![10, 11]));
        assert_eq!(lists.pages(), 8);
        // All pages that the scan has not seen leave the list, the next page among them.
        assert_eq!(part(&mut lists, true), (true, vec![0, 2, 4]));
        [5, 6, 8, 9, 10].iter().for_each(|i| lists.remove(&frames, *i));
        assert_eq!(part(&mut lists, false), (false, vec![]));
    }

    #[test]
    fn what_the_caller_refuses_stays() {
        let (frames, mut lists) = filled(4);
        let mut asked = Vec::new();
        lists.scan(&frames, 50, 1000, 3, 2, |i, _| {
            asked.push(i);
            i == 1
        });
        assert_eq!((asked, lists.pages()), (vec![0, 1, 2], 3));
    }
}

//! The history: the undo logs of committed transactions that purge has to process, and how far
//! purge is.
//!
//! The undo logs themselves are in the undo pages, and purge finds most of them by reading these
//! pages ([`UndoPages::next_to_read`]). This module has the long logs, which are in more than one
//! page, and the logs that need more than one pass through a page.
use crate::undo::{UndoLog, UndoPages};
use crate::{PageNo, SpaceId, TrxId};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

/// A log of so many pages may be purged together with others.
const SHORT: usize = 4;

/// The undo log of a committed transaction that has an entry of its own in the history.
pub(super) struct Item {
    pub trx: TrxId,
    pub first: (PageNo, u16),
    pub pages: SmallVec<[PageNo; 2]>,
    pub left: Left,
    /// How often an error of the disk has stopped the purge of this log.
    pub errors: u32,
}
/// The work that is left for a log.
pub(super) enum Left {
    Changes(Place),
    /// The chains of long columns to free, by their first pages.
    Chains(Vec<(SpaceId, PageNo)>),
}
/// How far the changes of an undo log are purged.
#[derive(Default)]
pub(super) struct Place {
    /// The next part to purge.
    part: usize,
    /// The number of parts before it in each page, except the first part.
    before: HashMap<PageNo, u32>,
    /// The chains that the parts before have left to free.
    pub chains: Vec<(SpaceId, PageNo)>,
}
/// A part of an undo log. A page may have several parts of a log, if the transaction came back to
/// the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The part with the LOG entry.
    First,
    /// The part that begins with a MORE entry of the transaction, behind this number of others.
    More(u32),
}
impl Place {
    /// The next part, and its page, which is one of the log's `pages`.
    pub(super) fn next(&self, pages: &[PageNo]) -> Option<(PageNo, Part)> {
        let no = *pages.get(self.part)?;
        let before = || self.before.get(&no).copied().unwrap_or(0);
        Some((no, if self.part == 0 { Part::First } else { Part::More(before()) }))
    }
    /// Whether no part is purged yet.
    pub(super) fn is_first(&self) -> bool {
        self.part == 0
    }
    /// The part in page `no` is purged.
    pub(super) fn pass(&mut self, no: PageNo) {
        if self.part > 0 {
            *self.before.entry(no).or_default() += 1;
        }
        self.part += 1;
    }
    /// The parts that were passed last, in these pages, are to be purged again.
    pub(super) fn go_back(&mut self, pages: &[PageNo]) {
        for no in pages.iter().rev() {
            self.part -= 1;
            if self.part > 0 {
                *self.before.entry(*no).or_default() -= 1;
            }
        }
    }
}
impl Item {
    pub(super) fn new(trx: TrxId, first: (PageNo, u16), pages: SmallVec<[PageNo; 2]>) -> Item {
        Item { trx, first, pages, left: Left::Changes(Place::default()), errors: 0 }
    }
    /// Whether nothing of the log is purged yet, and it has few pages.
    pub(super) fn is_short(&self) -> bool {
        self.pages.len() <= SHORT && matches!(&self.left, Left::Changes(place) if place.is_first())
    }
}
/// The committed transactions that have to be purged.
#[derive(Default)]
pub struct History {
    pub(super) items: Mutex<VecDeque<Item>>,
    /// The number of all undo logs, including those that are only in the undo pages.
    len: AtomicU64,
    /// Purge has passed all transactions that committed with a number below this number.
    pub(super) done_below: AtomicU64,
    pub purged: AtomicU64,
    pub counts: Counts,
    /// The most undo pages of a task's next batch; 0 is one page, too.
    pub(super) batch_pages: AtomicUsize,
    stopped: AtomicBool,
    /// The number of callers that hold purge off, and the number of tasks that are purging.
    pub(super) held: AtomicUsize,
    purging: AtomicUsize,
    /// An undo page that could not be read, and how often.
    pub(super) unreadable: Mutex<(PageNo, u32)>,
    pub(super) failures: Mutex<super::rate_limited_log::RateLimitedLog>,
    /// Notified when there is enough work for more than one task.
    pub(super) help: crate::sync::event::Event,
    pub lag: super::lag::Lag,
}
/// The counters of purge (purge_* of INNODB_METRICS).
#[derive(Default)]
pub struct Counts {
    pub rounds: AtomicU64,
    pub pages: AtomicU64,
    /// The number of delete-marked records removed.
    pub removed: AtomicU64,
    /// The number of undo records of changes to existing rows.
    pub changes: AtomicU64,
    /// How often an undo log could not be purged for the moment.
    pub retries: AtomicU64,
    pub stops: AtomicU64,
    pub resumes: AtomicU64,
    /// The older versions of rows that rollbacks have read, to find out which entries others need.
    pub older_read: AtomicU64,
    /// The versions of rows that purge has read, where it walked through many of a row.
    pub newer_read: AtomicU64,
}
/// The state of purge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Running,
    Idle,
    /// Purge finishes its present work, and then stops.
    Stopping,
    Stopped,
}
impl State {
    /// The name of the state in SHOW ENGINE INNODB STATUS.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Idle => "running but idle",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
        }
    }
}
impl History {
    /// Stops purge: it finishes its present work and begins nothing new.
    pub fn stop(&self) {
        if !self.stopped.swap(true, SeqCst) {
            self.counts.stops.fetch_add(1, Relaxed);
        }
    }
    pub fn resume(&self) {
        if self.stopped.swap(false, SeqCst) {
            self.counts.resumes.fetch_add(1, Relaxed);
        }
    }
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }
    pub fn state(&self) -> State {
        match (self.is_stopped(), self.is_purging()) {
            (true, true) => State::Stopping,
            (true, false) => State::Stopped,
            (false, false) if self.is_empty() => State::Idle,
            (false, _) => State::Running,
        }
    }
    /// All transactions that committed with a number below the result are purged, except those that
    /// could not be purged. Returns `next` if the history is empty.
    pub fn done_below(&self, next: TrxId) -> TrxId {
        if self.is_empty() { next } else { TrxId(self.done_below.load(Relaxed)) }
    }
    /// Adds the undo log of a transaction that has committed, and releases its pages.
    pub(crate) fn add(&self, pages: &UndoPages, trx: TrxId, log: &mut UndoLog) {
        // The undo log is counted before purge can see it and count it down.
        if !log.is_empty() {
            self.len.fetch_add(1, Relaxed);
        }
        log.release(pages);
        // Purge meets the other logs when it reads their page.
        if let Some(first) = log.first()
            && (log.pages.len() > 1 || log.found)
        {
            self.items.lock().push_back(Item::new(trx, first, std::mem::take(&mut log.pages)));
        }
    }
    /// Adds a long undo log found at start.
    pub(crate) fn add_long(&self, trx: TrxId, first: (PageNo, u16), pages: SmallVec<[PageNo; 2]>) {
        self.len.fetch_add(1, Relaxed);
        self.items.lock().push_back(Item::new(trx, first, pages));
    }
    /// Makes undo logs the first ones again, in their order.
    pub(super) fn put_back(&self, logs: VecDeque<Item>) {
        let mut items = self.items.lock();
        logs.into_iter().rev().for_each(|item| items.push_front(item));
    }
    /// Counts other undo logs found at start, which purge meets when it reads their pages.
    pub(crate) fn add_short(&self, logs: u64) {
        self.len.fetch_add(logs, Relaxed);
    }
    /// The value of Innodb_history_list_length.
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(SeqCst) > 0
    }
    pub(crate) fn is_purging(&self) -> bool {
        self.purging.load(SeqCst) > 0
    }
    /// Announces that one more task purges, or frees pages like purge, until the returned value is
    /// dropped. None if purge is stopped or held off.
    pub(crate) fn start(&self) -> Option<Purging<'_>> {
        self.purging.fetch_add(1, SeqCst);
        let purging = Purging(self);
        if self.is_held() || self.is_stopped() { None } else { Some(purging) }
    }
    /// Counts `logs` as purged.
    pub(super) fn done(&self, logs: u64) {
        self.len.fetch_sub(logs, Relaxed);
        self.purged.fetch_add(logs, Relaxed);
    }
}
pub(crate) struct Purging<'h>(&'h History);
impl Drop for Purging<'_> {
    fn drop(&mut self) {
        self.0.purging.fetch_sub(1, SeqCst);
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// A transaction comes back to pages, also to the page where its log begins.
    #[test]
    fn parts_are_counted_by_page() {
        let pages = [3, 4, 3, 3, 5, 4, 3, 6, 5];
        let mut place = Place::default();
        for (i, page) in pages.into_iter().enumerate() {
            let before = pages[1.min(i)..i].iter().filter(|no| **no == page).count();
            let part = if i == 0 { Part::First } else { Part::More(before as u32) };
            assert_eq!(place.is_first(), i == 0);
            assert_eq!(place.next(&pages), Some((page, part)));
            assert_eq!(place.next(&pages), Some((page, part)), "when it is tried again");
            let passed = &pages[i..pages.len().min(i + 4)];
            passed.iter().for_each(|no| place.pass(*no));
            place.go_back(passed);
            assert_eq!(place.next(&pages), Some((page, part)), "when it goes back");
            place.pass(page);
        }
        assert_eq!(place.next(&pages), None);
    }
}

//! What committed transactions have left to purge, and how far purge is with it.
//!
//! The logs themselves are in the undo pages, and most are found by reading these
//! ([`UndoPages::next_to_read`]). Here are the long ones, which are in more than one page, and
//! those that the way through the pages is too simple for.
use crate::undo::{UndoLog, UndoPages};
use crate::{PageNo, SpaceId, TrxId};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

/// A committed transaction's log that is purged by itself.
pub(super) struct Item {
    pub trx: TrxId,
    pub first: (PageNo, u16),
    pub pages: SmallVec<[PageNo; 2]>,
    pub left: Left,
    /// How often the disk has failed it.
    pub errors: u32,
}
/// What is to be done of it.
pub(super) enum Left {
    Changes(Place),
    /// To free what these pages begin.
    Chains(Vec<(SpaceId, PageNo)>),
}
/// How far the changes of a log are purged.
#[derive(Default)]
pub(super) struct Place {
    /// The next part.
    pub part: usize,
    /// What is to be freed for those before.
    pub chains: Vec<(SpaceId, PageNo)>,
}
impl Item {
    pub(super) fn new(trx: TrxId, first: (PageNo, u16), pages: SmallVec<[PageNo; 2]>) -> Item {
        Item { trx, first, pages, left: Left::Changes(Place::default()), errors: 0 }
    }
}
/// Committed transactions that are to be purged.
#[derive(Default)]
pub struct History {
    pub(super) items: Mutex<VecDeque<Item>>,
    /// All of them, also those that are only in the undo pages.
    len: AtomicU64,
    /// Purge has been through all that committed with a number below.
    pub(super) done_below: AtomicU64,
    pub purged: AtomicU64,
    pub counts: Counts,
    stopped: AtomicBool,
    /// How many hold purge off for a while; and how many purge now.
    pub(super) held: AtomicUsize,
    purging: AtomicUsize,
    /// A page of undo that could not be read, and how often.
    pub(super) unreadable: Mutex<(PageNo, u32)>,
    pub(super) failures: Mutex<super::rate_limited_log::RateLimitedLog>,
    /// There is enough to do for more than one.
    pub(super) help: crate::sync::event::Event,
    pub lag: super::lag::Lag,
}
/// What purge counts (purge_* of INNODB_METRICS).
#[derive(Default)]
pub struct Counts {
    pub rounds: AtomicU64,
    pub pages: AtomicU64,
    /// Delete-marked records removed.
    pub removed: AtomicU64,
    /// Undo records of changes to rows that were there.
    pub changes: AtomicU64,
    /// Logs that could not be purged for now.
    pub retries: AtomicU64,
    pub stops: AtomicU64,
    pub resumes: AtomicU64,
}
/// What purge is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Running,
    Idle,
    /// What is in work is the last.
    Stopping,
    Stopped,
}
impl State {
    /// As SHOW ENGINE INNODB STATUS says it.
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
    /// Nothing is begun from now on. What is being purged is finished.
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
    /// Everything that committed with a number below is purged, but for what could not be; `next`
    /// if nothing waits.
    pub fn done_below(&self, next: TrxId) -> TrxId {
        if self.is_empty() { next } else { TrxId(self.done_below.load(Relaxed)) }
    }
    /// A transaction has committed, and lets go of its log.
    pub(crate) fn add(&self, pages: &UndoPages, trx: TrxId, log: &mut UndoLog) {
        // Before purge can see it and count it down.
        if !log.is_empty() {
            self.len.fetch_add(1, Relaxed);
        }
        log.release(pages);
        if let Some(first) = log.first()
            && log.pages.len() > 1
        {
            self.items.lock().push_back(Item::new(trx, first, std::mem::take(&mut log.pages)));
        }
    }
    /// A log found at start; its pages if it is a long one.
    pub(crate) fn add_found(
        &self,
        trx: TrxId,
        first: (PageNo, u16),
        long: Option<SmallVec<[PageNo; 2]>>,
    ) {
        self.len.fetch_add(1, Relaxed);
        self.items.lock().extend(long.map(|pages| Item::new(trx, first, pages)));
    }
    /// Innodb_history_list_length.
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
    /// Announces that one more purges, unless purge is stopped or held off; until what is returned
    /// is dropped.
    pub(super) fn start(&self) -> Option<Purging<'_>> {
        self.purging.fetch_add(1, SeqCst);
        let purging = Purging(self);
        if self.is_held() || self.is_stopped() { None } else { Some(purging) }
    }
    /// So many logs are purged.
    pub(super) fn done(&self, logs: u64) {
        self.len.fetch_sub(logs, Relaxed);
        self.purged.fetch_add(logs, Relaxed);
    }
}
pub(super) struct Purging<'h>(&'h History);
impl Drop for Purging<'_> {
    fn drop(&mut self) {
        self.0.purging.fetch_sub(1, SeqCst);
    }
}

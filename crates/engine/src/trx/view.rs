//! Read views: the transactions whose writes a consistent read sees.
//!
//! A view sees a transaction that had finished when the view was opened. So the content of a view
//! depends only on how many transactions have finished (`version`); ids and commit numbers drawn
//! since change nothing. A session keeps one `ReadView` and opens it again and again. If no
//! transaction has finished since, opening costs two loads and a store; otherwise it costs one
//! short mutex and a copy of the active ids into memory that the view keeps.
//!
//! - VIEW-1: an open view sees every transaction whose commit number is below the view's `low_no`,
//!   so the view does not need the undo of such a transaction. Purge takes what a view of its own
//!   sees, once no open view has a lower `low_no` than this one: then each of them sees it, too.
//! - VIEW-2: `low_no` of an open view is in its slot before the view is used. Purge reads the slots
//!   after it has read the state.
//! - VIEW-3: the redo of a transaction that the view does not see lies behind the view's `low_lsn`
//!   (TRX-6). So the view sees all changes of a page whose LSN is not above `low_lsn`.
use super::sys::TrxSys;
use crate::canary::{Canary, planted};
use crate::sync::lock::Mutex;
use crate::sync::lock::atomic::{AtomicU64, Ordering};
use crate::{Lsn, TrxId};
use std::sync::Arc;

/// The part of a view that purge reads: `low_no`, or `u64::MAX` while the view is closed. The slot
/// has a cache line of its own.
#[repr(align(64))]
pub(super) struct Slot(AtomicU64);
const CLOSED: u64 = u64::MAX;
/// No state of the transaction system has this version.
const NEVER: u64 = u64::MAX;

/// The slots of all views.
#[derive(Default)]
pub(super) struct Slots(Mutex<Vec<Arc<Slot>>>);
impl Slots {
    /// The least `low_no` of the open views. [`TrxSys::open_view`] says why the load is SeqCst.
    pub(super) fn oldest(&self) -> u64 {
        self.0.lock().iter().map(|slot| slot.0.load(Ordering::SeqCst)).min().unwrap_or(CLOSED)
    }
    pub(super) fn open(&self) -> usize {
        self.0.lock().iter().filter(|slot| slot.0.load(Ordering::Relaxed) != CLOSED).count()
    }
}

/// A view, open or closed. Dropping it closes it.
pub struct ReadView {
    /// Transactions with ids below are finished.
    low: TrxId,
    /// Ids from here on had not been drawn when the view was opened, or belong to no finished
    /// transaction.
    high: TrxId,
    /// The ids of the unfinished transactions between `low` and `high`, sorted.
    active: Vec<TrxId>,
    creator: TrxId,
    /// The next number when the view was opened: the view sees every commit with a number below
    /// (TRX-5).
    low_no: TrxId,
    low_lsn: Lsn,
    version: u64,
    slot: Arc<Slot>,
    slots: Arc<Slots>,
}

/// The state of the transaction system that a view copies.
pub(super) struct State<'a> {
    pub(super) next: TrxId,
    pub(super) active: &'a [TrxId],
    /// The LSN at which the first of the active transactions began.
    pub(super) begun: Option<Lsn>,
    pub(super) version: u64,
}

impl ReadView {
    pub(super) fn new(slots: Arc<Slots>) -> ReadView {
        let slot = Arc::new(Slot(AtomicU64::new(CLOSED)));
        slots.0.lock().push(slot.clone());
        ReadView {
            low: TrxId::NONE,
            high: TrxId::NONE,
            active: Vec::new(),
            creator: TrxId::NONE,
            low_no: TrxId::NONE,
            low_lsn: Lsn(0),
            version: NEVER,
            slot,
            slots,
        }
    }

    /// Whether the view sees the writes of `id`.
    #[inline]
    pub fn sees(&self, id: TrxId) -> bool {
        if id < self.low || planted(Canary::DirtyReads) {
            return true;
        }
        id == self.creator || (id < self.high && self.active.binary_search(&id).is_err())
    }
    /// Whether the view sees all changes of a page with this LSN (VIEW-3).
    #[inline]
    pub fn sees_page(&self, lsn: Lsn) -> bool {
        lsn <= self.low_lsn || planted(Canary::EntriesForRows)
    }
    /// Sets the view's own transaction, once the transaction has an id: the view sees its writes.
    pub fn set_creator(&mut self, id: TrxId) {
        self.creator = id;
    }
    pub fn is_open(&self) -> bool {
        self.slot.0.load(Ordering::Relaxed) != CLOSED
    }
    /// The view needs no transaction with a commit number below this number.
    pub fn low_no(&self) -> TrxId {
        self.low_no
    }
    /// Lets purge go on. The content is kept, in case the view is opened again before another
    /// transaction finishes.
    pub fn close(&mut self) {
        self.slot.0.store(CLOSED, Ordering::Release);
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }
    pub(super) fn publish(&self) {
        self.slot.0.store(self.low_no.0, Ordering::SeqCst);
    }
    /// Copies the state. The caller holds the transaction system's mutex.
    pub(super) fn copy(&mut self, state: State<'_>, tail: impl FnOnce() -> Lsn) {
        self.low = state.active.first().copied().unwrap_or(state.next);
        self.high = state.next;
        self.active.clear();
        self.active.extend_from_slice(state.active);
        self.low_no = state.next;
        self.low_lsn = state.begun.unwrap_or_else(tail);
        self.version = state.version;
        self.publish();
    }
}

impl Drop for ReadView {
    fn drop(&mut self) {
        self.close();
        let mut slots = self.slots.0.lock();
        let place = slots
            .iter()
            .position(|slot| Arc::ptr_eq(slot, &self.slot))
            .expect("a view's slot is listed");
        slots.swap_remove(place);
    }
}

impl TrxSys {
    /// A closed view. A session makes one view and keeps it.
    pub fn new_view(&self) -> ReadView {
        ReadView::new(self.slots.clone())
    }

    /// Opens `view`, or opens it again, on the present state for the transaction `creator`
    /// (`TrxId::NONE` while the transaction has no id). `tail` is the redo log's: VIEW-3.
    ///
    /// The way without the mutex is safe from purge. Here the slot is stored first, and then the
    /// version is read again, both SeqCst; purge reads the state under the mutex first, and then
    /// the slot. If purge misses the value in the slot, then purge read the state before the
    /// version was read here. The version was the same at that time, so what purge derives from
    /// that state keeps all that the view needs.
    pub fn open_view(&self, view: &mut ReadView, creator: TrxId, tail: impl FnOnce() -> Lsn) {
        view.creator = creator;
        if view.version() == self.version() {
            view.publish();
            if view.version() == self.version() {
                return;
            }
        }
        self.with_state(|state| view.copy(state, tail));
    }

    /// No view, open now or opened later, needs the undo of a transaction with a commit number
    /// below this number.
    pub fn oldest_view_no(&self) -> TrxId {
        let now = self.with_state(|state| state.next);
        now.min(TrxId(self.slots.oldest()))
    }
    /// Whether every open view sees what `horizon` sees, which is open, too: then purge may take it
    /// (VIEW-1).
    pub fn may_purge(&self, horizon: &ReadView) -> bool {
        self.oldest_view_no() >= horizon.low_no()
    }
    pub fn open_views(&self) -> usize {
        self.slots.open()
    }
}

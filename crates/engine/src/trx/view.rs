//! Read views: which transactions' writes a consistent read sees.
//!
//! A transaction is visible in a view if it had finished when the view was opened. So a view's
//! content depends only on how many transactions have finished (`version`); ids and commit numbers
//! handed out in between change nothing. A session keeps one `ReadView` and opens it again and
//! again: while nobody has finished that costs two loads and a store, otherwise one short mutex and
//! a copy of the active ids into kept memory.
//!
//! - VIEW-1: a transaction with commit number below an open view's `low_no` is visible in it, so
//!   its undo is not needed by it.
//! - VIEW-2: an open view's `low_no` is in its slot before the view is used, and purge reads the
//!   slots after it has read the state.
use super::sys::TrxSys;
use crate::TrxId;
use crate::canary::{Canary, planted};
use crate::sync::lock::Mutex;
use crate::sync::lock::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What purge sees of a view: its `low_no`, or `u64::MAX` when it is closed. A cache line of its
/// own.
#[repr(align(64))]
pub(super) struct Slot(AtomicU64);
const CLOSED: u64 = u64::MAX;
/// No state of the transaction system has this version.
const NEVER: u64 = u64::MAX;

/// The slots of all views there are.
#[derive(Default)]
pub(super) struct Slots(Mutex<Vec<Arc<Slot>>>);
impl Slots {
    /// The least `low_no` of the open views. SeqCst: see [`TrxSys::open_view`].
    pub(super) fn oldest(&self) -> u64 {
        self.0.lock().iter().map(|slot| slot.0.load(Ordering::SeqCst)).min().unwrap_or(CLOSED)
    }
    pub(super) fn open(&self) -> usize {
        self.0.lock().iter().filter(|slot| slot.0.load(Ordering::Relaxed) != CLOSED).count()
    }
}

/// A view, open or closed. Dropping it closes it.
pub struct ReadView {
    /// Ids below are finished.
    low: TrxId,
    /// Ids from here on had not been handed out (or belong to nobody who has finished).
    high: TrxId,
    /// Sorted: the unfinished ones between.
    active: Vec<TrxId>,
    creator: TrxId,
    low_no: TrxId,
    version: u64,
    slot: Arc<Slot>,
    slots: Arc<Slots>,
}

/// The state of the transaction system that a view copies.
pub(super) struct State<'a> {
    pub(super) next: TrxId,
    pub(super) active: &'a [TrxId],
    pub(super) low_no: TrxId,
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
            version: NEVER,
            slot,
            slots,
        }
    }

    /// Whether the writes of `id` are seen.
    #[inline]
    pub fn sees(&self, id: TrxId) -> bool {
        if id < self.low || planted(Canary::DirtyReads) {
            return true;
        }
        id == self.creator || (id < self.high && self.active.binary_search(&id).is_err())
    }
    /// Whether everything up to and including `id` is seen: a page whose newest writer it is needs
    /// no look at its records.
    #[inline]
    pub fn sees_all_to(&self, id: TrxId) -> bool {
        id < self.low
    }
    /// The view's own transaction, once it has an id: its writes are seen.
    pub fn set_creator(&mut self, id: TrxId) {
        self.creator = id;
    }
    pub fn is_open(&self) -> bool {
        self.slot.0.load(Ordering::Relaxed) != CLOSED
    }
    /// Commit numbers below are not needed by this view.
    pub fn low_no(&self) -> TrxId {
        self.low_no
    }
    /// Lets purge go on. The content is kept, in case the view is opened again before anyone
    /// finishes.
    pub fn close(&mut self) {
        self.slot.0.store(CLOSED, Ordering::Release);
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }
    pub(super) fn publish(&self) {
        self.slot.0.store(self.low_no.0, Ordering::SeqCst);
    }
    /// Called under the transaction system's mutex.
    pub(super) fn copy(&mut self, state: State<'_>) {
        self.low = state.active.first().copied().unwrap_or(state.next);
        self.high = state.next;
        self.active.clear();
        self.active.extend_from_slice(state.active);
        self.low_no = state.low_no;
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
    /// A closed view; a session makes one and keeps it.
    pub fn new_view(&self) -> ReadView {
        ReadView::new(self.slots.clone())
    }

    /// Opens `view` (again) on the present state, for the transaction `creator` (`TrxId::NONE`
    /// while it has no id).
    ///
    /// Why the short way is safe from purge: the slot is stored, then the version is read again,
    /// both SeqCst; purge reads the state under the mutex, then the slot. If purge misses the
    /// slot's value, its look at the state came before this look at the version, so the version was
    /// the same then, and what purge derived from that state keeps what the view needs.
    pub fn open_view(&self, view: &mut ReadView, creator: TrxId) {
        view.creator = creator;
        if view.version() == self.version() {
            view.publish();
            if view.version() == self.version() {
                return;
            }
        }
        self.with_state(|state| view.copy(state));
    }

    /// Undo of transactions whose commit number is below this is needed by no view, open now or
    /// opened later.
    pub fn oldest_view_no(&self) -> TrxId {
        let now = self.with_state(|state| state.low_no);
        now.min(TrxId(self.slots.oldest()))
    }
    pub fn open_views(&self) -> usize {
        self.slots.open()
    }
}

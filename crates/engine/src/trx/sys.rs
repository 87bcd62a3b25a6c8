//! The set of active transactions, and the one counter that numbers transactions and commits.
//!
//! A transaction gets an id at its first write (`register`). When its commit record is in the redo
//! log, `commit_no` draws a number from the same counter and makes the transaction visible, in one
//! step. So whoever reads the counter and the active set sees every commit whose number is below
//! the counter (TRX-5).
//!
//! - TRX-1: ids and commit numbers are drawn in rising order under the mutex. No number is ever
//!   drawn twice, not even after a crash: only numbers below the persisted high-water mark are
//!   drawn.
//! - TRX-2: a registered transaction can always draw its commit number: `register` leaves room for
//!   one number per active transaction.
//! - TRX-3: leaving the active set is atomic for views: a view sees a transaction as a whole or not
//!   at all.
//! - TRX-4: `min_active` never falls. Ids below it belong to finished transactions.
//! - TRX-5: a commit draws its number, leaves the active set and changes `version` under one hold
//!   of the mutex. So two views that are opened at the same next number see the same commits.
//! - TRX-6: all redo of a transaction lies behind the LSN at which it began, and transactions that
//!   begin later begin at no lower LSN.
//!
//! A transaction ends in this order: its commit record goes to the redo log, then `commit_no`, then
//! `LockTable::release_all`.
use super::view::{Slots, State};
use crate::lock::TrxLocks;
use crate::sync::lock::Mutex;
use crate::sync::lock::atomic::{AtomicU64, Ordering};
use crate::{Lsn, TrxId};
use std::sync::Arc;

/// The amount of numbers that one write of the high-water mark allows to be drawn.
pub(crate) const ID_BLOCK: u64 = 65536;
const SHARDS: usize = 64;

type Shard = Mutex<Vec<(TrxId, Arc<TrxLocks>)>>;

pub struct TrxSys {
    state: Mutex<Active>,
    min_active: AtomicU64,
    /// How many transactions have finished.
    version: AtomicU64,
    /// A copy of `Active::next`, for reading without the mutex.
    next: AtomicU64,
    high_water: AtomicU64,
    /// The active transactions by id, for a transaction that meets another's id in a record.
    shards: Box<[Shard]>,
    pub(super) slots: Arc<Slots>,
}

struct Active {
    next: u64,
    /// The ids of the active transactions, sorted.
    ids: Vec<TrxId>,
    /// The LSN at which each of them began, in the same order.
    begun: Vec<Lsn>,
}

impl TrxSys {
    /// `next` is the next number to draw: after recovery the persisted high-water mark, or any
    /// number above all numbers in use. `high_water` is the persisted mark.
    pub fn new(next: TrxId, high_water: TrxId) -> Arc<TrxSys> {
        assert!(next > TrxId::NONE && next <= high_water);
        Arc::new(TrxSys {
            state: Mutex::new(Active { next: next.0, ids: Vec::new(), begun: Vec::new() }),
            min_active: AtomicU64::new(next.0),
            version: AtomicU64::new(0),
            next: AtomicU64::new(next.0),
            high_water: AtomicU64::new(high_water.0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            slots: Arc::default(),
        })
    }

    /// The number that is drawn next.
    pub fn next_id(&self) -> TrxId {
        TrxId(self.next.load(Ordering::Acquire))
    }
    pub fn high_water(&self) -> TrxId {
        TrxId(self.high_water.load(Ordering::Acquire))
    }
    /// The mark to persist and then to pass to `set_high_water`, if less than half a block of
    /// numbers is left.
    pub fn reserve_needed(&self) -> Option<TrxId> {
        let next = self.next.load(Ordering::Relaxed);
        let mark = self.high_water.load(Ordering::Relaxed);
        let active = self.active_count() as u64;
        (next + active + ID_BLOCK / 2 >= mark).then_some(TrxId(next + active + 2 * ID_BLOCK))
    }
    /// Raises the mark. The caller has made `mark` durable.
    pub fn set_high_water(&self, mark: TrxId) {
        assert!(mark <= TrxId::MAX, "48 bits of transaction ids are used up");
        self.high_water.fetch_max(mark.0, Ordering::AcqRel);
    }

    /// Gives a transaction its id, at its first write. After `None` the caller has to persist the
    /// mark that `reserve_needed` returns (TRX-2) and call again. `tail` is that of the redo log
    /// (TRX-6).
    pub fn register(&self, trx: &Arc<TrxLocks>, tail: Lsn) -> Option<TrxId> {
        assert_eq!(trx.trx_id(), TrxId::NONE, "a transaction is registered once");
        let id = {
            let mut state = self.state.lock();
            if state.next + state.ids.len() as u64 + 1 >= self.high_water.load(Ordering::Acquire) {
                return None;
            }
            let id = TrxId(state.draw(&self.next));
            state.ids.push(id);
            // The tail was read before this transaction's turn. The one before may have read it
            // later.
            let before = state.begun.last().copied();
            state.begun.push(tail.max(before.unwrap_or(tail)));
            id
        };
        // The transaction must be listed before its id is in any record.
        self.shard(id).lock().push((id, trx.clone()));
        trx.set_trx_id(id);
        Some(id)
    }

    /// Makes a transaction found by recovery active again under its old id. Recovery calls this
    /// before any other use, with a `next` above all such ids.
    pub fn resurrect(&self, trx: &Arc<TrxLocks>, id: TrxId) {
        let mut state = self.state.lock();
        assert!(id > TrxId::NONE && id.0 < state.next);
        let place = state.ids.binary_search(&id).expect_err("resurrected once");
        state.ids.insert(place, id);
        state.begun.insert(place, Lsn(0));
        self.min_active.store(state.min_active(), Ordering::Release);
        drop(state);
        self.shard(id).lock().push((id, trx.clone()));
        trx.set_trx_id(id);
    }

    /// Makes the transaction visible to views opened from now on, and returns the number of its
    /// commit, which orders it among all commits.
    pub fn commit_no(&self, id: TrxId) -> TrxId {
        let no = {
            let mut state = self.state.lock();
            let place = state.ids.binary_search(&id).expect("only an active transaction commits");
            self.commit_at(&mut state, place)
        };
        self.unlist(id);
        no
    }
    /// As `commit_no`, unless the transaction has ended already: each of two parties may see to it
    /// that the transaction ends. Returns whether it ended here.
    pub fn commit_once(&self, id: TrxId) -> bool {
        let mut state = self.state.lock();
        let Ok(place) = state.ids.binary_search(&id) else { return false };
        self.commit_at(&mut state, place);
        // Who finds that the transaction has ended already must not find it listed any more.
        self.unlist(id);
        true
    }
    /// Draws the number of a commit and ends the transaction (TRX-5).
    fn commit_at(&self, state: &mut Active, place: usize) -> TrxId {
        assert!(state.next < self.high_water.load(Ordering::Acquire), "TRX-2");
        let no = TrxId(state.draw(&self.next));
        self.end_at(state, place);
        no
    }
    fn end_at(&self, state: &mut Active, place: usize) {
        state.remove(place);
        self.min_active.store(state.min_active(), Ordering::Release);
        self.version.fetch_add(1, Ordering::SeqCst);
    }
    /// Ends a transaction without a commit number, after a rollback or because it wrote nothing
    /// after all.
    pub fn deregister(&self, id: TrxId) {
        let mut state = self.state.lock();
        let place = state.ids.binary_search(&id).expect("only an active transaction ends");
        self.end_at(&mut state, place);
        drop(state);
        self.unlist(id);
    }
    fn unlist(&self, id: TrxId) {
        let mut shard = self.shard(id).lock();
        let place = shard
            .iter()
            .position(|(other, _)| *other == id)
            .expect("an active transaction is listed");
        shard.swap_remove(place);
    }

    /// Whether the transaction that wrote a record is unfinished. For all but recent ids this costs
    /// one load.
    #[inline]
    pub fn is_active(&self, id: TrxId) -> bool {
        id.0 >= self.min_active.load(Ordering::Acquire)
            && self.shard(id).lock().iter().any(|(other, _)| *other == id)
    }
    /// The owner of an implicit lock, if the owner is unfinished.
    #[inline]
    pub fn find(&self, id: TrxId) -> Option<Arc<TrxLocks>> {
        if id.0 < self.min_active.load(Ordering::Acquire) {
            return None;
        }
        self.shard(id).lock().iter().find(|(other, _)| *other == id).map(|(_, trx)| trx.clone())
    }
    /// The least active id, or the next number if no transaction is active.
    pub fn min_active(&self) -> TrxId {
        TrxId(self.min_active.load(Ordering::Acquire))
    }
    pub fn active_count(&self) -> usize {
        self.state.lock().ids.len()
    }
    pub fn active_ids(&self) -> Vec<TrxId> {
        self.state.lock().ids.clone()
    }

    fn shard(&self, id: TrxId) -> &Shard {
        &self.shards[id.0 as usize % SHARDS]
    }
    #[inline]
    /// Views that are opened from now on are made anew: purge has changed pages, and only a new
    /// view is known to see all changes of these (VIEW-3).
    pub fn outdate_views(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
    pub(super) fn with_state<T>(&self, read: impl FnOnce(State<'_>) -> T) -> T {
        let state = self.state.lock();
        read(State {
            next: TrxId(state.next),
            active: &state.ids,
            begun: state.begun.first().copied(),
            version: self.version.load(Ordering::SeqCst),
        })
    }
}

impl Active {
    fn draw(&mut self, copy: &AtomicU64) -> u64 {
        let number = self.next;
        self.next += 1;
        copy.store(self.next, Ordering::Release);
        number
    }
    fn remove(&mut self, place: usize) {
        debug_assert!(self.ids.len() == self.begun.len() && self.begun.is_sorted(), "TRX-6");
        self.ids.remove(place);
        self.begun.remove(place);
    }
    fn min_active(&self) -> u64 {
        self.ids.first().map_or(self.next, |id| id.0)
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::super::view::ReadView;
    use super::*;
    use crate::lock::{KillFlag, LockTable};
    use crate::sync::lock::atomic::AtomicBool;
    use crate::testing::AtEnd;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    fn table() -> Arc<LockTable> {
        LockTable::new(|| Duration::ZERO)
    }

    /// Tests TRX-1.
    #[test]
    fn numbers_stop_at_the_high_water_mark_with_room_for_commits() {
        let (sys, locks) = (TrxSys::new(TrxId(10), TrxId(20)), table());
        let mut ids = Vec::new();
        while let Some(id) = sys.register(&locks.new_trx(KillFlag::new()), Lsn(0)) {
            ids.push(id);
        }
        assert_eq!(ids.len(), 5);
        ids.iter().for_each(|id| assert!(sys.commit_no(*id) < TrxId(20)));
        assert_eq!(sys.reserve_needed(), Some(TrxId(20 + 2 * ID_BLOCK)));
        sys.set_high_water(TrxId(20 + 2 * ID_BLOCK));
        assert_eq!(sys.reserve_needed(), None);
        assert_eq!(sys.register(&locks.new_trx(KillFlag::new()), Lsn(0)), Some(TrxId(20)));
    }

    #[test]
    fn a_transaction_is_active_from_register_to_commit() {
        let (sys, locks) = (TrxSys::new(TrxId(1), TrxId(1000)), table());
        let (a, b) = (locks.new_trx(KillFlag::new()), locks.new_trx(KillFlag::new()));
        let (ia, ib) = (sys.register(&a, Lsn(0)).unwrap(), sys.register(&b, Lsn(0)).unwrap());
        assert!(Arc::ptr_eq(&sys.find(ib).unwrap(), &b));
        assert!(sys.is_active(ib) && sys.commit_no(ib) > ib);
        assert!(!sys.is_active(ib) && sys.find(ib).is_none());
        assert!(sys.is_active(ia) && sys.min_active() == ia);
        sys.deregister(ia);
        assert_eq!(sys.min_active(), sys.next_id());
        assert!(!sys.is_active(TrxId(999)));
    }

    #[test]
    fn a_transaction_ends_once_whoever_ends_it() {
        let (sys, locks) = (TrxSys::new(TrxId(1), TrxId(100_000)), table());
        for _ in 0..1000 {
            let id = sys.register(&locks.new_trx(KillFlag::new()), Lsn(0)).unwrap();
            let ended = std::thread::scope(|scope| {
                let other = scope.spawn(|| sys.commit_once(id));
                [sys.commit_once(id), other.join().unwrap()]
            });
            assert!(ended[0] != ended[1] && !sys.is_active(id) && !sys.commit_once(id));
        }
        assert_eq!((sys.active_count(), sys.min_active()), (0, sys.next_id()));
    }

    #[test]
    fn recovered_transactions_are_active_and_invisible() {
        let (sys, locks) = (TrxSys::new(TrxId(100), TrxId(1000)), table());
        for id in [70, 40, 60] {
            sys.resurrect(&locks.new_trx(KillFlag::new()), TrxId(id));
        }
        let mut view = sys.new_view();
        sys.open_view(&mut view, TrxId::NONE, || Lsn(0));
        assert!(view.sees(TrxId(39)) && view.sees(TrxId(50)) && view.sees(TrxId(99)));
        assert!(
            !view.sees(TrxId(40))
                && !view.sees(TrxId(60))
                && !view.sees(TrxId(70))
                && !view.sees(TrxId(100))
        );
        assert_eq!(sys.active_ids(), [TrxId(40), TrxId(60), TrxId(70)]);
        sys.deregister(TrxId(40));
        assert_eq!(sys.min_active(), TrxId(60));
    }

    #[test]
    fn a_view_sees_its_creator() {
        let (sys, locks) = (TrxSys::new(TrxId(1), TrxId(1000)), table());
        let mut view = sys.new_view();
        sys.open_view(&mut view, TrxId::NONE, || Lsn(0));
        let id = sys.register(&locks.new_trx(KillFlag::new()), Lsn(0)).unwrap();
        assert!(!view.sees(id));
        view.set_creator(id);
        assert!(view.sees(id));
        assert_eq!((sys.open_views(), view.is_open()), (1, true));
        view.close();
        assert_eq!(sys.open_views(), 0);
    }

    /// Compares random histories with plain sets: what each view sees, and that purge never passes
    /// a transaction whose undo a view needs.
    /// Tests TRX-4.
    #[test]
    fn views_agree_with_a_plain_model() {
        for seed in 1..=40 {
            let mut random = crate::lock::tests::Random(seed);
            let (sys, locks) = (TrxSys::new(TrxId(5), TrxId(100_000)), table());
            let mut active: Vec<TrxId> = Vec::new();
            let mut finished: BTreeSet<TrxId> = (1..5).map(TrxId).collect();
            // Commit number to transaction, for the commits that purge has not taken yet.
            let mut history: BTreeMap<TrxId, TrxId> = BTreeMap::new();
            // Commit numbers are not ids of transactions, so the views' answers for them do not
            // matter.
            let mut nos: BTreeSet<TrxId> = BTreeSet::new();
            let mut views: Vec<(ReadView, BTreeSet<TrxId>, bool)> =
                (0..6).map(|_| (sys.new_view(), BTreeSet::new(), false)).collect();
            for _ in 0..600 {
                match random.below(12) {
                    0..=2 => {
                        active.push(sys.register(&locks.new_trx(KillFlag::new()), Lsn(0)).unwrap())
                    }
                    3..=6 if !active.is_empty() => {
                        let id = active.swap_remove(random.below(active.len() as u64) as usize);
                        let no = sys.commit_no(id);
                        assert!(nos.insert(no));
                        finished.insert(id);
                        history.insert(no, id);
                    }
                    7 if !active.is_empty() => {
                        let id = active.swap_remove(random.below(active.len() as u64) as usize);
                        sys.deregister(id);
                        finished.insert(id);
                    }
                    8..=9 => {
                        let (view, sees, open) = &mut views[random.below(6) as usize];
                        sys.open_view(view, TrxId::NONE, || Lsn(0));
                        *sees = finished.clone();
                        *open = true;
                    }
                    10 => {
                        let (view, _, open) = &mut views[random.below(6) as usize];
                        view.close();
                        *open = false;
                    }
                    _ => {
                        let mut horizon = sys.new_view();
                        sys.open_view(&mut horizon, TrxId::NONE, || Lsn(0));
                        if !sys.may_purge(&horizon) {
                            continue;
                        }
                        let gone: BTreeMap<TrxId, TrxId>;
                        (gone, history) = history.into_iter().partition(|c| horizon.sees(c.1));
                        for (view, sees, _) in views.iter().filter(|v| v.2) {
                            assert!(
                                gone.values().all(|id| sees.contains(id) && view.sees(*id)),
                                "VIEW-1, seed {seed}"
                            );
                        }
                    }
                }
                for (view, sees, _) in views.iter().filter(|v| v.2) {
                    for id in (1..sys.next_id().0 + 2).map(TrxId).filter(|id| !nos.contains(id)) {
                        assert_eq!(view.sees(id), sees.contains(&id), "seed {seed}, trx {id:?}");
                    }
                }
                for id in 1..sys.next_id().0 + 2 {
                    assert_eq!(sys.is_active(TrxId(id)), active.contains(&TrxId(id)));
                }
            }
        }
    }

    /// Threads commit, purge and read at once. Fails if the answers of an open view change, or if
    /// purge takes a commit that an open view does not see.
    /// Tests TRX-3 and TRX-5.
    #[test]
    fn views_are_whole_and_kept_from_purge_under_threads() {
        let (sys, locks) = (TrxSys::new(TrxId(1), TrxId(1_000_000)), table());
        // The transactions that commit and that "purge" has not taken yet, and those it took.
        let history: Mutex<BTreeSet<TrxId>> = Mutex::default();
        let purged: Mutex<Vec<TrxId>> = Mutex::default();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let trx = locks.new_trx(KillFlag::new());
                        for _ in 0..3000 {
                            let id = sys.register(&trx, Lsn(0)).unwrap();
                            history.lock().insert(id);
                            sys.commit_no(id);
                            locks.release_all(&trx);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut horizon = sys.new_view();
                    sys.open_view(&mut horizon, TrxId::NONE, || Lsn(0));
                    if !sys.may_purge(&horizon) {
                        continue;
                    }
                    history.lock().retain(|id| {
                        let is_gone = horizon.sees(*id);
                        if is_gone {
                            purged.lock().push(*id);
                        }
                        !is_gone
                    });
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut view = sys.new_view();
                    while !stop.load(Ordering::Relaxed) {
                        sys.open_view(&mut view, TrxId::NONE, || Lsn(0));
                        let ids: Vec<TrxId> = (view.low_no().0.saturating_sub(20)
                            ..view.low_no().0 + 20)
                            .map(TrxId)
                            .collect();
                        let first: Vec<bool> = ids.iter().map(|id| view.sees(*id)).collect();
                        std::thread::yield_now();
                        assert!(
                            ids.iter().map(|id| view.sees(*id)).eq(first),
                            "a view does not change"
                        );
                        let gone = purged.lock();
                        assert!(
                            gone.iter().rev().take(500).all(|id| view.sees(*id)),
                            "purged what an open view needs"
                        );
                        drop(gone);
                        view.close();
                    }
                });
            }
            let _ends = AtEnd(|| stop.store(true, Ordering::Relaxed));
            writers.into_iter().for_each(|w| w.join().unwrap());
        });
        assert_eq!(sys.active_count(), 0);
    }
}

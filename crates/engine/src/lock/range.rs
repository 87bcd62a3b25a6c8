//! Range locks of one index: intervals of key bytes into which only their owners insert. They stand
//! for gap locks.
//!
//! Shared and exclusive ranges are the same: both only forbid inserts by others, and never conflict
//! with each other.
//!
//! - RANGE-1: a scanner takes its range before it latches the first leaf, and an inserter checks
//!   for ranges while it holds the leaf exclusively. So either the inserter sees the range, or the
//!   scanner sees the record (and its implicit lock).
//! - RANGE-2: held ranges of one owner neither overlap nor touch. So one binary search finds an
//!   owner's ranges, and a key lies in at most one of them.
//! - RANGE-3: `live` is the number of intervals. It changes under the set's mutex, and inserters
//!   read it without the mutex.
use super::interval::{High, IntervalTree, Slot, below, high_at_least};
use super::owner::{KeyBuf, Outcome, Target, TrxLocks};
use super::row::Wakers;
use super::slots::Slots;
use super::table::{LockTable, wake};
use super::wait::LockWait;
use crate::sync::lock::atomic::{AtomicUsize, Ordering};
use crate::sync::lock::{Mutex, give_way};
use crate::{Try, WouldBlock};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// So many ranges are given back before inserts of others get a turn.
const RELEASED_AT_ONCE: usize = 256;

/// An interval of key bytes, kept half-open: `low <= key < high`. The successor of a byte string is
/// the string with a zero byte appended, so every kind of bound fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    low: KeyBuf,
    high: High,
}
impl KeyRange {
    pub fn new(low: Bound<&[u8]>, high: Bound<&[u8]>) -> KeyRange {
        let low = match low {
            Bound::Unbounded => KeyBuf::new(),
            Bound::Included(key) => KeyBuf::from_slice(key),
            Bound::Excluded(key) => successor(key),
        };
        KeyRange { low, high: half_open(high) }
    }
    pub fn all() -> KeyRange {
        KeyRange { low: KeyBuf::new(), high: None }
    }
    pub fn none() -> KeyRange {
        KeyRange { low: KeyBuf::new(), high: Some(KeyBuf::new()) }
    }
    pub fn point(key: &[u8]) -> KeyRange {
        KeyRange { low: KeyBuf::from_slice(key), high: Some(successor(key)) }
    }
    /// All keys that begin with `prefix`, such as the entries of a secondary key.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut high = KeyBuf::from_slice(prefix);
        while high.last() == Some(&0xff) {
            high.pop();
        }
        let high = high.last_mut().map(|last| *last += 1).map(|()| high);
        KeyRange { low: KeyBuf::from_slice(prefix), high }
    }
    /// The interval of the keys from `low` on, and below `high`; None: without an end.
    pub fn half_open(low: &[u8], high: Option<&[u8]>) -> KeyRange {
        KeyRange { low: KeyBuf::from_slice(low), high: high.map(KeyBuf::from_slice) }
    }
    /// The parts of [`KeyRange::half_open`].
    pub fn bounds(&self) -> (&[u8], Option<&[u8]>) {
        (&self.low, self.high.as_deref())
    }
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.low.as_slice() && below(key, &self.high)
    }
    fn is_empty(&self) -> bool {
        !below(&self.low, &self.high)
    }
}
fn successor(key: &[u8]) -> KeyBuf {
    let mut next = KeyBuf::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}
fn half_open(high: Bound<&[u8]>) -> High {
    match high {
        Bound::Unbounded => None,
        Bound::Excluded(key) => Some(KeyBuf::from_slice(key)),
        Bound::Included(key) => Some(successor(key)),
    }
}

/// The name of a range that may still shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "shrink it to what is kept when the scan has ended"]
pub struct RangeToken {
    slot: Slot,
    serial: u64,
}

/// The range locks of one index, shared by all users of the open index.
pub struct RangeLocks {
    index: u64,
    live: AtomicUsize,
    set: Mutex<RangeSet>,
}

struct RangeSet {
    tree: IntervalTree<Arc<TrxLocks>>,
    owned: HashMap<usize, Owned>,
    waiters: Vec<InsertWaiter>,
    /// The number of the next open range. A slot is used again, but a token is not.
    serial: u64,
}
#[derive(Default)]
struct Owned {
    /// The held ranges, ordered by low bound (RANGE-2).
    held: Slots,
    /// The ranges of scans that are running.
    open: Vec<RangeToken>,
}
struct InsertWaiter {
    trx: Arc<TrxLocks>,
    key: KeyBuf,
}

fn identity(trx: &Arc<TrxLocks>) -> usize {
    Arc::as_ptr(trx).addr()
}

impl RangeLocks {
    pub fn new(index: u64) -> Arc<RangeLocks> {
        let set = RangeSet {
            tree: IntervalTree::new(),
            owned: HashMap::new(),
            waiters: Vec::new(),
            serial: 0,
        };
        Arc::new(RangeLocks { index, live: AtomicUsize::new(0), set: Mutex::new(set) })
    }
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Locks a range until `release_all`. This never waits.
    pub fn lock_range(self: &Arc<Self>, trx: &Arc<TrxLocks>, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        let mut set = self.set.lock();
        self.enter(&mut set, trx);
        set.join(trx, range);
        self.live.store(set.tree.len(), Ordering::Release);
    }

    /// Locks a range for a scan that may stop early (LIMIT). `shrink_range` then says how far the
    /// scan came.
    pub fn lock_open_range(self: &Arc<Self>, trx: &Arc<TrxLocks>, range: KeyRange) -> RangeToken {
        let mut set = self.set.lock();
        self.enter(&mut set, trx);
        let token = RangeToken {
            slot: set.tree.insert(range.low, range.high, trx.clone()),
            serial: set.serial,
        };
        set.serial += 1;
        set.owner(trx).open.push(token);
        trx.ranges.fetch_add(1, Ordering::Relaxed);
        self.live.store(set.tree.len(), Ordering::Release);
        token
    }

    /// Ends an open range: the part within `keep` stays locked, and the rest is given back. Does
    /// nothing if the transaction that opened the range has ended.
    pub fn shrink_range(&self, trx: &Arc<TrxLocks>, token: RangeToken, keep: &KeyRange) {
        let mut wakers = Wakers::new();
        let mut set = self.set.lock();
        let Some(owned) = set.owned.get_mut(&identity(trx)) else { return };
        let Some(place) = owned.open.iter().rposition(|t| *t == token) else { return };
        let RangeToken { slot, .. } = owned.open.swap_remove(place);
        trx.ranges.fetch_sub(1, Ordering::Relaxed);
        let (low, high) = set.tree.remove(slot);
        let shrunk = keep.low > low || !high_at_least(&keep.high, &high);
        let range = KeyRange {
            low: if keep.low > low { keep.low.clone() } else { low },
            high: if high_at_least(&keep.high, &high) { high } else { keep.high.clone() },
        };
        if !range.is_empty() {
            set.join(trx, range);
        }
        self.live.store(set.tree.len(), Ordering::Release);
        if shrunk {
            set.grant(&mut wakers);
        }
        drop(set);
        wake(wakers);
    }

    /// Calls `each` with the ranges of `trx`, those of scans that go on among them.
    pub fn each_range(&self, trx: &Arc<TrxLocks>, mut each: impl FnMut(KeyRange)) {
        let set = self.set.lock();
        let Some(owned) = set.owned.get(&identity(trx)) else { return };
        for slot in owned.held.iter().chain(owned.open.iter().map(|t| t.slot)) {
            let (low, high) = set.tree.bounds(slot);
            each(KeyRange { low: low.clone(), high: high.clone() });
        }
    }

    /// Records with `trx`, once, that it has ranges here.
    fn enter(self: &Arc<Self>, set: &mut RangeSet, trx: &Arc<TrxLocks>) {
        set.owned.entry(identity(trx)).or_insert_with(|| {
            trx.held.lock().ranges.push(self.clone());
            Owned::default()
        });
    }

    /// Gives back all ranges of `trx`, which has ended.
    pub(super) fn release(&self, trx: &Arc<TrxLocks>, wakers: &mut Wakers) {
        let mut set = self.set.lock();
        let owned = set.owned.remove(&identity(trx)).expect("an owner of ranges is listed");
        trx.ranges.fetch_sub(owned.held.len() + owned.open.len(), Ordering::Relaxed);
        let mut slots = owned.held.iter().chain(owned.open.iter().map(|t| t.slot));
        loop {
            let mut removed = 0;
            for slot in slots.by_ref().take(RELEASED_AT_ONCE) {
                set.tree.remove(slot);
                removed += 1;
            }
            self.live.store(set.tree.len(), Ordering::Release);
            if removed < RELEASED_AT_ONCE {
                break;
            }
            // Inserts of others wait for the mutex, and their workers' threads with them.
            set = give_way(&self.set, set);
        }
        set.grant(wakers);
    }

    /// Ends the wait `ticket` of `trx`, unless the wait has ended since the caller found it here.
    pub(super) fn withdraw(
        &self,
        trx: &Arc<TrxLocks>,
        ticket: u64,
        outcome: Outcome,
        wakers: &mut Wakers,
    ) -> bool {
        let mut set = self.set.lock();
        if trx.pending(ticket).is_none() {
            return false;
        }
        let place = set.waiters.iter().position(|w| Arc::ptr_eq(&w.trx, trx)).expect("LOCK-4");
        set.waiters.remove(place);
        wakers.extend(trx.end_wait(outcome));
        true
    }

    /// Calls `each` with every owner whose range keeps `trx` from inserting `key`, for the deadlock
    /// search.
    pub(super) fn with_blockers(
        &self,
        trx: &Arc<TrxLocks>,
        key: &[u8],
        each: &mut impl FnMut(&Arc<TrxLocks>),
    ) {
        self.set.lock().tree.stab(key, |owner| {
            if !Arc::ptr_eq(owner, trx) {
                each(owner);
            }
            true
        });
    }
}

impl RangeSet {
    fn owner(&mut self, trx: &Arc<TrxLocks>) -> &mut Owned {
        self.owned.get_mut(&identity(trx)).expect("an owner of ranges is listed")
    }

    /// Adds a range, joined with the ranges of the same owner that it overlaps or touches.
    fn join(&mut self, trx: &Arc<TrxLocks>, mut range: KeyRange) {
        let tree = &mut self.tree;
        let held =
            &mut self.owned.get_mut(&identity(trx)).expect("an owner of ranges is listed").held;
        let first = held.partition_point(|slot| {
            tree.bounds(slot).1.as_ref().is_some_and(|high| *high < range.low)
        });
        let joined: SmallVec<[Slot; 4]> = held
            .from(first)
            .take_while(|slot| range.high.as_ref().is_none_or(|high| tree.bounds(*slot).0 <= high))
            .collect();
        if let [slot] = joined[..] {
            let (low, high) = tree.bounds(slot);
            if *low <= range.low && high_at_least(high, &range.high) {
                return;
            }
        }
        for slot in &joined {
            let (low, high) = tree.remove(*slot);
            range.low = range.low.min(low);
            if high_at_least(&high, &range.high) {
                range.high = high;
            }
        }
        let slot = tree.insert(range.low, range.high, trx.clone());
        held.replace(first, joined.len(), slot);
        trx.ranges.fetch_add(1, Ordering::Relaxed);
        trx.ranges.fetch_sub(joined.len(), Ordering::Relaxed);
    }

    fn blocks(&self, trx: &Arc<TrxLocks>, key: &[u8]) -> bool {
        let mut blocked = false;
        self.tree.stab(key, |owner| {
            blocked = !Arc::ptr_eq(owner, trx);
            !blocked
        });
        blocked
    }

    /// Grants the inserts that no range blocks any more; they then try again.
    fn grant(&mut self, wakers: &mut Wakers) {
        let mut at = 0;
        while at < self.waiters.len() {
            if self.blocks(&self.waiters[at].trx, &self.waiters[at].key) {
                at += 1;
            } else {
                // The waiters are woken in order of arrival: the first to wake tends to be the
                // first to insert.
                let waiter = self.waiters.remove(at);
                wakers.extend(waiter.trx.end_wait(Outcome::Granted));
            }
        }
    }
}

impl LockTable {
    /// Checks that no range of another transaction blocks the insert of a record (RANGE-1). The
    /// caller has latched the leaf exclusively, and the record is not in the leaf yet. This costs
    /// one load if the index has no range locks. After `Err(WouldBlock::Lock)` the caller holds
    /// nothing, waits, and checks again.
    #[inline]
    pub fn check_insert(
        self: &Arc<Self>,
        trx: &Arc<TrxLocks>,
        ranges: &Arc<RangeLocks>,
        key: &[u8],
    ) -> Try<()> {
        if ranges.live.load(Ordering::Acquire) == 0 {
            Ok(())
        } else {
            self.check_ranges(trx, ranges, key)
        }
    }

    /// Whether an index has no range locks, so that [`LockTable::check_insert`] blocks no key. The
    /// caller has latched the leaf exclusively: a locking read that comes later waits for the latch
    /// after it has taken its range.
    #[inline]
    pub fn blocks_no_insert(ranges: &RangeLocks) -> bool {
        ranges.live.load(Ordering::Acquire) == 0
    }

    #[cold]
    fn check_ranges(
        self: &Arc<Self>,
        trx: &Arc<TrxLocks>,
        ranges: &Arc<RangeLocks>,
        key: &[u8],
    ) -> Try<()> {
        let mut set = ranges.set.lock();
        if !set.blocks(trx, key) {
            return Ok(());
        }
        let key = KeyBuf::from_slice(key);
        set.waiters.push(InsertWaiter { trx: trx.clone(), key: key.clone() });
        let ticket = trx.queue(Target::Insert { ranges: ranges.clone(), key });
        drop(set);
        Err(WouldBlock::Lock(LockWait::new(self.clone(), trx.clone(), ticket, false)))
    }
}

impl fmt::Debug for RangeLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RangeLocks(index {}, {} intervals)",
            self.index,
            self.live.load(Ordering::Relaxed)
        )
    }
}

//! A transaction as the lock table sees it: its locks, its wait, its weight and its kill flag.
//!
//! A session makes one `TrxLocks` and uses it for one transaction after another, so that its
//! vectors keep their memory. Its identity is the address of the `Arc`. A transaction that is
//! detached from its session keeps its `TrxLocks`, and the session makes another.
use super::range::RangeLocks;
use super::registry::Owners;
use super::row::Place;
use super::{LockKey, Mode};
use crate::TrxId;
use crate::sync::lock::Mutex;
use crate::sync::lock::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::trx::seen::Seen;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The number of keys whose memory is kept from one transaction to the next.
const KEPT_KEYS: usize = 1024;

/// The key bytes of waiting inserts and range bounds, most of which are short.
pub(super) type KeyBuf = SmallVec<[u8; 32]>;

/// The locks of one transaction, and what it waits for.
pub struct TrxLocks {
    owner: u64,
    trx_id: AtomicU64,
    undo_records: AtomicU64,
    /// The number of range locks held now, over all indexes.
    pub(super) ranges: AtomicUsize,
    kill: Mutex<Arc<KillFlag>>,
    pub(super) held: Mutex<Held>,
    pub(super) wait: Mutex<Wait>,
    seen: Seen,
    owners: Arc<Owners>,
}
impl Drop for TrxLocks {
    fn drop(&mut self) {
        self.owners.remove(self.owner);
    }
}

#[derive(Default)]
pub(super) struct Held {
    /// Every key that this transaction holds, once, in the order of locking.
    pub(super) keys: Vec<LockKey>,
    /// Every index in which this transaction has ranges, once.
    pub(super) ranges: Vec<Arc<RangeLocks>>,
}

/// The lock that a queued request asks for.
#[derive(Clone)]
pub(super) enum Target {
    Row { key: LockKey, mode: Mode, place: Place },
    Insert { ranges: Arc<RangeLocks>, key: KeyBuf },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The request is in a queue.
    Pending,
    Granted,
    /// The wait was chosen to break a deadlock.
    Victim,
    /// The owner took the request back. This is also the state before the first wait.
    Withdrawn,
}

pub(super) struct Wait {
    /// The number of the request, which tells a stale [`super::LockWait`] from the present one.
    pub(super) ticket: u64,
    pub(super) outcome: Outcome,
    pub(super) announced: bool,
    pub(super) target: Option<Target>,
    pub(super) waker: Option<Waker>,
    /// When the last wait began, by the lock table's clock.
    pub(super) began: Duration,
}

/// A description of a transaction's wait, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitInfo {
    /// For a lock of a row.
    Row {
        /// The row.
        key: LockKey,
        /// The wanted mode.
        mode: Mode,
    },
    /// For a range in which it wants to insert.
    Insert {
        /// The index's id.
        index: u64,
        /// The hash of the key that is to be inserted.
        key_hash: u64,
    },
}

impl TrxLocks {
    pub(super) fn new(owner: u64, kill: Arc<KillFlag>, owners: &Arc<Owners>) -> Arc<TrxLocks> {
        let wait = Wait {
            ticket: 0,
            outcome: Outcome::Withdrawn,
            announced: false,
            target: None,
            waker: None,
            began: Duration::ZERO,
        };
        let trx = Arc::new(TrxLocks {
            owner,
            trx_id: AtomicU64::new(0),
            undo_records: AtomicU64::new(0),
            ranges: AtomicUsize::new(0),
            kill: Mutex::new(kill),
            held: Mutex::default(),
            wait: Mutex::new(wait),
            seen: Seen::default(),
            owners: owners.clone(),
        });
        owners.add(&trx);
        trx
    }
    /// What its session tells of the transaction.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// A number that is unique among the owners of one lock table. It is for people, not for
    /// identity.
    pub fn owner(&self) -> u64 {
        self.owner
    }
    /// The transaction's id, or `TrxId::NONE` before the first write.
    pub fn trx_id(&self) -> TrxId {
        TrxId(self.trx_id.load(Ordering::Acquire))
    }
    /// Sets the id. `TrxSys` calls this when it registers the transaction, before the id is in any
    /// record.
    pub(crate) fn set_trx_id(&self, id: TrxId) {
        self.trx_id.store(id.0, Ordering::Release);
    }
    /// Sets the number of undo records. Only the transaction itself calls this, also when it rolls
    /// back to a savepoint.
    pub fn set_undo_records(&self, count: u64) {
        self.undo_records.store(count, Ordering::Relaxed);
    }
    /// The cost of a rollback of this transaction: its undo records and locks.
    pub fn weight(&self) -> u64 {
        self.undo_records.load(Ordering::Relaxed) + self.locks_held() as u64
    }
    /// The number of row locks held now.
    pub fn locks_held(&self) -> usize {
        self.held.lock().keys.len()
    }
    /// The number of range locks held now.
    pub fn ranges_held(&self) -> usize {
        self.ranges.load(Ordering::Relaxed)
    }
    /// The keys that it holds, and the indexes in which it holds ranges.
    pub(crate) fn held_locks(&self) -> (Vec<LockKey>, Vec<Arc<RangeLocks>>) {
        let held = self.held.lock();
        (held.keys.clone(), held.ranges.clone())
    }
    /// What ends its waits.
    pub fn kill(&self) -> Arc<KillFlag> {
        self.kill.lock().clone()
    }
    /// Lets another flag end its waits: another session goes on with the transaction.
    pub fn set_kill(&self, kill: Arc<KillFlag>) {
        *self.kill.lock() = kill;
    }
    /// What it waits for now.
    pub fn waits_for(&self) -> Option<WaitInfo> {
        self.waits_since().map(|(info, _)| info)
    }
    /// What it waits for now, and when the wait began by the clock of the disk.
    pub(crate) fn waits_since(&self) -> Option<(WaitInfo, Duration)> {
        let wait = self.wait.lock();
        if wait.outcome != Outcome::Pending {
            return None;
        }
        wait.target.as_ref().map(|target| (target.info(), wait.began))
    }
    /// The number of its undo records.
    pub(crate) fn undo_records(&self) -> u64 {
        self.undo_records.load(Ordering::Relaxed)
    }

    /// Clears the id (LOCK-6) and returns the held locks. [`TrxLocks::keep_memory`] takes the
    /// vectors back.
    pub(super) fn end(&self) -> Held {
        let mut held = self.held.lock();
        self.trx_id.store(0, Ordering::Release);
        self.undo_records.store(0, Ordering::Relaxed);
        self.seen.end();
        std::mem::take(&mut *held)
    }
    pub(super) fn keep_memory(&self, mut spare: Held) {
        spare.keys.clear();
        spare.keys.shrink_to(KEPT_KEYS);
        spare.ranges.clear();
        let mut held = self.held.lock();
        assert!(
            held.keys.is_empty() && held.ranges.is_empty(),
            "a lock was taken during release_all"
        );
        *held = spare;
    }

    /// Records a queued request and returns its ticket. The caller holds the queue's mutex
    /// (LOCK-4).
    pub(super) fn queue(&self, target: Target) -> u64 {
        let mut wait = self.wait.lock();
        assert!(
            wait.outcome != Outcome::Pending,
            "LOCK-3: a transaction waits for one thing at a time"
        );
        wait.ticket += 1;
        wait.outcome = Outcome::Pending;
        wait.announced = false;
        wait.target = Some(target);
        wait.waker = None;
        wait.ticket
    }
    /// Ends the wait. The caller holds the queue's mutex and has taken the request out of the queue
    /// (LOCK-4). It calls the returned waker when it has released its mutexes.
    pub(super) fn end_wait(&self, outcome: Outcome) -> Option<Waker> {
        let mut wait = self.wait.lock();
        assert!(wait.outcome == Outcome::Pending, "LOCK-4: only a queued request ends");
        wait.outcome = outcome;
        wait.announced = false;
        wait.target = None;
        wait.waker.take()
    }
    /// The target of request `ticket`, while the request is queued. Under the queue's mutex the
    /// answer does not change (LOCK-4).
    pub(super) fn pending(&self, ticket: u64) -> Option<Target> {
        let wait = self.wait.lock();
        if wait.ticket != ticket || wait.outcome != Outcome::Pending {
            return None;
        }
        wait.target.clone()
    }
    /// The target and ticket of a wait that counts in the wait-for graph.
    pub(super) fn announced_wait(&self) -> Option<(Target, u64)> {
        let wait = self.wait.lock();
        if !wait.announced {
            return None;
        }
        wait.target.clone().map(|target| (target, wait.ticket))
    }
}

impl Target {
    pub(super) fn info(&self) -> WaitInfo {
        match self {
            Target::Row { key, mode, .. } => WaitInfo::Row { key: *key, mode: *mode },
            Target::Insert { ranges, key } => {
                WaitInfo::Insert { index: ranges.index(), key_hash: super::hash_bytes(key) }
            }
        }
    }
}

impl fmt::Debug for TrxLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrxLocks({}, trx {})", self.owner, self.trx_id().0)
    }
}
impl fmt::Display for WaitInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitInfo::Row { key, .. } if key.counted_table().is_some() => {
                write!(f, "AUTO-INC lock of table {}", key.counted_table().unwrap_or(0))
            }
            WaitInfo::Row { key, mode } => {
                write!(f, "{mode:?} lock on key {:016x} of index {}", key.hash, key.index)
            }
            WaitInfo::Insert { index, key_hash } => {
                write!(f, "insert of key {key_hash:016x} into a locked range of index {index}")
            }
        }
    }
}

/// KILL and KILL QUERY: the flag ends any wait of a session (for row locks or metadata locks). Each
/// session has one flag, because it has one wait at a time.
#[derive(Default)]
pub struct KillFlag {
    killed: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// The session waits for a lock. Nothing depends on the order of this and other accesses.
    waits: std::sync::atomic::AtomicBool,
}
/// A wait for a lock ([`KillFlag::wait`]).
pub(crate) struct Waiting<'a>(&'a KillFlag);
impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waits.store(false, Ordering::Relaxed);
    }
}
impl KillFlag {
    /// A flag that is not set.
    pub fn new() -> Arc<KillFlag> {
        Arc::default()
    }
    /// Sets the flag and wakes who waits.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
    /// Clears the flag, after KILL QUERY has ended its statement.
    pub fn clear(&self) {
        self.killed.store(false, Ordering::SeqCst);
    }
    /// Tells that the session waits for a lock, until the value is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waits.store(true, Ordering::Relaxed);
        Waiting(self)
    }
    /// Whether the session waits for a lock: of a row, or of the definition of a table. It may wait
    /// for as long as another session likes.
    pub fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
    /// Whether the flag is set.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
    /// Returns whether the session is killed. If not, [`KillFlag::kill`] will wake `waker`.
    pub fn poll(&self, waker: &Waker) -> bool {
        let mut slot = self.waker.lock();
        if !slot.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
        // The flag is read under the mutex, and `kill` stores the flag before it takes the mutex.
        // So either this read sees the flag or `kill` sees the waker.
        self.killed.load(Ordering::SeqCst)
    }
}

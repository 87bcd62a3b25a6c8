//! All locked keys, in shards by hash. An uncontended lock is one short mutex and one probe; the
//! entry holds its single owner inline.
use super::counters::Counters;
use super::deadlock::Graph;
use super::owner::{KillFlag, Outcome, Target, TrxLocks};
use super::row::{Answer, Row, Wakers};
use super::{LockKey, LockStats, LockWait, Mode};
use crate::sync::lock::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::lock::{Mutex, MutexGuard};
use crate::{TrxId, Try, WouldBlock};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::sync::Arc;
use std::time::Duration;

const SHARD_BITS: u32 = 8;
/// Entries a shard keeps room for when it empties.
const KEPT_ENTRIES: usize = 256;

#[repr(align(64))]
#[derive(Default)]
struct Shard(Mutex<HashTable<Row>>);

pub struct LockTable {
    shards: Box<[Shard]>,
    pub(super) graph: Mutex<Graph>,
    pub(super) counters: Counters,
    detect: AtomicBool,
    owners: AtomicU64,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl LockTable {
    /// `clock`: monotonic time (`Disk::now`), for the wait statistics.
    pub fn new(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Arc<LockTable> {
        Arc::new(LockTable {
            shards: (0..1 << SHARD_BITS).map(|_| Shard::default()).collect(),
            graph: Mutex::default(),
            counters: Counters::default(),
            detect: AtomicBool::new(true),
            owners: AtomicU64::new(0),
            clock: Box::new(clock),
        })
    }

    /// A session's side of the lock table; `kill` is the session's.
    pub fn new_trx(&self, kill: Arc<KillFlag>) -> Arc<TrxLocks> {
        TrxLocks::new(self.owners.fetch_add(1, Ordering::Relaxed) + 1, kill)
    }

    fn shard(&self, spread: u64) -> MutexGuard<'_, HashTable<Row>> {
        // Neither the low bits (buckets) nor the top 7 (tags), which the hash table uses.
        let shard = (spread >> 40) as usize & ((1 << SHARD_BITS) - 1);
        self.shards[shard].0.lock()
    }

    /// Locks a key until `release_all`. `Ok(true)` if `trx` had no lock on it before: only such a
    /// lock may be given back early (`release_row`). `Err(WouldBlock::Lock)`: the request is
    /// queued;
    /// drop the latches and await it, then look at the record again.
    /// Never call it for a record whose newest version is `trx`'s own: it is locked already,
    /// implicitly.
    pub fn lock_row(self: &Arc<Self>, trx: &Arc<TrxLocks>, key: LockKey, mode: Mode) -> Try<bool> {
        self.request(trx, key, mode, true).map(|newly| newly.expect("a queued request would block"))
    }

    /// NOWAIT, SKIP LOCKED: `None` if the lock cannot be had now; nothing is queued then.
    pub fn try_lock_row(
        self: &Arc<Self>,
        trx: &Arc<TrxLocks>,
        key: LockKey,
        mode: Mode,
    ) -> Option<bool> {
        self.request(trx, key, mode, false).expect("does not queue")
    }

    #[inline]
    fn request(
        self: &Arc<Self>,
        trx: &Arc<TrxLocks>,
        key: LockKey,
        mode: Mode,
        queue: bool,
    ) -> Try<Option<bool>> {
        let spread = key.spread();
        let mut shard = self.shard(spread);
        let row = match shard.entry(spread, |row| row.key == key, |row| row.key.spread()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Row::new(key, trx, mode));
                drop(shard);
                trx.held.lock().keys.push(key);
                return Ok(Some(true));
            }
            Entry::Occupied(occupied) => occupied.into_mut(),
        };
        match row.request(trx, mode) {
            Answer::Had => Ok(Some(false)),
            Answer::New => {
                drop(shard);
                trx.held.lock().keys.push(key);
                Ok(Some(true))
            }
            Answer::Busy { .. } if !queue => Ok(None),
            Answer::Busy { converts } => {
                row.enqueue(trx, mode, converts);
                let ticket = trx.queue(Target::Row { key, mode, converts });
                drop(shard);
                Err(WouldBlock::Lock(LockWait::new(self.clone(), trx.clone(), ticket)))
            }
        }
    }

    /// Makes the implicit lock of a record explicit: the record's newest version was written by
    /// `id`, which `TrxSys::find` says is `owner`. False if that transaction has ended; look at the
    /// record again then. After true, `lock_row` queues behind it.
    pub fn grant_implicit(&self, owner: &Arc<TrxLocks>, id: TrxId, key: LockKey) -> bool {
        let spread = key.spread();
        let mut shard = self.shard(spread);
        let mut held = owner.held.lock();
        if id == TrxId::NONE || owner.trx_id() != id {
            return false;
        }
        let (newly, queued) =
            match shard.entry(spread, |row| row.key == key, |row| row.key.spread()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Row::new(key, owner, Mode::X));
                    (true, false)
                }
                Entry::Occupied(mut occupied) => {
                    (occupied.get_mut().force(owner), occupied.get().has_queue())
                }
            };
        if newly {
            held.keys.push(key);
        }
        drop(held);
        drop(shard);
        if newly && queued {
            // Those in the queue wait for `owner` too now, which may wait itself: the one case
            // where a cycle closes without a new wait.
            self.break_deadlocks(owner);
        }
        true
    }

    /// Whether `trx` holds a lock on `key` that covers `mode`.
    pub fn holds(&self, trx: &Arc<TrxLocks>, key: LockKey, mode: Mode) -> bool {
        let spread = key.spread();
        let shard = self.shard(spread);
        let row = shard.find(spread, |row| row.key == key);
        row.is_some_and(|row| {
            row.holders.iter().any(|h| Arc::ptr_eq(&h.trx, trx) && h.mode >= mode)
        })
    }

    /// Gives one row lock back before the end of the transaction: READ COMMITTED does for rows that
    /// its WHERE clause refuses.
    pub fn release_row(&self, trx: &Arc<TrxLocks>, key: LockKey) {
        let mut wakers = Wakers::new();
        self.release_key(trx, key, &mut wakers);
        // Second, so that an implicit lock made explicit in between is still accounted for.
        let mut held = trx.held.lock();
        let place = held.keys.iter().rposition(|k| *k == key).expect("releases what it holds");
        held.keys.remove(place);
        drop(held);
        wake(wakers);
    }

    /// Gives back everything, row and range locks, and wakes those who can go on. Called at commit
    /// and rollback, after `TrxSys::end_commit`, so that whoever finds the locks gone finds the
    /// transaction ended.
    pub fn release_all(&self, trx: &Arc<TrxLocks>) {
        assert!(
            trx.wait.lock().outcome != Outcome::Pending,
            "a transaction that ends waits for nothing"
        );
        let mut held = trx.end();
        let mut wakers = Wakers::new();
        for key in held.keys.drain(..) {
            self.release_key(trx, key, &mut wakers);
        }
        for ranges in held.ranges.drain(..) {
            ranges.release(trx, &mut wakers);
        }
        trx.keep_memory(held);
        wake(wakers);
    }

    fn release_key(&self, trx: &Arc<TrxLocks>, key: LockKey, wakers: &mut Wakers) {
        let spread = key.spread();
        let mut shard = self.shard(spread);
        let mut entry =
            shard.find_entry(spread, |row| row.key == key).ok().expect("a held key has its entry");
        let row = entry.get_mut();
        row.remove_holder(trx);
        if row.grant(wakers) {
            entry.remove();
            if shard.capacity() > KEPT_ENTRIES && shard.len() * 16 < shard.capacity() {
                let room = (shard.len() * 2).max(KEPT_ENTRIES);
                shard.shrink_to(room, |row| row.key.spread());
            }
        }
    }

    /// Ends a wait as `outcome` unless it has ended already. True if it did.
    pub(super) fn withdraw(
        &self,
        trx: &Arc<TrxLocks>,
        ticket: u64,
        outcome: Outcome,
        wakers: &mut Wakers,
    ) -> bool {
        let Some(target) = trx.pending(ticket) else { return false };
        let key = match target {
            Target::Insert { ranges, .. } => return ranges.withdraw(trx, ticket, outcome, wakers),
            Target::Row { key, .. } => key,
        };
        let spread = key.spread();
        let mut shard = self.shard(spread);
        // It may have been granted since the look above, and its owner may even queue here again;
        // now that cannot change (LOCK-4).
        if trx.pending(ticket).is_none() {
            return false;
        }
        let mut entry = shard.find_entry(spread, |row| row.key == key).ok().expect("LOCK-4");
        let row = entry.get_mut();
        row.dequeue(trx);
        wakers.extend(trx.end_wait(outcome));
        if row.grant(wakers) {
            entry.remove();
        }
        true
    }

    /// The holders of a key, for the deadlock search.
    pub(super) fn with_holders(&self, key: LockKey, mut each: impl FnMut(&Arc<TrxLocks>)) {
        let spread = key.spread();
        let shard = self.shard(spread);
        if let Some(row) = shard.find(spread, |row| row.key == key) {
            row.holders.iter().for_each(|h| each(&h.trx));
        }
    }

    /// `innodb_deadlock_detect`: when off, only timeouts break deadlocks.
    pub fn set_deadlock_detect(&self, on: bool) {
        self.detect.store(on, Ordering::Relaxed);
    }
    pub(super) fn detects(&self) -> bool {
        self.detect.load(Ordering::Relaxed)
    }
    pub fn stats(&self) -> LockStats {
        self.counters.read()
    }
    pub(super) fn now(&self) -> Duration {
        (self.clock)()
    }
    /// Keys locked by anyone now (for tests and status; locks every shard in turn).
    pub fn locked_keys(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().len()).sum()
    }
}

pub(super) fn wake(wakers: Wakers) {
    for waker in wakers {
        waker.wake();
    }
}

//! All locked keys, in shards by hash. A lock without contention costs one short mutex and one
//! probe. The entry holds its single owner inline.
use super::counters::Counters;
use super::deadlock::Graph;
use super::owner::{KillFlag, Outcome, Target, TrxLocks};
use super::registry::Owners;
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
/// The number of entries for which an emptied shard keeps memory.
const KEPT_ENTRIES: usize = 256;

#[repr(align(64))]
#[derive(Default)]
struct Shard(Mutex<HashTable<Row>>);

pub struct LockTable {
    shards: Box<[Shard]>,
    pub(super) graph: Mutex<Graph>,
    pub(super) counters: Counters,
    detect: AtomicBool,
    /// The number of the last owner.
    last_owner: AtomicU64,
    owners: Arc<Owners>,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl LockTable {
    /// `clock` is a monotonic clock (`Disk::now`) for the wait statistics.
    pub fn new(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Arc<LockTable> {
        Arc::new(LockTable {
            shards: (0..1 << SHARD_BITS).map(|_| Shard::default()).collect(),
            graph: Mutex::default(),
            counters: Counters::default(),
            detect: AtomicBool::new(true),
            last_owner: AtomicU64::new(0),
            owners: Arc::default(),
            clock: Box::new(clock),
        })
    }

    /// Makes a session's side of the lock table. `kill` is the flag of the session.
    pub fn new_trx(&self, kill: Arc<KillFlag>) -> Arc<TrxLocks> {
        TrxLocks::new(self.last_owner.fetch_add(1, Ordering::Relaxed) + 1, kill, &self.owners)
    }
    /// All that [`LockTable::new_trx`] has made and that still exist.
    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    fn shard(&self, spread: u64) -> MutexGuard<'_, HashTable<Row>> {
        // The hash table uses the low bits (for buckets) and the top 7 bits (for tags), so the
        // shard must not.
        let shard = (spread >> 40) as usize & ((1 << SHARD_BITS) - 1);
        self.shards[shard].0.lock()
    }

    /// Locks a key until `release_all`. Returns `Ok(true)` if `trx` had no lock on the key before;
    /// only such a lock may be given back early (`release_row`). After `Err(WouldBlock::Lock)` the
    /// request is queued: the caller drops its latches, awaits the request, and looks at the record
    /// again.
    ///
    /// A record whose newest version is `trx`'s own must not be locked: it is locked already,
    /// implicitly.
    pub fn lock_row(self: &Arc<Self>, trx: &Arc<TrxLocks>, key: LockKey, mode: Mode) -> Try<bool> {
        self.request(trx, key, mode, true).map(|newly| newly.expect("a queued request would block"))
    }

    /// Locks a key for NOWAIT and SKIP LOCKED. Returns `None`, and queues nothing, if the lock is
    /// not free.
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
                let place = row.enqueue(trx, mode, converts);
                let ticket = trx.queue(Target::Row { key, mode, place });
                drop(shard);
                let wait = LockWait::new(self.clone(), trx.clone(), ticket, converts);
                Err(WouldBlock::Lock(wait))
            }
        }
    }

    /// Makes the implicit lock of a record explicit. `id` wrote the record's newest version, and
    /// `TrxSys::find` says that `owner` has this id. Returns false if this transaction has ended;
    /// the caller then looks at the record again. After true, `lock_row` queues behind the owner.
    pub fn grant_implicit(&self, owner: &Arc<TrxLocks>, id: TrxId, key: LockKey) -> bool {
        let spread = key.spread();
        let mut shard = self.shard(spread);
        let mut held = owner.held.lock();
        if id == TrxId::NONE || owner.trx_id() != id {
            return false;
        }
        let (before, queued) =
            match shard.entry(spread, |row| row.key == key, |row| row.key.spread()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Row::new(key, owner, Mode::X));
                    (None, false)
                }
                Entry::Occupied(mut occupied) => {
                    (occupied.get_mut().force(owner), occupied.get().has_queue())
                }
            };
        if before.is_none() {
            held.keys.push(key);
        }
        drop(held);
        drop(shard);
        if before != Some(Mode::X) && queued {
            // The whole queue now waits for `owner`, which may be waiting itself. Shared requests
            // did not if `owner` had a shared lock (LOCK-7). This is the only case in which a cycle
            // closes without a new wait.
            self.break_deadlocks(owner);
        }
        true
    }

    /// The modes in which `trx` holds `keys`.
    pub(crate) fn modes_of(&self, trx: &Arc<TrxLocks>, keys: Vec<LockKey>) -> Vec<(LockKey, Mode)> {
        let mode = |key: &LockKey| {
            let spread = key.spread();
            let shard = self.shard(spread);
            let row = shard.find(spread, |row| row.key == *key);
            row.and_then(|row| row.mode_of(trx)).expect("a held key has its holder")
        };
        keys.into_iter().map(|key| (key, mode(&key))).collect()
    }

    /// Gives a prepared transaction a lock back that it held before a crash. Other prepared
    /// transactions may hold the key too, as they did then (LOCK-1).
    pub(crate) fn restore_row(&self, trx: &Arc<TrxLocks>, key: LockKey, mode: Mode) {
        let spread = key.spread();
        let mut shard = self.shard(spread);
        let newly = match shard.entry(spread, |row| row.key == key, |row| row.key.spread()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Row::new(key, trx, mode));
                true
            }
            Entry::Occupied(mut occupied) => occupied.get_mut().restore(trx, mode),
        };
        if newly {
            trx.held.lock().keys.push(key);
        }
    }

    /// Whether `trx` holds a lock on `key` that covers `mode`.
    pub fn holds(&self, trx: &Arc<TrxLocks>, key: LockKey, mode: Mode) -> bool {
        let spread = key.spread();
        let shard = self.shard(spread);
        let row = shard.find(spread, |row| row.key == key);
        row.and_then(|row| row.mode_of(trx)).is_some_and(|held| held >= mode)
    }

    /// Gives back one row lock before the end of the transaction, as READ COMMITTED does for rows
    /// that do not match its WHERE clause.
    pub fn release_row(&self, trx: &Arc<TrxLocks>, key: LockKey) {
        let mut wakers = Wakers::new();
        self.release_key(trx, key, &mut wakers);
        // The key leaves `held` after the entry, so that an implicit lock made explicit in between
        // is still accounted for.
        let mut held = trx.held.lock();
        let place = held.keys.iter().rposition(|k| *k == key).expect("releases what it holds");
        held.keys.remove(place);
        drop(held);
        wake(wakers);
    }

    /// Gives back all row and range locks, and wakes the transactions that can go on. Commit and
    /// rollback call this after `TrxSys::end_commit`, so that a transaction that finds the locks
    /// gone finds their owner ended.
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

    /// Ends a wait with `outcome`, unless the wait has ended already. Returns whether it ended the
    /// wait.
    pub(super) fn withdraw(
        &self,
        trx: &Arc<TrxLocks>,
        ticket: u64,
        outcome: Outcome,
        wakers: &mut Wakers,
    ) -> bool {
        let Some(target) = trx.pending(ticket) else { return false };
        let (key, mode, place) = match target {
            Target::Insert { ranges, .. } => return ranges.withdraw(trx, ticket, outcome, wakers),
            Target::Row { key, mode, place } => (key, mode, place),
        };
        let spread = key.spread();
        let mut shard = self.shard(spread);
        // Since the look above the request may have been granted, and its owner may even have
        // queued here again. From now on this cannot change (LOCK-4).
        if trx.pending(ticket).is_none() {
            return false;
        }
        let mut entry = shard.find_entry(spread, |row| row.key == key).ok().expect("LOCK-4");
        let row = entry.get_mut();
        row.dequeue(trx, mode, place);
        wakers.extend(trx.end_wait(outcome));
        if row.grant(wakers) {
            entry.remove();
        }
        true
    }

    /// Calls `look` with the row for which request `ticket` of `trx` waits, for the deadlock
    /// search. Does nothing if the wait has ended since the caller saw it (LOCK-4).
    pub(super) fn with_row(
        &self,
        key: LockKey,
        (trx, ticket): (&Arc<TrxLocks>, u64),
        look: impl FnOnce(&Row),
    ) {
        let spread = key.spread();
        let shard = self.shard(spread);
        if trx.pending(ticket).is_some() {
            look(shard.find(spread, |row| row.key == key).expect("LOCK-4"));
        }
    }

    /// Sets `innodb_deadlock_detect`. While it is off, only timeouts break deadlocks.
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
    /// Fails if LOCK-8 does not hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.shards.iter().for_each(|s| s.0.lock().iter().for_each(Row::check));
    }
    /// The number of locked keys, for tests and status. This locks every shard in turn.
    pub fn locked_keys(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().len()).sum()
    }
}

pub(super) fn wake(wakers: Wakers) {
    for waker in wakers {
        waker.wake();
    }
}

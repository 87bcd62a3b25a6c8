//! Row locks by key, range locks by interval of keys, and the waits of transactions for each other.
//!
//! A row is locked by the hash of its key, not by its place in a page. So splits, merges and purge
//! never touch a lock, and a lock may outlive the record. Range locks stand for gap locks: they
//! stop inserts by other transactions and nothing else.
//!
//! | file | concept |
//! |---|---|
//! | `row.rs` | one locked key: holders, queue, the rules of granting |
//! | `table.rs` | all locked keys, in shards: lock, release, implicit locks |
//! | `interval.rs` | a set of intervals that answers "who covers this key" |
//! | `slots.rs` | the ordered list of one owner's ranges |
//! | `range.rs` | range locks of one index, waiting inserts |
//! | `owner.rs` | a transaction's side: what it holds, what it waits for, its kill flag |
//! | `registry.rs` | all transactions' sides, for those who look from outside |
//! | `wait.rs` | the future that waits |
//! | `deadlock.rs` | cycle search, victim, report |
//! | `../sync/lock.rs` | mutexes and atomics, or shuttle's |
//!
//! Invariants:
//! - LOCK-1: two holders of one key conflict only where a record's implicit lock was made explicit
//!   (`grant_implicit`).
//! - LOCK-2: a request is granted at once only if no other holder conflicts, and its owner holds
//!   the key already or the key has no queue.
//! - LOCK-3: a transaction has at most one wait at a time.
//! - LOCK-4: a transaction is in exactly one queue if and only if its wait is `Pending`. Both
//!   change under the mutex of this queue.
//! - LOCK-5: a transaction starts to count as waiting (`announced`) only under the graph mutex. So
//!   no transaction that a search saw running becomes a waiter during the search, and every cycle
//!   found was a real cycle.
//! - LOCK-6: once `release_all` has begun, its owner gets no implicit lock any more: `release_all`
//!   first clears the owner's trx id, under its `held` mutex.
//!
//! Lock order: graph > shard or range set > `held` > `wait`. With regard to page latches all of
//! them are leaves. Wakers run while none of them is held.
mod counters;
mod deadlock;
mod interval;
mod owner;
mod range;
mod registry;
mod row;
mod slots;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod wait;

pub(crate) use counters::LockStats;
pub use owner::{KillFlag, TrxLocks, WaitInfo};
pub(crate) use range::{KeyRange, RangeLocks, RangeToken};
pub(crate) use table::LockTable;
pub(crate) use wait::LockWait;

/// Shared or exclusive. The modes are ordered: `X` covers `S`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Shared.
    S,
    /// Exclusive.
    X,
}

/// The name of a row lock: an index, and the hash of a key in it. If two keys have the same hash,
/// the only effect is that a lock of one blocks the other too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockKey {
    /// The index's id.
    pub index: u64,
    /// The hash of the key's bytes.
    pub hash: u64,
}
impl LockKey {
    /// The lock of this key of the index.
    pub fn new(index: u64, key: &[u8]) -> LockKey {
        LockKey { index, hash: hash_bytes(key) }
    }
    /// The AUTO-INC lock of a table. No index has an id with the bit [`LockKey::COUNTER`].
    pub(crate) fn counter(table: u64) -> LockKey {
        debug_assert!(table & LockKey::COUNTER == 0, "ids count up from 1");
        LockKey { index: table | LockKey::COUNTER, hash: hash_bytes(&table.to_le_bytes()) }
    }
    const COUNTER: u64 = 1 << 63;
    /// The table of an AUTO-INC lock. None for the lock of a row.
    fn counted_table(self) -> Option<u64> {
        (self.index & LockKey::COUNTER != 0).then_some(self.index & !LockKey::COUNTER)
    }
    /// The hash that places the key in the lock table. `hash` is well mixed already.
    fn spread(self) -> u64 {
        self.hash.wrapping_add(self.index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// A 64-bit hash of key bytes, which is the same on every machine and in every run, because the
/// traces of the simulator depend on it. It takes 8 bytes at a time, and folds them by a
/// multiplication from 64 x 64 to 128 bits.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    }
    const K0: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const K1: u64 = 0x9e37_79b1_85eb_ca87;
    let mut hash = K0 ^ (bytes.len() as u64).wrapping_mul(K1);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), K0).wrapping_add(K1);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = fold(hash ^ u64::from_le_bytes(word), K0).wrapping_add(K1);
    }
    fold(hash, K1)
}

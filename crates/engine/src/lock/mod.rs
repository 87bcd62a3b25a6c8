//! Row locks by key, range locks by interval of keys, and who waits for whom.
//!
//! A row is locked by the hash of its key, not by its place in a page: splits, merges and purge
//! never touch a lock, and a lock may outlive the record. Range locks stand for gap locks: they
//! stop inserts by other transactions and nothing else.
//!
//! | file | concept |
//! |---|---|
//! | `row.rs` | one locked key: holders, queue, the rules of granting |
//! | `table.rs` | all locked keys, in shards: lock, release, implicit locks |
//! | `interval.rs` | a set of intervals that answers "who covers this key" |
//! | `range.rs` | range locks of one index, waiting inserts |
//! | `owner.rs` | a transaction's side: what it holds, what it waits for, its kill flag |
//! | `wait.rs` | the future that waits |
//! | `deadlock.rs` | cycle search, victim, report |
//! | `../sync/lock.rs` | mutexes and atomics, or shuttle's |
//!
//! Invariants:
//! - LOCK-1: two holders of one key conflict only where a record's implicit lock was made explicit
//!   (`grant_implicit`).
//! - LOCK-2: a request is granted at once only if no other holder conflicts and (its owner holds
//!   the key already, or nobody queues).
//! - LOCK-3: a transaction waits for at most one thing.
//! - LOCK-4: a transaction is in exactly one queue if and only if its wait is `Pending`; both
//!   change under that queue's mutex.
//! - LOCK-5: a transaction starts to count as waiting (`announced`) only under the graph mutex, so
//!   during a search nobody who was seen as running turns into a waiter: every cycle found was one.
//! - LOCK-6: once `release_all` has begun, no implicit lock is given to that owner (its trx id is
//!   cleared under its `held` mutex first).
//!
//! Lock order: graph > shard or range set > `held` > `wait`; all are leaves with regard to page
//! latches. Wakers run with none of them held.
mod counters;
mod deadlock;
mod interval;
mod owner;
mod range;
mod row;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod wait;

pub(crate) use counters::LockStats;
pub use owner::{KillFlag, TrxLocks, WaitInfo};
pub(crate) use range::{KeyRange, RangeLocks, RangeToken};
pub(crate) use table::LockTable;
pub(crate) use wait::LockWait;

/// Shared or exclusive. Ordered: `X` covers `S`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Shared.
    S,
    /// Exclusive.
    X,
}
impl Mode {
    fn conflicts(self, other: Mode) -> bool {
        self == Mode::X || other == Mode::X
    }
}

/// What a row lock names: an index and the hash of key bytes in it. Two keys with one hash only
/// over-block each other.
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
    /// Where the key is in the lock table. `hash` is well mixed already.
    fn spread(self) -> u64 {
        self.hash.wrapping_add(self.index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// A 64-bit hash of key bytes, the same on every machine and in every run (the simulator's traces
/// depend on it): 8 bytes at a time, folded by a 64 x 64 -> 128 bit multiplication.
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

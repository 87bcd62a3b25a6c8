//! The list of all transactions' sides of a lock table, for those who look at transactions from
//! outside.
use super::owner::TrxLocks;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The owners of one lock table, by their numbers. Sessions come and go here, transactions do not.
#[derive(Default)]
pub(crate) struct Owners(Mutex<BTreeMap<u64, Weak<TrxLocks>>>);

impl Owners {
    pub(super) fn add(&self, trx: &Arc<TrxLocks>) {
        self.0.lock().insert(trx.owner(), Arc::downgrade(trx));
    }
    pub(super) fn remove(&self, owner: u64) {
        self.0.lock().remove(&owner);
    }
    /// The owners with the next greater numbers than `after`, at most `most` of them.
    pub(crate) fn after(&self, after: u64, most: usize) -> Vec<Arc<TrxLocks>> {
        // The caller drops the owners: one that is dropped takes the list's mutex.
        let owners = self.0.lock();
        owners.range(after + 1..).filter_map(|(_, trx)| trx.upgrade()).take(most).collect()
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::super::{KillFlag, LockTable};
    use std::time::Duration;

    #[test]
    fn owners_are_listed_in_parts_until_they_are_dropped() {
        let table = LockTable::new(|| Duration::ZERO);
        let mut all: Vec<_> = (0..5).map(|_| table.new_trx(KillFlag::new())).collect();
        drop(all.remove(2));
        let numbers = |after, most| -> Vec<u64> {
            table.owners().after(after, most).iter().map(|trx| trx.owner()).collect()
        };
        assert_eq!((numbers(0, 2), numbers(2, 2), numbers(5, 2)), (vec![1, 2], vec![4, 5], vec![]));
        drop(all);
        assert_eq!(numbers(0, 9), []);
    }
}

//! The logical clock: which transactions a replica may apply in parallel.
//!
//! A transaction depends on the last transaction before it that changed a row with one of its keys.
//! (MySQL, `WRITESET`: Gryp and Marquez, "Improving the parallel applier with writeset-based
//! dependency tracking", 2018.) The keys are hashes; two keys with one hash only make a dependency
//! more.
use crate::record::{Keys, hashes};
use hashbrown::HashMap;
use redolith_binlog::LogicalClock;

/// The most keys that are remembered. Then the history begins again: later transactions depend on
/// all before. (MySQL, the default of `binlog_transaction_dependency_history_size`)
const MOST_KEYS: usize = 25_000;

/// The history of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// The number of the file's last transaction.
    last: u64,
    /// Every transaction depends on this one at least.
    floor: u64,
    /// The last transaction that changed a row with this key.
    keys: HashMap<u64, u64>,
}

impl Clock {
    /// The history of a file whose last transaction has this number. What the transactions changed
    /// is not known: later ones depend on all of them.
    pub(crate) fn begin(last: u64) -> Clock {
        Clock { last, floor: last, keys: HashMap::new() }
    }
    /// The number of the file's last transaction.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
    /// Forgets what transactions changed.
    pub(crate) fn forget(&mut self) {
        *self = Clock::begin(self.last);
    }
    /// The clock of the next transaction.
    pub(crate) fn next(&mut self, keys: Keys<'_>) -> LogicalClock {
        let sequence_number = self.last + 1;
        self.last = sequence_number;
        let last_committed = match keys {
            Keys::All => {
                self.forget();
                sequence_number - 1
            }
            Keys::Some(bytes) => {
                let mut last = self.floor;
                for key in hashes(bytes) {
                    if let Some(before) = self.keys.insert(key, sequence_number)
                        && before != sequence_number
                    {
                        last = last.max(before);
                    }
                }
                if self.keys.len() > MOST_KEYS {
                    self.forget();
                }
                last
            }
        };
        LogicalClock { last_committed, sequence_number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(clock: &mut Clock, keys: &[u64]) -> (u64, u64) {
        let bytes: Vec<u8> = keys.iter().flat_map(|k| k.to_le_bytes()).collect();
        let clock = clock.next(Keys::Some(&bytes));
        (clock.last_committed, clock.sequence_number)
    }

    #[test]
    fn only_transactions_with_a_common_key_depend() {
        let mut clock = Clock::default();
        assert_eq!(next(&mut clock, &[1, 2]), (0, 1));
        assert_eq!(next(&mut clock, &[3, 3]), (0, 2));
        assert_eq!(next(&mut clock, &[2, 3]), (2, 3));
        assert_eq!(next(&mut clock, &[1]), (1, 4));
        assert_eq!(clock.next(Keys::All).last_committed, 4);
        assert_eq!(next(&mut clock, &[9]), (5, 6));
        let mut clock = Clock::begin(7);
        assert_eq!(next(&mut clock, &[1]), (7, 8));
    }

    #[test]
    fn the_history_is_bounded() {
        let mut clock = Clock::default();
        let many: Vec<u64> = (0..MOST_KEYS as u64 + 1).collect();
        assert_eq!(next(&mut clock, &many), (0, 1));
        assert_eq!(next(&mut clock, &[u64::MAX]), (1, 2));
        assert!(clock.keys.len() == 1);
    }
}

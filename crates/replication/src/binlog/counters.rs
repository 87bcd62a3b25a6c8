//! What the task has done since the start.
use super::Binlog;
use super::work::Work;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Numbers since the server's start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counted { $($(#[$doc])* pub $name: u64,)* }

        /// The numbers while they grow. But for `syncs`, only who works on the files adds to them.
        #[derive(Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64,)* }
        impl Counts {
            fn read(&self) -> Counted {
                Counted { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}
counts! {
    /// Barriers that are behind the checkpoint's limit.
    barriers,
    /// Bytes that were written to files.
    bytes,
    /// Files that were begun.
    rotations,
    /// Bytes that were copied from spill files.
    spilled_bytes,
    /// Transactions that had a spill file.
    spilled_transactions,
    /// Syncs of files. Sessions add to it, too.
    syncs,
    /// Transactions in the files.
    transactions,
    /// Write calls.
    writes,
}

/// Adds to a number that one thread at a time changes.
pub(crate) fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed) + n, Relaxed);
}

impl Binlog {
    /// What the task has done.
    pub fn counters(&self) -> Counted {
        self.counts.read()
    }
    /// The bytes of records in memory that are not in the files.
    pub fn waiting_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
    /// No transaction that waits for the files has been durable for longer than this, in
    /// microseconds.
    pub fn lag_us(&self) -> u64 {
        let now = self.disk.now().as_micros() as u64;
        now.saturating_sub(self.caught_up_us.load(Relaxed))
    }
    /// Notes what was done by a turn that began at `began_us` of the disk's clock.
    pub(super) fn count(&self, work: &Work, began_us: u64) {
        let (transactions, files) = work.maker.made();
        self.counts.transactions.store(transactions, Relaxed);
        self.counts.rotations.store(files, Relaxed);
        self.caught_up_us.store(began_us, Relaxed);
    }
}

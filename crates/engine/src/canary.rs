//! Planted bugs: each breaks one rule, so that the crash simulation can show that it would find
//! that bug (`crates/sim/tests/canaries.rs`).
//!
//! Only with the feature `canary`, which the simulation asks for; without it [`planted`] is a
//! constant. A bug is planted for the calling thread: a simulated machine has one.

/// A rule that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// I-1: a commit is acknowledged before it is durable.
    AckBeforeDurable,
    /// Recovery does not roll back what was unfinished.
    NoUndoAtRecovery,
    /// CKPT-1: the checkpoint does not wait for dirty pages.
    CheckpointTooFar,
    /// FLUSH-1: pages are written before their log.
    PageBeforeLog,
    /// Pages torn by a crash are not repaired.
    NoRepair,
    /// DICT-1: a dropped table's file goes before the record of that is durable.
    FileGoesFirst,
    /// Files that the dictionary does not name are left.
    OrphansStay,
    /// Locking scans do not lock the ranges between rows.
    NoRangeLocks,
    /// PURGE-1: purge does not wait for older views.
    PurgeTooEarly,
    /// UCUT-2: an undo file is replaced before the checkpoint has passed its changes.
    UndoCutEarly,
    /// WRITER-4: a write that ends before an earlier one counts as all before it.
    DurableOutOfOrder,
    /// SCAN-4: a start does not sync the log that it reads.
    LogFromCache,
    /// A rollback to a savepoint forgets instead of taking back.
    SavepointForgets,
    /// Values of a unique index are searched for and not locked.
    UniqueUnlocked,
    /// A view sees what is not committed.
    DirtyReads,
    /// COUNTER-1, COUNTER-2: AUTO_INCREMENT goes on where it was saved last, and no row saves it.
    CounterForgets,
}

#[cfg(feature = "canary")]
mod plant {
    use super::Canary;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Canary>> = const { Cell::new(None) };
    }
    /// Breaks a rule in this thread from now on, or none.
    pub fn plant(canary: Option<Canary>) {
        PLANTED.set(canary);
    }
    pub(crate) fn planted(canary: Canary) -> bool {
        PLANTED.get() == Some(canary)
    }
}
#[cfg(feature = "canary")]
pub use plant::plant;
#[cfg(feature = "canary")]
pub(crate) use plant::planted;

#[cfg(not(feature = "canary"))]
#[inline(always)]
pub(crate) const fn planted(_: Canary) -> bool {
    false
}

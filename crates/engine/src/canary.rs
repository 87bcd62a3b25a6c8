//! Planted bugs. Each bug breaks one rule, so that the crash simulation can show that it would find
//! this bug (`crates/sim/tests/canaries.rs`).
//!
//! Planted bugs exist only with the feature `canary`, which the simulation enables; without the
//! feature [`planted`] is a constant. A bug is planted for the calling thread, because a simulated
//! machine has one thread.

/// The rule that a planted bug breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// I-1: a commit is acknowledged before it is durable.
    AckBeforeDurable,
    /// Recovery does not roll back unfinished transactions.
    NoUndoAtRecovery,
    /// CKPT-1: the checkpoint does not wait for dirty pages.
    CheckpointTooFar,
    /// FLUSH-1: pages are written before their redo is durable.
    PageBeforeLog,
    /// Pages torn by a crash are not repaired.
    NoRepair,
    /// TORN-2: a torn page that redo rebuilds keeps the LSN of its header.
    TornKeepsLsn,
    /// DICT-1: a dropped table's file is removed before the record of the drop is durable.
    FileGoesFirst,
    /// Files that the dictionary does not name are not cleared away.
    OrphansStay,
    /// Locking scans do not lock the ranges between rows.
    NoRangeLocks,
    /// PURGE-1: purge does not wait for older views.
    PurgeTooEarly,
    /// UCUT-2: an undo file is replaced before the checkpoint has passed its changes.
    UndoCutEarly,
    /// WRITER-4: the end of a write counts as the end of all writes before it.
    DurableOutOfOrder,
    /// SCAN-4: a start does not sync the log that it reads.
    LogFromCache,
    /// A rollback to a savepoint forgets the changes instead of taking them back.
    SavepointForgets,
    /// BATCH-2: of a run of rows only the last row can be taken back.
    RunForgetsUndo,
    /// The values of a unique index are searched for without a lock.
    UniqueUnlocked,
    /// A view sees uncommitted changes.
    DirtyReads,
    /// CURSOR-3: rows are made from entries whose page has changes that the view does not see.
    EntriesForRows,
    /// COUNTER-1, COUNTER-2: AUTO_INCREMENT goes on at the value that was saved last, and no row
    /// saves it.
    CounterForgets,
    /// STREAM-3: the checkpoint does not wait for the commit stream.
    StreamLeftBehind,
    /// A start does not replay the records that travel with commits.
    NoReplay,
    /// PREPARE-1: a prepared transaction comes back without its locks.
    PrepareForgetsLocks,
    /// PREPARE-2: the rollback of a prepared transaction leaves the mark of the promise.
    RollbackKeepsPromise,
    /// STAGES-1: the classic commit leaves the sync of the binary log's file out.
    StageSyncsNothing,
    /// STAGES-2: the classic commit shows commits in any order.
    StageKeepsNoOrder,
}

#[cfg(feature = "canary")]
mod plant {
    use super::Canary;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Canary>> = const { Cell::new(None) };
    }
    /// Plants a bug in this thread, or none, from now on.
    pub fn plant(canary: Option<Canary>) {
        PLANTED.set(canary);
    }
    /// Whether this bug is planted in this thread.
    pub fn planted(canary: Canary) -> bool {
        PLANTED.get() == Some(canary)
    }
}
#[cfg(feature = "canary")]
pub use plant::{plant, planted};

#[cfg(not(feature = "canary"))]
/// Whether a bug is planted: never in this build.
#[inline(always)]
pub const fn planted(_: Canary) -> bool {
    false
}

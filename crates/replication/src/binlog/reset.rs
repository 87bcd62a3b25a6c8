//! RESET BINARY LOGS AND GTIDS: the log begins anew, with no transaction.
//!
//! The reset is a record like any other, so it has its place in the order of the transactions: what
//! commits before it goes with the files, what commits after it is in the new ones. The task
//! removes the files when it comes to the record; a start does it again (BINLOG-FILES-2).
use super::Binlog;
use super::work::{Unfinished, Work};
use crate::record::Record;
use redolith_binlog::GtidSet;
use redolith_engine::{Engine, Lsn, Result};
use std::io;
use std::sync::atomic::Ordering::Release;

/// The greatest number of the first file of a log that begins anew, so that others may follow.
/// (MySQL, `MAX_ALLOWED_FN_EXT_RESET_MASTER`)
pub const MOST_RESET_NUMBER: u32 = 2_000_000_000;

/// A reset that is not done.
#[derive(Clone, Copy)]
pub(super) struct Reset {
    /// Where its record begins and ends.
    pub(super) at: Lsn,
    pub(super) end: Lsn,
    /// Whether the files are gone.
    pub(super) removed: bool,
}

impl Binlog {
    /// Removes all files and forgets the names of all transactions. The log goes on with file
    /// `first`. Dumps end with an error.
    pub async fn reset(&self, engine: &Engine, first: u32) -> Result<()> {
        self.order(engine, Record::Reset { us: self.now_us(), first }).await
    }

    /// Does what the record of a reset asked for.
    pub(super) fn finish_reset(&self, work: &mut Work) -> io::Result<()> {
        let Unfinished::Reset(Reset { at, end, removed }) = work.unfinished else { return Ok(()) };
        if !removed {
            let mut status = self.status.lock();
            (status.position, status.executed) = (None, GtidSet::new());
            status.resets += 1;
            self.semi_sync.begin_anew(status.resets, end);
            drop(status);
            work.files.reset(at)?;
            work.unfinished = Unfinished::Reset(Reset { at, end, removed: true });
        }
        work.write()?;
        work.files.sync();
        work.unfinished = Unfinished::Nothing;
        work.maker.pass(end);
        *self.safe.lock() = work.maker.state().clone();
        *self.stored.lock() = (self.status.lock().resets, 0);
        self.limit.store(end.0, Release);
        Ok(())
    }
}

impl Work {
    /// Does what a reset's record in the redo log asks of a start.
    pub(super) fn replay_reset(&mut self) -> io::Result<()> {
        let Unfinished::Reset(Reset { at, .. }) = self.unfinished else { return Ok(()) };
        self.unfinished = Unfinished::Nothing;
        if self.reset_ahead.is_none_or(|ahead| ahead <= at) {
            self.files.reset(at)?;
            self.reset_ahead = None;
        }
        Ok(())
    }
    /// Removes a mark whose reset was not in the redo log: it is of another data directory.
    pub(super) fn forget_mark(&mut self) -> io::Result<()> {
        match self.reset_ahead.take() {
            Some(_) => self.files.forget_reset(),
            None => Ok(()),
        }
    }
    /// Removes the mark of a reset that a checkpoint has passed.
    pub(super) fn forget_reset(&mut self, checkpoint: Lsn) {
        if self.files.reset_mark().is_some_and(|at| at < checkpoint) {
            // The next turn tries again. A start passes over such a mark.
            let _ = self.files.forget_reset();
        }
    }
}

//! Commit: from "the last change is in the log buffer" to "it can never be lost".
//!
//! 1. The log of the transaction is marked committed, in a mini-transaction: from here on recovery
//!    keeps it (`UndoLog::finish`).
//! 2. It leaves the active set: views opened from now on see it (`TrxSys::commit_no`).
//! 3. Its undo goes to the history, for purge.
//! 4. Its locks are released: whoever waited goes on, and commits behind it in the log.
//! 5. The [`CommitTicket`] resolves when the log is durable up to the mark of step 1.
//!
//! Locks are released before the commit is durable (early lock release: DeWitt et al., 1984): a
//! transaction that reads its changes has a later place in the log, so it cannot become durable
//! without it.
use super::Trx;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::undo::record;
use crate::{Lsn, Result, TrxId};
use std::sync::Arc;
use std::time::Duration;

/// A commit on its way to the disk.
#[must_use = "a commit is durable when its ticket says so"]
pub struct CommitTicket {
    engine: Arc<Engine>,
    lsn: Option<Lsn>,
    /// When it was committed, if there is something to make durable.
    at: Duration,
}
impl CommitTicket {
    /// Behind the commit's last byte in the log; none if the transaction changed nothing.
    pub fn lsn(&self) -> Option<Lsn> {
        self.lsn
    }
    /// Resolves when the commit is durable. Dropping the future takes nothing back.
    pub async fn durable(self) {
        if let Some(lsn) = self.lsn
            && !planted(Canary::AckBeforeDurable)
        {
            self.engine.store.log.wait_durable(lsn).await;
            self.engine.counts.commit_wait.record(self.engine.disk.now().saturating_sub(self.at));
        }
    }
    /// The same for a program without an executor.
    pub fn wait(self) {
        crate::runtime::block_on(self.durable());
    }
}

/// A transaction with so many changes has locks that it takes milliseconds to release.
const MANY: u32 = 20_000;

impl Trx {
    /// Commits. The transaction is visible to others when this returns, and durable when the ticket
    /// resolves; afterwards the value serves for the next one. After an error it is rolled back.
    pub async fn commit(&mut self) -> Result<CommitTicket> {
        let engine = self.engine.clone();
        if self.undo.count >= MANY {
            engine.runtime.leave_worker();
        }
        let marked = match self.broken.take() {
            Some(e) => Err(e),
            None => self.mark_committed().await,
        };
        let lsn = match marked {
            Ok(lsn) => lsn,
            Err(e) => {
                self.rollback().await?;
                return Err(e);
            }
        };
        match self.id {
            TrxId::NONE if !self.has_read() => {}
            TrxId::NONE if self.single_read => engine.counts.nl_ro_commits.add(1),
            TrxId::NONE => engine.counts.ro_commits.add(1),
            _ => engine.counts.rw_commits.add(1),
        }
        self.view.close();
        self.counter_raised = None;
        if self.id != TrxId::NONE {
            engine.sys.commit_no(self.id);
            engine.history.add(&engine.undo, self.id, &mut self.undo);
        }
        self.end();
        let mut at = Duration::ZERO;
        if lsn.is_some() {
            at = engine.disk.now();
            let last = std::mem::replace(&mut self.last_commit, at);
            // A sample is enough.
            if !last.is_zero() && at.as_micros().is_multiple_of(8) {
                engine.store.log.session_committed_after(at.saturating_sub(last));
            }
        }
        Ok(CommitTicket { engine, lsn, at })
    }
    async fn mark_committed(&mut self) -> Result<Option<Lsn>> {
        loop {
            match self.undo.finish(&self.engine.store, record::COMMITTED, 0) {
                Ok(lsn) => return Ok(lsn),
                Err(s) => self.unblocked(s).await?,
            }
        }
    }
    /// Forgets the transaction; its locks are free.
    pub(super) fn end(&mut self) {
        self.engine.locks.release_all(&self.locks);
        self.id = TrxId::NONE;
        self.undo = Default::default();
        self.broken = None;
        self.view.close();
    }
}

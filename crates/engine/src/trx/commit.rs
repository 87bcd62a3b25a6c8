//! Commit: from "the last change is in the log buffer" to "it can never be lost".
//!
//! 1. The log of the transaction is marked committed, in a mini-transaction: from here on recovery keeps it (`UndoLog::finish`).
//! 2. It leaves the active set: views opened from now on see it (`TrxSys::commit_no`).
//! 3. Its undo goes to the history, for purge.
//! 4. Its locks are released: whoever waited goes on, and commits behind it in the log.
//! 5. The [`CommitTicket`] resolves when the log is durable up to the mark of step 1.
//!
//! Locks are released before the commit is durable (early lock release: DeWitt et al., 1984): a transaction that reads its changes has a later place
//! in the log, so it cannot become durable without it.
use super::Trx;
use crate::canary::{Canary, planted};
use crate::log::Log;
use crate::undo::record;
use crate::{Lsn, Result, TrxId};
use std::sync::Arc;

/// A commit on its way to the disk.
#[must_use = "a commit is durable when its ticket says so"]
pub struct CommitTicket {
    log: Arc<Log>,
    lsn: Option<Lsn>,
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
            self.log.wait_durable(lsn).await;
        }
    }
    /// The same for a program without an executor.
    pub fn wait(self) {
        crate::host::block_on(self.durable());
    }
}

impl Trx {
    /// Commits. The transaction is visible to others when this returns, and durable when the ticket resolves; afterwards the value serves for the next one.
    /// After an error it is rolled back.
    pub async fn commit(&mut self) -> Result<CommitTicket> {
        let engine = self.engine.clone();
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
        self.view.close();
        if self.id != TrxId::NONE {
            let no = engine.sys.commit_no(self.id);
            self.undo.release(&engine.undo);
            if let Some(first) = self.undo.first() {
                engine.history.push(no, first, std::mem::take(&mut self.undo.pages));
            }
        }
        self.end();
        Ok(CommitTicket { log: engine.store.log.clone(), lsn })
    }
    async fn mark_committed(&mut self) -> Result<Option<Lsn>> {
        loop {
            match self.undo.finish(&self.engine.store, record::COMMITTED, 0) {
                Ok(lsn) => return Ok(lsn),
                Err(s) => self.settle(s).await?,
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

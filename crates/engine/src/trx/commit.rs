//! Commit: the way of a transaction from its last change, which is in the redo log's buffer, to a
//! state that no crash can undo.
//!
//! 1. A mini-transaction marks the transaction's undo log as committed. From here on recovery keeps
//!    the transaction (`UndoLog::finish`).
//! 2. The transaction leaves the active set. Views opened from now on see it (`TrxSys::commit_no`).
//! 3. Its undo log joins the history, for purge.
//! 4. Its locks are released. A transaction that waited for them goes on, and its commit comes
//!    later in the redo log.
//! 5. The [`CommitTicket`] resolves when the redo log is durable up to the mark of step 1.
//!
//! [`Trx::place_commit`] does step 1 alone, and [`Trx::finish_commit`] the others: the commit stays
//! hidden, with its locks, until the stream has done its part ([`crate::commit_stream`]).
//!
//! Locks are released before the commit is durable (early lock release: DeWitt et al., 1984). This
//! is safe: a transaction that reads the changes has a later place in the redo log, so that it
//! cannot become durable before them.
use super::Trx;
use super::seen::Phase;
use crate::canary::{Canary, planted};
use crate::commit_stream::StreamRecord;
use crate::engine::Engine;
use crate::undo::record;
use crate::{Error, Lsn, Result, TrxId};
use std::sync::Arc;
use std::time::Duration;

/// A commit on its way to the disk.
#[must_use = "a commit is durable when its ticket says so"]
pub struct CommitTicket {
    pub(super) engine: Arc<Engine>,
    pub(super) lsn: Option<Lsn>,
    /// When the transaction committed; zero if there is nothing to make durable.
    pub(super) at: Duration,
}
impl CommitTicket {
    /// The position behind the commit's last byte in the redo log; none if the transaction changed
    /// nothing.
    pub fn lsn(&self) -> Option<Lsn> {
        self.lsn
    }
    /// Resolves when the commit is durable. Dropping the future does not take the commit back.
    pub async fn durable(self) {
        if let Some(lsn) = self.lsn
            && !planted(Canary::AckBeforeDurable)
        {
            self.engine.store.log.wait_durable(lsn).await;
            self.engine.counts.commit_wait.record(self.engine.disk.now().saturating_sub(self.at));
        }
    }
    /// Blocks the thread until the commit is durable, for a program without an executor.
    pub fn wait(self) {
        crate::runtime::block_on(self.durable());
    }
}

/// A transaction with this many undo records or locks may need milliseconds to release its locks,
/// and leaves its worker first.
pub(super) const MANY: usize = 20_000;

impl Trx {
    /// Commits the transaction. Others see its changes when this function returns; the changes are
    /// durable when the ticket resolves. `self` then serves for the next transaction. If the commit
    /// fails, the transaction is rolled back, unless it is prepared: then it stays prepared.
    pub async fn commit(&mut self) -> Result<CommitTicket> {
        self.commit_with(None).await
    }
    /// As [`Trx::commit`], with a record for the engine's stream ([`crate::commit_stream`]), which
    /// becomes durable with the commit. A transaction that has changed nothing has no record.
    ///
    /// # Errors
    /// Those of `commit`, and [`crate::Error::RecordTooLong`] if the redo log can never have room
    /// for the record.
    pub async fn commit_with(&mut self, record: Option<&[u8]>) -> Result<CommitTicket> {
        let lsn = self.place(record.map(StreamRecord::new)).await?;
        if self.id != TrxId::NONE {
            self.engine.sys.commit_no(self.id);
        }
        Ok(self.end_commit(lsn))
    }
    /// The first half of [`Trx::commit_with`]: gives the commit its place in the redo log. From
    /// here on a crash keeps the transaction if the redo log is durable up to the returned
    /// position. But until [`Trx::finish_commit`], or [`crate::Engine::show_commit`], the
    /// transaction holds its locks, and others do not see its changes. None if it has changed
    /// nothing.
    ///
    /// # Errors
    /// As [`Trx::commit_with`].
    pub async fn place_commit(&mut self, record: &[u8]) -> Result<Option<Lsn>> {
        let hidden = Some(self.id).filter(|id| *id != TrxId::NONE);
        let lsn = self.place(Some(StreamRecord { bytes: record, hidden })).await?;
        self.view.close();
        self.placed = lsn;
        Ok(lsn)
    }
    /// The second half. Others see the changes when this function returns.
    pub fn finish_commit(&mut self) -> CommitTicket {
        let lsn = self.placed.take();
        if self.id != TrxId::NONE {
            self.engine.sys.commit_once(self.id);
        }
        self.end_commit(lsn)
    }
    /// Step 1.
    async fn place(&mut self, record: Option<StreamRecord<'_>>) -> Result<Option<Lsn>> {
        assert!(self.placed.is_none(), "a commit has one place");
        self.locks.seen().set_phase(Phase::Committing);
        if self.undo.count as usize >= MANY {
            self.engine.runtime.leave_worker();
        }
        let marked = match self.broken.clone() {
            Some(e) => Err(e),
            None => self.mark(record::COMMITTED, record).await,
        };
        match marked {
            Ok(lsn) => {
                self.prepared = false;
                Ok(lsn)
            }
            Err(e) if self.prepared => {
                self.locks.seen().set_phase(Phase::Running);
                Err(e)
            }
            Err(e) => {
                self.rollback().await?;
                Err(e)
            }
        }
    }
    /// Commits a transaction that has changed nothing, without a future. Returns false without an
    /// effect if the transaction has changed something or has failed: then [`Trx::commit`] ends it.
    #[inline]
    pub fn commit_unchanged(&mut self) -> bool {
        if self.id != TrxId::NONE || self.broken.is_some() {
            return false;
        }
        self.count_commit();
        self.view.close();
        self.counter_raised = None;
        self.release_locks();
        self.counter_lock = None;
        self.fills = None;
        true
    }
    fn count_commit(&self) {
        let counts = &self.engine.counts;
        match self.id {
            TrxId::NONE if !self.has_read() => {}
            TrxId::NONE if self.single_read => counts.nl_ro_commits.add(1),
            TrxId::NONE => counts.ro_commits.add(1),
            _ => counts.rw_commits.add(1),
        }
    }
    /// Steps 3 and 4.
    fn end_commit(&mut self, lsn: Option<Lsn>) -> CommitTicket {
        self.count_commit();
        let engine = self.engine.clone();
        self.view.close();
        self.counter_raised = None;
        if self.id != TrxId::NONE {
            engine.history.add(&engine.undo, self.id, &mut self.undo);
        }
        self.end();
        let mut at = Duration::ZERO;
        if lsn.is_some() {
            at = engine.disk.now();
            let last = std::mem::replace(&mut self.last_commit, at);
            // The pacing of flushes needs only a sample of the times between commits.
            if !last.is_zero() && at.as_micros().is_multiple_of(8) {
                engine.store.log.session_committed_after(at.saturating_sub(last));
            }
        }
        CommitTicket { engine, lsn, at }
    }
    /// Gives the undo log another state, with a record that travels along.
    pub(super) async fn mark(
        &mut self,
        state: u8,
        record: Option<StreamRecord<'_>>,
    ) -> Result<Option<Lsn>> {
        if let Some(StreamRecord { bytes, .. }) = record
            && bytes.len() > self.engine.record_max()
        {
            return Err(Error::RecordTooLong(bytes.len()));
        }
        loop {
            let store = &self.engine.store;
            match self.undo.finish_with(store, state, 0, record) {
                Ok(lsn) => return Ok(lsn),
                Err(s) => self.unblocked(s).await?,
            }
        }
    }
    /// Releases the locks, of which a transaction that only reads may have many too.
    pub(super) fn release_locks(&self) {
        if self.locks.locks_held() + self.locks.ranges_held() >= MANY {
            self.engine.runtime.leave_worker();
        }
        self.engine.locks.release_all(&self.locks);
    }
    /// Forgets the transaction and releases its locks.
    pub(super) fn end(&mut self) {
        self.release_locks();
        self.counter_lock = None;
        self.fills = None;
        self.id = TrxId::NONE;
        self.undo = Default::default();
        self.broken = None;
        self.unfinished.clear();
        self.ending = false;
        self.prepared = false;
        self.view.close();
    }
}

impl Engine {
    /// Shows a commit that has its place in the redo log ([`Trx::place_commit`]): views opened from
    /// now on see it. Its session still holds its locks. Does nothing if it is shown already.
    pub fn show_commit(&self, id: TrxId) {
        self.sys.commit_once(id);
    }
}

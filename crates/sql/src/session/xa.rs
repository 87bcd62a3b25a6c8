//! XA transactions as a session runs them. (X/Open CAE Specification, Distributed TP: The XA
//! Specification; MySQL manual, "XA Transaction States")
//!
//! ```text
//! XA START ► active ► XA END ► idle ► XA PREPARE ► prepared, of no session ► XA COMMIT
//!                                   └ XA COMMIT .. ONE PHASE               └ XA ROLLBACK
//! ```
//!
//! **XA-3** Between XA START and the end of the transaction, or its preparation, no statement
//! commits implicitly, and none uses tables while the transaction is idle: error 1399.
//! **XA-4** A deadlock rolls the transaction back. The session keeps its name until XA ROLLBACK.
use super::Session;
use super::transaction::stages;
use super::variables::flush_of;
use crate::binlog::{Capture, Sealed, killable, xa_end};
use crate::error::{Result, SqlError};
use crate::exec;
use crate::exec::global_read_lock::conflicting_read_lock;
use crate::plan::{Plan, Statement, TransactionStmt, XaVerb};
use crate::xa::{Detached, XaName, Xid};
use redolith_engine::dict::metadata_lock::MetadataLockSet;
use redolith_engine::{Trx, UsedTable};

/// The XA transaction that a session works on.
pub(super) struct Branch {
    name: XaName,
    /// XA END has been run.
    idle: bool,
    /// Why the engine has rolled the transaction back (XA-4).
    failed: Option<SqlError>,
    /// The tables that the transaction uses.
    tables: Vec<UsedTable>,
}
impl Branch {
    fn state(&self) -> &'static str {
        match (&self.failed, self.idle) {
            (Some(_), _) => "ROLLBACK ONLY",
            (None, true) => "IDLE",
            (None, false) => "ACTIVE",
        }
    }
    /// The transaction uses a table.
    pub(super) fn uses(&mut self, id: u64, written: bool) {
        match self.tables.iter_mut().find(|table| table.id == id) {
            Some(table) => table.written |= written,
            None => self.tables.push(UsedTable { id, written }),
        }
    }
    pub(super) fn fail(&mut self, why: &SqlError) {
        let deadlock = why.code == SqlError::deadlock().code;
        self.failed =
            Some(if deadlock { SqlError::xa_deadlock() } else { SqlError::xa_rolled_back() });
    }
}

impl Session {
    pub(super) async fn run_xa(&mut self, verb: XaVerb, xid: &Xid) -> Result<()> {
        match verb {
            XaVerb::Start { joins } => self.xa_start(xid, joins),
            XaVerb::End { suspends } => self.xa_end(xid, suspends),
            XaVerb::Prepare => self.xa_prepare(xid).await,
            XaVerb::Commit { one_phase: true } => self.xa_commit_one_phase(xid).await,
            XaVerb::Rollback if self.xa.is_some() => self.xa_roll_back(xid).await,
            XaVerb::Commit { one_phase: false } => self.end_prepared(xid, true).await,
            XaVerb::Rollback => self.end_prepared(xid, false).await,
        }
    }

    /// XA-3: refuses what an XA transaction does not allow in its present state.
    #[cold]
    pub(super) fn check_xa(&self, plan: &Plan) -> Result<()> {
        let Some(branch) = &self.xa else { return Ok(()) };
        let wrong_state = || Err(SqlError::xa_state(branch.state()));
        match &plan.body {
            Statement::Transaction(
                TransactionStmt::Begin { .. }
                | TransactionStmt::Commit { .. }
                | TransactionStmt::Rollback { .. },
            ) => wrong_state(),
            Statement::Transaction(_) if branch.idle || branch.failed.is_some() => wrong_state(),
            _ if plan.commits_implicitly() => wrong_state(),
            _ if plan.tables.is_empty() => Ok(()),
            _ if branch.failed.is_some() => Err(SqlError::xa_rolled_back()),
            _ if branch.idle => wrong_state(),
            _ => Ok(()),
        }
    }
    /// The error for a commit that a statement would do besides.
    pub(super) fn no_commit_in_xa(&self) -> Result<()> {
        self.xa.as_ref().map_or(Ok(()), |branch| Err(SqlError::xa_state(branch.state())))
    }

    fn xa_start(&mut self, xid: &Xid, joins: bool) -> Result<()> {
        if joins {
            return Err(SqlError::xa_invalid());
        }
        self.no_commit_in_xa()?;
        if self.transaction.active || self.locks.has_locked_tables() {
            return Err(SqlError::xa_outside());
        }
        let name = self.db.xa.begin(xid)?;
        self.start(None, false);
        if let Some(capture) = &mut self.capture {
            capture.begin_xa(xid.clone());
        }
        let branch = Branch { name, idle: false, failed: None, tables: Vec::new() };
        self.xa = Some(Box::new(branch));
        Ok(())
    }

    fn xa_end(&mut self, xid: &Xid, suspends: bool) -> Result<()> {
        if suspends {
            return Err(SqlError::xa_invalid());
        }
        let Some(branch) = &mut self.xa else { return Err(SqlError::xa_state("NON-EXISTING")) };
        if branch.idle {
            return Err(SqlError::xa_state(branch.state()));
        }
        if branch.name.xid() != xid {
            return Err(SqlError::xa_unknown());
        }
        branch.idle = true;
        branch.failed.clone().map_or(Ok(()), Err)
    }

    /// Checks that the session's XA transaction has this name, and is idle.
    fn idle_branch(&self, xid: &Xid) -> Result<&Branch> {
        let branch = self.xa.as_deref().ok_or_else(|| SqlError::xa_state("NON-EXISTING"))?;
        match branch {
            branch if !branch.idle || branch.failed.is_some() => {
                Err(SqlError::xa_state(branch.state()))
            }
            branch if branch.name.xid() != xid => Err(SqlError::xa_unknown()),
            branch => Ok(branch),
        }
    }

    async fn xa_prepare(&mut self, xid: &Xid) -> Result<()> {
        self.idle_branch(xid)?;
        let pass = if self.trx.has_written() {
            self.locks.passes.commit(self.metadata_wait()).await?
        } else {
            None
        };
        let flush = flush_of(&self.vars, &self.db.settings);
        let sealed = self.seal_events(true).await;
        let Some(branch) = self.xa.take() else { return Err(SqlError::xa_unknown()) };
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(e) => return self.xa_gives_up(e).await,
        };
        let (logged, engine) = (sealed.is_some(), self.db.engine.clone());
        let name = xid.to_name(logged);
        let record = sealed.as_ref().and(self.capture.as_deref()).map(Capture::record);
        let ticket = match self.trx.prepare(&name, &branch.tables, record).await {
            Ok(ticket) => ticket,
            Err(e) => return self.xa_gives_up(e.into()).await,
        };
        sealed.into_iter().for_each(Sealed::keep);
        // From here on the transaction belongs to no session (XA-2), whatever happens to this one.
        let locks = std::mem::replace(&mut self.locks.metadata_lock, MetadataLockSet::new());
        let memory = self.state.memory.hand_over_locks();
        let detached = Detached { trx: self.detach(), locks, logged, memory };
        branch.name.prepared(Box::new(detached));
        self.ended();
        let end = ticket.lsn();
        exec::acknowledged(&engine, ticket, flush).await;
        drop(pass);
        match end {
            Some(end) if logged => self.events_are_safe(end).await,
            _ => Ok(()),
        }
    }
    fn detach(&mut self) -> Trx {
        let trx = self.trx.detach();
        self.state.memory.watch_locks(self.trx.locks().clone());
        trx
    }
    /// A preparation has failed: the transaction is rolled back.
    async fn xa_gives_up(&mut self, why: SqlError) -> Result<()> {
        self.xa = None;
        self.rollback_open().await?;
        Err(why)
    }

    async fn xa_commit_one_phase(&mut self, xid: &Xid) -> Result<()> {
        self.idle_branch(xid)?;
        let branch = self.xa.take();
        let committed = self.commit_open().await;
        if self.transaction.active {
            // The commit has not begun, because FLUSH TABLES WITH READ LOCK holds it up.
            self.xa = branch;
        }
        committed
    }

    async fn xa_roll_back(&mut self, xid: &Xid) -> Result<()> {
        match self.xa.as_deref() {
            Some(branch) if branch.name.xid() != xid => return Err(SqlError::xa_unknown()),
            Some(branch) if !branch.idle && branch.failed.is_none() => {
                return Err(SqlError::xa_state(branch.state()));
            }
            _ => {}
        }
        self.xa = None;
        self.rollback_open().await
    }

    /// Commits or rolls back a prepared transaction.
    async fn end_prepared(&mut self, xid: &Xid, commits: bool) -> Result<()> {
        self.no_commit_in_xa()?;
        if self.transaction.active {
            return Err(SqlError::xa_state("NON-EXISTING"));
        }
        let (name, mut detached) = self.db.xa.take(xid)?;
        let ended = self.end_detached(xid, &mut detached, commits).await;
        if detached.trx.is_prepared() {
            name.prepared(detached);
        }
        ended
    }
    async fn end_detached(
        &mut self,
        xid: &Xid,
        detached: &mut Detached,
        commits: bool,
    ) -> Result<()> {
        let wait = self.metadata_wait();
        if self.locks.passes.holds() {
            return Err(conflicting_read_lock());
        }
        let _pass = self.locks.passes.commit(wait).await?;
        let (trx, db) = (&mut detached.trx, self.db.clone());
        trx.locks().set_kill(self.state.process.interrupt.clone());
        trx.lock_wait_timeout = self.derived.row_lock_timeout;
        let flush = flush_of(&self.vars, &db.settings);
        let record = match &db.binlog {
            Some(binlog) if detached.logged && self.derived.log.on => {
                let verb = if commits { "COMMIT" } else { "ROLLBACK" };
                killable(&self.state.process, binlog.admit()).await?;
                let now_us = db.engine.disk.wall_us();
                let (settings, session) = (&self.derived.log, self.state.id);
                Some(xa_end(now_us, &db.settings, settings, session, verb, xid)?)
            }
            _ => None,
        };
        let stages = stages(db.binlog.as_deref(), flush).filter(|_| commits).zip(record.as_deref());
        let ticket = if let Some((binlog, record)) = stages {
            if let Some(end) = trx.place_commit(record).await? {
                binlog.pass_stages(&db.engine, end, &trx.locks().kill()).await;
            }
            trx.finish_commit()
        } else if commits {
            trx.commit_with(record.as_deref()).await?
        } else {
            let ticket = trx.take_promise_back(record.as_deref()).await?;
            trx.rollback().await?;
            ticket
        };
        detached.locks.release_all();
        let end = ticket.lsn();
        exec::acknowledged(&db.engine, ticket, flush).await;
        match end {
            Some(end) if record.is_some() => self.events_are_safe(end).await,
            _ => Ok(()),
        }
    }
}

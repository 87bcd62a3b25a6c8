//! Transactions: BEGIN to COMMIT, autocommit, savepoints.
//!
//! **TXN-1** `active` says that the transaction goes on after the statement: BEGIN, or autocommit off and a table was used. Otherwise each statement is a
//! transaction of its own.
use super::variables::{engine_isolation, flush_of};
use super::{Session, state::Done};
use crate::error::{Result, SqlError};
use crate::exec;
use crate::exec::set::NextTransaction;
use crate::plan::TransactionStmt;
use crate::processes::Kill;
use redolith_engine::dict::mdl::MdlWait;
use redolith_engine::{Isolation, Savepoint};

#[derive(Default)]
pub(super) struct Transaction {
    pub active: bool,
    /// A statement of it has used a table.
    pub used: bool,
    savepoints: Vec<(Box<str>, Savepoint)>,
    pub next: NextTransaction,
    /// COMMIT AND CHAIN: the next transaction has the last one's isolation.
    chained: Option<Isolation>,
}

impl Session {
    pub(super) async fn run_transaction(&mut self, statement: &TransactionStmt) -> Result<Done> {
        match statement {
            TransactionStmt::Begin { read_only, consistent_snapshot } => {
                self.commit_open().await?;
                self.locks.unlock_tables();
                self.start(*read_only, *consistent_snapshot);
            }
            TransactionStmt::Commit { chain, release } => {
                let before = self.characteristics();
                self.commit_open().await?;
                self.completed(*chain, *release, before);
            }
            TransactionStmt::Rollback { chain, release } => {
                let before = self.characteristics();
                self.rollback_open().await?;
                self.completed(*chain, *release, before);
            }
            TransactionStmt::Savepoint(name) => {
                // Outside a transaction there is nothing to come back to.
                if self.transaction.active {
                    self.scratch.handlers.savepoint += self.transaction.used as u64;
                    let point = self.trx.savepoint();
                    self.transaction.savepoints.retain(|(n, _)| !same(n, name));
                    self.transaction.savepoints.push((name.clone(), point));
                }
            }
            TransactionStmt::RollbackTo(name) => {
                let found = self.find_savepoint(name)?;
                let point = self.transaction.savepoints[found].1;
                self.scratch.handlers.savepoint_rollback += self.transaction.used as u64;
                self.trx.rollback_to(point).await?;
                self.transaction.savepoints.truncate(found + 1);
            }
            TransactionStmt::Release(name) => {
                let found = self.find_savepoint(name)?;
                self.transaction.savepoints.truncate(found);
            }
        }
        Ok(Done::default())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let found = self.transaction.savepoints.iter().position(|(n, _)| same(n, name));
        found.ok_or_else(|| SqlError::does_not_exist("SAVEPOINT", name))
    }

    /// AND CHAIN and RELEASE.
    fn completed(&mut self, chain: bool, release: bool, (isolation, read_only): (Isolation, bool)) {
        if chain {
            self.transaction.chained = Some(isolation);
            self.start(Some(read_only), false);
        }
        if release {
            self.state.process.kill(Kill::Connection);
        }
    }
    fn characteristics(&self) -> (Isolation, bool) {
        (self.trx.isolation, self.trx.read_only)
    }

    fn start(&mut self, read_only: Option<bool>, snapshot: bool) {
        self.begin_engine_transaction(read_only);
        self.transaction.active = true;
        if snapshot && self.trx.isolation >= Isolation::RepeatableRead {
            self.trx.open_view();
        }
    }

    /// Gives the engine's transaction its characteristics.
    #[inline]
    pub(super) fn begin_engine_transaction(&mut self, read_only: Option<bool>) {
        let next = std::mem::take(&mut self.transaction.next);
        let chained = self.transaction.chained.take();
        self.trx.isolation = chained.or(next.isolation.map(engine_isolation)).unwrap_or(self.derived.isolation);
        self.trx.read_only = read_only.or(next.read_only).unwrap_or(self.derived.read_only);
        self.trx.lock_wait_timeout = self.derived.row_lock_timeout;
    }

    /// Commits what is open, for COMMIT, BEGIN and statements that commit implicitly.
    pub(super) async fn commit_open(&mut self) -> Result<()> {
        if self.transaction.active || self.trx.has_written() {
            // Before anything has happened: a COMMIT that fails here leaves the transaction open.
            let _pass = if self.trx.has_written() { self.locks.passes.commit(self.metadata_wait()).await? } else { None };
            let committed = exec::commit(&mut self.trx, flush_of(&self.vars, &self.db.settings)).await;
            self.scratch.handlers.commit += self.transaction.used as u64;
            self.ended();
            committed?;
        }
        Ok(())
    }
    /// How this session waits for locks that are not on rows.
    #[inline]
    pub(super) fn metadata_wait(&self) -> MdlWait<'_> {
        MdlWait { host: &self.db.engine.host, timeout: self.derived.lock_timeout, kill: &self.state.process.interrupt }
    }
    pub(super) async fn rollback_open(&mut self) -> Result<()> {
        let undone = self.trx.rollback().await;
        self.scratch.handlers.rollback += self.transaction.used as u64;
        self.ended();
        Ok(undone?)
    }

    /// The engine's transaction is over: what hung on it goes.
    pub(super) fn ended(&mut self) {
        (self.transaction.active, self.transaction.used) = (false, false);
        self.transaction.savepoints.clear();
        self.locks.end_transaction();
    }
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}

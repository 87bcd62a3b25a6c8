//! Transactions: BEGIN to COMMIT, autocommit, savepoints.
//!
//! **TXN-1** `active` says that the transaction goes on after the statement: the client has sent
//! BEGIN, or autocommit is off and a statement has used a table or set a savepoint. Otherwise each
//! statement is a transaction of its own.
//!
//! **TXN-2** SET TRANSACTION is for the next transaction that uses a table. COMMIT, ROLLBACK and
//! what commits implicitly end its effect, whether a transaction was open or not.
use super::variables::{engine_isolation, flush_of};
use super::{MAX_NAME_BYTES, Session, check_name};
use crate::binlog::{Capture, Point, Sealed, semi_sync};
use crate::error::{Result, SqlError};
use crate::exec::set::NextTransaction;
use crate::exec::{self, Flush};
use crate::plan::TransactionStmt;
use crate::processes::Kill;
use crate::session_state::Done;
use redolith_engine::dict::metadata_lock::MetadataLockWait;
use redolith_engine::{Isolation, Lsn, Savepoint};
use redolith_replication::Binlog;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub(super) struct Transaction {
    pub active: bool,
    /// A statement of the transaction has used a table.
    pub used: bool,
    savepoints: Savepoints,
    /// It has made or dropped a temporary table, which no rollback takes back (TEMPTABLE-10).
    pub made_temporary: bool,
    pub dropped_temporary: bool,
    pub next: NextTransaction,
    /// After COMMIT AND CHAIN or ROLLBACK AND CHAIN: the isolation of the last transaction, which
    /// the next transaction takes over.
    chained: Option<Isolation>,
}

impl Transaction {
    /// Whether SET TRANSACTION waits for a transaction.
    pub fn is_set(&self) -> bool {
        self.next != NextTransaction::default()
    }
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
                self.transaction.next = NextTransaction::default();
                self.completed(*chain, *release, before);
            }
            TransactionStmt::Rollback { chain, release } => {
                let before = self.characteristics();
                self.warn_of_temporary();
                self.rollback_open().await?;
                self.transaction.next = NextTransaction::default();
                self.completed(*chain, *release, before);
            }
            TransactionStmt::Savepoint(name) => {
                check_name(name)?;
                if !self.transaction.active && !self.derived.autocommit {
                    self.start(None, false);
                }
                // Outside a transaction a savepoint has no use, so the statement does nothing.
                if self.transaction.active {
                    self.scratch.handlers.savepoint += self.transaction.used as u64;
                    let events = self.capture.as_mut().map(|c| c.savepoint()).transpose()?;
                    let point = Place { engine: self.trx.savepoint(), events };
                    let savepoints = &mut self.transaction.savepoints;
                    self.state
                        .memory
                        .savepoints
                        .set(savepoints.bytes() + SAVEPOINT_BYTES + 2 * name.len())?;
                    savepoints.set(name, point);
                }
            }
            TransactionStmt::RollbackTo(name) => {
                let (found, point) = self.find_savepoint(name)?;
                self.scratch.handlers.savepoint_rollback += self.transaction.used as u64;
                // Also where the rollback fails: it may have come past the later ones.
                self.transaction.savepoints.forget_from(found + 1);
                self.trx.rollback_to(point.engine).await?;
                self.warn_of_temporary();
                if let (Some(capture), Some(events)) = (&mut self.capture, point.events) {
                    capture.roll_back_to(events, &mut self.state.memory);
                }
            }
            TransactionStmt::Release(name) => {
                let (found, _) = self.find_savepoint(name)?;
                self.transaction.savepoints.forget_from(found);
            }
        }
        Ok(Done::default())
    }

    fn find_savepoint(&self, name: &str) -> Result<(u64, Place)> {
        let found = self.transaction.savepoints.find(name);
        found.ok_or_else(|| SqlError::does_not_exist("SAVEPOINT", name))
    }

    /// Does what AND CHAIN and RELEASE ask for.
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

    pub(super) fn start(&mut self, read_only: Option<bool>, snapshot: bool) {
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
        self.trx.isolation =
            chained.or(next.isolation.map(engine_isolation)).unwrap_or(self.derived.isolation);
        self.trx.read_only = read_only.or(next.read_only).unwrap_or(self.derived.read_only);
        self.trx.lock_wait_timeout = self.derived.row_lock_timeout;
    }

    /// Commits the open transaction, for COMMIT, BEGIN and statements that commit implicitly.
    pub(super) async fn commit_open(&mut self) -> Result<()> {
        self.no_commit_in_xa()?;
        if self.transaction.active || self.trx.has_written() {
            // The pass comes first: a COMMIT that fails here leaves the transaction open.
            let _pass = if self.trx.has_written() {
                self.locks.passes.commit(self.metadata_wait()).await?
            } else {
                None
            };
            let committed = self.commit_engine_transaction().await;
            self.scratch.handlers.commit += self.transaction.used as u64;
            self.ended();
            committed?;
        }
        Ok(())
    }
    /// Commits the open transaction before a definition.
    pub(super) async fn commit_implicitly(&mut self) -> Result<()> {
        self.commit_open().await?;
        self.transaction.next = NextTransaction::default();
        Ok(())
    }
    /// Commits the engine's transaction, with its events for the binary log.
    #[inline]
    pub(super) async fn commit_engine_transaction(&mut self) -> Result<()> {
        let flush = flush_of(&self.vars, &self.db.settings);
        let sealed = match self.seal_events(false).await {
            Ok(sealed) => sealed,
            Err(e) => {
                // A commit that fails rolls back.
                self.trx.rollback().await?;
                return Err(e);
            }
        };
        let record = self.capture.as_deref().map(Capture::record).zip(sealed);
        let logged = record.is_some();
        let stages = stages(self.db.binlog.as_deref(), flush);
        match exec::commit(&mut self.trx, record, flush, stages).await? {
            Some(end) if logged => self.wait_for_replicas(end).await,
            _ => Ok(()),
        }
    }
    /// Ends the events of the transaction, for its commit or its preparation. None if it has none.
    #[inline]
    pub(super) async fn seal_events(&mut self, prepares: bool) -> Result<Option<Sealed>> {
        match &mut self.capture {
            Some(capture) if !capture.is_empty() => {
                let xid = self.trx.id().0;
                let (process, memory) = (&self.state.process, &mut self.state.memory);
                let status = self.derived.log.status();
                capture.seal(xid, prepares, status, &self.db.engine, process, memory).await
            }
            _ => Ok(None),
        }
    }
    /// Waits until the events of what ends at `end`, and shows already, are as safe as the settings
    /// ask: in the synced file, and on replicas.
    pub(super) async fn events_are_safe(&mut self, end: Lsn) -> Result<()> {
        let flush = flush_of(&self.vars, &self.db.settings);
        if let Some(binlog) = stages(self.db.binlog.as_deref(), flush) {
            let kill = &self.state.process.interrupt;
            Box::pin(binlog.pass_stages(&self.db.engine, end, kill)).await;
        }
        self.wait_for_replicas(end).await
    }
    /// Waits until replicas have the events of what ends at `end`, if commits wait for them.
    #[inline]
    pub(super) async fn wait_for_replicas(&mut self, end: Lsn) -> Result<()> {
        match &self.db.binlog {
            Some(binlog) if binlog.semi_sync().is_enabled() => {
                let (engine, process) = (&self.db.engine, &self.state.process);
                Box::pin(semi_sync::wait(binlog, engine, process, end)).await
            }
            _ => Ok(()),
        }
    }
    /// Forgets the events of a transaction that has ended.
    #[inline]
    pub(super) fn forget_events(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.clear();
        }
    }
    /// How this session waits for locks other than row locks.
    #[inline]
    pub(super) fn metadata_wait(&self) -> MetadataLockWait<'_> {
        MetadataLockWait {
            runtime: &self.db.engine.runtime,
            timeout: self.derived.lock_timeout,
            kill: &self.state.process.interrupt,
        }
    }
    pub(super) async fn rollback_open(&mut self) -> Result<()> {
        let undone = exec::rollback(&mut self.trx, flush_of(&self.vars, &self.db.settings)).await;
        self.scratch.handlers.rollback += self.transaction.used as u64;
        self.ended();
        undone
    }

    /// Forgets the state of the engine's transaction, which has ended: savepoints, locks and their
    /// memory.
    pub(super) fn ended(&mut self) {
        (self.transaction.active, self.transaction.used) = (false, false);
        (self.transaction.made_temporary, self.transaction.dropped_temporary) = (false, false);
        self.transaction.savepoints.forget_from(0);
        self.forget_events();
        self.locks.end_transaction();
        self.state.memory.forget_transaction();
    }
}

/// Approximate memory of a savepoint without its name, which is stored twice.
const SAVEPOINT_BYTES: usize = 160;

/// A place in a transaction to which it can be rolled back.
#[derive(Clone, Copy)]
struct Place {
    engine: Savepoint,
    /// None if the binary log is off.
    events: Option<Point>,
}

/// The savepoints of a transaction, in the order in which they were set. A name has at most one
/// savepoint.
#[derive(Default)]
struct Savepoints {
    /// From the name in lower case to the savepoint's number.
    numbers: HashMap<Box<str>, u64>,
    points: BTreeMap<u64, (Box<str>, Place)>,
    next: u64,
}
impl Savepoints {
    fn set(&mut self, name: &str, point: Place) {
        let name: Box<str> = name.to_lowercase().into();
        if let Some(old) = self.numbers.insert(name.clone(), self.next) {
            self.points.remove(&old);
        }
        self.points.insert(self.next, (name, point));
        self.next += 1;
    }
    /// The memory of the savepoints. Every name counts with the greatest length, since names are
    /// short.
    fn bytes(&self) -> usize {
        self.points.len() * (SAVEPOINT_BYTES + 2 * MAX_NAME_BYTES)
    }
    fn find(&self, name: &str) -> Option<(u64, Place)> {
        let number = *self.numbers.get(&*name.to_lowercase())?;
        Some((number, self.points.get(&number)?.1))
    }
    /// Forgets the savepoints whose number is `number` or greater.
    fn forget_from(&mut self, number: u64) {
        if number == 0 {
            *self = Savepoints::default();
            return;
        }
        for (name, _) in self.points.split_off(&number).into_values() {
            self.numbers.remove(&name);
        }
    }
}

/// The binary log, if commits go through its stages. Those that do not wait for the redo log to be
/// durable cannot: only what is durable gets into the files (FOLLOW-1).
#[inline]
pub(super) fn stages(binlog: Option<&Binlog>, flush: Flush) -> Option<&Binlog> {
    binlog.filter(|binlog| binlog.is_classic() && flush == Flush::Durable)
}

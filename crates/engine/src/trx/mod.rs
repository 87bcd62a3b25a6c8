//! A transaction, as its session holds it. `commit.rs` is the page to read first.
//!
//! - TRX-A: row changes are in the order clustered record (with undo), then secondary entries; undoing goes the other way round.
//! - TRX-B: a failed statement is rolled back to where it began (`savepoint`, `rollback_to`); a deadlock's victim is rolled back whole.
pub mod commit;
pub mod rollback;
pub mod sys;
pub mod view;

use crate::engine::Engine;
use crate::lock::{KillFlag, TrxLocks};
use crate::metrics::RowCounts;
use crate::undo::{UndoLog, record::RollPtr};
use crate::{Error, Result, Stall, TrxId, Try};
use std::sync::Arc;
use std::time::Duration;
use view::ReadView;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    #[default]
    RepeatableRead,
    Serializable,
}
impl Isolation {
    /// Whether locking reads also lock the ranges they scan.
    pub fn locks_ranges(self) -> bool {
        self >= Isolation::RepeatableRead
    }
}

/// A place in a transaction that can be rolled back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(pub(crate) RollPtr);

/// Memory that one operation after another uses.
#[derive(Default)]
pub(crate) struct Scratch {
    pub key: Vec<u8>,
    pub entry: Vec<u8>,
    pub undo: Vec<u8>,
    pub payload: Vec<u8>,
}

/// One session's transactions, one after the other: `begin`, work, `commit` or `rollback`. Dropped unfinished, it is rolled back in the background.
pub struct Trx {
    pub(crate) engine: Arc<Engine>,
    pub(crate) locks: Arc<TrxLocks>,
    pub(crate) id: TrxId,
    pub(crate) undo: UndoLog,
    pub(crate) view: ReadView,
    pub(crate) scratch: Scratch,
    pub isolation: Isolation,
    pub read_only: bool,
    pub lock_wait_timeout: Duration,
    /// It is one statement that reads without locks (for trx_nl_ro_commits).
    pub single_read: bool,
    /// What the running statement has done to rows.
    pub rows: RowCounts,
    /// It is being rolled back in the background, for a session that is gone.
    abandoned: bool,
}

impl Drop for Trx {
    fn drop(&mut self) {
        if self.id == TrxId::NONE {
            return self.engine.locks.release_all(&self.locks);
        }
        if self.abandoned {
            // The host has dropped the rollback: the engine goes, and recovery will do it.
            return;
        }
        // A session that is gone cannot wait for its rollback.
        let mut rest = Trx {
            engine: self.engine.clone(),
            locks: self.locks.clone(),
            id: std::mem::take(&mut self.id),
            undo: std::mem::take(&mut self.undo),
            view: self.engine.sys.new_view(),
            scratch: Scratch::default(),
            isolation: self.isolation,
            read_only: false,
            lock_wait_timeout: self.lock_wait_timeout,
            single_read: false,
            rows: RowCounts::default(),
            abandoned: true,
        };
        self.engine.spawn("rollback", |_| async move {
            if let Err(e) = rest.rollback().await {
                crate::poison(&format!("the transaction of a lost session cannot be rolled back: {e}"));
            }
        });
    }
}

impl Trx {
    pub(crate) fn new(engine: Arc<Engine>, kill: Arc<KillFlag>) -> Trx {
        Trx {
            locks: engine.locks.new_trx(kill),
            view: engine.sys.new_view(),
            id: TrxId::NONE,
            undo: UndoLog::default(),
            scratch: Scratch::default(),
            isolation: Isolation::default(),
            read_only: false,
            lock_wait_timeout: Duration::from_secs(50),
            single_read: false,
            rows: RowCounts::default(),
            abandoned: false,
            engine,
        }
    }
    pub fn id(&self) -> TrxId {
        self.id
    }
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
    pub fn locks(&self) -> &Arc<TrxLocks> {
        &self.locks
    }
    pub fn has_written(&self) -> bool {
        !self.undo.is_empty()
    }
    /// Something was read or locked.
    pub(crate) fn has_read(&self) -> bool {
        self.view.is_open() || self.locks.locks_held() > 0
    }
    /// The statement is over: what it did to rows is added to the engine's counts.
    pub fn count_rows(&mut self) {
        self.engine.counts.add_rows(std::mem::take(&mut self.rows));
    }
    pub fn undo_records(&self) -> u32 {
        self.undo.count
    }
    /// Opens the read view now (START TRANSACTION WITH CONSISTENT SNAPSHOT).
    pub fn open_view(&mut self) {
        if !self.view.is_open() {
            self.engine.sys.open_view(&mut self.view, self.id);
        }
    }
    /// A statement of a transaction that reads what is committed begins with a new view.
    pub fn begin_statement(&mut self) {
        if self.isolation <= Isolation::ReadCommitted {
            self.view.close();
        }
    }
    /// Takes an id at the first write.
    pub(crate) async fn ensure_id(&mut self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        while self.id == TrxId::NONE {
            match self.engine.sys.register(&self.locks) {
                Some(id) => {
                    self.id = id;
                    self.view.set_creator(id);
                }
                None => self.engine.clone().raise_high_water().await?,
            }
        }
        Ok(())
    }
    /// Waits for what stalled a call. Locks wait at most the transaction's lock wait timeout.
    pub(crate) async fn settle(&self, stall: Stall) -> Result<()> {
        match stall {
            Stall::Lock(wait) => wait.wait(&self.engine.host, self.lock_wait_timeout).await,
            other => self.engine.settle(other).await,
        }
    }
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.last)
    }
    /// The row at `key` belongs to `owner`: waits if that transaction is active, in the form of a stall.
    pub(crate) fn wait_for(&self, owner: TrxId, key: crate::lock::LockKey) -> Try<()> {
        if owner != self.id
            && let Some(other) = self.engine.sys.find(owner)
        {
            self.engine.locks.grant_implicit(&other, owner, key);
        }
        Ok(())
    }
}

//! FLUSH TABLES WITH READ LOCK: all sessions' writes and commits stop at two gates.
//!
//! A statement that writes passes the first gate and is inside until it ends (in autocommit: until
//! it is committed). A COMMIT of a transaction that has written passes the second gate. FLUSH
//! TABLES WITH READ LOCK shuts the first gate and waits until it is empty, then the second. With
//! this order, running statements may still wait for transactions that have yet to commit. A
//! transaction that only stays open blocks neither gate. Definitions are stopped by SLOCK-2.
//!
//! - GRL-1: a session counts itself in before it checks whether the gate is shut. A session that
//!   shuts the gate checks the counts afterwards. All accesses are SeqCst, so at least one of the
//!   two sessions sees the other.
//! - GRL-2: a session takes the gate's lock in `NoWrite` before it shuts the gate. A session that
//!   finds the gate shut waits for the lock in `Write` and tries again.
//!
//! To pass a gate costs two additions on a cache line that few sessions share.
use crate::error::{Result, SqlError};
use redolith_engine::dict::metadata_lock::{
    MetadataLock, MetadataLockMode, MetadataLockSet, MetadataLockWait,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const LANES: usize = 64;
/// The time between two looks at whether a gate is empty.
const LOOK: Duration = Duration::from_millis(1);

#[repr(align(64))]
#[derive(Default)]
struct Lane(AtomicUsize);

pub struct Gate {
    shut: AtomicUsize,
    inside: Box<[Lane]>,
    lock: Arc<MetadataLock>,
}
impl Default for Gate {
    fn default() -> Gate {
        Gate {
            shut: AtomicUsize::new(0),
            inside: (0..LANES).map(|_| Lane::default()).collect(),
            lock: MetadataLock::new(),
        }
    }
}
impl Gate {
    #[inline]
    fn try_enter(&self, session: usize) -> bool {
        let lane = &self.inside[session % LANES].0;
        lane.fetch_add(1, SeqCst);
        let open = self.shut.load(SeqCst) == 0;
        if !open {
            lane.fetch_sub(1, SeqCst);
        }
        open
    }
    #[inline]
    fn leave(&self, session: usize) {
        self.inside[session % LANES].0.fetch_sub(1, SeqCst);
    }
    #[cold]
    async fn wait_open(&self, wait: MetadataLockWait<'_>) -> Result<()> {
        // The session that has shut the gate holds this lock (GRL-2).
        Ok(MetadataLockSet::new().lock(&self.lock, MetadataLockMode::Write, wait).await?)
    }
    fn is_empty(&self) -> bool {
        self.inside.iter().all(|lane| lane.0.load(SeqCst) == 0)
    }
}

/// A shut gate. Dropping the value opens the gate.
struct Shut {
    global: Arc<GlobalReadLock>,
    gate: fn(&GlobalReadLock) -> &Gate,
    _lock: MetadataLockSet,
}
impl Drop for Shut {
    fn drop(&mut self) {
        (self.gate)(&self.global).shut.fetch_sub(1, SeqCst);
    }
}
impl Shut {
    /// Shuts the gate and waits until no session is inside.
    async fn new(
        global: &Arc<GlobalReadLock>,
        gate: fn(&GlobalReadLock) -> &Gate,
        wait: MetadataLockWait<'_>,
    ) -> Result<Shut> {
        let mut lock = MetadataLockSet::new();
        lock.lock(&gate(global).lock, MetadataLockMode::NoWrite, wait).await?;
        gate(global).shut.fetch_add(1, SeqCst);
        let shut = Shut { global: global.clone(), gate, _lock: lock };
        let mut waited = Duration::ZERO;
        while !gate(global).is_empty() {
            if wait.kill.is_killed() {
                return Err(SqlError::interrupted());
            }
            if waited >= wait.timeout {
                return Err(SqlError::lock_wait_timeout());
            }
            wait.runtime.sleep(LOOK).await;
            waited += LOOK;
        }
        Ok(shut)
    }
}

/// The gates, which all sessions share.
#[derive(Default)]
pub struct GlobalReadLock {
    statements: Gate,
    commits: Gate,
}

/// A session's use of the gates. Dropping the value leaves the gates and opens those that the
/// session has shut.
pub struct Passes {
    global: Arc<GlobalReadLock>,
    session: usize,
    /// The session is inside the first gate because a statement writes (`statement`) or because
    /// LOCK TABLES .. WRITE is in force (`tables`).
    statement: bool,
    tables: bool,
    held: Option<(Shut, Shut)>,
}
impl Passes {
    pub fn new(global: Arc<GlobalReadLock>, session: u32) -> Passes {
        Passes { global, session: session as usize, statement: false, tables: false, held: None }
    }

    /// Passes the first gate for a statement that writes.
    #[inline]
    pub async fn begin_statement(&mut self, wait: MetadataLockWait<'_>) -> Result<()> {
        if !self.statement && !self.tables {
            self.enter(wait).await?;
            self.statement = true;
        }
        Ok(())
    }
    #[inline]
    pub fn end_statement(&mut self) {
        if std::mem::take(&mut self.statement) {
            self.global.statements.leave(self.session);
        }
    }
    async fn enter(&self, wait: MetadataLockWait<'_>) -> Result<()> {
        while !self.global.statements.try_enter(self.session) {
            self.global.statements.wait_open(wait).await?;
        }
        Ok(())
    }
    /// LOCK TABLES .. WRITE counts as a writing statement that lasts until UNLOCK TABLES.
    /// The caller holds the catalog's lock (SLOCK-2).
    pub async fn lock_tables(&mut self, wait: MetadataLockWait<'_>) -> Result<()> {
        if !self.tables {
            self.enter(wait).await?;
            self.tables = true;
        }
        Ok(())
    }
    pub fn unlock_tables(&mut self) {
        if std::mem::take(&mut self.tables) {
            self.global.statements.leave(self.session);
        }
    }
    /// Passes the second gate for the COMMIT of a transaction that has written. The session is
    /// inside until the pass is dropped. Returns None if the session itself has shut the gates or
    /// is already inside the first gate.
    pub async fn commit(&self, wait: MetadataLockWait<'_>) -> Result<Option<CommitPass>> {
        if self.held.is_some() || self.statement || self.tables {
            return Ok(None);
        }
        while !self.global.commits.try_enter(self.session) {
            self.global.commits.wait_open(wait).await?;
        }
        Ok(Some(CommitPass { global: self.global.clone(), session: self.session }))
    }

    /// Shuts both gates: stops the writes and commits of all other sessions.
    pub async fn hold(&mut self, wait: MetadataLockWait<'_>) -> Result<()> {
        let statements = Shut::new(&self.global, |g| &g.statements, wait).await?;
        let commits = Shut::new(&self.global, |g| &g.commits, wait).await?;
        self.held = Some((statements, commits));
        Ok(())
    }
    #[inline]
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }
    pub fn release(&mut self) {
        self.held = None;
    }
}
impl Drop for Passes {
    fn drop(&mut self) {
        self.end_statement();
        self.unlock_tables();
    }
}

#[must_use]
pub struct CommitPass {
    global: Arc<GlobalReadLock>,
    session: usize,
}
impl Drop for CommitPass {
    fn drop(&mut self) {
        self.global.commits.leave(self.session);
    }
}

pub fn conflicting_read_lock() -> SqlError {
    SqlError::new(1223, "Can't execute the query because you have a conflicting read lock")
}

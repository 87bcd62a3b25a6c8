//! The metadata locks of a session: the locks of LOCK TABLES, which outlive transactions, and above
//! them the locks of the transaction.
//!
//! FLUSH TABLES WITH READ LOCK is independent of both: BEGIN and the end of a transaction do not
//! end it.
//!
//! **SLOCK-1** In `metadata_lock`, the locks of LOCK TABLES come first, up to `base`. The locks
//! above `base` end with the transaction.
//! **SLOCK-2** Every definition holds the catalog's lock in `Write`. FLUSH TABLES WITH READ LOCK
//! takes this lock in `NoWrite` and so stops all definitions. LOCK TABLES .. WRITE takes it before
//! all its other locks and keeps it: the session may define its tables anew while FLUSH TABLES WITH
//! READ LOCK waits for the session, and must not wait for it in turn.
//! **SLOCK-3** Two sessions that keep the locks of LOCK TABLES could wait for each other, each to
//! give a table a name that is free and that the other has locked. So such a session waits for a
//! short time only.
use super::global_read_lock::{GlobalReadLock, Passes, conflicting_read_lock};
use crate::error::{Result, SqlError};
use crate::plan::{TableLock, TableName};
use redolith_engine::Engine;
use redolith_engine::dict::metadata_lock::{
    MetadataLock, MetadataLockMode, MetadataLockSet, MetadataLockWait,
};
use redolith_engine::lock::KillFlag;
use std::sync::Arc;
use std::time::Duration;

/// How long a session waits for further locks while it has those of LOCK TABLES (SLOCK-3): longer
/// than definitions of other sessions take to give way to it (MDL-2).
const PATIENCE_OF_LOCK_TABLES: Duration = Duration::from_secs(3);

pub struct SessionLocks {
    pub metadata_lock: MetadataLockSet,
    base: usize,
    tables: Vec<(TableName, TableLock)>,
    pub passes: Passes,
    /// The catalog's lock, while FLUSH TABLES WITH READ LOCK is in force (SLOCK-2).
    catalog: MetadataLockSet,
    /// UNLOCK TABLES has been run; the locks of LOCK TABLES end with the transaction.
    unlocking: bool,
}

/// The limits of a wait for metadata locks: `@@lock_wait_timeout` and KILL.
pub struct Wait {
    pub timeout: Duration,
    pub kill: Arc<KillFlag>,
}
impl Wait {
    pub fn on<'w>(&'w self, engine: &'w Engine) -> MetadataLockWait<'w> {
        MetadataLockWait { runtime: &engine.runtime, timeout: self.timeout, kill: &self.kill }
    }
}

/// The lock of a database.
pub fn schema_lock(engine: &Engine, schema: &str) -> Arc<MetadataLock> {
    engine.dict.metadata_lock(&format!("d/{schema}"))
}
/// The catalog's lock (SLOCK-2).
fn catalog_lock(engine: &Engine) -> Arc<MetadataLock> {
    engine.dict.metadata_lock("d")
}
/// The lock of those who change a table's histograms: one at a time.
pub fn histogram_lock(engine: &Engine, schema: &str, name: &str) -> Arc<MetadataLock> {
    engine.dict.metadata_lock(&format!("h/{schema}/{name}"))
}
/// The lock of a table. The table need not exist.
pub fn table_lock(engine: &Engine, schema: &str, name: &str) -> Arc<MetadataLock> {
    engine.dict.metadata_lock(&format!("t/{schema}/{name}"))
}

impl SessionLocks {
    pub fn new(global: Arc<GlobalReadLock>, session: u32) -> SessionLocks {
        SessionLocks {
            metadata_lock: MetadataLockSet::new(),
            base: 0,
            tables: Vec::new(),
            passes: Passes::new(global, session),
            catalog: MetadataLockSet::new(),
            unlocking: false,
        }
    }
    /// Releases the transaction's locks. Called at the end of each transaction.
    pub fn end_transaction(&mut self) {
        if self.unlocking {
            self.unlock_tables();
        }
        self.metadata_lock.release_to(self.base);
    }
    /// True if LOCK TABLES is in force.
    pub fn has_locked_tables(&self) -> bool {
        self.base > 0
    }
    /// Under LOCK TABLES, a statement may use only the locked tables and write only tables locked
    /// for WRITE. Under FLUSH TABLES WITH READ LOCK, it may write no table.
    #[inline]
    pub fn check(&self, schema: &str, name: &str, write: bool) -> Result<()> {
        if self.base == 0 && !self.passes.holds() {
            Ok(())
        } else {
            self.check_locked(schema, name, write)
        }
    }
    #[cold]
    fn check_locked(&self, schema: &str, name: &str, write: bool) -> Result<()> {
        if write && self.passes.holds() {
            return Err(conflicting_read_lock());
        }
        if self.base == 0 {
            return Ok(());
        }
        match self.tables.iter().find(|(t, _)| *t.schema == *schema && *t.name == *name) {
            None => Err(SqlError::table_not_locked(name)),
            Some((_, TableLock::Read)) if write => Err(SqlError::table_locked_for_read(name)),
            Some(_) => Ok(()),
        }
    }

    /// [`check`](Self::check) for a table that a statement renames.
    pub fn check_renamed(&self, engine: &Engine, schema: &str, name: &str) -> Result<()> {
        match engine.dict.is_taken(schema, name) {
            true => self.check(schema, name, true),
            false => Ok(()),
        }
    }
    /// The new name of a table needs no lock under LOCK TABLES, but must be free: the session does
    /// not wait for the locks of other sessions while it keeps its own.
    pub fn check_new_name(&self, engine: &Engine, schema: &str, name: &str) -> Result<()> {
        match self.has_locked_tables() && engine.dict.is_taken(schema, name) {
            true => Err(SqlError::table_exists(name)),
            false => Ok(()),
        }
    }
    /// Under LOCK TABLES, locks of new names, which the caller holds, become locks of LOCK TABLES
    /// like those of the old names, which stay. `new_name` is told an old name.
    pub fn renamed(&mut self, new_name: impl Fn(&TableName) -> Option<TableName>) {
        if self.base == 0 {
            return;
        }
        for (table, _) in &mut self.tables {
            if let Some(new) = new_name(table) {
                *table = new;
            }
        }
        self.base = self.metadata_lock.mark();
    }
    /// Releases the locks of a definition, which were taken after `mark`.
    pub fn end_definition(&mut self, mark: usize) {
        self.metadata_lock.release_to(mark.max(self.base));
    }

    /// Takes locks in the order that all sessions use: schemas, then tables, each by name. If a
    /// lock cannot be had, none is taken.
    pub async fn take(
        &mut self,
        engine: &Engine,
        schemas: &[(&str, MetadataLockMode)],
        tables: &[(&str, &str, MetadataLockMode)],
        mut wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        if self.has_locked_tables() {
            wait.timeout = wait.timeout.min(PATIENCE_OF_LOCK_TABLES);
        }
        let (mut schemas, mut tables) = (schemas.to_vec(), tables.to_vec());
        schemas.sort_by_key(|(name, _)| *name);
        schemas.dedup_by_key(|(name, _)| *name);
        tables.sort_by_key(|(schema, name, _)| (*schema, *name));
        let schemas = schemas.iter().map(|(name, mode)| (schema_lock(engine, name), *mode));
        let tables =
            tables.iter().map(|(schema, name, mode)| (table_lock(engine, schema, name), *mode));
        let all: Vec<_> = schemas.chain(tables).collect();
        Ok(self.metadata_lock.lock_all(&all, wait).await?)
    }

    /// Like [`take`](Self::take), for a definition.
    pub async fn take_for_ddl(
        &mut self,
        engine: &Engine,
        schemas: &[(&str, MetadataLockMode)],
        tables: &[(&str, &str, MetadataLockMode)],
        wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        self.lock_catalog(engine, wait).await?;
        self.take(engine, schemas, tables, wait).await
    }
    /// Takes the catalog's lock (SLOCK-2). A session that has stopped all definitions would wait
    /// for itself.
    async fn lock_catalog(&mut self, engine: &Engine, wait: MetadataLockWait<'_>) -> Result<()> {
        if self.passes.holds() {
            return Err(conflicting_read_lock());
        }
        let catalog = catalog_lock(engine);
        Ok(self.metadata_lock.lock(&catalog, MetadataLockMode::Write, wait).await?)
    }

    /// FLUSH TABLES WITH READ LOCK, after the transaction has ended. From then on, no definition
    /// runs and no session writes or commits writes.
    pub async fn lock_everything(
        &mut self,
        engine: &Engine,
        wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        if self.has_locked_tables() {
            return Err(SqlError::lock_or_active_transaction());
        }
        if self.passes.holds() {
            return Ok(());
        }
        let mut catalog = MetadataLockSet::new();
        catalog.lock(&catalog_lock(engine), MetadataLockMode::NoWrite, wait).await?;
        self.passes.hold(wait).await?;
        self.catalog = catalog;
        Ok(())
    }
    /// UNLOCK TABLES after FLUSH TABLES WITH READ LOCK. The transaction goes on: a dump begins its
    /// transaction under the lock.
    pub fn unlock_everything(&mut self) {
        self.passes.release();
        self.catalog.release_all();
    }

    /// LOCK TABLES, after the transaction has ended.
    pub async fn lock_tables(
        &mut self,
        engine: &Engine,
        tables: &[(TableName, TableLock)],
        wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        self.unlock_tables();
        let locked = self.lock_named(engine, tables, wait).await;
        if locked.is_err() {
            self.unlock_tables();
        }
        locked
    }
    async fn lock_named(
        &mut self,
        engine: &Engine,
        tables: &[(TableName, TableLock)],
        wait: MetadataLockWait<'_>,
    ) -> Result<()> {
        let schemas: Vec<_> =
            tables.iter().map(|(t, _)| (&*t.schema, MetadataLockMode::Read)).collect();
        let mode = |lock: &TableLock| {
            if *lock == TableLock::Read {
                MetadataLockMode::NoWrite
            } else {
                MetadataLockMode::Exclusive
            }
        };
        let names: Vec<_> =
            tables.iter().map(|(t, lock)| (&*t.schema, &*t.name, mode(lock))).collect();
        if tables.iter().any(|(_, lock)| *lock != TableLock::Read) {
            // SLOCK-2. The gate is not shut then: whoever shuts it holds the catalog's lock.
            self.lock_catalog(engine, wait).await?;
            self.passes.lock_tables(wait).await?;
        }
        self.take(engine, &schemas, &names, wait).await?;
        for (table, _) in tables {
            if !engine.dict.is_taken(&table.schema, &table.name) {
                return Err(SqlError::no_such_table(&table.schema, &table.name));
            }
        }
        self.base = self.metadata_lock.mark();
        self.tables = tables.to_vec();
        Ok(())
    }
    /// UNLOCK TABLES while a transaction may be open: the locks end with the transaction, which the
    /// caller ends.
    pub fn unlock_tables_at_end(&mut self) {
        self.unlocking = true;
    }
    /// Releases the locks of LOCK TABLES and of the transaction.
    pub fn unlock_tables(&mut self) {
        self.metadata_lock.release_all();
        self.tables.clear();
        self.passes.unlock_tables();
        (self.base, self.unlocking) = (0, false);
    }
}

//! The metadata locks of a session: those of its transaction, and below them those of LOCK TABLES, which outlive transactions.
//!
//! **SLOCK-1** `mdl` holds LOCK TABLES' locks first, up to `base`; what is above it ends with the transaction.
//! **SLOCK-2** Every definition holds the catalog's lock in `Write`, so that FLUSH TABLES WITH READ LOCK, which takes it in `NoWrite`, stops all of them.
use crate::error::{Result, SqlError};
use crate::plan::{TableLock, TableName};
use redolith_engine::Engine;
use redolith_engine::dict::mdl::{MdlLock, MdlMode, MdlSet, MdlWait};
use redolith_engine::lock::KillFlag;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
pub struct SessionLocks {
    pub mdl: MdlSet,
    base: usize,
    tables: Vec<(TableName, TableLock)>,
    /// FLUSH TABLES WITH READ LOCK: all tables.
    everything: bool,
    /// UNLOCK TABLES has been said; the locks go with the transaction.
    unlocking: bool,
}

/// By what a wait for metadata locks ends: `@@lock_wait_timeout`, KILL.
pub struct Wait {
    pub timeout: Duration,
    pub kill: Arc<KillFlag>,
}
impl Wait {
    pub fn on<'w>(&'w self, engine: &'w Engine) -> MdlWait<'w> {
        MdlWait { host: &engine.host, timeout: self.timeout, kill: &self.kill }
    }
}

/// The lock of a database.
pub fn schema_lock(engine: &Engine, schema: &str) -> Arc<MdlLock> {
    engine.dict.mdl(&format!("d/{schema}"))
}
/// SLOCK-2.
fn catalog_lock(engine: &Engine) -> Arc<MdlLock> {
    engine.dict.mdl("d")
}
/// The lock of a table, whether there is one of the name or not.
pub fn table_lock(engine: &Engine, schema: &str, name: &str) -> Arc<MdlLock> {
    engine.dict.mdl(&format!("t/{schema}/{name}"))
}

impl SessionLocks {
    /// At the end of each transaction.
    pub fn end_transaction(&mut self) {
        if self.unlocking {
            self.unlock_tables();
        }
        self.mdl.release_to(self.base);
    }
    /// Whether LOCK TABLES or FLUSH TABLES WITH READ LOCK is in force.
    pub fn has_locked_tables(&self) -> bool {
        self.base > 0
    }
    /// Under LOCK TABLES a statement may use the tables it names only, and write those locked for WRITE only.
    #[inline]
    pub fn check(&self, schema: &str, name: &str, write: bool) -> Result<()> {
        if self.base == 0 { Ok(()) } else { self.check_locked(schema, name, write) }
    }
    #[cold]
    fn check_locked(&self, schema: &str, name: &str, write: bool) -> Result<()> {
        if self.everything {
            return if write {
                Err(SqlError::new(1223, "Can't execute the query because you have a conflicting read lock"))
            } else {
                Ok(())
            };
        }
        match self.tables.iter().find(|(t, _)| *t.schema == *schema && *t.name == *name) {
            None => Err(SqlError::table_not_locked(name)),
            Some((_, TableLock::Read)) if write => Err(SqlError::table_locked_for_read(name)),
            Some(_) => Ok(()),
        }
    }

    /// Takes locks in the one order that everybody uses: schemas, then tables, each by name; none of them if one cannot be had.
    pub async fn take(
        &mut self,
        engine: &Engine,
        schemas: &[(&str, MdlMode)],
        tables: &[(&str, &str, MdlMode)],
        wait: MdlWait<'_>,
    ) -> Result<()> {
        let (mut schemas, mut tables) = (schemas.to_vec(), tables.to_vec());
        schemas.sort_by_key(|(name, _)| *name);
        schemas.dedup_by_key(|(name, _)| *name);
        tables.sort_by_key(|(schema, name, _)| (*schema, *name));
        let schemas = schemas.iter().map(|(name, mode)| (schema_lock(engine, name), *mode));
        let tables = tables.iter().map(|(schema, name, mode)| (table_lock(engine, schema, name), *mode));
        let all: Vec<_> = schemas.chain(tables).collect();
        Ok(self.mdl.lock_all(&all, wait).await?)
    }

    /// As [`take`](Self::take), for a definition.
    pub async fn take_for_ddl(
        &mut self,
        engine: &Engine,
        schemas: &[(&str, MdlMode)],
        tables: &[(&str, &str, MdlMode)],
        wait: MdlWait<'_>,
    ) -> Result<()> {
        self.mdl.lock(&catalog_lock(engine), MdlMode::Write, wait).await?;
        self.take(engine, schemas, tables, wait).await
    }

    /// FLUSH TABLES WITH READ LOCK: no definitions from here on, and nobody writes; waits for the transactions that have.
    pub async fn lock_everything(&mut self, engine: &Engine, wait: MdlWait<'_>) -> Result<()> {
        self.unlock_tables();
        self.mdl.lock(&catalog_lock(engine), MdlMode::NoWrite, wait).await?;
        let tables = engine.dict.all_tables();
        let names: Vec<_> = tables.iter().map(|t| (t.def.schema.as_str(), t.def.name.as_str(), MdlMode::NoWrite)).collect();
        if let Err(e) = self.take(engine, &[], &names, wait).await {
            self.unlock_tables();
            return Err(e);
        }
        (self.base, self.everything) = (self.mdl.mark(), true);
        Ok(())
    }

    /// LOCK TABLES, after the transaction has ended.
    pub async fn lock_tables(&mut self, engine: &Engine, tables: &[(TableName, TableLock)], wait: MdlWait<'_>) -> Result<()> {
        self.unlock_tables();
        let schemas: Vec<_> = tables.iter().map(|(t, _)| (&*t.schema, MdlMode::Read)).collect();
        let mode = |lock: &TableLock| if *lock == TableLock::Read { MdlMode::NoWrite } else { MdlMode::Exclusive };
        let names: Vec<_> = tables.iter().map(|(t, lock)| (&*t.schema, &*t.name, mode(lock))).collect();
        self.take(engine, &schemas, &names, wait).await?;
        for (table, _) in tables {
            if engine.dict.table(&table.schema, &table.name).is_none() {
                self.unlock_tables();
                return Err(SqlError::no_such_table(&table.schema, &table.name));
            }
        }
        self.base = self.mdl.mark();
        self.tables = tables.to_vec();
        Ok(())
    }
    /// BEGIN gives back what LOCK TABLES took; FLUSH TABLES WITH READ LOCK stays until UNLOCK TABLES (a dump begins its transaction under it).
    pub fn begin_transaction(&mut self) {
        if !self.everything {
            self.unlock_tables();
        }
    }
    /// UNLOCK TABLES while a transaction may be open, which is then ended.
    pub fn unlock_tables_at_end(&mut self) {
        self.unlocking = true;
    }
    /// Gives everything back, the transaction's locks too. True if tables were locked.
    pub fn unlock_tables(&mut self) -> bool {
        self.mdl.release_all();
        self.tables.clear();
        (self.everything, self.unlocking) = (false, false);
        std::mem::take(&mut self.base) > 0
    }
}

//! Runs definitions: takes metadata locks, checks which objects exist, and calls the engine.
//!
//! **DDL-1** The session ends its transaction before a definition (`Plan::commits_implicitly`).
//! Each definition is atomic on disk.
//! **DDL-2** A statement looks up an object again under its locks, because the object may have
//! changed while the statement waited for them. So do statements whose definition comes from other
//! objects (the model of LIKE, the tables of a view, the database's default collation): they lock
//! these objects in `Read` and are bound again if one has changed. Otherwise the binary log might
//! give a replica another definition.
//! **DDL-3** A definition is in the binary log if and only if it is done: the engine commits its
//! record with the change. As in MySQL, a definition that has had nothing to change is logged too.
pub(crate) mod alter;
pub(crate) mod check_names;
mod database;
mod table;
mod temporary;
#[cfg(test)]
mod tests;
mod view;

use super::locks::{SessionLocks, Wait};
use crate::binlog::Definition;
use crate::error::{Result, SqlError};
use crate::plan::{CreateView, DdlStmt, Plan};
use crate::session_state::{Done, Level, SessionState};
use redolith_engine::Engine;
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_engine::temporary::TemporarySpace;
use redolith_types::{Collation, TableDef};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The context of a definition.
pub struct DdlContext<'a> {
    pub engine: &'a Arc<Engine>,
    pub session: &'a mut SessionState,
    pub locks: &'a mut SessionLocks,
    /// The value of `@@lock_wait_timeout`.
    pub lock_wait_timeout: Duration,
    /// `@@sql_generate_invisible_primary_key`
    pub generates_keys: bool,
    /// `@@collation_server`: the collation of databases that name none.
    pub server_collation: Collation,
    /// Where the entries of new indexes are sorted; None: in memory.
    pub sorting: Option<Sorting<'a>>,
    /// Where the statement is logged; None if it is not.
    pub log: Option<&'a Definition<'a>>,
}

/// Where entries are sorted.
#[derive(Clone, Copy)]
pub struct Sorting<'a> {
    /// `@@innodb_sort_buffer_size`: the bytes of entries in memory.
    pub buffer: usize,
    /// The files of the entries that the buffer has no room for.
    pub space: &'a Arc<TemporarySpace>,
}

/// The system databases, which cannot be created or dropped.
const SYSTEM_SCHEMAS: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];

/// Runs a definition. `bound_at` is the dictionary's version from before the statement was bound.
/// Returns None if what it was bound to has changed since then; bind again.
pub async fn run(cx: &mut DdlContext<'_>, stmt: &DdlStmt, bound_at: u64) -> Result<Option<Done>> {
    let mark = cx.locks.metadata_lock.mark();
    let done = run_locking(cx, stmt, bound_at).await;
    end(cx, mark).await;
    done
}
/// Runs CREATE or ALTER VIEW. Returns None if a table or a view of the plan has changed; bind
/// again.
pub async fn create_view(
    cx: &mut DdlContext<'_>,
    create: &CreateView,
    plan: &Plan,
) -> Result<Option<Done>> {
    let mark = cx.locks.metadata_lock.mark();
    let done = view::create(cx, create, plan).await;
    end(cx, mark).await;
    done
}
async fn end(cx: &mut DdlContext<'_>, mark: usize) {
    // A definition that had nothing to change relies on those of other sessions.
    cx.engine.definitions_durable().await;
    cx.locks.end_definition(mark);
}

async fn run_locking(
    cx: &mut DdlContext<'_>,
    stmt: &DdlStmt,
    bound_at: u64,
) -> Result<Option<Done>> {
    match stmt {
        DdlStmt::CreateDatabase { name, if_not_exists, collation } => {
            database::create(cx, name, *if_not_exists, *collation).await.map(Some)
        }
        DdlStmt::AlterDatabase { name, collation } => {
            database::alter(cx, name, *collation).await.map(Some)
        }
        DdlStmt::DropDatabase { name, if_exists } => {
            database::drop(cx, name, *if_exists).await.map(Some)
        }
        DdlStmt::CreateTable(create) => table::create(cx, create, bound_at).await,
        DdlStmt::CreateSelect(_) | DdlStmt::Rebuild(_) => {
            Err(SqlError::internal("the session makes tables with rows"))
        }
        DdlStmt::CreateTableLike { name, like, temporary, if_not_exists } => {
            table::create_like(cx, name, like, *temporary, *if_not_exists).await
        }
        DdlStmt::DropTables { names, temporary, if_exists } => {
            table::drop(cx, names, *temporary, *if_exists).await.map(Some)
        }
        DdlStmt::CreateView(_) => Err(SqlError::internal("a view is made with its plan")),
        DdlStmt::DropViews { names, if_exists } => {
            view::drop(cx, names, *if_exists).await.map(Some)
        }
        DdlStmt::Truncate(name) => table::truncate(cx, name).await.map(Some),
        DdlStmt::RenameTables(renames) => table::rename(cx, renames).await.map(Some),
        DdlStmt::AlterTable { table, actions, notes } => {
            let done = alter::run(cx, table, actions, bound_at).await?;
            Ok(done.map(|done| done.with_notes(notes, &mut cx.session.warnings)))
        }
    }
}

impl DdlContext<'_> {
    fn wait(&self) -> Wait {
        Wait { timeout: self.lock_wait_timeout, kill: self.session.process.interrupt.clone() }
    }
    async fn take(
        &mut self,
        schemas: &[(&str, MetadataLockMode)],
        tables: &[(&str, &str, MetadataLockMode)],
    ) -> Result<()> {
        let (wait, engine) = (self.wait(), self.engine);
        self.locks.take_for_ddl(engine, schemas, tables, wait.on(engine)).await
    }
    /// Locks tables exclusively, and their schemas in `Read`. Under LOCK TABLES, the tables must be
    /// locked for writing.
    async fn lock_tables(&mut self, tables: &[(&str, &str)]) -> Result<()> {
        self.lock_with_sources(tables, &[], &[]).await
    }
    /// Locks the present and the new names of tables that get other names, or none, and names of
    /// check constraints (CONSTRAINT-3): each is a database and a name. Under LOCK TABLES, the
    /// tables of the names `old` must be locked for writing.
    async fn lock_for_rename(
        &mut self,
        old: &[(&str, &str)],
        all: &[(&str, &str)],
        checks: &[(&str, String)],
    ) -> Result<()> {
        let known: HashSet<_> = old.iter().collect();
        for (schema, name) in all {
            refuse_system(self.session, schema)?;
            match known.contains(&(*schema, *name)) {
                true => self.locks.check_renamed(self.engine, schema, name)?,
                false => self.locks.check_new_name(self.engine, schema, name)?,
            }
        }
        self.take_exclusively(all, checks, &[]).await
    }
    /// Locks in `Read` what the definition comes from, too.
    async fn lock_with_sources(
        &mut self,
        tables: &[(&str, &str)],
        checks: &[(&str, String)],
        sources: &[(&str, &str)],
    ) -> Result<()> {
        for (schema, name) in tables {
            refuse_system(self.session, schema)?;
            self.locks.check(schema, name, true)?;
        }
        for (schema, name) in sources {
            self.locks.check(schema, name, false)?;
        }
        self.take_exclusively(tables, checks, sources).await
    }
    async fn take_exclusively(
        &mut self,
        tables: &[(&str, &str)],
        checks: &[(&str, String)],
        sources: &[(&str, &str)],
    ) -> Result<()> {
        let schemas: Vec<_> =
            tables.iter().map(|(schema, _)| (*schema, MetadataLockMode::Read)).collect();
        // A source that is to be replaced is locked once, as what is replaced.
        let sources = sources.iter().filter(|source| !tables.contains(source));
        let sources = sources.map(|(schema, name)| (*schema, *name, MetadataLockMode::Read));
        let tables: Vec<_> = tables
            .iter()
            .copied()
            .chain(checks.iter().map(|(schema, name)| (*schema, name.as_str())))
            .map(|(schema, name)| (schema, name, MetadataLockMode::Exclusive))
            .chain(sources)
            .collect();
        self.take(&schemas, &tables).await
    }
    /// The statement's record for the binary log, which the engine writes with the change (DDL-3).
    /// `databases` are those of the changed tables.
    pub(crate) async fn record(&self, databases: &[&str]) -> Result<Option<Vec<u8>>> {
        self.record_as(databases, None).await
    }
    /// Like [`record`](Self::record), with a text of the server's own if there is one.
    async fn record_as(&self, databases: &[&str], made: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let default = self.session.schema.as_deref().unwrap_or_default();
        self.record_in(Some(default), databases, made).await
    }
    /// The record of a table's whole definition, if it is logged: a text of the server's own.
    pub(crate) async fn whole_record(
        &mut self,
        def: &TableDef,
        auto_increment: u64,
        if_not_exists: bool,
    ) -> Result<Option<Vec<u8>>> {
        if self.log.is_none() {
            return Ok(None);
        }
        let mark = self.session.memory.statement.used();
        let text = table::logged_text(self, def, auto_increment, if_not_exists)?;
        let record = self.record_as(&[&def.schema], Some(text.as_bytes())).await;
        self.session.memory.statement.release_to(mark);
        record
    }
    /// The record of a statement about a database, whatever the default database is.
    async fn database_record(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.record_in(None, &[name], None).await
    }
    async fn record_in(
        &self,
        default: Option<&str>,
        databases: &[&str],
        made: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let name = default.or(databases.first().copied()).unwrap_or_default();
        let Some(log) = self.log.filter(|log| log.filter.logs(name)) else { return Ok(None) };
        log.record(self.engine, self.session, default, databases, made).await.map(Some)
    }
    /// Logs a statement that has had nothing to change.
    async fn append(&self, record: Option<Vec<u8>>) -> Result<()> {
        if let Some(record) = record {
            let end = self.engine.append_record(&record).await?;
            self.engine.store.log.flush_to(end).await;
        }
        Ok(())
    }
    fn note(&mut self, error: SqlError) {
        self.session.warnings.push(Level::Note, error.code, error.message);
    }
}

/// True if a definition that was bound at the dictionary's version `bound_at` may have got a
/// default collation that its database no longer has. The caller holds the database's lock. The
/// error is that there is no such database.
pub(crate) fn has_old_collation(engine: &Engine, def: &TableDef, bound_at: u64) -> Result<bool> {
    let database = engine.dict.require_schema(&def.schema)?;
    Ok(def.collation != database.collation && engine.dict.version() != bound_at)
}

pub(crate) fn refuse_system(session: &SessionState, schema: &str) -> Result<()> {
    if SYSTEM_SCHEMAS.iter().any(|s| s.eq_ignore_ascii_case(schema)) {
        return Err(SqlError::access_denied_database(&session.user, &session.host, schema));
    }
    Ok(())
}

fn done(affected: u64) -> Done {
    Done { affected, ..Done::default() }
}

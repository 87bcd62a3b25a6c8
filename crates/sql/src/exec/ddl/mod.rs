//! Runs definitions: metadata locks, what MySQL says about objects that are (not) there, and the
//! engine's call.
//!
//! **DDL-1** The session has ended its transaction before (`Plan::commits_implicitly`); each
//! statement here is all or nothing on disk.
//! **DDL-2** What a statement looks up counts only when it was looked up under its locks: a wait
//! may have changed it.
mod alter;
mod database;
mod table;
#[cfg(test)]
mod tests;

use super::locks::{SessionLocks, Wait};
use crate::error::{Result, SqlError};
use crate::plan::DdlStmt;
use crate::session_state::{Done, Level, SessionState};
use redolith_engine::Engine;
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_types::Collation;
use std::sync::Arc;
use std::time::Duration;

/// What a definition runs in.
pub struct DdlContext<'a> {
    pub engine: &'a Arc<Engine>,
    pub session: &'a mut SessionState,
    pub locks: &'a mut SessionLocks,
    /// `@@lock_wait_timeout`
    pub lock_wait_timeout: Duration,
    /// `@@collation_server`: of databases made without one.
    pub server_collation: Collation,
}

/// Databases that are not there to be created or dropped.
const SYSTEM_SCHEMAS: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];

/// Runs a definition. `bound_at`: the dictionary's version before it was bound. None: the table is
/// not the one it was bound to; bind again.
pub async fn run(cx: &mut DdlContext<'_>, stmt: &DdlStmt, bound_at: u64) -> Result<Option<Done>> {
    let mark = cx.locks.metadata_lock.mark();
    let done = run_locking(cx, stmt, bound_at).await;
    cx.locks.metadata_lock.release_to(mark);
    done
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
        DdlStmt::CreateTable(create) => table::create(cx, create).await.map(Some),
        DdlStmt::CreateTableLike { name, like, if_not_exists } => {
            table::create_like(cx, name, like, *if_not_exists).await.map(Some)
        }
        DdlStmt::DropTables { names, if_exists } => {
            table::drop(cx, names, *if_exists).await.map(Some)
        }
        DdlStmt::Truncate(name) => table::truncate(cx, name).await.map(Some),
        DdlStmt::RenameTables(renames) => table::rename(cx, renames).await.map(Some),
        DdlStmt::AlterTable { table, actions } => alter::run(cx, table, actions, bound_at).await,
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
    /// Locks tables exclusively and their schemas as intention. Under LOCK TABLES they must be
    /// among those locked for writing.
    async fn lock_tables(&mut self, tables: &[(&str, &str)]) -> Result<()> {
        for (schema, name) in tables {
            refuse_system(self.session, schema)?;
            self.locks.check(schema, name, true)?;
        }
        let schemas: Vec<_> =
            tables.iter().map(|(schema, _)| (*schema, MetadataLockMode::Read)).collect();
        let tables: Vec<_> = tables
            .iter()
            .map(|(schema, name)| (*schema, *name, MetadataLockMode::Exclusive))
            .collect();
        self.take(&schemas, &tables).await
    }
    fn note(&mut self, error: SqlError) {
        self.session.warnings.push(Level::Note, error.code, error.message);
    }
}

fn refuse_system(session: &SessionState, schema: &str) -> Result<()> {
    if SYSTEM_SCHEMAS.iter().any(|s| s.eq_ignore_ascii_case(schema)) {
        return Err(SqlError::access_denied_database(&session.user, &session.host, schema));
    }
    Ok(())
}

fn done(affected: u64) -> Done {
    Done { affected, ..Done::default() }
}

//! Temporary tables: tables of one session, which end with it.
//!
//! The engine keeps them like all other tables, with rows, undo log, locks and versions. They
//! differ in their name only: they are in a schema that has no record and that no client can name,
//! under a number. Which session has which of them, under what name, only the sessions know.
//!
//! - TEMPTABLE-1: a temporary table is made and dropped by a transaction of the dictionary's own.
//!   So the transaction that a session has open goes on, and its rollback takes rows back but
//!   neither the table nor its end. A rollback passes over the rows of a table that is gone.
//! - TEMPTABLE-2: every read view reads a temporary table, also a view that is older than the
//!   table: only the session whose view it is has put rows into the table.
//! - TEMPTABLE-3: no temporary table outlives the server: a start drops those that are left, before
//!   it rolls back the transactions that a crash has left open, so that it need not take back their
//!   rows. Only a forced start, which changes nothing, leaves them as they are, where nobody finds
//!   them.
use super::ddl::Change;
use super::table::Table;
use crate::engine::Engine;
use crate::{Result, TrxId};
use redolith_types::TableDef;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The schema of temporary tables. No schema that a client makes can have this name, since names do
/// not end with a space.
pub const TEMPORARY_SCHEMA: &str = "#temporary ";

/// A start drops so many tables in one transaction.
const TABLES_PER_DROP: usize = 1000;

impl Engine {
    /// Makes a temporary table. Its name is the engine's, whatever name `def` has.
    pub async fn create_temporary_table(
        self: &Arc<Self>,
        mut def: TableDef,
        auto_increment: u64,
    ) -> Result<Arc<Table>> {
        def.schema = TEMPORARY_SCHEMA.into();
        loop {
            // A forced start may have left tables of an earlier run (TEMPTABLE-3).
            def.name = self.dict.temporary.fetch_add(1, Relaxed).to_string();
            if !self.dict.is_taken(&def.schema, &def.name) {
                break;
            }
        }
        let (r, file) = self.new_file(def, auto_increment).await?;
        // TEMPTABLE-2
        let (new, ticket) = self.enter(r, file, Change::Add, None, None, |_| TrxId::NONE).await?;
        ticket.durable().await;
        Ok(new)
    }
    /// Drops temporary tables in the background: nobody is left who could wait. A table that a
    /// replacement has taken the place of, unknown to the caller, goes as what it has become.
    pub fn drop_temporary_tables_later(self: &Arc<Self>, tables: Vec<Arc<Table>>) {
        let now = |table: &Arc<Table>| self.dict.table(&table.def.schema, &table.def.name);
        let tables: Vec<Arc<Table>> = tables.iter().filter_map(now).collect();
        self.spawn("temporary", move |engine| async move {
            if let Err(e) = engine.drop_tables(&tables, None).await {
                tracing::warn!("temporary tables stay until the next start: {e}");
            }
        });
    }
    /// TEMPTABLE-3. Returns the number of tables. What cannot be dropped now, the next start drops.
    pub(crate) async fn drop_left_temporary_tables(self: &Arc<Self>) -> usize {
        let left = self.dict.tables(TEMPORARY_SCHEMA);
        for some in left.chunks(TABLES_PER_DROP) {
            if let Err(e) = self.drop_tables(some, None).await {
                tracing::warn!("temporary tables stay until the next start: {e}");
                break;
            }
        }
        left.len() - self.dict.tables(TEMPORARY_SCHEMA).len()
    }
}

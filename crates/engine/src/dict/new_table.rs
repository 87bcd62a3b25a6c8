//! A table that a transaction makes and fills: the table, its rows and the record for the binary
//! log commit together (CREATE TABLE .. SELECT).
//!
//! - NEWTABLE-1: the dictionary has the table's row, from the same transaction, before the first
//!   row of the table. So a start after a crash rolls the transaction back before it reads the
//!   dictionary, and finds in the row of the dictionary why the file exists.
//! - NEWTABLE-2: nobody but the transaction finds the table before [`NewTable::enter`], by name or
//!   by id. The transaction takes single rows back, such as one whose key is taken. When it is
//!   rolled back, or gives the table up, it passes over the rows, which go with the file.
use super::ddl::Change;
use super::record::{self, make_table};
use super::table::Table;
use crate::engine::Engine;
use crate::trx::Trx;
use crate::{Error, Result, SpaceId, TrxId};
use redolith_types::TableDef;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A table that is being made. Its file goes if it is dropped before it was entered.
pub struct NewTable {
    engine: Arc<Engine>,
    table: Arc<Table>,
    /// None once the table was entered or its file was removed.
    made: Option<SpaceId>,
}

impl Engine {
    /// Makes a table in an open transaction, which fills it and commits. `auto_increment` is the
    /// first value to generate. The caller holds the metadata locks of a definition. If this fails,
    /// or the transaction does not commit, the caller rolls the transaction back.
    pub async fn begin_table(
        self: &Arc<Self>,
        trx: &mut Trx,
        def: TableDef,
        auto_increment: u64,
    ) -> Result<NewTable> {
        self.dict.require_schema(&def.schema)?;
        if self.dict.table(&def.schema, &def.name).is_some() {
            return Err(Error::TableExists(def.name.clone()));
        }
        trx.ensure_id().await?;
        let since = trx.id();
        let (r, made) = self.new_space(def, auto_increment).await?;
        let name = record::table_name(&r.def.schema, &r.def.name);
        let row = record::table_row(&self.dict_table, &name, &r);
        let table = make_table(&self.dict, r, TrxId::NONE, |_| since);
        table.counters_ready.store(true, Release);
        trx.fills = Some(table.clone());
        let new = NewTable { engine: self.clone(), table, made: Some(made) };
        self.change_row(trx, &Change::Put(name, row)).await?;
        Ok(new)
    }
}

impl Trx {
    /// The statement that fills a new table has failed: nobody needs its rows any more.
    pub fn give_up_table(&mut self) {
        self.fills = None;
    }
}

impl NewTable {
    /// The table, for the transaction that fills it.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
    /// Shows the table to everybody: its transaction has committed durably.
    pub fn enter(mut self) -> Arc<Table> {
        self.made = None;
        self.engine.dict.put_table(self.table.clone());
        self.table.clone()
    }
    /// Removes the file: the transaction was rolled back.
    pub async fn discard(mut self) -> Result<()> {
        match self.made.take() {
            Some(space) => self.engine.discard_space(space).await,
            None => Ok(()),
        }
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        let Some(space) = self.made.take() else { return };
        // The session is gone in the middle of its statement.
        self.engine.spawn("discard", move |engine| async move {
            if let Err(e) = engine.discard_space(space).await {
                tracing::warn!("the file of a table that was not made stays: {e}");
            }
        });
    }
}

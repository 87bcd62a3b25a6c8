//! Shows the engine's dictionary to the binder.
//!
//! **ECAT-1** Each table of the engine has one `TableInfo`, which all plans share. It is made when
//! a statement first names the table, and replaced when DDL has replaced the table (CAT-1). After a
//! DDL statement, the catalog forgets the tables that were dropped or replaced.
use crate::error::{Result, SqlError};
use crate::information_schema::is_schema;
use crate::plan::{DdlStmt, Plan, StatisticsUse};
use crate::table_info::{Catalog, TableInfo};
use hashbrown::HashMap;
use parking_lot::RwLock;
use redolith_engine::Engine;
use redolith_engine::dict::view::View;
use redolith_types::Collation;
use std::sync::Arc;

type ByName<T> = HashMap<Box<str>, T>;

pub struct EngineCatalog {
    engine: Arc<Engine>,
    /// The tables by schema, then by name.
    tables: RwLock<ByName<ByName<Arc<TableInfo>>>>,
}

impl EngineCatalog {
    pub fn new(engine: Arc<Engine>) -> EngineCatalog {
        EngineCatalog { engine, tables: RwLock::default() }
    }

    fn cached(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        self.tables.read().get(schema)?.get(name).filter(|t| t.is_current()).cloned()
    }

    /// Forgets the tables that a definition has dropped or replaced.
    pub fn forget_after(&self, ddl: &DdlStmt) {
        match ddl {
            DdlStmt::DropDatabase { name, .. } => {
                let mut tables = self.tables.write();
                if let Some(in_schema) = tables.get_mut(&**name) {
                    in_schema.retain(|_, t| t.is_current());
                    if in_schema.is_empty() {
                        tables.remove(&**name);
                    }
                }
            }
            DdlStmt::DropTables { names, .. } => {
                names.iter().for_each(|t| self.forget_replaced(&t.schema, &t.name))
            }
            DdlStmt::RenameTables(renames) => {
                renames.iter().for_each(|(from, _)| self.forget_replaced(&from.schema, &from.name))
            }
            DdlStmt::Truncate(table) | DdlStmt::AlterTable { table, .. } => {
                self.forget_replaced(&table.schema, &table.name)
            }
            DdlStmt::Rebuild(rebuild) => {
                self.forget_replaced(&rebuild.table.schema, &rebuild.table.name)
            }
            DdlStmt::CreateDatabase { .. }
            | DdlStmt::AlterDatabase { .. }
            | DdlStmt::CreateTable(_)
            | DdlStmt::CreateView(_)
            | DdlStmt::DropViews { .. }
            | DdlStmt::CreateSelect(_)
            | DdlStmt::CreateTableLike { .. } => {}
        }
    }
    fn forget_replaced(&self, schema: &str, name: &str) {
        let mut tables = self.tables.write();
        if let Some(in_schema) = tables.get_mut(schema)
            && in_schema.get(name).is_some_and(|t| !t.is_current())
        {
            in_schema.remove(name);
        }
    }

    /// Prepares the plan's tables. Must be called before the first run of a plan: the engine reads
    /// a table's counters (the next AUTO_INCREMENT value, the row id) from its file when the table
    /// is first used. Makes the statistics that the binder has wanted. Returns false if DDL has
    /// replaced a table or there are new statistics; then bind again. `attempt` counts from 0: a
    /// plan that has waited for statistics twice runs without them, because other sessions may
    /// change the tables faster than they are sampled.
    pub async fn ready(&self, plan: &Plan, attempt: usize) -> Result<bool> {
        let mut is_ready = true;
        for used in &plan.tables {
            // A temporary table has another name there.
            let def = &used.table.engine().def;
            let table = self.engine.table(&def.schema, &def.name).await?;
            if !table.is_some_and(|t| Arc::ptr_eq(&t, used.table.engine())) {
                if used.table.is_temporary() {
                    // No other session replaces it, so another look would find the same.
                    let def = &used.table.def;
                    return Err(SqlError::no_such_table(&def.schema, &def.name));
                }
                return Ok(false);
            }
            if attempt < 2 && matches!(used.statistics, StatisticsUse::Wanted) {
                // Another session may have made them meanwhile.
                if used.table.statistics().is_none() {
                    self.engine.ready_statistics(used.table.engine()).await;
                }
                is_ready = false;
            }
        }
        Ok(is_ready)
    }
}

impl Catalog for EngineCatalog {
    fn schema(&self, name: &str) -> Option<Collation> {
        if is_schema(name) {
            Some(Collation::Utf8mb4GeneralCi)
        } else {
            self.engine.dict.schema(name).map(|s| s.collation)
        }
    }

    fn view(&self, schema: &str, name: &str) -> Option<Arc<View>> {
        self.engine.dict.view(schema, name)
    }

    fn has_histograms(&self, table: &TableInfo) -> bool {
        self.engine.dict.histograms(table.engine().id).is_some()
    }

    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        if let Some(table) = self.cached(schema, name) {
            return Some(table);
        }
        let mut tables = self.tables.write();
        let table = self.engine.dict.table(schema, name)?;
        let in_schema = tables.entry_ref(schema).or_default();
        // Another statement may have added the table meanwhile.
        if let Some(known) = in_schema.get(name).filter(|known| Arc::ptr_eq(known.engine(), &table))
        {
            return Some(known.clone());
        }
        let info = Arc::new(TableInfo::new(table));
        in_schema.insert(name.into(), info.clone());
        Some(info)
    }
}

#[cfg(test)]
impl EngineCatalog {
    /// The number of tables that the catalog keeps.
    pub fn kept(&self) -> usize {
        self.tables.read().values().map(HashMap::len).sum()
    }
}

//! The engine's dictionary as the binder sees it.
//!
//! **ECAT-1** One `TableInfo` per table of the engine, shared by all plans, made when a statement
//! first names the table and replaced when DDL has replaced the table (CAT-1). What DDL has dropped
//! or replaced is forgotten after the statement.
use crate::error::Result;
use crate::information_schema::is_schema;
use crate::plan::{DdlStmt, Plan};
use crate::table_info::{Catalog, TableInfo};
use hashbrown::HashMap;
use parking_lot::RwLock;
use redolith_engine::Engine;
use redolith_types::Collation;
use std::sync::Arc;

type ByName<T> = HashMap<Box<str>, T>;

pub struct EngineCatalog {
    engine: Arc<Engine>,
    /// By schema, then name.
    tables: RwLock<ByName<ByName<Arc<TableInfo>>>>,
}

impl EngineCatalog {
    pub fn new(engine: Arc<Engine>) -> EngineCatalog {
        EngineCatalog { engine, tables: RwLock::default() }
    }

    fn cached(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        self.tables.read().get(schema)?.get(name).filter(|t| t.is_current()).cloned()
    }

    /// Lets go of the tables that a definition has dropped or replaced.
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
            DdlStmt::CreateDatabase { .. }
            | DdlStmt::AlterDatabase { .. }
            | DdlStmt::CreateTable(_)
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

    /// Must be called before a plan is run that has not been run since it was made: the engine
    /// readies a table's counters (the next AUTO_INCREMENT value, the row id) when it is first
    /// used, which takes a read of the file. False: DDL has come between, bind again.
    pub async fn ready(&self, plan: &Plan) -> Result<bool> {
        for used in &plan.tables {
            let def = &used.table.def;
            let table = self.engine.table(&def.schema, &def.name).await?;
            if !table.is_some_and(|t| Arc::ptr_eq(&t, used.table.engine())) {
                return Ok(false);
            }
        }
        Ok(true)
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

    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        if let Some(table) = self.cached(schema, name) {
            return Some(table);
        }
        let mut tables = self.tables.write();
        let table = self.engine.dict.table(schema, name)?;
        let in_schema = tables.entry_ref(schema).or_default();
        // Another statement may have been first.
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
    /// How many tables it keeps.
    pub fn kept(&self) -> usize {
        self.tables.read().values().map(HashMap::len).sum()
    }
}

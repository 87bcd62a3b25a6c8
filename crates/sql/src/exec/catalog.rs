//! The engine's dictionary as the binder sees it.
//!
//! **ECAT-1** One `TableInfo` per table of the engine, shared by all plans, made when a statement first names the table and replaced when DDL has
//! replaced the table (CAT-1). Names that are no longer there are forgotten when they are asked for.
use crate::catalog::{Catalog, TableInfo};
use crate::error::Result;
use crate::information_schema::is_schema;
use crate::plan::Plan;
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

    /// Must be called before a plan is run that has not been run since it was made: the engine readies a table's counters (the next AUTO_INCREMENT
    /// value, the row id) when it is first used, which takes a read of the file. False: DDL has come between, bind again.
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
        if is_schema(name) { Some(Collation::Utf8mb4GeneralCi) } else { self.engine.dict.schema(name).map(|s| s.collation) }
    }

    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        if let Some(table) = self.cached(schema, name) {
            return Some(table);
        }
        let mut tables = self.tables.write();
        let Some(table) = self.engine.dict.table(schema, name) else {
            if let Some(in_schema) = tables.get_mut(schema) {
                in_schema.remove(name);
            }
            return None;
        };
        let in_schema = tables.entry_ref(schema).or_default();
        // Another statement may have been first.
        if let Some(known) = in_schema.get(name).filter(|known| Arc::ptr_eq(known.engine(), &table)) {
            return Some(known.clone());
        }
        let info = Arc::new(TableInfo::new(table));
        in_schema.insert(name.into(), info.clone());
        Some(info)
    }
}

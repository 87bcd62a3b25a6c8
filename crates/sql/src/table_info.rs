//! The binder's view of databases and tables.
//!
//! **CAT-1** A `TableInfo` never changes: DDL makes a new table and marks the old one dropped,
//! under the table's exclusive metadata lock.
use redolith_engine::dict::estimate::Statistics;
use redolith_engine::dict::table::Table;
use redolith_engine::dict::view::View;
use redolith_types::{Collation, TableDef};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, OnceLock};

pub trait Catalog: Send + Sync {
    /// The default collation of a database; None if the database does not exist. Names are
    /// case-sensitive (lower_case_table_names = 0).
    fn schema(&self, name: &str) -> Option<Collation>;
    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>>;
    fn view(&self, _schema: &str, _name: &str) -> Option<Arc<View>> {
        None
    }
}

/// A table as plans hold it: the definition, and the engine's table for reads and writes.
pub struct TableInfo {
    pub def: TableDef,
    /// None in tests of the binder, which need no engine.
    engine: Option<Arc<Table>>,
    /// The table in the events of the binary log, with minimal and with full metadata
    /// (`crate::binlog`).
    pub(crate) logged: [OnceLock<Box<redolith_binlog::Table>>; 2],
}

impl TableInfo {
    pub fn new(engine: Arc<Table>) -> TableInfo {
        TableInfo { def: engine.def.clone(), engine: Some(engine), logged: Default::default() }
    }
    /// A definition without an engine's table.
    pub fn definition(def: TableDef) -> TableInfo {
        TableInfo { def, engine: None, logged: Default::default() }
    }
    pub fn engine(&self) -> &Arc<Table> {
        self.engine.as_ref().expect("a plan that runs was bound against an engine")
    }
    /// CAT-1: false once DDL has replaced or dropped the table.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.engine.as_ref().is_none_or(|t| !t.dropped.load(Acquire))
    }
    /// The approximate number of rows, for EXPLAIN and the choice of an index; 0 without an engine.
    pub fn rows(&self) -> u64 {
        self.engine.as_ref().map_or(0, |t| t.rows.load(Relaxed).max(0) as u64)
    }
    /// The table's statistics, if they are current.
    pub fn statistics(&self) -> Option<Arc<Statistics>> {
        let table = self.engine.as_ref()?;
        table.statistics().filter(|statistics| statistics.are_current(table))
    }
    /// The position of a column. The comparison of names ignores case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.def.column(name)
    }
}

impl std::fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableInfo({}.{})", self.def.schema, self.def.name)
    }
}

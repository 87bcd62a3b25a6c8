//! How the binder sees databases and tables.
//!
//! **CAT-1** A `TableInfo` never changes: DDL makes a new one and then marks the old one stale, under the table's exclusive metadata lock.
use redolith_types::{Collation, TableDef};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub trait Catalog: Send + Sync {
    /// The database's default collation, if there is such a database. Names are case-sensitive (lower_case_table_names = 0).
    fn schema(&self, name: &str) -> Option<Collation>;
    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>>;
}

/// A table as plans hold it: its definition, the engine's handle, and rough statistics.
pub struct TableInfo {
    /// The engine's id of the table: new after TRUNCATE.
    pub id: u64,
    pub def: TableDef,
    /// Rows, as far as is known (EXPLAIN, index choice). Kept up by the executor or the engine's statistics.
    pub rows_estimate: AtomicU64,
    /// The engine's `Arc<Table>`; the executor downcasts it once per plan, see `TableInfo::handle`.
    engine: Option<Arc<dyn Any + Send + Sync>>,
    stale: AtomicBool,
}

impl TableInfo {
    pub fn new(id: u64, def: TableDef, engine: Option<Arc<dyn Any + Send + Sync>>) -> TableInfo {
        TableInfo { id, def, rows_estimate: AtomicU64::new(0), engine, stale: AtomicBool::new(false) }
    }
    pub fn handle<T: Any>(&self) -> &T {
        self.engine.as_ref().and_then(|e| e.downcast_ref::<T>()).expect("the table was opened by this engine")
    }
    /// CAT-1: false once DDL has replaced or dropped the table.
    pub fn is_current(&self) -> bool {
        !self.stale.load(Relaxed)
    }
    pub fn mark_stale(&self) {
        self.stale.store(true, Relaxed);
    }
    pub fn rows(&self) -> u64 {
        self.rows_estimate.load(Relaxed)
    }
    /// Position of a column by name (names are compared without case).
    pub fn column(&self, name: &str) -> Option<usize> {
        self.def.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))
    }
}

impl std::fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableInfo({}.{} #{})", self.def.schema, self.def.name, self.id)
    }
}

//! The binder's view of databases and tables.
//!
//! **CAT-1** A `TableInfo` never changes: DDL makes a new table and marks the old one dropped,
//! under the table's exclusive metadata lock.
use crate::bind::result_columns;
use crate::sink::ColumnMeta;
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
    /// Whether the table has histograms.
    fn has_histograms(&self, _table: &TableInfo) -> bool {
        false
    }
    /// The catalog that all sessions see, if this one has temporary tables besides (TEMPTABLE-4).
    fn shared(&self) -> Option<&dyn Catalog> {
        None
    }
}

/// A table as plans hold it: the definition, and the engine's table for reads and writes.
pub struct TableInfo {
    pub def: TableDef,
    /// Only one session has the table (TEMPTABLE-5). Then `def` has the name that the session
    /// knows, and the engine's table has another one.
    temporary: bool,
    /// None in tests of the binder, which need no engine.
    engine: Option<Arc<Table>>,
    /// The table in the events of the binary log, with minimal and with full metadata
    /// (`crate::binlog`).
    pub(crate) logged: [OnceLock<Box<redolith_binlog::Table>>; 2],
    /// What results say of the columns, under the table's own name.
    metas: OnceLock<Box<[ColumnMeta]>>,
}

impl TableInfo {
    pub fn new(engine: Arc<Table>) -> TableInfo {
        let def = engine.def.clone();
        TableInfo { engine: Some(engine), ..TableInfo::definition(def) }
    }
    /// A temporary table, under the name that its session knows.
    pub fn temporary(engine: Arc<Table>, schema: &str, name: &str) -> TableInfo {
        let def = TableDef { schema: schema.into(), name: name.into(), ..engine.def.clone() };
        TableInfo { temporary: true, def, ..TableInfo::new(engine) }
    }
    /// A definition without an engine's table.
    pub fn definition(def: TableDef) -> TableInfo {
        TableInfo {
            def,
            temporary: false,
            engine: None,
            logged: Default::default(),
            metas: OnceLock::new(),
        }
    }
    /// What results say of the columns, under the table's own name.
    pub fn metas(&self) -> &[ColumnMeta] {
        self.metas.get_or_init(|| result_columns::table_metas(&self.def))
    }
    pub fn engine(&self) -> &Arc<Table> {
        self.engine.as_ref().expect("a plan that runs was bound against an engine")
    }
    /// Whether a secondary index, given by its number in the definition, has the values of all
    /// these columns.
    pub fn entries_have(&self, index: usize, columns: &[u16]) -> bool {
        self.engine.as_ref().is_some_and(|t| t.entries_have(t.index_no(index), columns))
    }
    /// Whether the table is a temporary one.
    #[inline]
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }
    /// Whether both are one table for a statement, which sees one definition of each table.
    pub fn is_same(&self, other: &TableInfo) -> bool {
        self.def.schema == other.def.schema
            && self.def.name == other.def.name
            && self.temporary == other.temporary
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

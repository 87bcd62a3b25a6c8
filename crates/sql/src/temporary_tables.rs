//! The temporary tables of a session, under the names that the session knows.
//!
//! The engine keeps temporary tables under numbers in a schema of their own
//! ([`redolith_engine::dict::temporary`]). What a session calls them is here alone.
//!
//! **TEMPTABLE-4** A temporary table hides the table or view of the same name from the session that
//! has it, and from nobody else. The names in a view's text are those of all sessions: they never
//! mean a temporary table, and no view can be made of one (error 1352).
//! **TEMPTABLE-5** A plan that names a temporary table is used once, and is in no cache of plans. A
//! cached plan is not used by a session that has a temporary table under one of the plan's names.
//! **TEMPTABLE-6** No statement can name the engine's schema of temporary tables, and no list of
//! databases or tables has it.
//! **TEMPTABLE-7** Temporary tables need no metadata locks, since one session alone has them. So
//! neither LOCK TABLES nor FLUSH TABLES WITH READ LOCK holds statements about them up. An XA
//! transaction, which may end in another session, cannot use them (error 4091).
//! **TEMPTABLE-8** The binary log has nothing of temporary tables, as in MySQL with
//! `binlog_format = ROW`: neither their rows nor their definitions.
//! **TEMPTABLE-9** A session's temporary tables end with it, however it ends, and with
//! COM_RESET_CONNECTION. The session's account holds their memory.
use crate::error::Result;
use crate::exec::engine_catalog::EngineCatalog;
use crate::memory::{Account, ServerMemory};
use crate::plan::{Plan, TableName};
use crate::table_info::{Catalog, TableInfo};
use hashbrown::HashMap;
use redolith_engine::Engine;
use redolith_engine::dict::table::Table;
use redolith_engine::dict::view::View;
use redolith_types::{Collation, Column, SqlType, TableDef};
use std::sync::Arc;

/// Approximate memory of a table: the engine's, which keeps its definition and the state of its
/// file and trees, and the definition here.
const TABLE_BYTES: usize = 8 << 10;
const INDEX_BYTES: usize = 1 << 10;
const COLUMN_BYTES: usize = 512;

/// The approximate memory of a table with this definition.
fn bytes_of(def: &TableDef) -> usize {
    let words = def.comment.len() + def.checks.iter().map(|c| c.condition.len()).sum::<usize>();
    let members = |ty: &SqlType| match ty {
        SqlType::Enum { names, .. } | SqlType::Set { names, .. } => {
            names.iter().map(|name| size_of::<String>() + name.len()).sum()
        }
        _ => 0,
    };
    let of_column = |c: &Column| {
        let expression = c.generation.as_ref().map_or(0, |g| g.expression.len());
        COLUMN_BYTES + 2 * (c.comment.len() + members(&c.ty) + expression)
    };
    let columns: usize = def.columns.iter().map(of_column).sum();
    TABLE_BYTES + INDEX_BYTES * def.indexes.len() + columns + 2 * words
}

struct Entry {
    table: Arc<TableInfo>,
    /// What the account holds for the table.
    bytes: usize,
}

pub struct TemporaryTables {
    engine: Arc<Engine>,
    /// By schema, then by name.
    tables: HashMap<Box<str>, HashMap<Box<str>, Entry>>,
    memory: Account,
}

impl TemporaryTables {
    pub fn new(engine: &Arc<Engine>, memory: &Arc<ServerMemory>) -> TemporaryTables {
        let (engine, memory) = (engine.clone(), Account::exact(memory));
        TemporaryTables { engine, tables: HashMap::new(), memory }
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
    #[inline]
    pub fn find(&self, schema: &str, name: &str) -> Option<&Arc<TableInfo>> {
        if self.is_empty() {
            return None;
        }
        self.tables.get(schema)?.get(name).map(|entry| &entry.table)
    }
    pub fn named(&self, name: &TableName) -> Option<&Arc<TableInfo>> {
        self.find(&name.schema, &name.name)
    }
    /// TEMPTABLE-5: whether a table or view of a cached plan is not the one that its name means in
    /// this session. (A table that only a view names may be hidden and still be meant. Then a new
    /// plan is made for nothing.)
    #[inline]
    pub fn hide_from(&self, plan: &Plan) -> bool {
        !self.is_empty() && self.hide_names_of(plan)
    }
    #[cold]
    fn hide_names_of(&self, plan: &Plan) -> bool {
        let hidden = |def: &TableDef| self.find(&def.schema, &def.name).is_some();
        plan.tables.iter().any(|used| hidden(&used.table.def))
            || plan.views.iter().any(|view| hidden(&view.def.def))
    }

    /// Makes a table. `def` has the name that the session will know; it must be free.
    pub async fn create(&mut self, def: TableDef, auto_increment: u64) -> Result<Arc<TableInfo>> {
        let (schema, name) = (def.schema.clone(), def.name.clone());
        debug_assert!(self.find(&schema, &name).is_none(), "a name for one table");
        let bytes = bytes_of(&def);
        self.memory.charge(bytes)?;
        match self.engine.create_temporary_table(def, auto_increment).await {
            Ok(table) => {
                let table = Arc::new(TableInfo::temporary(table, &schema, &name));
                self.put(Entry { table: table.clone(), bytes });
                Ok(table)
            }
            Err(e) => {
                self.give_back(bytes);
                Err(e.into())
            }
        }
    }
    /// Charges for a table that is about to get another definition.
    pub fn charge_for(&mut self, table: &TableInfo, new: &TableDef) -> Result<()> {
        let places = self.tables.get_mut(&*table.def.schema);
        let Some(entry) = places.and_then(|t| t.get_mut(&*table.def.name)) else { return Ok(()) };
        let bytes = bytes_of(new).max(entry.bytes);
        self.memory.charge(bytes - entry.bytes)?;
        entry.bytes = bytes;
        Ok(())
    }
    /// The engine has given a table another definition, and the session perhaps another name, which
    /// must be free.
    pub fn replace(&mut self, old: &TableInfo, new: Arc<Table>, schema: &str, name: &str) {
        if let Some(Entry { bytes, .. }) = self.take(&old.def.schema, &old.def.name) {
            let table = Arc::new(TableInfo::temporary(new, schema, name));
            self.put(Entry { table, bytes });
        }
    }
    /// Drops tables, all or none.
    pub async fn drop(&mut self, tables: &[Arc<TableInfo>]) -> Result<()> {
        let dropped: Vec<Arc<Table>> = tables.iter().map(|t| t.engine().clone()).collect();
        let done = self.engine.drop_tables(&dropped, None).await;
        tables.iter().for_each(|table| self.look_again(table));
        Ok(done?)
    }
    /// Finds out what has become of a table that the engine was asked to drop or to replace. An
    /// error does not tell: the engine has done it if only the old file could not be removed.
    pub fn look_again(&mut self, old: &TableInfo) {
        let (inner, def) = (&old.engine().def, &old.def);
        match self.engine.dict.table(&inner.schema, &inner.name) {
            Some(now) if Arc::ptr_eq(&now, old.engine()) => {}
            Some(now) => self.replace(old, now, &def.schema, &def.name),
            None => {
                if let Some(entry) = self.take(&def.schema, &def.name) {
                    self.give_back(entry.bytes);
                }
            }
        }
    }
    /// Drops all tables: the session ends or begins anew. Tables that cannot be dropped now are
    /// dropped by the next start of the server.
    pub async fn drop_all(&mut self) {
        if self.is_empty() {
            return;
        }
        let all = self.take_all();
        if let Err(e) = self.engine.drop_tables(&all, None).await {
            tracing::warn!("temporary tables of a session stay until the next start: {e}");
        }
    }

    fn take_all(&mut self) -> Vec<Arc<Table>> {
        let all = std::mem::take(&mut self.tables).into_values();
        let all = all.flat_map(|tables| tables.into_values().map(|t| t.table.engine().clone()));
        self.memory.release_to(0);
        all.collect()
    }
    fn put(&mut self, entry: Entry) {
        let def = &entry.table.def;
        let (schema, name) = (def.schema.as_str().into(), def.name.as_str().into());
        let tables: &mut HashMap<Box<str>, Entry> = self.tables.entry(schema).or_default();
        tables.insert(name, entry);
    }
    fn take(&mut self, schema: &str, name: &str) -> Option<Entry> {
        let tables = self.tables.get_mut(schema)?;
        let entry = tables.remove(name);
        if tables.is_empty() {
            self.tables.remove(schema);
        }
        entry
    }
    fn give_back(&mut self, bytes: usize) {
        self.memory.release_to(self.memory.used() - bytes);
    }
}

/// TEMPTABLE-9: the session is gone in the middle of its work.
impl Drop for TemporaryTables {
    fn drop(&mut self) {
        if !self.is_empty() {
            let all = self.take_all();
            self.engine.drop_temporary_tables_later(all);
        }
    }
}

/// What a session with temporary tables sees (TEMPTABLE-4).
pub struct SessionCatalog<'a> {
    pub all: &'a EngineCatalog,
    pub temporary: &'a TemporaryTables,
}
impl Catalog for SessionCatalog<'_> {
    fn schema(&self, name: &str) -> Option<Collation> {
        self.all.schema(name)
    }
    fn table(&self, schema: &str, name: &str) -> Option<Arc<TableInfo>> {
        self.temporary.find(schema, name).cloned().or_else(|| self.all.table(schema, name))
    }
    fn view(&self, schema: &str, name: &str) -> Option<Arc<View>> {
        match self.temporary.find(schema, name) {
            Some(_) => None,
            None => self.all.view(schema, name),
        }
    }
    fn has_histograms(&self, table: &TableInfo) -> bool {
        self.all.has_histograms(table)
    }
    fn shared(&self) -> Option<&dyn Catalog> {
        Some(self.all)
    }
}

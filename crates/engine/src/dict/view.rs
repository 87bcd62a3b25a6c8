//! Views: names for SELECTs. The dictionary keeps a view's definition and has no idea what the text
//! of the SELECT means.
//!
//! - VIEWDEF-1: a view has the key of a table in the dictionary, so a schema never has a table and
//!   a view of one name. Its record has a field that a program without views does not know and must
//!   know (`codec`): such a program names the field, and does not take the view for a table.
//! - VIEWDEF-2: a `View` that DDL replaces, renames or drops is marked `dropped`, as a table is
//!   (DICT-2). All sessions that use it hold the metadata lock of its name.
use super::ddl::Change;
use super::metadata_lock::MetadataLock;
use super::{Dictionary, record};
use crate::engine::Engine;
use crate::{Error, Result};
use redolith_types::{Collation, TableDef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// How a statement that names a view is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// The server decides.
    Undefined,
    /// The view's tables take the place of the view.
    Merge,
    /// The view's rows are made first.
    Temptable,
}
/// Which rows may be written through a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckOption {
    /// All.
    None,
    /// Those that the view itself would show.
    Local,
    /// Those that the view and the views below it would show.
    Cascaded,
}

/// The definition of a view.
#[derive(Clone, Debug)]
pub struct ViewDef {
    /// The view's schema, name and columns, as they were when it was made. It has no indexes.
    pub def: TableDef,
    /// The SELECT, in UTF-8: tables with their schemas, columns with their tables, no `*`.
    pub select: String,
    /// Whether the definition has a list of the columns' names.
    pub names_columns: bool,
    /// How it is run.
    pub algorithm: Algorithm,
    /// WITH CHECK OPTION
    pub check: CheckOption,
    /// The user and the host of DEFINER.
    pub definer: (String, String),
    /// SQL SECURITY INVOKER
    pub invoker: bool,
    /// `@@sql_mode` for the text of the SELECT.
    pub mode: u64,
    /// `@@character_set_client` when it was made, and `@@collation_connection`, which its literals
    /// have.
    pub charset_client: Collation,
    /// See `charset_client`.
    pub collation_connection: Collation,
    /// Whether rows can be changed through it.
    pub updatable: bool,
}

/// A view, as the dictionary has it in memory.
pub struct View {
    /// Its definition.
    pub def: ViewDef,
    /// Who uses the definition.
    pub metadata_lock: Arc<MetadataLock>,
    /// Set when DDL dropped or replaced the view: users look it up again (VIEWDEF-2).
    pub dropped: AtomicBool,
}
impl View {
    pub(crate) fn new(dict: &Dictionary, def: ViewDef) -> Arc<View> {
        let lock = dict.metadata_lock(&format!("t/{}/{}", def.def.schema, def.def.name));
        Arc::new(View { def, metadata_lock: lock, dropped: AtomicBool::new(false) })
    }
    /// False once DDL has replaced or dropped the view (VIEWDEF-2).
    pub fn is_current(&self) -> bool {
        !self.dropped.load(Acquire)
    }
    /// The key of its row in the dictionary (VIEWDEF-1).
    pub(super) fn key(&self) -> Vec<u8> {
        record::table_name(&self.def.def.schema, &self.def.def.name)
    }
}
impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({}.{})", self.def.def.schema, self.def.def.name)
    }
}

impl Dictionary {
    /// The view's present definition.
    pub fn view(&self, schema: &str, name: &str) -> Option<Arc<View>> {
        self.state.read().views.get(schema)?.get(name).cloned()
    }
    /// The views of a schema, by name.
    pub fn views(&self, schema: &str) -> Vec<Arc<View>> {
        let state = self.state.read();
        state.views.get(schema).map(|v| v.values().cloned().collect()).unwrap_or_default()
    }
    /// Whether a table or a view has the name.
    pub fn is_taken(&self, schema: &str, name: &str) -> bool {
        self.table(schema, name).is_some() || self.view(schema, name).is_some()
    }
    /// Makes all changes at once.
    pub(crate) fn replace_views(&self, removed: &[Arc<View>], entered: Vec<Arc<View>>) {
        let mut s = self.state.write();
        for view in removed {
            let def = &view.def.def;
            view.dropped.store(true, Release);
            if let Some(in_schema) = s.views.get_mut(&def.schema) {
                in_schema.remove(&def.name);
                if in_schema.is_empty() {
                    s.views.remove(&def.schema);
                }
            }
        }
        for view in entered {
            let def = &view.def.def;
            let in_schema = s.views.entry(def.schema.clone()).or_default();
            if let Some(old) = in_schema.insert(def.name.clone(), view) {
                old.dropped.store(true, Release);
            }
        }
        self.version.fetch_add(1, AcqRel);
    }
}

impl Engine {
    /// Makes a view, or replaces the view of its name. `TableExists` if a table has the name, or if
    /// a view has it and `replace` is false. The caller holds the metadata locks of a definition.
    pub async fn create_view(
        self: &Arc<Self>,
        def: ViewDef,
        replace: bool,
        log: Option<Vec<u8>>,
    ) -> Result<()> {
        let (schema, name) = (&def.def.schema, &def.def.name);
        self.dict.require_schema(schema)?;
        let there = self.dict.view(schema, name).is_some();
        if self.dict.table(schema, name).is_some() || there && !replace {
            return Err(Error::TableExists(name.clone()));
        }
        let key = record::table_name(schema, name);
        let row = record::view_row(&self.dict_table, &key, &def);
        let entered = |_| self.dict.replace_views(&[], vec![View::new(&self.dict, def)]);
        let change = if there { Change::Put(key, row) } else { Change::Add(key, row) };
        self.change_dictionary(&[change], log, entered).await
    }
    /// Drops views, all or none.
    pub async fn drop_views(
        self: &Arc<Self>,
        views: &[Arc<View>],
        log: Option<Vec<u8>>,
    ) -> Result<()> {
        let changes: Vec<Change> = views.iter().map(|v| Change::Remove(v.key())).collect();
        let gone = |_| self.dict.replace_views(views, Vec::new());
        self.change_dictionary(&changes, log, gone).await
    }
}

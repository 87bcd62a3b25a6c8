//! Runs CREATE INDEX, DROP INDEX, and ALTER TABLE of indexes and of properties that are only in the
//! definition. (The session runs ALTER TABLE of columns: `session::rebuild`.)
//!
//! All actions are checked against the definition before anything is done. Together they become one
//! DDL operation (ALTER-1).
use super::{DdlContext, table};
use crate::error::{Result, SqlError};
use crate::plan::{AlterAction, TableName};
use crate::session_state::Done;
use hashbrown::HashSet;
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::table::Table;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::{Engine, Error as EngineError};
use redolith_types::{Charset, Collation, IndexDef, KeyLayout, TableDef};
use std::sync::Arc;

/// MySQL allows 64 secondary indexes.
const MAX_INDEXES: usize = 64;

/// The changes that the actions ask for, one after the other.
#[derive(Default)]
struct Changes {
    add: Vec<IndexDef>,
    /// The numbers of the dropped indexes in the old definition.
    drop: Vec<usize>,
    rename_index: Vec<(String, String)>,
    comment: Option<String>,
    /// The default collation of future columns.
    collation: Option<Collation>,
    auto_increment: Option<u64>,
    rename: Option<TableName>,
}

pub(super) async fn run(
    cx: &mut DdlContext<'_>,
    name: &TableName,
    actions: &[AlterAction],
    bound_at: u64,
) -> Result<Option<Done>> {
    let new_name = actions
        .iter()
        .find_map(|a| if let AlterAction::RenameTable(to) = a { Some(to) } else { None });
    let mut names = vec![(&*name.schema, &*name.name)];
    names.extend(new_name.filter(|to| *to != name).map(|to| (&*to.schema, &*to.name)));
    let bound = table::find(cx, name)?;
    if cx.engine.dict.version() != bound_at {
        return Ok(None);
    }
    cx.lock_tables(&names).await?;
    let table = table::find(cx, name)?;
    if !Arc::ptr_eq(&bound, &table) {
        return Ok(None);
    }
    let changes = plan_changes(&table.def, name, actions)?;
    if let Some(to) = &changes.rename {
        cx.engine.dict.require_schema(&to.schema)?;
        if cx.engine.dict.table(&to.schema, &to.name).is_some() {
            return Err(SqlError::table_exists(&to.name));
        }
    }
    let schemas: Vec<&str> = names.iter().map(|(schema, _)| *schema).collect();
    let record = cx.record(&schemas).await?;
    apply(cx, table, changes, record).await?;
    Ok(Some(Done { info: "Records: 0  Duplicates: 0  Warnings: 0".into(), ..Done::default() }))
}

fn plan_changes(def: &TableDef, name: &TableName, actions: &[AlterAction]) -> Result<Changes> {
    let mut c = Changes::default();
    for action in actions {
        match action {
            AlterAction::AddIndex(index) => c.add.push(index.clone()),
            AlterAction::DropIndex(index) => c.drop_index(def, index)?,
            AlterAction::RenameIndex { from, to } => c.rename_index(def, from, to)?,
            AlterAction::RenameTable(to) => c.rename = (to != name).then(|| to.clone()),
            AlterAction::AutoIncrement(n) => c.auto_increment = Some((*n).max(1)),
            AlterAction::Collation(collation) => c.collation = Some(*collation),
            AlterAction::Comment(text) => c.comment = Some(text.to_string()),
            AlterAction::Rebuild => {}
        }
    }
    c.check(def)?;
    Ok(c)
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

impl Changes {
    /// True if index `no` of the old definition stays.
    fn keeps(&self, no: usize) -> bool {
        !self.drop.contains(&no)
    }
    fn drop_index(&mut self, def: &TableDef, name: &str) -> Result<()> {
        let found =
            def.indexes.iter().enumerate().find(|(i, x)| self.keeps(*i) && same(&x.name, name));
        let (no, _) = found.ok_or_else(|| SqlError::cannot_drop(name))?;
        self.drop.push(no);
        Ok(())
    }
    fn rename_index(&mut self, def: &TableDef, from: &str, to: &str) -> Result<()> {
        let mut there = def.indexes.iter().enumerate().filter(|(i, _)| self.keeps(*i));
        if !there.any(|(_, x)| !x.primary && same(&x.name, from)) {
            return Err(SqlError::no_such_key(from, &def.name));
        }
        self.rename_index.push((from.to_string(), to.to_string()));
        Ok(())
    }
    /// Checks the new definition: the names of indexes are unique, and an AUTO_INCREMENT column is
    /// the first column of an index.
    fn check(&self, def: &TableDef) -> Result<()> {
        let old = def.indexes.iter().enumerate().filter(|(i, _)| self.keeps(*i)).map(|(_, x)| x);
        let all: Vec<(&IndexDef, &str)> = old
            .map(|x| (x, self.new_name(&x.name)))
            .chain(self.add.iter().map(|x| (x, x.name.as_str())))
            .collect();
        if let Some((_, (_, twice))) = all
            .iter()
            .enumerate()
            .find(|(i, (_, name))| all[..*i].iter().any(|(_, n)| same(n, name)))
        {
            return Err(SqlError::duplicate_key_name(twice));
        }
        if all.len() > MAX_INDEXES + 1 {
            return Err(SqlError::too_many_keys(MAX_INDEXES));
        }
        let leads = |c: usize| {
            all.iter().any(|(x, _)| x.columns.first().is_some_and(|first| first.column == c))
        };
        if def.auto_increment_column().is_some_and(|c| !leads(c)) {
            return Err(SqlError::wrong_auto_key());
        }
        Ok(())
    }
    fn new_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.rename_index.iter().find(|(from, _)| same(from, name)).map_or(name, |(_, to)| to)
    }
}

async fn apply(
    cx: &mut DdlContext<'_>,
    table: Arc<Table>,
    changes: Changes,
    record: Option<Vec<u8>>,
) -> Result<()> {
    let mut def = table.def.clone();
    let kept = table.def.indexes.iter().enumerate().filter(|(no, _)| changes.keeps(*no));
    def.indexes = kept
        .map(|(_, x)| IndexDef { name: changes.new_name(&x.name).to_string(), ..x.clone() })
        .collect();
    def.indexes.extend_from_slice(&changes.add);
    def.comment = changes.comment.unwrap_or(def.comment);
    def.collation = changes.collation.unwrap_or(def.collation);
    if let Some(to) = changes.rename {
        (def.schema, def.name) = (to.schema.into(), to.name.into());
    }
    let to = Alteration {
        def,
        added: changes.add.len(),
        dropped: changes.drop,
        auto_increment: changes.auto_increment,
        record,
    };
    match cx.engine.alter_table(&table, to, cx.session.process.interrupt.clone()).await {
        Ok(_) => Ok(()),
        Err(EngineError::DuplicateKey { index, .. }) => {
            Err(duplicate(cx.engine, cx, &table, &changes.add, &index).await?)
        }
        Err(e) => Err(e.into()),
    }
}

/// Error 1062, with a value that occurs twice in the new unique index. The rows are read once more
/// to find the value.
async fn duplicate(
    engine: &Arc<Engine>,
    cx: &DdlContext<'_>,
    old: &Table,
    added: &[IndexDef],
    index: &str,
) -> Result<SqlError> {
    let key_name = format!("{}.{index}", old.def.name);
    let table = engine.dict.table(&old.def.schema, &old.def.name);
    let (Some(table), Some(def)) = (table, added.iter().find(|x| x.name == index)) else {
        return Ok(SqlError::duplicate_entry("?", key_name));
    };
    let keys = KeyLayout::new(&table.def.columns, def);
    let mut trx = engine.begin(cx.session.process.interrupt.clone());
    let mut rows = Cursor::new(table.clone(), 0, Vec::new(), None, false, Read::Newest);
    let (mut seen, mut key) = (HashSet::new(), Vec::new());
    let mut value = None;
    while value.is_none() && rows.next(&mut trx).await? {
        let payload = rows.row().stored;
        key.clear();
        keys.encode_row(&table.layout, payload, &mut key);
        if !keys.has_null(&table.layout, payload)
            && !seen.insert(redolith_engine::lock::hash_bytes(&key))
        {
            value = Some(key_text(&table, def, payload));
        }
    }
    trx.rollback().await?;
    Ok(SqlError::duplicate_entry(value.as_deref().unwrap_or("?"), key_name))
}

/// A row's values of the columns of an index, as error 1062 shows them.
fn key_text(table: &Table, index: &IndexDef, payload: &[u8]) -> String {
    let text = |column: usize| {
        let (ty, mut bytes) = (&table.def.columns[column].ty, Vec::new());
        ty.write_text(&table.layout.get(payload, column), &mut bytes);
        let charset = ty
            .collation()
            .filter(|c| *c != Collation::Binary)
            .map_or(Charset::Utf8mb4, Collation::charset);
        String::from_utf8_lossy(&charset.convert_lossy(&bytes, Charset::Utf8mb4)).into_owned()
    };
    index.columns.iter().map(|c| text(c.column)).collect::<Vec<_>>().join("-")
}

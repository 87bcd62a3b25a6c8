//! Makes the rows of SHOW TABLES, SHOW TABLE STATUS and SHOW OPEN TABLES.
use super::{Made, int, nothing, text};
use crate::error::{Result, SqlError};
use crate::exec::server_rows::Gathered;
use crate::information_schema::Virtual;
use crate::plan::TableName;
use crate::table_info::TableInfo;
use crate::temporary_tables::TemporaryTables;
use redolith_engine::dict::table::Table;
use redolith_engine::dict::view::View;
use redolith_engine::{Engine, PAGE_SIZE};
use redolith_types::{TableDef, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The table that a name means in a session.
pub(super) async fn find(
    engine: &Engine,
    temporary: &TemporaryTables,
    name: &TableName,
) -> Result<Arc<TableInfo>> {
    if let Some(own) = temporary.named(name) {
        return Ok(own.clone());
    }
    match engine.table(&name.schema, &name.name).await? {
        Some(table) => Ok(Arc::new(TableInfo::new(table))),
        None => Err(SqlError::no_such_table(&name.schema, &name.name)),
    }
}

pub(super) fn names(
    engine: &Engine,
    schema: &str,
    full: bool,
) -> impl Iterator<Item = Made> + use<> {
    let tables = engine.dict.tables(schema).into_iter().map(|t| (t.def.name.clone(), "BASE TABLE"));
    let views = engine.dict.views(schema).into_iter().map(|v| (v.def.def.name.clone(), "VIEW"));
    let mut all: Vec<_> = tables.chain(views).collect();
    all.sort_unstable();
    all.into_iter().map(move |(name, kind)| {
        let mut row = vec![text(name)];
        row.extend(full.then(|| text(kind)));
        row
    })
}

pub(super) fn virtual_names(full: bool) -> impl Iterator<Item = Made> {
    let row = move |t: &Virtual| {
        [t.name()].into_iter().chain(full.then_some("SYSTEM VIEW")).map(text).collect()
    };
    Virtual::all().iter().map(row)
}

/// The status of the tables of INFORMATION_SCHEMA. They have no size, because their rows are made
/// when they are read.
pub(super) fn virtual_status() -> impl Iterator<Item = Made> {
    let row = |t: &Virtual| {
        let mut row = vec![Value::Null; 18];
        (row[0], row[2], row[16], row[17]) = (text(t.name()), int(10u64), nothing(), text("VIEW"));
        row
    };
    Virtual::all().iter().map(row)
}

pub(super) fn virtual_def(name: &TableName) -> Result<&'static TableDef> {
    let table = Virtual::from_name(&name.name)
        .ok_or_else(|| SqlError::unknown_information_table(&name.name))?;
    Ok(&table.info().def)
}

pub(super) async fn status(engine: &Engine, schema: &str, out: &mut Gathered<'_>) -> Result<()> {
    let mut views = engine.dict.views(schema).into_iter().peekable();
    for table in engine.dict.tables(schema) {
        while let Some(view) = views.next_if(|view| view.def.def.name < table.def.name) {
            out.push(view_status(&view))?;
        }
        out.extend(status_of(engine, &table.def).await?)?;
    }
    views.try_for_each(|view| out.push(view_status(&view)))
}
/// The status of a view: nothing but its name.
fn view_status(view: &View) -> Made {
    let mut row = vec![Value::Null; 18];
    (row[0], row[17]) = (text(&view.def.def.name), text("VIEW"));
    row
}
/// The status of a table. Opens the table's file. None if the table has been dropped meanwhile.
pub(crate) async fn status_of(engine: &Engine, table: &TableDef) -> Result<Option<Made>> {
    let t = engine.table(&table.schema, &table.name).await?;
    Ok(t.map(|t| status_row(engine, &t)))
}

/// The row of a table. Its file holds rows and indexes together, so Data_length is the whole file.
fn status_row(engine: &Engine, t: &Table) -> Made {
    let bytes = engine.store.spaces.get(t.space).map_or(0, |s| s.pages() as u64 * PAGE_SIZE as u64);
    let rows = t.rows.load(Relaxed).max(0) as u64;
    let next =
        t.def.auto_increment_column().map_or(Value::Null, |_| int(t.auto_increment.load(Relaxed)));
    let options: Vec<String> = t.def.statistics.said().collect();
    vec![
        text(&t.def.name),
        text("InnoDB"),
        int(10u64),
        text("Dynamic"),
        int(rows),
        int(bytes.checked_div(rows).unwrap_or(0)),
        int(bytes),
        int(0u64),
        int(0u64),
        int(0u64),
        next,
        Value::Null,
        Value::Null,
        Value::Null,
        text(t.def.collation.name()),
        Value::Null,
        text(options.join(" ").to_lowercase()),
        text(&t.def.comment),
    ]
}

/// The rows of SHOW OPEN TABLES. All tables count as open; a table whose metadata lock is held is
/// in use.
pub(super) fn open(engine: &Engine, schema: Option<&str>) -> impl Iterator<Item = Made> {
    let schemas = schema.map_or_else(|| engine.dict.schemas(), |s| vec![s.to_string()]);
    let shown = schemas.into_iter().filter(|s| engine.dict.schema(s).is_some());
    let tables = shown.flat_map(|s| engine.dict.tables(&s));
    tables.map(|t| {
        vec![
            text(&t.def.schema),
            text(&t.def.name),
            int(!t.metadata_lock.is_free() as u64),
            int(0u64),
        ]
    })
}

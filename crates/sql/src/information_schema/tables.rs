//! Makes the rows about the dictionary: databases, tables, columns, indexes.
use super::{Asked, SCHEMA, Virtual, def, int, text};
use crate::error::Result;
use crate::exec::server_rows::Gathered;
use crate::exec::show::{self, DefaultText};
use crate::generated_key::hidden_column;
use redolith_engine::Engine;
use redolith_engine::dict::table::Table;
use redolith_engine::dict::view::View;
use redolith_types::{Collation, Column, IndexDef, SqlType, TableDef, Value};
use std::sync::Arc;

const YES_NO: [&str; 2] = ["NO", "YES"];

/// All databases by name, including INFORMATION_SCHEMA.
fn schemas(engine: &Engine) -> Vec<(String, Collation)> {
    let mut all: Vec<_> = engine
        .dict
        .schemas()
        .into_iter()
        .filter_map(|s| engine.dict.schema(&s).map(|r| (s, r.collation)))
        .collect();
    all.push((SCHEMA.into(), Collation::Utf8mb4GeneralCi));
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

pub(super) fn schemata(engine: &Engine) -> impl Iterator<Item = Vec<Value<'static>>> {
    let row = |(name, collation): (String, Collation)| {
        vec![
            def(),
            text(name),
            text(collation.charset().name()),
            text(collation.name()),
            Value::Null,
            text("NO"),
        ]
    };
    schemas(engine).into_iter().map(row)
}

/// All tables and views of all databases about which `table` may have rows, in the order of their
/// names.
pub(crate) fn tables_and_views(
    table: Virtual,
    engine: &Engine,
) -> (Vec<Arc<Table>>, Vec<Arc<View>>) {
    let (mut tables, mut views) = (Vec::new(), Vec::new());
    for schema in engine.dict.schemas() {
        if table != Virtual::Views {
            tables.extend(engine.dict.tables(&schema));
        }
        if matches!(table, Virtual::Tables | Virtual::Columns | Virtual::Views) {
            views.extend(engine.dict.views(&schema));
        }
    }
    (tables, views)
}
fn system_views() -> impl Iterator<Item = &'static TableDef> {
    Virtual::all().iter().map(|t| &t.info().def)
}
/// The first columns of the rows about a table.
pub(super) fn place(d: &TableDef) -> Vec<Value<'static>> {
    vec![def(), text(&d.schema), text(&d.name)]
}

pub(super) async fn tables(engine: &Engine, asked: Asked, out: &mut Gathered<'_>) -> Result<()> {
    for view in system_views() {
        let mut row = place(view);
        row.extend([
            text("SYSTEM VIEW"),
            Value::Null,
            int(10u64),
            Value::Null,
            int(0u64),
            int(0u64),
            int(0u64),
            int(0u64),
        ]);
        row.extend([
            int(0u64),
            int(0u64),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ]);
        row.extend([Value::bytes(b""), Value::bytes(b"")]);
        out.push(row)?;
    }
    for table in &asked.tables {
        asked.pause(engine).await?;
        let Some(status) = show::table_status(engine, &table.def).await? else { continue };
        let mut row = place(&table.def);
        row.push(text("BASE TABLE"));
        row.extend(status.into_iter().skip(1));
        out.push(row)?;
    }
    super::views::tables(engine, asked, out).await
}

pub(super) async fn columns(
    engine: &Engine,
    asked: Asked,
    shows_keys: bool,
    out: &mut Gathered<'_>,
) -> Result<()> {
    let mut of = |d: &TableDef| {
        let hidden = hidden_column(d, shows_keys).is_some() as usize;
        out.extend(d.columns.iter().enumerate().skip(hidden).map(|(i, c)| column(d, i, c)))
    };
    system_views().try_for_each(&mut of)?;
    for table in &asked.tables {
        asked.pause(engine).await?;
        of(&table.def)?;
    }
    for view in &asked.views {
        asked.pause(engine).await?;
        of(&view.def.def)?;
    }
    Ok(())
}

fn column(d: &TableDef, no: usize, c: &Column) -> Vec<Value<'static>> {
    let mut row = place(d);
    let default = match show::default_text(c) {
        DefaultText::None | DefaultText::Null => Value::Null,
        DefaultText::Literal(s)
        | DefaultText::Bits(s)
        | DefaultText::Now(s)
        | DefaultText::Expr(s) => text(s),
    };
    row.extend([
        text(&c.name),
        int(no as u64 + 1),
        default,
        text(YES_NO[c.nullable as usize]),
        text(c.ty.name()),
    ]);
    row.extend(lengths(&c.ty));
    let (precision, scale) = digits(&c.ty);
    row.extend([precision.map_or(Value::Null, int), scale.map_or(Value::Null, int)]);
    let temporal =
        matches!(c.ty, SqlType::Time { .. } | SqlType::DateTime { .. } | SqlType::Timestamp { .. });
    row.push(if temporal { int(c.ty.fsp()) } else { Value::Null });
    row.push(c.ty.collation().map_or(Value::Null, |c| text(c.charset().name())));
    row.push(c.ty.collation().map_or(Value::Null, |c| text(c.name())));
    row.extend([text(c.ty.text()), text(show::column_key(d, no)), text(show::column_extra(c))]);
    row.extend([
        text("select,insert,update,references"),
        text(&c.comment),
        text(c.generation.as_ref().map_or("", |generation| &generation.expression)),
        Value::Null,
    ]);
    row
}

/// The length of the longest value, in characters and in bytes.
fn lengths(ty: &SqlType) -> [Value<'static>; 2] {
    let names = |n: &[String], all: bool| {
        let lengths = n.iter().map(|s| s.chars().count() as u64);
        if all {
            lengths.sum::<u64>() + n.len().saturating_sub(1) as u64
        } else {
            lengths.max().unwrap_or(0)
        }
    };
    let (chars, bytes) = match ty {
        SqlType::Char { chars, .. } | SqlType::VarChar { chars, .. } => {
            (u64::from(*chars), ty.max_bytes().unwrap_or(0))
        }
        SqlType::Enum { names: n, collation } => {
            (names(n, false), names(n, false) * u64::from(collation.charset().max_len()))
        }
        SqlType::Set { names: n, collation } => {
            (names(n, true), names(n, true) * u64::from(collation.charset().max_len()))
        }
        SqlType::Json => return [Value::Null, Value::Null],
        _ => match ty.max_bytes() {
            Some(bytes) => (bytes, bytes),
            None => return [Value::Null, Value::Null],
        },
    };
    [int(chars), int(bytes)]
}

/// The number of digits of a numeric type, and the number of its decimals.
fn digits(ty: &SqlType) -> (Option<u64>, Option<u64>) {
    match ty {
        SqlType::Int { size, sign, .. } => {
            let digits = match (size.bytes(), sign.unsigned) {
                (1, _) => 3,
                (2, _) => 5,
                (3, _) => 7,
                (4, _) => 10,
                (_, false) => 19,
                (_, true) => 20,
            };
            (Some(digits), Some(0))
        }
        SqlType::Decimal { precision, scale, .. } => {
            (Some(u64::from(*precision)), Some(u64::from(*scale)))
        }
        SqlType::Float { digits, .. } => {
            (Some(digits.map_or(12, |d| u64::from(d.0))), digits.map(|d| u64::from(d.1)))
        }
        SqlType::Double { digits, .. } => {
            (Some(digits.map_or(22, |d| u64::from(d.0))), digits.map(|d| u64::from(d.1)))
        }
        SqlType::Bit { bits } => (Some(u64::from(*bits)), None),
        _ => (None, None),
    }
}

pub(super) async fn statistics(
    engine: &Engine,
    asked: Asked,
    shows_keys: bool,
    out: &mut Gathered<'_>,
) -> Result<()> {
    for table in &asked.tables {
        asked.pause(engine).await?;
        // `Engine::table` opens the file. A table that has been dropped meanwhile is left out.
        let Some(t) = engine.table(&table.def.schema, &table.def.name).await? else { continue };
        for shown in show::indexes(engine, &t, &t.def, shows_keys).await? {
            // SHOW INDEX begins with Table and Non_unique. Here the index's schema follows them.
            let mut shown = shown.into_iter().skip(1);
            let mut row = place(&t.def);
            row.extend(shown.next());
            row.push(text(&t.def.schema));
            row.extend(shown);
            out.push(row)?;
        }
    }
    Ok(())
}

fn unique_indexes(d: &TableDef, shows_keys: bool) -> impl Iterator<Item = &IndexDef> {
    let hides = hidden_column(d, shows_keys).is_some();
    d.indexes.iter().filter(move |i| (i.unique || i.primary) && !(hides && i.primary))
}

pub(super) async fn table_constraints(
    engine: &Engine,
    asked: Asked,
    shows_keys: bool,
    out: &mut Gathered<'_>,
) -> Result<()> {
    for t in &asked.tables {
        asked.pause(engine).await?;
        let d = &t.def;
        for index in unique_indexes(d, shows_keys) {
            let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
            out.push(vec![
                def(),
                text(&d.schema),
                text(&index.name),
                text(&d.schema),
                text(&d.name),
                text(kind),
                text("YES"),
            ])?;
        }
        for check in &d.checks {
            out.push(vec![
                def(),
                text(&d.schema),
                text(&check.name),
                text(&d.schema),
                text(&d.name),
                text("CHECK"),
                text(YES_NO[check.enforced as usize]),
            ])?;
        }
    }
    Ok(())
}

pub(super) async fn check_constraints(
    engine: &Engine,
    asked: Asked,
    out: &mut Gathered<'_>,
) -> Result<()> {
    for t in &asked.tables {
        asked.pause(engine).await?;
        for check in &t.def.checks {
            let names = [def(), text(&t.def.schema), text(&check.name)];
            out.push(names.into_iter().chain([text(&check.condition)]).collect())?;
        }
    }
    Ok(())
}

pub(super) async fn key_column_usage(
    engine: &Engine,
    asked: Asked,
    shows_keys: bool,
    out: &mut Gathered<'_>,
) -> Result<()> {
    for t in &asked.tables {
        asked.pause(engine).await?;
        let d = &t.def;
        for index in unique_indexes(d, shows_keys) {
            for (i, part) in index.columns.iter().enumerate() {
                let mut row = vec![
                    def(),
                    text(&d.schema),
                    text(&index.name),
                    def(),
                    text(&d.schema),
                    text(&d.name),
                ];
                row.extend([text(&d.columns[part.column].name), int(i as u64 + 1)]);
                row.extend([Value::Null, Value::Null, Value::Null, Value::Null]);
                out.push(row)?;
            }
        }
    }
    Ok(())
}

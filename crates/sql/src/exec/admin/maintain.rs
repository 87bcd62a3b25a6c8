//! CHECK, ANALYZE, OPTIMIZE, REPAIR and CHECKSUM TABLE: treats the tables one after the other and
//! returns one or more rows for each.
use super::super::long_rows::fetch;
use super::super::waits::unless_killed;
use super::AdminContext;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{AdminStmt, TableName};
use crate::session_state::Level;
use crate::sink::{ColumnMeta, ResultSink};
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::hash_bytes;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_types::{SqlType, Value, json};
use std::sync::Arc;

/// The text of a JSON value is at most this many times as long as the value: a control character
/// has six letters (`\u0001`).
const JSON_TEXT: usize = 6;

pub(super) async fn run(
    cx: &mut AdminContext<'_>,
    stmt: &AdminStmt,
    columns: &[ColumnMeta],
    sink: &mut impl ResultSink,
) -> Result<u64> {
    let (op, tables) = match stmt {
        AdminStmt::Check(tables) => ("check", tables),
        AdminStmt::Analyze(tables) => ("analyze", tables),
        AdminStmt::Optimize(tables) => ("optimize", tables),
        AdminStmt::Repair(tables) => ("repair", tables),
        AdminStmt::Checksum(tables) => ("checksum", tables),
        _ => unreachable!("statements about tables are run here"),
    };
    sink.columns(columns).await?;
    let mut sent = 0;
    for name in tables {
        let mark = cx.locks.metadata_lock.mark();
        let rows = one(cx, op, name).await;
        cx.locks.metadata_lock.release_to(mark);
        for row in rows? {
            sink.row(&row);
            sent += 1;
        }
        if sink.wants_drain() {
            sink.drain().await?;
        }
    }
    Ok(sent)
}

type Rows = Vec<Vec<Value<'static>>>;

/// Treats one table under a metadata lock: a check keeps out writers, the other statements keep out
/// DDL.
async fn one(cx: &mut AdminContext<'_>, op: &'static str, name: &TableName) -> Result<Rows> {
    let full_name = format!("{}.{}", name.schema, name.name);
    let own = cx.session.temporary.named(name).map(|table| table.engine().clone());
    let mode = if op == "check" { MetadataLockMode::NoWrite } else { MetadataLockMode::Read };
    let (wait, engine) = (cx.wait(), cx.engine);
    let table = if own.is_some() {
        own
    } else {
        cx.locks.check(&name.schema, &name.name, false)?;
        let schema = [(&*name.schema, MetadataLockMode::Read)];
        let table = [(&*name.schema, &*name.name, mode)];
        cx.locks.take(engine, &schema, &table, wait.on(engine)).await?;
        engine.table(&name.schema, &name.name).await?
    };
    let text = |s: &str| Value::owned(s.as_bytes().to_vec());
    let said =
        |kind: &str, message: &str| vec![text(&full_name), text(op), text(kind), text(message)];
    let Some(table) = table else {
        let error = match engine.dict.view(&name.schema, &name.name) {
            Some(_) => SqlError::not_of_kind(&name.schema, &name.name, "BASE TABLE"),
            None => SqlError::no_such_table(&name.schema, &name.name),
        };
        if op == "checksum" {
            cx.session.warnings.push(Level::Error, error.code, error.message);
            return Ok(vec![vec![text(&full_name), Value::Null]]);
        }
        return Ok(vec![said("Error", &error.message), said("status", "Operation failed")]);
    };
    Ok(match op {
        "check" => check(cx, &table, said).await?,
        "checksum" => vec![vec![text(&full_name), Value::UInt(checksum(cx, &table).await?)]],
        "analyze" => {
            let kill = &cx.session.process.interrupt;
            let stored = unless_killed(kill, cx.engine.analyze_table(&table)).await??;
            let later = "The statistics are in use. They will be stored later, because the redo \
                log has no room or another session is at it";
            let note = (!stored).then(|| said("note", later));
            note.into_iter().chain([said("status", "OK")]).collect()
        }
        // OPTIMIZE and REPAIR have nothing to do: new rows reuse the space of deleted rows.
        op => vec![said("note", &format!("The storage engine for the table doesn't support {op}"))],
    })
}

async fn check(
    cx: &AdminContext<'_>,
    table: &Arc<Table>,
    said: impl Fn(&str, &str) -> Vec<Value<'static>>,
) -> Result<Rows> {
    let kill = &cx.session.process.interrupt;
    let found = unless_killed(kill, cx.engine.check_table(table)).await??;
    let mut rows: Rows = found.errors.iter().map(|e| said("error", e)).collect();
    rows.extend(found.notes.iter().map(|n| said("note", n)));
    rows.push(if found.errors.is_empty() {
        said("status", "OK")
    } else {
        said("error", "Corrupt")
    });
    Ok(rows)
}

/// The checksum of the values of all committed rows. Equal rows give the same checksum in any order
/// and on any pages.
async fn checksum(cx: &mut AdminContext<'_>, table: &Arc<Table>) -> Result<u64> {
    let mut trx = cx.engine.begin(cx.session.process.interrupt.clone());
    let mut rows = Cursor::new(table.clone(), 0, Vec::new(), None, false, Read::Consistent);
    let (mut sum, mut text) = (0u32, Vec::new());
    let has_json = table.def.columns.iter().any(|column| column.ty == SqlType::Json);
    let memory = &mut cx.session.memory.statement;
    let (mark, mut counted, mut copied) = (memory.used(), 0, 0);
    while rows.next(&mut trx).await? {
        let is_long = table.layout.has_externals(rows.row().stored);
        if is_long {
            fetch(&mut rows, &trx, memory, &mut counted).await?;
            // The text of the row is written while the row is still held.
            let longest = if has_json { JSON_TEXT * counted } else { counted };
            memory.recount(&mut copied, text.capacity().max(longest))?;
            if longest >= LONG {
                cx.engine.runtime.leave_worker();
            }
        }
        let payload = if is_long { rows.whole() } else { rows.row().stored };
        text.clear();
        for column in 0..table.def.columns.len() {
            let value = table.layout.get(payload, column);
            text.push(value.is_null() as u8);
            if let Value::Json(document) = &value {
                json::check(document)?;
            }
            let start = text.len();
            value.write_text(None, &mut text);
            text.extend(((text.len() - start) as u32).to_le_bytes());
        }
        sum = sum.wrapping_add(hash_bytes(&text) as u32);
    }
    trx.rollback().await?;
    cx.session.memory.statement.release_to(mark);
    Ok(sum.into())
}

//! SHOW: rows made from the dictionary, the registries and the engine, filtered, sent.
mod columns;
mod create;
mod engine_status;
mod server;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use columns::{extra as column_extra, indexes, key as column_key};
pub(crate) use create::{DefaultText, default_text};
pub(crate) use server::{character_sets, collations, engines, processes};
pub(crate) use tables::status_of as table_status;

use super::admin::AdminContext;
use super::eval::like;
use super::scan::go_on;
use super::set::{SystemVariables, session_variables};
use crate::error::{Result, SqlError};
use crate::information_schema::{SCHEMA, is_schema};
use crate::plan::{ShowFilter, ShowKind, ShowStmt, VariableScope};
use crate::session::state::Outcome;
use crate::sink::{ColumnMeta, ResultSink};
use crate::status::Status;
use redolith_engine::Engine;
use redolith_types::convert::to_bool;
use redolith_types::{Collation, Value};

const MANY_TABLES: usize = 500;

/// One row of a result.
type Row = Vec<Value<'static>>;
type Rows = Vec<Row>;

fn text(s: impl AsRef<str>) -> Value<'static> {
    Value::owned(s.as_ref().as_bytes().to_vec())
}
fn int(n: impl TryInto<u64>) -> Value<'static> {
    Value::UInt(n.try_into().unwrap_or(0))
}
/// The empty text.
fn nothing() -> Value<'static> {
    Value::bytes(b"")
}

/// To look through the tables of a large dictionary takes milliseconds: it is done beside the workers.
pub(crate) fn before_tables(engine: &Engine) {
    if engine.dict.len() >= MANY_TABLES {
        engine.host.leave_worker();
    }
}

pub async fn run(
    cx: &mut AdminContext<'_>,
    stmt: &ShowStmt,
    columns: &[ColumnMeta],
    params: &[Value<'_>],
    sink: &mut impl ResultSink,
) -> Result<Outcome> {
    before_tables(cx.engine);
    let rows = rows(cx, &stmt.kind).await?;
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        go_on(&cx.session.process)?;
        if passes(cx, &stmt.filter, &row, params)? {
            kept.push(row);
        }
    }
    sink.columns(columns);
    for row in &kept {
        sink.row(row);
        if sink.wants_drain() {
            sink.drain().await?;
        }
    }
    Ok(Outcome::Rows(kept.len() as u64))
}

fn passes(cx: &mut AdminContext<'_>, filter: &ShowFilter, row: &[Value<'static>], params: &[Value<'_>]) -> Result<bool> {
    Ok(match filter {
        ShowFilter::None => true,
        ShowFilter::Like(pattern) => {
            let name = row.first().and_then(|v| v.as_bytes()).unwrap_or_default();
            like(Collation::Utf8mb4GeneralCi, Some('\\'), name, pattern.as_bytes())
        }
        ShowFilter::Where(condition) => to_bool(&cx.eval(condition, params, row)?).unwrap_or(false),
    })
}

async fn rows(cx: &mut AdminContext<'_>, kind: &ShowKind) -> Result<Rows> {
    Ok(match kind {
        ShowKind::Databases => {
            let mut names = cx.engine.dict.schemas();
            names.push(SCHEMA.into());
            names.sort();
            names.into_iter().map(|name| vec![text(name)]).collect()
        }
        ShowKind::Tables { schema, full } if is_schema(schema) => tables::virtual_names(*full),
        ShowKind::TableStatus { schema } if is_schema(schema) => tables::virtual_status(),
        ShowKind::Columns { table, full } if is_schema(&table.schema) => columns::columns(tables::virtual_def(table)?, *full),
        ShowKind::Index { table } if is_schema(&table.schema) => Rows::new(),
        ShowKind::CreateTable(table) if is_schema(&table.schema) => {
            let def = tables::virtual_def(table)?;
            vec![vec![text(&def.name), text(create::table(def, 0))]]
        }
        ShowKind::CreateDatabase { name, if_not_exists } if is_schema(name) => {
            vec![vec![text(SCHEMA), text(create::database(SCHEMA, Collation::Utf8mb4GeneralCi, *if_not_exists))]]
        }
        ShowKind::Tables { schema, full } => tables::names(cx.engine, schema, *full),
        ShowKind::TableStatus { schema } => tables::status(cx.engine, schema).await?,
        ShowKind::OpenTables { schema } => tables::open(cx.engine, schema.as_deref()),
        ShowKind::Columns { table, full } => columns::columns(&tables::find(cx.engine, table)?.def, *full),
        ShowKind::Index { table } => {
            let table =
                cx.engine.table(&table.schema, &table.name).await?.ok_or_else(|| SqlError::no_such_table(&table.schema, &table.name))?;
            columns::indexes(cx.engine, &table).await?
        }
        ShowKind::CreateTable(table) => {
            let table =
                cx.engine.table(&table.schema, &table.name).await?.ok_or_else(|| SqlError::no_such_table(&table.schema, &table.name))?;
            let next = table.auto_increment.load(std::sync::atomic::Ordering::Relaxed);
            vec![vec![text(&table.def.name), text(create::table(&table.def, next))]]
        }
        ShowKind::CreateDatabase { name, if_not_exists } => {
            let record = cx.engine.dict.require_schema(name)?;
            vec![vec![text(name), text(create::database(name, record.collation, *if_not_exists))]]
        }
        ShowKind::Variables(VariableScope::Global) => pairs(cx.settings.list_global()),
        ShowKind::Variables(_) => {
            let variables = SystemVariables { settings: cx.settings, vars: cx.vars, disk: &*cx.engine.disk };
            pairs(session_variables(&variables, cx.session))
        }
        ShowKind::Status(VariableScope::Global) => status(cx.status, &[]),
        ShowKind::Status(_) => {
            let mut own = Vec::new();
            cx.session.handlers.each(|counter, n| own.push((counter.name(), n)));
            status(cx.status, &own)
        }
        ShowKind::Warnings { offset, count } => server::warnings(&cx.session.warnings, *offset, *count, false),
        ShowKind::Errors { offset, count } => server::warnings(&cx.session.warnings, *offset, *count, true),
        ShowKind::CountWarnings => vec![vec![int(cx.session.warnings.count())]],
        ShowKind::CountErrors => vec![vec![int(server::warnings(&cx.session.warnings, 0, u64::MAX, true).len())]],
        ShowKind::ProcessList { full } => server::processes(cx.processes, *full),
        ShowKind::EngineStatus => vec![vec![text("InnoDB"), nothing(), text(engine_status::report(cx.engine, cx.status))]],
        ShowKind::Engines => server::engines(),
        ShowKind::Plugins => server::plugins(),
        ShowKind::CharacterSet => server::character_sets(),
        ShowKind::Collation => server::collations(),
        ShowKind::Grants(_) => vec![vec![text(format!("GRANT ALL PRIVILEGES ON *.* TO `{}`@`%` WITH GRANT OPTION", cx.session.user))]],
        // None of these are there to be shown.
        ShowKind::EngineMutex
        | ShowKind::Triggers { .. }
        | ShowKind::Events { .. }
        | ShowKind::ProcedureStatus
        | ShowKind::FunctionStatus
        | ShowKind::MasterStatus
        | ShowKind::ReplicaStatus
        | ShowKind::Profiles => Rows::new(),
        ShowKind::BinaryLogs => return Err(SqlError::new(1381, "You are not using binary logging")),
    })
}

/// SHOW STATUS; `own` are the session's counts, in the place of the server's.
fn status(status: &Status, own: &[(&str, u64)]) -> Rows {
    let own = |name: &str| own.iter().find(|(n, _)| *n == name).map(|(_, n)| n.to_string());
    pairs(status.list().into_iter().map(|(name, value)| {
        let value = own(&name).unwrap_or_else(|| value.to_string());
        (name, value)
    }))
}

fn pairs<N: AsRef<str>>(list: impl IntoIterator<Item = (N, String)>) -> Rows {
    list.into_iter().map(|(name, value)| vec![text(name), text(value)]).collect()
}

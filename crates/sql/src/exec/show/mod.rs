//! Runs SHOW: makes rows from the dictionary, the registries and the engine, filters them and sends
//! them.
mod binlog;
mod columns;
mod create;
mod engine_status;
mod server;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use columns::{extra as column_extra, indexes, key as column_key};
pub(crate) use create::{DefaultText, default_text, name as quoted_name, table as create_text};
pub(crate) use redolith_types::sql_type::quoted as quoted_text;
pub(crate) use server::{character_sets, collations, engines, processes_in_schema};
pub(crate) use tables::status_of as table_status;

use super::admin::AdminContext;
use super::eval::like_unless;
use super::pace::LONG;
use super::scan::go_on;
use super::server_rows::{Gathered, Row, filtered};
use super::set::{SystemVariables, session_variables};
use crate::error::Result;
use crate::generated_key::shown;
use crate::information_schema::{SCHEMA, is_schema};
use crate::plan::{ShowFilter, ShowKind, ShowStmt, VariableScope};
use crate::session_state::Outcome;
use crate::settings::Var;
use crate::sink::{ColumnMeta, ResultSink};
use crate::status::Status;
use redolith_engine::Engine;
use redolith_types::{Collation, Value};

const MANY_TABLES: usize = 500;

/// A row of SHOW before it is charged for.
pub(crate) type Made = Vec<Value<'static>>;

fn text(s: impl AsRef<str>) -> Value<'static> {
    Value::owned(s.as_ref().as_bytes().to_vec())
}
fn int(n: impl TryInto<u64>) -> Value<'static> {
    Value::UInt(n.try_into().unwrap_or(0))
}
/// An empty text.
fn nothing() -> Value<'static> {
    Value::bytes(b"")
}

/// Leaves the worker if the dictionary is large: it takes milliseconds to search many tables.
pub(crate) fn before_tables(engine: &Engine) {
    if engine.dict.len() >= MANY_TABLES {
        engine.runtime.leave_worker();
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
    let mark = cx.session.memory.statement.used();
    let rows = rows(cx, &stmt.kind).await?;
    let kept = match &stmt.filter {
        ShowFilter::None => rows,
        ShowFilter::Like(pattern) => {
            let column = stmt.kind.like_column();
            let collation = stmt.kind.columns()[column].1.collation();
            if pattern.len() >= LONG {
                cx.engine.runtime.leave_worker();
            }
            let process = &cx.session.process;
            filtered(rows, |row| {
                go_on(process)?;
                let name = row.get(column).and_then(|v| v.as_bytes()).unwrap_or_default();
                let stop = &mut |_| go_on(process);
                like_unless(collation, Some('\\'), name, pattern.as_bytes(), stop)
            })?
        }
        ShowFilter::Where(condition) => cx.filter(condition, params, rows)?,
    };
    sink.columns(columns).await?;
    let mut sent = 0;
    for row in &kept {
        let memory = &mut cx.session.memory.statement;
        // The row exists twice while the sink writes it.
        let (written, bytes) = (memory.used(), sink.row_bytes(row));
        memory.charge(bytes)?;
        if bytes >= LONG {
            sink.expect(bytes);
        }
        sink.row(row);
        memory.release_to(written);
        if sink.wants_drain() {
            memory.recount(&mut sent, sink.held())?;
            sink.drain().await?;
            memory.recount(&mut sent, sink.held())?;
        }
    }
    cx.session.memory.statement.release_to(mark);
    Ok(Outcome::Rows(kept.len() as u64))
}

/// Makes the rows and charges for them.
async fn rows(cx: &mut AdminContext<'_>, kind: &ShowKind) -> Result<Vec<Row>> {
    let (engine, settings) = (cx.engine, cx.settings);
    let source = cx.binlog.map(|binlog| binlog::Source { binlog, engine, settings });
    let process = cx.session.process.clone();
    let shows_keys = cx.vars.is_on(Var::ShowGipk);
    let mut out = Gathered::new(&mut cx.session.memory.statement);
    match kind {
        ShowKind::Databases => {
            let mut names = cx.engine.dict.schemas();
            names.push(SCHEMA.into());
            names.sort();
            out.extend(names.into_iter().map(|name| vec![text(name)]))?;
        }
        ShowKind::Tables { schema, full } if is_schema(schema) => {
            out.extend(tables::virtual_names(*full))?
        }
        ShowKind::TableStatus { schema } if is_schema(schema) => {
            out.extend(tables::virtual_status())?
        }
        ShowKind::Columns { table, full } if is_schema(&table.schema) => {
            out.extend(columns::columns(tables::virtual_def(table)?, *full, true))?
        }
        ShowKind::Index { table } if is_schema(&table.schema) => {}
        ShowKind::Index { table }
            if cx.session.temporary.named(table).is_none()
                && cx.engine.dict.view(&table.schema, &table.name).is_some() => {}
        ShowKind::ViewColumns { def, full } => out.extend(columns::columns(def, *full, true))?,
        ShowKind::CreateView { name, text: made, client, connection } => out.push(vec![
            text(name),
            text(made),
            text(client.charset().name()),
            text(connection.name()),
        ])?,
        ShowKind::CreateTable(table) if is_schema(&table.schema) => {
            create::show(tables::virtual_def(table)?, false, 0, &mut out)?
        }
        ShowKind::CreateDatabase { name, if_not_exists } if is_schema(name) => {
            out.push(vec![
                text(SCHEMA),
                text(create::database(SCHEMA, Collation::Utf8mb4GeneralCi, *if_not_exists)),
            ])?;
        }
        ShowKind::Tables { schema, full } => out.extend(tables::names(cx.engine, schema, *full))?,
        ShowKind::TableStatus { schema } => tables::status(cx.engine, schema, &mut out).await?,
        ShowKind::OpenTables { schema } => {
            out.extend(tables::open(cx.engine, schema.as_deref()))?
        }
        ShowKind::Columns { table, full } => {
            let table = tables::find(cx.engine, &cx.session.temporary, table).await?;
            out.extend(columns::columns(&table.def, *full, shows_keys))?
        }
        ShowKind::Index { table } => {
            let table = tables::find(cx.engine, &cx.session.temporary, table).await?;
            let rows = columns::indexes(cx.engine, table.engine(), &table.def, shows_keys).await?;
            out.extend(rows)?;
        }
        ShowKind::CreateTable(table) => {
            let table = tables::find(cx.engine, &cx.session.temporary, table).await?;
            let next = table.engine().auto_increment.load(std::sync::atomic::Ordering::Relaxed);
            let (def, temporary) = (shown(&table.def, shows_keys), table.is_temporary());
            create::show(&def, temporary, next, &mut out)?;
        }
        ShowKind::CreateDatabase { name, if_not_exists } => {
            let record = cx.engine.dict.require_schema(name)?;
            out.push(vec![
                text(name),
                text(create::database(name, record.collation, *if_not_exists)),
            ])?;
        }
        ShowKind::Variables(VariableScope::Global) => {
            cx.settings.refresh_all();
            out.extend_uncounted(pairs(cx.settings.list_global()))
        }
        ShowKind::Variables(_) => {
            let variables =
                SystemVariables { settings: cx.settings, vars: cx.vars, disk: &*cx.engine.disk };
            let list = session_variables(&variables, cx.session);
            out = Gathered::new(&mut cx.session.memory.statement);
            out.extend_uncounted(pairs(list));
        }
        ShowKind::Status(VariableScope::Global) => out.extend_uncounted(status(cx.status, &[])),
        ShowKind::Status(_) => {
            let mut own = Vec::new();
            cx.session.handlers.each(|counter, n| own.push((counter.name(), n)));
            out.extend_uncounted(status(cx.status, &own));
        }
        ShowKind::Warnings { offset, count } => {
            out.extend(server::warnings(&cx.session.warnings, *offset, *count, false))?
        }
        ShowKind::Errors { offset, count } => {
            out.extend(server::warnings(&cx.session.warnings, *offset, *count, true))?
        }
        ShowKind::CountWarnings => out.push(vec![int(cx.session.warnings.count())])?,
        ShowKind::CountErrors => {
            out.push(vec![int(server::warnings(&cx.session.warnings, 0, u64::MAX, true).count())])?
        }
        ShowKind::ProcessList { full } => out.extend(server::processes(cx.processes, *full))?,
        ShowKind::EngineStatus => out.push(vec![
            text("InnoDB"),
            nothing(),
            text(engine_status::report(cx.engine, cx.status)),
        ])?,
        ShowKind::Engines => out.extend(server::engines())?,
        ShowKind::Plugins => out.extend(server::plugins())?,
        ShowKind::CharacterSet => out.extend(server::character_sets())?,
        ShowKind::Collation => out.extend(server::collations())?,
        ShowKind::Grants { user, host } => {
            let (user, host) = (create::name(user), create::name(host));
            let grant = format!("GRANT ALL PRIVILEGES ON *.* TO {user}@{host} WITH GRANT OPTION");
            out.push(vec![text(grant)])?;
        }
        // The server has none of these objects.
        ShowKind::EngineMutex
        | ShowKind::Triggers { .. }
        | ShowKind::Events { .. }
        | ShowKind::ProcedureStatus
        | ShowKind::FunctionStatus
        | ShowKind::ReplicaStatus
        | ShowKind::Profiles => {}
        ShowKind::MasterStatus => {
            if let Some(source) = &source {
                out.push(binlog::status(source).await?)?;
            }
        }
        ShowKind::BinaryLogs => out.extend(binlog::files(binlog::needed(&source)?).await?)?,
        ShowKind::BinlogEvents { file, from, offset, count } => {
            let wanted = binlog::Wanted {
                file: file.as_deref(),
                from: *from,
                offset: *offset,
                count: *count,
            };
            let source = binlog::needed(&source)?;
            binlog::events(source, &wanted, &process, &mut out).await?;
        }
        ShowKind::XaRecover { convert } => {
            for xid in cx.xa.list() {
                let data = xid.data();
                let data = if *convert {
                    text(format!("0x{}", crate::xa::hex(&data).to_uppercase()))
                } else {
                    Value::owned(data)
                };
                let lengths = [xid.gtrid.len(), xid.bqual.len()].map(|len| int(len as u64));
                let [gtrid, bqual] = lengths;
                out.push(vec![int(u64::from(xid.format_id)), gtrid, bqual, data])?;
            }
        }
        ShowKind::Replicas | ShowKind::SlaveHosts => {
            if let Some(source) = &source {
                out.extend(binlog::replicas(source)?)?;
            }
        }
    }
    Ok(out.into_rows())
}

/// The rows of SHOW STATUS. `own` has the session's counts, which replace the server's counts.
fn status(status: &Status, own: &[(&str, u64)]) -> impl Iterator<Item = Made> {
    let own = |name: &str| own.iter().find(|(n, _)| *n == name).map(|(_, n)| n.to_string());
    pairs(status.list().into_iter().map(move |(name, value)| {
        let value = own(&name).unwrap_or_else(|| value.to_string());
        (name, value)
    }))
}

fn pairs<N: AsRef<str>>(list: impl IntoIterator<Item = (N, String)>) -> impl Iterator<Item = Made> {
    list.into_iter().map(|(name, value)| vec![text(name), text(value)])
}

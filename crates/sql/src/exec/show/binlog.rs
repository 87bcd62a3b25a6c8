//! SHOW BINARY LOG STATUS, BINARY LOGS, BINLOG EVENTS and REPLICAS.
//!
//! The files are a little behind the redo log, so each form first has everything written that was
//! committed before it. Reading files goes beside the workers.
use super::{Made, int, nothing, text};
use crate::error::{Result, SqlError};
use crate::exec::scan::go_on;
use crate::exec::server_rows::Gathered;
use crate::processes::Process;
use crate::settings::{Settings, Var};
use redolith_binlog::file::{file_name, file_number};
use redolith_binlog::{Damage, Event, RawEvent};
use redolith_engine::Engine;
use redolith_replication::Binlog;
use redolith_types::Value;
use std::sync::Arc;

/// Events that are read at once.
const BATCH: usize = 1000;
/// Bytes of a statement's text that are shown.
const SHOWN_BYTES: usize = 64 << 10;

pub(super) struct Source<'a> {
    pub binlog: &'a Arc<Binlog>,
    pub engine: &'a Arc<Engine>,
    pub settings: &'a Settings,
}

impl Source<'_> {
    /// Brings everything that is committed to the files.
    async fn materialize(&self) -> Result<()> {
        let log = &self.engine.store.log;
        let end = log.tail();
        log.flush_to(end).await;
        self.read(|binlog| binlog.materialize(end))?
            .map_err(|e| SqlError::unknown_error(format!("writing the binary log: {e}")))
    }
    /// Runs `f` where it may wait for the disk.
    fn read<T: Send>(&self, mut f: impl FnMut(&Arc<Binlog>) -> T + Send) -> Result<T> {
        let mut done = None;
        self.engine.runtime.work_long(&mut || done = Some(f(self.binlog)));
        done.ok_or_else(SqlError::interrupted)
    }
}

/// The error of the forms that need a binary log.
pub(super) fn needed<'a, 'b>(source: &'a Option<Source<'b>>) -> Result<&'a Source<'b>> {
    source.as_ref().ok_or_else(|| SqlError::new(1381, "You are not using binary logging"))
}

pub(super) async fn status(source: &Source<'_>) -> Result<Made> {
    source.materialize().await?;
    let base = source.read(|binlog| binlog.place().base.clone())?;
    let status = source.binlog.status_shown(source.engine);
    let (file, offset) = status.position.map_or((0, 0), |end| (end.file, end.offset));
    let name = file_name(&base, file);
    let executed = status.executed.to_string();
    let list = |var| text(source.settings.text(var).unwrap_or_default());
    let (only, ignored) = (list(Var::BinlogDoDb), list(Var::BinlogIgnoreDb));
    Ok(vec![text(name), int(offset), only, ignored, text(executed)])
}

pub(super) async fn files(source: &Source<'_>) -> Result<Vec<Made>> {
    source.materialize().await?;
    let base = source.read(|binlog| binlog.place().base.clone())?;
    let list = source.read(|binlog| binlog.list())?.map_err(SqlError::unknown_error)?;
    let row =
        |(number, len): (u32, u64)| vec![text(file_name(&base, number)), int(len), text("No")];
    Ok(list.into_iter().map(row).collect())
}

pub(super) fn replicas(source: &Source<'_>) -> Result<Vec<Made>> {
    let source_id = source.read(|binlog| binlog.options().server_id)?;
    let row = |replica: redolith_replication::Replica| {
        let uuid = replica.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
        let (id, port) = (replica.server_id, replica.port);
        vec![int(id), text(&replica.host), int(port), int(source_id), text(uuid)]
    };
    Ok(source.binlog.replicas().registered().into_iter().map(row).collect())
}

/// What SHOW BINLOG EVENTS is to show.
pub(super) struct Wanted<'a> {
    pub file: Option<&'a str>,
    pub from: u64,
    pub offset: u64,
    pub count: u64,
}

fn failed(why: impl std::fmt::Display) -> SqlError {
    SqlError::new(1220, format!("Error when executing command SHOW BINLOG EVENTS: {why}"))
}

pub(super) async fn events(
    source: &Source<'_>,
    wanted: &Wanted<'_>,
    process: &Process,
    out: &mut Gathered<'_>,
) -> Result<()> {
    source.materialize().await?;
    let opened = source.read(|binlog| {
        let (base, numbers) = (binlog.place().base.clone(), binlog.numbers());
        let number = match wanted.file {
            None => numbers.first().copied(),
            Some(name) => {
                file_number(name).filter(|n| file_name(&base, *n) == name && numbers.contains(n))
            }
        };
        let number = number.ok_or_else(|| failed("Could not find target log"))?;
        // The file stays while it is read.
        let reading = binlog.reader(number);
        let (reader, _) = binlog.open_file(number).map_err(failed)?;
        Ok::<_, SqlError>((file_name(&base, number), reading, reader))
    })?;
    let (name, _reading, mut reader) = opened?;
    if wanted.from > reader.end() {
        return Err(failed("Wrong offset or I/O error"));
    }
    reader.seek(wanted.from);
    let (mut passed, mut shown, mut buffer) = (0, 0, 0);
    loop {
        let mut batch = Vec::new();
        let ended = source.read(|_| -> Result<bool> {
            for _ in 0..BATCH {
                if shown >= wanted.count {
                    return Ok(true);
                }
                let Some(event) = reader.next_event().map_err(|e| match e.damage {
                    Damage::Position { .. } => failed("Wrong offset or I/O error"),
                    _ => failed(e),
                })?
                else {
                    return Ok(true);
                };
                if passed < wanted.offset {
                    passed += 1;
                    continue;
                }
                shown += 1;
                batch.push(row(&name, &event)?);
            }
            Ok(false)
        })??;
        out.extend(batch)?;
        out.memory().recount(&mut buffer, reader.buffer_bytes())?;
        go_on(process)?;
        if ended {
            out.memory().recount(&mut buffer, 0)?;
            return Ok(());
        }
    }
}

fn row(name: &str, raw: &RawEvent<'_>) -> Result<Made> {
    let event = raw.decode().map_err(failed)?;
    Ok(vec![
        text(name),
        int(raw.position),
        text(raw.header.event_type.name()),
        int(raw.header.server_id),
        int(raw.end()),
        info(&event),
    ])
}

/// The Info column, as MySQL has it.
fn info(event: &Event<'_>) -> Value<'static> {
    let bytes = |parts: &[&[u8]]| {
        let mut all = parts.concat();
        all.truncate(SHOWN_BYTES);
        text(String::from_utf8_lossy(&all))
    };
    match event {
        Event::FormatDescription(format) => {
            text(format!("Server ver: {}, Binlog ver: 4", format.server_version))
        }
        Event::PreviousGtids(set) => text(set.to_string()),
        Event::Gtid(event) => text(match event.gtid {
            Some(gtid) => format!("SET @@SESSION.GTID_NEXT= '{gtid}'"),
            None => "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'".to_string(),
        }),
        Event::Query(query) if query.database.is_empty() || query.suppresses_use => {
            bytes(&[query.text])
        }
        Event::Query(query) => bytes(&[b"use `", query.database, b"`; ", query.text]),
        Event::RowsQuery(query) => bytes(&[b"# ", query]),
        Event::TableMap(table) => {
            let id = format!("table_id: {} (", table.id.0);
            bytes(&[id.as_bytes(), &table.schema, b".", &table.name, b")"])
        }
        Event::Rows(rows) => {
            let end = if rows.is_end_of_statement() { " flags: STMT_END_F" } else { "" };
            text(format!("table_id: {}{end}", rows.table_id.0))
        }
        Event::Xid(xid) => text(format!("COMMIT /* xid={xid} */")),
        Event::XaPrepare(prepare) => {
            let hex = |part: &[u8]| part.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let (gtrid, bqual) = (hex(prepare.gtrid), hex(prepare.bqual));
            let end = if prepare.one_phase { " ONE PHASE" } else { "" };
            let verb = if prepare.one_phase { "COMMIT" } else { "PREPARE" };
            text(format!("XA {verb} X'{gtrid}',X'{bqual}',{}{end}", prepare.format_id))
        }
        Event::Rotate(rotate) => {
            let position = format!(";pos={}", rotate.position);
            bytes(&[rotate.file, position.as_bytes()])
        }
        Event::Incident(incident) => {
            bytes(&[format!("#{} (LOST_EVENTS): ", incident.number).as_bytes(), incident.message])
        }
        Event::Stop
        | Event::MariadbGtid(_)
        | Event::MariadbGtidList
        | Event::Heartbeat(_)
        | Event::Unknown(..) => nothing(),
    }
}

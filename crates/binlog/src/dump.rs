//! A file of the binary log as text, for whoever has to see what is in it: `redolith dump binlog`.
//!
//! Each event is a line, and rows are lines below their event. Lines that tell of damage begin with
//! `!`. Behind an event whose checksum alone is wrong the dump goes on; behind any other damage
//! nobody knows where the next event begins, so the dump ends there.
use crate::event::Event;
use crate::file::{Damage, RawEvent, ReadError, Reader};
use crate::rows::{Row, RowChange};
use crate::{Rows, Table, TableId, flags};
use redolith_disk::Disk;
use redolith_types::Value;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes of a text, or of a value, that are printed.
const SHOWN_BYTES: usize = 200;

/// What to print.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file.
    pub path: PathBuf,
    /// The position of the first event that is printed.
    pub from: u64,
    /// Events to print at most.
    pub limit: u64,
    /// The bytes of the events, too.
    pub hex: bool,
}

/// Prints the file. Errors: what the operating system says of opening the file or of `out`.
pub fn dump(disk: &dyn Disk, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    let mut reader = match Reader::open(disk, &request.path) {
        Ok(reader) => reader,
        Err(ReadError { damage: Damage::Io(error), position: 0, .. }) => return Err(error),
        Err(ReadError { damage, position, .. }) => {
            return writeln!(out, "! position {position}: {damage}");
        }
    };
    let format = reader.format();
    let state = match format.in_use {
        true => "open, or not closed cleanly",
        false => "closed",
    };
    let version = shown(format.server_version.as_bytes());
    writeln!(out, "binary log of {version}, checksums {:?}, {state}", format.checksum)?;
    let mut tables = HashMap::new();
    let mut printed = 0;
    while printed < request.limit {
        match reader.next_event() {
            Ok(None) => break,
            Ok(Some(event)) => {
                // Tables are noted also where events are not printed yet.
                let decoded = event.decode();
                if let Ok(Event::TableMap(table)) = &decoded {
                    tables.insert(table.id, table.clone());
                }
                if event.position >= request.from {
                    print(&event, &decoded, &tables, request.hex, out)?;
                    printed += 1;
                }
                // The next statement describes its tables again.
                if matches!(&decoded, Ok(Event::Rows(rows)) if rows.is_end_of_statement()) {
                    tables.clear();
                }
            }
            Err(ReadError { position, damage, .. }) => {
                writeln!(out, "! position {position}: {damage}")?;
                if !matches!(damage, Damage::Checksum { .. }) {
                    break;
                }
                printed += 1;
            }
        }
    }
    Ok(())
}

fn print(
    raw: &RawEvent<'_>,
    event: &Result<Event<'_>, ReadError>,
    tables: &HashMap<TableId, Table>,
    with_bytes: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let header = &raw.header;
    let mark = if event.is_ok() { ' ' } else { '!' };
    write!(
        out,
        "{mark} position {}, {} bytes, {}, server id {}, time {}",
        raw.position,
        header.len,
        header.event_type.name(),
        header.server_id,
        header.timestamp
    )?;
    let known = flags::IN_USE | flags::SUPPRESS_USE | flags::ARTIFICIAL | flags::IGNORABLE;
    if header.flags & !known != 0 {
        write!(out, ", flags {:#x}", header.flags)?;
    }
    match event {
        Ok(event) => writeln!(out, "{}", summary(event))?,
        Err(error) => writeln!(out, ": {}", error.damage)?,
    }
    if let Ok(Event::Rows(rows)) = event {
        print_rows(rows, tables.get(&rows.table_id), out)?;
    }
    if with_bytes {
        hex(raw.bytes, out)?;
    }
    Ok(())
}

/// What an event says, with the sign before it.
fn summary(event: &Event<'_>) -> String {
    match event {
        Event::FormatDescription(format) => format!(": created {}", format.created),
        Event::PreviousGtids(set) if set.is_empty() => ": none".to_string(),
        Event::PreviousGtids(set) => format!(": {}", set.to_string().replace('\n', " ")),
        Event::Gtid(event) => {
            let name = event.gtid.map_or("anonymous".to_string(), |gtid| gtid.to_string());
            format!(
                ": {name}, last_committed {}, sequence_number {}, committed {} us, transaction of \
                 {} bytes",
                event.clock.last_committed,
                event.clock.sequence_number,
                event.immediate_commit_us,
                event.transaction_len
            )
        }
        Event::Query(query) => {
            let (database, text) = (shown(query.database), shown(query.text));
            format!(", session {}, database '{database}': {text}", query.thread_id)
        }
        Event::RowsQuery(text) => format!(": {}", shown(text)),
        Event::TableMap(table) => format!(
            ": table id {} is {}.{}, {} columns",
            table.id.0,
            shown(&table.schema),
            shown(&table.name),
            table.columns.len()
        ),
        Event::Rows(rows) => {
            let end = if rows.is_end_of_statement() { ", end of statement" } else { "" };
            format!(": table id {}{end}", rows.table_id.0)
        }
        Event::Xid(xid) => format!(": {xid}"),
        Event::XaPrepare(prepare) => {
            let (gtrid, bqual) = (shown(prepare.gtrid), shown(prepare.bqual));
            let phase = if prepare.one_phase { ", one phase" } else { "" };
            format!(": '{gtrid}','{bqual}',{}{phase}", prepare.format_id)
        }
        Event::Rotate(rotate) => format!(": {}, position {}", shown(rotate.file), rotate.position),
        Event::Stop => String::new(),
        Event::Incident(incident) => {
            format!(": number {}, {}", incident.number, shown(incident.message))
        }
        Event::MariadbGtid(event) => format!(": {event:?}"),
        Event::MariadbGtidList => String::new(),
        Event::Heartbeat(file) => format!(": {}", shown(file)),
        Event::Unknown(event_type, _) => format!(": type {}", event_type.0),
    }
}

fn print_rows(rows: &Rows<'_>, table: Option<&Table>, out: &mut dyn Write) -> io::Result<()> {
    let Some(table) = table else {
        let id = rows.table_id.0;
        return writeln!(out, "!   no Table_map event before has the table id {id}");
    };
    let changes = match rows.rows(table) {
        Ok(changes) => changes,
        Err(error) => return writeln!(out, "!   {error}"),
    };
    for change in changes {
        match change {
            Ok(RowChange { before, after }) => {
                let before = before.map(|row| format!(" before ({})", row_text(&row)));
                let after = after.map(|row| format!(" after ({})", row_text(&row)));
                let both = [before, after].map(Option::unwrap_or_default).concat();
                writeln!(out, "   {both}")?;
            }
            Err(error) => writeln!(out, "!   {error}")?,
        }
    }
    Ok(())
}

/// The values of a row. A column that the image does not have is `-`.
fn row_text(row: &Row<'_>) -> String {
    let texts = row.iter().map(|value| match value {
        None => "-".to_string(),
        Some(Value::Bytes(bytes)) => format!("'{}'", shown(bytes)),
        Some(value) => value.to_string(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Bytes from a file as text on one line, cut off where they are long.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    let rest = if bytes.len() > SHOWN_BYTES { ".." } else { "" };
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.chars().map(escape).collect::<String>() + rest
}

fn hex(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    for (i, line) in bytes.chunks(32).enumerate() {
        write!(out, "      {:6}:", i * 32)?;
        for byte in line {
            write!(out, " {byte:02x}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A request for the whole file.
impl From<&Path> for Request {
    fn from(path: &Path) -> Request {
        Request { path: path.to_path_buf(), from: 0, limit: u64::MAX, hex: false }
    }
}

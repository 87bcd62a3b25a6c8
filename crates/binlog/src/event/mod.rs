//! The events of MySQL 8's binary log, version 4 of the format.
//!
//! An event is a header ([`header`]), a body, and a checksum if its file has checksums. [`Event`]
//! has every type that this crate knows; [`Event::decode`] reads any bytes, and [`append`] writes
//! an event whose place is known. Events of a transaction, whose place is not known yet, are made
//! by [`crate::TransactionBuilder`].
pub(crate) mod format;
pub(crate) mod gtid;
pub(crate) mod header;
mod mariadb_gtid;
mod metadata;
pub(crate) mod query;
pub(crate) mod rows;
pub(crate) mod simple;
pub(crate) mod table_map;

use crate::bytes::Input;
use crate::checksum;
use crate::{Checksum, DecodeError, EventTooLong, GtidSet, MAX_EVENT_BYTES, Table};
use header::{END_AT, LEN_AT, TYPE_AT};

pub use format::FormatDescription;
pub use gtid::GtidEvent;
pub use header::{EventType, Header, Stamp, flags};
pub use mariadb_gtid::{MariadbGroup, MariadbGtidEvent, XaName};
pub use query::{MAX_UPDATED_DATABASES, Query, StatusVars};
pub use rows::{Rows, RowsKind, STMT_END};
pub use simple::{Incident, Rotate, XaPrepare};

/// An event of the binary log.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The first event of a file.
    FormatDescription(FormatDescription),
    /// The transactions of all files before.
    PreviousGtids(GtidSet),
    /// The name and the logical clock of the transaction that follows.
    Gtid(GtidEvent),
    /// The name of the transaction that follows, for a replica of MariaDB.
    MariadbGtid(MariadbGtidEvent<'a>),
    /// GTID_LIST of MariaDB, without a GTID: it has only its place.
    MariadbGtidList,
    /// A statement's text: DDL, BEGIN, XA statements.
    Query(Query<'a>),
    /// The text of the statement whose rows follow.
    RowsQuery(&'a [u8]),
    /// The columns of a table whose rows follow.
    TableMap(Table),
    /// Rows that were inserted, updated or deleted.
    Rows(Rows<'a>),
    /// The commit of the transaction with this number.
    Xid(u64),
    /// XA PREPARE, or a commit in one phase.
    XaPrepare(XaPrepare<'a>),
    /// The next file.
    Rotate(Rotate<'a>),
    /// The server was stopped.
    Stop,
    /// The log has a gap.
    Incident(Incident<'a>),
    /// The name of the file at whose end the source waits.
    Heartbeat(&'a [u8]),
    /// An event of a type that this crate does not know, and its body.
    Unknown(EventType, &'a [u8]),
}

impl<'a> Event<'a> {
    /// The event's type.
    pub fn event_type(&self) -> EventType {
        match self {
            Event::FormatDescription(_) => EventType::FORMAT_DESCRIPTION,
            Event::PreviousGtids(_) => EventType::PREVIOUS_GTIDS,
            Event::Gtid(event) if event.gtid.is_some() => EventType::GTID,
            Event::Gtid(_) => EventType::ANONYMOUS_GTID,
            Event::MariadbGtid(_) => EventType::MARIADB_GTID,
            Event::MariadbGtidList => EventType::MARIADB_GTID_LIST,
            Event::Query(_) => EventType::QUERY,
            Event::RowsQuery(_) => EventType::ROWS_QUERY,
            Event::TableMap(_) => EventType::TABLE_MAP,
            Event::Rows(rows) => rows.kind.event_type(),
            Event::Xid(_) => EventType::XID,
            Event::XaPrepare(_) => EventType::XA_PREPARE,
            Event::Rotate(_) => EventType::ROTATE,
            Event::Stop => EventType::STOP,
            Event::Incident(_) => EventType::INCIDENT,
            Event::Heartbeat(_) => EventType::HEARTBEAT,
            Event::Unknown(event_type, _) => *event_type,
        }
    }

    /// The flags that MySQL sets in the event's header.
    pub fn header_flags(&self) -> u16 {
        match self {
            Event::FormatDescription(format) if format.in_use => flags::IN_USE,
            Event::Query(query) if query.suppresses_use => flags::SUPPRESS_USE,
            Event::PreviousGtids(_) | Event::RowsQuery(_) => flags::IGNORABLE,
            _ => 0,
        }
    }

    /// Appends the body.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Event::FormatDescription(format) => format.encode(out),
            Event::PreviousGtids(set) => set.encode(out),
            Event::Gtid(event) => event.encode(out),
            Event::MariadbGtid(event) => event.encode(out),
            // The number of GTIDs, and in its highest bits flags.
            Event::MariadbGtidList => out.extend_from_slice(&[0; 4]),
            Event::Query(query) => query.encode(out),
            Event::RowsQuery(text) => simple::encode_rows_query(text, out),
            Event::TableMap(table) => table.put_map(out),
            Event::Rows(rows) => rows.encode(out),
            Event::Xid(xid) => out.extend_from_slice(&xid.to_le_bytes()),
            Event::XaPrepare(prepare) => prepare.encode(out),
            Event::Rotate(rotate) => rotate.encode(out),
            Event::Stop => {}
            Event::Incident(incident) => incident.encode(out),
            Event::Heartbeat(file) => out.extend_from_slice(file),
            Event::Unknown(_, body) => out.extend_from_slice(body),
        }
    }

    /// Reads an event from its header and its body, which is what stands between the header and the
    /// checksum.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Event<'a>, DecodeError> {
        Ok(match header.event_type {
            EventType::FORMAT_DESCRIPTION => Event::FormatDescription(FormatDescription::decode(
                body,
                header.flags & flags::IN_USE != 0,
            )?),
            EventType::PREVIOUS_GTIDS => Event::PreviousGtids(GtidSet::decode(body)?),
            EventType::GTID | EventType::ANONYMOUS_GTID => {
                Event::Gtid(GtidEvent::decode(body, header.event_type == EventType::GTID)?)
            }
            EventType::MARIADB_GTID => Event::MariadbGtid(MariadbGtidEvent::decode(body)?),
            EventType::MARIADB_GTID_LIST if body == [0; 4] => Event::MariadbGtidList,
            EventType::QUERY => {
                Event::Query(Query::decode(body, header.flags & flags::SUPPRESS_USE != 0)?)
            }
            EventType::ROWS_QUERY => Event::RowsQuery(simple::decode_rows_query(body)?),
            EventType::TABLE_MAP => Event::TableMap(table_map::decode(body)?),
            EventType::WRITE_ROWS => Event::Rows(Rows::decode(RowsKind::Write, body)?),
            EventType::UPDATE_ROWS => Event::Rows(Rows::decode(RowsKind::Update, body)?),
            EventType::DELETE_ROWS => Event::Rows(Rows::decode(RowsKind::Delete, body)?),
            EventType::XID => Event::Xid(simple::decode_xid(body)?),
            EventType::XA_PREPARE => Event::XaPrepare(XaPrepare::decode(body)?),
            EventType::ROTATE => Event::Rotate(Rotate::decode(body)?),
            EventType::STOP => Input::new(body, "a STOP event").end().map(|()| Event::Stop)?,
            EventType::INCIDENT => Event::Incident(Incident::decode(body)?),
            EventType::HEARTBEAT => Event::Heartbeat(body),
            event_type => Event::Unknown(event_type, body),
        })
    }
}

/// Appends an event that begins at `position` of its file. Events that are in no file have flags
/// and positions of their own: [`append_artificial`].
pub fn append(
    out: &mut Vec<u8>,
    event: &Event<'_>,
    stamp: Stamp,
    position: u64,
    checksum: Checksum,
) -> Result<(), EventTooLong> {
    let at = open(out, event.event_type(), stamp, event.header_flags());
    event.encode_body(out);
    let checksum = checksum_of(event.event_type(), checksum);
    close(out, at, checksum)?;
    place(&mut out[at..], position, checksum);
    Ok(())
}

/// Appends an event that is made for a replica: a ROTATE that names the file which follows (a "fake
/// rotate"), a FORMAT_DESCRIPTION, or a HEARTBEAT. `end_pos` is what the header says, 0 for the
/// first two.
pub fn append_artificial(
    out: &mut Vec<u8>,
    event: &Event<'_>,
    stamp: Stamp,
    end_pos: u32,
    checksum: Checksum,
) -> Result<(), EventTooLong> {
    let flags = match event {
        Event::Rotate(_) => flags::ARTIFICIAL,
        event => event.header_flags(),
    };
    let at = open(out, event.event_type(), stamp, flags);
    event.encode_body(out);
    let checksum = checksum_of(event.event_type(), checksum);
    close(out, at, checksum)?;
    put_end(&mut out[at..], end_pos, checksum);
    Ok(())
}

/// Appends an event in the place of the event with this header, whose position and time it takes.
pub fn append_translated(
    out: &mut Vec<u8>,
    event: &Event<'_>,
    of: &Header,
    checksum: Checksum,
) -> Result<(), EventTooLong> {
    let stamp = Stamp { timestamp: of.timestamp, server_id: of.server_id };
    append_artificial(out, event, stamp, of.end_pos, checksum)
}

/// A FORMAT_DESCRIPTION event has a CRC-32 in any file.
pub(crate) fn checksum_of(event_type: EventType, checksum: Checksum) -> Checksum {
    if event_type == EventType::FORMAT_DESCRIPTION { Checksum::Crc32 } else { checksum }
}

/// Begins an event whose length and position are not known yet. Returns where the event begins.
pub(crate) fn open(
    out: &mut Vec<u8>,
    event_type: EventType,
    stamp: Stamp,
    header_flags: u16,
) -> usize {
    let Stamp { timestamp, server_id } = stamp;
    let at = out.len();
    Header { timestamp, event_type, server_id, len: 0, end_pos: 0, flags: header_flags }
        .encode(out);
    at
}

/// Ends the event that begins at `at`: makes room for its checksum and writes its length. If the
/// event is too long, removes the event.
pub(crate) fn close(out: &mut Vec<u8>, at: usize, checksum: Checksum) -> Result<(), EventTooLong> {
    let len = out.len() - at + checksum.len();
    if len > MAX_EVENT_BYTES {
        out.truncate(at);
        return Err(EventTooLong { bytes: len as u64 });
    }
    out.resize(at + len, 0);
    set_len(&mut out[at..], len);
    Ok(())
}

/// Writes the length into an event's header.
pub(crate) fn set_len(event: &mut [u8], len: usize) {
    event[LEN_AT..LEN_AT + 4].copy_from_slice(&(len as u32).to_le_bytes());
}

/// Writes the position and the checksum of a whole event that begins at `position`.
pub(crate) fn place(event: &mut [u8], position: u64, checksum: Checksum) {
    // A file may be longer than 4 GiB: one transaction is never cut. MySQL keeps the lowest bits.
    put_end(event, position.wrapping_add(event.len() as u64) as u32, checksum);
}

fn put_end(event: &mut [u8], end_pos: u32, checksum: Checksum) {
    event[END_AT..END_AT + 4].copy_from_slice(&end_pos.to_le_bytes());
    if checksum == Checksum::Crc32 {
        checksum::stamp(event);
    }
}

/// The type in an event's header.
pub(crate) fn type_of(event: &[u8]) -> EventType {
    EventType(event[TYPE_AT])
}

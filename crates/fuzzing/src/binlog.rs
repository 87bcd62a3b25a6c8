//! Files of the binary log, events, GTID sets and placements.
use redolith_binlog::file::{FIRST_EVENT_AT, MAGIC, new_file};
use redolith_binlog::{
    Change, Checksum, ColumnSet, EncodeOptions, Event, EventType, FormatDescription, Gtid, GtidSet,
    GtidTemplate, Header, Image, Incident, LogicalClock, Placement, Placer, Query, Reader,
    RowMetadata, Stamp, Table, TableId, TransactionBuilder, TransactionEvents, XaPrepare, append,
    dump,
};
use redolith_disk::{Disk, OpenHow, SimDisk};
use redolith_types::json::JsonRef;
use redolith_types::{
    Collation, Column, DateTime, Decimal, IntSize, LobSize, Sign, SqlType, TableDef, Time, Value,
};
use std::path::Path;

const STAMP: Stamp = Stamp { timestamp: 1_700_000_000, server_id: 1 };

/// Walks and dumps a file. Checksums and positions of its events are made right first, where the
/// lengths allow it, if the first byte is odd: so the bodies are reached.
pub fn file(data: &[u8]) {
    let ([mode], data) = crate::take::<1>(data);
    let mut bytes = data.to_vec();
    if mode & 1 == 1 {
        reseal(&mut bytes);
    }
    let disk = SimDisk::new(1);
    let path = Path::new("/log/binlog.000001");
    let made = disk.create_dir_all(Path::new("/log"));
    made.expect("a simulated disk without faults");
    let file = disk.open(path, OpenHow::create(false)).expect("a new file");
    file.set_len(bytes.len() as u64).expect("room");
    file.write_at(&bytes, 0).expect("room");
    if let Ok(mut reader) = Reader::open(&disk, path) {
        let mut position = FIRST_EVENT_AT;
        while let Ok(Some(event)) = reader.next_event() {
            assert_eq!(event.position, position, "READ-1");
            position = event.end();
        }
    }
    let mut out = Vec::new();
    dump::dump(&disk, &dump::Request::from(path), &mut out).expect("the file opens");
}

/// Writes positions and checksums into what looks like events.
fn reseal(bytes: &mut Vec<u8>) {
    let mut at = FIRST_EVENT_AT as usize;
    if bytes.len() < at {
        bytes.resize(at, 0);
    }
    bytes[..at].copy_from_slice(&MAGIC);
    while let Some(header) = bytes.get(at..).and_then(|rest| Header::decode(rest).ok()) {
        let len = (header.len as usize).clamp(Header::LEN + 4, 1 << 16).min(bytes.len() - at);
        if len < Header::LEN + 4 {
            return;
        }
        let event = &mut bytes[at..at + len];
        event[9..13].copy_from_slice(&(len as u32).to_le_bytes());
        event[13..17].copy_from_slice(&((at + len) as u32).to_le_bytes());
        let (body, crc) = event.split_at_mut(len - 4);
        crc.copy_from_slice(&redolith_binlog::crc32(body).to_le_bytes());
        at += len;
    }
}

/// An event's body after its type; a GTID set in both forms; a transaction of recovery.
pub fn event(data: &[u8]) {
    let ([event_type, flags], body) = crate::take::<2>(data);
    let header = Header {
        timestamp: 0,
        event_type: EventType(event_type),
        server_id: 0,
        len: 0,
        end_pos: 0,
        flags: u16::from(flags),
    };
    if let Ok(Event::TableMap(table)) = Event::decode(&header, body) {
        rows_of(&table, body);
    }
    if let Ok(set) = GtidSet::decode(body) {
        assert_eq!(set.to_string().parse::<GtidSet>().as_ref(), Ok(&set));
    }
    if let Ok(set) = String::from_utf8_lossy(body).parse::<GtidSet>() {
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        assert_eq!(GtidSet::decode(&bytes), Ok(set));
    }
    let Ok(placement) = Placement::decode(body.get(..Placement::LEN).unwrap_or(body)) else {
        return;
    };
    assert_eq!(placement.encode(), body[..Placement::LEN]);
    let mut events = body[Placement::LEN..].to_vec();
    let mut placer = Placer::new(placement);
    if placer.place(&mut events).is_ok() {
        let end = placement.start.offset + events.len() as u64;
        assert_eq!(placer.position(), end, "EVENTS-2");
    }
}

/// Takes the bytes of a TABLE_MAP event as rows of the table.
fn rows_of(table: &Table, body: &[u8]) {
    for event_type in [EventType::WRITE_ROWS, EventType::UPDATE_ROWS, EventType::DELETE_ROWS] {
        let (timestamp, server_id, len, end_pos, flags) = (0, 0, 0, 0, 0);
        let header = Header { timestamp, event_type, server_id, len, end_pos, flags };
        let columns = table.columns.len();
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&[2, 0, 252, columns as u8, (columns >> 8) as u8]);
        bytes.resize(bytes.len() + columns.div_ceil(8) * 2, 0xff);
        bytes.extend_from_slice(body);
        if let Ok(Event::Rows(rows)) = Event::decode(&header, &bytes)
            && let Ok(changes) = rows.rows(table)
        {
            for change in changes.flatten() {
                for value in change.after.into_iter().flatten().flatten() {
                    let _ = value.to_string();
                }
            }
        }
    }
}

fn table() -> Table {
    let collation = Collation::Utf8mb4GeneralCi;
    let sign = Sign::SIGNED;
    let types = [
        SqlType::Int { size: IntSize::Medium, sign, display: None },
        SqlType::Decimal { precision: 12, scale: 3, sign },
        SqlType::VarChar { chars: 100, collation },
        SqlType::Text { size: LobSize::Long, collation },
        SqlType::Time { fsp: 2 },
        SqlType::Timestamp { fsp: 6 },
        SqlType::Set { names: vec!["a".into(), "b".into()], collation },
        SqlType::Json,
    ];
    let column = |(i, ty)| Column::new(format!("c{i}"), ty);
    let def = TableDef {
        schema: "s".into(),
        name: "t".into(),
        columns: types.into_iter().enumerate().map(column).collect(),
        indexes: Vec::new(),
        collation,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    Table::of(TableId(9), &def, RowMetadata::Full)
}

fn transaction(checksum: Checksum) -> TransactionEvents {
    let table = table();
    let columns = ColumnSet::all(table.columns.len());
    let values = [
        Value::Int(-5),
        Value::Decimal(Decimal::from_parts(-123_456, 3)),
        Value::text("text"),
        Value::Null,
        Value::Time(Time::from_us(-1_500_000).unwrap_or_default()),
        Value::DateTime(DateTime::from_unix_us(1_700_000_000_000_001, 0).unwrap_or_default()),
        Value::UInt(3),
        JsonRef::NULL.into(),
    ];
    let image = Image { columns: &columns, values: &values };
    let mut builder = TransactionBuilder::new(EncodeOptions { checksum, ..Default::default() });
    let mut add = |change: Change<'_>| builder.row(STAMP, &table, &change).expect("a short row");
    add(Change::Insert(image));
    add(Change::Update(image, image));
    add(Change::Delete(image));
    builder.event(STAMP, &Event::Xid(1)).expect("a short event");
    builder.seal(STAMP, &GtidTemplate::default()).expect("a short event")
}

fn placement(offset: u64) -> Placement {
    Placement {
        start: redolith_binlog::BinlogPosition { file: 1, offset },
        gtid: Some(Gtid { uuid: redolith_binlog::Uuid([3; 16]), number: 5 }),
        clock: LogicalClock { last_committed: 0, sequence_number: 1 },
        immediate_commit_us: 1,
    }
}

pub fn file_seeds() -> Vec<Vec<u8>> {
    [Checksum::Crc32, Checksum::None]
        .into_iter()
        .map(|checksum| {
            let format = FormatDescription::new("8.0.36", 0, checksum);
            let mut out = new_file(&format, &GtidSet::new(), STAMP).expect("a short set");
            let at = out.len() as u64;
            out.extend_from_slice(transaction(checksum).finish(&placement(at)).as_bytes());
            let xa = XaPrepare { one_phase: false, format_id: 1, gtrid: b"g", bqual: b"b" };
            let incident = Incident { number: 1, message: b"lost" };
            for event in [Event::XaPrepare(xa), Event::Incident(incident), Event::Stop] {
                let at = out.len() as u64;
                append(&mut out, &event, STAMP, at, checksum).expect("a short event");
            }
            [vec![u8::from(checksum == Checksum::Crc32)], out].concat()
        })
        .collect()
}

pub fn event_seeds() -> Vec<Vec<u8>> {
    let query = Event::Query(Query { text: b"SELECT 1", ..Query::default() });
    let mut seeds: Vec<Vec<u8>> = [Event::TableMap(table()), query]
        .iter()
        .map(|event| {
            let mut seed = vec![event.event_type().0, 0];
            event.encode_body(&mut seed);
            seed
        })
        .collect();
    seeds.push(b"\0\0a0000000-0000-0000-0000-00000000000b:1-3:5,".to_vec());
    let events = transaction(Checksum::Crc32);
    seeds.push([&[0, 0][..], &placement(4).encode(), events.as_bytes()].concat());
    seeds
}

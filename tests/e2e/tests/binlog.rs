//! The crate mysql_common, which shares no code with redolith-binlog, reads every event and every
//! value that it writes.
#[path = "../../../crates/binlog/tests/binlog/fixtures.rs"]
#[allow(dead_code)]
mod fixtures;

use fixtures::{UUID, rows, table};
use mysql_common::Value as Theirs;
use mysql_common::binlog::consts::BinlogVersion;
use mysql_common::binlog::events::{EventData, RowsEventData, StatusVar, TableMapEvent};
use mysql_common::binlog::row::BinlogRow;
use mysql_common::binlog::value::BinlogValue;
use mysql_common::binlog::{BinlogFile, EventStreamReader};
use redolith_binlog::*;
use redolith_types::{Collation, Decimal, IntSize, Value};

/// Reads a file, calls `each` with each event's type and data. Fails at an event that is not read.
fn read(bytes: &[u8], mut each: impl FnMut(u8, EventData<'_>, &EventStreamReader)) {
    let mut file = BinlogFile::new(BinlogVersion::Version4, bytes).unwrap();
    let mut position = 4;
    while let Some(event) = file.next() {
        let event = event.unwrap();
        let header = event.header();
        position += header.event_size();
        assert_eq!(header.log_pos(), position);
        let data = event.read_data().unwrap();
        each(header.event_type_raw(), data.expect("an event of a known type"), file.reader());
    }
    assert_eq!(position as usize, bytes.len(), "the file is read to its end");
}

/// Whether the value that mysql_common read is ours, in the form in which it gives values.
fn same(column: &Column, ours: &Value<'static>, theirs: &Theirs) -> bool {
    let whole = |theirs: &Theirs| match theirs {
        Theirs::Int(v) => Some(i128::from(*v)),
        Theirs::UInt(v) => Some(i128::from(*v)),
        _ => None,
    };
    match (column.kind, ours, theirs) {
        (_, Value::Null, theirs) => *theirs == Theirs::NULL,
        (Kind::Year, Value::UInt(year), Theirs::Bytes(text)) => {
            // It prints the year 0000 as 1900.
            *text == (*year).max(1900).to_string().into_bytes()
        }
        (Kind::Bit { bits }, Value::UInt(v), Theirs::Bytes(bytes)) => {
            bytes[..] == v.to_be_bytes()[8 - usize::from(bits).div_ceil(8)..]
        }
        (Kind::Set { bytes: len }, Value::UInt(v), Theirs::Bytes(bytes)) => {
            bytes[..] == v.to_le_bytes()[..usize::from(len)]
        }
        // It reads a negative MEDIUMINT without its sign.
        (Kind::Int(IntSize::Medium), Value::Int(v @ ..0), theirs) => {
            whole(theirs) == Some(i128::from(*v + 0x100_0000))
        }
        (_, Value::Int(v), theirs) => whole(theirs) == Some(i128::from(*v)),
        (_, Value::UInt(v), theirs) => whole(theirs) == Some(i128::from(*v)),
        (_, Value::Float(v), Theirs::Float(theirs)) => v == theirs,
        (_, Value::Double(v), Theirs::Double(theirs)) => v == theirs,
        (_, Value::Decimal(v), Theirs::Bytes(text)) => Decimal::parse(text) == Some(*v),
        (_, Value::Date(v), theirs) => {
            *theirs == Theirs::Date(v.year(), v.month(), v.day(), 0, 0, 0, 0)
        }
        (_, Value::Time(v), theirs) => {
            let (days, hours) = (v.hours() / 24, (v.hours() % 24) as u8);
            let (minutes, seconds) = (v.minutes() as u8, v.seconds() as u8);
            let us = v.microseconds();
            *theirs == Theirs::Time(v.is_negative(), days, hours, minutes, seconds, us)
        }
        (Kind::Timestamp { .. }, Value::DateTime(v), Theirs::Bytes(text)) => {
            let us = v.to_unix_us(0).unwrap_or(0);
            let (secs, us) = (us / 1_000_000, us % 1_000_000);
            let fraction = if us == 0 { String::new() } else { format!(".{us:06}") };
            *text == format!("{secs}{fraction}").into_bytes()
        }
        (_, Value::DateTime(v), theirs) => {
            let (date, us) = (v.date(), v.microsecond());
            let (y, m, d) = (date.year(), date.month(), date.day());
            *theirs == Theirs::Date(y, m, d, v.hour(), v.minute(), v.second(), us)
        }
        (Kind::Char { max_bytes }, Value::Bytes(v), Theirs::Bytes(bytes)) => {
            // It does not fill a BINARY up again.
            let mut bytes = bytes.clone();
            if column.collation_id == Collation::Binary.id() {
                bytes.resize(usize::from(max_bytes), 0);
            }
            bytes[..] == v[..]
        }
        (_, Value::Bytes(v), Theirs::Bytes(bytes)) => bytes[..] == v[..],
        _ => false,
    }
}

fn check_row(table: &Table, columns: &ColumnSet, ours: &[Value<'static>], mut theirs: BinlogRow) {
    for (i, column) in table.columns.iter().enumerate() {
        // It leaves a column out that the image does not have.
        let at = columns.iter().position(|c| c == i);
        let Some(at) = at else { continue };
        match theirs.take(at) {
            Some(BinlogValue::Value(value)) => {
                assert!(same(column, &ours[i], &value), "{column:?}: {:?} {value:?}", ours[i]);
            }
            other => panic!("{column:?}: {other:?}"),
        }
    }
}

fn check_file(checksum: Checksum, metadata: RowMetadata, image: RowImage) {
    let (table, rows) = (table(metadata), rows());
    let all = ColumnSet::all(table.columns.len());
    let (before, after) = (image.before(&table), image.after(&table, &all));
    let (mut written, mut updated, mut deleted) = (0, 0, 0);
    read(&fixtures::file(checksum, metadata, image, true), |_, data, reader| {
        let EventData::RowsEvent(event) = data else { return };
        let map = reader.get_tme(event.table_id()).expect("the table was mapped");
        for row in event.rows(map) {
            match (&event, row.unwrap()) {
                (RowsEventData::WriteRowsEvent(_), (None, Some(row))) => {
                    check_row(&table, &after, &rows[written], row);
                    written += 1;
                }
                (RowsEventData::UpdateRowsEvent(_), (Some(old), Some(new))) => {
                    check_row(&table, &before, &rows[updated], old);
                    check_row(&table, &after, &rows[updated + 1], new);
                    updated += 1;
                }
                (RowsEventData::DeleteRowsEvent(_), (Some(row), None)) => {
                    check_row(&table, &before, &rows[deleted], row);
                    deleted += 1;
                }
                (event, row) => panic!("{event:?} {row:?}"),
            }
        }
    });
    assert_eq!((written, updated, deleted), (rows.len(), rows.len() - 1, rows.len()));
}

#[test]
fn mysql_common_reads_the_same_rows() {
    check_file(Checksum::Crc32, RowMetadata::Full, RowImage::Full);
    check_file(Checksum::None, RowMetadata::Minimal, RowImage::Full);
    check_file(Checksum::Crc32, RowMetadata::Full, RowImage::Minimal);
    check_file(Checksum::None, RowMetadata::Full, RowImage::Noblob);
}

fn check_map(map: &TableMapEvent<'_>) {
    let definition = fixtures::definition();
    assert_eq!(map.database_name(), definition.schema);
    assert_eq!(map.table_name(), definition.name);
    assert_eq!(map.columns_count() as usize, definition.columns.len());
    let nullable: Vec<bool> = map.null_bitmask().iter().map(|bit| *bit).collect();
    assert!(definition.columns.iter().map(|c| c.nullable).eq(nullable));
    assert!(map.iter_optional_meta().all(|field| field.is_ok()));
}

#[test]
fn mysql_common_reads_the_same_events() {
    let mut types = Vec::new();
    let mut number = 0;
    let file = fixtures::file(Checksum::Crc32, RowMetadata::Full, RowImage::Full, true);
    read(&file, |event_type, data, _| {
        types.push(event_type);
        match data {
            EventData::FormatDescriptionEvent(event) => {
                // It keeps the zeros behind the text.
                assert_eq!(event.server_version().trim_end_matches('\0'), fixtures::VERSION);
                assert_eq!(event.create_timestamp(), fixtures::STAMP.timestamp);
            }
            EventData::PreviousGtidsEvent(event) => {
                assert_eq!((event.sids().len(), event.sids()[0].uuid()), (1, UUID.0));
                let intervals = event.sids()[0].intervals();
                assert!(matches!(intervals, [i] if (i.start(), i.end()) == (1, 4)));
            }
            EventData::AnonymousGtidEvent(event) => {
                assert_eq!((event.0.gno(), event.0.sequence_number()), (0, 1));
                assert_eq!(event.0.original_commit_timestamp(), 1_600_000_000_000_001);
                number += 1;
            }
            EventData::GtidEvent(event) => {
                let placement = fixtures::placement(0, number);
                assert_eq!((event.sid(), event.gno()), (UUID.0, number));
                assert_eq!(event.last_committed(), number);
                assert_eq!(event.sequence_number(), number + 1);
                assert_eq!(event.immediate_commit_timestamp(), placement.immediate_commit_us);
                number += 1;
            }
            EventData::QueryEvent(event) => {
                assert_eq!(event.thread_id(), 11);
                let variables: Vec<_> = event.status_vars().iter().collect();
                // It looks for four bytes of microseconds, which are three.
                let us = &123_456u32.to_le_bytes()[..3];
                let is_read =
                    |v: &StatusVar<'_>| v.get_value().map_or_else(|raw| raw == us, |_| true);
                assert!(variables.iter().all(is_read), "{variables:?}");
                match &*event.query() {
                    "BEGIN" => assert_eq!((&*event.schema(), variables.len()), ("shöp", 5)),
                    text => {
                        assert_eq!((&*event.schema(), variables.len()), ("shop", 11));
                        assert_eq!(text, "CREATE TABLE t (a INT)");
                    }
                }
            }
            EventData::RowsQueryEvent(event) => {
                assert_eq!(event.query(), "INSERT INTO `all types` VALUES (..)");
            }
            EventData::TableMapEvent(map) => check_map(&map),
            EventData::XidEvent(event) => assert_eq!(event.xid, 4711),
            EventData::IncidentEvent(event) => assert_eq!(event.message(), "the disk was full"),
            EventData::RotateEvent(event) => {
                assert_eq!((event.position(), &*event.name()), (4, "binlog.000002"));
            }
            EventData::RowsEvent(_) | EventData::StopEvent | EventData::XaPrepareLogEvent(_) => {}
            other => panic!("{other:?}"),
        }
    });
    types.sort_unstable();
    types.dedup();
    assert_eq!(types, [2, 3, 4, 15, 16, 19, 26, 29, 30, 31, 32, 33, 34, 35, 38]);
}

//! Everything that is encoded is decoded to what it was.
use crate::fixtures::{self, STAMP, disk_with, loose_events, rows, table};
use redolith_binlog::*;
use redolith_types::Value;

const FILES: [(Checksum, RowMetadata, RowImage); 5] = [
    (Checksum::Crc32, RowMetadata::Full, RowImage::Full),
    (Checksum::None, RowMetadata::Full, RowImage::Full),
    (Checksum::Crc32, RowMetadata::Minimal, RowImage::Full),
    (Checksum::Crc32, RowMetadata::Full, RowImage::Minimal),
    (Checksum::None, RowMetadata::Minimal, RowImage::Noblob),
];

/// What an image with these columns has of a row.
fn seen(columns: &ColumnSet, row: &[Value<'static>]) -> Vec<Option<Value<'static>>> {
    row.iter().enumerate().map(|(i, v)| columns.contains(i).then(|| v.clone())).collect()
}

#[test]
fn rows_of_every_type_come_back() {
    for (checksum, metadata, image) in FILES {
        let (disk, path) = disk_with(&fixtures::file(checksum, metadata, image, true));
        let mut reader = Reader::open(&disk, &path).unwrap();
        let mut mapped = None;
        let (mut written, mut updated, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(event) = reader.next_event().unwrap() {
            match event.decode().unwrap() {
                Event::TableMap(table) => mapped = Some(table),
                Event::Rows(rows) => {
                    let changes = rows.rows(mapped.as_ref().unwrap()).unwrap();
                    for change in changes.map(Result::unwrap) {
                        let owned = |row: Option<rows::Row<'_>>| {
                            row.map(|row| {
                                let own = |v: Option<Value<'_>>| v.map(Value::into_owned);
                                row.into_iter().map(own).collect::<Vec<_>>()
                            })
                        };
                        match rows.kind {
                            RowsKind::Write => written.extend(owned(change.after)),
                            RowsKind::Update => {
                                updated.push((owned(change.before), owned(change.after)))
                            }
                            RowsKind::Delete => deleted.extend(owned(change.before)),
                        }
                    }
                }
                _ => {}
            }
        }
        let (table, rows) = (table(metadata), rows());
        let all = ColumnSet::all(table.columns.len());
        let (before, after) = (image.before(&table), image.after(&table, &all));
        let images = |set: &ColumnSet| rows.iter().map(|row| seen(set, row)).collect::<Vec<_>>();
        let (befores, afters) = (images(&before), images(&after));
        assert_eq!(written, afters, "{image:?}");
        assert_eq!(deleted, befores);
        let pairs = befores.iter().zip(afters.iter().skip(1));
        let pairs: Vec<_> = pairs.map(|(b, a)| (Some(b.clone()), Some(a.clone()))).collect();
        assert_eq!(updated, pairs);
    }
}

#[test]
fn tables_come_back_with_full_metadata() {
    for metadata in [RowMetadata::Full, RowMetadata::Minimal] {
        let table = table(metadata);
        let mut out = Vec::new();
        append(&mut out, &Event::TableMap(table.clone()), STAMP, 4, Checksum::None).unwrap();
        let header = Header::decode(&out).unwrap();
        let Event::TableMap(read) = Event::decode(&header, &out[Header::LEN..]).unwrap() else {
            panic!("another event");
        };
        if metadata == RowMetadata::Full {
            assert_eq!(read.key, table.key);
            for (read, written) in read.columns.iter().zip(&table.columns) {
                // What has no sign and no collation is not told one.
                let mut wanted = written.clone();
                wanted.unsigned &= !matches!(wanted.kind, Kind::Bit { .. });
                assert_eq!(*read, wanted);
            }
        } else {
            let sign = |c: &Column| (c.kind, c.unsigned && !matches!(c.kind, Kind::Bit { .. }));
            assert!(read.columns.iter().map(sign).eq(table.columns.iter().map(sign)));
            assert!(read.key.is_none() && read.columns[0].name.is_empty());
        }
    }
}

#[test]
fn every_other_event_comes_back() {
    let mut set = GtidSet::new();
    set.add_interval(fixtures::UUID, 1, 9);
    let events = [
        Event::FormatDescription(FormatDescription::new("8.0.36-x", 9, Checksum::None)),
        Event::PreviousGtids(GtidSet::new()),
        Event::PreviousGtids(set),
        Event::RowsQuery(b"INSERT ..."),
        Event::Xid(u64::MAX),
        Event::Heartbeat(b"binlog.000009"),
        Event::Query(Query { text: b"COMMIT", ..Query::default() }),
    ];
    for event in events.into_iter().chain(loose_events()) {
        for checksum in [Checksum::None, Checksum::Crc32] {
            let mut out = Vec::new();
            append(&mut out, &event, STAMP, 1000, checksum).unwrap();
            let header = Header::decode(&out).unwrap();
            assert_eq!(header.len as usize, out.len());
            assert_eq!(header.end_pos as usize, 1000 + out.len());
            let crc = match event {
                Event::FormatDescription(_) => 4,
                _ => checksum.len(),
            };
            let body = &out[Header::LEN..out.len() - crc];
            assert_eq!(Event::decode(&header, body).unwrap(), event);
            // A body that is cut is refused, or is another body: it is never a panic.
            for cut in 0..body.len() {
                let _ = Event::decode(&header, &body[..cut]);
            }
        }
    }
}

#[test]
fn the_format_description_is_mysqls() {
    let format = FormatDescription::new("8.0.36", 0, Checksum::Crc32);
    let mut out = Vec::new();
    append(&mut out, &Event::FormatDescription(format), STAMP, 4, Checksum::Crc32).unwrap();
    assert_eq!(out.len(), 122);
    // The checksum is that of the event that is not in use.
    let crc = crc32(&out[..118]);
    assert_eq!(out[17], 1);
    out[17] = 0;
    assert_eq!(crc32(&out[..118]), crc);
    assert_eq!(out[118..], crc.to_le_bytes());
}

#[test]
fn artificial_events_have_no_place() {
    let rotate = Event::Rotate(Rotate { position: 4, file: b"binlog.000001" });
    let mut out = Vec::new();
    append_artificial(&mut out, &rotate, Stamp { timestamp: 0, server_id: 7 }, 0, Checksum::Crc32)
        .unwrap();
    let header = Header::decode(&out).unwrap();
    assert_eq!((header.timestamp, header.end_pos, header.flags), (0, 0, flags::ARTIFICIAL));
    assert_eq!(out[out.len() - 4..], crc32(&out[..out.len() - 4]).to_le_bytes());
}

/// JSON has a test of its own, because MariaDB's reader does not know the type.
#[test]
fn json_comes_back_and_is_checked() {
    let column = redolith_types::Column::new("j", redolith_types::SqlType::Json);
    let definition = redolith_types::TableDef {
        columns: vec![column],
        indexes: Vec::new(),
        ..fixtures::definition()
    };
    let table = Table::of(TableId(5), &definition, RowMetadata::Full);
    let document = redolith_types::json::parse(br#"{"a": [1, 100000, "x"]}"#)
        .and_then(|json| json.to_binary())
        .unwrap();
    let columns = ColumnSet::all(1);
    let mut image = vec![0];
    image.extend_from_slice(&(document.len() as u32).to_le_bytes());
    image.extend_from_slice(&document);
    let mut out = Vec::new();
    append(&mut out, &Event::TableMap(table.clone()), STAMP, 4, Checksum::None).unwrap();
    let header = Header::decode(&out).unwrap();
    let Event::TableMap(read) = Event::decode(&header, &out[Header::LEN..]).unwrap() else {
        panic!("another event");
    };
    assert_eq!(read.columns[0].kind, Kind::Json { len_bytes: 4 });
    let rows = |image: &[u8]| {
        let rows = Rows {
            table_id: TableId(5),
            kind: RowsKind::Write,
            before: ColumnSet::none(1),
            after: columns.clone(),
            flags: STMT_END,
            images: image,
        };
        rows.rows(&read).unwrap().map(|r| r.map(|c| format!("{:?}", c.after))).collect::<Vec<_>>()
    };
    let value = Some(vec![Some(Value::Json(document.clone().into()))]);
    assert_eq!(rows(&image), [Ok(format!("{value:?}"))]);
    let type_of_a = image.len() - document.len() + 8;
    image[type_of_a] = 0xff;
    assert!(rows(&image)[0].is_err(), "a damaged document");
}

//! Transactions are encoded first and placed later.
use crate::fixtures::{STAMP, placement, rows, status, table, transaction};
use redolith_binlog::*;
use redolith_types::Value;

fn events_of(bytes: &[u8]) -> Vec<(Header, &[u8])> {
    let mut events = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let header = Header::decode(rest).unwrap();
        let (event, behind) = rest.split_at(header.len as usize);
        events.push((header, event));
        rest = behind;
    }
    events
}

/// Tests EVENTS-1 and EVENTS-2.
#[test]
fn placing_is_a_function_of_events_and_placement() {
    for checksum in [Checksum::Crc32, Checksum::None] {
        let options = EncodeOptions { checksum, ..EncodeOptions::default() };
        let table = table(RowMetadata::Minimal);
        let events = transaction(options, &table, RowImage::Full);
        let unplaced = events.as_bytes().to_vec();
        for placement in [placement(157, 0), placement(157, 9), placement(u64::from(u32::MAX), 9)] {
            let placed = events.clone().finish(&placement).as_bytes().to_vec();
            // Recovery: from the bytes, and in pieces.
            let mut again = unplaced.clone();
            Placer::new(placement).place(&mut again).unwrap();
            assert_eq!(again, placed);
            let mut pieces = unplaced.clone();
            let mut placer = Placer::new(placement);
            let mut at = 0;
            for (header, _) in events_of(&unplaced) {
                placer.place(&mut pieces[at..at + header.len as usize]).unwrap();
                at += header.len as usize;
            }
            assert_eq!(pieces, placed);
            assert_eq!(placer.position(), placement.start.offset + placed.len() as u64);
            check(&placed, &placement, checksum);
        }
        for part in [&unplaced[1..], &unplaced[..90]] {
            assert!(Placer::new(placement(157, 9)).place(&mut part.to_vec()).is_err());
        }
    }
}

fn check(placed: &[u8], placement: &Placement, checksum: Checksum) {
    let mut position = placement.start.offset;
    for (i, (header, event)) in events_of(placed).into_iter().enumerate() {
        position += u64::from(header.len);
        assert_eq!(header.end_pos, position as u32);
        let (bytes, crc) = event.split_at(event.len() - checksum.len());
        if !checksum.is_empty() {
            assert_eq!(crc, crc32(bytes).to_le_bytes());
        }
        if i == 0 {
            let Event::Gtid(gtid) = Event::decode(&header, &bytes[Header::LEN..]).unwrap() else {
                panic!("the first event is {header:?}");
            };
            assert_eq!((gtid.gtid, gtid.clock), (placement.gtid, placement.clock));
            assert_eq!(gtid.immediate_commit_us, placement.immediate_commit_us);
            assert_eq!(gtid.transaction_len, placed.len() as u64);
        }
    }
}

#[test]
fn the_length_of_a_transaction_counts_itself() {
    // The length-encoded length grows from 1 byte to 3 and to 4.
    for len in (100..400).chain(65_300..65_600) {
        let mut builder = TransactionBuilder::new(EncodeOptions::default());
        let text = vec![b'x'; len];
        builder.query(STAMP, &Query { text: &text, ..Query::default() }).unwrap();
        let events = builder.seal(STAMP, &GtidTemplate::default()).unwrap();
        let placement = placement(4, 1);
        check(events.finish(&placement).as_bytes(), &placement, Checksum::Crc32);
    }
}

/// The row events of a transaction: (type, table id's lowest byte, STMT_END, length).
fn row_events(events: &TransactionEvents) -> Vec<(EventType, u8, bool, u32)> {
    let all = events_of(events.as_bytes());
    let is_row = |t: EventType| (19..=19).contains(&t.0) || (30..=32).contains(&t.0);
    let rows = all.into_iter().filter(|(header, _)| is_row(header.event_type));
    rows.map(|(header, event)| {
        let is_end = header.event_type != EventType::TABLE_MAP && event[Header::LEN + 6] & 1 == 1;
        (header.event_type, event[Header::LEN], is_end, header.len)
    })
    .collect()
}

fn small_table(id: u64) -> Table {
    let column = Column {
        kind: Kind::VarChar { max_bytes: 60_000 },
        unsigned: false,
        nullable: true,
        collation_id: 45,
        name: b"a".to_vec(),
        members: Vec::new(),
        visible: true,
    };
    Table::new(TableId(id), b"s", b"t", vec![column], None, RowMetadata::Minimal)
}

fn insert(builder: &mut TransactionBuilder, table: &Table, len: usize) {
    let (columns, values) = (ColumnSet::all(1), [Value::owned(vec![b'x'; len])]);
    let image = Image { columns: &columns, values: &values };
    builder.row(STAMP, table, &Change::Insert(image)).unwrap();
}

#[test]
fn row_events_end_at_the_bound_and_statements_at_their_last_event() {
    let (a, b) = (small_table(1), small_table(2));
    let mut builder = TransactionBuilder::new(EncodeOptions {
        row_event_max_bytes: 1000,
        ..EncodeOptions::default()
    });
    for len in [400, 400, 400, 5000, 10] {
        insert(&mut builder, &a, len);
    }
    builder.end_statement().unwrap();
    builder.map_table(STAMP, &a).unwrap();
    builder.map_table(STAMP, &b).unwrap();
    for table in [&a, &b, &a] {
        insert(&mut builder, table, 10);
    }
    let events = builder.seal(STAMP, &GtidTemplate::default()).unwrap();
    let (map, write) = (EventType::TABLE_MAP, EventType::WRITE_ROWS);
    let shape: Vec<_> = row_events(&events).iter().map(|e| (e.0, e.1, e.2)).collect();
    assert_eq!(
        shape,
        [
            (map, 1, false),
            (write, 1, false),
            (write, 1, false),
            (write, 1, false),
            (write, 1, true),
            (map, 1, false),
            (map, 2, false),
            (write, 1, false),
            (write, 2, false),
            (write, 1, true),
        ]
    );
    assert!(row_events(&events).iter().all(|e| e.3 <= 1000 || e.3 > 5000));
}

#[test]
fn a_table_that_is_mapped_late_begins_another_statement() {
    let mut builder = TransactionBuilder::new(EncodeOptions::default());
    for table in [&small_table(1), &small_table(2)] {
        insert(&mut builder, table, 10);
    }
    let events = builder.seal(STAMP, &GtidTemplate::default()).unwrap();
    let ends: Vec<_> = row_events(&events).iter().map(|e| (e.0.0, e.1, e.2)).collect();
    assert_eq!(ends, [(19, 1, false), (30, 1, true), (19, 2, false), (30, 2, true)]);
}

/// The same statements, once kept in memory and once drained to a file: the bytes are the same.
#[test]
fn drained_transactions_are_the_same_bytes() {
    let table = table(RowMetadata::Minimal);
    let columns = ColumnSet::all(table.columns.len());
    let rows = rows();
    let mut outcomes = Vec::new();
    for (drains, begins_last) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut builder = TransactionBuilder::new(EncodeOptions::default());
        let mut spill = Vec::new();
        let begin = Query::begin(1, b"", status());
        if !begins_last {
            builder.query(STAMP, &begin).unwrap();
        }
        for round in 0..3 {
            let savepoint = builder.savepoint().unwrap();
            for values in &rows {
                let image = Image { columns: &columns, values };
                builder.row(STAMP, &table, &Change::Insert(image)).unwrap();
                if drains {
                    spill.extend_from_slice(builder.drainable());
                    builder.drain();
                    assert!(builder.bytes_in_memory() < 700_000);
                    assert_eq!(builder.drained_bytes(), spill.len() as u64);
                }
            }
            if round == 1 {
                builder.roll_back_to(savepoint);
                spill.truncate(builder.drained_bytes() as usize);
            }
        }
        if begins_last {
            builder.put_first(STAMP, &begin).unwrap();
        }
        builder.event(STAMP, &Event::Xid(1)).unwrap();
        let template = GtidTemplate::default();
        outcomes.push(if drains {
            let (gtid, rest) = builder.seal_drained(STAMP, &template).unwrap();
            assert!(spill.len() > rest.len());
            [gtid, spill, rest].concat()
        } else {
            builder.seal(STAMP, &template).unwrap().as_bytes().to_vec()
        });
    }
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
}

#[test]
fn a_statement_that_is_rolled_back_leaves_nothing() {
    let table = small_table(1);
    let mut builder = TransactionBuilder::new(EncodeOptions::default());
    insert(&mut builder, &table, 10);
    let savepoint = builder.savepoint().unwrap();
    let len = builder.len();
    insert(&mut builder, &table, 10);
    builder.roll_back_to(savepoint);
    assert_eq!(builder.len(), len);
    insert(&mut builder, &table, 10);
    let events = builder.seal(STAMP, &GtidTemplate::default()).unwrap();
    let ends: Vec<_> = row_events(&events).iter().map(|e| (e.0.0, e.2)).collect();
    assert_eq!(ends, [(19, false), (30, true), (19, false), (30, true)]);
}

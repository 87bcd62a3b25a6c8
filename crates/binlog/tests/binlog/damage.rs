//! Damaged files are told with their name and position, and never make the reader fail otherwise.
use crate::fixtures::{self, disk_with};
use redolith_binlog::file::{mark_closed, new_file};
use redolith_binlog::*;
use redolith_disk::{Disk, OpenHow};

fn whole() -> Vec<u8> {
    fixtures::file(Checksum::Crc32, RowMetadata::Full, RowImage::Minimal, true)
}

/// The positions of the events, and the first error.
fn walk(bytes: &[u8]) -> (Vec<u64>, Option<ReadError>) {
    let (disk, path) = disk_with(bytes);
    let mut positions = Vec::new();
    let mut reader = match Reader::open(&disk, &path) {
        Ok(reader) => reader,
        Err(error) => return (positions, Some(error)),
    };
    loop {
        match reader.next_event() {
            Ok(None) => return (positions, None),
            Ok(Some(event)) => {
                positions.push(event.position);
                if let Err(error) = event.decode() {
                    return (positions, Some(error));
                }
            }
            Err(error) => return (positions, Some(error)),
        }
    }
}

#[test]
fn a_flipped_bit_is_found_in_its_event() {
    let bytes = whole();
    let (positions, error) = walk(&bytes);
    assert!(error.is_none() && positions.len() > 20);
    for at in (0..bytes.len()).step_by(9973).chain(0..200) {
        // The flag IN_USE may be set or not.
        let bit = if at == 21 { 2 } else { 1 };
        let mut damaged = bytes.clone();
        damaged[at] ^= bit;
        let (_, error) = walk(&damaged);
        let error = error.unwrap_or_else(|| panic!("the bit at {at} was not missed"));
        let event = positions.iter().rev().find(|p| **p <= at as u64).copied().unwrap_or(0);
        assert_eq!(error.position, event, "{error}");
        assert!(error.to_string().starts_with("binary log /log/binlog.000001, position "));
    }
}

#[test]
fn a_file_that_is_cut_ends_at_its_last_whole_event() {
    let bytes = whole();
    let (positions, _) = walk(&bytes);
    for len in (0..bytes.len()).step_by(5003) {
        let (seen, error) = walk(&bytes[..len]);
        let ends_whole = positions.contains(&(len as u64));
        let is_cut = matches!(error, Some(ReadError { damage: Damage::Cut { .. }, .. }));
        assert_eq!(is_cut, !ends_whole, "{len} bytes: {error:?}");
        assert!(seen.iter().all(|p| positions.contains(p)));
    }
}

/// Also where the last event is longer than the bytes that the reader looks at first.
#[test]
fn a_file_ends_only_where_an_event_ends() {
    let bytes = whole();
    let (positions, _) = walk(&bytes);
    let ends: Vec<u64> = positions.iter().copied().chain([bytes.len() as u64]).collect();
    let longest = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest > 64 << 10, "{longest}");
    let (disk, path) = disk_with(&bytes);
    let mut reader = Reader::open(&disk, &path).unwrap();
    for end in ends.iter().flat_map(|end| end - 1..=end + 1).filter(|end| *end > 4) {
        let judged = reader.judge_end(end);
        assert_eq!(judged.is_ok(), ends.contains(&end), "position {end}: {judged:?}");
    }
    // The reader is at the first event again.
    reader.judge_end(*ends.last().unwrap()).unwrap();
    assert_eq!(reader.next_event().unwrap().unwrap().position, 4);
}

#[test]
fn a_reader_begins_only_where_an_event_begins() {
    let bytes = whole();
    let (positions, _) = walk(&bytes);
    let (disk, path) = disk_with(&bytes);
    let mut reader = Reader::open(&disk, &path).unwrap();
    for at in 4..(bytes.len() as u64).min(3000) {
        reader.seek(at);
        let begins = matches!(reader.next_event(), Ok(Some(_)));
        assert_eq!(begins, positions.contains(&at), "position {at}");
    }
    reader.seek(bytes.len() as u64 + 9);
    assert!(reader.next_event().unwrap().is_none());
    // A file that grows is read as far as it is durable.
    let mut reader = Reader::open(&disk, &path).unwrap();
    reader.set_end(positions[2]);
    while reader.next_event().unwrap().is_some() {}
    assert_eq!(reader.position(), positions[2]);
    reader.set_end(positions[3]);
    assert_eq!(reader.next_event().unwrap().unwrap().end(), positions[3]);
}

/// Rows may have the bytes of headers that claim the rest of the file.
/// Tests READ-2.
#[test]
fn a_claim_inside_an_event_takes_no_memory() {
    for checksum in [Checksum::Crc32, Checksum::None] {
        let format = FormatDescription::new(fixtures::VERSION, 0, checksum);
        let stamp = fixtures::STAMP;
        let mut bytes = new_file(&format, &GtidSet::new(), stamp).unwrap();
        let (at, len) = (bytes.len() as u64, 3 << 20);
        let inner = at + Header::LEN as u64;
        let mut text = Vec::new();
        let claimed = Header {
            timestamp: 1,
            event_type: EventType::ROWS_QUERY,
            server_id: 1,
            len: 2 << 20,
            end_pos: (inner + 1 + (2 << 20)) as u32,
            flags: 0,
        };
        claimed.encode(&mut text);
        text.resize(len, b'x');
        append(&mut bytes, &Event::RowsQuery(&text), stamp, at, checksum).unwrap();
        let end = bytes.len() as u64;
        append(&mut bytes, &Event::Stop, stamp, end, checksum).unwrap();
        let (disk, path) = disk_with(&bytes);
        let mut reader = Reader::open(&disk, &path).unwrap();
        // A byte of the event's own stands before its text.
        reader.seek(inner + 1);
        let error = reader.next_event().unwrap_err();
        match checksum {
            Checksum::Crc32 => assert!(matches!(error.damage, Damage::Checksum { .. }), "{error}"),
            Checksum::None => assert!(matches!(error.damage, Damage::Position { .. }), "{error}"),
        }
        assert!(reader.buffer_bytes() <= 64 << 10, "{}", reader.buffer_bytes());
        // The event itself is given, also to who goes there.
        reader.seek(at);
        assert_eq!(reader.next_event().unwrap().unwrap().end(), end);
        assert_eq!(reader.next_event().unwrap().unwrap().header.event_type, EventType::STOP);
    }
}

#[test]
fn a_closed_file_is_as_good() {
    let (disk, path) = disk_with(&whole());
    assert!(Reader::open(&disk, &path).unwrap().format().in_use);
    mark_closed(&*disk.open(&path, OpenHow::existing(false)).unwrap()).unwrap();
    let mut reader = Reader::open(&disk, &path).unwrap();
    assert!(!reader.format().in_use && reader.next_event().unwrap().is_some());
}

#[test]
fn a_dump_tells_events_rows_and_damage() {
    let mut bytes = whole();
    let text = |bytes: &[u8]| {
        let (disk, path) = disk_with(bytes);
        let mut out = Vec::new();
        dump::dump(&disk, &dump::Request::from(&*path), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let good = text(&bytes);
    assert!(!good.lines().any(|line| line.starts_with('!')), "{good}");
    for part in [
        "binary log of 8.0.36-redolith-0.1.0, checksums Crc32, open",
        "  position 126, 71 bytes, Previous_gtids, server id 7, time 1700000000: \
         3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3",
        ": anonymous, last_committed 0, sequence_number 1",
        "session 11, database 'shop': CREATE TABLE t (a INT)",
        ": table id 4294967297 is shöp.all types, ",
        ", Xid, server id 7, time 1700000000: 4711",
        "Incident, server id 7, time 1700000000: number 1, the disk was full",
        "XA_prepare, server id 7, time 1700000000: 'global','branch',1",
        ": binlog.000002, position 4",
    ] {
        assert!(good.contains(part), "{part}\n{good}");
    }
    bytes[150] ^= 1;
    let bad = text(&bytes);
    let damage: Vec<&str> = bad.lines().filter(|line| line.starts_with('!')).collect();
    assert!(
        matches!(damage[..], [line] if line.starts_with("! position 126: an event of type Pre"))
    );
    assert_eq!(bad.lines().count(), good.lines().count(), "the dump goes on behind the damage");
    assert!(text(b"\xfebix").starts_with("! position 0: it is not a file of the binary log"));
}

/// A TABLE_MAP of a hostile file is a few bytes that name millions of columns, or as many as it
/// has bytes for: more than any table has.
#[test]
fn a_table_with_more_columns_than_tables_have_is_refused() {
    let columns = |count: u64, types: usize| {
        let mut body = vec![0; 8];
        body.extend_from_slice(b"\x01s\0\x01t\0\xfe");
        body.extend_from_slice(&count.to_le_bytes());
        // Columns of type INT, which have no metadata, and a bit for each of them.
        body.resize(body.len() + types, 3);
        body.push(0);
        body.resize(body.len() + types.div_ceil(8), 0);
        let header = Header {
            timestamp: 1,
            event_type: EventType::TABLE_MAP,
            server_id: 1,
            len: (Header::LEN + body.len()) as u32,
            end_pos: 0,
            flags: 0,
        };
        match Event::decode(&header, &body) {
            Ok(Event::TableMap(table)) => Ok(table.columns.len()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(columns(4096, 4096), Ok(4096));
    for (count, types) in [(4097, 4097), (1 << 20, 1 << 20), (u64::MAX, 10), (1 << 40, 10)] {
        let error = columns(count, types).unwrap_err();
        assert!(error.contains("TABLE_MAP"), "{error}");
    }
    assert!(columns(4097, 4097).unwrap_err().contains("4096 columns"));
}

/// The tables of a statement end with it, as for a replica: a hostile file cannot describe millions
/// of tables that are kept for rows to come.
#[test]
fn a_dump_forgets_tables_at_the_end_of_a_statement() {
    let mut bytes = whole();
    let (disk, path) = disk_with(&bytes);
    let mut reader = Reader::open(&disk, &path).unwrap();
    let mut last = None;
    while let Some(event) = reader.next_event().unwrap() {
        if matches!(event.decode().unwrap(), Event::Rows(rows) if rows.is_end_of_statement()) {
            last = Some((event.header, event.bytes.to_vec()));
        }
    }
    let (header, event) = last.unwrap();
    let body = &event[Header::LEN..event.len() - 4];
    let again = Event::decode(&header, body).unwrap();
    let at = bytes.len() as u64;
    append(&mut bytes, &again, fixtures::STAMP, at, Checksum::Crc32).unwrap();
    let (disk, path) = disk_with(&bytes);
    let mut out = Vec::new();
    dump::dump(&disk, &dump::Request::from(&*path), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let undescribed = "no Table_map event before";
    let (before, behind) = text.split_at(text.find(&format!("position {at}, ")).unwrap());
    assert!(behind.contains(undescribed) && !before.contains(undescribed), "{behind}");
}

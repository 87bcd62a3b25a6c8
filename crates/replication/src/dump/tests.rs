use super::*;
use crate::record::{Record, Why};
use crate::rig::{Rig, UUID};
use redolith_binlog::Gtid;
use redolith_disk::sim::OpKind;
use redolith_disk::{Disk, OpenHow};
use std::path::Path;

impl Rig {
    fn dump(&self, file: &str, position: u64) -> Result<Dump, DumpError> {
        let start = Start::File { name: file.into(), position };
        Dump::begin(&self.binlog, start, Some(Checksum::Crc32), &|| true)
    }
}

/// What a dump gives until the end: events as text.
fn all(dump: &mut Dump) -> Result<Vec<String>, DumpError> {
    let mut seen = Vec::new();
    while dump.advance()? == Step::Event {
        seen.push(shown(dump.event()));
    }
    Ok(seen)
}
fn shown(bytes: &[u8]) -> String {
    let header = Header::decode(bytes).unwrap();
    assert_eq!(header.len as usize, bytes.len());
    let crc = bytes.split_last_chunk::<4>().unwrap();
    assert_eq!(redolith_binlog::crc32(crc.0).to_le_bytes(), *crc.1);
    match Event::decode(&header, &crc.0[Header::LEN..]).unwrap() {
        Event::Rotate(r) => {
            let made = header.flags & flags::ARTIFICIAL != 0;
            let name = String::from_utf8_lossy(r.file);
            format!("{}rotate {name}:{}", if made { "made " } else { "" }, r.position)
        }
        Event::FormatDescription(f) => {
            format!("format {} {} {}", header.end_pos, f.created, f.in_use)
        }
        Event::Query(q) => String::from_utf8_lossy(q.text).into_owned(),
        Event::Gtid(g) => format!("gtid {}", g.gtid.map_or(0, |gtid| gtid.number)),
        Event::Heartbeat(name) => {
            format!("heartbeat {}:{}", String::from_utf8_lossy(name), header.end_pos)
        }
        event => event.event_type().name().to_string(),
    }
}

/// Tests REPL-1.
#[test]
fn a_dump_follows_what_is_published_through_rotations_and_stops() {
    let mut rig = Rig::new(1 << 20);
    let mut dump = rig.dump("", 4).unwrap();
    let head = ["made rotate binlog.000001:4", "format 126 1 false", "Previous_gtids"];
    assert_eq!(all(&mut dump).unwrap(), head);
    rig.transaction("a");
    assert_eq!(all(&mut dump).unwrap(), ["gtid 1", "a"]);
    let (name, end) = dump.position();
    assert_eq!((name, end), ("binlog.000001", rig.binlog.end().unwrap().offset));
    let heartbeat = format!("heartbeat binlog.000001:{end}");
    assert_eq!(shown(&dump.heartbeat()), heartbeat);
    // A record that is not durable is in no file.
    rig.append(Record::Barrier.encode());
    assert_eq!(dump.advance().unwrap(), Step::End);
    rig.transaction("b");
    rig.rotate(Why::Flush, 1 << 20);
    rig.transaction("c");
    let next = ["made rotate binlog.000002:4", "format 126 0 false", "Previous_gtids"];
    let closed = ["gtid 2", "b", "rotate binlog.000002:4"];
    let seen = all(&mut dump).unwrap();
    assert_eq!(seen, [&closed[..], &next, &["gtid 3", "c"]].concat());
    rig.append(Record::Stop { us: 5 }.encode());
    rig.rotate(Why::Start, 1 << 20);
    let next = ["made rotate binlog.000003:4", "format 126 1 false", "Previous_gtids"];
    assert_eq!(all(&mut dump).unwrap(), [&["Stop"][..], &next].concat());
    // A crash ends a file without an event.
    rig.rotate(Why::Start, 1 << 20);
    let next = ["made rotate binlog.000004:4", "format 126 1 false", "Previous_gtids"];
    assert_eq!(all(&mut dump).unwrap(), next);
    assert_eq!(all(&mut rig.dump("binlog.000001", 4).unwrap()).unwrap().len(), 20);
}

/// A dump that waits in a file which is closed meanwhile, and which it cannot open then.
#[test]
fn a_file_that_cannot_be_opened_has_not_ended() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    let mut dump = rig.dump("binlog.000001", 4).unwrap();
    all(&mut dump).unwrap();
    rig.transaction("two");
    rig.rotate(Why::Flush, 1 << 20);
    rig.transaction("three");
    let path = rig.binlog.place().path(1);
    let aside = path.with_extension("aside");
    rig.disk.rename(&path, &aside).unwrap();
    assert!(all(&mut dump).is_err(), "the replica would miss \"two\"");
    rig.disk.rename(&aside, &path).unwrap();
    let rest = all(&mut dump).unwrap().join(" ");
    assert!(rest.contains("two") && rest.contains("three"), "{rest}");
}

/// A file whose end is missing is told before the replica goes on to the next one.
/// Tests REPL-8.
#[test]
fn a_file_without_its_end_is_not_passed_over() {
    /// The ends of a closed file's transactions, a rig whose first file is closed, and that file.
    fn rig(gtids: bool, why: Why) -> (Rig, Vec<u64>, Vec<u8>) {
        let mut rig = Rig::new(1 << 20);
        rig.gtids = gtids;
        rig.rotate(Why::Start, 1 << 20);
        let mut ends = Vec::new();
        for text in ["a", "b", "c"] {
            rig.transaction(text);
            ends.push(rig.binlog.end().unwrap().offset);
        }
        let open = rig.file(2);
        rig.rotate(why, 1 << 20);
        rig.transaction("d");
        (rig, ends, open)
    }
    let told = |rig: &Rig, name: &str, at: u64| {
        let given = rig.dump(name, at).and_then(|mut dump| all(&mut dump));
        given.map(|seen| seen.len()).map_err(|e| e.0)
    };
    let path = Path::new("/data/binlog.000002");
    for (gtids, why) in [(true, Why::Flush), (false, Why::Flush), (true, Why::Start)] {
        let (rig, ends, open) = rig(gtids, why);
        assert!(told(&rig, "", 4).is_ok());
        assert!(ends.iter().all(|end| told(&rig, "binlog.000002", *end).is_ok()));
        let file = rig.disk.open(path, OpenHow::existing(false)).unwrap();
        // Cut between two events.
        file.set_len(ends[1]).unwrap();
        for (name, at) in [("", 4), ("binlog.000002", ends[0]), ("binlog.000002", ends[1])] {
            let error = told(&rig, name, at).unwrap_err();
            let begins = "binary log /data/binlog.000002: its end is missing: ";
            assert!(error.starts_with(begins), "{error}");
        }
        // An older copy, from when the file was open.
        file.set_len(0).unwrap();
        file.write_at(&open, 0).unwrap();
        let error = told(&rig, "", 4).unwrap_err();
        assert!(error.contains("the file was not closed, and binlog.000003 follows"), "{error}");
    }
}

/// The files of another data directory, which was killed, stay in the folder.
#[test]
fn another_log_follows_a_file_that_nobody_closed() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("a");
    rig.transaction("b");
    let mut other = Rig::beside(&rig, 2);
    other.transaction("c");
    assert_eq!(other.binlog.numbers(), [1, 2]);
    let seen = all(&mut other.dump("", 4).unwrap()).unwrap();
    let texts: String = seen.iter().filter(|s| s.len() == 1).map(String::as_str).collect();
    assert_eq!(texts, "abc");
}

/// Versions before left a gap where a rotation came beside a reset.
#[test]
fn a_gap_in_the_numbers_is_passed() {
    let mut rig = Rig::new(1 << 20);
    rig.rotate_after(Why::Flush, 1 << 20, 9);
    rig.transaction("a");
    assert_eq!(rig.binlog.numbers(), [1, 10]);
    let seen = all(&mut rig.dump("", 4).unwrap()).unwrap();
    assert_eq!(seen[3], "rotate binlog.000010:4");
    assert_eq!(seen.last().map(String::as_str), Some("a"));
}

/// Long events of a file without checksums are read from where the dump stands: the way there is
/// not walked again, and no worker waits for it.
#[test]
fn long_events_without_checksums_are_read_once() {
    let mut rig = Rig::new(64 << 20);
    rig.checksum = Checksum::None;
    rig.rotate(Why::Flush, 64 << 20);
    for _ in 0..200 {
        rig.transaction(&"x".repeat(9000));
    }
    let start = Start::File { name: b"binlog.000002".to_vec(), position: 4 };
    let mut dump = Dump::begin(&rig.binlog, start, Some(Checksum::Crc32), &|| true).unwrap();
    while dump.advance().unwrap() == Step::Event {}
    rig.disk.keep_journal();
    let reads = |rig: &Rig| {
        let journal = rig.disk.take_journal();
        rig.disk.keep_journal();
        let of_file = |path: &Path| path.ends_with("binlog.000002");
        journal.iter().filter(|(kind, path)| *kind == OpKind::Read && of_file(path)).count()
    };
    reads(&rig);
    for _ in 0..5 {
        rig.transaction(&"y".repeat(100_000));
        let mut events = 0;
        while dump.advance().unwrap() == Step::Event {
            events += 1;
        }
        assert_eq!(events, 2);
        let reads = reads(&rig);
        assert!((1..=2).contains(&reads), "{reads} reads");
    }
}

#[test]
fn a_dump_begins_at_an_event_and_nowhere_else() {
    let mut rig = Rig::new(1 << 20);
    let first = rig.binlog.end().unwrap().offset;
    rig.transaction("a");
    let second = rig.binlog.end().unwrap().offset;
    let seen = all(&mut rig.dump("binlog.000001", first).unwrap()).unwrap();
    let made = format!("made rotate binlog.000001:{first}");
    assert_eq!(seen, [&made, "format 0 0 false", "gtid 1", "a"]);
    let mut dump = rig.dump("binlog.000001", second).unwrap();
    assert_eq!(all(&mut dump).unwrap().len(), 2);
    rig.transaction("b");
    assert_eq!(all(&mut dump).unwrap(), ["gtid 2", "b"]);
    for position in (5..rig.binlog.end().unwrap().offset + 9).filter(|n| *n != 126) {
        match rig.dump("binlog.000001", position) {
            Err(e) => assert_eq!(e.0, BEHIND),
            Ok(mut dump) => assert!(all(&mut dump).is_ok(), "{position}"),
        }
    }
    let error = |file: &str, position| rig.dump(file, position).err().unwrap().0;
    assert_eq!(error("binlog.000001", 3), BEFORE);
    for unknown in ["binlog.000002", "binlog.1", "other.000001", "binlog.index", "/\0"] {
        assert_eq!(error(unknown, 4), UNKNOWN_FILE);
    }
    let start = Start::File { name: Vec::new(), position: 4 };
    let mut dump = Dump::begin(&rig.binlog, start, None, &|| true).unwrap();
    assert_eq!(dump.advance().unwrap(), Step::Event);
    assert_eq!(dump.advance().unwrap_err().0, NO_CHECKSUMS);
}

/// Tests REPL-2.
#[test]
fn a_damaged_event_is_told_and_not_given() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("a");
    let at = rig.binlog.end().unwrap().offset;
    rig.transaction("b");
    rig.transaction("c");
    let path = Path::new("/data/binlog.000001");
    rig.disk.flip_bit(path, at + 30, 1).unwrap();
    let mut dump = rig.dump("binlog.000001", 4).unwrap();
    let mut seen = Vec::new();
    let error = loop {
        match dump.advance() {
            Ok(_) => seen.push(shown(dump.event())),
            Err(e) => break e.0,
        }
    };
    assert_eq!(seen[3..], ["gtid 1", "a"]);
    let wanted = format!("binary log /data/binlog.000001, position {at}: an event of type");
    assert!(error.starts_with(&wanted), "{error}");
}

/// Tests REPL-1: whatever a replica asks for, it gets whole events, in order, or an error.
#[test]
fn any_request_gets_whole_events_or_an_error() {
    let mut rig = Rig::new(1 << 20);
    for n in 0..12 {
        rig.transaction(&"x".repeat(n * 97));
        if n % 4 == 3 {
            rig.rotate(Why::Flush, 1 << 20);
        }
    }
    let end = rig.binlog.end().unwrap();
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut begun, mut refused) = (0, 0);
    for n in 0..3000 {
        let start = if n % 3 == 0 {
            let mut has = GtidSet::new();
            (0..random(6)).for_each(|_| {
                has.add(Gtid { uuid: UUID, number: 1 + random(14) });
            });
            Start::Gtids(has)
        } else {
            let name = format!("binlog.{:06}", random(6));
            let name = name.as_bytes()[..13 - random(14) as usize / 13].to_vec();
            let position = if random(4) == 0 { 126 } else { random(2000) };
            Start::File { name, position }
        };
        let Ok(mut dump) = Dump::begin(&rig.binlog, start, Some(Checksum::Crc32), &|| true) else {
            refused += 1;
            continue;
        };
        begun += 1;
        let mut before = dump.given_up_to();
        while let Ok(Step::Event) = dump.advance() {
            shown(dump.event());
            let now = dump.given_up_to();
            assert!(before <= now && now <= end);
            let name = dump.position().0.as_bytes().to_vec();
            assert_eq!(dump.acknowledged(&name, now.offset), Some(now));
            assert_eq!(dump.acknowledged(&name, now.offset + 1 + random(99)), None);
            before = now;
        }
    }
    assert!(begun > 300 && refused > 300, "{begun} {refused}");
}

/// Tests LATEST-1 and LATEST-2.
#[test]
fn at_the_end_of_the_log_a_dump_reads_no_file_and_has_no_buffer() {
    let mut rig = Rig::new(1 << 20);
    let mut dump = rig.dump("binlog.000001", 4).unwrap();
    assert_eq!(all(&mut dump).unwrap().len(), 3);
    let at = rig.binlog.end().unwrap();
    rig.transaction("a");
    // A dump that reads the file meets this.
    let path = Path::new("/data/binlog.000001");
    rig.disk.flip_bit(path, at.offset + 30, 1).unwrap();
    assert_eq!(dump.advance().unwrap(), Step::Event);
    assert!(!dump.may_block() && !dump.is_last());
    assert_eq!(shown(dump.event()), "gtid 1");
    assert_eq!(dump.advance().unwrap(), Step::Event);
    assert!(dump.is_last());
    assert_eq!(dump.advance().unwrap(), Step::End);
    assert_eq!((dump.bytes(), rig.binlog.bytes_behind(dump.given_up_to())), (0, 0));
    assert_eq!(rig.binlog.bytes_behind(at), rig.binlog.end().unwrap().offset - at.offset);
    // What is longer than a chunk is read from the file.
    rig.transaction(&"y".repeat(100_000));
    rig.transaction("b");
    let seen = all(&mut dump).unwrap();
    assert_eq!((seen.len(), &seen[3][..]), (4, "b"));
    let end = rig.binlog.end().unwrap();
    rig.rotate(Why::Flush, 1 << 20);
    let next = rig.binlog.end().unwrap();
    let rotate = rig.file(1).len() as u64 - end.offset;
    assert_eq!(rig.binlog.bytes_behind(end), rotate + next.offset);
    // Only what the dump has given may be acknowledged.
    let name = b"binlog.000001";
    assert_eq!(dump.acknowledged(name, end.offset), Some(end));
    assert_eq!(dump.acknowledged(name, end.offset + 1), None);
    for unknown in [&b"binlog.000002"[..], b"binlog.1", b"", b"\xff", b"other.000001"] {
        assert_eq!(dump.acknowledged(unknown, 4), None);
    }
    drop(dump);
    let mut dump = rig.dump("binlog.000001", at.offset).unwrap();
    assert!(all(&mut dump).is_err());
}

#[test]
fn transactions_that_the_replica_has_are_passed_over() {
    let mut rig = Rig::new(1 << 20);
    for text in ["a", "b", "c"] {
        rig.transaction(text);
    }
    rig.rotate(Why::Flush, 1 << 20);
    for text in ["d", "e", "f"] {
        rig.transaction(text);
    }
    let dump = |numbers: &[u64]| {
        let has = numbers.iter().map(|n| Gtid { uuid: UUID, number: *n }).collect();
        Dump::begin(&rig.binlog, Start::Gtids(has), Some(Checksum::Crc32), &|| true)
    };
    let given = |numbers: &[u64]| {
        let seen = all(&mut dump(numbers).unwrap()).unwrap();
        let is_text = |s: &&String| s.len() == 1;
        seen.iter().filter(is_text).map(String::as_str).collect::<String>()
    };
    assert_eq!(given(&[]), "abcdef");
    assert_eq!(given(&[1, 3]), "bdef");
    assert_eq!(given(&[1, 2, 3, 5]), "df");
    assert_eq!(given(&[1, 2, 3, 4, 5, 6]), "");
    assert_eq!(dump(&[1, 2, 3]).unwrap().position().0, "binlog.000002");
    assert_eq!(dump(&[7]).err().unwrap().0, MORE_GTIDS);
    rig.barrier();
    assert_eq!(rig.binlog.purge_before(2).unwrap().files, 1);
    let dump = |numbers: &[u64]| {
        let has = numbers.iter().map(|n| Gtid { uuid: UUID, number: *n }).collect();
        Dump::begin(&rig.binlog, Start::Gtids(has), Some(Checksum::Crc32), &|| true)
    };
    let error = dump(&[1, 3]).err().unwrap().0;
    assert!(error.ends_with(&format!("The missing transactions are '{UUID}:2'")), "{error}");
    assert!(dump(&[1, 2, 3]).is_ok());
    assert_eq!(rig.binlog.purged().unwrap().to_string(), format!("{UUID}:1-3"));
}

#[test]
fn a_file_that_is_read_is_not_purged() {
    let mut rig = Rig::new(1 << 20);
    for _ in 0..3 {
        rig.rotate(Why::Flush, 1 << 20);
    }
    rig.barrier();
    let mut dump = rig.dump("binlog.000002", 4).unwrap();
    let purged = rig.binlog.purge_before(4).unwrap();
    assert_eq!((purged.files, purged.in_use), (1, true));
    assert_eq!(rig.binlog.numbers(), [2, 3, 4]);
    assert_eq!(all(&mut dump).unwrap().len(), 3 + 1 + 3 + 1 + 3);
    let purged = rig.binlog.purge_before(4).unwrap();
    assert_eq!((purged.files, purged.in_use), (2, false));
    drop(dump);
    assert_eq!(rig.dump("binlog.000001", 4).err().unwrap().0, UNKNOWN_FILE);
}

/// Tests REPL-3.
#[test]
fn a_dump_gives_the_bytes_of_the_files_with_little_memory() {
    let mut rig = Rig::new(64 << 10);
    for n in 0..300 {
        rig.transaction(&"x".repeat(n * 37 % 2000));
    }
    rig.transaction(&"y".repeat(3 << 20));
    rig.transaction("z");
    let mut dump = rig.dump("", 4).unwrap();
    let (mut files, mut most) = (vec![Vec::new()], 0);
    while dump.advance().unwrap() == Step::Event {
        let header = Header::decode(dump.event()).unwrap();
        if header.flags & flags::ARTIFICIAL != 0 {
            files.push(b"\xfebin".to_vec());
        } else {
            files.last_mut().unwrap().extend_from_slice(dump.event());
        }
        most = most.max(dump.bytes());
    }
    assert!((3 << 20..4 << 20).contains(&most), "{most}");
    assert!(dump.bytes() <= 64 << 10, "{}", dump.bytes());
    assert_eq!(files.len() as u32 - 1, rig.binlog.end().unwrap().file);
    for (number, seen) in files.iter().enumerate().skip(1) {
        let mut file = rig.file(number as u32);
        file[21] = 0;
        assert!(&file == seen, "file {number}");
    }
}

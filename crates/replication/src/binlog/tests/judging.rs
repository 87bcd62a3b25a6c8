//! Damage that a start finds in the binary log: it is told before anything is written.
use super::*;
use redolith_disk::SimDisk;
use std::path::Path;

/// Judges the binary log on the rig's disk, as a start does.
pub(super) fn judged(rig: &Rig, state: &[u8], records: &[(Lsn, Vec<u8>)]) -> Result<Arc<Binlog>> {
    let again = Binlog::new(rig.disk.clone(), rig.binlog.place().clone()).unwrap();
    again.judge(state)?;
    records.iter().try_for_each(|(at, record)| again.judge_record(*at, record))?;
    again.judge_end()?;
    Ok(again)
}
/// Starts the binary log on the rig's disk.
fn started(rig: &Rig, state: &[u8], records: &[(Lsn, Vec<u8>)]) -> Arc<Binlog> {
    let again = judged(rig, state, records).unwrap();
    records.iter().for_each(|(at, record)| again.replay(*at, record).unwrap());
    again.begin(Lsn(rig.lsn)).unwrap();
    again
}
/// Why the start is refused. Nothing of the folder has changed then.
pub(super) fn refused(rig: &Rig, state: &[u8], records: &[(Lsn, Vec<u8>)]) -> String {
    let before = picture(rig);
    let why = judged(rig, state, records).err().expect("the start is refused").to_string();
    assert!(picture(rig) == before, "the start was refused, and has changed the folder: {why}");
    why
}
pub(super) fn picture(rig: &Rig) -> BTreeMap<String, Vec<u8>> {
    let dir = &rig.binlog.place().dir;
    let names = rig.disk.list(dir).unwrap().into_iter();
    names.map(|name| (name.clone(), rig.disk.contents(&dir.join(name)).unwrap())).collect()
}
pub(super) fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenHow::create(false)).unwrap();
    file.set_len(0).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
}
fn put_index(rig: &Rig, numbers: &[u32]) {
    let lines: String = numbers.iter().map(|n| format!("./binlog.{n:06}\n")).collect();
    put(&rig.disk, &rig.binlog.place().index(), lines.as_bytes());
}
pub(super) fn record(n: u64, text: &str) -> Vec<u8> {
    let sealed = events(text.as_bytes()).seal(STAMP, &GtidTemplate::default()).unwrap();
    transaction(n, None, sealed.as_bytes())
}

/// A damaged spill file would get valid checksums where its events are placed. Tests SPILL-2.
#[test]
fn a_damaged_spill_file_is_refused_before_anything_is_written() {
    let mut rig = Rig::new(1 << 30);
    let binlog = rig.binlog.clone();
    rig.transaction("before");
    rig.barrier();
    let state = binlog.state();
    let Large { drained, spill, record, path } = Large::new(&rig);
    let name = path.file_name().unwrap().to_str().unwrap().to_string();
    let records = [(Lsn(rig.lsn), record)];
    let file = rig.disk.open(&path, OpenHow::existing(false)).unwrap();
    // The body of the last event, and the length of the third.
    for at in [drained.len() - 9, drained.len() / 2 + 10] {
        file.write_at(&[drained[at] ^ 1], at as u64).unwrap();
        let why = refused(&rig, &state, &records);
        assert!(why.contains(&name) && why.contains("its checksum is wrong"), "{why}");
        assert!(why.contains("LSN") && why.contains("innodb_force_recovery=1"), "{why}");
        file.write_at(&drained[at..=at], at as u64).unwrap();
    }
    file.set_len(drained.len() as u64 - 1).unwrap();
    let why = refused(&rig, &state, &records);
    let lens = format!("{} bytes, and had {}", drained.len() - 1, drained.len());
    assert!(why.contains(&name) && why.contains(&lens), "{why}");
    rig.disk.remove(&path).unwrap();
    assert!(refused(&rig, &state, &records).contains(&name));
    put(&rig.disk, &path, &drained);
    // A running server does not copy a damaged file, either.
    put(&rig.disk, &path, &[&drained[..drained.len() - 9], &[0; 9]].concat());
    let before = rig.file(1);
    rig.append(records[0].1.clone());
    spill.keep();
    assert!(binlog.advance(Lsn(rig.lsn)).unwrap_err().to_string().contains(&name));
    assert!(rig.file(1) == before);
    put(&rig.disk, &path, &drained);
    rig.binlog = started(&rig, &state, &records);
    assert_eq!(texts(&rig).len(), 5);
}

/// Where the redo log has no record behind the state, the state tells how long the file is.
#[test]
fn a_longer_file_is_refused_after_a_clean_stop() {
    let mut rig = Rig::new(1 << 20);
    let place = rig.binlog.place().clone();
    (0..100).for_each(|n| rig.transaction(&format!("a longer text {n}")));
    rig.rotate(Why::Flush, 1 << 20);
    rig.transaction("one");
    rig.barrier();
    let (state, first, second) = (rig.binlog.state(), rig.file(1), rig.file(2));
    judged(&rig, &state, &[]).unwrap();
    put(&rig.disk, &place.path(2), &[&second[..], b"left"].concat());
    let why = refused(&rig, &state, &[]);
    let lens = format!("{} bytes, and ", second.len() + 4);
    assert!(why.contains("binlog.000002 has") && why.contains(&lens), "{why}");
    assert!(why.contains(&format!(" has {} bytes of it", second.len())), "{why}");
    // Another file of the log, and what is no file of a log, also behind a crash.
    let after = [(Lsn(rig.lsn), record(3, "two"))];
    for wrong in [&first[..], &vec![7; second.len()], &[&first[..4], &second[..]].concat()] {
        put(&rig.disk, &place.path(2), wrong);
        for records in [&[][..], &after[..]] {
            let why = refused(&rig, &state, records);
            assert!(why.contains("binlog.000002") && why.contains("restore it"), "{why}");
        }
    }
    put(&rig.disk, &place.path(2), &second);
    rig.binlog = started(&rig, &state, &after);
    assert_eq!(texts(&rig).len(), 102);
}

/// What the redo log does not have is kept, whatever the start writes over it.
/// Tests BINLOG-FILES-6.
#[test]
fn a_file_is_copied_before_a_start_cuts_it() {
    let mut rig = Rig::new(1 << 20);
    let place = rig.binlog.place().clone();
    rig.transaction("one");
    rig.barrier();
    let state = rig.binlog.state();
    let records = [(Lsn(rig.lsn), record(3, "two"))];
    rig.append(records[0].1.clone());
    rig.publish();
    let made = rig.file(1);
    let longer = [&made[..made.len() - 40], &[9; 400]].concat();
    for (round, name) in [".set-aside", ".set-aside.2"].into_iter().enumerate() {
        put(&rig.disk, &place.path(1), &longer);
        rig.binlog = started(&rig, &state, &records);
        assert!(rig.file(1) == made, "{round}");
        let mut aside = place.path(1);
        aside.as_mut_os_string().push(name);
        assert!(rig.disk.contents(&aside).unwrap() == longer, "{round}");
    }
    // Of a file that another follows the redo log has every byte.
    let options = rig.binlog.options();
    let flush = Record::Rotate { why: Why::Flush, us: 1_000_000, after: 0, options }.encode();
    let records = [records[0].clone(), (Lsn(rig.lsn), flush)];
    put(&rig.disk, &place.path(1), &longer);
    let why = refused(&rig, &state, &records);
    assert!(why.contains("binlog.000001 has"), "{why}");
    // A file that the index does not name is not the log's.
    put(&rig.disk, &place.path(1), &made);
    put(&rig.disk, &place.path(2), b"another's");
    rig.binlog = started(&rig, &state, &records);
    assert_eq!(rig.binlog.numbers(), [1, 2]);
    let mut aside = place.path(2);
    aside.as_mut_os_string().push(".set-aside");
    assert_eq!(rig.disk.contents(&aside).unwrap(), b"another's");
}

/// Files that a start makes again are not made over others.
#[test]
fn confused_files_are_refused() {
    let mut rig = Rig::new(1 << 20);
    let place = rig.binlog.place().clone();
    rig.transaction("one");
    rig.rotate(Why::Flush, 1 << 20);
    rig.transaction("two");
    rig.barrier();
    let state = rig.binlog.state();
    let options = rig.binlog.options();
    let flush = Record::Rotate { why: Why::Flush, us: 1_000_000, after: 0, options }.encode();
    let at = |n: u64| Lsn(rig.lsn + 100 * n);
    let records = [(at(0), flush), (at(1), record(3, "three"))];
    records.iter().for_each(|(_, record)| rig.append(record.clone()));
    rig.publish();
    let [first, third] = [1, 3].map(|n| rig.file(n));
    put(&rig.disk, &place.path(3), &first);
    put(&rig.disk, &place.path(1), &third);
    let why = refused(&rig, &state, &records);
    assert!(why.contains("binlog.000003 begins as another file"), "{why}");
    // What a power loss leaves of the file is written over.
    put(&rig.disk, &place.path(1), &first);
    for left in [&[0; 300][..], &third[..50], &third[..130], b""] {
        put(&rig.disk, &place.path(3), left);
        rig.binlog = started(&rig, &state, &records);
        assert!(rig.file(3) == third);
    }
}

/// A damaged number in the index is neither the name of a removed file nor a new log's first.
#[test]
fn a_damaged_number_in_the_index_is_refused() {
    let mut rig = Rig::new(1 << 20);
    let place = rig.binlog.place().clone();
    for _ in 0..5 {
        rig.transaction("some");
        rig.rotate(Why::Flush, 1 << 20);
    }
    rig.barrier();
    let state = rig.binlog.state();
    for n in [1, 2, 3] {
        rig.disk.remove(&place.path(n)).unwrap();
    }
    // The file of before is removed, and its name is not.
    put_index(&rig, &[3, 4, 5, 6]);
    assert_eq!(started(&rig, &state, &[]).numbers(), [4, 5, 6]);
    put_index(&rig, &[3, 5, 6]);
    let why = refused(&rig, &state, &[]);
    for part in ["line 1", "\"./binlog.000003\"", "/data/binlog.000004"] {
        assert!(why.contains(part), "{why}");
    }
    // A name between two others, on either side of the file.
    rig.disk.remove(&place.path(5)).unwrap();
    rig.disk.rename(&place.path(6), &place.path(9)).unwrap();
    for file in [5, 7] {
        put(&rig.disk, &place.path(file), b"a file");
        put_index(&rig, &[4, 6, 9]);
        let state = State { file: 9, ..State::decode(&state).unwrap() }.encode();
        let why = refused(&rig, &state, &[]);
        assert!(why.contains("line 2"), "{why}");
        rig.disk.remove(&place.path(file)).unwrap();
        judged(&rig, &state, &[]).unwrap();
    }
    // The last name, which the redo log has still to come to.
    rig.disk.rename(&place.path(9), &place.path(6)).unwrap();
    let options = rig.binlog.options();
    let flush = Record::Rotate { why: Why::Flush, us: 1_000_000, after: 0, options }.encode();
    let flush = [(Lsn(rig.lsn), flush)];
    put(&rig.disk, &place.path(7), b"a file");
    for wrong in [8, 9, 71] {
        put_index(&rig, &[4, 6, wrong]);
        let why = refused(&rig, &state, &flush);
        assert!(why.contains("line 3") && why.contains("binlog.000007"), "{why}");
    }
    rig.disk.remove(&place.path(7)).unwrap();
    put_index(&rig, &[4, 6, 7]);
    judged(&rig, &state, &flush).unwrap();
    // The one file of the log.
    put_index(&rig, &[7]);
    let why = refused(&rig, &state, &[]);
    assert!(why.contains("does not name /data/binlog.000006"), "{why}");
    // Such an index is right where the file of before is gone, or the next is there.
    let moved = place.dir.join("moved");
    rig.disk.rename(&place.path(6), &moved).unwrap();
    assert_eq!(started(&rig, &state, &[]).numbers(), [7]);
    rig.disk.rename(&moved, &place.path(6)).unwrap();
    assert_eq!(started(&rig, &state, &[]).numbers(), [7]);
}

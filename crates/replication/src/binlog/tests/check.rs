//! `redolith check` of a binary log.
use super::judging::{picture, put, record};
use super::order::Log;
use super::*;
use crate::check::{Checked, check};
use redolith_engine::Told;

/// Checks the log as the command does. Returns the damage, and the notes.
fn checked(log: &Log) -> (Checked, Vec<String>, Vec<String>) {
    checked_with(log, &[])
}
/// Does the same with records in the redo log.
fn checked_with(log: &Log, records: &[(Lsn, Vec<u8>)]) -> (Checked, Vec<String>, Vec<String>) {
    let before = picture(&log.rig);
    let again = Binlog::new(log.rig.disk.clone(), log.rig.binlog.place().clone()).unwrap();
    let judge = || -> Result<()> {
        again.judge(&log.state)?;
        records.iter().try_for_each(|(at, record)| again.judge_record(*at, record))?;
        again.judge_end()
    };
    let judged = judge();
    let (mut damage, mut notes, mut last) = (Vec::new(), Vec::new(), (0, 0));
    let sums = check(&*log.rig.disk, &again, &mut |told| match told {
        Told::Damage(why) => damage.push(why),
        Told::Note(what) => notes.push(what),
        Told::Progress(done, of) => last = (done, of),
    });
    assert_eq!((sums.damaged, last.0), (damage.len() as u64, last.1));
    assert!(picture(&log.rig) == before, "BINLOG-CHECK-1");
    // The engine tells why it would refuse a start.
    damage.extend(judged.err().map(|e| e.to_string()));
    (sums, damage, notes)
}

/// What is told of the files of a rig, of which a start has judged the state and some records, and
/// perhaps the end: damage and notes.
pub(super) fn told(
    rig: &Rig,
    state: &[u8],
    records: &[(Lsn, Vec<u8>)],
    to_the_end: bool,
) -> (Vec<String>, Vec<String>) {
    let again = Binlog::new(rig.disk.clone(), rig.binlog.place().clone()).unwrap();
    again.judge(state).unwrap();
    records.iter().for_each(|(at, record)| again.judge_record(*at, record).unwrap());
    if to_the_end {
        again.judge_end().unwrap();
    }
    let (mut damage, mut notes) = (Vec::new(), Vec::new());
    check(&*rig.disk, &again, &mut |told| match told {
        Told::Damage(why) => damage.push(why),
        Told::Note(what) => notes.push(what),
        Told::Progress(..) => {}
    });
    (damage, notes)
}

/// Each byte of the files is covered. Tests BINLOG-CHECK-2.
#[test]
fn damage_is_named_with_its_file_and_position() {
    for gtids in [true, false] {
        let log = Log::new(gtids);
        let (sums, damage, notes) = checked(&log);
        assert_eq!((damage, notes), (Vec::new(), Vec::new()));
        let bytes: usize = log.files.iter().map(Vec::len).sum();
        assert_eq!((sums.files, sums.transactions, sums.bytes), (4, 7, bytes as u64));
        for number in 1..=4u32 {
            let (path, good) =
                (log.rig.binlog.place().path(number), &log.files[number as usize - 1]);
            let name = format!("binlog.{number:06}");
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x40;
                put(&log.rig.disk, &path, &bad);
                let (_, damage, _) = checked(&log);
                assert!(damage.iter().any(|why| why.contains(&name)), "{name} {at}: {damage:?}");
            }
            // A file that is cut between two events, or within one.
            for len in [good.len() - 1, good.len() / 2, 126, 3, 0] {
                put(&log.rig.disk, &path, &good[..len]);
                let (_, damage, _) = checked(&log);
                let is_told = damage.iter().any(|why| why.contains(&name));
                assert!(is_told, "{name} cut to {len}: {damage:?}");
            }
            put(&log.rig.disk, &path, good);
        }
    }
}

/// Tests BINLOG-CHECK-2: what lies behind the place where a start goes on is made again, and may be
/// anything.
#[test]
fn what_a_start_makes_again_is_no_damage() {
    let mut log = Log::new(true);
    let at = Lsn(log.rig.lsn);
    log.rig.transaction("behind the state");
    let records = [(at, record(2, "behind the state"))];
    let (path, whole) = (log.rig.binlog.place().path(4), log.rig.file(4));
    for cut in log.files[3].len()..whole.len() {
        put(&log.rig.disk, &path, &whole[..cut]);
        let (sums, damage, _) = checked_with(&log, &records);
        assert_eq!((damage, sums.transactions), (Vec::new(), 7));
    }
}

/// A log of which no state tells how far its last file was durable. Tests BINLOG-CHECK-4.
#[test]
fn the_last_file_of_another_log_may_end_as_a_crash_leaves_it() {
    for gtids in [true, false] {
        let log = Log::new(gtids);
        let (path, good) = (log.rig.binlog.place().path(4), &log.files[3]);
        let told = |state: &[u8]| told(&log.rig, state, &[], true);
        for end in 0..good.len() {
            let zeros = [&good[..end], &vec![0; good.len() - end + 3]].concat();
            for left in [&good[..end], &zeros, &zeros[..end + 3]] {
                put(&log.rig.disk, &path, left);
                assert_eq!(told(b"").0, Vec::<String>::new(), "{end} of {}", left.len());
            }
            // Zeros are damage where they are not the end.
            put(&log.rig.disk, &path, &[&zeros[..good.len()], b"more"].concat());
            assert!(end + 20 > good.len() || !told(b"").0.is_empty(), "{end}");
        }
        // A closed file is whole.
        put(&log.rig.disk, &path, good);
        let (path, good) = (log.rig.binlog.place().path(3), &log.files[2]);
        put(&log.rig.disk, &path, &[&good[..good.len() - 40], &[0; 40]].concat());
        let (damage, _) = told(b"");
        assert!(damage.iter().any(|why| why.contains("binlog.000003")), "{damage:?}");
    }
}

/// A data directory whose first checkpoint knows nothing of its binary log makes all of it again.
/// The last file of the log before ends as a crash leaves it. Tests BINLOG-CHECK-2.
#[test]
fn the_files_of_a_log_without_a_state_are_made_again() {
    let first = Rig::new(1 << 30);
    let other = Rig::beside(&first, 8);
    let (place, own) = (other.binlog.place(), other.file(2));
    let records = [(Lsn(0), { Rig::of_server(8).rotation(Why::Start, 1 << 20, 1) })];
    for end in 0..own.len() {
        let zeros = [&own[..end], &vec![0; own.len() - end]].concat();
        put(&other.disk, &place.path(2), &zeros);
        let (damage, notes) = told(&other, b"", &records, true);
        assert_eq!(damage, Vec::<String>::new());
        assert!(notes[0].contains("000002 lies behind the place"), "{notes:?}");
    }
    let of_before = first.file(1);
    put(&first.disk, &place.path(1), &[&of_before[..40], &[0; 100]].concat());
    let (damage, notes) = told(&other, b"", &records, true);
    assert!(damage.is_empty() && notes[0].contains("as a crash leaves it"), "{damage:?} {notes:?}");
}

/// A mark of a reset that the data directory knows nothing of. Tests BINLOG-CHECK-4.
#[test]
fn files_that_a_reset_of_another_log_has_removed_are_no_damage() {
    let log = Log::new(true);
    let place = log.rig.binlog.place();
    log.rig.disk.remove(&place.path(3)).unwrap();
    assert!(told(&log.rig, b"", &[], true).0[0].contains("is missing"));
    let digits = crc32c::crc32c(b"7");
    put(&log.rig.disk, &place.reset_mark(), format!("7 {digits:08x}\n").as_bytes());
    let (damage, notes) = told(&log.rig, b"", &[], true);
    assert!(damage.is_empty() && notes[0].contains("000003 is gone"), "{damage:?} {notes:?}");
    // The state has passed the reset that the mark is of.
    let (damage, _) = told(&log.rig, &log.state, &[], true);
    assert!(damage[0].contains("is missing"), "{damage:?}");
}

/// Transactions that are out of order, twice there or missing, in files whose events are whole.
#[test]
fn the_order_of_transactions_is_checked() {
    let log = Log::new(true);
    let first = &log.files[0];
    // The two transactions of the first file, and what comes before and behind them.
    let mut reader = log.rig.binlog.open_file(1).unwrap().0;
    let mut begins = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let is_end = event.header.event_type == redolith_binlog::EventType::ROTATE;
        if is_end || event.header.event_type == redolith_binlog::EventType::GTID {
            begins.push(event.position as usize);
        }
    }
    let [one, two, end] = begins[..] else { panic!("{begins:?}") };
    let moved = |parts: &[(usize, usize)]| {
        let mut bytes = first[..one].to_vec();
        for (from, to) in parts.iter().copied().chain([(end, first.len())]) {
            let mut at = from;
            while at < to {
                let mut header = redolith_binlog::Header::decode(&first[at..]).unwrap();
                let event = &first[at..][..header.len as usize];
                header.end_pos = bytes.len() as u32 + header.len;
                let begin = bytes.len();
                header.encode(&mut bytes);
                let body = redolith_binlog::Header::LEN..event.len() - 4;
                bytes.extend_from_slice(&event[body]);
                let crc = redolith_binlog::crc32(&bytes[begin..]);
                bytes.extend_from_slice(&crc.to_le_bytes());
                at += event.len();
            }
        }
        bytes
    };
    let path = log.rig.binlog.place().path(1);
    assert!(moved(&[(one, two), (two, end)]) == *first);
    for (parts, why) in [
        (vec![(two, end), (one, two)], "it is not at its place"),
        (vec![(one, two), (two, end), (two, end)], "has the name"),
        (vec![(one, two)], "PREVIOUS_GTIDS has"),
    ] {
        put(&log.rig.disk, &path, &moved(&parts));
        let (_, damage, _) = checked(&log);
        assert!(damage.iter().any(|told| told.contains(why)), "{why}: {damage:?}");
    }
}

/// Tests BINLOG-CHECK-3.
#[test]
fn a_long_event_is_checked_in_pieces() {
    let mut log = Log::new(true);
    log.rig.transaction(&"long ".repeat(1 << 20));
    log.rig.barrier();
    log.state = log.rig.binlog.state();
    let (sums, damage, _) = checked(&log);
    assert_eq!((sums.transactions, damage), (8, Vec::new()));
    let mut reader = log.rig.binlog.open_file(4).unwrap().0;
    while reader.next_in_pieces().unwrap().is_some() {
        assert!(reader.buffer_bytes() <= 64 << 10, "BINLOG-CHECK-3");
    }
    let path = log.rig.binlog.place().path(4);
    let mut bytes = log.rig.file(4);
    let middle = bytes.len() - (2 << 20);
    bytes[middle] ^= 1;
    put(&log.rig.disk, &path, &bytes);
    let (_, damage, _) = checked(&log);
    assert!(damage[0].contains("binlog.000004") && damage[0].contains("damaged"), "{damage:?}");
}

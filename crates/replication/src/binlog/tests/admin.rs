//! Tests of resets, of expiry, and of options that change while the log is written.
use super::*;
use crate::dump::{Dump, Start, Step};
use redolith_binlog::{Header, StatusVars, Uuid};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn sealed(checksum: Checksum, text: &[u8]) -> Vec<u8> {
    let options = EncodeOptions { checksum, ..EncodeOptions::default() };
    let mut builder = TransactionBuilder::new(options);
    builder.query(STAMP, &Query { text, ..Query::default() }).unwrap();
    builder.seal(STAMP, &GtidTemplate::default()).unwrap().as_bytes().to_vec()
}
fn reset(rig: &mut Rig, first: u32) {
    rig.append(Record::Reset { us: 5_000_000, first }.encode());
    rig.publish();
}
/// Every event of every file has a right checksum, position and length: the reader checks them.
fn lengths_are_right(rig: &Rig) {
    for number in rig.binlog.numbers() {
        let mut reader = rig.binlog.open_file(number).unwrap().0;
        let mut expected = None;
        while let Some(event) = reader.next_event().unwrap() {
            if let Event::Gtid(gtid) = event.decode().unwrap() {
                assert!(expected.is_none_or(|end| end == event.position));
                expected = Some(event.position + gtid.transaction_len);
            }
        }
    }
}

/// Tests REPL-7.
#[test]
fn a_reset_begins_anew() {
    let mut rig = Rig::new(4096);
    let text = "x".repeat(1500);
    (0..6).for_each(|n| rig.transaction(&format!("{n} {text}")));
    assert!(rig.binlog.numbers().len() > 2);
    let binlog = rig.binlog.clone();
    let name = binlog.numbers().last().map(|n| file::file_name("binlog", *n)).unwrap();
    let mut dumps = ["binlog.000001".to_string(), name].map(|name| {
        let start = Start::File { name: name.into(), position: 4 };
        Dump::begin(&binlog, start, Some(Checksum::Crc32), &|| true).unwrap()
    });
    for dump in &mut dumps {
        while dump.advance().unwrap() == Step::Event {}
    }
    assert!(!binlog.status().executed.is_empty());
    reset(&mut rig, 1);
    assert_eq!(binlog.numbers(), [1]);
    assert!(texts(&rig).is_empty());
    assert!(binlog.status().executed.is_empty() && binlog.purged().unwrap().is_empty());
    for dump in &mut dumps {
        assert!(dump.advance().unwrap_err().0.contains("begun anew"));
    }
    rig.transaction("after");
    assert_eq!(texts(&rig), ["after"]);
    assert_eq!(binlog.status().executed.to_string(), format!("{}:1", crate::rig::UUID));
    reset(&mut rig, 42);
    rig.transaction("again");
    assert_eq!((binlog.numbers(), texts(&rig)), (vec![42], vec!["again".to_string()]));
    // The checkpoint may pass the reset at once, and then the mark goes.
    assert_eq!(State::decode(&binlog.state()).unwrap().file, 42);
    assert!(rig.disk.exists(&binlog.place().reset_mark()));
    binlog.remove_spills(binlog.limit());
    assert!(!rig.disk.exists(&binlog.place().reset_mark()));
    for wrong in [0, u32::MAX] {
        let mut maker = Maker::new("binlog", State::default());
        let record = Record::Reset { us: 1, first: wrong }.encode();
        assert!(maker.take(Lsn(5), &record).is_err(), "{wrong}");
    }
}

/// Tests LATEST-3.
#[test]
fn a_dump_that_is_behind_a_reset_gets_nothing_of_the_log_behind_it() {
    let mut rig = Rig::new(64 << 20);
    let start = Start::File { name: "binlog.000001".into(), position: 4 };
    let mut dump = Dump::begin(&rig.binlog, start, Some(Checksum::Crc32), &|| true).unwrap();
    (0..4).for_each(|n| rig.transaction(&format!("old {n}")));
    // The ROTATE, the FORMAT_DESCRIPTION, PREVIOUS_GTIDS, and the first transaction.
    for _ in 0..5 {
        assert_eq!(dump.advance(), Ok(Step::Event));
    }
    reset(&mut rig, 1);
    // The events of the new log are where those of the old one were.
    (0..9).for_each(|n| rig.transaction(&format!("new {n}")));
    let mut events = Vec::new();
    let ended = loop {
        match dump.advance() {
            Ok(Step::Event) => events.extend_from_slice(dump.event()),
            Ok(Step::End) => panic!("the log has begun anew"),
            Err(e) => break e,
        }
    };
    assert!(ended.0.contains("begun anew"), "{ended}");
    assert!(!events.windows(4).any(|bytes| bytes == b"new "));
}

/// A crash at any step of a reset: the start ends with the new log, and with nothing of the old
/// one, and what the crash has left is no damage. Tests BINLOG-FILES-2, BINLOG-FILES-3 and
/// BINLOG-CHECK-2.
#[test]
fn a_reset_is_finished_by_a_start() {
    let text = "x".repeat(1500);
    for op in 1.. {
        let mut rig = Rig::new(4096);
        rig.transaction(&format!("kept by the state {text}"));
        rig.barrier();
        let state = rig.binlog.state();
        let mut records = Vec::new();
        let mut log = |rig: &mut Rig, record: Vec<u8>| {
            records.push((Lsn(rig.lsn), record.clone()));
            rig.append(record);
        };
        for n in 0..4 {
            let events = sealed(Checksum::Crc32, format!("before {n} {text}").as_bytes());
            log(&mut rig, transaction(n, None, &events));
        }
        rig.disk.crash_at_op(op);
        // A sync that fails ends the process.
        let before = catch_unwind(AssertUnwindSafe(|| rig.binlog.advance(Lsn(rig.lsn))));
        assert!(rig.disk.is_stopped() || before.is_ok_and(|ran| ran.is_ok()));
        log(&mut rig, Record::Reset { us: 5_000_000, first: 1 }.encode());
        log(&mut rig, transaction(9, None, &sealed(Checksum::Crc32, b"after")));
        let (binlog, end) = (rig.binlog.clone(), Lsn(rig.lsn));
        let ran = catch_unwind(AssertUnwindSafe(|| binlog.advance(end)));
        let broken = rig.disk.is_stopped();
        assert!(broken || ran.is_ok_and(|ran| ran.is_ok()));
        rig.disk.crash();
        let place = rig.binlog.place().clone();
        for read in [0, records.len() - 2, records.len()] {
            // The redo log may be damaged before the reset, or behind.
            let (damage, notes) = super::check::told(&rig, &state, &records[..read], read > 4);
            assert!(damage.is_empty(), "{op}, {read} records: {damage:?}");
            assert!(read < records.len() || notes[0].contains("RESET BINARY LOGS"), "{notes:?}");
        }
        for round in 0..2 {
            let again = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
            again.judge(&state).unwrap();
            for (at, record) in &records {
                again.replay(*at, record).unwrap();
            }
            again.begin(Lsn(rig.lsn)).unwrap();
            assert_eq!(again.numbers(), [1], "{op} {round}");
            assert_eq!(again.status().executed.to_string(), format!("{}:1", crate::rig::UUID));
            rig.binlog = again;
            assert_eq!(texts(&rig), ["after"], "{op} {round}");
            let names = rig.disk.list(&place.dir).unwrap();
            let files = names.iter().filter(|n| n.contains(".0000")).count();
            assert_eq!(files, 1, "{names:?}");
        }
        if !broken {
            assert!(op > 20, "{op}");
            break;
        }
    }
}

/// A crash at every operation of a purge: each file is gone from the folder and the index, or in
/// both, and the oldest go first. Tests BINLOG-FILES-3.
#[test]
fn a_purge_is_finished_by_a_start() {
    let text = "x".repeat(5000);
    let mut found = std::collections::BTreeSet::new();
    for op in 1.. {
        let mut rig = Rig::new(4096);
        (0..4).for_each(|n| rig.transaction(&format!("{n} {text}")));
        rig.barrier();
        assert_eq!(rig.binlog.numbers(), [1, 2, 3, 4, 5]);
        rig.disk.crash_at_op(op);
        let purged = catch_unwind(AssertUnwindSafe(|| rig.binlog.purge_before(4)));
        let all_gone = |purged: io::Result<Purged>| purged.is_ok_and(|purged| purged.files == 3);
        assert!(rig.disk.is_stopped() || purged.is_ok_and(all_gone));
        let broken = rig.disk.is_stopped();
        rig.disk.crash();
        let place = rig.binlog.place().clone();
        let again = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
        again.judge(&rig.binlog.state()).unwrap();
        again.begin(Lsn(rig.lsn)).unwrap();
        let numbers = again.numbers();
        assert!((1..=4).any(|first| numbers.iter().copied().eq(first..=5)), "{numbers:?}");
        for number in 1..=5 {
            let there = rig.disk.exists(&place.path(number));
            assert_eq!(there, numbers.contains(&number), "{op}: {number} of {numbers:?}");
        }
        assert!(again.purged().is_ok());
        found.insert(numbers[0]);
        if !broken {
            assert!(found.len() > 2, "{found:?}");
            break;
        }
    }
}

/// The state that the next start begins with is older than the state in memory, and its files are
/// needed. Tests BINLOG-FILES-5.
#[test]
fn files_stay_until_a_checkpoint_has_a_later_state() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    rig.barrier();
    let (stored, from) = (rig.binlog.state(), rig.lsn);
    (0..3).for_each(|_| rig.rotate(Why::Flush, 1 << 20));
    rig.append(Record::Barrier.encode());
    rig.publish();
    assert_eq!(rig.binlog.purge_before(4).unwrap().files, 0);
    let place = rig.binlog.place().clone();
    let again = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    again.judge(&stored).unwrap();
    again.begin(Lsn(from)).unwrap();
    assert_eq!(again.numbers(), [1]);
    // A start that finds none of the files that it needs is refused: it would give others' numbers
    // to new files.
    let mut rig = Rig::new(1 << 20);
    rig.barrier();
    let stored = rig.binlog.state();
    (0..3).for_each(|_| rig.rotate(Why::Flush, 1 << 20));
    rig.barrier();
    assert_eq!(rig.binlog.purge_before(4).unwrap().files, 3);
    let again = Binlog::new(rig.disk.clone(), place).unwrap();
    let why = again.judge(&stored).unwrap_err().to_string();
    assert!(why.contains("does not name"), "{why}");
}

#[test]
fn a_mark_without_its_reset_is_judged() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    rig.barrier();
    let state = rig.binlog.state();
    reset(&mut rig, 1);
    let place = rig.binlog.place().clone();
    // The redo log is an older copy that does not have the reset.
    let old = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    old.judge(&state).unwrap();
    assert!(old.judge_end().unwrap_err().to_string().contains("older copy"));
    // Another data directory has nothing to do with the mark.
    let other = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    other.judge(&[]).unwrap();
    other.begin(Lsn(1)).unwrap();
    assert!(!rig.disk.exists(&place.reset_mark()));
    let file = rig.disk.open(&place.reset_mark(), OpenHow::create(false)).unwrap();
    for wrong in [&b"7 00000000\n"[..], b"", b"\xff", &[b'1'; 99]] {
        file.set_len(0).unwrap();
        file.write_at(wrong, 0).unwrap();
        let refused = Binlog::new(rig.disk.clone(), place.clone()).err().unwrap();
        assert!(refused.to_string().contains("is damaged"));
    }
}

/// What was encoded for other checksums is placed as if it had been encoded for the file's.
#[test]
fn checksums_change_under_transactions() {
    let mut rig = Rig::new(1 << 30);
    let mut options = rig.binlog.options();
    for to in [Checksum::None, Checksum::Crc32] {
        options.checksum = to;
        let rotate = Record::Rotate { why: Why::Flush, us: 1, after: 0, options: options.clone() };
        rig.append(rotate.encode());
        for of in [Checksum::None, Checksum::Crc32] {
            rig.append(transaction(2, None, &sealed(of, b"short")));
            let encode = EncodeOptions { checksum: of, ..EncodeOptions::default() };
            let mut builder = TransactionBuilder::new(encode);
            for _ in 0..3 {
                let text = vec![b'x'; 700 << 10];
                builder.query(STAMP, &Query { text: &text, ..Query::default() }).unwrap();
            }
            let drained = builder.drainable().to_vec();
            builder.drain();
            let mut spill = rig.binlog.spill().unwrap();
            spill.append(&drained).unwrap();
            builder.put_first(STAMP, &Query::begin(1, b"", StatusVars::default())).unwrap();
            builder.event(STAMP, &Event::Xid(9)).unwrap();
            let (gtid, rest) = builder.seal_drained(STAMP, &GtidTemplate::default()).unwrap();
            rig.append(spilled(2, None, spill.seal().unwrap(), &gtid, &rest));
            spill.keep();
        }
        rig.publish();
    }
    assert_eq!(texts(&rig).len(), 2 * 2 * 5);
    lengths_are_right(&rig);
    let (old, new) = (rig.file(2), rig.file(3));
    // In each file, the transactions that were encoded in either way have the same length.
    for file in [&old, &new] {
        let mut gtids = Vec::new();
        let mut at = 4;
        while let Ok(header) = Header::decode(&file[at..]) {
            if header.event_type == redolith_binlog::EventType::GTID {
                gtids.push(at);
            }
            at += header.len as usize;
        }
        assert_eq!(gtids.len(), 4);
        assert_eq!(gtids[1] - gtids[0], gtids[3] - gtids[2]);
    }
    let counted = rig.binlog.counters();
    assert_eq!((counted.transactions, counted.spilled_transactions), (8, 4));
}

#[test]
fn the_largest_size_changes_in_the_middle_of_a_file() {
    let mut rig = Rig::new(1 << 30);
    rig.transaction("one");
    rig.append(Record::Largest(4096).encode());
    rig.transaction(&"x".repeat(5000));
    assert_eq!((rig.binlog.numbers(), rig.binlog.options().max_file_bytes), (vec![1, 2], 4096));
    // Who asks does not wait for the work on the files, which may be long.
    let _at_work = rig.binlog.work.lock();
    assert_eq!(rig.binlog.options().max_file_bytes, 4096);
}

#[test]
fn old_files_expire() {
    let mut rig = Rig::new(1 << 30);
    let binlog = rig.binlog.clone();
    let now_s = |rig: &Rig| (rig.disk.wall_us() / 1_000_000) as u64;
    let options = binlog.options();
    let begin = |rig: &mut Rig, s: u64| {
        let us = s * 1_000_000;
        let options = options.clone();
        rig.append(Record::Rotate { why: Why::Flush, us, after: 0, options }.encode());
        rig.publish();
    };
    let now = now_s(&rig);
    begin(&mut rig, now - 500);
    begin(&mut rig, now - 300);
    begin(&mut rig, now - 100);
    assert_eq!(binlog.numbers(), [1, 2, 3, 4]);
    binlog.expire();
    binlog.set_expiry(200);
    // A start may have to make the files again: no barrier is behind them.
    binlog.expire();
    assert_eq!(binlog.numbers(), [1, 2, 3, 4]);
    rig.barrier();
    // A dump is in file 2, which was complete 300 s ago.
    let reading = binlog.reader(2);
    binlog.expire();
    assert_eq!(binlog.numbers(), [2, 3, 4]);
    drop(reading);
    binlog.expire();
    assert_eq!(binlog.numbers(), [3, 4]);
    // The file that is written stays, however old it is.
    binlog.set_expiry(1);
    binlog.expire_behind(|| ());
    assert_eq!(binlog.numbers(), [4]);
    binlog.set_expiry(0);
    assert!(!binlog.expires());
}

/// Tests STATE-1.
#[test]
fn the_names_of_too_many_servers_are_refused() {
    let mut rig = Rig::new(1 << 20);
    let server = |n: u8| Uuid([n; 16]);
    for n in 1..=48 {
        rig.uuid = server(n);
        assert!(
            rig.binlog.judge_server(&Options { uuid: rig.uuid, ..rig.binlog.options() }).is_ok()
        );
        rig.rotate(Why::Start, 1 << 20);
        rig.transaction("a");
        rig.barrier();
    }
    // The largest state, with the longest version, comes back.
    let mut state = rig.binlog.work.lock().maker.state().clone();
    state.options.server_version = "x".repeat(1000);
    let bytes = state.encode();
    state.options.server_version = "x".repeat(49);
    assert_eq!(State::decode(&bytes), Ok(state));
    // A start of one server more is refused, and says how to go on.
    let judge = |rig: &Rig, n, gtids| {
        let options = Options { uuid: server(n), gtids, ..rig.binlog.options() };
        rig.binlog.judge_server(&options).map_err(|e| e.to_string())
    };
    let why = judge(&rig, 49, true).unwrap_err();
    assert!(why.contains("of 48 values of server_uuid"), "{why}");
    assert!(why.contains(&format!("such as {}", server(1))), "{why}");
    assert_eq!([judge(&rig, 49, false), judge(&rig, 7, true)], [Ok(()), Ok(())]);
    // A redo log that says otherwise is damaged, and does not get into the state.
    rig.uuid = server(49);
    let (begin, at) = (rig.rotation(Why::Start, 1 << 20, 0), Lsn(rig.lsn));
    let sealed = events(b"b").seal(STAMP, &GtidTemplate::default()).unwrap();
    let record = transaction(2, None, sealed.as_bytes());
    let started = Binlog::new(rig.disk.clone(), rig.binlog.place().clone()).unwrap();
    started.judge(&rig.binlog.state()).unwrap();
    started.judge_record(at, &begin).unwrap();
    let why = started.judge_record(Lsn(at.0 + 100), &record).unwrap_err().to_string();
    assert!(why.contains("that of one server more"), "{why}");
    // A reset makes room.
    rig.uuid = server(48);
    rig.append(Record::Reset { us: 1, first: 1 }.encode());
    rig.publish();
    assert_eq!(judge(&rig, 49, true), Ok(()));
}

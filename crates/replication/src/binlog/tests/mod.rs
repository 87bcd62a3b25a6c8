//! Tests of the binary log on a simulated disk.
mod admin;
mod check;
mod judging;
mod order;
mod syncs;

use super::*;
use crate::record::{Record, Why, spilled, transaction};
use crate::rig::Rig;
use redolith_binlog::{
    Checksum, EncodeOptions, Event, GtidTemplate, Query, Stamp, TransactionBuilder, file,
};
use redolith_disk::sim::{Damage, Fault, OpKind};
use redolith_disk::{Disk, Loss, OpenHow};
use redolith_engine::commit_stream::CommitStream;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Waker};

const STAMP: Stamp = Stamp { timestamp: 1, server_id: 5 };

fn events(text: &[u8]) -> TransactionBuilder {
    let mut builder = TransactionBuilder::new(EncodeOptions::default());
    builder.query(STAMP, &Query { text, ..Query::default() }).unwrap();
    builder
}
fn is_pending(future: impl Future<Output = ()>) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}
/// The texts of the transactions in the files.
fn texts(rig: &Rig) -> Vec<String> {
    let mut found = Vec::new();
    for number in rig.binlog.numbers() {
        let mut reader = rig.binlog.open_file(number).unwrap().0;
        while let Some(event) = reader.next_event().unwrap() {
            if let Event::Query(query) = event.decode().unwrap() {
                found.push(String::from_utf8(query.text.to_vec()).unwrap());
            }
        }
    }
    found
}

/// Records come from any thread in any order, and only those below the durable LSN get into the
/// files, in the order of the redo log. Tests FOLLOW-1 and STREAM-2.
#[test]
fn the_files_follow_the_durable_redo_log_in_its_order() {
    let rig = Rig::new(1 << 20);
    let binlog = &rig.binlog;
    let from = rig.lsn;
    for n in [3u64, 1, 0, 2] {
        let sealed = events(format!("{n}").as_bytes()).seal(STAMP, &GtidTemplate::default());
        let (at, end) = (Lsn(from + 100 * n), Lsn(from + 100 * n + 100));
        binlog.appended(at, end, &transaction(2, None, sealed.unwrap().as_bytes()), None);
    }
    binlog.advance(Lsn(from + 299)).unwrap();
    assert_eq!(texts(&rig), ["0", "1"]);
    assert_eq!(binlog.lsn(), Lsn(from + 299));
    binlog.advance(Lsn(from + 400)).unwrap();
    assert_eq!(texts(&rig), ["0", "1", "2", "3"]);
}

/// Tests FOLLOW-2.
#[test]
fn the_checkpoint_waits_at_the_last_synced_barrier() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    let before = rig.binlog.limit();
    rig.barrier();
    let at_barrier = Lsn(rig.lsn);
    assert!(before < at_barrier && rig.binlog.limit() == at_barrier);
    rig.transaction("two");
    assert_eq!(rig.binlog.limit(), at_barrier);
    let state = State::decode(&rig.binlog.state()).unwrap();
    assert_eq!(state.lsn, at_barrier);
    // A barrier whose bytes cannot be written moves nothing until they can.
    rig.transaction("three");
    rig.disk.fail(Fault::new(OpKind::Write, Damage::NoSpace).on("binlog").for_ever());
    rig.append(transaction(
        2,
        None,
        events(b"four").seal(STAMP, &GtidTemplate::default()).unwrap().as_bytes(),
    ));
    rig.append(Record::Barrier.encode());
    assert!(rig.binlog.advance(Lsn(rig.lsn)).is_err());
    assert_eq!(rig.binlog.limit(), at_barrier);
    rig.disk.clear_faults();
    rig.binlog.advance(Lsn(rig.lsn)).unwrap();
    assert_eq!(rig.binlog.limit(), Lsn(rig.lsn));
    assert_eq!(texts(&rig), ["one", "two", "three", "four"]);
}

/// A start holds the checkpoint at the place of the state that it finds, and a checkpoint has to
/// begin at a frame. Tests FOLLOW-2.
#[test]
fn a_closed_log_holds_the_checkpoint_at_a_frame() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    let end = Lsn(rig.lsn);
    rig.binlog.close(end);
    let state = State::decode(&rig.binlog.state()).unwrap();
    assert_eq!((state.lsn, rig.binlog.limit()), (end, Lsn::MAX));
    // Earlier versions left a place inside the last frame.
    let (last, record) = (Lsn(rig.lsn - 100), Record::Stop { us: 1 }.encode());
    let inside = State { lsn: Lsn(last.0 + 1), ..state };
    let again = Binlog::new(rig.disk.clone(), rig.binlog.place().clone()).unwrap();
    again.judge(&inside.encode()).unwrap();
    again.replay(last, &record).unwrap();
    assert_eq!(again.limit(), last);
    // Behind the records that a start has found, the checkpoint is free to go.
    again.begin(end).unwrap();
    let state = State::decode(&again.state()).unwrap();
    assert_eq!((state.lsn, again.limit()), (end, Lsn::MAX));
    again.appended(end, Lsn(end.0 + 100), &Record::Stop { us: 1 }.encode(), None);
    assert_eq!(again.limit(), end);
}

/// Another try would succeed, and a power loss could then take the name of the file.
/// Tests BINLOG-FILES-4.
#[test]
fn a_folder_that_cannot_be_synced_ends_the_process() {
    for nth in [1, 2] {
        let mut rig = Rig::new(1 << 20);
        rig.disk.fail(Fault::new(OpKind::SyncDir, Damage::Eio).on("data").nth(nth));
        let begins = AssertUnwindSafe(|| rig.rotate(Why::Flush, 1 << 20));
        let ended = catch_unwind(begins).unwrap_err();
        let why = ended.downcast_ref::<String>().unwrap();
        assert!(why.starts_with("poisoned: syncing /data: "), "{why}");
    }
}

/// Tests FOLLOW-3.
#[test]
fn commits_wait_while_the_disk_is_full() {
    let mut rig = Rig::new(1 << 30);
    rig.disk.fail(Fault::new(OpKind::Write, Damage::NoSpace).on("binlog").for_ever());
    let text = vec![b'x'; 1 << 20];
    let record = || {
        let sealed = events(&text).seal(STAMP, &GtidTemplate::default()).unwrap();
        transaction(2, None, sealed.as_bytes())
    };
    let mut most = 0;
    while !is_pending(rig.binlog.admit()) {
        rig.append(record());
        assert!(most == 0 || rig.binlog.advance(Lsn(rig.lsn)).is_err());
        most += 1;
    }
    assert!((60..=70).contains(&most), "{most} MiB of records are in memory");
    assert!(texts(&rig).is_empty(), "nothing is half logged");
    rig.disk.clear_faults();
    rig.publish();
    assert!(!is_pending(rig.binlog.admit()));
    assert_eq!(texts(&rig).len(), most);
}

/// Tests SPILL-1.
#[test]
fn a_spill_file_stays_until_a_checkpoint_has_passed() {
    let mut rig = Rig::new(1 << 20);
    let (disk, binlog) = (rig.disk.clone(), rig.binlog.clone());
    let spills = || {
        let names = disk.list(&binlog.place().dir).unwrap();
        names.iter().filter(|name| name.contains(".spill.")).count()
    };
    let mut builder = events(b"first");
    let drained = builder.drainable().to_vec();
    builder.drain();
    let mut spill = binlog.spill().unwrap();
    spill.append(&drained).unwrap();
    spill.append(&[7; 100]).unwrap();
    spill.cut(drained.len() as u64).unwrap();
    let sealed = spill.seal().unwrap();
    builder.event(STAMP, &Event::Xid(9)).unwrap();
    let (gtid, rest) = builder.seal_drained(STAMP, &GtidTemplate::default()).unwrap();
    let at = Lsn(rig.lsn);
    rig.append(spilled(2, None, sealed, &gtid, &rest));
    spill.keep();
    rig.publish();
    assert_eq!(texts(&rig), ["first"]);
    binlog.remove_spills(at);
    assert_eq!(spills(), 1);
    binlog.remove_spills(Lsn(at.0 + 1));
    assert_eq!(spills(), 0);
    // A transaction that does not commit, and one that a crash ended.
    drop(binlog.spill().unwrap());
    assert_eq!(spills(), 0);
    std::mem::forget(binlog.spill().unwrap());
    let (state, end) = (binlog.state(), Lsn(rig.lsn));
    let again = Binlog::new(disk.clone(), binlog.place().clone()).unwrap();
    again.judge(&state).unwrap();
    assert_eq!(spills(), 1);
    again.begin(end).unwrap();
    assert_eq!(spills(), 0);
}

/// A transaction of four events of 700 KiB, which are in a spill file.
struct Large {
    drained: Vec<u8>,
    spill: Spill,
    /// The record of its commit.
    record: Vec<u8>,
    path: PathBuf,
}
impl Large {
    fn new(rig: &Rig) -> Large {
        let text = vec![b'x'; 700 << 10];
        let mut builder = events(&text);
        (0..3).for_each(|_| {
            builder.query(STAMP, &Query { text: &text, ..Query::default() }).unwrap();
        });
        let drained = builder.drainable().to_vec();
        builder.drain();
        let mut spill = rig.binlog.spill().unwrap();
        spill.append(&drained).unwrap();
        let sealed = spill.seal().unwrap();
        let (gtid, rest) = builder.seal_drained(STAMP, &GtidTemplate::default()).unwrap();
        let record = spilled(2, None, sealed, &gtid, &rest);
        let dir = &rig.binlog.place().dir;
        let names = rig.disk.list(dir).unwrap();
        let name = names.iter().find(|name| name.contains(".spill.")).unwrap();
        Large { drained, spill, record, path: dir.join(name) }
    }
}

/// A piece that cannot be placed is not passed over: the copy goes on where it failed, once the
/// file reads right, and nothing of the transaction is published before. Tests SPILL-1.
#[test]
fn a_spill_file_that_reads_wrong_is_read_again() {
    let mut rig = Rig::new(1 << 30);
    let binlog = rig.binlog.clone();
    let Large { drained, spill, record, path } = Large::new(&rig);
    let file = rig.disk.open(&path, OpenHow::existing(false)).unwrap();
    // The length of the third event.
    let at = drained.len() as u64 / 2 + 9;
    file.write_at(&[1, 0, 0, 0], at).unwrap();
    rig.append(record);
    spill.keep();
    for _ in 0..3 {
        assert!(binlog.advance(Lsn(rig.lsn)).is_err());
        assert!(texts(&rig).is_empty());
    }
    let right = &drained[at as usize..][..4];
    file.write_at(right, at).unwrap();
    rig.publish();
    assert_eq!(texts(&rig).len(), 4);
}

/// A start makes the files again, whatever a crash has left behind the checkpoint's state.
/// Tests MAKER-1 and BINLOG-FILES-1.
#[test]
fn files_are_made_again() {
    let mut rig = Rig::new(4096);
    let text = "x".repeat(1500);
    let mut records = Vec::new();
    rig.barrier();
    let (state, from) = (rig.binlog.state(), rig.lsn);
    for n in 0..12u64 {
        let sealed = events(format!("{n} {text}").as_bytes()).seal(STAMP, &Default::default());
        let record = transaction(n, Some(&[n % 3]), sealed.unwrap().as_bytes());
        records.push((Lsn(rig.lsn), record.clone()));
        rig.append(record);
        rig.publish();
    }
    let numbers = rig.binlog.numbers();
    assert!(numbers.len() > 4, "{numbers:?}");
    let before: Vec<_> = numbers.iter().map(|n| rig.file(*n)).collect();
    // The last file is cut, the one before has lost bytes, and there is one too many.
    let place = rig.binlog.place().clone();
    let open = |n: u32| rig.disk.open(&place.path(n), OpenHow::create(false)).unwrap();
    let last = *numbers.last().unwrap();
    open(last).set_len(50).unwrap();
    open(last - 1).write_at(&[0; 300], 200).unwrap();
    open(last + 1).write_at(b"left", 0).unwrap();
    let mut index = redolith_binlog::Index::open(&*rig.disk, &place.index()).unwrap();
    index.push(&*rig.disk, &format!("./{}", file::file_name("binlog", last + 1))).unwrap();
    let again = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    again.judge(&state).unwrap();
    assert!(from <= records[0].0.0);
    for (at, record) in &records {
        again.replay(*at, record).unwrap();
    }
    again.begin(Lsn(rig.lsn)).unwrap();
    assert_eq!(again.numbers(), numbers);
    assert!(!rig.disk.exists(&place.path(last + 1)));
    for (n, before) in numbers.iter().zip(before) {
        assert!(rig.file(*n) == before, "file {n} has other bytes");
    }
}

/// What a lying disk or a hand has done to the files is told before anything is written.
#[test]
fn a_file_that_is_older_than_the_state_is_refused() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    rig.barrier();
    let (state, place) = (rig.binlog.state(), rig.binlog.place().clone());
    let judge = || Binlog::new(rig.disk.clone(), place.clone()).unwrap().judge(&state);
    judge().unwrap();
    let file = rig.disk.open(&place.path(1), OpenHow::existing(false)).unwrap();
    file.set_len(file.len().unwrap() - 1).unwrap();
    assert!(judge().unwrap_err().to_string().contains("older copy"));
    rig.disk.remove(&place.path(1)).unwrap();
    assert!(judge().unwrap_err().to_string().contains("begin a new binary log"));
    rig.disk.remove(&place.index()).unwrap();
    let anew = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    anew.judge(&state).unwrap();
    anew.begin(Lsn(rig.lsn)).unwrap();
    assert_eq!(anew.numbers(), [2]);
    // A new data directory does not write over the files of another one.
    let before = rig.file(2);
    let other = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    other.judge(&[]).unwrap();
    other.begin(Lsn(4096)).unwrap();
    let options = anew.options();
    let start = Record::Rotate { why: Why::Start, us: 1, after: 2, options }.encode();
    other.appended(Lsn(4096), Lsn(4196), &start, None);
    other.advance(Lsn(4196)).unwrap();
    assert!(other.numbers() == [2, 3] && rig.file(2) == before);
    // Its first start may come before its first checkpoint.
    let again = Binlog::new(rig.disk.clone(), place.clone()).unwrap();
    again.judge(&[]).unwrap();
    again.replay(Lsn(4096), &start).unwrap();
    again.begin(Lsn(4196)).unwrap();
    assert!(again.numbers() == [2, 3] && rig.file(2) == before);
    for wrong in [&state[..state.len() - 1], &[9], &[&state[..], &[0]].concat()] {
        assert!(anew.judge(wrong).is_err());
    }
}

/// An index that was cut, or that somebody else has written, is not the index of a log with fewer
/// files.
#[test]
fn a_damaged_index_is_refused() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("one");
    rig.rotate(Why::Flush, 1 << 20);
    rig.barrier();
    let (state, place) = (rig.binlog.state(), rig.binlog.place().clone());
    let whole = String::from_utf8(rig.disk.contents(&place.index()).unwrap()).unwrap();
    let judge = |text: &str| {
        let file = rig.disk.open(&place.index(), OpenHow::existing(false)).unwrap();
        file.set_len(0).unwrap();
        file.write_at(text.as_bytes(), 0).unwrap();
        match Binlog::new(rig.disk.clone(), place.clone()) {
            Ok(binlog) => binlog.judge(&state).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    };
    judge(&whole).unwrap();
    for len in 0..whole.len() {
        assert!(judge(&whole[..len]).is_err(), "{len}");
    }
    assert!(judge("").unwrap_err().contains("is empty"));
    let [first, second] = [place.path(1), place.path(2)].map(|p| p.display().to_string());
    for (wrong, n) in [
        (whole.replace("binlog.000002", "binlog.2"), 2),
        (whole.replace("binlog.000001", "other.000001"), 1),
        (whole.replace("000001", "000002"), 2),
        (format!("{second}\n"), 1),
        (format!("{whole}{first}\n"), 3),
    ] {
        let why = judge(&wrong).unwrap_err();
        assert!(why.contains(&format!("line {n}, ")), "{why}");
    }
    judge(&whole).unwrap();
}

/// A power loss leaves the file before the newest marked as closed, also where its end is the mark
/// alone.
#[test]
fn the_mark_of_a_closed_file_is_synced() {
    let mut rig = Rig::new(1 << 20);
    rig.transaction("a");
    rig.barrier();
    let in_use = |rig: &Rig, number| {
        let mut reader = rig.binlog.open_file(number).unwrap().0;
        match reader.next_event().unwrap().unwrap().decode().unwrap() {
            Event::FormatDescription(format) => format.in_use,
            other => panic!("{other:?}"),
        }
    };
    assert!(in_use(&rig, 1));
    rig.rotate(Why::Start, 1 << 20);
    rig.disk.crash_with(Loss::Nothing);
    assert!(!in_use(&rig, 1));
}

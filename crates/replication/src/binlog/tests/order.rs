//! Files of the binary log that were exchanged (BINLOG-FILES-7).
use super::judging::{judged, picture, put, refused};
use super::*;

/// A log of four files, and the same log as it was before each rotation.
pub(super) struct Log {
    pub(super) rig: Rig,
    pub(super) state: Vec<u8>,
    /// The files 1 to 4.
    pub(super) files: Vec<Vec<u8>>,
    /// The files 1 to 3 as they were before their last transaction.
    older: Vec<Vec<u8>>,
}
impl Log {
    pub(super) fn new(gtids: bool) -> Log {
        let mut rig = if gtids { Rig::new(1 << 30) } else { Rig::anonymous() };
        let mut older = Vec::new();
        for (number, why) in [(1, Why::Flush), (2, Why::Start), (3, Why::Flush)] {
            rig.transaction(&format!("first of {number}"));
            older.push(rig.file(number));
            rig.transaction(&format!("second of {number}"));
            rig.rotate(why, 1 << 30);
        }
        rig.transaction("the last one");
        rig.barrier();
        let (state, files) = (rig.binlog.state(), (1..=4).map(|n| rig.file(n)).collect());
        Log { rig, state, files, older }
    }
    fn put(&self, number: usize, bytes: &[u8]) {
        put(&self.rig.disk, &self.rig.binlog.place().path(number as u32), bytes);
    }
}

/// Tests BINLOG-FILES-7.
#[test]
fn exchanged_files_are_refused() {
    for gtids in [true, false] {
        let log = Log::new(gtids);
        judged(&log.rig, &log.state, &[]).unwrap();
        for one in 1..=4 {
            for other in one + 1..=4 {
                log.put(one, &log.files[other - 1]);
                log.put(other, &log.files[one - 1]);
                let why = refused(&log.rig, &log.state, &[]);
                assert!(why.contains("binlog.00000"), "{one} and {other}: {why}");
                log.put(one, &log.files[one - 1]);
                log.put(other, &log.files[other - 1]);
            }
        }
        for number in 1..=3 {
            log.put(number, &log.older[number - 1]);
            if !gtids && number == 2 {
                // Behind a file without names a start may have begun any other.
                judged(&log.rig, &log.state, &[]).unwrap();
            } else {
                let why = refused(&log.rig, &log.state, &[]);
                let both = format!("binlog.{number:06} and binlog.{:06}, which", number + 1);
                assert!(why.contains(&both), "{why}");
            }
            log.put(number, &log.files[number - 1]);
        }
        assert!(judged(&log.rig, &log.state, &[]).is_ok());
    }
}

/// A file of another server under the name of one of the log's.
#[test]
fn a_file_of_another_server_is_refused() {
    let log = Log::new(true);
    let mut other = Rig::of_server(9);
    for why in [Why::Flush, Why::Start, Why::Flush] {
        other.transaction("of the other server");
        other.rotate(why, 1 << 30);
    }
    for number in 1..=3 {
        log.put(number, &other.file(number as u32));
        let why = refused(&log.rig, &log.state, &[]);
        assert!(why.contains("Files were exchanged"), "{number}: {why}");
        log.put(number, &log.files[number - 1]);
    }
}

/// Files of a data directory that was there before, whose last one nobody has closed, are no reason
/// to refuse a start, nor is a file that is damaged or missing.
#[test]
fn files_of_before_are_left_alone() {
    let first = Rig::new(1 << 30);
    let mut rig = Rig::beside(&first, 8);
    rig.transaction("of the new data directory");
    rig.barrier();
    judged(&rig, &rig.binlog.state(), &[]).unwrap();
    // A directory that was made anew may have the `server_uuid` of the one before.
    let mut again = Rig::beside(&rig, 8);
    again.transaction("of the newest data directory");
    again.barrier();
    judged(&again, &again.binlog.state(), &[]).unwrap();

    let log = Log::new(true);
    log.put(2, b"no file of a binary log");
    judged(&log.rig, &log.state, &[]).unwrap();
    log.rig.disk.remove(&log.rig.binlog.place().path(2)).unwrap();
    let before = picture(&log.rig);
    judged(&log.rig, &log.state, &[]).unwrap();
    assert!(picture(&log.rig) == before);
}

/// Where starts have begun all files, no ROTATE event tells what follows.
#[test]
fn a_file_of_another_server_between_two_starts_is_refused() {
    let log_of = |mut rig: Rig| {
        for _ in 0..3 {
            rig.transaction("one");
            rig.rotate(Why::Start, 1 << 30);
        }
        rig.transaction("the last one");
        rig.barrier();
        rig
    };
    let (log, other) = (log_of(Rig::new(1 << 30)), log_of(Rig::of_server(9)));
    let state = log.binlog.state();
    judged(&log, &state, &[]).unwrap();
    for number in 2..=3 {
        let path = log.binlog.place().path(number);
        put(&log.disk, &path, &other.file(number));
        let (own, why) = (log_of(Rig::new(1 << 30)).file(number), refused(&log, &state, &[]));
        assert!(why.contains("Files were exchanged"), "{number}: {why}");
        put(&log.disk, &path, &own);
        judged(&log, &state, &[]).unwrap();
    }
}

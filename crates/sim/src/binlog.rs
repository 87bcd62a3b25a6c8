//! The binary log of a run: each transaction of the load carries a token, and the files are
//! compared with what the engine has.
//!
//! - The tokens of a client in the files are those of its transactions that are there, in their
//!   order: each once, and none of a transaction that is not there (STREAM-1, STREAM-2, FOLLOW-1).
//! - What a reader has seen of the files is there again after a crash, byte for byte (MAKER-1,
//!   BINLOG-FILES-1), but for the flag that says that a file is open.
//! - Every file passes the reader's checks.
//! - A reset takes the transactions that were acknowledged before it, and none that began after it
//!   (BINLOG-FILES-2).
//! - The index names every file that there is (BINLOG-FILES-3).
use crate::executor::Rng;
use crate::load::{CLIENTS, Knowledge};
use crate::run::Seen;
use redolith_binlog::{
    BinlogPosition, Checksum, EncodeOptions, Event, GtidTemplate, Query, Reader, Stamp,
    TransactionBuilder, Uuid,
};
use redolith_disk::{Disk, OpenHow};
use redolith_engine::{Engine, Error};
use redolith_replication::record::{self, Options};
use redolith_replication::spill::{self, Spill};
use redolith_replication::{Binlog, Place};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What readers have seen, and where the log has begun anew.
pub type Visible = Arc<Mutex<Readers>>;
#[derive(Default)]
pub struct Readers {
    /// The bytes of each file.
    files: BTreeMap<u32, Vec<u8>>,
    /// Resets that have not returned: a crash may have come before or after them.
    resets: u32,
    /// How many of each client's transactions are gone at least, and at most.
    least: [usize; CLIENTS],
    most: [usize; CLIENTS],
}
/// The bytes of the flag that says that a file is open.
const OPEN_FLAG: std::ops::Range<usize> = 21..23;

/// The binary log of a life, not yet part of an engine.
pub fn open(disk: &Arc<dyn Disk>) -> std::io::Result<Arc<Binlog>> {
    Binlog::new(disk.clone(), Place { dir: "/sim".into(), base: "binlog".into() })
}
/// Small files, so that there are many.
pub fn options(rng: &mut Rng) -> Options {
    Options {
        server_id: 1,
        checksum: if rng.chance(3) { Checksum::None } else { Checksum::Crc32 },
        max_file_bytes: 4096 << rng.below(8),
        gtids: rng.chance(2),
        uuid: Uuid([7; 16]),
        server_version: "8.0.36-sim".into(),
    }
}

/// RESET BINARY LOGS AND GTIDS.
pub async fn reset(
    e: &Engine,
    binlog: &Binlog,
    known: &Knowledge,
    visible: &Visible,
    rng: &mut Rng,
) -> Result<(), Error> {
    let counts = || {
        let known = known.lock().expect("one thread");
        std::array::from_fn::<usize, CLIENTS, _>(|n| known[n].tokens.len())
    };
    let before = counts();
    {
        let readers = &mut *visible.lock().expect("one thread");
        readers.resets += 1;
        readers.files.clear();
    }
    let done = binlog.reset(e, 1 + rng.below(3) as u32).await;
    let readers = &mut *visible.lock().expect("one thread");
    readers.resets -= 1;
    readers.files.clear();
    if done.is_ok() {
        // Each client may have one transaction that is in the log, and that it does not know of.
        let after = counts();
        for n in 0..CLIENTS {
            readers.least[n] = readers.least[n].max(before[n]);
            readers.most[n] = after[n] + 1;
        }
    }
    done
}

/// What SET GLOBAL may make of the options: another checksum, and another largest size.
pub fn changed(before: Options, rng: &mut Rng) -> Options {
    let Options { checksum, max_file_bytes, .. } = options(rng);
    Options { checksum, max_file_bytes, ..before }
}

/// The record of the transaction with this token, and the spill file that has a part of its events.
pub fn record(binlog: &Binlog, token: u64, rng: &mut Rng) -> (Vec<u8>, Option<Spill>) {
    // The file may have other checksums when the transaction gets its place.
    let checksum = if rng.chance(3) { Checksum::None } else { Checksum::Crc32 };
    let stamp = Stamp { timestamp: token as u32, server_id: 1 };
    let mut events = TransactionBuilder::new(EncodeOptions { checksum, ..Default::default() });
    let len = if rng.chance(40) { 100_000 } else { rng.below(300) as usize };
    let text = [format!("token {token} ").as_bytes(), &vec![b'x'; len]].concat();
    let begin = Query { text: b"BEGIN", suppresses_use: true, ..Query::default() };
    let built = events.query(stamp, &begin).and_then(|()| events.rows_query(stamp, &text));
    built.expect("events of some thousand bytes");
    let key = [token % 5];
    let keys = (!rng.chance(6)).then_some(&key[..]);
    // A full disk may refuse the file.
    let spilled = rng.chance(20).then(|| spill(binlog, &mut events)).and_then(Result::ok);
    let xid = Event::Xid(token);
    let Some((file, spilled)) = spilled else {
        let sealed = events.event(stamp, &xid).and_then(|()| events.seal(stamp, &TEMPLATE));
        let sealed = sealed.expect("events of some thousand bytes");
        return (record::transaction(token, keys, sealed.as_bytes()), None);
    };
    let sealed = events.event(stamp, &xid).and_then(|()| events.seal_drained(stamp, &TEMPLATE));
    let (gtid, rest) = sealed.expect("events of some thousand bytes");
    (record::spilled(token, keys, spilled, &gtid, &rest), Some(file))
}
const TEMPLATE: GtidTemplate = GtidTemplate {
    may_have_statements: false,
    original_commit_us: None,
    server_version: 80036,
    original_server_version: None,
};
/// Writes the events so far to a spill file. If that fails, the events stay.
fn spill(
    binlog: &Binlog,
    events: &mut TransactionBuilder,
) -> std::io::Result<(Spill, spill::Spilled)> {
    let mut file = binlog.spill()?;
    file.append(events.drainable())?;
    let spilled = file.seal()?;
    events.drain();
    Ok((file, spilled))
}

/// Reads what a reader may see now, and keeps it.
pub fn look(disk: &dyn Disk, binlog: &Binlog, visible: &Visible, seen: &Mutex<Seen>) {
    let Some(end) = binlog.status().position else { return };
    let files = files(disk, binlog, end);
    let mut visible = visible.lock().expect("one thread");
    if visible.resets > 0 {
        return;
    }
    for (number, bytes) in files {
        let before = visible.files.insert(number, bytes);
        seen.lock().expect("one thread").binlog_rotations += before.is_none() as u64;
    }
}
fn files(disk: &dyn Disk, binlog: &Binlog, end: BinlogPosition) -> BTreeMap<u32, Vec<u8>> {
    let list = binlog.list().expect("no fault of this plan hits the binary log");
    list.into_iter()
        .map(|(number, len)| {
            let len = if number == end.file { end.offset } else { len };
            (number, read(disk, &binlog.place().path(number), len))
        })
        .collect()
}
fn read(disk: &dyn Disk, path: &Path, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    let read = disk.open(path, OpenHow::existing(false)).and_then(|f| f.read_at(&mut bytes, 0));
    read.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes
}

/// Compares the files with what the engine has. Everything that was acknowledged is in the files.
pub fn verify(
    disk: &dyn Disk,
    binlog: &Binlog,
    known: &Knowledge,
    visible: &Visible,
    seen: &Mutex<Seen>,
) {
    let Some(end) = binlog.status().position else { return };
    let files = files(disk, binlog, end);
    for name in disk.list(&binlog.place().dir).expect("the folder of the data") {
        let number = name.strip_prefix("binlog.").and_then(|digits| digits.parse().ok());
        let named = number.is_none_or(|number| files.contains_key(&number));
        assert!(named, "BINLOG-FILES-3: no line of the index names {name}");
    }
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for (number, old) in &visible.lock().expect("one thread").files {
        let new = files.get(number).unwrap_or_else(|| panic!("MAKER-1: file {number} is gone"));
        let same = old.len() <= new.len()
            && (0..old.len()).all(|i| OPEN_FLAG.contains(&i) || old[i] == new[i]);
        assert!(same, "MAKER-1: file {number} was made again with other bytes");
        last.insert(*number, old.len() as u64);
    }
    let mut found: Vec<Vec<u64>> = vec![Vec::new(); CLIENTS];
    let mut gtid = 0;
    for number in files.keys() {
        let path = binlog.place().path(*number);
        let mut reader = Reader::open(disk, &path).expect("a file of the binary log");
        if *number == end.file {
            reader.set_end(end.offset);
        }
        let mut sequence = 0;
        while let Some(event) = reader.next_event().unwrap_or_else(|e| panic!("{e}")) {
            match event.decode().unwrap_or_else(|e| panic!("{e}")) {
                Event::Xid(token) => found[token as usize % CLIENTS].push(token),
                Event::Gtid(event) => {
                    sequence += 1;
                    let clock = event.clock;
                    assert_eq!(clock.sequence_number, sequence, "numbers of {}", path.display());
                    assert!(
                        clock.last_committed < sequence,
                        "a transaction depends on a later one"
                    );
                    if let Some(drawn) = event.gtid {
                        gtid += 1;
                        assert_eq!(drawn.number, gtid, "GTIDs are drawn in the order of the log");
                    }
                }
                _ => {}
            }
        }
    }
    let readers = &mut *visible.lock().expect("one thread");
    for (n, known) in known.lock().expect("one thread").iter().enumerate() {
        let gone = known.tokens.len().saturating_sub(found[n].len());
        let kept = &known.tokens[gone..];
        assert_eq!(found[n], kept, "the binary log and the engine disagree on client {n}");
        let most = if readers.resets > 0 { usize::MAX } else { readers.most[n] };
        let least = readers.least[n].min(known.tokens.len());
        assert!((least..=most).contains(&gone), "{gone} transactions of client {n} are gone");
        (readers.least[n], readers.most[n]) = (gone, gone);
        seen.lock().expect("one thread").binlog_transactions += known.tokens.len() as u64;
    }
    readers.resets = 0;
}

//! Dumps of a binary log that no engine writes, by replicas that take their time.
use crate::common::*;
use redolith_binlog::{
    Checksum, EncodeOptions, GtidTemplate, Query, Stamp, TransactionBuilder, Uuid,
};
use redolith_disk::SimDisk;
use redolith_engine::Lsn;
use redolith_engine::commit_stream::CommitStream;
use redolith_replication::record::{Options, Record, Why, transaction};
use redolith_replication::{Binlog, Place};
use redolith_server::backend::Backend;
use redolith_sql::processes::Kill;
use std::sync::Arc;
use std::time::Duration;

const BINLOG_DUMP: u8 = 0x12;
const HEARTBEAT: u8 = 27;

/// A binary log whose redo log is the test.
struct Log {
    binlog: Arc<Binlog>,
    lsn: u64,
}
impl Log {
    fn new() -> Log {
        let place = Place { dir: "/data".into(), base: "binlog".into() };
        let binlog = Binlog::new(Arc::new(SimDisk::new(3)), place).unwrap();
        binlog.begin(Lsn(0)).unwrap();
        let mut log = Log { binlog, lsn: 0 };
        let options = Options {
            server_id: 5,
            checksum: Checksum::Crc32,
            max_file_bytes: 8 << 20,
            gtids: false,
            uuid: Uuid([0; 16]),
            server_version: "8.0.36-redolith".into(),
        };
        log.append(Record::Rotate { why: Why::Start, us: 1, after: 0, options }.encode());
        log
    }
    fn append(&mut self, record: Vec<u8>) {
        let at = self.lsn;
        self.lsn += 100;
        self.binlog.appended(Lsn(at), Lsn(self.lsn), &record, None);
        self.binlog.materialize(Lsn(self.lsn)).unwrap();
    }
    fn transaction(&mut self, bytes: usize) {
        let stamp = Stamp { timestamp: 1, server_id: 5 };
        let mut builder = TransactionBuilder::new(EncodeOptions::default());
        builder.query(stamp, &Query { text: &vec![b'x'; bytes], ..Query::default() }).unwrap();
        let events = builder.seal(stamp, &GtidTemplate::default()).unwrap();
        self.append(transaction(2, None, events.as_bytes()));
    }
}

/// A dump of everything, from the oldest file on.
fn dump(server: &TestServer, server_id: u8) -> Raw {
    let mut raw = Raw::logged_in(server);
    raw.command(BINLOG_DUMP, &[4, 0, 0, 0, 0, 0, server_id, 0, 0, 0]);
    raw
}

/// Reads events until `bytes` of transactions have come. Returns how many events there were.
fn read(raw: &mut Raw, mut bytes: usize) -> usize {
    let mut events = 0;
    while bytes > 0 {
        let packet = raw.read();
        assert_eq!(packet[0], 0, "{}", String::from_utf8_lossy(&packet));
        let is_query = packet[5] == 2;
        // A QUERY event ends with its text and its checksum.
        let text = packet[..packet.len() - 4].iter().rev().take_while(|b| **b == b'x');
        bytes -= if is_query { text.count() } else { 0 };
        events += usize::from(packet[5] != HEARTBEAT);
    }
    events
}

/// Tests REPL-4.
#[test]
fn a_slow_replica_holds_nobody_up_and_takes_no_memory() {
    let mut log = Log::new();
    let server = start_with(LIMITS, Some(log.binlog.clone()));
    let (mut slow, mut other) = (dump(&server, 0), dump(&server, 0));
    const EVENT: usize = 100_000;
    let memory = server.server.backend.memory();
    for _ in 0..400 {
        log.transaction(EVENT);
        // The other replica has each transaction at once.
        read(&mut other, EVENT);
        assert!(memory.used() < 2 << 20, "{}", memory.used());
    }
    let events = read(&mut slow, 400 * EVENT);
    assert!(events > 800, "{events}");
    // A dump goes on after an event that needs a chain of packets.
    log.transaction(20 << 20);
    for raw in [&mut slow, &mut other] {
        read(raw, 20 << 20);
    }
    log.transaction(7);
    for raw in [&mut slow, &mut other] {
        read(raw, 7);
    }
    assert!(memory.used() < 2 << 20, "{}", memory.used());
}

/// Tests REPL-5.
#[test]
fn a_dump_ends_with_its_replica_and_when_it_is_told_to() {
    let mut log = Log::new();
    let server = start_with(LIMITS, Some(log.binlog.clone()));
    let dumps = || log.binlog.replicas().dumps();
    let wait_for = |n: usize| {
        (0..2000).any(|_| {
            std::thread::park_timeout(Duration::from_millis(10));
            dumps() == n
        })
    };
    let first = dump(&server, 9);
    assert!(wait_for(1));
    drop(first);
    assert!(wait_for(0), "a replica that left");
    // The same replica comes again before its old connection has ended.
    let mut old = dump(&server, 9);
    assert!(wait_for(1));
    let mut new = dump(&server, 9);
    while old.try_read().is_ok() {}
    assert!(wait_for(1));
    // Nothing is read, so the dump waits for its replica when it is killed.
    (0..100).for_each(|_| log.transaction(100_000));
    let rows = server.server.processes.rows();
    let id = rows.iter().find(|row| row.command == "Binlog Dump").unwrap().id;
    server.server.processes.kill(id, Kill::Query);
    while new.try_read().is_ok() {}
    drop(new);
    // The entry goes after the socket.
    let gone = || log.binlog.replicas().dumps() == 0;
    assert!((0..2000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(10));
        gone()
    }));
}

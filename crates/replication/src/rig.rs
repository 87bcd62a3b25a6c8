//! A binary log on a simulated disk, for tests: the test stands for the engine and its redo log.
use crate::Binlog;
use crate::files::Place;
use crate::record::{Options, Record, Why, transaction};
use redolith_binlog::{
    Checksum, EncodeOptions, GtidTemplate, Query, Stamp, TransactionBuilder, Uuid,
};
use redolith_disk::SimDisk;
use redolith_engine::Lsn;
use redolith_engine::commit_stream::CommitStream;
use std::sync::Arc;

pub(crate) const UUID: Uuid = Uuid([7; 16]);

/// A binary log whose redo log is the test.
pub(crate) struct Rig {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) binlog: Arc<Binlog>,
    pub(crate) lsn: u64,
    /// Whether the next files' transactions have GTIDs.
    pub(crate) gtids: bool,
    /// The checksums of the next files.
    pub(crate) checksum: Checksum,
    /// The server of the next files.
    pub(crate) uuid: Uuid,
}
impl Rig {
    pub(crate) fn new(max_file_bytes: u64) -> Rig {
        Rig::on(Arc::new(SimDisk::new(3)), max_file_bytes, UUID, 0, true)
    }
    /// The log of another data directory, with its files in the same folder, behind `after`.
    pub(crate) fn beside(other: &Rig, server: u8) -> Rig {
        let after = other.binlog.numbers().last().copied().unwrap_or(0);
        Rig::on(other.disk.clone(), 1 << 20, Uuid([server; 16]), after, true)
    }
    /// A log of the same name on another machine.
    pub(crate) fn of_server(server: u8) -> Rig {
        Rig::on(Arc::new(SimDisk::new(3)), 1 << 30, Uuid([server; 16]), 0, true)
    }
    /// A log whose transactions have no GTIDs.
    pub(crate) fn anonymous() -> Rig {
        Rig::on(Arc::new(SimDisk::new(3)), 1 << 30, UUID, 0, false)
    }
    fn on(disk: Arc<SimDisk>, max_file_bytes: u64, uuid: Uuid, after: u32, gtids: bool) -> Rig {
        let place = Place { dir: "/data".into(), base: "binlog".into() };
        let binlog = Binlog::new(disk.clone(), place).unwrap();
        binlog.begin(Lsn(0)).unwrap();
        let checksum = Checksum::Crc32;
        let mut rig = Rig { disk, binlog, lsn: 0, gtids, checksum, uuid };
        rig.rotate_after(Why::Start, max_file_bytes, after);
        rig
    }
    /// Appends a record, and returns before it is in a file.
    pub(crate) fn append(&mut self, record: Vec<u8>) {
        let at = self.lsn;
        self.lsn += 100;
        self.binlog.appended(Lsn(at), Lsn(self.lsn), &record, None);
    }
    pub(crate) fn publish(&self) {
        self.binlog.advance(Lsn(self.lsn)).unwrap();
    }
    pub(crate) fn rotate(&mut self, why: Why, max_file_bytes: u64) {
        self.rotate_after(why, max_file_bytes, 0);
    }
    pub(crate) fn rotate_after(&mut self, why: Why, max_file_bytes: u64, after: u32) {
        self.append(self.rotation(why, max_file_bytes, after));
        self.publish();
    }
    /// The record of a rotation.
    pub(crate) fn rotation(&self, why: Why, max_file_bytes: u64, after: u32) -> Vec<u8> {
        let options = Options {
            server_id: 5,
            checksum: self.checksum,
            max_file_bytes,
            gtids: self.gtids,
            uuid: self.uuid,
            server_version: "8.0.36-redolith".into(),
        };
        Record::Rotate { why, us: 1_000_000, after, options }.encode()
    }
    pub(crate) fn transaction(&mut self, text: &str) {
        let stamp = Stamp { timestamp: 1, server_id: 5 };
        let mut builder = TransactionBuilder::new(EncodeOptions::default());
        builder.query(stamp, &Query { text: text.as_bytes(), ..Query::default() }).unwrap();
        let events = builder.seal(stamp, &GtidTemplate::default()).unwrap();
        self.append(transaction(2, None, events.as_bytes()));
        self.publish();
    }
    pub(crate) fn barrier(&mut self) {
        self.append(Record::Barrier.encode());
        self.publish();
        self.binlog.store_state(|| ());
    }
    pub(crate) fn file(&self, number: u32) -> Vec<u8> {
        let path = self.binlog.place().path(number);
        self.disk.contents(&path).unwrap()
    }
}

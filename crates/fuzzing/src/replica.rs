//! What a replica sends: its registration, its requests for dumps, its acknowledgements.
use crate::take;
use redolith_binlog::{
    BinlogPosition, Checksum, EncodeOptions, Event, Gtid, GtidSet, GtidTemplate, Header,
    MariadbGtid, Query, Stamp, TransactionBuilder, Uuid,
};
use redolith_disk::SimDisk;
use redolith_engine::Lsn;
use redolith_engine::commit_stream::CommitStream;
use redolith_replication::dump::{Dump, MariadbStart, Start, Step};
use redolith_replication::record::{Options, Record, Why, transaction};
use redolith_replication::{Binlog, Place};
use redolith_server::protocol::lenenc::Reader;
use redolith_server::protocol::replication::{Request, acknowledgement, registration};
use std::sync::{Arc, OnceLock};

const STAMP: Stamp = Stamp { timestamp: 1, server_id: 5 };
const UUID: Uuid = Uuid([3; 16]);

/// A binary log of three files, which begin at these positions: with GTIDs, and with checksums in
/// all files but the second.
fn log() -> &'static Arc<Binlog> {
    static LOG: OnceLock<Arc<Binlog>> = OnceLock::new();
    LOG.get_or_init(|| {
        let place = Place { dir: "/data".into(), base: "binlog".into() };
        let binlog = Binlog::new(Arc::new(SimDisk::new(3)), place).expect("an empty disk");
        binlog.begin(Lsn(0)).expect("an empty disk");
        let mut lsn = 0;
        let mut append = |record: Vec<u8>| {
            lsn += 100;
            binlog.appended(Lsn(lsn - 100), Lsn(lsn), &record, None);
            binlog.materialize(Lsn(lsn)).expect("a disk without faults");
        };
        for checksum in [Checksum::Crc32, Checksum::None, Checksum::Crc32] {
            let options = Options {
                server_id: 5,
                checksum,
                max_file_bytes: 1 << 20,
                gtids: true,
                uuid: UUID,
                server_version: "8.0.36-redolith".into(),
            };
            append(Record::Rotate { why: Why::Flush, us: 1, after: 0, options }.encode());
            for n in 0..5 {
                let encode = EncodeOptions { checksum, ..EncodeOptions::default() };
                let mut builder = TransactionBuilder::new(encode);
                let text = vec![b'x'; n * 300];
                builder.query(STAMP, &Query { text: &text, ..Query::default() }).expect("short");
                builder.event(STAMP, &Event::Xid(n as u64)).expect("short");
                let events = builder.seal(STAMP, &GtidTemplate::default()).expect("short");
                append(transaction(2, None, events.as_bytes()));
            }
        }
        binlog
    })
}

/// The first byte is the command (4: a replica of MariaDB, with its position), the second what the
/// replica says about checksums, the rest the body. A dump's position is always at the beginning
/// or end of an event; a replica can acknowledge only what it was sent.
pub fn request(data: &[u8]) {
    let ([command, checksum], body) = take::<2>(data);
    let mut r = Reader::new(body);
    let request = match command % 5 {
        4 => {
            let Ok(text) = std::str::from_utf8(body) else { return };
            let Ok(position) = MariadbGtid::position(text) else { return };
            let start = Start::Mariadb(MariadbStart { position, domain: 0 });
            Ok(Request { flags: 0, server_id: 9, start })
        }
        0 => Request::by_position(&mut r),
        1 => Request::by_gtids(&mut r),
        2 => {
            let _ = registration(&mut r);
            return;
        }
        _ => {
            if let Ok((offset, name)) = acknowledgement(&mut r) {
                acknowledges(offset, name);
            }
            return;
        }
    };
    let Ok(Request { start, .. }) = request else { return };
    let checksum = match checksum % 3 {
        0 => None,
        1 => Some(Checksum::None),
        _ => Some(Checksum::Crc32),
    };
    let Ok(mut dump) = Dump::begin(log(), start, checksum, &|| true) else { return };
    let end = log().end().expect("the log has files");
    let mut before = dump.given_up_to();
    while let Ok(Step::Event) = dump.advance() {
        let event = dump.event();
        let header = Header::decode(event).expect("READ-1: a whole event");
        assert_eq!(header.len as usize, event.len(), "READ-1: a whole event");
        let now = dump.given_up_to();
        assert!(before <= now && now <= end, "REPL-1: {before:?}, {now:?}, {end:?}");
        before = now;
    }
    let _ = dump.heartbeat();
}

/// An acknowledgement of a replica that was given the first file and a part of the second.
fn acknowledges(offset: u64, name: &[u8]) {
    let start = Start::File { name: Vec::new(), position: 4 };
    let mut dump =
        Dump::begin(log(), start, Some(Checksum::Crc32), &|| true).expect("the first file");
    while dump.given_up_to().file < 2 || dump.given_up_to().offset < 300 {
        assert_eq!(dump.advance(), Ok(Step::Event));
    }
    let given = dump.given_up_to();
    if let Some(BinlogPosition { file, offset: at }) = dump.acknowledged(name, offset) {
        assert!(at == offset && (file, at) <= (given.file, given.offset), "REPL-6");
        assert_eq!(name, format!("binlog.{file:06}").as_bytes());
    }
}

pub fn request_seeds() -> Vec<Vec<u8>> {
    let position = |file: &str, position: u32| {
        let head = [&[0, 2][..], &position.to_le_bytes(), &[0, 0, 9, 0, 0, 0]].concat();
        [&head[..], file.as_bytes()].concat()
    };
    let gtids = |numbers: &[u64]| {
        let set: GtidSet = numbers.iter().map(|n| Gtid { uuid: UUID, number: *n }).collect();
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        let mut seed = vec![1, 2, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        seed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        [seed, bytes].concat()
    };
    let ack = |file: &str, position: u64| {
        [&[3, 0, 0xef][..], &position.to_le_bytes(), file.as_bytes()].concat()
    };
    vec![
        position("", 4),
        position("binlog.000001", 126),
        position("binlog.000002", 4),
        position("binlog.000003", 127),
        position("binlog.000004", 4),
        gtids(&[]),
        gtids(&[1, 2, 3, 7]),
        gtids(&[99]),
        b"\x02\0\x09\0\0\0\x01h\0\0\xea\x0c\0\0\0\0\0\0\0\0".to_vec(),
        ack("binlog.000001", 500),
        ack("binlog.000002", 400),
        b"\x04\x02".to_vec(),
        b"\x04\x020-5-7,1-2-3".to_vec(),
        b"\x04\x020-6-7".to_vec(),
    ]
}

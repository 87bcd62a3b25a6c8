//! The records that travel in the redo log for the binary log.
use redolith_binlog::{
    Checksum, EncodeOptions, Event, GtidTemplate, Query, Stamp, TransactionBuilder, Uuid,
};
use redolith_engine::Lsn;
use redolith_replication::State;
use redolith_replication::maker::{Maker, Taken};
use redolith_replication::record::{Options, Record, Why, spilled, transaction};
use redolith_replication::spill::Spilled;

/// Makes files of records, each behind its length in two bytes. A record that is none, or that
/// cannot follow, is refused; the parts of the others follow each other without a gap.
pub fn records(data: &[u8]) {
    let mut maker = Maker::new("binlog", State::default());
    let (mut rest, mut lsn) = (data, 0);
    let mut ends = std::collections::BTreeMap::new();
    while let [a, b, behind @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*a, *b])).min(behind.len());
        let (record, behind) = behind.split_at(len);
        (rest, lsn) = (behind, lsn + 100);
        match maker.take(Lsn(lsn), record) {
            // A start is refused, or the process ends: no record follows.
            Err(_) => return,
            Ok(Taken::Spilled(file)) => {
                assert_eq!(maker.copying(), Some(file), "SPILL-1");
                if maker.wants_count() && maker.counted(1).is_err() {
                    return;
                }
                if maker.copy(&[0; 30]).is_ok() || maker.copied().is_err() {
                    return;
                }
            }
            Ok(Taken::Reset) => ends.clear(),
            Ok(Taken::Whole | Taken::Barrier) => {}
        }
        for part in maker.take_parts() {
            let end = ends.entry(part.file).or_insert(0);
            assert_eq!(part.at, *end, "MAKER-1: parts follow each other");
            *end += part.bytes.len() as u64;
        }
        assert_eq!(ends.get(&maker.state().file).copied().unwrap_or(0), maker.state().offset);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let stamp = Stamp { timestamp: 1, server_id: 1 };
    let options = Options {
        server_id: 1,
        checksum: Checksum::Crc32,
        max_file_bytes: 500,
        gtids: true,
        uuid: Uuid([3; 16]),
        server_version: "8.0.36".into(),
    };
    let sealed = || {
        let mut builder = TransactionBuilder::new(EncodeOptions::default());
        builder.query(stamp, &Query { text: b"BEGIN", ..Query::default() })?;
        builder.event(stamp, &Event::Xid(5))?;
        builder.seal(stamp, &GtidTemplate::default())
    };
    let events = sealed().expect("events of some bytes");
    let file = Spilled { number: 1, len: 30, crc: 0 };
    let start =
        Record::Rotate { why: Why::Start, us: 7, after: 0, options: options.clone() }.encode();
    let records = [
        start.clone(),
        transaction(9, Some(&[1, 2]), events.as_bytes()),
        Record::Barrier.encode(),
        transaction(9, None, events.as_bytes()),
        Record::Rotate { why: Why::Flush, us: 7, after: 5, options: options.clone() }.encode(),
        Record::Reset { us: 8, first: 3 }.encode(),
        Record::Largest(4096).encode(),
        transaction(9, None, events.as_bytes()),
        Record::Rotate {
            why: Why::Flush,
            us: 7,
            after: 5,
            options: Options { checksum: Checksum::None, ..options },
        }
        .encode(),
        transaction(9, None, events.as_bytes()),
        spilled(9, None, file, &events.as_bytes()[..80], &[]),
        Record::Stop { us: 9 }.encode(),
        start,
    ];
    let all: Vec<u8> = records
        .iter()
        .flat_map(|record| [&(record.len() as u16).to_le_bytes()[..], record].concat())
        .collect();
    vec![all, vec![2; 40]]
}

use super::super::{Dump, Start, Step};
use super::*;
use crate::binlog::Purged;
use crate::record::{Why, transaction};
use crate::rig::Rig;
use redolith_binlog::{
    EncodeOptions, FormatDescription, GtidTemplate, Query, Stamp, TransactionBuilder,
};

const DOMAIN: u32 = 3;

impl Rig {
    /// A transaction with these QUERY events, which has changed rows with these keys.
    fn queries(&mut self, texts: &[&str], keys: Option<&[u64]>) {
        let stamp = Stamp { timestamp: 1, server_id: 5 };
        let mut builder = TransactionBuilder::new(EncodeOptions::default());
        for text in texts {
            builder.query(stamp, &Query { text: text.as_bytes(), ..Query::default() }).unwrap();
        }
        let events = builder.seal(stamp, &GtidTemplate::default()).unwrap();
        self.append(transaction(2, keys, events.as_bytes()));
        self.publish();
    }
    fn mariadb(&self, position: &str) -> Result<Dump, DumpError> {
        let position = MariadbGtid::position(position).unwrap();
        let start = Start::Mariadb(MariadbStart { position, domain: DOMAIN });
        Dump::begin(&self.binlog, start, Some(Checksum::Crc32))
    }
    /// The transactions' events that a replica gets.
    fn given(&self, position: &str) -> Result<Vec<String>, DumpError> {
        let mut dump = self.mariadb(position)?;
        let mut seen = Vec::new();
        while dump.advance()? == Step::Event {
            seen.extend(shown(dump.event()));
        }
        Ok(seen)
    }
}

fn shown(bytes: &[u8]) -> Option<String> {
    let header = Header::decode(bytes).unwrap();
    let (rest, crc) = bytes.split_last_chunk::<4>().unwrap();
    assert_eq!(redolith_binlog::crc32(rest).to_le_bytes(), *crc);
    match Event::decode(&header, &rest[Header::LEN..]).unwrap() {
        Event::MariadbGtid(e) => {
            assert_eq!((e.domain, header.server_id), (DOMAIN, 5));
            let name = |x: XaName<'_>| format!("{} {:?} {:?}", x.format_id, x.gtrid, x.bqual);
            let kind = match e.group {
                MariadbGroup::Transaction => "begin".into(),
                MariadbGroup::Definition => "definition".into(),
                MariadbGroup::XaPrepare(x) => format!("xa start {}", name(x)),
                MariadbGroup::XaEnd(x) => format!("xa end {}", name(x)),
            };
            Some(format!("{}/{} {kind}", e.number, e.group_id.unwrap()))
        }
        Event::Query(q) => Some(String::from_utf8_lossy(q.text).into_owned()),
        Event::Gtid(_) | Event::PreviousGtids(_) => panic!("MySQL's GTIDs"),
        _ => None,
    }
}

#[test]
fn each_kind_of_transaction_begins_with_a_gtid_of_mariadb() {
    let mut rig = Rig::new(1 << 20);
    rig.queries(&["BEGIN", "rows", "COMMIT"], None);
    rig.queries(&["CREATE TABLE begin"], None);
    rig.queries(&["XA START X'0aFF',X'',-1", "rows", "XA END X'0aff',X'',-1"], None);
    rig.queries(&["XA COMMIT X'0aff',X'61',7"], None);
    rig.queries(&["XA ROLLBACK X'',X'',1"], None);
    let all = [
        "1/1 begin",
        "rows",
        "COMMIT",
        "2/2 definition",
        "CREATE TABLE begin",
        "3/3 xa start -1 [10, 255] []",
        "rows",
        "XA END X'0aff',X'',-1",
        "4/4 xa end 7 [10, 255] [97]",
        "XA COMMIT X'0aff',X'61',7",
        "5/5 xa end 1 [] []",
        "XA ROLLBACK X'',X'',1",
    ];
    assert_eq!(rig.given("").unwrap(), all);
    assert_eq!(rig.given("3-5-2").unwrap(), all[5..]);
    // Positions in the domains of other sources count for nothing.
    assert_eq!(rig.given("0-9-77,4-5-1").unwrap(), all);
    assert_eq!(rig.given("0-9-77,3-5-5").unwrap(), [""; 0]);
    // An event that ends where the file's events end keeps their position.
    let mut dump = rig.mariadb("3-5-3").unwrap();
    let (mut ends, mut last) = (Vec::new(), Vec::new());
    while dump.advance().unwrap() == Step::Event {
        ends.push(u64::from(Header::decode(dump.event()).unwrap().end_pos));
        last.push(dump.is_last());
    }
    assert_eq!(ends.last(), Some(&rig.binlog.end().unwrap().offset));
    assert!(ends[2..].is_sorted());
    // A replica acknowledges the end of a transaction, and not the GTID before its QUERY.
    assert_eq!(last[last.len() - 4..], [false, false, false, true]);
}

/// MariaDB's replicas refuse types that a FORMAT_DESCRIPTION does not know.
#[test]
fn the_format_knows_the_types_of_mariadb() {
    let mut rig = Rig::new(1 << 20);
    rig.queries(&["BEGIN"], None);
    let mut dump = rig.mariadb("").unwrap();
    dump.advance().unwrap();
    dump.advance().unwrap();
    let event = dump.event();
    let header = Header::decode(event).unwrap();
    let body = &event[Header::LEN..event.len() - 4];
    let Ok(Event::FormatDescription(format)) = Event::decode(&header, body) else { panic!() };
    assert_eq!((format.event_types, format.in_use, format.created), (163, false, 1));
    assert_eq!(event.len(), FormatDescription::EVENT_LEN + 163 - 41);
    assert_eq!(body[57 + 162 - 1], 19);
}

/// Tests DIALECT-2.
#[test]
fn heartbeats_are_not_behind_what_a_replica_has_counted() {
    let mut rig = Rig::new(1 << 20);
    // Their GTID event of such an end is longer than MySQL's.
    let long = format!("XA COMMIT X'{}',X'{}',1", "61".repeat(64), "62".repeat(64));
    let mut dump = rig.mariadb("").unwrap();
    let (mut counted, mut beats) = (0, Vec::new());
    for n in 0..12 {
        while dump.advance().unwrap() == Step::Event {
            let header = Header::decode(dump.event()).unwrap();
            counted = match header.event_type {
                EventType::ROTATE => 4,
                _ if header.end_pos == 0 => counted,
                _ => counted + u64::from(header.len),
            };
        }
        let beat = dump.heartbeat();
        let position = u64::from(Header::decode(&beat).unwrap().end_pos);
        assert!(counted <= position && rig.binlog.end().unwrap().offset <= position);
        beats.push(position > rig.binlog.end().unwrap().offset);
        match n {
            0..8 => rig.queries(&[&long], None),
            8 => rig.rotate(Why::Flush, 1 << 20),
            _ => rig.queries(&["BEGIN", "rows"], None),
        }
    }
    assert!(beats[8] && !beats[0] && !beats[11], "{beats:?}");
}

/// Tests DIALECT-1.
#[test]
fn transactions_that_the_clock_lets_run_together_are_a_group() {
    let mut rig = Rig::new(1 << 20);
    let begin = |rig: &mut Rig, keys: &[u64]| rig.queries(&["BEGIN"], Some(keys));
    for keys in [&[1][..], &[2], &[3], &[2], &[4], &[4], &[5]] {
        begin(&mut rig, keys);
    }
    rig.queries(&["CREATE"], None);
    begin(&mut rig, &[6]);
    begin(&mut rig, &[7]);
    rig.rotate(Why::Flush, 1 << 20);
    begin(&mut rig, &[8]);
    begin(&mut rig, &[9]);
    let groups = |seen: Vec<String>| -> Vec<(u64, u64)> {
        let names = seen.iter().filter_map(|s| s.split_once(' ')?.0.split_once('/'));
        names.map(|(n, group)| (n.parse().unwrap(), group.parse().unwrap())).collect()
    };
    let seen = groups(rig.given("").unwrap());
    let wanted = [1, 1, 1, 4, 4, 6, 6, 8, 9, 9, 11, 11];
    let wanted: Vec<(u64, u64)> = (1..).zip(wanted).collect();
    assert_eq!(seen, wanted);
    // Who begins in the middle of a group gets the rest of it, under another name.
    assert_eq!(groups(rig.given("3-5-2").unwrap())[..3], [(3, 3), (4, 3), (5, 3)]);
}

#[test]
fn a_position_in_a_file_is_that_of_the_transaction_before() {
    let mut rig = Rig::new(1 << 20);
    let mut places = vec![(rig.binlog.end().unwrap(), 0)];
    for number in 1..=5 {
        rig.queries(&["BEGIN", "rows"], None);
        places.push((rig.binlog.end().unwrap(), number));
        if number == 3 {
            rig.rotate(Why::Flush, 1 << 20);
            places.push((rig.binlog.end().unwrap(), number));
        }
    }
    let number = |name: &[u8], at| {
        last_before(&rig.binlog, name, at, DOMAIN, &|| true).unwrap().map(|g| g.number)
    };
    for (at, wanted) in places {
        let name = format!("binlog.{:06}", at.file);
        assert_eq!(number(name.as_bytes(), at.offset), Some(wanted));
        assert_eq!(number(name.as_bytes(), at.offset + 1), None);
    }
    assert_eq!(number(b"binlog.000002", 4), Some(3));
    assert_eq!(number(b"binlog.000003", 4), None);
    assert!(last_before(&rig.binlog, b"binlog.000001", 126, 0, &|| false).unwrap().is_none());
}

#[test]
fn positions_that_this_server_does_not_have_are_refused() {
    let mut rig = Rig::new(1 << 20);
    for _ in 0..3 {
        rig.queries(&["BEGIN"], None);
    }
    rig.rotate(Why::Flush, 1 << 20);
    rig.queries(&["BEGIN"], None);
    let error = |rig: &Rig, position: &str| rig.given(position).unwrap_err().0;
    let ahead = error(&rig, "3-5-5");
    assert!(ahead.contains("GTID 3-5-5, which is not in the master's binlog"), "{ahead}");
    assert!(ahead.ends_with("has the number 4"), "{ahead}");
    error(&rig, "3-5-18446744073709551615");
    // Another server's transactions, at the end of a file, too.
    for number in [1, 3, 4] {
        let other = error(&rig, &format!("3-6-{number}"));
        assert!(other.ends_with(&format!("that transaction is 3-5-{number}")), "{other}");
        assert!(rig.given(&format!("3-5-{number}")).is_ok());
    }
    rig.barrier();
    assert_eq!(rig.binlog.purge_before(2).unwrap(), Purged { files: 1, in_use: false });
    assert_eq!(rig.given("3-5-3").unwrap(), ["4/4 begin"]);
    assert!(error(&rig, "3-5-2").contains("purged required binary logs"));
    assert!(error(&rig, "").contains("purged required binary logs"));
}

use super::super::{Dump, Start, Step};
use super::*;
use crate::binlog::Purged;
use crate::record::{Options, Record, Why, transaction};
use crate::rig::Rig;
use redolith_binlog::{EncodeOptions, GtidTemplate, Query, Stamp, TransactionBuilder};

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
        Dump::begin(&self.binlog, start, Some(Checksum::Crc32), &|| true)
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
    assert_eq!(rig.given("0-9-77,4-8-1").unwrap(), all);
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
    assert_eq!(event.len(), 122 + 163 - 41);
    assert_eq!(body[57 + 162 - 1], 19);
}

/// Where a replica counts itself, in MariaDB's way (`queue_event`).
fn counted(count: u64, event: &[u8]) -> u64 {
    let header = Header::decode(event).unwrap();
    let end = u64::from(header.end_pos);
    match header.event_type {
        EventType::ROTATE => 4,
        EventType::MARIADB_GTID_LIST => end,
        _ if end == 0 => count,
        _ => (count + event.len() as u64).max(end),
    }
}

/// Tests DIALECT-2 and DIALECT-3.
#[test]
fn replicas_count_further_than_their_events_are_and_acknowledge_that() {
    let mut rig = Rig::new(1 << 20);
    // MariaDB's GTID event of such an end is longer than MySQL's.
    let long = format!("XA COMMIT X'{}',X'{}',1", "61".repeat(64), "62".repeat(64));
    let mut dump = rig.mariadb("").unwrap();
    let (mut count, mut ahead) = (0, 0);
    for n in 0..30 {
        while dump.advance().unwrap() == Step::Event {
            count = counted(count, dump.event());
            if dump.is_last() {
                dump.asks();
            }
        }
        let end = rig.binlog.end().unwrap();
        let beat = Header::decode(&dump.heartbeat()).unwrap().end_pos;
        assert_eq!(u64::from(beat), count.max(end.offset));
        ahead += u64::from(count > end.offset);
        let name = dump.position().0.as_bytes().to_vec();
        assert_eq!(dump.acknowledged(&name, count + 1), None, "it was not sent so much");
        assert_eq!(dump.acknowledged(&name, count), Some(end));
        match n % 10 {
            3 => rig.rotate(Why::Flush, 1 << 20),
            4..8 => rig.queries(&["BEGIN", "rows"], None),
            _ => rig.queries(&[&long], None),
        }
    }
    assert!(ahead > 5, "{ahead}");
    // An acknowledgement of an earlier count counts for the event at which it was asked for.
    rig.queries(&["BEGIN", "rows"], None);
    let before = rig.binlog.end().unwrap();
    while dump.advance().unwrap() == Step::Event {
        count = counted(count, dump.event());
    }
    dump.asks();
    let asked = count;
    rig.queries(&[&long], None);
    while dump.advance().unwrap() == Step::Event {
        count = counted(count, dump.event());
    }
    dump.asks();
    let name = dump.position().0.as_bytes().to_vec();
    assert_eq!(dump.acknowledged(&name, asked), Some(before));
    assert_eq!(dump.acknowledged(&name, count), Some(rig.binlog.end().unwrap()));
}

#[test]
fn a_replica_that_comes_back_has_what_is_passed_over() {
    let mut rig = Rig::new(1 << 20);
    for _ in 0..3 {
        rig.queries(&["BEGIN"], None);
    }
    let end = rig.binlog.end().unwrap();
    let mut dump = rig.mariadb("3-5-3").unwrap();
    assert_eq!(dump.take_had(), None);
    while dump.advance().unwrap() == Step::Event {}
    assert_eq!((dump.take_had(), dump.take_had()), (Some(end), None));
    rig.queries(&["BEGIN"], None);
    let mut dump = rig.mariadb("3-5-3").unwrap();
    while !matches!(shown(dump.event()), Some(text) if text == "4/4 begin") {
        assert_eq!(dump.take_had(), None);
        dump.advance().unwrap();
    }
    assert_eq!(dump.take_had(), Some(end));
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

#[test]
fn a_changed_domain_or_server_id_sends_nothing_twice() {
    let mut rig = Rig::new(1 << 20);
    rig.queries(&["BEGIN"], None);
    let error = rig.given("9-5-1").unwrap_err().0;
    assert!(error.ends_with("gtid_domain_id is 3 now"), "{error}");
    // The server id of now, which `gtid_binlog_pos` has, and that of then.
    let options = Options { server_id: 8, gtids: true, ..rig.binlog.options() };
    rig.append(Record::Rotate { why: Why::Flush, us: 1, after: 0, options }.encode());
    rig.publish();
    for position in ["3-5-1", "3-8-1"] {
        assert_eq!(rig.given(position).unwrap(), [""; 0]);
    }
    assert!(rig.given("3-9-1").unwrap_err().0.ends_with("that transaction is 3-5-1"));
}

#[test]
fn transactions_without_a_gtid_are_not_passed_over() {
    let mut rig = Rig::new(1 << 20);
    let gtids = |rig: &mut Rig, gtids: bool| {
        let options = Options { gtids, ..rig.binlog.options() };
        rig.append(Record::Rotate { why: Why::Start, us: 1, after: 0, options }.encode());
        rig.publish();
    };
    gtids(&mut rig, false);
    rig.queries(&["BEGIN"], None);
    let at = rig.binlog.end().unwrap();
    gtids(&mut rig, true);
    rig.queries(&["BEGIN"], None);
    let error = rig.given("").unwrap_err().0;
    assert!(error.contains("a transaction without a GTID"), "{error}");
    assert_eq!(rig.given("3-5-1").unwrap(), [""; 0]);
    let name = format!("binlog.{:06}", at.file);
    let before = |at| last_before(&rig.binlog, name.as_bytes(), at, DOMAIN, &|| true).unwrap();
    assert_eq!(before(at.offset), None);
    // Behind such a transaction only later positions are good.
    gtids(&mut rig, false);
    rig.queries(&["BEGIN"], None);
    assert!(rig.given("3-5-1").is_err());
    gtids(&mut rig, true);
    rig.queries(&["BEGIN"], None);
    assert_eq!(rig.given("3-5-2").unwrap(), [""; 0]);
}

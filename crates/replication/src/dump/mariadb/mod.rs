//! The binary log as MariaDB replicas that follow by GTIDs get it: GTID events of MariaDB's kind
//! take the place of MySQL's.
//!
//! | MySQL's events | MariaDB's |
//! |---|---|
//! | FORMAT_DESCRIPTION | the same, which knows MariaDB's types, too |
//! | GTID `uuid:n`, QUERY `BEGIN` | GTID `domain-server-n`, which stands for BEGIN |
//! | GTID, QUERY `XA START` | GTID with the XA name, which stands for XA START |
//! | GTID, QUERY with `XA COMMIT` or `XA ROLLBACK` | GTID with the XA name, and the QUERY |
//! | GTID, QUERY with a definition | GTID of a definition, and the QUERY |
//! | PREVIOUS_GTIDS | GTID_LIST without GTIDs, at whose end the replica stands where the file's head ends |
//!
//! All other events are the same. So a transaction's number is the same in both kinds of names, and
//! its server is the one in the headers of its events.
//!
//! DIALECT-1: transactions that follow each other get the same group id only if the logical clock
//! lets all of them be applied side by side: a transaction joins a group if the group's first
//! member comes after the last transaction that it depends on. The id is the first member's number.
//! DIALECT-2: a heartbeat never names a position before the replica's own count, because the
//! replica takes that for an error. Each event takes the count forward by its length, and at least
//! to its position; GTID_LIST takes it to its position exactly, and events with position 0, as
//! FORMAT_DESCRIPTION has it here, do not change it. (MariaDB, `queue_event`)
//! DIALECT-3: a replica acknowledges its own count, which may be further than its events are in the
//! file. Such an acknowledgement counts for the last event at which the replica was asked and had
//! counted no more.
use super::{
    Checksum, DumpError, Event, EventType, FIRST_EVENT_AT, GtidEvent, Header, NO_GTIDS, ReadError,
    first_missing,
};
use crate::binlog::Binlog;
use crate::record::Options;
use redolith_binlog::{
    BinlogPosition, GtidSet, MariadbGroup, MariadbGtid, MariadbGtidEvent, Uuid, XaName,
    append_translated,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most acknowledgements that are remembered. An older one counts for nothing.
const MOST_ASKED: usize = 1024;

/// Where a replica of MariaDB begins, and in which domain the transactions of this server are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MariadbStart {
    /// `@slave_connect_state`: the last transactions that the replica has.
    pub position: Vec<MariadbGtid>,
    /// `gtid_domain_id`.
    pub domain: u32,
}

impl MariadbStart {
    /// The transaction of this server behind which the replica begins. Other domains are those of
    /// other sources.
    fn last(&self) -> Option<MariadbGtid> {
        let last = self.position.iter().copied().find(|gtid| gtid.domain == self.domain);
        last.filter(|gtid| gtid.number > 0)
    }
}

/// Where a replica begins.
pub(super) struct Begin {
    pub file: u32,
    pub has: GtidSet,
    pub dialect: Dialect,
}

/// Finds where a replica begins, and checks that the last transaction that it has is this server's,
/// if that is in a file before. (In the first file the dump itself comes to it.)
pub(super) fn find(
    binlog: &Arc<Binlog>,
    start: &MariadbStart,
    goes_on: &dyn Fn() -> bool,
) -> Result<Begin, DumpError> {
    let options = binlog.options();
    if !options.gtids {
        return Err(NO_GTIDS.into());
    }
    let mut dialect = Dialect::new(start, &options);
    let Some(last) = dialect.last else {
        let ours = |gtid: &&MariadbGtid| gtid.server_id == options.server_id && gtid.number > 0;
        if let Some(gtid) = start.position.iter().find(ours) {
            return Err(unknown(*gtid, format!("gtid_domain_id is {} now", start.domain)));
        }
        // Files without GTIDs are not passed over: the first of their transactions ends the dump.
        let oldest = binlog.numbers().first().copied().unwrap_or_default();
        let (_, previous) = binlog.open_file(oldest)?;
        let has = GtidSet::new();
        let file = if previous.is_empty() { oldest } else { first_missing(binlog, &has, goes_on)? };
        return Ok(Begin { file, has, dialect });
    };
    let newest = binlog.status().executed.last_number(options.uuid);
    if last.number > newest {
        return Err(unknown(last, format!("its last transaction has the number {newest}")));
    }
    let mut has = GtidSet::new();
    has.add_interval(options.uuid, 1, last.number + 1);
    let file = first_missing(binlog, &has, goes_on)?;
    let (_, previous) = binlog.open_file(file)?;
    if previous.last_number(options.uuid) >= last.number {
        let mut before = GtidSet::new();
        before.add_interval(options.uuid, 1, last.number);
        // The files before may be gone.
        if let Ok(earlier) = first_missing(binlog, &before, goes_on) {
            dialect.look_for_last(binlog, earlier, goes_on)?;
        }
        dialect.last = None;
    }
    Ok(Begin { file, has, dialect })
}

/// The last transaction of this server before a position in a file, with the number 0 if there is
/// none. Returns None if there is no such file, if no transaction begins at the position, if the
/// one before has no GTID of this server, or if `goes_on` returned false. Reads the file up to the
/// position.
pub fn last_before(
    binlog: &Arc<Binlog>,
    name: &[u8],
    position: u64,
    domain: u32,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<MariadbGtid>, ReadError> {
    let Ok(file) = super::find(binlog, name) else { return Ok(None) };
    let _kept = binlog.reader(file);
    let options = binlog.options();
    if !options.gtids {
        return Ok(None);
    }
    let (mut reader, previous) = binlog.open_file(file)?;
    let number = previous.last_number(options.uuid);
    let mut last = Some(MariadbGtid { domain, server_id: options.server_id, number });
    reader.seek(FIRST_EVENT_AT);
    let mut ends = FIRST_EVENT_AT;
    while reader.position() < position {
        let begins = reader.position();
        let Some(event) = reader.next_event()?.filter(|_| goes_on()) else { return Ok(None) };
        let server_id = event.header.server_id;
        if matches!(event.header.event_type, EventType::GTID | EventType::ANONYMOUS_GTID)
            && let Event::Gtid(name) = event.decode()?
        {
            let own = name.gtid.filter(|gtid| gtid.uuid == options.uuid);
            last = own.map(|gtid| MariadbGtid { domain, server_id, number: gtid.number });
            ends = begins.saturating_add(name.transaction_len);
        }
    }
    Ok(last.filter(|_| reader.position() == position && position >= ends))
}

/// What becomes of an event.
pub(super) enum Translated {
    /// The replica gets the event itself.
    Same,
    /// The replica does not get the event.
    Nothing,
    /// The replica gets this event, and then the event itself if `and_same`.
    Made { event: Vec<u8>, and_same: bool },
}

/// Translates the events of one dump.
pub(super) struct Dialect {
    domain: u32,
    uuid: Uuid,
    /// `server_id` of now.
    server_id: u32,
    /// The last transaction that the replica has, until the dump has found it in the log.
    last: Option<MariadbGtid>,
    /// A GTID event whose QUERY has not been read yet.
    named: Option<(Header, GtidEvent)>,
    /// The position in the file that the replica counts (DIALECT-2).
    counted: u64,
    /// Where the replica was asked: the file, its count, and the position (DIALECT-3).
    asked: VecDeque<((u32, u64), BinlogPosition)>,
    /// The first transaction of the group: its sequence number, and the group's id.
    group: Option<(u64, u64)>,
}

impl Dialect {
    fn new(start: &MariadbStart, options: &Options) -> Dialect {
        Dialect {
            domain: start.domain,
            uuid: options.uuid,
            server_id: options.server_id,
            last: start.last(),
            named: None,
            counted: FIRST_EVENT_AT,
            asked: VecDeque::new(),
            group: None,
        }
    }

    /// The next event is in another file, whose sequence numbers begin anew.
    pub(super) fn begins_file(&mut self) {
        (self.counted, self.group, self.named) = (FIRST_EVENT_AT, None, None);
    }

    /// The position in the file that the replica counts.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// Checks the last transaction that the replica has, which is in this file.
    fn look_for_last(
        &mut self,
        binlog: &Arc<Binlog>,
        file: u32,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), DumpError> {
        let _kept = binlog.reader(file);
        let (mut reader, _) = binlog.open_file(file)?;
        reader.seek(FIRST_EVENT_AT);
        while self.last.is_some()
            && goes_on()
            && let Some(event) = reader.next_event()?
        {
            if event.header.event_type == EventType::GTID
                && let Event::Gtid(name) = event.decode()?
            {
                self.check(&event.header, &name)?;
            }
        }
        Ok(())
    }

    /// Takes the count forward by an event that the replica gets.
    fn count(&mut self, len: usize, end_pos: u32) {
        if end_pos > 0 {
            self.counted = (self.counted + len as u64).max(end_pos.into());
        }
    }

    /// The replica is asked to acknowledge the present event, at this position.
    pub(super) fn asks(&mut self, at: BinlogPosition) {
        if self.asked.len() == MOST_ASKED {
            self.asked.pop_front();
        }
        self.asked.push_back(((at.file, self.counted), at));
    }
    /// What an acknowledgement of a count in a file counts for (DIALECT-3). `now`: the file of the
    /// present event. None if the replica has not been sent so much.
    pub(super) fn acknowledged(
        &mut self,
        file: u32,
        count: u64,
        now: u32,
    ) -> Option<BinlogPosition> {
        if (file, count) > (now, self.counted) {
            return None;
        }
        let mut at = BinlogPosition { file, offset: 0 };
        while let Some((_, asked)) = self.asked.pop_front_if(|(asked, _)| *asked <= (file, count)) {
            at = asked;
        }
        Some(at)
    }

    /// Whether the replica has a transaction without a GTID of this server: it has everything
    /// before the last one that it names.
    pub(super) fn is_before_last(&self) -> bool {
        self.last.is_some()
    }

    /// Checks a transaction that the replica has: the last one has to be that of this server, and
    /// not another server's with the same number.
    pub(super) fn check(&mut self, header: &Header, event: &GtidEvent) -> Result<(), DumpError> {
        let own = event.gtid.filter(|gtid| gtid.uuid == self.uuid);
        let Some(last) = self.last.filter(|last| own.is_some_and(|g| g.number == last.number))
        else {
            return Ok(());
        };
        self.last = None;
        // `gtid_binlog_pos` has the server id of now.
        if header.server_id == last.server_id || self.server_id == last.server_id {
            return Ok(());
        }
        Err(unknown(
            last,
            format!("that transaction is {}", MariadbGtid { server_id: header.server_id, ..last }),
        ))
    }

    /// Translates an event of a transaction that the replica does not have.
    pub(super) fn translate(
        &mut self,
        header: &Header,
        event: &[u8],
        checksum: Checksum,
    ) -> Result<Translated, DumpError> {
        let wrong = |e| DumpError(format!("an event at {}: {e}", header.end_pos));
        let is_name = matches!(header.event_type, EventType::GTID | EventType::ANONYMOUS_GTID);
        if header.event_type == EventType::PREVIOUS_GTIDS {
            let mut list = Vec::new();
            append_translated(&mut list, &Event::MariadbGtidList, header, checksum)
                .map_err(|e| DumpError(e.to_string()))?;
            self.counted = header.end_pos.into();
            return Ok(Translated::Made { event: list, and_same: false });
        }
        if !is_name && self.named.is_none() {
            self.count(event.len(), header.end_pos);
            return Ok(Translated::Same);
        }
        let body = &event[Header::LEN..event.len() - checksum.len()];
        let decoded = Event::decode(header, body).map_err(wrong)?;
        let Some((named, name)) = self.named.take() else {
            if let Event::Gtid(name) = decoded {
                self.named = Some((*header, name));
            }
            return Ok(Translated::Nothing);
        };
        let Event::Query(query) = decoded else {
            let found = header.event_type.name();
            return Err(DumpError(format!("{found} stands behind a GTID instead of Query")));
        };
        let mut parts = (Vec::new(), Vec::new());
        let (group, and_same) = match query.text.trim_ascii() {
            b"BEGIN" => (MariadbGroup::Transaction, false),
            text => match xa_statement(text, &mut parts) {
                Some((Verb::Start, name)) => (MariadbGroup::XaPrepare(name), false),
                Some((Verb::End, name)) => (MariadbGroup::XaEnd(name), true),
                None => (MariadbGroup::Definition, true),
            },
        };
        let Some(gtid) = name.gtid.filter(|gtid| gtid.uuid == self.uuid) else {
            let what = name.gtid.map_or("a transaction without a GTID".into(), |g| g.to_string());
            return Err(DumpError(format!(
                "The log has {what}, which has no name that a replica of MariaDB understands: only \
                 transactions with this server's server_uuid have. Set the replica up behind it, \
                 or let it follow by file and position"
            )));
        };
        let begins = self.group.filter(|(first, _)| name.clock.last_committed < *first);
        let (_, id) =
            *self.group.insert(begins.unwrap_or((name.clock.sequence_number, gtid.number)));
        let made = Event::MariadbGtid(MariadbGtidEvent {
            number: gtid.number,
            domain: self.domain,
            group_id: Some(id),
            group,
        });
        // Where the QUERY is left out, the event ends where the QUERY did.
        let of = if and_same { named } else { Header { end_pos: header.end_pos, ..named } };
        let mut name = Vec::new();
        append_translated(&mut name, &made, &of, checksum).map_err(|e| DumpError(e.to_string()))?;
        self.count(name.len(), of.end_pos);
        if and_same {
            self.count(event.len(), header.end_pos);
        }
        Ok(Translated::Made { event: name, and_same })
    }
}

/// The error for a transaction that this server does not have, in MariaDB's words.
fn unknown(gtid: MariadbGtid, why: String) -> DumpError {
    DumpError(format!(
        "Error: connecting slave requested to start from GTID {gtid}, which is not in the master's \
         binlog: {why}"
    ))
}

/// What an XA statement at the beginning of a group does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Start,
    End,
}

/// Reads an XA statement in the form of the binary log: `XA START X'..',X'..',1`.
fn xa_statement<'a>(
    text: &[u8],
    (gtrid, bqual): &'a mut (Vec<u8>, Vec<u8>),
) -> Option<(Verb, XaName<'a>)> {
    let text = std::str::from_utf8(text).ok()?;
    let (verb, name) = [("START", Verb::Start), ("COMMIT", Verb::End), ("ROLLBACK", Verb::End)]
        .iter()
        .find_map(|(word, verb)| {
            Some((*verb, text.strip_prefix("XA ")?.strip_prefix(word)?.strip_prefix(' ')?))
        })?;
    let mut parts = name.split(',');
    *gtrid = hex(parts.next()?)?;
    *bqual = hex(parts.next()?)?;
    let format_id = parts.next()?.trim().parse().ok()?;
    let whole = parts.next().is_none();
    whole.then_some((verb, XaName { format_id, gtrid, bqual }))
}

/// The bytes of `X'..'`.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().strip_prefix("X'")?.strip_suffix('\'')?.as_bytes();
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() <= 64)
}

#[cfg(test)]
mod tests;

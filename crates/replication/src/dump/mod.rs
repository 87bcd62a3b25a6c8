//! What a replica reads: the events of the files from a start on, and the events that are made for
//! it.
//!
//! Each file begins with an artificial ROTATE, which names the file, and with its
//! FORMAT_DESCRIPTION, also if the dump begins in the middle of the file. All other events are
//! those of the file, byte for byte, with the file's checksums. (MySQL does not take checksums away
//! either: `@source_binlog_checksum` tells how the ROTATE event before the first FORMAT_DESCRIPTION
//! ends, and that the replica knows checksums.) A replica of MariaDB that follows by GTIDs gets
//! some events in another form ([`mariadb`]).
//!
//! - REPL-1: only what is published is read, so a replica never has a transaction that a crash
//!   takes back (FOLLOW-1).
//! - REPL-2: an event is given only if it was checked, or comes from memory. The dump ends at a
//!   damaged event with its file and position.
//! - REPL-7: a dump ends with an error when the log begins anew: nothing follows what it has read.
//! - REPL-3: a dump reads when its replica has taken what was read before. Its memory is one chunk
//!   of a file, or one event that is longer. At the end of the log it has no memory of its own
//!   (LATEST-2).
mod mariadb;
mod passing;

use crate::binlog::{Binlog, Reading};
use crate::tail::Chunk;
use mariadb::{Dialect, Translated};
use passing::Passing;
use redolith_binlog::file::{FIRST_EVENT_AT, file_name, file_number};
use redolith_binlog::{
    BinlogPosition, Checksum, Damage, Event, EventType, GtidEvent, GtidSet, Header, ReadError,
    Reader, Rotate, Stamp, append_artificial, append_translated, flags,
};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

pub use mariadb::{MariadbStart, last_before};

/// The end of a file that was written this long ago, in bytes, is in memory: reading it does not
/// wait for the disk.
const NEAR: u64 = 1 << 20;
/// Where the flags are in a header.
const FLAGS_AT: usize = 17;

/// Where a dump begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// In a file, which an empty name makes the oldest one.
    File {
        /// The file's name without its folder.
        name: Vec<u8>,
        /// Where the first event begins.
        position: u64,
    },
    /// At the first transaction that the replica does not have.
    Gtids(GtidSet),
    /// As `Gtids`, for a replica of MariaDB.
    Mariadb(MariadbStart),
}

/// Why a dump cannot begin, or go on: the text of error 1236.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpError(pub String);
impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl From<&str> for DumpError {
    fn from(text: &str) -> DumpError {
        DumpError(text.to_string())
    }
}
impl From<ReadError> for DumpError {
    fn from(e: ReadError) -> DumpError {
        match &e.damage {
            Damage::Io(error) if error.kind() == io::ErrorKind::NotFound => UNKNOWN_FILE.into(),
            _ => DumpError(e.to_string()),
        }
    }
}

const UNKNOWN_FILE: &str = "Could not find first log file name in binary log index file";
const BEHIND: &str = "Client requested source to start replication from position > file size";
const BEFORE: &str = "Client requested source to start replication from position < 4";
const NO_GTIDS: &str = "The replication sender thread cannot start in AUTO_POSITION mode: this \
    server has GTID_MODE = OFF instead of ON.";
const NO_CHECKSUMS: &str = "Replica can not handle replication events with the checksum that \
    source is configured to log";
const MORE_GTIDS: &str = "Replica has more GTIDs than the source has, using the source's \
    SERVER_UUID. This may indicate that the last binary log file was truncated or lost.";

const RESET: &str = "The binary log has begun anew since this replica began to read it (RESET \
    BINARY LOGS AND GTIDS). Set the replica up again";

/// What [`Dump::advance`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Dump::event`] is the next event.
    Event,
    /// Everything that is published was given.
    End,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Rotate,
    Format,
    Events,
}

/// A replica's way through the files.
pub struct Dump {
    binlog: Arc<Binlog>,
    reading: Reading,
    /// The resets of the log before the dump.
    resets: u64,
    /// The number of the log in memory.
    log: u64,
    /// For artificial events.
    server_id: u32,
    file: u32,
    name: String,
    /// Where the events begin in this file, and whether one begins there for certain.
    from: u64,
    from_is_event: bool,
    reader: Reader,
    /// The end of what is read: the last one that was looked up.
    end: u64,
    next: Next,
    /// The checksum of artificial events.
    checksum: Checksum,
    knows_checksums: bool,
    /// What the replica has. `skips`: the transaction that is read is in it.
    has: Option<GtidSet>,
    skips: bool,
    /// For a replica of MariaDB that follows by GTIDs.
    dialect: Option<Dialect>,
    /// The transactions that the replica has end here, until the dump has told so.
    had: Option<BinlogPosition>,
    /// Whether the dump has come to a transaction that the replica does not have.
    gives: bool,
    /// The present event was made here; the event that was read from the file follows it.
    holds: bool,
    /// An artificial event, if that is the present one.
    made: Option<Vec<u8>>,
    /// Where the present event is in memory, if it was not read from the file.
    shared: Option<(Chunk, Range<usize>)>,
    /// What was seen of the present file.
    passing: Passing,
}

impl Dump {
    /// Begins a dump. `checksum`: what the replica has set `@source_binlog_checksum` to. Reads
    /// files, so it may block. If `goes_on` returns false, nothing is read any more, and the result
    /// is of no use.
    pub fn begin(
        binlog: &Arc<Binlog>,
        start: Start,
        checksum: Option<Checksum>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Dump, DumpError> {
        let log = binlog.tail().log();
        let resets = binlog.place_now().0;
        let options = binlog.options();
        let reading = binlog.reader(0);
        let mut dialect = None;
        let (file, from, has) = match start {
            Start::File { name, position } => {
                if position < FIRST_EVENT_AT {
                    return Err(BEFORE.into());
                }
                (find(binlog, &name)?, position, None)
            }
            Start::Gtids(has) => {
                if !options.gtids {
                    return Err(NO_GTIDS.into());
                }
                let ahead = has.last_number(options.uuid);
                if ahead > binlog.status().executed.last_number(options.uuid) {
                    return Err(MORE_GTIDS.into());
                }
                (first_missing(binlog, &has, goes_on)?, FIRST_EVENT_AT, Some(has))
            }
            Start::Mariadb(start) => {
                let begin = mariadb::find(binlog, &start, goes_on)?;
                dialect = Some(begin.dialect);
                (begin.file, FIRST_EVENT_AT, Some(begin.has))
            }
        };
        reading.moves_to(file);
        let (reader, _) = binlog.open_file(file)?;
        let mut dump = Dump {
            name: file_name(&binlog.place().base, file),
            binlog: binlog.clone(),
            reading,
            resets,
            log,
            server_id: options.server_id,
            file,
            from,
            from_is_event: false,
            reader,
            end: 0,
            next: Next::Rotate,
            checksum: checksum.unwrap_or(Checksum::None),
            knows_checksums: checksum.is_some(),
            has,
            skips: false,
            dialect,
            had: None,
            gives: false,
            holds: false,
            made: None,
            shared: None,
            passing: Passing::begin(from),
        };
        dump.look()?;
        dump.check_start()?;
        if from == dump.end && dump.has_next() {
            dump.passing = Passing::of_file(binlog, file, dump.next_file(), from, goes_on)?;
        }
        Ok(dump)
    }

    /// Whether an event begins at the start.
    fn check_start(&mut self) -> Result<(), DumpError> {
        if self.from > self.end {
            return Err(BEHIND.into());
        }
        self.reader.seek(self.from);
        match self.reader.next_event() {
            Err(ReadError {
                damage:
                    Damage::Position { .. }
                    | Damage::Length(_)
                    | Damage::Cut { .. }
                    | Damage::UnknownType(_)
                    | Damage::Body(_),
                ..
            }) if self.from > FIRST_EVENT_AT => Err(BEHIND.into()),
            found => {
                self.from_is_event = matches!(found, Ok(Some(_)));
                Ok(())
            }
        }
    }

    /// The file that is read, and the position behind the last event that was given.
    pub fn position(&self) -> (&str, u64) {
        (&self.name, self.given_up_to().offset)
    }
    /// The same position with the file's number. Everything before it was given, or the replica
    /// has it.
    pub fn given_up_to(&self) -> BinlogPosition {
        let at = if self.next == Next::Events { self.reader.position() } else { self.from };
        BinlogPosition { file: self.file, offset: at }
    }
    /// Where a dump begins whose replica has said where: it has everything before.
    pub fn begins_behind(&self) -> Option<BinlogPosition> {
        self.has.is_none().then_some(BinlogPosition { file: self.file, offset: self.from })
    }
    /// How often the log had begun anew before the log that is read.
    pub fn resets(&self) -> u64 {
        self.resets
    }
    /// Whether the present event is the last one that is known to be published in its file, and the
    /// replica stands behind it when it has it. (Behind a ROTATE it stands in the next file.)
    pub fn is_last(&self) -> bool {
        // The head of a file ends with PREVIOUS_GTIDS, for which MariaDB's replicas get another
        // event.
        let is_head = |made: &Vec<u8>| {
            Header::decode(made).is_ok_and(|h| h.event_type == EventType::MARIADB_GTID_LIST)
        };
        self.made.as_ref().is_none_or(is_head)
            && self.reader.position() == self.end
            && !matches!(
                Header::decode(self.event()),
                Ok(Header { event_type: EventType::ROTATE | EventType::STOP, .. }) | Err(_)
            )
    }
    /// The replica is asked to acknowledge the present event.
    pub fn asks(&mut self) {
        let at = self.given_up_to();
        self.dialect.iter_mut().for_each(|dialect| dialect.asks(at));
    }
    /// The position that a replica names, if the dump has given everything before it: the file's
    /// name, and the bytes in it.
    pub fn acknowledged(&mut self, name: &[u8], offset: u64) -> Option<BinlogPosition> {
        let file = number_of(&self.binlog.place().base, name)?;
        if let Some(dialect) = &mut self.dialect {
            return dialect.acknowledged(file, offset, self.file);
        }
        let at = BinlogPosition { file, offset };
        (at <= self.given_up_to()).then_some(at)
    }
    /// Tells once, when the dump has passed over what the replica has, where that ends: a replica
    /// that comes back with GTIDs acknowledges everything before, as MySQL counts it.
    pub fn take_had(&mut self) -> Option<BinlogPosition> {
        self.had.take()
    }

    /// Whether the next [`Dump::advance`] may wait for the disk.
    pub fn may_block(&self) -> bool {
        let position = self.reader.position();
        let far = self.end.saturating_sub(position) > NEAR;
        self.next != Next::Events
            || (position >= self.end && self.has_next())
            || (far && !self.reader.next_is_buffered() && self.latest().is_none())
    }

    /// The memory of the dump.
    pub fn bytes(&self) -> usize {
        self.reader.buffer_bytes() + self.shared.as_ref().map_or(0, |(c, _)| c.bytes().len())
    }

    /// The event that [`Dump::advance`] found.
    pub fn event(&self) -> &[u8] {
        match (&self.made, &self.shared) {
            (Some(made), _) => made,
            (None, Some((chunk, range))) => &chunk.bytes()[range.clone()],
            (None, None) => self.reader.current(),
        }
    }

    /// A HEARTBEAT event for the present position.
    pub fn heartbeat(&self) -> Vec<u8> {
        let (name, position) = self.position();
        let position = self.dialect.as_ref().map_or(position, |d| d.counted().max(position));
        self.artificial(&Event::Heartbeat(name.as_bytes()), position as u32)
    }

    fn artificial(&self, event: &Event<'_>, end_pos: u32) -> Vec<u8> {
        let stamp = Stamp { timestamp: 0, server_id: self.server_id };
        let mut made = Vec::new();
        append_artificial(&mut made, event, stamp, end_pos, self.checksum)
            .expect("the name of a file is short");
        made
    }

    /// Goes to the next event.
    pub fn advance(&mut self) -> Result<Step, DumpError> {
        match self.next {
            Next::Rotate => {
                let rotate = Rotate { position: self.from, file: self.name.as_bytes() };
                self.made = Some(self.artificial(&Event::Rotate(rotate), 0));
                self.next = Next::Format;
                Ok(Step::Event)
            }
            Next::Format => {
                self.made = Some(self.format()?);
                match self.from {
                    FIRST_EVENT_AT => {}
                    from if self.from_is_event => self.reader.return_to(from),
                    from => self.reader.seek(from),
                }
                self.next = Next::Events;
                Ok(Step::Event)
            }
            Next::Events => {
                self.made = None;
                if std::mem::take(&mut self.holds) {
                    return Ok(Step::Event);
                }
                self.read()
            }
        }
    }

    /// The file's FORMAT_DESCRIPTION. A replica must not take a file for closed because the source
    /// is in it, and must not drop its temporary tables because its dump begins in the middle.
    fn format(&mut self) -> Result<Vec<u8>, DumpError> {
        self.checksum = self.reader.format().checksum;
        if self.checksum != Checksum::None && !self.knows_checksums {
            return Err(NO_CHECKSUMS.into());
        }
        self.reader.seek(FIRST_EVENT_AT);
        let Some(event) = self.reader.next_event()? else { return Err(UNKNOWN_FILE.into()) };
        let header = event.header;
        if let Some(dialect) = &mut self.dialect {
            dialect.begins_file();
            let mut format = self.reader.format().clone().for_mariadb();
            format.in_use = false;
            let mut made = Vec::new();
            let header = Header { end_pos: 0, ..header };
            append_translated(&mut made, &Event::FormatDescription(format), &header, self.checksum)
                .expect("it was read from a file");
            return Ok(made);
        }
        if self.from > FIRST_EVENT_AT {
            let stamp =
                Stamp { timestamp: event.header.timestamp, server_id: event.header.server_id };
            let mut format = self.reader.format().clone();
            (format.created, format.in_use) = (0, false);
            let mut made = Vec::new();
            let event = Event::FormatDescription(format);
            append_artificial(&mut made, &event, stamp, 0, self.checksum)
                .expect("it was read from a file");
            return Ok(made);
        }
        let mut made = event.bytes.to_vec();
        // The checksum does not count the flag.
        made[FLAGS_AT] &= !(flags::IN_USE as u8);
        Ok(made)
    }

    /// The next event of the files that the replica does not have.
    fn read(&mut self) -> Result<Step, DumpError> {
        loop {
            let Some(header) = self.next_header()? else {
                if self.look()? {
                    continue;
                }
                if !self.has_next() {
                    self.begins_to_give(self.reader.position());
                    self.shared = None;
                    self.reader.free_buffer();
                    return Ok(Step::End);
                }
                // The published end has gone on to another file since the last look, perhaps, but
                // then a second look finds the whole file.
                if self.look()? {
                    continue;
                }
                self.go_on().map_err(|e| match self.binlog.place_now().0 == self.resets {
                    true => e,
                    false => RESET.into(),
                })?;
                return self.advance();
            };
            let name = self.name_in(&header)?;
            self.passing.event(header.event_type, name.and_then(|name| name.gtid));
            if self.has.is_some() {
                self.skip(&header, name)?;
                if name.is_some() && !self.skips {
                    let len = u64::from(header.len);
                    self.begins_to_give(self.reader.position().saturating_sub(len));
                }
            }
            if self.skips {
                continue;
            }
            let Some(dialect) = &mut self.dialect else { return Ok(Step::Event) };
            let event = match &self.shared {
                Some((chunk, range)) => &chunk.bytes()[range.clone()],
                None => self.reader.current(),
            };
            let in_file = |e: DumpError| DumpError(format!("{}: {e}", self.name));
            match dialect.translate(&header, event, self.checksum).map_err(in_file)? {
                Translated::Same => return Ok(Step::Event),
                Translated::Nothing => {}
                Translated::Made { event, and_same } => {
                    (self.made, self.holds) = (Some(event), and_same);
                    return Ok(Step::Event);
                }
            }
        }
    }
    /// Everything before `offset` was passed over, or is the head of the file.
    fn begins_to_give(&mut self, offset: u64) {
        if self.has.is_some() && !std::mem::replace(&mut self.gives, true) {
            self.had = Some(BinlogPosition { file: self.file, offset });
        }
    }
    /// What is in memory of the next event.
    fn latest(&self) -> Option<Chunk> {
        self.binlog.tail().find(self.log, self.file, self.reader.position())
    }
    /// Goes to the next event in the file, and returns its header.
    fn next_header(&mut self) -> Result<Option<Header>, DumpError> {
        let (file, at) = (self.file, self.reader.position());
        if at < self.end {
            let present = self.shared.take().map(|(chunk, _)| chunk);
            let found = present.filter(|chunk| chunk.event(file, at).is_some());
            if let Some(chunk) = found.or_else(|| self.latest())
                && let Some((header, range)) = chunk.event(file, at)
                && at + range.len() as u64 <= self.end
            {
                self.reader.pass(range.len() as u64);
                self.reader.free_buffer();
                self.shared = Some((chunk, range));
                return Ok(Some(header));
            }
        }
        self.shared = None;
        Ok(self.reader.next_event()?.map(|event| event.header))
    }
    /// What the present event says if a transaction begins with it.
    fn name_in(&self, header: &Header) -> Result<Option<GtidEvent>, DumpError> {
        if !matches!(header.event_type, EventType::GTID | EventType::ANONYMOUS_GTID) {
            return Ok(None);
        }
        let event = self.event();
        let body = &event[Header::LEN..event.len() - self.checksum.len()];
        match Event::decode(header, body) {
            Ok(Event::Gtid(name)) => Ok(Some(name)),
            Ok(_) => Ok(None),
            Err(e) => Err(DumpError(format!("{}: {e}", self.name))),
        }
    }
    /// Looks whether the replica has the transaction of the present event.
    fn skip(&mut self, header: &Header, name: Option<GtidEvent>) -> Result<(), DumpError> {
        if let Some(name) = name {
            let has = self.has.as_ref().zip(name.gtid);
            self.skips = has.is_some_and(|(has, gtid)| has.contains(gtid));
            // A position in MariaDB's form is a place in the log: the replica has all before it.
            self.skips |= self.dialect.as_ref().is_some_and(Dialect::is_before_last);
            if let Some(dialect) = self.dialect.as_mut().filter(|_| self.skips) {
                dialect.check(header, &name)?;
            }
        }
        // They stand between transactions.
        if matches!(
            header.event_type,
            EventType::ROTATE | EventType::STOP | EventType::PREVIOUS_GTIDS
        ) {
            self.skips = false;
        }
        Ok(())
    }

    /// Looks where the file ends now. Returns whether it has grown.
    fn look(&mut self) -> Result<bool, DumpError> {
        let (resets, end) = self.binlog.place_now();
        if resets != self.resets {
            return Err(RESET.into());
        }
        let end = match end {
            Some(end) if end.file == self.file => end.offset,
            // Nothing is added to a file behind which there is another.
            // A file that cannot be opened now is no file without further events.
            _ => match self.binlog.file_len(self.file) {
                Ok(len) => len,
                Err(_) if self.binlog.place_now().0 != self.resets => return Err(RESET.into()),
                Err(e) => return Err(DumpError(format!("{}: {e}", self.name))),
            },
        };
        let grown = end > self.end;
        if grown {
            self.end = end;
            self.reader.set_end(end);
        }
        Ok(grown)
    }

    /// Whether another file follows.
    fn has_next(&self) -> bool {
        self.binlog.end().is_some_and(|end| end.file > self.file)
    }
    fn next_file(&self) -> u32 {
        let next = self.binlog.numbers().into_iter().find(|n| *n > self.file);
        next.unwrap_or(self.file + 1)
    }
    /// Goes on to the next file (REPL-8).
    fn go_on(&mut self) -> Result<(), DumpError> {
        let file = self.next_file();
        let reader = self.passing.judge(&self.binlog, self.file, file)?;
        self.reading.moves_to(file);
        (self.reader, self.passing) = (reader, Passing::begin(FIRST_EVENT_AT));
        (self.file, self.from, self.end, self.next) = (file, FIRST_EVENT_AT, 0, Next::Rotate);
        self.name = file_name(&self.binlog.place().base, file);
        self.look()?;
        Ok(())
    }
}

/// The number of the file with this name.
fn find(binlog: &Binlog, name: &[u8]) -> Result<u32, DumpError> {
    let numbers = binlog.numbers();
    let number = if name.is_empty() {
        numbers.first().copied()
    } else {
        number_of(&binlog.place().base, name).filter(|n| numbers.contains(n))
    };
    number.ok_or_else(|| UNKNOWN_FILE.into())
}
/// The number in the name of a file.
fn number_of(base: &str, name: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(name).ok().and_then(file_number);
    number.filter(|n| file_name(base, *n).as_bytes() == name)
}

/// The last file before which there is no transaction that the replica does not have.
fn first_missing(
    binlog: &Binlog,
    has: &GtidSet,
    goes_on: &dyn Fn() -> bool,
) -> Result<u32, DumpError> {
    let mut missing = GtidSet::new();
    for number in binlog.numbers().into_iter().rev().take_while(|_| goes_on()) {
        let (_, previous) = binlog.open_file(number)?;
        if previous.is_subset(has) {
            return Ok(number);
        }
        missing = previous;
    }
    missing.subtract(has);
    Err(DumpError(format!(
        "Cannot replicate because the source purged required binary logs. Replicate the missing \
         transactions from elsewhere, or provision a new replica from backup. Consider increasing \
         the source's binary log expiration period. The missing transactions are '{}'",
        missing.to_string().replace('\n', "")
    )))
}

#[cfg(test)]
mod tests;

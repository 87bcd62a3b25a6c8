//! `redolith check` for the binary log: reads every event of the files of a stopped server, and
//! names what is wrong.
//!
//! BINLOG-CHECK-1: nothing is written.
//! BINLOG-CHECK-2: of each file up to the place where the next start goes on, each event is whole
//! and at its place, transactions follow each other without a gap, none has a name that another one
//! has, and the transactions before each file are those that it counts in PREVIOUS_GTIDS
//! (BINLOG-FILES-7). What lies behind that place a start makes again from the redo log, whatever is
//! there. Where a reset has not come to its end, a start removes all files.
//! BINLOG-CHECK-3: the memory is that of a piece of an event and of the names of the transactions,
//! for which there is a bound: names that a server has drawn are a few intervals.
//! BINLOG-CHECK-4: where nothing tells how far the last file of a log was durable, because the log
//! is of another data directory or the redo log cannot be read, this file may end as a crash leaves
//! it: inside an event or a transaction, or with zeros from within an event on.
use crate::Binlog;
use crate::binlog::Outcome;
use crate::files::Place;
use crate::files::order::Begin;
use redolith_binlog::file::{FIRST_EVENT_AT, Piece, file_name, file_number};
use redolith_binlog::{
    BinlogPosition, Damage, Event, EventType, Gtid, GtidEvent, GtidSet, Header, Index, ReadError,
    Reader,
};
use redolith_disk::{Disk, OpenHow};
use redolith_engine::Told;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The most findings of one file that are told.
const MOST_FINDINGS: usize = 20;
/// The most intervals of names that are kept.
const MOST_INTERVALS: usize = 1 << 20;

/// The sums of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of files.
    pub files: u64,
    /// The number of events in them.
    pub events: u64,
    /// The number of transactions.
    pub transactions: u64,
    /// The bytes of the files.
    pub bytes: u64,
    /// How often there was [`Told::Damage`].
    pub damaged: u64,
}

/// Checks the files of a binary log that has been judged as a start judges it. A log that was not
/// judged, or that the data directory knows nothing of, may end as a crash leaves it.
pub fn check(disk: &dyn Disk, binlog: &Binlog, tell: &mut dyn FnMut(Told)) -> Checked {
    let place = binlog.place();
    let numbers: Vec<u32> = match Index::open(disk, &place.index()) {
        Ok(index) => index.files().iter().filter_map(|line| file_number(line)).collect(),
        Err(e) => {
            tell(Told::Damage(e.to_string()));
            return Checked { damaged: 1, ..Checked::default() };
        }
    };
    let len = |number: &u32| {
        let file = disk.open(&place.path(*number), OpenHow::existing(false));
        file.and_then(|file| file.len()).unwrap_or(0)
    };
    let lens: Vec<u64> = numbers.iter().map(len).collect();
    let (whole, sums) = (lens.iter().sum(), Checked::default());
    let outcome = binlog.outcome();
    if outcome == Some(Outcome::RemovesAll) {
        tell(Told::Note(format!(
            "RESET BINARY LOGS AND GTIDS has not come to its end: a start removes all files of {}, \
             and makes those anew that the redo log has",
            place.index().display()
        )));
        return sums;
    }
    let (goes_on, made_from) = match outcome {
        Some(Outcome::GoesOn(at)) => (Some(at), at.file.saturating_add(1)),
        Some(Outcome::BeginsWith(first)) => (None, first),
        _ => (None, u32::MAX),
    };
    let of_others = numbers.iter().copied().take_while(|number| *number < made_from);
    let ends = Ends { goes_on, made_from, torn: of_others.last().filter(|_| goes_on.is_none()) };
    // A start that has been judged knows of each reset of its own log.
    let is_reset = matches!(outcome, None | Some(Outcome::Leaves)) && binlog.is_reset();
    let names = Names { before: Some(GtidSet::new()), intervals: 0 };
    let named = &numbers;
    let mut check =
        Check { disk, place, named, ends, is_reset, names, sums, whole, found: 0, tell };
    let mut before = None;
    for (i, number) in numbers.iter().enumerate() {
        check.found = 0;
        before = check.file(*number, before.take());
        check.sums.bytes += lens[i];
        (check.tell)(Told::Progress(check.sums.bytes, whole));
    }
    check.sums
}

struct Check<'a> {
    disk: &'a dyn Disk,
    place: &'a Place,
    /// The files that the index names.
    named: &'a [u32],
    ends: Ends,
    /// Whether a reset of another log may have removed any of the files.
    is_reset: bool,
    names: Names,
    sums: Checked,
    whole: u64,
    /// How many findings of the file were told.
    found: usize,
    tell: &'a mut dyn FnMut(Told),
}
/// How far the files are to be whole.
struct Ends {
    /// Where a start goes on with the log.
    goes_on: Option<BinlogPosition>,
    /// The first file that a start makes again.
    made_from: u32,
    /// The file that may end as a crash leaves it (BINLOG-CHECK-4).
    torn: Option<u32>,
}
/// The names of the transactions so far.
struct Names {
    /// `None` where they are not known.
    before: Option<GtidSet>,
    /// At most so many intervals they have.
    intervals: usize,
}
/// The transaction whose events come.
struct Open {
    /// Where it begins, and where it ends.
    at: u64,
    end: u64,
}

impl Check<'_> {
    fn damage(&mut self, why: String) {
        self.sums.damaged += 1;
        self.found += 1;
        match self.found {
            n if n < MOST_FINDINGS => (self.tell)(Told::Damage(why)),
            MOST_FINDINGS => (self.tell)(Told::Damage(format!("{why}. More is not told"))),
            _ => {}
        }
    }
    /// What is wrong at a position of a file.
    fn wrong(&mut self, number: u32, position: u64, why: &str) {
        let path = self.place.path(number);
        self.damage(format!("binary log {}, position {position}: {why}", path.display()));
    }
    /// Takes damage that has ended the reading of a file, which ends at `end` or behind.
    fn broken(&mut self, number: u32, e: &ReadError, end: u64) {
        self.names.before = None;
        match self.is_torn(number, e, end) {
            true => (self.tell)(Told::Note(format!("{e}, as a crash leaves it"))),
            false => self.damage(e.to_string()),
        }
    }
    /// Whether a crash may have left the damage of an event that says that it ends at `end`
    /// (BINLOG-CHECK-4).
    fn is_torn(&self, number: u32, e: &ReadError, end: u64) -> bool {
        let zeros = || zeros_at_end(self.disk, &self.place.path(number));
        let end = end.max(e.position + Header::LEN as u64);
        self.ends.torn == Some(number)
            && match e.damage {
                Damage::Cut { .. } => true,
                Damage::Io(_) => false,
                _ => zeros().is_ok_and(|zeros| !zeros.is_empty() && zeros.start <= end),
            }
    }
    /// Tells of a file that the index names and that is not there.
    fn missing(&mut self, path: &Path) {
        let (path, index) = (path.display(), self.place.index());
        let index = index.display();
        if self.is_reset {
            (self.tell)(Told::Note(format!(
                "{path} is gone and {index} still names it, as a crash during RESET BINARY LOGS \
                 AND GTIDS leaves it"
            )));
        } else if self.sums.files == 0 {
            // PURGE removes the first files, and then their lines of the index.
            (self.tell)(Told::Note(format!(
                "{path} is gone and {index} still names it, as a crash during PURGE BINARY LOGS \
                 leaves it: a start takes the name away"
            )));
        } else {
            self.damage(format!(
                "{path} is missing, and {index} names it: restore it, or set up the replicas \
                 again that need it"
            ));
        }
    }
    /// Checks a file. `before` is the file before it, if that can be read. Returns its begin.
    fn file(&mut self, number: u32, before: Option<(u32, Begin)>) -> Option<(u32, Begin)> {
        let path = self.place.path(number);
        if number >= self.ends.made_from {
            (self.tell)(Told::Note(format!(
                "{} lies behind the place where the binary log goes on: a start makes it again, or \
                 sets it aside",
                path.display()
            )));
            return None;
        }
        if !self.disk.exists(&path) {
            self.names.before = None;
            self.missing(&path);
            return None;
        }
        self.sums.files += 1;
        let begin = match Begin::read(self.disk, self.place, number) {
            Ok(begin) => begin,
            Err(e) => {
                self.broken(number, &e, e.end());
                return None;
            }
        };
        if self.ends.torn == Some(number) && begin.ends_early {
            (self.tell)(Told::Note(format!(
                "{} ends before its PREVIOUS_GTIDS event, as a crash leaves it",
                path.display()
            )));
            return None;
        }
        if let Some((left, of_left)) = &before
            && let Some(why) = of_left.before(
                &begin,
                &file_name(&self.place.base, number),
                left + 1 == number,
                |name| self.named.iter().any(|n| file_name(&self.place.base, *n) == name),
            )
        {
            let (left, name) = (self.place.path(*left), file_name(&self.place.base, number));
            self.damage(format!(
                "{} and {name}, which follows it, do not fit: {why}. Files were exchanged, or one \
                 of the two is an older copy",
                left.display()
            ));
        }
        let is_new_log = before.is_none() || begin.begins_a_log();
        self.previous(number, &begin, is_new_log);
        if let Err(e) = self.events(number) {
            self.broken(number, &e, e.end());
        }
        Some((number, begin))
    }
    /// Compares what a file counts in PREVIOUS_GTIDS with what was read of the files before.
    fn previous(&mut self, number: u32, begin: &Begin, is_new_log: bool) {
        if let Some(before) = &self.names.before
            && !is_new_log
            && *before != begin.previous
        {
            let (has, had) = (shown(&begin.previous), shown(before));
            let why = format!("PREVIOUS_GTIDS has {has}, and the files before have {had}");
            self.wrong(number, FIRST_EVENT_AT, &why);
        }
        self.names.intervals = begin.previous.servers().map(|(_, parts)| parts.len()).sum();
        self.names.before = Some(begin.previous.clone());
    }

    /// Reads the events of a file.
    fn events(&mut self, number: u32) -> Result<(), ReadError> {
        let mut reader = Reader::open(self.disk, &self.place.path(number))?;
        let goes_on = self.ends.goes_on.filter(|at| at.file == number);
        if let Some(at) = goes_on {
            reader.judge_end(at.offset)?;
        }
        let mut open: Option<Open> = None;
        let (mut sequence, mut ended, begun) = (0, false, self.sums.bytes);
        let mut counts_those_before = false;
        loop {
            let position = reader.position();
            let (event_type, end, gtid) = match reader.next_in_pieces() {
                Ok(None) => break,
                Ok(Some(Piece::Event(event))) => {
                    let gtid = match event.decode() {
                        Ok(Event::Gtid(gtid)) => Ok(Some(gtid)),
                        Ok(_) => Ok(None),
                        Err(e) => Err(e),
                    };
                    (event.header.event_type, event.end(), gtid)
                }
                Ok(Some(Piece::Long { position, header })) => {
                    (header.event_type, position + u64::from(header.len), Ok(None))
                }
                Err(e @ ReadError { damage: Damage::Checksum { .. }, .. })
                    if !self.is_torn(number, &e, e.end()) =>
                {
                    self.damage(e.to_string());
                    // The event may have begun or ended a transaction.
                    (open, self.names.before) = (None, None);
                    continue;
                }
                Err(e) => return Err(e),
            };
            self.sums.events += 1;
            if self.sums.events.is_multiple_of(1024) {
                (self.tell)(Told::Progress(begun + position, self.whole));
            }
            counts_those_before |= event_type == EventType::PREVIOUS_GTIDS;
            if ended {
                self.wrong(number, position, "an event lies behind the end of the file");
            }
            ended = matches!(event_type, EventType::ROTATE | EventType::STOP);
            let begins = matches!(event_type, EventType::GTID | EventType::ANONYMOUS_GTID);
            match &open {
                Some(transaction) if begins || ended || end > transaction.end => {
                    let at = transaction.at;
                    let why = format!("the transaction that begins at {at} does not end here");
                    self.wrong(number, position, &why);
                    open = None;
                }
                Some(transaction) if end == transaction.end => open = None,
                Some(_) => {}
                None => {}
            }
            match gtid {
                Ok(Some(gtid)) => {
                    self.sums.transactions += 1;
                    open = Some(Open {
                        at: position,
                        end: position.saturating_add(gtid.transaction_len),
                    });
                    self.transaction(number, position, &gtid, &mut sequence);
                }
                Ok(None) => {}
                Err(e) if self.is_torn(number, &e, end) => {
                    self.broken(number, &e, end);
                    return Ok(());
                }
                Err(e) => {
                    self.damage(e.to_string());
                    open = None;
                }
            }
        }
        if self.ends.torn == Some(number) {
            return Ok(());
        }
        if !counts_those_before {
            self.wrong(number, reader.position(), "the file ends before its PREVIOUS_GTIDS event");
        }
        if let Some(Open { at, .. }) = open {
            self.wrong(number, at, "the file ends inside the transaction that begins here");
        }
        Ok(())
    }
    /// Checks the name and the logical clock of a transaction.
    fn transaction(&mut self, number: u32, position: u64, event: &GtidEvent, sequence: &mut u64) {
        let clock = event.clock;
        if clock.sequence_number <= *sequence || clock.last_committed >= clock.sequence_number {
            let why = format!(
                "the transaction has number {} behind {sequence}, and depends on {}: it is not at \
                 its place",
                clock.sequence_number, clock.last_committed
            );
            self.wrong(number, position, &why);
        }
        *sequence = clock.sequence_number;
        let (Some(gtid), Some(names)) = (event.gtid, &mut self.names.before) else { return };
        let Gtid { uuid, number: name } = gtid;
        if names.contains(gtid) {
            let why = format!("another transaction has the name {uuid}:{name}, too");
            return self.wrong(number, position, &why);
        }
        let goes_on = name > 1 && names.contains(Gtid { uuid, number: name - 1 });
        self.names.intervals += usize::from(!goes_on);
        names.add(gtid);
        if self.names.intervals > MOST_INTERVALS {
            self.names.before = None;
            self.wrong(number, position, "the names of the transactions have too many gaps");
        }
    }
}
/// The zeros that a file ends with.
fn zeros_at_end(disk: &dyn Disk, path: &Path) -> io::Result<Range<u64>> {
    const PIECE: u64 = 64 << 10;
    let file = disk.open(path, OpenHow::existing(false))?;
    let len = file.len()?;
    let (mut from, mut piece) = (len, Vec::new());
    while from > 0 {
        let at = from.saturating_sub(PIECE);
        piece.resize((from - at) as usize, 0);
        file.read_at(&mut piece, at)?;
        match piece.iter().rposition(|byte| *byte != 0) {
            Some(last) => {
                from = at + last as u64 + 1;
                break;
            }
            None => from = at,
        }
    }
    Ok(from..len)
}
/// The first names of a set.
fn shown(names: &GtidSet) -> String {
    const SHOWN: usize = 200;
    let text = names.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}..", &text[..at]),
        None if text.is_empty() => "no transaction".into(),
        None => text,
    }
}

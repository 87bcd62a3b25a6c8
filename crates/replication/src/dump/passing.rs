//! Judges the file that a dump is about to leave for the next one.
//!
//! REPL-8: a dump goes on to the next file only if nothing shows that the end of the present file
//! is missing, because it was cut between two events or is an older copy:
//!
//! - The file is not IN_USE: the next file begins when this one is closed, durably.
//! - It ends with ROTATE if the next one was begun by a rotation.
//! - All transactions that the next file has in PREVIOUS_GTIDS were there.
//!
//! A file without GTIDs behind which a start began the next one may end with any event, because a
//! crash may have ended it. Where such a file was cut, nothing shows it.
use super::{DumpError, FIRST_EVENT_AT};
use crate::binlog::Binlog;
use redolith_binlog::file::file_name;
use redolith_binlog::{Event, EventType, Gtid, ReadError, Reader};

/// What a dump has seen of the present file.
#[derive(Default)]
pub(super) struct Passing {
    /// Whether it has seen the file from the first event on.
    whole: bool,
    /// The type of the last event.
    last_type: Option<EventType>,
    /// How many transactions with a GTID there were, and the last one.
    transactions: u64,
    last: Option<Gtid>,
}

impl Passing {
    /// Begins with a file, from a position on.
    pub(super) fn begin(from: u64) -> Passing {
        Passing { whole: from == FIRST_EVENT_AT, ..Passing::default() }
    }

    /// Takes an event, with its transaction's name if it has one.
    #[inline]
    pub(super) fn event(&mut self, event_type: EventType, gtid: Option<Gtid>) {
        self.last_type = Some(event_type);
        if gtid.is_some() {
            self.transactions += 1;
            self.last = gtid;
        }
    }

    /// Reads a closed file up to `end`, for a dump that begins there and will see no event of it. A
    /// file that cannot tell whether its end is missing is not read, and damage before the end is
    /// no matter of this dump.
    pub(super) fn of_file(
        binlog: &Binlog,
        file: u32,
        next: u32,
        end: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Passing, ReadError> {
        let nothing = Passing::begin(end);
        let (mut reader, before) = binlog.open_file(file)?;
        let (next_reader, mut of_file) = binlog.open_file(next)?;
        of_file.subtract(&before);
        if of_file.is_empty() && !is_by_rotation(&next_reader) {
            return Ok(nothing);
        }
        let mut passing = Passing::begin(FIRST_EVENT_AT);
        while reader.position() < end && goes_on() {
            let Ok(Some(event)) = reader.next_event() else { return Ok(nothing) };
            let gtid = match event.header.event_type {
                EventType::GTID => match event.decode() {
                    Ok(Event::Gtid(name)) => name.gtid,
                    _ => return Ok(nothing),
                },
                _ => None,
            };
            passing.event(event.header.event_type, gtid);
        }
        Ok(passing)
    }

    /// Judges `file`, whose end the dump has reached, before it goes on to `next`. Returns the
    /// reader of that.
    pub(super) fn judge(&self, binlog: &Binlog, file: u32, next: u32) -> Result<Reader, DumpError> {
        let (reader, before) = binlog.open_file(file)?;
        let (next_reader, mut of_file) = binlog.open_file(next)?;
        let by_rotation = is_by_rotation(&next_reader);
        if !by_rotation && self.last.is_some_and(|gtid| !of_file.contains(gtid)) {
            // The file is of another data directory, which nobody has closed.
            return Ok(next_reader);
        }
        of_file.subtract(&before);
        let last = self.last.map_or(0, |gtid| of_file.last_number(gtid.uuid));
        let names_miss = self.whole && self.transactions < of_file.len()
            || self.last.is_some_and(|gtid| gtid.number < last);
        let ends_otherwise = self.last_type.is_some_and(|last| last != EventType::ROTATE);
        let why = if reader.format().in_use {
            "the file was not closed"
        } else if by_rotation && ends_otherwise {
            "the file does not end with a ROTATE event"
        } else if names_miss {
            "the next file counts more transactions as those before it"
        } else {
            return Ok(next_reader);
        };
        let place = binlog.place();
        Err(DumpError(format!(
            "binary log {}: its end is missing: {why}, and {} follows. It was cut, or is an older \
             copy. Restore it, or set the replica up again",
            place.path(file).display(),
            file_name(&place.base, next)
        )))
    }
}

/// Whether a rotation has begun the file, and not a start.
fn is_by_rotation(reader: &Reader) -> bool {
    reader.format().created == 0
}

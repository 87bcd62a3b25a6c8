//! The order of the files: what the begin of each says of the file before it.
//!
//! BINLOG-FILES-7: of two files of a log that follow each other, the first one is closed, has the
//! transactions that the second one counts in PREVIOUS_GTIDS beyond its own, and ends with a ROTATE
//! event that names the second one if a rotation has begun that. The transactions of the file in
//! which the log goes on are those of its state. Where this is not so, a file was exchanged or is
//! an older copy. A start is refused then, so nothing is appended to such a file and nothing of it
//! is sent.
//!
//! A file that cannot be read says nothing here: what is damaged in it is told to who reads it, and
//! by `redolith check`. The files before the first one of a log may be those of another data
//! directory, or of an earlier one with the same `server_uuid`. A start has begun that file, and it
//! counts no transactions. Where numbers are missing, files were removed.
use super::{Files, Place};
use crate::state::State;
use redolith_binlog::file::{file_name, file_number};
use redolith_binlog::{Event, EventType, Gtid, GtidSet, ReadError, Reader};
use redolith_disk::Disk;
use redolith_engine::Result;

/// What the first events of a file say.
pub(crate) struct Begin {
    /// Whether the file is not closed.
    is_open: bool,
    /// Whether a rotation has begun the file, and not a start.
    by_rotation: bool,
    /// The transactions of all files before.
    pub(crate) previous: GtidSet,
    /// Whether the file ends before its PREVIOUS_GTIDS event, as a crash may leave it.
    pub(crate) ends_early: bool,
    /// The position and the name of the first transaction, if it has a name.
    first: Option<(u64, Gtid)>,
    /// The name of the file in the ROTATE event at the end.
    rotates_to: Option<String>,
}

impl Begin {
    pub(crate) fn read(
        disk: &dyn Disk,
        place: &Place,
        number: u32,
    ) -> std::result::Result<Begin, ReadError> {
        let mut reader = Reader::open(disk, &place.path(number))?;
        let (is_open, by_rotation) = (reader.format().in_use, reader.format().created == 0);
        reader.next_event()?;
        let second = reader.next_event()?;
        let ends_early = second.is_none();
        let previous = match second.map(|event| event.decode()).transpose()? {
            Some(Event::PreviousGtids(set)) => set,
            _ => GtidSet::new(),
        };
        let first = match reader.next_event() {
            Ok(Some(event)) if event.header.event_type == EventType::GTID => {
                match event.decode()? {
                    Event::Gtid(name) => name.gtid.map(|gtid| (event.position, gtid)),
                    _ => None,
                }
            }
            // An event that is cut off, or none.
            _ => None,
        };
        let rotates_to = match reader.last_event(EventType::ROTATE)? {
            Some(event) => match event.decode()? {
                Event::Rotate(rotate) => Some(String::from_utf8_lossy(rotate.file).into_owned()),
                _ => None,
            },
            None => None,
        };
        Ok(Begin { is_open, by_rotation, previous, ends_early, first, rotates_to })
    }

    /// Whether the file is the first one of a log, whatever lies before it.
    pub(crate) fn begins_a_log(&self) -> bool {
        !self.by_rotation && self.previous.is_empty()
    }
    /// Why this file cannot be the one before `next`, which is called `name`. `adjacent`: no file
    /// between them was removed; one that nobody names (`is_named`) was, too.
    pub(crate) fn before(
        &self,
        next: &Begin,
        name: &str,
        adjacent: bool,
        is_named: impl Fn(&str) -> bool,
    ) -> Option<String> {
        match self.rotates_to.as_deref() {
            Some(to) if to == name => {}
            Some(to) if is_named(to) => {
                return Some(format!("the first one ends with a ROTATE event to {to}"));
            }
            Some(_) => return None,
            None if next.by_rotation && adjacent => {
                return Some("the first one does not end with a ROTATE event".into());
            }
            None => {}
        }
        if next.begins_a_log() {
            return None;
        }
        let first = self.first.map(|(_, gtid)| gtid);
        if !self.previous.is_subset(&next.previous) {
            Some("the second one does not count transactions that lie before the first one".into())
        } else if self.is_open {
            Some("the first one was not closed".into())
        } else if first.is_some_and(|gtid| !next.previous.contains(gtid)) {
            Some("the second one does not count the transactions of the first one".into())
        } else {
            self.within()
        }
    }
    /// Why the file cannot be the one in which a log with these transactions goes on at `offset`.
    fn goes_on(&self, executed: &GtidSet, offset: u64) -> Option<String> {
        let first = self.first.filter(|(at, _)| *at < offset).map(|(_, gtid)| gtid);
        if !self.previous.is_subset(executed) {
            Some("it counts transactions that this server has not executed".into())
        } else if first.is_some_and(|gtid| !executed.contains(gtid)) {
            Some("it has transactions that this server has not executed".into())
        } else {
            self.within()
        }
    }
    fn within(&self) -> Option<String> {
        let (_, first) = self.first?;
        self.previous
            .contains(first)
            .then(|| "it begins with a transaction that it counts among those before it".into())
    }
}

impl Files {
    /// Judges the files up to the one in which the log goes on (BINLOG-FILES-7).
    pub(crate) fn judge_order(&self, state: &State) -> Result<()> {
        let place = &self.place;
        let numbers: Vec<u32> = self.numbers().into_iter().filter(|n| *n <= state.file).collect();
        let is_named = |name: &str| {
            file_number(name)
                .is_some_and(|n| numbers.contains(&n) && file_name(&place.base, n) == name)
        };
        let mut before: Option<(u32, Begin)> = None;
        for number in numbers.iter().copied() {
            let Ok(begin) = Begin::read(&*self.disk, place, number) else {
                before = None;
                continue;
            };
            if let Some((left, of_left)) = &before
                && let Some(why) = of_left.before(
                    &begin,
                    &file_name(&place.base, number),
                    left + 1 == number,
                    is_named,
                )
            {
                return Err(place.damaged(&format!(
                    "{} and {}, which follows it, do not fit: {why}. Files were exchanged, or one \
                     of the two is an older copy",
                    place.path(*left).display(),
                    file_name(&place.base, number)
                )));
            }
            if number == state.file
                && let Some(why) = begin.goes_on(&state.executed, state.offset)
            {
                return Err(place.damaged(&format!(
                    "{} is not the file of that name of this binary log: {why}. Files were \
                     exchanged, or it is an older copy",
                    place.path(number).display()
                )));
            }
            before = Some((number, begin));
        }
        Ok(())
    }
}

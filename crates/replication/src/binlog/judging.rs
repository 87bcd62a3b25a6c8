//! What a start judges of the binary log before it writes anything.
//!
//! The records behind the checkpoint are taken once more than the files need: the first time to
//! learn which files they make and where each ends, and whether the spill files that they name are
//! whole. The bytes of that time are dropped.
use crate::files::Files;
use crate::maker::{Maker, Taken};
use crate::spill::{self, SpillReader, Spilled};
use redolith_binlog::BinlogPosition;
use redolith_disk::Disk;
use redolith_engine::{Error, Lsn, Result};
use std::collections::BTreeMap;
use std::io;

/// What a start is going to do to the files that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It goes on at this place, and makes again what lies behind it.
    GoesOn(BinlogPosition),
    /// It begins with this file, or makes it again. Those before it are of another log.
    BeginsWith(u32),
    /// It removes all files: a reset has not come to its end (BINLOG-FILES-2).
    RemovesAll,
    /// The data directory has no binary log: all files are of another log.
    Leaves,
}
/// What a start has judged.
pub(super) struct Judged {
    /// The file that has more than the redo log knows of it: the start is going to cut it, and
    /// keeps a copy first.
    pub(super) surplus: Option<u32>,
    pub(super) outcome: Outcome,
}

/// The records that a start has judged.
pub(super) struct Judging {
    maker: Maker,
    /// The record of the reset that is still to come (BINLOG-FILES-2).
    reset_ahead: Option<Lsn>,
    /// Whether bytes were dropped because the reset is ahead.
    dropped: bool,
    /// Whether the files that are there go, because there was a reset.
    reset: bool,
    /// Where the file of the checkpoint's state is gone on with, if it is there.
    goes_on: Option<BinlogPosition>,
    /// Whether there was a record that the files do not have for certain.
    taken: bool,
    /// How far each file that gets bytes goes.
    ends: BTreeMap<u32, u64>,
    /// The first bytes of the files that the last record began.
    heads: Vec<(u32, Vec<u8>)>,
}

impl Judging {
    pub(super) fn new(
        maker: Maker,
        reset_ahead: Option<Lsn>,
        goes_on: Option<BinlogPosition>,
    ) -> Judging {
        let (dropped, reset, taken) = (false, false, false);
        let (ends, heads) = (BTreeMap::new(), Vec::new());
        let mut judging =
            Judging { maker, reset_ahead, dropped, reset, goes_on, taken, ends, heads };
        // A log that begins anew has another first file at each start.
        judging.drop_parts();
        judging.heads.clear();
        judging
    }

    /// Judges the next record.
    pub(super) fn take(
        &mut self,
        disk: &dyn Disk,
        files: &Files,
        at: Lsn,
        record: &[u8],
    ) -> Result<()> {
        self.taken |= at >= self.maker.state().lsn;
        let wrong = |why| {
            Error::Damaged(format!("the binary log's record at LSN {at} of the redo log: {why}"))
        };
        match self.maker.take(at, record).map_err(wrong)? {
            Taken::Whole | Taken::Barrier => {}
            Taken::Spilled(spilled) => {
                self.copy(disk, files, spilled).map_err(|e| lost_events(at, &e))?;
            }
            Taken::Reset => {
                if self.reset_ahead.is_none_or(|ahead| ahead <= at) {
                    (self.reset_ahead, self.dropped, self.reset) = (None, false, true);
                }
            }
        }
        self.drop_parts();
        // A reset removes the files that are there.
        let heads = std::mem::take(&mut self.heads).into_iter().filter(|_| !self.reset);
        heads.into_iter().try_for_each(|(number, head)| files.judge_head(number, &head))
    }
    /// Reads a spill file as a start is going to.
    fn copy(&mut self, disk: &dyn Disk, files: &Files, spilled: Spilled) -> io::Result<()> {
        let path = files.place().spill(spilled.number);
        let wrong = |why| {
            let why = format!("{}: {why}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let mut reader = SpillReader::open(disk, files.place(), spilled)?;
        if self.maker.wants_count() {
            let count = spill::count(disk, files.place(), spilled)?;
            self.maker.counted(count).map_err(wrong)?;
        }
        while let Some(events) = reader.next()? {
            self.maker.copy(&events).map_err(wrong)?;
            reader.taken(&events);
            self.drop_parts();
        }
        self.maker.copied().map_err(wrong)
    }
    fn drop_parts(&mut self) {
        let parts = self.maker.take_parts();
        if self.reset_ahead.is_some() {
            self.dropped |= !parts.is_empty();
            return;
        }
        for part in parts {
            self.ends.insert(part.file, part.at + part.bytes.len() as u64);
            if part.at == 0 {
                self.heads.push((part.file, part.bytes));
            }
        }
    }

    /// What the records so far ask for, if they ask for anything.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match (self.goes_on, self.ends.keys().next()) {
            _ if self.reset => Some(Outcome::RemovesAll),
            (Some(at), _) => Some(Outcome::GoesOn(at)),
            (None, first) => first.map(|first| Outcome::BeginsWith(*first)),
        }
    }
    /// Judges the files that the records go to.
    pub(super) fn end(self, files: &Files) -> Result<Judged> {
        let end = self.maker.state();
        if self.reset_ahead.is_some() && (self.dropped || end.file > 0) {
            let (mark, index) = (files.place().reset_mark(), files.place().index());
            return Err(Error::Damaged(format!(
                "{} tells of a RESET BINARY LOGS AND GTIDS that the redo log does not know: the \
                 redo log is an older copy. Restore the binary log of then, or remove {} and {} to \
                 begin a new binary log; then replicas have to be set up again",
                mark.display(),
                mark.display(),
                index.display()
            )));
        }
        let outcome = self.outcome().unwrap_or(Outcome::Leaves);
        if self.reset || end.file == 0 {
            return Ok(Judged { surplus: None, outcome });
        }
        files.judge_missing(end.file)?;
        if self.goes_on.is_some() && !self.taken {
            files.judge_len(end.file, end.offset, end.offset)?;
        }
        for (number, len) in self.ends.range(..end.file) {
            files.judge_len(*number, 0, *len)?;
        }
        let len = files.judge_len(end.file, 0, u64::MAX)?;
        Ok(Judged { surplus: (len > end.offset).then_some(end.file), outcome })
    }
}

/// The error for a committed transaction whose events cannot be read.
fn lost_events(at: Lsn, e: &io::Error) -> Error {
    Error::Damaged(format!(
        "{e}. The file has events of a transaction whose commit is in the redo log, at LSN {at}, \
         and not yet in the binary log. Nothing has been changed: restore the file or a backup, or \
         start with innodb_force_recovery=1 to read the tables"
    ))
}

//! What users do to the files: purge them, and change how the next are made.
use super::{Binlog, Unfinished, Why};
use crate::record::{Options, Record};
use redolith_binlog::{GtidSet, ReadError};
use redolith_engine::{Engine, Result};
use std::io;

/// What [`Binlog::purge_before`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many files were removed.
    pub files: usize,
    /// Whether a file that was to be removed stays for a reader.
    pub in_use: bool,
}

impl Binlog {
    /// Removes the files before `number`. The file that is written stays, those that the next start
    /// may have to make again, and those from the first on that a reader is in.
    pub fn purge_before(&self, number: u32) -> io::Result<Purged> {
        // The order is that of a reset, which begins again with low numbers.
        let mut work = self.work.lock();
        let (resets, file) = *self.stored.lock();
        let kept = if resets == self.status.lock().resets { file } else { 0 };
        let read = self.readers.lock().values().min().copied().unwrap_or(u32::MAX);
        let number = number.min(kept);
        let files = work.files.purge_before(number.min(read))?;
        Ok(Purged { files, in_use: read < number })
    }
    /// Stores the state of the last barrier with `store` (BINLOG-FILES-5).
    pub(crate) fn store_state(&self, store: impl FnOnce()) {
        let work = self.work.lock();
        // The files of before a reset say nothing of those that it begins.
        let is_reset = matches!(work.unfinished, Unfinished::Reset(_));
        let file = if is_reset { 0 } else { self.safe.lock().file };
        let state = (self.status.lock().resets, file);
        drop(work);
        store();
        // Another thread may have stored a later one meanwhile.
        let mut stored = self.stored.lock();
        *stored = (*stored).max(state);
    }
    /// `gtid_purged`: the transactions that are in no file any more.
    pub fn purged(&self) -> std::result::Result<GtidSet, ReadError> {
        // Another file may have the number after a reset.
        let resets = self.status.lock().resets;
        let Some(first) = self.numbers().first().copied() else { return Ok(GtidSet::new()) };
        let mut known = self.purged.lock();
        match &*known {
            Some((of, set)) if *of == (resets, first) => Ok(set.clone()),
            _ => {
                let set = self.open_file(first)?.1;
                *known = Some(((resets, first), set.clone()));
                Ok(set)
            }
        }
    }
    /// Brings the files to other options: from the next file on, or, for the largest size, from now
    /// on. Returns when that is so.
    pub async fn change(&self, engine: &Engine, options: Options) -> Result<()> {
        let now = self.options();
        if now.checksum != options.checksum {
            return self.rotate(engine, Why::Flush, options).await;
        }
        if now.max_file_bytes != options.max_file_bytes {
            self.order(engine, Record::Largest(options.max_file_bytes)).await?;
        }
        Ok(())
    }
}

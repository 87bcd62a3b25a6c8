//! Starting after a crash, or after none: it is the same.
//!
//! 1. The directory is judged ([`judge`]): the log is read to its end, and with it the doublewrite
//!    copies, every page that the log changes, the dictionary and the undo spaces. Nothing is
//!    written; damage is an error here, and nowhere later.
//! 2. Torn pages are repaired from the doublewrite file (`flush::Copies`).
//! 3. The log is read again from the checkpoint on; every frame's changes are made in the pages
//!    that do not have them yet ([`apply`]).
//! 4. The log goes on behind its last whole frame, in a new epoch (`FrameScanner::finish`).
//! 5. What the undo spaces hold ([`undo_scan`]) says which transactions had committed, and which
//!    not. Unfinished ones are rolled back: the dictionary's first, then the dictionary is read,
//!    then the others.
//! 6. Files and trees that the dictionary does not name are removed, if the log says why they are
//!    there, or set aside.
//!
//! A crash in the middle of this is one more crash: every step may be done again.
pub(crate) mod apply;
pub(crate) mod forced;
mod judge;
pub(crate) mod undo_scan;

pub(crate) use judge::{Judged, judge, judge_pages};

use crate::flush::Repaired;
use crate::{Lsn, PageId};

/// What a start had to do. It is shown to the user.
#[derive(Debug, Default)]
pub struct Report {
    /// The instance is new.
    pub created: bool,
    /// Torn pages that were repaired from their doublewrite copies.
    pub repaired: Vec<Repaired>,
    /// Where the redo log was read from.
    pub checkpoint: Lsn,
    /// Where the redo log ended.
    pub end: Lsn,
    /// Frames of the redo log that were read.
    pub frames: u64,
    /// Pages that redo has changed.
    pub pages: u64,
    /// Pages that could not be read, with the reason; they are errors when they are used.
    pub bad_pages: Vec<(PageId, String)>,
    /// Transactions that were rolled back.
    pub rolled_back: u64,
    /// Committed transactions that wait for purge.
    pub history: u64,
    /// Files that a crash had left half made or half removed.
    pub removed_files: Vec<String>,
    /// Files that no table has, under their new names.
    pub set_aside: Vec<String>,
    /// Damage that a forced start went on with.
    pub passed_over: Vec<String>,
    /// What is to be known besides.
    pub notes: Vec<String>,
    /// How long the start took.
    pub time_ms: u64,
}
impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.created {
            return write!(f, "new data directory initialised in {} ms", self.time_ms);
        }
        if self.frames == 0 && self.rolled_back == 0 {
            write!(f, "clean start at LSN {} in {} ms", self.end, self.time_ms)?;
        } else {
            let mib = (self.end.0 - self.checkpoint.0) as f64 / (1 << 20) as f64;
            write!(
                f,
                "recovered from LSN {} to {}: {mib:.1} MiB of redo in {} mini-transactions applied \
                    to {} pages, {} unfinished transactions rolled back, {} ms",
                self.checkpoint, self.end, self.frames, self.pages, self.rolled_back, self.time_ms
            )?;
        }
        for m in &self.repaired {
            write!(f, "\n  {m}")?;
        }
        for (p, why) in &self.bad_pages {
            write!(f, "\n  page {p} cannot be read: {why}")?;
        }
        for r in &self.removed_files {
            write!(f, "\n  removed {r}, left by an unfinished statement")?;
        }
        for n in &self.passed_over {
            write!(f, "\n  passed over: {n}")?;
        }
        for n in &self.notes {
            write!(f, "\n  {n}")?;
        }
        for r in &self.set_aside {
            write!(
                f,
                "\n  no table has the file that is now {r}: check that no table misses the file \
                 before you remove it"
            )?;
        }
        Ok(())
    }
}

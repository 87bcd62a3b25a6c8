//! The steps of a start, which are the same after a crash and after a clean stop.
//!
//! 1. The directory is judged ([`judge`]): the redo log is read to its end, and with it the
//!    doublewrite copies, every page that the redo log changes, the dictionary and the undo spaces.
//!    Nothing is written. Damage is reported in this step and not in a later one.
//! 2. Torn pages, and pages that the disk cannot read, are repaired from the doublewrite file
//!    (`flush::Copies`).
//! 3. The redo log is read again from the checkpoint on, and its changes are applied to the pages
//!    that lack them ([`apply`]), by several tasks and window by window ([`window`]).
//! 4. The redo log goes on behind its last whole frame, in a new epoch (`FrameScanner::finish`).
//! 5. The undo spaces ([`undo_scan`]) tell which transactions had committed. Unfinished
//!    transactions are rolled back: first those that changed the dictionary, then the dictionary is
//!    read, then the others.
//! 6. Files and trees that the dictionary does not name are removed if the redo log says why they
//!    exist. Other such files are set aside.
//!
//! Each step may be repeated, so a crash during a start needs nothing special.
mod apply;
pub(crate) mod check_files;
pub(crate) mod directory;
pub(crate) mod forced;
mod judge;
mod records;
mod torn;
pub(crate) mod undo_scan;
mod window;

use judge::{Bounds, judge, judge_pages};
pub(crate) use judge::{Judged, give_up};

use crate::flush::Repaired;
use crate::{Lsn, PageId};

/// The number of repaired pages that a report names. A crash may tear hundreds.
const REPAIRED_SHOWN: usize = 8;

/// The work of a start, shown to the user.
#[derive(Debug, Default)]
pub struct Report {
    /// Whether the instance is new.
    pub created: bool,
    /// Torn pages, and pages that the disk could not read, that were repaired from their
    /// doublewrite copies or from the redo log.
    pub repaired: Vec<Repaired>,
    /// Where the redo log was read from.
    pub checkpoint: Lsn,
    /// Where the redo log ended.
    pub end: Lsn,
    /// Frames of the redo log that were read.
    pub frames: u64,
    /// Pages that redo has changed.
    pub pages: u64,
    /// Pages that could not be read, with the reason; using such a page is an error.
    pub bad_pages: Vec<(PageId, String)>,
    /// Transactions that were rolled back.
    pub rolled_back: u64,
    /// Prepared transactions that wait for their end.
    pub prepared: u64,
    /// Committed transactions that wait for purge.
    pub history: u64,
    /// Files that a crash had left half made or half removed.
    pub removed_files: Vec<String>,
    /// Temporary tables that were dropped (TEMPTABLE-3).
    pub temporary_tables: u64,
    /// Files that belong to no table, under their new names.
    pub set_aside: Vec<String>,
    /// Damage that a forced start ignored.
    pub passed_over: Vec<String>,
    /// Further remarks for the administrator.
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
        if self.prepared > 0 {
            write!(
                f,
                "\n  {} prepared transactions wait for XA COMMIT or XA ROLLBACK, and keep their \
                    locks: XA RECOVER lists them",
                self.prepared
            )?;
        }
        for m in self.repaired.iter().take(REPAIRED_SHOWN) {
            write!(f, "\n  {m}")?;
        }
        if let Some(more) = self.repaired.len().checked_sub(REPAIRED_SHOWN).filter(|n| *n > 0) {
            write!(f, "\n  {more} more pages were repaired in the same way")?;
        }
        for (p, why) in &self.bad_pages {
            write!(f, "\n  page {p} cannot be read: {why}")?;
        }
        for r in &self.removed_files {
            write!(f, "\n  removed {r}, left by an unfinished statement")?;
        }
        if self.temporary_tables > 0 {
            write!(f, "\n  dropped {} temporary tables of sessions", self.temporary_tables)?;
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

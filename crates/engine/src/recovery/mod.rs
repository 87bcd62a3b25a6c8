//! Starting after a crash, or after none: it is the same.
//!
//! 1. Torn pages are mended from the doublewrite file (`flush::repair`).
//! 2. The log is read from the checkpoint on; every frame's changes are made in the pages that do not have them yet (`apply`).
//! 3. The log goes on behind its last whole frame, in a new epoch (`FrameScanner::finish`).
//! 4. The undo space is read: which transactions had committed, which not (`undo_scan`).
//! 5. Unfinished transactions are rolled back: the dictionary's first, then the dictionary is read, then the others.
//! 6. Files and trees that the dictionary does not name are removed.
//!
//! A crash in the middle of this is one more crash: every step may be done again.
pub mod apply;
pub mod undo_scan;

use crate::flush::Mended;
use crate::{Lsn, PageId};

/// What starting had to do, for people.
#[derive(Debug, Default)]
pub struct Report {
    /// The instance is new.
    pub created: bool,
    pub mended: Vec<Mended>,
    pub checkpoint: Lsn,
    pub end: Lsn,
    pub frames: u64,
    pub pages: u64,
    /// Pages that could not be read, with the reason; they are errors when they are used.
    pub bad_pages: Vec<(PageId, String)>,
    pub rolled_back: u64,
    /// Committed transactions that wait for purge.
    pub history: u64,
    pub removed_files: Vec<String>,
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
                "recovered from LSN {} to {}: {mib:.1} MiB of redo in {} mini-transactions applied to {} pages, {} unfinished transactions rolled back, {} ms",
                self.checkpoint, self.end, self.frames, self.pages, self.rolled_back, self.time_ms
            )?;
        }
        for m in &self.mended {
            write!(f, "\n  {m}")?;
        }
        for (p, why) in &self.bad_pages {
            write!(f, "\n  page {p} cannot be read: {why}")?;
        }
        for r in &self.removed_files {
            write!(f, "\n  removed {r}, left by an unfinished statement")?;
        }
        Ok(())
    }
}

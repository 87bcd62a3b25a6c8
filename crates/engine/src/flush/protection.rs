//! The ways to protect pages against tearing: a crash in the middle of a page's write leaves some
//! sectors of the old page and some of the new one.
//!
//! | mode | before a page is written in place | a torn page |
//! |---|---|---|
//! | `ON`, `DETECT_AND_RECOVER` | a copy is durable in a doublewrite file | is repaired from the copy |
//! | `ATOMIC` | nothing, where the file has atomic writes of a page; elsewhere as `ON` | cannot be, or as `ON` |
//! | `LEGACY` | as `ON`, with one segment that all cleaners share and that a sync of the data files frees: the design of MySQL before 8.0.20, to compare with | is repaired from the copy |
//! | `REDO` | nothing | is rebuilt from the redo log |
//! | `DETECT_ONLY`, `OFF` | nothing | is named at the start, and its use is an error |
//!
//! - TORN-2: redo records are absolute, and a page that a crash can tear has all its changes since
//!   the last sync of its file in the redo log behind the checkpoint (CKPT-1). Each sector of the
//!   torn page has the state of some moment since that sync, so a byte that no record writes is the
//!   same in all these states, and a byte that a record writes gets its value from the record. So
//!   in mode `REDO` the torn page gets all these records, whatever LSN its header has, and is then
//!   the page.
//! - TORN-3: mode `REDO` cannot tell every page that the medium has damaged from a torn page. So a
//!   bad page is rebuilt only if the register of files says that pages may have been written in
//!   this mode since the checkpoint, if the page bears its own number, and if its LSN is that
//!   before its first record or that of one of its records. A rebuilt page of an index has to be
//!   well-formed.
//! - TORN-4: the register says so before the first page is written in mode `REDO`, and until a
//!   clean stop in another mode.

/// How pages are protected against tearing (innodb_doublewrite).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum DoublewriteMode {
    /// Nothing protects pages.
    Off,
    /// Pages are copied to a doublewrite file before they are written in place.
    #[default]
    On,
    /// The same as `Off`: the start names torn pages by the redo log, without any list.
    DetectOnly,
    /// The same as `On`.
    DetectAndRecover,
    /// Files that write a page as a whole or not at all need no copies. Others get them.
    Atomic,
    /// One segment for all cleaners.
    Legacy,
    /// A torn page is rebuilt from the redo log.
    Redo,
}
impl DoublewriteMode {
    const ALL: [DoublewriteMode; 7] = [
        DoublewriteMode::Off,
        DoublewriteMode::On,
        DoublewriteMode::DetectOnly,
        DoublewriteMode::DetectAndRecover,
        DoublewriteMode::Atomic,
        DoublewriteMode::Legacy,
        DoublewriteMode::Redo,
    ];
    /// The mode of a number, which is at most 6.
    pub fn from_number(n: u8) -> DoublewriteMode {
        DoublewriteMode::ALL[n as usize]
    }
    /// The value of innodb_doublewrite.
    pub fn name(self) -> &'static str {
        match self {
            DoublewriteMode::Off => "OFF",
            DoublewriteMode::On => "ON",
            DoublewriteMode::DetectOnly => "DETECT_ONLY",
            DoublewriteMode::DetectAndRecover => "DETECT_AND_RECOVER",
            DoublewriteMode::Atomic => "ATOMIC",
            DoublewriteMode::Legacy => "LEGACY",
            DoublewriteMode::Redo => "REDO",
        }
    }
    /// Whether the mode may need the doublewrite files.
    pub(super) fn has_files(self) -> bool {
        !matches!(self, DoublewriteMode::Off | DoublewriteMode::Redo)
    }
    /// Whether nothing is done for a page before it is written in place.
    pub(super) fn writes_plainly(self) -> bool {
        matches!(self, DoublewriteMode::Off | DoublewriteMode::DetectOnly | DoublewriteMode::Redo)
    }
    /// Whether the mode may give way to the mode `to` while the engine runs.
    pub fn may_become(self, to: DoublewriteMode) -> bool {
        use DoublewriteMode::{DetectAndRecover, DetectOnly, On};
        self == to || [self, to].iter().all(|m| [On, DetectOnly, DetectAndRecover].contains(m))
    }
}

/// The settings of the protection.
#[derive(Clone, Debug)]
pub struct DoublewriteConfig {
    /// How pages are protected (innodb_doublewrite).
    pub mode: DoublewriteMode,
    /// The folder of the doublewrite files; `None`: the data directory (innodb_doublewrite_dir).
    pub dir: Option<std::path::PathBuf>,
    /// The number of doublewrite files (innodb_doublewrite_files), at most 8.
    pub files: usize,
    /// The most pages of a batch (innodb_doublewrite_pages), at most 128.
    pub pages: usize,
}
impl Default for DoublewriteConfig {
    fn default() -> DoublewriteConfig {
        DoublewriteConfig { mode: DoublewriteMode::On, dir: None, files: 1, pages: 128 }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn modes_keep_their_numbers() {
        for mode in DoublewriteMode::ALL {
            assert_eq!(DoublewriteMode::from_number(mode as u8), mode);
        }
    }
}

//! Deliberate reading of a damaged directory (`innodb_force_recovery`).
//!
//! A start that meets damage refuses and changes nothing. With a level of 1 to 6 the start goes on
//! instead and reports what it ignored. The instance is read-only: writes of the start and of the
//! cleaners stay in memory (`redolith_disk::OverlayDisk`), so that another level, or the right
//! file, can be tried afterwards. Each level also ignores what the lower levels ignore.
//!
//! | level | what the start skips or ignores |
//! |---|---|
//! | 1 | files that are older copies, exchanged or cut off, pages of them to which redo does not fit or that the disk cannot read, records of the dictionary that cannot be read; files of tables, the doublewrite file and the register where they cannot be opened |
//! | 2 | nothing more (in MySQL this level stops purge; here purge stops at level 1 already) |
//! | 3 | rollback: unfinished transactions stay unfinished, and readers do not see their changes |
//! | 4 | damage of the redo log, which counts as its end: transactions committed after it are missing |
//! | 5 | undo logs: changes of unfinished transactions may be seen |
//! | 6 | the redo log, which need not be there: pages are as they lie in the files |

/// How far a start passes over damage; the levels are those above.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Forced(u8);

impl Forced {
    /// A level from 0, which ignores nothing, to 6.
    pub fn new(level: u8) -> Forced {
        assert!(level <= 6);
        Forced(level)
    }
    /// Whether the level is above 0.
    pub fn is_on(self) -> bool {
        self.0 > 0
    }
    pub(crate) fn rolls_back(self) -> bool {
        self.0 < 3
    }
    pub(crate) fn ends_log_at_damage(self) -> bool {
        self.0 >= 4
    }
    pub(crate) fn reads_undo(self) -> bool {
        self.0 < 5
    }
    pub(crate) fn reads_log(self) -> bool {
        self.0 < 6
    }
}

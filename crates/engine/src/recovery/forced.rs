//! Reading a damaged directory on purpose (`innodb_force_recovery`).
//!
//! A start that meets damage refuses, and changes nothing. With a level of 1 to 6 it goes on
//! instead and says what it passed over. The instance is only read: what a start and the cleaners
//! write stays in memory (`redolith_disk::OverlayDisk`), so that another level, or the right file,
//! can be tried afterwards. Each level passes over what the ones below it do.
//!
//! | level | what is passed over |
//! |---|---|
//! | 1 | files that are older copies, pages of them that redo does not fit, records of the dictionary that cannot be read |
//! | 2 | (purge: it does not run at any level) |
//! | 3 | nothing is rolled back: what was unfinished stays unfinished, and readers do not see it |
//! | 4 | damage of the redo log counts as its end: what was committed behind it is missing |
//! | 5 | undo is not read: what was unfinished may be seen |
//! | 6 | the redo log is not read: pages are as they lie in the files |

/// How far a start passes over damage; the levels are those above.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Forced(u8);

impl Forced {
    /// A level from 0, which passes over nothing, to 6.
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

//! How far a long statement has come, for people who watch it.
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a long statement does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// Nothing that takes long.
    None,
    /// Rows of the table are read and sorted for a new index.
    Sorting,
    /// The sorted entries of a new index are written.
    Indexing,
    /// Rows go into a table.
    Inserting,
    /// The changes of a statement or a transaction are taken back.
    RollingBack,
}
impl Stage {
    const ALL: [Stage; 5] =
        [Stage::None, Stage::Sorting, Stage::Indexing, Stage::Inserting, Stage::RollingBack];
}

/// How far a session's long work has come. One task writes it, and others read it at any time: a
/// reader may see the numbers of two moments.
#[derive(Default, Debug)]
pub struct Progress {
    stage: AtomicU8,
    done: AtomicU64,
    expected: AtomicU64,
    began_s: AtomicU32,
    /// Seconds since some moment, which the host counts.
    clock: Arc<AtomicU32>,
}
/// How far a stage has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The stage.
    pub stage: Stage,
    /// The rows that are done.
    pub done: u64,
    /// The rows that the stage has in all, as an estimate; 0 if nobody knows.
    pub expected: u64,
    /// The seconds since the stage began.
    pub seconds: u32,
}
impl Seen {
    /// The rows of each second, unless the stage is too young to tell.
    pub fn rate(&self) -> Option<u64> {
        self.done.checked_div(u64::from(self.seconds))
    }
    /// The seconds until the stage ends, if they can be estimated.
    pub fn seconds_left(&self) -> Option<u64> {
        let left = self.expected.checked_sub(self.done)?;
        left.checked_div(self.rate()?)
    }
}
impl Progress {
    /// Progress of nothing yet, without a clock.
    pub fn new() -> Arc<Progress> {
        Arc::default()
    }
    /// Progress of nothing yet, with a clock that counts seconds.
    pub fn with_clock(clock: Arc<AtomicU32>) -> Arc<Progress> {
        Arc::new(Progress { clock, ..Progress::default() })
    }
    /// Enters a stage of about `expected` rows; 0 if nobody knows how many.
    pub fn begin(&self, stage: Stage, expected: u64) {
        self.done.store(0, Relaxed);
        self.expected.store(expected, Relaxed);
        self.began_s.store(self.clock.load(Relaxed), Relaxed);
        self.stage.store(stage as u8, Relaxed);
    }
    /// Notes that so many rows of the stage are done.
    pub(crate) fn set_done(&self, done: u64) {
        self.done.store(done, Relaxed);
    }
    /// Adds rows that are done. Only the task that works calls this.
    pub fn add(&self, rows: u64) {
        self.done.store(self.done.load(Relaxed) + rows, Relaxed);
    }
    /// Ends the work. This costs a load if none was begun.
    pub fn end(&self) {
        if self.stage.load(Relaxed) != Stage::None as u8 {
            self.begin(Stage::None, 0);
        }
    }
    /// How far the work has come; None while there is nothing that takes long.
    pub fn seen(&self) -> Option<Seen> {
        let stage = Stage::ALL[usize::from(self.stage.load(Relaxed))];
        (stage != Stage::None).then(|| Seen {
            stage,
            done: self.done.load(Relaxed),
            expected: self.expected.load(Relaxed),
            seconds: self.clock.load(Relaxed).wrapping_sub(self.began_s.load(Relaxed)),
        })
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_stage_begins_anew_and_is_estimated() {
        let clock = Arc::new(AtomicU32::new(7));
        let p = Progress::with_clock(clock.clone());
        assert_eq!(p.seen(), None);
        p.begin(Stage::Sorting, 100);
        p.add(30);
        let seen = p.seen().unwrap();
        assert_eq!((seen.stage, seen.done, seen.expected), (Stage::Sorting, 30, 100));
        assert_eq!((seen.rate(), seen.seconds_left()), (None, None));
        clock.store(10, Relaxed);
        let seen = p.seen().unwrap();
        assert_eq!((seen.seconds, seen.rate(), seen.seconds_left()), (3, Some(10), Some(7)));
        p.set_done(120);
        assert_eq!(p.seen().unwrap().seconds_left(), None, "the estimate was too low");
        p.begin(Stage::RollingBack, 0);
        assert_eq!(p.seen().unwrap().done, 0);
        p.end();
        p.end();
        assert_eq!(p.seen(), None);
    }
}

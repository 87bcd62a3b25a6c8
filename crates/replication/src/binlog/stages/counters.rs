//! What the stages have done since the start.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The figures of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCounted {
    /// Groups that went through the stage.
    pub groups: u64,
    /// Sessions in all groups. Those whose commits a leader has taken along before they came are
    /// not among them.
    pub sessions: u64,
    /// Sessions in the largest group.
    pub largest: u64,
    /// Leaders that waited for another at the stage.
    pub waits: u64,
    /// How long they waited, in microseconds.
    pub wait_us: u64,
}

/// The figures while they grow.
#[derive(Default)]
pub(super) struct StageCounts {
    groups: AtomicU64,
    sessions: AtomicU64,
    largest: AtomicU64,
    waits: AtomicU64,
    wait_us: AtomicU64,
}
impl StageCounts {
    pub(super) fn group(&self, sessions: usize) {
        self.groups.fetch_add(1, Relaxed);
        self.sessions.fetch_add(sessions as u64, Relaxed);
        self.largest.fetch_max(sessions as u64, Relaxed);
    }
    pub(super) fn wait(&self, time: Duration) {
        self.waits.fetch_add(1, Relaxed);
        self.wait_us.fetch_add(time.as_micros() as u64, Relaxed);
    }
    pub(super) fn read(&self) -> StageCounted {
        StageCounted {
            groups: self.groups.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            largest: self.largest.load(Relaxed),
            waits: self.waits.load(Relaxed),
            wait_us: self.wait_us.load(Relaxed),
        }
    }
}

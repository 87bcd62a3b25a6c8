//! The counters of row locks: the `Innodb_row_lock_*` status variables and the number of deadlocks.
use crate::sync::lock::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Counters {
    waits: AtomicU64,
    time_us: AtomicU64,
    time_max_us: AtomicU64,
    current_waits: AtomicU64,
    timeouts: AtomicU64,
    pub(super) deadlocks: AtomicU64,
}

/// The values of the counters. `time_*` include only waits that have ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LockStats {
    pub waits: u64,
    pub current_waits: u64,
    pub time_us: u64,
    pub time_max_us: u64,
    pub timeouts: u64,
    pub deadlocks: u64,
}
impl LockStats {
    pub fn time_avg_us(&self) -> u64 {
        self.time_us.checked_div(self.waits - self.current_waits.min(self.waits)).unwrap_or(0)
    }
}

impl Counters {
    pub(super) fn wait_began(&self) {
        self.waits.fetch_add(1, Relaxed);
        self.current_waits.fetch_add(1, Relaxed);
    }
    pub(super) fn wait_ended(&self, time: Duration) {
        let us = time.as_micros() as u64;
        self.current_waits.fetch_sub(1, Relaxed);
        self.time_us.fetch_add(us, Relaxed);
        self.time_max_us.fetch_max(us, Relaxed);
    }
    pub(super) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }
    pub(super) fn read(&self) -> LockStats {
        LockStats {
            current_waits: self.current_waits.load(Relaxed),
            waits: self.waits.load(Relaxed),
            time_us: self.time_us.load(Relaxed),
            time_max_us: self.time_max_us.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            deadlocks: self.deadlocks.load(Relaxed),
        }
    }
}

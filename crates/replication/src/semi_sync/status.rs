//! What semi-synchronous replication counts. The names of MySQL's status variables are beside the
//! figures.
use super::{SemiSync, Waited};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counted while commits wait.
#[derive(Default)]
pub(super) struct Counts {
    pub acknowledged: AtomicU64,
    pub unacknowledged: AtomicU64,
    pub waits: AtomicU64,
    pub wait_us: AtomicU64,
    pub asked: AtomicU64,
    pub times_off: AtomicU64,
    pub backwards: AtomicU64,
}

impl Counts {
    pub(super) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
    /// A commit need not wait, or not any more.
    pub(super) fn ended(&self, waited: Waited) {
        let acknowledged = waited == Waited::Acknowledged;
        Counts::add(if acknowledged { &self.acknowledged } else { &self.unacknowledged }, 1);
    }
    /// A wait has ended after that time.
    pub(super) fn has_waited(&self, time: Duration) {
        Counts::add(&self.wait_us, time.as_micros() as u64);
    }
}

/// The state of semi-synchronous replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SemiSyncStatus {
    /// Whether commits wait (`Rpl_semi_sync_source_status`).
    pub on: bool,
    /// Replicas that acknowledge (`_clients`).
    pub replicas: u64,
    /// Sessions that wait now (`_wait_sessions`).
    pub waiting: u64,
    /// Commits that enough replicas have acknowledged (`_yes_tx`).
    pub acknowledged: u64,
    /// Commits that were not, while the setting was on (`_no_tx`).
    pub unacknowledged: u64,
    /// Commits that have waited (`_tx_waits`).
    pub waits: u64,
    /// The time of all waits (`_tx_wait_time`).
    pub wait_us: u64,
    /// How often a replica was asked for an acknowledgement (`_net_waits`).
    pub asked: u64,
    /// How often replication has become asynchronous (`_no_times`).
    pub times_off: u64,
    /// Waits for a place before one that was waited for already (`_wait_pos_backtraverse`).
    pub backwards: u64,
}

impl SemiSyncStatus {
    /// The time of a wait (`_tx_avg_wait_time`).
    pub fn average_wait_us(&self) -> u64 {
        self.wait_us.checked_div(self.waits).unwrap_or(0)
    }
}

impl SemiSync {
    /// The state now.
    pub fn status(&self) -> SemiSyncStatus {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let (on, replicas, waiting) = {
            let state = self.state.lock();
            (state.on, state.replicas.len() as u64, state.waiting.len() as u64)
        };
        let counts = &self.counts;
        SemiSyncStatus {
            on,
            replicas,
            waiting,
            acknowledged: read(&counts.acknowledged),
            unacknowledged: read(&counts.unacknowledged),
            waits: read(&counts.waits),
            wait_us: read(&counts.wait_us),
            asked: read(&counts.asked),
            times_off: read(&counts.times_off),
            backwards: read(&counts.backwards),
        }
    }
}

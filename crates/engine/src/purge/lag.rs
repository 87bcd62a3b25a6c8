//! `innodb_max_purge_lag`: changes of rows are slowed while the history is longer than allowed.
//!
//! The delay is MySQL's (`trx_purge_dml_delay`). If the history is r times as long as the setting,
//! with r > 1, each change of a row is delayed by (r - 0.5) * 10 ms, and by at most
//! `innodb_max_purge_lag_delay` if this setting is not 0. Purge sets the delay while it works or
//! waits; a change of a row only reads it.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Default)]
pub struct Lag {
    /// The allowed length of the history, in undo logs; 0 means no limit.
    max: AtomicU64,
    max_delay_us: AtomicU64,
    delay_us: AtomicU64,
}
impl Lag {
    pub fn set_max(&self, logs: u64) {
        self.max.store(logs, Relaxed);
    }
    pub fn set_max_delay_us(&self, us: u64) {
        self.max_delay_us.store(us, Relaxed);
    }
    /// Sets the delay for a history of `len` logs.
    pub(super) fn look(&self, len: u64) {
        self.delay_us
            .store(delay_us(len, self.max.load(Relaxed), self.max_delay_us.load(Relaxed)), Relaxed);
    }
    /// The time that a change of a row waits before it begins.
    #[inline]
    pub fn delay(&self) -> Option<Duration> {
        match self.delay_us.load(Relaxed) {
            0 => None,
            us => Some(Duration::from_micros(us)),
        }
    }
}
fn delay_us(len: u64, max: u64, max_delay_us: u64) -> u64 {
    if max == 0 || len <= max {
        return 0;
    }
    let us = ((len as f64 / max as f64 - 0.5) * 10_000.0) as u64;
    if max_delay_us > 0 { us.min(max_delay_us) } else { us }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_the_lag() {
        assert_eq!(delay_us(1_000_000, 0, 0), 0, "there is no limit");
        assert_eq!((delay_us(0, 100, 0), delay_us(100, 100, 0)), (0, 0));
        // "At least 5000 microseconds."
        assert_eq!(
            (delay_us(101, 100, 0), delay_us(150, 100, 0), delay_us(1000, 100, 0)),
            (5_100, 10_000, 95_000)
        );
        assert_eq!((delay_us(150, 100, 7_000), delay_us(101, 100, 7_000)), (7_000, 5_100));
        let lag = Lag::default();
        lag.set_max(10);
        lag.look(20);
        assert_eq!(lag.delay(), Some(Duration::from_millis(15)));
        lag.set_max_delay_us(300);
        lag.look(20);
        assert_eq!(lag.delay(), Some(Duration::from_micros(300)));
        lag.set_max(0);
        lag.look(20);
        assert_eq!(lag.delay(), None);
    }
}

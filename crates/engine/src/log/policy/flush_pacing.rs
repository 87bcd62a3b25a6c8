//! The time for which flushes are held back.
//!
//! While CPUs are idle, waiting is pure delay. On saturated CPUs a flush takes CPU time from
//! statements (by its system call, interrupts and wake-ups), and serves only the commits that
//! arrived since the last flush. So the rate of flushes is capped there, and flushes take a few
//! percent of the CPUs. The bound is a quarter of the time between two commits of one session: no
//! session is slowed by more than that. (Group commit timers set by load: Helland et al., HPTS
//! 1987.)
use crate::log::write_policy::Measured;
use std::time::Duration;

/// The share of the CPUs that flushes may take when there is no idle CPU.
const FLUSH_SHARE: f64 = 0.04;
/// CPUs with a larger idle share than this are not saturated.
const IDLE_SHARE: f64 = 0.10;
const HOLD_MAX: Duration = Duration::from_millis(10);
/// Smaller groups gain nothing from a hold, because no session joins.
const GROUP_MIN: f64 = 1.5;

/// The hold for `cpus` CPUs with the share `idle` unused, and for groups of `group` commits on
/// average.
pub(super) fn hold(measured: &Measured, cpus: f64, idle: f64, group: f64) -> Duration {
    if idle > IDLE_SHARE || group < GROUP_MIN {
        return Duration::ZERO;
    }
    let rate_capped = measured.flush_cpu.div_f64(FLUSH_SHARE * cpus.max(0.1));
    rate_capped.min(measured.session_cycle / 4).min(HOLD_MAX)
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    fn measured(flush_cpu: u64, session_cycle: u64) -> Measured {
        let us = Duration::from_micros;
        Measured {
            flush_cpu: us(flush_cpu),
            session_cycle: us(session_cycle),
            ..Measured::default()
        }
    }

    #[test]
    fn saturated_cpus_cap_the_rate() {
        let m = measured(80, 40_000);
        assert_eq!(hold(&m, 2.0, 0.5, 20.0), Duration::ZERO);
        // 80 us in each 1,000 us are 4 % of two CPUs.
        let capped = hold(&m, 2.0, 0.0, 20.0);
        assert!((950..=1050).contains(&capped.as_micros()), "{capped:?}");
        assert_eq!(
            hold(&m, 2.0, 0.0, 1.0),
            Duration::ZERO,
            "a session that commits alone is never held back"
        );
    }
    #[test]
    fn no_session_is_slowed_by_more_than_a_quarter() {
        assert_eq!(hold(&measured(80, 1600), 2.0, 0.0, 8.0), Duration::from_micros(400));
    }
}

//! When to flush: at once, or held back until some time after the last flush.
//!
//! While CPUs are idle, waiting is pure delay. On saturated CPUs a flush costs CPU that statements could have (its system call, interrupts and wake-ups), and
//! only what has arrived since the last one is in it: there the rate of flushes is capped, so that they take a few percent of the CPUs. The bound is a quarter of
//! the time between two commits of one session: a session is never slowed by more than that. (Group commit timers set by load: Helland et al., HPTS 1987.)
//!
//! PACE-1: a hold delays a flush by its pace at most, and only a flush that others may join.
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

/// The share of the CPUs that flushes may take when there is no idle CPU.
const FLUSH_SHARE: f64 = 0.04;
/// CPUs with this share idle are not saturated.
const IDLE_SHARE: f64 = 0.10;
const PACE_MAX: Duration = Duration::from_millis(10);
/// Of moving averages: the weight of a new value is one in so many.
const WEIGHT: u64 = 32;

/// `redolith_log_flush_pace_us`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaceSetting {
    /// By the cost of a flush and what the CPUs have left.
    Auto,
    /// So long after the last flush began; zero: at once.
    Fixed(Duration),
}

#[derive(Debug)]
pub(in crate::log) struct Pace {
    /// Microseconds; -1 for [`PaceSetting::Auto`].
    setting: AtomicI64,
    /// What `Auto` has found, microseconds.
    found: AtomicU64,
    /// Beginning of the last flush, microseconds.
    last: AtomicU64,
    flush_cpu_ns: AtomicU64,
    cycle_us: AtomicU64,
}
impl Default for Pace {
    fn default() -> Pace {
        let zero = || AtomicU64::new(0);
        Pace { setting: AtomicI64::new(-1), found: zero(), last: zero(), flush_cpu_ns: zero(), cycle_us: zero() }
    }
}

fn average(of: &AtomicU64, sample: u64) {
    let old = of.load(Relaxed);
    let sum = old * (WEIGHT - 1) + sample;
    // Rounded towards the sample: else it would stop as far from it as the weight.
    let next = if sample > old { sum.div_ceil(WEIGHT) } else { sum / WEIGHT };
    of.store(if old == 0 { sample } else { next }, Relaxed);
}

impl Pace {
    pub fn set(&self, to: PaceSetting) {
        let us = match to {
            PaceSetting::Auto => -1,
            PaceSetting::Fixed(time) => time.as_micros() as i64,
        };
        self.setting.store(us, Relaxed);
    }
    pub fn begins(&self, now: Duration) {
        self.last.store(now.as_micros() as u64, Relaxed);
    }
    /// CPU time of one flush.
    pub fn flush_took(&self, cpu: Duration) {
        average(&self.flush_cpu_ns, cpu.as_nanos() as u64);
    }
    /// Time between two commits of one session.
    pub fn session_committed_after(&self, time: Duration) {
        average(&self.cycle_us, time.min(Duration::from_secs(1)).as_micros() as u64);
    }
    pub fn flush_cpu(&self) -> Duration {
        Duration::from_nanos(self.flush_cpu_ns.load(Relaxed))
    }
    pub fn cycle(&self) -> Duration {
        Duration::from_micros(self.cycle_us.load(Relaxed))
    }
    /// The pace in use.
    pub fn now(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.setting.load(Relaxed)).unwrap_or_else(|_| self.found.load(Relaxed)))
    }
    /// How long a flush that could begin at `now` is to be held back.
    pub fn hold(&self, now: Duration) -> Option<Duration> {
        let pace = self.now();
        if pace.is_zero() {
            return None;
        }
        let since = now.saturating_sub(Duration::from_micros(self.last.load(Relaxed)));
        pace.checked_sub(since).filter(|left| !left.is_zero())
    }
    /// Looks at the CPUs, `cpus` of them with the share `idle` unused, and the average group.
    pub fn adapt(&self, cpus: f64, idle: f64, group: f64) {
        let wanted = if idle > IDLE_SHARE || group < 1.5 {
            Duration::ZERO
        } else {
            let rate_capped = self.flush_cpu().div_f64(FLUSH_SHARE * cpus.max(0.1));
            rate_capped.min(self.cycle() / 4).min(PACE_MAX)
        };
        self.found.store(wanted.as_micros() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_fixed_pace_holds_until_it_is_over() {
        let p = Pace::default();
        p.begins(us(1000));
        assert_eq!(p.hold(us(1001)), None);
        p.set(PaceSetting::Fixed(us(500)));
        assert_eq!((p.hold(us(1200)), p.hold(us(1500)), p.hold(us(9000))), (Some(us(300)), None, None));
        p.set(PaceSetting::Fixed(Duration::ZERO));
        assert_eq!(p.hold(us(1001)), None);
    }
    #[test]
    fn averages_arrive() {
        let p = Pace::default();
        for cycle in [240, 260, 230, 5000, 1] {
            (0..1000).for_each(|_| p.session_committed_after(us(cycle)));
            assert_eq!(p.cycle(), us(cycle));
        }
    }
    #[test]
    fn saturated_cpus_cap_the_rate() {
        let p = Pace::default();
        (0..100).for_each(|_| p.flush_took(us(80)));
        (0..100).for_each(|_| p.session_committed_after(us(40_000)));
        p.adapt(2.0, 0.5, 20.0);
        assert_eq!(p.now(), Duration::ZERO);
        // 80 us each 1,000 us are 4 % of two CPUs.
        p.adapt(2.0, 0.0, 20.0);
        assert!((950..=1050).contains(&p.now().as_micros()), "{:?}", p.now());
        // One that commits alone is never held back.
        p.adapt(2.0, 0.0, 1.0);
        assert_eq!(p.now(), Duration::ZERO);
    }
    #[test]
    fn no_session_is_slowed_by_more_than_a_quarter() {
        let p = Pace::default();
        (0..100).for_each(|_| p.flush_took(us(80)));
        (0..100).for_each(|_| p.session_committed_after(us(1600)));
        p.adapt(2.0, 0.0, 8.0);
        assert!((380..=400).contains(&p.now().as_micros()), "{:?}", p.now());
    }
}

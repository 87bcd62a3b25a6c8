//! Computes how fast to write dirty pages, as a pure function of how full the redo log and the pool
//! are.
//!
//! Writing a page early is a waste if the page changes again, so below the low-water marks a busy
//! server writes nothing. Above them, the log's age sets the speed. Half way between the marks, as
//! many pages per second are written as fall due at the log's present speed (the pages of the
//! oldest buckets, which one second of new log would push beyond the log's end). At a greater age
//! more pages are written, and at a smaller age fewer, so that the age settles. As in InnoDB's
//! adaptive flushing, the page count comes from the dirty index and is not guessed from the age.

/// From this share of the log's capacity on, writing has no limit. At 7/8 of the capacity outside
/// the reserve, writers begin to be slowed.
pub(crate) const HARD: f64 = 7.0 / 8.0 * 15.0 / 16.0;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Bytes of log between the oldest dirty page and the tail.
    pub age_bytes: f64,
    pub capacity_bytes: f64,
    pub log_bytes_per_s: f64,
    /// Pages whose oldest change lies in the oldest second of the log.
    pub due_pages_per_s: f64,
    pub dirty_pages: f64,
    pub total_pages: f64,
}
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub io_capacity: f64,
    pub io_capacity_max: f64,
    pub max_dirty: f64,
    pub max_dirty_lwm: f64,
    pub age_lwm: f64,
    pub idle_flush: f64,
}

/// How many pages to write per second; infinite where the log is about to be full.
pub(crate) fn pages_per_second(load: &Load, limits: &Limits) -> f64 {
    let age = load.age_bytes / load.capacity_bytes;
    if age >= HARD {
        return f64::INFINITY;
    }
    let dirty = load.dirty_pages / load.total_pages;
    let for_share = if dirty >= limits.max_dirty {
        limits.io_capacity_max
    } else if limits.max_dirty_lwm > 0.0 && dirty >= limits.max_dirty_lwm {
        limits.io_capacity * dirty / limits.max_dirty
    } else {
        0.0
    };
    let for_age = if age >= limits.age_lwm {
        let pressure = (age - limits.age_lwm) / (HARD - limits.age_lwm).max(0.01);
        load.due_pages_per_s * 2.0 * pressure + limits.io_capacity * pressure.powi(3)
    } else {
        0.0
    };
    let for_idleness =
        if load.log_bytes_per_s < 1024.0 { limits.io_capacity * limits.idle_flush } else { 0.0 };
    for_share.max(for_age).max(for_idleness).min(limits.io_capacity_max)
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        io_capacity: 1000.0,
        io_capacity_max: 4000.0,
        max_dirty: 0.9,
        max_dirty_lwm: 0.1,
        age_lwm: 0.125,
        idle_flush: 1.0,
    };
    const BUSY: Load = Load {
        age_bytes: 0.0,
        capacity_bytes: 1e9,
        log_bytes_per_s: 1e7,
        due_pages_per_s: 500.0,
        dirty_pages: 50.0,
        total_pages: 1000.0,
    };

    #[test]
    fn nothing_is_written_early_while_busy() {
        assert_eq!(pages_per_second(&BUSY, &LIMITS), 0.0);
        assert_eq!(pages_per_second(&Load { age_bytes: 1.2e8, ..BUSY }, &LIMITS), 0.0);
    }
    #[test]
    fn age_drives_the_rate_up_without_bound_at_the_end() {
        let at = |age: f64| pages_per_second(&Load { age_bytes: age * 1e9, ..BUSY }, &LIMITS);
        let rates: Vec<f64> = (2..14).map(|i| at(f64::from(i) / 16.0)).collect();
        assert!(rates.windows(2).all(|w| w[0] < w[1]), "{rates:?}");
        assert!(at(0.5) >= BUSY.due_pages_per_s && at(0.5) < 2.0 * BUSY.due_pages_per_s);
        assert!(at(0.82) <= LIMITS.io_capacity_max && at(0.8204).is_infinite());
    }
    #[test]
    fn dirty_share_and_idleness() {
        let at = |dirty_pages| pages_per_second(&Load { dirty_pages, ..BUSY }, &LIMITS);
        assert!(at(99.0) == 0.0 && at(450.0) == 500.0 && at(950.0) == 4000.0);
        assert_eq!(pages_per_second(&Load { log_bytes_per_s: 0.0, ..BUSY }, &LIMITS), 1000.0);
    }
}

//! Times sorted into buckets. Each thread counts in cache lines of its own (as STAT-1 of the SQL
//! layer says: with a load and a store).
//!
//! A histogram is shown as counters: `<name>_count`, `<name>_sum` and, for each bound,
//! `<name>_le_<bound>`, which counts the times up to this bound (so `<name>_le_inf` equals
//! `<name>_count`). Code that shows counters thus need not know histograms, and [`split`] finds
//! them again by their names.
use crate::buf::Sharded;
use std::time::Duration;

/// The upper bounds in microseconds. One more bucket has the longer times.
pub const BOUNDS_US: [u64; 17] = [
    10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 5_000_000,
];
/// One more than there are bounds: what is above the last bound.
pub const BUCKETS: usize = BOUNDS_US.len() + 1;

/// The names of one histogram's counters.
#[derive(Debug)]
pub struct HistogramNames {
    /// The counter of all entries.
    pub count: &'static str,
    /// The counter of their sum.
    pub sum: &'static str,
    /// The counters of the buckets.
    pub le: [&'static str; BUCKETS],
}

/// The names for a histogram of microseconds: `histogram_names!("commit_wait_us")`.
#[macro_export]
macro_rules! histogram_names {
    ($name:literal) => {
        $crate::histogram_names!(@ $name,
            10 20 50 100 200 500 1000 2000 5000 10000 20000 50000
            100000 200000 500000 1000000 5000000 "inf")
    };
    (@ $name:literal, $($bound:literal)*) => {
        $crate::metrics::HistogramNames {
            count: concat!($name, "_count"),
            sum: concat!($name, "_sum"),
            le: [$(concat!($name, "_le_", $bound)),*],
        }
    };
}

/// A histogram of times.
#[derive(Default)]
pub struct Histogram {
    buckets: [Sharded; BUCKETS],
    sum_us: Sharded,
}

impl Histogram {
    /// Adds an entry.
    #[inline]
    pub fn record(&self, time: Duration) {
        let us = time.as_micros() as u64;
        self.buckets[BOUNDS_US.partition_point(|bound| *bound < us)].add(1);
        self.sum_us.add(us);
    }
    /// Calls `put` with the name and value of every counter.
    pub fn each(&self, names: &'static HistogramNames, mut put: impl FnMut(&'static str, u64)) {
        let mut count = 0;
        for (name, bucket) in names.le.iter().zip(&self.buckets) {
            count += bucket.get();
            put(name, count);
        }
        put(names.count, count);
        put(names.sum, self.sum_us.get());
    }
}

/// The histogram and the upper bound (None: unbounded) of a bucket, by the counter's name.
pub fn split(name: &str) -> Option<(&str, Option<u64>)> {
    let (histogram, bound) = name.rsplit_once("_le_")?;
    match bound {
        "inf" => Some((histogram, None)),
        _ => bound.parse().ok().map(|bound| (histogram, Some(bound))),
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    static NAMES: HistogramNames = histogram_names!("x_us");

    #[test]
    fn buckets_are_cumulative_and_bounds_inclusive() {
        let h = Histogram::default();
        for us in [0, 10, 11, 100, 4_999_999, 5_000_000, 5_000_001, 90_000_000] {
            h.record(Duration::from_micros(us));
        }
        let mut all = std::collections::HashMap::new();
        h.each(&NAMES, |name, n| {
            assert!(all.insert(name, n).is_none());
        });
        let of = |name| all[name];
        assert_eq!(
            (of("x_us_le_10"), of("x_us_le_20"), of("x_us_le_50"), of("x_us_le_100")),
            (2, 3, 3, 4)
        );
        assert_eq!(
            (of("x_us_le_1000000"), of("x_us_le_5000000"), of("x_us_le_inf"), of("x_us_count")),
            (4, 6, 8, 8)
        );
        assert_eq!(of("x_us_sum"), 105_000_121);
        assert_eq!(all.len(), BUCKETS + 2);
    }

    #[test]
    fn names_say_their_bounds() {
        for (name, bound) in NAMES.le.iter().zip(BOUNDS_US.map(Some).into_iter().chain([None])) {
            assert_eq!(split(name), Some(("x_us", bound)));
        }
        assert_eq!(split("x_us_sum"), None);
        assert_eq!(split("log_le_more"), None);
    }
}

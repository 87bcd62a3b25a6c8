//! Two samples of SHOW GLOBAL STATUS, and the differences between them.
use redolith_engine::metrics::split;
use std::collections::HashMap;
use std::time::Duration;

/// The status variables at the time `at`, by any monotonic clock.
#[derive(Clone, Default, Debug)]
pub struct Sample {
    pub at: Duration,
    values: HashMap<String, String>,
}

impl Sample {
    /// Builds a sample from the rows of SHOW GLOBAL STATUS.
    pub fn new(at: Duration, rows: Vec<Vec<Option<String>>>) -> Sample {
        let pair = |mut row: Vec<Option<String>>| {
            let value = row.pop().flatten()?;
            Some((row.pop().flatten()?, value))
        };
        Sample { at, values: rows.into_iter().filter_map(pair).collect() }
    }
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }
}

/// The time between two samples.
pub struct Interval<'a> {
    pub before: &'a Sample,
    pub now: &'a Sample,
}

impl Interval<'_> {
    pub fn seconds(&self) -> f64 {
        self.now.at.saturating_sub(self.before.at).as_secs_f64().max(1e-3)
    }
    pub fn grown(&self, name: &str) -> u64 {
        // A restarted server counts from 0.
        self.now.number(name).saturating_sub(self.before.number(name))
    }
    pub fn per_second(&self, name: &str) -> f64 {
        self.grown(name) as f64 / self.seconds()
    }
    /// The growth of `over` for each unit of growth of `under`. `None` if `under` has not grown.
    pub fn ratio(&self, over: &str, under: &str) -> Option<f64> {
        let n = self.grown(under);
        (n > 0).then(|| self.grown(over) as f64 / n as f64)
    }
    /// The bound of the bucket in which `share` of the new times of a histogram end. `None` if
    /// there were no new times, or they are above all bounds.
    pub fn quantile_us(&self, histogram: &str, share: f64) -> Option<u64> {
        let wanted = (self.grown(&format!("{histogram}_count")) as f64 * share).ceil() as u64;
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for name in self.now.values.keys() {
            if let Some((h, Some(bound))) = split(name)
                && h == histogram
            {
                buckets.push((bound, self.grown(name)));
            }
        }
        buckets.sort_unstable();
        buckets.into_iter().find(|(_, upto)| wanted > 0 && *upto >= wanted).map(|(bound, _)| bound)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn sample(at_s: u64, values: &[(&str, &str)]) -> Sample {
        let rows =
            values.iter().map(|(n, v)| vec![Some(n.to_string()), Some(v.to_string())]).collect();
        Sample::new(Duration::from_secs(at_s), rows)
    }

    #[test]
    fn rates_ratios_quantiles() {
        let before = sample(
            10,
            &[
                ("a", "100"),
                ("h_us_count", "10"),
                ("h_us_le_10", "5"),
                ("h_us_le_20", "9"),
                ("h_us_le_inf", "10"),
            ],
        );
        let now = sample(
            12,
            &[
                ("a", "150"),
                ("b", "7"),
                ("h_us_count", "30"),
                ("h_us_le_10", "15"),
                ("h_us_le_20", "28"),
                ("h_us_le_inf", "30"),
            ],
        );
        let i = Interval { before: &before, now: &now };
        assert_eq!((i.per_second("a"), i.per_second("b"), i.grown("missing")), (25.0, 3.5, 0));
        assert_eq!((i.ratio("a", "b"), i.ratio("a", "missing")), (Some(50.0 / 7.0), None));
        assert_eq!(
            (i.quantile_us("h_us", 0.5), i.quantile_us("h_us", 0.95), i.quantile_us("h_us", 1.0)),
            (Some(10), Some(20), None)
        );
        assert_eq!(i.quantile_us("missing", 0.5), None);
        // The case of a restarted server.
        assert_eq!(Interval { before: &now, now: &before }.grown("a"), 0);
    }
}

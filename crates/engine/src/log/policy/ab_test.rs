//! An A/B test: one candidate writer configuration against the configuration in use, in pairs of
//! short windows, until it is known whether the candidate is better.
//!
//! The test keeps the logarithm of the ratio of the two rates of each pair. After each pair the
//! mean of these logarithms and its standard error decide. A candidate that is much worse is out
//! after two pairs; a candidate that is a little better gets as many pairs as it takes to see that
//! (30 pairs for 8 %, in windows of 50 ms, whose ratios differ by 0.1 on a virtual machine). One
//! pair alone never decides, because the device may have stood still. A look after each pair
//! mistakes chance for a reason more often than a single look would; so the test asks for many
//! standard errors (after Wald, "Sequential Analysis", 1947).
use super::tuner::WriterConfig;

/// The least ratio by which a candidate must be better to be taken.
const GAIN: f64 = 1.03;
/// The certainty, in standard errors, that the candidate is better, and that it does not reach the
/// gain.
const SURE_WON: f64 = 4.0;
const SURE_LOST: f64 = 2.0;
/// The number of pairs before a candidate can win, before it can lose, and after which it has lost
/// in any case.
const PAIRS_MIN: u32 = 12;
const PAIRS_LOST: u32 = 2;
const PAIRS_MAX: u32 = 192;
/// The assumed noise of a pair before any pair has been seen, and the number of pairs for which
/// this assumption counts.
const NOISE: f64 = 0.08;
const NOISE_WEIGHT: f64 = 2.0;
/// The limit of a pair's logarithm: a window in which the device stood still gives no useful ratio.
const LOG_MAX: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    Won,
    Lost,
}

#[derive(Debug, Clone)]
pub(super) struct AbTest {
    pub candidate: WriterConfig,
    pairs: u32,
    sum: f64,
    squares: f64,
}
impl AbTest {
    pub(super) fn of(candidate: WriterConfig) -> AbTest {
        AbTest { candidate, pairs: 0, sum: 0.0, squares: 0.0 }
    }
    /// Adds the rates of a pair.
    pub(super) fn add(&mut self, in_use: f64, candidate: f64) {
        let log = (candidate.max(1e-6) / in_use.max(1e-6)).ln().clamp(-LOG_MAX, LOG_MAX);
        (self.pairs, self.sum, self.squares) =
            (self.pairs + 1, self.sum + log, self.squares + log * log);
    }
    fn mean(&self) -> f64 {
        self.sum / f64::from(self.pairs.max(1))
    }
    fn standard_error(&self) -> f64 {
        let n = f64::from(self.pairs.max(1));
        let deviations = (self.squares - self.sum * self.sum / n).max(0.0);
        ((deviations + NOISE_WEIGHT * NOISE * NOISE) / (n - 1.0 + NOISE_WEIGHT) / n).sqrt()
    }
    /// The candidate's rate relative to the rate of the configuration in use. A pair counts as 0.6
    /// at least and as 1.65 at most.
    pub(super) fn ratio(&self) -> f64 {
        self.mean().exp()
    }
    /// The expected cost of a window of the candidate, as a share of the commits that the
    /// configuration in use would do in that time. `LOSS_UNKNOWN` is the expectation for an unknown
    /// candidate; in `loss` it counts as one pair beside the pairs that have been seen.
    pub(super) const LOSS_UNKNOWN: f64 = 0.3;
    pub(super) fn loss(&self) -> f64 {
        let believed = (1.0 - AbTest::LOSS_UNKNOWN).ln();
        (1.0 - ((self.sum + believed) / f64::from(self.pairs + 1)).exp()).max(0.0)
    }
    pub(super) fn verdict(&self) -> Verdict {
        let (mean, error, gain) = (self.mean(), self.standard_error(), GAIN.ln());
        if self.pairs < PAIRS_LOST {
            Verdict::Open
        } else if self.pairs >= PAIRS_MIN && mean >= gain && mean > SURE_WON * error {
            Verdict::Won
        } else if mean + SURE_LOST * error < gain || self.pairs >= PAIRS_MAX {
            Verdict::Lost
        } else {
            Verdict::Open
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::log::write_policy::WriterMode;

    /// How a test with these ratios ends, and after how many pairs.
    fn end(mut ratio: impl FnMut() -> f64) -> (Verdict, u32) {
        let mut t = AbTest::of(WriterConfig::new(WriterMode::Session, 1));
        loop {
            t.add(1000.0, 1000.0 * ratio());
            if let end @ (Verdict::Won | Verdict::Lost) = t.verdict() {
                return (end, t.pairs);
            }
        }
    }
    /// Approximately normal noise from a seed: the sum of four uniform numbers.
    fn noise(seed: u64, deviation: f64) -> impl FnMut() -> f64 {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move || {
            let mut uniform = || {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 40) as f64 / (1 << 24) as f64 - 0.5
            };
            (0..4).map(|_| uniform()).sum::<f64>() * deviation * 3f64.sqrt()
        }
    }
    /// The share of 200 tests that are won, and their mean number of pairs.
    fn tests(ratio: f64, deviation: f64) -> (f64, f64) {
        let ends = (0..200).map(|seed| {
            let mut noise = noise(seed, deviation);
            end(move || ratio * noise().exp())
        });
        let (won, pairs) = ends
            .fold((0, 0), |(won, pairs), (v, n)| (won + u32::from(v == Verdict::Won), pairs + n));
        (f64::from(won) / 200.0, f64::from(pairs) / 200.0)
    }
    #[test]
    fn what_is_much_worse_is_over_at_once() {
        assert_eq!(end(|| 0.8), (Verdict::Lost, PAIRS_LOST));
        let (won, pairs) = tests(0.8, 0.1);
        assert!(won == 0.0 && pairs < 2.5, "{won} {pairs}");
    }
    #[test]
    fn what_is_better_wins() {
        assert_eq!(end(|| 1.2), (Verdict::Won, PAIRS_MIN));
        for (ratio, least, most) in [(1.2, 0.98, 15.0), (1.1, 0.95, 30.0), (1.05, 0.8, 70.0)] {
            let (won, pairs) = tests(ratio, 0.1);
            assert!(won > least && pairs < most, "{ratio}: {won} {pairs}");
        }
    }
    #[test]
    fn noise_is_not_better() {
        for deviation in [0.02, 0.1, 0.3] {
            let (won, pairs) = tests(1.0, deviation);
            assert!(won <= 0.005 && pairs < 100.0, "{deviation}: {won} {pairs}");
        }
    }
    #[test]
    fn what_it_costs_is_learnt() {
        let loss = |ratio: f64, pairs: u32| {
            let mut t = AbTest::of(WriterConfig::new(WriterMode::Session, 1));
            (0..pairs).for_each(|_| t.add(1000.0, 1000.0 * ratio));
            t.loss()
        };
        assert!((loss(1.0, 0) - AbTest::LOSS_UNKNOWN).abs() < 1e-9);
        assert!(
            loss(1.0, 3) < 0.1
                && loss(1.0, 12) < 0.03
                && loss(0.9, 30) > 0.1
                && loss(0.6, 2) > 0.35,
            "{}",
            loss(1.0, 12)
        );
        assert_eq!(loss(1.1, 12), 0.0);
    }
    #[test]
    fn an_outlier_decides_nothing() {
        for (outlier, others, as_it_is) in [(1e9, 1.0, Verdict::Lost), (1e-9, 1.15, Verdict::Won)] {
            for at in 1..5 {
                let mut n = 0;
                let (end, _) = end(|| {
                    n += 1;
                    if n == at { outlier } else { others }
                });
                assert_eq!(end, as_it_is, "{outlier} at {at}");
            }
        }
    }
}

//! The messages of a background task that fails again and again: the first failure is logged at
//! once, and later failures only at intervals.
use std::time::Duration;

/// The time until the same message is logged again, and until another message is logged.
const SAME: Duration = Duration::from_secs(600);
const OTHER: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct RateLimitedLog {
    last: Option<(Duration, String)>,
    unsaid: u64,
}
impl RateLimitedLog {
    /// The line to log now, if any. `now` is `Disk::now`.
    pub(super) fn line(&mut self, now: Duration, text: String) -> Option<String> {
        if let Some((at, last)) = &self.last
            && now.saturating_sub(*at) < if *last == text { SAME } else { OTHER }
        {
            self.unsaid += 1;
            return None;
        }
        let line = match std::mem::take(&mut self.unsaid) {
            0 => text.clone(),
            n => format!("{text} (and {n} more since it was last said)"),
        };
        self.last = Some((now, text));
        Some(line)
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_failures_are_few_lines() {
        let mut c = RateLimitedLog::default();
        let second = Duration::from_secs(1);
        assert_eq!(c.line(second, "a".into()).as_deref(), Some("a"));
        assert!((0..1000).all(|n| c.line(second + Duration::from_millis(n), "a".into()).is_none()));
        assert_eq!(c.line(second * 5, "b".into()), None);
        assert_eq!(
            c.line(second * 11, "b".into()).as_deref(),
            Some("b (and 1001 more since it was last said)")
        );
        assert_eq!(c.line(second * 12, "b".into()), None);
        assert_eq!(
            c.line(second * 611, "b".into()).as_deref(),
            Some("b (and 1 more since it was last said)")
        );
        assert_eq!(c.line(second * 621, "a".into()).as_deref(), Some("a"));
    }
}

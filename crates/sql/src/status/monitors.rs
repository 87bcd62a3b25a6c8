//! INNODB_METRICS: decides what is shown of each counter, under control of `innodb_monitor_enable`,
//! `_disable`, `_reset` and `_reset_all`.
//!
//! The engine always counts; a monitor only decides since when its count is shown. All monitors are
//! on when the server starts (in MySQL most are off).
//!
//! MON-1: while a monitor is off, its count stands still. When it is switched on again, the count
//! goes on from there.
//! MON-2: `reset` restarts the `*_RESET` columns. `reset_all` restarts all columns, but only if the
//! monitor is off.
use crate::settings::Var;
use parking_lot::Mutex;
use redolith_engine::metrics::{Kind, Metric};
use redolith_types::Collation;
use std::collections::HashMap;

/// The actions of the four variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MonitorAction {
    Enable,
    Disable,
    Reset,
    ResetAll,
}

impl MonitorAction {
    /// The action of setting `var`; None if `var` is not one of the four variables.
    pub fn of(var: Var) -> Option<MonitorAction> {
        match var {
            Var::InnodbMonitorEnable => Some(MonitorAction::Enable),
            Var::InnodbMonitorDisable => Some(MonitorAction::Disable),
            Var::InnodbMonitorReset => Some(MonitorAction::Reset),
            Var::InnodbMonitorResetAll => Some(MonitorAction::ResetAll),
            _ => None,
        }
    }
}

/// Groups of MySQL without a counter in this engine. Naming such a group is not an error.
const EMPTY_MODULES: [&str; 6] = [
    "module_buffer_page",
    "module_compress",
    "module_cpu",
    "module_ddl",
    "module_page_track",
    "module_sampling",
];

/// The least and the greatest of the readings of a value that goes up and down.
#[derive(Clone, Copy, Default, Debug)]
struct Extremes(Option<(u64, u64)>);
impl Extremes {
    fn see(&mut self, n: u64) {
        let (min, max) = self.0.unwrap_or((n, n));
        self.0 = Some((min.min(n), max.max(n)));
    }
}

#[derive(Clone, Copy, Debug)]
struct Monitor {
    on: bool,
    /// The engine's count when the monitor was switched on.
    base: u64,
    /// The count from the earlier times when the monitor was on. For a value, its last reading.
    kept: u64,
    /// The count at the last reset.
    reset_at: u64,
    enabled_us: Option<i64>,
    disabled_us: Option<i64>,
    reset_us: Option<i64>,
    extremes: Extremes,
    extremes_reset: Extremes,
}

impl Monitor {
    fn since(started_us: i64) -> Monitor {
        Monitor {
            on: true,
            base: 0,
            kept: 0,
            reset_at: 0,
            enabled_us: Some(started_us),
            disabled_us: None,
            reset_us: None,
            extremes: Extremes::default(),
            extremes_reset: Extremes::default(),
        }
    }
    /// The shown count (MON-1).
    fn count(&self, kind: Kind, now: u64) -> u64 {
        match (self.on, kind) {
            (false, _) => self.kept,
            (true, Kind::Value) => now,
            (true, _) => self.kept + now.saturating_sub(self.base),
        }
    }
    fn act(&mut self, action: MonitorAction, kind: Kind, now: u64, now_us: i64) {
        match action {
            MonitorAction::Enable if !self.on => {
                (self.on, self.base, self.enabled_us, self.disabled_us) =
                    (true, now, Some(now_us), None);
            }
            MonitorAction::Disable if self.on => {
                self.kept = self.count(kind, now);
                (self.on, self.disabled_us) = (false, Some(now_us));
            }
            MonitorAction::Reset => {
                self.reset_at = self.count(kind, now);
                self.reset_us = Some(now_us);
                self.extremes_reset = Extremes::default();
            }
            MonitorAction::ResetAll if !self.on => {
                *self = Monitor { on: false, enabled_us: None, ..Monitor::since(0) };
            }
            MonitorAction::Enable | MonitorAction::Disable | MonitorAction::ResetAll => {}
        }
    }
}

/// COUNT, MAX_COUNT, MIN_COUNT and AVG_COUNT, since the beginning or since the last reset.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counted {
    pub count: u64,
    pub max: Option<u64>,
    pub min: Option<u64>,
    /// The average per second.
    pub average: Option<f64>,
}

/// A row of INNODB_METRICS. Times are in microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shown {
    pub metric: Metric,
    pub on: bool,
    pub all: Counted,
    pub reset: Counted,
    pub enabled_us: Option<i64>,
    pub disabled_us: Option<i64>,
    pub reset_us: Option<i64>,
    pub elapsed_s: Option<u64>,
}

#[derive(Default)]
struct State {
    started_us: i64,
    /// The monitors that were used. A counter without a monitor has been on since the start.
    monitors: HashMap<&'static str, Monitor>,
}

#[derive(Default)]
pub struct Monitors(Mutex<State>);

impl Monitors {
    /// Notes the time at which the server started.
    pub fn start(&self, now_us: i64) {
        self.0.lock().started_us = now_us;
    }

    /// True if the pattern names a counter or a group.
    pub fn knows(&self, pattern: &str, metrics: &[(Metric, u64)]) -> bool {
        EMPTY_MODULES.iter().any(|m| m.eq_ignore_ascii_case(pattern))
            || metrics.iter().any(|(m, _)| names(pattern, m))
    }

    /// Applies `action` to the counters that `pattern` names: a counter, a group, `all`, or a
    /// pattern with `%` and `_`. Returns false if it names none.
    pub fn act(
        &self,
        action: MonitorAction,
        pattern: &str,
        metrics: &[(Metric, u64)],
        now_us: i64,
    ) -> bool {
        let mut state = self.0.lock();
        let started_us = state.started_us;
        let mut found = EMPTY_MODULES.iter().any(|m| m.eq_ignore_ascii_case(pattern));
        for (metric, now) in metrics.iter().filter(|(m, _)| names(pattern, m)) {
            found = true;
            let monitor =
                state.monitors.entry(metric.name).or_insert_with(|| Monitor::since(started_us));
            monitor.act(action, metric.kind, *now, now_us);
        }
        found
    }

    /// The rows of INNODB_METRICS for the engine's present `metrics`.
    pub fn show(&self, metrics: &[(Metric, u64)], now_us: i64) -> Vec<Shown> {
        let mut state = self.0.lock();
        let started_us = state.started_us;
        let mut one = |(metric, now): &(Metric, u64)| {
            let m = state.monitors.entry(metric.name).or_insert_with(|| Monitor::since(started_us));
            let count = m.count(metric.kind, *now);
            let is_value = metric.kind == Kind::Value;
            if m.on && is_value {
                m.extremes.see(count);
                m.extremes_reset.see(count);
            }
            let until_us = m.disabled_us.unwrap_or(now_us);
            let seconds =
                |from: Option<i64>| from.map(|from| ((until_us - from) / 1_000_000).max(0) as u64);
            let counted = |count: u64, extremes: Extremes, since: Option<u64>| Counted {
                count,
                max: if is_value { extremes.0.map(|e| e.1) } else { Some(count) },
                min: extremes.0.map(|e| e.0),
                average: since.filter(|s| *s > 0 && !is_value).map(|s| count as f64 / s as f64),
            };
            let since_reset = if is_value { count } else { count - m.reset_at.min(count) };
            Shown {
                metric: *metric,
                on: m.on,
                all: counted(count, m.extremes, seconds(m.enabled_us)),
                reset: counted(since_reset, m.extremes_reset, seconds(m.reset_us.or(m.enabled_us))),
                enabled_us: m.enabled_us,
                disabled_us: m.disabled_us,
                reset_us: m.reset_us,
                elapsed_s: seconds(m.enabled_us),
            }
        };
        metrics.iter().map(&mut one).collect()
    }
}

fn names(pattern: &str, metric: &Metric) -> bool {
    pattern.eq_ignore_ascii_case("all")
        || pattern.eq_ignore_ascii_case(metric.module)
        || pattern.eq_ignore_ascii_case(metric.name)
        || pattern.contains('%')
            && crate::exec::eval::like(
                Collation::Utf8mb4GeneralCi,
                Some('\\'),
                metric.name.as_bytes(),
                pattern.as_bytes(),
            )
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000;
    fn metric(name: &'static str, module: &'static str, kind: Kind) -> Metric {
        Metric { name, subsystem: "s", module, kind, comment: "" }
    }
    fn metrics(a: u64, b: u64, v: u64) -> [(Metric, u64); 3] {
        [
            (metric("log_a", "module_log", Kind::Counter), a),
            (metric("lock_b", "module_lock", Kind::StatusCounter), b),
            (metric("log_v", "module_log", Kind::Value), v),
        ]
    }
    fn counts(m: &Monitors, now: &[(Metric, u64)], at: i64) -> Vec<(u64, u64, bool)> {
        m.show(now, at).iter().map(|s| (s.all.count, s.reset.count, s.on)).collect()
    }

    #[test]
    fn everything_is_told_since_the_start() {
        let m = Monitors::default();
        m.start(10 * S);
        let shown = m.show(&metrics(30, 0, 7), 20 * S);
        assert_eq!(
            (shown[0].all.count, shown[0].all.average, shown[0].elapsed_s),
            (30, Some(3.0), Some(10))
        );
        assert_eq!((shown[0].all.max, shown[0].all.min), (Some(30), None));
        m.show(&metrics(30, 0, 2), 20 * S);
        let value = m.show(&metrics(30, 0, 5), 20 * S)[2];
        assert_eq!(
            (value.all.count, value.all.max, value.all.min, value.all.average),
            (5, Some(7), Some(2), None)
        );
    }

    /// Tests MON-1.
    #[test]
    fn off_stands_still_and_on_goes_on() {
        let m = Monitors::default();
        assert!(m.act(MonitorAction::Disable, "MODULE_LOG", &metrics(10, 10, 10), S));
        assert_eq!(
            counts(&m, &metrics(15, 15, 15), 2 * S),
            [(10, 10, false), (15, 15, true), (10, 10, false)]
        );
        assert_eq!(
            (
                m.show(&metrics(15, 15, 15), 2 * S)[0].disabled_us,
                m.show(&metrics(15, 15, 15), 9 * S)[0].elapsed_s
            ),
            (Some(S), Some(1))
        );
        assert!(m.act(MonitorAction::Enable, "log_a", &metrics(20, 20, 20), 3 * S));
        assert_eq!(
            counts(&m, &metrics(21, 20, 20), 4 * S),
            [(11, 11, true), (20, 20, true), (10, 10, false)]
        );
        assert_eq!(m.show(&metrics(21, 20, 20), 4 * S)[0].enabled_us, Some(3 * S));
        // The monitor is already on, so nothing changes.
        m.act(MonitorAction::Enable, "log_a", &metrics(30, 0, 0), 5 * S);
        assert_eq!(counts(&m, &metrics(30, 20, 20), 6 * S)[0], (20, 20, true));
    }

    /// Tests MON-2.
    #[test]
    fn reset_and_reset_all() {
        let m = Monitors::default();
        m.act(MonitorAction::Reset, "lo%", &metrics(10, 10, 10), S);
        assert_eq!(
            counts(&m, &metrics(13, 14, 15), 2 * S),
            [(13, 3, true), (14, 4, true), (15, 15, true)]
        );
        // `reset_all` does nothing while the monitor is on.
        m.act(MonitorAction::ResetAll, "all", &metrics(13, 14, 15), S);
        assert_eq!(counts(&m, &metrics(13, 14, 15), 2 * S)[0], (13, 3, true));
        m.act(MonitorAction::Disable, "all", &metrics(13, 14, 15), 3 * S);
        m.act(MonitorAction::ResetAll, "log%", &metrics(20, 20, 20), 4 * S);
        let shown = m.show(&metrics(20, 20, 20), 5 * S);
        assert_eq!(
            counts(&m, &metrics(20, 20, 20), 5 * S),
            [(0, 0, false), (14, 4, false), (0, 0, false)]
        );
        assert_eq!(
            (shown[0].enabled_us, shown[0].elapsed_s, shown[0].reset_us),
            (None, None, None)
        );
        m.act(MonitorAction::Enable, "log_a", &metrics(20, 20, 20), 6 * S);
        assert_eq!(counts(&m, &metrics(25, 20, 20), 7 * S)[0], (5, 5, true));
    }

    #[test]
    fn what_names_nothing_does_nothing() {
        let m = Monitors::default();
        for wrong in ["", "log", "module_", "log_", "x%", "module_nothing", "log_a%b"] {
            assert!(!m.act(MonitorAction::Disable, wrong, &metrics(1, 1, 1), S), "{wrong}");
        }
        for right in ["ALL", "Log_A", "%", "log\\_a%", "module_cpu"] {
            assert!(m.act(MonitorAction::Reset, right, &metrics(1, 1, 1), S), "{right}");
        }
    }
}

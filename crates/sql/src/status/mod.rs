//! SHOW STATUS: counters with one copy per counting thread, and variables whose values other
//! modules provide when they are asked.
//!
//! STAT-1: counting is a load and a store of memory that only this thread writes.
mod counters;
mod handlers;
mod monitors;
pub use counters::{Counter, Counters};
pub use handlers::Handlers;
pub use monitors::{Counted, MonitorAction, Monitors, Shown};

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

#[derive(Clone, PartialEq, Debug)]
pub enum StatusValue {
    Int(u64),
    Real(f64),
    Text(String),
}
impl fmt::Display for StatusValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusValue::Int(n) => n.fmt(f),
            StatusValue::Real(x) => write!(f, "{x:.6}"),
            StatusValue::Text(s) => f.write_str(s),
        }
    }
}

/// The engine's counters at one time, on the disk's monotonic clock.
#[derive(Clone, Default, Debug)]
pub struct Reading {
    pub at: Duration,
    pub values: HashMap<&'static str, u64>,
}

/// The name of the log writer's mode with this value of the counter `log_writer_mode`.
pub fn log_writer_mode(number: u64) -> &'static str {
    ["session", "leader", "dedicated"].get(number as usize).unwrap_or(&"unknown")
}

/// Provides status variables: it calls its argument with each name and value.
pub type Provider = Box<dyn Fn(&mut dyn FnMut(&str, StatusValue)) + Send + Sync>;

/// All status variables.
#[derive(Default)]
pub struct Status {
    pub counters: Counters,
    /// The monitors of INNODB_METRICS.
    pub monitors: Monitors,
    /// The reading of the last SHOW ENGINE INNODB STATUS; the next report's averages begin there.
    pub last_report: Mutex<Option<Reading>>,
    providers: RwLock<Vec<Provider>>,
    resets: RwLock<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status").finish_non_exhaustive()
    }
}

impl Status {
    pub fn new() -> Status {
        Status::default()
    }
    /// Adds a provider. Its names have MySQL's spelling (`Innodb_log_writes`).
    pub fn register(&self, provider: Provider) {
        self.providers.write().push(provider);
    }
    /// All names with their values, in the order of the names.
    pub fn list(&self) -> Vec<(String, StatusValue)> {
        let mut all: Vec<(String, StatusValue)> =
            self.counters.list().map(|(n, v)| (n.to_string(), StatusValue::Int(v))).collect();
        for provider in self.providers.read().iter() {
            provider(&mut |name, value| all.push((name.to_string(), value)));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|later, earlier| later.0 == earlier.0);
        all
    }
    /// Calls `act` at FLUSH STATUS.
    pub fn on_reset(&self, act: Box<dyn Fn() + Send + Sync>) {
        self.resets.write().push(act);
    }
    /// Runs FLUSH STATUS: resets the counters of this crate to 0 and calls the registered actions.
    pub fn reset(&self) {
        self.counters.reset();
        self.resets.read().iter().for_each(|act| act());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_providers_make_one_sorted_list() {
        let s = Status::new();
        s.counters.add(Counter::ComSelect, 2);
        s.register(Box::new(|put| {
            put("Uptime", StatusValue::Int(7));
            put("Aborted_a", StatusValue::Text("x".into()));
        }));
        let all = s.list();
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        assert!(all.contains(&("Com_select".into(), StatusValue::Int(2))));
        assert!(all.contains(&("Uptime".into(), StatusValue::Int(7))));
        s.reset();
        assert!(s.list().contains(&("Com_select".into(), StatusValue::Int(0))));
    }
}

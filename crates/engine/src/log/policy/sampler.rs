//! The background task that samples the load and the CPUs, and proposes the policy that follows.
use super::flush_pacing;
use super::tuner::{self, Fixed, Sample, Tuner, WriterConfig};
use crate::log::Log;
use crate::log::write_policy::{Advisor, Measured, PolicySettings, WritePolicy};
use crate::runtime::Runtime;
use parking_lot::Mutex;
use redolith_disk::Processors;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The least time between two samples of the CPUs.
const CPUS_EVERY: Duration = Duration::from_millis(200);
/// The assumed number of sessions, if there are several and their number is unknown.
const SESSIONS_UNKNOWN: f64 = 8.0;

/// The known state of the load and the CPUs.
#[derive(Default)]
struct Policy {
    tuner: Mutex<Tuner>,
    /// The CPUs that this process may use, and the idle part of them, in thousandths.
    cpus: AtomicU64,
    idle: AtomicU64,
}

/// The measurements at the last look.
#[derive(Default)]
struct Before {
    at: Duration,
    measured: Measured,
    /// Whether nothing was flushed in the time before the last look.
    quiet: bool,
    cpus_at: Duration,
    processors: Option<Processors>,
}

pub(in crate::log) fn spawn(log: &Arc<Log>) {
    let policy = Arc::new(Policy::default());
    log.set_advisor(policy.clone());
    log.runtime.spawn("log-policy", Box::pin(policy.run(Arc::downgrade(log), log.runtime.clone())));
}

impl Policy {
    async fn run(self: Arc<Self>, log: Weak<Log>, runtime: Arc<dyn Runtime>) {
        let mut before = Before::default();
        let mut pause = tuner::LOOK;
        loop {
            runtime.sleep(pause).await;
            let Some(log) = log.upgrade() else { return };
            if log.is_closed() {
                return;
            }
            pause = self.look(&log, &mut before);
        }
    }
    /// Looks at the load, and returns the time until the next look.
    fn look(&self, log: &Arc<Log>, before: &mut Before) -> Duration {
        let (now, measured) = (log.disk.now(), log.measured());
        let time = now.saturating_sub(before.at);
        let commits = measured.commits - before.measured.commits;
        let flushes = measured.flushes - before.measured.flushes;
        let cycle = measured.session_cycle.as_secs_f64();
        let sample = Sample {
            time,
            commits,
            flushes,
            bytes: measured.redo_bytes - before.measured.redo_bytes,
            cycle: measured.session_cycle,
            // The cycle is unknown for sessions that connect anew for each transaction. The number
            // of commits in a group depends on the policy, so it only tells whether there is one
            // session or more.
            sessions: if cycle > 0.0 {
                cycle * commits as f64 / time.as_secs_f64().max(1e-6)
            } else if commits as f64 / (flushes.max(1) as f64) < 1.3 {
                1.0
            } else {
                SESSIONS_UNKNOWN
            },
            idle_cpus: milli(&self.idle),
        };
        (before.at, before.measured) = (now, measured);
        let quiet = flushes == 0;
        if std::mem::replace(&mut before.quiet, quiet) && quiet && !self.tuner.lock().tries() {
            // The log is idle, and has been seen idle before: there is nothing to adapt to.
            return tuner::LOOK;
        }
        if now.saturating_sub(before.cpus_at) >= CPUS_EVERY {
            self.look_at_cpus(log, before, now, !quiet);
        }
        let mut tuner = self.tuner.lock();
        let (settings, lacks_threads) = log.policy_settings();
        tuner.settings(Fixed::of(settings, lacks_threads));
        tuner.look(sample);
        let (cpus, idle) = (milli(&self.cpus), milli(&self.idle));
        let hold = flush_pacing::hold(&measured, cpus, idle / cpus.max(0.001), tuner.group());
        let WriterConfig { mode, depth } = tuner.config();
        log.propose(WritePolicy { mode, depth, hold });
        tuner.look_after()
    }
    fn look_at_cpus(&self, log: &Log, before: &mut Before, now: Duration, busy: bool) {
        let Some(p) = log.disk.processors() else { return };
        let time = now.saturating_sub(before.cpus_at).as_secs_f64();
        before.cpus_at = now;
        let old = before.processors.replace(p);
        let mut usable = p.count;
        // Without an earlier sample the CPUs count as idle, so that nothing is held back.
        let mut idle = usable;
        if let Some(old) = old {
            idle = p.idle.saturating_sub(old.idle).as_secs_f64() / time.max(1e-6);
            if let (Some(quota), Some(old)) = (p.quota, old.quota) {
                let used = quota.used.saturating_sub(old.used).as_secs_f64() / time.max(1e-6);
                usable = usable.min(quota.cpus);
                idle = idle.min((quota.cpus - used).max(0.0));
            }
        }
        let idle = idle.min(usable);
        if !busy {
            before.processors = None;
        }
        self.cpus.store((usable * 1000.0) as u64, Relaxed);
        self.idle.store((idle * 1000.0) as u64, Relaxed);
    }
}
/// Converts thousandths to CPUs.
fn milli(of: &AtomicU64) -> f64 {
    of.load(Relaxed) as f64 / 1000.0
}

impl Advisor for Policy {
    fn reason(&self, settings: PolicySettings, lacks_threads: bool, flush: Duration) -> String {
        let mut tuner = self.tuner.lock();
        // The task may not have looked since the settings changed.
        tuner.settings(Fixed::of(settings, lacks_threads));
        tuner.why(flush)
    }
    fn counters(&self, f: &mut dyn FnMut(&'static str, u64)) {
        let tuner = self.tuner.lock();
        f("log_auto_windows", tuner.windows);
        f("log_auto_window_time_us", tuner.tried_for.as_micros() as u64);
        f("log_auto_switches", tuner.switches);
        drop(tuner);
        f("log_cpus_usable_milli", self.cpus.load(Relaxed));
        f("log_cpus_idle_milli", self.idle.load(Relaxed));
    }
}
impl Fixed {
    fn of(PolicySettings { mode, depth, .. }: PolicySettings, lacks_threads: bool) -> Fixed {
        Fixed { mode, depth, lacks_threads }
    }
}

//! The background task that looks at the load and the CPUs, for what adapts: the scheme ([`crate::log::policy::tuner`]) and the pace of flushes ([`crate::log::policy::flush_pacing`]).
use crate::host::Host;
use crate::log::Log;
use crate::log::policy::tuner::{Auto, Seen};
use parking_lot::Mutex;
use redolith_disk::Processors;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The CPUs are looked at no more often than this.
const CPUS_EVERY: Duration = Duration::from_millis(200);
/// More than one, where nobody knows how many.
const SESSIONS_UNKNOWN: f64 = 8.0;

#[derive(Default)]
pub(in crate::log) struct Watch {
    auto: Mutex<Auto>,
    /// CPUs that this process may use, and of them what is idle: thousandths.
    cpus: AtomicU64,
    idle: AtomicU64,
}

/// What the counters said at the last look.
#[derive(Default)]
struct Before {
    at: Duration,
    commits: u64,
    flushes: u64,
    bytes: u64,
    /// Nothing was flushed before it.
    quiet: bool,
    cpus_at: Duration,
    processors: Option<Processors>,
}

pub(in crate::log) async fn watch(log: Weak<Log>, host: Arc<dyn Host>) {
    let mut before = Before::default();
    let mut pause = crate::log::policy::tuner::LOOK;
    loop {
        host.sleep(pause).await;
        let Some(log) = log.upgrade() else { return };
        if log.is_closed() {
            return;
        }
        pause = log.look(&mut before);
    }
}

impl Log {
    fn look(self: &Arc<Self>, before: &mut Before) -> Duration {
        let (now, count) = (self.disk.now(), &self.counters.writer);
        let (commits, flushes) = (count.log_flush_waiters.load(Relaxed) + count.log_groups.load(Relaxed), count.log_flushes.load(Relaxed));
        let (time, done, groups) = (now.saturating_sub(before.at), commits - before.commits, flushes - before.flushes);
        let (_, bytes) = self.order.counts();
        let cycle = self.pace.cycle().as_secs_f64();
        let group = done as f64 / groups.max(1) as f64;
        let seen = Seen {
            time,
            commits: done,
            flushes: groups,
            bytes: bytes - before.bytes,
            // Who begins each transaction anew does not tell how often a session commits. How many there are in a group depends on the way of writing, and is no
            // answer: it tells only whether there is one.
            cycle: self.pace.cycle(),
            sessions: if cycle > 0.0 {
                cycle * done as f64 / time.as_secs_f64().max(1e-6)
            } else if group < 1.3 {
                1.0
            } else {
                SESSIONS_UNKNOWN
            },
            idle_cpus: self.watch.idle.load(Relaxed) as f64 / 1000.0,
        };
        (before.at, before.commits, before.flushes, before.bytes) = (now, commits, flushes, bytes);
        let quiet = seen.flushes == 0;
        if std::mem::replace(&mut before.quiet, quiet) && quiet && !self.watch.auto.lock().tries() {
            // Nothing happens, and that has been looked at: nothing adapts.
            return crate::log::policy::tuner::LOOK;
        }
        if now.saturating_sub(before.cpus_at) >= CPUS_EVERY {
            self.look_at_cpus(before, now, seen.flushes > 0);
        }
        let mut auto = self.watch.auto.lock();
        auto.look(seen);
        let (cpus, idle) = (self.watch.cpus.load(Relaxed) as f64 / 1000.0, self.watch.idle.load(Relaxed) as f64 / 1000.0);
        self.pace.adapt(cpus, idle / cpus.max(0.001), auto.group());
        self.use_way(auto.way());
        auto.look_after()
    }
    /// What is set, and for the rest what is known to be best, or right for most.
    pub(in crate::log) fn settings_changed(self: &Arc<Self>) {
        let mut auto = self.watch.auto.lock();
        // Read with the lock: of two that change it, the later one sees both.
        auto.settings(self.schemes.fixed());
        self.use_way(auto.way());
    }
    fn look_at_cpus(&self, before: &mut Before, now: Duration, busy: bool) {
        let Some(p) = self.disk.processors() else { return };
        let time = now.saturating_sub(before.cpus_at).as_secs_f64();
        before.cpus_at = now;
        let old = before.processors.replace(p);
        let mut usable = p.count;
        // Without two looks nothing is known: idle, so that nothing is held back.
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
        self.watch.cpus.store((usable * 1000.0) as u64, Relaxed);
        self.watch.idle.store((idle * 1000.0) as u64, Relaxed);
    }
    /// The way of writing in use, and why; that it is set, where the settings leave no choice.
    pub fn writer_reason(&self) -> String {
        let count = &self.counters.writer;
        let flush = Duration::from_micros(count.log_flush_total_time_us.load(Relaxed) / count.log_flushes.load(Relaxed).max(1));
        self.watch.auto.lock().why(flush)
    }
    pub(in crate::log) fn watch_counters(&self, mut f: impl FnMut(&'static str, u64)) {
        let auto = self.watch.auto.lock();
        f("log_auto_trials", auto.slices);
        f("log_auto_trial_time_us", auto.tried_for.as_micros() as u64);
        f("log_auto_switches", auto.switches);
        drop(auto);
        f("log_cpus_usable_milli", self.watch.cpus.load(Acquire));
        f("log_cpus_idle_milli", self.watch.idle.load(Acquire));
        f("log_flush_pace_us", self.pace.now().as_micros() as u64);
        f("log_flush_cpu_avg_ns", self.pace.flush_cpu().as_nanos() as u64);
        f("log_session_cycle_us", self.pace.cycle().as_micros() as u64);
    }
}

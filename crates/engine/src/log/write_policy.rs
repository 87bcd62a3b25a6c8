//! How commits become durable: who writes the redo log, how many writes are in flight, and how long
//! a flush is held back.
//!
//! The commit path reads the [`WritePolicy`] in use and does not know how it was chosen. Settings
//! come first ([`Log::set_policy`]). For the open rest the folder `policy` makes proposals, from
//! what the commit path has [`Measured`]. Without proposals the policy is the default: `leader`,
//! one write at a time, and flushes at once.
//!
//! - MODE-1: a change of the policy loses, doubles and delays no commit: the leadership
//!   ([`crate::log::commit::lsn_waiters`]) stays with its holder until the holder passes it on, and
//!   the next holder works in the new mode.
//! - MODE-2: where the system refuses a thread of `dedicated`, a warning says so once, and the mode
//!   is one of the others: a setting that asks for `dedicated` counts as not set. Whoever sets it
//!   tries again; a proposal does not.
//! - HOLD-1: a flush is held back by the policy's `hold` at most, and only if other sessions may
//!   join it.
use crate::log::commit::dedicated;
use crate::log::{DEPTH_MAX, Log};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Who writes the redo log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum WriterMode {
    /// Each session that commits writes and flushes for itself, one session at a time
    /// (`innodb_log_writer_threads=OFF`).
    Session = 1,
    /// The first session to arrive lets the others join, and writes for the group.
    Leader = 2,
    /// Dedicated threads write and flush (`innodb_log_writer_threads=ON`).
    Dedicated = 3,
}
impl WriterMode {
    /// The mode's name in settings and counters.
    pub fn name(self) -> &'static str {
        ["", "session", "leader", "dedicated"][self as usize]
    }
    fn of(n: u8) -> WriterMode {
        [WriterMode::Leader, WriterMode::Session, WriterMode::Leader, WriterMode::Dedicated]
            [n as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::log) struct WritePolicy {
    pub mode: WriterMode,
    /// The number of durable writes that may be in flight, 1 to [`DEPTH_MAX`]. The two threads of
    /// `dedicated` overlap their work in another way, and ignore this.
    pub depth: usize,
    /// The least time from the beginning of one flush to the beginning of the next. With zero a
    /// flush begins at once.
    pub hold: Duration,
}
impl Default for WritePolicy {
    fn default() -> WritePolicy {
        WritePolicy { mode: WriterMode::Leader, depth: 1, hold: Duration::ZERO }
    }
}

/// The parts of the policy that an operator has set. Measurement finds the parts that are None.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicySettings {
    /// Who writes the redo log.
    pub mode: Option<WriterMode>,
    /// The number of durable writes that may be in flight.
    /// Values above [`DEPTH_MAX`] count as `DEPTH_MAX`, and zero counts as one.
    pub depth: Option<usize>,
    /// The least time from the beginning of one flush to the beginning of the next.
    pub hold: Option<Duration>,
}
impl PolicySettings {
    /// The settings, with the proposal for the open parts. A depth that was proposed for another
    /// mode says nothing about the mode that is set.
    fn over(&self, proposed: WritePolicy) -> WritePolicy {
        let mode = self.mode.unwrap_or(proposed.mode);
        let open = if mode == proposed.mode { proposed.depth } else { 1 };
        WritePolicy {
            mode,
            depth: self.depth.unwrap_or(open),
            hold: self.hold.unwrap_or(proposed.hold),
        }
    }
}

/// The measurements of the commit path since the log was opened.
#[derive(Debug, Clone, Copy, Default)]
#[allow(dead_code)] // `policy/` reads it, and may be deleted
pub(in crate::log) struct Measured {
    pub commits: u64,
    pub flushes: u64,
    pub redo_bytes: u64,
    /// The moving average of the CPU time of a flush; zero before the first flush.
    pub flush_cpu: Duration,
    /// The moving average of the time from one commit of a session to its next commit; zero if no
    /// session has reported it.
    pub session_cycle: Duration,
}

/// The maker of the proposals, as status and counters need it.
pub(in crate::log) trait Advisor: Send + Sync {
    /// The configuration in use under these settings, and the reason for it, for people.
    /// `lacks_threads`: it is not `dedicated` (MODE-2). `flush` is the average time of a flush.
    fn reason(&self, settings: PolicySettings, lacks_threads: bool, flush: Duration) -> String;
    fn counters(&self, f: &mut dyn FnMut(&'static str, u64));
}

/// The policy in use, and its sources.
pub(in crate::log) struct PolicyInUse {
    mode: AtomicU8,
    depth: AtomicUsize,
    hold_us: AtomicU64,
    choice: Mutex<Choice>,
    advisor: OnceLock<Arc<dyn Advisor>>,
    /// When the last flush began, in microseconds.
    last_flush_us: AtomicU64,
    flush_cpu_ns: AtomicU64,
    session_cycle_us: AtomicU64,
}
#[derive(Default)]
struct Choice {
    settings: PolicySettings,
    proposed: WritePolicy,
    /// The threads of `dedicated`.
    threads: dedicated::Threads,
    /// Whether the system has refused one of them (MODE-2).
    lacks_threads: bool,
}
impl Choice {
    /// The settings that can be followed.
    fn settings(&self) -> PolicySettings {
        let can_be = |mode: &WriterMode| *mode != WriterMode::Dedicated || !self.lacks_threads;
        PolicySettings { mode: self.settings.mode.filter(can_be), ..self.settings }
    }
    fn policy(&self) -> WritePolicy {
        let policy = self.settings().over(self.proposed);
        match policy.mode {
            // The proposal does not know yet.
            WriterMode::Dedicated if self.lacks_threads => {
                WritePolicy { mode: WritePolicy::default().mode, ..policy }
            }
            _ => policy,
        }
    }
}
impl Default for PolicyInUse {
    fn default() -> PolicyInUse {
        let policy = WritePolicy::default();
        PolicyInUse {
            mode: AtomicU8::new(policy.mode as u8),
            depth: AtomicUsize::new(policy.depth),
            hold_us: AtomicU64::new(0),
            choice: Mutex::default(),
            advisor: OnceLock::new(),
            last_flush_us: AtomicU64::new(0),
            flush_cpu_ns: AtomicU64::new(0),
            session_cycle_us: AtomicU64::new(0),
        }
    }
}

/// The weight of a new value in a moving average is one part in this many.
const WEIGHT: u64 = 32;
fn average(of: &AtomicU64, sample: u64) {
    let old = of.load(Relaxed);
    let sum = old * (WEIGHT - 1) + sample;
    // Rounding goes towards the sample: otherwise the average would stop short of it by up to the
    // weight.
    let next = if sample > old { sum.div_ceil(WEIGHT) } else { sum / WEIGHT };
    of.store(if old == 0 { sample } else { next }, Relaxed);
}

impl PolicyInUse {
    pub(super) fn hold(&self) -> Duration {
        Duration::from_micros(self.hold_us.load(Relaxed))
    }
    pub(super) fn flush_begins(&self, now: Duration) {
        self.last_flush_us.store(now.as_micros() as u64, Relaxed);
    }
    /// Records the CPU time of one flush.
    pub(super) fn flush_took(&self, cpu: Duration) {
        average(&self.flush_cpu_ns, cpu.as_nanos() as u64);
    }
    /// Records the time between two commits of one session.
    pub(super) fn session_committed_after(&self, time: Duration) {
        average(&self.session_cycle_us, time.min(Duration::from_secs(1)).as_micros() as u64);
    }
    pub(super) fn flush_cpu(&self) -> Duration {
        Duration::from_nanos(self.flush_cpu_ns.load(Relaxed))
    }
    pub(super) fn session_cycle(&self) -> Duration {
        Duration::from_micros(self.session_cycle_us.load(Relaxed))
    }
    /// The time for which a flush that could begin at `now` is held back (HOLD-1).
    pub(super) fn held_back(&self, now: Duration) -> Option<Duration> {
        let since = now.saturating_sub(Duration::from_micros(self.last_flush_us.load(Relaxed)));
        self.hold().checked_sub(since).filter(|left| !left.is_zero())
    }
}

impl Log {
    /// The writer mode in use.
    pub fn mode(&self) -> WriterMode {
        WriterMode::of(self.policy_in_use.mode.load(Acquire))
    }
    /// The number of durable writes that may be in flight now (FLIGHT-5).
    pub(in crate::log) fn depth(&self) -> usize {
        let depth = self.policy_in_use.depth.load(Acquire);
        if depth > 1 && !self.segments.reports_apart() { 1 } else { depth }
    }
    /// Changes the settings of the policy, at any time and under load (MODE-1). The change is in
    /// effect when this returns.
    pub fn set_policy(self: &Arc<Self>, change: impl FnOnce(&mut PolicySettings)) {
        let mut choice = self.policy_in_use.choice.lock();
        let before = choice.settings.mode;
        change(&mut choice.settings);
        choice.settings.depth = choice.settings.depth.map(|depth| depth.clamp(1, DEPTH_MAX));
        if choice.settings.mode != before {
            choice.lacks_threads = false;
        }
        let tries_again = choice.settings.mode == Some(WriterMode::Dedicated);
        self.put_in_use(&mut choice, tries_again);
    }
    /// The settings that can be followed, and whether `dedicated` lacks its threads (MODE-2).
    pub(in crate::log) fn policy_settings(&self) -> (PolicySettings, bool) {
        let choice = self.policy_in_use.choice.lock();
        (choice.settings(), choice.lacks_threads)
    }
    /// Sets the advisor whose proposals are taken. Only the first call has an effect.
    #[allow(dead_code)] // `policy/` calls it, and may be deleted
    pub(in crate::log) fn set_advisor(&self, advisor: Arc<dyn Advisor>) {
        let _ = self.policy_in_use.advisor.set(advisor);
    }
    /// The policy in use and the reason for it, or that it is set if the settings leave no choice.
    pub fn writer_reason(&self) -> String {
        let count = &self.counters.writer;
        let flush = Duration::from_micros(
            count.log_flush_total_time_us.load(Relaxed) / count.log_flushes.load(Relaxed).max(1),
        );
        let (settings, lacks_threads) = self.policy_settings();
        let reason = match self.policy_in_use.advisor.get() {
            Some(advisor) => advisor.reason(settings, lacks_threads, flush),
            None if settings.mode.is_none() => format!("{}: the default", self.mode().name()),
            None => format!("{}: set", self.mode().name()),
        };
        match lacks_threads {
            true => format!("{reason}; the system refuses the threads of dedicated"),
            false => reason,
        }
    }
    pub(in crate::log) fn policy_counters(&self, f: &mut dyn FnMut(&'static str, u64)) {
        f("log_flush_pace_us", self.policy_in_use.hold().as_micros() as u64);
        f("log_flush_cpu_avg_ns", self.policy_in_use.flush_cpu().as_nanos() as u64);
        f("log_session_cycle_us", self.policy_in_use.session_cycle().as_micros() as u64);
        if let Some(advisor) = self.policy_in_use.advisor.get() {
            advisor.counters(f);
        }
    }
    /// Takes over a proposal, as far as the settings leave it open.
    #[allow(dead_code)] // `policy/` calls it, and may be deleted
    pub(in crate::log) fn propose(self: &Arc<Self>, proposed: WritePolicy) {
        let mut choice = self.policy_in_use.choice.lock();
        choice.proposed = proposed;
        self.put_in_use(&mut choice, false);
    }
    /// Puts the choice in use. The caller holds the lock of the choice, so that the later of two
    /// changes sees both.
    fn put_in_use(self: &Arc<Self>, choice: &mut Choice, tries_again: bool) {
        // The threads come first: a commit finds the mode only where they run.
        let wanted = choice.settings.over(choice.proposed).mode;
        if wanted == WriterMode::Dedicated && (tries_again || !choice.lacks_threads) {
            let started = choice.threads.start(self);
            let told = std::mem::replace(&mut choice.lacks_threads, started.is_err());
            if let (false, Err(e)) = (told, started) {
                tracing::warn!(
                    "no thread can be started for the redo log's mode dedicated: {e}. The log is \
                     written in another mode. Allow the process more threads, and set \
                     redolith_log_writer again"
                );
            }
        }
        let (policy, in_use) = (choice.policy(), &self.policy_in_use);
        in_use.hold_us.store(policy.hold.as_micros() as u64, Relaxed);
        in_use.depth.store(policy.depth, Release);
        if in_use.mode.swap(policy.mode as u8, AcqRel) == policy.mode as u8 {
            return;
        }
        self.waits.dedicated_notify().notify();
    }
    #[allow(dead_code)] // `policy/` calls it, and may be deleted
    pub(in crate::log) fn measured(&self) -> Measured {
        let count = &self.counters.writer;
        Measured {
            commits: count.log_flush_waiters.load(Relaxed) + count.log_groups.load(Relaxed),
            flushes: count.log_flushes.load(Relaxed),
            redo_bytes: self.order.counts().1,
            flush_cpu: self.policy_in_use.flush_cpu(),
            session_cycle: self.policy_in_use.session_cycle(),
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::log::tests::created;
    use crate::log::tests::fixture::MemDisk;
    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Tests HOLD-1.
    #[test]
    fn a_flush_is_held_back_until_the_hold_is_over() {
        let p = PolicyInUse::default();
        p.flush_begins(us(1000));
        assert_eq!(p.held_back(us(1001)), None);
        p.hold_us.store(500, Relaxed);
        assert_eq!(
            (p.held_back(us(1200)), p.held_back(us(1500)), p.held_back(us(9000))),
            (Some(us(300)), None, None)
        );
    }
    #[test]
    fn averages_arrive() {
        let p = PolicyInUse::default();
        for cycle in [240, 260, 230, 5000, 1] {
            (0..1000).for_each(|_| p.session_committed_after(us(cycle)));
            assert_eq!(p.session_cycle(), us(cycle));
        }
    }
    #[test]
    fn settings_come_before_proposals_and_count_at_once() {
        let disk = MemDisk::default();
        let (log, _runtime) = created(&disk);
        let in_use = || (log.mode(), log.depth(), log.policy_in_use.hold());
        log.propose(WritePolicy { mode: WriterMode::Leader, depth: 4, hold: us(90) });
        assert_eq!(in_use(), (WriterMode::Leader, 4, us(90)));
        log.set_policy(|s| s.mode = Some(WriterMode::Session));
        assert_eq!(in_use(), (WriterMode::Session, 1, us(90)), "the depth was found for leaders");
        log.propose(WritePolicy { mode: WriterMode::Dedicated, depth: 1, hold: us(70) });
        assert_eq!(in_use(), (WriterMode::Session, 1, us(70)));
        log.set_policy(|s| (s.depth, s.hold) = (Some(1000), Some(Duration::ZERO)));
        assert_eq!(in_use(), (WriterMode::Session, DEPTH_MAX, Duration::ZERO));
        log.set_policy(|s| *s = PolicySettings::default());
        assert_eq!(in_use(), (WriterMode::Dedicated, 1, us(70)));
    }
}

//! The tuner finds the writer configuration that serves the present load: the mode, and the number
//! of writes in flight.
//!
//! The best configuration depends on the machine, its device and the load, so the tuner measures.
//! It tells loads apart by the number of sessions that commit, in classes that double, and by the
//! amount of redo of a commit, in classes of four times as much. It does not use commits per flush:
//! that number depends on the configuration, so it cannot tell which configuration is best. Each
//! class begins with `leader` and one write at a time, which is the same as `session` while one
//! session at a time commits. Now and then a candidate is in use for a short window, between two
//! windows of the best known configuration, until an [`AbTest`] says whether the candidate is
//! better. If it is, the class keeps it. When all candidates have been tested, the next round comes
//! later.
//!
//! - AUTO-1: windows of candidates cost about [`LOSS`] of the commits. The results of a candidate
//!   so far decide how often it is tested: a candidate that is about as good is tested often and
//!   soon known, a bad candidate is tested seldom and not for long. A candidate that stops commits
//!   altogether is found out after two windows, which cost at most three times that share. A window
//!   lasts several cycles of a session, within its bounds. Commits in the time before a window are
//!   not counted, because they were waiting when the configuration changed, and a leader with large
//!   groups leaves more of them than other modes.
//! - AUTO-2: the class changes when three looks in a row say so, never after a single look.
//! - AUTO-3: only a configuration that the settings leave open is chosen or tested. The results
//!   under some settings are kept for the time when these settings come back.
//! - AUTO-4: only windows of the best configuration tell whether the load is still the same: a
//!   candidate under which commits stop has lost. `dedicated` is tested only where CPUs are idle,
//!   and tested again where they are no longer idle: its threads starve on busy CPUs (the first
//!   field study).
use super::ab_test::{AbTest, Verdict};
use crate::log::write_policy::WriterMode;
use std::collections::HashMap;
use std::time::Duration;

/// The time between two looks outside of tests.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The share of the commits that windows of inferior configurations may cost.
const LOSS: f64 = 0.01;
/// The length of a window, and of the uncounted time before it, in cycles of a session; and their
/// bounds.
const WINDOW_CYCLES: u32 = 10;
const WINDOW_MIN: Duration = Duration::from_millis(50);
const WINDOW_MAX: Duration = Duration::from_secs(1);
const SETTLE_CYCLES: u32 = 2;
const SETTLE_MIN: Duration = Duration::from_millis(10);
const SETTLE_MAX: Duration = Duration::from_millis(600);
/// How long a new class of load, or the configuration after a change of settings, settles before
/// tests.
const CLASS_SETTLES: Duration = Duration::from_millis(1500);
const SETTINGS_SETTLE: Duration = Duration::from_millis(600);
/// The least and the most time between rounds, counted only while the class of load is present.
const ROUND_AFTER: Duration = Duration::from_secs(60);
const ROUND_AFTER_MAX: Duration = Duration::from_secs(480);
/// Nothing is tested below this number of commits per second, because windows would have too few
/// commits to compare.
const RATE_MIN: f64 = 300.0;
/// The number of idle CPUs that `dedicated` needs.
const IDLE_CPUS_MIN: f64 = 0.2;
/// The distance of a load from the middle of its class, in classes, above which it belongs to
/// another class. The distance is more than half a class, so that a load on the border stays in its
/// class.
const CLASS_REACH: f64 = 0.65;
/// The configurations to choose from, in the order in which they are tested.
const CONFIGS: &[WriterConfig] = &[
    WriterConfig::new(WriterMode::Leader, 1),
    WriterConfig::new(WriterMode::Leader, 4),
    WriterConfig::new(WriterMode::Dedicated, 1),
    WriterConfig::new(WriterMode::Session, 1),
];

/// A writer configuration: the mode, and the number of writes at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriterConfig {
    pub mode: WriterMode,
    pub depth: usize,
}
impl WriterConfig {
    pub(super) const fn new(mode: WriterMode, depth: usize) -> WriterConfig {
        WriterConfig { mode, depth }
    }
}
impl std::fmt::Display for WriterConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let depth = if self.depth > 1 {
            format!(", {} writes at a time", self.depth)
        } else {
            String::new()
        };
        write!(f, "{}{depth}", self.mode.name())
    }
}
/// The parts of a configuration that are set. The rest is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Fixed {
    pub mode: Option<WriterMode>,
    pub depth: Option<usize>,
    /// Whether the system refuses the threads of `dedicated` (MODE-2).
    pub lacks_threads: bool,
}

/// The configurations that the settings leave open.
fn open_configs(fixed: Fixed) -> Vec<WriterConfig> {
    let mut configs = Vec::new();
    for config in CONFIGS {
        let config = WriterConfig::new(config.mode, fixed.depth.unwrap_or(config.depth));
        let can_be = config.mode != WriterMode::Dedicated || !fixed.lacks_threads;
        let is_open = can_be && fixed.mode.is_none_or(|s| s == config.mode);
        if is_open && !configs.contains(&config) {
            configs.push(config);
        }
    }
    configs
}

/// The measurements since the last look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub time: Duration,
    pub commits: u64,
    pub flushes: u64,
    /// The bytes of redo.
    pub bytes: u64,
    /// The number of sessions that commit, from the rate and the cycle (Little's law).
    pub sessions: f64,
    /// The time from one commit of a session to its next commit; zero if it is unknown.
    pub cycle: Duration,
    /// The average number of idle CPUs.
    pub idle_cpus: f64,
}
impl Sample {
    pub(super) fn rate(&self) -> f64 {
        self.commits as f64 / self.time.as_secs_f64().max(1e-6)
    }
    fn bytes_per_commit(&self) -> f64 {
        self.bytes as f64 / self.commits.max(1) as f64
    }
}

/// A class of loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Load {
    /// The number of sessions that commit is 2 to the power of this. Zero is a single session.
    sessions: u32,
    /// The bytes of redo per commit are 4 to the power of this.
    bytes: u32,
}
const ALONE: Load = Load { sessions: 0, bytes: 0 };
const SESSIONS_MAX: u32 = 10;

/// The results for a class of loads.
#[derive(Debug, Clone)]
struct Class {
    best: WriterConfig,
    test: Option<AbTest>,
    /// The candidates tested in this round.
    tried: Vec<WriterConfig>,
    /// How long this class was present since another configuration was in use; and the time between
    /// rounds, by which this must exceed the rest before a window.
    rested: Duration,
    pause: Duration,
    /// The pause after the next round.
    next_pause: Duration,
    /// The candidate of the last test, and its rate relative to the configuration in use.
    last: Option<(WriterConfig, f64)>,
}
impl Class {
    fn new(best: WriterConfig) -> Class {
        Class {
            best,
            test: None,
            tried: Vec::new(),
            rested: Duration::ZERO,
            pause: Duration::ZERO,
            next_pause: ROUND_AFTER,
            last: None,
        }
    }
    /// The candidate to test next: the candidate of the open test, or a new one. None if all have
    /// been tested, which ends the round.
    fn candidate(&mut self, configs: &[WriterConfig], idle_cpus: f64) -> Option<WriterConfig> {
        let fits = |w: WriterConfig| w.mode != WriterMode::Dedicated || idle_cpus >= IDLE_CPUS_MIN;
        self.test.take_if(|t| !fits(t.candidate));
        if self.test.is_none() {
            let next =
                configs.iter().find(|&&w| w != self.best && !self.tried.contains(&w) && fits(w));
            self.test = next.map(|&w| AbTest::of(w));
            if self.test.is_none() {
                self.tried.clear();
                (self.rested, self.pause) = (Duration::ZERO, self.next_pause);
                self.next_pause = (self.next_pause * 2).min(ROUND_AFTER_MAX);
            }
        }
        self.test.as_ref().map(|t| t.candidate)
    }
    /// Adds the rates of a pair. Returns whether the candidate is taken.
    fn learn(&mut self, in_use: f64, of_candidate: f64) -> bool {
        let Some(test) = &mut self.test else { return false };
        test.add(in_use, of_candidate);
        let (candidate, verdict) = (test.candidate, test.verdict());
        match verdict {
            Verdict::Open => return false,
            Verdict::Lost => self.tried.push(candidate),
            Verdict::Won => {
                // The old best configuration is known to be worse; the others are compared with the
                // new one.
                self.tried = vec![self.best];
                (self.best, self.next_pause) = (candidate, ROUND_AFTER);
            }
        }
        self.last = Some((candidate, test.ratio()));
        self.test = None;
        verdict == Verdict::Won
    }
    /// How long the best configuration is to be in use before the next window of a candidate.
    fn rest(&self, windows: &Windows) -> Duration {
        let loss = self.test.as_ref().map_or(AbTest::LOSS_UNKNOWN, AbTest::loss);
        self.pause + (windows.settle + windows.window).mul_f64(loss / LOSS).max(windows.settle)
    }
}
#[derive(Debug, Clone, Copy)]
struct Windows {
    window: Duration,
    settle: Duration,
}
impl Windows {
    fn of(cycle: Duration) -> Windows {
        Windows {
            window: (cycle * WINDOW_CYCLES).clamp(WINDOW_MIN, WINDOW_MAX),
            settle: (cycle * SETTLE_CYCLES).clamp(SETTLE_MIN, SETTLE_MAX),
        }
    }
}

/// The steps of a pair. The candidate is compared with the windows before and after it, so that a
/// steady drift cancels out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Before,
    /// The candidate settles. The value is the first rate of the configuration in use.
    Settles(f64),
    Tried(f64),
    /// The configuration in use settles again. The values are its first rate and the candidate's
    /// rate.
    Resettles(f64, f64),
    After(f64, f64),
}
/// A pair that is being measured.
#[derive(Debug)]
struct Pair {
    candidate: WriterConfig,
    step: Step,
    windows: Windows,
    /// The load that the pair measures.
    sessions: f64,
    bytes: f64,
}
impl Pair {
    fn candidate_writes(&self) -> bool {
        matches!(self.step, Step::Settles(_) | Step::Tried(_))
    }
    fn settles(&self) -> bool {
        matches!(self.step, Step::Settles(_) | Step::Resettles(..))
    }
    /// AUTO-4: whether this window tells if the load is still the same.
    fn tells_load(&self) -> bool {
        matches!(self.step, Step::Before | Step::After(..))
    }
    /// Whether a sample is of about the same load as the pair.
    fn same_load(&self, sample: &Sample) -> bool {
        let within =
            |times: f64, x: f64, of: f64| (1.0 / times..=times).contains(&(x / of.max(1e-6)));
        (sample.cycle.is_zero() || within(2.0, sample.sessions, self.sessions))
            && within(4.0, sample.bytes_per_commit(), self.bytes)
    }
}

#[derive(Debug)]
pub(super) struct Tuner {
    fixed: Fixed,
    configs: Vec<WriterConfig>,
    classes: HashMap<Load, Class>,
    /// The results under other settings.
    under: HashMap<Fixed, HashMap<Load, Class>>,
    load: Load,
    /// The time for which nothing is tested.
    settles: Duration,
    /// The class that the last looks say, and the number of looks in a row that say so.
    other: (Load, u32),
    /// Moving averages: commits per flush, sessions, bytes of redo per commit.
    group: f64,
    sessions: f64,
    bytes: f64,
    idle_cpus: f64,
    pair: Option<Pair>,
    /// The number of windows of candidates, and the time in which candidates were in use.
    pub windows: u64,
    pub tried_for: Duration,
    pub switches: u64,
}
impl Default for Tuner {
    fn default() -> Tuner {
        Tuner {
            fixed: Fixed::default(),
            configs: open_configs(Fixed::default()),
            classes: HashMap::new(),
            under: HashMap::new(),
            load: ALONE,
            settles: CLASS_SETTLES,
            other: (ALONE, 0),
            group: 1.0,
            sessions: 1.0,
            bytes: 1.0,
            idle_cpus: 0.0,
            pair: None,
            windows: 0,
            tried_for: Duration::ZERO,
            switches: 0,
        }
    }
}

impl Tuner {
    /// The configuration to use now.
    pub(super) fn config(&self) -> WriterConfig {
        match &self.pair {
            Some(pair) if pair.candidate_writes() => pair.candidate,
            _ => self.best(),
        }
    }
    fn best(&self) -> WriterConfig {
        self.classes.get(&self.load).map_or(self.configs[0], |c| c.best)
    }
    fn class(&mut self) -> &mut Class {
        self.classes.entry(self.load).or_insert_with(|| Class::new(self.configs[0]))
    }
    /// The time until the next look.
    pub(super) fn look_after(&self) -> Duration {
        match &self.pair {
            Some(pair) if pair.settles() => pair.windows.settle,
            Some(pair) => pair.windows.window,
            None => LOOK,
        }
    }
    pub(super) fn group(&self) -> f64 {
        self.group
    }
    /// Whether a pair is being measured.
    pub(super) fn tries(&self) -> bool {
        self.pair.is_some()
    }
    /// AUTO-3: sets the settings, and brings back the results for them.
    pub(super) fn settings(&mut self, fixed: Fixed) {
        if self.fixed == fixed {
            return;
        }
        if self.pair.as_ref().is_some_and(Pair::candidate_writes) {
            // AUTO-1: the window has cost commits, although its result is lost.
            self.class().rested = Duration::ZERO;
        }
        self.configs = open_configs(fixed);
        let known = self.under.remove(&fixed).unwrap_or_default();
        let before = std::mem::replace(&mut self.classes, known);
        self.under.insert(std::mem::replace(&mut self.fixed, fixed), before);
        (self.pair, self.settles) = (None, self.settles.max(SETTINGS_SETTLE));
    }
    /// Takes in a sample.
    pub(super) fn look(&mut self, sample: Sample) {
        if sample.commits == 0 && self.pair.as_ref().is_none_or(Pair::tells_load) {
            if self.pair.take().is_some() {
                self.settles = CLASS_SETTLES;
            }
            return;
        }
        self.idle_cpus += (sample.idle_cpus - self.idle_cpus) / 4.0;
        if let Some(pair) = self.pair.take() {
            return self.window_ends(pair, sample);
        }
        self.group += (sample.commits as f64 / sample.flushes.max(1) as f64 - self.group) / 4.0;
        // The average is over logarithms, so that it goes from a thousand to one in a second.
        let average = |old: f64, new: f64| (0.75 * old.log2() + 0.25 * new.max(1.0).log2()).exp2();
        self.sessions = average(self.sessions, sample.sessions);
        self.bytes = average(self.bytes, sample.bytes_per_commit());
        self.classify();
        let time = sample.time.min(10 * LOOK);
        self.settles = self.settles.saturating_sub(time);
        let may = self.configs.len() > 1
            && self.load != ALONE
            && sample.rate() >= RATE_MIN
            && self.settles.is_zero();
        let windows = Windows::of(sample.cycle);
        let class = self.classes.entry(self.load).or_insert_with(|| Class::new(self.configs[0]));
        class.rested += time;
        if class.best.mode == WriterMode::Dedicated && self.idle_cpus < IDLE_CPUS_MIN {
            // `dedicated` was chosen when CPUs were idle: it is time to test again.
            class.pause = Duration::ZERO;
        }
        if !may || class.rested < class.rest(&windows) {
            return;
        }
        class.pause = Duration::ZERO;
        let Some(candidate) = class.candidate(&self.configs, self.idle_cpus) else { return };
        self.pair = Some(Pair {
            candidate,
            step: Step::Before,
            windows,
            sessions: self.sessions,
            bytes: self.bytes,
        });
    }
    fn classify(&mut self) {
        // The places of the load in units of classes, from zero.
        let (sessions, bytes) = (self.sessions.log2(), self.bytes.log2() / 2.0);
        let load = match self.sessions < 1.3 {
            true => ALONE,
            false => Load {
                sessions: (sessions.round() as u32).clamp(1, SESSIONS_MAX),
                bytes: bytes.round() as u32,
            },
        };
        let near = |place: f64, class: u32| (place - f64::from(class)).abs() < CLASS_REACH;
        let stays = load != ALONE
            && self.load != ALONE
            && near(sessions, self.load.sessions)
            && near(bytes, self.load.bytes);
        if load == self.load || stays {
            self.other.1 = 0;
            return;
        }
        self.other = if self.other.0 == load { (load, self.other.1 + 1) } else { (load, 1) };
        if self.other.1 >= 3 {
            let before = self.config();
            (self.load, self.settles) = (load, CLASS_SETTLES);
            self.switches += (self.config() != before) as u64;
        }
    }
    fn window_ends(&mut self, mut pair: Pair, sample: Sample) {
        if pair.candidate_writes() {
            self.class().rested = Duration::ZERO;
            self.tried_for += sample.time;
        }
        if pair.tells_load() && !pair.same_load(&sample) {
            // The load has changed, so the window says nothing.
            self.settles = CLASS_SETTLES;
            return;
        }
        pair.step = match pair.step {
            Step::Before => {
                self.windows += 1;
                Step::Settles(sample.rate())
            }
            Step::Settles(before) => Step::Tried(before),
            Step::Tried(before) => Step::Resettles(before, sample.rate()),
            Step::Resettles(before, tried) => Step::After(before, tried),
            Step::After(before, tried) => {
                self.switches += self.class().learn((before * sample.rate()).sqrt(), tried) as u64;
                return;
            }
        };
        self.pair = Some(pair);
    }
    /// The choice and its reason, for people.
    pub(super) fn why(&self, flush: Duration) -> String {
        if self.configs.len() == 1 {
            return format!("{}: set", self.config());
        }
        let load = format!(
            "{:.0} sessions commit {:.0} bytes of redo each, {:.1} a flush of {} us, {:.1} CPUs \
                idle",
            self.sessions,
            self.bytes,
            self.group,
            flush.as_micros(),
            self.idle_cpus
        );
        let tried = match self.classes.get(&self.load).and_then(|c| c.last) {
            Some((config, ratio)) => format!("; {config} tried: {ratio:.2} of its rate"),
            None if self.load == ALONE => {
                "; a session that commits alone writes at once".to_string()
            }
            None => String::new(),
        };
        format!("{}: {load}{tried}", self.best())
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// A machine on which the configurations have given rates.
    struct Machine {
        tuner: Tuner,
        now: Duration,
        idle: f64,
        group: u64,
        bytes: u64,
        rate: fn(WriterConfig, u64) -> f64,
        used: Vec<(WriterConfig, Duration)>,
        noise: u64,
        fixed: Fixed,
    }
    impl Machine {
        fn new(group: u64, idle: f64, rate: fn(WriterConfig, u64) -> f64) -> Machine {
            Machine {
                tuner: Tuner::default(),
                now: Duration::ZERO,
                idle,
                group,
                bytes: 1000,
                rate,
                used: Vec::new(),
                noise: 1,
                fixed: Fixed::default(),
            }
        }
        fn run(&mut self, time: Duration) {
            self.tuner.settings(self.fixed);
            let end = self.now + time;
            while self.now < end {
                let (config, dt) = (self.tuner.config(), self.tuner.look_after());
                self.now += dt;
                self.used.push((config, dt));
                self.noise =
                    self.noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let noise = 0.9 + 0.2 * (self.noise >> 40) as f64 / (1 << 24) as f64;
                let commits = ((self.rate)(config, self.group) * noise * dt.as_secs_f64()) as u64;
                self.tuner.look(Sample {
                    time: dt,
                    commits,
                    flushes: commits / self.group,
                    bytes: commits * self.bytes,
                    sessions: self.group as f64,
                    cycle: Duration::ZERO,
                    idle_cpus: self.idle,
                });
            }
        }
    }
    impl Machine {
        fn time_in(&self, of: impl Fn(WriterConfig) -> bool) -> Duration {
            self.used.iter().filter(|u| of(u.0)).map(|u| u.1).sum()
        }
    }
    /// The class of 16 sessions that commit 1000 bytes each.
    const USUAL: Load = Load { sessions: 4, bytes: 5 };
    fn dedicated(config: WriterConfig) -> bool {
        config.mode == WriterMode::Dedicated
    }
    const LEADER: WriterConfig = WriterConfig::new(WriterMode::Leader, 1);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_best_mode_is_found_and_kept() {
        let mut m = Machine::new(16, 4.0, |w, _| if dedicated(w) { 13000.0 } else { 10000.0 });
        m.run(MINUTE);
        assert_eq!((m.tuner.config().mode, m.tuner.switches), (WriterMode::Dedicated, 1));
        m.run(5 * MINUTE);
        assert_eq!((m.tuner.config().mode, m.tuner.switches), (WriterMode::Dedicated, 1));
    }
    /// AUTO-1
    #[test]
    fn windows_cost_little_where_nothing_is_better() {
        let mut m = Machine::new(16, 4.0, |w, _| if w == LEADER { 10000.0 } else { 6000.0 });
        let others = |m: &Machine| m.time_in(|w| w != LEADER);
        while m.now < 2 * MINUTE {
            m.run(LOOK);
            // A share of 0.4 of this time is lost. The first window of each candidate costs a
            // little more than its result would justify.
            assert!(
                others(&m).mul_f64(0.4) <= m.now.mul_f64(1.5 * LOSS),
                "{:?} of {:?}",
                others(&m),
                m.now
            );
            assert_eq!(others(&m), m.tuner.tried_for);
        }
        m.run(10 * MINUTE);
        assert_eq!((m.tuner.config(), m.tuner.switches), (LEADER, 0));
        assert!(
            others(&m) < Duration::from_secs(2) && m.tuner.windows >= 5,
            "{:?} in {} windows",
            others(&m),
            m.tuner.windows
        );
    }
    /// AUTO-1
    #[test]
    fn who_is_about_as_good_is_tried_often() {
        let mut m = Machine::new(16, 4.0, |w, _| if dedicated(w) { 12000.0 } else { 10000.0 });
        while m.tuner.switches == 0 && m.now < MINUTE {
            m.run(LOOK);
        }
        assert!(m.now < MINUTE / 2, "{:?}", m.now);
        // A candidate that is as good costs nothing, so it may get more time than a candidate that
        // is assumed to be worse by LOSS_UNKNOWN.
        let mut m = Machine::new(16, 4.0, |_, _| 10000.0);
        m.run(MINUTE / 3);
        assert!(
            m.tuner.tried_for.mul_f64(AbTest::LOSS_UNKNOWN) > (MINUTE / 3).mul_f64(1.3 * LOSS),
            "{:?}",
            m.tuner.tried_for
        );
    }
    #[test]
    fn noise_is_no_reason() {
        // Half an hour each for many seeds of the noise.
        let wrong: u64 = (0..40)
            .map(|seed| {
                let mut m = Machine::new(16, 4.0, |_, _| 10000.0);
                m.noise = seed;
                m.run(30 * MINUTE);
                m.tuner.switches
            })
            .sum();
        assert!(wrong <= 2, "{wrong}");
    }
    #[test]
    fn dedicated_threads_need_an_idle_cpu() {
        let mut m = Machine::new(16, 0.1, |w, _| if dedicated(w) { 13000.0 } else { 10000.0 });
        m.run(10 * MINUTE);
        assert_eq!(m.time_in(dedicated), Duration::ZERO);
    }
    #[test]
    fn dedicated_threads_go_when_cpus_get_busy() {
        let mut m = Machine::new(16, 4.0, |w, _| if dedicated(w) { 13000.0 } else { 10000.0 });
        m.run(5 * MINUTE);
        assert_eq!(m.tuner.config().mode, WriterMode::Dedicated);
        (m.idle, m.rate) = (0.0, |w, _| if dedicated(w) { 8000.0 } else { 10000.0 });
        m.run(MINUTE);
        assert_ne!(m.tuner.config().mode, WriterMode::Dedicated);
    }
    #[test]
    fn each_load_keeps_its_own() {
        let mut m = Machine::new(16, 4.0, |w, group| match (w.mode, group) {
            (WriterMode::Dedicated, 16) => 13000.0,
            (WriterMode::Dedicated, _) => 2000.0,
            _ => 10000.0,
        });
        m.run(2 * MINUTE);
        assert_eq!(m.tuner.config().mode, WriterMode::Dedicated);
        m.group = 1;
        m.run(Duration::from_secs(3));
        assert_eq!(m.tuner.config(), LEADER);
        m.group = 16;
        m.run(Duration::from_secs(3));
        assert_eq!(m.tuner.config().mode, WriterMode::Dedicated);
        let why = m.tuner.why(Duration::from_micros(110));
        assert!(why.starts_with("dedicated: "), "{why}");
        // The same number of sessions with more to write is another class, without results.
        m.bytes = 30_000;
        m.run(Duration::from_secs(2));
        assert_eq!((m.tuner.config(), m.tuner.load), (LEADER, Load { sessions: 4, bytes: 7 }));
        m.bytes = 1000;
        m.run(Duration::from_secs(3));
        assert_eq!((m.tuner.config().mode, m.tuner.load), (WriterMode::Dedicated, USUAL));
    }
    #[test]
    fn more_writes_at_a_time_are_found_too() {
        let mut m = Machine::new(4, 4.0, |w, _| 10000.0 + 1000.0 * w.depth as f64);
        m.run(MINUTE);
        assert_eq!(
            (m.tuner.config(), m.tuner.switches),
            (WriterConfig::new(WriterMode::Leader, 4), 1)
        );
        assert_eq!(m.tuner.config().to_string(), "leader, 4 writes at a time");
    }
    /// AUTO-3
    #[test]
    fn what_is_set_is_neither_tried_nor_changed() {
        let mut m = Machine::new(16, 4.0, |w, _| {
            if w.mode == WriterMode::Session { 5000.0 } else { 10000.0 + 1000.0 * w.depth as f64 }
        });
        m.fixed = Fixed { mode: Some(WriterMode::Session), ..Fixed::default() };
        m.run(10 * MINUTE);
        assert_eq!((m.tuner.windows, m.tuner.switches, m.tuner.look_after()), (0, 0, LOOK));
        assert!((15.0..17.0).contains(&m.tuner.group()), "{}", m.tuner.group());
        assert_eq!(m.tuner.why(Duration::ZERO), "session: set");
        // Only the mode is set: the number of writes at a time is open.
        m.fixed = Fixed { mode: Some(WriterMode::Leader), ..Fixed::default() };
        m.run(MINUTE);
        assert_eq!(m.tuner.config(), WriterConfig::new(WriterMode::Leader, 4));
        m.fixed = Fixed { depth: Some(2), ..Fixed::default() };
        m.used.clear();
        m.run(MINUTE);
        assert_eq!(m.time_in(|w| w.depth != 2), Duration::ZERO);
        m.fixed = Fixed { mode: Some(WriterMode::Leader), depth: Some(1), ..Fixed::default() };
        m.run(MINUTE);
        assert_eq!(m.tuner.why(Duration::ZERO), "leader: set");
    }
    /// Tests MODE-2.
    #[test]
    fn threads_that_are_refused_are_not_tried() {
        let mut m = Machine::new(16, 4.0, |w, _| if dedicated(w) { 13000.0 } else { 10000.0 });
        m.fixed = Fixed { lacks_threads: true, ..Fixed::default() };
        m.run(10 * MINUTE);
        assert_eq!(m.time_in(dedicated), Duration::ZERO);
        assert!(m.tuner.windows > 0, "other modes are");
    }
    /// AUTO-3
    #[test]
    fn what_was_learnt_outlasts_other_settings() {
        let mut m = Machine::new(16, 4.0, |w, _| if dedicated(w) { 13000.0 } else { 10000.0 });
        m.run(MINUTE);
        for depth in [None, Some(1)] {
            m.fixed = Fixed { mode: Some(WriterMode::Leader), depth, ..Fixed::default() };
            m.run(MINUTE);
            assert_eq!(m.tuner.classes[&USUAL].best, LEADER);
            m.fixed = Fixed::default();
            m.run(LOOK);
            assert_eq!(m.tuner.config().mode, WriterMode::Dedicated);
        }
        // A test goes on where it stopped, even if other settings take turns with these.
        let mut m = Machine::new(16, 4.0, |w, _| if dedicated(w) { 13000.0 } else { 10000.0 });
        for turn in 0..200 {
            m.fixed = if turn % 2 == 0 {
                Fixed::default()
            } else {
                Fixed { mode: Some(WriterMode::Session), depth: Some(1), ..Fixed::default() }
            };
            m.run(Duration::from_secs(2));
        }
        m.fixed = Fixed::default();
        m.run(LOOK);
        assert_eq!(m.tuner.config().mode, WriterMode::Dedicated);
    }
    /// AUTO-4
    #[test]
    fn who_stops_commits_has_lost() {
        for rate in [0.0, 1000.0] {
            let mut a = Tuner::default();
            let mut stood = Duration::ZERO;
            for _ in 0..2000 {
                let (config, time) = (a.config(), a.look_after());
                let rate = if config == LEADER { 10000.0 } else { rate };
                stood += if config == LEADER { Duration::ZERO } else { time };
                // The cycle is an average, which lags behind.
                let (commits, cycle) =
                    ((rate * time.as_secs_f64()) as u64, Duration::from_micros(1600));
                let sessions = rate * cycle.as_secs_f64();
                a.look(Sample {
                    time,
                    commits,
                    flushes: commits / 8,
                    bytes: commits * 1000,
                    sessions,
                    cycle,
                    idle_cpus: 4.0,
                });
            }
            assert_eq!((a.config(), a.windows >= 3), (LEADER, true), "{stood:?}");
            assert!(
                a.classes[&USUAL].last.is_some_and(|(_, ratio)| ratio < 0.7),
                "{:?}",
                a.classes[&USUAL]
            );
        }
    }
    /// AUTO-2
    #[test]
    fn a_load_on_the_border_of_two_classes_stays_in_one() {
        let mut m = Machine::new(11, 4.0, |_, _| 10000.0);
        m.run(Duration::from_secs(5));
        let load = m.tuner.load;
        for turn in 0..100 {
            m.group = 11 + turn % 2;
            m.run(Duration::from_millis(400));
            assert_eq!(m.tuner.load, load);
        }
        m.group = 30;
        m.run(Duration::from_millis(200));
        assert_eq!(m.tuner.load, load);
        m.run(Duration::from_secs(1));
        assert_eq!(m.tuner.load.sessions, 5);
    }
    /// A change of the load ends a test that is in progress.
    #[test]
    fn another_load_ends_an_ab_test() {
        let sample = |sessions: f64, time: Duration| Sample {
            time,
            commits: 1000,
            flushes: 100,
            bytes: 1_000_000,
            sessions,
            cycle: Duration::from_millis(200),
            idle_cpus: 4.0,
        };
        let mut a = Tuner::default();
        while a.pair.is_none() {
            a.look(sample(1000.0, LOOK));
        }
        while a.config() == LEADER {
            a.look(sample(1000.0, a.look_after()));
        }
        while a.pair.is_some() {
            a.look(sample(1.0, a.look_after()));
        }
        assert!((0..40).all(|_| {
            a.look(sample(1.0, LOOK));
            a.config() == LEADER
        }));
        assert_eq!(
            (a.load, a.classes.values().any(|c| c.last.is_some())),
            (ALONE, false),
            "nothing is learnt of it"
        );
        // The same number of sessions has far more to write.
        let mut a = Tuner::default();
        while a.pair.is_none() {
            a.look(sample(1000.0, LOOK));
        }
        while a.pair.is_some() {
            a.look(Sample { bytes: 100_000_000, commits: 100, ..sample(1000.0, a.look_after()) });
        }
        assert!(a.classes.values().all(|c| c.last.is_none()
            && c.test.as_ref().is_none_or(|t| t.loss() > AbTest::LOSS_UNKNOWN - 0.01)));
    }
    #[test]
    fn nothing_is_tried_alone_or_idle() {
        let mut m = Machine::new(1, 4.0, |_, _| 5000.0);
        m.run(5 * MINUTE);
        assert_eq!(m.tuner.windows, 0);
        let mut m = Machine::new(16, 4.0, |_, _| 50.0);
        m.run(5 * MINUTE);
        assert_eq!(m.tuner.windows, 0);
    }
}

//! `auto`: which writer scheme serves the load that there is now.
//!
//! What is best depends on the machine, its device and the load, so it is measured. Loads are told apart by their waiters per flush, in classes that double.
//! Each class begins with `leader`, which is `session` while one session at a time commits. Now and then another scheme is tried: for a few short
//! slices in turn with the one in use (A B A B), so that what drifts hits both. It must win most of the pairs, by more than noise, in two trials in a row, to be
//! taken; then its class keeps it. Trials that bring nothing become rare.
//!
//! AUTO-1: a scheme in trial is in use for [`SLICE`] at a time. AUTO-2: the class changes when three looks in a row say so, never on one.
//! `dedicated` is tried only where CPUs are idle: its threads starve on busy ones (the first field study).
use super::Scheme;
use std::time::Duration;

/// Time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How long a scheme in trial, or the one it is compared with, is in use at a time.
pub(super) const SLICE: Duration = Duration::from_millis(50);
const PAIRS: usize = 12;
/// After so many pairs a hopeless trial ends.
const PAIRS_HOPELESS: usize = 3;
const HOPELESS: f64 = 0.85;
/// Of the pairs, and by how much, the challenger must win.
const PAIRS_WON: usize = 9;
const GAIN: f64 = 1.04;
const TRIAL_AFTER: Duration = Duration::from_secs(5);
const TRIAL_AFTER_MAX: Duration = Duration::from_secs(320);
/// Commits a second below which nothing is tried: slices would have too few to compare.
const RATE_MIN: f64 = 300.0;
/// Idle CPUs that `dedicated` needs.
const IDLE_CPUS_MIN: f64 = 0.5;
const CLASSES: usize = 8;

/// What has been seen since the last look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub time: Duration,
    pub commits: u64,
    pub flushes: u64,
    /// CPUs that nobody used, on average.
    pub idle_cpus: f64,
}
impl Seen {
    pub fn rate(&self) -> f64 {
        self.commits as f64 / self.time.as_secs_f64().max(1e-6)
    }
}

#[derive(Debug, Clone)]
struct Class {
    best: Scheme,
    next_trial: Duration,
    pause: Duration,
    /// It has won a trial, and is tried once more.
    won: Option<Scheme>,
    /// Trials so far, and the last one's challenger with its rate in that of `best`.
    trials: u32,
    last: Option<(Scheme, f64)>,
}
#[derive(Debug)]
struct Trial {
    challenger: Scheme,
    /// Rates of the one in use and of the challenger.
    pairs: Vec<(f64, f64)>,
    /// Of the slice of the one in use, when the challenger's is under way.
    first: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Auto {
    classes: Vec<Class>,
    class: usize,
    /// What the last looks say, and how many in a row.
    other: (usize, u32),
    /// Waiters per flush, a moving average.
    group: f64,
    idle_cpus: f64,
    trial: Option<Trial>,
    pub trials: u64,
    pub switches: u64,
}
impl Default for Auto {
    fn default() -> Auto {
        let class = Class { best: Scheme::Leader, next_trial: TRIAL_AFTER, pause: TRIAL_AFTER, won: None, trials: 0, last: None };
        let (classes, other) = (vec![class; CLASSES], (0, 0));
        Auto { classes, class: 0, other, group: 1.0, idle_cpus: 0.0, trial: None, trials: 0, switches: 0 }
    }
}

impl Auto {
    /// What to use now.
    pub fn scheme(&self) -> Scheme {
        match &self.trial {
            Some(t) if t.first.is_some() => t.challenger,
            _ => self.classes[self.class].best,
        }
    }
    /// How long until the next look.
    pub fn look_after(&self) -> Duration {
        if self.trial.is_some() { SLICE } else { LOOK }
    }
    pub fn group(&self) -> f64 {
        self.group
    }
    /// A look at what has been seen, at the time `now`. `chooses`: what it says is used; else it only learns the load.
    pub fn look(&mut self, now: Duration, seen: Seen, chooses: bool) {
        if seen.commits == 0 || !chooses {
            self.trial = None;
        }
        if seen.commits == 0 {
            return;
        }
        self.idle_cpus += (seen.idle_cpus - self.idle_cpus) / 4.0;
        if self.trial.is_some() {
            return self.slice_ends(now, seen);
        }
        self.group += (seen.commits as f64 / seen.flushes.max(1) as f64 - self.group) / 4.0;
        if !chooses {
            return;
        }
        self.classify();
        if self.class > 0 && seen.rate() >= RATE_MIN {
            let class = &mut self.classes[self.class];
            if now >= class.next_trial
                && let Some(challenger) = class.challenger(self.idle_cpus)
            {
                self.trial = Some(Trial { challenger, pairs: Vec::with_capacity(PAIRS), first: None });
                class.trials += 1;
                self.trials += 1;
            }
        }
    }
    fn classify(&mut self) {
        let class = if self.group < 1.3 { 0 } else { (self.group.log2().round() as usize).clamp(1, CLASSES - 1) };
        if class == self.class {
            self.other.1 = 0;
            return;
        }
        self.other = if self.other.0 == class { (class, self.other.1 + 1) } else { (class, 1) };
        if self.other.1 >= 3 {
            let before = self.scheme();
            self.class = class;
            self.switches += (self.scheme() != before) as u64;
        }
    }
    fn slice_ends(&mut self, now: Duration, seen: Seen) {
        let Some(trial) = &mut self.trial else { return };
        match trial.first.take() {
            None => trial.first = Some(seen.rate()),
            Some(first) => trial.pairs.push((first, seen.rate())),
        }
        let done = trial.pairs.len();
        let sum = |f: fn(&(f64, f64)) -> f64| trial.pairs.iter().map(f).sum::<f64>();
        let ratio = sum(|p| p.1) / sum(|p| p.0).max(1e-6);
        if trial.first.is_some() || done < PAIRS && (done < PAIRS_HOPELESS || ratio > HOPELESS) {
            return;
        }
        let won = trial.pairs.iter().filter(|p| p.1 > p.0).count();
        let class = &mut self.classes[self.class];
        class.last = Some((trial.challenger, ratio));
        if won < PAIRS_WON || ratio < GAIN {
            class.won = None;
            class.pause = (class.pause * 2).min(TRIAL_AFTER_MAX);
            class.next_trial = now + class.pause;
        } else if class.won.is_none() {
            class.won = Some(trial.challenger);
            class.next_trial = now;
        } else {
            class.won = None;
            class.best = trial.challenger;
            class.pause = TRIAL_AFTER;
            class.next_trial = now + class.pause;
            self.switches += 1;
        }
        self.trial = None;
    }
    /// The choice and its reason, for people.
    pub fn why(&self, flush: Duration) -> String {
        let class = &self.classes[self.class];
        let name = class.best.name();
        let load = format!("{:.1} waiters a flush of {} us, {:.1} CPUs idle", self.group, flush.as_micros(), self.idle_cpus);
        let tried = match class.last {
            Some((scheme, ratio)) => format!("; {} tried: {ratio:.2} of its rate", scheme.name()),
            None if self.class == 0 => "; who commits alone writes at once".to_string(),
            None => String::new(),
        };
        format!("{name}: {load}{tried}")
    }
}

impl Class {
    fn challenger(&self, idle_cpus: f64) -> Option<Scheme> {
        if self.won.is_some() {
            return self.won;
        }
        let others = [Scheme::Leader, Scheme::Dedicated, Scheme::Session];
        let mut fit = others.iter().filter(|s| **s != self.best && (**s != Scheme::Dedicated || idle_cpus >= IDLE_CPUS_MIN));
        let count = fit.clone().count().max(1);
        fit.nth(self.trials as usize % count).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine where schemes have these rates.
    struct Machine {
        auto: Auto,
        now: Duration,
        idle: f64,
        group: u64,
        rate: fn(Scheme, u64) -> f64,
        used: [Duration; 4],
        noise: u64,
        fixed: Option<Scheme>,
    }
    impl Machine {
        fn new(group: u64, idle: f64, rate: fn(Scheme, u64) -> f64) -> Machine {
            Machine { auto: Auto::default(), now: Duration::ZERO, idle, group, rate, used: Default::default(), noise: 1, fixed: None }
        }
        fn run(&mut self, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                let (scheme, dt) = (self.fixed.unwrap_or(self.auto.scheme()), self.auto.look_after());
                self.now += dt;
                self.used[scheme as usize] += dt;
                self.noise = self.noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let noise = 0.9 + 0.2 * (self.noise >> 40) as f64 / (1 << 24) as f64;
                let commits = ((self.rate)(scheme, self.group) * noise * dt.as_secs_f64()) as u64;
                self.auto.look(
                    self.now,
                    Seen { time: dt, commits, flushes: commits / self.group, idle_cpus: self.idle },
                    self.fixed.is_none(),
                );
            }
        }
    }
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_best_scheme_is_found_and_kept() {
        let mut m = Machine::new(16, 4.0, |s, _| if s == Scheme::Dedicated { 13000.0 } else { 10000.0 });
        m.run(MINUTE);
        assert_eq!((m.auto.scheme(), m.auto.switches), (Scheme::Dedicated, 1));
        m.run(5 * MINUTE);
        assert_eq!((m.auto.scheme(), m.auto.switches), (Scheme::Dedicated, 1));
    }
    #[test]
    fn trials_cost_little_where_nothing_is_better() {
        let mut m = Machine::new(16, 4.0, |s, _| if s == Scheme::Leader { 10000.0 } else { 6000.0 });
        m.run(10 * MINUTE);
        assert_eq!((m.auto.scheme(), m.auto.switches), (Scheme::Leader, 0));
        let others = m.used[Scheme::Session as usize] + m.used[Scheme::Dedicated as usize];
        assert!(others < Duration::from_secs(3) && m.auto.trials >= 5, "{others:?} in {} trials", m.auto.trials);
    }
    #[test]
    fn noise_is_no_reason() {
        let mut m = Machine::new(16, 4.0, |_, _| 10000.0);
        m.run(30 * MINUTE);
        assert_eq!(m.auto.switches, 0);
    }
    #[test]
    fn dedicated_threads_need_an_idle_cpu() {
        let mut m = Machine::new(16, 0.1, |s, _| if s == Scheme::Dedicated { 13000.0 } else { 10000.0 });
        m.run(10 * MINUTE);
        assert_eq!(m.used[Scheme::Dedicated as usize], Duration::ZERO);
    }
    #[test]
    fn each_load_keeps_its_own() {
        let mut m = Machine::new(16, 4.0, |s, group| match (s, group) {
            (Scheme::Dedicated, 16) => 13000.0,
            (Scheme::Dedicated, _) => 2000.0,
            _ => 10000.0,
        });
        m.run(2 * MINUTE);
        assert_eq!(m.auto.scheme(), Scheme::Dedicated);
        m.group = 1;
        m.run(Duration::from_secs(3));
        assert_eq!(m.auto.scheme(), Scheme::Leader);
        m.group = 16;
        m.run(Duration::from_secs(3));
        assert_eq!(m.auto.scheme(), Scheme::Dedicated);
        assert!(m.auto.why(Duration::from_micros(110)).starts_with("dedicated: "), "{}", m.auto.why(Duration::ZERO));
    }
    /// What is measured under a fixed scheme says nothing of the others.
    #[test]
    fn nothing_is_learnt_of_schemes_that_are_not_in_use() {
        let mut m = Machine::new(16, 4.0, |s, _| if s == Scheme::Session { 5000.0 } else { 10000.0 });
        m.run(Duration::from_secs(6));
        assert_eq!(m.auto.trials, 1);
        m.fixed = Some(Scheme::Session);
        m.run(10 * MINUTE);
        assert_eq!((m.auto.trials, m.auto.switches, m.auto.look_after()), (1, 0, LOOK));
        assert!((15.0..17.0).contains(&m.auto.group()), "{}", m.auto.group());
        m.fixed = None;
        assert_eq!(m.auto.scheme(), Scheme::Leader);
    }
    #[test]
    fn nothing_is_tried_alone_or_idle() {
        let mut m = Machine::new(1, 4.0, |_, _| 5000.0);
        m.run(5 * MINUTE);
        assert_eq!(m.auto.trials, 0);
        let mut m = Machine::new(16, 4.0, |_, _| 50.0);
        m.run(5 * MINUTE);
        assert_eq!(m.auto.trials, 0);
    }
}

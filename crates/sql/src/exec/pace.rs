//! How long an evaluation goes on before it looks around.
//!
//! **PACE-1** No evaluation holds a worker of the runtime for longer than [`TURN`] and what goes by
//! between two looks: it leaves its worker
//! ([`Runtime::leave_worker`](redolith_engine::runtime::Runtime::leave_worker)) and goes on beside
//! the others. So do evaluations that have met a long value, at once: a single call over it may
//! take long.
//! **PACE-2** Every look asks whether the statement was killed and whether its time is up, so both
//! reach whatever it does.
//! **PACE-3** What an evaluation does is counted in steps of some tens of nanoseconds: one for each
//! node, one for so many bytes. Short statements never look.
use super::env::Env;
use super::scan::check_killed;
use crate::error::{Result, SqlError};
use crate::processes::Kill;
use std::time::Duration;

/// How long an evaluation may keep its worker at a stretch, about.
pub const TURN: Duration = Duration::from_millis(1);
/// How long an evaluation beside the workers calculates before it passes its seat on, about. A
/// worker that has to run on the same CPU waits no longer; a change of threads costs a fiftieth.
const BREATH: Duration = Duration::from_micros(200);
/// Steps between two looks.
const STEPS: i64 = 1024;
/// Bytes of a string that count as a step.
const BYTES_PER_STEP: usize = 32;
/// A string of so many bytes is long.
pub const LONG: usize = 64 << 10;
/// So many bytes of rows and keys are much: to sort them, to make room for more or to free them
/// takes long.
pub const MUCH: usize = 4 << 20;

pub struct Pace {
    /// Until the next look.
    steps: i64,
    /// The stretch of the runtime in which this began, and when.
    stretch: u64,
    began: Duration,
    /// Long values are about: it is worked on beside the workers, after each wait again.
    heavy: bool,
    /// When the statement's time is up.
    pub deadline: Option<Duration>,
    /// Looks, for tests.
    pub looks: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            steps: STEPS,
            stretch: 0,
            began: Duration::ZERO,
            heavy: false,
            deadline: None,
            looks: 0,
        }
    }
}

impl Env<'_> {
    /// Counts a step of an evaluation.
    #[inline(always)]
    pub fn step(&mut self) -> Result<()> {
        self.pace.steps -= 1;
        if self.pace.steps < 0 { self.look() } else { Ok(()) }
    }
    /// Counts several steps.
    #[inline]
    pub fn steps(&mut self, steps: usize) -> Result<()> {
        self.pace.steps -= steps as i64;
        if self.pace.steps < 0 { self.look() } else { Ok(()) }
    }
    /// Counts work on a string of `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<()> {
        if len < BYTES_PER_STEP {
            return Ok(());
        }
        if len >= LONG {
            self.be_heavy();
        }
        self.steps(len / BYTES_PER_STEP)
    }
    /// What the statement has in hand takes long to work on.
    #[cold]
    pub fn be_heavy(&mut self) {
        self.pace.heavy = true;
        if let Some(runtime) = self.runtime {
            runtime.leave_worker();
        }
    }

    /// Long values are about.
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.pace.heavy
    }
    /// The statement keeps so many bytes.
    #[inline]
    pub fn keeps(&mut self, bytes: usize) {
        if bytes >= MUCH {
            self.be_heavy();
        }
    }

    /// PACE-1, PACE-2.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self) -> Result<()> {
        self.pace.looks += 1;
        check_killed(self)?;
        self.session.memory.count_locks()?;
        let now = self.disk.now();
        if self.pace.deadline.is_some_and(|deadline| now >= deadline) {
            self.session.process.kill(Kill::Timeout);
            return Err(SqlError::query_timeout());
        }
        self.pace.steps = STEPS;
        let Some(runtime) = self.runtime else { return Ok(()) };
        let stretch = runtime.stretch();
        if stretch != self.pace.stretch || self.pace.looks == 1 {
            (self.pace.stretch, self.pace.began) = (stretch, now);
        }
        if self.pace.heavy {
            runtime.leave_worker();
            // After a wait it is on a worker again, and must not begin a long call there.
            self.pace.steps = 0;
        }
        let beside = runtime.has_left_worker();
        if now.saturating_sub(self.pace.began) >= if beside { BREATH } else { TURN } {
            if beside {
                runtime.breathe();
            } else {
                runtime.leave_worker();
            }
            self.pace.began = self.disk.now();
        }
        Ok(())
    }
}

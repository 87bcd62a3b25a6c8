//! Interrupts long evaluations now and then to look at the clock and the KILL flag.
//!
//! **PACE-1** No evaluation calculates on a worker of the runtime for longer than two turns
//! ([`TURN`]) plus the time between two looks. Then it leaves its worker
//! ([`Runtime::leave_worker`](redolith_engine::runtime::Runtime::leave_worker)) and goes on beside
//! the workers. An evaluation that meets a long value leaves its worker at once, because a single
//! call over the value may take long.
//! **PACE-2** Every look checks whether the statement was killed and whether its time is up. So
//! KILL and time limits reach every evaluation.
//! **PACE-3** An evaluation counts its work in steps of some tens of nanoseconds: one step for each
//! node, and one for every `BYTES_PER_STEP` bytes. Short statements never look.
use super::env::Env;
use super::scan::check_killed;
use crate::error::{Result, SqlError};
use crate::processes::Kill;
use redolith_engine::runtime::Runtime;
use std::time::Duration;

/// The approximate time for which an evaluation may hold its worker without a pause.
pub const TURN: Duration = Duration::from_millis(1);
/// The approximate time for which an evaluation beside the workers calculates before it passes on
/// its seat. A worker that needs the same CPU waits no longer than this. A change of threads costs
/// about a fiftieth of this time.
const BREATH: Duration = Duration::from_micros(200);
/// The number of steps between two looks.
const STEPS: i64 = 1024;
/// The number of bytes of a string that count as one step.
pub const BYTES_PER_STEP: usize = 32;
/// A string of this many bytes counts as long.
pub const LONG: usize = 64 << 10;
/// This many bytes of rows and keys count as much: it takes long to sort them, to enlarge their
/// buffer or to free them.
pub const MUCH: usize = 4 << 20;

pub struct Pace {
    /// The number of steps until the next look.
    steps: i64,
    /// The runtime's stretch in which the evaluation began, and the time at which it began.
    stretch: u64,
    began: Duration,
    /// The CPU time of the thread when the evaluation had filled a turn by the clock.
    cpu: Option<Duration>,
    /// The statement has met long values: it works beside the workers, also after each wait.
    heavy: bool,
    /// The number of steps that a heavy statement may take before it looks at the clock, as long as
    /// it is beside the workers.
    quiet: i64,
    /// The time at which the statement must end.
    pub deadline: Option<Duration>,
    /// The number of looks, for tests.
    pub looks: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            steps: STEPS,
            stretch: 0,
            began: Duration::ZERO,
            cpu: None,
            heavy: false,
            quiet: 0,
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
        if self.pace.steps < 0 { self.is_due() } else { Ok(()) }
    }
    /// Counts several steps.
    #[inline]
    pub fn steps(&mut self, steps: usize) -> Result<()> {
        self.pace.steps -= steps as i64;
        if self.pace.steps < 0 { self.is_due() } else { Ok(()) }
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
    /// Notes that single calls of the statement may take long.
    #[cold]
    pub fn be_heavy(&mut self) {
        self.pace.heavy = true;
        if let Some(runtime) = self.runtime {
            runtime.leave_worker();
        }
    }

    /// Leaves the worker for a call that may block, such as one to a file. The statement's other
    /// calls stay short.
    pub fn leave_worker(&self) {
        if let Some(runtime) = self.runtime {
            runtime.leave_worker();
        }
    }

    /// True if the statement has met long values.
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.pace.heavy
    }
    /// Notes that the statement keeps `bytes` bytes.
    #[inline]
    pub fn keeps(&mut self, bytes: usize) {
        if bytes >= MUCH {
            self.be_heavy();
        }
    }

    /// Looks if no steps are left. A heavy statement has none, so that it leaves its worker in
    /// time; beside the workers it need not look at every step. A call that itself looks now and
    /// then, because it takes long, looks each time.
    #[cold]
    #[inline(never)]
    fn is_due(&mut self) -> Result<()> {
        if self.pace.heavy && self.goes_on_beside() {
            return Ok(());
        }
        self.look()
    }
    /// Looks at the KILL flag and the clock, and leaves the worker if it is time (PACE-1, PACE-2).
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
            (self.pace.stretch, self.pace.began, self.pace.cpu) = (stretch, now, None);
        }
        if self.pace.heavy {
            runtime.leave_worker();
            // After a wait the statement is on a worker again, where it must not begin a long call.
            (self.pace.steps, self.pace.quiet) = (0, STEPS);
        }
        let beside = runtime.has_left_worker();
        if now.saturating_sub(self.pace.began) >= if beside { BREATH } else { TURN } {
            if beside {
                runtime.breathe();
            } else if self.has_calculated() {
                runtime.leave_worker();
            }
            self.pace.began = self.disk.now();
        }
        Ok(())
    }
    /// Whether a heavy statement is beside the workers since its last look, which is not long ago.
    fn goes_on_beside(&mut self) -> bool {
        // A step that has called for a look is one more than there were left.
        let taken = -self.pace.steps;
        let beside = self.runtime.is_some_and(Runtime::has_left_worker);
        if !beside || self.pace.quiet < taken {
            return false;
        }
        self.pace.quiet -= taken;
        self.pace.steps = 0;
        true
    }
    /// Whether the evaluation, which has filled a turn by the clock, has also calculated for a turn
    /// since it first had. By the clock alone, every statement looks long whose worker waits for a
    /// CPU.
    fn has_calculated(&mut self) -> bool {
        let cpu = self.disk.thread_cpu();
        let since = *self.pace.cpu.get_or_insert(cpu);
        let long = cpu.saturating_sub(since) >= TURN;
        if long {
            self.pace.cpu = None;
        }
        long
    }
}

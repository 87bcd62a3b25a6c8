//! Handles Ctrl-C. The first Ctrl-C (or SIGTERM, SIGHUP) asks the lab to end; every wait of the lab
//! checks this. A second one ends the lab at once, and its children with it (`child`).
use crate::failure::{Failure, Result, failed};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval at which a wait checks.
pub const LOOK: Duration = Duration::from_millis(20);
const EXIT_STATUS: i32 = 130;

#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn on_signals() -> Result<Stop> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: at the first signal, the flag must still be unset when the
            // conditional shutdown checks it.
            flag::register_conditional_shutdown(signal, EXIT_STATUS, asked.clone())
                .and_then(|_| flag::register(signal, asked.clone()))
                .map_err(failed("signals"))?;
        }
        Ok(Stop(asked))
    }

    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub fn check(&self) -> Result<()> {
        if self.requested() { Err(Failure::Stopped) } else { Ok(()) }
    }

    pub fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Ok(()),
                left => std::thread::sleep(left.min(LOOK)),
            }
        }
    }
}

//! The tasks that purge, and how much of the time they take.
//!
//! One of them moves the horizon and begins each pass through the history; the others help while
//! there is much to do. Each works for a turn and then lets all others run that are ready. A turn
//! has the more changes the longer the history is: so purge takes as much of the time as keeps the
//! history flat, and is hardly noticed while there is little to do.
use super::batch::Batch;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::runtime::let_others_run;
use crate::sync::event::either;
use crate::{Error, TrxId};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// A turn has one change for so many logs of history; at least, at most.
const LOGS_PER_CHANGE: u64 = 16;
const TURN_CHANGES: (u64, u64) = (32, 512);
/// Nor is it longer.
const TURN_TIME: Duration = Duration::from_millis(1);
/// A pass that leaves more follows at once.
const LOGS_PER_PASS: u64 = 1024;
const IDLE: Duration = Duration::from_millis(20);
/// The longest pause before a log is tried again (PURGE-5).
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The work of one task since others ran.
#[derive(Default)]
pub(super) struct Turn {
    changes: u64,
    began: Option<Duration>,
}
impl Turn {
    /// `n` more changes have been looked at.
    pub(super) async fn count(&mut self, engine: &Engine, n: usize) {
        self.changes += n as u64;
        let now = engine.disk.now();
        let began = *self.began.get_or_insert(now);
        if self.changes >= turn(engine.history.len()) || now.saturating_sub(began) >= TURN_TIME {
            *self = Turn::default();
            let_others_run(&*engine.runtime).await;
        }
    }
}
fn turn(history: u64) -> u64 {
    (history / LOGS_PER_CHANGE).clamp(TURN_CHANGES.0, TURN_CHANGES.1)
}

/// What came of one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It is done with so many logs; none: the horizon does not see what was looked at.
    Did(usize),
    Nothing,
    /// Purge is stopped or held off, or something has to be tried again later.
    Later,
}

/// The background task that always runs.
pub(crate) async fn run(engine: Arc<Engine>) {
    let (counts, mut pause) = (&engine.history.counts, IDLE);
    let (mut batch, mut turn) = (Batch::default(), Turn::default());
    while !engine.closing.load(Acquire) {
        engine.history.lag.look(engine.history.len());
        let failed = counts.retries.load(Relaxed);
        let idle = engine.history.is_empty() || engine.history.is_stopped();
        // Many logs at a time are less work than a few again and again.
        if !idle
            && engine.purge_pass(&mut batch, &mut turn).await
            && engine.history.len() > LOGS_PER_PASS
        {
            pause = IDLE;
            continue;
        }
        let again = counts.retries.load(Relaxed) > failed;
        pause = if again { (2 * pause).min(LAST_PAUSE) } else { IDLE };
        engine.nap(pause).await;
    }
}
/// One that helps. `number`: how many others there are before it.
pub(crate) async fn help(engine: Arc<Engine>, number: usize) {
    let (mut batch, mut turn) = (Batch::default(), Turn::default());
    let is_much = || engine.history.len() > number as u64 * engine.config.purge_logs_per_task;
    loop {
        let (seen, closing) = (engine.history.help.seen(), engine.close_step.seen());
        if engine.closing.load(Acquire) {
            return;
        }
        while is_much() && matches!(engine.purge_step(&mut batch, &mut turn).await, Step::Did(1..))
        {
        }
        either(engine.history.help.after(seen), engine.close_step.after(closing)).await;
    }
}

impl Engine {
    /// Purges what is in the history now, once older views have closed. False if there was nothing
    /// to do, or it was stopped or held off.
    async fn purge_pass(&self, batch: &mut Batch, turn: &mut Turn) -> bool {
        self.history.counts.rounds.fetch_add(1, Relaxed);
        let mut view = self.sys.new_view();
        self.sys.open_view(&mut view, TrxId::NONE);
        while self.sys.oldest_view_no() < view.low_no() && !planted(Canary::PurgeTooEarly) {
            self.history.lag.look(self.history.len());
            if self.closing.load(Acquire) || self.history.is_stopped() {
                return false;
            }
            self.nap(Duration::from_millis(5)).await;
        }
        let seen = view.low_no();
        // It keeps what it sees; as an open view it would hold up the next one.
        view.close();
        *self.horizon.write() = view;
        if self.history.len() > self.config.purge_logs_per_task {
            self.history.help.notify();
        }
        let mut left = self.undo.unread() + self.history.items.lock().len();
        let mut purged = false;
        while left > 0 {
            match self.purge_step(batch, turn).await {
                Step::Did(logs) => purged |= logs > 0,
                Step::Nothing => break,
                Step::Later => return purged,
            }
            left -= 1;
            self.history.lag.look(self.history.len());
        }
        self.history.done_below.store(seen.0, Relaxed);
        purged
    }
    /// Purges one page's logs, or one long log.
    async fn purge_step(&self, batch: &mut Batch, turn: &mut Turn) -> Step {
        let Some(purging) = self.history.start() else { return Step::Later };
        let step = match self.next_item() {
            Some(item) => self.purge_item(item, batch, turn).await,
            None => self.purge_page(batch, turn).await,
        };
        drop(purging);
        step
    }
    pub(super) fn log_failure(&self, passes: bool, e: &Error) {
        let what = if passes {
            "waits, and tries again and again"
        } else {
            "passed over an undo log that cannot be read"
        };
        if let Some(line) =
            self.history.failures.lock().line(self.disk.now(), format!("{what}: {e}"))
        {
            tracing::warn!("purge {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_grows_with_the_history_and_has_an_end() {
        assert_eq!((turn(0), turn(511), turn(1600), turn(10_000_000)), (32, 32, 100, 512));
    }
}

//! The tasks of purge, and the share of the time that they take.
//!
//! One task moves the horizon and begins each pass through the history; the others help while there
//! is much to do. Each task works for a turn and then lets all ready tasks run. The longer the
//! history is, the more changes a turn has. So purge takes as much of the time as it needs to stop
//! the growth of the history, and is hardly noticed while there is little to do.
use super::batch::Batch;
use crate::canary::{Canary, planted};
use crate::engine::Engine;
use crate::runtime::let_others_run;
use crate::sync::event::either;
use crate::{Error, TrxId};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// A turn has one change for each of this many undo logs of history, within the given bounds.
const LOGS_PER_CHANGE: u64 = 16;
const TURN_CHANGES: (u64, u64) = (32, 512);
/// So many versions of rows that are read are as much work as a change.
const VERSIONS_PER_CHANGE: u64 = 16;
/// The longest time of a turn.
const TURN_TIME: Duration = Duration::from_millis(1);
/// If a pass leaves more undo logs than this, the next pass follows at once.
const LOGS_PER_PASS: u64 = 1024;
const IDLE: Duration = Duration::from_millis(20);
/// The longest pause before an undo log is tried again (PURGE-5).
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The work of one task since it last let others run.
#[derive(Default)]
pub(super) struct Turn {
    changes: u64,
    began: Option<Duration>,
}
impl Turn {
    /// Counts `n` more changes, and lets other tasks run if the turn is over.
    pub(super) async fn count(&mut self, engine: &Engine, n: usize) {
        self.count_read(engine, n, 0).await;
    }
    /// Counts versions that were read, too.
    pub(super) async fn count_read(&mut self, engine: &Engine, n: usize, versions: u64) {
        self.changes += n as u64 + versions / VERSIONS_PER_CHANGE;
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

/// The result of one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The step has finished this many undo logs. With 0 the horizon did not see the logs that were
    /// looked at.
    Did(usize),
    Nothing,
    /// Purge is stopped or held off, or work has to be tried again later.
    Later,
}

/// The background task of purge that always runs.
pub(crate) async fn run(engine: Arc<Engine>) {
    let (counts, mut pause) = (&engine.history.counts, IDLE);
    let (mut batch, mut turn) = (Batch::default(), Turn::default());
    while !engine.closing.load(Acquire) {
        engine.history.lag.look(engine.history.len());
        let failed = counts.retries.load(Relaxed);
        let idle = engine.history.is_empty() || engine.history.is_stopped();
        // Many undo logs at a time cost less work than a few logs again and again.
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
/// A task that helps. `number` is the number of tasks before it.
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
    /// Purges the present history, once older views have closed. Returns false if there was nothing
    /// to do, or purge was stopped or held off.
    async fn purge_pass(&self, batch: &mut Batch, turn: &mut Turn) -> bool {
        self.history.counts.rounds.fetch_add(1, Relaxed);
        let mut view = self.sys.new_view();
        self.sys.open_view(&mut view, TrxId::NONE, || self.store.log.tail());
        let mut waited = false;
        while !self.sys.may_purge(&view) && !planted(Canary::PurgeTooEarly) {
            waited = true;
            self.history.lag.look(self.history.len());
            if self.closing.load(Acquire) || self.history.is_stopped() {
                return false;
            }
            self.nap(Duration::from_millis(5)).await;
        }
        // A closed view still knows which transactions it sees. As an open view it would hold up
        // the next one.
        view.close();
        if waited {
            // While purge waited for a reader, rows may have got any number of versions that this
            // view does not see, through which purge would have to walk. If nobody reads at
            // present, a new view may be purged by at once.
            let mut later = self.sys.new_view();
            self.sys.open_view(&mut later, TrxId::NONE, || self.store.log.tail());
            if self.sys.may_purge(&later) {
                view = later;
                view.close();
            }
        }
        let seen = view.low_no();
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
            left = left.saturating_sub(batch.taken.max(1));
            self.history.lag.look(self.history.len());
        }
        self.history.done_below.store(seen.0, Relaxed);
        if purged {
            self.sys.outdate_views();
        }
        purged
    }
    /// Purges the undo logs of some pages, or some logs that have entries of their own.
    async fn purge_step(&self, batch: &mut Batch, turn: &mut Turn) -> Step {
        let Some(purging) = self.history.start() else { return Step::Later };
        batch.clear();
        batch.pages = self.history.batch_pages.load(Relaxed);
        let items = self.next_items(batch);
        let step = if items.is_empty() {
            self.purge_pages(batch, turn).await
        } else {
            self.purge_items(items, batch, turn).await
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

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_grows_with_the_history_and_has_an_end() {
        assert_eq!((turn(0), turn(511), turn(1600), turn(10_000_000)), (32, 32, 100, 512));
    }
}

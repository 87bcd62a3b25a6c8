//! A transaction, as its session holds it. Read `commit.rs` first.
//!
//! - TRX-A: a row change writes the clustered record (with undo) first, then the secondary entries.
//!   A rollback goes the other way round.
//! - TRX-B: a failed statement is rolled back to the place where the statement began (`savepoint`,
//!   `rollback_to`). The victim of a deadlock is rolled back as a whole.
//! - TRX-C: a rollback that cannot go on now (the disk is full, a page is unreadable) continues in
//!   the background and keeps the transaction's locks until it is done. The session is free at
//!   once. A rollback to a savepoint that fails half way leaves a transaction that can only be
//!   rolled back as a whole.
//! - TRX-D: no transaction works for longer than a turn without letting other tasks run
//!   ([`Trx::give_way`]). All of its pages may be in memory, so that it never waits, and its thread
//!   is one of few. A commit that gathers its group in the same run queue waits for one turn at
//!   most.
pub(crate) mod commit;
mod counter_lock;
pub(crate) mod prepare;
pub(crate) mod rollback;
pub(crate) mod seen;
pub(crate) mod sys;
pub(crate) mod view;

use crate::btree::Appended;
use crate::canary::{Canary, planted};
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::lock::{KillFlag, LockKey, TrxLocks};
use crate::log::SpaceWait;
use crate::metrics::RowCounts;
use crate::progress::Progress;
use crate::runtime::let_others_run;
use crate::undo::{UndoLog, record::RollPtr};
use crate::{Error, Lsn, Result, TrxId, Try, WouldBlock};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::Poll;
use std::time::Duration;
use view::ReadView;

/// The pauses between two attempts of a rollback in the background: the first pause, and the
/// longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The isolation levels of SQL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Isolation {
    /// Sees what is not committed.
    ReadUncommitted,
    /// Each statement sees what was committed when it began.
    ReadCommitted,
    /// The whole transaction sees what was committed at its first read.
    #[default]
    RepeatableRead,
    /// Each read locks what it has read.
    Serializable,
}
impl Isolation {
    /// Whether locking reads also lock the ranges they scan.
    pub(crate) fn locks_ranges(self) -> bool {
        self >= Isolation::RepeatableRead && !planted(Canary::NoRangeLocks)
    }
}

/// A place in a transaction that can be rolled back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(pub(crate) RollPtr);

/// How long a transaction works on a worker before it lets other tasks run.
const TURN: Duration = Duration::from_millis(1);
/// How long a transaction works beside the workers before it becomes a task again. Beside the
/// workers no other task waits for the thread, and the way to a worker and back takes a tenth of a
/// millisecond.
const TURN_BESIDE: Duration = Duration::from_millis(20);
/// After how many rows a transaction looks at the clock: at first, and at most. Between these
/// bounds the number follows the speed of the rows, so that a look comes a few times per turn.
const FIRST_LOOK: u32 = 4;
const ROWS_PER_LOOK: u32 = 64;

/// The work that a task has done since it last let others run (TRX-D). Tasks that read rows or
/// pages without a transaction have a `Turn` of their own.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The rows until the next look at the clock, and the rows between two looks.
    rows: u32,
    rows_per_look: u32,
    /// When this turn's first and last looks at the clock were.
    began: Option<Duration>,
    looked: Duration,
    /// The runtime's stretch at this turn's first look at the clock.
    stretch: u64,
    /// Whether the turn before was over by the clock. Then `cpu` is the CPU time of the thread when
    /// this turn began.
    suspected: bool,
    cpu: Option<Duration>,
    /// The CPU time of the last turns, of which each counts half as much as the one after it.
    calculated: Duration,
}
impl Default for Turn {
    fn default() -> Turn {
        Turn {
            rows: FIRST_LOOK,
            rows_per_look: FIRST_LOOK,
            began: None,
            looked: Duration::ZERO,
            stretch: 0,
            suspected: false,
            cpu: None,
            calculated: Duration::ZERO,
        }
    }
}
impl Turn {
    /// Returns, after a row of work, whether the task may go on without a look at the clock. If
    /// not, the caller has to call `count`.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> bool {
        let goes_on = self.rows > 1;
        self.rows -= u32::from(goes_on);
        goes_on
    }
    /// Counts rows that were worked on together, all but one: `count` counts that one.
    pub(crate) fn count_more(&mut self, rows: usize) {
        self.rows = self.rows.saturating_sub(rows as u32).max(1);
    }
    /// Counts a row of work, and lets other tasks run if the turn is over.
    #[inline]
    pub(crate) async fn count(&mut self, engine: &Engine) {
        if !self.goes_on() && self.is_over(engine) {
            // The future of `end` is boxed because every future that works row by row contains this
            // one.
            Box::pin(self.end(engine)).await;
        }
    }
    #[cold]
    fn is_over(&mut self, engine: &Engine) -> bool {
        let beside = engine.runtime.has_left_worker();
        let begins = self.began.is_none();
        let over = self.look(engine.disk.now(), beside);
        if begins {
            self.stretch = engine.runtime.stretch();
            self.cpu = self.suspected.then(|| engine.disk.thread_cpu());
        }
        if beside && !over {
            engine.runtime.breathe();
        }
        over
    }
    /// TRX-D: work that has calculated for a whole turn without a wait is long, and continues
    /// beside the workers. Other work steps back in the run queue: it has waited during its turn,
    /// may not leave its worker, or the system took the CPU from its thread.
    async fn end(&mut self, engine: &Engine) {
        let runtime = &*engine.runtime;
        let beside = runtime.has_left_worker();
        let waited = runtime.stretch() != self.stretch;
        if waited {
            self.calculated = Duration::ZERO;
        }
        let long = !beside && !waited && self.has_calculated(|| engine.disk.thread_cpu());
        if long && runtime.leave_worker() && runtime.has_left_worker() {
            return;
        }
        let_others_run(runtime).await;
        if beside {
            runtime.leave_worker();
        }
    }
    /// Whether the turn, which is over by the clock, went into calculation. The clock alone does
    /// not tell: with more threads than CPUs, a worker that waits for its CPU makes every statement
    /// look long, and then most sessions stand in line for a seat beside the workers. The CPU time
    /// costs a system call, so the first turn that is over only makes the next turn begin with it.
    /// A statement that calculates on a busy CPU is found out after some turns.
    fn has_calculated(&mut self, cpu: impl FnOnce() -> Duration) -> bool {
        self.suspected = true;
        let used = self.cpu.take().map_or(Duration::ZERO, |began| cpu().saturating_sub(began));
        self.calculated = self.calculated / 2 + used;
        self.calculated >= TURN / 2
    }
    /// Looks at the clock, which shows `now`, and returns whether the turn is over. `beside` says
    /// that the work is done beside the workers.
    fn look(&mut self, now: Duration, beside: bool) -> bool {
        let began = match self.began {
            Some(began) => {
                // Rows may be quick or slow: the number of rows is adjusted until about a fourth of
                // a turn passes between two looks.
                let slow = now.saturating_sub(self.looked) >= TURN / 4;
                self.rows_per_look = if slow {
                    (self.rows_per_look / 2).max(1)
                } else {
                    (self.rows_per_look * 2).min(ROWS_PER_LOOK)
                };
                began
            }
            None => now,
        };
        let over = now.saturating_sub(began) >= if beside { TURN_BESIDE } else { TURN };
        (self.rows, self.looked) = (self.rows_per_look, now);
        self.began = if over { None } else { Some(began) };
        over
    }
}

/// Buffers that one operation after the other uses again.
#[derive(Default)]
pub(crate) struct Scratch {
    pub key: Vec<u8>,
    pub entry: Vec<u8>,
    pub undo: Vec<u8>,
    pub payload: Vec<u8>,
    pub run: crate::page::index::run::Run,
    /// For each row of a run, the undo record before the row's.
    pub starts: Vec<crate::undo::record::RollPtr>,
    /// The place of the transaction's last insert of a row, if the row was the last of its page.
    pub appended: Option<Appended>,
}

/// One session's transactions, one after the other: `begin`, work, `commit` or `rollback`. A `Trx`
/// that is dropped with an unfinished transaction rolls this transaction back in the background.
pub struct Trx {
    pub(crate) engine: Arc<Engine>,
    pub(crate) locks: Arc<TrxLocks>,
    /// The table that the transaction makes and fills (NEWTABLE-2).
    pub(crate) fills: Option<Arc<Table>>,
    /// The AUTO-INC lock that the running statement holds (AUTOINC-1).
    counter_lock: Option<LockKey>,
    pub(crate) id: TrxId,
    pub(crate) undo: UndoLog,
    /// Where the transaction's last change ends in the redo log that relies on an AUTO_INCREMENT
    /// counter which is not durable yet (COUNTER-2).
    pub(crate) counter_raised: Option<Lsn>,
    pub(crate) view: ReadView,
    pub(crate) scratch: Scratch,
    /// The isolation level.
    pub isolation: Isolation,
    /// Whether the transaction may not write.
    pub read_only: bool,
    /// The running statement changes temporary tables only, which a transaction that may not write
    /// may change.
    pub writes_temporary: bool,
    /// How long it waits for a row lock.
    pub lock_wait_timeout: Duration,
    /// Whether the transaction is a single statement that reads without locks (for
    /// trx_nl_ro_commits).
    pub single_read: bool,
    /// What the running statement has done to rows.
    pub rows: RowCounts,
    /// Where a long rollback is seen from outside.
    pub progress: Option<Arc<Progress>>,
    /// Why a rollback to a savepoint failed (TRX-B). The transaction then contains half a statement
    /// and must not commit.
    broken: Option<Error>,
    /// The savepoints to which a rollback failed or was given up. The transaction is whole again
    /// when a later rollback has come to each of them.
    unfinished: Vec<RollPtr>,
    /// Whether the rollback of the whole transaction has begun, which does not mark what it takes
    /// back as undone.
    ending: bool,
    /// Whether the transaction is prepared.
    prepared: bool,
    /// Where the transaction's commit ends in the redo log, if it is hidden
    /// ([`Trx::place_commit`]).
    placed: Option<Lsn>,
    /// Whether the transaction is being rolled back in the background (TRX-C), or was found by a
    /// start: a transaction that is not ended by that is left to the next start.
    pub(crate) abandoned: bool,
    /// When the session's last transaction with changes committed; zero if there was none yet.
    last_commit: Duration,
    pub(crate) turn: Turn,
}

impl Drop for Trx {
    fn drop(&mut self) {
        if self.id == TrxId::NONE {
            return self.release_locks();
        }
        if self.placed.is_some() {
            // The redo log has the commit, which nobody takes back any more.
            drop(self.finish_commit());
            return;
        }
        if self.abandoned || self.prepared {
            // The runtime has dropped the rollback's task because the engine ends, and recovery
            // will finish the rollback. A prepared transaction stays, with its locks (PREPARE-1).
            return;
        }
        // A session that is gone cannot wait for its rollback.
        self.hand_over();
    }
}

impl Trx {
    pub(crate) fn new(engine: Arc<Engine>, kill: Arc<KillFlag>) -> Trx {
        Trx {
            locks: engine.locks.new_trx(kill),
            fills: None,
            progress: None,
            counter_lock: None,
            view: engine.sys.new_view(),
            id: TrxId::NONE,
            undo: UndoLog::default(),
            counter_raised: None,
            scratch: Scratch::default(),
            isolation: Isolation::default(),
            read_only: false,
            writes_temporary: false,
            lock_wait_timeout: Duration::from_secs(50),
            single_read: false,
            rows: RowCounts::default(),
            broken: None,
            unfinished: Vec::new(),
            ending: false,
            prepared: false,
            placed: None,
            abandoned: false,
            last_commit: Duration::ZERO,
            turn: Turn::default(),
            engine,
        }
    }
    /// Its id; `NONE` before its first write.
    pub fn id(&self) -> TrxId {
        self.id
    }
    /// TRX-C: moves the rest of the transaction into a rollback in the background. `self` then
    /// serves for the next transaction.
    pub(super) fn hand_over(&mut self) {
        let engine = self.engine.clone();
        let fresh = engine.locks.new_trx(self.locks.kill());
        let mut rest = Trx {
            engine: engine.clone(),
            locks: std::mem::replace(&mut self.locks, fresh),
            fills: None,
            progress: None,
            counter_lock: self.counter_lock.take(),
            id: std::mem::take(&mut self.id),
            undo: std::mem::take(&mut self.undo),
            counter_raised: None,
            view: engine.sys.new_view(),
            scratch: Scratch::default(),
            isolation: self.isolation,
            read_only: false,
            writes_temporary: false,
            lock_wait_timeout: self.lock_wait_timeout,
            broken: None,
            unfinished: Vec::new(),
            ending: false,
            prepared: false,
            placed: None,
            single_read: false,
            rows: RowCounts::default(),
            abandoned: true,
            last_commit: Duration::ZERO,
            turn: Turn::default(),
        };
        rest.locks.seen().detach(self.locks.seen());
        self.fills = None;
        self.view.close();
        engine.rollbacks.fetch_add(1, AcqRel);
        engine.spawn("rollback", |engine| async move {
            let (mut pause, mut told) = (FIRST_PAUSE, false);
            while let Err(e) = rest.take_back_all().await {
                if !std::mem::replace(&mut told, true) {
                    tracing::error!(
                        "transaction {} cannot be rolled back now: {e}. The transaction \
                         keeps its row locks in all tables, and the server tries the rollback \
                         again and again. Free disk space; if the table cannot be read any more, \
                         DROP TABLE lets the rollback finish",
                        rest.id.0
                    );
                }
                if engine.closing.load(Acquire) {
                    // Recovery finishes the rollback at the next start.
                    return;
                }
                engine.nap(pause).await;
                pause = (2 * pause).min(LAST_PAUSE);
            }
            engine.rollbacks.fetch_sub(1, AcqRel);
        });
    }
    /// The engine that it is of.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
    /// Its locks.
    pub fn locks(&self) -> &Arc<TrxLocks> {
        &self.locks
    }
    /// Whether it has changed something.
    pub fn has_written(&self) -> bool {
        !self.undo.is_empty()
    }
    /// Whether the transaction has read or locked anything.
    pub(crate) fn has_read(&self) -> bool {
        self.view.is_open() || self.locks.locks_held() > 0
    }
    /// Adds the row counts of the statement, which has ended, to the engine's counts.
    pub fn count_rows(&mut self) {
        self.engine.counts.add_rows(std::mem::take(&mut self.rows));
    }
    /// The number of its undo records.
    #[cfg(any(test, feature = "testing"))]
    pub fn undo_records(&self) -> u32 {
        self.undo.count
    }
    /// Opens the read view now (START TRANSACTION WITH CONSISTENT SNAPSHOT).
    pub fn open_view(&mut self) {
        if !self.view.is_open() {
            let engine = &self.engine;
            // Pages of a forced start may disagree, so entries alone tell no rows.
            let is_forced = engine.config.forced.is_on();
            let tail = || if is_forced { Lsn(0) } else { engine.store.log.tail() };
            engine.sys.open_view(&mut self.view, self.id, tail);
        }
    }
    /// Begins a statement. At READ COMMITTED and below each statement reads from a new view.
    pub fn begin_statement(&mut self) {
        self.turn = Turn::default();
        self.scratch.appended = None;
        self.writes_temporary = false;
        if self.isolation <= Isolation::ReadCommitted {
            self.view.close();
        }
    }
    /// Gives the transaction an id before its first write.
    pub(crate) async fn ensure_id(&mut self) -> Result<()> {
        if self.read_only && !self.writes_temporary {
            return Err(Error::ReadOnly);
        }
        if self.engine.config.forced.is_on() {
            return Err(Error::ForcedRecovery);
        }
        while self.id == TrxId::NONE {
            match self.engine.sys.register(&self.locks, self.engine.store.log.tail()) {
                Some(id) => {
                    self.scratch.appended = None;
                    self.id = id;
                    self.view.set_creator(id);
                }
                None => self.engine.clone().raise_high_water().await?,
            }
        }
        Ok(())
    }
    /// Waits until a call that returned `blocked` can be tried again. A wait for a lock takes at
    /// most the transaction's lock wait timeout.
    pub(crate) async fn unblocked(&self, blocked: WouldBlock) -> Result<()> {
        match blocked {
            WouldBlock::Lock(wait) => wait.wait(&self.engine.runtime, self.lock_wait_timeout).await,
            WouldBlock::LogSpace(bytes) => {
                self.wait_room(self.engine.store.log.wait_space(bytes)).await
            }
            WouldBlock::LogReserve(bytes) => {
                self.wait_room(self.engine.store.log.wait_space_reserved(bytes)).await
            }
            other => self.engine.unblocked(other).await,
        }
    }
    /// Waits for room in the redo log, at most as long as for a row lock.
    async fn wait_room(&self, wait: SpaceWait<'_>) -> Result<()> {
        let (mut wait, mut timer) = (wait, self.engine.runtime.sleep(self.lock_wait_timeout));
        poll_fn(|cx| {
            if let Poll::Ready(done) = Pin::new(&mut wait).poll(cx) {
                return Poll::Ready(done);
            }
            if self.locks.kill().poll(cx.waker()) {
                return Poll::Ready(Err(Error::Interrupted));
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.engine.tell_log_full();
            Poll::Ready(Err(Error::LogFull))
        })
        .await
    }
    /// Lets other tasks run if the turn is over (TRX-D). Every loop over rows calls this after each
    /// row.
    #[inline]
    pub async fn give_way(&mut self) {
        self.turn.count(&self.engine).await;
    }
    /// Called before each change of a row. The function lets other tasks run if the turn is over,
    /// and slows the transaction down if the redo log is nearly full or the history is too long.
    #[inline]
    pub(crate) async fn pace(&mut self) {
        self.give_way().await;
        if self.engine.store.log.is_slow() {
            self.engine.store.log.throttle().await;
        }
        if let Some(delay) = self.engine.history.lag.delay() {
            Box::pin(self.wait_for_purge(delay)).await;
        }
    }
    /// Whether each change of a row is held up at present.
    pub(crate) fn is_slowed(&self) -> bool {
        self.engine.store.log.is_slow() || self.engine.history.lag.delay().is_some()
    }
    /// Sleeps because the history is longer than `innodb_max_purge_lag`. A statement that is killed
    /// during the sleep notices this by itself afterwards.
    #[cold]
    async fn wait_for_purge(&self, delay: Duration) {
        let mut timer = self.engine.runtime.sleep(delay);
        poll_fn(|cx| {
            if self.locks.kill().poll(cx.waker()) {
                Poll::Ready(())
            } else {
                timer.as_mut().poll(cx)
            }
        })
        .await;
    }
    /// Returns how far the redo log must be durable before a rollback is acknowledged, and forgets
    /// the position. Without this wait a crash could hand out again AUTO_INCREMENT values that the
    /// rolled back rows had.
    pub fn take_counter_raised(&mut self) -> Option<Lsn> {
        self.counter_raised.take()
    }
    /// The present place of the transaction.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.last)
    }
    /// Turns the implicit lock of `owner` on the row at `key` into an explicit lock if `owner` is
    /// another active transaction. The caller's own lock request then waits for this lock.
    pub(crate) fn wait_for(&self, owner: TrxId, key: crate::lock::LockKey) -> Try<()> {
        if owner != self.id
            && let Some(other) = self.engine.sys.find(owner)
        {
            self.engine.locks.grant_implicit(&other, owner, key);
        }
        Ok(())
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// The longest time between the ends of two turns, for rows that take `row` each.
    fn longest(row: Duration, rows: u32) -> Duration {
        let (mut turn, mut now, mut last, mut longest) =
            (Turn::default(), Duration::from_secs(1), Duration::from_secs(1), Duration::ZERO);
        for _ in 0..rows {
            now += row;
            turn.rows -= 1;
            if turn.rows == 0 && turn.look(now, false) {
                longest = longest.max(now - last);
                last = now;
            }
        }
        longest.max(now - last)
    }

    /// Tests TRX-D.
    #[test]
    fn a_turn_without_a_cpu_is_not_long() {
        let mut turn = Turn::default();
        let of = |micros: u64| Duration::from_secs(9) + Duration::from_micros(micros);
        assert!(!turn.has_calculated(|| unreachable!("the turn began without a look at it")));
        assert!(turn.suspected, "the next turn begins with a look at the CPU time");
        turn.cpu = Some(of(0));
        assert!(!turn.has_calculated(|| of(499)), "the thread had no CPU");
        turn.cpu = Some(of(500));
        assert!(turn.has_calculated(|| of(1000)));
        // A third of a CPU is enough after some turns, a fifth is not.
        for (share, is_long) in [(333, true), (200, false)] {
            let mut turn = Turn::default();
            let long = (0..20).any(|_| {
                turn.cpu = Some(of(0));
                turn.has_calculated(|| of(share))
            });
            assert_eq!(long, is_long, "{share}");
        }
    }

    #[test]
    fn slow_rows_are_looked_at_more_often() {
        assert!(longest(Duration::from_micros(1), 100_000) <= 2 * TURN);
        assert!(longest(Duration::from_micros(100), 10_000) <= 2 * TURN);
        // A single row may take a whole turn here; other code limits the time of a row.
        assert!(longest(TURN, 1000) <= FIRST_LOOK * 3 * TURN);
        // The rows are quick at first, then slow, then quick again.
        let mut turn = Turn::default();
        let mut now = Duration::ZERO;
        let mut looks = |turn: &mut Turn, row: Duration| {
            let mut rows = 0;
            loop {
                (rows, now) = (rows + 1, now + row);
                turn.rows -= 1;
                if turn.rows == 0 && turn.look(now, false) {
                    return rows;
                }
            }
        };
        assert!(
            (0..10).map(|_| looks(&mut turn, Duration::from_micros(10))).all(|rows| rows >= 64)
        );
        assert_eq!((0..10).map(|_| looks(&mut turn, TURN)).last(), Some(2));
        assert!((0..100).map(|_| looks(&mut turn, Duration::from_micros(10))).last() >= Some(100));
    }
}

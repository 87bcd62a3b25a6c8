//! The classic commit: group commit in three stages, as MySQL's binary log does it since 5.6.
//! (Mats Kindahl, "Binary Log Group Commit in MySQL 5.6", 2012; MySQL, `MYSQL_BIN_LOG::commit`.)
//!
//! With `redolith_binlog_commit = classic` a commit does not show before its events are in the
//! file, and the file is synced as `sync_binlog` says:
//!
//! 1. *prepare*: the commit's frame, with its events, becomes durable in the redo log
//!    ([`redolith_engine::Trx::place_commit`]). The transaction keeps its locks, and is hidden.
//! 2. *flush*: the leader of the stage writes the events of all who have come to the file, until
//!    nobody comes any more, or for `binlog_max_flush_queue_time`.
//! 3. *sync*: one sync of the file serves all groups that have come while the sync before it ran,
//!    and in `binlog_group_commit_sync_delay` behind it. Replicas get the events then.
//! 4. *commit*: with `binlog_order_commits` the leader shows the commits in the order of the binary
//!    log. Without it each session shows its own.
//!
//! In each stage the first to come leads, the others wait ([`stage`]). A leader that finds a leader
//! at the next stage follows that one, and its group joins the other's.
//!
//! The redo log decides what a crash keeps, as with the unified commit: the frame has the commit
//! and its events, so that a start finds both or neither, and makes the end of the file again. In
//! MySQL a start looks for the transaction's XID in the last file. What is in the file is committed
//! and what is not in it is rolled back in both.
//!
//! - STAGES-1: no session learns that its transaction is committed, and no other sees its changes,
//!   before the file has the events, and is synced if `sync_binlog` is 1. If the disk refuses the
//!   file, the redo log alone keeps the events, and the file gets them later (FOLLOW-3).
//! - STAGES-2: with `binlog_order_commits` commits show in the order of their events in the file.
//! - STAGES-3: with `sync_binlog` = 1 readers of the log get no event that is not synced.
mod counters;
mod stage;

pub use counters::StageCounted;

use super::work::Reached;
use super::{Binlog, BinlogStatus};
use crate::files::Unsynced;
use parking_lot::Mutex;
use redolith_disk::{Io, Op};
use redolith_engine::canary::{Canary, planted};
use redolith_engine::lock::KillFlag;
use redolith_engine::{Engine, Lsn, TrxId};
use stage::{Group, Role, Seat, Stage, Working};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

/// The pause while the task of the binary log works on the files.
const PAUSE: Duration = Duration::from_millis(1);
/// The leader of a group up to this size syncs on its worker, which has little else to do, because
/// a handover to another thread costs more. For a larger group the sync is submitted, and the
/// worker serves others meanwhile. (Measured in docs/decisions/023.)
const SYNC_ON_WORKER: usize = 16;
/// With more bytes of records than this, other tasks do not wait for the worker of the leader.
const LONG_BYTES: u64 = 1 << 20;

/// What users set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageSettings {
    /// Whether commits go through the stages (`redolith_binlog_commit`).
    pub classic: bool,
    /// `sync_binlog`: the file is synced once for this many groups; 0: the system decides.
    pub sync_every: u64,
    /// `binlog_order_commits`
    pub order: bool,
    /// `binlog_max_flush_queue_time`; zero: no limit.
    pub flush_time: Duration,
    /// `binlog_group_commit_sync_delay`
    pub sync_delay: Duration,
    /// `binlog_group_commit_sync_no_delay_count`; 0: no limit.
    pub no_delay_count: u64,
}
impl Default for StageSettings {
    fn default() -> StageSettings {
        StageSettings {
            classic: false,
            sync_every: 1,
            order: true,
            flush_time: Duration::ZERO,
            sync_delay: Duration::ZERO,
            no_delay_count: 0,
        }
    }
}

/// The three stages.
#[derive(Default)]
pub(super) struct Stages {
    /// Whether the settings say `classic`: looked at by every commit.
    on: AtomicBool,
    settings: Mutex<StageSettings>,
    flush: Stage,
    sync: Stage,
    commit: Stage,
    /// The commits that are hidden, by the ends of their frames.
    hidden: Mutex<BTreeMap<Lsn, TrxId>>,
    /// Held by whoever shows commits, so that they show in their order.
    showing: Mutex<()>,
    /// How far the flush stage has come, and what the files have there.
    flushed: Mutex<(Lsn, Option<Reached>)>,
    /// How far the sync stage has come.
    synced: AtomicU64,
    /// How far the stages have come: what ends here or before is done.
    done: AtomicU64,
    /// Groups since the last sync, and the file that has bytes which no stage has synced. Only who
    /// works in the sync stage changes them.
    unsynced: Mutex<(u64, Option<Unsynced>)>,
    /// Whether the flush stage has worked on the files since the task looked.
    flushed_lately: AtomicBool,
}

impl Stages {
    fn settings(&self) -> StageSettings {
        *self.settings.lock()
    }
    /// A hidden commit has its place.
    pub(super) fn placed(&self, end: Lsn, trx: TrxId) {
        self.hidden.lock().insert(end, trx);
    }
    /// Whether readers may get only what is synced (STAGES-3).
    pub(super) fn syncs_first(&self) -> bool {
        self.on.load(Acquire) && self.settings().sync_every == 1
    }
    /// Whether leaders take the records to the files, and did so since the last call.
    pub(super) fn flushes(&self) -> bool {
        self.flushed_lately.swap(false, Relaxed)
    }
    /// Waits until the leader is alone at the stage.
    async fn work<'s>(&self, stage: &'s Stage, engine: &Engine) -> Working<'s> {
        let began = engine.disk.now();
        let working = stage.work().await;
        let waited = engine.disk.now().saturating_sub(began);
        if waited >= Duration::from_micros(1) {
            stage.counts.wait(waited);
        }
        working
    }
    /// Lets others come before the sync.
    async fn delay(&self, engine: &Engine, settings: &StageSettings) {
        if settings.sync_delay.is_zero() {
            return;
        }
        let until = engine.disk.now() + settings.sync_delay;
        let step = (settings.sync_delay / 10).clamp(Duration::from_micros(10), PAUSE);
        loop {
            let left = until.saturating_sub(engine.disk.now());
            let enough = settings.no_delay_count;
            if left.is_zero() || enough > 0 && self.sync.len() as u64 >= enough {
                return;
            }
            engine.runtime.pause(left.min(step)).await;
        }
    }
    /// Shows the commits that end at `upto` or before, in their order (STAGES-2).
    fn show(&self, engine: &Engine, upto: Lsn) {
        let _showing = self.showing.lock();
        loop {
            let id = {
                let mut hidden = self.hidden.lock();
                match hidden.first_entry() {
                    Some(first) if *first.key() <= upto => first.remove(),
                    _ => return,
                }
            };
            engine.show_commit(id);
        }
    }
    /// Their sessions show the commits that end at `upto` or before.
    fn leave_to_sessions(&self, upto: Lsn) {
        let mut hidden = self.hidden.lock();
        while hidden.first_entry().is_some_and(|first| *first.key() <= upto) {
            hidden.pop_first();
        }
    }
    fn done(&self, upto: Lsn) {
        self.done.fetch_max(upto.0, AcqRel);
    }
}

impl Binlog {
    /// Changes how commits go through the stages, from the next commit on.
    pub fn set_stages(&self, change: impl FnOnce(&mut StageSettings)) {
        let mut settings = self.stages.settings.lock();
        change(&mut settings);
        self.stages.on.store(settings.classic, Release);
    }
    /// Whether commits go through the stages: they are placed hidden
    /// ([`redolith_engine::Trx::place_commit`]), and [`Binlog::pass_stages`] follows.
    #[inline]
    pub fn is_classic(&self) -> bool {
        self.stages.on.load(Relaxed)
    }
    /// The state of the published files, whose commits all show: a session that knows their names
    /// has to see them. But those that replicas have to acknowledge first stay hidden (SEMI-5).
    pub fn status_shown(&self, engine: &Engine) -> BinlogStatus {
        let status = self.status();
        if !self.semi_sync.hides() {
            self.stages.show(engine, status.lsn);
        }
        status
    }
    /// The figures of the stages flush, sync and commit.
    pub fn stages_counted(&self) -> [StageCounted; 3] {
        let stages = &self.stages;
        [&stages.flush, &stages.sync, &stages.commit].map(|stage| stage.counts.read())
    }

    /// Takes a commit whose frame ends at `end` through the stages, and returns when it may be
    /// shown (STAGES-1, SEMI-5). A session that leads does so for others too, so the future must
    /// not be dropped while the engine works. `kill` ends a leader's wait for replicas.
    pub async fn pass_stages(&self, engine: &Engine, end: Lsn, kill: &KillFlag) {
        let stages = &self.stages;
        engine.store.log.wait_durable(end).await;
        if stages.done.load(Acquire) >= end.0 {
            // A leader has met the record in the queue, and has taken it along.
            return;
        }
        let mine: Arc<Seat> = Arc::default();
        if stages.flush.enter(vec![mine.clone()]) == Role::Follows {
            return mine.released().await;
        }
        if let Some(group) = self.lead(engine, kill).await {
            group.iter().for_each(|seat| seat.release());
        }
        mine.released().await;
    }
    /// Leads the flush stage, and goes on as long as it leads. Returns the group that has passed
    /// the last stage; None if another leads it.
    async fn lead(&self, engine: &Engine, kill: &KillFlag) -> Option<Group> {
        let stages = &self.stages;
        let working = stages.work(&stages.flush, engine).await;
        let group = self.flush_group(engine, &working, stages.settings().flush_time).await;
        stages.flush.counts.group(group.len());
        // The group is in the next queue before the next leader works here: groups do not overtake.
        let role = stages.sync.enter(group);
        drop(working);
        if role == Role::Follows {
            return None;
        }

        let working = stages.work(&stages.sync, engine).await;
        let settings = stages.settings();
        stages.delay(engine, &settings).await;
        let mut group = Group::new();
        working.close(&mut group);
        stages.sync.counts.group(group.len());
        let upto = self.sync_group(engine, group.len(), settings.sync_every).await;
        if !settings.order || planted(Canary::StageKeepsNoOrder) {
            drop(working);
            self.wait_hidden(engine, upto, kill).await;
            stages.leave_to_sessions(upto);
            stages.done(upto);
            return Some(group);
        }
        let role = stages.commit.enter(group);
        drop(working);
        if role == Role::Follows {
            return None;
        }

        let working = stages.work(&stages.commit, engine).await;
        let mut group = Group::new();
        working.close(&mut group);
        stages.commit.counts.group(group.len());
        let upto = Lsn(stages.synced.load(Acquire));
        self.wait_hidden(engine, upto, kill).await;
        stages.show(engine, upto);
        stages.done(upto);
        Some(group)
    }

    async fn wait_hidden(&self, engine: &Engine, upto: Lsn, kill: &KillFlag) {
        self.semi_sync.wait_hidden(upto, &*engine.runtime, &*engine.disk, kill).await;
    }

    /// The flush stage.
    async fn flush_group(&self, engine: &Engine, working: &Working<'_>, most: Duration) -> Group {
        let began = engine.disk.now();
        let mut group = Group::new();
        while working.take_more(&mut group) {
            self.flush_durable(engine).await;
            if !most.is_zero() && engine.disk.now().saturating_sub(began) >= most {
                let flushed = group.len();
                working.close(&mut group);
                if group.len() > flushed {
                    self.flush_durable(engine).await;
                }
                break;
            }
        }
        group
    }
    /// Writes the events of all durable commits to the files.
    async fn flush_durable(&self, engine: &Engine) {
        let durable = engine.store.log.durable();
        let long = self.long.load(Acquire) > 0 || self.bytes.load(Relaxed) > LONG_BYTES;
        let written = loop {
            let mut written = None;
            let mut write = || {
                written =
                    self.work.try_lock().map(|mut work| self.write_durable(&mut work, durable));
            };
            if long {
                engine.runtime.work_long(&mut write)
            } else {
                write()
            }
            match written {
                Some(written) => break written,
                // The task works on the files, or a statement that shows them.
                None => engine.runtime.sleep(PAUSE).await,
            }
        };
        let mut flushed = self.stages.flushed.lock();
        flushed.0 = flushed.0.max(durable);
        match written {
            Ok(reached) => {
                let syncs_first = self.stages.syncs_first();
                if !syncs_first {
                    self.publish(&reached);
                }
                flushed.1 = Some(reached);
                drop(flushed);
                self.stages.flushed_lately.store(true, Relaxed);
                if !syncs_first {
                    self.moved.wake();
                }
            }
            Err(_) => {
                // The task meets the error, too, and tells of it.
                drop(flushed);
                self.wanted.wake();
            }
        }
    }

    /// The sync stage. Returns how far all who have come are done with it.
    async fn sync_group(&self, engine: &Engine, sessions: usize, every: u64) -> Lsn {
        let stages = &self.stages;
        let (upto, mut reached) = {
            let mut flushed = stages.flushed.lock();
            (flushed.0, flushed.1.take())
        };
        let (groups, before) = std::mem::take(&mut *stages.unsynced.lock());
        // A group may find its bytes in what the leader before has taken along, and not synced.
        let unsynced = reached.as_mut().and_then(|reached| reached.file.take()).or(before);
        let due = every > 0 && groups + 1 >= every;
        match unsynced {
            unsynced if !due => *stages.unsynced.lock() = (groups + 1, unsynced),
            Some(unsynced) if !planted(Canary::StageSyncsNothing) => {
                if sessions <= SYNC_ON_WORKER {
                    engine.runtime.before_blocking();
                    unsynced.sync();
                } else if !unsynced.is_synced() {
                    submit_sync(unsynced).await;
                }
            }
            _ => {}
        }
        if let Some(reached) = reached
            && self.publish(&reached)
        {
            self.moved.wake();
        }
        stages.synced.fetch_max(upto.0, AcqRel);
        upto
    }
}

/// Syncs a file without holding the worker.
pub(super) async fn submit_sync(unsynced: Unsynced) {
    let over: Arc<Seat> = Arc::default();
    let (told, judged) = (over.clone(), unsynced.clone());
    let done = Box::new(move |result, _| {
        // The result is judged here and not behind the wait, which may be dropped.
        judged.synced(result);
        told.release();
    });
    unsynced.file().submit(Io { op: Op::Sync, offset: 0, done });
    over.released().await;
}

//! Semi-synchronous replication: commits wait until replicas have their events. (MySQL's plugin
//! `semisync_source`)
//!
//! A session knows where its commit ends in the redo log, and a replica acknowledges a position in
//! a file. The task that makes the files knows both: it leaves a mark, an LSN and a position,
//! whenever the end of the log has moved.
//!
//! - SEMI-1: while semi-synchronous replication is on, [`SemiSync::wait`] says that a commit is
//!   acknowledged only if enough replicas have acknowledged a position at or behind its events.
//! - SEMI-2: the wait ends after the timeout. Then replication is asynchronous until enough
//!   replicas are near the end of the log again, so that the next commits do not wait for those
//!   that have much to fetch.
//! - SEMI-3: the memory is bounded: a mark for each of the last moves, a waker for each session
//!   that waits, a position for each dump.
//! - SEMI-4: an acknowledgement counts for the log that its dump reads: behind RESET BINARY LOGS
//!   AND GTIDS other events have the same positions.
//!
//! - SEMI-5: with the classic commit, `AFTER_SYNC` hides commits until enough replicas have
//!   acknowledged them: what another session has seen is not lost with the source. The leader of a
//!   group waits for all of it. Its session's kill ends this wait, and the group shows.
//!
//! Nobody polls: an acknowledgement wakes the sessions whose commits it covers. While the setting
//! is off, a commit pays one load and one branch.
mod status;
#[cfg(test)]
mod tests;

use crate::wakers::Wakers;
use parking_lot::{Mutex, MutexGuard};
use redolith_binlog::BinlogPosition;
use redolith_binlog::file::file_name;
use redolith_disk::Disk;
use redolith_engine::Lsn;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::Runtime;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Poll, Waker};
use std::time::Duration;

use status::Counts;
pub use status::SemiSyncStatus;

/// When there are more marks, every other one goes. Then commits wait for the mark behind theirs.
const MOST_MARKS: usize = 4096;
/// A replica that has acknowledged all but this many bytes has caught up.
const NEAR: u64 = 1 << 20;

/// How commits wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemiSyncSettings {
    /// The longest wait (`rpl_semi_sync_source_timeout`).
    pub timeout: Duration,
    /// How many replicas have to acknowledge a commit
    /// (`rpl_semi_sync_source_wait_for_replica_count`).
    pub replicas: usize,
    /// Whether commits wait although fewer replicas are connected
    /// (`rpl_semi_sync_source_wait_no_replica`).
    pub waits_without: bool,
    /// Whether commits that can be hidden wait hidden (`rpl_semi_sync_source_wait_point`).
    pub after_sync: bool,
}

impl Default for SemiSyncSettings {
    /// MySQL's defaults.
    fn default() -> SemiSyncSettings {
        SemiSyncSettings {
            timeout: Duration::from_secs(10),
            replicas: 1,
            waits_without: true,
            after_sync: true,
        }
    }
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Enough replicas have the events.
    Acknowledged,
    /// Replication is asynchronous, or has become so.
    Asynchronous,
    /// The session was killed.
    Killed,
}

/// What the binary log, the dumps and the sessions share.
pub struct SemiSync {
    enabled: AtomicBool,
    state: Mutex<State>,
    counts: Counts,
    /// The binary log's task, which is told that a commit waits for the files.
    wanted: Arc<Wakers>,
    /// The first part of the files' names.
    base: String,
}

#[derive(Default)]
struct State {
    settings: SemiSyncSettings,
    /// Whether commits wait. Off: replication is asynchronous.
    on: bool,
    /// The moves of the log's end that are not acknowledged: everything whose redo ends at the LSN
    /// or before is in the files before the position.
    marks: VecDeque<(Lsn, BinlogPosition)>,
    /// The last mark.
    end: Option<(Lsn, BinlogPosition)>,
    /// Enough replicas have acknowledged everything up to here.
    acked: Lsn,
    acked_at: Option<BinlogPosition>,
    /// How often the log has begun anew (SEMI-4), and the end of what is in no file since then.
    resets: u64,
    lost: Lsn,
    /// By the connection that dumps.
    replicas: BTreeMap<u64, Acked>,
    /// By the LSN that is waited for, and the number of the wait.
    waiting: BTreeMap<(Lsn, u64), Waker>,
    next_wait: u64,
}

/// What a replica has acknowledged.
#[derive(Clone, Copy, Default)]
struct Acked {
    position: Option<BinlogPosition>,
    /// Whether it was near the end of the log then.
    is_near: bool,
}

impl State {
    fn mark(&mut self, lsn: Lsn, position: BinlogPosition) {
        if self.end.is_some_and(|(before, _)| before >= lsn) {
            return;
        }
        if self.end.is_some_and(|(_, before)| before > position) {
            // The setting was switched on while the log began anew.
            self.forget_positions();
        }
        self.end = Some((lsn, position));
        if self.acked_at >= Some(position) {
            self.acked = lsn;
            return;
        }
        if let Some(last) = self.marks.back_mut().filter(|(_, at)| *at == position) {
            last.0 = lsn;
            return;
        }
        if self.marks.len() >= MOST_MARKS {
            let mut n = 0;
            self.marks.retain(|_| {
                n += 1;
                n % 2 == 0
            });
        }
        self.marks.push_back((lsn, position));
    }
    fn forget_positions(&mut self) {
        (self.end, self.acked_at) = (None, None);
        self.marks.clear();
    }
    /// Whether a replica that has everything before `position` has caught up.
    fn is_near(&self, position: BinlogPosition) -> bool {
        self.end.is_none_or(|(_, end)| {
            position >= end || position.file == end.file && end.offset - position.offset <= NEAR
        })
    }
    /// Counts what has been acknowledged by enough replicas. Returns who is to be woken.
    fn count_acks(&mut self) -> Vec<Waker> {
        let mut all: Vec<_> = self.replicas.values().filter_map(|r| r.position).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let enough = all.get(self.settings.replicas.max(1) - 1).copied();
        if enough <= self.acked_at {
            return Vec::new();
        }
        self.acked_at = enough;
        while let Some((lsn, _)) = self.marks.front().filter(|(_, at)| Some(*at) <= enough) {
            self.acked = *lsn;
            self.marks.pop_front();
        }
        self.waiters_up_to(self.acked)
    }
    fn waiters_up_to(&mut self, lsn: Lsn) -> Vec<Waker> {
        let rest = self.waiting.split_off(&(Lsn(lsn.0.saturating_add(1)), 0));
        std::mem::replace(&mut self.waiting, rest).into_values().collect()
    }
    fn has_replicas(&self) -> bool {
        self.replicas.len() >= self.settings.replicas
    }
    /// Whether enough replicas have caught up.
    fn may_switch_on(&self) -> bool {
        let near = self.replicas.values().filter(|replica| replica.is_near).count();
        !self.on && near >= self.settings.replicas.max(1)
    }
}

impl SemiSync {
    pub(crate) fn new(base: &str, wanted: Arc<Wakers>) -> Arc<SemiSync> {
        Arc::new(SemiSync {
            enabled: AtomicBool::new(false),
            state: Mutex::default(),
            counts: Counts::default(),
            wanted,
            base: base.to_string(),
        })
    }

    /// Whether commits have to ask [`SemiSync::wait`].
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Switches the setting on or off. `end` is the published end of the log, to be asked when the
    /// setting is on: a move of the end that does not see the setting comes before.
    pub(crate) fn enable(&self, on: bool, end: impl FnOnce() -> (Lsn, Option<BinlogPosition>)) {
        if self.enabled.swap(on, SeqCst) == on {
            return;
        }
        let (lsn, position) = end();
        let mut state = self.state.lock();
        if on {
            state.on = state.settings.waits_without || state.has_replicas();
            if let Some(position) = position {
                state.mark(lsn, position);
            }
            tracing::info!("semi-synchronous replication is enabled");
        } else {
            state.on = false;
            state.forget_positions();
            state.replicas.values_mut().for_each(|replica| *replica = Acked::default());
            let woken = state.waiters_up_to(Lsn::MAX);
            drop(state);
            woken.into_iter().for_each(Waker::wake);
            tracing::info!("semi-synchronous replication is disabled");
        }
    }
    /// Changes how commits wait, from the next wait on.
    pub fn set(&self, change: impl FnOnce(&mut SemiSyncSettings)) {
        let mut state = self.state.lock();
        change(&mut state.settings);
        let woken = state.count_acks();
        self.look_for_replicas(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The end of the log has moved: everything whose redo ends at `lsn` or before is in the files
    /// before `position`.
    #[inline]
    pub(crate) fn published(&self, lsn: Lsn, position: BinlogPosition) {
        if self.enabled.load(SeqCst) {
            self.state.lock().mark(lsn, position);
        }
    }

    /// The log begins anew, for the time `resets`. What ends at `lsn` or before is in no file any
    /// more: no replica can acknowledge it.
    pub(crate) fn begin_anew(&self, resets: u64, lsn: Lsn) {
        let mut state = self.state.lock();
        (state.resets, state.lost) = (resets, lsn);
        state.forget_positions();
        // Their dumps end.
        state.replicas.clear();
        let woken = state.waiters_up_to(lsn);
        self.look_for_replicas(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A replica that acknowledges begins to read, on connection `number`. `from`: it has all that
    /// is before this position. `resets`: how often the log had begun anew before the log that it
    /// reads. The connections `before` were the same replica's: it counts once.
    pub fn join(
        self: &Arc<SemiSync>,
        number: u64,
        before: &[u64],
        from: Option<BinlogPosition>,
        resets: u64,
    ) -> AckingReplica {
        {
            let mut state = self.state.lock();
            before.iter().for_each(|old| _ = state.replicas.remove(old));
            if state.resets == resets {
                state.replicas.insert(number, Acked::default());
            }
        }
        let replica = AckingReplica { semi_sync: self.clone(), number };
        from.into_iter().for_each(|from| replica.acknowledged(from));
        replica
    }

    fn acknowledged(&self, number: u64, position: BinlogPosition) {
        let mut state = self.state.lock();
        if !self.is_enabled() {
            return;
        }
        let is_near = state.is_near(position);
        let Some(replica) = state.replicas.get_mut(&number) else { return };
        if replica.position > Some(position) {
            return;
        }
        *replica = Acked { position: Some(position), is_near };
        let woken = state.count_acks();
        if state.may_switch_on() {
            state.on = true;
            tracing::info!(
                "semi-synchronous replication is on: {} acknowledged everything up to {}",
                replicas(state.settings.replicas, "has", "have"),
                self.shown(position)
            );
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
    fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        state.replicas.remove(&number);
        self.look_for_replicas(state);
    }
    fn look_for_replicas(&self, state: MutexGuard<'_, State>) {
        if !state.settings.waits_without && !state.has_replicas() {
            self.switch_off(state, "too few replicas are connected");
        }
    }

    /// Replication becomes asynchronous, until enough replicas have caught up (SEMI-2).
    fn switch_off(&self, mut state: MutexGuard<'_, State>, why: &str) {
        if !std::mem::replace(&mut state.on, false) {
            return;
        }
        Counts::add(&self.counts.times_off, 1);
        // An acknowledgement of before tells nothing of a replica that is stuck now.
        state.replicas.values_mut().for_each(|replica| replica.is_near = false);
        let woken = state.waiters_up_to(Lsn::MAX);
        let (wanted, have) = (state.settings.replicas, state.replicas.len());
        let acked = state.acked_at.map_or("nothing".into(), |at| self.shown(at));
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        tracing::warn!(
            "semi-synchronous replication is off: {why}. {} to acknowledge each commit, {have} \
             connected, acknowledged up to {acked}. Commits do not wait until the replicas have \
             caught up",
            replicas(wanted, "has", "have"),
        );
    }
    fn shown(&self, at: BinlogPosition) -> String {
        format!("{}, position {}", file_name(&self.base, at.file), at.offset)
    }

    /// Waits until enough replicas have acknowledged the commit that ends at `lsn` and is durable.
    /// A kill, and the timeout, end the wait.
    pub async fn wait(
        &self,
        lsn: Lsn,
        runtime: &dyn Runtime,
        disk: &dyn Disk,
        kill: &KillFlag,
    ) -> Waited {
        let waited = self.wait_for_replicas(lsn, runtime, disk, kill).await;
        self.counts.ended(waited);
        waited
    }
    /// Waits, for a leader, until all commits that end at `lsn` or before may show (SEMI-5). It is
    /// one wait, however many commits there are, as in MySQL. Their sessions ask [`SemiSync::wait`]
    /// afterwards, which counts how each commit has ended.
    pub(crate) async fn wait_hidden(
        &self,
        lsn: Lsn,
        runtime: &dyn Runtime,
        disk: &dyn Disk,
        kill: &KillFlag,
    ) {
        if self.is_enabled() && self.state.lock().settings.after_sync {
            self.wait_for_replicas(lsn, runtime, disk, kill).await;
        }
    }
    /// Whether commits may be hidden until they are acknowledged.
    pub(crate) fn hides(&self) -> bool {
        self.is_enabled() && {
            let state = self.state.lock();
            state.on && state.settings.after_sync
        }
    }
    async fn wait_for_replicas(
        &self,
        lsn: Lsn,
        runtime: &dyn Runtime,
        disk: &dyn Disk,
        kill: &KillFlag,
    ) -> Waited {
        let (number, timeout) = {
            let mut state = self.state.lock();
            if !state.on || state.acked >= lsn {
                return if state.on { Waited::Acknowledged } else { Waited::Asynchronous };
            }
            if state.waiting.last_key_value().is_some_and(|(last, _)| last.0 > lsn) {
                Counts::add(&self.counts.backwards, 1);
            }
            state.next_wait += 1;
            (state.next_wait, state.settings.timeout)
        };
        // The files may be behind the durable redo log by one look of the task.
        self.wanted.wake();
        Counts::add(&self.counts.waits, 1);
        let begun = disk.now();
        let place = Place { semi_sync: self, key: (lsn, number) };
        let mut timer = runtime.sleep(timeout);
        let waited = poll_fn(|cx| {
            let (killed, late) = (kill.poll(cx.waker()), timer.as_mut().poll(cx).is_ready());
            let mut state = self.state.lock();
            if state.acked >= lsn {
                return Poll::Ready(Waited::Acknowledged);
            }
            if !state.on || state.lost >= lsn {
                return Poll::Ready(Waited::Asynchronous);
            }
            if killed {
                return Poll::Ready(Waited::Killed);
            }
            if late {
                self.switch_off(state, "no acknowledgement came in time");
                return Poll::Ready(Waited::Asynchronous);
            }
            state.waiting.insert(place.key, cx.waker().clone());
            Poll::Pending
        })
        .await;
        drop(place);
        self.counts.has_waited(disk.now().saturating_sub(begun));
        waited
    }
}

/// The place of a wait among those that wait; given back when the wait ends or is dropped.
struct Place<'a> {
    semi_sync: &'a SemiSync,
    key: (Lsn, u64),
}
impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.semi_sync.state.lock().waiting.remove(&self.key);
    }
}

/// A replica that acknowledges what it has received, from its dump's beginning to its end.
pub struct AckingReplica {
    semi_sync: Arc<SemiSync>,
    number: u64,
}
impl AckingReplica {
    /// The replica has everything before this position. The caller has checked that the dump has
    /// sent it.
    pub fn acknowledged(&self, position: BinlogPosition) {
        self.semi_sync.acknowledged(self.number, position);
    }
    /// Whether the replica is to acknowledge the last event of the log.
    pub fn is_asked(&self) -> bool {
        self.semi_sync.is_enabled()
    }
    /// The replica was asked for an acknowledgement.
    pub fn asked(&self) {
        Counts::add(&self.semi_sync.counts.asked, 1);
    }
}
impl Drop for AckingReplica {
    fn drop(&mut self) {
        self.semi_sync.leave(self.number);
    }
}

fn replicas(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 replica {one}") } else { format!("{count} replicas {many}") }
}

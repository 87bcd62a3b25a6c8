//! Purge: what no read view can need any more is removed: delete-marked records and entries, replaced long columns, and the undo logs themselves.
//!
//! Purge works from a view of its own. It opens one, waits until every older view has closed, and may then remove whatever transactions that it sees
//! have made obsolete. That view is the engine's `horizon`: walks over older versions end at a version by a transaction that it sees.
//!
//! It can be stopped and told to go on ([`History::stop`], [`History::resume`]). Stopped, it begins no further log; nothing else waits for it, the history
//! just grows. It is stopped for this run only: a start finds the history in the undo pages and goes on.
//!
//! - PURGE-1: a log is purged only when every open view sees its transaction.
//! - PURGE-2: an entry is removed, under its leaf's latch, only if it is marked and no version up to the horizon has it.
//! - PURGE-3: a record is removed only if the undo record being purged made its newest version, a deleted one.
//! - PURGE-4: long columns are freed after the log is marked as ended: after a crash they may leak, never be freed twice.
//! - PURGE-5: a log that cannot be purged for now (the disk or the log is full) is the history's first again, and is tried again; after an error of the disk so often and
//!   no more. Of one that was marked as ended only the long columns are left (PURGE-4). Only what is damaged for good is passed over.
//! - PURGE-6: purge begins a change only when sessions could: the log's reserve is for rollbacks. It does not wait for that while a definition's change waits
//!   for purge ([`Engine::hold_purge`]).
//! - PURGE-7: purge is one task among others. Within a log, too, it lets others run, and goes away if a definition's change or the end wants it to; where it has been
//!   is kept.
//!
//! Undo names an index by its number in the table. After a DROP INDEX the numbers are others': what older transactions made obsolete is looked for in every
//! index, which is safe (PURGE-2).
mod complaints;

use crate::btree::{Seek, structure};
use crate::buf::Latch;
use crate::canary::{Canary, planted};
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::host::let_others_run;
use crate::mtr::Mtr;
use crate::page::{Patch, index};
use crate::row::version::{self, Version};
use crate::row::{entry, overflow, value};
use crate::undo::record::{self, Entry, Obsolete, RollPtr};
use crate::{Error, PageNo, Result, SpaceId, TrxId, Try, undo};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

/// A committed transaction's log.
struct Item {
    no: TrxId,
    first: (PageNo, u16),
    pages: SmallVec<[PageNo; 2]>,
    left: Left,
    /// How often the disk has failed it.
    errors: u32,
}
/// What is to be done of it.
enum Left {
    Changes(Place),
    /// To free what these pages begin.
    Chains(Vec<(SpaceId, PageNo)>),
}
/// How far the changes of a log are purged.
#[derive(Default)]
struct Place {
    owner: TrxId,
    /// The next part, and the next entry's offset in its page; 0: its first.
    part: usize,
    at: usize,
    changes: u64,
    /// What is to be freed for those before.
    chains: Vec<(SpaceId, PageNo)>,
}
/// Committed transactions that are to be purged, in the order of their commits.
#[derive(Default)]
pub struct History {
    queue: Mutex<VecDeque<Item>>,
    /// With the one that is being purged.
    len: AtomicU64,
    /// The commit number of the one that is being purged; 0: none is. Written under the queue's mutex.
    at: AtomicU64,
    pub purged: AtomicU64,
    pub counts: Counts,
    stopped: AtomicBool,
    /// How many hold purge off for a while; and whether a log is being purged now.
    held: AtomicUsize,
    purging: AtomicBool,
    complaints: Mutex<complaints::Complaints>,
}
/// What purge counts (purge_* of INNODB_METRICS).
#[derive(Default)]
pub struct Counts {
    pub rounds: AtomicU64,
    pub pages: AtomicU64,
    /// Delete-marked records removed.
    pub removed: AtomicU64,
    /// Undo records of changes to rows that were there.
    pub changes: AtomicU64,
    /// Logs that could not be purged for now.
    pub retries: AtomicU64,
    pub stops: AtomicU64,
    pub resumes: AtomicU64,
}
/// What purge is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Running,
    Idle,
    /// The log in work is the last one.
    Stopping,
    Stopped,
}
impl State {
    /// As SHOW ENGINE INNODB STATUS says it.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Idle => "running but idle",
            State::Stopping => "stopping",
            State::Stopped => "stopped",
        }
    }
}
impl History {
    /// No log is begun from now on. One that is being purged is finished.
    pub fn stop(&self) {
        if !self.stopped.swap(true, SeqCst) {
            self.counts.stops.fetch_add(1, Relaxed);
        }
    }
    pub fn resume(&self) {
        if self.stopped.swap(false, SeqCst) {
            self.counts.resumes.fetch_add(1, Relaxed);
        }
    }
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }
    pub fn state(&self) -> State {
        match (self.is_stopped(), self.is_purging()) {
            (true, true) => State::Stopping,
            (true, false) => State::Stopped,
            (false, false) if self.is_empty() => State::Idle,
            (false, _) => State::Running,
        }
    }
    /// Everything that committed with a number below is purged; `next` if nothing waits.
    pub fn done_below(&self, next: TrxId) -> TrxId {
        let q = self.queue.lock();
        match self.at.load(Relaxed) {
            0 => q.front().map_or(next, |i| i.no),
            at => TrxId(at),
        }
    }
    pub(crate) fn push(&self, no: TrxId, first: (PageNo, u16), pages: SmallVec<[PageNo; 2]>) {
        let mut q = self.queue.lock();
        // Before purge can see it and count it down.
        self.len.fetch_add(1, Relaxed);
        q.push_back(Item { no, first, pages, left: Left::Changes(Place::default()), errors: 0 });
    }
    /// Innodb_history_list_length.
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(SeqCst) > 0
    }
    pub(crate) fn is_purging(&self) -> bool {
        self.purging.load(SeqCst)
    }
    /// Announces that purge works, unless it is stopped or held off.
    fn start(&self) -> bool {
        self.purging.store(true, SeqCst);
        if self.is_held() || self.is_stopped() {
            self.purging.store(false, SeqCst);
            return false;
        }
        true
    }
    fn pop_below(&self, limit: TrxId) -> Option<Item> {
        let mut q = self.queue.lock();
        let item = if q.front()?.no < limit { q.pop_front() } else { None };
        if let Some(i) = &item {
            self.at.store(i.no.0, Relaxed);
        }
        item
    }
    /// The log that was popped is to be purged later (PURGE-5).
    fn put_back(&self, item: Item) {
        let mut q = self.queue.lock();
        self.at.store(0, Relaxed);
        q.push_front(item);
        self.purging.store(false, SeqCst);
    }
    /// The log that was popped is purged.
    fn done(&self) {
        let _q = self.queue.lock();
        self.at.store(0, Relaxed);
        self.len.fetch_sub(1, Relaxed);
        self.purged.fetch_add(1, Relaxed);
        self.purging.store(false, SeqCst);
    }
}

/// Logs, and changes within one, purged between two looks at the other tasks.
const ROUND: usize = 32;
const CHANGES_PER_TURN: u64 = 64;
const IDLE: Duration = Duration::from_millis(20);
/// The longest pause before a log is tried again (PURGE-5).
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// How often a log is tried again after errors of the disk.
const ERRORS: u32 = 8;

/// The background task.
pub(crate) async fn run(engine: Arc<Engine>) {
    let (counts, mut pause) = (&engine.history.counts, IDLE);
    while !engine.closing.load(Acquire) {
        let (failed, idle) = (counts.retries.load(Relaxed), engine.history.is_empty() || engine.history.is_stopped());
        if !idle && engine.purge_once().await {
            pause = IDLE;
            continue;
        }
        let again = counts.retries.load(Relaxed) > failed;
        pause = if again { (2 * pause).min(LAST_PAUSE) } else { IDLE };
        engine.nap(pause).await;
    }
}

impl Engine {
    /// Purges what is in the history now, once older views have closed. False if there was nothing to do, or it was stopped or held off.
    pub async fn purge_once(&self) -> bool {
        self.history.counts.rounds.fetch_add(1, Relaxed);
        let mut view = self.sys.new_view();
        self.sys.open_view(&mut view, TrxId::NONE);
        while self.sys.oldest_view_no() < view.low_no() && !planted(Canary::PurgeTooEarly) {
            if self.closing.load(Acquire) || self.history.is_stopped() {
                return false;
            }
            self.nap(Duration::from_millis(5)).await;
        }
        let limit = view.low_no();
        // It keeps what it sees; as an open view it would hold up the next one.
        view.close();
        *self.horizon.write() = view;
        let mut n = 0;
        while self.history.start() {
            let Some(mut item) = self.history.pop_below(limit) else { break };
            let purged = self.purge_log(&mut item).await;
            if let Ok(false) = purged {
                self.history.put_back(item);
                return n > 0;
            }
            if let Err(e) = purged {
                let passes = may_pass(&e, &mut item.errors);
                let what = if passes { "waits, and tries again and again" } else { "passed over an undo log" };
                let line = self.history.complaints.lock().line(self.disk.now(), format!("{what}: {e}"));
                if let Some(line) = line {
                    eprintln!("redolith: purge {line}");
                }
                if passes {
                    self.history.counts.retries.fetch_add(1, Relaxed);
                    self.history.put_back(item);
                    return n > 0;
                }
            }
            for page in &item.pages {
                self.undo.purged(*page);
            }
            self.history.counts.pages.fetch_add(item.pages.len() as u64, Relaxed);
            self.history.done();
            n += 1;
            if n % ROUND == 0 {
                if self.closing.load(Acquire) {
                    return false;
                }
                let_others_run(&*self.host).await;
            }
        }
        self.history.purging.store(false, SeqCst);
        n > 0
    }

    /// False: it is to be gone on with later (PURGE-7).
    async fn purge_log(&self, item: &mut Item) -> Result<bool> {
        if let Left::Changes(place) = &mut item.left {
            if !self.purge_changes(item.first, &item.pages, place).await? {
                return Ok(false);
            }
            if !place.chains.is_empty() {
                self.end_log(item.first).await?;
            }
            self.history.counts.changes.fetch_add(place.changes, Relaxed);
            item.left = Left::Chains(std::mem::take(&mut place.chains));
        }
        if let Left::Chains(chains) = &mut item.left {
            // What is freed is forgotten: its pages may be others' when the rest is tried again.
            while let Some((space, first)) = chains.last() {
                self.room_for_purge().await?;
                overflow::free_chain(self, *space, *first, overflow::Writer::Any).await?;
                chains.pop();
            }
        }
        Ok(true)
    }
    /// Removes what the log's changes made obsolete, but for the long columns: those are in `place`. What has been removed already is left alone.
    async fn purge_changes(&self, first: (PageNo, u16), pages: &[PageNo], place: &mut Place) -> Result<bool> {
        let mut copy = Vec::new();
        while let Some(no) = pages.get(place.part) {
            let part = match place.part {
                0 => Part::First(first.1),
                i => Part::More(pages[1..i].iter().filter(|p| *p == no).count()),
            };
            let start = self.settled(|| self.copy_log(*no, part, &mut place.owner, &mut copy)).await?.unwrap_or_else(|| {
                copy.clear();
                0
            });
            place.at = place.at.max(start);
            while place.at - start < copy.len() {
                // Entries keep their offsets: roll pointers are made of them.
                let Some((len, e)) = parse_shifted(&copy, place.at, start) else { break };
                if let Entry::Change { head, old, key, rest } = e
                    && let Some(table) = self.dict.by_id(head.table)
                {
                    let (obsolete, _) = rest.obsolete();
                    let roll = RollPtr::new(*no, place.at, false);
                    self.room_for_purge().await?; // PURGE-6
                    let numbered = place.owner >= table.numbered_since;
                    let done = self.purge_change(&table, key, &obsolete, numbered, old.flags & index::DELETE_MARK == 0, roll).await;
                    match done {
                        Err(e) if !table.dropped.load(Acquire) => return Err(e),
                        _ => {}
                    }
                    let chains = obsolete.iter().filter_map(|o| if let Obsolete::Chain(p) = o { Some((table.space, *p)) } else { None });
                    place.chains.extend(chains);
                    place.changes += 1;
                    place.at += len;
                    if place.changes.is_multiple_of(CHANGES_PER_TURN) {
                        let_others_run(&*self.host).await;
                        if self.history.is_held() || self.closing.load(Acquire) {
                            return Ok(false);
                        }
                    }
                } else {
                    place.at += len;
                }
            }
            (place.part, place.at) = (place.part + 1, 0);
        }
        Ok(true)
    }
    /// Holds purge off: it is in no log, and begins none until what is returned is dropped.
    pub(crate) async fn hold_purge(&self) -> Held<'_> {
        self.history.held.fetch_add(1, SeqCst);
        let held = Held(&self.history);
        while self.history.is_purging() {
            self.nap(Duration::from_millis(1)).await;
        }
        held
    }
    /// Copies a part of a transaction's log, which is in page `no`; where it begins. None if it is not there (the page has been used again).
    fn copy_log(&self, no: PageNo, part: Part, owner: &mut TrxId, out: &mut Vec<u8>) -> Try<Option<usize>> {
        let g = self.store.pool.fix(undo::page_id(no), Latch::S)?;
        let at = match part {
            Part::First(at) => {
                let at = usize::from(at);
                let Some(Entry::Log { trx, .. }) = record::parse(&g[..], at) else { return Ok(None) };
                *owner = trx;
                at
            }
            Part::More(before) => {
                let (mut at, mut left) = (record::FIRST, before);
                loop {
                    match record::parse(&g[..], at) {
                        Some(Entry::More { trx }) if trx == *owner && left == 0 => break at,
                        Some(e) => left -= matches!(e, Entry::More { trx } if trx == *owner) as usize,
                        None => return Ok(None),
                    }
                    at += record::entry_len(&g[..], at);
                }
            }
        };
        let start = at + record::entry_len(&g[..], at);
        let mut end = start;
        while !matches!(record::parse(&g[..], end), None | Some(Entry::Log { .. } | Entry::More { .. })) {
            end += record::entry_len(&g[..], end);
        }
        out.clear();
        out.extend_from_slice(&g[start..end]);
        Ok(Some(start))
    }
    async fn end_log(&self, (page, at): (PageNo, u16)) -> Result<()> {
        self.settled(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let p = m.x(undo::page_id(page))?;
            m.patch(p).write(at as usize + record::STATE_AT, &[record::ENDED]);
            m.commit();
            Ok(())
        })
        .await
    }
    async fn purge_change(
        &self,
        table: &Table,
        key: &[u8],
        obsolete: &[Obsolete<'_>],
        numbered: bool,
        was_live: bool,
        roll: RollPtr,
    ) -> Result<()> {
        for o in obsolete {
            let Obsolete::Entry { index, key: e } = o else { continue };
            if !e.ends_with(key) {
                continue;
            }
            for (no, ix) in table.secondary().filter(|(no, _)| !numbered || *no == *index as usize) {
                let mut walk = Version::default();
                self.settled(|| entry::remove(&self.store, ix, e, |marked| Ok(marked && !self.is_needed(table, no, e, key, &mut walk)?)))
                    .await?;
            }
        }
        if was_live {
            self.settled(|| self.remove_deleted(table, key, roll)).await?;
        }
        Ok(())
    }
    /// Whether a version of the row up to the horizon has the entry in index `no`.
    fn is_needed(&self, table: &Table, no: usize, e: &[u8], key: &[u8], walk: &mut Version) -> Try<bool> {
        let g = table.clustered().tree.leaf(&self.store, Seek::Key(key))?;
        let horizon = self.horizon.read();
        match index::search(&g, key).found {
            Some(r) => version::has_entry(&self.store, table, no, e, (&g, r), |t| horizon.sees(t), false, walk),
            None => Ok(false),
        }
    }
    /// Removes the record if it is the deleted one that `roll` made.
    fn remove_deleted(&self, table: &Table, key: &[u8], roll: RollPtr) -> Try<()> {
        let ix = table.clustered();
        {
            let g = ix.tree.leaf(&self.store, Seek::Key(key))?;
            let gone = |r| index::is_marked(&g, r) && value::roll(index::value(&g, r)) == roll;
            if !index::search(&g, key).found.is_some_and(gone) {
                return Ok(());
            }
        }
        let mut m = Mtr::begin_reserved(&self.store)?;
        let leaf = ix.tree.leaf_x(&mut m, key)?;
        let pos = index::search(m.page(leaf), key);
        let Some(r) = pos.found else { return Ok(()) };
        if !index::is_marked(m.page(leaf), r) || value::roll(index::value(m.page(leaf), r)) != roll {
            return Ok(());
        }
        index::remove(&mut m.patch(leaf), pos);
        let thin = structure::is_underfull(m.page(leaf)) && m.id(leaf).no != ix.tree.root;
        m.commit();
        self.history.counts.removed.fetch_add(1, Relaxed);
        if thin {
            entry::merge(&self.store, ix, key);
        }
        Ok(())
    }
}
/// See [`Engine::hold_purge`].
pub(crate) struct Held<'h>(&'h History);
impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, SeqCst);
    }
}
/// Whether it may be otherwise later.
fn may_pass(e: &Error, errors: &mut u32) -> bool {
    match e {
        Error::DiskFull(_) | Error::LogFull => true,
        Error::Io { .. } => {
            *errors += 1;
            *errors <= ERRORS
        }
        _ => false,
    }
}
/// A part of a log: in a page there may be several, when the transaction has come back to it.
#[derive(Clone, Copy)]
enum Part {
    /// The one that begins with the LOG entry at this offset.
    First(u16),
    /// The one that begins with a MORE entry of the transaction, behind so many others.
    More(usize),
}
/// The entry at page offset `at` of a copy that begins at offset `start`: its length and what it says.
fn parse_shifted(copy: &[u8], at: usize, start: usize) -> Option<(usize, Entry<'_>)> {
    let len = record::entry_len(copy, at - start);
    Some((len, record::parse(copy, at - start)?))
}

//! Purge: what no read view can need any more is removed: delete-marked records and entries,
//! replaced long columns, and the undo logs themselves.
//!
//! Purge works from a view of its own. It opens one, waits until every older view has closed, and
//! may then remove whatever transactions that it sees have made obsolete. That view is the engine's
//! `horizon`: walks over older versions end at a version by a transaction that it sees.
//!
//! It goes through the undo pages, oldest first ([`history`]), gathers what the logs in a page have
//! made obsolete ([`batch`]), and several tasks do that beside each other while there is much to do
//! ([`work`]).
//!
//! It can be stopped and told to go on ([`History::stop`], [`History::resume`]). Stopped, it begins
//! nothing; nothing else waits for it, the history just grows. It is stopped for this run only: a
//! start finds the history in the undo pages and goes on.
//!
//! - PURGE-1: a log is purged only when every open view sees its transaction.
//! - PURGE-2: an entry is removed, under its leaf's latch, only if it is marked and no version up
//!   to the horizon has it.
//! - PURGE-3: a record is removed only if the undo record being purged made its newest version, a
//!   deleted one.
//! - PURGE-4: long columns are freed after the log is marked as ended: after a crash they may leak,
//!   never be freed twice.
//! - PURGE-5: a log that cannot be purged for now (the disk or the log is full) is the history's
//!   first again, and is tried again; after an error of the disk so often and no more. Of one that
//!   was marked as ended only the long columns are left (PURGE-4). Only what is damaged for good is
//!   passed over.
//! - PURGE-6: purge begins a change only when sessions could: the log's reserve is for rollbacks.
//!   It does not wait for that while a DDL statement waits for purge
//!   ([`Engine::hold_purge`]).
//! - PURGE-7: purge is some tasks among others. Within a log, too, they let others run, and go away
//!   if a DDL statement or the shutdown wants it to; of a long log it is kept which parts are
//!   done.
//! - PURGE-8: in which order logs are purged, and by how many tasks, is a matter of speed only.
//!   Whether something goes is decided under its leaf's latch from what is there then and from the
//!   horizon (PURGE-2, PURGE-3); of the logs that the horizon sees no walk needs one to get past
//!   another; and what has been removed is not there when a log is purged again. Long columns have
//!   one log that names them, and that has one task.
//!
//! Undo names an index by its number in the table. After a DROP INDEX the numbers are others': what
//! older transactions made obsolete is looked for in every index, which is safe (PURGE-2).
mod batch;
mod history;
mod lag;
mod rate_limited_log;
mod work;

pub(crate) use history::History;
pub use history::State;
pub(crate) use work::{help, run};

use crate::buf::Latch;
use crate::engine::Engine;
use crate::mtr::Mtr;
use crate::page::Patch;
use crate::row::overflow;
use crate::undo::record::{self, Entry, RollPtr};
use crate::undo::{self, Unread};
use crate::{Error, PageNo, Result, TrxId, Try};
use batch::Batch;
use history::{Item, Left, Place};
use smallvec::SmallVec;
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use work::{Step, Turn};

/// How often a log is tried again after errors of the disk.
const ERRORS: u32 = 8;

/// What was found in a page.
#[derive(Default)]
struct Found {
    /// Logs that are wholly in it and are purged with the page.
    logs: u32,
    /// Those that need more: they have long columns.
    items: Vec<Item>,
    /// How far it could be read: the horizon does not see what is behind.
    to: u16,
}

impl Engine {
    /// Purges the logs in the page that has waited longest.
    async fn purge_page(&self, batch: &mut Batch, turn: &mut Turn) -> Step {
        let Some(unread) = self.undo.next_to_read() else { return Step::Nothing };
        let mut found = Found::default();
        let purged = match self.retry(|| self.read_page(&unread, batch, &mut found)).await {
            Ok(()) => self.purge_batch(batch, turn).await,
            Err(e) => Err(e),
        };
        let logs = match purged {
            Ok(true) => found.logs,
            Ok(false) => {
                self.undo.have_read(unread.no, unread.from, 0, true);
                return Step::Later;
            }
            Err(e @ (Error::DiskFull(_) | Error::LogFull)) => {
                self.log_failure(true, &e);
                self.history.counts.retries.fetch_add(1, Relaxed);
                self.undo.have_read(unread.no, unread.from, 0, true);
                return Step::Later;
            }
            Err(_) if found.to > 0 => {
                // Each of the logs by itself: it is found out which of them it is (PURGE-5).
                let mut items = Vec::new();
                match self.retry(|| self.logs_of(&unread, found.to, &mut items)).await {
                    Ok(()) => found.items = items,
                    Err(e) => self.log_failure(false, &e),
                }
                0
            }
            Err(e) => {
                // The page cannot be read.
                let mut unreadable = self.history.unreadable.lock();
                if unreadable.0 != unread.no {
                    *unreadable = (unread.no, 0);
                }
                let passes = may_pass(&e, &mut unreadable.1);
                drop(unreadable);
                self.log_failure(passes, &e);
                if passes {
                    self.history.counts.retries.fetch_add(1, Relaxed);
                    self.undo.have_read(unread.no, unread.from, 0, true);
                    return Step::Later;
                }
                found.to = unread.to;
                0
            }
        };
        if logs > 0 {
            self.history.counts.changes.fetch_add(batch.changes, Relaxed);
            self.history.counts.pages.fetch_add(1, Relaxed);
        }
        let step = Step::Did(logs as usize + found.items.len());
        self.history.items.lock().extend(found.items);
        self.undo.have_read(unread.no, found.to, logs, false);
        self.history.done(logs.into());
        step
    }
    /// Gathers what the logs that the horizon sees have made obsolete.
    fn read_page(&self, unread: &Unread, batch: &mut Batch, found: &mut Found) -> Try<()> {
        let g = self.store.pool.fix(undo::page_id(unread.no), Latch::S)?;
        let horizon = self.horizon.read();
        batch.clear();
        (found.logs, found.to) = (0, unread.to);
        found.items.clear();
        // The log that it is in, if that is one to purge.
        let mut log = None;
        let mut at = usize::from(unread.from);
        while at < usize::from(unread.to) {
            let Some(e) = record::parse(&g[..], at) else { break };
            match e {
                Entry::Log { trx, state, .. } => {
                    let own = state != record::ENDED && !unread.long.contains(&(at as u16));
                    if own && !horizon.sees(trx) {
                        found.to = at as u16;
                        break;
                    }
                    log = own.then(|| (trx, at as u16, batch.mark()));
                    found.logs += own as u32;
                }
                Entry::More { .. } => log = None,
                Entry::Change { head, old, key, rest } => {
                    if let Some((owner, first, before)) = &log {
                        batch.add(
                            self,
                            *owner,
                            head.table,
                            old,
                            key,
                            rest,
                            RollPtr::new(unread.no, at, false),
                        );
                        if !batch.chains.is_empty() {
                            // PURGE-4
                            batch.back_to(before);
                            found.items.push(Item::new(
                                *owner,
                                (unread.no, *first),
                                SmallVec::from_slice(&[unread.no]),
                            ));
                            found.logs -= 1;
                            log = None;
                        }
                    }
                }
                _ => {}
            }
            at += record::entry_len(&g[..], at);
        }
        Ok(())
    }
    /// The logs of that part of a page, to be purged one by one.
    fn logs_of(&self, unread: &Unread, to: u16, items: &mut Vec<Item>) -> Try<()> {
        let g = self.store.pool.fix(undo::page_id(unread.no), Latch::S)?;
        items.clear();
        let mut at = unread.from;
        while at < to {
            let Some(e) = record::parse(&g[..], at.into()) else { break };
            if let Entry::Log { trx, state, .. } = e
                && state != record::ENDED
                && !unread.long.contains(&at)
            {
                items.push(Item::new(trx, (unread.no, at), SmallVec::from_slice(&[unread.no])));
            }
            at += record::entry_len(&g[..], at.into()) as u16;
        }
        Ok(())
    }

    /// The next log that has an entry of its own, if the horizon sees it.
    fn next_item(&self) -> Option<Item> {
        let mut items = self.history.items.lock();
        let trx = items.front()?.trx;
        if self.horizon.read().sees(trx) { items.pop_front() } else { None }
    }
    async fn purge_item(&self, mut item: Item, batch: &mut Batch, turn: &mut Turn) -> Step {
        match self.purge_log(&mut item, batch, turn).await {
            Ok(true) => {}
            Ok(false) => {
                self.history.items.lock().push_front(item);
                return Step::Later;
            }
            Err(e) => {
                let passes = may_pass(&e, &mut item.errors);
                self.log_failure(passes, &e);
                if passes {
                    self.history.counts.retries.fetch_add(1, Relaxed);
                    self.history.items.lock().push_front(item);
                    return Step::Later;
                }
            }
        }
        for page in &item.pages {
            self.undo.purged(*page);
        }
        self.history.counts.pages.fetch_add(item.pages.len() as u64, Relaxed);
        self.history.done(1);
        Step::Did(1)
    }
    /// False: it is to be gone on with later (PURGE-7).
    async fn purge_log(&self, item: &mut Item, batch: &mut Batch, turn: &mut Turn) -> Result<bool> {
        if let Left::Changes(place) = &mut item.left {
            if !self.purge_changes(item.first, &item.pages, place, batch, turn).await? {
                return Ok(false);
            }
            if !place.chains.is_empty() {
                self.end_log(item.first).await?;
            }
            item.left = Left::Chains(std::mem::take(&mut place.chains));
        }
        if let Left::Chains(chains) = &mut item.left {
            // What is freed is forgotten: its pages may be others' when the rest is tried again.
            while let Some((space, first)) = chains.last() {
                self.room_for_purge().await?;
                overflow::free_chain(self, *space, *first, overflow::Writer::Any).await?;
                chains.pop();
                turn.count(self, 1).await;
            }
        }
        Ok(true)
    }
    /// Removes what the log's changes made obsolete, but for the long columns: those are in
    /// `place`. What has been removed already is left alone.
    async fn purge_changes(
        &self,
        first: (PageNo, u16),
        pages: &[PageNo],
        place: &mut Place,
        batch: &mut Batch,
        turn: &mut Turn,
    ) -> Result<bool> {
        let mut owner = TrxId::NONE;
        if place.part > 0 {
            // The other parts are told by whose they are.
            self.retry(|| self.read_part(first.0, Part::First(first.1), &mut owner, batch)).await?;
        }
        while let Some(no) = pages.get(place.part) {
            let part = match place.part {
                0 => Part::First(first.1),
                i => Part::More(pages[1..i].iter().filter(|p| *p == no).count()),
            };
            self.retry(|| self.read_part(*no, part, &mut owner, batch)).await?;
            if !self.purge_batch(batch, turn).await? {
                return Ok(false);
            }
            place.chains.append(&mut batch.chains);
            self.history.counts.changes.fetch_add(batch.changes, Relaxed);
            place.part += 1;
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
    /// Gathers what a part of a transaction's log, in page `no`, has made obsolete; nothing if it
    /// is not there (the page has been used again).
    fn read_part(&self, no: PageNo, part: Part, owner: &mut TrxId, batch: &mut Batch) -> Try<()> {
        let g = self.store.pool.fix(undo::page_id(no), Latch::S)?;
        batch.clear();
        let at = match part {
            Part::First(at) => {
                let at = usize::from(at);
                let Some(Entry::Log { trx, .. }) = record::parse(&g[..], at) else { return Ok(()) };
                *owner = trx;
                at
            }
            Part::More(before) => {
                let (mut at, mut left) = (record::FIRST, before);
                loop {
                    match record::parse(&g[..], at) {
                        Some(Entry::More { trx }) if trx == *owner && left == 0 => break at,
                        Some(e) => {
                            left -= matches!(e, Entry::More { trx } if trx == *owner) as usize
                        }
                        None => return Ok(()),
                    }
                    at += record::entry_len(&g[..], at);
                }
            }
        };
        let mut at = at + record::entry_len(&g[..], at);
        loop {
            match record::parse(&g[..], at) {
                None | Some(Entry::Log { .. } | Entry::More { .. }) => return Ok(()),
                Some(Entry::Change { head, old, key, rest }) => {
                    batch.add(self, *owner, head.table, old, key, rest, RollPtr::new(no, at, false))
                }
                Some(_) => {}
            }
            at += record::entry_len(&g[..], at);
        }
    }
    async fn end_log(&self, (page, at): (PageNo, u16)) -> Result<()> {
        self.retry(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let p = m.x(undo::page_id(page))?;
            m.patch(p).write(at as usize + record::STATE_AT, &[record::ENDED]);
            m.commit();
            Ok(())
        })
        .await
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

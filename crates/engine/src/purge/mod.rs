//! Purge removes the data that no read view can need any more: delete-marked records and entries,
//! replaced long columns, and the undo logs themselves.
//!
//! Purge works from a view of its own. It opens the view, waits until every older view has closed,
//! and may then remove everything that the transactions which its view sees have made obsolete.
//! This view is the engine's `horizon`: walks over older versions end at a version by a transaction
//! that the horizon sees.
//!
//! Purge goes through the undo pages, oldest first ([`history`]), and gathers the items that the
//! undo logs in a page have made obsolete ([`batch`]). Whether a newer version of its row needs an
//! entry is found out for many entries at a time ([`newer`]). While there is much to do, several
//! tasks work side by side ([`work`]).
//!
//! Purge can be stopped and resumed ([`History::stop`], [`History::resume`]). While it is stopped,
//! it begins nothing. Nothing else waits for purge; the history just grows. The stop lasts for this
//! run only: the next start finds the history in the undo pages and goes on.
//!
//! - PURGE-1: an undo log is purged only when every open view sees its transaction.
//! - PURGE-2: an entry is removed, under its leaf's latch, only if it is marked and no version back
//!   to the horizon has it.
//! - PURGE-3: a record is removed only if its newest version is a deletion that the undo record
//!   being purged made.
//! - PURGE-4: long columns are freed after the undo log is marked as ended: after a crash they may
//!   leak, but they are never freed twice.
//! - PURGE-5: an undo log that cannot be purged for the moment becomes the first of the history
//!   again, and is tried again: without limit if the disk or the redo log is full, and a limited
//!   number of times after an error of the disk. If the log was marked as ended, only its long
//!   columns are left (PURGE-4). Only permanently damaged logs are skipped.
//! - PURGE-6: purge begins a change only when sessions could, because the redo log's reserve is for
//!   rollbacks. It does not wait for room while a DDL statement waits for purge
//!   ([`Engine::hold_purge`]).
//! - PURGE-7: the tasks of purge let other tasks run, within an undo log too. They give up their
//!   work when a DDL statement or the shutdown wants purge to stop, and remember which parts of a
//!   long log are done.
//! - PURGE-8: the order in which undo logs are purged, and the number of tasks, only matter for
//!   speed. Whether an item is removed is decided under its leaf's latch, from the present content
//!   and the horizon (PURGE-2, PURGE-3). No walk needs a log that the horizon sees in order to
//!   reach another log. Items that have been removed are simply missing when their log is purged
//!   again. A long column is named by one log only, and one task purges a log.
//!
//! Undo records name an index by its number in the table. A DROP INDEX changes these numbers, so
//! the obsolete entries of older transactions are looked for in every index, which is safe
//! (PURGE-2).
mod batch;
mod history;
mod lag;
mod newer;
mod rate_limited_log;
mod work;

pub(crate) use history::History;
#[cfg(any(test, feature = "testing"))]
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
use history::{Item, Left, Part, Place};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use work::{Step, Turn};

/// How often an undo log is tried again after errors of the disk.
const ERRORS: u32 = 8;

/// The result of reading a page.
#[derive(Default)]
struct Found {
    /// The number of undo logs that lie wholly in the page and are purged with it.
    logs: u32,
    /// The undo logs with long columns, which are purged one by one.
    items: Vec<Item>,
    /// How far the page could be read. The horizon does not see the undo logs behind.
    to: u16,
}

impl Engine {
    /// Purges the undo logs in the page that has waited longest, or in several pages (NEWER-4).
    async fn purge_pages(&self, batch: &mut Batch, turn: &mut Turn) -> Step {
        let mut pages: SmallVec<[(Unread, Found); 1]> = SmallVec::new();
        let mut failed = None;
        while batch.takes_more(pages.len())
            && let Some(unread) = self.undo.next_to_read()
        {
            let mut found = Found::default();
            match self.retry(|| self.read_page(&unread, batch, &mut found)).await {
                // The next batch begins with this page.
                Err(_) if !pages.is_empty() => {
                    self.undo.have_read(unread.no, unread.from, 0, true);
                    break;
                }
                read => failed = read.err(),
            }
            let ends = failed.is_some() || found.to < unread.to;
            pages.push((unread, found));
            turn.count(self, 1).await;
            if ends || self.purge_gives_way() {
                break;
            }
        }
        batch.taken = pages.len();
        if pages.is_empty() {
            return Step::Nothing;
        }
        let purged = match failed {
            None => self.purge_batch(batch, turn).await,
            Some(e) => Err(e),
        };
        match purged {
            Ok(true) => {
                self.history.counts.changes.fetch_add(batch.changes, Relaxed);
                Step::Did(pages.into_iter().map(|(unread, found)| self.pass(unread, found)).sum())
            }
            Ok(false) => {
                self.read_again(&pages);
                Step::Later
            }
            Err(e @ (Error::DiskFull(_) | Error::LogFull)) => {
                self.log_failure(true, &e);
                self.history.counts.retries.fetch_add(1, Relaxed);
                self.read_again(&pages);
                Step::Later
            }
            Err(e) => {
                self.history.batch_pages.store(0, Relaxed);
                let (mut did, mut later) = (0, false);
                // The pages that come later go to the front of all, so the first one is the last.
                for (unread, found) in pages.into_iter().rev() {
                    match self.one_by_one(&unread, found, &e).await {
                        Some(found) => did += self.pass(unread, found),
                        None => later = true,
                    }
                }
                if later { Step::Later } else { Step::Did(did) }
            }
        }
    }
    /// A page is read. Returns the number of undo logs that are purged, or are purged by themselves
    /// from here on.
    fn pass(&self, unread: Unread, found: Found) -> usize {
        let (logs, did) = (found.logs, found.logs as usize + found.items.len());
        if logs > 0 {
            self.history.counts.pages.fetch_add(1, Relaxed);
        }
        self.history.items.lock().extend(found.items);
        self.undo.have_read(unread.no, found.to, logs, false);
        self.history.done(logs.into());
        did
    }
    /// The pages are to be read again, in their order and before all others.
    fn read_again(&self, pages: &[(Unread, Found)]) {
        for (unread, _) in pages.iter().rev() {
            self.undo.have_read(unread.no, unread.from, 0, true);
        }
    }
    /// The undo logs of a page are to be purged one by one, to find out which of them fails
    /// (PURGE-5). Returns nothing if the page is to be read again.
    async fn one_by_one(&self, unread: &Unread, mut found: Found, e: &Error) -> Option<Found> {
        found.logs = 0;
        if found.to == 0 {
            found.to = unread.to;
            return (!self.reads_later(unread, e)).then_some(found);
        }
        let mut items = Vec::new();
        match self.retry(|| self.logs_of(unread, found.to, &mut items)).await {
            Ok(()) => found.items = items,
            Err(e) if self.reads_later(unread, &e) => return None,
            Err(_) => {}
        }
        Some(found)
    }
    /// Notes that a page cannot be read. Returns false if it has been tried often enough.
    fn reads_later(&self, unread: &Unread, e: &Error) -> bool {
        let mut unreadable = self.history.unreadable.lock();
        if unreadable.0 != unread.no {
            *unreadable = (unread.no, 0);
        }
        let passes = may_pass(e, &mut unreadable.1);
        drop(unreadable);
        self.log_failure(passes, e);
        if passes {
            self.history.counts.retries.fetch_add(1, Relaxed);
            self.undo.have_read(unread.no, unread.from, 0, true);
        }
        passes
    }
    /// Gathers the items that the undo logs which the horizon sees have made obsolete.
    fn read_page(&self, unread: &Unread, batch: &mut Batch, found: &mut Found) -> Try<()> {
        // The horizon comes before the latches of undo pages: who looks for older versions under
        // the horizon latches such pages, and both locks let nobody in where a writer waits.
        let horizon = self.horizon.read();
        let g = self.store.pool.fix(undo::page_id(unread.no), Latch::S)?;
        (found.logs, found.to) = (0, unread.to);
        found.items.clear();
        // The present undo log, if it is to be purged.
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
    /// Lists the undo logs of the part of the page that was read, to be purged one by one.
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

    /// The next undo logs that have entries of their own, if the horizon sees them: one, or several
    /// short ones if the batch takes them.
    fn next_items(&self, batch: &Batch) -> VecDeque<Item> {
        let (mut items, mut next, mut pages) = (self.history.items.lock(), VecDeque::new(), 0);
        let horizon = self.horizon.read();
        while let Some(item) = items.pop_front() {
            let is_short = item.is_short();
            let joins = next.is_empty() || is_short && batch.takes_more(pages);
            if !joins || !horizon.sees(item.trx) {
                items.push_front(item);
                break;
            }
            pages += item.pages.len();
            next.push_back(item);
            // A long one is purged by itself.
            if !is_short {
                break;
            }
        }
        next
    }
    /// Purges undo logs that have entries of their own.
    async fn purge_items(
        &self,
        mut items: VecDeque<Item>,
        batch: &mut Batch,
        turn: &mut Turn,
    ) -> Step {
        if items.len() > 1 {
            match self.purge_together(&mut items, batch, turn).await {
                Ok(true) => {}
                Ok(false) => {
                    self.history.put_back(items);
                    return Step::Later;
                }
                // One by one they tell which of them fails (PURGE-5).
                Err(_) => self.history.batch_pages.store(0, Relaxed),
            }
        }
        batch.taken = items.len();
        let mut did = 0;
        while let Some(item) = items.pop_front() {
            match self.purge_item(item, batch, turn).await {
                Step::Did(n) => did += n,
                other => {
                    self.history.put_back(items);
                    return other;
                }
            }
        }
        Step::Did(did)
    }
    /// Removes what the changes of several short undo logs made obsolete (NEWER-4). Logs for which
    /// the batch has no room go back to the history. Returns false, as after an error, if all has
    /// to be done again.
    async fn purge_together(
        &self,
        items: &mut VecDeque<Item>,
        batch: &mut Batch,
        turn: &mut Turn,
    ) -> Result<bool> {
        let (mut pages, mut read, mut done) = (0, 0, Ok(true));
        while read < items.len() && batch.takes_more(pages) && done.is_ok() {
            let item = &mut items[read];
            if let Left::Changes(place) = &mut item.left {
                let mut owner = TrxId::NONE;
                while let Some((no, part)) = place.next(&item.pages)
                    && done.is_ok()
                {
                    let first = item.first.1;
                    done = self
                        .retry(|| self.read_part((no, first), part, &mut owner, batch))
                        .await
                        .map(|()| true);
                    place.pass(no);
                }
                place.chains.append(&mut batch.chains);
            }
            pages += item.pages.len();
            read += 1;
            turn.count(self, 1).await;
            if self.purge_gives_way() {
                break;
            }
        }
        self.history.put_back(items.split_off(read));
        if done.is_ok() {
            done = self.purge_batch(batch, turn).await;
        }
        if matches!(done, Ok(true)) {
            self.history.counts.changes.fetch_add(batch.changes, Relaxed);
        } else {
            items.iter_mut().for_each(|item| item.left = Left::Changes(Place::default()));
        }
        done
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
    /// Purges a log. Returns false if the rest has to be done later (PURGE-7).
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
            // A freed chain is forgotten, because its pages may belong to others when the rest is
            // tried again.
            while let Some((space, first)) = chains.last() {
                self.room_for_purge().await?;
                overflow::free_chain(self, *space, *first, overflow::Writer::Any).await?;
                chains.pop();
                turn.count(self, 1).await;
                // A shutdown waits: no later run knows the chains of a log that has ended.
                if self.history.is_held() && !chains.is_empty() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
    /// Removes the items that the undo log's changes made obsolete, except the long columns, which
    /// it collects in `place`. Items that have been removed already are skipped.
    async fn purge_changes(
        &self,
        first: (PageNo, u16),
        pages: &[PageNo],
        place: &mut Place,
        batch: &mut Batch,
        turn: &mut Turn,
    ) -> Result<bool> {
        let mut owner = TrxId::NONE;
        if !place.is_first() && place.next(pages).is_some() {
            // The other parts are recognised by the transaction that owns them.
            self.retry(|| self.read_part(first, Part::First, &mut owner, batch)).await?;
        }
        loop {
            batch.clear();
            let mut read: SmallVec<[PageNo; 1]> = SmallVec::new();
            let mut done = Ok(true);
            while batch.takes_more(read.len())
                && let Some((no, part)) = place.next(pages)
            {
                done = self
                    .retry(|| self.read_part((no, first.1), part, &mut owner, batch))
                    .await
                    .map(|()| true);
                if done.is_err() {
                    // The parts before it are purged first (PURGE-5).
                    if !read.is_empty() {
                        done = Ok(true);
                    }
                    break;
                }
                place.pass(no);
                read.push(no);
                turn.count(self, 1).await;
                if self.purge_gives_way() {
                    break;
                }
            }
            if read.is_empty() && done.is_ok() {
                return Ok(true);
            }
            if done.is_ok() {
                done = self.purge_batch(batch, turn).await;
            }
            if !matches!(done, Ok(true)) {
                place.go_back(&read);
                return done;
            }
            place.chains.append(&mut batch.chains);
            self.history.counts.changes.fetch_add(batch.changes, Relaxed);
        }
    }
    /// Holds purge off: purge is in no undo log, and begins none until the returned value is
    /// dropped.
    pub(crate) async fn hold_purge(&self) -> Held<&Engine> {
        hold_purge(self).await
    }
    /// Gathers the items that a part of a transaction's undo log, in page `no`, has made obsolete.
    /// `first` is the offset of the LOG entry in its page. Gathers nothing if the part is gone
    /// because the page has been used again.
    fn read_part(
        &self,
        (no, first): (PageNo, u16),
        part: Part,
        owner: &mut TrxId,
        batch: &mut Batch,
    ) -> Try<()> {
        let g = self.store.pool.fix(undo::page_id(no), Latch::S)?;
        let at = match part {
            Part::First => {
                let at = usize::from(first);
                let Some(Entry::Log { trx, .. }) = record::parse(&g[..], at) else { return Ok(()) };
                *owner = trx;
                at
            }
            Part::More(before) => {
                let (mut at, mut left) = (record::FIRST, before);
                loop {
                    match record::parse(&g[..], at) {
                        Some(Entry::More { trx }) if trx == *owner && left == 0 => break at,
                        Some(e) => left -= matches!(e, Entry::More { trx } if trx == *owner) as u32,
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
/// Holds purge off until it is dropped, see [`Engine::hold_purge`].
pub(crate) struct Held<E: Deref<Target = Engine>>(E);
impl<E: Deref<Target = Engine>> Drop for Held<E> {
    fn drop(&mut self) {
        self.0.history.held.fetch_sub(1, SeqCst);
    }
}
/// As [`Engine::hold_purge`], for a holder that may outlive its reference to the engine.
pub(crate) async fn hold_purge<E: Deref<Target = Engine>>(engine: E) -> Held<E> {
    engine.history.held.fetch_add(1, SeqCst);
    let held = Held(engine);
    while held.0.history.is_purging() {
        held.0.nap(Duration::from_millis(1)).await;
    }
    held
}
/// Whether the failure may be temporary, so that the undo log is to be tried again.
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

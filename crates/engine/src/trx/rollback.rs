//! Rollback: undo records are applied from the latest to the earliest. Every step first looks
//! whether it has been done already, so that recovery can simply begin again a rollback that a
//! crash cut short.
//!
//! - ROLLBACK-1: when the version before a change is put back, every entry that the rollback has
//!   marked, and not removed, is one that purge has yet to come to: what has replaced the last
//!   version with the entry is a transaction that the horizon does not see. This is decided under
//!   the clustered leaf's latch. Purge passes over an entry while the newest version has it; so if
//!   the horizon has moved on since the entry was marked, purge may have passed over it and does
//!   not come again, and the entries are looked at once more.
use super::seen::Phase;
use super::{Savepoint, Trx};
use crate::canary::{Canary, planted};
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::mtr::Mtr;
use crate::page::Patch;
use crate::page::index::{self, DELETE_MARK};
use crate::progress::Stage;
use crate::row::older::{Need, Older};
use crate::row::version::Version;
use crate::row::{entry, overflow, value};
use crate::runtime::give_way;
use crate::trx::view::ReadView;
use crate::undo;
use crate::undo::record::{self, Entry, RollPtr};
use crate::{Error, Result, TrxId, Try};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A rollback tells how far it is whenever it has taken back so many changes more.
const TOLD: u64 = 1024;

/// One change to take back: a copy of the needed parts of its undo record.
enum Step {
    Insert { table: u64, key: Vec<u8> },
    Change { table: u64, key: Vec<u8>, flags: u8, head: [u8; value::HEAD] },
    Overflow { table: u64, first: u32 },
    Nothing,
}

impl Trx {
    /// Takes back all changes made since `to`. The locks stay.
    pub async fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        if self.undo.last != to.0 {
            self.engine.counts.savepoint_rollbacks.add(1);
        }
        if planted(Canary::SavepointForgets) {
            self.undo.last = to.0;
        }
        // If the caller gives the future up, a part of the changes stays.
        self.unfinished.push(to.0);
        let before = self.broken.replace(Error::Interrupted);
        let done = self.back_to(to.0, true).await;
        self.broken = match &done {
            Err(e) => Some(e.clone()),
            Ok(()) if self.unfinished.is_empty() && !self.ending => None,
            // A rollback to a later place leaves an earlier one unfinished.
            Ok(()) => before.or(Some(Error::Interrupted)),
        };
        done
    }
    /// Takes back changes down to `to`. `goes_on` says that the rest of the transaction may still
    /// commit.
    async fn back_to(&mut self, to: RollPtr, goes_on: bool) -> Result<()> {
        let engine = self.engine.clone();
        self.locks.seen().set_phase(Phase::RollingBack);
        let (mut steps, mut older) = (0, Older::default());
        let mut numbers = Numbers::default();
        loop {
            let last = self.undo.last;
            self.unfinished.retain(|place| *place != last);
            if last == to {
                break;
            }
            self.give_way().await;
            steps += 1;
            if steps % TOLD == 0
                && let Some(progress) = &self.progress
            {
                if steps == TOLD {
                    let all = if to == RollPtr::NONE { self.undo.count } else { 0 };
                    progress.begin(Stage::RollingBack, all.into());
                }
                progress.set_done(steps);
            }
            let at = self.undo.last;
            let (head, step) = loop {
                match read_step(&engine, at) {
                    Ok(x) => break x,
                    Err(s) => engine.unblocked(s).await?,
                }
            };
            numbers.go_back_to(&engine, at, head.undo_no)?;
            let change = matches!(step, Step::Change { .. });
            engine.take_back(self.id, at, step, self.fills.as_ref(), &mut older).await?;
            if change && goes_on {
                // If the transaction commits, purge must not act on this record: the versions and
                // entries that the record's change made obsolete are current again.
                engine.retry(|| mark_undone(&engine, at)).await?;
            }
            self.undo.last = head.before;
        }
        engine.history.counts.older_read.fetch_add(older.read, Relaxed);
        if let Some(progress) = self.progress.as_ref().filter(|_| steps >= TOLD) {
            progress.end();
        }
        if goes_on {
            self.locks.seen().set_phase(Phase::Running);
        }
        Ok(())
    }
    /// Rolls the whole transaction back and ends it. A rollback that cannot finish now continues in
    /// the background (TRX-C).
    pub async fn rollback(&mut self) -> Result<()> {
        if self.take_back_all().await.is_err() {
            self.hand_over();
            self.end();
        }
        Ok(())
    }
    /// Rolls the whole transaction back and ends it, or returns the error that stopped the
    /// rollback.
    pub(crate) async fn take_back_all(&mut self) -> Result<()> {
        self.give_up_table();
        self.ending = true;
        self.broken = Some(Error::Interrupted);
        self.back_to(RollPtr::NONE, false).await?;
        let engine = self.engine.clone();
        if self.id != TrxId::NONE {
            loop {
                match self.undo.finish(&engine.store, record::ENDED, 0) {
                    Ok(_) => break,
                    Err(s) => engine.unblocked(s).await?,
                }
            }
            engine.counts.rollbacks.add(1);
            engine.sys.deregister(self.id);
            self.undo.release(&engine.undo);
            for page in self.undo.pages.drain(..) {
                engine.undo.purged(page);
            }
        }
        self.end();
        Ok(())
    }
}

fn mark_undone(engine: &Engine, at: RollPtr) -> Try<()> {
    let mut m = Mtr::begin_reserved(&engine.store)?;
    let p = m.x(undo::page_id(at.page()))?;
    m.patch(p).write(at.at() + record::KIND_AT, &[record::UNDONE]);
    m.commit();
    Ok(())
}
/// The numbers of the undo records that are read from the last to the first.
#[derive(Default)]
pub(super) struct Numbers(Option<u32>);
impl Numbers {
    /// Fails if the record's number is not below that of the record read before: a link that does
    /// not lead back might be followed for ever.
    pub(super) fn go_back_to(&mut self, engine: &Engine, at: RollPtr, number: u32) -> Result<()> {
        match self.0.replace(number) {
            Some(after) if number >= after => Err(damaged(
                engine,
                at,
                format!(
                    "the record at offset {} has number {number}, and the one after it {after}",
                    at.at()
                ),
            )),
            _ => Ok(()),
        }
    }
}
fn damaged(engine: &Engine, at: RollPtr, why: String) -> Error {
    let page = undo::page_id(at.page());
    let file = engine.store.spaces.path(page.space).display().to_string();
    Error::Corrupt { page, file, table: "(undo)".into(), why }
}
fn read_step(engine: &Engine, at: RollPtr) -> Try<(record::Head, Step)> {
    let mut wrong = None;
    let read = undo::read(&engine.store, at, |e| match e {
        Some(Entry::Insert { head, key }) => {
            (head, Step::Insert { table: head.table, key: key.to_vec() })
        }
        Some(Entry::Change { head, old, key, .. }) => (
            head,
            Step::Change {
                table: head.table,
                key: key.to_vec(),
                flags: old.flags,
                head: value::head(old.trx, old.roll),
            },
        ),
        Some(Entry::Overflow { head, first }) => {
            (head, Step::Overflow { table: head.table, first })
        }
        Some(Entry::Undone { head } | Entry::Held { head, .. }) => (head, Step::Nothing),
        other => {
            wrong = Some(damaged(
                engine,
                at,
                format!(
                    "no record at offset {} for a change that is to be taken back: {other:?}",
                    at.at()
                ),
            ));
            (record::Head { undo_no: 0, before: RollPtr::NONE, table: 0 }, Step::Nothing)
        }
    })?;
    wrong.map_or(Ok(read), |wrong| Err(wrong.into()))
}

/// A change of a row that is to be taken back: who made it, its undo record, and the version that
/// it replaced.
#[derive(Clone, Copy)]
struct Change<'c> {
    trx: TrxId,
    at: RollPtr,
    key: &'c [u8],
    flags: u8,
    head: &'c [u8; value::HEAD],
}
impl Change<'_> {
    /// Whether the replaced version is a deletion that every view sees.
    fn is_over(&self, horizon: &ReadView) -> bool {
        self.flags & DELETE_MARK != 0 && horizon.sees(value::trx(self.head))
    }
}
/// The result of an attempt to take back a change.
enum Tried {
    Done,
    /// The entries have to be looked at once more.
    Again,
    /// Others are to run before the work goes on.
    GoesOn,
}
/// What an attempt to take back the entries of a change has come to.
enum Entries {
    Done(Left),
    /// The change has been taken back already.
    Gone,
    /// Others are to run before the work goes on.
    GoesOn,
}
/// What is left when the entries of a change have been taken back.
struct Left {
    /// The version that comes back.
    old: Version,
    was_marked: bool,
    /// Whether the version that comes back was a deletion that every view sees.
    was_over: bool,
    /// Entries stay, marked, for as long as a view does not see these transactions (ROLLBACK-1).
    needed_until: SmallVec<[TrxId; 4]>,
}

impl Engine {
    /// Takes one change back. `filled` is a table that only this transaction knows.
    async fn take_back(
        &self,
        trx: TrxId,
        at: RollPtr,
        step: Step,
        filled: Option<&Arc<Table>>,
        older: &mut Older,
    ) -> Result<()> {
        let table = match &step {
            Step::Nothing => return Ok(()),
            Step::Insert { table, .. }
            | Step::Change { table, .. }
            | Step::Overflow { table, .. } => {
                filled.filter(|t| t.id == *table).cloned().or_else(|| self.dict.by_id(*table))
            }
        };
        // A dropped table has taken its rows along.
        let Some(table) = table else { return Ok(()) };
        let is_gone = || self.dict.is_gone(&table);
        if let Step::Overflow { first, .. } = step {
            let freed =
                overflow::free_chain(self, table.space, first, overflow::Writer::Exactly(trx));
            return freed.await.or_else(|e| match e {
                _ if is_gone() => Ok(()),
                // No row needs these pages. A rollback that stopped here would keep its locks for
                // ever.
                Error::Corrupt { .. } => {
                    tracing::warn!("pages of a long column stay in use: {e}");
                    Ok(())
                }
                e => Err(e),
            });
        }
        loop {
            let done = match &step {
                Step::Insert { key, .. } => {
                    self.take_back_insert(&table, trx, at, key).map(|()| Tried::Done)
                }
                Step::Change { key, flags, head, .. } => {
                    let change = Change { trx, at, key, flags: *flags, head };
                    self.take_back_change(&table, &change, older)
                }
                Step::Overflow { .. } | Step::Nothing => Ok(Tried::Done),
            };
            match done {
                Ok(Tried::Done) => return Ok(()),
                Ok(Tried::Again) => {}
                Ok(Tried::GoesOn) => give_way(&*self.runtime).await,
                Err(s) => match self.unblocked(s).await {
                    Err(_) if is_gone() => return Ok(()),
                    settled => settled?,
                },
            }
        }
    }
    fn take_back_insert(&self, table: &Table, trx: TrxId, at: RollPtr, key: &[u8]) -> Try<()> {
        let Some(newest) = self.own_version(table, trx, at, key)? else { return Ok(()) };
        let mut e = Vec::new();
        for (no, ix) in table.secondary() {
            table.entry_key(no, &newest.payload, key, &mut e);
            entry::remove(&self.store, ix, &e, |_| Ok(true))?;
        }
        let ix = table.clustered();
        let mut m = Mtr::begin_reserved(&self.store)?;
        let leaf = ix.tree.leaf_x(&mut m, key)?;
        let pos = index::search(m.page(leaf), key);
        let Some(r) = pos.found else { return Ok(()) };
        if value::trx(index::value(m.page(leaf), r)) != trx {
            return Ok(());
        }
        index::remove(&mut m.patch(leaf), pos);
        let thin =
            crate::btree::structure::is_underfull(m.page(leaf)) && m.id(leaf).no != ix.tree.root;
        m.commit();
        table.rows.fetch_sub(1, Relaxed);
        if thin {
            entry::merge(&self.store, ix, key);
        }
        Ok(())
    }
    /// Takes back an update or a delete.
    fn take_back_change(
        &self,
        table: &Table,
        change: &Change<'_>,
        older: &mut Older,
    ) -> Try<Tried> {
        match self.take_back_entries(table, change, older)? {
            Entries::Done(left) => self.put_back(table, change, &left, older),
            Entries::Gone => Ok(Tried::Done),
            Entries::GoesOn => Ok(Tried::GoesOn),
        }
    }
    /// Takes back what a change has done to the entries of the row.
    fn take_back_entries(
        &self,
        table: &Table,
        change: &Change<'_>,
        older: &mut Older,
    ) -> Try<Entries> {
        let Change { trx, at, key, .. } = *change;
        let Some(newest) = self.own_version(table, trx, at, key)? else {
            return Ok(Entries::Gone);
        };
        let mut old = Version::default();
        old.copy(&newest);
        old.step(&self.store)?;
        let mut left = Left {
            was_marked: newest.marked,
            was_over: change.is_over(&self.horizon.read()),
            old,
            needed_until: SmallVec::new(),
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (no, ix) in table.secondary() {
            // A delete-marked version has no entries. It may be older than the index, and then lack
            // columns that the index key needs.
            let (had, has) = (change.flags & DELETE_MARK == 0, !newest.marked);
            if had {
                table.entry_key(no, &left.old.payload, key, &mut a);
            }
            if has {
                table.entry_key(no, &newest.payload, key, &mut b);
            }
            if had && has && a == b {
                continue;
            }
            if had && !entry::mark(&self.store, ix, &a, false, true)? {
                // The entry is missing, so the index was damaged before. The rollback puts the
                // entry back, because the restored row must have one.
                tracing::warn!(
                    "index '{}' of {} lacked an entry, which a rollback has put back: \
                     the index was damaged. Run CHECK TABLE",
                    ix.def.name,
                    table.full_name()
                );
                entry::restore(&self.store, ix, &a)?;
            }
            if has {
                if !older.find(&self.store, &self.horizon, table, trx, key, &newest)? {
                    return Ok(Entries::GoesOn);
                }
                let need = older.need(no, &b, &self.horizon.read());
                match need {
                    Need::None => entry::remove(&self.store, ix, &b, |_| Ok(true))?,
                    Need::Own | Need::Until(_) => {
                        entry::mark(&self.store, ix, &b, true, true)?;
                    }
                }
                if let Need::Until(by) = need {
                    left.needed_until.push(by);
                }
            }
        }
        Ok(Entries::Done(left))
    }
    /// Puts the version before the change back into the clustered index.
    fn put_back(
        &self,
        table: &Table,
        change: &Change<'_>,
        left: &Left,
        older: &mut Older,
    ) -> Try<Tried> {
        let Change { trx, at, key, flags, head } = *change;
        let ix = table.clustered();
        loop {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let leaf = ix.tree.leaf_x(&mut m, key)?;
            let pos = index::search(m.page(leaf), key);
            let Some(r) = pos.found else { return Ok(Tried::Done) };
            if value::roll(index::value(m.page(leaf), r)) != at {
                return Ok(Tried::Done);
            }
            let (is_over, is_late) = {
                let horizon = self.horizon.read();
                (change.is_over(&horizon), left.needed_until.iter().any(|by| horizon.sees(*by)))
            };
            if is_late {
                // ROLLBACK-1
                return Ok(Tried::Again);
            }
            // The restored version is deleted, and no view needs it. Purge may have looked for it
            // under this latch while this transaction's version was in its place; purge does not
            // come again, and has freed the overflow chains that the version named. So the record
            // must go now.
            if is_over {
                if !left.was_over {
                    // The version was still needed when its entries were kept above. The entries
                    // are useless now too, and purge may have left them for the version that was in
                    // its place. The second pass removes them.
                    return Ok(Tried::Again);
                }
                index::remove(&mut m.patch(leaf), pos);
                let thin = crate::btree::structure::is_underfull(m.page(leaf))
                    && m.id(leaf).no != ix.tree.root;
                m.commit();
                if thin {
                    entry::merge(&self.store, ix, key);
                }
                return Ok(Tried::Done);
            }
            let len = value::HEAD + left.old.payload.len();
            if !index::fits_value(m.page(leaf), r, len) {
                drop(m);
                ix.tree.split(&self.store, 0, key, len)?;
                continue;
            }
            index::replace_value(&mut m.patch(leaf), pos, flags, &[head, &left.old.payload]);
            m.commit();
            if flags & DELETE_MARK == 0 && left.was_marked {
                table.rows.fetch_add(1, Relaxed);
            }
            older.went_back(table, trx, key, at, &left.old);
            return Ok(Tried::Done);
        }
    }
    /// The newest version of a row, if undo record `at` undoes this version.
    fn own_version(
        &self,
        table: &Table,
        trx: TrxId,
        at: RollPtr,
        key: &[u8],
    ) -> Try<Option<Version>> {
        let g = table.clustered().tree.leaf(&self.store, crate::btree::Seek::Key(key))?;
        let Some(r) = index::search(&g, key).found else { return Ok(None) };
        let v = index::value(&g, r);
        if value::trx(v) != trx || RollPtr(value::roll(v).0 & !1) != RollPtr(at.0 & !1) {
            return Ok(None);
        }
        let mut newest = Version::default();
        newest.load(&g, r);
        Ok(Some(newest))
    }
}

#[cfg(all(test, not(model)))]
mod tests;

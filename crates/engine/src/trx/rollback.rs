//! Rollback: undo records are applied from the latest to the earliest. Every step first looks
//! whether it has been done already, so that recovery can simply begin again a rollback that a
//! crash cut short.
use super::seen::Phase;
use super::{Savepoint, Trx};
use crate::canary::{Canary, planted};
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::mtr::Mtr;
use crate::page::Patch;
use crate::page::index::{self, DELETE_MARK};
use crate::progress::Stage;
use crate::row::version::{self, Version};
use crate::row::{entry, overflow, value};
use crate::undo;
use crate::undo::record::{self, Entry, RollPtr};
use crate::{Error, Result, TrxId, Try};
use std::sync::Arc;

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
        let mut steps = 0;
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
            let (before, step) = loop {
                match read_step(&engine, at) {
                    Ok(x) => break x,
                    Err(s) => engine.unblocked(s).await?,
                }
            };
            let change = matches!(step, Step::Change { .. });
            engine.take_back(self.id, at, step, self.fills.as_ref()).await?;
            if change && goes_on {
                // If the transaction commits, purge must not act on this record: the versions and
                // entries that the record's change made obsolete are current again.
                engine.retry(|| mark_undone(&engine, at)).await?;
            }
            self.undo.last = before;
        }
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
fn read_step(engine: &Engine, at: RollPtr) -> Try<(RollPtr, Step)> {
    let mut wrong = None;
    let read = undo::read(&engine.store, at, |e| match e {
        Some(Entry::Insert { head, key }) => {
            (head.before, Step::Insert { table: head.table, key: key.to_vec() })
        }
        Some(Entry::Change { head, old, key, .. }) => (
            head.before,
            Step::Change {
                table: head.table,
                key: key.to_vec(),
                flags: old.flags,
                head: value::head(old.trx, old.roll),
            },
        ),
        Some(Entry::Overflow { head, first }) => {
            (head.before, Step::Overflow { table: head.table, first })
        }
        Some(Entry::Undone { head } | Entry::Held { head, .. }) => (head.before, Step::Nothing),
        other => {
            let page = undo::page_id(at.page());
            wrong = Some(Error::Corrupt {
                page,
                file: engine.store.spaces.path(page.space).display().to_string(),
                table: "(undo)".into(),
                why: format!(
                    "no record at offset {} for a change that is to be taken back: {other:?}",
                    at.at()
                ),
            });
            (RollPtr::NONE, Step::Nothing)
        }
    })?;
    wrong.map_or(Ok(read), |wrong| Err(wrong.into()))
}

impl Engine {
    /// Takes one change back. `filled` is a table that only this transaction knows.
    async fn take_back(
        &self,
        trx: TrxId,
        at: RollPtr,
        step: Step,
        filled: Option<&Arc<Table>>,
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
        let is_gone = || {
            table.dropped.load(std::sync::atomic::Ordering::Acquire)
                && self.dict.by_id(table.id).is_none()
        };
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
        let changed = matches!(step, Step::Change { .. });
        let mut walks: Vec<_> =
            table.indexes.iter().filter(|_| changed).map(|_| Version::default()).collect();
        loop {
            let done = match &step {
                Step::Insert { key, .. } => self.take_back_insert(&table, trx, at, key),
                Step::Change { key, flags, head, .. } => {
                    self.take_back_change(&table, trx, at, key, (*flags, head), &mut walks)
                }
                Step::Overflow { .. } | Step::Nothing => Ok(()),
            };
            match done {
                Ok(()) => return Ok(()),
                Err(s) => match self.unblocked(s).await {
                    Err(_) if is_gone() => return Ok(()),
                    settled => settled?,
                },
            }
        }
    }
    fn take_back_insert(&self, table: &Table, trx: TrxId, at: RollPtr, key: &[u8]) -> Try<()> {
        let Some(payload) = self.own_version(table, trx, at, key, None)? else { return Ok(()) };
        let mut e = Vec::new();
        for (no, ix) in table.secondary() {
            table.entry_key(no, &payload.0, key, &mut e);
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
        table.rows.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        if thin {
            entry::merge(&self.store, ix, key);
        }
        Ok(())
    }
    /// Takes back an update or a delete. `walks` has one search state for each index, which is kept
    /// while the step waits (VERS-1).
    fn take_back_change(
        &self,
        table: &Table,
        trx: TrxId,
        at: RollPtr,
        key: &[u8],
        (flags, head): (u8, &[u8; value::HEAD]),
        walks: &mut [Version],
    ) -> Try<()> {
        let mut old = Version::default();
        let Some((now, was_marked)) = self.own_version(table, trx, at, key, Some(&mut old))? else {
            return Ok(());
        };
        let is_over = || flags & DELETE_MARK != 0 && self.horizon.read().sees(value::trx(head));
        let was_over = is_over();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (no, ix) in table.secondary() {
            // A delete-marked version has no entries. It may be older than the index, and then lack
            // columns that the index key needs.
            let (had, has) = (flags & DELETE_MARK == 0, !was_marked);
            if had {
                table.entry_key(no, &old.payload, key, &mut a);
            }
            if has {
                table.entry_key(no, &now, key, &mut b);
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
                self.unneeded_entry(table, no, &b, key, &mut walks[no])?;
            }
        }
        let ix = table.clustered();
        loop {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let leaf = ix.tree.leaf_x(&mut m, key)?;
            let pos = index::search(m.page(leaf), key);
            let Some(r) = pos.found else { return Ok(()) };
            if value::roll(index::value(m.page(leaf), r)) != at {
                return Ok(());
            }
            // The restored version is deleted, and no view needs it. Purge may have looked for it
            // under this latch while this transaction's version was in its place; purge does not
            // come again, and has freed the overflow chains that the version named. So the record
            // must go now.
            if is_over() {
                if !was_over {
                    // The version was still needed when its entries were kept above. The entries
                    // are useless now too, and purge may have left them for the version that was in
                    // its place. The second pass removes them.
                    drop(m);
                    return self.take_back_change(table, trx, at, key, (flags, head), walks);
                }
                index::remove(&mut m.patch(leaf), pos);
                let thin = crate::btree::structure::is_underfull(m.page(leaf))
                    && m.id(leaf).no != ix.tree.root;
                m.commit();
                if thin {
                    entry::merge(&self.store, ix, key);
                }
                return Ok(());
            }
            let len = value::HEAD + old.payload.len();
            if !index::fits_value(m.page(leaf), r, len) {
                drop(m);
                ix.tree.split(&self.store, 0, key, len)?;
                continue;
            }
            index::replace_value(&mut m.patch(leaf), pos, flags, &[head, &old.payload]);
            m.commit();
            if flags & DELETE_MARK == 0 && was_marked {
                table.rows.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            return Ok(());
        }
    }
    /// Returns the payload and the delete mark of a row's newest version, if undo record `at`
    /// undoes this version. The version before it is loaded into `old`.
    fn own_version(
        &self,
        table: &Table,
        trx: TrxId,
        at: RollPtr,
        key: &[u8],
        old: Option<&mut Version>,
    ) -> Try<Option<(Vec<u8>, bool)>> {
        let g = table.clustered().tree.leaf(&self.store, crate::btree::Seek::Key(key))?;
        let Some(r) = index::search(&g, key).found else { return Ok(None) };
        let v = index::value(&g, r);
        if value::trx(v) != trx || RollPtr(value::roll(v).0 & !1) != RollPtr(at.0 & !1) {
            return Ok(None);
        }
        if let Some(old) = old {
            old.load(&g, r);
            old.step(&self.store)?;
        }
        Ok(Some((value::payload(v).to_vec(), index::is_marked(&g, r))))
    }
    /// Removes an entry of the newest version, or only marks it if an older version that a view may
    /// read has the same entry.
    fn unneeded_entry(
        &self,
        table: &Table,
        no: usize,
        e: &[u8],
        key: &[u8],
        walk: &mut Version,
    ) -> Try<()> {
        let ix = &table.indexes[no];
        let needed = {
            let g = table.clustered().tree.leaf(&self.store, crate::btree::Seek::Key(key))?;
            let horizon = self.horizon.read();
            match index::search(&g, key).found {
                Some(r) => version::has_entry(
                    &self.store,
                    table,
                    no,
                    e,
                    (&g, r),
                    |t| horizon.sees(t),
                    true,
                    walk,
                )?,
                None => false,
            }
        };
        if needed {
            entry::mark(&self.store, ix, e, true, true).map(|_| ())
        } else {
            entry::remove(&self.store, ix, e, |_| Ok(true))
        }
    }
}

//! Update and delete of one row, which the transaction has locked (through a cursor).
//!
//! An update that does not change the clustered key changes the record in place, with an undo
//! record that holds the difference. In each secondary index whose key changes, the old entry is
//! marked and the new entry is added. An update of the clustered key is a delete and an insert.
use super::insert::{Tried, check_key, deletable};
use super::{entry, overflow, value};
use crate::dict::table::Table;
use crate::lock::Mode;
use crate::mtr::Mtr;
use crate::page::index::{self, DELETE_MARK};
use crate::trx::Trx;
use crate::undo::record::{self, Obsolete, OldVersion};
use crate::{Error, PageId, Result, Try, WouldBlock};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A row as a cursor found it: its clustered key, its stored payload, and the leaf it was in.
#[derive(Clone, Copy, Debug)]
pub struct RowAt<'a> {
    /// The clustered key.
    pub key: &'a [u8],
    /// The stored payload, in which long columns are references.
    pub stored: &'a [u8],
    /// The leaf and its page LSN when the row was read. They save a descent if the leaf has not
    /// changed.
    pub leaf: (u32, u64),
}
/// Entries of secondary indexes: the number of the index, and the key.
type Entries = SmallVec<[(u8, SmallVec<[u8; 32]>); 4]>;

impl Trx {
    /// Deletes the row. After an error nothing has changed.
    pub async fn delete(&mut self, table: &Arc<Table>, row: RowAt<'_>) -> Result<()> {
        self.ensure_id().await?;
        self.pace().await;
        let mut gone = Entries::new();
        let mut e = std::mem::take(&mut self.scratch.entry);
        for (no, _) in table.secondary() {
            table.entry_key(no, row.stored, row.key, &mut e);
            gone.push((no as u8, SmallVec::from_slice(&e)));
        }
        self.scratch.entry = e;
        let start = self.savepoint();
        let done = self.delete_with_entries(table, row, &gone).await;
        if done.is_err() {
            self.rollback_to(start).await?;
        }
        done
    }
    async fn delete_with_entries(
        &mut self,
        table: &Arc<Table>,
        row: RowAt<'_>,
        gone: &Entries,
    ) -> Result<()> {
        self.lock_unique_entries(table, row, gone).await?;
        let chains: SmallVec<[u32; 2]> =
            table.layout.externals(row.stored).map(|(_, page, _)| page).collect();
        self.change(table, row, None, gone, &chains).await?;
        table.rows.fetch_sub(1, Relaxed);
        table.changes.fetch_add(2, Relaxed);
        self.mark_entries(table, gone).await
    }

    /// Changes the row to `new`, a stored payload that `RowLayout::update` made from the old
    /// payload, so that unchanged long columns stay references. After `DuplicateKey` nothing has
    /// changed.
    pub async fn update(&mut self, table: &Arc<Table>, row: RowAt<'_>, new: &[u8]) -> Result<()> {
        self.ensure_id().await?;
        self.pace().await;
        if !table.hidden_key {
            let mut key = std::mem::take(&mut self.scratch.key);
            table.new_key(new, &mut key);
            let moved = key != row.key;
            self.scratch.key = key;
            if moved {
                return self.move_row(table, row, new).await;
            }
        }
        let start = self.savepoint();
        let (mut gone, mut come) = (Entries::new(), Entries::new());
        let (mut a, mut b) =
            (std::mem::take(&mut self.scratch.entry), std::mem::take(&mut self.scratch.payload));
        let mut entries = 0;
        for (no, _) in table.secondary() {
            table.entry_key(no, row.stored, row.key, &mut a);
            table.entry_key(no, new, row.key, &mut b);
            entries += record::ENTRY_HEAD + b.len();
            if a != b {
                check_key(&b)?;
                gone.push((no as u8, SmallVec::from_slice(&a)));
                come.push((no as u8, SmallVec::from_slice(&b)));
            }
        }
        (self.scratch.entry, self.scratch.payload) = (a, b);
        let done = self.update_in_place(table, row, new, &gone, &come, entries).await;
        if done.is_err() {
            self.rollback_to(start).await?;
        }
        done
    }
    async fn update_in_place(
        &mut self,
        table: &Arc<Table>,
        row: RowAt<'_>,
        new: &[u8],
        gone: &Entries,
        come: &Entries,
        entries: usize,
    ) -> Result<()> {
        self.lock_unique_entries(table, row, gone).await?;
        for (no, e) in come {
            let ix = &table.indexes[*no as usize];
            if ix.def.unique && !ix.key.has_null(&table.layout, new) {
                self.check_unique(table, *no as usize, &e[..e.len() - row.key.len()], row.key)
                    .await?;
            }
        }
        let stored = overflow::externalize(self, table, row.key.len(), new).await?;
        deletable(table, row.key, entries, &stored)?;
        let kept = |page: u32| table.layout.externals(&stored).any(|(_, p, _)| p == page);
        let chains: SmallVec<[u32; 2]> = table
            .layout
            .externals(row.stored)
            .map(|(_, page, _)| page)
            .filter(|p| !kept(*p))
            .collect();
        self.change(table, row, Some(&stored), gone, &chains).await?;
        if !come.is_empty() {
            table.changes.fetch_add(1, Relaxed);
        }
        self.mark_entries(table, gone).await?;
        for (no, e) in come {
            let ix = &table.indexes[*no as usize];
            loop {
                match entry::insert(&self.engine.store, &self.engine.locks, &self.locks, ix, e) {
                    Ok(()) => break,
                    Err(s) => self.unblocked(s).await?,
                }
            }
        }
        Ok(())
    }
    /// Updates a row whose clustered key changes.
    async fn move_row(&mut self, table: &Arc<Table>, row: RowAt<'_>, new: &[u8]) -> Result<()> {
        let start = self.savepoint();
        let whole = overflow::internalize(&self.engine, table, new).await?;
        let mut key = Vec::new();
        table.new_key(&whole, &mut key);
        let mut done = Box::pin(self.delete(table, row)).await;
        if done.is_ok() {
            done = self.insert_at(table, &key, &whole, Mode::S).await;
        }
        if done.is_err() {
            self.rollback_to(start).await?;
        }
        done
    }

    async fn lock_unique_entries(
        &mut self,
        table: &Arc<Table>,
        row: RowAt<'_>,
        gone: &Entries,
    ) -> Result<()> {
        for (no, e) in gone {
            let ix = &table.indexes[*no as usize];
            if !ix.def.unique || ix.key.has_null(&table.layout, row.stored) {
                continue;
            }
            while let Err(s) = self.lock_unique(table, *no as usize, &e[..e.len() - row.key.len()])
            {
                self.unblocked(s).await?;
            }
        }
        Ok(())
    }
    async fn mark_entries(&mut self, table: &Arc<Table>, gone: &Entries) -> Result<()> {
        for (no, e) in gone {
            let ix = &table.indexes[*no as usize];
            loop {
                match entry::mark(&self.engine.store, ix, e, true, false) {
                    Ok(true) => break,
                    Ok(false) => {
                        return Err(self.broken(
                            table,
                            &format!("index '{}' has no entry for a row", ix.def.name),
                        ));
                    }
                    Err(s) => self.unblocked(s).await?,
                }
            }
        }
        Ok(())
    }
    fn broken(&self, table: &Table, why: &str) -> Error {
        let (file, _) = self.engine.describe(table.space);
        Error::Corrupt {
            page: PageId { space: table.space, no: 0 },
            file,
            table: table.full_name(),
            why: format!("{why}; run CHECK TABLE"),
        }
    }

    /// Changes the clustered record to a new payload, or marks it deleted if `new` is None.
    async fn change(
        &mut self,
        table: &Arc<Table>,
        row: RowAt<'_>,
        new: Option<&[u8]>,
        gone: &Entries,
        chains: &[u32],
    ) -> Result<()> {
        if gone.len() + chains.len() > record::OBSOLETE_MAX {
            return Err(Error::UndoTooLong {
                size: gone.len() + chains.len(),
                max: record::OBSOLETE_MAX,
            });
        }
        let mut obsolete: SmallVec<[Obsolete<'_>; 6]> =
            gone.iter().map(|(index, key)| Obsolete::Entry { index: *index, key }).collect();
        obsolete.extend(chains.iter().map(|c| Obsolete::Chain(*c)));
        let mut hint = Some(row.leaf);
        loop {
            let tree = &table.clustered().tree;
            let blocked = match self.try_change(table, row.key, new, &obsolete, hint.take()) {
                Ok(Tried::Done) => return Ok(()),
                Ok(Tried::Full(len, _)) => tree.split(&self.engine.store, 0, row.key, len).err(),
                Ok(Tried::NeedsUndo(len)) => {
                    self.undo.make_room(&self.engine.store, &self.engine.undo, len).err()
                }
                Ok(Tried::Duplicate) => return Err(self.broken(table, "a locked row has gone")),
                Err(s) => Some(s),
            };
            if let Some(s) = blocked {
                self.unblocked(s).await?;
            }
        }
    }
    fn try_change(
        &mut self,
        table: &Table,
        key: &[u8],
        new: Option<&[u8]>,
        obsolete: &[Obsolete<'_>],
        hint: Option<(u32, u64)>,
    ) -> Try<Tried> {
        let engine = self.engine.clone();
        let tree = &table.clustered().tree;
        let mut m = Mtr::begin(&engine.store)?;
        let again = match hint {
            Some((no, lsn)) if no != 0 => tree.leaf_x_again(&mut m, no, lsn)?,
            _ => None,
        };
        let leaf = match again {
            Some(at) => at,
            None => tree.leaf_x(&mut m, key)?,
        };
        let page = m.page(leaf);
        let pos = index::search(page, key);
        let Some(r) = pos.found.filter(|r| !index::is_marked(page, *r)) else {
            return Ok(Tried::Duplicate);
        };
        let v = index::value(page, r);
        let (owner, old) = (value::trx(v), value::payload(v));
        debug_assert!(
            owner == self.id || !engine.sys.is_active(owner),
            "the cursor has locked the row"
        );
        let was = OldVersion { trx: owner, roll: value::roll(v), flags: 0 };
        let mut undo = std::mem::take(&mut self.scratch.undo);
        record::change(
            &mut undo,
            self.undo.head(table.id),
            was,
            key,
            obsolete,
            old,
            new.unwrap_or(old),
        );
        if undo.len() > record::MAX {
            let size = undo.len();
            self.scratch.undo = undo;
            return Err(WouldBlock::Failed(Error::UndoTooLong { size, max: record::MAX }));
        }
        let grows =
            new.map(|n| value::HEAD + n.len()).filter(|len| !index::fits_value(page, r, *len));
        let mut run = |mut m: Mtr<'_>| {
            if let Some(len) = grows {
                return Ok(Tried::Full(len, false));
            }
            if !self.undo.has_room(undo.len()) {
                return Ok(Tried::NeedsUndo(undo.len()));
            }
            let raise = match new {
                Some(n) => table.latch_counter(&mut m, n)?,
                None => None,
            };
            let slot = self.undo.reserve(&mut m, self.id, undo.len())?;
            table.raise_counter(&mut m, &raise);
            let roll = slot.roll(false);
            let head = value::head(self.id, roll);
            match new {
                Some(n) => index::replace_value(&mut m.patch(leaf), pos, 0, &[&head, n]),
                None => {
                    let at = index::value_at(m.page(leaf), r);
                    use crate::page::Patch;
                    m.patch(leaf).write_changed(at, &head);
                    index::set_flags(&mut m.patch(leaf), r, DELETE_MARK);
                }
            }
            self.undo.write(&mut m, &engine.undo, slot, &undo, roll);
            self.locks.set_undo_records(self.undo.count.into());
            let end = m.commit();
            if raise.is_some() {
                table.counter_raised(raise, end);
                self.counter_raised = Some(end);
            }
            Ok(Tried::Done)
        };
        let tried = run(m);
        self.scratch.undo = undo;
        tried
    }
}

//! Insert: the clustered record with its undo record, and then an entry in each secondary index.
use super::entry::{self, Search};
use super::{overflow, value};
use crate::btree::{Appended, Seek};
use crate::canary::{Canary, planted};
use crate::dict::table::{Index, Table};
use crate::lock::{LockKey, Mode};
use crate::mtr::{At, Mtr};
use crate::page::index::{self, MAX_KEY};
use crate::trx::Trx;
use crate::undo::record::{self, OldVersion};
use crate::{Error, Result, Try, WouldBlock, runtime};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The result of an attempt that did not have to wait.
pub(crate) enum Tried {
    Done,
    /// The leaf has no room for a record with a value of this many bytes, which would or would not
    /// follow the transaction's last insert in the leaf.
    Full(usize, bool),
    /// The transaction's undo page has no room for the undo record, which has this many bytes.
    NeedsUndo(usize),
    Duplicate,
}

pub(crate) fn duplicate(table: &Table, no: usize) -> Error {
    let name = if no == 0 { "PRIMARY" } else { &table.indexes[no].def.name };
    let (table, index) = (table.def.name.clone(), name.to_string());
    Error::DuplicateKey { table, index, index_no: no, row: Vec::new() }
}
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > MAX_KEY {
        Err(Error::KeyTooLong { size: key.len(), max: MAX_KEY })
    } else {
        Ok(())
    }
}

/// Checks that the undo record of a later deletion of the row will fit in a page. This record names
/// the row's entries, which need `entries` bytes, and its long columns.
pub(crate) fn deletable(table: &Table, key: &[u8], entries: usize, stored: &[u8]) -> Result<()> {
    let chains = table.layout.externals(stored).count();
    let size = record::CHANGE_HEAD + key.len() + entries + chains * record::CHAIN_LEN;
    if size > record::MAX || table.secondary().count() + chains > record::OBSOLETE_MAX {
        return Err(Error::RowTooLarge { size, max: record::MAX });
    }
    Ok(())
}

impl Trx {
    /// Inserts a row. `payload` is the result of `RowLayout::encode`. `DuplicateKey` names the
    /// index whose key is taken; nothing has changed then, and an existing row with the primary key
    /// is locked shared.
    pub async fn insert(&mut self, table: &Arc<Table>, payload: &[u8]) -> Result<()> {
        self.insert_or_lock(table, payload, Mode::S).await
    }
    /// Inserts a row, and locks an existing row with the primary key in mode `found`. A caller that
    /// is going to change the existing row takes it exclusively at once: of several sessions that
    /// first share it, all but one would be deadlock victims.
    pub async fn insert_or_lock(
        &mut self,
        table: &Arc<Table>,
        payload: &[u8],
        found: Mode,
    ) -> Result<()> {
        self.ensure_id().await?;
        self.pace().await;
        let mut key = std::mem::take(&mut self.scratch.key);
        table.new_key(payload, &mut key);
        let start = self.savepoint();
        let done = self.insert_at(table, &key, payload, found).await;
        self.scratch.key = key;
        if done.is_err() {
            self.rollback_to(start).await?;
        }
        done
    }
    /// Inserts a row. After an error the caller has to roll back to its savepoint, because long
    /// columns may have been written already.
    pub(crate) async fn insert_at(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        payload: &[u8],
        found: Mode,
    ) -> Result<()> {
        check_key(key)?;
        let stored = overflow::externalize(self, table, key.len(), payload).await?;
        let ix = table.clustered();
        loop {
            let blocked = match self.try_insert(table, key, &stored, found) {
                Ok(Tried::Done) => break,
                Ok(Tried::Full(len, follows)) => {
                    ix.tree.split_for(&self.engine.store, 0, key, len, follows).err()
                }
                Ok(Tried::NeedsUndo(len)) => {
                    self.undo.make_room(&self.engine.store, &self.engine.undo, len).err()
                }
                Ok(Tried::Duplicate) => return Err(duplicate(table, 0)),
                Err(s) => Some(s),
            };
            if let Some(s) = blocked {
                self.unblocked(s).await?;
            }
        }
        table.rows.fetch_add(1, Relaxed);
        self.insert_entries(table, key, payload, &stored).await
    }
    /// Inserts the entries of a row, which is in the clustered index as `stored`.
    pub(super) async fn insert_entries(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        payload: &[u8],
        stored: &[u8],
    ) -> Result<()> {
        if table.entries_later.load(Relaxed) {
            return Ok(());
        }
        let mut e = std::mem::take(&mut self.scratch.entry);
        let (mut done, mut entries) = (Ok(()), 0);
        for (no, ix) in table.secondary() {
            table.entry_key(no, payload, key, &mut e);
            entries += record::ENTRY_HEAD + e.len();
            done = self
                .insert_entry(table, no, &e, key, ix.key.has_null(&table.layout, payload))
                .await;
            if done.is_err() {
                break;
            }
        }
        self.scratch.entry = e;
        done.and_then(|()| deletable(table, key, entries, stored))
    }
    /// Latches the leaf for a new row, and finds the row's place: without a descent if the row
    /// follows the transaction's last insert.
    pub(super) fn leaf_for_insert(
        &mut self,
        m: &mut Mtr<'_>,
        ix: &Index,
        key: &[u8],
    ) -> Try<(At, index::Pos)> {
        let appended = self.scratch.appended;
        let again = match appended {
            Some(after) => ix.tree.leaf_x_behind(m, after, key)?,
            None => None,
        };
        let leaf = match again {
            Some(leaf) => leaf,
            None => ix.tree.leaf_x(m, key)?,
        };
        let page = m.page(leaf);
        let behind = appended.filter(|_| again.is_some());
        // The place is good for as long as nobody changes the leaf. A row that does not go in now
        // comes again and finds it.
        self.scratch.appended = behind;
        let pos = match behind.and_then(|after| index::behind(page, after.rec, key)) {
            Some(pos) => pos,
            None => index::search(page, key),
        };
        Ok((leaf, pos))
    }
    fn try_insert(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        payload: &[u8],
        found: Mode,
    ) -> Try<Tried> {
        let engine = self.engine.clone();
        let ix = table.clustered();
        let mut m = Mtr::begin(&engine.store)?;
        let (leaf, pos) = self.leaf_for_insert(&mut m, ix, key)?;
        let page_no = m.page_no(leaf);
        let len = value::HEAD + payload.len();
        let mut undo = std::mem::take(&mut self.scratch.undo);
        let tried = (|| {
            if let Some(r) = pos.found {
                // Another transaction may still roll back the existing row, or hold a lock on the
                // deleted row.
                let page = m.page(leaf);
                let owner = value::trx(index::value(page, r));
                let lock = LockKey::new(ix.id, key);
                self.wait_for(owner, lock)?;
                let live = !index::is_marked(page, r);
                engine.locks.lock_row(&self.locks, lock, if live { found } else { Mode::X })?;
                if live {
                    return Ok(Some(Tried::Duplicate));
                }
                let v = index::value(page, r);
                let old =
                    OldVersion { trx: owner, roll: value::roll(v), flags: index::flags(page, r) };
                record::change(
                    &mut undo,
                    self.undo.head(table.id),
                    old,
                    key,
                    &[],
                    value::payload(v),
                    payload,
                );
            } else {
                record::insert(&mut undo, self.undo.head(table.id), key);
            }
            engine.locks.check_insert(&self.locks, &ix.ranges, key)?;
            let room = match pos.found {
                Some(r) => index::fits_value(m.page(leaf), r, len),
                None => index::fits(m.page(leaf), key.len(), len),
            };
            if !room {
                return Ok(Some(Tried::Full(len, self.scratch.appended.is_some())));
            }
            if !self.undo.has_room(undo.len()) {
                return Ok(Some(Tried::NeedsUndo(undo.len())));
            }
            Ok::<_, WouldBlock>(None)
        })();
        let result = match tried {
            Ok(None) => table.latch_counter(&mut m, payload).and_then(|raise| {
                let slot = self.undo.reserve(&mut m, self.id, undo.len())?;
                table.raise_counter(&mut m, &raise);
                let roll = slot.roll(pos.found.is_none());
                let head = value::head(self.id, roll);
                let rec = match pos.found {
                    Some(_) => {
                        index::replace_value(&mut m.patch(leaf), pos, 0, &[&head, payload]);
                        None
                    }
                    None => {
                        let rec = index::insert(&mut m.patch(leaf), pos, 0, key, &[&head, payload]);
                        Some(rec).filter(|rec| index::next_rec(m.page(leaf), *rec).is_none())
                    }
                };
                self.undo.write(&mut m, &engine.undo, slot, &undo, roll);
                self.locks.set_undo_records(self.undo.count.into());
                let end = m.commit();
                self.scratch.appended =
                    rec.map(|rec| Appended { index: ix.id, page: page_no, lsn: end.0, rec });
                table.counter_raised(raise, end);
                if table.is_counter_pending(engine.store.log.durable()) {
                    self.counter_raised = Some(end);
                }
                Ok(Tried::Done)
            }),
            Ok(Some(t)) => Ok(t),
            Err(s) => Err(s),
        };
        self.scratch.undo = undo;
        result
    }

    /// Adds a row's entry to a secondary index. A unique index is searched for the key first, under
    /// a lock on the key.
    pub(crate) async fn insert_entry(
        &mut self,
        table: &Arc<Table>,
        no: usize,
        e: &[u8],
        clustered: &[u8],
        has_null: bool,
    ) -> Result<()> {
        check_key(e)?;
        let ix = &table.indexes[no];
        if ix.def.unique && !has_null {
            self.check_unique(table, no, &e[..e.len() - clustered.len()], clustered).await?;
        }
        loop {
            match entry::insert(&self.engine.store, &self.engine.locks, &self.locks, ix, e) {
                Ok(()) => return Ok(()),
                Err(s) => self.unblocked(s).await?,
            }
        }
    }
    /// Locks a unique key for this transaction, and checks that no other row has the key.
    pub(crate) async fn check_unique(
        &mut self,
        table: &Arc<Table>,
        no: usize,
        prefix: &[u8],
        own: &[u8],
    ) -> Result<()> {
        let ix = &table.indexes[no];
        let mut after = Vec::new();
        loop {
            let found = self.lock_unique(table, no, prefix).and_then(|()| {
                let store = &self.engine.store;
                entry::find_duplicate(store, ix, prefix, own, &mut after, |key| {
                    self.wait_for_recovered(table, key)
                })
            });
            match found {
                Ok(Search::Free) => return Ok(()),
                Ok(Search::Taken) => return Err(duplicate(table, no)),
                Ok(Search::GoesOn) => runtime::give_way(&*self.engine.runtime).await,
                Err(s) => self.unblocked(s).await?,
            }
        }
    }
    /// Waits for the writer of the row at `key`, if recovery found the writer unfinished. Such a
    /// transaction has no locks on keys of unique indexes. If its rollback could not finish at the
    /// start (TRX-C), a transaction that finds an entry of the row waits for it as for a row lock.
    fn wait_for_recovered(&self, table: &Table, key: &[u8]) -> Try<()> {
        if self.engine.background_rollbacks() == 0 {
            return Ok(());
        }
        let ix = table.clustered();
        let g = ix.tree.leaf(&self.engine.store, Seek::Key(key))?;
        let Some(r) = index::search(&g, key).found else { return Ok(()) };
        let (owner, lock) = (value::trx(index::value(&g, r)), LockKey::new(ix.id, key));
        if owner != self.id && self.engine.sys.is_active(owner) {
            self.wait_for(owner, lock)?;
            self.engine.locks.lock_row(&self.locks, lock, Mode::S)?;
        }
        Ok(())
    }
    /// Locks a key of a unique index. A transaction that adds or marks an entry of a unique index
    /// holds the lock on the entry's key until its end, so an entry that is found without waiting
    /// is final.
    pub(crate) fn lock_unique(&self, table: &Table, no: usize, prefix: &[u8]) -> Try<()> {
        if planted(Canary::UniqueUnlocked) {
            return Ok(());
        }
        self.engine
            .locks
            .lock_row(&self.locks, LockKey::new(table.indexes[no].id, prefix), Mode::X)
            .map(|_| ())
    }
}

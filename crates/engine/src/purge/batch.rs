//! The items that some undo records have made obsolete. A batch gathers and sorts them and removes
//! them leaf by leaf, so that neighbours share a descent, a latch and a frame of redo.
//!
//! A page of undo has a hundred undo logs of short transactions or more. Most changes leave nothing
//! but entries of secondary indexes behind. Purge looks into the clustered index only for changes
//! that may be deletions ([`Rest::may_delete`]).
use super::newer::{ENTRIES_AT_ONCE, Newer};
use super::work::Turn;
use crate::btree::{Seek, structure};
use crate::dict::table::{Index, Table};
use crate::engine::Engine;
use crate::mtr::Mtr;
use crate::page::index;
use crate::row::version::{self, Version};
use crate::row::{entry, value};
use crate::undo::record::{Obsolete, OldVersion, Rest, RollPtr};
use crate::{PageNo, Result, SpaceId, TrxId, Try, WouldBlock};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The most entries or records that are checked under one leaf's latch, and removed in one
/// mini-transaction.
const GROUP: usize = 32;
/// A batch that has more items than this, or as many bytes or tables, takes no further undo page.
pub(super) const MOST_ENTRIES: usize = 32 << 10;
const MOST_BYTES: usize = 2 << 20;
const MOST_TABLES: usize = 64;
/// The most undo pages of a batch.
const MOST_PAGES: usize = 256;
/// So many of a row's newest versions are looked at for an entry alone; if they do not tell, a walk
/// answers for the entries of the batch.
const FEW: usize = 8;

/// An entry of a secondary index, or a deleted record, which may be obsolete.
struct Gone {
    /// The place of its table in `Batch::tables`, and the number of its index; 0 is the clustered
    /// index, for a record.
    table: u16,
    no: u16,
    /// The place of its key in `Batch::bytes`, and the length of the clustered key at the key's
    /// end.
    at: u32,
    len: u32,
    clustered: u32,
    /// The undo record that named it.
    roll: RollPtr,
}
impl Gone {
    /// The place of the key in `Batch::bytes`, and of the clustered key at its end.
    fn range(&self) -> Range<usize> {
        self.at as usize..(self.at + self.len) as usize
    }
    fn clustered_range(&self) -> Range<usize> {
        (self.at + self.len - self.clustered) as usize..(self.at + self.len) as usize
    }
}
/// A batch of obsolete items. Its memory is used again and again.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    gone: Vec<Gone>,
    tables: Vec<Arc<Table>>,
    /// The number of undo records of changes.
    pub changes: u64,
    /// The chains of long columns, which are freed later (PURGE-4).
    pub chains: Vec<(SpaceId, PageNo)>,
    walk: Version,
    key: Vec<u8>,
    newer: Newer,
    /// The most undo pages of the batch.
    pub pages: usize,
    /// The undo pages, or undo logs, that the step has taken from the history.
    pub taken: usize,
}
/// A state of the batch, to which it can go back.
pub(super) struct Mark {
    bytes: usize,
    gone: usize,
    changes: u64,
    chains: usize,
}
impl Batch {
    pub(super) fn clear(&mut self) {
        if self.gone.capacity() > MOST_ENTRIES / 8 {
            (self.gone, self.bytes) = (Vec::new(), Vec::new());
        }
        self.tables.clear();
        self.newer.clear();
        self.back_to(&Mark { bytes: 0, gone: 0, changes: 0, chains: 0 });
    }
    /// Whether the items of another undo page may be added to those of `pages`.
    pub(super) fn takes_more(&self, pages: usize) -> bool {
        pages == 0
            || pages < self.pages
                && self.gone.len() < MOST_ENTRIES
                && self.bytes.len() < MOST_BYTES
                && self.tables.len() < MOST_TABLES
    }
    /// The batch is done: the most undo pages of the next one (NEWER-4).
    fn next_pages(&self) -> usize {
        let items = self.gone.len() as u64;
        match self.newer.read {
            read if read > items => (2 * self.pages).clamp(2, MOST_PAGES),
            read if 4 * read < items.max(1) => self.pages / 2,
            _ => self.pages,
        }
    }
    /// Begins to walk for the entries of the batch.
    fn ask(&mut self) {
        for g in self.gone.iter().filter(|g| g.no > 0) {
            let entry = Batch::key_of(&self.bytes, g);
            self.newer.add(self.tables[g.table as usize].id, g.no.into(), entry);
        }
    }
    pub(super) fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            gone: self.gone.len(),
            changes: self.changes,
            chains: self.chains.len(),
        }
    }
    pub(super) fn back_to(&mut self, to: &Mark) {
        self.bytes.truncate(to.bytes);
        self.gone.truncate(to.gone);
        self.chains.truncate(to.chains);
        self.changes = to.changes;
    }
    /// The place of table `id` in `tables`. None if the table does not exist any more.
    fn table(&mut self, engine: &Engine, id: u64) -> Option<usize> {
        if let Some(i) = self.tables.iter().rposition(|t| t.id == id) {
            return Some(i);
        }
        self.tables.push(engine.dict.by_id(id)?);
        Some(self.tables.len() - 1)
    }
    fn put(&mut self, table: usize, no: usize, key: &[u8], clustered: usize, roll: RollPtr) {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.gone.push(Gone {
            table: table as u16,
            no: no as u16,
            at,
            len: key.len() as u32,
            clustered: clustered as u32,
            roll,
        });
    }
    /// Adds the items that a change by `owner` has made obsolete. `roll` points to its undo record.
    pub(super) fn add(
        &mut self,
        engine: &Engine,
        owner: TrxId,
        table: u64,
        old: OldVersion,
        key: &[u8],
        rest: Rest<'_>,
        roll: RollPtr,
    ) {
        self.changes += 1;
        let Some(t) = self.table(engine, table) else { return };
        let (first, last, space) = (1, self.tables[t].indexes.len(), self.tables[t].space);
        let numbered = owner >= self.tables[t].numbered_since;
        for o in rest.obsolete() {
            match o {
                Obsolete::Chain(page) => self.chains.push((space, page)),
                Obsolete::Entry { index, key: e } if e.ends_with(key) => {
                    let index = index as usize;
                    let of = if numbered {
                        index.max(first)..(index + 1).min(last)
                    } else {
                        first..last
                    };
                    of.for_each(|no| self.put(t, no, e, key.len(), roll));
                }
                Obsolete::Entry { .. } => {}
            }
        }
        if old.flags & index::DELETE_MARK == 0 && rest.may_delete() {
            self.put(t, 0, key, key.len(), roll);
        }
    }
    fn key_of<'b>(bytes: &'b [u8], g: &Gone) -> &'b [u8] {
        &bytes[g.range()]
    }
    /// Sorts entries before records, so that a removed record has no entries left.
    fn sort(&mut self) {
        let bytes = &self.bytes;
        let place = |g: &Gone| (g.no == 0, g.table, g.no);
        self.gone.sort_unstable_by(|a, b| match place(a).cmp(&place(b)) {
            Ordering::Equal => {
                Batch::key_of(bytes, a).cmp(Batch::key_of(bytes, b)).then(a.roll.0.cmp(&b.roll.0))
            }
            other => other,
        });
    }
}

impl Engine {
    /// Removes the items of the batch that are not needed. Returns false if the rest has to be done
    /// later (PURGE-7); the whole batch may be done again then.
    pub(super) async fn purge_batch(&self, b: &mut Batch, turn: &mut Turn) -> Result<bool> {
        b.sort();
        let (mut i, mut counted) = (0, 0);
        while i < b.gone.len() {
            let table = b.tables[b.gone[i].table as usize].clone();
            let group = if b.newer.is_walking() {
                self.walk_on(b, &table, i)
            } else if b.gone[i].no == 0 {
                self.remove_records(b, &table, i)
            } else {
                self.remove_entries(b, &table, i)
            };
            let n = match group {
                Ok(n) => n,
                // PURGE-6
                Err(blocked) => {
                    let ready = match blocked {
                        WouldBlock::LogSpace(_) => self.room_for_purge().await,
                        other => self.unblocked(other).await,
                    };
                    match ready {
                        Ok(()) => 0,
                        Err(_) if self.purge_gives_way() => return Ok(self.give_up(b)),
                        // A table that was altered or renamed has its rows in the same trees.
                        Err(_) if self.dict.is_gone(&table) => {
                            b.newer.end_walk();
                            1
                        }
                        Err(e) => return Err(e),
                    }
                }
            };
            i += n;
            let read = b.newer.read - std::mem::replace(&mut counted, b.newer.read);
            self.history.counts.newer_read.fetch_add(read, Relaxed);
            turn.count_read(self, n, read).await;
            if self.purge_gives_way() {
                return Ok(self.give_up(b));
            }
        }
        b.pages = b.next_pages();
        self.history.batch_pages.store(b.pages, Relaxed);
        Ok(true)
    }
    /// The batch is to be done again. The next one is smaller, so that it ends however often purge
    /// is held off.
    fn give_up(&self, b: &Batch) -> bool {
        self.history.batch_pages.store(b.pages / 2, Relaxed);
        false
    }
    pub(super) fn purge_gives_way(&self) -> bool {
        self.history.is_held() || self.closing.load(Acquire)
    }

    /// Handles the entry at `from` and the entries behind it that are in the same leaf. Returns
    /// their number; 0 if a walk has to go on first.
    fn remove_entries(&self, b: &mut Batch, table: &Table, from: usize) -> Try<usize> {
        let no = b.gone[from].no as usize;
        let ix = &table.indexes[no];
        let first = b.gone[from].range();
        let mut m = Mtr::begin(&self.store)?;
        let leaf = ix.tree.leaf_x(&mut m, &b.bytes[first])?;
        let mut obsolete: SmallVec<[Range<usize>; GROUP]> = SmallVec::new();
        let (mut n, read) = (0, b.newer.read);
        // All entries are checked before the first change (MTR-1).
        let to = from + same_tree(&b.gone, from).count();
        for i in from..to {
            let (e, page) = (b.gone[i].range(), m.page(leaf));
            if n > 0 && index::high_key(page).is_some_and(|h| &b.bytes[e.clone()] >= h) {
                break;
            }
            if let Some(r) = index::search(page, &b.bytes[e.clone()]).found
                && index::is_marked(page, r)
                && obsolete.last().is_none_or(|last| b.bytes[last.clone()] != b.bytes[e.clone()])
            {
                match self.is_needed(b, table, i) {
                    Ok(Some(true)) => {}
                    Ok(Some(false)) => obsolete.push(e),
                    // The walk goes on at its place when this entry is the first of a group
                    // (VERS-1, NEWER-3).
                    Ok(None) => break,
                    Err(_) if n > 0 => break,
                    Err(blocked) => return Err(blocked),
                }
            }
            n += 1;
            if b.newer.read - read >= ENTRIES_AT_ONCE as u64 {
                break;
            }
        }
        let obsolete: SmallVec<[&[u8]; GROUP]> =
            obsolete.into_iter().map(|e| &b.bytes[e]).collect();
        self.remove_all(m, leaf, ix, &obsolete);
        Ok(n)
    }
    /// Whether a version of its row, back to the horizon, has the entry `b.gone[i]` (PURGE-2).
    /// `None` if a walk has to go on first.
    fn is_needed(&self, b: &mut Batch, table: &Table, i: usize) -> Try<Option<bool>> {
        let no = b.gone[i].no as usize;
        let (e, key) = (b.gone[i].range(), b.gone[i].clustered_range());
        let g = table.clustered().tree.leaf(&self.store, Seek::Key(&b.bytes[key.clone()]))?;
        let Some(r) = index::search(&g, &b.bytes[key.clone()]).found else {
            return Ok(Some(false));
        };
        let horizon = self.horizon.read();
        let v = index::value(&g, r);
        if horizon.sees(value::trx(v)) {
            // No view needs an older version, so this version decides, and need not be copied.
            let payload = value::payload(v);
            if index::is_marked(&g, r)
                || table.indexes[no].key.external_column(&table.layout, payload).is_some()
            {
                return Ok(Some(false));
            }
            table.entry_key(no, payload, &b.bytes[key], &mut b.key);
            return Ok(Some(b.key == b.bytes[e]));
        }
        if !b.newer.knows(table.id, &b.bytes[key]) {
            let (entry, walk) = (&b.bytes[e.clone()], (&mut b.walk, &mut b.key));
            let over = |t| horizon.sees(t);
            let told =
                version::has_entry(&self.store, (table, no), entry, (&g, r), over, FEW, walk)?;
            if told.is_some() {
                return Ok(told);
            }
            if b.newer.is_empty() {
                b.ask();
            }
        }
        let (entry, most) = (&b.bytes[e], ENTRIES_AT_ONCE);
        b.newer.has_entry(&self.store, &horizon, (table, no), entry, (&g, r), most)
    }
    /// Goes on with the walk through the versions of the row of the entry `b.gone[i]`.
    fn walk_on(&self, b: &mut Batch, table: &Table, i: usize) -> Try<usize> {
        let key = &b.bytes[b.gone[i].clustered_range()];
        let g = table.clustered().tree.leaf(&self.store, Seek::Key(key))?;
        match index::search(&g, key).found {
            Some(r) => {
                let horizon = self.horizon.read();
                b.newer.walk(&self.store, &horizon, table, (&g, r), ENTRIES_AT_ONCE)?;
            }
            None => b.newer.end_walk(),
        }
        Ok(0)
    }
    /// Handles records in the same way: a record is removed if its undo record left it deleted
    /// (PURGE-3).
    fn remove_records(&self, b: &mut Batch, table: &Table, from: usize) -> Try<usize> {
        let Batch { bytes, gone, .. } = b;
        let ix = table.clustered();
        let first = Batch::key_of(bytes, &gone[from]);
        let is_gone = |page: &index::Page, g: &Gone| {
            let r = index::search(page, Batch::key_of(bytes, g)).found;
            r.is_some_and(|r| {
                index::is_marked(page, r) && value::roll(index::value(page, r)) == g.roll
            })
        };
        {
            // Many of the records are gone already, or not deleted.
            let page = ix.tree.leaf(&self.store, Seek::Key(first))?;
            let high = index::high_key(&page);
            let here = same_tree(gone, from)
                .take_while(|g| high.is_none_or(|h| Batch::key_of(bytes, g) < h));
            let idle = here.take_while(|g| !is_gone(&page, g)).count();
            if idle > 0 {
                return Ok(idle);
            }
        }
        let mut m = Mtr::begin(&self.store)?;
        let leaf = ix.tree.leaf_x(&mut m, first)?;
        let page = m.page(leaf);
        let high = index::high_key(page);
        let mut obsolete: SmallVec<[&[u8]; GROUP]> = SmallVec::new();
        let mut n = 0;
        for g in same_tree(gone, from) {
            let key = Batch::key_of(bytes, g);
            if n > 0 && high.is_some_and(|h| key >= h) {
                break;
            }
            if is_gone(page, g) {
                obsolete.push(key);
            }
            n += 1;
        }
        self.remove_all(m, leaf, ix, &obsolete);
        self.history.counts.removed.fetch_add(obsolete.len() as u64, Relaxed);
        Ok(n)
    }
    fn remove_all(&self, mut m: Mtr<'_>, leaf: crate::mtr::At, ix: &Index, keys: &[&[u8]]) {
        let Some(last) = keys.last() else { return };
        for key in keys {
            let pos = index::search(m.page(leaf), key);
            index::remove(&mut m.patch(leaf), pos);
        }
        let thin = structure::is_underfull(m.page(leaf)) && m.id(leaf).no != ix.tree.root;
        m.commit();
        if thin {
            entry::merge(&self.store, ix, last);
        }
    }
}
/// The items of the same tree from `from` on, up to the size of a group.
fn same_tree(gone: &[Gone], from: usize) -> impl Iterator<Item = &Gone> {
    let (table, no) = (gone[from].table, gone[from].no);
    gone[from..].iter().take(GROUP).take_while(move |g| (g.table, g.no) == (table, no))
}

#[cfg(all(test, not(model)))]
mod tests;

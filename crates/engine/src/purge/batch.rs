//! The items that some undo records have made obsolete. A batch gathers and sorts them and removes
//! them leaf by leaf, so that neighbours share a descent, a latch and a frame of redo.
//!
//! A page of undo has a hundred undo logs of short transactions or more. Most changes leave nothing
//! but entries of secondary indexes behind. Purge looks into the clustered index only for changes
//! that may be deletions ([`Rest::may_delete`]).
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
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The most entries or records that are checked under one leaf's latch, and removed in one
/// mini-transaction.
const GROUP: usize = 32;

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
        self.tables.clear();
        self.back_to(&Mark { bytes: 0, gone: 0, changes: 0, chains: 0 });
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
        &bytes[g.at as usize..(g.at + g.len) as usize]
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
        let mut i = 0;
        while i < b.gone.len() {
            let table = b.tables[b.gone[i].table as usize].clone();
            let group = if b.gone[i].no == 0 {
                self.remove_records(b, &table, i)
            } else {
                self.remove_entries(b, &table, i)
            };
            let n = match group {
                Ok(n) => n,
                // PURGE-6
                Err(blocked) => {
                    let settled = match blocked {
                        WouldBlock::LogSpace(_) => self.room_for_purge().await,
                        other => self.unblocked(other).await,
                    };
                    match settled {
                        Ok(()) => 0,
                        Err(_) if self.purge_gives_way() => return Ok(false),
                        Err(_) if table.dropped.load(Acquire) => 1,
                        Err(e) => return Err(e),
                    }
                }
            };
            i += n;
            turn.count(self, n).await;
            if self.purge_gives_way() {
                return Ok(false);
            }
        }
        Ok(true)
    }
    pub(super) fn purge_gives_way(&self) -> bool {
        self.history.is_held() || self.closing.load(Acquire)
    }

    /// Handles the entry at `from` and the entries behind it that are in the same leaf. Returns
    /// their number.
    fn remove_entries(&self, b: &mut Batch, table: &Table, from: usize) -> Try<usize> {
        let Batch { bytes, gone, walk, key, .. } = b;
        let no = gone[from].no as usize;
        let ix = &table.indexes[no];
        let first = Batch::key_of(bytes, &gone[from]);
        let mut m = Mtr::begin(&self.store)?;
        let leaf = ix.tree.leaf_x(&mut m, first)?;
        let mut obsolete: SmallVec<[&[u8]; GROUP]> = SmallVec::new();
        let mut n = 0;
        // All entries are checked before the first change (MTR-1).
        for g in same_tree(gone, from) {
            let e = Batch::key_of(bytes, g);
            let page = m.page(leaf);
            if n > 0 && index::high_key(page).is_some_and(|h| e >= h) {
                break;
            }
            if let Some(r) = index::search(page, e).found
                && index::is_marked(page, r)
                && obsolete.last() != Some(&e)
            {
                let clustered = &e[e.len() - g.clustered as usize..];
                match self.is_needed(table, no, e, clustered, walk, key) {
                    Ok(true) => {}
                    Ok(false) => obsolete.push(e),
                    // The walk goes on at its place when this entry is the first of a group
                    // (VERS-1).
                    Err(_) if n > 0 => break,
                    Err(blocked) => return Err(blocked),
                }
            }
            n += 1;
        }
        self.remove_all(m, leaf, ix, &obsolete);
        Ok(n)
    }
    /// Whether a version of the row, back to the horizon, has the entry in index `no` (PURGE-2).
    fn is_needed(
        &self,
        table: &Table,
        no: usize,
        e: &[u8],
        key: &[u8],
        walk: &mut Version,
        scratch: &mut Vec<u8>,
    ) -> Try<bool> {
        let g = table.clustered().tree.leaf(&self.store, Seek::Key(key))?;
        let Some(r) = index::search(&g, key).found else { return Ok(false) };
        let horizon = self.horizon.read();
        let v = index::value(&g, r);
        if horizon.sees(value::trx(v)) {
            // No view needs an older version, so this version decides, and need not be copied.
            let payload = value::payload(v);
            if index::is_marked(&g, r)
                || table.indexes[no].key.external_column(&table.layout, payload).is_some()
            {
                return Ok(false);
            }
            table.entry_key(no, payload, key, scratch);
            return Ok(scratch == e);
        }
        version::has_entry(&self.store, table, no, e, (&g, r), |t| horizon.sees(t), walk)
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

//! ALTER TABLE: indexes are added and dropped, and names and comments change, with one change of
//! the table's record.
//!
//! 1. The record names the trees of new indexes as unfinished, so that the next start frees them
//!    after a crash. Then they are made and built.
//! 2. **The change:** one dictionary transaction puts the new record, which also names the trees of
//!    dropped indexes as unfinished.
//! 3. The AUTO_INCREMENT counter is saved, if the statement sets it (COUNTER-3).
//! 4. The trees of dropped indexes are freed, and the record forgets them. Large trees are freed in
//!    the background ([`free_trees`](super::free_trees)).
//!
//! ALTER-1: an error or a crash before the end of step 2 leaves the table unchanged; after a later
//! error or crash the table is fully changed. But a crash before the end of step 3 brings back a
//! greater counter: in the other order, a crash could lower the counter of a table that is
//! unchanged, and values would be given again (COUNTER-2).
//!
//! ALTER-6: the record names a tree, with the page of its root, before the tree has any page. So
//! every page of a tree that a crash leaves unfinished is found. A tree whose root's page is free,
//! or belongs to another tree, has no pages.
use super::ddl::{Change, copy_counters, made_by};
use super::free_trees::AT_ONCE;
use super::histogram::kept_in_place;
use super::index_build::Building;
use super::record::{self, TableRecord, TreeRecord, make_table};
use super::table::Table;
use crate::engine::Engine;
use crate::mtr::{Mtr, Store};
use crate::page::index::Builder;
use crate::{Error, PageId, PageNo, Result, SpaceId, Try, space};
use redolith_types::{IndexDef, TableDef};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// The changes to a table.
pub struct Alteration {
    /// The new definition, with its name, schema and indexes: first the indexes that stay, in their
    /// order, then the new ones. If there are new ones, all indexes get MySQL's order, in which
    /// duplicates are looked for ([`TableDef::index_rank`]).
    pub def: TableDef,
    /// How many of the definition's last indexes are new.
    pub added: usize,
    /// Numbers, in the present definition, of the indexes to drop.
    pub dropped: Vec<usize>,
    /// The first AUTO_INCREMENT value, unless the table already has a greater value.
    pub auto_increment: Option<u64>,
    /// What travels with the commit of the change ([`crate::commit_stream`]).
    pub record: Option<Vec<u8>>,
}

impl Engine {
    /// Changes a table. Fails with `DuplicateKey` if a new unique index finds two rows with one
    /// key.
    pub async fn alter_table(
        self: &Arc<Self>,
        t: &Arc<Table>,
        to: Alteration,
        how: &Building,
    ) -> Result<Arc<Table>> {
        let moved = (&to.def.schema, &to.def.name) != (&t.def.schema, &t.def.name);
        if moved {
            self.dict.require_schema(&to.def.schema)?;
            if self.dict.is_taken(&to.def.schema, &to.def.name) {
                return Err(Error::TableExists(to.def.name));
            }
        }
        if to.added > 0 || !to.dropped.is_empty() {
            self.wait_for_rollbacks().await?;
        }
        let counter = match to.auto_increment {
            Some(n) => {
                // COUNTER-3: the new form begins with counters that are ready.
                self.open_table(t).await?;
                Some(n.max(self.least_next_of_rows(t, &how.kill).await?))
            }
            None => None,
        };
        let (t, trees) = match to.added {
            0 => (t.clone(), Vec::new()),
            added => {
                self.build_trees(t, &to.def.indexes[to.def.indexes.len() - added..], how).await?
            }
        };
        let mut r = t.record();
        let gone: Vec<TreeRecord> = to.dropped.iter().map(|n| r.trees[t.index_no(*n)]).collect();
        r.trees.retain(|tree| !gone.contains(tree));
        r.trees.extend(&trees);
        r.unfinished.retain(|tree| !trees.contains(tree));
        self.forget_freed(&mut r);
        r.unfinished.extend(&gone);
        r.def = to.def;
        if to.added > 0 {
            sort_indexes(&mut r);
        }
        // Purge takes no metadata lock, so it may be in one of these trees.
        let _held = if gone.is_empty() { None } else { Some(self.hold_purge().await) };
        let new = match self.replace_record(&t, r, counter, to.record).await {
            Ok(new) => new,
            Err(e) => {
                self.forget_trees(&t, &trees).await?;
                return Err(e);
            }
        };
        if moved && let Some(s) = self.store.spaces.get(new.space) {
            s.set_label(&new.full_name());
        }
        let saved = if counter.is_some() { self.save_counter(&new, true).await } else { Ok(None) };
        let new = if gone.is_empty() { new } else { self.clear_away(new, &gone, AT_ONCE).await? };
        if let Some(end) = saved? {
            self.store.log.flush_to(end).await;
        }
        Ok(new)
    }
    /// Adds secondary indexes.
    #[cfg(any(test, feature = "testing"))]
    pub async fn create_indexes(
        self: &Arc<Self>,
        t: &Arc<Table>,
        defs: Vec<IndexDef>,
        how: &Building,
    ) -> Result<Arc<Table>> {
        let (mut def, added) = (t.def.clone(), defs.len());
        def.indexes.extend(defs);
        self.alter_table(
            t,
            Alteration { def, added, dropped: Vec::new(), auto_increment: None, record: None },
            how,
        )
        .await
    }
    /// Drops secondary indexes by their numbers in the definition.
    #[cfg(any(test, feature = "testing"))]
    pub async fn drop_indexes(
        self: &Arc<Self>,
        t: &Arc<Table>,
        numbers: &[usize],
    ) -> Result<Arc<Table>> {
        let mut def = t.def.clone();
        let keep = |i: usize| !numbers.contains(&i);
        def.indexes = t
            .def
            .indexes
            .iter()
            .enumerate()
            .filter(|(i, _)| keep(*i))
            .map(|(_, d)| d.clone())
            .collect();
        self.alter_table(
            t,
            Alteration {
                def,
                added: 0,
                dropped: numbers.to_vec(),
                auto_increment: None,
                record: None,
            },
            &Building::in_memory(crate::lock::KillFlag::new()),
        )
        .await
    }
    /// Replaces the table's record, and thereby possibly its name. `counter` is the next
    /// AUTO_INCREMENT value, if that changes.
    pub(super) async fn replace_record(
        self: &Arc<Self>,
        t: &Arc<Table>,
        mut r: TableRecord,
        counter: Option<u64>,
        travels: Option<Vec<u8>>,
    ) -> Result<Arc<Table>> {
        r.auto_increment = counter.unwrap_or(r.auto_increment);
        let (old, name) = (
            record::table_name(&t.def.schema, &t.def.name),
            record::table_name(&r.def.schema, &r.def.name),
        );
        let row = record::table_row(&self.dict_table, &name, &r);
        let mut changes = match old == name {
            true => vec![Change::Put(name, row)],
            false => vec![Change::Remove(old), Change::Add(name, row)],
        };
        let had = self.dict.histograms(t.id).unwrap_or_default();
        let histograms = kept_in_place(&had, &t.def, &r.def);
        changes.extend(self.move_histograms(t, r.id, &histograms));
        let outlives = r.def.statistics.persistent != Some(false);
        if !outlives {
            changes.extend(self.dict.without_statistics(t));
        }
        let replaced = |trx| {
            let same = r.trees.len() >= t.indexes.len()
                && t.indexes.iter().zip(&r.trees).all(|(ix, tree)| ix.id == tree.id);
            let since = if same { t.numbered_since } else { trx };
            let new = make_table(&self.dict, r, since, |tree| made_by(t, tree, trx));
            copy_counters(t, &new);
            if let Some(n) = counter {
                new.auto_increment.store(n, Release);
            }
            self.dict.set_histograms(new.id, histograms);
            if !outlives {
                self.dict.set_stored_statistics(new.id, None);
            }
            self.dict.put_table(new.clone());
            new
        };
        self.change_dictionary(&changes, travels, replaced).await
    }
    /// Makes the trees of new indexes and fills them with the entries of the present rows. Returns
    /// the trees, and the table, whose record names them as unfinished.
    async fn build_trees(
        self: &Arc<Self>,
        t: &Arc<Table>,
        defs: &[IndexDef],
        how: &Building,
    ) -> Result<(Arc<Table>, Vec<TreeRecord>)> {
        let (t, trees) = self.new_trees(t, defs.len()).await?;
        if let Err(e) = self.fill_trees(&t, defs, &trees, how).await {
            self.forget_trees(&t, &trees).await?;
            return Err(e);
        }
        Ok((t, trees))
    }
    /// Makes empty trees, which the table's record names as unfinished before they have a page
    /// (ALTER-6).
    async fn new_trees(
        self: &Arc<Self>,
        t: &Arc<Table>,
        count: usize,
    ) -> Result<(Arc<Table>, Vec<TreeRecord>)> {
        let (first, mut t) = (self.take_ids(count as u64).await?, t.clone());
        loop {
            let roots = self.retry_in_time(|| free_pages(&self.store, t.space, count)).await?;
            let trees: Vec<_> =
                (first..).zip(roots).map(|(id, root)| TreeRecord { id, root }).collect();
            let mut r = t.record();
            self.forget_freed(&mut r);
            r.unfinished.extend(&trees);
            t = self.replace_record(&t, r, None, None).await?;
            match self.make_roots(t.space, &trees).await {
                Ok(true) => return Ok((t, trees)),
                // Somebody else has taken a page: purge may have completed a split.
                Ok(false) => t = self.clear_away(t, &trees, AT_ONCE).await?,
                Err(e) => {
                    self.forget_trees(&t, &trees).await?;
                    return Err(e);
                }
            }
        }
    }
    /// Makes the roots of empty trees. Returns false if one of the pages is not free any more.
    async fn make_roots(&self, space: SpaceId, trees: &[TreeRecord]) -> Result<bool> {
        for tree in trees {
            if !self.retry_in_time(|| new_root(&self.store, space, tree)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    /// Frees the trees of new indexes that could not be finished.
    async fn forget_trees(self: &Arc<Self>, t: &Arc<Table>, trees: &[TreeRecord]) -> Result<()> {
        if !trees.is_empty() {
            self.clear_away(t.clone(), trees, AT_ONCE).await?;
        }
        Ok(())
    }
}
/// Sorts the indexes and with them their trees; the tree of a hidden key stays the first.
fn sort_indexes(r: &mut TableRecord) {
    let trees = r.trees.split_off(r.trees.len() - r.def.indexes.len());
    let mut indexes: Vec<_> = std::mem::take(&mut r.def.indexes).into_iter().zip(trees).collect();
    indexes.sort_by_key(|(index, _)| r.def.index_rank(index));
    for (index, tree) in indexes {
        r.def.indexes.push(index);
        r.trees.push(tree);
    }
}
/// Looks for free pages, which stay free.
fn free_pages(store: &Store, space: SpaceId, count: usize) -> Try<SmallVec<[PageNo; 4]>> {
    let mut m = Mtr::begin(store)?;
    Ok(space::reserve(&mut m, space, count, 0)?.pages)
}
/// Makes the root of an empty tree. Returns false if its page is not free.
fn new_root(store: &Store, space: SpaceId, tree: &TreeRecord) -> Try<bool> {
    let mut m = Mtr::begin(store)?;
    let free = space::reserve(&mut m, space, 1, tree.root)?;
    if free.pages[..] != [tree.root] {
        return Ok(false);
    }
    let at = m.create(PageId { space, no: tree.root })?;
    free.take(&mut m);
    m.init(at);
    Builder::new(tree.id, 0).store(&mut m.patch(at));
    m.commit();
    Ok(true)
}
#[cfg(all(test, not(model)))]
mod tests;

//! Builds new secondary indexes of a table that has rows.
//!
//! The entries of all rows are sorted, in memory and, if they outgrow it, in a temporary file
//! ([`Sorter`]). Then the tree is built from the sorted entries, leaf by leaf ([`TreeBuilder`]).
//! The caller holds the table's metadata lock exclusively, so nobody changes rows meanwhile.
//!
//! - INDEXBUILD-1: two rows with one key in a unique index are neighbours among the sorted entries,
//!   and the build fails with `DuplicateKey`, which names one of the two. Keys with a NULL are
//!   never equal.
//! - INDEXBUILD-2: until the dictionary names the new index, its record names the tree as
//!   unfinished, so that an error or the start after a crash frees the tree (ALTER-1, BUILD-1).
use super::record::{TreeRecord, make_table};
use super::table::{Index, Table};
use crate::btree::build::{FILL, TreeBuilder};
use crate::engine::Engine;
use crate::lock::KillFlag;
use crate::page::index;
use crate::progress::{Progress, Stage};
use crate::row::cursor::{Cursor, Read};
use crate::row::insert::{check_key, deletable};
use crate::sort::Sorter;
use crate::temporary::TemporarySpace;
use crate::trx::Turn;
use crate::undo::record as undo_record;
use crate::{Error, Result, Try};
use redolith_types::IndexDef;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

/// The progress is told whenever so many rows were read, or entries written.
const TOLD: u64 = 1024;

/// How indexes are built.
#[derive(Clone)]
pub struct Building {
    /// Ends the work when it is set.
    pub kill: Arc<KillFlag>,
    /// The bytes of entries that are sorted in memory.
    pub memory: usize,
    /// Where the entries go that outgrow the memory; None: nowhere, and the build fails with
    /// `TemporarySpaceFull`.
    pub space: Option<Arc<TemporarySpace>>,
    /// The bytes of a leaf that are filled: less than a page, since later entries need room.
    pub fill: usize,
    /// Where the work is seen from outside.
    pub progress: Arc<Progress>,
}
impl Building {
    /// Sorts all entries in memory.
    pub fn in_memory(kill: Arc<KillFlag>) -> Building {
        Building::in_memory_up_to(kill, usize::MAX, Progress::new())
    }
    /// Sorts up to `memory` bytes of entries, in memory. More of them are an error.
    pub fn in_memory_up_to(
        kill: Arc<KillFlag>,
        memory: usize,
        progress: Arc<Progress>,
    ) -> Building {
        Building { kill, memory, space: None, fill: FILL, progress }
    }
    /// Sorts up to `memory` bytes of entries in memory, and more in files of `space`.
    pub fn in_files(
        kill: Arc<KillFlag>,
        memory: usize,
        space: Arc<TemporarySpace>,
        progress: Arc<Progress>,
    ) -> Building {
        Building { kill, memory, space: Some(space), fill: FILL, progress }
    }
    /// The memory that the sort of one index's entries needs at most, if they go to files: a buffer
    /// may be twice as long as its bytes, a second list of the entries exists while they are
    /// sorted, and the parts of three levels that are merged (SORT-2) have a buffer each.
    pub fn memory_to_build(&self) -> usize {
        if self.space.is_some() { 4 * self.memory + (768 << 10) } else { 0 }
    }
    fn go_on(&self) -> Result<()> {
        if self.kill.is_killed() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// The key of the last entry of a unique index.
struct Unique<'t> {
    plan: &'t Table,
    no: usize,
    last: Vec<u8>,
}
impl Unique<'_> {
    /// Fails if `entry` has the last entry's key (INDEXBUILD-1). `tail` is the length of the key,
    /// 0 if the key has a NULL.
    fn check(&mut self, entry: &[u8], tail: &[u8]) -> Result<()> {
        let len = tail.first_chunk().map_or(0, |len| u16::from_le_bytes(*len)) as usize;
        let (key, row) = entry.split_at(len.min(entry.len()));
        if len > 0 && key == self.last {
            let def = &self.plan.indexes[self.no].def;
            return Err(Error::DuplicateKey {
                table: self.plan.def.name.clone(),
                index: def.name.clone(),
                index_no: self.no,
                row: row.to_vec(),
            });
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }
}

impl Engine {
    /// Fills the trees of new indexes, which are empty, with the entries of the present rows.
    pub(super) async fn fill_trees(
        self: &Arc<Self>,
        t: &Arc<Table>,
        defs: &[IndexDef],
        trees: &[TreeRecord],
        how: &Building,
    ) -> Result<()> {
        let mut r = t.record();
        r.unfinished.clear();
        r.trees.extend(trees);
        r.def.indexes.extend_from_slice(defs);
        let plan = make_table(&self.dict, r, t.numbered_since, |_| crate::TrxId::NONE);
        self.fill_from(t, &plan, t.indexes.len(), how).await
    }
    /// Fills the trees of all secondary indexes of a table that only its maker knows.
    pub(super) async fn fill_own_trees(
        self: &Arc<Self>,
        t: &Arc<Table>,
        how: &Building,
    ) -> Result<()> {
        self.fill_from(t, t, 1, how).await
    }
    async fn fill_from(
        self: &Arc<Self>,
        t: &Arc<Table>,
        plan: &Table,
        first: usize,
        how: &Building,
    ) -> Result<()> {
        let mut done = Ok(());
        for (no, ix) in plan.indexes.iter().enumerate().skip(first) {
            done = self.fill_tree(t, plan, no, ix, how).await;
            if done.is_err() {
                break;
            }
        }
        how.progress.end();
        done
    }
    async fn fill_tree(
        self: &Arc<Self>,
        t: &Arc<Table>,
        plan: &Table,
        no: usize,
        ix: &Index,
        how: &Building,
    ) -> Result<()> {
        let mut sorter = Sorter::new(None);
        let filled = self.fill_with(&mut sorter, t, plan, no, ix, how).await;
        if sorter.is_in_file() {
            // To close a large file takes long.
            self.runtime.leave_worker();
        }
        drop(sorter);
        filled
    }
    async fn fill_with(
        self: &Arc<Self>,
        sorter: &mut Sorter,
        t: &Arc<Table>,
        plan: &Table,
        no: usize,
        ix: &Index,
        how: &Building,
    ) -> Result<()> {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        how.progress.begin(Stage::Sorting, rows);
        let count = self.sort_entries(sorter, t, plan, no, ix, how).await?;
        how.progress.begin(Stage::Indexing, count);
        self.write_entries(plan, no, ix, sorter, how).await
    }
    /// Sorts the entries of all rows. Behind each entry of a unique index is the length of its key.
    async fn sort_entries(
        self: &Arc<Self>,
        sorter: &mut Sorter,
        t: &Arc<Table>,
        plan: &Table,
        no: usize,
        ix: &Index,
        how: &Building,
    ) -> Result<u64> {
        let mut trx = self.begin(how.kill.clone());
        let mut rows = Cursor::new(t.clone(), 0, Vec::new(), None, false, Read::Newest);
        let (mut entry, mut other, mut count) = (Vec::new(), Vec::new(), 0u64);
        // With few indexes and no long columns the undo record of a row's deletion has room for the
        // entries of all indexes.
        let many = plan.secondary().count() * (undo_record::ENTRY_HEAD + index::MAX_KEY)
            > undo_record::MAX / 2;
        while rows.next(&mut trx).await? {
            let row = rows.row();
            if ix.key.external_column(&plan.layout, row.stored).is_some() {
                // Key columns must be in the row itself, and this column is too long for that.
                return Err(Error::RowTooLarge {
                    size: row.stored.len(),
                    max: index::max_value(row.key.len()),
                });
            }
            plan.entry_key(no, row.stored, row.key, &mut entry);
            check_key(&entry)?;
            if many || plan.layout.externals(row.stored).next().is_some() {
                deletable_with(plan, row.key, row.stored, &mut other)?;
            }
            let is_unique = ix.def.unique && !ix.key.has_null(&plan.layout, row.stored);
            let len = if is_unique { entry.len() - row.key.len() } else { 0 } as u16;
            sorter.push(&entry, |out| {
                if ix.def.unique {
                    out.extend_from_slice(&len.to_le_bytes());
                }
            })?;
            count += 1;
            how.go_on()?;
            if count.is_multiple_of(TOLD) {
                how.progress.set_done(count);
            }
            if sorter.bytes() >= how.memory {
                let space = how.space.as_ref().ok_or(Error::TemporarySpaceFull { limit: 0 })?;
                sorter.spill(space, &*self.disk, &*self.runtime, || how.go_on()).await?;
            }
        }
        trx.rollback().await?;
        sorter.sort(&*self.runtime, || how.go_on()).await?;
        Ok(count)
    }
    /// Goes to the next entry. A task that reads a file has left its worker.
    async fn next_entry(&self, sorter: &mut Sorter, turn: &mut Turn) -> Result<bool> {
        turn.count(self).await;
        if sorter.reads_next() {
            self.runtime.leave_worker();
        }
        sorter.advance()
    }
    async fn write_entries(
        &self,
        plan: &Table,
        no: usize,
        ix: &Index,
        sorter: &mut Sorter,
        how: &Building,
    ) -> Result<()> {
        let (mut tree, mut count) = (TreeBuilder::new(&ix.tree, how.fill), 0u64);
        let mut unique = Unique { plan, no, last: Vec::new() };
        let mut turn = Turn::default();
        while self.next_entry(sorter, &mut turn).await? {
            let entry = sorter.key();
            if ix.def.unique {
                unique.check(entry, sorter.row())?;
            }
            if !tree.push(entry) {
                self.in_time_unless_killed(how, || tree.next_leaf(&self.store, entry)).await?;
                let fits = tree.push(entry);
                assert!(fits, "an empty leaf has room for any key");
            }
            count += 1;
            how.go_on()?;
            if count.is_multiple_of(TOLD) {
                how.progress.set_done(count);
            }
        }
        self.in_time_unless_killed(how, || tree.finish(&self.store)).await
    }
    /// As `retry_in_time`, for a step that KILL ends while it waits.
    async fn in_time_unless_killed<T>(
        &self,
        how: &Building,
        call: impl FnMut() -> Try<T>,
    ) -> Result<T> {
        let mut step = pin!(self.retry_in_time(call));
        poll_fn(|cx| match step.as_mut().poll(cx) {
            Poll::Pending if how.kill.poll(cx.waker()) => Poll::Ready(Err(Error::Interrupted)),
            polled => polled,
        })
        .await
    }
    /// The table as if it had one more secondary index, the last of them: for messages about its
    /// rows' keys. The index has no tree.
    pub fn with_index(&self, t: &Table, def: &IndexDef) -> Arc<Table> {
        let mut r = t.record();
        r.trees.push(TreeRecord { id: 0, root: 0 });
        r.def.indexes.push(def.clone());
        make_table(&self.dict, r, t.numbered_since, |_| crate::TrxId::NONE)
    }
}

/// Checks that a row can be deleted when it has entries in all indexes. Indexes that cannot hold
/// the row are left out: their own build refuses the row.
fn deletable_with(plan: &Table, key: &[u8], stored: &[u8], entry: &mut Vec<u8>) -> Result<()> {
    let others =
        plan.secondary().filter(|(_, ix)| ix.key.external_column(&plan.layout, stored).is_none());
    let entries = others.map(|(no, _)| {
        plan.entry_key(no, stored, key, entry);
        undo_record::ENTRY_HEAD + entry.len()
    });
    deletable(plan, key, entries.sum(), stored)
}

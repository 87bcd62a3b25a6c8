//! Frees the trees of dropped indexes, and of new ones that were not finished.
//!
//! A tree has as many pages as its index is large, and neither a statement that was killed or that
//! drops an index nor a start waits for all of them: it frees some, and a task in the background
//! frees the rest.
//!
//! - FREETREE-1: the table's record names a tree as unfinished until all its pages are freed, so
//!   that the start after a crash or a shutdown goes on with what is left. A record that changes
//!   forgets the trees that a task has freed.
//! - FREETREE-2: the task does nothing while DDL holds purge off or the redo log has no room for
//!   purge (PURGE-6), and ends when the table's file is gone.
//! - FREETREE-3: before it serves anybody, a start frees no more than one page of each table's
//!   unfinished trees. A record whose trees have no other page forgets them, so that the next start
//!   need not look for them again. One task frees the others, and a table whose trees cannot be
//!   freed for the moment does not hold up the next one.
use super::record::{TableRecord, TreeRecord};
use super::table::Table;
use crate::btree::Tree;
use crate::engine::Engine;
use crate::mtr::{Mtr, Store};
use crate::page::index;
use crate::runtime::let_others_run;
use crate::trx::Turn;
use crate::{Error, PageId, Result, SpaceId, Try, space};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

/// The pages that a statement frees, and the task between two looks at who wants to go first.
pub(super) const AT_ONCE: u64 = 64;
/// How long the task waits while it may not go on.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it waits after an error that may pass.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The trees of a table that are to be freed.
struct Rest {
    space: SpaceId,
    trees: Vec<TreeRecord>,
    table: String,
    /// The last attempt has told of an error that may pass.
    failed: bool,
}
impl Rest {
    fn new(t: &Table, trees: &[TreeRecord]) -> Rest {
        Rest { space: t.space, trees: trees.to_vec(), table: t.full_name(), failed: false }
    }
}

impl Engine {
    /// Frees the trees that the record names as unfinished: `most` pages of them now, and the rest
    /// in the background, as after an error that may pass. Trees that cannot be freed, because a
    /// page is damaged, stay in use, and the record forgets them all the same.
    pub(super) async fn clear_away(
        self: &Arc<Self>,
        t: Arc<Table>,
        trees: &[TreeRecord],
        most: u64,
    ) -> Result<Arc<Table>> {
        if self.free_now(&t, trees, most).await {
            self.forget(t, trees).await
        } else {
            self.free_later([Rest::new(&t, trees)].into());
            Ok(t)
        }
    }
    /// Frees at most `most` pages of trees. Returns true when nothing is left to do for them.
    async fn free_now(&self, t: &Table, trees: &[TreeRecord], most: u64) -> bool {
        match self.free_trees(t.space, trees, most).await {
            Ok(all) => all,
            Err(e) => {
                tell_failure(&t.full_name(), &e);
                matches!(e, Error::Corrupt { .. })
            }
        }
    }
    /// Makes the table's record forget trees.
    async fn forget(self: &Arc<Self>, t: Arc<Table>, trees: &[TreeRecord]) -> Result<Arc<Table>> {
        let mut r = t.record();
        r.unfinished.retain(|tree| !trees.contains(tree));
        self.replace_record(&t, r, None, None).await
    }
    /// Takes the trees that are freed, or will not be, out of a record's unfinished ones
    /// (FREETREE-1).
    pub(super) fn forget_freed(&self, r: &mut TableRecord) {
        // Other trees, as those of a build that was given up, are for the next start.
        let mut freeing = self.freeing.lock();
        r.unfinished.retain(|tree| {
            let is_freed = freeing.get(&tree.id) == Some(&true);
            if is_freed {
                freeing.remove(&tree.id);
            }
            !is_freed
        });
    }
    /// Begins, at start, to free the trees that belong to no index (FREETREE-3). A record that
    /// cannot forget them yet is left to the next start, or to the next DDL.
    pub(crate) async fn free_unfinished(self: &Arc<Self>) {
        let (tables, mut rest) = (std::mem::take(&mut *self.unfinished.lock()), VecDeque::new());
        for id in tables {
            let Some(t) = self.dict.by_id(id) else { continue };
            let trees = t.unfinished.clone();
            if self.free_now(&t, &trees, 1).await {
                if let Err(e) = self.forget(t.clone(), &trees).await {
                    tracing::warn!(
                        "the dictionary's record of {} still names trees that are free: {e}",
                        t.full_name()
                    );
                }
            } else {
                rest.push_back(Rest::new(&t, &trees));
            }
        }
        if !rest.is_empty() {
            self.free_later(rest);
        }
    }
    /// Frees trees in the background.
    fn free_later(self: &Arc<Self>, mut rest: VecDeque<Rest>) {
        let trees = rest.iter().flat_map(|rest| &rest.trees);
        self.freeing.lock().extend(trees.map(|tree| (tree.id, false)));
        self.spawn("free-trees", move |engine| async move {
            while let Some(mut next) = rest.pop_front() {
                if engine.free_some(&mut next).await {
                    engine.freeing.lock().extend(next.trees.iter().map(|tree| (tree.id, true)));
                } else {
                    rest.push_back(next);
                    if rest.iter().all(|rest| rest.failed) {
                        engine.nap(AFTER_ERROR).await;
                    }
                }
                if engine.closing.load(Acquire) {
                    return;
                }
                let_others_run(&*engine.runtime).await;
            }
        });
    }
    /// Frees some pages of these trees. Returns true when nothing is left to do.
    async fn free_some(&self, rest: &mut Rest) -> bool {
        if self.room_for_purge().await.is_err() {
            self.nap(PAUSE).await;
            return false;
        }
        let Some(_working) = self.history.start() else {
            self.nap(PAUSE).await;
            return false;
        };
        // FREETREE-2
        match self.free_trees(rest.space, &rest.trees, AT_ONCE).await {
            Ok(all) => {
                rest.failed = false;
                all
            }
            Err(_) if self.store.spaces.is_known_gone(rest.space) => true,
            Err(e @ Error::Corrupt { .. }) => {
                tell_failure(&rest.table, &e);
                true
            }
            Err(e) => {
                if !std::mem::replace(&mut rest.failed, true) {
                    tell_failure(&rest.table, &e);
                }
                false
            }
        }
    }
    /// Whether trees are being freed in the background.
    #[cfg(any(test, feature = "testing"))]
    pub fn frees_trees(&self) -> bool {
        self.freeing.lock().values().any(|done| !done)
    }
    /// Frees at most `most` pages of trees that nobody uses: level by level from the leaves, with
    /// the root last, so that freeing can begin again after a crash. Returns whether these were
    /// all. Lack of room in the redo log does not end it: like a rollback it waits.
    pub(super) async fn free_trees(
        &self,
        space: SpaceId,
        trees: &[TreeRecord],
        most: u64,
    ) -> Result<bool> {
        let (mut turn, mut left) = (Turn::default(), most);
        for tree in trees {
            if !self.retry(|| space::is_in_use(&self.store, space, tree.root)).await? {
                continue; // It is freed, or a crash or an error came before its root (ALTER-6).
            }
            let t = Tree::new(space, tree.root, tree.id);
            while !self.retry(|| free_leftmost(&self.store, &t)).await? {
                left -= 1;
                if left == 0 {
                    return Ok(false);
                }
                turn.count(self).await;
            }
        }
        Ok(true)
    }
}
fn tell_failure(table: &str, e: &Error) {
    tracing::warn!("the pages of dropped indexes could not be freed in the file of {table}: {e}");
}
/// Frees the page of the leftmost leaf, or of a node that has lost its children. Returns true when
/// the root has been freed, too.
fn free_leftmost(store: &Store, t: &Tree) -> Try<bool> {
    let mut m = Mtr::begin_reserved(store)?;
    let mut parent = m.x(PageId { space: t.space, no: t.root })?;
    if !index::is_index(m.page(parent)) || index::index_id(m.page(parent)) != t.index {
        return Ok(true);
    }
    let mut child = None;
    while index::level(m.page(parent)) > 0 {
        let Some(first) = index::first_rec(m.page(parent)) else { break };
        let id = PageId { space: t.space, no: index::child(m.page(parent), first) };
        let c = m.x(id)?;
        // What a damaged tree leads to may be another index's, and is not freed.
        let below = index::level(m.page(parent)) - 1;
        t.expect_page(store, id, m.page(c), Some(below))?;
        if index::level(m.page(c)) == 0 || index::first_rec(m.page(c)).is_none() {
            child = Some(c);
            break;
        }
        parent = c;
    }
    let target = child.unwrap_or(parent);
    // A crash may have left an incomplete split, whose new page only its left neighbour knows. That
    // page takes the freed page's place in the parent.
    let unknown = child
        .filter(|c| index::is_incomplete(m.page(*c)))
        .map(|c| (index::next_page(m.page(c)), index::level(m.page(c))));
    if let Some((right, level)) = unknown {
        let right = PageId { space: t.space, no: right };
        t.expect_other(store, m.id(target), right)?;
        let at = m.x(right)?;
        t.expect_page(store, right, m.page(at), Some(level))?;
    }
    let id = m.id(target);
    let map = space::prepare_free(&mut m, id)?;
    if child.is_some() {
        let first = index::first_rec(m.page(parent)).expect("it has the child");
        let pos = index::search(m.page(parent), index::key(m.page(parent), first));
        match unknown {
            Some((right, _)) => {
                index::replace_value(&mut m.patch(parent), pos, 0, &[&right.to_le_bytes()])
            }
            None => index::remove(&mut m.patch(parent), pos),
        }
    }
    space::free(&mut m, target, map);
    m.commit();
    Ok(child.is_none())
}

#[cfg(all(test, not(model)))]
mod tests;

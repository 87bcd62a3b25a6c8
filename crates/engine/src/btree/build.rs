//! Builds a tree from keys that come in their order: each leaf is filled in memory and written
//! once. Nobody else uses the tree meanwhile.
//!
//! A leaf that is full gets its content, its high key and an empty right neighbour in one
//! mini-transaction; a second one tells the level above, as after a split. The redo log so has each
//! leaf's bytes once, and the tree is whole after every mini-transaction.
//!
//! - BUILD-1: every page of an unfinished tree can be reached from its root, or is the right
//!   neighbour of a page that is marked incomplete. So a tree that a crash or an error leaves
//!   unfinished can be freed page by page, and no page is lost.
use super::Tree;
use crate::mtr::{Mtr, Store};
use crate::page::index::{self, Builder, REC};
use crate::{PAGE_SIZE, PageNo, Try, space};

/// The bytes of a leaf that are filled. A sixteenth stays free for later entries, as in InnoDB.
pub(crate) const FILL: usize = PAGE_SIZE / 16 * 15;

/// A tree that is being built.
pub(crate) struct TreeBuilder<'t> {
    tree: &'t Tree,
    /// The most bytes of entries in a leaf that has more than one.
    fill: usize,
    leaf: Builder,
    /// The page of the leaf; None while the root is the only page.
    page: Option<PageNo>,
    /// The last key.
    last: Vec<u8>,
    /// A leaf whose right neighbour the level above does not know yet.
    incomplete: Option<PageNo>,
}

impl<'t> TreeBuilder<'t> {
    /// Begins with a tree that is one empty leaf.
    pub(crate) fn new(tree: &'t Tree, fill: usize) -> TreeBuilder<'t> {
        let leaf = Builder::new(tree.index, 0);
        TreeBuilder { tree, fill, leaf, page: None, last: Vec::new(), incomplete: None }
    }
    /// Whether the key is behind the last one. No key is empty.
    pub(crate) fn is_next(&self, key: &[u8]) -> bool {
        &self.last[..] < key
    }
    /// Adds a key behind the last one. Returns false if the leaf is full: the caller then calls
    /// [`next_leaf`](Self::next_leaf), and adds the key again.
    pub(crate) fn push(&mut self, key: &[u8]) -> bool {
        let page = self.leaf.page();
        let is_first = index::n_recs(page) == 0;
        debug_assert!(self.is_next(key), "keys come in their order");
        // The high key is at most one byte longer than the last key.
        let high_key = REC + key.len() + 1;
        if !is_first
            && (index::used(page) + REC + key.len() > self.fill
                || !self.leaf.has_room(key.len(), 0, high_key))
        {
            return false;
        }
        self.leaf.push(0, key, &[]);
        self.last.clear();
        self.last.extend_from_slice(key);
        true
    }
    /// Writes the full leaf and goes on to a new one, for keys from `next` on. After a `WouldBlock`
    /// the caller repeats the call.
    pub(crate) fn next_leaf(&mut self, store: &Store, next: &[u8]) -> Try<()> {
        if self.incomplete.is_none() {
            match self.page {
                Some(page) => self.write_leaf(store, page, next)?,
                None => self.raise_root(store, next)?,
            }
        }
        if let Some(left) = self.incomplete {
            self.tree.complete(store, 0, left)?;
            self.incomplete = None;
        }
        Ok(())
    }
    /// Writes the last leaf.
    pub(crate) fn finish(&mut self, store: &Store) -> Try<()> {
        let mut m = Mtr::begin(store)?;
        let at = m.x(self.tree.page_id(self.page.unwrap_or(self.tree.root)))?;
        self.leaf.store(&mut m.patch(at));
        m.commit();
        Ok(())
    }
    /// The leaf, complete but for the number of its right neighbour.
    fn bounded(&mut self, next: &[u8]) -> Vec<u8> {
        let separator = index::separator(&self.last, next).to_vec();
        index::set_high_key(&mut self.leaf, Some(&separator));
        separator
    }
    fn write_leaf(&mut self, store: &Store, page: PageNo, next: &[u8]) -> Try<()> {
        let mut m = Mtr::begin(store)?;
        let l = m.x(self.tree.page_id(page))?;
        let free = space::reserve(&mut m, self.tree.space, 1, page + 1)?;
        let right = free.pages[0];
        let r = m.create(self.tree.page_id(right))?;
        // Nothing fails from here on.
        free.take(&mut m);
        self.bounded(next);
        index::set_next_page(&mut self.leaf, right);
        index::set_incomplete(&mut self.leaf, true);
        let empty = Builder::new(self.tree.index, 0);
        m.init(r);
        empty.store(&mut m.patch(r));
        self.leaf.store(&mut m.patch(l));
        m.commit();
        (self.leaf, self.page, self.incomplete) = (empty, Some(right), Some(page));
        Ok(())
    }
    /// The first full leaf gets a page of its own, and the root becomes a node over it.
    fn raise_root(&mut self, store: &Store, next: &[u8]) -> Try<()> {
        let mut m = Mtr::begin(store)?;
        let root = m.x(self.tree.page_id(self.tree.root))?;
        let free = space::reserve(&mut m, self.tree.space, 2, self.tree.root + 1)?;
        let (left, right) = (free.pages[0], free.pages[1]);
        let l = m.create(self.tree.page_id(left))?;
        let r = m.create(self.tree.page_id(right))?;
        // Nothing fails from here on.
        free.take(&mut m);
        let separator = self.bounded(next);
        index::set_next_page(&mut self.leaf, right);
        let empty = Builder::new(self.tree.index, 0);
        let mut top = Builder::new(self.tree.index, 1);
        top.push(0, b"", &left.to_le_bytes());
        top.push(0, &separator, &right.to_le_bytes());
        for (at, content) in [(l, &self.leaf), (r, &empty), (root, &top)] {
            m.init(at);
            content.store(&mut m.patch(at));
        }
        m.commit();
        (self.leaf, self.page) = (empty, Some(right));
        Ok(())
    }
}

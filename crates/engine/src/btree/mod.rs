//! A B+tree of the B-link kind (Lehman and Yao, 1981): each page has a link to its right neighbour
//! and a high key. Descents couple latches on the way down.
//!
//! - A descent latches a child before it lets go of the parent, so the child cannot be freed in
//!   between: a merge holds the parent and both children.
//! - A split changes one level: the new page hangs behind the old page, which is marked
//!   *incomplete* until a second mini-transaction has told the parent. A thread that needs the
//!   parent's entry, or passes the page for a write, completes the split; readers go right. The
//!   tree has no lock as a whole.
//! - The root keeps its page number: it splits by moving its records into two new children.
//! - There is no link to the left. A backward scan descends again with the low key that the parent
//!   gave for the page.
//!
//! Invariants
//! - TREE-1: latch order is top-down, then left to right, then bitmap pages.
//! - TREE-2: every key of a page is at or above the page's low key (the key of the parent's record,
//!   or the left neighbour's high key) and below its high key.
//! - TREE-3: the page that `next` names has this page's high key as its low key.
//! - TREE-4: a node page is never empty; a leaf may be empty.
pub(crate) mod build;
pub(crate) mod structure;

use crate::buf::{Latch, PageGuard, PageIo};
use crate::mtr::{At, Mtr, Store};
use crate::page::index::{self, Page, Rec};
use crate::{Error, PageId, PageNo, SpaceId, Try, WouldBlock};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// An index's tree, shared by all users. Its only state is a hint.
pub struct Tree {
    pub space: SpaceId,
    pub root: PageNo,
    pub index: u64,
    /// The root's level when it was last seen, which tells the latch to take on the root.
    height: AtomicU16,
}

/// The target of a descent.
#[derive(Clone, Copy, Debug)]
pub enum Seek<'a> {
    /// The page to which the key belongs.
    Key(&'a [u8]),
    /// The last page of the level.
    Last,
    /// The page that holds the greatest key below this key, as far as the level above can tell.
    Before(&'a [u8]),
}

/// The place of the last insert.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    pub index: u64,
    pub page: PageNo,
    /// The page LSN behind the insert.
    pub lsn: u64,
    pub rec: Rec,
}

/// Notes that a descent makes on its way.
#[derive(Default)]
pub struct Path {
    /// The low key of the page that the descent reached.
    pub low: Vec<u8>,
    /// Level and number of a page with an incomplete split.
    incomplete: Option<(u16, PageNo)>,
}

impl Tree {
    pub fn new(space: SpaceId, root: PageNo, index: u64) -> Tree {
        Tree { space, root, index, height: AtomicU16::new(0) }
    }
    fn page_id(&self, no: PageNo) -> PageId {
        PageId { space: self.space, no }
    }
    pub(crate) fn expect(
        &self,
        store: &Store,
        g: &PageGuard,
        level: Option<u16>,
    ) -> Result<(), WouldBlock> {
        self.expect_page(store, g.id(), g, level)
    }
    /// As `expect`, for a page that a mini-transaction holds.
    pub(crate) fn expect_page(
        &self,
        store: &Store,
        id: PageId,
        p: &Page,
        level: Option<u16>,
    ) -> Result<(), WouldBlock> {
        let ok = index::is_index(p)
            && index::index_id(p) == self.index
            && level.is_none_or(|l| index::level(p) == l);
        if ok {
            Ok(())
        } else {
            Err(self.corrupt(
                store,
                id,
                format!("the tree of index {} leads to it, but it is another page", self.index),
            ))
        }
    }
    /// Checks that a latched page does not lead to itself: who asked for its latch again would wait
    /// for ever.
    pub(crate) fn expect_other(
        &self,
        store: &Store,
        here: PageId,
        next: PageId,
    ) -> Result<(), WouldBlock> {
        if next != here {
            return Ok(());
        }
        Err(self.corrupt(store, next, format!("in index {} it leads to itself", self.index)))
    }
    /// Checks TREE-3 for `next`: its keys begin where the keys of `g` end, and end further on. So a
    /// walk to the right always ends, even where pages of different times lie in one file.
    fn expect_right(
        &self,
        store: &Store,
        g: &PageGuard,
        next: &PageGuard,
    ) -> Result<(), WouldBlock> {
        self.expect(store, next, Some(index::level(g)))?;
        let goes_on = match (index::high_key(g), index::high_key(next)) {
            (None, _) => false,
            (Some(end), further) => {
                further.is_none_or(|f| f > end)
                    && index::first_rec(next).is_none_or(|r| index::key(next, r) >= end)
            }
        };
        if goes_on {
            Ok(())
        } else {
            Err(self.corrupt(
                store,
                next.id(),
                format!("its keys do not follow the keys of page {}, its left neighbour", g.id()),
            ))
        }
    }
    fn corrupt(&self, store: &Store, page: PageId, why: String) -> WouldBlock {
        let (file, table) = store.spaces.describe(self.space);
        WouldBlock::Failed(Error::Corrupt { page, file, table, why })
    }

    /// Descends to the page of `level` for `seek` and latches it with `latch`. If the tree has no
    /// such level (any more), the call returns the root, S-latched. `path`, if given, gets the
    /// descent's notes.
    pub fn descend(
        &self,
        store: &Store,
        seek: Seek<'_>,
        level: u16,
        latch: Latch,
        mut path: Option<&mut Path>,
    ) -> Try<PageGuard> {
        loop {
            let at_root = self.height.load(Relaxed) == level;
            let mut g =
                store.pool.fix(self.page_id(self.root), if at_root { latch } else { Latch::S })?;
            self.expect(store, &g, None)?;
            let mut here = index::level(&g);
            if (here == level) != at_root {
                self.height.store(here, Relaxed);
                if here == level {
                    continue;
                }
            }
            if here < level {
                return Ok(g);
            }
            if let Some(p) = path.as_deref_mut() {
                p.low.clear();
                p.incomplete = None;
            }
            loop {
                let held = if here == level { latch } else { Latch::S };
                while self.goes_right(&g, seek) {
                    if let Some(p) = path.as_deref_mut() {
                        p.low.clear();
                        p.low.extend_from_slice(index::high_key(&g).unwrap_or_default());
                        if index::is_incomplete(&g) {
                            p.incomplete = Some((here, g.id().no));
                        }
                    }
                    let next = self.page_id(index::next_page(&g));
                    self.expect_other(store, g.id(), next)?;
                    let next = store.pool.fix(next, held)?;
                    self.expect_right(store, &g, &next)?;
                    g = next;
                }
                if here == level {
                    return Ok(g);
                }
                let rec = child_for(&g, seek);
                if rec == index::INFIMUM {
                    // TREE-4 is violated; or the tree is being freed from the left, and this
                    // descent holds no lock on the table.
                    return Err(self.corrupt(
                        store,
                        g.id(),
                        format!(
                            "a node of index {} has no child for a key that it holds",
                            self.index
                        ),
                    ));
                }
                if let Some(p) = path.as_deref_mut()
                    && index::key(&g, rec) > &p.low[..]
                {
                    p.low.clear();
                    p.low.extend_from_slice(index::key(&g, rec));
                }
                let child = self.page_id(index::child(&g, rec));
                here -= 1;
                self.expect_other(store, g.id(), child)?;
                let next = store.pool.fix(child, if here == level { latch } else { Latch::S })?;
                self.expect(store, &next, Some(here))?;
                g = next;
            }
        }
    }
    fn goes_right(&self, p: &Page, seek: Seek<'_>) -> bool {
        // A search follows the look at the high key.
        index::prefetch_directory(p);
        match (index::high_key(p), seek) {
            (None, _) => false,
            (Some(h), Seek::Key(k)) => k >= h,
            (Some(h), Seek::Before(k)) => k > h,
            (Some(_), Seek::Last) => true,
        }
    }
    /// The leaf for `seek`, S-latched.
    pub fn leaf(&self, store: &Store, seek: Seek<'_>) -> Try<PageGuard> {
        self.descend(store, seek, 0, Latch::S, None)
    }
    /// The right neighbour of `g` on its level, S-latched while `g` is still latched.
    pub fn right_of(&self, store: &Store, g: &PageGuard) -> Try<Option<PageGuard>> {
        match index::next_page(g) {
            0 => Ok(None),
            no => {
                self.expect_other(store, g.id(), self.page_id(no))?;
                let next = store.pool.fix(self.page_id(no), Latch::S)?;
                self.expect_right(store, g, &next)?;
                Ok(Some(next))
            }
        }
    }
    /// Appends the numbers of the leaves for the keys from `low` on and below `high`, the first
    /// `most` of them. They are taken from the nodes above, and a leaf that has just been split off
    /// may be missing. Nothing is appended for a tree that is one leaf.
    pub(crate) fn leaves_of_range(
        &self,
        store: &Store,
        low: &[u8],
        high: Option<&[u8]>,
        most: usize,
        leaves: &mut Vec<PageNo>,
    ) -> Try<()> {
        let mut g = self.descend(store, Seek::Key(low), 1, Latch::S, None)?;
        if index::level(&g) != 1 {
            return Ok(());
        }
        let mut at = Some(child_for(&g, Seek::Key(low))).filter(|rec| *rec != index::INFIMUM);
        let first = leaves.len();
        while leaves.len() < first + most {
            match at {
                // The first leaf's own key may be lower than `low`, and so is no end.
                Some(rec)
                    if leaves.len() > first && high.is_some_and(|h| index::key(&g, rec) >= h) =>
                {
                    return Ok(());
                }
                Some(rec) => {
                    leaves.push(index::child(&g, rec));
                    at = index::next_rec(&g, rec);
                }
                None => match self.right_of(store, &g)? {
                    Some(next) => {
                        g = next;
                        at = index::next_rec(&g, index::INFIMUM);
                        if at.is_none() {
                            return Ok(());
                        }
                    }
                    None => return Ok(()),
                },
            }
        }
        Ok(())
    }
    /// The leaf for `key`, X-latched in `m`. The descent completes an incomplete split that it
    /// passes.
    pub fn leaf_x(&self, m: &mut Mtr<'_>, key: &[u8]) -> Try<At> {
        loop {
            let mut path = Path::default();
            let g = self.descend(m.store(), Seek::Key(key), 0, Latch::X, Some(&mut path))?;
            let Some((level, page)) = path.incomplete else { return Ok(m.hold(g)) };
            drop(g);
            m.step_aside(|store| self.complete(store, level, page))?;
        }
    }
    /// X-latches the leaf into which the last insert of a row went, for a row behind it, if nothing
    /// has changed the leaf since and the key belongs to it. Rows that come in the order of their
    /// keys so need no descents. The caller has made `after` in the same transaction, which keeps
    /// the tree from being dropped.
    pub fn leaf_x_behind(&self, m: &mut Mtr<'_>, after: Appended, key: &[u8]) -> Try<Option<At>> {
        if after.index != self.index {
            return Ok(None);
        }
        let g = m.store().pool.fix(self.page_id(after.page), Latch::X)?;
        let fits = index::is_index(&g)
            && index::index_id(&g) == self.index
            && crate::bytes::u64_at(&g[..], 16) == after.lsn
            && index::level(&g) == 0
            && !index::is_incomplete(&g)
            && index::covers(&g, key)
            && index::behind(&g, after.rec, key).is_some();
        Ok(fits.then(|| m.hold(g)))
    }
    /// X-latches a leaf seen before, if nothing has changed the leaf since (`lsn` is the page LSN
    /// seen then). The call spares the descent.
    pub fn leaf_x_again(&self, m: &mut Mtr<'_>, no: PageNo, lsn: u64) -> Try<Option<At>> {
        let g = m.store().pool.fix(self.page_id(no), Latch::X)?;
        let same = index::is_index(&g)
            && index::index_id(&g) == self.index
            && crate::bytes::u64_at(&g[..], 16) == lsn;
        Ok(same.then(|| m.hold(g)))
    }
}

/// The node record with the subtree for `seek`; the infimum if there is none (a violation of
/// TREE-4).
fn child_for(p: &Page, seek: Seek<'_>) -> Rec {
    match seek {
        Seek::Key(k) => index::search_child(p, k),
        Seek::Last => index::search_end(p).prev,
        Seek::Before(k) => {
            let pos = index::search(p, k);
            if pos.prev != index::INFIMUM { pos.prev } else { pos.found.unwrap_or(index::INFIMUM) }
        }
    }
}

//! The B+tree: a B-link tree (Lehman and Yao, 1981) whose pages have a link to the right and a high
//! key, with latch coupling on the way down.
//!
//! - A descent latches a child before it lets go of the parent, so a page that a descent is going
//!   to can be freed only behind its back: a merge holds the parent and both children.
//! - A split changes one level: the new page hangs behind the old one, which is marked *incomplete*
//!   until a second mini-transaction has told the parent. Whoever needs the parent's entry, or
//!   comes by for a write, completes it; readers go right. No lock on the index is ever held.
//! - The root keeps its page number: it splits by moving its records into two new children.
//! - There is no link to the left. A scan downwards descends again with the low key that the parent
//!   gave for the page.
//!
//! Invariants
//! - TREE-1: latch order is top-down, then left to right, then bitmap pages.
//! - TREE-2: every key of a page is >= its low key (the parent's record, or the left neighbour's
//!   high key) and < its high key.
//! - TREE-3: a page's `next` has this page's high key as its low key.
//! - TREE-4: a node page is never empty; a leaf may be.
pub(crate) mod structure;

use crate::buf::{Latch, PageGuard, PageIo};
use crate::mtr::{At, Mtr, Store};
use crate::page::index::{self, Page, Rec};
use crate::{Error, PageId, PageNo, SpaceId, Try, WouldBlock};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// An index's tree. Shared by all; has no state but a hint.
pub struct Tree {
    pub space: SpaceId,
    pub root: PageNo,
    pub index: u64,
    /// The root's level when last seen: tells which latch to take on it.
    height: AtomicU16,
}

/// Where a descent goes.
#[derive(Clone, Copy, Debug)]
pub enum Seek<'a> {
    /// To the page that holds the key or would.
    Key(&'a [u8]),
    /// To the last page of the level.
    Last,
    /// To the page that holds the greatest key below this one, as far as the level above can tell.
    Before(&'a [u8]),
}

/// What a descent met on its way.
#[derive(Default)]
pub struct Path {
    /// The low key of the page reached.
    pub low: Vec<u8>,
    /// A page whose split is not complete: level and page.
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
        let ok = index::is_index(g)
            && index::index_id(g) == self.index
            && level.is_none_or(|l| index::level(g) == l);
        if ok {
            Ok(())
        } else {
            Err(self.corrupt(
                store,
                g.id(),
                format!("not the page of index {} that the index's structure says", self.index),
            ))
        }
    }
    /// That `next` is what TREE-3 says. Its keys begin where those of `g` end, and end further on:
    /// so a walk to the right always comes to an end, also where pages of different times lie in
    /// one file.
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
                format!("its keys do not follow those of page {}, to whose right it is", g.id()),
            ))
        }
    }
    fn corrupt(&self, store: &Store, page: PageId, why: String) -> WouldBlock {
        let (file, table) = store.spaces.describe(self.space);
        WouldBlock::Failed(Error::Corrupt { page, file, table, why })
    }

    /// Descends to the page of `level` and latches it as asked; to the root, S-latched, if the tree
    /// is not that high (any more). `path` learns what was met, where the caller wants to know.
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
                    let next = store.pool.fix(self.page_id(index::next_page(&g)), held)?;
                    self.expect_right(store, &g, &next)?;
                    g = next;
                }
                if here == level {
                    return Ok(g);
                }
                let rec = child_for(&g, seek);
                if rec == index::INFIMUM {
                    // TREE-4; or the tree is being freed, from the left, while somebody looks at it
                    // without a lock on its table.
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
                let next = store.pool.fix(child, if here == level { latch } else { Latch::S })?;
                self.expect(store, &next, Some(here))?;
                g = next;
            }
        }
    }
    fn goes_right(&self, p: &Page, seek: Seek<'_>) -> bool {
        match (index::high_key(p), seek) {
            (None, _) => false,
            (Some(h), Seek::Key(k)) => k >= h,
            (Some(h), Seek::Before(k)) => k > h,
            (Some(_), Seek::Last) => true,
        }
    }
    /// The leaf for `seek`, to read.
    pub fn leaf(&self, store: &Store, seek: Seek<'_>) -> Try<PageGuard> {
        self.descend(store, seek, 0, Latch::S, None)
    }
    /// The page right of `g` on its level, S-latched while `g` still is.
    pub fn right_of(&self, store: &Store, g: &PageGuard) -> Try<Option<PageGuard>> {
        match index::next_page(g) {
            0 => Ok(None),
            no => {
                let next = store.pool.fix(self.page_id(no), Latch::S)?;
                self.expect_right(store, g, &next)?;
                Ok(Some(next))
            }
        }
    }
    /// The leaf for `key`, X-latched in `m`. Completes a split that it comes by.
    pub fn leaf_x(&self, m: &mut Mtr<'_>, key: &[u8]) -> Try<At> {
        loop {
            let mut path = Path::default();
            let g = self.descend(m.store(), Seek::Key(key), 0, Latch::X, Some(&mut path))?;
            let Some((level, page)) = path.incomplete else { return Ok(m.hold(g)) };
            drop(g);
            m.step_aside(|store| self.complete(store, level, page))?;
        }
    }
    /// A leaf seen before, X-latched again if nothing has changed it since (`lsn` is its page LSN
    /// then): spares the descent.
    pub fn leaf_x_again(&self, m: &mut Mtr<'_>, no: PageNo, lsn: u64) -> Try<Option<At>> {
        let g = m.store().pool.fix(self.page_id(no), Latch::X)?;
        let same = index::is_index(&g)
            && index::index_id(&g) == self.index
            && crate::bytes::u64_at(&g[..], 16) == lsn;
        Ok(same.then(|| m.hold(g)))
    }
}

/// The node record whose subtree is sought. The infimum if there is none (not TREE-4).
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

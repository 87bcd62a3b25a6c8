//! Splits and merges: the mini-transactions that change the shape of a tree.
use super::{Seek, Tree};
use crate::buf::Latch;
use crate::mtr::{At, Mtr, Store};
use crate::page::index::{self, Builder, Page, Rec};
use crate::{PAGE_SIZE, PageNo, Try, WouldBlock, space};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Two pages are merged if their contents fill at most this part of a page.
const MERGED_MAX: usize = PAGE_SIZE * 3 / 4;
/// A page with less content is worth a merge.
const UNDERFULL: usize = PAGE_SIZE / 4;

/// How often trees have changed shape.
#[derive(Default)]
pub struct Shape {
    pub splits: AtomicU64,
    pub merges: AtomicU64,
}

/// Whether a page should be merged with a neighbour.
pub(crate) fn is_underfull(p: &Page) -> bool {
    index::used(p) < UNDERFULL
}

/// The neighbour with which a page is merged.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// What an attempt to merge has come to.
enum Merged {
    Yes,
    No,
    /// No, and there is no other neighbour to try.
    NoneLeft,
}

/// An incomplete split, as a look at its left page found it.
struct Split {
    left: PageNo,
    separator: Vec<u8>,
    right: PageNo,
    /// The left page's LSN.
    lsn: u64,
}
/// What an attempt to tell a parent about a split has come to.
enum Told {
    Yes,
    /// No: the tree has changed, or had to be changed first.
    Changed,
    /// No: the parent leads to this page for keys before the separator, not to the split one.
    Behind(PageNo),
}

/// How a page is split: `first` is the first record that moves right (`None`: no record moves), and
/// `separator` the key between the two pages.
struct Cut {
    first: Option<Rec>,
    separator: Vec<u8>,
}
/// Chooses the cut for an insert of `key`. An insert at the right end of the tree leaves the full
/// page full. So does an insert that `follows` its transaction's last one at the right end of a
/// leaf: sessions that fill ranges of their own fill their leaves.
fn choose_cut(p: &Page, key: &[u8], follows: bool) -> Cut {
    let pos = index::search(p, key);
    let last = pos.found.is_none() && index::next_rec(p, pos.prev).is_none();
    let at_end = last && index::high_key(p).is_none();
    let leaf = index::level(p) == 0;
    if leaf && last && (at_end || follows) {
        let separator = index::separator(index::key(p, pos.prev), key).to_vec();
        if index::fits(p, separator.len(), 0) {
            return Cut { first: None, separator };
        }
    }
    if leaf && index::n_recs(p) == 1 {
        // Two long records and a long high key do not fit one page, so each record gets a page of
        // its own.
        let only = index::first_rec(p).expect("one record");
        return if key > index::key(p, only) {
            Cut { first: None, separator: index::separator(index::key(p, only), key).to_vec() }
        } else {
            Cut {
                first: Some(only),
                separator: index::separator(key, index::key(p, only)).to_vec(),
            }
        };
    }
    let first = if at_end {
        pos.prev
    } else {
        index::middle(p).expect("a page that must split has two records")
    };
    let high = index::key(p, first);
    let before = index::prev_rec(p, first);
    assert!(before != index::INFIMUM, "a cut leaves a record on the left");
    let separator =
        if leaf { index::separator(index::key(p, before), high).to_vec() } else { high.to_vec() };
    Cut { first: Some(first), separator }
}

impl Tree {
    /// Makes room for a record of these sizes in the page of `level` to which `key` belongs. The
    /// caller then repeats its insert.
    pub fn split(&self, store: &Store, level: u16, key: &[u8], value_len: usize) -> Try<()> {
        self.split_for(store, level, key, value_len, false)
    }
    /// As [`Tree::split`]. `follows` says that the transaction's last insert went into the same
    /// leaf, right before the key.
    pub fn split_for(
        &self,
        store: &Store,
        level: u16,
        key: &[u8],
        value_len: usize,
        follows: bool,
    ) -> Try<()> {
        let mut m = Mtr::begin_reserved(store)?;
        let g = self.descend(store, Seek::Key(key), level, Latch::X, None)?;
        let l = m.hold(g);
        if index::fits(m.page(l), key.len(), value_len) {
            return Ok(());
        }
        let left = m.id(l).no;
        if index::is_incomplete(m.page(l)) {
            drop(m);
            return self.complete(store, level, left);
        }
        if left == self.root {
            return self.raise_root(m, l, key);
        }
        let free = space::reserve(&mut m, self.space, 1, left + 1)?;
        let right = free.pages[0];
        let r = m.create(self.page_id(right))?;
        // Nothing fails from here on.
        free.take(&mut m);
        let cut = choose_cut(m.page(l), key, follows);
        let mut b = Builder::new(self.index, level);
        if cut.first.is_some() {
            b.push_from(m.page(l), cut.first, None);
        }
        index::copy_links(m.page(l), &mut b);
        m.init(r);
        b.store(&mut m.patch(r));
        let p = &mut m.patch(l);
        if let Some(first) = cut.first {
            index::truncate(p, first);
        }
        index::set_high_key(p, Some(&cut.separator));
        index::set_next_page(p, right);
        index::set_incomplete(p, true);
        m.commit();
        store.shape.splits.fetch_add(1, Relaxed);
        self.complete(store, level, left)
    }

    /// Tells the parent of page `left` about the page's new right neighbour, if the parent does not
    /// know it yet. Where the parent does not know `left` itself, it is told about the pages before
    /// `left` first.
    pub(super) fn complete(&self, store: &Store, level: u16, left: PageNo) -> Try<()> {
        let mut at = left;
        // A page that was not where the parent leads, with its LSN, and the page that is there.
        let mut astray = None;
        loop {
            let Some(split) = self.incomplete_split(store, level, at)? else {
                if at == left {
                    return Ok(());
                }
                at = left;
                continue;
            };
            let first = match self.tell_parent(store, level, &split)? {
                Told::Yes if at == left => return Ok(()),
                Told::Yes | Told::Changed => {
                    at = left;
                    continue;
                }
                Told::Behind(first) => first,
            };
            match self.incomplete_split(store, level, first)? {
                // The separators fall, so this comes to an end.
                Some(earlier) if earlier.separator < split.separator => at = first,
                // The tree has changed since the look at the page; it has not if that is the same
                // page as before, behind the same one.
                _ if astray == Some((at, split.lsn, first)) => {
                    let why =
                        format!("its left neighbours in index {} do not lead to it", self.index);
                    return Err(self.corrupt(store, self.page_id(at), why));
                }
                _ => (astray, at) = (Some((at, split.lsn, first)), left),
            }
        }
    }
    /// The split of page `left`, if the page is of this tree and level and the split is incomplete.
    fn incomplete_split(&self, store: &Store, level: u16, left: PageNo) -> Try<Option<Split>> {
        let g = store.pool.fix(self.page_id(left), Latch::S)?;
        if !self.is_incomplete_at(&g, level) {
            return Ok(None);
        }
        let separator = index::high_key(&g).expect("a split page has a high key").to_vec();
        Ok(Some(Split { left, separator, right: index::next_page(&g), lsn: g.lsn().0 }))
    }
    /// Tells the parent about a split. The page may have got another place in the tree since it was
    /// looked at. So it is latched only if the latched parent leads to it (TREE-1).
    fn tell_parent(&self, store: &Store, level: u16, split: &Split) -> Try<Told> {
        let mut m = Mtr::begin_reserved(store)?;
        let seek = Seek::Key(&split.separator);
        let parent = self.descend(store, seek, level + 1, Latch::X, None)?;
        if index::level(&parent) != level + 1 {
            // The tree has become lower, so the page has another role now.
            return Ok(Told::Behind(self.root));
        }
        let p = m.hold(parent);
        let pos = index::search(m.page(p), &split.separator);
        if let Some(r) = pos.found {
            if index::child(m.page(p), r) != split.right {
                // The page may be another one by now; if it is not, TREE-2 is violated: one of the
                // pages is older than the others.
                let (page, child) = (m.id(p), index::child(m.page(p), r));
                drop(m);
                if store.pool.fix(self.page_id(split.left), Latch::S)?.lsn().0 != split.lsn {
                    return Ok(Told::Changed);
                }
                let why = format!("it has page {child} where page {} belongs", split.right);
                return Err(self.corrupt(store, page, why));
            }
            // The parent knows the neighbour, and the page alone changes.
            drop(m);
            return self.clear_mark(store, level, split);
        }
        if pos.prev == index::INFIMUM {
            let why =
                format!("a node of index {} has no child for a key that it holds", self.index);
            return Err(self.corrupt(store, m.id(p), why));
        }
        let before = index::child(m.page(p), pos.prev);
        if before != split.left {
            return Ok(Told::Behind(before));
        }
        if !index::fits(m.page(p), split.separator.len(), 4) {
            drop(m);
            self.split(store, level + 1, &split.separator, 4)?;
            return Ok(Told::Changed);
        }
        self.expect_other(store, m.id(p), self.page_id(split.left))?;
        let l = m.x(self.page_id(split.left))?;
        // The neighbour may have been merged into this page and split off again, with the same
        // number and another separator.
        if !self.is_split_at(m.page(l), level, split) {
            return Ok(Told::Changed);
        }
        let right = split.right.to_le_bytes();
        index::insert(&mut m.patch(p), pos, 0, &split.separator, &[&right]);
        index::set_incomplete(&mut m.patch(l), false);
        m.commit();
        Ok(Told::Yes)
    }
    /// Takes the mark off a page whose neighbour the parent knows.
    fn clear_mark(&self, store: &Store, level: u16, split: &Split) -> Try<Told> {
        let mut m = Mtr::begin_reserved(store)?;
        let l = m.x(self.page_id(split.left))?;
        if !self.is_split_at(m.page(l), level, split) {
            return Ok(Told::Changed);
        }
        index::set_incomplete(&mut m.patch(l), false);
        m.commit();
        Ok(Told::Yes)
    }
    fn is_split_at(&self, p: &Page, level: u16, split: &Split) -> bool {
        self.is_incomplete_at(p, level)
            && index::next_page(p) == split.right
            && index::high_key(p) == Some(&split.separator[..])
    }
    fn is_incomplete_at(&self, p: &Page, level: u16) -> bool {
        index::is_index(p)
            && index::index_id(p) == self.index
            && index::level(p) == level
            && index::is_incomplete(p)
    }

    fn raise_root(&self, mut m: Mtr<'_>, root: At, key: &[u8]) -> Try<()> {
        let free = space::reserve(&mut m, self.space, 2, self.root + 1)?;
        let (left, right) = (free.pages[0], free.pages[1]);
        let l = m.create(self.page_id(left))?;
        let r = m.create(self.page_id(right))?;
        free.take(&mut m);
        let p = m.page(root);
        let level = index::level(p);
        let cut = choose_cut(p, key, false);
        let mut low = Builder::new(self.index, level);
        low.push_from(p, None, cut.first);
        index::set_high_key(&mut low, Some(&cut.separator));
        index::set_next_page(&mut low, right);
        let mut high = Builder::new(self.index, level);
        if cut.first.is_some() {
            high.push_from(p, cut.first, None);
        }
        let mut top = Builder::new(self.index, level + 1);
        top.push(0, b"", &left.to_le_bytes());
        top.push(0, &cut.separator, &right.to_le_bytes());
        for (at, b) in [(l, &low), (r, &high), (root, &top)] {
            m.init(at);
            b.store(&mut m.patch(at));
        }
        m.commit();
        Ok(())
    }

    /// Merges the page of `level` to which `key` belongs with a neighbour under the same parent, if
    /// both fit into one page. Returns whether it did.
    pub fn merge(&self, store: &Store, level: u16, key: &[u8]) -> Try<bool> {
        // What is deleted from left to right leaves thin pages beside full right neighbours, or
        // beside such as are not in memory. The left neighbour is latched first (TREE-1), so each
        // neighbour has a mini-transaction of its own.
        match self.merge_with(store, level, key, Side::Right) {
            Ok(Merged::Yes) => Ok(true),
            Ok(Merged::NoneLeft) => Ok(false),
            Err(e @ WouldBlock::Failed(_)) => Err(e),
            right => match self.merge_with(store, level, key, Side::Left)? {
                Merged::Yes => Ok(true),
                Merged::No | Merged::NoneLeft => right.map(|_| false),
            },
        }
    }
    /// Merges with the neighbour on this side, or with the left one if the right one has another
    /// parent.
    fn merge_with(&self, store: &Store, level: u16, key: &[u8], side: Side) -> Try<Merged> {
        let mut m = Mtr::begin_reserved(store)?;
        let parent = self.descend(store, Seek::Key(key), level + 1, Latch::X, None)?;
        if index::level(&parent) != level + 1 {
            return Ok(Merged::NoneLeft);
        }
        let p = m.hold(parent);
        if index::n_recs(m.page(p)) == 1 {
            let lowered = m.id(p).no == self.root && self.lower_root(m, p)?;
            return Ok(if lowered { Merged::Yes } else { Merged::NoneLeft });
        }
        let here = index::search_child(m.page(p), key);
        let (left, right, not) = match (side, index::next_rec(m.page(p), here)) {
            (Side::Right, Some(next)) => (here, next, Merged::No),
            (Side::Left, _) if index::first_rec(m.page(p)) == Some(here) => {
                return Ok(Merged::NoneLeft);
            }
            _ => (index::prev_rec(m.page(p), here), here, Merged::NoneLeft),
        };
        if left == index::INFIMUM || right == index::INFIMUM {
            return Err(self.corrupt(
                store,
                m.id(p),
                format!("a node of index {} has no child for a key that it holds", self.index),
            ));
        }
        let (left, low, right) = (
            index::child(m.page(p), left),
            index::key(m.page(p), right).to_vec(),
            index::child(m.page(p), right),
        );
        let l = m.x(self.page_id(left))?;
        if index::is_incomplete(m.page(l)) || index::next_page(m.page(l)) != right {
            return Ok(not);
        }
        let r = m.x(self.page_id(right))?;
        if index::is_incomplete(m.page(r))
            || index::used(m.page(l)) + index::used(m.page(r)) > MERGED_MAX
        {
            return Ok(not);
        }
        let map = space::prepare_free(&mut m, self.page_id(right))?;
        let mut b = Builder::new(self.index, level);
        b.push_from(m.page(l), None, None);
        b.push_from(m.page(r), None, None);
        index::copy_links(m.page(r), &mut b);
        b.store(&mut m.patch(l));
        space::free(&mut m, r, map);
        let pos = index::search(m.page(p), &low);
        index::remove(&mut m.patch(p), pos);
        let again = is_underfull(m.page(p)) || index::n_recs(m.page(p)) == 1;
        m.commit();
        store.shape.merges.fetch_add(1, Relaxed);
        if again {
            // The next merge is useful but not necessary, so its failure, also a `WouldBlock`, is
            // ignored.
            let _ = self.merge(store, level + 1, key);
            if level + 1 == self.root_level(store)? {
                let mut m = Mtr::begin_reserved(store)?;
                let root = m.x(self.page_id(self.root))?;
                if index::level(m.page(root)) == level + 1 && index::n_recs(m.page(root)) == 1 {
                    let _ = self.lower_root(m, root);
                }
            }
        }
        Ok(Merged::Yes)
    }
    fn root_level(&self, store: &Store) -> Try<u16> {
        let g = store.pool.fix(self.page_id(self.root), Latch::S)?;
        Ok(index::level(&g))
    }
    /// Moves the records of a root's only child into the root.
    fn lower_root(&self, mut m: Mtr<'_>, root: At) -> Try<bool> {
        let only = index::first_rec(m.page(root)).expect("TREE-4");
        let child = self.page_id(index::child(m.page(root), only));
        let c = m.x(child)?;
        if index::is_incomplete(m.page(c)) || index::next_page(m.page(c)) != 0 {
            return Ok(false);
        }
        let map = space::prepare_free(&mut m, child)?;
        let mut b = Builder::new(self.index, index::level(m.page(c)));
        b.push_from(m.page(c), None, None);
        m.init(root);
        b.store(&mut m.patch(root));
        space::free(&mut m, c, map);
        m.commit();
        Ok(true)
    }
}

#[cfg(all(test, not(model)))]
mod tests;

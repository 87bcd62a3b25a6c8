//! The way of a check through a tree: each node before its children, and the children from left to
//! right.
//!
//! CHECK-2: the way needs memory for one node of each level, however many pages the tree has: of
//! each level it knows the page that it has visited last, which names its right neighbour, and the
//! children of one node that are still to be visited.
use crate::PageNo;
use crate::page::index::{self, Page};

/// A page of a level, as the level above names it, or the page left of it.
pub(super) struct Expected {
    pub no: PageNo,
    pub low: Vec<u8>,
}

/// What the page that was visited last of a level says about the next one.
struct Last {
    no: PageNo,
    next: PageNo,
    high: Option<Vec<u8>>,
    is_incomplete: bool,
}
impl Last {
    /// The page that the level above does not know yet, after an incomplete split.
    fn unknown(&mut self) -> Option<Expected> {
        let high = if self.is_incomplete { self.high.take() } else { None };
        high.map(|low| Expected { no: self.next, low })
    }
    /// Why the page is wrong if `next` comes behind it on its level.
    fn judge(&self, next: Option<&Expected>) -> Option<&'static str> {
        match (next, &self.high) {
            (Some(n), Some(high)) if n.no == self.next => {
                (n.low != *high).then_some("its high key is not the low key of the next page")
            }
            (Some(_), Some(_)) => Some("its right neighbour is not the parent's next child"),
            (_, None) if self.next != 0 => Some("it has a right neighbour but no high key"),
            (Some(_), None) => Some("it has no high key, but is not the last page of its level"),
            (None, Some(_)) => Some("the last page of its level has a high key"),
            (None, None) => None,
        }
    }
}

/// A way through a tree.
pub(super) struct Walk {
    /// The pages to visit, the next one last, with their levels.
    to_visit: Vec<(u16, Expected)>,
    /// By level.
    last: Vec<Option<Last>>,
}
impl Walk {
    /// Begins at the root, which is of level `level`.
    pub(super) fn new(root: PageNo, level: u16) -> Walk {
        let last = (0..=level).map(|_| None).collect();
        Walk { to_visit: vec![(level, Expected { no: root, low: Vec::new() })], last }
    }
    /// The next page with its level. Calls `wrong` on pages whose right neighbour is not the one
    /// that it should be.
    pub(super) fn next(
        &mut self,
        mut wrong: impl FnMut(PageNo, &'static str),
    ) -> Option<(u16, Expected)> {
        if let Some((level, x)) = self.to_visit.pop() {
            if let Some(mut last) = self.last[usize::from(level)].take() {
                if last.next != x.no
                    && let Some(unknown) = last.unknown()
                {
                    self.to_visit.push((level, x));
                    return Some((level, unknown));
                }
                last.judge(Some(&x)).into_iter().for_each(|why| wrong(last.no, why));
            }
            return Some((level, x));
        }
        // The upper levels first: a page that is visited now has children.
        for level in (0..self.last.len()).rev() {
            let Some(mut last) = self.last[level].take() else { continue };
            if let Some(unknown) = last.unknown() {
                return Some((level as u16, unknown));
            }
            last.judge(None).into_iter().for_each(|why| wrong(last.no, why));
        }
        None
    }
    /// Goes on to the children of a page that was visited.
    pub(super) fn visited(&mut self, level: u16, no: PageNo, page: &Page) {
        self.last[usize::from(level)] = Some(Last {
            no,
            next: index::next_page(page),
            high: index::high_key(page).map(<[u8]>::to_vec),
            is_incomplete: index::is_incomplete(page),
        });
        if let Some(below) = level.checked_sub(1) {
            let first = self.to_visit.len();
            let children = index::records(page)
                .map(|r| Expected { no: index::child(page, r), low: index::key(page, r).to_vec() });
            self.to_visit.extend(children.map(|child| (below, child)));
            self.to_visit[first..].reverse();
        }
    }
    /// Passes over a page that cannot be visited, and so over its children.
    pub(super) fn lost(&mut self, level: u16) {
        self.last[..=usize::from(level)].fill_with(|| None);
    }
    /// How many pages are to be visited.
    #[cfg(all(test, not(model)))]
    pub(super) fn waiting(&self) -> usize {
        self.to_visit.len()
    }
}

/// A set of pages of a space, a bit for each.
#[derive(Debug, Default)]
pub(super) struct PageSet(Vec<u64>);
impl PageSet {
    /// An empty set for a space with this number of pages.
    pub(super) fn new(pages: u32) -> PageSet {
        PageSet(vec![0; pages.div_ceil(u64::BITS) as usize])
    }
    /// Adds a page, and returns whether it is new. A page that the space does not have is always
    /// new: nobody can read it.
    pub(super) fn insert(&mut self, no: PageNo) -> bool {
        let bit = 1 << (no % u64::BITS);
        let Some(word) = self.0.get_mut((no / u64::BITS) as usize) else { return true };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
    pub(super) fn contains(&self, no: PageNo) -> bool {
        self.0.get((no / u64::BITS) as usize).is_some_and(|word| word >> (no % u64::BITS) & 1 == 1)
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const FANOUT: u32 = 50;

    /// The pages of a tree of three levels: page 1 is the root, 2 to 51 are the nodes, and the
    /// leaves of node `n` begin at `n * 100`.
    fn tree() -> BTreeMap<PageNo, index::Builder> {
        let mut pages = BTreeMap::new();
        let mut root = index::Builder::new(7, 2);
        for n in 0..FANOUT {
            let mut node = index::Builder::new(7, 1);
            root.push(0, &key(n, 0), &(2 + n).to_le_bytes());
            for l in 0..FANOUT {
                node.push(0, &key(n, l), &((2 + n) * 100 + l).to_le_bytes());
            }
            pages.insert(2 + n, node);
        }
        pages.insert(1, root);
        pages
    }
    fn key(node: u32, leaf: u32) -> Vec<u8> {
        (node * 1000 + leaf).to_be_bytes().to_vec()
    }

    /// Tests CHECK-2.
    #[test]
    fn a_walk_knows_the_children_of_one_node_of_each_level() {
        let tree = tree();
        let (mut walk, mut seen, mut most) = (Walk::new(1, 2), PageSet::new(10_000), 0);
        let mut leaves = Vec::new();
        while let Some((level, x)) = walk.next(|_, _| {}) {
            assert!(seen.insert(x.no) && seen.contains(x.no) && !seen.insert(x.no));
            match tree.get(&x.no) {
                Some(page) => walk.visited(level, x.no, page.page()),
                None => leaves.push(x.no),
            }
            most = most.max(walk.waiting());
        }
        let expected: Vec<PageNo> =
            (0..FANOUT).flat_map(|n| (0..FANOUT).map(move |l| (2 + n) * 100 + l)).collect();
        assert_eq!(leaves, expected, "from left to right");
        assert!(most <= 2 * FANOUT as usize, "{most} pages of {}", expected.len());
        assert!(seen.insert(u32::MAX) && seen.insert(u32::MAX) && !seen.contains(u32::MAX));
    }

    /// Each page names its right neighbour, and what the walk says if another page comes.
    #[test]
    fn neighbours_are_compared() {
        let page = |no: PageNo| Expected { no, low: b"m".to_vec() };
        let last = |next, high: Option<&[u8]>| Last {
            no: 5,
            next,
            high: high.map(<[u8]>::to_vec),
            is_incomplete: false,
        };
        let said = [
            (last(6, Some(b"m")), Some(page(6)), ""),
            (last(6, Some(b"k")), Some(page(6)), "not the low key"),
            (last(7, Some(b"m")), Some(page(6)), "not the parent's next child"),
            (last(6, None), Some(page(6)), "no high key"),
            (last(0, None), Some(page(6)), "not the last page"),
            (last(6, None), None, "a right neighbour but no high key"),
            (last(0, Some(b"m")), None, "the last page of its level has a high key"),
            (last(0, None), None, ""),
        ];
        for (last, next, why) in said {
            let judged = last.judge(next.as_ref()).unwrap_or_default();
            assert!(judged.contains(why) && why.is_empty() == judged.is_empty(), "{judged}");
        }
    }

    /// A page that a split has made, and that the level above does not know, comes behind the page
    /// that was split, also at the end of a level.
    #[test]
    fn a_page_of_an_incomplete_split_is_visited() {
        let mut walk = Walk::new(1, 0);
        walk.to_visit = vec![(0, Expected { no: 30, low: b"t".to_vec() })];
        let split =
            |no, next: PageNo| Last { no, next, high: Some(b"m".to_vec()), is_incomplete: true };
        let mut wrong = Vec::new();
        walk.last[0] = Some(split(10, 20));
        let (_, between) = walk.next(|no, why| wrong.push((no, why))).unwrap();
        assert_eq!((between.no, &between.low[..]), (20, &b"m"[..]));
        assert_eq!(walk.next(|no, why| wrong.push((no, why))).unwrap().1.no, 30);
        walk.last[0] = Some(split(30, 40));
        assert_eq!(walk.next(|no, why| wrong.push((no, why))).unwrap().1.no, 40);
        assert!(walk.next(|no, why| wrong.push((no, why))).is_none() && wrong.is_empty());
    }
}

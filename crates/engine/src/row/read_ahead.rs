//! Read-ahead of scans: a scan that meets leaves that are not in memory has the next ones read side
//! by side, instead of one after the other.
//!
//! The leaves are found in the tree, by the children of the node above them, so that they are the
//! right ones in every index, wherever the pages lie in the file. A scan of leaves that are in
//! memory never looks there.
//!
//! - AHEAD-1: read-ahead changes no result and waits for nothing: a page that cannot be had now is
//!   left to the scan.
use crate::btree::Tree;
use crate::mtr::Store;
use crate::{PageId, PageNo, WouldBlock};

/// So many leaves that are not in memory make a scan without an end read ahead: it may be wanted
/// for its first row alone. A scan of a range has its leaves read at the first one.
const MISSES: u32 = 2;
/// The leaves that are read ahead first, and at most. The number doubles each time.
const FIRST: usize = 8;
const MOST: usize = 64;
/// The share of the pool's frames that one scan may fill ahead of itself.
const SHARE: usize = 32;
/// The same for rows that the entries of a secondary index name, which are wanted at once.
const KEYS_SHARE: usize = 8;

/// The read-ahead of one scan.
#[derive(Default)]
pub(super) struct ReadAhead {
    misses: u32,
    window: usize,
    /// The leaf at which the next leaves are asked for: the middle of those that were.
    mark: Option<PageNo>,
    due: bool,
}

impl ReadAhead {
    /// The scan has met a leaf that is not in memory. `bounded`: its range has an end.
    pub(super) fn missed(&mut self, bounded: bool) {
        self.misses += 1;
        self.due = bounded || self.misses >= MISSES;
    }
    /// The scan has gone on to this leaf.
    #[inline]
    pub(super) fn reached(&mut self, leaf: PageNo) {
        if self.mark == Some(leaf) {
            (self.mark, self.due) = (None, true);
        }
    }
    /// Has the leaves from `low` on and below `high` read, if it is time for that. The caller holds
    /// no latch.
    #[inline]
    pub(super) fn begin(&mut self, tree: &Tree, store: &Store, low: &[u8], high: Option<&[u8]>) {
        if self.due {
            self.due = false;
            self.read(tree, store, low, high);
        }
    }
    #[cold]
    fn read(&mut self, tree: &Tree, store: &Store, low: &[u8], high: Option<&[u8]>) {
        let room = store.pool.size() / SHARE;
        self.window = (self.window * 2).clamp(FIRST, MOST).min(room);
        let mut leaves = Vec::with_capacity(self.window);
        // AHEAD-1
        let found = tree.leaves_of_range(store, low, high, self.window, &mut leaves);
        if let Err(WouldBlock::Page(id)) = found {
            store.pool.prefetch(id);
        }
        self.mark = leaves.get(leaves.len() / 2).copied();
        for no in leaves {
            store.pool.prefetch(PageId { space: tree.space, no });
        }
    }
}

/// The most keys whose leaves are read ahead at once.
pub(super) fn most_keys(store: &Store) -> usize {
    (store.pool.size() / KEYS_SHARE).max(1)
}
/// Has the leaves read that hold these keys. The caller holds no latch.
#[cold]
pub(super) fn of_keys<'a>(tree: &Tree, store: &Store, keys: impl Iterator<Item = &'a [u8]>) {
    let mut leaves = Vec::with_capacity(1);
    for key in keys {
        leaves.clear();
        // AHEAD-1
        let id = match tree.leaves_of_range(store, key, None, 1, &mut leaves) {
            Err(WouldBlock::Page(id)) => id,
            _ => match leaves.first() {
                Some(no) => PageId { space: tree.space, no: *no },
                None => continue,
            },
        };
        store.pool.prefetch(id);
    }
}

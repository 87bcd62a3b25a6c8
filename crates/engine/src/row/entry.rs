//! Secondary index entries: an entry's key is the index's columns and then the clustered key,
//! without a value. An entry is delete-marked when the newest version of its row no longer has it.
//! Purge removes the entry when no older version that a view can read has it.
use crate::Try;
use crate::btree::structure;
use crate::dict::table::Index;
use crate::lock::{LockTable, TrxLocks};
use crate::mtr::{Mtr, Store};
use crate::page::index::{self, DELETE_MARK, MAX_KEY};
use std::sync::Arc;

/// Inserts an entry, or revives a delete-marked entry. Waits for range locks of other transactions.
pub(crate) fn insert(
    store: &Store,
    locks: &Arc<LockTable>,
    trx: &Arc<TrxLocks>,
    ix: &Index,
    key: &[u8],
) -> Try<()> {
    add_checked(store, ix, key, || locks.check_insert(trx, &ix.ranges, key))
}
/// Puts back an entry for a rollback, which may use the redo log's reserve.
pub(crate) fn restore(store: &Store, ix: &Index, key: &[u8]) -> Try<()> {
    add_by(store, ix, key, || Mtr::begin_reserved(store), || Ok(()))
}
fn add_checked(store: &Store, ix: &Index, key: &[u8], check: impl Fn() -> Try<()>) -> Try<()> {
    add_by(store, ix, key, || Mtr::begin(store), check)
}
fn add_by<'s>(
    store: &'s Store,
    ix: &Index,
    key: &[u8],
    begin: impl Fn() -> Try<Mtr<'s>>,
    check: impl Fn() -> Try<()>,
) -> Try<()> {
    assert!(key.len() <= MAX_KEY, "pages could not be split");
    loop {
        let mut m = begin()?;
        let leaf = ix.tree.leaf_x(&mut m, key)?;
        check()?;
        let pos = index::search(m.page(leaf), key);
        match pos.found {
            Some(r) if index::is_marked(m.page(leaf), r) => {
                index::set_flags(&mut m.patch(leaf), r, 0)
            }
            Some(_) => return Ok(()),
            None if index::fits(m.page(leaf), key.len(), 0) => {
                index::insert(&mut m.patch(leaf), pos, 0, key, &[]);
            }
            None => {
                drop(m);
                ix.tree.split(store, 0, key, 0)?;
                continue;
            }
        }
        m.commit();
        return Ok(());
    }
}
/// Sets or clears the delete mark of an entry. Returns false if there is no such entry.
pub(crate) fn mark(
    store: &Store,
    ix: &Index,
    key: &[u8],
    marked: bool,
    reserved: bool,
) -> Try<bool> {
    let mut m = if reserved { Mtr::begin_reserved(store)? } else { Mtr::begin(store)? };
    let leaf = ix.tree.leaf_x(&mut m, key)?;
    let Some(r) = index::search(m.page(leaf), key).found else { return Ok(false) };
    if index::is_marked(m.page(leaf), r) != marked {
        index::set_flags(&mut m.patch(leaf), r, if marked { DELETE_MARK } else { 0 });
        m.commit();
    }
    Ok(true)
}
/// Removes an entry if `really` returns true. `really` is called under the leaf's latch with the
/// entry's delete mark.
pub(crate) fn remove(
    store: &Store,
    ix: &Index,
    key: &[u8],
    really: impl FnOnce(bool) -> Try<bool>,
) -> Try<()> {
    let mut m = Mtr::begin_reserved(store)?;
    let leaf = ix.tree.leaf_x(&mut m, key)?;
    let pos = index::search(m.page(leaf), key);
    let Some(r) = pos.found else { return Ok(()) };
    if !really(index::is_marked(m.page(leaf), r))? {
        return Ok(());
    }
    index::remove(&mut m.patch(leaf), pos);
    let thin = structure::is_underfull(m.page(leaf)) && m.id(leaf).no != ix.tree.root;
    m.commit();
    if thin {
        merge(store, ix, key);
    }
    Ok(())
}
/// Merges the leaf with a neighbour. Merging is useful but never necessary: it ends at the first
/// call that would block.
pub(crate) fn merge(store: &Store, ix: &Index, key: &[u8]) {
    let _ = ix.tree.merge(store, 0, key);
}
/// How far a search for duplicates has come.
pub(crate) enum Search {
    /// No other row has the key.
    Free,
    /// A live entry of another row has the key.
    Taken,
    /// There are many entries, and the search goes on after a turn of others.
    GoesOn,
}
/// The leaves that a step of a search for duplicates reads.
const LEAVES_OF_A_STEP: usize = 16;

/// Searches the entries with the key prefix `prefix` for a live one of another row than `own`.
/// `check` is called, under the latch, with the clustered key of each entry of another row.
///
/// A key that is deleted and inserted again and again has many delete-marked entries while an old
/// read view keeps purge from them. So the search goes on behind the entry in `after`, which it
/// moves along: empty at the beginning. The caller holds the lock on the key, so the entries that
/// were passed stay marked.
pub(crate) fn find_duplicate(
    store: &Store,
    ix: &Index,
    prefix: &[u8],
    own: &[u8],
    after: &mut Vec<u8>,
    check: impl Fn(&[u8]) -> Try<()>,
) -> Try<Search> {
    let begun = if after.is_empty() { prefix } else { &after[..] };
    let mut g = ix.tree.leaf(store, crate::btree::Seek::Key(begun))?;
    let pos = index::search(&g, begun);
    let mut at = pos.found.filter(|_| !after.is_empty()).unwrap_or(pos.prev);
    for _ in 0..LEAVES_OF_A_STEP {
        while let Some(r) = index::next_rec(&g, at) {
            let k = index::key(&g, r);
            let Some(clustered) = k.strip_prefix(prefix) else { return Ok(Search::Free) };
            if clustered != own {
                check(clustered)?;
                if !index::is_marked(&g, r) {
                    return Ok(Search::Taken);
                }
            }
            at = r;
        }
        if at != index::INFIMUM && index::key(&g, at).starts_with(prefix) {
            after.clear();
            after.extend_from_slice(index::key(&g, at));
        }
        match ix.tree.right_of(store, &g)? {
            Some(next) => (g, at) = (next, index::INFIMUM),
            None => return Ok(Search::Free),
        }
    }
    Ok(Search::GoesOn)
}

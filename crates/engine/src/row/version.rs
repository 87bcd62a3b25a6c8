//! Older versions of a row, made by walking its undo records backwards.
//!
//! The walk begins at a record under its leaf's latch and keeps this latch, so that no transaction
//! can roll the newest version back meanwhile. The reader's view keeps the older versions from
//! purge; a walk for purge ends at a version that every view sees. The walk of a rollback is in
//! [`older`](super::older), and that of purge through many versions in
//! [`newer`](crate::purge).
//!
//! - VERS-1: a walk that has to wait for an undo page gives up the latch. It goes on at the same
//!   version if the newest version is still the one with which it began: the older versions are
//!   then unchanged too. So a chain may have more pages than the pool holds. A walk of
//!   few steps ([`has_entry`]) begins anew, because the next one may look for another entry.
use super::value;
use crate::dict::table::Table;
use crate::mtr::Store;
use crate::page::index::{self, DELETE_MARK, Page, Rec};
use crate::undo::{self, record::Entry, record::RollPtr};
use crate::{Error, TrxId, Try, WouldBlock};

/// A copy of one version of a row.
#[derive(Default)]
pub(crate) struct Version {
    pub trx: TrxId,
    pub roll: RollPtr,
    pub marked: bool,
    pub payload: Vec<u8>,
    /// The state of a walk that waits for a page: whether it waits, and the row and the newest
    /// version with which it began (VERS-1).
    waits: bool,
    key: Vec<u8>,
    newest: (TrxId, RollPtr),
}
impl Version {
    pub(crate) fn load(&mut self, p: &Page, r: Rec) {
        let v = index::value(p, r);
        self.trx = value::trx(v);
        self.roll = value::roll(v);
        self.marked = index::is_marked(p, r);
        self.payload.clear();
        self.payload.extend_from_slice(value::payload(v));
        self.key.clear();
        self.key.extend_from_slice(index::key(p, r));
    }
    /// Becomes a copy of `other`, which is the newest version of its row.
    pub(crate) fn copy(&mut self, other: &Version) {
        (self.trx, self.roll, self.marked) = (other.trx, other.roll, other.marked);
        self.payload.clone_from(&other.payload);
        self.key.clone_from(&other.key);
    }
    /// Becomes a walk from the row at `r` that waits for a page after so many steps.
    #[cfg(all(test, not(model)))]
    pub(crate) fn wait_after(&mut self, store: &Store, (p, r): (&Page, Rec), steps: usize) {
        self.waits = false;
        self.begin(p, r);
        for _ in 0..steps {
            assert!(self.step(store).is_ok_and(|older| older));
        }
    }
    /// Goes to the newest version of the row at `r`, or to the version at which an earlier walk had
    /// to wait.
    fn begin(&mut self, p: &Page, r: Rec) {
        let v = index::value(p, r);
        let newest = (value::trx(v), value::roll(v));
        if !(self.waits && self.newest == newest && self.key == index::key(p, r)) {
            self.load(p, r);
            self.newest = newest;
        }
        self.waits = true;
    }
    /// Writes the key of the version's entry in secondary index `no`. Returns false if it has none.
    pub(crate) fn entry(&self, table: &Table, no: usize, out: &mut Vec<u8>) -> bool {
        // If a column of the key lies outside of the row, the version is older than the index.
        let key = &table.indexes[no].key;
        if self.marked || key.external_column(&table.layout, &self.payload).is_some() {
            return false;
        }
        table.entry_key(no, &self.payload, &self.key, out);
        true
    }
    /// Goes one version back. Returns false if this was the row's first version.
    pub(crate) fn step(&mut self, store: &Store) -> Try<bool> {
        if self.roll.is_insert() || self.roll == RollPtr::NONE {
            return Ok(false);
        }
        let ptr = self.roll;
        undo::read(store, ptr, |e| match e {
            // If files of different times lie beside each other, the record may belong to another
            // row.
            Some(Entry::Change { old, key, rest, .. })
                if key == self.key && rest.restore(&mut self.payload) =>
            {
                (self.trx, self.roll, self.marked) =
                    (old.trx, old.roll, old.flags & DELETE_MARK != 0);
                Ok(true)
            }
            other => Err(WouldBlock::Failed(Error::Corrupt {
                page: undo::page_id(ptr.page()),
                file: store.spaces.path(undo::page_id(ptr.page()).space).display().to_string(),
                table: "(undo)".into(),
                why: format!(
                    "no change record at offset {} for a version that is still needed: {other:?}",
                    ptr.at()
                ),
            })),
        })?
    }
}

/// Copies the newest version that `sees` accepts into `out`. Returns false if there is none, or if
/// this version is deleted.
pub(crate) fn visible(
    store: &Store,
    p: &Page,
    r: Rec,
    sees: impl Fn(TrxId) -> bool,
    out: &mut Version,
) -> Try<bool> {
    out.begin(p, r);
    let mut found = true;
    while found && !sees(out.trx) {
        found = out.step(store)?;
    }
    out.waits = false;
    Ok(found && !out.marked)
}

/// Whether a version of the row at `r` that a view may still read has `entry` as its key in index
/// `no`. `None` if the `most` newest versions do not tell. `over` says that every view sees a
/// transaction; versions before such a version are not needed. `v` and `scratch` are memory for a
/// version and for keys.
pub(crate) fn has_entry(
    store: &Store,
    (table, no): (&Table, usize),
    entry: &[u8],
    (p, r): (&Page, Rec),
    over: impl Fn(TrxId) -> bool,
    most: usize,
    (v, scratch): (&mut Version, &mut Vec<u8>),
) -> Try<Option<bool>> {
    v.load(p, r);
    let mut has = None;
    for _ in 0..most {
        if v.entry(table, no, scratch) && scratch == entry {
            has = Some(true);
            break;
        }
        if over(v.trx) || !v.step(store)? {
            has = Some(false);
            break;
        }
    }
    Ok(has)
}

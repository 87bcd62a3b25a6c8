//! Which entries of a batch the newer versions of their rows still have: the question that purge
//! asks for each entry that it is to remove (PURGE-2).
//!
//! A row may have any number of versions that a view can still read. If purge went through all of
//! them for each entry, its work would grow as the square of their number. So where a row has more
//! than a few, one walk through them answers for all entries of the batch.
//!
//! - NEWER-1: a walk's answers hold for the versions from the newest one that it knows back to one
//!   that the horizon sees. They are used under the latches of the entry's leaf and the row's leaf,
//!   and only while the row's newest version is the one that the walk knows. A walk through the
//!   versions that have come since goes first. If it does not lead to the version that the walk
//!   before knew, a rollback has taken this version back; it then goes on to the end of the
//!   versions, and its answers alone count.
//! - NEWER-2: the horizon of a walk sees all transactions whose undo logs are in the batch. It may
//!   move on during the walk, and an answer then says that an entry is needed which is not needed
//!   any more. This entry is looked at again with the undo log of the transaction that replaced its
//!   last version: the horizon did not see that transaction before it moved.
//! - NEWER-3: a walk reads so many versions under its latches, and then lets others run. Its memory
//!   is an answer for each entry of the batch, and one version; a batch has a bounded size.
//! - NEWER-4: while walks read more versions than a batch has entries, the next batch is made of
//!   twice as many undo pages, up to its bound. So purge reads a version once for each
//!   [`MOST_ENTRIES`](super::batch::MOST_ENTRIES) entries, or a few versions for each entry.
use crate::dict::table::Table;
use crate::mtr::Store;
use crate::page::index::{self, Page, Rec};
use crate::row::value;
use crate::row::version::Version;
use crate::trx::view::ReadView;
use crate::undo::record::RollPtr;
use crate::{TrxId, Try};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::hash::{BuildHasher, RandomState};

/// The entries of versions that are made before latches are given up (NEWER-3).
pub(super) const ENTRIES_AT_ONCE: usize = 512;
/// The most walks, each of which is to lead to the one before, that a row has at a time.
const MOST_WALKS: usize = 8;
/// A map that is larger does not stay for the next batch.
const LARGE: usize = 4 << 10;

/// What tells a version from all others.
type VersionId = (TrxId, RollPtr);

/// A walk through the versions of a row.
struct Walk {
    /// The version with which the walk began.
    newest: VersionId,
    number: u32,
    /// The version at which the walk is, or nothing when it has come to the end.
    at: Option<Box<Version>>,
}

/// The entries of a batch, and what walks have found out about them.
#[derive(Default)]
pub(super) struct Newer {
    /// The hashes of the entries, each with the last walk that has found it in a version. Entries
    /// of one hash share an answer: one of them may then stay, marked, although nobody needs it,
    /// once in 2^64.
    entries: HashMap<u64, u32>,
    /// The indexes of these entries, by their table and number.
    indexes: Vec<(u64, usize)>,
    /// The rows whose walks have come to the end, by a hash of their table and key.
    rows: HashMap<u64, (VersionId, u32)>,
    /// The row that is walked at present, and the numbers of its table's indexes that count.
    row: Option<u64>,
    numbers: SmallVec<[usize; 8]>,
    /// Its walks, each of which is to lead to the one before.
    walks: SmallVec<[Walk; 2]>,
    begun: u32,
    hasher: RandomState,
    entry: Vec<u8>,
    /// The versions that were read for this batch.
    pub read: u64,
}

impl Newer {
    pub(super) fn clear(&mut self) {
        fn empty<V>(map: &mut HashMap<u64, V>) {
            if map.capacity() > LARGE { *map = HashMap::new() } else { map.clear() }
        }
        empty(&mut self.entries);
        empty(&mut self.rows);
        self.indexes.clear();
        self.walks.clear();
        (self.row, self.begun, self.read) = (None, 0, 0);
    }
    /// Whether there is anything of the present batch.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Adds an entry for which walks are to answer. The entries come index by index.
    pub(super) fn add(&mut self, table: u64, no: usize, entry: &[u8]) {
        if self.indexes.last() != Some(&(table, no)) {
            self.indexes.push((table, no));
        }
        self.entries.insert(self.hasher.hash_one((table, no, entry)), 0);
    }
    /// Whether a walk has gone through the row's versions, or does.
    pub(super) fn knows(&self, table: u64, key: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let row = self.hasher.hash_one((table, key));
        self.row == Some(row) || self.rows.contains_key(&row)
    }
    /// Whether a walk has begun that has not come to its end.
    pub(super) fn is_walking(&self) -> bool {
        self.walks.last().is_some_and(|walk| walk.at.is_some())
    }
    /// The row is gone.
    pub(super) fn end_walk(&mut self) {
        self.walks.clear();
    }
    /// Whether a version of the row at `r`, back to the horizon, has an entry of the batch. `None`
    /// if others are to run before the walk goes on.
    pub(super) fn has_entry(
        &mut self,
        store: &Store,
        horizon: &ReadView,
        (table, no): (&Table, usize),
        entry: &[u8],
        row: (&Page, Rec),
        most: usize,
    ) -> Try<Option<bool>> {
        if !self.walk(store, horizon, table, row, most)? {
            return Ok(None);
        }
        let found = self.entries.get(&self.hasher.hash_one((table.id, no, entry)));
        let found = *found.expect("NEWER-1: walks answer for all entries of the batch");
        Ok(Some(found >= self.walks[0].number))
    }
    /// Goes on with the walk through the row's versions. Returns whether it has come to its end.
    pub(super) fn walk(
        &mut self,
        store: &Store,
        horizon: &ReadView,
        table: &Table,
        (p, r): (&Page, Rec),
        most: usize,
    ) -> Try<bool> {
        self.turn_to(table.id, index::key(p, r));
        let v = index::value(p, r);
        let newest = (value::trx(v), value::roll(v));
        if self.walks.last().is_none_or(|walk| walk.newest != newest) {
            self.begin(table, newest, (p, r));
        }
        let mut made = 0;
        loop {
            let (walk, before) = self.walks.split_last_mut().expect("a walk has begun");
            let Some(at) = &mut walk.at else { return Ok(true) };
            if made >= most {
                return Ok(false);
            }
            if horizon.sees(at.trx) || !at.step(store)? {
                // NEWER-1: the walks before were through versions that have gone.
                walk.at = None;
                self.walks.drain(..self.walks.len() - 1);
                return Ok(true);
            }
            self.read += 1;
            made += self.numbers.len().max(1);
            match before.last_mut() {
                Some(before) if before.newest == (at.trx, at.roll) => {
                    // This walk has led to the one before, and both have answered.
                    before.newest = walk.newest;
                    self.walks.pop();
                }
                _ => self.note(table),
            }
        }
    }

    fn turn_to(&mut self, table: u64, key: &[u8]) {
        let row = self.hasher.hash_one((table, key));
        if self.row == Some(row) {
            return;
        }
        if let (Some(row), [Walk { newest, number, at: None }]) = (self.row, &self.walks[..]) {
            self.rows.insert(row, (*newest, *number));
        }
        self.walks.clear();
        self.row = Some(row);
        if let Some(&(newest, number)) = self.rows.get(&row) {
            self.walks.push(Walk { newest, number, at: None });
        }
        let indexes = self.indexes.iter().filter(|(of, _)| *of == table);
        self.numbers = indexes.map(|(_, no)| *no).collect();
    }
    /// Begins a walk at the row's newest version.
    fn begin(&mut self, table: &Table, newest: VersionId, (p, r): (&Page, Rec)) {
        if self.walks.len() == MOST_WALKS {
            self.walks.clear();
        }
        self.begun += 1;
        let mut at = Box::<Version>::default();
        at.load(p, r);
        self.walks.push(Walk { newest, number: self.begun, at: Some(at) });
        self.note(table);
    }
    /// Notes the entries of the version at which the last walk is.
    fn note(&mut self, table: &Table) {
        let Some(Walk { number, at: Some(at), .. }) = self.walks.last() else { return };
        if at.marked {
            return;
        }
        for no in &self.numbers {
            if at.entry(table, *no, &mut self.entry)
                && let Some(found) =
                    self.entries.get_mut(&self.hasher.hash_one((table.id, *no, &self.entry[..])))
            {
                *found = *number;
            }
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests;

//! Reading rows: the caller gets one row at a time, and the cursor reads many rows of a leaf at
//! once.
//!
//! A cursor goes through a half-open range of one index's key bytes, up or down. It copies rows out
//! under the leaf's S latch, so that no latch is held while the caller works on a row. It remembers
//! the leaf, its page LSN and the last key: if the leaf has not changed, the cursor goes on in
//! place, otherwise it descends again.
//!
//! - Consistent reads take no lock: each row is the newest version that the read view sees. An
//!   index that is younger than the view lacks entries that the view needs: the read fails with
//!   `TableChanged`.
//! - Locking reads lock the range first, if the isolation level asks for it, then each row's
//!   clustered key, and return the newest version. They go row by row. A lock on the one row of a
//!   unique key needs no range.
//! - CURSOR-1: the part of the range that the scan has passed stays locked, and nothing of the rest
//!   when the scan has ended: at its end, by `stop`, or because the cursor is given up after an
//!   error.
//! - CURSOR-2: if the isolation level locks no ranges, a row that is passed over does not stay
//!   locked, unless the transaction had locked it before this read. A row is passed over if it is
//!   deleted, no longer belongs to the entry, or is refused by the caller.
//! - Rows found through a secondary index are checked against the entry: the version that is read
//!   must have the entry's key.
//! - CURSOR-3: a row is made from its entry alone if the caller allows it and the view sees all
//!   changes of the entry's page (VIEW-3). Then no transaction that the view does not see has
//!   touched the entry, and those that it sees are done with it. So the version that the view sees
//!   has the entry unless the entry is delete-marked, whatever became of the row's other columns.
//! - CURSOR-4: a consistent read may leave out rows of a group, which are those with equal first
//!   columns of the key: rows that come after one that the caller has wanted and, if the caller
//!   wants the last row of each group, before the last that the view sees.
mod groups;

use super::read_ahead::{self, ReadAhead};
use super::update::RowAt;
use super::{overflow, value, version};
use crate::btree::{Path, Seek};
use crate::buf::{Latch, PageGuard};
use crate::dict::table::Table;
use crate::lock::{KeyRange, LockKey, Mode, RangeToken, TrxLocks};
use crate::page::index::{self, Page, Rec};
use crate::trx::{Isolation, Trx};
use crate::{Error, Result, TrxId, Try, WouldBlock};
use groups::Groups;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The way in which rows are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// What the transaction's read view sees.
    Consistent,
    /// Reads the newest versions without locks. This is only allowed while no other session can
    /// change the table (its metadata lock is held exclusively).
    Newest,
    /// The newest versions, which stay locked.
    Locking {
        /// Shared or exclusive.
        mode: Mode,
        /// What happens at a row that another transaction has locked.
        conflict: OnConflict,
    },
}
impl Read {
    fn locks(self) -> bool {
        matches!(self, Read::Locking { .. })
    }
}
/// What a locking read does at a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnConflict {
    /// The read waits.
    Wait,
    /// The read of a locked row fails.
    NoWait,
    /// The read passes over locked rows.
    Skip,
}

/// The rows of the first batch, the most rows of a batch, and the bytes at which a batch ends.
const FIRST_BATCH: usize = 8;
const MAX_BATCH: usize = 512;
const MAX_BATCH_BYTES: usize = 64 << 10;

struct Item {
    key: Range<u32>,
    stored: Range<u32>,
    leaf: (u32, u64),
}
/// Rows copied out of leaves.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Item>,
    next: usize,
    /// The entries of a secondary index whose rows have not been read yet.
    entries: Vec<Range<u32>>,
    entry: usize,
}
impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.entries.clear();
        (self.next, self.entry) = (0, 0);
    }
    fn put(&mut self, b: &[u8]) -> Range<u32> {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(b);
        at..self.bytes.len() as u32
    }
    fn push(&mut self, key: &[u8], stored: &[u8], leaf: (u32, u64)) {
        let (key, stored) = (self.put(key), self.put(stored));
        self.rows.push(Item { key, stored, leaf });
    }
    fn at(&self, r: &Range<u32>) -> &[u8] {
        &self.bytes[r.start as usize..r.end as usize]
    }
}

/// The place at which the scan goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// Upwards: at the key in `last`, which is the high key of an empty leaf.
    At,
    /// Behind (upwards) or before (downwards) the key in `last`.
    Beyond,
    Done,
}

/// The reason why a scan of a leaf ended.
enum Taken {
    /// The batch is full.
    Enough,
    /// All records of the leaf have been taken.
    Leaf,
    /// All records of the range have been taken.
    Range,
}

/// A scan of a range of an index, in either direction.
pub struct Cursor {
    table: Arc<Table>,
    no: usize,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    reverse: bool,
    read: Read,
    /// Whether the range is one whole key of a unique index.
    point: bool,
    place: Place,
    last: Vec<u8>,
    /// The leaf, page LSN and record of `last`.
    hint: Option<(u32, u64, Rec)>,
    batch: Batch,
    batch_rows: usize,
    /// The most rows of the first batch of each range.
    first_batch: usize,
    /// Whether the caller wants no more of rows than their entries have.
    covered: bool,
    /// The groups of which some rows are wanted (CURSOR-4).
    groups: Option<Groups>,
    ahead: ReadAhead,
    /// The rows of the batch's entries below this number have been asked for.
    rows_ahead: usize,
    range_locked: bool,
    /// The lock of the range and its owner, while the scan goes on.
    open_range: Option<(RangeToken, Arc<TrxLocks>)>,
    /// The lock of the present row, if CURSOR-2 allows to give it back.
    taken: Option<LockKey>,
    /// The lock that is being waited for, if CURSOR-2 allows to give it back.
    awaited: Option<LockKey>,
    version: version::Version,
    whole: Vec<u8>,
}

impl Cursor {
    /// A cursor over the keys of index `no` (the engine's number; 0 is the clustered index) from
    /// `low` on and below `high`.
    pub fn new(
        table: Arc<Table>,
        no: usize,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
        reverse: bool,
        read: Read,
    ) -> Cursor {
        Cursor {
            table,
            no,
            low,
            high,
            reverse,
            read,
            point: false,
            place: Place::Start,
            last: Vec::new(),
            hint: None,
            batch: Batch::default(),
            batch_rows: if read.locks() { 1 } else { FIRST_BATCH },
            first_batch: FIRST_BATCH,
            covered: false,
            groups: None,
            ahead: ReadAhead::default(),
            rows_ahead: 0,
            range_locked: false,
            open_range: None,
            taken: None,
            awaited: None,
            version: version::Version::default(),
            whole: Vec::new(),
        }
    }
    /// A cursor over the single row with this clustered key.
    pub fn point(table: Arc<Table>, key: Vec<u8>, read: Read) -> Cursor {
        let mut cursor = Cursor::new(table, 0, key, None, false, read);
        (cursor.point, cursor.batch_rows) = (true, 1);
        cursor
    }
    /// Starts over with another range and keeps the memory. With `point`, `low` is the clustered
    /// key.
    pub fn reset(&mut self, low: &[u8], high: Option<&[u8]>, point: bool) {
        self.end_range();
        self.low.clear();
        self.low.extend_from_slice(low);
        match (&mut self.high, high) {
            (Some(h), Some(to)) => {
                h.clear();
                h.extend_from_slice(to);
            }
            (h, to) => *h = to.map(<[u8]>::to_vec),
        }
        (self.point, self.place, self.hint, self.range_locked) = (point, Place::Start, None, false);
        (self.taken, self.awaited) = (None, None);
        self.batch_rows = if self.read.locks() || point { 1 } else { self.first_batch };
        self.ahead = ReadAhead::default();
        self.batch.clear();
        if let Some(groups) = &mut self.groups {
            groups.reset();
        }
    }
    /// Turns to another table or index for the next statement, and keeps the memory. `reset` has to
    /// follow.
    pub fn aim(&mut self, table: Arc<Table>, no: usize, reverse: bool, read: Read) {
        self.end_range();
        (self.table, self.no, self.reverse, self.read) = (table, no, reverse, read);
        (self.place, self.first_batch, self.covered) = (Place::Done, FIRST_BATCH, false);
        self.groups = None;
        (self.taken, self.awaited) = (None, None);
        self.batch.clear();
    }
    /// About so many rows are going to be wanted of each range. More than those are not read before
    /// the caller asks for more: the row of an entry of a secondary index is a search of its own.
    pub fn expect(&mut self, rows: u64) {
        self.first_batch = rows.clamp(1, FIRST_BATCH as u64) as usize;
    }
    /// Rows may lack all columns but `columns`, which the entries of the secondary index have
    /// ([`Table::entries_have`]). Consistent reads then mostly need no search for the row of an
    /// entry.
    pub fn cover(&mut self, columns: &[u16]) {
        debug_assert!(self.table.entries_have(self.no, columns));
        self.covered = self.read == Read::Consistent;
    }
    /// Frees memory beyond `bytes`.
    pub fn trim(&mut self, bytes: usize) {
        if self.batch.bytes.capacity() > bytes {
            self.batch = Batch::default();
        }
        if self.whole.capacity() > bytes {
            self.whole = Vec::new();
        }
        self.version = version::Version::default();
    }
    /// The table that is read.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
    /// The row to which `next` went.
    pub fn row(&self) -> RowAt<'_> {
        let item = &self.batch.rows[self.batch.next - 1];
        RowAt {
            key: self.batch.at(&item.key),
            stored: self.batch.at(&item.stored),
            leaf: item.leaf,
        }
    }
    /// The row with its long columns inside.
    pub async fn payload(&mut self, trx: &Trx) -> Result<&[u8]> {
        if !self.table.layout.has_externals(self.row().stored) {
            return Ok(self.row().stored);
        }
        // The memory of the previous long row is freed first, so that both are not in memory at the
        // same time.
        self.let_go();
        self.whole = overflow::internalize(&trx.engine, &self.table, self.row().stored).await?;
        Ok(&self.whole)
    }
    /// The row that [`Self::payload`] returned last for a row with long columns.
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }
    /// Frees the memory of the last row with long columns.
    pub fn let_go(&mut self) {
        self.whole = Vec::new();
    }
    /// Goes to the next row if this row has been read already, has no long columns, and the turn is
    /// not over. Most steps of a scan thus need no future. After false the caller has to call
    /// `next`.
    #[inline]
    pub fn next_at_hand(&mut self, trx: &mut Trx) -> bool {
        let Some(item) = self.batch.rows.get(self.batch.next) else { return false };
        let at_hand =
            !self.table.layout.has_externals(self.batch.at(&item.stored)) && trx.turn.goes_on();
        self.batch.next += usize::from(at_hand);
        at_hand
    }
    /// Goes to the next row. Returns false behind the last row.
    pub async fn next(&mut self, trx: &mut Trx) -> Result<bool> {
        trx.give_way().await;
        loop {
            if self.batch.next < self.batch.rows.len() {
                self.batch.next += 1;
                return Ok(true);
            }
            let is_done = self.place == Place::Done && !self.reads_end();
            if is_done && self.batch.entry == self.batch.entries.len() {
                self.stop(trx);
                return Ok(false);
            }
            if self.place == Place::Start && self.read == Read::Consistent {
                trx.open_view();
                if trx.isolation != Isolation::ReadUncommitted
                    && !trx.view.sees(self.table.indexes[self.no].since)
                {
                    return Err(Error::TableChanged(self.table.full_name()));
                }
            }
            if let Err(blocked) = self.fill(trx) {
                if matches!(blocked, WouldBlock::Page(_)) && !self.point {
                    self.missed(trx);
                }
                trx.unblocked(blocked).await?;
            }
        }
    }

    /// The page that the scan needs next is not in memory: the pages that it needs then are read
    /// with that page.
    #[cold]
    fn missed(&mut self, trx: &Trx) {
        let store = &trx.engine.store;
        let (from, entries) = (self.batch.entry, self.batch.entries.len());
        if from < entries {
            if from >= self.rows_ahead {
                let to = entries.min(from + 1 + read_ahead::most_keys(store));
                let keys = (from + 1..to).map(|n| self.batch.at(&self.clustered_of(n)));
                read_ahead::of_keys(&self.table.clustered().tree, store, keys);
                self.rows_ahead = to;
            }
        } else if !self.goes_down() {
            let high = self.high.as_deref();
            let from = if self.place == Place::Start { &self.low } else { &self.last };
            self.ahead.missed(high.is_some());
            self.ahead.begin(&self.table.indexes[self.no].tree, store, from, high);
        }
    }
    /// The part of the batch's bytes that is the clustered key of the entry `n`.
    fn clustered_of(&self, n: usize) -> Range<u32> {
        let ix = &self.table.indexes[self.no];
        let range = &self.batch.entries[n];
        let own = ix.key.skip_columns(self.batch.at(range), ix.columns) as u32;
        range.start + own..range.end
    }

    /// Ends the scan, at its end or before (LIMIT): CURSOR-1.
    pub fn stop(&mut self, trx: &Trx) {
        if let Some(key) = self.awaited.take() {
            self.give_back_awaited(trx, key);
        }
        self.taken = None;
        self.end_range();
    }
    /// Gives back what the scan has not passed of its range: CURSOR-1.
    fn end_range(&mut self) {
        let Some((token, owner)) = self.open_range.take() else { return };
        let keep = match self.place {
            Place::Done => KeyRange::all(),
            Place::Start => KeyRange::none(),
            Place::At => KeyRange::new(Bound::Unbounded, Bound::Excluded(&self.last)),
            Place::Beyond if self.reverse => {
                KeyRange::new(Bound::Included(&self.last), Bound::Unbounded)
            }
            Place::Beyond => KeyRange::new(Bound::Unbounded, Bound::Included(&self.last)),
        };
        self.table.indexes[self.no].ranges.shrink_range(&owner, token, &keep);
    }
    /// Passes over the row to which `next` went: CURSOR-2.
    pub fn refuse(&mut self, trx: &Trx) {
        if let Some(key) = self.taken.take() {
            trx.engine.locks.release_row(&trx.locks, key);
        }
    }
    #[cold]
    fn give_back_awaited(&self, trx: &Trx, key: LockKey) {
        if trx.engine.locks.holds(&trx.locks, key, Mode::S) {
            trx.engine.locks.release_row(&trx.locks, key);
        }
    }

    /// Reads rows into the batch. After a wait the next call goes on where this call stopped.
    fn fill(&mut self, trx: &Trx) -> Try<()> {
        if self.batch.entry == self.batch.entries.len() {
            if self.batch.next > 0 && !self.read.locks() {
                self.batch_rows = (self.batch_rows * 2).min(MAX_BATCH);
                trx.engine.runtime.before_blocking(); // A scan may take long.
            }
            self.leave_out();
            self.batch.clear();
            self.rows_ahead = 0;
            self.taken = None;
            if self.point {
                return self.fill_point(trx);
            }
            if self.place != Place::Done {
                self.lock_range(trx);
                if self.goes_down() { self.fill_down(trx)? } else { self.fill_up(trx)? }
            }
        }
        self.rows_of_entries(trx)
    }
    fn lock_range(&mut self, trx: &Trx) {
        if !self.range_locked && self.read.locks() && trx.isolation.locks_ranges() {
            let high = self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let ranges = &self.table.indexes[self.no].ranges;
            if self.point {
                ranges.lock_range(&trx.locks, KeyRange::point(&self.low));
            } else {
                let range = KeyRange::new(Bound::Included(&self.low), high);
                let token = ranges.lock_open_range(&trx.locks, range);
                self.open_range = Some((token, trx.locks.clone()));
            }
            self.range_locked = true;
        }
    }
    fn fill_point(&mut self, trx: &Trx) -> Try<()> {
        let table = self.table.clone();
        loop {
            let g = table.clustered().tree.leaf(&trx.engine.store, Seek::Key(&self.low))?;
            let found = index::search(&g, &self.low).found;
            if let Some(r) = found {
                self.take_clustered(trx, &g, r)?;
            }
            // The absence of the row must last: the gap is locked, and searched once more.
            if self.batch.rows.is_empty()
                && !self.range_locked
                && self.read.locks()
                && trx.isolation.locks_ranges()
            {
                drop(g);
                self.lock_range(trx);
                continue;
            }
            self.place = Place::Done;
            return Ok(());
        }
    }
    fn full(&self) -> bool {
        self.batch.rows.len() + self.batch.entries.len() >= self.batch_rows
            || self.batch.bytes.len() >= MAX_BATCH_BYTES
    }
    fn moved_to(&mut self, g: &PageGuard, r: Rec) {
        self.place = Place::Beyond;
        self.last.clear();
        self.last.extend_from_slice(index::key(g, r));
        self.hint = Some((g.id().no, g.lsn().0, r));
    }
    /// Keeps the bound of an empty leaf as the scan's place. If the scan has to wait for a page, it
    /// does not begin again at the first of many empty leaves.
    fn passed_empty(&mut self, place: Place, bound: &[u8]) {
        (self.place, self.hint) = (place, None);
        self.last.clear();
        self.last.extend_from_slice(bound);
    }
    fn fill_up(&mut self, trx: &Trx) -> Try<()> {
        let table = self.table.clone();
        let tree = &table.indexes[self.no].tree;
        let store = &trx.engine.store;
        if self.place != Place::Start {
            self.ahead.begin(tree, store, &self.last, self.high.as_deref());
        }
        let (mut g, mut at) = self.find_place(trx)?;
        loop {
            let begun = at;
            let read = self.take_leaf(trx, &g, &mut at);
            if at != begun {
                self.moved_to(&g, at);
            }
            match read? {
                Taken::Enough => return Ok(()),
                Taken::Leaf => {
                    if let (index::INFIMUM, Some(high)) = (at, index::high_key(&g)) {
                        self.passed_empty(Place::At, high);
                    }
                    if let Some(next) = tree.right_of(store, &g)? {
                        (g, at) = (next, index::INFIMUM);
                        self.ahead.reached(g.id().no);
                        continue;
                    }
                }
                Taken::Range => {}
            }
            self.place = Place::Done;
            return Ok(());
        }
    }
    /// Takes the records behind `at`, and moves `at` along.
    fn take_leaf(&mut self, trx: &Trx, g: &PageGuard, at: &mut Rec) -> Try<Taken> {
        // If the range goes beyond the leaf, the keys in the leaf need no comparison.
        let within = |high: &[u8]| index::high_key(g).is_none_or(|fence| fence > high);
        let ends_here = self.high.as_deref().is_some_and(within);
        while !self.full() {
            let Some(r) = index::next_rec(g, *at) else { return Ok(Taken::Leaf) };
            if ends_here && self.high.as_deref().is_some_and(|h| index::key(g, r) >= h) {
                return Ok(Taken::Range);
            }
            self.take(trx, g, r)?;
            *at = r;
        }
        Ok(Taken::Enough)
    }
    /// The leaf, and the record behind which an upward scan goes on.
    fn find_place(&mut self, trx: &Trx) -> Try<(PageGuard, Rec)> {
        let tree = &self.table.indexes[self.no].tree;
        let store = &trx.engine.store;
        if self.place == Place::Start {
            let g = tree.leaf(store, Seek::Key(&self.low))?;
            let at = index::search(&g, &self.low).prev;
            return Ok((g, at));
        }
        if let Some((no, lsn, r)) = self.hint {
            let g = store.pool.fix(crate::PageId { space: self.table.space, no }, Latch::S)?;
            if g.lsn().0 == lsn && index::is_index(&g) && index::index_id(&g) == tree.index {
                return Ok((g, r));
            }
        }
        let g = tree.leaf(store, Seek::Key(&self.last))?;
        let pos = index::search(&g, &self.last);
        let behind = pos.found.filter(|_| self.place == Place::Beyond);
        Ok((g, behind.unwrap_or(pos.prev)))
    }
    fn fill_down(&mut self, trx: &Trx) -> Try<()> {
        let table = self.table.clone();
        let tree = &table.indexes[self.no].tree;
        let mut path = Path::default();
        let mut bound =
            if self.place == Place::Start { self.high.clone() } else { Some(self.last.clone()) };
        loop {
            let seek = bound.as_deref().map_or(Seek::Last, Seek::Before);
            let g = tree.descend(&trx.engine.store, seek, 0, Latch::S, Some(&mut path))?;
            let mut at = match &bound {
                Some(b) => index::search(&g, b).prev,
                None => index::search_end(&g).prev,
            };
            let empty = at == index::INFIMUM;
            while at != index::INFIMUM {
                if self.full() {
                    return Ok(());
                }
                if index::key(&g, at) < &self.low[..] {
                    self.place = Place::Done;
                    return Ok(());
                }
                self.take(trx, &g, at)?;
                self.moved_to(&g, at);
                at = index::prev_rec(&g, at);
            }
            if path.low.is_empty() || path.low <= self.low {
                self.place = Place::Done;
                return Ok(());
            }
            let low = std::mem::take(&mut path.low);
            if bound.as_ref().is_some_and(|b| low >= *b) {
                // Without this check the scan could go on for ever, if pages of different times lie
                // in one file.
                let why = format!(
                    "its low key is not below the low key of the page to its right, in index {}",
                    tree.index
                );
                let (file, table) = trx.engine.describe(tree.space);
                return Err(Error::Corrupt { page: g.id(), file, table, why }.into());
            }
            if empty {
                self.passed_empty(Place::Beyond, &low);
            }
            bound = Some(low);
        }
    }

    fn take(&mut self, trx: &Trx, g: &PageGuard, r: Rec) -> Try<()> {
        if self.groups.is_some() {
            self.see_group(index::key(g, r));
        }
        if self.no == 0 {
            return self.take_clustered(trx, g, r);
        }
        // Rows come in the order of their entries: none is made before an entry whose row is still
        // to be searched.
        if self.covered && self.batch.entries.is_empty() && trx.view.sees_page(g.lsn()) {
            if !index::is_marked(g, r) {
                self.take_entry(index::key(g, r));
            }
            return Ok(());
        }
        let entry = self.batch.put(index::key(g, r));
        self.batch.entries.push(entry);
        Ok(())
    }
    /// Makes a row from its entry.
    fn take_entry(&mut self, entry: &[u8]) {
        let start = self.batch.bytes.len() as u32;
        let key = self.table.row_of_entry(self.no, entry, &mut self.batch.bytes);
        let stored = start..self.batch.bytes.len() as u32;
        let key = self.batch.put(key);
        self.batch.rows.push(Item { key, stored, leaf: (0, 0) });
    }
    fn take_clustered(&mut self, trx: &Trx, g: &PageGuard, r: Rec) -> Try<()> {
        let leaf = (g.id().no, g.lsn().0);
        match self.read {
            Read::Consistent => {
                let v = index::value(g, r);
                // Only views keep the pages of long columns from purge. So READ UNCOMMITTED, too,
                // reads the committed version of such a row.
                let dirty = trx.isolation == Isolation::ReadUncommitted
                    && !self.table.layout.has_externals(value::payload(v));
                let sees =
                    |id: TrxId| dirty || id == trx.id && id != TrxId::NONE || trx.view.sees(id);
                if sees(value::trx(v)) {
                    if !index::is_marked(g, r) {
                        self.batch.push(index::key(g, r), value::payload(v), leaf);
                    }
                } else if version::visible(&trx.engine.store, g, r, sees, &mut self.version)? {
                    let stored = std::mem::take(&mut self.version.payload);
                    self.batch.push(index::key(g, r), &stored, (0, 0));
                    self.version.payload = stored;
                }
            }
            Read::Newest => {
                if !index::is_marked(g, r) {
                    self.batch.push(index::key(g, r), value::payload(index::value(g, r)), leaf);
                }
            }
            Read::Locking { mode, conflict } => {
                if self.lock(trx, g, r, mode, conflict)? {
                    if index::is_marked(g, r) {
                        self.refuse(trx);
                    } else {
                        self.batch.push(index::key(g, r), value::payload(index::value(g, r)), leaf);
                    }
                }
            }
        }
        Ok(())
    }
    /// Locks the row at `r`. Returns false if the row is to be passed over.
    fn lock(&mut self, trx: &Trx, p: &Page, r: Rec, mode: Mode, conflict: OnConflict) -> Try<bool> {
        let key = LockKey::new(self.table.clustered().id, index::key(p, r));
        let awaited = self.awaited.take();
        if let Some(other) = awaited.filter(|k| *k != key) {
            // The row that was waited for is no longer the next row.
            self.give_back_awaited(trx, other);
        }
        let owner = value::trx(index::value(p, r));
        if owner == trx.id && owner != TrxId::NONE {
            // The transaction inserted or changed this row, so the row is its own and needs no
            // lock.
            self.taken = None;
            return Ok(true);
        }
        trx.wait_for(owner, key)?;
        let locks = &trx.engine.locks;
        let may_give_back = !trx.isolation.locks_ranges();
        let newly = match conflict {
            OnConflict::Wait => match locks.lock_row(&trx.locks, key, mode) {
                Ok(newly) => newly,
                Err(blocked) => {
                    let newly = matches!(&blocked, WouldBlock::Lock(wait) if !wait.converts());
                    self.awaited = (may_give_back && newly).then_some(key);
                    return Err(blocked);
                }
            },
            OnConflict::NoWait => {
                locks.try_lock_row(&trx.locks, key, mode).ok_or(Error::LockNoWait)?
            }
            OnConflict::Skip => match locks.try_lock_row(&trx.locks, key, mode) {
                Some(newly) => newly,
                None => return Ok(false),
            },
        };
        self.taken = (may_give_back && (newly || awaited == Some(key))).then_some(key);
        Ok(true)
    }
    /// Reads the rows of the collected entries.
    fn rows_of_entries(&mut self, trx: &Trx) -> Try<()> {
        let table = self.table.clone();
        let store = &trx.engine.store;
        let mut made = Vec::new();
        while self.batch.entry < self.batch.entries.len() {
            let range = self.batch.entries[self.batch.entry].clone();
            let clustered = self.clustered_of(self.batch.entry);
            let g = table.clustered().tree.leaf(store, Seek::Key(self.batch.at(&clustered)))?;
            if let Some(r) = index::search(&g, self.batch.at(&clustered)).found {
                let before = self.batch.rows.len();
                self.take_clustered(trx, &g, r)?;
                if self.batch.rows.len() > before {
                    let item = self.batch.rows.pop().expect("just pushed");
                    table.entry_key(
                        self.no,
                        self.batch.at(&item.stored),
                        self.batch.at(&item.key),
                        &mut made,
                    );
                    if made == self.batch.at(&range) {
                        self.batch.rows.push(item);
                    } else {
                        self.refuse(trx);
                    }
                }
            }
            self.batch.entry += 1;
        }
        Ok(())
    }
}
impl Drop for Cursor {
    fn drop(&mut self) {
        self.end_range();
    }
}

//! A table as the engine runs it: layout, trees, locks and counters, shared by all transactions
//! that have the table open.
use super::estimate::Statistics;
use super::metadata_lock::MetadataLock;
use super::record::TreeRecord;
use super::stored_statistics::StatisticsSettings;
use crate::btree::Tree;
use crate::lock::RangeLocks;
use crate::{PageNo, SpaceId, TrxId};
use parking_lot::RwLock;
use redolith_types::{IndexDef, KeyLayout, RowLayout, TableDef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*, fence};

/// An index. A table's index number 0 is the clustered index, which holds the rows.
pub struct Index {
    /// The index's id, which no other index has had.
    pub id: u64,
    /// Its definition.
    pub def: IndexDef,
    /// Its tree.
    pub tree: Tree,
    /// How its keys are encoded.
    pub key: KeyLayout,
    /// The locks on ranges of its keys.
    pub ranges: Arc<RangeLocks>,
    /// The number of the index's own columns. A secondary key goes on with the clustered key.
    pub columns: usize,
    /// The transaction that made the index. Views older than that need row versions that the index
    /// never had. `NONE` if there is no such view.
    pub since: TrxId,
}
impl Index {
    /// An index whose tree has this root.
    pub fn new(
        id: u64,
        space: SpaceId,
        root: PageNo,
        def: &IndexDef,
        table: &TableDef,
        since: TrxId,
    ) -> Index {
        Index {
            id,
            def: def.clone(),
            tree: Tree::new(space, root, id),
            key: KeyLayout::new(&table.columns, def),
            ranges: RangeLocks::new(id),
            columns: def.columns.len(),
            since,
        }
    }
}

/// A table, as the dictionary has it in memory.
pub struct Table {
    /// The table's id, which no other table has had.
    pub id: u64,
    /// Its table space.
    pub space: SpaceId,
    /// Its definition.
    pub def: TableDef,
    /// How its rows are stored.
    pub layout: RowLayout,
    /// Its indexes; the first is the clustered one.
    pub indexes: Vec<Index>,
    /// Whether the table has no primary key: then the clustered key is a hidden row id, and the
    /// definition does not contain `indexes[0]`.
    pub hidden_key: bool,
    /// Who uses the definition.
    pub metadata_lock: Arc<MetadataLock>,
    /// The next AUTO_INCREMENT value.
    pub auto_increment: AtomicU64,
    /// The greatest value that a row has brought itself since the table was opened (COUNTER-4).
    pub(crate) greatest_brought: AtomicU64,
    /// The next hidden row id.
    pub(crate) row_id: AtomicU64,
    /// The AUTO_INCREMENT column, and the value up to which the redo log has the counter
    /// (COUNTER-2).
    pub(crate) counter_column: Option<usize>,
    pub(crate) counter_logged: AtomicU64,
    /// End LSN of the counter's last raise.
    pub(crate) counter_end: AtomicU64,
    /// Whether `auto_increment` has passed the saved counter.
    pub(crate) counter_moved: AtomicBool,
    /// A rough number of rows: an estimate when the table was opened, counted on from there.
    pub rows: AtomicI64,
    /// What `rows` does not tell of its changes (STATS-5): each row that goes counts for two, since
    /// another may come for it, and each update of a column of an index for one.
    pub(crate) changes: AtomicU64,
    /// The statistics of its indexes, since somebody wanted them.
    pub(crate) statistics: RwLock<Option<Arc<Statistics>>>,
    /// What holds if the definition says nothing of the statistics.
    pub(crate) statistics_settings: Arc<StatisticsSettings>,
    /// Somebody stores the statistics (STATS-4).
    pub(crate) statistics_busy: AtomicBool,
    pub(crate) counters_ready: AtomicBool,
    /// Undo records of transactions before this one may have other index numbers.
    pub(crate) numbered_since: TrxId,
    /// Trees in its space that belong to no index, see [`TableRecord::unfinished`].
    ///
    /// [`TableRecord::unfinished`]: super::record::TableRecord::unfinished
    pub(crate) unfinished: Vec<TreeRecord>,
    /// Whether rows get their entries in secondary indexes when all rows are there (NEWTABLE-4).
    pub(crate) entries_later: AtomicBool,
    /// Set when DDL dropped or replaced the table: users look the table up again.
    pub dropped: AtomicBool,
}
impl Table {
    /// `schema.table`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.def.schema, self.def.name)
    }
    /// The engine's number of an index, from its number in the definition.
    pub fn index_no(&self, in_definition: usize) -> usize {
        in_definition + self.hidden_key as usize
    }
    /// The newest statistics of the table's indexes; None if nobody has wanted any.
    pub fn statistics(&self) -> Option<Arc<Statistics>> {
        self.statistics.read().clone()
    }
    /// The index that holds the rows.
    pub fn clustered(&self) -> &Index {
        &self.indexes[0]
    }
    /// Secondary indexes with their numbers.
    pub fn secondary(&self) -> impl Iterator<Item = (usize, &Index)> {
        self.indexes.iter().enumerate().skip(1)
    }
    /// Writes the clustered key of a row. A table without a primary key takes a new row id.
    pub(crate) fn new_key(&self, payload: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if self.hidden_key {
            out.extend_from_slice(&self.row_id.fetch_add(1, Relaxed).to_be_bytes());
        } else {
            self.indexes[0].key.encode_row(&self.layout, payload, out);
        }
    }
    /// Writes the whole key of a row's entry in secondary index `no`.
    pub(crate) fn entry_key(&self, no: usize, payload: &[u8], clustered: &[u8], out: &mut Vec<u8>) {
        out.clear();
        self.indexes[no].key.encode_row(&self.layout, payload, out);
        out.extend_from_slice(clustered);
    }
    /// Whether the entries of secondary index `no` have the values of all these columns, in their
    /// own columns or in the clustered key.
    pub fn entries_have(&self, no: usize, columns: &[u16]) -> bool {
        let has = |ix: &Index, column| ix.key.whole_columns().any(|whole| whole == column);
        columns.iter().map(|column| usize::from(*column)).all(|column| {
            has(&self.indexes[no], column) || !self.hidden_key && has(self.clustered(), column)
        })
    }
    /// Appends a row with the values that an entry of index `no` has; other columns are NULL.
    /// Returns the clustered key, which the entry ends with.
    pub(crate) fn row_of_entry<'e>(
        &self,
        no: usize,
        entry: &'e [u8],
        out: &mut Vec<u8>,
    ) -> &'e [u8] {
        let start = out.len();
        self.layout.encode_nulls(out);
        let (row, ix) = (&mut out[start..], &self.indexes[no]);
        let clustered = ix.key.restore(entry, &self.layout, row);
        if !self.hidden_key {
            self.clustered().key.restore(clustered, &self.layout, row);
        }
        clustered
    }
    /// Takes `n` consecutive AUTO_INCREMENT values and returns the first.
    pub fn take_auto_increment(&self, n: u64) -> u64 {
        let first = self
            .auto_increment
            .fetch_update(AcqRel, Relaxed, |v| Some(v.saturating_add(n)))
            .unwrap_or_else(|v| v);
        // This is set after the increment: a task that saves the counter in between saves it once
        // more.
        self.counter_moved.store(true, Release);
        first
    }
    /// Takes `n` values of the sequence that `align` describes: it gives the sequence's least value
    /// that is not below its argument. `step` is the distance of two values. Returns the first.
    pub fn take_auto_increment_of(&self, n: u64, step: u64, align: impl Fn(u64) -> u64) -> u64 {
        let end = |v| align(v).saturating_add(n.saturating_mul(step));
        let before = self.auto_increment.fetch_update(AcqRel, Relaxed, |v| Some(end(v)));
        self.counter_moved.store(true, Release);
        align(before.unwrap_or_else(|v| v))
    }
    /// Gives values back that were taken last and not used: the counter goes from `end` to `next`.
    /// If the counter has moved on, or a row has brought one of the values, it stays there
    /// (COUNTER-4). The caller holds the AUTO-INC lock, so nobody takes a value meanwhile.
    pub fn give_auto_increment_back(&self, end: u64, next: u64) {
        if self.auto_increment.compare_exchange(end, next, SeqCst, Relaxed).is_ok()
            && self.greatest_brought.load(SeqCst) >= next
        {
            self.auto_increment.fetch_max(end, AcqRel);
        }
    }
    /// Notes the value that a row brings itself, before the row has it: the next generated value is
    /// above it.
    pub fn saw_auto_increment(&self, value: u64) {
        // COUNTER-4: the value is noted before the look at the counter.
        if value > self.greatest_brought.load(Relaxed) {
            self.greatest_brought.fetch_max(value, SeqCst);
        }
        fence(SeqCst);
        if value >= self.auto_increment.load(Relaxed) {
            self.auto_increment.fetch_max(value.saturating_add(1), AcqRel);
            self.counter_moved.store(true, Release);
        }
    }
}
impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} {})", self.id, self.full_name())
    }
}

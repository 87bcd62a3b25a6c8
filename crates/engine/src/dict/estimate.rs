//! The statistics of a table's indexes: how many rows and how many different keys there are, for
//! those who choose access paths and join orders.
//!
//! Leaves that are spread over an index tell ([`sample`](super::sample)), or the dictionary, which
//! has kept what leaves have told before ([`stored_statistics`](super::stored_statistics)).
//!
//! **SAMPLE-1** Statistics never change. Newer ones take their place in the table, and those who
//! hold the old ones find out by [`Statistics::are_current`].
use super::Dictionary;
use super::histogram::{Histogram, Histograms};
use super::stored_statistics::StoredStatistics;
use super::table::Table;
use crate::Result;
use crate::engine::Engine;
use crate::runtime::give_way;
use redolith_types::TableDef;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The number of rows by which a table of any size may change before its statistics are old.
pub(super) const FEW_ROWS: u64 = 100;

/// What is known of a table's rows since a look at its indexes.
#[derive(Debug)]
pub struct Statistics {
    /// The rows of the table at that time.
    pub rows: u64,
    /// The table's count of other changes at that time.
    pub(super) changes: u64,
    /// For each index of the definition, the number of different values of its first column, of its
    /// first two columns, and so on. Empty for an index that could not be read.
    distinct: Vec<Vec<u64>>,
    /// The histograms that the table's columns had, for statistics of columns without an index.
    histograms: Option<Arc<Histograms>>,
    /// Newer statistics have taken their place.
    replaced: AtomicBool,
    /// The dictionary has them.
    pub(super) stored: AtomicBool,
}
impl Statistics {
    /// Statistics of a table of `rows` rows whose indexes have these numbers of different values.
    pub fn new(rows: u64, distinct: Vec<Vec<u64>>) -> Statistics {
        let (replaced, stored) = Default::default();
        Statistics { rows, changes: 0, distinct, histograms: None, replaced, stored }
    }
    /// Whether any column has a histogram.
    pub fn has_histograms(&self) -> bool {
        self.histograms.is_some()
    }
    /// The histogram of a column of table `def`, if it is one of the column as it is (HISTOGRAM-3).
    pub fn histogram(&self, def: &TableDef, column: usize) -> Option<Arc<Histogram>> {
        let column = def.columns.get(column)?;
        let histogram = self.histograms.as_ref()?.get(&column.name)?;
        (histogram.ty == column.ty).then(|| histogram.clone())
    }
    /// The number of rows with the same values in the first `columns` columns of index `index` of
    /// the definition, on average. None if it is not known.
    pub fn rows_per_key(&self, index: usize, columns: usize) -> Option<f64> {
        let distinct = *self.distinct(index)?.get(columns.checked_sub(1)?)?;
        Some(self.rows.max(1) as f64 / distinct.max(1) as f64)
    }
    /// The number of different values of the first column of index `index` of the definition, of
    /// its first two columns, and so on. None if the index could not be read.
    pub fn distinct(&self, index: usize) -> Option<&[u64]> {
        self.distinct.get(index).map(|distinct| &**distinct).filter(|distinct| !distinct.is_empty())
    }
    /// True if no newer statistics are there, and those of a table with so many rows hold for the
    /// rows that it has.
    pub fn are_current(&self, t: &Table) -> bool {
        !self.replaced.load(Acquire) && t.holds_statistics_of(self.rows)
    }
    /// True if more than a tenth of the rows have changed since, so that newer statistics are to be
    /// made in the background (STATS-5).
    pub(super) fn are_old(&self, t: &Table) -> bool {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        let others = t.changes.load(Relaxed).saturating_sub(self.changes);
        // As many rows have come as the table has more of, and as have gone.
        let changed = rows.saturating_add(others).saturating_sub(self.rows);
        changed > may_change(self.rows) && !t.keeps_statistics()
    }
}

/// How many of so many rows may change before statistics are old.
fn may_change(rows: u64) -> u64 {
    rows / 10 + FEW_ROWS
}

impl Table {
    /// Whether statistics from a time when the table had `rows` rows hold: its number of rows has
    /// not changed by more than a tenth since, or only ANALYZE TABLE makes newer ones.
    pub(super) fn holds_statistics_of(&self, rows: u64) -> bool {
        let now = self.rows.load(Relaxed).max(0) as u64;
        now.abs_diff(rows) <= may_change(rows) || self.keeps_statistics()
    }
    /// Puts statistics in the place of older ones, with the histograms of this moment: those who
    /// change histograms change them first and then renew the statistics.
    fn put_statistics(&self, dict: &Dictionary, made: Statistics) -> Arc<Statistics> {
        self.put_statistics_unless(dict, made, |_| false)
    }
    fn put_statistics_unless(
        &self,
        dict: &Dictionary,
        made: Statistics,
        stay: impl FnOnce(&Statistics) -> bool,
    ) -> Arc<Statistics> {
        let mut place = self.statistics.write();
        if let Some(old) = place.as_ref().filter(|old| stay(old)) {
            return old.clone();
        }
        let made = Arc::new(Statistics { histograms: dict.histograms(self.id), ..made });
        if let Some(old) = place.replace(made.clone()) {
            old.replaced.store(true, Release);
        }
        made
    }
    /// The histograms have changed. Returns false if the table has no statistics to renew.
    pub(super) fn renew_statistics(&self, dict: &Dictionary) -> bool {
        let Some(old) = self.statistics() else { return false };
        let stored = old.stored.load(Acquire).into();
        let made = Statistics {
            stored,
            changes: old.changes,
            ..Statistics::new(old.rows, old.distinct.clone())
        };
        self.put_statistics(dict, made);
        true
    }
}

impl Engine {
    /// Makes statistics for a table that has none that hold: of what the dictionary has kept, if
    /// that holds, otherwise of leaves.
    pub async fn ready_statistics(&self, t: &Table) -> Arc<Statistics> {
        let made = self.make_statistics(t, self.kept_statistics(t).as_deref()).await;
        // Somebody may have made newer ones meanwhile.
        t.put_statistics_unless(&self.dict, made, |other| other.are_current(t))
    }
    /// Looks at leaves of each index of the table, and keeps what they tell as the table's
    /// statistics, in memory.
    pub async fn sample_statistics(&self, t: &Table) -> Arc<Statistics> {
        let made = self.make_statistics(t, None).await;
        t.put_statistics(&self.dict, made)
    }
    /// Looks at leaves of the indexes of which the dictionary has `kept` nothing. Other tasks get a
    /// turn between two indexes.
    async fn make_statistics(&self, t: &Table, kept: Option<&StoredStatistics>) -> Statistics {
        // All numbers of different values are those of one number of rows.
        let rows = kept.map_or_else(|| t.rows.load(Relaxed).max(0) as u64, |kept| kept.rows);
        let changes = kept.map_or_else(|| t.changes.load(Relaxed), |kept| kept.changes);
        let indexes = Vec::with_capacity(t.def.indexes.len());
        let mut made = Statistics { changes, ..Statistics::new(rows, indexes) };
        *made.stored.get_mut() = kept.is_some();
        for no in 0..t.def.indexes.len() {
            if let Some(distinct) = kept.and_then(|kept| kept.distinct(t, no)) {
                made.distinct.push(distinct.to_vec());
                continue;
            }
            // An index that cannot be read fails the statements that read it.
            let found = self.estimate(t, t.index_no(no), rows).await;
            made.distinct.push(found.unwrap_or_default());
            *made.stored.get_mut() = false;
            give_way(&*self.runtime).await;
        }
        made
    }
    /// The number of different values of the first column of index `no` of the definition, of its
    /// first two columns, and so on, for people: as the table's statistics have it, if there are
    /// any that hold and outlive the server. Otherwise leaves tell.
    pub async fn distinct_values(&self, t: &Table, no: usize) -> Result<Vec<u64>> {
        if t.has_persistent_statistics()
            && let Some(known) = t.statistics().filter(|known| known.are_current(t))
            && let Some(distinct) = known.distinct(no)
        {
            return Ok(distinct.to_vec());
        }
        if let Some(kept) = self.kept_statistics(t)
            && let Some(distinct) = kept.distinct(t, no)
        {
            return Ok(distinct.to_vec());
        }
        let rows = t.rows.load(Relaxed).max(0) as u64;
        self.estimate(t, t.index_no(no), rows).await
    }
    /// Estimates the number of different values of the first column of index `no`, of its first two
    /// columns, and so on, if the table has so many rows. The numbers are exact where the index is
    /// one page, and 0 for a definition that has been replaced meanwhile, whose trees may be gone.
    async fn estimate(&self, t: &Table, no: usize, rows: u64) -> Result<Vec<u64>> {
        let sample = match self.sample(t, no, t.leaves_to_sample()).await {
            Err(_) if t.dropped.load(Acquire) => return Ok(vec![0; t.indexes[no].columns]),
            sample => sample?,
        };
        let estimate = |changes: &u64| {
            let share =
                (rows as u128 * u128::from(*changes) / u128::from(sample.pairs.max(1))) as u64;
            share.max(changes + 1).min(rows.max(1))
        };
        Ok(if rows == 0 {
            vec![0; sample.different.len()]
        } else {
            sample.different.iter().map(estimate).collect()
        })
    }
}

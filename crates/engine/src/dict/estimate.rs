//! Estimates how many different keys an index has, from a few leaves spread over the index, and
//! keeps the estimates of a table's indexes for those who choose access paths and join orders.
//!
//! **SAMPLE-1** Statistics never change. Newer ones take their place in the table, and those who
//! hold the old ones find out by [`Statistics::are_current`].
use super::Dictionary;
use super::counters::spread_keys;
use super::histogram::{Histogram, Histograms};
use super::table::Table;
use crate::btree::Seek;
use crate::buf::Latch;
use crate::engine::Engine;
use crate::page::index;
use crate::runtime::give_way;
use crate::{PageId, Result, Try};
use redolith_types::TableDef;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The number of leaves that are read, roughly.
const LEAVES: usize = 8;

/// The number of rows by which a table of any size may change before its statistics are old.
const FEW_ROWS: u64 = 100;

/// What is known of a table's rows since a look at its indexes.
#[derive(Debug)]
pub struct Statistics {
    /// The rows of the table at that time.
    pub rows: u64,
    /// For each index of the definition, the number of different values of its first column, of its
    /// first two columns, and so on. Empty for an index that could not be read.
    distinct: Vec<Vec<u64>>,
    /// The histograms that the table's columns had, for statistics of columns without an index.
    histograms: Option<Arc<Histograms>>,
    /// Newer statistics have taken their place.
    replaced: AtomicBool,
}
impl Statistics {
    /// Statistics of a table of `rows` rows whose indexes have these numbers of different values.
    pub fn new(rows: u64, distinct: Vec<Vec<u64>>) -> Statistics {
        Statistics { rows, distinct, histograms: None, replaced: AtomicBool::new(false) }
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
        let distinct = *self.distinct.get(index)?.get(columns.checked_sub(1)?)?;
        Some(self.rows.max(1) as f64 / distinct.max(1) as f64)
    }
    /// True if no newer statistics are there, and the table's number of rows has not changed by
    /// more than a tenth since.
    pub fn are_current(&self, t: &Table) -> bool {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        !self.replaced.load(Acquire) && rows.abs_diff(self.rows) <= self.rows / 10 + FEW_ROWS
    }
}

impl Table {
    /// Puts statistics in the place of older ones, with the histograms of this moment: those who
    /// change histograms change them first and then renew the statistics.
    fn put_statistics(&self, dict: &Dictionary, made: Statistics) -> Arc<Statistics> {
        let mut place = self.statistics.write();
        let made = Arc::new(Statistics { histograms: dict.histograms(self.id), ..made });
        if let Some(old) = place.replace(made.clone()) {
            old.replaced.store(true, Release);
        }
        made
    }
    /// The histograms have changed. Returns false if the table has no statistics to renew.
    pub(super) fn renew_statistics(&self, dict: &Dictionary) -> bool {
        let Some(old) = self.statistics() else { return false };
        self.put_statistics(dict, Statistics::new(old.rows, old.distinct.clone()));
        true
    }
}

/// A comparison of neighbouring entries in the leaves read.
struct Sample {
    pairs: u64,
    /// Pairs that differ in the first column, in the first two, and so on.
    different: Vec<u64>,
}

impl Engine {
    /// Looks at some leaves of each index of the table, and keeps what they tell as the table's
    /// statistics. Other tasks get a turn between two indexes.
    pub async fn sample_statistics(&self, t: &Table) -> Arc<Statistics> {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        let mut distinct = Vec::with_capacity(t.def.indexes.len());
        for no in 0..t.def.indexes.len() {
            // An index that cannot be read fails the statements that read it.
            let found = self.estimate_distinct(t, t.index_no(no)).await;
            distinct.push(found.unwrap_or_default());
            give_way(&*self.runtime).await;
        }
        t.put_statistics(&self.dict, Statistics::new(rows, distinct))
    }
    /// Estimates the number of different values of the first column of index `no`, of its first two
    /// columns, and so on. The numbers are exact where the index is one page, and 0 for a
    /// definition that has been replaced meanwhile, whose trees may be gone.
    pub async fn estimate_distinct(&self, t: &Table, no: usize) -> Result<Vec<u64>> {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        let sample = match self.retry(|| self.sample(t, no)).await {
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
    fn sample(&self, t: &Table, no: usize) -> Try<Sample> {
        let ix = &t.indexes[no];
        let mut found = Sample { pairs: 0, different: vec![0; ix.columns] };
        let starts = {
            let root =
                self.store.pool.fix(PageId { space: t.space, no: ix.tree.root }, Latch::S)?;
            ix.tree.expect(&self.store, &root, None)?;
            // A root that is a leaf is read once.
            spread_keys(&root, if index::level(&root) == 0 { 1 } else { LEAVES })
        };
        for start in starts {
            let leaf = ix.tree.leaf(&self.store, Seek::Key(&start))?;
            let mut last: Option<&[u8]> = None;
            let mut at = index::first_rec(&leaf);
            while let Some(r) = at {
                at = index::next_rec(&leaf, r);
                if index::is_marked(&leaf, r) {
                    continue;
                }
                let key = index::key(&leaf, r);
                if let Some(last) = last {
                    found.pairs += 1;
                    for (i, n) in found.different.iter_mut().enumerate() {
                        *n += (key[..ix.key.skip_columns(key, i + 1)]
                            != last[..ix.key.skip_columns(last, i + 1)])
                            as u64;
                    }
                }
                last = Some(key);
            }
        }
        Ok(found)
    }
}

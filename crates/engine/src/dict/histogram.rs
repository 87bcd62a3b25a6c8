//! Histograms: how the values of a column are spread, for those who estimate how many rows a
//! condition leaves. A statement makes them, and they stay as they are until another one.
//!
//! Each histogram is a row of the dictionary of its own ([`known_values`](super::known_values)).
//!
//! - HISTOGRAM-1: a histogram is advice. A record that cannot be read is as none, and neither a
//!   start nor a statement fails by it.
//! - HISTOGRAM-2: the rows of a table's histograms go, or get the id of the table in its place, in
//!   the transaction that changes the table's own row. So no table finds those of another one.
//! - HISTOGRAM-3: a histogram counts only for a column of the type that it was made for. A column
//!   that gets another type loses it.
use super::ddl::Change;
use super::record;
use super::table::Table;
use super::{Dictionary, Result};
use crate::engine::Engine;
use redolith_types::{SqlType, TableDef, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a histogram's buckets are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A bucket for each value.
    Singleton,
    /// A bucket for the values from one to another, with about as many rows as the other buckets.
    EquiHeight,
}

/// Neighbouring values of a column.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The least value.
    pub low: Value<'static>,
    /// The greatest value.
    pub high: Value<'static>,
    /// The share of all rows that have a value of this bucket or of one before it.
    pub cumulative: f64,
    /// The number of different values.
    pub distinct: u64,
}

/// The values of a column, in their order.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The type of the column when it was made (HISTOGRAM-3).
    pub ty: SqlType,
    /// How the buckets are made.
    pub kind: Kind,
    /// The share of the rows that are NULL.
    pub nulls: f64,
    /// The share of the rows that were looked at.
    pub sampling_rate: f64,
    /// When it was made, in microseconds since 1970.
    pub updated_us: u64,
    /// The number of buckets that the statement has named.
    pub specified: u32,
    /// In the order of the values.
    pub buckets: Vec<Bucket>,
}

/// The histograms of a table by the names of their columns.
pub type Histograms = BTreeMap<String, Arc<Histogram>>;

impl Histogram {
    /// The share of the rows that have a value. Values compare as the column does.
    pub fn share_of(&self, value: &Value<'_>) -> f64 {
        let at = self.bucket_of(value);
        match self.buckets.get(at) {
            Some(bucket) if self.order(&bucket.low, value).is_le() => {
                self.rows_of(at) / bucket.distinct.max(1) as f64
            }
            _ => 0.0,
        }
    }
    /// The share of the rows below a value; those with the value, too, if `inclusive`.
    pub fn share_below(&self, value: &Value<'_>, inclusive: bool) -> f64 {
        let at = self.bucket_of(value);
        let before = at.checked_sub(1).map_or(0.0, |n| self.buckets[n].cumulative);
        let Some(bucket) = self.buckets.get(at) else { return before };
        let order = self.order(&bucket.low, value);
        if order.is_gt() {
            return before;
        }
        let equal = self.rows_of(at) / bucket.distinct.max(1) as f64;
        let own = if inclusive { equal } else { 0.0 };
        if order.is_eq() {
            return before + own;
        }
        // The rest of the bucket's rows are spread evenly, as far as values can be measured.
        let share = position(&bucket.low, &bucket.high, value).unwrap_or(0.5);
        let below = before + self.rows_of(at) * share;
        let most = bucket.cumulative - if inclusive { 0.0 } else { equal };
        (below + own).min(most.max(before))
    }
    /// The share of the rows with a value on average, where the value is not known.
    pub fn average(&self) -> f64 {
        let distinct: f64 = self.buckets.iter().map(|b| b.distinct as f64).sum();
        self.not_null() / distinct.max(1.0)
    }
    /// The share of the rows that are not NULL.
    pub fn not_null(&self) -> f64 {
        (1.0 - self.nulls).max(0.0)
    }
    /// The first bucket that does not end below the value.
    fn bucket_of(&self, value: &Value<'_>) -> usize {
        self.buckets.partition_point(|bucket| self.order(&bucket.high, value).is_lt())
    }
    fn rows_of(&self, at: usize) -> f64 {
        let before = at.checked_sub(1).map_or(0.0, |n| self.buckets[n].cumulative);
        (self.buckets[at].cumulative - before).max(0.0)
    }
    fn order(&self, a: &Value<'_>, b: &Value<'_>) -> std::cmp::Ordering {
        a.compare(b, self.ty.compare_collation())
    }
}

/// Where a value is between two others, from 0 to 1; None if they are no numbers and no moments.
fn position(low: &Value<'_>, high: &Value<'_>, value: &Value<'_>) -> Option<f64> {
    let number = |v: &Value<'_>| match v {
        Value::Bytes(_) | Value::Json(_) | Value::Null => None,
        v => Some(redolith_types::convert::to_f64(v).value),
    };
    let (low, high, value) = (number(low)?, number(high)?, number(value)?);
    let share = (value - low) / (high - low);
    share.is_finite().then(|| share.clamp(0.0, 1.0))
}

/// What a table keeps of histograms when it gets another definition. `columns` are the old and the
/// new names of the columns whose values stay.
pub(super) fn kept(had: &Histograms, to: &TableDef, columns: &[(String, String)]) -> Histograms {
    let mut kept = Histograms::new();
    for (old, new) in columns {
        if let Some(histogram) = had.get(old)
            && to.columns.iter().any(|column| column.name == *new && column.ty == histogram.ty)
        {
            kept.insert(new.clone(), histogram.clone());
        }
    }
    kept
}
/// What a table keeps whose rows stay as they are: each column has the place that it had.
pub(super) fn kept_in_place(had: &Histograms, from: &TableDef, to: &TableDef) -> Histograms {
    let columns = from.columns.iter().zip(&to.columns);
    let columns = columns.filter(|(old, _)| had.contains_key(&old.name));
    let names: Vec<_> = columns.map(|(old, new)| (old.name.clone(), new.name.clone())).collect();
    kept(had, to, &names)
}

impl Dictionary {
    /// The histograms of the table that has this id; None if it has none.
    pub fn histograms(&self, table: u64) -> Option<Arc<Histograms>> {
        self.state.read().known_values.histograms.get(&table).cloned()
    }
    pub(crate) fn set_histograms(&self, table: u64, histograms: Histograms) {
        self.state.write().known_values.set_histograms(table, histograms);
    }
}

impl Engine {
    /// The changes after which the table with id `to` has the histograms `kept`, and the table
    /// `from`, which may be the same, has no others.
    pub(super) fn move_histograms(&self, from: &Table, to: u64, kept: &Histograms) -> Vec<Change> {
        let had = self.dict.histograms(from.id).unwrap_or_default();
        let is_same = |column: &str, histogram: &Arc<Histogram>| {
            from.id == to && kept.get(column).is_some_and(|new| Arc::ptr_eq(new, histogram))
        };
        let gone = had.iter().filter(|(column, histogram)| !is_same(column, histogram));
        let mut changes: Vec<Change> = gone
            .map(|(column, _)| Change::Remove(record::histogram_name(from.id, column)))
            .collect();
        for (column, histogram) in kept {
            if from.id != to || !had.get(column).is_some_and(|old| Arc::ptr_eq(old, histogram)) {
                let name = record::histogram_name(to, column);
                let row = record::histogram_row(&self.dict_table, &name, histogram);
                changes.push(Change::Put(name, row));
            }
        }
        changes
    }
    /// Gives columns of a table histograms, or takes them away, durably and all or none. The caller
    /// holds a metadata lock that keeps out DDL, and lets nobody else change the table's histograms
    /// meanwhile. Plans that were chosen by the table's statistics are chosen anew.
    pub async fn change_histograms(
        self: &Arc<Self>,
        t: &Table,
        to: Vec<(String, Option<Histogram>)>,
    ) -> Result<()> {
        let mut all = self.dict.histograms(t.id).map(|all| (*all).clone()).unwrap_or_default();
        for (column, histogram) in to {
            match histogram {
                Some(histogram) => all.insert(column, Arc::new(histogram)),
                None => all.remove(&column),
            };
        }
        let changes = self.move_histograms(t, t.id, &all);
        self.change_dictionary(&changes, None, |_| self.dict.set_histograms(t.id, all)).await?;
        if !t.renew_statistics(&self.dict) {
            self.ready_statistics(t).await;
        }
        Ok(())
    }
}

#[cfg(all(test, not(model)))]
mod tests;

//! What the dictionary knows of the values in tables: the histograms of columns ([`histogram`]) and
//! the statistics of indexes ([`stored_statistics`]).
//!
//! Each has a row of the dictionary of its own, named `h`, the table's id (u64, big-endian) and the
//! column's name, which is empty for the statistics. So a renamed table keeps them without a
//! change.
//!
//! VALUES-1: rows of a table that does not exist are found by a start, belong to nobody, and are
//! removed in the background: a table's id is never given again. Damage or an earlier program has
//! left them, since DDL removes them with their table (HISTOGRAM-2, STATS-2).
//!
//! [`histogram`]: super::histogram
//! [`stored_statistics`]: super::stored_statistics
use super::ddl::Change;
use super::histogram::Histograms;
use super::record::{self, Values};
use super::stored_statistics::{PATIENCE, StoredStatistics};
use super::table::Table;
use super::{Dictionary, State};
use crate::Result;
use crate::engine::Engine;
use crate::lock::{KillFlag, Mode};
use crate::row::cursor::{Cursor, OnConflict, Read};
use hashbrown::HashMap;
use redolith_types::{KeyLayout, Value};
use std::sync::Arc;

/// A start removes the rows of at most so many tables that do not exist.
const MOST_STRAY: usize = 10_000;

/// What is known, by the ids of the tables.
#[derive(Default)]
pub(super) struct KnownValues {
    pub(super) histograms: HashMap<u64, Arc<Histograms>>,
    pub(super) statistics: HashMap<u64, Arc<StoredStatistics>>,
    /// The ids of rows that cannot be read. Afterwards, the ids of tables that do not exist.
    stray: Vec<u64>,
}
impl KnownValues {
    pub(super) fn set_histograms(&mut self, table: u64, histograms: Histograms) {
        if histograms.is_empty() {
            self.histograms.remove(&table);
        } else {
            self.histograms.insert(table, Arc::new(histograms));
        }
    }
    pub(super) fn forget(&mut self, table: u64) {
        self.histograms.remove(&table);
        self.statistics.remove(&table);
    }
}

impl Dictionary {
    /// Notes what a start has read in the dictionary.
    pub(crate) fn learn(&self, table: u64, read: std::result::Result<Values, String>) {
        let known = &mut self.state.write().known_values;
        match read {
            Ok(Values::Histogram(column, histogram)) => {
                let all = known.histograms.entry(table).or_default();
                // Nobody else has the map while a start reads the dictionary, so nothing is copied.
                Arc::make_mut(all).insert(column, Arc::new(*histogram));
            }
            Ok(Values::Statistics(statistics)) => {
                known.statistics.insert(table, Arc::new(statistics));
            }
            Err(why) => {
                tracing::warn!(
                    "what the dictionary knows of the values of the table with id {table} is left \
                     out, for {why}"
                );
                known.stray.push(table);
            }
        }
    }
    /// Forgets what belongs to no table (VALUES-1). Now all tables are known.
    pub(crate) fn forget_stray_values(&self) {
        let mut state = self.state.write();
        let State { known_values: known, ids, .. } = &mut *state;
        let KnownValues { histograms, statistics, stray } = known;
        let mut note = |table: &u64| {
            let is_known = ids.contains_key(table);
            if !is_known {
                stray.push(*table);
            }
            is_known
        };
        histograms.retain(|table, _| note(table));
        statistics.retain(|table, _| note(table));
        stray.retain(|table| !ids.contains_key(table));
        stray.sort_unstable();
        stray.dedup();
        stray.truncate(MOST_STRAY);
    }
    /// The changes that remove all rows about the values of a table.
    pub(super) fn without_values(&self, table: &Table) -> impl Iterator<Item = Change> + use<> {
        let (id, had) = (table.id, self.histograms(table.id).unwrap_or_default());
        let names = had.keys().map(|column| record::histogram_name(id, column));
        let changes: Vec<_> =
            names.map(Change::Remove).chain(self.without_statistics(table)).collect();
        changes.into_iter()
    }
}

impl Engine {
    /// Removes the rows of tables that do not exist (VALUES-1). What cannot be removed now is found
    /// by the next start.
    pub(super) async fn remove_stray_values(self: &Arc<Self>) -> Result<()> {
        let stray = std::mem::take(&mut self.dict.state.write().known_values.stray);
        for table in stray {
            let name = record::statistics_name(table);
            let mut end = name.clone();
            KeyLayout::successor(&mut end);
            let [low, high] = [&name, &end].map(|name| {
                let mut key = Vec::new();
                self.dict_table.clustered().key.encode_values(&[Value::bytes(name)], &mut key);
                key
            });
            let mut trx = self.begin(KillFlag::new());
            trx.lock_wait_timeout = PATIENCE;
            let read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };
            let mut rows = Cursor::new(self.dict_table.clone(), 0, low, Some(high), false, read);
            loop {
                let done = match rows.next(&mut trx).await {
                    Ok(true) => {
                        let found = self.dict_table.layout.get(rows.row().stored, 0);
                        let is_stray = found.as_bytes().is_some_and(|of| of.starts_with(&name));
                        assert!(is_stray, "VALUES-1: only what is about the values of no table");
                        trx.delete(&self.dict_table, rows.row()).await
                    }
                    Ok(false) => break,
                    Err(e) => Err(e),
                };
                if let Err(e) = done {
                    trx.rollback().await?;
                    return Err(e);
                }
            }
            // Whether it lasts, the next start sees.
            let _ticket = trx.commit().await?;
        }
        Ok(())
    }
}

//! Statistics that outlive the server (`innodb_stats_persistent`): the dictionary keeps the number
//! of rows of a table, and the numbers of different values of its indexes. So a table has the same
//! statistics, and thereby the same plans, before and after a restart.
//!
//! - STATS-1: what the dictionary keeps is advice. A record that cannot be read, or that does not
//!   fit its table, is as none, and neither a start nor a statement fails by it. The statistics are
//!   then made of leaves.
//! - STATS-2: the row goes in the transaction in which its table goes, gets another id, or is told
//!   to have no statistics that outlive the server. Indexes are known by their ids, which are never
//!   given again: an index that is new has nothing there, and one that is gone is passed over.
//! - STATS-3: no statement waits until the dictionary has the statistics that it has needed, and no
//!   commit is flushed for them. A task stores them later, those of each table at most once in ten
//!   seconds. ANALYZE TABLE stores its own, durably.
//! - STATS-4: one at a time stores the statistics of a table, and stores the newest. Who stores
//!   holds metadata locks that keep out DDL, so the row of a table that is dropped is not made
//!   again. The task does not wait for these locks, but tries again later.
//! - STATS-5: rows that come for others that go, and rows whose values in an index are changed,
//!   make statistics old as well as a number of rows that differs. Only the task looks for them, so
//!   that statements do not make statistics of a small and busy table again and again. How far a
//!   table has counted is stored with the statistics at the shutdown, and by the task where it
//!   differs by more than a hundredth: neither the number of rows nor the age of statistics begins
//!   anew with a start.
use super::ddl::Change;
use super::estimate::{FEW_ROWS, Statistics};
use super::metadata_lock::{MetadataLockMode, MetadataLockSet};
use super::table::Table;
use super::temporary::TEMPORARY_SCHEMA;
use super::{Dictionary, record};
use crate::engine::Engine;
use crate::lock::KillFlag;
use crate::sync::event::either;
use crate::{CommitTicket, Error, Result};
use std::num::NonZeroU16;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// How long the task waits for locks of rows and for room in the redo log.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How often ANALYZE TABLE tries.
const ATTEMPTS: u32 = 3;

/// What the dictionary keeps of a table's statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredStatistics {
    /// The table's id.
    pub table: u64,
    /// The table's rows when the statistics were made.
    pub rows: u64,
    /// Its count of other changes at that time.
    pub changes: u64,
    /// Both counts when they were stored, for the next start.
    pub counted: Counted,
    /// The indexes that could be read.
    pub indexes: Vec<StoredIndex>,
}
/// What a table counts of its rows: their number, and changes that this number does not tell of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// [`Table::rows`]
    pub rows: u64,
    /// `Table::changes`
    pub changes: u64,
}
impl Counted {
    fn of(t: &Table) -> Counted {
        let rows = t.rows.load(Relaxed).max(0) as u64;
        Counted { rows, changes: t.changes.load(Relaxed) }
    }
    /// True if so much has changed that the counts are stored before the shutdown (STATS-5).
    fn is_far_from(self, other: Counted) -> bool {
        let far = |a: u64, b: u64| a.abs_diff(b) > self.rows / 100 + FEW_ROWS;
        far(self.rows, other.rows) || far(self.changes, other.changes)
    }
}
/// What it keeps of an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredIndex {
    /// The index's id.
    pub id: u64,
    /// The number of different values of its first column, its first two columns, and so on.
    pub distinct: Vec<u64>,
}
impl StoredStatistics {
    /// What to keep of statistics.
    fn of(t: &Table, made: &Statistics) -> StoredStatistics {
        let numbers = 0..t.def.indexes.len();
        let indexes = numbers.filter_map(|no| {
            let id = t.indexes[t.index_no(no)].id;
            made.distinct(no).map(|distinct| StoredIndex { id, distinct: distinct.to_vec() })
        });
        StoredStatistics {
            table: t.id,
            rows: made.rows,
            changes: made.changes,
            counted: Counted::of(t),
            indexes: indexes.collect(),
        }
    }
    /// The numbers of different values of index `no` of the table's definition. None if they are
    /// not there, or do not fit the index (STATS-1).
    pub(super) fn distinct(&self, t: &Table, no: usize) -> Option<&[u64]> {
        let index = &t.indexes[t.index_no(no)];
        let kept = self.indexes.iter().find(|kept| kept.id == index.id)?;
        if kept.distinct.len() != index.columns {
            tracing::warn!(
                "the statistics of index {} of {} are made anew: the dictionary keeps those of {} \
                 columns, and it has {}",
                index.def.name,
                t.full_name(),
                kept.distinct.len(),
                index.columns
            );
            return None;
        }
        Some(&kept.distinct)
    }
}

/// What holds for tables that say nothing of their statistics. The settings may change at any time.
pub struct StatisticsSettings {
    /// Whether statistics outlive the server (innodb_stats_persistent).
    pub persistent: AtomicBool,
    /// Whether those are made anew when many rows have come or gone (innodb_stats_auto_recalc).
    pub auto_recalc: AtomicBool,
    /// How many leaves of an index tell of it (innodb_stats_persistent_sample_pages).
    pub persistent_sample_pages: AtomicU64,
    /// The same for tables whose statistics do not outlive the server
    /// (innodb_stats_transient_sample_pages).
    pub transient_sample_pages: AtomicU64,
}
impl Default for StatisticsSettings {
    fn default() -> StatisticsSettings {
        StatisticsSettings {
            persistent: AtomicBool::new(true),
            auto_recalc: AtomicBool::new(true),
            persistent_sample_pages: AtomicU64::new(20),
            transient_sample_pages: AtomicU64::new(8),
        }
    }
}

impl Table {
    /// Whether the table's statistics outlive the server. Temporary tables do not.
    pub(super) fn has_persistent_statistics(&self) -> bool {
        let said = self.def.statistics.persistent;
        self.def.schema != TEMPORARY_SCHEMA
            && said.unwrap_or_else(|| self.statistics_settings.persistent.load(Relaxed))
    }
    /// Whether the table's statistics stay as they are until ANALYZE TABLE, however many rows come
    /// and go.
    pub(super) fn keeps_statistics(&self) -> bool {
        let said = self.def.statistics.auto_recalc;
        let recalculates =
            said.unwrap_or_else(|| self.statistics_settings.auto_recalc.load(Relaxed));
        !recalculates && self.has_persistent_statistics()
    }
    /// How many leaves of an index tell of it.
    pub(super) fn leaves_to_sample(&self) -> usize {
        let settings = &self.statistics_settings;
        let of_setting = || match self.has_persistent_statistics() {
            true => settings.persistent_sample_pages.load(Relaxed),
            false => settings.transient_sample_pages.load(Relaxed),
        };
        let said = self.def.statistics.sample_pages.map(|pages| NonZeroU16::get(pages).into());
        usize::try_from(said.unwrap_or_else(of_setting)).unwrap_or(usize::MAX)
    }
}

impl Dictionary {
    /// What is kept of the statistics of the table with this id.
    pub fn stored_statistics(&self, table: u64) -> Option<Arc<StoredStatistics>> {
        self.state.read().known_values.statistics.get(&table).cloned()
    }
    pub(super) fn set_stored_statistics(&self, table: u64, kept: Option<StoredStatistics>) {
        let statistics = &mut self.state.write().known_values.statistics;
        match kept {
            Some(kept) => drop(statistics.insert(table, Arc::new(kept))),
            None => drop(statistics.remove(&table)),
        }
    }
    /// The change that removes the row of a table's statistics, if there is one (STATS-2).
    pub(super) fn without_statistics(&self, table: &Table) -> Option<Change> {
        self.stored_statistics(table.id).map(|_| Change::Remove(record::statistics_name(table.id)))
    }
}

/// What has become of statistics that were to be stored.
enum Outcome {
    Stored(CommitTicket),
    /// The dictionary has them, or does not keep this table's.
    NotWanted,
    Later,
}

/// Whether nobody else stores the statistics of a table. Ends when it is dropped.
struct Storing<'a>(&'a Table);
impl Storing<'_> {
    fn begin(t: &Table) -> Option<Storing<'_>> {
        // Made only then: its end lets others in.
        (!t.statistics_busy.swap(true, Acquire)).then(|| Storing(t))
    }
}
impl Drop for Storing<'_> {
    fn drop(&mut self) {
        self.0.statistics_busy.store(false, Release);
    }
}

impl Engine {
    /// What the dictionary has kept of a table's statistics, if that holds.
    pub(super) fn kept_statistics(&self, t: &Table) -> Option<Arc<StoredStatistics>> {
        let kept = self.dict.stored_statistics(t.id)?;
        (t.has_persistent_statistics() && t.holds_statistics_of(kept.rows)).then_some(kept)
    }
    /// Sets the counts of the rows of a table that is opened, of which its tree tells an estimate.
    /// The number that the dictionary has kept is better, if the table has not changed beyond
    /// recognition since: the last rows before a crash may have come behind what was stored.
    pub(super) fn count_rows_at_start(&self, t: &Table, estimate: u64) {
        let kept = self.dict.stored_statistics(t.id).filter(|_| t.has_persistent_statistics());
        let is_like = |rows: &u64| {
            let (few, many) = (estimate.min(*rows), estimate.max(*rows));
            many <= few.saturating_mul(2).saturating_add(FEW_ROWS)
        };
        // So few lie in a page that was counted, as a rule.
        let rows = kept.as_ref().map(|kept| kept.counted.rows);
        let rows = rows.filter(|rows| estimate > FEW_ROWS && is_like(rows)).unwrap_or(estimate);
        t.rows.store(rows as i64, Relaxed);
        t.changes.store(kept.map_or(0, |kept| kept.counted.changes), Relaxed);
    }
    /// Makes a table's statistics anew, for ANALYZE TABLE, and stores them durably (STATS-3).
    /// Returns false if the task has to store them, because the redo log has no room for them or
    /// somebody else is at it. The caller holds metadata locks that keep out DDL.
    pub async fn analyze_table(self: &Arc<Self>, t: &Arc<Table>) -> Result<bool> {
        self.sample_statistics(t).await;
        for _ in 0..ATTEMPTS {
            match self.store_statistics(t).await? {
                Outcome::Stored(ticket) => {
                    ticket.durable().await;
                    return Ok(true);
                }
                Outcome::NotWanted => return Ok(true),
                // Others may store older ones at the moment.
                Outcome::Later => self.nap(PATIENCE / 10).await,
            }
        }
        Ok(false)
    }
    /// Stores the statistics that a table has and its counts, unless the dictionary has them, or
    /// somebody else is at it (STATS-4). A forced start writes nothing.
    async fn store_statistics(self: &Arc<Self>, t: &Arc<Table>) -> Result<Outcome> {
        let Some(_storing) = Storing::begin(t) else { return Ok(Outcome::Later) };
        let may_store = t.has_persistent_statistics()
            && !t.dropped.load(Acquire)
            && !self.config.forced.is_on();
        let made = t.statistics().filter(|made| !made.stored.load(Acquire));
        let kept = match &made {
            Some(made) => Some(StoredStatistics::of(t, made)),
            None => self.with_new_counts(t),
        };
        let Some(kept) = kept.filter(|_| may_store) else { return Ok(Outcome::NotWanted) };
        let name = record::statistics_name(t.id);
        let row = record::statistics_row(&self.dict_table, &name, &kept);
        let mut trx = self.begin(KillFlag::new());
        trx.lock_wait_timeout = PATIENCE;
        let done = match self.change_row(&mut trx, &Change::Put(name, row)).await {
            // Nothing waits behind the commit. No definition has changed, so nobody waits until it
            // is durable who waits for definitions.
            Ok(()) => trx.commit().await,
            Err(e) => Err(e),
        };
        let ticket = match done {
            Ok(ticket) => ticket,
            Err(e) => {
                trx.rollback().await?;
                return match e {
                    Error::LockWaitTimeout | Error::Deadlock | Error::LogFull => Ok(Outcome::Later),
                    e => Err(e),
                };
            }
        };
        self.dict.set_stored_statistics(t.id, Some(kept));
        if let Some(made) = made {
            made.stored.store(true, Release);
        }
        Ok(Outcome::Stored(ticket))
    }
    /// What the dictionary keeps of a table's statistics, with what the table counts. None if the
    /// dictionary has the same, or the table has not been opened.
    fn with_new_counts(&self, t: &Table) -> Option<StoredStatistics> {
        let kept = self.dict.stored_statistics(t.id)?;
        let counted = Counted::of(t);
        (t.counters_ready.load(Acquire) && counted != kept.counted)
            .then(|| StoredStatistics { counted, ..(*kept).clone() })
    }
    /// Whether the task is to store what a table counts. With `last`, before the engine closes,
    /// nothing is left out.
    fn wants_new_counts(&self, t: &Table, last: bool) -> bool {
        let Some(kept) = self.dict.stored_statistics(t.id) else { return false };
        let counted = Counted::of(t);
        let is_far = if last { counted != kept.counted } else { counted.is_far_from(kept.counted) };
        is_far && t.counters_ready.load(Acquire)
    }
    /// Stores what is not stored yet, and makes statistics anew that do not hold any more, if
    /// somebody has wanted some (STATS-3, STATS-5). With `last`, before the engine closes, stores
    /// only.
    pub(crate) async fn keep_statistics(self: &Arc<Self>, last: bool) {
        let done = async {
            self.remove_stray_values().await?;
            for t in self.dict.all_tables() {
                if !t.has_persistent_statistics() {
                    continue;
                }
                let made = t.statistics();
                let is_old = !last
                    && made.as_ref().is_some_and(|made| !made.are_current(&t) || made.are_old(&t));
                let is_stored = made.is_none_or(|made| made.stored.load(Acquire));
                let has_counts = || !self.wants_new_counts(&t, last);
                if !is_old && is_stored && has_counts() {
                    continue;
                }
                if is_old && !self.sample_unless_closing(&t).await {
                    return Ok(());
                }
                let mut locks = MetadataLockSet::new();
                let schema = self.dict.metadata_lock(&format!("d/{}", t.def.schema));
                if locks.try_lock(&schema, MetadataLockMode::Read)
                    && locks.try_lock(&t.metadata_lock, MetadataLockMode::Read)
                {
                    self.store_statistics(&t).await?;
                }
            }
            Ok::<(), Error>(())
        };
        if let Err(e) = done.await {
            tracing::warn!("statistics of tables could not be stored, and stay in memory: {e}");
        }
    }
    /// Returns false if the engine begins to close, or may have begun.
    async fn sample_unless_closing(&self, t: &Table) -> bool {
        let sampled = AtomicBool::new(false);
        let mut sample = pin!(async {
            self.sample_statistics(t).await;
            sampled.store(true, Relaxed);
        });
        // Each background task that ends is a step, too.
        while !sampled.load(Relaxed) {
            let seen = self.close_step.seen();
            if self.closing.load(Acquire) {
                return false;
            }
            either(sample.as_mut(), self.close_step.after(seen)).await;
        }
        true
    }
}

#[cfg(all(test, not(model)))]
mod tests;

//! The counters in one place: which counters there are ([`Metric`], [`all`]), and their present
//! values ([`Engine::metrics`]).
//!
//! The parts of the engine count. This module counts nothing itself, except [`Counts`]: the
//! counters that change when a statement or a transaction ends.
//!
//! MET-1: a counter of a part needs no entry in the table to be shown; the entry gives it a
//! description. A counter in the table that no part counts is shown as 0.
mod histogram;
mod table;

pub use histogram::{BOUNDS_US, BUCKETS, Histogram, HistogramNames, split};

use crate::buf::Sharded;
use crate::engine::Engine;
use crate::histogram_names;
use crate::{Lsn, PAGE_SIZE};
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;

/// The meaning of a number. The names are those of INNODB_METRICS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// The state at this moment.
    Value,
    /// A counter that SHOW STATUS has too.
    StatusCounter,
    /// The number of events that the members of a set sort into classes.
    SetOwner,
    /// The number of cases of one kind.
    SetMember,
}
impl Kind {
    /// As INNODB_METRICS shows it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Value => "value",
            Kind::StatusCounter => "status_counter",
            Kind::SetOwner => "set_owner",
            Kind::SetMember => "set_member",
        }
    }
}

/// The description of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// The counter's name.
    pub name: &'static str,
    /// As in the column SUBSYSTEM of INNODB_METRICS.
    pub subsystem: &'static str,
    /// The name of its group for `innodb_monitor_enable`.
    pub module: &'static str,
    /// How the number is to be read.
    pub kind: Kind,
    /// The description.
    pub comment: &'static str,
}

static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| table::all().collect());
static BY_NAME: LazyLock<HashMap<&'static str, usize>> =
    LazyLock::new(|| METRICS.iter().enumerate().map(|(i, m)| (m.name, i)).collect());

/// The counters that have a description.
pub fn all() -> &'static [Metric] {
    &METRICS
}

/// MET-1: the description of a counter of the log that has no entry.
fn undescribed(name: &'static str) -> Metric {
    let kind = if split(name).is_some() { Kind::SetMember } else { Kind::Counter };
    Metric { name, subsystem: "log", module: "module_log", kind, comment: "Counted by the log" }
}

/// The counters of transactions.
#[derive(Default)]
pub struct Counts {
    /// Rows that statements have read.
    pub(crate) rows_read: Sharded,
    /// Rows inserted.
    pub(crate) rows_inserted: Sharded,
    /// Rows changed.
    pub(crate) rows_updated: Sharded,
    /// Rows deleted.
    pub(crate) rows_deleted: Sharded,
    /// Commits of transactions that had changed something.
    pub(crate) rw_commits: Sharded,
    /// Commits of transactions that had only read.
    pub(crate) ro_commits: Sharded,
    /// Ends of single statements that read without locks.
    pub(crate) nl_ro_commits: Sharded,
    /// Rollbacks of whole transactions.
    pub(crate) rollbacks: Sharded,
    /// Rollbacks to savepoints.
    pub(crate) savepoint_rollbacks: Sharded,
    /// The time from the request for durability to durability, for each commit with changes.
    pub(crate) commit_wait: Histogram,
}

/// The effects of one statement on rows, which are added to [`Counts`] when the statement ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RowCounts {
    /// Rows read.
    pub read: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows changed.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
}
impl Counts {
    /// Adds what a statement has done.
    pub(crate) fn add_rows(&self, rows: RowCounts) {
        for (counter, n) in [
            (&self.rows_read, rows.read),
            (&self.rows_inserted, rows.inserted),
            (&self.rows_updated, rows.updated),
            (&self.rows_deleted, rows.deleted),
        ] {
            if n > 0 {
                counter.add(n);
            }
        }
    }
}

static COMMIT_WAIT: HistogramNames = histogram_names!("commit_wait_us");

impl Engine {
    /// Every counter with its description: first those of the table in its order, then the others.
    pub fn metrics(&self) -> Vec<(Metric, u64)> {
        let mut values = vec![0; METRICS.len()];
        let mut others = Vec::new();
        let mut put = |name: &'static str, value: u64| match BY_NAME.get(name) {
            Some(&i) => values[i] = value,
            None => others.push((undescribed(name), value)),
        };
        log(self, &mut put);
        pool(self, &mut put);
        transactions(self, &mut put);
        rest(self, &mut put);
        METRICS.iter().copied().zip(values).chain(others).collect()
    }
}

fn log(engine: &Engine, put: &mut impl FnMut(&'static str, u64)) {
    let log = &engine.store.log;
    let mut counted: HashMap<&'static str, u64> = HashMap::new();
    log.counters(|name, n| {
        counted.insert(name, n);
        put(name, n);
    });
    let of = |name| counted.get(name).copied().unwrap_or(0);
    let (tail, dirty) = (log.tail(), log.dirty_low());
    let oldest = match engine.store.pool.oldest_dirty() {
        Lsn::MAX => dirty,
        oldest => oldest,
    };
    put("log_lsn_buf_dirty_pages_added", dirty.0);
    put("log_lsn_buf_pool_oldest_approx", oldest.0);
    put("log_lsn_buf_pool_oldest_lwm", oldest.0);
    let ordinary = log.capacity_now() / 16 * 15;
    put("log_max_modified_age_async", ordinary / 8 * 7);
    put("log_max_modified_age_sync", ordinary);
    put("log_free_space", ordinary.saturating_sub(tail.0.saturating_sub(log.checkpoint_lsn().0)));
    put("log_flush_total_time", of("log_flush_total_time_us") / 1000);
    put("log_flush_max_time", of("log_flush_max_time_us"));
    put("log_flush_avg_time", of("log_flush_avg_time_us"));
    put("log_next_file", of("log_segments_created") + of("log_segments_recycled"));
    put("os_log_bytes_written", of("os_log_written"));
    put("innodb_activity_count", of("log_write_requests"));
}

fn pool(engine: &Engine, put: &mut impl FnMut(&'static str, u64)) {
    let (c, pages) = (&engine.store.pool.counters, engine.store.pool.pages());
    let bytes = |pages: usize| (pages * PAGE_SIZE) as u64;
    put("buffer_pool_size", bytes(pages.total));
    put("buffer_pool_reads", c.reads.get());
    put("buffer_pool_read_requests", c.read_requests.get());
    put("buffer_pool_write_requests", c.write_requests.get());
    put("buffer_pool_wait_free", c.wait_free.get());
    put("buffer_page_latch_waits", c.latch_waits.get());
    put("buffer_pool_read_ahead", c.read_ahead.get());
    put("buffer_pool_read_ahead_evicted", c.read_ahead_evicted.get());
    put("buffer_pool_pages_total", pages.total as u64);
    put("buffer_pool_pages_misc", pages.total.saturating_sub(pages.data + pages.free) as u64);
    put("buffer_pool_pages_data", pages.data as u64);
    put("buffer_pool_bytes_data", bytes(pages.data));
    put("buffer_pool_pages_dirty", pages.dirty as u64);
    put("buffer_pool_bytes_dirty", bytes(pages.dirty));
    put("buffer_pool_pages_free", pages.free as u64);
    put("buffer_pages_created", c.pages_created.get());
    put("buffer_pages_written", c.pages_written.get());
    put("buffer_pages_read", c.pages_read.get());
    put("buffer_pages_evicted", c.pages_evicted.get());
    put("buffer_pages_moved", c.pages_moved.get());
    put("buffer_pages_made_young", pages.made_young);
    put("buffer_pages_old", pages.old as u64);
    put("buffer_data_reads", c.data_read_bytes.get());
    put("buffer_data_written", c.data_written_bytes.get());
    put("buffer_LRU_batch_flush_total_pages", c.pages_written_lru.get());
    put(
        "buffer_flush_adaptive_total_pages",
        c.pages_written.get().saturating_sub(c.pages_written_lru.get()),
    );
    put("os_data_reads", c.data_reads.get());
    put("os_data_writes", c.data_writes.get());
    put("os_data_fsyncs", c.data_fsyncs.get());
    put("os_pending_reads", c.pending_reads.get());
    put("os_pending_writes", c.pending_writes.get());
    put("os_pending_fsyncs", c.pending_fsyncs.get());
    put("dblwr_async_requests", c.dblwr_pages_written.get());
    put("dblwr_atomic_pages", c.pages_written_atomically.get());
    put("dblwr_flush_requests", c.dblwr_writes.get());
    put("innodb_dblwr_writes", c.dblwr_writes.get());
    put("innodb_dblwr_pages_written", c.dblwr_pages_written.get());
    put("innodb_page_size", PAGE_SIZE as u64);
}

fn transactions(engine: &Engine, put: &mut impl FnMut(&'static str, u64)) {
    let c = &engine.counts;
    put("trx_rw_commits", c.rw_commits.get());
    put("trx_commits_insert_update", c.rw_commits.get());
    put("trx_ro_commits", c.ro_commits.get());
    put("trx_nl_ro_commits", c.nl_ro_commits.get());
    put("trx_rollbacks", c.rollbacks.get());
    put("trx_rollbacks_savepoint", c.savepoint_rollbacks.get());
    put("trx_rollback_active", engine.background_rollbacks() as u64);
    put("trx_active_transactions", engine.sys.active_count() as u64);
    put("trx_read_views", engine.sys.open_views() as u64);
    put("trx_rseg_history_len", engine.history.len());
    put("dml_reads", c.rows_read.get());
    put("dml_inserts", c.rows_inserted.get());
    put("dml_updates", c.rows_updated.get());
    put("dml_deletes", c.rows_deleted.get());
    c.commit_wait.each(&COMMIT_WAIT, &mut *put);
    let s = engine.locks.stats();
    put("lock_deadlocks", s.deadlocks);
    put("lock_timeouts", s.timeouts);
    put("lock_rec_lock_waits", s.waits);
    put("lock_row_lock_waits", s.waits);
    put("lock_row_lock_current_waits", s.current_waits);
    put("lock_threads_waiting", s.current_waits);
    put("lock_row_lock_time", s.time_us / 1000);
    put("lock_row_lock_time_max", s.time_max_us / 1000);
    put("lock_row_lock_time_avg", s.time_avg_us() / 1000);
    put("lock_rec_locks", engine.locks.locked_keys() as u64);
}

fn rest(engine: &Engine, put: &mut impl FnMut(&'static str, u64)) {
    let (known, in_use) = engine.undo.counts();
    put("trx_undo_slots_used", in_use as u64);
    put("trx_undo_slots_cached", known.saturating_sub(in_use) as u64);
    let (bytes, open) = engine.undo_files();
    put("undo_bytes", bytes.iter().sum());
    put("undo_spaces_active", open as u64);
    put("undo_truncate_count", engine.undo.truncation.count.load(Relaxed));
    put("undo_truncate_usec", engine.undo.truncation.time_us.load(Relaxed));
    let purge = &engine.history.counts;
    put("purge_undo_logs", engine.history.purged.load(Relaxed));
    put("purge_undo_log_pages", purge.pages.load(Relaxed));
    put("purge_invoked", purge.rounds.load(Relaxed));
    put("purge_del_mark_records", purge.removed.load(Relaxed));
    put("purge_upd_exist_or_extern_records", purge.changes.load(Relaxed));
    put("purge_stop_count", purge.stops.load(Relaxed));
    put("purge_dml_delay_usec", engine.history.lag.delay().map_or(0, |d| d.as_micros() as u64));
    put("purge_retries", purge.retries.load(Relaxed));
    put("purge_resume_count", purge.resumes.load(Relaxed));
    put("index_page_splits", engine.store.shape.splits.load(Relaxed));
    put("index_page_merge_successful", engine.store.shape.merges.load(Relaxed));
    put("index_page_merge_attempts", engine.store.shape.merges.load(Relaxed));
    put("file_num_open_files", engine.store.spaces.all().len() as u64);
    put("metadata_table_handles_opened", engine.dict.all_tables().len() as u64);
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// Tests MET-1.
    #[test]
    fn a_counter_without_an_entry_is_shown() {
        assert!(!BY_NAME.contains_key("log_of_tomorrow"));
        let m = undescribed("log_of_tomorrow");
        assert_eq!((m.name, m.module, m.kind), ("log_of_tomorrow", "module_log", Kind::Counter));
    }

    #[test]
    fn names_are_there_once_and_fit_their_column() {
        assert_eq!(BY_NAME.len(), METRICS.len());
        for m in METRICS.iter() {
            assert!(m.name.len() <= 193 && m.comment.len() <= 193, "{}", m.name);
            assert!(m.module.starts_with("module_"), "{}", m.name);
        }
    }

    #[test]
    fn the_manual_describes_every_counter() {
        let manual = include_str!("../../../../docs/counters.md");
        for m in METRICS.iter() {
            let line = format!("| `{}` | {} | {} |\n", m.name, m.kind.name(), m.comment);
            assert!(manual.contains(&line), "docs/counters.md lacks {line}");
        }
    }

    #[test]
    fn histograms_are_described_bucket_by_bucket() {
        static FLUSH_TIME: HistogramNames = histogram_names!("log_flush_time_us");
        for names in [&COMMIT_WAIT, &FLUSH_TIME] {
            for name in names.le.iter().chain([&names.count, &names.sum]) {
                assert!(BY_NAME.contains_key(name), "{name}");
            }
        }
    }

    /// The counters of the study, page by page of its table.
    #[test]
    fn every_counter_of_the_study_is_there() {
        let waits = |of: &str| {
            [format!("{of}_no_waits"), format!("{of}_waits"), format!("{of}_wait_loops")]
        };
        let mut names: Vec<String> = [
            "log_writer",
            "log_write_notifier",
            "log_flusher",
            "log_flush_notifier",
            "log_on_write",
            "log_on_flush",
            "log_on_buffer_space",
        ]
        .iter()
        .flat_map(|of| waits(of))
        .collect();
        names.extend(
            [
                "log_write_requests",
                "log_writes",
                "log_waits",
                "log_flush_lsn_avg_rate",
                "log_flush_total_time",
                "log_flush_avg_time",
                "log_on_recent_written_wait_loops",
                "log_on_recent_closed_wait_loops",
                "log_writer_on_file_space_waits",
            ]
            .map(String::from),
        );
        for name in names {
            assert!(BY_NAME.contains_key(name.as_str()), "{name}");
        }
    }
}

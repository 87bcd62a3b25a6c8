//! A server's counters before and after a point, and the list of the counters that study 1 shows.
use crate::failure::{Result, failed};
use redolith_client::Client;
use serde::Serialize;
use std::collections::BTreeMap;

/// The place where a server shows its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `information_schema.INNODB_METRICS`: Redolith, MySQL.
    Metrics,
    /// `SHOW GLOBAL STATUS`, under MariaDB's names, which are converted to the names of the
    /// metrics.
    Status,
    Nowhere,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counter {
    pub count: f64,
    /// True for a counter that only grows, so that a difference has a meaning. False for a gauge,
    /// which shows a present state.
    pub grows: bool,
}
pub type Reading = BTreeMap<String, Counter>;

/// The values of one counter before and after one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Counted {
    pub name: String,
    pub before: f64,
    pub after: f64,
    pub grows: bool,
}

impl Counted {
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }
}

pub fn read(client: &mut Client, source: Source) -> Result<Reading> {
    let query = match source {
        Source::Metrics => "SELECT name, count, type FROM information_schema.INNODB_METRICS",
        Source::Status => "SHOW GLOBAL STATUS",
        Source::Nowhere => return Ok(Reading::new()),
    };
    Ok(from_rows(client.query(query).map_err(failed("reading the counters"))?, source))
}

fn from_rows(rows: Vec<Vec<Option<String>>>, source: Source) -> Reading {
    let one = |row: Vec<Option<String>>| {
        let mut row = row.into_iter();
        let (name, count, kind) = (row.next()??, row.next()??, row.next().flatten());
        let count = count.parse().ok()?;
        let name = name.to_lowercase();
        match source {
            Source::Status => Some((
                name.strip_prefix("innodb_").unwrap_or(&name).to_string(),
                Counter { count, grows: !is_gauge(&name) },
            )),
            _ => {
                let grows = kind
                    .as_deref()
                    .is_some_and(|kind| kind != "value" && !is_gauge_in_mysql(&name, kind));
                Some((name, Counter { count, grows }))
            }
        }
    };
    rows.into_iter().filter_map(one).collect()
}

/// Rows that MySQL (8.0, 9.7) marks as counters, but sets to a present value: last values, averages
/// over the last moments (innodb_flushing_avg_loops), rates, percentages, sizes.
const MYSQL_GAUGES: &[&str] = &[
    "log_flush_avg_time",
    "log_flush_max_time",
    "log_flush_lsn_avg_rate",
    "log_write_to_file_requests_interval",
    "log_free_space",
    "log_concurrency_margin",
    "os_log_pending_fsyncs",
    "os_log_pending_writes",
    "buffer_flush_n_to_flush_requested",
    "buffer_flush_n_to_flush_by_age",
    "buffer_flush_n_to_flush_by_dirty_page",
    "buffer_flush_lsn_avg_rate",
    "buffer_flush_pct_for_dirty",
    "buffer_flush_pct_for_lsn",
    "lock_rec_locks",
    "lock_table_locks",
    "lock_row_lock_current_waits",
    "cpu_utime_pct",
    "cpu_stime_pct",
    "cpu_n",
    "ibuf_size",
];

fn is_gauge_in_mysql(name: &str, kind: &str) -> bool {
    // The members of a set are the number of calls (a counter), and the work of the last call
    // (gauges).
    let of_last_call =
        kind == "set_member" && (name.ends_with("_per_call") || name.ends_with("_pages"));
    // buffer_flush_adaptive_avg_time_slot, buffer_flush_avg_page_rate,
    // buffer_lru_batch_flush_avg_pass, ...
    let flush_average =
        name.starts_with("buffer_") && name.contains("flush_") && name.contains("_avg_");
    of_last_call || flush_average || MYSQL_GAUGES.contains(&name)
}

/// Status variables have no type. These words are in the names of those that rise and fall.
fn is_gauge(name: &str) -> bool {
    [
        "pages_data",
        "pages_dirty",
        "pages_free",
        "pages_misc",
        "bytes_data",
        "bytes_dirty",
        "threads_",
        "_max",
        "_current",
        "checkpoint_age",
        "history_list",
        "open_",
        "_size",
        "memory",
        "uptime",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// The differences of the counters that are in both readings.
pub fn differences(before: &Reading, after: &Reading) -> Vec<Counted> {
    let both = after.iter().filter_map(|(name, a)| Some((name, before.get(name)?, a)));
    // A value that has become less is a gauge, whatever its type says.
    both.map(|(name, b, a)| Counted {
        name: name.clone(),
        before: b.count,
        after: a.count,
        grows: a.grows && a.count >= b.count,
    })
    .collect()
}

/// Adds the differences of the same counters over one more stretch of time, which need not follow
/// at once.
pub fn add(sum: &mut Vec<Counted>, more: Vec<Counted>) {
    if sum.is_empty() {
        *sum = more;
        return;
    }
    for m in more {
        if let Some(s) = sum.iter_mut().find(|s| s.name == m.name) {
            s.grows &= m.grows;
            s.after = if s.grows { s.after + m.difference() } else { m.after };
        }
    }
}

/// The counters of the study's table, in its order.
pub const STUDY_1: &[&str] = &[
    "log_write_requests",
    "log_writes",
    "log_writer_no_waits",
    "log_writer_waits",
    "log_writer_wait_loops",
    "log_write_notifier_no_waits",
    "log_write_notifier_waits",
    "log_write_notifier_wait_loops",
    "log_flusher_no_waits",
    "log_flusher_waits",
    "log_flusher_wait_loops",
    "log_flush_notifier_no_waits",
    "log_flush_notifier_waits",
    "log_flush_notifier_wait_loops",
    "log_on_flush_no_waits",
    "log_on_flush_waits",
    "log_on_flush_wait_loops",
    "log_flush_lsn_avg_rate",
    "log_flush_total_time",
    "log_flush_avg_time",
    "log_waits",
    "log_on_buffer_space_no_waits",
    "log_on_buffer_space_waits",
    "log_on_buffer_space_wait_loops",
    "log_on_recent_written_wait_loops",
    "log_on_recent_closed_wait_loops",
    "log_writer_on_file_space_waits",
    "log_on_write_no_waits",
    "log_on_write_waits",
    "log_on_write_wait_loops",
];
/// More counters that the tables show.
pub const BESIDES: &[&str] = &[
    "log_flushes",
    "log_groups",
    "log_flush_waiters",
    "os_log_fsyncs",
    "os_log_written",
    "log_checkpoints",
    "buffer_pages_written",
    "buffer_pages_read",
    "buffer_pool_wait_free",
    "buffer_page_latch_waits",
    "index_page_splits",
    "buffer_LRU_batch_flush_total_pages",
    "buffer_data_written",
    "os_data_fsyncs",
    "dblwr_async_requests",
    "dblwr_flush_requests",
    "pages_written",
    "pages_read",
    "data_written",
    "data_fsyncs",
    "dblwr_pages_written",
    "dblwr_writes",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|v| Some(v.to_string())).collect()
    }

    #[test]
    fn differences_of_what_is_in_both() {
        let before = from_rows(
            vec![
                row(&["log_writes", "100", "status_counter"]),
                row(&["log_lsn_current", "7", "value"]),
                row(&["gone", "1", "counter"]),
            ],
            Source::Metrics,
        );
        let after = from_rows(
            vec![
                row(&["LOG_WRITES", "350", "status_counter"]),
                row(&["log_lsn_current", "5", "value"]),
                row(&["new", "1", "counter"]),
                row(&["text", "ON", "counter"]),
            ],
            Source::Metrics,
        );
        let d = differences(&before, &after);
        assert_eq!(
            d.iter().map(|c| (c.name.as_str(), c.difference(), c.grows)).collect::<Vec<_>>(),
            [("log_lsn_current", -2.0, false), ("log_writes", 250.0, true)]
        );
    }

    #[test]
    fn stretches_add_up() {
        let counted = |name: &str, before: f64, after: f64, grows| Counted {
            name: name.into(),
            before,
            after,
            grows,
        };
        let mut sum = Vec::new();
        add(
            &mut sum,
            vec![
                counted("log_writes", 10.0, 15.0, true),
                counted("log_lsn_current", 1.0, 2.0, false),
            ],
        );
        add(
            &mut sum,
            vec![
                counted("log_writes", 40.0, 47.0, true),
                counted("log_lsn_current", 5.0, 9.0, false),
            ],
        );
        assert_eq!(
            sum,
            [counted("log_writes", 10.0, 22.0, true), counted("log_lsn_current", 1.0, 9.0, false)]
        );
    }

    #[test]
    fn what_mysql_calls_counters_and_are_none() {
        // Rows as MySQL 9.7 shows them.
        let rows = |of_last_moments: &str| {
            let all = [
                ["log_flush_avg_time", of_last_moments, "counter"],
                ["log_flush_lsn_avg_rate", of_last_moments, "counter"],
                ["os_log_pending_writes", "0", "status_counter"],
                ["buffer_flush_batches", "4", "set_member"],
                ["buffer_flush_batch_pages", "4", "set_member"],
                ["buffer_flush_batch_total_pages", "4", "set_owner"],
                ["buffer_LRU_batch_flush_avg_time_slot", "4", "counter"],
                ["log_flush_total_time", "4", "counter"],
                ["trx_that_was_reset", of_last_moments, "counter"],
            ];
            from_rows(all.iter().map(|r| row(r)).collect(), Source::Metrics)
        };
        let d = differences(&rows("51034"), &rows("77"));
        let growing: Vec<&str> = d.iter().filter(|c| c.grows).map(|c| c.name.as_str()).collect();
        assert_eq!(
            (d.len(), growing),
            (
                9,
                vec![
                    "buffer_flush_batch_total_pages",
                    "buffer_flush_batches",
                    "log_flush_total_time"
                ]
            )
        );
    }

    #[test]
    fn mariadbs_names_become_the_metrics() {
        let r = from_rows(
            vec![
                row(&["Innodb_log_writes", "5"]),
                row(&["Innodb_buffer_pool_pages_dirty", "6"]),
                row(&["Ssl_cipher", ""]),
            ],
            Source::Status,
        );
        assert_eq!(
            r.iter().map(|(n, c)| (n.as_str(), c.count, c.grows)).collect::<Vec<_>>(),
            [("buffer_pool_pages_dirty", 6.0, false), ("log_writes", 5.0, true)]
        );
    }
}

//! A server's counters, before and after, and the list of those that study 1 tells.
use crate::failure::{Result, failed};
use redolith_client::Client;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where a server shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `information_schema.INNODB_METRICS`: Redolith, MySQL.
    Metrics,
    /// `SHOW GLOBAL STATUS`, under MariaDB's names, which become those of the metrics.
    Status,
    Nowhere,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counter {
    pub count: f64,
    /// It only grows: a difference makes sense. Otherwise it says how something is at the moment.
    pub grows: bool,
}
pub type Reading = BTreeMap<String, Counter>;

/// One counter over one point.
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
            Source::Status => Some((name.strip_prefix("innodb_").unwrap_or(&name).to_string(), Counter { count, grows: !is_gauge(&name) })),
            _ => Some((name, Counter { count, grows: kind.as_deref() != Some("value") })),
        }
    };
    rows.into_iter().filter_map(one).collect()
}

/// Status variables have no type; these words are in the names of those that go up and down.
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

/// Of the counters that are in both readings.
pub fn differences(before: &Reading, after: &Reading) -> Vec<Counted> {
    let both = after.iter().filter_map(|(name, a)| Some((name, before.get(name)?, a)));
    both.map(|(name, b, a)| Counted { name: name.clone(), before: b.count, after: a.count, grows: a.grows }).collect()
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
/// What ours and others' tables show besides.
pub const BESIDES: &[&str] =
    &["log_flushes", "log_groups", "log_flush_waiters", "os_log_fsyncs", "os_log_written", "log_checkpoints", "buffer_pages_written"];

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|v| Some(v.to_string())).collect()
    }

    #[test]
    fn differences_of_what_is_in_both() {
        let before = from_rows(
            vec![row(&["log_writes", "100", "status_counter"]), row(&["log_lsn_current", "7", "value"]), row(&["gone", "1", "counter"])],
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
    fn mariadbs_names_become_the_metrics() {
        let r = from_rows(
            vec![row(&["Innodb_log_writes", "5"]), row(&["Innodb_buffer_pool_pages_dirty", "6"]), row(&["Ssl_cipher", ""])],
            Source::Status,
        );
        assert_eq!(
            r.iter().map(|(n, c)| (n.as_str(), c.count, c.grows)).collect::<Vec<_>>(),
            [("buffer_pool_pages_dirty", 6.0, false), ("log_writes", 5.0, true)]
        );
    }
}

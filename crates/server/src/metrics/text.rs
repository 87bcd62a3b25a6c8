//! The page has every counter of the engine as `redolith_*`, with histograms as Prometheus
//! histograms. It also has the values of SHOW GLOBAL STATUS under the names that mysqld_exporter
//! gives them (`mysql_global_status_*`), so that dashboards made for MySQL work with this server.
use redolith_engine::metrics::{Kind, Metric, split};
use redolith_sql::settings::SERVER_VERSION;
use redolith_sql::status::{Status, StatusValue, log_writer_mode};
use std::collections::BTreeMap;
use std::fmt::{Result, Write};

pub(super) fn page(metrics: &[(Metric, u64)], status: &Status) -> String {
    let mut out = String::with_capacity(64 << 10);
    // Writing to a String does not fail.
    let _ = write_page(metrics, status, &mut out);
    out
}

fn write_page(metrics: &[(Metric, u64)], status: &Status, out: &mut String) -> Result {
    let mode = metrics.iter().find(|(m, _)| m.name == "log_writer_mode").map_or(0, |m| m.1);
    head(out, "mysql_up", "gauge", "1: the server answers")?;
    writeln!(out, "mysql_up 1")?;
    head(out, "redolith_info", "gauge", "Version, and who writes the log now")?;
    writeln!(
        out,
        "redolith_info{{version=\"{SERVER_VERSION}\",log_writer_mode=\"{}\"}} 1",
        log_writer_mode(mode)
    )?;
    let histograms = Histograms::of(metrics);
    for (metric, n) in metrics {
        if !histograms.has(metric.name) {
            single(metric, *n, out)?;
        }
    }
    histograms.write(out)?;
    global_status(status, out)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> Result {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn single(metric: &Metric, n: u64, out: &mut String) -> Result {
    let (kind, suffix) =
        if metric.kind == Kind::Value { ("gauge", "") } else { ("counter", "_total") };
    let name = format!("redolith_{}{suffix}", metric.name.to_ascii_lowercase());
    head(out, &name, kind, metric.comment)?;
    writeln!(out, "{name} {n}")
}

/// Histograms, put together from the counters with these names: `x_us_le_<bound>`, `x_us_count`,
/// `x_us_sum`.
struct Histograms<'a>(BTreeMap<&'a str, Histogram<'a>>);

#[derive(Default)]
struct Histogram<'a> {
    /// Pairs of a bound in microseconds and the number of times up to the bound. The bound `None`
    /// has the number of all.
    buckets: Vec<(Option<u64>, u64)>,
    count: u64,
    sum_us: u64,
    help: &'a str,
}

impl<'a> Histograms<'a> {
    fn of(metrics: &'a [(Metric, u64)]) -> Histograms<'a> {
        let mut all: BTreeMap<&str, Histogram<'_>> = BTreeMap::new();
        for (metric, n) in metrics {
            if let Some((name, bound)) = split(metric.name) {
                all.entry(name).or_default().buckets.push((bound, *n));
            }
        }
        for (metric, n) in metrics {
            if let Some(h) = metric.name.strip_suffix("_count").and_then(|name| all.get_mut(name)) {
                (h.count, h.help) = (*n, metric.comment);
            } else if let Some(h) =
                metric.name.strip_suffix("_sum").and_then(|name| all.get_mut(name))
            {
                h.sum_us = *n;
            }
        }
        Histograms(all)
    }
    /// Whether a counter is part of a histogram.
    fn has(&self, name: &str) -> bool {
        let parts =
            [split(name).map(|s| s.0), name.strip_suffix("_count"), name.strip_suffix("_sum")];
        parts.into_iter().flatten().any(|h| self.0.contains_key(h))
    }
    /// Writes the histograms in seconds, as Prometheus requires for times.
    fn write(self, out: &mut String) -> Result {
        for (name, mut h) in self.0 {
            let name = format!("redolith_{}_seconds", name.strip_suffix("_us").unwrap_or(name));
            head(out, &name, "histogram", h.help)?;
            h.buckets.sort_by_key(|(bound, _)| bound.unwrap_or(u64::MAX));
            for (bound, n) in h.buckets {
                match bound {
                    Some(us) => writeln!(out, "{name}_bucket{{le=\"{}\"}} {n}", us as f64 / 1e6)?,
                    None => writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {n}")?,
                }
            }
            writeln!(out, "{name}_sum {}\n{name}_count {}", h.sum_us as f64 / 1e6, h.count)?;
        }
        Ok(())
    }
}

/// Status variables that mysqld_exporter turns into one metric with a label.
struct Family {
    prefix: &'static str,
    /// The members of the family. If the list is empty, all variables with the prefix are members.
    members: &'static [&'static str],
    metric: &'static str,
    label: &'static str,
    kind: &'static str,
}
const FAMILIES: [Family; 6] = {
    const fn family(
        prefix: &'static str,
        members: &'static [&'static str],
        metric: &'static str,
        label: &'static str,
        kind: &'static str,
    ) -> Family {
        Family { prefix, members, metric, label, kind }
    }
    [
        family("Com_", &[], "mysql_global_status_commands_total", "command", "counter"),
        family("Handler_", &[], "mysql_global_status_handlers_total", "handler", "counter"),
        family(
            "Connection_errors_",
            &[],
            "mysql_global_status_connection_errors_total",
            "error",
            "counter",
        ),
        family(
            "Innodb_rows_",
            &[],
            "mysql_global_status_innodb_row_ops_total",
            "operation",
            "counter",
        ),
        family(
            POOL_PAGES,
            &["data", "dirty", "free", "misc"],
            "mysql_global_status_buffer_pool_pages",
            "state",
            "gauge",
        ),
        family(
            POOL_PAGES,
            &["flushed", "made_young"],
            "mysql_global_status_buffer_pool_page_changes_total",
            "operation",
            "counter",
        ),
    ]
};
const POOL_PAGES: &str = "Innodb_buffer_pool_pages_";

fn global_status(status: &Status, out: &mut String) -> Result {
    let mut families: [Vec<(String, String)>; FAMILIES.len()] = Default::default();
    for (name, value) in status.list() {
        if let Some(rest) = name.strip_prefix("Redolith_binlog_") {
            binlog(rest, &value, out)?;
            continue;
        }
        // This variable is the sum of the pages in each state, which are on the page too.
        if matches!(value, StatusValue::Text(_))
            || name.starts_with("Redolith_")
            || name == "Innodb_buffer_pool_pages_total"
        {
            continue;
        }
        let (lower, value) = (name.to_ascii_lowercase(), value.to_string());
        let member = |f: &Family| {
            name.strip_prefix(f.prefix)
                .is_some_and(|rest| f.members.is_empty() || f.members.contains(&rest))
        };
        match FAMILIES.iter().position(member) {
            Some(f) => families[f].push((lower[FAMILIES[f].prefix.len()..].to_string(), value)),
            None => {
                let name_here = format!("mysql_global_status_{lower}");
                head(out, &name_here, "untyped", &format!("{name} of SHOW GLOBAL STATUS"))?;
                writeln!(out, "{name_here} {value}")?;
            }
        }
    }
    for (Family { prefix, metric, label, kind, .. }, members) in FAMILIES.iter().zip(families) {
        if members.is_empty() {
            continue;
        }
        head(out, metric, kind, &format!("{prefix}* of SHOW GLOBAL STATUS"))?;
        for (member, value) in members {
            writeln!(out, "{metric}{{{label}=\"{member}\"}} {value}")?;
        }
    }
    Ok(())
}

/// A counter of the binary log, which is no counter of the engine.
fn binlog(name: &str, value: &StatusValue, out: &mut String) -> Result {
    let is_gauge = ["dumps", "lag_bytes", "lag_us", "waiting_bytes"].contains(&name)
        || name.ends_with("_largest_group");
    let (kind, suffix) = if is_gauge { ("gauge", "") } else { ("counter", "_total") };
    let full = format!("redolith_binlog_{name}{suffix}");
    head(out, &full, kind, &format!("Redolith_binlog_{name} of SHOW GLOBAL STATUS"))?;
    writeln!(out, "{full} {value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_engine::metrics;
    use redolith_sql::status::Counter;
    use std::collections::HashSet;

    fn page_of(value: impl Fn(&str) -> u64) -> String {
        let all: Vec<(Metric, u64)> = metrics::all().iter().map(|m| (*m, value(m.name))).collect();
        let status = Status::new();
        status.counters.add(Counter::ComSelect, 3);
        status.register(Box::new(|put| {
            put("Uptime", StatusValue::Int(9));
            put("Innodb_rows_read", StatusValue::Int(4));
            put("Innodb_buffer_pool_pages_data", StatusValue::Int(0));
            put("Innodb_buffer_pool_pages_total", StatusValue::Int(1));
            put("Innodb_buffer_pool_pages_flushed", StatusValue::Int(2));
            put("Redolith_binlog_writes", StatusValue::Int(5));
            put("Redolith_binlog_lag_us", StatusValue::Int(6));
            put("Redolith_binlog_sync_groups", StatusValue::Int(7));
            put("Redolith_binlog_sync_largest_group", StatusValue::Int(8));
            put("Innodb_redo_log_enabled", StatusValue::Text("ON".into()));
        }));
        page(&all, &status)
    }

    #[test]
    fn counters_gauges_and_status() {
        let page = page_of(|name| if name == "log_writes" { 12 } else { 1 });
        for line in [
            "# TYPE redolith_log_writes_total counter\nredolith_log_writes_total 12\n",
            "# TYPE redolith_log_lsn_current gauge\nredolith_log_lsn_current 1\n",
            "mysql_global_status_uptime 9\n",
            "mysql_global_status_commands_total{command=\"select\"} 3\n",
            "mysql_global_status_innodb_row_ops_total{operation=\"read\"} 4\n",
            "mysql_global_status_connection_errors_total{error=\"max_connections\"} 0\n",
            "mysql_global_status_buffer_pool_pages{state=\"data\"} 0\n",
            "mysql_global_status_buffer_pool_page_changes_total{operation=\"flushed\"} 2\n",
            "log_writer_mode=\"leader\"} 1\n",
            "# TYPE redolith_binlog_writes_total counter\nredolith_binlog_writes_total 5\n",
            "# TYPE redolith_binlog_lag_us gauge\nredolith_binlog_lag_us 6\n",
            "redolith_binlog_sync_groups_total counter\nredolith_binlog_sync_groups_total 7\n",
            "redolith_binlog_sync_largest_group gauge\nredolith_binlog_sync_largest_group 8\n",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        assert!(!page.contains("redo_log_enabled") && !page.contains("state=\"total\""));
    }

    #[test]
    fn histograms_are_whole() {
        let page = page_of(|name| match name {
            "commit_wait_us_sum" => 2_500_000,
            "commit_wait_us_le_inf" | "commit_wait_us_count" => 7,
            n if n.starts_with("commit_wait_us_le_") => 6,
            _ => 0,
        });
        let at = page.find("# TYPE redolith_commit_wait_seconds histogram\n").unwrap();
        let lines: Vec<&str> = page[at..].lines().skip(1).take(metrics::BUCKETS + 2).collect();
        assert_eq!(lines[0], "redolith_commit_wait_seconds_bucket{le=\"0.00001\"} 6");
        assert_eq!(
            lines[metrics::BUCKETS - 2..],
            [
                "redolith_commit_wait_seconds_bucket{le=\"5\"} 6",
                "redolith_commit_wait_seconds_bucket{le=\"+Inf\"} 7",
                "redolith_commit_wait_seconds_sum 2.5",
                "redolith_commit_wait_seconds_count 7"
            ]
        );
        assert!(!page.contains("commit_wait_us"));
    }

    /// Checks the rules of the format: each metric has one TYPE line, before its samples, and names
    /// have only the allowed characters.
    #[test]
    fn every_line_is_well_formed() {
        let page = page_of(|_| 5);
        let (mut typed, mut current) = (HashSet::new(), String::new());
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(matches!(kind, "counter" | "gauge" | "histogram" | "untyped"));
                assert!(typed.insert(name.to_string()), "{name} twice");
                current = name.to_string();
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let name = name.split('{').next().unwrap();
                assert!(
                    name.starts_with(&current)
                        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
                    "{line}"
                );
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(page.ends_with('\n') && typed.len() > 150);
    }
}

//! Makes the page that `redolith top` shows, as lines of text.
use super::sample::Interval;

/// Makes the page for the time between two samples.
pub fn page(i: &Interval<'_>, place: &str) -> Vec<String> {
    let now = i.now;
    let mut lines = vec![
        format!(
            "redolith at {place}, up {}; {} connections, {} of them running",
            uptime(now.number("Uptime")),
            now.number("Threads_connected"),
            now.number("Threads_running")
        ),
        String::new(),
    ];
    let mut row = |name: &str, value: String, more: String| {
        lines.push(format!("{name:<22}{value:>14}  {more}").trim_end().to_string())
    };
    let rate = |name: &str| count(i.per_second(name));

    let rolled_back = i.per_second("Redolith_trx_rollbacks");
    row(
        "transactions/s",
        rate("Redolith_trx_rw_commits"),
        format!("rolled back {}/s, reading only {}/s", count(rolled_back), count(reads_only(i))),
    );
    row("statements/s", rate("Questions"), String::new());
    let rows = ["read", "inserted", "updated", "deleted"]
        .map(|what| format!("{what} {}", rate(&format!("Innodb_rows_{what}"))));
    row("rows/s", count(all_rows(i)), rows.join(", "));
    row("", String::new(), String::new());

    let mode = format!(
        "writer mode {}, depth {}",
        now.text("Redolith_log_writer_mode"),
        now.number("Redolith_log_flush_depth")
    );
    row("log flushes/s", rate("Redolith_log_flushes"), mode);
    row("log writer", String::new(), now.text("Redolith_log_writer_reason").to_string());
    row("commits per flush", per_flush(i).map_or("-".into(), |x| format!("{x:.2}")), String::new());
    let flush_us = i.ratio("Redolith_log_flush_total_time_us", "Redolith_log_flushes");
    row("flush time", time_us(flush_us), quantiles(i, "Redolith_log_flush_time_us"));
    let wait_us = i.ratio("Redolith_commit_wait_us_sum", "Redolith_commit_wait_us_count");
    row("commit wait", time_us(wait_us), quantiles(i, "Redolith_commit_wait_us"));
    row(
        "log written/s",
        bytes(i.per_second("Redolith_os_log_written")),
        format!(
            "{} mini-transactions/s, {} writes/s",
            rate("Redolith_log_write_requests"),
            rate("Redolith_log_writes")
        ),
    );
    let (age, most) =
        (now.number("Innodb_checkpoint_age"), now.number("Innodb_checkpoint_max_age"));
    row(
        "checkpoint age",
        bytes(age as f64),
        format!("{} of {}", percent(age, most), bytes(most as f64)),
    );
    row("", String::new(), String::new());

    let (dirty, total) = (
        now.number("Innodb_buffer_pool_pages_dirty"),
        now.number("Innodb_buffer_pool_pages_total"),
    );
    row("dirty pages", dirty.to_string(), format!("{} of {total}", percent(dirty, total)));
    let (requests, misses) =
        (i.grown("Innodb_buffer_pool_read_requests"), i.grown("Innodb_buffer_pool_reads"));
    row(
        "buffer hit rate",
        if requests == 0 { "-".into() } else { percent(requests - misses.min(requests), requests) },
        format!("{} page requests/s", rate("Innodb_buffer_pool_read_requests")),
    );
    row(
        "pages read/s",
        rate("Innodb_pages_read"),
        format!(
            "written {}/s, created {}/s",
            rate("Innodb_pages_written"),
            rate("Innodb_pages_created")
        ),
    );
    row(
        "history length",
        now.number("Innodb_history_list_length").to_string(),
        format!("purged {}/s", rate("Redolith_purge_undo_logs")),
    );
    row(
        "row lock waits/s",
        rate("Innodb_row_lock_waits"),
        format!(
            "waiting now {}, deadlocks {}/s",
            now.number("Innodb_row_lock_current_waits"),
            rate("Innodb_deadlocks")
        ),
    );
    if now.number("Redolith_binlog_rotations") > 0 {
        row("", String::new(), String::new());
        row(
            "binary log",
            format!("{}/s", bytes(i.per_second("Redolith_binlog_bytes"))),
            format!(
                "{} transactions/s, {} writes/s, {} syncs/s, {} dumps",
                rate("Redolith_binlog_transactions"),
                rate("Redolith_binlog_writes"),
                rate("Redolith_binlog_syncs"),
                now.number("Redolith_binlog_dumps")
            ),
        );
        row(
            "binary log behind",
            bytes(now.number("Redolith_binlog_lag_bytes") as f64),
            format!(
                "{} of redo, {} in memory",
                time_us(Some(now.number("Redolith_binlog_lag_us") as f64)),
                bytes(now.number("Redolith_binlog_waiting_bytes") as f64)
            ),
        );
        if now.number("Redolith_binlog_flush_groups") > 0 {
            let stage = |stage: &str| {
                let [groups, sessions] = ["groups", "sessions"]
                    .map(|what| i.per_second(&format!("Redolith_binlog_{stage}_{what}")));
                let size = if groups > 0.0 { sessions / groups } else { 0.0 };
                format!("{stage} {groups:.0}/s of {size:.1}")
            };
            row(
                "classic commit",
                format!("{}/s", rate("Redolith_binlog_flush_sessions")),
                format!("groups: {}, {}, {}", stage("flush"), stage("sync"), stage("commit")),
            );
        }
    }
    lines
}

fn reads_only(i: &Interval<'_>) -> f64 {
    i.per_second("Redolith_trx_ro_commits") + i.per_second("Redolith_trx_nl_ro_commits")
}
fn all_rows(i: &Interval<'_>) -> f64 {
    ["read", "inserted", "updated", "deleted"]
        .iter()
        .map(|what| i.per_second(&format!("Innodb_rows_{what}")))
        .sum()
}
/// Sessions per flush: those that waited, and those that flushed themselves.
fn per_flush(i: &Interval<'_>) -> Option<f64> {
    let of = |what| i.ratio(what, "Redolith_log_flushes");
    Some(of("Redolith_log_flush_waiters")? + of("Redolith_log_groups")?)
}
fn quantiles(i: &Interval<'_>, histogram: &str) -> String {
    match (i.quantile_us(histogram, 0.5), i.quantile_us(histogram, 0.95)) {
        (None, _) => String::new(),
        (Some(half), None) => format!("half <= {}", time_us(Some(half as f64))),
        (Some(half), Some(p95)) => {
            format!("half <= {}, 95 % <= {}", time_us(Some(half as f64)), time_us(Some(p95 as f64)))
        }
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}
/// Formats a number with one decimal below 10, and with none from 10 on: 0.5, 12, 12345.
fn count(x: f64) -> String {
    if x > 0.0 && x < 10.0 { format!("{x:.1}") } else { format!("{x:.0}") }
}
fn time_us(us: Option<f64>) -> String {
    match us {
        None => "-".into(),
        Some(us) if us < 1000.0 => format!("{us:.0} us"),
        Some(us) if us < 1e6 => format!("{:.2} ms", us / 1e3),
        Some(us) => format!("{:.2} s", us / 1e6),
    }
}
fn bytes(n: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut n, mut unit) = (n, 0);
    while n >= 1024.0 && unit + 1 < units.len() {
        n /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n:.0} B") } else { format!("{n:.1} {}", units[unit]) }
}
fn uptime(s: u64) -> String {
    let (days, hours, minutes) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, m) => format!("{m} min {} s", s % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    #[test]
    fn the_page_says_what_happened() {
        let before = sample(
            100,
            &[
                ("Redolith_trx_rw_commits", "1000"),
                ("Redolith_log_flushes", "10"),
                ("Redolith_log_groups", "10"),
                ("Innodb_buffer_pool_reads", "0"),
            ],
        );
        let now = sample(
            102,
            &[
                ("Uptime", "3725"),
                ("Threads_connected", "12"),
                ("Redolith_trx_rw_commits", "3000"),
                ("Redolith_log_flushes", "110"),
                ("Redolith_log_flush_waiters", "1900"),
                ("Redolith_log_groups", "110"),
                ("Redolith_log_flush_total_time_us", "12000"),
                ("Redolith_log_writer_mode", "leader"),
                ("Innodb_checkpoint_age", "1048576"),
                ("Innodb_checkpoint_max_age", "4194304"),
                ("Innodb_buffer_pool_read_requests", "1000"),
                ("Innodb_buffer_pool_reads", "5"),
                ("Redolith_commit_wait_us_count", "100"),
                ("Redolith_commit_wait_us_sum", "250000"),
                ("Redolith_commit_wait_us_le_2000", "60"),
                ("Redolith_commit_wait_us_le_5000", "100"),
                ("Redolith_binlog_rotations", "3"),
                ("Redolith_binlog_bytes", "4096"),
                ("Redolith_binlog_dumps", "2"),
                ("Redolith_binlog_lag_bytes", "1536"),
                ("Redolith_binlog_lag_us", "1200"),
                ("Redolith_binlog_flush_groups", "200"),
                ("Redolith_binlog_flush_sessions", "1000"),
                ("Redolith_binlog_sync_groups", "100"),
                ("Redolith_binlog_sync_sessions", "1000"),
            ],
        );
        let page = page(&Interval { before: &before, now: &now }, "here").join("\n");
        let squeezed = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "redolith at here, up 1 h 2 min; 12 connections, 0 of them running",
            "transactions/s 1000 ",
            "log flushes/s 50 writer mode leader, depth 0",
            "commits per flush 20.00",
            "flush time 120 us",
            "commit wait 2.50 ms half <= 2.00 ms, 95 % <= 5.00 ms",
            "checkpoint age 1.0 MiB 25.0 % of 4.0 MiB",
            "buffer hit rate 99.5 %",
            "binary log 2.0 KiB/s 0 transactions/s, 0 writes/s, 0 syncs/s, 2 dumps",
            "binary log behind 1.5 KiB 1.20 ms of redo, 0 B in memory",
            "classic commit 500/s groups: flush 100/s of 5.0, sync 50/s of 10.0, commit 0/s of 0.0",
        ] {
            assert!(squeezed.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (count(0.0), count(0.25), count(9.96), count(12345.6)),
            ("0".into(), "0.2".into(), "10.0".into(), "12346".into())
        );
        assert_eq!(
            (bytes(0.0), bytes(1536.0), bytes(3e12)),
            ("0 B".into(), "1.5 KiB".into(), "2.7 TiB".into())
        );
        assert_eq!(
            (uptime(59), uptime(61), uptime(90_000)),
            ("59 s".into(), "1 min 1 s".into(), "1 d 1 h".into())
        );
    }
}

//! The command line of sysbench, and its output.
use std::path::Path;

pub const SCHEMA: &str = "sbtest";
/// The scripts that write. The study's script is the first.
pub const SCRIPTS: &[&str] = &[
    "oltp_write_only",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
    "oltp_read_write",
];

/// Whether the tables have another number of rows after the script than before.
pub fn wears(script: &str) -> bool {
    ["oltp_insert", "oltp_delete"].contains(&script)
}

/// The tables of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub tables: u32,
    pub table_size: u32,
}

/// A script with uniform keys, as in the study; `more` are further options.
pub fn command(
    program: &str,
    script: &str,
    socket: &Path,
    shape: Shape,
    threads: u32,
    more: &[String],
    verb: &str,
) -> Vec<String> {
    let mut words = vec![
        program.to_string(),
        script.into(),
        "--db-driver=mysql".into(),
        format!("--mysql-socket={}", socket.display()),
        "--mysql-user=root".into(),
        format!("--mysql-db={SCHEMA}"),
        "--mysql-ssl=off".into(),
        format!("--tables={}", shape.tables),
        format!("--table_size={}", shape.table_size),
        "--rand-type=uniform".into(),
        format!("--threads={threads}"),
    ];
    words.extend(more.iter().cloned());
    words.push(verb.into());
    words
}

/// Whether a line begins a part of the report (`--report-checkpoints`).
pub fn is_checkpoint(line: &str) -> bool {
    line.contains("Checkpoint report")
}

/// The figures of one part of sysbench's report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub transactions: f64,
    pub transactions_per_s: f64,
    pub queries_per_s: f64,
    pub p95_ms: f64,
    pub ignored_errors: u64,
}

/// The numbers after a label: `transactions: 2232 (2225.28 per sec.)`.
fn numbers(report: &str, label: &str) -> Option<Vec<f64>> {
    let rest = report.lines().find_map(|l| l.trim().strip_prefix(label))?;
    Some(
        rest.split(|c: char| !c.is_ascii_digit() && c != '.')
            .filter_map(|w| w.parse().ok())
            .collect(),
    )
}

pub fn parse(report: &str) -> Option<Part> {
    let transactions = numbers(report, "transactions:")?;
    Some(Part {
        transactions: *transactions.first()?,
        transactions_per_s: *transactions.get(1)?,
        queries_per_s: *numbers(report, "queries:")?.get(1)?,
        p95_ms: *numbers(report, "95th percentile:")?.first()?,
        ignored_errors: *numbers(report, "ignored errors:")?.first()? as u64,
    })
}

/// The parts between the first checkpoint and the following ones, which are the measured ones.
/// There are fewer parts if sysbench ended early.
pub fn measured(lines: &[String]) -> Vec<Part> {
    let marks: Vec<usize> =
        lines.iter().enumerate().filter(|(_, l)| is_checkpoint(l)).map(|(i, _)| i).collect();
    // A checkpoint's report covers the time since the previous checkpoint.
    let end = |of: usize| marks.get(of + 1).copied().unwrap_or(lines.len());
    (1..marks.len()).map_while(|i| parse(&lines[marks[i]..end(i)].join("\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = include_str!("fixtures/sysbench-run.txt");

    #[test]
    fn what_was_measured_lies_between_checkpoints() {
        let lines: Vec<String> = RUN.lines().map(str::to_string).collect();
        let part = Part {
            transactions: 2579.0,
            transactions_per_s: 2584.31,
            queries_per_s: 15499.82,
            p95_ms: 3.02,
            ignored_errors: 0,
        };
        assert_eq!(measured(&lines), [part]);
        // Before the second checkpoint there is no part.
        assert_eq!(measured(&lines[..40]), []);
        assert_eq!(measured(&[]), []);
    }

    #[test]
    fn refused_connections_are_no_result() {
        let refused = "FATAL: unable to connect to MySQL server on socket 's.sock', \
            aborting...\nFATAL: error 1040: Too many connections";
        assert_eq!(parse(refused), None);
    }
}

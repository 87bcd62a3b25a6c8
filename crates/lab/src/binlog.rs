//! Study 4: what the binary log costs, by connections.
//!
//! `log_bin` is chosen when a server starts, so each server is started twice, with the binary log
//! and without it. MariaDB's `sync_binlog` is switched while it runs.
//!
//! The checks are the claims that the study has to show: the throughput does not fall when there
//! are many connections, and a durable binary log costs at most a tenth of the throughput.
use crate::options::{Options, Peer};
use crate::redo::{Facts, expected, set};
use crate::results::{Check, Load, Results, Section};
use crate::schedule::{Compare, Job, order};
use crate::servers::{Kind, Spec};
use crate::stats::Ratio;
use crate::sysbench;

const OURS_OFF: &str = "redolith, binary log off";
const OURS_ON: &str = "redolith, binary log on";
const MARIADB_OFF: &str = "mariadb, binary log off";
const MARIADB_ON: &str = "mariadb, binary log on";

const ON: &[&str] = &["--log-bin=ON", "--binlog-format=ROW", "--server-id=1"];
/// For MariaDB, the value of `--log-bin` is the name of the files.
const ON_MARIADB: &[&str] = &["--log-bin=binlog", "--binlog-format=ROW", "--server-id=1"];
/// The binary log is off unless it is asked for, but the report lists the options, and they should
/// say so.
const OFF: &[&str] = &["--log-bin=OFF"];
const OFF_MARIADB: &[&str] = &["--skip-log-bin"];

const SYNC: &str = "sync_binlog";

/// The least ratio of the throughput with the binary log to the throughput without it, and of the
/// throughput at the most connections to the peak.
const LEAST: f64 = 0.9;

/// The servers, in the order of their rows.
pub fn specs(o: &Options) -> Vec<Spec> {
    let spec = |name, kind, more| Spec { name, kind, cores: Vec::new(), more };
    let mut specs = vec![spec(OURS_OFF, Kind::Redolith, OFF), spec(OURS_ON, Kind::Redolith, ON)];
    if o.peers.contains(&Peer::MariaDb) {
        specs.push(spec(MARIADB_OFF, Kind::MariaDb, OFF_MARIADB));
        specs.push(spec(MARIADB_ON, Kind::MariaDb, ON_MARIADB));
    }
    specs
}

struct Row {
    label: &'static str,
    server: usize,
    setup: Vec<String>,
    /// The row of the same server without the binary log.
    off: Option<usize>,
}

fn rows(servers: &[Facts]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut ours_off, mut mariadb_off) = (None, None);
    for (server, of) in servers.iter().enumerate() {
        let mut add = |label, setup, off| rows.push(Row { label, server, setup, off });
        match of.name {
            OURS_OFF => add("binary log off", vec![], None),
            OURS_ON => add("binary log on", vec![], ours_off),
            MARIADB_OFF => add("MariaDB, binary log off", vec![], None),
            MARIADB_ON => {
                add("MariaDB, sync_binlog=0", vec![set(SYNC, "0")], mariadb_off);
                add("MariaDB, sync_binlog=1", vec![set(SYNC, "1")], mariadb_off);
            }
            _ => {}
        }
        match of.name {
            OURS_OFF => ours_off = Some(rows.len() - 1),
            MARIADB_OFF => mariadb_off = Some(rows.len() - 1),
            _ => {}
        }
    }
    rows
}

pub fn plan(o: &Options, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let mut jobs = Vec::new();
    for script in &o.scripts {
        jobs.extend(section(o, script, servers, results));
    }
    jobs
}

fn section(o: &Options, script: &str, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let rows = rows(servers);
    let section = results.sections.len();
    results.sections.push(Section {
        id: if section == 0 { "binlog".into() } else { format!("binlog-{script}") },
        title: format!("The binary log, by connections: {script}"),
        text: "Each commit is durable in the redo log of its server \
            (innodb_flush_log_at_trx_commit=1). Redolith's binary log is as durable as the redo \
            log, by the same flush. MariaDB's with sync_binlog=1 is flushed by itself, with \
            sync_binlog=0 it is not. Flushes of the redo log are the server's own count; MariaDB \
            counts those of its data files with them (Innodb_data_fsyncs), and those of its binary \
            log nowhere. Flushes of the device are all of them."
            .into(),
        load: Load::Sysbench,
        script: script.into(),
        row_title: "server".into(),
        column_title: "connections".into(),
        base: None,
        fixed: vec![],
        baseline: vec![],
        pairs: rows.iter().enumerate().filter_map(|(i, r)| Some((i, r.off?))).collect(),
        counters_of: vec![],
        rows: rows.iter().map(|r| r.label.to_string()).collect(),
        columns: o.threads.iter().map(u32::to_string).collect(),
        connections: o.threads.clone(),
    });
    let job = |(row, column, turn): (usize, usize, u32)| {
        let connections = o.threads[column];
        Job {
            section,
            row,
            column,
            turn,
            server: rows[row].server,
            connections,
            alone: sysbench::wears(script),
            setup: rows[row].setup.clone(),
            expected: expected(o, script, connections),
        }
    };
    order(rows.len(), o.threads.len(), o.repeat, Compare::Rows).into_iter().map(job).collect()
}

/// Checks the claims for Redolith, as far as there are points. A peer claims nothing here, and its
/// ratios are in the tables.
pub fn checks(r: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for s in &r.sections {
        let ours = |row: usize| {
            let of_row = r.points.iter().find(|p| p.section == s.id && p.row == s.rows[row]);
            of_row.is_some_and(|p| [OURS_OFF, OURS_ON].contains(&p.server.as_str()))
        };
        let mut check = |what: String, ratio: Ratio| {
            let value = ratio.mean;
            checks.push(Check {
                section: s.id.clone(),
                what,
                value,
                standard_error: ratio.error,
                least: LEAST,
                met: value >= LEAST,
            });
        };
        for (row, off) in s.pairs.iter().copied().filter(|(row, _)| ours(*row)) {
            for (column, n) in s.connections.iter().enumerate() {
                if let Some(ratio) = r.ratio(s, (row, off), column) {
                    let (row, off) = (&s.rows[row], &s.rows[off]);
                    check(format!("{row} / {off}, {n} conn."), ratio);
                }
            }
        }
        for row in (0..s.rows.len()).filter(|row| ours(*row)) {
            let last = s.columns.len() - 1;
            if let Some(value) = r.of_peak(s, row, last) {
                let (row, n) = (&s.rows[row], s.connections[last]);
                check(format!("{row}: {n} conn. / peak"), Ratio { mean: value, error: None });
            }
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;
    use crate::results::{Figures, Point};

    fn planned(line: &str) -> (Results, Vec<Job>, Vec<Spec>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let o = parse(&words).unwrap().unwrap();
        let specs = specs(&o);
        let facts: Vec<Facts> =
            specs.iter().map(|s| Facts { name: s.name, kind: s.kind, knows: vec![] }).collect();
        let mut r = Results::default();
        let jobs = plan(&o, &facts, &mut r);
        (r, jobs, specs)
    }

    #[test]
    fn the_studys_table() {
        let (r, jobs, specs) = planned("binlog --peer=mariadb --threads=1,1000 --repeat=1");
        let s = &r.sections[0];
        assert_eq!(
            s.rows,
            [
                "binary log off",
                "binary log on",
                "MariaDB, binary log off",
                "MariaDB, sync_binlog=0",
                "MariaDB, sync_binlog=1"
            ]
        );
        assert_eq!((s.script.as_str(), s.columns.len()), ("oltp_update_index", 2));
        assert_eq!(s.pairs, [(1, 0), (3, 2), (4, 2)]);
        // The rows of one column are taken in turn, each with its server.
        assert_eq!(
            jobs[..5].iter().map(|j| (j.row, j.server, j.column)).collect::<Vec<_>>(),
            [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 3, 0)]
        );
        assert_eq!((jobs.len(), jobs[4].setup[0].as_str()), (10, "SET GLOBAL sync_binlog = 1"));
        let log_bin = |s: &Spec| s.more[0];
        assert_eq!(
            specs.iter().map(log_bin).collect::<Vec<_>>(),
            ["--log-bin=OFF", "--log-bin=ON", "--skip-log-bin", "--log-bin=binlog"]
        );
    }

    #[test]
    fn each_script_has_a_table() {
        let (r, jobs, _) =
            planned("binlog --threads=8 --repeat=2 --script=oltp_update_index,oltp_write_only");
        let ids: Vec<&str> = r.sections.iter().map(|s| s.id.as_str()).collect();
        assert_eq!((ids, jobs.len()), (vec!["binlog", "binlog-oltp_write_only"], 2 * 2 * 2));
    }

    #[test]
    fn claims_are_checked_for_redolith() {
        let (mut r, jobs, specs) = planned("binlog --peer=mariadb --threads=1,1000 --repeat=1");
        assert_eq!(checks(&r), []);
        let per_s = [[1000.0, 9000.0], [950.0, 8000.0], [900.0, 4000.0], [1.0, 1.0], [1.0, 1.0]];
        for j in &jobs {
            let s = &r.sections[0];
            r.points.push(Point {
                section: s.id.clone(),
                row: s.rows[j.row].clone(),
                column: s.columns[j.column].clone(),
                connections: j.connections,
                server: specs[j.server].name.into(),
                turn: j.turn,
                figures: Some(Figures { per_s: per_s[j.row][j.column], ..Figures::default() }),
                error: String::new(),
            });
        }
        let found: Vec<(String, bool)> = checks(&r).into_iter().map(|c| (c.what, c.met)).collect();
        assert_eq!(
            found,
            [
                ("binary log on / binary log off, 1 conn.".to_string(), true),
                ("binary log on / binary log off, 1000 conn.".into(), false),
                ("binary log off: 1000 conn. / peak".into(), true),
                ("binary log on: 1000 conn. / peak".into(), true),
            ]
        );
    }
}

//! Study 4: what the binary log costs, by connections.
//!
//! `log_bin` is chosen when a server starts, so each server is started twice, with the binary log
//! and without it. The form of the commit and `sync_binlog` are switched while a server runs.
//!
//! The checks are the claims that the study has to show: the throughput does not fall when there
//! are many connections, a durable binary log costs at most a tenth of the throughput, and the
//! classic commit, which does what MariaDB's does, is faster than MariaDB's.
use crate::options::{Options, Peer};
use crate::redo::{Facts, by_connections, set};
use crate::results::{Check, Load, Results, Section};
use crate::schedule::Job;
use crate::servers::{Kind, Spec};
use crate::stats::Ratio;

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
const ORDER: &str = "binlog_order_commits";
const COMMIT: &str = "redolith_binlog_commit";

/// The form of the commit, `sync_binlog` and `binlog_order_commits` of our rows with a binary log.
const FORMS: [(&str, [&str; 3]); 4] = [
    (UNIFIED, ["'unified'", "1", "ON"]),
    ("classic, sync_binlog=0", ["'classic'", "0", "ON"]),
    (CLASSIC, ["'classic'", "1", "ON"]),
    ("classic, sync_binlog=1, order_commits=0", ["'classic'", "1", "OFF"]),
];
/// The most rows of one server.
pub const MOST_ROWS: usize = FORMS.len();
const UNIFIED: &str = "unified";
const CLASSIC: &str = "classic, sync_binlog=1";
const MARIADB_SYNC: &str = "MariaDB, sync_binlog=1";

/// The least ratio of the throughput with the binary log to the throughput without it, and of the
/// throughput at the most connections to the peak.
const LEAST: f64 = 0.9;
/// The least ratio of the classic commit to MariaDB, both with `sync_binlog` = 1.
const LEAST_CLASSIC: f64 = 1.3;

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
            OURS_ON => {
                for (label, values) in FORMS {
                    let setup = [COMMIT, SYNC, ORDER].into_iter().zip(values);
                    add(label, setup.map(|(name, value)| set(name, value)).collect(), ours_off);
                }
            }
            MARIADB_OFF => add("MariaDB, binary log off", vec![], None),
            MARIADB_ON => {
                add("MariaDB, sync_binlog=0", vec![set(SYNC, "0")], mariadb_off);
                add(MARIADB_SYNC, vec![set(SYNC, "1")], mariadb_off);
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
            (innodb_flush_log_at_trx_commit=1). With the unified commit the binary log is as \
            durable as the redo log, by the same flush. With the classic commit, and in MariaDB, \
            it is flushed by itself with sync_binlog=1, and not with sync_binlog=0. Flushes of the \
            redo log are the server's own count; MariaDB counts those of its data files with them \
            (Innodb_data_fsyncs), and those of its binary log nowhere. Flushes of the device are \
            all of them."
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
    let rows = rows.into_iter().map(|row| (row.server, row.setup));
    by_connections(o, script, section, &rows.collect::<Vec<_>>())
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
        let mut check = |what: String, ratio: Ratio, least: f64| {
            let value = ratio.mean;
            checks.push(Check {
                section: s.id.clone(),
                what,
                value,
                standard_error: ratio.error,
                least,
                met: value >= least,
            });
        };
        let row_of = |label: &str| s.rows.iter().position(|row| row == label);
        let unified = |row: usize| ours(row) && s.rows[row] == UNIFIED;
        for (row, off) in s.pairs.iter().copied().filter(|(row, _)| unified(*row)) {
            for (column, n) in s.connections.iter().enumerate() {
                if let Some(ratio) = r.ratio(s, (row, off), column) {
                    let (row, off) = (&s.rows[row], &s.rows[off]);
                    check(format!("{row} / {off}, {n} conn."), ratio, LEAST);
                }
            }
        }
        if let (Some(classic), Some(mariadb)) = (row_of(CLASSIC), row_of(MARIADB_SYNC)) {
            for (column, n) in s.connections.iter().enumerate() {
                if let Some(ratio) = r.ratio(s, (classic, mariadb), column) {
                    check(format!("{CLASSIC} / {MARIADB_SYNC}, {n} conn."), ratio, LEAST_CLASSIC);
                }
            }
        }
        for row in (0..s.rows.len()).filter(|row| ours(*row)) {
            let last = s.columns.len() - 1;
            if let Some(value) = r.of_peak(s, row, last) {
                let (row, n) = (&s.rows[row], s.connections[last]);
                let ratio = Ratio { mean: value, error: None };
                check(format!("{row}: {n} conn. / peak"), ratio, LEAST);
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
                "unified",
                "classic, sync_binlog=0",
                "classic, sync_binlog=1",
                "classic, sync_binlog=1, order_commits=0",
                "MariaDB, binary log off",
                "MariaDB, sync_binlog=0",
                "MariaDB, sync_binlog=1"
            ]
        );
        assert_eq!((s.script.as_str(), s.columns.len()), ("oltp_update_index", 2));
        assert_eq!(s.pairs, [(1, 0), (2, 0), (3, 0), (4, 0), (6, 5), (7, 5)]);
        // The rows of one column are taken in turn, each with its server.
        assert_eq!(
            jobs[..8].iter().map(|j| (j.row, j.server, j.column)).collect::<Vec<_>>(),
            [
                (0, 0, 0),
                (1, 1, 0),
                (2, 1, 0),
                (3, 1, 0),
                (4, 1, 0),
                (5, 2, 0),
                (6, 3, 0),
                (7, 3, 0)
            ]
        );
        assert_eq!((jobs.len(), jobs[7].setup[0].as_str()), (16, "SET GLOBAL sync_binlog = 1"));
        assert_eq!(
            jobs[4].setup,
            [
                "SET GLOBAL redolith_binlog_commit = 'classic'",
                "SET GLOBAL sync_binlog = 1",
                "SET GLOBAL binlog_order_commits = OFF"
            ]
        );
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
        assert_eq!((ids, jobs.len()), (vec!["binlog", "binlog-oltp_write_only"], 5 * 2 * 2));
    }

    #[test]
    fn claims_are_checked_for_redolith() {
        let (mut r, jobs, specs) = planned("binlog --peer=mariadb --threads=1,1000 --repeat=1");
        assert_eq!(checks(&r), []);
        let per_s = [
            [1000.0, 9000.0],
            [950.0, 8000.0],
            [900.0, 4000.0],
            [700.0, 6000.0],
            [700.0, 6000.0],
            [900.0, 4000.0],
            [1.0, 1.0],
            [400.0, 5000.0],
        ];
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
                ("unified / binary log off, 1 conn.".to_string(), true),
                ("unified / binary log off, 1000 conn.".into(), false),
                ("classic, sync_binlog=1 / MariaDB, sync_binlog=1, 1 conn.".into(), true),
                ("classic, sync_binlog=1 / MariaDB, sync_binlog=1, 1000 conn.".into(), false),
                ("binary log off: 1000 conn. / peak".into(), true),
                ("unified: 1000 conn. / peak".into(), true),
                ("classic, sync_binlog=0: 1000 conn. / peak".into(), true),
                ("classic, sync_binlog=1: 1000 conn. / peak".into(), true),
                ("classic, sync_binlog=1, order_commits=0: 1000 conn. / peak".into(), true),
            ]
        );
    }
}

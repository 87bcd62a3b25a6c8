//! Study 2: `innodb_log_writer_threads` ON and OFF, and Redolith on `auto`, timed with mysqlslap.
use crate::options::{Options, Peer};
use crate::redo::{Facts, LOG_WRITER, WRITER_THREADS, peers, set};
use crate::results::{Load, Results, Section};
use crate::schedule::{Compare, Job, order};
use crate::servers::{Kind, Spec};
use crate::slap;
use std::time::Duration;

pub fn specs(o: &Options) -> Vec<Spec> {
    let ours = Spec { name: "redolith", kind: Kind::Redolith, cores: Vec::new(), more: &[] };
    // The baseline has no tables, and mysqlslap reads the rows that it has written.
    std::iter::once(ours).chain(peers(o).filter(|p| p.kind != Kind::Baseline)).collect()
}

fn rows(
    o: &Options,
    servers: &[Facts],
    notes: &mut Vec<String>,
) -> Vec<(String, usize, Vec<String>)> {
    let mut rows = Vec::new();
    for (i, s) in servers.iter().enumerate() {
        match s.kind {
            Kind::Redolith => {
                for mode in &o.modes {
                    let setup = match mode.as_str() {
                        "auto" => set(LOG_WRITER, "'auto'"),
                        on_or_off => set(WRITER_THREADS, &on_or_off.to_uppercase()),
                    };
                    rows.push((
                        if mode == "auto" { mode.clone() } else { mode.to_uppercase() },
                        i,
                        vec![setup],
                    ));
                }
            }
            Kind::MySql if s.knows(WRITER_THREADS) => {
                for value in ["ON", "OFF"] {
                    rows.push((format!("MySQL, {value}"), i, vec![set(WRITER_THREADS, value)]));
                }
            }
            Kind::MySql => {
                notes.push(format!(
                    "MySQL has one row: this version has no {WRITER_THREADS} (error 1193)."
                ));
                rows.push(("MySQL".into(), i, vec![]));
            }
            Kind::MariaDb => rows.push(("MariaDB".into(), i, vec![])),
            Kind::Baseline => {}
        }
    }
    rows
}

/// The first guess of a server's statements per second, on two cores.
fn guess_per_s(kind: Kind) -> f64 {
    if kind == Kind::Redolith { 10_000.0 } else { 2500.0 }
}

pub fn plan(o: &Options, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    if o.peers.contains(&Peer::Baseline) {
        results.notes.push(
            "The baseline is left out: it stores nothing, and mysqlslap reads what it has written."
                .into(),
        );
    }
    if o.writes != slap::STUDY_WRITES {
        results.notes.push(format!(
            "Scaled: {} statements per client, the study has {} (--writes={}).",
            o.writes,
            slap::STUDY_WRITES,
            slap::STUDY_WRITES
        ));
    }
    let rows = rows(o, servers, &mut results.notes);
    let labels: Vec<String> = rows.iter().map(|r| r.0.clone()).collect();
    let ours = |want: fn(&str) -> bool| {
        labels.iter().enumerate().filter(|(_, l)| want(l)).map(|(i, _)| i).collect::<Vec<_>>()
    };
    let section = results.sections.len();
    results.sections.push(Section {
        id: "writers".into(),
        title: "innodb_log_writer_threads, by connections".into(),
        text: "ON is Redolith's mode dedicated, OFF is session, auto chooses. Each run is \
            mysqlslap with the study's options after SET GLOBAL max_connections = connections + 1; \
               the setting is switched while the server runs. Seconds as mysqlslap tells them; CPU \
               and flushes are of the whole run, the rows written beforehand included."
            .into(),
        load: Load::Slap,
        script: String::new(),
        row_title: "setting or server".into(),
        column_title: "connections".into(),
        base: ours(|l| l == "auto").first().copied(),
        fixed: ours(|l| l == "ON" || l == "OFF"),
        baseline: vec![],
        pairs: vec![],
        counters_of: vec![],
        rows: labels,
        columns: o.threads.iter().map(u32::to_string).collect(),
        connections: o.threads.clone(),
    });
    let job = |(row, column, turn): (usize, usize, u32)| {
        let connections = o.threads[column];
        let statements = f64::from(connections) * f64::from(o.writes);
        let expected =
            Duration::from_secs_f64(1.5 + statements / guess_per_s(servers[rows[row].1].kind));
        Job {
            section,
            row,
            column,
            turn,
            server: rows[row].1,
            connections,
            alone: true,
            setup: rows[row].2.clone(),
            expected,
        }
    };
    order(rows.len(), o.threads.len(), o.repeat, Compare::Rows).into_iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn the_studys_table() {
        let args: Vec<String> =
            ["writers", "--peer=mysql,mariadb,baseline", "--repeat=1", "--threads=150"]
                .map(String::from)
                .into();
        let o = parse(&args).unwrap().unwrap();
        assert_eq!(
            specs(&o).iter().map(|s| s.name).collect::<Vec<_>>(),
            ["redolith", "mysql", "mariadb"]
        );
        let servers = [
            Facts {
                name: "redolith",
                kind: Kind::Redolith,
                knows: vec![LOG_WRITER, WRITER_THREADS],
            },
            Facts { name: "mysql", kind: Kind::MySql, knows: vec![WRITER_THREADS] },
            Facts { name: "mariadb", kind: Kind::MariaDb, knows: vec![] },
        ];
        let mut r = Results::default();
        let jobs = plan(&o, &servers, &mut r);
        assert_eq!(r.sections[0].rows, ["ON", "OFF", "auto", "MySQL, ON", "MySQL, OFF", "MariaDB"]);
        assert_eq!((r.sections[0].base, r.sections[0].fixed.as_slice()), (Some(2), &[0, 1][..]));
        assert_eq!(
            jobs.iter().map(|j| (j.row, j.server)).collect::<Vec<_>>(),
            [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2)]
        );
        assert_eq!(jobs[0].setup, ["SET GLOBAL innodb_log_writer_threads = ON"]);
        assert!(r.notes.iter().any(|n| n.starts_with("Scaled: 1000 statements per client")));
    }
}

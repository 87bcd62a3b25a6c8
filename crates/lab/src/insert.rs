//! Study 3: do several sessions of INSERT .. SELECT fill a table faster than one?
//!
//! The study's four shapes of rows, by sessions, and for narrow rows its three ways of cutting the
//! source among the sessions. `copy` makes the tables and measures a point.
//!
//! The checks are the claims that the study has to show: more sessions are not slower than one, one
//! session is so many times as fast as MariaDB, and a row takes less of the redo log.
use crate::options::{Options, Peer};
use crate::redo::{Facts, set};
use crate::results::{COPY, Check, Load, Results, Section};
use crate::schedule::{Compare, Job, order};
use crate::servers::{Kind, Spec};
use crate::stats::Ratio;
use std::time::Duration;

/// A shape of the study's rows.
pub struct Shape {
    pub name: &'static str,
    title: &'static str,
    /// The columns behind the key.
    pub columns: &'static [&'static str],
    pub has_key: bool,
    /// A point has one of this many of `--rows`.
    share: u32,
    /// How the rows are cut, the study's own way first.
    cuts: &'static [Cut],
    /// The least ratio of one session to MariaDB.
    least: f64,
}
impl Shape {
    pub fn rows(&self, o: &Options) -> u32 {
        (o.rows / self.share).max(1)
    }
}

/// How sessions share the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Each session has a range of keys and takes the keys along.
    Apart,
    /// Each session has a range of keys, and the target generates keys: all rows go to its end.
    Generated,
    /// Of n sessions each takes every nth row with its key, between the rows of the others.
    Between,
}
impl Cut {
    fn title(self) -> &'static str {
        match self {
            Cut::Apart => "ranges kept apart",
            Cut::Generated => "keys generated",
            Cut::Between => "every nth row",
        }
    }
}

const KEY: &str = "c1 INT INVISIBLE AUTO_INCREMENT PRIMARY KEY";
const NARROW: &[&str] = &[
    "c2 INT",
    "str1 INT DEFAULT (100) NOT NULL",
    "str2 INT DEFAULT (100) NOT NULL",
    "str3 INT DEFAULT (100) NOT NULL",
    "str4 INT DEFAULT (100) NOT NULL",
];
const MEDIUM: &[&str] =
    &["c2 INT", "str1 VARCHAR(512) CHARACTER SET latin1 DEFAULT (REPEAT('a',512)) NOT NULL"];
const WIDE: &[&str] = &[
    "c2 INT",
    "str1 VARCHAR(1024) CHARACTER SET latin1 DEFAULT (REPEAT('a1',512)) NOT NULL",
    "str2 VARCHAR(1024) CHARACTER SET latin1 DEFAULT (REPEAT('a1',512)) NOT NULL",
    "str3 VARCHAR(1024) CHARACTER SET latin1 DEFAULT (REPEAT('a1',512)) NOT NULL",
    "str4 VARCHAR(1024) CHARACTER SET latin1 DEFAULT (REPEAT('a1',512)) NOT NULL",
];
const fn shape(
    (name, title): (&'static str, &'static str),
    columns: &'static [&'static str],
    has_key: bool,
    share: u32,
    cuts: &'static [Cut],
    least: f64,
) -> Shape {
    Shape { name, title, columns, has_key, share, cuts, least }
}
use Cut::{Apart, Between, Generated};
pub const SHAPES: &[Shape] = &[
    shape(
        ("narrow", "Narrow rows, about 30 bytes"),
        NARROW,
        true,
        1,
        &[Apart, Generated, Between],
        2.5,
    ),
    shape(("medium", "Medium rows, about 500 bytes"), MEDIUM, true, 4, &[Generated], 2.5),
    shape(("wide", "Wide rows, about 4 kB"), WIDE, true, 20, &[Generated], 5.0),
    shape(("nokey", "Narrow rows without a key"), NARROW, false, 1, &[Generated], 2.5),
];
pub const KEY_COLUMN: &str = KEY;

/// The least throughput of 2 and 4, of 8 and 16 sessions, relative to one session; and of two
/// sessions that copy narrow rows with ranges kept apart, on two cores.
const LEAST_FEW: f64 = 1.0 / 1.05;
const LEAST_MANY: f64 = 1.0 / 1.10;
const LEAST_NARROW: f64 = 1.0 / 0.75;
/// MariaDB's bytes of redo per row over ours, at least.
const LEAST_REDO: f64 = 1.0 / 0.6;

/// AUTO_INCREMENT values are handed out without a lock for the statement: otherwise MariaDB's
/// sessions would run one after the other.
const ALIKE: &[&str] = &["--innodb-autoinc-lock-mode=2"];
const OURS: &str = "redolith";
const MARIADB: &str = "mariadb";

pub fn specs(o: &Options) -> Vec<Spec> {
    let spec = |name, kind| Spec { name, kind, cores: Vec::new(), more: ALIKE };
    let mut specs = vec![spec(OURS, Kind::Redolith)];
    if o.peers.contains(&Peer::MariaDb) {
        specs.push(spec(MARIADB, Kind::MariaDb));
    }
    specs
}
/// The time for filling a server's sources, as a guess.
pub fn prepare(o: &Options) -> Duration {
    Duration::from_secs_f64(2.0 + f64::from(o.rows) / 200_000.0)
}
pub fn about(o: &Options) -> String {
    let rows: Vec<String> =
        shapes(o).map(|shape| format!("{} {}", shape.rows(o), shape.name)).collect();
    format!("INSERT .. SELECT of {} rows, one statement in each session", rows.join(", "))
}
/// The shapes of a run.
pub fn shapes(o: &Options) -> impl Iterator<Item = &'static Shape> {
    SHAPES.iter().filter(|shape| o.shapes.contains(&shape.name))
}

/// A row of a section: a server and a way of cutting.
fn label(kind: Kind, shape: &Shape, cut: Cut) -> String {
    let server = if kind == Kind::MariaDb { "MariaDB" } else { "Redolith" };
    if shape.cuts.len() == 1 { server.into() } else { format!("{server}, {}", cut.title()) }
}
/// The shape and the way of cutting of a row of a section.
pub fn of_row(section: &Section, row: usize) -> (&'static Shape, Cut) {
    let shape = SHAPES.iter().find(|shape| section.id == format!("insert-{}", shape.name));
    let shape = shape.expect("a section of this study has a shape");
    (shape, shape.cuts[row % shape.cuts.len()])
}

pub fn plan(o: &Options, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let mut jobs = Vec::new();
    for shape in shapes(o) {
        let rows: Vec<(String, usize)> = servers
            .iter()
            .enumerate()
            .flat_map(|(i, s)| shape.cuts.iter().map(move |cut| (label(s.kind, shape, *cut), i)))
            .collect();
        let section = results.sections.len();
        let cuts = shape.cuts.len();
        let peers = rows.len() / cuts - 1;
        results.sections.push(Section {
            id: format!("insert-{}", shape.name),
            title: format!("{}, {} of them", shape.title, shape.rows(o)),
            text: "Each session copies its part of the rows by one INSERT .. SELECT; the time is \
                that of the last session. Ranges kept apart: each session has a range of keys and \
                takes the keys along. Keys generated: INSERT .. SELECT *, the target numbers its \
                rows. Every nth row: the sessions' keys lie between each other's. The rows are \
                compared with the source by count and checksum after each point. \
                innodb_flush_log_at_trx_commit is 0, as in the study."
                .into(),
            load: Load::Copy,
            script: String::new(),
            row_title: "server".into(),
            column_title: "sessions".into(),
            base: None,
            fixed: vec![],
            baseline: vec![],
            pairs: (0..cuts * peers).map(|i| (i % cuts, cuts + i)).collect(),
            counters_of: vec![],
            rows: rows.iter().map(|(label, _)| label.clone()).collect(),
            columns: o.threads.iter().map(u32::to_string).collect(),
            connections: o.threads.clone(),
        });
        let job = |(row, column, turn): (usize, usize, u32)| Job {
            section,
            row,
            column,
            turn,
            server: rows[row].1,
            connections: o.threads[column],
            alone: true,
            setup: vec![set("innodb_flush_log_at_trx_commit", "0")],
            // A guess: half of it is the wait for a server at rest.
            expected: Duration::from_secs_f64(1.2 + f64::from(o.rows) / 300_000.0),
        };
        jobs.extend(
            order(rows.len(), o.threads.len(), o.repeat, Compare::Rows).into_iter().map(job),
        );
    }
    jobs
}

/// Checks the claims for Redolith, as far as there are points.
pub fn checks(r: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for s in &r.sections {
        let mut check = |what: String, value: f64, standard_error, least: f64| {
            let (section, met) = (s.id.clone(), value >= least);
            checks.push(Check { section, what, value, standard_error, least, met });
        };
        let one = s.connections.iter().position(|n| *n == 1);
        let median = |row, column, name: &str| {
            let metric = COPY.iter().find(|m| m.name == name)?;
            Some(r.spread(s, row, column, metric)?.median)
        };
        let Some(one) = one else { continue };
        for row in (0..s.rows.len()).filter(|row| s.rows[*row].starts_with("Redolith")) {
            let (shape, cut) = of_row(s, row);
            for (column, n) in s.connections.iter().enumerate().filter(|(_, n)| **n > 1) {
                let least = match n {
                    2 if shape.name == "narrow" && cut == Cut::Apart => LEAST_NARROW,
                    ..=4 => LEAST_FEW,
                    _ => LEAST_MANY,
                };
                let both = median(row, column, "Throughput").zip(median(row, one, "Throughput"));
                if let Some((many, one)) = both {
                    check(format!("{}: {n} sessions / 1", s.rows[row]), many / one, None, least);
                }
            }
        }
        for &(row, base) in &s.pairs {
            let names = format!("{} / {}", s.rows[row], s.rows[base]);
            if let Some(Ratio { mean, error }) = r.ratio(s, (row, base), one) {
                check(format!("{names}, 1 session"), mean, error, of_row(s, row).0.least);
            }
            let redo = median(base, one, "Redo log").zip(median(row, one, "Redo log"));
            if let Some((theirs, ours)) = redo.filter(|(_, ours)| *ours > 0.0) {
                let what = format!("redo of a row, {} / {}", s.rows[base], s.rows[row]);
                check(what, theirs / ours, None, LEAST_REDO);
            }
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Figures, Point};

    fn planned(line: &str) -> (Results, Vec<Job>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let o = crate::options::parse(&words).unwrap().unwrap();
        let specs = specs(&o);
        let facts: Vec<Facts> =
            specs.iter().map(|s| Facts { name: s.name, kind: s.kind, knows: vec![] }).collect();
        let mut r = Results::default();
        let jobs = plan(&o, &facts, &mut r);
        (r, jobs)
    }

    #[test]
    fn a_section_for_each_shape() {
        let (r, jobs) = planned("insert --quick --peer=mariadb");
        let ids: Vec<&str> = r.sections.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["insert-narrow", "insert-medium", "insert-wide", "insert-nokey"]);
        assert_eq!(r.sections[0].rows.len(), 6);
        assert_eq!(r.sections[0].pairs, [(0, 3), (1, 4), (2, 5)]);
        assert_eq!(r.sections[3].rows, ["Redolith", "MariaDB"]);
        assert_eq!(
            (of_row(&r.sections[0], 4).1, of_row(&r.sections[3], 1).1),
            (Generated, Generated)
        );
        assert_eq!(jobs.len(), 5 * (6 + 2 + 2 + 2));
        let (r, jobs) = planned("insert --shapes=wide --threads=1,4 --repeat=2 --rows=1000");
        assert_eq!(
            (r.sections[0].title.as_str(), jobs.len()),
            ("Wide rows, about 4 kB, 50 of them", 4)
        );
    }

    #[test]
    fn claims_are_checked() {
        let (mut r, jobs) =
            planned("insert --shapes=nokey --threads=1,2 --repeat=1 --peer=mariadb --rows=10");
        assert_eq!(checks(&r), []);
        let per_s = [[3000.0, 2000.0], [1000.0, 9000.0]];
        for j in &jobs {
            let s = &r.sections[0];
            let figures = Figures { per_s: per_s[j.row][j.column], ..Figures::default() };
            r.points.push(Point {
                section: s.id.clone(),
                row: s.rows[j.row].clone(),
                column: s.columns[j.column].clone(),
                connections: j.connections,
                server: if j.row == 0 { OURS } else { MARIADB }.into(),
                turn: j.turn,
                figures: Some(figures),
                error: String::new(),
            });
        }
        let found: Vec<(String, bool)> = checks(&r).into_iter().map(|c| (c.what, c.met)).collect();
        assert_eq!(
            found,
            [
                ("Redolith: 2 sessions / 1".to_string(), false),
                ("Redolith / MariaDB, 1 session".into(), true)
            ]
        );
    }
}

//! The parts of study 1 about flushes: when and how often they happen (pace), and how many are in
//! flight at a time (depth). Only Redolith has these settings.
//!
//! Makes two tables of settings by writer modes. In all other tables both settings have their
//! defaults (`redo::ours`).
use crate::options::{Options, Part};
use crate::redo::{Facts, Ours, Purge, SHARED, expected, ours, position, purge};
use crate::results::{Load, Results, Section};
use crate::schedule::{Compare, Job, order};
use crate::sysbench;

pub const PACE: &str = "redolith_log_flush_pace_us";
pub const DEPTH: &str = "redolith_log_flush_depth";

/// The writer modes in which sessions flush.
const MODES: &[&str] = &["auto", "leader"];

struct Question {
    part: Part,
    id: &'static str,
    title: &'static str,
    text: &'static str,
    row_title: &'static str,
    variable: &'static str,
    /// Label and value of each row. The other rows are compared with the first.
    rows: &'static [(&'static str, &'static str)],
}

const QUESTIONS: [Question; 2] = [
    Question {
        part: Part::Pace,
        id: "pace",
        title: "When and how often to flush",
        text: "A flush begins at least so long after the one before it \
            (redolith_log_flush_pace_us): held back, it takes more commits along, and each waits \
            longer. 0 flushes as soon as \
               somebody waits, -1 lets the server choose.",
        row_title: "microseconds between flushes",
        variable: PACE,
        rows: &[
            ("0 us", "0"),
            ("200 us", "200"),
            ("500 us", "500"),
            ("1500 us", "1500"),
            ("-1 (the server chooses)", "-1"),
        ],
    },
    Question {
        part: Part::Depth,
        id: "depth",
        title: "How many writes at a time",
        text: "So many writes of the log may be under way at once (redolith_log_flush_depth): with \
            more than one, the next group need not wait until the last one is durable. 0 lets the \
               server choose.",
        row_title: "writes under way",
        variable: DEPTH,
        rows: &[("1", "1"), ("2", "2"), ("4", "4"), ("0 (the server chooses)", "0")],
    },
];

pub fn plan(o: &Options, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    QUESTIONS.iter().filter(|q| o.has(q.part)).flat_map(|q| of(q, o, servers, results)).collect()
}

fn of(q: &Question, o: &Options, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let server = position(servers, |s| s.name == SHARED).unwrap_or(0);
    let modes: Vec<&String> = o.modes.iter().filter(|s| MODES.contains(&s.as_str())).collect();
    if !servers[server].knows(q.variable) {
        results.notes.push(format!(
            "\"{}\" is left out: the server has no variable {} (error 1193).",
            q.title, q.variable
        ));
        return Vec::new();
    }
    if modes.is_empty() {
        results.notes.push(format!(
            "\"{}\" is left out: it is of the modes {}.",
            q.title,
            MODES.join(" and ")
        ));
        return Vec::new();
    }
    let section = results.sections.len();
    results.sections.push(Section {
        id: q.id.into(),
        title: format!("{}, at {} connections: {}", q.title, o.placement_threads, o.scripts[0]),
        text: q.text.into(),
        load: Load::Sysbench,
        script: o.scripts[0].into(),
        row_title: q.row_title.into(),
        column_title: "mode".into(),
        rows: q.rows.iter().map(|(label, _)| label.to_string()).collect(),
        columns: modes.iter().map(|s| s.to_string()).collect(),
        connections: vec![],
        base: Some(0),
        fixed: vec![],
        baseline: vec![],
        pairs: vec![],
        counters_of: (0..modes.len()).collect(),
    });
    let job = |(row, column, turn): (usize, usize, u32)| {
        let flushing = Some((q.variable, q.rows[row].1));
        let mut setup = ours(
            &Ours { mode: modes[column].clone(), flushing, ..Ours::default() },
            &servers[server],
        );
        setup.extend(purge(&servers[server], Purge::On).unwrap_or_default());
        let (connections, expected) =
            (o.placement_threads, expected(o, o.scripts[0], o.placement_threads));
        Job {
            section,
            row,
            column,
            turn,
            server,
            connections,
            alone: sysbench::wears(o.scripts[0]),
            setup,
            expected,
        }
    };
    order(q.rows.len(), modes.len(), o.repeat, Compare::Rows).into_iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;
    use crate::redo::{self, LOG_WRITER};
    use crate::servers::Kind;

    fn planned(line: &str, knows: &[&'static str]) -> (Results, Vec<Job>) {
        let o = parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
            .unwrap()
            .unwrap();
        let servers = [
            Facts { name: SHARED, kind: Kind::Redolith, knows: knows.to_vec() },
            Facts { name: "mariadb", kind: Kind::MariaDb, knows: vec![] },
        ];
        let mut r = Results::default();
        let jobs = redo::plan(&o, &[0], &servers, &mut r);
        (r, jobs)
    }

    #[test]
    fn paces_and_depths_by_mode() {
        let (r, jobs) = planned(
            "redo --threads=8 --repeat=2 --sections=pace,depth --script=oltp_update_index",
            &[LOG_WRITER, PACE, DEPTH],
        );
        assert_eq!(r.sections.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["pace", "depth"]);
        assert_eq!(
            r.sections[0].title,
            "When and how often to flush, at 8 connections: oltp_update_index"
        );
        assert_eq!(
            r.sections[0].rows,
            ["0 us", "200 us", "500 us", "1500 us", "-1 (the server chooses)"]
        );
        assert_eq!(
            (r.sections[1].columns.as_slice(), r.sections[1].rows.len()),
            (&["auto".to_string(), "leader".into()][..], 4)
        );
        assert_eq!(jobs.len(), (5 + 4) * 2 * 2);
        // The rows of one mode are taken in turn, and the other setting has its default.
        assert_eq!(
            jobs.iter().take(6).map(|j| (j.row, j.column, j.turn)).collect::<Vec<_>>()[4..],
            [(4, 0, 0), (0, 0, 1)]
        );
        let set = |of: &Job| {
            of.setup
                .iter()
                .map(|s| s.trim_start_matches("SET GLOBAL ").to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            set(&jobs[1]),
            [
                "redolith_log_writer = 'auto'",
                "redolith_log_flush_pace_us = 200",
                "redolith_log_flush_depth = DEFAULT"
            ]
        );
        let last = jobs.last().unwrap();
        assert_eq!(
            set(last),
            [
                "redolith_log_writer = 'leader'",
                "redolith_log_flush_pace_us = DEFAULT",
                "redolith_log_flush_depth = 0"
            ]
        );
        assert!(jobs.iter().all(|j| j.server == 0 && j.connections == 8));
    }

    #[test]
    fn other_rows_have_them_at_their_defaults() {
        let (_, jobs) =
            planned("redo --threads=8 --repeat=1 --sections=modes,purge,pace", &[LOG_WRITER, PACE]);
        let of_ours = jobs.iter().filter(|j| j.section < 2 && j.server == 0);
        assert_eq!(of_ours.clone().count(), 4 + 4);
        assert!(of_ours.into_iter().all(|j| {
            j.setup.contains(&"SET GLOBAL redolith_log_flush_pace_us = DEFAULT".to_string())
        }));
    }

    #[test]
    fn a_server_without_them_skips_the_rows_and_says_so() {
        let (r, jobs) = planned(
            "redo --threads=8 --repeat=1 --sections=pace,depth --modes=leader",
            &[LOG_WRITER, PACE],
        );
        assert_eq!((jobs.len(), r.sections.len()), (5, 1));
        assert_eq!(
            r.notes,
            ["\"How many writes at a time\" is left out: the server has no variable \
                    redolith_log_flush_depth (error 1193)."]
        );
        let (r, jobs) =
            planned("redo --threads=8 --sections=pace --modes=session", &[LOG_WRITER, PACE]);
        assert_eq!(
            (jobs.len(), r.notes[0].as_str()),
            (0, "\"When and how often to flush\" is left out: it is of the modes auto and leader.")
        );
    }
}

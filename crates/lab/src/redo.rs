//! Study 1: which thread writes the redo log, on which cores, with purge and without.
//!
//! *Modes*: a table for each script, of each writer mode and the peers by connections.
//! *Placements*: the study's four placements at the study's connections, with purge and without,
//! and beside them the other modes. *Pace* and *depth* are in `flushing`. A placement needs a
//! server of its own that is kept off the last core. The modes are switched while the server runs.
use crate::cores;
use crate::flushing::{self, DEPTH, PACE};
use crate::options::{Options, Part, Peer};
use crate::results::{Load, Results, Section};
use crate::schedule::{Compare, Job, Windows, order, warm_up_s};
use crate::servers::{Kind, Server, Spec};
use crate::sysbench;
use std::time::Duration;

/// The variables that matter here. A variable that a server does not have is left out and noted.
pub const VARIABLES: &[&str] = &[
    LOG_WRITER,
    WRITER_CPUS,
    FLUSHER_CPUS,
    NICE,
    PURGE_STOP,
    PURGE_RUN,
    UNDO_TRUNCATE,
    WRITER_THREADS,
    PACE,
    DEPTH,
];
pub const LOG_WRITER: &str = "redolith_log_writer";
const WRITER_CPUS: &str = "redolith_log_writer_cpus";
const FLUSHER_CPUS: &str = "redolith_log_flusher_cpus";
const NICE: &str = "redolith_log_threads_nice";
/// The study's other remedy for log threads that do not get a CPU: a higher priority.
const FIRST: &str = "-20";
const PURGE_STOP: &str = "innodb_purge_stop_now";
const PURGE_RUN: &str = "innodb_purge_run_now";
const UNDO_TRUNCATE: &str = "innodb_undo_log_truncate";
pub const WRITER_THREADS: &str = "innodb_log_writer_threads";

pub const SHARED: &str = "redolith";
const ISOLATED: &str = "redolith, isolated";

/// The servers that this study needs, Redolith first.
pub fn specs(o: &Options, all: &[usize]) -> Vec<Spec> {
    let everywhere = |name, kind| Spec { name, kind, cores: Vec::new(), more: &[] };
    let mut specs = vec![everywhere(SHARED, Kind::Redolith)];
    if o.has(Part::Placements) && o.modes.iter().any(|s| s == "dedicated") && all.len() > 1 {
        specs.push(Spec {
            name: ISOLATED,
            kind: Kind::Redolith,
            cores: all[..all.len() - 1].to_vec(),
            more: &[],
        });
    }
    specs.extend(peers(o));
    specs
}

pub fn peers(o: &Options) -> impl Iterator<Item = Spec> {
    o.peers.iter().map(|peer| {
        let (name, kind) = match peer {
            Peer::MariaDb => ("mariadb", Kind::MariaDb),
            Peer::MySql => ("mysql", Kind::MySql),
            Peer::Baseline => ("baseline", Kind::Baseline),
        };
        Spec { name, kind, cores: Vec::new(), more: &[] }
    })
}

/// The facts that the planner needs about a running server.
pub struct Facts<'a> {
    pub name: &'a str,
    pub kind: Kind,
    pub knows: Vec<&'a str>,
}

impl<'a> Facts<'a> {
    pub fn of(server: &'a Server) -> Facts<'a> {
        let knows = VARIABLES.iter().copied().filter(|v| server.knows(v)).collect();
        Facts { name: server.spec.name, kind: server.spec.kind, knows }
    }
    pub fn knows(&self, variable: &str) -> bool {
        self.knows.contains(&variable)
    }
}

pub fn set(variable: &str, value: &str) -> String {
    format!("SET GLOBAL {variable} = {value}")
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    On,
    Off,
}

/// The statements that switch purge, of those that the server has. `None` if purge cannot be
/// switched.
pub fn purge(server: &Facts, purge: Purge) -> Option<Vec<String>> {
    let mut s = Vec::new();
    match purge {
        Purge::On if server.knows(PURGE_RUN) => s.push(set(PURGE_RUN, "ON")),
        Purge::Off if server.knows(PURGE_STOP) => s.push(set(PURGE_STOP, "ON")),
        _ => {}
    }
    if server.knows(UNDO_TRUNCATE) {
        s.push(set(UNDO_TRUNCATE, if purge == Purge::On { "ON" } else { "OFF" }));
    }
    (purge == Purge::On || !s.is_empty()).then_some(s)
}

/// Rows of the peers: (label, server, statements that set it up).
fn peer_rows(servers: &[Facts]) -> Vec<(String, usize, Vec<String>)> {
    let mut rows = Vec::new();
    for (i, s) in servers.iter().enumerate() {
        match s.kind {
            Kind::Redolith => {}
            Kind::MariaDb => rows.push(("MariaDB".to_string(), i, vec![])),
            Kind::Baseline => rows.push((BASELINE.to_string(), i, vec![])),
            Kind::MySql if s.knows(WRITER_THREADS) => {
                for value in ["ON", "OFF"] {
                    rows.push((
                        format!("MySQL, writer threads {value}"),
                        i,
                        vec![set(WRITER_THREADS, value)],
                    ));
                }
            }
            Kind::MySql => rows.push(("MySQL".to_string(), i, vec![])),
        }
    }
    rows
}
pub const BASELINE: &str = "the baseline";

/// A row of Redolith. Settings that the row does not have are at their defaults.
#[derive(Default)]
pub struct Ours {
    pub mode: String,
    /// The CPUs of the writer and the flusher.
    pub cpus: Option<(String, String)>,
    /// The log threads have the highest priority.
    pub first: bool,
    /// A variable of `flushing` and its value.
    pub flushing: Option<(&'static str, &'static str)>,
}

pub fn ours(row: &Ours, server: &Facts) -> Vec<String> {
    let mut s = vec![set(LOG_WRITER, &format!("'{}'", row.mode))];
    let (writer, flusher) = row.cpus.clone().unwrap_or_default();
    for (variable, list) in [(WRITER_CPUS, writer), (FLUSHER_CPUS, flusher)] {
        if server.knows(variable) {
            s.push(set(variable, &format!("'{list}'")));
        }
    }
    if server.knows(NICE) {
        s.push(set(NICE, if row.first { FIRST } else { "0" }));
    }
    for variable in [PACE, DEPTH].into_iter().filter(|v| server.knows(v)) {
        s.push(set(
            variable,
            row.flushing.filter(|(of, _)| *of == variable).map_or("DEFAULT", |(_, value)| value),
        ));
    }
    s
}

/// The study's placements on these cores: all threads share all cores; the writer, the flusher, or
/// both are on the last core.
fn placements(all: &[usize]) -> Vec<(String, Option<(String, String)>)> {
    let mut rows = vec![("dedicated: all share all cores".to_string(), None)];
    if let Some((last, others)) = all.split_last().filter(|(_, others)| !others.is_empty()) {
        let (last, others) = (last.to_string(), cores::list(others));
        rows.push((
            format!("dedicated: log writer alone on core {last}"),
            Some((last.clone(), others.clone())),
        ));
        rows.push((
            format!("dedicated: log flusher alone on core {last}"),
            Some((others, last.clone())),
        ));
        rows.push((
            format!("dedicated: writer and flusher together on core {last}"),
            Some((last.clone(), last)),
        ));
    }
    rows
}

/// The time of a point besides its measured time: starting sysbench, its last second, coming to
/// rest.
const OVERHEAD: Duration = Duration::from_millis(2500);

pub fn plan(o: &Options, all: &[usize], servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let mut jobs = Vec::new();
    for script in o.scripts.iter().filter(|_| o.has(Part::Modes)) {
        jobs.extend(modes(o, script, servers, results));
    }
    if o.has(Part::Placements) || o.has(Part::Purge) {
        jobs.extend(placements_and_purge(o, all, servers, results));
    }
    jobs.extend(flushing::plan(o, servers, results));
    if jobs.iter().any(|j| results.sections[j.section].script == "oltp_delete") {
        results.notes.push(format!(
            "oltp_delete puts no row back: each point begins with {} tables of {} rows, and finds \
                ever fewer of them. What finds none writes no log.",
            o.tables, o.table_size
        ));
    }
    jobs
}

/// The rows per second with which tables are loaded, as a guess.
pub const LOADED_PER_S: f64 = 50_000.0;

pub fn expected(o: &Options, script: &str, threads: u32) -> Duration {
    let rows = f64::from(o.tables) * f64::from(o.table_size);
    let load = if sysbench::wears(script) {
        Duration::from_secs_f64(rows / LOADED_PER_S)
    } else {
        Duration::ZERO
    };
    Duration::from_secs(u64::from(warm_up_s(o.warmup_s, threads)))
        + Windows::new(1, o.time_s, threads).all()
        + OVERHEAD
        + load
}

/// The points of a section whose columns are connections. Each row is a server and what is set on
/// it.
pub fn by_connections(
    o: &Options,
    script: &str,
    section: usize,
    rows: &[(usize, Vec<String>)],
) -> Vec<Job> {
    let job = |(row, column, turn): (usize, usize, u32)| {
        let connections = o.threads[column];
        Job {
            section,
            row,
            column,
            turn,
            server: rows[row].0,
            connections,
            alone: sysbench::wears(script),
            setup: rows[row].1.clone(),
            expected: expected(o, script, connections),
        }
    };
    order(rows.len(), o.threads.len(), o.repeat, Compare::Rows).into_iter().map(job).collect()
}

pub fn position<T>(list: &[T], is: impl Fn(&T) -> bool) -> Option<usize> {
    list.iter().position(is)
}

fn modes(o: &Options, script: &str, servers: &[Facts], results: &mut Results) -> Vec<Job> {
    let mut rows: Vec<(String, usize, Vec<String>)> = Vec::new();
    let main = position(servers, |s| s.name == SHARED).unwrap_or(0);
    for mode in &o.modes {
        let row = Ours { mode: mode.clone(), ..Ours::default() };
        let mut setup = ours(&row, &servers[main]);
        setup.extend(purge(&servers[main], Purge::On).unwrap_or_default());
        rows.push((mode.clone(), main, setup));
    }
    rows.extend(peer_rows(servers));
    let labels: Vec<String> = rows.iter().map(|r| r.0.clone()).collect();
    let base = position(&labels, |l| l == "auto");
    let section = results.sections.len();
    results.sections.push(Section {
        id: if section == 0 { "modes".into() } else { format!("modes-{script}") },
        title: format!("Who writes the log, by connections: {script}"),
        text: "Each writer mode of Redolith, switched while the server runs, and the other \
            servers, at each number of connections. Purge is on, all threads share all cores."
            .into(),
        load: Load::Sysbench,
        script: script.into(),
        row_title: "mode or server".into(),
        column_title: "connections".into(),
        base,
        fixed: position_all(&labels, |l| o.modes.contains(l) && l != "auto"),
        baseline: position_all(&labels, |l| l == BASELINE),
        pairs: vec![],
        counters_of: position(&o.threads, |n| *n == o.placement_threads).into_iter().collect(),
        rows: labels,
        columns: o.threads.iter().map(u32::to_string).collect(),
        connections: o.threads.clone(),
    });
    let rows = rows.into_iter().map(|(_, server, setup)| (server, setup));
    by_connections(o, script, section, &rows.collect::<Vec<_>>())
}

fn position_all<T>(list: &[T], is: impl Fn(&T) -> bool) -> Vec<usize> {
    list.iter().enumerate().filter(|(_, x)| is(x)).map(|(i, _)| i).collect()
}

fn placements_and_purge(
    o: &Options,
    all: &[usize],
    servers: &[Facts],
    results: &mut Results,
) -> Vec<Job> {
    let main = position(servers, |s| s.name == SHARED).unwrap_or(0);
    let isolated = position(servers, |s| s.name == ISOLATED);
    let mut rows: Vec<(String, usize, Vec<String>)> = Vec::new();
    // Without placements, purge is compared where all threads share all cores.
    let placed = o.has(Part::Placements);
    if o.modes.iter().any(|s| s == "dedicated") {
        if placed && all.len() < 2 {
            results
                .notes
                .push("Placements are left out: there is one core, and nothing to place.".into());
        }
        for (label, cpus) in
            placements(all).into_iter().filter(|(_, cpus)| placed || cpus.is_none())
        {
            let server = if cpus.is_some() { isolated.unwrap_or(main) } else { main };
            let missing = [WRITER_CPUS, FLUSHER_CPUS]
                .into_iter()
                .filter(|v| cpus.is_some() && !servers[server].knows(v));
            if let Some(v) = missing.into_iter().next() {
                results.notes.push(format!(
                    "\"{label}\" is left out: the server has no variable {v} (error 1193)."
                ));
                continue;
            }
            let row = Ours { mode: "dedicated".into(), cpus, ..Ours::default() };
            rows.push((label, server, ours(&row, &servers[server])));
        }
    }
    // A quick run has time for the placements only.
    if !(o.quick && placed) {
        // Only root may set a negative niceness.
        if placed
            && o.modes.iter().any(|s| s == "dedicated")
            && servers[main].knows(NICE)
            && rustix::process::getuid().is_root()
        {
            let label = "dedicated: all share all cores, log threads at nice -20".to_string();
            let row = Ours { mode: "dedicated".into(), first: true, ..Ours::default() };
            rows.push((label, main, ours(&row, &servers[main])));
        }
        for mode in o.modes.iter().filter(|s| *s != "dedicated") {
            let row = Ours { mode: mode.clone(), ..Ours::default() };
            rows.push((format!("{mode}: all share all cores"), main, ours(&row, &servers[main])));
        }
        rows.extend(peer_rows(servers).into_iter().filter(|(label, ..)| label != BASELINE));
    }
    for i in position_all(servers, |s| o.has(Part::Purge) && s.kind != Kind::Baseline) {
        let name = servers[i].name;
        // The isolated server is the same program.
        if name == ISOLATED || !rows.iter().any(|r| r.1 == i) {
            continue;
        }
        match purge(&servers[i], Purge::Off) {
            None => results.notes.push(format!(
                "Purge off is left out for {name}: it has neither {PURGE_STOP} nor \
                    {UNDO_TRUNCATE} (error 1193)."
            )),
            Some(_) if !servers[i].knows(PURGE_STOP) => {
                results.notes.push(format!(
                    "Purge off, {name}: only {UNDO_TRUNCATE} is OFF; it has \
                    no {PURGE_STOP} (error 1193)."
                ));
            }
            Some(_) => {}
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let section = results.sections.len();
    let labels: Vec<String> = rows.iter().map(|r| r.0.clone()).collect();
    let columns: &[(&str, Purge)] = if o.has(Part::Purge) {
        &[("purge on", Purge::On), ("purge off", Purge::Off)]
    } else {
        &[("purge on", Purge::On)]
    };
    let (n, script) = (o.placement_threads, o.scripts[0]);
    let title = match (placed, o.has(Part::Purge)) {
        (true, true) => {
            format!("Where the log threads run, and purge, at {n} connections: {script}")
        }
        (true, false) => format!("Where the log threads run, at {n} connections: {script}"),
        (false, _) => format!("Purge, at {n} connections: {script}"),
    };
    let mut text = Vec::new();
    if placed {
        text.push(
            "The study's four placements of the dedicated log threads, scaled to the cores there \
                are. Where a core is a log thread's alone, the server's other threads are kept off \
                it \
             (the server is started on the other cores, and has a worker for each of those); the \
             client may use all cores.",
        );
    }
    if o.has(Part::Purge) {
        text.push(
            "Purge off: purge stands still (innodb_purge_stop_now) and undo is not truncated \
                (innodb_undo_log_truncate=OFF), as far as a server has these.",
        );
    }
    results.sections.push(Section {
        id: (if placed { "placements" } else { "purge" }).into(),
        title,
        text: text.join(" "),
        load: Load::Sysbench,
        script: script.into(),
        row_title: (if placed { "placement" } else { "mode or server" }).into(),
        column_title: "undo purge".into(),
        base: None,
        fixed: vec![],
        baseline: vec![],
        pairs: vec![],
        counters_of: (0..columns.len()).collect(),
        rows: labels,
        columns: columns.iter().map(|(name, _)| name.to_string()).collect(),
        connections: vec![],
    });
    let job = |(row, column, turn): (usize, usize, u32)| {
        let (_, server, setup) = &rows[row];
        let switch = purge(&servers[*server], columns[column].1)?;
        let setup = [setup.clone(), switch].concat();
        let alone = sysbench::wears(script);
        Some(Job {
            section,
            row,
            column,
            turn,
            server: *server,
            connections: n,
            alone,
            setup,
            expected: expected(o, script, n),
        })
    };
    let mut cells = order(rows.len(), columns.len(), o.repeat, Compare::RowsAndColumns);
    // Rows of one server are sorted beside each other, so that they share a load.
    cells.sort_by_key(|(row, column, turn)| (*turn, *column, rows[*row].1));
    cells.into_iter().filter_map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn options(line: &str) -> Options {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>()).unwrap().unwrap()
    }
    const ALL: &[&str] = &[
        LOG_WRITER,
        WRITER_CPUS,
        FLUSHER_CPUS,
        PURGE_STOP,
        PURGE_RUN,
        UNDO_TRUNCATE,
        WRITER_THREADS,
    ];

    #[test]
    fn every_row_and_column_is_taken_in_turn() {
        let o = options(
            "redo --threads=1,128 --repeat=2 --peer=mysql --sections=modes,placements,purge",
        );
        let servers = [
            Facts { name: SHARED, kind: Kind::Redolith, knows: ALL.to_vec() },
            Facts { name: ISOLATED, kind: Kind::Redolith, knows: ALL.to_vec() },
            Facts { name: "mysql", kind: Kind::MySql, knows: vec![UNDO_TRUNCATE, WRITER_THREADS] },
        ];
        let mut r = Results::default();
        let jobs = plan(&o, &[0, 1, 2, 3], &servers, &mut r);
        assert_eq!(
            r.sections[0].rows,
            [
                "auto",
                "leader",
                "session",
                "dedicated",
                "MySQL, writer threads ON",
                "MySQL, writer threads OFF"
            ]
        );
        assert_eq!((r.sections[0].base, r.sections[0].fixed.as_slice()), (Some(0), &[1, 2, 3][..]));
        let of_modes: Vec<&Job> = jobs.iter().filter(|j| j.section == 0).collect();
        assert_eq!(of_modes.len(), 6 * 2 * 2);
        assert_eq!(
            of_modes.iter().map(|j| j.row).take(7).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 0]
        );
        assert_eq!(of_modes[4].setup, ["SET GLOBAL innodb_log_writer_threads = ON"]);
        // 4 placements, 3 other modes, 2 of MySQL; purge on and off; 2 turns.
        let of_placements: Vec<&Job> = jobs.iter().filter(|j| j.section == 1).collect();
        assert_eq!(of_placements.len(), 9 * 2 * 2);
        // Rows of one server are neighbours, and share a load.
        assert!(of_placements[..9].is_sorted_by_key(|j| j.server));
        let writer_alone = of_placements.iter().find(|j| j.row == 1).unwrap();
        assert_eq!((writer_alone.server, writer_alone.connections), (1, 128));
        assert_eq!(
            writer_alone.setup,
            [
                "SET GLOBAL redolith_log_writer = 'dedicated'",
                "SET GLOBAL redolith_log_writer_cpus = '3'",
                "SET GLOBAL redolith_log_flusher_cpus = '0-2'",
                "SET GLOBAL innodb_purge_run_now = ON",
                "SET GLOBAL innodb_undo_log_truncate = ON",
            ]
        );
        assert_eq!(
            of_placements[9].setup.last().unwrap(),
            "SET GLOBAL innodb_undo_log_truncate = OFF"
        );
        assert_eq!(
            r.notes,
            ["Purge off, mysql: only innodb_undo_log_truncate is OFF; it has no \
                    innodb_purge_stop_now (error 1193)."]
        );
    }

    #[test]
    fn modes_are_repeated_for_each_script() {
        let o = options(
            "redo --quick --threads=4,1 --modes=auto,leader --script=oltp_update_index \
                --script=oltp_delete",
        );
        let servers =
            [Facts { name: SHARED, kind: Kind::Redolith, knows: vec![LOG_WRITER, PURGE_STOP] }];
        let mut r = Results::default();
        let jobs = plan(&o, &[0], &servers, &mut r);
        let sections: Vec<(&str, &str)> =
            r.sections.iter().map(|s| (s.id.as_str(), s.script.as_str())).collect();
        // No mode has log threads to place.
        assert_eq!(
            sections,
            [("modes", "oltp_update_index"), ("modes-oltp_delete", "oltp_delete")]
        );
        assert!(
            r.sections
                .iter()
                .all(|s| s.title == format!("Who writes the log, by connections: {}", s.script))
        );
        assert_eq!(jobs.iter().map(|j| j.section).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert!(
            jobs[4].expected > jobs[0].expected
                && r.notes.last().unwrap().starts_with("oltp_delete puts no row back")
        );
        let o =
            options("redo --threads=1 --script=oltp_insert --script=oltp_write_only --repeat=1");
        let mut r = Results::default();
        let jobs = plan(&o, &[0], &servers, &mut r);
        let of: Vec<(&str, usize)> = r
            .sections
            .iter()
            .enumerate()
            .map(|(i, s)| (s.script.as_str(), jobs.iter().filter(|j| j.section == i).count()))
            .collect();
        assert_eq!(of, [("oltp_insert", 4), ("oltp_write_only", 4), ("oltp_insert", 4 * 2)]);
    }

    #[test]
    fn sections_are_chosen() {
        let servers = [
            Facts { name: SHARED, kind: Kind::Redolith, knows: ALL.to_vec() },
            Facts { name: "mariadb", kind: Kind::MariaDb, knows: vec![UNDO_TRUNCATE] },
        ];
        let of = |line: &str| {
            let o = options(&format!("redo --threads=1 --repeat=1 --peer=mariadb {line}"));
            let mut r = Results::default();
            let jobs = plan(&o, &[0, 1], &servers, &mut r);
            let sections: Vec<(String, usize, usize)> =
                r.sections.iter().map(|s| (s.id.clone(), s.rows.len(), s.columns.len())).collect();
            (sections, jobs.len())
        };
        let section = |id: &str, rows, columns| (id.to_string(), rows, columns);
        assert_eq!(of("--sections=modes"), (vec![section("modes", 5, 1)], 5));
        // dedicated, the other modes, and MariaDB.
        assert_eq!(of("--sections=purge"), (vec![section("purge", 5, 2)], 10));
        assert_eq!(of("--sections=placements"), (vec![section("placements", 8, 1)], 8));
        assert_eq!(of("--sections=placements --quick"), (vec![section("placements", 4, 1)], 4));
        assert_eq!(of("--quick"), (vec![section("modes", 5, 1), section("placements", 4, 2)], 13));
        assert_eq!(specs(&options("redo --sections=purge,pace"), &[0, 1]).len(), 1);
    }

    #[test]
    fn log_threads_first_is_a_row_where_it_can_be() {
        let servers = [Facts { name: SHARED, kind: Kind::Redolith, knows: vec![LOG_WRITER, NICE] }];
        let mut r = Results::default();
        let jobs = plan(&options("redo --threads=1 --repeat=1"), &[0], &servers, &mut r);
        let nice: Vec<&str> = jobs
            .iter()
            .filter_map(|j| j.setup.iter().find(|s| s.contains(NICE)))
            .map(|s| s.rsplit(' ').next().unwrap())
            .collect();
        let (root, ordinary) = (["0", "0", "0", "0", "0", "-20", "0", "0", "0"], ["0"; 8]);
        assert_eq!(nice, if rustix::process::getuid().is_root() { &root[..] } else { &ordinary });
    }

    #[test]
    fn what_a_server_does_not_have_is_left_out_and_said() {
        let o = options("redo --threads=1 --repeat=1 --quick");
        let servers = [
            Facts { name: SHARED, kind: Kind::Redolith, knows: vec![LOG_WRITER] },
            Facts { name: ISOLATED, kind: Kind::Redolith, knows: vec![LOG_WRITER] },
        ];
        let mut r = Results::default();
        let jobs = plan(&o, &[0, 1], &servers, &mut r);
        assert_eq!(jobs.iter().filter(|j| j.section == 1).count(), 1);
        assert_eq!(r.notes.len(), 4, "{:?}", r.notes);
        assert!(r.notes[0].contains("no variable redolith_log_writer_cpus (error 1193)"));
        assert!(r.notes[3].contains("Purge off is left out for redolith"));
    }

    #[test]
    fn one_core_has_one_placement() {
        assert_eq!(placements(&[0]).len(), 1);
        assert_eq!(placements(&[0, 1])[3].1, Some(("1".into(), "1".into())));
        assert_eq!(specs(&options("redo"), &[0]).len(), 1);
    }
}

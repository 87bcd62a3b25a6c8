//! The results of a run. They are written as report.json without changes, and read by the tables
//! and plots.
use crate::counters::Counted;
use crate::stats::{Ratio, Spread};
use crate::sysbench;
use serde::Serialize;

#[derive(Serialize, Default)]
pub struct Results {
    pub study: String,
    pub title: String,
    /// The command as it was typed.
    pub command: String,
    /// False if the run was stopped or something failed. Then `notes` says so.
    pub finished: bool,
    pub machine: Vec<(String, String)>,
    pub load: Vec<(String, String)>,
    pub servers: Vec<ServerInfo>,
    /// Facts that a reader must know: rows left out, points that failed.
    pub notes: Vec<String>,
    /// The claims that the study has to show, checked against the points. Empty if it has none.
    pub checks: Vec<Check>,
    pub sections: Vec<Section>,
    pub points: Vec<Point>,
}

#[derive(Serialize)]
pub struct ServerInfo {
    pub name: String,
    pub version: String,
    pub options: Vec<String>,
    /// The cores that the server may use. Empty for all cores.
    pub cores: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Load {
    Sysbench,
    Slap,
    /// INSERT .. SELECT over connections of the lab.
    Copy,
}

/// A table of the study: rows (modes, placements, servers) by columns (connections, purge).
#[derive(Serialize)]
pub struct Section {
    pub id: String,
    pub title: String,
    pub text: String,
    pub load: Load,
    /// The sysbench script. Empty with mysqlslap.
    pub script: String,
    /// The titles above the rows and above the columns.
    pub row_title: String,
    pub column_title: String,
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// The number of connections of each column, if the columns are connections. Then the plot
    /// draws lines, because the distance of the columns has a meaning.
    pub connections: Vec<u32>,
    /// The row with which the others are compared.
    pub base: Option<usize>,
    /// Rows of fixed writer modes. The base should be as good as the best of them.
    pub fixed: Vec<usize>,
    /// Rows that do not compete: the baseline.
    pub baseline: Vec<usize>,
    /// Rows, each with the row that it is divided by, such as the same server without the binary
    /// log.
    pub pairs: Vec<(usize, usize)>,
    /// The columns whose counters are shown in full. The last column if empty.
    pub counters_of: Vec<usize>,
}

/// A claim about a ratio of throughputs, and whether these points bear it out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    pub section: String,
    pub what: String,
    pub value: f64,
    /// `None` if the ratio is of a single pair.
    pub standard_error: Option<f64>,
    pub least: f64,
    pub met: bool,
}

/// The cost of one point. Numbers are per transaction, or per statement with mysqlslap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// The transactions, or statements, in the measured time.
    pub done: f64,
    pub per_s: f64,
    /// The throughput of each window. Empty for a point without windows.
    pub windows: Vec<f64>,
    pub queries_per_s: f64,
    /// The time that mysqlslap reports.
    pub seconds: Option<f64>,
    pub p95_ms: Option<f64>,
    pub server_us: f64,
    pub client_us: f64,
    /// The flushes of the device. `None` if the device does not count them.
    pub flushes: Option<f64>,
    pub written_kib: Option<f64>,
    pub ignored_errors: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counted>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub section: String,
    pub row: String,
    pub column: String,
    pub connections: u32,
    pub server: String,
    pub turn: u32,
    /// `None` if the point failed; `error` says why.
    pub figures: Option<Figures>,
    pub error: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    Higher,
    Lower,
    /// The metric is shown, and no value is better than another.
    Neither,
}

/// One of the numbers, and its presentation.
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub digits: usize,
    pub better: Better,
    /// A plot needs a logarithmic scale to show the metric.
    pub wide: bool,
    pub get: fn(&Figures) -> Option<f64>,
}

const fn metric(
    name: &'static str,
    unit: &'static str,
    digits: usize,
    better: Better,
    wide: bool,
    get: fn(&Figures) -> Option<f64>,
) -> Metric {
    Metric { name, unit, digits, better, wide, get }
}

/// The flushes per commit as the server counts them. MariaDB has one counter for the redo log and
/// the data files.
fn redo_flushes(f: &Figures) -> Option<f64> {
    let counted = |name: &str| f.counters.iter().find(|c| c.name == name && c.grows);
    let flushes = counted("os_log_fsyncs").or_else(|| counted("data_fsyncs"))?;
    Some(flushes.difference() / f.done.max(1.0))
}

/// The pages that the server has written to its data files, copies not counted.
fn pages_written(f: &Figures) -> Option<f64> {
    let counted = |name: &str| f.counters.iter().find(|c| c.name == name && c.grows);
    let pages = counted("buffer_pages_written").or_else(|| counted("pages_written"))?;
    Some(pages.difference() / f.done.max(1.0))
}

pub const SYSBENCH: &[Metric] = &[
    metric("Throughput", "transactions/s", 0, Better::Higher, false, |f| Some(f.per_s)),
    metric("Queries", "queries/s", 0, Better::Higher, false, |f| Some(f.queries_per_s)),
    metric("Latency, 95th percentile", "ms", 2, Better::Lower, true, |f| f.p95_ms),
    metric("Server CPU", "us per transaction", 1, Better::Lower, false, |f| Some(f.server_us)),
    metric("Flushes of the redo log", "per commit", 3, Better::Lower, true, redo_flushes),
    metric("Flushes of the device", "per commit", 3, Better::Lower, true, |f| f.flushes),
    metric("Pages written", "per transaction", 3, Better::Lower, false, pages_written),
    metric("Written to the device", "KiB per transaction", 1, Better::Lower, false, |f| {
        f.written_kib
    }),
    metric("Client CPU", "us per transaction", 1, Better::Neither, false, |f| Some(f.client_us)),
];
pub const SLAP: &[Metric] = &[
    metric("Time", "seconds", 2, Better::Lower, false, |f| f.seconds),
    metric("Throughput", "statements/s", 0, Better::Higher, false, |f| Some(f.per_s)),
    metric("Server CPU", "us per statement", 1, Better::Lower, false, |f| Some(f.server_us)),
    metric("Flushes of the device", "per statement", 3, Better::Lower, true, |f| f.flushes),
    metric("Client CPU", "us per statement", 1, Better::Neither, false, |f| Some(f.client_us)),
];
/// The bytes that the redo log has grown by, whether they are written already or not.
fn redo_bytes(f: &Figures) -> Option<f64> {
    let place = |name: &str| f.counters.iter().find(|c| c.name == name);
    let place = place("log_lsn_current").or_else(|| place("lsn_current"))?;
    Some(place.difference() / f.done.max(1.0))
}

/// The times that a session met a page that another had latched, per 1000 rows.
fn latch_waits(f: &Figures) -> Option<f64> {
    let waits = f.counters.iter().find(|c| c.name == "buffer_page_latch_waits")?;
    Some(waits.difference() / f.done.max(1.0) * 1000.0)
}

pub const COPY: &[Metric] = &[
    metric("Throughput", "rows/s", 0, Better::Higher, false, |f| Some(f.per_s)),
    metric("Time", "seconds", 2, Better::Lower, false, |f| f.seconds),
    metric("Server CPU", "us per row", 2, Better::Lower, false, |f| Some(f.server_us)),
    metric("Redo log", "bytes per row", 0, Better::Lower, false, redo_bytes),
    metric("Pages written", "per 1000 rows, while they went in", 2, Better::Lower, false, |f| {
        pages_written(f).map(|pages| pages * 1000.0)
    }),
    metric(
        "Written to the device",
        "KiB per 1000 rows, while they went in",
        1,
        Better::Lower,
        false,
        |f| f.written_kib.map(|kib| kib * 1000.0),
    ),
    metric("Waits for page latches", "per 1000 rows", 2, Better::Lower, false, latch_waits),
];
/// The metrics that have a plot.
pub const PLOTTED: &[&str] =
    &["Throughput", "Time", "Latency, 95th percentile", "Server CPU", "Flushes of the device"];

impl Section {
    pub fn metrics(&self) -> &'static [Metric] {
        match self.load {
            Load::Sysbench => SYSBENCH,
            Load::Slap => SLAP,
            Load::Copy => COPY,
        }
    }
    pub fn throughput(&self) -> &'static Metric {
        let all = self.metrics();
        all.iter().find(|m| m.name == "Throughput").unwrap_or(&all[0])
    }
    /// The metric by which rows are compared.
    pub fn main_metric(&self) -> &'static Metric {
        &self.metrics()[0]
    }
}

impl Results {
    /// The figures of a cell's points that did not fail.
    pub fn figures(
        &self,
        section: &Section,
        row: usize,
        column: usize,
    ) -> impl Iterator<Item = (u32, &Figures)> {
        let (id, row, column) =
            (section.id.clone(), section.rows[row].clone(), section.columns[column].clone());
        let of_cell = self
            .points
            .iter()
            .filter(move |p| p.section == id && p.row == row && p.column == column);
        of_cell.filter_map(|p| Some((p.turn, p.figures.as_ref()?)))
    }

    pub fn spread(
        &self,
        section: &Section,
        row: usize,
        column: usize,
        metric: &Metric,
    ) -> Option<Spread> {
        let values: Vec<f64> =
            self.figures(section, row, column).filter_map(|(_, f)| (metric.get)(f)).collect();
        Spread::of(&values)
    }

    /// The throughput of a row relative to its own peak.
    pub fn of_peak(&self, section: &Section, row: usize, column: usize) -> Option<f64> {
        let median = |column| Some(self.spread(section, row, column, section.throughput())?.median);
        let peak = (0..section.columns.len()).filter_map(median).reduce(f64::max)?;
        Some(median(column)? / peak).filter(|x| x.is_finite())
    }

    /// The throughput of a row relative to another row. Pairs are measured beside each other:
    /// windows of one load, or whole turns if each row had a load of its own. So disturbances of
    /// the machine affect both values of a pair.
    pub fn ratio(
        &self,
        section: &Section,
        (row, base): (usize, usize),
        column: usize,
    ) -> Option<Ratio> {
        let of_base: Vec<(u32, &Figures)> = self.figures(section, base, column).collect();
        let server = |row: usize| {
            self.points
                .iter()
                .find(|p| p.section == section.id && p.row == section.rows[row])
                .map(|p| &p.server)
        };
        let one_load = server(row) == server(base) && !sysbench::wears(&section.script);
        let mut pairs = Vec::new();
        for (turn, f) in self.figures(section, row, column) {
            let Some((_, base)) = of_base.iter().find(|(t, _)| *t == turn) else { continue };
            // A window without throughput gives no ratio.
            let whole = |f: &Figures| !f.windows.is_empty() && f.windows.iter().all(|w| *w > 0.0);
            if one_load && whole(f) && whole(base) && f.windows.len() == base.windows.len() {
                pairs.extend(f.windows.iter().zip(&base.windows).map(|(f, base)| f / base));
            } else {
                pairs.push(f.per_s / base.per_s);
            }
        }
        Ratio::of(&pairs)
    }
}

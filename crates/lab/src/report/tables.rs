//! The tables of a section, in the study's shape.
use super::table::{Cell, Table};
use crate::counters::{BESIDES, STUDY_1};
use crate::results::{Better, Figures, Load, Metric, Results, Section};
use crate::stats::{Ratio, Spread, number};
use std::collections::BTreeMap;

/// Counters are shown per this many transactions.
const PER: f64 = 1e6;

pub fn all(r: &Results, s: &Section) -> Vec<Table> {
    let mut tables: Vec<Table> = s.metrics().iter().map(|m| by_columns(r, s, m)).collect();
    tables.splice(1..1, ratios(r, s));
    tables.extend(study_counters(r, s));
    tables
}

/// The main table, which is also shown on the terminal.
pub fn main(r: &Results, s: &Section) -> Vec<Table> {
    let shown = |m: &&Metric| m.name == s.main_metric().name || m.name == "Server CPU";
    let mut tables: Vec<Table> =
        s.metrics().iter().filter(shown).map(|m| by_columns(r, s, m)).collect();
    tables.splice(1..1, ratios(r, s));
    tables
}

fn ratios(r: &Results, s: &Section) -> impl Iterator<Item = Table> {
    against_base(r, s).into_iter().chain(pairs(r, s)).chain(of_peak(r, s)).chain(checks(r, s))
}

fn head(s: &Section) -> Vec<String> {
    let unit = |c: &String| if s.connections.is_empty() { c.clone() } else { format!("{c} conn.") };
    std::iter::once(s.row_title.clone()).chain(s.columns.iter().map(unit)).collect()
}

fn range_note(r: &Results) -> String {
    let turns = r.points.iter().map(|p| p.turn + 1).max().unwrap_or(0);
    if turns > 1 { format!("median (lowest-highest) of {turns} turns") } else { String::new() }
}

fn by_columns(r: &Results, s: &Section, m: &Metric) -> Table {
    let spreads: Vec<Vec<Option<Spread>>> = (0..s.rows.len())
        .map(|row| (0..s.columns.len()).map(|c| r.spread(s, row, c, m)).collect())
        .collect();
    let best = |column: usize| {
        let medians = spreads
            .iter()
            .enumerate()
            .filter(|(row, _)| !s.baseline.contains(row))
            .filter_map(|(_, of_row)| Some(of_row[column]?.median));
        let competing: Vec<f64> = medians.collect();
        let pick = if m.better == Better::Higher { f64::max } else { f64::min };
        if competing.len() > 1 && m.better != Better::Neither {
            competing.into_iter().reduce(pick)
        } else {
            None
        }
    };
    let bests: Vec<Option<f64>> = (0..s.columns.len()).map(best).collect();
    let cell = |row: usize, column: usize| match spreads[row][column] {
        Some(x) => Cell {
            text: x.text(m.digits),
            best: !s.baseline.contains(&row) && bests[column] == Some(x.median),
        },
        None => Cell::default(),
    };
    let rows =
        s.rows.iter().enumerate().map(|(row, name)| {
            (name.clone(), (0..s.columns.len()).map(|c| cell(row, c)).collect())
        });
    Table {
        title: format!("{}, {}", m.name, m.unit),
        note: range_note(r),
        head: head(s),
        rows: rows.collect(),
    }
}

/// The throughput of each row relative to the base in the same turn, and the base relative to the
/// best of the fixed modes.
fn against_base(r: &Results, s: &Section) -> Option<Table> {
    let base = s.base?;
    let ratio = |row: usize, column: usize| r.ratio(s, (row, base), column);
    let mut rows: Vec<(String, Vec<Cell>)> = Vec::new();
    for (row, name) in s.rows.iter().enumerate().filter(|(row, _)| *row != base) {
        rows.push((
            name.clone(),
            (0..s.columns.len())
                .map(|c| ratio(row, c).map_or(String::new(), |x| x.text()).into())
                .collect(),
        ));
    }
    if !s.fixed.is_empty() {
        let best = |column: usize| {
            s.fixed
                .iter()
                .filter_map(|row| ratio(*row, column))
                .max_by(|a, b| a.mean.total_cmp(&b.mean))
        };
        let cells = (0..s.columns.len())
            .map(|c| best(c).map_or(String::new(), |b: Ratio| b.inverse().text()).into());
        rows.push((format!("{} / best fixed mode", s.rows[base]), cells.collect()));
    }
    Some(Table {
        title: format!("Throughput, {} = 1", s.rows[base]),
        note:
            "of pairs taken beside each other: mean ± its standard error (the best of several is \
            also the luckiest of them)"
                .into(),
        head: head(s),
        rows,
    })
}

/// The throughput of each row that has another to be divided by.
fn pairs(r: &Results, s: &Section) -> Option<Table> {
    let row = |(row, base): &(usize, usize)| {
        let ratio = |c| r.ratio(s, (*row, *base), c).map_or(String::new(), |x| x.text()).into();
        let name = format!("{} / {}", s.rows[*row], s.rows[*base]);
        (name, (0..s.columns.len()).map(ratio).collect())
    };
    (!s.pairs.is_empty()).then(|| Table {
        title: "Throughput of pairs".into(),
        note: "of pairs taken beside each other: mean ± its standard error".into(),
        head: head(s),
        rows: s.pairs.iter().map(row).collect(),
    })
}

/// The throughput of each row relative to its peak: whether it falls with many connections.
fn of_peak(r: &Results, s: &Section) -> Option<Table> {
    let row = |(row, name): (usize, &String)| {
        let share = |c| r.of_peak(s, row, c).map_or(String::new(), |x| number(x, 2)).into();
        (name.clone(), (0..s.columns.len()).map(share).collect())
    };
    (!s.pairs.is_empty()).then(|| Table {
        title: "Throughput, peak of the row = 1".into(),
        note: "of the medians".into(),
        head: head(s),
        rows: s.rows.iter().enumerate().map(row).collect(),
    })
}

fn checks(r: &Results, s: &Section) -> Option<Table> {
    let rows: Vec<(String, Vec<Cell>)> = r
        .checks
        .iter()
        .filter(|c| c.section == s.id)
        .map(|c| {
            let value = Ratio { mean: c.value, error: c.standard_error }.text();
            let met = if c.met { "yes" } else { "no" };
            (c.what.clone(), [value, number(c.least, 2), met.into()].map(Cell::from).into())
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Checks".into(),
        note: String::new(),
        head: ["throughput", "ratio", "at least", "met"].map(String::from).to_vec(),
        rows,
    })
}

/// Each average, with the counters of its sum and of its count.
const AVERAGES: [(&str, &str, &str); 2] = [
    ("log_flush_avg_time", "log_flush_time_us_sum", "log_flush_time_us_count"),
    ("log_flush_lsn_avg_rate", "log_flush_total_bytes", "log_flushes"),
];

/// The form in which a counter is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Told {
    /// The growth per million transactions.
    Grown(f64),
    /// An average, computed from the growth of other counters.
    Average(f64),
    /// A gauge: its value after the last turn.
    After(f64),
}

impl Told {
    fn text(self) -> String {
        match self {
            Told::Grown(x) | Told::Average(x) => number(x, 0),
            Told::After(x) => format!("{} (after)", number(x, 0)),
        }
    }
}

/// A row's counters over all its turns of one column.
pub fn counters_of<'a>(turns: impl Iterator<Item = (u32, &'a Figures)>) -> BTreeMap<String, Told> {
    let (mut done, mut sums) = (0.0, BTreeMap::<String, (f64, f64, bool)>::new());
    for (_, f) in turns {
        done += f.done;
        for c in &f.counters {
            let (sum, last, grows) = sums.entry(c.name.clone()).or_insert((0.0, 0.0, true));
            (*sum, *last, *grows) = (*sum + c.difference(), c.after, *grows && c.grows);
        }
    }
    let told = |(sum, last, grows)| {
        if grows { Told::Grown(sum / f64::max(done, 1.0) * PER) } else { Told::After(last) }
    };
    let mut all: BTreeMap<String, Told> =
        sums.iter().map(|(name, of)| (name.clone(), told(*of))).collect();
    // Averages since the server's start, or over its last moments, mix several rows. For this row
    // alone they are computed from the growth of sum and count.
    for (average, sum, count) in AVERAGES {
        let of = |name: &str| sums.get(name).filter(|(_, _, grows)| *grows).map(|(sum, ..)| *sum);
        if let (Some(sum), Some(count)) = (of(sum), of(count).filter(|c| *c > 0.0)) {
            all.insert(average.to_string(), Told::Average(sum / count));
        }
    }
    all
}

fn study_counters(r: &Results, s: &Section) -> Vec<Table> {
    if s.columns.is_empty() {
        return vec![];
    }
    let columns =
        if s.counters_of.is_empty() { vec![s.columns.len() - 1] } else { s.counters_of.clone() };
    columns.into_iter().filter_map(|column| counters_table(r, s, column)).collect()
}

fn counters_table(r: &Results, s: &Section, column: usize) -> Option<Table> {
    let of_rows: Vec<(String, BTreeMap<String, Told>)> = s
        .rows
        .iter()
        .enumerate()
        .map(|(row, name)| (name.clone(), counters_of(r.figures(s, row, column))))
        .filter(|(_, c)| !c.is_empty())
        .collect();
    if of_rows.is_empty() {
        return None;
    }
    let known = |name: &&&str| of_rows.iter().any(|(_, c)| c.contains_key(**name));
    let row = |name: &&str| {
        let cells =
            of_rows.iter().map(|(_, c)| c.get(*name).map_or(String::new(), |x| x.text()).into());
        (name.to_string(), cells.collect())
    };
    let what = match s.load {
        Load::Sysbench => "transactions",
        Load::Slap => "statements",
        Load::Copy => "rows",
    };
    Some(Table {
        title: if s.connections.is_empty() {
            format!("Counters, {}", s.columns[column])
        } else {
            format!("Counters at {} {}", s.columns[column], s.column_title)
        },
        note: format!(
            "by how much they grew, per million {what}; averages are of these points alone where \
                the server has the counts for that; \
             (after): a gauge, as it was after the last point"
        ),
        head: std::iter::once("counter".to_string())
            .chain(of_rows.iter().map(|(name, _)| name.clone()))
            .collect(),
        rows: STUDY_1.iter().chain(BESIDES).filter(known).map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counted;

    #[test]
    fn averages_are_of_the_points_alone() {
        let counted = |name: &str, before: f64, after: f64, grows| Counted {
            name: name.into(),
            before,
            after,
            grows,
        };
        let point = |from: f64| Figures {
            done: 500_000.0,
            counters: vec![
                counted("log_flush_time_us_sum", from, from + 900.0, true),
                counted("log_flush_time_us_count", 10.0, 13.0, true),
                counted("log_flush_avg_time", 1.0, 7777.0, false),
                counted("log_lsn_current", 1.0, from, false),
            ],
            ..Figures::default()
        };
        let (a, b) = (point(0.0), point(5.0));
        let c = counters_of([(0, &a), (1, &b)].into_iter());
        assert_eq!(
            (c["log_flush_avg_time"], c["log_flush_time_us_sum"], c["log_lsn_current"]),
            (Told::Average(300.0), Told::Grown(1800.0), Told::After(5.0))
        );
    }

    #[test]
    fn a_gauge_has_no_difference() {
        let counted = |name: &str, before: f64, after: f64, grows| Counted {
            name: name.into(),
            before,
            after,
            grows,
        };
        // MySQL has no counts for its averages. A value that fell in one turn is not treated as a
        // counter in the other turns.
        let point = |rate: f64, grows| Figures {
            done: 1e6,
            counters: vec![
                counted("log_flush_lsn_avg_rate", 1_140_741.0, rate, false),
                counted("log_flushes_open", 5.0, rate, grows),
            ],
            ..Figures::default()
        };
        let (a, b) = (point(2.0, false), point(77.0, true));
        let c = counters_of([(0, &a), (1, &b)].into_iter());
        assert_eq!(
            (c["log_flush_lsn_avg_rate"].text(), c["log_flushes_open"].text()),
            ("77 (after)".into(), "77 (after)".into())
        );
    }
}

//! Medians of the turns beside each other, as Markdown, and the targets.
use crate::beside::Beside;
use crate::engines::{ALL, REDOLITH, ROCKSDB, Shape};
use crate::point::Point;
use crate::report::About;
use std::fmt::Write;

/// The target for Redolith's commits/s relative to engines with one writer at a time, from this
/// many writers on.
const SINGLE_WRITER_FACTOR: f64 = 5.0;
const SINGLE_WRITER_FROM: usize = 16;
/// The time that the engine may add to the device's write, in microseconds, at the median.
const OVERHEAD_US: f64 = 15.0;

fn shapes(points: &[Point]) -> Vec<Shape> {
    let mut all: Vec<Shape> = Vec::new();
    for p in points {
        if !all.contains(&p.shape) {
            all.push(p.shape);
        }
    }
    all
}
fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    match v.len() {
        0 => 0.0,
        n if n % 2 == 1 => v[n / 2],
        n => (v[n / 2 - 1] + v[n / 2]) / 2.0,
    }
}
fn of<'p>(points: &'p [Point], engine: &'p str, shape: Shape) -> impl Iterator<Item = &'p Point> {
    points.iter().filter(move |p| p.engine == engine && p.shape == shape)
}
/// Redolith's commits/s relative to another engine's, turn by turn.
fn ratios(points: &[Point], engine: &str, shape: Shape) -> Vec<f64> {
    let other = |turn| of(points, engine, shape).find(|p| p.turn == turn && p.commits_per_s > 0.0);
    of(points, REDOLITH, shape)
        .filter_map(|r| other(r.turn).map(|o| r.commits_per_s / o.commits_per_s))
        .collect()
}
fn range(v: &[f64]) -> (f64, f64) {
    v.iter().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(*x), h.max(*x)))
}
/// Formats 12345.6 as 12,346.
fn grouped(x: f64) -> String {
    let digits = format!("{x:.0}");
    let n = digits.len();
    digits.chars().enumerate().fold(String::new(), |mut out, (i, c)| {
        if i > 0 && (n - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
        out
    })
}

pub fn markdown(about: &About, points: &[Point], beside: &[Beside]) -> String {
    let mut out = String::new();
    let facts: Vec<String> = about.facts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    let _ =
        writeln!(out, "{}.\n\n| engine | version | settings |\n|---|---|---|", facts.join("; "));
    for (name, version, settings) in &about.engines {
        let _ = writeln!(out, "| {name} | {version} | {settings} |");
    }
    let _ = writeln!(out, "\n{}\n", targets(points, beside).trim_end());
    let mut value_bytes = 0;
    for shape in shapes(points) {
        if shape.value_bytes != value_bytes {
            value_bytes = shape.value_bytes;
            let _ = writeln!(out, "### Values of {value_bytes} bytes\n");
            out += "| writers | engine | commits/s (range) | p50 us | p99 us | flushes/commit | \
                KiB written/commit | CPU us/commit | switches/commit | redolith is |\n";
            out += "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        }
        for k in ALL {
            let all: Vec<&Point> = of(points, k.name, shape).collect();
            if all.is_empty() {
                continue;
            }
            let mid = |f: fn(&Point) -> f64| median(all.iter().map(|p| f(p)).collect());
            let (low, high) = range(&all.iter().map(|p| p.commits_per_s).collect::<Vec<_>>());
            let against = ratios(points, k.name, shape);
            let against = if k.name == REDOLITH || against.is_empty() {
                String::new()
            } else {
                format!("{:.2}x", median(against))
            };
            let fault = all
                .iter()
                .find_map(|p| p.fault.as_deref())
                .map_or(String::new(), |f| format!(" **{f}**"));
            let _ = writeln!(
                out,
                "| {} | {}{fault} | {} ({}-{}) | {} | {} | {:.3} | {:.2} | {:.1} | {:.2} | \
                    {against} |",
                shape.writers,
                k.name,
                grouped(mid(|p| p.commits_per_s)),
                grouped(low),
                grouped(high),
                grouped(mid(|p| p.p50_us)),
                grouped(mid(|p| p.p99_us)),
                mid(|p| p.flushes_per_commit),
                mid(|p| p.written_kib_per_commit),
                mid(|p| p.cpu_us_per_commit),
                mid(|p| p.switches_per_commit),
            );
        }
        if points.last().is_some_and(|p| p.shape == shape)
            || shapes(points)
                .iter()
                .all(|s| s.value_bytes != value_bytes || s.writers <= shape.writers)
        {
            out.push('\n');
        }
    }
    out.trim_end().to_string() + "\n"
}

/// The targets and the results: a Markdown table that is readable as text.
pub fn targets(points: &[Point], beside: &[Beside]) -> String {
    let mut out = String::from("| target | measured | |\n|---|---|---|\n");
    let mut row = |what: String, measured: String, met: bool| {
        let _ = writeln!(out, "| {what} | {measured} | {} |", if met { "met" } else { "MISSED" });
    };
    for shape in shapes(points) {
        let at = format!(
            "{} writer{}, {} bytes",
            shape.writers,
            if shape.writers == 1 { "" } else { "s" },
            shape.value_bytes
        );
        let mut against = |engine: &str, factor: f64| {
            let r = ratios(points, engine, shape);
            if !r.is_empty() {
                let (m, (low, high)) = (median(r.clone()), range(&r));
                row(
                    format!("{at}: {factor}x {engine}'s commits/s"),
                    format!("{m:.2}x ({low:.2}-{high:.2})"),
                    m >= factor,
                );
            }
        };
        against(ROCKSDB, 1.0);
        for k in ALL.iter().filter(|k| k.single_writer && shape.writers >= SINGLE_WRITER_FROM) {
            against(k.name, SINGLE_WRITER_FACTOR);
        }
        if shape.writers == 1 {
            let flushes: Vec<f64> =
                of(points, REDOLITH, shape).map(|p| p.flushes_per_commit).collect();
            if !flushes.is_empty() {
                let flushes = median(flushes);
                row(
                    format!("{at}: one device flush per commit"),
                    format!("{flushes:.3}"),
                    flushes < 1.05,
                );
            }
            let with = || beside.iter().filter(|b| b.value_bytes == shape.value_bytes);
            let over: Vec<f64> = with().map(|b| b.commit_us - b.device_us).collect();
            if !over.is_empty() {
                let (m, (low, high)) = (median(over.clone()), range(&over));
                let of = |f: fn(&Beside) -> f64| median(with().map(f).collect());
                row(
                    format!(
                        "{at}: p50 of a commit at most the device's write + {OVERHEAD_US} us, in \
                            turn"
                    ),
                    format!(
                        "+{m:.1} us ({low:.1} to {high:.1}): {:.1} beside {:.1}; the row {:.1}",
                        of(|b| b.commit_us),
                        of(|b| b.device_us),
                        of(|b| b.row_us)
                    ),
                    m <= OVERHEAD_US,
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(engine: &'static str, writers: usize, turn: usize, commits_per_s: f64) -> Point {
        Point {
            engine,
            shape: Shape { value_bytes: 100, writers },
            turn,
            commits_per_s,
            p50_us: 1e6 / commits_per_s,
            p99_us: 0.0,
            flushes_per_commit: 1.0,
            written_kib_per_commit: 4.0,
            cpu_us_per_commit: 20.0,
            switches_per_commit: 1.0,
            fault: None,
            counters: Vec::new(),
        }
    }

    #[test]
    fn targets_are_judged_by_the_median_of_turns() {
        let mut all = Vec::new();
        for (turn, redolith) in [(0, 900.0), (1, 5000.0), (2, 5100.0)] {
            all.extend([point(REDOLITH, 1, turn, redolith), point("lmdb", 1, turn, 1000.0)]);
            all.extend([
                point(REDOLITH, 16, turn, redolith),
                point("lmdb", 16, turn, 1000.0),
                point("redb", 16, turn, 1100.0),
            ]);
        }
        let beside =
            |commit_us| Beside { value_bytes: 100, device_us: 100.0, row_us: 7.0, commit_us };
        let t = targets(&all, &[beside(110.0), beside(116.0), beside(140.0)]);
        assert!(
            t.contains("| 16 writers, 100 bytes: 5x lmdb's commits/s | 5.00x (0.90-5.10) | met |"),
            "{t}"
        );
        assert!(t.contains("redb's commits/s | 4.55x (0.82-4.64) | MISSED |"), "{t}");
        assert!(
            t.contains(
                "the device's write + 15 us, in turn | +16.0 us (10.0 to 40.0): 116.0 \
                beside 100.0; the row 7.0 | MISSED |"
            ),
            "{t}"
        );
        assert!(!t.contains("1 writer, 100 bytes: 5x"), "{t}");
    }
    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0.4, 999.0, 1000.0, 1234567.8].map(grouped),
            ["0", "999", "1,000", "1,234,568"]
        );
    }
}

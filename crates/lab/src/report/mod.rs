//! The report of a run: report.html for people, report.md for the docs, and report.json, points.csv
//! and counters.csv for programs.
mod csv;
mod html;
mod plot;
mod table;
mod tables;

use crate::failure::{Result, failed};
use crate::results::Results;
use std::fs;
use std::path::Path;

/// Writes all files of the report. It is called after each point, so that the results are kept
/// whatever happens.
pub fn write(results: &Results, dir: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(results).map_err(failed("report.json"))?;
    for (name, text) in [
        ("report.html", html::page(results)),
        ("report.md", markdown(results)),
        ("report.json", json),
        ("points.csv", csv::points(results)),
        ("counters.csv", csv::counters(results)),
    ] {
        let (path, unfinished) = (dir.join(name), dir.join(format!("{name}.new")));
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(failed(path.display()))?;
    }
    Ok(())
}

/// The main tables, for the terminal.
pub fn summary(results: &Results) -> String {
    let main = results.sections.iter().flat_map(|s| {
        let title = (s.rows.len() > 1).then(|| format!("{}\n\n", s.title));
        title.into_iter().chain(tables::main(results, s).into_iter().map(|t| t.markdown() + "\n"))
    });
    main.collect()
}

fn markdown(results: &Results) -> String {
    let mut out = format!("# {}\n\n    {}\n\n", results.title, results.command);
    for (what, is) in results.machine.iter().chain(&results.load) {
        out.push_str(&format!("- {what}: {is}\n"));
    }
    for s in &results.servers {
        let cores =
            if s.cores.is_empty() { String::new() } else { format!(", on cores {}", s.cores) };
        out.push_str(&format!("- {} ({}){cores}: `{}`\n", s.name, s.version, s.options.join(" ")));
    }
    for note in results.notes.iter().chain(&failures(results)) {
        out.push_str(&format!("- Note: {note}\n"));
    }
    for s in &results.sections {
        out.push_str(&format!("\n## {}\n\n{}\n", s.title, s.text));
        for t in tables::all(results, s) {
            out.push_str(&format!("\n{}\n", t.markdown()));
        }
    }
    out
}

/// Describes the points that failed, and the points whose errors sysbench ignored.
fn failures(r: &Results) -> Vec<String> {
    let failed = r.points.iter().filter(|p| !p.error.is_empty());
    let mut notes: Vec<String> = failed
        .map(|p| {
            format!(
                "Failed: {}, {}, {}, turn {}: {}",
                p.section,
                p.row,
                p.column,
                p.turn + 1,
                p.error
            )
        })
        .collect();
    let ignored: Vec<u64> = r
        .points
        .iter()
        .filter_map(|p| Some(p.figures.as_ref()?.ignored_errors))
        .filter(|n| *n > 0)
        .collect();
    if !ignored.is_empty() {
        let (errors, points) = (ignored.iter().sum::<u64>(), ignored.len());
        notes.push(format!(
            "sysbench ignored {errors} errors (deadlocks, lock waits) in {points} of {} points; \
                points.csv has them.",
            r.points.len()
        ));
    }
    notes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::counters::Counted;
    use crate::results::{Check, Figures, Load, Point, Section, ServerInfo};

    /// Two rows and a baseline, two columns, two turns. The last cell is missing.
    pub fn example() -> Results {
        let rows = ["auto", "session", "the baseline"].map(String::from).to_vec();
        let columns = ["1", "128"].map(String::from).to_vec();
        let mut points = Vec::new();
        for (c, connections) in [(0, 1u32), (1, 128)] {
            for turn in 0..2 {
                for (r, row) in rows.iter().enumerate() {
                    let per_s = [[1000.0, 12_000.0], [500.0, 9000.0], [2000.0, 30_000.0]][r][c]
                        * (1.0 + f64::from(turn) / 10.0);
                    let counters = vec![
                        Counted {
                            name: "log_writes".into(),
                            before: 10.0,
                            after: 10.0 + per_s,
                            grows: true,
                        },
                        Counted {
                            name: "log_flush_lsn_avg_rate".into(),
                            before: 1.0,
                            after: 77.0,
                            grows: false,
                        },
                    ];
                    let f = Figures {
                        done: 2.0 * per_s,
                        per_s,
                        // The rows of one load have windows at different times.
                        windows: [
                            vec![0.8 * per_s, 1.2 * per_s],
                            vec![0.7 * per_s, 1.3 * per_s],
                            vec![],
                        ][r]
                            .clone(),
                        queries_per_s: 6.0 * per_s,
                        p95_ms: Some(1.5),
                        server_us: 40.0,
                        flushes: Some(0.25),
                        counters,
                        ..Figures::default()
                    };
                    let failed = r == 2 && c == 1;
                    points.push(Point {
                        section: "modes".into(),
                        row: row.clone(),
                        column: columns[c].clone(),
                        connections,
                        server: if r < 2 { "redolith" } else { "baseline" }.into(),
                        turn,
                        figures: (!failed).then_some(f),
                        error: if failed {
                            "sysbench <ended>, \"badly\"".into()
                        } else {
                            String::new()
                        },
                    });
                }
            }
        }
        let section = Section {
            id: "modes".into(),
            title: "Who writes".into(),
            text: "Text & more.".into(),
            load: Load::Sysbench,
            script: "oltp_write_only".into(),
            row_title: "mode".into(),
            column_title: "connections".into(),
            rows,
            columns,
            connections: vec![1, 128],
            base: Some(0),
            fixed: vec![1],
            baseline: vec![2],
            pairs: vec![(1, 0)],
            counters_of: vec![1],
        };
        Results {
            study: "redo".into(),
            title: "Study 1".into(),
            command: "redolith lab redo --threads=1,128".into(),
            finished: true,
            machine: vec![("cores".into(), "2 x CPU".into())],
            load: vec![],
            servers: vec![ServerInfo {
                name: "redolith".into(),
                version: "1".into(),
                options: vec!["--a=1".into()],
                cores: "0-1".into(),
            }],
            notes: vec!["left <out>".into()],
            checks: vec![Check {
                section: "modes".into(),
                what: "session: 128 conn. / peak".into(),
                value: 1.0,
                standard_error: None,
                least: 0.9,
                met: true,
            }],
            sections: vec![section],
            points,
        }
    }

    #[test]
    fn markdown_has_every_row_and_the_medians() {
        let text = markdown(&example());
        for must in [
            "| auto | 1,050 (1,000-1,100) | 12,600 (12,000-13,200) |",
            "| session | 525 (500-550) | 9,450 (9,000-9,900) |",
            "| the baseline | 2,100 (2,000-2,200) |  |",
            // Rows of one load are compared by their windows; the baseline is compared by turns,
            // which drift together.
            "| session | 0.49 ±0.03 | 0.73 ±0.05 |",
            "| the baseline | 2.00 ±0.00 |  |",
            "| auto / best fixed mode | 2.05 ±0.13 | 1.37 ±0.08 |",
            "| session / auto | 0.49 ±0.03 | 0.73 ±0.05 |",
            "| session | 0.06 | 1.00 |",
            "| session: 128 conn. / peak | 1.00 | 0.90 | yes |",
            // Half a count per transaction.
            "| log_writes | 500,000 | 500,000 |",
            "| log_flush_lsn_avg_rate | 77 (after) | 77 (after) |",
            "- Note: left <out>",
            "- Note: Failed: modes, the baseline, 128, turn 1: sysbench <ended>, \"badly\"",
        ] {
            assert!(text.replace("**", "").contains(must), "{must}\n{text}");
        }
        assert!(text.contains("| auto | **1,050 (1,000-1,100)** |"), "{text}");
    }

    #[test]
    fn the_page_is_whole_and_loads_nothing() {
        let page = html::page(&example());
        for must in [
            "<h1>Study 1</h1>",
            "left &lt;out&gt;",
            "1,050",
            "<svg",
            "prefers-color-scheme",
            "redolith lab redo --threads=1,128",
            "--a=1",
            "sysbench &lt;ended&gt;",
        ] {
            assert!(page.contains(must), "{must}");
        }
        for never in ["http://", "https://", "<script", "<link", "src=", "NaN", "inf\""] {
            assert!(!page.contains(never), "{never}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn an_empty_run_is_a_page_too() {
        let mut r = example();
        r.points.clear();
        assert!(!html::page(&r).contains("NaN"));
        assert!(markdown(&r).contains("| auto |  |  |"));
        assert_eq!(summary(&Results::default()), "");
    }
}

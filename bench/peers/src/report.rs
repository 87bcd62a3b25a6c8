//! Writes the files of a run: every point as CSV and JSON, and the summary.
use crate::beside::Beside;
use crate::cost::Device;
use crate::engines::{self, Kind, Result};
use crate::options::Options;
use crate::point::Point;
use crate::summary;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The facts that a reader needs to judge the figures. None of them names the machine.
pub struct About {
    pub facts: Vec<(&'static str, String)>,
    /// Name, version, settings.
    pub engines: Vec<(&'static str, String, &'static str)>,
}

impl About {
    pub fn of(o: &Options, device: &Device, date: &str) -> About {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.split_once(':').map_or(line, |(_, v)| v).trim().to_string()
        };
        let cpus = std::thread::available_parallelism().map_or(0, |n| n.get());
        let memory = field("/proc/meminfo", "MemTotal")
            .split(' ')
            .next()
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(0)
            >> 20;
        let git = Command::new("git")
            .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short", "HEAD"])
            .output();
        let s = |d: std::time::Duration| d.as_secs_f64();
        About {
            facts: vec![
                (
                    "command",
                    format!(
                        "make bench-engines{}",
                        if o.given.is_empty() {
                            String::new()
                        } else {
                            format!(" ARGS='{}'", o.given)
                        }
                    ),
                ),
                ("date", date.into()),
                (
                    "commit",
                    git.map_or(String::new(), |o| {
                        String::from_utf8_lossy(&o.stdout).trim().to_string()
                    }),
                ),
                ("CPUs", format!("{cpus} of {}", field("/proc/cpuinfo", "model name"))),
                ("memory", format!("{memory} GiB")),
                ("kernel", field("/proc/sys/kernel/osrelease", "")),
                (
                    "device",
                    if device.fua {
                        "writes through (FUA): not all durable writes are flushes"
                    } else {
                        "durable by flushes"
                    }
                    .into(),
                ),
                (
                    "seconds",
                    format!("{} after {} of warm-up, {} turns", s(o.time), s(o.warm_up), o.repeat),
                ),
            ],
            engines: o.engines.iter().map(|k| (k.name, version(k), k.settings)).collect(),
        }
    }
}
/// The version of the engine as it was built.
fn version(kind: &Kind) -> String {
    // With `make bench-engines ROCKSDB=system`, the package contains only the bindings.
    if let (engines::ROCKSDB, Some(system)) = (kind.name, option_env!("ROCKSDB_VERSION")) {
        return format!("{system} of the distribution");
    }
    let head = format!("name = \"{}\"\nversion = \"", kind.package);
    let after = include_str!("../Cargo.lock").split_once(&head).map_or("", |(_, rest)| rest);
    after.split('"').next().unwrap_or_default().into()
}

/// A point's columns, in the order of the CSV.
fn columns(p: &Point) -> [(&'static str, String); 12] {
    let text = |s: &str| {
        format!("\"{}\"", s.replace('\\', "/").replace('"', "'").replace(char::is_control, " "))
    };
    let n = |x: f64| format!("{x:.3}");
    [
        ("engine", text(p.engine)),
        ("value_bytes", p.shape.value_bytes.to_string()),
        ("writers", p.shape.writers.to_string()),
        ("turn", p.turn.to_string()),
        ("commits_per_s", n(p.commits_per_s)),
        ("p50_us", n(p.p50_us)),
        ("p99_us", n(p.p99_us)),
        ("flushes_per_commit", format!("{:.5}", p.flushes_per_commit)),
        ("written_kib_per_commit", n(p.written_kib_per_commit)),
        ("cpu_us_per_commit", n(p.cpu_us_per_commit)),
        ("switches_per_commit", n(p.switches_per_commit)),
        ("fault", text(p.fault.as_deref().unwrap_or(""))),
    ]
}

pub fn save(out: &Path, about: &About, points: &[Point], beside: &[Beside]) -> Result<()> {
    let head = points.first().map_or(String::new(), |p| columns(p).map(|c| c.0).join(","));
    let lines: Vec<String> = points.iter().map(|p| columns(p).map(|c| c.1).join(",")).collect();
    fs::write(out.join("engines.csv"), format!("{head}\n{}\n", lines.join("\n")))?;
    let quoted = |s: &str| s.replace('\\', "/").replace('"', "'");
    let facts: Vec<String> =
        about.facts.iter().map(|(k, v)| format!("  \"{k}\": \"{}\"", quoted(v))).collect();
    let engines: Vec<String> = about
        .engines
        .iter()
        .map(|(n, v, s)| {
            format!("  \"{n}\": {{\"version\": \"{v}\", \"settings\": \"{}\"}}", quoted(s))
        })
        .collect();
    let objects: Vec<String> = points
        .iter()
        .map(|p| format!("  {{{}}}", columns(p).map(|(k, v)| format!("\"{k}\": {v}")).join(", ")))
        .collect();
    let json = format!(
        "{{\n \"about\": {{\n{}\n }},\n \"engines\": {{\n{}\n }},\n \"points\": [\n{}\n ]\n}}\n",
        facts.join(",\n"),
        engines.join(",\n"),
        objects.join(",\n")
    );
    fs::write(out.join("engines.json"), json)?;
    Ok(fs::write(out.join("engines.md"), summary::markdown(about, points, beside))?)
}

/// Date and time of microseconds since 1970; `-` between the parts of the date, or nothing. The
/// calendar is Hinnant's `civil_from_days`.
pub fn utc(us: i64, between: &str) -> String {
    let (day, second) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000) / 1_000_000);
    let z = day + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (d, m) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let y = yoe + era * 400 + i64::from(m <= 2);
    format!(
        "{y:04}{between}{m:02}{between}{d:02}-{:02}{:02}{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0, "-"), "1970-01-01-000000");
        assert_eq!(utc(951_782_399_000_000, ""), "20000228-235959");
        assert_eq!(utc(951_868_799_000_000, "-"), "2000-02-29-235959");
        assert_eq!(utc(1_798_761_599_999_999, ""), "20261231-235959");
    }
    #[test]
    fn every_engine_has_a_version() {
        for k in crate::engines::ALL {
            assert!(version(k).starts_with(|c: char| c.is_ascii_digit()), "{}", k.name);
        }
    }
}

//! One point: an engine runs in a new directory with its writers for a while. The point has the
//! cost of the load, and whether all committed rows are there after the database is opened again.
use crate::cost::{Cost, Device};
use crate::engines::{Kind, RAW, Result, Shape};
use crate::load::{Load, Tally, percentile};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// With fewer flushes than this share of what the largest possible groups need, commits are not
/// durable.
const FLUSHES_MIN: f64 = 0.5;

#[derive(Clone)]
pub struct Point {
    pub engine: &'static str,
    pub shape: Shape,
    pub turn: usize,
    pub commits_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub flushes_per_commit: f64,
    pub written_kib_per_commit: f64,
    pub cpu_us_per_commit: f64,
    pub switches_per_commit: f64,
    /// The fault of the point: it cannot have synced, rows are missing, or it failed.
    pub fault: Option<String>,
    /// The engine's own counters over the whole load, with `--counters`.
    pub counters: Vec<(&'static str, u64)>,
}
/// The duration, and whether counters are shown.
#[derive(Clone, Copy)]
pub struct How {
    pub warm_up: Duration,
    pub time: Duration,
    pub counters: bool,
}

/// Runs the point in `dir`, which is created and removed.
pub fn run(kind: &Kind, shape: Shape, turn: usize, how: How, dir: &Path, device: &Device) -> Point {
    let mut point = Point {
        engine: kind.name,
        shape,
        turn,
        commits_per_s: 0.0,
        p50_us: 0.0,
        p99_us: 0.0,
        flushes_per_commit: 0.0,
        written_kib_per_commit: 0.0,
        cpu_us_per_commit: 0.0,
        switches_per_commit: 0.0,
        fault: None,
        counters: Vec::new(),
    };
    let done = fs::create_dir_all(dir)
        .map_err(Into::into)
        .and_then(|()| measure(&mut point, kind, how, dir, device));
    if let Err(e) = done {
        point.fault = Some(format!("failed: {e}"));
    }
    let _ = fs::remove_dir_all(dir);
    point
}

fn measure(point: &mut Point, kind: &Kind, how: How, dir: &Path, device: &Device) -> Result<()> {
    let engine = (kind.open)(dir, point.shape)?;
    // Writes left over from opening the database and from removing the previous one are not part of
    // this load.
    rustix::fs::syncfs(fs::File::open(dir)?)?;
    let before = engine.counters();
    let load = Arc::new(Load::new(point.shape));
    let (tally, window) = thread::scope(|s| {
        let clock = s.spawn(|| keep_time(&load, how, device));
        (engine.drive(&load), clock.join())
    });
    let (time, cost) = window.map_err(|_| "the clock panicked")??;
    let tally = tally?;
    fill(point, &tally, time, cost);
    if how.counters {
        let after = engine.counters();
        point.counters = after
            .iter()
            .zip(before)
            .filter(|(a, b)| a.1 > b.1)
            .map(|(a, b)| (a.0, a.1 - b.1))
            .collect();
    }
    let rows = engine.rows()?;
    engine.close()?;
    let measured = tally.latencies_ns.len() as f64;
    let syncs = if device.fua { cost.flushes + cost.writes } else { cost.flushes };
    if (syncs as f64) < FLUSHES_MIN * measured / point.shape.writers as f64 {
        point.fault = Some("NOT SYNCED: fewer flushes than its commits need".into());
    }
    if kind.name != RAW {
        let again = (kind.open)(dir, point.shape)?;
        let reopened = again.rows()?;
        again.close()?;
        if rows != Some(tally.commits) || reopened != rows {
            let tell = |n: Option<u64>| n.map_or("no".into(), |n| n.to_string());
            point.fault = Some(format!(
                "{} commits, {} rows, {} after opening it again",
                tally.commits,
                tell(rows),
                tell(reopened)
            ));
        }
    }
    Ok(())
}

/// Runs the phases of the load. Returns the duration and the cost of the measured phase.
fn keep_time(load: &Load, how: How, device: &Device) -> Result<(Duration, Cost)> {
    let run = || {
        thread::sleep(how.warm_up);
        let (begun, before) = (load.now(), device.cost()?);
        load.measure();
        thread::sleep(how.time);
        let (ended, after) = (load.now(), device.cost()?);
        Ok((ended - begun, after.since(before)))
    };
    let window = run();
    load.stop();
    window
}

fn fill(point: &mut Point, tally: &Tally, time: Duration, cost: Cost) {
    let mut ns = tally.latencies_ns.clone();
    let n = ns.len().max(1) as f64;
    point.commits_per_s = ns.len() as f64 / time.as_secs_f64();
    (point.p50_us, point.p99_us) = (percentile(&mut ns, 0.5), percentile(&mut ns, 0.99));
    point.flushes_per_commit = cost.flushes as f64 / n;
    point.written_kib_per_commit = cost.written_bytes as f64 / 1024.0 / n;
    point.cpu_us_per_commit = cost.cpu_us as f64 / n;
    point.switches_per_commit = cost.switches as f64 / n;
}

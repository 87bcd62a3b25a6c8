//! Compares Redolith's library with other embedded engines: durable commits by 1, 4, 16, 64
//! writers, in turn, in the same directory. `make bench-engines`.
mod beside;
mod cost;
mod engines;
mod load;
mod options;
mod point;
mod report;
mod screen;
mod summary;

use beside::Beside;
use cost::Device;
use engines::{Kind, RAW, Result, Shape};
use options::Options;
use point::{How, Point};
use redolith_disk::{Disk, RealDisk};
use report::About;
use screen::Screen;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The time for opening, counting and removing a database, for the first guess of the remaining
/// time.
const POINT_OVERHEAD: Duration = Duration::from_millis(700);

/// Every engine takes its turn, then the next turn begins. The raw device has one writer, so it
/// takes its turn with one writer of the others.
fn plan(o: &Options) -> Vec<(Shape, usize, &'static Kind)> {
    let mut all = Vec::new();
    for &value_bytes in &o.values {
        for &writers in &o.writers {
            for turn in 0..o.repeat {
                let fits = |k: &&&'static Kind| k.name != RAW || writers == 1;
                all.extend(
                    o.engines
                        .iter()
                        .filter(fits)
                        .map(|k| (Shape { value_bytes, writers }, turn, *k)),
                );
            }
        }
    }
    all
}

/// Measures [`Beside`] for each size of a value for which one writer was requested.
fn besides(o: &Options, how: How, dir: &Path) -> Result<Vec<Beside>> {
    let wanted = o.writers.contains(&1)
        && o.engines.iter().any(|k| k.name == RAW)
        && o.engines.iter().any(|k| k.name == engines::REDOLITH);
    let values = o.values.iter().filter(|_| wanted);
    values.flat_map(|v| (0..o.repeat).map(|_| beside::run(*v, how, dir))).collect()
}

fn bench(o: &Options) -> Result<bool> {
    let clock = RealDisk::new();
    let out = o.dir.join(format!("engines-{}", report::utc(clock.wall_us(), "")));
    std::fs::create_dir_all(&out)?;
    let device = Device::below(&out)?;
    let about = About::of(o, &device, &report::utc(clock.wall_us(), "-")[..10]);
    let (todo, how) = (plan(o), How { warm_up: o.warm_up, time: o.time, counters: o.counters });
    let mut screen = Screen::new();
    screen.head();
    let begun = clock.now();
    let mut points: Vec<Point> = Vec::new();
    for (i, (shape, turn, kind)) in todo.iter().enumerate() {
        let each = if i > 2 {
            (clock.now() - begun) / i as u32
        } else {
            how.warm_up + how.time + POINT_OVERHEAD
        };
        screen.begin(each * (todo.len() - i) as u32, *shape, kind.name);
        let point = point::run(kind, *shape, *turn, how, &out.join(kind.name), &device);
        let base = points
            .iter()
            .rev()
            .find(|p| p.engine == engines::REDOLITH && p.shape == *shape && p.turn == *turn);
        screen.end(&point, base);
        points.push(point);
        report::save(&out, &about, &points, &[])?;
    }
    screen.line("");
    let (beside, failed) = match besides(o, how, &out.join("beside")) {
        Ok(all) => (all, false),
        Err(e) => {
            screen.line(&format!("a commit beside the bare write: {e}"));
            (Vec::new(), true)
        }
    };
    report::save(&out, &about, &points, &beside)?;
    screen.line(&summary::targets(&points, &beside));
    screen.line(&format!("results: {}", out.display()));
    Ok(!failed && points.iter().all(|p| p.fault.is_none()))
}

fn main() -> ExitCode {
    let done = options::parse(std::env::args().skip(1)).and_then(|o| match o {
        Some(o) => bench(&o),
        None => {
            println!("{}", options::HELP.replace("{engines}", &options::names()));
            Ok(true)
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("not every point is valid: see the remarks");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

//! What one increment of each kind of counter costs: nanoseconds on one thread, and on all of them at once, where a line that threads share would show.
//!
//!     cargo run --release -p redolith-sql --example counting
//!
//! `bench/counting` multiplies these by the increments of a transaction.
use redolith_disk::{Disk, RealDisk};
use redolith_engine::buf::Sharded;
use redolith_engine::metrics::Histogram;
use redolith_sql::status::{Counter, Counters};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::Duration;

const ROUNDS: u64 = 20_000_000;

/// A line that only its thread adds to, with a locked instruction: the log's counts of waits.
#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

fn main() {
    let disk = RealDisk::new();
    let (status, sharded, histogram) = (Counters::default(), Sharded::default(), Histogram::default());
    let lines: Vec<Line> = (0..64).map(|_| Line::default()).collect();
    let threads = available_parallelism().map_or(1, |n| n.get());
    for n in [1, threads] {
        // The same work without counting is taken away.
        let empty = ns(&disk, n, &|_, i| _ = black_box(i));
        let kinds: [(&str, &(dyn Fn(usize, u64) + Sync)); 4] = [
            ("status", &|_, i| status.add(Counter::ComSelect, black_box(i) & 1)),
            ("sharded", &|_, i| sharded.add(black_box(i) & 1)),
            ("waits", &|t, i| _ = lines[t % 64].0.fetch_add(black_box(i) & 1, Relaxed)),
            ("histogram", &|_, i| histogram.record(Duration::from_micros(black_box(i) & 1023))),
        ];
        for (name, add) in kinds {
            println!("{name} {n} {:.2} ns", (ns(&disk, n, add) - empty).max(0.0));
        }
    }
}

/// Nanoseconds of one call, on `threads` threads at once; the best of three.
fn ns(disk: &RealDisk, threads: usize, add: &(dyn Fn(usize, u64) + Sync)) -> f64 {
    let once = || {
        let begun = disk.now();
        std::thread::scope(|s| {
            for t in 0..threads {
                s.spawn(move || (0..ROUNDS).for_each(|i| add(t, i)));
            }
        });
        (disk.now() - begun).as_secs_f64() * 1e9 / ROUNDS as f64
    };
    (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
}

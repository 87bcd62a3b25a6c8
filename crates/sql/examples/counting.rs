//! Measures the cost of one increment of each kind of counter: nanoseconds of CPU on one thread,
//! and on all threads at once, where a cache line shared by threads would show.
//!
//!     cargo run --release -p redolith-sql --example counting
//!
//! `bench/counting` multiplies these costs by the increments of a transaction.
use redolith_disk::{Disk, RealDisk};
use redolith_engine::metrics::Histogram;
use redolith_engine::testing::Sharded;
use redolith_sql::status::{Counter, Counters};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::Duration;

const ROUNDS: u64 = 5_000_000;

/// A cache line to which only one thread adds, with a locked instruction, like the log's counts of
/// waits.
#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

fn main() {
    let disk = RealDisk::new();
    let (status, sharded, histogram) =
        (Counters::default(), Sharded::default(), Histogram::default());
    let lines: Vec<Line> = (0..64).map(|_| Line::default()).collect();
    let threads = available_parallelism().map_or(1, |n| n.get());
    let each = |add: &dyn Fn(u64)| (0..ROUNDS).for_each(add);
    for n in [1, threads] {
        // The result includes the loop and the call, so it is more than the cost of an increment in
        // the server.
        let kinds: [(&str, &(dyn Fn(usize) + Sync)); 4] = [
            ("status", &|_| each(&|i| status.add(Counter::ComSelect, black_box(i) & 1))),
            ("sharded", &|_| each(&|i| sharded.add(black_box(i) & 1))),
            ("waits", &|t| {
                each(&|i| {
                    lines[t % 64].0.fetch_add(black_box(i) & 1, Relaxed);
                })
            }),
            ("histogram", &|_| {
                each(&|i| histogram.record(Duration::from_micros(black_box(i) & 1023)))
            }),
        ];
        for (name, work) in kinds {
            println!("{name} {n} {:.2} ns", ns(&disk, n, work));
        }
    }
}

/// The CPU nanoseconds of one increment on `threads` threads at once: the slowest thread in the
/// best of five runs.
fn ns(disk: &RealDisk, threads: usize, work: &(dyn Fn(usize) + Sync)) -> f64 {
    let thread = |t| {
        let begun = disk.thread_cpu();
        work(t);
        disk.thread_cpu() - begun
    };
    let once = || {
        std::thread::scope(|s| {
            let all: Vec<_> = (0..threads).map(|t| s.spawn(move || thread(t))).collect();
            all.into_iter().map(|h| h.join().unwrap().as_secs_f64()).fold(0.0, f64::max)
        })
    };
    (0..5).map(|_| once()).fold(f64::INFINITY, f64::min) * 1e9 / ROUNDS as f64
}

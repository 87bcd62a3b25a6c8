//! One load: writers that insert fresh keys, in one durable transaction each, until they are told
//! to stop; and their results.
use crate::engines::{Result, Shape};
use redolith_disk::{Disk, RealDisk};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::time::Duration;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;
/// Room for the latencies of one writer, so that measuring does not allocate at first.
const LATENCIES: usize = 1 << 16;

pub struct Load {
    pub shape: Shape,
    phase: AtomicU8,
    writers: AtomicU64,
    clock: RealDisk,
}
/// The results of writers: all commits, and the latencies of the commits that ended in the measured
/// time.
#[derive(Default)]
pub struct Tally {
    pub commits: u64,
    pub latencies_ns: Vec<u64>,
}
impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.commits += other.commits;
        self.latencies_ns.extend(other.latencies_ns);
    }
}

/// The course of one writer through the load. `begin` gives the key of the next transaction, until
/// it is time to stop; `end` is called after its commit.
pub struct Course<'l> {
    load: &'l Load,
    next: u64,
    begun: Duration,
    tally: Tally,
}
impl Course<'_> {
    pub fn begin(&mut self) -> Option<u64> {
        if self.load.phase.load(Relaxed) == STOP {
            return None;
        }
        self.begun = self.load.clock.now();
        Some(scattered(self.next))
    }
    pub fn end(&mut self) {
        self.next += 1;
        self.tally.commits += 1;
        if self.load.phase.load(Relaxed) == MEASURE {
            self.tally.latencies_ns.push((self.load.clock.now() - self.begun).as_nanos() as u64);
        }
    }
    pub fn tally(self) -> Tally {
        self.tally
    }
}

impl Load {
    pub fn new(shape: Shape) -> Load {
        Load {
            shape,
            phase: AtomicU8::new(WARM_UP),
            writers: AtomicU64::new(0),
            clock: RealDisk::new(),
        }
    }
    pub fn now(&self) -> Duration {
        self.clock.now()
    }
    pub fn measure(&self) {
        self.phase.compare_exchange(WARM_UP, MEASURE, Relaxed, Relaxed).ok();
    }
    pub fn stop(&self) {
        self.phase.store(STOP, Relaxed);
    }
    /// The course of one more writer, with keys that no other writer has.
    pub fn course(&self) -> Course<'_> {
        let writer = self.writers.fetch_add(1, Relaxed);
        let tally = Tally { commits: 0, latencies_ns: Vec::with_capacity(LATENCIES) };
        Course { load: self, next: writer << 40, begun: Duration::ZERO, tally }
    }
    /// A value that does not compress, the same for all rows.
    pub fn value(&self) -> Vec<u8> {
        (0..self.shape.value_bytes as u64).map(|i| scattered(i) as u8).collect()
    }
    /// Runs a thread for each writer. `writer` makes the function that inserts a row with a key and
    /// a value; the row is durable when the function returns.
    pub fn threads<W: FnMut(u64, &[u8]) -> Result<()>>(
        &self,
        writer: impl Fn() -> Result<W> + Sync,
    ) -> Result<Tally> {
        let run = || -> Result<Tally> {
            let (mut put, mut course, value) = (writer()?, self.course(), self.value());
            while let Some(key) = course.begin() {
                put(key, &value)?;
                course.end();
            }
            Ok(course.tally())
        };
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..self.shape.writers)
                .map(|_| s.spawn(|| run().inspect_err(|_| self.stop())))
                .collect();
            let mut all = Tally::default();
            for t in threads {
                all.add(t.join().map_err(|_| "a writer panicked")??);
            }
            Ok(all)
        })
    }
}

/// The latency in microseconds that the share `share` of `ns` does not exceed. 0 if `ns` is empty.
pub fn percentile(ns: &mut [u64], share: f64) -> f64 {
    ns.sort_unstable();
    ns.get(((ns.len() as f64 * share) as usize).min(ns.len().saturating_sub(1)))
        .map_or(0.0, |n| *n as f64 / 1e3)
}

/// A bijection (the finaliser of SplitMix64): different numbers become different keys, in no order.
pub fn scattered(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn no_key_comes_twice_and_all_are_counted() {
        let load = Load::new(Shape { value_bytes: 10, writers: 3 });
        let keys = Mutex::new(Vec::new());
        load.measure();
        let tally = load
            .threads(|| {
                Ok(|key, value: &[u8]| {
                    assert_eq!(value.len(), 10);
                    let mut keys = keys.lock().unwrap();
                    keys.push(key);
                    if keys.len() == 1000 {
                        load.stop();
                    }
                    Ok(())
                })
            })
            .unwrap();
        let keys = keys.into_inner().unwrap();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        assert_eq!(tally.commits, keys.len() as u64);
        assert!(tally.latencies_ns.len() as u64 >= 990, "all but the last of each are measured");
    }

    #[test]
    fn one_failure_ends_all() {
        let load = Load::new(Shape { value_bytes: 1, writers: 4 });
        let failed = load.threads(|| {
            Ok(|key, _: &[u8]| if key == scattered(7) { Err("seven".into()) } else { Ok(()) })
        });
        assert_eq!(failed.err().unwrap().to_string(), "seven");
        assert!(load.course().begin().is_none());
    }
}

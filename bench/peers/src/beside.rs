//! Measures one writer's commit and the bare durable write that it contains, in turn in one thread,
//! so that the device's changes from moment to moment affect both. (Separate points drift apart by
//! more than the difference that is measured here.)
use crate::engines::raw::Writer;
use crate::engines::redolith::Database;
use crate::engines::{Result, Shape};
use crate::load::{percentile, scattered};
use crate::point::How;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::runtime::{Threads, block_on};
use std::path::Path;
use std::sync::Arc;

/// Medians, in microseconds.
pub struct Beside {
    pub value_bytes: usize,
    /// One durable write of the device.
    pub device_us: f64,
    /// Inserting the row, before its commit.
    pub row_us: f64,
    /// From the call of commit until it is durable.
    pub commit_us: f64,
}

/// Measures in `dir`, which is created and removed.
pub fn run(value_bytes: usize, how: How, dir: &Path) -> Result<Beside> {
    std::fs::create_dir_all(dir)?;
    let done = measure(value_bytes, how, dir);
    let _ = std::fs::remove_dir_all(dir);
    done
}

fn measure(value_bytes: usize, how: How, dir: &Path) -> Result<Beside> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut device = Writer::create(dir)?;
    let database = Database::open(
        &dir.join("redolith"),
        Shape { value_bytes, writers: 1 },
        disk.clone(),
        Threads::new(disk.clone()),
    )?;
    let (mut session, value) = (database.session(), vec![7; value_bytes]);
    let begun = disk.now();
    let mut all: [Vec<u64>; 3] = Default::default();
    for n in 0.. {
        let mut at = disk.now();
        if at - begun > how.warm_up + how.time {
            break;
        }
        let mut took = [0; 3];
        let mut lap = |i: usize| {
            let now = disk.now();
            took[i] = (now - std::mem::replace(&mut at, now)).as_nanos() as u64;
        };
        device.put(n)?;
        lap(0);
        block_on(session.insert(scattered(n), &value))?;
        lap(1);
        block_on(session.commit())?;
        lap(2);
        if disk.now() - begun > how.warm_up {
            all.iter_mut().zip(took).for_each(|(all, ns)| all.push(ns));
        }
    }
    drop(session);
    database.close()?;
    let [device_us, row_us, commit_us] = all.map(|mut ns| percentile(&mut ns, 0.5));
    Ok(Beside { value_bytes, device_us, row_us, commit_us })
}

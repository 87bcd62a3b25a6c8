//! One run: some lives of an instance, each but the last ended by a power cut.
use crate::executor::{End, Executor, Rng};
use crate::load::{self, CLIENTS, Knowledge, Known};
use redolith_disk::{Disk, SimDisk};
use redolith_engine::{Config, Engine, Report, Result};
use std::ops::AddAssign;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a run met, so that a batch can tell whether it was worth it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    pub power_cuts: u64,
    pub cuts_in_recovery: u64,
    pub frames_recovered: u64,
    pub rolled_back: u64,
    pub mended: u64,
    pub splits: u64,
    pub merges: u64,
    pub segments_recycled: u64,
    pub purged: u64,
    pub transactions: u64,
}
impl AddAssign for Seen {
    fn add_assign(&mut self, o: Seen) {
        self.power_cuts += o.power_cuts;
        self.cuts_in_recovery += o.cuts_in_recovery;
        self.frames_recovered += o.frames_recovered;
        self.rolled_back += o.rolled_back;
        self.mended += o.mended;
        self.splits += o.splits;
        self.merges += o.merges;
        self.segments_recycled += o.segments_recycled;
        self.purged += o.purged;
        self.transactions += o.transactions;
    }
}
/// A run's end: what it met, and the hash of everything the disk was asked to do.
pub struct Ended {
    pub seen: Seen,
    pub trace: u64,
}

fn config() -> Config {
    let mut c = Config::new("/sim");
    // Small, so that everything is short of room: 64 frames, a log that wraps after some hundred transactions.
    c.pool_bytes = 64 * 16384;
    c.log_segment_bytes = 64 << 10;
    c.log_capacity_bytes = 1 << 20;
    c.log_buffer_bytes = 256 << 10;
    c
}

/// Runs a seed. Panics with what is wrong.
pub fn run(seed: u64) -> Ended {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(rng.draw());
    let known: Knowledge = Arc::new(Mutex::new((0..CLIENTS).map(|_| Known::default()).collect()));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let lives = 2 + rng.below(4);
    for life in 0..lives {
        let last = life + 1 == lives;
        if !last {
            // From the first operation of a start to the middle of a long load.
            let scale = 1 << (3 + rng.below(9));
            disk.crash_at_op(1 + rng.below(scale));
        }
        let opened = Arc::new(Mutex::new(false));
        let mut ex = Executor::new(disk.clone(), rng.draw());
        let main = live(disk.clone(), ex.host.clone(), rng.draw(), known.clone(), seen.clone(), opened.clone());
        let end = ex.run(Box::pin(async move {
            if let Err(e) = main.await {
                // An error because the power went is no error.
                panic!("the engine failed: {e}");
            }
        }));
        match end {
            End::Done if last => {}
            End::Done => {
                disk.power_off();
                disk.restart();
            }
            End::PowerOff => {
                assert!(!last, "the power went off by itself");
                let s = &mut seen.lock().expect("one thread");
                s.power_cuts += 1;
                s.cuts_in_recovery += !*opened.lock().expect("one thread") as u64;
                disk.restart();
            }
        }
    }
    let seen = *seen.lock().expect("one thread");
    Ended { seen, trace: disk.trace() }
}

async fn live(
    disk: SimDisk,
    host: Arc<crate::executor::SimHost>,
    seed: u64,
    known: Knowledge,
    seen: Arc<Mutex<Seen>>,
    opened: Arc<Mutex<bool>>,
) -> Result<()> {
    let mut rng = Rng(seed);
    let (e, report): (Arc<Engine>, Report) = Engine::open(config(), Arc::new(disk) as Arc<dyn Disk>, host).await?;
    assert!(report.bad_pages.is_empty(), "pages that recovery could not read: {:?}", report.bad_pages);
    *opened.lock().expect("one thread") = true;
    {
        let s = &mut seen.lock().expect("one thread");
        s.frames_recovered += report.frames;
        s.rolled_back += report.rolled_back;
        s.mended += report.mended.len() as u64;
    }
    let t = Arc::new(load::tables(&e).await?);
    load::verify(&e, &t, &known).await?;
    let running = Arc::new(Mutex::new(CLIENTS));
    let count = 5 + rng.below(60);
    for n in 0..CLIENTS {
        let (e2, t2, k2, r2, seed) = (e.clone(), t.clone(), known.clone(), running.clone(), rng.draw());
        e.host.spawn(
            "client",
            Box::pin(async move {
                if let Err(err) = load::client(e2, t2, n, Rng(seed), count, k2).await {
                    panic!("client {n}: {err}");
                }
                *r2.lock().expect("one thread") -= 1;
            }),
        );
    }
    while *running.lock().expect("one thread") > 0 {
        e.host.sleep(Duration::from_millis(1)).await;
    }
    load::verify(&e, &t, &known).await?;
    {
        let s = &mut seen.lock().expect("one thread");
        s.transactions += count * CLIENTS as u64;
        s.splits += e.store.shape.splits.load(std::sync::atomic::Ordering::Relaxed);
        s.merges += e.store.shape.merges.load(std::sync::atomic::Ordering::Relaxed);
        s.purged += e.history.purged.load(std::sync::atomic::Ordering::Relaxed);
        e.store.log.counters(|name, n| {
            if name == "log_segments_recycled" {
                s.segments_recycled += n;
            }
        });
    }
    if rng.chance(2) {
        e.close().await?;
    }
    Ok(())
}

//! One run: some lives of an instance, each but the last ended by a power cut, or by the engine itself when the disk failed it.
use crate::ddl::{self, Definitions};
use crate::executor::{End, Executor, Rng, SimHost};
use crate::load::{self, CLIENTS, Knowledge, Known, Shared};
use crate::trouble::{self, Trouble};
use redolith_disk::sim::{Damage, Fault, OpKind};
use redolith_disk::{Disk, SimDisk};
use redolith_engine::undo::truncate::Truncation;
use redolith_engine::{Config, Engine, Report, Result};
use std::ops::AddAssign;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

macro_rules! seen {
    ($($name:ident)*) => {
        /// What a run met, so that a batch can tell whether it was worth it.
        #[derive(Clone, Copy, Default, Debug)]
        pub struct Seen {
            $(pub $name: u64,)*
        }
        impl AddAssign for Seen {
            fn add_assign(&mut self, o: Seen) {
                $(self.$name += o.$name;)*
            }
        }
        impl Seen {
            pub fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}
seen! {
    power_cuts cuts_in_recovery frames_recovered rolled_back mended splits merges segments_recycled purged transactions
    statements files_removed conflicts failed_full failed_io rolled_back_later died kills failed_starts full_disks
    undo_files_cut purge_stops throttled overlapped
}
/// A run's end: what it met, and the hash of everything the disk was asked to do.
pub struct Ended {
    pub seen: Seen,
    pub trace: u64,
}

fn config(frames: u64) -> Config {
    let mut c = Config::new("/sim");
    // Small, so that everything is short of room; a log that wraps after some hundred transactions.
    c.pool_bytes = frames * 16384;
    c.log_segment_bytes = 64 << 10;
    c.log_capacity_bytes = 1 << 20;
    c.log_buffer_bytes = 256 << 10;
    c
}

/// What outlives the instance.
#[derive(Clone)]
struct World {
    disk: SimDisk,
    known: Knowledge,
    definitions: Definitions,
    seen: Arc<Mutex<Seen>>,
    sabotage: Option<Sabotage>,
}
impl World {
    fn clear_faults(&self) {
        self.disk.clear_faults();
        if let Some(s) = self.sabotage {
            self.disk.fail(Fault::new(s.kind, Damage::Lost).on(s.part_of_path).for_ever());
        }
    }
}
/// One life: what is planned for it.
#[derive(Clone)]
struct Life {
    trouble: Trouble,
    /// The power goes at one of so many operations after the start; at one of those of the start itself if `early`.
    cut: Option<u64>,
    early: bool,
    opened: Arc<AtomicBool>,
    /// What it does to undo files, to be counted also if the power goes.
    undo: Arc<Mutex<Option<Arc<Truncation>>>>,
}

/// Operations that are reported done and are not, from the first life to the last: for showing that the simulation finds that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sabotage {
    pub kind: OpKind,
    pub part_of_path: &'static str,
}

/// Runs a seed. Panics with what is wrong.
pub fn run(seed: u64) -> Ended {
    run_sabotaged(seed, None)
}
pub fn run_sabotaged(seed: u64, sabotage: Option<Sabotage>) -> Ended {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(rng.draw());
    let known = Arc::new(Mutex::new((0..CLIENTS).map(|_| Known::default()).collect()));
    let world = World { disk, known, definitions: Arc::default(), seen: Arc::default(), sabotage };
    world.clear_faults();
    let lives = 2 + rng.below(4);
    // One seed in three has power cuts only.
    let calm = rng.chance(3);
    for life in 0..lives {
        let last = life + 1 == lives;
        // From the first operation of a start to the middle of a long load.
        let cut = (!last).then(|| 1 << (3 + rng.below(9)));
        let trouble = if calm || last { Trouble::None } else { Trouble::draw(&mut rng) };
        let early = rng.chance(3);
        one_life(&world, &mut rng, Life { trouble, cut, early, opened: Arc::default(), undo: Arc::default() });
    }
    let seen = *world.seen.lock().expect("one thread");
    Ended { seen, trace: world.disk.trace() }
}

fn one_life(world: &World, rng: &mut Rng, life: Life) {
    let disk = &world.disk;
    if let Some(cut) = life.cut.filter(|_| life.early) {
        disk.crash_at_op(1 + rng.below(cut));
        life.trouble.begin(disk, rng, 30, true);
    }
    let mut ex = Executor::new(disk.clone(), rng.draw());
    let main = live(world.clone(), ex.host.clone(), rng.draw(), life.clone());
    let failed = Arc::new(AtomicBool::new(false));
    let (its, trouble) = (failed.clone(), life.trouble);
    let end = ex.run(Box::pin(async move {
        match main.await {
            Ok(()) => {}
            Err(e) if trouble.explains(&e) => its.store(true, SeqCst),
            // An error because the power went is no error: the executor sees to that.
            Err(e) => panic!("the engine failed: {e} (trouble: {trouble:?})"),
        }
    }));
    let opened = life.opened.load(SeqCst);
    let s = &mut world.seen.lock().expect("one thread");
    s.undo_files_cut += life.undo.lock().expect("one thread").as_ref().map_or(0, |t| t.count.load(Relaxed));
    s.failed_starts += failed.load(SeqCst) as u64;
    match end {
        End::Done => {
            if life.cut.is_none() {
                return;
            }
            disk.power_off();
        }
        End::PowerOff => {
            assert!(life.cut.is_some(), "the power went off by itself");
            s.power_cuts += 1;
            s.cuts_in_recovery += !opened as u64;
        }
        End::Died(why) => {
            assert!(life.trouble.kills() && disk.faults_fired() > 0, "the process ended by itself: {why} (trouble: {:?})", life.trouble);
            s.died += 1;
            disk.power_off();
        }
    }
    // After a failed sync the cache pretends to have what the disk has not, and no later sync would tell.
    let pretends = life.trouble.kills() && disk.faults_fired() > 0;
    world.clear_faults();
    disk.set_capacity(None);
    if pretends || !rng.chance(4) {
        disk.restart();
    } else {
        // The process alone has ended: what it wrote and did not sync is there, until the power goes some other time.
        disk.kill();
        s.kills += 1;
    }
}

async fn live(w: World, host: Arc<SimHost>, seed: u64, life: Life) -> Result<()> {
    let mut rng = Rng(seed);
    let disk = &w.disk;
    let (e, report): (Arc<Engine>, Report) =
        Engine::open(config(if rng.chance(2) { 64 } else { 40 }), Arc::new(disk.clone()) as Arc<dyn Disk>, host.clone()).await?;
    assert!(report.bad_pages.is_empty(), "pages that recovery could not read: {:?} (trouble: {:?})", report.bad_pages, life.trouble);
    life.opened.store(true, SeqCst);
    // Undo files are made short all the time, or never; they wait for checkpoints.
    if rng.chance(2) {
        e.flush_settings.checkpoint_interval_ms.set(5);
    }
    *life.undo.lock().expect("one thread") = Some(e.undo.truncation.clone());
    e.store.log.set_flush_depth(rng.below(5) as usize);
    e.undo.truncation.set_max_bytes(if rng.chance(3) { u64::MAX } else { 0 });
    {
        let s = &mut w.seen.lock().expect("one thread");
        s.frames_recovered += report.frames;
        s.rolled_back += report.rolled_back;
        s.mended += report.mended.len() as u64;
        s.files_removed += report.removed_files.len() as u64;
    }
    let t = Arc::new(load::tables(&e).await?);
    settle(&e).await;
    if life.trouble == Trouble::Reads {
        // Those in the start were that; a check would report the others.
        w.clear_faults();
    }
    load::verify(&e, &t, &w.known).await?;
    ddl::verify(&e, disk, &w.definitions).await?;
    if let Some(cut) = life.cut.filter(|_| !life.early) {
        disk.crash_at_op(1 + rng.below(cut));
        life.trouble.begin(disk, &mut rng, 1 + cut / 4, false);
    }
    let has_room = Arc::new(AtomicBool::new(life.trouble != Trouble::Full));
    if life.trouble == Trouble::Full {
        w.seen.lock().expect("one thread").full_disks += 1;
        e.host.spawn("filler", Box::pin(trouble::fill(disk.clone(), host, Rng(rng.draw()), has_room.clone())));
    }
    let running = Arc::new(Mutex::new(CLIENTS + 1));
    let count = 5 + rng.below(60);
    let shared = Shared { known: w.known.clone(), trouble: life.trouble, seen: w.seen.clone() };
    let ended = |name: String, client: redolith_engine::host::BoxFuture<Result<()>>| {
        let running = running.clone();
        e.host.spawn(
            "client",
            Box::pin(async move {
                if let Err(err) = client.await {
                    panic!("{name}: {err}");
                }
                *running.lock().expect("one thread") -= 1;
            }),
        );
    };
    for n in 0..CLIENTS {
        ended(format!("client {n}"), Box::pin(load::client(e.clone(), t.clone(), n, Rng(rng.draw()), count, shared.clone())));
    }
    ended("definitions".into(), Box::pin(ddl::client(e.clone(), Rng(rng.draw()), count / 2, shared.clone(), w.definitions.clone())));
    while *running.lock().expect("one thread") > 0 || !has_room.load(SeqCst) {
        e.host.sleep(Duration::from_millis(1)).await;
    }
    // The disk has room and reads well again: everything goes on, and nothing is owed.
    w.clear_faults();
    settle(&e).await;
    load::serves(&e, &t).await?;
    load::verify(&e, &t, &w.known).await?;
    ddl::verify(&e, disk, &w.definitions).await?;
    {
        let s = &mut w.seen.lock().expect("one thread");
        s.transactions += count * CLIENTS as u64;
        s.splits += e.store.shape.splits.load(std::sync::atomic::Ordering::Relaxed);
        s.merges += e.store.shape.merges.load(std::sync::atomic::Ordering::Relaxed);
        s.purged += e.history.purged.load(std::sync::atomic::Ordering::Relaxed);
        e.store.log.counters(|name, n| s.overlapped += if name == "log_writes_overlapped" { n } else { 0 });
        s.purge_stops += e.history.counts.stops.load(std::sync::atomic::Ordering::Relaxed);
        e.store.log.counters(|name, n| match name {
            "log_segments_recycled" => s.segments_recycled += n,
            "log_throttle_waits" => s.throttled += n,
            _ => {}
        });
    }
    if rng.chance(2) {
        e.close().await?;
    }
    Ok(())
}
/// Waits for rollbacks in the background.
async fn settle(e: &Arc<Engine>) {
    while e.background_rollbacks() > 0 {
        e.host.sleep(Duration::from_millis(5)).await;
    }
}

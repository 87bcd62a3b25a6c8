//! One run: several lives of an instance. Each life but the last ends by a power cut, or the engine
//! ends itself when the disk fails.
use crate::at_rest;
use crate::binlog::{self, Visible};
use crate::ddl::{self, Definitions};
use crate::executor::{End, Executor, Rng, SimRuntime};
use crate::fault_plan::{self, FaultPlan};
use crate::load::{self, CLIENTS, Knowledge, Known, Shared};
use crate::prepared;
use crate::resize;
use crate::shared::{self, SharedLedger};
use crate::stages::{self, Stages};
use redolith_disk::sim::{Damage, Fault, OpKind};
use redolith_disk::{Disk, Loss, SimDisk};
use redolith_engine::PageId;
use redolith_engine::testing::buf::Latch;
use redolith_engine::testing::space::bitmap;
use redolith_engine::testing::undo::{self, Truncation};
use redolith_engine::{Config, DoublewriteConfig, DoublewriteMode, Engine, Error, Report, Result};
use redolith_replication::Binlog;
use std::ops::AddAssign;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

macro_rules! seen {
    ($($name:ident)*) => {
        /// Counts of the events of a run. They show whether a batch of runs has tested what it
        /// should.
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
    power_cuts cuts_in_recovery frames_recovered rolled_back repaired splits merges
    segments_recycled purged transactions statements files_removed conflicts failed_full failed_io
    rolled_back_later
    died kills failed_starts full_disks
    undo_files_cut purge_stops throttled overlapped
    several_instances four_levels second_bitmaps long_log_writes
    no_doublewrite atomic_writes legacy_doublewrite rebuilt
    read_uncommitted read_committed repeatable_read serializable
    inserts_met unique_conflicts deadlocks auto_increments hidden_keys batched_rows
    log_read_errors
    flips_tables flips_undo flips_system flips_doublewrite flips_log flips_control flips_register
    binlog_transactions binlog_rotations binlog_spills binlog_resets prepared prepared_found
    binlog_groups binlog_shared_syncs binlog_ordered_commits binlog_synced_commits
    resizes pages_moved
    flips_refused flips_reported flips_harmless flips_took_the_tail
}
/// The end of a run: the counts, and a hash of all operations of the disk.
pub struct Ended {
    pub seen: Seen,
    pub trace: u64,
}

/// The properties of a seed's instances, the same in all lives.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// All clients also work on shared rows.
    pub shared: bool,
    /// One tree has four levels.
    pub deep: bool,
    /// The file of the rows has pages behind the range of the first bitmap.
    pub wide: bool,
    /// Texts are long and the redo log is large, so that the log is written in long pieces.
    pub bulk: bool,
    /// The disk does not tear pages, and pages are protected by copies, atomic writes or nothing.
    pub atomic: bool,
    /// In most lives only the redo log protects pages against tearing.
    pub redo: bool,
    pub instances: usize,
    /// The engine has a binary log.
    pub binlog: bool,
    /// Some transactions are prepared before they commit.
    pub prepares: bool,
    /// The buffer pool's size changes all the time.
    pub resizes: bool,
}
impl Kind {
    pub const PLAIN: Kind = Kind {
        shared: false,
        deep: false,
        wide: false,
        bulk: false,
        atomic: false,
        redo: false,
        instances: 1,
        binlog: false,
        prepares: false,
        resizes: false,
    };
    /// The properties of the instances of `run_sabotaged(seed)`.
    pub fn of(seed: u64) -> Kind {
        first_draws(&mut Rng(seed), seed).1
    }
    fn draw(rng: &mut Rng, seed: u64) -> Kind {
        let mut kind = Kind::draw_any(rng, seed);
        if let Some(mode) = wanted_protection() {
            kind.redo = mode == DoublewriteMode::Redo;
            kind.atomic |= matches!(
                mode,
                DoublewriteMode::Off | DoublewriteMode::DetectOnly | DoublewriteMode::Atomic
            );
        }
        kind
    }
    fn draw_any(rng: &mut Rng, seed: u64) -> Kind {
        let shared = rng.chance(2);
        Kind {
            shared,
            deep: shared && rng.chance(6),
            wide: rng.chance(8),
            bulk: rng.chance(16),
            atomic: rng.chance(8),
            redo: Rng(seed ^ 0x7_04_4e).chance(3),
            instances: if rng.chance(6) { 2 + rng.below(2) as usize } else { 1 },
            // Drawn apart, so that the other properties of a seed stay as they were.
            binlog: Rng(seed ^ 0xb1_70_06).chance(3),
            prepares: Rng(seed ^ 0x2_9c).chance(3),
            resizes: Rng(seed ^ 0x512e).chance(4),
        }
    }
    pub fn config(&self, rng: &mut Rng) -> Config {
        let mut c = Config::new("/sim");
        // The sizes are small, so that every resource is scarce. The log wraps after some hundred
        // transactions.
        let frames = if rng.chance(2) { 64 } else { 40 };
        c.pool_instances = self.instances;
        c.log_segment_bytes = 64 << 10;
        c.log_capacity_bytes = 1 << 20;
        c.log_buffer_bytes = 256 << 10;
        c.pool_bytes = (frames * self.instances as u64) * 16384;
        if self.instances > 1 {
            // An instance has at least 64 frames.
            c.pool_bytes = (64 * self.instances as u64 + rng.below(40)) * 16384;
        }
        if self.bulk {
            c.pool_bytes = 512 * 16384;
            c.log_segment_bytes = 4 << 20;
            c.log_capacity_bytes = 32 << 20;
            c.log_buffer_bytes = 8 << 20;
        }
        if self.resizes {
            c.pool_max_bytes = 4 * c.pool_bytes.max(64 * 16384);
        }
        let protected = !self.atomic || rng.chance(3);
        // Drawn apart, so that the rest of a life stays as it was.
        c.doublewrite = self.protection(&mut Rng(rng.0 ^ 0x70_72), protected);
        // All purge tasks work, even if there is little to purge.
        c.purge_logs_per_task = 0;
        c
    }
}

impl Kind {
    /// How the pages of a life are protected against tearing, if they have to be.
    fn protection(&self, rng: &mut Rng, protected: bool) -> DoublewriteConfig {
        let mut modes = match protected {
            true => vec![
                DoublewriteMode::On,
                DoublewriteMode::DetectAndRecover,
                DoublewriteMode::Legacy,
            ],
            false => vec![DoublewriteMode::Off, DoublewriteMode::DetectOnly],
        };
        if self.atomic {
            modes.extend([DoublewriteMode::Atomic; 3]);
        }
        if self.redo {
            modes.extend([DoublewriteMode::Redo; 6]);
        }
        let mode = modes[rng.below(modes.len() as u64) as usize];
        DoublewriteConfig {
            mode: wanted_protection().unwrap_or(mode),
            dir: None,
            files: 1 + rng.below(3) as usize,
            pages: if rng.chance(3) { 1 + rng.below(30) as usize } else { 128 },
        }
    }
}

/// `PROTECTION=redo` gives this way to protect pages to all lives of all seeds.
pub fn wanted_protection() -> Option<DoublewriteMode> {
    static WANTED: LazyLock<Option<DoublewriteMode>> = LazyLock::new(|| {
        let name = std::env::var("PROTECTION").ok()?;
        Some(match name.as_str() {
            "off" => DoublewriteMode::Off,
            "on" => DoublewriteMode::On,
            "detect_only" => DoublewriteMode::DetectOnly,
            "detect_and_recover" => DoublewriteMode::DetectAndRecover,
            "atomic" => DoublewriteMode::Atomic,
            "legacy" => DoublewriteMode::Legacy,
            "redo" => DoublewriteMode::Redo,
            _ => panic!("PROTECTION={name} is no mode of innodb_doublewrite, in small letters"),
        })
    });
    *WANTED
}

/// The state that outlives an instance.
#[derive(Clone)]
pub struct World {
    pub disk: SimDisk,
    pub known: Knowledge,
    pub definitions: Definitions,
    pub ledger: SharedLedger,
    /// What readers have seen of the binary log.
    pub visible: Visible,
    pub kind: Kind,
    pub seen: Arc<Mutex<Seen>>,
    sabotage: Option<Sabotage>,
    /// The writes that a power cut loses. `None`: drawn at random.
    loss: Arc<Mutex<Option<Loss>>>,
}
impl World {
    pub fn new(disk: SimDisk, kind: Kind, sabotage: Option<Sabotage>) -> World {
        if kind.atomic {
            disk.set_atomic_pages();
        }
        let known = Arc::new(Mutex::new((0..CLIENTS).map(|_| Known::default()).collect()));
        let (definitions, ledger, visible, seen, loss) = Default::default();
        let world = World { disk, known, definitions, ledger, visible, kind, seen, sabotage, loss };
        world.clear_faults();
        world
    }
    /// Opens an engine on a disk, with a binary log if the run has one.
    pub async fn open(
        &self,
        config: Config,
        disk: Arc<dyn Disk>,
        runtime: Arc<SimRuntime>,
    ) -> Result<(Arc<Engine>, Report, Option<Arc<Binlog>>)> {
        if !self.kind.binlog {
            let (e, report) = Engine::open(config, disk, runtime).await?;
            return Ok((e, report, None));
        }
        let binlog = binlog::open(&disk).map_err(|e| Error::io("reading the index", &e))?;
        let (e, report) = Engine::open_with(config, disk, runtime, binlog.clone()).await?;
        Ok((e, report, Some(binlog)))
    }
    /// Sets what a power cut loses from now on.
    pub fn set_loss(&self, loss: Option<Loss>) {
        *self.loss.lock().expect("one thread") = loss;
    }
    /// A copy with its own ledgers, for a test that starts on a copy of the disk. A complaint is a
    /// panic and may come while a ledger is locked; the ledger still says what was written.
    pub fn copy(&self) -> World {
        fn own<T: Clone>(ledger: &Mutex<T>) -> Arc<Mutex<T>> {
            let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::new(Mutex::new(ledger.clone()))
        }
        World {
            known: own(&self.known),
            definitions: own(&self.definitions),
            ledger: own(&self.ledger),
            ..self.clone()
        }
    }
    fn clear_faults(&self) {
        self.disk.clear_faults();
        if let Some(s) = self.sabotage {
            self.disk.fail(Fault::new(s.kind, Damage::Lost).on(s.part_of_path).for_ever());
        }
    }
}
/// The plan of one life.
#[derive(Clone)]
pub struct Life {
    pub plan: FaultPlan,
    /// The number of transactions of each client. `None`: drawn at random.
    pub count: Option<u64>,
    /// The power goes at one of the first `cut` operations after the start. With `early` it goes at
    /// one of the first `cut` operations of the start itself.
    pub cut: Option<u64>,
    pub early: bool,
    pub opened: Arc<AtomicBool>,
    /// The truncation of undo files, kept here so that it is counted even if the power goes.
    pub undo: Arc<Mutex<Option<Arc<Truncation>>>>,
}

impl Life {
    pub fn new(plan: FaultPlan, cut: Option<u64>, early: bool) -> Life {
        Life { plan, count: None, cut, early, opened: Arc::default(), undo: Arc::default() }
    }
}

/// Operations that are reported done but are left out, from the first life to the last. A test uses
/// them to show that the simulation finds such a bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sabotage {
    pub kind: OpKind,
    pub part_of_path: &'static str,
}

/// What a run draws first: the seed of its disk, and the kind of its instances.
fn first_draws(rng: &mut Rng, seed: u64) -> (u64, Kind) {
    (rng.draw(), Kind::draw(rng, seed))
}

/// Runs a seed. Panics with a message if something is wrong.
pub fn run(seed: u64) -> Ended {
    run_sabotaged(seed, None)
}
pub fn run_sabotaged(seed: u64, sabotage: Option<Sabotage>) -> Ended {
    let mut rng = Rng(seed);
    let (of_disk, kind) = first_draws(&mut rng, seed);
    let world = World::new(SimDisk::new(of_disk), kind, sabotage);
    let lives = 2 + rng.below(4);
    // One seed in three has power cuts and no other faults.
    let calm = rng.chance(3);
    for life in 0..lives {
        let last = life + 1 == lives;
        // The range reaches from the first operations of a start to the middle of a long load.
        let cut = (!last).then(|| 1 << (3 + rng.below(9)));
        let plan = if calm || last { FaultPlan::None } else { FaultPlan::draw(&mut rng) };
        let early = rng.chance(3);
        one_life(&world, &mut rng, Life::new(plan, cut, early));
        if !last && sabotage.is_none() && rng.chance(5) {
            at_rest::flip(&world, &mut rng);
        }
    }
    let mut seen = *world.seen.lock().expect("one thread");
    seen.long_log_writes += (world.disk.longest_durable_write() >= 1 << 20) as u64;
    Ended { seen, trace: world.disk.trace() }
}

pub fn one_life(world: &World, rng: &mut Rng, life: Life) {
    let disk = &world.disk;
    let fired = disk.faults_fired();
    if let Some(cut) = life.cut.filter(|_| life.early) {
        disk.crash_at_op(1 + rng.below(cut));
        life.plan.begin(disk, rng, 30, true);
    }
    let mut ex = Executor::new(disk.clone(), rng.draw());
    let main = live(world.clone(), ex.runtime.clone(), rng.draw(), life.clone());
    let failed = Arc::new(AtomicBool::new(false));
    let (its, plan) = (failed.clone(), life.plan);
    let end = ex.run(Box::pin(async move {
        match main.await {
            Ok(()) => {}
            Err(e) if plan.explains(&e) => its.store(true, SeqCst),
            // If a power cut caused the error, the executor turns this panic into `End::PowerOff`.
            Err(e) => panic!("the engine failed: {e} (fault plan: {plan:?})"),
        }
    }));
    let opened = life.opened.load(SeqCst);
    let s = &mut world.seen.lock().expect("one thread");
    s.undo_files_cut +=
        life.undo.lock().expect("one thread").as_ref().map_or(0, |t| t.count.load(Relaxed));
    if life.plan == FaultPlan::LogReads {
        s.log_read_errors += disk.faults_fired() - fired;
    }
    s.failed_starts += failed.load(SeqCst) as u64;
    match end {
        End::Done => {
            if life.cut.is_none() {
                disk.kill();
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
            assert!(
                life.plan.kills() && disk.faults_fired() > 0,
                "the process ended by itself: {why} (fault plan: {:?})",
                life.plan
            );
            s.died += 1;
            disk.power_off();
        }
    }
    // After a failed sync the page cache claims to have written what the disk does not have, and no
    // later sync would report it.
    let pretends = life.plan.kills() && disk.faults_fired() > 0;
    world.clear_faults();
    disk.set_capacity(None);
    let loss = *world.loss.lock().expect("one thread");
    if let Some(loss) = loss {
        disk.restart_with(loss);
    } else if pretends || !rng.chance(4) {
        disk.restart();
    } else {
        // Only the process has ended. Its unsynced writes stay until a later power cut.
        disk.kill();
        s.kills += 1;
    }
}

pub async fn live(w: World, runtime: Arc<SimRuntime>, seed: u64, life: Life) -> Result<()> {
    let mut rng = Rng(seed);
    let disk = &w.disk;
    let config = w.kind.config(&mut rng);
    let (e, report, binlog) =
        w.open(config, Arc::new(disk.clone()) as Arc<dyn Disk>, runtime.clone()).await?;
    assert!(
        report.bad_pages.is_empty(),
        "pages that recovery could not read: {:?} (fault plan: {:?})",
        report.bad_pages,
        life.plan
    );
    life.opened.store(true, SeqCst);
    // Undo files are truncated all the time, or never. Truncation waits for checkpoints, so these
    // are frequent.
    if rng.chance(2) {
        e.flush_settings.checkpoint_interval_ms.set(5);
    }
    *life.undo.lock().expect("one thread") = Some(e.undo.truncation.clone());
    let depth = load::some_depth(&mut rng);
    e.store.log.set_policy(|policy| policy.depth = depth);
    e.undo.truncation.set_max_bytes(if rng.chance(3) { u64::MAX } else { 0 });
    {
        let s = &mut w.seen.lock().expect("one thread");
        s.frames_recovered += report.frames;
        s.rolled_back += report.rolled_back;
        let rebuilt = report.repaired.iter().filter(|r| r.copy.is_none()).count() as u64;
        s.rebuilt += rebuilt;
        s.repaired += report.repaired.len() as u64 - rebuilt;
        s.files_removed += report.removed_files.len() as u64;
    }
    let t = Arc::new(load::tables(&e).await?);
    let shared_tables =
        if w.kind.shared { Some(Arc::new(shared::tables(&e, w.kind.deep).await?)) } else { None };
    settle(&e).await;
    if life.plan == FaultPlan::Reads {
        // Faults of reads occur during the start only, because the check below would report later
        // ones.
        w.clear_faults();
    }
    let in_doubt = prepared::found(&e, &t, &w.known, &w.seen).await?;
    load::verify(&e, &t, &w.known).await?;
    if let Some(binlog) = &binlog {
        binlog::verify(&*e.disk, binlog, &w.known, &w.visible, &w.seen);
        binlog.start(&e, binlog::options(&mut rng)).await?;
    }
    ddl::verify(&e, disk, &w.definitions).await?;
    // Drawn apart, so that the rest of a life stays as it was.
    let mut apart = Rng(seed ^ 0x57_a6e5);
    let stages = binlog.as_ref().map(|log| Arc::new(Stages::draw(disk, log, &mut apart)));
    let shared = Shared {
        known: w.known.clone(),
        plan: life.plan,
        seen: w.seen.clone(),
        bulk: w.kind.bulk,
        wide: w.kind.wide,
        binlog: binlog.clone(),
        visible: w.visible.clone(),
        stages,
        prepares: w.kind.prepares,
    };
    prepared::decide(in_doubt, &mut rng, &shared).await?;
    if let Some(t) = &shared_tables {
        shared::verify(&e, t, &w.ledger).await?;
        if w.kind.deep {
            shared::fill(&e, t, &shared, &w.ledger).await?;
        }
    }
    if w.kind.wide {
        widen(&e, &t).await?;
    }
    if let Some(cut) = life.cut.filter(|_| !life.early) {
        disk.crash_at_op(1 + rng.below(cut));
        life.plan.begin(disk, &mut rng, 1 + cut / 4, false);
    }
    let has_room = Arc::new(AtomicBool::new(life.plan != FaultPlan::Full));
    if life.plan == FaultPlan::Full {
        w.seen.lock().expect("one thread").full_disks += 1;
        e.runtime.spawn(
            "filler",
            Box::pin(fault_plan::fill(disk.clone(), runtime, Rng(rng.draw()), has_room.clone())),
        );
    }
    let running = Arc::new(Mutex::new(CLIENTS + 1));
    if w.kind.resizes {
        let client = resize::client(e.clone(), Rng(apart.draw()), running.clone());
        e.runtime.spawn("resizer", Box::pin(client));
    }
    let drawn = 5 + rng.below(60);
    let count = life.count.unwrap_or(drawn);
    let ended = |name: String, client: redolith_engine::runtime::BoxFuture<Result<()>>| {
        let running = running.clone();
        e.runtime.spawn(
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
        ended(
            format!("client {n}"),
            Box::pin(load::client(e.clone(), t.clone(), n, Rng(rng.draw()), count, shared.clone())),
        );
    }
    if let Some(t) = &shared_tables {
        *running.lock().expect("one thread") += shared::CLIENTS;
        for n in 0..shared::CLIENTS {
            let rng = Rng(rng.draw());
            ended(
                format!("sharer {n}"),
                Box::pin(shared::client(
                    e.clone(),
                    t.clone(),
                    rng,
                    count,
                    shared.clone(),
                    w.ledger.clone(),
                )),
            );
        }
    }
    ended(
        "definitions".into(),
        Box::pin(ddl::client(
            e.clone(),
            Rng(rng.draw()),
            count / 2,
            shared.clone(),
            w.definitions.clone(),
        )),
    );
    while *running.lock().expect("one thread") > 0 || !has_room.load(SeqCst) {
        e.runtime.sleep(Duration::from_millis(1)).await;
    }
    // The disk has room and reads without errors again: the engine must work, with no rollback left
    // to do.
    w.clear_faults();
    settle(&e).await;
    resize::reached(&e).await;
    load::serves(&e, &t).await?;
    load::verify(&e, &t, &w.known).await?;
    if let Some(binlog) = &binlog {
        stages::count(binlog, &shared);
        binlog.catch_up(e.store.log.durable()).await;
        binlog::verify(&*e.disk, binlog, &w.known, &w.visible, &w.seen);
    }
    ddl::verify(&e, disk, &w.definitions).await?;
    let mut levels = 0;
    if let Some(t) = &shared_tables {
        shared::verify(&e, t, &w.ledger).await?;
        levels = t.levels(&e).await?;
    }
    let behind = if w.kind.wide { pages_behind_the_first_bitmap(&e, &t).await? } else { 0 };
    {
        let s = &mut w.seen.lock().expect("one thread");
        s.transactions +=
            count * (CLIENTS + if w.kind.shared { shared::CLIENTS } else { 0 }) as u64;
        s.four_levels += (levels >= 4) as u64;
        s.several_instances += (w.kind.instances > 1) as u64;
        let mode = e.config.doublewrite.mode;
        s.no_doublewrite +=
            matches!(mode, DoublewriteMode::Off | DoublewriteMode::DetectOnly) as u64;
        s.legacy_doublewrite += (mode == DoublewriteMode::Legacy) as u64;
        s.atomic_writes += e.store.pool.counters.pages_written_atomically.get();
        s.second_bitmaps += (behind > 0) as u64;
        s.resizes += w.kind.resizes as u64;
        s.pages_moved += e.store.pool.counters.pages_moved.get();
        s.splits += e.store.shape.splits.load(std::sync::atomic::Ordering::Relaxed);
        s.merges += e.store.shape.merges.load(std::sync::atomic::Ordering::Relaxed);
        s.purged += e.history.purged.load(std::sync::atomic::Ordering::Relaxed);
        e.store.log.counters(|name, n| {
            s.overlapped += if name == "log_writes_overlapped" { n } else { 0 }
        });
        s.purge_stops += e.history.counts.stops.load(std::sync::atomic::Ordering::Relaxed);
        e.store.log.counters(|name, n| match name {
            "log_segments_recycled" => s.segments_recycled += n,
            "log_throttle_waits" => s.throttled += n,
            _ => {}
        });
    }
    let closes = rng.chance(2);
    if let Some(binlog) = &binlog
        && (closes || apart.chance(3))
    {
        binlog.stop(&e).await?;
    }
    if closes {
        e.close().await?;
    } else {
        // Checkpoints may be written meanwhile, also behind the end of the binary log.
        e.runtime.sleep(Duration::from_millis(apart.below(30))).await;
    }
    Ok(())
}
/// Makes the file of the rows so long that it has several bitmap pages, and lets the next pages be
/// allocated behind the first bitmap's range.
async fn widen(e: &Arc<Engine>, t: &load::Tables) -> Result<()> {
    let space = t.rows.space;
    e.store.spaces.ensure(space, bitmap::PAGES + 200)?;
    e.store.spaces.get(space).expect("just made longer").search_from(bitmap::PAGES + 2);
    Ok(())
}
async fn pages_behind_the_first_bitmap(e: &Arc<Engine>, t: &load::Tables) -> Result<u32> {
    let map = PageId { space: t.rows.space, no: bitmap::PAGES + 1 };
    e.store.pool.load(map).await?;
    // Two of the pages in use are the bitmap and the page before it.
    Ok(e.store.pool.fix(map, Latch::S).map_or(0, |p| bitmap::count(&p).saturating_sub(2)))
}
/// Waits until all background rollbacks are done.
async fn settle(e: &Arc<Engine>) {
    while undo::background_rollbacks(e) > 0 {
        e.runtime.sleep(Duration::from_millis(5)).await;
    }
}

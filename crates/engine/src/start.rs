//! How an engine starts on its directory, and how it stops.
use crate::buf::BufferPool;
use crate::buf::event::{Event, either};
use crate::canary::{Canary, planted};
use crate::checkpoint::CheckpointSource;
use crate::dict::record::{self, Named};
use crate::dict::{self, Dictionary};
use crate::engine::{Config, Engine};
use crate::flush::{self, Doublewrite, DoublewriteMode, FlushSettings, Flusher};
use crate::host::Host;
use crate::lock::{KillFlag, LockTable};
use crate::log::Log;
use crate::mtr::{Mtr, Store};
use crate::page::{self, Patch, index, kind};
use crate::purge::{self, History};
use crate::recovery::{Report, apply, undo_scan};
use crate::row::cursor::{Cursor, Read};
use crate::space::{Fresh, Spaces};
use crate::trx::{Isolation, Trx, sys};
use crate::undo::{UndoPages, record as undo_record, truncate};
use crate::{Error, Lsn, PAGE_SIZE, Result, SpaceId, TrxId};
use parking_lot::{Mutex, RwLock};
use redolith_disk::Disk;
use redolith_types::Collation;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

const DOUBLEWRITE_FILE: &str = "doublewrite.rdl";
/// Segments of the doublewrite file, of 128 pages each.
const DOUBLEWRITE_SEGMENTS: usize = 8;
const CLEANERS: usize = 2;
/// How often counters that moved are put into the dictionary.
const COUNTERS_EVERY: Duration = Duration::from_secs(1);

struct NoLimit;
impl CheckpointSource for NoLimit {
    fn payload(&self, _: Lsn) -> Vec<u8> {
        Vec::new()
    }
}
impl Engine {
    /// Opens the directory, or makes a new instance in it when it is empty. Says what that took.
    pub async fn open(config: Config, disk: Arc<dyn Disk>, host: Arc<dyn Host>) -> Result<(Arc<Engine>, Report)> {
        let begun = disk.now();
        let dir = config.dir.clone();
        let fail = |e: std::io::Error| Error::io(dir.display(), &e);
        disk.create_dir_all(&dir).map_err(fail)?;
        let dir_lock = disk.lock_dir(&dir).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse(dir.display().to_string()),
            _ => fail(e),
        })?;
        let mut report = Report::default();
        let spaces = Arc::new(Spaces::new(disk.clone(), &dir));
        disk.create_dir_all(&spaces.tables_dir()).map_err(fail)?;
        let pool = BufferPool::new(&config.buf(), spaces.clone(), disk.clone())?;
        let mode = if config.doublewrite { DoublewriteMode::On } else { DoublewriteMode::Off };
        let (log, dblwr) = if Log::exists(&*disk, &config.log()) {
            recover(&config, mode, &disk, &host, &spaces, &pool, &mut report).await?
        } else {
            create(&config, mode, &disk, &host, &spaces, &mut report)?
        };
        let settings = Arc::new(FlushSettings::default());
        settings.io_capacity.set(config.io_capacity);
        settings.io_capacity_max.set(config.io_capacity_max);
        let flusher =
            Flusher::start(pool.clone(), log.clone(), dblwr, disk.clone(), host.clone(), settings.clone(), Arc::new(NoLimit), CLEANERS);
        let store = Store { log, pool, spaces, shape: Default::default() };
        let (next, mark) = first_ids(&store).await?;
        let sys = sys::TrxSys::new(next, mark);
        let dict = Dictionary::default();
        let dict_table = record::dictionary_table(&dict);
        dict.put_table(dict_table.clone());
        let clock = disk.clone();
        let engine = Arc::new(Engine {
            horizon: RwLock::new(sys.new_view()),
            locks: LockTable::new(move || clock.now()),
            undo: UndoPages::default(),
            history: History::default(),
            counts: Default::default(),
            closing: AtomicBool::new(false),
            dir_lock: Mutex::new(Some(dir_lock)),
            rollbacks: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            close_step: Event::default(),
            config,
            disk,
            host,
            store,
            sys,
            dict,
            dict_table,
            flusher,
            flush_settings: settings,
            unfinished: Default::default(),
        });
        engine.resolve(&mut report).await?;
        engine.spawn("purge", purge::run);
        engine.spawn("undo", truncate::run);
        engine.spawn("counters", keep_counters);
        report.time_ms = (engine.disk.now() - begun).as_millis() as u64;
        Ok((engine, report))
    }

    /// Runs a background task that ends when `closing` is set.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Engine>,
        name: &'static str,
        task: impl FnOnce(Arc<Engine>) -> F,
    ) {
        self.running.fetch_add(1, AcqRel);
        let (engine, body) = (self.clone(), task(self.clone()));
        self.host.spawn(
            name,
            Box::pin(async move {
                body.await;
                engine.running.fetch_sub(1, AcqRel);
                engine.close_step.notify();
            }),
        );
    }
    /// Sleeps, or less if the engine closes.
    pub(crate) async fn nap(&self, time: Duration) {
        let seen = self.close_step.seen();
        if !self.closing.load(Acquire) {
            either(self.host.sleep(time), self.close_step.after(seen)).await;
        }
    }

    /// Finishes what was unfinished: transactions, files, trees; and reads the dictionary.
    async fn resolve(self: &Arc<Engine>, report: &mut Report) -> Result<()> {
        let logs = undo_scan::scan(self).await?;
        self.choose_undo();
        // All unfinished ones count as active before the horizon is set: it must see none of them, or the versions below theirs would count as gone.
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for l in logs {
            if l.state == undo_record::ACTIVE && !planted(Canary::NoUndoAtRecovery) {
                let trx = self.resurrect(&l);
                if l.dictionary { first.push(trx) } else { then.push(trx) }
            } else {
                self.history.push(TrxId(1), l.first, l.pages);
                report.history += 1;
            }
        }
        report.rolled_back = (first.len() + then.len()) as u64;
        {
            let mut horizon = self.horizon.write();
            self.sys.open_view(&mut horizon, TrxId::NONE);
            horizon.close();
        }
        for mut trx in first {
            // Before the dictionary is read.
            trx.take_back_all().await?;
        }
        self.load_dictionary().await?;
        for mut trx in then {
            trx.rollback().await?;
        }
        report.removed_files = self.remove_orphans().await?;
        self.free_unfinished().await
    }
    /// An unfinished transaction found in the undo space.
    fn resurrect(self: &Arc<Engine>, l: &undo_scan::Found) -> Trx {
        let mut trx = Trx::new(self.clone(), KillFlag::new());
        self.sys.resurrect(&trx.locks, l.trx);
        trx.id = l.trx;
        trx.undo = l.log();
        trx
    }
    async fn load_dictionary(self: &Arc<Engine>) -> Result<()> {
        let mut trx = Trx::new(self.clone(), KillFlag::new());
        trx.isolation = Isolation::ReadUncommitted;
        let mut c = Cursor::new(self.dict_table.clone(), 0, Vec::new(), None, false, Read::Consistent);
        while c.next(&mut trx).await? {
            match record::parse(&self.dict_table, c.payload(&trx).await?)? {
                Named::Schema(name, r) => self.dict.put_schema(&name, r),
                Named::Table(r) => {
                    let t = record::make_table(&self.dict, (*r).clone(), self.sys.next_id(), |_| TrxId::NONE);
                    if let Some(s) = self.store.spaces.get(t.space) {
                        s.set_label(&t.full_name());
                    }
                    self.dict.put_table(t);
                    if !r.unfinished.is_empty() {
                        self.unfinished.lock().push(*r);
                    }
                }
            }
        }
        Ok(())
    }
    /// Files of spaces that no table has (DICT-1).
    async fn remove_orphans(&self) -> Result<Vec<String>> {
        let dir = self.store.spaces.tables_dir();
        let known: HashSet<String> = self.dict.all_tables().iter().map(|t| format!("{}.rdl", t.space.0)).collect();
        let names = self.disk.list(&dir).map_err(|e| Error::io(dir.display(), &e))?;
        let mut removed = Vec::new();
        if planted(Canary::OrphansStay) {
            return Ok(removed);
        }
        for name in names.into_iter().filter(|n| n.ends_with(".rdl") && !known.contains(n)) {
            let space = name.trim_end_matches(".rdl").parse().map(SpaceId).unwrap_or(SpaceId::SYSTEM);
            // Only what the engine names so itself. A file of another name is somebody's, and its number may be a living one.
            if space >= SpaceId::FIRST_TABLE && name == format!("{}.rdl", space.0) {
                self.discard_space(space).await?;
                removed.push(format!("tables/{name}"));
            } else {
                eprintln!("redolith: tables/{name} is no file of this server; it is left alone");
            }
        }
        Ok(removed)
    }

    /// Stops the engine cleanly: what is running must have ended. The next start has nothing to recover.
    pub async fn close(&self) -> Result<()> {
        self.closing.store(true, Release);
        self.close_step.notify();
        loop {
            let seen = self.close_step.seen();
            if self.running.load(Acquire) == 0 {
                break;
            }
            self.close_step.after(seen).await;
        }
        save_counters(self).await?;
        self.flusher.sharp().await;
        self.flusher.stop().await;
        self.store.log.close().await;
        *self.dir_lock.lock() = None;
        Ok(())
    }
}

async fn recover(
    config: &Config,
    mode: DoublewriteMode,
    disk: &Arc<dyn Disk>,
    host: &Arc<dyn Host>,
    spaces: &Arc<Spaces>,
    pool: &Arc<BufferPool>,
    report: &mut Report,
) -> Result<(Arc<Log>, Arc<Doublewrite>)> {
    let (_, mut scanner) = Log::recover(disk.clone(), config.log())?;
    spaces.open(SpaceId::SYSTEM, "the dictionary")?;
    for id in SpaceId::UNDO {
        let unfinished = spaces.path(id).with_extension("new");
        if disk.exists(&unfinished) {
            disk.remove(&unfinished).map_err(|e| Error::io(unfinished.display(), &e))?;
        }
        // A directory of before there were two.
        if id == SpaceId::UNDO[1] && scanner.format() == 1 && !disk.exists(&spaces.path(id)) {
            spaces.replace(id)?;
        }
        spaces.open(id, "undo")?;
    }
    report.checkpoint = scanner.checkpoint_lsn();
    let path = config.dir.join(DOUBLEWRITE_FILE);
    report.mended = flush::repair(&**disk, &path, &**spaces, report.checkpoint)?;
    let dblwr = Doublewrite::open(&**disk, &path, mode, DOUBLEWRITE_SEGMENTS)?;
    let reading = Arc::new(apply::Reading {
        at: AtomicU64::new(report.checkpoint.0),
        checkpoint: report.checkpoint,
        capacity_bytes: config.log().capacity_bytes,
    });
    let settings = Arc::new(FlushSettings::default());
    settings.io_capacity.set(config.io_capacity_max);
    settings.io_capacity_max.set(config.io_capacity_max.saturating_mul(4));
    let cleaner =
        Flusher::start(pool.clone(), reading.clone(), dblwr.clone(), disk.clone(), host.clone(), settings, Arc::new(NoLimit), CLEANERS);
    apply::apply(&mut scanner, pool, spaces, &reading, report).await?;
    cleaner.stop().await;
    Ok((scanner.finish(host.clone())?, dblwr))
}

/// A new instance: system and undo space, and last the log, with which it exists.
fn create(
    config: &Config,
    mode: DoublewriteMode,
    disk: &Arc<dyn Disk>,
    host: &Arc<dyn Host>,
    spaces: &Arc<Spaces>,
    report: &mut Report,
) -> Result<(Arc<Log>, Arc<Doublewrite>)> {
    let dir = &config.dir;
    let listed = disk.list(&spaces.tables_dir()).map_err(|e| Error::io(dir.display(), &e))?;
    if !listed.is_empty() {
        return Err(Error::Incompatible(format!(
            "{} has tables but no redo log (redo/control): restore it, or start on an empty directory",
            dir.display()
        )));
    }
    for id in [SpaceId::SYSTEM, SpaceId::UNDO[0], SpaceId::UNDO[1]] {
        spaces.remove(id)?;
    }
    let mut counters = Fresh(Box::new([0; PAGE_SIZE]));
    counters.write_u16(12, kind::SYSTEM);
    counters.write_u64(dict::NEXT_ID, dict::FIRST_ID);
    counters.write_u64(dict::HIGH_WATER, 16);
    let root = index::Builder::new(dict::DICT_INDEX, 0);
    spaces.create(SpaceId::SYSTEM, "the dictionary", &[&counters.0, root.page()])?;
    for id in SpaceId::UNDO {
        spaces.create(id, "undo", &[])?;
    }
    let dblwr = Doublewrite::open(&**disk, &Path::new(dir).join(DOUBLEWRITE_FILE), mode, DOUBLEWRITE_SEGMENTS)?;
    disk.sync_dir(dir).map_err(|e| Error::io(dir.display(), &e))?;
    let log = Log::create(disk.clone(), host.clone(), config.log())?;
    report.created = true;
    report.end = log.tail();
    Ok((log, dblwr))
}

/// The first transaction number of this run, and the mark up to which numbers may be handed out, durable.
async fn first_ids(store: &Store) -> Result<(TrxId, TrxId)> {
    loop {
        let tried = (|| {
            let mut m = Mtr::begin_reserved(store)?;
            let p = m.x(dict::COUNTERS)?;
            let next = page::u64_at(m.page(p), dict::HIGH_WATER);
            let mark = next + 2 * sys::ID_BLOCK;
            m.patch(p).write_u64(dict::HIGH_WATER, mark);
            Ok((TrxId(next), TrxId(mark), m.commit()))
        })();
        match tried {
            Ok((next, mark, lsn)) => {
                store.log.flush_to(lsn).await;
                return Ok((next, mark));
            }
            Err(crate::Stall::Page(id)) => store.pool.load(id).await?,
            Err(crate::Stall::Frame) => store.pool.wait_frame().await,
            Err(crate::Stall::LogReserve) => store.log.wait_space_reserved().await?,
            Err(other) => unreachable!("the counters' page stalled by {other:?}"),
        }
    }
}

async fn keep_counters(engine: Arc<Engine>) {
    while !engine.closing.load(Acquire) {
        engine.nap(COUNTERS_EVERY).await;
        if engine.closing.load(Acquire) {
            return;
        }
        if let Err(e) = save_counters(&engine).await {
            eprintln!("redolith: AUTO_INCREMENT counters could not be saved: {e}");
        }
    }
}
/// AUTO_INCREMENT counters go to page 0 of their table's space.
async fn save_counters(engine: &Engine) -> Result<()> {
    for t in engine.dict.all_tables() {
        if t.counter_moved.swap(false, AcqRel) && !t.dropped.load(Acquire) {
            engine.save_counter(&t).await?;
        }
    }
    Ok(())
}
/// The collation of a schema that names none.
pub const DEFAULT_COLLATION: Collation = Collation::Utf8mb4GeneralCi;

//! The start of an engine on its directory, and its stop.
use crate::buf::BufferPool;
use crate::canary::{Canary, planted};
use crate::commit_stream::{CommitStream, StreamGate, no_stream};
use crate::dict::record::{self, Named};
use crate::dict::view::View;
use crate::dict::{self, Dictionary};
use crate::engine::{Config, Engine};
use crate::flush::{DoublewriteMode, FlushSettings, Flusher};
use crate::lock::{KillFlag, LockTable};
use crate::log::Log;
use crate::mtr::{Mtr, Store};
use crate::page::Patch;
use crate::pool_list::PoolList;
use crate::purge::{self, History};
use crate::recovery::directory;
use crate::recovery::{Judged, Report, undo_scan};
use crate::row::cursor::{Cursor, Read};
use crate::runtime::Runtime;
use crate::space::register::Register;
use crate::space::{Spaces, StampGate, stamping};
use crate::sync::event::{Event, either};
use crate::trx::seen::Traits;
use crate::trx::{Isolation, Trx, sys};
use crate::undo::{UndoPages, record as undo_record, truncate};
use crate::{Error, Result, SpaceId, TrxId};
use hashbrown::HashSet;
use parking_lot::{Mutex, RwLock};
use redolith_disk::{Disk, OverlayDisk};
use redolith_types::Collation;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;

/// The folder of the data directory for files that no table owns.
const ORPHANS_DIR: &str = "orphans";
/// How often changed counters are saved in the dictionary.
const COUNTERS_EVERY: Duration = Duration::from_secs(1);
/// Statistics are stored in the dictionary each time counters have been saved so often (STATS-3).
const STATISTICS_EVERY: u64 = 10;

impl Engine {
    /// Opens the directory, or makes a new instance if the directory is empty. The report says what
    /// was done. The future has to be polled to its end: the engine's tasks write the files from
    /// early on, and one that is dropped gives the directory's lock back, when no write is in
    /// flight, while they go on.
    pub async fn open(
        config: Config,
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
    ) -> Result<(Arc<Engine>, Report)> {
        Engine::open_with(config, disk, runtime, no_stream()).await
    }
    /// As [`Engine::open`], with a stream for the records that travel with commits.
    pub async fn open_with(
        config: Config,
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        stream: Arc<dyn CommitStream>,
    ) -> Result<(Arc<Engine>, Report)> {
        let begun = disk.now();
        let forced = config.forced;
        let disk = if forced.is_on() { Arc::new(OverlayDisk::new(disk)) } else { disk };
        let dir = config.dir.clone();
        let fail = |e: std::io::Error| Error::io(dir.display(), &e);
        disk.create_dir_all(&dir).map_err(fail)?;
        let lock = |dir: &Path| {
            disk.lock_dir(dir).map_err(|e| match e.kind() {
                std::io::ErrorKind::WouldBlock => Error::InUse(dir.display().to_string()),
                _ => Error::io(format_args!("locking the folder {}", dir.display()), &e),
            })
        };
        let mut dir_locks = vec![lock(&dir)?];
        if let Some(copies) = config.doublewrite.dir.as_ref().filter(|copies| **copies != dir) {
            if !disk.exists(copies) {
                return Err(Error::Incompatible(format!(
                    "the folder of the doublewrite files, {}, does not exist: create it, or set \
                     innodb_doublewrite_dir to a folder that exists",
                    copies.display()
                )));
            }
            dir_locks.push(lock(copies)?);
        }
        let mut report = Report::default();
        let spaces = Arc::new(Spaces::new(disk.clone(), &dir, forced.is_on()));
        let pool = BufferPool::new(&config.buf(), spaces.clone(), disk.clone())?;
        // The pages of a forced start stay in memory.
        let mode = if forced.is_on() { DoublewriteMode::Off } else { config.doublewrite.mode };
        let (log, dblwr, judged) = if Log::exists(&*disk, &config.log()) && forced.reads_log() {
            directory::recover(
                &config,
                mode,
                &disk,
                &runtime,
                &spaces,
                &pool,
                &*stream,
                &mut report,
            )
            .await?
        } else if forced.is_on() {
            // Without the redo log nothing tells unfinished transactions from committed ones, so it
            // takes the level that says so.
            if forced.reads_log() {
                directory::refuse_if_used(&config, &disk, &spaces)?;
            }
            directory::without_log(&config, &disk, &runtime, &spaces, &pool, &mut report).await?
        } else {
            directory::refuse_if_used(&config, &disk, &spaces)?;
            stream.judge(&[])?;
            stream.judge_end()?;
            sync_name(&*disk, &dir).map_err(fail)?;
            disk.create_dir_all(&spaces.tables_dir()).map_err(fail)?;
            spaces.begin_writing()?;
            let (log, dblwr) =
                directory::create(&config, mode, &disk, &runtime, &spaces, &mut report)?;
            let register = Register { log_id: log.log_id(), ..Register::default() };
            register.write(&*disk, &config.dir)?;
            spaces.set_register(register);
            spaces.set_redo_protects(mode == DoublewriteMode::Redo)?;
            (log, dblwr, Judged::default())
        };
        // A damaged directory is read with pages that are newer than the rest of its redo log.
        if !forced.is_on() {
            spaces.set_log(log.clone());
            if let Err(e) = stream.begin(log.tail()) {
                log.close().await;
                return Err(e);
            }
        }
        let settings = Arc::new(FlushSettings::default());
        settings.io_capacity.set(config.io_capacity);
        settings.io_capacity_max.set(config.io_capacity_max);
        let flusher = Flusher::start(
            pool.clone(),
            log.clone(),
            dblwr,
            disk.clone(),
            runtime.clone(),
            settings.clone(),
            Arc::new(StreamGate { stream: stream.clone(), other: StampGate(spaces.clone()) }),
            config.page_cleaners,
        );
        let store = Store { log, pool, spaces, shape: Default::default(), stream };
        let (next, mark) = match first_ids(&store).await {
            // The counters themselves may be damaged: the numbers begin far above all numbers ever
            // drawn.
            Err(_) if forced.is_on() => (TrxId(TrxId::MAX.0 / 2), TrxId::MAX),
            Err(e) => {
                flusher.stop().await;
                store.log.close().await;
                return Err(e);
            }
            Ok(ids) => ids,
        };
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
            dir_locks: Mutex::new(dir_locks),
            rollbacks: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            close_step: Event::default(),
            config,
            disk,
            runtime,
            store,
            sys,
            dict,
            dict_table,
            flusher,
            pool_list: PoolList::new(),
            pool_resize: crate::pool_resize::PoolResize::default(),
            flush_settings: settings,
            unfinished: Default::default(),
            freeing: Default::default(),
            prepared: Default::default(),
            is_resolved: AtomicBool::new(false),
        });
        if !forced.is_on() {
            // Without stamps no checkpoint gives room for what is rolled back (REGISTER-3).
            engine.spawn("stamps", stamping::keep_stamps);
        }
        if let Err(e) = engine.resolve(judged, &mut report).await {
            // The directory stays as after a crash, and nobody is left who writes.
            engine.end_tasks().await;
            engine.flusher.stop().await;
            engine.store.log.close().await;
            drop(engine.take_prepared());
            engine.dir_locks.lock().clear();
            return Err(e);
        }
        engine.is_resolved.store(true, Release);
        if !forced.is_on() {
            engine.spawn("purge", purge::run);
            for helper in 1..engine.config.purge_threads {
                engine.spawn("purge-helper", move |engine| purge::help(engine, helper));
            }
            engine.spawn("undo", truncate::run);
            engine.spawn("counters", keep_counters);
        }
        report.time_ms = (engine.disk.now() - begun).as_millis() as u64;
        Ok((engine, report))
    }

    /// Runs a background task, which has to end when `closing` is set.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Engine>,
        name: &'static str,
        task: impl FnOnce(Arc<Engine>) -> F,
    ) {
        /// A task that panics has ended, too, or the shutdown would wait for it.
        struct Running(Arc<Engine>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.running.fetch_sub(1, AcqRel);
                self.0.close_step.notify();
            }
        }
        self.running.fetch_add(1, AcqRel);
        let (running, body) = (Running(self.clone()), task(self.clone()));
        self.runtime.spawn(
            name,
            Box::pin(async move {
                let _running = running;
                body.await;
            }),
        );
    }
    /// Sleeps for `time`, or until the engine begins to close.
    pub(crate) async fn nap(&self, time: Duration) {
        let seen = self.close_step.seen();
        if !self.closing.load(Acquire) {
            either(self.runtime.sleep(time), self.close_step.after(seen)).await;
        }
    }

    /// Finishes unfinished transactions, files and trees, and reads the dictionary.
    async fn resolve(self: &Arc<Engine>, judged: Judged, report: &mut Report) -> Result<()> {
        judged.undo.enter(&self.undo);
        self.choose_undo();
        // All unfinished transactions become active before the horizon is set: the horizon must see
        // none of them, or versions before theirs would count as purged.
        let (mut first, mut then, mut prepared) = (Vec::new(), Vec::new(), Vec::new());
        for l in judged.undo.logs {
            if l.state == undo_record::PREPARED {
                prepared.push(self.resurrect(&l));
            } else if l.state == undo_record::ACTIVE && !planted(Canary::NoUndoAtRecovery) {
                let trx = self.resurrect(&l);
                if l.dictionary { first.push(trx) } else { then.push(trx) }
            } else {
                self.history.add_long(l.trx, l.first, l.pages);
            }
        }
        self.history.add_short(judged.undo.short);
        report.history = self.history.len();
        report.rolled_back = (first.len() + then.len()) as u64;
        report.prepared = prepared.len() as u64;
        {
            let mut horizon = self.horizon.write();
            self.sys.open_view(&mut horizon, TrxId::NONE, || self.store.log.tail());
            horizon.close();
        }
        if self.config.forced.is_on() {
            // Nobody can end prepared transactions, and readers do not see their changes.
            return self
                .resolve_forced(judged.definitions, first.into_iter().chain(then), report)
                .await;
        }
        let mut files: Vec<SpaceId> = judged.files.iter().copied().collect();
        files.sort_unstable_by_key(|space| space.0);
        let noted = self.note_again(&files).await;
        for mut trx in first {
            // These rollbacks come before the dictionary is read.
            trx.take_back_all().await?;
        }
        self.note_if_passed(&files, noted).await;
        self.load_dictionary().await?;
        // NEWTABLE-1: a row of the dictionary that was rolled back tells why its file exists.
        let mut explained = judged.files;
        explained.extend(judged.definitions.iter().filter_map(|named| match named {
            Named::Table(r) => Some(SpaceId(r.space)),
            Named::Schema(..) | Named::View(_) | Named::Values(..) => None,
        }));
        for trx in prepared {
            let prepared = self.restore_prepared(trx).await?;
            self.prepared.lock().push(prepared);
        }
        self.clear_orphans(&explained, report).await?;
        // TEMPTABLE-3. Rollbacks pass over the rows of these tables.
        report.temporary_tables = self.drop_left_temporary_tables().await as u64;
        for mut trx in then {
            trx.rollback().await?;
        }
        self.free_unfinished().await;
        Ok(())
    }
    /// As `resolve`, for a damaged directory: the dictionary consists of its readable part, and
    /// unfinished transactions may stay unfinished.
    async fn resolve_forced(
        self: &Arc<Engine>,
        definitions: Vec<Named>,
        unfinished: impl Iterator<Item = Trx>,
        report: &mut Report,
    ) -> Result<()> {
        definitions.into_iter().for_each(|d| self.define(d));
        self.dict.forget_stray_values();
        for mut trx in unfinished {
            if self.config.forced.rolls_back() {
                trx.rollback().await?;
            } else {
                report.rolled_back -= 1;
            }
        }
        Ok(())
    }
    /// An unfinished transaction found in the undo spaces. A start that ends early, or a forced
    /// start, leaves it as it is (PREPARE-2).
    fn resurrect(self: &Arc<Engine>, l: &undo_scan::Found) -> Trx {
        let mut trx = Trx::new(self.clone(), KillFlag::new());
        self.sys.resurrect(&trx.locks, l.trx);
        let traits = Traits { unique_checks: true, foreign_key_checks: true, ..Traits::default() };
        trx.locks.seen().begin(self.disk.wall_us(), traits);
        trx.id = l.trx;
        trx.undo = l.log();
        trx.abandoned = true;
        trx
    }
    async fn load_dictionary(self: &Arc<Engine>) -> Result<()> {
        let mut trx = Trx::new(self.clone(), KillFlag::new());
        trx.isolation = Isolation::ReadUncommitted;
        let mut c =
            Cursor::new(self.dict_table.clone(), 0, Vec::new(), None, false, Read::Consistent);
        while c.next(&mut trx).await? {
            self.define(record::parse(&self.dict_table, c.payload(&trx).await?)?);
        }
        self.dict.forget_stray_values();
        Ok(())
    }
    fn define(&self, named: Named) {
        match named {
            Named::Schema(name, r) => self.dict.put_schema(&name, r),
            Named::Values(table, read) => self.dict.learn(table, read),
            Named::View(def) => self.dict.replace_views(&[], vec![View::new(&self.dict, *def)]),
            Named::Table(r) => {
                let t = record::make_table(&self.dict, *r, self.sys.next_id(), |_| TrxId::NONE);
                if let Some(s) = self.store.spaces.get(t.space) {
                    s.set_label(&t.full_name());
                }
                if !t.unfinished.is_empty() {
                    self.unfinished.lock().push(t.id);
                }
                self.dict.put_table(t);
            }
        }
    }
    /// Handles the files of spaces that no table owns (DICT-1). Files that the redo log names were
    /// being made or dropped, and are removed; so are files of tables that were rolled back. The
    /// origin of other files is unknown: they are set aside, and never deleted. A file that cannot
    /// be moved stays where it is: no table needs it, and it must not keep the others from being
    /// served.
    async fn clear_orphans(&self, explained: &HashSet<SpaceId>, report: &mut Report) -> Result<()> {
        let dir = self.store.spaces.tables_dir();
        let known: HashSet<String> =
            self.dict.all_tables().iter().map(|t| format!("{}.rdl", t.space.0)).collect();
        let names = self.disk.list(&dir).map_err(|e| Error::io(dir.display(), &e))?;
        if planted(Canary::OrphansStay) {
            return Ok(());
        }
        let mut gone = Vec::new();
        for name in names.into_iter().filter(|n| n.ends_with(".rdl") && !known.contains(n)) {
            let space =
                name.trim_end_matches(".rdl").parse().map(SpaceId).unwrap_or(SpaceId::SYSTEM);
            // Only files whose name the engine would give are touched. A file with another name
            // belongs to somebody else, and its number may be the number of a table's space.
            if space < SpaceId::FIRST_TABLE || name != format!("{}.rdl", space.0) {
                tracing::warn!(
                    "the server did not make the file tables/{name}, and leaves the \
                     file as it is"
                );
            } else if explained.contains(&space) {
                gone.push(space);
            } else {
                match self.set_aside(space, &name).await {
                    Ok(to) => report.set_aside.push(to),
                    Err(e) => report.notes.push(e.to_string()),
                }
            }
        }
        let noted = self.note_again(&gone).await;
        self.discard_each(&gone, noted, |space, done| match done {
            Ok(()) => report.removed_files.push(format!("tables/{}.rdl", space.0)),
            Err(e) => report.notes.push(e.to_string()),
        })
        .await;
        Ok(())
    }
    /// Moves the file of a space that no table owns to the folder of orphans. Returns its new name.
    async fn set_aside(&self, space: SpaceId, name: &str) -> Result<String> {
        let dir = self.config.dir.join(ORPHANS_DIR);
        let moved = || {
            self.disk.create_dir_all(&dir)?;
            let taken = self.disk.list(&dir)?;
            let free =
                std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}.{n}")));
            let to = free
                .into_iter()
                .find(|n| !taken.contains(n))
                .expect("there is a name that is free");
            self.disk.rename(&self.store.spaces.path(space), &dir.join(&to))?;
            self.disk.sync_dir(&dir)?;
            self.disk.sync_dir(&self.store.spaces.tables_dir())?;
            Ok(format!("{ORPHANS_DIR}/{to}"))
        };
        let to = moved().map_err(|e| {
            Error::io(format_args!("setting tables/{name} aside in {}", dir.display()), &e)
        })?;
        // TABLEFILE-2
        self.forget_space(space).await;
        Ok(to)
    }

    async fn end_tasks(&self) {
        // Nobody stamps files from here on until the tasks have ended, and they may need a
        // checkpoint.
        self.store.spaces.closing.store(true, Release);
        self.closing.store(true, Release);
        self.close_step.notify();
        loop {
            let seen = self.close_step.seen();
            if self.running.load(Acquire) == 0 {
                return;
            }
            self.close_step.after(seen).await;
        }
    }
    /// Stops the engine cleanly, so that the next start has nothing to recover. The caller has
    /// ended all work.
    pub async fn close(&self) -> Result<()> {
        self.end_tasks().await;
        // Whatever fails, the tasks that write files end before the directory is unlocked.
        let mut closed = save_counters(self).await;
        // The first flush writes pages, whose files are then stamped; the second flush writes the
        // stamped headers.
        self.flusher.sharp().await;
        if let Err(e) = self.stamp_files().await {
            // The previous stamps are still true.
            tracing::warn!(
                "the data files could not be stamped at the shutdown: {e}. The next \
                 start cannot recognise copies of the files that were made before"
            );
        }
        self.flusher.sharp().await;
        self.flusher.stop().await;
        // TORN-4: no redo is left to apply.
        if self.config.doublewrite.mode != DoublewriteMode::Redo {
            closed = closed.and(self.store.spaces.set_redo_protects(false));
        }
        self.store.log.close().await;
        // Prepared transactions that nobody has taken stay in the undo log (PREPARE-1). Each of
        // them holds the engine, which would never be dropped.
        drop(self.take_prepared());
        self.dir_locks.lock().clear();
        closed
    }
}

/// Makes the name of a directory durable (MEDIA-4). Another start or another program may have made
/// the directory and not have synced its name.
fn sync_name(disk: &dyn Disk, dir: &Path) -> std::io::Result<()> {
    let parent = match dir.parent() {
        None => return Ok(()),
        Some(here) if here.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    use std::io::ErrorKind::{InvalidInput, ReadOnlyFilesystem, Unsupported};
    // The folder may be hidden from us, or on a file system that never changes.
    let cannot = |e: &std::io::Error| {
        redolith_disk::was_not_begun(e)
            || matches!(e.kind(), InvalidInput | ReadOnlyFilesystem | Unsupported)
    };
    match disk.sync_dir(parent) {
        Err(e) if cannot(&e) => {
            tracing::warn!(
                "the folder {} cannot be synced: {e}. If it is new, a power cut may take the \
                 directory with it",
                parent.display()
            );
            Ok(())
        }
        synced => synced,
    }
}

/// The first transaction number of this run, and the durable mark below which numbers may be drawn.
async fn first_ids(store: &Store) -> Result<(TrxId, TrxId)> {
    loop {
        let tried = (|| {
            let mut m = Mtr::begin_reserved(store)?;
            let p = m.x(dict::COUNTERS)?;
            let next = crate::bytes::u64_at(m.page(p), dict::HIGH_WATER);
            let mark = next + 2 * sys::ID_BLOCK;
            m.patch(p).write_u64(dict::HIGH_WATER, mark);
            Ok((TrxId(next), TrxId(mark), m.commit()))
        })();
        match tried {
            Ok((next, mark, lsn)) => {
                store.log.flush_to(lsn).await;
                return Ok((next, mark));
            }
            Err(crate::WouldBlock::Page(id)) => store.pool.load(id).await?,
            Err(crate::WouldBlock::Frame) => store.pool.wait_frame().await,
            Err(crate::WouldBlock::LogReserve(bytes)) => {
                // A crash has left a full log, and nobody stamps files yet: the checkpoint goes
                // without stamps (REGISTER-3) until there is room for the first change.
                store.spaces.without_register.store(true, Release);
                let room = store.log.wait_space_reserved(bytes).await;
                store.spaces.without_register.store(false, Release);
                room?;
            }
            Err(other) => unreachable!("the counters' page would block on {other:?}"),
        }
    }
}

/// Saves what tables have in memory for the next start: counters, and statistics.
async fn keep_counters(engine: Arc<Engine>) {
    for round in 1u64.. {
        engine.nap(COUNTERS_EVERY).await;
        if engine.closing.load(Acquire) {
            break;
        }
        if let Err(e) = save_counters(&engine).await {
            tracing::warn!(
                "AUTO_INCREMENT counters could not be saved, and the server tries again: {e}"
            );
        }
        if round.is_multiple_of(STATISTICS_EVERY) {
            engine.keep_statistics(false).await;
        }
    }
    engine.keep_statistics(true).await;
}
/// Saves the AUTO_INCREMENT counters in page 0 of their tables' spaces.
async fn save_counters(engine: &Engine) -> Result<()> {
    for t in engine.dict.all_tables() {
        if t.counter_moved.swap(false, AcqRel) && !t.dropped.load(Acquire) {
            engine.save_counter(&t, false).await?;
        }
    }
    Ok(())
}
/// The collation of a schema that names none.
pub const DEFAULT_COLLATION: Collation = Collation::Utf8mb4GeneralCi;

//! The start of an engine on its directory, and its stop.
use crate::buf::BufferPool;
use crate::canary::{Canary, planted};
use crate::checkpoint::CheckpointSource;
use crate::commit_stream::{CommitStream, StreamGate, no_stream};
use crate::dict::record::{self, Named};
use crate::dict::{self, Dictionary};
use crate::engine::{Config, Engine, in_time};
use crate::flush::{Copies, Doublewrite, DoublewriteMode, FlushSettings, Flusher};
use crate::lock::{KillFlag, LockTable};
use crate::log::{FrameScanner, Log, LogConfig};
use crate::mtr::{Mtr, Store};
use crate::page::{Patch, header, index, kind};
use crate::purge::{self, History};
use crate::recovery::{Judged, Report, apply, judge, judge_pages, undo_scan};
use crate::row::cursor::{Cursor, Read};
use crate::runtime::Runtime;
use crate::space::register::{self, NoRegister, Register};
use crate::space::{self, Fresh, Spaces, StampGate};
use crate::sync::event::{Event, either};
use crate::trx::{Isolation, Trx, sys};
use crate::undo::{UndoPages, record as undo_record, truncate};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result, SpaceId, TrxId};
use hashbrown::HashSet;
use parking_lot::{Mutex, RwLock};
use redolith_disk::{AlignedBuf, Disk, OpenHow, OverlayDisk};
use redolith_types::Collation;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

const DOUBLEWRITE_FILE: &str = "doublewrite.rdl";
/// The number of segments of the doublewrite file, of 128 pages each.
const DOUBLEWRITE_SEGMENTS: usize = 8;
const CLEANERS: usize = 2;
/// The folder of the data directory for files that no table owns.
const ORPHANS_DIR: &str = "orphans";
/// How often changed counters are saved in the dictionary.
const COUNTERS_EVERY: Duration = Duration::from_secs(1);

/// The source of checkpoints during recovery, which leaves the checkpoint where it is.
struct NoLimit;
impl CheckpointSource for NoLimit {
    fn payload(&self, _: Lsn) -> Vec<u8> {
        Vec::new()
    }
}
impl Engine {
    /// Opens the directory, or makes a new instance if the directory is empty. The report says what
    /// was done.
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
        let dir_lock = disk.lock_dir(&dir).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse(dir.display().to_string()),
            _ => fail(e),
        })?;
        let mut report = Report::default();
        let spaces = Arc::new(Spaces::new(disk.clone(), &dir, forced.is_on()));
        let pool = BufferPool::new(&config.buf(), spaces.clone(), disk.clone())?;
        // The pages of a forced start stay in memory.
        let mode = match config.doublewrite && !forced.is_on() {
            true => DoublewriteMode::On,
            false => DoublewriteMode::Off,
        };
        let (log, dblwr, judged) = if Log::exists(&*disk, &config.log()) && forced.reads_log() {
            recover(&config, mode, &disk, &runtime, &spaces, &pool, &*stream, &mut report).await?
        } else if forced.is_on() {
            without_log(&config, &disk, &runtime, &spaces, &pool, &mut report).await?
        } else {
            refuse_if_used(&config, &disk, &spaces)?;
            stream.judge(&[])?;
            disk.create_dir_all(&spaces.tables_dir()).map_err(fail)?;
            spaces.begin_writing()?;
            let (log, dblwr) = create(&config, mode, &disk, &runtime, &spaces, &mut report)?;
            let register = Register { log_id: log.log_id(), ..Register::default() };
            register.write(&*disk, &config.dir)?;
            spaces.set_register(register);
            (log, dblwr, Judged::default())
        };
        // A damaged directory is read with pages that are newer than the rest of its redo log.
        if !forced.is_on() {
            spaces.set_log(log.clone());
            stream.begin(log.tail())?;
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
            CLEANERS,
        );
        let store = Store { log, pool, spaces, shape: Default::default(), stream };
        let (next, mark) = match first_ids(&store).await {
            // The counters themselves may be damaged: the numbers begin far above all numbers ever
            // drawn.
            Err(_) if forced.is_on() => (TrxId(TrxId::MAX.0 / 2), TrxId::MAX),
            ids => ids?,
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
            dir_lock: Mutex::new(Some(dir_lock)),
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
            flush_settings: settings,
            unfinished: Default::default(),
            prepared: Default::default(),
        });
        engine.resolve(judged, &mut report).await?;
        if !forced.is_on() {
            engine.spawn("purge", purge::run);
            for helper in 1..engine.config.purge_threads {
                engine.spawn("purge-helper", move |engine| purge::help(engine, helper));
            }
            engine.spawn("undo", truncate::run);
            engine.spawn("counters", keep_counters);
            engine.spawn("stamps", keep_stamps);
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
        self.running.fetch_add(1, AcqRel);
        let (engine, body) = (self.clone(), task(self.clone()));
        self.runtime.spawn(
            name,
            Box::pin(async move {
                body.await;
                engine.running.fetch_sub(1, AcqRel);
                engine.close_step.notify();
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
                let long = l.is_long();
                self.history.add_found(l.trx, l.first, long.then_some(l.pages));
                report.history += 1;
            }
        }
        report.rolled_back = (first.len() + then.len()) as u64;
        report.prepared = prepared.len() as u64;
        {
            let mut horizon = self.horizon.write();
            self.sys.open_view(&mut horizon, TrxId::NONE);
            horizon.close();
        }
        if self.config.forced.is_on() {
            // Nobody can end them, and readers do not see their changes.
            prepared.iter_mut().for_each(|trx| trx.abandoned = true);
            return self
                .resolve_forced(judged.definitions, first.into_iter().chain(then), report)
                .await;
        }
        for mut trx in first {
            // These rollbacks come before the dictionary is read.
            trx.take_back_all().await?;
        }
        self.load_dictionary().await?;
        for trx in prepared {
            let prepared = self.restore_prepared(trx).await?;
            self.prepared.lock().push(prepared);
        }
        for mut trx in then {
            trx.rollback().await?;
        }
        self.clear_orphans(&judged.files, report).await?;
        self.free_unfinished().await
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
        for mut trx in unfinished {
            if self.config.forced.rolls_back() {
                trx.rollback().await?;
            } else {
                report.rolled_back -= 1;
                trx.abandoned = true;
            }
        }
        Ok(())
    }
    /// An unfinished transaction found in the undo spaces.
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
        let mut c =
            Cursor::new(self.dict_table.clone(), 0, Vec::new(), None, false, Read::Consistent);
        while c.next(&mut trx).await? {
            self.define(record::parse(&self.dict_table, c.payload(&trx).await?)?);
        }
        Ok(())
    }
    fn define(&self, named: Named) {
        match named {
            Named::Schema(name, r) => self.dict.put_schema(&name, r),
            Named::Table(r) => {
                let t = record::make_table(&self.dict, (*r).clone(), self.sys.next_id(), |_| {
                    TrxId::NONE
                });
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
    /// Handles the files of spaces that no table owns (DICT-1). Files that the redo log names were
    /// being made or dropped, and are removed. The origin of other files is unknown: they are set
    /// aside, and never deleted. A file that cannot be moved stays where it is: no table needs it,
    /// and it must not keep the others from being served.
    async fn clear_orphans(
        &self,
        named_in_log: &HashSet<SpaceId>,
        report: &mut Report,
    ) -> Result<()> {
        let dir = self.store.spaces.tables_dir();
        let known: HashSet<String> =
            self.dict.all_tables().iter().map(|t| format!("{}.rdl", t.space.0)).collect();
        let names = self.disk.list(&dir).map_err(|e| Error::io(dir.display(), &e))?;
        if planted(Canary::OrphansStay) {
            return Ok(());
        }
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
            } else if named_in_log.contains(&space) {
                match self.discard_space(space).await {
                    Ok(()) => report.removed_files.push(format!("tables/{name}")),
                    Err(e) => report.notes.push(e.to_string()),
                }
            } else {
                match self.set_aside(space, &name).await {
                    Ok(to) => report.set_aside.push(to),
                    Err(e) => report.notes.push(e.to_string()),
                }
            }
        }
        Ok(())
    }
    /// Moves the file of a space that no table owns to the folder of orphans. Returns its new name.
    async fn set_aside(&self, space: SpaceId, name: &str) -> Result<String> {
        let dir = self.config.dir.join(ORPHANS_DIR);
        self.forget_space(space).await;
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
        self.store.spaces.forget(space);
        Ok(to)
    }

    /// Stops the engine cleanly, so that the next start has nothing to recover. The caller has
    /// ended all work.
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
        self.store.spaces.closing.store(true, Release);
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
        self.store.log.close().await;
        *self.dir_lock.lock() = None;
        Ok(())
    }
}

async fn recover(
    config: &Config,
    mode: DoublewriteMode,
    disk: &Arc<dyn Disk>,
    runtime: &Arc<dyn Runtime>,
    spaces: &Arc<Spaces>,
    pool: &Arc<BufferPool>,
    stream: &dyn CommitStream,
    report: &mut Report,
) -> Result<(Arc<Log>, Arc<Doublewrite>, Judged)> {
    let (state, mut scanner) = Log::recover(disk.clone(), config.log())?;
    report.checkpoint = scanner.checkpoint_lsn();
    // Format 1 had one undo space. Undo spaces that are not read need not exist.
    let may_miss = |id: SpaceId| {
        scanner.format() == 1 && id == SpaceId::UNDO[1] || !config.forced.reads_undo()
    };
    let missing: Vec<SpaceId> = SpaceId::UNDO
        .into_iter()
        .filter(|id| may_miss(*id) && !disk.exists(&spaces.path(*id)))
        .collect();
    // I-21: an ended process may have given names without syncing them.
    for dir in [config.dir.clone(), spaces.tables_dir()].iter().filter(|dir| disk.exists(dir)) {
        disk.sync_dir(dir).map_err(|e| Error::io(format_args!("syncing {}", dir.display()), &e))?;
    }
    spaces.open(SpaceId::SYSTEM, "the dictionary")?;
    for id in SpaceId::UNDO.into_iter().filter(|id| !missing.contains(id)) {
        open_undo(config, spaces, id, report)?;
    }
    let dblwr_path = config.dir.join(DOUBLEWRITE_FILE);
    let copies = read_copies(config, &**disk, report.checkpoint, report)?;
    let durable = read_register(config, disk, &scanner, spaces, report)?;
    let mut judged = judge(&mut scanner, pool, spaces, &copies, durable, config.forced).await?;
    report.passed_over.append(&mut judged.passed_over);
    if !config.forced.is_on() {
        stream.judge(&state)?;
        if let Some(at) = judged.record {
            stream.judge_records(at)?;
        }
    }

    // JUDGE-1 ends here: the directory may be started.
    spaces.register_judged();
    disk.create_dir_all(&spaces.tables_dir()).map_err(|e| Error::io(config.dir.display(), &e))?;
    spaces.begin_writing()?;
    for id in SpaceId::UNDO {
        let unfinished = spaces.path(id).with_extension("new");
        if disk.exists(&unfinished) {
            disk.remove(&unfinished).map_err(|e| Error::io(unfinished.display(), &e))?;
        }
    }
    for id in missing {
        spaces.replace(id)?;
        spaces.open(id, "undo")?;
    }
    report.repaired = copies.repair(&**spaces)?;
    let dblwr = Doublewrite::open(&**disk, &dblwr_path, mode, DOUBLEWRITE_SEGMENTS)?;
    let end = scanner.position();
    scanner.rewind();
    let reading = Arc::new(apply::Reading {
        at: AtomicU64::new(report.checkpoint.0),
        checkpoint: report.checkpoint,
        capacity_bytes: config.log().capacity_bytes,
    });
    let settings = Arc::new(FlushSettings::default());
    settings.io_capacity.set(config.io_capacity_max);
    settings.io_capacity_max.set(config.io_capacity_max.saturating_mul(4));
    let cleaner = Flusher::start(
        pool.clone(),
        reading.clone(),
        dblwr.clone(),
        disk.clone(),
        runtime.clone(),
        settings,
        Arc::new(NoLimit),
        CLEANERS,
    );
    apply::apply(
        &mut scanner,
        end,
        std::mem::take(&mut judged.unreadable),
        pool,
        spaces,
        &reading,
        runtime,
        report,
        config.forced,
        stream,
    )
    .await?;
    cleaner.stop().await;
    Ok((scanner.finish(runtime.clone())?, dblwr, judged))
}

/// Starts with innodb_force_recovery=6: reads the pages as they lie in the files, and makes a new
/// redo log in memory for the engine's own writes.
async fn without_log(
    config: &Config,
    disk: &Arc<dyn Disk>,
    runtime: &Arc<dyn Runtime>,
    spaces: &Arc<Spaces>,
    pool: &Arc<BufferPool>,
    report: &mut Report,
) -> Result<(Arc<Log>, Arc<Doublewrite>, Judged)> {
    spaces.open(SpaceId::SYSTEM, "the dictionary")?;
    for id in SpaceId::UNDO {
        open_undo(config, spaces, id, report)?;
    }
    let copies = read_copies(config, &**disk, Lsn(0), report)?;
    let mut judged = judge_pages(pool, spaces, &copies, config.forced)?;
    report.passed_over.append(&mut judged.passed_over);
    report.passed_over.push("the redo log".into());
    report.repaired = copies.repair(&**spaces)?;
    let dblwr = Doublewrite::open(
        &**disk,
        &config.dir.join(DOUBLEWRITE_FILE),
        DoublewriteMode::Off,
        DOUBLEWRITE_SEGMENTS,
    )?;
    let small = LogConfig { capacity_bytes: 16 << 20, segment_bytes: 4 << 20, ..config.log() };
    for name in disk.list(&small.dir).unwrap_or_default() {
        disk.remove(&small.dir.join(&name)).map_err(|e| Error::io(name, &e))?;
    }
    Ok((Log::create(disk.clone(), runtime.clone(), small)?, dblwr, judged))
}

/// Opens the file of an undo space. A start that does not read undo puts an empty file, in memory
/// alone, in the place of a file that cannot be opened.
fn open_undo(config: &Config, spaces: &Spaces, id: SpaceId, report: &mut Report) -> Result<()> {
    match spaces.open(id, "undo") {
        Err(e) if !config.forced.reads_undo() => {
            report.passed_over.push(e.to_string());
            spaces.replace(id).map(drop)
        }
        opened => opened.map(drop),
    }
}
/// Reads the doublewrite file. A forced start does without a file that cannot be read.
fn read_copies(
    config: &Config,
    disk: &dyn Disk,
    checkpoint: Lsn,
    report: &mut Report,
) -> Result<Copies> {
    let path = config.dir.join(DOUBLEWRITE_FILE);
    match Copies::read(disk, &path, checkpoint) {
        Err(e) if config.forced.is_on() => {
            report.passed_over.push(e.to_string());
            Ok(Copies::none(&path))
        }
        read => read,
    }
}

/// Gives the register of files to the spaces. Returns the LSN up to which, by the register, the
/// redo log was durable.
fn read_register(
    config: &Config,
    disk: &Arc<dyn Disk>,
    scanner: &FrameScanner,
    spaces: &Spaces,
    report: &mut Report,
) -> Result<Option<Lsn>> {
    let (mut durable, mut register) = (None, Register::default());
    let read = match Register::read(&**disk, &config.dir) {
        Err(e) if config.forced.is_on() => {
            report.passed_over.push(e.to_string());
            Err(NoRegister::Damaged)
        }
        read => read?,
    };
    match read {
        Ok(found) if found.log_id == scanner.log_id() => {
            durable = Some(found.durable);
            register = found;
        }
        Ok(_) => report.notes.push(format!(
            "{} belongs to another data directory; a new file replaces it",
            register::FILE
        )),
        // A directory of an older format has no register.
        Err(NoRegister::Missing) if scanner.format() < 3 => {}
        Err(why) => {
            let what = if why == NoRegister::Missing { "missing" } else { "damaged" };
            report.notes.push(format!(
                "{} is {what}; a new file replaces it. This start could not check whether a data \
                 file was replaced by an older copy",
                register::FILE
            ));
        }
    }
    register.log_id = scanner.log_id();
    spaces.set_register(register);
    Ok(durable)
}

/// Refuses to make a new instance in a directory that has been used and whose redo log is missing.
/// The rest of an interrupted creation does not count as used.
fn refuse_if_used(config: &Config, disk: &Arc<dyn Disk>, spaces: &Spaces) -> Result<()> {
    let tables = if disk.exists(&spaces.tables_dir()) {
        disk.list(&spaces.tables_dir())
            .map_err(|e| Error::io(spaces.tables_dir().display(), &e))?
            .len()
    } else {
        0
    };
    let used = || is_written(&**disk, &spaces.path(SpaceId::SYSTEM));
    if tables > 0 || disk.exists(&config.dir.join(register::FILE)) || used() {
        return Err(Error::Incompatible(format!(
            "the data directory {} has been used ({tables} tables), but has no redo log \
             (redo/control is missing): restore redo/control or a backup, start on an empty \
             directory, or start with innodb_force_recovery=6 to read the tables as their files \
             have them",
            config.dir.display()
        )));
    }
    Ok(())
}

/// Whether the file of the dictionary has been written since it was made: its counters change at
/// the first start.
fn is_written(disk: &dyn Disk, path: &Path) -> bool {
    let mut page = AlignedBuf::new(PAGE_SIZE);
    disk.exists(path)
        && disk
            .open(path, OpenHow::existing(true))
            .and_then(|f| f.read_at(&mut page, u64::from(dict::COUNTERS.no) * PAGE_SIZE as u64))
            .is_ok()
        && header::lsn(page.first_chunk().expect("a page")) > Lsn(0)
}

/// Makes a new instance: the system space, the undo spaces, and last the redo log, with which the
/// instance exists.
fn create(
    config: &Config,
    mode: DoublewriteMode,
    disk: &Arc<dyn Disk>,
    runtime: &Arc<dyn Runtime>,
    spaces: &Arc<Spaces>,
    report: &mut Report,
) -> Result<(Arc<Log>, Arc<Doublewrite>)> {
    let dir = &config.dir;
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
    let dblwr = Doublewrite::open(
        &**disk,
        &Path::new(dir).join(DOUBLEWRITE_FILE),
        mode,
        DOUBLEWRITE_SEGMENTS,
    )?;
    disk.sync_dir(dir).map_err(|e| Error::io(dir.display(), &e))?;
    let log = Log::create(disk.clone(), runtime.clone(), config.log())?;
    report.created = true;
    report.end = log.tail();
    Ok((log, dblwr))
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
            Err(crate::WouldBlock::LogReserve) => store.log.wait_space_reserved().await?,
            Err(other) => unreachable!("the counters' page would block on {other:?}"),
        }
    }
}

/// How often files that were written get a stamp (REGISTER-2).
const STAMP_EVERY: Duration = Duration::from_secs(10);
/// The longest time that a stamp waits for room in the redo log.
const STAMP_WAIT: Duration = Duration::from_secs(1);
/// The time until the next attempt while a file is being replaced.
const STAMP_PAUSE: Duration = Duration::from_millis(200);

async fn keep_stamps(engine: Arc<Engine>) {
    let (spaces, mut told) = (&engine.store.spaces, false);
    while !engine.closing.load(Acquire) {
        let seen = spaces.first_write.seen();
        if spaces.unstamped() == 0 {
            either(engine.nap(STAMP_EVERY), spaces.first_write.after(seen)).await;
        }
        if engine.closing.load(Acquire) {
            return;
        }
        match engine.stamp_files().await {
            Ok(true) => {
                spaces.without_register.store(false, Release);
                told = false;
            }
            // A file is being replaced at the moment.
            Ok(false) => engine.nap(STAMP_PAUSE).await,
            Err(e) => {
                spaces.without_register.store(true, Release);
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        "the data files could not be stamped: {e}. Until they are, a \
                         start cannot recognise older copies of the files"
                    );
                }
                engine.nap(STAMP_EVERY).await;
            }
        }
    }
}
impl Engine {
    /// Stamps the files that were written, and enters the stamps in the register. Returns false if
    /// a file is being replaced at the moment.
    async fn stamp_files(&self) -> Result<bool> {
        let (spaces, log) = (&self.store.spaces, &self.store.log);
        let Some(_stamping) = spaces.try_stamping() else { return Ok(false) };
        let (mut stamps, mut headers) = (Vec::new(), Vec::new());
        let mut late = false;
        for id in spaces.take_written() {
            let stamped = match late {
                true => None,
                false => {
                    in_time(
                        &mut pin!(self.retry(|| space::stamp(&self.store, id))),
                        &mut self.runtime.sleep(STAMP_WAIT),
                    )
                    .await
                }
            };
            match stamped {
                Some(Ok((stamp, end))) => {
                    stamps.push((id, stamp));
                    headers.push((PageId { space: id, no: 0 }, end));
                }
                // A file that has been dropped needs no stamp any more. A damaged file is reported
                // by the next reader of its pages.
                Some(Err(_)) => spaces.get(id).iter().for_each(|s| spaces.needs_no_stamp(s)),
                // The redo log may stay full until a checkpoint that waits for this very stamp.
                None => {
                    late = true;
                    spaces.get(id).iter().for_each(|s| spaces.written_again(s));
                }
            }
        }
        if stamps.is_empty() {
            return if late { Err(Error::LogFull) } else { Ok(true) };
        }
        let durable = log.tail();
        log.flush_to(durable).await;
        self.flusher.write_now(&headers).await;
        self.runtime.before_blocking();
        let known: HashSet<SpaceId> = self.dict.all_tables().iter().map(|t| t.space).collect();
        let done = spaces
            .registered(durable, &stamps, |id| id < SpaceId::FIRST_TABLE || known.contains(&id));
        for s in stamps.iter().filter_map(|(id, _)| spaces.get(*id)) {
            if done.is_ok() { spaces.needs_no_stamp(&s) } else { spaces.written_again(&s) }
        }
        done.and(if late { Err(Error::LogFull) } else { Ok(true) })
    }
}

async fn keep_counters(engine: Arc<Engine>) {
    while !engine.closing.load(Acquire) {
        engine.nap(COUNTERS_EVERY).await;
        if engine.closing.load(Acquire) {
            return;
        }
        if let Err(e) = save_counters(&engine).await {
            tracing::warn!(
                "AUTO_INCREMENT counters could not be saved, and the server tries again: {e}"
            );
        }
    }
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

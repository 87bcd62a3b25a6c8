//! From a data directory to a redo log that goes on: the directory is read and judged, or made.
use super::records::RecordJudge;
use super::{Bounds, Judged, Report, apply, judge, judge_pages};
use crate::buf::BufferPool;
use crate::checkpoint::CheckpointSource;
use crate::commit_stream::CommitStream;
use crate::dict;
use crate::engine::Config;
use crate::flush::doublewrite::{SEGMENTS, file_name};
use crate::flush::{
    Copies, Doublewrite, DoublewriteConfig, DoublewriteMode, FlushSettings, Flusher,
};
use crate::log::{FrameScanner, Log, LogConfig};
use crate::page::{Patch, header, index, kind};
use crate::runtime::Runtime;
use crate::space::register::{self, NoRegister, Register};
use crate::space::{Fresh, Spaces};
use crate::{Error, Lsn, PAGE_SIZE, Result, SpaceId};
use redolith_disk::{AlignedBuf, Disk, OpenHow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The log id of no data directory.
const NO_LOG: u64 = 0;

/// The source of checkpoints during recovery, which leaves the checkpoint where it is.
struct NoLimit;
impl CheckpointSource for NoLimit {
    fn payload(&self, _: Lsn) -> Vec<u8> {
        Vec::new()
    }
}

/// A directory that has been read and judged.
pub(crate) struct Directory {
    /// The redo log, read to its end.
    pub scanner: FrameScanner,
    pub copies: Copies,
    pub judged: Judged,
    /// What the commit stream says to its records (JUDGE-8).
    pub records: Result<()>,
    /// Undo spaces without a file, of a format that has fewer or of a forced start.
    missing: Vec<SpaceId>,
}

/// Reads and judges a directory that has a redo log. Changes nothing (JUDGE-1). `stream`, if there
/// is one, judges what the redo log has for it (JUDGE-8).
pub(crate) async fn read(
    config: &Config,
    disk: &Arc<dyn Disk>,
    spaces: &Arc<Spaces>,
    pool: &Arc<BufferPool>,
    stream: Option<&dyn CommitStream>,
    report: &mut Report,
) -> Result<Directory> {
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
    let copies = read_copies(config, &**disk, report.checkpoint, Some(scanner.log_id()), report)?;
    let durable = read_register(config, disk, &scanner, spaces, report)?;
    let mut records = stream.map(|stream| RecordJudge::new(stream, &state));
    let (bounds, forced) = (Bounds::of(pool), config.forced);
    let judged =
        judge(&mut scanner, pool, spaces, &copies, durable, records.as_mut(), bounds, forced)
            .await?;
    let records = records.map_or(Ok(()), RecordJudge::end);
    Ok(Directory { scanner, copies, judged, records, missing })
}

/// Recovers a directory that has a redo log.
pub(crate) async fn recover(
    config: &Config,
    mode: DoublewriteMode,
    disk: &Arc<dyn Disk>,
    runtime: &Arc<dyn Runtime>,
    spaces: &Arc<Spaces>,
    pool: &Arc<BufferPool>,
    stream: &dyn CommitStream,
    report: &mut Report,
) -> Result<(Arc<Log>, Arc<Doublewrite>, Judged)> {
    let judging = (!config.forced.is_on()).then_some(stream);
    let Directory { mut scanner, copies, mut judged, records, missing } =
        read(config, disk, spaces, pool, judging, report).await?;
    records?;
    report.passed_over.append(&mut judged.passed_over);

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
    let dblwr = open_doublewrite(config, &**disk, mode, scanner.log_id())?;
    if mode == DoublewriteMode::Redo {
        spaces.set_redo_protects(true)?;
    }
    let end = scanner.position();
    if !judged.lost.is_empty() && !config.forced.is_on() {
        spaces.ban(judged.lost.iter().map(|(space, _)| *space), end)?;
        report.notes.extend(judged.lost.iter().map(|(space, table)| {
            let file = spaces.path(*space);
            format!(
                "the table {table} was given up: its changes in the redo log are lost, and {} is \
                 refused from now on",
                file.display()
            )
        }));
    }
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
        config.page_cleaners,
    );
    let applied = apply::apply(
        &mut scanner,
        end,
        std::mem::take(&mut judged.unreadable),
        std::mem::take(&mut judged.torn),
        pool,
        spaces,
        &reading,
        runtime,
        report,
        config.forced,
        stream,
    )
    .await;
    // Also a start that fails leaves nobody behind who writes.
    cleaner.stop().await;
    applied?;
    // Not earlier: until here the checkpoint has not moved, and a start that fails may be repeated
    // with the right file.
    if !judged.headless.is_empty() && !config.forced.is_on() {
        spaces.ban(judged.headless.iter().map(|(space, _)| *space), end)?;
        report.notes.extend(judged.headless.iter().map(|(_, file)| {
            format!(
                "the header of {file} cannot be read: what the redo log has of it is lost, and the \
                 file is refused from now on"
            )
        }));
    }
    Ok((scanner.finish(runtime.clone())?, dblwr, judged))
}

/// Starts with innodb_force_recovery=6: reads the pages as they lie in the files, and makes a new
/// redo log in memory for the engine's own writes.
pub(crate) async fn without_log(
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
    let copies = read_copies(config, &**disk, Lsn(0), None, report)?;
    let mut judged = judge_pages(pool, spaces, &copies, config.forced)?;
    report.passed_over.append(&mut judged.passed_over);
    report.passed_over.push("the redo log".into());
    report.repaired = copies.repair(&**spaces)?;
    let dblwr = open_doublewrite(config, &**disk, DoublewriteMode::Off, 0)?;
    let small = LogConfig { capacity_bytes: 16 << 20, segment_bytes: 4 << 20, ..config.log() };
    for name in disk.list(&small.dir).unwrap_or_default() {
        disk.remove(&small.dir.join(&name)).map_err(|e| Error::io(name, &e))?;
    }
    Ok((Log::create(disk.clone(), runtime.clone(), small)?, dblwr, judged))
}

fn open_doublewrite(
    config: &Config,
    disk: &dyn Disk,
    mode: DoublewriteMode,
    log_id: u64,
) -> Result<Arc<Doublewrite>> {
    let options = DoublewriteConfig { mode, ..config.doublewrite.clone() };
    Doublewrite::open(disk, config.doublewrite_dir(), &options, SEGMENTS, log_id)
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
/// Reads the doublewrite files. A forced start does without files that cannot be read.
fn read_copies(
    config: &Config,
    disk: &dyn Disk,
    checkpoint: Lsn,
    log_id: Option<u64>,
    report: &mut Report,
) -> Result<Copies> {
    match Copies::read(disk, config.doublewrite_dir(), checkpoint, log_id) {
        Err(e) if config.forced.is_on() => {
            report.passed_over.push(e.to_string());
            Ok(Copies::default())
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
        Ok(_) => register.lost = Some(NoRegister::Foreign),
        // A directory of an older format has no register.
        Err(NoRegister::Missing) if scanner.format() < 3 => {}
        Err(why) => register.lost = Some(why),
    }
    if let Some(why) = register.lost {
        // A start that is refused says it beside the page (TORN-4).
        report.notes.push(format!(
            "{} {why}; a new file replaces it. This start could not check whether a data file was \
             replaced by an older copy. Nor could it rebuild pages that a crash has torn: if the \
             server ran with innodb_doublewrite=REDO and did not stop cleanly, such pages count as \
             damaged, and a copy of the directory from before this start with its {} is needed to \
             rebuild them",
            register::FILE,
            register::FILE
        ));
    }
    register.log_id = scanner.log_id();
    spaces.set_register(register);
    Ok(durable)
}

/// Refuses to make a new instance in a directory that has been used and whose redo log is missing.
/// The rest of an interrupted creation does not count as used.
pub(crate) fn refuse_if_used(config: &Config, disk: &Arc<dyn Disk>, spaces: &Spaces) -> Result<()> {
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
pub(crate) fn create(
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
    // Copies of an instance that was here before are of no use to the new one.
    for path in (0..SEGMENTS).map(|n| dir.join(file_name(n))).filter(|path| disk.exists(path)) {
        disk.remove(&path).map_err(|e| Error::io(path.display(), &e))?;
    }
    Copies::read(&**disk, config.doublewrite_dir(), Lsn(0), Some(NO_LOG))?;
    disk.sync_dir(dir).map_err(|e| Error::io(dir.display(), &e))?;
    let log = Log::create(disk.clone(), runtime.clone(), config.log())?;
    let dblwr = open_doublewrite(config, &**disk, mode, log.log_id())?;
    report.created = true;
    report.end = log.tail();
    Ok((log, dblwr))
}

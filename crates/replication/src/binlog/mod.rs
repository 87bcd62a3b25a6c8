//! The binary log as the engine's stream, and the task that follows the durable redo log.
//!
//! - FOLLOW-1: only records below the durable LSN get into the files, so a reader never sees a
//!   transaction that a crash takes back.
//! - FOLLOW-2: the checkpoint waits at the last barrier whose bytes are synced (STREAM-3). The task
//!   appends a barrier when the redo log behind the last one is an eighth of the capacity.
//! - FOLLOW-3: the records in memory are bounded: commits wait while the task is behind
//!   ([`Binlog::admit`]). So a full disk holds commits up, and nothing is half logged.
mod admin;
pub(crate) mod counters;
mod expiry;
mod orders;
mod readers;
mod reset;
mod stages;
#[cfg(test)]
mod tests;

pub use admin::Purged;
pub use counters::Counted;
use counters::{Counts, add};
pub use readers::Reading;
pub use reset::MOST_RESET_NUMBER;
use reset::Reset;
use stages::Stages;
pub use stages::{StageCounted, StageSettings};

use crate::files::{ClosedFiles, Files, Place};
use crate::maker::{Maker, Taken};
use crate::queue::Queue;
use crate::record::{self, Options, Record, Why};
use crate::replicas::Replicas;
use crate::semi_sync::SemiSync;
use crate::spill::{self, Spill, SpillReader};
use crate::state::State;
use crate::tail::Tail;
use crate::wakers::Wakers;
use parking_lot::Mutex;
use redolith_binlog::{BinlogPosition, Event, GtidSet, ReadError, Reader};
use redolith_disk::{Disk, File, OpenHow};
use redolith_engine::commit_stream::CommitStream;
use redolith_engine::{Engine, Error, Lsn, Result, TrxId};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::task::Poll;
use std::time::Duration;

/// Commits wait while this many bytes of records are in memory.
const MOST_BYTES: u64 = 64 << 20;
/// How often the task looks at the durable LSN while records wait for it: with readers, at first
/// and under a load that goes on, and without a reader. (Each look wakes every reader. A commit
/// that waits for replicas has the task look at once.)
const LOOK_FOR_READERS: Duration = Duration::from_millis(1);
const LOOK_UNDER_LOAD: Duration = Duration::from_millis(4);
const LOOK: Duration = Duration::from_millis(10);
/// How often it looks whether a barrier is wanted.
const LOOK_AT_REST: Duration = Duration::from_millis(100);
/// The pause after an error of the disk.
const PAUSE: Duration = Duration::from_secs(1);
/// Parts of this size are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The position and the transactions of the binary log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinlogStatus {
    /// The end of the last file.
    pub position: Option<BinlogPosition>,
    /// `gtid_executed`.
    pub executed: GtidSet,
    /// Everything whose redo ends here or before is in the files.
    pub lsn: Lsn,
    /// How often the log has begun anew since the start: a reader of a file of before has nothing
    /// to go on with.
    pub resets: u64,
}

/// What only the task changes.
struct Work {
    maker: Maker,
    files: Files,
    /// Records that are not in the files, and an empty queue to exchange for the full one.
    waiting: Queue,
    spare: Queue,
    /// Whether a barrier was appended that has not come back.
    barrier: bool,
    /// What the last record asked for and is not done. No record is taken before it is.
    unfinished: Unfinished,
    /// Spill files that were copied, and where the commits' records begin (SPILL-1).
    copied: Vec<(Lsn, u64)>,
    /// The record of the reset that a start has not come to yet: until then nothing is written
    /// (BINLOG-FILES-2).
    reset_ahead: Option<Lsn>,
    /// Whether a start has dropped bytes because a reset is ahead.
    dropped: bool,
}
enum Unfinished {
    Nothing,
    /// A barrier whose frame ends here.
    Barrier(Lsn),
    /// The spill file of the record that begins here.
    Copy(Lsn, Option<SpillReader>),
    /// A reset.
    Reset(Reset),
}

/// What the files have.
struct Reached {
    /// The resets before.
    resets: u64,
    /// Everything whose redo ends here or before is in the files.
    lsn: Lsn,
    position: Option<BinlogPosition>,
    executed: GtidSet,
    /// The file that has bytes that are not synced. Those before it are.
    file: Option<(PathBuf, Arc<dyn File>)>,
}

/// The binary log of an engine. [`Engine::open_with`] gets it, then [`Binlog::start`] begins its
/// task.
pub struct Binlog {
    disk: Arc<dyn Disk>,
    place: Place,
    /// Records that the task has not seen.
    queue: Mutex<Queue>,
    /// The bytes of all records in memory.
    bytes: AtomicU64,
    work: Mutex<Work>,
    /// What the checkpoint may hold: the state at the last barrier that is synced.
    safe: Mutex<State>,
    limit: AtomicU64,
    status: Mutex<BinlogStatus>,
    /// Woken when the status moves.
    moved: Wakers,
    /// Woken when the task has to look.
    wanted: Arc<Wakers>,
    /// Whether the task waits for `wanted` without looking at the durable LSN.
    at_rest: AtomicBool,
    /// The file that each reader is in.
    readers: Mutex<BTreeMap<u64, u32>>,
    next_reader: AtomicU64,
    /// PREVIOUS_GTIDS of the oldest file, and which file that is: the resets before it, its number.
    purged: Mutex<Option<((u64, u32), GtidSet)>>,
    /// The files before the one that is written.
    closed: Arc<ClosedFiles>,
    /// The end of the log, for the readers.
    tail: Arc<Tail>,
    /// `binlog_expire_logs_seconds`, and the file up to which expired files were looked for.
    expire_seconds: AtomicU64,
    expired_at: AtomicU32,
    /// The replicas that are connected.
    replicas: Replicas,
    semi_sync: Arc<SemiSync>,
    stages: Stages,
    /// How many records wait that may take long: their events are in spill files.
    long: AtomicU64,
    counts: Arc<Counts>,
    /// When the last turn began that took everything durable to the files.
    caught_up_us: AtomicU64,
    /// Why the last turn of the task could not write the files.
    failed: Mutex<Option<String>>,
    closing: AtomicBool,
    ended: AtomicBool,
}

impl Binlog {
    /// The binary log at `place`. Reads the index, and changes nothing.
    pub fn new(disk: Arc<dyn Disk>, place: Place) -> io::Result<Arc<Binlog>> {
        let maker = Maker::new(&place.base, State::default());
        let counts = Arc::new(Counts::default());
        let files = Files::open(disk.clone(), place.clone(), counts.clone())?;
        let wanted = Arc::new(Wakers::default());
        let (tail, closed) = (files.tail().clone(), files.closed().clone());
        let semi_sync = SemiSync::new(&place.base, wanted.clone());
        let caught_up_us = AtomicU64::new(disk.now().as_micros() as u64);
        Ok(Arc::new(Binlog {
            disk,
            place,
            queue: Mutex::default(),
            bytes: AtomicU64::new(0),
            work: Mutex::new(Work {
                maker,
                files,
                waiting: Queue::default(),
                spare: Queue::default(),
                barrier: false,
                unfinished: Unfinished::Nothing,
                copied: Vec::new(),
                reset_ahead: None,
                dropped: false,
            }),
            safe: Mutex::new(State::default()),
            limit: AtomicU64::new(0),
            status: Mutex::default(),
            moved: Wakers::default(),
            wanted,
            at_rest: AtomicBool::new(false),
            readers: Mutex::default(),
            next_reader: AtomicU64::new(0),
            purged: Mutex::default(),
            closed,
            tail,
            expire_seconds: AtomicU64::new(0),
            expired_at: AtomicU32::new(u32::MAX),
            replicas: Replicas::default(),
            semi_sync,
            stages: Stages::default(),
            long: AtomicU64::new(0),
            counts,
            caught_up_us,
            failed: Mutex::default(),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }))
    }

    /// Begins the task, and a new file. No commit may have a record before this returns.
    pub async fn start(self: &Arc<Binlog>, engine: &Arc<Engine>, options: Options) -> Result<()> {
        let (me, to) = (self.clone(), engine.clone());
        engine.runtime.spawn_thread(
            "binlog",
            Box::pin(async move {
                me.follow(&to).await;
                me.ended.store(true, Release);
                me.moved.wake();
            }),
        );
        self.rotate(engine, Why::Start, options).await
    }

    /// Waits while too many bytes of records are in memory (FOLLOW-3). To be called before a commit
    /// with a record.
    #[inline]
    pub async fn admit(&self) {
        if self.bytes.load(Relaxed) >= MOST_BYTES {
            self.wait_for_room().await;
        }
    }
    #[cold]
    async fn wait_for_room(&self) {
        loop {
            let seen = self.moved.seen();
            if self.bytes.load(Acquire) < MOST_BYTES {
                return;
            }
            self.wanted.wake();
            self.moved.after(seen).await;
        }
    }

    /// Waits until everything whose redo ends at `lsn` or before is in the files. The redo log must
    /// be durable up to there, or become so.
    pub async fn catch_up(&self, lsn: Lsn) {
        loop {
            let seen = self.moved.seen();
            if self.status.lock().lsn >= lsn || self.ended.load(Acquire) {
                return;
            }
            self.wanted.wake();
            self.moved.after(seen).await;
        }
    }

    /// The state of the files now.
    pub fn status(&self) -> BinlogStatus {
        self.status.lock().clone()
    }
    /// The files, oldest first, with the length of each.
    pub fn list(&self) -> io::Result<Vec<(u32, u64)>> {
        let work = self.work.lock();
        let end = self.status().position;
        let numbers = work.files.numbers();
        let len = |n: u32| match end.filter(|end| end.file == n) {
            Some(end) => Ok(end.offset),
            None => work.files.len(n),
        };
        numbers.into_iter().map(|n| Ok((n, len(n)?))).collect()
    }
    /// The numbers of the files up to the published end, the oldest first.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers = self.work.lock().files.numbers();
        let last = self.end().map_or(0, |end| end.file);
        numbers.retain(|n| *n <= last);
        numbers
    }
    /// The length of a file that is not written any more.
    pub fn file_len(&self, number: u32) -> io::Result<u64> {
        self.disk.open(&self.place().path(number), OpenHow::existing(false))?.len()
    }
    /// The end of the last file.
    pub fn end(&self) -> Option<BinlogPosition> {
        self.status.lock().position
    }
    /// How often the log has begun anew since the start, and the end of the last file.
    pub fn place_now(&self) -> (u64, Option<BinlogPosition>) {
        let status = self.status.lock();
        (status.resets, status.position)
    }
    /// Everything whose redo ends here or before is in the files.
    pub fn lsn(&self) -> Lsn {
        self.status.lock().lsn
    }
    /// The time, in seconds since 1970, at which a file was begun.
    pub fn begun_at(&self, number: u32) -> std::result::Result<u32, ReadError> {
        let mut reader = self.open_file(number)?.0;
        Ok(reader.next_event()?.map_or(0, |event| event.header.timestamp))
    }
    /// Brings everything that is durable, and ends at `lsn` or before, to the files now. Returns
    /// what the disk says, where the task would try again.
    pub fn materialize(&self, durable: Lsn) -> io::Result<()> {
        if self.status.lock().lsn >= durable { Ok(()) } else { self.advance(durable) }
    }
    /// How files are made.
    pub fn options(&self) -> Options {
        self.work.lock().maker.state().options.clone()
    }
    /// The replicas that are connected.
    pub fn replicas(&self) -> &Replicas {
        &self.replicas
    }
    /// How commits wait for replicas.
    pub fn semi_sync(&self) -> &Arc<SemiSync> {
        &self.semi_sync
    }
    /// Switches semi-synchronous replication on or off.
    pub fn enable_semi_sync(&self, on: bool) {
        self.semi_sync.enable(on, || {
            let status = self.status.lock();
            (status.lsn, status.position)
        });
    }
    /// Opens a file for reading, up to the end that is published. The second part is its
    /// PREVIOUS_GTIDS.
    pub fn open_file(&self, number: u32) -> std::result::Result<(Reader, GtidSet), ReadError> {
        let place = self.place();
        let mut reader = Reader::open(&*self.disk, &place.path(number))?;
        if let Some(end) = self.end().filter(|end| end.file == number) {
            reader.set_end(end.offset);
        }
        let mut previous = GtidSet::new();
        reader.next_event()?;
        if let Some(event) = reader.next_event()?
            && let Event::PreviousGtids(set) = event.decode()?
        {
            previous = set;
        }
        reader.seek(0);
        Ok((reader, previous))
    }
    /// A file for the events of a transaction that outgrow memory.
    pub fn spill(&self) -> io::Result<Spill> {
        Spill::create(self.disk.clone(), self.place.clone())
    }
    /// Where the files are.
    pub fn place(&self) -> &Place {
        &self.place
    }
    fn now_us(&self) -> u64 {
        self.disk.wall_us().max(0) as u64
    }

    /// The task: follows the durable LSN until the binary log is closed.
    async fn follow(&self, engine: &Arc<Engine>) {
        let (mut look, mut asked) = (LOOK_FOR_READERS, 0);
        loop {
            let seen = self.wanted.seen();
            let closing = self.closing.load(Acquire);
            let asked = std::mem::replace(&mut asked, seen) != seen || closing;
            // Leaders of the classic commit take the records along.
            let advanced = match self.stages.flushes() && !asked {
                true => Ok(()),
                false => self.advance(engine.store.log.durable()),
            };
            match advanced {
                Ok(()) => *self.failed.lock() = None,
                Err(e) => {
                    let told = self.failed.lock().replace(e.to_string()).is_some();
                    self.moved.wake();
                    if !told {
                        tracing::error!(
                            "the binary log cannot be written: {e}. Commits wait when {} MiB of \
                             events are in memory. Free disk space, or restore the file that the \
                             error names; the server tries again and again",
                            MOST_BYTES >> 20
                        );
                    }
                    if closing {
                        // The next start makes the files from the redo log.
                        return;
                    }
                    engine.runtime.sleep(PAUSE).await;
                    continue;
                }
            }
            if closing {
                return self.close();
            }
            self.remove_spills(engine.store.log.checkpoint_lsn());
            self.expire_behind();
            if let Some(end) = self.want_barrier(engine) {
                engine.store.log.flush_to(end).await;
                continue;
            }
            // The flag is set before the queue is looked at, and a record is queued before the flag
            // is looked at, so that one of the two sees the other.
            self.at_rest.store(true, SeqCst);
            let pause = if self.bytes.load(SeqCst) == 0 {
                look = LOOK_FOR_READERS;
                LOOK_AT_REST
            } else {
                self.at_rest.store(false, SeqCst);
                let now = look;
                look = (2 * look).min(LOOK_UNDER_LOAD);
                if self.tail.is_wanted() { now } else { LOOK }
            };
            either(engine.runtime.sleep(pause), self.wanted.after(seen)).await;
            self.at_rest.store(false, SeqCst);
        }
    }

    /// Everything is in the files, and only a rotation may follow: no record is needed any more.
    fn close(&self) {
        let mut work = self.work.lock();
        work.files.sync();
        *self.safe.lock() = work.maker.state().clone();
        self.limit.store(Lsn::MAX.0, Release);
    }

    /// Appends a barrier if the checkpoint is to move on (FOLLOW-2). Returns its end.
    fn want_barrier(&self, engine: &Engine) -> Option<Lsn> {
        let log = &engine.store.log;
        let behind = log.durable().0.saturating_sub(self.limit.load(Acquire));
        let mut work = self.work.lock();
        if behind < log.capacity_bytes() / 8 || work.barrier {
            return None;
        }
        // Without room the barrier is tried again at the next turn.
        let end = engine.append_barrier(&Record::Barrier.encode());
        work.barrier = end.is_some();
        end
    }

    /// Takes all records below `durable` to the files.
    pub(crate) fn advance(&self, durable: Lsn) -> io::Result<()> {
        let mut work = self.work.lock();
        let reached = self.write_durable(&mut work, durable)?;
        if self.stages.syncs_first() {
            work.files.sync();
        }
        let moved = self.publish(&reached);
        drop(work);
        if moved {
            self.moved.wake();
        }
        Ok(())
    }
    /// As `advance`, but nobody hears of it.
    fn write_durable(&self, work: &mut Work, durable: Lsn) -> io::Result<Reached> {
        let began_us = self.disk.now().as_micros() as u64;
        self.finish(work)?;
        // STREAM-2: the queue is read after the durable LSN.
        std::mem::swap(&mut work.spare, &mut *self.queue.lock());
        let mut fresh = std::mem::take(&mut work.spare);
        work.waiting.add(&mut fresh);
        work.spare = fresh;
        let mut waiting = std::mem::take(&mut work.waiting);
        let taken = self.take_all(work, &mut waiting, durable);
        work.waiting = waiting;
        taken?;
        work.write()?;
        self.count(work, began_us);
        Ok(self.reached(work, durable))
    }
    fn reached(&self, work: &Work, lsn: Lsn) -> Reached {
        let state = work.maker.state();
        let position =
            (state.file > 0).then_some(BinlogPosition { file: state.file, offset: state.offset });
        Reached {
            resets: self.status.lock().resets,
            lsn,
            position,
            executed: state.executed.clone(),
            file: work.files.unsynced(),
        }
    }
    fn take_all(&self, work: &mut Work, waiting: &mut Queue, durable: Lsn) -> io::Result<()> {
        while let Some((at, end, record)) = waiting.first().filter(|(_, end, _)| *end <= durable) {
            self.bytes.fetch_sub(record.len() as u64, AcqRel);
            if record::is_spilled(record) {
                self.long.fetch_sub(1, AcqRel);
            }
            let taken = self.take(work, at, end, record);
            waiting.pass();
            taken?;
        }
        Ok(())
    }
    fn take(&self, work: &mut Work, at: Lsn, end: Lsn, record: &[u8]) -> io::Result<()> {
        work.take(at, end, record).unwrap_or_else(|why| {
            // The record is ours, and the redo log has it: the next start would meet it again.
            redolith_engine::poison(&format!("a record of the binary log at LSN {at}: {why}"))
        });
        self.finish(work)
    }
    /// Does what the last record asked for.
    fn finish(&self, work: &mut Work) -> io::Result<()> {
        self.finish_reset(work)?;
        work.finish_copy(&*self.disk)?;
        if let Unfinished::Barrier(end) = work.unfinished {
            work.write()?;
            work.files.sync();
            (work.barrier, work.unfinished) = (false, Unfinished::Nothing);
            add(&self.counts.barriers, 1);
            work.maker.pass(end);
            *self.safe.lock() = work.maker.state().clone();
            self.limit.store(end.0, Release);
        }
        Ok(())
    }
    /// Removes the spill files of which no start needs the events any more (SPILL-1).
    fn remove_spills(&self, checkpoint: Lsn) {
        let work = &mut *self.work.lock();
        work.forget_reset(checkpoint);
        let place = work.files.place();
        work.copied.retain(|(at, number)| {
            let needed = *at >= checkpoint;
            if !needed {
                spill::remove(&*self.disk, place, *number);
            }
            needed
        });
    }
    /// Tells what is in the files. Returns whether that is new: another may have told of more.
    fn publish(&self, reached: &Reached) -> bool {
        let Reached { position, executed, lsn, .. } = reached;
        let mut status = self.status.lock();
        if status.lsn > *lsn || status.resets != reached.resets {
            return false;
        }
        let moved = status.lsn < *lsn || status.position != *position;
        if status.position != *position {
            status.position = *position;
            status.executed.clone_from(executed);
        }
        status.lsn = *lsn;
        // Under the lock, so that no mark of the log before a reset comes behind the reset.
        let changed = moved.then_some(*position).flatten();
        changed.into_iter().for_each(|position| self.semi_sync.published(*lsn, position));
        moved
    }
}

impl Work {
    fn take(&mut self, at: Lsn, end: Lsn, record: &[u8]) -> std::result::Result<(), String> {
        self.unfinished = match self.maker.take(at, record)? {
            Taken::Whole => Unfinished::Nothing,
            Taken::Reset => Unfinished::Reset(Reset { at, end, removed: false }),
            Taken::Barrier => Unfinished::Barrier(end),
            Taken::Spilled(_) => Unfinished::Copy(at, None),
        };
        Ok(())
    }
    /// Copies the spill file that the last record names, and writes if there is enough to write.
    fn finish_copy(&mut self, disk: &dyn Disk) -> io::Result<()> {
        while let (Unfinished::Copy(at, reader), Some(spilled)) =
            (&mut self.unfinished, self.maker.copying())
        {
            let reader = match reader {
                Some(reader) => reader,
                None => reader.insert(SpillReader::open(disk, self.files.place(), spilled)?),
            };
            let at = *at;
            let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, why);
            if self.maker.wants_count() {
                let count = spill::count(disk, self.files.place(), spilled)?;
                self.maker.counted(count).map_err(wrong)?;
            }
            match reader.next()? {
                Some(events) => {
                    self.maker.copy(&events).map_err(wrong)?;
                    reader.taken(&events);
                }
                None => {
                    self.maker.copied().map_err(wrong)?;
                    self.copied.push((at, spilled.number));
                    self.files.count_spilled(spilled.len);
                    self.unfinished = Unfinished::Nothing;
                }
            }
            self.write_much()?;
        }
        self.write_much()
    }
    fn write_much(&mut self) -> io::Result<()> {
        let waiting = self.maker.waiting_bytes() + self.files.waiting_bytes();
        if waiting >= WRITE_BYTES { self.write() } else { Ok(()) }
    }
    /// Writes all that was made.
    fn write(&mut self) -> io::Result<()> {
        let parts = self.maker.take_parts();
        if self.reset_ahead.is_some() {
            self.dropped |= !parts.is_empty();
            return Ok(());
        }
        self.files.add(parts);
        self.files.write()
    }
}

impl CommitStream for Binlog {
    fn judge(&self, state: &[u8]) -> Result<()> {
        let mut work = self.work.lock();
        let place = work.files.place().clone();
        if state.is_empty() {
            work.reset_ahead = work.files.reset_mark();
            return Ok(());
        }
        let state = State::decode(state).map_err(|why| {
            Error::Incompatible(format!("the state of the binary log in redo/control: {why}"))
        })?;
        work.reset_ahead = work.files.reset_mark().filter(|at| *at >= state.lsn);
        let anew = state.file > 0
            && work.reset_ahead.is_none()
            && work.files.numbers().iter().all(|n| *n > state.file);
        if state.file > 0 && !anew && work.reset_ahead.is_none() {
            let path = place.path(state.file);
            let len = work.files.len(state.file).map_err(|e| {
                Error::Damaged(format!(
                    "{}: {e}. The binary log goes on in this file. Restore the file, or remove {} \
                     to begin a new binary log; then replicas have to be set up again",
                    path.display(),
                    place.index().display()
                ))
            })?;
            if len < state.offset {
                return Err(Error::Damaged(format!(
                    "{} has {len} bytes, and had {} durable: it is an older copy, or was cut. \
                     Restore the file, or remove {} to begin a new binary log; then replicas have \
                     to be set up again",
                    path.display(),
                    state.offset,
                    place.index().display()
                )));
            }
        }
        *self.safe.lock() = state.clone();
        work.maker = Maker::new(&place.base, state);
        if anew {
            // The user has removed the index, as the messages above say.
            work.maker.begin_anew(self.now_us()).map_err(|why| {
                Error::Incompatible(format!("{}: {why}", place.index().display()))
            })?;
            let file = work.maker.state().file;
            tracing::warn!(
                "{} does not name the file in which the binary log went on: a new binary log \
                 begins with {}. Replicas have to be set up again",
                place.index().display(),
                place.path(file).display()
            );
        }
        Ok(())
    }
    fn replay(&self, at: Lsn, record: &[u8]) -> Result<()> {
        let mut work = self.work.lock();
        work.take(at, at, record).map_err(|why| {
            Error::Damaged(format!("the binary log's record at LSN {at} of the redo log: {why}"))
        })?;
        if matches!(work.unfinished, Unfinished::Barrier(_)) {
            work.unfinished = Unfinished::Nothing;
        }
        work.replay_reset().map_err(|e| io_error(&work, &e))?;
        work.finish_copy(&*self.disk).map_err(|e| io_error(&work, &e))
    }
    fn begin(&self, end: Lsn) -> Result<()> {
        let mut work = self.work.lock();
        work.write().map_err(|e| io_error(&work, &e))?;
        work.judge_reset()?;
        let state = work.maker.state();
        let position = BinlogPosition { file: state.file, offset: state.offset };
        work.files.cut(position).map_err(|e| io_error(&work, &e))?;
        let kept: Vec<u64> = work.copied.iter().map(|(_, number)| *number).collect();
        spill::remove_others(&*self.disk, work.files.place(), &kept)
            .map_err(|e| io_error(&work, &e))?;
        let limit = self.safe.lock().lsn;
        self.limit.store(limit.0, Release);
        self.publish(&self.reached(&work, end));
        Ok(())
    }
    fn appended(&self, at: Lsn, end: Lsn, record: &[u8], hidden: Option<TrxId>) {
        hidden.into_iter().for_each(|id| self.stages.placed(end, id));
        self.bytes.fetch_add(record.len() as u64, SeqCst);
        self.queue.lock().push(at, end, record);
        if record::is_spilled(record) {
            self.long.fetch_add(1, AcqRel);
        }
        // A hidden commit has a leader that takes its record.
        if hidden.is_none() && self.at_rest.load(SeqCst) && self.at_rest.swap(false, SeqCst) {
            self.wanted.wake();
        }
    }
    fn limit(&self) -> Lsn {
        Lsn(self.limit.load(Acquire))
    }
    fn state(&self) -> Vec<u8> {
        self.safe.lock().encode()
    }
}

fn io_error(work: &Work, e: &io::Error) -> Error {
    Error::io(format_args!("writing the binary log {}", work.files.place().index().display()), e)
}

/// Waits for the first of two futures.
async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| {
        if a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

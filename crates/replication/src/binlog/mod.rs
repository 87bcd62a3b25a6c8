//! The binary log as the engine's stream, and the task that follows the durable redo log.
//!
//! - FOLLOW-1: only records below the durable LSN get into the files, so a reader never sees a
//!   transaction that a crash takes back.
//! - FOLLOW-2: the checkpoint waits at the last barrier whose bytes are synced (STREAM-3), or where
//!   the start began; until the first record it does not wait. The task appends a barrier when the
//!   redo log behind the last one is an eighth of the capacity.
//! - FOLLOW-3: the records in memory are bounded: commits wait while the task is behind
//!   ([`Binlog::admit`]). So a full disk holds commits up, and nothing is half logged.
mod admin;
pub(crate) mod counters;
mod expiry;
mod follow;
mod judging;
mod orders;
mod readers;
mod reset;
mod stages;
mod stream;
#[cfg(test)]
mod tests;
mod work;

pub use admin::Purged;
pub use counters::Counted;
use counters::Counts;
pub(crate) use judging::Outcome;
pub use readers::Reading;
pub use reset::MOST_RESET_NUMBER;
use stages::Stages;
pub use stages::{StageCounted, StageSettings};
use work::{Unfinished, Work};

use crate::files::{ClosedFiles, Files, Place};
use crate::maker::Maker;
use crate::queue::Queue;
use crate::record::{Options, Why};
use crate::replicas::Replicas;
use crate::semi_sync::SemiSync;
use crate::spill::Spill;
use crate::state::State;
use crate::tail::Tail;
use crate::wakers::Wakers;
use parking_lot::Mutex;
use redolith_binlog::{BinlogPosition, Event, GtidSet, ReadError, Reader};
use redolith_disk::{Disk, OpenHow};
use redolith_engine::{Engine, Error, Lsn, Result};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

/// Commits wait while this many bytes of records are in memory.
const MOST_BYTES: u64 = 64 << 20;
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
    /// How files are made: a copy of what `work` has, for who must not wait while a long
    /// transaction is written.
    options: Mutex<Options>,
    /// What the checkpoint may hold: the state at the last barrier that is synced.
    safe: Mutex<State>,
    limit: AtomicU64,
    /// A start has made the files, and no record has come since.
    no_records: AtomicBool,
    /// The file of a state that a checkpoint has, and how many resets were before it
    /// (BINLOG-FILES-5).
    stored: Mutex<(u64, u32)>,
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
        let options = Mutex::new(maker.state().options.clone());
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
                begins_anew: None,
                judging: None,
                surplus: None,
                outcome: None,
            }),
            options,
            safe: Mutex::new(State::default()),
            limit: AtomicU64::new(0),
            no_records: AtomicBool::new(false),
            stored: Mutex::default(),
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
    ///
    /// # Errors
    /// The GTIDs of so many servers are in the log that there is no room for another one (STATE-1).
    pub async fn start(self: &Arc<Binlog>, engine: &Arc<Engine>, options: Options) -> Result<()> {
        self.judge_server(&options)?;
        let (me, to) = (self.clone(), engine.clone());
        let task = Box::pin(async move {
            me.follow(&to).await;
            me.ended.store(true, Release);
            me.moved.wake();
        });
        let spawned = engine.runtime.spawn_thread("binlog", task);
        spawned.map_err(|e| Error::io("starting the thread of the binary log", &e))?;
        self.rotate(engine, Why::Start, options).await
    }

    fn judge_server(&self, options: &Options) -> Result<()> {
        let work = self.work.lock();
        let (state, uuid) = (work.maker.state(), options.uuid);
        if !options.gtids || state.has_room_for(uuid) {
            return Ok(());
        }
        let mut known = state.executed.servers().map(|(uuid, _)| uuid);
        let (first, others) = (known.next().unwrap_or(uuid), known.count());
        Err(Error::Incompatible(format!(
            "gtid_executed has the transactions of {} values of server_uuid, and no room for those \
             of another one, {uuid}. Write one that it has into the file server_uuid of the data \
             directory, such as {first}; or start with --gtid-mode=OFF, RESET BINARY LOGS AND \
             GTIDS, and start again: then replicas have to be set up again",
            others + 1
        )))
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
    /// What a start is going to do to the files, as far as it has been judged.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let work = self.work.lock();
        work.outcome.or_else(|| work.judging.as_ref()?.outcome())
    }
    /// Whether a reset has begun to remove files, and no checkpoint has passed it.
    pub(crate) fn is_reset(&self) -> bool {
        self.work.lock().files.reset_mark().is_some()
    }
    /// How files are made. Waits for no work on the files.
    pub fn options(&self) -> Options {
        self.options.lock().clone()
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
}

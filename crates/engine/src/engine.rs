//! The engine as a whole: its parts and their common services. `start.rs` has its start and stop.
use crate::buf::{BufConfig, PageIo};
use crate::dict::{self, Dictionary};
use crate::flush::{DoublewriteConfig, DoublewriteMode};
use crate::lock::{KillFlag, LockTable};
use crate::log::{LogConfig, SpaceWait};
use crate::mtr::{Mtr, Store};
use crate::page::Patch;
use crate::purge::History;
use crate::recovery::forced::Forced;
use crate::runtime::{BoxFuture, Runtime};
use crate::trx::Trx;
use crate::trx::sys::TrxSys;
use crate::trx::view::ReadView;
use crate::undo::UndoPages;
use crate::{Error, PAGE_SIZE, Result, SpaceId, Try, WouldBlock};
use parking_lot::{Mutex, RwLock};
use redolith_disk::Disk;
use std::any::Any;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::Poll;
use std::time::Duration;

/// How long a change of indexes waits for rollbacks in the background.
const ROLLBACKS_WAIT: Duration = Duration::from_secs(10);
/// How long a DDL statement waits for room in the redo log while it can still be given up.
const ROOM_WAIT: Duration = Duration::from_secs(50);
/// How often purge, while it waits for room in the redo log, looks whether a DDL statement or the
/// shutdown waits for purge.
const ROOM_LOOK: Duration = Duration::from_millis(200);
/// How long work that cannot be given up (rollbacks, purge, the rest of a DDL statement) waits for
/// room before the user is told why.
const ROOM_TOLD: Duration = Duration::from_secs(10);

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory.
    pub dir: PathBuf,
    /// The bytes of the buffer pool.
    pub pool_bytes: u64,
    /// The most bytes that the buffer pool may get while the engine runs. If it is less than
    /// `pool_bytes`, the pool does not grow. Address space is taken for so many, and no memory.
    pub pool_max_bytes: u64,
    /// The number of instances of the buffer pool, with 64 pages each at least; with 0 the number
    /// is chosen as in MySQL.
    pub pool_instances: usize,
    /// The most bytes of redo between checkpoint and tail.
    pub log_capacity_bytes: u64,
    /// Bytes of a segment file of the redo log, when the log is made.
    pub log_segment_bytes: u64,
    /// Bytes of the log buffer.
    pub log_buffer_bytes: usize,
    /// How pages are protected against tearing.
    pub doublewrite: DoublewriteConfig,
    /// The page writes per second in the background, and the most page writes per second.
    pub io_capacity: u32,
    /// The most page writes a second, when the redo log fills.
    pub io_capacity_max: u32,
    /// The number of tasks that write pages in the background, at least 1.
    pub page_cleaners: usize,
    /// The most tasks that purge, and the logs of history for each further task.
    pub purge_threads: usize,
    /// Logs of history for each further task of purge.
    pub purge_logs_per_task: u64,
    /// Whether and how far to read a damaged directory, without changing anything.
    pub forced: Forced,
}
impl Config {
    /// The defaults of MySQL's settings, for the directory `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Config {
        Config {
            dir: dir.into(),
            pool_bytes: 128 << 20,
            pool_max_bytes: 0,
            pool_instances: 0,
            log_capacity_bytes: 1 << 30,
            log_segment_bytes: 16 << 20,
            log_buffer_bytes: 16 << 20,
            doublewrite: DoublewriteConfig::default(),
            io_capacity: 2000,
            io_capacity_max: 4000,
            page_cleaners: 2,
            purge_threads: 4,
            purge_logs_per_task: 512,
            forced: Forced::default(),
        }
    }
    pub(crate) fn doublewrite_dir(&self) -> &Path {
        self.doublewrite.dir.as_deref().unwrap_or(&self.dir)
    }
    pub(crate) fn log(&self) -> LogConfig {
        let capacity_bytes = self.log_capacity_bytes.max(1 << 20);
        LogConfig {
            dir: self.dir.join("redo"),
            // The capacity of a new redo log must have room for at least four segments.
            segment_bytes: self.log_segment_bytes.min(1 << (capacity_bytes / 4).ilog2()),
            capacity_bytes,
            buffer_bytes: (self.log_buffer_bytes / 4096 * 4096).max(65536),
        }
    }
    pub(crate) fn buf(&self) -> BufConfig {
        let mut config = BufConfig::new(self.pool_bytes, self.log().capacity_bytes);
        config.frames_max = ((self.pool_max_bytes / PAGE_SIZE as u64) as usize).max(config.frames);
        if self.pool_instances > 0 {
            config.instances = self.pool_instances;
        }
        config
    }
}

/// An open data directory. [`Engine::open`] makes it, [`Engine::close`] ends it.
pub struct Engine {
    /// How the engine was set up.
    pub config: Config,
    /// All access to files, to the clock and to randomness.
    pub disk: Arc<dyn Disk>,
    /// Tasks and timers.
    pub runtime: Arc<dyn Runtime>,
    /// Pages, files and the redo log.
    pub store: Store,
    /// Locks of rows and ranges.
    pub locks: Arc<LockTable>,
    /// The active transactions, and read views.
    pub sys: Arc<TrxSys>,
    /// Where undo records are written.
    pub undo: UndoPages,
    /// What purge has to do.
    pub history: History,
    /// What transactions have counted.
    pub counts: crate::metrics::Counts,
    /// The view up to which purge may have removed versions. Walks backwards end at a version by a
    /// transaction that this view sees. Latches are taken before this lock.
    pub(crate) horizon: RwLock<ReadView>,
    /// All definitions.
    pub dict: Dictionary,
    pub(crate) dict_table: Arc<crate::dict::table::Table>,
    pub(crate) closing: AtomicBool,
    /// The dictionary has all tables: the start has come so far.
    pub(crate) is_resolved: AtomicBool,
    /// The ids of the tables that a start has found with trees that belong to no index, see
    /// [`crate::dict::record::TableRecord`].
    pub(crate) unfinished: Mutex<Vec<u64>>,
    /// The trees that the background frees, and whether it is done with them: they are freed, or
    /// stay in use because they are damaged (FREETREE-1).
    pub(crate) freeing: Mutex<hashbrown::HashMap<u64, bool>>,
    pub(crate) flusher: Arc<crate::flush::Flusher>,
    pub(crate) pool_list: crate::pool_list::PoolList,
    pub(crate) pool_resize: crate::pool_resize::PoolResize,
    /// Prepared transactions that the start has found.
    pub(crate) prepared: Mutex<Vec<crate::trx::prepare::Prepared>>,
    /// Settings of page writing that change at run time.
    pub flush_settings: Arc<crate::flush::FlushSettings>,
    /// The number of rollbacks in the background (TRX-C).
    pub(crate) rollbacks: AtomicUsize,
    /// The number of background tasks that have not ended.
    pub(crate) running: AtomicUsize,
    /// Notified when the engine begins to close, and when a task has ended.
    pub(crate) close_step: crate::sync::event::Event,
    pub(crate) dir_locks: Mutex<Vec<Box<dyn Any + Send + Sync>>>,
}

/// BUF-3: the futures of rows' operations may move between threads, and guards may not, so no latch
/// lives across an await. The compiler checks it; nobody calls the function.
const _: () = {
    #[allow(dead_code)]
    fn futures_are_send(
        trx: &mut Trx,
        t: &Arc<crate::dict::table::Table>,
        row: crate::row::update::RowAt<'_>,
        c: &mut crate::row::cursor::Cursor,
    ) {
        fn send<T: Send>(_: T) {}
        send(trx.insert(t, &[]));
        send(trx.update(t, row, &[]));
        send(trx.delete(t, row));
        send(trx.commit());
        send(trx.rollback());
        send(c.next(trx));
        send(c.payload(trx));
    }
};

impl Engine {
    /// Makes a transaction for a session. `kill` ends its waits.
    pub fn begin(self: &Arc<Engine>, kill: Arc<KillFlag>) -> Trx {
        Trx::new(self.clone(), kill)
    }
    /// How pages are protected against tearing at the moment.
    pub fn doublewrite_mode(&self) -> DoublewriteMode {
        self.flusher.doublewrite().mode()
    }
    /// Changes how the pages that are written from now on are protected. Returns false if the
    /// present mode cannot be left, or the new mode cannot be entered, while the engine runs.
    pub fn set_doublewrite_mode(&self, mode: DoublewriteMode) -> bool {
        self.flusher.doublewrite().set_mode(mode)
    }
    /// The open data files, each with whether it has atomic writes of a page.
    pub fn atomic_files(&self) -> Vec<(PathBuf, bool)> {
        let spaces = self.store.spaces.all();
        spaces.iter().map(|s| (s.path.clone(), s.file.writes_atomically(PAGE_SIZE))).collect()
    }
    /// The number of rollbacks in the background, for sessions that are gone or could not wait.
    pub(crate) fn background_rollbacks(&self) -> usize {
        self.rollbacks.load(std::sync::atomic::Ordering::Acquire)
    }
    /// Waits until no rollback is left in the background, or fails like a wait for a lock. These
    /// rollbacks hold no metadata locks.
    pub(crate) async fn wait_for_rollbacks(&self) -> Result<()> {
        let end = self.disk.now() + ROLLBACKS_WAIT;
        while self.background_rollbacks() > 0 {
            if self.disk.now() >= end {
                return Err(Error::LockWaitTimeout);
            }
            self.nap(Duration::from_millis(10)).await;
        }
        Ok(())
    }
    /// Tells the user why writers have waited too long for room in the redo log, once until a
    /// checkpoint makes room.
    pub(crate) fn tell_log_full(&self) {
        let log = &self.store.log;
        if log.tell_full() {
            let (used, capacity) =
                (log.tail().0.saturating_sub(log.checkpoint_lsn().0), log.capacity_now());
            tracing::warn!(
                "the redo log is full ({used} of {capacity} bytes): writers, rollbacks \
                 and purge wait until the checkpoint at LSN {} can advance. What holds it: {}. \
                 Check the disk of the data files, or SET GLOBAL innodb_redo_log_capacity to more",
                log.checkpoint_lsn(),
                self.flusher.held_by()
            );
        }
    }
    /// Waits for room in the redo log without limit, and tells the user why if the wait is long.
    async fn wait_room(&self, mut wait: SpaceWait<'_>) -> Result<()> {
        loop {
            match in_time(&mut wait, &mut self.runtime.sleep(ROOM_TOLD)).await {
                Some(done) => return done,
                None => self.tell_log_full(),
            }
        }
    }
    /// As [`Engine::retry`], for work that can still be given up: returns `Error::LogFull` if the
    /// redo log has no room for too long.
    pub(crate) async fn retry_in_time<T>(&self, mut call: impl FnMut() -> Try<T>) -> Result<T> {
        let (log, mut timer) = (&self.store.log, None);
        loop {
            let mut wait = match call() {
                Ok(x) => return Ok(x),
                Err(WouldBlock::LogSpace(bytes)) => log.wait_space(bytes),
                Err(WouldBlock::LogReserve(bytes)) => log.wait_space_reserved(bytes),
                Err(other) => {
                    self.unblocked(other).await?;
                    continue;
                }
            };
            match in_time(&mut wait, timer.get_or_insert_with(|| self.runtime.sleep(ROOM_WAIT)))
                .await
            {
                Some(done) => done?,
                None => {
                    self.tell_log_full();
                    return Err(Error::LogFull);
                }
            }
        }
    }
    /// Waits, for purge, for ordinary room in the redo log. Fails with `Error::LogFull` if a DDL
    /// statement or the shutdown waits for purge.
    pub(crate) async fn room_for_purge(&self) -> Result<()> {
        let Err(blocked) = Mtr::begin(&self.store).map(drop) else { return Ok(()) };
        let WouldBlock::LogSpace(bytes) = blocked else { return self.unblocked(blocked).await };
        let (mut wait, begun) = (self.store.log.wait_space(bytes), self.disk.now());
        loop {
            match in_time(&mut wait, &mut self.runtime.sleep(ROOM_LOOK)).await {
                Some(done) => return done,
                None if self.history.is_held()
                    || self.closing.load(std::sync::atomic::Ordering::Acquire) =>
                {
                    return Err(Error::LogFull);
                }
                None if self.disk.now().saturating_sub(begun) >= ROOM_TOLD => self.tell_log_full(),
                None => {}
            }
        }
    }
    /// Waits until a call that returned `blocked` can be tried again. The wait for a row lock
    /// belongs to the transaction (`Trx::unblocked`).
    pub(crate) async fn unblocked(&self, blocked: WouldBlock) -> Result<()> {
        match blocked {
            WouldBlock::Page(id) => {
                let cuts = self.undo.truncation.begun();
                let loaded = self.store.pool.load(id).await;
                // A reader may look for a version whose undo record went with the replaced file
                // (UCUT-1). It looks again, because the row names another undo record now.
                if loaded.is_err()
                    && SpaceId::UNDO.contains(&id.space)
                    && self.undo.truncation.begun() != cuts
                {
                    Ok(())
                } else {
                    loaded
                }
            }
            WouldBlock::Frame => {
                self.store.pool.wait_frame().await;
                // The page cleaners may run on this thread.
                self.runtime.yield_now().await;
                Ok(())
            }
            WouldBlock::LogSpace(bytes) => self.wait_room(self.store.log.wait_space(bytes)).await,
            WouldBlock::LogReserve(bytes) => {
                self.wait_room(self.store.log.wait_space_reserved(bytes)).await
            }
            WouldBlock::Extend(space) => {
                self.runtime.before_blocking();
                self.store.spaces.extend(space)
            }
            WouldBlock::Failed(e) => Err(e),
            WouldBlock::Lock(_) => unreachable!("row locks are waited for by their transaction"),
        }
    }
    /// Repeats a call until it does not block.
    pub(crate) async fn retry<T>(&self, mut call: impl FnMut() -> Try<T>) -> Result<T> {
        loop {
            match call() {
                Ok(x) => return Ok(x),
                Err(s) => self.unblocked(s).await?,
            }
        }
    }
    /// The file and the table of a space, for messages.
    pub(crate) fn describe(&self, space: SpaceId) -> (String, String) {
        self.store.spaces.describe(space)
    }
    /// Persists a higher mark, below which transaction numbers may be drawn.
    pub(crate) async fn raise_high_water(self: Arc<Engine>) -> Result<()> {
        let Some(mark) = self.sys.reserve_needed() else { return Ok(()) };
        let lsn = self
            .retry_in_time(|| {
                let mut m = Mtr::begin_reserved(&self.store)?;
                let p = m.x(dict::COUNTERS)?;
                let now = crate::bytes::u64_at(m.page(p), dict::HIGH_WATER);
                m.patch(p).write_u64(dict::HIGH_WATER, now.max(mark.0));
                Ok(m.commit())
            })
            .await?;
        self.store.log.flush_to(lsn).await;
        self.sys.set_high_water(mark);
        Ok(())
    }
    /// Takes `n` consecutive object ids, and returns the first.
    pub(crate) async fn take_ids(&self, n: u64) -> Result<u64> {
        self.retry_in_time(|| {
            let mut m = Mtr::begin_reserved(&self.store)?;
            let p = m.x(dict::COUNTERS)?;
            let first = crate::bytes::u64_at(m.page(p), dict::NEXT_ID);
            m.patch(p).write_u64(dict::NEXT_ID, first + n);
            m.commit();
            Ok(first)
        })
        .await
    }
}
/// The result of `f`, or None if the timer ends first.
pub(crate) async fn in_time<F: Future + Unpin>(
    f: &mut F,
    timer: &mut BoxFuture<()>,
) -> Option<F::Output> {
    poll_fn(|cx| match Pin::new(&mut *f).poll(cx) {
        Poll::Ready(x) => Poll::Ready(Some(x)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}

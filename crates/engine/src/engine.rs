//! The engine as a whole: what it is made of, how it starts and stops.
use crate::buf::{BufConfig, PageIo};
use crate::dict::{self, Dictionary};
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
use crate::{Error, Result, SpaceId, Try, WouldBlock};
use parking_lot::{Mutex, RwLock};
use redolith_disk::Disk;
use std::any::Any;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::Poll;
use std::time::Duration;

/// How long a change of indexes waits for rollbacks in the background.
const ROLLBACKS_WAIT: Duration = Duration::from_secs(10);
/// How long a DDL statement waits for room in the log, where it can still be given up.
const ROOM_WAIT: Duration = Duration::from_secs(50);
/// How often purge, which waits for it, looks whether it is waited for.
const ROOM_LOOK: Duration = Duration::from_millis(200);
/// When it is said why those wait that cannot give up: rollbacks, purge, what follows a
/// DDL statement.
const ROOM_TOLD: Duration = Duration::from_secs(10);

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory.
    pub dir: PathBuf,
    /// Bytes of the buffer pool.
    pub pool_bytes: u64,
    /// Into how many instances it is divided, each with 64 pages at least; 0: as MySQL does.
    pub pool_instances: usize,
    /// Most bytes of redo between checkpoint and tail.
    pub log_capacity_bytes: u64,
    /// Bytes of a segment file of the redo log, when the log is made.
    pub log_segment_bytes: u64,
    /// Bytes of the log buffer.
    pub log_buffer_bytes: usize,
    /// Whether a copy of each page is made durable before the page is written in place.
    pub doublewrite: bool,
    /// Page writes a second in the background, and at most.
    pub io_capacity: u32,
    /// The most page writes a second, when the redo log fills.
    pub io_capacity_max: u32,
    /// Tasks that purge, at most; and for so many logs of history one more.
    pub purge_threads: usize,
    /// Logs of history for each further task of purge.
    pub purge_logs_per_task: u64,
    /// Read a damaged directory, and change nothing.
    pub forced: Forced,
}
impl Config {
    /// The defaults of MySQL's settings, for the directory `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Config {
        Config {
            dir: dir.into(),
            pool_bytes: 128 << 20,
            pool_instances: 0,
            log_capacity_bytes: 1 << 30,
            log_segment_bytes: 16 << 20,
            log_buffer_bytes: 16 << 20,
            doublewrite: true,
            io_capacity: 2000,
            io_capacity_max: 4000,
            purge_threads: 4,
            purge_logs_per_task: 512,
            forced: Forced::default(),
        }
    }
    pub(crate) fn log(&self) -> LogConfig {
        let capacity_bytes = self.log_capacity_bytes.max(1 << 20);
        LogConfig {
            dir: self.dir.join("redo"),
            // Of a new log: four of them at least fit in.
            segment_bytes: self.log_segment_bytes.min(1 << (capacity_bytes / 4).ilog2()),
            capacity_bytes,
            buffer_bytes: (self.log_buffer_bytes / 4096 * 4096).max(65536),
        }
    }
    pub(crate) fn buf(&self) -> BufConfig {
        let mut config = BufConfig::new(self.pool_bytes, self.log().capacity_bytes);
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
    /// Purge has removed nothing that this view could need: a version by a transaction that it sees
    /// is where walks backwards end. Latches are taken before it.
    pub(crate) horizon: RwLock<ReadView>,
    /// All definitions.
    pub dict: Dictionary,
    pub(crate) dict_table: Arc<crate::dict::table::Table>,
    pub(crate) closing: AtomicBool,
    /// Tables with trees that belong to no index; see [`crate::dict::record::TableRecord`].
    pub(crate) unfinished: Mutex<Vec<crate::dict::record::TableRecord>>,
    pub(crate) flusher: Arc<crate::flush::Flusher>,
    /// Settings of page writing that change at run time.
    pub flush_settings: Arc<crate::flush::FlushSettings>,
    /// Rollbacks in the background (TRX-C).
    pub(crate) rollbacks: AtomicUsize,
    /// Background tasks that have not ended.
    pub(crate) running: AtomicUsize,
    /// The engine begins to close, or a task has ended.
    pub(crate) close_step: crate::sync::event::Event,
    pub(crate) dir_lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
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
    /// A transaction of a session; `kill` ends its waits.
    pub fn begin(self: &Arc<Engine>, kill: Arc<KillFlag>) -> Trx {
        Trx::new(self.clone(), kill)
    }
    /// Rollbacks that go on in the background, for sessions that are gone or could not wait.
    pub fn background_rollbacks(&self) -> usize {
        self.rollbacks.load(std::sync::atomic::Ordering::Acquire)
    }
    /// Waits until none goes on (they hold no metadata locks), or fails like a wait for a lock.
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
    /// Says, once until it is over, why writers have waited too long for room in the log.
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
    /// Waits for room in the log as long as it takes, and says why.
    async fn wait_room(&self, mut wait: SpaceWait<'_>) -> Result<()> {
        loop {
            match in_time(&mut wait, &mut self.runtime.sleep(ROOM_TOLD)).await {
                Some(done) => return done,
                None => self.tell_log_full(),
            }
        }
    }
    /// [`Engine::retry`] for what can still be given up: `Error::LogFull` if there is no room in
    /// the log for too long.
    pub(crate) async fn retry_in_time<T>(&self, mut call: impl FnMut() -> Try<T>) -> Result<T> {
        let (log, mut timer) = (&self.store.log, None);
        loop {
            let mut wait = match call() {
                Ok(x) => return Ok(x),
                Err(WouldBlock::LogSpace) => log.wait_space(),
                Err(WouldBlock::LogReserve) => log.wait_space_reserved(),
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
    /// For purge: waits for ordinary room in the log, or fails with `Error::LogFull` when others
    /// wait for purge.
    pub(crate) async fn room_for_purge(&self) -> Result<()> {
        let Err(blocked) = Mtr::begin(&self.store).map(drop) else { return Ok(()) };
        if !matches!(blocked, WouldBlock::LogSpace) {
            return self.unblocked(blocked).await;
        }
        let (mut wait, begun) = (self.store.log.wait_space(), self.disk.now());
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
    /// Waits for what a call would block on; a row lock is waited for by its transaction
    /// (`Trx::unblocked`).
    pub(crate) async fn unblocked(&self, blocked: WouldBlock) -> Result<()> {
        match blocked {
            WouldBlock::Page(id) => {
                let cuts = self.undo.truncation.begun();
                let loaded = self.store.pool.load(id).await;
                // Who looked for a version when its undo record went with the file (UCUT-1) looks
                // again: the row names another by now.
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
                // The cleaners may be on this thread.
                self.runtime.yield_now().await;
                Ok(())
            }
            WouldBlock::LogSpace => self.wait_room(self.store.log.wait_space()).await,
            WouldBlock::LogReserve => self.wait_room(self.store.log.wait_space_reserved()).await,
            WouldBlock::Extend(space) => {
                self.runtime.before_blocking();
                self.store.spaces.extend(space)
            }
            WouldBlock::Failed(e) => Err(e),
            WouldBlock::Lock(_) => unreachable!("row locks are waited for by their transaction"),
        }
    }
    /// Calls until it does not block.
    pub(crate) async fn retry<T>(&self, mut call: impl FnMut() -> Try<T>) -> Result<T> {
        loop {
            match call() {
                Ok(x) => return Ok(x),
                Err(s) => self.unblocked(s).await?,
            }
        }
    }
    /// File and table of a space, for messages.
    pub(crate) fn describe(&self, space: SpaceId) -> (String, String) {
        self.store.spaces.describe(space)
    }
    /// Persists a higher mark below which transaction numbers may be handed out.
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
    /// Takes `n` consecutive object ids.
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
/// What `f` comes to, or None if the timer ends before it does.
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

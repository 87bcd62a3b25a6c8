//! The redo log: one endless stream of frames, made durable in groups.
//!
//! ```text
//! credit ─► append: reserve, copy, enter, publish ─► buffer ─► LogWriter ─► segments ─► durable
//! durable ─► waits wake
//! checkpoint ─► segments are reused, credit is free again
//! ```
//!
//! `README.md` in this folder follows a commit through the redo log in ten steps. The folders:
//! `append` (a frame's room, place and bytes), `commit` (waiting for an LSN, and the leadership),
//! `write` (write, sync, segments), `policy` (the choice of the configuration), `recovery` (the
//! checkpoint file, and reading the redo log to its end).
//!
//! - LOG-1: `checkpoint <= durable <= written <= ready <= tail`.
//! - LOG-2: `durable` moves only over a contiguous completed prefix.
//! - LOG-3: nothing above the checkpoint is ever overwritten: a segment is reused only when all of
//!   it is below the checkpoint.
//! - LOG-4: a failed write or sync of the redo log ends the process ([`crate::poison`]). It is
//!   never tried again.
//!
//! Lock order: `staging` (leader) or `syncing`, then `writing` (then `waits.kept`) or
//! `segments.open`. No lock is taken under `control`. The policy's `choice` comes before the
//! notification of `waits`. For the rest of the engine all of them are leaves.

mod append;
mod commit;
mod counters;
mod policy;
mod recovery;
mod resize;
#[cfg(all(test, not(model)))]
mod tests;
mod write;
mod write_policy;

#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub use append::credit::Credit;
pub(crate) use append::credit_wait::SpaceWait;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub use append::frame::FRAME_HEADER;
pub(crate) use append::frame::FRAME_PAYLOAD_MAX;
pub(crate) use commit::leader::DurableWait;
#[cfg(all(test, not(model)))]
use commit::leader::OwnedWait;
pub(crate) use recovery::checkpoint_file::CHECKPOINT_PAYLOAD_MAX;
pub(crate) use recovery::inspect;
pub(crate) use recovery::log_reader::FrameScanner;
pub(crate) use write::overlapped_writes::DEPTH_MAX;
pub use write_policy::{PolicySettings, WriterMode};

use crate::base::{Error, Lsn, Result, Try};
use crate::runtime::{BoxFuture, Runtime};
use crate::sync::notify::Notify;
pub(crate) use append::buffer::Reservations;
use append::buffer::Ring;
use append::credit::{Bounds, Class, LogRoom};
use append::frame;
use commit::leader::{CommitQueue, Event, Flushed};
use commit::lsn_waiters::{Goal, Waits};
use counters::Counters;
use parking_lot::Mutex;
use recovery::checkpoint_file::{Control, FORMAT, State};
use redolith_disk::{AlignedBuf, Disk, File};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;
use write::segment_allocator;
use write::segments::Segments;
use write::write_cursor::{BLOCK, LogWriter, WRITE_MAX};
use write_policy::PolicyInUse;

/// The LSN of the first frame of a new log. It is not 0, so that LSN 0 is no position of anything.
pub(crate) const FIRST_LSN: Lsn = Lsn(BLOCK);

#[derive(Debug, Clone)]
pub struct LogConfig {
    pub dir: PathBuf,
    /// The bytes of the stream in a segment: a multiple of 4096, at least 16384. An existing log
    /// keeps the value with which it was created.
    pub segment_bytes: u64,
    /// The most bytes of the stream between checkpoint and tail: at least 65536, for a new log at
    /// least four segments.
    pub capacity_bytes: u64,
    /// The size of the log buffer: a multiple of 4096, at least 65536.
    pub buffer_bytes: usize,
}
impl LogConfig {
    pub fn new(dir: impl Into<PathBuf>) -> LogConfig {
        LogConfig {
            dir: dir.into(),
            segment_bytes: 16 << 20,
            capacity_bytes: 1 << 30,
            buffer_bytes: 16 << 20,
        }
    }
    fn check(&self, new: bool) -> Result<()> {
        let wrong = |what: &str| Err(Error::Unsupported(format!("redo log settings: {what}")));
        match self {
            c if !c.segment_bytes.is_multiple_of(BLOCK) || c.segment_bytes < 16384 => {
                wrong("the segment size has to be a multiple of 4096 bytes, and at least 16384")
            }
            c if c.capacity_bytes < if new { 4 * c.segment_bytes } else { 65536 } => {
                wrong("the capacity of a new log has to be at least four segments")
            }
            c if !c.buffer_bytes.is_multiple_of(BLOCK as usize) || c.buffer_bytes < 65536 => {
                wrong("the buffer size has to be a multiple of 4096 bytes, and at least 65536")
            }
            _ => Ok(()),
        }
    }
}

pub struct Log {
    /// For writes that end in other threads.
    me: Weak<Log>,
    runtime: Arc<dyn Runtime>,
    disk: Arc<dyn Disk>,
    /// The CRC-32C of log id and epoch, with which the checksum of every frame begins.
    seed: u32,
    order: Reservations,
    ring: Ring,
    room: LogRoom,
    waits: Waits,
    policy_in_use: PolicyInUse,
    /// The seconds between two flushes of redo that no commit waits for.
    flush_seconds: AtomicU64,
    writing: Mutex<Writing>,
    /// A copy of the bytes to write: appenders still fill the last block of a write while the write
    /// goes on. Only the leader locks it, for the length of its writes.
    staging: Mutex<AlignedBuf>,
    /// Held during a sync (WRITE-2).
    syncing: Mutex<()>,
    /// Notified when the flusher of a dedicated writer has work.
    flusher: Arc<Notify>,
    segments: Segments,
    control: Mutex<Checkpoints>,
    checkpoint: AtomicU64,
    counters: Counters,
    allocator: Arc<Notify>,
    /// Closed when the segment allocator has ended.
    allocator_over: Arc<Notify>,
    /// The size that the buffer is to get.
    buffer_wanted: AtomicU64,
    /// Whether the user has been told that writers wait for a checkpoint.
    full_told: AtomicBool,
    /// The number of the segment in use when the segment allocator was last notified.
    segments_asked: AtomicU64,
    /// Notified when writers wait because the checkpoint must move.
    pressure: Notify,
    closed: AtomicBool,
}
struct Checkpoints {
    control: Control,
    /// The first LSN and the number of each epoch at or after the checkpoint.
    epochs: Vec<(u64, u64)>,
}
struct Writing {
    state: LogWriter,
    /// The files with writes that are not durable yet.
    unsynced: Vec<Arc<dyn File>>,
    wake: Vec<Waker>,
    /// The durable bytes up to this LSN have been counted as flushed.
    counted: u64,
    /// Memory for later writes in flight.
    spare: Vec<AlignedBuf>,
}

impl Log {
    /// Whether the directory has a log. A log whose creation was interrupted does not count.
    pub fn exists(disk: &dyn Disk, config: &LogConfig) -> bool {
        disk.exists(&Control::path(&config.dir))
    }
    /// Creates a new, empty log, and clears away the files of an interrupted creation.
    pub fn create(
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        config: LogConfig,
    ) -> Result<Arc<Log>> {
        config.check(true)?;
        let dir = config.dir.clone();
        let fail = |e: std::io::Error| Error::io(dir.display(), &e);
        disk.create_dir_all(&dir).map_err(fail)?;
        if let Some(parent) = dir.parent() {
            disk.sync_dir(parent).map_err(fail)?;
        }
        if Log::exists(&*disk, &config) {
            return Err(Error::Unsupported(format!(
                "the directory {} has a redo log already",
                dir.display()
            )));
        }
        for name in disk.list(&dir).map_err(fail)? {
            if name.starts_with("log_") || name.starts_with("control") {
                disk.remove(&dir.join(&name)).map_err(fail)?;
            }
        }
        let first = FIRST_LSN.0;
        let state = State {
            format: FORMAT,
            log_id: disk.random(),
            sequence: 0,
            checkpoint: first,
            checkpoint_epoch: 1,
            epoch: 1,
            segment_bytes: config.segment_bytes,
            durable: first,
            ..State::default()
        };
        let segments =
            Segments::create(disk.clone(), dir.clone(), state.log_id, config.segment_bytes, first)?;
        // The control file comes last: with it the log exists.
        let control = Control::create(&*disk, &dir, state)?;
        Log::start(disk, runtime, config, control, segments, vec![(first, 1)], first, &[])
    }
    /// Opens an existing log for recovery. The caller reads the frames, then calls `finish`.
    pub fn recover(disk: Arc<dyn Disk>, config: LogConfig) -> Result<(Vec<u8>, FrameScanner)> {
        let scanner = FrameScanner::open(disk, config)?;
        Ok((scanner.checkpoint_payload().to_vec(), scanner))
    }
    /// Starts the log. `block` is the LSN at which the last block begins, and `tail_block` is the
    /// content of this block. Everything below `block + tail_block.len()` is durable.
    #[allow(clippy::too_many_arguments)]
    fn start(
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        config: LogConfig,
        control: Control,
        segments: Segments,
        epochs: Vec<(u64, u64)>,
        block: u64,
        tail_block: &[u8],
    ) -> Result<Arc<Log>> {
        let tail = block + tail_block.len() as u64;
        let ring = Ring::new(config.buffer_bytes.next_power_of_two());
        // SAFETY: no other thread has the ring yet.
        unsafe { ring.fill(block, tail_block) };
        let state = control.state();
        let bounds = Bounds {
            written: tail,
            buffer_bytes: config.buffer_bytes as u64,
            buffer_from: 0,
            checkpoint: state.checkpoint,
            in_force_bytes: config.capacity_bytes,
            capacity_bytes: config.capacity_bytes,
            files_end: segments.end(),
            segment_bytes: config.segment_bytes,
        };
        let writing = Writing {
            state: LogWriter::new(tail, config.segment_bytes),
            unsynced: Vec::new(),
            wake: Vec::new(),
            counted: tail,
            spare: Vec::new(),
        };
        let (seed, checkpoint) = (frame::seed(state.log_id, state.epoch), state.checkpoint);
        let log = Arc::new_cyclic(|me| Log {
            me: me.clone(),
            runtime,
            disk,
            seed,
            order: Reservations::new(tail, append::buffer::SLOTS),
            ring,
            room: LogRoom::new(tail, bounds),
            waits: Waits::new(tail),
            policy_in_use: PolicyInUse::default(),
            flush_seconds: AtomicU64::new(1),
            writing: Mutex::new(writing),
            staging: Mutex::new(AlignedBuf::new(WRITE_MAX as usize)),
            syncing: Mutex::new(()),
            flusher: Arc::default(),
            segments,
            checkpoint: AtomicU64::new(checkpoint),
            control: Mutex::new(Checkpoints { control, epochs }),
            counters: Counters::new(),
            allocator: Arc::new(Notify::default()),
            allocator_over: Arc::new(Notify::default()),
            buffer_wanted: AtomicU64::new(config.buffer_bytes as u64),
            full_told: AtomicBool::new(false),
            segments_asked: AtomicU64::new(tail / config.segment_bytes),
            pressure: Notify::default(),
            closed: AtomicBool::new(false),
        });
        log.allocator.notify();
        segment_allocator::spawn(&log);
        policy::spawn(&log);
        Ok(log)
    }

    /// Takes room for a frame of at most `max_bytes`, header included. The caller holds no latches.
    /// If there is no room now, returns `WouldBlock::LogSpace` (CREDIT-4); the caller waits with
    /// [`Log::wait_space`].
    pub fn credit(&self, max_bytes: usize) -> Try<Credit<'_>> {
        self.room.credit(max_bytes as u64, Class::Ordinary)
    }
    /// As `credit`, but may use the reserve: for rollback, undo and the page cleaners, without
    /// which no room would ever become free.
    pub fn credit_reserved(&self, max_bytes: usize) -> Try<Credit<'_>> {
        self.room.credit(max_bytes as u64, Class::Reserved)
    }
    /// As `credit`, from the bytes that all others leave: for small frames without which the
    /// checkpoint could not move. The caller does not wait, and tries again later.
    pub fn credit_last(&self, max_bytes: usize) -> Try<Credit<'_>> {
        self.room.credit(max_bytes as u64, Class::Last)
    }
    /// The largest frame that can ever get credit, in bytes.
    pub fn credit_max(&self) -> usize {
        (self.room.credit_max() as usize).min(FRAME_HEADER + FRAME_PAYLOAD_MAX)
    }

    /// Appends a frame, which consists of `FRAME_HEADER` bytes to be filled in here, and the
    /// payload. `placed` and `enter` get the frame's first LSN and the LSN after the frame's end:
    /// `placed` before the frame can become durable, `enter` at any time after that. `enter` stamps
    /// the pages and enters them in the dirty index; until it returns, no checkpoint passes the
    /// frame. Returns the end of the frame, which is durable when `durable()` is at or above this
    /// LSN.
    pub fn append(
        &self,
        frame: &mut [u8],
        credit: Credit<'_>,
        placed: impl FnOnce(Lsn, Lsn),
        enter: impl FnOnce(Lsn, Lsn),
    ) -> Lsn {
        let len = frame.len() as u64;
        assert!(
            frame.len() > FRAME_HEADER && frame.len() <= FRAME_HEADER + FRAME_PAYLOAD_MAX,
            "a frame has a payload of at most 16 MiB"
        );
        assert!(len <= credit.bytes(), "CREDIT-1: {len} bytes with credit for {}", credit.bytes());
        let crc = frame::payload_crc(self.seed, &frame[FRAME_HEADER..]);
        let durable = self.waits.durable();
        let seat = self.order.seat();
        let start = seat.reserve(&self.order, len);
        frame::finish(frame, frame::KIND_CHANGES, start, durable, crc);
        // SAFETY: the range was just reserved, and credit keeps the range clear of bytes that are
        // not written yet (CREDIT-1, CREDIT-2).
        unsafe { self.ring.fill(start, frame) };
        // Only frames that are copied become durable.
        placed(Lsn(start), Lsn(start + len));
        seat.copied();
        enter(Lsn(start), Lsn(start + len));
        seat.entered(len);
        credit.spend(len);
        Lsn(start + len)
    }

    /// Resolves when everything below `lsn` is durable; `lsn` is at most the tail. Dropping the
    /// future gives up the wait, not the write.
    pub fn wait_durable(&self, lsn: Lsn) -> DurableWait<'_> {
        DurableWait::new(self, lsn, true)
    }
    /// Resolves when everything below `lsn` is handed to the operating system. Such bytes survive
    /// the end of the process, but not the end of the machine.
    pub fn wait_written(&self, lsn: Lsn) -> DurableWait<'_> {
        DurableWait::new(self, lsn, false)
    }
    /// As `wait_durable`, but the future borrows nothing.
    #[cfg(all(test, not(model)))]
    fn owned_wait(self: &Arc<Self>, lsn: Lsn) -> OwnedWait {
        OwnedWait::new(self.clone(), lsn)
    }
    /// Makes everything below `lsn` durable for the engine itself. The wait does not count as a
    /// session's wait.
    pub fn flush_to(&self, lsn: Lsn) -> DurableWait<'_> {
        DurableWait::uncounted(self, lsn)
    }
    /// Resolves when a request for `bytes` bytes that would block is worth another try, or
    /// returns `Error::DiskFull` if a segment is needed and cannot be made. Each call tries to make
    /// the segment once more.
    pub fn wait_space(&self, bytes: u64) -> SpaceWait<'_> {
        SpaceWait::new(self, bytes, Class::Ordinary)
    }
    /// As `wait_space`, after a `credit_reserved` that would block.
    pub fn wait_space_reserved(&self, bytes: u64) -> SpaceWait<'_> {
        SpaceWait::new(self, bytes, Class::Reserved)
    }

    /// The random number that identifies this log, drawn when the log was created.
    pub fn log_id(&self) -> u64 {
        self.control.lock().control.state().log_id
    }
    /// The LSN at which the next frame will begin.
    pub fn tail(&self) -> Lsn {
        Lsn(self.order.tail())
    }
    pub fn written(&self) -> Lsn {
        Lsn(self.waits.written())
    }
    pub fn durable(&self) -> Lsn {
        Lsn(self.waits.durable())
    }
    /// The end of a frame below which all is durable: [`Log::durable`] may lie inside a frame.
    pub fn durable_frames(&self) -> Lsn {
        Lsn(self.writing.lock().state.durable_frames())
    }
    /// Every frame below this LSN has been entered in the dirty index. A checkpoint reads this LSN
    /// first, and then the index.
    pub fn dirty_low(&self) -> Lsn {
        Lsn(self.order.dirty_low())
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.checkpoint.load(Acquire))
    }
    /// Sets `innodb_flush_log_at_timeout`: the seconds until redo that no commit waits for is
    /// durable.
    pub fn set_flush_seconds(&self, seconds: u64) {
        self.flush_seconds.store(seconds, Relaxed);
    }
    /// Tells the pacing of flushes how long a session took from one commit to its next commit.
    pub fn session_committed_after(&self, time: Duration) {
        self.policy_in_use.session_committed_after(time);
    }
    /// Resolves when writers wait until the checkpoint moves. Only one task may wait here.
    pub async fn checkpoint_wanted(&self) {
        self.pressure.wait().await;
    }

    /// Makes `lsn` the place where recovery begins. Recovery returns `payload`, which has at most
    /// `CHECKPOINT_PAYLOAD_MAX` bytes. All changes of pages below `lsn` must be synced in their
    /// files. Segments that lie wholly below `lsn` are reused afterwards.
    pub fn write_checkpoint(&self, lsn: Lsn, payload: &[u8]) {
        let durable = self.durable();
        assert!(lsn <= durable, "LOG-1: checkpoint {lsn} above durable {durable}");
        let mut c = self.control.lock();
        // Segments that are about to be cut still have their names. Their end was lowered first.
        let segment = self.segments.bytes;
        let files_end = self.room.bounds().files_end / segment * segment;
        let segments_end = self.segments.end().min(files_end);
        let past = c.epochs.partition_point(|e| e.0 <= lsn.0);
        assert!(past > 0, "CTL-2: checkpoint {lsn} goes back");
        let epoch = c.epochs[past - 1].1;
        c.control.checkpoint(lsn.0, epoch, payload, durable.0, segments_end);
        c.epochs.drain(..past - 1);
        self.checkpoint.store(lsn.0, Release);
        drop(c);
        self.counters.writer.log_checkpoints.fetch_add(1, Relaxed);
        self.room.set_checkpoint(lsn.0);
        self.full_told.store(false, Relaxed);
        self.allocator.notify();
    }

    /// Calls `f` with the name and value of every counter.
    pub fn counters(&self, mut f: impl FnMut(&'static str, u64)) {
        let (frames, bytes) = self.order.counts();
        f("log_write_requests", frames);
        f("log_write_request_bytes", bytes);
        self.counters.each(&mut f);
        f("log_lsn_current", self.tail().0);
        f("log_lsn_last_flush", self.durable().0);
        f("log_lsn_last_checkpoint", self.checkpoint_lsn().0);
        f("log_lsn_checkpoint_age", self.tail().0.saturating_sub(self.checkpoint_lsn().0));
        f("log_segments", self.segments.count() as u64);
        self.sizes(&mut f);
        f("log_writer_mode", self.mode() as u64 - 1);
        f("log_flush_depth", self.depth() as u64);
        self.policy_counters(&mut f);
    }
    /// Makes everything durable and ends the background tasks. No append may follow.
    pub async fn close(&self) {
        let tail = self.tail();
        self.flush_to(tail).await;
        // Another engine may open the directory soon. This engine must no longer make, rename or
        // remove a segment then, nor write to the control file.
        self.stop();
        self.allocator_over.wait().await;
        if self.checkpoint_lsn() == tail {
            self.control.lock().control.close();
        }
    }
    fn stop(&self) {
        self.closed.store(true, Release);
        self.allocator.close();
        self.waits.dedicated_notify().close();
        self.flusher.close();
    }
    fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CommitQueue for Log {
    fn waits(&self) -> &Waits {
        &self.waits
    }
    fn ready(&self) -> u64 {
        self.order.ready()
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.runtime.yield_now()
    }
    fn hold(&self) -> Option<BoxFuture<()>> {
        if self.policy_in_use.hold().is_zero() {
            return None;
        }
        let left = self.policy_in_use.held_back(self.disk.now())?;
        self.counters.writer.log_flush_holds.fetch_add(1, Relaxed);
        self.counters.writer.log_flush_hold_time_us.fetch_add(left.as_micros() as u64, Relaxed);
        Some(self.runtime.pause(left))
    }
    fn gathers(&self) -> bool {
        self.mode() != WriterMode::Session
    }
    fn count(&self, goal: &Goal, event: Event) {
        use counters::Session as S;
        self.counters.session(match (event, goal.durable) {
            (Event::NoWait, true) => S::log_on_flush_no_waits,
            (Event::Wait, true) => S::log_on_flush_waits,
            (Event::Loop, true) => S::log_on_flush_wait_loops,
            (Event::NoWait, false) => S::log_on_write_no_waits,
            (Event::Wait, false) => S::log_on_write_waits,
            (Event::Loop, false) => S::log_on_write_wait_loops,
            (Event::CopyLoop, _) => S::log_on_recent_written_wait_loops,
        });
    }
    fn flush(&self, durable: bool) -> Flushed {
        self.flush_ready(durable)
    }
}

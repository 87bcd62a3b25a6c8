//! The background tasks: cleaners and the checkpointer.
//!
//! Each cleaner works in rounds: first it frees frames (it writes cold dirty pages, so that
//! sessions find free frames), then it writes its share of the rate ([`super::rate`]) from the
//! oldest dirty pages, then it syncs if enough batches wait for a sync. All cleaners share one
//! token bucket, which sets the pace.
//!
//! FLUSH-8: a cleaner looks through an LRU list only until it finds a page that it can write or a
//! frame that it can free. So each batch costs about as many steps as it has pages, also where most
//! pages are dirty, and not as many as the pool has.
//! FLUSH-9: while sessions wait for log space, a millisecond passes between two checkpoints,
//! however often the sessions and the cleaners ask: a checkpoint is a write of the control file,
//! and what is freed by one that comes at once is little.
use super::rate::{self, Limits, Load};
use super::{Doublewrite, FlushSettings, LogView, Writer};
use crate::buf::{BufferPool, Latch};
use crate::checkpoint::{CheckpointSource, Checkpointer};
use crate::runtime::Runtime;
use crate::sync::event::{Event, either};
use crate::{Lsn, PageId, SpaceId, WouldBlock};
use parking_lot::Mutex;
use redolith_disk::Disk;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

/// The fewest tokens that are spent at once, unless fewer pages are dirty: each batch costs a sync
/// of the doublewrite file.
const MIN_BATCH: usize = 64;
/// How many times as deep a cleaner looks for cold pages that it can write or free, where it has
/// found none and sessions wait for frames.
const DEEPER: usize = 8;
/// How often the pace is recomputed.
const PACE: Duration = Duration::from_millis(100);
/// The least time between two checkpoints for sessions that wait.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(1);
/// How long cleaners go on at full speed after a session had to wait for log space.
const PRESSED: Duration = Duration::from_millis(100);

pub(crate) struct Flusher {
    writer: Writer,
    checkpointer: Checkpointer,
    disk: Arc<dyn Disk>,
    settings: Arc<FlushSettings>,
    pace: Mutex<Pace>,
    pressed_until_ms: AtomicU64,
    stopping: AtomicBool,
    running: AtomicUsize,
    /// Wakes the tasks, which look for work at once.
    notified: Event,
    stopped: Event,
}
#[derive(Default)]
struct Pace {
    at: Duration,
    /// When the log's speed was last measured; `tail` is the log's tail at that time.
    measured: Duration,
    tail: u64,
    log_bytes_per_s: f64,
    pages_per_s: f64,
    tokens: f64,
}

impl Flusher {
    /// Starts `cleaners` cleaner tasks and the checkpointer on `runtime`.
    #[allow(clippy::too_many_arguments)] // the parts it joins, each of its own type
    pub(crate) fn start(
        pool: Arc<BufferPool>,
        log: Arc<dyn LogView>,
        dblwr: Arc<Doublewrite>,
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        settings: Arc<FlushSettings>,
        source: Arc<dyn CheckpointSource>,
        cleaners: usize,
    ) -> Arc<Flusher> {
        let made = Flusher::new(pool, log, dblwr, disk, runtime.clone(), settings, source);
        let flusher = Arc::new(made);
        for _ in 0..cleaners.max(1) {
            flusher.spawn(&*runtime, "cleaner", |this| Box::pin(async move { this.clean().await }));
        }
        flusher.spawn(&*runtime, "checkpointer", |this| {
            Box::pin(async move { this.checkpoints().await })
        });
        flusher
    }
    #[allow(clippy::too_many_arguments)] // as of `start`
    fn new(
        pool: Arc<BufferPool>,
        log: Arc<dyn LogView>,
        dblwr: Arc<Doublewrite>,
        disk: Arc<dyn Disk>,
        runtime: Arc<dyn Runtime>,
        settings: Arc<FlushSettings>,
        source: Arc<dyn CheckpointSource>,
    ) -> Flusher {
        let now = disk.now();
        Flusher {
            pace: Mutex::new(Pace {
                at: now,
                measured: now,
                tail: log.tail().0,
                ..Pace::default()
            }),
            checkpointer: Checkpointer::new(pool.clone(), log.clone(), source),
            writer: Writer::new(pool, log, runtime, dblwr),
            disk,
            settings,
            pressed_until_ms: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            notified: Event::default(),
            stopped: Event::default(),
        }
    }
    /// A flusher whose tasks are the test's.
    #[cfg(all(test, not(model)))]
    pub(super) fn idle(
        pool: &Arc<BufferPool>,
        log: &Arc<impl LogView>,
        dblwr: &Arc<Doublewrite>,
        disk: &Arc<impl Disk>,
        runtime: Arc<dyn Runtime>,
        source: Arc<dyn CheckpointSource>,
    ) -> Flusher {
        let settings = Arc::default();
        Flusher::new(
            pool.clone(),
            log.clone(),
            dblwr.clone(),
            disk.clone(),
            runtime,
            settings,
            source,
        )
    }
    fn spawn(
        self: &Arc<Self>,
        runtime: &dyn Runtime,
        name: &'static str,
        task: impl FnOnce(Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>,
    ) {
        /// A task that panics has ended, too, or the shutdown would wait for it.
        struct Running(Arc<Flusher>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.running.fetch_sub(1, AcqRel);
                self.0.stopped.notify();
            }
        }
        self.running.fetch_add(1, AcqRel);
        let (running, body) = (Running(self.clone()), task(self.clone()));
        runtime.spawn(
            name,
            Box::pin(async move {
                let _running = running;
                body.await;
            }),
        );
    }
    /// How pages are protected against tearing.
    pub(crate) fn doublewrite(&self) -> &Doublewrite {
        self.writer.doublewrite()
    }
    /// Wakes the tasks: the log is short of space, or a caller is in a hurry.
    pub(crate) fn notify(&self) {
        self.notified.notify();
    }
    /// Ends the tasks. Batches under way are finished and synced, so that another flusher can take
    /// over. Dirty pages stay dirty: see [`Flusher::sharp`].
    pub(crate) async fn stop(&self) {
        self.stopping.store(true, Release);
        self.notify();
        self.writer.pool.frame_wanted.notify();
        loop {
            let seen = self.stopped.seen();
            if self.running.load(Acquire) == 0 {
                break;
            }
            self.stopped.after(seen).await;
        }
        // The dirty index and the doublewrite ring outlive this flusher, so all its tickets must be
        // finished.
        while self.writer.sync().await {}
    }

    async fn clean(&self) {
        let (writer, pool) = (&self.writer, &self.writer.pool);
        while !self.stopping.load(Acquire) {
            let (wanted, notified) = (pool.frame_wanted.seen(), self.notified.seen());
            pool.tick();
            let mut done = self.free_frames().await;
            let due = self.due();
            let urgent = due == usize::MAX;
            if due > 0 {
                done += self.write_oldest(due.min(self.writer.batch_pages()), urgent).await;
            }
            let wants_sync = writer.sync_due() || (urgent && done == 0);
            let synced = wants_sync && writer.sync().await;
            if synced && urgent {
                self.notify();
            }
            if done == 0 {
                // A session that waits for a frame is not told when a page is unpinned, so the
                // cleaner looks again soon.
                let hurry = urgent || pool.frame_freed.has_waiters();
                let nap =
                    writer.runtime.sleep(if hurry { Duration::from_millis(1) } else { PACE / 5 });
                either(nap, either(pool.frame_wanted.after(wanted), self.notified.after(notified)))
                    .await;
            }
        }
    }
    /// Keeps frames free, and writes cold dirty pages for that. Returns the number of pages
    /// written.
    async fn free_frames(&self) -> usize {
        let (writer, pool) = (&self.writer, &self.writer.pool);
        let pages = pool.pages().total;
        let target = (self.settings.lru_scan_depth.get() as usize).min(pages / 16).max(4);
        let (claimed, depth) = self.claim_cold(target);
        let written = writer.write(claimed, false).await;
        if written > 0 {
            pool.counters.pages_written_lru.add(written as u64);
            pool.refill_free(target, depth);
        }
        written
    }
    /// Frees frames of clean cold pages, and claims cold pages that have to be written first, at
    /// most a batch. Also returns how many pages of each LRU list it has looked at.
    pub(super) fn claim_cold(&self, target: usize) -> (Vec<u32>, usize) {
        let pool = &self.writer.pool;
        let (pages, mut depth) = (pool.pages().total, 4 * target);
        loop {
            let in_the_way = pool.refill_free(target, depth);
            // A session that was woken for a frame may not have used the frame, so the others are
            // woken again.
            if pool.frame_freed.has_waiters() {
                pool.frame_freed.notify_some(pool.free_frames());
            }
            let claim = |index: &u32| pool.dirty.claim(pool.frames.get(*index));
            let claimed: Vec<u32> =
                in_the_way.into_iter().filter(claim).take(self.writer.batch_pages()).collect();
            // FLUSH-8
            let looks_deeper = claimed.is_empty()
                && depth < pages
                && pool.free_frames() == 0
                && pool.frame_freed.has_waiters();
            if !looks_deeper {
                return (claimed, depth);
            }
            depth *= DEEPER;
        }
    }
    /// Writes up to `want` of the oldest dirty pages, and returns how many it wrote.
    async fn write_oldest(&self, want: usize, urgent: bool) -> usize {
        let pool = &self.writer.pool;
        let claimed = pool.dirty.claim_oldest(&pool.frames, want);
        self.writer.write(claimed, urgent).await
    }

    /// How many pages a cleaner should write now; MAX means as many as it can.
    fn due(&self) -> usize {
        let dirty = self.writer.pool.dirty.pages();
        let mut pace = self.pace.lock();
        let now = self.disk.now(); // read under the mutex, so `pace.at` is never later
        if now - pace.at >= PACE || pace.pages_per_s.is_infinite() {
            let load = self.load(&mut pace, now, dirty);
            pace.pages_per_s = rate::pages_per_second(&load, &self.limits());
            pace.tokens = if pace.pages_per_s.is_infinite() {
                self.writer.batch_pages() as f64
            } else {
                // Tokens of at most one second are saved up, and none where the pace is 0.
                let saved = pace.tokens + pace.pages_per_s * (now - pace.at).as_secs_f64();
                let most = if pace.pages_per_s > 0.0 {
                    pace.pages_per_s.max(self.writer.batch_pages() as f64)
                } else {
                    0.0
                };
                saved.min(most)
            };
            pace.at = now;
        }
        if pace.pages_per_s.is_infinite() || self.is_pressed() {
            return usize::MAX;
        }
        let portion = pace.tokens as usize;
        if dirty == 0 || portion < MIN_BATCH.min(dirty) {
            drop(pace);
            return 0;
        }
        let take = portion.min(self.writer.batch_pages()).min(dirty);
        pace.tokens -= take as f64;
        take
    }
    fn load(&self, pace: &mut Pace, now: Duration, dirty: usize) -> Load {
        let (pool, log) = (&self.writer.pool, &self.writer.log);
        let tail = log.tail();
        let elapsed = (now - pace.measured).as_secs_f64();
        if elapsed > 0.0 {
            let speed = (tail.0 - pace.tail) as f64 / elapsed;
            // The speed is a mean over about one second.
            let weight = elapsed.min(1.0);
            pace.log_bytes_per_s = pace.log_bytes_per_s * (1.0 - weight) + speed * weight;
            (pace.measured, pace.tail) = (now, tail.0);
        }
        let oldest = pool.dirty.oldest().min(tail);
        Load {
            age_bytes: (tail.0 - oldest.0) as f64,
            capacity_bytes: log.usable_bytes() as f64,
            log_bytes_per_s: pace.log_bytes_per_s,
            due_pages_per_s: if dirty == 0 {
                0.0
            } else {
                pool.dirty.count(oldest, pace.log_bytes_per_s as u64) as f64
            },
            dirty_pages: dirty as f64,
            total_pages: pool.size() as f64,
        }
    }
    fn limits(&self) -> Limits {
        let s = &self.settings;
        let share = |setting: &crate::buf::Setting| f64::from(setting.get()) / 10_000.0;
        Limits {
            io_capacity: f64::from(s.io_capacity.get()),
            io_capacity_max: f64::from(s.io_capacity_max.get().max(s.io_capacity.get())),
            max_dirty: share(&s.max_dirty),
            max_dirty_lwm: share(&s.max_dirty_lwm),
            age_lwm: share(&s.adaptive_lwm),
            idle_flush: f64::from(s.idle_flush_pct.get()) / 100.0,
        }
    }

    /// Runs the checkpointer: every second or so while changes happen, and at once when the log
    /// fills up or sessions wait for it.
    pub(super) async fn checkpoints(&self) {
        let log = &self.writer.log;
        let mut last = self.disk.now();
        while !self.stopping.load(Acquire) {
            let notified = self.notified.seen();
            let (checkpoint, capacity) = (log.checkpoint(), log.usable_bytes());
            let age = log.tail().0.saturating_sub(checkpoint.0);
            let full = age as f64 >= rate::HARD * capacity as f64 || self.is_pressed();
            let interval = Duration::from_millis(self.settings.checkpoint_interval_ms.get().into());
            let due = full
                || self.disk.now() - last >= interval
                || age >= capacity / 16 && self.checkpointer.would_gain(capacity / 16);
            if age > 0 && due {
                last = self.disk.now();
                self.checkpoint().await;
            }
            let nap = Duration::from_millis(if full { 1 } else { 50 });
            let pressure = async {
                log.pressure().await;
                self.pressed_until_ms
                    .store((self.disk.now() + PRESSED).as_millis() as u64, Release);
                self.notify();
            };
            either(self.writer.runtime.sleep(nap), either(self.notified.after(notified), pressure))
                .await;
            // FLUSH-9
            if self.is_pressed() && !self.stopping.load(Acquire) {
                self.writer.runtime.sleep(CHECKPOINT_PAUSE).await;
            }
        }
    }
    /// Whether sessions wait for log space now or did so a moment ago. With many sessions the space
    /// that they ask for counts too, and not only the log's age.
    fn is_pressed(&self) -> bool {
        (self.disk.now().as_millis() as u64) < self.pressed_until_ms.load(Acquire)
    }
    /// Syncs the pages written so far and moves the checkpoint as far as it may go now. Returns the
    /// checkpoint's LSN.
    pub(crate) async fn checkpoint(&self) -> Lsn {
        self.writer.sync().await;
        self.writer.runtime.before_blocking();
        self.checkpointer.write()
    }
    /// Stores the data of the source of checkpoints. Waits for the disk on this thread.
    pub(crate) fn store_payload(&self) {
        self.checkpointer.write_payload();
    }
    /// Says, for the status display, what the checkpoint waits for now.
    pub(crate) fn held_by(&self) -> String {
        let (pool, log) = (&self.writer.pool, &self.writer.log);
        let (possible, dirty) = (self.checkpointer.possible(), pool.oldest_dirty());
        let c = &pool.counters;
        if dirty <= possible {
            format!(
                "changes from LSN {dirty} on are not in the data files yet: {} dirty pages have to \
                 be written, {} writes and {} syncs of data files are in progress",
                pool.dirty.pages(),
                c.pending_writes.get(),
                c.pending_fsyncs.get()
            )
        } else if log.durable_frames() <= possible {
            format!("the log itself is durable only up to LSN {}", log.durable_frames())
        } else if log.dirty_low() <= possible {
            format!("a mini-transaction at LSN {} has not ended", log.dirty_low())
        } else {
            format!("another part of the engine needs the log from LSN {possible} on")
        }
    }
    /// Writes and syncs every page with changes from below the log's present tail.
    pub(crate) async fn flush_all(&self) {
        let (writer, pool) = (&self.writer, &self.writer.pool);
        let target = writer.log.tail();
        loop {
            let progress = writer.progress.seen();
            if pool.dirty.oldest() >= target {
                return;
            }
            if self.write_oldest(self.writer.batch_pages(), true).await == 0 && !writer.sync().await
            {
                // The pages that are left are being written by another task, or their frames are
                // not closed yet.
                either(
                    writer.runtime.sleep(Duration::from_millis(1)),
                    writer.progress.after(progress),
                )
                .await;
            }
        }
    }
    /// Writes and syncs these pages now, each with all changes that began below its LSN, although
    /// other dirty pages may be older.
    pub(crate) async fn write_now(&self, pages: &[(PageId, Lsn)]) {
        let (writer, pool) = (&self.writer, &self.writer.pool);
        loop {
            let progress = writer.progress.seen();
            let (mut claimed, mut waits) = (Vec::new(), false);
            for (id, end) in pages {
                // The latch keeps the page in its frame until it is claimed.
                let guard = match pool.fix(*id, Latch::S) {
                    Ok(guard) => guard,
                    // A page that is not in memory has been written.
                    Err(WouldBlock::Page(_) | WouldBlock::Failed(_)) => continue,
                    Err(_) => {
                        waits = true;
                        continue;
                    }
                };
                let index = guard.frame().0;
                let frame = pool.frames.get(index);
                let written = frame.oldest.load(Acquire) >= end.0 && !frame.writing.load(Acquire);
                match !written
                    && claimed.len() < self.writer.batch_pages()
                    && pool.dirty.claim(frame)
                {
                    true => claimed.push(index),
                    false => waits |= !written,
                }
            }
            if writer.write(claimed, true).await == 0 {
                if !waits {
                    break;
                }
                // Another task writes the pages, or their frames are not closed yet.
                either(
                    writer.runtime.sleep(Duration::from_millis(1)),
                    writer.progress.after(progress),
                )
                .await;
            }
        }
        let mut spaces: Vec<SpaceId> = pages.iter().map(|(id, _)| id.space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        writer.sync_files(spaces).await;
    }
    /// Does a part of the work for a checkpoint at `lsn`: writes up to `want` pages, syncs if there
    /// is no page to write, and writes the checkpoint if no dirty page is older than `lsn`.
    pub(crate) async fn toward(&self, lsn: Lsn, want: usize) {
        if self.writer.pool.dirty.oldest() >= lsn {
            self.checkpoint().await;
        } else if self.write_oldest(want.min(self.writer.batch_pages()), false).await == 0 {
            self.writer.sync().await;
        }
    }
    /// Writes all changes to the data files and moves the checkpoint to the log's tail. A clean
    /// shutdown calls this when nothing changes any more and before the log is closed.
    pub(crate) async fn sharp(&self) -> Lsn {
        loop {
            self.flush_all().await;
            let tail = self.writer.log.tail();
            if self.writer.log.durable() < tail {
                self.writer.log.flush_to(tail).await;
            }
            if self.checkpoint().await >= tail && self.writer.log.tail() == tail {
                return tail;
            }
            self.writer.runtime.yield_now().await;
        }
    }
}

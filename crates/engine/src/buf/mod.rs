//! The buffer pool: pages in memory.
//!
//! [`Pool::fix`] is the hit path: a walk of the page table without a lock, and a latch; it touches
//! no list. Where the page is missing, `fix` returns `WouldBlock::Page`: the caller lets go of its
//! latches, awaits [`BufferPool::load`] and starts again.
//!
//! BUF-1: a guard's pool and frame outlive the guard: a pool dropped while a frame is latched is
//! leaked.
//! BUF-2: a frame is evicted only if it is unlatched, clean, and not being written.
//! BUF-3: no thread holds a latch while it waits for a page, a frame or the disk. The compiler sees
//! to this rule, since guards are not `Send`.
//! BUF-4: a page that fails its checksum never becomes visible.
//!
//! Lock order: page latches, then the list of spaces that are being forgotten, then an instance's
//! mutex, then a page table shard; then, as leaves, a dirty bucket, a load's state, an event. I/O
//! is submitted outside all of them.
use crate::flush::group::Syncs;
use crate::{PAGE_SIZE, PageId, Result, SpaceId};
use redolith_disk::{Disk, File};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

mod counters;
mod forget;
pub(crate) mod frame;
mod guard;
mod load;
#[cfg(all(test, loom))]
mod loom_tests;
mod lru;
pub(crate) mod mapping;
mod page_table;
mod pool;
pub(crate) mod resize;
#[cfg(all(test, not(model)))]
mod resize_tests;
pub(crate) mod seen;
mod share;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(all(test, not(model)))]
mod tests;
#[cfg(test)]
pub(crate) use counters::Counters;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub use counters::Sharded;
#[cfg(test)]
pub(crate) use guard::HELD;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub use guard::Latch;
pub(crate) use guard::PageGuard;
pub(crate) use load::Prefetch;
pub(crate) use pool::{LEAST_FRAMES, Pool};

/// The files of the spaces, where pages live. Page `no` is at byte `no * PAGE_SIZE`.
pub trait PageIo: Send + Sync + 'static {
    /// The file of a space, opened for direct I/O; `None` if there is no such space (any more). A
    /// file that exists and cannot be opened is an error, lest its space is taken for a dropped
    /// space.
    fn file(&self, space: SpaceId) -> crate::Result<Option<Arc<dyn File>>>;
    /// Whether the file has been removed, so that the states of its pages on disk are older than
    /// those that the pool may have forgotten (LOAD-4).
    fn is_gone(&self, _: SpaceId) -> bool {
        false
    }
    /// Called when page `id` is about to be written in place.
    fn written(&self, _: PageId) {}
    /// The highest LSN that a page may have. A page with a higher LSN comes from another state of
    /// this instance, or its redo is lost.
    fn newest(&self) -> crate::Lsn {
        crate::Lsn::MAX
    }
    /// The syncs of the files, with those that do not come from the flusher (FLUSH-7).
    fn syncs(&self) -> Arc<Syncs> {
        Arc::default()
    }
    /// Names of the space's file and table, for messages.
    fn describe(&self, space: SpaceId) -> (String, String);
}

#[derive(Clone, Debug)]
pub struct BufConfig {
    pub frames: usize,
    /// The most frames that the pool may get while it runs.
    pub frames_max: usize,
    pub instances: usize,
    /// Share of the old list (innodb_old_blocks_pct).
    pub old_blocks_pct: u32,
    pub old_blocks_time_ms: u32,
    /// The most redo log between checkpoint and tail, which sizes the dirty index.
    pub log_capacity_bytes: u64,
}
impl BufConfig {
    /// The defaults for a pool of that size, which does not grow, with MySQL's rule for the number
    /// of instances.
    pub fn new(pool_bytes: u64, log_capacity_bytes: u64) -> BufConfig {
        let instances = if pool_bytes >= 1 << 30 { 8 } else { 1 };
        let frames = (pool_bytes / PAGE_SIZE as u64) as usize;
        BufConfig {
            frames,
            frames_max: frames,
            instances,
            old_blocks_pct: 37,
            old_blocks_time_ms: 1000,
            log_capacity_bytes,
        }
    }
}

/// A number that may be set while other threads read it.
#[derive(Default)]
pub struct Setting(AtomicU32);
impl Setting {
    pub fn new(value: u32) -> Setting {
        Setting(AtomicU32::new(value))
    }
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
}

/// The pool with its files. [`Pool`], to which it derefs, has all operations that do not wait.
pub struct BufferPool {
    pool: NonNull<Pool>,
    pub(crate) io: Arc<dyn PageIo>,
}
// SAFETY: `pool` is a Box in all but name (see Drop), and Pool is Send and Sync.
unsafe impl Send for BufferPool {}
// SAFETY: as above.
unsafe impl Sync for BufferPool {}
const _: fn() = || {
    fn send_sync<T: Send + Sync>() {}
    send_sync::<Pool>();
};

impl BufferPool {
    pub fn new(
        config: &BufConfig,
        io: Arc<dyn PageIo>,
        disk: Arc<dyn Disk>,
    ) -> Result<Arc<BufferPool>> {
        let pool = Box::new(Pool::new(config, disk)?);
        Ok(Arc::new(BufferPool { pool: NonNull::from(Box::leak(pool)), io }))
    }
    /// Waits for a frame after `WouldBlock::Frame`. Always wakes the cleaners, even where a frame
    /// is at hand: a caller that needs several frames at once has had that frame already, and it
    /// was not enough.
    pub async fn wait_frame(&self) {
        let seen = self.frame_freed.seen();
        self.frame_wanted.notify();
        self.wait_frame_after(seen).await;
    }
    async fn wait_frame_after(&self, freed: u64) {
        if !self.frame_at_hand() {
            self.frame_wanted.notify();
            self.frame_freed.after(freed).await;
        }
    }
}
impl Deref for BufferPool {
    type Target = Pool;
    fn deref(&self) -> &Pool {
        // SAFETY: valid until drop.
        unsafe { self.pool.as_ref() }
    }
}
impl Drop for BufferPool {
    fn drop(&mut self) {
        // BUF-1. Nobody can make a guard any more, and living guards have latches.
        if !self.any_held() {
            // SAFETY: from Box::leak, and with no latch there is no guard that points here.
            drop(unsafe { Box::from_raw(self.pool.as_ptr()) });
        }
    }
}

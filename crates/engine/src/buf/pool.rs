//! The synchronous half of the pool: finding, latching, creating and evicting pages. Nothing here
//! waits for anything slower than a latch.
use super::counters::{Counters, PoolPages};
use super::frame::{CLEAN, Frame, FrameRef, Frames, NO_PAGE, pack};
use super::guard::{Latch, PageGuard};
use super::lru::{Lists, OLD, YOUNG};
use super::page_table::{ShardGuard, Table, hash};
use super::share::Shares;
use super::{BufConfig, Setting};
use crate::flush::dirty::DirtyIndex;
use crate::page::header;
use crate::sync::buf::{Mutex, MutexGuard};
use crate::sync::event::Event;
use crate::{Lsn, PageId, Result, SpaceId, Try, WouldBlock};
use redolith_disk::{AlignedBuf, Disk};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*, fence};

/// The most pages at the tail of an instance among which a session looks for a clean page before it
/// leaves the work to the cleaners.
const SESSION_SCAN: usize = 64;
/// The fewest frames of a pool, and of an instance.
pub(crate) const LEAST_FRAMES: u32 = if cfg!(loom) { 2 } else { 64 };
/// The most pages that a cleaner looks at while it holds an instance's mutex: this takes some
/// microseconds.
const SCAN_PART: usize = 256;

pub(super) struct Instance {
    pub(super) lists: Mutex<Lists>,
    /// The first index of its frames.
    pub(super) first: u32,
    /// The end of its frames that have ever been used.
    used_end: AtomicU32,
}

pub struct Pool {
    pub(crate) frames: Frames,
    pub(super) table: Table,
    pub(super) shares: Shares,
    pub(super) instances: Box<[Instance]>,
    /// The number of frames that the pool uses.
    pub(super) size: AtomicU32,
    /// Spaces whose pages are being forgotten. No page of them moves to another frame.
    pub(super) forgotten: Mutex<Vec<SpaceId>>,
    pub(crate) dirty: DirtyIndex,
    pub counters: Counters,
    /// A frame has become free, or may have become free.
    pub(crate) frame_freed: Event,
    /// A read has ended, so another read may begin.
    pub(super) read_ended: Event,
    /// A session waits for a frame, so the cleaners have work.
    pub(crate) frame_wanted: Event,
    /// Page buffers for direct reads and writes, kept for reuse.
    pub(crate) spare: Mutex<Vec<AlignedBuf>>,
    /// Coarse time for access stamps: ms since the pool was made, beginning with 1.
    clock_ms: AtomicU32,
    disk: Arc<dyn Disk>,
    born_ms: u128,
    pub old_blocks_time_ms: Setting,
    /// The instance that the next [`Pool::refill_free`] begins with.
    refill_from: AtomicUsize,
}

impl Pool {
    pub(super) fn new(config: &BufConfig, disk: Arc<dyn Disk>) -> Result<Pool> {
        let frames = |count: usize| {
            u32::try_from(count.max(LEAST_FRAMES as usize)).expect("a pool below 64 TiB")
        };
        let count = frames(config.frames);
        let most = frames(config.frames_max).max(count);
        let instances = (config.instances as u32).clamp(1, (count / LEAST_FRAMES).min(64));
        let shares = Shares::new(most, instances);
        let frames = Frames::reserve(shares.indexes())?;
        let instance = |i: usize| {
            let (first, end) = (shares.first(i), shares.end(i, count));
            frames.allow(first..end)?;
            let lists = Mutex::new(Lists::new(first..end, config.old_blocks_pct));
            Ok(Instance { lists, first, used_end: AtomicU32::new(first) })
        };
        Ok(Pool {
            instances: (0..shares.instances()).map(instance).collect::<Result<_>>()?,
            frames,
            table: Table::new(count, most)?,
            shares,
            size: AtomicU32::new(count),
            forgotten: Mutex::default(),
            dirty: DirtyIndex::new(config.log_capacity_bytes),
            counters: Counters::default(),
            frame_freed: Event::default(),
            read_ended: Event::default(),
            frame_wanted: Event::default(),
            spare: Mutex::default(),
            refill_from: AtomicUsize::new(0),
            clock_ms: AtomicU32::new(1),
            born_ms: disk.now().as_millis(),
            disk,
            old_blocks_time_ms: Setting::new(config.old_blocks_time_ms),
        })
    }

    /// Fixes a page that is in memory: waits for its latch. Returns `WouldBlock::Page` if the page
    /// is not in memory.
    #[inline]
    pub fn fix(&self, id: PageId, latch: Latch) -> Try<PageGuard> {
        let hit = self.table.find(&self.frames, pack(id));
        hit.inspect(|(_, frame)| frame.prefetch());
        if let Some((index, frame)) = hit
            && let Some(guard) = PageGuard::try_lock(self, index, frame, pack(id), latch)
        {
            self.touch(frame);
            return Ok(guard);
        }
        self.fix_slowly(id, latch, hit)
    }
    /// Handles a taken latch, and a walk without a lock that found nothing, perhaps by accident.
    #[cold]
    fn fix_slowly(
        &self,
        id: PageId,
        latch: Latch,
        mut seen: Option<(u32, &Frame)>,
    ) -> Try<PageGuard> {
        loop {
            let (index, frame) = match seen.take().filter(|(_, frame)| frame.pin(pack(id))) {
                Some(hit) => {
                    self.counters.latch_waits.add(1);
                    hit
                }
                None => self.pin(id).ok_or(WouldBlock::Page(id))?,
            };
            let guard = PageGuard::lock(self, index, frame, latch);
            frame.unpin();
            // PIN-5: the page may have moved while its latch was waited for.
            if frame.id.load(Acquire) == pack(id) {
                self.touch(frame);
                return Ok(guard);
            }
        }
    }
    fn pin(&self, id: PageId) -> Option<(u32, &Frame)> {
        let shard = self.table.lock(id);
        let index = shard.find(&self.frames)?;
        let frame = self.frames.get(index);
        // TABLE-2
        assert!(frame.pin(pack(id)));
        Some((index, frame))
    }
    /// Does the same as [`Pool::fix`], but returns `None` where the latch is taken.
    #[cfg(test)]
    pub(super) fn try_fix(&self, id: PageId, latch: Latch) -> Try<Option<PageGuard>> {
        let (index, frame) = self.pin(id).ok_or(WouldBlock::Page(id))?;
        self.touch(frame);
        let guard = PageGuard::try_lock(self, index, frame, pack(id), latch);
        frame.unpin();
        Ok(guard)
    }
    /// Fixes a page in the frame where it was seen before, without a look-up, and counts no use of
    /// the page. Returns `None` if the frame has another page now.
    pub fn fix_at(&self, at: FrameRef, id: PageId, latch: Latch) -> Option<PageGuard> {
        let frame = self.frames.get(at.0);
        if let Some(guard) = PageGuard::try_lock(self, at.0, frame, pack(id), latch) {
            return Some(guard);
        }
        if !frame.pin(pack(id)) {
            return None;
        }
        let guard = PageGuard::lock(self, at.0, frame, latch);
        frame.unpin();
        // PIN-5
        (frame.id.load(Acquire) == pack(id)).then_some(guard)
    }
    #[inline]
    fn touch(&self, frame: &Frame) {
        self.counters.read_requests.add(1);
        let now = self.clock_ms.load(Relaxed);
        // A hit writes to this cache line for the latch anyhow, and stamps it no more than once a
        // tick.
        if frame.last_access.load(Relaxed) != now {
            frame.last_access.store(now, Relaxed);
            if frame.first_access.load(Relaxed) == 0 {
                frame.first_access.store(now, Relaxed);
            }
        }
    }
    pub fn contains(&self, id: PageId) -> bool {
        self.table.lock(id).find(&self.frames).is_some()
    }
    /// Whether the page's instance has free frames for a page that nobody waits for: more than an
    /// eighth of its frames. The cleaners evict pages where less than a sixteenth is free.
    pub(crate) fn has_room_ahead(&self, id: PageId) -> bool {
        let instance = &self.instances[self.home(id)];
        let lists = instance.lists.lock();
        lists.free_len() > (lists.end() - instance.first) as usize / 8
    }
    /// The pages that were used last, `percent` of those in memory: first those on the young lists.
    /// It looks at each frame without a lock, so pages may come and go meanwhile.
    pub(crate) fn last_used(&self, percent: u32) -> Vec<PageId> {
        let used = |index: u32| {
            let frame = self.frames.get(index);
            let (id, list) = (frame.id.load(Acquire), frame.lru_list.load(Relaxed));
            let at = (list == super::lru::YOUNG, frame.last_access.load(Relaxed));
            (id != NO_PAGE && list != 0).then_some((std::cmp::Reverse(at), id))
        };
        let mut pages: Vec<_> =
            self.instances.iter().flat_map(Instance::used).filter_map(used).collect();
        let most = (pages.len() as u64 * u64::from(percent.min(100))).div_ceil(100) as usize;
        if most < pages.len() {
            pages.select_nth_unstable(most);
            pages.truncate(most);
        }
        pages.into_iter().map(|(_, id)| super::frame::unpack(id)).collect()
    }

    /// Returns an X-latched frame for a page that is being made, whatever page is on disk or in
    /// memory. The frame is all zeros, except for id and LSN in the header.
    pub fn create(&self, id: PageId) -> Try<PageGuard> {
        loop {
            if let Ok(mut guard) = self.fix(id, Latch::X) {
                let lsn = guard.lsn();
                let page = guard.bytes_mut();
                page.fill(0);
                header::set_id(page, id);
                header::set_lsn(page, lsn);
                return Ok(guard);
            }
            let Some(index) = self.take_frame(id) else {
                self.counters.wait_free.add(1);
                return Err(WouldBlock::Frame);
            };
            let frame = self.frames.get(index);
            let mut shard = self.table.lock(id);
            if shard.find(&self.frames).is_some() {
                drop(shard);
                self.give_frame(index);
                continue;
            }
            if let Some(load) = shard.load() {
                load.cancel();
            }
            // SAFETY: the frame is reserved by us.
            let page = unsafe { frame.page_mut() };
            page.fill(0);
            header::set_id(page, id);
            // The frame is latched before it can be found. Other threads latch a reserved frame
            // only for a look at its id.
            let guard = PageGuard::lock(self, index, frame, Latch::X);
            self.install(&mut shard, id, index);
            drop(shard);
            self.touch(frame);
            self.enlist(index);
            self.counters.pages_created.add(1);
            return Ok(guard);
        }
    }

    /// Makes a reserved, filled frame findable.
    pub(super) fn install(&self, shard: &mut ShardGuard<'_>, id: PageId, index: u32) {
        let frame = self.frames.get(index);
        frame.first_access.store(0, Relaxed);
        frame.last_access.store(0, Relaxed);
        assert!(frame.oldest.load(Relaxed) == CLEAN && !frame.writing.load(Relaxed));
        frame.publish(pack(id));
        shard.insert(&self.frames, index);
    }
    /// Puts an installed frame into its LRU list. Before that, nobody evicts the frame.
    pub(super) fn enlist(&self, index: u32) {
        let now = self.clock_ms.load(Relaxed);
        self.owner(index).lists.lock().insert(&self.frames, index, now);
    }
    /// The instance that a frame belongs to.
    pub(super) fn owner(&self, index: u32) -> &Instance {
        &self.instances[self.shares.instance_of(index)]
    }
    /// The number of the instance in which a page looks for a frame first.
    fn home(&self, id: PageId) -> usize {
        // It comes from other bits of the hash than the chain in the page table.
        (hash(pack(id)) >> 8) as usize % self.instances.len()
    }
    /// Takes a free frame or the frame of a clean cold page, from the page's home instance or else
    /// from another. The frame is reserved.
    pub(super) fn take_frame(&self, id: PageId) -> Option<u32> {
        let (home, all) = (self.home(id), self.instances.len());
        (0..all).find_map(|i| self.instances[(home + i) % all].take(self))
    }
    /// Gives back a reserved frame without a page.
    pub(super) fn give_frame(&self, index: u32) {
        if self.owner(index).lists.lock().give_free(&self.frames, index) {
            self.frame_freed.notify_some(1);
        }
    }

    /// Evicts one page if the page may be evicted now.
    pub(super) fn evict_page(&self, index: u32, packed: u64) {
        let mut lists = self.owner(index).lists.lock();
        if self.unhook(index, self.frames.get(index), packed) {
            lists.remove(&self.frames, index);
            lists.give_free(&self.frames, index);
        }
    }
    /// Reserves a frame with page `id` and takes it out of the page table. The caller has the mutex
    /// of the frame's instance.
    fn unhook(&self, index: u32, frame: &Frame, id: u64) -> bool {
        if id == NO_PAGE || frame.id.load(Acquire) != id || frame.is_held() || frame.is_dirty() {
            return false;
        }
        let mut shard = self.table.lock(super::frame::unpack(id));
        let listed = matches!(frame.lru_list.load(Relaxed), YOUNG | OLD);
        if frame.id.load(Acquire) != id || !listed || !frame.try_reserve() {
            return false;
        }
        shard.remove(&self.frames, index);
        self.counters.pages_evicted.add(1);
        true
    }

    /// Moves frames of clean cold pages to the free lists until each instance has its share of
    /// `target` free frames. It looks at `depth` pages of each instance, in parts, so that sessions
    /// do not wait long for the instance's mutex. Each call begins with another instance, so that
    /// each is served first in turn. Returns the frames of cold dirty pages that could not be
    /// freed, the coldest of each instance first.
    pub(crate) fn refill_free(&self, target: usize, depth: usize) -> Vec<u32> {
        let share = target.div_ceil(self.instances.len());
        let (now, old_time) = (self.clock_ms.load(Relaxed), self.old_blocks_time_ms.get());
        let (mut in_the_way, mut freed) = (Vec::new(), 0);
        let start = self.refill_from.fetch_add(1, Relaxed);
        for i in 0..self.instances.len() {
            let instance = &self.instances[(start + i) % self.instances.len()];
            let (mut left, mut first) = (depth, true);
            while left > 0 {
                let mut lists = instance.lists.lock();
                let want = share.saturating_sub(lists.free_len());
                if want == 0 {
                    break;
                }
                let (part, mut free) = (left.min(SCAN_PART), Vec::new());
                let more = lists.scan_part(
                    &self.frames,
                    first,
                    now,
                    old_time,
                    part,
                    want,
                    |index, frame| {
                        if frame.is_dirty() {
                            in_the_way.push(index);
                        }
                        let taken = self.unhook(index, frame, frame.id.load(Acquire));
                        if taken {
                            free.push(index);
                        }
                        taken
                    },
                );
                for index in free {
                    freed += usize::from(lists.give_free(&self.frames, index));
                }
                (left, first) = (left - part, false);
                MutexGuard::unlock_fair(lists);
                if !more {
                    break;
                }
            }
        }
        if freed > 0 {
            self.frame_freed.notify_some(freed);
        }
        in_the_way
    }
    /// Sets the share of the old lists in percent, 5 to 95 (innodb_old_blocks_pct).
    pub fn set_old_blocks_pct(&self, pct: u32) {
        self.instances.iter().for_each(|i| i.lists.lock().set_old_blocks_pct(pct));
    }
    pub(crate) fn free_frames(&self) -> usize {
        self.instances.iter().map(|i| i.lists.lock().free_len()).sum()
    }
    /// The free frames that have had no page yet.
    pub(crate) fn untouched_frames(&self) -> usize {
        self.instances.iter().map(|i| i.lists.lock().untouched_len()).sum()
    }
    /// Whether a frame is free or can be freed at once.
    pub(super) fn frame_at_hand(&self) -> bool {
        self.free_frames() > 0 || {
            self.refill_free(1, SESSION_SCAN);
            self.free_frames() > 0
        }
    }

    /// Brings the access clock up to date. Loads and cleaners call this; hits only read the clock.
    pub(crate) fn tick(&self) {
        let now = (self.disk.now().as_millis() - self.born_ms + 1) as u32;
        self.clock_ms.fetch_max(now, Relaxed);
    }
    /// The number of frames that the pool uses. While the pool shrinks, it follows the frames that
    /// have been withdrawn.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Relaxed) as usize
    }
    /// BUF-1: whether any guard is alive.
    pub(super) fn any_held(&self) -> bool {
        let any =
            self.instances.iter().flat_map(Instance::used).any(|i| self.frames.get(i).is_held());
        // The effects of the last holders on frame and latch are visible before the pool is freed.
        fence(Acquire);
        any
    }
    /// Start of the oldest change that may not be in its data file; MAX if there is none.
    pub fn oldest_dirty(&self) -> Lsn {
        self.dirty.oldest()
    }
    pub fn pages(&self) -> PoolPages {
        let mut sum =
            PoolPages { total: self.size(), dirty: self.dirty.pages(), ..PoolPages::default() };
        for instance in &self.instances {
            let lists = instance.lists.lock();
            sum.data += lists.pages();
            sum.free += lists.free_len();
            sum.old += lists.old_pages();
            sum.made_young += lists.made_young;
        }
        sum
    }
}

impl Instance {
    /// The frames that have ever been used, among them those that the pool has withdrawn.
    pub(super) fn used(&self) -> Range<u32> {
        self.first..self.used_end.load(Acquire)
    }
    /// To be called when [`Lists::fresh`] has changed.
    pub(super) fn note_use(&self, lists: &Lists) {
        self.used_end.store(lists.fresh(), Release);
    }
    /// Takes a free frame or the frame of a clean cold page. The frame is reserved.
    pub(super) fn take(&self, pool: &Pool) -> Option<u32> {
        let mut lists = self.lists.lock();
        if let Some(index) = lists.take_free(&pool.frames) {
            self.note_use(&lists);
            return Some(index);
        }
        let (now, old_time) = (pool.clock_ms.load(Relaxed), pool.old_blocks_time_ms.get());
        let end = lists.end();
        let (mut victim, mut withdrawn) = (None, Vec::new());
        // A frame that a shrinking pool withdraws is not given out again: its page goes, and the
        // next victim is looked for.
        for _ in 0..SESSION_SCAN {
            let mut outside = None;
            lists.scan(&pool.frames, now, old_time, SESSION_SCAN, 1, |index, frame| {
                let taken = pool.unhook(index, frame, frame.id.load(Acquire));
                if taken {
                    *(if index < end { &mut victim } else { &mut outside }) = Some(index);
                }
                taken
            });
            match outside {
                Some(index) => withdrawn.push(index),
                None => break,
            }
        }
        for index in withdrawn {
            lists.give_free(&pool.frames, index);
        }
        victim
    }
}

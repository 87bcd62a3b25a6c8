//! The synchronous half of the pool: finding, latching, creating and evicting pages. Nothing here
//! waits for anything slower than a latch.
use super::counters::{Counters, PoolPages};
use super::frame::{CLEAN, Frame, FrameRef, Frames, NO_PAGE, pack};
use super::guard::{Latch, PageGuard};
use super::lru::Lists;
use super::page_table::{ShardGuard, Table, hash};
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
const LEAST_FRAMES: u32 = if cfg!(loom) { 2 } else { 64 };
/// The most pages that a cleaner looks at while it holds an instance's mutex: this takes some
/// microseconds.
const SCAN_PART: usize = 256;

pub(super) struct Instance {
    lists: Mutex<Lists>,
    frames: Range<u32>,
    /// All frames of the range that have been in use have indexes below this one.
    touched_end: AtomicU32,
}

pub struct Pool {
    pub(crate) frames: Frames,
    pub(super) table: Table,
    instances: Box<[Instance]>,
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
        let count =
            u32::try_from(config.frames.max(LEAST_FRAMES as usize)).expect("a pool below 64 TiB");
        let instances = (config.instances as u32).clamp(1, (count / LEAST_FRAMES).min(64));
        let share = count / instances;
        let instance = |i: u32| {
            let frames = i * share..if i + 1 == instances { count } else { (i + 1) * share };
            Instance {
                lists: Mutex::new(Lists::new(frames.clone(), config.old_blocks_pct)),
                touched_end: AtomicU32::new(frames.start),
                frames,
            }
        };
        Ok(Pool {
            frames: Frames::new(count)?,
            table: Table::new(count)?,
            instances: (0..instances).map(instance).collect(),
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
    fn fix_slowly(&self, id: PageId, latch: Latch, seen: Option<(u32, &Frame)>) -> Try<PageGuard> {
        let (index, frame) = match seen.filter(|(_, frame)| frame.pin(pack(id))) {
            Some(hit) => {
                self.counters.latch_waits.add(1);
                hit
            }
            None => self.pin(id).ok_or(WouldBlock::Page(id))?,
        };
        self.touch(frame);
        let guard = PageGuard::lock(self, index, frame, latch);
        frame.unpin();
        Ok(guard)
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
    /// Fixes a page in the frame where it was seen before, without a look-up. Returns `None` if the
    /// frame has another page now.
    pub fn fix_at(&self, at: FrameRef, id: PageId, latch: Latch) -> Option<PageGuard> {
        let frame = self.frames.get(at.0);
        if let Some(guard) = PageGuard::try_lock(self, at.0, frame, pack(id), latch) {
            self.touch(frame);
            return Some(guard);
        }
        self.fix_slowly(id, latch, Some((at.0, frame))).ok().filter(|guard| guard.frame() == at)
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
        let instance = self.instance(id);
        instance.lists.lock().free_len() > instance.frames.len() / 8
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
        let mut pages: Vec<_> = (0..self.frames.count())
            .filter(|index| self.is_touched(*index))
            .filter_map(used)
            .collect();
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
                self.give_frame(id, index);
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
            self.enlist(id, index);
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
    pub(super) fn enlist(&self, id: PageId, index: u32) {
        self.instance(id).lists.lock().insert(&self.frames, index, self.clock_ms.load(Relaxed));
    }
    fn instance(&self, id: PageId) -> &Instance {
        // The instance comes from other bits of the hash than the chain in the page table.
        &self.instances[(hash(pack(id)) >> 8) as usize % self.instances.len()]
    }
    /// Takes a free frame or the frame of a clean cold page, from the page's own instance or else
    /// from another. The frame is reserved.
    pub(super) fn take_frame(&self, id: PageId) -> Option<u32> {
        let own = (hash(pack(id)) >> 8) as usize;
        (0..self.instances.len())
            .find_map(|i| self.instances[(own + i) % self.instances.len()].take(self))
    }
    /// Gives back a reserved frame without a page.
    pub(super) fn give_frame(&self, id: PageId, index: u32) {
        self.instance(id).lists.lock().give_free(index);
        self.frame_freed.notify_some(1);
    }

    /// Forgets the pages of a space that has been dropped. Nobody uses them any more, except
    /// perhaps a cleaner. Pages stay whose changes are past `durable`, the durable end of the redo
    /// log: they hold back the checkpoint, which must not end inside a log frame. Returns the
    /// greatest LSN of the pages that stay.
    #[must_use = "what stays is to be dropped later"]
    pub fn drop_space(&self, space: SpaceId, durable: Lsn) -> Option<Lsn> {
        self.cancel_loads(space);
        let mut stays = None;
        for index in (0..self.frames.count()).filter(|&i| self.is_touched(i)) {
            let frame = self.frames.get(index);
            let packed = frame.id.load(Acquire);
            if packed == NO_PAGE || (packed >> 32) as u32 != space.0 {
                continue;
            }
            let Some(guard) = self.fix_at(FrameRef(index), super::frame::unpack(packed), Latch::X)
            else {
                continue;
            };
            if frame.is_dirty() {
                if guard.lsn() > durable {
                    stays = stays.max(Some(guard.lsn()));
                    continue;
                }
                self.dirty.take_out(&self.frames, index, false);
            }
            drop(guard);
            // A page that is being written is evicted later, like any clean page.
            self.evict_page(index, packed);
        }
        self.frame_freed.notify();
        stays
    }
    /// Evicts one page if the page may be evicted now.
    fn evict_page(&self, index: u32, packed: u64) -> bool {
        let id = super::frame::unpack(packed);
        let mut lists = self.instance(id).lists.lock();
        let gone = self.unhook(index, self.frames.get(index), packed);
        if gone {
            lists.remove(&self.frames, index);
            lists.give_free(index);
        }
        gone
    }
    /// Reserves a frame with page `id` and takes it out of the page table. The caller has the mutex
    /// of the page's instance.
    fn unhook(&self, index: u32, frame: &Frame, id: u64) -> bool {
        if id == NO_PAGE || frame.id.load(Acquire) != id || frame.is_held() || frame.is_dirty() {
            return false;
        }
        let mut shard = self.table.lock(super::frame::unpack(id));
        if frame.id.load(Acquire) != id || frame.lru_list.load(Relaxed) == 0 || !frame.try_reserve()
        {
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
                freed += free.len();
                free.into_iter().for_each(|index| lists.give_free(index));
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
    pub(super) fn is_touched(&self, index: u32) -> bool {
        let share = self.instances[0].frames.len() as u32;
        let instance = &self.instances[((index / share) as usize).min(self.instances.len() - 1)];
        index < instance.touched_end.load(Acquire)
    }
    /// BUF-1: whether any guard is alive.
    pub(super) fn any_held(&self) -> bool {
        let any =
            (0..self.frames.count()).any(|i| self.is_touched(i) && self.frames.get(i).is_held());
        // The effects of the last holders on frame and latch are visible before the pool is freed.
        fence(Acquire);
        any
    }
    /// Start of the oldest change that may not be in its data file; MAX if there is none.
    pub fn oldest_dirty(&self) -> Lsn {
        self.dirty.oldest()
    }
    pub fn pages(&self) -> PoolPages {
        let mut sum = PoolPages {
            total: self.frames.count() as usize,
            dirty: self.dirty.pages(),
            ..PoolPages::default()
        };
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
    fn take(&self, pool: &Pool) -> Option<u32> {
        let mut lists = self.lists.lock();
        if let Some(index) = lists.take_free(&pool.frames) {
            self.touched_end.store(lists.touched_end(), Release);
            return Some(index);
        }
        let mut victim = None;
        lists.scan(
            &pool.frames,
            pool.clock_ms.load(Relaxed),
            pool.old_blocks_time_ms.get(),
            SESSION_SCAN,
            1,
            |index, frame| {
                let taken = pool.unhook(index, frame, frame.id.load(Acquire));
                if taken {
                    victim = Some(index);
                }
                taken
            },
        );
        victim
    }
}

//! One frame: the memory for one page, with its latch, pin count and state.
//!
//! A thread that holds the latch holds the page: a hit is one step to latch the frame, a look at
//! `id`, and one step to unlatch it. A pin keeps the page in its frame while a thread waits for the
//! latch; without the pin the thread might, out of latch order, wait for a frame that has got
//! another page.
//!
//! PIN-1: `id` changes only while the frame is reserved (`RESERVED` in `pins`) by one owner: the
//! free list, a load, a create, an eviction; or by a move (PIN-5).
//! PIN-2: a frame is reserved for eviction only by the step from 0 pins to `RESERVED`, and only if
//! the X latch is free at once; `id` is cleared before that latch is released. A thread that pins
//! or latches a reserved frame undoes the pin or the latch at once and treats the page as missing.
//! PIN-3: `oldest` and the page's bytes change only under the X latch, except that a cleaner may
//! set `oldest` to clean under an S latch.
//! PIN-4: `writing` is set only on a dirty frame in the dirty index. The one task that set the flag
//! clears it after the write, and until then the frame is not evicted.
//! PIN-5: a page moves to a reserved frame under the X latches of both frames. The frame that it
//! leaves has no page, and gets none before its pins are gone and it is reserved: who pinned it and
//! waits for its latch then sees that the page is gone, and looks for it again.
use super::mapping::Mapping;
use crate::prefetch::{LINE, prefetch};
use crate::sync::buf::{AtomicBool, AtomicU32, AtomicU64, RawRwLock, latch};
use crate::{PAGE_SIZE, PageId, Result, SpaceId, page::header::Page};
use parking_lot::lock_api::RawRwLock as _;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32 as Word, Ordering::*};

/// Index of a frame in its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FrameRef(pub(crate) u32);

/// End of a chain of frame indexes.
pub(crate) const NONE: u32 = u32::MAX;
/// `pins`: the frame belongs to one owner, and no reader can reach it.
const RESERVED: u32 = 1 << 31;
/// `id` of a frame without a page.
pub(crate) const NO_PAGE: u64 = u64::MAX;
/// `oldest` of a frame whose changes have all been copied for writing.
pub(crate) const CLEAN: u64 = u64::MAX;

pub(crate) fn pack(id: PageId) -> u64 {
    (u64::from(id.space.0) << 32) | u64::from(id.no)
}
pub(crate) fn unpack(id: u64) -> PageId {
    PageId { space: SpaceId((id >> 32) as u32), no: id as u32 }
}

/// A hit touches only the first cache line; the second belongs to the lists.
#[repr(C, align(128))]
pub(crate) struct Frame {
    /// Packed page id, or [`NO_PAGE`].
    pub id: AtomicU64,
    pins: AtomicU32,
    /// The next frame in its page table chain: index + 1, or 0 at the end.
    pub next: AtomicU32,
    pub latch: RawRwLock,
    /// Increases whenever the page's bytes may have changed or the frame gets another page.
    pub version: AtomicU64,
    /// Pool clock (ms) at the first and the last access since the page came; 0 means never.
    pub first_access: Word,
    pub last_access: Word,
    data: NonNull<u8>,

    /// Start LSN of the page's oldest change that no cleaner has copied yet, or [`CLEAN`].
    pub oldest: AtomicU64,
    pub writing: AtomicBool,
    /// Links of the dirty bucket (guarded by its mutex).
    pub dirty_prev: Word,
    pub dirty_next: Word,
    /// Links in an LRU list, and which list (guarded by the instance's mutex).
    pub lru_prev: Word,
    pub lru_next: Word,
    pub lru_list: Word,
    /// Pool clock when the frame entered its LRU list.
    pub lru_since: Word,
    /// Stands for the page's bytes: loom reports an access to it that no latch and no reservation
    /// orders.
    #[cfg(loom)]
    watched: loom::cell::UnsafeCell<()>,
}
// SAFETY: `data` is memory of the pool that lives as long as the frame; access to it follows the
// latch.
unsafe impl Send for Frame {}
// SAFETY: as above.
unsafe impl Sync for Frame {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Frame>() == 128);

impl Frame {
    /// A reserved frame over `data`, which has PAGE_SIZE bytes.
    pub(crate) fn new(data: NonNull<u8>) -> Frame {
        Frame {
            id: AtomicU64::new(NO_PAGE),
            pins: AtomicU32::new(RESERVED),
            next: AtomicU32::new(0),
            latch: latch(),
            version: AtomicU64::new(0),
            first_access: Word::new(0),
            last_access: Word::new(0),
            data,
            oldest: AtomicU64::new(CLEAN),
            writing: AtomicBool::new(false),
            dirty_prev: Word::new(NONE),
            dirty_next: Word::new(NONE),
            lru_prev: Word::new(NONE),
            lru_next: Word::new(NONE),
            lru_list: Word::new(0),
            lru_since: Word::new(0),
            #[cfg(loom)]
            watched: loom::cell::UnsafeCell::new(()),
        }
    }

    pub(crate) fn page_id(&self) -> PageId {
        unpack(self.id.load(Acquire))
    }
    /// Asks for the memory of the page's head and end, where the directory of an index page begins,
    /// while the latch is taken.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        let page = self.data.as_ptr().cast_const();
        prefetch(page);
        prefetch(page.wrapping_add(PAGE_SIZE - LINE));
    }
    /// Pins the frame if it holds page `id`.
    #[inline]
    pub(crate) fn pin(&self, id: u64) -> bool {
        if self.pins.fetch_add(1, Acquire) & RESERVED != 0 || self.id.load(Relaxed) != id {
            self.pins.fetch_sub(1, Release);
            return false;
        }
        true
    }
    #[inline]
    pub(crate) fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Release);
        debug_assert!(before & !RESERVED > 0);
    }
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Relaxed) & !RESERVED != 0
    }
    pub(crate) fn is_reserved(&self) -> bool {
        self.pins.load(Relaxed) & RESERVED != 0
    }
    pub(crate) fn is_dirty(&self) -> bool {
        self.oldest.load(Acquire) != CLEAN
    }
    /// PIN-2 and BUF-2: takes the frame from all readers if nobody has it latched or pinned and its
    /// page is clean and not being written.
    pub(crate) fn try_reserve(&self) -> bool {
        if self.pins.compare_exchange(0, RESERVED, Acquire, Relaxed).is_err() {
            return false;
        }
        let latched = self.latch.try_lock_exclusive();
        // `oldest` is read before `writing`: a cleaner sets `writing` first and then `oldest` to
        // clean, so this thread sees one of the two.
        let taken = latched && !self.is_dirty() && !self.writing.load(Acquire);
        if taken {
            self.id.store(NO_PAGE, Relaxed);
        }
        if latched {
            // SAFETY: X-latched above.
            unsafe { self.latch.unlock_exclusive() };
        }
        if !taken {
            self.pins.fetch_sub(RESERVED, Release);
        }
        taken
    }
    /// PIN-5: reserves a frame that a page has left, if no thread has it pinned any more.
    pub(crate) fn try_reserve_left(&self) -> bool {
        debug_assert_eq!(self.id.load(Relaxed), NO_PAGE);
        self.pins.compare_exchange(0, RESERVED, Acquire, Relaxed).is_ok()
    }
    /// Opens a reserved frame that now holds `id`.
    pub(crate) fn publish(&self, id: u64) {
        assert!(self.is_reserved());
        self.version.fetch_add(1, Relaxed);
        self.id.store(id, Release);
        // The step is a subtraction and not a store, because readers that pinned the reserved frame
        // may be about to take back their pins.
        self.pins.fetch_sub(RESERVED, Release);
    }
    /// Whether the page is latched, or a thread has it pinned and is about to latch it.
    pub(crate) fn is_held(&self) -> bool {
        self.is_pinned() || self.latch.is_locked()
    }

    /// The page, for reading.
    ///
    /// # Safety
    /// The caller has the latch (any mode) for 'a, or has the frame reserved.
    #[inline]
    pub(crate) unsafe fn page<'a>(&self) -> &'a Page {
        #[cfg(loom)]
        self.watched.with(|_| ());
        // SAFETY: data points at PAGE_SIZE bytes of the pool's mapping; no writer by the caller's
        // latch.
        unsafe { self.data.cast::<Page>().as_ref() }
    }
    /// The page, for changing.
    ///
    /// # Safety
    /// The caller has the X latch for 'a, or has the frame reserved, and no other reference to the
    /// page lives.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn page_mut<'a>(&self) -> &'a mut Page {
        #[cfg(loom)]
        self.watched.with_mut(|_| ());
        // SAFETY: as in `page`, and nobody else reads by the caller's X latch.
        unsafe { self.data.cast::<Page>().as_mut() }
    }
}
const _: () = assert!(PAGE_SIZE == size_of::<Page>());

/// The frames of a pool, for the largest size that it may have. Metadata and pages have one mapping
/// each, whose memory is touched only when frames come into use.
pub(crate) struct Frames {
    meta: Mapping,
    data: Mapping,
    indexes: u32,
}
impl Frames {
    /// Address space for so many frames. None of them may be used yet.
    pub(crate) fn reserve(indexes: u32) -> Result<Frames> {
        assert!(indexes > 0 && indexes < NONE);
        Ok(Frames {
            meta: Mapping::reserve(indexes as usize * size_of::<Frame>())?,
            data: Mapping::reserve(indexes as usize * PAGE_SIZE)?,
            indexes,
        })
    }
    #[cfg(test)]
    pub(crate) fn new(count: u32) -> Result<Frames> {
        let frames = Frames::reserve(count)?;
        frames.allow(0..count)?;
        Ok(frames)
    }
    /// Lets these frames be used. Fails where the system has not so much memory.
    pub(crate) fn allow(&self, range: Range<u32>) -> Result<()> {
        let (start, end) = (range.start as usize, range.end as usize);
        self.meta.allow(start * size_of::<Frame>()..end * size_of::<Frame>())?;
        self.data.allow(start * PAGE_SIZE..end * PAGE_SIZE)
    }
    /// Gives the memory of these frames' pages back. The frames keep their metadata, at which
    /// readers that are late may look.
    ///
    /// # Safety
    /// The caller has the frames reserved.
    pub(crate) unsafe fn discard(&self, range: Range<u32>) {
        let (start, end) = (range.start as usize, range.end as usize);
        // SAFETY: nobody has a reference to the page of a frame that the caller has reserved.
        unsafe { self.data.discard(start * PAGE_SIZE..end * PAGE_SIZE) }
    }
    fn slot(&self, index: u32) -> NonNull<Frame> {
        assert!(index < self.indexes);
        // SAFETY: inside the mapping of all frames, which is page aligned.
        unsafe { self.meta.base().cast::<Frame>().add(index as usize) }
    }
    /// Brings a frame into use. The frame is reserved.
    ///
    /// # Safety
    /// The caller does this once per frame, before any other thread can name the frame.
    pub(crate) unsafe fn init(&self, index: u32) {
        // SAFETY: slot() checked the index; the data mapping has as many pages.
        let data = unsafe { self.data.base().add(index as usize * PAGE_SIZE) };
        // SAFETY: the slot is ours alone by the caller's promise.
        unsafe { self.slot(index).write(Frame::new(data)) }
    }
    /// A frame in use. Callers have indexes only from lists and chains, which hold only initialised
    /// frames.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Frame {
        // SAFETY: initialised by `init` before the index was given to a list.
        unsafe { self.slot(index).as_ref() }
    }
}

//! The pool's frames and counts as others see them (INFORMATION_SCHEMA.INNODB_BUFFER_PAGE and its
//! relatives).
//!
//! Nobody stops the pool for a look: each frame is read for itself, so pages come and go between
//! two frames. A look is no access: it neither counts nor keeps a page in memory.
use super::frame::{CLEAN, NO_PAGE, unpack};
use super::guard::{Latch, PageGuard};
use super::lru::YOUNG;
use super::pool::Pool;
use crate::engine::Engine;
use crate::page::{header, index, kind};
use crate::{Lsn, PageId};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// How often a look tries to latch a page. Latches are held for microseconds.
const LATCH_TRIES: u32 = 64;

/// What a page is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// It was freed.
    Free,
    /// The first page of a space.
    SpaceHeader,
    /// Tells which pages of a space are in use.
    Bitmap,
    /// A page of a B+tree.
    Index,
    /// A page of undo logs.
    Undo,
    /// A part of long columns.
    Overflow,
    /// A page of the system space.
    System,
    /// Of no kind that there is.
    Unknown,
}
impl PageKind {
    fn of(page_type: u16) -> PageKind {
        match page_type {
            kind::FREE => PageKind::Free,
            kind::SPACE_HEADER => PageKind::SpaceHeader,
            kind::BITMAP => PageKind::Bitmap,
            kind::INDEX => PageKind::Index,
            kind::UNDO => PageKind::Undo,
            kind::OVERFLOW => PageKind::Overflow,
            kind::SYSTEM => PageKind::System,
            _ => PageKind::Unknown,
        }
    }
}

/// The content of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageContent {
    /// What the page is for.
    pub kind: PageKind,
    /// Where the last change of the page ends in the redo log.
    pub newest: Lsn,
    /// The index, its records on the page, and their bytes; for the page of a B+tree.
    pub index: Option<(u64, u16, usize)>,
}

/// A page in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenPage {
    /// Which page.
    pub id: PageId,
    /// Whether a thread has it latched, or is about to latch it.
    pub is_held: bool,
    /// Whether it is being written.
    pub is_writing: bool,
    /// Where the oldest change that is not in the page's file begins in the redo log; None if the
    /// page is clean.
    pub oldest: Option<Lsn>,
    /// Whether it is on the list of old pages.
    pub is_old: bool,
    /// The pool's clock, in milliseconds, at the first access; 0 if there was none.
    pub first_access_ms: u32,
    /// None if somebody else has the page latched all the time.
    pub content: Option<PageContent>,
}

/// Counts of the whole pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names of INNODB_BUFFER_POOL_STATS
pub struct PoolStats {
    pub frames: u64,
    pub free: u64,
    pub pages: u64,
    pub old: u64,
    pub dirty: u64,
    pub pending_reads: u64,
    pub pending_writes: u64,
    pub made_young: u64,
    pub read: u64,
    pub created: u64,
    pub written: u64,
    pub gets: u64,
    /// Reads that a session waited for.
    pub missed: u64,
    pub read_ahead: u64,
    pub read_ahead_evicted: u64,
}

impl Pool {
    /// The page in a frame.
    fn seen(&self, at: u32) -> Option<SeenPage> {
        let (frame, id) = self.listed(at)?;
        let oldest = frame.oldest.load(Acquire);
        let try_lock = || PageGuard::try_lock(self, at, frame, id, Latch::S);
        let is_held = frame.is_held();
        let guard = (0..LATCH_TRIES).find_map(|_| {
            try_lock().or_else(|| {
                std::hint::spin_loop();
                None
            })
        });
        if guard.is_none() && frame.id.load(Acquire) != id {
            return None;
        }
        let content = guard.map(|page| {
            let is_index = index::is_index(&page);
            PageContent {
                kind: PageKind::of(header::page_type(&page)),
                newest: page.lsn(),
                index: is_index.then(|| {
                    (index::index_id(&page), index::n_recs(&page), index::data_bytes(&page))
                }),
            }
        });
        Some(SeenPage {
            id: unpack(id),
            is_held,
            is_writing: frame.writing.load(Relaxed),
            oldest: (oldest != CLEAN).then_some(Lsn(oldest)),
            is_old: frame.lru_list.load(Relaxed) != YOUNG,
            first_access_ms: frame.first_access.load(Relaxed),
            content,
        })
    }
    /// A frame that is on a list of pages, and the page that it has.
    fn listed(&self, at: u32) -> Option<(&super::frame::Frame, u64)> {
        if at >= self.shares.indexes() || !self.owner(at).used().contains(&at) {
            return None;
        }
        let frame = self.frames.get(at);
        let id = frame.id.load(Acquire);
        (id != NO_PAGE && frame.lru_list.load(Relaxed) != 0).then_some((frame, id))
    }
    /// A number by which frames are ordered: the page that is evicted first has the least.
    fn lru_order(&self, at: u32) -> Option<u64> {
        let (frame, _) = self.listed(at)?;
        let is_young = frame.lru_list.load(Relaxed) == YOUNG;
        Some((u64::from(is_young) << 32) | u64::from(frame.lru_since.load(Relaxed)))
    }
}

impl Engine {
    /// The frames that the instances of the buffer pool have at present.
    pub fn pool_frames(&self) -> Vec<Range<u32>> {
        self.store.pool.frame_ranges()
    }
    /// The page in a frame of the buffer pool; None if the frame has none.
    pub fn pool_page(&self, frame: u32) -> Option<SeenPage> {
        self.store.pool.seen(frame)
    }
    /// The place of a frame's page among those that are evicted: pages with smaller numbers go
    /// first. Pages that came in the same millisecond may have the same number.
    pub fn pool_lru_order(&self, frame: u32) -> Option<u64> {
        self.store.pool.lru_order(frame)
    }
    /// The counts of the buffer pool.
    pub fn pool_stats(&self) -> PoolStats {
        let (pool, pages) = (&self.store.pool, self.store.pool.pages());
        let c = &pool.counters;
        PoolStats {
            frames: pages.total as u64,
            free: pages.free as u64,
            pages: pages.data as u64,
            old: pages.old as u64,
            dirty: pages.dirty as u64,
            pending_reads: c.pending_reads.get(),
            pending_writes: c.pending_writes.get(),
            made_young: pages.made_young,
            read: c.pages_read.get(),
            created: c.pages_created.get(),
            written: c.pages_written.get(),
            gets: c.read_requests.get(),
            missed: c.reads.get(),
            read_ahead: c.read_ahead.get(),
            read_ahead_evicted: c.read_ahead_evicted.get(),
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::super::testing::{MemDisk, pid, pool};
    use super::*;
    use crate::runtime::block_on;
    use std::sync::Arc;

    #[test]
    fn a_look_finds_each_page_and_is_no_access() {
        let disk = Arc::new(MemDisk::default());
        disk.fill(16, 4);
        let pool = pool(&disk, 64);
        assert!((0..100).all(|at| pool.seen(at).is_none() && pool.lru_order(at).is_none()));
        block_on(pool.load(pid(16, 2))).unwrap();
        block_on(pool.load(pid(16, 3))).unwrap();
        let mut dirty = pool.fix(pid(16, 3), Latch::X).unwrap();
        dirty.mark_dirty(Lsn(70), Lsn(170));
        let gets = pool.counters.read_requests.get();
        let mut pages: Vec<_> = (0..100).filter_map(|at| pool.seen(at)).collect();
        pages.sort_by_key(|page| page.id.no);
        let [clean, held] = pages[..] else { panic!("{pages:?}") };
        assert_eq!((clean.id, clean.oldest, clean.is_held), (pid(16, 2), None, false));
        assert_eq!((clean.first_access_ms, clean.is_old), (0, true));
        assert_eq!(clean.content.map(|content| content.newest), Some(Lsn(1)));
        assert_eq!((held.id, held.oldest, held.is_held), (pid(16, 3), Some(Lsn(70)), true));
        assert_eq!(held.content, None, "a look does not wait for the latch");
        drop(dirty);
        assert_eq!(pool.counters.read_requests.get(), gets);
        assert_eq!((0..100).filter_map(|at| pool.lru_order(at)).count(), 2);
    }

    #[test]
    fn the_page_of_an_index_is_counted_also_if_it_is_damaged() {
        let mut page = [0u8; crate::PAGE_SIZE];
        assert_eq!(index::data_bytes(&page), 0);
        page[38..42].fill(0xff);
        assert_eq!(index::data_bytes(&page), 0);
        let mut builder = index::Builder::new(7, 0);
        builder.push(0, b"key", b"value");
        assert_eq!(index::data_bytes(builder.page()), index::REC + 8);
    }
}

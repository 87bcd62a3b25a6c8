//! Latches of pages, and the guard that gives access to a fixed page.
use super::frame::{Frame, FrameRef};
use super::pool::Pool;
use crate::page::header::{self, Page};
use crate::sync::buf::fence;
use crate::{Lsn, PageId};
use parking_lot::lock_api::{
    RawRwLock, RawRwLockDowngrade, RawRwLockUpgrade, RawRwLockUpgradeDowngrade,
};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;

/// How a page is latched. S: by many readers. SX: by one thread that may change the page later,
/// beside readers. X: by one thread alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latch {
    S,
    SX,
    X,
}

/// A page fixed in memory and latched until the guard is dropped. Guards are not `Send`: no latch
/// lives across an `.await`.
pub struct PageGuard {
    frame: NonNull<Frame>,
    /// The pool outlives its guards: [`super::BufferPool`] leaks the pool rather than free it under
    /// a latch (BUF-1).
    pool: NonNull<Pool>,
    index: u32,
    latch: Latch,
}

#[cfg(test)]
thread_local! {
    /// A page that the thread has latched, and for which it must not wait: so a test fails that
    /// would hang.
    pub(crate) static HELD: std::cell::Cell<Option<PageId>> = const { std::cell::Cell::new(None) };
}

impl PageGuard {
    /// Latches `frame` if the latch is free at once and the frame has page `id`.
    #[inline]
    pub(super) fn try_lock(
        pool: &Pool,
        index: u32,
        frame: &Frame,
        id: u64,
        latch: Latch,
    ) -> Option<PageGuard> {
        let locked = match latch {
            Latch::S => frame.latch.try_lock_shared(),
            Latch::SX => frame.latch.try_lock_upgradable(),
            Latch::X => frame.latch.try_lock_exclusive(),
        };
        if !locked {
            return None;
        }
        let guard = PageGuard {
            frame: NonNull::from_ref(frame),
            pool: NonNull::from_ref(pool),
            index,
            latch,
        };
        // If the id differs, the guard is dropped, and the latch with it.
        (frame.id.load(Acquire) == id).then_some(guard)
    }
    /// Waits for the latch. The caller has the frame pinned or reserved.
    pub(super) fn lock(pool: &Pool, index: u32, frame: &Frame, latch: Latch) -> PageGuard {
        #[cfg(test)]
        assert_ne!(Some(frame.page_id()), HELD.get(), "the thread would wait for itself");
        match latch {
            Latch::S => frame.latch.lock_shared(),
            Latch::SX => frame.latch.lock_upgradable(),
            Latch::X => frame.latch.lock_exclusive(),
        }
        PageGuard { frame: NonNull::from_ref(frame), pool: NonNull::from_ref(pool), index, latch }
    }
    #[inline]
    fn meta(&self) -> &Frame {
        // SAFETY: frames live as long as the pool, and the pool as long as our latch.
        unsafe { self.frame.as_ref() }
    }
    #[inline]
    fn pool(&self) -> &Pool {
        // SAFETY: the pool lives as long as our latch.
        unsafe { self.pool.as_ref() }
    }
    pub fn id(&self) -> PageId {
        self.meta().page_id()
    }
    pub fn latch(&self) -> Latch {
        self.latch
    }
    pub fn frame(&self) -> FrameRef {
        FrameRef(self.index)
    }
    /// Changes whenever the page may have changed or the frame has got another page. See
    /// [`Pool::fix_at`].
    pub fn version(&self) -> u64 {
        self.meta().version.load(Relaxed)
    }
    pub fn lsn(&self) -> Lsn {
        header::lsn(self)
    }
    pub fn is_dirty(&self) -> bool {
        self.meta().is_dirty()
    }

    /// Raises the latch from SX to X: waits for the readers to leave.
    pub fn upgrade(&mut self) {
        assert_eq!(self.latch, Latch::SX);
        // SAFETY: we hold the upgradable latch.
        unsafe { self.meta().latch.upgrade() };
        self.latch = Latch::X;
    }
    /// Raises the latch from SX to X if nobody reads the page now.
    pub fn try_upgrade(&mut self) -> bool {
        assert_eq!(self.latch, Latch::SX);
        // SAFETY: we hold the upgradable latch.
        let done = unsafe { self.meta().latch.try_upgrade() };
        if done {
            // Some paths through parking_lot's `try_upgrade` (0.12.5) do not acquire what departed
            // readers have released. The fence is no instruction on x86.
            fence(Acquire);
            self.latch = Latch::X;
        }
        done
    }
    /// Lowers the latch: from X to SX or S, or from SX to S.
    pub fn downgrade(&mut self, to: Latch) {
        let latch = &self.meta().latch;
        // SAFETY: we hold the latch in the mode that is given up.
        unsafe {
            match (self.latch, to) {
                (Latch::X, Latch::SX) => latch.downgrade_to_upgradable(),
                (Latch::X, Latch::S) => latch.downgrade(),
                (Latch::SX, Latch::S) => latch.downgrade_upgradable(),
                (from, to) => assert_eq!(from, to, "a latch is not raised by downgrade"),
            }
        }
        self.latch = to;
    }

    /// The page, for changing. Only an X guard gives it, and its user calls
    /// [`PageGuard::mark_dirty`] before the latch is released.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut Page {
        assert_eq!(self.latch, Latch::X);
        let frame = self.meta();
        // We hold the only latch, so a load and a store suffice.
        frame.version.store(frame.version.load(Relaxed) + 1, Release);
        // SAFETY: we hold the X latch, and the borrow of self keeps it and every other borrow of
        // the page away.
        unsafe { frame.page_mut() }
    }
    /// Stamps the page with the LSN of the redo log frame `start..end` that changed it, and enters
    /// the page in the dirty index if the page was clean. Runs between the log's reserve and
    /// publish, so it neither fails nor waits for anything but a leaf mutex.
    pub(crate) fn mark_dirty(&mut self, start: Lsn, end: Lsn) {
        assert!(self.latch == Latch::X && start < end);
        header::set_lsn(self.bytes_mut(), end);
        let (frame, pool) = (self.meta(), self.pool());
        if !frame.is_dirty() {
            pool.dirty.enter(&pool.frames, self.index, start);
        }
        pool.counters.write_requests.add(1);
    }
}

impl Deref for PageGuard {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: we hold the latch, and a thread that changes the page holds it alone.
        unsafe { self.meta().page() }
    }
}

impl Drop for PageGuard {
    #[inline]
    fn drop(&mut self) {
        let latch = &self.meta().latch;
        // This is the last access to the frame: the pool may be freed right after it.
        // SAFETY: we hold the latch in this mode.
        unsafe {
            match self.latch {
                Latch::S => latch.unlock_shared(),
                Latch::SX => latch.unlock_upgradable(),
                Latch::X => latch.unlock_exclusive(),
            }
        }
    }
}

//! The atomics, mutexes and latches of frames, page table and dirty index: the real ones, or loom's
//! when the crate is built with `--cfg loom` to explore their interleavings (`buf/loom_tests.rs`).
//!
//! Some parts are never loom's: data under a mutex or a latch (links of lists; and the bytes of
//! pages, which loom watches through [`Frame`](crate::buf::frame::Frame)), counters, and the time
//! stamps of accesses. Each of them would be one more place to switch threads, and decides nothing.
#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RawRwLock};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

#[cfg(loom)]
pub(crate) use model::*;

/// An unlocked latch.
#[cfg(not(loom))]
pub(crate) fn latch() -> RawRwLock {
    parking_lot::lock_api::RawRwLock::INIT
}

#[cfg(not(loom))]
mod words {
    use super::AtomicU32;
    use crate::Result;
    use crate::buf::mapping::Mapping;
    use std::ops::Range;

    /// Atomic words, all 0. A word may be used after it was allowed, and is resident in memory only
    /// after it has been touched.
    pub(crate) struct Words(Mapping);
    impl Words {
        pub(crate) fn reserve(count: usize) -> Result<Words> {
            Ok(Words(Mapping::reserve(count * size_of::<AtomicU32>())?))
        }
        pub(crate) fn allow(&self, words: Range<usize>) -> Result<()> {
            let size = size_of::<AtomicU32>();
            self.0.allow(words.start * size..words.end * size)
        }
        /// # Safety
        /// `index` is below the count, and the word was allowed.
        #[inline]
        pub(crate) unsafe fn get(&self, index: usize) -> &AtomicU32 {
            // SAFETY: the caller promises that the word is inside the mapping and allowed, and
            // zeroed memory is a valid AtomicU32.
            unsafe { self.0.base().cast::<AtomicU32>().add(index).as_ref() }
        }
    }
}
#[cfg(not(loom))]
pub(crate) use words::Words;

#[cfg(loom)]
mod model {
    pub(crate) use crate::sync::loom_model::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard};
    pub(crate) use loom::sync::atomic::fence;
    use parking_lot::lock_api;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    pub(crate) struct Words(Box<[AtomicU32]>);
    impl Words {
        pub fn reserve(count: usize) -> crate::Result<Words> {
            Ok(Words((0..count).map(|_| AtomicU32::new(0)).collect()))
        }
        pub fn allow(&self, _: std::ops::Range<usize>) -> crate::Result<()> {
            Ok(())
        }
        /// # Safety
        /// The model has no condition; the real words have one.
        pub unsafe fn get(&self, index: usize) -> &AtomicU32 {
            &self.0[index]
        }
    }

    /// A latch over one of loom's words, with the orderings of parking_lot's latch: acquire to
    /// lock, release to unlock, and no ordering if a lock fails, or in `try_upgrade`, whose slow
    /// path in parking_lot has none. A waiting thread lets others run.
    ///
    /// The word is in a cell because `INIT` is a constant, which loom's atomics cannot be.
    pub(crate) struct RawRwLock(OnceLock<AtomicU32>);
    const X: u32 = 1 << 31;
    const SX: u32 = 1 << 30;
    pub(crate) fn latch() -> RawRwLock {
        RawRwLock(OnceLock::from(AtomicU32::new(0)))
    }
    impl RawRwLock {
        fn word(&self) -> &AtomicU32 {
            self.0.get().expect("made by `latch`")
        }
        fn take(&self, unless: u32, add: u32) -> bool {
            let mut now = self.word().load(Relaxed);
            while now & unless == 0 {
                match self.word().compare_exchange(now, now + add, Acquire, Relaxed) {
                    Ok(_) => return true,
                    Err(other) => now = other,
                }
            }
            false
        }
        fn change(&self, from: u32, to: u32) {
            self.word().fetch_add(to.wrapping_sub(from), Release);
        }
        fn wait(mut tries: impl FnMut() -> bool) {
            while !tries() {
                loom::thread::yield_now();
            }
        }
    }
    // SAFETY: a writer takes the word only from 0, and no thread takes it from a writer.
    unsafe impl lock_api::RawRwLock for RawRwLock {
        const INIT: RawRwLock = RawRwLock(OnceLock::new());
        type GuardMarker = lock_api::GuardNoSend;
        fn lock_shared(&self) {
            RawRwLock::wait(|| self.try_lock_shared());
        }
        fn try_lock_shared(&self) -> bool {
            self.take(X, 1)
        }
        unsafe fn unlock_shared(&self) {
            self.change(1, 0);
        }
        fn lock_exclusive(&self) {
            RawRwLock::wait(|| self.try_lock_exclusive());
        }
        fn try_lock_exclusive(&self) -> bool {
            self.take(u32::MAX, X)
        }
        unsafe fn unlock_exclusive(&self) {
            self.change(X, 0);
        }
        fn is_locked(&self) -> bool {
            self.word().load(Relaxed) != 0
        }
    }
    // SAFETY: the upgradable bit is taken only when it is not set. Readers may be there.
    unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
        fn lock_upgradable(&self) {
            RawRwLock::wait(|| self.try_lock_upgradable());
        }
        fn try_lock_upgradable(&self) -> bool {
            self.take(X | SX, SX)
        }
        unsafe fn unlock_upgradable(&self) {
            self.change(SX, 0);
        }
        unsafe fn upgrade(&self) {
            RawRwLock::wait(|| self.word().compare_exchange(SX, X, Acquire, Relaxed).is_ok());
        }
        unsafe fn try_upgrade(&self) -> bool {
            self.word().compare_exchange(SX, X, Relaxed, Relaxed).is_ok()
        }
    }
    // SAFETY: the caller is the only holder.
    unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
        unsafe fn downgrade(&self) {
            self.change(X, 1);
        }
    }
    // SAFETY: as above.
    unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
        unsafe fn downgrade_upgradable(&self) {
            self.change(SX, 1);
        }
        unsafe fn downgrade_to_upgradable(&self) {
            self.change(X, SX);
        }
    }
}

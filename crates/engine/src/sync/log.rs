//! The atomics of the lock-free parts: std's, or loom's when the crate is built with `--cfg loom`
//! to explore their interleavings.
#[cfg(loom)]
pub(crate) use crate::sync::loom_model::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Mutex};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::fence;
#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, fence};

/// A value alone on its two cache lines. It has two lines because x86 prefetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);
impl<T> std::ops::Deref for Padded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

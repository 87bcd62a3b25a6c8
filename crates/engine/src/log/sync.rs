//! The atomics of the lock-free parts: std's, or loom's when the crate is built with `--cfg loom` to explore their interleavings.
#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, fence};
#[cfg(not(loom))]
pub(super) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, fence};

/// loom's mutex with the shape of parking_lot's.
#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Mutex<T>(loom::sync::Mutex<T>);
#[cfg(loom)]
impl<T> Mutex<T> {
    pub fn new(v: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(v))
    }
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no model panics while it holds a lock")
    }
}

/// Alone on its cache lines: two of them, since x86 prefetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub T);
impl<T> std::ops::Deref for Padded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

//! The mutexes and atomics of the lock table, the transaction system and the metadata locks: the
//! real ones, or shuttle's, whose scheduler tries interleavings (`lock/tests/model.rs`).
#[cfg(not(all(test, shuttle)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::atomic;

/// Lets threads that wait for the mutex have it for a moment.
#[cfg(not(all(test, shuttle)))]
pub(crate) fn give_way<'a, T>(_: &'a Mutex<T>, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    MutexGuard::bump(&mut guard);
    guard
}

#[cfg(all(test, shuttle))]
pub(crate) use model::*;

#[cfg(all(test, shuttle))]
mod model {
    pub(crate) use shuttle::sync::{MutexGuard, atomic};

    pub(crate) fn give_way<'a, T>(
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        drop(guard);
        mutex.lock()
    }

    /// Shuttle's mutex with parking_lot's interface.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);
    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a panic ends the model")
        }
    }
}

//! The common parts of the models under loom (`--cfg loom`): how models are run, and loom's atomics
//! and mutex in the shape that the engine uses.
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Relaxed;

/// Runs the program in every interleaving with at most this many preemptions, and with every value
/// that the memory orderings allow a load to see. It ends when all of them are done. Loom has a
/// limit that ends an exploration early and calls it a success; this limit is not set, and must not
/// be set from outside.
#[cfg(test)]
pub(crate) fn explore(preemptions: usize, program: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    assert!(
        builder.max_duration.is_none() && builder.max_permutations.is_none(),
        "LOOM_MAX_* would cut the exploration off"
    );
    builder.preemption_bound = Some(preemptions);
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        program();
    });
    println!(
        "{}: all of {} interleavings",
        std::thread::current().name().unwrap_or_default(),
        runs.load(Relaxed)
    );
}

/// One of loom's atomics, whose accesses loom tries in every order.
///
/// By itself loom remembers only the last access of each atomic, and takes two loads for
/// independent. If one thread loads, and another loads and stores, loom never tries the store first
/// (github.com/tokio-rs/loom issues 166 and 392). A load before a compare-and-swap thus hides most
/// interleavings. Here each access first fails to swap a word that never changes. For loom this
/// swap depends on every other access. It stores nothing, so it orders nothing and hides no missing
/// ordering.
#[derive(Debug)]
pub(crate) struct InTurn<A> {
    turn: loom::sync::atomic::AtomicU8,
    value: A,
}
impl<A> InTurn<A> {
    fn of(value: A) -> InTurn<A> {
        InTurn { turn: loom::sync::atomic::AtomicU8::new(0), value }
    }
}
impl<A> Deref for InTurn<A> {
    type Target = A;
    fn deref(&self) -> &A {
        let _ = self.turn.compare_exchange(1, 1, Relaxed, Relaxed);
        &self.value
    }
}
macro_rules! in_turn {
    ($($name:ident of $value:ty),*) => {$(
        pub(crate) type $name = InTurn<loom::sync::atomic::$name>;
        impl $name {
            pub(crate) fn new(value: $value) -> $name {
                InTurn::of(loom::sync::atomic::$name::new(value))
            }
        }
    )*};
}
in_turn!(AtomicBool of bool, AtomicU8 of u8, AtomicU32 of u32, AtomicU64 of u64);
pub(crate) type AtomicPtr<T> = InTurn<loom::sync::atomic::AtomicPtr<T>>;
impl<T> AtomicPtr<T> {
    pub(crate) fn new(value: *mut T) -> AtomicPtr<T> {
        InTurn::of(loom::sync::atomic::AtomicPtr::new(value))
    }
}

/// Loom's mutex with parking_lot's interface.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);
pub(crate) struct MutexGuard<'a, T>(loom::sync::MutexGuard<'a, T>);
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().expect("no model panics while it holds a lock"))
    }
}
impl<T> MutexGuard<'_, T> {
    pub(crate) fn unlock_fair(guard: Self) {
        drop(guard);
    }
}
impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

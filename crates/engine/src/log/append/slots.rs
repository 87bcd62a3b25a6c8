//! A small number for every thread that appends: the index of its slot in every log of the process.
//! A thread takes its number at its first append and gives it back when it ends. The lowest free
//! number is taken first, so that the log writer looks at few more slots than there are threads.
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Free {
    given_back: BinaryHeap<Reverse<usize>>,
    next: usize,
}
static FREE: Mutex<Free> = Mutex::new(Free { given_back: BinaryHeap::new(), next: 0 });
static HIGH: AtomicUsize = AtomicUsize::new(0);

struct Number(usize);
impl Number {
    fn take() -> Number {
        let mut free = FREE.lock();
        let n = free.given_back.pop().map_or_else(
            || {
                free.next += 1;
                free.next - 1
            },
            |n| n.0,
        );
        HIGH.fetch_max(n + 1, Ordering::Relaxed);
        Number(n)
    }
}
impl Drop for Number {
    fn drop(&mut self) {
        FREE.lock().given_back.push(Reverse(self.0));
    }
}
thread_local!(static NUMBER: Number = Number::take());

/// The number of this thread, or `usize::MAX` while the thread is being torn down.
pub(in crate::log) fn number() -> usize {
    NUMBER.try_with(|n| n.0).unwrap_or(usize::MAX)
}
/// The highest number ever given out, plus one.
#[cfg(not(loom))]
pub(in crate::log) fn high() -> usize {
    HIGH.load(Ordering::Relaxed)
}
/// Makes the log writer look at the first `n` slots, for tests that choose their slots.
#[cfg(all(test, not(model)))]
pub(in crate::log) fn at_least(n: usize) {
    HIGH.fetch_max(n, Ordering::Relaxed);
}
/// Models choose their slots, so all slots are looked at.
#[cfg(loom)]
pub(in crate::log) fn high() -> usize {
    usize::MAX
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_back() {
        let mine = number();
        assert_eq!(mine, number());
        let ended: Vec<usize> =
            (0..50).map(|_| std::thread::spawn(number).join().unwrap()).collect();
        assert!(ended.iter().all(|n| *n != mine && *n < high()));
        // The threads of other tests come and go too. If numbers were not given back, these would
        // be 50 different numbers.
        let distinct: std::collections::BTreeSet<_> = ended.iter().collect();
        assert!(distinct.len() < 40, "{distinct:?}");
    }
}

//! A small number for every thread that appends: the index of its slot in every log of the process.
//! Taken at the first append, given back when the thread ends, lowest first, so that the writer
//! looks at as many slots as there are threads and not more.
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

/// This thread's number. `usize::MAX` while the thread is being torn down.
pub(in crate::log) fn number() -> usize {
    NUMBER.try_with(|n| n.0).unwrap_or(usize::MAX)
}
/// One more than the highest number ever given out.
#[cfg(not(loom))]
pub(in crate::log) fn high() -> usize {
    HIGH.load(Ordering::Relaxed)
}
/// Tests that name their slots see to it that those are looked at.
#[cfg(all(test, not(loom)))]
pub(in crate::log) fn at_least(n: usize) {
    HIGH.fetch_max(n, Ordering::Relaxed);
}
/// Models name their slots themselves.
#[cfg(loom)]
pub(in crate::log) fn high() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_back() {
        let mine = number();
        assert_eq!(mine, number());
        let ended: Vec<usize> =
            (0..50).map(|_| std::thread::spawn(number).join().unwrap()).collect();
        assert!(ended.iter().all(|n| *n != mine && *n < high()));
        // Other tests' threads come and go too; without giving back these would be 50 different
        // ones.
        let distinct: std::collections::BTreeSet<_> = ended.iter().collect();
        assert!(distinct.len() < 40, "{distinct:?}");
    }
}

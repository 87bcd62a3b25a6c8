//! Counters of the pool and the cleaners (Innodb_buffer_pool_*, Innodb_pages_*, Innodb_dblwr_*,
//! Innodb_data_*).
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// Threads with a cache line of their own in each counter; further threads share one more line.
const OWNED: usize = 127;

#[repr(align(64))]
#[derive(Default)]
struct Shard(AtomicU64);

/// A counter for the hit path. Each thread adds to a cache line that only it writes, so adding is a
/// load and a store.
pub struct Sharded(Box<[Shard]>);
impl Default for Sharded {
    fn default() -> Sharded {
        Sharded((0..=OWNED).map(|_| Shard::default()).collect())
    }
}

/// Lines that belong to no living thread. The count in a line stays when its thread ends.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static USED: AtomicUsize = AtomicUsize::new(0);
/// Gives a thread's line back when the thread ends.
struct Line(usize);
impl Drop for Line {
    fn drop(&mut self) {
        LINE.set(OWNED);
        if self.0 < OWNED {
            FREE.lock().push(self.0);
        }
    }
}
thread_local! {
    static LINE: Cell<usize> = const { Cell::new(usize::MAX) };
    static KEPT_LINE: RefCell<Option<Line>> = const { RefCell::new(None) };
}
#[cold]
fn take_line() -> usize {
    let free = FREE.lock().pop();
    let line = free.unwrap_or_else(|| USED.fetch_add(1, Relaxed)).min(OWNED);
    // A thread that is ending can keep no line any more.
    match KEPT_LINE.try_with(|kept| *kept.borrow_mut() = Some(Line(line))) {
        Ok(()) => LINE.set(line),
        Err(_) => LINE.set(OWNED),
    }
    LINE.get()
}
impl Sharded {
    #[inline]
    pub fn add(&self, n: u64) {
        let mut line = LINE.get();
        if line == usize::MAX {
            line = take_line();
        }
        let sum = &self.0[line].0;
        if line < OWNED {
            sum.store(sum.load(Relaxed) + n, Relaxed);
        } else {
            sum.fetch_add(n, Relaxed);
        }
    }
    pub fn get(&self) -> u64 {
        self.0.iter().map(|s| s.0.load(Relaxed)).sum()
    }
}

/// A plain counter, for events rarer than hits.
#[derive(Default)]
pub struct Counter(AtomicU64);
impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Default)]
pub struct Counters {
    /// Pages fixed (Innodb_buffer_pool_read_requests).
    pub read_requests: Sharded,
    /// Pages changed by a mini-transaction (Innodb_buffer_pool_write_requests).
    pub write_requests: Sharded,
    /// Reads that a session waited for (Innodb_buffer_pool_reads).
    pub reads: Counter,
    pub read_ahead: Counter,
    pub read_ahead_evicted: Counter,
    /// Times that no frame was free and no clean page could be evicted
    /// (Innodb_buffer_pool_wait_free).
    pub wait_free: Counter,
    /// Times that a page was latched by another session in a way that made this one wait.
    pub latch_waits: Counter,
    pub pages_created: Counter,
    pub pages_read: Counter,
    pub pages_written: Counter,
    /// Written pages whose frames were needed for other pages.
    pub pages_written_lru: Counter,
    /// Pages written by atomic writes, without a copy.
    pub pages_written_atomically: Counter,
    pub pages_evicted: Counter,
    /// Pages moved to another frame, because the pool shrank.
    pub pages_moved: Counter,
    pub dblwr_writes: Counter,
    pub dblwr_pages_written: Counter,
    pub data_reads: Counter,
    pub data_writes: Counter,
    pub data_fsyncs: Counter,
    pub data_read_bytes: Counter,
    pub data_written_bytes: Counter,
    pub pending_reads: Counter,
    pub pending_writes: Counter,
    pub pending_fsyncs: Counter,
    pub checkpoints: Counter,
}

/// The number of pages in each state, at one moment (Innodb_buffer_pool_pages_*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolPages {
    pub total: usize,
    pub data: usize,
    pub dirty: usize,
    pub free: usize,
    pub old: usize,
    pub made_young: u64,
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_lines_and_later_threads_lose_no_count() {
        let counter = Sharded::default();
        for _ in 0..3 {
            let barrier = std::sync::Barrier::new(150);
            std::thread::scope(|scope| {
                for _ in 0..150 {
                    scope.spawn(|| {
                        counter.add(1);
                        barrier.wait();
                        (0..99).for_each(|_| counter.add(1));
                    });
                }
            });
        }
        assert_eq!(counter.get(), 45_000);
    }
}

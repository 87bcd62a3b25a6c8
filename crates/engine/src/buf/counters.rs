//! What the pool and the cleaners count (Innodb_buffer_pool_*, Innodb_pages_*, Innodb_dblwr_*, Innodb_data_*).
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

const SHARDS: usize = 64;

#[repr(align(64))]
#[derive(Default)]
struct Shard(AtomicU64);

/// A counter for the hit path: each thread adds to a cache line that is, up to 64 threads, its own.
pub struct Sharded(Box<[Shard; SHARDS]>);
impl Default for Sharded {
    fn default() -> Sharded {
        Sharded(Box::new(std::array::from_fn(|_| Shard::default())))
    }
}
#[inline]
fn shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: Cell<usize> = const { Cell::new(usize::MAX) });
    let mine = SHARD.get();
    if mine != usize::MAX {
        return mine;
    }
    SHARD.set(THREADS.fetch_add(1, Relaxed) % SHARDS);
    SHARD.get()
}
impl Sharded {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0[shard()].0.fetch_add(n, Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.iter().map(|s| s.0.load(Relaxed)).sum()
    }
}

/// Plain counter for what is slower than a hit.
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
    /// Times no frame was free and no clean page at hand (Innodb_buffer_pool_wait_free).
    pub wait_free: Counter,
    pub pages_created: Counter,
    pub pages_read: Counter,
    pub pages_written: Counter,
    /// Of those written, the ones written to free their frame.
    pub pages_written_lru: Counter,
    pub pages_evicted: Counter,
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

/// Pages by state, at one moment (Innodb_buffer_pool_pages_*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolPages {
    pub total: usize,
    pub data: usize,
    pub dirty: usize,
    pub free: usize,
    pub old: usize,
    pub made_young: u64,
}

//! The sizes that the buffer pool may have, and what its size leaves to clients.
use redolith_engine::Engine;
use redolith_sql::memory::ServerMemory;
use redolith_sql::settings::{Settings, Var};
use rustix::process::{Resource, getrlimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Finds `innodb_buffer_pool_size_max` out if it is not set: the machine's memory, or the size if
/// that is more, or if the system limits the process's address space.
pub fn tell_greatest(s: &Settings) {
    if s.bits(Var::InnodbBufferPoolSizeMax) == 0 {
        let limited = getrlimit(Resource::As).current.is_some();
        let machine = redolith_disk::memory_bytes().filter(|_| !limited).unwrap_or(0);
        let greatest = machine.max(s.bits(Var::InnodbBufferPoolSize));
        s.tell(Var::InnodbBufferPoolSizeMax, &greatest.to_string());
    }
}
/// Shows how many instances the pool has. It has no more than its first size has room for.
pub fn tell_instances(s: &Settings, engine: &Engine) {
    let (asked, has) = (s.bits(Var::InnodbBufferPoolInstances), engine.pool_instances() as u64);
    if asked > has {
        tracing::warn!(
            "innodb_buffer_pool_instances is {has} and not {asked}: the buffer pool of {} bytes \
             has no room for more",
            engine.pool_bytes()
        );
    }
    s.tell(Var::InnodbBufferPoolInstances, &has.to_string());
}

/// The memory of all clients, and what it follows from.
struct Bound {
    memory: Arc<ServerMemory>,
    machine: Option<u64>,
    log_buffer: u64,
    pool: AtomicU64,
    asked: AtomicU64,
}
impl Bound {
    /// The minimum is enough for one client.
    const LEAST: u64 = 256 << 20;

    fn apply(&self) {
        let engine = self.pool.load(SeqCst).saturating_add(self.log_buffer);
        let of_machine = || {
            self.machine
                .map_or(u64::MAX, |all| (all.saturating_sub(engine) / 4 * 3).max(Self::LEAST))
        };
        let bytes = Some(self.asked.load(SeqCst)).filter(|n| *n > 0).unwrap_or_else(of_machine);
        self.memory.set_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}
/// Applies `redolith_server_memory`. 0 means three quarters of the memory that the engine's buffers
/// leave of the machine's, as the buffer pool grows and shrinks. The last quarter is for
/// allocations that are not counted, and for buffers that exist twice while they grow.
pub fn bound_memory(s: &Settings, memory: &Arc<ServerMemory>, engine: &Arc<Engine>) {
    let bound = Arc::new(Bound {
        memory: memory.clone(),
        machine: redolith_disk::memory_bytes(),
        log_buffer: s.bits(Var::InnodbLogBufferSize),
        pool: AtomicU64::new(engine.pool_bytes()),
        asked: AtomicU64::new(0),
    });
    let asked = bound.clone();
    s.on_change(Var::RedolithServerMemory, move |bytes| {
        asked.asked.store(bytes, SeqCst);
        asked.apply();
    });
    engine.follow_pool_size(move |bytes| {
        bound.pool.store(bytes, SeqCst);
        bound.apply();
    });
}

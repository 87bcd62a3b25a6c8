//! The sizes that the buffer pool may have, and what its size leaves to clients.
use parking_lot::Mutex;
use redolith_engine::Engine;
use redolith_sql::memory::ServerMemory;
use redolith_sql::settings::{Settings, Var};
use rustix::process::{Resource, getrlimit};
use std::sync::Arc;

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
/// Warns of a pool for which the system has not the memory: a start has no one to refuse, and what
/// takes the memory may be about to end.
pub fn warn_of_shortage(s: &Settings) {
    let pool = s.bits(Var::InnodbBufferPoolSize);
    if let Some(shortage) = shortage(pool, redolith_disk::available_memory_bytes()) {
        tracing::warn!("{shortage}");
    }
}
fn shortage(pool: u64, available: Option<u64>) -> Option<String> {
    let available = available.filter(|available| *available < pool)?;
    Some(format!(
        "innodb_buffer_pool_size is {pool}, and {available} bytes of memory are available: the \
         system may end the server when the pool fills"
    ))
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
    sizes: Mutex<Sizes>,
}
/// Bytes.
#[derive(Default)]
struct Sizes {
    log_buffer: u64,
    pool: u64,
    /// 0: what the engine's buffers leave.
    asked: u64,
}
impl Bound {
    /// The minimum is enough for one client.
    const LEAST: u64 = 256 << 20;

    /// Changes a size. One thread at a time does, so that the limit is that of the last change.
    fn change(&self, change: impl FnOnce(&mut Sizes)) {
        let mut sizes = self.sizes.lock();
        change(&mut sizes);
        let engine = sizes.pool.saturating_add(sizes.log_buffer);
        let of_machine = || {
            self.machine
                .map_or(u64::MAX, |all| (all.saturating_sub(engine) / 4 * 3).max(Self::LEAST))
        };
        let bytes = Some(sizes.asked).filter(|n| *n > 0).unwrap_or_else(of_machine);
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
        sizes: Mutex::new(Sizes { pool: engine.pool_bytes(), ..Sizes::default() }),
    });
    let (of_log, of_setting) = (bound.clone(), bound.clone());
    s.on_change(Var::InnodbLogBufferSize, move |bytes| of_log.change(|s| s.log_buffer = bytes));
    s.on_change(Var::RedolithServerMemory, move |bytes| of_setting.change(|s| s.asked = bytes));
    engine.follow_pool_size(move |bytes| bound.change(|s| s.pool = bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_beyond_the_available_memory_is_told() {
        assert_eq!(shortage(1000, None), None);
        assert_eq!(shortage(1000, Some(1000)), None);
        let told = shortage(1000, Some(999)).expect("it is too large");
        assert!(told.contains(" is 1000, and 999 bytes"), "{told}");
    }
}

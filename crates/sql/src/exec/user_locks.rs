//! The named locks of GET_LOCK() and related functions, which sessions take for their own purposes.
use crate::error::Result;
use crate::memory::{Account, ServerMemory};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// The bytes of an entry with the longest name.
const ENTRY_BYTES: usize = 64 * 4 + 64;

pub struct UserLocks {
    held: Mutex<Held>,
}
struct Held {
    /// For each name: the connection that holds the lock, and how many times it has taken the lock.
    locks: HashMap<Box<[u8]>, (u32, u32)>,
    /// The memory account of the entries (MEM-1).
    memory: Account,
}
impl Held {
    fn count(&mut self, more: usize) -> Result<()> {
        self.memory.set((self.locks.len() + more) * ENTRY_BYTES)
    }
}

impl UserLocks {
    pub fn new(memory: &Arc<ServerMemory>) -> UserLocks {
        UserLocks { held: Mutex::new(Held { locks: HashMap::new(), memory: Account::new(memory) }) }
    }
    pub fn try_lock(&self, name: &[u8], connection: u32) -> Result<bool> {
        let mut held = self.held.lock();
        match held.locks.get_mut(name) {
            Some((owner, times)) if *owner == connection => *times += 1,
            Some(_) => return Ok(false),
            None => {
                held.count(1)?;
                held.locks.insert(name.into(), (connection, 1));
            }
        }
        Ok(true)
    }
    /// Returns Some(true) if the lock was released, Some(false) if another connection holds it, and
    /// None if no connection holds it.
    pub fn release(&self, name: &[u8], connection: u32) -> Option<bool> {
        let mut held = self.held.lock();
        let (owner, times) = held.locks.get_mut(name)?;
        if *owner != connection {
            return Some(false);
        }
        *times -= 1;
        if *times == 0 {
            held.locks.remove(name);
            // A smaller charge cannot fail.
            let _ = held.count(0);
        }
        Some(true)
    }
    pub fn is_free(&self, name: &[u8]) -> bool {
        !self.held.lock().locks.contains_key(name)
    }
    /// Releases all locks of a connection that ends.
    pub fn release_all(&self, connection: u32) {
        let mut held = self.held.lock();
        held.locks.retain(|_, (owner, _)| *owner != connection);
        if held.locks.is_empty() {
            held.locks = HashMap::new();
        }
        let _ = held.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_count_and_belong_to_connections() {
        let memory = ServerMemory::new();
        let l = UserLocks::new(&memory);
        let try_lock = |name: &[u8], connection| l.try_lock(name, connection).unwrap();
        assert!(try_lock(b"a", 1) && try_lock(b"a", 1) && !try_lock(b"a", 2));
        assert_eq!((l.release(b"a", 2), l.release(b"b", 2)), (Some(false), None));
        assert_eq!((l.release(b"a", 1), l.is_free(b"a")), (Some(true), false));
        l.release_all(1);
        assert!(l.is_free(b"a") && try_lock(b"a", 2));
        memory.set_limit(1 << 20);
        let refused = (0..1u32 << 20).find_map(|n| l.try_lock(&n.to_be_bytes(), 1).err());
        assert_eq!(refused.unwrap().code, 3170);
        assert!(memory.used() > 900 << 10);
        l.release_all(1);
        assert!(memory.used() == 0 && !l.is_free(b"a"));
    }
}

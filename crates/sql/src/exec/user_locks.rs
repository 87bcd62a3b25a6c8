//! GET_LOCK() and its like: named locks that sessions take for purposes of their own.
use crate::error::Result;
use crate::memory::{Account, ServerMemory};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// What an entry of the longest name takes.
const ENTRY_BYTES: usize = 64 * 4 + 64;

pub struct UserLocks {
    held: Mutex<Held>,
}
struct Held {
    /// Name: the connection that holds it, and how many times over.
    locks: HashMap<Box<[u8]>, (u32, u32)>,
    /// MEM-1.
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
    /// Some(true): released; Some(false): another's; None: nobody holds it.
    pub fn release(&self, name: &[u8], connection: u32) -> Option<bool> {
        let mut held = self.held.lock();
        let (owner, times) = held.locks.get_mut(name)?;
        if *owner != connection {
            return Some(false);
        }
        *times -= 1;
        if *times == 0 {
            held.locks.remove(name);
            // What is less is not refused.
            let _ = held.count(0);
        }
        Some(true)
    }
    pub fn is_free(&self, name: &[u8]) -> bool {
        !self.held.lock().locks.contains_key(name)
    }
    /// The connection ends.
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

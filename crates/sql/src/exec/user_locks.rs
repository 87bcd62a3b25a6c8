//! The named locks of GET_LOCK() and related functions, which sessions take for their own purposes.
//!
//! ULOCK-1: the waits make no cycle. A connection waits for one lock at a time and takes no lock
//! meanwhile, so a cycle can only close when a wait begins, and that wait is refused.
use crate::error::{Result, SqlError};
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
    /// For each connection that waits: the name of the lock.
    waits: HashMap<u32, Box<[u8]>>,
    /// The memory account of the entries (MEM-1).
    memory: Account,
}
impl Held {
    fn count(&mut self, more: usize) -> Result<()> {
        self.memory.set((self.locks.len() + self.waits.len() + more) * ENTRY_BYTES)
    }
    /// Whether a wait of `connection` for the lock `name` would close a cycle (ULOCK-1).
    fn closes_cycle(&self, name: &[u8], connection: u32) -> bool {
        let mut wanted = name;
        while let Some((owner, _)) = self.locks.get(wanted) {
            if *owner == connection {
                return true;
            }
            let Some(next) = self.waits.get(owner) else { return false };
            wanted = next;
        }
        false
    }
}

/// A connection waits for a lock, until the value is dropped.
pub struct Waiting<'a> {
    locks: &'a UserLocks,
    connection: u32,
}
impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.held.lock();
        if held.waits.remove(&self.connection).is_some() {
            // A smaller charge cannot fail.
            let _ = held.count(0);
        }
    }
}

impl UserLocks {
    pub fn new(memory: &Arc<ServerMemory>) -> UserLocks {
        UserLocks {
            held: Mutex::new(Held {
                locks: HashMap::new(),
                waits: HashMap::new(),
                memory: Account::new(memory),
            }),
        }
    }
    /// Enters that the connection waits for a lock. Fails if the connection that holds the lock
    /// waits for a lock of this connection, directly or through others.
    pub fn wait(&self, name: &[u8], connection: u32) -> Result<Waiting<'_>> {
        let mut held = self.held.lock();
        if held.closes_cycle(name, connection) {
            return Err(SqlError::user_lock_deadlock());
        }
        held.count(1)?;
        held.waits.insert(connection, name.into());
        Ok(Waiting { locks: self, connection })
    }
    /// The number of connections that wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.held.lock().waits.len()
    }
    /// Takes the lock if it is free. That ends the connection's wait, if it waits.
    pub fn try_lock(&self, name: &[u8], connection: u32) -> Result<bool> {
        let mut held = self.held.lock();
        match held.locks.get_mut(name) {
            Some((owner, times)) if *owner == connection => *times += 1,
            Some(_) => return Ok(false),
            None => {
                held.count(1)?;
                held.locks.insert(name.into(), (connection, 1));
                // The entry of the wait must not outlive the wait: the connection would seem to
                // wait for itself (ULOCK-1).
                if held.waits.remove(&connection).is_some() {
                    let _ = held.count(0);
                }
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
    /// The connection that holds the lock.
    pub fn holder(&self, name: &[u8]) -> Option<u32> {
        self.held.lock().locks.get(name).map(|(owner, _)| *owner)
    }
    /// Releases all locks of a connection. Returns how many times it had taken them.
    pub fn release_all(&self, connection: u32) -> u64 {
        let mut held = self.held.lock();
        let mut released = 0;
        held.locks.retain(|_, (owner, times)| {
            let stays = *owner != connection;
            released += if stays { 0 } else { u64::from(*times) };
            stays
        });
        if held.locks.is_empty() {
            held.locks = HashMap::new();
        }
        let _ = held.count(0);
        released
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

    /// Tests ULOCK-1.
    #[test]
    fn a_wait_that_closes_a_cycle_is_refused() {
        let memory = ServerMemory::new();
        let l = UserLocks::new(&memory);
        let try_lock = |name: &[u8], connection| l.try_lock(name, connection).unwrap();
        for (name, connection) in [(b"a", 1), (b"b", 2), (b"c", 3), (b"d", 4)] {
            assert!(try_lock(name, connection));
        }
        let used = memory.used();
        let refused = |name: &[u8], connection| l.wait(name, connection).map(drop).unwrap_err();
        let first = l.wait(b"b", 1).unwrap();
        assert_eq!((refused(b"a", 2).code, refused(b"a", 2).sqlstate), (3058, *b"HY000"));
        let second = l.wait(b"c", 2).unwrap();
        assert_eq!(refused(b"a", 3).code, 3058);
        // A wait beside the others is none of a cycle, and a wait that has ended neither.
        let beside = l.wait(b"a", 4).unwrap();
        assert_eq!(refused(b"d", 3).code, 3058);
        drop(beside);
        drop(second);
        let third = l.wait(b"a", 3).unwrap();
        // Where a connection has its lock before it has left the wait, nobody is misled.
        assert_eq!((l.release(b"b", 2), try_lock(b"b", 1)), (Some(true), true));
        drop(l.wait(b"a", 2).unwrap());
        drop((first, third));
        assert_eq!(memory.used(), used);
    }
}

//! GET_LOCK() and its like: named locks that sessions take for purposes of their own.
use hashbrown::HashMap;
use parking_lot::Mutex;

#[derive(Default)]
pub struct UserLocks {
    /// Name: the connection that holds it, and how many times over.
    held: Mutex<HashMap<Box<[u8]>, (u32, u32)>>,
}

impl UserLocks {
    pub fn try_lock(&self, name: &[u8], connection: u32) -> bool {
        let mut held = self.held.lock();
        match held.get_mut(name) {
            Some((owner, times)) if *owner == connection => *times += 1,
            Some(_) => return false,
            None => {
                held.insert(name.into(), (connection, 1));
            }
        }
        true
    }
    /// Some(true): released; Some(false): another's; None: nobody holds it.
    pub fn release(&self, name: &[u8], connection: u32) -> Option<bool> {
        let mut held = self.held.lock();
        let (owner, times) = held.get_mut(name)?;
        if *owner != connection {
            return Some(false);
        }
        *times -= 1;
        if *times == 0 {
            held.remove(name);
        }
        Some(true)
    }
    pub fn is_free(&self, name: &[u8]) -> bool {
        !self.held.lock().contains_key(name)
    }
    /// The connection ends.
    pub fn release_all(&self, connection: u32) {
        self.held.lock().retain(|_, (owner, _)| *owner != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_count_and_belong_to_connections() {
        let l = UserLocks::default();
        assert!(l.try_lock(b"a", 1) && l.try_lock(b"a", 1) && !l.try_lock(b"a", 2));
        assert_eq!((l.release(b"a", 2), l.release(b"b", 2)), (Some(false), None));
        assert_eq!((l.release(b"a", 1), l.is_free(b"a")), (Some(true), false));
        l.release_all(1);
        assert!(l.is_free(b"a") && l.try_lock(b"a", 2));
    }
}

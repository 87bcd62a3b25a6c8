//! Gives memory that clients do not need any more back to the operating system.
//!
//! The allocator keeps freed memory for a while, in case it is wanted again, and checks the age of
//! this memory only when the program calls the allocator. A server that has done something large
//! and is idle now makes no such calls: hundreds of megabytes stayed until the next day. So once
//! accounts have given back much memory, and no account gives back more, `mi_collect` tells the
//! allocator to release all it can. The call is repeated some seconds later, when helper threads
//! have ended and left their pages.
#![allow(unsafe_code)] // a call of the allocator that its crate has no safe name for
use redolith_sql::memory::ServerMemory;

// The crate is linked for the C function below.
use mimalloc as _;

unsafe extern "C" {
    /// From mimalloc.h: frees the memory that the calling thread caches. With `force`, it also
    /// takes over the memory that ended threads have left, and gives it back to the system. Any
    /// thread may call it at any time.
    safe fn mi_collect(force: bool);
}

/// Less free memory than this may stay with the allocator.
const MUCH_BYTES: u64 = 16 << 20;
/// The seconds after the last change of `given_back` at which memory is collected.
const AFTER: [u32; 4] = [1, 5, 12, 25];

/// Decides once a second whether to collect memory.
#[derive(Default)]
pub struct GiveBack {
    /// `settled`: [`ServerMemory::given_back`] at the end of the last round of collections. `seen`:
    /// the same value when it last changed. `looks`: the seconds since then.
    settled: u64,
    seen: u64,
    looks: u32,
}

impl GiveBack {
    /// Called once a second.
    pub fn look(&mut self, memory: &ServerMemory) {
        if self.is_due(memory.given_back()) {
            mi_collect(true);
        }
    }
    fn is_due(&mut self, given: u64) -> bool {
        if given != self.seen {
            (self.seen, self.looks) = (given, 0);
            return false;
        }
        if given - self.settled < MUCH_BYTES {
            return false;
        }
        self.looks += 1;
        if self.looks == AFTER[AFTER.len() - 1] {
            self.settled = given;
        }
        AFTER.contains(&self.looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_when_much_was_given_back_and_nothing_more_comes() {
        let mut g = GiveBack::default();
        let mut due = |given, looks: u32| (0..looks).filter(|_| g.is_due(given)).count();
        assert_eq!(due(MUCH_BYTES - 1, 100), 0);
        assert_eq!(due(MUCH_BYTES, 1) + due(MUCH_BYTES + 1, 1), 0, "more comes");
        assert_eq!(due(MUCH_BYTES + 1, 100), AFTER.len());
        assert_eq!(due(2 * MUCH_BYTES, 100), 0, "little since then");
        assert_eq!(due(3 * MUCH_BYTES, 3), 1);
        assert_eq!(due(3 * MUCH_BYTES + 5, 100), AFTER.len());
    }
}

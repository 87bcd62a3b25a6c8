//! Memory that clients do not need any more goes back to the system.
//!
//! The allocator keeps what is freed for a while, in case it is wanted again, and looks for what
//! has been kept for too long only when it is called. A server that has done something large and
//! has nothing to do now calls nobody: hundreds of megabytes stayed until the next day. So once
//! accounts have given back much, and none gives back any more, the allocator is told to let go of
//! all it can.
//! It is told again some seconds later: a thread that helped out ends by then, and leaves its
//! pages.
#![allow(unsafe_code)] // a call of the allocator that its crate has no safe name for
use redolith_sql::memory::ServerMemory;

// Linked by name below.
use mimalloc as _;

unsafe extern "C" {
    /// mimalloc.h: frees what the calling thread keeps; with `force`, also what all threads have
    /// left for later, and gives it back to the system. Any thread may call it at any time.
    safe fn mi_collect(force: bool);
}

/// Less than this may stay.
const MUCH_BYTES: u64 = 16 << 20;
/// Looks after the last time that an account gave something back, one a second.
const AFTER: [u32; 4] = [1, 5, 12, 25];

/// What the last looks have seen.
#[derive(Default)]
pub struct GiveBack {
    /// [`ServerMemory::given_back`] when all that was free was given back, and at the last look.
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

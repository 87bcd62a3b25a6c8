//! The leadership, as a word that threads change (WAIT-2, WAIT-6 of
//! [`crate::log::commit::lsn_waiters`]).
//!
//! The word is a number that changes each time, with what it is in its low bits: free, in use by
//! its holder, or idle, either because its holder lets others go first, or because a node has the
//! role `LEAD` and its owner has not come yet. Who changes the leadership from idle to in use is
//! its holder from then on. While it is in use, nobody but the holder changes it.
use crate::sync::log::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const FREE: u64 = 0;
const IN_USE: u64 = 1;
const RESTS: u64 = 2;
const HANDED: u64 = 3;
const STATE: u64 = 3;

fn followed_by(word: u64, state: u64) -> u64 {
    (word | STATE).wrapping_add(1) | state
}

#[derive(Debug)]
pub(in crate::log) struct LeadershipWord(AtomicU64);
impl LeadershipWord {
    pub(crate) fn new() -> LeadershipWord {
        LeadershipWord(AtomicU64::new(FREE))
    }
    /// Changes the word, unless another thread has changed it.
    fn change(&self, found: u64, state: u64) -> bool {
        self.0.compare_exchange(found, followed_by(found, state), AcqRel, Relaxed).is_ok()
    }
    /// The holder makes it idle. Returns what it is then.
    fn lay_down(&self, state: u64) -> u64 {
        let idle = followed_by(self.0.load(Relaxed), state);
        self.0.store(idle, Release);
        idle
    }
    pub(crate) fn try_take(&self) -> bool {
        let found = self.0.load(Relaxed);
        found & STATE == FREE && self.change(found, IN_USE)
    }
    /// The holder lets others go first. Returns what [`LeadershipWord::resume`] needs.
    pub(crate) fn rest(&self) -> u64 {
        self.lay_down(RESTS)
    }
    /// Whether the holder that rested has the leadership again, and not another thread.
    pub(crate) fn resume(&self, rested: u64) -> bool {
        self.change(rested, IN_USE)
    }
    /// The holder looks for a node to which it hands the leadership. Before a node has the role it
    /// lies idle, so that the owner may take it at once. Returns what
    /// [`LeadershipWord::give_up`] needs.
    pub(crate) fn begin_handing(&self) -> u64 {
        self.lay_down(HANDED)
    }
    /// No node took it. False if another thread has it by now.
    pub(crate) fn give_up(&self, handed: u64) -> bool {
        self.change(handed, FREE)
    }
    /// Whether the leadership that a node has been handed comes to the caller. If not, another
    /// thread has taken it.
    pub(crate) fn take_handed(&self) -> bool {
        let found = self.0.load(Acquire);
        found & STATE == HANDED && self.change(found, IN_USE)
    }
    /// Takes a leadership that has lain idle since the last look, which `seen` remembers. The
    /// caller then leads.
    pub(crate) fn take_idle(&self, seen: &mut u64) -> bool {
        let found = self.0.load(Acquire);
        let is_idle = matches!(found & STATE, RESTS | HANDED);
        is_idle && std::mem::replace(seen, found) == found && self.change(found, IN_USE)
    }
}

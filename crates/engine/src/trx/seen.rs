//! Transactions as others see them (INFORMATION_SCHEMA.INNODB_TRX).
//!
//! A session notes what its transaction does by relaxed stores into its own [`Seen`], and whoever
//! looks reads them one by one: the parts of a row may be of different moments.
use super::{Isolation, Trx};
use crate::TrxId;
use crate::engine::Engine;
use crate::lock::{TrxLocks, WaitInfo};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// What a transaction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It works, or waits for its session's next statement.
    Running,
    /// It takes changes back.
    RollingBack,
    /// Its commit is on its way into the redo log.
    Committing,
}

/// Properties of a transaction that stay the same from its beginning to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traits {
    /// Its isolation level.
    pub isolation: Isolation,
    /// Whether it may not write.
    pub read_only: bool,
    /// Whether it is a single statement that reads without locks.
    pub single_read: bool,
    /// `unique_checks` of its session.
    pub unique_checks: bool,
    /// `foreign_key_checks` of its session.
    pub foreign_key_checks: bool,
}
impl Traits {
    fn encode(self) -> u8 {
        let bits = [self.read_only, self.single_read, self.unique_checks, self.foreign_key_checks];
        bits.iter().fold(self.isolation as u8, |sum, bit| (sum << 1) | u8::from(*bit))
    }
    fn decode(bits: u8) -> Traits {
        let bit = |n: u8| (bits >> n) & 1 != 0;
        let isolation = match bits >> 4 {
            0 => Isolation::ReadUncommitted,
            1 => Isolation::ReadCommitted,
            2 => Isolation::RepeatableRead,
            _ => Isolation::Serializable,
        };
        Traits {
            isolation,
            read_only: bit(3),
            single_read: bit(2),
            unique_checks: bit(1),
            foreign_key_checks: bit(0),
        }
    }
}

/// What a session tells of its transaction.
#[derive(Default)]
pub struct Seen {
    /// The session's number; 0 if no session has the transaction.
    session: AtomicU32,
    /// When the transaction began, in microseconds since 1970; 0 if there is none.
    began_us: AtomicI64,
    phase: AtomicU8,
    traits: AtomicU8,
    tables: AtomicU32,
    locked: AtomicU32,
}
impl Seen {
    /// Names the session that has the transaction; 0 for none.
    pub fn set_session(&self, number: u32) {
        self.session.store(number, Relaxed);
    }
    fn session(&self) -> u32 {
        self.session.load(Relaxed)
    }
    pub(crate) fn has_begun(&self) -> bool {
        self.began_us.load(Relaxed) != 0
    }
    pub(crate) fn begin(&self, now_us: i64, traits: Traits) {
        self.traits.store(traits.encode(), Relaxed);
        self.began_us.store(now_us.max(1), Relaxed);
    }
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }
    fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Running,
            1 => Phase::RollingBack,
            _ => Phase::Committing,
        }
    }
    fn set_tables(&self, tables: u32, locked: u32) {
        self.tables.store(tables, Relaxed);
        self.locked.store(locked, Relaxed);
    }
    pub(crate) fn end(&self) {
        self.began_us.store(0, Relaxed);
        self.set_phase(Phase::Running);
    }
    /// The session goes on with `next`, and nobody has this transaction any more.
    pub(super) fn detach(&self, next: &Seen) {
        next.set_session(self.session());
        self.set_session(0);
        self.set_tables(0, 0);
    }
}

/// A transaction as it was seen.
#[derive(Clone, Debug)]
pub struct SeenTrx {
    /// A number that no other transaction that is open has.
    pub owner: u64,
    /// `NONE` before its first write.
    pub id: TrxId,
    /// The session that has it; 0 for one that is prepared, or is rolled back in the background.
    pub session: u32,
    /// When it began, in microseconds since 1970.
    pub began_us: i64,
    /// What it does.
    pub phase: Phase,
    /// The lock that it waits for, and since when by the clock of the disk.
    pub waits: Option<(WaitInfo, Duration)>,
    /// Its properties.
    pub traits: Traits,
    /// The number of its undo records.
    pub undo_records: u64,
    /// The number of rows that it has locked explicitly.
    pub rows_locked: usize,
    /// The number of ranges that it has locked.
    pub ranges_locked: usize,
    /// The tables of the running statement, and those of them that it writes or locks.
    pub tables: (u32, u32),
}
impl SeenTrx {
    fn of(trx: &TrxLocks) -> Option<SeenTrx> {
        let (seen, id) = (trx.seen(), trx.trx_id());
        if !seen.has_begun() && id == TrxId::NONE {
            return None;
        }
        Some(SeenTrx {
            owner: trx.owner(),
            id,
            session: seen.session(),
            began_us: seen.began_us.load(Relaxed),
            phase: seen.phase(),
            waits: trx.waits_since(),
            traits: Traits::decode(seen.traits.load(Relaxed)),
            undo_records: trx.undo_records(),
            rows_locked: trx.locks_held(),
            ranges_locked: trx.ranges_held(),
            tables: (seen.tables.load(Relaxed), seen.locked.load(Relaxed)),
        })
    }
}

impl Trx {
    /// Shows others that a statement of the transaction uses so many tables, and writes or locks so
    /// many of them. `checks` tells `unique_checks` and `foreign_key_checks` where the transaction
    /// begins with the statement.
    #[inline]
    pub fn show_statement(&self, tables: u32, locked: u32, checks: impl FnOnce() -> (bool, bool)) {
        let seen = self.locks.seen();
        if !seen.has_begun() {
            let (unique_checks, foreign_key_checks) = checks();
            let traits = Traits {
                isolation: self.isolation,
                read_only: self.read_only,
                single_read: self.single_read,
                unique_checks,
                foreign_key_checks,
            };
            seen.begin(self.engine.disk.wall_us(), traits);
        }
        seen.set_tables(tables, locked);
    }
    /// Shows others that the transaction's session rests.
    #[inline]
    pub fn show_rest(&self) {
        self.locks.seen().set_tables(0, 0);
    }
}

impl Engine {
    /// The next transactions behind the one whose number is `after`. Of at most `most` sessions, it
    /// returns the last one's number, and the transactions of those that have one; None if there
    /// are no more sessions.
    pub fn transactions(&self, after: u64, most: usize) -> Option<(u64, Vec<SeenTrx>)> {
        let owners = self.locks.owners().after(after, most);
        let last = owners.last()?.owner();
        Some((last, owners.iter().filter_map(|trx| SeenTrx::of(trx)).collect()))
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn traits_are_read_as_they_were_written() {
        let levels = [
            Isolation::ReadUncommitted,
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::Serializable,
        ];
        for (isolation, bits) in levels.into_iter().flat_map(|l| (0..16).map(move |b| (l, b))) {
            let bit = |n: u8| bits & (1 << n) != 0;
            let traits = Traits {
                isolation,
                read_only: bit(0),
                single_read: bit(1),
                unique_checks: bit(2),
                foreign_key_checks: bit(3),
            };
            assert_eq!(Traits::decode(traits.encode()), traits);
        }
    }
}

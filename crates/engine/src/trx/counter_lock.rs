//! The AUTO-INC lock of a table: a statement that holds it takes AUTO_INCREMENT values that follow
//! each other, because no other statement takes values meanwhile.
//!
//! It is an exclusive lock of the transaction under a key of its own, so a wait for it ends like a
//! wait for a row: by the lock, KILL, the time limit, or as the victim of a deadlock.
//!
//! - AUTOINC-1: a transaction holds at most one AUTO-INC lock, and gives it back when its statement
//!   ends, not when it commits.
use super::Trx;
use crate::Result;
use crate::dict::table::Table;
use crate::lock::{LockKey, Mode};

impl Trx {
    /// Takes the AUTO-INC lock of the table, if the statement does not hold it yet. A caller that
    /// asks for a second table's lock breaks AUTOINC-1.
    pub async fn lock_counter(&mut self, table: &Table) -> Result<()> {
        let key = LockKey::counter(table.id);
        if self.counter_lock == Some(key) {
            return Ok(());
        }
        assert!(self.counter_lock.is_none(), "AUTOINC-1: one statement fills one table");
        while let Err(blocked) = self.engine.locks.lock_row(&self.locks, key, Mode::X) {
            self.unblocked(blocked).await?;
        }
        self.counter_lock = Some(key);
        Ok(())
    }
    /// Gives the AUTO-INC lock back, if the statement holds one (AUTOINC-1).
    #[inline]
    pub fn release_counter(&mut self) {
        if let Some(key) = self.counter_lock.take() {
            self.engine.locks.release_row(&self.locks, key);
        }
    }
}

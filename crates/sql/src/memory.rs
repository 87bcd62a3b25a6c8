//! Accounts of the memory that clients can make grow: of statements, of sessions and of the server.
//!
//! A client can ask for any amount of memory: rows to be sorted, groups, derived tables, long
//! strings, variables, locks, packets. Each of these is charged to an [`Account`] before it grows.
//! An account takes its memory from the [`ServerMemory`] that all accounts share. A charge beyond a
//! limit fails with error 3170, which names the setting; the statement ends, and the session goes
//! on.
//!
//! **MEM-1** An account holds at most its limit (`redolith_statement_memory`), and all accounts
//! together hold at most `redolith_server_memory`: a refused charge adds nothing.
//! **MEM-2** An account gives back what it holds when it is dropped. The account of a statement is
//! empty after the statement, whether the statement has succeeded or failed.
//! **MEM-3** Small amounts cost nothing: a charge is a plain addition, an account takes memory from
//! the server in chunks, and it takes nothing for its first [`CREDIT`] bytes. Point statements are
//! never charged.
//!
//! A charge covers the size of a structure, not the allocator's overhead: a buffer that grows
//! exists twice for a moment. The limits must leave room for this overhead.
use crate::error::{Result, SqlError};
use crate::status::{Status, StatusValue};
use redolith_engine::lock::TrxLocks;
use redolith_types::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The bytes that a value has outside of itself: of a string or a JSON document.
pub fn bytes_of(value: &Value<'_>) -> usize {
    match value {
        Value::Bytes(bytes) | Value::Json(bytes) => bytes.len(),
        _ => 0,
    }
}

/// MEM-3. Every connection has buffers of about this size anyway.
pub const CREDIT: usize = 32 << 10;
/// An account takes memory from the server in units of this size.
const CHUNK: usize = 64 << 10;
/// The most that an account keeps beyond its need while its statement runs.
const SLACK: usize = 16 * CHUNK;

/// The memory that all accounts hold together.
#[derive(Debug)]
pub struct ServerMemory {
    used: AtomicUsize,
    peak: AtomicUsize,
    limit: AtomicUsize,
    refusals: AtomicU64,
    given_back: AtomicU64,
}

impl ServerMemory {
    /// The memory of no accounts yet, without a limit.
    pub fn new() -> Arc<ServerMemory> {
        Arc::new(ServerMemory {
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            refusals: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
        })
    }
    /// `redolith_server_memory`. If accounts hold more than a new limit, they keep it, but charges
    /// fail.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Relaxed);
    }
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
    /// The most memory held at any time since the start or [`Self::reset_counts`], in bytes.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
    /// The number of charges that were refused, by either limit.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }
    /// The total of bytes that accounts have given back.
    pub fn given_back(&self) -> u64 {
        self.given_back.load(Relaxed)
    }
    /// FLUSH STATUS.
    pub fn reset_counts(&self) {
        self.peak.store(self.used(), Relaxed);
        self.refusals.store(0, Relaxed);
    }

    pub fn register(self: &Arc<Self>, status: &Status) {
        let (told, reset) = (self.clone(), self.clone());
        status.register(Box::new(move |put| {
            let limit = told.limit();
            put(
                "Redolith_memory_limit",
                StatusValue::Int(if limit == usize::MAX { 0 } else { limit as u64 }),
            );
            put("Redolith_memory_peak", StatusValue::Int(told.peak() as u64));
            put("Redolith_memory_refusals", StatusValue::Int(told.refusals()));
            put("Redolith_memory_used", StatusValue::Int(told.used() as u64));
        }));
        status.on_reset(Box::new(move || reset.reset_counts()));
    }

    /// Adds `bytes` to the memory in use, or fails (MEM-1).
    fn take(&self, bytes: usize) -> Result<()> {
        let limit = self.limit();
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.used.fetch_update(Relaxed, Relaxed, more) {
            Ok(before) => {
                if before + bytes > self.peak() {
                    self.peak.fetch_max(before + bytes, Relaxed);
                }
                Ok(())
            }
            Err(_) => Err(self.refuse(
                limit,
                "redolith_server_memory",
                "All sessions together would need more memory. Raise the setting, or run \
                 fewer statements at a time.",
            )),
        }
    }
    fn give(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.given_back.fetch_add(bytes as u64, Relaxed);
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "MEM-2: given back once");
    }
    #[cold]
    fn refuse(&self, limit: usize, setting: &str, what: &str) -> SqlError {
        self.refusals.fetch_add(1, Relaxed);
        SqlError::capacity_exceeded(limit, setting, what)
    }
}

/// The memory of one statement, session or connection.
#[derive(Debug)]
pub struct Account {
    server: Arc<ServerMemory>,
    used: usize,
    /// Bytes taken from the server for this account.
    taken: usize,
    limit: usize,
    credit: usize,
}

impl Account {
    /// An account that only the server's limit bounds.
    pub fn new(server: &Arc<ServerMemory>) -> Account {
        Account::with_credit(server, CREDIT)
    }
    /// An account without credit, for objects of which there are very many: the first bytes count
    /// too.
    pub fn exact(server: &Arc<ServerMemory>) -> Account {
        Account::with_credit(server, 0)
    }
    fn with_credit(server: &Arc<ServerMemory>, credit: usize) -> Account {
        Account { server: server.clone(), used: 0, taken: 0, limit: usize::MAX, credit }
    }
    /// `redolith_statement_memory`.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }
    pub fn limit(&self) -> usize {
        self.limit
    }
    pub fn used(&self) -> usize {
        self.used
    }
    /// Another account of the same server, without credit and limit.
    pub fn beside(&self) -> Account {
        Account::exact(&self.server)
    }

    /// Charges `bytes` more, or fails with error 3170 and charges nothing.
    #[inline]
    pub fn charge(&mut self, bytes: usize) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        if used > self.limit || used > self.taken.max(self.credit) {
            self.take_for(used)?;
        }
        self.used = used;
        Ok(())
    }
    /// Fails as [`Account::charge`] does if there is no room for `bytes` more, and charges nothing.
    /// To be asked before something large is made that is charged when its size is known.
    #[cold]
    pub fn has_room(&mut self, bytes: usize) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        if used > self.limit || used > self.taken.max(self.credit) {
            let before = self.taken;
            self.take_for(used)?;
            self.server.used.fetch_sub(self.taken - before, Relaxed);
            self.taken = before;
        }
        Ok(())
    }
    /// Charges or releases the difference after a structure's size has changed from `*counted` to
    /// `now` bytes. On success `*counted` is `now`.
    #[inline]
    pub fn recount(&mut self, counted: &mut usize, now: usize) -> Result<()> {
        if now > *counted {
            self.charge(now - *counted)?;
        } else if now < *counted {
            self.release_to(self.used.saturating_sub(*counted - now));
        }
        *counted = now;
        Ok(())
    }
    /// For the account of a single structure, whose size is `bytes` now. The account keeps no
    /// slack, because the next change may come much later.
    pub fn set(&mut self, bytes: usize) -> Result<()> {
        if bytes >= self.used {
            return self.charge(bytes - self.used);
        }
        self.used = bytes;
        self.give_beyond(bytes);
        Ok(())
    }
    /// Releases all charges made since `used()` returned `mark`.
    #[inline]
    pub fn release_to(&mut self, mark: usize) {
        if mark < self.used {
            self.used = mark;
            if self.taken > mark.saturating_add(SLACK) || mark <= self.credit && self.taken > 0 {
                self.give_beyond(mark);
            }
        }
    }

    /// The bytes that an account with `used` bytes takes from the server.
    fn share(&self, used: usize) -> usize {
        match used {
            _ if used <= self.credit => 0,
            _ if self.credit == 0 => used,
            _ => used.saturating_add(CHUNK - 1) / CHUNK * CHUNK,
        }
    }
    #[cold]
    fn take_for(&mut self, used: usize) -> Result<()> {
        if used > self.limit {
            let what = "The statement, or the user variables of its session, would need more \
                 memory. Raise the setting, or let the statement sort and collect fewer rows.";
            return Err(self.server.refuse(self.limit, "redolith_statement_memory", what));
        }
        let share = self.share(used);
        self.server.take(share - self.taken)?;
        self.taken = share;
        Ok(())
    }
    #[cold]
    fn give_beyond(&mut self, used: usize) {
        let share = self.share(used).min(self.taken);
        self.server.give(self.taken - share);
        self.taken = share;
    }
}
impl Drop for Account {
    fn drop(&mut self) {
        self.server.give(self.taken);
    }
}

/// Approximate memory of a row lock: its entry in the lock table, with the hash table's free room,
/// and its key in the transaction's list.
pub const LOCK_BYTES: usize = 128;
/// Approximate memory of a range lock: two keys in a tree.
pub const RANGE_BYTES: usize = 256;

/// Approximate memory of the locks of a transaction.
pub fn lock_bytes(held: &TrxLocks) -> usize {
    held.locks_held() * LOCK_BYTES + held.ranges_held() * RANGE_BYTES
}

/// The accounts of a session.
#[derive(Debug)]
pub struct SessionMemory {
    /// The memory of the running statement; empty between statements.
    pub statement: Account,
    /// The tokens, the tree and the plan of the running text. `parser_max_mem_size` bounds them
    /// separately.
    pub text: Account,
    /// The values of user variables and the names of PREPARE, which outlive the statement.
    pub kept: Account,
    /// The savepoints of the transaction.
    pub savepoints: Account,
    /// The warnings of the last statement.
    pub warnings: Account,
    /// The events of the transaction for the binary log. They have no limit of the statement:
    /// `max_binlog_cache_size` bounds them.
    pub binlog: Account,
    /// The locks of the transaction. (Its undo log is in pages of the buffer pool and in files.)
    locks: Account,
    held: Option<Arc<TrxLocks>>,
}
impl SessionMemory {
    pub fn new(server: &Arc<ServerMemory>) -> SessionMemory {
        let account = || Account::new(server);
        SessionMemory {
            statement: account(),
            text: account(),
            kept: account(),
            savepoints: account(),
            warnings: account(),
            binlog: account(),
            locks: account(),
            held: None,
        }
    }
    /// Sets the lock list that [`Self::count_locks`] counts.
    pub fn watch_locks(&mut self, held: Arc<TrxLocks>) {
        self.held = Some(held);
    }
    /// Charges the row locks that the transaction holds now; error 1206 if they are too many.
    /// Called before each statement of the transaction, and from time to time in a long statement.
    #[inline]
    pub fn count_locks(&mut self) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        self.locks.set(lock_bytes(held)).map_err(|_| SqlError::lock_table_full())
    }
    /// The account of the transaction's locks, which the session no longer holds.
    pub fn hand_over_locks(&mut self) -> Account {
        let empty = Account::new(&self.locks.server);
        std::mem::replace(&mut self.locks, empty)
    }
    /// Releases the memory of a transaction that has ended.
    #[inline]
    pub fn forget_transaction(&mut self) {
        self.savepoints.release_to(0);
        self.binlog.release_to(0);
        self.locks.release_to(0);
    }
    /// `redolith_statement_memory`: the limit of the statement's account, of the user variables and
    /// of the savepoints. Locks have no such limit: their number follows from the rows that the
    /// transaction changes, not from the memory of its statements.
    pub fn set_limit(&mut self, bytes: usize) {
        self.statement.set_limit(bytes);
        self.kept.set_limit(bytes);
        self.savepoints.set_limit(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_bounded_and_gives_back() {
        let server = ServerMemory::new();
        let mut a = Account::new(&server);
        a.set_limit(1 << 20);
        a.charge(CREDIT).unwrap();
        assert_eq!(server.used(), 0, "MEM-3");
        a.charge(1).unwrap();
        assert_eq!(server.used(), CHUNK);
        let e = a.charge(1 << 20).unwrap_err();
        assert_eq!((e.code, a.used(), server.used()), (3170, CREDIT + 1, CHUNK), "MEM-1");
        assert!(
            e.message.contains("1048576 bytes for 'redolith_statement_memory'"),
            "{}",
            e.message
        );
        a.charge((1 << 20) - CREDIT - 1).unwrap();
        assert_eq!((server.used(), server.peak()), (1 << 20, 1 << 20));
        a.release_to(CREDIT);
        assert_eq!((server.used(), server.peak(), server.refusals()), (0, 1 << 20, 1));
        a.charge(usize::MAX).unwrap_err();
        a.charge(CHUNK).unwrap();
        drop(a);
        assert_eq!(server.used(), 0, "MEM-2");
    }

    #[test]
    fn all_accounts_together_are_bounded() {
        let server = ServerMemory::new();
        server.set_limit(10 * CHUNK);
        let mut accounts: Vec<Account> = (0..10).map(|_| Account::new(&server)).collect();
        for a in &mut accounts {
            a.charge(CHUNK).unwrap();
        }
        let e = accounts[0].charge(1).unwrap_err();
        assert!(e.code == 3170 && e.message.contains("'redolith_server_memory'"), "{e}");
        accounts.pop();
        accounts[0].charge(CHUNK).unwrap();
        // A lower limit takes nothing away, but every further charge fails.
        server.set_limit(CHUNK);
        accounts[1].charge(1).unwrap_err();
        drop(accounts);
        assert_eq!((server.used(), server.refusals()), (0, 2));
    }

    #[test]
    fn what_shrinks_is_counted_again() {
        let server = ServerMemory::new();
        let mut a = Account::exact(&server);
        let mut counted = 0;
        for now in [100, 5000, 5000, 40, 0, 1 << 24, 7] {
            a.recount(&mut counted, now).unwrap();
            assert_eq!((a.used(), counted), (now, now));
            assert!(server.used() >= now && server.used() <= now + SLACK.max(5000));
        }
        a.set(0).unwrap();
        assert_eq!(server.used(), 0);
        let mut b = Account::new(&server);
        b.set(1 << 20).unwrap();
        b.set(CREDIT + 1).unwrap();
        assert_eq!(server.used(), CHUNK);
    }

    #[test]
    fn threads_lose_nothing() {
        let server = ServerMemory::new();
        server.set_limit(64 * CHUNK);
        std::thread::scope(|s| {
            for seed in 0..4usize {
                let server = &server;
                s.spawn(move || {
                    let mut a = Account::new(server);
                    for n in 0..20_000usize {
                        let bytes = (n * 7919 + seed * 104_729) % (1 << 20);
                        if a.charge(bytes).is_err() || n % 5 == 0 {
                            a.release_to(a.used() / 3);
                        }
                        assert!(server.used() <= 64 * CHUNK);
                    }
                });
            }
        });
        assert_eq!(server.used(), 0);
        assert!(server.peak() <= 64 * CHUNK && server.refusals() > 0);
    }
}

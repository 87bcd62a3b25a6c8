//! The names that all modules share: identities, positions, failures.
use crate::lock::LockWait;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The bytes of a page, in memory and on disk.
pub const PAGE_SIZE: usize = 16384;

/// A position in the redo stream: the number of bytes before it since the instance was created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Lsn(pub u64);
impl Lsn {
    /// Behind every position.
    pub const MAX: Lsn = Lsn(u64::MAX);
}
impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table space, which is one file. 0 is the system space (the dictionary), 1 and 2 are the undo
/// spaces, and the spaces of tables begin at 16.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u32);
impl SpaceId {
    /// The space of the dictionary.
    pub const SYSTEM: SpaceId = SpaceId(0);
    /// The undo spaces.
    pub const UNDO: [SpaceId; 2] = [SpaceId(1), SpaceId(2)];
    /// The first space that a table may have.
    pub const FIRST_TABLE: SpaceId = SpaceId(16);
}

/// The number of a page in its space. Its byte offset is `no * PAGE_SIZE`. Page 0 is the space's
/// header; in links 0 means "none".
pub type PageNo = u32;

/// A page, by its space and its number in the space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId {
    /// The table space.
    pub space: SpaceId,
    /// The page's number in the space.
    pub no: PageNo,
}
impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.space.0, self.no)
    }
}

/// The number of a transaction, drawn at its first write. Commits have numbers of the same counter
/// (`trx no`). A number has 48 bits; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct TrxId(pub u64);
impl TrxId {
    /// No transaction.
    pub const NONE: TrxId = TrxId(0);
    /// The greatest id, 48 bits of ones.
    pub const MAX: TrxId = TrxId((1 << 48) - 1);
}

/// The result of a call that a user or a disk can make fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure that a user or a disk can cause. A broken invariant panics instead, and a panic aborts
/// the process.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A row with this key exists already.
    #[error("duplicate entry for key '{index}' of table '{table}'")]
    DuplicateKey {
        /// The table's full name.
        table: String,
        /// The index's name.
        index: String,
        /// The index's position in the table.
        index_no: usize,
        /// The clustered key of a row that has the key, if an index was being built; else empty.
        row: Vec<u8>,
    },
    /// A lock was waited for as long as the session allows. Roll the statement back.
    #[error("lock wait timeout exceeded; try restarting transaction")]
    LockWaitTimeout,
    /// The checkpoint has not moved for as long as a wait for a lock may last.
    #[error(
        "lock wait timeout exceeded while waiting for room in the redo log; try restarting \
            transaction"
    )]
    LogFull,
    /// A row is locked, and the caller did not want to wait.
    #[error("a row is locked by another transaction (NOWAIT)")]
    LockNoWait,
    /// The transaction was chosen as the victim of a deadlock. Roll it back.
    #[error("deadlock found when trying to get lock; try restarting transaction")]
    Deadlock,
    /// The session's kill flag was set.
    #[error("the statement was interrupted")]
    Interrupted,
    /// The table does not exist.
    #[error("table '{0}' does not exist")]
    NoSuchTable(String),
    /// A table of this name exists already.
    #[error("table '{0}' already exists")]
    TableExists(String),
    /// DDL has changed the table since the read view was opened. Retry the transaction.
    #[error(
        "the definition of table '{0}' has changed since the transaction's read view was opened; \
            retry the transaction"
    )]
    TableChanged(String),
    /// The schema does not exist.
    #[error("database '{0}' does not exist")]
    NoSuchDatabase(String),
    /// A schema of this name exists already.
    #[error("database '{0}' already exists")]
    DatabaseExists(String),
    /// The table has no index of this name.
    #[error("index '{0}' does not exist")]
    NoSuchIndex(String),
    /// The redo log has no room for a record that travels with a commit.
    #[error(
        "the binary log's events of the transaction have {0} bytes, more than the redo log has \
            room for; make the transaction smaller, or innodb_log_buffer_size larger"
    )]
    RecordTooLong(usize),
    /// The row does not fit into a page.
    #[error("row size too large: {size} bytes, the maximum is {max}")]
    RowTooLarge {
        /// The bytes that it has.
        size: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// The row has too many bytes together with its long columns.
    #[error("row too long: {size} bytes with its long columns, the maximum is {max}")]
    RowTooLong {
        /// The bytes that it has.
        size: u64,
        /// The bytes that it may have.
        max: usize,
    },
    /// The change does not fit into an undo record.
    #[error("undo log record too big: {size} bytes, the maximum is {max}")]
    UndoTooLong {
        /// The bytes that it has.
        size: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// The transaction has changed as many rows as a transaction can.
    #[error("a transaction changes at most {max} rows; commit, and go on with another one")]
    TooManyChanges {
        /// The changes that it may have.
        max: u32,
    },
    /// The key does not fit into an index page.
    #[error("key too long: {size} bytes, the maximum is {max}")]
    KeyTooLong {
        /// The bytes that it has.
        size: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// The AUTO_INCREMENT column has no further value.
    #[error("no more AUTO_INCREMENT values in table '{0}'")]
    AutoIncrementExhausted(String),
    /// There is no room for a file to grow. The text names the file.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// A page cannot be read, or is not well formed.
    #[error("page {page} of {file} is corrupt ({why}); table {table}")]
    Corrupt {
        /// The page.
        page: PageId,
        /// The file that the page is in.
        file: String,
        /// The table that the file belongs to.
        table: String,
        /// What is wrong with the page.
        why: String,
    },
    /// The operating system reports an error.
    #[error("{what}: {why}")]
    Io {
        /// The operation, and the file.
        what: String,
        /// The operating system's message.
        why: String,
        /// The disk is full.
        full: bool,
    },
    /// A temporary file would exceed the space of all temporary files.
    #[error("the temporary files would need more than the {limit} bytes that they may have")]
    TemporarySpaceFull {
        /// The bytes that all files together may have.
        limit: u64,
    },
    /// A temporary file cannot be made, written or read.
    #[error("{call} the temporary file {file}: {why}")]
    TemporaryFile {
        /// What failed.
        call: crate::temporary::FileCall,
        /// The file.
        file: String,
        /// The operating system's message.
        why: String,
    },
    /// A row is too long to be sorted.
    #[error("a row to be sorted is longer than 4294967295 bytes")]
    SortedRowTooLong,
    /// Another engine has locked the directory.
    #[error(
        "the data directory {0} is in use by another process, or by another engine in this one"
    )]
    InUse(String),
    /// Files of the data directory contradict each other. The start is refused, and nothing has
    /// been changed.
    #[error("the data directory is damaged: {0}")]
    Damaged(String),
    /// The directory is of another format or has other settings; the text says which.
    #[error("{0}")]
    Incompatible(String),
    /// The transaction may not write.
    #[error("a read-only transaction tried to write")]
    ReadOnly,
    /// A start of a damaged directory changes nothing.
    #[error("the engine is read-only while innodb_force_recovery is above 0")]
    ForcedRecovery,
    /// The transaction has no savepoint of this name.
    #[error("savepoint '{0}' does not exist")]
    NoSuchSavepoint(String),
    /// The engine does not do this; the text says what.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// Wraps an error of the operating system. A full disk (ENOSPC, EDQUOT) gets a kind of its own.
    pub fn io(what: impl fmt::Display, e: &std::io::Error) -> Error {
        if e.kind() == std::io::ErrorKind::StorageFull
            || e.kind() == std::io::ErrorKind::QuotaExceeded
        {
            Error::DiskFull(what.to_string())
        } else {
            Error::Io { what: what.to_string(), why: e.to_string(), full: false }
        }
    }
    /// Does the same, and says what the administrator has to do.
    pub fn io_advised(what: impl fmt::Display, e: &std::io::Error, advice: &str) -> Error {
        match Error::io(what, e) {
            Error::Io { what, why, full } => {
                Error::Io { what, why: format!("{why}. {advice}"), full }
            }
            other => other,
        }
    }
}

/// Why a synchronous call below `row` could not finish. The call has released every latch and
/// changed nothing. The caller waits with the named function, and calls again.
#[derive(Debug)]
pub enum WouldBlock {
    /// The page is not in memory: wait with `BufferPool::load`.
    Page(PageId),
    /// No buffer frame is free: wait with `BufferPool::wait_frame`.
    Frame,
    /// The redo log (its buffer or its files) has no room for so many bytes: wait with
    /// `Log::wait_space`.
    LogSpace(u64),
    /// The redo log has no room even for work that may use its reserve: wait with
    /// `Log::wait_space_reserved`.
    LogReserve(u64),
    /// The space has no free page: extend it with `Spaces::extend`.
    Extend(SpaceId),
    /// Another transaction holds a row lock: wait with `LockWait::wait`.
    Lock(LockWait),
    /// The call failed, so there is nothing to wait for.
    Failed(Error),
}
impl From<Error> for WouldBlock {
    fn from(e: Error) -> WouldBlock {
        WouldBlock::Failed(e)
    }
}
/// The result of a call that waits for nothing.
pub type Try<T> = std::result::Result<T, WouldBlock>;

/// The disk has broken a promise, or the engine has met a broken invariant: this function logs the
/// reason and ends the process, so that nothing false is acknowledged. The engine gives up nowhere
/// else (docs/invariants.md, I-2).
#[cold]
pub fn poison(why: &str) -> ! {
    tracing::error!(
        "fatal: {why}; the process ends now, so that no commit is acknowledged that is \
         not durable. Start the server again to recover"
    );
    let ends = cfg!(panic = "abort") || ABORT_WHEN_POISONED.load(Relaxed);
    // The panic's message is for programs that receive no events.
    if ends && tracing::dispatcher::has_been_set() {
        std::process::abort()
    }
    // `then_some` would make the value, and drop it, in either case.
    let _end = ends.then(|| AbortOnUnwind);
    panic!("poisoned: {why}")
}
static ABORT_WHEN_POISONED: AtomicBool = AtomicBool::new(false);
/// Makes [`poison`] end the process also in programs whose panics unwind. Otherwise only a thread
/// would end, and other threads would wait for ever for bytes that it was to make durable. The
/// simulation wants the panic, and does not call this.
pub fn abort_when_poisoned() {
    ABORT_WHEN_POISONED.store(true, Relaxed);
}
/// Ends the process if this thread is panicking in a program that asked for it: what the panic left
/// half done must not reach others.
pub(crate) fn abort_if_panicking() {
    if std::thread::panicking() && ABORT_WHEN_POISONED.load(Relaxed) {
        std::process::abort();
    }
}
/// Ends the process when an unwinding panic, whose message has been printed then, drops it.
struct AbortOnUnwind;
impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

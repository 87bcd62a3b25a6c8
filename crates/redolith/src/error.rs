//! What can go wrong, and what to do then.
use crate::value::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use redolith_engine::Error as EngineError;
use std::time::Duration;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. It has changed nothing then, and its transaction goes on, except where the
/// error says that the transaction was rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `insert` met a row with the same key.
    #[error(
        "table '{table}' already has a row with this key (index '{index}'), so nothing was \
         inserted: use `put` to replace it"
    )]
    DuplicateKey {
        /// The table's name.
        table: String,
        /// The index that has the key: PRIMARY, or one that was added with SQL.
        index: String,
    },
    /// Transactions waited for each other's row locks in a circle, and this one was chosen to break
    /// it.
    #[error(
        "deadlock: the transaction waited for a row lock of another one that waited for its own, \
         and was rolled back: run it again from its beginning (`Database::transact` does that)"
    )]
    Deadlock,
    /// Another transaction has had a row lock for too long.
    #[error(
        "a row of table '{table}' was locked by another transaction for {waited:?}: repeat the \
         call, or roll back and run the transaction again"
    )]
    LockTimeout {
        /// The table's name.
        table: String,
        /// `Builder::lock_wait_timeout`.
        waited: Duration,
    },
    /// The redo log was full for as long as a lock is waited for.
    #[error(
        "the redo log stayed full, because pages are written to the data files too slowly: repeat \
         the call, or open the database with a larger `Builder::log_capacity_bytes`"
    )]
    LogFull,
    /// The stored table has other columns than the definition.
    #[error(
        "table '{table}' is stored as ({stored}), but its definition asks for ({wanted}): open it \
         with the types it was created with, or choose another name"
    )]
    TableMismatch {
        /// The table's name.
        table: String,
        /// The stored columns, in SQL.
        stored: String,
        /// The columns of the definition, in SQL.
        wanted: String,
    },
    /// No table can have this name.
    #[error("'{name}' cannot be the name of a table: {why}")]
    TableName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The table was dropped after it was opened.
    #[error(
        "table '{table}' was dropped: open it again with `Database::table`, which creates it anew"
    )]
    TableDropped {
        /// The table's name.
        table: String,
    },
    /// Others have used the table, or have been creating or dropping tables, for too long.
    #[error(
        "table '{table}' was in use by transactions that have not ended, or was being created or \
         dropped, for {waited:?}: repeat the call when they have ended"
    )]
    TableInUse {
        /// The table's name.
        table: String,
        /// `Builder::lock_wait_timeout`.
        waited: Duration,
    },
    /// The table is younger than what the transaction sees.
    #[error(
        "table '{table}' was created after the transaction's first read, so the transaction cannot \
         see it: begin a new one"
    )]
    TableTooNew {
        /// The table's name.
        table: String,
    },
    /// A column of a key has too many bytes. Nothing is ever cut off.
    #[error(
        "a key of table '{table}' has {bytes} bytes in a column that has room for {max} (all text \
         and bytes in a key share {MAX_KEY_BYTES}): use a shorter key, such as a hash of it"
    )]
    KeyTooLong {
        /// The table's name.
        table: String,
        /// The bytes given.
        bytes: usize,
        /// The bytes that there is room for.
        max: usize,
    },
    /// A value has too many bytes. Nothing is ever cut off.
    #[error(
        "a value for table '{table}' has {bytes} bytes, the maximum is {MAX_VALUE_BYTES}: divide \
         it among several rows"
    )]
    ValueTooLong {
        /// The table's name.
        table: String,
        /// The bytes given.
        bytes: usize,
    },
    /// SQL has no such numbers.
    #[error("a value for table '{table}' is not a number or infinite, which a column cannot hold")]
    NotFinite {
        /// The table's name.
        table: String,
    },
    /// The savepoint is gone.
    #[error(
        "the savepoint is of another transaction, or the transaction was rolled back to an earlier \
         one since: take a new savepoint, or roll back the transaction"
    )]
    NoSuchSavepoint,
    /// The future of a change was dropped before its end.
    #[error(
        "a change in this transaction was dropped while it was under way, so it may be half done: \
         roll back the transaction, or to a savepoint before the change"
    )]
    Interrupted,
    /// The table was opened by another database.
    #[error(
        "table '{table}' was opened by another `Database` than the transaction's: open it with the \
         one that began the transaction"
    )]
    OtherDatabase {
        /// The table's name.
        table: String,
    },
    /// Rows of one transaction were read with another one.
    #[error(
        "these rows belong to another transaction: read them with the one whose range they are"
    )]
    OtherTransaction,
    /// Another program, or another `Database` in this one, has the directory open.
    #[error(
        "the directory {directory} is in use by another process or another `Database`: close that \
         one first, or share one `Database` (its clones are handles of the same database)"
    )]
    InUse {
        /// The directory.
        directory: String,
    },
    /// The database was to be closed while it is in use.
    #[error(
        "the database is not closed yet: {handles} other handles or transactions of it exist, and \
         the last of them closes it when it is dropped"
    )]
    StillInUse {
        /// Clones of the `Database`, and transactions and snapshots that have not ended.
        handles: usize,
    },
    /// The disk is full.
    #[error("the disk is full ({0}): make room, then repeat the call or roll back")]
    DiskFull(String),
    /// Files are damaged, or were written by a version that this one cannot read.
    #[error(
        "{0}: restore the directory from a backup, or see docs/reliability.md for what can be read"
    )]
    Damaged(String),
    /// The operating system refused to read or write a file.
    #[error("{0}: see to the file system, then open the database again")]
    Io(String),
    /// The program's own error, from [`Error::other`].
    #[error("{0}")]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The program's own error, to end the closure of `Database::transact`: its transaction is
    /// rolled back, and the call returns this error.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Other(error.into())
    }

    /// An error of the engine, in a call about `table`.
    pub(crate) fn of_table(e: EngineError, table: &str, waited: Duration) -> Error {
        let table = table.to_string();
        match e {
            EngineError::DuplicateKey { index, .. } => Error::DuplicateKey { table, index },
            EngineError::LockWaitTimeout => Error::LockTimeout { table, waited },
            EngineError::TableChanged(_) => Error::TableTooNew { table },
            other => Error::from_engine(other),
        }
    }
    /// An error of the engine that is about no table, or names it.
    pub(crate) fn from_engine(e: EngineError) -> Error {
        match e {
            EngineError::Deadlock => Error::Deadlock,
            EngineError::LogFull => Error::LogFull,
            EngineError::InUse(directory) => Error::InUse { directory },
            EngineError::DiskFull(what) => Error::DiskFull(what),
            e @ (EngineError::Corrupt { .. }
            | EngineError::Damaged(_)
            | EngineError::Incompatible(_)) => Error::Damaged(e.to_string()),
            e @ EngineError::Io { .. } => Error::Io(e.to_string()),
            e => Error::Other(e.into()),
        }
    }
}

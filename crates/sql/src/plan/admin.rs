//! Statements about transactions, variables and the server, not about rows.
use super::expr::{Expr, VariableScope};
use redolith_types::Collation;

/// The name of a table, for statements that look the table up when they run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TableName {
    pub schema: Box<str>,
    pub name: Box<str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionStmt {
    /// BEGIN commits an open transaction first. `read_only` None: `@@transaction_read_only`
    /// decides.
    Begin {
        read_only: Option<bool>,
        consistent_snapshot: bool,
    },
    Commit {
        chain: bool,
        release: bool,
    },
    Rollback {
        chain: bool,
        release: bool,
    },
    Savepoint(Box<str>),
    RollbackTo(Box<str>),
    Release(Box<str>),
}

/// What an XA statement does with the transaction that it names. XA RECOVER is a form of SHOW.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XaVerb {
    /// `joins`: JOIN or RESUME.
    Start {
        joins: bool,
    },
    /// `suspends`: SUSPEND [FOR MIGRATE].
    End {
        suspends: bool,
    },
    Prepare,
    Commit {
        one_phase: bool,
    },
    Rollback,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}
impl Isolation {
    /// The level's name in `@@transaction_isolation`.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "READ-UNCOMMITTED",
            Isolation::ReadCommitted => "READ-COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE-READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// One item of a SET list. The items are evaluated and assigned in order (`SET @a = 1, @b = @a + 1`
/// works).
#[derive(Clone, Debug)]
pub enum SetItem {
    User {
        name: Box<str>,
        value: Expr,
    },
    System {
        target: SetTarget,
        name: Box<str>,
        value: SetValue,
    },
    /// SET NAMES: character_set_client, _connection, _results and collation_connection. None for
    /// DEFAULT, the GLOBAL character_set_client.
    Names(Option<Collation>),
    /// SET CHARACTER SET: client and results get this collation (None: as above), the
    /// connection gets the database's.
    CharacterSet(Option<Collation>),
    /// SET [SESSION|GLOBAL] TRANSACTION ...
    Transaction {
        target: SetTarget,
        isolation: Option<Isolation>,
        read_only: Option<bool>,
    },
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTarget {
    Session,
    Global,
    /// SET PERSIST / PERSIST_ONLY
    Persist,
    /// SET TRANSACTION without a scope, `SET @@transaction_isolation = ..`: for the next
    /// transaction only.
    NextTransaction,
}
#[derive(Clone, Debug)]
pub enum SetValue {
    Expr(Expr),
    /// The text of a bare word (`SET binlog_format = ROW`, `ON`).
    Word(Box<str>),
    Default,
}
impl SetTarget {
    pub fn scope(self) -> VariableScope {
        match self {
            SetTarget::Global | SetTarget::Persist => VariableScope::Global,
            _ => VariableScope::Session,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdminStmt {
    /// CHECK TABLE: columns Table, Op, Msg_type, Msg_text.
    Check(Vec<TableName>),
    Analyze(Vec<TableName>),
    /// ANALYZE TABLE .. UPDATE HISTOGRAM with a number of buckets; without, DROP HISTOGRAM. The
    /// columns as CHECK TABLE's.
    Histogram {
        tables: Vec<TableName>,
        columns: Vec<Box<str>>,
        buckets: Option<u32>,
    },
    Optimize(Vec<TableName>),
    Repair(Vec<TableName>),
    Checksum(Vec<TableName>),
    /// LOCK TABLES: commits, and releases earlier table locks.
    LockTables(Vec<(TableName, TableLock)>),
    UnlockTables,
    /// In this order.
    Flush(Vec<FlushWhat>),
    /// RESET BINARY LOGS AND GTIDS: the number of the first file, if the statement names it.
    ResetMaster(Option<u64>),
    /// PURGE BINARY LOGS TO: the file that is to be the oldest.
    PurgeLogsTo(Box<str>),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableLock {
    Read,
    Write,
}
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FlushWhat {
    /// `FLUSH TABLES [names] [WITH READ LOCK]`
    Tables {
        names: Vec<TableName>,
        read_lock: bool,
    },
    /// All logs: the binary log goes on in another file, and the error log is opened again.
    Logs,
    BinaryLogs,
    /// The error log and those that the server does not have.
    OtherLogs,
    Status,
    Privileges,
}
impl AdminStmt {
    pub fn commits_implicitly(&self) -> bool {
        !matches!(
            self,
            AdminStmt::Checksum(_) | AdminStmt::UnlockTables | AdminStmt::PurgeLogsTo(_)
        )
    }
}

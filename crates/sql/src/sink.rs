//! The destination of results: the server's packet writer, or a vector in tests. The executor
//! pushes values straight into the sink; no buffer lies between them.
//!
//! **SINK-1** The order of calls for one statement is either `ok`, or `error`, or
//! `columns (begin_row value* end_row)* finish_rows`, where `error` may take the place of anything
//! after `columns`.
//! **SINK-2** Each row has exactly as many values as there are columns, in their order. The sink
//! encodes a value by its *column's* type.
//! **SINK-3** The sink is drained between rows only. After a drain that has failed, the statement
//! gives the sink nothing but its error.
//! **SINK-4** Before each statement of a text but the first, the results of the earlier statements
//! are set aside. They leave while the statement waits, and nobody waits until they have left.
use crate::error::SqlError;
use crate::plan::expr_type::{ExprType, Kind};
use redolith_types::{Collation, Value};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A result column, with the fields of the protocol's column definition.
#[derive(Clone, Debug)]
pub struct ColumnMeta {
    pub schema: Arc<str>,
    /// The table's alias, and the table's own name; both are empty for expressions.
    pub table: Arc<str>,
    pub org_table: Arc<str>,
    pub name: Arc<str>,
    pub org_name: Arc<str>,
    pub ty: ExprType,
    pub flags: ColumnFlags,
}

impl ColumnMeta {
    /// The column of an expression that is not a table's column.
    pub fn expression(name: &str, ty: ExprType) -> ColumnMeta {
        let none: Arc<str> = Arc::from("");
        let mut flags = ColumnFlags::of_type(&ty);
        flags.set(ColumnFlags::NOT_NULL, !ty.nullable);
        ColumnMeta {
            schema: none.clone(),
            table: none.clone(),
            org_table: none.clone(),
            name: Arc::from(name),
            org_name: none,
            ty,
            flags,
        }
    }
}

/// The flags of a column definition.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ColumnFlags(pub u16);
impl ColumnFlags {
    pub const NOT_NULL: u16 = 1;
    pub const PRIMARY_KEY: u16 = 2;
    pub const UNIQUE_KEY: u16 = 4;
    pub const MULTIPLE_KEY: u16 = 8;
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    pub const ZEROFILL: u16 = 64;
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const TIMESTAMP: u16 = 1024;
    pub const SET: u16 = 2048;
    pub const NO_DEFAULT: u16 = 4096;
    pub const ON_UPDATE_NOW: u16 = 8192;
    pub const PART_KEY: u16 = 16384;
    pub const NUM: u16 = 32768;

    pub fn set(&mut self, flag: u16, on: bool) {
        if on {
            self.0 |= flag;
        } else {
            self.0 &= !flag;
        }
    }
    /// The flags that follow from the type alone.
    pub fn of_type(ty: &ExprType) -> ColumnFlags {
        let mut flags = ColumnFlags(0);
        flags.set(Self::UNSIGNED, ty.unsigned);
        flags.set(Self::BLOB, matches!(ty.kind, Kind::Blob | Kind::Json));
        flags.set(Self::ENUM, ty.kind == Kind::Enum);
        flags.set(Self::SET, ty.kind == Kind::Set);
        let has_no_charset = ty.kind == Kind::Json || ty.kind.is_numeric() || ty.kind.is_temporal();
        flags.set(Self::BINARY, ty.is_binary() || has_no_charset);
        flags.set(Self::NUM, ty.kind.is_numeric());
        flags
    }
}

/// `SERVER_STATUS_*` of OK and EOF packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatusFlags(pub u16);
impl StatusFlags {
    pub const IN_TRANSACTION: u16 = 1;
    pub const AUTOCOMMIT: u16 = 2;
    pub const MORE_RESULTS: u16 = 8;
    pub const NO_GOOD_INDEX: u16 = 16;
    pub const NO_INDEX: u16 = 32;
    pub const CURSOR_EXISTS: u16 = 64;
    pub const LAST_ROW_SENT: u16 = 128;
    pub const DB_DROPPED: u16 = 256;
    pub const NO_BACKSLASH_ESCAPES: u16 = 512;
    pub const METADATA_CHANGED: u16 = 1024;
    pub const SESSION_STATE_CHANGED: u16 = 16384;
    pub const IN_READ_ONLY_TRANSACTION: u16 = 8192;

    pub fn set(&mut self, flag: u16, on: bool) {
        if on {
            self.0 |= flag;
        } else {
            self.0 &= !flag;
        }
    }
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// The end of a statement: the OK packet, or the EOF (or OK with header 0xfe) after rows. The end
/// after rows has only `warnings` and `status`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OkInfo {
    pub affected: u64,
    pub last_insert_id: u64,
    pub warnings: u16,
    pub status: StatusFlags,
    /// For example "Records: 3  Duplicates: 0  Warnings: 0" or "Rows matched: ..."; empty for most
    /// statements.
    pub info: String,
}

/// The results that a sink has set aside ([`ResultSink::set_aside`]).
pub trait Aside: Send {
    /// Polls the statement that follows the results. If the statement waits, the results leave as
    /// far as the client takes them, and the rest leaves when the client takes more.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        statement: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T>;
}
/// For sinks that send nothing.
impl Aside for () {
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        statement: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        statement(cx)
    }
}

pub trait ResultSink: Send {
    type Aside: Aside;
    /// Sets aside what the sink holds, for the time in which the next statement of the text runs
    /// (SINK-4). Returns None if the sink holds nothing.
    fn set_aside(&mut self) -> Option<Self::Aside> {
        None
    }
    /// Sets the character set of the results that follow, as
    /// [`Session::results_collation`](crate::session::Session::results_collation) returns it.
    fn results_in(&mut self, _results: Option<Collation>) {}
    /// Takes the definitions of the rows' columns. Where they are many, it sends them in parts, as
    /// [`drain`](Self::drain) does.
    fn columns(
        &mut self,
        columns: &[ColumnMeta],
    ) -> impl Future<Output = Result<(), SqlError>> + Send;
    fn begin_row(&mut self);
    /// Adds the next value to the row that [`Self::begin_row`] has begun.
    fn value(&mut self, value: &Value<'_>);
    fn end_row(&mut self);
    fn row(&mut self, values: &[Value<'_>]) {
        self.begin_row();
        for value in values {
            self.value(value);
        }
        self.end_row();
    }
    /// The bytes that the strings of a row take in the sink: it may convert them. The executor asks
    /// for long rows only.
    fn row_bytes(&self, values: &[Value<'_>]) -> usize {
        values.iter().map(crate::memory::bytes_of).sum()
    }
    /// Announces that the strings of the next row take `bytes` bytes together, as
    /// [`row_bytes`](Self::row_bytes) has told.
    fn expect(&mut self, _bytes: usize) {}
    fn finish_rows(&mut self, end: &OkInfo);
    fn ok(&mut self, ok: &OkInfo);
    fn error(&mut self, error: &SqlError);
    /// Whether the client agrees to send files (CLIENT_LOCAL_FILES).
    fn takes_files(&self) -> bool {
        false
    }
    /// Asks the client for a file of its machine (LOAD DATA LOCAL), after all that the sink holds.
    fn ask_for_file(&mut self, _name: &[u8]) -> impl Future<Output = Result<(), SqlError>> + Send {
        std::future::ready(Err(SqlError::local_infile_disabled()))
    }
    /// Appends the next bytes of the client's file to `to`, at most as many as fit into its memory.
    /// Returns false at the end of the file.
    fn read_file(
        &mut self,
        _to: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, SqlError>> + Send {
        std::future::ready(Ok(false))
    }
    /// Reads away the rest of a file, if the client is sending one. Then the client listens.
    fn end_file(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// The number of bytes that the sink holds, for the statement's account. The executor asks for
    /// it when the sink wants to be drained.
    fn held(&self) -> usize {
        0
    }
    /// True if the sink's buffer is so full that it should be drained before more rows come.
    fn wants_drain(&self) -> bool;
    /// Sends the bytes that the sink holds. An error means that the client is gone, or that the
    /// statement was killed while its client did not take them: the statement ends.
    fn drain(&mut self) -> impl Future<Output = Result<(), SqlError>> + Send;
}

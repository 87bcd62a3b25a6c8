//! How a table's rows are reached.
//!
//! **PATH-1** The rows a path gives are a superset of those the statement wants: what the path does
//! not guarantee stays in the source's `filter`, and only that. A path whose bounds say all there
//! is to say leaves no filter.
//! **PATH-2** Key expressions depend only on parameters, variables and columns of *earlier*
//! sources.
//! **PATH-3** Bounds are compared as the columns compare: the executor converts each value to its
//! column's type on the way to key bytes. A value that does not fit exactly is rounded outwards or
//! makes the range empty (`id = 5.5`).
//! **PATH-4** Ranges are not sorted and may overlap (they hold parameters): the executor encodes
//! them, drops the empty ones, sorts by low bound (descending if `reverse`) and merges.
use super::expr::Expr;
use crate::table_info::TableInfo;
use std::sync::Arc;

/// One table in a statement: which rows, by which way, under which lock.
#[derive(Clone, Debug)]
pub struct TableAccess {
    pub table: Arc<TableInfo>,
    /// The table's name in the statement, for EXPLAIN.
    pub alias: Arc<str>,
    pub path: AccessPath,
    pub lock: RowLock,
    /// What remains to be checked of each row.
    pub filter: Option<Expr>,
    /// The columns the statement reads, ascending. Others need not be decoded or, if they are
    /// external, fetched.
    pub columns: Vec<u16>,
    /// Indexes that conditions fit, for EXPLAIN.
    pub possible: Vec<u16>,
}

#[derive(Clone, Debug)]
pub struct AccessPath {
    /// Position in `TableDef::indexes`; None: the clustered index of a table that has no primary
    /// key.
    pub index: Option<usize>,
    pub kind: AccessKind,
    /// Last row first.
    pub reverse: bool,
    /// Every column in `TableAccess::columns` is in this secondary index (or in the primary key). A
    /// hint: rows are still read from the clustered record, but EXPLAIN says "Using index".
    pub covering: bool,
}

#[derive(Clone, Debug)]
pub enum AccessKind {
    /// The condition is never true: no rows, no table access ("Impossible WHERE").
    Empty,
    FullScan,
    /// Every column of a unique index, in index order, by equality: at most one row. A NULL value
    /// finds nothing.
    Point(Vec<Expr>),
    Ranges(Vec<KeyRange>),
}

/// A range of one index: the first columns equal to `prefix`, the next one between the bounds (in
/// the order of its values: for a descending column the executor exchanges them).
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Equality on the first `prefix.len()` columns. NULL finds nothing, except where `null_safe`
    /// has the column's bit (`<=>`, IS NULL).
    pub prefix: Vec<Expr>,
    pub null_safe: u32,
    /// Bounds on the column after the prefix. A bound that is NULL at run time makes the range
    /// empty. With only an upper bound NULLs are left out.
    pub low: Option<Bound>,
    pub high: Option<Bound>,
}

#[derive(Clone, Debug)]
pub struct Bound {
    pub value: Expr,
    pub inclusive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowLock {
    /// Consistent read (SERIALIZABLE in a transaction turns it into Share at run time).
    None,
    /// What a statement that changes rows reads beside them. At SERIALIZABLE, and in a transaction
    /// at REPEATABLE READ, the newest rows, locked as Share does: its view may be older than the
    /// statement, and it would copy rows of that and change the newest. Else a consistent read.
    ShareForChange,
    Share(OnConflict),
    Exclusive(OnConflict),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnConflict {
    Wait,
    NoWait,
    SkipLocked,
}

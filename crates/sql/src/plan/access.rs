//! The access path of a table: how the executor reaches the rows that a statement wants.
//!
//! **PATH-1** The rows of a path are a superset of the rows that the statement wants. The source's
//! `filter` has exactly the conditions that the path does not guarantee. A path whose bounds
//! guarantee all conditions leaves no filter.
//! **PATH-2** Key expressions depend only on parameters, variables, columns of *earlier* sources
//! and, in a subquery, on what it takes from outside.
//! **PATH-3** Bounds are compared as the columns compare: the executor converts each value to its
//! column's type when it makes key bytes. A value that does not fit exactly is rounded outwards or
//! makes the range empty (`id = 5.5`).
//! **PATH-4** Ranges are not sorted and may overlap, because they hold parameters. The executor
//! encodes the ranges, drops the empty ranges, sorts by low bound (descending if `reverse`) and
//! merges.
//! **PATH-5** Which of several indexes is searched may depend on statistics. A path by a whole
//! unique key does not.
//! **PATH-6** A range by LIKE has every string that begins as the pattern does up to its first
//! wildcard. The condition stays in the filter. If the pattern turns out to begin with a wildcard,
//! the executor reads the whole table, unless the statement wants the path's order or the index
//! covers it.
//! **PATH-7** A path by `column IN (SELECT ..)` has a range for each value of the subquery, which
//! has been run before. The condition stays in the filter. If there are too many values, the range
//! is the one around them, and the executor reads the whole table where PATH-6 says so.
//! **PATH-8** A union searches several indexes, each for branches of an OR. A row that several
//! branches find comes once. The condition stays in the filter. If the rows turn out to be many,
//! the executor reads the whole table for those that have not come yet.
use super::expr::Expr;
use super::subquery::SubqueryBody;
use crate::table_info::TableInfo;
use std::sync::Arc;

/// One table in a statement: the rows to read, the path to them and their lock.
#[derive(Clone, Debug)]
pub struct TableAccess {
    pub table: Arc<TableInfo>,
    /// The table's name in the statement, for EXPLAIN.
    pub alias: Arc<str>,
    pub path: AccessPath,
    pub lock: RowLock,
    /// The conditions that remain to be checked for each row.
    pub filter: Option<Expr>,
    /// The columns that the statement reads, ascending. Other columns need not be decoded or, if
    /// they are external, fetched.
    pub columns: Vec<u16>,
    /// Indexes that conditions could use, for EXPLAIN.
    pub possible: Vec<u16>,
    /// The statement wants few rows of each group of the index's keys (LOOSE-1).
    pub loose: Option<LooseScan>,
}

/// Of the rows with equal first columns of the key, the scan may leave out those between the first
/// and the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LooseScan {
    /// The number of these columns.
    pub columns: u16,
    /// The last row is wanted, too.
    pub ends: bool,
    /// The first row is the first in which this column is not NULL.
    pub not_null: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct AccessPath {
    /// Position in `TableDef::indexes`; None: the clustered index of a table without a primary key,
    /// or a union of several indexes.
    pub index: Option<usize>,
    pub kind: AccessKind,
    /// The path returns the last row first.
    pub reverse: bool,
    pub covering: Covering,
    /// The statement wants the rows in the order of the path.
    pub keeps_order: bool,
}

/// Whether the path's secondary index, with the primary key that each entry has, has every column
/// in `TableAccess::columns`. Then EXPLAIN says "Using index".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Covering {
    No,
    /// It has the columns, but not all as values: texts are in keys by their weights.
    Columns,
    /// It has the values, so consistent reads mostly do without the rows.
    Values,
}

#[derive(Clone, Debug)]
pub enum AccessKind {
    /// The condition is never true: there are no rows and no table access ("Impossible WHERE").
    Empty,
    FullScan,
    /// Equality on every column of a unique index, in index order: at most one row. A NULL value
    /// finds nothing.
    Point(Vec<Expr>),
    Ranges(Vec<KeyRange>),
    /// The rows of all parts, each of another index, in no order (PATH-8).
    Union(Vec<UnionPart>),
}

/// The ranges of one index that a union reads.
#[derive(Clone, Debug)]
pub struct UnionPart {
    /// Position in `TableDef::indexes`.
    pub index: usize,
    pub ranges: Vec<KeyRange>,
}

/// A range of one index: the first columns equal `prefix`, and the next column lies between the
/// bounds. The bounds are in the order of its values: for a descending column the executor
/// exchanges them.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Equality on the first `prefix.len()` columns. NULL finds nothing, except where `null_safe`
    /// has the column's bit (`<=>`, IS NULL).
    pub prefix: Vec<Expr>,
    pub null_safe: u32,
    pub next: NextColumn,
}

/// What a range asks of the column after its prefix.
#[derive(Clone, Debug)]
pub enum NextColumn {
    Any,
    /// A bound that is NULL at run time makes the range empty. A range with only an upper bound
    /// leaves NULLs out.
    Between {
        low: Option<Bound>,
        high: Option<Bound>,
    },
    /// Strings that begin as every match of `column LIKE pattern` does (PATH-6). A pattern that is
    /// NULL makes the range empty. A pattern that begins with a wildcard leaves out NULLs only.
    Like {
        pattern: Expr,
        escape: Option<char>,
    },
    /// The values of a subquery that takes nothing from the rows (PATH-7).
    Members(Arc<SubqueryBody>),
}
impl NextColumn {
    pub fn is_any(&self) -> bool {
        matches!(self, NextColumn::Any)
    }
    /// Calls `f` with each expression. The subquery of `Members` is in the filter, too, which names
    /// it.
    pub fn each_expr<'p>(&'p self, f: &mut dyn FnMut(&'p Expr)) {
        match self {
            NextColumn::Any | NextColumn::Members(_) => {}
            NextColumn::Between { low, high } => {
                low.iter().chain(high).for_each(|bound| f(&bound.value));
            }
            NextColumn::Like { pattern, .. } => f(pattern),
        }
    }
}

impl KeyRange {
    /// Calls `f` with each expression of the bounds.
    pub fn each_expr<'p>(&'p self, f: &mut dyn FnMut(&'p Expr)) {
        self.prefix.iter().for_each(&mut *f);
        self.next.each_expr(f);
    }
}

#[derive(Clone, Debug)]
pub struct Bound {
    pub value: Expr,
    pub inclusive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowLock {
    /// A consistent read (SERIALIZABLE in a transaction turns it into Share at run time).
    None,
    /// For tables that a statement reads in order to change rows of others. At SERIALIZABLE, and in
    /// a transaction at REPEATABLE READ, the statement reads and locks the newest rows, as Share
    /// does: otherwise it would read from a view that may be older than the rows it changes. In
    /// other cases this is a consistent read.
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

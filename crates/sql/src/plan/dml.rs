//! INSERT, REPLACE, UPDATE, DELETE.
//!
//! **DML-1** `fill` and `defaults` have one entry per column of the table, in table order: a row is
//! made by going through them once.
//! **DML-2** With `InsertRows::Repeat` one row's expressions serve all rows: row i sees the
//! parameters from `i * stride` on (a slice; `Param(n)` is parameter `n + i * stride`), and
//! expressions after the rows see those from `(rows - 1) * stride` on. Subqueries, which are run
//! once for the statement, occur in none of them.
//! **DML-3** Where a value of a VALUES list reads a `Column`, which is one of the row being made,
//! `names_columns` is set: values are then evaluated in the order of the list.
use super::access::TableAccess;
use super::expr::Expr;
use super::select::{Limit, SelectPlan, SortKey};
use crate::table_info::TableInfo;
use redolith_types::Value;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct InsertPlan {
    pub table: Arc<TableInfo>,
    pub rows: InsertRows,
    /// Where each column's value comes from.
    pub fill: Vec<Fill>,
    /// What each column gets where none is given.
    pub defaults: Vec<DefaultFill>,
    /// DML-3
    pub names_columns: bool,
    pub on_duplicate: OnDuplicate,
    /// INSERT IGNORE: errors of a row become warnings (values are adjusted, duplicates skipped).
    pub ignore: bool,
}

#[derive(Clone, Debug)]
pub enum InsertRows {
    /// Each row: as many values as the statement has columns.
    Rows(Vec<Vec<InsertValue>>),
    /// Rows of the same form, see DML-2.
    Repeat { row: Vec<InsertValue>, stride: u32 },
    /// `buffer`: the table is read as well as written, so all rows are read before the first is
    /// inserted.
    Select { select: Box<SelectPlan>, buffer: bool },
}
#[derive(Clone, Debug)]
pub enum InsertValue {
    Expr(Expr),
    /// The keyword DEFAULT: as if the column were not named.
    Default,
}

/// How a column of a new row gets its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Value n of the row (NULL or 0 in an AUTO_INCREMENT column: the next number).
    Given(u16),
    /// Not named: its entry in `defaults`.
    Default,
}
#[derive(Clone, Debug)]
pub enum DefaultFill {
    /// Fit for the column as it is.
    Literal(Value<'static>),
    /// DEFAULT (expression), CURRENT_TIMESTAMP, literals whose value depends on the session
    /// (TIMESTAMP): to be converted for the column.
    Expr(Box<Expr>),
    AutoIncrement,
    /// NOT NULL without a default: error 1364 in strict mode, else (or with IGNORE) the type's zero
    /// value and a warning.
    Missing,
}

#[derive(Clone, Debug)]
pub enum OnDuplicate {
    Error,
    /// In order; `Column` refers to the row that is there (with earlier assignments applied),
    /// `InsertedValue` to the new one.
    Update(Vec<Assignment>),
    Replace,
}

#[derive(Clone, Debug)]
pub struct Assignment {
    pub column: u16,
    pub value: Expr,
    /// The value reads a column that an earlier assignment of this statement set (MySQL: it sees
    /// the new value).
    pub reads_assigned: bool,
}

#[derive(Clone, Debug)]
pub struct UpdatePlan {
    /// `lock` is Exclusive.
    pub access: TableAccess,
    pub assignments: Vec<Assignment>,
    /// ON UPDATE CURRENT_TIMESTAMP columns that are not assigned: set if something else of the row
    /// changed.
    pub on_update_now: Vec<u16>,
    /// An assignment or ON UPDATE changes a column of the index that is scanned (or the clustered
    /// key): find the rows first, then change them (Halloween).
    pub collect_first: bool,
    pub sort: DmlSort,
    pub limit: Limit,
    pub ignore: bool,
}

#[derive(Clone, Debug)]
pub struct DeletePlan {
    pub access: TableAccess,
    pub sort: DmlSort,
    pub limit: Limit,
    pub ignore: bool,
}

/// ORDER BY of UPDATE and DELETE, when no index gives the order: `keys` name `exprs`.
#[derive(Clone, Debug, Default)]
pub struct DmlSort {
    pub exprs: Vec<Expr>,
    pub keys: Vec<SortKey>,
}

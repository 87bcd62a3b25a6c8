//! The plan: what `bind` makes of a statement and what the executor runs. Immutable, shared by
//! every connection that sends the same text.
//!
//! **PLAN-1** A plan holds no value of the session it was made in, except through `PlanKey`
//! (default schema, sql_mode, collation).
//! **PLAN-2** A plan is run only while all its tables are current ([`Plan::is_current`]), checked
//! after their metadata locks are taken.
pub mod access;
pub mod admin;
pub mod ddl;
pub mod dml;
pub mod expr;
pub mod expr_set;
pub mod expr_type;
pub mod function;
mod memory_size;
pub mod select;
pub mod show;
mod walk;

pub use access::{AccessKind, AccessPath, Bound, KeyRange, OnConflict, RowLock, TableAccess};
pub use admin::*;
pub use ddl::*;
pub use dml::*;
pub use expr::*;
pub use expr_type::{Coercibility, ExprType, Kind};
pub use function::Function;
pub use select::*;
pub use show::{ShowFilter, ShowKind, ShowStmt};

use crate::parse::hints::Hints;
use crate::sink::ColumnMeta;
use crate::table_info::TableInfo;
use redolith_types::{Collation, Value};
use std::sync::Arc;

#[derive(Debug)]
pub struct Plan {
    pub body: Statement,
    /// The result's columns; empty if the statement gives no rows.
    pub columns: Vec<ColumnMeta>,
    /// Parameters (with `InsertRows::Repeat`: those of the other rows are not among them).
    pub params: u32,
    /// Types the parameters take from where they stand, for COM_STMT_PREPARE's answer.
    pub param_types: Vec<ExprType>,
    /// Parameters whose type only their values tell, and the types that this plan is for (BIND-3).
    pub untyped: Box<[(u32, ExprType)]>,
    /// Tables read or written, each once: metadata locks and PLAN-2.
    pub tables: Vec<TableUse>,
    /// May other statements with the same text use it? Not for DDL, SET and the like, which are
    /// cheap to make and rare.
    pub cacheable: bool,
    pub hints: Option<Box<Hints>>,
}

impl Plan {
    /// DML-2: the values of an INSERT's rows but the first are not among the parameters.
    pub fn has_one_row_for_all(&self) -> bool {
        matches!(&self.body, Statement::Insert(InsertPlan { rows: InsertRows::Repeat { .. }, .. }))
    }
    /// How long it may run: what its hint says, else the session's `max_execution_time`; 0: for
    /// ever. Only a SELECT is limited.
    #[inline]
    pub fn time_limit_ms(&self, session_ms: u64) -> u64 {
        let hint = self.hints.as_ref().and_then(|h| h.max_execution_time_ms).filter(|ms| *ms > 0);
        if matches!(self.body, Statement::Select(_)) { hint.unwrap_or(session_ms) } else { 0 }
    }
    /// Are these parameters of the types that this plan is for? NULL is of any.
    /// `collation`: of a parameter that is a string.
    pub fn is_for(&self, params: &[Value<'_>], collation: impl Fn(u32) -> Collation) -> bool {
        self.untyped.iter().all(|(n, ty)| match &params[*n as usize] {
            Value::Null => true,
            Value::Int(_) => ty.kind == Kind::BigInt && !ty.unsigned,
            Value::UInt(_) => ty.kind == Kind::BigInt && ty.unsigned,
            Value::Float(_) | Value::Double(_) => ty.kind == Kind::Double,
            Value::Decimal(d) => ty.kind == Kind::Decimal && ty.decimals == d.scale(),
            Value::Date(_) => ty.kind == Kind::Date,
            Value::Time(t) => {
                ty.kind == Kind::Time && ty.decimals == fraction_digits(t.microseconds())
            }
            Value::DateTime(at) => {
                ty.kind == Kind::DateTime && ty.decimals == fraction_digits(at.microsecond())
            }
            Value::Bytes(_) => ty.kind.is_string() && ty.collation == collation(*n),
        })
    }
}

#[derive(Clone, Debug)]
pub struct TableUse {
    pub table: Arc<TableInfo>,
    pub write: bool,
}

#[derive(Debug)]
pub enum Statement {
    Select(SelectPlan),
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
    /// Rows made while planning: EXPLAIN, SHOW forms that need nothing else.
    Rows(Vec<Vec<redolith_types::Value<'static>>>),
    Show(ShowStmt),
    Ddl(DdlStmt),
    /// BEGIN, COMMIT, SAVEPOINT, ...: run by the session.
    Transaction(TransactionStmt),
    Set(Vec<SetItem>),
    Use(Box<str>),
    /// Evaluated, results thrown away.
    Do(Vec<Expr>),
    Kill {
        id: Expr,
        query_only: bool,
    },
    Admin(AdminStmt),
    /// PREPARE, EXECUTE, DEALLOCATE PREPARE: run by the session.
    Prepare {
        name: Box<str>,
        text: Expr,
    },
    Execute {
        name: Box<str>,
        using: Vec<Box<str>>,
    },
    Deallocate(Box<str>),
    /// Accepted without effect.
    Nothing,
}

/// Digits of a fractional second that a value from outside has: six, if it has a fraction.
pub fn fraction_digits(microseconds: u32) -> u8 {
    if microseconds == 0 { 0 } else { 6 }
}

impl Plan {
    /// PLAN-2: no table it was made for has been altered or dropped since.
    pub fn is_current(&self) -> bool {
        self.tables.iter().all(|t| t.table.is_current())
    }
    /// DDL and the like commit the open transaction before they run (MySQL manual, "Statements That
    /// Cause an Implicit Commit").
    pub fn commits_implicitly(&self) -> bool {
        match &self.body {
            Statement::Ddl(_) => true,
            Statement::Admin(a) => a.commits_implicitly(),
            _ => false,
        }
    }
}

//! The plan of a statement: `bind` makes it, and the executor runs it. A plan is immutable, and all
//! connections that send the same text share it.
//!
//! **PLAN-1** A plan holds no value of the session that made it, except through
//! [`PlanContext`](crate::plan_cache::PlanContext) (default schema, sql_mode, character sets,
//! collation).
//! **PLAN-2** A plan runs only while all its tables are current ([`Plan::is_current`]). The session
//! checks this after it has taken the tables' metadata locks.
//! **PLAN-3** A plan that was chosen by statistics is looked for again once they are old
//! ([`Plan::serves`]), but never during a run.
pub mod access;
pub mod admin;
pub mod ddl;
pub mod dml;
pub mod expr;
pub mod expr_set;
pub mod expr_type;
pub mod function;
mod hash_lookup;
mod json_table;
mod load;
mod many;
mod memory_size;
pub mod select;
pub mod show;
pub mod subquery;
mod walk;
mod window;

use crate::xa::Xid;
pub use access::{
    AccessKind, AccessPath, Bound, Covering, KeyRange, LooseScan, NextColumn, OnConflict, RowLock,
    TableAccess, UnionPart,
};
pub use admin::*;
pub use ddl::*;
pub use dml::*;
pub use expr::*;
pub use expr_type::{Coercibility, ExprType, Kind};
pub use function::Function;
pub use hash_lookup::{HashKey, HashLookup};
pub use json_table::{JsonInstead, JsonTable, JsonTableColumn, JsonTableRows};
pub use load::{LoadPlan, LoadTarget};
pub use many::{ManyPlan, Target};
pub use select::*;
pub use show::{ShowFilter, ShowKind, ShowStmt};
pub use subquery::{EqualBy, HashProbe, Subquery, SubqueryBody, SubqueryTest};
pub use window::{Edge, Frame, WindowCall, WindowFunction, WindowSort, WindowStage};

use crate::parse::hints::Hints;
use crate::sink::ColumnMeta;
use crate::table_info::TableInfo;
use redolith_engine::dict::estimate::Statistics;
use redolith_engine::dict::view::View;
use redolith_types::{Collation, Value};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub struct Plan {
    pub body: Statement,
    /// The result's columns; empty if the statement returns no rows.
    pub columns: Vec<ColumnMeta>,
    /// The number of parameters. With `InsertRows::Repeat` it covers the first row, but no other
    /// row.
    pub params: u32,
    /// The types that the parameters get from their context, for COM_STMT_PREPARE's answer.
    pub param_types: Vec<ExprType>,
    /// The parameters whose types only their values tell, with the types that this plan assumes
    /// (BIND-3).
    pub untyped: Box<[(u32, ExprType)]>,
    /// What a comparison makes of constants: dates, and texts of a character set. A constant that
    /// is none is an error before the first row (CONST-1).
    pub constants: Box<[Expr]>,
    /// The tables that the plan reads or writes, each once: for metadata locks and PLAN-2.
    pub tables: Vec<TableUse>,
    /// The views that the statement names, and those that these name, each once.
    pub views: Vec<Arc<View>>,
    /// True if other statements with the same text may use the plan. Plans of DDL, SET and the like
    /// are not kept, because these statements are rare and cheap to bind.
    pub cacheable: bool,
    pub hints: Option<Box<Hints>>,
    /// What [`Plan::bytes`] has counted.
    pub size: OnceLock<usize>,
}

impl Plan {
    /// DML-2: the parameters do not include the values of an INSERT's rows after the first.
    pub fn has_one_row_for_all(&self) -> bool {
        matches!(&self.body, Statement::Insert(InsertPlan { rows: InsertRows::Repeat { .. }, .. }))
    }
    /// The time limit in milliseconds: the limit of the hint, else the session's
    /// `max_execution_time`; 0 means no limit. Only a SELECT has a limit.
    #[inline]
    pub fn time_limit_ms(&self, session_ms: u64) -> u64 {
        let hint = self.hints.as_ref().and_then(|h| h.max_execution_time_ms).filter(|ms| *ms > 0);
        if matches!(self.body, Statement::Select(_)) { hint.unwrap_or(session_ms) } else { 0 }
    }
    /// True if the parameters have the types that this plan assumes. NULL matches every type.
    /// `collation` returns the collation of a string parameter by number.
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
            Value::Json(_) => ty.kind == Kind::Json,
        })
    }
}

#[derive(Clone, Debug)]
pub struct TableUse {
    pub table: Arc<TableInfo>,
    pub write: bool,
    pub statistics: StatisticsUse,
}

/// What a plan has to do with the statistics of a table.
#[derive(Clone, Default, Debug)]
pub enum StatisticsUse {
    /// No choice depends on them. A statement that finds its row by a unique key has no choice.
    #[default]
    None,
    /// The binder would have chosen by them, but there were none, or they were old.
    Wanted,
    Known(Arc<Statistics>),
}
impl StatisticsUse {
    #[inline]
    fn are_current(&self, table: &TableInfo) -> bool {
        match self {
            StatisticsUse::None => true,
            StatisticsUse::Wanted => false,
            StatisticsUse::Known(statistics) => statistics.are_current(table.engine()),
        }
    }
}

#[derive(Debug)]
pub enum Statement {
    Select(SelectPlan),
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
    /// UPDATE and DELETE of several tables.
    UpdateMany(Box<ManyPlan>),
    DeleteMany(Box<ManyPlan>),
    /// Rows that the binder has made: EXPLAIN, and forms of SHOW that need nothing else.
    Rows(Vec<Vec<redolith_types::Value<'static>>>),
    Show(ShowStmt),
    Ddl(DdlStmt),
    /// BEGIN, COMMIT, SAVEPOINT, ...: run by the session.
    Transaction(TransactionStmt),
    /// XA START, ..: run by the session.
    Xa {
        verb: XaVerb,
        xid: Xid,
    },
    Set(Vec<SetItem>),
    /// SET of user variables to values that have subqueries.
    SetVariables(Vec<(Box<str>, Expr)>),
    Use(Box<str>),
    /// The executor evaluates the expressions and drops the results.
    Do(Vec<Expr>),
    Kill {
        id: Expr,
        query_only: bool,
    },
    Admin(AdminStmt),
    /// PURGE BINARY LOGS BEFORE: seconds since 1970.
    PurgeLogsBefore(Expr),
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
    /// The server accepts the statement, which has no effect.
    Nothing,
}

impl Statement {
    /// True for a statement that changes rows of tables.
    pub fn changes_rows(&self) -> bool {
        matches!(
            self,
            Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::UpdateMany(_)
                | Statement::DeleteMany(_)
        )
    }
}

/// The number of fraction digits of a time given as a value: six, or none without a fraction.
pub fn fraction_digits(microseconds: u32) -> u8 {
    if microseconds == 0 { 0 } else { 6 }
}

impl Plan {
    /// PLAN-2: true if no table or view of the plan was altered or dropped after the plan was made.
    pub fn is_current(&self) -> bool {
        self.tables.iter().all(|t| t.table.is_current())
            && self.views.iter().all(|v| v.is_current())
    }
    /// Whether the plan names a temporary table, so that it is of use for one session only.
    pub fn is_private(&self) -> bool {
        self.tables.iter().any(|used| used.table.is_temporary())
    }
    /// Whether all tables that the statement changes are temporary.
    pub fn changes_only_temporary(&self) -> bool {
        self.tables.iter().all(|used| !used.write || used.table.is_temporary())
    }
    /// PLAN-3: true if the plan still may be taken from a cache: it is current, and the statistics
    /// by which its join order and its indexes were chosen are current, too.
    #[inline]
    pub fn serves(&self) -> bool {
        self.is_current() && self.tables.iter().all(|t| t.statistics.are_current(&t.table))
    }
    /// DDL and the like commit the open transaction before they run (MySQL manual, "Statements That
    /// Cause an Implicit Commit").
    pub fn commits_implicitly(&self) -> bool {
        match &self.body {
            Statement::Ddl(ddl) => !ddl.is_temporary(),
            Statement::Admin(a) => a.commits_implicitly(),
            _ => false,
        }
    }
}

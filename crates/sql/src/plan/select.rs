//! SELECT: sources ► filter ► group ► having ► project ► distinct ► sort ► limit, in this order.
//!
//! **SEL-1** Sources are in nested-loop order: for each row of source 0, the rows of source 1, ...
//! A source's filter is checked as soon as its row is there.
//! **SEL-2** `output` is evaluated for each row that passes; its first `visible` expressions are
//! the result, the others are there to be sorted by.
//! **SEL-3** Sort keys name outputs. An empty `order` means that rows come in the wanted order (or
//! in any).
//! **SEL-4** With `grouping`, `output` and `having` see only `GroupKey` and `Aggregate`; without
//! it, `having` is None (it was moved to the filter).
use super::access::TableAccess;
use super::expr::Expr;
use super::expr_type::ExprType;
use crate::information_schema::Virtual;
use crate::sink::ColumnMeta;
use redolith_types::Collation;

#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// Empty: one row without columns (`SELECT 1`).
    pub sources: Vec<Source>,
    /// A condition on no source at all (`WHERE @x = 1`), checked once, before anything is read.
    pub condition: Option<Expr>,
    pub grouping: Option<Grouping>,
    pub having: Option<Expr>,
    pub output: Vec<Expr>,
    pub visible: usize,
    /// Duplicates among the visible outputs are dropped, each output compared by its own collation.
    pub distinct: bool,
    pub order: Vec<SortKey>,
    pub limit: Limit,
    /// `SELECT .. INTO @a, @b`: names of user variables; at most one row.
    pub into: Vec<Box<str>>,
    pub columns: Vec<ColumnMeta>,
    /// SELECT .. FOR UPDATE/SHARE anywhere inside.
    pub locking: bool,
}

#[derive(Clone, Debug)]
pub struct Source {
    pub kind: SourceKind,
    pub join: JoinKind,
    /// Left joins: what beside the access's own filter makes a row match (ON).
    pub on: Option<Expr>,
    /// Conditions of WHERE that are first decided here; for a left join after the row of NULLs is
    /// made. (An inner table's own are in its access.)
    pub filter: Option<Expr>,
}
#[derive(Clone, Debug)]
pub enum SourceKind {
    Table(TableAccess),
    /// Made once, kept, read in order.
    Derived(Box<SelectPlan>),
    /// A table of INFORMATION_SCHEMA: made once, kept, read in order.
    Virtual(Virtual),
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    Inner,
    /// No row that matches: one row of NULLs.
    Left,
}

#[derive(Clone, Debug)]
pub struct Grouping {
    /// Empty: one group of all rows.
    pub keys: Vec<Expr>,
    /// There is no GROUP BY: the one group exists even without rows. (GROUP BY of constants has no
    /// keys either, and no group without rows.)
    pub implicit: bool,
    pub aggregates: Vec<AggregateCall>,
    /// Rows come with equal keys together (index order): a group is done when the next begins.
    pub sorted: bool,
    /// The aggregates are one MIN or MAX of a column whose index order the rows come in: the first
    /// row with a value decides.
    pub first_row: bool,
}

#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: Aggregate,
    pub distinct: bool,
    /// None for COUNT(*). COUNT(DISTINCT a, b) and GROUP_CONCAT have several.
    pub args: Vec<Expr>,
    pub ty: ExprType,
    /// The first so many `args` are the function's own; further ones are only there to be sorted
    /// by.
    pub values: u16,
    /// GROUP_CONCAT: ORDER BY over `args` by position, and SEPARATOR.
    pub order: Vec<SortKey>,
    pub separator: Box<str>,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    /// The argument's value in any row of the group: columns that depend on the group's key,
    /// ANY_VALUE().
    AnyValue,
    BitAnd,
    BitOr,
    BitXor,
    StdDevPop,
    StdDevSamp,
    VarPop,
    VarSamp,
    GroupConcat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// Position in `output`.
    pub output: u16,
    pub descending: bool,
    /// For strings.
    pub collation: Collation,
}

/// Row counts are literals or parameters (a NULL or negative parameter is error 1210).
#[derive(Clone, Debug, Default)]
pub struct Limit {
    pub count: Option<Expr>,
    pub offset: Option<Expr>,
}
impl Limit {
    pub fn is_none(&self) -> bool {
        self.count.is_none() && self.offset.is_none()
    }
}

//! SELECT runs these steps in order: sources ► filter ► group ► having ► project ► distinct ► sort
//! ► limit.
//!
//! **SEL-1** Sources are in nested-loop order: for each row of source 0, the rows of source 1, ...
//! A source's filter is checked as soon as the source's row is read.
//! **SEL-2** `output` is evaluated for each row that passes. The first `visible` expressions are
//! the result; the others serve only as sort keys.
//! **SEL-3** Sort keys name outputs. With an empty `order` the rows need no sort: they already come
//! in the wanted order, or any order will do.
//! **SEL-4** With `grouping`, `output` and `having` see only `GroupKey` and `Aggregate`; without
//! it, `having` is None (the binder has moved it to the filter).
//! **SEL-5** The sources `first..=last` of a nest are an inner side of an outer join. The
//! conditions of its sources are those of ON. If no combination of its rows passes, one row of
//! NULLs stands for each of its sources. Nests lie within each other or apart, none begins where
//! the nest around it begins, and a nest comes after the nest around it.
//! **SEL-6** With `rollup`, the groups have a key more than `keys`: the number of the keys by
//! which the group is grouped. The values of the other keys are NULL.
use super::access::TableAccess;
use super::expr::Expr;
use super::expr_type::ExprType;
use super::hash_lookup::HashLookup;
use super::json_table::JsonTable;
use super::subquery::HashProbe;
use super::window::WindowStage;
use crate::information_schema::Virtual;
use crate::sink::ColumnMeta;
use crate::text_file::TextFormat;
use redolith_types::{Charset, Collation, Column};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// Without a source the SELECT has one row without columns (`SELECT 1`).
    pub sources: Vec<Source>,
    pub nests: Vec<Nest>,
    /// A condition that depends on no source (`WHERE @x = 1`), checked once before anything is
    /// read.
    pub condition: Option<Expr>,
    pub grouping: Option<Grouping>,
    pub having: Option<Expr>,
    pub output: Vec<Expr>,
    pub visible: usize,
    /// Duplicates among the visible outputs are dropped; each output compares by its own collation.
    pub distinct: bool,
    pub order: Vec<SortKey>,
    pub limit: Limit,
    /// `SELECT .. INTO @a, @b`: the names of the user variables; the result has at most one row.
    pub into: Vec<Box<str>>,
    /// `SELECT .. INTO OUTFILE`, `INTO DUMPFILE`.
    pub into_file: Option<Box<IntoFile>>,
    pub columns: Vec<ColumnMeta>,
    /// The statement has FOR UPDATE or FOR SHARE at any depth.
    pub locking: bool,
    /// An expression of the SELECT may hold a dependent subquery (SUB-1). A hint: it may be true
    /// without one.
    pub dependent: bool,
    /// SQL_CALC_FOUND_ROWS: rows beyond LIMIT are counted, too. Only in the outermost SELECT.
    pub counts_all: bool,
    /// EXPLAIN ANALYZE: the rows are thrown away. Only in the outermost SELECT.
    pub analyzed: bool,
    /// In a subquery: the way to answer it from a hash table. The binder moves it to the
    /// [`SubqueryBody`](super::SubqueryBody).
    pub probe: Option<Box<HashProbe>>,
}
impl SelectPlan {
    /// The JSON_TABLE whose rows the SELECT gives.
    pub fn json_table(&self) -> Option<&JsonTable> {
        match &self.sources[..] {
            [Source { kind: SourceKind::JsonTable(table), .. }] => Some(table),
            _ => None,
        }
    }
    /// A SELECT of these outputs, which has no sources and no clauses yet.
    pub fn of_outputs(output: Vec<Expr>) -> SelectPlan {
        SelectPlan {
            sources: Vec::new(),
            nests: Vec::new(),
            condition: None,
            grouping: None,
            having: None,
            visible: output.len(),
            output,
            distinct: false,
            order: Vec::new(),
            limit: Limit::default(),
            into: Vec::new(),
            into_file: None,
            columns: Vec::new(),
            locking: false,
            dependent: false,
            counts_all: false,
            analyzed: false,
            probe: None,
        }
    }
}

/// The file that takes the rows of a SELECT.
#[derive(Clone, Debug)]
pub struct IntoFile {
    /// The name, as bytes.
    pub name: Box<[u8]>,
    /// None: INTO DUMPFILE.
    pub format: Option<TextFormat>,
    /// The character set of the strings; None: they keep their own.
    pub charset: Option<Charset>,
}

#[derive(Clone, Debug)]
pub struct Source {
    pub kind: SourceKind,
    /// The name by which the statement knows the source, for EXPLAIN; empty if it has none.
    pub alias: Arc<str>,
    /// The innermost nest that the source is in (SEL-5).
    pub nest: Option<u16>,
    /// The conditions that decide about the source's row and that its access does not check.
    pub filter: Option<Expr>,
    /// How its rows are found for the rows of the sources before it, if no index finds them.
    pub lookup: Option<Box<HashLookup>>,
    /// While the plan is made: the access by an index in whose place a lookup is to come.
    pub by_index: Option<Box<TableAccess>>,
}
/// Sources for which rows of NULLs stand together where no rows of theirs match: those on the inner
/// side of an outer join (SEL-5).
#[derive(Clone, Debug)]
pub struct Nest {
    pub first: u16,
    pub last: u16,
    /// The nest around it.
    pub parent: Option<u16>,
    /// The conditions of what is around the nest that read its rows: they are checked when it has
    /// its row, be it that of NULLs.
    pub after: Option<Expr>,
}
#[derive(Clone, Debug)]
pub enum SourceKind {
    Table(TableAccess),
    /// A derived table: the executor makes it once, keeps it and reads it in order.
    Derived(Box<SelectPlan>),
    /// LATERAL: a derived table that the executor makes for the rows of the sources before it, with
    /// the values of `outer` on these rows. The same values give the same rows.
    Lateral {
        plan: Box<SelectPlan>,
        outer: Vec<Expr>,
    },
    /// The rows of one SELECT after those of the other, all with the same columns. The only source
    /// of its SELECT.
    Union(Vec<SelectPlan>),
    /// The rows that INTERSECT and EXCEPT leave (SETOP-1), each operand with the operator before
    /// it. The only source of its SELECT.
    Combined(Vec<(SetOperator, SelectPlan)>),
    /// The rows of a recursive common table expression. The only source of its SELECT.
    Recursive(Box<Recursion>),
    /// In a recursive member: the rows of the iteration before, by [`Recursion::slot`].
    Iteration {
        slot: u16,
        name: Box<str>,
    },
    /// The rows of a SELECT with the values of window functions (WIN-1). The only source of its
    /// SELECT.
    Windows(Box<WindowStage>),
    /// The rows of a JSON_TABLE (JTAB-2). The only source of its SELECT, which gives its columns.
    JsonTable(Box<JsonTable>),
    /// A table of INFORMATION_SCHEMA, which the executor also makes once, keeps and reads in order.
    Virtual(Virtual),
}

impl SourceKind {
    /// Calls `f` with each SELECT of which the source is made.
    pub fn each_inner<'p>(&'p self, f: &mut dyn FnMut(&'p SelectPlan)) {
        match self {
            SourceKind::Table(_)
            | SourceKind::JsonTable(_)
            | SourceKind::Virtual(_)
            | SourceKind::Iteration { .. } => {}
            SourceKind::Derived(inner) | SourceKind::Lateral { plan: inner, .. } => f(inner),
            SourceKind::Windows(stage) => f(&stage.inner),
            SourceKind::Union(parts) => parts.iter().for_each(f),
            SourceKind::Combined(parts) => parts.iter().for_each(|(_, part)| f(part)),
            SourceKind::Recursive(recursion) => {
                f(&recursion.seed);
                recursion.members.iter().for_each(f);
            }
        }
    }
}

/// What stands between two operands of a set operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetOperator {
    pub kind: SetKind,
    pub all: bool,
}
impl SetOperator {
    pub const UNION_ALL: SetOperator = SetOperator { kind: SetKind::Union, all: true };
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetKind {
    Union,
    Intersect,
    Except,
}
impl SetKind {
    pub fn word(self) -> &'static str {
        match self {
            SetKind::Union => "UNION",
            SetKind::Intersect => "INTERSECT",
            SetKind::Except => "EXCEPT",
        }
    }
}

/// A common table expression that refers to itself (REC-1).
#[derive(Clone, Debug)]
pub struct Recursion {
    pub name: Box<str>,
    /// The number by which the members' [`SourceKind::Iteration`] knows it.
    pub slot: u16,
    /// The operands that do not refer to the expression, and the types and names of its columns.
    pub seed: SelectPlan,
    /// The operands that do.
    pub members: Vec<SelectPlan>,
    /// The columns that take the members' values.
    pub columns: Vec<Column>,
    /// No row comes twice.
    pub distinct: bool,
    pub limit: Limit,
}

#[derive(Clone, Debug)]
pub struct Grouping {
    /// Without keys all rows form one group.
    pub keys: Vec<Expr>,
    /// WITH ROLLUP: each row is in a group for the first n keys, for every n (SEL-6).
    pub rollup: bool,
    /// The SELECT has no GROUP BY: its single group exists even without rows. (GROUP BY of
    /// constants has no keys either, but makes no group without rows.)
    pub implicit: bool,
    pub aggregates: Vec<AggregateCall>,
    /// Rows with equal keys come one after another (index order): a group is complete when the next
    /// begins.
    pub sorted: bool,
    /// The only aggregate is a MIN or MAX of a column, and the rows come in that column's index
    /// order: the first row with a value decides.
    pub first_row: bool,
}

#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: Aggregate,
    pub distinct: bool,
    /// None for COUNT(*). COUNT(DISTINCT a, b) and GROUP_CONCAT have several.
    pub args: Vec<Expr>,
    pub ty: ExprType,
    /// The first `values` of `args` are the function's own arguments; the others serve only as sort
    /// keys.
    pub values: u16,
    /// GROUP_CONCAT: ORDER BY over `args` by position, and SEPARATOR in the character set of `ty`.
    pub order: Vec<SortKey>,
    pub separator: Box<[u8]>,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    /// The argument's value in any row of the group: for columns that depend on the group's key,
    /// and for ANY_VALUE().
    AnyValue,
    BitAnd,
    BitOr,
    BitXor,
    StdDevPop,
    StdDevSamp,
    VarPop,
    VarSamp,
    GroupConcat,
    JsonArrayAgg,
    JsonObjectAgg,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// Position in `output`.
    pub output: u16,
    pub descending: bool,
    /// The collation by which strings are compared.
    pub collation: Collation,
}

/// Row counts are literals or parameters (error 1210 for a NULL or negative parameter).
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

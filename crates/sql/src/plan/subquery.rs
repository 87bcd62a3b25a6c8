//! Subqueries in expressions.
//!
//! A subquery is a function of the query around it. `outer` lists what it takes from there: an
//! expression of the enclosing query for each. Inside, [`Outer(n)`](super::ExprKind::Outer) is the
//! value of expression n. A name that is found two levels further out is taken by each query on the
//! way: the query between takes it as an `Outer` of its own. So an expression only ever names what
//! belongs to its own query, whatever is done with a query (grouping rewrites columns to group
//! keys) is done with what its subqueries take, and a plan holds no value of an execution.
//!
//! **SUB-1** A subquery whose `outer` differs from row to row is *dependent*. It is run for a row
//! when an evaluation needs its value. Other subqueries are run once for each run of their query,
//! and again only if what they take has changed. As in MySQL, a subquery with RAND() or an
//! assignment is dependent, too, except where there are no rows (SET, VALUES).
//! **SUB-2** The rows of a subquery depend on the values of `outer` and on the statement alone,
//! except where it is volatile. Results are kept by these values.
//! **SUB-3** A [`HashProbe`] gives the same answers as the plan of its subquery: each of its keys
//! is equal as bytes where `=` holds.
use super::expr::{CompareAs, CompareOp, Expr};
use super::expr_type::{ExprType, Kind};
use super::select::SelectPlan;
use redolith_types::Collation;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Subquery {
    /// Copies of an expression, which aliases make, share the query.
    pub body: Arc<SubqueryBody>,
    pub test: SubqueryTest,
    /// What the query takes from the query around it (SUB-1).
    pub outer: Vec<Expr>,
    pub dependent: bool,
}

#[derive(Debug)]
pub struct SubqueryBody {
    pub plan: SelectPlan,
    /// The subquery's number in its statement; the executor keeps results under this number.
    pub slot: u16,
    /// The number of levels of its tree.
    pub height: u32,
    /// The rows may be others each time, although nothing that the query takes has changed.
    pub volatile: bool,
    /// It is volatile for another reason than that it reads user variables.
    pub changing: bool,
    pub probe: Option<Box<HashProbe>>,
}

#[derive(Clone, Debug)]
pub enum SubqueryTest {
    /// The single value of the single row; NULL without a row; error 1242 with several rows.
    Scalar,
    Exists,
    /// `(a, b) IN (SELECT ..)`: each value with the way in which it is compared with its column.
    In {
        negated: bool,
        values: Vec<(Expr, CompareAs)>,
    },
    /// `value op ANY (SELECT ..)`, or ALL.
    Quantified {
        op: CompareOp,
        all: bool,
        how: CompareAs,
        value: Expr,
    },
}

/// How to answer EXISTS and IN for many rows with one run of the inner query: the rows of `build`,
/// which takes nothing from outside, go into a hash table by those of their columns that conditions
/// `column = outer value` name.
#[derive(Clone, Debug)]
pub struct HashProbe {
    /// Its first outputs are the keys. For IN the value follows.
    pub build: SelectPlan,
    /// The outer side of each key. It names no column.
    pub keys: Vec<(Expr, EqualBy)>,
    /// How the value of IN is equal to the value of a row.
    pub value: Option<EqualBy>,
    /// A condition on outer values alone.
    pub condition: Option<Expr>,
    /// An index finds the rows for the outer values, too: the table pays only for many rows.
    pub seeks: bool,
}

/// A comparison by `=` that bytes can decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EqualBy {
    Int,
    Decimal,
    Double,
    String(Collation),
    Date,
    DateTime,
    Time,
}

impl EqualBy {
    /// None if bytes cannot decide the comparison of these types: where values are converted, a
    /// conversion may warn or depend on the other side.
    pub fn of(how: CompareAs, a: &ExprType, b: &ExprType) -> Option<EqualBy> {
        let both = |test: &dyn Fn(&ExprType) -> bool| test(a) && test(b);
        let integer =
            |t: &ExprType| t.kind.is_integer() && !matches!(t.kind, Kind::Bit | Kind::Year);
        let number = |t: &ExprType| integer(t) || t.kind == Kind::Decimal;
        let moment = |t: &ExprType| matches!(t.kind, Kind::DateTime | Kind::Timestamp);
        match how {
            CompareAs::Int if both(&integer) => Some(EqualBy::Int),
            CompareAs::Decimal if both(&number) => Some(EqualBy::Decimal),
            CompareAs::Double
                if both(&|t| number(t) || matches!(t.kind, Kind::Float | Kind::Double)) =>
            {
                Some(EqualBy::Double)
            }
            CompareAs::String(collation)
                if both(&|t| {
                    matches!(t.kind, Kind::Char | Kind::VarChar | Kind::Blob)
                        && t.collation.charset() == collation.charset()
                }) =>
            {
                Some(EqualBy::String(collation))
            }
            CompareAs::Date | CompareAs::DateTime if both(&|t| t.kind == Kind::Date) => {
                Some(EqualBy::Date)
            }
            CompareAs::DateTime if both(&moment) => Some(EqualBy::DateTime),
            CompareAs::Time if both(&|t| t.kind == Kind::Time) => Some(EqualBy::Time),
            _ => None,
        }
    }
}

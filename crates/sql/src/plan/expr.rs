//! Bound expressions: names resolved to places, literals to values, calls to ids, every node with
//! its type.
//!
//! **Where values come from.** An expression is evaluated against
//! - *sources*: the current row of each FROM item (`Column`); a statement over one table has source
//!   0 only;
//! - *a group*, after GROUP BY: `GroupKey` and `Aggregate` slots of [`Grouping`](super::Grouping);
//!   no `Column` occurs there;
//! - *parameters*: `?` of a prepared statement and literals parameterized out of a text statement,
//!   one array;
//! - *the session*: user and system variables.
//!
//! **EXPR-1** An expression that depends on none of these except functions without state was folded
//! into a `Literal`.
//! **EXPR-2** A comparison's `how` was chosen from the operands' types. Where a type is only known
//! with the value (a `?`), it is `ByValue`.
use super::expr_type::ExprType;
use super::function::Function;
use super::select::SelectPlan;
use crate::table_info::TableInfo;
use redolith_types::{Collation, Value};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: ExprType,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Literal(Value<'static>),
    /// Parameter number, from 0.
    Param(u32),
    /// Column of the current row of a FROM item. `column` counts in the table's definition, or in a
    /// derived table's output. An ENUM or SET whose node has the type of a number is that number.
    Column {
        source: u16,
        column: u16,
    },
    /// After grouping: the value of GROUP BY expression n.
    GroupKey(u16),
    /// After grouping: the result of aggregate n.
    Aggregate(u16),
    /// `VALUES(c)` in ON DUPLICATE KEY UPDATE: what the row that could not be inserted has in
    /// column c.
    InsertedValue(u16),
    /// Lower-case name without the `@`.
    UserVariable(Box<str>),
    /// `@name := value`; gives the value.
    AssignUserVariable(Box<str>, Box<Expr>),
    /// Lower-case name. Read when evaluated.
    SystemVariable {
        scope: VariableScope,
        name: Box<str>,
    },

    Unary(UnaryOp, Box<Expr>),
    Arith {
        op: ArithOp,
        sides: Box<[Expr; 2]>,
    },
    Compare {
        op: CompareOp,
        how: CompareAs,
        sides: Box<[Expr; 2]>,
    },
    /// value, low, high.
    Between {
        negated: bool,
        how: CompareAs,
        args: Box<[Expr; 3]>,
    },
    /// `value IN (list)`. `sorted` says that the list holds only non-NULL literals in ascending
    /// order by `how`: search it by halves.
    In {
        negated: bool,
        how: CompareAs,
        value: Box<Expr>,
        list: Vec<Expr>,
        sorted: bool,
    },
    /// `escape` is one character of the pattern's character set; '\\' by default; None: no escape
    /// character.
    Like {
        negated: bool,
        collation: Collation,
        escape: Option<char>,
        sides: Box<[Expr; 2]>,
    },
    /// `pattern` as MySQL's REGEXP.
    Regexp {
        negated: bool,
        collation: Collation,
        sides: Box<[Expr; 2]>,
    },
    IsNull {
        negated: bool,
        value: Box<Expr>,
    },
    /// `IS TRUE` (Some(true)), `IS FALSE` (Some(false)), `IS UNKNOWN` is IsNull.
    IsTruth {
        negated: bool,
        truth: bool,
        value: Box<Expr>,
    },
    /// Three-valued; two or more parts, never nested in themselves.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Xor(Box<[Expr; 2]>),
    /// Searched (`operand` None: each `when` is a condition) or simple (compared by `how` with the
    /// operand).
    Case {
        operand: Option<Box<Expr>>,
        how: CompareAs,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// CAST/CONVERT to the node's own `ty` (kind, unsigned, length if not u32::MAX, decimals,
    /// collation).
    Cast(Box<Expr>),
    /// A hexadecimal or bit literal: bytes, and where a number is wanted the number that they are,
    /// high byte first.
    Hex(Box<Expr>),
    /// A column under a COLLATE that is not its own: its value, which compares by the node's `ty`.
    Collate(Box<Expr>),
    /// A constant brought to the type of the column it is compared with (a date given as a string).
    /// As Cast, but a value that does not convert gives NULL and MySQL's warning 1292 (error 1525
    /// for temporal types). Strings come into another character set: 1267 if it lacks a character.
    ConvertTo(Box<Expr>),
    /// The text of an ENUM or SET given as a number: its names are those of a table's column.
    Member {
        number: Box<Expr>,
        table: Arc<TableInfo>,
        column: u16,
    },
    /// `value + INTERVAL amount unit`; `subtract` for minus.
    Interval {
        subtract: bool,
        unit: IntervalUnit,
        sides: Box<[Expr; 2]>,
    },
    Call {
        function: Function,
        args: Vec<Expr>,
    },
    /// Uncorrelated subqueries; evaluated once per statement.
    Subquery(Box<Subquery>),
}

#[derive(Clone, Debug)]
pub struct Subquery {
    pub plan: SelectPlan,
    pub test: SubqueryTest,
    /// Number of the subquery in its statement: where the executor keeps its result.
    pub slot: u16,
}
#[derive(Clone, Debug)]
pub enum SubqueryTest {
    /// The one value of the one row; NULL without a row; 1242 with several.
    Scalar,
    Exists {
        negated: bool,
    },
    In {
        negated: bool,
        how: CompareAs,
        value: Expr,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Not,
    Minus,
    BitNot,
}
/// The result's type (the node's `ty`) says in which arithmetic: `BIGINT [UNSIGNED]`, DECIMAL,
/// DOUBLE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArithOp {
    Add,
    Subtract,
    Multiply,
    /// `/`: DECIMAL (scale of the left side + div_precision_increment) or DOUBLE. NULL and warning
    /// 1365 by zero.
    Divide,
    /// DIV: BIGINT.
    IntDivide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOp {
    Eq,
    /// `<=>`
    NullSafeEq,
    NotEq,
    Less,
    LessEq,
    Greater,
    GreaterEq,
}
impl CompareOp {
    /// The operator with its sides exchanged.
    pub fn flipped(self) -> CompareOp {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessEq => CompareOp::GreaterEq,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterEq => CompareOp::LessEq,
            same => same,
        }
    }
}
/// The domain a comparison is made in (MySQL manual, "Type Conversion in Expression Evaluation").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareAs {
    Int,
    Decimal,
    Double,
    String(Collation),
    Date,
    Time,
    DateTime,
    /// By the values' own types, by the same rules: equal kinds directly, integers and decimals
    /// exactly, else as doubles.
    ByValue,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VariableScope {
    /// `@@x`: the session's value if there is one, else the global one.
    Either,
    Session,
    Global,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntervalUnit {
    Microsecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    SecondMicrosecond,
    MinuteMicrosecond,
    MinuteSecond,
    HourMicrosecond,
    HourSecond,
    HourMinute,
    DayMicrosecond,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}
impl IntervalUnit {
    /// Keywords; those of one field first.
    pub const NAMES: [(&'static str, IntervalUnit); 20] = {
        use IntervalUnit::*;
        [
            ("MICROSECOND", Microsecond),
            ("SECOND", Second),
            ("MINUTE", Minute),
            ("HOUR", Hour),
            ("DAY", Day),
            ("WEEK", Week),
            ("MONTH", Month),
            ("QUARTER", Quarter),
            ("YEAR", Year),
            ("SECOND_MICROSECOND", SecondMicrosecond),
            ("MINUTE_MICROSECOND", MinuteMicrosecond),
            ("MINUTE_SECOND", MinuteSecond),
            ("HOUR_MICROSECOND", HourMicrosecond),
            ("HOUR_SECOND", HourSecond),
            ("HOUR_MINUTE", HourMinute),
            ("DAY_MICROSECOND", DayMicrosecond),
            ("DAY_SECOND", DaySecond),
            ("DAY_MINUTE", DayMinute),
            ("DAY_HOUR", DayHour),
            ("YEAR_MONTH", YearMonth),
        ]
    };
    /// Those of one field, which TIMESTAMPDIFF and TIMESTAMPADD take.
    pub const SINGLE: &'static [(&'static str, IntervalUnit)] = Self::NAMES.split_at(9).0;
}

impl Expr {
    pub fn new(kind: ExprKind, ty: ExprType) -> Expr {
        Expr { kind, ty }
    }
    pub fn literal(value: Value<'static>, ty: ExprType) -> Expr {
        Expr { kind: ExprKind::Literal(value), ty }
    }
    pub fn as_literal(&self) -> Option<&Value<'static>> {
        match &self.kind {
            ExprKind::Literal(v) => Some(v),
            ExprKind::Hex(bytes) => bytes.as_literal(),
            _ => None,
        }
    }
}

//! Bound expressions: the binder has resolved names to places, literals to values and calls to ids,
//! and every node has its type.
//!
//! **Where values come from.** An expression is evaluated against
//! - *sources*: the current row of each FROM item (`Column`); a statement over one table has only
//!   source 0;
//! - *a group*, after GROUP BY: `GroupKey` and `Aggregate` slots of [`Grouping`](super::Grouping);
//!   no `Column` occurs there;
//! - *parameters*: `?` of a prepared statement and literals parameterized out of a text statement,
//!   one array;
//! - *the query around it*, in a subquery: `Outer` (see [`super::subquery`]);
//! - *the session*: user and system variables.
//!
//! **EXPR-1** The binder chooses a comparison's `how` from the operands' types. If only the value
//! tells a type (a `?`), `how` is `ByValue`.
use super::expr_type::ExprType;
use super::function::Function;
use super::subquery::Subquery;
use crate::error::SqlError;
use crate::table_info::TableInfo;
use redolith_types::{Collation, Value};
use std::cmp::Ordering;
use std::sync::Arc;

/// What the binder knows of the first character of a LIKE pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternStart {
    /// The pattern is a literal, and begins with text.
    Text,
    /// The pattern is a literal, and begins with `%` or `_`.
    Wildcard,
    Unknown,
}

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
    /// A column of the current row of a FROM item. `column` is a position in the table's definition
    /// or in a derived table's output. An ENUM or SET whose node has a numeric type has its number
    /// as the value.
    Column {
        source: u16,
        column: u16,
    },
    /// After grouping: the value of GROUP BY expression n.
    GroupKey(u16),
    /// After grouping: the result of aggregate n.
    Aggregate(u16),
    /// A window function, by its number in the SELECT. Only the binder has it: in a plan it is a
    /// column of the rows of the windows (WIN-1).
    Window(u16),
    /// `VALUES(c)` in ON DUPLICATE KEY UPDATE: the value of column c in the row that could not be
    /// inserted.
    InsertedValue(u16),
    UserVariable {
        /// The lower-case name without the `@`.
        name: Box<str>,
        /// The statement assigns the variable, so each evaluation may give another value.
        assigned: bool,
    },
    /// `@name := value`. The result is the value.
    AssignUserVariable(Box<str>, Box<Expr>),
    /// The lower-case name. The variable is read at evaluation.
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
    /// order by `how`, so that a binary search finds a value.
    In {
        negated: bool,
        how: CompareAs,
        value: Box<Expr>,
        list: Vec<Expr>,
        sorted: bool,
    },
    /// `escape` is a character of the pattern's character set, '\\' by default. None: the pattern
    /// has no escape character.
    Like {
        negated: bool,
        collation: Collation,
        escape: Option<char>,
        start: PatternStart,
        sides: Box<[Expr; 2]>,
    },
    /// `pattern` has the syntax of MySQL's REGEXP.
    Regexp {
        negated: bool,
        collation: Collation,
        sides: Box<[Expr; 2]>,
    },
    IsNull {
        negated: bool,
        value: Box<Expr>,
    },
    /// `IS TRUE` (`truth` is true) and `IS FALSE` (`truth` is false). `IS UNKNOWN` is IsNull.
    IsTruth {
        negated: bool,
        truth: bool,
        value: Box<Expr>,
    },
    /// Three-valued logic over two or more parts. A part of an And is never an And itself.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Xor(Box<[Expr; 2]>),
    /// CASE. Without `operand` each `when` is a condition; otherwise each `when` is compared with
    /// the operand by `how`.
    Case {
        operand: Option<Box<Expr>>,
        how: CompareAs,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// CAST/CONVERT to the node's own `ty` (kind, unsigned, length if not u32::MAX, decimals,
    /// collation).
    Cast(Box<Expr>),
    /// A value as text in the character set of the node's `ty`, in which a character that the set
    /// lacks becomes '?'. The text is whole however long it is: the length in `ty` is metadata.
    Transcode(Box<Expr>),
    /// A hexadecimal or bit literal. Its value is a byte string; where a number is needed, it is
    /// the number with these bytes, high byte first.
    Hex(Box<Expr>),
    /// A column under a COLLATE with another collation: the column's value, which compares by the
    /// node's `ty`.
    Collate(Box<Expr>),
    /// A constant converted to the type of the column that it is compared with (a date given as a
    /// string). It works as Cast does, but a value that does not convert gives NULL and MySQL's
    /// warning 1292 (error 1525 for temporal types). A value is written as text where `ty` is a
    /// string.
    ConvertTo(Box<Expr>),
    /// A string in the character set of the node's `ty`; the error if that set lacks one of its
    /// characters.
    InCharset(Box<(Expr, SqlError)>),
    /// The text of an ENUM or SET value from its number. The names are those of the table's column.
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
    Subquery(Box<Subquery>),
    /// In a subquery: value n of those that it takes from the query around it.
    Outer(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Not,
    Minus,
    BitNot,
}
/// An arithmetic operator. The result's type (the node's `ty`) decides the arithmetic: `BIGINT
/// [UNSIGNED]`, DECIMAL or DOUBLE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArithOp {
    Add,
    Subtract,
    Multiply,
    /// `/`: DECIMAL (scale of the left side + div_precision_increment) or DOUBLE. Division by zero
    /// gives NULL and warning 1365.
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
impl ArithOp {
    pub fn sign(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Subtract => "-",
            ArithOp::Multiply => "*",
            ArithOp::Divide => "/",
            ArithOp::IntDivide => "DIV",
            ArithOp::Modulo => "%",
            ArithOp::BitAnd => "&",
            ArithOp::BitOr => "|",
            ArithOp::BitXor => "^",
            ArithOp::ShiftLeft => "<<",
            ArithOp::ShiftRight => ">>",
        }
    }
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
    pub fn sign(self) -> &'static str {
        match self {
            CompareOp::Eq => "=",
            CompareOp::NullSafeEq => "<=>",
            CompareOp::NotEq => "<>",
            CompareOp::Less => "<",
            CompareOp::LessEq => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterEq => ">=",
        }
    }
    /// Whether an order of the sides satisfies the operator.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            CompareOp::Eq | CompareOp::NullSafeEq => order.is_eq(),
            CompareOp::NotEq => order.is_ne(),
            CompareOp::Less => order.is_lt(),
            CompareOp::LessEq => order.is_le(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::GreaterEq => order.is_ge(),
        }
    }
    /// The operator for exchanged sides.
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
/// The domain of a comparison (MySQL manual, "Type Conversion in Expression Evaluation").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareAs {
    Int,
    Decimal,
    Double,
    String(Collation),
    Date,
    Time,
    DateTime,
    /// The values' own types decide at run time by the same rules: equal kinds compare directly,
    /// integers and decimals exactly, and other pairs as doubles.
    ByValue,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VariableScope {
    /// `@@x`: the session's value if it exists, else the global value.
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
    /// The units by keyword. The units of a single field come first.
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
    /// The units of a single field, which TIMESTAMPDIFF and TIMESTAMPADD take.
    pub const SINGLE: &'static [(&'static str, IntervalUnit)] = Self::NAMES.split_at(9).0;

    /// The keyword.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }
}

impl Expr {
    pub fn new(kind: ExprKind, ty: ExprType) -> Expr {
        Expr { kind, ty }
    }
    pub fn literal(value: Value<'static>, ty: ExprType) -> Expr {
        Expr { kind: ExprKind::Literal(value), ty }
    }
    /// Puts another expression around this one. Nothing is copied: a copy at each level of a tree
    /// would take time and memory by the square of its height.
    pub fn change(&mut self, change: impl FnOnce(Expr) -> Expr) {
        let held = Expr::literal(Value::Null, ExprType::null());
        *self = change(std::mem::replace(self, held));
    }
    pub fn as_literal(&self) -> Option<&Value<'static>> {
        match &self.kind {
            ExprKind::Literal(v) => Some(v),
            ExprKind::Hex(bytes) => bytes.as_literal(),
            _ => None,
        }
    }
}

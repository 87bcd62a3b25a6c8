//! Evaluates bound expressions, one row at a time, without allocation for columns, parameters and
//! numbers.
//!
//! **EVAL-1** A value borrows from the plan, the parameters or the rows, never from the evaluator.
//! So a caller can hold several values at once.
//! **EVAL-2** NULL is a value. An error ends the statement. Where MySQL only warns, the warning
//! goes to the session's warnings.
//! **EVAL-4** Long strings that an evaluation makes are charged to the statement (MEM-1). When a
//! node has been evaluated, the charge for its arguments ends. The charge for its value ends when
//! the caller is done with the row.
mod address;
mod arith;
mod cast;
mod cipher;
mod compare;
mod compression;
mod dates;
mod digest;
mod format;
mod function;
mod gtid;
mod info;
mod interval;
mod json;
mod like;
mod locale;
mod numeric;
mod periods;
mod print;
mod regexp;
mod sets;
pub(super) mod short_decimal;
mod soundex;
mod strings;
mod subquery;
#[cfg(test)]
mod tests;
mod text;
mod units;

pub use cast::coerce;
pub use compare::{integer_of_text, is_no_tiny};
pub(in crate::exec) use json::metered;
pub use like::{fixed_start, like};
pub(crate) use like::{like_unless, one_escape};
use regexp::MatchType;
pub use regexp::RecentPatterns;

use super::env::Env;
use super::pace::LONG;
use super::subquery::SubqueryResult;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, ExprKind, Function, Kind, UnaryOp};
use crate::session_state::UserVariable;
use redolith_types::convert::{has_date, to_bool, to_datetime, to_number, to_time};
use redolith_types::{Charset, DateTime, RowLayout, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The current row of a FROM item.
#[derive(Clone, Copy)]
pub enum Row<'v> {
    Stored {
        def: &'v TableDef,
        layout: &'v RowLayout,
        payload: &'v [u8],
    },
    /// The columns of a table's row that the statement reads; NULL for the others.
    Decoded {
        def: &'v TableDef,
        values: &'v [Value<'v>],
    },
    /// A row of a derived table.
    Values(&'v [Value<'v>]),
    /// The right side of a left join for a row without a match.
    Nulls,
}

/// The rows and values that an expression may refer to. It is copied for each row, so it is small.
#[derive(Clone, Copy)]
pub struct Scope<'v> {
    pub params: &'v [Value<'v>],
    pub sources: &'v [Row<'v>],
    pub known: &'v Known<'v>,
}

/// The values that an expression may refer to besides parameters and the rows of FROM. Most
/// statements have none of them.
#[derive(Clone, Copy)]
pub struct Known<'v> {
    /// The values of the GROUP BY expressions, after grouping.
    pub keys: &'v [Value<'v>],
    pub aggregates: &'v [Value<'v>],
    /// For ON DUPLICATE KEY UPDATE: the row that could not be inserted.
    pub inserted: Row<'v>,
    pub subqueries: &'v [Arc<SubqueryResult>],
    /// In a subquery: the values that it takes from outside.
    pub outer: &'v [Value<'v>],
}

static NOTHING: Known<'static> =
    Known { keys: &[], aggregates: &[], inserted: Row::Nulls, subqueries: &[], outer: &[] };

impl<'v> Scope<'v> {
    pub fn new(params: &'v [Value<'v>]) -> Scope<'v> {
        Scope { params, sources: &[], known: &NOTHING }
    }
    /// What a query inside this one sees before it has rows of its own. Of `known` its expressions
    /// refer to the values from outside only.
    pub fn given(&self) -> Scope<'v> {
        Scope { sources: &[], ..*self }
    }
}
impl<'v> Known<'v> {
    /// The values that a query takes from the queries around it.
    pub fn outside(outer: &'v [Value<'v>]) -> Known<'v> {
        Known { outer, ..NOTHING }
    }
    pub fn results(subqueries: &'v [Arc<SubqueryResult>]) -> Known<'v> {
        Known { subqueries, ..NOTHING }
    }
}

pub struct Eval<'v, 'm, 'e> {
    pub at: Scope<'v>,
    pub env: &'m mut Env<'e>,
    /// Whether an operation around this one has turned out not to be short ([`short_decimal`]).
    is_not_short: bool,
}

impl<'v> Row<'v> {
    /// A column as an expression sees it: TIMESTAMP in the session's zone, ENUM and SET as text.
    #[inline]
    fn get(&self, column: usize, kind: Kind, env: &Env<'_>) -> Value<'v> {
        match *self {
            // Its value is not copied.
            Row::Stored { layout, payload, .. } if is_shown_as_stored(kind) => {
                layout.get(payload, column)
            }
            Row::Stored { def, layout, payload } => {
                shown(layout.get(payload, column), column, kind, def, env)
            }
            Row::Decoded { def, values } => shown(values[column].borrow(), column, kind, def, env),
            Row::Values(values) => values[column].borrow(),
            Row::Nulls => Value::Null,
        }
    }
    /// A column as stored: ENUM and SET are numbers, TIMESTAMP is in UTC.
    pub fn stored(&self, column: usize) -> Value<'v> {
        match *self {
            Row::Stored { layout, payload, .. } => layout.get(payload, column),
            Row::Values(values) | Row::Decoded { values, .. } => values[column].borrow(),
            Row::Nulls => Value::Null,
        }
    }
}
/// Whether an expression is an ENUM whose number is at hand.
fn has_number(e: &Expr) -> bool {
    use ExprKind as E;
    e.ty.kind == Kind::Enum
        && matches!(e.kind, E::Column { .. } | E::Member { .. } | E::InsertedValue(_))
}
/// Whether [`shown`] changes nothing.
#[inline]
fn is_shown_as_stored(kind: Kind) -> bool {
    !matches!(kind, Kind::Timestamp | Kind::Enum | Kind::Set)
}
#[inline]
fn shown<'v>(
    value: Value<'v>,
    column: usize,
    kind: Kind,
    def: &'v TableDef,
    env: &Env<'_>,
) -> Value<'v> {
    match kind {
        Kind::Timestamp => local(value, env.settings.zone_offset_secs),
        Kind::Enum | Kind::Set => def.columns[column].ty.present(value),
        _ => value,
    }
}

/// Reads bytes as a number, the high byte first. Only the last eight bytes count.
fn big_endian(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Bytes(bytes) => {
            Value::UInt(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
        }
        value => value,
    }
}

/// A stored TIMESTAMP in the session's zone.
pub fn local(value: Value<'_>, zone_offset_secs: i32) -> Value<'_> {
    match value {
        Value::DateTime(at) if zone_offset_secs != 0 => {
            Value::DateTime(shifted(at, zone_offset_secs))
        }
        value => value,
    }
}
fn shifted(at: DateTime, offset_secs: i32) -> DateTime {
    at.shift_zone(0, offset_secs).unwrap_or(at)
}

impl<'v, 'm, 'e> Eval<'v, 'm, 'e> {
    pub fn new(at: Scope<'v>, env: &'m mut Env<'e>) -> Eval<'v, 'm, 'e> {
        Eval { at, env, is_not_short: false }
    }

    pub fn eval(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        self.env.step()?;
        // Ahead of the others, because a value that goes through no hands is copied nowhere.
        if let ExprKind::Column { source, column } = &e.kind
            && e.ty.kind.is_numeric()
            && let Some(Row::Stored { layout, payload, .. }) = self.at.sources.get(*source as usize)
        {
            return Ok(layout.get(payload, *column as usize));
        }
        // These make nothing that would have to be charged.
        let there = match &e.kind {
            ExprKind::Column { source, column } if e.ty.kind != Kind::Json => {
                Some(self.source(*source).get(*column as usize, e.ty.kind, self.env))
            }
            ExprKind::Param(n) => Some(self.at.params[*n as usize].borrow()),
            ExprKind::Literal(v) => Some(v.borrow()),
            _ => None,
        };
        match there {
            Some(Value::Bytes(b)) => {
                self.env.bytes(b.len())?;
                Ok(Value::Bytes(b))
            }
            Some(value @ Value::Json(_)) => self.weighed(value),
            Some(value) => Ok(value),
            None => self.eval_made(e),
        }
    }
    /// Evaluates a node that makes its value.
    fn eval_made(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        let mark = self.env.held();
        let value = self.eval_node(e)?;
        self.env.release_to(mark);
        self.weighed(value)
    }
    /// Counts the work that a value is, and charges for what was made.
    #[inline]
    fn weighed(&mut self, value: Value<'v>) -> Result<Value<'v>> {
        if let Value::Bytes(b) = &value {
            self.env.bytes(b.len())?;
            if let Cow::Owned(made) = b
                && made.len() >= LONG
            {
                self.env.charge(made.len())?;
            }
        } else if let Value::Json(document) = &value {
            self.weigh_json(document)?;
        }
        Ok(value)
    }
    #[inline]
    fn eval_node(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        match &e.kind {
            ExprKind::Column { source, column } => {
                let value = self.source(*source).get(*column as usize, e.ty.kind, self.env);
                if e.ty.kind == Kind::Json { self.sound_json(value) } else { Ok(value) }
            }
            ExprKind::Param(n) => Ok(self.at.params[*n as usize].borrow()),
            ExprKind::Literal(v) => Ok(v.borrow()),
            ExprKind::GroupKey(n) => Ok(self.at.known.keys[*n as usize].borrow()),
            ExprKind::Aggregate(n) => Ok(self.at.known.aggregates[*n as usize].borrow()),
            ExprKind::Window(_) => {
                Err(SqlError::internal("a window function is no column of its rows"))
            }
            ExprKind::Outer(n) => Ok(self.at.known.outer[*n as usize].borrow()),
            ExprKind::Arith { op, sides } => self.arith(*op, sides, e),
            ExprKind::InsertedValue(c) => {
                Ok(self.at.known.inserted.get(*c as usize, e.ty.kind, self.env))
            }
            ExprKind::Call { function, args } => self.call(*function, args, e),
            ExprKind::Case { operand, how, branches, otherwise } => {
                self.case(operand.as_deref(), *how, branches, otherwise.as_deref(), e)
            }
            ExprKind::Cast(value) => self.cast(value, e),
            ExprKind::Transcode(value) => self.transcode(value, &e.ty),
            ExprKind::Hex(value) | ExprKind::Collate(value) => self.eval(value),
            ExprKind::ConvertTo(value) => self.convert_to(value, e),
            ExprKind::InCharset(met) => self.in_charset(&met.0, &met.1, e),
            ExprKind::Member { number, table, column } => {
                Ok(table.def.columns[*column as usize].ty.present(self.eval(number)?))
            }
            ExprKind::Interval { subtract, unit, sides } => {
                self.interval(*subtract, *unit, sides, e)
            }
            ExprKind::UserVariable { name, .. } => Ok(self
                .env
                .session
                .user_variables
                .get(name)
                .map_or(Value::Null, |v| v.value.clone())),
            ExprKind::AssignUserVariable(name, value) => {
                let v = self.eval(value)?;
                self.assign(name, value, v.borrow().into_owned())?;
                Ok(v)
            }
            ExprKind::SystemVariable { scope, name } => {
                self.env.variables.system_variable(self.env.session, *scope, name)
            }
            ExprKind::Subquery(q) => self.subquery(q),
            ExprKind::Unary(UnaryOp::Minus, value) => self.negate(value, e),
            ExprKind::Unary(UnaryOp::BitNot, value) => self.bit_not(value, e),
            _ => Ok(self.truth(e)?.map_or(Value::Null, |t| Value::Int(t as i64))),
        }
    }

    /// The current row of source `n`; a missing row has only NULLs.
    #[inline]
    fn source(&self, n: u16) -> Row<'v> {
        self.at.sources.get(n as usize).copied().unwrap_or(Row::Nulls)
    }

    /// Sets `@name` to the value of `expr`.
    pub fn assign(&mut self, name: &str, expr: &Expr, value: Value<'static>) -> Result<()> {
        let variable = UserVariable::of(value, expr, self.env.settings.connection);
        let session = &mut *self.env.session;
        session.user_variables.set(name, variable, &mut session.memory)
    }

    /// The value where a number is wanted: ENUM and SET columns give their numbers. A text stays in
    /// the character set of `e`.
    pub fn numeric(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        self.number_or_text(e)
    }

    /// The value to calculate with, which is a number or a text that is read as one.
    pub(super) fn number(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        // Values are large, and those of a query's columns are numbers: they are not moved again.
        if e.ty.kind.is_numeric() && !matches!(e.kind, ExprKind::Param(_)) {
            return self.number_or_text(e);
        }
        let value = self.number_or_text(e)?;
        Ok(self.legible(e, value))
    }
    fn number_or_text(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        match (&e.kind, e.ty.kind) {
            (ExprKind::Column { source, column }, Kind::Enum | Kind::Set) => {
                Ok(self.source(*source).stored(*column as usize))
            }
            (ExprKind::Member { number, .. }, _) => self.eval(number),
            (ExprKind::InsertedValue(column), Kind::Enum | Kind::Set) => {
                Ok(self.at.known.inserted.stored(usize::from(*column)))
            }
            (ExprKind::Hex(bytes), _) => Ok(big_endian(self.eval(bytes)?)),
            // ELT is a text, and as a number that of what it chooses.
            (ExprKind::Call { function: Function::Elt, args }, _) => self.elt_number(args),
            // Date arithmetic gives a date, even if operand and result have the type text.
            (_, kind) if kind.is_string() && function::is_calculated_date(e) => {
                let value = self.eval(e)?;
                Ok(if value.is_null() { value } else { self.calculated(value) })
            }
            _ => self.eval(e),
        }
    }

    /// The value where a date or a time is wanted.
    pub(super) fn moment(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        let value = self.eval(e)?;
        Ok(self.legible(e, value))
    }

    /// The value of `e`, which is to be read as a number or a date. Their digits are ASCII in all
    /// character sets, but a text that is none appears in messages, which are UTF-8.
    #[inline]
    fn legible(&self, e: &Expr, value: Value<'v>) -> Value<'v> {
        match &value {
            Value::Bytes(text) if e.ty.kind != Kind::Bit => {
                let charset = self.charset_of(e);
                if charset.is_utf8() || charset == Charset::Binary || text.is_ascii() {
                    return value;
                }
                Value::owned(charset.convert_lossy(text, Charset::Utf8mb4).into_owned())
            }
            _ => value,
        }
    }

    /// The number of a date or a time that is written as text.
    fn calculated(&mut self, text: Value<'v>) -> Value<'v> {
        let value = self.made_of_dates(text);
        if let Value::Bytes(_) = value { value } else { to_number(&value).value }
    }
    /// The date or the time that is written as text.
    fn made_of_dates(&mut self, text: Value<'v>) -> Value<'v> {
        let zone = self.env.settings.zone_offset_secs;
        let is_date = has_date(&text) || text.as_bytes().is_some_and(|b| b.get(4) == Some(&b'-'));
        let value = if is_date {
            to_datetime(&text, self.env.today(), zone).map(|at| match text.as_bytes() {
                Some(b) if b.len() == 10 => Value::Date(at.value.date()),
                _ => Value::DateTime(at.value),
            })
        } else {
            to_time(&text).map(|t| Value::Time(t.value))
        };
        value.unwrap_or(text)
    }

    /// The truth value of a condition. None is UNKNOWN.
    pub fn truth(&mut self, e: &'v Expr) -> Result<Option<bool>> {
        let mark = self.env.held();
        let truth = self.truth_of(e)?;
        self.env.release_to(mark);
        Ok(truth)
    }
    #[inline]
    fn truth_of(&mut self, e: &'v Expr) -> Result<Option<bool>> {
        Ok(match &e.kind {
            ExprKind::Compare { op, how, sides } => {
                self.compare(*op, *how, &sides[0], &sides[1])?
            }
            ExprKind::And(parts) => {
                let mut all = Some(true);
                for part in parts {
                    match self.truth(part)? {
                        Some(false) => return Ok(Some(false)),
                        Some(true) => {}
                        None => all = None,
                    }
                }
                all
            }
            ExprKind::Or(parts) => {
                let mut any = Some(false);
                for part in parts {
                    match self.truth(part)? {
                        Some(true) => return Ok(Some(true)),
                        Some(false) => {}
                        None => any = None,
                    }
                }
                any
            }
            ExprKind::Xor(sides) => match (self.truth(&sides[0])?, self.truth(&sides[1])?) {
                (Some(a), Some(b)) => Some(a != b),
                _ => None,
            },
            ExprKind::Unary(UnaryOp::Not, value) => self.truth(value)?.map(|t| !t),
            ExprKind::Between { negated, how, args } => {
                self.between(*how, args)?.map(|t| t != *negated)
            }
            ExprKind::In { negated, how, value, list, sorted } => {
                self.is_in(*how, value, list, *sorted)?.map(|t| t != *negated)
            }
            ExprKind::Like { negated, collation, escape, sides, .. } => {
                self.like(*collation, *escape, sides)?.map(|t| t != *negated)
            }
            ExprKind::Regexp { negated, collation, sides } => {
                self.regexp(*collation, &sides[..], MatchType::default())?.map(|t| t != *negated)
            }
            ExprKind::IsNull { negated, value } => Some(self.eval(value)?.is_null() != *negated),
            ExprKind::IsTruth { negated, truth, value } => {
                Some((self.truth(value)? == Some(*truth)) != *negated)
            }
            _ => {
                let value = self.number(e)?;
                if let Value::Bytes(text) = &value {
                    // A string is true if it begins with a number that is not 0.
                    let number = redolith_types::convert::text_to_f64(text);
                    if number.truncated {
                        self.env.warn(SqlError::truncated_wrong_value("DOUBLE", &value))?;
                    }
                }
                to_bool(&value)
            }
        })
    }

    /// True if there is no filter or the filter is true for the current row.
    pub fn passes(&mut self, filter: Option<&'v Expr>) -> Result<bool> {
        match filter {
            None => Ok(true),
            Some(e) => Ok(self.truth(e)? == Some(true)),
        }
    }

    /// The value to be stored in a column of type `ty`. An ENUM or SET gives its number to a column
    /// of numbers and its text to others, but an ENUM gives the number 0, its error value, to an
    /// ENUM.
    pub fn stored(&mut self, e: &'v Expr, ty: &SqlType) -> Result<Value<'v>> {
        let is_member = matches!(e.ty.kind, Kind::Enum | Kind::Set);
        // The result of date arithmetic on text goes into a column of numbers as text, and so does
        // the result of ELT.
        let is_text = function::is_calculated_date(e)
            || matches!(e.kind, ExprKind::Call { function: Function::Elt, .. });
        if ty.is_numeric() && e.ty.kind.is_string() && is_text {
            return self.eval(e);
        }
        if ty.is_numeric() || is_member && matches!(ty, SqlType::Year | SqlType::Bit { .. }) {
            return self.number_or_text(e);
        }
        if matches!(ty, SqlType::Enum { .. })
            && has_number(e)
            && let zero @ Value::UInt(0) = self.number_or_text(e)?
        {
            return Ok(zero);
        }
        let value = self.eval(e)?;
        Ok(if ty.is_string() { self.stored_as_string(e, ty, value) } else { value })
    }

    /// A column goes into TEXT and BLOB as the text that is shown of the column. Otherwise a number
    /// goes into strings as the number that it is: a FLOAT as a DOUBLE, and without ZEROFILL.
    pub fn stored_as_string(&self, e: &Expr, ty: &SqlType, value: Value<'v>) -> Value<'v> {
        let is_shown = ty.is_lob() && matches!(e.kind, ExprKind::Column { .. });
        match value {
            Value::Float(f) if !is_shown => Value::Double(f.into()),
            Value::Int(_) | Value::UInt(_) if is_shown && e.ty.kind != Kind::Bit => {
                Value::owned(self.text_of(e, &value).into_owned())
            }
            value => self.presented(e, is_shown, value),
        }
    }

    /// A value that becomes a string, with the decimals of its expression. Doubles stay doubles
    /// because the column decides their digits; integers stay integers because BIT and YEAR are
    /// stored as numbers.
    fn presented(&self, e: &Expr, zerofill: bool, value: Value<'v>) -> Value<'v> {
        match value {
            Value::Null
            | Value::Bytes(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Double(_)
            | Value::Float(_) => value,
            // A decimal chosen among alternatives may have fewer decimals than its expression. It
            // is stored with its own decimals.
            Value::Decimal(d) if d.scale() < e.ty.decimals => value,
            Value::Decimal(d) if e.ty.zerofill && !zerofill => {
                Value::owned(d.round(e.ty.decimals).unwrap_or(d).to_string().into_bytes())
            }
            value => Value::owned(self.text_of(e, &value).into_owned()),
        }
    }

    /// The value converted to the expression's type, which the client has been told.
    pub fn output(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        match e.kind {
            ExprKind::Column { .. } => self.eval(e),
            _ => {
                let value = self.eval(e)?;
                Ok(coerce(value, &e.ty, self.env))
            }
        }
    }
}

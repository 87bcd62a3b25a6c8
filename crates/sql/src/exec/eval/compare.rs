//! Comparisons, BETWEEN, IN, CASE.
use super::Eval;
use crate::bind::collation_mix::IN;
use crate::bind::type_rules::{compare_as, compare_sides};
use crate::error::{Result, SqlError};
use crate::plan::{CompareAs, CompareOp, Expr, ExprKind, ExprType, Kind};
use redolith_types::compare::integer_beside_double;
use redolith_types::convert::{
    exact_number, text_to_f64, to_datetime, to_decimal, to_f64, to_integer, to_time,
};
use redolith_types::temporal::Parsed;
use redolith_types::{Charset, Collation, DateTime, Decimal, Time, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Texts that are shorter are compared within the step of their node.
const COUNTED: usize = 1024;

fn temporal_name(how: CompareAs) -> &'static str {
    match how {
        CompareAs::Date => "date",
        CompareAs::Time => "time",
        _ => "datetime",
    }
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        how: CompareAs,
        left: &'v Expr,
        right: &'v Expr,
    ) -> Result<Option<bool>> {
        let a = self.operand(how, left)?;
        if a.is_null() && op != CompareOp::NullSafeEq {
            return Ok(None);
        }
        let b = self.operand(how, right)?;
        if op == CompareOp::NullSafeEq && (a.is_null() || b.is_null()) {
            return Ok(Some(a.is_null() && b.is_null()));
        }
        let order = self.order(how, (left, &a), (right, &b))?;
        if op == CompareOp::NullSafeEq && order.is_none() {
            return Ok(Some(false));
        }
        Ok(order.map(|o| op.holds(o)))
    }

    /// Evaluates one side of a comparison. Comparisons of numbers get a number.
    #[inline]
    pub(super) fn operand(&mut self, how: CompareAs, e: &'v Expr) -> Result<Value<'v>> {
        match how {
            CompareAs::Int | CompareAs::Decimal | CompareAs::Double => self.number(e),
            _ => self.eval(e),
        }
    }

    /// The order of two values; None if either value is NULL. A NaN, which only a parameter can be,
    /// has no order either: it equals no value, and no row is found by it.
    pub(super) fn order(
        &mut self,
        how: CompareAs,
        left: (&Expr, &Value<'_>),
        right: (&Expr, &Value<'_>),
    ) -> Result<Option<Ordering>> {
        let ((le, a), (re, b)) = (left, right);
        if a.is_null() || b.is_null() || a.is_nan() || b.is_nan() {
            return Ok(None);
        }
        Ok(Some(match how {
            CompareAs::Int => match (a, b) {
                (Value::Int(a), Value::Int(b)) => a.cmp(b),
                _ => self.integer(a)?.cmp(&self.integer(b)?),
            },
            CompareAs::Decimal => match (a, b) {
                (Value::Int(a), Value::Int(b)) => a.cmp(b),
                _ => to_decimal(a).value.cmp(&to_decimal(b).value),
            },
            CompareAs::Double => {
                if let Some(order) = integer_beside_double(a, b) {
                    return Ok(Some(order));
                }
                // In BETWEEN, a third value may be the reason for this comparison.
                let exact = |value: &Value<'_>| exact_number(value).filter(|_| !is_temporal(value));
                if let (Some(a), Some(b)) = (exact(a), exact(b)) {
                    return Ok(Some(a.cmp(&b)));
                }
                let (a, b) = (self.double(a)?, self.double(b)?);
                return Ok(a.partial_cmp(&b));
            }
            CompareAs::String(collation) => self.text_order(collation, left, right)?,
            CompareAs::Date | CompareAs::DateTime | CompareAs::Time => {
                return self.moments(how, left, right);
            }
            CompareAs::ByValue => {
                // Two strings are compared in the collation of the side whose type is a string.
                let collation = if le.ty.kind.is_string() {
                    le.ty.collation
                } else if re.ty.kind.is_string() {
                    re.ty.collation
                } else {
                    self.env.settings.connection
                };
                match (a, b) {
                    (Value::Json(_), _) | (_, Value::Json(_)) => self.json_order(left, right)?,
                    (Value::Bytes(_), Value::Bytes(_)) => {
                        self.text_order(collation, left, right)?
                    }
                    (Value::Bytes(_), other) if !is_temporal(other) => {
                        self.check_number(left)?;
                        integer_order(a, b).unwrap_or_else(|| a.compare(b, collation))
                    }
                    (other, Value::Bytes(_)) if !is_temporal(other) => {
                        self.check_number(right)?;
                        integer_order(a, b).unwrap_or_else(|| a.compare(b, collation))
                    }
                    _ => a.compare(b, collation),
                }
            }
        }))
    }

    /// The order of two texts.
    #[inline]
    fn text_order(
        &mut self,
        collation: Collation,
        left: (&Expr, &Value<'_>),
        right: (&Expr, &Value<'_>),
    ) -> Result<Ordering> {
        let (collation, a, b) = self.strings(collation, left, right);
        self.count_compared(&a, &b)?;
        Ok(collation.compare(&a, &b))
    }
    /// Counts the work on two texts that are compared. The shorter one is looked at (PACE-3).
    #[inline]
    fn count_compared(&mut self, a: &[u8], b: &[u8]) -> Result<()> {
        let bytes = a.len().min(b.len());
        if bytes < COUNTED { Ok(()) } else { self.env.bytes(bytes) }
    }

    fn moments(
        &mut self,
        how: CompareAs,
        left: (&Expr, &Value<'_>),
        right: (&Expr, &Value<'_>),
    ) -> Result<Option<Ordering>> {
        let ((_, a), (_, b)) = (left, right);
        // A temporal value and a number are compared as numbers. (Constants that are dates have
        // become dates before.)
        if is_temporal(a) && is_number(b) || is_number(a) && is_temporal(b) {
            return Ok(match (a, b) {
                (Value::Double(_) | Value::Float(_), _)
                | (_, Value::Double(_) | Value::Float(_)) => {
                    to_f64(a).value.partial_cmp(&to_f64(b).value)
                }
                _ => Some(to_decimal(a).value.cmp(&to_decimal(b).value)),
            });
        }
        if how == CompareAs::Time {
            let (x, y) = (to_time(a), to_time(b));
            let bad = if x.is_none() { Some(left) } else { y.is_none().then_some(right) };
            if let Some(bad) = bad {
                self.not_a_moment("time", bad)?;
            }
            // A value that is not a time counts as 00:00:00.
            let time = |parsed: Option<Parsed<Time>>| parsed.map_or(Time::ZERO, |p| p.value);
            return Ok(Some(time(x).cmp(&time(y))));
        }
        if let (Value::DateTime(a), Value::DateTime(b)) = (a, b) {
            return Ok(Some(a.cmp(b)));
        }
        if let (Value::Date(a), Value::Date(b)) = (a, b) {
            return Ok(Some(a.cmp(b)));
        }
        let (today, zone) = (self.env.today(), self.env.settings.zone_offset_secs);
        let (x, y) = (to_datetime(a, today, zone), to_datetime(b, today, zone));
        let bad = if x.is_none() { Some(left) } else { y.is_none().then_some(right) };
        if let Some(bad) = bad {
            self.not_a_moment(temporal_name(how), bad)?;
        }
        // A value that is not a date counts as the zero date.
        let moment = |parsed: Option<Parsed<DateTime>>| parsed.map_or(DateTime::ZERO, |p| p.value);
        Ok(Some(moment(x).cmp(&moment(y))))
    }

    #[cold]
    fn not_a_moment(&mut self, kind: &str, (e, value): (&Expr, &Value<'_>)) -> Result<()> {
        let shown = value.shown(self.charset_of(e));
        self.env.warn(SqlError::new(1292, format!("Incorrect {kind} value: '{shown}'")))
    }

    /// [`Self::string_in`] for other modules.
    pub fn string<'x>(&self, e: &Expr, value: &'x Value<'_>, to: Charset) -> Cow<'x, [u8]> {
        self.string_in(e, value, to)
    }

    /// A value's text in the character set `to`, converted from the expression's character set.
    /// Bytes without a character set keep their values. So the text may be invalid in `to`: what
    /// stores it checks that.
    pub(super) fn string_in<'x>(
        &self,
        e: &Expr,
        value: &'x Value<'_>,
        to: Charset,
    ) -> Cow<'x, [u8]> {
        match value {
            Value::Bytes(bytes) => {
                let from = self.charset_of(e);
                let keeps = from == to || from == Charset::Binary || to == Charset::Binary;
                if keeps || bytes.is_ascii() {
                    Cow::Borrowed(bytes)
                } else {
                    from.convert_lossy(bytes, to)
                }
            }
            Value::Json(_) => {
                let text = self.text_of(e, value);
                if text.is_ascii() || matches!(to, Charset::Utf8mb4 | Charset::Binary) {
                    return text;
                }
                Cow::Owned(Charset::Utf8mb4.convert_lossy(&text, to).into_owned())
            }
            value => self.text_of(e, value),
        }
    }
    /// Like [`Self::string_in`], but None if the character set lacks a character of the text.
    pub(in crate::exec) fn whole_string_in<'x>(
        &self,
        e: &Expr,
        value: &'x Value<'_>,
        to: Charset,
    ) -> Option<Cow<'x, [u8]>> {
        let Value::Bytes(bytes) = value else { return Some(self.string_in(e, value, to)) };
        let from = self.charset_of(e);
        let stays =
            from == to || bytes.is_ascii() || from == Charset::Binary || to == Charset::Binary;
        if stays { Some(Cow::Borrowed(bytes)) } else { from.convert(bytes, to).ok() }
    }
    /// Two strings in the character set of `collation`. If that character set lacks one of their
    /// characters, the strings are compared in a collation of utf8mb4, which has all characters.
    pub(super) fn strings<'x>(
        &self,
        collation: Collation,
        (le, a): (&Expr, &'x Value<'_>),
        (re, b): (&Expr, &'x Value<'_>),
    ) -> (Collation, Cow<'x, [u8]>, Cow<'x, [u8]>) {
        let to = collation.charset();
        if let (Some(a), Some(b)) =
            (self.whole_string_in(le, a, to), self.whole_string_in(re, b, to))
        {
            return (collation, a, b);
        }
        let wide = Collation::Utf8mb4GeneralCi;
        (wide, self.string_in(le, a, wide.charset()), self.string_in(re, b, wide.charset()))
    }
    /// The character set of an expression's strings.
    pub(super) fn charset_of(&self, e: &Expr) -> Charset {
        self.env.charset_of(e)
    }
    /// The value as a double, with MySQL's warning if a part of a text was left out.
    pub(super) fn double(&mut self, value: &Value<'_>) -> Result<f64> {
        let converted = to_f64(value);
        if converted.truncated {
            self.env.warn(SqlError::truncated_wrong_value("DOUBLE", value))?;
        }
        Ok(converted.value)
    }
    pub(super) fn integer(&mut self, value: &Value<'_>) -> Result<i128> {
        let converted = to_integer(value);
        if converted.truncated {
            self.env.warn(SqlError::truncated_wrong_value("INTEGER", value))?;
        }
        Ok(converted.value)
    }
    fn check_number(&mut self, (e, text): (&Expr, &Value<'_>)) -> Result<()> {
        if to_f64(text).truncated {
            let shown = text.shown(self.charset_of(e));
            self.env.warn(SqlError::truncated_wrong_value("DOUBLE", shown))?;
        }
        Ok(())
    }

    pub(super) fn between(&mut self, how: CompareAs, args: &'v [Expr; 3]) -> Result<Option<bool>> {
        if how == CompareAs::ByValue {
            return self.between_mixed(args);
        }
        let value = self.operand(how, &args[0])?;
        if value.is_null() {
            return Ok(None);
        }
        let low = self.operand(how, &args[1])?;
        let above = self.order(how, (&args[0], &value), (&args[1], &low))?.map(Ordering::is_ge);
        // MySQL evaluates the high bound even if the low bound has decided: either may fail.
        let high = self.operand(how, &args[2])?;
        if above == Some(false) {
            return Ok(Some(false));
        }
        let below = self.order(how, (&args[0], &value), (&args[2], &high))?.map(Ordering::is_le);
        Ok(match (above, below) {
            (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        })
    }

    pub(super) fn is_in(
        &mut self,
        how: CompareAs,
        value: &'v Expr,
        list: &'v [Expr],
        sorted: bool,
    ) -> Result<Option<bool>> {
        if how == CompareAs::ByValue {
            return self.is_in_mixed(value, list);
        }
        let v = self.operand(how, value)?;
        if v.is_null() {
            return Ok(None);
        }
        if sorted {
            let (mut low, mut high) = (0, list.len());
            while low < high {
                let middle = (low + high) / 2;
                let item = self.operand(how, &list[middle])?;
                match self.order(how, (value, &v), (&list[middle], &item))? {
                    Some(Ordering::Equal) => return Ok(Some(true)),
                    Some(Ordering::Less) => high = middle,
                    Some(Ordering::Greater) => low = middle + 1,
                    None => return Ok(None),
                }
            }
            return Ok(Some(false));
        }
        if let CompareAs::String(collation) = how
            && let Some(text) = self.whole_string_in(value, &v, collation.charset())
        {
            return self.is_text_in(collation, (value, &v, &text), list);
        }
        let mut unknown = false;
        for item_expr in list {
            let item = self.operand(how, item_expr)?;
            match self.order(how, (value, &v), (item_expr, &item))? {
                Some(Ordering::Equal) => return Ok(Some(true)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    /// IN for a string whose text in the collation's character set is known.
    fn is_text_in(
        &mut self,
        collation: Collation,
        (value, v, text): (&Expr, &Value<'_>, &[u8]),
        list: &'v [Expr],
    ) -> Result<Option<bool>> {
        let mut unknown = false;
        for item_expr in list {
            let evaluated;
            let item = match &item_expr.kind {
                // Nothing is to be evaluated or charged.
                ExprKind::Param(n) => {
                    self.env.step()?;
                    &self.at.params[*n as usize]
                }
                ExprKind::Literal(item) => {
                    self.env.step()?;
                    item
                }
                _ => {
                    evaluated = self.eval(item_expr)?;
                    &evaluated
                }
            };
            let is_equal = match self.whole_string_in(item_expr, item, collation.charset()) {
                _ if item.is_null() => {
                    unknown = true;
                    continue;
                }
                Some(other) => {
                    self.count_compared(text, &other)?;
                    collation.equal(text, &other)
                }
                None => {
                    let how = CompareAs::String(collation);
                    self.order(how, (value, v), (item_expr, item))? == Some(Ordering::Equal)
                }
            };
            if is_equal {
                return Ok(Some(true));
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    /// IN with items of several kinds: the types of the value and of each item decide how the two
    /// are compared.
    fn is_in_mixed(&mut self, value: &'v Expr, list: &'v [Expr]) -> Result<Option<bool>> {
        let (as_is, mut as_number) = (self.eval(value)?, None);
        if as_is.is_null() {
            return Ok(None);
        }
        let mut unknown = false;
        for item_expr in list {
            let how = compare_sides(value, as_written(item_expr), IN)?;
            let item = self.operand(how, item_expr)?;
            let v = match how {
                CompareAs::Int | CompareAs::Decimal | CompareAs::Double => match &as_number {
                    Some(number) => number,
                    None => as_number.insert(self.number(value)?),
                },
                _ => &as_is,
            };
            match self.order(how, (value, v), (item_expr, &item))? {
                Some(Ordering::Equal) => return Ok(Some(true)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { None } else { Some(false) })
    }

    /// BETWEEN with a bound that is NULL or of unknown type: the types of the value and of each
    /// bound decide how the two are compared.
    fn between_mixed(&mut self, [value, low, high]: &'v [Expr; 3]) -> Result<Option<bool>> {
        if matches!(value.as_literal(), Some(Value::Null)) {
            return Ok(None);
        }
        let how = |bound| compare_sides(value, as_written(bound), "BETWEEN");
        let above = self.order_by(how(low)?, value, low)?.map(Ordering::is_ge);
        // The high bound is evaluated even if the low bound has decided, as in `between`.
        let below = self.order_by(how(high)?, value, high)?.map(Ordering::is_le);
        let refused = [above, below].contains(&Some(false));
        Ok(if refused { Some(false) } else { above.and(below) })
    }

    /// Evaluates two operands as their comparison wants them, and compares them.
    fn order_by(
        &mut self,
        how: CompareAs,
        left: &'v Expr,
        right: &'v Expr,
    ) -> Result<Option<Ordering>> {
        let a = self.operand(how, left)?;
        let b = self.operand(how, right)?;
        self.order(how, (left, &a), (right, &b))
    }
    pub(super) fn equal(&mut self, left: &'v Expr, right: &'v Expr) -> Result<bool> {
        let how = compare_as(&left.ty, &right.ty, "=")?;
        Ok(self.order_by(how, left, right)? == Some(Ordering::Equal))
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&'v Expr>,
        how: CompareAs,
        branches: &'v [(Expr, Expr)],
        otherwise: Option<&'v Expr>,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let value = match operand {
            Some(e) if how != CompareAs::ByValue => Some((e, self.operand(how, e)?)),
            _ => None,
        };
        for (when, then) in branches {
            let taken = match (&value, operand) {
                (None, None) => self.truth(when)? == Some(true),
                // The branches have several kinds: the kind of each decides its comparison.
                (None, Some(e)) => self.equal(e, when)?,
                (Some((e, v)), _) => {
                    let w = self.operand(how, when)?;
                    self.order(how, (e, v), (when, &w))? == Some(Ordering::Equal)
                }
            };
            if taken {
                return self.unified(then, node);
            }
        }
        match otherwise {
            Some(e) => self.unified(e, node),
            None => Ok(Value::Null),
        }
    }

    /// The value of one of several alternatives, converted to their common type.
    pub(super) fn unified(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        let value = self.eval(e)?;
        self.unified_value(e, value, node)
    }
    /// The same of a value that `e` has been evaluated to.
    pub(super) fn unified_value(
        &mut self,
        e: &'v Expr,
        value: Value<'v>,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        if node.ty.kind.is_string() {
            let to = node.ty.collation.charset();
            return Ok(match value {
                Value::Null => Value::Null,
                value if node.ty.kind == Kind::Json => value,
                Value::Bytes(ref b)
                    if b.is_ascii() || self.charset_of(e) == to || to == Charset::Binary =>
                {
                    value
                }
                value => Value::owned(self.string_in(e, &value, to).into_owned()),
            });
        }
        // An exact number keeps its own decimals: it may be stored or used in a calculation. So
        // does an integer that a client is told as a FLOAT.
        Ok(match (value, node.ty.kind) {
            (value @ Value::Float(_), Kind::Float) => value,
            (value, Kind::Float) => super::coerce(value, &ExprType::double(), self.env),
            (value @ Value::Decimal(_), Kind::Decimal) => value,
            (Value::Int(n), Kind::Decimal) => Value::Decimal(Decimal::from(n)),
            (Value::UInt(n), Kind::Decimal) => Value::Decimal(Decimal::from(n)),
            (value, _) => super::coerce(value, &node.ty, self.env),
        })
    }
}

/// The constant that has become a year, whose kind decides the comparison: '0.1' beside other items
/// is no year, and no integer either.
fn as_written(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::ConvertTo(constant) if e.ty.kind == Kind::Year => constant,
        _ => e,
    }
}

fn is_number(value: &Value<'_>) -> bool {
    !is_temporal(value) && !matches!(value, Value::Bytes(_) | Value::Null)
}

fn is_temporal(value: &Value<'_>) -> bool {
    matches!(value, Value::Date(_) | Value::Time(_) | Value::DateTime(_))
}

/// The order of an integer and a text (NUM-1). A text that is an integer may have more digits than
/// a DOUBLE.
fn integer_order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    let integer = match a {
        Value::Int(n) => i128::from(*n),
        Value::UInt(n) => i128::from(*n),
        Value::Bytes(_) if !matches!(b, Value::Bytes(_)) => {
            return integer_order(b, a).map(Ordering::reverse);
        }
        _ => return None,
    };
    let Value::Bytes(text) = b else { return None };
    match integer_of_text(text) {
        Some(other) => Some(integer.cmp(&other)),
        None => integer_beside_double(a, &Value::Double(to_f64(b).value)),
    }
}
/// The number at the beginning of a text, if that is an integer. It may end in `.0`.
pub fn integer_of_text(text: &[u8]) -> Option<i128> {
    let digits = std::str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse().ok());
    digits.or_else(|| {
        let number = Decimal::parse_prefix(text).0.ok().filter(|n| is_no_tiny(n, text))?;
        if number.floor() == number { number.to_i128() } else { None }
    })
}
/// Whether a number that was read of a text is zero only where the text is: a DECIMAL has no digits
/// for 1e-40.
pub fn is_no_tiny(number: &Decimal, text: &[u8]) -> bool {
    !number.is_zero() || text_to_f64(text).value == 0.0
}

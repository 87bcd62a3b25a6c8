//! CAST, CONVERT, and the conversion of values to the type that the binder promised.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::env::Env;
use crate::plan::expr_type::{NOT_FIXED_DECIMALS, UNKNOWN_DECIMALS};
use crate::plan::{Expr, ExprType, Kind};
use crate::sql_mode::SqlMode;
use redolith_types::convert::{to_datetime, to_decimal, to_f64, to_integer, to_time};
use redolith_types::number::write_fixed;
use redolith_types::{Charset, Collation, DateTime, Decimal, Value};
use std::borrow::Cow;

/// Brings a value to the kind that its type promises, without warnings. Result columns and
/// alternatives need this: their values may have another kind if the type was only known with the
/// value.
#[inline]
pub fn coerce<'v>(value: Value<'v>, ty: &ExprType, env: &mut Env<'_>) -> Value<'v> {
    match (&value, ty.kind) {
        (Value::Null, _) | (_, Kind::Null) => value,
        (Value::Int(_), kind) if kind.is_integer() && !ty.unsigned => value,
        (Value::Bytes(_), kind) if kind.is_string() => value,
        (Value::Json(_), Kind::Json) => value,
        (Value::UInt(_), kind) if kind.is_integer() => value,
        (Value::Date(_), Kind::Date)
        | (Value::Time(_), Kind::Time)
        | (Value::DateTime(_), Kind::DateTime | Kind::Timestamp) => value,
        (Value::Double(_), Kind::Double) | (Value::Float(_), Kind::Float) => value,
        (Value::Decimal(d), Kind::Decimal) if d.scale() == ty.decimals => value,
        _ => coerce_slowly(value, ty, env),
    }
}

fn coerce_slowly<'v>(value: Value<'v>, ty: &ExprType, env: &mut Env<'_>) -> Value<'v> {
    match ty.kind {
        kind if kind.is_integer() => {
            let n = to_integer(&value).value;
            if ty.unsigned {
                Value::UInt(n.clamp(0, u64::MAX as i128) as u64)
            } else {
                as_signed(n)
            }
        }
        Kind::Decimal => {
            let d = to_decimal(&value).value;
            Value::Decimal(if ty.decimals < NOT_FIXED_DECIMALS {
                d.round(ty.decimals).unwrap_or(d)
            } else {
                d
            })
        }
        Kind::Float => Value::Float(to_f64(&value).value as f32),
        Kind::Double => Value::Double(to_f64(&value).value),
        Kind::Date | Kind::DateTime | Kind::Timestamp => {
            match to_datetime(&value, env.today(), env.settings.zone_offset_secs) {
                Some(at) if ty.kind == Kind::Date => Value::Date(at.value.date()),
                Some(at) => Value::DateTime(at.value),
                None => Value::Null,
            }
        }
        Kind::Time => to_time(&value).map_or(Value::Null, |t| Value::Time(t.value)),
        _ => {
            let mut out = Vec::with_capacity(32);
            value.write_text(None, &mut out);
            Value::owned(out)
        }
    }
}

/// Values above the maximum of i64 become unsigned.
fn as_signed(n: i128) -> Value<'static> {
    match i64::try_from(n) {
        Ok(n) => Value::Int(n),
        Err(_) if n > 0 => u64::try_from(n).map_or(Value::UInt(u64::MAX), Value::UInt),
        Err(_) => Value::Int(i64::MIN),
    }
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn cast(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        let ty = &node.ty;
        let value = match ty.kind {
            // The operand is X'..' or b'..' in a place that wants a number.
            Kind::Bit => {
                return Ok(super::big_endian(self.eval(e)?));
            }
            kind if kind.is_numeric() => self.number(e)?,
            kind if kind.is_temporal() => self.moment(e)?,
            _ => self.eval(e)?,
        };
        if value.is_null() {
            return Ok(value);
        }
        match ty.kind {
            Kind::Year => self.cast_to_year(&value),
            kind if kind.is_integer() => {
                let n = to_integer(&value);
                // If the value is out of range, integers and texts keep their bits. Other numbers
                // become the nearest number in range, which is that of signed numbers for a DOUBLE.
                let wraps = match value {
                    Value::UInt(_) | Value::Bytes(_) => true,
                    Value::Double(_) | Value::Float(_) => false,
                    _ => ty.unsigned,
                };
                let nearest = n
                    .value
                    .clamp(i64::MIN.into(), if wraps { u64::MAX.into() } else { i64::MAX.into() });
                match &value {
                    Value::Decimal(_) if nearest != n.value => {
                        self.env.warn(SqlError::truncated_wrong_value("DECIMAL", &value))?
                    }
                    _ if n.truncated || nearest != n.value && matches!(value, Value::Bytes(_)) => {
                        self.env.warn(SqlError::truncated_wrong_value("INTEGER", &value))?
                    }
                    Value::Bytes(_) if ty.unsigned && nearest < 0 => {
                        self.env.only_warn(SqlError::unknown_error(
                            "Cast to unsigned converted negative integer to its positive \
                                complement",
                        ));
                    }
                    Value::Bytes(_) if !ty.unsigned && nearest > i64::MAX.into() => {
                        self.env.only_warn(SqlError::unknown_error(
                            "Cast to signed converted positive out-of-range integer to its \
                                negative complement",
                        ));
                    }
                    _ => {}
                }
                Ok(if ty.unsigned {
                    Value::UInt(nearest as u64)
                } else {
                    Value::Int(nearest as i64)
                })
            }
            Kind::Decimal => self.cast_to_decimal(&value, ty),
            Kind::Double => Ok(Value::Double(self.double(&value)?)),
            Kind::Float => match self.double(&value)? as f32 {
                x if x.is_finite() => Ok(Value::Float(x)),
                _ => Err(self.out_of_range("DOUBLE", node)),
            },
            Kind::Date | Kind::DateTime | Kind::Timestamp | Kind::Time => {
                self.cast_to_temporal(value, ty)
            }
            Kind::Json => self.cast_to_json(e, value),
            _ => self.cast_to_string(e, value, ty),
        }
    }

    fn cast_to_decimal(&mut self, value: &Value<'v>, ty: &ExprType) -> Result<Value<'v>> {
        let d = self.decimal(value)?;
        let (int, scale) = ty.digits();
        let precision = (int as u8).saturating_add(scale).min(65);
        match d.round(scale) {
            Ok(rounded) if rounded.fits(precision, scale) => Ok(Value::Decimal(rounded)),
            _ => {
                self.env.warn(SqlError::new(
                    1264,
                    "Out of range value for column 'CAST(expr AS DECIMAL)' at row 1".to_string(),
                ))?;
                Ok(Value::Decimal(Decimal::max_value(precision, scale, d.is_negative())))
            }
        }
    }

    fn cast_to_temporal(&mut self, value: Value<'v>, ty: &ExprType) -> Result<Value<'v>> {
        let fsp = ty.decimals.min(6);
        if ty.kind == Kind::Time {
            return match to_time(&value) {
                // A text beyond the longest time becomes the longest time; a number is an error.
                Some(t) if t.truncated && !matches!(value, Value::Bytes(_)) => {
                    self.not_temporal("time", &value)
                }
                Some(t) => {
                    if t.truncated {
                        self.env.warn(SqlError::truncated_wrong_value("time", &value))?;
                    }
                    Ok(Value::Time(t.value.round(fsp)))
                }
                None => self.not_temporal("time", &value),
            };
        }
        let name = if ty.kind == Kind::Date { "date" } else { "datetime" };
        let (today, zone) = (self.env.today(), self.env.settings.zone_offset_secs);
        let Some(at) =
            to_datetime(&value, today, zone).filter(|at| !self.is_refused_zero(&value, at.value))
        else {
            return self.not_temporal(name, &value);
        };
        if at.truncated {
            self.env.warn(SqlError::truncated_wrong_value(name, &value))?;
        }
        if ty.kind == Kind::Date {
            return Ok(Value::Date(at.value.date()));
        }
        Ok(at.value.round(fsp).map_or(Value::Null, Value::DateTime))
    }
    /// True if `value` is a text of the zero date and NO_ZERO_DATE forbids such texts. Numbers and
    /// columns may be the zero date even then.
    pub(super) fn is_refused_zero(&self, value: &Value<'_>, at: DateTime) -> bool {
        at.is_zero()
            && matches!(value, Value::Bytes(_))
            && self.env.settings.sql_mode.has(SqlMode::NO_ZERO_DATE)
    }
    fn not_temporal(&mut self, kind: &str, value: &Value<'_>) -> Result<Value<'v>> {
        self.env.warn(SqlError::new(1292, format!("Incorrect {kind} value: '{value}'")))?;
        Ok(Value::Null)
    }
    fn cast_to_year(&mut self, value: &Value<'_>) -> Result<Value<'v>> {
        let year = match value {
            // A time is one of today.
            Value::Date(_) | Value::DateTime(_) | Value::Time(_) => {
                let (today, zone) = (self.env.today(), self.env.settings.zone_offset_secs);
                to_datetime(value, today, zone).map_or(0, |at| at.value.date().year().into())
            }
            Value::Bytes(text) => {
                let number = to_integer(value);
                let digits = text.trim_ascii_start();
                let digits = digits.strip_prefix(b"+").unwrap_or(digits);
                if !digits.first().is_some_and(u8::is_ascii_digit) || number.value > u64::MAX.into()
                {
                    let wrong = format!("Incorrect YEAR value: '{value}'");
                    self.env.warn(SqlError::new(1525, wrong))?;
                    return Ok(Value::Null);
                }
                if number.truncated {
                    self.env.warn(SqlError::truncated_wrong_value("YEAR", value))?;
                }
                // The text '0' is two digits of a year, as '00' is.
                with_century(if number.value == 0 { 2000 } else { number.value })
            }
            value => with_century(self.integer(value)?),
        };
        if year == 0 || (1901..=2155).contains(&year) {
            return Ok(Value::UInt(year as u64));
        }
        self.env.warn(SqlError::truncated_wrong_value("YEAR", year))?;
        Ok(Value::Null)
    }

    fn cast_to_string(
        &mut self,
        e: &'v Expr,
        value: Value<'v>,
        ty: &ExprType,
    ) -> Result<Value<'v>> {
        let to = ty.collation.charset();
        let Some(text) = self.whole_text(e, value, to)? else { return Ok(Value::Null) };
        let binary = ty.collation == Collation::Binary;
        let name = if binary { "cast_as_binary" } else { "cast_as_char" };
        if matches!(&text, Value::Bytes(Cow::Owned(made)) if made.len() > self.most_bytes()) {
            return self.too_long(name);
        }
        if ty.length == u32::MAX {
            return Ok(text);
        }
        let bytes = text.as_bytes().unwrap_or_default();
        let keep = to.prefix_len(bytes, ty.length as usize);
        if keep < bytes.len() {
            let kind = if binary { "BINARY" } else { "CHAR" };
            let kind = format!("{kind}({})", ty.length);
            self.env.warn(SqlError::truncated_wrong_value(kind, text.shown(to)))?;
            return Ok(cut(text, keep));
        }
        // CAST(x AS BINARY(n)) pads with zeros.
        if binary && bytes.len() < ty.length as usize {
            if ty.length as usize > self.most_bytes() {
                return self.too_long(name);
            }
            let mut padded = bytes.to_vec();
            padded.resize(ty.length as usize, 0);
            return Ok(Value::owned(padded));
        }
        Ok(text)
    }

    /// A value as text in the character set of `ty`, all of it.
    pub(super) fn transcode(&mut self, e: &'v Expr, ty: &ExprType) -> Result<Value<'v>> {
        let value = self.eval(e)?;
        if value.is_null() {
            return Ok(value);
        }
        match self.whole_text(e, value, ty.collation.charset())? {
            Some(Value::Bytes(Cow::Owned(made))) if made.len() > self.most_bytes() => {
                self.too_long("convert")
            }
            text => Ok(text.unwrap_or(Value::Null)),
        }
    }

    /// The text of `e`'s value in the character set `to`. None if it is not valid there.
    fn whole_text(
        &mut self,
        e: &'v Expr,
        value: Value<'v>,
        to: Charset,
    ) -> Result<Option<Value<'v>>> {
        Ok(Some(match &value {
            Value::Bytes(b)
                if b.is_ascii() || self.charset_of(e) == to || to == Charset::Binary =>
            {
                value
            }
            value if e.ty.kind == Kind::Bit || self.charset_of(e) == Charset::Binary => {
                return self.valid_text(Value::owned(self.text_of(e, value).into_owned()), to);
            }
            value => Value::owned(self.string_in(e, value, to).into_owned()),
        }))
    }

    /// Bytes as text of the character set `to`. Bytes that are not valid there give warning 1300
    /// and NULL; outside strict mode, the valid bytes before them are the text.
    fn valid_text(&mut self, bytes: Value<'v>, to: Charset) -> Result<Option<Value<'v>>> {
        let all = bytes.as_bytes().unwrap_or_default();
        let Err(at) = to.validate(all) else { return Ok(Some(bytes)) };
        self.env.warn(SqlError::invalid_bytes(to.name(), &all[at.0..]))?;
        Ok((!self.env.settings.sql_mode.strict()).then(|| cut(bytes, at.0)))
    }

    /// The string of `e` in the character set in which it meets others. A character that this set
    /// lacks is the error `mix`: it must not become '?', which could then equal a '?'.
    pub(super) fn in_charset(
        &mut self,
        e: &'v Expr,
        mix: &SqlError,
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        let value = self.eval(e)?;
        let to = node.ty.collation.charset();
        match value {
            Value::Null => Ok(Value::Null),
            Value::Bytes(ref b) if b.is_ascii() || self.charset_of(e) == to => Ok(value),
            value => match self.whole_string_in(e, &value, to) {
                Some(text) => Ok(Value::owned(text.into_owned())),
                None => Err(mix.clone()),
            },
        }
    }

    /// Converts a constant to the type that it is compared with. A text that is not a date is an
    /// error beside dates, because it can match nothing.
    pub(super) fn convert_to(&mut self, e: &'v Expr, node: &'v Expr) -> Result<Value<'v>> {
        let ty = &node.ty;
        let value = if ty.kind.is_string() { self.eval(e)? } else { self.moment(e)? };
        // A NaN is no moment and no year, and has no order.
        if value.is_null() || value.is_nan() {
            return Ok(value);
        }
        if ty.kind.is_string() {
            let to = ty.collation.charset();
            return Ok(match value {
                Value::Bytes(ref b) if b.is_ascii() || self.charset_of(e) == to => value,
                value => Value::owned(self.string_in(e, &value, to).into_owned()),
            });
        }
        if ty.kind == Kind::Year {
            return Ok(full_year(&value).map_or(value, Value::Int));
        }
        let (today, zone) = (self.env.today(), self.env.settings.zone_offset_secs);
        if ty.kind == Kind::Time {
            return match to_time(&value) {
                Some(t) => Ok(Value::Time(t.value)),
                None if !matches!(value, Value::Bytes(_)) => Ok(value),
                None => Err(SqlError::new(1525, format!("Incorrect TIME value: '{value}'"))),
            };
        }
        match to_datetime(&value, today, zone) {
            // A DATE column and '2024-01-01 10:00' are compared as moments, so the time counts.
            Some(at) if ty.kind == Kind::Date && at.value.us_of_day() == 0 => {
                Ok(Value::Date(at.value.date()))
            }
            Some(at) => Ok(Value::DateTime(at.value)),
            // A number that is not a date is compared as a number.
            None if !matches!(value, Value::Bytes(_)) => Ok(value),
            None => {
                let name = if ty.kind == Kind::Date { "DATE" } else { "DATETIME" };
                Err(SqlError::new(1525, format!("Incorrect {name} value: '{value}'")))
            }
        }
    }

    /// The text of a value. A number has the decimals of its expression.
    pub(super) fn text_of<'x>(&self, e: &Expr, value: &'x Value<'_>) -> Cow<'x, [u8]> {
        match value {
            Value::Bytes(b) => Cow::Borrowed(b),
            value => {
                let mut out = Vec::with_capacity(32);
                match (value, e.ty.kind) {
                    (Value::UInt(n), Kind::Bit) => {
                        let bytes = (e.ty.length as usize).div_ceil(8).clamp(1, 8);
                        out.extend_from_slice(&n.to_be_bytes()[8 - bytes..]);
                    }
                    (Value::UInt(n), Kind::Year) => {
                        out.extend_from_slice(format!("{n:04}").as_bytes())
                    }
                    // A quotient has more decimals than its type shows; a value chosen among
                    // alternatives may have fewer. The type of a parameterized literal has all
                    // possible decimals, so the literal keeps its own.
                    (Value::Decimal(d), Kind::Decimal)
                        if d.scale() > e.ty.decimals || e.ty.decimals < UNKNOWN_DECIMALS =>
                    {
                        d.round(e.ty.decimals).unwrap_or(*d).write_text(&mut out)
                    }
                    (Value::Time(_) | Value::DateTime(_), kind) if kind.is_temporal() => {
                        value.write_text(Some(e.ty.decimals.min(6)), &mut out);
                    }
                    (Value::Float(_) | Value::Double(_), Kind::Float | Kind::Double)
                        if e.ty.decimals < NOT_FIXED_DECIMALS =>
                    {
                        write_fixed(to_f64(value).value, e.ty.decimals, &mut out);
                    }
                    (value, _) => value.write_text(None, &mut out),
                }
                if e.ty.zerofill {
                    let missing = (e.ty.length as usize).saturating_sub(out.len());
                    out.splice(0..0, std::iter::repeat_n(b'0', missing));
                }
                Cow::Owned(out)
            }
        }
    }
}

/// The year that a number means, which may be one of two digits.
fn with_century(number: i128) -> i128 {
    match number {
        1..=69 => number + 2000,
        70..=99 => number + 1900,
        _ => number,
    }
}

/// The year that a YEAR column would store for `value`: one or two digits get a century, a fraction
/// becomes an integer. None means that `value` is not a year; the comparison then uses `value`
/// unchanged.
fn full_year(value: &Value<'_>) -> Option<i64> {
    let (year, zero_is_2000) = match value {
        Value::Bytes(text) => {
            let text = std::str::from_utf8(text).ok()?.trim();
            (text.parse::<i64>().ok()?, text.len() < 3)
        }
        Value::Date(date) => return Some(date.year().into()),
        Value::DateTime(at) => return Some(at.date().year().into()),
        Value::Time(_) | Value::Null => return None,
        number => {
            let exact = to_decimal(number).value;
            let is_double = matches!(number, Value::Double(_) | Value::Float(_));
            let whole = exact.round_to(0, is_double).ok()?;
            let year = whole.to_i64().filter(|_| !exact.is_negative())?;
            if year == 0 || (1901..=2155).contains(&year) {
                return Some(year);
            }
            (year, false)
        }
    };
    match year {
        0 if zero_is_2000 => Some(2000),
        1..=69 => Some(year + 2000),
        70..=99 => Some(year + 1900),
        _ => None,
    }
}

/// The first `len` bytes of a string.
pub(super) fn cut(text: Value<'_>, len: usize) -> Value<'_> {
    match text {
        Value::Bytes(Cow::Borrowed(b)) => Value::bytes(&b[..len]),
        Value::Bytes(Cow::Owned(mut b)) => {
            b.truncate(len);
            Value::owned(b)
        }
        other => other,
    }
}

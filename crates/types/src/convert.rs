//! Converts values to other kinds, as expressions do. A conversion never fails: `truncated` says
//! that something was left out or clamped, which is a warning (1292 "Truncated incorrect INTEGER
//! value: 'x'"). NULL converts to 0 or `None`, so test for NULL first.
use std::borrow::Cow;

use crate::json::as_scalar;
use crate::temporal::{self, FIRST_WITH_DATE, Parsed, parse_date, parse_datetime, parse_time};
use crate::{Date, DateTime, Decimal, Time, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted<T> {
    pub value: T,
    pub truncated: bool,
}

fn clean<T>(value: T) -> Converted<T> {
    Converted { value, truncated: false }
}

/// Whether only spaces follow a number of which `used` bytes were read.
fn ends_there(text: &[u8], used: usize) -> bool {
    used > 0 && text[used..].iter().all(u8::is_ascii_whitespace)
}

/// The number at the start of a text; 0 if there is none.
pub fn text_to_f64(text: &[u8]) -> Converted<f64> {
    let (_, used) = Decimal::parse_prefix(text);
    let number = text[..used].trim_ascii_start();
    let value = std::str::from_utf8(number).ok().and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    // As in MySQL's strtod, a greater number becomes the greatest double.
    let clamped = value.clamp(f64::MIN, f64::MAX);
    Converted { value: clamped, truncated: clamped != value || !ends_there(text, used) }
}

/// The integer at the start of a text; a fraction is cut off without rounding, as CAST('1.9' AS
/// SIGNED) does.
fn text_to_integer(text: &[u8]) -> Converted<i128> {
    let trimmed = text.trim_ascii_start();
    let skipped = text.len() - trimmed.len();
    let sign_len = usize::from(matches!(trimmed.first(), Some(b'-' | b'+')));
    let digits = trimmed[sign_len..].iter().take_while(|b| b.is_ascii_digit());
    let (mut value, mut len) = (0i128, 0);
    for b in digits {
        value = value.saturating_mul(10).saturating_add(i128::from(b - b'0'));
        len += 1;
    }
    let value = if trimmed.first() == Some(&b'-') { -value } else { value };
    let used = if len == 0 { 0 } else { skipped + sign_len + len };
    Converted { value, truncated: !ends_there(text, used) }
}

/// A temporal value as a number with its fraction: 20240102030405.5.
fn temporal_number(number: i64, us: u32, negative: bool) -> Decimal {
    if us == 0 {
        return Decimal::from(number);
    }
    let us = if negative { -i128::from(us) } else { i128::from(us) };
    Decimal::from_parts(i128::from(number) * 1_000_000 + us, 6)
}

/// The exact number of a value. `None` for doubles and strings.
pub fn exact_number(value: &Value<'_>) -> Option<Decimal> {
    match value {
        Value::Int(v) => Some(Decimal::from(*v)),
        Value::UInt(v) => Some(Decimal::from(*v)),
        Value::Decimal(v) => Some(*v),
        Value::Date(v) => Some(Decimal::from(v.to_number())),
        Value::Time(v) => Some(temporal_number(v.to_number(), v.microseconds(), v.is_negative())),
        Value::DateTime(v) => Some(temporal_number(v.to_number(), v.microsecond(), false)),
        Value::Null | Value::Float(_) | Value::Double(_) | Value::Bytes(_) | Value::Json(_) => None,
    }
}

pub fn to_f64(value: &Value<'_>) -> Converted<f64> {
    match value {
        Value::Null => clean(0.0),
        Value::Int(v) => clean(*v as f64),
        Value::UInt(v) => clean(*v as f64),
        Value::Float(v) => clean(f64::from(*v)),
        Value::Double(v) => clean(*v),
        Value::Bytes(v) => text_to_f64(v),
        Value::Json(v) => to_f64(&as_scalar(v)),
        value => clean(exact_number(value).map_or(0.0, |d| d.to_f64())),
    }
}

/// Converts to an integer. Decimals, doubles and temporal values round to the nearest integer; text
/// ends at its first other character. CAST AS SIGNED / UNSIGNED is this function with `as`;
/// `to_i64` and `to_u64` clamp.
pub fn to_integer(value: &Value<'_>) -> Converted<i128> {
    match value {
        Value::Null => clean(0),
        Value::Int(v) => clean(i128::from(*v)),
        Value::UInt(v) => clean(i128::from(*v)),
        Value::Bytes(v) => text_to_integer(v),
        Value::Json(v) => to_integer(&as_scalar(v)),
        Value::Float(v) => clean(f64::from(*v).round_ties_even() as i128),
        Value::Double(v) => clean(v.round_ties_even() as i128),
        value => match exact_number(value).map(|d| (d.to_i128(), d.is_negative())) {
            Some((Some(number), _)) => clean(number),
            Some((None, negative)) => {
                Converted { value: if negative { i128::MIN } else { i128::MAX }, truncated: true }
            }
            None => clean(0),
        },
    }
}

/// Converts to an integer, clamped into 64 bits with sign.
pub fn to_i64(value: &Value<'_>) -> Converted<i64> {
    if let Value::Int(v) = value {
        return clean(*v);
    }
    let Converted { value, truncated } = to_integer(value);
    let clamped = value.clamp(i64::MIN.into(), i64::MAX.into());
    Converted { value: clamped as i64, truncated: truncated || clamped != value }
}

/// Converts to an integer, clamped into 64 bits without sign.
pub fn to_u64(value: &Value<'_>) -> Converted<u64> {
    let Converted { value, truncated } = to_integer(value);
    let clamped = value.clamp(0, u64::MAX.into());
    Converted { value: clamped as u64, truncated: truncated || clamped != value }
}

/// Converts to a DECIMAL. Numbers of more than 65 digits become 65 nines.
pub fn to_decimal(value: &Value<'_>) -> Converted<Decimal> {
    let limit = |negative| Converted {
        value: Decimal::max_value(crate::decimal::MAX_PRECISION, 0, negative),
        truncated: true,
    };
    match value {
        Value::Float(_) | Value::Double(_) => {
            // A FLOAT has the digits of its value as a DOUBLE.
            let text = Value::Double(to_f64(value).value).to_bytes().into_owned();
            Decimal::parse_prefix(&text).0.map_or(limit(text.first() == Some(&b'-')), clean)
        }
        Value::Bytes(text) => {
            let (number, used) = Decimal::parse_prefix(text);
            match number {
                Ok(number) => Converted { value: number, truncated: !ends_there(text, used) },
                Err(_) => limit(text.trim_ascii_start().first() == Some(&b'-')),
            }
        }
        Value::Json(v) => to_decimal(&as_scalar(v)),
        value => clean(exact_number(value).unwrap_or(Decimal::ZERO)),
    }
}

/// The truth of a value in WHERE: whether it is not zero. `None` for NULL.
pub fn to_bool(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Null => None,
        Value::Int(v) => Some(*v != 0),
        Value::UInt(v) => Some(*v != 0),
        Value::Json(v) => Some(json::is_true(v)),
        value => Some(to_f64(value).value != 0.0),
    }
}

/// A value in a numeric context: strings become doubles, temporal values become integers or, with a
/// fraction, decimals, and FLOAT becomes a double.
pub fn to_number(value: &Value<'_>) -> Converted<Value<'static>> {
    match value {
        Value::Bytes(text) => {
            let Converted { value, truncated } = text_to_f64(text);
            Converted { value: Value::Double(value), truncated }
        }
        Value::Float(v) => clean(Value::Double(f64::from(*v))),
        Value::Time(_) | Value::DateTime(_) | Value::Date(_) => {
            let number = exact_number(value).unwrap_or(Decimal::ZERO);
            clean(if number.scale() > 0 {
                Value::Decimal(number)
            } else {
                Value::Int(number.to_i64().unwrap_or(0))
            })
        }
        Value::Null => clean(Value::Null),
        Value::Int(v) => clean(Value::Int(*v)),
        Value::UInt(v) => clean(Value::UInt(*v)),
        Value::Double(v) => clean(Value::Double(*v)),
        Value::Decimal(v) => clean(Value::Decimal(*v)),
        Value::Json(v) => to_number(&as_scalar(v)),
    }
}

fn whole<T>(value: T) -> Option<Parsed<T>> {
    Some(Parsed { value, fsp: 0, truncated: false })
}

/// Converts to a DATETIME. `None` for NULL, or for a value that is not a date (1292 "Incorrect
/// datetime value"). A TIME is a time on the day `today`. A zone in a text is converted to
/// `to_offset_secs`.
pub fn to_datetime(
    value: &Value<'_>,
    today: Date,
    to_offset_secs: i32,
) -> Option<Parsed<DateTime>> {
    match value {
        Value::DateTime(v) => Some(Parsed {
            value: *v,
            fsp: if v.microsecond() == 0 { 0 } else { 6 },
            truncated: false,
        }),
        Value::Date(v) => whole(v.at(0)),
        Value::Time(v) => whole(today.at(0).add_time(*v)?),
        Value::Bytes(text) => parse_datetime(text, to_offset_secs),
        Value::Json(v) => to_datetime(&as_scalar(v), today, to_offset_secs),
        Value::Null => None,
        Value::Int(v) => whole(DateTime::from_number(*v)?),
        value => {
            let number = to_decimal(value).value;
            if number.is_negative() {
                return None;
            }
            let seconds = DateTime::from_number(number.round_to(0, true).ok()?.to_i64()?)?;
            Some(Parsed {
                value: seconds.with_fraction(fraction_us(&number))?,
                fsp: number.scale().min(6),
                truncated: false,
            })
        }
    }
}

/// Converts to a DATE. `None` for NULL, or for a value that is not a date. A time of day is cut off
/// (`truncated` unless it is midnight).
pub fn to_date(value: &Value<'_>, today: Date) -> Option<Parsed<Date>> {
    match value {
        Value::Date(v) => whole(*v),
        Value::Bytes(text) => parse_date(text),
        Value::Json(v) => to_date(&as_scalar(v), today),
        value => {
            let at = to_datetime(value, today, 0)?;
            Some(Parsed {
                value: at.value.date(),
                fsp: 0,
                truncated: at.truncated || at.value.us_of_day() != 0,
            })
        }
    }
}

/// Converts to a TIME. `None` for NULL, or for a value that is not a time. A time out of range is
/// clamped and `truncated`.
pub fn to_time(value: &Value<'_>) -> Option<Parsed<Time>> {
    match value {
        Value::Time(v) => Some(Parsed {
            value: *v,
            fsp: if v.microseconds() == 0 { 0 } else { 6 },
            truncated: false,
        }),
        Value::DateTime(v) => Some(Parsed {
            value: v.time(),
            fsp: if v.microsecond() == 0 { 0 } else { 6 },
            truncated: false,
        }),
        Value::Date(_) => whole(Time::ZERO),
        Value::Bytes(text) => parse_time(text),
        Value::Json(v) => to_time(&as_scalar(v)),
        Value::Null => None,
        value => {
            let number = to_decimal(value).value;
            let whole = number
                .round_to(0, true)
                .ok()?
                .to_i64()
                .unwrap_or(if number.is_negative() { i64::MIN } else { i64::MAX / 10_000 });
            let (time, clamped) = Time::from_number(whole)?;
            let us =
                if number.is_negative() { -fraction_us(&number) } else { fraction_us(&number) };
            let (value, over) = Time::clamped(time.us() + us);
            Some(Parsed { value, fsp: number.scale().min(6), truncated: clamped || over })
        }
    }
}

/// Whether [`to_time`] reads the value as a moment with a date rather than as a time.
pub fn has_date(value: &Value<'_>) -> bool {
    match value {
        Value::Date(_) | Value::DateTime(_) => true,
        Value::Time(_) | Value::Null => false,
        Value::Bytes(text) => temporal::has_date(text),
        Value::Json(v) => has_date(&as_scalar(v)),
        number => to_decimal(number).value >= Decimal::from(FIRST_WITH_DATE),
    }
}

/// The fraction of a number without its sign, in millionths, rounded.
fn fraction_us(number: &Decimal) -> i64 {
    let one = Decimal::from(1i64);
    let micros = number.abs().rem(&one).and_then(|f| f.mul(&Decimal::from(1_000_000i64)).ok());
    micros.and_then(|us| us.to_i64()).unwrap_or(0)
}

impl Value<'_> {
    /// The value's text (a string's own bytes); empty for NULL.
    pub fn to_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Value::Bytes(bytes) => Cow::Borrowed(bytes),
            value => {
                let mut out = Vec::with_capacity(32);
                value.write_text(None, &mut out);
                Cow::Owned(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_converts_up_to_its_first_other_character() {
        let f = |text: &str| {
            (text_to_f64(text.as_bytes()).value, text_to_f64(text.as_bytes()).truncated)
        };
        assert_eq!(
            [f("1.5"), f(" 1.5 "), f("1.5x"), f("x"), f("")],
            [(1.5, false), (1.5, false), (1.5, true), (0.0, true), (0.0, true)]
        );
        assert_eq!(f("1e400"), (f64::MAX, true));
        let i = |text: &'static str| {
            (to_i64(&Value::text(text)).value, to_i64(&Value::text(text)).truncated)
        };
        assert_eq!(
            [i("12"), i("-12 "), i("1.9"), i("x1")],
            [(12, false), (-12, false), (1, true), (0, true)]
        );
        assert_eq!(i("9223372036854775808"), (i64::MAX, true));
        assert_eq!(to_u64(&Value::text("18446744073709551615")), clean(u64::MAX));
    }

    #[test]
    fn numbers_round_and_clamp() {
        assert_eq!(to_i64(&Value::Decimal(Decimal::parse(b"2.5").unwrap())).value, 3);
        assert_eq!(to_i64(&Value::Double(-1.6)).value, -2);
        assert_eq!(to_u64(&Value::Int(-1)), Converted { value: 0, truncated: true });
        assert_eq!(to_decimal(&Value::Double(0.1)).value.to_string(), "0.1");
        assert_eq!(to_bool(&Value::text("0.1")), Some(true));
        assert_eq!(to_bool(&Value::Null), None);
    }

    #[test]
    fn temporal_values_are_numbers_and_back() {
        let at = to_datetime(&Value::Int(20240102030405), Date::ZERO, 0).unwrap().value;
        assert_eq!(to_number(&Value::DateTime(at)).value, Value::Int(20240102030405));
        let number = Value::Decimal(Decimal::parse(b"20240102030405.25").unwrap());
        let at = to_datetime(&number, Date::ZERO, 0).unwrap().value;
        assert_eq!(at.microsecond(), 250_000);
        assert_eq!(to_number(&Value::DateTime(at)).value.to_string(), "20240102030405.250000");
        assert_eq!(to_time(&Value::Double(-12.5)).unwrap().value.us(), -12_500_000);
        assert_eq!(to_time(&Value::Int(99)), None);
        assert_eq!(
            to_date(&Value::text("2024-01-02 10:00"), Date::ZERO).map(|p| p.truncated),
            Some(true)
        );
    }
}

//! Converts values for storing them in a column, by MySQL's rules for INSERT and UPDATE. In strict
//! mode, a value that does not fit is an error. Otherwise it is clamped, cut or zeroed, and the
//! same error becomes the warning. Some losses are only a note in both modes (`Rounded`). `sql`
//! adds column and row to the messages.
use std::borrow::Cow;

use crate::collation::trim_spaces;
use crate::convert::{exact_number, text_to_f64, to_datetime, to_decimal, to_f64, to_time};
use crate::json::{self, JsonError, as_scalar};
use crate::number::fit_f64;
use crate::temporal::{Parsed, parse_time};
use crate::{Charset, Collation, Date, DateTime, Decimal, IntSize, SqlType, Time, Value};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// 1264
    #[error("Out of range value")]
    OutOfRange,
    /// 1406
    #[error("Data too long")]
    TooLong,
    /// 1265: part of the value was not understood
    #[error("Data truncated")]
    Truncated,
    /// 1265, always only a note: digits or trailing spaces were rounded away
    #[error("Data truncated")]
    Rounded,
    /// 1366: "Incorrect integer value: 'x'", "Incorrect string value: '\xFF'"
    #[error("Incorrect {kind} value: '{value}'")]
    Incorrect { kind: &'static str, value: String },
    /// 1292: "Incorrect datetime value: 'x'"
    #[error("Incorrect {kind} value: '{value}'")]
    IncorrectTemporal { kind: &'static str, value: String },
    /// 3140, 3150, 3151, 3157: the value is no JSON, in every mode an error
    #[error(transparent)]
    Json(JsonError),
    /// 3144: JSON is text, and the value is bytes
    #[error("Cannot create a JSON value from a string with CHARACTER SET 'binary'.")]
    BinaryJson,
}

impl ConvertError {
    /// MySQL's error number.
    pub fn code(&self) -> u16 {
        match self {
            ConvertError::OutOfRange => 1264,
            ConvertError::TooLong => 1406,
            ConvertError::Truncated | ConvertError::Rounded => 1265,
            ConvertError::Incorrect { .. } => 1366,
            ConvertError::IncorrectTemporal { .. } => 1292,
            ConvertError::Json(error) => error.code(),
            ConvertError::BinaryJson => 3144,
        }
    }

    pub fn is_note(&self) -> bool {
        *self == ConvertError::Rounded
    }
}

/// The session's sql_mode, time zone and clock, as far as they affect storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreMode {
    /// STRICT_TRANS_TABLES or STRICT_ALL_TABLES, without IGNORE
    pub strict: bool,
    /// NO_ZERO_DATE: 0000-00-00 may not be stored
    pub no_zero_date: bool,
    /// NO_ZERO_IN_DATE: nor dates with a zero month or day
    pub no_zero_in_date: bool,
    /// The session's zone, in which TIMESTAMP values are given
    pub zone_offset_secs: i32,
    /// The date a TIME gets when it is stored as a date or a year
    pub today: Date,
}

impl StoreMode {
    pub const STRICT: StoreMode = StoreMode {
        strict: true,
        no_zero_date: true,
        no_zero_in_date: true,
        zone_offset_secs: 0,
        today: Date::ZERO,
    };
    pub const LENIENT: StoreMode = StoreMode {
        strict: false,
        no_zero_date: false,
        no_zero_in_date: false,
        ..StoreMode::STRICT
    };
}

/// A value converted for its column. `warning` says what was lost, without strict mode or in a
/// note.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<'a> {
    pub value: Value<'a>,
    pub warning: Option<ConvertError>,
}

type Outcome<'a> = Result<Stored<'a>, ConvertError>;

fn fit<'a>(value: Value<'a>) -> Outcome<'a> {
    Ok(Stored { value, warning: None })
}

fn noted<'a>(value: Value<'a>, lost: bool) -> Outcome<'a> {
    Ok(Stored { value, warning: lost.then_some(ConvertError::Rounded) })
}

impl StoreMode {
    /// In strict mode, fails with `error`. Otherwise stores `instead`, with a warning.
    fn lose<'a>(&self, instead: Value<'a>, error: ConvertError) -> Outcome<'a> {
        if self.strict { Err(error) } else { Ok(Stored { value: instead, warning: Some(error) }) }
    }
}

/// Converts `value` for a column of type `ty`. Strings in it are in the character set `from`
/// (`Binary` for binary strings). NULL stays NULL; the caller checks whether it is allowed.
/// Unchanged text still borrows.
pub fn convert_for_column<'a>(
    value: Value<'a>,
    ty: &SqlType,
    from: Charset,
    mode: StoreMode,
) -> Outcome<'a> {
    match (ty, &value) {
        (_, Value::Null) => fit(value),
        (SqlType::Json, _) => store_json(value, from),
        // The digits of a number or a date are ASCII everywhere. The rest is for messages.
        (_, Value::Bytes(text))
            if !from.is_utf8()
                && from != Charset::Binary
                && !ty.is_string()
                && scalar_suits(ty)
                && !text.is_ascii() =>
        {
            let text = from.convert_lossy(text, Charset::Utf8mb4).into_owned();
            convert_for_column(Value::owned(text), ty, Charset::Utf8mb4, mode)
        }
        (_, Value::Json(document)) => {
            let outside = if ty.is_string() || !scalar_suits(ty) {
                value.to_bytes().into_owned()
            } else {
                let scalar = as_scalar(document).into_owned();
                return convert_for_column(scalar, ty, Charset::Utf8mb4, mode);
            };
            convert_for_column(Value::owned(outside), ty, Charset::Utf8mb4, mode)
        }
        // A client may send a DOUBLE that is no number, or infinite, as a parameter.
        (SqlType::Int { .. } | SqlType::Decimal { .. } | SqlType::Year, Value::Double(n))
            if !n.is_finite() =>
        {
            let stands_for =
                if n.is_nan() { Value::Int(0) } else { Value::Double(f64::MAX.copysign(*n)) };
            let stored = convert_for_column(stands_for, ty, from, mode)?;
            mode.lose(stored.value, ConvertError::OutOfRange)
        }
        (SqlType::Int { size, sign, .. }, Value::Int(v))
            if !sign.unsigned && (size.min_signed()..=size.max_signed()).contains(v) =>
        {
            fit(value)
        }
        (SqlType::Int { size, sign, .. }, _) => store_int(&value, *size, sign.unsigned, mode),
        (SqlType::Decimal { precision, scale, sign }, _) => {
            store_decimal(&value, *precision, *scale, sign.unsigned, mode)
        }
        (SqlType::Float { digits, sign }, _) => {
            let stored = store_double(&value, f64::from(f32::MAX), *digits, sign.unsigned, mode)?;
            let Value::Double(double) = stored.value else { return Ok(stored) };
            Ok(Stored { value: Value::Float(double as f32), ..stored })
        }
        (SqlType::Double { digits, sign }, _) => {
            store_double(&value, f64::MAX, *digits, sign.unsigned, mode)
        }
        (SqlType::Char { chars, collation }, _) => {
            let stored = store_text(value, *collation, Limit::Chars(*chars), from, mode)?;
            // Trailing spaces of a CHAR are removed without a note.
            let warning = stored.warning.filter(|w| !w.is_note());
            Ok(Stored { value: trimmed(stored.value), warning })
        }
        (SqlType::VarChar { chars, collation }, _) => {
            store_text(value, *collation, Limit::Chars(*chars), from, mode)
        }
        (SqlType::Text { size, collation }, _) => {
            store_text(value, *collation, Limit::Bytes(size.max_bytes()), from, mode)
        }
        (SqlType::Binary { len }, _) => {
            let stored =
                store_text(value, Collation::Binary, Limit::Bytes(u64::from(*len)), from, mode)?;
            Ok(Stored { value: zero_padded(stored.value, *len as usize), ..stored })
        }
        (SqlType::VarBinary { len }, _) => {
            store_text(value, Collation::Binary, Limit::Bytes(u64::from(*len)), from, mode)
        }
        (SqlType::Blob { size }, _) => {
            store_text(value, Collation::Binary, Limit::Bytes(size.max_bytes()), from, mode)
        }
        (SqlType::Date, _) => store_date(&value, mode),
        (SqlType::Time { fsp }, _) => store_time(&value, *fsp, mode),
        (SqlType::DateTime { fsp }, _) => store_datetime(&value, *fsp, mode),
        (SqlType::Timestamp { fsp }, _) => store_timestamp(&value, *fsp, mode),
        (SqlType::Year, _) => store_year(&value, mode),
        (SqlType::Bit { bits }, _) => store_bit(&value, *bits, mode),
        (SqlType::Enum { names, collation }, _) => {
            store_enum(&value, names, *collation, from, mode)
        }
        (SqlType::Set { names, collation }, _) => store_set(&value, names, *collation, from, mode),
    }
}

/// Whether a JSON value is stored in the type as its scalar, not as its text.
fn scalar_suits(ty: &SqlType) -> bool {
    !matches!(ty, SqlType::Enum { .. } | SqlType::Set { .. } | SqlType::Bit { .. })
}

fn store_json<'a>(value: Value<'a>, from: Charset) -> Outcome<'a> {
    let text = match &value {
        Value::Json(_) => return fit(value),
        Value::Bytes(_) if from == Charset::Binary => return Err(ConvertError::BinaryJson),
        // The parser refuses bytes that are no text.
        Value::Bytes(text) if from.is_utf8() => Cow::Borrowed(&text[..]),
        Value::Bytes(text) => from.convert_lossy(text, Charset::Utf8mb4),
        _ => {
            let why = "not a JSON text, may need CAST";
            return Err(ConvertError::Json(JsonError::Text { why, position: 0 }));
        }
    };
    let document = json::parse(&text).and_then(|json| json.to_binary());
    fit(Value::Json(Cow::Owned(document.map_err(ConvertError::Json)?)))
}

fn incorrect(kind: &'static str, value: &Value<'_>) -> ConvertError {
    ConvertError::Incorrect { kind, value: value.to_string() }
}

/// Converts a value to an exact number, which the column will round, and the error of its text if
/// it has one. For a number with too many digits, the `Err` inside is its sign.
fn number(value: &Value<'_>, kind: &'static str) -> (Result<Decimal, bool>, Option<ConvertError>) {
    match value {
        Value::Bytes(text) => {
            let (number, used) = Decimal::parse_prefix(text);
            let rest_is_blank = text[used..].iter().all(u8::is_ascii_whitespace);
            let error = match (used, rest_is_blank) {
                (0, _) => Some(incorrect(kind, value)),
                (_, false) => Some(ConvertError::Truncated),
                _ => None,
            };
            (number.map_err(|_| text.trim_ascii_start().first() == Some(&b'-')), error)
        }
        Value::Float(_) | Value::Double(_) => {
            let converted = to_decimal(value);
            (
                if converted.truncated {
                    Err(converted.value.is_negative())
                } else {
                    Ok(converted.value)
                },
                None,
            )
        }
        value => (Ok(exact_number(value).unwrap_or(Decimal::ZERO)), None),
    }
}

fn store_int<'a>(value: &Value<'_>, size: IntSize, unsigned: bool, mode: StoreMode) -> Outcome<'a> {
    let (min, max) = match unsigned {
        true => (0, i128::from(size.max_unsigned())),
        false => (i128::from(size.min_signed()), i128::from(size.max_signed())),
    };
    let as_value = |n: i128| if unsigned { Value::UInt(n as u64) } else { Value::Int(n as i64) };
    let (whole, error) = match value {
        Value::Int(v) => (i128::from(*v), None),
        Value::UInt(v) => (i128::from(*v), None),
        Value::Float(v) => (f64::from(*v).round_ties_even() as i128, None),
        Value::Double(v) => (v.round_ties_even() as i128, None),
        value => {
            let (number, error) = number(value, "integer");
            let whole = match number {
                Ok(number) => number.to_i128().unwrap_or(if number.is_negative() {
                    i128::MIN
                } else {
                    i128::MAX
                }),
                Err(true) => i128::MIN,
                Err(false) => i128::MAX,
            };
            (whole, error)
        }
    };
    // A negative DECIMAL keeps its sign even if it rounds to 0. A DOUBLE loses the sign first.
    let is_negative =
        unsigned && matches!(value, Value::Decimal(d) if d.is_negative() && !d.is_zero());
    let whole = if is_negative { whole.min(-1) } else { whole };
    let clamped = whole.clamp(min, max);
    match error {
        _ if clamped != whole => mode.lose(as_value(clamped), ConvertError::OutOfRange),
        Some(error) => mode.lose(as_value(clamped), error),
        None => fit(as_value(whole)),
    }
}

fn store_decimal<'a>(
    value: &Value<'_>,
    precision: u8,
    scale: u8,
    unsigned: bool,
    mode: StoreMode,
) -> Outcome<'a> {
    let (number, error) = number(value, "decimal");
    let clamped = |negative: bool| match negative && unsigned {
        true => Decimal::ZERO.round(scale).unwrap_or(Decimal::ZERO),
        false => Decimal::max_value(precision, scale, negative),
    };
    let number = match number {
        Ok(number) => number,
        Err(negative) => {
            return mode.lose(Value::Decimal(clamped(negative)), ConvertError::OutOfRange);
        }
    };
    let fitting = number
        .round(scale)
        .ok()
        .filter(|n| n.fits(precision, scale) && !(unsigned && n.is_negative()));
    match (fitting, error) {
        (None, Some(error)) => mode.lose(Value::Decimal(clamped(number.is_negative())), error),
        (None, None) => {
            mode.lose(Value::Decimal(clamped(number.is_negative())), ConvertError::OutOfRange)
        }
        (Some(rounded), Some(error)) => mode.lose(Value::Decimal(rounded), error),
        // Rounding a double gives no note.
        (Some(rounded), None) => noted(
            Value::Decimal(rounded),
            rounded != number && !matches!(value, Value::Float(_) | Value::Double(_)),
        ),
    }
}

fn store_double<'a>(
    value: &Value<'_>,
    max: f64,
    digits: Option<(u8, u8)>,
    unsigned: bool,
    mode: StoreMode,
) -> Outcome<'a> {
    let (mut number, mut error) = match value {
        Value::Double(v) => (*v, None),
        Value::Float(v) => (f64::from(*v), None),
        Value::Bytes(text) => {
            let converted = text_to_f64(text);
            let error = if converted.value.abs() == f64::MAX {
                ConvertError::OutOfRange
            } else {
                ConvertError::Truncated
            };
            (converted.value, converted.truncated.then_some(error))
        }
        value => (crate::convert::to_f64(value).value, None),
    };
    let mut max = max;
    if let Some((precision, scale)) = digits {
        let unit = 10f64.powi(i32::from(scale));
        let rounded = number.floor() + ((number - number.floor()) * unit).round_ties_even() / unit;
        number = if rounded.is_finite() { rounded } else { number };
        max = max.min(10f64.powi(i32::from(precision) - i32::from(scale)) - 1.0 / unit);
    }
    let clamped =
        if number.is_nan() { 0.0 } else { number.clamp(if unsigned { 0.0 } else { -max }, max) };
    if clamped != number {
        error = error.or(Some(ConvertError::OutOfRange));
    }
    match error {
        Some(error) => mode.lose(Value::Double(clamped), error),
        None => fit(Value::Double(clamped)),
    }
}

enum Limit {
    Chars(u32),
    Bytes(u64),
}

fn trimmed(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Bytes(Cow::Borrowed(bytes)) => Value::bytes(trim_spaces(bytes)),
        Value::Bytes(Cow::Owned(mut bytes)) => {
            bytes.truncate(trim_spaces(&bytes).len());
            Value::owned(bytes)
        }
        value => value,
    }
}

fn zero_padded(value: Value<'_>, len: usize) -> Value<'_> {
    match value {
        Value::Bytes(bytes) if bytes.len() < len => {
            let mut bytes = bytes.into_owned();
            bytes.resize(len, 0);
            Value::owned(bytes)
        }
        value => value,
    }
}

/// Formats up to six bytes as MySQL shows text that it cannot store: \xF0\x9F..., with "..." if
/// there are more bytes.
fn shown_bytes(bytes: &[u8]) -> String {
    let mut out = String::new();
    for b in &bytes[..bytes.len().min(6)] {
        match b {
            0x20..=0x7e => out.push(char::from(*b)),
            b => out.push_str(&format!("\\x{b:02X}")),
        }
    }
    out + if bytes.len() > 6 { "..." } else { "" }
}

fn store_text<'a>(
    value: Value<'a>,
    collation: Collation,
    limit: Limit,
    from: Charset,
    mode: StoreMode,
) -> Outcome<'a> {
    let to = collation.charset();
    let bytes: Cow<'a, [u8]> = match value {
        Value::Bytes(bytes) => bytes,
        Value::Double(_) | Value::Float(_) => return store_fitted(&value, &limit, mode),
        value => Cow::Owned(value.to_bytes().into_owned()),
    };
    let from = if bytes.is_ascii() { to } else { from };
    let (bytes, mut warning) = match from.convert(&bytes, to).map(|converted| match converted {
        // The bytes have not changed, so the caller's value is kept.
        Cow::Borrowed(_) => None,
        Cow::Owned(converted) => Some(converted),
    }) {
        Ok(None) => (bytes, None),
        Ok(Some(converted)) => (Cow::Owned(converted), None),
        Err(at) => {
            let error =
                ConvertError::Incorrect { kind: "string", value: shown_bytes(&bytes[at.0..]) };
            let stored =
                mode.lose(Value::owned(from.convert_lossy(&bytes, to).into_owned()), error)?;
            let Value::Bytes(bytes) = stored.value else { return Ok(stored) };
            (bytes, stored.warning)
        }
    };
    let fitting = match limit {
        Limit::Chars(chars) => to.prefix_len(&bytes, chars as usize),
        Limit::Bytes(len) if bytes.len() as u64 > len => whole_chars(&bytes, len as usize, to),
        Limit::Bytes(_) => bytes.len(),
    };
    if fitting == bytes.len() {
        return Ok(Stored { value: Value::Bytes(bytes), warning });
    }
    let blank = to != Charset::Binary && bytes[fitting..].iter().all(|b| *b == b' ');
    let cut = match bytes {
        Cow::Borrowed(bytes) => Value::bytes(&bytes[..fitting]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(fitting);
            Value::owned(bytes)
        }
    };
    // As in MySQL: too long in strict mode, truncated otherwise.
    let error = if mode.strict { ConvertError::TooLong } else { ConvertError::Truncated };
    let stored = if blank { noted(cut, true)? } else { mode.lose(cut, error)? };
    warning = warning.or(stored.warning);
    Ok(Stored { value: stored.value, warning })
}

/// Stores a double as text of at most the column's length. It is rounded to fit, not cut.
fn store_fitted<'a>(value: &Value<'_>, limit: &Limit, mode: StoreMode) -> Outcome<'a> {
    let width = match limit {
        Limit::Chars(chars) => *chars as usize,
        Limit::Bytes(bytes) => *bytes as usize,
    };
    let text = value.to_bytes();
    if text.len() <= width {
        return fit(Value::owned(text.into_owned()));
    }
    let (text, fits) = fit_f64(text_to_f64(&text).value, width);
    let error = if mode.strict { ConvertError::TooLong } else { ConvertError::Truncated };
    if fits { fit(Value::owned(text)) } else { mode.lose(Value::owned(text), error) }
}

/// The greatest length up to `len` that does not cut a character.
fn whole_chars(bytes: &[u8], len: usize, charset: Charset) -> usize {
    let mut len = len.min(bytes.len());
    while charset.is_utf8() && len > 0 && len < bytes.len() && bytes[len] & 0xc0 == 0x80 {
        len -= 1;
    }
    len
}

/// Checks a date against NO_ZERO_DATE and NO_ZERO_IN_DATE.
fn allowed(date: Date, mode: StoreMode) -> bool {
    if date.is_zero() {
        !mode.no_zero_date
    } else {
        !mode.no_zero_in_date || (date.month() > 0 && date.day() > 0)
    }
}

/// Handles a temporal value that does not fit: one error in strict mode, and two kinds of warnings
/// otherwise.
fn lose_temporal<'a>(
    kind: &'static str,
    value: &Value<'_>,
    instead: Value<'a>,
    warning: ConvertError,
    mode: StoreMode,
) -> Outcome<'a> {
    if mode.strict {
        return Err(ConvertError::IncorrectTemporal { kind, value: value.to_string() });
    }
    Ok(Stored { value: instead, warning: Some(warning) })
}

fn store_date<'a>(value: &Value<'_>, mode: StoreMode) -> Outcome<'a> {
    let lose =
        |date| lose_temporal("date", value, Value::Date(date), ConvertError::Truncated, mode);
    match to_datetime(value, mode.today, mode.zone_offset_secs)
        .filter(|p| allowed(p.value.date(), mode))
    {
        None => lose(Date::ZERO),
        Some(parsed) if parsed.truncated => lose(parsed.value.date()),
        Some(parsed) => noted(Value::Date(parsed.value.date()), parsed.value.us_of_day() != 0),
    }
}

/// Converts to a DATETIME rounded to `fsp`. `None` if that is not possible.
fn datetime(value: &Value<'_>, fsp: u8, mode: StoreMode) -> Option<Parsed<DateTime>> {
    let parsed = to_datetime(value, mode.today, mode.zone_offset_secs)?;
    Some(Parsed { value: parsed.value.round(fsp)?, ..parsed })
        .filter(|p| allowed(p.value.date(), mode))
}

fn store_datetime<'a>(value: &Value<'_>, fsp: u8, mode: StoreMode) -> Outcome<'a> {
    let lose =
        |at| lose_temporal("datetime", value, Value::DateTime(at), ConvertError::Truncated, mode);
    match datetime(value, fsp, mode) {
        None => lose(DateTime::ZERO),
        Some(parsed) if parsed.truncated => lose(parsed.value),
        Some(parsed) => fit(Value::DateTime(parsed.value)),
    }
}

/// The microseconds since 1970 UTC that a TIMESTAMP can hold, besides the zero date: up to the end
/// of 2038-01-19 03:14:07.
pub const TIMESTAMP_US: std::ops::Range<i64> = 1_000_000..(i32::MAX as i64 + 1) * 1_000_000;

fn store_timestamp<'a>(value: &Value<'_>, fsp: u8, mode: StoreMode) -> Outcome<'a> {
    let lose = |at, warning| lose_temporal("datetime", value, Value::DateTime(at), warning, mode);
    let Some(parsed) = datetime(value, fsp, mode) else {
        return lose(DateTime::ZERO, ConvertError::Truncated);
    };
    if parsed.value.is_zero() {
        return fit(Value::DateTime(DateTime::ZERO));
    }
    let Some(us) = parsed.value.to_unix_us(mode.zone_offset_secs) else {
        return lose(DateTime::ZERO, ConvertError::Truncated);
    };
    match DateTime::from_unix_us(us, 0).filter(|_| TIMESTAMP_US.contains(&us)) {
        None => lose(DateTime::ZERO, ConvertError::OutOfRange),
        Some(utc) if parsed.truncated => lose(utc, ConvertError::Truncated),
        Some(utc) => fit(Value::DateTime(utc)),
    }
}

fn store_time<'a>(value: &Value<'_>, fsp: u8, mode: StoreMode) -> Outcome<'a> {
    let lose = |time, warning| lose_temporal("time", value, Value::Time(time), warning, mode);
    let parsed = if let Value::Bytes(text) = value { parse_time(text) } else { to_time(value) };
    let Some(parsed) = parsed else { return lose(Time::ZERO, ConvertError::Truncated) };
    let (rounded, over) = Time::clamped(parsed.value.round(fsp).us());
    let at_limit = rounded.us().abs() == crate::temporal::MAX_TIME_US;
    match (parsed.truncated || over, at_limit) {
        (false, _) => fit(Value::Time(rounded)),
        (true, true) => lose(rounded, ConvertError::OutOfRange),
        (true, false) => lose(rounded, ConvertError::Truncated),
    }
}

/// Converts a fraction to the integer for BIT, ENUM and SET: it is truncated. Beyond 64 bits the
/// result is `WITHOUT_SENSE`, as in the conversion of a double to an integer.
fn cut_off(value: &Value<'_>) -> i64 {
    const WITHOUT_SENSE: i64 = i64::MIN;
    let number = to_f64(value).value.trunc();
    if (-(2f64.powi(63))..2f64.powi(63)).contains(&number) { number as i64 } else { WITHOUT_SENSE }
}

/// Converts a number for YEAR and BIT: doubles are truncated, decimals are rounded.
fn whole_number(number: Decimal, value: &Value<'_>) -> Option<i128> {
    let is_double = matches!(value, Value::Float(_) | Value::Double(_));
    if is_double { number.round_to(0, true).ok()?.to_i128() } else { number.to_i128() }
}

fn store_year<'a>(value: &Value<'_>, mode: StoreMode) -> Outcome<'a> {
    let (number, error) = match value {
        Value::Date(date) => (i128::from(date.year()), None),
        Value::DateTime(at) => (i128::from(at.date().year()), None),
        // As in MySQL, a time is one of today.
        Value::Time(_) => {
            let moment = to_datetime(value, mode.today, mode.zone_offset_secs)
                .filter(|at| at.value.date().is_real());
            (moment.map_or(-1, |at| at.value.date().year().into()), None)
        }
        value => {
            let (number, error) = number(value, "integer");
            (number.ok().and_then(|n| whole_number(n, value)).unwrap_or(-1), error)
        }
    };
    let year = match (number, value) {
        // The text '0' (or '00') is 2000, as two digits of a year; the number 0 and the text '0000'
        // are the year 0.
        (0, Value::Bytes(text))
            if !matches!(error, Some(ConvertError::Incorrect { .. }))
                && text.trim_ascii().len() != 4 =>
        {
            2000
        }
        (1..=69, _) => number + 2000,
        (70..=99, _) => number + 1900,
        _ => number,
    };
    match (year, error) {
        (0 | 1901..=2155, None) => fit(Value::UInt(year as u64)),
        (0 | 1901..=2155, Some(error)) => mode.lose(Value::UInt(year as u64), error),
        _ => mode.lose(Value::UInt(0), ConvertError::OutOfRange),
    }
}

fn store_bit<'a>(value: &Value<'_>, bits: u8, mode: StoreMode) -> Outcome<'a> {
    let max = u64::MAX >> (64 - u32::from(bits.clamp(1, 64)));
    let number = match value {
        Value::Bytes(bytes) => {
            let significant = &bytes[bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len())..];
            let fits = significant.len() <= 8;
            fits.then(|| significant.iter().fold(0u64, |n, b| n << 8 | u64::from(*b)))
        }
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) => {
            return store_bit(&as_text(value), bits, mode);
        }
        Value::Int(v) => Some(*v as u64),
        Value::Float(_) | Value::Double(_) => Some(cut_off(value) as u64),
        value => match to_decimal(value).value.to_i128() {
            Some(n) if n < 0 => return mode.lose(Value::UInt(0), ConvertError::OutOfRange),
            n => n.and_then(|n| u64::try_from(n).ok()),
        },
    };
    match number.filter(|n| *n <= max) {
        Some(number) => fit(Value::UInt(number)),
        // As in MySQL: too long in strict mode, out of range otherwise.
        None => mode.lose(
            Value::UInt(max),
            if mode.strict { ConvertError::TooLong } else { ConvertError::OutOfRange },
        ),
    }
}

/// The position of a name that is equal under the collation.
fn position(names: &[String], wanted: &[u8], collation: Collation) -> Option<usize> {
    let same = |name: &String| {
        collation
            .equal(&Charset::Utf8mb4.convert_lossy(name.as_bytes(), collation.charset()), wanted)
    };
    names.iter().position(same)
}

/// The text that is looked up among members: no member has trailing spaces, so they do not count,
/// even where the collation compares them. Spaces of a binary string are bytes like others.
pub fn member_text(text: &[u8], collation: Collation) -> &[u8] {
    if collation == Collation::Binary { text } else { trim_spaces(text) }
}

/// Converts a temporal value to the text that BIT, ENUM and SET use.
fn as_text(value: &Value<'_>) -> Value<'static> {
    Value::owned(value.to_bytes().into_owned())
}

/// The number that a text of less than six bytes is.
fn short_number(text: &[u8]) -> Option<usize> {
    let number = std::str::from_utf8(text).ok().filter(|text| text.len() < 6)?.trim_ascii_start();
    match number.strip_prefix('-') {
        // A second sign makes it no number.
        Some(digits) => (!digits.starts_with('+') && digits.parse::<usize>() == Ok(0)).then_some(0),
        None => number.parse().ok(),
    }
}

fn store_enum<'a>(
    value: &Value<'_>,
    names: &[String],
    collation: Collation,
    from: Charset,
    mode: StoreMode,
) -> Outcome<'a> {
    let index = match value {
        Value::Bytes(text) => {
            let converted = from.convert_lossy(text, collation.charset());
            let wanted = member_text(&converted, collation);
            let by_name = position(names, wanted, collation).map(|i| i + 1);
            // A number that is not a name is a position, and the text 0 is the empty value. As in
            // MySQL (`Field_enum::store`), longer texts are no numbers.
            let by_number = || short_number(trim_spaces(&converted)).filter(|n| *n <= names.len());
            if let Some(number) = by_name.or_else(by_number) {
                return fit(Value::UInt(number as u64));
            }
            None
        }
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) => {
            return store_enum(&as_text(value), names, collation, from, mode);
        }
        Value::UInt(v) => usize::try_from(*v).ok(),
        Value::Int(v) => usize::try_from(*v).ok(),
        value => usize::try_from(cut_off(value)).ok(),
    };
    match index.filter(|i| (1..=names.len()).contains(i)) {
        Some(index) => fit(Value::UInt(index as u64)),
        None => mode.lose(Value::UInt(0), ConvertError::Truncated),
    }
}

/// The bits of the members in a text, whose character set is that of the collation, and whether
/// each member has a name. Each is compared with all names: a long text can be given in parts that
/// end at commas.
pub fn set_bits(names: &[String], text: &[u8], collation: Collation) -> (u64, bool) {
    let (mut bits, mut whole) = (0, true);
    for member in text.split(|b| *b == b',') {
        match position(names, member, collation) {
            Some(i) => bits |= 1 << i,
            None => whole = false,
        }
    }
    (bits, whole)
}

fn store_set<'a>(
    value: &Value<'_>,
    names: &[String],
    collation: Collation,
    from: Charset,
    mode: StoreMode,
) -> Outcome<'a> {
    let all = u64::MAX.checked_shr(64 - names.len() as u32).unwrap_or(0);
    let (bits, whole) = match value {
        Value::Bytes(text) if text.is_empty() => (0, true),
        Value::Bytes(text) => {
            let converted = from.convert_lossy(text, collation.charset());
            let (bits, whole) = set_bits(names, member_text(&converted, collation), collation);
            let number = || std::str::from_utf8(text).ok()?.trim().parse::<u64>().ok();
            match number().filter(|n| !whole && *n <= all) {
                Some(number) => (number, true),
                None => (bits, whole),
            }
        }
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) => {
            return store_set(&as_text(value), names, collation, from, mode);
        }
        value => {
            let number = match value {
                Value::UInt(v) => *v,
                Value::Int(v) => *v as u64,
                value => cut_off(value) as u64,
            };
            (number & all, number <= all)
        }
    };
    if whole {
        fit(Value::UInt(bits))
    } else {
        mode.lose(Value::UInt(bits), ConvertError::Truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_without_trailing_spaces() {
        let names = ["a", "b"].map(String::from).to_vec();
        let bits = |ty: &SqlType, text: &'static str| {
            let stored = convert_for_column(text.into(), ty, Charset::Utf8mb4, StoreMode::STRICT);
            stored.map(|stored| stored.value).map_err(|error| error.code())
        };
        for collation in [Collation::Utf8mb4GeneralCi, Collation::Utf8mb4Uca0900AiCi] {
            let one = SqlType::Enum { names: names.clone(), collation };
            let set = SqlType::Set { names: names.clone(), collation };
            assert_eq!(bits(&one, "b  "), Ok(Value::UInt(2)), "{collation:?}");
            assert_eq!(bits(&one, " b"), Err(1265), "{collation:?}");
            assert_eq!(bits(&set, "a,b  "), Ok(Value::UInt(3)), "{collation:?}");
            assert_eq!(bits(&set, ""), Ok(Value::UInt(0)), "{collation:?}");
            assert_eq!(bits(&set, "  "), Err(1265), "{collation:?}");
        }
        let set = SqlType::Set { names: names.clone(), collation: Collation::Utf8mb4Bin0900 };
        assert_eq!(bits(&set, "a  ,b"), Err(1265));
        let one = SqlType::Enum { names, collation: Collation::Binary };
        assert_eq!(bits(&one, "b  "), Err(1265));
    }
}

//! Converts values for columns by the session's mode, with MySQL's errors and warnings.
use super::env::Env;
use super::pace::LONG;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Kind};
use redolith_types::json::{JsonRef, parse_cost};
use redolith_types::store::{ConvertError, StoreMode, member_text, set_bits};
use redolith_types::{
    Charset, Collation, Column, Date, DateTime, Decimal, SqlType, Time, Value, convert_for_column,
};

/// Converts a value for a column. `row` counts from 1, for messages. Without strict mode, a loss
/// gives a warning instead of an error.
#[inline]
pub fn convert<'v>(
    value: Value<'v>,
    column: &Column,
    from: Charset,
    row: u64,
    env: &mut Env<'_>,
) -> Result<Value<'v>> {
    if let (SqlType::Int { size, sign, .. }, Value::Int(n)) = (&column.ty, &value)
        && !sign.unsigned
        && (size.min_signed()..=size.max_signed()).contains(n)
    {
        return Ok(value);
    }
    if value.is_null() {
        return if column.nullable { Ok(value) } else { null_refused(column, env) };
    }
    let mode = env.store_mode();
    let mode = if matches!(
        column.ty,
        SqlType::Date | SqlType::DateTime { .. } | SqlType::Timestamp { .. } | SqlType::Year
    ) {
        StoreMode { today: env.today(), ..mode }
    } else {
        mode
    };
    let held = env.held();
    if let (SqlType::Json, Value::Bytes(text)) = (&column.ty, &value)
        && text.len() >= LONG
    {
        env.bytes(text.len())?;
        env.charge(parse_cost(text))?;
    }
    let value = match (&column.ty, value) {
        (SqlType::Set { names, collation }, Value::Bytes(text)) if text.len() >= PART_OF_SET => {
            match long_set(names, &text, *collation, from, env)? {
                Some((bits, true)) => Value::UInt(bits),
                Some((_, false)) if mode.strict => {
                    return Err(worded(&ConvertError::Truncated, column, row));
                }
                Some((bits, false)) => {
                    env.only_warn(worded(&ConvertError::Truncated, column, row));
                    Value::UInt(bits)
                }
                None => Value::Bytes(text),
            }
        }
        (SqlType::Enum { names, .. }, value @ Value::Bytes(_)) => {
            env.steps(names.len())?;
            value
        }
        (_, value) => value,
    };
    let stored = convert_for_column(value, &column.ty, from, mode);
    env.release_to(held);
    match stored {
        Ok(stored) => {
            if let Some(lost) = stored.warning {
                let error = worded(&lost, column, row);
                if lost.is_note() { env.note(error) } else { env.only_warn(error) }
            }
            Ok(stored.value)
        }
        Err(e) => Err(worded(&e, column, row)),
    }
}

/// The members of a SET are looked up in parts of about so many bytes.
const PART_OF_SET: usize = 1024;

/// The bits of a long text with members, and whether each member has a name: None if the text has
/// one member, which may be a number. Each part is followed by a look at KILL.
#[cold]
fn long_set(
    names: &[String],
    text: &[u8],
    collation: Collation,
    from: Charset,
    env: &mut Env<'_>,
) -> Result<Option<(u64, bool)>> {
    env.bytes(text.len())?;
    env.charge(text.len())?;
    let converted = from.convert_lossy(text, collation.charset());
    let mut rest = member_text(&converted, collation);
    if !rest.contains(&b',') {
        return Ok(None);
    }
    let (mut bits, mut whole) = (0, true);
    loop {
        let end = rest.iter().skip(PART_OF_SET).position(|b| *b == b',').map(|n| n + PART_OF_SET);
        let part = &rest[..end.unwrap_or(rest.len())];
        let (these, known) = set_bits(names, part, collation);
        (bits, whole) = (bits | these, whole && known);
        env.steps(names.len() * (1 + part.iter().filter(|b| **b == b',').count()))?;
        match end {
            Some(end) => rest = &rest[end + 1..],
            None => return Ok(Some((bits, whole))),
        }
    }
}

/// Converts the value of `e` for a column.
pub fn convert_given<'v>(
    value: Value<'v>,
    e: &Expr,
    column: &Column,
    env: &mut Env<'_>,
) -> Result<Value<'v>> {
    if is_error_of_enum(&value, e, column) {
        return Ok(value);
    }
    convert(value, column, env.charset_of(e), env.row, env)
}

/// True if an ENUM passes its error value to another ENUM, which takes it as it is, in strict mode
/// too: it comes as the number 0 (`Eval::stored`), and all other values as texts.
#[inline]
pub fn is_error_of_enum(value: &Value<'_>, e: &Expr, column: &Column) -> bool {
    matches!(value, Value::UInt(0))
        && e.ty.kind == Kind::Enum
        && matches!(column.ty, SqlType::Enum { .. })
}

/// A value that a column of the same type holds already. Only a TIMESTAMP is another value outside
/// its column: it is in the session's time zone.
pub fn kept<'v>(value: Value<'v>, column: &Column, env: &mut Env<'_>) -> Value<'v> {
    if !matches!(column.ty, SqlType::Timestamp { .. }) || value.is_null() {
        return value;
    }
    let zone_offset_secs = env.store_mode().zone_offset_secs;
    let mode = StoreMode { zone_offset_secs, ..StoreMode::LENIENT };
    let stored = convert_for_column(value, &column.ty, Charset::Utf8mb4, mode);
    stored.expect("the column has held the value").value
}

#[cold]
fn worded(e: &ConvertError, column: &Column, row: u64) -> SqlError {
    let name = &column.name;
    match e {
        ConvertError::OutOfRange => SqlError::out_of_range(name, row),
        ConvertError::TooLong => SqlError::data_too_long(name, row),
        ConvertError::Truncated | ConvertError::Rounded => SqlError::data_truncated(name, row),
        ConvertError::Incorrect { kind, value } => {
            SqlError::incorrect_value(kind, value, name, row)
        }
        ConvertError::IncorrectTemporal { kind, value } => {
            SqlError::incorrect_temporal(kind, value, name, row)
        }
        ConvertError::Json(error) => SqlError::json(error, name),
        ConvertError::BinaryJson => SqlError::json_charset("binary"),
    }
}

/// Handles NULL for a NOT NULL column: an error in strict mode, otherwise the type's zero and a
/// warning.
#[cold]
fn null_refused(column: &Column, env: &mut Env<'_>) -> Result<Value<'static>> {
    env.warn(SqlError::column_cannot_be_null(&column.name))?;
    Ok(zero(&column.ty))
}

/// The zero of a type. A NOT NULL column without a default gets it if no value is given.
pub fn zero(ty: &SqlType) -> Value<'static> {
    match ty {
        SqlType::Int { sign, .. } if sign.unsigned => Value::UInt(0),
        SqlType::Int { .. } => Value::Int(0),
        SqlType::Decimal { scale, .. } => {
            Value::Decimal(Decimal::ZERO.round(*scale).unwrap_or(Decimal::ZERO))
        }
        SqlType::Float { .. } => Value::Float(0.0),
        SqlType::Double { .. } => Value::Double(0.0),
        SqlType::Date => Value::Date(Date::ZERO),
        SqlType::Time { .. } => Value::Time(Time::ZERO),
        SqlType::DateTime { .. } | SqlType::Timestamp { .. } => Value::DateTime(DateTime::ZERO),
        SqlType::Year | SqlType::Bit { .. } | SqlType::Set { .. } => Value::UInt(0),
        // The zero of an ENUM is its first name.
        SqlType::Enum { .. } => Value::UInt(1),
        SqlType::Binary { len } => Value::owned(vec![0; *len as usize]),
        SqlType::Json => JsonRef::NULL.into(),
        _ => Value::bytes(b""),
    }
}

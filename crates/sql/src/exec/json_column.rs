//! The value of a JSON value in a column of JSON_TABLE, by MySQL's rules.
use crate::error::{Result, SqlError};
use redolith_types::json::{self, JsonRef, View};
use redolith_types::store::{StoreMode, convert_for_column};
use redolith_types::{Charset, Column, SqlType, Value};
use std::borrow::Cow;

/// Converts a value for a column, in the form that rows of tables have. What does not fit is an
/// error in each mode: only the column's ON ERROR decides what becomes of it.
pub(crate) fn json_for_column(
    value: JsonRef<'_>,
    column: &Column,
    mode: StoreMode,
) -> Result<Value<'static>> {
    if column.ty == SqlType::Json {
        return Ok(value.into());
    }
    let view = value.view()?;
    let name = &column.name;
    let scalar = match &view {
        View::Null => return Ok(Value::Null),
        View::Array(_) | View::Object(_) => return Err(SqlError::json_table_not_scalar(name)),
        view => match &column.ty {
            SqlType::Int { .. } | SqlType::Year | SqlType::Bit { .. } => {
                number(view, "INTEGER", name)?
            }
            SqlType::Decimal { .. } => number(view, "DECIMAL", name)?,
            SqlType::Float { .. } | SqlType::Double { .. } => number(view, "DOUBLE", name)?,
            SqlType::Date | SqlType::DateTime { .. } | SqlType::Timestamp { .. } => match view {
                View::Date(date) => Value::Date(*date),
                View::DateTime(moment) => Value::DateTime(*moment),
                view => text(view),
            },
            SqlType::Time { .. } => match view {
                View::Time(time) => Value::Time(*time),
                view => text(view),
            },
            _ => text(view),
        },
    };
    let mode = StoreMode { strict: true, ..mode };
    match convert_for_column(scalar, &column.ty, Charset::Utf8mb4, mode) {
        Ok(stored) => Ok(stored.value.into_owned()),
        Err(_) => Err(SqlError::json_table_out_of_range(name)),
    }
}

/// The text of a scalar, strings without quotes.
fn text<'a>(view: &View<'_>) -> Value<'a> {
    let mut text = Vec::new();
    json::print_unquoted(view, &mut text);
    Value::owned(text)
}

/// The number that a scalar is, or that its text is as a whole.
fn number<'a>(view: &View<'a>, target: &str, column: &str) -> Result<Value<'a>> {
    Ok(match view {
        View::Bool(truth) => Value::Int(i64::from(*truth)),
        View::Int(n) => Value::Int(*n),
        View::UInt(n) => Value::UInt(*n),
        View::Double(n) => {
            // As in MySQL, what is beyond the integers is wrong for every type of integer.
            if target == "INTEGER" && !(-TWO_63..TWO_63).contains(n) {
                return Err(SqlError::json_number_out_of_range(target, column));
            }
            Value::Double(*n)
        }
        View::Decimal(n) => Value::Decimal(*n),
        View::String(text) => {
            let digits = text.trim_start_matches([' ', '\t']);
            if target != "INTEGER" {
                if !is_number(digits) {
                    return Err(SqlError::json_cast(target, column));
                }
                return Ok(Value::Bytes(Cow::Borrowed(text.as_bytes())));
            }
            if !is_integer(digits) {
                return Err(SqlError::json_cast(target, column));
            }
            match (digits.parse(), digits.parse()) {
                (Ok(n), _) => Value::Int(n),
                (_, Ok(n)) => Value::UInt(n),
                _ => return Err(SqlError::json_number_out_of_range(target, column)),
            }
        }
        _ => return Err(SqlError::json_cast(target, column)),
    })
}

/// 2 to the power of 63.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

fn without_sign(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}
fn is_integer(text: &str) -> bool {
    let digits = without_sign(text).as_bytes();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
/// `[sign] digits [. digits] [e [sign] digits]`, with digits before or after the point.
fn is_number(text: &str) -> bool {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = without_sign(number).split_once('.').unwrap_or((number, ""));
    let whole = without_sign(whole);
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits(whole)
        && are_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(is_integer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::sql_type::{IntSize, Sign};
    use redolith_types::{Collation, Decimal};

    fn convert(text: &str, ty: SqlType) -> std::result::Result<Value<'static>, u16> {
        let document = json::parse(text.as_bytes()).and_then(|json| json.to_binary());
        let document = document.expect("JSON");
        let value = JsonRef::new(&document).expect("a value");
        let column = Column::new("c".to_string(), ty);
        json_for_column(value, &column, StoreMode::LENIENT).map_err(|error| error.code)
    }
    fn int(size: IntSize, unsigned: bool) -> SqlType {
        SqlType::Int { size, sign: Sign { unsigned, zerofill: false }, display: None }
    }

    #[test]
    fn integers() {
        let tiny = || int(IntSize::Tiny, false);
        assert_eq!(convert("127", tiny()), Ok(Value::Int(127)));
        assert_eq!(convert("128", tiny()), Err(3669));
        assert_eq!(convert("true", tiny()), Ok(Value::Int(1)));
        assert_eq!(convert("null", tiny()), Ok(Value::Null));
        assert_eq!(convert("\" -7\"", tiny()), Ok(Value::Int(-7)));
        for wrong in ["\"7 \"", "\"1.5\"", "\"\"", "\"-\"", "\"x\""] {
            assert_eq!(convert(wrong, tiny()), Err(3156), "{wrong}");
        }
        assert_eq!(convert("[1]", tiny()), Err(3666));
        assert_eq!(convert("\"99999999999999999999\"", tiny()), Err(3155));
        assert_eq!(convert("1e30", int(IntSize::Big, false)), Err(3155));
        assert_eq!(
            convert("18446744073709551615", int(IntSize::Big, true)),
            Ok(Value::UInt(u64::MAX))
        );
        assert_eq!(convert("-1", int(IntSize::Big, true)), Err(3669));
    }

    #[test]
    fn other_numbers() {
        let sign = Sign { unsigned: false, zerofill: false };
        let double = || SqlType::Double { digits: None, sign };
        assert_eq!(convert("\"1e2\"", double()), Ok(Value::Double(100.0)));
        assert_eq!(convert("\".5\"", double()), Ok(Value::Double(0.5)));
        for wrong in ["\"nan\"", "\"inf\"", "\".\"", "\"1e\"", "\"1x\"", "\"--1\""] {
            assert_eq!(convert(wrong, double()), Err(3156), "{wrong}");
        }
        let decimal = SqlType::Decimal { precision: 3, scale: 1, sign };
        let expected = Decimal::parse(b"12.5").expect("a decimal");
        assert_eq!(convert("\"12.5\"", decimal.clone()), Ok(Value::Decimal(expected)));
        assert_eq!(convert("1000", decimal), Err(3669));
    }

    #[test]
    fn strings() {
        let varchar = |chars| SqlType::VarChar { chars, collation: Collation::Utf8mb4GeneralCi };
        assert_eq!(convert("\"ab\"", varchar(2)), Ok(Value::owned(b"ab".to_vec())));
        assert_eq!(convert("\"abc\"", varchar(2)), Err(3669));
        assert_eq!(convert("true", varchar(4)), Ok(Value::owned(b"true".to_vec())));
        assert_eq!(convert("{}", varchar(4)), Err(3666));
        assert_eq!(convert("\"2020-02-30\"", SqlType::Date), Err(3669));
    }
}

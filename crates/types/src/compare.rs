//! Compares values of different kinds, by MySQL's rules. Two exact numbers compare exactly, and so
//! do an integer and a double (NUM-1); a number and any other value compare as doubles; temporal
//! values compare as moments, and so do a temporal value and a string if the string is a moment.
//!
//! NUM-1: No plan changes which integers equal a double. As doubles, integers beyond 2^53 equal
//! their neighbours, so one double would be several keys of an index.
use std::cmp::Ordering;

use crate::convert::{exact_number, to_f64};
use crate::temporal::{parse_datetime, parse_time};
use crate::{Collation, DateTime, Value};

pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>, collation: Collation) -> Ordering {
    use Value as V;
    match (a, b) {
        (V::Null, V::Null) => Ordering::Equal,
        (V::Null, _) => Ordering::Less,
        (_, V::Null) => Ordering::Greater,
        (V::Json(_), _) | (_, V::Json(_)) => crate::json::compare_values(a, b),
        (V::Int(a), V::Int(b)) => a.cmp(b),
        (V::UInt(a), V::UInt(b)) => a.cmp(b),
        (V::Int(a), V::UInt(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (V::UInt(a), V::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (V::Bytes(a), V::Bytes(b)) => collation.compare(a, b),
        (V::Date(a), V::Date(b)) => a.cmp(b),
        (V::Time(a), V::Time(b)) => a.cmp(b),
        (V::DateTime(a), V::DateTime(b)) => a.cmp(b),
        (V::Date(_) | V::DateTime(_), V::Date(_) | V::DateTime(_)) => moment(a).cmp(&moment(b)),
        (V::Date(_) | V::DateTime(_), V::Bytes(text)) => match parse_datetime(text, 0) {
            Some(parsed) => moment(a).cmp(&Some(parsed.value)),
            None => as_text(a, text, collation),
        },
        (V::Time(time), V::Bytes(text)) => match parse_time(text) {
            Some(parsed) => time.cmp(&parsed.value),
            None => as_text(a, text, collation),
        },
        (V::Bytes(_), V::Date(_) | V::DateTime(_) | V::Time(_)) => {
            compare(b, a, collation).reverse()
        }
        _ => match (exact_number(a), exact_number(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            // -0.0 equals 0.0.
            _ => integer_beside_double(a, b)
                .unwrap_or_else(|| (to_f64(a).value + 0.0).total_cmp(&(to_f64(b).value + 0.0))),
        },
    }
}

/// The order of an integer and a double that is a number (NUM-1). None for other kinds.
#[inline]
pub fn integer_beside_double(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    use Value as V;
    Some(match (a, b) {
        (V::Int(n), V::Double(x)) => beside((*n).into(), *n as f64, *x),
        (V::UInt(n), V::Double(x)) => beside((*n).into(), *n as f64, *x),
        (V::Int(n), V::Float(x)) => beside((*n).into(), *n as f64, (*x).into()),
        (V::UInt(n), V::Float(x)) => beside((*n).into(), *n as f64, (*x).into()),
        (V::Double(_) | V::Float(_), V::Int(_) | V::UInt(_)) => {
            integer_beside_double(b, a)?.reverse()
        }
        _ => return None,
    })
}
/// The order of `n` and `x`. `rounded` is the double next to `n`.
#[inline]
fn beside(n: i128, rounded: f64, x: f64) -> Ordering {
    match rounded.partial_cmp(&x) {
        // A double beyond 2^53 has no fraction.
        Some(Ordering::Equal) => n.cmp(&(x as i128)),
        Some(order) => order,
        None => rounded.total_cmp(&x),
    }
}

fn as_text(a: &Value<'_>, text: &[u8], collation: Collation) -> Ordering {
    let mut own = Vec::with_capacity(32);
    a.write_text(None, &mut own);
    collation.compare(&own, text)
}

fn moment(value: &Value<'_>) -> Option<DateTime> {
    match value {
        Value::Date(date) => Some(date.at(0)),
        Value::DateTime(at) => Some(*at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Date;

    #[test]
    fn kinds_meet_as_mysql_says() {
        let collation = Collation::Utf8mb4GeneralCi;
        let decimal = |text: &str| Value::Decimal(crate::Decimal::parse(text.as_bytes()).unwrap());
        let day = Value::Date(Date::new(2024, 1, 2).unwrap());
        let equal = [
            (Value::Int(1), decimal("1.00")),
            (Value::Double(-0.0), Value::Int(0)),
            (Value::Double(9007199254740992.0), Value::Int(9007199254740992)),
            (Value::Double(9223372036854775808.0), Value::UInt(1 << 63)),
            (Value::Float(-9223372036854775808.0), Value::Int(i64::MIN)),
            (Value::text("1.5x"), Value::Double(1.5)),
            (day.clone(), Value::text("2024-1-2")),
            (day.clone(), Value::Int(20240102)),
            (day.clone(), Value::DateTime(Date::new(2024, 1, 2).unwrap().at(0))),
            (Value::text("a "), Value::text("A")),
        ];
        for (a, b) in equal {
            assert_eq!(
                (compare(&a, &b, collation), compare(&b, &a, collation)),
                (Ordering::Equal, Ordering::Equal),
                "{a:?} {b:?}"
            );
        }
        let less = [
            (Value::Null, Value::Int(i64::MIN)),
            (Value::Int(-1), Value::UInt(u64::MAX)),
            (Value::Int(i64::MAX), Value::UInt(u64::MAX)),
            // These compare exactly. As doubles they would be equal.
            (decimal("9007199254740992.5"), Value::Int(9007199254740993)),
            (Value::Double(9007199254740992.0), Value::Int(9007199254740993)),
            (Value::Int(-9007199254740993), Value::Double(-9007199254740992.0)),
            (Value::Int(i64::MAX), Value::Double(9223372036854775808.0)),
            (Value::UInt(u64::MAX), Value::Float(18446744073709551616.0)),
            (Value::Double(9007199254740992.5), Value::UInt(9007199254740993)),
            (Value::Double(-1e300), Value::Int(i64::MIN)),
            (Value::Double(f64::MIN_POSITIVE), Value::Int(1)),
            (Value::Int(9), Value::text("10")),
            (day.clone(), Value::text("2024-01-02 00:00:01")),
        ];
        for (a, b) in less {
            assert_eq!(
                (compare(&a, &b, collation), compare(&b, &a, collation)),
                (Ordering::Less, Ordering::Greater),
                "{a:?} {b:?}"
            );
        }
    }
}

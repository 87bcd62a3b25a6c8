//! Values as other kinds, the way expressions convert them: never an error, but `truncated` tells that something was left out, which is a warning
//! (1292 "Truncated incorrect .. value") or, for out-of-range integers, clamping.
use crate::{Decimal, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted<T> {
    pub value: T,
    pub truncated: bool,
}

fn clean<T>(value: T) -> Converted<T> {
    Converted { value, truncated: false }
}

/// The number at the start of a text; 0 if there is none.
pub fn text_to_f64(text: &[u8]) -> Converted<f64> {
    let (_, used) = Decimal::parse_prefix(text);
    let number = text[..used].trim_ascii_start();
    let value = std::str::from_utf8(number).ok().and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    // Like strtod of MySQL, the greatest double stands for what is greater.
    let clamped = value.clamp(f64::MIN, f64::MAX);
    Converted { value: clamped, truncated: used == 0 || clamped != value || !text[used..].iter().all(u8::is_ascii_whitespace) }
}

/// NULL is 0: test for it first.
pub fn to_f64(value: &Value<'_>) -> Converted<f64> {
    let micros = |number: i64, us: u32| {
        let fraction = f64::from(us) / 1e6;
        clean(if number < 0 { number as f64 - fraction } else { number as f64 + fraction })
    };
    match value {
        Value::Null => clean(0.0),
        Value::Int(v) => clean(*v as f64),
        Value::UInt(v) => clean(*v as f64),
        Value::Float(v) => clean(f64::from(*v)),
        Value::Double(v) => clean(*v),
        Value::Decimal(v) => clean(v.to_f64()),
        Value::Bytes(v) => text_to_f64(v),
        Value::Date(v) => clean(v.to_number() as f64),
        Value::Time(v) => micros(v.to_number(), v.microseconds()),
        Value::DateTime(v) => micros(v.to_number(), v.microsecond()),
    }
}

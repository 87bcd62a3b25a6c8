//! JSON values as SQL values.
use super::binary::{JsonRef, View, scalar};
use crate::convert::{Converted, text_to_f64};
use crate::{Decimal, Value};

/// The number of a value where a number is wanted: numbers as they are, true and false as 1 and 0,
/// strings as the number at their start. `None` for null, arrays, objects and damaged values.
pub fn to_number(value: JsonRef<'_>) -> Option<Converted<Value<'static>>> {
    let view = value.view().ok()?;
    let clean = |value| Converted { value, truncated: false };
    Some(match view {
        View::String(text) => {
            let Converted { value, truncated } = text_to_f64(text.as_bytes());
            Converted { value: Value::Double(value), truncated }
        }
        View::Date(_) | View::Time(_) | View::DateTime(_) => {
            let number = scalar(&view).and_then(|v| crate::convert::exact_number(&v));
            clean(Value::Decimal(number.unwrap_or(Decimal::ZERO)))
        }
        view => clean(scalar(&view)?.into_owned()),
    })
}

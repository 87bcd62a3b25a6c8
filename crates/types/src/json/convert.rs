//! JSON values as SQL values, and SQL values as JSON values.
use super::binary::{JsonRef, View, scalar};
use super::{Json, compare, print, push_sort_key};
use crate::Value;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::Hasher;

/// The SQL value of a document. Null, arrays, objects and opaque values have none: they are an
/// empty string, which is no number and no moment.
pub fn as_scalar(document: &[u8]) -> Value<'_> {
    let view = JsonRef::new(document).and_then(JsonRef::view);
    view.ok().as_ref().and_then(scalar).unwrap_or_else(|| Value::bytes(b""))
}

/// A value as a JSON value: a string becomes a JSON string. Its bytes are UTF-8; what is not, is
/// replaced.
pub fn from_value<'v>(value: &'v Value<'_>) -> Json<'v> {
    match value {
        Value::Null => Json::Null,
        Value::Int(v) => Json::Int(*v),
        Value::UInt(v) => Json::UInt(*v),
        Value::Float(v) => Json::Double(f64::from(*v)),
        Value::Double(v) => Json::Double(*v),
        Value::Decimal(v) => Json::Decimal(*v),
        Value::Bytes(v) => Json::String(String::from_utf8_lossy(v)),
        Value::Date(v) => Json::Date(*v),
        Value::Time(v) => Json::Time(*v),
        Value::DateTime(v) => Json::DateTime(*v),
        Value::Json(v) => JsonRef::new(v).map_or(Json::Null, Json::Raw),
    }
}

fn document<'v>(value: &'v Value<'_>) -> Cow<'v, [u8]> {
    match value {
        Value::Json(document) => Cow::Borrowed(document),
        value => Cow::Owned(from_value(value).to_binary().unwrap_or_default()),
    }
}

/// Compares two values of which at least one is a JSON value. Damaged values compare as bytes.
pub(crate) fn compare_values(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    let (a, b) = (document(a), document(b));
    let both = JsonRef::new(&a).and_then(|a| compare(a, JsonRef::new(&b)?));
    both.unwrap_or_else(|_| a.cmp(&b))
}

/// Hashes so that equal values have equal hashes.
pub(crate) fn hash(document: &[u8], state: &mut impl Hasher) {
    let mut key = Vec::new();
    let pushed = JsonRef::new(document).and_then(|value| push_sort_key(value, &mut key));
    state.write(if pushed.is_ok() { &key } else { document });
}

/// Appends the text of a document. Of a damaged document it appends what stands before the damage:
/// who can report an error calls [`print`].
pub(crate) fn write_text(document: &[u8], out: &mut Vec<u8>) {
    let _ = JsonRef::new(document).and_then(|value| print(value, out));
}

/// Whether the value is true as a condition: MySQL compares it with the JSON number 0.
pub(crate) fn is_true(document: &[u8]) -> bool {
    let zero = Value::Int(0);
    compare_values(&Value::bytes_as_json(document), &zero).is_ne()
}

impl<'a> Value<'a> {
    /// A document in the binary form as a value.
    pub fn bytes_as_json(document: &'a [u8]) -> Value<'a> {
        Value::Json(Cow::Borrowed(document))
    }
    /// The JSON value of a document that is a value.
    pub fn as_json(&self) -> Option<JsonRef<'_>> {
        match self {
            Value::Json(document) => JsonRef::new(document).ok(),
            _ => None,
        }
    }
}

impl<'a> From<JsonRef<'a>> for Value<'static> {
    fn from(value: JsonRef<'a>) -> Value<'static> {
        Value::Json(Cow::Owned(value.to_vec()))
    }
}

impl View<'_> {
    /// The type's name as JSON_TYPE gives it.
    pub fn type_name(&self) -> &'static str {
        use super::binary::field;
        match self {
            View::Null => "NULL",
            View::Bool(_) => "BOOLEAN",
            View::Int(_) => "INTEGER",
            View::UInt(_) => "UNSIGNED INTEGER",
            View::Double(_) => "DOUBLE",
            View::Decimal(_) => "DECIMAL",
            View::String(_) => "STRING",
            View::Date(_) => "DATE",
            View::Time(_) => "TIME",
            View::DateTime(_) => "DATETIME",
            View::Array(_) => "ARRAY",
            View::Object(_) => "OBJECT",
            View::Opaque(field::BIT, _) => "BIT",
            View::Opaque(kind, _) if super::compare::is_blob(*kind) => "BLOB",
            View::Opaque(..) => "OPAQUE",
        }
    }
}

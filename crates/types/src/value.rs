//! A SQL value. Strings borrow from their row or packet; `into_owned` copies them. A value carries
//! no type: integers are `Int` or `UInt` (by the column's sign); strings and binary strings are
//! `Bytes` in the column's character set; ENUM, SET, BIT and YEAR are `UInt`; TIMESTAMP is a
//! `DateTime` in UTC. A JSON value has the binary form of [`crate::json`].
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use crate::number;
use crate::{Charset, Collation, Date, DateTime, Decimal, Time, json};

#[derive(Clone, Debug, Default)]
pub enum Value<'a> {
    #[default]
    Null,
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    Decimal(Decimal),
    Bytes(Cow<'a, [u8]>),
    Date(Date),
    Time(Time),
    DateTime(DateTime),
    Json(Cow<'a, [u8]>),
}

/// Values are moved through every operator, so they must be small.
const _: () = assert!(size_of::<Value<'static>>() <= 40);

/// Formats into a buffer on the stack. Output that does not fit is cut off.
pub(crate) fn write_to<'b>(buffer: &'b mut [u8], args: fmt::Arguments<'_>) -> &'b [u8] {
    let capacity = buffer.len();
    let mut rest = &mut buffer[..];
    let _ = std::io::Write::write_fmt(&mut rest, args);
    let used = capacity - rest.len();
    &buffer[..used]
}

impl<'a> Value<'a> {
    pub fn bytes(bytes: &'a [u8]) -> Value<'a> {
        Value::Bytes(Cow::Borrowed(bytes))
    }

    pub fn text(text: &'a str) -> Value<'a> {
        Value::bytes(text.as_bytes())
    }

    pub fn owned(bytes: Vec<u8>) -> Value<'static> {
        Value::Bytes(Cow::Owned(bytes))
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
    /// True for a double or float that is not a number. No column holds one, but a parameter may
    /// be one.
    pub fn is_nan(&self) -> bool {
        match self {
            Value::Double(x) => x.is_nan(),
            Value::Float(x) => x.is_nan(),
            _ => false,
        }
    }

    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Int(v) => Value::Int(v),
            Value::UInt(v) => Value::UInt(v),
            Value::Float(v) => Value::Float(v),
            Value::Double(v) => Value::Double(v),
            Value::Decimal(v) => Value::Decimal(v),
            Value::Bytes(v) => Value::Bytes(Cow::Owned(v.into_owned())),
            Value::Date(v) => Value::Date(v),
            Value::Time(v) => Value::Time(v),
            Value::DateTime(v) => Value::DateTime(v),
            Value::Json(v) => Value::Json(Cow::Owned(v.into_owned())),
        }
    }

    /// The same value, which borrows its bytes from this one.
    pub fn borrow(&self) -> Value<'_> {
        match self {
            Value::Bytes(bytes) => Value::bytes(bytes),
            Value::Null => Value::Null,
            Value::Int(v) => Value::Int(*v),
            Value::UInt(v) => Value::UInt(*v),
            Value::Float(v) => Value::Float(*v),
            Value::Double(v) => Value::Double(*v),
            Value::Decimal(v) => Value::Decimal(*v),
            Value::Date(v) => Value::Date(*v),
            Value::Time(v) => Value::Time(*v),
            Value::DateTime(v) => Value::DateTime(*v),
            Value::Json(v) => Value::Json(Cow::Borrowed(v)),
        }
    }

    /// Appends the value as MySQL prints it; NULL appends nothing. `fsp` is the number of digits of
    /// a fractional second; `None` means six if there is a fraction.
    pub fn write_text(&self, fsp: Option<u8>, out: &mut Vec<u8>) {
        let digits = |us: u32| fsp.unwrap_or(if us == 0 { 0 } else { 6 });
        match self {
            Value::Null => {}
            Value::Int(v) => {
                if *v < 0 {
                    out.push(b'-');
                }
                number::write_u64(v.unsigned_abs(), out);
            }
            Value::UInt(v) => number::write_u64(*v, out),
            Value::Float(v) => number::write_f32(*v, out),
            Value::Double(v) => number::write_f64(*v, out),
            Value::Decimal(v) => v.write_text(out),
            Value::Bytes(v) => out.extend_from_slice(v),
            Value::Date(v) => v.write_text(out),
            Value::Time(v) => v.write_text(digits(v.microseconds()), out),
            Value::DateTime(v) => v.write_text(digits(v.microsecond()), out),
            Value::Json(v) => json::write_text(v, out),
        }
    }

    /// The value's text for messages. A string's bytes are read as `charset`; those that are not
    /// valid there are written in hexadecimal, as in MySQL.
    pub fn shown(&self, charset: Charset) -> Shown<'_> {
        Shown { value: self, charset }
    }

    /// A total order for sorting, with MySQL's rules: NULL is first; a JSON value and another value
    /// compare as JSON values; strings compare by `collation`; numbers compare by value whatever
    /// their kinds; a number and a string compare as doubles; a temporal value and a string compare
    /// as moments, or as text if the string is not a moment.
    pub fn compare(&self, other: &Value<'_>, collation: Collation) -> Ordering {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => collation.compare(a, b),
            _ => crate::compare::compare(self, other, collation),
        }
    }

    /// Feeds a hasher so that values of one column which compare equal hash equal.
    pub fn hash(&self, collation: Collation, state: &mut impl Hasher) {
        match self {
            Value::Null => state.write_u8(0),
            Value::Int(v) => state.write_i64(*v),
            Value::UInt(v) => state.write_u64(*v),
            Value::Float(v) => state.write_u32((v + 0.0).to_bits()),
            Value::Double(v) => state.write_u64((v + 0.0).to_bits()),
            Value::Decimal(v) => v.hash(state),
            Value::Bytes(v) => collation.hash(v, state),
            Value::Date(v) => v.hash(state),
            Value::Time(v) => v.hash(state),
            Value::DateTime(v) => v.hash(state),
            Value::Json(v) => json::hash(v, state),
        }
    }
}

/// The value's text for messages, where its bytes are UTF-8 or of no known character set. It is not
/// a literal.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown(Charset::Binary).fmt(f)
    }
}

/// A value's text for messages ([`Value::shown`]).
pub struct Shown<'a> {
    value: &'a Value<'a>,
    charset: Charset,
}
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self.value {
            Value::Null => return f.write_str("NULL"),
            Value::Bytes(bytes) => bytes,
            value => return f.write_str(&String::from_utf8_lossy(&value.to_bytes())),
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let ascii = rest.iter().take_while(|b| b.is_ascii()).count();
            f.write_str(std::str::from_utf8(&rest[..ascii]).map_err(|_| fmt::Error)?)?;
            rest = &rest[ascii..];
            if rest.is_empty() {
                break;
            }
            let (c, len) = self.charset.decode(rest);
            match c {
                Some(c) => f.write_char(c)?,
                None => rest[..len].iter().try_for_each(|b| write!(f, "\\x{b:02X}"))?,
            }
            rest = &rest[len..];
        }
        Ok(())
    }
}

/// Equality of kind and bits, including NaN and zeros, as a codec must preserve them. SQL equality
/// is `compare`.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::UInt(a), Value::UInt(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
            (Value::Decimal(a), Value::Decimal(b)) => a == b && a.scale() == b.scale(),
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Date(a), Value::Date(b)) => a == b,
            (Value::Time(a), Value::Time(b)) => a == b,
            (Value::DateTime(a), Value::DateTime(b)) => a == b,
            (Value::Json(a), Value::Json(b)) => a == b,
            _ => false,
        }
    }
}

impl From<&str> for Value<'static> {
    fn from(text: &str) -> Value<'static> {
        Value::owned(text.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_a_text_in_its_character_set() {
        let shown = |bytes, charset| Value::bytes(bytes).shown(charset).to_string();
        assert_eq!(shown(b"a\xe9\x80", Charset::Latin1), "aé€");
        assert_eq!(shown(b"a\xe9b", Charset::Ascii), "a\\xE9b");
        assert_eq!(shown("é😀".as_bytes(), Charset::Utf8mb4), "é😀");
        assert_eq!(shown(b"\xc3\xa9\xe9x\xf0\x9f", Charset::Binary), "é\\xE9x\\xF0\\x9F");
        assert_eq!(shown(b"", Charset::Latin1), "");
        assert_eq!(Value::Null.to_string(), "NULL");
        assert_eq!(Value::bytes(b"1\xe9").to_string(), "1\\xE9");
        assert_eq!(Value::Double(1.5).shown(Charset::Latin1).to_string(), "1.5");
    }
}

//! Encodes values as sort keys for ORDER BY, GROUP BY and DISTINCT. The memcmp order of the keys is
//! the order of the values. NULL is the byte 0; other values are the byte 1 and these bytes:
//!
//! | type | bytes |
//! |---|---|
//! | integers | 0 negative / 1, then 8 bytes big-endian |
//! | DECIMAL | packed with 65 digits, with the decimals of the type |
//! | FLOAT, DOUBLE | big-endian bits, flipped |
//! | dates | packed, big-endian |
//! | strings | as in index keys |
//! | JSON | as in `redolith_types::json`; of damaged values, all of which are equal, the last byte |
//! | not known (a parameter) | 1 and a double, or 2 and a string |
use super::env::Env;
use super::eval::coerce;
use super::long_rows::LONG_ROW;
use crate::error::Result;
use crate::memory::Account;
use crate::plan::{ExprType, Kind};
use redolith_types::convert::to_f64;
use redolith_types::decimal::{MAX_PRECISION, MAX_SCALE, packed_len};
use redolith_types::json::push_sort_key;
use redolith_types::key::encode_string;
use redolith_types::{Collation, Decimal, Value};

/// No number, date or time has more bytes in a key.
const SHORT_VALUE: usize = 64;

/// Appends a value of an expression of type `ty`. A key whose bytes the statement's memory has no
/// room for is an error: a key may have one long value many times.
pub fn push(
    value: &Value<'_>,
    ty: &ExprType,
    collation: Collation,
    env: &mut Env<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let memory = &mut env.session.memory.statement;
    match value {
        Value::Bytes(text) => make_room(text.len() + text.len() / 8, out, memory)?,
        _ => make_room(0, out, memory)?,
    }
    push_value(value, ty, collation, env, out);
    // The weights of a text may be longer than its bytes.
    if out.len() > LONG_ROW { env.session.memory.statement.has_room(out.len()) } else { Ok(()) }
}
/// Lets a long key grow for `more` bytes if there is memory for the key's old and new place, both
/// of which exist while it moves.
#[inline]
fn make_room(more: usize, out: &mut Vec<u8>, memory: &mut Account) -> Result<()> {
    let wanted = out.len() + more.max(SHORT_VALUE);
    if wanted <= LONG_ROW.max(out.capacity()) {
        Ok(())
    } else {
        make_long_room(wanted, out, memory)
    }
}
#[cold]
fn make_long_room(wanted: usize, out: &mut Vec<u8>, memory: &mut Account) -> Result<()> {
    let old = out.capacity();
    let new = wanted.max(2 * old);
    memory.has_room(new + old)?;
    out.reserve_exact(new - out.len());
    Ok(())
}
fn push_value(
    value: &Value<'_>,
    ty: &ExprType,
    collation: Collation,
    env: &mut Env<'_>,
    out: &mut Vec<u8>,
) {
    if value.is_null() {
        out.push(0);
        return;
    }
    out.push(1);
    match (value, ty.kind) {
        (Value::Int(n), kind) if kind.is_integer() => push_integer(*n as i128, out),
        (Value::UInt(n), kind) if kind.is_integer() || matches!(kind, Kind::Enum | Kind::Set) => {
            push_integer(*n as i128, out)
        }
        (Value::Bytes(b), kind) if kind.is_string() => encode_string(collation, b, out),
        (Value::Json(_), Kind::Json | Kind::Null) => push_json(value, out),
        (Value::Double(x), Kind::Double) => push_double(*x, out),
        (Value::Bytes(b), Kind::Null) => {
            out.push(2);
            encode_string(collation, b, out);
        }
        (_, Kind::Null) => {
            out.push(1);
            push_double(to_f64(value).value, out);
        }
        _ => match coerce(value.borrow(), ty, env) {
            Value::Int(n) => push_integer(n as i128, out),
            Value::UInt(n) => push_integer(n as i128, out),
            Value::Decimal(d) => push_decimal(&d, ty.decimals.min(MAX_SCALE), out),
            Value::Float(x) => push_double(x as f64, out),
            Value::Double(x) => push_double(x, out),
            Value::Date(d) => out.extend_from_slice(&d.packed().to_be_bytes()),
            Value::DateTime(d) => out.extend_from_slice(&d.packed().to_be_bytes()),
            Value::Time(t) => out.extend_from_slice(&(t.us() as u64 ^ 1 << 63).to_be_bytes()),
            Value::Bytes(b) => encode_string(collation, &b, out),
            value @ Value::Json(_) => push_json(&value, out),
            Value::Null => *out.last_mut().expect("pushed above") = 0,
        },
    }
}

/// As [`push`], for ORDER BY. For DESC the bytes are inverted.
pub fn push_ordered(
    value: &Value<'_>,
    ty: &ExprType,
    collation: Collation,
    descending: bool,
    env: &mut Env<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    push(value, ty, collation, env, out)?;
    if descending {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
    Ok(())
}

fn push_json(value: &Value<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let pushed = value.as_json().map(|json| push_sort_key(json, out));
    if !matches!(pushed, Some(Ok(()))) {
        out.truncate(start);
        out.push(0xff);
    }
}
fn push_integer(n: i128, out: &mut Vec<u8>) {
    out.push((n >= 0) as u8);
    out.extend_from_slice(&(n as u64).to_be_bytes());
}
fn push_double(x: f64, out: &mut Vec<u8>) {
    // The addition turns -0 into 0.
    let bits = (x + 0.0).to_bits();
    let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
    out.extend_from_slice(&(bits ^ flip).to_be_bytes());
}
/// Packs with the type's scale, so that 65 digits hold every value of the type. An expression may
/// mix a long DECIMAL with one of many decimals; then a value with too many digits before the point
/// counts as the greatest value of the type.
fn push_decimal(d: &Decimal, scale: u8, out: &mut Vec<u8>) {
    let scaled = d
        .round(scale)
        .unwrap_or_else(|_| Decimal::max_value(MAX_PRECISION, scale, d.is_negative()));
    let start = out.len();
    out.resize(start + packed_len(MAX_PRECISION, scale), 0);
    scaled.pack(MAX_PRECISION, scale, &mut out[start..]);
}

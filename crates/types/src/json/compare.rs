//! MySQL's order of JSON values. Values of different types are ordered by their types, the greatest
//! first: BLOB, BIT, other bytes, DATETIME, TIME, DATE, BOOLEAN, ARRAY, OBJECT, STRING, numbers,
//! NULL.
use super::binary::{JsonRef, View, field};
use super::number::Digits;
use super::{JsonError, MAX_DEPTH, Result, key_order};
use std::cmp::Ordering;

fn rank(view: &View<'_>) -> u8 {
    match view {
        View::Null => 0,
        View::Int(_) | View::UInt(_) | View::Double(_) | View::Decimal(_) => 1,
        View::String(_) => 2,
        View::Object(_) => 3,
        View::Array(_) => 4,
        View::Bool(_) => 5,
        View::Date(_) => 6,
        View::Time(_) => 7,
        View::DateTime(_) => 8,
        View::Opaque(field::BIT, _) => 10,
        View::Opaque(kind, _) if is_blob(*kind) => 11,
        View::Opaque(..) => 9,
    }
}

/// Whether a value of this type of the protocol is a BLOB for JSON_TYPE.
pub(super) fn is_blob(kind: u8) -> bool {
    matches!(kind, field::VARCHAR | 249..=field::BLOB | field::VAR_STRING | field::STRING)
}

/// Compares two values. The order is total, and equal numbers of different kinds are equal.
pub fn compare(a: JsonRef<'_>, b: JsonRef<'_>) -> Result<Ordering> {
    compare_within(a, b, MAX_DEPTH)
}

fn compare_within(a: JsonRef<'_>, b: JsonRef<'_>, depth: usize) -> Result<Ordering> {
    let (a, b) = (a.view()?, b.view()?);
    Ok(match (&a, &b) {
        (View::Int(a), View::Int(b)) => a.cmp(b),
        (View::UInt(a), View::UInt(b)) => a.cmp(b),
        (View::Int(a), View::UInt(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (View::UInt(a), View::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (View::Double(a), View::Double(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
        (View::String(a), View::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (View::Bool(a), View::Bool(b)) => a.cmp(b),
        (View::Date(a), View::Date(b)) => a.cmp(b),
        (View::Time(a), View::Time(b)) => a.cmp(b),
        (View::DateTime(a), View::DateTime(b)) => a.cmp(b),
        (View::Opaque(_, x), View::Opaque(_, y)) if rank(&a) == rank(&b) => x.cmp(y),
        (View::Array(a), View::Array(b)) => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            for n in 0..a.len().min(b.len()) {
                let order = compare_within(a.value(n)?, b.value(n)?, depth)?;
                if order.is_ne() {
                    return Ok(order);
                }
            }
            a.len().cmp(&b.len())
        }
        (View::Object(a), View::Object(b)) => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            let order = a.len().cmp(&b.len());
            if order.is_ne() {
                return Ok(order);
            }
            for n in 0..a.len() {
                let order = key_order(a.key(n)?.as_bytes(), b.key(n)?.as_bytes());
                if order.is_ne() {
                    return Ok(order);
                }
                let order = compare_within(a.value(n)?, b.value(n)?, depth)?;
                if order.is_ne() {
                    return Ok(order);
                }
            }
            Ordering::Equal
        }
        _ => match (Digits::of(&a), Digits::of(&b)) {
            (Some(x), Some(y)) => {
                let (mut left, mut right) = (Vec::new(), Vec::new());
                x.push_key(&mut left);
                y.push_key(&mut right);
                left.cmp(&right)
            }
            _ => rank(&a).cmp(&rank(&b)),
        },
    })
}

/// Appends bytes whose order is the order of the values. No key is the start of another.
pub fn push_sort_key(value: JsonRef<'_>, out: &mut Vec<u8>) -> Result<()> {
    push_within(value, out, MAX_DEPTH)
}

/// Bytes in which a zero is followed by 0xff, and an end that is smaller than any byte.
fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for piece in bytes.split_inclusive(|b| *b == 0) {
        out.extend_from_slice(piece);
        if piece.last() == Some(&0) {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn push_within(value: JsonRef<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    let view = value.view()?;
    out.push(rank(&view));
    match &view {
        View::Null => {}
        View::Int(_) | View::UInt(_) | View::Double(_) | View::Decimal(_) => {
            Digits::of(&view).ok_or(JsonError::Damaged)?.push_key(out);
        }
        View::String(text) => push_bytes(text.as_bytes(), out),
        View::Bool(v) => out.push(u8::from(*v)),
        View::Date(v) => out.extend_from_slice(&v.packed().to_be_bytes()),
        View::Time(v) => out.extend_from_slice(&(v.us() as u64 ^ 1 << 63).to_be_bytes()),
        View::DateTime(v) => out.extend_from_slice(&v.packed().to_be_bytes()),
        View::Opaque(_, bytes) => push_bytes(bytes, out),
        View::Array(array) => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            for element in array.values() {
                out.push(1);
                push_within(element?, out, depth)?;
            }
            out.push(0);
        }
        View::Object(object) => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            out.extend_from_slice(&(object.len() as u32).to_be_bytes());
            for n in 0..object.len() {
                let key = object.key(n)?;
                out.extend_from_slice(&(key.len() as u16).to_be_bytes());
                out.extend_from_slice(key.as_bytes());
                push_within(object.value(n)?, out, depth)?;
            }
        }
    }
    Ok(())
}

//! Values become a row image.
use super::temporal::{put_datetime, put_time, put_timestamp};
use crate::column::{Column, Kind};
use crate::column_set::ColumnSet;
use redolith_types::decimal::packed_len;
use redolith_types::{Collation, Value};

/// Appends the image of the columns in `present`. `values` has one value per column of the table;
/// values of other columns are not looked at.
///
/// # Panics
///
/// If a value is not of its column's kind: a row of the engine has no such value.
pub(crate) fn put_image(
    out: &mut Vec<u8>,
    columns: &[Column],
    present: &ColumnSet,
    values: &[Value<'_>],
) {
    let nulls = out.len();
    out.resize(nulls + present.len().div_ceil(8), 0);
    for (i, column) in present.iter().enumerate() {
        match &values[column] {
            Value::Null => out[nulls + i / 8] |= 1 << (i % 8),
            value => put_value(out, &columns[column], value),
        }
    }
}

fn put_value(out: &mut Vec<u8>, column: &Column, value: &Value<'_>) {
    match (column.kind, value) {
        (Kind::Int(size), Value::Int(v)) => out.extend_from_slice(&v.to_le_bytes()[..size.bytes()]),
        (Kind::Int(size), Value::UInt(v)) => put_le(out, *v, size.bytes()),
        (Kind::Float, Value::Float(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (Kind::Double, Value::Double(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (Kind::Decimal { precision, scale }, Value::Decimal(v)) => {
            let at = out.len();
            out.resize(at + packed_len(precision, scale), 0);
            v.pack(precision, scale, &mut out[at..]);
        }
        (Kind::Bit { bits }, Value::UInt(v)) => {
            out.extend_from_slice(&v.to_be_bytes()[8 - usize::from(bits).div_ceil(8)..]);
        }
        (Kind::Year, Value::UInt(v)) => out.push(v.saturating_sub(1900) as u8),
        (Kind::Date, Value::Date(v)) => put_le(out, u64::from(v.packed()), 3),
        (Kind::Time { fsp }, Value::Time(v)) => put_time(out, *v, fsp),
        (Kind::DateTime { fsp }, Value::DateTime(v)) => put_datetime(out, *v, fsp),
        (Kind::Timestamp { fsp }, Value::DateTime(v)) => put_timestamp(out, *v, fsp),
        (Kind::Char { max_bytes }, Value::Bytes(v)) => {
            let v = without_padding(v, column.collation_id);
            put_le(out, v.len() as u64, len_bytes(max_bytes));
            out.extend_from_slice(v);
        }
        (Kind::VarChar { max_bytes }, Value::Bytes(v)) => {
            put_le(out, v.len() as u64, len_bytes(max_bytes));
            out.extend_from_slice(v);
        }
        (Kind::Blob { len_bytes }, Value::Bytes(v))
        | (Kind::Json { len_bytes }, Value::Json(v)) => {
            put_le(out, v.len() as u64, usize::from(len_bytes));
            out.extend_from_slice(v);
        }
        (Kind::Enum { bytes } | Kind::Set { bytes }, Value::UInt(v)) => {
            put_le(out, *v, usize::from(bytes));
        }
        (kind, value) => panic!("binlog: a column of {kind:?} has the value {value:?}"),
    }
}

fn put_le(out: &mut Vec<u8>, value: u64, len: usize) {
    out.extend_from_slice(&value.to_le_bytes()[..len]);
}

/// Bytes of the length of a string that has at most `max_bytes`.
pub(super) fn len_bytes(max_bytes: u16) -> usize {
    1 + usize::from(max_bytes > 0xff)
}

/// What pads a CHAR or a BINARY.
pub(super) fn padding(collation_id: u16) -> u8 {
    if collation_id == Collation::Binary.id() { 0 } else { b' ' }
}

fn without_padding(bytes: &[u8], collation_id: u16) -> &[u8] {
    let padding = padding(collation_id);
    let len = bytes.iter().rposition(|b| *b != padding).map_or(0, |last| last + 1);
    &bytes[..len]
}

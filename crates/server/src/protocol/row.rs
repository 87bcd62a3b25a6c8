//! Rows, encoded straight into the output buffer.
//!
//!     text row      per column: 0xfb for NULL, or the value as a length-encoded string
//!     binary row    0x00, NULL bitmap of (columns + 9) / 8 bytes with the bits shifted by 2, then the values that are not NULL, by the type of their column
use super::capabilities::field_type as t;
use super::lenenc::{NULL, put_bytes, put_with};
use super::packet::HEADER;
use super::temporal;
use crate::standin::{ColumnFlags, ColumnMeta, Value};
use std::io::Write;

/// What encoding a value needs to know of its column.
#[derive(Clone, Copy, Debug)]
pub struct RowColumn {
    pub field_type: u8,
    pub decimals: u8,
    pub zerofill_width: u8,
}

impl RowColumn {
    pub fn new(c: &ColumnMeta) -> RowColumn {
        let zerofill_width = if c.flags.0 & ColumnFlags::ZEROFILL != 0 { c.ty.length.min(255) as u8 } else { 0 };
        RowColumn { field_type: c.ty.field_type, decimals: c.ty.decimals, zerofill_width }
    }
}

/// Appends a value to a text row.
pub fn put_text(b: &mut Vec<u8>, column: &RowColumn, value: &Value<'_>) {
    match value {
        Value::Null => b.push(NULL),
        Value::Bytes(s) => put_bytes(b, s),
        other => put_with(b, |b| text(b, other, column)),
    }
}

fn text(b: &mut Vec<u8>, value: &Value<'_>, c: &RowColumn) {
    let width = c.zerofill_width as usize;
    // Writing to a Vec cannot fail.
    let _ = match value {
        Value::Int(n) => write!(b, "{n:0width$}"),
        Value::UInt(n) => write!(b, "{n:0width$}"),
        Value::Float(x) => write!(b, "{x}"),
        Value::Double(x) => write!(b, "{x}"),
        Value::Decimal(d) => write!(b, "{d}"),
        Value::Date(d) => write!(b, "{:04}-{:02}-{:02}", d.year, d.month, d.day),
        Value::Time(_) | Value::DateTime(_) => Ok(()),
        Value::Null | Value::Bytes(_) => Ok(()),
    };
}

/// Appends the head of a binary row.
pub fn begin_binary(b: &mut Vec<u8>, columns: usize) {
    b.push(0);
    b.resize(b.len() + (columns + 9) / 8, 0);
}

/// Appends the value of column `i` to the binary row in the packet that begins at `packet_at`.
pub fn put_binary(b: &mut Vec<u8>, packet_at: usize, i: usize, column: &RowColumn, value: &Value<'_>) {
    if let Value::Null = value {
        b[packet_at + HEADER + 1 + (i + 2) / 8] |= 1 << ((i + 2) % 8);
    } else {
        binary(b, value, column);
    }
}

fn binary(b: &mut Vec<u8>, value: &Value<'_>, c: &RowColumn) {
    match c.field_type {
        t::TINY => b.push(integer(value) as u8),
        t::SHORT | t::YEAR => b.extend_from_slice(&(integer(value) as u16).to_le_bytes()),
        t::LONG | t::INT24 => b.extend_from_slice(&(integer(value) as u32).to_le_bytes()),
        t::LONGLONG => b.extend_from_slice(&integer(value).to_le_bytes()),
        t::FLOAT => b.extend_from_slice(&(real(value) as f32).to_le_bytes()),
        t::DOUBLE => b.extend_from_slice(&real(value).to_le_bytes()),
        _ => match value {
            Value::Date(d) => temporal::put_date(b, *d),
            Value::Time(d) => temporal::put_time(b, *d),
            Value::DateTime(d) => temporal::put_date_time(b, *d),
            Value::Bytes(s) => put_bytes(b, s),
            other => put_with(b, |b| text(b, other, c)),
        },
    }
}

fn integer(value: &Value<'_>) -> u64 {
    match value {
        Value::Int(n) => *n as u64,
        Value::UInt(n) => *n,
        _ => 0,
    }
}
fn real(value: &Value<'_>) -> f64 {
    match value {
        Value::Double(x) => *x,
        Value::Float(x) => *x as f64,
        _ => 0.0,
    }
}

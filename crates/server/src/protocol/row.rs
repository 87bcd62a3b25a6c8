//! Rows, encoded straight into the output buffer.
//!
//! ```text
//! text row      per column: 0xfb for NULL, or the value as a length-encoded string
//! binary row    0x00, NULL bitmap of (columns + 9) / 8 bytes with the bits shifted by 2, then the
//!               values that are not NULL, by the type of their column
//! ```
use super::capabilities::field_type as t;
use super::lenenc::{NULL, put_bytes, put_with};
use super::packet::HEADER;
use super::{long_text, temporal};
use redolith_sql::plan::expr_type::NOT_FIXED_DECIMALS;
use redolith_sql::{ColumnFlags, ColumnMeta};
use redolith_types::number::write_fixed;
use redolith_types::{Charset, Collation, Value};
use std::io::Write;

/// The properties of a column that encoding its values needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowColumn {
    pub field_type: u8,
    pub decimals: u8,
    /// The digits that a ZEROFILL column shows, or the bits of a BIT column. 0 for other columns.
    pub width: u8,
    /// The character sets from which and to which strings are converted, if they are.
    pub convert: Option<(Charset, Charset)>,
}

impl RowColumn {
    /// `results` as in [`super::column::put`].
    pub fn new(c: &ColumnMeta, results: Option<Collation>) -> RowColumn {
        let field_type = c.ty.kind.field_type();
        let has_width = field_type == t::BIT || c.flags.0 & ColumnFlags::ZEROFILL != 0;
        let width = if has_width { c.ty.length.min(255) as u8 } else { 0 };
        let is_text = c.ty.kind.is_string() && c.ty.collation != Collation::Binary;
        let convert = results
            .map(|to| (c.ty.collation.charset(), to.charset()))
            .filter(|(from, to)| is_text && from != to && *to != Charset::Binary);
        RowColumn { field_type, decimals: c.ty.decimals, width, convert }
    }
}

#[inline]
fn put_string(b: &mut Vec<u8>, s: &[u8], c: &RowColumn) {
    match c.convert {
        // The character sets agree on ASCII, so ASCII needs no conversion.
        Some((from, to)) if !s.is_ascii() => {
            put_with(b, |b| long_text::put_converted(b, s, from, to));
        }
        _ => put_bytes(b, s),
    }
}

/// Appends a value to a text row.
#[inline]
pub fn put_text(b: &mut Vec<u8>, column: &RowColumn, value: &Value<'_>) {
    match value {
        Value::Null => b.push(NULL),
        Value::Bytes(s) => put_string(b, s, column),
        Value::Json(_) => put_with(b, |b| long_text::put_json(b, value, column)),
        other => put_with(b, |b| text(b, other, column)),
    }
}

fn text(b: &mut Vec<u8>, value: &Value<'_>, c: &RowColumn) {
    match (value, c.field_type) {
        (Value::UInt(n), t::BIT) => bits(b, *n, c.width),
        (Value::UInt(n), t::YEAR) => zero_filled(b, *n, 4),
        (Value::UInt(n), _) if c.width > 0 => zero_filled(b, *n, c.width),
        (Value::Float(_) | Value::Double(_), _) if c.width > 0 => put_zero_filled(b, value, c),
        (Value::Float(_) | Value::Double(_), _) => put_real(b, value, c),
        (Value::Date(d), t::DATETIME | t::TIMESTAMP) => d.at(0).write_text(c.decimals.min(6), b),
        (Value::DateTime(d), t::DATE) => d.date().write_text(b),
        (Value::Decimal(_), _) if c.width > 0 => put_zero_filled(b, value, c),
        _ => value.write_text(Some(c.decimals.min(6)), b),
    }
}

fn put_real(b: &mut Vec<u8>, value: &Value<'_>, c: &RowColumn) {
    if c.decimals < NOT_FIXED_DECIMALS {
        write_fixed(real(value), c.decimals, b);
    } else {
        value.write_text(None, b);
    }
}

/// Appends a number of a ZEROFILL column that is not an integer.
#[cold]
fn put_zero_filled(b: &mut Vec<u8>, value: &Value<'_>, c: &RowColumn) {
    let start = b.len();
    match value {
        Value::Float(_) | Value::Double(_) => put_real(b, value, c),
        _ => value.write_text(None, b),
    }
    let missing = usize::from(c.width).saturating_sub(b.len() - start);
    b.splice(start..start, std::iter::repeat_n(b'0', missing));
}

fn zero_filled(b: &mut Vec<u8>, n: u64, width: u8) {
    let _ = write!(b, "{n:0width$}", width = width as usize);
}

/// A BIT value is a binary string, the high byte first.
fn bits(b: &mut Vec<u8>, n: u64, width: u8) {
    let bytes = (width as usize).div_ceil(8).clamp(1, 8);
    b.extend_from_slice(&n.to_be_bytes()[8 - bytes..]);
}

/// The length of a binary row's head: a zero, and a bit for each value.
#[inline]
pub fn head_bytes(columns: usize) -> usize {
    1 + (columns + 9) / 8
}
/// Appends the head of a binary row.
#[inline]
pub fn begin_binary(b: &mut Vec<u8>, columns: usize) {
    b.resize(b.len() + head_bytes(columns), 0);
}

/// Appends the value of column `i` to the binary row in the packet that begins at `packet_at`.
#[inline]
pub fn put_binary(
    b: &mut Vec<u8>,
    packet_at: usize,
    i: usize,
    column: &RowColumn,
    value: &Value<'_>,
) {
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
        t::DATE | t::DATETIME | t::TIMESTAMP => match value {
            Value::Date(d) => temporal::put_date(b, *d),
            Value::DateTime(d) => temporal::put_date_time(b, *d),
            _ => temporal::put_date(b, redolith_types::Date::ZERO),
        },
        t::TIME => match value {
            Value::Time(d) => temporal::put_time(b, *d),
            Value::DateTime(d) => temporal::put_time(b, d.time()),
            _ => temporal::put_time(b, redolith_types::Time::ZERO),
        },
        _ => match value {
            Value::Bytes(s) => put_string(b, s, c),
            Value::Json(_) => put_with(b, |b| long_text::put_json(b, value, c)),
            other => put_with(b, |b| text(b, other, c)),
        },
    }
}

/// The bits of an integer column's value, sign-extended.
fn integer(value: &Value<'_>) -> u64 {
    match value {
        Value::Int(n) => *n as u64,
        Value::UInt(n) => *n,
        Value::Double(x) => x.round_ties_even() as i64 as u64,
        Value::Float(x) => x.round_ties_even() as i64 as u64,
        Value::Decimal(d) => d.to_i64().map(|n| n as u64).or(d.to_u64()).unwrap_or(0),
        _ => 0,
    }
}
fn real(value: &Value<'_>) -> f64 {
    match value {
        Value::Double(x) => *x,
        Value::Float(x) => *x as f64,
        Value::Int(n) => *n as f64,
        Value::UInt(n) => *n as f64,
        Value::Decimal(d) => d.to_f64(),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::{Date, DateTime, Decimal, Time};

    fn column(field_type: u8, decimals: u8, width: u8) -> RowColumn {
        RowColumn { field_type, decimals, width, convert: None }
    }
    fn text_of(value: Value<'_>, c: RowColumn) -> Vec<u8> {
        let mut b = Vec::new();
        put_text(&mut b, &c, &value);
        b
    }
    fn binary_row(values: &[(Value<'_>, RowColumn)]) -> Vec<u8> {
        let mut b = vec![0; HEADER];
        begin_binary(&mut b, values.len());
        for (i, (value, c)) in values.iter().enumerate() {
            put_binary(&mut b, 0, i, c, value);
        }
        b.split_off(HEADER)
    }

    #[test]
    fn text_of_every_kind() {
        let day = Date::new(2026, 11, 21).unwrap();
        let moment = DateTime::new(day, 1, 2, 3, 450_000).unwrap();
        for (value, c, expected) in [
            (Value::Int(-12), column(t::LONG, 0, 0), &b"-12"[..]),
            (Value::UInt(u64::MAX), column(t::LONGLONG, 0, 0), b"18446744073709551615"),
            (Value::UInt(42), column(t::LONG, 0, 5), b"00042"),
            (Value::UInt(7), column(t::YEAR, 0, 0), b"0007"),
            (Value::UInt(0x102), column(t::BIT, 0, 9), b"\x01\x02"),
            (Value::Double(0.1), column(t::DOUBLE, 31, 0), b"0.1"),
            (Value::Double(2.5), column(t::DOUBLE, 3, 0), b"2.500"),
            (Value::Float(1.5), column(t::FLOAT, 31, 12), b"0000000001.5"),
            (Value::Double(1.5), column(t::DOUBLE, 2, 8), b"00001.50"),
            (Value::Double(123456.5), column(t::DOUBLE, 2, 8), b"123456.50"),
            (
                Value::Decimal(Decimal::parse(b"-1.50").unwrap()),
                column(t::NEWDECIMAL, 2, 0),
                b"-1.50",
            ),
            (Value::Date(day), column(t::DATE, 0, 0), b"2026-11-21"),
            (Value::Date(day), column(t::DATETIME, 0, 0), b"2026-11-21 00:00:00"),
            (Value::DateTime(moment), column(t::DATETIME, 2, 0), b"2026-11-21 01:02:03.45"),
            (Value::DateTime(moment), column(t::TIMESTAMP, 0, 0), b"2026-11-21 01:02:03"),
            (
                Value::Time(Time::from_us(-3_661_000_001).unwrap()),
                column(t::TIME, 6, 0),
                b"-01:01:01.000001",
            ),
            (Value::text("abc"), column(t::VAR_STRING, 0, 0), b"abc"),
        ] {
            let b = text_of(value, c);
            assert_eq!((b[0] as usize, &b[1..]), (expected.len(), expected));
        }
        assert_eq!(text_of(Value::Null, column(t::LONG, 0, 0)), [0xfb]);
    }

    #[test]
    fn strings_are_converted_to_what_the_client_reads() {
        let c = RowColumn {
            convert: Some((Charset::Latin1, Charset::Utf8mb4)),
            ..column(t::VAR_STRING, 0, 0)
        };
        assert_eq!(text_of(Value::bytes(b"caf\xe9"), c), b"\x05caf\xc3\xa9");
        assert_eq!(text_of(Value::bytes(b"plain"), c), b"\x05plain");
    }

    #[test]
    fn binary_values_byte_by_byte() {
        let day = Date::new(2026, 11, 21).unwrap();
        let row = binary_row(&[
            (Value::Int(-1), column(t::TINY, 0, 0)),
            (Value::Null, column(t::LONG, 0, 0)),
            (Value::UInt(2026), column(t::YEAR, 0, 0)),
            (Value::Int(-2), column(t::INT24, 0, 0)),
            (Value::UInt(3), column(t::LONGLONG, 0, 0)),
            (Value::Float(1.5), column(t::FLOAT, 31, 0)),
            (Value::Null, column(t::DATE, 0, 0)),
            (Value::Date(day), column(t::DATE, 0, 0)),
            (Value::Decimal(Decimal::parse(b"1.5").unwrap()), column(t::NEWDECIMAL, 1, 0)),
            (Value::UInt(5), column(t::BIT, 0, 3)),
            (Value::text("xy"), column(t::STRING, 0, 0)),
        ]);
        let mut expected = vec![
            0,
            0b0000_1000,
            0b0000_0001,
            0xff,
            0xea,
            0x07,
            0xfe,
            0xff,
            0xff,
            0xff,
            3,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        expected.extend(1.5f32.to_le_bytes());
        expected.extend([4, 0xea, 7, 11, 21, 3, b'1', b'.', b'5', 1, 5, 2, b'x', b'y']);
        assert_eq!(row, expected);
    }
}

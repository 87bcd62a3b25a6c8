//! The text of a value, in MySQL's form: `{"a": 1, "b": [1, 2]}`, or with line ends.
use super::binary::{JsonRef, View};
use super::{JsonError, MAX_DEPTH, Meter, Result};
use crate::number::write_f64;
use crate::{Date, DateTime, Time, Value};

/// Appends the text of a value.
pub fn print(value: JsonRef<'_>, out: &mut Vec<u8>) -> Result<()> {
    print_metered(value, out, &mut |_, _| false)
}
/// Appends the text of a value. The meter hears of its bytes.
pub fn print_metered(value: JsonRef<'_>, out: &mut Vec<u8>, meter: Meter<'_>) -> Result<()> {
    let told = out.len();
    Printer { out, indent: None, depth: 0, meter, told }.value(value)
}

/// Appends the text of a value, a line for each element and member, as JSON_PRETTY gives it.
pub fn pretty(value: JsonRef<'_>, out: &mut Vec<u8>, meter: Meter<'_>) -> Result<()> {
    let told = out.len();
    Printer { out, indent: Some(2), depth: 0, meter, told }.value(value)
}

/// The bytes that [`quote`] appends.
pub fn quoted_len(text: &str) -> usize {
    let more = |byte: u8| match byte {
        b'"' | b'\\' | 8 | 12 | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(more).sum::<usize>()
}

/// Appends a string with its quotation marks and escapes.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => 0,
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[from..at]);
        from = at + 1;
        if short != 0 {
            out.extend_from_slice(&[b'\\', short]);
        } else {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out.extend_from_slice(&text.as_bytes()[from..]);
    out.push(b'"');
}

/// A double, which keeps a mark that it is one: 1.0, 1e20.
pub(super) fn write_double(value: f64, out: &mut Vec<u8>) {
    if value == 0.0 && value.is_sign_negative() {
        return out.extend_from_slice(b"-0.0");
    }
    let start = out.len();
    write_f64(value, out);
    if out[start..].iter().all(|b| b.is_ascii_digit() || *b == b'-') {
        out.extend_from_slice(b".0");
    }
}

/// The text of a moment, which has all six digits of the second's fraction.
pub(super) fn write_date(date: Date, out: &mut Vec<u8>) {
    date.write_text(out);
}
pub(super) fn write_time(time: Time, out: &mut Vec<u8>) {
    time.write_text(6, out);
}
pub(super) fn write_date_time(at: DateTime, out: &mut Vec<u8>) {
    at.write_text(6, out);
}

/// Appends `base64:type15:`, for a value of a type without a form in JSON, and the bytes in base
/// 64.
pub fn write_opaque(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.extend_from_slice(format!("base64:type{kind}:").as_bytes());
    out.reserve(bytes.len() / 3 * 4 + 4);
    for group in bytes.chunks(3) {
        let byte = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= group.len() { digit } else { b'=' });
        }
    }
}

/// Appends a scalar as JSON_UNQUOTE gives it: strings and moments without quotation marks. False
/// for arrays and objects.
pub fn print_unquoted(view: &View<'_>, out: &mut Vec<u8>) -> bool {
    match view {
        View::Null => out.extend_from_slice(b"null"),
        View::Bool(v) => out.extend_from_slice(if *v { b"true" } else { b"false" }),
        View::Int(v) => Value::Int(*v).write_text(None, out),
        View::UInt(v) => Value::UInt(*v).write_text(None, out),
        View::Double(v) => write_double(*v, out),
        View::Decimal(v) => v.write_text(out),
        View::String(v) => out.extend_from_slice(v.as_bytes()),
        View::Date(v) => write_date(*v, out),
        View::Time(v) => write_time(*v, out),
        View::DateTime(v) => write_date_time(*v, out),
        View::Opaque(kind, bytes) => write_opaque(*kind, bytes, out),
        View::Array(_) | View::Object(_) => return false,
    }
    true
}

/// The meter hears of the text piece by piece.
const PIECE: usize = 64 << 10;

struct Printer<'o, 'm> {
    out: &'o mut Vec<u8>,
    /// Spaces for each level, on lines.
    indent: Option<usize>,
    depth: usize,
    meter: Meter<'m>,
    /// The bytes of `out` that the meter has heard of.
    told: usize,
}

impl Printer<'_, '_> {
    fn value(&mut self, value: JsonRef<'_>) -> Result<()> {
        let more = self.out.len() - self.told;
        if more >= PIECE || self.depth == 0 {
            self.told = self.out.len();
            // One step for a value of some ten bytes.
            if (self.meter)(1 + more / 16, more) {
                return Err(JsonError::Stopped);
            }
        }
        let view = value.view()?;
        match &view {
            View::Array(container) | View::Object(container) => {
                let marks = if container.is_object() { b"{}" } else { b"[]" };
                if self.depth > MAX_DEPTH {
                    return Err(JsonError::TooDeep);
                }
                self.out.push(marks[0]);
                self.depth += 1;
                for n in 0..container.len() {
                    if n > 0 {
                        self.out.push(b',');
                    }
                    self.gap(n > 0);
                    if container.is_object() {
                        quote(container.key(n)?, self.out);
                        self.out.extend_from_slice(b": ");
                    }
                    self.value(container.value(n)?)?;
                }
                self.depth -= 1;
                if !container.is_empty() {
                    self.gap(false);
                }
                self.out.push(marks[1]);
            }
            View::String(text) => quote(text, self.out),
            View::Date(_) | View::Time(_) | View::DateTime(_) | View::Opaque(..) => {
                self.out.push(b'"');
                print_unquoted(&view, self.out);
                self.out.push(b'"');
            }
            scalar => {
                print_unquoted(scalar, self.out);
            }
        }
        Ok(())
    }
    /// What stands before an element: on one line a space, unless it is the first.
    fn gap(&mut self, between: bool) {
        match self.indent {
            Some(indent) => {
                self.out.push(b'\n');
                self.out.resize(self.out.len() + indent * self.depth, b' ');
            }
            None if between => self.out.push(b' '),
            None => {}
        }
    }
}

//! Writes rows as text, for INTO OUTFILE. LOAD DATA with the same clauses reads them back, unless
//! the clauses leave out what makes the text unambiguous (ESCAPED BY '').
use super::TextFormat;

/// How a column is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// The column has text, not numbers.
    pub is_text: bool,
    /// The bytes that a value has where nothing separates the fields.
    pub width: usize,
}

pub struct Writer {
    format: TextFormat,
    columns: Box<[Column]>,
    /// Fields have fixed widths.
    fixed: bool,
    /// The first byte of the quotes, or else of the field terminator.
    separator: Option<u8>,
    field: Option<u8>,
    /// Numbers may have the separator in them.
    escapes_numbers: bool,
    /// The next column of the row.
    next: usize,
}

impl Writer {
    pub fn new(mut format: TextFormat, columns: Box<[Column]>, has_long: bool) -> Writer {
        let fixed = format.is_fixed() && !has_long;
        if format.lines_terminated.is_empty() {
            format.lines_terminated.clone_from(&format.fields_terminated);
        }
        if format.fields_terminated.is_empty() {
            format.optionally = false;
        }
        let field = format.fields_terminated.first().copied();
        let separator = format.enclosed.or(field);
        let escapes_numbers = separator.is_some_and(|byte| b".0123456789e+-".contains(&byte));
        Writer { format, columns, fixed, separator, field, escapes_numbers, next: 0 }
    }

    /// The most bytes that a row takes whose fields have `lengths` bytes.
    pub fn most_bytes(&self, lengths: impl Iterator<Item = usize>) -> usize {
        const QUOTES: usize = 2;
        const NULL: usize = 4;
        let field = |(column, length): (&Column, usize)| {
            // Each byte may be escaped.
            let bytes = match self.fixed {
                true => column.width.max(2 * length.min(column.width)),
                false => NULL.max(2 * length),
            };
            bytes + QUOTES + self.format.fields_terminated.len()
        };
        let fields: usize = self.columns.iter().zip(lengths).map(field).sum();
        self.format.lines_starting.len() + fields + self.format.lines_terminated.len()
    }

    /// Appends the next field of a row; `None` is NULL.
    pub fn field(&mut self, value: Option<&[u8]>, out: &mut Vec<u8>) {
        if self.next == 0 {
            out.extend_from_slice(&self.format.lines_starting);
        } else {
            out.extend_from_slice(&self.format.fields_terminated);
        }
        let column = self.columns[self.next];
        self.next += 1;
        let start = out.len();
        let Some(value) = value else {
            match self.format.escaped {
                _ if self.fixed => {}
                Some(escape) => out.extend_from_slice(&[escape, b'N']),
                None => out.extend_from_slice(b"NULL"),
            }
            return self.pad(start, column, out);
        };
        let quote = self.format.enclosed.filter(|_| !self.format.optionally || column.is_text);
        let value = if self.fixed { &value[..value.len().min(column.width)] } else { value };
        out.extend(quote);
        match self.format.escaped {
            Some(escape) if column.is_text || self.escapes_numbers => {
                self.escape(value, escape, quote.is_some(), out)
            }
            _ => out.extend_from_slice(value),
        }
        self.pad(start, column, out);
        out.extend(quote);
    }
    fn pad(&self, start: usize, column: Column, out: &mut Vec<u8>) {
        if self.fixed {
            out.resize(out.len().max(start + column.width), b' ');
        }
    }

    fn escape(&self, value: &[u8], escape: u8, is_quoted: bool, out: &mut Vec<u8>) {
        // An escape before such a byte would make another character of it.
        let is_ambiguous = |byte: Option<u8>| byte.is_some_and(|b| b"ntrb0ZN".contains(&b));
        let (field, separator) = (is_ambiguous(self.field), is_ambiguous(self.separator));
        let line = self.format.lines_terminated.first().copied();
        for &byte in value {
            let is = |special: Option<u8>| special == Some(byte);
            let must = byte == escape
                || byte == 0
                || is(line)
                || is(if is_quoted { self.separator } else { self.field });
            if !must || !is_quoted && field && is(self.field) {
                out.push(byte);
                continue;
            }
            out.push(if separator && is(self.separator) { byte } else { escape });
            out.push(if byte == 0 { b'0' } else { byte });
        }
    }

    /// Ends a row.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.format.lines_terminated);
        self.next = 0;
    }
}

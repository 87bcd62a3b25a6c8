//! The values of literals.
//!
//! A number that does not fit BIGINT UNSIGNED is DECIMAL, as in MySQL. A string without escapes is
//! borrowed from the text.
use super::charsets::TextCharsets;
use super::lexer::{Token, TokenKind};
use crate::error::{Result, SqlError};
use redolith_types::{Decimal, Value};
use std::borrow::Cow;

/// The value of a literal token.
pub fn value<'t>(
    token: Token,
    text: &'t [u8],
    backslash_escapes: bool,
    charsets: TextCharsets,
) -> Result<Value<'t>> {
    let bytes = token.text(text);
    Ok(match token.kind {
        TokenKind::Integer => integer(bytes)?,
        TokenKind::Decimal => decimal(bytes)?,
        TokenKind::Float => {
            let number: f64 = std::str::from_utf8(bytes)
                .ok()
                .and_then(|s| s.parse().ok())
                .unwrap_or(f64::INFINITY);
            if !number.is_finite() {
                return Err(SqlError::new(
                    1367,
                    format!(
                        "Illegal double '{}' value found during parsing",
                        String::from_utf8_lossy(bytes)
                    ),
                ));
            }
            Value::Double(number)
        }
        kind if kind.is_string() => {
            Value::Bytes(charsets.literal(kind, string(bytes, backslash_escapes)))
        }
        TokenKind::Hex => Value::Bytes(Cow::Owned(hex(bytes))),
        TokenKind::Bits => Value::Bytes(Cow::Owned(bits(bytes))),
        other => unreachable!("{other:?} is not a literal"),
    })
}

fn integer(digits: &[u8]) -> Result<Value<'static>> {
    let mut number: u64 = 0;
    for &d in digits {
        match number.checked_mul(10).and_then(|n| n.checked_add(u64::from(d - b'0'))) {
            Some(n) => number = n,
            None => return decimal(digits),
        }
    }
    Ok(i64::try_from(number).map_or(Value::UInt(number), Value::Int))
}

fn decimal(bytes: &[u8]) -> Result<Value<'static>> {
    match Decimal::parse(bytes) {
        Some(d) => Ok(Value::Decimal(d)),
        None => {
            // The number has more than 65 digits. MySQL takes the largest DECIMAL with a warning.
            // Such a literal is a mistake, so this server returns an error.
            Err(SqlError::value_out_of_range("DECIMAL", String::from_utf8_lossy(bytes)))
        }
    }
}

/// The bytes of a quoted string, without the quotes, the escapes and a leading N.
pub fn string(quoted: &[u8], backslash_escapes: bool) -> Cow<'_, [u8]> {
    let quoted = if matches!(quoted[0], b'n' | b'N') { &quoted[1..] } else { quoted };
    let quote = quoted[0];
    let inner = &quoted[1..quoted.len() - 1];
    if !inner.iter().any(|&b| b == quote || (b == b'\\' && backslash_escapes)) {
        return Cow::Borrowed(inner);
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(b) = bytes.next() {
        if b == quote {
            bytes.next();
            out.push(quote);
        } else if b == b'\\' && backslash_escapes {
            match bytes.next() {
                Some(b'0') => out.push(0),
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'r') => out.push(b'\r'),
                Some(b'b') => out.push(8),
                Some(b'Z') => out.push(26),
                // These two stay escaped, because LIKE reads the escapes.
                Some(c @ (b'%' | b'_')) => out.extend([b'\\', c]),
                Some(c) => out.push(c),
                None => {}
            }
        } else {
            out.push(b);
        }
    }
    Cow::Owned(out)
}

/// A name without its back quotes (or double quotes).
pub fn unquote_name(quoted: &[u8]) -> Vec<u8> {
    let quote = quoted[0];
    let inner = &quoted[1..quoted.len() - 1];
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(b) = bytes.next() {
        if b == quote {
            bytes.next();
        }
        out.push(b);
    }
    out
}

/// 0x1f, 0x1 (one digit: 01) or x'1f'.
fn hex(bytes: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = bytes[2..]
        .iter()
        .filter(|b| b.is_ascii_hexdigit())
        .map(|b| (*b as char).to_digit(16).unwrap_or(0) as u8)
        .collect();
    let odd = digits.len() % 2;
    let mut out: Vec<u8> = digits[..odd].to_vec();
    out.extend(digits[odd..].chunks(2).map(|pair| pair[0] << 4 | pair[1]));
    out
}

/// 0b101 or b'101', big-endian in as few bytes as hold all digits.
fn bits(bytes: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> =
        bytes[2..].iter().filter(|b| matches!(b, b'0' | b'1')).map(|b| b - b'0').collect();
    let mut out = vec![0u8; digits.len().div_ceil(8)];
    for (i, bit) in digits.iter().rev().enumerate() {
        let byte = out.len() - 1 - i / 8;
        out[byte] |= bit << (i % 8);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::lexer::Lexer;
    use super::*;
    use crate::sql_mode::SqlMode;

    fn of(text: &str) -> Value<'_> {
        let token = Lexer::new(text.as_bytes(), SqlMode::default()).next_token();
        value(token, text.as_bytes(), true, TextCharsets::UTF8).unwrap()
    }
    fn bytes(text: &str) -> Vec<u8> {
        match of(text) {
            Value::Bytes(b) => b.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers() {
        assert!(matches!(of("42"), Value::Int(42)));
        assert!(matches!(of("9223372036854775808"), Value::UInt(9223372036854775808)));
        assert!(matches!(of("18446744073709551616"), Value::Decimal(_)));
        assert!(matches!(of("1.50"), Value::Decimal(d) if d.scale() == 2));
        assert!(matches!(of("1e3"), Value::Double(x) if x == 1000.0));
    }

    #[test]
    fn strings() {
        assert_eq!(bytes(r"'a\n\'b''c\%\q'"), b"a\n'b'c\\%q");
        assert_eq!(bytes("x'4142'"), b"AB");
        assert_eq!(bytes("0x141"), [1, 0x41]);
        assert_eq!(bytes("b'100000001'"), [1, 1]);
        assert!(matches!(string(b"'plain'", true), Cow::Borrowed(b"plain")));
        assert_eq!(unquote_name(b"`a``b`"), b"a`b");
    }
}

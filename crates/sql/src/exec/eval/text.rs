//! Functions that look into strings, and numbers written as strings.
use super::Eval;
use super::locale::NumberStyle;
use crate::bind::collation_mix::collation_of;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, ExprKind, Function, Kind};
use memchr::memmem;
use redolith_types::{Collation, Value};
use std::borrow::Cow;

/// `LENGTHS + n` marks a character of n bytes. UTF-8 has no such bytes, so no weight contains one.
const LENGTHS: u8 = 0xF8;

/// The weights of a text's characters in UTF-8. The number of bytes of the character precedes each
/// weight, because MySQL compares substrings of the same number of bytes: it does not find 'ß' in
/// 's', though the two are equal.
fn weights_with_lengths(collation: Collation, text: &[u8]) -> Vec<u8> {
    let charset = collation.charset();
    let weights = collation.weight_bytes(text);
    let mut out = Vec::with_capacity(2 * text.len());
    let (mut at, mut weight) = (0, 0);
    while at < text.len() && weight < weights.len() {
        let (bytes, next) =
            (charset.prefix_len(&text[at..], 1), charset.prefix_len(&weights[weight..], 1));
        out.push(LENGTHS + bytes.min(7) as u8);
        out.extend_from_slice(&weights[weight..weight + next]);
        (at, weight) = (at + bytes.max(1), weight + next.max(1));
    }
    out
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn text_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        match function {
            F::Locate => self.locate(function, &args[1], &args[0], args.get(2)),
            F::Instr => self.locate(function, &args[0], &args[1], None),
            F::FindInSet => self.find_in_set(&args[0], &args[1]),
            F::Strcmp => {
                let collation = self.meeting(function, &args[0], &args[1])?;
                let to = collation.charset();
                let (Some(a), Some(b)) =
                    (self.arg_met(&args[0], to, function)?, self.arg_met(&args[1], to, function)?)
                else {
                    return Ok(Value::Null);
                };
                Ok(Value::Int(collation.compare(&a, &b) as i64))
            }
            F::Ascii => Ok(self
                .arg_bytes(&args[0])?
                .map_or(Value::Null, |b| Value::Int(b.first().copied().unwrap_or(0) as i64))),
            F::Ord => {
                let charset = self.charset_of(&args[0]);
                Ok(self.arg_bytes(&args[0])?.map_or(Value::Null, |b| {
                    let len = charset.prefix_len(&b, 1);
                    Value::Int(b[..len].iter().fold(0, |n, b| n << 8 | *b as i64))
                }))
            }
            F::Char => {
                let mut out = Vec::new();
                for e in args {
                    if let Some(n) = self.arg_int(e)? {
                        let bytes = (n as u32).to_be_bytes();
                        let skip = bytes.iter().take(3).take_while(|b| **b == 0).count();
                        out.extend_from_slice(&bytes[skip..]);
                    }
                }
                Ok(Value::owned(out))
            }
            F::Hex => match self.hex_operand(&args[0])? {
                Value::Null => Ok(Value::Null),
                Value::Bytes(b) if b.len() > self.most_bytes() / 2 => self.too_long("hex"),
                Value::Bytes(b) => self.made(super::digest::hex(&b, true)),
                value if args[0].ty.kind.is_temporal() => {
                    self.made(super::digest::hex(&self.text_of(&args[0], &value), true))
                }
                value @ (Value::Int(_) | Value::UInt(_)) => {
                    let n = self.bit_operand(&value)?;
                    self.made(format!("{n:X}").into_bytes())
                }
                // Another number becomes a double first. All bits are set if 64 bits are too few.
                value => {
                    let double = self.double(&value)?.round();
                    let fits = double > i64::MIN as f64 && double < u64::MAX as f64;
                    let n = if fits { double as i128 as u64 } else { u64::MAX };
                    self.made(format!("{n:X}").into_bytes())
                }
            },
            F::Unhex => {
                let Some(text) = self.arg_bytes(&args[0])? else { return Ok(Value::Null) };
                Ok(unhex(&text).map_or(Value::Null, Value::owned))
            }
            // BIN(n) is CONV(n, 10, 2), OCT(n) is CONV(n, 10, 8).
            F::Bin => self.conv_digits(&args[0], 10, 2),
            F::Oct => self.conv_digits(&args[0], 10, 8),
            F::Conv => self.conv(args),
            F::Quote => {
                let to = self.charset_of(node);
                let Some(text) = self.arg_text(&args[0], to)? else {
                    return self.made(b"NULL".to_vec());
                };
                self.made(quote(&text))
            }
            F::Format => self.format_number(args),
            F::Charset => {
                let e = &args[0].ty;
                self.made(
                    if e.kind.is_string() { e.collation.charset().name() } else { "binary" }
                        .as_bytes()
                        .to_vec(),
                )
            }
            F::CollationOf => {
                let e = &args[0].ty;
                self.made(
                    if e.kind.is_string() { e.collation.name() } else { "binary" }
                        .as_bytes()
                        .to_vec(),
                )
            }
            _ => Ok(Value::Int(args[0].ty.coercibility as i64)),
        }
    }

    /// The operand of HEX(). HEX writes the bytes of strings, of the names of ENUM and SET, and of
    /// the text of JSON values.
    fn hex_operand(&mut self, e: &'v Expr) -> Result<Value<'v>> {
        if !e.ty.kind.is_string() {
            return self.number_or_text(e);
        }
        Ok(match self.eval(e)? {
            json @ Value::Json(_) => Value::owned(self.text_of(e, &json).into_owned()),
            value => value,
        })
    }

    /// The collation in which `function` compares two strings.
    fn meeting(&self, function: Function, a: &Expr, b: &Expr) -> Result<Collation> {
        match (a.ty.kind.is_string(), b.ty.kind.is_string()) {
            (true, true) => Ok(collation_of(&[&a.ty, &b.ty], function.name())?.0),
            (true, false) => Ok(a.ty.collation),
            (false, true) => Ok(b.ty.collation),
            (false, false) => Ok(self.env.settings.connection),
        }
    }

    fn locate(
        &mut self,
        function: Function,
        text: &'v Expr,
        part: &'v Expr,
        from: Option<&'v Expr>,
    ) -> Result<Value<'v>> {
        let collation = self.meeting(function, text, part)?;
        let to = collation.charset();
        let (Some(text), Some(part)) =
            (self.arg_met(text, to, function)?, self.arg_met(part, to, function)?)
        else {
            return Ok(Value::Null);
        };
        let skip = match from {
            None => 0,
            Some(e) => match self.arg_int(e)? {
                None => return Ok(Value::Null),
                Some(n) if n < 1 => return Ok(Value::Int(0)),
                Some(n) => n as usize - 1,
            },
        };
        if skip > to.char_count(&text) {
            return Ok(Value::Int(0));
        }
        let start = to.prefix_len(&text, skip);
        let text = &text[start..];
        self.weighs(text.len() + part.len())?;
        if to.is_utf8() && !(text.is_ascii() && part.is_ascii()) {
            let (text, part) =
                (weights_with_lengths(collation, text), weights_with_lengths(collation, &part));
            let position =
                |at: usize| skip + text[..at].iter().filter(|b| **b >= LENGTHS).count() + 1;
            return Ok(Value::Int(memmem::find(&text, &part).map_or(0, position) as i64));
        }
        let (text, part) = (collation.weight_bytes(text), collation.weight_bytes(&part));
        let position = |at: usize| skip + to.char_count(&text[..at]) + 1;
        Ok(Value::Int(memmem::find(&text, &part).map_or(0, position) as i64))
    }
    /// Counts and charges the weights of texts of so many bytes, and the lengths between them. The
    /// weights of a text are about as long as the text.
    fn weighs(&mut self, bytes: usize) -> Result<()> {
        self.env.bytes(bytes)?;
        if bytes >= LONG { self.env.charge(bytes.saturating_mul(3)) } else { Ok(()) }
    }
    fn find_in_set(&mut self, wanted: &'v Expr, list: &'v Expr) -> Result<Value<'v>> {
        let function = Function::FindInSet;
        let collation = self.meeting(function, wanted, list)?;
        let to = collation.charset();
        let (Some(wanted), Some(list)) =
            (self.arg_met(wanted, to, function)?, self.arg_met(list, to, function)?)
        else {
            return Ok(Value::Null);
        };
        if list.is_empty() {
            return Ok(Value::Int(0));
        }
        // Trailing spaces count, even if the collation ignores them.
        let spaces = |text: &[u8]| text.iter().rev().take_while(|b| **b == b' ').count();
        let wanted_spaces = spaces(&wanted);
        for (n, item) in list.split(|b| *b == b',').enumerate() {
            self.env.step()?;
            if spaces(item) == wanted_spaces {
                self.env.bytes(item.len() + wanted.len())?;
                if collation.equal(item, &wanted) {
                    return Ok(Value::Int(n as i64 + 1));
                }
            }
        }
        Ok(Value::Int(0))
    }

    /// CONV(n, from, to). A negative base means that the number is signed.
    fn conv(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let (Some(from), Some(to)) = (self.arg_int(&args[1])?, self.arg_int(&args[2])?) else {
            return Ok(Value::Null);
        };
        self.conv_digits(&args[0], from, to)
    }

    fn conv_digits(&mut self, number: &'v Expr, from: i64, to: i64) -> Result<Value<'v>> {
        let value = self.number(number)?;
        if value.is_null()
            || !(2..=36).contains(&from.unsigned_abs())
            || !(2..=36).contains(&to.unsigned_abs())
        {
            return Ok(Value::Null);
        }
        let is_bits = number.ty.kind == Kind::Bit || matches!(number.kind, ExprKind::Hex(_));
        let n = match value {
            // BIT and literals such as X'..' are numbers, and not the digits of one.
            Value::UInt(n) if is_bits => n,
            value => match self.text_of(number, &value) {
                text if text.is_empty() => return Ok(Value::Null),
                text => digits_as_number(&text, from),
            },
        };
        let signed = to < 0 && (n as i64) < 0;
        let mut rest = if signed { (n as i64).unsigned_abs() } else { n };
        let base = to.unsigned_abs();
        let mut out = Vec::new();
        loop {
            out.push(
                char::from_digit((rest % base) as u32, base as u32)
                    .unwrap_or('0')
                    .to_ascii_uppercase() as u8,
            );
            rest /= base;
            if rest == 0 {
                break;
            }
        }
        if signed {
            out.push(b'-');
        }
        out.reverse();
        self.made(out)
    }

    /// FORMAT(x, digits): 1,234,567.89.
    fn format_number(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let value = self.number(&args[0])?;
        let Some(places) = self.arg_int(&args[1])? else { return Ok(Value::Null) };
        if value.is_null() {
            return Ok(Value::Null);
        }
        let style = self.number_style(args.get(2))?;
        // MySQL takes the number of decimals as an int: only the low 32 bits count.
        let places = (places as i32).clamp(0, 30) as u8;
        let mut text = Vec::new();
        if !matches!(value, Value::Int(_) | Value::UInt(_) | Value::Decimal(_)) {
            let double = super::numeric::round_double(self.double(&value)?, places.into(), false);
            redolith_types::number::write_fixed(double, places, &mut text);
        } else {
            let number = self.decimal(&value)?;
            // A DECIMAL of 65 digits has no room for more decimals; zeros as text need none.
            let rounded = if places < number.scale() {
                number.round(places).unwrap_or(number)
            } else {
                number
            };
            rounded.write_text(&mut text);
            if rounded.scale() == 0 && places > 0 {
                text.push(b'.');
            }
            text.extend(std::iter::repeat_n(b'0', places.saturating_sub(rounded.scale()).into()));
        }
        let sign = usize::from(text.first() == Some(&b'-'));
        let point = text.iter().position(|b| *b == b'.').unwrap_or(text.len());
        let mut out = text[..sign].to_vec();
        for (n, b) in text[sign..point].iter().enumerate() {
            if n > 0 && style.separates(point - sign - n) {
                out.extend(style.separator);
            }
            out.push(*b);
        }
        if point < text.len() {
            out.push(style.point);
            out.extend_from_slice(&text[point + 1..]);
        }
        self.made(out)
    }

    /// The style of FORMAT's third argument. An unknown locale is warning 1649, and en_US.
    fn number_style(&mut self, locale: Option<&'v Expr>) -> Result<NumberStyle> {
        let Some(locale) = locale else { return Ok(NumberStyle::EN_US) };
        let value = self.eval(locale)?;
        let name = if value.is_null() { Cow::Borrowed(&b"NULL"[..]) } else { value.to_bytes() };
        if let Some(style) = NumberStyle::named(&name) {
            return Ok(style);
        }
        let name = String::from_utf8_lossy(&name).into_owned();
        self.env.warn(SqlError::new(1649, format!("Unknown locale: '{name}'")))?;
        Ok(NumberStyle::EN_US)
    }
}

/// The number at the start of a text in base `from`; 0 if there is none. If `from` is negative, the
/// number has a sign, and one that does not fit is the nearest that does. Otherwise a number that
/// does not fit has all bits set, whatever sign the text has.
fn digits_as_number(text: &[u8], from: i64) -> u64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let base = from.unsigned_abs();
    let n = digits
        .iter()
        .map_while(|b| char::from(*b).to_digit(base as u32))
        .try_fold(0u64, |n, digit| n.checked_mul(base)?.checked_add(digit.into()));
    match n {
        _ if from < 0 => {
            let n = n.map_or(i128::MAX, i128::from);
            (if negative { -n } else { n }).clamp(i64::MIN.into(), i64::MAX.into()) as u64
        }
        None => u64::MAX,
        Some(n) if negative => n.wrapping_neg(),
        Some(n) => n,
    }
}

/// Writes a string as a literal.
fn quote(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'\'');
    for b in text {
        match b {
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *b]),
            0 => out.extend_from_slice(b"\\0"),
            0x1a => out.extend_from_slice(b"\\Z"),
            b => out.push(*b),
        }
    }
    out.push(b'\'');
    out
}

/// Returns None if a character is not a hexadecimal digit.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let (odd, even) = text.split_at(text.len() % 2);
    let mut out = Vec::with_capacity(text.len().div_ceil(2));
    for b in odd {
        out.push(digit(*b)?);
    }
    for pair in even.chunks_exact(2) {
        out.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(out)
}

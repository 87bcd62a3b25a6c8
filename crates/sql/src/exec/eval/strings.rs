//! Functions that make strings from strings. Lengths and positions count characters.
use super::Eval;
use super::cast::cut;
use crate::error::Result;
use crate::exec::pace::LONG;
use crate::plan::{Expr, Function};
use memchr::memmem;
use redolith_types::{Charset, Value};
use std::borrow::Cow;

/// The byte offset of character `n` (from 0), at most the length of the text.
fn offset(charset: Charset, text: &[u8], n: usize) -> usize {
    charset.prefix_len(text, n)
}
/// A part of a string. The part is borrowed if the string is borrowed.
fn slice(text: Cow<'_, [u8]>, from: usize, to: usize) -> Value<'_> {
    match text {
        Cow::Borrowed(b) => Value::bytes(&b[from..to]),
        Cow::Owned(mut b) => {
            b.truncate(to);
            b.drain(..from);
            Value::owned(b)
        }
    }
}

impl<'v> Eval<'v, '_, '_> {
    /// Repeats `text`. Between the parts of a long result the statement looks whether it has been
    /// ended.
    fn repeat(&mut self, text: &[u8], times: usize) -> Result<Vec<u8>> {
        let len = text.len() * times;
        if len <= LONG {
            return Ok(text.repeat(times));
        }
        let part = text.repeat((LONG / text.len()).clamp(1, times));
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            let rest = &part[..part.len().min(len - out.len())];
            self.env.bytes(rest.len())?;
            out.extend_from_slice(rest);
        }
        Ok(out)
    }
    pub(super) fn string_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
        node: &'v Expr,
    ) -> Result<Value<'v>> {
        use Function as F;
        let (to, most) = (self.charset_of(node), self.most_bytes());
        match function {
            F::Concat => {
                let mut out = Vec::new();
                for e in args {
                    let Some(part) = self.arg_text(e, to)? else { return Ok(Value::Null) };
                    if out.len() + part.len() > most {
                        return self.too_long("concat");
                    }
                    out.extend_from_slice(&part);
                }
                return Ok(Value::owned(out));
            }
            F::ConcatWs => return self.concat_ws(args, to),
            F::Length => {
                return Ok(self
                    .arg_bytes(&args[0])?
                    .map_or(Value::Null, |b| Value::Int(b.len() as i64)));
            }
            F::BitLength => {
                return Ok(self
                    .arg_bytes(&args[0])?
                    .map_or(Value::Null, |b| Value::Int(b.len() as i64 * 8)));
            }
            F::CharLength => {
                let charset = self.charset_of(&args[0]);
                return Ok(self
                    .arg_bytes(&args[0])?
                    .map_or(Value::Null, |b| Value::Int(charset.char_count(&b) as i64)));
            }
            F::Space => {
                let Some(n) = self.arg_int(&args[0])? else { return Ok(Value::Null) };
                return if n > most as i64 {
                    self.too_long("space")
                } else {
                    Ok(Value::owned(vec![b' '; n.max(0) as usize]))
                };
            }
            _ => {}
        }
        let Some(text) = self.arg_met(&args[0], to, function)? else { return Ok(Value::Null) };
        Ok(match function {
            F::Lower | F::Upper => {
                // Binary strings have no case.
                if to == Charset::Binary {
                    return Ok(Value::Bytes(text));
                }
                Value::owned(change_case(&text, to, function == F::Upper))
            }
            F::Left => {
                let Some(n) = self.arg_int(&args[1])? else { return Ok(Value::Null) };
                let end = offset(to, &text, n.max(0) as usize);
                cut(Value::Bytes(text), end)
            }
            F::Right => {
                let Some(n) = self.arg_int(&args[1])? else { return Ok(Value::Null) };
                let skip = to.char_count(&text).saturating_sub(n.max(0) as usize);
                let (from, len) = (offset(to, &text, skip), text.len());
                slice(text, from, len)
            }
            F::Substring => {
                let Some(from) = self.arg_int(&args[1])? else { return Ok(Value::Null) };
                let count = match args.get(2) {
                    None => usize::MAX,
                    Some(e) => match self.arg_int(e)? {
                        None => return Ok(Value::Null),
                        Some(n) => n.max(0) as usize,
                    },
                };
                let chars = to.char_count(&text);
                let skip = match from {
                    0 => chars,
                    1.. => (from - 1) as usize,
                    _ if from.unsigned_abs() as usize <= chars => {
                        chars - from.unsigned_abs() as usize
                    }
                    _ => chars,
                };
                let begin = offset(to, &text, skip);
                let end = begin + offset(to, &text[begin..], count);
                slice(text, begin, end)
            }
            F::SubstringIndex => {
                let (Some(separator), Some(n)) =
                    (self.arg_text(&args[1], to)?, self.arg_int(&args[2])?)
                else {
                    return Ok(Value::Null);
                };
                let (from, end) = part_before(&text, &separator, n, to.is_utf8());
                slice(text, from, end)
            }
            F::Trim | F::TrimLeading | F::TrimTrailing => {
                let what = match args.get(1) {
                    None => Cow::Borrowed(&b" "[..]),
                    Some(e) => match self.arg_text(e, to)? {
                        None => return Ok(Value::Null),
                        Some(w) => w,
                    },
                };
                let (mut from, mut end) = (0, text.len());
                while !what.is_empty()
                    && function != F::TrimTrailing
                    && text[from..end].starts_with(&what)
                {
                    from += what.len();
                }
                while !what.is_empty()
                    && function != F::TrimLeading
                    && text[from..end].ends_with(&what)
                {
                    end -= what.len();
                }
                slice(text, from, end)
            }
            F::Reverse => {
                let mut out = Vec::with_capacity(text.len());
                let mut end = text.len();
                while end > 0 {
                    let mut from = end - 1;
                    while to.is_utf8() && from > 0 && text[from] & 0xc0 == 0x80 {
                        from -= 1;
                    }
                    out.extend_from_slice(&text[from..end]);
                    end = from;
                }
                Value::owned(out)
            }
            F::Repeat => {
                let Some(n) = self.arg_int(&args[1])? else { return Ok(Value::Null) };
                let n = n.max(0) as usize;
                if text.len().saturating_mul(n) > most {
                    return self.too_long("repeat");
                }
                Value::owned(self.repeat(&text, n)?)
            }
            F::Replace => {
                let (Some(from), Some(with)) =
                    (self.arg_met(&args[1], to, function)?, self.arg_met(&args[2], to, function)?)
                else {
                    return Ok(Value::Null);
                };
                if from.is_empty() {
                    return Ok(Value::Bytes(text));
                }
                let mut out = Vec::with_capacity(text.len());
                let mut rest = &text[..];
                while let Some(at) = memmem::find(rest, &from) {
                    self.env.step()?;
                    if out.len() + at + with.len() > most {
                        return self.too_long("replace");
                    }
                    out.extend_from_slice(&rest[..at]);
                    out.extend_from_slice(&with);
                    rest = &rest[at + from.len()..];
                }
                out.extend_from_slice(rest);
                Value::owned(out)
            }
            F::Insert => {
                let (Some(at), Some(len), Some(new)) = (
                    self.arg_int(&args[1])?,
                    self.arg_int(&args[2])?,
                    self.arg_text(&args[3], to)?,
                ) else {
                    return Ok(Value::Null);
                };
                let chars = to.char_count(&text) as i64;
                if at < 1 || at > chars {
                    return Ok(Value::Bytes(text));
                }
                let from = offset(to, &text, (at - 1) as usize);
                let len = if len < 0 { usize::MAX } else { len as usize };
                let end = from + offset(to, &text[from..], len);
                Value::owned([&text[..from], &new, &text[end..]].concat())
            }
            _ => return self.pad(function, text, args, to),
        })
    }

    /// CONCAT_WS leaves out arguments that are NULL.
    fn concat_ws(&mut self, args: &'v [Expr], to: Charset) -> Result<Value<'v>> {
        let Some(separator) = self.arg_text(&args[0], to)? else { return Ok(Value::Null) };
        let (mut out, mut first) = (Vec::new(), true);
        for e in &args[1..] {
            let Some(part) = self.arg_text(e, to)? else { continue };
            let between = if first { &[] } else { &separator[..] };
            if out.len() + between.len() + part.len() > self.most_bytes() {
                return self.too_long("concat_ws");
            }
            out.extend_from_slice(between);
            out.extend_from_slice(&part);
            first = false;
        }
        Ok(Value::owned(out))
    }

    fn pad(
        &mut self,
        function: Function,
        text: Cow<'v, [u8]>,
        args: &'v [Expr],
        to: Charset,
    ) -> Result<Value<'v>> {
        let left = function == Function::Lpad;
        let (Some(len), Some(with)) =
            (self.arg_int(&args[1])?, self.arg_met(&args[2], to, function)?)
        else {
            return Ok(Value::Null);
        };
        let Ok(len) = usize::try_from(len) else { return Ok(Value::Null) };
        let chars = to.char_count(&text);
        if len <= chars {
            let end = offset(to, &text, len);
            return Ok(cut(Value::Bytes(text), end));
        }
        if with.is_empty() {
            return Ok(Value::owned(Vec::new()));
        }
        let missing = len - chars;
        let per = to.char_count(&with).max(1);
        let padded = missing.saturating_mul(with.len()) / per;
        if padded.saturating_add(text.len()) > self.most_bytes() {
            return self.too_long(if left { "lpad" } else { "rpad" });
        }
        let mut padding = with.repeat(missing / per);
        padding.extend_from_slice(&with[..offset(to, &with, missing % per)]);
        Ok(Value::owned(if left {
            [&padding, &text[..]].concat()
        } else {
            [&text[..], &padding].concat()
        }))
    }
}

fn change_case(text: &[u8], charset: Charset, upper: bool) -> Vec<u8> {
    if text.is_ascii() {
        return if upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
    }
    if charset == Charset::Latin1 {
        return text.iter().map(|b| latin1_case(*b, upper)).collect();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (c, len) = charset.decode(&text[at..]);
        let mapped = c.and_then(|c| if upper { upper_case(c) } else { lower_case(c) });
        if !mapped.is_some_and(|c| charset.encode(c, &mut out)) {
            out.extend_from_slice(&text[at..at + len]);
        }
        at += len;
    }
    out
}

/// The case of a byte of latin1, whose table of MySQL has ASCII and the letters from À to Þ: 'š',
/// 'œ', 'ž' and 'ÿ' have no capitals.
fn latin1_case(byte: u8, upper: bool) -> u8 {
    match (byte, upper) {
        (0xf7 | 0xd7, _) => byte,
        (0xe0..=0xfe, true) => byte - 0x20,
        (0xc0..=0xde, false) => byte + 0x20,
        (_, true) => byte.to_ascii_uppercase(),
        (_, false) => byte.to_ascii_lowercase(),
    }
}

/// True if a letter has its other case since a Unicode of after 9, whose tables are the newest that
/// MySQL 8.0 has: Georgian, Medefaidrin, Vithkuqi and others.
fn is_newer(c: char) -> bool {
    matches!(
        u32::from(c),
        0x10d0..=0x10ff
            | 0x1c89..=0x1cbf
            | 0x2c2f
            | 0x2c5f
            | 0xa7b8..=0xa7f6
            | 0x10570..=0x105bc
            | 0x10d50..=0x10d85
            | 0x16e40..=0x16eff
    )
}

/// The capital of a letter if that is one character: 'ß' has none.
fn upper_case(c: char) -> Option<char> {
    let mut all = c.to_uppercase();
    let first = all.next().filter(|capital| !is_newer(c) && !is_newer(*capital))?;
    if all.next().is_none() {
        return Some(first);
    }
    // Greek letters with an iota below have two capitals: two characters, or one for titles, which
    // MySQL takes.
    match u32::from(c) {
        code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => char::from_u32(code + 8),
        code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => char::from_u32(code + 9),
        _ => None,
    }
}

/// The small letter of a capital: one character, unlike that of 'İ' in the full tables of Unicode.
fn lower_case(c: char) -> Option<char> {
    let small = if c == 'İ' { Some('i') } else { c.to_lowercase().next() };
    small.filter(|small| !is_newer(c) && !is_newer(*small))
}

/// SUBSTRING_INDEX: the range before the n-th separator or, if n is negative, behind the n-th
/// separator from the end. In a character set of several bytes (`multibyte`) MySQL finds the
/// separators from the left even then, which matters where they overlap: behind the last 'aa' of
/// 'aaa' is 'a' there.
fn part_before(text: &[u8], separator: &[u8], n: i64, multibyte: bool) -> (usize, usize) {
    if separator.is_empty() || n == 0 {
        return (0, 0);
    }
    let wanted = n.unsigned_abs();
    let mut seen = 0;
    if n < 0 && multibyte {
        let count = memmem::find_iter(text, separator).count() as u64;
        let before = count.checked_sub(wanted);
        let at = before.and_then(|n| memmem::find_iter(text, separator).nth(n as usize));
        return (at.map_or(0, |at| at + separator.len()), text.len());
    }
    if n > 0 {
        let mut at = 0;
        while let Some(found) = memmem::find(&text[at..], separator) {
            seen += 1;
            if seen == wanted {
                return (0, at + found);
            }
            at += found + separator.len();
        }
    } else {
        let mut end = text.len();
        while let Some(found) = memmem::rfind(&text[..end], separator) {
            seen += 1;
            if seen == wanted {
                return (found + separator.len(), text.len());
            }
            end = found;
        }
    }
    (0, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_those_of_mysql() {
        let change = |text: &str, upper| {
            String::from_utf8(change_case(text.as_bytes(), Charset::Utf8mb4, upper)).unwrap()
        };
        assert_eq!(change("İIıÀßΣ", false), "iiıàßσ");
        assert_eq!(change("iıàßſÿɐ", true), "IIÀßSŸⱯ");
        assert_eq!(change("ᾀᾗᾠᾳῃῳΐ", true), "ᾈᾟᾨᾼῌῼΐ");
        // Georgian has had capitals since Unicode 11.
        assert_eq!((change("აჰჽ", true), change("Აᲀ", false)), ("აჰჽ".into(), "Აᲀ".into()));
        assert_eq!((change("ꭰ", true), change("Ꭰ", false)), ("Ꭰ".into(), "ꭰ".into()));
        let latin1 = |bytes: &[u8], upper| change_case(bytes, Charset::Latin1, upper);
        assert_eq!(latin1(b"a\xff\x9a\xe9\xdf\xf7\xb5", true), b"A\xff\x9a\xc9\xdf\xf7\xb5");
        assert_eq!(latin1(b"A\x8a\xc9\xd7\x9f\xde", false), b"a\x8a\xe9\xd7\x9f\xfe");
    }

    #[test]
    fn overlapping_separators_are_counted_as_mysql_does() {
        let part = |text: &'static str, n, multibyte| {
            let (from, end) = part_before(text.as_bytes(), b"aa", n, multibyte);
            &text[from..end]
        };
        assert_eq!((part("aaa", -1, true), part("aaa", -1, false)), ("a", ""));
        assert_eq!([part("aaaa", -1, true), part("aaaaa", -2, true)], ["", "aaa"]);
        assert_eq!([part("aaaaa", -3, true), part("aaa", i64::MIN, true)], ["aaaaa", "aaa"]);
        assert_eq!([part("aaa", 1, true), part("aaaaa", 2, true)], ["", "aa"]);
    }
}

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
        let Some(text) = self.arg_text(&args[0], to)? else { return Ok(Value::Null) };
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
                let (from, end) = part_before(&text, &separator, n);
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
                    (self.arg_text(&args[1], to)?, self.arg_text(&args[2], to)?)
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
            _ => return self.pad(function == F::Lpad, text, args, to),
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
        left: bool,
        text: Cow<'v, [u8]>,
        args: &'v [Expr],
        to: Charset,
    ) -> Result<Value<'v>> {
        let (Some(len), Some(with)) = (self.arg_int(&args[1])?, self.arg_text(&args[2], to)?)
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
        if missing.saturating_mul(with.len()) / per + text.len() > self.most_bytes() {
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
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (c, len) = charset.decode(&text[at..]);
        // Only a mapping to one character is used ("ß" stays).
        let mapped = c.and_then(|c| {
            let mut all: Box<dyn Iterator<Item = char>> =
                if upper { Box::new(c.to_uppercase()) } else { Box::new(c.to_lowercase()) };
            let first = all.next();
            if all.next().is_some() { None } else { first }
        });
        if !mapped.is_some_and(|c| charset.encode(c, &mut out)) {
            out.extend_from_slice(&text[at..at + len]);
        }
        at += len;
    }
    out
}

/// SUBSTRING_INDEX: the range before the n-th separator or, if n is negative, behind the n-th
/// separator from the end.
fn part_before(text: &[u8], separator: &[u8], n: i64) -> (usize, usize) {
    if separator.is_empty() || n == 0 {
        return (0, 0);
    }
    let wanted = n.unsigned_abs();
    let mut seen = 0;
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

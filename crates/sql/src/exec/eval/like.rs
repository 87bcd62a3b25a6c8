//! LIKE: compares the collation weights of characters.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::plan::Expr;
use crate::sql_mode::SqlMode;
use memchr::memmem;
use redolith_types::{Charset, Collation, Value};

/// True if `text` matches `pattern`. `%` stands for any characters, `_` for one character; the
/// character after `escape` stands for itself. Trailing spaces count.
pub fn like(collation: Collation, escape: Option<char>, text: &[u8], pattern: &[u8]) -> bool {
    like_unless(collation, escape, text, pattern, &mut |_| Ok(())).unwrap_or(false)
}
/// Like [`like`], but now and then calls `stop` with the number of characters compared since the
/// last call. An error of `stop` ends the search.
pub(crate) fn like_unless(
    collation: Collation,
    escape: Option<char>,
    text: &[u8],
    pattern: &[u8],
    stop: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<bool> {
    let mut escape_bytes = Vec::new();
    if let Some(c) = escape {
        collation.charset().encode(c, &mut escape_bytes);
    }
    let matcher = Matcher { collation, escape: &escape_bytes };
    if text.len().saturating_mul(pattern.len()) <= FEW {
        let mut steps = 0;
        let found = matcher.matches(text, pattern, &mut steps);
        stop(steps)?;
        Ok(found)
    } else {
        matcher.by_parts(text, pattern, stop)
    }
}

/// The characters of a pattern before its first wildcard, without escapes: every match begins with
/// these characters or with characters that compare equal to them. At most about [`MOST_START`]
/// bytes are returned.
pub fn fixed_start(collation: Collation, escape: Option<char>, pattern: &[u8]) -> Vec<u8> {
    let mut escape_bytes = Vec::new();
    if let Some(c) = escape {
        collation.charset().encode(c, &mut escape_bytes);
    }
    let matcher = Matcher { collation, escape: &escape_bytes };
    let (mut rest, mut start) = (pattern, Vec::new());
    while start.len() < MOST_START {
        let is_escaped = matcher.is_escape(rest);
        let from = rest.len() - if is_escaped { escape_bytes.len() } else { 0 };
        match matcher.item(&mut rest) {
            Some(Item::Char(_)) => {
                start.extend_from_slice(&pattern[pattern.len() - from..pattern.len() - rest.len()]);
            }
            _ => break,
        }
    }
    start
}
/// Longer than any index key.
const MOST_START: usize = 4096;

/// The greatest number of comparisons for which [`Matcher::matches`] is used.
const FEW: usize = 1 << 16;
/// The number of comparisons between two calls of `stop`.
const STEPS: usize = 1 << 16;
/// The number of comparisons that take as long as a step of an evaluation (PACE-3).
const PER_STEP: usize = 4;

struct Matcher<'a> {
    collation: Collation,
    escape: &'a [u8],
}

/// One item of a pattern.
enum Item {
    /// `%`
    Many,
    /// `_`
    One,
    /// A character with this weight.
    Char(u32),
}

impl Matcher<'_> {
    /// The length of the first character, as [`Collation::char_weight`] has it: in the weights, and
    /// for it in utf8mb3 too, there are characters beyond U+FFFF.
    fn char_len(&self, text: &[u8]) -> usize {
        match self.collation.charset() {
            Charset::Utf8mb3 | Charset::Utf8mb4 => Charset::Utf8mb4.decode(text).1,
            _ => 1,
        }
    }
    /// Whether the pattern begins with an escape and the character that it escapes.
    #[inline]
    fn is_escape(&self, pattern: &[u8]) -> bool {
        !self.escape.is_empty()
            && pattern.len() > self.escape.len()
            && pattern.starts_with(self.escape)
    }
    /// Takes the item at the front of a pattern.
    #[inline]
    fn item(&self, pattern: &mut &[u8]) -> Option<Item> {
        let first = *pattern.first()?;
        if self.is_escape(pattern) {
            *pattern = &pattern[self.escape.len()..];
        } else if matches!(first, b'%' | b'_') {
            *pattern = &pattern[1..];
            return Some(if first == b'%' { Item::Many } else { Item::One });
        }
        let (weight, len) = self.collation.char_weight(pattern);
        *pattern = &pattern[len..];
        Some(Item::Char(weight))
    }

    /// Goes back to the last `%` when a later part does not match. The search neither recurses nor
    /// allocates, but the number of comparisons is the product of both lengths at worst.
    fn matches(&self, mut text: &[u8], mut pattern: &[u8], steps: &mut usize) -> bool {
        let mut retry: Option<(&[u8], &[u8])> = None;
        loop {
            *steps += 1;
            let mut rest = pattern;
            let taken = match self.item(&mut rest) {
                None if text.is_empty() => return true,
                Some(Item::Many) if rest.is_empty() => return true,
                Some(Item::Many) => {
                    retry = Some((text, rest));
                    Some(0)
                }
                _ if text.is_empty() => None,
                None => None,
                Some(Item::One) => Some(self.char_len(text)),
                Some(Item::Char(wanted)) => {
                    let (weight, len) = self.collation.char_weight(text);
                    (weight == wanted).then_some(len)
                }
            };
            if let Some(len) = taken {
                (text, pattern) = (&text[len..], rest);
                continue;
            }
            // Try again with one more character for the last %.
            match retry {
                Some((at, rest)) if !at.is_empty() => {
                    text = &at[self.char_len(at)..];
                    pattern = rest;
                    retry = Some((text, rest));
                }
                _ => return false,
            }
        }
    }

    /// Looks for the parts between the `%` one after the other, each at its first place in the
    /// rest of the text. The search for a part without `_` is linear.
    fn by_parts(
        &self,
        text: &[u8],
        mut pattern: &[u8],
        stop: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<bool> {
        let weights = self.collation.weight_bytes(text);
        let mut rest = &weights[..];
        let mut steps = 0;
        let mut is_first = true;
        loop {
            let part = self.part(pattern);
            let Some(after) = part.after else {
                // The last part must end where the text ends.
                let end = if is_first { Some(rest) } else { self.last_chars(rest, part.chars) };
                return Ok(end
                    .and_then(|end| self.begins(end, part.items, &mut steps))
                    .is_some_and(<[u8]>::is_empty));
            };
            steps += 1;
            let behind = if is_first {
                self.begins(rest, part.items, &mut steps)
            } else if part.items.is_empty() {
                Some(rest)
            } else {
                self.find(rest, &part, &mut steps, stop)?
            };
            let Some(behind) = behind else { return Ok(false) };
            (rest, pattern, is_first) = (behind, after, false);
            pause(&mut steps, stop)?;
        }
    }
    /// Splits a pattern at its first `%`.
    fn part<'p>(&self, pattern: &'p [u8]) -> Part<'p> {
        let (mut rest, mut chars, mut has_one) = (pattern, 0, false);
        loop {
            let len = pattern.len() - rest.len();
            match self.item(&mut rest) {
                None => return Part { items: pattern, chars, has_one, after: None },
                Some(Item::Many) => {
                    return Part { items: &pattern[..len], chars, has_one, after: Some(rest) };
                }
                Some(item) => {
                    chars += 1;
                    has_one |= matches!(item, Item::One);
                }
            }
        }
    }
    /// Finds the first place of a part. Returns the weight bytes behind that place.
    fn find<'t>(
        &self,
        mut text: &'t [u8],
        part: &Part<'_>,
        steps: &mut usize,
        stop: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<&'t [u8]>> {
        if !part.has_one {
            let wanted = self.literal(part.items);
            return Ok(memmem::find(text, &wanted).map(|at| &text[at + wanted.len()..]));
        }
        loop {
            if let Some(behind) = self.begins(text, part.items, steps) {
                return Ok(Some(behind));
            }
            if text.is_empty() {
                return Ok(None);
            }
            text = &text[self.char_len(text)..];
            pause(steps, stop)?;
        }
    }
    /// If the weight bytes begin with a part, returns the bytes behind the part.
    fn begins<'t>(
        &self,
        mut text: &'t [u8],
        mut items: &[u8],
        steps: &mut usize,
    ) -> Option<&'t [u8]> {
        while let Some(item) = self.item(&mut items) {
            *steps += 1;
            let len = if text.is_empty() { return None } else { self.char_len(text) };
            if let Item::Char(wanted) = item {
                let (mut bytes, is_utf8) = ([0; 4], self.collation.charset().is_utf8());
                if text[..len] != *weight_bytes(wanted, is_utf8, &mut bytes) {
                    return None;
                }
            }
            text = &text[len..];
        }
        Some(text)
    }
    /// The weight bytes of a part without `_`.
    fn literal(&self, mut items: &[u8]) -> Vec<u8> {
        let is_utf8 = self.collation.charset().is_utf8();
        let mut out = Vec::with_capacity(items.len());
        while let Some(item) = self.item(&mut items) {
            if let Item::Char(weight) = item {
                out.extend_from_slice(weight_bytes(weight, is_utf8, &mut [0; 4]));
            }
        }
        out
    }
    /// The last `chars` characters of the weight bytes. None if there are fewer characters.
    fn last_chars<'t>(&self, text: &'t [u8], chars: usize) -> Option<&'t [u8]> {
        let is_utf8 = self.collation.charset().is_utf8();
        let mut start = text.len();
        for _ in 0..chars {
            start = start.checked_sub(1)?;
            while is_utf8 && start > 0 && text[start] & 0xc0 == 0x80 {
                start -= 1;
            }
        }
        Some(&text[start..])
    }
}

/// The part of a pattern before a `%` or before its end.
struct Part<'p> {
    items: &'p [u8],
    chars: usize,
    has_one: bool,
    /// The pattern after the `%`; None for the last part.
    after: Option<&'p [u8]>,
}

/// Writes one weight as [`Collation::weight_bytes`] writes it.
fn weight_bytes(weight: u32, is_utf8: bool, out: &mut [u8; 4]) -> &[u8] {
    match char::from_u32(weight).filter(|_| is_utf8) {
        Some(c) => c.encode_utf8(out).as_bytes(),
        None => {
            out[0] = weight as u8;
            &out[..1]
        }
    }
}

/// The escape character that a text in UTF-8 means, if it means one.
pub(crate) fn one_escape(text: &[u8], mode: SqlMode) -> Result<Option<char>> {
    let text = String::from_utf8_lossy(text);
    let mut chars = text.chars();
    let escape = chars.next();
    // Where a backslash is no escape in literals, MySQL wants another one.
    if chars.next().is_some() || escape.is_none() && mode.has(SqlMode::NO_BACKSLASH_ESCAPES) {
        return Err(SqlError::wrong_arguments("ESCAPE"));
    }
    Ok(escape)
}

/// A pattern with the escape character `\` in the place of another one.
fn with_backslashes(charset: Charset, escape: Option<char>, pattern: &[u8]) -> Vec<u8> {
    let mut escape_bytes = Vec::new();
    if let Some(c) = escape {
        charset.encode(c, &mut escape_bytes);
    }
    let (mut out, mut rest) = (Vec::with_capacity(pattern.len()), pattern);
    while let Some(first) = rest.first() {
        let is_escape = !escape_bytes.is_empty()
            && rest.len() > escape_bytes.len()
            && rest.starts_with(&escape_bytes);
        if is_escape {
            rest = &rest[escape_bytes.len()..];
        }
        // Outside an escape, a backslash stands for itself.
        if is_escape || *first == b'\\' {
            out.push(b'\\');
        }
        let (char, after) = rest.split_at(charset.prefix_len(rest, 1).max(1));
        out.extend_from_slice(char);
        rest = after;
    }
    out
}

fn pause(steps: &mut usize, stop: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
    if *steps < STEPS {
        return Ok(());
    }
    stop(std::mem::take(steps))
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn like(
        &mut self,
        collation: Collation,
        escape: Option<char>,
        sides: &'v [Expr; 2],
    ) -> Result<Option<bool>> {
        let (text, pattern) = (self.eval(&sides[0])?, self.eval(&sides[1])?);
        if text.is_null() || pattern.is_null() {
            return Ok(None);
        }
        let (collation, text, pattern) =
            self.strings(collation, (&sides[0], &text), (&sides[1], &pattern));
        let stop = &mut |compared| self.env.steps(compared / PER_STEP);
        like_unless(collation, escape, &text, &pattern, stop).map(Some)
    }

    /// The pattern of `LIKE pattern ESCAPE escape`, for an escape of `\`. As in MySQL, NULL stands
    /// for that, too.
    pub(super) fn like_pattern(&mut self, args: &'v [Expr], node: &'v Expr) -> Result<Value<'v>> {
        let charset = self.charset_of(node);
        let Some(pattern) = self.arg_text(&args[0], charset)? else { return Ok(Value::Null) };
        let escape = match self.arg_text(&args[1], Charset::Utf8mb4)? {
            Some(text) => one_escape(&text, self.env.settings.sql_mode)?,
            None => Some('\\'),
        };
        self.env.bytes(pattern.len())?;
        Ok(Value::owned(with_backslashes(charset, escape, &pattern)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All words over a small alphabet.
    fn words(alphabet: &[&str], longest: u32) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..longest {
            let to = all.len();
            for n in from..to {
                all.extend(
                    alphabet.iter().map(|letter| format!("{}{letter}", all[n])).collect::<Vec<_>>(),
                );
            }
            from = to;
        }
        all
    }

    #[test]
    fn by_parts_as_by_going_back() {
        let go_on: &mut dyn FnMut(usize) -> Result<()> = &mut |_| Ok(());
        for collation in
            [Collation::Utf8mb4GeneralCi, Collation::Utf8mb4Bin, Collation::Latin1SwedishCi]
        {
            for escape in [&b""[..], b"|"] {
                let matcher = Matcher { collation, escape };
                let texts = words(&["a", "Aé", "%"], 4);
                for pattern in words(&["a", "é", "_", "%", "|"], 4) {
                    for text in &texts {
                        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
                        assert_eq!(
                            matcher.by_parts(text, pattern, go_on).unwrap(),
                            matcher.matches(text, pattern, &mut 0),
                            "{text:?} {pattern:?}"
                        );
                    }
                }
            }
        }
    }

    /// Bytes that are no characters of the collation's set come in literals and parameters.
    #[test]
    fn bytes_that_are_no_text_match_in_both_ways() {
        let go_on: &mut dyn FnMut(usize) -> Result<()> = &mut |_| Ok(());
        let texts: &[&[u8]] = &[
            "\u{1f600}".as_bytes(),
            "a\u{1f600}b".as_bytes(),
            b"\xff",
            b"\x80",
            b"\x80\x80a",
            b"a\xf0\x9f\x98",
            b"\xe6\x9d\xff\x80",
        ];
        let mut patterns = words(&["_", "%", "a"], 5);
        patterns.extend(["\u{1f600}%", "_%b", "%\u{1f600}_"].map(String::from));
        for collation in Collation::ALL {
            let matcher = Matcher { collation, escape: b"\\" };
            for text in texts {
                let of_one = patterns.iter().map(String::as_bytes).chain(texts.iter().copied());
                for pattern in of_one {
                    assert_eq!(
                        matcher.by_parts(text, pattern, go_on).unwrap(),
                        matcher.matches(text, pattern, &mut 0),
                        "{collation:?} {text:x?} {pattern:x?}"
                    );
                }
                let long = [b"_%", "a".repeat(70_000).as_bytes()].concat();
                assert!(!like(collation, None, text, &long));
            }
        }
    }

    #[test]
    fn another_escape_becomes_a_backslash() {
        let collation = Collation::Utf8mb4Bin;
        let texts = words(&["a", "é", "%", "\\"], 3);
        for escape in [None, Some('|'), Some('é'), Some('\\'), Some('%')] {
            for pattern in words(&["a", "é", "%", "|", "\\"], 4) {
                let written = with_backslashes(Charset::Utf8mb4, escape, pattern.as_bytes());
                for text in &texts {
                    let text = text.as_bytes();
                    assert_eq!(
                        like(collation, Some('\\'), text, &written),
                        like(collation, escape, text, pattern.as_bytes()),
                        "{text:?} {pattern:?} {escape:?}"
                    );
                }
            }
        }
    }

    /// [`Matcher::matches`] would take days for these patterns.
    #[test]
    fn long_patterns_are_looked_for_once() {
        let (text, part) = ("a".repeat(1 << 20), "A".repeat(1 << 19));
        let check = |pattern: String| {
            like(Collation::Utf8mb4GeneralCi, Some('\\'), text.as_bytes(), pattern.as_bytes())
        };
        assert!(
            !check(format!("%{part}b"))
                && !check(format!("%{part}b%"))
                && !check(format!("%{part}%{part}a%"))
        );
        assert!(check(format!("%{part}%{part}")) && check(format!("{part}_%")));
    }

    #[test]
    fn comparisons_of_short_texts_are_counted() {
        let (text, pattern) = ("a".repeat(2000), format!("%{}b%", "a".repeat(28)));
        assert!(text.len() * pattern.len() <= FEW);
        let mut compared = 0;
        let found = like_unless(
            Collation::Utf8mb4GeneralCi,
            None,
            text.as_bytes(),
            pattern.as_bytes(),
            &mut |steps| {
                compared += steps;
                Ok(())
            },
        );
        assert!(!found.unwrap() && compared > 50_000, "{compared}");
    }

    #[test]
    fn a_long_search_can_be_stopped() {
        let mut asked = 0;
        let mut stop = |_| {
            asked += 1;
            Err(SqlError::interrupted())
        };
        let (text, pattern) = ("a".repeat(1 << 16), format!("%{}_b%", "a".repeat(1 << 15)));
        let stopped =
            like_unless(Collation::Latin1Bin, None, text.as_bytes(), pattern.as_bytes(), &mut stop);
        assert_eq!((stopped.unwrap_err().code, asked), (1317, 1));
    }
}

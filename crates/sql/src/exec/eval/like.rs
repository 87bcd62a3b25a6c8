//! LIKE by collation weights, and REGEXP.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::plan::Expr;
use redolith_types::{Charset, Collation};
use regex::bytes::{Regex, RegexBuilder};

/// Whether `text` matches `pattern`: `%` any characters, `_` one, `escape` takes the next character as it is. Trailing spaces count.
pub fn like(collation: Collation, escape: Option<char>, text: &[u8], pattern: &[u8]) -> bool {
    let mut escape_bytes = Vec::new();
    if let Some(c) = escape {
        collation.charset().encode(c, &mut escape_bytes);
    }
    Matcher { collation, escape: &escape_bytes }.matches(text, pattern)
}

struct Matcher<'a> {
    collation: Collation,
    escape: &'a [u8],
}

impl Matcher<'_> {
    fn char_len(&self, text: &[u8]) -> usize {
        match self.collation.charset() {
            Charset::Utf8mb3 | Charset::Utf8mb4 => self.collation.charset().decode(text).1,
            _ => 1,
        }
    }
    /// Goes back to behind the last `%` when a later part does not match: linear for most patterns, no recursion.
    fn matches(&self, mut text: &[u8], mut pattern: &[u8]) -> bool {
        let mut retry: Option<(&[u8], &[u8])> = None;
        loop {
            if let Some(&first) = pattern.first() {
                let escaped = !self.escape.is_empty() && pattern.starts_with(self.escape) && pattern.len() > self.escape.len();
                if first == b'%' && !escaped {
                    pattern = &pattern[1..];
                    if pattern.is_empty() {
                        return true;
                    }
                    retry = Some((text, pattern));
                    continue;
                }
                if !text.is_empty() {
                    if first == b'_' && !escaped {
                        text = &text[self.char_len(text)..];
                        pattern = &pattern[1..];
                        continue;
                    }
                    let literal = if escaped { &pattern[self.escape.len()..] } else { pattern };
                    let ((a, a_len), (b, b_len)) = (self.collation.char_weight(text), self.collation.char_weight(literal));
                    if a == b {
                        text = &text[a_len..];
                        pattern = &literal[b_len..];
                        continue;
                    }
                }
            } else if text.is_empty() {
                return true;
            }
            // Let the last % take one character more.
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
}

/// Most bytes a compiled regular expression may take.
const REGEX_LIMIT: usize = 1 << 20;

/// Compiles a REGEXP pattern (in UTF-8, or bytes).
pub fn regex(pattern: &[u8], collation: Collation) -> Result<Regex> {
    let text = std::str::from_utf8(pattern).map_err(|_| SqlError::invalid_string("utf8mb4", String::from_utf8_lossy(pattern)))?;
    RegexBuilder::new(&posix_classes(text))
        .case_insensitive(collation.is_case_insensitive())
        .unicode(collation != Collation::Binary)
        .size_limit(REGEX_LIMIT)
        .build()
        .map_err(|e| SqlError::new(3685, format!("Illegal argument to a regular expression. ({})", e.to_string().replace('\n', " "))))
}
/// `[[:<:]]` and `[[:>:]]`, the word borders of MySQL 5.
fn posix_classes(pattern: &str) -> String {
    pattern.replace("[[:<:]]", r"\b").replace("[[:>:]]", r"\b")
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn like(&mut self, collation: Collation, escape: Option<char>, sides: &'v [Expr; 2]) -> Result<Option<bool>> {
        let (text, pattern) = (self.eval(&sides[0])?, self.eval(&sides[1])?);
        if text.is_null() || pattern.is_null() {
            return Ok(None);
        }
        let charset = collation.charset();
        let (text, pattern) = (self.string_in(&sides[0], &text, charset), self.string_in(&sides[1], &pattern, charset));
        Ok(Some(like(collation, escape, &text, &pattern)))
    }

    pub(super) fn regexp(&mut self, collation: Collation, sides: &'v [Expr; 2]) -> Result<Option<bool>> {
        let (text, pattern) = (self.eval(&sides[0])?, self.eval(&sides[1])?);
        if text.is_null() || pattern.is_null() {
            return Ok(None);
        }
        let charset = if collation == Collation::Binary { Charset::Binary } else { Charset::Utf8mb4 };
        let (text, pattern) = (self.string_in(&sides[0], &text, charset), self.string_in(&sides[1], &pattern, charset));
        // One pattern serves all rows of a statement, mostly.
        let cached = self.env.regex.take().filter(|(p, c, _)| **p == *pattern && *c == collation);
        let (p, c, compiled) = match cached {
            Some(kept) => kept,
            None => (pattern.to_vec(), collation, regex(&pattern, collation)?),
        };
        let found = compiled.is_match(&text);
        self.env.regex = Some((p, c, compiled));
        Ok(Some(found))
    }
}

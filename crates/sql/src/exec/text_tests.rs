//! Conditions that compare a string column, or the same part of it in all rows, with constants
//! (TEST-1): comparisons, IN and LIKE.
use super::env::Env;
use super::eval::{Scope, like};
use crate::plan::{CompareAs, CompareOp, Expr, ExprKind, Function};
use memchr::memmem::Finder;
use redolith_types::{Charset, Collation, RowLayout, SqlType, TableDef, Value};
use smallvec::SmallVec;

/// A condition on a string column.
pub struct TextTest {
    column: usize,
    part: Option<Part>,
    collation: Collation,
    wanted: Wanted,
    negated: bool,
}
/// The characters of a text that are compared: at most `count` behind the first `skip`.
#[derive(Clone, Copy)]
struct Part {
    skip: usize,
    count: usize,
}
enum Wanted {
    /// The condition is NULL for every row.
    Nothing,
    Compared(CompareOp, Box<[u8]>),
    OneOf(Vec<Box<[u8]>>),
    Like(Box<Pattern>),
}

impl TextTest {
    /// The test of a condition on a column of source number `source`, if it has one.
    pub fn of(
        condition: &Expr,
        source: u16,
        def: &TableDef,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Option<TextTest> {
        let column = |e: &Expr| text_of(e).column_of(source);
        // The collation of a comparison with a column in the collation's character set.
        let collation = |column: usize, how: Collation| match &def.columns[column].ty {
            SqlType::Char { collation, .. } | SqlType::VarChar { collation, .. } => {
                (collation.charset() == how.charset()).then_some(how)
            }
            _ => None,
        };
        let (column, side, collation, wanted, negated) = match &condition.kind {
            ExprKind::Compare { op, how: CompareAs::String(how), sides } => {
                let (column, side, value, op) = match (column(&sides[0]), column(&sides[1])) {
                    (Some(column), None) => (column, &sides[0], &sides[1], *op),
                    (None, Some(column)) => (column, &sides[1], &sides[0], op.flipped()),
                    _ => return None,
                };
                let collation = collation(column, *how)?;
                let wanted = match text(value, collation, at, env)? {
                    _ if op == CompareOp::NullSafeEq => return None,
                    Some(text) => Wanted::Compared(op, text),
                    None => Wanted::Nothing,
                };
                (column, side, collation, wanted, false)
            }
            ExprKind::In { negated, how: CompareAs::String(how), value, list, .. }
                if list.len() <= MOST_MEMBERS =>
            {
                let column = column(value)?;
                let collation = collation(column, *how)?;
                let mut members = Vec::with_capacity(list.len());
                for item in list {
                    // With a NULL in the list, NOT IN is never true.
                    members.push(text(item, collation, at, env)??);
                }
                (column, &**value, collation, Wanted::OneOf(members), *negated)
            }
            ExprKind::Like { negated, collation: how, escape, sides, .. } => {
                let column = column(&sides[0])?;
                let collation = collation(column, *how)?;
                let wanted = match text(&sides[1], collation, at, env)? {
                    Some(pattern) => {
                        Wanted::Like(Box::new(Pattern::of(collation, *escape, pattern)?))
                    }
                    None => Wanted::Nothing,
                };
                (column, &sides[0], collation, wanted, *negated)
            }
            _ => return None,
        };
        let part = match &side.kind {
            ExprKind::Call { .. } if side.ty.collation.charset() != collation.charset() => {
                return None;
            }
            ExprKind::Call { function, args } => Some(Part::of(*function, &args[1..], at, env)?),
            _ => None,
        };
        Some(TextTest { column, part, collation, wanted, negated })
    }

    /// The bytes of the texts that rows are compared with.
    pub fn bytes(&self) -> usize {
        match &self.wanted {
            Wanted::Nothing => 0,
            Wanted::Compared(_, text) => text.len(),
            Wanted::OneOf(members) => members.iter().map(|member| member.len()).sum(),
            Wanted::Like(pattern) => pattern.whole.len(),
        }
    }
    /// How often the text of a row is read.
    pub fn reads(&self) -> usize {
        if let Wanted::OneOf(members) = &self.wanted { members.len() } else { 1 }
    }

    pub fn passes(&self, layout: &RowLayout, payload: &[u8]) -> bool {
        let Value::Bytes(text) = layout.get(payload, self.column) else { return false };
        let text = match self.part {
            Some(part) => part.cut(self.collation.charset(), &text),
            None => &text,
        };
        let holds = match &self.wanted {
            Wanted::Nothing => return false,
            Wanted::Compared(CompareOp::Eq, value) => self.collation.equal(text, value),
            Wanted::Compared(op, value) => op.holds(self.collation.compare(text, value)),
            Wanted::OneOf(members) => {
                members.iter().any(|member| self.collation.equal(text, member))
            }
            Wanted::Like(pattern) => pattern.matches(text),
        };
        holds != self.negated
    }
}

/// The text of which LEFT and SUBSTRING take a part; any other expression itself.
fn text_of(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Call { function: Function::Left | Function::Substring, args } => &args[0],
        _ => e,
    }
}

impl Part {
    /// What LEFT or SUBSTRING takes of each text, if all their numbers are known before the rows
    /// and count from the start of the text.
    fn of(function: Function, numbers: &[Expr], at: Scope<'_>, env: &mut Env<'_>) -> Option<Part> {
        let mut number = |e: &Expr| {
            super::row_tests::known(e, at, env, |value, _| match value {
                Value::Int(n) => Some(*n),
                _ => None,
            })
        };
        let mut count = |e: &Expr| Some(usize::try_from(number(e)?.max(0)).unwrap_or(usize::MAX));
        match (function, numbers) {
            (Function::Left, [n]) => Some(Part { skip: 0, count: count(n)? }),
            (Function::Substring, [from]) => {
                Some(Part { skip: count(from)?.checked_sub(1)?, count: usize::MAX })
            }
            (Function::Substring, [from, n]) => {
                Some(Part { skip: count(from)?.checked_sub(1)?, count: count(n)? })
            }
            _ => None,
        }
    }
    fn cut(self, charset: Charset, text: &[u8]) -> &[u8] {
        let text = &text[charset.prefix_len(text, self.skip)..];
        &text[..charset.prefix_len(text, self.count)]
    }
}

/// The most members of a list that are compared one by one.
const MOST_MEMBERS: usize = 16;

/// The text of a constant in the collation's character set; the inner None is NULL. None if it is
/// not known before the rows, or has characters that the character set lacks.
#[allow(clippy::option_option)]
fn text(
    e: &Expr,
    collation: Collation,
    at: Scope<'_>,
    env: &mut Env<'_>,
) -> Option<Option<Box<[u8]>>> {
    super::row_tests::known(e, at, env, |value, eval| match value {
        Value::Null => Some(None),
        Value::Bytes(_) => {
            Some(Some(eval.whole_string_in(e, value, collation.charset())?.into_owned().into()))
        }
        _ => None,
    })
}

/// The longest pattern: each of its parts is prepared for the search, and a pattern beyond ASCII is
/// read once for each row.
const MOST_PATTERN: usize = 256;

/// A pattern of LIKE without `_` and without an escape. Texts of ASCII characters, which are most,
/// are searched as bytes.
struct Pattern {
    collation: Collation,
    escape: Option<char>,
    whole: Box<[u8]>,
    /// The weights of the ASCII characters; None if they are the characters.
    weights: Option<Box<[u8; 128]>>,
    /// The weights that the text begins with, that it has behind them in this order, and that it
    /// ends with. None if the pattern has characters beyond ASCII.
    parts: Option<Parts>,
}
struct Parts {
    first: Box<[u8]>,
    inner: Vec<Finder<'static>>,
    /// None if the pattern has no `%`: then `first` is the whole text.
    last: Option<Box<[u8]>>,
}

impl Pattern {
    fn of(collation: Collation, escape: Option<char>, whole: Box<[u8]>) -> Option<Pattern> {
        let mut escape_bytes = Vec::new();
        if let Some(c) = escape {
            collation.charset().encode(c, &mut escape_bytes);
        }
        if whole.len() > MOST_PATTERN {
            return None;
        }
        let has_escape = escape_bytes.first().is_some_and(|first| whole.contains(first));
        if has_escape || whole.contains(&b'_') {
            return None;
        }
        let mut weights = [0; 128];
        for (byte, weight) in weights.iter_mut().enumerate() {
            *weight = u8::try_from(collation.char_weight(&[byte as u8]).0).ok()?;
        }
        let is_plain = weights.iter().enumerate().all(|(byte, weight)| byte == *weight as usize);
        let folded = |part: &[u8]| -> Box<[u8]> {
            part.iter().map(|byte| weights[*byte as usize]).collect()
        };
        let parts = whole.is_ascii().then(|| {
            let mut parts: Vec<Box<[u8]>> = whole.split(|b| *b == b'%').map(folded).collect();
            let last = if parts.len() > 1 { parts.pop() } else { None };
            let inner = parts.drain(1..).filter(|part| !part.is_empty());
            let inner = inner.map(|part| Finder::new(&part).into_owned()).collect();
            Parts { first: std::mem::take(&mut parts[0]), inner, last }
        });
        let weights = (!is_plain).then(|| Box::new(weights));
        Some(Pattern { collation, escape, whole, weights, parts })
    }

    fn matches(&self, text: &[u8]) -> bool {
        let Some(parts) = self.parts.as_ref().filter(|_| text.is_ascii()) else {
            return like(self.collation, self.escape, text, &self.whole);
        };
        match &self.weights {
            None => parts.match_text(text),
            Some(weights) => {
                let folded: SmallVec<[u8; 256]> =
                    text.iter().map(|byte| weights[*byte as usize & 127]).collect();
                parts.match_text(&folded)
            }
        }
    }
}
impl Parts {
    fn match_text(&self, text: &[u8]) -> bool {
        let Some(last) = &self.last else { return *text == *self.first };
        let mut rest = text;
        if !self.first.is_empty() {
            let Some(behind) = rest.strip_prefix(&self.first[..]) else { return false };
            rest = behind;
        }
        if !last.is_empty() {
            let Some(before) = rest.strip_suffix(&last[..]) else { return false };
            rest = before;
        }
        self.inner.iter().all(|part| match find(part, rest) {
            Some(at) => {
                rest = &rest[at + part.needle().len()..];
                true
            }
            None => false,
        })
    }
}

/// Where a part of a pattern begins in a text. In a short text a plain search is faster.
fn find(part: &Finder<'_>, text: &[u8]) -> Option<usize> {
    let needle = part.needle();
    if text.len() > SHORT {
        return part.find(text);
    }
    let last = text.len().checked_sub(needle.len())?;
    (0..=last).find(|&at| text[at..].iter().zip(needle).all(|(a, b)| a == b))
}
const SHORT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Patterns and texts of all kinds: a pattern answers as [`like`] does.
    #[test]
    fn patterns_match_as_like_does() {
        let words =
            ["", "a", "A", "b", "ab", "aB", "ba", "aab", "a b", "ä", "aä", "Ab ", "%", "abab"];
        let patterns = [
            "", "%", "%%", "a", "a%", "%a", "%a%", "%A%b%", "ab%ab", "a%b", "a%a", "ä%", "%b%%a%",
            "A ",
        ];
        let mut seen = 0;
        for collation in
            [Collation::Utf8mb4GeneralCi, Collation::Utf8mb4Bin, Collation::AsciiGeneralCi]
        {
            for pattern in patterns {
                let bytes: Box<[u8]> = pattern.as_bytes().into();
                let Some(made) = Pattern::of(collation, Some('\\'), bytes) else { continue };
                for text in words {
                    let wanted = like(collation, Some('\\'), text.as_bytes(), pattern.as_bytes());
                    assert_eq!(made.matches(text.as_bytes()), wanted, "{text:?} {pattern:?}");
                    seen += 1;
                }
            }
            let long = "%a".repeat(MOST_PATTERN / 2 + 1);
            for pattern in ["a_", "\\%", "%\\", &long] {
                let bytes: Box<[u8]> = pattern.as_bytes().into();
                assert!(Pattern::of(collation, Some('\\'), bytes).is_none(), "{pattern}");
            }
        }
        assert_eq!(seen, 3 * words.len() * patterns.len());
    }
}

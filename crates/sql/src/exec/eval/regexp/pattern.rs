//! The pattern as the library reads it.
//!
//! MySQL's patterns (ICU) and the library's differ in a few places. Most of them are changes of the
//! text. One is not: `$` also matches before a line feed that ends the text, and the library's `$`
//! does not. Therefore a text with such a line feed is searched with [`LAST_FEED`] in its place, a
//! byte that no text has. It is all that ends a line for the library, so that the end of a line
//! (`(?m:$)`) is where MySQL's `$` matches; and whatever matches a line feed matches this byte.
use super::{MatchType, illegal, pattern_size::ignores_spaces, pattern_size::posix_class};
use crate::error::{Result, SqlError};
use redolith_types::Collation;
use regex_automata::util::look::LookMatcher;
use regex_automata::util::syntax;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look};
use std::borrow::Cow;

/// Stands for the line feed that ends a text. UTF-8 does not have this byte.
const LAST_FEED: u8 = 0xff;
/// The end of the text and no other place, in a pattern for the library: its tree has no other
/// [`Look::EndCRLF`], because the flag R is no flag of MySQL.
const VERY_END: &str = "(?Rm:$)";
/// The end of the text or the place before a last line feed, also where the flag m is set.
const END: &str = "(?-m:$)";

/// The text of a pattern for the library.
pub struct Pattern {
    text: String,
    syntax: syntax::Config,
    is_text: bool,
}

/// The syntax tree of a pattern.
pub struct Tree {
    pub hir: Hir,
    /// The last line feed of a text must be replaced.
    pub replaces_feed: bool,
}

impl Pattern {
    pub fn new(pattern: &[u8], collation: Collation, how: MatchType) -> Result<Pattern> {
        let text = std::str::from_utf8(pattern)
            .map_err(|_| SqlError::invalid_string("utf8mb4", String::from_utf8_lossy(pattern)))?;
        let text = Reader::new(text).read()?;
        let is_text = collation != Collation::Binary;
        Ok(Pattern { text, syntax: how.syntax(collation), is_text })
    }
    /// Parses the pattern. The tree is made anew each time, because it may be much larger than the
    /// text.
    pub fn tree(&self) -> Result<Tree> {
        let hir = syntax::parse_with(&self.text, &self.syntax).map_err(|e| illegal(&e))?;
        let looks = hir.properties().look_set();
        if !looks.contains(Look::End) && !looks.contains(Look::EndCRLF) {
            return Ok(Tree { hir, replaces_feed: false });
        }
        // Where true ends of lines are looked for, too, the line feed must stay. `\B` matches
        // nowhere beside a byte that is no character.
        let keeps = [Look::StartLF, Look::EndLF, Look::WordUnicodeNegate];
        let replaces_feed = self.is_text
            && looks.contains(Look::End)
            && !keeps.into_iter().any(|look| looks.contains(look));
        Ok(Tree { hir: with_ends(hir, replaces_feed), replaces_feed })
    }
}

impl Tree {
    /// What ends a line for the library.
    pub fn look_matcher(&self) -> LookMatcher {
        let mut matcher = LookMatcher::new();
        matcher.set_line_terminator(self.line_end());
        matcher
    }
    pub fn line_end(&self) -> u8 {
        if self.replaces_feed { LAST_FEED } else { b'\n' }
    }
}

/// The text in which a pattern with [`Tree::replaces_feed`] is searched.
pub fn with_last_feed(text: &[u8]) -> Cow<'_, [u8]> {
    match text.split_last() {
        Some((b'\n', before)) => Cow::Owned([before, &[LAST_FEED]].concat()),
        _ => Cow::Borrowed(text),
    }
}

/// The tree with what the library does at the ends of a text and, if `replaces_feed`, at
/// [`LAST_FEED`].
fn with_ends(hir: Hir, replaces_feed: bool) -> Hir {
    let map = |hir| with_ends(hir, replaces_feed);
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Look(Look::EndCRLF) => Hir::look(Look::End),
        HirKind::Look(Look::End) if replaces_feed => Hir::look(Look::EndLF),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Literal(literal) if replaces_feed && literal.0.contains(&b'\n') => {
            let parts = literal.0.split_inclusive(|b| *b == b'\n');
            Hir::concat(
                parts
                    .flat_map(|part| match part.split_last() {
                        Some((b'\n', before)) => vec![Hir::literal(before), feed()],
                        _ => vec![Hir::literal(part)],
                    })
                    .collect(),
            )
        }
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) if replaces_feed && has_feed(&class) => {
            Hir::alternation(vec![Hir::class(class), Hir::literal([LAST_FEED])])
        }
        HirKind::Class(class) => Hir::class(class),
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(map(*repetition.sub));
            Hir::repetition(repetition)
        }
        HirKind::Capture(mut capture) => {
            capture.sub = Box::new(map(*capture.sub));
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(map).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(map).collect()),
    }
}
/// A line feed, also if it is the last one.
fn feed() -> Hir {
    let one = |byte| ClassBytesRange::new(byte, byte);
    Hir::class(Class::Bytes(ClassBytes::new([one(b'\n'), one(LAST_FEED)])))
}
fn has_feed(class: &Class) -> bool {
    match class {
        Class::Unicode(class) => {
            class.ranges().iter().any(|r| r.start() <= '\n' && '\n' <= r.end())
        }
        Class::Bytes(class) => {
            class.ranges().iter().any(|r| r.start() <= b'\n' && b'\n' <= r.end())
        }
    }
}

/// Reads the text of a pattern and writes it for the library.
struct Reader<'p> {
    rest: &'p str,
    out: String,
    /// How many classes are open.
    depth: usize,
    /// The flag `x` is set somewhere.
    is_verbose: bool,
    /// The last part that was read repeats what is before it.
    repeats: bool,
}

impl<'p> Reader<'p> {
    fn new(pattern: &'p str) -> Reader<'p> {
        let is_verbose = ignores_spaces(pattern.as_bytes());
        let out = String::with_capacity(pattern.len());
        Reader { rest: pattern, out, depth: 0, is_verbose, repeats: false }
    }
    fn read(mut self) -> Result<String> {
        while let Some(c) = self.rest.chars().next() {
            let before = std::mem::replace(&mut self.repeats, false);
            match c {
                '\\' => self.escape(),
                '[' => self.class(),
                ']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.copy(1);
                }
                _ if self.depth > 0 => self.copy(c.len_utf8()),
                '(' if self.rest.starts_with("(?") => self.group()?,
                '+' if before => return Err(wrong("possessive quantifiers are not supported")),
                '*' | '+' | '?' => {
                    self.repeats = true;
                    self.copy(1);
                }
                '{' => {
                    self.repeats = true;
                    self.copy_through('}');
                }
                '#' if self.is_verbose => self.copy_through('\n'),
                c => {
                    self.repeats = before && self.is_verbose && c.is_whitespace();
                    self.copy(c.len_utf8());
                }
            }
        }
        Ok(self.out)
    }
    fn copy(&mut self, bytes: usize) {
        let (part, rest) = self.rest.split_at(bytes);
        self.out.push_str(part);
        self.rest = rest;
    }
    /// Copies what is up to `end`, or all if there is none.
    fn copy_through(&mut self, end: char) {
        self.copy(self.rest.find(end).map_or(self.rest.len(), |at| at + 1));
    }
    /// Writes `part` for the next `bytes`.
    fn replace(&mut self, bytes: usize, part: &str) {
        self.out.push_str(part);
        self.rest = &self.rest[bytes..];
    }
    fn escape(&mut self) {
        match self.rest[1..].chars().next() {
            // The library has borders of words here.
            Some('<') => self.replace(2, "<"),
            Some('>') => self.replace(2, ">"),
            Some('z') if self.depth == 0 => self.replace(2, VERY_END),
            Some('Z') if self.depth == 0 => self.replace(2, END),
            // `\x{41}` and `\p{L}` repeat nothing.
            Some(c) => {
                self.copy(1 + c.len_utf8());
                if "xuUpPbB".contains(c) && self.rest.starts_with('{') {
                    self.copy_through('}');
                }
            }
            None => self.copy(1),
        }
    }
    fn class(&mut self) {
        // The borders of words of MySQL 5.
        if self.depth == 0 && ["[[:<:]]", "[[:>:]]"].iter().any(|b| self.rest.starts_with(b)) {
            return self.replace(7, r"\b");
        }
        if self.depth > 0
            && let Some(len) = posix_class(&self.rest.as_bytes()[1..])
        {
            return self.copy(1 + len);
        }
        self.depth += 1;
        self.copy(1);
        self.spaces();
        if self.rest.starts_with('^') {
            self.copy(1);
            self.spaces();
        }
        // A `]` that comes first is a character of the class.
        if self.rest.starts_with(']') {
            self.copy(1);
        }
    }
    fn spaces(&mut self) {
        if self.is_verbose {
            self.copy(self.rest.len() - self.rest.trim_start().len());
        }
    }
    /// The front of a group, or flags.
    fn group(&mut self) -> Result<()> {
        let flags = self.rest[2..].bytes().take_while(|b| b.is_ascii_alphabetic() || *b == b'-');
        let len = flags.count();
        let is_end = matches!(self.rest.as_bytes().get(2 + len), Some(b':' | b')'));
        if is_end && self.rest[2..2 + len].contains('R') {
            return Err(wrong("unrecognized flag"));
        }
        self.copy(2 + len);
        Ok(())
    }
}

fn wrong(why: &str) -> SqlError {
    SqlError::new(3685, format!("Illegal argument to a regular expression. ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_the_library() {
        let read = |pattern| Reader::new(pattern).read().map_err(|e| e.code);
        for (pattern, text) in [
            ("a[[:<:]]b[[:>:]]", r"a\bb\b"),
            (r"\<a\>", "<a>"),
            (r"\\<a\\\>[\<]", r"\\<a\\>[<]"),
            (r"\\\\<", r"\\\\<"),
            (r"a\z|\Z|[\z]", r"a(?Rm:$)|(?-m:$)|[\z]"),
            (r"a\+++", ""),
            (r"a\++", r"a\++"),
            ("[a+]+[]++]+[^]++]", "[a+]+[]++]+[^]++]"),
            ("[a[b++]++]", "[a[b++]++]"),
            ("[[:alpha:]++]+", "[[:alpha:]++]+"),
            (r"\x{41}+\p{L}+", r"\x{41}+\p{L}+"),
            ("a+?b??c*?d{2}?", "a+?b??c*?d{2}?"),
            ("(a+)+(?:b+)+|+", "(a+)+(?:b+)+|+"),
            ("(?P<R>a)(?i:b)", "(?P<R>a)(?i:b)"),
        ] {
            let right = if text.is_empty() { Err(3685) } else { Ok(text.to_string()) };
            assert_eq!(read(pattern), right, "{pattern}");
        }
        for pattern in ["a++", "a*+", "a?+", "a{2}+", "a{2,}+", "[a]++", r"\p{L}++", "(?x)a+ +"] {
            assert_eq!(read(pattern), Err(3685), "{pattern}");
        }
        for pattern in ["(?R)a", "(?iR:a)", "(?-R)$"] {
            assert_eq!(read(pattern), Err(3685), "{pattern}");
        }
    }
}

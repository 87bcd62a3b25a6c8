//! Path expressions: `$.a[0]`, `$[*]`, `$**.b`, `$[last-1]`, `$[1 to 3]`, `$."a b"`.
use super::{Json, parse};
use std::borrow::Cow;

/// A path: the legs that follow `$`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    pub legs: Vec<Leg<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leg<'a> {
    Member(Cow<'a, str>),
    AnyMember,
    Cell(Index),
    /// Cells from the first to the last, both included.
    Range(Index, Index),
    AnyCell,
    /// `**`: the value, and all values in it.
    Ellipsis,
}

/// A place in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    pub from_end: bool,
    pub number: u32,
}

impl Index {
    /// The place in an array of `len` elements; places beyond the ends are -1 and `len`.
    pub fn within(self, len: usize) -> isize {
        let number = self.number as usize;
        if self.from_end {
            if number < len { (len - 1 - number) as isize } else { -1 }
        } else {
            number.min(len) as isize
        }
    }
}

/// The most legs of a path. No document is deeper than [`MAX_DEPTH`](super::MAX_DEPTH); more legs
/// than that can only be `[0]` of values that are no arrays, and `**`.
const MAX_LEGS: usize = 1000;

impl<'a> Path<'a> {
    /// Reads a path. The error is the position, in bytes, around which the text is wrong, or at
    /// which it has too many legs.
    pub fn parse(text: &'a str) -> Result<Path<'a>, usize> {
        let mut parser = Parser { text, at: 0 };
        parser.spaces();
        if !parser.consume(b'$') {
            return Err(parser.at + 1);
        }
        let mut legs = Vec::new();
        parser.spaces();
        while parser.at < text.len() {
            if legs.len() == MAX_LEGS {
                return Err(parser.at);
            }
            legs.push(parser.leg()?);
            parser.spaces();
        }
        match legs.last() {
            Some(Leg::Ellipsis) => Err(parser.at),
            _ => Ok(Path { legs }),
        }
    }
    /// The same path, which borrows nothing.
    pub fn into_owned(self) -> Path<'static> {
        let owned = |leg| match leg {
            Leg::Member(name) => Leg::Member(Cow::Owned(name.into_owned())),
            Leg::AnyMember => Leg::AnyMember,
            Leg::Cell(index) => Leg::Cell(index),
            Leg::Range(first, last) => Leg::Range(first, last),
            Leg::AnyCell => Leg::AnyCell,
            Leg::Ellipsis => Leg::Ellipsis,
        };
        Path { legs: self.legs.into_iter().map(owned).collect() }
    }
    /// Whether the path may find several values.
    pub fn has_wildcard(&self) -> bool {
        self.legs.iter().any(|leg| !matches!(leg, Leg::Member(_) | Leg::Cell(_)))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn consume(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }
    fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }
    fn leg(&mut self) -> Result<Leg<'a>, usize> {
        if self.consume(b'[') {
            return self.cells();
        }
        if self.consume(b'.') {
            return self.member();
        }
        if self.consume(b'*') {
            if !self.consume(b'*') {
                return Err(self.at);
            }
            // `***` is no path.
            return if self.peek() == Some(b'*') { Err(self.at) } else { Ok(Leg::Ellipsis) };
        }
        Err(self.at)
    }
    fn member(&mut self) -> Result<Leg<'a>, usize> {
        self.spaces();
        if self.consume(b'*') {
            return Ok(Leg::AnyMember);
        }
        let start = self.at;
        if self.peek() == Some(b'"') {
            let mut escaped = false;
            self.at += 1;
            loop {
                match self.peek() {
                    None => return Err(self.at),
                    Some(b'"') if !escaped => break,
                    Some(byte) => escaped = byte == b'\\' && !escaped,
                }
                self.at += 1;
            }
            self.at += 1;
            let quoted = &self.text.as_bytes()[start..self.at];
            return match parse(quoted) {
                Ok(Json::String(name)) => Ok(Leg::Member(name)),
                _ => Err(self.at),
            };
        }
        let rest = &self.text[start..];
        let ends = |(n, c): &(usize, char)| {
            !(c.is_alphabetic() || matches!(c, '_' | '$') || *n > 0 && c.is_numeric())
        };
        let len = rest.char_indices().find(ends).map_or(rest.len(), |(n, _)| n);
        if len == 0 {
            return Err(self.at);
        }
        self.at += len;
        Ok(Leg::Member(Cow::Borrowed(&rest[..len])))
    }
    fn cells(&mut self) -> Result<Leg<'a>, usize> {
        self.spaces();
        let leg = if self.consume(b'*') {
            Leg::AnyCell
        } else {
            let first = self.index()?;
            let after = self.at;
            self.spaces();
            if self.at > after && self.word("to") {
                let before = self.at;
                self.spaces();
                if self.at == before {
                    return Err(self.at);
                }
                let last = self.index()?;
                let reversed = first.from_end == last.from_end
                    && if first.from_end {
                        first.number < last.number
                    } else {
                        first.number > last.number
                    };
                if reversed {
                    return Err(self.at);
                }
                Leg::Range(first, last)
            } else {
                Leg::Cell(first)
            }
        };
        self.spaces();
        if self.consume(b']') { Ok(leg) } else { Err(self.at) }
    }
    fn word(&mut self, word: &str) -> bool {
        let there = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if there { word.len() } else { 0 };
        there
    }
    fn index(&mut self) -> Result<Index, usize> {
        if self.word("last") {
            let after = self.at;
            self.spaces();
            if !self.consume(b'-') {
                self.at = after;
                return Ok(Index { from_end: true, number: 0 });
            }
            self.spaces();
            return Ok(Index { from_end: true, number: self.digits()? });
        }
        Ok(Index { from_end: false, number: self.digits()? })
    }
    fn digits(&mut self) -> Result<u32, usize> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.text[start..self.at].parse().map_err(|_| self.at)
    }
}

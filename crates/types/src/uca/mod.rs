//! The Unicode Collation Algorithm (UTS #10) as MySQL has it, over three versions of Unicode's
//! table: 9.0.0 (`utf8mb4_0900_*`), 5.2.0 (`*_unicode_520_ci`) and 4.0.0 (`*_unicode_ci`).
//!
//! A character has up to 8 *collation elements* of three weights. The primary weight tells letters
//! apart, the secondary one accents and the tertiary one cases. A weight of 0 does not count.
//! Strings are compared level by level: first by all their primary weights. Like MySQL's, these
//! collations neither normalize nor know contractions, and punctuation counts as letters do.
//!
//! UCA-1: the weights of a string are those of its characters, one after the other. So a common
//! start of two strings never matters, and what begins with the same weights lies together.
//!
//! # Codes
//! Primary weights are written as codes of one or two bytes that order as the weights do:
//! - A weight of an ASCII character has one byte. The space is 0x20.
//! - The weights between two of these have two bytes, the second from 0x21.
//! - A character without an entry in the table has two weights: a lead that depends on its block,
//!   and 15 bits of the code point, in two bytes from 0x21.
//! - A byte that is not valid UTF-8 is 0xff and itself.
//!
//! UCA-2: no code has the byte 0x00, and 0x20 is the space and never a second byte. So 0x00 can
//! separate levels, and spaces can pad weight bytes.
//!
//! The weight bytes of several levels follow each other with 0x00 between them. A secondary weight
//! is one byte less 0x1f, a tertiary weight one byte. The least weight of a level (a letter without
//! accent; lower case) is left out at the level's end: if the levels before are equal, both strings
//! have it equally often.
//!
//! WEIGHT-1 holds here too: the weight bytes lie in index keys, so the files never change.
mod fold;
mod load;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::LazyLock;

use crate::charset::decode_utf8;
use crate::collation::pieces;

/// The code of the space.
pub(crate) const SPACE: u8 = b' ';
const SPACE_CODE: u16 = (SPACE as u16) << 8;
/// The secondary and the tertiary weight that letters have without accent and in lower case.
const LEAST: [u8; 3] = [0, 1, 2];
/// A character has at most so many elements.
const MOST_ELEMENTS: usize = 8;

/// A collation element. A `primary` is a code; that of one byte is in the upper half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Element {
    primary: u16,
    secondary: u8,
    tertiary: u8,
}

impl Element {
    #[inline]
    fn weight(self, level: u8) -> u16 {
        match level {
            0 => self.primary,
            1 => u16::from(self.secondary),
            _ => u16::from(self.tertiary),
        }
    }
}

/// What the table says of a character.
#[derive(Clone, Copy, Debug)]
enum Entry {
    One(Element),
    /// Elements of `Table::elements`.
    Many {
        start: u32,
        len: u8,
    },
    /// The weights that follow from this code point.
    Implicit(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V400,
    V520,
    V900,
}

/// The weights of one version.
struct Table {
    version: Version,
    /// The page of every 256 code points; 0 if all their weights are implicit.
    pages: Box<[u16]>,
    entries: Vec<[Entry; 256]>,
    elements: Vec<Element>,
    /// The primary weights of ASCII characters, in one byte. 0: ignorable.
    ascii: [u8; 128],
    /// The number of bytes of each weight, by its first byte.
    lengths: [u8; 256],
}

static V400: LazyLock<Table> =
    LazyLock::new(|| load::table(Version::V400, include_bytes!("uca400.bin")));
static V520: LazyLock<Table> =
    LazyLock::new(|| load::table(Version::V520, include_bytes!("uca520.bin")));
static V900: LazyLock<Table> =
    LazyLock::new(|| load::table(Version::V900, include_bytes!("uca900.bin")));

/// A collation by these weights.
pub(crate) struct Uca {
    table: &'static LazyLock<Table>,
    /// How many levels count: 1..=3.
    levels: u8,
    pads: bool,
    /// The characters' representatives (`char_weight`).
    folded: LazyLock<fold::Fold>,
}

pub(crate) static UNICODE_CI: Uca =
    Uca { table: &V400, levels: 1, pads: true, folded: LazyLock::new(|| fold::of(&V400, 1)) };
pub(crate) static UNICODE_520_CI: Uca =
    Uca { table: &V520, levels: 1, pads: true, folded: LazyLock::new(|| fold::of(&V520, 1)) };
pub(crate) static UCA_0900_AI_CI: Uca =
    Uca { table: &V900, levels: 1, pads: false, folded: LazyLock::new(|| fold::of(&V900, 1)) };
pub(crate) static UCA_0900_AS_CI: Uca =
    Uca { table: &V900, levels: 2, pads: false, folded: LazyLock::new(|| fold::of(&V900, 2)) };
pub(crate) static UCA_0900_AS_CS: Uca =
    Uca { table: &V900, levels: 3, pads: false, folded: LazyLock::new(|| fold::of(&V900, 3)) };

/// Up to 8 elements of one character.
#[derive(Clone, Copy)]
enum Elements {
    One(Element),
    Two([Element; 2]),
    Stored(&'static [Element]),
}

impl Elements {
    #[inline]
    fn as_slice(&self) -> &[Element] {
        match self {
            Elements::One(element) => std::slice::from_ref(element),
            Elements::Two(elements) => elements,
            Elements::Stored(elements) => elements,
        }
    }
}

impl Table {
    #[inline]
    fn entry(&self, code: u32) -> Entry {
        match self.pages.get((code >> 8) as usize) {
            Some(page) if *page != 0 => {
                self.entries[usize::from(*page) - 1][(code & 0xff) as usize]
            }
            _ => Entry::Implicit(code),
        }
    }

    #[inline]
    fn elements_of(&'static self, code: u32) -> Elements {
        match self.entry(code) {
            Entry::One(element) => Elements::One(element),
            Entry::Many { start, len } => {
                Elements::Stored(&self.elements[start as usize..][..usize::from(len)])
            }
            Entry::Implicit(code) => load::implicit(self.version, code),
        }
    }

    /// The elements of the character at the start of non-empty `bytes`, and its length.
    #[inline]
    fn next(&'static self, bytes: &[u8]) -> (Elements, usize) {
        match decode_utf8(bytes) {
            Some((code, len)) => (self.elements_of(code), len),
            None => (Elements::One(load::invalid(bytes[0])), 1),
        }
    }
}

/// The weights of a string at one level, without those that do not count.
struct Scanner<'a> {
    table: &'static Table,
    rest: &'a [u8],
    level: u8,
    elements: Elements,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(table: &'static Table, rest: &'a [u8], level: u8) -> Scanner<'a> {
        Scanner { table, rest, level, elements: Elements::Stored(&[]), at: 0 }
    }
}

impl Iterator for Scanner<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        loop {
            while let Some(element) = self.elements.as_slice().get(self.at) {
                self.at += 1;
                let weight = element.weight(self.level);
                if weight != 0 {
                    return Some(weight);
                }
            }
            if self.rest.is_empty() {
                return None;
            }
            let (elements, len) = self.table.next(self.rest);
            (self.elements, self.at) = (elements, 0);
            self.rest = &self.rest[len..];
        }
    }
}

impl Uca {
    pub fn pads(&self) -> bool {
        self.pads
    }

    pub fn has_cases(&self) -> bool {
        self.levels == 3
    }

    /// Whether the primary weights are all the weights.
    pub fn has_one_level(&self) -> bool {
        self.levels == 1
    }

    /// Compares two strings, level by level.
    pub fn compare(&self, mut a: &[u8], mut b: &[u8]) -> Ordering {
        let table: &'static Table = self.table;
        // Most strings differ in an ASCII character, after a common start.
        while let (Some(&x), Some(&y)) = (a.first(), b.first())
            && x < 0x80
            && y < 0x80
        {
            if x != y && self.levels > 1 {
                break;
            }
            if x != y {
                let (x, y) = (table.ascii[usize::from(x)], table.ascii[usize::from(y)]);
                if x == 0 || y == 0 {
                    break;
                }
                if x != y {
                    return x.cmp(&y);
                }
            }
            (a, b) = (&a[1..], &b[1..]);
        }
        if a.is_empty() && b.is_empty() {
            return Ordering::Equal;
        }
        (0..self.levels)
            .map(|level| self.compare_level(table, a, b, level))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    fn compare_level(&self, table: &'static Table, a: &[u8], b: &[u8], level: u8) -> Ordering {
        let (mut a, mut b) = (Scanner::new(table, a, level), Scanner::new(table, b, level));
        let end = if self.pads { SPACE_CODE } else { 0 };
        loop {
            match (a.next(), b.next()) {
                (None, None) => return Ordering::Equal,
                (x, y) if x == y => {}
                (x, y) => match x.unwrap_or(end).cmp(&y.unwrap_or(end)) {
                    Ordering::Equal => {}
                    other => return other,
                },
            }
        }
    }

    /// Calls `visit` with the bytes of each primary weight.
    #[inline]
    fn each_primary(&self, bytes: &[u8], mut visit: impl FnMut(&[u8])) {
        let table: &'static Table = self.table;
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if first < 0x80 {
                let weight = table.ascii[usize::from(first)];
                if weight != 0 {
                    visit(&[weight]);
                }
                rest = &rest[1..];
                continue;
            }
            let (elements, len) = table.next(rest);
            rest = &rest[len..];
            for element in elements.as_slice() {
                match element.primary.to_be_bytes() {
                    [0, _] => {}
                    [one, 0] => visit(&[one]),
                    two => visit(&two),
                }
            }
        }
    }

    /// Appends the bytes of the primary weights, without spaces at the end if they do not count.
    pub fn append_primary(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.append_all_primary(bytes, out);
        if self.pads {
            self.trim(start, out);
        }
    }

    /// Appends the bytes of the primary weights.
    pub fn append_all_primary(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(bytes.len());
        let table: &'static Table = self.table;
        if bytes.is_ascii() {
            out.extend(bytes.iter().map(|byte| table.ascii[usize::from(*byte & 0x7f)]));
            if out[start..].contains(&0) {
                let mut to = start;
                for at in start..out.len() {
                    out[to] = out[at];
                    to += usize::from(out[at] != 0);
                }
                out.truncate(to);
            }
        } else {
            self.each_primary(bytes, |weight| out.extend_from_slice(weight));
        }
    }

    /// Removes spaces at the end of the weight bytes from `start`.
    pub fn trim(&self, start: usize, out: &mut Vec<u8>) {
        while out.len() > start && out.last() == Some(&SPACE) {
            out.pop();
        }
    }

    /// Appends the weight bytes of all levels.
    pub fn append_weights(&self, bytes: &[u8], out: &mut Vec<u8>) {
        self.append_primary(bytes, out);
        for level in 1..self.levels {
            out.push(0);
            let start = out.len();
            out.extend(Scanner::new(self.table, bytes, level).map(|weight| weight as u8));
            while out.len() > start && out.last() == Some(&LEAST[usize::from(level)]) {
                out.pop();
            }
        }
    }

    /// Appends the weight bytes of the levels after the first, until `out` has `end` bytes.
    pub fn append_other_levels(&self, bytes: &[u8], end: usize, out: &mut Vec<u8>) {
        for level in 1..self.levels {
            out.push(0);
            let mut least = 0;
            for weight in Scanner::new(self.table, bytes, level).map(|weight| weight as u8) {
                if weight == LEAST[usize::from(level)] {
                    least += 1;
                    continue;
                }
                // Those before another weight count. Those at the level's end are left out.
                let between = std::mem::take(&mut least).min(end.saturating_sub(out.len()));
                out.resize(out.len() + between, LEAST[usize::from(level)]);
                out.push(weight);
                if out.len() >= end {
                    return out.truncate(end);
                }
            }
        }
    }

    /// No string of `chars` characters has more weight bytes.
    pub fn most_weight_bytes(&self, chars: usize) -> usize {
        let others = usize::from(self.levels) - 1;
        chars.saturating_mul(MOST_ELEMENTS * (2 + others)).saturating_add(others)
    }

    /// Calls `visit` with the weight bytes, for hashing.
    #[inline]
    pub fn each(&self, bytes: &[u8], mut visit: impl FnMut(&[u8])) {
        let (pads, mut spaces) = (self.pads, 0usize);
        self.each_primary(bytes, |weight| {
            if pads && weight == [SPACE] {
                spaces += 1;
                return;
            }
            (0..std::mem::take(&mut spaces)).for_each(|_| visit(&[SPACE]));
            visit(weight);
        });
        for level in 1..self.levels {
            visit(&[0]);
            for weight in Scanner::new(self.table, bytes, level) {
                visit(&[weight as u8]);
            }
        }
    }

    /// Appends the first `chars` primary weights. Unlike the weights of the first `chars`
    /// characters, they are equal for equal strings, and in order for strings in order: an
    /// expansion may be cut, and what is ignored takes no place.
    pub fn append_prefix(&self, bytes: &[u8], chars: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let (mut end, mut n) = (start, 0);
        for piece in pieces(bytes, true) {
            self.append_all_primary(piece, out);
            while end < out.len() && n < chars {
                end += usize::from(self.table.lengths[usize::from(out[end])]);
                n += 1;
            }
            out.truncate(end);
            if n == chars {
                break;
            }
        }
        if self.pads {
            self.trim(start, out);
        }
    }

    /// A character that stands for all that compare equal to the one at the start of non-empty
    /// `bytes`, and the length of the latter.
    #[inline]
    pub fn char_weight(&self, bytes: &[u8]) -> (u32, usize) {
        match decode_utf8(bytes) {
            Some((code, len)) => (self.folded.of(code), len),
            None => (0x10_ff00 + u32::from(bytes[0]), 1),
        }
    }
}

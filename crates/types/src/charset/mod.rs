//! Character sets: how many bytes a character takes, whether bytes are valid, and conversion
//! between sets.
//!
//! `latin1` is what MySQL calls so: Windows code page 1252, with the five holes of that page mapped
//! to the C1 controls of the same number.
use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Collation;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Charset {
    Binary,
    Ascii,
    Latin1,
    Utf8mb3,
    Utf8mb4,
}

/// The first bytes that are not valid in a character set, for "Incorrect string value" messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAt(pub usize);

/// Code points of bytes 0x80..=0x9f in latin1 (code page 1252).
const LATIN1_C1: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039,
    0x0152, 0x8d, 0x017d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
    0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d, 0x017e, 0x0178,
];

pub(crate) fn latin1_to_char(byte: u8) -> char {
    let code = if matches!(byte, 0x80..=0x9f) {
        LATIN1_C1[usize::from(byte - 0x80)]
    } else {
        u16::from(byte)
    };
    char::from_u32(u32::from(code)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn char_to_latin1(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0..=0x7f | 0xa0..=0xff) => Some(code as u8),
        code => LATIN1_C1.iter().position(|&x| u32::from(x) == code).map(|i| 0x80 + i as u8),
    }
}

/// Decodes the UTF-8 character at the start of `bytes`: (code point, length), or None if they are
/// not valid.
#[inline]
pub(crate) fn decode_utf8(bytes: &[u8]) -> Option<(u32, usize)> {
    let cont = |i: usize| bytes.get(i).filter(|b| **b & 0xc0 == 0x80).map(|b| u32::from(*b & 0x3f));
    let first = u32::from(*bytes.first()?);
    match first {
        0..=0x7f => Some((first, 1)),
        0xc2..=0xdf => Some(((first & 0x1f) << 6 | cont(1)?, 2)),
        0xe0..=0xef => {
            let code = (first & 0xf) << 12 | cont(1)? << 6 | cont(2)?;
            (code >= 0x800 && !(0xd800..0xe000).contains(&code)).then_some((code, 3))
        }
        0xf0..=0xf4 => {
            let code = (first & 7) << 18 | cont(1)? << 12 | cont(2)? << 6 | cont(3)?;
            (0x10000..=0x10ffff).contains(&code).then_some((code, 4))
        }
        _ => None,
    }
}

impl Charset {
    pub fn name(self) -> &'static str {
        match self {
            Charset::Binary => "binary",
            Charset::Ascii => "ascii",
            Charset::Latin1 => "latin1",
            Charset::Utf8mb3 => "utf8mb3",
            Charset::Utf8mb4 => "utf8mb4",
        }
    }

    /// By name, without regard to case; `utf8` is utf8mb3 as in MySQL.
    pub fn from_name(name: &str) -> Option<Charset> {
        let all =
            [Charset::Binary, Charset::Ascii, Charset::Latin1, Charset::Utf8mb3, Charset::Utf8mb4];
        if name.eq_ignore_ascii_case("utf8") {
            return Some(Charset::Utf8mb3);
        }
        all.into_iter().find(|c| c.name().eq_ignore_ascii_case(name))
    }

    pub fn description(self) -> &'static str {
        match self {
            Charset::Binary => "Binary pseudo charset",
            Charset::Ascii => "US ASCII",
            Charset::Latin1 => "cp1252 West European",
            Charset::Utf8mb3 | Charset::Utf8mb4 => "UTF-8 Unicode",
        }
    }

    pub fn default_collation(self) -> Collation {
        match self {
            Charset::Binary => Collation::Binary,
            Charset::Ascii => Collation::AsciiGeneralCi,
            Charset::Latin1 => Collation::Latin1SwedishCi,
            Charset::Utf8mb3 => Collation::Utf8mb3GeneralCi,
            Charset::Utf8mb4 => Collation::Utf8mb4GeneralCi,
        }
    }

    /// Most bytes one character takes.
    pub fn max_len(self) -> u32 {
        match self {
            Charset::Binary | Charset::Ascii | Charset::Latin1 => 1,
            Charset::Utf8mb3 => 3,
            Charset::Utf8mb4 => 4,
        }
    }

    pub fn is_utf8(self) -> bool {
        matches!(self, Charset::Utf8mb3 | Charset::Utf8mb4)
    }

    /// Number of characters; a byte that is not valid counts as one.
    pub fn char_count(self, bytes: &[u8]) -> usize {
        if !self.is_utf8() {
            return bytes.len();
        }
        // Continuation bytes are not counted: exact for valid text, and compilers vectorize it.
        bytes.iter().filter(|b| **b & 0xc0 != 0x80).count()
    }

    /// Length in bytes of the first `chars` characters (of all, if there are fewer).
    pub fn prefix_len(self, bytes: &[u8], chars: usize) -> usize {
        if bytes.len() <= chars || !self.is_utf8() {
            return bytes.len().min(chars);
        }
        bytes
            .iter()
            .enumerate()
            .filter(|(_, b)| **b & 0xc0 != 0x80)
            .nth(chars)
            .map_or(bytes.len(), |(i, _)| i)
    }

    /// Whether every byte belongs to a valid character of this set.
    pub fn validate(self, bytes: &[u8]) -> Result<(), InvalidAt> {
        let at = match self {
            Charset::Binary | Charset::Latin1 => None,
            Charset::Ascii => bytes.iter().position(|b| *b >= 0x80),
            Charset::Utf8mb4 => std::str::from_utf8(bytes).err().map(|e| e.valid_up_to()),
            Charset::Utf8mb3 => {
                let valid =
                    std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), |_| bytes.len());
                bytes[..valid]
                    .iter()
                    .position(|b| *b >= 0xf0)
                    .or((valid < bytes.len()).then_some(valid))
            }
        };
        at.map_or(Ok(()), |at| Err(InvalidAt(at)))
    }

    /// Bytes of this set as another set's. Fails at the first character `to` does not have (byte
    /// position in `bytes`). From or to `Binary` the bytes stay as they are, but must be valid in
    /// `to`.
    pub fn convert(self, bytes: &[u8], to: Charset) -> Result<Cow<'_, [u8]>, InvalidAt> {
        self.convert_with(bytes, to, None)
    }

    /// As `convert`, with '?' in place of what `to` does not have.
    pub fn convert_lossy(self, bytes: &[u8], to: Charset) -> Cow<'_, [u8]> {
        self.convert_with(bytes, to, Some(b'?')).unwrap_or(Cow::Borrowed(bytes))
    }

    fn convert_with(
        self,
        bytes: &[u8],
        to: Charset,
        substitute: Option<u8>,
    ) -> Result<Cow<'_, [u8]>, InvalidAt> {
        let keeps = self == to || self == Charset::Binary || (self.is_utf8() && to.is_utf8());
        if keeps || to == Charset::Binary || bytes.is_ascii() {
            // Between the two kinds of UTF-8: what is not valid in the narrower one is no text.
            let strict = if self == Charset::Utf8mb3 && to.is_utf8() { self } else { to };
            match (strict.validate(bytes), substitute) {
                (Ok(()), _) => return Ok(Cow::Borrowed(bytes)),
                (Err(at), None) => return Err(at),
                (Err(_), Some(_)) => {}
            }
        }
        // Bytes are read as what they are to become.
        let from = if self == Charset::Binary { to } else { self };
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 2);
        let mut at = 0;
        while at < bytes.len() {
            let (c, len) = from.decode(&bytes[at..]);
            if !c.is_some_and(|c| to.encode(c, &mut out)) {
                out.push(substitute.ok_or(InvalidAt(at))?);
            }
            at += len;
        }
        Ok(Cow::Owned(out))
    }

    /// The character at the start of non-empty `bytes`, None if it is not valid, and its length.
    pub fn decode(self, bytes: &[u8]) -> (Option<char>, usize) {
        match self {
            Charset::Latin1 => (Some(latin1_to_char(bytes[0])), 1),
            Charset::Ascii => (bytes[0].is_ascii().then_some(char::from(bytes[0])), 1),
            Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4 => match decode_utf8(bytes) {
                Some((_, 4)) if self == Charset::Utf8mb3 => (None, 1),
                Some((code, len)) => (char::from_u32(code), len),
                None => (None, 1),
            },
        }
    }

    /// Appends a character; false (and nothing appended) if this set does not have it.
    pub fn encode(self, c: char, out: &mut Vec<u8>) -> bool {
        match self {
            Charset::Latin1 => match char_to_latin1(c) {
                Some(byte) => out.push(byte),
                None => return false,
            },
            Charset::Ascii if c.is_ascii() => out.push(c as u8),
            Charset::Utf8mb3 if c as u32 >= 0x10000 => return false,
            Charset::Ascii => return false,
            Charset::Binary | Charset::Utf8mb3 | Charset::Utf8mb4 => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes())
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latin1_is_code_page_1252_and_round_trips() {
        let all: Vec<u8> = (0..=255).collect();
        let utf8 = Charset::Latin1.convert(&all, Charset::Utf8mb4).unwrap();
        assert_eq!(std::str::from_utf8(&utf8).unwrap().chars().count(), 256);
        assert_eq!(&*Charset::Utf8mb4.convert(&utf8, Charset::Latin1).unwrap(), &all[..]);
        assert_eq!(&*Charset::Latin1.convert(b"\x80", Charset::Utf8mb4).unwrap(), "€".as_bytes());
        assert_eq!(
            &*Charset::Utf8mb4.convert("œ€".as_bytes(), Charset::Latin1).unwrap(),
            b"\x9c\x80"
        );
    }

    #[test]
    fn conversion_names_the_first_character_that_is_missing() {
        assert_eq!(Charset::Utf8mb4.convert("aéж".as_bytes(), Charset::Latin1), Err(InvalidAt(3)));
        assert_eq!(
            &*Charset::Utf8mb4.convert_lossy("aéжz".as_bytes(), Charset::Latin1),
            b"a\xe9?z"
        );
        assert_eq!(Charset::Utf8mb4.convert("a😀".as_bytes(), Charset::Utf8mb3), Err(InvalidAt(1)));
        assert_eq!(Charset::Utf8mb4.validate(b"ab\xff"), Err(InvalidAt(2)));
        assert_eq!(Charset::Binary.convert(b"ab\xff", Charset::Utf8mb4), Err(InvalidAt(2)));
        // What is no character of utf8mb3 is four bytes that are none.
        assert_eq!(&*Charset::Utf8mb3.convert_lossy("a😀".as_bytes(), Charset::Utf8mb4), b"a????");
        assert_eq!(&*Charset::Binary.convert_lossy("a😀".as_bytes(), Charset::Utf8mb3), b"a????");
        assert_eq!(&*Charset::Utf8mb4.convert_lossy("a😀".as_bytes(), Charset::Utf8mb3), b"a?");
        assert!(matches!(
            Charset::Utf8mb4.convert(b"plain", Charset::Latin1),
            Ok(Cow::Borrowed(_))
        ));
    }

    #[test]
    fn characters_are_counted_and_cut_whole() {
        let text = "aé€😀b".as_bytes();
        assert_eq!(Charset::Utf8mb4.char_count(text), 5);
        for (chars, len) in [(0, 0), (1, 1), (2, 3), (3, 6), (4, 10), (5, 11), (9, 11)] {
            assert_eq!(Charset::Utf8mb4.prefix_len(text, chars), len);
        }
        assert_eq!(Charset::Latin1.prefix_len(b"abc", 2), 2);
    }
}

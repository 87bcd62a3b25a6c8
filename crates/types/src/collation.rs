//! Collations: comparison and weights of strings. Index keys hold a string's *weight bytes*. Under
//! memcmp, and padded with spaces in collations that pad (`pads`), they order as the strings do.
//!
//! - `binary`: the bytes, nothing padded.
//! - `*_bin`: the bytes; UTF-8 orders as its code points do. `utf8mb4_0900_bin` pads nothing.
//! - `latin1_swedish_ci`, `ascii_general_ci`: one weight byte per character.
//! - `utf8mb4_general_ci`: the character's weight (`general_ci`), written as UTF-8 would write it:
//!   order is kept and ASCII takes one byte.
//! - `utf8mb4_0900_*`, `*_unicode_ci`, `*_unicode_520_ci`: the weights of `uca`, of one, two or
//!   three levels. A character may have several weights, or none.
//!
//! COLL-1: `compare` and the weight bytes agree. Bytes that are not valid UTF-8 weigh 0xff00 + byte
//! each in both.
//! COLL-2: beside strings of few characters, the weight bytes of a long string are as few, and
//! order it among them as all its weight bytes do.
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};

use crate::charset::{Charset, decode_utf8};
use crate::general_ci;
use crate::uca::{self, Uca};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Collation {
    Binary,
    Utf8mb4GeneralCi,
    Utf8mb4Bin,
    Utf8mb3GeneralCi,
    Utf8mb3Bin,
    Latin1SwedishCi,
    Latin1Bin,
    AsciiGeneralCi,
    AsciiBin,
    Utf8mb4Uca0900AiCi,
    Utf8mb4Uca0900AsCi,
    Utf8mb4Uca0900AsCs,
    Utf8mb4Bin0900,
    Utf8mb4UnicodeCi,
    Utf8mb4Unicode520Ci,
    Utf8mb3UnicodeCi,
    Utf8mb3Unicode520Ci,
}

const fn upper_case_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = (i as u8).to_ascii_uppercase();
        i += 1;
    }
    table
}

const ASCII_CI: [u8; 256] = upper_case_table();

/// Swedish order: Å, Ä = Æ, Ö after Z; Ü = Y; other accents off. Compared byte by byte with a
/// server's WEIGHT_STRING().
const SWEDISH_CI: [u8; 256] = {
    let mut table = upper_case_table();
    // Weights of 0xc0..=0xdf; 0xe0..=0xff are their lower case, except × ÷ ß ÿ.
    let upper = *b"AAAA\x5c\x5b\x5cCEEEEIIIIDNOOOO\x5d\xd7\xd8UUUYY\xde\xdf";
    let mut i = 0;
    while i < 32 {
        table[0xc0 + i] = upper[i];
        table[0xe0 + i] = if i == 0x17 || i == 0x1f { 0xe0 + i as u8 } else { upper[i] };
        i += 1;
    }
    table
};

/// The mapping from a string to its weight bytes.
#[derive(Clone, Copy)]
enum Weights {
    Identity,
    Table(&'static [u8; 256]),
    General,
    Uca(&'static Uca),
}

impl Collation {
    pub const ALL: [Collation; 17] = [
        Collation::Binary,
        Collation::Utf8mb4GeneralCi,
        Collation::Utf8mb4Bin,
        Collation::Utf8mb3GeneralCi,
        Collation::Utf8mb3Bin,
        Collation::Latin1SwedishCi,
        Collation::Latin1Bin,
        Collation::AsciiGeneralCi,
        Collation::AsciiBin,
        Collation::Utf8mb4Uca0900AiCi,
        Collation::Utf8mb4Uca0900AsCi,
        Collation::Utf8mb4Uca0900AsCs,
        Collation::Utf8mb4Bin0900,
        Collation::Utf8mb4UnicodeCi,
        Collation::Utf8mb4Unicode520Ci,
        Collation::Utf8mb3UnicodeCi,
        Collation::Utf8mb3Unicode520Ci,
    ];

    /// MySQL's collation id.
    pub fn id(self) -> u16 {
        match self {
            Collation::Latin1SwedishCi => 8,
            Collation::AsciiGeneralCi => 11,
            Collation::Utf8mb3GeneralCi => 33,
            Collation::Utf8mb4GeneralCi => 45,
            Collation::Utf8mb4Bin => 46,
            Collation::Latin1Bin => 47,
            Collation::Binary => 63,
            Collation::AsciiBin => 65,
            Collation::Utf8mb3Bin => 83,
            Collation::Utf8mb3UnicodeCi => 192,
            Collation::Utf8mb3Unicode520Ci => 214,
            Collation::Utf8mb4UnicodeCi => 224,
            Collation::Utf8mb4Unicode520Ci => 246,
            Collation::Utf8mb4Uca0900AiCi => 255,
            Collation::Utf8mb4Uca0900AsCs => 278,
            Collation::Utf8mb4Uca0900AsCi => 305,
            Collation::Utf8mb4Bin0900 => 309,
        }
    }

    pub fn from_id(id: u16) -> Option<Collation> {
        Self::ALL.into_iter().find(|c| c.id() == id)
    }

    pub fn name(self) -> &'static str {
        match self {
            Collation::Binary => "binary",
            Collation::Utf8mb4GeneralCi => "utf8mb4_general_ci",
            Collation::Utf8mb4Bin => "utf8mb4_bin",
            Collation::Utf8mb3GeneralCi => "utf8mb3_general_ci",
            Collation::Utf8mb3Bin => "utf8mb3_bin",
            Collation::Latin1SwedishCi => "latin1_swedish_ci",
            Collation::Latin1Bin => "latin1_bin",
            Collation::AsciiGeneralCi => "ascii_general_ci",
            Collation::AsciiBin => "ascii_bin",
            Collation::Utf8mb4Uca0900AiCi => "utf8mb4_0900_ai_ci",
            Collation::Utf8mb4Uca0900AsCi => "utf8mb4_0900_as_ci",
            Collation::Utf8mb4Uca0900AsCs => "utf8mb4_0900_as_cs",
            Collation::Utf8mb4Bin0900 => "utf8mb4_0900_bin",
            Collation::Utf8mb4UnicodeCi => "utf8mb4_unicode_ci",
            Collation::Utf8mb4Unicode520Ci => "utf8mb4_unicode_520_ci",
            Collation::Utf8mb3UnicodeCi => "utf8mb3_unicode_ci",
            Collation::Utf8mb3Unicode520Ci => "utf8mb3_unicode_520_ci",
        }
    }

    /// Finds a collation by name, ignoring case. `utf8_general_ci` and `utf8_bin` are the utf8mb3
    /// collations.
    pub fn from_name(name: &str) -> Option<Collation> {
        let alias = match name.get(..5) {
            Some(start) if start.eq_ignore_ascii_case("utf8_") => format!("utf8mb3_{}", &name[5..]),
            _ => String::new(),
        };
        let name = if alias.is_empty() { name } else { &alias };
        Self::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(name))
    }

    pub fn charset(self) -> Charset {
        match self {
            Collation::Binary => Charset::Binary,
            Collation::Utf8mb4GeneralCi
            | Collation::Utf8mb4Bin
            | Collation::Utf8mb4Uca0900AiCi
            | Collation::Utf8mb4Uca0900AsCi
            | Collation::Utf8mb4Uca0900AsCs
            | Collation::Utf8mb4Bin0900
            | Collation::Utf8mb4UnicodeCi
            | Collation::Utf8mb4Unicode520Ci => Charset::Utf8mb4,
            Collation::Utf8mb3GeneralCi
            | Collation::Utf8mb3Bin
            | Collation::Utf8mb3UnicodeCi
            | Collation::Utf8mb3Unicode520Ci => Charset::Utf8mb3,
            Collation::Latin1SwedishCi | Collation::Latin1Bin => Charset::Latin1,
            Collation::AsciiGeneralCi | Collation::AsciiBin => Charset::Ascii,
        }
    }

    /// The `_bin` collation of the same character set; `Binary` itself.
    pub fn bin(self) -> Collation {
        match self.charset() {
            Charset::Binary => Collation::Binary,
            Charset::Utf8mb4 => Collation::Utf8mb4Bin,
            Charset::Utf8mb3 => Collation::Utf8mb3Bin,
            Charset::Latin1 => Collation::Latin1Bin,
            Charset::Ascii => Collation::AsciiBin,
        }
    }

    pub fn is_default(self) -> bool {
        self.charset().default_collation() == self
    }

    /// Whether comparison ignores trailing spaces (PAD SPACE).
    #[inline]
    pub fn pads(self) -> bool {
        match self.weights() {
            Weights::Uca(uca) => uca.pads(),
            _ => !matches!(self, Collation::Binary | Collation::Utf8mb4Bin0900),
        }
    }

    pub fn is_case_insensitive(self) -> bool {
        match self.weights() {
            Weights::Identity => false,
            Weights::Uca(uca) => !uca.has_cases(),
            _ => true,
        }
    }

    /// MySQL's `SORTLEN`: what its sort keys take for each character.
    pub fn sort_length(self) -> u64 {
        match self.weights() {
            Weights::Uca(uca) if uca.pads() => 8,
            Weights::Uca(_) => 0,
            _ => 1,
        }
    }

    /// Whether strings compare by their bytes alone: `binary` and the `_bin` collations.
    pub fn is_bin(self) -> bool {
        matches!(self.weights(), Weights::Identity)
    }

    /// Whether the keys of two strings' prefixes (`append_prefix_weights`) are in order if the
    /// strings are. Where accents or cases count only after all letters, they are not: "Aa" is
    /// before "ab", but "A" is after "a".
    pub fn orders_prefixes(self) -> bool {
        !matches!(self.weights(), Weights::Uca(uca) if !uca.has_one_level())
    }

    #[inline]
    fn weights(self) -> Weights {
        match self {
            Collation::Binary
            | Collation::Utf8mb4Bin
            | Collation::Utf8mb3Bin
            | Collation::Latin1Bin
            | Collation::AsciiBin
            | Collation::Utf8mb4Bin0900 => Weights::Identity,
            Collation::Latin1SwedishCi => Weights::Table(&SWEDISH_CI),
            Collation::AsciiGeneralCi => Weights::Table(&ASCII_CI),
            Collation::Utf8mb4GeneralCi | Collation::Utf8mb3GeneralCi => Weights::General,
            Collation::Utf8mb4Uca0900AiCi => Weights::Uca(&uca::UCA_0900_AI_CI),
            Collation::Utf8mb4Uca0900AsCi => Weights::Uca(&uca::UCA_0900_AS_CI),
            Collation::Utf8mb4Uca0900AsCs => Weights::Uca(&uca::UCA_0900_AS_CS),
            Collation::Utf8mb4UnicodeCi | Collation::Utf8mb3UnicodeCi => {
                Weights::Uca(&uca::UNICODE_CI)
            }
            Collation::Utf8mb4Unicode520Ci | Collation::Utf8mb3Unicode520Ci => {
                Weights::Uca(&uca::UNICODE_520_CI)
            }
        }
    }

    /// Compares two strings of this collation's character set.
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self.weights() {
            Weights::Identity if !self.pads() => a.cmp(b),
            Weights::Identity => compare_padded(a, b, |byte| byte),
            Weights::Table(table) => compare_padded(a, b, |byte| table[usize::from(byte)]),
            Weights::General => compare_general(a, b),
            Weights::Uca(uca) => uca.compare(a, b),
        }
    }

    pub fn equal(self, a: &[u8], b: &[u8]) -> bool {
        a == b || self.compare(a, b) == Ordering::Equal
    }

    /// A number that is the same for all characters that compare equal to the one at the start of
    /// non-empty `bytes`, and the length of that one; for LIKE and LOCATE.
    #[inline]
    pub fn char_weight(self, bytes: &[u8]) -> (u32, usize) {
        match self.weights() {
            Weights::Table(table) => (u32::from(table[usize::from(bytes[0])]), 1),
            Weights::General => {
                let (weight, len) = general_weight(bytes);
                (u32::from(weight), len)
            }
            Weights::Uca(uca) => uca.char_weight(bytes),
            Weights::Identity if self.charset().is_utf8() => {
                decode_utf8(bytes).unwrap_or((0xff00 + u32::from(bytes[0]), 1))
            }
            Weights::Identity => (u32::from(bytes[0]), 1),
        }
    }

    /// Appends the weight bytes. Trailing spaces are removed if comparison ignores them.
    pub fn append_weights(self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Weights::Uca(uca) = self.weights() {
            return uca.append_weights(bytes, out);
        }
        let bytes = if self.pads() { trim_spaces(bytes) } else { bytes };
        match self.weights() {
            Weights::Identity => out.extend_from_slice(bytes),
            Weights::Table(table) => out.extend(bytes.iter().map(|byte| table[usize::from(*byte)])),
            Weights::General => append_general(bytes, out),
            Weights::Uca(_) => {}
        }
    }

    /// Appends the weight bytes that a key of the first `chars` characters has. Where a character
    /// may have several weights or none, it is the first `chars` weights: so the prefixes of equal
    /// strings are equal.
    pub fn append_prefix_weights(self, bytes: &[u8], chars: usize, out: &mut Vec<u8>) {
        match self.weights() {
            Weights::Uca(uca) if uca.has_one_level() => uca.append_prefix(bytes, chars, out),
            _ => {
                let prefix = &bytes[..self.charset().prefix_len(bytes, chars)];
                self.append_weights_beside(prefix, chars, out)
            }
        }
    }

    /// As `append_weights`, for strings that are compared with strings of at most `chars`
    /// characters only. Of a string that is longer than those in bytes, what cannot matter is left
    /// out (COLL-2).
    pub fn append_weights_beside(self, bytes: &[u8], chars: usize, out: &mut Vec<u8>) {
        if bytes.len() <= chars.saturating_mul(self.charset().max_len() as usize) {
            self.append_weights(bytes, out)
        } else {
            self.append_deciding_weights(bytes, self.most_weight_bytes(chars), out)
        }
    }

    /// No string of `chars` characters has more weight bytes.
    fn most_weight_bytes(self, chars: usize) -> usize {
        let of_char = match self.weights() {
            Weights::Identity => self.charset().max_len() as usize,
            Weights::Table(_) => 1,
            Weights::General => 3,
            Weights::Uca(uca) => return uca.most_weight_bytes(chars),
        };
        chars.saturating_mul(of_char)
    }

    /// Appends the first `most` weight bytes and, if there are more, the byte after them that the
    /// order depends on beside strings that end before it: the next byte, or where spaces are
    /// padded the first that is no space. The string is read in pieces, so no more than a piece's
    /// weights are held beyond that.
    fn append_deciding_weights(self, bytes: &[u8], most: usize, out: &mut Vec<u8>) {
        let (start, pads) = (out.len(), self.pads());
        let end = start.saturating_add(most);
        for piece in pieces(bytes, self.charset().is_utf8()) {
            match self.weights() {
                Weights::Identity => out.extend_from_slice(piece),
                Weights::Table(table) => {
                    out.extend(piece.iter().map(|byte| table[usize::from(*byte)]))
                }
                Weights::General => append_general(piece, out),
                Weights::Uca(uca) => uca.append_all_primary(piece, out),
            }
            if let Some(beyond) = out.get(end..)
                && let Some(n) = beyond.iter().position(|byte| !pads || *byte != b' ')
            {
                out[end] = beyond[n];
                out.truncate(end + 1);
                return;
            }
            out.truncate(end);
        }
        if pads {
            out.truncate(start + trim_spaces(&out[start..]).len());
        }
        if let Weights::Uca(uca) = self.weights() {
            uca.append_other_levels(bytes, end.saturating_add(1), out);
        }
    }

    /// Appends weight bytes with which those of every string begin that starts with `bytes`: as
    /// above, but without levels after the first. `None` for `chars` takes all.
    pub fn append_common_weights(self, bytes: &[u8], chars: Option<usize>, out: &mut Vec<u8>) {
        let chars = chars.unwrap_or(usize::MAX);
        match self.weights() {
            Weights::Uca(uca) if uca.has_one_level() => uca.append_prefix(bytes, chars, out),
            Weights::Uca(uca) => {
                uca.append_primary(&bytes[..self.charset().prefix_len(bytes, chars)], out)
            }
            _ => self.append_prefix_weights(bytes, chars, out),
        }
    }

    /// The characters' weights (`char_weight`) with trailing spaces, for searching a string in
    /// another string. If they are UTF-8, no character's bytes begin inside another's.
    pub fn weight_bytes(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self.weights() {
            Weights::Table(table) => {
                bytes.iter().map(|byte| table[usize::from(*byte)]).collect::<Vec<u8>>().into()
            }
            Weights::Identity
                if !self.charset().is_utf8() || std::str::from_utf8(bytes).is_ok() =>
            {
                Cow::Borrowed(bytes)
            }
            Weights::Identity | Weights::Uca(_) => {
                self.chars(bytes).collect::<String>().into_bytes().into()
            }
            Weights::General => {
                let mut out = Vec::with_capacity(bytes.len());
                append_general(bytes, &mut out);
                out.into()
            }
        }
    }
    /// The weights of UTF-8 characters, as characters.
    fn chars(self, mut bytes: &[u8]) -> impl Iterator<Item = char> {
        std::iter::from_fn(move || {
            let (weight, len) = (!bytes.is_empty()).then(|| self.char_weight(bytes))?;
            bytes = &bytes[len..];
            Some(char::from_u32(weight).unwrap_or(char::REPLACEMENT_CHARACTER))
        })
    }

    /// Feeds a hasher so that strings that compare equal hash equal (GROUP BY, DISTINCT, hash
    /// joins). The hasher gets the weight bytes in blocks whose borders do not depend on the
    /// characters.
    pub fn hash(self, bytes: &[u8], state: &mut impl Hasher) {
        let mut block = Block { bytes: [0; BLOCK + 2], len: 0 };
        let weights = self.weights();
        if let Weights::Uca(uca) = weights {
            uca.each(bytes, |weight| block.push(weight, state));
        }
        let bytes = if self.pads() { trim_spaces(bytes) } else { bytes };
        match weights {
            Weights::Uca(_) => {}
            Weights::Identity => state.write(bytes),
            Weights::Table(table) => {
                bytes.iter().for_each(|byte| block.push(&[table[usize::from(*byte)]], state))
            }
            Weights::General => each_general(bytes, |weight| block.push(weight, state)),
        }
        state.write(&block.bytes[..block.len]);
        state.write_u8(0xff);
    }
}

const BLOCK: usize = 64;

/// A block of weight bytes for the hasher. A weight has at most 3 bytes, so up to 2 bytes may lie
/// beyond the block's end.
struct Block {
    bytes: [u8; BLOCK + 2],
    len: usize,
}

impl Block {
    #[inline]
    fn push(&mut self, weight: &[u8], state: &mut impl Hasher) {
        self.bytes[self.len..self.len + weight.len()].copy_from_slice(weight);
        self.len += weight.len();
        if self.len >= BLOCK {
            state.write(&self.bytes[..BLOCK]);
            self.bytes.copy_within(BLOCK.., 0);
            self.len -= BLOCK;
        }
    }
}

/// The most bytes of a piece of a string, but for the rest of its last character.
const PIECE: usize = 4096;

/// Cuts a string into pieces, between characters.
pub(crate) fn pieces(mut bytes: &[u8], is_utf8: bool) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let mut len = bytes.len().min(PIECE);
        // A character has at most three bytes after its first.
        let goes_on =
            |len: usize| bytes.get(len).is_some_and(|byte| is_utf8 && byte & 0xc0 == 0x80);
        len += (0..3).take_while(|n| goes_on(len + n)).count();
        let piece;
        (piece, bytes) = bytes.split_at(len);
        Some(piece)
    })
}

pub(crate) fn trim_spaces(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
    &bytes[..len]
}

fn compare_padded(a: &[u8], b: &[u8], weight: impl Fn(u8) -> u8) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        if x != y {
            match weight(*x).cmp(&weight(*y)) {
                Ordering::Equal => {}
                other => return other,
            }
        }
    }
    let common = a.len().min(b.len());
    let versus_spaces = |rest: &[u8]| {
        rest.iter()
            .map(|byte| weight(*byte).cmp(&b' '))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    if a.len() > common {
        versus_spaces(&a[common..])
    } else {
        versus_spaces(&b[common..]).reverse()
    }
}

#[inline]
fn general_weight(bytes: &[u8]) -> (u16, usize) {
    let first = bytes[0];
    if first < 0x80 {
        return (u16::from(first.to_ascii_uppercase()), 1);
    }
    match decode_utf8(bytes) {
        Some((code, len)) => (general_ci::weight(code), len),
        None => (0xff00 + u16::from(first), 1),
    }
}

fn compare_general(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        if x == y && x < 0x80 {
            (a, b) = (&a[1..], &b[1..]);
            continue;
        }
        let ((x, x_len), (y, y_len)) = (general_weight(a), general_weight(b));
        if x != y {
            return x.cmp(&y);
        }
        (a, b) = (&a[x_len..], &b[y_len..]);
    }
    let versus_spaces = |mut rest: &[u8]| {
        while !rest.is_empty() {
            let (weight, len) = general_weight(rest);
            if weight != u16::from(b' ') {
                return weight.cmp(&u16::from(b' '));
            }
            rest = &rest[len..];
        }
        Ordering::Equal
    };
    if a.is_empty() { versus_spaces(b).reverse() } else { versus_spaces(a) }
}

/// Calls `visit` with the weight bytes of each character.
#[inline]
fn each_general(bytes: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut at = 0;
    while at < bytes.len() {
        let (weight, len) = general_weight(&bytes[at..]);
        at += len;
        match weight {
            0..=0x7f => visit(&[weight as u8]),
            0x80..=0x7ff => visit(&[0xc0 | (weight >> 6) as u8, 0x80 | (weight & 0x3f) as u8]),
            _ => visit(&[
                0xe0 | (weight >> 12) as u8,
                0x80 | (weight >> 6 & 0x3f) as u8,
                0x80 | (weight & 0x3f) as u8,
            ]),
        }
    }
}

/// Like the standard library's `is_ascii`, which checks the rest after its blocks of 64 bytes byte
/// by byte. Most strings here have some tens of bytes.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    let of_rest = rest.iter().fold(0, |all, byte| all | byte);
    of_words & 0x8080_8080_8080_8080 == 0 && of_rest < 0x80
}

fn append_general(bytes: &[u8], out: &mut Vec<u8>) {
    if !is_ascii(bytes) {
        return each_general(bytes, |weight| out.extend_from_slice(weight));
    }
    let start = out.len();
    out.extend_from_slice(bytes);
    // `make_ascii_uppercase` works byte by byte. The compiler vectorizes this loop.
    for byte in &mut out[start..] {
        *byte ^= u8::from(byte.is_ascii_lowercase()) << 5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_lead_back() {
        for collation in Collation::ALL {
            assert_eq!(Collation::from_id(collation.id()), Some(collation));
            assert_eq!(Collation::from_name(collation.name()), Some(collation));
            assert_eq!(collation.bin().charset(), collation.charset());
        }
        assert_eq!(Collation::from_name("UTF8_general_ci"), Some(Collation::Utf8mb3GeneralCi));
        assert_eq!(Collation::from_name("klingon_ci"), None);
    }

    #[test]
    fn weights_of_many_bytes_are_those_of_each() {
        let ascii: String = (0..128u8).map(char::from).collect();
        for text in [
            "",
            "a",
            &ascii,
            "abcdéfgh",
            "ééééééééé",
            "0123456é",
            "ab\u{1f600}cdefghijkl",
            "straße und so weiter",
        ] {
            for cut in 0..=text.len() {
                let (mut fast, mut slow) = (Vec::new(), Vec::new());
                append_general(&text.as_bytes()[..cut], &mut fast);
                each_general(&text.as_bytes()[..cut], |weight| slow.extend_from_slice(weight));
                assert_eq!(fast, slow, "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn trailing_spaces_count_where_nothing_is_padded() {
        for collation in Collation::ALL {
            let equal = collation.equal(b"a", b"a  ");
            let name = collation.name();
            assert_eq!(equal, name != "binary" && !name.contains("0900"), "{collation:?}");
            // A character below the space sorts before the padded string.
            assert_eq!(
                collation.compare(b"a\t", b"a"),
                if collation.pads() { Ordering::Less } else { Ordering::Greater }
            );
        }
    }

    #[test]
    fn equal_strings_hash_equal() {
        use std::hash::DefaultHasher;
        let hash = |collation: Collation, text: &str| {
            let mut state = DefaultHasher::new();
            collation.hash(text.as_bytes(), &mut state);
            state.finish()
        };
        let general = Collation::Utf8mb4GeneralCi;
        let (long, accented) = ("e".repeat(200), "é".repeat(200));
        for (a, b) in
            [("straSe", "STRAßE  "), (&long[..], &accented[..]), ("", "   "), ("東E", "東é")]
        {
            assert!(general.equal(a.as_bytes(), b.as_bytes()));
            assert_eq!(hash(general, a), hash(general, b), "{a} {b}");
        }
        assert_ne!(hash(general, "ab"), hash(general, "ac"));
        assert_ne!(hash(Collation::Binary, "a"), hash(Collation::Binary, "a "));
        assert_eq!(hash(Collation::Latin1SwedishCi, "aB"), hash(Collation::Latin1SwedishCi, "Ab "));
    }

    #[test]
    fn weight_bytes_are_weights_one_after_the_other() {
        for collation in Collation::ALL {
            for text in ["", "aB c  ", "éßж東😀", "caf\u{e9} \u{ff80}"]
                .map(str::as_bytes)
                .into_iter()
                .chain([&b"a\x80\xe6\x9d"[..], b"\xa9\xc3"])
            {
                let (mut rest, mut wanted) = (text, Vec::new());
                while !rest.is_empty() {
                    let (weight, len) = collation.char_weight(rest);
                    rest = &rest[len..];
                    match char::from_u32(weight) {
                        Some(c) if collation.charset().is_utf8() => {
                            wanted.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes())
                        }
                        _ => wanted.push(weight as u8),
                    }
                }
                assert_eq!(*collation.weight_bytes(text), wanted, "{collation:?} {text:x?}");
            }
        }
    }

    #[test]
    fn cases_and_accents() {
        let general = Collation::Utf8mb4GeneralCi;
        assert!(general.equal("straSe".as_bytes(), "STRAßE".as_bytes()));
        assert!(general.equal("Éa".as_bytes(), "eA ".as_bytes()));
        assert!(!Collation::Utf8mb4Bin.equal(b"a", b"A"));
        assert_eq!(general.compare(b"b", "ä".as_bytes()), Ordering::Greater);
        assert!(Collation::Latin1SwedishCi.equal(b"\xc4", b"\xe6"));
        assert_eq!(Collation::Latin1SwedishCi.compare(b"Z", b"\xe5"), Ordering::Less);
        assert!(Collation::AsciiGeneralCi.equal(b"abc", b"ABC"));
    }
}

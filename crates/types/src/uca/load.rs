//! Reads a file of weights (`generate.py` writes it), and makes the weights that are not in it.
//!
//! A file has a record for each character with an entry, in order:
//!
//! | bytes | |
//! |---|---|
//! | 1 | bits 0-3: the number of elements, or 15 for an alias; bit 4: all elements have the secondary weight 0x20 and the tertiary weight 2; bit 5: a gap follows |
//! | varint | the gap, if bit 5 is set: code points without an entry before this one |
//! | varint | of an alias: the code point whose implicit weights this character has |
//! | varint | of each element: its primary code less that of the last element, as a zigzag number |
//! | 2 | of each element, if bit 4 is clear: the secondary weight less 0x1f and the tertiary weight |
use super::{Element, Elements, Entry, Table, Version};

/// The second bytes of codes are `FIRST_TRAIL..=0xff`.
const FIRST_TRAIL: u8 = 0x21;
const TRAILS: u32 = 0x100 - FIRST_TRAIL as u32;
/// The leads of implicit weights, and the code point with the least weight under each. In the
/// algorithm's terms: FB00, FB40, FB41, FB80, FB84, FB85, FBC0, FBC1.
pub(super) const BLOCKS: [(u8, u32); 8] = [
    (0xf5, 0x17000),
    (0xf6, 0),
    (0xf7, 0x8000),
    (0xf8, 0),
    (0xf9, 0x20000),
    (0xfa, 0x28000),
    (0xfb, 0),
    (0xfc, 0x8000),
];
/// FBC2 and above, in two bytes.
const ABOVE: u8 = 0xfd;
/// FFFD, of all supplementary characters in version 4.0.0.
const BEYOND: u8 = 0xfe;
const INVALID: u8 = 0xff;
/// The secondary weight 0x20 and the tertiary weight 2, as an element holds them.
const USUAL_SECONDARY: u8 = 1;
const USUAL_TERTIARY: u8 = 2;

const HANGUL: std::ops::RangeInclusive<u32> = 0xac00..=0xd7af;

pub(super) fn invalid(byte: u8) -> Element {
    let primary = u16::from_be_bytes([INVALID, byte]);
    Element { primary, secondary: USUAL_SECONDARY, tertiary: USUAL_TERTIARY }
}

/// The number of bytes of each weight, by its first byte.
pub(super) fn lengths(ascii: &[u8; 128]) -> [u8; 256] {
    let mut lengths = [2; 256];
    ascii.iter().for_each(|lead| lengths[usize::from(*lead)] = 1);
    BLOCKS.iter().for_each(|(lead, _)| lengths[usize::from(*lead)] = 3);
    lengths[usize::from(ABOVE)] = 4;
    lengths[usize::from(BEYOND)] = 1;
    lengths
}

/// The weights of a character without an entry (UTS #10, section 10.1.3), with the blocks of the
/// table's version.
pub(super) fn implicit(version: Version, code: u32) -> Elements {
    let lead = match (version, code) {
        (Version::V400, 0x10000..) => {
            let primary = u16::from_be_bytes([BEYOND, 0]);
            return Elements::One(Element {
                primary,
                secondary: USUAL_SECONDARY,
                tertiary: USUAL_TERTIARY,
            });
        }
        (Version::V900, 0x17000..=0x18aff) => return pair([0xf5, 0], code - 0x17000),
        (_, 0x3400..=0x4db5) => [0xf8, 0],
        (Version::V900, 0x20000..=0x27fff) => [0xf9, 0],
        (Version::V900, 0x28000..=0x2a6d6)
        | (Version::V900, 0x2a700..=0x2b734)
        | (Version::V900, 0x2b740..=0x2b81d)
        | (Version::V900, 0x2b820..=0x2cea1) => [0xfa, 0],
        (_, 0x4e00..=0x7fff) => [0xf6, 0],
        (_, 0x8000..=0x9fa5) => [0xf7, 0],
        (Version::V900, 0x9fa6..=0x9fd5 | 0xfa0e..=0xfa29) => [0xf7, 0],
        (_, 0..=0x7fff) => [0xfb, 0],
        (_, 0x8000..=0xffff) => [0xfc, 0],
        _ => [ABOVE, FIRST_TRAIL + (code >> 15) as u8 - 2],
    };
    pair(lead, code & 0x7fff)
}

fn pair(lead: [u8; 2], low: u32) -> Elements {
    let trail = |n: u32| FIRST_TRAIL + n as u8;
    let first = Element {
        primary: u16::from_be_bytes(lead),
        secondary: USUAL_SECONDARY,
        tertiary: USUAL_TERTIARY,
    };
    let primary = u16::from_be_bytes([trail(low / TRAILS), trail(low % TRAILS)]);
    Elements::Two([first, Element { primary, secondary: 0, tertiary: 0 }])
}

/// The inverse of `pair` for the leads of one byte.
pub(super) fn unpair(lead: u16, low: u16) -> Option<u32> {
    let [lead, zero] = lead.to_be_bytes();
    let (_, base) = BLOCKS.iter().find(|(of_block, _)| *of_block == lead && zero == 0)?;
    let [first, second] = low.to_be_bytes().map(|byte| byte.checked_sub(FIRST_TRAIL));
    Some(base + u32::from(first?) * TRAILS + u32::from(second?))
}

struct Reader {
    rest: &'static [u8],
}

impl Reader {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().expect("UCA: a whole record");
        self.rest = rest;
        *first
    }

    fn varint(&mut self) -> u32 {
        let (mut n, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            n |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return n;
            }
            shift += 7;
        }
    }
}

impl Table {
    fn set(&mut self, code: u32, entry: Entry) {
        let page = &mut self.pages[(code >> 8) as usize];
        if *page == 0 {
            let first = code & !0xff;
            self.entries.push(std::array::from_fn(|n| Entry::Implicit(first + n as u32)));
            *page = self.entries.len() as u16;
        }
        let page = usize::from(*page) - 1;
        self.entries[page][(code & 0xff) as usize] = entry;
    }

    fn set_elements(&mut self, code: u32, elements: &[Element]) {
        let entry = match elements {
            [] => Entry::One(Element::default()),
            [one] => Entry::One(*one),
            many => {
                let start = self.elements.len() as u32;
                self.elements.extend_from_slice(many);
                Entry::Many { start, len: many.len() as u8 }
            }
        };
        self.set(code, entry);
    }

    fn first_of(&self, code: u32) -> Element {
        match self.entry(code) {
            Entry::One(element) => element,
            Entry::Many { start, .. } => self.elements[start as usize],
            Entry::Implicit(_) => Element::default(),
        }
    }

    /// Since 9.0.0, a Hangul syllable has the weights of its letters, with a tertiary weight that
    /// is greater by one.
    fn set_hangul(&mut self) {
        for code in HANGUL {
            let n = code - HANGUL.start();
            let (lead, vowel, trail) = (n / (21 * 28), n % (21 * 28) / 28, n % 28);
            let jamos =
                [Some(0x1100 + lead), Some(0x1161 + vowel), (trail > 0).then_some(0x11a7 + trail)];
            let elements: Vec<Element> = jamos
                .into_iter()
                .flatten()
                .map(|jamo| self.first_of(jamo))
                .map(|element| Element { tertiary: element.tertiary + 1, ..element })
                .collect();
            self.set_elements(code, &elements);
        }
    }
}

pub(super) fn table(version: Version, file: &'static [u8]) -> Table {
    let mut table = Table {
        version,
        pages: vec![0; 0x1100].into(),
        entries: Vec::new(),
        elements: Vec::new(),
        ascii: [0; 128],
        lengths: [0; 256],
    };
    let mut reader = Reader { rest: file };
    let (mut code, mut last) = (0, 0i32);
    while !reader.rest.is_empty() {
        let head = reader.byte();
        if head & 0x20 != 0 {
            code += reader.varint();
        }
        if head & 0xf == 0xf {
            let of = reader.varint();
            table.set(code, Entry::Implicit(of));
        } else {
            let mut elements = [Element::default(); 8];
            for element in &mut elements[..usize::from(head & 0xf)] {
                let zigzag = reader.varint();
                last += (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
                let (secondary, tertiary) = if head & 0x10 != 0 {
                    (USUAL_SECONDARY, USUAL_TERTIARY)
                } else {
                    (reader.byte(), reader.byte())
                };
                *element = Element { primary: last as u16, secondary, tertiary };
            }
            table.set_elements(code, &elements[..usize::from(head & 0xf)]);
        }
        code += 1;
    }
    if version == Version::V900 {
        table.set_hangul();
    }
    table.ascii = std::array::from_fn(|n| (table.first_of(n as u32).primary >> 8) as u8);
    table.lengths = lengths(&table.ascii);
    table
}

use super::*;
use crate::Collation;

const COLLATIONS: [Collation; 7] = [
    Collation::Utf8mb4UnicodeCi,
    Collation::Utf8mb4Unicode520Ci,
    Collation::Utf8mb4Uca0900AiCi,
    Collation::Utf8mb4Uca0900AsCi,
    Collation::Utf8mb4Uca0900AsCs,
    Collation::Utf8mb3UnicodeCi,
    Collation::Utf8mb3Unicode520Ci,
];
const AI_CI: Collation = Collation::Utf8mb4Uca0900AiCi;
const AS_CI: Collation = Collation::Utf8mb4Uca0900AsCi;
const AS_CS: Collation = Collation::Utf8mb4Uca0900AsCs;
const UNICODE: Collation = Collation::Utf8mb4UnicodeCi;
const UNICODE_520: Collation = Collation::Utf8mb4Unicode520Ci;

/// FNV-1a of the weight bytes of every character.
fn fingerprint(uca: &'static Uca) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut out = Vec::new();
    for c in (0..=0x10ffff).filter_map(char::from_u32) {
        out.clear();
        uca.append_weights(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out);
        out.push(0);
        for byte in &out {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// WEIGHT-1: the weight bytes are in index keys on disk.
#[test]
fn weights_are_frozen() {
    assert_eq!(
        [&UNICODE_CI, &UNICODE_520_CI, &UCA_0900_AI_CI, &UCA_0900_AS_CI, &UCA_0900_AS_CS]
            .map(fingerprint)
            .map(|hash| format!("{hash:016x}")),
        [
            "cddf01be3724220f",
            "6bed4244e1ceaf5a",
            "ccb7d8961528f82e",
            "98e440663b5d3150",
            "42d8d3f330cece57"
        ]
    );
}

/// UCA-2
#[test]
fn codes_keep_the_bytes_of_spaces_and_separators() {
    for uca in [&UNICODE_CI, &UNICODE_520_CI, &UCA_0900_AI_CI] {
        let table: &'static Table = uca.table;
        let mut last = 0;
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            assert!(table.elements_of(c as u32).as_slice().len() <= MOST_ELEMENTS, "{c:?}");
            for element in table.elements_of(c as u32).as_slice() {
                let [first, second] = element.primary.to_be_bytes();
                assert!(second == 0 || second > SPACE, "{c:?} {element:?}");
                assert!(first != SPACE || second == 0, "{c:?} {element:?}");
                last = last.max(element.primary);
            }
        }
        assert!(last < 0xff00);
        assert_eq!(table.ascii[usize::from(SPACE)], SPACE);
    }
}

/// UCA-1
#[test]
fn a_prefix_cuts_between_weights() {
    let all: String = ['a', '東', '\u{e000}', '😀', 'ß', '\u{301}', '\u{3358}', '\u{fdfa}', '각']
        .into_iter()
        .chain((0x100..0x2000).step_by(7).filter_map(char::from_u32))
        .collect();
    for uca in [&UNICODE_CI, &UNICODE_520_CI, &UCA_0900_AI_CI] {
        let table: &'static Table = uca.table;
        let mut whole = Vec::new();
        uca.append_primary(all.as_bytes(), &mut whole);
        let (mut at, mut n) = (0, 0);
        while at < whole.len() {
            let mut cut = Vec::new();
            uca.append_prefix(all.as_bytes(), n, &mut cut);
            let mut wanted = whole[..at].to_vec();
            if uca.pads {
                uca.trim(0, &mut wanted);
            }
            assert_eq!(cut, wanted, "{n}");
            at += usize::from(table.lengths[usize::from(whole[at])]);
            n += 1;
        }
        assert_eq!(at, whole.len());
    }
}

#[test]
fn letters_accents_and_cases() {
    for (a, b, equal_in) in [
        ("a", "A", &[UNICODE, UNICODE_520, AI_CI, AS_CI][..]),
        ("e", "é", &[UNICODE, UNICODE_520, AI_CI]),
        ("é", "e\u{301}", &[UNICODE, UNICODE_520, AI_CI, AS_CI, AS_CS]),
        ("ß", "ss", &[UNICODE, UNICODE_520, AI_CI]),
        ("ﬁ", "fi", &[UNICODE, UNICODE_520, AI_CI, AS_CI]),
        ("l", "ł", &[UNICODE_520, AI_CI]),
        ("東", "\u{f900}", &[]),
        ("\u{8c48}", "\u{f900}", &[UNICODE, UNICODE_520, AI_CI, AS_CI, AS_CS]),
        ("a\u{ad}b", "ab", &[AI_CI, AS_CI, AS_CS]),
        ("a\0", "a", &[UNICODE, UNICODE_520, AI_CI, AS_CI, AS_CS]),
        ("a ", "a", &[UNICODE, UNICODE_520]),
        ("a\u{a0}", "a", &[UNICODE, UNICODE_520]),
        ("a\u{a0}", "a ", &[UNICODE, UNICODE_520, AI_CI, AS_CI]),
        ("\u{326e}", "가", &[AI_CI, AS_CI]),
        ("가", "\u{1100}\u{1161}", &[AI_CI, AS_CI]),
        ("😀", "🦀", &[UNICODE]),
        ("ａ", "a", &[UNICODE, UNICODE_520, AI_CI, AS_CI]),
        ("²", "2", &[UNICODE, UNICODE_520, AI_CI, AS_CI]),
    ] {
        for collation in [UNICODE, UNICODE_520, AI_CI, AS_CI, AS_CS] {
            let equal = collation.equal(a.as_bytes(), b.as_bytes());
            assert_eq!(equal, equal_in.contains(&collation), "{a:?} {b:?} {collation:?}");
        }
    }
    let sorted = ["", " ", "_", "-", "$", "0", "9", "a", "A", "á", "Á", "ab", "b", "z", "ж", "東"];
    assert!(sorted.windows(2).all(|w| AS_CS.compare(w[0].as_bytes(), w[1].as_bytes()).is_lt()));
}

/// The characters that stand for others weigh what those weigh, and no two representatives weigh
/// the same.
#[test]
fn representatives_stand_for_equal_characters() {
    for collation in COLLATIONS {
        let mut seen = std::collections::HashMap::new();
        for c in (0..=0x1ffff).filter_map(char::from_u32) {
            if c as u32 > 0xffff && collation.charset() == crate::Charset::Utf8mb3 {
                break;
            }
            let (mut one, mut weights) = ([0; 4], Vec::new());
            let one = c.encode_utf8(&mut one).as_bytes();
            let (folded, len) = collation.char_weight(one);
            assert_eq!(len, one.len());
            collation.append_weights(one, &mut weights);
            if c == ' ' || c == '\u{a0}' || weights.is_empty() {
                continue; // Spaces and ignored characters have no weights at the end.
            }
            let same = seen.entry(weights).or_insert(folded);
            assert_eq!(*same, folded, "{c:?} {collation:?}");
            let folded = char::from_u32(folded).unwrap();
            assert!(collation.equal(one, folded.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        assert_eq!(
            collation.char_weight("\u{301}".as_bytes()).0 == 0,
            collation != AS_CI && collation != AS_CS
        );
    }
}

/// Sorted by another implementation of the algorithm (pyuca 1.2), from which the contractions were
/// taken out. It sorted 100,000 more with the same result.
#[test]
fn strings_are_in_the_order_of_the_algorithm() {
    let lines = include_str!("order.txt");
    let strings: Vec<&str> = lines.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(strings.len() > 1000);
    for pair in strings.windows(2) {
        let order =
            |(a, b): (&str, &str)| AS_CS.compare(unescaped(a).as_bytes(), unescaped(b).as_bytes());
        assert_eq!(order((pair[0], pair[1])), Ordering::Less, "{pair:?}");
    }
}

fn unescaped(hex: &str) -> String {
    hex.split(' ')
        .map(|code| char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap())
        .collect()
}

//! The size of a regular expression's text.
//!
//! The library compiles a pattern in one call, which KILL cannot end. A syntax tree takes some 300
//! bytes for each byte of the text, and a class of Unicode characters takes up to a millisecond,
//! because the library looks up the other case of each character. A class within a class takes 20
//! times as long. A pattern that is too large is therefore refused before the library sees it.

/// The longest text of a pattern, in bytes.
const MOST_BYTES: usize = 64 << 10;
/// The greatest weight of a pattern's classes.
const MOST_CLASSES: usize = 512;
/// The weight of a class within another class.
const NESTED: usize = 16;
/// Larger patterns take more than a millisecond, and are compiled beside the workers (PACE-1).
const SMALL_BYTES: usize = 1 << 10;
const SMALL_CLASSES: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternSize {
    Small,
    Large,
    TooLarge,
}

impl PatternSize {
    pub fn of(pattern: &[u8]) -> PatternSize {
        if pattern.len() > MOST_BYTES {
            return PatternSize::TooLarge;
        }
        match classes(pattern) {
            n if n > MOST_CLASSES => PatternSize::TooLarge,
            n if n > SMALL_CLASSES || pattern.len() > SMALL_BYTES => PatternSize::Large,
            _ => PatternSize::Small,
        }
    }
}

/// The weight of the classes: `[..]`, and escapes such as `\w`.
fn classes(pattern: &[u8]) -> usize {
    // Where spaces do not count, a class may begin with spaces and `]`, so its end is uncertain.
    let is_verbose = ignores_spaces(pattern);
    let (mut weight, mut depth, mut at) = (0, 0usize, 0);
    while let Some(byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'\\' => {
                weight += usize::from(pattern.get(at).is_some_and(|b| b"dDpPsSwW".contains(b)));
                at += 1;
            }
            b'[' => {
                let rest = &pattern[at..];
                if depth > 0
                    && let Some(len) = posix_class(rest)
                {
                    weight += 1;
                    at += len;
                    continue;
                }
                weight += if depth > 0 || is_verbose { NESTED } else { 1 };
                depth += 1;
                // A `]` that comes first is a character of the class.
                at += usize::from(rest.starts_with(b"^"));
                at += usize::from(pattern.get(at) == Some(&b']'));
            }
            b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    weight
}
/// The length of `:alpha:]` at the front of a text.
pub fn posix_class(rest: &[u8]) -> Option<usize> {
    let name = rest.strip_prefix(b":")?;
    let len = name.iter().take_while(|b| b.is_ascii_alphabetic() || **b == b'^').count();
    name[len..].starts_with(b":]").then_some(len + 3)
}
/// Whether the flag `x` is set somewhere: `(?x)`.
pub fn ignores_spaces(pattern: &[u8]) -> bool {
    pattern.windows(2).enumerate().filter(|(_, two)| two == b"(?").any(|(at, _)| {
        pattern[at + 2..].iter().take_while(|b| b.is_ascii_alphabetic()).any(|b| *b == b'x')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        for (pattern, expected) in [
            ("abc|d*", 0),
            (r"\w\d\\w\n", 2),
            ("[a][^b][]c][^]d]", 4),
            ("[[:alpha:][:^digit:]_]", 3),
            ("[a[^b]]c[d]", 2 + NESTED),
            (r"\[[a\]b][c]", 2),
            ("[][][]", 1 + 2 * NESTED),
            ("[[:x[^a]:]]", 1 + 2 * NESTED),
            ("(?ix:[ ][ ])", 2 * NESTED),
            ("(?i:x[ ])", 1),
        ] {
            assert_eq!(classes(pattern.as_bytes()), expected, "{pattern}");
        }
    }
    #[test]
    fn sizes() {
        let size = |pattern: &str| PatternSize::of(pattern.as_bytes());
        assert_eq!(size(r"^[a-z]+@\w+$"), PatternSize::Small);
        assert_eq!(size(&r"\w".repeat(5)), PatternSize::Large);
        assert_eq!(size(&"a|".repeat(20_000)), PatternSize::Large);
        assert_eq!(size(&"a|".repeat(40_000)), PatternSize::TooLarge);
        assert_eq!(size(&r"\pL".repeat(600)), PatternSize::TooLarge);
        assert_eq!(size(&r"[^\w".repeat(50)), PatternSize::TooLarge);
    }
}

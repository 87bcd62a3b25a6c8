//! The third argument of REGEXP_REPLACE(): text, and references to groups.
use super::threads::{Groups, NOWHERE, Threads};
use crate::error::{Result, SqlError};
use std::ops::Range;

/// A replacement: parts of text, and groups of which the text is copied.
pub struct Replacement {
    parts: Vec<Part>,
    /// The groups other than the match itself, ascending.
    pub groups: Vec<usize>,
}

/// The most that a reference to a group takes while a replacement is read: lists that grow exist
/// twice for a while.
pub const REFERENCE_BYTES: usize = 2 * (size_of::<Part>() + 3 * size_of::<usize>());

enum Part {
    Text(Vec<u8>),
    /// The match itself.
    Whole,
    /// The group with this position in the list of groups.
    Group(usize),
}

impl Replacement {
    /// Reads a replacement as ICU does: `$1` and `${name}` are groups, `\\` makes the next
    /// character text, and `\\u0041` is a character. `$12` is group 1 and the text 2 if there are
    /// fewer than 12 groups. `groups` makes the groups of the pattern when they are needed.
    pub fn parse<'g>(
        text: &[u8],
        groups: impl FnOnce() -> Result<&'g mut Groups>,
    ) -> Result<Replacement> {
        let mut replacement = Replacement { parts: Vec::new(), groups: Vec::new() };
        if !text.iter().any(|byte| matches!(byte, b'$' | b'\\')) {
            replacement.text(text);
            return Ok(replacement);
        }
        let groups = groups()?;
        let mut found = Vec::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match byte {
                b'\\' => replacement.escape(after),
                b'$' => {
                    let (group, after) = reference(after, groups)?;
                    found.push((replacement.parts.len(), group));
                    replacement.parts.push(Part::Whole);
                    after
                }
                _ => {
                    let special = |byte: &u8| matches!(byte, b'$' | b'\\');
                    let end = rest.iter().position(special).unwrap_or(rest.len());
                    replacement.text(&rest[..end]);
                    &rest[end..]
                }
            };
        }
        let mut wanted: Vec<usize> =
            found.iter().map(|(_, group)| *group).filter(|n| *n > 0).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for (part, group) in found {
            if let Ok(position) = wanted.binary_search(&group) {
                replacement.parts[part] = Part::Group(position);
            }
        }
        replacement.groups = wanted;
        Ok(replacement)
    }
    fn text(&mut self, text: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.extend_from_slice(text),
            _ => self.parts.push(Part::Text(text.to_vec())),
        }
    }
    /// Adds what a backslash makes of the text behind it. Returns the rest.
    fn escape<'t>(&mut self, after: &'t [u8]) -> &'t [u8] {
        let Some(&first) = after.first() else { return after };
        let digits = match first {
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        let code = after.get(1..=digits).filter(|code| !code.is_empty()).and_then(|code| {
            code.iter().try_fold(0u32, |n, byte| {
                Some(n.checked_mul(16)? + char::from(*byte).to_digit(16)?)
            })
        });
        if let Some(c) = code.and_then(char::from_u32) {
            self.text(c.encode_utf8(&mut [0; 4]).as_bytes());
            return &after[1 + digits..];
        }
        // The bytes that go on with a character are no special characters.
        self.text(&after[..1]);
        &after[1..]
    }

    /// The number of bytes of the replacement of a match.
    pub fn len(&self, found: &Range<usize>, threads: Option<&Threads>) -> usize {
        let len = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Whole => found.len(),
            Part::Group(n) => group(threads, *n).len(),
        };
        self.parts.iter().map(len).fold(0, usize::saturating_add)
    }
    pub fn write(
        &self,
        text: &[u8],
        found: &Range<usize>,
        threads: Option<&Threads>,
        out: &mut Vec<u8>,
    ) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Whole => out.extend_from_slice(&text[found.clone()]),
                Part::Group(n) => out.extend_from_slice(&text[group(threads, *n)]),
            }
        }
    }
}

/// The part of the text that a group has matched: nothing if it took no part in the match.
fn group(threads: Option<&Threads>, n: usize) -> Range<usize> {
    match threads.map(|threads| (threads.place(2 * n), threads.place(2 * n + 1))) {
        Some((start, end)) if start != NOWHERE && end != NOWHERE && start <= end => start..end,
        _ => 0..0,
    }
}

/// The group that `$` and the text behind it refer to, and the rest of the text.
fn reference<'t>(after: &'t [u8], groups: &Groups) -> Result<(usize, &'t [u8])> {
    if let Some(name) = after.strip_prefix(b"{") {
        let end = name.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(name.len());
        let group = std::str::from_utf8(&name[..end]).ok().and_then(|name| groups.by_name(name));
        return match group {
            Some(group) if name.get(end) == Some(&b'}') => Ok((group, &name[end + 1..])),
            _ => Err(SqlError::regexp_group_name()),
        };
    }
    let (mut group, mut digits) = (0, 0);
    for byte in after.iter().take_while(|byte| byte.is_ascii_digit()) {
        let more = group * 10 + usize::from(byte - b'0');
        if more > groups.count() {
            break;
        }
        (group, digits) = (more, digits + 1);
    }
    match after.first() {
        Some(byte) if byte.is_ascii_digit() && digits == 0 => Err(SqlError::regexp_index()),
        Some(byte) if byte.is_ascii_digit() => Ok((group, &after[digits..])),
        _ => Err(SqlError::regexp_group_name()),
    }
}

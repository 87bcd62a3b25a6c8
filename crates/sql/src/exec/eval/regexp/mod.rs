//! REGEXP, REGEXP_LIKE(), REGEXP_INSTR(), REGEXP_SUBSTR() and REGEXP_REPLACE().
//!
//! A search is linear in the text for every pattern, but the cost of each byte grows with the size
//! of the pattern. Four megabytes of text and a pattern of four thousand repetitions took minutes,
//! in one call that KILL could not end. If a search may take long, it steps the automaton byte by
//! byte and now and then asks whether to go on (PACE-2). The automaton that is in one state at a
//! time (a DFA) is the fast one. The DFA cannot decide word borders beside characters that are not
//! ASCII; then the search goes on over sets of states (Thompson, 1968).
mod functions;
mod pattern;
mod pattern_size;
mod recent;
mod replacement;
mod steps;
#[cfg(test)]
mod tests;
mod threads;

use crate::error::{Result, SqlError};
use pattern::Pattern;
use pattern_size::PatternSize;
pub use recent::RecentPatterns;
use redolith_types::Collation;
use regex_automata::Input;
use regex_automata::meta::{Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use steps::Steps;
use threads::Groups;

/// The greatest size of a compiled regular expression, in bytes.
const PATTERN_BYTES: usize = 1 << 20;
/// A pattern of at most this size is compiled in less than a millisecond, and has some thousand
/// states at most.
const SMALL_PATTERN_BYTES: usize = 64 << 10;
/// Texts with fewer bytes are searched in one call if the pattern is small.
const LONG_TEXT: usize = 512;
/// A longer text is searched in one call, too, if its bytes times the automaton's states are no
/// more than this: the call takes some milliseconds at worst.
const FEW_STEPS: usize = 1 << 20;
/// The greatest number of bytes between two calls of `stop`.
const WINDOW: usize = 256;
/// The number of states visited between two calls of `stop`. The automaton may be in all its
/// states at once; then one byte visits all of them.
const STEPS_PER_LOOK: usize = 64 << 10;

/// A compiled pattern.
pub struct Compiled {
    pattern: Vec<u8>,
    collation: Collation,
    how: MatchType,
    regex: Regex,
    /// The pattern for the library, from which other automata are made.
    source: Arc<Pattern>,
    /// The last line feed of a text is replaced in what is searched.
    replaces_feed: bool,
    /// The compiled pattern takes no more than [`SMALL_PATTERN_BYTES`].
    is_small: bool,
    /// Made for the first long text. The inner None means that no automaton could be made.
    steps: Option<Option<Box<Steps>>>,
    /// Made for the first replacement that refers to groups.
    groups: Option<Groups>,
}

/// How a function is asked to match.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MatchType {
    /// Whether letters of either case are equal. If None, the collation says so.
    ignores_case: Option<bool>,
    /// `^` and `$` also match at the ends of lines.
    by_line: bool,
    /// `.` also matches the end of a line.
    dot_matches_all: bool,
}

impl MatchType {
    /// Reads the letters of an argument. The last of two that contradict each other counts. None if
    /// there is no such type.
    fn parse(letters: &[u8]) -> Option<MatchType> {
        let mut how = MatchType::default();
        for letter in letters {
            match letter {
                b'c' => how.ignores_case = Some(false),
                b'i' => how.ignores_case = Some(true),
                b'm' => how.by_line = true,
                b'n' => how.dot_matches_all = true,
                // Only a line feed ends a line: so it is without this letter, too.
                b'u' => {}
                _ => return None,
            }
        }
        Some(how)
    }
    /// Bytes without a character set have no cases.
    fn ignores_case(self, collation: Collation) -> bool {
        let by_collation = collation.is_case_insensitive();
        collation != Collation::Binary && self.ignores_case.unwrap_or(by_collation)
    }
    /// What the library needs to know. A pattern for text finds whole characters only: one that
    /// could find a part of a character is illegal.
    fn syntax(self, collation: Collation) -> syntax::Config {
        let is_text = collation != Collation::Binary;
        syntax::Config::new()
            .case_insensitive(self.ignores_case(collation))
            .multi_line(self.by_line)
            .dot_matches_new_line(self.dot_matches_all)
            .unicode(is_text)
            .utf8(is_text)
    }
}

impl Compiled {
    /// Compiles `pattern`, which must be valid UTF-8. Calls `before_long` before work that takes
    /// more than a millisecond.
    pub fn new(
        pattern: &[u8],
        collation: Collation,
        how: MatchType,
        before_long: impl FnOnce(),
    ) -> Result<Compiled> {
        if pattern.is_empty() {
            return Err(SqlError::new(3685, "Illegal argument to a regular expression."));
        }
        let size = PatternSize::of(pattern);
        if size == PatternSize::TooLarge {
            return Err(SqlError::pattern_too_big());
        }
        let source = Pattern::new(pattern, collation, how)?;
        let mut before_long = Some(before_long);
        if size == PatternSize::Large
            && let Some(before_long) = before_long.take()
        {
            before_long();
        }
        let tree = source.tree()?;
        let compile = |bytes| {
            let config = Config::new()
                .utf8_empty(false)
                .line_terminator(tree.line_end())
                .which_captures(WhichCaptures::Implicit)
                .nfa_size_limit(Some(bytes));
            Regex::builder().configure(config).build_from_hir(&tree.hir).map_err(Box::new)
        };
        let at_once = match size {
            PatternSize::Small => Some(compile(SMALL_PATTERN_BYTES))
                .filter(|compiled| !compiled.as_ref().is_err_and(|e| e.size_limit().is_some())),
            _ => None,
        };
        let (regex, is_small) = match at_once {
            Some(regex) => (regex, true),
            None => {
                if let Some(before_long) = before_long {
                    before_long();
                }
                (compile(PATTERN_BYTES), false)
            }
        };
        let regex = regex.map_err(|e| match e.size_limit() {
            Some(_) => SqlError::pattern_too_big(),
            None => illegal(&e),
        })?;
        Ok(Compiled {
            pattern: pattern.to_vec(),
            collation,
            how,
            regex,
            source: Arc::new(source),
            replaces_feed: tree.replaces_feed,
            is_small,
            steps: None,
            groups: None,
        })
    }
    pub fn is_for(&self, pattern: &[u8], collation: Collation, how: MatchType) -> bool {
        self.pattern == pattern && self.collation == collation && self.how == how
    }

    /// The bytes to search for the pattern, which are those of `text` but for a last line feed. All
    /// places in them are places in `text`.
    pub fn searched<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if self.replaces_feed { pattern::with_last_feed(text) } else { Cow::Borrowed(text) }
    }

    /// True if the pattern is found in `text`, which is [`Self::searched`]. Now and then calls
    /// `stop`, whose error ends the search.
    pub fn is_match(&mut self, text: &[u8], stop: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        match self.steps_for(text.len()) {
            Some(steps) => steps.is_match(text, stop),
            None => Ok(self.regex.is_match(text)),
        }
    }
    /// The automaton to step, if one call over `len` bytes may take long.
    fn steps_for(&mut self, len: usize) -> Option<&mut Steps> {
        if self.is_small && len < LONG_TEXT {
            return None;
        }
        let source = &self.source;
        let steps = self.steps.get_or_insert_with(|| Steps::new(source));
        steps.as_deref_mut().filter(|steps| len.saturating_mul(steps.states()) > FEW_STEPS)
    }

    /// Where the pattern is found first in `text`, which is [`Self::searched`], from the byte
    /// `from` on. Borders of words and lines take into account what is before. Now and then calls
    /// `stop`, whose error ends the search.
    pub fn find(
        &mut self,
        text: &[u8],
        from: usize,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Range<usize>>> {
        let mut at = from;
        while at <= text.len() {
            let len = text.len() - at;
            let found = match self.steps_for(len) {
                Some(steps) => steps.find(text, at, stop)?,
                None => self.regex.find(Input::new(text).range(at..)).map(|found| found.range()),
            };
            match found {
                // Only nothing is found within a character.
                Some(range) if range.is_empty() && !self.is_border(text, range.start) => {
                    at = range.start + 1;
                }
                found => return Ok(found),
            }
        }
        Ok(None)
    }
    /// True unless `at` is within a character.
    fn is_border(&self, text: &[u8], at: usize) -> bool {
        self.collation == Collation::Binary || text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
    }
    /// The place at which the search for the next match begins. A match that is empty is not found
    /// again. None if the text ends here.
    pub fn after(&self, text: &[u8], found: &Range<usize>) -> Option<usize> {
        if !found.is_empty() {
            return Some(found.end);
        }
        if found.end >= text.len() {
            return None;
        }
        let mut next = found.end + 1;
        while !self.is_border(text, next) {
            next += 1;
        }
        Some(next)
    }
    /// The groups of the pattern, for replacements.
    pub fn groups(&mut self) -> Result<&mut Groups> {
        if self.groups.is_none() {
            self.groups = Some(Groups::new(&self.source)?);
        }
        self.groups.as_mut().ok_or_else(SqlError::pattern_too_big)
    }
}

/// The error for a pattern that the library refuses.
fn illegal(e: &dyn std::error::Error) -> SqlError {
    let why = e.to_string().replace('\n', " ");
    SqlError::new(3685, format!("Illegal argument to a regular expression. ({why})"))
}

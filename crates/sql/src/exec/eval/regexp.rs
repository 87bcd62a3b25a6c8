//! REGEXP and REGEXP_LIKE().
//!
//! A search is linear in the text for every pattern, but the cost of each byte grows with the size
//! of the pattern. Four megabytes of text and a pattern of four thousand repetitions took minutes,
//! in one call that KILL could not end. If a search may take long, this file steps the automaton
//! byte by byte and now and then asks whether to go on (PACE-2). The automaton that is in one
//! state at a time (a DFA) is the fast one. The DFA cannot decide word borders beside characters
//! that are not ASCII; then the search goes on over sets of states (Thompson, 1968).
use super::Eval;
use super::pattern_size::PatternSize;
use crate::bind::type_rules::collation_of;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, ExprType};
use redolith_types::{Charset, Collation, Value};
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;

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
    /// The compiled pattern takes no more than [`SMALL_PATTERN_BYTES`].
    is_small: bool,
    /// Made for the first long text. The inner None means that no automaton could be made.
    steps: Option<Option<Box<Steps>>>,
}

/// How REGEXP_LIKE is asked to match.
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
}

/// The pattern as an automaton that makes its states when it first meets them.
struct Steps {
    dfa: DFA,
    cache: Cache,
    states: usize,
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
        let size = PatternSize::of(pattern);
        if size == PatternSize::TooLarge {
            return Err(SqlError::pattern_too_big());
        }
        let text = as_text(pattern)
            .map_err(|_| SqlError::invalid_string("utf8mb4", String::from_utf8_lossy(pattern)))?;
        let compile = |bytes| {
            RegexBuilder::new(&text)
                .case_insensitive(how.ignores_case(collation))
                .multi_line(how.by_line)
                .dot_matches_new_line(how.dot_matches_all)
                .unicode(collation != Collation::Binary)
                .size_limit(bytes)
                .build()
        };
        let at_once = match size {
            PatternSize::Small => compile(SMALL_PATTERN_BYTES),
            _ => Err(regex::Error::CompiledTooBig(SMALL_PATTERN_BYTES)),
        };
        let is_small = !matches!(at_once, Err(regex::Error::CompiledTooBig(_)));
        let regex = if is_small {
            at_once
        } else {
            before_long();
            compile(PATTERN_BYTES)
        };
        let regex = regex.map_err(illegal)?;
        Ok(Compiled { pattern: pattern.to_vec(), collation, how, regex, is_small, steps: None })
    }
    pub fn is_for(&self, pattern: &[u8], collation: Collation, how: MatchType) -> bool {
        self.pattern == pattern && self.collation == collation && self.how == how
    }

    /// True if the pattern is found in `text`. Now and then calls `stop`, whose error ends the
    /// search.
    pub fn is_match(&mut self, text: &[u8], stop: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        if self.is_small && text.len() < LONG_TEXT {
            return Ok(self.regex.is_match(text));
        }
        let Compiled { pattern, collation, how, .. } = self;
        let steps = self.steps.get_or_insert_with(|| Steps::new(pattern, *collation, *how));
        if let Some(steps) = steps
            && text.len().saturating_mul(steps.states) > FEW_STEPS
        {
            return match steps.is_match(text, stop)? {
                Some(found) => Ok(found),
                None => leads_to_match(steps.dfa.get_nfa(), text, stop),
            };
        }
        Ok(self.regex.is_match(text))
    }
}

impl Steps {
    fn new(pattern: &[u8], collation: Collation, how: MatchType) -> Option<Box<Steps>> {
        let syntax = syntax::Config::new()
            .case_insensitive(how.ignores_case(collation))
            .multi_line(how.by_line)
            .dot_matches_new_line(how.dot_matches_all)
            .unicode(collation != Collation::Binary)
            .utf8(false);
        let nfa = thompson::Config::new().utf8(false).which_captures(WhichCaptures::None);
        // The search goes on however often the automaton's cache is full. Only `stop` ends it.
        let config = DFA::config().unicode_word_boundary(true).skip_cache_capacity_check(true);
        let dfa = DFA::builder()
            .syntax(syntax)
            .thompson(nfa)
            .configure(config)
            .build(&as_text(pattern).ok()?)
            .ok()?;
        let (cache, states) = (dfa.create_cache(), dfa.get_nfa().states().len());
        Some(Box::new(Steps { dfa, cache, states }))
    }
    /// Returns None if the automaton cannot decide: it does not know word borders beside characters
    /// that are not ASCII.
    fn is_match(
        &mut self,
        text: &[u8],
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<bool>> {
        let Steps { dfa, cache, states } = self;
        let window = (STEPS_PER_LOOK / (*states).max(1)).clamp(1, WINDOW);
        let Ok(mut state) = dfa.start_state_forward(cache, &Input::new(text)) else {
            return Ok(None);
        };
        for part in text.chunks(window) {
            for byte in part {
                let Ok(next) = dfa.next_state(cache, state, *byte) else { return Ok(None) };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        return Ok(Some(true));
                    }
                    if state.is_dead() {
                        return Ok(Some(false));
                    }
                    if state.is_quit() {
                        return Ok(None);
                    }
                }
            }
            stop()?;
        }
        // The automaton reports a match one byte late.
        Ok(dfa.next_eoi_state(cache, state).ok().map(|end| end.is_match()))
    }
}

/// Searches with the set of all states that the text so far leads to.
fn leads_to_match(nfa: &NFA, text: &[u8], stop: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
    let (mut here, mut next) = (States::new(nfa), States::new(nfa));
    let mut steps = 0;
    let mut found = here.add(nfa, nfa.start_unanchored(), text, 0);
    for (at, byte) in text.iter().enumerate() {
        for &state in &here.list {
            let to = match nfa.state(state) {
                State::ByteRange { trans } => trans.matches_byte(*byte).then_some(trans.next),
                State::Sparse(transitions) => transitions.matches_byte(*byte),
                State::Dense(transitions) => transitions.matches_byte(*byte),
                _ => None,
            };
            found |= to.is_some_and(|to| next.add(nfa, to, text, at + 1));
        }
        if found {
            break;
        }
        steps += here.list.len() + next.list.len();
        if steps >= STEPS_PER_LOOK {
            steps = 0;
            stop()?;
        }
        std::mem::swap(&mut here, &mut next);
        next.clear();
    }
    Ok(found)
}

/// A set of the automaton's states.
struct States {
    list: Vec<StateID>,
    /// For each state: whether the state is in the list.
    has: Vec<bool>,
    open: Vec<StateID>,
}
impl States {
    fn new(nfa: &NFA) -> States {
        States { list: Vec::new(), has: vec![false; nfa.states().len()], open: Vec::new() }
    }
    fn clear(&mut self) {
        self.list.drain(..).for_each(|state| self.has[state] = false);
    }
    /// Adds a state, and all states that it leads to at this place without reading a byte. Returns
    /// true if a match is among them.
    fn add(&mut self, nfa: &NFA, state: StateID, text: &[u8], at: usize) -> bool {
        let mut found = false;
        self.open.push(state);
        while let Some(state) = self.open.pop() {
            if std::mem::replace(&mut self.has[state], true) {
                continue;
            }
            self.list.push(state);
            match nfa.state(state) {
                State::Look { look, next } if nfa.look_matcher().matches(*look, text, at) => {
                    self.open.push(*next)
                }
                State::Union { alternates } => self.open.extend_from_slice(alternates),
                State::BinaryUnion { alt1, alt2 } => self.open.extend([*alt1, *alt2]),
                State::Capture { next, .. } => self.open.push(*next),
                State::Match { .. } => found = true,
                _ => {}
            }
        }
        found
    }
}

/// The error for a pattern that the library refuses.
fn illegal(e: regex::Error) -> SqlError {
    if matches!(e, regex::Error::CompiledTooBig(_)) {
        return SqlError::pattern_too_big();
    }
    let why = e.to_string().replace('\n', " ");
    SqlError::new(3685, format!("Illegal argument to a regular expression. ({why})"))
}

/// With the word borders of MySQL 5, `[[:<:]]` and `[[:>:]]`.
fn as_text(pattern: &[u8]) -> std::result::Result<String, std::str::Utf8Error> {
    Ok(std::str::from_utf8(pattern)?.replace("[[:<:]]", r"\b").replace("[[:>:]]", r"\b"))
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn regexp(
        &mut self,
        collation: Collation,
        sides: &'v [Expr],
        how: MatchType,
    ) -> Result<Option<bool>> {
        let (text, pattern) = (self.eval(&sides[0])?, self.eval(&sides[1])?);
        if text.is_null() || pattern.is_null() {
            return Ok(None);
        }
        let charset =
            if collation == Collation::Binary { Charset::Binary } else { Charset::Utf8mb4 };
        let (text, pattern) = (
            self.string_in(&sides[0], &text, charset),
            self.string_in(&sides[1], &pattern, charset),
        );
        // Usually all rows of a statement have the same pattern.
        let mut compiled =
            match self.env.regex.take().filter(|kept| kept.is_for(&pattern, collation, how)) {
                Some(kept) => kept,
                None => {
                    // Many steps: a statement that compiles a pattern for each row is killed too.
                    self.env.look()?;
                    Box::new(Compiled::new(&pattern, collation, how, || self.env.be_heavy())?)
                }
            };
        let found = compiled.is_match(&text, &mut || self.env.look())?;
        self.env.regex = Some(compiled);
        Ok(Some(found))
    }

    /// REGEXP_LIKE(text, pattern [, match type]).
    pub(super) fn regexp_like(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let how = match args.get(2) {
            Some(letters) => match self.arg_bytes(letters)? {
                Some(letters) => MatchType::parse(&letters)
                    .ok_or_else(|| SqlError::wrong_arguments("regexp_like"))?,
                None => return Ok(Value::Null),
            },
            None => MatchType::default(),
        };
        let sides = &args[..2];
        let texts: Vec<&ExprType> =
            sides.iter().map(|side| &side.ty).filter(|ty| ty.kind.is_string()).collect();
        let collation = if texts.is_empty() {
            Collation::Utf8mb4GeneralCi
        } else {
            collation_of(&texts, "regexp_like")?.0
        };
        Ok(self
            .regexp(collation, sides, how)?
            .map_or(Value::Null, |found| Value::Int(found.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8: Collation = Collation::Utf8mb4GeneralCi;
    const AS_COLLATED: MatchType =
        MatchType { ignores_case: None, by_line: false, dot_matches_all: false };

    fn text(bytes: usize) -> Vec<u8> {
        // Pseudo-random hexadecimal digits.
        let mut x = 7u32;
        let digit = |_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"0123456789abcdef"[(x >> 28) as usize]
        };
        (0..bytes).map(digit).collect()
    }

    /// Both ways to search give the same answer.
    #[test]
    fn steps_find_what_a_search_finds() {
        let mut long = text(5000);
        long.extend("Grün café\nend 7".as_bytes());
        for pattern in [
            "0",
            "z",
            "^0",
            "^[0-9a-f]{5000}G",
            "7$",
            "8$",
            "^$",
            "",
            ".*\nend",
            "GR(Ü|x)N",
            "caf. ",
            "(?-i)grün",
            r"\d{9}",
            "[[:<:]]end",
            r"end\b",
            "[g-z]{3,5}",
            "(a|b)*c(d|e){20}",
            r"\n\w+ \d$",
            "[^0-9a-f]",
            "é$",
            "x*",
            "[0-7][0-9a-f]{40}[g-z]",
            r"\pL{4}",
            "(?s)^.*$",
            r"\A\d",
            r"7\z",
            r"\bcaf\w\b",
            r"\bé",
            r"\Bé\b",
            r"ü\Bn",
            r"n\b\w",
            r"(^|\b)end\b(\s|$)",
        ] {
            let lines = MatchType { by_line: true, dot_matches_all: true, ..AS_COLLATED };
            for (collation, how) in [
                (UTF8, AS_COLLATED),
                (Collation::Utf8mb4Bin, AS_COLLATED),
                (Collation::Binary, AS_COLLATED),
                (UTF8, lines),
            ] {
                let Ok(compiled) = Compiled::new(pattern.as_bytes(), collation, how, || ()) else {
                    continue;
                };
                for text in [&long[..], &long[..5000], &long[4000..], b"", b"end 7"] {
                    let mut steps = Steps::new(pattern.as_bytes(), collation, how).unwrap();
                    let found = steps.is_match(text, &mut || Ok(())).unwrap();
                    let word_border = [r"\b", r"\B", "[["].iter().any(|b| pattern.contains(b));
                    assert!(found.is_some() || word_border, "{pattern}");
                    let right = compiled.regex.is_match(text);
                    assert!(
                        found.is_none_or(|found| found == right),
                        "{pattern} {collation:?} {}",
                        text.len()
                    );
                    let by_sets =
                        leads_to_match(steps.dfa.get_nfa(), text, &mut || Ok(())).unwrap();
                    assert_eq!(by_sets, right, "{pattern} {collation:?} {}", text.len());
                }
            }
        }
    }

    /// This pattern meets new states all the time. Only `stop` ends the search.
    #[test]
    fn a_long_search_is_ended() {
        is_ended_and_goes_on(br"([0-7][0-9a-f]{4000}|[8-f][0-9a-f]{3000})[g-z]", text(1 << 20));
    }
    /// `stop` also ends a search for word borders beside letters that are not ASCII.
    #[test]
    fn a_long_search_for_borders_of_words_is_ended() {
        is_ended_and_goes_on(
            br"([0-7]\w{7}|[8-f]\w{5})[g-z]\b",
            [text(1 << 17), "é".repeat(1 << 19).into()].concat(),
        );
    }
    /// A short text is no short search if the pattern is large.
    #[test]
    fn a_search_for_a_large_pattern_is_ended() {
        let pattern = br"([0-7][0-9a-f]{4000}|[8-f][0-9a-f]{3000})[g-z]";
        let mut compiled = Compiled::new(pattern, UTF8, AS_COLLATED, || ()).unwrap();
        let found = compiled.is_match(&text(400), &mut || Err(SqlError::interrupted()));
        assert_eq!(found.unwrap_err().code, 1317);
    }
    #[test]
    fn a_large_pattern_is_announced_or_refused() {
        let announced = |pattern: &str| {
            let mut announced = false;
            let compiled =
                Compiled::new(pattern.as_bytes(), UTF8, AS_COLLATED, || announced = true);
            compiled.map(|_| announced).map_err(|e| e.code)
        };
        assert_eq!(announced(r"^[a-z]+@\w+\.example$"), Ok(false));
        assert_eq!(announced("[0-9a-f]{4000}"), Ok(true));
        assert_eq!(announced(&"abc|".repeat(300)), Ok(true));
        // What is refused at once, and what the library finds too large.
        assert_eq!(announced(&"[a]".repeat(5_000_000)), Err(3700));
        assert_eq!(announced("((a{1000}){1000}){1000}"), Err(3700));
        assert_eq!(announced("(a"), Err(3685));
    }
    fn is_ended_and_goes_on(pattern: &[u8], text: Vec<u8>) {
        let mut compiled = Compiled::new(pattern, UTF8, AS_COLLATED, || ()).unwrap();
        let mut left = 20;
        let stop = &mut || {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(SqlError::interrupted()) }
        };
        assert_eq!(compiled.is_match(&text, stop).unwrap_err().code, 1317);
        // The pattern can still be used for the next text.
        assert!(!compiled.is_match(&text[..100], &mut || Ok(())).unwrap());
        let cheap = &mut Compiled::new(b"zzz", UTF8, AS_COLLATED, || ()).unwrap();
        assert!(
            !cheap.is_match(&text[..50_000], &mut || Err(SqlError::interrupted())).unwrap(),
            "one call"
        );
    }
}

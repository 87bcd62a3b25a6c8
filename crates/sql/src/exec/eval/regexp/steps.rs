//! Searches that step an automaton byte by byte, and can be ended.
use super::pattern::Pattern;
use super::threads::Threads;
use super::{STEPS_PER_LOOK, WINDOW};
use crate::error::Result;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input, MatchKind};
use std::ops::Range;
use std::sync::Arc;

/// The pattern as an automaton that makes its states when it first meets them.
pub struct Steps {
    dfa: DFA,
    cache: Cache,
    states: usize,
    /// Finds where a match begins, from its end backwards. Made for the first match.
    backwards: Option<(DFA, Cache)>,
    /// Made for the first search that the automaton cannot decide.
    threads: Option<Box<Threads>>,
    pattern: Arc<Pattern>,
}

impl Steps {
    pub fn new(pattern: &Arc<Pattern>) -> Option<Box<Steps>> {
        let dfa = build(pattern, false)?;
        let (cache, states) = (dfa.create_cache(), dfa.get_nfa().states().len());
        let (backwards, threads) = (None, None);
        Some(Box::new(Steps { dfa, cache, states, backwards, threads, pattern: pattern.clone() }))
    }
    /// The number of the automaton's states before it makes more of them.
    pub fn states(&self) -> usize {
        self.states
    }
    /// True if the pattern is found in `text`.
    pub fn is_match(&mut self, text: &[u8], stop: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        match self.decide(text, stop)? {
            Some(found) => Ok(found),
            None => leads_to_match(self.dfa.get_nfa(), text, stop),
        }
    }
    /// Where the pattern is found first, from the byte `from` on.
    pub fn find(
        &mut self,
        text: &[u8],
        from: usize,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Range<usize>>> {
        let decided = match self.end(text, from, stop)? {
            Some(None) => return Ok(None),
            Some(Some(end)) => self.start(text, from, end, stop)?.map(|start| start..end),
            None => None,
        };
        match decided {
            Some(found) => Ok(Some(found)),
            None => self.find_by_threads(text, from, stop),
        }
    }
    pub(super) fn find_by_threads(
        &mut self,
        text: &[u8],
        from: usize,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Range<usize>>> {
        let threads = match &mut self.threads {
            Some(threads) => threads,
            none => {
                let made = Threads::new(&self.pattern, WhichCaptures::Implicit, &[0, 1])?;
                none.insert(Box::new(made))
            }
        };
        let found = threads.search(text, from..text.len(), Anchored::No, stop)?;
        Ok(found.then(|| threads.place(0)..threads.place(1)))
    }
    #[cfg(test)]
    pub(super) fn by_sets(&self, text: &[u8]) -> Result<bool> {
        leads_to_match(self.dfa.get_nfa(), text, &mut || Ok(()))
    }
    fn window(&self) -> usize {
        (STEPS_PER_LOOK / self.states.max(1)).clamp(1, WINDOW)
    }
    /// Where the first match ends. The outer None means that the automaton cannot decide.
    pub(super) fn end(
        &mut self,
        text: &[u8],
        from: usize,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Option<usize>>> {
        let window = self.window();
        let Steps { dfa, cache, .. } = self;
        let Ok(mut state) = dfa.start_state_forward(cache, &Input::new(text).range(from..)) else {
            return Ok(None);
        };
        let mut end = None;
        for (n, part) in text[from..].chunks(window).enumerate() {
            for (m, byte) in part.iter().enumerate() {
                let Ok(next) = dfa.next_state(cache, state, *byte) else { return Ok(None) };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        // The automaton reports a match one byte late.
                        end = Some(from + n * window + m);
                    } else if state.is_dead() {
                        return Ok(Some(end));
                    } else if state.is_quit() {
                        return Ok(None);
                    }
                }
            }
            if part.len() == window {
                stop()?;
            }
        }
        Ok(match dfa.next_eoi_state(cache, state) {
            Ok(last) if last.is_match() => Some(Some(text.len())),
            Ok(_) => Some(end),
            Err(_) => None,
        })
    }
    /// Where the match begins that ends at `end`: as far from there as possible, but not before
    /// `from`. None if the automaton cannot decide.
    fn start(
        &mut self,
        text: &[u8],
        from: usize,
        end: usize,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<usize>> {
        let window = self.window();
        if self.backwards.is_none() {
            let Some(dfa) = build(&self.pattern, true) else { return Ok(None) };
            let cache = dfa.create_cache();
            self.backwards = Some((dfa, cache));
        }
        let Some((dfa, cache)) = &mut self.backwards else { return Ok(None) };
        let input = Input::new(text).range(from..end).anchored(Anchored::Yes);
        let Ok(mut state) = dfa.start_state_reverse(cache, &input) else { return Ok(None) };
        let mut start = None;
        for (n, part) in text[from..end].rchunks(window).enumerate() {
            for (m, byte) in part.iter().rev().enumerate() {
                let Ok(next) = dfa.next_state(cache, state, *byte) else { return Ok(None) };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        start = Some(end - n * window - m);
                    } else if state.is_dead() {
                        return Ok(start);
                    } else if state.is_quit() {
                        return Ok(None);
                    }
                }
            }
            if part.len() == window {
                stop()?;
            }
        }
        let last: Option<LazyStateID> = match from.checked_sub(1) {
            Some(before) => dfa.next_state(cache, state, text[before]).ok(),
            None => dfa.next_eoi_state(cache, state).ok(),
        };
        Ok(match last {
            Some(last) if last.is_match() => Some(from),
            Some(last) if !last.is_quit() => start,
            _ => None,
        })
    }
    /// Returns None if the automaton cannot decide: it does not know word borders beside characters
    /// that are not ASCII.
    pub(super) fn decide(
        &mut self,
        text: &[u8],
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<bool>> {
        let window = self.window();
        let Steps { dfa, cache, .. } = self;
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

fn build(pattern: &Pattern, backwards: bool) -> Option<DFA> {
    let tree = pattern.tree().ok()?;
    let config = thompson::Config::new()
        .utf8(false)
        .reverse(backwards)
        .look_matcher(tree.look_matcher())
        .which_captures(WhichCaptures::None);
    let nfa = thompson::Compiler::new().configure(config).build_from_hir(&tree.hir).ok()?;
    let kind = if backwards { MatchKind::All } else { MatchKind::LeftmostFirst };
    // The search goes on however often the automaton's cache is full. Only `stop` ends it.
    let config =
        DFA::config().unicode_word_boundary(true).skip_cache_capacity_check(true).match_kind(kind);
    DFA::builder().configure(config).build_from_nfa(nfa).ok()
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
        if found || next.list.is_empty() {
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

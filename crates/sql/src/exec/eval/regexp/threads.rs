//! Searches that remember where parts of a match begin and end.
//!
//! Each thread is a state of the automaton and the places that the way to this state has noted
//! (Pike, 1985). Of the threads in one state, the first counts: it is the one that a search with
//! attempts and retreats would have tried first. So there are never more threads than states.
use super::STEPS_PER_LOOK;
use super::pattern::Pattern;
use crate::error::{Result, SqlError};
use regex_automata::Anchored;
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use std::ops::Range;

/// The greatest number of bytes that threads take for the places that they have noted.
const MOST_BYTES: usize = 16 << 20;
/// A place that has not been noted.
pub const NOWHERE: usize = usize::MAX;

pub struct Threads {
    nfa: NFA,
    /// For each place that the automaton can note: its number among those that are wanted.
    wanted: Vec<Option<u16>>,
    here: List,
    next: List,
    open: Vec<Visit>,
    /// The places of the thread that is followed, and those of the last match.
    current: Vec<usize>,
    found: Vec<usize>,
}

/// The threads at one place of the text, in the order in which they count.
struct List {
    states: Vec<StateID>,
    /// For each state: whether the state is in the list, and the places that its thread has noted.
    has: Vec<bool>,
    places: Vec<usize>,
}

enum Visit {
    State(StateID),
    /// The states after this one were reached when the place was this.
    Restore(usize, usize),
}

impl List {
    fn new(states: usize, wanted: usize) -> List {
        let places = vec![NOWHERE; states * wanted];
        List { states: Vec::new(), has: vec![false; states], places }
    }
    fn clear(&mut self) {
        self.states.drain(..).for_each(|state| self.has[state] = false);
    }
}

impl Threads {
    /// Threads that note the places of the numbers `wanted`: 2 n is where group n begins, 2 n + 1
    /// where it ends. Group 0 is the match.
    pub fn new(pattern: &Pattern, captures: WhichCaptures, wanted: &[usize]) -> Result<Threads> {
        Threads::of(automaton(pattern, captures)?, wanted)
    }
    fn of(nfa: NFA, wanted: &[usize]) -> Result<Threads> {
        let states = nfa.states().len();
        if states.saturating_mul(wanted.len()) > MOST_BYTES / (2 * size_of::<usize>()) {
            return Err(SqlError::pattern_too_big());
        }
        let mut numbers = vec![None; nfa.group_info().slot_len()];
        for (n, slot) in wanted.iter().enumerate() {
            if let Some(number) = numbers.get_mut(*slot) {
                *number = Some(n as u16);
            }
        }
        Ok(Threads {
            nfa,
            wanted: numbers,
            here: List::new(states, wanted.len()),
            next: List::new(states, wanted.len()),
            open: Vec::new(),
            current: vec![NOWHERE; wanted.len()],
            found: vec![NOWHERE; wanted.len()],
        })
    }
    /// The place with the n-th of the numbers that are wanted, in the match that was found.
    pub fn place(&self, n: usize) -> usize {
        self.found.get(n).copied().unwrap_or(NOWHERE)
    }

    /// Searches a part of `text`. What is around the part decides borders of words and lines.
    /// Returns true if there is a match. Now and then calls `stop`, whose error ends the search.
    pub fn search(
        &mut self,
        text: &[u8],
        part: Range<usize>,
        anchored: Anchored,
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let count = self.current.len();
        let (mut found, mut steps) = (false, 0);
        // An earlier search may have been ended halfway.
        self.here.clear();
        self.next.clear();
        for at in part.start..=part.end {
            if !found && (at == part.start || anchored == Anchored::No) {
                self.current.fill(NOWHERE);
                Threads::add(
                    &self.nfa,
                    &self.wanted,
                    &mut self.open,
                    &mut self.here,
                    &mut self.current,
                    (self.nfa.start_anchored(), text, at),
                );
            }
            if self.here.states.is_empty() && (found || anchored != Anchored::No) {
                break;
            }
            let byte = if at < part.end { text.get(at).copied() } else { None };
            for &state in &self.here.states {
                let first = state.as_usize() * count;
                let places = &self.here.places[first..first + count];
                let to = match (self.nfa.state(state), byte) {
                    (State::Match { .. }, _) => {
                        // Threads behind this one count less.
                        self.found.copy_from_slice(places);
                        found = true;
                        break;
                    }
                    (State::ByteRange { trans }, Some(byte)) => {
                        trans.matches_byte(byte).then_some(trans.next)
                    }
                    (State::Sparse(transitions), Some(byte)) => transitions.matches_byte(byte),
                    (State::Dense(transitions), Some(byte)) => transitions.matches_byte(byte),
                    _ => None,
                };
                if let Some(to) = to {
                    self.current.copy_from_slice(places);
                    Threads::add(
                        &self.nfa,
                        &self.wanted,
                        &mut self.open,
                        &mut self.next,
                        &mut self.current,
                        (to, text, at + 1),
                    );
                }
            }
            steps += 1 + (self.here.states.len() + self.next.states.len()) * (1 + count / 4);
            if steps >= STEPS_PER_LOOK {
                steps = 0;
                stop()?;
            }
            std::mem::swap(&mut self.here, &mut self.next);
            self.next.clear();
        }
        Ok(found)
    }
    /// Adds a state, and the states that it leads to at this place without reading a byte.
    fn add(
        nfa: &NFA,
        wanted: &[Option<u16>],
        open: &mut Vec<Visit>,
        list: &mut List,
        current: &mut [usize],
        (state, text, at): (StateID, &[u8], usize),
    ) {
        open.push(Visit::State(state));
        while let Some(visit) = open.pop() {
            let state = match visit {
                Visit::Restore(number, place) => {
                    current[number] = place;
                    continue;
                }
                Visit::State(state) => state,
            };
            if std::mem::replace(&mut list.has[state], true) {
                continue;
            }
            list.states.push(state);
            match nfa.state(state) {
                State::Look { look, next } => {
                    if nfa.look_matcher().matches(*look, text, at) {
                        open.push(Visit::State(*next));
                    }
                }
                // The first alternative is followed first.
                State::Union { alternates } => {
                    open.extend(alternates.iter().rev().map(|to| Visit::State(*to)));
                }
                State::BinaryUnion { alt1, alt2 } => {
                    open.extend([Visit::State(*alt2), Visit::State(*alt1)]);
                }
                State::Capture { next, slot, .. } => {
                    if let Some(number) = wanted.get(slot.as_usize()).copied().flatten() {
                        let place = std::mem::replace(&mut current[usize::from(number)], at);
                        open.push(Visit::Restore(usize::from(number), place));
                    }
                    open.push(Visit::State(*next));
                }
                State::Fail => {}
                // Only from these does a thread go on.
                State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Match { .. } => {
                    let first = state.as_usize() * current.len();
                    list.places[first..first + current.len()].copy_from_slice(current);
                }
            }
        }
    }
}

fn automaton(pattern: &Pattern, captures: WhichCaptures) -> Result<NFA> {
    let tree = pattern.tree()?;
    let config = thompson::Config::new()
        .utf8(false)
        .look_matcher(tree.look_matcher())
        .which_captures(captures);
    let compiler = thompson::Compiler::new().configure(config).build_from_hir(&tree.hir);
    compiler.map_err(|_| SqlError::pattern_too_big())
}

/// The groups of a pattern, with their numbers and names.
pub struct Groups {
    nfa: NFA,
    /// The groups that the last replacement wanted, ascending, and the threads for them.
    threads: Option<(Vec<usize>, Box<Threads>)>,
}

impl Groups {
    pub fn new(pattern: &Pattern) -> Result<Groups> {
        Ok(Groups { nfa: automaton(pattern, WhichCaptures::All)?, threads: None })
    }
    /// The number of groups besides the match itself.
    pub fn count(&self) -> usize {
        self.nfa.group_info().all_group_len().saturating_sub(1)
    }
    pub fn by_name(&self, name: &str) -> Option<usize> {
        self.nfa.group_info().to_index(regex_automata::PatternID::ZERO, name)
    }
    /// Where the groups of the numbers `wanted`, which ascend, are in a match.
    pub fn of_match(
        &mut self,
        text: &[u8],
        found: &Range<usize>,
        wanted: &[usize],
        stop: &mut dyn FnMut() -> Result<()>,
    ) -> Result<&Threads> {
        if self.threads.as_ref().is_none_or(|(groups, _)| groups != wanted) {
            let slots: Vec<usize> = wanted.iter().flat_map(|n| [2 * n, 2 * n + 1]).collect();
            let threads = Threads::of(self.nfa.clone(), &slots)?;
            self.threads = Some((wanted.to_vec(), Box::new(threads)));
        }
        let Some((_, threads)) = &mut self.threads else {
            return Err(SqlError::pattern_too_big());
        };
        threads.search(text, found.clone(), Anchored::Yes, stop)?;
        Ok(threads)
    }
}

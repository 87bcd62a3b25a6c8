//! What EXPLAIN ANALYZE measures while a statement runs.
//!
//! The executor says which operator works now; the clock's time goes to that operator. So an
//! operator's own time is without that of the operators that it calls, whose times are added when
//! the tree is printed. Other statements have no profile, and their rows go the usual way.
use std::collections::HashMap;
use std::time::Duration;

/// What an operator does, beside the part of the plan that it belongs to: a SELECT for the first
/// ones, a source or a nest for the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Role {
    /// Evaluates the select list and gives the rows out.
    Top,
    Group,
    Having,
    Distinct,
    Sort,
    /// Reads the rows of a source.
    Scan,
    /// Checks the conditions on the rows of a source.
    Level,
    /// Puts the rows of a source into a hash table.
    Built,
    /// Joins the rows of a source with those of the sources before it.
    Join,
    /// Joins the rows of a nest (SEL-5) with those of the sources before it.
    Nest,
    /// Checks the conditions on the rows of a nest after it.
    After,
    /// Makes the rows of a source before the first is read.
    Made,
    /// Reads the rows of a source by an index, although a hash table was planned.
    ByIndex,
}

/// An operator by its number in a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op(u32);

/// What was measured of an operator.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Measured {
    pub loops: u64,
    pub rows: u64,
    /// The time until the first row, of all loops that have had one.
    pub first: Duration,
    pub loops_with_rows: u64,
    /// The time in the operator itself.
    pub own: Duration,
}

#[derive(Default)]
struct State {
    measured: Measured,
    began: Duration,
    /// The loop has had no row.
    is_before_first: bool,
}

#[derive(Default)]
pub(crate) struct Profile {
    states: Vec<State>,
    /// By the role and the address of the part of the plan.
    ops: HashMap<(Role, usize), Op>,
    current: Option<Op>,
    since: Duration,
}

impl Profile {
    /// The operator with this role in a part of the plan.
    pub fn op<T>(&mut self, role: Role, place: &T) -> Op {
        let next = Op(self.states.len() as u32);
        let op = *self.ops.entry((role, std::ptr::from_ref(place) as usize)).or_insert(next);
        if op == next {
            self.states.push(State::default());
        }
        op
    }
    /// The operator `op` works from now on. Returns the one that has worked until now.
    pub fn turn_to(&mut self, op: Option<Op>, now: Duration) -> Option<Op> {
        let spent = now.saturating_sub(std::mem::replace(&mut self.since, now));
        if let Some(Op(current)) = self.current {
            self.states[current as usize].measured.own += spent;
        }
        std::mem::replace(&mut self.current, op)
    }
    /// A loop of the operator begins.
    pub fn begin(&mut self, Op(op): Op, now: Duration) {
        let state = &mut self.states[op as usize];
        state.measured.loops += 1;
        (state.began, state.is_before_first) = (now, true);
    }
    /// The operator has given `rows` rows.
    pub fn rows(&mut self, Op(op): Op, rows: u64, now: Duration) {
        let state = &mut self.states[op as usize];
        state.measured.rows += rows;
        if rows > 0 && std::mem::take(&mut state.is_before_first) {
            state.measured.first += now.saturating_sub(state.began);
            state.measured.loops_with_rows += 1;
        }
    }
    /// What was measured of the operator with this role; nothing if it has not run.
    pub fn measured<T>(&self, role: Role, place: &T) -> Measured {
        let op = self.ops.get(&(role, std::ptr::from_ref(place) as usize));
        op.map_or_else(Measured::default, |Op(op)| self.states[*op as usize].measured)
    }
}

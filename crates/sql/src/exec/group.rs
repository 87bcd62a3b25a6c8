//! GROUP BY: keeps one set of accumulators per distinct key, in the order in which the keys came.
use super::aggregate::Accumulator;
use super::env::Env;
use super::eval::{Eval, Scope};
use super::row_buffer::{KeySet, read, write};
use super::sortkey;
use crate::error::Result;
use crate::plan::Grouping;
use redolith_types::Value;
use smallvec::SmallVec;

pub struct Groups<'p> {
    plan: &'p Grouping,
    keys: KeySet,
    /// The packed values of the key expressions in the first row of each group; `ends` has the end
    /// of each group's values.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// The accumulators: `aggregates.len()` for each group.
    accumulators: Vec<Accumulator>,
    /// For each aggregate: what the finished groups have concatenated.
    concatenated: SmallVec<[u64; 4]>,
    /// The bytes that the accumulators keep beside themselves.
    kept: usize,
    /// The bytes that are charged to the statement's account.
    counted: usize,
    /// The groups hold more than before the row.
    grown: bool,
    /// Whether an accumulator may hold more after a row than before.
    may_grow: bool,
    key: Vec<u8>,
    /// The key of the last row and its group: rows of one group often follow each other.
    last: Vec<u8>,
    last_group: Option<usize>,
}

pub type Finished<'v> = (SmallVec<[Value<'v>; 4]>, SmallVec<[Value<'v>; 4]>);

impl<'p> Groups<'p> {
    pub fn new(plan: &'p Grouping) -> Groups<'p> {
        let mut groups = Groups {
            plan,
            keys: KeySet::default(),
            values: Vec::new(),
            ends: Vec::new(),
            accumulators: Vec::new(),
            concatenated: SmallVec::from_elem(0, plan.aggregates.len()),
            kept: 0,
            counted: 0,
            grown: true,
            may_grow: plan.aggregates.iter().any(|call| Accumulator::new(call).may_grow()),
            key: Vec::new(),
            last: Vec::new(),
            last_group: None,
        };
        if plan.implicit {
            groups.open();
        }
        groups
    }
    fn open(&mut self) {
        self.grown = true;
        self.ends.push(self.values.len());
        self.accumulators.extend(self.plan.aggregates.iter().map(Accumulator::new));
    }
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a row to its group, or to those of ROLLUP.
    pub fn add<'v>(&mut self, at: Scope<'v>, env: &mut Env<'_>) -> Result<()>
    where
        'p: 'v,
    {
        if self.plan.implicit && !self.plan.rollup && !self.may_grow {
            let mark = env.held();
            for (call, accumulator) in self.plan.aggregates.iter().zip(&mut self.accumulators) {
                accumulator.add(call, at, env)?;
                env.release_to(mark);
            }
            return Ok(());
        }
        let mark = env.held();
        if self.plan.rollup {
            let groups = self.groups_of(at, env)?;
            for n in groups {
                self.add_to(n, at, env)?;
            }
        } else {
            let n = if self.plan.implicit { 0 } else { self.group_of(at, env)? };
            self.add_to(n, at, env)?;
        }
        env.release_to(mark);
        if !std::mem::take(&mut self.grown) {
            return Ok(());
        }
        let memory = self.memory();
        env.keep(&mut self.counted, memory)
    }
    fn add_to<'v>(&mut self, n: usize, at: Scope<'v>, env: &mut Env<'_>) -> Result<()>
    where
        'p: 'v,
    {
        let each = self.plan.aggregates.len();
        for (call, acc) in self.plan.aggregates.iter().zip(&mut self.accumulators[n * each..]) {
            if !acc.may_grow() {
                acc.add(call, at, env)?;
                continue;
            }
            let before = acc.memory();
            acc.add(call, at, env)?;
            self.kept = self.kept + acc.memory() - before;
            self.grown = true;
        }
        Ok(())
    }
    pub fn memory(&self) -> usize {
        let accumulators = self.accumulators.capacity() * size_of::<Accumulator>();
        let ends = self.ends.capacity() * size_of::<usize>();
        let keys = self.keys.memory() + self.key.capacity() + self.last.capacity();
        keys + self.values.capacity() + ends + accumulators + self.kept
    }
    fn group_of<'v>(&mut self, at: Scope<'v>, env: &mut Env<'_>) -> Result<usize>
    where
        'p: 'v,
    {
        self.key.clear();
        let mut values: SmallVec<[Value<'v>; 4]> = SmallVec::new();
        let plan: &'v Grouping = self.plan;
        for e in &plan.keys {
            let value = Eval::new(at, env).output(e)?;
            sortkey::push(&value, &e.ty, e.ty.collation, env, &mut self.key);
            values.push(value);
        }
        if let Some(n) = self.last_group
            && self.key == self.last
        {
            return Ok(n);
        }
        let (n, new) = self.keys.insert(&self.key);
        if new {
            values.iter().for_each(|v| write(v, &mut self.values));
            self.open();
        }
        std::mem::swap(&mut self.key, &mut self.last);
        self.last_group = Some(n);
        Ok(n)
    }

    /// The groups of a row with ROLLUP: for all keys, for all but the last, and so on (SEL-6).
    fn groups_of<'v>(&mut self, at: Scope<'v>, env: &mut Env<'_>) -> Result<Vec<usize>>
    where
        'p: 'v,
    {
        self.key.clear();
        let plan: &'v Grouping = self.plan;
        let mut values: SmallVec<[Value<'v>; 4]> = SmallVec::new();
        let mut ends = vec![0];
        for e in &plan.keys {
            let value = Eval::new(at, env).output(e)?;
            sortkey::push(&value, &e.ty, e.ty.collation, env, &mut self.key);
            values.push(value);
            ends.push(self.key.len());
        }
        let mut groups = Vec::with_capacity(ends.len());
        for (grouped, end) in ends.into_iter().enumerate().rev() {
            self.key.truncate(end);
            self.key.extend((grouped as u16).to_be_bytes());
            let (n, new) = self.keys.insert(&self.key);
            if new {
                values[..grouped].iter().for_each(|v| write(v, &mut self.values));
                values[grouped..].iter().for_each(|_| write(&Value::Null, &mut self.values));
                write(&Value::Int(grouped as i64), &mut self.values);
                self.open();
            }
            groups.push(n);
        }
        Ok(groups)
    }

    /// True if the first aggregate of the first group has met a value.
    pub fn has_value(&self) -> bool {
        self.accumulators.first().is_some_and(Accumulator::has_value)
    }

    /// The key values and the results of group `n`. The groups are finished in their order.
    pub fn finish(&mut self, n: usize, env: &mut Env<'_>) -> Result<Finished<'_>> {
        let each = self.plan.aggregates.len();
        let aggregates = self
            .plan
            .aggregates
            .iter()
            .zip(&mut self.accumulators[n * each..])
            .zip(&mut self.concatenated)
            .map(|((call, acc), before)| acc.finish(call, before, env))
            .collect::<Result<_>>()?;
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        let mut packed = &self.values[start..self.ends[n]];
        let keys = self.plan.keys.len() + self.plan.rollup as usize;
        let keys = (0..keys).map(|_| read(&mut packed)).collect();
        Ok((keys, aggregates))
    }
}

//! GROUP BY: keeps one set of accumulators per distinct key, in the order in which the keys came.
//! Groups that outgrow their memory are late ([`super::late_groups`]).
//!
//! **GROUP-4** Where the rows come in the order of the keys and the accumulators do not grow, a
//! group is complete when the next begins. It needs no search, and is given after at most [`SOME`]
//! groups: memory has no more than these, and none of them is late.
use super::ExecContext;
use super::aggregate::Accumulator;
use super::env::Env;
use super::eval::{Eval, Scope};
use super::late_groups::{Growth, LateGroups, LateValues, add_row};
use super::late_sorter::ROOM;
use super::row_buffer::{KeySet, read, write};
use super::sortkey;
use crate::error::{Result, SqlError};
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
    stage: Stage,
    late: Option<Box<LateGroups<'p>>>,
    /// The bytes of the groups when no more were opened.
    closed_at: usize,
    /// For each group in memory: whether rows of it are late.
    is_late: Vec<bool>,
    /// The late values of the only group.
    late_values: Option<Box<LateValues>>,
    /// The bytes that the accumulators keep beside themselves.
    kept: usize,
    /// The bytes that are charged to the statement's account.
    counted: usize,
    /// The groups hold more than before the row.
    grown: bool,
    /// Whether an accumulator may hold more after a row than before.
    may_grow: bool,
    /// Groups are given while rows come (GROUP-4).
    streams: bool,
    key: Vec<u8>,
    /// The key of the last row and its group: rows of one group often follow each other.
    last: Vec<u8>,
    last_group: Option<usize>,
}

/// What happens to the rows of groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// New groups are late (GROUP-1).
    Closed,
    /// All rows are late (GROUP-2).
    Stopped,
}

pub type Finished<'v> = (SmallVec<[Value<'v>; 4]>, SmallVec<[Value<'v>; 4]>);

impl<'p> Groups<'p> {
    /// `streams` says whether groups may be given before all rows have come.
    pub fn new(plan: &'p Grouping, streams: bool) -> Groups<'p> {
        let may_grow = plan.aggregates.iter().any(|call| Accumulator::new(call).may_grow());
        let mut groups = Groups {
            plan,
            keys: KeySet::default(),
            values: Vec::new(),
            ends: Vec::new(),
            accumulators: Vec::new(),
            concatenated: SmallVec::from_elem(0, plan.aggregates.len()),
            stage: Stage::Open,
            late: None,
            closed_at: 0,
            is_late: Vec::new(),
            late_values: None,
            kept: 0,
            counted: 0,
            grown: true,
            may_grow,
            streams: streams && plan.sorted && !plan.implicit && !plan.rollup && !may_grow,
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
        let growth = if self.plan.implicit && !self.plan.rollup {
            self.add_to(0, at, env)?
        } else if self.plan.rollup {
            self.add_to_levels(at, env)?
        } else {
            match self.group_of(at, env)? {
                Some(n) => self.add_to(n, at, env)?,
                None => 0,
            }
        };
        env.release_to(mark);
        if !std::mem::take(&mut self.grown) {
            return Ok(());
        }
        let memory = self.memory();
        env.keep(&mut self.counted, memory)?;
        if self.stage == Stage::Open && self.late_values.is_none() {
            if env.is_beyond(ROOM, growth + self.growth()) && env.temporary().is_some() {
                self.close();
            }
            return Ok(());
        }
        self.charge_late(growth, env)
    }
    /// Adds a row to a group. Returns how much more the next row may make the group keep at once.
    fn add_to<'v>(&mut self, n: usize, at: Scope<'v>, env: &mut Env<'_>) -> Result<usize>
    where
        'p: 'v,
    {
        let each = self.plan.aggregates.len();
        let of_group = &mut self.accumulators[n * each..(n + 1) * each];
        let late = self.late_values.as_deref_mut();
        let Growth { by, next } = add_row(&self.plan.aggregates, of_group, late, at, env)?;
        self.kept = self.kept.saturating_add_signed(by);
        self.grown |= by != 0 || next > 0 || self.late_values.is_some();
        Ok(next)
    }
    /// What another group may take at once.
    fn growth(&self) -> usize {
        if self.plan.implicit && !self.plan.rollup {
            return 0;
        }
        let each = self.plan.aggregates.len();
        let grows = |left: usize, more: usize, bytes: usize| if left < more { bytes } else { 0 };
        let value = 2 * self.values.len() / self.ends.len().max(1) + VALUES;
        let values = self.values.capacity();
        let (ends, accumulators) = (self.ends.capacity(), self.accumulators.capacity());
        self.keys.growth()
            + grows(values - self.values.len(), value, values.max(value))
            + grows(ends - self.ends.len(), 1, ends * size_of::<usize>())
            + grows(
                accumulators - self.accumulators.len(),
                each,
                accumulators * size_of::<Accumulator>(),
            )
    }
    /// Opens no more groups (GROUP-1), and adds no more different values to a single group
    /// (GROUP-3).
    #[cold]
    fn close(&mut self) {
        let is_single = self.plan.implicit && !self.plan.rollup;
        if self.streams || is_single && !self.plan.aggregates.iter().any(|call| call.distinct) {
            return;
        }
        self.late = LateGroups::new(self.plan).map(Box::new);
        if self.late.is_none() {
            return;
        }
        if is_single {
            self.late_values = Some(Box::new(LateValues::default()));
        } else {
            (self.stage, self.closed_at) = (Stage::Closed, self.counted);
        }
    }
    #[cold]
    fn charge_late(&mut self, growth: usize, env: &mut Env<'_>) -> Result<()> {
        let most = self.closed_at + env.spill_at();
        if self.stage == Stage::Closed && self.counted + growth > most {
            self.stage = Stage::Stopped;
            self.is_late = vec![false; self.len()];
            self.last_group = None;
        }
        self.late.iter_mut().try_for_each(|late| late.sorter.charge(env))?;
        self.late_values.iter_mut().try_for_each(|late| late.sorter.charge(env))
    }
    /// Whether [`Self::spill`] has work: then no further row may come first.
    #[inline]
    pub fn has_to_spill(&self, env: &Env<'_>) -> bool {
        self.late.as_ref().is_some_and(|late| late.sorter.is_large(env))
            || self.late_values.as_ref().is_some_and(|late| late.sorter.is_large(env))
    }
    /// Moves late rows to a temporary file.
    pub async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(late) = &mut self.late {
            late.sorter.spill(cx).await?;
        }
        match &mut self.late_values {
            Some(late) => late.sorter.spill(cx).await,
            None => Ok(()),
        }
    }
    /// Takes the late values, and leaves memory to the result, when all rows have come.
    pub async fn end(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<()> {
        if let Some(late) = &mut self.late {
            late.sorter.end(cx).await?;
        }
        let (Some(values), Some(late)) = (self.late_values.take(), &self.late) else {
            return Ok(());
        };
        let Groups { accumulators, kept, counted, .. } = self;
        values.finish(&late.inputs, accumulators, kept, counted, at, cx).await
    }
    pub fn memory(&self) -> usize {
        let accumulators = self.accumulators.capacity() * size_of::<Accumulator>();
        let ends = self.ends.capacity() * size_of::<usize>();
        let keys = self.keys.memory() + self.key.capacity() + self.last.capacity();
        let late = self.is_late.capacity();
        keys + self.values.capacity() + ends + accumulators + self.kept + late
    }
    /// The group of a row; None if the row is late.
    fn group_of<'v>(&mut self, at: Scope<'v>, env: &mut Env<'_>) -> Result<Option<usize>>
    where
        'p: 'v,
    {
        self.key.clear();
        let mut values: SmallVec<[Value<'v>; 4]> = SmallVec::new();
        let plan: &'v Grouping = self.plan;
        for e in &plan.keys {
            let value = Eval::new(at, env).output(e)?;
            sortkey::push(&value, &e.ty, e.ty.collation, env, &mut self.key)?;
            values.push(value);
        }
        if let Some(n) = self.last_group
            && self.key == self.last
        {
            return Ok(Some(n));
        }
        if self.stage != Stage::Open {
            let found = self.group_if_open(&values, values.len(), at, env)?;
            if found.is_some() {
                std::mem::swap(&mut self.key, &mut self.last);
                self.last_group = found;
            }
            return Ok(found);
        }
        let (n, new) = match self.streams {
            true => (self.len(), true),
            false => self.keys.insert(&self.key),
        };
        if new {
            values.iter().for_each(|v| write(v, &mut self.values));
            self.open();
        }
        std::mem::swap(&mut self.key, &mut self.last);
        self.last_group = Some(n);
        Ok(Some(n))
    }
    /// The group with the key if it takes rows. Otherwise the row, with the first `grouped` of the
    /// values of the key, is late.
    #[cold]
    fn group_if_open<'v>(
        &mut self,
        values: &[Value<'v>],
        grouped: usize,
        at: Scope<'v>,
        env: &mut Env<'_>,
    ) -> Result<Option<usize>>
    where
        'p: 'v,
    {
        let found = self.keys.find(&self.key);
        if self.stage == Stage::Closed && found.is_some() {
            return Ok(found);
        }
        if let Some(n) = found {
            self.is_late[n] = true;
        }
        self.grown = true;
        let rollup = self.plan.rollup;
        if let Some(late) = &mut self.late {
            late.push(&self.key, |to| write_keys(values, grouped, rollup, to), at, env)?;
        }
        Ok(None)
    }

    /// Adds a row to its groups with ROLLUP: for all keys, for all but the last, and so on (SEL-6).
    /// Returns as [`Self::add_to`].
    fn add_to_levels<'v>(&mut self, at: Scope<'v>, env: &mut Env<'_>) -> Result<usize>
    where
        'p: 'v,
    {
        self.key.clear();
        let plan: &'v Grouping = self.plan;
        let mut values: SmallVec<[Value<'v>; 4]> = SmallVec::new();
        let mut ends = vec![0];
        for e in &plan.keys {
            let value = Eval::new(at, env).output(e)?;
            sortkey::push(&value, &e.ty, e.ty.collation, env, &mut self.key)?;
            values.push(value);
            ends.push(self.key.len());
        }
        let mut next = 0;
        for (grouped, end) in ends.into_iter().enumerate().rev() {
            self.key.truncate(end);
            self.key.extend((grouped as u16).to_be_bytes());
            let n = if self.stage == Stage::Open {
                let (n, new) = self.keys.insert(&self.key);
                if new {
                    write_keys(&values, grouped, true, &mut self.values);
                    self.open();
                }
                Some(n)
            } else {
                self.group_if_open(&values, grouped, at, env)?
            };
            if let Some(n) = n {
                next = next.max(self.add_to(n, at, env)?);
            }
        }
        Ok(next)
    }

    /// True if the first aggregate of the first group has met a value.
    pub fn has_value(&self) -> bool {
        self.accumulators.first().is_some_and(Accumulator::has_value)
    }

    /// The number of groups that are to be given before another row comes (GROUP-4).
    #[inline]
    pub fn complete(&self) -> usize {
        let many = self.streams && (self.len() > SOME || self.values.len() > SOME_BYTES);
        if many { self.len() - 1 } else { 0 }
    }
    /// Forgets the first `count` groups, which were given.
    pub fn forget_first(&mut self, count: usize) {
        let Some(last) = count.checked_sub(1) else { return };
        let end = self.ends[last];
        self.values.drain(..end);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|at| *at -= end);
        self.accumulators.drain(..count * self.plan.aggregates.len());
        self.last_group = self.last_group.map(|n| n - count);
    }
    /// The key values and the results of group `n`. The groups are finished in their order.
    pub fn finish(&mut self, n: usize, env: &mut Env<'_>) -> Result<Finished<'_>> {
        let each = self.plan.aggregates.len();
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        let packed = &self.values[start..self.ends[n]];
        let accumulators = &mut self.accumulators[n * each..(n + 1) * each];
        finish(self.plan, packed, accumulators, &mut self.concatenated, env)
    }
    /// Whether the group comes among the late ones.
    pub fn is_late(&self, n: usize) -> bool {
        self.is_late.get(n).is_some_and(|late| *late)
    }
    /// Collects the next late group, when all others are finished. Returns false after the last.
    pub async fn next_late(&mut self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<bool> {
        let Some(mut late) = self.late.take() else { return Ok(false) };
        if self.stage == Stage::Closed && self.len() > 0 {
            self.forget(&mut cx.env)?;
        }
        let Some(key) = late.begin(cx).await? else {
            self.forget(&mut cx.env)?;
            return Ok(false);
        };
        if let Some(n) = self.keys.find(key) {
            let each = self.plan.aggregates.len();
            let start = if n == 0 { 0 } else { self.ends[n - 1] };
            let of_group = self.accumulators[n * each..(n + 1) * each].iter_mut();
            let new = self.plan.aggregates.iter().map(Accumulator::new);
            let taken = of_group.zip(new).map(|(acc, new)| std::mem::replace(acc, new));
            let kept = late.go_on_with(&self.values[start..self.ends[n]], taken);
            self.kept -= kept;
            let memory = self.memory();
            cx.env.keep(&mut self.counted, memory)?;
        }
        late.collect(at, cx).await?;
        self.late = Some(late);
        Ok(true)
    }
    /// Frees the groups in memory, which are finished.
    fn forget(&mut self, env: &mut Env<'_>) -> Result<()> {
        (self.keys, self.values, self.ends, self.is_late) = Default::default();
        self.accumulators = Vec::new();
        self.kept = 0;
        let memory = self.memory();
        env.keep(&mut self.counted, memory)
    }
    /// As [`Self::finish`], for the late group that was collected last.
    pub fn finish_late(&mut self, env: &mut Env<'_>) -> Result<Finished<'_>> {
        let Groups { plan, late, concatenated, .. } = self;
        let late = late.as_mut().ok_or_else(|| SqlError::internal("no late group"))?;
        let LateGroups { keys, accumulators, .. } = &mut **late;
        finish(plan, keys, accumulators, concatenated, env)
    }
}

/// The complete groups that are given at a time, and the bytes of the values of their keys.
const SOME: usize = 256;
const SOME_BYTES: usize = 64 << 10;
/// The values that a group may have beyond those of the others, in bytes.
const VALUES: usize = 64;

/// Writes the values of the keys by which a row is grouped, and with ROLLUP NULL for the others and
/// the number of the keys.
fn write_keys(values: &[Value<'_>], grouped: usize, rollup: bool, to: &mut Vec<u8>) {
    values[..grouped].iter().for_each(|v| write(v, to));
    if rollup {
        values[grouped..].iter().for_each(|_| write(&Value::Null, to));
        write(&Value::Int(grouped as i64), to);
    }
}

fn finish<'k>(
    plan: &Grouping,
    mut packed: &'k [u8],
    accumulators: &mut [Accumulator],
    concatenated: &mut [u64],
    env: &mut Env<'_>,
) -> Result<Finished<'k>> {
    let aggregates = plan
        .aggregates
        .iter()
        .zip(accumulators)
        .zip(concatenated)
        .map(|((call, acc), before)| acc.finish(call, before, env))
        .collect::<Result<_>>()?;
    let keys = plan.keys.len() + plan.rollup as usize;
    let keys = (0..keys).map(|_| read(&mut packed)).collect();
    Ok((keys, aggregates))
}

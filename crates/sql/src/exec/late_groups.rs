//! Rows of groups that have outgrown their memory.
//!
//! **GROUP-1** Where one more group would take the statement beyond three eighths of its memory, no
//! group is opened any more. Rows of other groups are late: what the aggregates need of them goes
//! to a sorter, by the key of the group, and so to a temporary file. When all rows have come, the
//! late ones are read group by group, and one group at a time is in memory. The rows of a group
//! stay in the order in which they came.
//! **GROUP-2** Where the groups in memory still grow, as those of GROUP_CONCAT and DISTINCT do, and
//! an eighth of the memory would not be enough for that, all rows are late. A group that has begun
//! in memory goes on with its accumulators.
//! **GROUP-3** The different values of a DISTINCT aggregate that outgrow their memory while one
//! group is collected are late, too: they are sorted, and each is added once when all rows of the
//! group have come.
use super::aggregate::{Accumulator, distinct_key};
use super::eval::{Eval, Row, Scope};
use super::late_sorter::{LateSorter, ROOM, turn};
use super::row_buffer::{read, read_row, write};
use super::{Env, ExecContext};
use crate::error::Result;
use crate::plan::{Aggregate, AggregateCall, Expr, ExprKind, ExprType, Grouping};
use redolith_types::{Collation, Value};

/// What the aggregates need of a row, as values, and the aggregates of such values.
pub struct Inputs {
    calls: Vec<AggregateCall>,
    /// The number of values before those of the aggregates: the keys.
    keys: usize,
    /// For each aggregate: where its values begin.
    starts: Vec<usize>,
}
impl Inputs {
    /// None if there are too many values.
    pub fn of(plan: &Grouping) -> Option<Inputs> {
        let keys = plan.keys.len() + usize::from(plan.rollup);
        let mut inputs = Inputs { calls: plan.aggregates.clone(), keys, starts: Vec::new() };
        let mut column = keys;
        for call in &mut inputs.calls {
            inputs.starts.push(column);
            for n in 0..call.args.len() {
                let place = u16::try_from(column).ok()?;
                if !is_in_plan(&call.args[n]) {
                    let ty = input_type(call, n);
                    let kind = ExprKind::Column { source: 0, column: place };
                    call.args[n] = Expr::new(kind, ty);
                }
                column += 1;
            }
        }
        Some(inputs)
    }
    fn write<'v>(
        calls: &'v [AggregateCall],
        at: Scope<'v>,
        env: &mut Env<'_>,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        for call in calls {
            for (n, e) in call.args.iter().enumerate() {
                write(&input(call, n, e, &mut Eval::new(at, env))?, row);
            }
        }
        Ok(())
    }
}
/// Whether an argument is the same for all rows.
fn is_in_plan(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Literal(_) | ExprKind::Param(_))
}
/// How an aggregate reads an argument.
enum Reads {
    Value,
    Number,
    JsonName,
    JsonValue,
}
fn reads(call: &AggregateCall, n: usize) -> Reads {
    match call.function {
        Aggregate::JsonObjectAgg if n == 0 => Reads::JsonName,
        Aggregate::JsonArrayAgg | Aggregate::JsonObjectAgg => Reads::JsonValue,
        Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor if call.ty.kind.is_string() => {
            Reads::Value
        }
        Aggregate::Sum
        | Aggregate::Avg
        | Aggregate::BitAnd
        | Aggregate::BitOr
        | Aggregate::BitXor
        | Aggregate::StdDevPop
        | Aggregate::StdDevSamp
        | Aggregate::VarPop
        | Aggregate::VarSamp => Reads::Number,
        _ => Reads::Value,
    }
}
fn input_type(call: &AggregateCall, n: usize) -> ExprType {
    match reads(call, n) {
        Reads::JsonValue => ExprType::json(),
        Reads::JsonName => ExprType::string(u32::MAX, Collation::Utf8mb4Bin),
        Reads::Value | Reads::Number => call.args[n].ty,
    }
}
/// The value of an argument. An expression tells more than its value does: whether a number is a
/// truth value in JSON, and what a text is as a number. So these are stored as what they become.
fn input<'v>(
    call: &AggregateCall,
    n: usize,
    e: &'v Expr,
    eval: &mut Eval<'v, '_, '_>,
) -> Result<Value<'v>> {
    if is_in_plan(e) {
        return Ok(Value::Null);
    }
    match reads(call, n) {
        Reads::Value => eval.eval(e),
        Reads::Number => eval.numeric(e),
        Reads::JsonName => Ok(Value::owned(eval.json_name(e)?.into_bytes())),
        Reads::JsonValue => Ok(Value::Json(eval.json_value(e)?)),
    }
}

/// A set of values that grows by less stays in memory, whatever else is there.
const MUCH: usize = 1 << 10;

/// What a row has changed in the accumulators of a group: by how much what they keep has grown, and
/// how much more the next row may make them keep at once.
#[derive(Default)]
pub struct Growth {
    pub by: isize,
    pub next: usize,
}
/// Adds a row to the accumulators of a group. With `late`, values of DISTINCT aggregates that were
/// not met before go there.
pub fn add_row<'v>(
    calls: &'v [AggregateCall],
    accumulators: &mut [Accumulator],
    mut late: Option<&mut LateValues>,
    at: Scope<'v>,
    env: &mut Env<'_>,
) -> Result<Growth> {
    let mut growth = Growth::default();
    for (n, (call, acc)) in calls.iter().zip(accumulators).enumerate() {
        if !acc.may_grow() {
            acc.add(call, at, env)?;
            continue;
        }
        if let Some(late) = late.as_deref_mut().filter(|_| call.distinct) {
            late.push(n, call, acc, at, env)?;
            continue;
        }
        let before = acc.memory();
        acc.add(call, at, env)?;
        growth.by += acc.memory().cast_signed() - before.cast_signed();
        growth.next += acc.growth();
    }
    Ok(growth)
}

/// The late values of the DISTINCT aggregates of one group (GROUP-3).
#[derive(Default)]
pub struct LateValues {
    pub sorter: LateSorter,
    key: Vec<u8>,
    row: Vec<u8>,
}
impl LateValues {
    fn push<'v>(
        &mut self,
        n: usize,
        call: &'v AggregateCall,
        acc: &Accumulator,
        at: Scope<'v>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(&(n as u32).to_be_bytes());
        let start = self.key.len();
        if !distinct_key(call, at, env, &mut self.key)? || acc.has_seen(&self.key[start..]) {
            return Ok(());
        }
        self.row.clear();
        Inputs::write(std::slice::from_ref(call), at, env, &mut self.row)?;
        self.sorter.push(&self.key, |to| to.extend_from_slice(&self.row))
    }
    /// Adds each different value to its accumulator. `kept` and `counted` are the bytes that the
    /// accumulators keep, and those that are charged for.
    pub async fn finish(
        mut self,
        inputs: &Inputs,
        accumulators: &mut [Accumulator],
        kept: &mut usize,
        counted: &mut usize,
        at: Scope<'_>,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.sorter.end(cx).await?;
        self.sorter.sort(cx).await?;
        self.key.clear();
        while self.sorter.rows.advance()? {
            turn(cx).await?;
            if self.sorter.rows.key() == self.key {
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(self.sorter.rows.key());
            let n = self.key.first_chunk().map_or(0, |n| u32::from_be_bytes(*n)) as usize;
            let mut values = vec![Value::Null; inputs.starts[n]];
            values.extend(read_row(self.sorter.rows.row()));
            let at = Scope { sources: &[Row::Values(&values)], ..at };
            let acc = &mut accumulators[n];
            let before = acc.memory();
            acc.add_unseen(&inputs.calls[n], at, &mut cx.env)?;
            let more = acc.memory().cast_signed() - before.cast_signed();
            *kept = kept.saturating_add_signed(more);
            let now = counted.saturating_add_signed(more);
            cx.env.keep(counted, now)?;
        }
        self.sorter.free(&mut cx.env)
    }
}

/// Late rows, and the group of them that is under way.
pub struct LateGroups<'p> {
    plan: &'p Grouping,
    pub inputs: Inputs,
    pub sorter: LateSorter,
    row: Vec<u8>,
    is_sorted: bool,
    /// The sorter is on a row of the next group.
    more: bool,
    /// The key of the group under way, its packed key values and its accumulators.
    key: Vec<u8>,
    pub keys: Vec<u8>,
    pub accumulators: Vec<Accumulator>,
    /// The bytes that the accumulators keep, and those charged for the group.
    kept: usize,
    counted: usize,
}
impl<'p> LateGroups<'p> {
    /// None if the rows cannot be late.
    pub fn new(plan: &'p Grouping) -> Option<LateGroups<'p>> {
        Some(LateGroups {
            plan,
            inputs: Inputs::of(plan)?,
            sorter: LateSorter::default(),
            row: Vec::new(),
            is_sorted: false,
            more: false,
            key: Vec::new(),
            keys: Vec::new(),
            accumulators: Vec::new(),
            kept: 0,
            counted: 0,
        })
    }
    /// Takes a row of the group with a key. `keys` writes the values of the key.
    pub fn push<'v>(
        &mut self,
        key: &[u8],
        keys: impl FnOnce(&mut Vec<u8>),
        at: Scope<'v>,
        env: &mut Env<'_>,
    ) -> Result<()>
    where
        'p: 'v,
    {
        self.row.clear();
        keys(&mut self.row);
        Inputs::write(&self.plan.aggregates, at, env, &mut self.row)?;
        self.sorter.push(key, |to| to.extend_from_slice(&self.row))
    }

    /// Goes to the first row of the next group. Returns its key; None after the last group.
    pub async fn begin(&mut self, cx: &mut ExecContext<'_>) -> Result<Option<&[u8]>> {
        if !self.is_sorted {
            self.sorter.sort(cx).await?;
            (self.is_sorted, self.more) = (true, self.sorter.rows.advance()?);
        }
        if !self.more {
            self.sorter.free(&mut cx.env)?;
            cx.env.keep(&mut self.counted, 0)?;
            return Ok(None);
        }
        self.key.clear();
        self.key.extend_from_slice(self.sorter.rows.key());
        self.keys.clear();
        let mut rest = self.sorter.rows.row();
        let whole = rest.len();
        (0..self.inputs.keys).for_each(|_| drop(read(&mut rest)));
        let row = self.sorter.rows.row();
        self.keys.extend_from_slice(&row[..whole - rest.len()]);
        self.accumulators.clear();
        self.accumulators.extend(self.plan.aggregates.iter().map(Accumulator::new));
        self.kept = 0;
        self.charge(cx)?;
        Ok(Some(&self.key))
    }
    /// The group has begun in memory. Returns the bytes that its accumulators keep.
    pub fn go_on_with(
        &mut self,
        keys: &[u8],
        accumulators: impl Iterator<Item = Accumulator>,
    ) -> usize {
        self.keys.clear();
        self.keys.extend_from_slice(keys);
        self.accumulators.clear();
        self.accumulators.extend(accumulators);
        self.kept = self.accumulators.iter().map(Accumulator::memory).sum();
        self.kept
    }
    fn charge(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        let accumulators = self.accumulators.capacity() * size_of::<Accumulator>();
        let now = self.key.capacity() + self.keys.capacity() + accumulators + self.kept;
        cx.env.keep(&mut self.counted, now)
    }
    /// Adds the current row.
    fn add(
        &mut self,
        late: Option<&mut LateValues>,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Result<Growth> {
        let mark = env.held();
        let values = read_row(self.sorter.rows.row());
        let at = Scope { sources: &[Row::Values(&values)], ..at };
        let growth = add_row(&self.inputs.calls, &mut self.accumulators, late, at, env)?;
        env.release_to(mark);
        Ok(growth)
    }
    /// Takes all rows of the group.
    pub async fn collect(&mut self, at: Scope<'_>, cx: &mut ExecContext<'_>) -> Result<()> {
        self.charge(cx)?;
        let is_distinct = self.plan.aggregates.iter().any(|call| call.distinct);
        let mut late: Option<LateValues> = None;
        while self.more && self.sorter.rows.key() == self.key {
            turn(cx).await?;
            let growth = self.add(late.as_mut(), at, &mut cx.env)?;
            self.kept = self.kept.saturating_add_signed(growth.by);
            self.charge(cx)?;
            if let Some(late) = &mut late {
                late.sorter.charge(&mut cx.env)?;
                late.sorter.spill(cx).await?;
            } else if is_distinct && growth.next >= MUCH && cx.env.is_beyond(ROOM, growth.next) {
                late = Some(LateValues::default());
            }
            self.more = self.sorter.rows.advance()?;
        }
        if let Some(late) = late {
            let LateGroups { inputs, accumulators, kept, counted, .. } = self;
            late.finish(inputs, accumulators, kept, counted, at, cx).await?;
        }
        Ok(())
    }
}

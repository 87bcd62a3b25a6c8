//! Runs window functions: sorts the rows of the inner SELECT and puts the functions' values behind
//! them (WIN-1).
//!
//! **WIN-2** For each sort, the rows of one partition are in memory at a time, charged to the
//! statement: packed, with the values that the functions need of other rows beside them. All other
//! rows may go to files.
//! **WIN-3** A function's frame moves forward only. What a frame of n rows costs for each row does
//! not grow with n for COUNT, MIN and MAX, and for SUM and AVG of exact numbers. Doubles and the
//! other aggregates are calculated again from all rows of a frame whose start has moved: their
//! values depend on the order of the additions.
use super::eval::{Eval, Row, Scope};
use super::frame::{Frames, Sliding};
use super::row_buffer::{read_row, write};
use super::rows::{Derived, Kept, kept_rows};
use super::scan::check_killed;
use super::select::RowTarget;
use super::{Env, ExecContext, sorting, sortkey};
use crate::error::{Result, SqlError};
use crate::plan::{Expr, SelectPlan, WindowCall, WindowFunction, WindowSort, WindowStage};
use redolith_engine::sort::Sorter;
use redolith_types::Value;
use smallvec::SmallVec;

/// The rows of the inner SELECT with the values of all functions. The caller charges for them.
pub async fn rows(cx: &mut ExecContext<'_>, stage: &WindowStage, at: Scope<'_>) -> Result<Kept> {
    let mut rows = kept_rows(cx, &stage.inner, at).await?;
    for sort in &stage.sorts {
        rows = Box::pin(with_values(cx, &stage.inner, sort, rows, at)).await?;
    }
    Ok(rows)
}

/// The rows in the order of a sort, with the values of its functions behind their own.
async fn with_values(
    cx: &mut ExecContext<'_>,
    inner: &SelectPlan,
    sort: &WindowSort,
    mut rows: Kept,
    at: Scope<'_>,
) -> Result<Kept> {
    let mut charged_rows = 0;
    cx.env.keep(&mut charged_rows, rows.memory())?;
    let mut work = Work::new(sort, inner, at, &mut cx.env)?;
    let mut key = Vec::new();
    if sort.partition.is_empty() && sort.order.is_empty() {
        while rows.advance()? {
            let row = rows.current();
            work.partition.push(row.iter(), &sort.needed, true);
            work.charge(&mut cx.env)?;
            turn(cx).await?;
        }
        rows.free(&mut cx.env);
        cx.env.keeps_no_more(charged_rows);
        work.give(cx).await?;
        return work.finish(cx).await;
    }
    let (mut sorter, mut charged) = (Sorter::new(None), 0);
    while rows.advance()? {
        let row = rows.current();
        key.clear();
        for n in &sort.partition {
            let ty = &inner.output[*n as usize].ty;
            sortkey::push(&row[*n as usize], ty, ty.collation, &mut cx.env, &mut key)?;
        }
        // The row knows where the partition's part of its key ends.
        let mut values: SmallVec<[Value<'_>; 8]> = SmallVec::new();
        values.push(Value::UInt(key.len() as u64));
        for k in &sort.order {
            let n = k.output as usize;
            let ty = &inner.output[n].ty;
            let value = &row[n];
            sortkey::push_ordered(value, ty, k.collation, k.descending, &mut cx.env, &mut key)?;
        }
        values.extend(row.iter().map(Value::borrow));
        sorter.push(&key, |row| values.iter().for_each(|v| write(v, row)))?;
        drop(values);
        cx.env.keep(&mut charged, sorter.memory())?;
        sorting::spill_if_large(cx, &mut sorter, &mut charged).await?;
        turn(cx).await?;
    }
    rows.free(&mut cx.env);
    cx.env.keeps_no_more(charged_rows);
    sorting::sort(cx, &mut sorter, &mut charged).await?;
    let mut first = true;
    while sorter.advance()? {
        let values = read_row(sorter.row());
        let Some((Value::UInt(split), row)) = values.split_first() else {
            return Err(SqlError::internal("a sorted row begins with the length of its partition"));
        };
        let (partition, order) = sorter.key().split_at(*split as usize);
        let same = !first && partition == work.partition_key;
        let peer = same && order == work.order_key;
        if !same {
            work.give(cx).await?;
            work.partition_key.clear();
            work.partition_key.extend_from_slice(partition);
        }
        if !peer {
            work.order_key.clear();
            work.order_key.extend_from_slice(order);
        }
        work.partition.push(row.iter(), &sort.needed, peer || work.partition.is_empty());
        first = false;
        work.charge(&mut cx.env)?;
        turn(cx).await?;
    }
    work.give(cx).await?;
    drop(sorter);
    cx.env.keeps_no_more(charged);
    work.finish(cx).await
}

/// Ends the work on a row: other tasks get their turn, and KILL is looked at.
async fn turn(cx: &mut ExecContext<'_>) -> Result<()> {
    cx.env.step()?;
    check_killed(&cx.env)?;
    cx.trx.give_way().await;
    Ok(())
}

/// The rows of a partition.
#[derive(Default)]
pub struct Partition {
    /// The packed rows; `ends` has the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The needed values, `width` for each row.
    values: Vec<Value<'static>>,
    width: usize,
    /// The bytes that the values keep beside themselves.
    kept: usize,
    /// The first rows of the groups of rows with equal sort keys.
    peers: Vec<usize>,
}
impl Partition {
    /// Adds a row. `peer` if its sort keys are those of the row before; the first row is one, too.
    fn push<'v>(
        &mut self,
        row: impl Iterator<Item = &'v Value<'v>> + Clone,
        needed: &[u16],
        peer: bool,
    ) {
        if !peer || self.ends.is_empty() {
            self.peers.push(self.ends.len());
        }
        row.clone().for_each(|value| write(value, &mut self.bytes));
        self.ends.push(self.bytes.len());
        self.width = needed.len();
        for n in needed {
            let value = row.clone().nth(*n as usize).map_or(Value::Null, Value::borrow);
            self.kept += crate::memory::bytes_of(&value);
            self.values.push(value.into_owned());
        }
    }
    fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    pub fn rows(&self) -> usize {
        self.ends.len()
    }
    /// The needed values of a row.
    pub fn needed(&self, n: usize) -> &[Value<'static>] {
        &self.values[n * self.width..(n + 1) * self.width]
    }
    fn packed(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.bytes[start..self.ends[n]]
    }
    /// The first row of group `n` of peers, and the row behind its last.
    pub fn peers(&self, n: usize) -> (usize, usize) {
        (self.peers[n], self.peers.get(n + 1).copied().unwrap_or(self.rows()))
    }
    fn memory(&self) -> usize {
        let numbers = self.ends.capacity() + self.peers.capacity();
        self.bytes.capacity()
            + numbers * size_of::<usize>()
            + self.values.capacity() * size_of::<Value<'_>>()
            + self.kept
    }
    fn clear(&mut self) {
        *self = Partition { width: self.width, ..Partition::default() };
    }
}

struct Work<'p> {
    sort: &'p WindowSort,
    inner: &'p SelectPlan,
    at: Scope<'p>,
    /// The number of each function: of buckets, of rows.
    numbers: Vec<Option<u64>>,
    partition: Partition,
    partition_key: Vec<u8>,
    order_key: Vec<u8>,
    made: Derived,
    /// The bytes charged for the partition and the rows that are made.
    charged: usize,
}

impl<'p> Work<'p> {
    fn new(
        sort: &'p WindowSort,
        inner: &'p SelectPlan,
        at: Scope<'p>,
        env: &mut Env<'_>,
    ) -> Result<Work<'p>> {
        let at = at.given();
        let numbers = sort
            .calls
            .iter()
            .map(|call| call.number.as_ref().map(|e| number_of(call, e, at, env)).transpose())
            .collect::<Result<_>>()?;
        Ok(Work {
            sort,
            inner,
            at,
            numbers,
            partition: Partition::default(),
            partition_key: Vec::new(),
            order_key: Vec::new(),
            made: Derived::default(),
            charged: 0,
        })
    }
    fn charge(&mut self, env: &mut Env<'_>) -> Result<()> {
        let memory = self.partition.memory() + self.made.held();
        env.keep(&mut self.charged, memory)
    }

    /// Makes the rows of the partition that has come to its end.
    async fn give(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.partition.is_empty() {
            return Ok(());
        }
        let partition = std::mem::take(&mut self.partition);
        let memory = partition.memory();
        let mut functions = Vec::with_capacity(self.sort.calls.len());
        for call in &self.sort.calls {
            functions.push(State {
                call,
                frames: Frames::new(&call.frame, self.at, &mut cx.env)?,
                sliding: Sliding::new(call),
                counted: 0,
            });
        }
        let (mut group, mut charged_functions) = (0, 0);
        for n in 0..partition.rows() {
            while partition.peers(group).1 <= n {
                group += 1;
            }
            let mark = cx.env.held();
            let mut values = read_row(partition.packed(n));
            for (state, number) in functions.iter_mut().zip(&self.numbers) {
                let value = state.value(&partition, n, group, *number, self.at, &mut cx.env)?;
                let memory = state.sliding.memory();
                let more = memory.saturating_sub(state.counted);
                cx.env.charge(crate::memory::bytes_of(&value) + more)?;
                state.counted = memory;
                values.push(value);
            }
            self.made.row(&values);
            drop(values);
            cx.env.release_to(mark);
            let functions_now = functions.iter().map(|state| state.counted).sum();
            cx.env.keep(&mut charged_functions, functions_now)?;
            if self.made.wants_drain() {
                self.made.drain(cx).await?;
            }
            cx.env.keep(&mut self.charged, memory + self.made.held())?;
            turn(cx).await?;
        }
        drop(functions);
        cx.env.keeps_no_more(charged_functions);
        cx.env.keeps(memory);
        self.partition = partition;
        self.partition.clear();
        self.charge(&mut cx.env)
    }
    async fn finish(mut self, cx: &mut ExecContext<'_>) -> Result<Kept> {
        debug_assert!(self.inner.visible > 0 || self.sort.needed.is_empty());
        self.made.drain(cx).await?;
        cx.env.keeps_no_more(self.charged);
        Ok(self.made.kept())
    }
}

/// The number of buckets, rows or places.
fn number_of(call: &WindowCall, e: &Expr, at: Scope<'_>, env: &mut Env<'_>) -> Result<u64> {
    let (name, least) = match call.function {
        WindowFunction::Lag => ("lag", 0),
        WindowFunction::Lead => ("lead", 0),
        WindowFunction::NthValue => ("nth_value", 1),
        _ => ("ntile", 1),
    };
    let n = match Eval::new(at, env).eval(e)? {
        Value::Int(n) => u64::try_from(n).ok(),
        Value::UInt(n) => Some(n),
        _ => None,
    };
    n.filter(|n| *n >= least).ok_or_else(|| SqlError::wrong_arguments(name))
}

/// A function while a partition's rows are made.
struct State<'p> {
    call: &'p WindowCall,
    frames: Frames<'p>,
    sliding: Sliding,
    /// The bytes of `sliding` that are charged.
    counted: usize,
}

impl State<'_> {
    /// The function's value for row `n`, which is in group `group` of its peers.
    fn value(
        &mut self,
        partition: &Partition,
        n: usize,
        group: usize,
        number: Option<u64>,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Result<Value<'static>> {
        use WindowFunction as F;
        let rows = partition.rows();
        let (first, behind) = partition.peers(group);
        let argument = |row: usize, arg: usize, env: &mut Env<'_>| -> Result<Value<'static>> {
            let Some(e) = self.call.args.get(arg) else { return Ok(Value::Null) };
            let needed = [Row::Values(partition.needed(row))];
            let at = Scope { sources: &needed, ..at };
            Ok(Eval::new(at, env).eval(e)?.into_owned())
        };
        let beside = |row: Option<usize>, env: &mut Env<'_>| match row.filter(|row| *row < rows) {
            Some(row) => argument(row, 0, env),
            None => argument(n, 1, env),
        };
        let distance = || number.map_or(1, |d| usize::try_from(d).unwrap_or(usize::MAX));
        Ok(match &self.call.function {
            F::RowNumber => Value::UInt(n as u64 + 1),
            F::Rank => Value::UInt(first as u64 + 1),
            F::DenseRank => Value::UInt(group as u64 + 1),
            F::PercentRank if rows == 1 => Value::Double(0.0),
            F::PercentRank => Value::Double(first as f64 / (rows - 1) as f64),
            F::CumeDist => Value::Double(behind as f64 / rows as f64),
            F::Ntile => Value::UInt(bucket(n as u64, rows as u64, number.unwrap_or(1))),
            F::Lag => beside(n.checked_sub(distance()), env)?,
            F::Lead => beside(n.checked_add(distance()), env)?,
            F::FirstValue | F::LastValue | F::NthValue => {
                let (start, end) = self.frames.of(partition, n, (first, behind), env)?;
                let row = match self.call.function {
                    F::FirstValue => Some(start),
                    F::LastValue => end.checked_sub(1),
                    _ => start.checked_add(distance() - 1),
                };
                match row.filter(|row| (start..end).contains(row)) {
                    Some(row) => argument(row, 0, env)?,
                    None => Value::Null,
                }
            }
            F::Aggregate(of) => {
                let (start, end) = self.frames.of(partition, n, (first, behind), env)?;
                self.sliding.value(of, partition, start..end, at, env)?
            }
        })
    }
}

/// The bucket of row `n` among `rows` rows: the first buckets have one row more if the rows cannot
/// be parted equally.
fn bucket(n: u64, rows: u64, buckets: u64) -> u64 {
    let (size, longer) = (rows / buckets, rows % buckets);
    match n.checked_sub(longer * (size + 1)) {
        None => n / (size + 1) + 1,
        Some(behind) => longer + behind / size.max(1) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn buckets_are_as_equal_as_can_be() {
        for rows in 1..30 {
            for buckets in 1..40 {
                let all: Vec<u64> = (0..rows).map(|n| bucket(n, rows, buckets)).collect();
                assert!(all.is_sorted() && all[0] == 1, "{rows} {buckets} {all:?}");
                let sizes: Vec<usize> = (1..=buckets.min(rows))
                    .map(|b| all.iter().filter(|n| **n == b).count())
                    .collect();
                assert_eq!(sizes.iter().sum::<usize>(), rows as usize);
                let (most, least) = (sizes.iter().max(), sizes.iter().min());
                assert!(most.unwrap() - least.unwrap() <= 1, "{rows} {buckets} {sizes:?}");
                assert!(sizes.is_sorted_by(|a, b| a >= b));
            }
        }
    }
}

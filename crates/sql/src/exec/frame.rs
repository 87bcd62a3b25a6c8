//! The frames of window functions, and aggregates over frames that move (WIN-3).
use super::aggregate::Accumulator;
use super::eval::{Eval, Row, Scope};
use super::window::Partition;
use super::{Env, sortkey};
use crate::error::{Result, SqlError};
use crate::plan::{Aggregate, AggregateCall, Edge, Expr, Frame, WindowCall, WindowFunction};
use redolith_types::Value;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

/// The frames of a function in a partition, from its first row on.
pub struct Frames<'p> {
    start: Side<'p>,
    end: Side<'p>,
    at: Scope<'p>,
    keys: (Vec<u8>, Vec<u8>),
}
struct Side<'p> {
    edge: &'p Edge,
    /// ROWS: the number of rows.
    rows: usize,
    /// RANGE: where the side was for the row before.
    place: usize,
}

impl<'p> Side<'p> {
    fn new(edge: &'p Edge, at: Scope<'p>, env: &mut Env<'_>) -> Result<Side<'p>> {
        let rows = match edge {
            Edge::Rows { number, .. } => match Eval::new(at, env).eval(number)? {
                Value::Int(n) => usize::try_from(n).map_err(|_| illegal())?,
                Value::UInt(n) => usize::try_from(n).unwrap_or(usize::MAX),
                _ => return Err(illegal()),
            },
            _ => 0,
        };
        Ok(Side { edge, rows, place: 0 })
    }
}
fn illegal() -> SqlError {
    SqlError::frame_illegal("<unnamed window>")
}

impl<'p> Frames<'p> {
    pub fn new(frame: &'p Frame, at: Scope<'p>, env: &mut Env<'_>) -> Result<Frames<'p>> {
        Ok(Frames {
            start: Side::new(&frame.start, at, env)?,
            end: Side::new(&frame.end, at, env)?,
            at,
            keys: Default::default(),
        })
    }
    /// The first row of row `n`'s frame, and the row behind its last; both may be equal. The rows
    /// are asked for in their order. `peers` are the row's peers.
    pub fn of(
        &mut self,
        partition: &Partition,
        n: usize,
        peers: (usize, usize),
        env: &mut Env<'_>,
    ) -> Result<(usize, usize)> {
        let rows = partition.rows();
        let start = match self.start.edge {
            Edge::Unbounded => 0,
            Edge::Row => n,
            Edge::Peers => peers.0,
            Edge::Rows { before: true, .. } => n.saturating_sub(self.start.rows),
            Edge::Rows { .. } => n.saturating_add(self.start.rows).min(rows),
            Edge::Value { .. } => self.by_value(partition, n, true, env)?,
        };
        let end = match self.end.edge {
            Edge::Unbounded => rows,
            Edge::Row => n + 1,
            Edge::Peers => peers.1,
            Edge::Rows { before: true, .. } => (n + 1).saturating_sub(self.end.rows),
            Edge::Rows { .. } => n.saturating_add(self.end.rows).saturating_add(1).min(rows),
            Edge::Value { .. } => self.by_value(partition, n, false, env)?,
        };
        Ok((start, end.max(start)))
    }

    /// A side of a RANGE frame: it moves on while the rows are before the current row's limit; the
    /// end also while they are at the limit.
    fn by_value(
        &mut self,
        partition: &Partition,
        n: usize,
        is_start: bool,
        env: &mut Env<'_>,
    ) -> Result<usize> {
        let side = if is_start { &mut self.start } else { &mut self.end };
        let Edge::Value { value, limit, descending, before } = side.edge else {
            return Ok(side.place);
        };
        let (limit_key, row_key) = (&mut self.keys.0, &mut self.keys.1);
        let own_is_null = push_key(value, *descending, partition.needed(n), self.at, env, row_key)?;
        let limit_is_null =
            push_key(limit, *descending, partition.needed(n), self.at, env, limit_key)?;
        // A limit beyond all dates or doubles is NULL. The side stays, or goes to the end of these,
        // which lie before the rows of NULL in descending order, and behind them in ascending
        // order.
        let beyond = limit_is_null && !own_is_null;
        while side.place < partition.rows() {
            let row = partition.needed(side.place);
            let is_null = push_key(value, *descending, row, self.at, env, row_key)?;
            let moves = match row_key.cmp(&limit_key) {
                _ if beyond && *descending => !is_null && !*before,
                _ if beyond => is_null || !*before,
                Ordering::Less => true,
                Ordering::Equal => !is_start,
                Ordering::Greater => false,
            };
            if !moves {
                break;
            }
            side.place += 1;
        }
        Ok(side.place)
    }
}

/// The sort key of an expression over a row's needed values. Returns whether it is NULL.
fn push_key(
    e: &Expr,
    descending: bool,
    row: &[Value<'static>],
    at: Scope<'_>,
    env: &mut Env<'_>,
    key: &mut Vec<u8>,
) -> Result<bool> {
    key.clear();
    let needed = [Row::Values(row)];
    let value = Eval::new(Scope { sources: &needed, ..at }, env).eval(e)?;
    sortkey::push_ordered(&value, &e.ty, e.ty.collation, descending, env, key)?;
    Ok(value.is_null())
}

/// The value of an aggregate over a frame that moves.
pub struct Sliding {
    state: Option<Accumulator>,
    /// MIN and MAX: the rows of the frame that may still become its extreme, the best first.
    best: VecDeque<usize>,
    covered: Range<usize>,
    last: Option<Value<'static>>,
}

impl Sliding {
    pub fn new(call: &WindowCall) -> Sliding {
        let state = match &call.function {
            WindowFunction::Aggregate(of) => Some(Accumulator::new(of)),
            _ => None,
        };
        Sliding { state, best: VecDeque::new(), covered: 0..0, last: None }
    }

    /// The bytes that the function keeps from row to row.
    pub fn memory(&self) -> usize {
        self.state.as_ref().map_or(0, Accumulator::memory)
            + self.last.as_ref().map_or(0, crate::memory::bytes_of)
            + self.best.capacity() * size_of::<usize>()
    }

    pub fn value(
        &mut self,
        call: &AggregateCall,
        partition: &Partition,
        frame: Range<usize>,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Result<Value<'static>> {
        if frame == self.covered
            && let Some(last) = &self.last
        {
            return Ok(last.clone());
        }
        let value = match call.function {
            Aggregate::Min | Aggregate::Max => self.extreme(call, partition, frame, env)?,
            _ => self.accumulated(call, partition, frame, at, env)?,
        };
        self.last = Some(value.clone());
        Ok(value)
    }

    fn accumulated(
        &mut self,
        call: &AggregateCall,
        partition: &Partition,
        frame: Range<usize>,
        at: Scope<'_>,
        env: &mut Env<'_>,
    ) -> Result<Value<'static>> {
        let mut state = self.state.take().unwrap_or_else(|| Accumulator::new(call));
        let mut covered = std::mem::replace(&mut self.covered, frame.clone());
        let moves_on =
            frame.start >= covered.start && frame.start <= covered.end && frame.end >= covered.end;
        let dropped = covered.start..frame.start;
        if !moves_on || !dropped.is_empty() && (!state.forgets() || dropped.len() > frame.len()) {
            state = Accumulator::new(call);
            covered = frame.start..frame.start;
        } else {
            for n in dropped {
                let needed = [Row::Values(partition.needed(n))];
                state.remove(call, Scope { sources: &needed, ..at }, env)?;
            }
        }
        for n in covered.end..frame.end {
            env.step()?;
            let needed = [Row::Values(partition.needed(n))];
            state.add(call, Scope { sources: &needed, ..at }, env)?;
        }
        let value = state.finish(call, &mut 0, env)?;
        self.state = Some(state);
        // The value is one of a column. In a calculation, too, it has the decimals of its type.
        Ok(match value {
            Value::Decimal(d) => Value::Decimal(d.round(call.ty.decimals).unwrap_or(d)),
            value => value,
        })
    }

    fn extreme(
        &mut self,
        call: &AggregateCall,
        partition: &Partition,
        frame: Range<usize>,
        env: &mut Env<'_>,
    ) -> Result<Value<'static>> {
        let Some((place, collation)) = call.args.first().and_then(|e| match e.kind {
            crate::plan::ExprKind::Column { column, .. } => Some((column as usize, e.ty.collation)),
            _ => None,
        }) else {
            return Err(SqlError::internal("the argument of MIN or MAX is a column of the rows"));
        };
        let wanted = match call.function {
            Aggregate::Min => Ordering::Less,
            _ => Ordering::Greater,
        };
        let covered = std::mem::replace(&mut self.covered, frame.clone());
        let begin = if frame.start < covered.start || frame.end < covered.end {
            self.best.clear();
            frame.start
        } else {
            covered.end.max(frame.start)
        };
        for n in begin..frame.end {
            env.step()?;
            let value = &partition.needed(n)[place];
            if value.is_null() {
                continue;
            }
            while let Some(last) = self.best.back()
                && value.compare(&partition.needed(*last)[place], collation) == wanted
            {
                self.best.pop_back();
            }
            self.best.push_back(n);
        }
        while self.best.front().is_some_and(|n| *n < frame.start) {
            self.best.pop_front();
        }
        Ok(self.best.front().map_or(Value::Null, |n| partition.needed(*n)[place].clone()))
    }
}

//! Aggregate functions: an accumulator keeps the state of one function for one group.
use super::concat_items::ConcatItems;
use super::env::Env;
use super::eval::short_decimal::{Found, Short};
use super::eval::{Eval, Scope};
use super::json_items::JsonItems;
use super::pace::LONG;
use super::row_buffer::KeySet;
use super::sortkey;
use super::sum::Sum;
use crate::bind::LONGEST_BITS;
use crate::error::{Result, SqlError};
use crate::plan::{Aggregate, AggregateCall, Expr, ExprType, Kind};
use redolith_types::convert::{to_f64, to_integer};
use redolith_types::{Collation, Decimal, Value};
use std::cmp::Ordering;

pub struct Accumulator {
    state: State,
    /// For DISTINCT: the values counted so far.
    seen: Option<Box<KeySet>>,
}

enum State {
    Count(u64),
    /// SUM or AVG of integers (exact), decimals or doubles. `rows` is 0 before the first value.
    Sum {
        rows: u64,
        sum: Sum,
    },
    /// The value so far of MIN, MAX or ANY_VALUE.
    Pick(Value<'static>),
    Bits(u64),
    /// BIT_AND, BIT_OR and BIT_XOR of binary strings; None before the first value.
    BitsOfBytes(Option<Vec<u8>>),
    /// Welford's running mean and sum of squared differences (Knuth, The Art of Computer
    /// Programming 2, 4.2.2).
    Variance {
        rows: u64,
        mean: f64,
        squares: f64,
    },
    /// The text so far of GROUP_CONCAT and the number of its items; None before the first item.
    Concat(Option<Vec<u8>>, u64),
    /// JSON_ARRAYAGG and JSON_OBJECTAGG.
    Json(JsonItems),
    /// The items of GROUP_CONCAT with ORDER BY.
    SortedConcat(ConcatItems),
}

impl Accumulator {
    pub fn new(call: &AggregateCall) -> Accumulator {
        let state = match call.function {
            Aggregate::Count => State::Count(0),
            Aggregate::Sum | Aggregate::Avg => {
                let kind = call.args[0].ty.kind;
                let sum = match call.ty.kind {
                    Kind::Double | Kind::Float => Sum::Double(0.0),
                    _ if kind.is_integer() => Sum::Int(0),
                    _ => Sum::Short(Short::ZERO),
                };
                State::Sum { rows: 0, sum }
            }
            Aggregate::Min | Aggregate::Max | Aggregate::AnyValue => State::Pick(Value::Null),
            Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor
                if call.ty.kind.is_string() =>
            {
                State::BitsOfBytes(None)
            }
            Aggregate::BitAnd => State::Bits(u64::MAX),
            Aggregate::BitOr | Aggregate::BitXor => State::Bits(0),
            Aggregate::StdDevPop
            | Aggregate::StdDevSamp
            | Aggregate::VarPop
            | Aggregate::VarSamp => State::Variance { rows: 0, mean: 0.0, squares: 0.0 },
            Aggregate::JsonArrayAgg | Aggregate::JsonObjectAgg => State::Json(JsonItems::default()),
            Aggregate::GroupConcat if call.order.is_empty() => State::Concat(None, 0),
            Aggregate::GroupConcat => State::SortedConcat(ConcatItems::default()),
        };
        Accumulator { state, seen: call.distinct.then(Box::default) }
    }

    /// Whether a row may change the bytes that the accumulator keeps beside itself.
    #[inline]
    pub fn may_grow(&self) -> bool {
        let is_fixed = matches!(
            self.state,
            State::Count(_) | State::Sum { .. } | State::Bits(_) | State::Variance { .. }
        );
        self.seen.is_some() || !is_fixed
    }
    /// The bytes that the accumulator keeps beside itself.
    pub fn memory(&self) -> usize {
        let state = match &self.state {
            State::Pick(Value::Bytes(b) | Value::Json(b)) => b.len(),
            State::Pick(_) => 0,
            State::Concat(text, _) | State::BitsOfBytes(text) => {
                text.as_ref().map_or(0, Vec::capacity)
            }
            State::Json(items) => items.memory(),
            State::SortedConcat(items) => items.memory(),
            State::Count(_) | State::Sum { .. } | State::Bits(_) | State::Variance { .. } => 0,
        };
        state + self.seen.as_ref().map_or(0, |seen| seen.memory())
    }

    /// How much more a new value of DISTINCT may make the accumulator keep at once.
    pub fn growth(&self) -> usize {
        self.seen.as_ref().map_or(0, |seen| seen.growth())
    }
    /// For DISTINCT: whether the values with this key were counted.
    pub fn has_seen(&self, key: &[u8]) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.contains(key))
    }
    /// Adds a row whose values DISTINCT has not counted, and does not note them.
    pub fn add_unseen<'v>(
        &mut self,
        call: &'v AggregateCall,
        at: Scope<'v>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        let seen = self.seen.take();
        let added = self.add(call, at, env);
        self.seen = seen;
        added
    }

    pub fn add<'v>(
        &mut self,
        call: &'v AggregateCall,
        at: Scope<'v>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        if let State::Concat(Some(text), _) = &self.state
            && text.len() > env.settings.group_concat_max_len
        {
            // `finish` would cut off further items.
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            let mut key = std::mem::take(&mut env.correlated.key);
            key.clear();
            let has_value = distinct_key(call, at, env, &mut key);
            let is_new = has_value.map(|has_value| has_value && seen.insert(&key).1);
            if key.capacity() < LONG {
                env.correlated.key = key;
            }
            if !is_new? {
                return Ok(());
            }
        }
        let mut eval = Eval::new(at, env);
        match (&mut self.state, own(call)) {
            (State::Count(n), []) => *n += 1,
            (State::Count(n), args) => {
                for e in args {
                    if eval.eval(e)?.is_null() {
                        return Ok(());
                    }
                }
                *n += 1;
            }
            (State::Sum { rows, sum }, [e, ..]) => {
                let value = match sum {
                    Sum::Short(_) => match eval.short(e)? {
                        Found::Null => return Ok(()),
                        Found::Number(n) => {
                            *rows += 1;
                            return sum.add_short(n);
                        }
                        Found::Other => eval.other_number(e)?,
                    },
                    _ => eval.number(e)?,
                };
                if !value.is_null() {
                    *rows += 1;
                    sum.add(&value, env)?;
                }
            }
            (State::Pick(best), [e, ..]) => {
                let value = eval.eval(e)?;
                let better = match call.function {
                    _ if value.is_null() => false,
                    _ if best.is_null() => true,
                    Aggregate::Min => value.compare(best, e.ty.collation) == Ordering::Less,
                    Aggregate::Max => value.compare(best, e.ty.collation) == Ordering::Greater,
                    _ => false,
                };
                if better {
                    *best = value.into_owned();
                }
            }
            (State::Bits(bits), [e, ..]) => {
                let value = eval.numeric(e)?;
                if !value.is_null() {
                    let greatest = if matches!(value, Value::Double(_) | Value::Float(_)) {
                        i64::MAX as i128
                    } else {
                        u64::MAX as i128
                    };
                    let n = to_integer(&value).value.clamp(i64::MIN as i128, greatest) as u64;
                    match call.function {
                        Aggregate::BitAnd => *bits &= n,
                        Aggregate::BitOr => *bits |= n,
                        _ => *bits ^= n,
                    }
                }
            }
            (State::BitsOfBytes(so_far), [e, ..]) => {
                let value = eval.eval(e)?;
                if let Some(bytes) = value.as_bytes() {
                    combine_bits(so_far, call.function, bytes)?;
                }
            }
            (State::Variance { rows, mean, squares }, [e, ..]) => {
                let value = eval.numeric(e)?;
                if !value.is_null() {
                    let x = to_f64(&value).value;
                    *rows += 1;
                    let before = x - *mean;
                    *mean += before / *rows as f64;
                    *squares += before * (x - *mean);
                }
            }
            (State::Json(items), args) => items.add(args, &mut eval)?,
            (State::Concat(so_far, items), args) => {
                let Some(item) = concatenated(args, call, &mut eval)? else { return Ok(()) };
                *items += 1;
                match so_far {
                    None => *so_far = Some(item),
                    Some(text) => {
                        text.extend_from_slice(&call.separator);
                        text.extend_from_slice(&item);
                    }
                }
            }
            (State::SortedConcat(items), args) => {
                let Some(mut text) = concatenated(args, call, &mut eval)? else { return Ok(()) };
                // `finish` cuts off what is longer, and looks at one byte behind.
                text.truncate(env.settings.group_concat_max_len.saturating_add(1));
                items.push(&text, |key| {
                    for k in &call.order {
                        let e = &call.args[k.output as usize];
                        let value = Eval::new(at, env).eval(e)?;
                        sortkey::push_ordered(&value, &e.ty, k.collation, k.descending, env, key)?;
                    }
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether [`Self::remove`] takes a row back without a trace.
    pub fn forgets(&self) -> bool {
        matches!(
            self.state,
            State::Count(_) | State::Sum { sum: Sum::Int(_) | Sum::Short(_) | Sum::Decimal(_), .. }
        )
    }
    /// Takes back what [`Self::add`] has added for a row. The state [`Self::forgets`].
    pub fn remove<'v>(
        &mut self,
        call: &'v AggregateCall,
        at: Scope<'v>,
        env: &mut Env<'_>,
    ) -> Result<()> {
        let mut eval = Eval::new(at, env);
        match (&mut self.state, own(call)) {
            (State::Count(n), []) => *n -= 1,
            (State::Count(n), [e, ..]) => {
                if !eval.eval(e)?.is_null() {
                    *n -= 1;
                }
            }
            (State::Sum { rows, sum }, [e, ..]) => {
                let value = eval.numeric(e)?;
                if !value.is_null() {
                    *rows -= 1;
                    sum.subtract(&value)?;
                }
            }
            _ => return Err(SqlError::internal("an aggregate takes no row back")),
        }
        Ok(())
    }

    /// True if MIN or MAX has met a value.
    pub fn has_value(&self) -> bool {
        matches!(&self.state, State::Pick(v) if !v.is_null())
    }

    /// The result for the group. `concatenated` counts the items of GROUP_CONCAT in the groups so
    /// far, for its warning.
    pub fn finish(
        &mut self,
        call: &AggregateCall,
        concatenated: &mut u64,
        env: &mut Env<'_>,
    ) -> Result<Value<'static>> {
        let out_of_range = |kind| SqlError::value_out_of_range(kind, "sum");
        Ok(match &mut self.state {
            State::Count(n) => Value::Int(*n as i64),
            State::Sum { rows: 0, .. } => Value::Null,
            State::Sum { rows, sum } => {
                let average = call.function == Aggregate::Avg;
                match (&*sum, sum.exact()) {
                    (Sum::Double(x), _) => {
                        Value::Double(if average { *x / *rows as f64 } else { *x })
                    }
                    (_, sum) => sum
                        .and_then(|sum| exact(sum, average.then_some(*rows), env))
                        .ok_or_else(|| out_of_range("DECIMAL"))?,
                }
            }
            State::Pick(best) => std::mem::take(best),
            State::Bits(bits) => Value::UInt(*bits),
            State::BitsOfBytes(Some(bytes)) => Value::owned(bytes.clone()),
            State::BitsOfBytes(None) => {
                let neutral = if call.function == Aggregate::BitAnd { 0xff } else { 0 };
                Value::owned(vec![neutral; call.ty.length as usize])
            }
            State::Variance { rows, squares, .. } => {
                let sample = matches!(call.function, Aggregate::StdDevSamp | Aggregate::VarSamp);
                let divisor = rows.saturating_sub(sample as u64);
                if divisor == 0 {
                    return Ok(Value::Null);
                }
                let variance = *squares / divisor as f64;
                let deviation =
                    matches!(call.function, Aggregate::StdDevPop | Aggregate::StdDevSamp);
                let result = if deviation { variance.sqrt() } else { variance };
                // The squares of the greatest numbers are infinite.
                Value::Double(if result.is_finite() { result } else { f64::MAX })
            }
            State::Json(items) => {
                return items.finish(call.function == Aggregate::JsonObjectAgg, env);
            }
            State::Concat(text, items) => {
                let Some(text) = text.take() else { return Ok(Value::Null) };
                *concatenated += *items;
                cut(text, call, *concatenated, env)?
            }
            State::SortedConcat(items) if items.is_empty() => Value::Null,
            State::SortedConcat(items) => {
                items.sort(env)?;
                let mut text = Vec::new();
                for (n, item) in items.texts().enumerate() {
                    env.step()?;
                    if n > 0 {
                        text.extend_from_slice(&call.separator);
                    }
                    text.extend_from_slice(item);
                    *concatenated += 1;
                    if text.len() > env.settings.group_concat_max_len {
                        break;
                    }
                }
                cut(text, call, *concatenated, env)?
            }
        })
    }
}

/// Makes the key of the values that DISTINCT compares. Returns false if one of them is NULL.
pub fn distinct_key<'v>(
    call: &'v AggregateCall,
    at: Scope<'v>,
    env: &mut Env<'_>,
    key: &mut Vec<u8>,
) -> Result<bool> {
    for e in own(call) {
        // SUM and AVG add the numbers of texts, so equal numbers are one.
        if e.ty.kind.is_string() && matches!(call.function, Aggregate::Sum | Aggregate::Avg) {
            let value = Eval::new(at, env).numeric(e)?;
            if value.is_null() {
                return Ok(false);
            }
            let number = Value::Double(to_f64(&value).value);
            sortkey::push(&number, &ExprType::double(), Collation::Binary, env, key)?;
            continue;
        }
        let value = Eval::new(at, env).eval(e)?;
        if value.is_null() {
            return Ok(false);
        }
        sortkey::push(&value, &e.ty, e.ty.collation, env, key)?;
    }
    Ok(true)
}

/// An item of GROUP_CONCAT; None if an argument is NULL.
fn concatenated<'v>(
    args: &'v [Expr],
    call: &AggregateCall,
    eval: &mut Eval<'v, '_, '_>,
) -> Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    for e in args {
        let value = eval.eval(e)?;
        if value.is_null() {
            return Ok(None);
        }
        text.extend_from_slice(&eval.string(e, &value, call.ty.collation.charset()));
    }
    Ok(Some(text))
}

/// Cuts the text to at most `@@group_concat_max_len` bytes of whole characters. The warning counts
/// the items that were concatenated, as in MySQL.
fn cut(
    mut text: Vec<u8>,
    call: &AggregateCall,
    items: u64,
    env: &mut Env<'_>,
) -> Result<Value<'static>> {
    let mut len = env.settings.group_concat_max_len;
    if text.len() > len {
        env.warn(SqlError::cut_by_group_concat(items))?;
        while call.ty.collation.charset().is_utf8() && len > 0 && text[len] & 0xc0 == 0x80 {
            len -= 1;
        }
        text.truncate(len);
    }
    Ok(Value::owned(text))
}

/// Combines a value with those before it, byte by byte.
fn combine_bits(so_far: &mut Option<Vec<u8>>, function: Aggregate, bytes: &[u8]) -> Result<()> {
    if bytes.len() > LONGEST_BITS as usize {
        return Err(SqlError::long_bits());
    }
    let Some(so_far) = so_far else {
        *so_far = Some(bytes.to_vec());
        return Ok(());
    };
    if so_far.len() != bytes.len() {
        return Err(SqlError::unequal_bits());
    }
    for (bits, with) in so_far.iter_mut().zip(bytes) {
        match function {
            Aggregate::BitAnd => *bits &= with,
            Aggregate::BitOr => *bits |= with,
            _ => *bits ^= with,
        }
    }
    Ok(())
}

/// The sum, or the average of `rows` rows. An average may have more decimals than its type, because
/// it may be used in a calculation.
fn exact(sum: Decimal, rows: Option<u64>, env: &Env<'_>) -> Option<Value<'static>> {
    Some(Value::Decimal(match rows {
        Some(rows) => sum.div(&Decimal::from(rows), env.settings.div_precision_increment)?.ok()?,
        None => sum,
    }))
}

/// The arguments of the function itself, without the sort keys. COUNT(*) has no arguments.
fn own(call: &AggregateCall) -> &[Expr] {
    &call.args[..call.args.len().min(call.values as usize)]
}

//! Encodes key expressions as key bytes (PATH-3, PATH-4).
//!
//! A column may be unable to hold the value of a bound (`id > 5.5`, `id = 300` for a TINYINT). Then
//! the nearest value that the column can hold replaces the bound. The order of the nearest value
//! and the wanted value decides whether the nearest value itself is in the range.
use super::env::Env;
use super::eval::{Eval, Scope, fixed_start, integer_of_text, is_no_tiny};
use super::pace::LONG;
use crate::error::Result;
use crate::memory::CREDIT;
use crate::plan::{
    AccessKind, Bound, Covering, Expr, KeyRange, NextColumn, TableAccess, UnionPart,
};
use redolith_engine::dict::table::{Index, Table};
use redolith_types::convert::{to_datetime, to_decimal, to_time};
use redolith_types::store::{StoreMode, TIMESTAMP_US};
use redolith_types::{
    Charset, Collation, Column, Date, DateTime, Decimal, SqlType, TableDef, Time, Value,
    convert_for_column,
};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;

/// Half-open ranges of key bytes, in the order in which they are read.
#[derive(Default)]
pub struct KeyRanges {
    bytes: Vec<u8>,
    list: Vec<Entry>,
    /// The ranges leave out little or nothing, and the table should be scanned instead (PATH-6,
    /// PATH-7).
    scans_table: bool,
    /// The memory that the statement's account knows of, in bytes, until the scan ends.
    charged: usize,
}
#[derive(Clone, Debug)]
struct Entry {
    low: Range<usize>,
    high: Option<Range<usize>>,
    point: bool,
}
pub struct RangeBytes<'a> {
    pub low: &'a [u8],
    /// None means the end of the index.
    pub high: Option<&'a [u8]>,
    /// True if `low` is a complete clustered key.
    pub point: bool,
}

impl KeyRanges {
    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.scans_table = false;
    }
    /// Whether the one range is the whole table instead of a part of the path's index.
    pub fn scans_table(&self) -> bool {
        self.scans_table
    }
    /// Replaces the ranges by all keys of an index.
    fn set_whole(&mut self) {
        self.clear();
        self.list.push(Entry { low: 0..0, high: None, point: false });
    }
    /// Replaces the ranges by the whole table.
    pub fn scan_table(&mut self) {
        self.set_whole();
        self.scans_table = true;
    }
    fn held(&self) -> usize {
        self.bytes.capacity() + self.list.capacity() * size_of::<Entry>()
    }
    /// The statement has ended. At most `bytes` of memory are kept for the next statement.
    pub fn trim(&mut self, bytes: usize) {
        self.charged = 0;
        if self.held() > bytes {
            *self = KeyRanges::default();
        }
    }
    /// Replaces all that was charged since the account held `held` bytes, for the ranges and for
    /// the values of their expressions, by what the ranges hold. `charged` is what the account knew
    /// of the ranges then.
    fn recharge(&mut self, held: usize, charged: usize, env: &mut Env<'_>) -> Result<()> {
        env.release_to(held);
        self.charged = charged;
        let now = Some(self.held()).filter(|now| *now > CREDIT).unwrap_or(0);
        env.keep(&mut self.charged, now)
    }
    /// The account is told that the ranges are no longer there.
    pub fn give_back(&mut self, env: &mut Env<'_>) {
        env.keeps_no_more(std::mem::take(&mut self.charged));
    }
    /// Charges the growth since the last charge to the statement (MEM-1). Few ranges are free
    /// (MEM-3).
    fn charge(&mut self, env: &mut Env<'_>) -> Result<()> {
        let held = self.held();
        if held > self.charged.max(CREDIT) {
            env.charge(held - self.charged)?;
            self.charged = held;
        }
        Ok(())
    }
    pub fn get(&self, n: usize) -> Option<RangeBytes<'_>> {
        let e = self.list.get(n)?;
        Some(RangeBytes {
            low: self.at(&e.low),
            high: e.high.as_ref().map(|h| self.at(h)),
            point: e.point,
        })
    }
    fn at(&self, r: &Range<usize>) -> &[u8] {
        &self.bytes[r.clone()]
    }
    fn span(&self, from: usize) -> Range<usize> {
        from..self.bytes.len()
    }
    /// Turns the bytes from `from` on into the least key after all keys that begin with these
    /// bytes. None if there is no such key.
    fn successor(&mut self, from: usize) -> Option<Range<usize>> {
        while self.bytes.len() > from {
            let last = self.bytes.len() - 1;
            if self.bytes[last] == 0xff {
                self.bytes.pop();
            } else {
                self.bytes[last] += 1;
                return Some(self.span(from));
            }
        }
        None
    }
    fn copy(&mut self, of: &Range<usize>) -> usize {
        let from = self.bytes.len();
        self.bytes.extend_from_within(of.clone());
        from
    }
    /// Sorts the ranges by their low bounds, merges overlapping ranges, and reverses the order for
    /// a reverse scan.
    fn merge(&mut self, reverse: bool) {
        if self.list.len() < 2 {
            return;
        }
        let bytes = &self.bytes;
        let at = |r: &Range<usize>| &bytes[r.clone()];
        // A complete clustered key within a range is read with the range.
        self.list.sort_unstable_by(|a, b| at(&a.low).cmp(at(&b.low)).then(a.point.cmp(&b.point)));
        let mut kept: Vec<Entry> = Vec::with_capacity(self.list.len());
        for e in self.list.drain(..) {
            let Some(last) = kept.last_mut() else {
                kept.push(e);
                continue;
            };
            let apart = match (&last.high, last.point) {
                (_, true) => at(&e.low) != at(&last.low),
                (None, _) => false,
                (Some(high), _) => at(&e.low) >= at(high),
            };
            if apart {
                kept.push(e);
            } else if !last.point && !e.point {
                let longer = match (&last.high, &e.high) {
                    (None, _) => false,
                    (_, None) => true,
                    (Some(a), Some(b)) => at(b) > at(a),
                };
                if longer {
                    last.high = e.high;
                }
            }
        }
        if reverse {
            kept.reverse();
        }
        self.list = kept;
    }
}

/// Evaluates the key expressions of an access path. Of the memory that this takes, the account
/// keeps what the ranges hold, until [`KeyRanges::give_back`].
pub fn encode_path(
    access: &TableAccess,
    at: Scope<'_>,
    env: &mut Env<'_>,
    out: &mut KeyRanges,
) -> Result<()> {
    let (held, charged) = (env.held(), out.charged);
    encode_ranges(access, at, env, out)?;
    out.recharge(held, charged, env)
}
/// As [`encode_path`], for a part of a union.
pub fn encode_union_part(
    access: &TableAccess,
    part: &UnionPart,
    at: Scope<'_>,
    env: &mut Env<'_>,
    out: &mut KeyRanges,
) -> Result<()> {
    let (held, charged) = (env.held(), out.charged);
    out.clear();
    encode_list(access, Some(part.index), &part.ranges, true, at, env, out)?;
    out.recharge(held, charged, env)
}
fn encode_ranges(
    access: &TableAccess,
    at: Scope<'_>,
    env: &mut Env<'_>,
    out: &mut KeyRanges,
) -> Result<()> {
    out.clear();
    let table = access.table.engine();
    match &access.path.kind {
        AccessKind::Empty => {}
        AccessKind::FullScan => out.set_whole(),
        AccessKind::Point(values) => {
            let index = Target::new(access.path.index, table);
            encode_range(&index, values, 0, &NextColumn::Any, at, env, out)?;
        }
        AccessKind::Ranges(ranges) => {
            let is_covering = access.path.covering != Covering::No;
            let may_scan = !is_covering && !access.path.keeps_order;
            encode_list(access, access.path.index, ranges, may_scan, at, env, out)?;
        }
        AccessKind::Union(_) => unreachable!("its parts are encoded one by one"),
    }
    Ok(())
}
/// `may_scan`: the table may be scanned instead of a secondary index.
fn encode_list(
    access: &TableAccess,
    index: Option<usize>,
    ranges: &[KeyRange],
    may_scan: bool,
    at: Scope<'_>,
    env: &mut Env<'_>,
    out: &mut KeyRanges,
) -> Result<()> {
    let members = most_members(access, ranges.len());
    let index = Target { members, ..Target::new(index, access.table.engine()) };
    for KeyRange { prefix, null_safe, next } in ranges {
        let found = encode_range(&index, prefix, *null_safe, next, at, env, out)?;
        if found == Found::NearlyAll && prefix.is_empty() && may_scan && !index.clustered {
            out.scan_table();
            return Ok(());
        }
        out.charge(env)?;
    }
    out.merge(access.path.reverse);
    Ok(())
}

struct Target<'a> {
    index: &'a Index,
    def: &'a TableDef,
    clustered: bool,
    /// The most values of a subquery that are ranges of their own, for each range of the path.
    members: usize,
}
impl<'a> Target<'a> {
    fn new(index: Option<usize>, table: &'a Table) -> Target<'a> {
        let no = index.map_or(0, |i| table.index_no(i));
        Target { index: &table.indexes[no], def: &table.def, clustered: no == 0, members: 0 }
    }
    fn column(&self, n: usize) -> &'a Column {
        &self.def.columns[self.index.def.columns[n].column]
    }
}

#[derive(PartialEq, Eq)]
enum Found {
    ARange,
    /// The pattern of a LIKE begins with a wildcard, or a subquery has very many values.
    NearlyAll,
}

/// A row that is searched for costs as much as a few rows of a scan. So a scan is faster where more
/// than this share of a table's rows is searched for.
pub const ROWS_PER_SEARCH: u64 = 8;

/// How many values of a subquery each of the path's `ranges` looks for in the index (PATH-7).
/// Ranges are made without giving way, so all of them together have at most `MOST`.
fn most_members(access: &TableAccess, ranges: usize) -> usize {
    const MOST: usize = 10_000;
    let worth = (access.table.rows() / ROWS_PER_SEARCH).clamp(16, MOST as u64) as usize;
    worth.min(MOST / ranges.max(1))
}

fn encode_range<'v>(
    target: &Target<'_>,
    prefix: &'v [Expr],
    null_safe: u32,
    next: &'v NextColumn,
    at: Scope<'v>,
    env: &mut Env<'_>,
    out: &mut KeyRanges,
) -> Result<Found> {
    let start_of_range = out.bytes.len();
    let key = &target.index.key;
    let mut values: SmallVec<[Value<'v>; 4]> = SmallVec::new();
    for (n, e) in prefix.iter().enumerate() {
        let column = target.column(n);
        let value = operand(e, column, at, env)?;
        if value.is_null() {
            if null_safe >> n & 1 == 0 || !column.nullable {
                return Ok(Found::ARange);
            }
            values.push(Value::Null);
            continue;
        }
        let from = env.charset_of(e);
        match nearest(value, column, from, env)? {
            Some((n, Ordering::Equal)) => values.push(n),
            _ => return Ok(Found::ARange),
        }
    }
    let n = prefix.len();
    let (low, high) = match next {
        NextColumn::Any => (None, None),
        NextColumn::Between { low, high } => (low.as_ref(), high.as_ref()),
        NextColumn::Like { pattern, escape } => {
            let column = target.column(n);
            let start = match start_of_matches(pattern, *escape, column, at, env)? {
                Some(start) => start,
                None => return Ok(Found::ARange),
            };
            key.encode_start(&values, &start, &mut out.bytes);
            let low = out.span(start_of_range);
            let from = out.copy(&low);
            let high = out.successor(from);
            out.list.push(Entry { low, high, point: false });
            return Ok(if start.is_empty() { Found::NearlyAll } else { Found::ARange });
        }
        NextColumn::Members(body) => {
            let results = at.known.subqueries.get(body.slot as usize);
            match results.filter(|result| result.rows.len() <= target.members) {
                Some(result) => {
                    // A join makes these ranges for each row before it.
                    env.steps(result.rows.len())?;
                    let column = target.column(n);
                    let from = env.charset_of(&body.plan.output[0]);
                    for row in result.rows.iter().filter(|row| !row[0].is_null()) {
                        let near = nearest(row[0].borrow(), column, from, env)?;
                        if let Some((value, Ordering::Equal)) = near {
                            values.push(value);
                            push_equal(target, &values, out);
                            values.pop();
                            out.charge(env)?;
                        }
                    }
                    return Ok(Found::ARange);
                }
                None => {
                    push_equal(target, &values, out);
                    return Ok(Found::NearlyAll);
                }
            }
        }
    };
    if low.is_none() && high.is_none() {
        push_equal(target, &values, out);
        return Ok(Found::ARange);
    }
    let part = &target.index.def.columns[n];
    let column = target.column(n);
    let mut edge = |bound: Option<&'v Bound>,
                    is_low: bool,
                    env: &mut Env<'_>,
                    out: &mut KeyRanges|
     -> Result<Edge> {
        let Some(bound) = bound else { return Ok(Edge::None) };
        let value = operand(&bound.value, column, at, env)?;
        if value.is_null() {
            return Ok(Edge::Never);
        }
        let Some((near, side)) = nearest(value, column, env.charset_of(&bound.value), env)? else {
            return Ok(Edge::Never);
        };
        let inclusive = match side {
            Ordering::Equal => bound.inclusive || part.prefix.is_some(),
            // The nearest value is above the wanted value: a low bound includes it, a high bound
            // excludes it.
            Ordering::Greater => is_low,
            Ordering::Less => !is_low,
        };
        let from = out.bytes.len();
        values.push(near);
        key.encode_values(&values, &mut out.bytes);
        values.pop();
        Ok(Edge::At(out.span(from), inclusive))
    };
    let (low, high) = (edge(low, true, env, out)?, edge(high, false, env, out)?);
    if matches!(low, Edge::Never) || matches!(high, Edge::Never) {
        return Ok(Found::ARange);
    }
    // In a descending column, greater values come first.
    let (first, last) = if part.desc { (high, low) } else { (low, high) };
    let low = match first {
        Edge::At(span, true) => Some(span),
        Edge::At(span, false) => {
            let from = out.copy(&span);
            match out.successor(from) {
                Some(span) => Some(span),
                None => return Ok(Found::ARange),
            }
        }
        _ => {
            let from = out.bytes.len();
            key.encode_values(&values, &mut out.bytes);
            // NULLs come first. A range with only an upper bound must leave them out.
            if column.nullable && !part.desc {
                out.bytes.push(1);
            }
            Some(out.span(from))
        }
    };
    let high = match last {
        Edge::At(span, false) => Some(span),
        Edge::At(span, true) => {
            let from = out.copy(&span);
            out.successor(from)
        }
        _ => {
            let from = out.bytes.len();
            key.encode_values(&values, &mut out.bytes);
            if column.nullable && part.desc {
                // The inverted NULL byte is the greatest byte.
                out.bytes.push(0xff);
                Some(out.span(from))
            } else {
                out.successor(from)
            }
        }
    };
    let low = low.expect("set above");
    if high.as_ref().is_none_or(|h| out.at(&low) < out.at(h)) {
        out.list.push(Entry { low, high, point: false });
    }
    Ok(Found::ARange)
}

/// Adds the range of the keys whose first columns have these values.
fn push_equal(target: &Target<'_>, values: &[Value<'_>], out: &mut KeyRanges) {
    let key = &target.index.key;
    let start = out.bytes.len();
    key.encode_values(values, &mut out.bytes);
    let low = out.span(start);
    if target.clustered && values.len() == key.len() {
        out.list.push(Entry { low, high: None, point: true });
    } else {
        let from = out.copy(&low);
        let high = out.successor(from);
        out.list.push(Entry { low, high, point: false });
    }
}

/// The text with which all matches of a LIKE pattern begin, in the column's character set; empty if
/// that is not known. None: a pattern that is NULL matches nothing.
fn start_of_matches(
    pattern: &Expr,
    escape: Option<char>,
    column: &Column,
    at: Scope<'_>,
    env: &mut Env<'_>,
) -> Result<Option<Vec<u8>>> {
    let value = operand(pattern, column, at, env)?;
    if value.is_null() {
        return Ok(None);
    }
    let from = env.charset_of(pattern);
    Ok(Some(match nearest(value, column, from, env)? {
        Some((Value::Bytes(pattern), Ordering::Equal)) => {
            fixed_start(column.ty.compare_collation(), escape, &pattern)
        }
        // The column's character set lacks a character of the pattern.
        _ => Vec::new(),
    }))
}

enum Edge {
    None,
    /// No row satisfies the bound.
    Never,
    At(Range<usize>, bool),
}

#[inline]
fn operand<'v>(
    e: &'v Expr,
    column: &Column,
    at: Scope<'v>,
    env: &mut Env<'_>,
) -> Result<Value<'v>> {
    let mut eval = Eval::new(at, env);
    // The condition itself compares columns of numbers, BIT and YEAR as numbers.
    let as_number =
        column.ty.is_numeric() || matches!(column.ty, SqlType::Bit { .. } | SqlType::Year);
    if as_number { eval.numeric(e) } else { eval.eval(e) }
}

/// The nearest value to `value` that the column can hold, and its order relative to `value`. None
/// if no value of the column can satisfy a comparison with `value`.
#[inline]
fn nearest<'v>(
    value: Value<'v>,
    column: &Column,
    from: Charset,
    env: &mut Env<'_>,
) -> Result<Option<(Value<'v>, Ordering)>> {
    if let (SqlType::Int { size, sign, .. }, Value::Int(v)) = (&column.ty, &value)
        && !sign.unsigned
        && (size.min_signed()..=size.max_signed()).contains(v)
    {
        return Ok(Some((value, Ordering::Equal)));
    }
    if column.ty.is_string() {
        return nearest_string(value, &column.ty, from, env);
    }
    Ok(nearest_of(value, column, from, env))
}

fn nearest_string<'v>(
    value: Value<'v>,
    ty: &SqlType,
    from: Charset,
    env: &mut Env<'_>,
) -> Result<Option<(Value<'v>, Ordering)>> {
    let to = ty.compare_collation().charset();
    let bytes = match value {
        Value::Bytes(b) => b,
        other => other.to_bytes().into_owned().into(),
    };
    env.bytes(bytes.len())?;
    // Bytes without a character set are compared as they are.
    let stays = from == to || from == Charset::Binary || to == Charset::Binary;
    if stays || bytes.is_ascii() {
        return Ok(Some((Value::Bytes(bytes), Ordering::Equal)));
    }
    if bytes.len() >= LONG {
        env.charge(bytes.len().saturating_mul(to.max_len() as usize))?;
    }
    Ok(Some(match from.convert(&bytes, to) {
        Ok(converted) => (Value::owned(converted.into_owned()), Ordering::Equal),
        // The column cannot hold one of the characters, so no row is equal. (For constants, the
        // binder returns an error.)
        Err(_) => (Value::owned(from.convert_lossy(&bytes, to).into_owned()), Ordering::Greater),
    }))
}

fn nearest_of<'v>(
    value: Value<'v>,
    column: &Column,
    from: Charset,
    env: &mut Env<'_>,
) -> Option<(Value<'v>, Ordering)> {
    let ty = &column.ty;
    if value.is_nan() {
        return None;
    }
    match ty {
        SqlType::Date | SqlType::DateTime { .. } | SqlType::Timestamp { .. }
            if !is_number(&value) =>
        {
            nearest_moment(&value, ty, env)
        }
        SqlType::Time { .. }
        | SqlType::Date
        | SqlType::DateTime { .. }
        | SqlType::Timestamp { .. }
            if is_number(&value) =>
        {
            super::number_bounds::nearest(
                &to_decimal(&value).value,
                ty,
                env.settings.zone_offset_secs,
            )
        }
        SqlType::Time { fsp } => {
            let wanted = to_time(&value).map_or(Time::ZERO, |t| t.value);
            let near = wanted.round(*fsp);
            Some((Value::Time(near), near.cmp(&wanted)))
        }
        SqlType::Enum { .. } | SqlType::Set { .. } => {
            let stored = convert_for_column(value, ty, from, StoreMode::LENIENT).ok()?;
            stored.warning.is_none().then(|| (stored.value.into_owned(), Ordering::Equal))
        }
        _ => {
            let number = match value {
                Value::Bytes(text) => number_of_text(&text, ty),
                other => redolith_types::convert::to_number(&other).value,
            };
            let near =
                convert_for_column(clamped(number.borrow(), ty), ty, from, StoreMode::LENIENT)
                    .ok()?;
            let near = near.value.into_owned();
            let side = near.compare(&number, Collation::Binary);
            Some((near, side))
        }
    }
}

/// The number as which a column of numbers is compared with a string: the DOUBLE at its beginning,
/// but beside an integer the integer that the string is (NUM-1), and beside a DECIMAL with more
/// digits than a DOUBLE has the exact number.
fn number_of_text(text: &[u8], ty: &SqlType) -> Value<'static> {
    let exact = match ty {
        SqlType::Int { .. } => integer_of_text(text).map(|n| Decimal::from_parts(n, 0)),
        SqlType::Decimal { precision, .. } if *precision > DOUBLE_DIGITS => {
            Decimal::parse(text).filter(|number| is_no_tiny(number, text))
        }
        _ => None,
    };
    match exact {
        Some(exact) => Value::Decimal(exact),
        None => Value::Double(redolith_types::convert::text_to_f64(text).value),
    }
}
/// Two numbers of so many decimal digits are never the same DOUBLE.
const DOUBLE_DIGITS: u8 = 15;

fn is_number(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Double(_) | Value::Float(_)
    )
}

/// Brings a number into the range of YEAR or BIT. The rules for storing would give two digits a
/// century, turn years out of range into 0, and take the bits of a negative number.
fn clamped<'v>(number: Value<'v>, ty: &SqlType) -> Value<'v> {
    let below = |limit: i64| number.compare(&Value::Int(limit), Collation::Binary).is_lt();
    match ty {
        SqlType::Year if below(MIN_YEAR) => Value::Int(0),
        SqlType::Year if !below(MAX_YEAR) => Value::Int(MAX_YEAR),
        SqlType::Bit { .. } if below(0) => Value::Int(0),
        SqlType::Bit { .. } => match number {
            // A double beyond 63 bits has no bits for storing.
            Value::Double(x) => Value::UInt(x as u64),
            number => number,
        },
        _ => number,
    }
}
/// The least and the greatest year that a YEAR column holds, beside 0.
const MIN_YEAR: i64 = 1901;
const MAX_YEAR: i64 = 2155;

fn nearest_moment(
    value: &Value<'_>,
    ty: &SqlType,
    env: &mut Env<'_>,
) -> Option<(Value<'static>, Ordering)> {
    let zone = env.settings.zone_offset_secs;
    // A value that is not a date counts as the zero date.
    let wanted = to_datetime(value, env.today(), zone).map_or(DateTime::ZERO, |at| at.value);
    let near = match ty {
        SqlType::Date => wanted.date().at(0),
        _ => wanted.truncate(ty.fsp()),
    };
    let side = near.cmp(&wanted);
    Some(match ty {
        SqlType::Date => (Value::Date(near.date()), side),
        SqlType::Timestamp { .. } => {
            let (near, side) = nearest_timestamp(near, side, zone)?;
            (Value::DateTime(near), side)
        }
        _ => (Value::DateTime(near), side),
    })
}

/// The nearest value of a TIMESTAMP column, in UTC, and its side. `near` is the wanted moment in
/// local time with the column's precision; `side` is its order relative to the wanted moment.
pub(super) fn nearest_timestamp(
    near: DateTime,
    side: Ordering,
    zone: i32,
) -> Option<(DateTime, Ordering)> {
    if near.is_zero() {
        return Some((near, side));
    }
    let (us, side) = match near.to_unix_us(zone) {
        Some(us) => (us, side),
        None => (day_after(near.date())?.at(0).to_unix_us(zone)?, Ordering::Greater),
    };
    let (us, side) = match us {
        us if us < TIMESTAMP_US.start => (TIMESTAMP_US.start, Ordering::Greater),
        us if us >= TIMESTAMP_US.end => (TIMESTAMP_US.end - 1, Ordering::Less),
        us => (us, side),
    };
    Some((DateTime::from_unix_us(us, 0)?, side))
}
/// The first real day after a date whose month or day is 0.
fn day_after(date: Date) -> Option<Date> {
    let day = if date.month() == 0 { 1 } else { date.day().max(1) };
    Date::new(date.year(), date.month().max(1), day)
}

#[cfg(test)]
mod tests;

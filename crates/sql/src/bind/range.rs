//! Derives key ranges from conditions.
//!
//! A *test* is a condition that compares one column with values known before the table is read. It
//! is a list of intervals of that column. An index uses the tests on its first columns: first
//! equalities (each IN list multiplies the ranges), then one list of intervals.
use super::type_rules::meets_texts;
use crate::plan::{
    Bound, CompareAs, CompareOp, Expr, ExprKind, KeyRange, Kind, NextColumn, PatternStart,
    SubqueryBody, SubqueryTest,
};
use crate::table_info::TableInfo;
use redolith_types::{IndexDef, SqlType, Value};
use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::Arc;

/// The greatest number of ranges. Beyond this, the remaining columns stay conditions.
const MAX_RANGES: usize = 10_000;
/// The most bytes of a product of lists: each range has copies of its values.
const MAX_RANGE_BYTES: usize = 16 << 20;
/// To copy so many bytes is a step.
const BYTES_PER_STEP: usize = 1024;
/// ORs within ORs give ranges down to this depth. Each level looks at all conditions below it, for
/// each index.
const MAX_NESTED_ORS: usize = 16;

#[derive(Clone, Debug)]
pub(super) enum Interval {
    /// If `null_safe`, NULL equals NULL.
    Equal {
        value: Expr,
        null_safe: bool,
    },
    Between {
        low: Option<Bound>,
        high: Option<Bound>,
    },
    /// The strings that may match a pattern (PATH-6).
    Like {
        pattern: Expr,
        escape: Option<char>,
        start: PatternStart,
    },
    /// The values of a subquery (PATH-7).
    Members(Arc<SubqueryBody>),
}
impl Interval {
    /// The interval as what a range asks. The key of a column's prefix cannot tell a value from a
    /// longer one, so its bounds are inclusive.
    fn next(self, of_prefix: bool) -> NextColumn {
        match self {
            Interval::Equal { value, .. } => {
                let bound = Some(Bound { value, inclusive: true });
                NextColumn::Between { low: bound.clone(), high: bound }
            }
            Interval::Between { low, high } => {
                let widen = |bound: Option<Bound>| {
                    bound.map(|b| Bound { inclusive: b.inclusive || of_prefix, ..b })
                };
                NextColumn::Between { low: widen(low), high: widen(high) }
            }
            Interval::Like { pattern, escape, .. } => NextColumn::Like { pattern, escape },
            Interval::Members(body) => NextColumn::Members(body),
        }
    }
    fn bounded(&self) -> Bounded {
        match self {
            Interval::Equal { .. } | Interval::Between { low: Some(_), high: Some(_) } => {
                Bounded::BothSides
            }
            Interval::Between { .. } => Bounded::OneSide,
            Interval::Like { start: PatternStart::Text, .. } => Bounded::BothSides,
            Interval::Like { .. } => Bounded::Perhaps,
            Interval::Members(_) => Bounded::Members,
        }
    }
    fn is_equal(&self) -> bool {
        matches!(self, Interval::Equal { .. })
    }
    fn bytes(&self) -> usize {
        let of = |bound: &Option<Bound>| bound.as_ref().map_or(0, |bound| bound.value.bytes());
        match self {
            Interval::Equal { value, .. } => 2 * value.bytes(),
            Interval::Between { low, high } => of(low) + of(high),
            Interval::Like { pattern, .. } => pattern.bytes(),
            Interval::Members(_) => 0,
        }
    }
    /// The interval has values that do not satisfy the condition, or may have them.
    fn is_wider(&self) -> bool {
        matches!(self, Interval::Like { .. } | Interval::Members(_))
    }
}

/// A condition on one column.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub column: usize,
    pub intervals: Vec<Interval>,
    /// The number of the condition that the test comes from.
    pub conjunct: usize,
}
impl Test {
    pub(super) fn all_equal(&self) -> bool {
        self.intervals.iter().all(Interval::is_equal)
    }
}

/// The use of an index for a list of conditions.
#[derive(Clone, Debug)]
pub(super) struct IndexRanges {
    pub ranges: Vec<KeyRange>,
    /// The memory of the ranges' values.
    pub bytes: usize,
    /// The conditions that the ranges express completely.
    pub consumed: Vec<usize>,
    /// The number of index columns, from the first, that an equality fixes in every range.
    pub equal_columns: usize,
    /// The columns with the same value in all ranges.
    pub constant: Vec<usize>,
    /// The bounds of the column after the fixed columns.
    pub bounded: Bounded,
}
/// From the weakest bounds to the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Bounded {
    No,
    /// The pattern of a LIKE may begin with a wildcard.
    Perhaps,
    OneSide,
    /// The values of a subquery.
    Members,
    BothSides,
}

/// True if a comparison of the column may become a range: the index must compare like the
/// condition.
fn usable(ty: &SqlType, how: CompareAs) -> bool {
    match ty {
        SqlType::Enum { .. } | SqlType::Set { .. } => false,
        SqlType::Date | SqlType::DateTime { .. } | SqlType::Timestamp { .. } => {
            matches!(how, CompareAs::Date | CompareAs::DateTime)
        }
        SqlType::Time { .. } => how == CompareAs::Time,
        _ if ty.is_string() => how == CompareAs::String(ty.compare_collation()),
        _ => matches!(
            how,
            CompareAs::Int | CompareAs::Decimal | CompareAs::Double | CompareAs::ByValue
        ),
    }
}

/// True if a value of an expression of this kind can be made a key of the column without the
/// expression itself: as a number, hexadecimal literals and members of an ENUM are not their value.
fn has_values_of(column: &SqlType, kind: Kind) -> bool {
    match column {
        SqlType::Date | SqlType::DateTime { .. } | SqlType::Timestamp { .. } => {
            matches!(kind, Kind::Date | Kind::DateTime | Kind::Timestamp)
        }
        SqlType::Time { .. } => kind == Kind::Time,
        _ if column.is_string() => matches!(kind, Kind::Char | Kind::VarChar | Kind::Blob),
        SqlType::Bit { .. } | SqlType::Year => false,
        _ => kind.is_integer() || kind == Kind::Decimal,
    }
}

/// True if a key can be made of the value, once for the rows of the sources before it.
fn is_made_at_once(expr: &Expr) -> bool {
    !expr.any(&|e| match &e.kind {
        ExprKind::Call { function, .. } => {
            function.purity() == crate::plan::function::Purity::Volatile
        }
        ExprKind::AssignUserVariable(..) | ExprKind::InsertedValue(_) => true,
        ExprKind::UserVariable { assigned, .. } => *assigned,
        // A key is made without waiting.
        ExprKind::Subquery(q) => q.dependent,
        _ => false,
    })
}

pub(super) struct Finder<'a> {
    table: &'a TableInfo,
    source: u16,
    /// The columns of all other sources count as known: the order of the sources is not chosen yet.
    anywhere: bool,
    /// The steps that are left for ranges. Without steps no index has ranges.
    pub left: Cell<usize>,
    /// Lists that are no longer than their text take no steps.
    pub lists_are_free: Cell<bool>,
}

impl<'a> Finder<'a> {
    pub fn new(table: &'a TableInfo, source: u16) -> Finder<'a> {
        let (left, lists_are_free) = (Cell::new(0), Cell::new(false));
        Finder { table, source, anywhere: false, left, lists_are_free }
    }
    /// For the choice of the order of the sources, which needs no ranges.
    pub fn anywhere(table: &'a TableInfo, source: u16) -> Finder<'a> {
        Finder { anywhere: true, ..Finder::new(table, source) }
    }

    fn spend(&self, steps: usize) -> Option<()> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(steps));
        (left >= steps).then_some(())
    }
    /// Spends steps for what is as long as the text.
    fn spend_for_text(&self, steps: usize) -> Option<()> {
        if self.lists_are_free.get() { Some(()) } else { self.spend(steps) }
    }
    /// Spends steps for a product of two lists.
    fn spend_for_product(&self, a: usize, b: usize, bytes: usize) -> Option<()> {
        let steps = a * b + bytes / BYTES_PER_STEP;
        if a > 1 && b > 1 { self.spend(steps) } else { self.spend_for_text(steps) }
    }

    /// True if the value is known before the source is read (PATH-2).
    fn is_known(&self, expr: &Expr) -> bool {
        let is_own =
            |e: &Expr| matches!(e.kind, ExprKind::Column { source, .. } if source == self.source);
        let is_read = match self.anywhere {
            true => !expr.any(&is_own),
            false => expr.last_source().is_none_or(|s| s < self.source),
        };
        is_read && is_made_at_once(expr)
    }

    /// Whether bounds on the column hold for keys of its values' prefixes, too.
    fn orders_prefixes(&self, column: usize) -> bool {
        self.table.def.columns[column].ty.compare_collation().orders_prefixes()
    }

    fn column_of(&self, expr: &Expr) -> Option<usize> {
        match expr.kind {
            ExprKind::Column { source, column } if source == self.source => Some(column as usize),
            _ => None,
        }
    }

    pub fn tests<E: Borrow<Expr>>(&self, conjuncts: &[E]) -> Vec<Test> {
        conjuncts
            .iter()
            .enumerate()
            .filter_map(|(n, e)| {
                self.test(e.borrow()).map(|(column, intervals)| Test {
                    column,
                    intervals,
                    conjunct: n,
                })
            })
            .collect()
    }

    /// The column and intervals of a condition, if it is a test.
    fn test(&self, expr: &Expr) -> Option<(usize, Vec<Interval>)> {
        let fits = |column: usize, how: CompareAs| usable(&self.table.def.columns[column].ty, how);
        // A column is compared with a JSON value in the order of JSON values.
        let known = |e: &Expr| e.ty.kind != Kind::Json && self.is_known(e);
        match &expr.kind {
            ExprKind::Compare { op, how, sides } => {
                let (column, op, value) =
                    match (self.column_of(&sides[0]), self.column_of(&sides[1])) {
                        (Some(c), None) => (c, *op, &sides[1]),
                        (None, Some(c)) => (c, op.flipped(), &sides[0]),
                        _ => return None,
                    };
                (fits(column, *how) && known(value))
                    .then(|| interval(op, value).map(|i| (column, vec![i])))?
            }
            ExprKind::Between { negated: false, how, args } => {
                let column = self.column_of(&args[0])?;
                let bound = |e: &Expr| Some(Bound { value: e.clone(), inclusive: true });
                // As doubles texts are not the integers that an index has (NUM-1).
                let is_exact = *how != CompareAs::Double || !meets_texts(&args[0], &args[1..]);
                let usable = is_exact && fits(column, *how) && known(&args[1]) && known(&args[2]);
                usable.then(|| {
                    (
                        column,
                        vec![Interval::Between { low: bound(&args[1]), high: bound(&args[2]) }],
                    )
                })
            }
            ExprKind::In { negated: false, how, value, list, .. } => {
                let column = self.column_of(value)?;
                let usable =
                    fits(column, *how) && list.iter().all(known) && list.len() <= MAX_RANGES;
                usable.then(|| {
                    (
                        column,
                        list.iter()
                            .map(|e| Interval::Equal { value: e.clone(), null_safe: false })
                            .collect(),
                    )
                })
            }
            ExprKind::Like { negated: false, collation, escape, start, sides } => {
                let column = self.column_of(&sides[0])?;
                let ty = &self.table.def.columns[column].ty;
                // The matches of a pattern that begins with a wildcard may lie anywhere.
                let usable = *start != PatternStart::Wildcard
                    && ty.is_string()
                    && fits(column, CompareAs::String(*collation))
                    && known(&sides[1]);
                let pattern = sides[1].clone();
                usable.then(|| {
                    (column, vec![Interval::Like { pattern, escape: *escape, start: *start }])
                })
            }
            ExprKind::Subquery(q) if !q.dependent => {
                let SubqueryTest::In { negated: false, values } = &q.test else { return None };
                let [(value, how)] = &values[..] else { return None };
                let column = self.column_of(value)?;
                let column_type = &self.table.def.columns[column].ty;
                let usable =
                    fits(column, *how) && has_values_of(column_type, q.body.plan.output[0].ty.kind);
                usable.then(|| (column, vec![Interval::Members(q.body.clone())]))
            }
            ExprKind::IsNull { negated: false, value } => {
                let column = self.column_of(value)?;
                let null = Expr::literal(Value::Null, crate::plan::ExprType::null());
                Some((column, vec![Interval::Equal { value: null, null_safe: true }]))
            }
            ExprKind::Or(parts) => {
                let mut parts = parts.iter().map(|p| self.test(p));
                let (column, mut intervals) = parts.next()??;
                for part in parts {
                    let (other, more) = part?;
                    intervals.extend(more);
                    if other != column || intervals.len() > MAX_RANGES {
                        return None;
                    }
                }
                Some((column, intervals))
            }
            // An AND stands inside an OR: a > 1 AND a < 5.
            ExprKind::And(parts) => {
                let mut merged: Option<(usize, Interval)> = None;
                for part in parts {
                    let (column, mut intervals) = self.test(part)?;
                    if intervals.len() != 1 {
                        return None;
                    }
                    let next = intervals.remove(0);
                    merged = Some(match merged {
                        None => (column, next),
                        Some((c, so_far)) if c == column => (c, intersect(so_far, next)?),
                        Some(_) => return None,
                    });
                }
                merged.map(|(c, i)| (c, vec![i]))
            }
            _ => None,
        }
    }

    /// The ranges of an index under all these conditions. None if no condition restricts the
    /// index's first column.
    pub fn ranges<E: Borrow<Expr>>(
        &self,
        index: &IndexDef,
        conjuncts: &[E],
        tests: &[Test],
    ) -> Option<IndexRanges> {
        self.ranges_inside(index, conjuncts, tests, 0)
    }
    /// `ors` is the number of ORs around the conditions.
    fn ranges_inside<E: Borrow<Expr>>(
        &self,
        index: &IndexDef,
        conjuncts: &[E],
        tests: &[Test],
        ors: usize,
    ) -> Option<IndexRanges> {
        if !tests.iter().any(|t| t.column == index.columns[0].column) {
            return if ors < MAX_NESTED_ORS { self.union(index, conjuncts, ors) } else { None };
        }
        let mut found = IndexRanges {
            ranges: Vec::new(),
            bytes: 0,
            consumed: Vec::new(),
            equal_columns: 0,
            constant: Vec::new(),
            bounded: Bounded::No,
        };
        let mut prefixes: Vec<(Vec<Expr>, u32)> = vec![(Vec::new(), 0)];
        let mut prefix_bytes = 0;
        let mut last: Vec<NextColumn> = Vec::new();
        let mut last_bytes = None;
        for (position, part) in index.columns.iter().enumerate() {
            let here: Vec<&Test> = tests.iter().filter(|t| t.column == part.column).collect();
            let exact = part.prefix.is_none();
            let equal = here.iter().filter(|t| t.all_equal()).min_by_key(|t| t.intervals.len());
            let equal_bytes = |test: &Test| {
                let list: usize = test.intervals.iter().map(Interval::bytes).sum();
                product_bytes((prefixes.len(), prefix_bytes), (test.intervals.len(), list))
            };
            if let Some((test, bytes)) = equal.and_then(|test| Some((test, equal_bytes(test)?)))
                && prefixes.len() * test.intervals.len() <= MAX_RANGES
                && (position == 0 || prefixes.len() * test.intervals.len() <= MAX_RANGES / 10)
                && exact
            {
                self.spend_for_product(prefixes.len(), test.intervals.len(), bytes)?;
                prefix_bytes = bytes;
                prefixes = multiply(&prefixes, &test.intervals, position);
                found.equal_columns = position + 1;
                if test.intervals.len() == 1 {
                    found.constant.push(part.column);
                }
                found.consumed.push(test.conjunct);
                continue;
            }
            if exact || self.orders_prefixes(part.column) {
                let consumed = found.consumed.len();
                last = last_bounds(&here, exact, &mut found);
                let bytes = last.iter().map(next_bytes).sum();
                last_bytes = product_bytes((prefixes.len(), prefix_bytes), (last.len(), bytes));
                // Two lists multiply. (One list is as long as its text.)
                if prefixes.len() > 1 && prefixes.len() * last.len() > MAX_RANGES
                    || last_bytes.is_none()
                {
                    last.clear();
                    found.consumed.truncate(consumed);
                    found.bounded = Bounded::No;
                }
            }
            break;
        }
        if found.equal_columns == 0 && last.is_empty() {
            return None;
        }
        if last.is_empty() {
            last.push(NextColumn::Any);
            last_bytes = None;
        }
        found.bytes = last_bytes.unwrap_or(prefix_bytes);
        self.spend_for_product(prefixes.len(), last.len(), found.bytes)?;
        for (prefix, null_safe) in prefixes {
            for next in &last {
                let (prefix, next) = (prefix.clone(), next.clone());
                found.ranges.push(KeyRange { prefix, null_safe, next });
            }
        }
        Some(found)
    }

    /// The ranges of an OR, if every branch gives ranges of the index: (a = 1 AND b = 2) OR (a = 3
    /// AND b > 4).
    fn union<E: Borrow<Expr>>(
        &self,
        index: &IndexDef,
        conjuncts: &[E],
        ors: usize,
    ) -> Option<IndexRanges> {
        for (n, conjunct) in conjuncts.iter().enumerate() {
            let ExprKind::Or(branches) = &conjunct.borrow().kind else { continue };
            let mut union = IndexRanges {
                ranges: Vec::new(),
                bytes: 0,
                consumed: Vec::new(),
                equal_columns: usize::MAX,
                constant: Vec::new(),
                bounded: Bounded::BothSides,
            };
            let mut whole = true;
            let useful = branches.iter().all(|branch| {
                let mut parts = Vec::new();
                conjuncts_of(branch, &mut parts);
                let tests = self.tests(&parts);
                let steps = tests.iter().fold(parts.len(), |sum, t| sum + t.intervals.len());
                let spent = if ors == 0 { self.spend_for_text(steps) } else { self.spend(steps) };
                if spent.is_none() {
                    return false;
                }
                let Some(found) = self.ranges_inside(index, &parts, &tests, ors + 1) else {
                    return false;
                };
                whole &= not_consumed(parts.len(), &found.consumed).all(|left| !left);
                union.equal_columns = union.equal_columns.min(found.equal_columns);
                if found.bounded != Bounded::No {
                    union.bounded = union.bounded.min(found.bounded);
                }
                union.ranges.extend(found.ranges);
                union.bytes += found.bytes;
                union.ranges.len() <= MAX_RANGES
            });
            if useful {
                if whole {
                    union.consumed.push(n);
                }
                return Some(union);
            }
        }
        None
    }
}

/// The intervals of the first column that is not fixed: one list of intervals, or the intersection
/// of several single intervals. `exact`: the index has the whole column. The conditions that the
/// intervals express completely are noted as consumed: those on a prefix, LIKE and IN of a subquery
/// are checked again.
fn last_bounds(here: &[&Test], exact: bool, found: &mut IndexRanges) -> Vec<NextColumn> {
    if let Some(many) = here.iter().find(|t| t.intervals.len() > 1) {
        // Bounds cannot express `IS NULL` within the list.
        if many.intervals.iter().any(|i| matches!(i, Interval::Equal { null_safe: true, .. })) {
            found.bounded = Bounded::No;
            return Vec::new();
        }
        found.bounded = many.intervals.iter().map(Interval::bounded).min().unwrap_or(Bounded::No);
        if exact && !many.intervals.iter().any(Interval::is_wider) {
            found.consumed.push(many.conjunct);
        }
        return many.intervals.iter().cloned().map(|i| i.next(!exact)).collect();
    }
    let consumed = found.consumed.len();
    let mut merged: Option<Interval> = None;
    let mut best_wider: Option<&Interval> = None;
    for test in here {
        let Some(next) = test.intervals.first() else { continue };
        if next.is_wider() {
            best_wider = best_wider.into_iter().chain([next]).max_by_key(|wider| wider.bounded());
            continue;
        }
        if matches!(next, Interval::Equal { null_safe: true, .. }) {
            continue;
        }
        match merged.take() {
            None => merged = Some(next.clone()),
            Some(so_far) => match intersect(so_far.clone(), next.clone()) {
                Some(met) => merged = Some(met),
                None => {
                    merged = Some(so_far);
                    continue;
                }
            },
        }
        if exact {
            found.consumed.push(test.conjunct);
        }
    }
    let is_better = |wider: &&Interval| {
        merged.as_ref().is_none_or(|interval| wider.bounded() > interval.bounded())
    };
    let best = match best_wider.filter(is_better) {
        Some(wider) => {
            found.consumed.truncate(consumed);
            Some(wider)
        }
        None => merged.as_ref(),
    };
    match best {
        None => Vec::new(),
        Some(interval) => {
            found.bounded = interval.bounded();
            vec![interval.clone().next(!exact)]
        }
    }
}

/// The conditions of an AND, or the one condition.
pub(super) fn conjuncts_of<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match &expr.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| conjuncts_of(part, into)),
        _ => into.push(expr),
    }
}

/// For each of `count` conditions: true if the ranges do not express it completely.
pub(super) fn not_consumed(count: usize, consumed: &[usize]) -> impl Iterator<Item = bool> {
    let mut left = vec![true; count];
    consumed.iter().for_each(|n| left[*n] = false);
    left.into_iter()
}

fn next_bytes(next: &NextColumn) -> usize {
    let mut bytes = 0;
    next.each_expr(&mut |e| bytes += e.bytes());
    bytes
}
/// The bytes of all pairs of two lists, each given as its length and its bytes. None if they are
/// more than the lists, and too many.
fn product_bytes(a: (usize, usize), b: (usize, usize)) -> Option<usize> {
    let bytes = a.1.saturating_mul(b.0).saturating_add(b.1.saturating_mul(a.0));
    (bytes <= MAX_RANGE_BYTES.max(a.1 + b.1)).then_some(bytes)
}

fn multiply(
    prefixes: &[(Vec<Expr>, u32)],
    alternatives: &[Interval],
    position: usize,
) -> Vec<(Vec<Expr>, u32)> {
    let mut out = Vec::with_capacity(prefixes.len() * alternatives.len());
    for (prefix, nulls) in prefixes {
        for alternative in alternatives {
            let Interval::Equal { value, null_safe } = alternative else { continue };
            let mut longer = prefix.clone();
            longer.push(value.clone());
            out.push((longer, nulls | (*null_safe as u32) << position));
        }
    }
    out
}

fn interval(op: CompareOp, value: &Expr) -> Option<Interval> {
    let bound = |inclusive| Some(Bound { value: value.clone(), inclusive });
    Some(match op {
        CompareOp::Eq => Interval::Equal { value: value.clone(), null_safe: false },
        CompareOp::NullSafeEq => Interval::Equal { value: value.clone(), null_safe: true },
        CompareOp::Less => Interval::Between { low: None, high: bound(false) },
        CompareOp::LessEq => Interval::Between { low: None, high: bound(true) },
        CompareOp::Greater => Interval::Between { low: bound(false), high: None },
        CompareOp::GreaterEq => Interval::Between { low: bound(true), high: None },
        CompareOp::NotEq => return None,
    })
}

/// The intersection of two intervals, if it is known without their values: one interval gives the
/// lower bound, the other gives the upper bound.
fn intersect(a: Interval, b: Interval) -> Option<Interval> {
    match (a, b) {
        (
            Interval::Between { low: Some(low), high: None },
            Interval::Between { low: None, high: Some(high) },
        )
        | (
            Interval::Between { low: None, high: Some(high) },
            Interval::Between { low: Some(low), high: None },
        ) => Some(Interval::Between { low: Some(low), high: Some(high) }),
        _ => None,
    }
}

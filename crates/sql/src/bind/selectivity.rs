//! The share of the rows that a condition leaves. Histograms tell it of columns that have one.
//! Without, it is a guess: plans are shared by statements with other literals, so the values in a
//! condition do not count. A value that is looked up in a histogram is a literal, and the plan
//! depends on its text ([`Values`]); where it is not known (a parameter of a prepared statement),
//! the values of the column count on average.
use super::range::Interval;
use crate::plan::{CompareAs, CompareOp, Expr, ExprKind, UnaryOp};
use redolith_engine::dict::histogram::Histogram;
use redolith_types::convert::to_number;
use redolith_types::{SqlType, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The share that an equality leaves.
pub(crate) const DEFAULT_EQUAL: f64 = 0.1;
/// One bound, and two bounds.
const ONE_BOUND: f64 = 1.0 / 3.0;
const TWO_BOUNDS: f64 = 1.0 / 9.0;
const LIKE: f64 = 1.0 / 9.0;
/// What nothing is known of.
const SOME: f64 = 0.5;
/// The values of a longer list are not looked up: they count on average.
const MAX_LOOKUPS: usize = 64;
/// Histograms have the first characters of strings only.
pub(crate) const STRING_PREFIX: usize = 42;

/// The values of parameters that are literals of the text. The plan depends on them (BIND-1).
pub(crate) type Values = HashMap<u32, Value<'static>>;

/// What the estimates may look up.
pub(crate) struct Known<'k> {
    /// The histogram of a column of a source.
    pub histogram: &'k dyn Fn(u16, u16) -> Option<Arc<Histogram>>,
    pub values: Option<&'k Values>,
}
impl Known<'_> {
    /// Nothing is known.
    pub const NOTHING: Known<'static> = Known { histogram: &|_, _| None, values: None };
}

/// The share of the rows that a condition leaves, from 0 to 1, and above 0 without histograms.
pub(crate) fn share_of(e: &Expr, known: &Known<'_>) -> f64 {
    if let Some(share) = by_histogram(e, known) {
        return share.clamp(0.0, 1.0);
    }
    let negate = |negated: bool, share: f64| if negated { 1.0 - share } else { share };
    let own = |e: &Expr| share_of(e, known);
    match &e.kind {
        ExprKind::Compare { op, .. } => match op {
            CompareOp::Eq | CompareOp::NullSafeEq => DEFAULT_EQUAL,
            CompareOp::NotEq => 1.0 - DEFAULT_EQUAL,
            _ => ONE_BOUND,
        },
        ExprKind::Between { negated, .. } => negate(*negated, TWO_BOUNDS),
        ExprKind::In { negated, list, .. } => {
            negate(*negated, (list.len() as f64 * DEFAULT_EQUAL).min(SOME))
        }
        ExprKind::Like { negated, .. } | ExprKind::Regexp { negated, .. } => negate(*negated, LIKE),
        ExprKind::IsNull { negated, .. } => negate(*negated, DEFAULT_EQUAL),
        ExprKind::And(parts) => parts.iter().map(own).product(),
        ExprKind::Or(parts) => 1.0 - parts.iter().map(|p| 1.0 - own(p)).product::<f64>(),
        _ => SOME,
    }
}

/// The share of the rows that a comparison of a column with values leaves; None if the column has
/// no histogram, or compares otherwise than its histogram.
pub(super) fn by_histogram(e: &Expr, known: &Known<'_>) -> Option<f64> {
    let (column, ..) = operands(e)?;
    let ExprKind::Column { source, column } = column.kind else { return None };
    let of = Of { histogram: (known.histogram)(source, column)?, known };
    let of_negated = |negated: bool, share: f64| {
        if negated { (of.histogram.not_null() - share).max(0.0) } else { share }
    };
    Some(match &e.kind {
        ExprKind::IsNull { negated: false, .. } => of.histogram.nulls,
        ExprKind::IsNull { .. } => of.histogram.not_null(),
        ExprKind::Compare { op, how, sides } => {
            let is_first = matches!(sides[0].kind, ExprKind::Column { .. });
            let value = &sides[usize::from(is_first)];
            // A column of another source is a join's matter.
            if matches!(value.kind, ExprKind::Column { .. }) {
                return None;
            }
            of.compare(if is_first { *op } else { flip(*op) }, *how, value)?
        }
        ExprKind::Between { negated, how, args } => {
            let low = of.compare(CompareOp::Less, *how, &args[1])?;
            let high = of.compare(CompareOp::LessEq, *how, &args[2])?;
            of_negated(*negated, (high - low).max(0.0))
        }
        ExprKind::In { negated, how, list, .. } => {
            let share = if list.len() > MAX_LOOKUPS {
                list.len() as f64 * of.histogram.average()
            } else {
                let shares = list.iter().map(|value| of.compare(CompareOp::Eq, *how, value));
                shares.sum::<Option<f64>>()?
            };
            of_negated(*negated, share.min(of.histogram.not_null()))
        }
        _ => return None,
    })
}

/// The parameters whose values the estimates would look up in histograms.
pub(super) fn wanted_values(e: &Expr, known: &Known<'_>, found: &mut Vec<u32>) {
    if let ExprKind::And(parts) | ExprKind::Or(parts) = &e.kind {
        parts.iter().for_each(|part| wanted_values(part, known, found));
    }
    let Some((column, values)) = operands(e) else { return };
    let ExprKind::Column { source, column } = column.kind else { return };
    if values.len() <= MAX_LOOKUPS && (known.histogram)(source, column).is_some() {
        found.extend(values.iter().filter_map(parameter));
    }
}

/// The column and the values of a comparison.
fn operands(e: &Expr) -> Option<(&Expr, &[Expr])> {
    let is_column = |e: &Expr| matches!(e.kind, ExprKind::Column { .. });
    let (column, values) = match &e.kind {
        ExprKind::Compare { sides, .. } if is_column(&sides[0]) => (&sides[0], &sides[1..]),
        ExprKind::Compare { sides, .. } => (&sides[1], &sides[..1]),
        ExprKind::Between { args, .. } => (&args[0], &args[1..]),
        ExprKind::In { value, list, .. } => (&**value, &list[..]),
        ExprKind::IsNull { value, .. } => (&**value, &[][..]),
        _ => return None,
    };
    is_column(column).then_some((column, values))
}

fn flip(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessEq => CompareOp::GreaterEq,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterEq => CompareOp::LessEq,
        op => op,
    }
}

/// The number of the parameter on whose value alone an expression depends.
fn parameter(e: &Expr) -> Option<u32> {
    match &e.kind {
        ExprKind::Param(n) => Some(*n),
        ExprKind::ConvertTo(inner) | ExprKind::Transcode(inner) => parameter(inner),
        ExprKind::Unary(UnaryOp::Minus, inner) => parameter(inner),
        ExprKind::InCharset(inner) => parameter(&inner.0),
        _ => None,
    }
}

/// A histogram, and what conditions compare its column with.
struct Of<'h> {
    histogram: Arc<Histogram>,
    known: &'h Known<'h>,
}
impl Of<'_> {
    /// The share of `column op value`; None if the histogram does not compare like that.
    fn compare(&self, op: CompareOp, how: CompareAs, value: &Expr) -> Option<f64> {
        let h = &*self.histogram;
        let value = match self.value(value) {
            Some(Value::Null) if op == CompareOp::NullSafeEq => return Some(h.nulls),
            Some(Value::Null) => return Some(0.0),
            value => value,
        };
        let value = match &h.ty {
            SqlType::Enum { names, collation } => match (op, how) {
                (
                    CompareOp::Eq | CompareOp::NullSafeEq | CompareOp::NotEq,
                    CompareAs::String(compared),
                ) if compared == *collation => value.map(|v| {
                    let is_it = |name: &String| {
                        v.as_bytes().is_some_and(|b| collation.compare(name.as_bytes(), b).is_eq())
                    };
                    let number = names.iter().position(is_it).map_or(0, |n| n as u64 + 1);
                    Value::UInt(number)
                }),
                _ => return None,
            },
            SqlType::Set { .. } | SqlType::Bit { .. } => None,
            ty if !compares_like(ty, how) => return None,
            _ => value,
        };
        Some(match (op, value) {
            (CompareOp::Eq | CompareOp::NullSafeEq, Some(v)) => h.share_of(&v),
            (CompareOp::Eq | CompareOp::NullSafeEq, None) => h.average(),
            (CompareOp::NotEq, Some(v)) => (h.not_null() - h.share_of(&v)).max(0.0),
            (CompareOp::NotEq, None) => (h.not_null() - h.average()).max(0.0),
            (CompareOp::Less, Some(v)) => h.share_below(&v, false),
            (CompareOp::LessEq, Some(v)) => h.share_below(&v, true),
            (CompareOp::Greater, Some(v)) => (h.not_null() - h.share_below(&v, true)).max(0.0),
            (CompareOp::GreaterEq, Some(v)) => (h.not_null() - h.share_below(&v, false)).max(0.0),
            (_, None) => return None,
        })
    }
    /// The value of an expression, as the histogram has values.
    fn value(&self, e: &Expr) -> Option<Value<'static>> {
        let value = match &e.kind {
            ExprKind::Literal(value) => value.clone(),
            ExprKind::Param(n) => self.known.values?.get(n)?.clone(),
            ExprKind::ConvertTo(inner) | ExprKind::Transcode(inner) => return self.value(inner),
            ExprKind::InCharset(inner) => return self.value(&inner.0),
            ExprKind::Unary(UnaryOp::Minus, inner) => match to_number(&self.value(inner)?).value {
                Value::Int(n) => Value::Int(n.checked_neg()?),
                Value::UInt(n) => Value::Int(0i64.checked_sub_unsigned(n)?),
                Value::Double(x) => Value::Double(-x),
                Value::Decimal(d) => Value::Decimal(-d),
                _ => return None,
            },
            _ => return None,
        };
        Some(match value {
            Value::Bytes(bytes) if self.histogram.ty.is_string() => {
                let collation = self.histogram.ty.compare_collation();
                let charset = collation.charset();
                let bytes: Cow<'_, [u8]> = e.ty.collation.charset().convert_lossy(&bytes, charset);
                Value::owned(bytes[..charset.prefix_len(&bytes, STRING_PREFIX)].to_vec())
            }
            value => value,
        })
    }
}

/// Whether a condition compares the values of a column in their order in its histogram.
fn compares_like(ty: &SqlType, how: CompareAs) -> bool {
    match how {
        CompareAs::String(collation) => ty.is_string() && ty.compare_collation() == collation,
        CompareAs::ByValue => true,
        CompareAs::Date | CompareAs::DateTime | CompareAs::Time => ty.is_temporal(),
        CompareAs::Int | CompareAs::Decimal | CompareAs::Double => !ty.is_string(),
    }
}

/// The share that intervals of a column leave.
pub(super) fn share_of_intervals(intervals: &[Interval]) -> f64 {
    let each = |interval: &Interval| match interval {
        Interval::Equal { .. } => DEFAULT_EQUAL,
        Interval::Between { low: Some(_), high: Some(_) } => TWO_BOUNDS,
        Interval::Between { .. } => ONE_BOUND,
        Interval::Like { .. } => LIKE,
        Interval::Members(_) => SOME,
    };
    intervals.iter().map(each).sum::<f64>().min(1.0)
}

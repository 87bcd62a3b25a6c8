//! The share of rows that a condition leaves where no statistics tell it. Plans are shared by
//! statements with other literals, so the values in a condition do not count.
use super::range::Interval;
use crate::plan::{CompareOp, Expr, ExprKind};

/// The share that an equality leaves.
pub(crate) const DEFAULT_EQUAL: f64 = 0.1;
/// One bound, and two bounds.
const ONE_BOUND: f64 = 1.0 / 3.0;
const TWO_BOUNDS: f64 = 1.0 / 9.0;
const LIKE: f64 = 1.0 / 9.0;
/// What nothing is known of.
const SOME: f64 = 0.5;

/// The share of the rows that a condition leaves, above 0 and at most 1.
pub(crate) fn share_of(e: &Expr) -> f64 {
    let negate = |negated: bool, share: f64| if negated { 1.0 - share } else { share };
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
        ExprKind::And(parts) => parts.iter().map(share_of).product(),
        ExprKind::Or(parts) => 1.0 - parts.iter().map(|p| 1.0 - share_of(p)).product::<f64>(),
        _ => SOME,
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

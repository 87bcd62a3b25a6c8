//! Conditions on one source that an OR over several sources implies: of `(a.x = 1 AND b.y = 2) OR
//! (a.x = 3 AND b.y = 4)` follows `a.x = 1 OR a.x = 3`. With them the rows of a source are sorted
//! out before the other sources are read.
//!
//! **JOIN-5** An implied condition stands beside the OR, which is still checked. It has neither
//! subqueries nor effects, nor a value that differs from call to call or that the statement may
//! assign.
use super::super::compare::{and, or};
use super::super::select::flatten;
use super::{Set, set_of};
use crate::plan::{Expr, ExprKind};

/// The most branches of an OR that are looked at.
const MOST_BRANCHES: usize = 64;

/// What an OR implies of one of its sources that is not the last that the OR reads: whether the
/// condition is worth its check depends on the order of the sources.
pub(super) struct Implied {
    pub condition: Expr,
    /// The sources that the OR reads.
    pub of: Set,
}

/// The conditions that these conditions imply.
pub(super) fn of<'e>(conditions: impl Iterator<Item = &'e Expr>) -> Vec<Implied> {
    let mut implied = Vec::new();
    for condition in conditions {
        let ExprKind::Or(branches) = &condition.kind else { continue };
        let of = set_of(condition);
        if branches.len() > MOST_BRANCHES || of.count_ones() < 2 {
            continue;
        }
        let branches: Vec<Vec<Expr>> = branches.iter().map(parts).collect();
        for source in (0..Set::BITS).filter(|s| of & 1 << s != 0) {
            let here = |branch: &Vec<Expr>| {
                let own: Vec<Expr> =
                    branch.iter().filter(|e| set_of(e) == 1 << source).cloned().collect();
                Some(own).filter(|own| !own.is_empty()).map(and)
            };
            if let Some(branches) = branches.iter().map(here).collect::<Option<Vec<_>>>() {
                implied.push(Implied { condition: or(branches), of });
            }
        }
    }
    implied
}

/// The conditions that a branch joins by AND, but for those that JOIN-5 leaves out.
fn parts(branch: &Expr) -> Vec<Expr> {
    let mut parts = Vec::new();
    flatten(branch.clone(), &mut parts);
    let is_left_out = |e: &Expr| e.is_volatile_node() || matches!(e.kind, ExprKind::Subquery(_));
    parts.retain(|e| !e.any(&is_left_out));
    parts
}

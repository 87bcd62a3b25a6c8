//! Finds a later place for conditions that run a subquery for each row.
//!
//! **JOIN-8** Such a condition is decided behind sources that follow the one that it reads, if a
//! whole unique key finds at most one row of each of them, up to the last one that has conditions
//! of its own. Finding that row costs less than running the subquery, which is not run for the rows
//! that those conditions refuse. The condition stays at its own source where rows are locked,
//! because a row that it refuses must not lead to locks of others, and where any condition changes
//! something.
use super::from::{FromClause, Raw};
use super::hash_join::reads_only;
use super::select::RawKind;
use crate::plan::{CompareOp, Expr, ExprKind, RowLock};
use redolith_types::IndexColumn;

/// `by_source` has the conditions that are decided where a source's row is read, by the source.
pub(super) fn dependent_conditions(
    from: &FromClause,
    locks: &[RowLock],
    by_source: &mut [Vec<Expr>],
) {
    let changes = |list: &Vec<Expr>| list.iter().any(|e| e.any(&Expr::is_changing_node));
    if locks.iter().any(|lock| *lock != RowLock::None) || by_source.iter().any(changes) {
        return;
    }
    for s in 0..by_source.len() {
        if from.sources[s].nest.is_some() || !by_source[s].iter().any(Expr::has_dependent) {
            continue;
        }
        let followers = s + 1..by_source.len();
        let found = followers.take_while(|t| is_found_once(&from.sources[*t], *t, &by_source[*t]));
        let own = |t: usize| by_source[t].iter().any(|e| reads_only(t as u16, e));
        if let Some(last) = found.filter(|t| own(*t)).last() {
            let list = std::mem::take(&mut by_source[s]);
            let (late, here) = list.into_iter().partition(Expr::has_dependent);
            by_source[s] = here;
            by_source[last].extend::<Vec<Expr>>(late);
        }
    }
}

/// Whether the conditions fix all columns of a unique key of the source by sources before it.
fn is_found_once(source: &Raw, s: usize, conditions: &[Expr]) -> bool {
    let RawKind::Table { table, .. } = &source.kind else { return false };
    let is_own = |e: &Expr, wanted: usize| match e.kind {
        ExprKind::Column { source, column } => {
            usize::from(source) == s && usize::from(column) == wanted
        }
        _ => false,
    };
    let is_before = |e: &Expr| e.last_source().is_some_and(|last| usize::from(last) < s);
    let is_fixed = |column: usize| {
        conditions.iter().any(|e| match &e.kind {
            ExprKind::Compare { op: CompareOp::Eq, sides, .. } => {
                is_own(&sides[0], column) && is_before(&sides[1])
                    || is_own(&sides[1], column) && is_before(&sides[0])
            }
            _ => false,
        })
    };
    let is_whole = |parts: &[IndexColumn]| {
        parts.iter().all(|part| part.prefix.is_none() && is_fixed(part.column))
    };
    source.nest.is_none()
        && table.def.indexes.iter().any(|index| index.unique && is_whole(&index.columns))
}

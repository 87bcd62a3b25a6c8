//! Finds the sources of a join whose rows are found by hash: those that no index finds for the rows
//! of the sources before them (HASH-1, HASH-2).
use super::compare::and;
use super::select::flatten;
use crate::plan::function::Purity;
use crate::plan::{
    AccessKind, CompareOp, EqualBy, Expr, ExprKind, HashKey, HashLookup, RowLock, SelectPlan,
    Source, SourceKind, TableAccess,
};

/// Gives a lookup to each source of a complete plan for which a hash table pays.
pub(super) fn find(plan: &mut SelectPlan) {
    let mut assigns = false;
    plan.each_expr(&mut |e| assigns = assigns || e.any(&is_assignment));
    // If all sources before it have one row, a source is read once anyway.
    let mut is_read_once = true;
    for (s, source) in plan.sources.iter_mut().enumerate() {
        let by_index = source.by_index.take();
        // How often an assignment is run must not depend on a hash table.
        if !assigns && !is_read_once && may_be_kept(source) {
            source.lookup = lookup(s as u16, source).map(Box::new);
        }
        match (&mut source.lookup, by_index) {
            // An access that reads the same rows for each row before it is no better.
            (Some(lookup), by_index) => {
                lookup.instead = by_index.filter(|access| depends_on_sources(access));
            }
            (None, Some(access)) => source.kind = SourceKind::Table(*access),
            (None, None) => {}
        }
        is_read_once = is_read_once && is_one_row(source);
    }
}

fn is_assignment(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::AssignUserVariable(..))
}

/// True if the source has at most one row for all rows of the sources before it.
pub(super) fn is_one_row(source: &Source) -> bool {
    match &source.kind {
        SourceKind::Table(access) => {
            matches!(access.path.kind, AccessKind::Point(_) | AccessKind::Empty)
                && !depends_on_sources(access)
        }
        _ => false,
    }
}

/// True if the source has the same rows for all rows of the sources before it, and the statement
/// needs no cursor on them (HASH-2).
fn may_be_kept(source: &Source) -> bool {
    match &source.kind {
        SourceKind::Table(access) => {
            matches!(access.lock, RowLock::None | RowLock::ShareForChange)
                && !matches!(access.path.kind, AccessKind::Point(_) | AccessKind::Empty)
                && !depends_on_sources(access)
        }
        SourceKind::Derived(_) | SourceKind::Virtual(_) | SourceKind::Iteration { .. } => true,
        _ => false,
    }
}
fn depends_on_sources(access: &TableAccess) -> bool {
    let mut depends = false;
    access.each_key(&mut |e| depends = depends || e.last_source().is_some());
    depends
}

/// Takes the conditions on the source's rows alone out of the source's filters, if the other
/// conditions have keys.
fn lookup(s: u16, source: &mut Source) -> Option<HashLookup> {
    let is_virtual = matches!(source.kind, SourceKind::Virtual(_));
    let filter = match &mut source.kind {
        SourceKind::Table(access) => &mut access.filter,
        _ => &mut source.filter,
    };
    let mut conditions = Vec::new();
    flatten(filter.clone()?, &mut conditions);
    let keys: Vec<HashKey> = conditions.iter().filter_map(|e| key(s, e)).collect();
    if keys.is_empty() {
        return None;
    }
    // Which tables a table of INFORMATION_SCHEMA is about is read from its filter.
    let is_own = |e: &Expr| !is_virtual && reads_only(s, e) && is_plain(e);
    let (own, rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_own);
    let all = |list: Vec<Expr>| Some(list).filter(|list| !list.is_empty()).map(and);
    *filter = all(rest);
    Some(HashLookup { keys, own: all(own), instead: None })
}

/// Whether a condition is a key of the source `s` when the other sources that it reads are before.
pub(super) fn may_be_key(s: u16, condition: &Expr) -> bool {
    key_where(s, condition, |e| e.last_source().is_some() && !reads(s, e)).is_some()
}
fn reads(s: u16, e: &Expr) -> bool {
    e.any(&|e| matches!(e.kind, ExprKind::Column { source, .. } if source == s))
}

/// The key that a condition of the source `s` is.
pub(crate) fn key(s: u16, condition: &Expr) -> Option<HashKey> {
    key_where(s, condition, |e| e.last_source().is_some_and(|last| last < s))
}
fn key_where(s: u16, condition: &Expr, is_before: impl Fn(&Expr) -> bool) -> Option<HashKey> {
    let ExprKind::Compare { op: CompareOp::Eq, how, sides } = &condition.kind else { return None };
    let (own, before) = match (&sides[0], &sides[1]) {
        (a, b) if reads_only(s, a) && is_before(b) => (a, b),
        (a, b) if reads_only(s, b) && is_before(a) => (b, a),
        _ => return None,
    };
    if !is_plain(own) || !is_plain(before) {
        return None;
    }
    let by = EqualBy::of(*how, &own.ty, &before.ty)?;
    Some(HashKey { own: own.clone(), before: before.clone(), by })
}

pub(super) fn reads_only(s: u16, e: &Expr) -> bool {
    let mut others = false;
    e.walk(&mut |e| {
        others = others || matches!(e.kind, ExprKind::Column { source, .. } if source != s);
    });
    !others && e.last_source() == Some(s)
}

/// True if the value depends on the rows and on nothing that changes while the statement runs.
fn is_plain(e: &Expr) -> bool {
    !e.any(&|e| match &e.kind {
        ExprKind::Subquery(q) => q.dependent || q.body.volatile,
        ExprKind::AssignUserVariable(..) => true,
        ExprKind::UserVariable { assigned, .. } => *assigned,
        ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
        _ => false,
    })
}

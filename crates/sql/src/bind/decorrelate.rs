//! Finds subqueries that a hash table can answer ([`HashProbe`]).
//!
//! The conditions of such a subquery fall into three parts: those that take nothing from outside,
//! equalities between a column and a value from outside, and those on values from outside alone.
//! Where an index finds the rows for the outer values, the subquery is run for each row at first:
//! it then reads only the rows that it needs.
use super::Binder;
use super::compare::and;
use super::from::FromClause;
use super::select::RawKind;
use crate::parse::ast;
use crate::plan::{CompareOp, EqualBy, Expr, ExprKind, HashProbe, SelectPlan, SourceKind};

pub(super) struct Parts {
    /// The column, the outer value and their comparison.
    keys: Vec<(Expr, Expr, EqualBy)>,
    condition: Vec<Expr>,
    rest: Vec<Expr>,
}

impl Binder<'_> {
    /// The parts of a subquery's conditions; None if a hash table cannot answer the subquery.
    /// `plan` has no sources yet.
    pub(super) fn probe_parts(
        &self,
        plan: &SelectPlan,
        from: &FromClause,
        conjuncts: &[Expr],
        select: &ast::Select,
    ) -> Option<Parts> {
        let takes = self.taken.last().is_some_and(|taken| !taken.list.is_empty());
        let is_plain = plan.grouping.is_none() && plan.limit.is_none() && select.locks.is_empty();
        let from_tables = !from.sources.is_empty()
            && from.sources.iter().all(|r| matches!(r.kind, RawKind::Table { .. }))
            && !from.all_conditions().any(|e| e.any(&is_outer));
        if !takes || !is_plain || !from_tables {
            return None;
        }
        let mut parts = Parts { keys: Vec::new(), condition: Vec::new(), rest: Vec::new() };
        for conjunct in conjuncts {
            match (conjunct.any(&is_outer), conjunct.any(&is_column)) {
                (false, _) => parts.rest.push(conjunct.clone()),
                (true, false) if is_simple(conjunct) => parts.condition.push(conjunct.clone()),
                (true, true) => parts.keys.push(key(conjunct)?),
                _ => return None,
            }
        }
        (!parts.keys.is_empty() || !parts.condition.is_empty()).then_some(parts)
    }
}

impl Parts {
    /// True if the probe may pay. Beside an index it reads rows that the statement may not need, so
    /// it must not lock them.
    pub(super) fn pays(&self, plan: &SelectPlan) -> bool {
        !seeks(plan) || plan.sources.len() == 1 && !plan.locking
    }

    /// The probe, and the conditions that its rows must meet. It is not complete: its rows have no
    /// sources yet, and the test decides which outputs it needs.
    pub(super) fn probe(self, plan: &SelectPlan) -> (HashProbe, Vec<Expr>) {
        let mut output = Vec::with_capacity(self.keys.len() + plan.visible);
        let mut keys = Vec::with_capacity(self.keys.len());
        for (column, value, by) in self.keys {
            output.push(column);
            keys.push((value, by));
        }
        output.extend_from_slice(&plan.output[..plan.visible]);
        let build = SelectPlan {
            locking: plan.locking,
            dependent: plan.dependent,
            ..SelectPlan::of_outputs(output)
        };
        let condition = Some(self.condition).filter(|c| !c.is_empty()).map(and);
        let seeks = seeks(plan);
        (HashProbe { build, keys, value: None, condition, seeks }, self.rest)
    }
}

/// True if an index finds the rows for the outer values.
fn seeks(plan: &SelectPlan) -> bool {
    plan.sources.iter().any(|source| {
        let SourceKind::Table(access) = &source.kind else { return false };
        let mut by_outer = false;
        access.each_key(&mut |e| by_outer |= e.any(&is_outer));
        by_outer
    })
}

fn is_outer(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Outer(_))
}
fn is_column(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Column { .. })
}
/// True if an evaluation needs nothing but values from outside and parameters.
fn is_simple(e: &Expr) -> bool {
    e.is_fixed() && !e.any(&|e| matches!(e.kind, ExprKind::Subquery(_)))
}

/// The sides of `column = outer value`.
fn key(conjunct: &Expr) -> Option<(Expr, Expr, EqualBy)> {
    let ExprKind::Compare { op: CompareOp::Eq, how, sides } = &conjunct.kind else { return None };
    let (column, value) = match (is_column(&sides[0]), is_column(&sides[1])) {
        (true, false) => (&sides[0], &sides[1]),
        (false, true) => (&sides[1], &sides[0]),
        _ => return None,
    };
    if value.any(&is_column) || !is_simple(value) {
        return None;
    }
    let by = EqualBy::of(*how, &column.ty, &value.ty)?;
    Some((column.clone(), value.clone(), by))
}

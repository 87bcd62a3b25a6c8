//! The part of a select list that is evaluated after a sort.
//!
//! **LATE-1** As in MySQL, what a select list assigns to user variables, and RAND() and the like,
//! has its values in the order of the result and only for the rows that LIMIT leaves. Dependent
//! subqueries are run for these rows alone. Where rows are sorted, the SELECT is therefore split in
//! two like one with window functions (WIN-1): the inner one reads and sorts, the outer one
//! evaluates such outputs over its rows.
//! **LATE-2** A SELECT stays whole where the order of evaluations cannot be kept: if a sort key or
//! a condition assigns a variable, or if a sort key is an output with another value each time. It
//! stays whole as well with DISTINCT and GROUP BY, which compare
//! the values, and within expressions, where the SELECT around looks at its LIMIT.
use super::Binder;
use super::scope::Scope;
use super::window::Split;
use crate::error::Result;
use crate::plan::{Expr, ExprKind, SelectPlan};
use crate::sink::ColumnMeta;
use std::collections::HashSet;

impl Binder<'_> {
    /// Splits a SELECT that sorts and has outputs to be evaluated after that (LATE-1). Returns any
    /// other as it is.
    pub(super) fn outputs_after_sort(
        &mut self,
        mut plan: SelectPlan,
        scope: &Scope,
    ) -> Result<SelectPlan> {
        let late = late_outputs(&plan);
        if late.is_empty() {
            return Ok(plan);
        }
        let compare = &mut |nodes| self.compared(nodes);
        let mut split = Split::new(scope, compare);
        for key in &mut plan.order {
            key.output = split.number(plan.output[key.output as usize].clone())?;
        }
        let mut output = std::mem::take(&mut plan.output);
        output.truncate(plan.visible);
        for (n, e) in output.iter_mut().enumerate() {
            if late.contains(&n) { split.take_columns(e)? } else { split.make_input(e)? }
        }
        let (inputs, visible) = (split.inputs, plan.visible);
        let own = inputs.iter().map(|e| ColumnMeta::expression("", e.ty)).collect();
        let columns = std::mem::replace(&mut plan.columns, own);
        (plan.visible, plan.output) = (inputs.len(), inputs);
        let (into, into_file) = (std::mem::take(&mut plan.into), plan.into_file.take());
        self.check_effects(&plan)?;
        let whole = self.over_windows(plan, Vec::new(), output, visible, columns)?;
        Ok(SelectPlan { into, into_file, ..whole })
    }
}

/// The outputs to be evaluated after the sort; none where the SELECT stays whole (LATE-2).
fn late_outputs(plan: &SelectPlan) -> HashSet<usize> {
    let keys: HashSet<usize> = plan.order.iter().map(|key| key.output as usize).collect();
    let is_plain = plan.grouping.is_none() && !plan.distinct && plan.probe.is_none();
    if keys.is_empty() || !is_plain {
        return HashSet::new();
    }
    // Such an output is not the same as itself: what is shown would not be what is sorted.
    let differs = |n: &usize| *n < plan.visible && !plan.output[*n].same(&plan.output[*n]);
    if keys.iter().any(differs) {
        return HashSet::new();
    }
    let is_cut = !plan.limit.is_none();
    let is_late = |e: &Expr| e.any(&Expr::is_changing_node) || is_cut && e.has_dependent();
    let visible = plan.output[..plan.visible].iter().enumerate();
    let late: HashSet<usize> =
        visible.filter(|(n, e)| !keys.contains(n) && is_late(e)).map(|(n, _)| n).collect();
    let assigns = |e: &Expr| e.any(&|e| matches!(e.kind, ExprKind::AssignUserVariable(..)));
    let assigned_late = late.iter().filter(|n| assigns(&plan.output[**n])).count();
    let mut assigned = 0;
    plan.each_expr(&mut |e| assigned += usize::from(assigns(e)));
    if assigned > assigned_late { HashSet::new() } else { late }
}

//! DISTINCT with ORDER BY: which expressions may sort rows that are given once.
use super::Binder;
use super::scope::Scope;
use crate::error::{Result, SqlError};
use crate::plan::expr_set::SameIndex;
use crate::plan::{Expr, ExprKind, SortKey};
use crate::sql_mode::SqlMode;

impl Binder<'_> {
    /// Checks the sort keys behind the first `visible` expressions of `output`. Rows that are equal
    /// in the select list are one row, so a sort key has to follow from the select list, or this
    /// row would have several. As in MySQL, this does not hold without ONLY_FULL_GROUP_BY: then the
    /// first of the equal rows decides.
    pub(super) fn check_distinct_order(
        &mut self,
        scope: &Scope,
        output: &[Expr],
        visible: usize,
        order: &[SortKey],
    ) -> Result<()> {
        if output.len() == visible {
            return Ok(());
        }
        let refuse = |at: usize, column: &str| {
            Err(SqlError::not_in_select_list(at + 1, "ORDER BY clause", column, "DISTINCT"))
        };
        let (items, added) = output.split_at(visible);
        let known = SameIndex::of(items, |nodes| self.compared(nodes))?;
        for (at, key) in order.iter().enumerate() {
            let Some(expr) = (key.output as usize).checked_sub(visible).map(|n| &added[n]) else {
                continue;
            };
            if !self.windows.is_empty() {
                return refuse(at, "?");
            }
            if !self.cx.mode.has(SqlMode::ONLY_FULL_GROUP_BY) {
                continue;
            }
            let foreign = self.foreign(expr, items, &known)?;
            match foreign.map(|e| &e.kind) {
                None => {}
                Some(ExprKind::Column { source, column }) => {
                    return refuse(at, &scope.full_name(*source, *column));
                }
                Some(_) => return refuse(at, "?"),
            }
        }
        Ok(())
    }

    /// The first column or aggregate in a sort key that is not in the select list.
    fn foreign<'e>(
        &mut self,
        expr: &'e Expr,
        items: &[Expr],
        known: &SameIndex,
    ) -> Result<Option<&'e Expr>> {
        let mut steps = 1;
        let found = known.find_counted(expr, items, &mut steps);
        self.step(steps)?;
        if found.is_some() {
            return Ok(None);
        }
        let differs = matches!(
            expr.kind,
            ExprKind::Column { .. }
                | ExprKind::Member { .. }
                | ExprKind::Aggregate(_)
                | ExprKind::Window(_)
        );
        if differs {
            return Ok(Some(expr));
        }
        let mut found = Ok(None);
        expr.parts(&mut |part| {
            if matches!(found, Ok(None)) {
                found = self.foreign(part, items, known);
            }
        });
        found
    }
}

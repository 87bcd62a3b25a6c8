//! GROUP BY: what is computed for a row of the result is rewritten in terms of group keys and aggregates.
use super::member::{Names, number_of};
use super::scope::Scope;
use super::{Binder, slot};
use crate::error::{Result, SqlError};
use crate::plan::{Aggregate, AggregateCall, CompareOp, Expr, ExprKind, Grouping};
use crate::sql_mode::SqlMode;

impl Binder<'_> {
    /// Rewrites `output` and `having` and makes the grouping (SEL-4).
    #[allow(clippy::too_many_arguments)]
    pub(super) fn regroup(
        &mut self,
        scope: &Scope,
        keys: Vec<Expr>,
        aggregates: Vec<AggregateCall>,
        conjuncts: &[Expr],
        output: &mut [Expr],
        visible: usize,
        having: &mut Option<Expr>,
    ) -> Result<Grouping> {
        let strict = self.cx.mode.has(SqlMode::ONLY_FULL_GROUP_BY);
        let implicit = keys.is_empty();
        let mut regroup = Regroup { scope, keys, aggregates, conjuncts, strict, implicit };
        for (n, expr) in output.iter_mut().enumerate() {
            let clause = if n < visible { "SELECT list" } else { "ORDER BY" };
            let position = if n < visible { n + 1 } else { n - visible + 1 };
            regroup.rewrite(expr, clause, position)?;
        }
        if let Some(having) = having {
            regroup.rewrite(having, "HAVING clause", 1)?;
        }
        let keys = regroup.keys.into_iter().map(|key| table_number(scope, &key).map_or(key, |(number, _)| number)).collect();
        Ok(Grouping { keys, aggregates: regroup.aggregates, sorted: false, first_row: false })
    }
}

struct Regroup<'a> {
    scope: &'a Scope,
    keys: Vec<Expr>,
    aggregates: Vec<AggregateCall>,
    conjuncts: &'a [Expr],
    strict: bool,
    implicit: bool,
}

impl Regroup<'_> {
    fn rewrite(&mut self, expr: &mut Expr, clause: &str, position: usize) -> Result<()> {
        if let Some(key) = self.keys.iter().position(|k| k.same(expr)) {
            let kind = ExprKind::GroupKey(slot(key)?);
            expr.kind = match table_number(self.scope, expr) {
                Some((number, names)) => names.of(Expr::new(kind, number.ty)),
                None => kind,
            };
            return Ok(());
        }
        if let ExprKind::Column { source, column } = expr.kind {
            if self.strict && !self.depends_on_keys(source, column) {
                let column = &self.scope.sources[source as usize].columns[column as usize].meta;
                let name =
                    [&*column.schema, &*column.table, &*column.name].into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(".");
                return Err(if self.implicit {
                    SqlError::nonaggregated_column(position, clause, name)
                } else {
                    SqlError::not_in_group_by(position, clause, name)
                });
            }
            *expr = match table_number(self.scope, expr) {
                Some((number, names)) => {
                    let number = self.any_value(number)?;
                    let ty = expr.ty.nullable(number.ty.nullable);
                    Expr::new(names.of(number), ty)
                }
                None => self.any_value(expr.clone())?,
            };
            return Ok(());
        }
        let mut result = Ok(());
        expr.parts_mut(&mut |part| {
            if result.is_ok() {
                result = self.rewrite(part, clause, position);
            }
        });
        result
    }

    /// The column is the same in all rows of a group: its table's unique key is among the group's keys, or it is fixed by WHERE.
    fn depends_on_keys(&self, source: u16, column: u16) -> bool {
        let is_key = |c: usize| {
            self.keys.iter().any(|k| matches!(k.kind, ExprKind::Column { source: s, column: k } if s == source && k as usize == c))
        };
        let fixed = |c: usize| self.conjuncts.iter().any(|e| fixes(e, source, c));
        if fixed(column as usize) {
            return true;
        }
        let Some(table) = &self.scope.sources[source as usize].table else { return false };
        table.def.indexes.iter().filter(|i| i.unique).any(|index| {
            index
                .columns
                .iter()
                .all(|c| c.prefix.is_none() && !table.def.columns[c.column].nullable && (is_key(c.column) || fixed(c.column)))
        })
    }

    fn any_value(&mut self, column: Expr) -> Result<Expr> {
        let ty = column.ty.nullable(column.ty.nullable || self.implicit);
        let same = |a: &AggregateCall| a.function == Aggregate::AnyValue && a.args.first().is_some_and(|arg| arg.same(&column));
        let place = self.aggregates.iter().position(same).unwrap_or_else(|| {
            let call = AggregateCall {
                function: Aggregate::AnyValue,
                distinct: false,
                args: vec![column.clone()],
                values: 1,
                ty,
                order: Vec::new(),
                separator: "".into(),
            };
            self.aggregates.push(call);
            self.aggregates.len() - 1
        });
        Ok(Expr::new(ExprKind::Aggregate(slot(place)?), ty))
    }
}

fn table_number(scope: &Scope, expr: &Expr) -> Option<(Expr, Names)> {
    number_of(expr, |source| scope.sources[source].table.clone())
}

/// `column = constant`
fn fixes(conjunct: &Expr, source: u16, column: usize) -> bool {
    let ExprKind::Compare { op: CompareOp::Eq, sides, .. } = &conjunct.kind else { return false };
    let is = |e: &Expr| matches!(e.kind, ExprKind::Column { source: s, column: c } if s == source && c as usize == column);
    (is(&sides[0]) && sides[1].is_constant()) || (is(&sides[1]) && sides[0].is_constant())
}

//! GROUP BY: rewrites the expressions of the result in terms of group keys and aggregates.
use super::determined::Determined;
use super::enum_set::number_of;
use super::from::FromClause;
use super::scope::Scope;
use super::{Binder, slot};
use crate::error::{Result, SqlError};
use crate::plan::expr_set::SameIndex;
use crate::plan::{
    Aggregate, AggregateCall, Expr, ExprKind, ExprType, Function, Grouping, MemberNames,
};
use crate::sql_mode::SqlMode;
use redolith_types::Value;
use std::collections::HashMap;

impl Binder<'_> {
    /// Rewrites `output` and `having` and makes the grouping (SEL-4).
    #[allow(clippy::too_many_arguments)]
    pub(super) fn regroup(
        &mut self,
        scope: &Scope,
        from: &FromClause,
        keys: Vec<Expr>,
        known: SameIndex,
        aggregates: Vec<AggregateCall>,
        conjuncts: &[Expr],
        output: &mut [Expr],
        visible: usize,
        having: &mut Option<Expr>,
        implicit: bool,
        rollup: bool,
        named_keys: &[Option<usize>],
    ) -> Result<Grouping> {
        let strict = self.cx.mode.has(SqlMode::ONLY_FULL_GROUP_BY);
        let mut step = |steps| self.step(steps);
        let mut regroup = Regroup::new(scope, from, keys, known, aggregates, conjuncts, &mut step);
        (regroup.strict, regroup.implicit, regroup.rollup) = (strict, implicit, rollup);
        for (n, expr) in output.iter_mut().enumerate() {
            if let Some(Some(key)) = named_keys.get(n) {
                regroup.replace(expr, *key)?;
                continue;
            }
            let clause = if n < visible { "SELECT list" } else { "ORDER BY" };
            let position = if n < visible { n + 1 } else { n - visible + 1 };
            regroup.rewrite(expr, clause, position)?;
        }
        if let Some(having) = having {
            regroup.rewrite(having, "HAVING clause", 1)?;
        }
        let keys = regroup
            .keys
            .into_iter()
            .map(|key| table_number(scope, &key).map_or(key, |(number, _)| number))
            .collect();
        Ok(Grouping {
            keys,
            rollup,
            implicit,
            aggregates: regroup.aggregates,
            sorted: false,
            first_row: false,
        })
    }
}

struct Regroup<'a> {
    /// Counts work, and fails if the statement has been killed.
    step: &'a mut dyn FnMut(usize) -> Result<()>,
    scope: &'a Scope,
    keys: Vec<Expr>,
    /// An index of the keys by their expressions.
    known: SameIndex,
    aggregates: Vec<AggregateCall>,
    /// The places of ANY_VALUE(column) in `aggregates`.
    any_values: HashMap<(u16, u16), Vec<usize>>,
    from: &'a FromClause,
    conjuncts: &'a [Expr],
    /// The columns that follow from the keys, once one is asked for.
    determined: Option<Determined>,
    strict: bool,
    implicit: bool,
    rollup: bool,
}

impl<'a> Regroup<'a> {
    fn new(
        scope: &'a Scope,
        from: &'a FromClause,
        keys: Vec<Expr>,
        known: SameIndex,
        aggregates: Vec<AggregateCall>,
        conjuncts: &'a [Expr],
        step: &'a mut dyn FnMut(usize) -> Result<()>,
    ) -> Regroup<'a> {
        let mut any_values: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, call) in
            aggregates.iter().enumerate().filter(|(_, call)| call.function == Aggregate::AnyValue)
        {
            if let Some(column) = call.args.first().and_then(column_of) {
                any_values.entry(column).or_default().push(place);
            }
        }
        Regroup {
            step,
            scope,
            keys,
            known,
            aggregates,
            any_values,
            from,
            conjuncts,
            determined: None,
            strict: false,
            implicit: false,
            rollup: false,
        }
    }

    fn rewrite(&mut self, expr: &mut Expr, clause: &str, position: usize) -> Result<()> {
        let mut steps = 1;
        let key = self.known.find_counted(expr, &self.keys, &mut steps);
        (self.step)(steps)?;
        if let Some(key) = key {
            return self.replace(expr, key);
        }
        if let ExprKind::Call { function: Function::Grouping, args } = &expr.kind {
            if !self.rollup {
                return Err(SqlError::invalid_group_function());
            }
            let mut numbers = Vec::with_capacity(args.len());
            for (n, arg) in args.iter().enumerate() {
                let key = self.known.find_expr(arg, &self.keys);
                numbers.push(key.ok_or_else(|| SqlError::not_grouped_by(n + 1))?);
            }
            *expr = grouping_of(self.keys.len(), &numbers)?;
            return Ok(());
        }
        if let ExprKind::Column { source, column } = expr.kind {
            if self.strict && !self.depends_on_keys(source, column)? {
                let name = self.scope.full_name(source, column);
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

    /// Puts the value of a key in the place of the expression.
    fn replace(&self, expr: &mut Expr, key: usize) -> Result<()> {
        expr.ty.nullable |= self.rollup;
        let kind = ExprKind::GroupKey(slot(key)?);
        expr.kind = match table_number(self.scope, expr) {
            Some((number, names)) => names.of(Expr::new(kind, number.ty)),
            None => kind,
        };
        Ok(())
    }

    /// True if the column has one value in all rows of a group.
    fn depends_on_keys(&mut self, source: u16, column: u16) -> Result<bool> {
        if self.determined.is_none() {
            (self.step)(self.conjuncts.len() + self.from.all_conditions().count())?;
        }
        // Nothing follows from the NULL that a key is in the rows of WITH ROLLUP.
        let keys = if self.rollup { &[][..] } else { &self.keys[..] };
        let determined = self
            .determined
            .get_or_insert_with(|| Determined::of(keys, self.conjuncts, self.from, self.scope));
        Ok(determined.has(source, column))
    }

    fn any_value(&mut self, column: Expr) -> Result<Expr> {
        let ty = column.ty.nullable(column.ty.nullable || self.implicit);
        let call = AggregateCall {
            function: Aggregate::AnyValue,
            distinct: false,
            args: vec![column],
            values: 1,
            ty,
            order: Vec::new(),
            separator: Box::default(),
        };
        let same = |place: &&usize| {
            self.aggregates[**place].args.first().is_some_and(|arg| arg.same(&call.args[0]))
        };
        let known = column_of(&call.args[0]).map(|c| self.any_values.entry(c).or_default());
        let place = match known.as_ref().and_then(|places| places.iter().find(same)) {
            Some(place) => *place,
            None => {
                let place = self.aggregates.len();
                known.into_iter().for_each(|places| places.push(place));
                self.aggregates.push(call);
                place
            }
        };
        Ok(Expr::new(ExprKind::Aggregate(slot(place)?), ty))
    }
}

/// GROUPING() of some of `keys` group keys (SEL-6): the number of the keys by which the group is
/// grouped, and the numbers of the arguments.
pub(super) fn grouping_of(keys: usize, numbers: &[usize]) -> Result<Expr> {
    let mut args = vec![Expr::new(ExprKind::GroupKey(slot(keys)?), ExprType::bigint(21))];
    let number = |n: &usize| Expr::literal(Value::Int(*n as i64), ExprType::bigint(21));
    args.extend(numbers.iter().map(number));
    Ok(Expr::new(ExprKind::Call { function: Function::Grouping, args }, ExprType::bigint(21)))
}

fn column_of(e: &Expr) -> Option<(u16, u16)> {
    match e.kind {
        ExprKind::Column { source, column } => Some((source, column)),
        _ => None,
    }
}

fn table_number(scope: &Scope, expr: &Expr) -> Option<(Expr, MemberNames)> {
    number_of(expr, |source| scope.sources[source].table.clone())
}

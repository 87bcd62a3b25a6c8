//! Binds subqueries in expressions.
use super::columns_read;
use super::compare::year_for;
use super::derived::is_changing;
use super::expr::{Env, as_number};
use super::outer::Taken;
use super::scope::Clause;
use super::{Binder, type_rules};
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::plan::function::Purity;
use crate::plan::{
    CompareOp, EqualBy, Expr, ExprKind, ExprType, Function, HashProbe, SelectPlan, Subquery,
    SubqueryBody, SubqueryTest,
};
use redolith_types::Value;
use std::sync::Arc;

/// The most dependent subqueries in a statement. An expression is begun again for each of its
/// subqueries, so the time for a row grows by the square of their number.
const MOST_DEPENDENT: usize = 1000;

impl Binder<'_> {
    pub(super) fn scalar_subquery(&mut self, env: &Env<'_>, select: &ast::Select) -> Result<Expr> {
        let (plan, outer) = self.subselect(env, select)?;
        if plan.visible != 1 {
            return Err(SqlError::operand_columns(1));
        }
        let ty = plan.output[0].ty.nullable(true);
        self.subquery(env, plan, outer, SubqueryTest::Scalar, ty)
    }

    pub(super) fn exists(&mut self, env: &Env<'_>, select: &ast::Select) -> Result<Expr> {
        let (mut plan, outer) = self.subselect(env, select)?;
        if plan.limit.is_none() {
            (plan.distinct, plan.order) = (false, Vec::new());
        }
        // The values do not matter.
        if plan.grouping.is_none() && !plan.distinct && plan.order.is_empty() {
            plan.output = vec![Expr::literal(Value::Int(1), ExprType::bigint(1))];
            plan.visible = 1;
            columns_read::note(&mut plan);
        }
        self.subquery(env, plan, outer, SubqueryTest::Exists, ExprType::boolean())
    }

    pub(super) fn in_select(
        &mut self,
        env: &Env<'_>,
        negated: bool,
        value: &ast::Expr,
        select: &ast::Select,
    ) -> Result<Expr> {
        let parts = match &value.kind {
            ast::ExprKind::Row(parts) => &parts[..],
            _ => std::slice::from_ref(value),
        };
        let mut bound = Vec::with_capacity(parts.len());
        for part in parts {
            bound.push(self.expr(env, part)?);
        }
        let (mut plan, outer) = self.subselect(env, select)?;
        refuse_limit(&plan)?;
        if plan.visible != parts.len() {
            return Err(SqlError::operand_columns(parts.len()));
        }
        let mut values = Vec::with_capacity(parts.len());
        for (n, (value, column)) in bound.into_iter().zip(&mut plan.output).enumerate() {
            self.meet_number(&value, select, n, column);
            let value = year_for(column, value);
            let how = type_rules::compare_sides(&value, column, "=")?;
            values.push((value, how));
        }
        let nullable = values.iter().any(|(value, _)| value.ty.nullable)
            || plan.output[..plan.visible].iter().any(|column| column.ty.nullable);
        let ty = ExprType::boolean().nullable(nullable);
        self.subquery(env, plan, outer, SubqueryTest::In { negated, values }, ty)
    }

    /// Binds `value op ANY (SELECT ..)` and the same with ALL.
    pub(super) fn quantified(
        &mut self,
        env: &Env<'_>,
        op: CompareOp,
        all: bool,
        value: &ast::Expr,
        select: &ast::Select,
    ) -> Result<Expr> {
        let value = self.expr(env, value)?;
        let (mut plan, outer) = self.subselect(env, select)?;
        refuse_limit(&plan)?;
        if plan.visible != 1 {
            return Err(SqlError::operand_columns(1));
        }
        self.meet_number(&value, select, 0, &mut plan.output[0]);
        let value = year_for(&plan.output[0], value);
        let how = type_rules::compare_sides(&value, &plan.output[0], op.sign())?;
        let ty = ExprType::boolean().nullable(value.ty.nullable || plan.output[0].ty.nullable);
        self.subquery(env, plan, outer, SubqueryTest::Quantified { op, all, how, value }, ty)
    }

    /// A hexadecimal literal that a subquery selects as its item `n` is a number beside a number.
    /// Groups and the rows of a set operation have the bytes.
    fn meet_number(&self, value: &Expr, select: &ast::Select, n: usize, selected: &mut Expr) {
        let is_written = match select.items.get(n) {
            Some(ast::SelectItem::Expr { expr, .. }) => self.is_hex_number(expr),
            _ => false,
        };
        let is_row = matches!(selected.kind, ExprKind::Column { .. });
        if value.ty.kind.is_numeric() && is_written && select.more.is_empty() && !is_row {
            selected.change(as_number);
        }
    }

    fn subquery(
        &mut self,
        env: &Env<'_>,
        mut plan: SelectPlan,
        outer: Vec<Expr>,
        test: SubqueryTest,
        ty: ExprType,
    ) -> Result<Expr> {
        let slot = self.subqueries;
        self.subqueries = slot.checked_add(1).ok_or_else(SqlError::nested_too_deeply)?;
        if !matches!(test, SubqueryTest::Scalar) && plan.limit.is_none() {
            // The order of the rows does not matter.
            plan.order.clear();
            plan.output.truncate(plan.visible);
        }
        // Results are kept by what a subquery takes, and it is taken again for each answer.
        if outer.iter().any(|e| e.any(&changes)) {
            return Err(SqlError::unsupported(
                "a subquery that refers to a select item like RAND() or @a := 1",
            ));
        }
        let changing = is_changing(&plan);
        let dependent = changing && has_rows(env) || outer.iter().any(|e| !e.is_fixed());
        self.dependents += dependent as usize;
        if self.dependents > MOST_DEPENDENT {
            return Err(SqlError::unsupported("more than 1000 correlated subqueries"));
        }
        let volatile = plan.is_volatile();
        let probe = plan.probe.take().filter(|_| dependent && !volatile);
        let probe = probe.and_then(|probe| probe_for(&test, &plan, probe));
        let height = plan.height();
        let body = Arc::new(SubqueryBody { plan, slot, height, volatile, changing, probe });
        let subquery = Subquery { body, test, outer, dependent };
        Ok(Expr::new(ExprKind::Subquery(Box::new(subquery)), ty))
    }

    /// Binds the query of a subquery. Returns also what it takes from outside.
    pub(super) fn subselect(
        &mut self,
        env: &Env<'_>,
        select: &ast::Select,
    ) -> Result<(SelectPlan, Vec<Expr>)> {
        let aggregates = self.aggregates.take();
        self.around_aggregates.push(aggregates);
        let pinning = self.pinning;
        self.taken.push(Taken::default());
        let result = self.select(select, Some(env));
        let taken = self.taken.pop().unwrap_or_default();
        self.aggregates = self.around_aggregates.pop().flatten();
        self.pinning = pinning;
        Ok((result?, taken.list))
    }

    /// Refuses an expression that holds a dependent subquery and has an effect of its own or may
    /// change its mind: it is evaluated again from its beginning when the subquery has its value.
    pub(super) fn check_effects(&self, plan: &SelectPlan) -> Result<()> {
        if !plan.dependent {
            return Ok(());
        }
        let (mut mixed, mut assigns) = (false, false);
        plan.each_expr(&mut |e| {
            mixed = mixed || e.has_dependent() && e.any(&has_effect);
            assigns = assigns || e.any(&|e| matches!(e.kind, ExprKind::AssignUserVariable(..)));
        });
        let keeps = plan.grouping.is_some() || plan.distinct || !plan.order.is_empty();
        if mixed || keeps && assigns { Err(effects()) } else { Ok(()) }
    }
}

/// Whether the expressions of a clause are evaluated for several rows. A row of VALUES and the
/// document of JSON_TABLE have their own subqueries, which are run once for them.
fn has_rows(env: &Env<'_>) -> bool {
    !matches!(env.clause, Clause::None | Clause::TableFunction) && !env.scope.sources.is_empty()
}

/// As in MySQL.
fn refuse_limit(plan: &SelectPlan) -> Result<()> {
    if plan.limit.is_none() {
        return Ok(());
    }
    Err(SqlError::unsupported("LIMIT & IN/ALL/ANY/SOME subquery"))
}

/// [`Binder::check_effects`] for the conditions of a statement that changes rows and the values
/// that it assigns. `chained` says that a value may read what the statement has assigned before.
///
/// Values are evaluated together, and the last evaluation counts. So RAND() may be a value beside
/// other values. But it must not decide whether a subquery is asked for its answer: then it would
/// have to decide so in each evaluation.
pub(super) fn check_effects_of<'e>(
    conditions: impl Iterator<Item = &'e Expr> + Clone,
    values: impl Iterator<Item = &'e Expr> + Clone,
    chained: bool,
) -> Result<()> {
    if !conditions.clone().chain(values.clone()).any(Expr::has_dependent) {
        return Ok(());
    }
    let is_number = |e: &Expr| match &e.kind {
        ExprKind::Call { function: Function::Rand, args } => args.is_empty(),
        _ => false,
    };
    let draws = |e: &Expr| e.any(&is_number);
    let others = |e: &Expr| e.any(&|e| has_effect(e) && !is_number(e));
    let decides = |e: &Expr| draws(e) && (chained || e.has_dependent());
    let mixed = conditions.clone().any(draws) && conditions.clone().any(Expr::has_dependent);
    let refused =
        mixed || conditions.chain(values.clone()).any(others) || values.clone().any(decides);
    if refused { Err(effects()) } else { Ok(()) }
}
fn effects() -> SqlError {
    SqlError::unsupported(
        "an assignment, or a function like RAND() or SLEEP(), beside a correlated subquery",
    )
}
/// True if another evaluation on the same row may give another value.
fn changes(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::AssignUserVariable(..) => true,
        ExprKind::Call { function, .. } => function.purity() == Purity::Volatile,
        ExprKind::Subquery(q) => q.body.volatile,
        _ => false,
    }
}
fn has_effect(e: &Expr) -> bool {
    use Function::{GetLock, LastInsertId, Rand, ReleaseAllLocks, ReleaseLock, Sleep};
    match &e.kind {
        ExprKind::AssignUserVariable(..) => true,
        ExprKind::Call { function: LastInsertId, args } => !args.is_empty(),
        ExprKind::Call { function, .. } => {
            matches!(function, GetLock | ReleaseLock | ReleaseAllLocks | Rand | Sleep)
        }
        _ => false,
    }
}

/// The hash probe of a subquery, completed for its test; None if the test is not one that the probe
/// decides.
fn probe_for(
    test: &SubqueryTest,
    plan: &SelectPlan,
    mut probe: Box<HashProbe>,
) -> Option<Box<HashProbe>> {
    let keys = probe.keys.len();
    match test {
        SubqueryTest::Exists if keys > 0 => probe.build.output.truncate(keys),
        SubqueryTest::In { values, .. } => {
            let [(value, how)] = &values[..] else { return None };
            probe.value = Some(EqualBy::of(*how, &value.ty, &plan.output[0].ty)?);
            probe.build.output.truncate(keys + 1);
        }
        _ => return None,
    }
    let takes = |e: &Expr| matches!(e.kind, ExprKind::Outer(_));
    if probe.build.output.iter().any(|e| e.any(&takes)) {
        return None;
    }
    probe.build.visible = probe.build.output.len();
    columns_read::note(&mut probe.build);
    Some(probe)
}

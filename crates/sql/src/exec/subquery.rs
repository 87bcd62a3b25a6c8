//! Runs the subqueries that do not depend on rows (SUB-1), each once before the query that uses it,
//! and keeps their results by slot.
//!
//! Inside a dependent subquery such a subquery is run again only when what it takes from outside
//! has changed. Dependent subqueries are run when an evaluation asks for them
//! ([`super::correlated`]).
use super::ExecContext;
use super::eval::{Eval, Known, Scope};
use super::row_buffer::write;
use super::rows::Collected;
use super::{correlated, probe_table::Members};
use crate::error::{Result, SqlError};
use crate::plan::{
    EqualBy, Expr, ExprKind, InsertValue, SelectPlan, Subquery, SubqueryTest, TableAccess,
};
use hashbrown::HashSet;
use redolith_types::Value;
use std::sync::Arc;

/// The rows of a subquery that its test needs.
#[derive(Default)]
pub struct SubqueryResult {
    pub rows: Vec<Box<[Value<'static>]>>,
    /// A scalar subquery has several rows. That is an error only where its value is asked for.
    pub has_several_rows: bool,
    /// For IN, where bytes can decide it and there are many rows: the values of the rows.
    pub members: Option<Members>,
    pub bytes: usize,
}
impl SubqueryResult {
    /// The value of a scalar subquery.
    pub fn value(&self) -> Result<&Value<'static>> {
        if self.has_several_rows {
            return Err(SqlError::subquery_many_rows());
        }
        Ok(self.rows.first().map_or(&Value::Null, |row| &row[0]))
    }
}

/// The results of a query's subqueries, by slot.
pub type Results = Vec<Arc<SubqueryResult>>;

/// The outermost subqueries of a statement, in an order in which they can be run. Each finds its
/// own subqueries when it is run.
#[derive(Default)]
pub struct Found<'p> {
    /// By slot: copies of an expression share a subquery.
    seen: HashSet<u16>,
    once: Vec<&'p Subquery>,
    dependent: Vec<&'p Subquery>,
}

impl<'p> Found<'p> {
    pub fn expr(&mut self, e: &'p Expr) {
        match &e.kind {
            ExprKind::Literal(_) | ExprKind::Param(_) | ExprKind::Column { .. } => {}
            ExprKind::Subquery(q) => {
                // What it takes may be the value of another subquery.
                e.parts(&mut |part| self.expr(part));
                if self.seen.insert(q.body.slot) {
                    if q.dependent { self.dependent.push(q) } else { self.once.push(q) }
                }
            }
            _ => e.parts(&mut |part| self.expr(part)),
        }
    }
    pub fn exprs(&mut self, list: &'p [Expr]) {
        list.iter().for_each(|e| self.expr(e));
    }
    pub fn value(&mut self, v: &'p InsertValue) {
        if let InsertValue::Expr(e) = v {
            self.expr(e);
        }
    }
    pub fn access(&mut self, access: &'p TableAccess) {
        self.exprs(access.filter.as_slice());
        access.each_key(&mut |e| self.expr(e));
    }
    pub fn select(&mut self, plan: &'p SelectPlan) {
        plan.each_expr(&mut |e| self.expr(e));
    }

    /// Runs the subqueries that do not depend on rows. `at` has what the query takes from outside.
    pub async fn run(self, cx: &mut ExecContext<'_>, at: Scope<'_>) -> Result<Results> {
        let mut results = Results::new();
        for q in self.once {
            let known = Known { subqueries: &results, ..*at.known };
            let result = Box::pin(run_once(cx, q, Scope { known: &known, ..at })).await?;
            let slot = q.body.slot as usize;
            if results.len() <= slot {
                results.resize_with(slot + 1, Default::default);
            }
            results[slot] = result;
        }
        Ok(results)
    }
    /// [`Self::run`] for a statement that changes rows: derived tables of dependent subqueries are
    /// made before the first change, because they may read the changed table.
    pub async fn run_before_changes(
        self,
        cx: &mut ExecContext<'_>,
        at: Scope<'_>,
    ) -> Result<Results> {
        let mut derived = Vec::new();
        for q in &self.dependent {
            q.body.plan.each_select(false, &mut |select| derived.extend(select.derived()));
        }
        for plan in derived {
            super::rows::make_derived(cx, plan, at).await?;
        }
        self.run(cx, at).await
    }
}

/// The number of rows of the subquery that its test needs.
pub fn wanted(test: &SubqueryTest) -> u64 {
    match test {
        SubqueryTest::Scalar => 2,
        SubqueryTest::Exists => 1,
        SubqueryTest::In { .. } | SubqueryTest::Quantified { .. } => u64::MAX,
    }
}

/// How bytes decide IN; None for other tests.
pub fn members_by(q: &Subquery) -> Option<EqualBy> {
    let SubqueryTest::In { values, .. } = &q.test else { return None };
    let [(value, how)] = &values[..] else { return None };
    EqualBy::of(*how, &value.ty, &q.body.plan.output[0].ty)
}

async fn run_once(
    cx: &mut ExecContext<'_>,
    q: &Subquery,
    at: Scope<'_>,
) -> Result<Arc<SubqueryResult>> {
    let mut outer = Vec::with_capacity(q.outer.len());
    for e in &q.outer {
        outer.push(Eval::new(at, &mut cx.env).eval(e)?.into_owned());
    }
    let known = Known::outside(&outer);
    let inner = Scope { known: &known, ..Scope::new(at.params) };
    if !cx.env.correlated.is_inside() {
        let result = collect(cx, &q.body.plan, inner, wanted(&q.test), members_by(q)).await?;
        return Ok(Arc::new(result));
    }
    let mut key = Vec::new();
    outer.iter().for_each(|v| write(v, &mut key));
    if let Some(kept) = cx.env.correlated.rows_of(&q.body, &key) {
        return Ok(kept);
    }
    let mark = cx.env.held();
    let result = collect(cx, &q.body.plan, inner, wanted(&q.test), members_by(q)).await?;
    let result = Arc::new(result);
    if correlated::keep_rows(cx, &q.body, key, result.clone())? {
        cx.env.release_to(mark);
    }
    Ok(result)
}

/// Runs a subquery. The rows stay charged to the statement.
pub async fn collect(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    most: u64,
    members: Option<EqualBy>,
) -> Result<SubqueryResult> {
    let Collected { mut rows, .. } = super::select::collect(cx, plan, at, most).await?;
    let mut has_several_rows = most == 2 && rows.len() > 1;
    if has_several_rows {
        rows.clear();
    }
    if has_several_rows && cx.env.ignores {
        // As in MySQL, the value is then NULL.
        cx.env.only_warn(SqlError::subquery_many_rows());
        has_several_rows = false;
    }
    let members = match members {
        Some(by) => Members::of(&rows, by, &mut cx.env)?,
        None => None,
    };
    let held = members.as_ref().map_or(0, Members::memory);
    let bytes = held + rows.iter().map(|row| super::row_bytes(row)).sum::<usize>();
    Ok(SubqueryResult { rows, has_several_rows, members, bytes })
}

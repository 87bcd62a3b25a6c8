//! Finds uncorrelated subqueries in a plan, runs each once before the statement that uses it, and
//! keeps the results by slot.
use super::ExecContext;
use super::rows::Collected;
use crate::error::{Result, SqlError};
use crate::plan::{
    AccessKind, Expr, ExprKind, InsertValue, SelectPlan, SourceKind, Subquery, SubqueryTest,
    TableAccess,
};
use redolith_types::Value;

/// The rows of a subquery that its test needs.
#[derive(Clone, Default, Debug)]
pub struct SubqueryResult {
    pub rows: Vec<Box<[Value<'static>]>>,
}

/// The outermost subqueries of a statement. Each finds its own subqueries when it is run.
#[derive(Default)]
pub struct Found<'p> {
    list: Vec<&'p Subquery>,
}

impl<'p> Found<'p> {
    pub fn expr(&mut self, e: &'p Expr) {
        match &e.kind {
            ExprKind::Literal(_) | ExprKind::Param(_) | ExprKind::Column { .. } => {}
            ExprKind::Subquery(q) => {
                self.list.push(q);
                if let SubqueryTest::In { value, .. } = &q.test {
                    self.expr(value);
                }
            }
            ExprKind::Unary(_, v)
            | ExprKind::Cast(v)
            | ExprKind::Hex(v)
            | ExprKind::Collate(v)
            | ExprKind::ConvertTo(v)
            | ExprKind::Member { number: v, .. }
            | ExprKind::AssignUserVariable(_, v)
            | ExprKind::IsNull { value: v, .. }
            | ExprKind::IsTruth { value: v, .. } => self.expr(v),
            ExprKind::Arith { sides, .. }
            | ExprKind::Compare { sides, .. }
            | ExprKind::Like { sides, .. }
            | ExprKind::Regexp { sides, .. }
            | ExprKind::Xor(sides)
            | ExprKind::Interval { sides, .. } => self.exprs(&sides[..]),
            ExprKind::Between { args, .. } => self.exprs(&args[..]),
            ExprKind::In { value, list, .. } => {
                self.expr(value);
                self.exprs(list);
            }
            ExprKind::And(parts) | ExprKind::Or(parts) | ExprKind::Call { args: parts, .. } => {
                self.exprs(parts)
            }
            ExprKind::Case { operand, branches, otherwise, .. } => {
                operand.iter().chain(otherwise).for_each(|e| self.expr(e));
                branches.iter().for_each(|(when, then)| {
                    self.expr(when);
                    self.expr(then);
                });
            }
            ExprKind::GroupKey(_)
            | ExprKind::Aggregate(_)
            | ExprKind::InsertedValue(_)
            | ExprKind::UserVariable(_)
            | ExprKind::SystemVariable { .. } => {}
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
        match &access.path.kind {
            AccessKind::Point(values) => self.exprs(values),
            AccessKind::Ranges(ranges) => {
                for r in ranges {
                    self.exprs(&r.prefix);
                    r.low.iter().chain(&r.high).for_each(|b| self.expr(&b.value));
                }
            }
            AccessKind::Empty | AccessKind::FullScan => {}
        }
    }
    pub fn select(&mut self, plan: &'p SelectPlan) {
        for source in &plan.sources {
            self.exprs(source.on.as_slice());
            self.exprs(source.filter.as_slice());
            if let SourceKind::Table(access) = &source.kind {
                self.access(access);
            }
        }
        self.exprs(plan.condition.as_slice());
        if let Some(g) = &plan.grouping {
            self.exprs(&g.keys);
            g.aggregates.iter().for_each(|a| self.exprs(&a.args));
        }
        self.exprs(plan.having.as_slice());
        self.exprs(&plan.output);
    }

    /// Runs the subqueries. Returns their results by slot.
    pub async fn run(
        self,
        cx: &mut ExecContext<'_>,
        params: &[Value<'_>],
    ) -> Result<Vec<SubqueryResult>> {
        if self.list.is_empty() {
            return Ok(Vec::new());
        }
        let mut results = Vec::new();
        for q in self.list {
            let result = Box::pin(run_one(cx, q, params)).await?;
            let slot = q.slot as usize;
            if results.len() <= slot {
                results.resize(slot + 1, SubqueryResult::default());
            }
            results[slot] = result;
        }
        Ok(results)
    }
}

async fn run_one(
    cx: &mut ExecContext<'_>,
    q: &Subquery,
    params: &[Value<'_>],
) -> Result<SubqueryResult> {
    let most = match q.test {
        SubqueryTest::Scalar => 2,
        SubqueryTest::Exists { .. } => 1,
        SubqueryTest::In { .. } => u64::MAX,
    };
    let Collected { rows, .. } = super::select::collect(cx, &q.plan, params, most).await?;
    if matches!(q.test, SubqueryTest::Scalar) && rows.len() > 1 {
        return Err(SqlError::subquery_many_rows());
    }
    Ok(SubqueryResult { rows })
}

//! The rows of INSERT .. SELECT: they go to the table while the SELECT runs, unless it would meet
//! them.
use super::eval::Scope;
use super::insert::Work;
use super::select::RowTarget;
use super::spool::Spool;
use super::{ExecContext, select};
use crate::error::Result;
use crate::plan::{Expr, SelectPlan, SourceKind, TableAccess};
use redolith_engine::dict::table::Table;
use redolith_engine::progress::Stage;
use redolith_types::Value;
use std::sync::atomic::Ordering::Relaxed;

pub(super) async fn insert_select(
    cx: &mut ExecContext<'_>,
    work: &mut Work<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
) -> Result<()> {
    work.multiple = true;
    cx.env.session.process.progress.begin(Stage::Inserting, expected_rows(plan));
    if !reads(plan, work.plan.table.engine()) {
        let mut batch = Batch { work, rows: Spool::default(), exprs: &plan.output, at };
        let params = Scope::new(at.params);
        return select::give_to(cx, plan, params, u64::MAX, &mut batch).await.map(drop);
    }
    // The SELECT must not meet the rows that the statement inserts.
    let (mut rows, mark) = (Spool::default(), cx.env.held());
    select::give_to(cx, plan, Scope::new(at.params), u64::MAX, &mut rows).await?;
    rows.rewind();
    cx.env.keep(&mut 0, rows.memory())?;
    work.selected(cx, &mut rows, &plan.output, at).await?;
    cx.env.release_to(mark);
    if rows.is_in_file() {
        // To free a large file takes long.
        cx.env.be_heavy();
    }
    Ok(())
}

/// The rows that the SELECT gives, as far as a look at it tells; 0 if that is unknown.
fn expected_rows(plan: &SelectPlan) -> u64 {
    match &plan.sources[..] {
        [source] if plan.condition.is_none() && plan.grouping.is_none() && !plan.distinct => {
            match &source.kind {
                SourceKind::Table(access) => {
                    access.table.engine().rows.load(Relaxed).try_into().unwrap_or(0)
                }
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Whether rows of the table may come into the SELECT one by one, while it runs.
fn reads(plan: &SelectPlan, table: &Table) -> bool {
    let is_target = |access: &TableAccess| access.table.engine().id == table.id;
    // Dependent subqueries, and what they read, are run while the rows come.
    let mut later = false;
    plan.each_expr(&mut |e| {
        e.each_subquery(&mut |q| {
            let select = &q.body.plan;
            select.each_select(true, &mut |inner| {
                later |= q.dependent && inner.reads_directly(&is_target);
            });
        });
    });
    later
        || plan.sources.iter().any(|source| match &source.kind {
            SourceKind::Table(access) => is_target(access),
            // A part is made, with its derived tables and subqueries, when the part before ends.
            SourceKind::Union(_) => true,
            SourceKind::Lateral { plan, .. } => plan.reads_directly(&is_target),
            // Their rows are made before the first row of the SELECT.
            _ => false,
        })
}

/// Rows of INSERT .. SELECT on their way from the SELECT to the table. There are never many of them
/// in memory, however many rows the SELECT has.
struct Batch<'w, 'p> {
    work: &'w mut Work<'p>,
    rows: Spool,
    exprs: &'w [Expr],
    at: Scope<'w>,
}
impl Batch<'_, '_> {
    const MOST_ROWS: u64 = 1024;
    const MOST_BYTES: usize = 256 << 10;
}
impl RowTarget for Batch<'_, '_> {
    fn row(&mut self, values: &[Value<'_>]) {
        self.rows.row(values);
    }
    fn expect(&mut self, _: usize) {}
    fn held(&self) -> usize {
        self.rows.memory() + self.work.pending.as_ref().map_or(0, |p| p.memory())
    }
    fn wants_drain(&self) -> bool {
        self.rows.rows() >= Self::MOST_ROWS || self.rows.bytes() >= Self::MOST_BYTES
    }
    async fn drain(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        self.rows.check()?;
        self.work.selected(cx, &mut self.rows, self.exprs, self.at).await?;
        self.rows.clear();
        Ok(())
    }
}

//! Runs DELETE.
use super::ExecContext;
use super::eval::{Known, Scope};
use super::insert::Rewriter;
use super::rows_to_change::RowsToChange;
use super::scan::Scan;
use super::subquery::Found;
use super::update::limit;
use crate::error::Result;
use crate::plan::DeletePlan;
use crate::session_state::{Done, Outcome};
use redolith_types::Value;

pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &DeletePlan,
    params: &[Value<'_>],
) -> Result<Outcome> {
    cx.env.begin_changes(plan.ignore);
    let mut found = Found::default();
    found.access(&plan.access);
    found.exprs(&plan.sort.exprs);
    let subqueries = found.run_before_changes(cx, Scope::new(params)).await?;
    let known = Known::results(&subqueries);
    let at = Scope { known: &known, ..Scope::new(params) };
    let most = limit(&plan.limit, at, &mut cx.env)?;
    let mut affected = 0;
    if plan.sort.keys.is_empty() {
        let table = plan.access.table.engine();
        let mut scan = Scan::new(&plan.access, cx.trx, cx.env.settings.in_transaction, cx.scratch);
        scan.start(at, &mut cx.env)?;
        while affected < most && scan.next(cx, at).await? {
            scan.fetch_logged(cx).await?;
            cx.scratch.handlers.delete += 1;
            cx.trx.delete(table, scan.at()).await?;
            cx.trx.rows.deleted += 1;
            if let Some(log) = &mut cx.log {
                let memory = &mut cx.env.session.memory;
                log.deleted(&plan.access.table, scan.at(), scan.payload(), memory)?;
            }
            affected += 1;
            if scan.has_only_row() {
                break;
            }
        }
        scan.finish(cx);
    } else {
        affected = Box::pin(sorted(cx, plan, at, most)).await?;
    }
    Ok(Outcome::Done(Done { affected, ..Done::default() }))
}

async fn sorted(
    cx: &mut ExecContext<'_>,
    plan: &DeletePlan,
    at: Scope<'_>,
    most: u64,
) -> Result<u64> {
    let mut rows = RowsToChange::find(cx, &plan.access, &plan.sort, at, most).await?;
    let table = plan.access.table.engine();
    let mut at_row = Rewriter::new(table);
    let mut affected = 0;
    while let Some(key) = rows.next(&mut cx.env)? {
        cx.scratch.handlers.row_by_key();
        if at_row.find_clustered(cx.trx, key).await? {
            at_row.delete(cx, &plan.access.table).await?;
            affected += 1;
        }
    }
    Ok(affected)
}

//! A SELECT that reads the rows of one table and nothing else: it neither sorts nor groups, and its
//! rows need no loops over sources. Most statements of short transactions are of this kind.
use super::ExecContext;
use super::eval::Scope;
use super::scan::{Scan, check_killed};
use super::select::{RowTarget, alone, drain, give_row};
use crate::error::Result;
use crate::plan::{SelectPlan, Source, SourceKind, TableAccess};

/// The table of a SELECT that reads one table and nothing else: no dependent subquery, and no
/// SLEEP() for each row. Its rows need no loops over sources.
pub fn only_table(plan: &SelectPlan) -> Option<&TableAccess> {
    match &plan.sources[..] {
        [
            Source {
                kind: SourceKind::Table(access), lookup: None, filter: None, nest: None, ..
            },
        ] => (!plan.dependent && alone(plan).is_none()).then_some(access),
        _ => None,
    }
}
/// Gives the rows of [`only_table`] to the sink.
pub async fn stream(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    access: &TableAccess,
    at: Scope<'_>,
    (mut skip, count): (u64, u64),
    sink: &mut impl RowTarget,
) -> Result<u64> {
    let mut scan = Scan::new(access, cx.trx, cx.env.settings.in_transaction, cx.scratch);
    scan.expect(skip.saturating_add(count));
    let (mut given, mut sent) = (0, 0);
    let done: Result<()> = async {
        scan.start(at, &mut cx.env)?;
        while given < count && (scan.next_at_hand(cx)? || scan.next(cx, at).await?) {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            given += 1;
            give_row(plan, &[scan.row()], at, &mut cx.env, sink)?;
            if sink.wants_drain() {
                drain(&mut sent, cx, sink).await?;
                check_killed(&cx.env)?;
            }
            if scan.has_only_row() {
                break;
            }
        }
        Ok(())
    }
    .await;
    scan.finish(cx);
    done.map(|()| given)
}

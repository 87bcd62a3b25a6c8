//! EXPLAIN ANALYZE: runs a SELECT under a profile, throws its rows away, and tells what its
//! operators have done.
//!
//! **ANALYZE-1** The statement reads, locks and keeps what it would without EXPLAIN. KILL and time
//! limits end it likewise.
use super::ExecContext;
use super::env::Env;
use super::eval::Scope;
use super::pace::BYTES_PER_STEP;
use super::select::{RowTarget, give_to_boxed};
use crate::error::Result;
use crate::explain::{Meter, Op, Profile, Role, measured};
use crate::plan::SelectPlan;
use crate::session_state::Outcome;
use crate::sink::{ColumnMeta, ResultSink};
use redolith_types::Value;
use std::time::Duration;

/// Takes rows and keeps none.
struct Nowhere;
impl RowTarget for Nowhere {
    fn row(&mut self, _: &[Value<'_>]) {}
    fn row_bytes(&self, _: &[Value<'_>]) -> usize {
        0
    }
    fn expect(&mut self, _: usize) {}
    fn held(&self) -> usize {
        0
    }
    fn wants_drain(&self) -> bool {
        false
    }
    async fn drain(&mut self, _: &mut ExecContext<'_>) -> Result<()> {
        Ok(())
    }
}

impl Meter for Env<'_> {
    fn pay(&mut self, bytes: usize) -> Result<()> {
        self.charge(bytes)?;
        self.steps(bytes / BYTES_PER_STEP + 1)
    }
}

pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    columns: &[ColumnMeta],
    params: &[Value<'_>],
    sink: &mut impl ResultSink,
) -> Result<Outcome> {
    let mut profile = Box::new(Profile::default());
    profile.turn_to(None, cx.env.disk.now());
    cx.env.profile = Some(profile);
    let ran = give_to_boxed(cx, plan, Scope::new(params), u64::MAX, &mut Nowhere).await;
    let profile = cx.env.profile.take().unwrap_or_default();
    ran?;
    let text = measured(plan, &profile, &mut cx.env)?;
    sink.columns(columns).await?;
    let row = [Value::owned(text.into_bytes())];
    cx.env.charge(sink.row_bytes(&row))?;
    sink.expect(sink.row_bytes(&row));
    ResultSink::row(sink, &row);
    ResultSink::drain(sink).await?;
    Ok(Outcome::Rows(1))
}

impl Env<'_> {
    /// The profile of EXPLAIN ANALYZE, and the time.
    #[inline]
    pub(super) fn profile(&mut self) -> Option<(&mut Profile, Duration)> {
        let profile = self.profile.as_deref_mut()?;
        Some((profile, self.disk.now()))
    }
    /// A SELECT begins to make its rows. Returns the operator that waits for them.
    #[inline]
    pub(super) fn begin_select(&mut self, plan: &SelectPlan) -> Option<Op> {
        if self.profile.is_some() { self.begin_profiled(plan) } else { None }
    }
    #[cold]
    fn begin_profiled(&mut self, plan: &SelectPlan) -> Option<Op> {
        let (profile, now) = self.profile()?;
        let roles = [
            (Role::Group, plan.grouping.is_some()),
            (Role::Having, plan.having.is_some()),
            (Role::Distinct, plan.distinct),
            (Role::Sort, !plan.order.is_empty()),
        ];
        for (role, _) in roles.into_iter().filter(|(_, has)| *has) {
            let op = profile.op(role, plan);
            profile.begin(op, now);
        }
        let top = profile.op(Role::Top, plan);
        profile.begin(top, now);
        profile.turn_to(Some(top), now)
    }
    /// The SELECT has given its rows; `around` works again.
    #[inline]
    pub(super) fn end_select(&mut self, plan: &SelectPlan, given: u64, around: Option<Op>) {
        if let Some((profile, now)) = self.profile() {
            let top = profile.op(Role::Top, plan);
            profile.rows(top, given, now);
            profile.turn_to(around, now);
        }
    }
    /// A SELECT puts rows into groups from now on.
    #[inline]
    pub(super) fn groups_rows(&mut self, plan: &SelectPlan) {
        if let Some((profile, now)) = self.profile() {
            let op = profile.op(Role::Group, plan);
            profile.turn_to(Some(op), now);
        }
    }
    /// A SELECT sorts its rows or removes duplicates from now on, or only gives them out.
    #[inline]
    pub(super) fn keeps_rows(&mut self, plan: &SelectPlan) {
        if let Some((profile, now)) = self.profile() {
            let role = match (plan.order.is_empty(), plan.distinct) {
                (false, _) => Role::Sort,
                (true, true) => Role::Distinct,
                (true, false) => Role::Top,
            };
            let op = profile.op(role, plan);
            profile.turn_to(Some(op), now);
        }
    }
    /// An operator of a SELECT has given rows.
    #[inline]
    pub(super) fn gives(&mut self, role: Role, plan: &SelectPlan, rows: u64) {
        if let Some((profile, now)) = self.profile() {
            let op = profile.op(role, plan);
            profile.rows(op, rows, now);
        }
    }
}

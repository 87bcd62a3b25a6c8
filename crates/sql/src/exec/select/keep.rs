//! What stands between the projected rows of a SELECT and its sink: DISTINCT, sorting and LIMIT.
use super::{OUT_OF_RANGE, ROWS_PER_TURN, RowTarget, Values, drain, give, may_be_long};
use crate::error::{Result, SqlError};
use crate::exec::eval::{Eval, Scope};
use crate::exec::late_rows::LateRows;
use crate::exec::row_buffer::{KeySet, read_row, write};
use crate::exec::scan::go_on;
use crate::exec::{Env, ExecContext, sorting, sortkey};
use crate::explain::Role;
use crate::memory::bytes_of;
use crate::plan::{ExprKind, Kind, SelectPlan};
use redolith_engine::runtime::give_way;
use redolith_engine::sort::Sorter;
use redolith_engine::temporary::{begin_record, end_record, take_record};
use redolith_types::Value;

/// DISTINCT, sorting and LIMIT, between the projected rows and the sink.
pub(super) struct Keep<'p> {
    plan: &'p SelectPlan,
    distinct: Option<KeySet>,
    /// The rows whose keys `distinct` has no room for (LATEROW-1).
    late: Option<Box<LateRows>>,
    sorter: Option<Sorter>,
    skip: u64,
    count: u64,
    given: u64,
    /// The number of rows without LIMIT.
    all: u64,
    key: Vec<u8>,
    order_key: Vec<u8>,
    /// The number of late rows, where they are not sorted.
    arrived: u64,
    /// For each output the error that a row to be sorted has had there. A row that LIMIT leaves out
    /// fails nothing, so the sorter keeps such a row with the values before that output, and the
    /// error is raised when the row is given out.
    failed: Vec<Option<SqlError>>,
    /// The bytes charged for the kept rows (`counted`) and for the bytes in the sink (`sent`).
    counted: usize,
    pub(super) sent: usize,
}

/// A row that is to be sorted is copied, and charged when it has its place: is there room for it?
fn may_copy(values: &[Value<'_>], env: &mut Env<'_>) -> Result<()> {
    if !may_be_long(values, env) {
        return Ok(());
    }
    env.session.memory.statement.has_room(values.iter().map(bytes_of).sum())
}
/// The number of rows that a sorter has to keep.
fn sorted_limit(skip: u64, count: u64) -> Option<usize> {
    // A greater limit is not worth the work: then the sorter keeps all rows.
    let first = skip.saturating_add(count);
    (first < 1 << 24).then_some(first.max(1) as usize)
}

impl<'p> Keep<'p> {
    pub(super) fn new(plan: &'p SelectPlan, (skip, count): (u64, u64)) -> Keep<'p> {
        let limit = sorted_limit(skip, count);
        Keep {
            plan,
            distinct: plan.distinct.then(KeySet::default),
            late: None,
            sorter: (!plan.order.is_empty()).then(|| Sorter::new(limit)),
            skip,
            count,
            given: 0,
            all: 0,
            key: Vec::new(),
            order_key: Vec::new(),
            arrived: 0,
            failed: Vec::new(),
            counted: 0,
            sent: 0,
        }
    }
    /// Whether the rows to be sorted have outgrown their memory.
    #[inline]
    pub(super) fn is_large(&self, env: &Env<'_>) -> bool {
        self.sorter.as_ref().is_some_and(|sorter| sorter.bytes() >= env.spill_at())
            || self.late.as_ref().is_some_and(|late| late.sorter.is_large(env))
    }
    /// Moves the rows to be sorted, and late rows, to temporary files.
    pub(super) async fn spill(&mut self, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(late) = &mut self.late {
            late.sorter.spill(cx).await?;
        }
        match &mut self.sorter {
            Some(sorter) => sorting::spill_if_large(cx, sorter, &mut self.counted).await,
            None => Ok(()),
        }
    }
    /// True if no further row would be sent.
    pub(super) fn is_full(&self) -> bool {
        self.sorter.is_none() && self.given == self.count && !self.plan.counts_all
    }
    pub(super) fn row<'v>(
        &mut self,
        at: Scope<'v>,
        plan: &'v SelectPlan,
        env: &mut Env<'_>,
        sink: &mut impl RowTarget,
    ) -> Result<()> {
        let mark = env.held();
        self.take(at, plan, env, sink)?;
        env.release_to(mark);
        self.charge(env)
    }
    fn charge(&mut self, env: &mut Env<'_>) -> Result<()> {
        let memory = self.sorter.as_ref().map_or(0, Sorter::memory)
            + self.distinct.as_ref().map_or(0, KeySet::memory);
        match (&self.distinct, &mut self.late) {
            (_, Some(late)) => late.sorter.charge(env)?,
            (Some(distinct), late) if memory != self.counted => {
                env.keep(&mut self.counted, memory)?;
                *late = LateRows::begin(distinct, env);
            }
            _ => {}
        }
        env.keep(&mut self.counted, memory)
    }
    fn take<'v>(
        &mut self,
        at: Scope<'v>,
        plan: &'v SelectPlan,
        env: &mut Env<'_>,
        sink: &mut impl RowTarget,
    ) -> Result<()> {
        let mut values = Values::new();
        self.project(at, plan, env, &mut values)?;
        if let Some(seen) = &mut self.distinct {
            self.key.clear();
            for (v, e) in values.iter().zip(&plan.output) {
                sortkey::push(v, &e.ty, e.ty.collation, env, &mut self.key)?;
            }
            let is_known = match self.late {
                None => !seen.insert(&self.key).1,
                Some(_) => seen.contains(&self.key),
            };
            if is_known {
                return Ok(());
            }
        }
        match &mut self.sorter {
            Some(sorter) => {
                self.order_key.clear();
                for k in &self.plan.order {
                    let e = &plan.output[k.output as usize];
                    // ENUM and SET are sorted by their numbers.
                    let by_number =
                        matches!(e.kind, ExprKind::Column { .. } | ExprKind::Member { .. })
                            && matches!(e.ty.kind, Kind::Enum | Kind::Set);
                    let mut eval = Eval::new(at, env);
                    let value = match values.get(k.output as usize).filter(|_| !by_number) {
                        Some(v) => v.borrow(),
                        None if by_number => eval.numeric(e)?,
                        None => eval.eval(e)?,
                    };
                    sortkey::push_ordered(
                        &value,
                        &e.ty,
                        k.collation,
                        k.descending,
                        env,
                        &mut self.order_key,
                    )?;
                }
                if self.late.is_none() && sorter.wants(&self.order_key) {
                    may_copy(&values, env)?;
                    sorter
                        .push(&self.order_key, |row| values.iter().for_each(|v| write(v, row)))?;
                }
            }
            // An index may bring the rows in the order that is asked for.
            None if self.late.is_some() => {
                self.order_key.clear();
                self.order_key.extend_from_slice(&self.arrived.to_be_bytes());
                self.arrived += 1;
            }
            None if self.skip > 0 => self.skip -= 1,
            None if self.given < self.count => {
                self.given += 1;
                give(&values, env, sink)?;
            }
            None => {}
        }
        match &mut self.late {
            None => self.all += 1,
            Some(late) => {
                may_copy(&values, env)?;
                late.sorter.push(&self.key, |row| {
                    let start = begin_record(row);
                    row.extend_from_slice(&self.order_key);
                    end_record(row, start);
                    values.iter().for_each(|v| write(v, row));
                })?;
            }
        }
        Ok(())
    }
    /// Sorts the late rows among the others, when all have come. If the others are not sorted, the
    /// late ones follow them in the order in which they came.
    async fn take_late(&mut self, mut late: Box<LateRows>, cx: &mut ExecContext<'_>) -> Result<()> {
        self.distinct = None;
        self.charge(&mut cx.env)?;
        let limit = sorted_limit(self.skip, self.count - self.given);
        let mut sorter = self.sorter.take().unwrap_or_else(|| Sorter::new(limit));
        while late.next(cx).await? {
            self.all += 1;
            let mut row = late.row();
            let order_key = take_record(&mut row).unwrap_or_default();
            if sorter.wants(order_key) {
                sorter.push(order_key, |to| to.extend_from_slice(row))?;
                cx.env.keep(&mut self.counted, sorter.memory())?;
                sorting::spill_if_large(cx, &mut sorter, &mut self.counted).await?;
            }
        }
        self.sorter = Some(sorter);
        Ok(())
    }
    /// Adds the values of a row; of a row to be sorted those before the output that is out of
    /// range.
    fn project<'v>(
        &mut self,
        at: Scope<'v>,
        plan: &'v SelectPlan,
        env: &mut Env<'_>,
        values: &mut Values<'v>,
    ) -> Result<()> {
        let mut eval = Eval::new(at, env);
        let may_fail = self.sorter.is_some() && self.distinct.is_none();
        for (n, e) in plan.output[..plan.visible].iter().enumerate() {
            match eval.output(e) {
                Ok(value) => values.push(value),
                Err(error) if may_fail && error.code == OUT_OF_RANGE => {
                    self.failed.resize(plan.visible, None);
                    self.failed[n].get_or_insert(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    /// The error that a sorted row with this many values has had.
    fn check_sorted(&self, values: usize) -> Result<()> {
        match self.failed.get(values) {
            Some(Some(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }
    /// Sends the sorted rows.
    pub(super) async fn finish(
        mut self,
        cx: &mut ExecContext<'_>,
        sink: &mut impl RowTarget,
    ) -> Result<u64> {
        let (runtime, process) = (cx.trx.engine().runtime.clone(), cx.env.session.process.clone());
        let (runtime, stop) = (&*runtime, || go_on(&process));
        if let Some(late) = self.late.take() {
            Box::pin(self.take_late(late, cx)).await?;
        }
        if let Some(mut sorter) = self.sorter.take() {
            self.distinct = None;
            cx.env.keeps_rows(self.plan);
            sorting::sort(cx, &mut sorter, &mut self.counted).await?;
            let mut rows = 0;
            while self.given < self.count && sorter.advance()? {
                if rows % ROWS_PER_TURN == 0 {
                    give_way(runtime).await;
                    stop()?;
                }
                rows += 1;
                if rows <= self.skip {
                    continue;
                }
                self.given += 1;
                let values = read_row(sorter.row());
                self.check_sorted(values.len())?;
                give(&values, &mut cx.env, sink)?;
                drop(values);
                if sink.wants_drain() {
                    drain(&mut self.sent, cx, sink).await?;
                }
            }
            if sorter.is_in_file() {
                // To free a large file takes long.
                cx.env.be_heavy();
            }
        }
        cx.env.gives(Role::Distinct, self.plan, self.all);
        cx.env.gives(Role::Sort, self.plan, self.given);
        Ok(if self.plan.counts_all { self.all } else { self.given })
    }
}

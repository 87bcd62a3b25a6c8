//! Runs SELECT: rows of FROM ► group ► having ► project ► distinct ► sort ► limit ► sink.
//!
//! Rows stream to the sink if no step has to keep them. Sorting, grouping and DISTINCT each keep
//! their bytes in memory, and beyond their share in temporary files. This memory, the rows of
//! derived tables and the row being sent are charged to the statement's account
//! ([`crate::memory`]).
mod keep;

use super::correlated::answered;
use super::eval::{Eval, Known, Row, Scope};
use super::group::Groups;
use super::loops::Loops;
use super::rows::Collected;
use super::scan::go_on;
use super::subquery::{Found, Results};
use super::{Env, ExecContext, analyze, into_file, one_table, waits};
use crate::error::{Result, SqlError};
use crate::explain::Role;
use crate::memory::bytes_of;
use crate::plan::{Expr, ExprKind, Limit, SelectPlan};
use crate::session_state::{Done, Outcome};
use crate::sink::{ColumnMeta, ResultSink};
use keep::Keep;
use redolith_types::Value;
use smallvec::SmallVec;
use std::future::Future;
use std::pin::Pin;

/// A row with more values, which together have more bytes, is charged before it is sent.
const MANY: usize = 64;
const MUCH: usize = 64 << 10;
/// The number of sorted rows that are sent before other tasks get a turn.
const ROWS_PER_TURN: u64 = 512;

/// ER_DATA_OUT_OF_RANGE.
const OUT_OF_RANGE: u16 = 1690;

/// Goes to the next combination of rows.
macro_rules! next {
    ($loops:expr, $cx:expr, $at:expr) => {
        match $loops.next_at_hand($cx, $at) {
            Some(found) => found,
            None => $loops.next($cx, $at).await?,
        }
    };
}

type Values<'v> = SmallVec<[Value<'v>; 8]>;

pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    columns: &[ColumnMeta],
    params: &[Value<'_>],
    sink: &mut impl ResultSink,
) -> Result<Outcome> {
    if plan.analyzed {
        return Box::pin(analyze::run(cx, plan, columns, params, sink)).await;
    }
    if let Some(into) = &plan.into_file {
        return Box::pin(into_file::run(cx, plan, into, params)).await;
    }
    if !plan.into.is_empty() {
        return Box::pin(select_into(cx, plan, params)).await;
    }
    let at = Scope::new(params);
    let subqueries = subqueries_of(cx, plan, at).await?;
    sink.columns(columns).await?;
    let known = Known { subqueries: &subqueries, ..*at.known };
    let at = Scope { known: &known, ..at };
    Ok(Outcome::Rows(produce(cx, plan, at, u64::MAX, sink).await?))
}

async fn select_into(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    params: &[Value<'_>],
) -> Result<Outcome> {
    let mut kept = Collected::default();
    let found = give_to(cx, plan, Scope::new(params), 2, &mut kept).await?;
    cx.env.keep(&mut 0, kept.bytes())?;
    let mut rows = kept.rows;
    if rows.len() > 1 {
        return Err(SqlError::new(1172, "Result consisted of more than one row"));
    }
    cx.env.session.found_rows = found;
    match rows.pop() {
        None => cx
            .env
            .only_warn(SqlError::new(1329, "No data - zero rows fetched, selected, or processed")),
        Some(row) => {
            for ((name, value), e) in plan.into.iter().zip(row).zip(&plan.output) {
                Eval::new(Scope::new(&[]), &mut cx.env).assign(name, e, value)?;
            }
            return Ok(Outcome::Done(Done { affected: 1, ..Done::default() }));
        }
    }
    Ok(Outcome::Done(Done::default()))
}

/// Where the rows of a SELECT go: to the client, into memory, or into another table.
pub trait RowTarget: Send {
    /// Takes a row.
    fn row(&mut self, values: &[Value<'_>]);
    /// The bytes that the strings of a row take in the target.
    fn row_bytes(&self, values: &[Value<'_>]) -> usize {
        values.iter().map(crate::memory::bytes_of).sum()
    }
    /// Announces that the strings of the next row take `bytes` bytes together.
    fn expect(&mut self, bytes: usize);
    /// The number of bytes that the target holds, for the statement's account.
    fn held(&self) -> usize;
    /// True if the target should be drained before more rows come.
    fn wants_drain(&self) -> bool;
    /// Hands on what the target holds.
    fn drain(&mut self, cx: &mut ExecContext<'_>) -> impl Future<Output = Result<()>> + Send;
}
impl<S: ResultSink> RowTarget for S {
    fn row(&mut self, values: &[Value<'_>]) {
        ResultSink::row(self, values);
    }
    fn row_bytes(&self, values: &[Value<'_>]) -> usize {
        ResultSink::row_bytes(self, values)
    }
    fn expect(&mut self, bytes: usize) {
        ResultSink::expect(self, bytes);
    }
    fn held(&self) -> usize {
        ResultSink::held(self)
    }
    fn wants_drain(&self) -> bool {
        ResultSink::wants_drain(self)
    }
    async fn drain(&mut self, _: &mut ExecContext<'_>) -> Result<()> {
        ResultSink::drain(self).await
    }
}

/// Gives the rows of a SELECT to `target`, at most `most`, and returns their number, or with
/// SQL_CALC_FOUND_ROWS the number of rows without LIMIT. `at` has what the SELECT takes from
/// outside.
pub async fn give_to(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    most: u64,
    target: &mut impl RowTarget,
) -> Result<u64> {
    let mark = cx.env.held();
    let subqueries = subqueries_of(cx, plan, at).await?;
    let known = Known { subqueries: &subqueries, ..*at.known };
    let found = produce(cx, plan, Scope { known: &known, ..at }, most, target).await?;
    // The memory that was needed to make the rows is free again.
    drop(subqueries);
    cx.env.release_to(mark);
    drain(&mut 0, cx, target).await?;
    cx.env.release_to(mark);
    Ok(found)
}

/// Collects the rows of a SELECT, at most `most`.
pub async fn collect(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    most: u64,
) -> Result<Collected> {
    let mut kept = Collected::default();
    give_to(cx, plan, at, most, &mut kept).await?;
    cx.env.keep(&mut 0, kept.bytes())?;
    Ok(kept)
}
/// [`give_to`] for a SELECT inside another: the box makes the recursive future possible.
pub fn give_to_boxed<'f>(
    cx: &'f mut ExecContext<'_>,
    plan: &'f SelectPlan,
    at: Scope<'f>,
    most: u64,
    target: &'f mut impl RowTarget,
) -> Pin<Box<dyn Future<Output = Result<u64>> + Send + 'f>> {
    Box::pin(give_to(cx, plan, at, most, target))
}

async fn subqueries_of(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
) -> Result<Results> {
    let mut found = Found::default();
    found.select(plan);
    found.run(cx, at).await
}

/// The value of a row count in LIMIT.
pub fn limit_value(e: &Expr, at: Scope<'_>, env: &mut Env<'_>) -> Result<u64> {
    match Eval::new(at, env).eval(e)? {
        Value::Int(n) => u64::try_from(n).map_err(|_| SqlError::wrong_arguments("LIMIT")),
        Value::UInt(n) => Ok(n),
        Value::Bytes(text) => {
            let n = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok());
            n.ok_or_else(|| SqlError::wrong_arguments("LIMIT"))
        }
        _ => Err(SqlError::wrong_arguments("LIMIT")),
    }
}
/// Returns the number of rows to skip and the number of rows to send.
pub fn limits(limit: &Limit, at: Scope<'_>, env: &mut Env<'_>) -> Result<(u64, u64)> {
    let skip = limit.offset.as_ref().map_or(Ok(0), |e| limit_value(e, at, env))?;
    let count = limit.count.as_ref().map_or(Ok(u64::MAX), |e| limit_value(e, at, env))?;
    Ok((skip, count))
}

/// Whether a row may be long. It may have no long value, and many.
#[inline]
fn may_be_long(values: &[Value<'_>], env: &Env<'_>) -> bool {
    env.is_heavy() || values.len() > MANY && values.iter().map(bytes_of).sum::<usize>() > MUCH
}
/// Gives a row to the sink. Long values exist twice while the sink writes them.
fn give(values: &[Value<'_>], env: &mut Env<'_>, sink: &mut impl RowTarget) -> Result<()> {
    if !may_be_long(values, env) {
        sink.row(values);
        return Ok(());
    }
    let mark = env.held();
    let bytes = sink.row_bytes(values);
    env.charge(bytes)?;
    sink.expect(bytes);
    sink.row(values);
    env.release_to(mark);
    Ok(())
}
/// Lets the sink send its bytes. The bytes that the sink holds are charged before and after.
pub(super) async fn drain(
    counted: &mut usize,
    cx: &mut ExecContext<'_>,
    sink: &mut impl RowTarget,
) -> Result<()> {
    cx.env.keep(counted, sink.held())?;
    sink.drain(cx).await?;
    cx.env.keep(counted, sink.held())
}

/// Gives the rows of `plan` to the sink, at most `most`. Returns their number, or with
/// SQL_CALC_FOUND_ROWS the number of rows without LIMIT.
async fn produce(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    most: u64,
    sink: &mut impl RowTarget,
) -> Result<u64> {
    let around = cx.env.begin_select(plan);
    let given = produce_rows(cx, plan, at, most, sink).await?;
    cx.env.end_select(plan, given, around);
    Ok(given)
}
async fn produce_rows(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    most: u64,
    sink: &mut impl RowTarget,
) -> Result<u64> {
    let (skip, count) =
        if plan.limit.is_none() { (0, most) } else { limits(&plan.limit, at, &mut cx.env)? };
    let count = count.min(most);
    if let Some(condition) = &plan.condition
        && answered!(cx, at, Eval::new(at, &mut cx.env).truth(condition)) != Some(true)
        && plan.grouping.as_ref().is_none_or(|g| !g.implicit)
    {
        return Ok(0);
    }
    let streams = plan.grouping.is_none() && !plan.distinct && plan.order.is_empty();
    let wanted = match streams && !plan.counts_all {
        true => skip.saturating_add(count),
        false => u64::MAX,
    };
    let is_profiled = cx.env.profile.is_some();
    if let Some(access) =
        one_table::only_table(plan).filter(|_| streams && !plan.counts_all && !is_profiled)
    {
        return one_table::stream(cx, plan, access, at, (skip, count), sink).await;
    }
    let mut loops = Loops::new();
    loops.open(cx, plan, at, wanted).await?;
    loops.at_most(wanted);
    let done = if streams {
        stream(cx, plan, at, (skip, count), &mut loops, sink).await
    } else {
        Box::pin(keep(cx, plan, at, (skip, count), &mut loops, sink)).await
    };
    loops.finish(cx)?;
    done
}

/// The only output of a SELECT, if it waits for each row.
pub(super) fn alone(plan: &SelectPlan) -> Option<waits::Alone<'_>> {
    match &plan.output[..plan.visible] {
        [e] => waits::Alone::of(e),
        _ => None,
    }
}
/// Gives the outputs of a row to the sink.
#[inline]
pub(super) fn give_row(
    plan: &SelectPlan,
    sources: &[Row<'_>],
    at: Scope<'_>,
    env: &mut Env<'_>,
    sink: &mut impl RowTarget,
) -> Result<()> {
    let mark = env.held();
    let mut eval = Eval::new(Scope { sources, ..at }, env);
    let mut values = Values::new();
    for e in &plan.output[..plan.visible] {
        values.push(eval.output(e)?);
    }
    give(&values, eval.env, sink)?;
    env.release_to(mark);
    Ok(())
}
/// Gives the current row to the sink, and runs the dependent subqueries among its outputs.
async fn give_answered(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    loops: &Loops<'_>,
    at: Scope<'_>,
    sink: &mut impl RowTarget,
) -> Result<()> {
    let sources = loops.current();
    let at = Scope { sources: &sources, ..at };
    let mut values = Values::new();
    for e in &plan.output[..plan.visible] {
        values.push(answered!(cx, at, Eval::new(at, &mut cx.env).output(e)));
    }
    give(&values, &mut cx.env, sink)
}

async fn stream(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    (mut skip, count): (u64, u64),
    loops: &mut Loops<'_>,
    sink: &mut impl RowTarget,
) -> Result<u64> {
    let (mut given, mut sent, offset) = (0, 0, skip);
    let alone = alone(plan);
    // A SELECT without FROM returns its row even if its SLEEP() is interrupted.
    cx.env.sleep_answers = plan.sources.is_empty();
    while given < count && next!(loops, cx, at) {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        given += 1;
        let mark = cx.env.held();
        if let Some(alone) = &alone {
            let value = alone.wait(cx, &loops.current(), at).await?;
            sink.row(&[value]);
        } else if plan.dependent {
            Box::pin(give_answered(cx, plan, loops, at, sink)).await?;
        } else {
            loops.with_current(|sources| give_row(plan, sources, at, &mut cx.env, sink))?;
        }
        cx.env.release_to(mark);
        if sink.wants_drain() {
            drain(&mut sent, cx, sink).await?;
            super::scan::check_killed(&cx.env)?;
        }
    }
    cx.env.sleep_answers = false;
    if !plan.counts_all {
        return Ok(given);
    }
    let mut all = offset - skip + given;
    while loops.next(cx, at).await? {
        all += 1;
    }
    Ok(all)
}

async fn keep(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    limits: (u64, u64),
    loops: &mut Loops<'_>,
    sink: &mut impl RowTarget,
) -> Result<u64> {
    let mut kept = Keep::new(plan, limits);
    if limits.1 == 0 && !plan.counts_all {
        return Ok(0);
    }
    let Some(grouping) = &plan.grouping else {
        cx.env.keeps_rows(plan);
        while !kept.is_full() && next!(loops, cx, at) {
            if plan.dependent {
                Box::pin(prepare_row(cx, plan.output.iter(), loops, at)).await?;
            }
            loops.with_current(|sources| {
                kept.row(Scope { sources, ..at }, plan, &mut cx.env, sink)
            })?;
            if kept.is_large(&cx.env) {
                kept.spill(cx).await?;
            }
            if sink.wants_drain() {
                drain(&mut kept.sent, cx, sink).await?;
            }
        }
        return kept.finish(cx, sink).await;
    };
    if is_never_had(plan, at, &mut cx.env)? {
        return Ok(0);
    }
    cx.env.groups_rows(plan);
    let mut groups = Groups::new(grouping, !plan.dependent);
    // If a condition without columns is false, the single group without GROUP BY stays empty.
    let open = match &plan.condition {
        Some(c) => answered!(cx, at, Eval::new(at, &mut cx.env).truth(c)) == Some(true),
        None => true,
    };
    loop {
        if open && !plan.dependent && !grouping.first_row {
            loops.each_at_hand(cx, |sources, env| {
                groups.add(Scope { sources, ..at }, env)?;
                Ok(!groups.has_to_spill(env) && groups.complete() == 0)
            })?;
            if groups.has_to_spill(&cx.env) {
                groups.spill(cx).await?;
            }
            if groups.complete() > 0 {
                give_complete(cx, plan, at, &mut groups, &mut kept, sink).await?;
                if kept.is_full() {
                    return kept.finish(cx, sink).await;
                }
                continue;
            }
        }
        if !open || !next!(loops, cx, at) {
            break;
        }
        if plan.dependent {
            let args = grouping.aggregates.iter().flat_map(|a| &a.args);
            Box::pin(prepare_row(cx, grouping.keys.iter().chain(args), loops, at)).await?;
        }
        loops.with_current(|sources| groups.add(Scope { sources, ..at }, &mut cx.env))?;
        if groups.has_to_spill(&cx.env) {
            groups.spill(cx).await?;
        }
        if grouping.first_row && groups.has_value() {
            break;
        }
    }
    groups.end(cx, at).await?;
    let mut in_memory = 0..groups.len();
    while !kept.is_full() {
        let place = in_memory.next();
        if place.is_none() && !groups.next_late(cx, at).await? {
            break;
        }
        if place.is_some_and(|n| groups.is_late(n)) {
            continue;
        }
        give_group(cx, plan, at, &mut groups, place, &mut kept, sink).await?;
    }
    kept.finish(cx, sink).await
}

/// Gives the groups that are complete while rows still come (GROUP-4).
async fn give_complete(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    groups: &mut Groups<'_>,
    kept: &mut Keep<'_>,
    sink: &mut impl RowTarget,
) -> Result<()> {
    let count = groups.complete();
    for n in 0..count {
        if kept.is_full() {
            break;
        }
        give_group(cx, plan, at, groups, Some(n), kept, sink).await?;
    }
    groups.forget_first(count);
    Ok(())
}
/// Gives a group in memory, or the late group that was collected last.
async fn give_group(
    cx: &mut ExecContext<'_>,
    plan: &SelectPlan,
    at: Scope<'_>,
    groups: &mut Groups<'_>,
    place: Option<usize>,
    kept: &mut Keep<'_>,
    sink: &mut impl RowTarget,
) -> Result<()> {
    cx.trx.give_way().await;
    go_on(&cx.env.session.process)?;
    cx.env.keeps(groups.memory());
    {
        let (keys, aggregates) = match place {
            Some(n) => groups.finish(n, &mut cx.env)?,
            None => groups.finish_late(&mut cx.env)?,
        };
        let known = Known { keys: &keys, aggregates: &aggregates, ..*at.known };
        let at = Scope { known: &known, ..at };
        let having = plan.having.as_ref();
        cx.env.gives(Role::Group, plan, 1);
        if answered!(cx, at, Eval::new(at, &mut cx.env).passes(having)) {
            if plan.dependent {
                Box::pin(prepare(cx, plan.output.iter(), at)).await?;
            }
            cx.env.gives(Role::Having, plan, 1);
            kept.row(at, plan, &mut cx.env, sink)?;
        }
    }
    if kept.is_large(&cx.env) {
        kept.spill(cx).await?;
    }
    if sink.wants_drain() {
        drain(&mut kept.sent, cx, sink).await?;
    }
    Ok(())
}

/// [`prepare`] for the current row. An ordinary statement has nothing of the row in its future.
async fn prepare_row<'p>(
    cx: &mut ExecContext<'_>,
    exprs: impl Iterator<Item = &'p Expr> + Clone,
    loops: &Loops<'_>,
    at: Scope<'_>,
) -> Result<()> {
    let sources = loops.current();
    prepare(cx, exprs, Scope { sources: &sources, ..at }).await
}

/// Runs the dependent subqueries of expressions for a row: what follows cannot stop and begin
/// again. It finds the answers.
///
/// An answer that was kept from an earlier row may be forgotten while the subquery of a later
/// expression is run. Then all expressions are gone through again. This ends, because from the
/// second time on each subquery has its last answer for this row (CORR-1).
async fn prepare<'v, 'p: 'v>(
    cx: &mut ExecContext<'_>,
    exprs: impl Iterator<Item = &'p Expr> + Clone,
    at: Scope<'v>,
) -> Result<()> {
    cx.env.correlated.end_unit();
    loop {
        let forgotten = cx.env.correlated.forgotten();
        for e in exprs.clone().filter(|e| e.has_dependent()) {
            prepare_one(cx, e, at).await?;
        }
        if cx.env.correlated.forgotten() == forgotten {
            return Ok(());
        }
    }
}
async fn prepare_one<'v>(cx: &mut ExecContext<'_>, e: &'v Expr, at: Scope<'v>) -> Result<()> {
    let mark = cx.env.held();
    loop {
        let own = cx.env.session.warnings.count();
        let asked = Eval::new(at, &mut cx.env).eval(e).err();
        if asked.is_none() || cx.env.correlated.is_asked() {
            // The evaluation that counts warns again.
            cx.env.session.warnings.cut_to(own);
        }
        let Some(error) = asked else { break };
        super::correlated::answer(cx, at, error).await?;
    }
    cx.env.release_to(mark);
    Ok(())
}

/// Whether a constant part of HAVING refuses every group: as in MySQL no row is read then, and
/// nothing of the groups is calculated that might fail.
fn is_never_had(plan: &SelectPlan, at: Scope<'_>, env: &mut Env<'_>) -> Result<bool> {
    let Some(having) = &plan.having else { return Ok(false) };
    let parts = match &having.kind {
        ExprKind::And(parts) => &parts[..],
        _ => std::slice::from_ref(having),
    };
    for part in parts.iter().filter(|part| part.is_fixed()) {
        if Eval::new(at, env).truth(part)? != Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

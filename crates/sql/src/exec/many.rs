//! Runs UPDATE and DELETE of several tables: first all joined rows are found, then the targets are
//! changed one after another (MANY-1).
//!
//! What is to be changed goes to a spool for each target, as the row's clustered key and its new
//! values, and so to a file if it is much. The keys that a target has had are in the statement's
//! memory, except those of the outermost loop, whose joined rows follow each other. Rows whose keys
//! have no room there are late (LATEROW-1): a target row may then be calculated from several joined
//! rows, of which the first counts.
use super::correlated::answered;
use super::eval::{Eval, Known, Row, Scope};
use super::insert::Rewriter;
use super::late_rows::LateRows;
use super::long_rows;
use super::loops::Loops;
use super::row_buffer::{KeySet, read_row, write};
use super::scan::check_killed;
use super::select::RowTarget;
use super::spool::Spool;
use super::subquery::Found;
use super::update::{
    Changes, Tally, assign, done, keep_changed, may_become, now_for, write_changes,
};
use super::{ExecContext, generated_columns};
use crate::error::Result;
use crate::plan::{ManyPlan, Target};
use crate::session_state::{Done, Outcome};
use redolith_types::Value;

/// The rows of one target that are to be changed.
struct Rows {
    spool: Spool,
    seen: Seen,
    late: Option<Box<LateRows>>,
    /// The bytes of `seen` and of the spool that are charged.
    counted: usize,
    spooled: usize,
}
/// The keys of the rows that were met (MANY-2).
enum Seen {
    Last(Option<Box<[u8]>>),
    All(KeySet),
}
impl Seen {
    fn is_new(&mut self, key: &[u8]) -> bool {
        match self {
            Seen::Last(Some(last)) if **last == *key => false,
            Seen::Last(last) => {
                *last = Some(key.into());
                true
            }
            Seen::All(keys) => keys.insert(key).1,
        }
    }
    /// Whether a key was met, where no more keys are noted.
    fn contains(&self, key: &[u8]) -> bool {
        matches!(self, Seen::All(keys) if keys.contains(key))
    }
    fn memory(&self) -> usize {
        match self {
            Seen::Last(last) => last.as_ref().map_or(0, |key| key.len()),
            Seen::All(keys) => keys.memory(),
        }
    }
}

pub async fn update(
    cx: &mut ExecContext<'_>,
    plan: &ManyPlan,
    params: &[Value<'_>],
) -> Result<Outcome> {
    let warnings = cx.env.session.warnings.count();
    cx.env.begin_changes(plan.ignore);
    let mut tally = Tally::default();
    let mut found = find(cx, plan, params, &mut tally).await?;
    for (n, (target, rows)) in plan.targets.iter().zip(&mut found).enumerate() {
        if let Some(log) = &mut cx.log {
            log.turn_to(n);
        }
        update_rows(cx, plan, target, rows, &mut tally).await?;
    }
    free(cx, found)?;
    let warnings = cx.env.session.warnings.count() - warnings;
    Ok(Outcome::Done(done(&cx.env, &tally, warnings)))
}

pub async fn delete(
    cx: &mut ExecContext<'_>,
    plan: &ManyPlan,
    params: &[Value<'_>],
) -> Result<Outcome> {
    cx.env.begin_changes(plan.ignore);
    let mut found = find(cx, plan, params, &mut Tally::default()).await?;
    let mut affected = 0;
    for (n, (target, rows)) in plan.targets.iter().zip(&mut found).enumerate() {
        if let Some(log) = &mut cx.log {
            log.turn_to(n);
        }
        let mut at_row = Rewriter::new(target.table.engine());
        rows.spool.rewind();
        cx.env.keep(&mut rows.spooled, rows.spool.memory())?;
        while let Some(row) = rows.spool.next()? {
            check_killed(&cx.env)?;
            cx.trx.give_way().await;
            cx.scratch.handlers.row_by_key();
            // A row that another alias of the table has deleted is not there any more.
            let key = row[0].as_bytes().unwrap_or_default();
            if at_row.find_clustered(cx.trx, key).await? {
                at_row.delete(cx, &target.table).await?;
                affected += 1;
            }
        }
    }
    free(cx, found)?;
    Ok(Outcome::Done(Done { affected, ..Done::default() }))
}

/// Frees the spools, beside the workers if they are in files.
fn free(cx: &mut ExecContext<'_>, found: Vec<Rows>) -> Result<()> {
    for mut rows in found {
        if rows.spool.is_in_file() {
            cx.env.be_heavy();
        }
        cx.env.keep(&mut rows.spooled, 0)?;
    }
    Ok(())
}

/// Finds the rows to change: for UPDATE those whose values change.
async fn find(
    cx: &mut ExecContext<'_>,
    plan: &ManyPlan,
    params: &[Value<'_>],
    tally: &mut Tally,
) -> Result<Vec<Rows>> {
    let mut subqueries = Found::default();
    subqueries.select(&plan.select);
    let subqueries = subqueries.run_before_changes(cx, Scope::new(params)).await?;
    let known = Known::results(&subqueries);
    let at = Scope { known: &known, ..Scope::new(params) };
    let mut found: Vec<Rows> = plan
        .targets
        .iter()
        .map(|target| Rows {
            spool: Spool::default(),
            seen: match target.source {
                0 => Seen::Last(None),
                _ => Seen::All(KeySet::default()),
            },
            late: None,
            counted: 0,
            spooled: 0,
        })
        .collect();
    if let Some(condition) = &plan.select.condition
        && answered!(cx, at, Eval::new(at, &mut cx.env).truth(condition)) != Some(true)
    {
        return Ok(found);
    }
    let mut loops = Loops::new();
    loops.open(cx, &plan.select, at, u64::MAX).await?;
    let mut failed = None;
    'rows: while loops.next(cx, at).await? {
        for (target, rows) in plan.targets.iter().zip(&mut found) {
            if let Err(e) = note(cx, &loops, at, target, rows, tally).await {
                failed = Some(e);
                break 'rows;
            }
        }
    }
    loops.finish(cx)?;
    if let Some(e) = failed {
        return Err(e);
    }
    for rows in &mut found {
        // The keys are not needed any more.
        rows.seen = Seen::Last(None);
        cx.env.keep(&mut rows.counted, 0)?;
        if let Some(late) = rows.late.take() {
            Box::pin(take_late(cx, late, &mut rows.spool, &mut rows.spooled, tally)).await?;
        }
    }
    Ok(found)
}

/// Takes the late rows of a target, when all joined rows are found.
async fn take_late(
    cx: &mut ExecContext<'_>,
    mut late: Box<LateRows>,
    spool: &mut Spool,
    spooled: &mut usize,
    tally: &mut Tally,
) -> Result<()> {
    while late.next(cx).await? {
        let mut row = late.row();
        let changes = row.split_off_first().is_some_and(|changes| *changes != 0);
        tally.matched += 1;
        if changes {
            spool.row(&read_row(row));
        }
        if spool.wants_drain() {
            spool.drain(cx).await?;
            cx.env.keep(spooled, spool.memory())?;
        }
    }
    Ok(())
}

/// Notes the target's row of a joined row, if it was not met before.
async fn note(
    cx: &mut ExecContext<'_>,
    loops: &Loops<'_>,
    at: Scope<'_>,
    target: &Target,
    rows: &mut Rows,
    tally: &mut Tally,
) -> Result<()> {
    let Some(row) = loops.at(target.source as usize) else { return Ok(()) };
    if rows.late.is_none() {
        if !rows.seen.is_new(row.key) {
            return Ok(());
        }
        tally.matched += 1;
        cx.env.keep(&mut rows.counted, rows.seen.memory())?;
    } else if rows.seen.contains(row.key) {
        return Ok(());
    }
    let mark = cx.env.held();
    if target.assignments.is_empty() {
        keep_row(rows, row.key, &[Value::bytes(row.key)])?;
    } else {
        cx.env.row = tally.matched.max(1);
        let sources = loops.current();
        let at = Scope { sources: &sources, ..at };
        let source = target.source as usize;
        let changes = answered!(
            cx,
            at,
            assign(&target.table, &target.assignments, source, at, &mut cx.env, true)
        );
        let mut kept = changes.clone();
        keep_changed(&mut kept, sources[source]);
        let mut values: Vec<Value<'_>> = Vec::new();
        if !kept.is_empty() {
            values.push(Value::bytes(row.key));
            values.extend(changes.iter().map(|(_, value)| value.borrow()));
        }
        keep_row(rows, row.key, &values)?;
    }
    cx.env.release_to(mark);
    if let Some(late) = &mut rows.late {
        late.sorter.charge(&mut cx.env)?;
        late.sorter.spill(cx).await?;
    } else if let Seen::All(keys) = &rows.seen {
        rows.late = LateRows::begin(keys, &cx.env);
    }
    if rows.spool.wants_drain() {
        rows.spool.drain(cx).await?;
        cx.env.keep(&mut rows.spooled, rows.spool.memory())?;
    }
    Ok(())
}

/// Keeps what becomes of a row; nothing if its values do not change.
fn keep_row(rows: &mut Rows, key: &[u8], values: &[Value<'_>]) -> Result<()> {
    match &mut rows.late {
        Some(late) => late.sorter.push(key, |row| {
            row.push(u8::from(!values.is_empty()));
            values.iter().for_each(|value| write(value, row));
        })?,
        None if values.is_empty() => {}
        None => rows.spool.row(values),
    }
    Ok(())
}

/// Changes the rows of one target.
async fn update_rows(
    cx: &mut ExecContext<'_>,
    plan: &ManyPlan,
    target: &Target,
    rows: &mut Rows,
    tally: &mut Tally,
) -> Result<()> {
    let (info, table) = (&target.table, target.table.engine());
    // The assigned columns, each once and in the order of the values.
    let mut columns: Vec<usize> = Vec::new();
    for a in &target.assignments {
        if !columns.contains(&(a.column as usize)) {
            columns.push(a.column as usize);
        }
    }
    let mut read: Vec<u16> = columns.iter().map(|c| *c as u16).collect();
    read.extend(target.constraints.iter().flat_map(|c| &c.columns));
    read.extend(target.generated_columns.iter().flat_map(|g| &g.reads));
    read.sort_unstable();
    let mut at_row = Rewriter::new(table);
    rows.spool.rewind();
    cx.env.keep(&mut rows.spooled, rows.spool.memory())?;
    while let Some(values) = rows.spool.next()? {
        check_killed(&cx.env)?;
        cx.trx.give_way().await;
        cx.scratch.handlers.row_by_key();
        let key = values[0].as_bytes().unwrap_or_default();
        if !at_row.find_clustered(cx.trx, key).await? {
            continue;
        }
        let mark = cx.env.held();
        let stored = at_row.row().stored;
        let is_long = long_rows::needs_long(&table.layout, stored, &read)
            || cx.log.as_ref().is_some_and(|log| log.needs_long(&table.layout, stored));
        if is_long {
            Box::pin(at_row.fetch(cx)).await?;
        }
        let row = at_row.row();
        let payload = if is_long { at_row.whole() } else { row.stored };
        let current = Row::Stored { def: &info.def, layout: &table.layout, payload };
        let mut changes: Changes<'_> =
            columns.iter().copied().zip(values[1..].iter().map(Value::borrow)).collect();
        keep_changed(&mut changes, current);
        if !changes.is_empty() {
            for column in &target.on_update_now {
                let ty = &info.def.columns[*column as usize].ty;
                changes.push((*column as usize, now_for(ty, &mut cx.env)));
            }
            if let Some(generated) = &target.generated_columns {
                let env = &mut cx.env;
                generated_columns::recalculate(generated, info, payload, &mut changes, false, env)?;
            }
            let (checks, at) = ((None, target.constraints.as_deref()), Scope::new(&[]));
            if target.constraints.is_none()
                || may_become(cx, info, checks, current, &changes, at, plan.ignore)?
            {
                let changed = write_changes(cx, info, plan.ignore, row, current, changes).await?;
                tally.changed += changed as u64;
            }
        }
        at_row.let_go();
        cx.env.release_to(mark);
    }
    Ok(())
}

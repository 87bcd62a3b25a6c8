//! Runs UPDATE. Rows are changed as they are found. If the scan could meet a changed row again, or
//! if the rows are sorted, all rows are found first and changed then.
use super::correlated::answered;
use super::duplicate_entry::duplicate_entry;
use super::env::Env;
use super::eval::{Eval, Known, Row, Scope};
use super::insert::Rewriter;
use super::long_rows::{self, LONG_ROW};
use super::rows_to_change::RowsToChange;
use super::scan::Scan;
use super::subquery::Found;
use super::{ExecContext, check, column_conversion, generated_columns, select, view_check};
use crate::error::{Result, SqlError};
use crate::plan::{Assignment, Constraints, Limit, UpdatePlan, ViewCheck};
use crate::session_state::{Done, Outcome};
use crate::table_info::TableInfo;
use redolith_engine::Error as EngineError;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::row::update::RowAt;
use redolith_types::convert::to_integer;
use redolith_types::{Column, DateTime, SqlType, Value};
use smallvec::SmallVec;

pub type Changes<'v> = SmallVec<[(usize, Value<'v>); 4]>;

/// The number of rows that an UPDATE has matched and changed.
#[derive(Default)]
pub struct Tally {
    pub matched: u64,
    pub changed: u64,
}

pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &UpdatePlan,
    params: &[Value<'_>],
) -> Result<Outcome> {
    let warnings = cx.env.session.warnings.count();
    cx.env.begin_changes(plan.ignore);
    let mut found = Found::default();
    found.access(&plan.access);
    found.exprs(&plan.sort.exprs);
    plan.assignments.iter().for_each(|a| found.expr(&a.value));
    let subqueries = found.run_before_changes(cx, Scope::new(params)).await?;
    let known = Known::results(&subqueries);
    let at = Scope { known: &known, ..Scope::new(params) };
    let most = limit(&plan.limit, at, &mut cx.env)?;
    let mut tally = Tally::default();
    if plan.collect_first || !plan.sort.keys.is_empty() {
        Box::pin(collected(cx, plan, at, most, &mut tally)).await?;
    } else {
        let mut scan = Scan::new(&plan.access, cx.trx, cx.env.settings.in_transaction, cx.scratch);
        scan.start(at, &mut cx.env)?;
        while tally.matched < most && scan.next(cx, at).await? {
            tally.matched += 1;
            cx.env.row = tally.matched;
            scan.fetch_logged(cx).await?;
            change(cx, plan, scan.at(), scan.row(), at, &mut tally).await?;
            if scan.has_only_row() {
                break;
            }
        }
        scan.finish(cx);
    }
    let warnings = cx.env.session.warnings.count() - warnings;
    Ok(Outcome::Done(done(&cx.env, &tally, warnings)))
}

/// The answer of an UPDATE.
pub fn done(env: &Env<'_>, tally: &Tally, warnings: u64) -> Done {
    let affected = if env.session.found_rows_flag { tally.matched } else { tally.changed };
    let info = match (tally.matched, tally.changed, warnings) {
        // This is the text of most updates; it needs no formatting.
        (1, 1, 0) => "Rows matched: 1  Changed: 1  Warnings: 0".to_string(),
        (matched, changed, warnings) => {
            format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}")
        }
    };
    Done { affected, last_insert_id: env.insert_id.unwrap_or(0), info }
}

/// The greatest number of rows, from LIMIT n.
pub fn limit(limit: &Limit, at: Scope<'_>, env: &mut Env<'_>) -> Result<u64> {
    if limit.is_none() { Ok(u64::MAX) } else { Ok(select::limits(limit, at, env)?.1) }
}

/// Changes `row` if the assignments change a value. `current` is the same row for expressions.
async fn change(
    cx: &mut ExecContext<'_>,
    plan: &UpdatePlan,
    row: RowAt<'_>,
    current: Row<'_>,
    at: Scope<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let mark = cx.env.held();
    let sources = [current];
    let at = Scope { sources: &sources, ..at };
    let info = &plan.access.table;
    let mut changes = answered!(cx, at, changed_columns(plan, at, &mut cx.env));
    if may_keep_long(&changes, current) {
        Box::pin(keep_changed_long(cx, info, row, &mut changes)).await?;
    }
    // The charge for the values ends here; `charge_write` charges for the new row.
    cx.env.release_to(mark);
    if changes.is_empty() {
        return Ok(());
    }
    for column in &plan.on_update_now {
        let ty = &info.def.columns[*column as usize].ty;
        changes.push((*column as usize, now_for(ty, &mut cx.env)));
    }
    if let (Some(generated), Row::Stored { payload, .. }) = (&plan.generated_columns, current) {
        let env = &mut cx.env;
        generated_columns::recalculate(generated, info, payload, &mut changes, false, env)?;
    }
    if plan.check.is_some() || plan.constraints.is_some() {
        let checks = (plan.check.as_deref(), plan.constraints.as_deref());
        if !may_become(cx, info, checks, current, &changes, at, plan.ignore)? {
            cx.env.release_to(mark);
            return Ok(());
        }
    }
    let changed = write_changes(cx, info, plan.ignore, row, current, changes).await?;
    // This is the charge for the values of generated columns.
    cx.env.release_to(mark);
    tally.changed += changed as u64;
    Ok(())
}

/// Whether a row may get new values. Returns false if IGNORE leaves it as it is, with a warning.
/// `current` has the long columns that the conditions read.
pub fn may_become(
    cx: &mut ExecContext<'_>,
    info: &TableInfo,
    (view, constraints): (Option<&ViewCheck>, Option<&Constraints>),
    current: Row<'_>,
    changes: &Changes<'_>,
    at: Scope<'_>,
    ignore: bool,
) -> Result<bool> {
    let Row::Stored { def, layout, payload } = current else { return Ok(true) };
    let mut new = std::mem::take(&mut cx.scratch.row);
    new.clear();
    let mark = cx.env.held();
    let mut passes = |env: &mut Env<'_>| -> Result<bool> {
        let memory = &mut env.session.memory.statement;
        long_rows::update(layout, payload, changes, &mut new, memory)?;
        if new.len() > LONG_ROW {
            env.charge(new.len())?;
        }
        let row = (def, &**info.engine(), &new[..]);
        Ok(match view {
            Some(view) => view_check::passes(view, row, ignore, at, env)?,
            None => true,
        } && match constraints {
            Some(constraints) => check::passes(constraints, row, ignore, env)?,
            None => true,
        })
    };
    let passes = passes(&mut cx.env);
    cx.env.release_to(mark);
    cx.scratch.row = new;
    passes
}

/// Gives a row new values. Returns false if IGNORE has left it as it was. `current` is the row with
/// the long columns that the binary log needs.
pub async fn write_changes(
    cx: &mut ExecContext<'_>,
    info: &TableInfo,
    ignore: bool,
    row: RowAt<'_>,
    current: Row<'_>,
    changes: Changes<'_>,
) -> Result<bool> {
    let mut new = std::mem::take(&mut cx.scratch.row);
    let mark = cx.env.held();
    let done = async {
        let table = info.engine();
        new.clear();
        let memory = &mut cx.env.session.memory.statement;
        long_rows::update(&table.layout, row.stored, &changes, &mut new, memory)?;
        long_rows::charge_write(&table.layout, &new, || moves(table, &changes), memory)?;
        drop(changes);
        cx.scratch.handlers.update += 1;
        match cx.trx.update(table, row, &new).await {
            Ok(()) => {
                cx.trx.rows.updated += 1;
                if let (Some(log), Row::Stored { payload: whole, .. }) = (&mut cx.log, current) {
                    let memory = &mut cx.env.session.memory;
                    log.updated(info, row, whole, &new, memory)?;
                }
                Ok(true)
            }
            Err(e) => refused(e, ignore, info, &new, &mut cx.env).map(|()| false),
        }
    }
    .await;
    cx.env.release_to(mark);
    cx.scratch.row = new;
    done
}
/// True if the changes touch the clustered key. Then the row moves.
pub fn moves(table: &Table, changes: &Changes<'_>) -> bool {
    table.clustered().key.columns().any(|column| changes.iter().any(|(c, _)| *c == column))
}

/// Handles the engine's refusal of a row. The error of a duplicate key shows the key's value;
/// IGNORE turns it into a warning.
#[cold]
pub fn refused(
    e: EngineError,
    ignore: bool,
    table: &TableInfo,
    new: &[u8],
    env: &mut Env<'_>,
) -> Result<()> {
    match e {
        EngineError::DuplicateKey { index_no, .. } => {
            let error = duplicate_entry(table, index_no, new);
            if !ignore {
                return Err(error);
            }
            env.only_warn(error);
            Ok(())
        }
        e => Err(e.into()),
    }
}

/// The columns that an UPDATE assigns and changes in a row, with their new values.
fn changed_columns<'v>(
    plan: &'v UpdatePlan,
    at: Scope<'v>,
    env: &mut Env<'_>,
) -> Result<Changes<'v>> {
    let mut changes = assign(&plan.access.table, &plan.assignments, 0, at, env, true)?;
    keep_changed(&mut changes, at.sources[0]);
    Ok(changes)
}
/// Leaves out columns that already have their new value. A long column stored outside the row
/// counts as changed.
pub fn keep_changed(changes: &mut Changes<'_>, row: Row<'_>) {
    if let Row::Stored { layout, payload, .. } = row {
        changes.retain(|(column, value)| {
            layout.external(payload, *column).is_some() || layout.get(payload, *column) != *value
        });
    }
}

/// Whether a long column stored outside the row may have its new value already: it has the length.
fn may_keep_long(changes: &Changes<'_>, row: Row<'_>) -> bool {
    let Row::Stored { layout, payload, .. } = row else { return false };
    let has_length = |(column, value): &(usize, Value<'_>)| {
        let (Value::Bytes(bytes) | Value::Json(bytes)) = value else { return false };
        layout.external(payload, *column).is_some_and(|(_, len)| len == bytes.len() as u64)
    };
    layout.has_externals(payload) && changes.iter().any(has_length)
}
/// [`keep_changed`] for the long columns, too. They are read for that.
async fn keep_changed_long(
    cx: &mut ExecContext<'_>,
    info: &TableInfo,
    row: RowAt<'_>,
    changes: &mut Changes<'_>,
) -> Result<()> {
    let table = info.engine();
    let mut whole = Rewriter::new(table);
    if whole.find_clustered(cx.trx, row.key).await? && whole.fetch(cx).await? {
        let (def, layout) = (&info.def, &table.layout);
        keep_changed(changes, Row::Stored { def, layout, payload: whole.whole() });
    }
    Ok(())
}

/// The value of CURRENT_TIMESTAMP as a column of type `ty` stores it.
pub fn now_for(ty: &SqlType, env: &mut Env<'_>) -> Value<'static> {
    let us = env.now_us();
    let at = match ty {
        SqlType::Timestamp { .. } => DateTime::from_unix_us(us, 0).unwrap_or_default(),
        _ => env.local(us),
    };
    Value::DateTime(at.truncate(ty.fsp()))
}

/// Evaluates assignments in order and converts the values for their columns. An assignment that
/// reads a column assigned before sees the new value. `source` is the table's row in `at`. If
/// `nulls`, the SQL mode decides about NULL for a NOT NULL column; otherwise such a NULL is an
/// error.
pub fn assign<'v>(
    table: &'v TableInfo,
    assignments: &'v [Assignment],
    source: usize,
    at: Scope<'v>,
    env: &mut Env<'_>,
    nulls: bool,
) -> Result<Changes<'v>> {
    let refused =
        |value: &Value<'_>, column: &Column| !nulls && !column.nullable && value.is_null();
    let named = |e: SqlError| e.in_table(&table.def.name);
    let mut changes = Changes::new();
    for a in assignments {
        let column = &table.def.columns[a.column as usize];
        let e = &a.value;
        let value = if a.reads_assigned && !changes.is_empty() {
            let Row::Stored { def, layout, payload } = at.sources[source] else { continue };
            let mut so_far = Vec::new();
            let memory = &mut env.session.memory.statement;
            long_rows::update(layout, payload, &changes, &mut so_far, memory)?;
            let mut sources: SmallVec<[Row<'_>; 2]> = at.sources.iter().copied().collect();
            sources[source] = Row::Stored { def, layout, payload: &so_far };
            let value = Eval::new(Scope { sources: &sources, ..at }, env).stored(e, &column.ty)?;
            if refused(&value, column) {
                return Err(SqlError::column_cannot_be_null(&column.name));
            }
            column_conversion::convert_given(value, e, column, env).map_err(named)?.into_owned()
        } else {
            let value = Eval::new(at, env).stored(e, &column.ty)?;
            if refused(&value, column) {
                return Err(SqlError::column_cannot_be_null(&column.name));
            }
            column_conversion::convert_given(value, e, column, env).map_err(named)?
        };
        if column.auto_increment
            && let Ok(n) = u64::try_from(to_integer(&value).value)
        {
            table.engine().saw_auto_increment(n);
        }
        match changes.iter_mut().find(|(c, _)| *c == a.column as usize) {
            Some(change) => change.1 = value,
            None => changes.push((a.column as usize, value)),
        }
    }
    Ok(changes)
}

async fn collected(
    cx: &mut ExecContext<'_>,
    plan: &UpdatePlan,
    at: Scope<'_>,
    most: u64,
    tally: &mut Tally,
) -> Result<()> {
    let mut rows = RowsToChange::find(cx, &plan.access, &plan.sort, at, most).await?;
    let table = plan.access.table.engine().clone();
    let mut cursor = Cursor::new(
        table.clone(),
        0,
        Vec::new(),
        None,
        false,
        Read::Locking { mode: Mode::X, conflict: OnConflict::Wait },
    );
    while let Some(key) = rows.next(&mut cx.env)? {
        let mark = cx.env.held();
        tally.matched += 1;
        cx.env.row = tally.matched;
        cx.scratch.handlers.row_by_key();
        cursor.reset(key, None, true);
        if !cursor.next(cx.trx).await? {
            return Err(SqlError::new(
                1032,
                format!("Can't find record in '{}'", plan.access.table.def.name),
            ));
        }
        let (layout, stored) = (&table.layout, cursor.row().stored);
        let is_long = long_rows::needs_long(layout, stored, &plan.access.columns)
            || cx.log.as_ref().is_some_and(|log| log.needs_long(layout, stored));
        if is_long {
            long_rows::fetch(&mut cursor, cx.trx, &mut cx.env.session.memory.statement, &mut 0)
                .await?;
        }
        let row = cursor.row();
        let payload = if is_long { cursor.whole() } else { row.stored };
        let current = Row::Stored { def: &plan.access.table.def, layout: &table.layout, payload };
        change(cx, plan, row, current, at, tally).await?;
        cursor.let_go();
        cx.env.release_to(mark);
    }
    Ok(())
}

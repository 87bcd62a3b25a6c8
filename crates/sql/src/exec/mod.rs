//! Runs plans against the engine.
//!
//! [`run`] is the entry point. It sends columns and rows to the sink and returns the outcome. The
//! session ends an autocommit transaction (with [`commit`]) and sends the OK packet.
//!
//! **EXEC-1** A statement that fails has changed nothing: its changes are rolled back. If the
//! transaction is the victim of a deadlock, the whole transaction is rolled back.
//! **CONST-1** No plan decides whether a constant is an error that is no date where a date is
//! compared with it, or that the comparison's character set lacks. An index is searched for it, and
//! a scan meets it only in rows that other conditions leave: the statement meets it before.
//! **EXEC-2** No evaluation is under way across an `.await`. An evaluation that needs something
//! slow ends, and begins again when it is there ([`correlated`]). Its rows stay meanwhile: only the
//! cursors of the slow thing move.
pub mod admin;
mod aggregate;
mod analyze;
pub mod auto_increment;
mod check;
mod column_conversion;
mod concat_items;
pub(crate) mod correlated;
pub mod ddl;
mod delete;
mod duplicate_entry;
pub mod engine_catalog;
pub mod env;
pub mod eval;
#[cfg(test)]
pub(crate) mod fixture;
mod frame;
mod generated_columns;
pub mod global_read_lock;
mod group;
mod hash_directory;
mod hash_rows;
mod index_union;
mod insert;
mod insert_batch;
mod insert_select;
mod into_file;
pub(crate) mod json_column;
mod json_items;
mod json_table;
mod key_bounds;
mod late_groups;
mod late_rows;
mod late_sorter;
mod lateral;
mod list_tests;
mod load;
pub mod locks;
mod long_rows;
mod loops;
mod many;
mod more_rows;
mod number_bounds;
mod one_table;
mod pace;
mod probe_table;
mod recursion;
mod row_buffer;
mod row_tests;
mod rows;
mod rows_to_change;
pub mod scan;
mod select;
pub(crate) mod server_rows;
pub mod set;
mod set_operation;
pub mod show;
mod sorting;
mod sortkey;
mod spool;
mod stepped_sort;
pub mod subquery;
mod sum;
#[cfg(test)]
mod tests;
mod text_tests;
mod update;
pub mod user_locks;
mod view_check;
mod waits;
pub(crate) use waits::unless_killed;
mod wanted_tables;
mod window;

pub use env::{Env, NoVariables, StatementSettings, Variables};
pub use more_rows::MoreRows;
pub(crate) use pace::BYTES_PER_STEP;
pub(crate) use rows::row_bytes;
pub use scan::{Scratch, go_on};
pub use user_locks::UserLocks;

use crate::binlog::{Capture, Sealed};
use crate::error::{Result, SqlError};
use crate::plan::{Expr, InsertRows, Plan, Statement};
use crate::session_state::{Done, Outcome};
use crate::sink::ResultSink;
use eval::{Eval, Known, Scope};
use redolith_engine::{CommitTicket, Engine, Lsn, Trx};
use redolith_replication::Binlog;
use redolith_types::Value;

/// The context of a statement.
pub struct ExecContext<'a> {
    pub trx: &'a mut Trx,
    pub scratch: &'a mut Scratch,
    pub env: Env<'a>,
    /// The rows of a VALUES list whose literals are not among the parameters (DML-2).
    pub more_rows: Option<MoreRows<'a>>,
    /// Where changed rows are logged. None if the statement is not logged.
    pub log: Option<&'a mut Capture>,
}

/// True if [`run`] runs this plan. The session and [`admin`] run the others.
pub fn runs(plan: &Plan) -> bool {
    matches!(
        plan.body,
        Statement::Select(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::UpdateMany(_)
            | Statement::DeleteMany(_)
            | Statement::Rows(_)
            | Statement::Do(_)
            | Statement::SetVariables(_)
    )
}

/// Runs a statement that reads or changes rows. The caller holds its metadata locks and has checked
/// that the plan is current.
pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &Plan,
    params: &[Value<'_>],
    sink: &mut impl ResultSink,
) -> Result<Outcome> {
    let is_refused = cx.trx.read_only && plan.body.changes_rows();
    if is_refused && !plan.changes_only_temporary() {
        if let Some(log) = &mut cx.log {
            log.roll_back_statement(&mut cx.env.session.memory);
        }
        return Err(SqlError::read_only_transaction());
    }
    cx.trx.begin_statement();
    cx.trx.writes_temporary = is_refused;
    let start = cx.trx.savepoint();
    let outcome = match &plan.body {
        _ if !plan.constants.is_empty()
            && let Err(e) = meet_constants(cx, plan, params) =>
        {
            Err(e)
        }
        Statement::Select(select) => select::run(cx, select, &plan.columns, params, sink).await,
        Statement::Update(update) => update::run(cx, update, params).await,
        Statement::Insert(insert) => match &insert.rows {
            InsertRows::File(load) => Box::pin(load::run(cx, insert, load, params, sink)).await,
            _ => insert::run(cx, insert, params).await,
        },
        Statement::Delete(delete) => delete::run(cx, delete, params).await,
        Statement::UpdateMany(many) => Box::pin(many::update(cx, many, params)).await,
        Statement::DeleteMany(many) => Box::pin(many::delete(cx, many, params)).await,
        Statement::Rows(rows) => {
            sink.columns(&plan.columns).await?;
            run_rows(rows, sink).await
        }
        Statement::Do(exprs) => run_do(cx, exprs, params).await,
        Statement::SetVariables(list) => set_variables(cx, list, params).await,
        other => unreachable!("{other:?} is not run here"),
    };
    cx.trx.count_rows();
    cx.scratch.trim();
    let outcome = match &mut cx.log {
        Some(log) => outcome.and_then(|outcome| log.end_statement().map(|()| outcome)),
        None => outcome,
    };
    let outcome = match outcome {
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(roll_back_statement(cx, start, &error).await.err().unwrap_or(error)),
    };
    cx.trx.release_counter();
    outcome
}

/// Meets the constants of the plan's comparisons (CONST-1).
fn meet_constants(cx: &mut ExecContext<'_>, plan: &Plan, params: &[Value<'_>]) -> Result<()> {
    const NO_SUCH_VALUE: [u16; 4] = [1267, 1270, 1271, 1525];
    let (warnings, mark) = (cx.env.session.warnings.count(), cx.env.held());
    for constant in &plan.constants {
        let met = Eval::new(Scope::new(params), &mut cx.env).eval(constant).err();
        cx.env.release_to(mark);
        if let Some(error) = met.filter(|e| NO_SUCH_VALUE.contains(&e.code)) {
            return Err(error);
        }
    }
    if cx.env.session.warnings.count() > warnings {
        // Their comparisons warn again where they are evaluated.
        cx.env.session.warnings.cut_to(warnings);
    }
    Ok(())
}

/// Sends rows that the plan has (EXPLAIN).
async fn run_rows(rows: &[Vec<Value<'_>>], sink: &mut impl ResultSink) -> Result<Outcome> {
    for row in rows {
        sink.row(row);
        if sink.wants_drain() {
            sink.drain().await?;
        }
    }
    Ok(Outcome::Rows(rows.len() as u64))
}

/// Rolls back a statement that has failed (EXEC-1).
#[cold]
async fn roll_back_statement(
    cx: &mut ExecContext<'_>,
    start: redolith_engine::Savepoint,
    error: &SqlError,
) -> Result<()> {
    if let Some(log) = &mut cx.log {
        log.roll_back_statement(&mut cx.env.session.memory);
    }
    let trx = &mut *cx.trx;
    trx.give_up_table();
    let done = Box::pin(async {
        if error.ends_transaction() { trx.rollback().await } else { trx.rollback_to(start).await }
    });
    Ok(done.await?)
}

/// How far a commit waits for the log: `innodb_flush_log_at_trx_commit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// 1: the commit waits until its log is synced.
    Durable,
    /// 2: the commit waits until its log is written to the file.
    Written,
    /// 0: the commit does not wait.
    No,
}

/// Commits with the transaction's record for the binary log, and waits as far as `flush` says.
/// `stages` is the binary log if commits go through its stages. Returns the end of the commit in
/// the redo log, if it has written any.
pub async fn commit(
    trx: &mut Trx,
    record: Option<(&[u8], Sealed)>,
    flush: Flush,
    stages: Option<&Binlog>,
) -> Result<Option<Lsn>> {
    let (record, sealed) = record.unzip();
    if let (Some(record), Some(binlog)) = (record, stages) {
        return Box::pin(commit_in_stages(trx, record, sealed, binlog)).await;
    }
    let ticket = trx.commit_with(record).await?;
    sealed.into_iter().for_each(Sealed::keep);
    let end = ticket.lsn();
    acknowledged(trx.engine(), ticket, flush).await;
    Ok(end)
}
/// Commits a transaction that shows when the binary log has its events.
#[cold]
async fn commit_in_stages(
    trx: &mut Trx,
    record: &[u8],
    sealed: Option<Sealed>,
    binlog: &Binlog,
) -> Result<Option<Lsn>> {
    let end = trx.place_commit(record).await?;
    sealed.into_iter().for_each(Sealed::keep);
    if let Some(end) = end {
        let kill = trx.locks().kill();
        binlog.pass_stages(trx.engine(), end, &kill).await;
    }
    Ok(trx.finish_commit().lsn())
}
/// Waits until a commit, or a preparation, is as safe as `flush` asks.
pub async fn acknowledged(engine: &Engine, ticket: CommitTicket, flush: Flush) {
    match (flush, ticket.lsn()) {
        (Flush::Durable, Some(_)) => ticket.durable().await,
        (Flush::Written, Some(lsn)) => engine.store.log.wait_written(lsn).await,
        _ => {}
    }
}

/// Rolls back. AUTO_INCREMENT values that rows have taken are not given again, so a rollback that
/// has raised a counter waits for the log like a commit.
pub async fn rollback(trx: &mut Trx, flush: Flush) -> Result<()> {
    trx.rollback().await?;
    let log = &trx.engine().store.log.clone();
    match (flush, trx.take_counter_raised()) {
        (Flush::Durable, Some(lsn)) => log.wait_durable(lsn).await,
        (Flush::Written, Some(lsn)) => log.wait_written(lsn).await,
        _ => {}
    }
    Ok(())
}

/// SET of user variables. As in `set`, all values are there before the first is assigned.
async fn set_variables(
    cx: &mut ExecContext<'_>,
    list: &[(Box<str>, Expr)],
    params: &[Value<'_>],
) -> Result<Outcome> {
    let (mark, mut values) = (cx.env.held(), Vec::with_capacity(list.len()));
    for (_, e) in list {
        let mut found = subquery::Found::default();
        found.expr(e);
        let subqueries = found.run(cx, Scope::new(params)).await?;
        let known = Known::results(&subqueries);
        let scope = Scope { known: &known, ..Scope::new(params) };
        let value = Eval::new(scope, &mut cx.env).eval(e)?.into_owned();
        // All values are held until the last one is there.
        let bytes = size_of::<Value<'_>>() + value.as_bytes().map_or(0, <[u8]>::len);
        cx.env.session.memory.statement.charge(bytes)?;
        values.push(value);
        go_on(&cx.env.session.process)?;
        cx.trx.give_way().await;
    }
    let scope = Scope::new(params);
    for ((name, e), value) in list.iter().zip(values) {
        Eval::new(scope, &mut cx.env).assign(name, e, value)?;
    }
    cx.env.release_to(mark);
    Ok(Outcome::Done(Done::default()))
}

async fn run_do(cx: &mut ExecContext<'_>, exprs: &[Expr], params: &[Value<'_>]) -> Result<Outcome> {
    for e in exprs {
        let mark = cx.env.held();
        // They may read what the expression before has assigned.
        let mut found = subquery::Found::default();
        found.expr(e);
        let subqueries = found.run(cx, Scope::new(params)).await?;
        let known = Known::results(&subqueries);
        let scope = Scope { known: &known, ..Scope::new(params) };
        match waits::Alone::of(e) {
            Some(alone) => drop(alone.wait(cx, &[], scope).await?),
            None => drop(Eval::new(scope, &mut cx.env).eval(e)?),
        }
        cx.env.release_to(mark);
    }
    Ok(Outcome::Done(Done::default()))
}

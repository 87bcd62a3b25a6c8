//! Runs plans against the engine.
//!
//! [`run`] is the way in. It sends columns and rows to the sink, and says what else was done;
//! ending an autocommit transaction and the OK packet are the session's ([`commit`] helps with the
//! former).
//!
//! **EXEC-1** A statement that fails has changed nothing: it is rolled back to where it began; a
//! deadlock's victim is rolled back whole.
//! **EXEC-2** No evaluation is under way across an `.await`: rows and values borrow from cursors
//! that may move then.
pub mod admin;
mod aggregate;
mod column_conversion;
pub mod ddl;
mod delete;
pub mod engine_catalog;
pub mod env;
pub mod eval;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod global_read_lock;
mod group;
mod insert;
mod key_bounds;
pub mod locks;
mod long_rows;
mod more_rows;
mod number_bounds;
mod pace;
mod row_buffer;
mod rows;
pub mod scan;
mod select;
pub(crate) mod server_rows;
pub mod set;
pub mod show;
mod sortkey;
pub mod subquery;
#[cfg(test)]
mod tests;
mod update;
pub mod user_locks;
mod waits;
mod wanted_tables;

pub use env::{Env, NoVariables, StatementSettings, Variables};
pub use more_rows::MoreRows;
pub(crate) use rows::row_bytes;
pub use scan::Scratch;
pub use user_locks::UserLocks;

use crate::error::{Result, SqlError};
use crate::plan::{Expr, Plan, Statement};
use crate::session_state::{Done, Outcome};
use crate::sink::ResultSink;
use eval::{Eval, Scope};
use redolith_engine::Trx;
use redolith_types::Value;

/// What a statement runs in.
pub struct ExecContext<'a> {
    pub trx: &'a mut Trx,
    pub scratch: &'a mut Scratch,
    pub env: Env<'a>,
    /// DML-2: the rows of a text that are not among the parameters.
    pub more_rows: Option<MoreRows<'a>>,
}

/// Whether [`run`] runs it; the rest is the session's, SHOW's and DDL's.
pub fn runs(plan: &Plan) -> bool {
    matches!(
        plan.body,
        Statement::Select(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Rows(_)
            | Statement::Do(_)
    )
}

/// Runs a statement that reads or changes rows. Its metadata locks are held, its plan is current.
pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &Plan,
    params: &[Value<'_>],
    sink: &mut impl ResultSink,
) -> Result<Outcome> {
    if cx.trx.read_only
        && matches!(plan.body, Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_))
    {
        return Err(SqlError::read_only_transaction());
    }
    cx.trx.begin_statement();
    let start = cx.trx.savepoint();
    let outcome = match &plan.body {
        Statement::Select(select) => select::run(cx, select, &plan.columns, params, sink).await,
        Statement::Update(update) => update::run(cx, update, params).await,
        Statement::Insert(insert) => insert::run(cx, insert, params).await,
        Statement::Delete(delete) => delete::run(cx, delete, params).await,
        Statement::Rows(rows) => {
            sink.columns(&plan.columns);
            rows.iter().for_each(|row| sink.row(row));
            Ok(Outcome::Rows(rows.len() as u64))
        }
        Statement::Do(exprs) => run_do(cx, exprs, params).await,
        other => unreachable!("{other:?} is not run here"),
    };
    cx.trx.count_rows();
    cx.scratch.trim();
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            roll_back_statement(cx.trx, start, &error).await?;
            Err(error)
        }
    }
}

/// EXEC-1.
#[cold]
async fn roll_back_statement(
    trx: &mut Trx,
    start: redolith_engine::Savepoint,
    error: &SqlError,
) -> Result<()> {
    let done = Box::pin(async {
        if error.ends_transaction() { trx.rollback().await } else { trx.rollback_to(start).await }
    });
    Ok(done.await?)
}

/// How far a commit is waited for: `innodb_flush_log_at_trx_commit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// 1
    Durable,
    /// 2: written to the file, not synced.
    Written,
    /// 0
    No,
}

/// Commits and waits as far as `flush` says.
pub async fn commit(trx: &mut Trx, flush: Flush) -> Result<()> {
    let ticket = trx.commit().await?;
    match (flush, ticket.lsn()) {
        (Flush::Durable, Some(_)) => ticket.durable().await,
        (Flush::Written, Some(lsn)) => trx.engine().store.log.wait_written(lsn).await,
        _ => {}
    }
    Ok(())
}

/// Rolls back. AUTO_INCREMENT values that rows have had are not given again, so such a rollback
/// waits like a commit.
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

async fn run_do(cx: &mut ExecContext<'_>, exprs: &[Expr], params: &[Value<'_>]) -> Result<Outcome> {
    let mut found = subquery::Found::default();
    for e in exprs {
        found.expr(e);
    }
    let subqueries = found.run(cx, params).await?;
    for e in exprs {
        let mark = cx.env.held();
        let scope = Scope { subqueries: &subqueries, ..Scope::new(params) };
        match waits::Alone::of(e) {
            Some(alone) => drop(alone.wait(cx, &[], scope).await?),
            None => drop(Eval::new(scope, &mut cx.env).eval(e)?),
        }
        cx.env.release_to(mark);
    }
    Ok(Outcome::Done(Done::default()))
}

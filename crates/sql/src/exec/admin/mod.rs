//! Runs statements about the session and the server: SET, SHOW, USE, KILL, LOCK TABLES, maintenance
//! of tables, definitions. [`run`] is the entry point. `exec::run` runs statements about rows; the
//! session runs statements about transactions.
mod binlog;
mod flush;
mod histogram;
mod kill;
mod maintain;
mod purge;
#[cfg(test)]
mod tests;

use super::ddl::{self, DdlContext, Sorting};
use super::env::{Env, StatementSettings};
use super::eval::{Eval, Row, Scope};
use super::locks::{SessionLocks, Wait};
use super::scan::go_on;
use super::server_rows::{self, filtered};
use super::set::{self, NextTransaction, SystemVariables, statement_settings};
use super::show;
use crate::binlog::Definition;
use crate::database::Database;
use crate::error::{Result, SqlError};
use crate::information_schema::{SCHEMA, is_schema};
use crate::plan::{AdminStmt, DdlStmt, Expr, Plan, Statement};
use crate::processes::Processes;
use crate::session_state::{Done, Outcome, SessionState};
use crate::settings::{SessionVars, Settings, Var};
use crate::sink::ResultSink;
use crate::status::Status;
use crate::xa::XaTransactions;
use redolith_engine::Engine;
use redolith_engine::temporary::TemporarySpace;
use redolith_replication::Binlog;
use redolith_types::convert::to_bool;
use redolith_types::{Collation, Value};
use std::sync::Arc;
use std::time::Duration;

/// The context of these statements.
pub struct AdminContext<'a> {
    pub engine: &'a Arc<Engine>,
    /// What expressions may ask for: user locks, and the binary log's positions. None in tests.
    pub database: Option<&'a Database>,
    pub binlog: Option<&'a Arc<Binlog>>,
    pub xa: &'a XaTransactions,
    pub settings: &'a Settings,
    pub status: &'a Status,
    pub processes: &'a Processes,
    /// The temporary files of all statements.
    pub temporary: Option<&'a Arc<TemporarySpace>>,
    pub session: &'a mut SessionState,
    pub vars: &'a mut SessionVars,
    pub locks: &'a mut SessionLocks,
    pub next: &'a mut NextTransaction,
    /// A transaction is open (BEGIN, or autocommit off and a statement has run).
    pub in_transaction: bool,
    /// The collation of string parameters, and the numbers of those that are bytes, as
    /// [`Env`] has them.
    pub parameters: Collation,
    pub binary_params: &'a [u32],
    /// Where a definition is logged; None if it is not.
    pub log: Option<Definition<'a>>,
}

/// The result of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ran {
    Done(Outcome),
    /// The statement is done, and the session must commit the open transaction now (SET autocommit
    /// = 1, UNLOCK TABLES).
    Commit(Outcome),
    /// Nothing was done, because another session has changed a table since the plan was made. Bind
    /// again.
    Stale,
}

/// True if [`run`] runs this plan.
pub fn runs(plan: &Plan) -> bool {
    matches!(
        plan.body,
        Statement::Show(_)
            | Statement::Set(_)
            | Statement::Use(_)
            | Statement::Kill { .. }
            | Statement::Admin(_)
            | Statement::PurgeLogsBefore(_)
            | Statement::Ddl(_)
            | Statement::Nothing
    )
}

/// Runs a statement. If the plan [commits implicitly](Plan::commits_implicitly), the session must
/// have ended its transaction. `bound_at` is `engine.dict.version()` from before the statement was
/// bound.
pub async fn run(
    cx: &mut AdminContext<'_>,
    plan: &Plan,
    params: &[Value<'_>],
    bound_at: u64,
    sink: &mut impl ResultSink,
) -> Result<Ran> {
    let done = |done: Done| Ran::Done(Outcome::Done(done));
    Ok(match &plan.body {
        Statement::Show(stmt) => Ran::Done(show::run(cx, stmt, &plan.columns, params, sink).await?),
        Statement::Set(items) => {
            let commit = set::run(cx, items, params)?;
            binlog::change_options(cx, items).await?;
            let outcome = Outcome::Done(Done::default());
            if commit { Ran::Commit(outcome) } else { Ran::Done(outcome) }
        }
        Statement::Use(schema) => done(use_schema(cx.engine, cx.session, cx.vars, schema)?),
        Statement::Kill { id, query_only } => done(kill::run(cx, id, *query_only, params)?),
        Statement::Ddl(stmt) => {
            let ddl = match stmt {
                DdlStmt::CreateView(create) => {
                    ddl::create_view(&mut cx.ddl(), create, plan).await?
                }
                stmt => {
                    let schema = cx.session.schema.clone();
                    let done = ddl::run(&mut cx.ddl(), stmt, bound_at).await?;
                    cx.follow_database(stmt, schema.as_deref());
                    done
                }
            };
            ddl.map_or(Ran::Stale, done)
        }
        Statement::Admin(AdminStmt::UnlockTables) => {
            let outcome = Outcome::Done(Done::default());
            cx.locks.unlock_everything();
            if cx.locks.has_locked_tables() {
                // The locks of LOCK TABLES end with the transaction.
                cx.locks.unlock_tables_at_end();
                Ran::Commit(outcome)
            } else {
                Ran::Done(outcome)
            }
        }
        Statement::Admin(AdminStmt::LockTables(tables)) => {
            let (wait, engine) = (cx.wait(), cx.engine);
            cx.locks.lock_tables(engine, tables, wait.on(engine)).await?;
            done(Done::default())
        }
        Statement::Admin(AdminStmt::Flush(what)) => done(flush::run(cx, what).await?),
        Statement::Admin(AdminStmt::ResetMaster(first)) => done(binlog::reset(cx, *first).await?),
        Statement::Admin(AdminStmt::PurgeLogsTo(file)) => done(purge::to(cx, file).await?),
        Statement::PurgeLogsBefore(seconds) => {
            let time = cx.eval(seconds, params, &[])?;
            done(purge::before(cx, &time).await?)
        }
        Statement::Admin(AdminStmt::Histogram { tables, columns, buckets }) => {
            let asked = histogram::Asked { tables, columns, buckets: *buckets };
            Ran::Done(Outcome::Rows(histogram::run(cx, asked, &plan.columns, sink).await?))
        }
        Statement::Admin(stmt) => {
            Ran::Done(Outcome::Rows(maintain::run(cx, stmt, &plan.columns, sink).await?))
        }
        Statement::Nothing => done(Done::default()),
        other => unreachable!("{other:?} is not run here"),
    })
}

/// Without a default database, `character_set_database` is that of the server.
pub fn forget_database(vars: &mut SessionVars) {
    vars.store_bits(Var::CollationDatabase, vars.bits(Var::CollationServer));
}

/// Runs USE and COM_INIT_DB.
pub fn use_schema(
    engine: &Engine,
    session: &mut SessionState,
    vars: &mut SessionVars,
    schema: &str,
) -> Result<Done> {
    let (name, collation): (Arc<str>, _) = if is_schema(schema) {
        (SCHEMA.into(), Collation::Utf8mb4GeneralCi)
    } else {
        let record =
            engine.dict.schema(schema).ok_or_else(|| SqlError::unknown_database(schema))?;
        (schema.into(), record.collation)
    };
    session.process.set_schema(Some(name.clone()));
    session.schema = Some(name);
    vars.store_bits(Var::CollationDatabase, collation.id() as u64);
    Ok(Done::default())
}

impl AdminContext<'_> {
    /// `character_set_database` follows changes of the default database, which was `schema`.
    fn follow_database(&mut self, stmt: &DdlStmt, schema: Option<&str>) {
        let (DdlStmt::AlterDatabase { name, .. } | DdlStmt::DropDatabase { name, .. }) = stmt
        else {
            return;
        };
        if schema == Some(&**name) {
            match self.engine.dict.schema(name) {
                Some(record) => {
                    self.vars.store_bits(Var::CollationDatabase, record.collation.id() as u64);
                }
                None => forget_database(self.vars),
            }
        }
    }
    pub(super) fn wait(&self) -> Wait {
        Wait {
            timeout: Duration::from_secs(self.vars.bits(Var::LockWaitTimeout)),
            kill: self.session.process.interrupt.clone(),
        }
    }
    fn ddl(&mut self) -> DdlContext<'_> {
        DdlContext {
            engine: self.engine,
            lock_wait_timeout: Duration::from_secs(self.vars.bits(Var::LockWaitTimeout)),
            server_collation: self
                .vars
                .collation(Var::CollationServer)
                .unwrap_or(Collation::Utf8mb4GeneralCi),
            generates_keys: self.vars.is_on(Var::SqlGenerateInvisiblePrimaryKey),
            session: self.session,
            locks: self.locks,
            sorting: self.temporary.filter(|space| space.is_on()).map(|space| Sorting {
                buffer: self.settings.bits(Var::InnodbSortBufferSize) as usize,
                space,
            }),
            log: self.log.as_ref(),
        }
    }
    /// The value of an expression without a table. `row` is the row of source 0.
    pub(super) fn eval(
        &mut self,
        e: &Expr,
        params: &[Value<'_>],
        row: &[Value<'_>],
    ) -> Result<Value<'static>> {
        self.evaluating(e, |env| {
            let sources = [Row::Values(row)];
            let scope = Scope { sources: &sources, ..Scope::new(params) };
            Ok(Eval::new(scope, env).eval(e)?.into_owned())
        })
    }
    /// The rows for which a condition is true. Each is the row of source 0.
    pub(super) fn filter(
        &mut self,
        condition: &Expr,
        params: &[Value<'_>],
        rows: Vec<server_rows::Row>,
    ) -> Result<Vec<server_rows::Row>> {
        self.evaluating(condition, |env| {
            let mark = env.session.memory.statement.used();
            filtered(rows, |row| {
                go_on(&env.session.process)?;
                let sources = [Row::Values(row)];
                let scope = Scope { sources: &sources, ..Scope::new(params) };
                let passes = to_bool(&Eval::new(scope, env).eval(condition)?).unwrap_or(false);
                env.session.memory.statement.release_to(mark);
                Ok(passes)
            })
        })
    }
    /// Calls `f` with an environment in which `e` can be evaluated.
    fn evaluating<T>(&mut self, e: &Expr, f: impl FnOnce(&mut Env<'_>) -> Result<T>) -> Result<T> {
        if e.has_subquery() {
            return Err(SqlError::unsupported("subqueries in SHOW, KILL and SET with settings"));
        }
        let disk = &*self.engine.disk;
        let settings = StatementSettings {
            parameters: self.parameters,
            ..statement_settings(self.vars, self.in_transaction)
        };
        let variables = SystemVariables { settings: self.settings, vars: self.vars, disk };
        let mut env = Env::new(self.session, &variables, disk, settings);
        env.runtime = Some(&*self.engine.runtime);
        env.database = self.database;
        env.user_locks = self.database.map(|database| &database.user_locks);
        env.binary_params = self.binary_params;
        f(&mut env)
    }
}

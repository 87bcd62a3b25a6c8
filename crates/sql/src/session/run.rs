//! Runs statements: locks, transaction, the executor, the answer.
use super::Session;
use super::state::{Done, Level, Outcome};
use super::variables::{SystemVariables, flush_of};
use crate::error::SqlError;
use crate::exec::ddl::DdlContext;
use crate::exec::{self, Env, ExecContext};
use crate::parse::lift::Lifted;
use crate::plan::{Plan, ShowKind, Statement};
use crate::processes::Kill;
use crate::settings::Var;
use crate::sink::{OkInfo, ResultSink, StatusFlags};
use redolith_engine::dict::mdl::{MdlMode, MdlWait};
use redolith_types::{Charset, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// How a run ends that did not succeed.
pub(super) enum Failure {
    /// SES-2: a table has changed since the plan was made; nothing was sent or done.
    Stale,
    Error(SqlError),
}
impl<E: Into<SqlError>> From<E> for Failure {
    fn from(e: E) -> Failure {
        Failure::Error(e.into())
    }
}
type Ran<T> = Result<T, Failure>;

impl Session {
    pub(super) async fn run_text(&mut self, text: &[u8], out: &mut impl ResultSink) {
        let text = self.in_utf8(text);
        let mut lifted = std::mem::take(&mut self.lifted);
        let mut next = Some(0);
        while let Some(start) = next {
            lifted.read(&text, start, self.derived.exec.sql_mode);
            next = lifted.next;
            if let Err(e) = self.run_statement(&text, start, &lifted, out).await {
                self.failed(&e);
                out.error(&e);
                break;
            }
        }
        lifted.trim(super::KEPT_TEXT_BYTES);
        self.lifted = lifted;
    }

    /// The statement in UTF-8; the client may speak latin1.
    fn in_utf8<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        match self.derived.client_charset {
            Some(charset) if !text.is_ascii() => charset.convert_lossy(text, Charset::Utf8mb4),
            _ => Cow::Borrowed(text),
        }
    }

    async fn run_statement(&mut self, text: &[u8], start: usize, lifted: &Lifted, out: &mut impl ResultSink) -> Result<(), SqlError> {
        if let Some(next) = lifted.next
            && !self.multi_statements
        {
            let line = 1 + text[..next].iter().filter(|b| **b == b'\n').count();
            return Err(SqlError::syntax(String::from_utf8_lossy(&text[next..]).trim_start(), line));
        }
        loop {
            let plan = self.text_plan(text, start, lifted).await?;
            let literals = if plan.params > 0 { self.literals(text, lifted)? } else { Default::default() };
            match &plan.body {
                Statement::Execute { name, using } => {
                    self.state.warnings.clear();
                    return self.execute_named(name, using, out).await;
                }
                Statement::Prepare { name, text } => {
                    let text = self.evaluate(text).await?;
                    self.prepare_named(name, &text.to_bytes()).await?;
                    self.answer(Outcome::Done(Done::default()), lifted.next.is_some(), out);
                    return Ok(());
                }
                _ => {}
            }
            match self.run(&plan, &literals, lifted.next.is_some(), out).await {
                Ok(()) => return Ok(()),
                Err(Failure::Error(e)) => return Err(e),
                Err(Failure::Stale) => {}
            }
        }
    }

    /// Runs a plan and answers. `more`: another statement follows in the text.
    pub(super) async fn run(&mut self, plan: &Arc<Plan>, params: &[Value<'_>], more: bool, out: &mut impl ResultSink) -> Ran<()> {
        self.db.status.counters.add(super::count::counter(&plan.body), 1);
        if !keeps_warnings(&plan.body) {
            self.state.warnings.clear();
        }
        let outcome = if exec::runs(plan) { self.run_rows(plan, params, out).await? } else { self.run_other(plan, params, out).await? };
        self.answer(outcome, more, out);
        Ok(())
    }

    fn answer(&mut self, outcome: Outcome, more: bool, out: &mut impl ResultSink) {
        let mut status = self.status();
        status.set(StatusFlags::MORE_RESULTS, more);
        let warnings = self.state.warnings.count_u16();
        match outcome {
            Outcome::Rows(rows) => {
                self.state.found_rows = rows;
                self.state.row_count = -1;
                out.finish_rows(&OkInfo { warnings, status, ..OkInfo::default() });
            }
            Outcome::Done(done) => {
                self.state.row_count = done.affected as i64;
                out.ok(&OkInfo { affected: done.affected, last_insert_id: done.last_insert_id, warnings, status, info: done.info });
            }
        }
    }

    /// A statement has failed: SHOW WARNINGS tells it again.
    pub(super) fn failed(&mut self, e: &SqlError) {
        self.state.row_count = -1;
        self.state.warnings.push(Level::Error, e.code, e.message.clone());
    }

    /// SELECT, INSERT, UPDATE, DELETE, DO: in the open transaction, or in one of its own.
    async fn run_rows(&mut self, plan: &Arc<Plan>, params: &[Value<'_>], out: &mut impl ResultSink) -> Ran<Outcome> {
        if !self.transaction.active {
            self.begin_engine_transaction(None);
            self.transaction.active = !self.derived.autocommit && !plan.tables.is_empty();
        }
        let goes_on = self.transaction.active;
        let locked = self.lock_tables_of(plan).await;
        let ran = match locked {
            Ok(()) => {
                let (mut cx, plan) = (self.exec_context(), &**plan);
                exec::run(&mut cx, plan, params, out).await.map_err(Failure::from)
            }
            Err(failure) => Err(failure),
        };
        match &ran {
            _ if !goes_on => self.end_autocommit(ran.is_ok()).await?,
            // EXEC-1: the executor has rolled the whole transaction back.
            Err(Failure::Error(e)) if e.ends_transaction() => {
                self.trx.rollback().await?;
                self.ended();
            }
            _ => {}
        }
        ran
    }

    /// The end of a statement that is a transaction of its own.
    async fn end_autocommit(&mut self, commits: bool) -> Result<(), SqlError> {
        let ended = if commits { exec::commit(&mut self.trx, flush_of(&self.db.settings)).await } else { Ok(self.trx.rollback().await?) };
        self.locks.end_transaction();
        ended
    }

    pub(super) fn exec_context(&mut self) -> ExecContextOf<'_> {
        let mut settings = self.derived.exec;
        settings.in_transaction = self.transaction.active;
        ExecContextOf { session: self, settings }
    }

    /// SES-2: the metadata locks of a plan's tables, then: are they what the plan was made for?
    #[inline]
    async fn lock_tables_of(&mut self, plan: &Plan) -> Ran<()> {
        for used in &plan.tables {
            let table = used.table.engine();
            self.locks.check(&used.table.def.schema, &used.table.def.name, used.write)?;
            let mode = if used.write { MdlMode::Write } else { MdlMode::Read };
            if !self.locks.mdl.try_lock(&table.mdl, mode) {
                let wait = MdlWait { host: &self.db.engine.host, timeout: self.derived.lock_timeout, kill: &self.kill };
                self.locks.mdl.lock(&table.mdl, mode, wait).await?;
            }
        }
        if plan.is_current() { Ok(()) } else { Err(Failure::Stale) }
    }

    async fn run_other(&mut self, plan: &Arc<Plan>, params: &[Value<'_>], out: &mut impl ResultSink) -> Ran<Outcome> {
        if plan.commits_implicitly() {
            self.commit_open().await?;
        }
        let done = match &plan.body {
            Statement::Transaction(t) => self.run_transaction(t).await?,
            Statement::Set(items) => {
                self.run_set(items).await?;
                Done::default()
            }
            Statement::Use(name) => {
                self.use_schema(name)?;
                Done::default()
            }
            Statement::Kill { id, query_only } => {
                self.run_kill(id, *query_only, params).await?;
                Done::default()
            }
            Statement::Deallocate(name) => {
                self.deallocate(name)?;
                Done::default()
            }
            Statement::Ddl(statement) => {
                let bound_at = self.bound_at;
                let mut cx = DdlContext {
                    engine: &self.db.engine,
                    session: &mut self.state,
                    locks: &mut self.locks,
                    kill: &self.kill,
                    lock_wait_timeout: self.derived.lock_timeout,
                    server_collation: self.db.settings.collation(Var::CollationServer),
                };
                match exec::ddl::run(&mut cx, statement, bound_at).await? {
                    Some(done) => {
                        self.forget_dropped_schema();
                        done
                    }
                    None => return Err(Failure::Stale),
                }
            }
            Statement::Show(_) | Statement::Admin(_) => return self.run_report(plan, out).await,
            Statement::Nothing => Done::default(),
            Statement::Prepare { .. } | Statement::Execute { .. } => return Err(SqlError::not_preparable().into()),
            Statement::Select(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Rows(_) | Statement::Do(_) => {
                unreachable!("run_rows runs it")
            }
        };
        Ok(Outcome::Done(done))
    }

    /// After DROP DATABASE of the default database there is none.
    fn forget_dropped_schema(&mut self) {
        if self.state.schema.as_deref().is_some_and(|s| self.db.engine.dict.schema(s).is_none()) {
            self.set_schema(None);
        }
    }

    async fn run_kill(&mut self, id: &crate::plan::Expr, query_only: bool, params: &[Value<'_>]) -> Result<(), SqlError> {
        debug_assert!(params.is_empty() || id.as_literal().is_none());
        let id = redolith_types::convert::to_u64(&self.evaluate_with(id, params).await?).value;
        let how = if query_only { Kill::Query } else { Kill::Connection };
        let found = u32::try_from(id).is_ok_and(|id| self.db.processes.kill(id, how));
        if found { Ok(()) } else { Err(SqlError::no_such_thread(id)) }
    }
}

/// Statements about the diagnostics of the one before leave them alone.
fn keeps_warnings(body: &Statement) -> bool {
    matches!(
        body,
        Statement::Show(show) if matches!(show.kind, ShowKind::Warnings { .. } | ShowKind::Errors { .. } | ShowKind::CountWarnings | ShowKind::CountErrors)
    )
}

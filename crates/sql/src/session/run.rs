//! Runs a statement: takes its locks, opens the transaction, calls the executor and sends the
//! answer.
use super::Session;
use super::variables::flush_of;
use crate::binlog::{Definition, StatementText};
use crate::error::SqlError;
use crate::exec::admin::{self, AdminContext};
use crate::exec::set::SystemVariables;
use crate::exec::{self, Env, ExecContext, MoreRows, StatementSettings, row_bytes};
use crate::information_schema::is_schema;
use crate::parse::parameterize::Parameterized;
use crate::plan::{DdlStmt, ExprKind, InsertPlan, InsertRows, Plan, ShowKind, Statement};
use crate::processes::Kill;
use crate::session_state::{Done, Level, Outcome};
use crate::settings::Var;
use crate::sink::{Aside, OkInfo, ResultSink, StatusFlags};
use crate::status::{Counter, Handlers};
use redolith_engine::dict::metadata_lock::{MetadataLockMode, MetadataLockWait};
use redolith_engine::runtime::give_way;
use redolith_types::{Charset, Value};
use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// After so many statements of a text, others run.
const STATEMENTS_PER_TURN: usize = 64;
/// From this length of the text on, freeing the plan takes long.
const LARGE_PLAN_BYTES: usize = 256 << 10;

/// The reasons why a run does not succeed.
pub(super) enum Failure {
    /// SES-2: a table has changed since the plan was made. The statement has sent and changed
    /// nothing.
    Stale,
    Error(SqlError),
}
impl From<SqlError> for Failure {
    fn from(e: SqlError) -> Failure {
        Failure::Error(e)
    }
}
impl From<redolith_engine::Error> for Failure {
    fn from(e: redolith_engine::Error) -> Failure {
        Failure::Error(e.into())
    }
}
pub(super) type Ran<T> = Result<T, Failure>;

impl Session {
    pub(super) async fn run_text(&mut self, text: &[u8], out: &mut impl ResultSink) {
        let mut parameterized = std::mem::take(&mut self.parameterized);
        let (mut next, mut statements) = (Some(0), 0);
        while let Some(start) = next {
            // SINK-4
            let mut aside = if statements > 0 { out.set_aside() } else { None };
            let ran = {
                let mut running =
                    pin!(self.run_next(text, start, statements, &mut parameterized, out));
                poll_fn(|cx| match &mut aside {
                    None => running.as_mut().poll(cx),
                    Some(aside) => aside.poll(cx, |cx| running.as_mut().poll(cx)),
                })
                .await
            };
            statements += 1;
            next = self.next_statement(&parameterized);
            if let Err(e) = ran {
                // INFILE-4: the statement holds no locks any more.
                out.end_file().await;
                self.failed(&e);
                out.error(&e);
                break;
            }
        }
        parameterized.trim(super::KEPT_TEXT_BYTES);
        self.state.memory.text.release_to(0);
        self.parameterized = parameterized;
    }

    /// Where the next statement of the text begins.
    fn next_statement(&self, parameterized: &Parameterized) -> Option<usize> {
        parameterized.next.or(parameterized.comment.filter(|_| self.multi_statements))
    }

    /// Runs the statement at `start`, before which the text has had `earlier` others.
    async fn run_next(
        &mut self,
        text: &[u8],
        start: usize,
        earlier: usize,
        parameterized: &mut Parameterized,
        out: &mut impl ResultSink,
    ) -> Result<(), SqlError> {
        let mut ran = Ok(());
        if earlier > 0 {
            // Of short statements, none may give way itself, or look whether it is killed.
            if earlier.is_multiple_of(STATEMENTS_PER_TURN) {
                give_way(&*self.db.engine.runtime).await;
            }
            ran = exec::go_on(&self.state.process);
        }
        ran = ran.and_then(|()| self.parameterize(parameterized, text, start));
        ran = ran.and_then(|()| self.state.memory.text.set(parameterized.bytes()));
        if ran.is_err() {
            self.state.warnings.clear();
        }
        let more = self.next_statement(parameterized).is_some();
        if ran.is_ok() {
            ran = self.run_statement(text, start, parameterized, more, out).await;
        }
        self.state.memory.statement.release_to(0);
        if more {
            out.results_in(self.results_collation());
        }
        if ran.is_ok() && more && out.wants_drain() {
            ran = out.drain().await;
        }
        ran
    }

    /// `more` says that another statement follows in the text.
    async fn run_statement(
        &mut self,
        text: &[u8],
        start: usize,
        parameterized: &Parameterized,
        more: bool,
        out: &mut impl ResultSink,
    ) -> Result<(), SqlError> {
        if let Some(next) = parameterized.next
            && !self.multi_statements
        {
            let line = 1 + text[..next].iter().filter(|b| **b == b'\n').count();
            self.state.warnings.clear();
            return Err(SqlError::syntax(
                self.derived.charsets.shown(&text[next..]).trim_start(),
                line,
            ));
        }
        let mark = self.state.memory.text.used();
        loop {
            let planned = self.text_plan(text, start, parameterized).await;
            if planned.is_err() {
                // The error is the statement's only message.
                self.state.warnings.clear();
            }
            let plan = planned?;
            let literals = if plan.params > 0 {
                self.state.memory.text.charge(self.literal_bytes(parameterized, &plan))?;
                self.literals(text, parameterized, &plan)?
            } else {
                Default::default()
            };
            let more_rows = self.more_rows(text, parameterized, &plan);
            if let Statement::Execute { .. } | Statement::Prepare { .. } = &plan.body {
                // `run` counts the others, and what EXECUTE runs.
                self.count(&plan.body);
            }
            match &plan.body {
                Statement::Execute { name, using } => {
                    self.state.warnings.clear();
                    return self.execute_named(name, using, more, out).await;
                }
                Statement::Prepare { name, text } => {
                    // The text in a user variable has the character set of the variable's value.
                    let (text, charset) = match &text.kind {
                        ExprKind::UserVariable { name: variable, .. } => {
                            match self.state.user_variables.get(variable) {
                                Some(v) => {
                                    self.state
                                        .memory
                                        .statement
                                        .charge(row_bytes(std::slice::from_ref(&v.value)))?;
                                    (v.value.clone(), v.collation.charset())
                                }
                                None => (Value::Null, Charset::Utf8mb4),
                            }
                        }
                        _ => (
                            text.as_literal().cloned().unwrap_or_default(),
                            text.ty.collation.charset(),
                        ),
                    };
                    // As in MySQL, a NULL is prepared as its name, which is no statement.
                    let text =
                        if text.is_null() { Cow::Borrowed(&b"NULL"[..]) } else { text.to_bytes() };
                    self.prepare_named(name, &text, charset).await?;
                    self.answer(Outcome::Done(Done::default()), 0, more, out);
                    return Ok(());
                }
                _ => {}
            }
            let statement = StatementText {
                bytes: &text[start..parameterized.end],
                charset: self.derived.charsets.client,
                prepared: None,
            };
            let ran = self.run(&plan, statement, &literals, more_rows, more, out).await;
            self.work_on(parameterized.shape.len(), LARGE_PLAN_BYTES, || drop((plan, literals)));
            match ran {
                Ok(()) => return Ok(()),
                Err(Failure::Error(e)) => return Err(e),
                Err(Failure::Stale) => self.state.memory.text.release_to(mark),
            }
        }
    }

    /// Runs a plan and sends the answer. `more` says that another statement follows in the text.
    /// The binary log gets `text` if the statement is a definition.
    pub(super) async fn run(
        &mut self,
        plan: &Arc<Plan>,
        text: StatementText<'_>,
        params: &[Value<'_>],
        more_rows: Option<MoreRows<'_>>,
        more: bool,
        out: &mut impl ResultSink,
    ) -> Ran<()> {
        self.count(&plan.body);
        if !keeps_warnings(&plan.body) {
            self.state.warnings.clear();
        }
        let earlier = self.state.warnings.count();
        if let Some(hints) = &plan.hints {
            hints.warnings.iter().for_each(|(code, message)| {
                self.state.warnings.push(Level::Warning, *code, message.clone())
            });
        }
        if self.xa.is_some() {
            self.check_xa(plan)?;
        }
        if self.derived.log.rows_query
            && plan.body.changes_rows()
            && let Some(capture) = &mut self.capture
        {
            capture.set_text(text.bytes, &mut self.state.memory)?;
        }
        let ran = match plan.time_limit_ms(self.derived.max_execution_time_ms) {
            _ if !exec::runs(plan) => self.run_other(plan, text, params, out).await,
            0 => self.run_rows(plan, params, more_rows, None, out).await,
            ms => Box::pin(self.run_limited(plan, params, Duration::from_millis(ms), out)).await,
        };
        if ran.is_err()
            && let Some(capture) = &mut self.capture
        {
            capture.forget_text(&mut self.state.memory);
        }
        self.count_handlers();
        if matches!(ran, Err(Failure::Stale)) {
            self.state.warnings.restart();
        }
        self.count_warnings();
        let outcome = ran?;
        if let Statement::Insert(InsertPlan { rows: InsertRows::File(_), .. }) = &plan.body {
            // The client takes no answer before it has sent its file, whatever of it was read.
            Box::pin(out.end_file()).await;
        }
        self.answer(outcome, earlier, more, out);
        Ok(())
    }

    /// Adds a statement to its Com_* counter.
    #[inline]
    fn count(&self, body: &Statement) {
        self.db.status.counters.add(super::statement_counter::counter(body), 1);
    }

    /// Sends the end of an answer. `earlier` of the session's warnings are of the statement before:
    /// SHOW WARNINGS announces none, since a client may read warnings wherever some are announced.
    fn answer(&mut self, outcome: Outcome, earlier: u64, more: bool, out: &mut impl ResultSink) {
        let mut status = self.status();
        status.set(StatusFlags::MORE_RESULTS, more);
        let warnings = self.state.warnings.count_since(earlier);
        match outcome {
            Outcome::Rows(rows) => {
                self.state.found_rows = rows;
                self.state.row_count = -1;
                out.finish_rows(&OkInfo { warnings, status, ..OkInfo::default() });
            }
            Outcome::Done(done) => {
                self.state.row_count = done.affected as i64;
                out.ok(&OkInfo {
                    affected: done.affected,
                    last_insert_id: done.last_insert_id,
                    warnings,
                    status,
                    info: done.info,
                });
            }
        }
    }

    /// Charges the memory of the warnings, which stay until the next statement. If the charge is
    /// refused, the session keeps only their number, as it does for those beyond `max_error_count`.
    #[inline]
    pub(super) fn count_warnings(&mut self) {
        let (bytes, memory) = (self.state.warnings.bytes(), &mut self.state.memory.warnings);
        if bytes != memory.used() && memory.set(bytes).is_err() {
            self.state.warnings.forget();
            memory.release_to(0);
        }
    }

    /// Records the error of a failed statement, for SHOW WARNINGS.
    pub(super) fn failed(&mut self, e: &SqlError) {
        self.state.row_count = -1;
        self.state.warnings.push(Level::Error, e.code, e.message.clone());
        self.count_warnings();
    }

    /// Adds the statement's requests to the engine to the counts of the session and of the server.
    pub(super) fn count_handlers(&mut self) {
        let counted = std::mem::take(&mut self.scratch.handlers);
        if counted != Handlers::default() {
            self.state.handlers.add(&counted);
            let all = &self.db.status.counters;
            counted.each(|counter, n| {
                if n > 0 {
                    all.add(counter, n);
                }
            });
        }
    }

    /// Runs SELECT, INSERT, UPDATE, DELETE or DO in the open transaction, or in a transaction of
    /// its own.
    pub(super) async fn run_rows(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Value<'_>],
        more_rows: Option<MoreRows<'_>>,
        deadline: Option<Duration>,
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        let ran = self.run_in_transaction(plan, params, more_rows, deadline, out).await;
        self.locks.passes.end_statement();
        ran
    }
    /// Runs a statement that has a time limit (`max_execution_time`). A timer wakes a statement
    /// that waits; a statement that calculates looks at the clock (PACE-2).
    async fn run_limited(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Value<'_>],
        limit: Duration,
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        let (db, process) = (self.db.clone(), self.state.process.clone());
        db.status.counters.add(Counter::MaxExecutionTimeSet, 1);
        let deadline = db.engine.disk.now().saturating_add(limit);
        let mut timer = Some(db.engine.runtime.sleep(limit));
        let mut running = pin!(self.run_rows(plan, params, None, Some(deadline), out));
        let ran = poll_fn(|cx| {
            if timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready()) {
                timer = None;
                process.kill(Kill::Timeout);
            }
            running.as_mut().poll(cx)
        })
        .await;
        if process.killed() != Kill::Timeout {
            return ran;
        }
        // Each further statement of the text has a time limit of its own.
        process.forget_kill_query();
        db.status.counters.add(Counter::MaxExecutionTimeExceeded, 1);
        match ran {
            // The timer may have interrupted any kind of wait.
            Err(Failure::Error(e)) if e.code == SqlError::interrupted().code => {
                Err(SqlError::query_timeout().into())
            }
            ran => ran,
        }
    }
    async fn run_in_transaction(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Value<'_>],
        more_rows: Option<MoreRows<'_>>,
        deadline: Option<Duration>,
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        let next = self.transaction.next;
        if !self.transaction.active {
            self.begin_engine_transaction(None);
            self.transaction.active = !self.derived.autocommit && !plan.tables.is_empty();
        }
        let goes_on = self.transaction.active;
        self.trx.single_read =
            !goes_on && matches!(&plan.body, Statement::Select(select) if !select.locking);
        let locked = self.lock_tables_of(plan).await;
        let counted = if goes_on { self.state.memory.count_locks() } else { Ok(()) };
        let ran = match locked.and(counted.map_err(Failure::Error)) {
            Ok(()) => {
                let ran = self.run_in_engine(plan, params, more_rows, deadline, goes_on, out).await;
                ran.map_err(Failure::Error)
            }
            Err(failure) => Err(failure),
        };
        if !plan.tables.is_empty() && !matches!(ran, Err(Failure::Stale)) {
            // A statement within a transaction counts too, because MySQL's engines commit each
            // statement.
            let handlers = &mut self.scratch.handlers;
            (handlers.commit, handlers.rollback) =
                (handlers.commit + ran.is_ok() as u64, handlers.rollback + ran.is_err() as u64);
            self.transaction.used |= goes_on;
        }
        if !goes_on && (plan.tables.is_empty() || matches!(ran, Err(Failure::Stale))) {
            // The characteristics of SET TRANSACTION are for the next transaction that uses a
            // table (TXN-2). A stale statement runs again.
            self.transaction.next = next;
        }
        match &ran {
            _ if !goes_on => self.end_autocommit(ran.is_ok()).await?,
            // EXEC-1: the executor has rolled the whole transaction back.
            Err(Failure::Error(e)) if e.ends_transaction() => {
                self.trx.rollback().await?;
                self.ended();
                if let Some(branch) = &mut self.xa {
                    // XA-4
                    branch.fail(e);
                    self.transaction.active = true;
                }
            }
            _ => {}
        }
        ran
    }

    /// Runs a statement in the engine's transaction. `goes_on` says that the transaction stays
    /// open.
    #[inline]
    pub(super) async fn run_in_engine(
        &mut self,
        plan: &Plan,
        params: &[Value<'_>],
        more_rows: Option<MoreRows<'_>>,
        deadline: Option<Duration>,
        goes_on: bool,
        out: &mut impl ResultSink,
    ) -> Result<Outcome, SqlError> {
        if !plan.tables.is_empty() {
            let written = plan.tables.iter().filter(|used| used.write).count();
            let locks_all = matches!(&plan.body, Statement::Select(select) if select.locking);
            let locked = if locks_all { plan.tables.len() } else { written };
            let vars = &self.vars;
            self.trx.show_statement(plan.tables.len() as u32, locked as u32, || {
                (vars.is_on(Var::UniqueChecks), vars.is_on(Var::ForeignKeyChecks))
            });
        }
        let variables = SystemVariables {
            settings: &self.db.settings,
            vars: &self.vars,
            disk: &*self.db.engine.disk,
        };
        let settings = StatementSettings {
            in_transaction: goes_on,
            parameters: self.param_collation,
            ..self.derived.exec
        };
        let mut cx = ExecContext {
            trx: &mut self.trx,
            scratch: &mut self.scratch,
            env: Env::new(&mut self.state, &variables, &*self.db.engine.disk, settings),
            more_rows,
            log: self.capture.as_deref_mut().filter(|_| self.derived.log.on),
        };
        let env = &mut cx.env;
        env.database = Some(&self.db);
        env.user_locks = Some(&self.db.user_locks);
        env.runtime = Some(&*self.db.engine.runtime);
        env.set_deadline(deadline);
        env.binary_params = &self.binary_params;
        let begun = match &mut cx.log {
            Some(log) => {
                let now_us = env.now_us();
                let (settings, session) = (&self.derived.log, &*env.session);
                log.begin_statement(&plan.body, settings, &self.db, session, now_us)
            }
            None => Ok(()),
        };
        let ran = match begun {
            Ok(()) => exec::run(&mut cx, plan, params, out).await,
            Err(e) => Err(e),
        };
        if goes_on && !plan.tables.is_empty() {
            cx.trx.show_rest();
        }
        let insert_id_taken = cx.env.settings.insert_id != settings.insert_id;
        if insert_id_taken {
            self.vars.store_bits(Var::InsertId, 0);
            self.refresh();
        }
        ran
    }

    /// Commits or rolls back a statement that is a transaction of its own.
    async fn end_autocommit(&mut self, commits: bool) -> Result<(), SqlError> {
        let has_events = self.capture.as_ref().is_some_and(|capture| !capture.is_empty());
        let ended = if commits && !has_events && self.trx.commit_unchanged() {
            Ok(())
        } else if commits {
            self.commit_engine_transaction().await
        } else {
            exec::rollback(&mut self.trx, flush_of(&self.vars, &self.db.settings)).await
        };
        self.forget_events();
        self.locks.end_transaction();
        self.state.memory.forget_transaction();
        ended
    }

    /// SES-2: takes the metadata locks of the plan's tables, then checks that the plan is current.
    #[inline]
    async fn lock_tables_of(&mut self, plan: &Plan) -> Ran<()> {
        for used in &plan.tables {
            let table = used.table.engine();
            if used.table.is_temporary() {
                // TEMPTABLE-7
                self.no_temporary_in_xa()?;
                continue;
            }
            self.locks.check(&used.table.def.schema, &used.table.def.name, used.write)?;
            if let Some(branch) = &mut self.xa {
                branch.uses(table.id, used.write);
            }
            let mode = if used.write { MetadataLockMode::Write } else { MetadataLockMode::Read };
            let wait = MetadataLockWait {
                runtime: &self.db.engine.runtime,
                timeout: self.derived.lock_timeout,
                kill: &self.state.process.interrupt,
            };
            if used.write {
                self.locks.passes.begin_statement(wait).await?;
            }
            if !self.locks.metadata_lock.try_lock(&table.metadata_lock, mode) {
                self.locks.metadata_lock.lock(&table.metadata_lock, mode, wait).await?;
            }
        }
        if !plan.views.is_empty() {
            self.lock_views_of(plan).await?;
        }
        if plan.is_current() { Ok(()) } else { Err(Failure::Stale) }
    }

    /// Takes the metadata locks of the plan's views.
    #[cold]
    async fn lock_views_of(&mut self, plan: &Plan) -> Ran<()> {
        for view in &plan.views {
            self.locks.check(&view.def.def.schema, &view.def.def.name, false)?;
            let wait = MetadataLockWait {
                runtime: &self.db.engine.runtime,
                timeout: self.derived.lock_timeout,
                kill: &self.state.process.interrupt,
            };
            let mode = MetadataLockMode::Read;
            if !self.locks.metadata_lock.try_lock(&view.metadata_lock, mode) {
                self.locks.metadata_lock.lock(&view.metadata_lock, mode, wait).await?;
            }
        }
        Ok(())
    }

    /// Runs a statement that the executor of rows does not run.
    async fn run_other(
        &mut self,
        plan: &Arc<Plan>,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        if let Statement::Ddl(ddl) = &plan.body
            && ddl.is_temporary()
        {
            return Box::pin(self.define_temporary(plan, ddl, text, params, out)).await;
        }
        // A definition commits the open transaction first, READ ONLY or not. Then the session's
        // variable alone counts.
        if matches!(plan.body, Statement::Ddl(_)) && self.derived.read_only {
            self.commit_implicitly().await?;
            return Err(SqlError::read_only_transaction().into());
        }
        let done = match &plan.body {
            Statement::Ddl(DdlStmt::CreateSelect(create)) => {
                return Box::pin(self.create_select(plan, create, text, params, out)).await;
            }
            Statement::Ddl(DdlStmt::Rebuild(rebuild)) => {
                return Box::pin(self.rebuild(plan, rebuild, text, params, out)).await;
            }
            Statement::Transaction(t) => self.run_transaction(t).await?,
            Statement::Xa { verb, xid } => {
                Box::pin(self.run_xa(*verb, xid)).await?;
                Done::default()
            }
            Statement::Deallocate(name) => {
                self.deallocate(name)?;
                Done::default()
            }
            Statement::Prepare { .. } | Statement::Execute { .. } => {
                return Err(SqlError::not_preparable().into());
            }
            _ => return self.administer(plan, text, params, out).await,
        };
        Ok(Outcome::Done(done))
    }

    pub(super) async fn administer(
        &mut self,
        plan: &Arc<Plan>,
        text: StatementText<'_>,
        params: &[Value<'_>],
        out: &mut impl ResultSink,
    ) -> Ran<Outcome> {
        if plan.commits_implicitly() {
            self.commit_implicitly().await?;
        }
        let logged =
            matches!(&plan.body, Statement::Ddl(ddl) if !ddl.is_temporary()) && self.derived.log.on;
        let binlog = self.db.binlog.as_ref().filter(|_| logged);
        let definition = binlog.map(|binlog| Definition {
            binlog,
            server: &self.db.settings,
            settings: &self.derived.log,
            filter: &self.db.log_filter,
            text,
        });
        let mut cx = AdminContext {
            engine: &self.db.engine,
            database: Some(&self.db),
            binlog: self.db.binlog.as_ref(),
            xa: &self.db.xa,
            settings: &self.db.settings,
            status: &self.db.status,
            processes: &self.db.processes,
            temporary: Some(&self.db.temporary),
            session: &mut self.state,
            vars: &mut self.vars,
            locks: &mut self.locks,
            next: &mut self.transaction.next,
            in_transaction: self.transaction.active,
            parameters: self.param_collation,
            binary_params: &self.binary_params,
            log: definition,
        };
        let ran = admin::run(&mut cx, plan, params, self.bound_at, out).await;
        if let Statement::Ddl(ddl) = &plan.body {
            self.db.catalog.forget_after(ddl);
        }
        // A list of SETs may fail after its first items have taken effect, so this also follows an
        // error.
        self.forget_dropped_schema();
        self.refresh();
        let ran = ran?;
        if logged {
            // A definition is durable when its statement ends.
            self.events_are_safe(self.db.engine.store.log.durable()).await?;
        }
        match ran {
            admin::Ran::Done(outcome) => Ok(outcome),
            admin::Ran::Commit(outcome) => {
                let committed = self.commit_open().await;
                if committed.is_err() && matches!(plan.body, Statement::Set(_)) {
                    // Autocommit stays off, because the transaction may still be open.
                    self.vars.store_bits(Var::Autocommit, 0);
                    self.refresh();
                }
                committed?;
                self.locks.end_transaction();
                Ok(outcome)
            }
            admin::Ran::Stale => Err(Failure::Stale),
        }
    }

    /// After DROP DATABASE of the default database the session has no default database.
    fn forget_dropped_schema(&mut self) {
        if self
            .state
            .schema
            .as_deref()
            .is_some_and(|s| !is_schema(s) && self.db.engine.dict.schema(s).is_none())
        {
            self.state.schema = None;
            self.state.process.set_schema(None);
            admin::forget_database(&mut self.vars);
        }
    }
}

/// SHOW WARNINGS and its relatives report on the statement before, so they keep its warnings.
pub(super) fn keeps_warnings(body: &Statement) -> bool {
    let Statement::Show(show) = body else { return false };
    use ShowKind::{CountErrors, CountWarnings, Errors, Warnings};
    matches!(show.kind, Warnings { .. } | Errors { .. } | CountWarnings | CountErrors)
}

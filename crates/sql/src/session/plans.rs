//! Finds or makes the plan of a text: the session asks the cache first, then the parser and the
//! binder.
use super::Session;
use crate::bind::type_rules::of_value;
use crate::bind::{BindContext, Bound, Params, bind};
use crate::error::{Result, SqlError};
use crate::exec::MoreRows;
use crate::exec::set::variable_type;
use crate::exec::unless_killed;
use crate::explain::Format;
use crate::parse::lexer::Token;
use crate::parse::parameterize::{Parameterized, Repeat};
use crate::parse::{self, Bounds, Parsed, ast, literal};
use crate::plan::{ExprType, Plan};
use crate::plan_cache::{Entry, PlanContext};
use crate::settings::Var;
use crate::sql_mode::SqlMode;
use crate::temporary_tables::SessionCatalog;
use redolith_engine::runtime::Runtime;
use redolith_types::{Charset, Collation, Value};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The literals of a statement; up to eight need no allocation.
pub(super) type Literals<'t> = SmallVec<[Value<'t>; 8]>;

/// From this length of the text on, reading the tokens takes long.
const LONG_TEXT_BYTES: usize = 64 << 10;
/// Below this number of literals, the length of each literal is added up.
const FEW_LITERALS: usize = 64;
/// Approximate memory of a tree and its plan for each byte of text: `, 1` is a literal in both.
const TREE_BYTES_PER_BYTE: usize = 64;
/// The memory of the tree and the plan that are made of a short text in the worker. The time that
/// this takes is some milliseconds.
const SHORT_TREE_BYTES: usize = Bounds::SHORT_MEMORY;
/// How much more memory the next attempt to bind a short text gets.
const MORE_MEMORY: usize = 8;
/// From this length of the text on, parsing and binding take long.
pub(super) const LONG_STATEMENT_BYTES: usize = 8 << 10;

/// Does work on `bytes` of text. From `long` bytes on, the runtime does the work as long work,
/// because other sessions cannot wait for it; shorter work runs in the worker thread.
pub(super) fn work_on<T>(
    runtime: &dyn Runtime,
    bytes: usize,
    long: usize,
    work: impl FnOnce() -> T,
) -> T {
    if bytes < long {
        return work();
    }
    let (mut work, mut done) = (Some(work), None);
    runtime.work_long(&mut || done = work.take().map(|work| work()));
    done.expect("the runtime does the work")
}

impl Session {
    /// The memory that work on a statement's text may use, and the process whose KILL ends the
    /// work.
    fn bounds(&self) -> Bounds<'_> {
        let memory = usize::try_from(self.vars.bits(Var::ParserMaxMemSize)).unwrap_or(usize::MAX);
        Bounds { memory, process: &self.state.process }
    }
    /// Parses and binds `bytes` of text. A long text is long work, and its tree is charged for. A
    /// short text may stand for a large tree, too, because the definition of a WITH is copied to
    /// each of its uses: then the text is bound again like a long one, each time with more memory.
    fn bind_within<T>(
        &mut self,
        bytes: usize,
        bind: impl Fn(&Session, Bounds<'_>) -> Result<T>,
    ) -> Result<T> {
        let most = self.bounds().memory;
        let (mut memory, mut charged) = if bytes < LONG_STATEMENT_BYTES {
            (SHORT_TREE_BYTES.min(most), 0)
        } else {
            (most, bytes.saturating_mul(TREE_BYTES_PER_BYTE).min(most))
        };
        loop {
            let mark = self.state.memory.text.used();
            self.state.memory.text.charge(charged)?;
            let within = |s: &Session| bind(s, Bounds { memory, ..s.bounds() });
            let bound = self.work_on(charged, 1, || within(self));
            self.state.memory.text.release_to(mark);
            match bound {
                Err(e) if e.code == self.bounds().exceeded().code && memory < most => {
                    memory = memory.saturating_mul(MORE_MEMORY).min(most);
                    charged = memory;
                }
                bound => return bound,
            }
        }
    }
    /// [`work_on`] with the session's runtime.
    pub(super) fn work_on<T>(&self, bytes: usize, long: usize, work: impl FnOnce() -> T) -> T {
        work_on(&*self.db.engine.runtime, bytes, long, work)
    }

    /// Reads the tokens of the statement at `start`.
    pub(super) fn parameterize(
        &self,
        parameterized: &mut Parameterized,
        text: &[u8],
        start: usize,
    ) -> Result<()> {
        self.work_on(text.len() - start, LONG_TEXT_BYTES, || {
            parameterized.read(text, start, self.derived.exec.sql_mode, self.bounds())
        })
    }

    /// Finds or makes the plan of the statement at `start`, whose shape is in `parameterized`. The
    /// memory of a plan that is made stays in the account of the text.
    pub(super) async fn text_plan(
        &mut self,
        text: &[u8],
        start: usize,
        parameterized: &Parameterized,
    ) -> Result<Arc<Plan>> {
        let literal = |n: u32| parameterized.literal_text(text, n);
        if !parameterized.invalid
            && let Some(plan) = self.db.plans.text(&self.context, &parameterized.shape, literal)
            && !self.state.temporary.hide_from(&plan)
            // A plan of other literals would be a defect (PARAM-1). It must not end the server.
            && plan.params as usize <= parameterized.literals.len()
        {
            return Ok(plan);
        }
        let mut attempt = 0;
        loop {
            self.bound_at = self.db.engine.dict.version();
            let bound = self.bind_within(parameterized.shape.len(), |s, bounds| {
                s.bind_text(text, start..parameterized.end, parameterized, bounds)
            });
            let (bound, exact) = match bound {
                Ok(bound) => bound,
                Err(e) => {
                    let context = self.context.clone();
                    let range = start..parameterized.end;
                    Box::pin(self.commit_before_unbound(&context, text, range)).await?;
                    return Err(e);
                }
            };
            let plan = Arc::new(bound.plan);
            if !self.ready(&plan, attempt).await? {
                attempt += 1;
                continue;
            }
            self.state.memory.text.charge(plan.bytes())?;
            if plan.cacheable && exact {
                self.db.plans.insert_text(
                    &self.context,
                    &parameterized.shape,
                    &bound.pinned,
                    literal,
                    plan.clone(),
                );
            }
            return Ok(plan);
        }
    }

    /// A definition, and LOCK TABLES, commits the open transaction also if it names what there is
    /// not. Commits if the text, which cannot be bound, is one.
    #[cold]
    async fn commit_before_unbound(
        &mut self,
        context: &PlanContext,
        text: &[u8],
        range: Range<usize>,
    ) -> Result<()> {
        let has_locks = self.locks.has_locked_tables();
        if !self.transaction.active && !self.transaction.is_set() && !has_locks {
            return Ok(());
        }
        let (mode, charsets) = (context.mode, context.charsets());
        let what = self.bind_within(range.len(), |s, bounds| {
            let parsed = parse::parse(text, range.clone(), None, mode, charsets, bounds);
            let is_temporary = |name: &ast::Name| {
                let schema = name.schema.as_deref().or(context.schema.as_deref());
                schema.is_some_and(|schema| s.state.temporary.find(schema, &name.name).is_some())
            };
            let statement = parsed?.statement;
            let locks = matches!(statement, ast::Statement::LockTables(_));
            Ok((statement.commits_implicitly(is_temporary), locks))
        });
        let (commits, locks) = what.unwrap_or((false, false));
        if commits {
            self.commit_implicitly().await?;
        }
        if locks {
            self.locks.unlock_tables();
        }
        Ok(())
    }

    /// Parses and binds a text. The second value says whether the plan serves every text of the
    /// shape that has the same pinned literals.
    fn bind_text(
        &self,
        text: &[u8],
        range: Range<usize>,
        parameterized: &Parameterized,
        bounds: Bounds<'_>,
    ) -> Result<(Bound, bool)> {
        let (mode, charsets) = (self.derived.exec.sql_mode, self.derived.charsets);
        if let Some(repeat) = &parameterized.repeat {
            let parsed = parse::parse(
                text,
                range.clone(),
                Some(repeat.skip.clone()),
                mode,
                charsets,
                bounds,
            )?;
            if is_one_row(&parsed) {
                let bound = self.bind_parsed(
                    &parsed,
                    &self.context,
                    Params::Literals { row_stride: Some(repeat.stride as u32) },
                    bounds,
                )?;
                let of_row =
                    |n: &u32| (repeat.first..repeat.first + repeat.stride).contains(&(*n as usize));
                if !bound.has_subqueries && !bound.pinned.iter().any(of_row) {
                    return Ok((bound, true));
                }
            }
        }
        // The parser looks for a statement behind one without words, and here none follows.
        let is_last = parameterized.blank && parameterized.next.is_none();
        let text = if is_last { &text[..range.end] } else { text };
        let parsed = parse::parse(text, range, None, mode, charsets, bounds)?;
        let params = Params::Literals { row_stride: None };
        let bound = self.bind_parsed(&parsed, &self.context, params, bounds)?;
        Ok((bound, parameterized.repeat.is_none()))
    }

    fn bind_parsed(
        &self,
        parsed: &Parsed<'_>,
        context: &PlanContext,
        params: Params,
        bounds: Bounds<'_>,
    ) -> Result<Bound> {
        self.bind_for(parsed, context, params, &[], bounds)
    }
    fn bind_for(
        &self,
        parsed: &Parsed<'_>,
        context: &PlanContext,
        params: Params,
        untyped: &[(u32, ExprType)],
        bounds: Bounds<'_>,
    ) -> Result<Bound> {
        let own = SessionCatalog { all: &self.db.catalog, temporary: &self.state.temporary };
        let cx = BindContext {
            catalog: if self.state.temporary.is_empty() { &self.db.catalog } else { &own },
            schema: context.schema.as_deref(),
            account: (&self.state.user, &self.state.host),
            mode: context.mode,
            collation: context.collation,
            utf8mb4: context.utf8mb4,
            file_charset: self
                .vars
                .collation(Var::CollationDatabase)
                .map_or(Charset::Utf8mb4, Collation::charset),
            div_precision_increment: context.div_precision_increment,
            group_concat_max_len: context.group_concat_max_len,
            explain_format: Format::of_setting(self.vars.bits(Var::ExplainFormat)),
            variable_type: &variable_type,
            user_variable_type: &|name| {
                self.state.user_variables.get(name).map(|v| of_value(&v.value, v.collation))
            },
            untyped,
            bounds,
        };
        let bound = bind(parsed, &cx, params)?;
        // Where a long text is long work, so is this walk.
        bound.plan.bytes();
        Ok(bound)
    }

    /// The most memory that [`Self::literals`] takes. A string with escapes is copied, and in
    /// another character set a character becomes up to three bytes.
    pub(super) fn literal_bytes(&self, parameterized: &Parameterized, plan: &Plan) -> usize {
        let count = if plan.has_one_row_for_all() {
            plan.params as usize
        } else {
            parameterized.literals.len()
        };
        let long = |token: &Token| (token.end - token.start) as usize;
        let strings = if count < FEW_LITERALS {
            parameterized.literals.iter().take(count).map(long).sum()
        } else {
            parameterized.end
        };
        let growth = if self.derived.charsets.conversion().is_some() { 3 } else { 1 };
        count * size_of::<Value<'_>>() + strings * growth
    }
    /// The values of a text statement's literals, as parameters. If the plan has one row for all,
    /// the literals of repeated rows are left out.
    pub(super) fn literals<'t>(
        &self,
        text: &'t [u8],
        parameterized: &Parameterized,
        plan: &Plan,
    ) -> Result<Literals<'t>> {
        let all = &parameterized.literals[..];
        let (before, after) =
            match parameterized.repeat.as_ref().filter(|_| plan.has_one_row_for_all()) {
                Some(repeat) => (
                    &all[..repeat.first + repeat.stride],
                    &all[repeat.first + repeat.rows * repeat.stride..],
                ),
                None => (all, &all[..0]),
            };
        let (backslash_escapes, charsets) = (self.backslash_escapes(), self.derived.charsets);
        self.work_on(before.len() + after.len(), LONG_STATEMENT_BYTES, || {
            let mut values = Literals::with_capacity(before.len() + after.len());
            for token in before.iter().chain(after) {
                values.push(literal::value(*token, text, backslash_escapes, charsets)?);
            }
            Ok(values)
        })
    }
    /// The literals of the repeated rows, if the plan has one row for all.
    pub(super) fn more_rows<'t>(
        &self,
        text: &'t [u8],
        parameterized: &'t Parameterized,
        plan: &Plan,
    ) -> Option<MoreRows<'t>> {
        let Repeat { first, stride, rows, .. } =
            *parameterized.repeat.as_ref().filter(|_| plan.has_one_row_for_all())?;
        let literals = &parameterized.literals[first + stride..first + rows * stride];
        Some(MoreRows {
            text,
            literals,
            first,
            backslash_escapes: self.backslash_escapes(),
            charsets: self.derived.charsets,
        })
    }
    fn backslash_escapes(&self) -> bool {
        !self.derived.exec.sql_mode.has(SqlMode::NO_BACKSLASH_ESCAPES)
    }

    /// Finds or makes the shared entry and the plan of a text that a client prepares.
    pub(super) async fn find_prepared(&mut self, text: &[u8]) -> Result<(Arc<Entry>, Arc<Plan>)> {
        if let Some(entry) = self.db.plans.prepared(&self.context, text) {
            return self.rebind_prepared(&entry).await;
        }
        let context = self.context.clone();
        self.make_prepared(&context, text).await
    }

    /// Binds a prepared statement again, in the database and SQL mode in which it was prepared.
    pub(super) async fn rebind_prepared(
        &mut self,
        entry: &Arc<Entry>,
    ) -> Result<(Arc<Entry>, Arc<Plan>)> {
        // A plan that is not cacheable may be made of what another session has.
        let is_good = |p: &Arc<Plan>| p.cacheable && !self.state.temporary.hide_from(p);
        if let Some(plan) = entry.plan().filter(is_good) {
            return Ok((entry.clone(), plan));
        }
        self.make_prepared(entry.context(), entry.text()).await
    }

    /// Makes another plan of a prepared statement, for parameters of these types (BIND-3), with an
    /// entry of the session's own.
    pub(super) async fn retype_prepared(
        &mut self,
        entry: &Entry,
        plan: &Plan,
        params: &[Value<'_>],
    ) -> Result<(Arc<Entry>, Arc<Plan>)> {
        // Parameters have the present character set, whatever it was when the statement was
        // prepared.
        let collation = |n| {
            if self.binary_params.binary_search(&n).is_ok() {
                Collation::Binary
            } else {
                self.param_collation
            }
        };
        let untyped: Vec<(u32, ExprType)> = plan
            .untyped
            .iter()
            .map(|(n, _)| (*n, of_value(&params[*n as usize], collation(*n))))
            .collect();
        let mut attempt = 0;
        loop {
            let (text, context) = (entry.text(), entry.context());
            self.bound_at = self.db.engine.dict.version();
            let bound = self.bind_within(text.len(), |s, bounds| {
                let range = parse::split(text, 0, context.mode).0;
                let charsets = context.charsets();
                let parsed = parse::parse(text, range, None, context.mode, charsets, bounds)?;
                s.bind_for(&parsed, context, Params::Marks, &untyped, bounds)
            })?;
            let plan = Arc::new(bound.plan);
            if self.ready(&plan, attempt).await? {
                let own = self.db.plans.own_prepared(context, text, plan.clone())?;
                return Ok((own, plan));
            }
            attempt += 1;
        }
    }

    /// Whether the plan may run. Many leaves may have to be read for its statistics.
    async fn ready(&self, plan: &Plan, attempt: usize) -> Result<bool> {
        let kill = &self.state.process.interrupt;
        unless_killed(kill, self.db.catalog.ready(plan, attempt)).await?
    }
    async fn make_prepared(
        &mut self,
        context: &PlanContext,
        text: &[u8],
    ) -> Result<(Arc<Entry>, Arc<Plan>)> {
        let mut attempt = 0;
        loop {
            self.bound_at = self.db.engine.dict.version();
            let bound =
                self.bind_within(text.len(), |s, bounds| s.bind_to_prepare(context, text, bounds));
            let bound = match bound {
                Ok(bound) => bound,
                Err(e) => {
                    // Of several statements, none is prepared.
                    let split = || parse::split(text, 0, context.mode);
                    if let (range, None) = self.work_on(text.len(), LONG_STATEMENT_BYTES, split) {
                        Box::pin(self.commit_before_unbound(context, text, range)).await?;
                    }
                    return Err(e);
                }
            };
            let plan = Arc::new(bound.plan);
            if self.ready(&plan, attempt).await? {
                let entry = self.db.plans.insert_prepared(context, text, plan.clone())?;
                return Ok((entry, plan));
            }
            attempt += 1;
        }
    }
}

impl Session {
    fn bind_to_prepare(
        &self,
        context: &PlanContext,
        text: &[u8],
        bounds: Bounds<'_>,
    ) -> Result<Bound> {
        let (range, next) = parse::split(text, 0, context.mode);
        if let Some(next) = next {
            return Err(SqlError::syntax(&context.charsets().shown(&text[next..]), 1));
        }
        let parsed = parse::parse(text, range, None, context.mode, context.charsets(), bounds)?;
        if matches!(
            parsed.statement,
            ast::Statement::Prepare { .. }
                | ast::Statement::Execute { .. }
                | ast::Statement::Deallocate(_)
                | ast::Statement::Load(_)
        ) {
            return Err(SqlError::not_preparable());
        }
        if parsed.params > u32::from(u16::MAX) {
            return Err(SqlError::too_many_placeholders());
        }
        self.bind_parsed(&parsed, context, Params::Marks, bounds)
    }
}

/// True if the text without the skipped rows is an `INSERT .. VALUES` with exactly one row.
fn is_one_row(parsed: &Parsed<'_>) -> bool {
    match &parsed.statement {
        ast::Statement::Insert(insert) => {
            matches!(&insert.source, ast::InsertSource::Values(rows) if rows.len() == 1)
        }
        _ => false,
    }
}

impl Parameterized {
    /// The text of literal `n` of the shape. The literals of repeated rows lie between the first
    /// row's literals and the literals after the rows.
    pub fn literal_text<'t>(&self, text: &'t [u8], n: u32) -> &'t [u8] {
        let n = n as usize;
        let at = match &self.repeat {
            Some(Repeat { first, stride, rows, .. }) if n >= first + stride => {
                n + (rows - 1) * stride
            }
            _ => n,
        };
        self.literals.get(at).map_or(&[], |literal| literal.text(text))
    }
}

//! Runs INSERT and REPLACE: defaults, AUTO_INCREMENT, duplicates.
use super::auto_increment::{AutoIncrement, CounterLock, generated};
use super::correlated::answered;
use super::duplicate_entry::duplicate_entry;
use super::env::Env;
use super::eval::{Eval, Known, Row, Scope};
use super::insert_batch::Pending;
use super::insert_select::insert_select;
use super::load::{self, FileRow};
use super::long_rows::{self, LONG_ROW};
use super::row_buffer::read_row_into;
use super::scan::check_killed;
use super::spool::Spool;
use super::subquery::Found;
use super::update::{assign, keep_changed, moves, now_for};
use super::{ExecContext, check, column_conversion, generated_columns};
use crate::error::{Result, SqlError};
use crate::plan::{
    Assignment, DefaultFill, Expr, ExprKind, Fill, Function, InsertPlan, InsertRows, InsertValue,
    OnDuplicate,
};
use crate::session_state::{Done, Outcome};
use crate::sql_mode::SqlMode;
use crate::table_info::TableInfo;
use redolith_engine::Error as EngineError;
use redolith_engine::Trx;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::row::update::RowAt;
use redolith_engine::temporary::take_record;
use redolith_types::convert::to_integer;
use redolith_types::{Charset, KeyLayout, Value};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

pub async fn run(
    cx: &mut ExecContext<'_>,
    plan: &InsertPlan,
    params: &[Value<'_>],
) -> Result<Outcome> {
    let warnings = cx.env.session.warnings.count();
    cx.env.begin_changes(plan.ignore);
    let mut work = Work::new(plan);
    let mut found = Found::default();
    find_subqueries(plan, &mut found);
    let subqueries = found.run_before_changes(cx, Scope::new(params)).await?;
    let known = Known::results(&subqueries);
    let at = Scope { known: &known, ..Scope::new(params) };
    match &plan.rows {
        InsertRows::Rows(rows) => {
            work.expect_all_rows(rows.len() as u64);
            for row in rows {
                work.row(cx, Given::Exprs(row), at, at).await?;
            }
        }
        InsertRows::Repeat { row, stride } => {
            let stride = *stride as usize;
            let more = cx.more_rows.map_or(0, |more| more.count(stride));
            work.expect_all_rows(more as u64 + 1);
            work.row(cx, Given::Exprs(row), at, at).await?;
            let (seeded, mut done) = (seeded_nodes(row), 0);
            while let Some(rows) = cx.more_rows.filter(|_| done < more) {
                let (count, values) = rows.values(done, stride, params)?;
                let mark = cx.env.held();
                cx.env.charge(values.iter().map(owned_bytes).sum())?;
                for n in 0..count {
                    // As in MySQL, each row has a RAND(n) of its own, which begins anew.
                    for place in &seeded {
                        cx.env.seeded.remove(place);
                    }
                    let here = Scope { params: &values[n * stride..], ..at };
                    // Expressions after the rows (ON DUPLICATE KEY UPDATE) see their own
                    // parameters.
                    work.row(cx, Given::Exprs(row), here, at).await?;
                }
                cx.env.release_to(mark);
                done += count;
            }
        }
        InsertRows::Select { select, .. } => {
            Box::pin(insert_select(cx, &mut work, select, at)).await?
        }
        InsertRows::File(_) => unreachable!("LOAD DATA has its own way"),
    }
    work.insert_pending(cx).await?;
    Ok(work.finish(cx, warnings))
}

pub(super) fn find_subqueries<'p>(plan: &'p InsertPlan, found: &mut Found<'p>) {
    match &plan.rows {
        InsertRows::Rows(rows) => rows.iter().flatten().for_each(|v| found.value(v)),
        InsertRows::Repeat { row, .. } => row.iter().for_each(|v| found.value(v)),
        InsertRows::Select { .. } => {}
        InsertRows::File(load) => load.set.iter().for_each(|a| found.expr(&a.value)),
    }
    if let OnDuplicate::Update(assignments) = &plan.on_duplicate {
        assignments.iter().for_each(|a| found.expr(&a.value));
    }
    for (default, fill) in plan.defaults.iter().zip(&plan.fill) {
        if let (DefaultFill::Expr(e), Fill::Default) = (default, fill) {
            found.expr(e);
        }
    }
}

/// The addresses of the nodes RAND(n), by which their states are kept.
fn seeded_nodes(row: &[InsertValue]) -> Vec<usize> {
    let mut nodes = Vec::new();
    for value in row {
        if let InsertValue::Expr(e) = value {
            e.walk(&mut |node| {
                if matches!(node.kind, ExprKind::Call { function: Function::Rand, .. }) {
                    nodes.push(std::ptr::from_ref(node).addr());
                }
            });
        }
    }
    nodes
}

/// The bytes that a value holds beside itself.
fn owned_bytes(value: &Value<'_>) -> usize {
    if let Value::Bytes(Cow::Owned(bytes)) | Value::Json(Cow::Owned(bytes)) = value {
        bytes.capacity()
    } else {
        0
    }
}

/// The values that the statement gives for one row.
#[derive(Clone, Copy)]
pub(super) enum Given<'v> {
    Exprs(&'v [InsertValue]),
    /// A row of a SELECT, with its expressions, whose types matter.
    Values(&'v [Value<'v>], &'v [Expr]),
    /// A row of a file.
    Fields(FileRow<'v>),
}

pub(super) struct Work<'p> {
    pub(super) plan: &'p InsertPlan,
    pub(super) auto: AutoIncrement,
    records: u64,
    affected: u64,
    /// The number of rows whose key was taken.
    duplicates: u64,
    pub(super) multiple: bool,
    /// The present row is the only row, and it is given by expressions.
    single: bool,
    existing: Option<Box<Rewriter>>,
    /// Rows that are made and not yet inserted (`insert_batch`).
    pub(super) pending: Option<Box<Pending>>,
}

impl<'p> Work<'p> {
    pub(super) fn new(plan: &'p InsertPlan) -> Work<'p> {
        Work {
            plan,
            auto: AutoIncrement::default(),
            records: 0,
            affected: 0,
            duplicates: 0,
            multiple: false,
            single: false,
            existing: None,
            pending: Pending::of(plan),
        }
    }

    /// The number of rows so far.
    pub(super) fn records(&self) -> u64 {
        self.records
    }
    /// Announces all rows of the statement.
    fn expect_all_rows(&mut self, rows: u64) {
        (self.auto.rows_left, self.auto.all_rows) = (rows, rows);
    }
    /// Announces the next rows, so that their AUTO_INCREMENT values are taken together.
    pub(super) fn expect_rows(&mut self, rows: u64) {
        self.auto.rows_left = rows;
    }

    /// Inserts rows of a SELECT.
    pub(super) async fn selected(
        &mut self,
        cx: &mut ExecContext<'_>,
        rows: &mut Spool,
        exprs: &[Expr],
        at: Scope<'_>,
    ) -> Result<()> {
        rows.rewind();
        let process = cx.env.session.process.clone();
        self.auto.rows_left = rows.rows();
        if let Some(mut rest) = rows.records_in_memory() {
            // One list serves all rows: a row is not moved on its way.
            let mut values = Vec::new();
            while let Some(record) = take_record(&mut rest) {
                read_row_into(record, &mut values);
                let selected = [Row::Values(&values)];
                let after = Scope { sources: &selected, ..at };
                self.row(cx, Given::Values(&values, exprs), at, after).await?;
            }
            process.progress.add(rows.rows());
            return self.insert_pending(cx).await;
        }
        while let Some(row) = rows.next()? {
            let selected = [Row::Values(&row)];
            let after = Scope { sources: &selected, ..at };
            self.row(cx, Given::Values(&row, exprs), at, after).await?;
            process.progress.add(1);
        }
        // An error of the SELECT comes behind the errors of the rows before.
        self.insert_pending(cx).await
    }

    pub(super) async fn row(
        &mut self,
        cx: &mut ExecContext<'_>,
        given: Given<'_>,
        at: Scope<'_>,
        after: Scope<'_>,
    ) -> Result<()> {
        check_killed(&cx.env)?;
        let counts = cx.env.settings.auto_increment_lock != CounterLock::Never;
        if counts {
            Box::pin(self.lock_counter(cx, &given, at.params)).await?;
        }
        self.records += 1;
        cx.env.row = self.records;
        // INSERT .. SELECT counts as several rows, even if the query has one row.
        let single =
            self.records == 1 && self.auto.rows_left == 1 && matches!(given, Given::Exprs(_));
        self.single = single;
        let mut payload = std::mem::take(&mut cx.scratch.row);
        payload.clear();
        let mark = cx.env.held();
        let mut made = self.make(given, at, &mut cx.env, single, &mut payload);
        if let Some(generated) = &self.plan.generated_columns {
            let nulls = single && !self.plan.ignore;
            made = made.and_then(|()| {
                generated_columns::fill(
                    generated,
                    &self.plan.table,
                    &mut payload,
                    nulls,
                    &mut cx.env,
                )
            });
        }
        cx.env.release_to(mark);
        if payload.len() > LONG_ROW {
            made = made.and_then(|()| {
                long_rows::charge_write(
                    &self.plan.table.engine().layout,
                    &payload,
                    || false,
                    &mut cx.env.session.memory.statement,
                )
            });
        }
        if counts && made.is_ok() {
            made = Box::pin(self.settle_counter(cx)).await;
        }
        let mut is_left_out = false;
        if made.is_ok() && (self.plan.check.is_some() || self.plan.constraints.is_some()) {
            match check::may_insert(self.plan, &payload, at, &mut cx.env) {
                Ok(may) => is_left_out = !may,
                Err(e) => made = Err(e),
            }
        }
        let done = match made {
            Ok(()) if is_left_out => Ok(()),
            Ok(()) if !single && self.takes(cx, &payload) => {
                self.add_pending(cx, &payload);
                if self.has_enough_pending() { self.insert_pending(cx).await } else { Ok(()) }
            }
            Ok(()) => match self.insert_pending(cx).await {
                Ok(()) => self.insert(cx, &mut payload, after).await,
                Err(e) => Err(e),
            },
            Err(e) => Err(self.fails_with(cx, e).await),
        };
        // This releases the memory of ON DUPLICATE KEY UPDATE, too.
        cx.env.release_to(mark);
        cx.scratch.row = payload;
        if counts && !self.auto.holds_on {
            cx.trx.release_counter();
        }
        self.auto.rows_left -= 1;
        done
    }

    /// Evaluates a row into its payload.
    fn make<'v>(
        &mut self,
        given: Given<'v>,
        at: Scope<'v>,
        env: &mut Env<'_>,
        single: bool,
        payload: &mut Vec<u8>,
    ) -> Result<()>
    where
        'p: 'v,
    {
        let plan: &'v InsertPlan = self.plan;
        (self.auto.current, self.auto.wanted) = (None, None);
        self.auto.before = (self.auto.next, self.auto.taken);
        if let Given::Fields(row) = given {
            return load::make(self, row, at, env, payload);
        }
        if plan.names_columns {
            return self.make_in_order(given, at, env, single, payload);
        }
        let mut values: SmallVec<[Value<'v>; 16]> = SmallVec::with_capacity(plan.fill.len());
        for n in 0..plan.fill.len() {
            values.push(self.value(n, given, at, env, single)?);
        }
        if let Some((n, number)) = self.number(env)? {
            values[n] = number;
        }
        let memory = &mut env.session.memory.statement;
        long_rows::encode(&plan.table.engine().layout, &values, payload, memory)
    }

    /// Like [`Self::make`] for values that name columns. A named column has the value it was given
    /// further left in the list, as the column holds it, or its default.
    fn make_in_order(
        &mut self,
        given: Given<'_>,
        at: Scope<'_>,
        env: &mut Env<'_>,
        single: bool,
        payload: &mut Vec<u8>,
    ) -> Result<()> {
        let plan = self.plan;
        let (def, layout) = (&plan.table.def, &plan.table.engine().layout);
        let mut values = Vec::with_capacity(plan.fill.len());
        for (n, column) in def.columns.iter().enumerate() {
            values.push(match (plan.fill[n], &plan.defaults[n]) {
                (_, DefaultFill::Literal(v)) => v.clone(),
                (Fill::Default, DefaultFill::Expr(_)) => {
                    self.value(n, given, at, env, single)?.into_owned()
                }
                _ if column.nullable => Value::Null,
                // An AUTO_INCREMENT value that is not yet generated counts as 0.
                _ => column_conversion::zero(&column.ty),
            });
        }
        let mut order: Vec<usize> = (0..plan.fill.len()).collect();
        order.sort_by_key(|n| match plan.fill[*n] {
            Fill::Given(place) | Fill::Kept(place) => place,
            Fill::Default => u16::MAX,
        });
        for n in order {
            if plan.fill[n] == Fill::Default
                && matches!(plan.defaults[n], DefaultFill::Literal(_) | DefaultFill::Expr(_))
            {
                continue;
            }
            payload.clear();
            long_rows::encode(layout, &values, payload, &mut env.session.memory.statement)?;
            let so_far = [Row::Stored { def, layout, payload: &payload[..] }];
            values[n] =
                self.value(n, given, Scope { sources: &so_far, ..at }, env, single)?.into_owned();
        }
        if let Some((n, number)) = self.number(env)? {
            values[n] = number;
        }
        payload.clear();
        long_rows::encode(layout, &values, payload, &mut env.session.memory.statement)
    }

    /// The value of column `n` of a new row.
    pub(super) fn value<'v>(
        &mut self,
        n: usize,
        given: Given<'v>,
        at: Scope<'v>,
        env: &mut Env<'_>,
        single: bool,
    ) -> Result<Value<'v>>
    where
        'p: 'v,
    {
        let plan: &'v InsertPlan = self.plan;
        let column: &'v redolith_types::Column = &plan.table.def.columns[n];
        if let (Fill::Kept(place), Given::Values(row, _)) = (plan.fill[n], given) {
            return Ok(column_conversion::kept(row[usize::from(place)].borrow(), column, env));
        }
        let given = match (plan.fill[n], given) {
            (Fill::Given(n), Given::Exprs(row)) => match &row[n as usize] {
                InsertValue::Expr(e) => {
                    let value = Eval::new(at, env).stored(e, &column.ty)?;
                    if column_conversion::is_error_of_enum(&value, e, column) {
                        return Ok(value);
                    }
                    Some((value, env.charset_of(e)))
                }
                InsertValue::Default => None,
            },
            (Fill::Given(n), Given::Values(row, exprs)) => {
                let n = usize::from(n);
                let (value, e) = (row[n].borrow(), &exprs[n]);
                match plan.members_of(n) {
                    Some(_) if matches!(value, Value::UInt(0)) => return Ok(value),
                    Some(names) => {
                        let charset =
                            names.ty().collation().map_or(Charset::Binary, |c| c.charset());
                        Some((names.ty().present(value), charset))
                    }
                    None if column.ty.is_string() => {
                        let value = Eval::new(at, env).stored_as_string(e, &column.ty, value);
                        Some((value, env.charset_of(e)))
                    }
                    None => Some((value, env.charset_of(e))),
                }
            }
            (Fill::Default | Fill::Kept(_), _) | (_, Given::Fields(_)) => None,
        };
        let (value, from) = match (given, &plan.defaults[n]) {
            (Some(given), _) => given,
            (None, DefaultFill::Literal(v)) => return Ok(v.borrow()),
            (None, DefaultFill::Expr(e)) => {
                (Eval::new(at, env).stored(e, &column.ty)?, env.charset_of(e))
            }
            (None, DefaultFill::Generated) if column.nullable => return Ok(Value::Null),
            (None, DefaultFill::Generated) => return Ok(column_conversion::zero(&column.ty)),
            (None, DefaultFill::AutoIncrement) => (Value::Null, Charset::Binary),
            (None, DefaultFill::Zero) => (column_conversion::zero(&column.ty), Charset::Utf8mb4),
            // A column that all rows leave out is one warning, with the first of them.
            (None, DefaultFill::Missing | DefaultFill::MissingBelowView(_))
                if plan.fill[n] == Fill::Default && env.row > 1 =>
            {
                return Ok(column_conversion::zero(&column.ty));
            }
            (None, DefaultFill::Missing) => {
                env.warn(SqlError::no_default(&column.name))?;
                return Ok(column_conversion::zero(&column.ty));
            }
            (None, DefaultFill::MissingBelowView(view)) => {
                env.warn(SqlError::no_default_below_view(&view.schema, &view.name))?;
                return Ok(column_conversion::zero(&column.ty));
            }
        };
        if column.auto_increment {
            self.auto_value(n, value, column, from, env)
        } else if value.is_null() && !column.nullable && single && !plan.ignore {
            Err(SqlError::column_cannot_be_null(&column.name))
        } else {
            let stored = column_conversion::convert(value, column, from, env.row, env);
            stored.map_err(|e| e.in_table(&plan.table.def.name))
        }
    }

    /// The value of the AUTO_INCREMENT column `n`: 0 if the value has to be generated, because the
    /// row has NULL or a value that the column stores as 0.
    pub(super) fn auto_value<'v>(
        &mut self,
        n: usize,
        value: Value<'v>,
        column: &redolith_types::Column,
        from: Charset,
        env: &mut Env<'_>,
    ) -> Result<Value<'v>> {
        let stored = if value.is_null() {
            None
        } else {
            Some(column_conversion::convert(value, column, from, env.row, env)?)
        };
        let zero_counts = env.settings.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        match stored.map(|stored| (to_integer(&stored).value, stored)) {
            Some((number, stored)) if number != 0 || zero_counts => {
                self.auto.current =
                    u64::try_from(number).ok().filter(|n| *n > 0).map(|n| (n, false));
                if let Some((number, _)) = self.auto.current {
                    self.auto.pass(number, env);
                }
                Ok(stored)
            }
            _ => {
                self.auto.wanted = Some(n);
                Ok(column_conversion::zero(&column.ty))
            }
        }
    }

    /// The column that needs a generated value, and the value. The value is generated after the
    /// row's other values have been converted: a row that fails takes no number, as in MySQL.
    pub(super) fn number(&mut self, env: &mut Env<'_>) -> Result<Option<(usize, Value<'static>)>> {
        let Some(n) = self.auto.wanted.take() else { return Ok(None) };
        let ty = &self.plan.table.def.columns[n].ty;
        let made = generated(self.auto.generate(self.plan.table.engine(), env), ty)?;
        self.auto.current = u64::try_from(to_integer(&made).value).ok().map(|n| (n, true));
        Ok(Some((n, made)))
    }

    async fn insert(
        &mut self,
        cx: &mut ExecContext<'_>,
        payload: &mut Vec<u8>,
        after: Scope<'_>,
    ) -> Result<()> {
        let table = self.plan.table.engine();
        // REPLACE and ON DUPLICATE KEY UPDATE change the existing row.
        let mode =
            if matches!(self.plan.on_duplicate, OnDuplicate::Error) { Mode::S } else { Mode::X };
        loop {
            cx.scratch.handlers.write += 1;
            match cx.trx.insert_or_lock(table, payload, mode).await {
                Ok(()) => {
                    cx.trx.rows.inserted += 1;
                    if let Some(log) = &mut cx.log {
                        log.inserted(&self.plan.table, payload, &mut cx.env.session.memory)?;
                    }
                    self.inserted(table, self.auto.current);
                    return Ok(());
                }
                Err(EngineError::DuplicateKey { index_no, .. }) => {
                    if Box::pin(self.duplicate(cx, index_no, payload, after)).await? {
                        return Ok(());
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
    /// Counts an inserted row. `number` is its AUTO_INCREMENT value, and whether it was generated.
    pub(super) fn inserted(&mut self, table: &Table, number: Option<(u64, bool)>) {
        self.affected += 1;
        let Some((value, generated)) = number else { return };
        // The counter must also pass a value that came from `@@insert_id`.
        table.saw_auto_increment(value);
        if generated {
            self.auto.first.get_or_insert(value);
        } else {
            self.auto.given = Some(value);
        }
    }

    /// Handles a row whose key is taken. Returns false if the insertion must be tried again.
    async fn duplicate(
        &mut self,
        cx: &mut ExecContext<'_>,
        index_no: usize,
        payload: &[u8],
        after: Scope<'_>,
    ) -> Result<bool> {
        let info = &self.plan.table;
        match &self.plan.on_duplicate {
            OnDuplicate::Error => {
                let error = duplicate_entry(info, index_no, payload);
                if !self.plan.ignore {
                    return Err(error);
                }
                self.duplicates += 1;
                self.auto.put_back();
                cx.env.only_warn(error);
                Ok(true)
            }
            OnDuplicate::Replace => {
                let table = info.engine();
                let existing = self.existing.get_or_insert_with(|| Box::new(Rewriter::new(table)));
                cx.scratch.handlers.read_key += 1;
                if existing.find_key(cx.trx, index_no, payload).await? {
                    // For a conflict on the last unique key, MySQL updates the existing row. If the
                    // rows are equal, nothing changes.
                    let last = table.indexes[index_no + 1..].iter().all(|i| !i.def.unique);
                    if last && existing.is(cx, payload).await? {
                        self.inserted(table, self.auto.current);
                        return Ok(true);
                    }
                    existing.delete(cx, info).await?;
                    self.affected += 1;
                    self.duplicates += 1;
                }
                Ok(false)
            }
            OnDuplicate::Update(assignments) => {
                let table = info.engine();
                let mut existing =
                    self.existing.take().unwrap_or_else(|| Box::new(Rewriter::new(table)));
                cx.scratch.handlers.read_key += 1;
                let found = existing.find_key(cx.trx, index_no, payload).await?;
                if found {
                    self.auto.put_back();
                    self.update_existing(cx, &mut existing, assignments, payload, after).await?;
                    existing.cursor.let_go();
                }
                self.existing = Some(existing);
                Ok(found)
            }
        }
    }
    async fn update_existing(
        &mut self,
        cx: &mut ExecContext<'_>,
        existing: &mut Rewriter,
        assignments: &[Assignment],
        payload: &[u8],
        at: Scope<'_>,
    ) -> Result<()> {
        let info = &self.plan.table;
        let table = info.engine();
        self.duplicates += 1;
        let is_long = existing.fetch(cx).await?;
        let mut new = Vec::new();
        {
            let (def, layout) = (&info.def, &table.layout);
            let stored = existing.row().stored;
            let whole = if is_long { existing.cursor.whole() } else { stored };
            let current = Row::Stored { def, layout, payload: whole };
            // The row of a SELECT (ODKU-1).
            let selected = at.sources.first().copied().unwrap_or(Row::Nulls);
            let sources = [current, selected];
            let inserted = Row::Stored { def, layout, payload };
            let known = Known { inserted, ..*at.known };
            let at = Scope { sources: &sources, known: &known, ..at };
            let nulls = !self.single || self.plan.ignore;
            let mut changes =
                answered!(cx, at, assign(info, assignments, 0, at, &mut cx.env, nulls));
            keep_changed(&mut changes, current);
            if changes.is_empty() {
                self.affected += cx.env.session.found_rows_flag as u64;
                return Ok(());
            }
            for (n, column) in def.columns.iter().enumerate() {
                if column.on_update_now && !assignments.iter().any(|a| a.column as usize == n) {
                    changes.push((n, now_for(&column.ty, &mut cx.env)));
                }
            }
            if let Some(generated) = &self.plan.generated_columns {
                let env = &mut cx.env;
                generated_columns::recalculate(generated, info, whole, &mut changes, !nulls, env)?;
            }
            if self.plan.constraints.is_some() {
                let memory = &mut cx.env.session.memory.statement;
                long_rows::update(layout, whole, &changes, &mut new, memory)?;
                if !check::may_update(self.plan, &new, &mut cx.env)? {
                    return Ok(());
                }
                new.clear();
            }
            let memory = &mut cx.env.session.memory.statement;
            long_rows::update(layout, stored, &changes, &mut new, memory)?;
            long_rows::charge_write(layout, &new, || moves(table, &changes), memory)?;
        }
        cx.scratch.handlers.update += 1;
        match cx.trx.update(table, existing.row(), &new).await {
            Ok(()) => {
                cx.trx.rows.updated += 1;
                if let Some(log) = &mut cx.log {
                    let row = existing.row();
                    let whole = if is_long { existing.cursor.whole() } else { row.stored };
                    log.updated(info, row, whole, &new, &mut cx.env.session.memory)?;
                }
                self.affected += 2;
                // The client is told the AUTO_INCREMENT value of the changed row.
                if let Some(n) = numbered_column(&info.def) {
                    self.auto.given =
                        u64::try_from(to_integer(&table.layout.get(&new, n)).value).ok();
                }
            }
            Err(e) => super::update::refused(e, self.plan.ignore, info, &new, &mut cx.env)?,
        }
        Ok(())
    }

    pub(super) fn finish(mut self, cx: &mut ExecContext<'_>, warnings_before: u64) -> Outcome {
        assert!(self.pending.is_none_or(|p| p.is_empty()), "ROWBATCH-1: all rows are inserted");
        cx.env.session.process.progress.end();
        self.auto.give_back(self.plan.table.engine(), &cx.env);
        if let Some(first) = self.auto.first {
            cx.env.session.last_insert_id = first;
        }
        let mut info = String::new();
        if self.multiple || self.records > 1 {
            let warnings = cx.env.session.warnings.count() - warnings_before;
            let replaces = matches!(self.plan.on_duplicate, OnDuplicate::Replace);
            let (deleted, skipped) =
                if replaces { (self.duplicates, 0) } else { (0, self.duplicates) };
            info = if self.plan.loads() {
                format!(
                    "Records: {}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}",
                    self.records
                )
            } else {
                format!(
                    "Records: {}  Duplicates: {}  Warnings: {warnings}",
                    self.records, self.duplicates
                )
            };
        }
        // MySQL tells the client no number of LOAD DATA.
        let last_insert_id = match self.plan.loads() {
            true => 0,
            false => self.auto.first.or(cx.env.insert_id).or(self.auto.given).unwrap_or(0),
        };
        Outcome::Done(Done { affected: self.affected, last_insert_id, info })
    }
}

/// The number of the AUTO_INCREMENT column.
fn numbered_column(def: &redolith_types::TableDef) -> Option<usize> {
    def.columns.iter().position(|c| c.auto_increment)
}

/// Finds a single row to change or delete, and locks the row exclusively.
pub struct Rewriter {
    table: Arc<Table>,
    cursor: Cursor,
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Rewriter {
    pub fn new(table: &Arc<Table>) -> Rewriter {
        let cursor = Cursor::new(table.clone(), 0, Vec::new(), None, false, Rewriter::LOCK);
        Rewriter { table: table.clone(), cursor, low: Vec::new(), high: Vec::new() }
    }
    const LOCK: Read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };

    pub async fn find_clustered(&mut self, trx: &mut Trx, key: &[u8]) -> Result<bool> {
        self.cursor.aim(self.table.clone(), 0, false, Rewriter::LOCK);
        self.cursor.reset(key, None, true);
        Ok(self.cursor.next(trx).await?)
    }
    /// Finds the row that has the key of `payload` in unique index `no`.
    pub async fn find_key(&mut self, trx: &mut Trx, no: usize, payload: &[u8]) -> Result<bool> {
        self.low.clear();
        self.table.indexes[no].key.encode_row(&self.table.layout, payload, &mut self.low);
        self.cursor.aim(self.table.clone(), no, false, Rewriter::LOCK);
        if no == 0 {
            self.cursor.reset(&self.low, None, true);
        } else {
            self.high.clone_from(&self.low);
            let bounded = KeyLayout::successor(&mut self.high);
            self.cursor.reset(&self.low, bounded.then_some(&self.high[..]), false);
        }
        Ok(self.cursor.next(trx).await?)
    }
    pub fn row(&self) -> RowAt<'_> {
        self.cursor.row()
    }
    /// The row with its long columns, after [`Self::fetch`].
    pub fn whole(&self) -> &[u8] {
        self.cursor.whole()
    }
    /// Lets the long columns go.
    pub fn let_go(&mut self) {
        self.cursor.let_go();
    }
    /// True if the row equals `payload`.
    async fn is(&mut self, cx: &mut ExecContext<'_>, payload: &[u8]) -> Result<bool> {
        let mark = cx.env.held();
        let is_long = self.fetch(cx).await?;
        let is = payload == if is_long { self.cursor.whole() } else { self.row().stored };
        self.cursor.let_go();
        cx.env.release_to(mark);
        Ok(is)
    }
    /// Deletes the row.
    pub async fn delete(&mut self, cx: &mut ExecContext<'_>, info: &TableInfo) -> Result<()> {
        let mark = cx.env.held();
        let row = self.cursor.row();
        let is_long =
            cx.log.as_ref().is_some_and(|log| log.needs_long(&self.table.layout, row.stored));
        if is_long {
            Box::pin(self.fetch(cx)).await?;
        }
        let row = self.cursor.row();
        cx.scratch.handlers.delete += 1;
        cx.trx.delete(&self.table, row).await?;
        cx.trx.rows.deleted += 1;
        if let Some(log) = &mut cx.log {
            let whole = if is_long { self.cursor.whole() } else { row.stored };
            log.deleted(info, row, whole, &mut cx.env.session.memory)?;
        }
        if is_long {
            self.cursor.let_go();
            cx.env.release_to(mark);
        }
        Ok(())
    }
    /// Reads the row's long columns. Returns false if the row has none. The columns stay in the
    /// cursor and in the account until the caller releases them.
    pub async fn fetch(&mut self, cx: &mut ExecContext<'_>) -> Result<bool> {
        let is_long = self.table.layout.has_externals(self.cursor.row().stored);
        if is_long {
            long_rows::fetch(
                &mut self.cursor,
                cx.trx,
                &mut cx.env.session.memory.statement,
                &mut 0,
            )
            .await?;
        }
        Ok(is_long)
    }
}

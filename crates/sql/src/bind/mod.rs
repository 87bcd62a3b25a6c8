//! Turns a syntax tree into a plan: looks up names, derives types, chooses access paths.
//!
//! **BIND-1** In a text statement, literals become parameters ("parameterized") unless the plan
//! depends on their value. Then the binder *pins* them: it keeps them as literals and reports them,
//! and the plan cache compares them.
//! **BIND-2** Binding reads the catalog and changes nothing. If a table is dropped meanwhile, the
//! plan notices when it is run (PLAN-2).
//! **BIND-3** If the place of a `?` does not decide its type (`? + 1`, `COALESCE(?, 0)`), the type
//! of its value decides. The plan is good for these types (`untyped`); other types need a new plan.
//! User variables are treated likewise; their plans serve one statement.
mod access_path;
mod admin;
mod aggregate;
mod alter;
mod alter_indexes;
mod check;
mod check_text;
pub mod collation_mix;
mod column;
mod column_def;
mod columns_read;
mod compare;
pub(crate) mod cost;
mod create_select;
mod ddl;
mod decorrelate;
mod derived;
mod determined;
mod distinct;
mod dml;
mod enum_set;
mod explained;
mod expr;
mod frame_limit;
mod from;
mod function;
mod generated_columns;
mod group;
mod hash_join;
mod index_def;
mod index_union;
mod indexed_expressions;
mod insert;
mod join_order;
mod json_table;
mod late_outputs;
mod load;
mod locking;
mod loose_scan;
mod many;
mod on_duplicate;
mod order;
mod outer;
mod postpone;
mod range;
mod recursion;
pub mod result_columns;
mod scope;
mod select;
mod selectivity;
mod set_operation;
mod subquery;
pub mod type_rules;
mod view;
mod view_definition;
mod view_names;
mod view_target;
mod view_text;
mod window;
mod zero_dates;

use crate::error::{Result, SqlError};
use crate::explain::{self, Format};
use crate::information_schema::{SCHEMA, Virtual, is_schema};
use crate::parse::charsets::TextCharsets;
use crate::parse::lexer::TokenKind;
use crate::parse::{self, Bounds, Parsed, ast};
use crate::plan::expr_set::SameIndex;
use crate::plan::{ExprType, Plan, RowLock, Statement, StatisticsUse, TableUse};
use crate::sql_mode::SqlMode;
use crate::table_info::{Catalog, TableInfo};
use aggregate::Aggregates;
pub(crate) use aggregate::LONGEST_BITS;
pub(crate) use ddl::check_table;
pub(crate) use function::{Asked, extreme_moment_type};
pub(crate) use hash_join::key as hash_key;
use redolith_engine::dict::estimate::Statistics;
use redolith_engine::dict::temporary::TEMPORARY_SCHEMA;
use redolith_engine::dict::view::View;
use redolith_types::{Charset, Collation, Value};
pub(crate) use selectivity::{DEFAULT_EQUAL, Known, STRING_PREFIX, share_of};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All that decides a statement's meaning beside its text.
pub struct BindContext<'a> {
    pub catalog: &'a dyn Catalog,
    /// The default database.
    pub schema: Option<&'a str>,
    pub mode: SqlMode,
    /// The user and the host, for messages.
    pub account: (&'a str, &'a str),
    /// `@@collation_connection`: the collation of string literals.
    pub collation: Collation,
    /// `@@default_collation_for_utf8mb4`
    pub utf8mb4: Collation,
    /// The character set of files that statements read, unless they name another.
    pub file_charset: Charset,
    /// `@@div_precision_increment`: the number of decimals that `/` and AVG add.
    pub div_precision_increment: u8,
    /// `@@group_concat_max_len`: the most bytes of a GROUP_CONCAT.
    pub group_concat_max_len: usize,
    /// The type of a system variable; None if the name is unknown.
    pub variable_type: &'a dyn Fn(&str) -> Option<ExprType>,
    /// The type of a user variable's value; None if the variable has no value.
    pub user_variable_type: &'a dyn Fn(&str) -> Option<ExprType>,
    /// `@@explain_format`
    pub explain_format: Format,
    /// The types of the `untyped` parameters (BIND-3), by ascending number. Empty while no values
    /// are known.
    pub untyped: &'a [(u32, ExprType)],
    /// The limits of the binder's work and memory.
    pub bounds: Bounds<'a>,
}

/// A plan and its pinned literals (BIND-1).
pub struct Bound {
    pub plan: Plan,
    pub pinned: Vec<u32>,
    /// A subquery is run once, with one set of parameters. So this plan cannot serve a VALUES list
    /// with more rows (DML-2).
    pub has_subqueries: bool,
}

/// What becomes a parameter of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Params {
    /// The `?` marks of the text.
    Marks,
    /// Literals, where possible. `row_stride` is the number of parameters per row if the single row
    /// of the VALUES list stands for many similar rows.
    Literals { row_stride: Option<u32> },
}

pub fn bind(parsed: &Parsed<'_>, cx: &BindContext<'_>, params: Params) -> Result<Bound> {
    let parameterize = params != Params::Marks;
    let makes_table = matches!(&parsed.statement, ast::Statement::CreateTable(create)
        if create.select.is_some());
    // A prepared statement may run with another limit, and its table must hold the rows.
    let of_any_limit = BindContext { group_concat_max_len: usize::MAX, ..*cx };
    let cx = if makes_table && !parameterize { &of_any_limit } else { cx };
    let mut binder = Binder::new(parsed, cx, parameterize);
    if let Params::Literals { row_stride } = params {
        binder.row_stride = row_stride;
    }
    let body = binder.statement(&parsed.statement)?;
    let columns = match &body {
        Statement::Select(s) if s.analyzed => vec![explain::text_column()],
        Statement::Select(s) if s.into.is_empty() && s.into_file.is_none() => s.columns.clone(),
        Statement::Show(s) => admin::show_columns(s),
        Statement::Rows(_) => std::mem::take(&mut binder.rows_columns),
        Statement::Admin(a) => admin::admin_columns(a),
        _ => Vec::new(),
    };
    let shared = matches!(
        body,
        Statement::Select(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::UpdateMany(_)
            | Statement::DeleteMany(_)
            | Statement::Transaction(_)
    );
    let is_load = matches!(&body, Statement::Insert(insert) if insert.loads());
    let is_private = binder.tables.iter().any(|used| used.table.is_temporary());
    // `explain_format` may forbid it.
    let is_analyzed = matches!(&body, Statement::Select(select) if select.analyzed);
    let cacheable =
        shared && !is_analyzed && !is_load && !is_private && !binder.reads_user_variables;
    let params = if parameterize { parsed.literals.len() as u32 } else { parsed.params };
    let untyped = if cx.untyped.is_empty() {
        binder.untyped.iter().map(|n| (*n, ExprType::null())).collect()
    } else {
        cx.untyped.into()
    };
    let param_types = std::mem::take(&mut binder.param_types);
    let (tables, views) = (std::mem::take(&mut binder.tables), std::mem::take(&mut binder.views));
    let plan = Plan {
        size: Default::default(),
        body,
        columns,
        params,
        param_types,
        untyped,
        constants: std::mem::take(&mut binder.constants).into(),
        tables,
        views,
        cacheable,
        hints: parsed.hints.clone(),
    };
    binder.pin_the_rest();
    Ok(Bound {
        plan,
        has_subqueries: binder.subqueries > 0,
        pinned: binder.pinned.into_iter().collect(),
    })
}

pub(crate) struct Binder<'a> {
    cx: &'a BindContext<'a>,
    parsed: &'a Parsed<'a>,
    parameterize: bool,
    pinned: BTreeSet<u32>,
    /// For each literal: whether it has become a parameter.
    parameterized: Vec<bool>,
    /// While true, literals are pinned.
    pinning: bool,
    param_types: Vec<ExprType>,
    /// The parameters of unknown type (BIND-3).
    untyped: BTreeSet<u32>,
    /// What becomes [`Plan::constants`].
    constants: Vec<crate::plan::Expr>,
    reads_user_variables: bool,
    /// The next SELECT is the first of the statement.
    is_outermost: bool,
    /// The user variables that take fields of the file of LOAD DATA, and the file's collation.
    loaded_variables: Vec<String>,
    loaded_collation: Collation,
    tables: Vec<TableUse>,
    /// The places in `tables` by the hash of the name.
    tables_by_name: SameIndex,
    /// The views that the statement uses, and what is around this place of them.
    views: Vec<Arc<View>>,
    inside_views: view::Inside,
    /// The changes that make the text of a view's SELECT from that of the statement; None outside
    /// the definition of a view.
    rewrites: Option<view_text::Rewrites>,
    subqueries: u16,
    /// What the subqueries around this place take from outside, the innermost last.
    taken: Vec<outer::Taken>,
    /// The recursive common table expressions around this place, the innermost last, and the number
    /// of all so far.
    recursions: Vec<recursion::Inside>,
    recursion_count: u16,
    /// The number of dependent subqueries so far.
    dependents: usize,
    /// The aggregates met so far; None where aggregates are not allowed.
    aggregates: Option<Aggregates>,
    /// Those of the queries around the subqueries around this place, the innermost last.
    around_aggregates: Vec<Option<Aggregates>>,
    /// The window functions of the SELECT.
    windows: window::Windows,
    /// The parameters per row if the single row of the VALUES list stands for many rows.
    row_stride: Option<u32>,
    /// The lock for rows that are read without a locking clause.
    reads: RowLock,
    /// The number of nodes copied for aliases.
    copied: usize,
    /// The approximate size of the plan, in bytes.
    memory: usize,
    /// The number of steps until the next look at the KILL flag.
    until_look: usize,
    /// The number of columns that were described.
    described: usize,
    /// The number of nodes that were compared in lists of expressions that begin alike.
    compared_nodes: usize,
    /// The steps that are left for the choice of join orders.
    join_steps: usize,
    /// The steps that are left for the ranges of indexes.
    range_steps: usize,
    /// A join has been bound once more for the sake of its error ([`from`]).
    tells_error: bool,
    /// The columns of `Statement::Rows`.
    rows_columns: Vec<crate::ColumnMeta>,
}

/// The number of nodes bound or visited between two looks at the KILL flag: about a millisecond.
const STEPS_PER_LOOK: usize = 4096;
/// The greatest number of levels of an expression that goes into others. Between two levels of the
/// text the binder puts one of its own at most.
const MAX_BOUND_HEIGHT: u32 = 2 * parse::MAX_HEIGHT;
/// To describe more columns of tables is long work: a column takes some 50 ns.
const SHORT_COLUMNS: usize = 10_000;
/// To compare more nodes of expressions is long work: a node takes some 100 ns.
const SHORT_COMPARED: usize = 50_000;

/// The number of a subquery, an aggregate or an output in the form that plans keep.
fn slot(n: usize) -> Result<u16> {
    u16::try_from(n).map_err(|_| SqlError::nested_too_deeply())
}

impl<'a> Binder<'a> {
    fn new(parsed: &'a Parsed<'a>, cx: &'a BindContext<'a>, parameterize: bool) -> Binder<'a> {
        let param_types =
            if parameterize { Vec::new() } else { vec![ExprType::null(); parsed.params as usize] };
        Binder {
            cx,
            parsed,
            parameterize,
            pinned: BTreeSet::new(),
            parameterized: vec![false; if parameterize { parsed.literals.len() } else { 0 }],
            pinning: false,
            param_types,
            untyped: BTreeSet::new(),
            constants: Vec::new(),
            reads_user_variables: false,
            is_outermost: false,
            loaded_variables: Vec::new(),
            loaded_collation: Collation::Binary,
            tables: Vec::new(),
            tables_by_name: SameIndex::default(),
            views: Vec::new(),
            inside_views: view::Inside::default(),
            rewrites: None,
            subqueries: 0,
            taken: Vec::new(),
            recursions: Vec::new(),
            recursion_count: 0,
            dependents: 0,
            aggregates: None,
            around_aggregates: Vec::new(),
            windows: window::Windows::default(),
            row_stride: None,
            reads: RowLock::None,
            copied: 0,
            memory: 0,
            until_look: STEPS_PER_LOOK,
            described: 0,
            compared_nodes: 0,
            join_steps: join_order::STEPS,
            range_steps: access_path::RANGE_STEPS,
            tells_error: false,
            rows_columns: Vec::new(),
        }
    }

    fn statement(&mut self, statement: &ast::Statement) -> Result<Statement> {
        use ast::Statement as S;
        let makes_rows = matches!(statement, S::CreateTable(create) if create.select.is_some());
        if makes_rows
            || matches!(statement, S::Insert(_) | S::Load(_) | S::Update(_) | S::Delete(_))
        {
            self.reads = RowLock::ShareForChange;
        }
        match statement {
            S::Select(select) => {
                self.is_outermost = true;
                let mut plan = self.select(select, None)?;
                plan.counts_all = select.first_select().calc_found_rows;
                Ok(Statement::Select(plan))
            }
            S::Insert(insert) => Ok(Statement::Insert(self.insert(insert)?)),
            S::Load(load) => self.pinned(|b| b.load(load)).map(Statement::Insert),
            S::Update(update) if update.is_many() || self.is_join_view(&update.tables)? => {
                Ok(Statement::UpdateMany(Box::new(self.update_many(update)?)))
            }
            S::Delete(delete) if !delete.targets.is_empty() => {
                Ok(Statement::DeleteMany(Box::new(self.delete_many(delete)?)))
            }
            S::Update(update) => Ok(Statement::Update(self.update(update)?)),
            S::Delete(delete) => Ok(Statement::Delete(self.delete(delete)?)),
            S::Explain(inner) => self.explain(inner),
            S::CreateDatabase { .. }
            | S::AlterDatabase { .. }
            | S::DropDatabase { .. }
            | S::CreateTable(_)
            | S::CreateTableLike { .. }
            | S::DropTables { .. }
            | S::CreateView(_)
            | S::DropViews { .. }
            | S::Truncate(_)
            | S::RenameTables(_)
            | S::Alter { .. } => self.pinned(|b| b.ddl(statement)).map(Statement::Ddl),
            other => self.pinned(|b| b.administration(other)),
        }
    }

    /// Counts work. Error 1317 if the statement has been killed.
    fn step(&mut self, steps: usize) -> Result<()> {
        self.until_look = self.until_look.saturating_sub(steps);
        if self.until_look == 0 {
            self.until_look = STEPS_PER_LOOK;
            if self.cx.bounds.is_killed() {
                return Err(SqlError::interrupted());
            }
        }
        Ok(())
    }
    /// Counts columns of tables that are described for a SELECT, and forgotten with it.
    fn describe(&mut self, columns: usize) -> Result<()> {
        self.described += columns;
        if self.described > SHORT_COLUMNS && self.cx.bounds.is_short() {
            return Err(self.cx.bounds.exceeded());
        }
        self.step(columns)
    }
    /// Looks an expression up in a list.
    fn find_same(
        &mut self,
        known: &SameIndex,
        expr: &crate::plan::Expr,
        list: &[crate::plan::Expr],
    ) -> Result<Option<usize>> {
        known.find_counting(expr, list, |nodes| self.compared(nodes))
    }
    /// Counts nodes of expressions that were compared because they begin alike.
    fn compared(&mut self, nodes: usize) -> Result<()> {
        self.compared_nodes += nodes;
        if self.compared_nodes > SHORT_COMPARED && self.cx.bounds.is_short() {
            return Err(self.cx.bounds.exceeded());
        }
        self.step(nodes)
    }
    /// Refuses an expression that has become too high to be put into another one: copies of copies,
    /// and rows within rows, add up to more than the parser has counted.
    fn check_height(&self, expr: &crate::plan::Expr) -> Result<()> {
        if expr.height() > MAX_BOUND_HEIGHT { Err(SqlError::nested_too_deeply()) } else { Ok(()) }
    }
    /// Charges for nodes of the plan beyond the nodes of the syntax tree, which the parser has
    /// charged for. Names and lists may stand for many nodes.
    fn charge(&mut self, nodes: usize) -> Result<()> {
        self.memory += nodes * size_of::<crate::plan::Expr>();
        if self.memory > self.cx.bounds.memory {
            Err(self.cx.bounds.exceeded())
        } else {
            self.step(nodes)
        }
    }

    /// Parses a text that the dictionary keeps, with the memory that the statement has left, and
    /// charges for the tree.
    fn parse_kept<'t>(
        &mut self,
        text: &'t [u8],
        mode: SqlMode,
        charsets: TextCharsets,
    ) -> Result<Parsed<'t>>
    where
        Self: 't,
    {
        let bounds = self.cx.bounds;
        let left = Bounds { memory: bounds.memory.saturating_sub(self.memory), ..bounds };
        let parsed = parse::parse(text, 0..text.len(), None, mode, charsets, left);
        let parsed = parsed.map_err(|e| match e.code == bounds.exceeded().code {
            true => bounds.exceeded(),
            false => e,
        })?;
        self.memory += parsed.memory;
        self.step(text.len() / 8 + 1)?;
        Ok(parsed)
    }

    /// Runs `f` with pinned literals.
    fn pinned<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.pinning, true);
        let result = f(self);
        self.pinning = before;
        result
    }

    /// Pins the literals that are not expressions, because they are part of the plan: the length in
    /// CAST(x AS CHAR(5)), an alias, the name of a character set as a string.
    fn pin_the_rest(&mut self) {
        self.pinned.extend(
            (0..)
                .zip(&self.parameterized)
                .filter(|(_, parameterized)| !**parameterized)
                .map(|(n, _)| n),
        );
    }

    /// Returns the value of a literal and pins the literal.
    fn literal_value(&mut self, number: u32) -> Result<Value<'static>> {
        self.pinned.insert(number);
        let value = self.parsed.literal(number)?.into_owned();
        self.charge(crate::memory::bytes_of(&value) / size_of::<crate::plan::Expr>())?;
        Ok(value)
    }
    /// The collation of a string literal without an introducer.
    fn literal_collation(&self, number: u32) -> Collation {
        match self.parsed.literal_kind(number) {
            TokenKind::National => Collation::Utf8mb3GeneralCi,
            _ => self.cx.collation,
        }
    }
    /// The text, in UTF-8, of a string literal in the connection's character set. If that is
    /// binary, the bytes are read as text of `bytes_in`.
    fn connection_text(&mut self, number: u32, bytes_in: Charset) -> Result<String> {
        let charset = match self.literal_collation(number).charset() {
            Charset::Binary => bytes_in,
            charset => charset,
        };
        let value = self.literal_value(number)?;
        TextCharsets { client: charset, connection: charset }.name(&value.to_bytes())
    }
    fn literal_text(&mut self, number: u32) -> Result<String> {
        self.pinned.insert(number);
        self.parsed.literal_text(number)
    }
    /// Error 1064 at a place that the parser has accepted.
    fn syntax_at(&self, span: ast::Span) -> SqlError {
        let start = span.start as usize;
        let line = 1 + self.parsed.text[..start].iter().filter(|b| **b == b'\n').count();
        SqlError::syntax(&self.parsed.charsets.shown(&self.parsed.text[start..]), line)
    }
    fn is_hex(&self, expr: &ast::Expr) -> bool {
        let ast::ExprKind::Literal(n) = expr.kind else { return false };
        matches!(self.parsed.literal_kind(n), TokenKind::Hex | TokenKind::Bits)
    }

    /// True if the bytes of an expression are a number where a number is wanted: a hexadecimal
    /// literal, or NULLIF of a hexadecimal literal.
    fn is_hex_number(&self, expr: &ast::Expr) -> bool {
        match &expr.kind {
            ast::ExprKind::Call(call) if call.name == "NULLIF" => {
                call.args.first().is_some_and(|chosen| self.is_hex(chosen))
            }
            _ => self.is_hex(expr),
        }
    }

    fn schema_of<'n>(&'n self, name: &'n ast::Name) -> Result<&'n str> {
        match name.schema.as_deref().or(self.cx.schema) {
            // TEMPTABLE-6
            Some(TEMPORARY_SCHEMA) => Err(SqlError::unknown_database(TEMPORARY_SCHEMA)),
            schema => schema.ok_or_else(SqlError::no_database),
        }
    }

    /// The table of INFORMATION_SCHEMA with this name; None if the schema is another one.
    fn virtual_table(&self, name: &ast::Name) -> Result<Option<Virtual>> {
        if !is_schema(self.schema_of(name)?) {
            return Ok(None);
        }
        Virtual::from_name(&name.name)
            .map(Some)
            .ok_or_else(|| SqlError::unknown_information_table(&name.name))
    }

    /// The statistics of a table that the statement has opened: the plan holds while they do.
    /// Without current ones they are noted as wanted, and the statement is bound again when they
    /// are there.
    fn statistics(&mut self, table: &Arc<TableInfo>) -> Option<Arc<Statistics>> {
        let used = self.tables.iter_mut().find(|used| Arc::ptr_eq(&used.table, table))?;
        if let StatisticsUse::Known(statistics) = &used.statistics {
            return Some(statistics.clone());
        }
        let found = table.statistics();
        used.statistics = found.clone().map_or(StatisticsUse::Wanted, StatisticsUse::Known);
        found
    }

    /// INFORMATION_SCHEMA cannot be changed (ISCH-2).
    fn refuse_information_schema(&self, name: &ast::Name) -> Result<()> {
        if is_schema(self.schema_of(name)?) {
            let (user, host) = (self.cx.account.0, self.cx.account.1);
            return Err(SqlError::access_denied_database(user, host, SCHEMA));
        }
        Ok(())
    }

    /// Looks up a table and notes its use.
    fn open_table(&mut self, name: &ast::Name, write: bool) -> Result<Arc<TableInfo>> {
        let schema = self.schema_of(name)?;
        // Only changes come here.
        self.refuse_information_schema(name)?;
        let Some(table) = self.cx.catalog.table(schema, &name.name) else {
            if self.cx.catalog.view(schema, &name.name).is_some() {
                return Err(SqlError::unsupported("this statement for a view"));
            }
            return Err(if self.cx.catalog.schema(schema).is_none() {
                SqlError::unknown_database(schema)
            } else {
                SqlError::no_such_table(schema, &name.name)
            });
        };
        let def = &table.def;
        if table.is_temporary() && self.rewrites.is_some() {
            return Err(SqlError::temporary_table_in_view(&def.name));
        }
        let hash = self.tables_by_name.hash((&def.schema, &def.name), std::iter::empty());
        let same = |t: &TableUse| t.table.is_same(&table);
        match self.tables_by_name.find(hash, |place| same(&self.tables[place])) {
            // A statement sees one definition of each table.
            Some(place) => {
                let seen = &mut self.tables[place];
                seen.write |= write;
                Ok(seen.table.clone())
            }
            None => {
                self.tables_by_name.insert(hash, self.tables.len());
                self.tables.push(TableUse {
                    table: table.clone(),
                    write,
                    statistics: StatisticsUse::None,
                });
                Ok(table)
            }
        }
    }
}

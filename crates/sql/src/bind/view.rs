//! Binds the definitions and the uses of views.
//!
//! A view's text is parsed and bound wherever the view is named, by a binder of its own that counts
//! for the statement's: the memory, the tables and the subqueries are those of the statement. So
//! views that use each other twice, and again, end at `parser_max_mem_size` like definitions of
//! WITH.
//!
//! **VBIND-1** A view of tables, joins and conditions is merged: its tables become sources of the
//! query around it, its conditions go to the place where the view stands, and a column of the view
//! is an expression of its tables ([`ScopeView`](super::scope::ScopeView)). So the indexes of its
//! tables serve. Every other view is a derived table.
//! **VBIND-2** On the inner side of an outer join only columns of tables are merged: the row of
//! NULLs must make every column NULL.
//! **VBIND-3** No statement binds a view within itself (error 1462), and views in views are not
//! deeper than what the parser allows for queries in queries (error 1436).
use super::Binder;
use super::columns_read;
use super::derived::name_columns;
use super::enum_set::keep_numbers;
use super::expr::Env;
use super::from::{FromClause, Raw, RawNest};
use super::scope::{Clause, Scope, ScopeColumn, ScopeSource};
use super::select::{Items, RawKind, flatten};
use super::{aggregate::Aggregates, slot};
use crate::bind::BindContext;
use crate::error::{Result, SqlError};
use crate::parse::Parsed;
use crate::parse::ast::{self, ExprKind as A, SelectItem};
use crate::parse::charsets::TextCharsets;
use crate::parse::limits::{MAX_TABLES, MAX_VIEW_HEIGHT};
use crate::plan::{Expr, ExprKind, RowLock, SelectPlan};
use crate::sql_mode::SqlMode;
use redolith_engine::dict::view::{Algorithm, CheckOption, View};
use redolith_types::Charset;
use std::sync::Arc;

/// The views around a place.
#[derive(Clone, Default)]
pub(super) struct Inside {
    pub around: Vec<Arc<View>>,
    /// The levels of their trees, in all.
    pub height: u32,
}

/// Where a view stands in a FROM clause.
pub(super) struct ViewPlace<'p> {
    pub alias: &'p str,
    pub nest: Option<u16>,
    /// Its columns may be NULL although their tables say otherwise.
    pub nullable: bool,
}

/// A view whose tables go into the query around it.
struct Merged {
    from: FromClause,
    conditions: Vec<Expr>,
    items: Items,
    tables: Vec<ScopeSource>,
}
enum Expanded {
    Merged(Box<Merged>),
    Made(Box<SelectPlan>),
}

/// An expression of more levels is not put in the place of a view's column.
const MAX_COLUMN_HEIGHT: u32 = 64;
/// Nor is one of more bytes, its literals included: each use of the column is a copy.
const MAX_COLUMN_BYTES: usize = 16 << 10;

impl Binder<'_> {
    /// The view of this name, if it is a view's.
    pub(super) fn view_named(&self, name: &ast::Name) -> Result<Option<Arc<View>>> {
        Ok(self.cx.catalog.view(self.schema_of(name)?, &name.name))
    }

    /// Adds a view to a FROM clause.
    pub(super) fn view(
        &mut self,
        view: &Arc<View>,
        place: ViewPlace<'_>,
        from: &mut FromClause,
        scope: &mut Scope,
    ) -> Result<()> {
        let room = MAX_TABLES.saturating_sub(scope.sources.len());
        let (nested, merges) = (place.nest.is_some(), view.def.algorithm != Algorithm::Temptable);
        let expanded = self.in_view(view, |b, select| {
            if merges && is_plain(select) {
                return b.plain_view(select, nested, room);
            }
            b.select(select, None).map(|plan| Expanded::Made(Box::new(plan)))
        })?;
        match expanded {
            Expanded::Merged(merged) => self.merge(view, place, *merged, from, scope),
            Expanded::Made(mut plan) => {
                check_width(view, plan.visible)?;
                let names: Vec<String> =
                    view.def.def.columns.iter().map(|c| c.name.clone()).collect();
                name_columns(&mut plan, &names)?;
                let source = scope.add_derived(place.alias, &plan.columns, place.nullable)?;
                let columns = &mut scope.sources[source as usize].columns;
                let [schema, name] = names_of(view);
                for column in columns.iter_mut() {
                    (column.meta.schema, column.meta.org_table) = (schema.clone(), name.clone());
                }
                keep_numbers(&mut plan, columns);
                let kind = RawKind::Derived(plan);
                from.sources.push(Raw::new(kind, place.nest, 0));
                Ok(())
            }
        }
    }

    /// Binds something in the SELECT of a view, which has its own text and modes.
    pub(super) fn in_view<T>(
        &mut self,
        view: &Arc<View>,
        f: impl FnOnce(&mut Binder<'_>, &ast::Select) -> Result<T>,
    ) -> Result<T> {
        let def = &view.def.def;
        let same = |v: &Arc<View>| v.def.def.name == def.name && v.def.def.schema == def.schema;
        if self.inside_views.around.iter().any(same) {
            return Err(SqlError::view_recursion(&def.schema, &def.name));
        }
        if !self.views.iter().any(|used| Arc::ptr_eq(used, view)) {
            self.views.push(view.clone());
        }
        let parsed = self.parse_view(view)?;
        let ast::Statement::Select(select) = &parsed.statement else {
            return Err(invalid(view));
        };
        let inside = self.inside_views.clone();
        self.inside_views.around.push(view.clone());
        self.inside_views.height += select.height;
        let bound = if self.inside_views.height > MAX_VIEW_HEIGHT {
            Err(SqlError::nested_too_deeply())
        } else {
            self.bind_inside(view, &parsed, |b| f(b, select))
        };
        self.inside_views = inside;
        bound.map_err(|e| if is_about_names(&e) { invalid(view) } else { e })
    }

    /// The tree of a view, charged for.
    fn parse_view<'v>(&mut self, view: &'v View) -> Result<Parsed<'v>>
    where
        Self: 'v,
    {
        let charsets = TextCharsets {
            client: Charset::Utf8mb4,
            connection: view.def.collation_connection.charset(),
        };
        self.parse_kept(view.def.select.as_bytes(), SqlMode(view.def.mode), charsets)
    }

    /// Runs `f` with a binder for another text, which goes on with what belongs to the statement.
    fn bind_inside<T>(
        &mut self,
        view: &View,
        parsed: &Parsed<'_>,
        f: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<T> {
        let cx = BindContext {
            // TEMPTABLE-4: a view's names are those of all sessions.
            catalog: self.cx.catalog.shared().unwrap_or(self.cx.catalog),
            schema: Some(&view.def.def.schema),
            mode: SqlMode(view.def.mode),
            account: self.cx.account,
            collation: view.def.collation_connection,
            utf8mb4: self.cx.utf8mb4,
            file_charset: self.cx.file_charset,
            div_precision_increment: self.cx.div_precision_increment,
            group_concat_max_len: self.cx.group_concat_max_len,
            explain_format: self.cx.explain_format,
            variable_type: self.cx.variable_type,
            user_variable_type: self.cx.user_variable_type,
            untyped: &[],
            bounds: self.cx.bounds,
        };
        let mut inner = Binder::new(parsed, &cx, false);
        inner.reads = self.reads;
        share(self, &mut inner);
        let bound = f(&mut inner);
        share(&mut inner, self);
        bound
    }

    /// Binds a SELECT that may be merged.
    fn plain_view(&mut self, select: &ast::Select, nested: bool, room: usize) -> Result<Expanded> {
        let (mut scope, dependents) = (Scope::default(), self.dependents);
        let mut from = self.from(select, &mut scope, None)?;
        self.aggregates = None;
        let mut conditions = Vec::new();
        if let Some(filter) = &select.filter {
            let filter = self.condition(&Env::new(&scope, Clause::Where), filter)?;
            flatten(self.with_zero_dates(filter, &scope)?, &mut conditions);
        }
        self.aggregates = Some(Aggregates::default());
        let items = self.pinned(|b| b.items(&Env::new(&scope, Clause::Fields), &select.items))?;
        if self.aggregates.take().is_some_and(|found| !found.list.is_empty()) {
            return self.select(select, None).map(|plan| Expanded::Made(Box::new(plan)));
        }
        let is_column = |e: &Expr| match &e.kind {
            ExprKind::Member { number, .. } => matches!(number.kind, ExprKind::Column { .. }),
            kind => matches!(kind, ExprKind::Column { .. }),
        };
        let fits = |e: &Expr| {
            (is_column(e) || !nested)
                && e.height() <= MAX_COLUMN_HEIGHT
                && e.bytes() <= MAX_COLUMN_BYTES
                && !e.any(&Expr::is_volatile_node)
        };
        if scope.sources.len() <= room && items.output.iter().all(fits) {
            let tables = scope.sources;
            from.checks = self.checks(&mut from, &conditions);
            return Ok(Expanded::Merged(Box::new(Merged { from, conditions, items, tables })));
        }
        let lock = self.reads;
        let mut plan = SelectPlan {
            columns: items.columns,
            locking: lock != RowLock::None,
            dependent: self.dependents > dependents,
            ..SelectPlan::of_outputs(items.output)
        };
        columns_read::find_covering(&plan, &mut from, &conditions, lock);
        let locks = vec![lock; from.sources.len()];
        self.place(&mut plan, from, conditions, &locks, &scope)?;
        self.check_effects(&plan)?;
        Ok(Expanded::Made(Box::new(plan)))
    }

    /// What new rows of the view around this place must pass (VDML-2). The conditions of the views
    /// below are in the FROM clause.
    fn checks(&mut self, from: &mut FromClause, conditions: &[Expr]) -> Vec<Expr> {
        let mut checks = std::mem::take(&mut from.checks);
        let check = self.inside_views.around.last().map_or(CheckOption::None, |v| v.def.check);
        if check == CheckOption::Cascaded {
            checks = from.on.clone();
        }
        if check != CheckOption::None {
            checks.extend_from_slice(conditions);
        }
        checks
    }

    /// Puts the tables of a view in the place of the view (VBIND-1).
    fn merge(
        &mut self,
        view: &Arc<View>,
        place: ViewPlace<'_>,
        merged: Merged,
        from: &mut FromClause,
        scope: &mut Scope,
    ) -> Result<()> {
        let Merged { from: inner, conditions, items, tables } = merged;
        check_width(view, items.output.len())?;
        slot(scope.sources.len() + tables.len())?;
        slot(from.nests.len() + inner.nests.len())?;
        let (base, nests) = (scope.sources.len() as u16, from.nests.len() as u16);
        let shifted = |mut e: Expr| {
            shift(&mut e, base, false);
            e
        };
        let nest = |inner: Option<u16>| inner.map(|n| n + nests).or(place.nest);
        for source in inner.sources {
            let kind = match source.kind {
                RawKind::Lateral(plan, outer) => {
                    RawKind::Lateral(plan, outer.into_iter().map(shifted).collect())
                }
                kind => kind,
            };
            let after = source.after.checked_shl(base.into()).unwrap_or(0);
            from.sources.push(Raw::new(kind, nest(source.nest), after));
        }
        from.nests.extend(inner.nests.into_iter().map(|n| RawNest {
            first: n.first + base,
            last: n.last + base,
            parent: nest(n.parent),
            on: n.on.into_iter().map(shifted).collect(),
        }));
        from.checks.extend(inner.checks.into_iter().map(shifted));
        let own = inner.on.into_iter().chain(conditions).map(shifted);
        from.conditions(place.nest).extend(own);
        let [schema, name] = names_of(view);
        let alias: Arc<str> = Arc::from(place.alias);
        let column = |(n, (mut value, mut meta)): (usize, (Expr, crate::ColumnMeta))| {
            shift(&mut value, base, place.nullable);
            meta.ty = value.ty;
            (meta.schema, meta.table) = (schema.clone(), alias.clone());
            meta.org_table = name.clone();
            meta.name = Arc::from(&*view.def.def.columns[n].name);
            meta.org_name = meta.name.clone();
            let name = meta.name.clone();
            ScopeColumn { name, meta, hidden: false, merged: false, expr: value.kind }
        };
        let columns = items.output.into_iter().zip(items.columns).enumerate().map(column);
        let columns = columns.collect();
        let names = ScopeSource::new(Some(schema.clone()), alias.clone(), None, columns);
        scope.add_view(tables, names)
    }

    /// The value of a column, which may be a whole expression of a view.
    pub(super) fn column_value(&mut self, scope: &Scope, at: (usize, usize)) -> Result<Expr> {
        let column = scope.column(at);
        let value = Expr::new(column.expr.clone(), column.ty());
        self.charge(value.bytes().div_ceil(size_of::<Expr>()))?;
        Ok(value)
    }
}

/// Moves what belongs to the whole statement.
fn share(from: &mut Binder<'_>, to: &mut Binder<'_>) {
    use std::mem::take;
    to.tables = take(&mut from.tables);
    to.tables_by_name = take(&mut from.tables_by_name);
    to.views = take(&mut from.views);
    to.inside_views = take(&mut from.inside_views);
    (to.subqueries, to.recursion_count) = (from.subqueries, from.recursion_count);
    (to.dependents, to.memory, to.until_look) = (from.dependents, from.memory, from.until_look);
    (to.join_steps, to.described) = (from.join_steps, from.described);
}

fn names_of(view: &View) -> [Arc<str>; 2] {
    [&view.def.def.schema, &view.def.def.name].map(|name| Arc::from(name.as_str()))
}
fn invalid(view: &View) -> SqlError {
    SqlError::view_is_invalid(&view.def.def.schema, &view.def.def.name)
}
/// Fails if the SELECT of a view no longer gives as many columns as the view has.
fn check_width(view: &View, columns: usize) -> Result<()> {
    if columns == view.def.def.columns.len() { Ok(()) } else { Err(invalid(view)) }
}
/// True if the error says that something which the view names is not there.
fn is_about_names(e: &SqlError) -> bool {
    matches!(e.code, 1049 | 1051 | 1052 | 1054 | 1064 | 1109 | 1146 | 1176 | 1305 | 1356)
}

/// Makes an expression of a view one of the query around it, in which the view's sources come after
/// `base` others. `nullable`: they may be NULL there.
fn shift(e: &mut Expr, base: u16, nullable: bool) {
    if let ExprKind::Column { source, .. } = &mut e.kind {
        *source += base;
    }
    e.ty.nullable |= nullable;
    e.parts_mut(&mut |part| shift(part, base, nullable));
}

/// True if the rows of a SELECT are the rows of its tables that pass its conditions (VBIND-1).
pub(super) fn is_plain(select: &ast::Select) -> bool {
    let simple = select.more.is_empty()
        && select.first.is_none()
        && !select.from.is_empty()
        && !select.straight_join;
    let shown = !select.distinct && select.group.is_empty() && select.having.is_none();
    let whole = select.windows.is_empty() && !select.is_cut_or_sorted() && select.locks.is_empty();
    simple && shown && whole && select.items.iter().all(is_plain_item)
}
fn is_plain_item(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(..) => true,
        SelectItem::Expr { expr, .. } => is_plain_value(expr),
    }
}
/// True for an expression of one row, without subqueries and variables.
fn is_plain_value(e: &ast::Expr) -> bool {
    let all = |list: &[ast::Expr]| list.iter().all(is_plain_value);
    match &e.kind {
        A::Literal(_) | A::Introduced(..) | A::Temporal(..) | A::Null | A::Bool(_) => true,
        A::Text(_) | A::Number(_) | A::Name(_) => true,
        A::Unary(_, e) | A::Cast(e, _) | A::Transcode(e, _) | A::Collate(e, _) => is_plain_value(e),
        A::IsNull { value, .. } | A::IsTruth { value, .. } => is_plain_value(value),
        A::Binary(_, left, right) => is_plain_value(left) && is_plain_value(right),
        A::And(list) | A::Or(list) => all(list),
        A::Between { value, low, high, .. } => {
            [value, low, high].into_iter().all(|e| is_plain_value(e))
        }
        A::In { value, list, .. } => is_plain_value(value) && all(list),
        A::Like { value, pattern, escape, .. } => {
            [value, pattern].into_iter().chain(escape).all(|e| is_plain_value(e))
        }
        A::Regexp { value, pattern, .. } => is_plain_value(value) && is_plain_value(pattern),
        A::Interval { date, amount, .. } => is_plain_value(date) && is_plain_value(amount),
        A::Case { operand, branches, otherwise } => {
            operand.iter().chain(otherwise).all(|e| is_plain_value(e))
                && branches.iter().all(|(when, then)| is_plain_value(when) && is_plain_value(then))
        }
        A::Call(call) => {
            !call.star && !call.distinct && !is_aggregate(&call.name) && all(&call.args)
        }
        _ => false,
    }
}
pub(super) fn is_aggregate(name: &str) -> bool {
    const NAMES: [&str; 20] = [
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "GROUP_CONCAT",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "STD",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "VAR_POP",
        "VAR_SAMP",
        "VARIANCE",
        "JSON_ARRAYAGG",
        "JSON_OBJECTAGG",
        "ANY_VALUE",
        "GROUPING",
    ];
    NAMES.contains(&name)
}

//! Binds what an INSERT does about a row whose key is taken.
//!
//! **ODKU-1** The assignments of ON DUPLICATE KEY UPDATE may name columns of the tables of a SELECT
//! that has neither DISTINCT nor GROUP BY and is no UNION. Each such column becomes one more item
//! of the SELECT, behind those that the table gets. To the assignments, the SELECT's row is a
//! second source ([`SELECTED`]). As in MySQL, a name that the table and a table of the SELECT both
//! have is then error 1052. In a statement whose assignments name no column of the SELECT's tables,
//! it means the table's column.
use super::Binder;
use super::dml::not_read_from;
use super::enum_set::give_number;
use super::result_columns;
use super::scope::{Scope, ScopeColumn, ScopeSource};
use super::subquery::check_effects_of;
use super::view_target::ChangeTarget;
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::plan::{Assignment, Expr, ExprKind, OnDuplicate, SelectPlan};
use crate::table_info::TableInfo;
use std::collections::HashSet;
use std::sync::Arc;

/// ER_BAD_FIELD_ERROR
const UNKNOWN_COLUMN: u16 = 1054;
/// The source of expressions that is the row of the SELECT.
const SELECTED: u16 = 1;

impl Binder<'_> {
    /// `scope` has the changed table. If there are assignments, a name for the new row is added.
    pub(super) fn on_duplicate(
        &mut self,
        scope: &mut Scope,
        table: &Arc<TableInfo>,
        insert: &ast::Insert,
    ) -> Result<OnDuplicate> {
        if insert.replace {
            return Ok(OnDuplicate::Replace);
        }
        if insert.on_duplicate.is_empty() {
            return Ok(OnDuplicate::Error);
        }
        if let Some((alias, names)) = &insert.row_alias {
            scope.add(new_row(table, alias, names)?)?;
        }
        self.checked_assignments(scope, table, insert)
    }

    fn checked_assignments(
        &mut self,
        scope: &Scope,
        table: &Arc<TableInfo>,
        insert: &ast::Insert,
    ) -> Result<OnDuplicate> {
        let assignments = self.assignments(scope, table, &insert.on_duplicate)?;
        // A subquery over the table is run before the first change, unless it depends on the row.
        // With VALUES, MySQL refuses this one, too.
        let is_read = |a: &&Assignment| {
            matches!(insert.source, ast::InsertSource::Values(_)) || a.value.has_dependent()
        };
        assignments.iter().filter(is_read).try_for_each(|a| not_read_from(&a.value, table))?;
        let chained = assignments.iter().any(|a| a.reads_assigned);
        check_effects_of([].iter(), assignments.iter().map(|a| &a.value), chained)?;
        Ok(OnDuplicate::Update(assignments))
    }

    /// Binds INSERT .. SELECT .. ON DUPLICATE KEY UPDATE. `values` is the number of the values that
    /// the table gets.
    pub(super) fn select_and_on_duplicate(
        &mut self,
        target: ChangeTarget,
        values: usize,
        insert: &ast::Insert,
        select: &ast::Select,
    ) -> Result<(SelectPlan, OnDuplicate)> {
        let ChangeTarget { table, mut scope, .. } = target;
        let on_duplicate = self.on_duplicate(&mut scope, &table, insert);
        let lacks_name = on_duplicate.as_ref().is_err_and(|e| e.code == UNKNOWN_COLUMN);
        let own = scope.sources.len();
        let plan = self.select(select, None)?;
        if plan.visible != values {
            return Err(SqlError::column_count(1));
        }
        let is_grouped = plan.grouping.is_some() || !select.group.is_empty();
        if !lacks_name || is_grouped || !self.add_selected_tables(&mut scope, select)? {
            return Ok((plan, on_duplicate?));
        }
        // One more item would make other rows distinct.
        if select.distinct {
            let what = "columns of the tables of SELECT DISTINCT in ON DUPLICATE KEY UPDATE";
            return Err(SqlError::unsupported(what));
        }
        let (longer, named) = self.with_named_columns(&scope, own, &table, insert, select)?;
        let mut select = self.select(&longer, None)?;
        if select.visible != values + named.len() {
            return Err(SqlError::column_count(1));
        }
        for (n, at) in (values..).zip(named) {
            let column = scope.column_mut(at);
            column.expr = ExprKind::Column { source: SELECTED, column: super::slot(n)? };
            column.meta.ty = select.columns[n].ty;
            if let Some((ty, names)) = give_number(&mut select, n) {
                let ty = ty.nullable(column.ty().nullable);
                column.expr = names.of(Expr::new(column.expr.clone(), ty));
            }
        }
        let on_duplicate = self.checked_assignments(&scope, &table, insert)?;
        Ok((select, on_duplicate))
    }

    /// Adds the tables of the SELECT to the names of the assignments. False if these may not name
    /// them.
    fn add_selected_tables(&mut self, scope: &mut Scope, select: &ast::Select) -> Result<bool> {
        if !select.more.is_empty() || select.first.is_some() {
            return Ok(false);
        }
        let mut inner = Scope::default();
        self.from(select, &mut inner, None)?;
        for (_, source) in inner.matching(None, None) {
            let place = super::slot(scope.sources.len())?;
            let columns = source.columns.iter().enumerate().map(|(n, column)| ScopeColumn {
                name: column.name.clone(),
                meta: column.meta.clone(),
                hidden: column.hidden,
                merged: column.merged,
                expr: ExprKind::Column { source: place, column: n as u16 },
            });
            let (schema, alias) = (source.schema.clone(), source.alias.clone());
            // The SELECT may have the changed table, too: then its names have two meanings.
            scope.sources.push(ScopeSource::new(schema, alias, None, columns.collect()));
        }
        Ok(true)
    }

    /// The SELECT with an item for each column of its tables that the assignments name, and the
    /// places of these columns in `scope`, where the SELECT's tables begin at `first`.
    fn with_named_columns(
        &mut self,
        scope: &Scope,
        first: usize,
        table: &Arc<TableInfo>,
        insert: &ast::Insert,
        select: &ast::Select,
    ) -> Result<(ast::Select, Vec<(usize, usize)>)> {
        let assignments = self.assignments(scope, table, &insert.on_duplicate)?;
        let (mut seen, mut named) = (HashSet::new(), Vec::new());
        for Assignment { value, .. } in &assignments {
            value.walk(&mut |e| {
                if let ExprKind::Column { source, column } = e.kind
                    && usize::from(source) >= first
                    && seen.insert((source, column))
                {
                    named.push((usize::from(source), usize::from(column)));
                }
            });
        }
        // The copy is as large as the parser's tree.
        self.charge(self.parsed.memory / size_of::<Expr>())?;
        let mut longer = select.clone();
        for &(place, column) in &named {
            let source = scope.named(place);
            let name = ast::ColumnName {
                schema: source.schema.as_deref().map(str::to_string),
                table: Some(source.alias.to_string()),
                column: source.columns[column].name.to_string(),
            };
            let kind = ast::ExprKind::Name(name);
            let expr = ast::Expr { kind, span: ast::Span::default(), height: 1 };
            // The item has no name that another clause could mean.
            longer.items.push(ast::SelectItem::Expr { expr, alias: Some(String::new()) });
        }
        Ok((longer, named))
    }
}

/// The source of `AS new(a, b)`: the names of the row that could not be inserted.
fn new_row(table: &Arc<TableInfo>, alias: &str, names: &[String]) -> Result<ScopeSource> {
    if !names.is_empty() && names.len() != table.def.columns.len() {
        return Err(SqlError::column_count(1));
    }
    let alias: Arc<str> = Arc::from(alias);
    let columns = (0..table.def.columns.len()).map(|i| {
        let meta = result_columns::column_meta(table, &alias, i, names.get(i).map(String::as_str));
        ScopeColumn {
            name: meta.name.clone(),
            meta,
            hidden: false,
            merged: false,
            expr: ExprKind::InsertedValue(i as u16),
        }
    });
    let columns = columns.collect();
    Ok(ScopeSource::new(None, alias, None, columns))
}

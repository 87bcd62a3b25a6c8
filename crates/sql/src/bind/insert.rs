//! Binds INSERT and REPLACE.
use super::Binder;
use super::create_select::fit_outputs;
use super::expr::{Env, as_number};
use super::generated_columns::refuse_values;
use super::result_columns;
use super::scope::{Clause, Scope};
use super::view_target::ChangeTarget;
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, InsertSource};
use crate::plan::expr_type::NOT_FIXED_DECIMALS;
use crate::plan::{
    ArithOp, Assignment, DefaultFill, Expr, ExprKind, Fill, InsertPlan, InsertRows, InsertValue,
    Kind, TableName,
};
use crate::table_info::TableInfo;
use redolith_types::{SqlType, TableDef};
use std::sync::Arc;

/// A quotient is stored with all its decimals, not with the decimals that it shows, unless the rows
/// pass through a temporary table.
fn keep_digits(output: &mut Expr) {
    if matches!(output.kind, ExprKind::Arith { op: ArithOp::Divide, .. })
        && output.ty.kind == Kind::Decimal
    {
        output.ty.decimals = NOT_FIXED_DECIMALS;
    }
}

impl Binder<'_> {
    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<InsertPlan> {
        let verb = if insert.replace { "REPLACE" } else { "INSERT" };
        let mut target = self.change_target(&insert.table, None, verb)?;
        target.scope.inserted = Some(target.place);
        let (table, check) = (target.table.clone(), target.check.clone());
        // An empty list is none.
        let names = insert.columns.as_deref().filter(|names| !names.is_empty());
        let columns = match target.scope.is_view(target.place) {
            true => view_columns(&target, names, verb)?,
            false => insert_columns(&table, names)?,
        };
        let view = match target.scope.is_view(target.place) {
            true => Some(self.table_name(&insert.table)?),
            false => None,
        };
        let updates = !insert.on_duplicate.is_empty();
        if view.is_some() && (insert.row_alias.is_some() || check.is_some() && updates) {
            return Err(SqlError::unsupported(
                "a row alias, or ON DUPLICATE KEY UPDATE with CHECK OPTION, for a view",
            ));
        }
        let (rows, on_duplicate) = match &insert.source {
            InsertSource::Values(rows) => {
                // `VALUES ()` is a row of defaults, where no list names columns.
                let named = view.is_some() || names.is_some();
                let no_values = !named && rows.iter().all(Vec::is_empty);
                let rows = self.insert_rows(&target, &columns, rows, no_values)?;
                (rows, self.on_duplicate(&mut target.scope, &table, insert)?)
            }
            InsertSource::Select(select) => {
                refuse_values(&table.def, columns.iter().copied())?;
                let bound = self.select_and_on_duplicate(target, columns.len(), insert, select)?;
                let (mut select, on_duplicate) = bound;
                let members = fit_outputs(&table, &columns, &mut select);
                let buffer = select.sources.iter().any(|s| reads(s, &table));
                if !buffer && select.grouping.is_none() && !select.distinct {
                    select.output.iter_mut().for_each(keep_digits);
                }
                let select = Box::new(select);
                (InsertRows::Select { select, buffer, members }, on_duplicate)
            }
        };
        let (fill, mut defaults) = self.fill(&table, &columns)?;
        if let Some(view) = view {
            name_view(view, &fill, &mut defaults);
        }
        let constraints = self.constraints(&table)?;
        let generated_columns = self.generated_columns(&table)?;
        Ok(InsertPlan {
            names_columns: names_columns(&rows),
            table,
            rows,
            fill,
            defaults,
            on_duplicate,
            ignore: insert.ignore,
            check,
            constraints,
            generated_columns,
        })
    }

    /// Where each column's value comes from: from the row if the column is in the list, otherwise
    /// from its default.
    pub(super) fn fill(
        &mut self,
        table: &TableInfo,
        columns: &[usize],
    ) -> Result<(Vec<Fill>, Vec<crate::plan::DefaultFill>)> {
        let count = table.def.columns.len();
        let mut fill = vec![Fill::Default; count];
        for (n, &column) in columns.iter().enumerate() {
            fill[column] = Fill::Given(n as u16);
        }
        let defaults = (0..count).map(|c| self.default_fill(table, c)).collect::<Result<_>>()?;
        Ok((fill, defaults))
    }

    fn insert_rows(
        &mut self,
        target: &ChangeTarget,
        columns: &[usize],
        rows: &[Vec<ast::Expr>],
        no_values: bool,
    ) -> Result<InsertRows> {
        // Names in VALUES refer to the columns of the new row.
        let (table, env) = (&target.table, Env::new(&target.scope, Clause::None));
        let mut bound = Vec::with_capacity(rows.len());
        for (n, row) in rows.iter().enumerate() {
            if row.len() != columns.len() && !no_values {
                return Err(SqlError::column_count(n + 1));
            }
            self.charge(columns.len())?;
            let mut values = Vec::with_capacity(columns.len());
            for (value, &column) in row.iter().zip(columns) {
                values.push(match value.kind {
                    ast::ExprKind::Default(None) => InsertValue::Default,
                    _ => {
                        refuse_values(&table.def, [column])?;
                        let value = self.value_for(&env, table, column, value)?;
                        if value.has_dependent() {
                            return Err(SqlError::unsupported(
                                "a subquery in VALUES that refers to the new row",
                            ));
                        }
                        InsertValue::Expr(value)
                    }
                });
            }
            while values.len() < columns.len() {
                values.push(InsertValue::Default);
            }
            bound.push(values);
        }
        if let Some(stride) = self.row_stride
            && bound.len() == 1
        {
            return Ok(InsertRows::Repeat { row: bound.remove(0), stride });
        }
        Ok(InsertRows::Rows(bound))
    }

    /// Binds a value that is stored in a column.
    pub(super) fn value_for(
        &mut self,
        env: &Env<'_>,
        table: &TableInfo,
        column: usize,
        value: &ast::Expr,
    ) -> Result<Expr> {
        let def = &table.def.columns[column];
        let hex = self.is_hex(value);
        let bound = self.by_value(env, value)?;
        self.learn(&bound, &result_columns::column_type(def));
        let numeric = def.ty.is_numeric() || matches!(def.ty, SqlType::Year);
        Ok(if hex && numeric { as_number(bound) } else { bound })
    }

    /// Binds SET c = value, .. of UPDATE and ON DUPLICATE KEY UPDATE. Source 0 of the scope is the
    /// table.
    pub(super) fn assignments(
        &mut self,
        scope: &Scope,
        table: &Arc<TableInfo>,
        list: &[(ast::ColumnName, ast::Expr)],
    ) -> Result<Vec<Assignment>> {
        let mut assigned = vec![false; table.def.columns.len()];
        let mut out = Vec::with_capacity(list.len());
        let env = Env::new(scope, Clause::Fields);
        for (name, value) in list {
            // Only a column of the table itself can be set.
            let of_table = |s: &usize| scope.sources_of(*s).contains(&0);
            let places = scope.matching(name.schema.as_deref(), name.table.as_deref());
            let place = places.map(|(s, _)| s).find(of_table);
            let at = place.and_then(|s| Some((s, scope.named(s).column(&name.column)?)));
            let Some(at) = at else {
                return Err(SqlError::unknown_column(
                    super::scope::written(name),
                    Clause::Fields.name(),
                ));
            };
            let Some((_, column)) = scope.base_column(at) else {
                return Err(SqlError::column_not_updatable(&name.column));
            };
            if is_default_of_generated(&table.def, column, value)? {
                continue;
            }
            let column = column as u16;
            let value = match &value.kind {
                ast::ExprKind::Default(None) => self.column_default(table, column as usize)?,
                _ => self.value_for(&env, table, column as usize, value)?,
            };
            let reads_assigned = value.any(&|e| match e.kind {
                ExprKind::Column { source: 0, column } => assigned[column as usize],
                _ => false,
            });
            assigned[column as usize] = true;
            out.push(Assignment { column, value, reads_assigned });
        }
        Ok(out)
    }
}

/// Whether an assignment gives a generated column DEFAULT, which leaves it as it is calculated.
/// Another value is an error.
pub(super) fn is_default_of_generated(
    def: &TableDef,
    column: usize,
    value: &ast::Expr,
) -> Result<bool> {
    if def.columns[column].generation.is_none() {
        return Ok(false);
    }
    match value.kind {
        ast::ExprKind::Default(None) => Ok(true),
        _ => refuse_values(def, [column]).map(|()| false),
    }
}

/// True if a value reads a column of its row (DML-3).
fn names_columns(rows: &InsertRows) -> bool {
    let reads = |v: &InsertValue| match v {
        InsertValue::Expr(e) => e.any(&|e| matches!(e.kind, ExprKind::Column { .. })),
        InsertValue::Default => false,
    };
    match rows {
        InsertRows::Rows(rows) => rows.iter().flatten().any(reads),
        InsertRows::Repeat { row, .. } => row.iter().any(reads),
        InsertRows::Select { .. } | InsertRows::File(_) => false,
    }
}

fn insert_columns(table: &TableInfo, names: Option<&[String]>) -> Result<Vec<usize>> {
    let Some(names) = names else {
        return Ok((0..table.def.columns.len())
            .filter(|&c| !table.def.columns[c].invisible)
            .collect());
    };
    let mut columns = Vec::with_capacity(names.len().min(table.def.columns.len()));
    for name in names {
        let column = table
            .column(name)
            .ok_or_else(|| SqlError::unknown_column(name, Clause::Fields.name()))?;
        if columns.contains(&column) {
            return Err(SqlError::column_specified_twice(name));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// The error of a column that the rows leave out names the view.
fn name_view(view: TableName, fill: &[Fill], defaults: &mut [DefaultFill]) {
    for (fill, default) in fill.iter().zip(defaults) {
        if *fill == Fill::Default && matches!(default, DefaultFill::Missing) {
            *default = DefaultFill::MissingBelowView(Box::new(view.clone()));
        }
    }
}

/// The columns of the table that a row for a view has values for.
fn view_columns(target: &ChangeTarget, names: Option<&[String]>, verb: &str) -> Result<Vec<usize>> {
    let view = target.scope.named(target.place);
    let base = |n: usize| target.scope.base_column((target.place, n)).map(|(_, column)| column);
    let refused = || SqlError::not_insertable(&view.alias, verb);
    // As in MySQL, rows go only into a view of which each column is a column of the table.
    let all: Option<Vec<usize>> = (0..view.columns.len()).map(base).collect();
    let all = all.ok_or_else(refused)?;
    if (1..all.len()).any(|n| all[..n].contains(&all[n])) {
        return Err(refused());
    }
    let Some(names) = names else { return Ok(all) };
    let mut columns = Vec::with_capacity(names.len().min(all.len()));
    for name in names {
        let column = view
            .column(name)
            .map(|n| all[n])
            .ok_or_else(|| SqlError::unknown_column(name, Clause::Fields.name()))?;
        if columns.contains(&column) {
            return Err(SqlError::column_specified_twice(name));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// True if a source reads this table while its rows come out.
pub(super) fn reads(source: &crate::plan::Source, table: &TableInfo) -> bool {
    match &source.kind {
        crate::plan::SourceKind::Table(access) => access.table.is_same(table),
        crate::plan::SourceKind::Union(parts) => {
            parts.iter().flat_map(|part| &part.sources).any(|source| reads(source, table))
        }
        // These have been read before their first row comes out.
        _ => false,
    }
}

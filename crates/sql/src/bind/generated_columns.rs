//! Binds generated columns: their definitions, and the expressions that give the rows of a
//! statement their values.
//!
//! **GENCOL-1** A definition keeps the text of each expression (CHECKTEXT-1), which is made when
//! all columns of the table are known. It is refused unless the text can be bound. The expression
//! needs nothing but the row and the session's time zone (CONSTRAINT-2).
//! **GENCOL-2** An expression reads columns that are not generated, and generated columns that
//! stand before its own. So one pass over the columns calculates all of them.
use super::Binder;
use super::check::{columns_of, is_of, scope_of};
use super::check_text::{TextOf, Written};
use super::expr::Env;
use super::scope::{Clause, Scope};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, ExprKind as A};
use crate::plan::{Expr, GeneratedColumn, GeneratedColumns};
use crate::table_info::TableInfo;
use redolith_types::TableDef;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What MySQL calls the place of an unknown column.
const PLACE: &str = "generated column function";

impl Binder<'_> {
    /// The generated columns of a table, for a plan that makes rows.
    pub(super) fn generated_columns(
        &mut self,
        table: &Arc<TableInfo>,
    ) -> Result<Option<Box<GeneratedColumns>>> {
        if !has_generated_columns(&table.def) {
            return Ok(None);
        }
        let scope = scope_of(table)?;
        let mut list = Vec::new();
        for column in 0..table.def.columns.len() {
            if table.def.columns[column].generation.is_none() {
                continue;
            }
            let value = self.generation(&scope, table, column)?;
            let reads = columns_of(&value).into_iter().collect();
            list.push(GeneratedColumn { column: column as u16, value, reads });
        }
        Ok(Some(Box::new(GeneratedColumns::of(list))))
    }

    /// The generated columns whose values a change of the columns `changed` may change.
    pub(super) fn recalculated(
        &mut self,
        table: &Arc<TableInfo>,
        changed: impl IntoIterator<Item = u16>,
    ) -> Result<Option<Box<GeneratedColumns>>> {
        let Some(all) = self.generated_columns(table)? else { return Ok(None) };
        let mut changed: BTreeSet<u16> = changed.into_iter().collect();
        let mut list = all.list;
        list.retain(|generated| {
            let may_change = generated.reads.iter().any(|column| changed.contains(column));
            if may_change {
                changed.insert(generated.column);
            }
            may_change
        });
        Ok((!list.is_empty()).then(|| Box::new(GeneratedColumns::of(list))))
    }

    /// Binds the expression of a generated column. Source 0 of the scope is the table.
    pub(super) fn generation(
        &mut self,
        scope: &Scope,
        table: &TableInfo,
        column: usize,
    ) -> Result<Expr> {
        let def = &table.def.columns[column];
        let refused = || SqlError::generated_column_function(&def.name);
        let generation = def.generation.as_ref().ok_or_else(refused)?;
        let value = self.kept_expression(&generation.expression, |inner, value| {
            inner.value_for(&Env::new(scope, Clause::None), table, column, value)
        })?;
        let value = value.ok_or_else(refused)?;
        for read in columns_of(&value).into_iter().map(usize::from) {
            let other = &table.def.columns[read];
            // The file of a damaged definition may break GENCOL-2.
            if other.generation.is_some() && read >= column {
                return Err(SqlError::generated_column_not_prior());
            }
            if other.auto_increment {
                return Err(SqlError::generated_column_of_auto_increment(&def.name));
            }
        }
        Ok(value)
    }

    /// Gives generated columns of a definition, which has all its columns, their expressions, and
    /// checks those of the whole definition (GENCOL-1).
    pub(super) fn add_generations<'s>(
        &mut self,
        def: &mut TableDef,
        specs: impl IntoIterator<Item = &'s ast::ColumnDef>,
    ) -> Result<()> {
        for spec in specs {
            let Some(generation) = &spec.generation else { continue };
            self.step(1)?;
            let name = &spec.name;
            let expression = &generation.expression;
            let written = self.definition_text(TextOf::GeneratedColumn(name), def, expression)?;
            let Written { text, columns, refused } = written;
            if let Some(error) = refused {
                return Err(error);
            }
            if matches!(expression.kind, A::Row(_)) {
                return Err(SqlError::generated_column_row(name));
            }
            if let Some(column) = columns.iter().find(|column| !is_of(column, def)) {
                return Err(SqlError::unknown_column(&column.column, PLACE));
            }
            let column = def.column(name);
            if let Some(own) = column.and_then(|n| def.columns[n].generation.as_mut()) {
                own.expression = text;
            }
        }
        if has_generated_columns(def) {
            self.generated_columns(&Arc::new(TableInfo::definition(def.clone())))?;
        }
        Ok(())
    }

    /// Error 3108 if a generated column of `old` needs a column that a statement drops or renames.
    /// `goes` tells that of a column; `stays` tells whether a generated column keeps its
    /// expression.
    pub(super) fn check_needed_columns(
        &mut self,
        old: &Arc<TableInfo>,
        goes: impl Fn(usize) -> bool,
        stays: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let Some(all) = self.generated_columns(old)? else { return Ok(()) };
        for generated in all.list.iter().filter(|g| stays(usize::from(g.column))) {
            let needed = generated.reads.iter().map(|column| usize::from(*column));
            if let Some(column) = { needed }.find(|column| goes(*column)) {
                return Err(SqlError::generated_column_needs(&old.def.columns[column].name));
            }
        }
        Ok(())
    }
}

fn has_generated_columns(def: &TableDef) -> bool {
    def.columns.iter().any(|column| column.generation.is_some())
}

/// Error 3105 if a statement gives one of the columns a value. DEFAULT is none.
pub(super) fn refuse_values(
    def: &TableDef,
    columns: impl IntoIterator<Item = usize>,
) -> Result<()> {
    let given = columns.into_iter().find(|column| def.columns[*column].generation.is_some());
    given.map_or(Ok(()), |column| {
        Err(SqlError::generated_column_value(&def.columns[column].name, &def.name))
    })
}

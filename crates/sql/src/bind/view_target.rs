//! Binds the views that INSERT, UPDATE and DELETE change.
//!
//! **VDML-1** A view that is merged and has one table is changed as this table: only rows that pass
//! the view's conditions are found. A column of the view that is an expression cannot be set.
//! **VDML-2** With WITH CHECK OPTION a new or changed row passes the conditions of the view, and
//! with CASCADED those of the views below it. A view below asks for what its own definition says,
//! whatever the views above say.
use super::Binder;
use super::from::FromClause;
use super::scope::Scope;
use super::select::RawKind;
use super::view::ViewPlace;
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::plan::{Expr, ExprKind, ViewCheck};
use crate::table_info::TableInfo;
use redolith_engine::dict::view::View;
use std::sync::Arc;

/// What a statement changes: a table, or a view of one table.
pub(super) struct ChangeTarget {
    pub table: Arc<TableInfo>,
    /// The table is source 0; names mean the columns of the table or of the view.
    pub scope: Scope,
    /// The place of what has the names in the scope.
    pub place: usize,
    /// The conditions of the view.
    pub conditions: Vec<Expr>,
    pub check: Option<Box<ViewCheck>>,
}

impl Binder<'_> {
    /// The table or view that a statement changes. `verb` is its first word.
    pub(super) fn change_target(
        &mut self,
        name: &ast::Name,
        alias: Option<&str>,
        verb: &str,
    ) -> Result<ChangeTarget> {
        let mut scope = Scope::default();
        let Some(view) = self.view_named(name)? else {
            let table = self.open_table(name, true)?;
            scope.add_table(&table, alias, false)?;
            let (conditions, check) = (Vec::new(), None);
            return Ok(ChangeTarget { table, scope, place: 0, conditions, check });
        };
        let alias = alias.unwrap_or(&name.name);
        let refusal = |name: &str| match verb {
            "UPDATE" | "DELETE" => SqlError::not_updatable(name, verb),
            _ => SqlError::not_insertable(name, verb),
        };
        let mut from = FromClause::default();
        let place = ViewPlace { alias, nest: None, nullable: false };
        self.view(&view, place, &mut from, &mut scope)?;
        let place = scope.matching(None, Some(alias)).next().map(|(place, _)| place);
        let place = place.filter(|place| scope.is_view(*place)).ok_or_else(|| refusal(alias))?;
        if verb == "DELETE" && from.sources.len() > 1 {
            let def = &view.def.def;
            return Err(SqlError::delete_from_join_view(&def.schema, &def.name));
        }
        let (Some(RawKind::Table { table, .. }), 1) =
            (from.sources.first().map(|source| source.kind.clone()), from.sources.len())
        else {
            return Err(refusal(alias));
        };
        self.writes(&table);
        let check = check_of(&view, &table, std::mem::take(&mut from.checks))?;
        let conditions = std::mem::take(&mut from.on);
        Ok(ChangeTarget { table, scope, place, conditions, check })
    }

    /// True if the only table of an UPDATE is a view of several tables: then it is an UPDATE of
    /// several tables.
    pub(super) fn is_join_view(&self, tables: &[ast::TableFactor]) -> Result<bool> {
        let [ast::TableFactor { kind: ast::FactorKind::Table { name, .. }, .. }] = tables else {
            return Ok(false);
        };
        Ok(self.view_named(name)?.is_some_and(|view| !view.def.updatable))
    }
}

fn check_of(
    view: &View,
    table: &TableInfo,
    conditions: Vec<Expr>,
) -> Result<Option<Box<ViewCheck>>> {
    if conditions.is_empty() {
        return Ok(None);
    }
    // The new row is at hand, but neither the answers of subqueries about it nor long values that
    // are stored outside the old row.
    let is_hard = |e: &Expr| match &e.kind {
        ExprKind::Subquery(_) => true,
        ExprKind::Column { column, .. } => {
            let ty = &table.def.columns[*column as usize].ty;
            ty.is_lob() || *ty == redolith_types::SqlType::Json
        }
        _ => false,
    };
    if conditions.iter().any(|e| e.any(&is_hard)) {
        return Err(SqlError::unsupported(
            "WITH CHECK OPTION and conditions with subqueries, TEXT, BLOB or JSON",
        ));
    }
    let def = &view.def.def;
    let (schema, name) = (def.schema.as_str().into(), def.name.as_str().into());
    Ok(Some(Box::new(ViewCheck { conditions, schema, name })))
}

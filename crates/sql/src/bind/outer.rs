//! Finds names of a subquery in the queries around it, and lists what the subquery takes from there
//! ([`plan::subquery`](crate::plan::subquery)).
//!
//! As in MySQL, inner names win. A subquery knows the columns of the query around it and, where it
//! stands in the select list, GROUP BY, HAVING or ORDER BY, the names of select items.
use super::enum_set::number_of;
use super::expr::Env;
use super::scope::{Aliases, Clause, written};
use super::{Binder, slot};
use crate::error::{Result, SqlError};
use crate::parse::ast::{ColumnName, SelectItem};
use crate::plan::expr_set::SameIndex;
use crate::plan::{Expr, ExprKind};

/// What one subquery takes from the query around it: expressions of that query.
#[derive(Default)]
pub(super) struct Taken {
    pub list: Vec<Expr>,
    known: SameIndex,
}

impl Taken {
    /// Forgets what was taken after the first `count`.
    pub fn forget_from(&mut self, count: usize) {
        for place in (count..self.list.len()).rev() {
            self.known.remove_expr(&self.list[place], place);
        }
        self.list.truncate(count);
    }
}

impl Binder<'_> {
    /// The value that a name means outside the subquery in which `env` is.
    pub(super) fn outer_name(&mut self, env: &Env<'_>, name: &ColumnName) -> Result<Option<Expr>> {
        self.from_outside(env, name, env.clause, self.taken.len())
    }

    /// [`Self::outer_name`] for an environment with `around` subqueries around it.
    fn from_outside(
        &mut self,
        env: &Env<'_>,
        name: &ColumnName,
        clause: Clause,
        around: usize,
    ) -> Result<Option<Expr>> {
        let Some(outer) = env.outer else { return Ok(None) };
        let found = match self.seen_from_inside(outer, name, clause)? {
            Some(found) => Some(found),
            None => self.from_outside(outer, name, clause, around - 1)?,
        };
        found.map(|found| self.take(outer, around - 1, found)).transpose()
    }

    /// What a name in a subquery means in the query around it, whose place is `env`.
    fn seen_from_inside(
        &mut self,
        env: &Env<'_>,
        name: &ColumnName,
        clause: Clause,
    ) -> Result<Option<Expr>> {
        if let Some(at) = env.scope.find(name, clause)? {
            return self.column_value(env.scope, at).map(Some);
        }
        let aliases = match env.clause {
            _ if name.table.is_some() => None,
            Clause::Fields => env.items.map(|(so_far, _)| so_far),
            Clause::Group | Clause::Having | Clause::Order => env.aliases,
            Clause::Where | Clause::On | Clause::From | Clause::TableFunction | Clause::None => {
                None
            }
        };
        let named =
            |aliases: &Aliases| aliases.find(&name.column).map(|n| aliases.list[n].1.clone());
        let Some(item) = aliases.and_then(named) else { return Ok(None) };
        let is_aggregate =
            |e: &Expr| matches!(e.kind, ExprKind::Aggregate(_) | ExprKind::Window(_));
        if item.any(&is_aggregate) {
            return Err(SqlError::reference_not_supported(
                &name.column,
                "reference to group function",
            ));
        }
        self.copy_alias(&item).map(Some)
    }

    /// Adds an expression of the query around subquery number `of` to what this subquery takes.
    /// Returns the expression by which the subquery knows its value.
    pub(super) fn take(&mut self, outer: &Env<'_>, of: usize, value: Expr) -> Result<Expr> {
        self.charge(1)?;
        let ty = value.ty;
        let table = |source: usize| outer.scope.sources.get(source).and_then(|s| s.table.clone());
        // ENUM and SET are taken as their numbers: both the number and the text may be wanted.
        let (value, names) = match number_of(&value, table) {
            Some((number, names)) => (number, Some(names)),
            None => (value, None),
        };
        // A group without rows has NULLs for columns.
        let is_grouped = matches!(outer.clause, Clause::Fields | Clause::Having | Clause::Order);
        let taken_ty = value.ty.nullable(value.ty.nullable || is_grouped);
        let taken = &self.taken[of];
        let mut compared = 0;
        let count = |nodes| {
            compared = nodes;
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(found) = taken.known.find_counting(&value, &taken.list, count);
        self.compared(compared)?;
        let place = match found {
            Some(place) => place,
            None => {
                let taken = &mut self.taken[of];
                taken.known.insert_expr(&value, taken.list.len());
                taken.list.push(value);
                taken.list.len() - 1
            }
        };
        let inside = Expr::new(ExprKind::Outer(slot(place)?), taken_ty);
        Ok(match names {
            Some(names) => Expr::new(names.of(inside), ty.nullable(taken_ty.nullable)),
            None => inside,
        })
    }
}

/// The error for a name that nothing has: 1247 if an item further right in the select list around
/// has the name, otherwise 1054.
pub(super) fn unknown(env: &Env<'_>, name: &ColumnName) -> SqlError {
    let is_named = |item: &SelectItem| match item {
        SelectItem::Expr { alias: Some(alias), .. } => alias.eq_ignore_ascii_case(&name.column),
        _ => false,
    };
    let mut outer = env.outer.filter(|_| name.table.is_none());
    while let Some(around) = outer {
        if around.clause == Clause::Fields
            && around.items.is_some_and(|(_, all)| all.iter().any(is_named))
        {
            return SqlError::reference_not_supported(
                &name.column,
                "forward reference in item list",
            );
        }
        outer = around.outer;
    }
    SqlError::unknown_column(written(name), env.clause.name())
}

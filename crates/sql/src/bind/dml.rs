//! Binds UPDATE and DELETE of one table.
use super::Binder;
use super::columns_read::{self, IndexSet};
use super::expr::Env;
use super::order::{Purpose, Wanted};
use super::scope::{Aliases, Clause, Scope};
use super::select::{FOR_CHANGE, flatten};
use super::subquery::check_effects_of;
use super::view_target::ChangeTarget;
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, FactorKind};
use crate::plan::{
    AccessKind, Covering, DeletePlan, DmlSort, Expr, ExprKind, TableAccess, UpdatePlan,
};
use crate::table_info::TableInfo;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn update(&mut self, update: &ast::Update) -> Result<UpdatePlan> {
        let (target, hints) = self.target(&update.tables, "UPDATE")?;
        let ChangeTarget { table, scope, conditions, check, .. } = target;
        let assignments = self.assignments(&scope, &table, &update.assignments)?;
        let (mut access, mut sort) = self.find_rows(
            &table,
            &scope,
            hints,
            conditions,
            update.filter.as_ref(),
            &update.order,
            update.limit.count.is_some(),
        )?;
        let constraints = self.constraints(&table)?;
        let mut assigned = vec![false; table.def.columns.len()];
        assignments.iter().for_each(|a| assigned[a.column as usize] = true);
        let on_update_now: Vec<u16> = (0..assigned.len())
            .filter(|&c| table.def.columns[c].on_update_now && !assigned[c])
            .map(|c| c as u16)
            .collect();
        let changed = assignments.iter().map(|a| a.column).chain(on_update_now.iter().copied());
        let generated_columns = self.recalculated(&table, changed.clone())?;
        let mut read = constraints.as_ref().map_or_else(Vec::new, |c| c.columns.clone());
        read.extend(generated_columns.iter().flat_map(|g| &g.reads));
        assignments.iter().for_each(|a| columns_of(&a.value, &mut read));
        assignments.iter().try_for_each(|a| not_read_from(&a.value, &table))?;
        let chained = assignments.iter().any(|a| a.reads_assigned);
        check_effects_of(access.filter.iter(), assignments.iter().map(|a| &a.value), chained)?;
        note(&mut access, &mut sort, read);
        let generated = generated_columns.iter().flat_map(|g| &g.list).map(|g| g.column);
        let collect_first = moves_rows(&access, changed.chain(generated));
        Ok(UpdatePlan {
            assignments,
            on_update_now,
            collect_first,
            sort,
            limit: self.limit(&update.limit)?,
            ignore: update.ignore,
            check,
            constraints,
            generated_columns,
            access,
        })
    }

    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<DeletePlan> {
        let (target, hints) = self.target(&delete.tables, "DELETE")?;
        let ChangeTarget { table, scope, conditions, .. } = target;
        let (mut access, mut sort) = self.find_rows(
            &table,
            &scope,
            hints,
            conditions,
            delete.filter.as_ref(),
            &delete.order,
            delete.limit.count.is_some(),
        )?;
        check_effects_of(access.filter.iter(), [].iter(), false)?;
        note(&mut access, &mut sort, Vec::new());
        Ok(DeletePlan { sort, limit: self.limit(&delete.limit)?, ignore: delete.ignore, access })
    }

    fn target<'s>(
        &mut self,
        tables: &'s [ast::TableFactor],
        verb: &str,
    ) -> Result<(ChangeTarget, &'s [ast::IndexHint])> {
        let [factor] = tables else { unreachable!("a statement of several tables") };
        let FactorKind::Table { name, hints } = &factor.kind else {
            return Err(SqlError::not_updatable(factor.alias.as_deref().unwrap_or_default(), verb));
        };
        let alias = factor.alias.as_deref();
        Ok((self.change_target(name, alias, verb)?, hints))
    }

    fn find_rows(
        &mut self,
        table: &Arc<TableInfo>,
        scope: &Scope,
        hints: &[ast::IndexHint],
        mut conjuncts: Vec<Expr>,
        filter: Option<&ast::Expr>,
        order: &[ast::OrderItem],
        limited: bool,
    ) -> Result<(TableAccess, DmlSort)> {
        if let Some(filter) = filter {
            let filter = self.condition(&Env::new(scope, Clause::Where), filter)?;
            flatten(self.with_zero_dates(filter, scope)?, &mut conjuncts);
            self.use_indexed_expressions(scope, &mut conjuncts)?;
            // What runs a subquery for each row is decided last.
            conjuncts.sort_by_cached_key(Expr::has_dependent);
        }
        let mut exprs = Vec::new();
        let keys =
            self.order(&Env::new(scope, Clause::Order), order, &Aliases::default(), &mut exprs)?;
        conjuncts.iter().chain(&exprs).try_for_each(|e| not_read_from(e, table))?;
        let column = |e: &Expr| match e.kind {
            ExprKind::Column { column, .. } => Some(column as usize),
            _ => None,
        };
        let columns: Option<Vec<_>> = keys
            .iter()
            .map(|k| column(&exprs[k.output as usize]).map(|c| (c, k.descending)))
            .collect();
        let wanted = match columns {
            Some(order) if !order.is_empty() => {
                Wanted { order, purpose: Purpose::Order, limited, few: None }
            }
            _ => Wanted::NOTHING,
        };
        // A change needs the whole row.
        let covered_by = IndexSet::NONE;
        let chosen = self.choose_path(table, 0, covered_by, conjuncts, hints, &wanted)?;
        let sort = if chosen.ordered && wanted.purpose == Purpose::Order {
            DmlSort::default()
        } else {
            DmlSort { exprs, keys }
        };
        Ok((chosen.into_access(table.clone(), scope.sources[0].alias.clone(), FOR_CHANGE), sort))
    }
}

fn columns_of(expr: &Expr, into: &mut Vec<u16>) {
    expr.walk(&mut |e| {
        if let ExprKind::Column { source: 0, column } = e.kind {
            into.push(column);
        }
    });
}

/// Error 1093: a subquery may read the changed table only through a derived table.
pub(super) fn not_read_from(expr: &Expr, table: &TableInfo) -> Result<()> {
    let is_target = |access: &TableAccess| access.table.is_same(table);
    // By slot: copies of an expression share their subqueries.
    let seen = RefCell::new(HashSet::new());
    let reads = |e: &Expr| match &e.kind {
        ExprKind::Subquery(s) => {
            seen.borrow_mut().insert(s.body.slot) && s.body.plan.reads_directly(&is_target)
        }
        _ => false,
    };
    if expr.any(&reads) {
        Err(SqlError::new(
            1093,
            format!(
                "You can't specify target table '{}' for update in FROM clause",
                table.def.name
            ),
        ))
    } else {
        Ok(())
    }
}

fn note(access: &mut TableAccess, sort: &mut DmlSort, mut read: Vec<u16>) {
    access.filter.iter().for_each(|f| columns_of(f, &mut read));
    sort.exprs.iter().for_each(|e| columns_of(e, &mut read));
    read.sort_unstable();
    read.dedup();
    columns_read::set_columns(access, read);
    // The change needs the whole row, so an index is never enough.
    access.path.covering = Covering::No;
}

/// True if the statement changes a column of the scanned index. The change moves the row within the
/// index, so the scan could meet the row again.
fn moves_rows(access: &TableAccess, changed: impl Iterator<Item = u16> + Clone) -> bool {
    let def = &access.table.def;
    // A point of a unique secondary index is a range of entries. The row's new entry may lie in it.
    let point = matches!(access.path.kind, AccessKind::Point(_))
        && access.path.index == def.clustered_index();
    if point || matches!(access.path.kind, AccessKind::Empty) {
        return false;
    }
    let mut keys: Vec<usize> =
        [access.path.index, def.clustered_index()].into_iter().flatten().collect();
    if let AccessKind::Union(parts) = &access.path.kind {
        keys.extend(parts.iter().map(|part| part.index));
    }
    let mut columns = keys.iter().flat_map(|&i| def.indexes[i].columns.iter().map(|c| c.column));
    columns.any(|c| changed.clone().any(|changed| usize::from(changed) == c))
}

//! ENUM and SET columns of derived tables and after GROUP BY. Their rows keep the number; the text
//! is made where it is needed.
use super::scope::ScopeColumn;
use crate::plan::{Expr, ExprKind, ExprType, Kind, MemberNames, SelectPlan, SourceKind};
use crate::table_info::TableInfo;
use std::sync::Arc;

/// An ENUM or SET of a table as its number; None for all other expressions. `table` gives the table
/// of a source.
pub(super) fn number_of(
    expr: &Expr,
    table: impl Fn(usize) -> Option<Arc<TableInfo>>,
) -> Option<(Expr, MemberNames)> {
    if !matches!(expr.ty.kind, Kind::Enum | Kind::Set) {
        return None;
    }
    match &expr.kind {
        ExprKind::Column { source, column } => {
            let number = Expr::new(
                expr.kind.clone(),
                ExprType::unsigned_bigint(20).nullable(expr.ty.nullable),
            );
            Some((number, MemberNames { table: table(*source as usize)?, column: *column }))
        }
        ExprKind::Member { number, table, column } => {
            Some(((**number).clone(), MemberNames { table: table.clone(), column: *column }))
        }
        _ => None,
    }
}

/// Changes the output of a derived table from texts to numbers; its `columns` make the texts.
pub(super) fn keep_numbers(plan: &mut SelectPlan, columns: &mut [ScopeColumn]) {
    for (n, column) in columns.iter_mut().enumerate().take(plan.output.len()) {
        if let Some((ty, names)) = give_number(plan, n) {
            let ty = ty.nullable(column.ty().nullable);
            column.expr = names.of(Expr::new(column.expr.clone(), ty));
        }
    }
}

/// Changes an output of a query from the text of an ENUM or SET to its number. Returns None if the
/// output is another expression.
pub(super) fn give_number(plan: &mut SelectPlan, output: usize) -> Option<(ExprType, MemberNames)> {
    let table = |source: usize| match &plan.sources[source].kind {
        SourceKind::Table(access) => Some(access.table.clone()),
        SourceKind::JsonTable(table) => Some(table.info.clone()),
        _ => None,
    };
    let (number, names) = number_of(&plan.output[output], table)?;
    let ty = number.ty;
    plan.output[output] = number;
    Some((ty, names))
}

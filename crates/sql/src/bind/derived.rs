//! What the tables of a FROM clause ask of the SELECTs that make them.
use crate::error::{Result, SqlError};
use crate::plan::{Expr, SelectPlan, Source, SourceKind};
use std::sync::Arc;

/// Gives the columns of a derived table their names.
pub(super) fn name_columns(plan: &mut SelectPlan, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    if names.len() != plan.columns.len() {
        return Err(SqlError::new(
            1353,
            "In definition of view, derived table or common table expression, SELECT list and \
             column names list have different column counts",
        ));
    }
    for (column, name) in plan.columns.iter_mut().zip(names) {
        column.name = Arc::from(&**name);
    }
    Ok(())
}

/// Whether the rows may be others each time that the statement makes them.
pub(super) fn is_changing(plan: &SelectPlan) -> bool {
    let differ = |e: &Expr| e.any(&Expr::is_changing_node);
    let source = |s: &Source| {
        let mut inner = match &s.kind {
            SourceKind::Table(access) => access.filter.iter().any(differ),
            SourceKind::JsonTable(table) => differ(&table.document),
            SourceKind::Lateral { outer, .. } => outer.iter().any(differ),
            _ => false,
        };
        s.kind.each_inner(&mut |select| inner = inner || is_changing(select));
        // The keys and conditions of a hash lookup never differ (bind/hash_join.rs).
        inner || s.filter.iter().any(differ)
    };
    let grouping = plan.grouping.iter().flat_map(|g| {
        g.keys.iter().chain(g.aggregates.iter().flat_map(|aggregate| &aggregate.args))
    });
    plan.sources.iter().any(source)
        || plan.nests.iter().flat_map(|nest| &nest.after).any(differ)
        || plan.output.iter().chain(&plan.condition).chain(&plan.having).any(differ)
        || grouping.into_iter().any(differ)
}

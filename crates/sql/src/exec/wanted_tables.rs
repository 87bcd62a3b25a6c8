//! Finds the tables and views that a query of INFORMATION_SCHEMA asks for.
//!
//! A row of TABLES or STATISTICS shows the size of a table, so its file must be opened and some of
//! its pages must be read; other rows take memory. Therefore conditions on the names of databases
//! and tables alone are decided before the rows are made: conditions of WHERE, or of ON for the
//! inner side of an outer join. Like all conditions, they are decided again for the rows. A
//! condition that could warn is not decided here.
use super::ExecContext;
use super::eval::{Eval, Row, Scope};
use super::server_rows::filtered;
use crate::error::Result;
use crate::information_schema::{self, Asked, Virtual};
use crate::plan::{CompareAs, Expr, ExprKind, Source};
use redolith_types::{TableDef, Value};

/// The columns that have the name of a table's database, and those that have the table's name.
struct Places {
    schema: &'static [u16],
    table: &'static [u16],
}

/// None if the rows are not about tables and views.
fn places(table: Virtual) -> Option<Places> {
    Some(match table {
        Virtual::Tables | Virtual::Columns | Virtual::Statistics | Virtual::Views => {
            Places { schema: &[1], table: &[2] }
        }
        Virtual::TableConstraints => Places { schema: &[1, 3], table: &[4] },
        Virtual::KeyColumnUsage => Places { schema: &[1, 4], table: &[5] },
        Virtual::ColumnStatistics => Places { schema: &[0], table: &[1] },
        Virtual::CheckConstraints => Places { schema: &[1], table: &[] },
        _ => return None,
    })
}

impl Places {
    fn has(&self, column: u16) -> bool {
        self.schema.contains(&column) || self.table.contains(&column)
    }
    /// A row about a table that has nothing but the names.
    fn row<'d>(&self, def: &'d TableDef) -> [Value<'d>; 6] {
        let mut row = [const { Value::Null }; 6];
        for (columns, name) in [(self.schema, &*def.schema), (self.table, &*def.name)] {
            columns.iter().for_each(|at| row[usize::from(*at)] = Value::from(name));
        }
        row
    }
}

/// The tables and views that may have rows in `source`, FROM item number `no`, which is `table`.
pub fn asked(
    cx: &mut ExecContext<'_>,
    table: Virtual,
    source: &Source,
    no: usize,
    params: &[Value<'_>],
) -> Result<Asked> {
    let process = cx.env.session.process.clone();
    let Some(places) = places(table) else {
        return Ok(Asked { tables: Vec::new(), views: Vec::new(), process });
    };
    let (tables, views) = information_schema::tables_and_views(table, cx.trx.engine());
    let conjuncts: Vec<&Expr> = match source.filter.as_ref() {
        None => return Ok(Asked { tables, views, process }),
        Some(Expr { kind: ExprKind::And(list), .. }) => list.iter().collect(),
        Some(one) => vec![one],
    };
    let early: Vec<&Expr> =
        conjuncts.into_iter().filter(|e| is_early(e, no as u16, &places, params)).collect();
    let mut is_asked = |def: &TableDef| {
        let row = places.row(def);
        let mut sources = vec![Row::Nulls; no];
        sources.push(Row::Values(&row));
        let at = Scope { sources: &sources, ..Scope::new(params) };
        for e in &early {
            if Eval::new(at, &mut cx.env).truth(e)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let tables = filtered(tables, |t| is_asked(&t.def))?;
    let views = filtered(views, |v| is_asked(&v.def.def))?;
    Ok(Asked { tables, views, process })
}
/// True if the schema and the name of a table in source `no` decide the condition without a
/// warning.
fn is_early(e: &Expr, no: u16, places: &Places, params: &[Value<'_>]) -> bool {
    let known = |e: &Expr| is_place_or_text(e, no, places, params);
    match &e.kind {
        ExprKind::And(list) | ExprKind::Or(list) => {
            list.iter().all(|e| is_early(e, no, places, params))
        }
        // Both ways compare texts as texts.
        ExprKind::Compare { how: CompareAs::String(_) | CompareAs::ByValue, sides, .. } => {
            sides.iter().all(known)
        }
        ExprKind::In { how: CompareAs::String(_) | CompareAs::ByValue, value, list, .. } => {
            known(value) && list.iter().all(known)
        }
        ExprKind::Like { sides, .. } => sides.iter().all(known),
        _ => false,
    }
}
fn is_place_or_text(e: &Expr, no: u16, places: &Places, params: &[Value<'_>]) -> bool {
    match &e.kind {
        ExprKind::Column { source, column } => *source == no && places.has(*column),
        ExprKind::Literal(Value::Bytes(_)) => true,
        ExprKind::Param(n) => matches!(params.get(*n as usize), Some(Value::Bytes(_))),
        // DATABASE() is such a call.
        ExprKind::Call { args, .. } => args.is_empty() && e.is_constant(),
        _ => false,
    }
}

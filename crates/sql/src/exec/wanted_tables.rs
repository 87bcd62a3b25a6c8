//! Finds the tables that a query of INFORMATION_SCHEMA asks for.
//!
//! A row of TABLES or STATISTICS shows the size of a table, so its file must be opened and some of
//! its pages must be read. Therefore conditions on TABLE_SCHEMA and TABLE_NAME alone are decided
//! before the rows are made: conditions of WHERE, or of ON for the inner side of an outer join.
//! Like all conditions, they are decided again for the rows. A condition that could warn is not
//! decided here.
use super::ExecContext;
use super::eval::{Eval, Row, Scope};
use crate::error::Result;
use crate::information_schema::{self, Virtual};
use crate::plan::{CompareAs, Expr, ExprKind, Source, SourceKind};
use redolith_engine::dict::table::Table;
use redolith_types::Value;
use std::sync::Arc;

/// The places of TABLE_SCHEMA and TABLE_NAME in both tables.
const PLACE: std::ops::RangeInclusive<u16> = 1..=2;

/// The tables of the server that may have rows in `source`, FROM item number `no`. Empty if the
/// rows of the source do not depend on tables.
pub fn tables(
    cx: &mut ExecContext<'_>,
    source: &Source,
    no: usize,
    params: &[Value<'_>],
) -> Result<Vec<Arc<Table>>> {
    if !matches!(source.kind, SourceKind::Virtual(Virtual::Tables | Virtual::Statistics)) {
        return Ok(Vec::new());
    }
    let mut all = information_schema::base_tables(cx.trx.engine());
    let conjuncts: Vec<&Expr> = match source.filter.as_ref() {
        None => return Ok(all),
        Some(Expr { kind: ExprKind::And(list), .. }) => list.iter().collect(),
        Some(one) => vec![one],
    };
    let early: Vec<&Expr> =
        conjuncts.into_iter().filter(|e| is_early(e, no as u16, params)).collect();
    let mut failed = None;
    all.retain(|t| {
        let row = information_schema::place(&t.def);
        let mut sources = vec![Row::Nulls; no];
        sources.push(Row::Values(&row));
        early.iter().all(|e| {
            match Eval::new(Scope { sources: &sources, ..Scope::new(params) }, &mut cx.env).truth(e)
            {
                Ok(truth) => truth == Some(true),
                Err(e) => {
                    failed = Some(e);
                    false
                }
            }
        })
    });
    failed.map_or(Ok(all), Err)
}
/// True if the schema and the name of a table in source `no` decide the condition without a
/// warning.
fn is_early(e: &Expr, no: u16, params: &[Value<'_>]) -> bool {
    let known = |e: &Expr| is_place_or_text(e, no, params);
    match &e.kind {
        ExprKind::And(list) | ExprKind::Or(list) => list.iter().all(|e| is_early(e, no, params)),
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
fn is_place_or_text(e: &Expr, no: u16, params: &[Value<'_>]) -> bool {
    match &e.kind {
        ExprKind::Column { source, column } => *source == no && PLACE.contains(column),
        ExprKind::Literal(Value::Bytes(_)) => true,
        ExprKind::Param(n) => matches!(params.get(*n as usize), Some(Value::Bytes(_))),
        // DATABASE() is such a call.
        ExprKind::Call { args, .. } => args.is_empty() && e.is_constant(),
        _ => false,
    }
}

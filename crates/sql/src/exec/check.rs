//! CHECK constraints: whether a row may be in its table.
//!
//! A row is checked when it has the values that will be stored, and before anything is written. A
//! condition that is neither true nor false lets the row pass, as the standard has it.
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use super::long_rows::LONG_ROW;
use super::view_check;
use crate::error::{Result, SqlError};
use crate::plan::{Constraints, InsertPlan};
use redolith_engine::dict::table::Table;
use redolith_types::TableDef;

/// Returns false if IGNORE leaves the row out, with a warning; error 3819 if the row does not pass.
pub(super) fn passes(
    constraints: &Constraints,
    (def, table, payload): (&TableDef, &Table, &[u8]),
    ignore: bool,
    env: &mut Env<'_>,
) -> Result<bool> {
    let sources = [Row::Stored { def, layout: &table.layout, payload }];
    let at = Scope { sources: &sources, ..Scope::new(&[]) };
    for constraint in &constraints.list {
        if Eval::new(at, env).truth(&constraint.condition)? == Some(false) {
            let error = SqlError::check_violated(&constraint.name);
            if !ignore {
                return Err(error);
            }
            env.only_warn(error);
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an INSERT may make the row `payload`: whether it passes WITH CHECK OPTION and the
/// table's constraints.
pub(super) fn may_insert(
    plan: &InsertPlan,
    payload: &[u8],
    at: Scope<'_>,
    env: &mut Env<'_>,
) -> Result<bool> {
    let row = (&plan.table.def, &**plan.table.engine(), payload);
    if let Some(view) = &plan.check
        && !view_check::passes(view, row, plan.ignore, at, env)?
    {
        return Ok(false);
    }
    match &plan.constraints {
        Some(constraints) => passes(constraints, row, plan.ignore, env),
        None => Ok(true),
    }
}

/// Whether ON DUPLICATE KEY UPDATE may change a row to `payload`, which has its long columns.
pub(super) fn may_update(plan: &InsertPlan, payload: &[u8], env: &mut Env<'_>) -> Result<bool> {
    let Some(constraints) = &plan.constraints else { return Ok(true) };
    let mark = env.held();
    if payload.len() > LONG_ROW {
        env.charge(payload.len())?;
    }
    let row = (&plan.table.def, &**plan.table.engine(), payload);
    let may = passes(constraints, row, plan.ignore, env);
    env.release_to(mark);
    may
}

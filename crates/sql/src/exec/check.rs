//! CHECK constraints: whether a row may be in its table.
//!
//! A row is checked when it has the values that will be stored, and before anything is written. A
//! condition that is neither true nor false lets the row pass, as the standard has it.
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use crate::error::{Result, SqlError};
use crate::plan::Constraints;
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

//! WITH CHECK OPTION: whether a row may be written through a view.
use super::env::Env;
use super::eval::{Eval, Row, Scope};
use crate::error::{Result, SqlError};
use crate::plan::ViewCheck;
use redolith_engine::dict::table::Table;
use redolith_types::TableDef;

/// Returns false if IGNORE leaves the row out, with a warning; error 1369 if the row does not pass.
pub(super) fn passes(
    check: &ViewCheck,
    (def, table, payload): (&TableDef, &Table, &[u8]),
    ignore: bool,
    at: Scope<'_>,
    env: &mut Env<'_>,
) -> Result<bool> {
    let sources = [Row::Stored { def, layout: &table.layout, payload }];
    let at = Scope { sources: &sources, ..at };
    for condition in &check.conditions {
        if Eval::new(at, env).truth(condition)? != Some(true) {
            let error = SqlError::check_option_failed(&check.schema, &check.name);
            if !ignore {
                return Err(error);
            }
            env.only_warn(error);
            return Ok(false);
        }
    }
    Ok(true)
}

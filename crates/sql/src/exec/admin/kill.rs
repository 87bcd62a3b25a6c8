//! Runs KILL.
use super::AdminContext;
use crate::error::{Result, SqlError};
use crate::plan::Expr;
use crate::processes::Kill;
use crate::session_state::Done;
use redolith_types::Value;
use redolith_types::convert::to_u64;

pub(super) fn run(
    cx: &mut AdminContext<'_>,
    id: &Expr,
    query_only: bool,
    params: &[Value<'_>],
) -> Result<Done> {
    let value = cx.eval(id, params, &[])?;
    let asked = to_u64(&value).value;
    let id = u32::try_from(asked).map_err(|_| SqlError::no_such_thread(asked))?;
    if !cx.processes.kill(id, if query_only { Kill::Query } else { Kill::Connection }) {
        return Err(SqlError::no_such_thread(asked));
    }
    // If a session kills itself, the killed statement is this KILL.
    if id == cx.session.id { Err(SqlError::interrupted()) } else { Ok(Done::default()) }
}

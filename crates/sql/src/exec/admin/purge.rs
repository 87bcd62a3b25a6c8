//! Runs PURGE BINARY LOGS.
use super::AdminContext;
use crate::binlog::killable;
use crate::error::{Result, SqlError};
use crate::session_state::{Done, Level};
use redolith_binlog::file::file_name;
use redolith_replication::Binlog;
use redolith_types::Value;
use redolith_types::convert::to_u64;
use std::sync::Arc;

/// PURGE BINARY LOGS TO: `file` is the oldest that stays.
pub(super) async fn to(cx: &mut AdminContext<'_>, file: &str) -> Result<Done> {
    // Without a binary log there is nothing to purge. (MySQL, `purge_source_logs`)
    let Some(binlog) = cx.binlog.cloned() else { return Ok(Done::default()) };
    let mut number = None;
    cx.engine.runtime.work_long(&mut || {
        let base = &binlog.place().base;
        number = binlog.numbers().into_iter().find(|n| file_name(base, *n) == file);
    });
    match number {
        Some(number) => purge(cx, &binlog, number).await,
        None => Err(SqlError::new(1373, "Target log not found in binlog index")),
    }
}

/// PURGE BINARY LOGS BEFORE: a file goes if it was complete before that time, which is when the
/// next file was begun.
pub(super) async fn before(cx: &mut AdminContext<'_>, time: &Value<'_>) -> Result<Done> {
    if time.is_null() {
        return Err(SqlError::new(1210, "Incorrect arguments to PURGE LOGS BEFORE"));
    }
    let Some(binlog) = cx.binlog.cloned() else { return Ok(Done::default()) };
    let time = to_u64(time).value;
    let mut first = Ok(0);
    cx.engine.runtime.work_long(&mut || first = binlog.first_after(time));
    let first = first.map_err(SqlError::unknown_error)?;
    purge(cx, &binlog, first).await
}

async fn purge(cx: &mut AdminContext<'_>, binlog: &Arc<Binlog>, number: u32) -> Result<Done> {
    // A start after a crash makes the files behind the last barrier again, so they stay until
    // another barrier is behind them.
    killable(&cx.session.process, binlog.barrier(cx.engine)).await??;
    let mut purged = None;
    cx.engine.runtime.work_long(&mut || purged = Some(binlog.purge_before(number)));
    let purged = purged
        .transpose()
        .map_err(|e| SqlError::new(1377, format!("Fatal error during log purge: {e}")))?;
    if purged.is_some_and(|p| p.in_use) {
        let note = "A file was not purged because it was being read by a replica";
        cx.session.warnings.push(Level::Warning, 1867, note);
    }
    Ok(Done::default())
}

//! Runs FLUSH.
use super::AdminContext;
use super::binlog::rotate;
use crate::error::{Result, SqlError};
use crate::plan::{FlushWhat, TableLock};
use crate::session_state::Done;
use crate::settings::Var;

pub(super) async fn run(cx: &mut AdminContext<'_>, what: &[FlushWhat]) -> Result<Done> {
    for what in what {
        flush(cx, what).await?;
    }
    Ok(Done::default())
}
async fn flush(cx: &mut AdminContext<'_>, what: &FlushWhat) -> Result<()> {
    match what {
        FlushWhat::Tables { names, read_lock: true } => {
            let (wait, engine) = (cx.wait(), cx.engine);
            if names.is_empty() {
                cx.locks.lock_everything(engine, wait.on(engine)).await?;
            } else {
                let tables: Vec<_> =
                    names.iter().map(|name| (name.clone(), TableLock::Read)).collect();
                cx.locks.lock_tables(engine, &tables, wait.on(engine)).await?;
            }
        }
        // Connections keep no cache of tables, and there is no cache of grants.
        FlushWhat::Tables { .. } | FlushWhat::Privileges => {}
        FlushWhat::BinaryLogs => rotate(cx).await?,
        FlushWhat::Logs | FlushWhat::OtherLogs => {
            if *what == FlushWhat::Logs {
                rotate(cx).await?;
            }
            let log = &cx.engine.store.log;
            log.flush_to(log.tail()).await;
            if let Some(why) = cx.settings.tell_again(Var::LogError).into_iter().next() {
                return Err(SqlError::log_not_reopened(why));
            }
        }
        FlushWhat::Status => {
            cx.status.reset();
            cx.session.handlers = Default::default();
        }
    }
    Ok(())
}

//! Runs CREATE, ALTER and DROP DATABASE.
use super::{DdlContext, done, refuse_system};
use crate::error::{Result, SqlError};
use crate::session_state::Done;
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_types::Collation;

async fn lock(cx: &mut DdlContext<'_>, name: &str) -> Result<()> {
    refuse_system(cx.session, name)?;
    if cx.locks.has_locked_tables() {
        return Err(SqlError::lock_or_active_transaction());
    }
    cx.take(&[(name, MetadataLockMode::Exclusive)], &[]).await
}

pub(super) async fn create(
    cx: &mut DdlContext<'_>,
    name: &str,
    if_not_exists: bool,
    collation: Option<Collation>,
) -> Result<Done> {
    lock(cx, name).await?;
    if cx.engine.dict.schema(name).is_some() {
        if !if_not_exists {
            return Err(SqlError::database_exists(name));
        }
        cx.note(SqlError::database_exists(name));
        cx.append(cx.database_record(name).await?).await?;
    } else {
        let (collation, record) =
            (collation.unwrap_or(cx.server_collation), cx.database_record(name).await?);
        cx.engine.create_schema(name, collation, record).await?;
    }
    Ok(done(1))
}

pub(super) async fn alter(
    cx: &mut DdlContext<'_>,
    name: &str,
    collation: Option<Collation>,
) -> Result<Done> {
    lock(cx, name).await?;
    let now = cx.engine.dict.require_schema(name)?;
    let record = cx.database_record(name).await?;
    match collation.filter(|c| *c != now.collation) {
        Some(collation) => cx.engine.alter_schema(name, collation, record).await?,
        None => cx.append(record).await?,
    }
    Ok(done(1))
}

/// Drops a database. The affected rows are the number of its tables and views.
pub(super) async fn drop(cx: &mut DdlContext<'_>, name: &str, if_exists: bool) -> Result<Done> {
    lock(cx, name).await?;
    if cx.engine.dict.schema(name).is_none() {
        if !if_exists {
            return Err(SqlError::cannot_drop_database(name));
        }
        cx.note(SqlError::cannot_drop_database(name));
        cx.append(cx.database_record(name).await?).await?;
        return Ok(done(0));
    }
    // A session that uses a table holds the table's lock, so wait for these locks. Meanwhile the
    // schema's lock prevents new tables.
    let (tables, views) = (cx.engine.dict.tables(name), cx.engine.dict.views(name));
    let names = tables.iter().map(|t| t.def.name.as_str());
    let names = names.chain(views.iter().map(|v| v.def.def.name.as_str()));
    let locks: Vec<_> = names.map(|t| (name, t, MetadataLockMode::Exclusive)).collect();
    cx.take(&[], &locks).await?;
    let dropped = cx.engine.drop_schema(name, cx.database_record(name).await?).await?;
    if cx.session.schema.as_deref() == Some(name) {
        cx.session.schema = None;
    }
    Ok(done(dropped as u64))
}

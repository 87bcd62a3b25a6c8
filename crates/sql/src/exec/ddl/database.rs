//! Runs CREATE, ALTER and DROP DATABASE.
use super::{DdlContext, done, refuse_system};
use crate::error::{Result, SqlError};
use crate::exec::locks::table_lock;
use crate::session_state::Done;
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_types::Collation;
use std::collections::BTreeSet;

/// Locks a database, and in the same call what is in it (MDL-2).
async fn lock(cx: &mut DdlContext<'_>, name: &str, objects: &BTreeSet<String>) -> Result<()> {
    refuse_system(cx.session, name)?;
    if cx.locks.has_locked_tables() {
        return Err(SqlError::lock_or_active_transaction());
    }
    let objects: Vec<_> =
        objects.iter().map(|object| (name, &**object, MetadataLockMode::Exclusive)).collect();
    cx.take(&[(name, MetadataLockMode::Exclusive)], &objects).await
}
/// Locks a database with all its tables and views. A session that uses a table holds the table's
/// lock, so these locks are waited for, while the database's lock prevents new tables.
async fn lock_whole(cx: &mut DdlContext<'_>, name: &str) -> Result<()> {
    let mark = cx.locks.metadata_lock.mark();
    loop {
        let seen = objects(cx, name);
        lock(cx, name, &seen).await?;
        // Another session may have made a table before the database was locked. Nobody can make one
        // now, and a table that was just made is hardly in use.
        let now = objects(cx, name);
        let mut made = now.difference(&seen);
        let (engine, own) = (cx.engine, &mut cx.locks.metadata_lock);
        if made
            .all(|made| own.try_lock(&table_lock(engine, name, made), MetadataLockMode::Exclusive))
        {
            return Ok(());
        }
        cx.locks.metadata_lock.release_to(mark);
    }
}
/// The names of the database's tables and views.
fn objects(cx: &DdlContext<'_>, name: &str) -> BTreeSet<String> {
    let (tables, views) = (cx.engine.dict.tables(name), cx.engine.dict.views(name));
    let tables = tables.iter().map(|table| &table.def);
    let all = tables.chain(views.iter().map(|view| &view.def.def));
    all.map(|def| def.name.clone()).collect()
}

pub(super) async fn create(
    cx: &mut DdlContext<'_>,
    name: &str,
    if_not_exists: bool,
    collation: Option<Collation>,
) -> Result<Done> {
    lock(cx, name, &BTreeSet::new()).await?;
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
    lock(cx, name, &BTreeSet::new()).await?;
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
    lock_whole(cx, name).await?;
    if cx.engine.dict.schema(name).is_none() {
        if !if_exists {
            return Err(SqlError::cannot_drop_database(name));
        }
        cx.note(SqlError::cannot_drop_database(name));
        cx.append(cx.database_record(name).await?).await?;
        return Ok(done(0));
    }
    let dropped = cx.engine.drop_schema(name, cx.database_record(name).await?).await?;
    if cx.session.schema.as_deref() == Some(name) {
        cx.session.schema = None;
    }
    Ok(done(dropped as u64))
}

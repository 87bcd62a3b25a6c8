//! Runs CREATE, ALTER and DROP VIEW.
use super::table::allow_missing;
use super::{DdlContext, done};
use crate::error::{Result, SqlError};
use crate::plan::{CreateView, TableName, ViewChange};
use crate::session_state::{Done, Level};

pub(super) async fn create(cx: &mut DdlContext<'_>, create: &CreateView) -> Result<Done> {
    let (schema, name) = (&create.def.def.schema, &create.def.def.name);
    cx.lock_tables(&[(schema, name)]).await?;
    cx.engine.dict.require_schema(schema)?;
    let is_new = create.change == ViewChange::Create;
    if cx.engine.dict.table(schema, name).is_some() {
        return Err(match is_new {
            true => SqlError::table_exists(name),
            false => SqlError::not_of_kind(schema, name, "VIEW"),
        });
    }
    let there = cx.engine.dict.view(schema, name).is_some();
    if there && is_new {
        return Err(SqlError::table_exists(name));
    }
    if !there && create.change == ViewChange::Alter {
        return Err(SqlError::no_such_table(schema, name));
    }
    if create.cannot_merge {
        let warning = SqlError::cannot_merge_view();
        cx.session.warnings.push(Level::Warning, warning.code, warning.message);
    }
    let record = cx.record(&[schema]).await?;
    cx.engine.create_view(create.def.clone(), there, record).await?;
    Ok(done(0))
}

pub(super) async fn drop(
    cx: &mut DdlContext<'_>,
    names: &[TableName],
    if_exists: bool,
) -> Result<Done> {
    let all: Vec<_> = names.iter().map(|t| (&*t.schema, &*t.name)).collect();
    cx.lock_tables(&all).await?;
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for TableName { schema, name } in names {
        match cx.engine.dict.view(schema, name) {
            Some(view) => there.push(view),
            None if cx.engine.dict.table(schema, name).is_some() => {
                return Err(SqlError::not_of_kind(schema, name, "VIEW"));
            }
            None => missing.push(format!("{schema}.{name}")),
        }
    }
    allow_missing(cx, &missing, if_exists)?;
    let schemas: Vec<&str> = names.iter().map(|name| &*name.schema).collect();
    let record = cx.record(&schemas).await?;
    if there.is_empty() {
        cx.append(record).await?;
    } else {
        cx.engine.drop_views(&there, record).await?;
    }
    Ok(done(0))
}

//! Runs CREATE, ALTER and DROP VIEW.
use super::table::allow_missing;
use super::{DdlContext, done};
use crate::error::{Result, SqlError};
use crate::plan::{CreateView, Plan, TableName, ViewChange};
use crate::session_state::{Done, Level};

/// The view's columns, and what `*` means in its text, come from the plan's tables and views.
pub(super) async fn create(
    cx: &mut DdlContext<'_>,
    create: &CreateView,
    plan: &Plan,
) -> Result<Option<Done>> {
    let (schema, name) = (&create.def.def.schema, &create.def.def.name);
    let tables = plan.tables.iter().map(|used| &used.table.def);
    let sources = tables.chain(plan.views.iter().map(|view| &view.def.def));
    let sources: Vec<_> = sources.map(|def| (&*def.schema, &*def.name)).collect();
    cx.lock_with_sources(&[(schema, name)], &[], &sources).await?;
    let database = cx.engine.dict.require_schema(schema)?;
    if !plan.is_current() || create.def.def.collation != database.collation {
        return Ok(None);
    }
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
    Ok(Some(done(0)))
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

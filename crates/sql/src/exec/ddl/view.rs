//! Runs CREATE, ALTER and DROP VIEW.
use super::table::allow_missing;
use super::{DdlContext, done};
use crate::error::{Result, SqlError};
use crate::plan::{CreateView, Plan, TableName, UnsaidOfView, ViewChange};
use crate::session_state::{Done, Level};
use redolith_engine::dict::view::{Algorithm, CheckOption, ViewDef};

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
    let there = cx.engine.dict.view(schema, name);
    let is_there = there.is_some();
    if is_there && is_new {
        return Err(SqlError::table_exists(name));
    }
    if !is_there && create.change == ViewChange::Alter {
        return Err(SqlError::no_such_table(schema, name));
    }
    let mut def = create.def.clone();
    if let Some(old) = there.filter(|_| create.change == ViewChange::Alter) {
        keep_unsaid(&mut def, &old.def, create.unsaid)?;
    }
    if def.algorithm == Algorithm::Merge && !create.is_plain {
        def.algorithm = Algorithm::Undefined;
        let warning = SqlError::cannot_merge_view();
        cx.session.warnings.push(Level::Warning, warning.code, warning.message);
    }
    let record = cx.record(&[schema]).await?;
    cx.engine.create_view(def, is_there, record).await?;
    Ok(Some(done(0)))
}

/// What an ALTER VIEW does not say stays as it is.
fn keep_unsaid(def: &mut ViewDef, old: &ViewDef, unsaid: UnsaidOfView) -> Result<()> {
    if unsaid.algorithm {
        def.algorithm = old.algorithm;
        def.updatable &= def.algorithm != Algorithm::Temptable;
    }
    if unsaid.definer {
        def.definer = old.definer.clone();
    }
    if unsaid.security {
        def.invoker = old.invoker;
    }
    match def.check != CheckOption::None && !def.updatable {
        true => Err(SqlError::check_option_on_view(&def.def.schema, &def.def.name)),
        false => Ok(()),
    }
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

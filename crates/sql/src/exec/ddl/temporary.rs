//! Runs definitions of temporary tables ([`crate::temporary_tables`]): CREATE and DROP TEMPORARY
//! TABLE, and what else is said of a table that is a temporary one.
//!
//! They take no metadata locks (TEMPTABLE-7) and write no record (TEMPTABLE-8).
use super::{DdlContext, alter, check_names, done, refuse_system, table};
use crate::bind::check_table;
use crate::error::{Result, SqlError};
use crate::generated_key::generate;
use crate::plan::{AlterAction, TableName};
use crate::session_state::Done;
use crate::table_info::TableInfo;
use redolith_types::TableDef;
use std::sync::Arc;

/// Whether the session has a temporary table of this name, with a note (IF NOT EXISTS). Without IF
/// NOT EXISTS that is an error. Other tables and views of the name do not matter.
pub(crate) fn exists(cx: &mut DdlContext<'_>, def: &TableDef, if_not_exists: bool) -> Result<bool> {
    let there = cx.session.temporary.find(&def.schema, &def.name).is_some();
    table::note_if(there, cx, def, if_not_exists)
}

pub(super) async fn create(
    cx: &mut DdlContext<'_>,
    mut def: TableDef,
    auto_increment: u64,
    if_not_exists: bool,
) -> Result<Done> {
    refuse_system(cx.session, &def.schema)?;
    if exists(cx, &def, if_not_exists)? {
        return Ok(done(0));
    }
    cx.engine.dict.require_schema(&def.schema)?;
    check_names::require_short(&def)?;
    if cx.generates_keys && generate(&mut def)? {
        check_table(&def)?;
    }
    cx.session.temporary.create(def, auto_increment.max(1)).await?;
    Ok(done(0))
}

/// The temporary tables among those named, and the other names.
pub(super) fn among(
    cx: &DdlContext<'_>,
    names: &[TableName],
) -> (Vec<Arc<TableInfo>>, Vec<TableName>) {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for name in names {
        match cx.session.temporary.named(name) {
            Some(table) => own.push(table.clone()),
            None => others.push(name.clone()),
        }
    }
    (own, others)
}

/// Empties a table. As with all tables, the session has ended its transaction.
pub(super) async fn truncate(cx: &mut DdlContext<'_>, table: &TableInfo) -> Result<Done> {
    let new = cx.engine.truncate_table(table.engine(), None).await;
    cx.session.temporary.look_again(table);
    new?;
    Ok(done(0))
}

/// Runs ALTER TABLE of indexes and properties.
pub(super) async fn alter(
    cx: &mut DdlContext<'_>,
    table: &TableInfo,
    name: &TableName,
    actions: &[AlterAction],
) -> Result<Done> {
    let changes = alter::plan_changes(&table.def, name, actions)?;
    let def = changes.definition(&table.def);
    require_free(cx, table, &def)?;
    check_names::require_short(&def)?;
    cx.session.temporary.charge_for(table, &def)?;
    let (schema, name) = (def.schema.clone(), def.name.clone());
    let old = table.engine().clone();
    let inner = &old.def;
    let def = TableDef { schema: inner.schema.clone(), name: inner.name.clone(), ..def };
    let altered = alter::apply(cx, &old, &table.def.name, changes, def, None).await;
    // The engine may have given the table another state although an index could not be made.
    let now = cx.engine.dict.table(&inner.schema, &inner.name);
    let now = now.ok_or_else(|| SqlError::internal("a table that was altered"))?;
    let (schema, name) = match &altered {
        Ok(()) => (&schema, &name),
        Err(_) => (&table.def.schema, &table.def.name),
    };
    cx.session.temporary.replace(table, now, schema, name);
    altered?;
    Ok(Done { info: "Records: 0  Duplicates: 0  Warnings: 0".into(), ..Done::default() })
}

/// Fails if a table gets the name of another temporary table, or goes where there is no database.
pub(crate) fn require_free(
    cx: &mut DdlContext<'_>,
    table: &TableInfo,
    new: &TableDef,
) -> Result<()> {
    if (&new.schema, &new.name) == (&table.def.schema, &table.def.name) {
        return Ok(());
    }
    refuse_system(cx.session, &new.schema)?;
    cx.engine.dict.require_schema(&new.schema)?;
    exists(cx, new, false).map(drop)
}

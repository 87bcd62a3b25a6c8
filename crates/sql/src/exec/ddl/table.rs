//! Runs CREATE, DROP, TRUNCATE and RENAME TABLE.
use super::{DdlContext, check_names, done, has_old_collation, temporary};
use crate::bind::check_table;
use crate::error::{Result, SqlError};
use crate::exec::show::{create_text, quoted_name};
use crate::generated_key::generate;
use crate::plan::{CreateTable, TableName};
use crate::session_state::Done;
use redolith_engine::dict::metadata_lock::MetadataLockMode;
use redolith_engine::dict::table::Table;
use redolith_engine::dict::view::View;
use redolith_types::TableDef;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A table that is to be made.
struct New {
    def: TableDef,
    auto_increment: u64,
    if_not_exists: bool,
    source: Source,
}
/// What a definition comes from, which is looked at again under the locks (DDL-2).
enum Source {
    /// The statement, bound at this version of the dictionary.
    Statement { bound_at: u64 },
    /// A table of all sessions (LIKE).
    Model(Arc<Table>),
    /// A temporary table, which no other session changes. The statement's text means nothing to a
    /// replica, so the whole definition is logged.
    Temporary,
}

pub(super) async fn create(
    cx: &mut DdlContext<'_>,
    create: &CreateTable,
    bound_at: u64,
) -> Result<Option<Done>> {
    cx.session.warnings.push_all(&create.notes);
    let (def, auto_increment) = (create.def.clone(), create.auto_increment.unwrap_or(1));
    let if_not_exists = create.if_not_exists;
    if create.temporary {
        return temporary::create(cx, def, auto_increment, if_not_exists).await.map(Some);
    }
    let source = Source::Statement { bound_at };
    create_def(cx, New { def, auto_increment, if_not_exists, source }).await
}

pub(super) async fn create_like(
    cx: &mut DdlContext<'_>,
    name: &TableName,
    like: &TableName,
    is_temporary: bool,
    if_not_exists: bool,
) -> Result<Option<Done>> {
    let (model, source) = match cx.session.temporary.named(like) {
        Some(own) => (own.def.clone(), Source::Temporary),
        None => {
            let model = find(cx, like)?;
            (model.def.clone(), Source::Model(model))
        }
    };
    let (schema, table) = (name.schema.to_string(), name.name.to_string());
    let mut def = TableDef { schema, name: table, ..model };
    // As in MySQL, all check constraints get generated names.
    for n in 0..def.checks.len() {
        def.checks[n].name = def.generated_check_name(n as u64 + 1);
    }
    if is_temporary {
        return temporary::create(cx, def, 1, if_not_exists).await.map(Some);
    }
    create_def(cx, New { def, auto_increment: 1, if_not_exists, source }).await
}

/// Returns None if what the definition comes from has changed; bind again.
async fn create_def(cx: &mut DdlContext<'_>, new: New) -> Result<Option<Done>> {
    let there = lock_new(cx, &new).await?;
    if !there && new.source.has_changed(cx, &new.def)? {
        return Ok(None);
    }
    let New { mut def, auto_increment, if_not_exists, source } = new;
    let in_full = matches!(source, Source::Temporary);
    if note_if(there, cx, &def, if_not_exists)? {
        let record = match in_full {
            true => cx.whole_record(&def, auto_increment, if_not_exists).await?,
            false => cx.record(&[&def.schema]).await?,
        };
        cx.append(record).await?;
        return Ok(Some(done(0)));
    }
    check_names::require_free(cx.engine, &def, &[])?;
    let is_completed = cx.generates_keys && generate(&mut def)?;
    if is_completed {
        check_table(&def)?;
    }
    let record = if is_completed || in_full {
        cx.whole_record(&def, auto_increment, if_not_exists).await?
    } else {
        cx.record(&[&def.schema]).await?
    };
    cx.engine.create_table(def, auto_increment.max(1), record).await?;
    Ok(Some(done(0)))
}

/// Locks the new table's name, and tells whether the name is taken.
async fn lock_new(cx: &mut DdlContext<'_>, new: &New) -> Result<bool> {
    let def = &new.def;
    let name = (&*def.schema, &*def.name);
    let is_taken = |cx: &DdlContext<'_>| cx.engine.dict.is_taken(name.0, name.1);
    if is_taken(cx) {
        if !new.if_not_exists {
            return Ok(true);
        }
        // The table stays until the statement is in the log, but CREATE does not wait for sessions
        // that use it.
        let mark = cx.locks.metadata_lock.mark();
        cx.locks.check(name.0, name.1, false)?;
        let mode = MetadataLockMode::Read;
        cx.take(&[(name.0, mode)], &[(name.0, name.1, mode)]).await?;
        if is_taken(cx) {
            return Ok(true);
        }
        cx.locks.metadata_lock.release_to(mark);
    }
    let checks = check_names::locks(def, None);
    let checks: Vec<_> = checks.into_iter().map(|check| (name.0, check)).collect();
    let model = match &new.source {
        Source::Model(model) => Some((&*model.def.schema, &*model.def.name)),
        Source::Statement { .. } | Source::Temporary => None,
    };
    cx.lock_with_sources(&[name], &checks, model.as_slice()).await?;
    cx.engine.dict.require_schema(name.0)?;
    Ok(is_taken(cx))
}

impl Source {
    /// Whether the definition may be another one now. The caller holds the locks.
    fn has_changed(&self, cx: &DdlContext<'_>, def: &TableDef) -> Result<bool> {
        match self {
            Source::Statement { bound_at } => has_old_collation(cx.engine, def, *bound_at),
            Source::Model(model) => {
                let now = cx.engine.dict.table(&model.def.schema, &model.def.name);
                Ok(!now.is_some_and(|now| Arc::ptr_eq(&now, model)))
            }
            Source::Temporary => Ok(false),
        }
    }
}

/// The text that makes the whole definition anew on a replica (GIPK-2, CTAS-3).
pub(super) fn logged_text(
    cx: &mut DdlContext<'_>,
    def: &TableDef,
    auto_increment: u64,
    if_not_exists: bool,
) -> Result<String> {
    let mut called = String::from(if if_not_exists { "IF NOT EXISTS " } else { "" });
    if cx.session.schema.as_deref() != Some(&*def.schema) {
        called.extend([&*quoted_name(&def.schema), "."]);
    }
    called.push_str(&quoted_name(&def.name));
    create_text(def, &called, auto_increment, &mut cx.session.memory.statement)
}

/// Returns `there`, which says that the table exists, with a note (IF NOT EXISTS). Without IF NOT
/// EXISTS, an existing table is an error.
pub(super) fn note_if(
    there: bool,
    cx: &mut DdlContext<'_>,
    def: &TableDef,
    if_not_exists: bool,
) -> Result<bool> {
    if there {
        let error = SqlError::table_exists(&def.name);
        if !if_not_exists {
            return Err(error);
        }
        cx.note(error);
    }
    Ok(there)
}

pub(super) async fn drop(
    cx: &mut DdlContext<'_>,
    names: &[TableName],
    only_temporary: bool,
    if_exists: bool,
) -> Result<Done> {
    let (own, names) = temporary::among(cx, names);
    if only_temporary || names.is_empty() {
        let missing: Vec<_> = names.iter().map(|n| format!("{}.{}", n.schema, n.name)).collect();
        allow_missing(cx, &missing, if_exists)?;
        cx.session.temporary.drop(&own).await?;
        return Ok(done(0));
    }
    drop_shared(cx, &names, if_exists, !own.is_empty()).await?;
    cx.session.temporary.drop(&own).await?;
    Ok(done(0))
}

/// Drops tables that all sessions have. `in_part`: the statement names temporary tables too, so its
/// text is not what is logged.
async fn drop_shared(
    cx: &mut DdlContext<'_>,
    names: &[TableName],
    if_exists: bool,
    in_part: bool,
) -> Result<()> {
    let all: Vec<_> = names.iter().map(|t| (&*t.schema, &*t.name)).collect();
    cx.lock_tables(&all).await?;
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match cx.engine.dict.table(&name.schema, &name.name) {
            Some(table) => there.push(table),
            None => missing.push(format!("{}.{}", name.schema, name.name)),
        }
    }
    let unknown = names.iter().find(|name| cx.engine.dict.schema(&name.schema).is_none());
    if let Some(name) = unknown.filter(|_| !if_exists) {
        return Err(SqlError::unknown_database(&name.schema));
    }
    allow_missing(cx, &missing, if_exists)?;
    let schemas: Vec<&str> = names.iter().map(|name| &*name.schema).collect();
    let text = in_part.then(|| drop_text(names, if_exists));
    let record = cx.record_as(&schemas, text.as_deref().map(str::as_bytes)).await?;
    if there.is_empty() {
        cx.append(record).await
    } else {
        Ok(cx.engine.drop_tables(&there, record).await?)
    }
}
fn drop_text(names: &[TableName], if_exists: bool) -> String {
    let names = names.iter().map(|n| [quoted_name(&n.schema), quoted_name(&n.name)].join("."));
    let names: Vec<String> = names.collect();
    format!("DROP TABLE {}{}", if if_exists { "IF EXISTS " } else { "" }, names.join(","))
}

/// What DROP says of names that are not there: an error, or with IF EXISTS a note for each.
pub(super) fn allow_missing(
    cx: &mut DdlContext<'_>,
    missing: &[String],
    if_exists: bool,
) -> Result<()> {
    if !missing.is_empty() && !if_exists {
        return Err(SqlError::unknown_table(missing.join(",")));
    }
    missing.iter().for_each(|name| cx.note(SqlError::unknown_table(name)));
    Ok(())
}

pub(super) async fn truncate(cx: &mut DdlContext<'_>, name: &TableName) -> Result<Done> {
    if let Some(own) = cx.session.temporary.named(name).cloned() {
        return temporary::truncate(cx, &own).await;
    }
    cx.lock_tables(&[(&name.schema, &name.name)]).await?;
    let table = find(cx, name)?;
    cx.engine.truncate_table(&table, cx.record(&[&name.schema]).await?).await?;
    Ok(done(0))
}

/// Looks up the table.
pub(super) fn find(cx: &DdlContext<'_>, name: &TableName) -> Result<Arc<Table>> {
    cx.engine
        .dict
        .table(&name.schema, &name.name)
        .ok_or_else(|| SqlError::no_such_table(&name.schema, &name.name))
}

pub(super) async fn rename(
    cx: &mut DdlContext<'_>,
    renames: &[(TableName, TableName)],
) -> Result<Done> {
    let mut names: Vec<_> =
        renames.iter().flat_map(|(from, to)| [from, to]).map(|t| (&*t.schema, &*t.name)).collect();
    names.sort_unstable();
    names.dedup();
    let moves = lock_for_rename(cx, &names, renames).await?;
    let new_names: HashMap<TableName, TableName> =
        moves.iter().map(|(object, to)| (object.name(), to.clone())).collect();
    let (mut tables, mut views) = (Vec::new(), Vec::new());
    for (object, to) in moves {
        let (schema, name) = (to.schema.to_string(), to.name.to_string());
        match object {
            Object::Table(table) => tables.push((table, schema, name)),
            Object::View(view) if view.def.def.schema != schema => {
                return Err(SqlError::schema_change_forbidden(&view.def.def.schema, schema));
            }
            Object::View(view) => views.push((view, schema, name)),
        }
    }
    check_renamed(cx, &tables)?;
    let schemas: Vec<&str> = names.iter().map(|(schema, _)| *schema).collect();
    let record = cx.record(&schemas).await?;
    if tables.is_empty() && views.is_empty() {
        cx.append(record).await?;
    } else {
        cx.engine.rename_tables(&tables, &views, record).await?;
        cx.locks.renamed(|old| new_names.get(old).cloned());
    }
    Ok(done(0))
}

/// Locks the names, and those of the check constraints that change with their tables
/// (CONSTRAINT-3). Which constraints a table has may change until the table is locked: then the
/// statement begins again.
async fn lock_for_rename(
    cx: &mut DdlContext<'_>,
    names: &[(&str, &str)],
    renames: &[(TableName, TableName)],
) -> Result<Vec<(Object, TableName)>> {
    let mark = cx.locks.metadata_lock.mark();
    let old: Vec<_> = renames.iter().map(|(from, _)| (&*from.schema, &*from.name)).collect();
    loop {
        let seen = resolve(cx, renames).unwrap_or_default();
        let checks = check_locks(&seen);
        let held: Vec<_> = checks.iter().map(|(schema, name)| (&**schema, name.clone())).collect();
        cx.lock_for_rename(&old, names, &held).await?;
        let moves = resolve(cx, renames)?;
        let checks: HashSet<_> = checks.iter().collect();
        if check_locks(&moves).iter().all(|lock| checks.contains(lock)) {
            return Ok(moves);
        }
        cx.locks.metadata_lock.release_to(mark);
    }
}
fn check_locks(moves: &[(Object, TableName)]) -> Vec<(Box<str>, String)> {
    let mut locks = Vec::new();
    for (object, to) in moves {
        if let Object::Table(table) = object {
            let mut def = table.def.clone();
            def.rename(&*to.schema, &*to.name);
            let names = check_names::locks(&def, Some(&table.def));
            locks.extend(names.into_iter().map(|name| (to.schema.clone(), name)));
        }
    }
    locks
}
/// Error 3822 if two check constraints would have one name afterwards.
fn check_renamed(cx: &DdlContext<'_>, tables: &[(Arc<Table>, String, String)]) -> Result<()> {
    // The tables of a database are looked through once, however many come into it.
    let mut names: BTreeMap<&str, HashMap<String, String>> = BTreeMap::new();
    for (table, schema, name) in tables.iter().filter(|(table, ..)| !table.def.checks.is_empty()) {
        let mut def = table.def.clone();
        def.rename(schema.as_str(), name.as_str());
        check_names::require_short(&def)?;
        let names = names.entry(schema).or_default();
        for check in &def.checks {
            if names.insert(check.name.to_ascii_lowercase(), check.name.to_string()).is_some() {
                return Err(SqlError::duplicate_check_name(&check.name));
            }
        }
    }
    let mut gone: HashMap<&str, Vec<&str>> = HashMap::new();
    for (table, ..) in tables {
        gone.entry(&table.def.schema).or_default().push(&table.def.name);
    }
    for (schema, names) in &names {
        let (taken, gone) = (Cell::new(None), gone.get(schema).map_or(&[][..], Vec::as_slice));
        let is_taken = |name: &str| {
            taken.set(names.get(&name.to_ascii_lowercase()));
            taken.get().is_some()
        };
        if cx.engine.dict.has_check(schema, gone, is_taken) {
            return Err(SqlError::duplicate_check_name(taken.get().map_or("", String::as_str)));
        }
    }
    Ok(())
}

/// What RENAME TABLE can rename.
#[derive(Clone)]
enum Object {
    Table(Arc<Table>),
    View(Arc<View>),
}
impl Object {
    fn find(cx: &DdlContext<'_>, name: &TableName) -> Option<Object> {
        let dict = &cx.engine.dict;
        let table = dict.table(&name.schema, &name.name).map(Object::Table);
        table.or_else(|| dict.view(&name.schema, &name.name).map(Object::View))
    }
    /// The name that it has now, which no other object has.
    fn name(&self) -> TableName {
        let def = match self {
            Object::Table(table) => &table.def,
            Object::View(view) => &view.def.def,
        };
        TableName { schema: (&*def.schema).into(), name: (&*def.name).into() }
    }
}

/// Follows renames one after the other (`a TO x, b TO a, x TO b` swaps), as if each were done.
/// Returns each object with its final name.
fn resolve(
    cx: &DdlContext<'_>,
    renames: &[(TableName, TableName)],
) -> Result<Vec<(Object, TableName)>> {
    let mut moved: Vec<(Object, TableName)> = Vec::new();
    // The places in `moved` by the present name of an object and by its old name.
    let (mut by_name, mut by_old_name) = (HashMap::new(), HashMap::new());
    for (from, to) in renames {
        let called = |name: &TableName| {
            let place: Option<&usize> = by_name.get(name);
            let unmoved = || Object::find(cx, name).filter(|_| !by_old_name.contains_key(name));
            place.map(|i| moved[*i].0.clone()).or_else(unmoved)
        };
        let object =
            called(from).ok_or_else(|| SqlError::no_such_table(&from.schema, &from.name))?;
        if called(to).is_some() {
            return Err(SqlError::table_exists(&to.name));
        }
        by_name.remove(from);
        let place = *by_old_name.entry(object.name()).or_insert(moved.len());
        by_name.insert(to.clone(), place);
        match moved.get_mut(place) {
            Some((_, now)) => *now = to.clone(),
            None => moved.push((object, to.clone())),
        }
    }
    moved.retain(|(object, name)| object.name() != *name);
    Ok(moved)
}

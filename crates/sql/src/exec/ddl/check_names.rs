//! The names of check constraints, which are unique in a database.
//!
//! **CONSTRAINT-3** A statement that brings a name into a database holds a lock on the name while
//! it looks for other constraints of the name, and until its change is done. The lock is a metadata
//! lock under a name that no table can have. Names of a temporary table's constraints need only be
//! unique in the table, since the database does not have them.
use crate::error::{Result, SqlError};
use crate::parse::limits::MAX_NAME_CHARS;
use redolith_engine::Engine;
use redolith_types::TableDef;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The names to lock (CONSTRAINT-3) for constraints that `old`, the table's present definition,
/// does not have.
pub(crate) fn locks(def: &TableDef, old: Option<&TableDef>) -> Vec<String> {
    let old = old.filter(|old| old.schema == def.schema);
    let is_new = |name: &str| old.is_none_or(|old| old.check(name).is_none());
    let new = def.checks.iter().filter(|check| is_new(&check.name));
    new.map(|check| format!("\0check/{}", check.name.to_ascii_lowercase())).collect()
}

/// Error 3822 if a table of the database, other than those named in `besides`, has a constraint of
/// the same name.
pub(crate) fn require_free(engine: &Engine, def: &TableDef, besides: &[&str]) -> Result<()> {
    if def.checks.is_empty() {
        return Ok(());
    }
    require_short(def)?;
    // All constraints of the database are looked through once, and without an allocation for each.
    let names: HashMap<String, &str> = def
        .checks
        .iter()
        .map(|check| (check.name.to_ascii_lowercase(), check.name.as_str()))
        .collect();
    let (taken, lower) = (Cell::new(None), RefCell::new(String::new()));
    let is_taken = |name: &str| {
        let mut lower = lower.borrow_mut();
        lower.clear();
        lower.push_str(name);
        lower.make_ascii_lowercase();
        taken.set(names.get(lower.as_str()).copied());
        taken.get().is_some()
    };
    match engine.dict.has_check(&def.schema, besides, is_taken) {
        true => Err(SqlError::duplicate_check_name(taken.get().unwrap_or_default())),
        false => Ok(()),
    }
}

/// A name may have become too long with its table's.
pub(crate) fn require_short(def: &TableDef) -> Result<()> {
    let long = def.checks.iter().find(|check| check.name.chars().count() > MAX_NAME_CHARS);
    long.map_or(Ok(()), |check| Err(SqlError::name_too_long(&check.name)))
}

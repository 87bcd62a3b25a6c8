//! The indexes of a table that ALTER TABLE changes: which of the old ones stay, and under which
//! names (ALTER-2), and which are new.
use super::alter::NewColumn;
use super::ddl::check_characters;
use super::{Binder, index_def};
use crate::error::{Result, SqlError};
use crate::parse::ast::{Alter, IndexKind, IndexPart, IndexSpec};
use crate::plan::AlterAction;
use redolith_types::{DefaultValue, IndexDef, SqlType, TableDef};
use std::collections::HashSet;

impl Binder<'_> {
    /// Applies DROP INDEX and RENAME INDEX to `def`. These name the indexes of the old definition
    /// (ALTER-2), so that indexes can exchange their names. ADD INDEX comes afterwards.
    pub(super) fn old_indexes(
        &mut self,
        def: &mut TableDef,
        actions: &[Alter],
        out: &mut Vec<AlterAction>,
    ) -> Result<()> {
        let mut stays = self.names_of_old_indexes(def, actions)?;
        for action in actions {
            match action {
                Alter::DropIndex(name) => out.push(AlterAction::DropIndex(name.as_str().into())),
                Alter::RenameIndex(from, to) => {
                    check_characters(to)?;
                    index_def::check_name(to)?;
                    let (from, to) = (from.as_str().into(), to.as_str().into());
                    out.push(AlterAction::RenameIndex { from, to });
                }
                _ => {}
            }
        }
        let mut names = HashSet::with_capacity(stays.len());
        if let Some(twice) = stays.iter().flatten().find(|name| !names.insert(name.to_lowercase()))
        {
            return Err(SqlError::duplicate_key_name(twice));
        }
        let old = std::mem::take(&mut def.indexes).into_iter().zip(&mut stays);
        def.indexes =
            old.filter_map(|(x, name)| Some(IndexDef { name: name.take()?, ..x })).collect();
        Ok(())
    }

    /// For each index of the old definition, its new name; None if it is dropped.
    fn names_of_old_indexes(
        &mut self,
        old: &TableDef,
        actions: &[Alter],
    ) -> Result<Vec<Option<String>>> {
        let mut stays: Vec<Option<String>> =
            old.indexes.iter().map(|i| Some(i.name.clone())).collect();
        let mut named = vec![false; stays.len()];
        for action in actions {
            self.step(old.indexes.len() + 1)?;
            let (name, to) = match action {
                Alter::DropPrimaryKey => ("PRIMARY", None),
                Alter::DropIndex(name) => (name.as_str(), None),
                Alter::RenameIndex(from, to) => (from.as_str(), Some(to)),
                _ => continue,
            };
            if let Some(to) = to {
                // The primary key keeps its name, and no other index has it.
                index_def::check_not_primary(name)?;
                index_def::check_not_primary(to)?;
            }
            let found = old
                .indexes
                .iter()
                .zip(&named)
                .position(|(i, named)| !named && i.name.eq_ignore_ascii_case(name));
            let found = found.ok_or_else(|| match to {
                Some(_) => SqlError::no_such_key(name, &old.name),
                None => SqlError::cannot_drop(name),
            })?;
            named[found] = true;
            stays[found] = to.cloned();
        }
        Ok(stays)
    }

    /// Gives the new definition its columns and its indexes: those that stay, with the columns that
    /// stay, then the new ones.
    pub(super) fn new_indexes<'c>(
        &mut self,
        old: &TableDef,
        def: &mut TableDef,
        columns: impl Iterator<Item = &'c NewColumn> + Clone,
        actions: &[Alter],
        specs: Vec<IndexSpec>,
    ) -> Result<()> {
        def.columns = columns.clone().map(|c| c.column.clone()).collect();
        let nullable: Vec<Option<bool>> = columns.clone().map(|c| c.nullable).collect();
        let mut place = vec![None; old.columns.len()];
        columns.enumerate().for_each(|(n, c)| {
            if let Some(from) = c.from {
                place[from] = Some(n);
            }
        });
        let stays = self.names_of_old_indexes(old, actions)?;
        let mut all = Vec::new();
        for (index, name) in old.indexes.iter().zip(stays) {
            let Some(name) = name else { continue };
            let parts: Vec<IndexPart> = index
                .columns
                .iter()
                .filter_map(|part| {
                    let column = &def.columns[place[part.column]?];
                    Some(IndexPart {
                        column: column.name.clone(),
                        prefix: part.prefix.filter(|n| is_prefix(*n, &column.ty)),
                        descending: part.desc,
                    })
                })
                .collect();
            let kind = match (index.primary, index.unique) {
                (true, _) => IndexKind::Primary,
                (_, true) => IndexKind::Unique,
                _ => IndexKind::Plain,
            };
            if !parts.is_empty() {
                all.push(IndexSpec { kind, name: Some(name), parts, comment: None });
            }
        }
        all.extend(specs);
        for action in actions {
            match action {
                Alter::AddIndex(spec) => {
                    spec.name.iter().try_for_each(|name| check_characters(name))?;
                    all.push(spec.clone());
                }
                Alter::RenameIndex(_, to) => check_characters(to)?,
                _ => {}
            }
        }
        for spec in &all {
            self.check_comment(spec)?;
            if spec.kind == IndexKind::Primary {
                // As in MySQL, an old column of the key may have had NULL as its default.
                for part in &spec.parts {
                    if let Some(n) = def.column(&part.column).filter(|n| nullable[*n].is_none()) {
                        def.columns[n].default.take_if(|d| *d == DefaultValue::Null);
                    }
                }
            }
            index_def::add(def, spec, &nullable)?;
        }
        Ok(())
    }
}

/// Whether an index on the first `n` characters or bytes of a column has less than the column.
fn is_prefix(n: u32, ty: &SqlType) -> bool {
    match ty {
        SqlType::Char { chars, .. } | SqlType::VarChar { chars, .. } => n < *chars,
        SqlType::Binary { len } | SqlType::VarBinary { len } => n < *len,
        _ => ty.is_lob(),
    }
}

//! Binds definitions: resolves names, checks and completes columns and indexes.
use super::Binder;
use super::column_def::{ColumnContext, notes_of};
use super::index_def;
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, Statement as S};
use crate::parse::limits::{MAX_COLUMNS, MAX_NAME_CHARS};
use crate::plan::{CreateTable, DdlStmt, SelectPlan, TableName};
use crate::session_state::Level;
use redolith_types::{Charset, Collation, StatisticsOptions, TableDef};
use std::collections::HashSet;
use std::sync::Arc;

/// The greatest size of a row, in bytes, without its BLOBs and TEXTs.
const MAX_ROW: u64 = 65_535;

impl Binder<'_> {
    pub(super) fn ddl(&mut self, statement: &S) -> Result<DdlStmt> {
        Ok(match statement {
            S::CreateDatabase { name, if_not_exists, charset, collation } => {
                check_characters(name)?;
                check_name(name).map_err(|_| SqlError::wrong_database_name(name))?;
                let collation =
                    collation_option(self.cx, charset.as_deref(), collation.as_deref(), None)?;
                DdlStmt::CreateDatabase {
                    name: name.as_str().into(),
                    if_not_exists: *if_not_exists,
                    collation,
                }
            }
            S::AlterDatabase { name, charset, collation } => {
                let name = name.as_deref().or(self.cx.schema).ok_or_else(SqlError::no_database)?;
                DdlStmt::AlterDatabase {
                    name: name.into(),
                    collation: collation_option(
                        self.cx,
                        charset.as_deref(),
                        collation.as_deref(),
                        None,
                    )?,
                }
            }
            S::DropDatabase { name, if_exists } => {
                DdlStmt::DropDatabase { name: name.as_str().into(), if_exists: *if_exists }
            }
            S::CreateTable(create) => {
                let (table, select) = self.create_table(create)?;
                match select {
                    None => DdlStmt::CreateTable(Box::new(table)),
                    Some(select) => DdlStmt::CreateSelect(Box::new(self.create_select(
                        table,
                        select,
                        create.on_taken,
                    )?)),
                }
            }
            S::CreateTableLike { name, like, temporary, if_not_exists } => {
                self.refuse_view(like)?;
                self.existing(like)?;
                DdlStmt::CreateTableLike {
                    name: self.table_name(name)?,
                    like: self.table_name(like)?,
                    temporary: *temporary,
                    if_not_exists: *if_not_exists,
                }
            }
            S::DropTables { names, temporary, if_exists } => {
                let names: Vec<TableName> =
                    names.iter().map(|n| self.table_name(n)).collect::<Result<_>>()?;
                let mut seen = HashSet::with_capacity(names.len());
                if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                    return Err(SqlError::not_unique_table(&twice.name));
                }
                DdlStmt::DropTables { names, temporary: *temporary, if_exists: *if_exists }
            }
            S::CreateView(create) => DdlStmt::CreateView(Box::new(self.create_view(create)?)),
            S::DropViews { names, if_exists } => {
                let names: Vec<TableName> =
                    names.iter().map(|n| self.table_name(n)).collect::<Result<_>>()?;
                let mut seen = HashSet::with_capacity(names.len());
                if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                    return Err(SqlError::not_unique_table(&twice.name));
                }
                DdlStmt::DropViews { names, if_exists: *if_exists }
            }
            S::Truncate(name) => {
                self.refuse_information_schema(name)?;
                self.existing(name)?;
                DdlStmt::Truncate(self.table_name(name)?)
            }
            S::RenameTables(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(from, to)| Ok((self.table_name(from)?, self.new_table_name(to)?)));
                DdlStmt::RenameTables(pairs.collect::<Result<_>>()?)
            }
            S::Alter { table, actions } => {
                self.refuse_view(table)?;
                self.alter_table(table, actions)?
            }
            _ => unreachable!("only definitions come here"),
        })
    }

    pub(super) fn table_name(&self, name: &ast::Name) -> Result<TableName> {
        Ok(TableName { schema: self.schema_of(name)?.into(), name: name.name.as_str().into() })
    }
    pub(super) fn new_table_name(&self, name: &ast::Name) -> Result<TableName> {
        check_characters(&name.name)?;
        check_name(&name.name)
            .map_err(|e| e.unwrap_or_else(|| SqlError::wrong_table_name(&name.name)))?;
        self.table_name(name)
    }
    /// The name of a new table or view, and the collation of its database, which must be there.
    pub(super) fn new_name_in_database(&self, name: &ast::Name) -> Result<(TableName, Collation)> {
        let name = self.new_table_name(name)?;
        match self.cx.catalog.schema(&name.schema) {
            Some(collation) => Ok((name, collation)),
            None => Err(SqlError::unknown_database(&name.schema)),
        }
    }

    /// Whether the name is that of a temporary table of the session.
    pub(super) fn is_temporary(&self, name: &TableName) -> bool {
        self.cx.catalog.shared().is_some()
            && self.cx.catalog.table(&name.schema, &name.name).is_some_and(|t| t.is_temporary())
    }

    /// Looks up a table without noting its use: DDL takes its own locks.
    pub(super) fn existing(&self, name: &ast::Name) -> Result<Arc<crate::TableInfo>> {
        let schema = self.schema_of(name)?;
        self.cx.catalog.table(schema, &name.name).ok_or_else(|| {
            match self.cx.catalog.schema(schema) {
                Some(_) => SqlError::no_such_table(schema, &name.name),
                None => SqlError::unknown_database(schema),
            }
        })
    }

    /// The table, and the SELECT that fills it.
    fn create_table(
        &mut self,
        create: &ast::CreateTable,
    ) -> Result<(CreateTable, Option<SelectPlan>)> {
        let (name, database) = self.new_name_in_database(&create.name)?;
        let options = &create.options;
        let collation = collation_option(
            self.cx,
            options.charset.as_deref(),
            options.collation.as_deref(),
            Some(database),
        )?
        .unwrap_or(database);
        let mut notes = Vec::new();
        note_options(options, &name.name, &mut notes);
        let mut def = TableDef {
            schema: name.schema.to_string(),
            name: name.name.to_string(),
            columns: Vec::with_capacity(create.columns.len()),
            indexes: Vec::new(),
            collation,
            comment: options.comment.map(|n| self.literal_text(n)).transpose()?.unwrap_or_default(),
            checks: Vec::new(),
            statistics: StatisticsOptions::default(),
        };
        options.statistics.iter().for_each(|option| option.apply(&mut def.statistics));
        let mut indexes = Vec::new();
        let strict = self.cx.mode.strict();
        for column in &create.columns {
            self.step(def.columns.len())?;
            check_characters(&column.name)?;
            check_column_name(&column.name)?;
            if def.column(&column.name).is_some() {
                return Err(SqlError::duplicate_column(&column.name));
            }
            let context = ColumnContext { table: collation };
            let bound = self.column_def(column, &context)?;
            if !strict {
                let equal = notes_of(&bound).into_iter();
                notes.extend(equal.map(|e| (Level::Note, e.code, e.message.into())));
            }
            def.columns.push(bound);
            let parts = || {
                vec![ast::IndexPart {
                    column: column.name.clone(),
                    prefix: None,
                    descending: false,
                }]
            };
            if column.primary {
                indexes.push(ast::IndexSpec {
                    kind: ast::IndexKind::Primary,
                    name: None,
                    parts: parts(),
                    comment: None,
                });
            }
            if column.unique && !column.primary {
                indexes.push(ast::IndexSpec {
                    kind: ast::IndexKind::Unique,
                    name: None,
                    parts: parts(),
                    comment: None,
                });
            }
        }
        indexes.extend(create.indexes.iter().cloned());
        let mut nullable: Vec<Option<bool>> = create.columns.iter().map(|c| c.nullable).collect();
        let select = match &create.select {
            Some(select) => {
                let select = self.select_for_table(select)?;
                self.add_selected(&mut def, &mut nullable, &select)?;
                Some(select)
            }
            None => None,
        };
        for index in &indexes {
            self.check_comment(index)?;
            index.name.iter().try_for_each(|name| check_characters(name))?;
            index_def::add(&mut def, index, &nullable)?;
        }
        index_def::sort(&mut def);
        index_def::check_auto_increment(&def)?;
        check_table(&def)?;
        self.add_generations(&mut def, &create.columns)?;
        self.add_checks(&mut def, &create.checks)?;
        let auto_increment = options.auto_increment;
        let if_not_exists = create.if_not_exists;
        let temporary = create.temporary;
        Ok((CreateTable { def, temporary, if_not_exists, auto_increment, notes }, select))
    }

    /// Refuses a comment: the definition of an index has no place for it.
    pub(super) fn check_comment(&mut self, index: &ast::IndexSpec) -> Result<()> {
        match index.comment {
            Some(number) if !self.literal_text(number)?.is_empty() => {
                Err(SqlError::unsupported("COMMENT of an index"))
            }
            _ => Ok(()),
        }
    }
}

/// Notes what a table does not get. ENGINE=: Redolith's only engine replaces every other engine,
/// with a warning. NO_ENGINE_SUBSTITUTION does not forbid the replacement.
pub(super) fn note_options(
    options: &ast::TableOptions,
    table: &str,
    notes: &mut Vec<(Level, u16, String)>,
) {
    let is_ours =
        |engine: &&String| ["InnoDB", "Redolith"].iter().any(|e| engine.eq_ignore_ascii_case(e));
    if options.engine.as_ref().is_some_and(|engine| !is_ours(&engine)) {
        let message = format!("Using storage engine InnoDB for table '{table}'");
        notes.push((Level::Warning, 1266, message));
    }
    notes.extend(options.ignored.iter().map(|m| (Level::Warning, 1478, m.clone())));
}

/// Checks a name. Err(None) means an invalid name, Err(Some) a name that is too long.
pub(super) fn check_name(name: &str) -> std::result::Result<(), Option<SqlError>> {
    if name.is_empty() || name.ends_with(' ') || name.contains('\0') {
        return Err(None);
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(Some(SqlError::name_too_long(name)));
    }
    Ok(())
}
/// Checks a name that a statement gives: names are in utf8mb3, as in MySQL, and replicas would not
/// read others. (Earlier versions took them, so that tables may have such names.)
pub(super) fn check_characters(name: &str) -> Result<()> {
    match name.char_indices().find(|(_, c)| *c > '\u{ffff}') {
        Some((at, _)) => Err(SqlError::invalid_bytes("utf8mb3", &name.as_bytes()[at..])),
        None => Ok(()),
    }
}

pub(super) fn check_column_name(name: &str) -> Result<()> {
    check_name(name).map_err(|e| e.unwrap_or_else(|| SqlError::wrong_column_name(name)))
}

impl super::BindContext<'_> {
    /// The collation that the name of a character set selects.
    pub(super) fn default_collation(&self, charset: Charset) -> Collation {
        if charset == Charset::Utf8mb4 { self.utf8mb4 } else { charset.default_collation() }
    }
}

/// The collation that CHARACTER SET and COLLATE select together. `CHARACTER SET DEFAULT` means
/// `default`.
pub(super) fn collation_option(
    cx: &super::BindContext<'_>,
    charset: Option<&str>,
    collation: Option<&str>,
    default: Option<Collation>,
) -> Result<Option<Collation>> {
    // The character set DEFAULT alone is the whole default, as in MySQL.
    if charset == Some("") && collation.is_none() {
        return Ok(default);
    }
    let charset = match charset {
        Some("") => default.map(Collation::charset),
        Some(name) => {
            Some(Charset::from_name(name).ok_or_else(|| SqlError::unknown_character_set(name))?)
        }
        None => None,
    };
    match (charset, collation) {
        (charset, Some(name)) => {
            let collation =
                Collation::from_name(name).ok_or_else(|| SqlError::unknown_collation(name))?;
            if charset.is_some_and(|c| c != collation.charset()) {
                return Err(SqlError::collation_charset_mismatch(
                    name,
                    charset.map_or("", Charset::name),
                ));
            }
            Ok(Some(collation))
        }
        (Some(charset), None) => Ok(Some(cx.default_collation(charset))),
        (None, None) => Ok(None),
    }
}

/// Checks the columns of a whole definition.
pub(crate) fn check_table(def: &TableDef) -> Result<()> {
    if def.columns.is_empty() || def.columns.iter().all(|c| c.invisible) {
        return Err(SqlError::no_columns());
    }
    if def.columns.len() > MAX_COLUMNS {
        return Err(SqlError::too_many_columns());
    }
    let bytes: u64 =
        def.columns.iter().filter(|c| !c.ty.is_lob()).map(|c| c.ty.max_bytes().unwrap_or(8)).sum();
    if bytes > MAX_ROW {
        return Err(SqlError::row_too_large(MAX_ROW));
    }
    Ok(())
}

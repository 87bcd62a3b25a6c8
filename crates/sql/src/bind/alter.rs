//! Binds ALTER TABLE. Actions on indexes, names and properties become a list that the executor runs
//! ([`DdlStmt::AlterTable`]). An action on columns or on the primary key makes the statement a
//! [`Rebuild`]: the whole new definition, and the plan that copies the rows.
//!
//! **ALTER-2** Names in the actions are those of the table before the statement, except behind
//! AFTER, in ADD INDEX, and the new names themselves. So columns and indexes can exchange their
//! names, and a column can be replaced by one of the same name. (MySQL's
//! `mysql_prepare_alter_table`)
//! **ALTER-3** Rows are not copied if they are stored in the new table as in the old one: names,
//! defaults, comments and visibility are in the definition alone.
use super::column_def::{ColumnContext, notes_of};
use super::create_select::fit_outputs;
use super::ddl::{
    check_characters, check_column_name, check_table, collation_option, note_options,
};
use super::enum_set::give_number;
use super::{Binder, index_def};
use crate::error::{Result, SqlError};
use crate::generated_key::has_generated_key;
use crate::parse::ast::{self, Alter, IndexKind, IndexPart, IndexSpec, Place};
use crate::parse::limits::MAX_COLUMNS;
use crate::plan::{
    AccessKind, AccessPath, AlterAction, Covering, DdlStmt, DefaultFill, Fill, InsertPlan,
    InsertRows, OnDuplicate, Rebuild, RowLock, SourceKind,
};
use crate::session_state::Level;
use crate::table_info::TableInfo;
use redolith_types::store::{ConvertError, StoreMode, convert_for_column};
use redolith_types::{
    Charset, CheckDef, Collation, Column, DefaultValue, LobSize, SqlType, TableDef, Value,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A column of the new table.
pub(super) struct NewColumn {
    pub(super) column: Column,
    /// The column of the old table whose values it gets.
    pub(super) from: Option<usize>,
    /// What its definition says; None if it says nothing.
    pub(super) nullable: Option<bool>,
}

impl Binder<'_> {
    pub(super) fn alter_table(&mut self, name: &ast::Name, actions: &[Alter]) -> Result<DdlStmt> {
        self.refuse_information_schema(name)?;
        let existing = self.existing(name)?;
        let actions = &*named_constraints(&existing.def, actions)?;
        if actions.iter().any(rebuilds) {
            return Ok(DdlStmt::Rebuild(Box::new(self.rebuild(name, actions)?)));
        }
        let mut def = existing.def.clone();
        let mut out = Vec::with_capacity(actions.len());
        self.old_indexes(&mut def, actions, &mut out)?;
        for action in actions {
            self.step(def.indexes.len() + 1)?;
            self.alter(&mut def, action, &mut out)?;
        }
        index_def::check_auto_increment(&def)?;
        let (table, notes) = (self.table_name(name)?, notes_of_options(name, actions));
        Ok(DdlStmt::AlterTable { table, actions: out, notes })
    }

    fn rebuild(&mut self, name: &ast::Name, actions: &[Alter]) -> Result<Rebuild> {
        let old = self.open_table(name, true)?;
        let table = self.table_name(name)?;
        let mut def = TableDef { columns: Vec::new(), indexes: Vec::new(), ..old.def.clone() };
        let (mut auto_increment, mut convert, mut database_collation) = (None, None, None);
        let database = self.cx.catalog.schema(&table.schema);
        for action in actions {
            if names_default_charset(action) {
                database_collation = database;
            }
            match action {
                Alter::Options(options) => {
                    auto_increment = options.auto_increment.or(auto_increment);
                    if let Some(number) = options.comment {
                        def.comment = self.literal_text(number)?;
                    }
                    for option in &options.statistics {
                        option.apply(&mut def.statistics);
                    }
                    let (charset, collation) = (&options.charset, &options.collation);
                    let (charset, collation) = (charset.as_deref(), collation.as_deref());
                    def.collation = collation_option(self.cx, charset, collation, database)?
                        .unwrap_or(def.collation);
                }
                Alter::Convert(charset, collation) => {
                    convert =
                        collation_option(self.cx, Some(charset), collation.as_deref(), database)?;
                    def.collation = convert.unwrap_or(def.collation);
                }
                Alter::RenameTo(to) => {
                    let to = self.new_table_name(to)?;
                    def.rename(to.schema, to.name);
                }
                Alter::Unsupported(what) => return Err(SqlError::unsupported(what)),
                _ => {}
            }
        }
        let mut specs = Vec::new();
        let columns = self.new_columns(&old.def, &def, actions, convert, &mut specs)?;
        self.new_indexes(&old.def, &mut def, columns.iter(), actions, specs)?;
        let from: Vec<Option<usize>> = columns.iter().map(|c| c.from).collect();
        self.new_generations(&old, &mut def, &from, actions)?;
        let checks_rows = self.new_checks(&old, &mut def, &from, actions)?;
        let in_place = !checks_rows && is_stored_alike(&old.def, &def, &from);
        if !in_place {
            index_def::sort(&mut def);
        }
        let drops_key = actions.iter().any(|a| match a {
            Alter::DropPrimaryKey => true,
            Alter::DropIndex(name) => name.eq_ignore_ascii_case("PRIMARY"),
            _ => false,
        });
        // Without its key the generated column would be an error of its own. The session tells it
        // better.
        if !(drops_key && has_generated_key(&old.def)) {
            index_def::check_auto_increment(&def)?;
        }
        check_table(&def)?;
        let keeps_counter = def
            .auto_increment_column()
            .is_some_and(|c| from[c].is_some() && from[c] == old.def.auto_increment_column());
        let mut notes = notes_of_options(name, actions);
        if !self.cx.mode.strict() {
            let changed = columns
                .iter()
                .filter(|c| c.from.is_none_or(|n| old.def.columns[n].ty != c.column.ty));
            let equal = changed.flat_map(|c| notes_of(&c.column));
            notes.extend(equal.map(|e| (Level::Note, e.code, e.message.into())));
        }
        let stay = columns.iter().filter_map(|new| {
            Some((old.def.columns[new.from?].name.clone(), new.column.name.clone()))
        });
        Ok(Rebuild {
            table,
            kept: stay.collect(),
            notes,
            drops_key,
            keeps_counter,
            auto_increment,
            database_collation,
            copy: if in_place { None } else { Some(self.copy_of_rows(name, &old, &def, &from)?) },
            def,
        })
    }

    /// The new table's columns in their order. Adds the indexes that definitions of columns ask
    /// for.
    fn new_columns(
        &mut self,
        old: &TableDef,
        new: &TableDef,
        actions: &[Alter],
        convert: Option<Collation>,
        specs: &mut Vec<IndexSpec>,
    ) -> Result<Vec<NewColumn>> {
        let context = ColumnContext { table: new.collation };
        let numbers: HashMap<String, usize> =
            old.columns.iter().enumerate().map(|(n, c)| (c.name.to_lowercase(), n)).collect();
        let number = |name: &str| numbers.get(&name.to_lowercase()).copied();
        let mut dropped = HashSet::new();
        let added = actions.iter().filter(|a| matches!(a, Alter::AddColumn(..))).count();
        for action in actions {
            if let Alter::DropColumn(name) = action
                && !number(name).is_some_and(|n| dropped.insert(n))
            {
                return Err(SqlError::cannot_drop(name));
            }
        }
        if old.columns.len() - dropped.len() + added > MAX_COLUMNS {
            return Err(SqlError::too_many_columns());
        }
        if dropped.len() == old.columns.len() && added == 0 {
            return Err(SqlError::cannot_remove_all_columns());
        }
        let unknown = |name: &str| SqlError::unknown_column(name, &old.name);
        let there =
            |name: &str| number(name).filter(|n| !dropped.contains(n)).ok_or_else(|| unknown(name));
        // The columns that stay, each as the statement changes it.
        let mut kept: Vec<NewColumn> = Vec::with_capacity(old.columns.len());
        for (n, column) in old.columns.iter().enumerate() {
            let mut column = column.clone();
            if let Some(to) = convert {
                column.ty = converted(&column, to)?;
            }
            kept.push(NewColumn { column, from: Some(n), nullable: None });
        }
        let (mut changed, mut moved) = (HashSet::new(), HashMap::new());
        for action in actions {
            self.step(1)?;
            match action {
                Alter::ChangeColumn { from, column, place } => {
                    let n = there(from)?;
                    if !changed.insert(n) {
                        return Err(unknown(from));
                    }
                    if *from != column.name {
                        check_characters(&column.name)?;
                    }
                    kept[n].column = self.altered_column(column, &context, specs)?;
                    kept[n].nullable = column.nullable;
                    if *place != Place::Unsaid {
                        moved.insert(n, place);
                    }
                }
                Alter::RenameColumn(from, to) => {
                    let n = there(from)?;
                    if !changed.insert(n) {
                        return Err(unknown(from));
                    }
                    check_characters(to)?;
                    check_column_name(to)?;
                    kept[n].column.name = to.clone();
                }
                Alter::Visible(name, visible) => kept[there(name)?].column.invisible = !visible,
                Alter::Default { column: name, value, is_expression } => {
                    let column = &mut kept[there(name)?].column;
                    if column.auto_increment {
                        return Err(SqlError::invalid_default(name));
                    }
                    if column.generation.is_some() {
                        return Err(SqlError::wrong_usage("DEFAULT", "generated column"));
                    }
                    column.default = match value {
                        Some(value) => self.default_value(column, value, *is_expression)?,
                        None => None,
                    };
                }
                _ => {}
            }
        }
        let mut columns: Vec<NewColumn> = Vec::with_capacity(kept.len() + added);
        let mut waiting: HashMap<usize, NewColumn> = HashMap::new();
        for (n, column) in kept.into_iter().enumerate() {
            if moved.contains_key(&n) {
                waiting.insert(n, column);
            } else if !dropped.contains(&n) {
                columns.push(column);
            }
        }
        for action in actions {
            let (column, place) = match action {
                Alter::AddColumn(def, place) => {
                    check_characters(&def.name)?;
                    let column = self.altered_column(def, &context, specs)?;
                    (NewColumn { column, from: None, nullable: def.nullable }, place)
                }
                Alter::ChangeColumn { from, place, .. } if *place != Place::Unsaid => {
                    let column = number(from).and_then(|n| waiting.remove(&n));
                    (column.ok_or_else(|| unknown(from))?, place)
                }
                _ => continue,
            };
            self.step(columns.len() + 1)?;
            let at = match place {
                Place::Unsaid => columns.len(),
                Place::First => 0,
                Place::After(name) => {
                    let before =
                        columns.iter().position(|c| c.column.name.eq_ignore_ascii_case(name));
                    before.ok_or_else(|| unknown(name))? + 1
                }
            };
            columns.insert(at, column);
        }
        for NewColumn { column, from, .. } in &columns {
            if from.is_some_and(|from| old.columns[from].ty != column.ty) {
                self.check_converted(column)?;
            }
        }
        let mut names = HashSet::with_capacity(columns.len());
        match columns.iter().find(|c| !names.insert(c.column.name.to_lowercase())) {
            Some(twice) => Err(SqlError::duplicate_column(&twice.column.name)),
            None => Ok(columns),
        }
    }

    /// Checks a column whose type has changed: its character set has the default and each name of
    /// an ENUM or SET, and in strict mode the names differ.
    fn check_converted(&mut self, column: &Column) -> Result<()> {
        let Some(collation) = column.ty.collation() else { return Ok(()) };
        let ty = SqlType::VarChar { chars: u32::MAX, collation };
        let stored = |text| {
            let text = Value::Bytes(Cow::Borrowed(text));
            convert_for_column(text, &ty, Charset::Utf8mb4, StoreMode::STRICT)
        };
        if let Some(DefaultValue::Literal(text)) = &column.default {
            stored(text).map_err(|_| SqlError::invalid_default(&column.name))?;
        }
        let (SqlType::Enum { names, .. } | SqlType::Set { names, .. }) = &column.ty else {
            return Ok(());
        };
        for name in names {
            self.charge(1)?;
            if let Err(ConvertError::Incorrect { kind, value }) = stored(name.as_bytes()) {
                return Err(SqlError::incorrect_value(kind, value, &column.name, 1));
            }
        }
        let duplicate = notes_of(column).into_iter().next().filter(|_| self.cx.mode.strict());
        duplicate.map_or(Ok(()), Err)
    }

    /// A column that ADD, CHANGE or MODIFY defines.
    fn altered_column(
        &mut self,
        def: &ast::ColumnDef,
        context: &ColumnContext,
        specs: &mut Vec<IndexSpec>,
    ) -> Result<Column> {
        check_column_name(&def.name)?;
        let kinds = [(def.primary, IndexKind::Primary), (def.unique, IndexKind::Unique)];
        for (_, kind) in kinds.into_iter().filter(|(asked, _)| *asked) {
            let part = IndexPart { column: def.name.clone(), prefix: None, descending: false };
            specs.push(IndexSpec { kind, name: None, parts: vec![part], comment: None });
        }
        self.column_def(def, context)
    }

    /// Gives the new definition's generated columns their expressions. `def` has those of the
    /// columns that the statement does not define.
    fn new_generations(
        &mut self,
        old: &Arc<TableInfo>,
        def: &mut TableDef,
        from: &[Option<usize>],
        actions: &[Alter],
    ) -> Result<()> {
        let place = places(from, old.def.columns.len());
        let before = |n: usize| &old.def.columns[n];
        let now = |n: usize| place[n].map(|n| &def.columns[n]);
        for n in 0..place.len() {
            let stored = |column: &Column| column.generation.as_ref().map(|g| g.stored);
            let (was, is) = (stored(before(n)), now(n).map(stored));
            // As in MySQL, only a STORED column may become one of another kind, and only such a
            // column may come of an ordinary one.
            if is.is_some_and(|is| is != was && (is == Some(false) || was == Some(false))) {
                return Err(SqlError::not_for_generated_columns("Changing the STORED status"));
            }
        }
        let defined: Vec<&ast::ColumnDef> = actions.iter().filter_map(Alter::column_def).collect();
        let is_defined = |name: &str| defined.iter().any(|d| d.name.eq_ignore_ascii_case(name));
        let goes =
            |n: usize| now(n).is_none_or(|now| !now.name.eq_ignore_ascii_case(&before(n).name));
        let stays = |n: usize| now(n).is_some_and(|now| !is_defined(&now.name));
        self.check_needed_columns(old, goes, stays)?;
        self.add_generations(def, defined)
    }

    /// Gives the new definition its check constraints: those that stay, then the new ones. `def`
    /// has the old ones, with the names that they have after the statement. Returns true if the
    /// rows must be checked, because a constraint is enforced that was not.
    fn new_checks(
        &mut self,
        old: &Arc<TableInfo>,
        def: &mut TableDef,
        from: &[Option<usize>],
        actions: &[Alter],
    ) -> Result<bool> {
        let mut kept: Vec<Option<CheckDef>> =
            std::mem::take(&mut def.checks).into_iter().map(Some).collect();
        let mut checks_rows = false;
        let mut added = Vec::new();
        for action in actions {
            self.step(kept.len() + 1)?;
            match action {
                Alter::DropCheck(name) => {
                    let dropped = old.def.check(name).and_then(|n| kept[n].take());
                    dropped.ok_or_else(|| SqlError::no_such_check(name))?;
                }
                Alter::Enforce(name, enforced) => {
                    let check = old.def.check(name).and_then(|n| kept[n].as_mut());
                    let check = check.ok_or_else(|| SqlError::no_such_check(name))?;
                    checks_rows |= *enforced && !check.enforced;
                    check.enforced = *enforced;
                }
                Alter::AddCheck(spec) => added.push(spec),
                action => added.extend(action.column_def().iter().flat_map(|def| &def.checks)),
            }
        }
        let place = places(from, old.def.columns.len());
        let changed: Vec<u16> = (0..place.len())
            .filter(|n| {
                let name = place[*n].map(|n: usize| &*def.columns[n].name);
                name.is_none_or(|name| !name.eq_ignore_ascii_case(&old.def.columns[*n].name))
            })
            .map(|n| n as u16)
            .collect();
        if !changed.is_empty() {
            for (columns, kept) in self.columns_of_checks(old)?.iter().zip(&mut kept) {
                let Some(now) = kept else { continue };
                let Some(column) = changed.iter().find(|c| columns.contains(c)) else { continue };
                let is_dropped = place[usize::from(*column)].is_none();
                if is_dropped && columns.len() == 1 {
                    *kept = None;
                    continue;
                }
                let column = &old.def.columns[usize::from(*column)].name;
                return Err(SqlError::column_of_check(&now.name, column));
            }
        }
        def.checks = kept.into_iter().flatten().collect();
        checks_rows |= added.iter().any(|spec| spec.enforced);
        self.add_checks(def, added)?;
        Ok(checks_rows)
    }

    /// The plan that inserts the old table's rows, in the order of their keys, into the new table.
    fn copy_of_rows(
        &mut self,
        name: &ast::Name,
        old: &TableInfo,
        def: &TableDef,
        from: &[Option<usize>],
    ) -> Result<InsertPlan> {
        let has_value = |n: &usize| from[*n].is_some() && def.columns[*n].generation.is_none();
        let given: Vec<usize> = (0..from.len()).filter(has_value).collect();
        let item = |from: usize| ast::SelectItem::Expr {
            expr: ast::Expr {
                kind: ast::ExprKind::Name(ast::ColumnName {
                    schema: None,
                    table: None,
                    column: old.def.columns[from].name.clone(),
                }),
                span: ast::Span::default(),
                height: 1,
            },
            alias: Some(String::new()),
        };
        let mut items: Vec<ast::SelectItem> =
            given.iter().filter_map(|n| from[*n]).map(item).collect();
        if items.is_empty() {
            // The rows are counted by a column that nobody wants.
            items.push(item(0));
        }
        let factor = ast::TableFactor {
            kind: ast::FactorKind::Table { name: name.clone(), hints: Vec::new() },
            alias: None,
            join: ast::Join::None,
        };
        let rows = ast::Select { items, from: vec![factor], height: 1, ..ast::Select::default() };
        let mut select = self.select(&rows, None)?;
        if let Some(SourceKind::Table(access)) = select.sources.first_mut().map(|s| &mut s.kind) {
            let index = old.def.clustered_index();
            let kind = AccessKind::FullScan;
            access.path = AccessPath {
                index,
                kind,
                reverse: false,
                covering: Covering::No,
                keeps_order: true,
            };
            access.lock = RowLock::None;
        }
        let table = Arc::new(TableInfo::definition(def.clone()));
        let members = fit_outputs(&table, &given, &mut select);
        let (mut fill, mut defaults) = self.fill(&table, &given)?;
        for ((fill, column), from) in fill.iter_mut().zip(&table.def.columns).zip(from) {
            let (Fill::Given(place), Some(from)) = (*fill, *from) else { continue };
            let before = &old.def.columns[from];
            let same = has_same_values(&before.ty, &column.ty);
            let fits = same && (column.nullable || !before.nullable);
            if fits && !column.auto_increment {
                *fill = Fill::Kept(place);
                // The column holds the number of an ENUM or SET, not its text.
                give_number(&mut select, usize::from(place));
            }
        }
        for default in &mut defaults {
            if matches!(default, DefaultFill::Missing) {
                *default = DefaultFill::Zero;
            }
        }
        let constraints = self.constraints(&table)?;
        let generated_columns = self.generated_columns(&table)?;
        Ok(InsertPlan {
            table,
            rows: InsertRows::Select { select: Box::new(select), buffer: false, members },
            fill,
            defaults,
            on_duplicate: OnDuplicate::Error,
            ignore: false,
            check: None,
            constraints,
            generated_columns,
            names_columns: false,
        })
    }

    /// Binds one action and applies it to `def`, so later actions see its effect.
    fn alter(
        &mut self,
        def: &mut TableDef,
        action: &Alter,
        out: &mut Vec<AlterAction>,
    ) -> Result<()> {
        match action {
            Alter::AddIndex(spec) => {
                self.check_comment(spec)?;
                spec.name.iter().try_for_each(|name| check_characters(name))?;
                let nullable = vec![None; def.columns.len()];
                let index = index_def::add(def, spec, &nullable)?;
                out.push(AlterAction::AddIndex(index));
            }
            Alter::DropIndex(_) | Alter::RenameIndex(..) => {} // `old_indexes` has applied them.
            Alter::RenameTo(name) => out.push(AlterAction::RenameTable(self.new_table_name(name)?)),
            Alter::Options(options) => self.alter_options(options, out)?,
            Alter::Nothing => out.push(AlterAction::Rebuild),
            Alter::Unsupported(what) => return Err(SqlError::unsupported(what)),
            _ => unreachable!("`rebuilds` has found the other actions"),
        }
        Ok(())
    }

    fn alter_options(
        &mut self,
        options: &ast::TableOptions,
        out: &mut Vec<AlterAction>,
    ) -> Result<()> {
        if options.engine.is_some() {
            out.push(AlterAction::Rebuild);
        }
        if let Some(next) = options.auto_increment {
            out.push(AlterAction::AutoIncrement(next));
        }
        if let Some(number) = options.comment {
            out.push(AlterAction::Comment(self.literal_text(number)?.into()));
        }
        out.extend(options.statistics.iter().copied().map(AlterAction::Statistics));
        if let Some(collation) = collation_option(
            self.cx,
            options.charset.as_deref(),
            options.collation.as_deref(),
            None,
        )? {
            out.push(AlterAction::Collation(collation));
        }
        Ok(())
    }
}

/// What the options of all actions leave.
fn notes_of_options(name: &ast::Name, actions: &[Alter]) -> Vec<(Level, u16, String)> {
    let mut notes = Vec::new();
    for action in actions {
        if let Alter::Options(options) = action {
            note_options(options, &name.name, &mut notes);
        }
    }
    notes
}

/// The actions with what DROP CONSTRAINT and ALTER CONSTRAINT mean: a check constraint, or a unique
/// key.
fn named_constraints<'a>(def: &TableDef, actions: &'a [Alter]) -> Result<Cow<'a, [Alter]>> {
    let by_name = |a: &Alter| matches!(a, Alter::DropConstraint(_) | Alter::EnforceConstraint(..));
    if !actions.iter().any(by_name) {
        return Ok(Cow::Borrowed(actions));
    }
    let is_key =
        |name: &str| def.indexes.iter().any(|i| i.unique && i.name.eq_ignore_ascii_case(name));
    let meant = |action: &Alter| match action {
        Alter::DropConstraint(name) => match (def.check(name).is_some(), is_key(name)) {
            (true, true) => Err(SqlError::several_constraints(name)),
            (true, false) => Ok(Alter::DropCheck(name.clone())),
            (false, true) => Ok(Alter::DropIndex(name.clone())),
            (false, false) => Err(SqlError::no_such_constraint(name)),
        },
        Alter::EnforceConstraint(name, enforced) => {
            match (def.check(name).is_some(), is_key(name)) {
                (true, _) => Ok(Alter::Enforce(name.clone(), *enforced)),
                (false, true) => Err(SqlError::enforcement_is_fixed(name)),
                (false, false) => Err(SqlError::no_such_constraint(name)),
            }
        }
        action => Ok(action.clone()),
    };
    Ok(Cow::Owned(actions.iter().map(meant).collect::<Result<_>>()?))
}

/// The place of each column of the old table in the new one; None if it is dropped. `from` has for
/// each column of the new table the column of the old one.
fn places(from: &[Option<usize>], old_columns: usize) -> Vec<Option<usize>> {
    let mut place = vec![None; old_columns];
    for (n, from) in from.iter().enumerate() {
        if let Some(from) = from {
            place[*from] = Some(n);
        }
    }
    place
}

/// True if the action changes columns, check constraints or the primary key.
fn rebuilds(action: &Alter) -> bool {
    match action {
        Alter::AddColumn(..)
        | Alter::ChangeColumn { .. }
        | Alter::DropColumn(_)
        | Alter::RenameColumn(..)
        | Alter::Default { .. }
        | Alter::Visible(..)
        | Alter::Convert(..)
        | Alter::AddCheck(_)
        | Alter::DropCheck(_)
        | Alter::DropConstraint(_)
        | Alter::Enforce(..)
        | Alter::EnforceConstraint(..)
        | Alter::DropPrimaryKey => true,
        Alter::AddIndex(spec) => spec.kind == IndexKind::Primary,
        Alter::DropIndex(name) => name.eq_ignore_ascii_case("PRIMARY"),
        Alter::RenameIndex(..) | Alter::RenameTo(_) | Alter::Nothing | Alter::Unsupported(_) => {
            false
        }
        Alter::Options(_) => names_default_charset(action),
    }
}

/// Whether the action's CHARACTER SET is DEFAULT, that of the database. Only a `Rebuild` looks
/// again at the database once it is locked.
fn names_default_charset(action: &Alter) -> bool {
    match action {
        Alter::Options(options) => options.charset.as_deref() == Some(""),
        Alter::Convert(charset, _) => charset.is_empty(),
        _ => false,
    }
}

/// Whether the rows and the entries of all indexes are the same bytes in both tables (ALTER-3).
fn is_stored_alike(old: &TableDef, new: &TableDef, from: &[Option<usize>]) -> bool {
    let columns = old.columns.len() == new.columns.len()
        && from.iter().enumerate().all(|(n, from)| *from == Some(n))
        && old.columns.iter().zip(&new.columns).all(|(a, b)| {
            (&a.ty, a.nullable, a.auto_increment, &a.generation)
                == (&b.ty, b.nullable, b.auto_increment, &b.generation)
        });
    columns
        && old.indexes.len() == new.indexes.len()
        && old
            .indexes
            .iter()
            .zip(&new.indexes)
            .all(|(a, b)| (&a.columns, a.unique, a.primary) == (&b.columns, b.unique, b.primary))
}

/// Whether a column of one type holds each value as a column of the other does. An ENUM or SET
/// holds numbers, which another character set does not change.
fn has_same_values(old: &SqlType, new: &SqlType) -> bool {
    match (old, new) {
        (SqlType::Enum { names: a, .. }, SqlType::Enum { names: b, .. })
        | (SqlType::Set { names: a, .. }, SqlType::Set { names: b, .. }) => a == b,
        _ => old == new,
    }
}

/// The type of a column after CONVERT TO CHARACTER SET. A TEXT whose characters take more bytes
/// than before becomes the next larger one.
fn converted(column: &Column, to: Collation) -> Result<SqlType> {
    let Some(from) = column.ty.collation() else { return Ok(column.ty.clone()) };
    if to == Collation::Binary {
        return Err(SqlError::unsupported("CONVERT TO CHARACTER SET binary"));
    }
    let grows = to.charset().max_len() > from.charset().max_len();
    Ok(match column.ty.clone() {
        SqlType::Char { chars, .. } => SqlType::Char { chars, collation: to },
        SqlType::VarChar { chars, .. } => {
            let most = 65_535 / to.charset().max_len();
            if chars > most {
                return Err(SqlError::column_too_long(&column.name, most));
            }
            SqlType::VarChar { chars, collation: to }
        }
        SqlType::Text { size, .. } => {
            let size = match size {
                LobSize::Tiny if grows => LobSize::Normal,
                LobSize::Normal if grows => LobSize::Medium,
                LobSize::Medium if grows => LobSize::Long,
                size => size,
            };
            SqlType::Text { size, collation: to }
        }
        SqlType::Enum { names, .. } => SqlType::Enum { names, collation: to },
        SqlType::Set { names, .. } => SqlType::Set { names, collation: to },
        other => other,
    })
}

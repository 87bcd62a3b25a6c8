//! Binds CREATE, ALTER and DROP VIEW, and what SHOW and LOCK TABLES ask of views.
use super::Binder;
use super::ddl::check_characters;
use super::derived::name_columns;
use super::view::is_plain;
use super::view_text::Rewrites;
use crate::error::{Result, SqlError};
use crate::exec::show::quoted_name;
use crate::parse::ast::{self, FactorKind, ViewChange};
use crate::parse::charsets::TextCharsets;
use crate::parse::lexer::{Lexer, TokenKind};
use crate::parse::limits::MAX_VIEW_HEIGHT;
use crate::parse::{self, literal};
use crate::plan::{CreateView, ShowKind, TableLock, TableName};
use crate::sql_mode::SqlMode;
use redolith_engine::dict::view::{Algorithm, CheckOption, View, ViewDef};
use redolith_types::{Charset, TableDef};
use std::collections::HashSet;
use std::sync::Arc;

/// The modes that a view's text does not depend on (VTEXT-1).
const WRITTEN_OUT: u64 = SqlMode::ANSI
    | SqlMode::ANSI_QUOTES
    | SqlMode::NO_BACKSLASH_ESCAPES
    | SqlMode::PIPES_AS_CONCAT
    | SqlMode::HIGH_NOT_PRECEDENCE
    | SqlMode::REAL_AS_FLOAT
    | SqlMode::IGNORE_SPACE;

impl Binder<'_> {
    pub(super) fn create_view(&mut self, create: &ast::CreateView) -> Result<CreateView> {
        let (name, database) = self.new_name_in_database(&create.name)?;
        if create.change != ViewChange::Create
            && let catalog = self.cx.catalog.shared().unwrap_or(self.cx.catalog)
            && let Some(view) = catalog.view(&name.schema, &name.name)
        {
            // The new definition must not name the view itself (VBIND-3).
            self.inside_views.around.push(view);
        }
        // A view that is made can be read: its own levels count, too.
        self.inside_views.height = create.select.height;
        if create.select.height > MAX_VIEW_HEIGHT {
            return Err(SqlError::nested_too_deeply());
        }
        self.rewrites = Some(Rewrites::of(&create.select));
        let bound = self.select(&create.select, None);
        let mut rewrites = self.rewrites.take().unwrap_or_default();
        // As in MySQL, a definition that names its own view names no table.
        let is_recursion = |e: &SqlError| e.code == 1462;
        let mut plan = bound.map_err(|e| match is_recursion(&e) {
            true => SqlError::no_such_table(&name.schema, &name.name),
            false => e,
        })?;
        if !plan.into.is_empty() || plan.into_file.is_some() {
            return Err(SqlError::clause_in_view("INTO"));
        }
        let is_plain = is_plain(&create.select);
        let updatable = create.algorithm != Algorithm::Temptable
            && is_plain
            && self.is_changeable(&create.select);
        if create.check != CheckOption::None && !updatable {
            return Err(SqlError::check_option_on_view(&name.schema, &name.name));
        }
        let mut def = TableDef {
            schema: name.schema.to_string(),
            name: name.name.to_string(),
            columns: Vec::new(),
            indexes: Vec::new(),
            collation: database,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        };
        create.columns.iter().try_for_each(|name| check_characters(name))?;
        match create.columns.is_empty() {
            true => self.name_view_columns(&mut plan, &create.select, &mut rewrites)?,
            false => name_columns(&mut plan, &create.columns)?,
        }
        plan.columns.iter().try_for_each(|column| check_characters(&column.name))?;
        self.add_selected(&mut def, &mut Vec::new(), &plan)?;
        let (user, host) = self.cx.account;
        let own = || (user.to_string(), host.to_string());
        let mode = self.cx.mode.0 & !WRITTEN_OUT;
        let select = self.view_text(create.span, rewrites)?;
        // The text has more parentheses than the statement: a view that is made can be read.
        let connection = self.cx.collation.charset();
        let charsets = TextCharsets { client: Charset::Utf8mb4, connection };
        self.parse_kept(select.as_bytes(), SqlMode(mode), charsets)?;
        let def = ViewDef {
            def,
            select,
            names_columns: !create.columns.is_empty(),
            algorithm: create.algorithm,
            check: create.check,
            definer: create.definer.clone().unwrap_or_else(own),
            invoker: create.invoker,
            mode,
            charset_client: self.parsed.charsets.client.default_collation(),
            collation_connection: self.cx.collation,
            updatable,
        };
        Ok(CreateView { def, change: create.change, unsaid: create.unsaid, is_plain })
    }

    /// True if a SELECT has one table, or one view whose rows can be changed.
    fn is_changeable(&self, select: &ast::Select) -> bool {
        let [ast::TableFactor { kind: FactorKind::Table { name, .. }, .. }] = &select.from[..]
        else {
            return false;
        };
        match self.view_named(name) {
            Ok(Some(view)) => view.def.updatable,
            Ok(None) => matches!(self.virtual_table(name), Ok(None)),
            Err(_) => false,
        }
    }

    /// The columns of a view as they are now.
    fn view_columns(&mut self, view: &Arc<View>) -> Result<TableDef> {
        let stored = &view.def.def;
        let mut def = TableDef { columns: Vec::new(), ..stored.clone() };
        let mut plan = self.in_view(view, |b, select| b.select(select, None))?;
        if plan.visible != stored.columns.len() {
            return Err(SqlError::view_is_invalid(&stored.schema, &stored.name));
        }
        let names: Vec<String> = stored.columns.iter().map(|c| c.name.clone()).collect();
        name_columns(&mut plan, &names)?;
        self.add_selected(&mut def, &mut Vec::new(), &plan)?;
        Ok(def)
    }
    pub(super) fn show_view_columns(&mut self, view: &Arc<View>, full: bool) -> Result<ShowKind> {
        Ok(ShowKind::ViewColumns { def: Box::new(self.view_columns(view)?), full })
    }

    /// SHOW CREATE VIEW. As in MySQL, the text does not name the default database if the view and
    /// all its tables are in it.
    pub(super) fn show_create_view(&mut self, view: &View) -> Result<ShowKind> {
        let def = &view.def;
        let schema = &def.def.schema;
        let select = match self.cx.schema == Some(schema) {
            true => self.without_schema(view)?.unwrap_or_else(|| def.select.clone()),
            false => def.select.clone(),
        };
        let algorithm = match def.algorithm {
            Algorithm::Undefined => "UNDEFINED",
            Algorithm::Merge => "MERGE",
            Algorithm::Temptable => "TEMPTABLE",
        };
        let security = if def.invoker { "INVOKER" } else { "DEFINER" };
        let (user, host) = (quoted_name(&def.definer.0), quoted_name(&def.definer.1));
        let mut called = quoted_name(&def.def.name);
        if self.cx.schema != Some(schema) {
            called = format!("{}.{called}", quoted_name(schema));
        }
        if def.names_columns {
            let names = def.def.columns.iter().map(|c| quoted_name(&c.name));
            called = format!("{called} ({})", names.collect::<Vec<_>>().join(","));
        }
        let check = match def.check {
            CheckOption::None => "",
            CheckOption::Local => " WITH LOCAL CHECK OPTION",
            CheckOption::Cascaded => " WITH CASCADED CHECK OPTION",
        };
        let text = format!(
            "CREATE ALGORITHM={algorithm} DEFINER={user}@{host} SQL SECURITY {security} VIEW \
             {called} AS {select}{check}"
        );
        Ok(ShowKind::CreateView {
            name: def.def.name.as_str().into(),
            text: text.into(),
            client: def.charset_client,
            connection: def.collation_connection,
        })
    }
    /// The SELECT without the database of its tables; None if they are not all in the view's.
    fn without_schema(&self, view: &View) -> Result<Option<String>> {
        let text = &view.def.select;
        let mode = SqlMode(view.def.mode);
        let charsets = TextCharsets::UTF8;
        let bytes = text.as_bytes();
        let parsed = parse::parse(bytes, 0..bytes.len(), None, mode, charsets, self.cx.bounds)?;
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for table in &parsed.tables {
            let mut lexer = Lexer::at(&bytes[..table.end as usize], table.start as usize, mode);
            let (schema, _dot, name) = (lexer.next_token(), lexer.next_token(), lexer.next_token());
            let is_own = schema.kind == TokenKind::QuotedName
                && literal::unquote_name(schema.text(bytes)) == view.def.def.schema.as_bytes();
            if !is_own || name.kind != TokenKind::QuotedName {
                return Ok(None);
            }
            out.push_str(&text[copied..table.start as usize]);
            copied = name.start as usize;
        }
        out.push_str(&text[copied..]);
        Ok(Some(out))
    }

    /// The locks of LOCK TABLES: with a view, all that it reads is locked.
    pub(super) fn locked_tables(
        &mut self,
        tables: &[(ast::Name, TableLock)],
    ) -> Result<Vec<(TableName, TableLock)>> {
        let mut all = Vec::with_capacity(tables.len());
        for (name, lock) in tables {
            self.refuse_information_schema(name)?;
            let table = self.table_name(name)?;
            // Nobody else has a temporary table, so there is nothing to lock.
            if !self.is_temporary(&table) {
                all.push((table, *lock));
            }
        }
        let mut known: HashSet<TableName> = all.iter().map(|(name, _)| name.clone()).collect();
        for (name, lock) in tables {
            let Some(view) = self.view_named(name)? else { continue };
            let (first_table, first_view) = (self.tables.len(), self.views.len());
            self.in_view(&view, |b, select| b.select(select, None))?;
            let tables = self.tables[first_table..].iter().map(|used| &used.table.def);
            let views = self.views[first_view..].iter().map(|view| &view.def.def);
            for def in tables.chain(views) {
                let name = TableName { schema: (&*def.schema).into(), name: (&*def.name).into() };
                if known.insert(name.clone()) {
                    all.push((name, *lock));
                }
            }
        }
        Ok(all)
    }

    /// Error 1347 if the name is a view's.
    pub(super) fn refuse_view(&self, name: &ast::Name) -> Result<()> {
        match self.view_named(name)? {
            Some(view) => {
                let def = &view.def.def;
                Err(SqlError::not_of_kind(&def.schema, &def.name, "BASE TABLE"))
            }
            None => Ok(()),
        }
    }
}

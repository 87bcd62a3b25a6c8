//! Binds SHOW, SET and the statements about transactions, sessions and whole tables.
use super::Binder;
use super::ddl::collation_option;
use super::expr::Env;
use super::scope::{Clause, Scope};
use crate::error::{Result, SqlError};
use crate::information_schema::{Virtual, is_schema};
use crate::parse::ast::{self, Maintenance, PrepareFrom, ShowWhat, Statement as S};
use crate::plan::show::ShowType;
use crate::plan::{
    AdminStmt, Coercibility, Expr, ExprKind, ExprType, FlushWhat, SetItem, SetValue, ShowFilter,
    ShowKind, ShowStmt, Statement, TableName,
};
use crate::settings::{Var, is_wide};
use crate::sink::ColumnMeta;
use crate::xa::{PART_MAX, Xid};
use redolith_types::{Collation, Value};

impl Binder<'_> {
    pub(super) fn administration(&mut self, statement: &S) -> Result<Statement> {
        Ok(match statement {
            S::Show(show) => Statement::Show(self.show(show)?),
            S::Set(items) => self.set(items)?,
            S::Transaction(t) => Statement::Transaction(t.clone()),
            S::Xa { verb, xid } => Statement::Xa { verb: *verb, xid: self.xid(xid)? },
            S::Use(name) => Statement::Use(name.as_str().into()),
            S::Do(list) => {
                Statement::Do(list.iter().map(|e| self.free_expr(e)).collect::<Result<_>>()?)
            }
            S::Kill { id, query_only } => {
                Statement::Kill { id: self.free_expr(id)?, query_only: *query_only }
            }
            S::Maintain(what, names) => {
                let names = self.names(names)?;
                Statement::Admin(match what {
                    Maintenance::Check => AdminStmt::Check(names),
                    Maintenance::Analyze => AdminStmt::Analyze(names),
                    Maintenance::Optimize => AdminStmt::Optimize(names),
                    Maintenance::Repair => AdminStmt::Repair(names),
                    Maintenance::Checksum => AdminStmt::Checksum(names),
                })
            }
            S::Histogram { tables, columns, buckets } => Statement::Admin(AdminStmt::Histogram {
                tables: self.names(tables)?,
                columns: columns.iter().map(|column| column.as_str().into()).collect(),
                buckets: *buckets,
            }),
            S::LockTables(tables) => {
                Statement::Admin(AdminStmt::LockTables(self.locked_tables(tables)?))
            }
            S::UnlockTables => Statement::Admin(AdminStmt::UnlockTables),
            S::FlushTables { names, read_lock } => {
                let mut others = self.names(names)?;
                others.retain(|name| !self.is_temporary(name));
                // No names stand for all tables, and temporary ones are not locked.
                let read_lock = *read_lock && others.is_empty() == names.is_empty();
                let what = FlushWhat::Tables { names: others, read_lock };
                Statement::Admin(AdminStmt::Flush(vec![what]))
            }
            S::Flush(what) => Statement::Admin(AdminStmt::Flush(what.clone())),
            S::ResetMaster(first) => Statement::Admin(AdminStmt::ResetMaster(*first)),
            S::PurgeLogsTo(file) => {
                Statement::Admin(AdminStmt::PurgeLogsTo(self.literal_text(*file)?.into()))
            }
            S::PurgeLogsBefore(seconds) => Statement::PurgeLogsBefore(self.free_expr(seconds)?),
            S::Prepare { name, from } => {
                let text = match from {
                    PrepareFrom::Literal(number) => {
                        let text = self.literal_text(*number)?;
                        Expr::literal(
                            Value::from(text.as_str()),
                            ExprType::string(
                                text.chars().count() as u32,
                                Collation::Utf8mb4GeneralCi,
                            ),
                        )
                    }
                    PrepareFrom::Variable(name) => {
                        let name = name.as_str().into();
                        let kind = ExprKind::UserVariable { name, assigned: false };
                        Expr::new(kind, ExprType::null())
                    }
                };
                Statement::Prepare { name: name.to_lowercase().into(), text }
            }
            S::Execute { name, using } => Statement::Execute {
                name: name.to_lowercase().into(),
                using: using.iter().map(|v| v.as_str().into()).collect(),
            },
            S::Empty => Statement::Nothing,
            S::Deallocate(name) => Statement::Deallocate(name.to_lowercase().into()),
            _ => unreachable!("bound elsewhere"),
        })
    }

    /// Binds an expression in which no column may be named.
    fn free_expr(&mut self, expr: &ast::Expr) -> Result<Expr> {
        self.expr(&Env::new(&Scope::default(), Clause::None), expr)
    }

    fn names(&self, names: &[ast::Name]) -> Result<Vec<TableName>> {
        names.iter().map(|n| self.table_name(n)).collect()
    }

    fn show(&mut self, show: &ast::Show) -> Result<ShowStmt> {
        let kind = self.show_kind(&show.what)?;
        let filter = match &show.filter {
            ast::ShowFilter::None => ShowFilter::None,
            ast::ShowFilter::Like(number) => ShowFilter::Like(self.literal_text(*number)?.into()),
            ast::ShowFilter::Where(condition) => {
                let columns =
                    show_columns(&ShowStmt { kind: kind.clone(), filter: ShowFilter::None });
                let mut scope = Scope::default();
                scope.add_derived("", &columns, false)?;
                ShowFilter::Where(Box::new(self.expr(&Env::new(&scope, Clause::Where), condition)?))
            }
        };
        Ok(ShowStmt { kind, filter })
    }

    fn show_kind(&mut self, what: &ShowWhat) -> Result<ShowKind> {
        let database = |schema: &Option<String>| -> Result<Box<str>> {
            let schema = schema.as_deref().or(self.cx.schema).ok_or_else(SqlError::no_database)?;
            match self.cx.catalog.schema(schema) {
                Some(_) => Ok(schema.into()),
                None => Err(SqlError::unknown_database(schema)),
            }
        };
        if let ShowWhat::Columns { table, .. }
        | ShowWhat::CreateTable(table)
        | ShowWhat::CreateView(table) = what
            && let Some(view) = self.view_named(table)?
        {
            return match what {
                ShowWhat::Columns { full, .. } => self.show_view_columns(&view, *full),
                _ => self.show_create_view(&view),
            };
        }
        Ok(match what {
            ShowWhat::Tables { schema, full } => {
                ShowKind::Tables { schema: database(schema)?, full: *full }
            }
            ShowWhat::TableStatus(schema) => ShowKind::TableStatus { schema: database(schema)? },
            ShowWhat::OpenTables(schema) => {
                ShowKind::OpenTables { schema: schema.as_deref().map(Into::into) }
            }
            ShowWhat::Columns { table, full } => {
                ShowKind::Columns { table: self.shown_table(table)?, full: *full }
            }
            ShowWhat::Index(table) => ShowKind::Index { table: self.shown_table(table)? },
            ShowWhat::CreateTable(table) => ShowKind::CreateTable(self.shown_table(table)?),
            ShowWhat::CreateView(name) => {
                let table = self.shown_table(name)?;
                return Err(SqlError::not_of_kind(&table.schema, &table.name, "VIEW"));
            }
            ShowWhat::Triggers(schema) => ShowKind::Triggers { schema: database(schema)? },
            ShowWhat::Events(schema) => ShowKind::Events { schema: database(schema)? },
            ShowWhat::BinlogEvents { file, from, offset, count } => ShowKind::BinlogEvents {
                file: match file {
                    Some(number) => Some(self.literal_text(*number)?.into()),
                    None => None,
                },
                from: *from,
                offset: *offset,
                count: *count,
            },
            ShowWhat::Grants(account) => {
                let (user, host) = self.cx.account;
                if let Some((asked, at)) = account
                    && (asked != user || at != "%" && !at.eq_ignore_ascii_case(host))
                {
                    return Err(SqlError::no_such_grant(asked, at));
                }
                ShowKind::Grants { user: user.into(), host: host.into() }
            }
            ShowWhat::Plain(kind) => kind.clone(),
        })
    }

    fn xid(&self, xid: &ast::Xid) -> Result<Xid> {
        let part = |number: u32| -> Result<Box<[u8]>> {
            let bytes = self.parsed.literal(number)?.to_bytes().into_owned();
            if bytes.len() <= PART_MAX {
                return Ok(bytes.into());
            }
            let token = self.parsed.literals[number as usize];
            let before = &self.parsed.text[..token.start as usize];
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            let rest = &self.parsed.text[token.start as usize..];
            Err(SqlError::syntax(&self.parsed.charsets.shown(rest), line))
        };
        let (gtrid, bqual) = (part(xid.gtrid)?, xid.bqual.map(part).transpose()?);
        Ok(Xid { format_id: xid.format_id, gtrid, bqual: bqual.unwrap_or_default() })
    }

    fn shown_table(&self, name: &ast::Name) -> Result<TableName> {
        let table = self.table_name(name)?;
        if self.cx.catalog.schema(&table.schema).is_none() {
            return Err(SqlError::unknown_database(&table.schema));
        }
        if is_schema(&table.schema) {
            return Virtual::from_name(&table.name)
                .map(|_| table)
                .ok_or_else(|| SqlError::unknown_information_table(&name.name));
        }
        match self.cx.catalog.table(&table.schema, &table.name) {
            Some(_) => Ok(table),
            None if self.view_named(name)?.is_some() => Ok(table),
            None => Err(SqlError::no_such_table(&table.schema, &table.name)),
        }
    }

    fn set(&mut self, items: &[ast::SetItem]) -> Result<Statement> {
        let items: Vec<_> = items.iter().map(|i| self.set_item(i)).collect::<Result<_>>()?;
        let is_variable = |item: &SetItem| matches!(item, SetItem::User { .. });
        let has_subquery =
            |item: &SetItem| matches!(item, SetItem::User { value, .. } if value.has_subquery());
        if !items.iter().all(is_variable) || !items.iter().any(has_subquery) {
            return Ok(Statement::Set(items));
        }
        let assignment = |item| match item {
            SetItem::User { name, value } => Some((name, value)),
            _ => None,
        };
        Ok(Statement::SetVariables(items.into_iter().filter_map(assignment).collect()))
    }
    fn set_item(&mut self, item: &ast::SetItem) -> Result<SetItem> {
        Ok(match item {
            ast::SetItem::User(name, value) => {
                SetItem::User { name: name.as_str().into(), value: self.free_expr(value)? }
            }
            ast::SetItem::System { target, name, value } => {
                let value = match value {
                    ast::SetValue::Expr(e) => SetValue::Expr(self.free_expr(e)?),
                    ast::SetValue::Word(word) => SetValue::Word(word.as_str().into()),
                    ast::SetValue::Default => SetValue::Default,
                };
                SetItem::System { target: *target, name: name.as_str().into(), value }
            }
            ast::SetItem::Names { charset, collation } => {
                let default = Some(self.cx.utf8mb4);
                let (charset, collation) = (charset.as_deref(), collation.as_deref());
                check_client_charset(charset)?;
                SetItem::Names(collation_option(self.cx, charset, collation, default)?)
            }
            ast::SetItem::CharacterSet(charset) => {
                check_client_charset(charset.as_deref())?;
                SetItem::CharacterSet(collation_option(self.cx, charset.as_deref(), None, None)?)
            }
            ast::SetItem::Transaction { target, isolation, read_only } => SetItem::Transaction {
                target: *target,
                isolation: *isolation,
                read_only: *read_only,
            },
        })
    }
}

/// A client cannot write statements in the character sets without ASCII.
fn check_client_charset(charset: Option<&str>) -> Result<()> {
    match charset {
        Some(name) if is_wide(name) => {
            Err(SqlError::wrong_variable_value(Var::CharacterSetClient.get().name, name))
        }
        _ => Ok(()),
    }
}

pub(super) fn show_columns(show: &ShowStmt) -> Vec<ColumnMeta> {
    let like = match &show.filter {
        ShowFilter::Like(pattern) => Some(&**pattern),
        _ => None,
    };
    let first = show.kind.first_column(like);
    // Of a column and a literal of WHERE, the column's collation decides.
    let text = |length, collation| ExprType {
        coercibility: Coercibility::Implicit,
        ..ExprType::string(length, collation)
    };
    let named = |(n, (name, ty)): (usize, &(&'static str, ShowType))| {
        let ty = match ty {
            ShowType::Text | ShowType::Name => text(256, ty.collation()),
            ShowType::LongText => text(65_535, ty.collation()),
            ShowType::Int => ExprType::unsigned_bigint(21),
            ShowType::DateTime => ExprType::datetime(0),
        };
        let name = if n == 0 { first.as_deref().unwrap_or(name) } else { name };
        ColumnMeta::expression(name, ty.nullable(true))
    };
    show.kind.columns().iter().enumerate().map(named).collect()
}

pub(super) fn admin_columns(statement: &AdminStmt) -> Vec<ColumnMeta> {
    let text = |name: &str, length| {
        ColumnMeta::expression(
            name,
            ExprType::string(length, Collation::Utf8mb4GeneralCi).nullable(true),
        )
    };
    match statement {
        AdminStmt::Check(_)
        | AdminStmt::Analyze(_)
        | AdminStmt::Histogram { .. }
        | AdminStmt::Optimize(_)
        | AdminStmt::Repair(_) => {
            vec![
                text("Table", 128),
                text("Op", 10),
                text("Msg_type", 10),
                text("Msg_text", 131_072),
            ]
        }
        AdminStmt::Checksum(_) => vec![
            text("Table", 128),
            ColumnMeta::expression("Checksum", ExprType::bigint(21).nullable(true)),
        ],
        _ => Vec::new(),
    }
}

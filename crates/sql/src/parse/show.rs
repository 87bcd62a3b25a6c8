//! SHOW and DESCRIBE.
use super::ast::*;
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use crate::explain::Format;
use crate::plan::{ShowKind, VariableScope};

impl Parser<'_> {
    /// After SHOW.
    pub(super) fn show(&mut self) -> Result<Statement> {
        let what = self.show_what()?;
        let filter = self.show_filter()?;
        Ok(Statement::Show(Show { what, filter }))
    }

    fn show_filter(&mut self) -> Result<ShowFilter> {
        if self.accept("LIKE") {
            return Ok(ShowFilter::Like(self.string_literal()?));
        }
        if self.accept("WHERE") {
            return Ok(ShowFilter::Where(self.expr()?));
        }
        Ok(ShowFilter::None)
    }

    fn from_database(&mut self) -> Result<Option<String>> {
        if self.accept("FROM") || self.accept("IN") { self.ident().map(Some) } else { Ok(None) }
    }

    fn show_what(&mut self) -> Result<ShowWhat> {
        self.accept("EXTENDED");
        let full = self.accept("FULL");
        if self.accept("TABLES") {
            return Ok(ShowWhat::Tables { schema: self.from_database()?, full });
        }
        if self.accept("COLUMNS") || self.accept("FIELDS") {
            return Ok(ShowWhat::Columns { table: self.from_table()?, full });
        }
        if self.accept("PROCESSLIST") {
            return Ok(ShowWhat::Plain(ShowKind::ProcessList { full }));
        }
        if full {
            return self.fail();
        }
        if self.accept("INDEX") || self.accept("INDEXES") || self.accept("KEYS") {
            return Ok(ShowWhat::Index(self.from_table()?));
        }
        if self.accept("CREATE") {
            return self.show_create();
        }
        if self.accept_all(&["TABLE", "STATUS"]) {
            return Ok(ShowWhat::TableStatus(self.from_database()?));
        }
        if self.accept_all(&["OPEN", "TABLES"]) {
            return Ok(ShowWhat::OpenTables(self.from_database()?));
        }
        if self.accept("TRIGGERS") {
            return Ok(ShowWhat::Triggers(self.from_database()?));
        }
        if self.accept("EVENTS") {
            return Ok(ShowWhat::Events(self.from_database()?));
        }
        if self.accept_all(&["BINLOG", "EVENTS"]) {
            let file = if self.accept("IN") { Some(self.string_literal()?) } else { None };
            let from = if self.accept("FROM") { self.unsigned()? } else { 4 };
            let (offset, count) = self.show_limit()?;
            return Ok(ShowWhat::BinlogEvents { file, from, offset, count });
        }
        if self.accept("GRANTS") {
            return Ok(ShowWhat::Grants(if self.accept("FOR") { self.account()? } else { None }));
        }
        self.show_plain().map(ShowWhat::Plain)
    }

    fn from_table(&mut self) -> Result<Name> {
        if !self.accept("FROM") {
            self.expect("IN")?;
        }
        let mut table = self.table_name()?;
        if let Some(schema) = self.from_database()? {
            table.schema = Some(schema);
        }
        Ok(table)
    }

    fn show_create(&mut self) -> Result<ShowWhat> {
        if self.accept("TABLE") {
            return Ok(ShowWhat::CreateTable(self.table_name()?));
        }
        if self.accept("DATABASE") || self.accept("SCHEMA") {
            let if_not_exists = self.if_not_exists()?;
            return Ok(ShowWhat::Plain(ShowKind::CreateDatabase {
                name: self.ident()?.into(),
                if_not_exists,
            }));
        }
        if self.accept("VIEW") {
            return Ok(ShowWhat::CreateView(self.table_name()?));
        }
        for what in ["TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER"] {
            if self.at(what) {
                return Err(SqlError::unsupported(
                    "SHOW CREATE of triggers, routines, events and users",
                ));
            }
        }
        self.fail()
    }

    fn show_plain(&mut self) -> Result<ShowKind> {
        if self.accept("DATABASES") || self.accept("SCHEMAS") {
            return Ok(ShowKind::Databases);
        }
        let scope = match self.accept_any(&["GLOBAL", "SESSION", "LOCAL"]) {
            Some("GLOBAL") => Some(VariableScope::Global),
            Some(_) => Some(VariableScope::Session),
            None => None,
        };
        let session = scope.unwrap_or(VariableScope::Session);
        if self.accept("VARIABLES") {
            return Ok(ShowKind::Variables(session));
        }
        if self.accept("STATUS") {
            return Ok(ShowKind::Status(session));
        }
        if scope.is_some() {
            return self.fail();
        }
        if self.at("COUNT") && self.at_symbol_nth(1, "(") {
            self.advance();
            self.in_parens(|p| p.expect_symbol("*"))?;
            return match self.accept_any(&["WARNINGS", "ERRORS"]) {
                Some("WARNINGS") => Ok(ShowKind::CountWarnings),
                Some(_) => Ok(ShowKind::CountErrors),
                None => self.fail(),
            };
        }
        if self.accept("WARNINGS") {
            let (offset, count) = self.show_limit()?;
            return Ok(ShowKind::Warnings { offset, count });
        }
        if self.accept("ERRORS") {
            let (offset, count) = self.show_limit()?;
            return Ok(ShowKind::Errors { offset, count });
        }
        if self.accept("ENGINE") {
            let engine = self.word_or_string()?;
            let kind = match self.accept_any(&["STATUS", "MUTEX", "LOGS"]) {
                Some("STATUS") => ShowKind::EngineStatus,
                Some(_) => ShowKind::EngineMutex,
                None => return self.fail(),
            };
            let is_known = ["InnoDB", "ALL"].iter().any(|name| engine.eq_ignore_ascii_case(name));
            return if is_known { Ok(kind) } else { Err(SqlError::unknown_engine(&engine)) };
        }
        if self.accept("STORAGE") {
            self.expect("ENGINES")?;
            return Ok(ShowKind::Engines);
        }
        if self.charset_keyword() {
            return Ok(ShowKind::CharacterSet);
        }
        for (words, kind) in [
            (&["ENGINES"] as &[&str], ShowKind::Engines),
            (&["PLUGINS"], ShowKind::Plugins),
            (&["COLLATION"], ShowKind::Collation),
            (&["PROCEDURE", "STATUS"], ShowKind::ProcedureStatus),
            (&["FUNCTION", "STATUS"], ShowKind::FunctionStatus),
            (&["MASTER", "STATUS"], ShowKind::MasterStatus),
            (&["BINARY", "LOG", "STATUS"], ShowKind::MasterStatus),
            (&["BINARY", "LOGS"], ShowKind::BinaryLogs),
            (&["MASTER", "LOGS"], ShowKind::BinaryLogs),
            (&["REPLICAS"], ShowKind::Replicas),
            (&["SLAVE", "HOSTS"], ShowKind::SlaveHosts),
            (&["SLAVE", "STATUS"], ShowKind::ReplicaStatus),
            (&["REPLICA", "STATUS"], ShowKind::ReplicaStatus),
            (&["PROFILES"], ShowKind::Profiles),
        ] {
            if self.accept_all(words) {
                return Ok(kind);
            }
        }
        for what in ["RELAYLOG", "SLAVE", "PRIVILEGES", "PROFILE", "PROCEDURE", "FUNCTION"] {
            if self.at(what) {
                return Err(SqlError::unsupported("this form of SHOW"));
            }
        }
        self.fail()
    }

    fn show_limit(&mut self) -> Result<(u64, u64)> {
        if !self.accept("LIMIT") {
            return Ok((0, u64::MAX));
        }
        let first = self.unsigned()?;
        if self.accept_symbol(",") { Ok((first, self.unsigned()?)) } else { Ok((0, first)) }
    }

    /// After DESCRIBE, DESC or EXPLAIN: shows a table's columns or a statement's plan.
    pub(super) fn explain(&mut self) -> Result<Statement> {
        let statement_follows = |p: &Self| {
            ["SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "TABLE", "VALUES"]
                .iter()
                .any(|k| p.at(k))
                || p.at_symbol("(")
        };
        let (analyze, mut format) = (self.accept("ANALYZE"), None);
        if self.at("FORMAT") && self.at_symbol_nth(1, "=") {
            self.advance();
            self.advance();
            format = Some(Format::by_name(&self.word_or_string()?)?);
        }
        if self.at("EXTENDED") || self.at("PARTITIONS") {
            self.advance();
        }
        if statement_follows(self) {
            let statement = self.statement()?;
            return Ok(Statement::Explain(Box::new(Explain { analyze, format, statement })));
        }
        if analyze {
            return self.fail();
        }
        if self.at("FOR") {
            return Err(SqlError::unsupported("EXPLAIN FOR CONNECTION"));
        }
        if format.is_some() {
            return self.fail();
        }
        let table = self.table_name()?;
        // DESC t 'pattern' and DESC t column
        let filter = if self.kind() == TokenKind::String {
            ShowFilter::Like(self.string_literal()?)
        } else if self.is_ident(self.peek()) {
            let position = self.position();
            let column = self.ident()?;
            let span = self.span_from(position);
            let field =
                ExprKind::Name(ColumnName { schema: None, table: None, column: "Field".into() });
            let equal = BinaryOp::Compare(crate::plan::CompareOp::Eq);
            let (field, column) = (Expr::new(field, span), Expr::new(ExprKind::Text(column), span));
            ShowFilter::Where(Expr::new(
                ExprKind::Binary(equal, Box::new(field), Box::new(column)),
                span,
            ))
        } else {
            ShowFilter::None
        };
        Ok(Statement::Show(Show { what: ShowWhat::Columns { table, full: false }, filter }))
    }
}

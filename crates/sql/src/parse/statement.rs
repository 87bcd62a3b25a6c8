//! The first words of a text decide which statement it is. This file also reads short statements:
//! transactions, KILL, USE, table maintenance and others.
use super::ast::*;
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use crate::plan::{FlushWhat, ShowKind, TableLock, TransactionStmt, XaVerb};
use std::collections::HashSet;

impl Parser<'_> {
    pub fn statement(&mut self) -> Result<Statement> {
        if self.at_symbol("(") {
            return Ok(Statement::Select(Box::new(self.select_statement()?)));
        }
        let token = self.peek();
        if token.kind != TokenKind::Word {
            return self.fail();
        }
        let word = String::from_utf8_lossy(token.text(self.text)).to_ascii_uppercase();
        // These statements read their own first word.
        match word.as_str() {
            "SELECT" | "TABLE" | "VALUES" => {
                return Ok(Statement::Select(Box::new(self.select_statement()?)));
            }
            "WITH" => return self.with_statement(),
            "INSERT" => return Ok(Statement::Insert(self.insert()?)),
            "REPLACE" => return Ok(Statement::Insert(self.insert()?)),
            "UPDATE" => return Ok(Statement::Update(self.update()?)),
            "DELETE" => return Ok(Statement::Delete(self.delete()?)),
            _ => {}
        }
        self.advance();
        match word.as_str() {
            "BEGIN" => {
                self.accept("WORK");
                Ok(Statement::Transaction(TransactionStmt::Begin {
                    read_only: None,
                    consistent_snapshot: false,
                }))
            }
            "START" => self.start(),
            "COMMIT" => {
                let (chain, release) = self.completion()?;
                Ok(Statement::Transaction(TransactionStmt::Commit { chain, release }))
            }
            "ROLLBACK" => self.rollback(),
            "SAVEPOINT" => {
                Ok(Statement::Transaction(TransactionStmt::Savepoint(self.ident()?.into())))
            }
            "RELEASE" => {
                self.expect("SAVEPOINT")?;
                Ok(Statement::Transaction(TransactionStmt::Release(self.ident()?.into())))
            }
            "SET" => self.set(),
            "SHOW" => self.show(),
            "DESCRIBE" | "DESC" | "EXPLAIN" => self.explain(),
            "USE" => Ok(Statement::Use(self.ident()?)),
            "DO" => Ok(Statement::Do(self.comma_list(|p| {
                let expr = p.expr()?;
                p.alias()?;
                Ok(expr)
            })?)),
            "KILL" => {
                let query_only = matches!(
                    self.accept_any(&["QUERY", "CONNECTION", "HARD", "SOFT"]),
                    Some("QUERY")
                );
                Ok(Statement::Kill { id: self.expr()?, query_only })
            }
            "CREATE" => self.create(),
            "ALTER" => self.alter(),
            "DROP" => self.drop(),
            "TRUNCATE" => self.truncate(),
            "RENAME" => self.rename(),
            "CHECK" | "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECKSUM" => self.maintain(&word),
            "LOCK" => self.lock(),
            "UNLOCK" => self.unlock(),
            "FLUSH" => self.flush(),
            "RESET" => self.reset(),
            "PURGE" => self.purge(),
            "LOAD" => self.load(),
            "PREPARE" => self.prepare(),
            "EXECUTE" => {
                let name = self.ident()?;
                let using = if self.accept("USING") {
                    self.comma_list(|p| p.user_variable_name())?
                } else {
                    Vec::new()
                };
                Ok(Statement::Execute { name, using })
            }
            "DEALLOCATE" => {
                self.expect("PREPARE")?;
                Ok(Statement::Deallocate(self.ident()?))
            }
            "XA" => self.xa(),
            "CALL" | "HANDLER" | "GRANT" | "REVOKE" | "CHANGE" | "INSTALL" | "UNINSTALL"
            | "BINLOG" | "CACHE" | "CLONE" | "HELP" | "IMPORT" | "SIGNAL" | "RESIGNAL" | "GET"
            | "STOP" | "SHUTDOWN" | "RESTART" => {
                // MySQL's manual calls the statement by this name.
                Err(SqlError::unsupported(word))
            }
            _ => Err(self.error_at(token)),
        }
    }

    fn start(&mut self) -> Result<Statement> {
        if self.at("SLAVE") || self.at("REPLICA") || self.at("GROUP_REPLICATION") {
            return Err(SqlError::unsupported("START REPLICA"));
        }
        self.expect("TRANSACTION")?;
        let (mut read_only, mut snapshot) = (None, false);
        if !self.at_end() {
            self.comma_list(|p| {
                if p.accept_all(&["WITH", "CONSISTENT", "SNAPSHOT"]) {
                    snapshot = true;
                } else if read_only.is_none() && p.accept_all(&["READ", "ONLY"]) {
                    read_only = Some(true);
                } else if read_only.is_none() && p.accept_all(&["READ", "WRITE"]) {
                    read_only = Some(false);
                } else {
                    return p.fail();
                }
                Ok(())
            })?;
        }
        Ok(Statement::Transaction(TransactionStmt::Begin {
            read_only,
            consistent_snapshot: snapshot,
        }))
    }

    /// `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`
    fn completion(&mut self) -> Result<(bool, bool)> {
        self.accept("WORK");
        let mut chain = false;
        if self.accept("AND") {
            chain = !self.accept("NO");
            self.expect("CHAIN")?;
        }
        let mut release = false;
        if self.accept("NO") {
            self.expect("RELEASE")?;
        } else if self.accept("RELEASE") {
            release = true;
        }
        if chain && release {
            return self.fail();
        }
        Ok((chain, release))
    }

    fn rollback(&mut self) -> Result<Statement> {
        let position = self.position();
        self.accept("WORK");
        if self.accept("TO") {
            self.accept("SAVEPOINT");
            return Ok(Statement::Transaction(TransactionStmt::RollbackTo(self.ident()?.into())));
        }
        self.rewind(position);
        let (chain, release) = self.completion()?;
        Ok(Statement::Transaction(TransactionStmt::Rollback { chain, release }))
    }

    fn maintain(&mut self, word: &str) -> Result<Statement> {
        self.accept_any(&["NO_WRITE_TO_BINLOG", "LOCAL"]);
        if !self.accept("TABLE") {
            self.expect("TABLES")?;
        }
        let names = self.comma_list(|p| p.table_name())?;
        let what = match word {
            "CHECK" => Maintenance::Check,
            "ANALYZE" => Maintenance::Analyze,
            "OPTIMIZE" => Maintenance::Optimize,
            "REPAIR" => Maintenance::Repair,
            _ => Maintenance::Checksum,
        };
        if what == Maintenance::Analyze && (self.at("UPDATE") || self.at("DROP")) {
            return self.histogram(names);
        }
        while self
            .accept_any(&[
                "FOR", "UPGRADE", "QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM",
            ])
            .is_some()
        {}
        Ok(Statement::Maintain(what, names))
    }

    /// ANALYZE TABLE .. UPDATE HISTOGRAM or DROP HISTOGRAM, from there on.
    fn histogram(&mut self, tables: Vec<Name>) -> Result<Statement> {
        const MAX_BUCKETS: u64 = 1024;
        const DEFAULT_BUCKETS: u32 = 100;
        let makes = self.accept("UPDATE");
        if !makes {
            self.expect("DROP")?;
        }
        self.expect("HISTOGRAM")?;
        self.expect("ON")?;
        let mut names = HashSet::new();
        let columns = self.comma_list(|p| {
            let column = p.ident()?;
            match names.insert(column.to_lowercase()) {
                true => Ok(column),
                false => Err(SqlError::duplicate_column(&column)),
            }
        })?;
        let mut buckets = makes.then_some(DEFAULT_BUCKETS);
        if makes && self.accept("WITH") {
            let number = self.unsigned()?;
            self.expect("BUCKETS")?;
            if !(1..=MAX_BUCKETS).contains(&number) {
                return Err(SqlError::value_out_of_range("Number of buckets", "ANALYZE TABLE"));
            }
            buckets = Some(number as u32);
        }
        if makes && self.at("USING") {
            return Err(SqlError::unsupported("histograms from text (USING DATA)"));
        }
        Ok(Statement::Histogram { tables, columns, buckets })
    }

    fn lock(&mut self) -> Result<Statement> {
        if self.at("INSTANCE") {
            return Err(SqlError::unsupported("LOCK INSTANCE FOR BACKUP"));
        }
        if !self.accept("TABLES") {
            self.expect("TABLE")?;
        }
        let tables = self.comma_list(|p| {
            let name = p.table_name()?;
            if !p.at("LOW_PRIORITY") {
                p.alias()?;
            }
            p.accept("LOW_PRIORITY");
            match p.accept_any(&["READ", "WRITE"]) {
                Some("READ") => {
                    p.accept("LOCAL");
                    Ok((name, TableLock::Read))
                }
                Some(_) => Ok((name, TableLock::Write)),
                None => p.fail(),
            }
        })?;
        Ok(Statement::LockTables(tables))
    }

    fn unlock(&mut self) -> Result<Statement> {
        if self.at("INSTANCE") {
            return Err(SqlError::unsupported("UNLOCK INSTANCE"));
        }
        if !self.accept("TABLES") {
            self.expect("TABLE")?;
        }
        Ok(Statement::UnlockTables)
    }

    fn flush(&mut self) -> Result<Statement> {
        self.accept_any(&["NO_WRITE_TO_BINLOG", "LOCAL"]);
        if self.accept("TABLES") || self.accept("TABLE") {
            let names = if self.at_end() || self.at("WITH") || self.at("FOR") {
                Vec::new()
            } else {
                self.comma_list(|p| p.table_name())?
            };
            if self.at("FOR") {
                return Err(SqlError::unsupported("FLUSH TABLES ... FOR EXPORT"));
            }
            let read_lock = self.accept_all(&["WITH", "READ", "LOCK"]);
            return Ok(Statement::FlushTables { names, read_lock });
        }
        let kinds = self.comma_list(|p| {
            if p.accept("BINARY") {
                p.expect("LOGS")?;
                return Ok(FlushWhat::BinaryLogs);
            }
            if p.accept_any(&["ENGINE", "ERROR", "GENERAL", "RELAY", "SLOW"]).is_some() {
                p.expect("LOGS")?;
                return Ok(FlushWhat::OtherLogs);
            }
            match p.accept_any(&[
                "LOGS",
                "STATUS",
                "PRIVILEGES",
                "HOSTS",
                "USER_RESOURCES",
                "OPTIMIZER_COSTS",
            ]) {
                Some("LOGS") => Ok(FlushWhat::Logs),
                Some("STATUS") => Ok(FlushWhat::Status),
                Some(_) => Ok(FlushWhat::Privileges),
                None => p.fail(),
            }
        })?;
        // What is named twice is done once.
        let mut each = Vec::new();
        for kind in kinds {
            if !each.contains(&kind) {
                each.push(kind);
            }
        }
        Ok(Statement::Flush(each))
    }

    fn reset(&mut self) -> Result<Statement> {
        if self.accept("MASTER") || self.accept_all(&["BINARY", "LOGS", "AND", "GTIDS"]) {
            let first = if self.accept("TO") { Some(self.unsigned()?) } else { None };
            return Ok(Statement::ResetMaster(first));
        }
        if self.at("SLAVE") || self.at("REPLICA") || self.at("PERSIST") {
            return Err(SqlError::unsupported("RESET REPLICA and RESET PERSIST"));
        }
        self.fail()
    }

    /// `PURGE {BINARY | MASTER} LOGS {TO 'file' | BEFORE time}`
    fn purge(&mut self) -> Result<Statement> {
        if !self.accept("BINARY") {
            self.expect("MASTER")?;
        }
        self.expect("LOGS")?;
        if self.accept("TO") {
            return Ok(Statement::PurgeLogsTo(self.string_literal()?));
        }
        self.expect("BEFORE")?;
        let position = self.position();
        let time = self.expr()?;
        let call = Call {
            name: "UNIX_TIMESTAMP".into(),
            distinct: false,
            star: false,
            args: vec![time],
            order: Vec::new(),
            separator: None,
        };
        let span = self.span_from(position);
        Ok(Statement::PurgeLogsBefore(Expr::new(ExprKind::Call(call), span)))
    }

    fn xa(&mut self) -> Result<Statement> {
        if self.accept("RECOVER") {
            let convert = self.accept_all(&["CONVERT", "XID"]);
            let what = ShowWhat::Plain(ShowKind::XaRecover { convert });
            return Ok(Statement::Show(Show { what, filter: ShowFilter::None }));
        }
        let verb = self.accept_any(&["START", "BEGIN", "END", "PREPARE", "COMMIT", "ROLLBACK"]);
        let Some(verb) = verb else { return self.fail() };
        let xid = self.xid()?;
        let verb = match verb {
            "START" | "BEGIN" => {
                XaVerb::Start { joins: self.accept_any(&["JOIN", "RESUME"]).is_some() }
            }
            "END" => {
                let suspends = self.accept("SUSPEND");
                if suspends && self.accept("FOR") {
                    self.expect("MIGRATE")?;
                }
                XaVerb::End { suspends }
            }
            "PREPARE" => XaVerb::Prepare,
            "COMMIT" => XaVerb::Commit { one_phase: self.accept_all(&["ONE", "PHASE"]) },
            _ => XaVerb::Rollback,
        };
        Ok(Statement::Xa { verb, xid })
    }
    /// `gtrid [, bqual [, formatID]]`
    fn xid(&mut self) -> Result<Xid> {
        let mut xid = Xid { gtrid: self.byte_string()?, bqual: None, format_id: 1 };
        if self.accept_symbol(",") {
            xid.bqual = Some(self.byte_string()?);
            if self.accept_symbol(",") {
                let token = self.peek();
                xid.format_id = self.unsigned_u32()?;
                if i32::try_from(xid.format_id).is_err() {
                    return Err(self.error_at(token));
                }
            }
        }
        Ok(xid)
    }
    /// A string, or bytes in hexadecimal or binary digits. Returns the literal's number.
    fn byte_string(&mut self) -> Result<u32> {
        if !matches!(self.kind(), TokenKind::String | TokenKind::Hex | TokenKind::Bits) {
            return self.fail();
        }
        let number = self.number();
        self.forward(1);
        Ok(number)
    }

    fn prepare(&mut self) -> Result<Statement> {
        let name = self.ident()?;
        self.expect("FROM")?;
        let from = if self.kind() == TokenKind::UserVariable {
            PrepareFrom::Variable(self.user_variable_name()?)
        } else {
            PrepareFrom::Literal(self.string_literal()?)
        };
        Ok(Statement::Prepare { name, from })
    }
}

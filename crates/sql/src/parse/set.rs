//! The SET statement in all its forms.
use super::ast::*;
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use crate::plan::{Isolation, SetTarget, VariableScope};

impl Parser<'_> {
    /// After SET.
    pub(super) fn set(&mut self) -> Result<Statement> {
        for what in ["PASSWORD", "ROLE", "RESOURCE"] {
            if self.at(what) && !self.at_symbol_nth(1, "=") {
                return Err(SqlError::unsupported("SET PASSWORD, ROLE and RESOURCE GROUP"));
            }
        }
        if self.at("DEFAULT") && self.at_nth(1, "ROLE") {
            return Err(SqlError::unsupported("SET DEFAULT ROLE"));
        }
        Ok(Statement::Set(self.comma_list(Self::set_item)?))
    }

    fn set_item(&mut self) -> Result<SetItem> {
        if self.kind() == TokenKind::UserVariable {
            let name = self.user_variable_name()?;
            self.assign_sign()?;
            return Ok(SetItem::User(name, self.expr()?));
        }
        if self.kind() == TokenKind::SystemVariable {
            return self.at_variable();
        }
        if self.at("NAMES") && !self.at_symbol_nth(1, "=") {
            return self.set_names();
        }
        if self.charset_keyword() {
            let charset = if self.accept("DEFAULT") { None } else { Some(self.word_or_string()?) };
            return Ok(SetItem::CharacterSet(charset));
        }
        let scope =
            match self.accept_any(&["GLOBAL", "SESSION", "LOCAL", "PERSIST", "PERSIST_ONLY"]) {
                Some("GLOBAL") => Some(SetTarget::Global),
                Some("SESSION" | "LOCAL") => Some(SetTarget::Session),
                Some(_) => Some(SetTarget::Persist),
                None => None,
            };
        if self.at("TRANSACTION") && !self.at_symbol_nth(1, "=") {
            self.advance();
            return self.set_transaction(scope.unwrap_or(SetTarget::NextTransaction));
        }
        let mut name = self.ident_after_dot()?;
        if self.accept_symbol(".") {
            name = format!("{name}.{}", self.ident_after_dot()?);
        }
        self.assign_sign()?;
        Ok(SetItem::System {
            target: scope.unwrap_or(SetTarget::Session),
            name: name.to_ascii_lowercase(),
            value: self.set_value()?,
        })
    }

    fn assign_sign(&mut self) -> Result<()> {
        if self.accept_symbol("=") { Ok(()) } else { self.expect_symbol(":=") }
    }

    /// At `@@`.
    fn at_variable(&mut self) -> Result<SetItem> {
        self.advance();
        if (self.at("PERSIST") || self.at("PERSIST_ONLY")) && self.at_symbol_nth(1, ".") {
            self.advance();
            self.advance();
            let name = self.ident_after_dot()?.to_ascii_lowercase();
            self.assign_sign()?;
            return Ok(SetItem::System {
                target: SetTarget::Persist,
                name,
                value: self.set_value()?,
            });
        }
        let (scope, name) = self.system_variable_name()?;
        self.assign_sign()?;
        let target = match scope {
            VariableScope::Global => SetTarget::Global,
            VariableScope::Session => SetTarget::Session,
            // `SET @@transaction_isolation = ..` is for the next transaction only.
            VariableScope::Either
                if matches!(
                    name.as_str(),
                    "transaction_isolation"
                        | "tx_isolation"
                        | "transaction_read_only"
                        | "tx_read_only"
                ) =>
            {
                SetTarget::NextTransaction
            }
            VariableScope::Either => SetTarget::Session,
        };
        Ok(SetItem::System { target, name, value: self.set_value()? })
    }

    /// An expression, DEFAULT, or a bare word (`ON`, `ROW`, `utf8mb4`): a single word is not a
    /// column here.
    fn set_value(&mut self) -> Result<SetValue> {
        if self.at("DEFAULT") && !self.at_symbol_nth(1, "(") {
            self.advance();
            return Ok(SetValue::Default);
        }
        let last = |p: &Self| p.peek_at(1).kind == TokenKind::End || p.at_symbol_nth(1, ",");
        if matches!(self.kind(), TokenKind::Word | TokenKind::QuotedName)
            && last(self)
            && !["NULL", "TRUE", "FALSE", "CURRENT_TIMESTAMP"].iter().any(|k| self.at(k))
        {
            return Ok(SetValue::Word(self.word_or_string()?));
        }
        Ok(SetValue::Expr(self.expr()?))
    }

    fn set_names(&mut self) -> Result<SetItem> {
        self.advance();
        if self.accept("DEFAULT") {
            return Ok(SetItem::Names { charset: None, collation: None });
        }
        let charset = Some(self.word_or_string()?);
        let collation = if self.accept("COLLATE") && !self.accept("DEFAULT") {
            Some(self.word_or_string()?)
        } else {
            None
        };
        Ok(SetItem::Names { charset, collation })
    }

    /// After TRANSACTION.
    fn set_transaction(&mut self, target: SetTarget) -> Result<SetItem> {
        let (mut isolation, mut read_only) = (None, None);
        loop {
            if self.accept_all(&["ISOLATION", "LEVEL"]) && isolation.is_none() {
                isolation = Some(self.isolation_level()?);
            } else if self.at("READ") && read_only.is_none() {
                self.advance();
                read_only = Some(match self.accept_any(&["ONLY", "WRITE"]) {
                    Some(word) => word == "ONLY",
                    None => return self.fail(),
                });
            } else {
                return self.fail();
            }
            if !self.accept_symbol(",") {
                return Ok(SetItem::Transaction { target, isolation, read_only });
            }
        }
    }

    fn isolation_level(&mut self) -> Result<Isolation> {
        if self.accept_all(&["READ", "UNCOMMITTED"]) {
            Ok(Isolation::ReadUncommitted)
        } else if self.accept_all(&["READ", "COMMITTED"]) {
            Ok(Isolation::ReadCommitted)
        } else if self.accept_all(&["REPEATABLE", "READ"]) {
            Ok(Isolation::RepeatableRead)
        } else if self.accept("SERIALIZABLE") {
            Ok(Isolation::Serializable)
        } else {
            self.fail()
        }
    }
}

//! CREATE VIEW, ALTER VIEW, DROP VIEW.
use super::ast::*;
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use crate::plan::UnsaidOfView;
use redolith_engine::dict::view::{Algorithm, CheckOption};

impl Parser<'_> {
    /// True at a word with which the definition of a view goes on after CREATE, CREATE OR REPLACE
    /// or ALTER.
    pub(super) fn at_view(&self) -> bool {
        ["VIEW", "ALGORITHM", "DEFINER", "SQL"].iter().any(|word| self.at(word))
    }

    /// After CREATE [OR REPLACE] or ALTER.
    pub(super) fn view(&mut self, change: ViewChange) -> Result<Statement> {
        let mut algorithm = Algorithm::Undefined;
        if self.accept("ALGORITHM") {
            self.expect_symbol("=")?;
            algorithm = match self.accept_any(&["UNDEFINED", "MERGE", "TEMPTABLE"]) {
                Some("UNDEFINED") => Algorithm::Undefined,
                Some("MERGE") => Algorithm::Merge,
                Some(_) => Algorithm::Temptable,
                None => return self.fail(),
            };
        }
        let (mut definer, says_definer) = (None, self.accept("DEFINER"));
        if says_definer {
            self.expect_symbol("=")?;
            definer = self.account()?;
        }
        let (mut invoker, says_security) = (false, self.accept("SQL"));
        if says_security {
            self.expect("SECURITY")?;
            invoker = match self.accept_any(&["DEFINER", "INVOKER"]) {
                Some(word) => word == "INVOKER",
                None => return self.fail(),
            };
        }
        if !self.accept("VIEW") {
            for what in ["TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "AGGREGATE"] {
                if self.at(what) {
                    return Err(SqlError::unsupported("triggers, routines and events"));
                }
            }
            return self.fail();
        }
        let name = self.table_name()?;
        let columns = self.column_list()?;
        self.expect("AS")?;
        let position = self.position();
        self.note_modes();
        let select = Box::new(self.select_statement()?);
        let span = self.span_from(position);
        let mut check = CheckOption::None;
        if self.accept("WITH") {
            check = match self.accept_any(&["LOCAL", "CASCADED"]) {
                Some("LOCAL") => CheckOption::Local,
                _ => CheckOption::Cascaded,
            };
            self.expect("CHECK")?;
            self.expect("OPTION")?;
        }
        let unsaid = UnsaidOfView {
            algorithm: algorithm == Algorithm::Undefined,
            definer: !says_definer,
            security: !says_security,
        };
        Ok(Statement::CreateView(Box::new(CreateView {
            name,
            columns,
            select,
            span,
            change,
            algorithm,
            definer,
            invoker,
            unsaid,
            check,
        })))
    }

    /// A user and a host, as after DEFINER =; None for CURRENT_USER.
    pub(super) fn account(&mut self) -> Result<Option<(String, String)>> {
        if self.accept("CURRENT_USER") {
            if self.accept_symbol("(") {
                self.expect_symbol(")")?;
            }
            return Ok(None);
        }
        let user = self.word_or_string()?;
        let host = if self.kind() == TokenKind::UserVariable {
            self.user_variable_name()?
        } else {
            "%".into()
        };
        Ok(Some((user, host)))
    }

    /// After DROP VIEW.
    pub(super) fn drop_views(&mut self) -> Result<Statement> {
        let if_exists = self.if_exists()?;
        let names = self.comma_list(|p| p.table_name())?;
        self.accept_any(&["RESTRICT", "CASCADE"]);
        Ok(Statement::DropViews { names, if_exists })
    }
}

//! ALTER, DROP, TRUNCATE, RENAME.
use super::ast::*;
use super::create::{say_charset, say_collation};
use super::limits::MAX_COLUMNS;
use super::parser::Parser;
use crate::error::{Result, SqlError};

impl Parser<'_> {
    /// After ALTER.
    pub(super) fn alter(&mut self) -> Result<Statement> {
        if self.accept("DATABASE") || self.accept("SCHEMA") {
            let name =
                if self.is_ident(self.peek()) && !self.at("CHARSET") && !self.at("ENCRYPTION") {
                    Some(self.ident()?)
                } else {
                    None
                };
            let (charset, collation) = self.database_options()?;
            return Ok(Statement::AlterDatabase { name, charset, collation });
        }
        if self.at_view() {
            return self.view(ViewChange::Alter);
        }
        if !self.accept("TABLE") {
            for what in
                ["USER", "EVENT", "FUNCTION", "PROCEDURE", "SERVER", "TABLESPACE", "INSTANCE"]
            {
                if self.at(what) {
                    return Err(SqlError::unsupported(
                        "ALTER of routines, events, users and instances",
                    ));
                }
            }
            return self.fail();
        }
        let table = self.table_name()?;
        let mut actions = Vec::new();
        if !self.at_end() {
            actions = self.comma_list(Self::alter_action)?;
        }
        let (mut charset, mut collation) = (None, None);
        for action in actions.iter().flatten() {
            let Alter::Options(options) = action else { continue };
            if let Some(name) = &options.charset {
                say_charset(&mut charset, &collation, name.clone())?;
            }
            if let Some(name) = &options.collation {
                say_collation(&charset, &mut collation, name.clone())?;
            }
        }
        Ok(Statement::Alter { table, actions: actions.into_iter().flatten().collect() })
    }

    fn alter_action(&mut self) -> Result<Vec<Alter>> {
        Ok(vec![if self.accept("ADD") {
            return self.alter_add();
        } else if self.accept("DROP") {
            self.alter_drop()?
        } else if self.accept("RENAME") {
            self.alter_rename()?
        } else if self.at("ALGORITHM") || self.at("LOCK") {
            self.algorithm_and_lock()?;
            Alter::Nothing
        } else if self.accept("FORCE")
            || self.accept_all(&["ENABLE", "KEYS"])
            || self.accept_all(&["DISABLE", "KEYS"])
        {
            Alter::Nothing
        } else if self.accept("MODIFY") {
            self.accept("COLUMN");
            let column = self.column_def()?;
            Alter::ChangeColumn { from: column.name.clone(), column, place: self.place()? }
        } else if self.accept("CHANGE") {
            self.accept("COLUMN");
            let from = self.ident()?;
            Alter::ChangeColumn { from, column: self.column_def()?, place: self.place()? }
        } else if self.accept("ALTER") {
            self.alter_column()?
        } else if self.accept_all(&["CONVERT", "TO"]) {
            self.convert_to()?
        } else if [
            "DISCARD",
            "IMPORT",
            "ORDER",
            "PARTITION",
            "COALESCE",
            "REORGANIZE",
            "EXCHANGE",
            "ANALYZE",
            "CHECK",
            "OPTIMIZE",
            "REBUILD",
            "REPAIR",
            "REMOVE",
            "UPGRADE",
            "WITHOUT",
            "WITH",
            "TRUNCATE",
        ]
        .iter()
        .any(|k| self.at(k))
        {
            self.skip_rest();
            Alter::Unsupported("this form of ALTER TABLE")
        } else {
            let before = self.position();
            let options = self.options_of_one_action()?;
            if self.position() == before {
                return self.fail();
            }
            Alter::Options(options)
        }])
    }

    fn skip_rest(&mut self) {
        while !self.at_end() {
            self.advance();
        }
    }

    fn alter_add(&mut self) -> Result<Vec<Alter>> {
        if self.at("PARTITION") {
            self.skip_rest();
            return Ok(vec![Alter::Unsupported("partitions")]);
        }
        if !self.at("COLUMN")
            && let Some(element) = self.index_element()?
        {
            return Ok(vec![match element {
                TableElement::Index(index) => Alter::AddIndex(index),
                TableElement::Check(check) => Alter::AddCheck(check),
            }]);
        }
        self.accept("COLUMN");
        if self.at_symbol("(") {
            let columns = self.in_parens(|p| {
                p.comma_list_of(MAX_COLUMNS, SqlError::too_many_columns, |p| p.column_def())
            })?;
            let add = |column| Alter::AddColumn(column, Place::Unsaid);
            return Ok(columns.into_iter().map(add).collect());
        }
        let column = self.column_def()?;
        Ok(vec![Alter::AddColumn(column, self.place()?)])
    }

    fn place(&mut self) -> Result<Place> {
        Ok(if self.accept("FIRST") {
            Place::First
        } else if self.accept("AFTER") {
            Place::After(self.ident()?)
        } else {
            Place::Unsaid
        })
    }

    /// After ALTER as an action.
    fn alter_column(&mut self) -> Result<Alter> {
        if self.at("INDEX") {
            self.skip_rest();
            return Ok(Alter::Unsupported("this form of ALTER TABLE"));
        }
        if let Some(kind) = self.accept_any(&["CHECK", "CONSTRAINT"]) {
            let name = self.ident()?;
            let enforced = !self.accept("NOT");
            self.expect("ENFORCED")?;
            return Ok(match kind {
                "CHECK" => Alter::Enforce(name, enforced),
                _ => Alter::EnforceConstraint(name, enforced),
            });
        }
        self.accept("COLUMN");
        let column = self.ident()?;
        if self.accept_all(&["DROP", "DEFAULT"]) {
            return Ok(Alter::Default { column, value: None, is_expression: false });
        }
        self.expect("SET")?;
        if self.accept("VISIBLE") {
            return Ok(Alter::Visible(column, true));
        }
        if self.accept("INVISIBLE") {
            return Ok(Alter::Visible(column, false));
        }
        self.expect("DEFAULT")?;
        let is_expression = self.at_symbol("(");
        Ok(Alter::Default { column, value: Some(self.default_expr()?), is_expression })
    }

    /// After CONVERT TO.
    fn convert_to(&mut self) -> Result<Alter> {
        if !self.charset_keyword() {
            return self.fail();
        }
        let charset = if self.accept("DEFAULT") { String::new() } else { self.charset_name()? };
        let collation = match self.accept("COLLATE") {
            true => Some(self.collation_name()?),
            false => None,
        };
        Ok(Alter::Convert(charset, collation))
    }

    fn alter_drop(&mut self) -> Result<Alter> {
        if self.accept_all(&["PRIMARY", "KEY"]) {
            return Ok(Alter::DropPrimaryKey);
        }
        if self.accept("INDEX") || self.accept("KEY") {
            return Ok(Alter::DropIndex(self.index_name()?));
        }
        if self.accept("CHECK") {
            return Ok(Alter::DropCheck(self.ident()?));
        }
        if self.accept("CONSTRAINT") {
            return Ok(Alter::DropConstraint(self.index_name()?));
        }
        if self.at("FOREIGN") || self.at("PARTITION") {
            self.skip_rest();
            return Ok(Alter::Unsupported("foreign keys and partitions"));
        }
        self.accept("COLUMN");
        Ok(Alter::DropColumn(self.ident()?))
    }

    fn index_name(&mut self) -> Result<String> {
        if self.accept("PRIMARY") { Ok("PRIMARY".into()) } else { self.ident() }
    }

    fn alter_rename(&mut self) -> Result<Alter> {
        if self.accept("INDEX") || self.accept("KEY") {
            let from = self.ident()?;
            self.expect("TO")?;
            return Ok(Alter::RenameIndex(from, self.ident()?));
        }
        if self.accept("COLUMN") {
            let from = self.ident()?;
            self.expect("TO")?;
            return Ok(Alter::RenameColumn(from, self.ident()?));
        }
        if !self.accept("TO") && !self.accept("AS") {
            self.accept_symbol("=");
        }
        Ok(Alter::RenameTo(self.table_name()?))
    }

    /// After DROP.
    pub(super) fn drop(&mut self) -> Result<Statement> {
        if self.accept("DATABASE") || self.accept("SCHEMA") {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropDatabase { name: self.ident()?, if_exists });
        }
        let temporary = self.accept("TEMPORARY");
        if self.accept("TABLE") || self.accept("TABLES") {
            let if_exists = self.if_exists()?;
            let names = self.comma_list(|p| p.table_name())?;
            self.accept_any(&["RESTRICT", "CASCADE"]);
            return Ok(Statement::DropTables { names, temporary, if_exists });
        }
        if temporary {
            return self.fail();
        }
        if self.accept("INDEX") {
            let name = self.index_name()?;
            self.expect("ON")?;
            let table = self.table_name()?;
            self.algorithm_and_lock()?;
            let action = if name.eq_ignore_ascii_case("PRIMARY") {
                Alter::DropPrimaryKey
            } else {
                Alter::DropIndex(name)
            };
            return Ok(Statement::Alter { table, actions: vec![action] });
        }
        if self.accept("PREPARE") {
            return Ok(Statement::Deallocate(self.ident()?));
        }
        if self.accept("VIEW") {
            return self.drop_views();
        }
        for what in
            ["TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE"]
        {
            if self.at(what) {
                return Err(SqlError::unsupported("DROP of triggers, routines, events and users"));
            }
        }
        self.fail()
    }

    /// After TRUNCATE.
    pub(super) fn truncate(&mut self) -> Result<Statement> {
        self.accept("TABLE");
        Ok(Statement::Truncate(self.table_name()?))
    }

    /// After RENAME.
    pub(super) fn rename(&mut self) -> Result<Statement> {
        if self.at("USER") {
            return Err(SqlError::unsupported("RENAME USER"));
        }
        if !self.accept("TABLE") {
            self.expect("TABLES")?;
        }
        let pairs = self.comma_list(|p| {
            let from = p.table_name()?;
            p.expect("TO")?;
            Ok((from, p.table_name()?))
        })?;
        Ok(Statement::RenameTables(pairs))
    }
}

//! JSON_TABLE in a FROM clause.
//!
//! **JTAB-1** All clauses NESTED of a JSON_TABLE have at most [`MAX_JSON_TABLE_COLUMNS`] columns
//! together, and the parser counts the depth of NESTED within NESTED, so no walk over the tree is
//! deeper than the parser's limit.
use super::ast::*;
use super::limits::MAX_JSON_TABLE_COLUMNS;
use super::parser::Parser;
use crate::error::{Result, SqlError};

impl Parser<'_> {
    /// Whether a JSON_TABLE stands here.
    pub(super) fn at_json_table(&self) -> bool {
        self.at("JSON_TABLE") && self.at_symbol_nth(1, "(")
    }

    /// `JSON_TABLE(document, path COLUMNS (..)) [AS] alias`
    pub(super) fn json_table(&mut self) -> Result<TableFactor> {
        self.expect("JSON_TABLE")?;
        let table = self.in_parens(|p| {
            let document = p.deeper(|p| p.expr())?;
            p.expect_symbol(",")?;
            let rows = p.json_table_rows(&mut 0)?;
            Ok(JsonTable { document, rows })
        })?;
        let alias = self.alias()?.ok_or_else(SqlError::table_function_needs_alias)?;
        let kind = FactorKind::JsonTable(Box::new(table));
        Ok(TableFactor { kind, alias: Some(alias), join: Join::None })
    }

    /// `path COLUMNS (..)`. `columns` counts the columns of the whole JSON_TABLE.
    fn json_table_rows(&mut self, columns: &mut usize) -> Result<JsonTableRows> {
        let path = self.json_path()?;
        self.expect("COLUMNS")?;
        let parts =
            self.in_parens(|p| p.comma_list(|p| p.deeper(|p| p.json_table_part(columns))))?;
        Ok(JsonTableRows { path, parts })
    }

    fn json_table_part(&mut self, columns: &mut usize) -> Result<JsonTablePart> {
        // NESTED may also be the name of a column.
        if self.at("NESTED") && (self.at_nth(1, "PATH") || self.peek_at(1).kind.is_string()) {
            self.advance();
            self.accept("PATH");
            return Ok(JsonTablePart::Nested(self.json_table_rows(columns)?));
        }
        *columns += 1;
        if *columns > MAX_JSON_TABLE_COLUMNS {
            return Err(SqlError::too_many_columns());
        }
        let name = self.ident()?;
        let kind = if self.accept("FOR") {
            self.expect("ORDINALITY")?;
            JsonTableColumnKind::Ordinality
        } else {
            self.json_table_column(&name)?
        };
        Ok(JsonTablePart::Column(JsonTableColumn { name, kind }))
    }

    /// What follows the name of a column that has a type.
    fn json_table_column(&mut self, name: &str) -> Result<JsonTableColumnKind> {
        let first = self.peek();
        let (ty, is_serial) = self.data_type(name)?;
        if is_serial {
            return Err(self.error_at(first));
        }
        if self.accept("EXISTS") {
            self.expect("PATH")?;
            return Ok(JsonTableColumnKind::Exists { ty, path: self.json_path()? });
        }
        self.expect("PATH")?;
        let path = self.json_path()?;
        let [on_empty, on_error] = self.json_reactions(true)?.map(instead);
        Ok(JsonTableColumnKind::Value { ty, path, on_empty, on_error })
    }
}

fn instead(reaction: Option<(char, Expr)>) -> JsonInstead {
    match reaction {
        Some(('e', _)) => JsonInstead::Error,
        Some(('d', default)) => JsonInstead::Default(default),
        _ => JsonInstead::Null,
    }
}

//! LOAD DATA, and the clauses FIELDS and LINES of text files.
use super::ast::*;
use super::lexer::TokenKind;
use super::limits::MAX_COLUMNS;
use super::parser::Parser;
use crate::error::{Result, SqlError};

impl Parser<'_> {
    /// Behind LOAD.
    pub(super) fn load(&mut self) -> Result<Statement> {
        if self.at("XML") {
            return Err(SqlError::unsupported("LOAD XML"));
        }
        if self.at("INDEX") {
            return Err(SqlError::unsupported("LOAD INDEX INTO CACHE"));
        }
        self.expect("DATA")?;
        if self.at("FROM") {
            return Err(SqlError::unsupported("LOAD DATA .. ALGORITHM = BULK"));
        }
        self.accept_any(&["LOW_PRIORITY", "CONCURRENT"]);
        let local = self.accept("LOCAL");
        self.expect("INFILE")?;
        let file = self.string_literal()?;
        let duplicates = match self.accept_any(&["REPLACE", "IGNORE"]) {
            Some("REPLACE") => LoadDuplicates::Replace,
            Some(_) => LoadDuplicates::Ignore,
            None => LoadDuplicates::Error,
        };
        self.expect("INTO")?;
        self.expect("TABLE")?;
        let table = self.table_name()?;
        if self.at("PARTITION") {
            return Err(SqlError::unsupported("PARTITION selection"));
        }
        let charset = if self.charset_keyword() { Some(self.word_or_string()?) } else { None };
        let format = self.text_format()?;
        let skip = if self.accept("IGNORE") {
            let lines = self.unsigned()?;
            if self.accept_any(&["LINES", "ROWS"]).is_none() {
                return self.fail();
            }
            lines
        } else {
            0
        };
        let targets = if self.at_symbol("(") {
            self.in_parens(|p| {
                if p.at_symbol(")") {
                    return Ok(Vec::new());
                }
                p.comma_list_of(MAX_COLUMNS, SqlError::too_many_columns, Self::load_target)
            })?
        } else {
            Vec::new()
        };
        let set = if self.accept("SET") { self.comma_list(Self::assignment)? } else { Vec::new() };
        Ok(Statement::Load(Box::new(Load {
            local,
            file,
            duplicates,
            table,
            charset,
            format,
            skip,
            targets,
            set,
        })))
    }

    /// At OUTFILE or DUMPFILE.
    pub(super) fn into_file(&mut self) -> Result<IntoFile> {
        let is_dump = !self.accept("OUTFILE");
        if is_dump {
            self.expect("DUMPFILE")?;
        }
        let file = self.string_literal()?;
        if is_dump {
            return Ok(IntoFile { file, charset: None, format: None });
        }
        let charset = if self.charset_keyword() { Some(self.word_or_string()?) } else { None };
        Ok(IntoFile { file, charset, format: Some(self.text_format()?) })
    }

    fn load_target(&mut self) -> Result<LoadTarget> {
        if self.kind() == TokenKind::UserVariable {
            return Ok(LoadTarget::Variable(self.user_variable_name()?));
        }
        Ok(LoadTarget::Column(self.column_name()?))
    }

    /// `[FIELDS|COLUMNS ..] [LINES ..]`
    pub(super) fn text_format(&mut self) -> Result<TextFormat> {
        let mut format = TextFormat::default();
        if self.accept_any(&["FIELDS", "COLUMNS"]).is_some() {
            let start = self.position();
            loop {
                if self.accept_all(&["TERMINATED", "BY"]) {
                    format.fields_terminated = Some(self.separator()?);
                } else if self.accept_all(&["OPTIONALLY", "ENCLOSED", "BY"]) {
                    format.optionally = true;
                    format.enclosed = Some(self.separator()?);
                } else if self.accept_all(&["ENCLOSED", "BY"]) {
                    format.enclosed = Some(self.separator()?);
                } else if self.accept_all(&["ESCAPED", "BY"]) {
                    format.escaped = Some(self.separator()?);
                } else if self.position() == start {
                    return self.fail();
                } else {
                    break;
                }
            }
        }
        if self.accept("LINES") {
            let start = self.position();
            loop {
                if self.accept_all(&["TERMINATED", "BY"]) {
                    format.lines_terminated = Some(self.separator()?);
                } else if self.accept_all(&["STARTING", "BY"]) {
                    format.lines_starting = Some(self.separator()?);
                } else if self.position() == start {
                    return self.fail();
                } else {
                    break;
                }
            }
        }
        Ok(format)
    }

    /// A string, which may be written in hexadecimal or as bits.
    fn separator(&mut self) -> Result<u32> {
        if !matches!(self.kind(), TokenKind::String | TokenKind::Hex | TokenKind::Bits) {
            return self.fail();
        }
        let number = self.number();
        self.advance();
        Ok(number)
    }
}

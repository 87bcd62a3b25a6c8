//! CREATE TABLE, CREATE INDEX, column types, table options.
use super::ast::*;
use super::lexer::TokenKind;
use super::limits::*;
use super::parser::Parser;
use crate::error::{Result, SqlError};
use redolith_types::{Charset, Collation};
use std::num::NonZeroU16;

/// Types that have no length: a parenthesis behind them is an error of syntax.
const LENGTHLESS: &[&str] =
    &["DATE", "JSON", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB"];

impl Parser<'_> {
    /// After CREATE.
    pub(super) fn create(&mut self) -> Result<Statement> {
        if self.accept("DATABASE") || self.accept("SCHEMA") {
            let if_not_exists = self.if_not_exists()?;
            let name = self.ident()?;
            let (charset, collation) = self.database_options()?;
            return Ok(Statement::CreateDatabase { name, if_not_exists, charset, collation });
        }
        if self.accept_all(&["OR", "REPLACE"]) {
            return if self.at_view() {
                self.view(ViewChange::CreateOrReplace)
            } else {
                self.fail()
            };
        }
        if self.at_view() {
            return self.view(ViewChange::Create);
        }
        let temporary = self.accept("TEMPORARY");
        if self.accept("TABLE") {
            return self.create_table(temporary);
        }
        let kind = if self.accept("UNIQUE") { IndexKind::Unique } else { IndexKind::Plain };
        if self.accept("INDEX") {
            return self.create_index(kind);
        }
        if kind == IndexKind::Unique {
            return self.fail();
        }
        for what in [
            "TRIGGER",
            "PROCEDURE",
            "FUNCTION",
            "EVENT",
            "USER",
            "ROLE",
            "SERVER",
            "TABLESPACE",
            "FULLTEXT",
            "SPATIAL",
        ] {
            if self.at(what) {
                return Err(SqlError::unsupported(
                    "CREATE of triggers, routines, events and users",
                ));
            }
        }
        self.fail()
    }

    pub(super) fn if_not_exists(&mut self) -> Result<bool> {
        if self.accept("IF") {
            self.expect("NOT")?;
            self.expect("EXISTS")?;
            return Ok(true);
        }
        Ok(false)
    }
    pub(super) fn if_exists(&mut self) -> Result<bool> {
        if self.accept("IF") {
            self.expect("EXISTS")?;
            return Ok(true);
        }
        Ok(false)
    }

    /// [DEFAULT] CHARACTER SET = x, COLLATE = y, ENCRYPTION = 'n' in any order.
    pub(super) fn database_options(&mut self) -> Result<(Option<String>, Option<String>)> {
        let (mut charset, mut collation) = (None, None);
        while !self.at_end() {
            self.accept("DEFAULT");
            if self.charset_keyword() {
                self.accept_symbol("=");
                say_charset(&mut charset, &collation, self.charset_name()?)?;
            } else if self.accept("COLLATE") {
                self.accept_symbol("=");
                say_collation(&charset, &mut collation, self.collation_name()?)?;
            } else if self.accept("ENCRYPTION") {
                self.accept_symbol("=");
                if self.kind() != TokenKind::String {
                    return self.fail();
                }
                self.no_encryption(|value| SqlError::wrong_yes_or_no(value))?;
            } else {
                return self.fail();
            }
        }
        Ok((charset, collation))
    }

    /// The value of ENCRYPTION, which can only be 'N'. `wrong` is the error of other values than
    /// 'N' and 'Y'.
    fn no_encryption(&mut self, wrong: impl FnOnce(&str) -> SqlError) -> Result<()> {
        let value = self.word_or_string()?;
        match value.as_str() {
            "N" | "n" => Ok(()),
            "Y" | "y" => Err(SqlError::no_master_key()),
            value => Err(wrong(value)),
        }
    }

    pub(super) fn charset_keyword(&mut self) -> bool {
        self.accept("CHARSET")
            || self.accept_all(&["CHARACTER", "SET"])
            || self.accept_all(&["CHAR", "SET"])
    }

    fn create_table(&mut self, temporary: bool) -> Result<Statement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        if self.accept("LIKE") {
            return Ok(Statement::CreateTableLike {
                like: self.table_name()?,
                name,
                temporary,
                if_not_exists,
            });
        }
        if self.at_symbol("(") && self.at_nth(1, "LIKE") {
            self.advance();
            self.advance();
            let like = self.table_name()?;
            self.expect_symbol(")")?;
            return Ok(Statement::CreateTableLike { like, name, temporary, if_not_exists });
        }
        let mut table = CreateTable {
            name,
            temporary,
            if_not_exists,
            columns: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            options: TableOptions::default(),
            select: None,
            on_taken: OnTaken::Error,
        };
        if self.at_symbol("(") && !self.at_query(1) {
            self.in_parens(|p| {
                p.comma_list(|p| p.table_element(&mut table))?;
                Ok(())
            })?;
        }
        table.options = self.table_options()?;
        if self.at("PARTITION") {
            return Err(SqlError::unsupported("PARTITION BY"));
        }
        if self.accept("IGNORE") {
            table.on_taken = OnTaken::Ignore;
        } else if self.accept("REPLACE") {
            table.on_taken = OnTaken::Replace;
        }
        let select_follows = self.accept("AS") || table.on_taken != OnTaken::Error;
        if select_follows || self.at_query(0) || self.at_symbol("(") {
            table.select = Some(Box::new(self.select_statement()?));
        } else if table.columns.is_empty() && table.indexes.is_empty() {
            return if self.at_end() { Err(SqlError::no_columns()) } else { self.fail() };
        }
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn table_element(&mut self, table: &mut CreateTable) -> Result<()> {
        match self.index_element()? {
            Some(TableElement::Index(index)) => {
                self.charge(size_of::<IndexSpec>());
                if table.indexes.len() > MAX_INDEXES {
                    return Err(SqlError::too_many_keys(MAX_INDEXES));
                }
                table.indexes.push(index);
                return Ok(());
            }
            Some(TableElement::Check(check)) => {
                table.checks.push(check);
                return Ok(());
            }
            None => {}
        }
        self.charge(size_of::<ColumnDef>());
        if table.columns.len() >= MAX_COLUMNS {
            return Err(SqlError::too_many_columns());
        }
        let mut column = self.column_def()?;
        table.checks.append(&mut column.checks);
        table.columns.push(column);
        Ok(())
    }

    /// An index or constraint in CREATE TABLE or ALTER TABLE ADD. None: a column begins here.
    pub(super) fn index_element(&mut self) -> Result<Option<TableElement>> {
        let mut symbol = None;
        if self.accept("CONSTRAINT")
            && !["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|k| self.at(k))
        {
            symbol = Some(self.ident()?);
        }
        let kind = if self.accept("PRIMARY") {
            self.expect("KEY")?;
            IndexKind::Primary
        } else if self.accept("UNIQUE") {
            if !self.accept("KEY") {
                self.accept("INDEX");
            }
            IndexKind::Unique
        } else if self.at("KEY") || self.at("INDEX") {
            self.advance();
            IndexKind::Plain
        } else if self.at("FOREIGN") {
            return Err(SqlError::unsupported("FOREIGN KEY"));
        } else if self.accept("CHECK") {
            return self.check_rest(symbol, None).map(|check| Some(TableElement::Check(check)));
        } else if self.at("FULLTEXT") || self.at("SPATIAL") {
            return Err(SqlError::unsupported("FULLTEXT and SPATIAL indexes"));
        } else if symbol.is_some() {
            return self.fail();
        } else {
            return Ok(None);
        };
        let name = if kind != IndexKind::Primary && self.is_ident(self.peek()) && !self.at("USING")
        {
            Some(self.ident()?)
        } else {
            None
        };
        self.using_clause()?;
        Ok(Some(TableElement::Index(self.index_rest(kind, name.or(symbol))?)))
    }

    /// After CHECK: `(condition) [[NOT] ENFORCED]`.
    fn check_rest(&mut self, name: Option<String>, column: Option<&str>) -> Result<CheckSpec> {
        self.charge(size_of::<CheckSpec>());
        let condition = self.in_parens(|p| p.expr())?;
        let enforced = !self.accept_all(&["NOT", "ENFORCED"]);
        if enforced {
            self.accept("ENFORCED");
        }
        Ok(CheckSpec { name, condition, enforced, column: column.map(str::to_string) })
    }

    fn using_clause(&mut self) -> Result<()> {
        if self.accept("USING") && self.accept_any(&["BTREE", "HASH"]).is_none() {
            return self.fail();
        }
        Ok(())
    }

    /// The columns and options of an index.
    fn index_rest(&mut self, kind: IndexKind, name: Option<String>) -> Result<IndexSpec> {
        let too_many = || SqlError::too_many_key_parts(MAX_KEY_PARTS);
        let parts =
            self.in_parens(|p| p.comma_list_of(MAX_KEY_PARTS, too_many, Self::index_part))?;
        let mut comment = None;
        loop {
            if self.at("USING") {
                self.using_clause()?;
            } else if self.accept("COMMENT") {
                comment = Some(self.string_literal()?);
            } else if self.accept("KEY_BLOCK_SIZE") {
                self.accept_symbol("=");
                self.unsigned()?;
            } else if self.accept("VISIBLE") {
            } else if self.at("INVISIBLE") {
                return Err(SqlError::unsupported("invisible indexes"));
            } else {
                return Ok(IndexSpec { kind, name, parts, comment });
            }
        }
    }

    fn index_part(&mut self) -> Result<IndexPart> {
        if self.at_symbol("(") {
            return Err(SqlError::unsupported("functional indexes"));
        }
        let column = self.ident()?;
        let prefix =
            if self.at_symbol("(") { Some(self.in_parens(|p| p.unsigned_u32())?) } else { None };
        let descending = self.accept("DESC");
        if !descending {
            self.accept("ASC");
        }
        Ok(IndexPart { column, prefix, descending })
    }

    /// After CREATE [UNIQUE] INDEX.
    fn create_index(&mut self, kind: IndexKind) -> Result<Statement> {
        let name = self.ident()?;
        self.using_clause()?;
        self.expect("ON")?;
        let table = self.table_name()?;
        let index = self.index_rest(kind, Some(name))?;
        self.algorithm_and_lock()?;
        Ok(Statement::Alter { table, actions: vec![Alter::AddIndex(index)] })
    }

    /// ALGORITHM = x, LOCK = y: accepted without effect, since the server chooses both.
    pub(super) fn algorithm_and_lock(&mut self) -> Result<()> {
        while self.at("ALGORITHM") || self.at("LOCK") {
            self.advance();
            self.accept_symbol("=");
            if self.accept("DEFAULT") {
                continue;
            }
            self.word_or_string()?;
        }
        Ok(())
    }

    pub(super) fn column_def(&mut self) -> Result<ColumnDef> {
        let name = self.ident()?;
        let (ty, serial) = self.data_type(&name)?;
        let mut column = ColumnDef {
            name,
            ty,
            nullable: serial.then_some(false),
            default: None,
            default_is_expression: false,
            on_update: None,
            auto_increment: serial,
            invisible: false,
            comment: None,
            primary: false,
            unique: serial,
            checks: Vec::new(),
            generation: self.generation()?,
            unsupported: None,
        };
        while self.column_attribute(&mut column)? {}
        Ok(column)
    }

    /// What makes a column a generated one, which stands directly behind the type.
    fn generation(&mut self) -> Result<Option<GenerationSpec>> {
        if self.accept("GENERATED") {
            self.expect("ALWAYS")?;
            self.expect("AS")?;
        } else if !self.accept("AS") {
            return Ok(None);
        }
        let expression = self.in_parens(|p| p.expr())?;
        let stored = self.accept("STORED");
        if !stored {
            self.accept("VIRTUAL");
        }
        Ok(Some(GenerationSpec { expression, stored }))
    }

    fn column_attribute(&mut self, column: &mut ColumnDef) -> Result<bool> {
        if self.accept_all(&["NOT", "NULL"]) {
            column.nullable = Some(false);
        } else if self.accept("NULL") {
            column.nullable = Some(true);
        } else if self.accept("DEFAULT") {
            column.default_is_expression = self.at_symbol("(");
            column.default = Some(self.default_expr()?);
        } else if self.accept_all(&["ON", "UPDATE"]) {
            column.on_update = Some(self.default_expr()?);
        } else if self.accept("AUTO_INCREMENT") {
            column.auto_increment = true;
        } else if self.accept("UNIQUE") {
            self.accept("KEY");
            column.unique = true;
        } else if self.accept("PRIMARY") {
            self.expect("KEY")?;
            column.primary = true;
        } else if self.accept("KEY") {
            column.primary = true;
        } else if self.accept("COMMENT") {
            column.comment = Some(self.string_literal()?);
        } else if self.accept("COLLATE") {
            column.ty.collation = Some(self.collation_name()?);
        } else if self.accept("INVISIBLE") {
            column.invisible = true;
        } else if self.accept("VISIBLE") {
        } else if self.accept("COLUMN_FORMAT") || self.accept("STORAGE") {
            if !self.accept("DEFAULT") {
                self.ident()?;
            }
        } else if self.at("REFERENCES") {
            return Err(SqlError::unsupported("FOREIGN KEY"));
        } else if self.accept("CHECK") {
            let check = self.check_rest(None, Some(&column.name))?;
            column.checks.push(check);
        } else if self.accept("CONSTRAINT") {
            let name = if self.at("CHECK") { None } else { Some(self.ident()?) };
            self.expect("CHECK")?;
            let check = self.check_rest(name, Some(&column.name))?;
            column.checks.push(check);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A literal, NOW(), or an expression in parentheses. It is not a full expression, because more
    /// of the column follows (`DEFAULT 1 NOT NULL`).
    pub(super) fn default_expr(&mut self) -> Result<Expr> {
        if self.at_symbol("(") {
            return self.in_parens(|p| p.expr());
        }
        self.needle()
    }

    /// The type of a column. The second value says whether the text was SERIAL.
    pub(super) fn data_type(&mut self, column: &str) -> Result<(DataType, bool)> {
        let token = self.peek();
        if token.kind != TokenKind::Word {
            return self.fail();
        }
        let word = String::from_utf8_lossy(token.text(self.text)).to_ascii_uppercase();
        self.advance();
        let mut ty = DataType {
            name: "",
            args: Vec::new(),
            unsigned: false,
            zerofill: false,
            charset: None,
            collation: None,
            members: Vec::new(),
        };
        ty.name = match word.as_str() {
            "TINYINT" | "INT1" => "TINYINT",
            "SMALLINT" | "INT2" => "SMALLINT",
            "MEDIUMINT" | "INT3" | "MIDDLEINT" => "MEDIUMINT",
            "INT" | "INTEGER" | "INT4" => "INT",
            "BIGINT" | "INT8" => "BIGINT",
            "SERIAL" => {
                ty.unsigned = true;
                ty.name = "BIGINT";
                return Ok((ty, true));
            }
            "BOOL" | "BOOLEAN" => {
                ty.args = vec![1];
                "TINYINT"
            }
            "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => "DECIMAL",
            "FLOAT" | "FLOAT4" => "FLOAT",
            "DOUBLE" => {
                self.accept("PRECISION");
                "DOUBLE"
            }
            "REAL" => self.real(token),
            "FLOAT8" => "DOUBLE",
            "BIT" => "BIT",
            "CHAR" | "CHARACTER" => {
                if self.accept("VARYING") {
                    "VARCHAR"
                } else {
                    "CHAR"
                }
            }
            "NCHAR" => {
                ty.charset = Some("utf8mb3".into());
                if self.accept("VARCHAR") || self.accept("VARYING") { "VARCHAR" } else { "CHAR" }
            }
            "NATIONAL" => {
                ty.charset = Some("utf8mb3".into());
                if self.accept("VARCHAR") {
                    "VARCHAR"
                } else {
                    if !self.accept("CHAR") {
                        self.expect("CHARACTER")?;
                    }
                    if self.accept("VARYING") { "VARCHAR" } else { "CHAR" }
                }
            }
            "VARCHAR" | "VARCHARACTER" => "VARCHAR",
            "NVARCHAR" => {
                ty.charset = Some("utf8mb3".into());
                "VARCHAR"
            }
            "BINARY" => "BINARY",
            "VARBINARY" => "VARBINARY",
            "TINYTEXT" => "TINYTEXT",
            "TEXT" => "TEXT",
            "MEDIUMTEXT" => "MEDIUMTEXT",
            "LONGTEXT" => "LONGTEXT",
            "LONG" => {
                if self.accept("VARBINARY") {
                    "MEDIUMBLOB"
                } else {
                    self.accept("VARCHAR");
                    "MEDIUMTEXT"
                }
            }
            "TINYBLOB" => "TINYBLOB",
            "BLOB" => "BLOB",
            "MEDIUMBLOB" => "MEDIUMBLOB",
            "LONGBLOB" => "LONGBLOB",
            "DATE" => "DATE",
            "TIME" => "TIME",
            "DATETIME" => "DATETIME",
            "TIMESTAMP" => "TIMESTAMP",
            "YEAR" => "YEAR",
            "ENUM" => "ENUM",
            "SET" => "SET",
            "JSON" => "JSON",
            "GEOMETRY" | "POINT" | "LINESTRING" | "POLYGON" | "MULTIPOINT" | "MULTILINESTRING"
            | "MULTIPOLYGON" | "GEOMETRYCOLLECTION" => {
                return Err(SqlError::unsupported(format!("{word} columns")));
            }
            _ => return Err(self.error_at(token)),
        };
        if matches!(ty.name, "ENUM" | "SET") {
            let most = if ty.name == "SET" { MAX_SET_MEMBERS } else { MAX_ENUM_MEMBERS };
            let too_many = || SqlError::too_many_members(column, ty.name);
            ty.members =
                self.in_parens(|p| p.comma_list_of(most, too_many, |p| p.string_literal()))?;
        } else if !LENGTHLESS.contains(&ty.name) && self.at_symbol("(") {
            ty.args = self.in_parens(|p| p.comma_list(|p| p.unsigned_u32()))?;
        }
        self.type_attributes(&mut ty)?;
        Ok((ty, false))
    }

    fn type_attributes(&mut self, ty: &mut DataType) -> Result<()> {
        loop {
            if self.accept("UNSIGNED") {
                ty.unsigned = true;
            } else if self.accept("ZEROFILL") {
                ty.zerofill = true;
                ty.unsigned = true;
            } else if self.accept("SIGNED") {
            } else if self.charset_keyword() {
                ty.charset = Some(self.charset_name()?);
            } else if self.at("COLLATE") {
                self.advance();
                ty.collation = Some(self.collation_name()?);
            } else if self.accept("ASCII") {
                ty.charset = Some("latin1".into());
            } else if self.accept("BYTE") {
                ty.charset = Some("binary".into());
            } else if self.accept("UNICODE") {
                return Err(SqlError::unknown_character_set("ucs2"));
            } else if self.at("BINARY") {
                // BINARY stands for the _bin collation of the character set.
                self.advance();
                ty.collation = Some(String::new());
            } else {
                return Ok(());
            }
        }
    }

    /// Table options, with or without commas and `=`.
    fn table_options(&mut self) -> Result<TableOptions> {
        let mut options = TableOptions::default();
        loop {
            self.accept_symbol(",");
            if !self.table_option(&mut options)? {
                return Ok(options);
            }
        }
    }
    /// The table options of ALTER TABLE up to a comma, after which another action may follow.
    pub(super) fn options_of_one_action(&mut self) -> Result<TableOptions> {
        let mut options = TableOptions::default();
        while self.table_option(&mut options)? {}
        Ok(options)
    }

    /// The value of an option about statistics.
    fn statistics_option(&mut self, name: &str) -> Result<StatisticsOption> {
        let token = self.peek();
        let value = if self.accept("DEFAULT") { None } else { Some(self.unsigned()?) };
        let switch = |value| match value {
            None => Ok(None),
            Some(value @ (0 | 1)) => Ok(Some(value == 1)),
            Some(_) => Err(self.error_at(token)),
        };
        Ok(match (name, value) {
            ("STATS_PERSISTENT", value) => StatisticsOption::Persistent(switch(value)?),
            ("STATS_AUTO_RECALC", value) => StatisticsOption::AutoRecalc(switch(value)?),
            (_, None) => StatisticsOption::SamplePages(None),
            (_, Some(pages)) => {
                let pages = u16::try_from(pages).ok().and_then(NonZeroU16::new);
                StatisticsOption::SamplePages(Some(pages.ok_or_else(|| self.error_at(token))?))
            }
        })
    }

    fn table_option(&mut self, options: &mut TableOptions) -> Result<bool> {
        const IGNORED: &[&str] = &[
            "AVG_ROW_LENGTH",
            "CHECKSUM",
            "TABLE_CHECKSUM",
            "CONNECTION",
            "DELAY_KEY_WRITE",
            "INSERT_METHOD",
            "MAX_ROWS",
            "MIN_ROWS",
            "PACK_KEYS",
            "PASSWORD",
            "SECONDARY_ENGINE",
            "ENGINE_ATTRIBUTE",
            "AUTOEXTEND_SIZE",
        ];
        const STATISTICS: &[&str] =
            &["STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES"];
        let default = self.at("DEFAULT");
        if default {
            self.advance();
        }
        if self.charset_keyword() {
            self.accept_symbol("=");
            let name = if self.accept("DEFAULT") { String::new() } else { self.charset_name()? };
            say_charset(&mut options.charset, &options.collation, name)?;
        } else if self.accept("COLLATE") {
            self.accept_symbol("=");
            say_collation(&options.charset, &mut options.collation, self.collation_name()?)?;
        } else if default {
            return self.fail();
        } else if self.accept("ENGINE") || self.accept("TYPE") {
            self.accept_symbol("=");
            options.engine = Some(self.word_or_string()?);
        } else if self.accept("AUTO_INCREMENT") {
            self.accept_symbol("=");
            options.auto_increment = Some(self.unsigned()?);
        } else if self.accept("COMMENT") {
            self.accept_symbol("=");
            options.comment = Some(self.string_literal()?);
        } else if self.accept("ENCRYPTION") {
            self.accept_symbol("=");
            self.no_encryption(|_| SqlError::invalid_encryption())?;
        } else if self.accept("COMPRESSION") {
            self.accept_symbol("=");
            let value = self.word_or_string()?;
            if !value.is_empty() && !value.eq_ignore_ascii_case("NONE") {
                options.ignored.push(format!("InnoDB: ignoring COMPRESSION={value}."));
            }
        } else if self.accept("KEY_BLOCK_SIZE") {
            self.accept_symbol("=");
            let value = self.unsigned()?;
            if value != 0 {
                options.ignored.push(format!("InnoDB: ignoring KEY_BLOCK_SIZE={value}."));
            }
        } else if self.accept("ROW_FORMAT") {
            self.accept_symbol("=");
            if self.word_or_string()?.eq_ignore_ascii_case("COMPRESSED") {
                options.ignored.push("InnoDB: assuming ROW_FORMAT=DYNAMIC.".into());
            }
        } else if let Some(name) = self.accept_any(STATISTICS) {
            self.accept_symbol("=");
            options.statistics.push(self.statistics_option(name)?);
        } else if self.accept_any(IGNORED).is_some() {
            self.accept_symbol("=");
            if self.accept("DEFAULT") {
                return Ok(true);
            }
            if self.kind() == TokenKind::Integer {
                self.unsigned()?;
            } else {
                self.word_or_string()?;
            }
        } else if self.at("DATA") || self.at("INDEX") || self.at("TABLESPACE") || self.at("UNION") {
            return Err(SqlError::unsupported(
                "DATA DIRECTORY, TABLESPACE and UNION table options",
            ));
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// The character set that the options so far say, by its name or by a collation's. The empty name
/// stands for DEFAULT, which says none.
fn said_charset(charset: &Option<String>, collation: &Option<String>) -> Option<Charset> {
    let of_collation = |name: &str| Collation::from_name(name).map(Collation::charset);
    let named = charset.as_deref().and_then(Charset::from_name);
    named.or_else(|| collation.as_deref().and_then(of_collation))
}
/// Notes the character set of one more option. One that contradicts the options before is error
/// 1302.
pub(super) fn say_charset(
    charset: &mut Option<String>,
    collation: &Option<String>,
    name: String,
) -> Result<()> {
    let said = said_charset(charset, collation);
    if let Some((one, other)) = said.zip(Charset::from_name(&name))
        && one != other
    {
        return Err(SqlError::conflicting_charsets(one.name(), other.name()));
    }
    *charset = Some(name);
    Ok(())
}
/// Notes the collation of one more option. One of another character set than the options before say
/// is error 1253.
pub(super) fn say_collation(
    charset: &Option<String>,
    collation: &mut Option<String>,
    name: String,
) -> Result<()> {
    let said = said_charset(charset, collation);
    if let Some((said, other)) = said.zip(Collation::from_name(&name))
        && said != other.charset()
    {
        return Err(SqlError::collation_charset_mismatch(&name, said.name()));
    }
    *collation = Some(name);
    Ok(())
}

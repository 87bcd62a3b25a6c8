//! Binds the definition of a column: its type (with MySQL's defaults for lengths and digits), its
//! default and its attributes.
use super::Binder;
use super::column::default_allowed;
use super::ddl::collation_option;
use super::expr::{Env, check_decimal};
use super::scope::{Clause, Scope};
use crate::error::{Result, SqlError};
use crate::parse::ast::{self, DataType};
use crate::parse::lexer::{Lexer, TokenKind};
use crate::plan::{ExprKind, Function};
use crate::sql_mode::SqlMode;
use redolith_types::sql_type::Sign;
use redolith_types::store::{StoreMode, convert_for_column};
use redolith_types::{
    Charset, Collation, Column, DefaultValue, Generation, IntSize, LobSize, SqlType, Value,
};
use std::collections::HashSet;

pub(super) struct ColumnContext {
    /// The table's collation: the default of its columns.
    pub table: Collation,
}

impl Binder<'_> {
    pub(super) fn column_def(
        &mut self,
        def: &ast::ColumnDef,
        context: &ColumnContext,
    ) -> Result<Column> {
        if let Some(what) = def.unsupported {
            return Err(SqlError::unsupported(what));
        }
        let mut column =
            Column::new(def.name.clone(), self.column_type(&def.ty, &def.name, context)?);
        column.nullable = def.nullable.unwrap_or(true) && !def.primary;
        column.invisible = def.invisible;
        if let Some(number) = def.comment {
            column.comment = self.literal_text(number)?;
        }
        if let Some(spec) = &def.generation {
            let given = [
                (def.default.is_some(), "DEFAULT"),
                (def.on_update.is_some(), "ON UPDATE"),
                (def.auto_increment, "AUTO_INCREMENT"),
            ];
            if let Some((_, what)) = given.iter().find(|(is_given, _)| *is_given) {
                return Err(SqlError::wrong_usage(what, "generated column"));
            }
            // The text of the expression is made when all columns are known (GENCOL-1).
            let (expression, stored) = (String::new(), spec.stored);
            column.generation = Some(Generation { expression, stored });
        }
        if def.auto_increment {
            let counts = matches!(
                column.ty,
                SqlType::Int { .. } | SqlType::Float { .. } | SqlType::Double { .. }
            );
            if !counts || def.default.is_some() {
                return Err(if counts {
                    SqlError::invalid_default(&def.name)
                } else {
                    SqlError::wrong_column_specifier(&def.name)
                });
            }
            column.auto_increment = true;
            column.nullable = false;
        }
        if let Some(default) = &def.default {
            column.default = self.default_value(&column, default, def.default_is_expression)?;
        }
        if let Some(on_update) = &def.on_update {
            let fsp = self.now_precision(on_update)?.filter(|fsp| *fsp == column.ty.fsp());
            if fsp.is_none()
                || !matches!(column.ty, SqlType::Timestamp { .. } | SqlType::DateTime { .. })
            {
                return Err(SqlError::invalid_on_update(&def.name));
            }
            column.on_update_now = true;
        }
        Ok(column)
    }

    /// The type of the column `name`.
    pub(super) fn column_type(
        &mut self,
        ty: &DataType,
        name: &str,
        context: &ColumnContext,
    ) -> Result<SqlType> {
        let first = ty.args.first().copied();
        let sign = Sign { unsigned: ty.unsigned, zerofill: ty.zerofill };
        let fsp = || match first.unwrap_or(0) {
            n @ 0..=6 => Ok(n as u8),
            n => Err(SqlError::too_big_precision(n, name, 6)),
        };
        let collation = column_collation(self.cx, ty, context.table)?;
        let size = |size| SqlType::Int { size, sign, display: first.map(|n| n.min(255) as u8) };
        if ty.args.len() > 2
            || (ty.args.len() == 2 && !matches!(ty.name, "DECIMAL" | "FLOAT" | "DOUBLE"))
        {
            return Err(SqlError::syntax(ty.name, 1));
        }
        Ok(match ty.name {
            "TINYINT" => size(IntSize::Tiny),
            "SMALLINT" => size(IntSize::Small),
            "MEDIUMINT" => size(IntSize::Medium),
            "INT" => size(IntSize::Int),
            "BIGINT" => size(IntSize::Big),
            "DECIMAL" => {
                let (precision, scale) =
                    (first.filter(|p| *p > 0).unwrap_or(10), ty.args.get(1).copied().unwrap_or(0));
                check_decimal(precision, scale.min(255) as u8, name)?;
                SqlType::Decimal { precision: precision as u8, scale: scale as u8, sign }
            }
            "FLOAT" | "DOUBLE" => float_type(ty, name, sign)?,
            "BIT" => match first.unwrap_or(1) {
                bits @ 1..=64 => SqlType::Bit { bits: bits as u8 },
                0 => return Err(SqlError::new(3013, format!("Invalid size for column '{name}'."))),
                _ => return Err(SqlError::too_big_display_width(name, 64)),
            },
            "CHAR" => {
                let chars = at_most(first.unwrap_or(1), 255, name)?;
                if collation == Collation::Binary {
                    SqlType::Binary { len: chars }
                } else {
                    SqlType::Char { chars, collation }
                }
            }
            "VARCHAR" => {
                let Some(chars) = first else { return Err(SqlError::syntax("VARCHAR", 1)) };
                let chars = at_most(chars, 65_535 / collation.charset().max_len(), name)?;
                if collation == Collation::Binary {
                    SqlType::VarBinary { len: chars }
                } else {
                    SqlType::VarChar { chars, collation }
                }
            }
            "BINARY" => SqlType::Binary { len: at_most(first.unwrap_or(1), 255, name)? },
            "VARBINARY" => {
                let Some(len) = first else { return Err(SqlError::syntax("VARBINARY", 1)) };
                SqlType::VarBinary { len: at_most(len, 65_535, name)? }
            }
            "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" => {
                let size = lob_size(
                    ty.name,
                    first.map(|n| u64::from(n) * u64::from(collation.charset().max_len())),
                );
                if collation == Collation::Binary {
                    SqlType::Blob { size }
                } else {
                    SqlType::Text { size, collation }
                }
            }
            "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" => {
                SqlType::Blob { size: lob_size(ty.name, first.map(u64::from)) }
            }
            "DATE" => SqlType::Date,
            "TIME" => SqlType::Time { fsp: fsp()? },
            "DATETIME" => SqlType::DateTime { fsp: fsp()? },
            "TIMESTAMP" => SqlType::Timestamp { fsp: fsp()? },
            "YEAR" if first.is_some_and(|n| n != 4) => return Err(SqlError::year_length()),
            "YEAR" => SqlType::Year,
            "JSON" if ty.charset.is_none() && ty.collation.is_none() => SqlType::Json,
            "JSON" => return Err(SqlError::syntax("JSON", 1)),
            "ENUM" => SqlType::Enum { names: self.members(ty, name, collation)?, collation },
            "SET" => SqlType::Set { names: self.members(ty, name, collation)?, collation },
            other => return Err(SqlError::unsupported(format!("{other} columns"))),
        })
    }

    fn members(
        &mut self,
        ty: &DataType,
        column: &str,
        collation: Collation,
    ) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::with_capacity(ty.members.len());
        for &number in &ty.members {
            self.charge(1)?;
            let name = self
                .connection_text(number, collation.charset())?
                .trim_end_matches(' ')
                .to_string();
            // The value of a SET is its names with commas between.
            if ty.name == "SET" && name.contains(',') {
                return Err(SqlError::illegal_value("set", name));
            }
            names.push(name);
        }
        if self.cx.mode.strict()
            && let Some(name) = duplicates(&names, collation).first()
        {
            return Err(SqlError::duplicate_member(column, name, ty.name));
        }
        Ok(names)
    }

    /// The number of decimals of CURRENT_TIMESTAMP[(n)] or a synonym. None for other expressions.
    fn now_precision(&mut self, expr: &ast::Expr) -> Result<Option<u8>> {
        let ast::ExprKind::Call(_) = expr.kind else { return Ok(None) };
        let bound = self.expr(&Env::new(&Scope::default(), Clause::None), expr)?;
        Ok(match bound.kind {
            ExprKind::Call { function: Function::Now, .. } => Some(bound.ty.decimals),
            _ => None,
        })
    }

    pub(super) fn default_value(
        &mut self,
        column: &Column,
        default: &ast::Expr,
        is_expression: bool,
    ) -> Result<Option<DefaultValue>> {
        let invalid = || SqlError::invalid_default(&column.name);
        if is_expression {
            // The expression is bound only to check it. The definition keeps its text.
            let bound = self.expr(&Env::new(&Scope::default(), Clause::None), default)?;
            default_allowed(&column.name, &bound)?;
            if bound.any(&|e| {
                matches!(
                    e.kind,
                    ExprKind::UserVariable { .. }
                        | ExprKind::AssignUserVariable(..)
                        | ExprKind::SystemVariable { .. }
                )
            }) {
                return Err(SqlError::default_names_variable(&column.name));
            }
            return Ok(Some(DefaultValue::Expr(self.default_text(default)?)));
        }
        if let Some(fsp) = self.now_precision(default)? {
            let fits = matches!(column.ty, SqlType::Timestamp { .. } | SqlType::DateTime { .. })
                && fsp == column.ty.fsp();
            return if fits {
                Ok(Some(DefaultValue::CurrentTimestamp(fsp)))
            } else {
                Err(invalid())
            };
        }
        if matches!(default.kind, ast::ExprKind::Call(_)) {
            return Err(invalid());
        }
        let bound = self.expr(&Env::new(&Scope::default(), Clause::None), default)?;
        let hex = self.is_hex(default);
        let Some(value) = bound.as_literal() else { return Err(invalid()) };
        if value.is_null() {
            return if column.nullable { Ok(Some(DefaultValue::Null)) } else { Err(invalid()) };
        }
        if column.ty.is_lob() {
            return Err(SqlError::blob_default(&column.name));
        }
        let value =
            if hex && column.ty.is_numeric() { number_of_bytes(value) } else { value.clone() };
        // As in MySQL, a zero date is refused without strict mode, too.
        let mode = StoreMode {
            no_zero_date: self.cx.mode.has(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: self.cx.mode.has(SqlMode::NO_ZERO_IN_DATE),
            ..StoreMode::STRICT
        };
        let from =
            if bound.ty.kind.is_string() { bound.ty.collation.charset() } else { Charset::Utf8mb4 };
        let stored = convert_for_column(value, &column.ty, from, mode).map_err(|_| invalid())?;
        let mut text = Vec::new();
        match stored.value {
            // A FLOAT shows fewer digits than it has.
            Value::Float(float) => Value::Double(float.into()).write_text(None, &mut text),
            value => column.ty.write_text(&value, &mut text),
        }
        if let Some(collation) = column.ty.collation() {
            text = collation
                .charset()
                .convert(&text, Charset::Utf8mb4)
                .map_err(|_| invalid())?
                .into_owned();
        }
        Ok(Some(DefaultValue::Literal(text)))
    }
}

/// The notes about a column's duplicate names, which are an error in strict mode.
pub(super) fn notes_of(column: &Column) -> Vec<SqlError> {
    let (names, collation, ty) = match &column.ty {
        SqlType::Enum { names, collation } => (names, *collation, "ENUM"),
        SqlType::Set { names, collation } => (names, *collation, "SET"),
        _ => return Vec::new(),
    };
    let note = |name: &str| SqlError::duplicate_member(&column.name, name, ty);
    duplicates(names, collation).into_iter().map(note).collect()
}

/// The names to which a later one is equal.
fn duplicates(names: &[String], collation: Collation) -> Vec<&str> {
    let mut later = HashSet::with_capacity(names.len());
    let is_duplicate = |name: &&String| {
        let name = Charset::Utf8mb4.convert_lossy(name.as_bytes(), collation.charset());
        let mut weights = Vec::with_capacity(name.len());
        collation.append_weights(&name, &mut weights);
        !later.insert(weights)
    };
    let mut found: Vec<&str> =
        names.iter().rev().filter(is_duplicate).map(String::as_str).collect();
    found.reverse();
    found
}

impl Binder<'_> {
    /// The text of DEFAULT (expression), which is read in the mode without flags, whatever the mode
    /// of the session is. A text that means something else in another mode is written anew, so that
    /// SHOW CREATE TABLE can be restored there.
    fn default_text(&mut self, default: &ast::Expr) -> Result<String> {
        let changes = self.cx.mode.changes_syntax();
        if changes || self.depends_on_mode(default.span) {
            match self.text_for_all_modes(default) {
                // JSON_VALUE has no such text, and the client's text is right in this mode.
                Err(e) if !changes && e.code == 1235 => {}
                text => return text,
            }
        }
        self.parsed.portable_source(default.span)
    }
    /// Whether a part of a statement in the mode without flags may be something else in another.
    fn depends_on_mode(&self, span: ast::Span) -> bool {
        let text = &self.parsed.text[..span.end as usize];
        let mut lexer = Lexer::at(text, span.start as usize, self.parsed.mode);
        loop {
            let token = lexer.next_token();
            let bytes = token.text(text);
            let depends = match token.kind {
                TokenKind::End => return false,
                TokenKind::Symbol => bytes == b"||",
                TokenKind::Word => {
                    [&b"NOT"[..], b"REAL"].iter().any(|word| bytes.eq_ignore_ascii_case(word))
                }
                kind => kind.is_string() && bytes.starts_with(b"\""),
            };
            if depends {
                return true;
            }
        }
    }
}

fn number_of_bytes(value: &Value<'_>) -> Value<'static> {
    let bytes = value.as_bytes().unwrap_or_default();
    Value::UInt(bytes.iter().fold(0, |n: u64, b| n << 8 | u64::from(*b)))
}

fn column_collation(
    cx: &super::BindContext<'_>,
    ty: &DataType,
    table: Collation,
) -> Result<Collation> {
    // BINARY after a type means the _bin collation of its character set.
    if ty.collation.as_deref() == Some("") {
        let charset = collation_option(cx, ty.charset.as_deref(), None, Some(table))?;
        return Ok(charset.unwrap_or(table).bin());
    }
    Ok(collation_option(cx, ty.charset.as_deref(), ty.collation.as_deref(), Some(table))?
        .unwrap_or(table))
}

fn at_most(length: u32, max: u32, column: &str) -> Result<u32> {
    if length > max { Err(SqlError::column_too_long(column, max)) } else { Ok(length) }
}

/// FLOAT(p) is FLOAT up to 24 bits and DOUBLE up to 53 bits. (M,D) count decimal digits.
fn float_type(ty: &DataType, column: &str, sign: Sign) -> Result<SqlType> {
    let digits = match ty.args[..] {
        [m, d] => {
            check_decimal(m.max(d), d.min(255) as u8, column)?;
            if m < d {
                return Err(SqlError::scale_over_precision(column));
            }
            Some((m.min(255) as u8, d as u8))
        }
        [bits] if ty.name == "FLOAT" && bits <= 53 => {
            return Ok(if bits <= 24 {
                SqlType::Float { digits: None, sign }
            } else {
                SqlType::Double { digits: None, sign }
            });
        }
        [_] => return Err(SqlError::wrong_column_specifier(column)),
        _ => None,
    };
    Ok(if ty.name == "FLOAT" {
        SqlType::Float { digits, sign }
    } else {
        SqlType::Double { digits, sign }
    })
}

/// TEXT(n) is the smallest TEXT that holds n characters.
fn lob_size(name: &str, bytes: Option<u64>) -> LobSize {
    match name {
        "TINYTEXT" | "TINYBLOB" => LobSize::Tiny,
        "MEDIUMTEXT" | "MEDIUMBLOB" => LobSize::Medium,
        "LONGTEXT" | "LONGBLOB" => LobSize::Long,
        _ => match bytes {
            None => LobSize::Normal,
            Some(n) => [LobSize::Tiny, LobSize::Normal, LobSize::Medium]
                .into_iter()
                .find(|s| n <= s.max_bytes())
                .unwrap_or(LobSize::Long),
        },
    }
}

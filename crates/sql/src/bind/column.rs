//! The defaults of columns.
use super::expr::Env;
use super::result_columns;
use super::scope::{Clause, Scope};
use super::{BindContext, Binder};
use crate::error::{Result, SqlError};
use crate::parse::ast;
use crate::parse::charsets::TextCharsets;
use crate::plan::{DefaultFill, Expr, ExprKind, ExprType, Function};
use crate::sql_mode::SqlMode;
use crate::table_info::TableInfo;
use redolith_types::store::{StoreMode, convert_for_column};
use redolith_types::{Charset, Collation, Column, DefaultValue, SqlType, Value};

impl Binder<'_> {
    pub(super) fn default_fill(&mut self, table: &TableInfo, column: usize) -> Result<DefaultFill> {
        let def = &table.def.columns[column];
        if def.auto_increment {
            return Ok(DefaultFill::AutoIncrement);
        }
        if def.generation.is_some() {
            return Ok(DefaultFill::Generated);
        }
        Ok(match &def.default {
            None if def.nullable => DefaultFill::Literal(Value::Null),
            // An ENUM without a DEFAULT takes its first name, without a warning.
            None if matches!(def.ty, SqlType::Enum { .. }) => DefaultFill::Literal(Value::UInt(1)),
            None => DefaultFill::Missing,
            Some(DefaultValue::Null) => DefaultFill::Literal(Value::Null),
            Some(DefaultValue::Literal(text)) => match literal_default(def, text) {
                Some(value) => DefaultFill::Literal(value),
                None => DefaultFill::Expr(Box::new(text_literal(text))),
            },
            Some(DefaultValue::CurrentTimestamp(fsp)) => DefaultFill::Expr(Box::new(now(*fsp))),
            Some(DefaultValue::Expr(text)) => {
                DefaultFill::Expr(Box::new(self.default_expression(def, text)?))
            }
        })
    }

    /// Binds DEFAULT(column), or DEFAULT as an assigned value.
    pub(super) fn column_default(&mut self, table: &TableInfo, column: usize) -> Result<Expr> {
        let def = &table.def.columns[column];
        Ok(match self.default_fill(table, column)? {
            // The implicit first name of an ENUM is not a default.
            DefaultFill::Literal(_) if def.default.is_none() && !def.nullable => {
                return Err(SqlError::no_default(&def.name));
            }
            DefaultFill::Literal(value) => {
                let named = matches!(def.ty, SqlType::Enum { .. } | SqlType::Set { .. });
                let value = if named { def.ty.present(value).into_owned() } else { value };
                Expr::literal(value, result_columns::column_type(def))
            }
            DefaultFill::Expr(expr) => *expr,
            DefaultFill::AutoIncrement => Expr::literal(Value::Int(0), ExprType::bigint(1)),
            DefaultFill::Generated
            | DefaultFill::Missing
            | DefaultFill::MissingBelowView(_)
            | DefaultFill::Zero => {
                return Err(SqlError::no_default(&def.name));
            }
        })
    }

    /// Binds the text of DEFAULT (expression), in which no column may be named.
    fn default_expression(&mut self, column: &Column, text: &str) -> Result<Expr> {
        let statement = format!("DO {text}");
        let parsed = self.parse_kept(statement.as_bytes(), SqlMode(0), TextCharsets::UTF8)?;
        let ast::Statement::Do(list) = &parsed.statement else {
            return Err(SqlError::unsupported("this DEFAULT expression"));
        };
        let cx = BindContext { collation: Collation::Utf8mb4GeneralCi, ..*self.cx };
        let mut inner = Binder::new(&parsed, &cx, false);
        inner.memory = self.memory;
        let bound = inner.expr(&Env::new(&Scope::default(), Clause::None), &list[0]);
        self.memory = inner.memory;
        let bound = bound?;
        default_allowed(&column.name, &bound)?;
        Ok(bound)
    }
}

/// Refuses a subquery in DEFAULT (expression): the expression is evaluated for a row, and no
/// subquery is run before.
pub(super) fn default_allowed(column: &str, bound: &Expr) -> Result<()> {
    if bound.any(&|e| matches!(e.kind, ExprKind::Subquery(_))) {
        Err(SqlError::default_not_allowed(column))
    } else {
        Ok(())
    }
}

pub(super) fn now(fsp: u8) -> Expr {
    let args = if fsp > 0 {
        vec![Expr::literal(Value::Int(fsp.into()), ExprType::bigint(1))]
    } else {
        Vec::new()
    };
    Expr::new(ExprKind::Call { function: Function::Now, args }, ExprType::datetime(fsp))
}

fn text_literal(text: &[u8]) -> Expr {
    Expr::literal(
        Value::owned(text.to_vec()),
        ExprType::string(text.len() as u32, redolith_types::Collation::Utf8mb4GeneralCi),
    )
}

/// The literal as the column stores it. None if the stored value depends on the session.
fn literal_default(column: &Column, text: &[u8]) -> Option<Value<'static>> {
    if matches!(column.ty, SqlType::Timestamp { .. }) {
        return None;
    }
    let binary = column.ty.is_string() && column.ty.collation().is_none();
    let from = if binary { Charset::Binary } else { Charset::Utf8mb4 };
    let stored = convert_for_column(Value::bytes(text), &column.ty, from, StoreMode::LENIENT);
    stored.ok().map(|s| s.value.into_owned())
}

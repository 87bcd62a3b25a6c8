//! JSON_VALUE, and the SQL value of a scalar for a given type.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, ExprType, Function, Kind};
use redolith_types::convert::to_datetime;
use redolith_types::json::{self, JsonRef, View};
use redolith_types::sql_type::{IntSize, Sign};
use redolith_types::store::StoreMode;
use redolith_types::{Charset, SqlType, Value, convert_for_column};

/// How to answer: the letters of the function's third argument.
const ERROR: u8 = b'e';
const DEFAULT: u8 = b'd';

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn json_value_at(&mut self, args: &'v [Expr], ty: &ExprType) -> Result<Value<'v>> {
        let modes = match args[2].as_literal() {
            Some(Value::Bytes(modes)) if modes.len() == 2 => [modes[0], modes[1]],
            _ => return Err(SqlError::internal("JSON_VALUE without its modes")),
        };
        let Some(path) = self.json_path(&args[1])? else { return Ok(Value::Null) };
        let document = match self.document(Function::JsonValue, args, 0) {
            Ok(Some(document)) => document,
            Ok(None) => return Ok(Value::Null),
            Err(error) if error.code == 3141 => {
                return self.json_instead(modes[1], error, &args[5], ty);
            }
            Err(error) => return Err(error),
        };
        let found = self.metered(|meter| json::seek(JsonRef::new(&document)?, &path, meter))?;
        match found[..] {
            [] => {
                let missing = SqlError::json_value_missing("json_value");
                self.json_instead(modes[0], missing, &args[4], ty)
            }
            [value] => {
                let is_text = ty.kind.is_string() && ty.kind != Kind::Json;
                let typed = if is_text && value.container()?.is_some() {
                    // CHAR holds the text of an array or an object, too.
                    let text = self.printed("json_value", |out, meter| {
                        json::print_metered(value, out, meter)
                    })?;
                    self.typed(text, Charset::Utf8mb4, ty, "json_value")
                } else {
                    self.json_as(value, ty, "json_value")
                };
                match typed {
                    Ok(value) => Ok(value),
                    Err(error) => self.json_instead(modes[1], error, &args[5], ty),
                }
            }
            _ => {
                let many = SqlError::json_values_many("json_value");
                self.json_instead(modes[1], many, &args[5], ty)
            }
        }
    }

    /// What stands for a value that is missing or wrong.
    fn json_instead(
        &mut self,
        mode: u8,
        error: SqlError,
        default: &'v Expr,
        ty: &ExprType,
    ) -> Result<Value<'v>> {
        match mode {
            ERROR => Err(error),
            DEFAULT => {
                let value = self.eval(default)?;
                let from = self.charset_of(default);
                self.typed(value, from, ty, "json_value")
            }
            _ => Ok(Value::Null),
        }
    }

    /// A JSON value as a value of the type. `column` is the name for errors.
    pub(in crate::exec) fn json_as(
        &mut self,
        value: JsonRef<'_>,
        ty: &ExprType,
        column: &str,
    ) -> Result<Value<'v>> {
        if ty.kind == Kind::Json {
            return Ok(value.into());
        }
        let view = value.view()?;
        if matches!(view, View::Null) {
            return Ok(Value::Null);
        }
        let mut text = Vec::new();
        if ty.kind.is_string() {
            if !json::print_unquoted(&view, &mut text) {
                return Err(SqlError::json_table_not_scalar(column));
            }
            return self.typed(Value::owned(text), Charset::Utf8mb4, ty, column);
        }
        match json::binary::scalar(&view) {
            Some(scalar) => self.typed(scalar.into_owned(), Charset::Utf8mb4, ty, column),
            None => Err(SqlError::json_table_not_scalar(column)),
        }
    }

    /// A value converted to a type as for a column of it in strict mode.
    fn typed(
        &mut self,
        value: Value<'v>,
        from: Charset,
        ty: &ExprType,
        column: &str,
    ) -> Result<Value<'v>> {
        if value.is_null() {
            return Ok(value);
        }
        let today = self.env.today();
        let value = match (&value, ty.kind) {
            (Value::Bytes(_), Kind::Date | Kind::DateTime) => {
                match to_datetime(&value, today, self.env.settings.zone_offset_secs) {
                    Some(at) if !at.truncated => Value::DateTime(at.value),
                    _ => value,
                }
            }
            _ => value,
        };
        let mode = StoreMode { today, ..StoreMode::STRICT };
        match convert_for_column(value, &sql_type(ty), from, mode) {
            Ok(stored) => Ok(stored.value),
            Err(error) => {
                Err(SqlError::new(error.code(), format!("{error} for column '{column}' at row 1")))
            }
        }
    }
}

/// The column type of a type that CAST gives.
fn sql_type(ty: &ExprType) -> SqlType {
    let sign = Sign { unsigned: ty.unsigned, zerofill: false };
    match ty.kind {
        Kind::Decimal => {
            let (int, scale) = ty.digits();
            let precision = (int + u32::from(scale)).clamp(1, 65) as u8;
            SqlType::Decimal { precision, scale, sign }
        }
        Kind::Double => SqlType::Double { digits: None, sign },
        Kind::Float => SqlType::Float { digits: None, sign },
        Kind::Year => SqlType::Year,
        Kind::Date => SqlType::Date,
        Kind::Time => SqlType::Time { fsp: ty.decimals.min(6) },
        Kind::DateTime | Kind::Timestamp => SqlType::DateTime { fsp: ty.decimals.min(6) },
        Kind::Json => SqlType::Json,
        kind if kind.is_string() && ty.is_binary() => SqlType::VarBinary { len: ty.length },
        kind if kind.is_string() => SqlType::VarChar { chars: ty.length, collation: ty.collation },
        _ => SqlType::Int { size: IntSize::Big, sign, display: None },
    }
}

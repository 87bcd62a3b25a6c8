//! JSON_ARRAY and JSON_OBJECT.
use super::{Document, Eval, KEPT, utf8};
use crate::error::{Result, SqlError};
use crate::plan::Expr;
use redolith_types::json::{Json, JsonRef, Object};
use redolith_types::{Charset, Value};
use std::borrow::Cow;

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn json_array(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let values =
            args.iter().map(|e| self.json_value(e)).collect::<Result<Vec<Document<'v>>>>()?;
        let elements = values.iter().map(|value| Ok(Json::Raw(JsonRef::new(value)?)));
        let array = Json::Array(elements.collect::<Result<_>>()?);
        self.made_json(&array)
    }

    pub(super) fn json_object(&mut self, args: &'v [Expr]) -> Result<Value<'v>> {
        let mut names = Vec::with_capacity(args.len() / 2);
        let mut values = Vec::with_capacity(args.len() / 2);
        for pair in args.chunks_exact(2) {
            names.push(self.json_name(&pair[0])?);
            values.push(self.json_value(&pair[1])?);
        }
        let mut members = Vec::with_capacity(names.len());
        for (name, value) in names.into_iter().zip(&values) {
            members.push((Cow::Owned(name), Json::Raw(JsonRef::new(value)?)));
        }
        self.made_json(&Json::Object(Object::new(members)))
    }

    /// The name of a member: the text of any value but NULL.
    pub(in crate::exec) fn json_name(&mut self, e: &'v Expr) -> Result<String> {
        let Some(name) = self.arg_text(e, Charset::Utf8mb4)? else {
            return Err(SqlError::json_null_key());
        };
        if name.len() >= KEPT {
            self.env.bytes(name.len())?;
            self.env.charge(name.len())?;
        }
        Ok(utf8(&name)?.to_string())
    }
}

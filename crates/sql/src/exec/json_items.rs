//! The values of JSON_ARRAYAGG and the members of JSON_OBJECTAGG, one after another in one buffer.
use super::eval::Eval;
use crate::error::Result;
use crate::plan::Expr;
use redolith_types::Value;
use redolith_types::json::{Json, JsonRef, Object};
use std::borrow::Cow;

#[derive(Default)]
pub struct JsonItems {
    /// For each row: the member's name, if there are names, and the document.
    bytes: Vec<u8>,
    /// For each row: the ends of the name and of the document.
    ends: Vec<(usize, usize)>,
}

impl JsonItems {
    /// The bytes that the items take, and the tree and the document that [`Self::finish`] makes of
    /// them.
    pub fn memory(&self) -> usize {
        let tree = self.ends.len() * size_of::<(Cow<'_, str>, Json<'_>)>();
        let ends = self.ends.capacity() * size_of::<(usize, usize)>();
        self.bytes.capacity() + ends + tree + self.bytes.len()
    }

    /// Adds a row: its value, or its name and its value.
    pub fn add<'v>(&mut self, args: &'v [Expr], eval: &mut Eval<'v, '_, '_>) -> Result<()> {
        if let [name, _] = args {
            let name = eval.json_name(name)?;
            self.bytes.extend_from_slice(name.as_bytes());
        }
        let name_end = self.bytes.len();
        if let Some(value) = args.last() {
            let document = eval.json_value(value)?;
            self.bytes.extend_from_slice(&document);
        }
        self.ends.push((name_end, self.bytes.len()));
        Ok(())
    }

    /// The array or the object of all rows; NULL of no rows.
    pub fn finish(&self, object: bool) -> Result<Value<'static>> {
        if self.ends.is_empty() {
            return Ok(Value::Null);
        }
        let mut items = Vec::with_capacity(self.ends.len());
        let mut start = 0;
        for (name_end, end) in &self.ends {
            let name = String::from_utf8_lossy(&self.bytes[start..*name_end]);
            items.push((name, Json::Raw(JsonRef::new(&self.bytes[*name_end..*end])?)));
            start = *end;
        }
        let json = if object {
            Json::Object(Object::new(items))
        } else {
            Json::Array(items.into_iter().map(|(_, value)| value).collect())
        };
        Ok(Value::Json(Cow::Owned(json.to_binary()?)))
    }
}

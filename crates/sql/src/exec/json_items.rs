//! The values of JSON_ARRAYAGG and the members of JSON_OBJECTAGG, one after another in one buffer.
use super::Env;
use super::eval::Eval;
use super::stepped_sort::sort_in_steps;
use crate::error::Result;
use crate::plan::Expr;
use redolith_types::Value;
use redolith_types::json::{self, Json, JsonRef, Object};
use std::borrow::Cow;

#[derive(Default)]
pub struct JsonItems {
    /// For each row: the member's name, if there are names, and the document.
    bytes: Vec<u8>,
    rows: Vec<Place>,
}
/// The place of a row: the name, and the document behind it.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    name_end: usize,
    end: usize,
}

impl JsonItems {
    /// The bytes that the items take, and the tree and the document that [`Self::finish`] makes of
    /// them.
    pub fn memory(&self) -> usize {
        let tree = self.rows.len() * size_of::<(Cow<'_, str>, Json<'_>)>();
        let rows = self.rows.capacity() * size_of::<Place>();
        self.bytes.capacity() + rows + tree + self.bytes.len()
    }

    /// Adds a row: its value, or its name and its value.
    pub fn add<'v>(&mut self, args: &'v [Expr], eval: &mut Eval<'v, '_, '_>) -> Result<()> {
        let start = self.bytes.len();
        if let [name, _] = args {
            let name = eval.json_name(name)?;
            self.bytes.extend_from_slice(name.as_bytes());
        }
        let name_end = self.bytes.len();
        if let Some(value) = args.last() {
            let document = eval.json_value(value)?;
            self.bytes.extend_from_slice(&document);
        }
        self.rows.push(Place { start, name_end, end: self.bytes.len() });
        Ok(())
    }

    /// The array or the object of all rows; NULL of no rows. KILL ends the work, and a long
    /// document is made beside the workers.
    pub fn finish(&mut self, object: bool, env: &mut Env<'_>) -> Result<Value<'static>> {
        let JsonItems { bytes, rows } = self;
        if rows.is_empty() {
            return Ok(Value::Null);
        }
        env.bytes(bytes.len())?;
        let name = |row: &Place| &bytes[row.start..row.name_end];
        let json = if object {
            // An object sorts its members; that is quick if they are sorted already.
            sort_in_steps(rows, name, json::key_order, env)?;
            let mut members = Vec::with_capacity(rows.len());
            for row in rows.iter() {
                env.step()?;
                let document = JsonRef::new(&bytes[row.name_end..row.end])?;
                members.push((String::from_utf8_lossy(name(row)), Json::Raw(document)));
            }
            Json::Object(Object::new(members))
        } else {
            let mut values = Vec::with_capacity(rows.len());
            for row in rows.iter() {
                env.step()?;
                values.push(Json::Raw(JsonRef::new(&bytes[row.name_end..row.end])?));
            }
            Json::Array(values)
        };
        let mark = env.held();
        let size = json::size(&json)?;
        env.bytes(size)?;
        env.charge(size)?;
        let document = json.to_binary()?;
        env.release_to(mark);
        Ok(Value::Json(Cow::Owned(document)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::env::{NoVariables, StatementSettings};
    use crate::exec::fixture::Server;
    use crate::processes::Kill;

    /// Rows of the names 0 to `names` - 1, again and again, with the numbers of the rows as values.
    fn rows(n: usize, names: usize) -> JsonItems {
        let mut items = JsonItems::default();
        for i in 0..n {
            let start = items.bytes.len();
            items.bytes.extend_from_slice((i % names).to_string().as_bytes());
            let name_end = items.bytes.len();
            items.bytes.extend_from_slice(&Json::Int(i as i64).to_binary().unwrap());
            items.rows.push(Place { start, name_end, end: items.bytes.len() });
        }
        items
    }

    #[test]
    fn documents_are_made_step_by_step() {
        let server = Server::new();
        let mut session = server.session();
        let process = session.state.process.clone();
        let (disk, settings) = (server.engine.disk.clone(), StatementSettings::default());
        let mut env = Env::new(&mut session.state, &NoVariables, &*disk, settings);
        let made = rows(2999, 1000).finish(true, &mut env).unwrap();
        // Of members with one name the last one counts.
        let members = (0..1000).map(|n| (Cow::Owned(n.to_string()), last(n))).collect();
        let wanted = Json::Object(Object::new(members)).to_binary().unwrap();
        assert_eq!(made, Value::Json(Cow::Owned(wanted)));
        assert_eq!(env.held(), 0);
        process.kill(Kill::Query);
        for object in [false, true] {
            assert_eq!(rows(5000, 5000).finish(object, &mut env).unwrap_err().code, 1317);
        }
    }
    fn last(n: i64) -> Json<'static> {
        Json::Int(if n < 999 { 2000 + n } else { 1000 + n })
    }
}

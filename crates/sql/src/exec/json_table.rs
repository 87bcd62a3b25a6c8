//! The rows of a JSON_TABLE (JTAB-2), made one after another.
//!
//! **JTAB-4** What the rows need is the document, the places of the values that the paths have
//! found, and the row itself. All of it is charged to the statement. Each search and each row
//! counts its steps, so KILL and time limits reach a JSON_TABLE of any size.
use super::env::Env;
use super::eval::{Eval, Row, Scope, metered};
use super::json_column::json_for_column;
use super::rows::row_bytes;
use crate::error::{Result, SqlError};
use crate::plan::{JsonInstead, JsonTable, JsonTableColumn, JsonTableRows};
use redolith_types::json::{self, Json, JsonError, JsonRef, Place};
use redolith_types::store::StoreMode;
use redolith_types::{Column, SqlType, Value};
use smallvec::SmallVec;
use std::borrow::Cow;

pub struct JsonRows<'p> {
    table: &'p JsonTable,
    document: Vec<u8>,
    /// The paths whose values are being gone through, each NESTED in the one before.
    open: Vec<Level<'p>>,
    current: Vec<Value<'static>>,
    mode: StoreMode,
    counted: usize,
}

/// A path, and its values within a value of the path around it.
struct Level<'p> {
    rows: &'p JsonTableRows,
    found: Vec<Place>,
    /// The number, from 1, of the current value; 0 before the first.
    at: usize,
    /// The next of the NESTED paths that is to be searched for in the current value.
    next_nested: usize,
    /// The current value has given a row.
    has_row: bool,
}

impl<'p> JsonRows<'p> {
    /// Evaluates the document. NULL gives no rows.
    pub fn open(table: &'p JsonTable, at: Scope<'_>, env: &mut Env<'_>) -> Result<JsonRows<'p>> {
        let mark = env.held();
        let document = Eval::new(at, env).table_document(&table.document)?.map(Cow::into_owned);
        env.release_to(mark);
        let mode = StoreMode { strict: true, ..env.store_mode() };
        let current = vec![Value::Null; table.info.def.columns.len()];
        let mut rows =
            JsonRows { table, document: Vec::new(), open: Vec::new(), current, mode, counted: 0 };
        let Some(document) = document else { return Ok(rows) };
        // No bytes are null.
        rows.document = if document.is_empty() { JsonRef::NULL.to_vec() } else { document };
        rows.count(env)?;
        let whole = JsonRef::new(&rows.document)?;
        let found = search(whole, &table.rows, &rows.document, env)?;
        rows.open.push(Level::new(&table.rows, found));
        rows.count(env)?;
        Ok(rows)
    }

    /// Goes to the next row.
    pub fn advance(&mut self, env: &mut Env<'_>) -> Result<bool> {
        let mark = env.held();
        let found = self.step(env);
        env.release_to(mark);
        let found = found?;
        self.count(env)?;
        Ok(found)
    }
    pub fn row(&self) -> Row<'_> {
        Row::Decoded { def: &self.table.info.def, values: &self.current }
    }
    pub fn free(self, env: &mut Env<'_>) {
        env.keeps_no_more(self.counted);
    }

    fn memory(&self) -> usize {
        let places: usize = self.open.iter().map(|level| size_of_val(&level.found[..])).sum();
        self.document.len() + places + row_bytes(&self.current)
    }
    fn count(&mut self, env: &mut Env<'_>) -> Result<()> {
        let memory = self.memory();
        env.keep(&mut self.counted, memory)
    }

    fn step(&mut self, env: &mut Env<'_>) -> Result<bool> {
        loop {
            env.step()?;
            let Some(level) = self.open.last_mut() else { return Ok(false) };
            if level.at > 0 {
                let value = level.found[level.at - 1].value(&self.document)?;
                if let Some(nested) = level.rows.nested.get(level.next_nested) {
                    level.next_nested += 1;
                    let found = search(value, nested, &self.document, env)?;
                    if !found.is_empty() {
                        level.has_row = true;
                        self.open.push(Level::new(nested, found));
                    }
                    continue;
                }
                if !level.has_row {
                    level.has_row = true;
                    return Ok(true);
                }
            }
            let Some(place) = level.found.get(level.at) else {
                for (n, _) in &level.rows.columns {
                    self.current[*n as usize] = Value::Null;
                }
                self.open.pop();
                continue;
            };
            (level.at, level.next_nested, level.has_row) = (level.at + 1, 0, false);
            let value = place.value(&self.document)?;
            for (n, column) in &level.rows.columns {
                let def = &self.table.info.def.columns[*n as usize];
                let made = column_value(value, column, def, level.at, self.mode, env)?;
                self.current[*n as usize] = made;
            }
        }
    }
}

impl<'p> Level<'p> {
    fn new(rows: &'p JsonTableRows, found: Vec<Place>) -> Level<'p> {
        Level { rows, found, at: 0, next_nested: 0, has_row: false }
    }
}

/// The places of the values that a path finds.
fn search(
    value: JsonRef<'_>,
    rows: &JsonTableRows,
    document: &[u8],
    env: &mut Env<'_>,
) -> Result<Vec<Place>> {
    let found = metered(env, |meter| json::seek(value, &rows.path, meter))?;
    env.charge(size_of_val(&found[..]))?;
    let places = found.into_iter().map(|value| Place::of(value, document));
    Ok(places.collect::<json::Result<_>>()?)
}

/// The value of a column. `number` is that of the row among those of its path.
fn column_value(
    value: JsonRef<'_>,
    column: &JsonTableColumn,
    def: &Column,
    number: usize,
    mode: StoreMode,
    env: &mut Env<'_>,
) -> Result<Value<'static>> {
    let (path, on_empty, on_error) = match column {
        JsonTableColumn::Ordinality => return Ok(Value::UInt(number as u64)),
        JsonTableColumn::Exists(path) => {
            let mut exists = false;
            metered(env, |meter| {
                json::seek_where(value, path, meter, &mut |_| {
                    exists = true;
                    false
                })
            })?;
            let number = Json::Int(i64::from(exists)).to_binary()?;
            return json_for_column(JsonRef::new(&number)?, def, mode);
        }
        JsonTableColumn::Value { path, on_empty, on_error } => (path, on_empty, on_error),
    };
    let is_json = def.ty == SqlType::Json;
    let mut found = SmallVec::<[JsonRef<'_>; 2]>::new();
    if is_json && path.has_wildcard() {
        found = SmallVec::from_vec(metered(env, |meter| {
            let all = json::seek(value, path, meter)?;
            // The values are in the array, too.
            let more = all.len() * 2 * size_of::<Json<'_>>();
            if meter(all.len(), more) { Err(JsonError::Stopped) } else { Ok(all) }
        })?);
    } else {
        // Two values are as wrong as many.
        metered(env, |meter| {
            json::seek_where(value, path, meter, &mut |value| {
                found.push(value);
                found.len() < 2
            })
        })?;
    }
    let Some(first) = found.first().copied() else {
        let missing = || SqlError::json_table_value_missing(&def.name);
        return instead(on_empty, def, mode, missing);
    };
    if found.len() > 1 {
        if !is_json {
            return instead(on_error, def, mode, || SqlError::json_table_not_scalar(&def.name));
        }
        let array = Json::Array(found.into_iter().map(Json::Raw).collect());
        let size = json::size(&array)?;
        env.bytes(size)?;
        env.charge(size)?;
        return Ok(Value::Json(Cow::Owned(array.to_binary()?)));
    }
    // The value null of JSON is NULL, in a column of the type JSON, too.
    if first.is_null() {
        return Ok(Value::Null);
    }
    env.bytes(first.document_len())?;
    env.charge(first.document_len())?;
    match json_for_column(first, def, mode) {
        Ok(made) => Ok(made),
        Err(error) => instead(on_error, def, mode, || error),
    }
}

/// What stands for a value that is missing or wrong.
fn instead(
    instead: &JsonInstead,
    def: &Column,
    mode: StoreMode,
    error: impl FnOnce() -> SqlError,
) -> Result<Value<'static>> {
    match instead {
        JsonInstead::Null => Ok(Value::Null),
        JsonInstead::Error => Err(error()),
        JsonInstead::Default(document) => {
            // The binder has checked it without regard to NO_ZERO_DATE (JTAB-3).
            let mode = StoreMode { no_zero_date: false, no_zero_in_date: false, ..mode };
            json_for_column(JsonRef::new(document)?, def, mode)
        }
    }
}

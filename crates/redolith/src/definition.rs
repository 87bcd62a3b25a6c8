//! A table as a program defines it, as the dictionary stores it, and as a handle.
use crate::error::{Error, Result};
use crate::value::{Fields, Key, MAX_KEY_BYTES, MAX_VALUE_BYTES, Role, Shape, Value};
use redolith_engine::DEFAULT_COLLATION;
use redolith_engine::dict::table::Table as EngineTable;
use redolith_types::{Column, IndexDef, SqlType, TableDef, Value as SqlValue};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The SQL database that holds the tables.
pub(crate) const SCHEMA: &str = "redolith";
/// MySQL allows no longer names.
const MAX_NAME_CHARS: usize = 64;

/// A table's name and the types of its keys and values, to be written down as a constant:
///
/// ```
/// use redolith::TableDefinition;
/// const OWNERS: TableDefinition<u64, String> = TableDefinition::new("owners");
/// const CITIES: TableDefinition<(String, u32), (String, i64)> = TableDefinition::new("cities");
/// const BLOBS: TableDefinition<Vec<u8>, Vec<u8>> = TableDefinition::new("blobs");
/// ```
///
/// The table has a real SQL column for each element, named `k`, or `k1`, `k2` .. for a tuple, and
/// `v` likewise, so that the server reads it as table `redolith.owners`.
pub struct TableDefinition<K, V> {
    name: &'static str,
    types: PhantomData<fn() -> (K, V)>,
}
impl<K, V> Clone for TableDefinition<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for TableDefinition<K, V> {}
impl<K, V> fmt::Debug for TableDefinition<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableDefinition({})", self.name)
    }
}
impl<K: Key, V: Value> TableDefinition<K, V> {
    /// A table of this name, of 1 to 64 characters.
    pub const fn new(name: &'static str) -> TableDefinition<K, V> {
        TableDefinition { name, types: PhantomData }
    }
    /// The table's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn check_name(&self) -> Result<()> {
        let why = if self.name.is_empty() {
            "it is empty"
        } else if self.name.chars().count() > MAX_NAME_CHARS {
            "it has more than 64 characters"
        } else if self.name.ends_with(' ') || self.name.contains(|c: char| c.is_control()) {
            "it ends with a space or has a control character in it"
        } else {
            return Ok(());
        };
        Err(Error::TableName { name: self.name.into(), why })
    }
    /// The table that the dictionary would store.
    pub(crate) fn stored(&self) -> TableDef {
        let (key, value) = (key_columns::<K>(), value_columns::<V>());
        let indexes = vec![IndexDef::primary(0..key.len())];
        let columns = named("k", key).chain(named("v", value)).collect();
        TableDef {
            schema: SCHEMA.into(),
            name: self.name.into(),
            columns,
            indexes,
            collation: DEFAULT_COLLATION,
            comment: String::new(),
            checks: Vec::new(),
            statistics: Default::default(),
        }
    }
    /// Whether the stored table is the one defined. Names of columns do not matter, nor secondary
    /// indexes, which the engine maintains. A table with check constraints or generated columns,
    /// whose expressions only the server knows how to evaluate, is another one.
    pub(crate) fn check_stored(&self, stored: &TableDef) -> Result<()> {
        let wanted = self.stored();
        let same_key = stored
            .indexes
            .first()
            .is_some_and(|index| index.primary && index.columns == wanted.indexes[0].columns);
        let same_columns = stored.columns.len() == wanted.columns.len()
            && stored.columns.iter().zip(&wanted.columns).all(|(s, w)| is_column(s, w));
        let is_checked = stored.checks.iter().any(|check| check.enforced);
        if same_key && same_columns && !is_checked {
            return Ok(());
        }
        Err(Error::TableMismatch {
            table: self.name.into(),
            stored: described(stored),
            wanted: described(&wanted),
        })
    }
}

fn key_columns<K: Key>() -> Vec<Shape> {
    let mut columns = Vec::new();
    K::columns(Role::Key, &mut columns);
    let is_variable = |column: &Shape| matches!(column.ty, SqlType::VarBinary { .. });
    let sharing = columns.iter().filter(|column| is_variable(column)).count().max(1);
    for column in columns.iter_mut().filter(|column| is_variable(column)) {
        column.ty = SqlType::VarBinary { len: (MAX_KEY_BYTES / sharing) as u32 };
    }
    columns
}
fn value_columns<V: Value>() -> Vec<Shape> {
    let mut columns = Vec::new();
    V::columns(Role::Value, &mut columns);
    columns
}
fn named(letter: &'static str, columns: Vec<Shape>) -> impl Iterator<Item = Column> {
    let alone = columns.len() == 1;
    columns.into_iter().enumerate().map(move |(n, shape)| {
        let name = if alone { letter.to_string() } else { format!("{letter}{}", n + 1) };
        let mut column = Column::new(name, shape.ty);
        column.nullable = shape.nullable;
        column.comment = shape.comment.into();
        column
    })
}
/// A VARBINARY column that SQL made without a comment may hold text or bytes.
fn is_column(stored: &Column, wanted: &Column) -> bool {
    let other_kind =
        ["text", "bytes"].contains(&stored.comment.as_str()) && stored.comment != wanted.comment;
    stored.ty == wanted.ty
        && stored.nullable == wanted.nullable
        && stored.generation.is_none()
        && !other_kind
}
/// The columns in SQL's words.
fn described(table: &TableDef) -> String {
    let column = |c: &Column| {
        let null = if c.nullable { "" } else { " NOT NULL" };
        let comment =
            if c.comment.is_empty() { String::new() } else { format!(" COMMENT '{}'", c.comment) };
        let generation = c.generation.as_ref();
        let generation = generation.map_or(String::new(), |g| format!(" AS ({})", g.expression));
        format!("{} {}{generation}{null}{comment}", c.name, c.ty.text())
    };
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    for index in table.indexes.iter().filter(|index| index.primary) {
        let names: Vec<&str> =
            index.columns.iter().map(|c| table.columns[c.column].name.as_str()).collect();
        parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    let checks = table.checks.iter().filter(|check| check.enforced);
    parts.extend(checks.map(|check| format!("CHECK ({})", check.condition)));
    parts.join(", ")
}

/// A table of an open database: what the calls of a transaction are given. Clones are the same
/// table. It does not keep the database open.
pub struct Table<K, V> {
    pub(crate) table: Arc<EngineTable>,
    /// The number of the database that has opened it.
    pub(crate) database: u64,
    types: PhantomData<fn() -> (K, V)>,
}
impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Table { table: self.table.clone(), database: self.database, types: PhantomData }
    }
}
impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.name())
    }
}
impl<K, V> Table<K, V> {
    /// The table's name.
    pub fn name(&self) -> &str {
        &self.table.def.name
    }
}
impl<K: Key, V: Value> Table<K, V> {
    pub(crate) fn new(table: Arc<EngineTable>, database: u64) -> Table<K, V> {
        Table { table, database, types: PhantomData }
    }
    /// The key as bytes that sort as the keys do.
    pub(crate) fn key(&self, key: &K::Ref<'_>) -> Result<Vec<u8>> {
        let mut values = Vec::new();
        K::push(key, &mut values);
        self.check_key(&values)?;
        Ok(self.encoded(&values))
    }
    /// The end of a range. It may be longer than a key can be.
    pub(crate) fn bound(&self, key: &K::Ref<'_>) -> Vec<u8> {
        let mut values = Vec::new();
        K::push(key, &mut values);
        self.encoded(&values)
    }
    fn encoded(&self, values: &[SqlValue<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.table.clustered().key.encode_values(values, &mut bytes);
        bytes
    }
    /// The row as it is stored.
    pub(crate) fn row(&self, key: &K::Ref<'_>, value: &V::Ref<'_>) -> Result<Vec<u8>> {
        let mut values = Vec::new();
        K::push(key, &mut values);
        self.check_key(&values)?;
        let of_key = values.len();
        V::push(value, &mut values);
        self.check_value(&values[of_key..])?;
        let mut row = Vec::new();
        self.table.layout.encode(&values, &mut row);
        Ok(row)
    }
    fn check_key(&self, values: &[SqlValue<'_>]) -> Result<()> {
        for (column, value) in self.table.def.columns.iter().zip(values) {
            let (SqlType::VarBinary { len }, Some(bytes)) = (&column.ty, value.as_bytes()) else {
                continue;
            };
            let (bytes, max) = (bytes.len(), *len as usize);
            if bytes > max {
                return Err(Error::KeyTooLong { table: self.name().into(), bytes, max });
            }
        }
        Ok(())
    }
    fn check_value(&self, values: &[SqlValue<'_>]) -> Result<()> {
        let is_no_number = |v: &SqlValue<'_>| matches!(v, SqlValue::Double(n) if !n.is_finite());
        if values.iter().any(is_no_number) {
            return Err(Error::NotFinite { table: self.name().into() });
        }
        let bytes = values.iter().filter_map(|v| v.as_bytes()).map(<[u8]>::len).sum();
        if bytes > MAX_VALUE_BYTES {
            return Err(Error::ValueTooLong { table: self.name().into(), bytes });
        }
        Ok(())
    }
    /// The value of a stored row, which has its long columns inside.
    pub(crate) fn value_of(&self, payload: &[u8]) -> Result<V> {
        let column = self.table.clustered().columns;
        self.decoded(V::pull(&mut Fields { layout: &self.table.layout, payload, column }))
    }
    pub(crate) fn row_of(&self, payload: &[u8]) -> Result<(K, V)> {
        let mut fields = Fields { layout: &self.table.layout, payload, column: 0 };
        self.decoded(K::pull(&mut fields).zip(V::pull(&mut fields)))
    }
    fn decoded<T>(&self, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| {
            let wrong = "a row holds text that is not UTF-8";
            Error::Damaged(format!("table '{}': {wrong}", self.name()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_types::{CheckDef, Generation};

    #[test]
    fn a_table_with_check_constraints_is_another_one() {
        let wanted = TableDefinition::<u64, u64>::new("t");
        let mut stored = wanted.stored();
        let check =
            |enforced| CheckDef { name: "c".into(), condition: "(`v` > 0)".into(), enforced };
        stored.checks = vec![check(false)];
        assert!(wanted.check_stored(&stored).is_ok());
        stored.checks.push(check(true));
        let refused = wanted.check_stored(&stored).unwrap_err().to_string();
        assert!(refused.contains("CHECK ((`v` > 0))"), "{refused}");
    }

    #[test]
    fn a_table_with_a_generated_column_is_another_one() {
        let wanted = TableDefinition::<u64, u64>::new("t");
        let mut stored = wanted.stored();
        let expression = "(`k` + 1)".into();
        stored.columns[1].generation = Some(Generation { expression, stored: true });
        let refused = wanted.check_stored(&stored).unwrap_err().to_string();
        assert!(refused.contains("AS ((`k` + 1))"), "{refused}");
    }
}

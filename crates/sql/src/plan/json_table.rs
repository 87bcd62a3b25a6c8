//! JSON_TABLE: the rows that paths find in a document.
//!
//! **JTAB-2** Each value of a path gives a row for each row of the paths NESTED below it, and a row
//! with NULL in their columns if they find nothing. Paths that are NESTED side by side follow one
//! another: in the rows of one of them, the columns of the others are NULL.
//!
//! The rows are those of a table whose definition the binder makes, so ENUM, SET and TIMESTAMP are
//! in the form that rows of tables have.
use super::Expr;
use crate::table_info::TableInfo;
use redolith_types::json::{Leg, Path};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct JsonTable {
    pub document: Expr,
    /// The columns; the name is that by which the statement knows the JSON_TABLE.
    pub info: Arc<TableInfo>,
    pub rows: JsonTableRows,
}

/// A path, and the columns that its values fill.
#[derive(Clone, Debug)]
pub struct JsonTableRows {
    pub path: Path<'static>,
    /// The columns, with their positions in the table.
    pub columns: Vec<(u16, JsonTableColumn)>,
    pub nested: Vec<JsonTableRows>,
}

#[derive(Clone, Debug)]
pub enum JsonTableColumn {
    Ordinality,
    /// 1 if the path finds something, otherwise 0.
    Exists(Path<'static>),
    Value {
        path: Path<'static>,
        on_empty: JsonInstead,
        on_error: JsonInstead,
    },
}

/// What stands for a value that is missing or wrong.
#[derive(Clone, Debug)]
pub enum JsonInstead {
    Null,
    Error,
    /// A document, which the column can hold.
    Default(Box<[u8]>),
}

impl JsonTable {
    /// The bytes of the parts that are no expressions.
    pub fn memory(&self) -> usize {
        let columns = self.info.def.columns.iter();
        let names: usize = columns.map(|column| size_of_val(column) + column.name.len()).sum();
        size_of::<JsonTable>() + names + self.rows.memory()
    }
}
impl JsonTableRows {
    fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(|(_, column)| column.memory()).sum();
        let nested: usize = self.nested.iter().map(JsonTableRows::memory).sum();
        size_of::<JsonTableRows>() + path_memory(&self.path) + columns + nested
    }
}
impl JsonTableColumn {
    fn memory(&self) -> usize {
        let below = match self {
            JsonTableColumn::Ordinality => 0,
            JsonTableColumn::Exists(path) => path_memory(path),
            JsonTableColumn::Value { path, on_empty, on_error } => {
                path_memory(path) + on_empty.memory() + on_error.memory()
            }
        };
        size_of::<(u16, JsonTableColumn)>() + below
    }
}
impl JsonInstead {
    fn memory(&self) -> usize {
        match self {
            JsonInstead::Null | JsonInstead::Error => 0,
            JsonInstead::Default(document) => document.len(),
        }
    }
}

fn path_memory(path: &Path<'_>) -> usize {
    let names = path.legs.iter().map(|leg| match leg {
        Leg::Member(name) => name.len(),
        _ => 0,
    });
    size_of_val(&path.legs[..]) + names.sum::<usize>()
}

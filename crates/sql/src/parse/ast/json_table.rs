//! The syntax tree of JSON_TABLE.
use super::{DataType, Expr};

/// `JSON_TABLE(document, path COLUMNS (..))`
#[derive(Clone, Debug)]
pub struct JsonTable {
    pub document: Expr,
    pub rows: JsonTableRows,
}

/// A path, and the columns of the rows that its values give.
#[derive(Clone, Debug)]
pub struct JsonTableRows {
    /// A literal, as each path.
    pub path: Expr,
    pub parts: Vec<JsonTablePart>,
}

/// What stands in a list of COLUMNS.
#[derive(Clone, Debug)]
pub enum JsonTablePart {
    Column(JsonTableColumn),
    /// `NESTED [PATH] path COLUMNS (..)`
    Nested(JsonTableRows),
}

#[derive(Clone, Debug)]
pub struct JsonTableColumn {
    pub name: String,
    pub kind: JsonTableColumnKind,
}

#[derive(Clone, Debug)]
pub enum JsonTableColumnKind {
    /// FOR ORDINALITY
    Ordinality,
    /// type EXISTS PATH path
    Exists { ty: DataType, path: Expr },
    /// type PATH path [.. ON EMPTY] [.. ON ERROR]
    Value { ty: DataType, path: Expr, on_empty: JsonInstead, on_error: JsonInstead },
}

/// What stands for a value that is missing or wrong.
#[derive(Clone, Debug)]
pub enum JsonInstead {
    Null,
    Error,
    /// A literal, whose text is JSON.
    Default(Expr),
}

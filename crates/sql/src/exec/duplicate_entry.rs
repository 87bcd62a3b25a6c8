//! The error of a row whose key is taken.
use crate::error::SqlError;
use crate::table_info::TableInfo;
use redolith_types::{Charset, Value};

/// Error 1062, with the key's values as MySQL shows them.
#[cold]
pub fn duplicate_entry(table: &TableInfo, index_no: usize, payload: &[u8]) -> SqlError {
    let engine = table.engine();
    let index = &engine.indexes[index_no];
    let mut text = Vec::new();
    for part in &index.def.columns {
        if !text.is_empty() {
            text.push(b'-');
        }
        let column = &table.def.columns[part.column];
        if engine.layout.external(payload, part.column).is_some() {
            continue;
        }
        let value = column.ty.present(engine.layout.get(payload, part.column));
        let from = column.ty.compare_collation().charset();
        match &value {
            Value::Null => text.extend_from_slice(b"NULL"),
            Value::Bytes(b) => {
                let len = part.prefix.map_or(b.len(), |n| from.prefix_len(b, n as usize));
                text.extend_from_slice(&from.convert_lossy(&b[..len], Charset::Utf8mb4));
            }
            value => column.ty.write_text(value, &mut text),
        }
    }
    let name = if index.def.primary { "PRIMARY" } else { &index.def.name };
    SqlError::duplicate_entry(String::from_utf8_lossy(&text), format!("{}.{name}", table.def.name))
}

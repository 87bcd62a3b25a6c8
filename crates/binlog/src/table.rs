//! A table as its TABLE_MAP events describe it. The body of the event is made once, so that logging
//! a row of the table copies bytes.
use crate::column::Column;
use crate::column_set::ColumnSet;
use crate::event::table_map;
use redolith_types::TableDef;

/// Bytes of a [`TableId`] in an event.
pub(crate) const TABLE_ID_LEN: usize = 6;

/// The number by which row events name the table of a TABLE_MAP event before them. 48 bits count.
/// The number means nothing outside its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// `binlog_row_metadata`: how much a TABLE_MAP event tells of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RowMetadata {
    /// Signs and collations.
    #[default]
    Minimal,
    /// Names, members, keys and visibility, too.
    Full,
}

/// A part of a table's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The column's position.
    pub column: usize,
    /// The number of characters that are indexed. 0: all.
    pub prefix: u32,
}

/// A table, ready to log its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The number that row events have.
    pub id: TableId,
    /// The database.
    pub schema: Vec<u8>,
    /// The table's name.
    pub name: Vec<u8>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The primary key, or the first unique key without NULLs.
    pub key: Option<Vec<KeyPart>>,
    /// The body of the TABLE_MAP event behind the table id.
    pub(crate) map: Box<[u8]>,
}

impl Table {
    /// Describes a table.
    pub fn new(
        id: TableId,
        schema: &[u8],
        name: &[u8],
        columns: Vec<Column>,
        key: Option<Vec<KeyPart>>,
        metadata: RowMetadata,
    ) -> Table {
        let map = table_map::body_behind_id(schema, name, &columns, key.as_deref(), metadata);
        Table { id, schema: schema.to_vec(), name: name.to_vec(), columns, key, map: map.into() }
    }

    /// Describes a table of the server's dictionary.
    pub fn of(id: TableId, def: &TableDef, metadata: RowMetadata) -> Table {
        let key = def.shown_as_primary().map(|index| {
            let part = |c: &redolith_types::IndexColumn| KeyPart {
                column: c.column,
                prefix: c.prefix.unwrap_or(0),
            };
            def.indexes[index].columns.iter().map(part).collect()
        });
        let columns = def.columns.iter().map(Column::of).collect();
        Table::new(id, def.schema.as_bytes(), def.name.as_bytes(), columns, key, metadata)
    }

    /// Appends the body of the TABLE_MAP event.
    pub(crate) fn put_map(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes()[..TABLE_ID_LEN]);
        out.extend_from_slice(&self.map);
    }

    /// All columns but those of TEXT, BLOB and JSON types that are not in the key.
    pub(crate) fn without_blobs(&self) -> ColumnSet {
        let mut set = ColumnSet::none(self.columns.len());
        let key = self.key.as_deref().unwrap_or(&[]);
        for (i, column) in self.columns.iter().enumerate() {
            let is_blob =
                matches!(column.kind, crate::Kind::Blob { .. } | crate::Kind::Json { .. });
            if !is_blob || key.iter().any(|part| part.column == i) {
                set.insert(i);
            }
        }
        set
    }
}

//! The records in the dictionary's rows, and the dictionary's own table.
use super::histogram::Histogram;
use super::stored_statistics::StoredStatistics;
use super::table::{Index, Table};
use super::view::ViewDef;
use super::{DICT_INDEX, DICT_ROOT, DICT_TABLE, Dictionary, codec};
use crate::{Error, PageNo, Result, SpaceId, TrxId};
use parking_lot::RwLock;
use redolith_types::{
    Collation, Column, IndexColumn, IndexDef, RowLayout, SqlType, TableDef, Value,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

/// The record of a schema. The serde format is that of format 2 of the data directory; [`codec`]
/// writes today's format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchemaRecord {
    pub collation: Collation,
}

/// One tree of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreeRecord {
    pub id: u64,
    pub root: PageNo,
}
/// The record of a table: its definition and its place. The clustered tree is the first of the
/// trees, followed by a tree for each further index of the definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableRecord {
    pub id: u64,
    pub space: u32,
    pub trees: Vec<TreeRecord>,
    /// A lower bound of the next AUTO_INCREMENT value.
    pub auto_increment: u64,
    pub def: TableDef,
    /// Trees that belong to no index, because an index was being built or dropped when the record
    /// was written. A start frees them. Later records of the table name them too: the statement may
    /// have been given up in the middle.
    pub unfinished: Vec<TreeRecord>,
}

/// The dictionary's own table.
pub fn dictionary_table(dict: &Dictionary) -> Arc<Table> {
    let name = Column::new("name", SqlType::VarBinary { len: 800 }).not_null();
    let body = Column::new("body", SqlType::Blob { size: redolith_types::LobSize::Long });
    let mut def = TableDef {
        schema: "redolith".into(),
        name: "dictionary".into(),
        columns: vec![name, body],
        indexes: vec![IndexDef::primary([0])],
        collation: Collation::Binary,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    def.indexes[0].columns = vec![IndexColumn::new(0)];
    let record = TableRecord {
        id: DICT_TABLE,
        space: SpaceId::SYSTEM.0,
        trees: vec![TreeRecord { id: DICT_INDEX, root: DICT_ROOT }],
        auto_increment: 1,
        def,
        unfinished: Vec::new(),
    };
    make_table(dict, record, TrxId::NONE, |_| TrxId::NONE)
}
/// Makes the running form of a table. For `numbered` see `Table::numbered_since`; `since` tells the
/// transaction that made a tree.
pub fn make_table(
    dict: &Dictionary,
    r: TableRecord,
    numbered: TrxId,
    since: impl Fn(&TreeRecord) -> TrxId,
) -> Arc<Table> {
    let space = SpaceId(r.space);
    let hidden_key = !r.def.indexes.first().is_some_and(|i| i.primary);
    let hidden = hidden_key.then(|| IndexDef {
        name: String::new(),
        unique: true,
        primary: true,
        columns: Vec::new(),
    });
    let defs = hidden.iter().chain(&r.def.indexes);
    let indexes = defs
        .zip(&r.trees)
        .map(|(d, t)| Index::new(t.id, space, t.root, d, &r.def, since(t)))
        .collect::<Vec<_>>();
    assert_eq!(indexes.len(), r.def.indexes.len() + hidden_key as usize, "a tree for each index");
    Arc::new(Table {
        id: r.id,
        space,
        layout: RowLayout::new(&r.def.columns),
        indexes,
        hidden_key,
        metadata_lock: dict.metadata_lock(&format!("t/{}/{}", r.def.schema, r.def.name)),
        auto_increment: AtomicU64::new(r.auto_increment.max(1)),
        greatest_brought: AtomicU64::new(0),
        row_id: AtomicU64::new(1),
        counter_column: r.def.auto_increment_column(),
        counter_logged: AtomicU64::new(0),
        counter_end: AtomicU64::new(0),
        counter_moved: AtomicBool::new(false),
        rows: AtomicI64::new(0),
        changes: AtomicU64::new(0),
        statistics: RwLock::default(),
        statistics_settings: dict.statistics_settings.clone(),
        statistics_busy: AtomicBool::new(false),
        numbered_since: numbered,
        unfinished: r.unfinished,
        entries_later: AtomicBool::new(false),
        dropped: AtomicBool::new(false),
        counters_ready: AtomicBool::new(false),
        def: r.def,
    })
}
impl Table {
    /// The record that describes the table in its present state.
    pub(crate) fn record(&self) -> TableRecord {
        TableRecord {
            id: self.id,
            space: self.space.0,
            trees: self
                .indexes
                .iter()
                .map(|i| TreeRecord { id: i.id, root: i.tree.root })
                .collect(),
            auto_increment: self.auto_increment.load(std::sync::atomic::Ordering::Relaxed),
            def: self.def.clone(),
            unfinished: self.unfinished.clone(),
        }
    }
}

pub fn schema_name(schema: &str) -> Vec<u8> {
    [b"d", schema.as_bytes()].concat()
}
pub fn table_name(schema: &str, table: &str) -> Vec<u8> {
    [b"t", schema.as_bytes(), &[0], table.as_bytes()].concat()
}
/// The name of the row of a column's histogram.
pub fn histogram_name(table: u64, column: &str) -> Vec<u8> {
    [b"h", &table.to_be_bytes()[..], column.as_bytes()].concat()
}
/// The name of the row of the statistics of a table's indexes. No column has an empty name.
pub fn statistics_name(table: u64) -> Vec<u8> {
    histogram_name(table, "")
}
/// The table's or view's own name, of the name of its row.
pub fn object_name(name: &[u8]) -> String {
    let own = name.splitn(2, |byte| *byte == 0).nth(1).unwrap_or_default();
    String::from_utf8_lossy(own).into_owned()
}
/// The dictionary row with a name and a record's bytes.
fn row(dict: &Table, name: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    dict.layout
        .encode(&[Value::Bytes(Cow::Borrowed(name)), Value::Bytes(Cow::Borrowed(body))], &mut out);
    out
}
pub fn schema_row(dict: &Table, name: &[u8], r: &SchemaRecord) -> Vec<u8> {
    row(dict, name, &codec::encode_schema(r))
}
pub fn table_row(dict: &Table, name: &[u8], r: &TableRecord) -> Vec<u8> {
    row(dict, name, &codec::encode_table(r))
}
pub fn view_row(dict: &Table, name: &[u8], def: &ViewDef) -> Vec<u8> {
    row(dict, name, &codec::view::encode_view(def))
}
pub fn histogram_row(dict: &Table, name: &[u8], h: &Histogram) -> Vec<u8> {
    row(dict, name, &codec::histogram::encode_histogram(h))
}
pub fn statistics_row(dict: &Table, name: &[u8], s: &StoredStatistics) -> Vec<u8> {
    row(dict, name, &codec::statistics::encode_statistics(s))
}
/// What a row tells of a table's values.
#[derive(Debug)]
pub enum Values {
    /// The histogram of a column.
    Histogram(String, Box<Histogram>),
    Statistics(StoredStatistics),
}
pub enum Named {
    Schema(String, SchemaRecord),
    Table(Box<TableRecord>),
    View(Box<ViewDef>),
    /// What is known of the values of the table with this id, or why it cannot be read
    /// (HISTOGRAM-1, STATS-1).
    Values(u64, std::result::Result<Values, String>),
}
pub fn parse(dict: &Table, payload: &[u8]) -> Result<Named> {
    let (Value::Bytes(name), Value::Bytes(body)) =
        (dict.layout.get(payload, 0), dict.layout.get(payload, 1))
    else {
        return Err(Error::Incompatible("the dictionary has a row without a record".into()));
    };
    let wrong = |why: String| {
        let name = String::from_utf8_lossy(&name).replace('\0', ".");
        Error::Incompatible(format!(
            "the dictionary's record of {} cannot be read: {why}",
            name.get(1..).unwrap_or_default()
        ))
    };
    Ok(match name.first() {
        Some(b'd') => Named::Schema(
            String::from_utf8_lossy(&name[1..]).into_owned(),
            codec::decode_schema(&body).map_err(wrong)?,
        ),
        Some(b'h') => {
            let (table, column) = name[1..].split_first_chunk().unwrap_or((&[0; 8], &[]));
            let table = u64::from_be_bytes(*table);
            Named::Values(table, values(table, column, &body))
        }
        _ => match codec::view::decode_view(&body).map_err(wrong)? {
            Some(view) => Named::View(Box::new(view)),
            None => Named::Table(Box::new(codec::decode_table(&body).map_err(wrong)?)),
        },
    })
}
fn values(table: u64, column: &[u8], body: &[u8]) -> std::result::Result<Values, String> {
    if column.is_empty() {
        let read = codec::statistics::decode_statistics(body)?;
        return match read.table == table {
            true => Ok(Values::Statistics(read)),
            false => Err(format!("it is that of the table with id {}", read.table)),
        };
    }
    let column = std::str::from_utf8(column).map_err(|_| "the column's name is no text")?;
    let read = codec::histogram::decode_histogram(body)?;
    Ok(Values::Histogram(column.into(), Box::new(read)))
}

//! A table of three columns, its rows and its keys.
use redolith_engine::DEFAULT_COLLATION;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::Mode;
use redolith_engine::row::cursor::{OnConflict, Read};
use redolith_types::sql_type::Sign;
use redolith_types::{Collation, Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::borrow::Cow;

/// A read that locks rows exclusively, and waits for others' locks.
pub const LOCK: Read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };

fn int() -> SqlType {
    SqlType::Int { size: IntSize::Int, sign: Sign::SIGNED, display: None }
}
pub fn def(name: &str) -> TableDef {
    TableDef {
        schema: "test".into(),
        name: name.into(),
        columns: vec![
            Column::new("id", int()).not_null(),
            Column::new("k", int()).not_null(),
            Column::new(
                "c",
                SqlType::VarChar { chars: 200, collation: Collation::Latin1SwedishCi },
            )
            .not_null(),
        ],
        indexes: vec![IndexDef::primary([0]), IndexDef::secondary("k", false, [1])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    }
}
pub fn row(t: &Table, id: i64, k: i64, c: &str) -> Vec<u8> {
    let mut out = Vec::new();
    t.layout.encode(
        &[Value::Int(id), Value::Int(k), Value::Bytes(Cow::Borrowed(c.as_bytes()))],
        &mut out,
    );
    out
}
pub fn key(t: &Table, id: i64) -> Vec<u8> {
    let mut k = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut k);
    k
}

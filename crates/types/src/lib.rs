//! SQL types, values, collations, and the two encodings that the engine stores: row payloads and
//! memcomparable keys. The crate does no I/O, has no clock, and does not allocate when it reads a
//! row. Strings stay in their column's own character set; `sql` converts them.
#![forbid(unsafe_code)]
pub mod charset;
pub mod collation;
pub mod compare;
pub mod convert;
pub mod decimal;
mod general_ci;
pub mod json;
pub mod key;
pub mod number;
pub mod row;
pub mod schema;
pub mod sql_type;
pub mod store;
pub mod temporal;
mod uca;
pub mod value;

pub use charset::Charset;
pub use collation::Collation;
pub use decimal::Decimal;
pub use key::KeyLayout;
pub use row::{EXTERNAL_LEN, MAX_VARIABLE, RowLayout};
pub use schema::{
    CheckDef, Column, DefaultValue, Generation, IndexColumn, IndexDef, StatisticsOptions, TableDef,
};
pub use sql_type::{IntSize, LobSize, Sign, SqlType};
pub use store::{ConvertError, StoreMode, Stored, convert_for_column};
pub use temporal::{Date, DateTime, Time};
pub use value::Value;

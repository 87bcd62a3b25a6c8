#![forbid(unsafe_code)]
//! Statements to plans to rows. Text ► `parse` ► `bind` ► [`plan::Plan`] ► `exec` ► [`sink::ResultSink`]; [`session`] is the way in.
pub mod catalog;
pub mod error;
pub mod parse;
pub mod plan;
pub mod session;
pub mod sink;
pub mod sql_mode;

pub use catalog::{Catalog, TableInfo};
pub use error::SqlError;
pub use sink::{ColumnFlags, ColumnMeta, OkInfo, ResultSink, StatusFlags};

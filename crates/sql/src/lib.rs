//! From statements to plans to rows: text ► `parse` ► `bind` ► [`plan::Plan`] ► `exec` ►
//! [`sink::ResultSink`]. [`session`] is the entry point.
#![forbid(unsafe_code)]
pub mod bind;
pub mod binlog;
pub mod database;
pub mod error;
pub mod exec;
pub mod explain;
mod generated_key;
pub mod information_schema;
pub mod memory;
pub mod parse;
pub mod plan;
pub mod plan_cache;
pub mod processes;
mod server_files;
pub mod session;
pub mod session_state;
pub mod settings;
pub mod sink;
pub mod sql_mode;
pub mod status;
pub mod table_info;
mod temporary;
mod temporary_tables;
pub mod text_file;
mod xa;

/// The least stack of a thread that runs sessions. `tests/depth.py` runs the highest statements
/// that the parser accepts on such a stack.
pub const LEAST_STACK_BYTES: usize = 16 << 20;

pub use error::SqlError;
pub use sink::{Aside, ColumnFlags, ColumnMeta, OkInfo, ResultSink, StatusFlags};
pub use table_info::{Catalog, TableInfo};

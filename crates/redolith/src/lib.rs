#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs, unreachable_pub)]
pub mod asynchronous;
mod blocking;
mod definition;
mod durability;
mod error;
mod options;
mod tasks;
mod value;

pub use asynchronous::Savepoint;
pub use blocking::{Database, Range, Snapshot, Transaction};
pub use definition::{Table, TableDefinition};
pub use durability::Durability;
pub use error::{Error, Result};
pub use options::Builder;
pub use value::{Column, Key, MAX_KEY_BYTES, MAX_VALUE_BYTES, Value};

//! Redolith's storage engine. Folders are the way of a write: `trx` ► `row` ► `btree` ► `mtr` ► `log` ► disk; behind it `buf` ► `flush` ► `checkpoint`.
//!
//! **Waiting.** `btree` and everything below it is synchronous and waits for nothing slower than a latch; a call that would have to wait gives
//! back its latches and returns a [`Stall`]. `row` and above is `async`, holds no latch across an `.await`, and makes the call again.
mod base;
pub mod btree;
pub mod buf;
pub mod check;
pub mod checkpoint;
pub mod dict;
pub mod engine;
pub mod flush;
pub mod host;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod mtr;
pub mod page;
pub mod purge;
pub mod recovery;
pub mod row;
pub mod space;
mod start;
pub mod trx;
pub mod undo;
pub use base::*;
pub use engine::{Config, Engine};
pub use recovery::Report;
pub use start::DEFAULT_COLLATION;
pub use trx::{Isolation, Savepoint, Trx};

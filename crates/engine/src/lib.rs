//! Redolith's storage engine. Folders are the way of a write: `trx` ► `row` ► `btree` ► `mtr` ►
//! `log` ► disk; behind it `buf` ► `flush` ► `checkpoint`.
//!
//! A program embeds it through the crate `redolith`: typed tables, blocking and async calls. What
//! that crate calls, and whoever needs SQL's columns and indexes: [`Engine::open`] a directory (one
//! engine at a time has it: [`Error::InUse`]),
//! [`Engine::create_table`](engine::Engine::create_table) or
//! [`Engine::table`](engine::Engine::table), [`Engine::begin`] a [`Trx`]; then [`Trx::insert`], a
//! [`Cursor`](row::cursor::Cursor) to get or scan, [`Trx::update`] and [`Trx::delete`] on the row
//! it is at; [`Trx::commit`] gives a [`CommitTicket`](trx::commit::CommitTicket), to be awaited
//! (`durable`) or waited for (`wait`); [`Engine::close`]. Every call that may wait is a future for
//! any executor; [`runtime::block_on`] runs it on the calling thread.
//!
//! **Errors.** [`Error`] is what a user or a disk can cause; a failed call has changed nothing, and
//! its transaction goes on (except [`Error::Deadlock`]: roll it back). A disk that breaks a promise
//! (a failed fsync or log write) ends the process instead: see [`poison`].
//!
//! **Waiting.** `btree` and everything below it is synchronous and waits for nothing slower than a
//! latch; a call that would have to wait gives back its latches and returns a [`WouldBlock`]. `row`
//! and above is `async`, holds no latch across an `.await`, and makes the call again.
mod base;
pub mod btree;
pub mod buf;
mod bytes;
pub mod canary;
pub mod check;
pub mod checkpoint;
pub mod dict;
pub mod dump;
pub mod engine;
pub mod flush;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod mtr;
pub mod page;
pub mod purge;
pub mod recovery;
pub mod row;
pub mod runtime;
pub mod space;
mod start;
mod sync;
pub mod trx;
pub mod undo;
pub use base::*;
pub use engine::{Config, Engine};
pub use recovery::Report;
pub use start::DEFAULT_COLLATION;
pub use trx::{Isolation, Savepoint, Trx};

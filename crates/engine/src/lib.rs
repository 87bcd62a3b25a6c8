//! Redolith's storage engine. Folders are the way of a write: `trx` ► `row` ► `btree` ► `mtr` ►
//! `log` ► disk; behind it `buf` ► `flush` ► `checkpoint`.
//!
//! A program embeds it through the crate `redolith`: typed tables, blocking and async calls. What
//! that crate calls, and whoever needs SQL's columns and indexes: [`Engine::open`] a directory (one
//! engine at a time has it: [`Error::InUse`]),
//! [`Engine::create_table`](engine::Engine::create_table) or
//! [`Engine::table`](engine::Engine::table), [`Engine::begin`] a [`Trx`]; then [`Trx::insert`], a
//! [`Cursor`](row::cursor::Cursor) to get or scan, [`Trx::update`] and [`Trx::delete`] on the row
//! it is at; [`Trx::commit`] gives a [`CommitTicket`], to be awaited
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
#![cfg_attr(not(test), deny(unreachable_pub, missing_docs))]
mod base;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod btree;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod buf;
mod bytes;
pub mod canary;
mod check;
mod checkpoint;
pub mod dict;
pub mod dump;
pub mod engine;
mod flush;
pub mod lock;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod log;
pub mod metrics;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod mtr;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod page;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod purge;
mod recovery;
pub mod row;
pub mod runtime;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod space;
mod start;
mod sync;
pub mod testing;
mod trx;
#[allow(missing_docs)] // [`testing`] shows parts of it
mod undo;
pub use base::*;
pub use engine::{Config, Engine};
pub use log::{PolicySettings, WriterMode};
pub use recovery::Report;
pub use recovery::forced::Forced;
pub use start::DEFAULT_COLLATION;
pub use trx::commit::CommitTicket;
pub use trx::{Isolation, Savepoint, Trx};

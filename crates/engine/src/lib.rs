//! Redolith's storage engine. The folders follow the path of a write: `trx` ► `row` ► `btree` ►
//! `mtr` ► `log` ► disk; behind it `buf` ► `flush` ► `checkpoint`.
//!
//! A program embeds the engine through the crate `redolith`, which has typed tables, and blocking
//! and async calls. This crate is the layer below, for callers that need SQL's columns and indexes:
//! [`Engine::open`] opens a directory (for one engine at a time: [`Error::InUse`]), and
//! [`Engine::create_table`](engine::Engine::create_table) or
//! [`Engine::table`](engine::Engine::table) gives a table. [`Engine::begin`] gives a [`Trx`]. Its
//! rows are written by [`Trx::insert`], and by [`Trx::update`] and [`Trx::delete`] at the row that
//! a [`Cursor`](row::cursor::Cursor) has found. [`Trx::commit`] gives a
//! [`CommitTicket`], to be awaited (`durable`) or waited for (`wait`).
//! [`Engine::close`] ends the work. Every call that may wait is a future for any executor;
//! [`runtime::block_on`] runs it on the calling thread.
//!
//! **Errors.** [`Error`] is a failure that a user or a disk can cause. A failed call has changed
//! nothing, and its transaction goes on (except after [`Error::Deadlock`], when the caller has to
//! roll it back). A disk that breaks a promise (a failed fsync or redo log write) ends the process
//! instead, see [`poison`].
//!
//! **Waiting.** `btree` and the modules below it are synchronous, and wait for nothing slower than
//! a latch. A call that would have to wait releases its latches and returns a [`WouldBlock`]. `row`
//! and the modules above it are `async`: they hold no latch across an `.await`, and repeat the
//! call.
#![cfg_attr(not(test), deny(unreachable_pub, missing_docs))]
mod base;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod btree;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod buf;
mod bytes;
pub mod canary;
mod check;
mod checkpoint;
pub mod commit_stream;
pub mod dict;
pub mod dump;
pub mod engine;
mod flush;
pub mod lock;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod log;
pub mod metrics;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod mtr;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod page;
mod pool_list;
mod pool_resize;
mod prefetch;
pub mod progress;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod purge;
mod recovery;
pub mod row;
pub mod runtime;
#[cfg(all(test, not(model)))]
mod small_engine;
pub mod sort;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod space;
mod start;
mod sync;
pub mod temporary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trx;
#[cfg_attr(feature = "testing", allow(missing_docs))]
mod undo;
pub use base::*;
pub use buf::seen::{PageContent, PageKind, PoolStats, SeenPage};
pub use engine::{Config, Engine};
pub use flush::{DoublewriteConfig, DoublewriteMode};
pub use log::{PolicySettings, WriterMode};
pub use pool_list::PoolListState;
pub use pool_resize::{LEAST_POOL_INSTANCE_BYTES, PoolResizeStage, PoolResizeState};
pub use recovery::Report;
pub use recovery::check_files::{Checked, StoppedDirectory, Told};
pub use recovery::forced::Forced;
pub use start::DEFAULT_COLLATION;
pub use trx::commit::CommitTicket;
pub use trx::prepare::{Prepared, UsedTable};
pub use trx::seen::{Phase, Seen, SeenTrx, Traits};
pub use trx::{Isolation, Savepoint, Trx};

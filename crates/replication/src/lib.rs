//! The binary log of a server: files that are made from the redo log, and their readers.
//!
//! The events of a transaction travel in the redo frame of its commit
//! ([`redolith_engine::commit_stream`]), so that one durable write keeps the commit and its events.
//! This crate makes MySQL's files of them, behind the durable redo log:
//!
//! ```text
//! session: events ─► record ─► commit frame ─► redo log, durable
//!                        └─► queue ─► Maker ─► parts ─► Files ─► binlog.000042 ─► readers
//! start:   redo log from the checkpoint ─► Maker ─► the same parts
//! ```
//!
//! - [`record`]: what travels in the redo log.
//! - [`maker`]: turns records into bytes of files. It decides GTIDs, positions, rotations and the
//!   logical clock, and needs nothing but the records and its state (MAKER-1).
//! - [`files`]: writes the parts, keeps the index.
//! - [`spill`]: the events of large transactions.
//! - [`Binlog`]: the engine's stream; its task follows the durable redo log.
//! - [`dump`]: what a replica reads: the files' events, and those that are made for it.
//! - [`Replicas`]: the replicas that are connected.
//! - [`semi_sync`]: commits that wait for replicas.
#![forbid(unsafe_code)]
#![deny(missing_docs, unreachable_pub)]
mod binlog;
pub mod check;
mod clock;
pub mod dump;
pub mod files;
pub mod maker;
mod queue;
pub mod record;
mod replicas;
#[cfg(test)]
mod rig;
pub mod semi_sync;
pub mod spill;
mod state;
mod tail;
mod wakers;

pub use binlog::{
    Binlog, BinlogStatus, Counted, MOST_RESET_NUMBER, Purged, Reading, StageCounted, StageSettings,
};
pub use files::Place;
pub use replicas::{Replica, Replicas};
pub use state::State;

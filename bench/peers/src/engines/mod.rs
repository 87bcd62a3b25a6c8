//! The engines. Each is opened in a directory of its own, with the same key, the same value and the
//! same promise: no power cut takes a commit back.
mod fjall;
mod lmdb;
pub mod raw;
mod redb;
pub mod redolith;
mod redolith_tasks;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use crate::load::{Load, Tally};
use std::path::Path;
use std::sync::Arc;

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

/// The size of the cache of each engine that has a cache of its own.
pub const CACHE_BYTES: usize = 256 << 20;
/// The address range, or the greatest size of a file, for engines that must know it at the start.
const SPACE_BYTES: usize = 8 << 30;

/// The load for which a database is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub value_bytes: usize,
    pub writers: usize,
}

/// An open database with one table of u64 ► bytes.
pub trait Engine: Send + Sync {
    /// Runs all writers until the load ends.
    fn drive(&self, load: &Arc<Load>) -> Result<Tally>;
    /// The number of rows now. `None` if the engine has no rows.
    fn rows(&self) -> Result<Option<u64>>;
    /// The engine's own counters, for people who want to know where the time goes.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn close(self: Box<Self>) -> Result<()>;
}

/// The properties of an engine that the benchmark uses.
pub struct Kind {
    pub name: &'static str,
    /// The package of Cargo.lock whose version is shown.
    pub package: &'static str,
    /// True for an engine with one writer at a time, which has a target of its own.
    pub single_writer: bool,
    /// The settings that are not the defaults, or where a default matters.
    pub settings: &'static str,
    pub open: fn(&Path, Shape) -> Result<Box<dyn Engine>>,
}

/// All engines, in the order of their turns.
pub const ALL: &[Kind] = &[
    raw::KIND,
    redolith::KIND,
    #[cfg(feature = "rocksdb")]
    rocksdb::KIND,
    fjall::KIND,
    lmdb::KIND,
    redb::KIND,
    sqlite::KIND,
    redolith_tasks::KIND,
];
pub const RAW: &str = "raw";
pub const REDOLITH: &str = "redolith";
pub const ROCKSDB: &str = "rocksdb";

//! The engines: each opened in a directory of its own, with the same key, the same value and the
//! same promise, a commit that no power cut takes back.
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

/// Cache of every engine that has one of its own.
pub const CACHE_BYTES: usize = 256 << 20;
/// An address range, or what a file may grow to, where an engine wants to know before.
const SPACE_BYTES: usize = 8 << 30;

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub value_bytes: usize,
    pub writers: usize,
}

/// An open database with one table of u64 ► bytes.
pub trait Engine: Send + Sync {
    /// Runs all writers until the load ends.
    fn drive(&self, load: &Arc<Load>) -> Result<Tally>;
    /// Rows that are there now; none where rows are no concept.
    fn rows(&self) -> Result<Option<u64>>;
    /// Counters of its own, for people who look for where the time goes.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn close(self: Box<Self>) -> Result<()>;
}

/// What the benchmark knows of an engine.
pub struct Kind {
    pub name: &'static str,
    /// The package of Cargo.lock whose version is told.
    pub package: &'static str,
    /// One writer at a time: the target there is another one.
    pub single_writer: bool,
    /// Its settings where they are not the defaults, or where a default matters.
    pub settings: &'static str,
    pub open: fn(&Path, Shape) -> Result<Box<dyn Engine>>,
}

/// In the order in which they take their turns.
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

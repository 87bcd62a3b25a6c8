//! Inner parts of the engine, for this repository's own programs: the engine's tests and examples,
//! the simulation (`crates/sim`), the fuzz targets (`crates/fuzzing`) and measurements.
//!
//! These parts are no API: they change with the engine, and a program that embeds the engine needs
//! none of them. The module exists only with the feature `testing`. Without this feature, parts
//! that only this module exports are `pub` and cannot be reached; these parts allow
//! `unreachable_pub` for that build, and only for it.
pub use crate::buf::Sharded;

/// The tree: places to go to.
pub mod btree {
    pub use crate::btree::Seek;
}
/// The buffer pool: how a page is latched.
pub mod buf {
    pub use crate::buf::Latch;
}
/// The dictionary's records, as they lie in the pages of `system.rdl`.
pub mod dict {
    pub use crate::dict::record;
}
/// The redo log without the rest of the engine.
pub mod log {
    pub use crate::log::{Credit, FRAME_HEADER, Log, LogConfig};
}
/// Mini-transactions, and the records that they write to the redo log.
pub mod mtr {
    pub use crate::mtr::{MAX_FRAME, Mtr, record};
}
/// Layouts of pages.
pub mod page {
    pub use crate::page::{Patch, header, index};
}
/// What the background task of purge does.
pub mod purge {
    pub use crate::purge::State;
}
/// Allocation of pages within a file.
pub mod space {
    pub use crate::space::{bitmap, reserve};
}
/// Undo records and undo files.
pub mod undo {
    pub use crate::undo::record;
    pub use crate::undo::truncate::Truncation;
}

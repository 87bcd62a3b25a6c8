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
    use crate::Engine;
    pub use crate::undo::record;
    pub use crate::undo::truncate::Truncation;

    /// Makes one step of truncation, if possible, as the background task does regularly.
    pub fn truncate(engine: &Engine) {
        engine.truncate_undo();
    }
    /// The number of undo files that are not closed to be emptied.
    pub fn open_files(engine: &Engine) -> usize {
        engine.undo_files().1
    }
    /// The number of rollbacks in the background, for sessions that are gone or could not wait.
    pub fn background_rollbacks(engine: &Engine) -> usize {
        engine.background_rollbacks()
    }
}

/// Does something at the end of its scope, also where a test fails: a test that ends its threads so
/// fails where it would wait for them.
pub struct AtEnd<F: FnMut()>(pub F);
impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
/// Waits for what background tasks do, on a busy machine for long.
///
/// # Panics
/// If `what` does not hold within two minutes.
pub async fn within(
    e: &std::sync::Arc<crate::Engine>,
    what: &str,
    mut holds: impl FnMut() -> bool,
) {
    for _ in 0..24_000 {
        if holds() {
            return;
        }
        e.runtime.sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("not within two minutes: {what}; {} undo logs to purge", e.history.len());
}

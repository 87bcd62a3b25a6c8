//! Writes dirty pages to the data files in the background, before the redo log runs full.
//!
//! A cleaner claims a page in the dirty index ([`dirty`]), copies it under an S latch ([`batch`]),
//! waits until the redo log is durable up to the page's LSN, makes the batch's copies durable in
//! the doublewrite file ([`doublewrite`]), writes the pages in place, and leaves a ticket. A sync
//! of the data files ([`writer`]) finishes the ticket: the dirty bucket forgets the page, and the
//! doublewrite segment is free again.
//!
//! FLUSH-1: a page is written only if the redo log is durable up to the page's LSN.
//! FLUSH-2: where copies protect pages ([`protection`]), a page is written in place only after a
//! copy of the page is durable in a doublewrite file.
//! FLUSH-3: a doublewrite segment is used again only after the data files of its pages were synced.
//! FLUSH-4: a page has at most one write in flight (PIN-4).
//! FLUSH-5: a failed write or sync is not retried: the process ends, and recovery rebuilds the
//! pages from the redo log.
//! FLUSH-6: where files do not report their errors apart (page cache), the syncs of one file take
//! turns, whoever asks for them, and none succeeds after one has failed
//! ([`redolith_disk::in_turn`]): a sync may report, and use up, the failure of another's page.
//! FLUSH-7: a sync of data files, or of doublewrite files, counts only if no other sync of them has
//! failed before its end. A failed sync may lose what the other sync was to make durable, and a
//! device reports the loss only once. So the failure is noted where the operation ends, before the
//! process does (FLUSH-5). A file that grows is synced on the thread that needs its pages
//! ([`group::Syncs::sync_blocking`]), which notes a failure a moment after the sync has ended: no
//! other sync of data files ends before that.
//!
//! No latch is held during I/O or any other wait. Lock order: as in [`crate::buf`]; the mutexes
//! here are leaves.
use crate::Lsn;
use crate::log::Log;
use std::future::Future;
use std::pin::Pin;

mod batch;
pub(crate) mod dirty;
pub(crate) mod doublewrite;
mod flusher;
pub(crate) mod group;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod protection;
mod rate;
pub(crate) mod repair;
mod settings;
#[cfg(all(test, not(model)))]
mod tests;
mod writer;
pub(crate) use doublewrite::Doublewrite;
pub(crate) use flusher::Flusher;
pub use protection::{DoublewriteConfig, DoublewriteMode};
pub(crate) use repair::{Copies, Repaired};
pub(crate) use settings::FlushSettings;
pub(crate) use writer::Writer;

/// The view of the redo log that flushing needs.
pub(crate) trait LogView: Send + Sync + 'static {
    /// End of the reserved part of the log.
    fn tail(&self) -> Lsn;
    /// Start of the oldest reserved frame whose pages may not be in the dirty index yet; MAX if
    /// there is none.
    fn dirty_low(&self) -> Lsn;
    fn durable(&self) -> Lsn;
    /// The end of a frame below which all is durable.
    fn durable_frames(&self) -> Lsn {
        self.durable()
    }
    /// The LSN of the last checkpoint written.
    fn checkpoint(&self) -> Lsn;
    /// The most bytes between checkpoint and tail that the log has room for.
    fn usable_bytes(&self) -> u64;
    /// Makes the log durable up to `lsn`, and resolves then.
    fn flush_to(&self, lsn: Lsn) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Resolves when sessions wait for the checkpoint to move. Only one task may await it.
    fn pressure(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Makes a checkpoint durable, so that the log below `lsn` may be reused. A failure ends the
    /// process.
    fn write_checkpoint(&self, lsn: Lsn, payload: &[u8]);
}
impl LogView for Log {
    fn tail(&self) -> Lsn {
        Log::tail(self)
    }
    fn dirty_low(&self) -> Lsn {
        Log::dirty_low(self)
    }
    fn durable(&self) -> Lsn {
        Log::durable(self)
    }
    fn durable_frames(&self) -> Lsn {
        Log::durable_frames(self)
    }
    fn checkpoint(&self) -> Lsn {
        self.checkpoint_lsn()
    }
    fn usable_bytes(&self) -> u64 {
        Log::usable_bytes(self)
    }
    fn flush_to(&self, lsn: Lsn) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Log::flush_to(self, lsn))
    }
    fn pressure(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.checkpoint_wanted())
    }
    fn write_checkpoint(&self, lsn: Lsn, payload: &[u8]) {
        Log::write_checkpoint(self, lsn, payload);
    }
}

//! Writing dirty pages: behind the commits, ahead of the log's end.
//!
//! The way of a page: a cleaner claims it in the dirty index ([`dirty`]), copies it under an S
//! latch ([`batch`]), waits until the log is durable up to the page's LSN, writes the batch's
//! copies to the doublewrite file and makes them durable ([`doublewrite`]), writes the pages in
//! place, and leaves a ticket; a sync of the data files ([`writer`]) settles the ticket: the dirty
//! bucket forgets the page and the doublewrite segment is free again.
//!
//! FLUSH-1: a page is written only if the log is durable up to its LSN.
//! FLUSH-2: a page is written in place only after a copy of it is durable in the doublewrite file
//! (mode ON).
//! FLUSH-3: a doublewrite segment is used again only after the data files of its pages were synced.
//! FLUSH-4: a page has one write in flight at most (PIN-4).
//! FLUSH-5: a failed write or sync is not retried: the process ends, and recovery makes the pages
//! again from the log.
//! FLUSH-6: where files do not report their errors apart (page cache), one sync goes on at a time,
//! to its end: what it is told may be another's page.
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
mod rate;
pub(crate) mod repair;
mod settings;
#[cfg(test)]
mod tests;
mod writer;
pub(crate) use doublewrite::{Doublewrite, DoublewriteMode};
pub(crate) use flusher::Flusher;
pub(crate) use repair::{Copies, Repaired};
pub(crate) use settings::FlushSettings;
pub(crate) use writer::Writer;

/// What flushing wants to know of the log, and asks of it.
pub(crate) trait LogView: Send + Sync + 'static {
    /// End of what has been reserved.
    fn tail(&self) -> Lsn;
    /// Start of the oldest frame that is reserved and whose pages may not be in the dirty index
    /// yet; MAX if there is none.
    fn dirty_low(&self) -> Lsn;
    fn durable(&self) -> Lsn;
    /// The last checkpoint written.
    fn checkpoint(&self) -> Lsn;
    /// The most that may lie between checkpoint and tail.
    fn capacity_bytes(&self) -> u64;
    /// Resolves once the log is durable up to `lsn`, and sees to it that it will be.
    fn flush_to(&self, lsn: Lsn) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Resolves when sessions wait for the checkpoint to move. For one task.
    fn pressure(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Makes a checkpoint durable; the log below `lsn` may be used again. A failure ends the
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
    fn checkpoint(&self) -> Lsn {
        self.checkpoint_lsn()
    }
    fn capacity_bytes(&self) -> u64 {
        Log::capacity_bytes(self)
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

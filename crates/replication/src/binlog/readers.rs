//! Those who read the files: dumps, and statements that show events.
use super::Binlog;
use crate::tail::Tail;
use redolith_binlog::BinlogPosition;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Binlog {
    /// How many bytes of the log are behind a position.
    pub fn bytes_behind(&self, at: BinlogPosition) -> u64 {
        let Some(end) = self.end().filter(|end| *end > at) else { return 0 };
        if end.file == at.file {
            return end.offset - at.offset;
        }
        let closed = self.closed.lock();
        let between: u64 = closed.range(at.file..end.file).map(|(_, len)| len).sum();
        (between + end.offset).saturating_sub(at.offset)
    }
    /// A reader begins, in a file: from now on the files follow the redo log closely, and this file
    /// and those behind it stay, until the value is dropped.
    pub fn reader(self: &Arc<Binlog>, file: u32) -> Reading {
        let number = self.next_reader.fetch_add(1, Relaxed);
        let mut readers = self.readers.lock();
        readers.insert(number, file);
        self.tail.want(true);
        drop(readers);
        Reading { binlog: self.clone(), number }
    }
    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }
    /// Returns a number that [`Binlog::moved_since`] takes, to be read before the status.
    pub fn seen(&self) -> u64 {
        self.moved.seen()
    }
    /// Resolves when the status has moved since `seen`.
    pub async fn moved_since(&self, seen: u64) {
        self.moved.after(seen).await;
    }
}

/// A reader of the files.
pub struct Reading {
    binlog: Arc<Binlog>,
    number: u64,
}
impl Reading {
    /// The reader goes on to another file.
    pub fn moves_to(&self, file: u32) {
        self.binlog.readers.lock().insert(self.number, file);
    }
}
impl Drop for Reading {
    fn drop(&mut self) {
        let mut readers = self.binlog.readers.lock();
        readers.remove(&self.number);
        if readers.is_empty() {
            self.binlog.tail.want(false);
        }
    }
}

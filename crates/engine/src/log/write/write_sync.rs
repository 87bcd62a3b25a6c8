//! Writing and syncing, by the leader, and by the flusher beside a dedicated writer.
//!
//! Here a write is over when the call returns. [`crate::log::write::overlapped_writes`] has the
//! writes that are submitted.
//!
//! - WRITE-1: only the leader writes.
//! - WRITE-2: one sync is under way at a time (`syncing`), and it covers the bytes that were
//!   written when it began. The lock of `Log::writing` is held for moments, never during I/O.
use crate::base::poison;
use crate::log::Log;
use crate::log::commit::leader::Flushed;
use crate::log::write::write_cursor::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;

/// The CPU time of one flush in this many is measured.
const MEASURE_EVERY: u64 = 8;

impl Log {
    /// Writes all ready bytes, or submits the write, and wakes the waiters whose goal is reached.
    /// The caller has the leadership, and polls its own goal itself.
    pub(in crate::log) fn flush_ready(&self, durable: bool) -> Flushed {
        let durable = durable || self.waits.wants_durable();
        if let Some(flushed) = self.launch_ready(durable) {
            return flushed;
        }
        self.runtime.before_blocking();
        let flush = Flush::begin(self);
        self.write_out(durable);
        if durable {
            self.sync_out();
        }
        flush.end(self, true);
        Flushed::Here
    }
    /// Writes all ready bytes, for the dedicated writer; the flusher syncs them. Does nothing while
    /// writes of an earlier mode are in flight (FLIGHT-3).
    pub(in crate::log) fn write_only(&self) {
        if self.writing.lock().state.in_flight() > 0 {
            return;
        }
        self.write_out(false);
        // Waiters for a write only are done here, and count like the waiters of other modes: `auto`
        // compares the modes by these counters.
        self.publish(false, |_, woken| {
            self.counters.writer.log_flush_waiters.fetch_add(woken as u64, Relaxed);
        });
    }
    /// Makes all written bytes durable, for the flusher.
    pub(in crate::log) fn sync_only(&self) {
        let flush = Flush::begin(self);
        self.sync_out();
        flush.end(self, false);
    }

    /// Publishes how far the redo log is written and durable, and wakes the waiters whose goal is
    /// reached. `count` gets the bytes that became durable since the last counted flush, and the
    /// number of woken waiters.
    fn publish(&self, flushed: bool, count: impl FnOnce(u64, usize)) {
        let (written, durable, gained, mut wake) = {
            let mut w = self.writing.lock();
            let (durable, counted) = (w.state.durable(), w.counted);
            if flushed {
                w.counted = durable;
            }
            (w.state.written(), durable, durable - counted, std::mem::take(&mut w.wake))
        };
        self.waits.advance(written, durable);
        self.room.update(|b| b.written = b.written.max(written));
        self.check_segments(written);
        let woken = self.waits.wake_reached(&mut wake);
        count(gained, woken);
        wake.drain(..).for_each(Waker::wake);
        self.writing.lock().wake = wake;
    }
    /// Writes all ready bytes. The writes are durable if `durable` is set and everything before
    /// them is durable.
    fn write_out(&self, durable: bool) {
        let ready = self.order.ready();
        debug_assert!(self.staging.try_lock().is_some(), "WRITE-1: only the leader writes");
        let mut staging = self.staging.lock();
        loop {
            let (write, at_once) = {
                let mut w = self.writing.lock();
                let at_once = durable && w.state.durable() == w.state.written();
                let Some(write) = w.state.begin(ready, 1) else { return };
                (write, at_once)
            };
            let padded = write.padded_bytes();
            self.take(&write, &mut staging[..padded]);
            let (file, offset) = self
                .segments
                .at(write.start)
                .expect("CREDIT-2: a segment exists for every reserved byte");
            let data = &staging[..padded];
            let done = if at_once {
                file.write_durable_at(data, offset)
            } else {
                file.write_at(data, offset)
            };
            if let Err(e) = done {
                poison(&format!("writing the redo log at {}: {e}", write.start));
            }
            {
                let mut w = self.writing.lock();
                if !at_once && !w.unsynced.iter().any(|f| Arc::ptr_eq(f, &file)) {
                    w.unsynced.push(file);
                }
                w.state.finish(write.number, at_once);
            }
            self.count_write(&write, at_once);
        }
    }
    /// Copies the bytes of a begun write out of the ring, with zeros to the end of its last block.
    pub(in crate::log) fn take(&self, write: &Write, into: &mut [u8]) {
        let (bytes, rest) = into.split_at_mut(write.bytes());
        // SAFETY: the range is below `ready`, and begins in the block in which the write before
        // ended. CREDIT-2 keeps this block in the ring until the present write is over.
        unsafe { self.ring.read(write.start, bytes) };
        rest.fill(0);
    }
    pub(in crate::log) fn count_write(&self, write: &Write, durable: bool) {
        let (count, bytes, padded) = (&self.counters.writer, write.bytes(), write.padded_bytes());
        count.os_log_fsyncs.fetch_add(durable as u64, Relaxed);
        count.log_writes.fetch_add(1, Relaxed);
        count.os_log_written.fetch_add(padded as u64, Relaxed);
        count.log_padded.fetch_add((padded - bytes) as u64, Relaxed);
        let kind = if padded == bytes {
            &count.log_full_block_writes
        } else {
            &count.log_partial_block_writes
        };
        kind.fetch_add(1, Relaxed);
    }
    /// Syncs the bytes that are written but not durable.
    fn sync_out(&self) {
        let _one = self.syncing.lock();
        let (files, upto) = {
            let mut w = self.writing.lock();
            if w.state.durable() == w.state.written() {
                return;
            }
            (std::mem::take(&mut w.unsynced), w.state.to_sync())
        };
        for file in &files {
            if let Err(e) = file.sync() {
                poison(&format!("syncing the redo log: {e}"));
            }
            self.counters.writer.os_log_fsyncs.fetch_add(1, Relaxed);
        }
        self.writing.lock().state.synced(upto);
    }
}

/// One flush that has begun.
pub(in crate::log) struct Flush {
    begun: Duration,
    cpu: Option<Duration>,
}
impl Flush {
    fn begin(log: &Log) -> Flush {
        let measured = log.counters.writer.log_flushes.load(Relaxed).is_multiple_of(MEASURE_EVERY);
        Flush { cpu: measured.then(|| log.disk.thread_cpu()), ..Flush::of_others(log) }
    }
    /// A flush that ends in another thread.
    pub(in crate::log) fn of_others(log: &Log) -> Flush {
        let begun = log.disk.now();
        log.policy_in_use.flush_begins(begun);
        Flush { begun, cpu: None }
    }
    pub(in crate::log) fn end(self, log: &Log, led: bool) {
        log.publish(true, |gained, woken| {
            if gained > 0 {
                log.waits.flushed_for(woken + led as usize);
                log.counters.flushed(gained, log.disk.now().saturating_sub(self.begun), woken, led);
                if let Some(before) = self.cpu {
                    log.policy_in_use.flush_took(log.disk.thread_cpu().saturating_sub(before));
                }
            }
        });
    }
}

//! The log's sizes while it runs: the capacity and the buffer, which may be set at any time; the
//! slowing of writers as the log fills; and the message when the log is full.
use super::Log;
use crate::base::Result;
use crate::log::append::credit::CAPACITY_MIN;
#[cfg(feature = "testing")]
use crate::log::append::credit::{Class, Scarce};
use redolith_disk::AlignedBuf;
use std::sync::atomic::Ordering::Relaxed;

/// The least size of the buffer, which has room for several mini-transactions.
const BUFFER_MIN: u64 = 256 << 10;

impl Log {
    /// The capacity that is set: the most bytes between checkpoint and tail.
    pub fn capacity_bytes(&self) -> u64 {
        self.room.bounds().capacity_bytes
    }
    /// The capacity in force, which is above the setting while the log shrinks.
    pub fn capacity_now(&self) -> u64 {
        self.room.bounds().in_force_bytes
    }
    /// The most bytes between checkpoint and tail that the disk has room for: the capacity that is
    /// set, and less while no segment can be made.
    pub fn usable_bytes(&self) -> u64 {
        let b = self.room.bounds();
        match self.room.is_failing() {
            // A checkpoint at the end of the files leaves the segment that comes next.
            true => {
                b.capacity_bytes.min(b.files_end.saturating_sub(b.checkpoint).max(b.segment_bytes))
            }
            false => b.capacity_bytes,
        }
    }
    /// Whether another file would give room, to those who may use the reserve or to the others.
    #[cfg(feature = "testing")]
    pub fn lacks_files(&self, reserve_too: bool) -> bool {
        let class = if reserve_too { Class::Reserved } else { Class::Ordinary };
        self.room.scarce(class) == Scarce::Files
    }
    /// Changes the capacity. A larger capacity takes effect at once. A smaller capacity takes
    /// effect as the checkpoint moves, for which the page cleaners now hurry.
    pub fn set_capacity(&self, bytes: u64) {
        self.room.set_capacity(bytes.max(CAPACITY_MIN));
        if self.capacity_now() > self.capacity_bytes() {
            self.pressure.notify();
        }
        self.allocator.notify();
    }
    /// Removes some of the segments that the capacity does not need, and returns how many. `last`
    /// is the last byte that it allows.
    pub(super) fn cut_segments(&self, last: u64) -> Result<usize> {
        let end = (last / self.segments.bytes + 1) * self.segments.bytes;
        if self.segments.end() > end {
            let stay = self.room.lower_files_end(end);
            self.control
                .lock()
                .control
                .segments_end_at(stay / self.segments.bytes * self.segments.bytes);
            return self.segments.cut(stay);
        }
        Ok(0)
    }

    pub fn buffer_bytes(&self) -> u64 {
        self.room.bounds().buffer_bytes
    }
    /// Changes the size of the log buffer. The segment allocator does this soon.
    pub fn set_buffer(&self, bytes: u64) {
        self.buffer_wanted.store((bytes / 4096 * 4096).max(BUFFER_MIN), Relaxed);
        self.allocator.notify();
    }
    /// Gives the buffer the size that is set. Only the segment allocator calls this.
    pub(super) async fn keep_buffer(&self) {
        let wanted = self.buffer_wanted.load(Relaxed);
        if wanted == self.buffer_bytes() {
            return self.drop_old_buffer();
        }
        let size = wanted.next_power_of_two();
        if size == self.ring.size() {
            return self.room.set_buffer(wanted, |_| Some(self.ring.split_at()));
        }
        if self.waits.written() < self.ring.split_at() {
            self.flush_to(self.tail()).await;
        }
        let Some(memory) = AlignedBuf::try_new(size as usize) else {
            tracing::warn!(
                "there is no memory for a log buffer of {wanted} bytes: \
                 innodb_log_buffer_size stays at {} bytes",
                self.buffer_bytes()
            );
            self.buffer_wanted.store(self.buffer_bytes(), Relaxed);
            return;
        };
        let written = self.waits.written();
        // If it is too early for the change (LOGBUF-6), the next checkpoint notifies the segment
        // allocator again.
        self.room.set_buffer(wanted, |promised| self.ring.change(memory, promised, written));
    }
    /// Frees the memory of the buffer's former size when none of its bytes is needed. Only the
    /// segment allocator calls this.
    fn drop_old_buffer(&self) {
        if self.waits.written() >= self.ring.split_at() {
            self.ring.forget_older();
        }
    }

    /// Whether writers are to be slowed. This costs one load.
    #[inline]
    pub fn is_slow(&self) -> bool {
        self.room.is_slow()
    }
    /// Holds up a change of a row while the log is nearly full. The caller holds no latches.
    #[cold]
    pub async fn throttle(&self) {
        let Some(time) = self.room.delay() else { return };
        self.counters.writer.log_throttle_waits.fetch_add(1, Relaxed);
        self.counters.writer.log_throttle_time_us.fetch_add(time.as_micros() as u64, Relaxed);
        self.pressure.notify();
        self.runtime.sleep(time).await;
    }
    /// Returns true once between two checkpoints, when a session has waited too long for room: the
    /// caller then tells the user why.
    pub fn tell_full(&self) -> bool {
        !self.full_told.swap(true, Relaxed)
    }
    pub(super) fn sizes(&self, mut f: impl FnMut(&'static str, u64)) {
        let b = self.room.bounds();
        f("log_capacity", b.in_force_bytes);
        f("log_capacity_set", b.capacity_bytes);
        f("log_buffer_bytes", b.buffer_bytes);
    }
}

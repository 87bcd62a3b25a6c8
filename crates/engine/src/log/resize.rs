//! The log's sizes while it runs: capacity and buffer, which may be set at any time; how writers
//! are slowed as it fills; what is said when it is full.
use super::Log;
use crate::base::Result;
use crate::log::append::credit::CAPACITY_MIN;
use redolith_disk::AlignedBuf;
use std::sync::atomic::Ordering::Relaxed;

/// The least size of the buffer: some mini-transactions.
const BUFFER_MIN: u64 = 256 << 10;

impl Log {
    /// Most bytes between checkpoint and tail, as set.
    pub fn capacity_bytes(&self) -> u64 {
        self.room.bounds().capacity_bytes
    }
    /// The capacity in force: more than what is set while the log shrinks.
    pub fn capacity_now(&self) -> u64 {
        self.room.bounds().in_force_bytes
    }
    /// Changes the capacity. A larger one counts at once; a smaller one as the checkpoint moves,
    /// which the cleaners now hurry for.
    pub fn set_capacity(&self, bytes: u64) {
        self.room.set_capacity(bytes.max(CAPACITY_MIN));
        if self.capacity_now() > self.capacity_bytes() {
            self.pressure.notify();
        }
        self.allocator.notify();
    }
    /// Segments beyond what the capacity needs are removed; `last` is the last byte that it allows.
    pub(super) fn cut_segments(&self, last: u64) -> Result<()> {
        let end = (last / self.segments.bytes + 1) * self.segments.bytes;
        if self.segments.end() > end {
            let stay = self.room.lower_files_end(end);
            self.control
                .lock()
                .control
                .segments_end_at(stay / self.segments.bytes * self.segments.bytes);
            self.segments.cut(stay)?;
        }
        Ok(())
    }

    pub fn buffer_bytes(&self) -> u64 {
        self.room.bounds().buffer_bytes
    }
    /// Changes the size of the log buffer: soon, by the segment allocator.
    pub fn set_buffer(&self, bytes: u64) {
        self.buffer_wanted.store((bytes / 4096 * 4096).max(BUFFER_MIN), Relaxed);
        self.allocator.notify();
    }
    /// Gives the buffer the size that it is to have. For the segment allocator alone.
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
        // If it is too early (LOGBUF-6), the next checkpoint calls the segment allocator again.
        self.room.set_buffer(wanted, |promised| self.ring.change(memory, promised, written));
    }
    /// Gives the memory of the buffer's former size back, when nothing in it is needed. For the
    /// segment allocator alone.
    fn drop_old_buffer(&self) {
        if self.waits.written() >= self.ring.split_at() {
            self.ring.forget_older();
        }
    }

    /// Whether writers are to be slowed. One load.
    #[inline]
    pub fn is_slow(&self) -> bool {
        self.room.is_slow()
    }
    /// Holds up a change of a row while the log is nearly full. Call it above all latches.
    #[cold]
    pub async fn throttle(&self) {
        let Some(time) = self.room.delay() else { return };
        self.counters.writer.log_throttle_waits.fetch_add(1, Relaxed);
        self.counters.writer.log_throttle_time_us.fetch_add(time.as_micros() as u64, Relaxed);
        self.pressure.notify();
        self.runtime.sleep(time).await;
    }
    /// True once until the next checkpoint: somebody has waited too long for room, and it is to be
    /// said why.
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

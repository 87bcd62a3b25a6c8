//! What is to be written next, and how far writing has come: the state of the log writer, without any I/O. Hosts (leader.rs, resident.rs) drive it.
//!
//! WRITER-1: a write begins at a block, so it repeats what an earlier one put into a block that was not full; the repeated bytes are the same, so a torn
//! write cannot harm them. WRITER-2: a write lies in one segment. WRITER-3: one write is in flight. WRITER-4: `durable` moves only over writes that are known to
//! be durable, in order.

/// Writes begin and end at multiples of this.
pub(super) const BLOCK: u64 = 4096;
/// The longest single write.
pub(super) const WRITE_MAX: u64 = 1 << 20;

/// One write of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    /// LSN of the first byte; a multiple of `BLOCK`.
    pub start: u64,
    /// LSN after the last byte of stream; zeros follow to the end of the block.
    pub end: u64,
}
impl Write {
    pub fn bytes(&self) -> usize {
        (self.end - self.start) as usize
    }
    pub fn padded_bytes(&self) -> usize {
        self.bytes().next_multiple_of(BLOCK as usize)
    }
}

#[derive(Debug)]
pub(super) struct LogWriter {
    segment_bytes: u64,
    written: u64,
    durable: u64,
    in_flight: Option<Write>,
}
impl LogWriter {
    /// Everything below `at` is durable.
    pub fn new(at: u64, segment_bytes: u64) -> LogWriter {
        assert!(segment_bytes.is_multiple_of(BLOCK));
        LogWriter { segment_bytes, written: at, durable: at, in_flight: None }
    }
    pub fn written(&self) -> u64 {
        self.written
    }
    pub fn durable(&self) -> u64 {
        self.durable
    }
    /// The next write towards `ready`, if there is something to write. `finish` must follow.
    pub fn begin(&mut self, ready: u64) -> Option<Write> {
        assert!(self.in_flight.is_none(), "WRITER-3");
        if ready <= self.written {
            return None;
        }
        let start = self.written / BLOCK * BLOCK;
        let segment_end = (start / self.segment_bytes + 1) * self.segment_bytes;
        self.in_flight = Some(Write { start, end: ready.min(segment_end).min(start + WRITE_MAX) });
        self.in_flight
    }
    /// The write in flight is done, and is by itself durable or not.
    pub fn finish(&mut self, durable: bool) {
        let w = self.in_flight.take().expect("begun");
        if durable && self.durable == self.written {
            self.durable = w.end;
        }
        self.written = w.end;
    }
    /// What was written up to `upto` has been synced.
    pub fn synced(&mut self, upto: u64) {
        assert!(upto <= self.written, "WRITER-4");
        self.durable = self.durable.max(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_blocks_of_one_segment() {
        let mut w = LogWriter::new(4100, 16384);
        assert_eq!(w.begin(4100), None);
        let write = w.begin(4200).unwrap();
        assert_eq!((write, write.padded_bytes()), (Write { start: 4096, end: 4200 }, 4096));
        w.finish(true);
        assert_eq!((w.written(), w.durable()), (4200, 4200));
        assert_eq!(w.begin(20000).unwrap(), Write { start: 4096, end: 16384 });
        w.finish(true);
        assert_eq!(w.begin(20000).unwrap(), Write { start: 16384, end: 20000 });
        w.finish(true);
        assert_eq!(w.begin(20000), None);
        // A full block is not repeated.
        assert_eq!(w.begin(20480).unwrap(), Write { start: 16384, end: 20480 });
        w.finish(true);
        assert_eq!(w.begin(20481).unwrap().start, 20480);
    }

    #[test]
    fn writer_4_durable_waits_for_what_was_only_written() {
        let mut w = LogWriter::new(0, 1 << 24);
        w.begin(100);
        w.finish(false);
        w.begin(200);
        w.finish(true);
        assert_eq!((w.written(), w.durable()), (200, 0));
        w.synced(200);
        assert_eq!(w.durable(), 200);
        w.begin(3 << 20);
        w.finish(true);
        assert_eq!(w.durable(), 1 << 20);
    }
}

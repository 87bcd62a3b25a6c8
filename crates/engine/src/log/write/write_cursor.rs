//! What is to be written next, and how far writing has come: the state of the log writer, without
//! any I/O. A leader or the dedicated threads drive it (`commit/leader.rs`, `commit/dedicated.rs`).
//!
//! WRITER-1: a write begins at a block, so it repeats what an earlier one put into a block that was
//! not full; the repeated bytes are the same, so a torn write cannot harm them. WRITER-2: a write
//! lies in one segment. WRITER-3: two writes in flight share no block: another one begins only
//! where a block does (the repeated bytes would be the same, but what comes behind them would not).
//! WRITER-4: `written` and `durable` move only over a contiguous prefix of writes that are over,
//! and `durable` only over those that are known to be durable, whatever the order in which they
//! end.
use crate::canary::{Canary, planted};
use std::collections::VecDeque;

/// Writes begin and end at multiples of this.
pub(in crate::log) const BLOCK: u64 = 4096;
/// The longest single write.
pub(in crate::log) const WRITE_MAX: u64 = 1 << 20;

/// One write of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) struct Write {
    pub number: u64,
    /// LSN of the first byte; a multiple of `BLOCK`.
    pub start: u64,
    /// LSN after the last byte of stream; zeros follow to the end of the block.
    pub end: u64,
}
impl Write {
    pub(crate) fn bytes(&self) -> usize {
        (self.end - self.start) as usize
    }
    pub(crate) fn padded_bytes(&self) -> usize {
        self.bytes().next_multiple_of(BLOCK as usize)
    }
}

#[derive(Debug)]
struct Flight {
    end: u64,
    /// It is over, and durable by itself or not.
    over: Option<bool>,
}

#[derive(Debug)]
pub(in crate::log) struct LogWriter {
    segment_bytes: u64,
    written: u64,
    durable: u64,
    /// End of the last write that has begun.
    begun: u64,
    in_flight: VecDeque<Flight>,
    /// Number of the first of them.
    first: u64,
    /// They have the leadership (FLIGHT-1).
    kept: bool,
}
/// What becomes of the leadership when its holder has begun what could begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) enum Leadership {
    /// The holder passes it on: another write may begin.
    Passes,
    /// It is with the writes in flight; the end of one passes it on.
    Kept,
    /// The holder has it still: there was nothing to begin, and nothing is in the way.
    Stays,
}
impl LogWriter {
    /// Everything below `at` is durable.
    pub(crate) fn new(at: u64, segment_bytes: u64) -> LogWriter {
        assert!(segment_bytes.is_multiple_of(BLOCK));
        LogWriter {
            segment_bytes,
            written: at,
            durable: at,
            begun: at,
            in_flight: VecDeque::new(),
            first: 0,
            kept: false,
        }
    }
    pub(crate) fn written(&self) -> u64 {
        self.written
    }
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }
    /// Writes that have begun and are not in the prefix that is over.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
    /// Whether another write may begin beside fewer than `depth` others (WRITER-3).
    pub(crate) fn may_begin(&self, depth: usize) -> bool {
        self.in_flight.is_empty()
            || self.in_flight.len() < depth && self.begun.is_multiple_of(BLOCK)
    }
    /// The next write towards `ready`, if there is something to write and it may begin. `finish`
    /// must follow.
    pub(crate) fn begin(&mut self, ready: u64, depth: usize) -> Option<Write> {
        if ready <= self.begun || !self.may_begin(depth) {
            return None;
        }
        let start = self.begun / BLOCK * BLOCK;
        let segment_end = (start / self.segment_bytes + 1) * self.segment_bytes;
        self.begun = ready.min(segment_end).min(start + WRITE_MAX);
        let number = self.first + self.in_flight.len() as u64;
        self.in_flight.push_back(Flight { end: self.begun, over: None });
        Some(Write { number, start, end: self.begun })
    }
    /// The leader has begun so many writes, and goes.
    pub(crate) fn leave(&mut self, begun: usize, depth: usize) -> Leadership {
        match self.may_begin(depth) {
            false => {
                self.kept = true;
                Leadership::Kept
            }
            true if begun == 0 => Leadership::Stays,
            true => Leadership::Passes,
        }
    }
    /// A durable write is over. True if the leadership is now to be passed on.
    pub(crate) fn land(&mut self, number: u64, depth: usize) -> bool {
        self.finish(number, true);
        let passes = self.kept && self.may_begin(depth);
        self.kept &= !passes;
        passes
    }
    /// A write is over, and is by itself durable or not.
    pub(crate) fn finish(&mut self, number: u64, durable: bool) {
        let Some(at) = number.checked_sub(self.first).map(|at| at as usize) else {
            assert!(planted(Canary::DurableOutOfOrder), "WRITER-4: write {number} is over twice");
            return;
        };
        self.in_flight[at].over = Some(durable);
        if planted(Canary::DurableOutOfOrder) {
            self.in_flight.iter_mut().take(at).for_each(|f| f.over = Some(durable));
        }
        while let Some(Flight { end, over: Some(durable) }) = self.in_flight.front() {
            if *durable && self.durable == self.written {
                self.durable = *end;
            }
            self.written = *end;
            self.in_flight.pop_front();
            self.first += 1;
        }
    }
    /// What was written up to `upto` has been synced.
    pub(crate) fn synced(&mut self, upto: u64) {
        assert!(upto <= self.written, "WRITER-4");
        self.durable = self.durable.max(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(w: &mut LogWriter, ready: u64) -> Option<(u64, u64)> {
        w.begin(ready, 1).map(|w| (w.start, w.end))
    }
    fn write(w: &mut LogWriter, ready: u64, durable: bool) -> Option<(u64, u64)> {
        let write = w.begin(ready, 1)?;
        w.finish(write.number, durable);
        Some((write.start, write.end))
    }

    /// Tests WRITER-1 and WRITER-2.
    #[test]
    fn writes_are_blocks_of_one_segment() {
        let mut w = LogWriter::new(4100, 16384);
        assert_eq!(begin(&mut w, 4100), None);
        let first = w.begin(4200, 1).unwrap();
        assert_eq!((first.start, first.end, first.padded_bytes()), (4096, 4200, 4096));
        w.finish(first.number, true);
        assert_eq!((w.written(), w.durable()), (4200, 4200));
        assert_eq!(write(&mut w, 20000, true), Some((4096, 16384)));
        assert_eq!(write(&mut w, 20000, true), Some((16384, 20000)));
        assert_eq!(begin(&mut w, 20000), None);
        // A full block is not repeated.
        assert_eq!(write(&mut w, 20480, true), Some((16384, 20480)));
        assert_eq!(begin(&mut w, 20481), Some((20480, 20481)));
    }

    #[test]
    fn writer_4_durable_waits_for_what_was_only_written() {
        let mut w = LogWriter::new(0, 1 << 24);
        write(&mut w, 100, false);
        write(&mut w, 200, true);
        assert_eq!((w.written(), w.durable()), (200, 0));
        w.synced(200);
        assert_eq!(w.durable(), 200);
        write(&mut w, 3 << 20, true);
        assert_eq!(w.durable(), 1 << 20);
    }

    #[test]
    fn writer_3_and_4_in_any_order() {
        let mut w = LogWriter::new(0, 1 << 24);
        let a = w.begin(8192, 3).unwrap();
        let b = w.begin(12288, 3).unwrap();
        let c = w.begin(12300, 3).unwrap();
        assert_eq!((b.start, c.start, w.in_flight()), (8192, 12288, 3));
        // Full, and the block is not.
        assert!(w.begin(20000, 3).is_none() && w.begin(20000, 4).is_none());
        w.finish(b.number, true);
        assert_eq!((w.written(), w.durable(), w.in_flight()), (0, 0, 3));
        w.finish(a.number, true);
        assert_eq!((w.written(), w.durable(), w.in_flight()), (12288, 12288, 1));
        assert!(w.begin(20000, 4).is_none() && !w.may_begin(4));
        w.finish(c.number, true);
        assert_eq!((w.durable(), w.begin(20000, 4).unwrap().start), (12300, 12288));
    }
}

//! The write cursor: which bytes to write next, and how far writing has come. This is the state of
//! the log writer, without any I/O. A leader or the dedicated threads drive it (`commit/leader.rs`,
//! `commit/dedicated.rs`).
//!
//! - WRITER-1: a write begins at a block, so it repeats the bytes that an earlier write put into a
//!   block that was not full. The repeated bytes are the same, so a torn write cannot harm them.
//! - WRITER-2: a write lies in one segment.
//! - WRITER-3: two writes in flight share no block: another write begins only at the beginning of a
//!   block. (The repeated bytes would be the same, but the bytes behind them would not.)
//! - WRITER-4: `written` and `durable` move only over a contiguous prefix of writes that are over,
//!   and `durable` only over writes that are known to be durable, whatever the order in which they
//!   end.
//! - WRITER-5: a write that is cut short (WRITER-2, [`WRITE_MAX`]) may end inside a frame, and so
//!   may `durable`. `durable_frames` is always the end of a frame: recovery finds no frame where a
//!   checkpoint lies inside one. It follows `durable` however many writes there are: a sync counts
//!   what was written when it began, and a place that a write was to reach is reached before the
//!   next place is looked for.
use crate::canary::{Canary, planted};
use std::collections::VecDeque;

/// Writes begin and end at multiples of this number of bytes.
pub(in crate::log) const BLOCK: u64 = 4096;
/// The most bytes of one write.
pub(in crate::log) const WRITE_MAX: u64 = 1 << 20;

/// One write to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) struct Write {
    pub number: u64,
    /// The LSN of the first byte, a multiple of `BLOCK`.
    pub start: u64,
    /// The LSN after the last byte of the stream. Zeros follow to the end of the block.
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

/// How far the log is written: all bytes, and whole frames.
#[derive(Debug, Clone, Copy)]
pub(in crate::log) struct Written {
    bytes: u64,
    frames: u64,
}
#[derive(Debug)]
struct Flight {
    end: u64,
    /// Whether the write ends with a frame.
    is_whole: bool,
    /// Set when the write is over: whether it is durable by itself.
    over: Option<bool>,
}

#[derive(Debug)]
pub(in crate::log) struct LogWriter {
    segment_bytes: u64,
    written: u64,
    durable: u64,
    /// The last ends of frames at which `written` and `durable` were (WRITER-5).
    written_frames: u64,
    durable_frames: u64,
    /// The end of the last write that has begun.
    begun: u64,
    /// The end of a frame at which a write ends next, if it is above `begun`.
    goal: u64,
    in_flight: VecDeque<Flight>,
    /// The number of the first write in flight.
    first: u64,
    /// Whether the writes in flight hold the leadership (FLIGHT-1).
    kept: bool,
}
/// The fate of the leadership when its holder has begun all the writes that could begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) enum Leadership {
    /// The holder passes the leadership on: another write may begin.
    Passes,
    /// The writes in flight hold the leadership; the end of one of them passes it on.
    Kept,
    /// The holder keeps the leadership: there was nothing to begin, and no write blocks it.
    Stays,
}
impl LogWriter {
    /// The cursor of a log in which everything below `at` is durable.
    pub(crate) fn new(at: u64, segment_bytes: u64) -> LogWriter {
        assert!(segment_bytes.is_multiple_of(BLOCK));
        LogWriter {
            segment_bytes,
            written: at,
            durable: at,
            written_frames: at,
            durable_frames: at,
            begun: at,
            goal: at,
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
    pub(crate) fn durable_frames(&self) -> u64 {
        self.durable_frames
    }
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }
    /// The number of writes that have begun and are not yet in the finished prefix.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
    /// Whether another write may begin, with fewer than `depth` writes in flight (WRITER-3).
    pub(crate) fn may_begin(&self, depth: usize) -> bool {
        self.in_flight.is_empty()
            || self.in_flight.len() < depth && self.begun.is_multiple_of(BLOCK)
    }
    /// Begins the next write towards `ready`, the end of a frame, if there are bytes to write and a
    /// write may begin. `finish` must follow.
    pub(crate) fn begin(&mut self, ready: u64, depth: usize) -> Option<Write> {
        if ready <= self.begun || !self.may_begin(depth) {
            return None;
        }
        if self.goal <= self.begun {
            self.goal = ready;
        }
        let start = self.begun / BLOCK * BLOCK;
        let segment_end = (start / self.segment_bytes + 1) * self.segment_bytes;
        self.begun = self.goal.min(segment_end).min(start + WRITE_MAX);
        let number = self.first + self.in_flight.len() as u64;
        self.in_flight.push_back(Flight {
            end: self.begun,
            is_whole: self.begun == self.goal,
            over: None,
        });
        Some(Write { number, start, end: self.begun })
    }
    /// The leader, which has begun `begun` writes, leaves. Returns the fate of the leadership.
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
    /// Records that a durable write is over. Returns whether the leadership is to be passed on now.
    pub(crate) fn land(&mut self, number: u64, depth: usize) -> bool {
        self.finish(number, true);
        let passes = self.kept && self.may_begin(depth);
        self.kept &= !passes;
        passes
    }
    /// Records that a write is over. `durable` says whether it is durable by itself.
    pub(crate) fn finish(&mut self, number: u64, durable: bool) {
        let Some(at) = number.checked_sub(self.first).map(|at| at as usize) else {
            assert!(planted(Canary::DurableOutOfOrder), "WRITER-4: write {number} is over twice");
            return;
        };
        self.in_flight[at].over = Some(durable);
        if planted(Canary::DurableOutOfOrder) {
            self.in_flight.iter_mut().take(at).for_each(|f| f.over = Some(durable));
        }
        while let Some(Flight { end, is_whole, over: Some(durable) }) = self.in_flight.front() {
            let at_once = *durable && self.durable == self.written;
            if at_once {
                self.durable = *end;
            }
            self.written = *end;
            if *is_whole {
                self.written_frames = *end;
                if at_once {
                    self.durable_frames = *end;
                }
            }
            self.in_flight.pop_front();
            self.first += 1;
        }
    }
    /// What a sync that begins now makes durable.
    pub(crate) fn to_sync(&self) -> Written {
        Written { bytes: self.written, frames: self.written_frames }
    }
    /// Records that this has been synced.
    pub(crate) fn synced(&mut self, upto: Written) {
        assert!(upto.bytes <= self.written, "WRITER-4");
        self.durable = self.durable.max(upto.bytes);
        self.durable_frames = self.durable_frames.max(upto.frames);
    }
}

#[cfg(all(test, not(model)))]
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
        w.synced(w.to_sync());
        assert_eq!(w.durable(), 200);
        write(&mut w, 3 << 20, true);
        assert_eq!(w.durable(), 1 << 20);
    }

    /// Tests WRITER-5.
    #[test]
    fn a_cut_write_ends_no_frame() {
        let mut w = LogWriter::new(0, 16384);
        write(&mut w, 20000, true);
        assert_eq!((w.durable(), w.durable_frames()), (16384, 0));
        write(&mut w, 20000, true);
        assert_eq!((w.durable(), w.durable_frames()), (20000, 20000));
        write(&mut w, 40000, false);
        w.synced(w.to_sync());
        assert_eq!((w.durable(), w.durable_frames()), (32768, 20000));
        write(&mut w, 40000, false);
        w.synced(w.to_sync());
        assert_eq!((w.durable(), w.durable_frames()), (40000, 40000));
        // A write ends while a sync runs, again and again.
        for end in (40100..41000).step_by(100) {
            write(&mut w, end, false);
            let sync = w.to_sync();
            write(&mut w, end + 50, false);
            w.synced(sync);
            assert_eq!((w.durable(), w.durable_frames()), (end, end));
        }
        // Frames are ready faster than they are written.
        let mut w = LogWriter::new(0, 16384);
        let places: Vec<_> = (1..8)
            .map(|n| {
                write(&mut w, n * 30000, true);
                (w.durable(), w.durable_frames())
            })
            .filter(|(durable, frames)| durable == frames)
            .collect();
        assert_eq!(places, [(30000, 30000), (90000, 90000)]);
    }

    #[test]
    fn writer_3_and_4_in_any_order() {
        let mut w = LogWriter::new(0, 1 << 24);
        let a = w.begin(8192, 3).unwrap();
        let b = w.begin(12288, 3).unwrap();
        let c = w.begin(12300, 3).unwrap();
        assert_eq!((b.start, c.start, w.in_flight()), (8192, 12288, 3));
        // The depth is reached, and the last block is not full.
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

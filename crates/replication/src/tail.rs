//! The last events of the log in memory. All dumps at the end of the log read them here: they read
//! no file, check no checksum that the task has just made, and have no buffer of their own.
//!
//! - LATEST-1: the bytes are those that were written to the file. A dump takes only what is
//!   published.
//! - LATEST-2: the memory is bounded, and nothing is kept while nobody reads. A dump that waits for
//!   its replica holds one chunk at most.
//! - LATEST-3: behind RESET BINARY LOGS AND GTIDS other events have the same places. A dump says
//!   which log it reads, and gets no event of another.
use parking_lot::Mutex;
use redolith_binlog::Header;
use redolith_binlog::file::FIRST_EVENT_AT;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// The most bytes of all chunks.
const MOST_BYTES: usize = 4 << 20;
/// The most bytes of a chunk. A longer event is in none.
const CHUNK: usize = 64 << 10;

/// Whole events of a file, one behind the other.
#[derive(Clone)]
pub(crate) struct Chunk {
    file: u32,
    at: u64,
    bytes: Arc<[u8]>,
}
impl Chunk {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
    /// The event that begins at a place, and where it is in the chunk.
    pub(crate) fn event(&self, file: u32, at: u64) -> Option<(Header, std::ops::Range<usize>)> {
        if self.file != file || !(self.at..self.end()).contains(&at) {
            return None;
        }
        let from = (at - self.at) as usize;
        let header = Header::decode(&self.bytes[from..]).ok()?;
        Some((header, from..from + header.len as usize))
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The last events of the log.
#[derive(Default)]
pub(crate) struct Tail {
    wanted: AtomicBool,
    state: Mutex<State>,
}
#[derive(Default)]
struct State {
    /// How often the log has begun anew (LATEST-3).
    log: u64,
    chunks: VecDeque<Chunk>,
    bytes: usize,
}
impl State {
    fn forget(&mut self) {
        *self = State { log: self.log, ..State::default() };
    }
}

impl Tail {
    /// Says whether somebody reads.
    pub(crate) fn want(&self, wanted: bool) {
        if self.wanted.swap(wanted, SeqCst) && !wanted {
            self.state.lock().forget();
        }
    }
    /// Whether somebody reads.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(SeqCst)
    }

    /// The log begins anew.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.state.lock();
        state.forget();
        state.log += 1;
    }
    /// The number of the log for [`Tail::find`]. To be asked before the log is looked at.
    pub(crate) fn log(&self) -> u64 {
        self.state.lock().log
    }

    /// Bytes were written at the end of a file.
    pub(crate) fn add(&self, file: u32, at: u64, bytes: &[u8]) {
        let mut begin = if at == 0 { FIRST_EVENT_AT as usize } else { 0 };
        let mut end = begin;
        while let Some(Ok(header)) = bytes.get(end..).map(Header::decode) {
            let next = end + header.len as usize;
            // Where no event begins, nobody looks.
            let fits = (at + next as u64) as u32 == header.end_pos;
            if (header.len as usize) < Header::LEN || next > bytes.len() || !fits {
                break;
            }
            if next - begin > CHUNK {
                self.push(file, at + begin as u64, &bytes[begin..end]);
                begin = end;
            }
            end = next;
        }
        self.push(file, at + begin as u64, &bytes[begin.min(bytes.len())..end.min(bytes.len())]);
    }
    fn push(&self, file: u32, at: u64, bytes: &[u8]) {
        if bytes.is_empty() || bytes.len() > CHUNK {
            return;
        }
        let chunk = Chunk { file, at, bytes: bytes.into() };
        let state = &mut *self.state.lock();
        state.bytes += bytes.len();
        state.chunks.push_back(chunk);
        while state.bytes > MOST_BYTES
            && let Some(old) = state.chunks.pop_front()
        {
            state.bytes -= old.bytes.len();
        }
    }

    /// The chunk that has the event at a place, if the log is still this one.
    pub(crate) fn find(&self, log: u64, file: u32, at: u64) -> Option<Chunk> {
        let state = self.state.lock();
        if state.log != log {
            return None;
        }
        let before = state.chunks.partition_point(|chunk| (chunk.file, chunk.at) <= (file, at));
        let chunk = state.chunks.get(before.checked_sub(1)?)?;
        (chunk.file == file && at < chunk.end()).then(|| chunk.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_binlog::{Checksum, Event, Stamp, append};

    /// Events of these lengths behind `at`.
    fn events(at: u64, lens: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for len in lens {
            let text = vec![b'x'; len - Header::LEN - 4];
            let (stamp, at) = (Stamp { timestamp: 1, server_id: 1 }, at + out.len() as u64);
            append(&mut out, &Event::Heartbeat(&text), stamp, at, Checksum::Crc32).unwrap();
        }
        out
    }

    /// Tests LATEST-1.
    #[test]
    fn events_are_found_where_they_begin() {
        let tail = Tail::default();
        let written = events(100, &[50, 60, 70_000, 80, 40_000, 40_000]);
        tail.add(3, 100, &written);
        let at = |at: u64| {
            let chunk = tail.find(0, 3, at)?;
            let (header, range) = chunk.event(3, at)?;
            assert_eq!(chunk.bytes()[range.clone()], written[(at - 100) as usize..][..range.len()]);
            Some(header.len)
        };
        assert_eq!((at(100), at(150)), (Some(50), Some(60)));
        // It is longer than a chunk.
        assert_eq!(at(210), None);
        assert_eq!(at(70_210), Some(80));
        assert_eq!((at(70_290), at(110_290), at(150_290)), (Some(40_000), Some(40_000), None));
        assert!(tail.find(0, 3, 99).is_none() && tail.find(0, 2, 100).is_none());
        assert!(tail.find(0, 4, 100).is_none());
        // A file's head, and what is no event.
        let mut head = b"\xfebin".to_vec();
        head.extend_from_slice(&events(4, &[100]));
        head.extend_from_slice(&[7; 30]);
        tail.add(4, 0, &head);
        assert!(tail.find(0, 4, 4).is_some() && tail.find(0, 4, 104).is_none());
        tail.add(4, 104, &[7; 30]);
        tail.add(4, 0, b"\xfe");
        assert!(tail.find(0, 4, 104).is_none());
    }

    /// Tests LATEST-2.
    #[test]
    fn the_memory_is_bounded_and_given_back() {
        let tail = Tail::default();
        tail.want(true);
        let mut at = 4;
        for _ in 0..1000 {
            let written = events(at, &[30_000]);
            tail.add(1, at, &written);
            at += 30_000;
            assert!(tail.state.lock().bytes <= MOST_BYTES);
        }
        assert!(tail.find(0, 1, at - 30_000).is_some() && tail.find(0, 1, 4).is_none());
        let state = tail.state.lock();
        assert_eq!(state.bytes, state.chunks.iter().map(|c| c.bytes.len()).sum::<usize>());
        drop(state);
        tail.want(false);
        let state = tail.state.lock();
        assert_eq!((state.bytes, state.chunks.len()), (0, 0));
    }
}

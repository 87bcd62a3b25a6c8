//! Splits the bytes that a client sends into packets, in place.
//!
//! ```text
//! offset  bytes  of a packet
//! 0       3      length of the body, little-endian
//! 3       1      sequence number: 0 for a command, then one more for each packet, either way
//! 4       n      body; a body of 0xff_ffff bytes is continued by the next packet, which may be
//!                empty
//! ```
//!
//! PKT-1: a body is handed out as a range of the buffer; only the bodies of a chain are moved,
//! together, over the headers between them.
//! PKT-2: the buffer grows with the bytes that have arrived, never by the length that a header
//! announces.
//! PKT-3: a body above the limit is refused when the header that passes the limit is seen.
use std::ops::Range;

pub const HEADER: usize = 4;
/// The largest body of one packet; a body of this length says that more follows.
pub const MAX_BODY: usize = 0xff_ffff;
/// The least room for a read from the socket.
const READ_AT_LEAST: usize = 1 << 10;
/// A buffer shrinks when less than this part of it waits to be handed out.
const LEFT_PART: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    #[error("Got a packet bigger than 'max_allowed_packet' bytes")]
    TooLarge,
    #[error("Got packets out of order")]
    OutOfOrder,
}

/// Bytes that were received and are not answered yet.
#[derive(Debug, Default)]
pub struct PacketBuffer {
    buf: Vec<u8>,
    /// Where the present packet begins, with its first header.
    begin: usize,
    /// Where the present packet's next header is.
    scan: usize,
    /// Bytes of the present packet's body that are in place, from `begin + HEADER` on.
    body: usize,
    /// Bytes known to be missing, counted from the end of the buffer.
    missing: usize,
    /// Bytes that `discard` has dropped of the present body.
    skipped: usize,
}

impl PacketBuffer {
    /// Returns the next whole body, as a range for [`PacketBuffer::body`], or `None` when more
    /// bytes are needed. `sequence` is the number that the first packet must bear, and becomes the
    /// number that the answer must bear.
    pub fn next(
        &mut self,
        sequence: &mut u8,
        max_body: usize,
    ) -> Result<Option<Range<usize>>, PacketError> {
        let mut number = sequence.wrapping_add(self.parts());
        loop {
            let Some(&[a, b, c, n]) = self.buf[self.scan..].first_chunk::<HEADER>() else {
                self.missing = HEADER - (self.buf.len() - self.scan);
                return Ok(None);
            };
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            if n != number {
                return Err(PacketError::OutOfOrder);
            }
            if self.body + len > max_body {
                return Err(PacketError::TooLarge);
            }
            let from = self.scan + HEADER;
            if self.buf.len() - from < len {
                self.missing = len - (self.buf.len() - from);
                return Ok(None);
            }
            let to = self.begin + HEADER + self.body;
            if to != from {
                self.buf.copy_within(from..from + len, to);
            }
            self.body += len;
            self.scan = from + len;
            number = number.wrapping_add(1);
            if len < MAX_BODY {
                let body = self.begin + HEADER..self.begin + HEADER + self.body;
                *sequence = number;
                (self.begin, self.body, self.missing) = (self.scan, 0, 0);
                return Ok(Some(body));
            }
        }
    }

    /// Drops what has arrived of a packet after `TooLarge`. Returns true when the whole packet has
    /// been dropped; `sequence` is then the number of the answer.
    pub fn discard(&mut self, sequence: &mut u8) -> bool {
        loop {
            let Some(&[a, b, c, number]) = self.buf[self.scan..].first_chunk::<HEADER>() else {
                self.buf.drain(self.begin..self.scan);
                (self.scan, self.body, self.missing) = (self.begin, 0, 1);
                return false;
            };
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            let from = self.scan + HEADER;
            let here = len.min(self.buf.len() - from);
            if here < len {
                // The rest of this body stays as a packet that is shorter by the bytes dropped so
                // far.
                let left = (len - here) as u32;
                let header =
                    [left.to_le_bytes()[0], left.to_le_bytes()[1], left.to_le_bytes()[2], number];
                self.buf.truncate(self.begin);
                self.buf.extend_from_slice(&header);
                self.skipped += here;
                (self.scan, self.body, self.missing) = (self.begin, 0, 1);
                return false;
            }
            self.scan = from + len;
            *sequence = number.wrapping_add(1);
            if len + std::mem::take(&mut self.skipped) < MAX_BODY {
                self.begin = self.scan;
                (self.body, self.missing) = (0, 0);
                return true;
            }
        }
    }

    /// Packets of the current chain that are already in place.
    fn parts(&self) -> u8 {
        (self.body / MAX_BODY) as u8
    }

    pub fn body(&self, range: Range<usize>) -> &[u8] {
        &self.buf[range]
    }

    /// What has arrived of the present packet's body, up to the end of its first part.
    pub fn begun(&self) -> &[u8] {
        self.buf.get(self.begin + HEADER..).unwrap_or_default()
    }

    /// Whether part of a packet has arrived and the rest has not.
    pub fn is_partial(&self) -> bool {
        self.buf.len() > self.begin
    }

    /// Makes room for the next read, after `next` has returned `None`. Bodies that were handed out
    /// before become invalid.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.forget_earlier();
        // Reserving as much as has arrived keeps the copies linear, and a header that announces too
        // much costs little (PKT-2).
        let want = self.missing.min(self.buf.len()).max(READ_AT_LEAST);
        if self.buf.capacity() - self.buf.len() < want.min(self.missing.max(1)) {
            self.buf.reserve(want);
        }
        &mut self.buf
    }

    /// Drops the bodies that were handed out.
    fn forget_earlier(&mut self) {
        if self.begin > 0 {
            if self.begin == self.buf.len() {
                self.buf.clear();
            } else {
                self.buf.drain(..self.begin);
            }
            self.scan -= self.begin;
            self.begin = 0;
        }
    }

    /// Frees the buffer, or most of it if it holds what was not handed out. Bodies that were handed
    /// out before become invalid.
    pub fn trim(&mut self) {
        if !self.is_partial() {
            *self = PacketBuffer::default();
        } else if self.buf.len() - self.begin < self.buf.capacity() / LEFT_PART {
            // What is moved is little beside what has been handed out since the last move.
            self.forget_earlier();
            self.shrink();
        }
    }
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }
    /// Shrinks the buffer to about what its contents need.
    pub fn shrink(&mut self) {
        self.buf.shrink_to(2 * READ_AT_LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u8, body: &[u8]) -> Vec<u8> {
        let mut p = (body.len() as u32).to_le_bytes()[..3].to_vec();
        p.push(seq);
        p.extend_from_slice(body);
        p
    }
    fn feed(b: &mut PacketBuffer, bytes: &[u8]) {
        b.room().extend_from_slice(bytes);
    }

    #[test]
    fn packets_come_whole_whatever_the_cuts() {
        let mut stream = packet(0, b"first");
        stream.extend(packet(0, b""));
        stream.extend(packet(0, &[3; 5000]));
        for step in [1, 2, 3, 7, 4096, 10_000] {
            let (mut b, mut got) = (PacketBuffer::default(), Vec::new());
            for chunk in stream.chunks(step) {
                feed(&mut b, chunk);
                let mut seq = 0;
                while let Some(r) = b.next(&mut seq, 1 << 20).unwrap() {
                    assert_eq!(seq, 1);
                    seq = 0;
                    got.push(b.body(r).to_vec());
                }
            }
            assert_eq!(got, vec![b"first".to_vec(), vec![], vec![3; 5000]]);
            assert!(!b.is_partial());
        }
    }

    #[test]
    fn a_chain_is_one_body() {
        let whole: Vec<u8> = (0..MAX_BODY * 2 + 10).map(|i| (i % 251) as u8).collect();
        for len in [MAX_BODY * 2 + 10, MAX_BODY, MAX_BODY * 2] {
            let mut stream = Vec::new();
            let mut n = 0;
            for part in whole[..len].chunks(MAX_BODY) {
                stream.extend(packet(n, part));
                n += 1;
            }
            if len % MAX_BODY == 0 {
                stream.extend(packet(n, b""));
                n += 1;
            }
            let (mut b, mut got) = (PacketBuffer::default(), None);
            for chunk in stream.chunks(1 << 20) {
                assert_eq!(got, None);
                feed(&mut b, chunk);
                let mut seq = 0;
                got = b.next(&mut seq, 1 << 30).unwrap();
                if got.is_some() {
                    assert_eq!(seq, n);
                }
            }
            assert!(b.body(got.unwrap()) == &whole[..len]);
        }
    }

    /// Tests PKT-3.
    #[test]
    fn limits_and_order() {
        let mut b = PacketBuffer::default();
        feed(&mut b, &packet(0, &[1; 100])[..4]);
        assert_eq!(b.next(&mut 0, 99), Err(PacketError::TooLarge));
        let mut b = PacketBuffer::default();
        feed(&mut b, &packet(1, b"x"));
        assert_eq!(b.next(&mut 0, 99), Err(PacketError::OutOfOrder));
        // The second part of a chain must bear the next number, and counts towards the limit.
        let mut b = PacketBuffer::default();
        feed(&mut b, &packet(0, &vec![1; MAX_BODY]));
        assert_eq!(b.next(&mut 0, MAX_BODY + 5), Ok(None));
        feed(&mut b, &[6, 0, 0, 1]);
        assert_eq!(b.next(&mut 0, MAX_BODY + 5), Err(PacketError::TooLarge));
        assert_eq!(b.next(&mut 0, MAX_BODY + 6), Ok(None));
        assert_eq!(b.next(&mut 1, MAX_BODY + 6), Err(PacketError::OutOfOrder));
    }

    #[test]
    fn a_chain_that_is_too_large_is_dropped_to_its_end() {
        for len in [5000, MAX_BODY, MAX_BODY + 7, 2 * MAX_BODY] {
            let mut stream = Vec::new();
            let whole = vec![1; len];
            let parts: Vec<&[u8]> =
                whole.chunks(MAX_BODY).chain((len % MAX_BODY == 0).then_some(&[][..])).collect();
            for (n, part) in parts.iter().enumerate() {
                stream.extend(packet(n as u8, part));
            }
            stream.extend(packet(0, b"next"));
            for step in [1000, 65536, 7_000_001] {
                let (mut b, mut sequence, mut refused, mut dropped) =
                    (PacketBuffer::default(), 0, false, None);
                for chunk in stream.chunks(step) {
                    feed(&mut b, chunk);
                    refused = refused || b.next(&mut sequence, 4000) == Err(PacketError::TooLarge);
                    if refused && dropped.is_none() {
                        dropped = b.discard(&mut sequence).then_some(sequence);
                        assert!(b.buf.len() <= step + 2 * HEADER + 16);
                    }
                }
                assert_eq!(dropped, Some(parts.len() as u8), "{len} {step}");
                let r = b.next(&mut 0, 4000).unwrap().unwrap();
                assert_eq!(b.body(r), b"next");
            }
        }
    }

    #[test]
    fn the_beginning_of_a_body_is_known_before_its_end() {
        let stream = [packet(0, b"whole"), packet(0, b"\x18part")].concat();
        let mut b = PacketBuffer::default();
        feed(&mut b, &stream[..9 + HEADER]);
        assert!(b.next(&mut 0, 99).unwrap().is_some());
        assert_eq!((b.next(&mut 0, 99), b.begun()), (Ok(None), &b""[..]));
        feed(&mut b, &stream[9 + HEADER..9 + HEADER + 2]);
        assert_eq!((b.next(&mut 0, 99), b.begun()), (Ok(None), &b"\x18p"[..]));
    }

    #[test]
    fn a_buffer_with_part_of_a_packet_is_trimmed_to_it() {
        let (long, short) = (packet(0, &[7; 1 << 20]), packet(0, b"short"));
        let mut b = PacketBuffer::default();
        feed(&mut b, &[&long[..], &short, &short[..6]].concat());
        b.trim();
        assert!(b.capacity() > 1 << 20, "the long packet is still needed");
        assert_eq!(b.next(&mut 0, 1 << 30).unwrap().unwrap().len(), 1 << 20);
        b.trim();
        assert!(b.capacity() <= 2 * READ_AT_LEAST);
        let r = b.next(&mut 0, 99).unwrap().unwrap();
        assert_eq!(b.body(r), b"short");
        b.trim();
        assert_eq!(b.next(&mut 0, 99), Ok(None));
        feed(&mut b, &short[6..]);
        let r = b.next(&mut 0, 99).unwrap().unwrap();
        assert_eq!(b.body(r), b"short");
        b.trim();
        assert_eq!(b.capacity(), 0);
    }

    #[test]
    fn an_announced_length_costs_no_memory() {
        let mut b = PacketBuffer::default();
        feed(&mut b, &[0xff, 0xff, 0xff, 0]);
        assert_eq!(b.next(&mut 0, 1 << 30), Ok(None));
        assert!(b.room().capacity() <= 4 << 10);
    }

    #[test]
    fn random_input_never_panics() {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for _ in 0..2_000 {
            let mut b = PacketBuffer::default();
            let mut seq = 0;
            for _ in 0..random() % 20 {
                let n = random() % 40;
                let bytes: Vec<u8> =
                    (0..n).map(|_| if random() % 3 == 0 { random() as u8 } else { 0 }).collect();
                feed(&mut b, &bytes);
                loop {
                    match b.next(&mut seq, 1 << 16) {
                        Ok(Some(r)) => assert!(b.body(r).len() <= 1 << 16),
                        Ok(None) => break,
                        Err(_) => {
                            b = PacketBuffer::default();
                            break;
                        }
                    }
                    seq = 0;
                }
            }
        }
    }
}

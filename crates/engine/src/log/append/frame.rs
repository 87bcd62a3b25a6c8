//! A frame: the redo of one mini-transaction in the redo stream. Frames follow each other without
//! gaps, blocks or alignment.
//!
//! | offset | bytes | what (little-endian) |
//! |---|---|---|
//! | 0 | 4 | CRC-32C over the payload and then bytes 4..20, begun from the CRC-32C of (log id, epoch) |
//! | 4 | 3 | length of the payload in bytes, never 0 |
//! | 7 | 1 | kind: 4 changes of a mini-transaction, 5 a new epoch begins, 6 nothing: it fills a block |
//! | 8 | 8 | LSN of the frame's first byte |
//! | 16 | 4 | behind: LSN minus an LSN below which everything was durable when the frame was made; all ones: unknown |
//! | 20 | | payload |
//!
//! Kinds 1, 2 and 3 are kinds 4, 5 and 6 of directories of format 2 and before: they have no
//! `behind`, and their payload is at 16. They are read, never written.
//!
//! - FRAME-1: a frame verifies only at its own LSN, in its own log, in its own epoch. A CRC is a
//!   bijection of its start value, so the same bytes never verify in two epochs. Bytes that a crash
//!   left behind the end of the log therefore cannot come back after recovery has raised the epoch.
//! - FRAME-2: zeros are not a frame (kind 0).
//! - FRAME-3: a frame that verifies proves that everything below its `durable` was on the medium
//!   once. If the log cannot be read up to this LSN, it is damaged: a crash takes away only bytes
//!   that were not durable.
//!
//! The payload goes into the checksum first, because it is known before the LSN: only 16 bytes are
//! hashed after the reservation.
use crate::bytes::{u32_at, u64_at};

/// The bytes before the payload.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub const FRAME_HEADER: usize = 20;
/// The bytes before the payload in format 2. No frame has a shorter header.
pub(in crate::log) const FRAME_HEADER_2: usize = 16;
/// The most bytes of a payload.
pub(crate) const FRAME_PAYLOAD_MAX: usize = (1 << 24) - 1;

pub(in crate::log) const KIND_CHANGES: u8 = 4;
pub(in crate::log) const KIND_EPOCH: u8 = 5;
/// A frame without content: the next write then begins at a block of its own.
pub(in crate::log) const KIND_PAD: u8 = 6;
/// The number that turns a kind of format 2 into the present kind, when added.
const KINDS_2: u8 = 3;
/// The length of a whole epoch frame, whose payload is the new epoch (u64).
pub(in crate::log) const EPOCH_FRAME: usize = FRAME_HEADER + 8;

/// The value with which every checksum of one epoch of one log begins.
pub(in crate::log) fn seed(log_id: u64, epoch: u64) -> u32 {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&log_id.to_le_bytes());
    b[8..].copy_from_slice(&epoch.to_le_bytes());
    crc32c::crc32c(&b)
}

/// The part of the checksum that needs no LSN.
pub(in crate::log) fn payload_crc(seed: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, payload)
}

/// Fills in the header of `frame`, whose payload is complete and has the checksum `payload_crc`.
/// Everything below `durable` is durable.
pub(in crate::log) fn finish(frame: &mut [u8], kind: u8, lsn: u64, durable: u64, payload_crc: u32) {
    let len = frame.len() - FRAME_HEADER;
    debug_assert!(len > 0 && len <= FRAME_PAYLOAD_MAX && durable <= lsn);
    let behind = u32::try_from(lsn - durable).unwrap_or(u32::MAX);
    frame[4..8].copy_from_slice(&(len as u32 | (kind as u32) << 24).to_le_bytes());
    frame[8..16].copy_from_slice(&lsn.to_le_bytes());
    frame[16..20].copy_from_slice(&behind.to_le_bytes());
    let crc = crc32c::crc32c_append(payload_crc, &frame[4..FRAME_HEADER]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

/// A frame that begins a new epoch at `lsn`, below which everything is durable. Its checksum begins
/// with the new epoch's seed.
pub(in crate::log) fn epoch_frame(log_id: u64, epoch: u64, lsn: u64) -> [u8; EPOCH_FRAME] {
    let mut f = [0; EPOCH_FRAME];
    f[FRAME_HEADER..].copy_from_slice(&epoch.to_le_bytes());
    let crc = payload_crc(seed(log_id, epoch), &f[FRAME_HEADER..]);
    finish(&mut f, KIND_EPOCH, lsn, lsn, crc);
    f
}
/// The epoch that a whole epoch frame begins. None if the payload is not an epoch.
pub(in crate::log) fn epoch_of(frame: &[u8], h: &Header) -> Option<u64> {
    Some(u64::from_le_bytes(frame[h.header..].try_into().ok()?))
}

/// A header as read. It may be anything until the frame verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) struct Header {
    /// One of the present kinds, or an unknown kind.
    pub kind: u8,
    /// The bytes before the payload, and the bytes of the payload.
    pub header: usize,
    pub len: usize,
    pub lsn: u64,
    /// Everything below was durable when the frame was made (FRAME-3); 0 if this is unknown.
    pub durable: u64,
}
impl Header {
    /// Reads a header from `b`, which has at least [`FRAME_HEADER_2`] bytes. `durable` is known
    /// only if `b` has [`FRAME_HEADER`] bytes.
    pub(crate) fn read(b: &[u8]) -> Header {
        let word = u32_at(b, 4);
        let lsn = u64_at(b, 8);
        let kind = (word >> 24) as u8;
        let old = (1..=KINDS_2).contains(&kind);
        let durable = match b.get(FRAME_HEADER_2..FRAME_HEADER) {
            Some(behind) if !old => match u32_at(behind, 0) {
                u32::MAX => 0,
                n => lsn.saturating_sub(u64::from(n)),
            },
            _ => 0,
        };
        Header {
            kind: if old { kind + KINDS_2 } else { kind },
            header: if old { FRAME_HEADER_2 } else { FRAME_HEADER },
            len: (word & 0xff_ffff) as usize,
            lsn,
            durable,
        }
    }
    /// The bytes of the whole frame.
    pub(crate) fn frame_len(&self) -> usize {
        self.header + self.len
    }
    /// Whether this can be the header of a frame at `lsn`, as far as the header alone can tell.
    pub(crate) fn plausible_at(&self, lsn: u64) -> bool {
        self.lsn == lsn && self.len > 0 && matches!(self.kind, KIND_CHANGES | KIND_EPOCH | KIND_PAD)
    }
}

/// Whether `frame`, a header and its whole payload, was written in the epoch of `seed`.
pub(in crate::log) fn verifies(frame: &[u8], h: &Header, seed: u32) -> bool {
    let crc = crc32c::crc32c_append(payload_crc(seed, &frame[h.header..]), &frame[4..h.header]);
    frame[..4] == crc.to_le_bytes()
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    fn sample(seed: u32, lsn: u64) -> Vec<u8> {
        let mut f = vec![0; FRAME_HEADER];
        f.extend_from_slice(b"page 7 offset 100 bytes");
        let crc = payload_crc(seed, &f[FRAME_HEADER..]);
        finish(&mut f, KIND_CHANGES, lsn, 4000, crc);
        f
    }

    #[test]
    fn round_trip() {
        let s = seed(42, 1);
        let f = sample(s, 4096);
        let h = Header::read(&f);
        assert_eq!(
            (h.len, h.header, h.kind, h.lsn, h.durable),
            (23, FRAME_HEADER, KIND_CHANGES, 4096, 4000)
        );
        assert!(h.plausible_at(4096) && !h.plausible_at(4097));
        assert!(verifies(&f, &h, s));
    }

    #[test]
    fn frame_1_no_bit_log_or_epoch_is_taken_for_another() {
        let s = seed(42, 1);
        let f = sample(s, 4096);
        let h = Header::read(&f);
        for bit in 0..f.len() * 8 {
            let mut g = f.clone();
            g[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !verifies(&g, &Header { header: FRAME_HEADER, ..Header::read(&g) }, s),
                "bit {bit}"
            );
        }
        for epoch in 2..1000 {
            assert!(!verifies(&f, &h, seed(42, epoch)));
        }
        assert!(!verifies(&f, &h, seed(43, 1)));
    }

    #[test]
    fn frame_2_zeros_are_no_frame() {
        assert!(!Header::read(&[0; 16]).plausible_at(0));
    }

    /// A frame of format 2 has a header of 16 bytes and the kinds 1 to 3.
    #[test]
    fn frames_of_format_2_are_read() {
        let s = seed(42, 1);
        let mut f = [&[0; 16][..], b"page 7"].concat();
        f[4..8].copy_from_slice(&(6u32 | 1 << 24).to_le_bytes());
        f[8..16].copy_from_slice(&4096u64.to_le_bytes());
        let crc = crc32c::crc32c_append(payload_crc(s, b"page 7"), &f[4..16]);
        f[..4].copy_from_slice(&crc.to_le_bytes());
        let h = Header::read(&f);
        assert_eq!((h.kind, h.header, h.len, h.durable), (KIND_CHANGES, 16, 6, 0));
        assert!(h.plausible_at(4096) && verifies(&f, &h, s) && !verifies(&f, &h, seed(42, 2)));
    }

    #[test]
    fn frame_3_a_distance_that_does_not_fit_says_nothing() {
        let mut f = [0; EPOCH_FRAME];
        finish(&mut f, KIND_CHANGES, 1 << 40, 7, 0);
        assert_eq!(Header::read(&f).durable, 0);
        finish(&mut f, KIND_CHANGES, (1 << 40) + 7, 1 << 40, 0);
        assert_eq!(Header::read(&f).durable, 1 << 40);
    }
}

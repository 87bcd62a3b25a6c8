//! A frame: one mini-transaction in the redo stream. Frames follow each other without gaps, blocks or alignment.
//!
//! | offset | bytes | what (little-endian) |
//! |---|---|---|
//! | 0 | 4 | CRC-32C over the payload and then bytes 4..16, begun from the CRC-32C of (log id, epoch) |
//! | 4 | 3 | length of the payload in bytes, never 0 |
//! | 7 | 1 | kind: 1 changes of a mini-transaction, 2 a new epoch begins, 3 nothing: it fills a block |
//! | 8 | 8 | LSN of the frame's first byte |
//! | 16 | | payload |
//!
//! FRAME-1: a frame verifies only at its own LSN, in its own log, in its own epoch. A CRC is a bijection of its start value, so the same bytes
//! never verify in two epochs: what a crash left behind the end of the log cannot come back after recovery has raised the epoch.
//! FRAME-2: zeros are not a frame (kind 0).
//!
//! The payload goes into the checksum first, because it is known before the LSN is: only 12 bytes are hashed after the reservation.

/// Bytes before the payload.
pub const FRAME_HEADER: usize = 16;
/// The longest payload.
pub const FRAME_PAYLOAD_MAX: usize = (1 << 24) - 1;

pub(super) const KIND_CHANGES: u8 = 1;
pub(super) const KIND_EPOCH: u8 = 2;
/// So that the next write begins at a block of its own.
pub(super) const KIND_PAD: u8 = 3;
/// The whole length of an epoch frame: its payload is the new epoch (u64).
pub(super) const EPOCH_FRAME: usize = FRAME_HEADER + 8;

/// Where every checksum of one epoch of one log begins.
pub(super) fn seed(log_id: u64, epoch: u64) -> u32 {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&log_id.to_le_bytes());
    b[8..].copy_from_slice(&epoch.to_le_bytes());
    crc32c::crc32c(&b)
}

/// The part of the checksum that needs no LSN.
pub(super) fn payload_crc(seed: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, payload)
}

/// Fills in the header of `frame`, whose payload is complete and has `payload_crc`.
pub(super) fn finish(frame: &mut [u8], kind: u8, lsn: u64, payload_crc: u32) {
    let len = frame.len() - FRAME_HEADER;
    debug_assert!(len > 0 && len <= FRAME_PAYLOAD_MAX);
    frame[4..8].copy_from_slice(&(len as u32 | (kind as u32) << 24).to_le_bytes());
    frame[8..16].copy_from_slice(&lsn.to_le_bytes());
    let crc = crc32c::crc32c_append(payload_crc, &frame[4..16]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

/// A frame that begins a new epoch at `lsn`; sealed with the new epoch's seed.
pub(super) fn epoch_frame(log_id: u64, epoch: u64, lsn: u64) -> [u8; EPOCH_FRAME] {
    let mut f = [0; EPOCH_FRAME];
    f[FRAME_HEADER..].copy_from_slice(&epoch.to_le_bytes());
    let crc = payload_crc(seed(log_id, epoch), &f[FRAME_HEADER..]);
    finish(&mut f, KIND_EPOCH, lsn, crc);
    f
}

/// A header as read, not yet believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub crc: u32,
    pub len: usize,
    pub kind: u8,
    pub lsn: u64,
}
impl Header {
    pub fn read(b: &[u8; FRAME_HEADER]) -> Header {
        let word = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
        let (crc, lsn) = b.split_at(8);
        Header {
            crc: u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]),
            len: (word & 0xff_ffff) as usize,
            kind: (word >> 24) as u8,
            lsn: u64::from_le_bytes(lsn.try_into().expect("8 bytes")),
        }
    }
    /// Whether this can be the header of a frame at `lsn`, as far as can be told without its payload.
    pub fn plausible_at(&self, lsn: u64) -> bool {
        self.lsn == lsn && self.len > 0 && matches!(self.kind, KIND_CHANGES | KIND_EPOCH | KIND_PAD)
    }
}

/// Whether `frame`, a header and its whole payload, is what was written in the epoch of `seed`.
pub(super) fn verifies(frame: &[u8], seed: u32) -> bool {
    let crc = crc32c::crc32c_append(payload_crc(seed, &frame[FRAME_HEADER..]), &frame[4..FRAME_HEADER]);
    frame[..4] == crc.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u32, lsn: u64) -> Vec<u8> {
        let mut f = vec![0; FRAME_HEADER];
        f.extend_from_slice(b"page 7 offset 100 bytes");
        let crc = payload_crc(seed, &f[FRAME_HEADER..]);
        finish(&mut f, KIND_CHANGES, lsn, crc);
        f
    }

    #[test]
    fn round_trip() {
        let s = seed(42, 1);
        let f = sample(s, 4096);
        let h = Header::read(f[..16].try_into().unwrap());
        assert_eq!((h.len, h.kind, h.lsn), (23, KIND_CHANGES, 4096));
        assert!(h.plausible_at(4096) && !h.plausible_at(4097));
        assert!(verifies(&f, s));
    }

    #[test]
    fn frame_1_no_bit_log_or_epoch_is_taken_for_another() {
        let s = seed(42, 1);
        let f = sample(s, 4096);
        for bit in 0..f.len() * 8 {
            let mut g = f.clone();
            g[bit / 8] ^= 1 << (bit % 8);
            assert!(!verifies(&g, s), "bit {bit}");
        }
        for epoch in 2..1000 {
            assert!(!verifies(&f, seed(42, epoch)));
        }
        assert!(!verifies(&f, seed(43, 1)));
    }

    #[test]
    fn frame_2_zeros_are_no_frame() {
        assert!(!Header::read(&[0; 16]).plausible_at(0));
    }
}

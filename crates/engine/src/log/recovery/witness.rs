//! A witness, outside the segments, of how far the log was durable.
//!
//! A segment that was replaced by an older copy of itself is whole, and its frames end where the
//! copy was made. If everything since then lay in this segment, nothing in the log shows that
//! commits are missing, and the pages may not have been written yet. So, while the log grows, its
//! durable LSN is written twenty times a second into the file `control`: two blocks of 4096 bytes
//! in turn, at 32768 and 36864, between the blocks of the states. Little-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `REDOSEEN` |
//! | 8 | 4 | CRC-32C of the bytes from 12 to 40 |
//! | 12 | 4 | zeros |
//! | 16 | 8 | log id |
//! | 24 | 8 | everything below this LSN was durable |
//! | 32 | 8 | epoch in force |
//!
//! WITNESS-1: nothing depends on the witness. It is written without a sync, costs no commit a
//! flush, and says nothing if it is torn, lost or of another log. If it names an LSN, the log was
//! durable up to this LSN (TAIL-1). A witness of one epoch says nothing of later epochs: the
//! durable part of a frame that a crash tore no longer belongs to the log.
use crate::bytes::u64_at;
use crate::log::Log;
use crate::log::write::segments::submitted;
use redolith_disk::{AlignedBuf, File, Op};
use std::sync::{Arc, Weak};
use std::time::Duration;

const MAGIC: &[u8; 8] = b"REDOSEEN";
const BLOCK: usize = 4096;
pub(in crate::log) const BLOCKS_AT: [u64; 2] = [32768, 36864];
/// The time between two writes of the witness while the log grows.
const EVERY: Duration = Duration::from_millis(50);

fn block(log_id: u64, epoch: u64, durable: u64) -> AlignedBuf {
    let mut b = AlignedBuf::new(BLOCK);
    b[..8].copy_from_slice(MAGIC);
    b[16..24].copy_from_slice(&log_id.to_le_bytes());
    b[24..32].copy_from_slice(&durable.to_le_bytes());
    b[32..40].copy_from_slice(&epoch.to_le_bytes());
    let crc = crc32c::crc32c(&b[12..40]);
    b[8..12].copy_from_slice(&crc.to_le_bytes());
    b
}
/// The log id, epoch and durable LSN of an undamaged block.
pub(in crate::log) fn fields(b: &[u8]) -> Option<(u64, u64, u64)> {
    let word = |at: usize| u64_at(b, at);
    let whole = &b[..8] == MAGIC && b[8..12] == crc32c::crc32c(&b[12..40]).to_le_bytes();
    whole.then(|| (word(16), word(32), word(24)))
}
fn decode(b: &[u8], log_id: u64, epoch: u64) -> Option<u64> {
    fields(b).filter(|(id, of, _)| (*id, *of) == (log_id, epoch)).map(|(.., durable)| durable)
}

/// The durable LSN that the witness in the control file names for this epoch; 0 if it says nothing.
pub(in crate::log) fn read(control: &dyn File, log_id: u64, epoch: u64) -> u64 {
    let seen = |at| {
        let mut b = AlignedBuf::new(BLOCK);
        control.read_at(&mut b, at).ok().and_then(|()| decode(&b, log_id, epoch))
    };
    BLOCKS_AT.into_iter().filter_map(seen).max().unwrap_or(0)
}

/// The background task that writes the witness.
pub(in crate::log) async fn keep_current(
    log: Weak<Log>,
    control: Arc<dyn File>,
    log_id: u64,
    epoch: u64,
) {
    let (mut told, mut turn) = (0, 0);
    loop {
        let Some(runtime) = log.upgrade().map(|log| log.runtime.clone()) else { return };
        runtime.sleep(EVERY).await;
        let Some(log) = log.upgrade() else { return };
        if log.is_closed() {
            return;
        }
        let durable = log.durable().0;
        if durable > told {
            drop(log);
            // WITNESS-1: a failed write is ignored. If the disk fails, the log's own writes report
            // it.
            let _ = submitted(&*control, Op::Write(block(log_id, epoch, durable)), BLOCKS_AT[turn])
                .await;
            (told, turn) = (durable, 1 - turn);
        }
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// Tests WITNESS-1.
    #[test]
    fn round_trip_damage_and_another_log() {
        let b = block(7, 3, 123_456);
        assert_eq!(decode(&b, 7, 3), Some(123_456));
        assert_eq!((decode(&b, 8, 3), decode(&b, 7, 4)), (None, None));
        for bit in 0..40 * 8 {
            let mut c = b.to_vec();
            c[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&c, 7, 3), None, "bit {bit}");
        }
        assert_eq!(decode(&[0; BLOCK], 0, 0), None);
    }
}

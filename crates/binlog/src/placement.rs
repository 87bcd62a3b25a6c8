//! Where a transaction stands in the binary log: what is known only when its turn has come.
//!
//! A transaction's events are encoded while it runs. Its place in the file, its GTID and its
//! logical clock are drawn when it commits. [`Placement`] is all that is drawn then, so the events
//! and the placement together give the bytes in the file ([`crate::TransactionEvents`]).
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | number of the file: 42 of `binlog.000042` |
//! | 4 | 8 | position of the transaction's first byte in the file |
//! | 12 | 16 | UUID of the GTID; zeros if anonymous |
//! | 28 | 8 | number of the GTID; 0 if anonymous |
//! | 36 | 8 | last_committed |
//! | 44 | 8 | sequence_number |
//! | 52 | 8 | commit on this server, microseconds since 1970 UTC |
use crate::bytes::{Input, put_u32, put_u64};
use crate::gtid::MAX_NUMBER;
use crate::{DecodeError, Gtid, Uuid};

/// A place in the binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BinlogPosition {
    /// The number of the file: 42 of `binlog.000042`.
    pub file: u32,
    /// Bytes from the start of the file.
    pub offset: u64,
}

/// The logical clock of a transaction, by which replicas apply in parallel. Both numbers count from
/// the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogicalClock {
    /// The `sequence_number` of the last transaction that must be committed before this one starts.
    pub last_committed: u64,
    /// The number of the transaction in its file, from 1.
    pub sequence_number: u64,
}

/// What a transaction draws when it commits. The head of the module has the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where the transaction's first byte stands.
    pub start: BinlogPosition,
    /// The transaction's name. `None`: the transaction is anonymous.
    pub gtid: Option<Gtid>,
    /// The logical clock.
    pub clock: LogicalClock,
    /// The time of the commit on this server, microseconds since 1970 UTC. 56 bits count.
    pub immediate_commit_us: u64,
}

impl Placement {
    /// Bytes of an encoded placement.
    pub const LEN: usize = 60;

    /// The encoded placement.
    pub fn encode(&self) -> [u8; Placement::LEN] {
        let mut out = Vec::with_capacity(Placement::LEN);
        put_u32(&mut out, self.start.file);
        put_u64(&mut out, self.start.offset);
        let gtid = self.gtid.unwrap_or(Gtid { uuid: Uuid([0; 16]), number: 0 });
        out.extend_from_slice(&gtid.uuid.0);
        put_u64(&mut out, gtid.number);
        put_u64(&mut out, self.clock.last_committed);
        put_u64(&mut out, self.clock.sequence_number);
        put_u64(&mut out, self.immediate_commit_us);
        out.try_into().expect("the fields above are 60 bytes")
    }

    /// Reads what [`Placement::encode`] made.
    pub fn decode(bytes: &[u8]) -> Result<Placement, DecodeError> {
        let mut input = Input::new(bytes, "the placement of a transaction");
        let start = BinlogPosition { file: input.u32()?, offset: input.u64()? };
        let (uuid, number) = (Uuid(input.array()?), input.u64()?);
        if start.offset > i64::MAX as u64 {
            return Err(input.wrong("a position that no file has"));
        }
        if number > MAX_NUMBER || (number == 0 && uuid != Uuid([0; 16])) {
            return Err(input.wrong("a GTID that does not exist"));
        }
        let gtid = (number != 0).then_some(Gtid { uuid, number });
        let clock = LogicalClock { last_committed: input.u64()?, sequence_number: input.u64()? };
        let immediate_commit_us = input.u64()?;
        input.end()?;
        Ok(Placement { start, gtid, clock, immediate_commit_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_come_back() {
        let named = Placement {
            start: BinlogPosition { file: 42, offset: 1 << 33 },
            gtid: Some(Gtid { uuid: Uuid([7; 16]), number: 99 }),
            clock: LogicalClock { last_committed: 3, sequence_number: 5 },
            immediate_commit_us: 1_700_000_000_123_456,
        };
        for placement in [named, Placement { gtid: None, ..named }] {
            let bytes = placement.encode();
            assert_eq!(Placement::decode(&bytes), Ok(placement));
            assert!(Placement::decode(&bytes[1..]).is_err());
            // The highest byte of the position; the lowest of an anonymous transaction's UUID, the
            // highest of a GTID's number.
            for (at, byte) in [(11, 0x80), (if placement.gtid.is_some() { 35 } else { 12 }, 0xff)] {
                let mut wrong = bytes;
                wrong[at] = byte;
                assert!(Placement::decode(&wrong).is_err(), "byte {at}");
            }
        }
    }
}

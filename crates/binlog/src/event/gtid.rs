//! GTID (33) and ANONYMOUS_GTID (34), the first event of each transaction.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 1 | 1: the transaction may have statements instead of rows |
//! | 1 | 16 | UUID; zeros if anonymous |
//! | 17 | 8 | number; 0 if anonymous |
//! | 25 | 1 | 2: a logical clock follows |
//! | 26 | 8 | last_committed |
//! | 34 | 8 | sequence_number |
//! | 42 | 7 | immediate_commit_timestamp, microseconds; the top bit is set if the original one follows |
//! | 49 | 0 or 7 | original_commit_timestamp |
//! | | 1, 3, 4, 9 | length of the transaction with this event, length-encoded |
//! | | 4 | version of this server; the top bit is set if the original one follows |
//! | | 0 or 4 | version of the server that first committed the transaction |
use crate::bytes::{Input, lenenc_len, put_lenenc, put_low, put_u32, put_u64};
use crate::checksum::Checksum;
use crate::{DecodeError, Gtid, Header, LogicalClock, Uuid};

/// The places, in the body, of what [`crate::Placement`] decides.
pub(crate) const GTID_AT: usize = 1;
pub(crate) const CLOCK_AT: usize = 26;
pub(crate) const COMMIT_AT: usize = 42;
/// Bytes of a timestamp.
pub(crate) const TIMESTAMP_LEN: usize = 7;
/// In the last byte of a timestamp: another timestamp follows.
pub(crate) const HAS_ORIGINAL: u8 = 0x80;
const HAS_ORIGINAL_TIMESTAMP: u64 = 1 << 55;
const HAS_ORIGINAL_VERSION: u32 = 1 << 31;
const CLOCK_TYPE: u8 = 2;

/// The most bytes of the event that this crate writes.
pub(crate) const MAX_LEN: usize =
    Header::LEN + COMMIT_AT + 2 * TIMESTAMP_LEN + 9 + 8 + crate::checksum::CRC_LEN;

/// The body of a GTID or ANONYMOUS_GTID event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidEvent {
    /// Whether the transaction may have statements instead of rows, as DDL has.
    pub may_have_statements: bool,
    /// The transaction's name. `None`: ANONYMOUS_GTID.
    pub gtid: Option<Gtid>,
    /// The logical clock.
    pub clock: LogicalClock,
    /// The commit on the server that wrote the file, microseconds since 1970 UTC.
    pub immediate_commit_us: u64,
    /// The first commit, on another server. `None`: the transaction was first committed here.
    pub original_commit_us: Option<u64>,
    /// Bytes of the transaction's events with this one.
    pub transaction_len: u64,
    /// The version of the server that wrote the file: 80036 is 8.0.36.
    pub server_version: u32,
    /// The version of the server that first committed the transaction, if it is another.
    pub original_server_version: Option<u32>,
}

impl GtidEvent {
    /// Bytes of the whole event, if the rest of the transaction has `rest` bytes.
    pub(crate) fn event_len(&self, rest: u64, checksum: Checksum) -> u64 {
        let fixed = Header::LEN
            + COMMIT_AT
            + TIMESTAMP_LEN * (1 + usize::from(self.original_commit_us.is_some()))
            + 4 * (1 + usize::from(self.original_server_version.is_some()))
            + checksum.len();
        // The length counts its own bytes. The sizes are tried from the shortest.
        let len = [1, 3, 4]
            .map(|size| fixed + size)
            .into_iter()
            .find(|len| fixed + lenenc_len(rest + *len as u64) == *len);
        len.unwrap_or(fixed + 9) as u64
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.may_have_statements));
        let gtid = self.gtid.unwrap_or(Gtid { uuid: Uuid([0; 16]), number: 0 });
        out.extend_from_slice(&gtid.uuid.0);
        put_u64(out, gtid.number);
        out.push(CLOCK_TYPE);
        put_u64(out, self.clock.last_committed);
        put_u64(out, self.clock.sequence_number);
        let immediate = self.immediate_commit_us & (HAS_ORIGINAL_TIMESTAMP - 1);
        match self.original_commit_us {
            None => put_low::<TIMESTAMP_LEN>(out, immediate),
            Some(original) => {
                put_low::<TIMESTAMP_LEN>(out, immediate | HAS_ORIGINAL_TIMESTAMP);
                put_low::<TIMESTAMP_LEN>(out, original & (HAS_ORIGINAL_TIMESTAMP - 1));
            }
        }
        put_lenenc(out, self.transaction_len);
        let version = self.server_version & !HAS_ORIGINAL_VERSION;
        match self.original_server_version {
            None => put_u32(out, version),
            Some(original) => {
                put_u32(out, version | HAS_ORIGINAL_VERSION);
                put_u32(out, original);
            }
        }
    }

    pub(super) fn decode(body: &[u8], is_named: bool) -> Result<GtidEvent, DecodeError> {
        let mut input = Input::new(body, "a GTID event");
        let may_have_statements = input.u8()? & 1 != 0;
        let (uuid, number) = (Uuid(input.array()?), input.u64()?);
        if is_named && !(1..=crate::gtid::MAX_NUMBER).contains(&number) {
            return Err(input.wrong("a number that no GTID has"));
        }
        if input.u8()? != CLOCK_TYPE {
            return Err(input.wrong("there is no logical clock of type 2"));
        }
        let clock = LogicalClock { last_committed: input.u64()?, sequence_number: input.u64()? };
        let immediate = input.le(TIMESTAMP_LEN)?;
        let original_commit_us = match immediate & HAS_ORIGINAL_TIMESTAMP {
            0 => None,
            _ => Some(input.le(TIMESTAMP_LEN)?),
        };
        let transaction_len = input.lenenc()?;
        let version = input.u32()?;
        let original_server_version = match version & HAS_ORIGINAL_VERSION {
            0 => None,
            _ => Some(input.u32()?),
        };
        // Later versions append a ticket of a group of commits.
        Ok(GtidEvent {
            may_have_statements,
            gtid: is_named.then_some(Gtid { uuid, number }),
            clock,
            immediate_commit_us: immediate & (HAS_ORIGINAL_TIMESTAMP - 1),
            original_commit_us,
            transaction_len,
            server_version: version & !HAS_ORIGINAL_VERSION,
            original_server_version,
        })
    }
}

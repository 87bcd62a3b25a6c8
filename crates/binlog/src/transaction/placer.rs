//! Writes a transaction's placement into its events, in one pass.
use crate::checksum::CRC_LEN;
use crate::event::gtid::{CLOCK_AT, COMMIT_AT, GTID_AT, HAS_ORIGINAL, TIMESTAMP_LEN};
use crate::event::header::{END_AT, TYPE_AT};
use crate::event::{self, EventType, Header};
use crate::{Checksum, DecodeError, Gtid, Placement, Uuid};

const WHAT: &str = "the events of a transaction";

/// Places the events of a transaction that come in several pieces, as those of a large transaction
/// that was spilled to a file do. Pieces are whole events, in order; the first one begins with the
/// GTID event.
#[derive(Clone, Debug)]
pub struct Placer {
    placement: Placement,
    /// Known from the GTID event on (EVENTS-1).
    checksum: Option<Checksum>,
    /// Where the next event begins.
    position: u64,
}

impl Placer {
    /// Begins a transaction.
    pub fn new(placement: Placement) -> Placer {
        Placer { placement, checksum: None, position: placement.start.offset }
    }

    /// The position behind the last event that was placed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Places the next events. Fails if they are not whole events, or do not begin with a GTID
    /// event; then an unknown part of them is placed.
    pub fn place(&mut self, mut events: &mut [u8]) -> Result<(), DecodeError> {
        while !events.is_empty() {
            let (event, rest) = events.split_at_mut(next_len(events)?);
            let checksum = match self.checksum {
                Some(checksum) => checksum,
                None => self.begin(event)?,
            };
            if event.len() < Header::LEN + checksum.len() {
                return Err(DecodeError::Short { what: WHAT });
            }
            event::place(event, self.position, checksum);
            self.position += event.len() as u64;
            events = rest;
        }
        Ok(())
    }

    /// Writes the placement into the GTID event.
    fn begin(&mut self, event: &mut [u8]) -> Result<Checksum, DecodeError> {
        let checksum = checksum_of(event)?;
        self.checksum = Some(checksum);
        let Placement { gtid, clock, immediate_commit_us, .. } = self.placement;
        let event_type = match gtid {
            Some(_) => EventType::GTID,
            None => EventType::ANONYMOUS_GTID,
        };
        event[TYPE_AT] = event_type.0;
        let gtid = gtid.unwrap_or(Gtid { uuid: Uuid([0; 16]), number: 0 });
        let body = &mut event[Header::LEN..];
        let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
        put(GTID_AT, &gtid.uuid.0);
        put(GTID_AT + 16, &gtid.number.to_le_bytes());
        put(CLOCK_AT, &clock.last_committed.to_le_bytes());
        put(CLOCK_AT + 8, &clock.sequence_number.to_le_bytes());
        // The top bit says how long the event is, and stays.
        let last = COMMIT_AT + TIMESTAMP_LEN - 1;
        let shape = body[last] & HAS_ORIGINAL;
        let us = immediate_commit_us.to_le_bytes();
        body[COMMIT_AT..=last].copy_from_slice(&us[..TIMESTAMP_LEN]);
        body[last] = body[last] & !HAS_ORIGINAL | shape;
        Ok(checksum)
    }
}

/// The length of the event at the start of `events`.
pub(super) fn next_len(events: &[u8]) -> Result<usize, DecodeError> {
    let len = Header::decode(events)?.len as usize;
    match len >= Header::LEN && len <= events.len() {
        true => Ok(len),
        false => Err(DecodeError::Short { what: WHAT }),
    }
}

/// The checksum algorithm of a transaction that is not placed, from its GTID event (EVENTS-1).
pub(super) fn checksum_of(event: &[u8]) -> Result<Checksum, DecodeError> {
    let wrong = |why| DecodeError::Wrong { what: WHAT, why };
    let is_gtid = matches!(event::type_of(event), EventType::GTID | EventType::ANONYMOUS_GTID);
    if !is_gtid || event.len() < Header::LEN + COMMIT_AT + TIMESTAMP_LEN + CRC_LEN {
        return Err(wrong("the first is not a GTID event"));
    }
    let marker = Header::decode(event)?.end_pos;
    let code = u8::try_from(marker).ok().and_then(Checksum::from_code);
    code.ok_or(wrong("they have been placed before, or the checksum algorithm is unknown"))
}

/// The bytes of the position that hold the algorithm.
pub(super) fn mark(event: &mut [u8], checksum: Checksum) {
    event[END_AT..END_AT + 4].copy_from_slice(&u32::from(checksum.code()).to_le_bytes());
}

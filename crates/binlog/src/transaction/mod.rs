//! The events of one transaction, which are encoded before the transaction's place is known.
//!
//! A [`TransactionBuilder`] takes statements and rows while the transaction runs. Sealed, it is one
//! buffer of events, [`TransactionEvents`]:
//!
//! | event | |
//! |---|---|
//! | GTID or ANONYMOUS_GTID | of a fixed length; what [`crate::Placement`] decides is not in it yet |
//! | QUERY | BEGIN, or the text of a DDL statement, which is the last event |
//! | ROWS_QUERY, TABLE_MAP.., ROWS.. | per statement |
//! | XID, or QUERY with COMMIT, or XA_PREPARE | |
//!
//! EVENTS-1: in a buffer that is not placed, positions and checksums are zero, but the position of
//! the first event is the number of the checksum algorithm. So the buffer tells all about itself.
//! EVENTS-2: the bytes in the file are a function of the buffer and the placement alone. So
//! recovery makes the same bytes from the redo log.
mod builder;
mod placer;
mod recode;

pub use builder::{Change, EncodeOptions, GtidTemplate, Image, Savepoint, TransactionBuilder};
pub use placer::Placer;
pub use recode::{count_events, encoded_checksum, recode, recode_events, recode_first};

use crate::Placement;

/// The events of a transaction, in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionEvents {
    /// The events, behind unused bytes: the GTID event is made last, and as long as needed.
    bytes: Vec<u8>,
    start: usize,
}

impl TransactionEvents {
    /// The events.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The memory of the events, for the next transaction.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes of all events. Placing does not change them.
    #[allow(clippy::len_without_is_empty)] // a transaction has at least a GTID event
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Writes what `placement` decides, positions and checksums, and returns the bytes as they
    /// stand in the file.
    pub fn finish(mut self, placement: &Placement) -> PlacedEvents {
        let events = &mut self.bytes[self.start..];
        let placed = Placer::new(*placement).place(events);
        placed.expect("the builder makes whole events");
        PlacedEvents(self)
    }
}

/// The events of a transaction as they stand in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEvents(TransactionEvents);

impl PlacedEvents {
    /// The events.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

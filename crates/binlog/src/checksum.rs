//! The checksum at the end of an event: CRC-32 (IEEE) of all bytes before it, or nothing.
//!
//! A FORMAT_DESCRIPTION event has a CRC-32 whatever the algorithm of its file is, and the CRC is
//! that of the event with the flag IN_USE cleared, so that the flag can be changed in place.
//! (MySQL, `Format_description_log_event::write`)
use crate::event::header::{FLAGS_AT, TYPE_AT, flags};
use crate::event::{EventType, Header};

/// Bytes of a CRC-32.
pub const CRC_LEN: usize = 4;

/// `binlog_checksum`: how the events of a file, or of a connection, end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Events have no checksum.
    None,
    /// Each event ends in its CRC-32.
    #[default]
    Crc32,
}

impl Checksum {
    /// The number of bytes at the end of each event.
    pub const fn len(self) -> usize {
        match self {
            Checksum::None => 0,
            Checksum::Crc32 => CRC_LEN,
        }
    }

    /// Whether events have no checksum.
    pub const fn is_empty(self) -> bool {
        matches!(self, Checksum::None)
    }

    /// The algorithm's number in a FORMAT_DESCRIPTION event.
    pub const fn code(self) -> u8 {
        match self {
            Checksum::None => 0,
            Checksum::Crc32 => 1,
        }
    }

    /// The algorithm of a number. `None` if it is another one.
    pub const fn from_code(code: u8) -> Option<Checksum> {
        match code {
            0 => Some(Checksum::None),
            1 => Some(Checksum::Crc32),
            _ => None,
        }
    }
}

/// The CRC-32 of an event without its checksum. A FORMAT_DESCRIPTION counts as not in use.
pub fn crc32(event: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    let format = EventType::FORMAT_DESCRIPTION.0;
    match event.get(..Header::LEN) {
        Some(head) if head[TYPE_AT] == format && head[FLAGS_AT] & flags::IN_USE as u8 != 0 => {
            let mut masked = [0; Header::LEN];
            masked.copy_from_slice(head);
            masked[FLAGS_AT] &= !(flags::IN_USE as u8);
            hash.update(&masked);
            hash.update(&event[Header::LEN..]);
        }
        _ => hash.update(event),
    }
    hash.finalize()
}

/// Writes the CRC-32 of a whole event into its last four bytes.
pub(crate) fn stamp(event: &mut [u8]) {
    let (bytes, place) = event.split_at_mut(event.len() - CRC_LEN);
    place.copy_from_slice(&crc32(bytes).to_le_bytes());
}

/// Whether the last four bytes of a whole event are its CRC-32.
pub(crate) fn verifies(event: &[u8]) -> bool {
    event
        .split_last_chunk::<CRC_LEN>()
        .is_some_and(|(bytes, crc)| crc32(bytes) == u32::from_le_bytes(*crc))
}

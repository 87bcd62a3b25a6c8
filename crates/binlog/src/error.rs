//! What can be wrong with bytes, and with an event that somebody asks for.

/// Why bytes are not the event, row or text that they should be. The text names the part, so that a
/// report needs only the file and the position beside it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside the part.
    #[error("{what} is longer than its bytes")]
    Short {
        /// The part.
        what: &'static str,
    },
    /// Bytes are left behind the part.
    #[error("{left} bytes are left behind {what}")]
    Left {
        /// The part.
        what: &'static str,
        /// The number of bytes that are left.
        left: usize,
    },
    /// A field has a value that no writer gives it.
    #[error("{what}: {why}")]
    Wrong {
        /// The part.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A column has a type that this crate cannot read.
    #[error("column {column} has the type {code}, which cannot be read")]
    UnknownType {
        /// The column's position, from 0.
        column: usize,
        /// The type's number in the TABLE_MAP event.
        code: u8,
    },
}

/// An event would be longer than [`crate::MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the binary log would have {bytes} bytes")]
pub struct EventTooLong {
    /// The length that the event would have.
    pub bytes: u64,
}

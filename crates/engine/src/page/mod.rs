//! Page layouts. Every page begins with the same header (little-endian):
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of bytes 4.. of the page |
//! | 4 | 4 | page number |
//! | 8 | 4 | space id |
//! | 12 | 2 | page type |
//! | 14 | 2 | 0 |
//! | 16 | 8 | page LSN: end of the last frame that changed the page |
//! | 24 | | body |
pub mod header;
pub mod index;
pub mod patch;

pub use patch::Patch;

/// Offset of the first byte after the common header.
pub const BODY: usize = 24;

/// Values of the page type field.
pub mod kind {
    /// A page that was freed or has never been used.
    pub const FREE: u16 = 0;
    pub const SPACE_HEADER: u16 = 1;
    pub const BITMAP: u16 = 2;
    pub const INDEX: u16 = 3;
    pub const UNDO: u16 = 4;
    pub const OVERFLOW: u16 = 5;
    pub const SYSTEM: u16 = 6;
}

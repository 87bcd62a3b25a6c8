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

/// First byte after the common header.
pub const BODY: usize = 24;

/// Values of the page type field.
pub mod kind {
    /// Freed, or never used.
    pub const FREE: u16 = 0;
    pub const SPACE_HEADER: u16 = 1;
    pub const BITMAP: u16 = 2;
    pub const INDEX: u16 = 3;
    pub const UNDO: u16 = 4;
    pub const OVERFLOW: u16 = 5;
    pub const SYSTEM: u16 = 6;
}

pub(crate) fn u16_at(p: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([p[at], p[at + 1]])
}
pub(crate) fn u32_at(p: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(p[at..at + 4].try_into().expect("four bytes"))
}
pub(crate) fn u64_at(p: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(p[at..at + 8].try_into().expect("eight bytes"))
}
/// A 48-bit little-endian number (transaction ids).
pub(crate) fn u48_at(p: &[u8], at: usize) -> u64 {
    let mut b = [0; 8];
    b[..6].copy_from_slice(&p[at..at + 6]);
    u64::from_le_bytes(b)
}

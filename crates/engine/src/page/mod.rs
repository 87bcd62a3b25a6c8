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
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub mod header;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub mod index;
pub(crate) mod patch;

#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub use patch::Patch;

/// Offset of the first byte after the common header.
pub(crate) const BODY: usize = 24;

/// Values of the page type field.
pub(crate) mod kind {
    /// A page that was freed or has never been used.
    pub(crate) const FREE: u16 = 0;
    pub(crate) const SPACE_HEADER: u16 = 1;
    pub(crate) const BITMAP: u16 = 2;
    pub(crate) const INDEX: u16 = 3;
    pub(crate) const UNDO: u16 = 4;
    pub(crate) const OVERFLOW: u16 = 5;
    pub(crate) const SYSTEM: u16 = 6;
}

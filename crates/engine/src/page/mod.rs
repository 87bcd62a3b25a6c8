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

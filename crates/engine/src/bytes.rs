//! Little-endian numbers at a place in a page, a block or a frame. The caller ensures that they lie
//! inside.

pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}
pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}
/// A number of 48 bits, such as the id of a transaction.
pub(crate) fn u48_at(b: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..6].copy_from_slice(&b[at..at + 6]);
    u64::from_le_bytes(wide)
}
pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

//! The header that every page begins with (byte table in [`super`]), and its checksum.
//!
//! PAGE-1: the checksum is stamped only on the copy of a page that goes to disk, and verified right
//! after the page is read. In memory the field is stale.
//! PAGE-2: a page of zeros is not a valid page: it was allocated and never written.
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{Lsn, PAGE_SIZE, PageId, PageNo, SpaceId};
use std::fmt;

pub type Page = [u8; PAGE_SIZE];

pub const CHECKSUM: usize = 0;
pub const PAGE_NO: usize = 4;
pub const SPACE: usize = 8;
pub const TYPE: usize = 12;
pub const LSN: usize = 16;
/// Offset of the first byte after the header.
pub const BODY: usize = 24;
const _: () = assert!(LSN + 8 == BODY && PAGE_SIZE.is_multiple_of(redolith_disk::ALIGN));

pub fn page_no(page: &Page) -> PageNo {
    u32_at(page, PAGE_NO)
}
pub fn id(page: &Page) -> PageId {
    PageId { space: SpaceId(u32_at(page, SPACE)), no: page_no(page) }
}
pub fn set_id(page: &mut Page, id: PageId) {
    page[PAGE_NO..PAGE_NO + 4].copy_from_slice(&id.no.to_le_bytes());
    page[SPACE..SPACE + 4].copy_from_slice(&id.space.0.to_le_bytes());
}
pub fn page_type(page: &Page) -> u16 {
    u16_at(page, TYPE)
}
/// End LSN of the last redo log frame that changed the page.
pub fn lsn(page: &Page) -> Lsn {
    Lsn(u64_at(page, LSN))
}
pub fn set_lsn(page: &mut Page, lsn: Lsn) {
    page[LSN..LSN + 8].copy_from_slice(&lsn.0.to_le_bytes());
}

/// The checksum field as stored.
pub fn checksum(page: &Page) -> u32 {
    u32_at(page, CHECKSUM)
}
/// The checksum computed from the page's bytes.
pub fn computed_checksum(page: &Page) -> u32 {
    crc32c::crc32c(&page[PAGE_NO..])
}
/// Writes the checksum into the page, and returns it.
pub fn stamp(page: &mut Page) -> u32 {
    let sum = computed_checksum(page);
    page[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Why a page read from disk is not the page asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    Zero,
    Checksum { stored: u32, computed: u32 },
    Misplaced(PageId),
}
impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Zero => write!(f, "it is all zeros"),
            Bad::Checksum { stored, computed } => {
                write!(f, "checksum {stored:08x} stored, {computed:08x} computed")
            }
            Bad::Misplaced(found) => write!(f, "page {found} was found in its place"),
        }
    }
}

/// Checks that `page`, as read from disk, is whole and is page `id_wanted`.
pub fn verify(page: &Page, id_wanted: PageId) -> Result<(), Bad> {
    let (stored, computed) = (checksum(page), computed_checksum(page));
    if stored != computed {
        return Err(if page.iter().all(|&b| b == 0) {
            Bad::Zero
        } else {
            Bad::Checksum { stored, computed }
        });
    }
    let found = id(page);
    if found != id_wanted { Err(Bad::Misplaced(found)) } else { Ok(()) }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// Tests PAGE-1.
    #[test]
    fn stamped_pages_verify_and_any_flipped_bit_shows() {
        let id7 = PageId { space: SpaceId(16), no: 7 };
        let mut page = [0u8; PAGE_SIZE];
        assert_eq!(verify(&page, id7), Err(Bad::Zero));
        set_id(&mut page, id7);
        page[TYPE..TYPE + 2].copy_from_slice(&0x1234u16.to_le_bytes());
        set_lsn(&mut page, Lsn(u64::MAX - 5));
        page[BODY..].iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
        stamp(&mut page);
        assert_eq!(verify(&page, id7), Ok(()));
        assert_eq!((id(&page), page_type(&page), lsn(&page)), (id7, 0x1234, Lsn(u64::MAX - 5)));
        assert_eq!(verify(&page, PageId { space: SpaceId(16), no: 8 }), Err(Bad::Misplaced(id7)));
        for byte in [0, 3, 4, 8, 12, 14, 16, 23, 24, 511, 512, 8191, PAGE_SIZE - 1] {
            page[byte] ^= 0x10;
            assert!(matches!(verify(&page, id7), Err(Bad::Checksum { .. })), "byte {byte}");
            page[byte] ^= 0x10;
        }
    }
}

//! Bitmap pages tell which pages of a space are in use: one bit a page, 64 pages (one word) an
//! extent.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 24 | 4 | number of the first page that this bitmap covers |
//! | 28 | 4 | 0 |
//! | 32 | [`PAGES`] / 8 | bits, lowest first: 1 = in use |
//!
//! Bitmap page `k` is page `1 + k * PAGES` of its space and covers the pages from `k * PAGES` on.
//! Page 0 is the space's header. An allocation near a hint stays in the hint's extent, or else
//! takes an empty extent, or else any free page. So each index grows by extents of its own, and
//! freed pages are used again.
use crate::bytes::u64_at;
use crate::page::{Patch, index::Page};
use crate::{PAGE_SIZE, PageNo};

const BITS: usize = 32;
/// The number of pages that one bitmap page covers.
pub const PAGES: u32 = ((PAGE_SIZE - BITS) * 8) as u32;
/// The number of pages of an extent.
pub const EXTENT: u32 = 64;

/// The bitmap page that covers page `no`.
pub fn page_of(no: PageNo) -> PageNo {
    no / PAGES * PAGES + 1
}
pub fn is_bitmap(no: PageNo) -> bool {
    no % PAGES == 1
}
fn word(p: &Page, extent: u32) -> u64 {
    u64_at(p, BITS + extent as usize * 8)
}
pub fn is_used(p: &Page, no: PageNo) -> bool {
    let i = no % PAGES;
    word(p, i / EXTENT) >> (i % EXTENT) & 1 == 1
}
pub fn set(p: &mut impl Patch, no: PageNo, used: bool) {
    let i = no % PAGES;
    let at = BITS + i as usize / 8;
    let bit = 1 << (i % 8);
    let b = p.bytes()[at];
    assert!(
        (b & bit != 0) != used,
        "page {no} is already {}",
        if used { "in use" } else { "free" }
    );
    p.write(at, &[b ^ bit]);
}
/// Lays out a fresh bitmap page for the pages from `first` on. The space's header and the bitmap
/// page itself are in use.
pub fn init(p: &mut impl Patch, first: PageNo) {
    p.write_u16(12, crate::page::kind::BITMAP);
    p.write_u32(24, first);
    p.write(BITS, &[if first == 0 { 0b11 } else { 0b10 }]);
    debug_assert!(first.is_multiple_of(PAGES));
}
/// Finds a free page below `limit` (exclusive) that is not in `not`: near `hint` if the bitmap
/// covers the hint.
pub fn find(
    p: &Page,
    first: PageNo,
    limit: PageNo,
    hint: PageNo,
    not: &[PageNo],
) -> Option<PageNo> {
    let n = (limit - first).min(PAGES);
    let free = |extent: u32| {
        let mut w = !word(p, extent);
        if n - extent * EXTENT < EXTENT {
            w &= (1u64 << (n - extent * EXTENT)) - 1;
        }
        for x in not {
            if *x >= first && (*x - first) / EXTENT == extent {
                w &= !(1 << ((*x - first) % EXTENT));
            }
        }
        w
    };
    let extents = n.div_ceil(EXTENT);
    let pick = |extent: u32, w: u64| first + extent * EXTENT + w.trailing_zeros();
    if hint >= first && hint < first + n {
        let e = (hint - first) / EXTENT;
        let w = free(e);
        let after = w & !((1u64 << ((hint - first) % EXTENT)) - 1);
        if after != 0 || w != 0 {
            return Some(pick(e, if after != 0 { after } else { w }));
        }
    }
    let mut any = None;
    for e in 0..extents {
        let w = free(e);
        if w == u64::MAX {
            return Some(pick(e, w));
        }
        if w != 0 && any.is_none() {
            any = Some(pick(e, w));
        }
    }
    any
}
/// The number of pages in use in this bitmap's range.
pub fn count(p: &Page) -> u32 {
    (0..PAGES / EXTENT).map(|e| word(p, e).count_ones()).sum()
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::page::patch::tests::Sheet;

    #[test]
    fn allocation_stays_near_its_hint_and_takes_empty_extents() {
        let mut s = Sheet::new();
        init(&mut s, 0);
        assert_eq!(find(s.bytes(), 0, 64, 0, &[]), Some(2));
        assert_eq!(find(s.bytes(), 0, 64, 0, &[2, 3]), Some(4));
        for no in 2..64 {
            set(&mut s, no, true);
        }
        assert_eq!(find(s.bytes(), 0, 64, 30, &[]), None);
        set(&mut s, 100, true);
        assert_eq!(find(s.bytes(), 0, 256, 30, &[]), Some(128), "an empty extent");
        assert_eq!(find(s.bytes(), 0, 256, 100, &[]), Some(101));
        assert_eq!(find(s.bytes(), 0, 120, 30, &[]), Some(64));
        set(&mut s, 30, false);
        assert_eq!(find(s.bytes(), 0, 256, 63, &[]), Some(30));
        assert_eq!(count(s.bytes()), 64);
    }
}

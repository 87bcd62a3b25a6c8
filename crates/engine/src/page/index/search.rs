//! Finds a key in an index page.
//!
//! A search touches few bytes in many cache lines of a page that the caches rarely have: the
//! directory, and the keys of the records that the search compares. One line after the other, each
//! a wait for memory, is most of the time of a descent. So the lines are asked for ahead: the
//! directory as a whole, the two records of which one is compared next, and at last the first
//! records of all groups that are left. Lines that are asked for in vain cost less than a wait
//! (decision 034).
//!
//! Keys are compared by their first eight bytes as one number, and byte by byte only if these are
//! equal.
use super::*;
use crate::prefetch::{LINE, prefetch};
use std::cmp::Ordering;

/// From this number of slots on, the first records of all groups that are left are asked for at
/// once. They are about as many as a core waits for at a time, twice.
const AT_ONCE: u16 = 32;

/// Asks for the lines of the directory.
#[inline]
pub fn prefetch_directory(p: &Page) {
    let begin = PAGE_SIZE.saturating_sub(SLOT * n_slots(p) as usize);
    (begin / LINE..PAGE_SIZE / LINE).for_each(|line| prefetch(&p[line * LINE]));
}

/// The first eight bytes of a key as a number in the order of the keys. Missing bytes count as 0,
/// so that keys of which one begins with the other may have the same number.
#[inline(always)]
fn number_of(first: [u8; 8], len: usize) -> u64 {
    let shift = 8 * 8usize.saturating_sub(len) as u32;
    u64::from_be_bytes(first) & u64::MAX.checked_shl(shift).unwrap_or(0)
}
/// A key that is searched for.
#[derive(Clone, Copy)]
struct Wanted<'k> {
    key: &'k [u8],
    number: u64,
}
impl Wanted<'_> {
    fn new(key: &[u8]) -> Wanted<'_> {
        let mut first = [0; 8];
        let len = key.len().min(8);
        first[..len].copy_from_slice(&key[..len]);
        Wanted { key, number: number_of(first, len) }
    }
    /// The order of a record's key to the key that is searched for.
    #[inline(always)]
    fn order_of(&self, p: &Page, r: Rec) -> Ordering {
        let (at, len) = (r as usize + REC, key_len(p, r));
        // The bytes behind a short key are those of its value, or of another record.
        let number = match p[at..].first_chunk::<8>() {
            Some(first) => number_of(*first, len),
            None => Wanted::new(key(p, r)).number,
        };
        number.cmp(&self.number).then_with(|| {
            if len <= 8 && self.key.len() <= 8 {
                len.cmp(&self.key.len())
            } else {
                key(p, r).cmp(self.key)
            }
        })
    }
}

/// Asks for the record of a slot.
#[inline(always)]
fn prefetch_slot(p: &Page, slot: u16) {
    prefetch(p.as_ptr().wrapping_add(slot_rec(p, slot) as usize));
}

/// Finds the last record below `k` and the record equal to it.
pub fn search(p: &Page, k: &[u8]) -> Pos {
    let wanted = Wanted::new(k);
    prefetch_directory(p);
    let (mut lo, mut hi) = (0, n_slots(p));
    let halve = |lo: &mut u16, hi: &mut u16| {
        let mid = (*lo + *hi) / 2;
        if wanted.order_of(p, slot_rec(p, mid)).is_lt() { *lo = mid } else { *hi = mid }
    };
    while hi - lo > AT_ONCE {
        let mid = (lo + hi) / 2;
        prefetch_slot(p, (lo + mid) / 2);
        prefetch_slot(p, (mid + hi) / 2);
        halve(&mut lo, &mut hi);
    }
    (lo + 1..hi).for_each(|slot| prefetch_slot(p, slot));
    while hi - lo > 1 {
        halve(&mut lo, &mut hi);
    }
    let mut prev = slot_rec(p, lo);
    let mut found = None;
    while let Some(r) = next_rec(p, prev) {
        match wanted.order_of(p, r) {
            Ordering::Less => prev = r,
            Ordering::Equal => {
                found = Some(r);
                break;
            }
            Ordering::Greater => break,
        }
    }
    Pos { prev, slot: lo, found }
}
/// The page's last position, behind all records.
pub fn search_end(p: &Page) -> Pos {
    let slot = n_slots(p) - 1;
    let mut prev = slot_rec(p, slot);
    while let Some(r) = next_rec(p, prev) {
        prev = r;
    }
    Pos { prev, slot, found: None }
}
/// The position behind all records, if `last` is the last record and its key is below `k`.
pub fn behind(p: &Page, last: Rec, k: &[u8]) -> Option<Pos> {
    let is_behind = next_rec(p, last).is_none() && key(p, last) < k;
    is_behind.then(|| Pos { prev: last, slot: n_slots(p) - 1, found: None })
}
/// The node record whose subtree holds `k`: the last record with a key <= k.
pub fn search_child(p: &Page, k: &[u8]) -> Rec {
    let pos = search(p, k);
    pos.found.unwrap_or(pos.prev)
}
/// The record before `r` in key order; the infimum if `r` is the first record.
pub fn prev_rec(p: &Page, r: Rec) -> Rec {
    search(p, key(p, r)).prev
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::super::super::patch::tests::Sheet;
    use super::*;

    /// A page with these keys, whose values have `value` bytes of the largest kind.
    fn page_of(keys: &[Vec<u8>], value: usize) -> Sheet {
        let mut sheet = Sheet::new();
        init(&mut sheet, 7, 0);
        for k in keys {
            let pos = search_end(sheet.bytes());
            insert(&mut sheet, pos, 0, k, &[&vec![255; value]]);
        }
        check(sheet.bytes()).unwrap();
        sheet
    }
    /// What a search through all records finds.
    fn slowly(p: &Page, k: &[u8]) -> (Rec, Option<Rec>) {
        let prev = records(p).take_while(|r| key(p, *r) < k).last().unwrap_or(INFIMUM);
        (prev, records(p).find(|r| key(p, *r) == k))
    }

    /// Keys that are longer and shorter than the eight bytes of their numbers, that agree in them,
    /// and that one or several bytes 0 tell from each other.
    #[test]
    fn keys_are_found_by_number_and_by_bytes() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for zeros in 0..4 {
            for stem in [&b"a"[..], b"ab", b"abcdefg", b"abcdefgh", b"abcdefghi", b"\xff\xff"] {
                keys.push([stem, &vec![0; zeros]].concat());
                keys.push([stem, &vec![0; zeros], b"z"].concat());
            }
        }
        keys.extend((0..40u32).map(|n| [&b"abcdefgh"[..], &n.to_be_bytes()].concat()));
        keys.sort();
        keys.dedup();
        let held: Vec<_> = keys.iter().step_by(2).cloned().collect();
        for value in [0, 1, 8] {
            let sheet = page_of(&held, value);
            let p = sheet.bytes();
            for k in &keys {
                let pos = search(p, k);
                assert_eq!((pos.prev, pos.found), slowly(p, k), "{k:?}");
                let group = slot_rec(p, pos.slot);
                assert!(group == INFIMUM || key(p, group) < &k[..], "{k:?}");
                assert_eq!(pos.found.is_some(), held.contains(k), "{k:?}");
            }
        }
    }
    /// A full page, whose last record ends where the directory begins, and more groups than are
    /// asked for at once.
    #[test]
    fn keys_are_found_in_a_full_page() {
        let mut sheet = Sheet::new();
        init(&mut sheet, 7, 0);
        let mut n = 0u32;
        while fits(sheet.bytes(), 2 + n as usize % 3, 0) {
            let k = &n.to_be_bytes()[1..];
            let pos = search(sheet.bytes(), k);
            insert(&mut sheet, pos, 0, k, &[]);
            n += 2;
        }
        let p = sheet.bytes();
        assert!(n_slots(p) > 2 * AT_ONCE, "{} slots", n_slots(p));
        for k in 0..=n {
            let k = &k.to_be_bytes()[1..];
            let pos = search(p, k);
            assert_eq!((pos.prev, pos.found), slowly(p, k), "{k:?}");
        }
    }
}

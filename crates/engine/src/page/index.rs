//! Index pages: nodes and leaves of a B+tree.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 24 | 8 | index id |
//! | 32 | 2 | level (0 = leaf) |
//! | 34 | 2 | records, delete-marked ones included |
//! | 36 | 2 | directory slots |
//! | 38 | 2 | heap top: first byte never used |
//! | 40 | 2 | garbage: bytes below the heap top that no record uses |
//! | 42 | 2 | first record of the free list, 0 = none |
//! | 44 | 4 | next page of the level, 0 = none (there is no link back: a scan downwards descends again by the page's low key) |
//! | 48 | 2 | record that holds the high key, 0 = plus infinity |
//! | 50 | 2 | flags: 1 = incomplete split (the parent does not know `next` yet) |
//! | 52 | 7 | infimum: a record header without key and value |
//! | 60 | | record heap, growing up; the directory grows down from the page's end |
//!
//! A record: `next u16, flags u8, key length u16, value length u16, key, value`. Records are linked
//! in key order from the infimum on. A directory slot: `record u16, count u16`. The slot names the
//! first record of a group of at most [`GROUP`] records, and the group's size; slot 0 names the
//! infimum. So an insert writes the record, the link before the record and a count, and only some
//! inserts shift the sparse directory. (The list with a sparse directory is InnoDB's idea. InnoDB's
//! slot owns the *last* record of its group, and this slot the first, so that the predecessor on
//! which a search ends is always in the group whose slot the search found.)
//!
//! - INDEX-1: keys are strictly ascending, all at or above the page's low key (the separator in its
//!   parent) and below its high key.
//! - INDEX-2: the groups' counts add up to records + 1, and no slot is empty.
//! - INDEX-3: live record bytes + garbage = heap top - HEAP.
pub mod run;
mod search;

pub use search::{behind, prefetch_directory, prev_rec, search, search_child, search_end};

use super::{BODY, Patch, kind};
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{PAGE_SIZE, PageNo};
use smallvec::SmallVec;

pub type Page = [u8; PAGE_SIZE];

const INDEX_ID: usize = BODY;
const LEVEL: usize = 32;
const N_RECS: usize = 34;
const N_SLOTS: usize = 36;
const HEAP_TOP: usize = 38;
const GARBAGE: usize = 40;
const FREE: usize = 42;
const NEXT: usize = 44;
const HIGH: usize = 48;
const FLAGS: usize = 50;
pub const INFIMUM: u16 = 52;
const HEAP: usize = 60;
const SLOT: usize = 4;
/// The most records in one group.
const GROUP: u16 = 8;
/// Bytes of a record before its key.
pub const REC: usize = 7;
/// Where a record has the length of its value.
const VALUE_LEN: usize = 5;

/// The most bytes of a key, so that every page can hold at least four records.
pub const MAX_KEY: usize = 3500;
/// The most bytes of a value under a key of `key_len` bytes: two such records, and a high key as
/// long as the key, fit one page.
pub const fn max_value(key_len: usize) -> usize {
    (PAGE_SIZE - HEAP - 4 * SLOT - 3 * (REC + key_len)) / 2
}

pub const INCOMPLETE_SPLIT: u16 = 1;
pub const DELETE_MARK: u8 = 1;

/// A record's place: its offset in the page.
pub type Rec = u16;

/// The place of a key in a page, whether the key is there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pos {
    /// The last record below the key, perhaps the infimum.
    pub prev: Rec,
    /// The slot of the group that `prev` is in.
    pub slot: u16,
    /// The record with exactly this key.
    pub found: Option<Rec>,
}

pub fn index_id(p: &Page) -> u64 {
    u64_at(p, INDEX_ID)
}
pub fn is_index(p: &Page) -> bool {
    u16_at(p, 12) == kind::INDEX
}
pub fn level(p: &Page) -> u16 {
    u16_at(p, LEVEL)
}
pub fn n_recs(p: &Page) -> u16 {
    u16_at(p, N_RECS)
}
fn n_slots(p: &Page) -> u16 {
    u16_at(p, N_SLOTS)
}
pub fn next_page(p: &Page) -> PageNo {
    u32_at(p, NEXT)
}
pub fn is_incomplete(p: &Page) -> bool {
    u16_at(p, FLAGS) & INCOMPLETE_SPLIT != 0
}
/// The exclusive upper bound of the page's keys; `None` on the last page of a level.
pub fn high_key(p: &Page) -> Option<&[u8]> {
    match u16_at(p, HIGH) {
        0 => None,
        r => Some(key(p, r)),
    }
}
/// Whether `k` belongs to this page or to a page on its left.
pub fn covers(p: &Page, k: &[u8]) -> bool {
    high_key(p).is_none_or(|h| k < h)
}

pub fn next_rec(p: &Page, r: Rec) -> Option<Rec> {
    match u16_at(p, r as usize) {
        0 => None,
        n => Some(n),
    }
}
pub fn first_rec(p: &Page) -> Option<Rec> {
    next_rec(p, INFIMUM)
}
pub fn flags(p: &Page, r: Rec) -> u8 {
    p[r as usize + 2]
}
pub fn is_marked(p: &Page, r: Rec) -> bool {
    flags(p, r) & DELETE_MARK != 0
}
fn key_len(p: &Page, r: Rec) -> usize {
    u16_at(p, r as usize + 3) as usize
}
fn value_len(p: &Page, r: Rec) -> usize {
    u16_at(p, r as usize + 5) as usize
}
pub fn key(p: &Page, r: Rec) -> &[u8] {
    let at = r as usize + REC;
    &p[at..at + key_len(p, r)]
}
pub fn value_at(p: &Page, r: Rec) -> usize {
    r as usize + REC + key_len(p, r)
}
pub fn value(p: &Page, r: Rec) -> &[u8] {
    let at = value_at(p, r);
    &p[at..at + value_len(p, r)]
}
fn size(p: &Page, r: Rec) -> usize {
    REC + key_len(p, r) + value_len(p, r)
}
/// The child page of a node's record.
pub fn child(p: &Page, r: Rec) -> PageNo {
    u32_at(value(p, r), 0)
}
fn slot_at(i: u16) -> usize {
    PAGE_SIZE - SLOT * (i as usize + 1)
}
fn slot_rec(p: &Page, i: u16) -> Rec {
    u16_at(p, slot_at(i))
}
fn slot_count(p: &Page, i: u16) -> u16 {
    u16_at(p, slot_at(i) + 2)
}
fn contiguous(p: &Page) -> usize {
    PAGE_SIZE - SLOT * n_slots(p) as usize - u16_at(p, HEAP_TOP) as usize
}
/// Bytes that live records (the high key included) and the directory take.
pub fn used(p: &Page) -> usize {
    u16_at(p, HEAP_TOP) as usize - HEAP - u16_at(p, GARBAGE) as usize + SLOT * n_slots(p) as usize
}
/// Bytes that live records take, the high key included, also if the page is damaged.
pub(crate) fn data_bytes(p: &Page) -> usize {
    let below_top = usize::from(u16_at(p, HEAP_TOP)).saturating_sub(HEAP);
    below_top.saturating_sub(u16_at(p, GARBAGE).into())
}
/// Whether a record of these sizes can be inserted, perhaps after reorganising the page.
pub fn fits(p: &Page, key_len: usize, value_len: usize) -> bool {
    contiguous(p) + u16_at(p, GARBAGE) as usize >= REC + key_len + value_len + SLOT
}

pub fn records(p: &Page) -> impl Iterator<Item = Rec> + '_ {
    let mut at = INFIMUM;
    std::iter::from_fn(move || {
        at = next_rec(p, at)?;
        Some(at)
    })
}

/// Checks, in one pass over the records, that the page can be walked and searched without leaving
/// it: every record and slot lies in the heap, the records are one list of the length that the page
/// states, the slots' groups make up that list, and a node's records name pages. A page is checked
/// once, after it is read from disk; the other functions here keep a well-formed page well-formed.
pub fn well_formed(p: &Page) -> Result<(), &'static str> {
    let (recs, slots, top) =
        (n_recs(p) as usize, n_slots(p) as usize, u16_at(p, HEAP_TOP) as usize);
    if slots == 0 || top < HEAP || top + slots * SLOT > PAGE_SIZE {
        return Err("its heap and its directory do not fit the page");
    }
    if u16_at(p, GARBAGE) as usize > top - HEAP {
        return Err("it has more garbage than heap");
    }
    let in_heap =
        |r: Rec| r as usize >= HEAP && r as usize + REC <= top && r as usize + size(p, r) <= top;
    let fence = u16_at(p, HIGH);
    if fence != 0 && !in_heap(fence) {
        return Err("its high key lies outside of its heap");
    }
    let (mut free, mut most) = (u16_at(p, FREE), top / REC);
    while free != 0 {
        if !in_heap(free) || most == 0 {
            return Err("its free list lies outside of its heap, or is a circle");
        }
        (free, most) = (u16_at(p, free as usize), most - 1);
    }
    let node = level(p) > 0;
    let (mut at, mut seen, mut slot) = (INFIMUM, 0usize, 0usize);
    loop {
        // `at` is record number `seen`; the infimum has number 0.
        if slot == slots || slot_rec(p, slot as u16) != at {
            return Err("its directory does not fit its records");
        }
        let count = slot_count(p, slot as u16);
        if count == 0 || count > GROUP {
            return Err("a group of its directory has a wrong size");
        }
        for n in 0..count {
            let next = u16_at(p, at as usize);
            if next == 0 {
                let whole = n + 1 == count && slot + 1 == slots && seen == recs;
                return if whole { Ok(()) } else { Err("it has fewer records than it says") };
            }
            if !in_heap(next) || (node && value_len(p, next) < 4) {
                return Err("a record lies outside of its heap");
            }
            seen += 1;
            if seen > recs {
                return Err("it has more records than it says, or they are a circle");
            }
            at = next;
        }
        slot += 1;
    }
}

/// Makes an empty index page of a zeroed page. The caller fills in the common header, except for
/// the page type.
pub fn init(p: &mut impl Patch, index: u64, level: u16) {
    p.write_u16(12, kind::INDEX);
    let mut h = [0; HEAP - BODY];
    h[..8].copy_from_slice(&index.to_le_bytes());
    h[LEVEL - BODY..][..2].copy_from_slice(&level.to_le_bytes());
    h[N_SLOTS - BODY..][..2].copy_from_slice(&1u16.to_le_bytes());
    h[HEAP_TOP - BODY..][..2].copy_from_slice(&(HEAP as u16).to_le_bytes());
    p.write(BODY, &h);
    write_slot(p, 0, INFIMUM, 1);
}
pub fn set_next_page(p: &mut impl Patch, no: PageNo) {
    p.write_u32(NEXT, no);
}
pub fn set_incomplete(p: &mut impl Patch, on: bool) {
    let f = u16_at(p.bytes(), FLAGS) & !INCOMPLETE_SPLIT;
    p.write_u16(FLAGS, f | if on { INCOMPLETE_SPLIT } else { 0 });
}
pub fn set_flags(p: &mut impl Patch, r: Rec, flags: u8) {
    p.write(r as usize + 2, &[flags]);
}
fn write_slot(p: &mut impl Patch, i: u16, r: Rec, count: u16) {
    let mut b = [0; SLOT];
    b[..2].copy_from_slice(&r.to_le_bytes());
    b[2..].copy_from_slice(&count.to_le_bytes());
    p.write(slot_at(i), &b);
}
/// Inserts (`by` = 1) or removes (`by` = -1) a slot before slot `i`, and moves the slots behind it.
fn shift_slots(p: &mut impl Patch, i: u16, by: i32) {
    let n = n_slots(p.bytes());
    // The directory grows downwards: slot n-1 is at the lowest address.
    let (low, high) = (slot_at(n - 1), slot_at(i) + SLOT);
    let mut moved = [0; PAGE_SIZE / 2]; // the most slots: 1,255, if every record had one
    if by > 0 {
        let len = high - low;
        moved[..len].copy_from_slice(&p.bytes()[low..high]);
        p.write(low - SLOT, &moved[..len]);
    } else {
        let len = high - low - SLOT;
        moved[..len].copy_from_slice(&p.bytes()[low..high - SLOT]);
        p.write(low + SLOT, &moved[..len]);
    }
    p.write_u16(N_SLOTS, (n as i32 + by) as u16);
}

/// Takes heap space for `len` bytes: the head of the free list if it is large enough, or else fresh
/// space.
fn take_heap(p: &mut impl Patch, len: usize) -> Rec {
    let free = u16_at(p.bytes(), FREE);
    if free != 0 && size(p.bytes(), free) >= len {
        let next = u16_at(p.bytes(), free as usize);
        let garbage = u16_at(p.bytes(), GARBAGE);
        // The fields for garbage and the free list's head lie side by side.
        let mut b = [0; 4];
        b[..2].copy_from_slice(&(garbage - len as u16).to_le_bytes());
        b[2..].copy_from_slice(&next.to_le_bytes());
        p.write(GARBAGE, &b);
        return free;
    }
    let top = u16_at(p.bytes(), HEAP_TOP);
    p.write_u16(HEAP_TOP, top + len as u16);
    top
}
fn write_record(p: &mut impl Patch, at: Rec, next: u16, flags: u8, k: &[u8], v: &[&[u8]]) {
    let vlen: usize = v.iter().map(|b| b.len()).sum();
    let mut head = [0u8; REC];
    head[..2].copy_from_slice(&next.to_le_bytes());
    head[2] = flags;
    head[3..5].copy_from_slice(&(k.len() as u16).to_le_bytes());
    head[5..7].copy_from_slice(&(vlen as u16).to_le_bytes());
    let mut parts: SmallVec<[&[u8]; 6]> = SmallVec::new();
    parts.extend([&head[..], k]);
    parts.extend(v.iter().copied());
    p.write_parts(at as usize, &parts);
}

/// Inserts a record at `pos`, which a [`search`] that found nothing returned. The caller has
/// checked [`fits`]. The page may be reorganised.
pub fn insert(p: &mut impl Patch, pos: Pos, flags: u8, k: &[u8], v: &[&[u8]]) -> Rec {
    debug_assert!(pos.found.is_none());
    let len = REC + k.len() + v.iter().map(|b| b.len()).sum::<usize>();
    let free = u16_at(p.bytes(), FREE);
    let reuse = free != 0 && size(p.bytes(), free) >= len && contiguous(p.bytes()) >= SLOT;
    let pos = if !reuse && contiguous(p.bytes()) < len + SLOT {
        reorganise(p);
        search(p.bytes(), k)
    } else {
        pos
    };
    assert!(
        contiguous(p.bytes()) >= SLOT + if reuse { 0 } else { len },
        "the caller checks fits()"
    );
    let at = take_heap(p, len);
    let next = u16_at(p.bytes(), pos.prev as usize);
    write_record(p, at, next, flags, k, v);
    p.write_u16(pos.prev as usize, at);
    let n = n_recs(p.bytes()) + 1;
    p.write_u16(N_RECS, n);
    let count = slot_count(p.bytes(), pos.slot) + 1;
    if count <= GROUP {
        p.write_u16(slot_at(pos.slot) + 2, count);
    } else {
        split_group(p, pos.slot, count);
    }
    at
}
fn split_group(p: &mut impl Patch, slot: u16, count: u16) {
    // A last group that grows at its end (ascending inserts) is left nearly full.
    let keep = if slot + 1 == n_slots(p.bytes()) { count - 2 } else { count / 2 };
    let mut r = slot_rec(p.bytes(), slot);
    for _ in 0..keep {
        r = next_rec(p.bytes(), r).expect("the group has count records");
    }
    if slot + 1 < n_slots(p.bytes()) {
        shift_slots(p, slot + 1, 1);
    } else {
        let n = n_slots(p.bytes());
        p.write_u16(N_SLOTS, n + 1);
    }
    write_slot(p, slot + 1, r, count - keep);
    p.write_u16(slot_at(slot) + 2, keep);
}

/// Removes the record that `pos` found, and puts its space on the free list.
pub fn remove(p: &mut impl Patch, pos: Pos) {
    let r = pos.found.expect("a found position");
    let next = u16_at(p.bytes(), r as usize);
    p.write_u16(pos.prev as usize, next);
    let after = pos.slot + 1;
    if after < n_slots(p.bytes()) && slot_rec(p.bytes(), after) == r {
        let count = slot_count(p.bytes(), after);
        if count == 1 {
            shift_slots(p, after, -1);
        } else {
            write_slot(p, after, next, count - 1);
        }
    } else {
        let count = slot_count(p.bytes(), pos.slot);
        p.write_u16(slot_at(pos.slot) + 2, count - 1);
    }
    let free = u16_at(p.bytes(), FREE);
    let garbage = u16_at(p.bytes(), GARBAGE) + size(p.bytes(), r) as u16;
    p.write_u16(r as usize, free);
    let mut b = [0; 4];
    b[..2].copy_from_slice(&garbage.to_le_bytes());
    b[2..].copy_from_slice(&r.to_le_bytes());
    p.write(GARBAGE, &b);
    let n = n_recs(p.bytes()) - 1;
    p.write_u16(N_RECS, n);
}

/// Whether [`replace_value`] can give the record at `r` a value of `len` bytes in this page.
pub fn fits_value(p: &Page, r: Rec, len: usize) -> bool {
    let old = value_len(p, r);
    len <= old
        || contiguous(p) + u16_at(p, GARBAGE) as usize + size(p, r)
            >= REC + key_len(p, r) + len + SLOT
}
/// Replaces the value of the found record and sets its flags. The caller has checked
/// [`fits_value`].
pub fn replace_value(p: &mut impl Patch, pos: Pos, flags: u8, v: &[&[u8]]) {
    let r = pos.found.expect("a found position");
    let len: usize = v.iter().map(|b| b.len()).sum();
    let old = value_len(p.bytes(), r);
    if len <= old {
        if len < old {
            // The record keeps its place. A page without a free byte has no room for another one.
            let garbage = u16_at(p.bytes(), GARBAGE) + (old - len) as u16;
            p.write_u16(GARBAGE, garbage);
            p.write_u16(r as usize + VALUE_LEN, len as u16);
        }
        if self::flags(p.bytes(), r) != flags {
            set_flags(p, r, flags);
        }
        let mut at = value_at(p.bytes(), r);
        for b in v {
            p.write_changed(at, b);
            at += b.len();
        }
        return;
    }
    let mut k = [0; MAX_KEY];
    let klen = key_len(p.bytes(), r);
    k[..klen].copy_from_slice(key(p.bytes(), r));
    remove(p, pos);
    let pos = search(p.bytes(), &k[..klen]);
    insert(p, pos, flags, &k[..klen], v);
}

/// Sets the high key. The caller makes sure of the space ([`fits`] with an empty value, or a free
/// record that is large enough).
pub fn set_high_key(p: &mut impl Patch, k: Option<&[u8]>) {
    let old = u16_at(p.bytes(), HIGH);
    if old != 0 {
        let garbage = u16_at(p.bytes(), GARBAGE) + size(p.bytes(), old) as u16;
        p.write_u16(GARBAGE, garbage);
        let free = u16_at(p.bytes(), FREE);
        p.write_u16(old as usize, free);
        p.write_u16(FREE, old);
        p.write_u16(HIGH, 0);
    }
    if let Some(k) = k {
        let free = u16_at(p.bytes(), FREE);
        let need = REC + k.len();
        if (free == 0 || size(p.bytes(), free) < need) && contiguous(p.bytes()) < need {
            reorganise(p);
        }
        assert!(
            contiguous(p.bytes()) >= need || u16_at(p.bytes(), FREE) != 0,
            "room for the high key"
        );
        let at = take_heap(p, need);
        write_record(p, at, 0, 0, k, &[]);
        p.write_u16(HIGH, at);
    }
}

/// Cuts off the records from `first` on, which have been copied elsewhere, and puts their space on
/// the free list.
pub fn truncate(p: &mut impl Patch, first: Rec) {
    let pos = search(p.bytes(), key(p.bytes(), first));
    debug_assert_eq!(pos.found, Some(first));
    let (mut n, mut bytes, mut last) = (0, 0, first);
    let mut r = Some(first);
    while let Some(x) = r {
        (n, bytes, last) = (n + 1, bytes + size(p.bytes(), x), x);
        r = next_rec(p.bytes(), x);
    }
    let free = u16_at(p.bytes(), FREE);
    p.write_u16(last as usize, free);
    p.write_u16(FREE, first);
    let garbage = u16_at(p.bytes(), GARBAGE) + bytes as u16;
    p.write_u16(GARBAGE, garbage);
    p.write_u16(pos.prev as usize, 0);
    let left = n_recs(p.bytes()) - n;
    p.write_u16(N_RECS, left);
    let before: u16 = (0..pos.slot).map(|i| slot_count(p.bytes(), i)).sum();
    p.write_u16(slot_at(pos.slot) + 2, left + 1 - before);
    p.write_u16(N_SLOTS, pos.slot + 1);
}

/// Builds an index page outside the buffer pool: records are appended in key order.
pub struct Builder {
    page: Box<Page>,
    group: u16,
    last: Rec,
}
impl Patch for Builder {
    fn bytes(&self) -> &Page {
        &self.page
    }
    fn write(&mut self, at: usize, data: &[u8]) {
        self.page[at..at + data.len()].copy_from_slice(data);
    }
}
impl Builder {
    pub fn new(index: u64, level: u16) -> Builder {
        let mut b = Builder { page: Box::new([0; PAGE_SIZE]), group: 1, last: INFIMUM };
        init(&mut b, index, level);
        b
    }
    pub fn page(&self) -> &Page {
        &self.page
    }
    pub fn has_room(&self, key_len: usize, value_len: usize, keep_free: usize) -> bool {
        contiguous(&self.page) >= REC + key_len + value_len + SLOT + keep_free
    }
    pub fn push(&mut self, flags: u8, k: &[u8], v: &[u8]) {
        let at = u16_at(&self.page[..], HEAP_TOP);
        let len = REC + k.len() + v.len();
        self.write_u16(HEAP_TOP, at + len as u16);
        write_record(self, at, 0, flags, k, &[v]);
        let last = self.last as usize;
        self.write_u16(last, at);
        self.last = at;
        let n = n_recs(&self.page) + 1;
        self.write_u16(N_RECS, n);
        let slots = n_slots(&self.page);
        // Groups are filled, so a rewritten page never needs a longer directory than before; `fits`
        // relies on that.
        if self.group == GROUP {
            self.write_u16(N_SLOTS, slots + 1);
            write_slot(self, slots, at, 1);
            self.group = 1;
        } else {
            self.group += 1;
            let g = self.group;
            self.write_u16(slot_at(slots - 1) + 2, g);
        }
    }
    /// Appends the records of `p` from `from` (`None`: the first) up to, but not including, `to`.
    pub fn push_from(&mut self, p: &Page, from: Option<Rec>, to: Option<Rec>) {
        let mut r = from.or_else(|| first_rec(p));
        while let Some(x) = r {
            if r == to {
                break;
            }
            self.push(flags(p, x), key(p, x), value(p, x));
            r = next_rec(p, x);
        }
    }
    /// Writes body, heap and directory to `to`, which keeps its common header except for the page
    /// type.
    pub fn store(&self, to: &mut impl Patch) {
        let p = &self.page;
        to.write_u16(12, kind::INDEX);
        to.write(BODY, &p[BODY..u16_at(&p[..], HEAP_TOP) as usize]);
        let dir = slot_at(n_slots(p) - 1);
        to.write(dir, &p[dir..]);
    }
}
/// Rewrites the page without garbage. Link, level, high key and flags stay.
pub fn reorganise(p: &mut impl Patch) {
    let mut b = Builder::new(index_id(p.bytes()), level(p.bytes()));
    b.push_from(p.bytes(), None, None);
    copy_links(p.bytes(), &mut b);
    b.store(p);
}
/// Copies the link, the high key and the flags of `from`.
pub fn copy_links(from: &Page, to: &mut Builder) {
    to.write(NEXT, &from[NEXT..HIGH]);
    to.write(FLAGS, &from[FLAGS..FLAGS + 2]);
    set_high_key(to, high_key(from));
}

/// The record where the upper half of the page's bytes begins, but not the first record.
pub fn middle(p: &Page) -> Option<Rec> {
    let total: usize = records(p).map(|r| size(p, r)).sum();
    let mut sum = 0;
    let mut first = true;
    for r in records(p) {
        if !first && sum * 2 >= total {
            return Some(r);
        }
        sum += size(p, r);
        first = false;
    }
    records(p).last().filter(|r| Some(*r) != first_rec(p))
}
/// The shortest key that is above `low` and not above `high` (suffix truncation; Bayer and
/// Unterauer, Prefix B-Trees, 1977).
pub fn separator<'a>(low: &[u8], high: &'a [u8]) -> &'a [u8] {
    let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    &high[..(same + 1).min(high.len())]
}

/// Checks INDEX-1 to INDEX-3 inside one page. An error says what is wrong.
pub fn check(p: &Page) -> Result<(), String> {
    well_formed(p)?;
    let mut heap = Heap { used: [0; PAGE_SIZE / 64] };
    let (mut live, mut before) = (0, None);
    for r in records(p) {
        live += heap.take(p, r)?;
        let k = key(p, r);
        if before.is_some_and(|b| b >= k) {
            return Err(format!("record {r} is not above the one before it"));
        }
        if !covers(p, k) {
            return Err(format!("record {r} is not below the high key"));
        }
        before = Some(k);
    }
    if let high @ 1.. = u16_at(p, HIGH) {
        live += heap.take(p, high)?;
    }
    let (garbage, bytes) = (u16_at(p, GARBAGE) as usize, u16_at(p, HEAP_TOP) as usize - HEAP);
    if live + garbage != bytes {
        return Err(format!("{live} live bytes and {garbage} of garbage in a heap of {bytes}"));
    }
    let mut free = u16_at(p, FREE);
    while free != 0 {
        heap.take(p, free)?;
        free = u16_at(p, free as usize);
    }
    Ok(())
}

/// One bit for each byte of the page: whether a record that was seen lies on the byte.
struct Heap {
    used: [u64; PAGE_SIZE / 64],
}
impl Heap {
    /// Marks the bytes of a record of a well-formed page and returns the record's size. Fails if
    /// the record overlaps another record.
    fn take(&mut self, p: &Page, r: Rec) -> Result<usize, String> {
        for at in r as usize..r as usize + size(p, r) {
            let (word, bit) = (&mut self.used[at / 64], 1 << (at % 64));
            if *word & bit != 0 {
                return Err(format!("record {r} lies on another one"));
            }
            *word |= bit;
        }
        Ok(size(p, r))
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::super::patch::tests::Sheet;
    use super::*;
    use std::collections::BTreeMap;

    struct Rng(u64);
    impl Rng {
        fn next(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % n
        }
    }

    /// Tests INDEX-1, INDEX-2 and INDEX-3.
    #[test]
    fn random_changes_against_a_map_and_replay() {
        for seed in 0..60 {
            let (mut rng, mut model, mut s) = (Rng(seed), BTreeMap::new(), Sheet::new());
            init(&mut s, 7, 0);
            for _ in 0..800 {
                let k = rng.next(120).to_be_bytes()[4..].to_vec();
                let v = vec![
                    rng.next(256) as u8;
                    rng.next(if seed % 2 == 0 { 90 } else { 300 }) as usize
                ];
                let pos = search(s.bytes(), &k);
                assert_eq!(pos.found.is_some(), model.contains_key(&k));
                match (rng.next(3), pos.found) {
                    (0, Some(_)) => {
                        remove(&mut s, pos);
                        model.remove(&k);
                    }
                    (_, Some(r)) if fits_value(s.bytes(), r, v.len()) => {
                        replace_value(&mut s, pos, 0, &[&v]);
                        model.insert(k, v);
                    }
                    (_, None) if fits(s.bytes(), k.len(), v.len()) => {
                        insert(&mut s, pos, 0, &k, &[&v]);
                        model.insert(k, v);
                    }
                    _ => {}
                }
                check(s.bytes()).unwrap();
            }
            let got: Vec<_> = records(s.bytes())
                .map(|r| (key(s.bytes(), r).to_vec(), value(s.bytes(), r).to_vec()))
                .collect();
            assert_eq!(got, model.into_iter().collect::<Vec<_>>());
            assert!(s.replay()[..] == s.page[..], "redo of every write gives the same page");
        }
    }

    /// A run of inserts may fill a page to its last byte.
    #[test]
    fn values_shrink_in_a_page_without_a_free_byte() {
        for free in 0..=SLOT {
            let mut b = Builder::new(7, 0);
            b.push(0, b"a", &[1; 5000]);
            b.push(0, b"b", &[2; 5000]);
            let rest = contiguous(b.bytes()) - REC - 1 - free;
            b.push(0, b"c", &vec![3; rest]);
            let mut s = Sheet::new();
            b.store(&mut s);
            assert_eq!(contiguous(s.bytes()), free);
            for len in [4999, 4998, 10, 0, 4990] {
                let pos = search(s.bytes(), b"a");
                let r = pos.found.unwrap();
                assert!(fits_value(s.bytes(), r, len));
                replace_value(&mut s, pos, DELETE_MARK, &[&vec![len as u8; len]]);
                check(s.bytes()).unwrap();
                let r = search(s.bytes(), b"a").found.unwrap();
                assert!(value(s.bytes(), r) == vec![len as u8; len] && flags(s.bytes(), r) == 1);
            }
            assert!(s.replay()[..] == s.page[..]);
        }
    }

    #[test]
    fn truncate_and_high_key() {
        for cut in 1..100u32 {
            let mut s = Sheet::new();
            init(&mut s, 7, 0);
            for i in 0..100u32 {
                let pos = search(s.bytes(), &i.to_be_bytes());
                insert(&mut s, pos, 0, &i.to_be_bytes(), &[&[1; 100]]);
            }
            let first = search(s.bytes(), &cut.to_be_bytes()).found.unwrap();
            truncate(&mut s, first);
            set_high_key(&mut s, Some(&cut.to_be_bytes()));
            check(s.bytes()).unwrap();
            assert_eq!(n_recs(s.bytes()) as u32, cut);
            assert!(
                !covers(s.bytes(), &cut.to_be_bytes())
                    && covers(s.bytes(), &(cut - 1).to_be_bytes())
            );
        }
    }

    #[test]
    fn an_insert_into_a_full_secondary_leaf_logs_little() {
        let mut s = Sheet::new();
        init(&mut s, 7, 0);
        for i in 0..600u64 {
            let k = (i * 2).to_be_bytes();
            let pos = search(s.bytes(), &k);
            insert(&mut s, pos, 0, &k, &[]);
        }
        s.log.clear();
        for i in 0..200u64 {
            let k = ((i * 3) * 2 + 1).to_be_bytes();
            let pos = search(s.bytes(), &k);
            insert(&mut s, pos, 0, &k, &[]);
        }
        assert!(s.logged_bytes() / 200 < 120, "{} bytes an insert", s.logged_bytes() / 200);
    }

    #[test]
    fn separators_are_short() {
        assert_eq!(separator(b"abc", b"abxyz"), b"abx");
        assert_eq!(separator(b"ab", b"abc"), b"abc");
        assert_eq!(separator(b"", b"q"), b"q");
    }
}

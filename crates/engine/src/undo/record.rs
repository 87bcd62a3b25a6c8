//! The content of undo pages: a sequence of entries, each `length u16, kind u8, body`. A length of
//! 0 ends the sequence.
//!
//! | kind | body |
//! |---|---|
//! | 1 LOG | trx id u48, state u8, trx no u64: a transaction begins its log here |
//! | 2 MORE | trx id u48: its log goes on in this page |
//! | 3 INSERT | head; key |
//! | 4 CHANGE | head; old trx id u48, old roll ptr u48, old flags u8; key; purge list; difference |
//! | 5 OVERFLOW | head; first page u32: a chain of overflow pages was written for a row of this transaction |
//! | 6 UNDONE | what was a CHANGE, taken back by a rollback to a savepoint: purge passes over it |
//! | 7 HELD | head; a part of what a prepared transaction holds (`trx/prepare.rs`) |
//!
//! Head: the undo number u32, the roll ptr u48 of the transaction's previous undo record, the table
//! id u64. Key: length u16, bytes. Purge list: the items that purge may remove once no view needs
//! the old version: count u8, then for each item an index number u8 (0xff: an overflow chain, whose
//! first page u32 is the key), length u16, key. Difference: how to make the old payload out of the
//! new one:
//!
//! | tag | fields | |
//! |---|---|---|
//! | 0 | | the same |
//! | 1 | count u8, each: at u16, length u16, bytes | same length, these bytes differ |
//! | 2 | prefix u16, suffix u16, length u16, bytes | bytes between a common prefix and suffix |
use crate::bytes::{u16_at, u32_at, u48_at, u64_at};
use crate::{PAGE_SIZE, PageNo, TrxId};

pub const LOG: u8 = 1;
pub const MORE: u8 = 2;
pub const INSERT: u8 = 3;
pub const CHANGE: u8 = 4;
pub const OVERFLOW: u8 = 5;
pub const UNDONE: u8 = 6;
pub const HELD: u8 = 7;
/// The tag of a difference between equal payloads.
const SAME: u8 = 0;
/// The offset of the kind in an entry.
pub const KIND_AT: usize = 2;

/// The states of a log.
pub const ACTIVE: u8 = 1;
pub const COMMITTED: u8 = 2;
/// The undo log is rolled back to its beginning, or purged but for its long columns: nothing else
/// is left to do.
pub const ENDED: u8 = 3;
/// The transaction has not ended, and a start must not roll it back: another party decides.
pub const PREPARED: u8 = 4;

/// The offset of the first entry of an undo page.
pub const FIRST: usize = 32;
pub const LOG_LEN: usize = 3 + 6 + 1 + 8;
pub const MORE_LEN: usize = 3 + 6;
/// The offset of the state in a LOG entry. The number is behind the state.
pub const STATE_AT: usize = 3 + 6;
/// The most bytes of one undo record, which must fit in an empty page behind a LOG or MORE entry
/// and before the end mark.
pub const MAX: usize = PAGE_SIZE - FIRST - LOG_LEN - 2;
/// The bytes of a CHANGE without its key and purge list, with the least difference; the bytes of a
/// purge list's entry without its key; and the bytes of a purge list's chain.
pub const CHANGE_HEAD: usize = HEAD + 6 + 6 + 1 + 2 + 1 + 1;
pub const ENTRY_HEAD: usize = 3;
pub const CHAIN_LEN: usize = ENTRY_HEAD + 4;
/// The most items of a purge list.
pub const OBSOLETE_MAX: usize = 255;
const HEAD: usize = 3 + 4 + 6 + 8;
/// The most bytes of a HELD record's part.
pub const HELD_MAX: usize = MAX - HEAD;

/// The place of an undo record: the page and offset in the undo space, and whether the record
/// undoes an insert (the row has no older version).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RollPtr(pub u64);
impl RollPtr {
    pub const NONE: RollPtr = RollPtr(0);
    pub fn new(page: PageNo, at: usize, insert: bool) -> RollPtr {
        RollPtr((page as u64) << 15 | (at as u64) << 1 | insert as u64)
    }
    pub fn page(self) -> PageNo {
        (self.0 >> 15) as PageNo
    }
    pub fn at(self) -> usize {
        (self.0 >> 1 & 0x3fff) as usize
    }
    pub fn is_insert(self) -> bool {
        self.0 & 1 == 1
    }
    pub fn to_bytes(self) -> [u8; 6] {
        self.0.to_le_bytes()[..6].try_into().expect("six bytes")
    }
}
pub fn trx_bytes(id: TrxId) -> [u8; 6] {
    id.0.to_le_bytes()[..6].try_into().expect("six bytes")
}

pub fn log_entry(trx: TrxId) -> [u8; LOG_LEN] {
    let mut b = [0; LOG_LEN];
    b[..2].copy_from_slice(&(LOG_LEN as u16).to_le_bytes());
    b[2] = LOG;
    b[3..9].copy_from_slice(&trx_bytes(trx));
    b[STATE_AT] = ACTIVE;
    b
}
pub fn more_entry(trx: TrxId) -> [u8; MORE_LEN] {
    let mut b = [0; MORE_LEN];
    b[..2].copy_from_slice(&(MORE_LEN as u16).to_le_bytes());
    b[2] = MORE;
    b[3..9].copy_from_slice(&trx_bytes(trx));
    b
}

/// The beginning of every undo record.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub undo_no: u32,
    pub before: RollPtr,
    pub table: u64,
}
/// The version of a row that a change replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldVersion {
    pub trx: TrxId,
    pub roll: RollPtr,
    pub flags: u8,
}
/// An item of a purge list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obsolete<'a> {
    /// An entry of a secondary index, with the index's number in its table.
    Entry {
        index: u8,
        key: &'a [u8],
    },
    Chain(PageNo),
}

fn begin(out: &mut Vec<u8>, kind: u8, head: Head) {
    out.clear();
    out.extend_from_slice(&[0, 0, kind]);
    out.extend_from_slice(&head.undo_no.to_le_bytes());
    out.extend_from_slice(&head.before.to_bytes());
    out.extend_from_slice(&head.table.to_le_bytes());
}
fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
}
fn end(out: &mut [u8]) {
    let n = out.len() as u16;
    out[..2].copy_from_slice(&n.to_le_bytes());
}
pub fn insert(out: &mut Vec<u8>, head: Head, key: &[u8]) {
    begin(out, INSERT, head);
    put_key(out, key);
    end(out);
}
/// The bytes of the undo record of an insert with a key of so many bytes.
pub const fn insert_len(key_len: usize) -> usize {
    HEAD + 2 + key_len
}
/// Appends the undo record of an insert to those before it.
pub fn append_insert(out: &mut Vec<u8>, head: Head, key: &[u8]) {
    out.extend_from_slice(&(insert_len(key.len()) as u16).to_le_bytes());
    out.push(INSERT);
    out.extend_from_slice(&head.undo_no.to_le_bytes());
    out.extend_from_slice(&head.before.to_bytes());
    out.extend_from_slice(&head.table.to_le_bytes());
    put_key(out, key);
}
pub fn overflow(out: &mut Vec<u8>, head: Head, first: PageNo) {
    begin(out, OVERFLOW, head);
    out.extend_from_slice(&first.to_le_bytes());
    end(out);
}
pub fn held(out: &mut Vec<u8>, head: Head, part: &[u8]) {
    begin(out, HELD, head);
    out.extend_from_slice(part);
    end(out);
}
/// Writes the undo record of a change from `old` (with its payload) to `new_payload`.
pub fn change(
    out: &mut Vec<u8>,
    head: Head,
    old: OldVersion,
    key: &[u8],
    obsolete: &[Obsolete<'_>],
    old_payload: &[u8],
    new_payload: &[u8],
) {
    begin(out, CHANGE, head);
    out.extend_from_slice(&trx_bytes(old.trx));
    out.extend_from_slice(&old.roll.to_bytes());
    out.push(old.flags);
    put_key(out, key);
    out.push(u8::try_from(obsolete.len()).expect("no more than OBSOLETE_MAX"));
    for o in obsolete {
        match o {
            Obsolete::Entry { index, key } => {
                out.push(*index);
                put_key(out, key);
            }
            Obsolete::Chain(p) => {
                out.push(0xff);
                put_key(out, &p.to_le_bytes());
            }
        }
    }
    put_difference(out, old_payload, new_payload);
    end(out);
}
fn put_difference(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    if old == new {
        return out.push(SAME);
    }
    let start = out.len();
    if old.len() == new.len() {
        out.extend_from_slice(&[1, 0]);
        let (mut i, mut n) = (0, 0u8);
        while let Some(first) = (i..old.len()).find(|&j| old[j] != new[j]) {
            let (mut last, mut j) = (first, first + 1);
            // The 255th run takes the whole rest.
            while j < old.len() && (j - last <= 4 || n == 254) {
                if old[j] != new[j] {
                    last = j;
                }
                j += 1;
            }
            out.extend_from_slice(&(first as u16).to_le_bytes());
            put_key(out, &old[first..=last]);
            n += 1;
            i = last + 1;
        }
        out[start + 1] = n;
        if out.len() - start <= old.len() + 7 {
            return;
        }
        out.truncate(start);
    }
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - prefix;
    let suffix =
        old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    out.push(2);
    out.extend_from_slice(&(prefix as u16).to_le_bytes());
    out.extend_from_slice(&(suffix as u16).to_le_bytes());
    put_key(out, &old[prefix..old.len() - suffix]);
}

/// A parsed entry of an undo page.
#[derive(Debug)]
pub enum Entry<'a> {
    Log { trx: TrxId, state: u8, no: u64 },
    More { trx: TrxId },
    Insert { head: Head, key: &'a [u8] },
    Change { head: Head, old: OldVersion, key: &'a [u8], rest: Rest<'a> },
    Overflow { head: Head, first: PageNo },
    Undone { head: Head },
    Held { head: Head, part: &'a [u8] },
}
/// The purge list and the difference of a change.
#[derive(Clone, Copy, Debug)]
pub struct Rest<'a>(&'a [u8]);

/// The length of the entry at `at`; 0 behind the last entry.
pub fn entry_len(page: &[u8], at: usize) -> usize {
    if at + 2 > page.len() { 0 } else { u16_at(page, at) as usize }
}
/// The entry at `at`, or None if there is no whole entry of a known kind.
pub fn parse(page: &[u8], at: usize) -> Option<Entry<'_>> {
    let len = entry_len(page, at);
    let e = page.get(at..at + len)?;
    let kind = *e.get(2)?;
    if kind == LOG && len == LOG_LEN {
        return Some(Entry::Log {
            trx: TrxId(u48_at(e, 3)),
            state: e[STATE_AT],
            no: u64_at(e, STATE_AT + 1),
        });
    }
    if kind == MORE && len == MORE_LEN {
        return Some(Entry::More { trx: TrxId(u48_at(e, 3)) });
    }
    if len < HEAD {
        return None;
    }
    let head = Head { undo_no: u32_at(e, 3), before: RollPtr(u48_at(e, 7)), table: u64_at(e, 13) };
    let key = |at: usize| e.get(at + 2..at + 2 + u16_at(e.get(at..at + 2)?, 0) as usize);
    match kind {
        INSERT => Some(Entry::Insert { head, key: key(HEAD)? }),
        UNDONE => Some(Entry::Undone { head }),
        HELD => Some(Entry::Held { head, part: &e[HEAD..] }),
        OVERFLOW => Some(Entry::Overflow { head, first: u32_at(e.get(HEAD..HEAD + 4)?, 0) }),
        CHANGE => {
            let v = e.get(HEAD..HEAD + 13)?;
            let old =
                OldVersion { trx: TrxId(u48_at(v, 0)), roll: RollPtr(u48_at(v, 6)), flags: v[12] };
            let key = key(HEAD + 13)?;
            Some(Entry::Change { head, old, key, rest: Rest(&e[HEAD + 15 + key.len()..]) })
        }
        _ => None,
    }
}
impl<'a> Rest<'a> {
    /// The purge list.
    pub fn obsolete(self) -> impl Iterator<Item = Obsolete<'a>> {
        let mut b = &self.0[1..];
        (0..self.0[0]).map(move |_| {
            let n = u16_at(b, 1) as usize;
            let (index, key) = (b[0], &b[3..3 + n]);
            b = &b[3 + n..];
            if index == 0xff {
                Obsolete::Chain(u32_at(key, 0))
            } else {
                Obsolete::Entry { index, key }
            }
        })
    }
    /// Whether the change may be a deletion, which leaves the payload as it was.
    pub fn may_delete(self) -> bool {
        self.difference()[0] == SAME
    }
    fn difference(self) -> &'a [u8] {
        let mut b = &self.0[1..];
        for _ in 0..self.0[0] {
            b = &b[3 + u16_at(b, 1) as usize..];
        }
        b
    }
    /// Whether the purge list and the difference are whole, as the other functions here require. A
    /// start checks this once, when it reads the undo spaces; records written later are whole.
    pub fn is_whole(self) -> bool {
        self.check().is_some()
    }
    fn check(self) -> Option<()> {
        let (count, mut b) = self.0.split_first()?;
        for _ in 0..*count {
            let n = u16_at(b.get(1..3)?, 0) as usize;
            if b[0] == 0xff && n != 4 {
                return None;
            }
            b = b.get(3 + n..)?;
        }
        match *b.first()? {
            0 => Some(()),
            1 => {
                let (count, mut b) = (*b.get(1)?, &b[2..]);
                for _ in 0..count {
                    b = b.get(4 + u16_at(b.get(2..4)?, 0) as usize..)?;
                }
                Some(())
            }
            2 => b.get(7..7 + u16_at(b.get(5..7)?, 0) as usize).map(drop),
            _ => None,
        }
    }
    /// Makes the old payload out of the new one, in place. Returns false if the difference does not
    /// fit, because it belongs to another row.
    #[must_use]
    pub fn restore(self, payload: &mut Vec<u8>) -> bool {
        let d = self.difference();
        match d[0] {
            1 => {
                let mut b = &d[2..];
                for _ in 0..d[1] {
                    let (at, n) = (u16_at(b, 0) as usize, u16_at(b, 2) as usize);
                    let Some(to) = payload.get_mut(at..at + n) else { return false };
                    to.copy_from_slice(&b[4..4 + n]);
                    b = &b[4 + n..];
                }
            }
            2 => {
                let (prefix, suffix, n) =
                    (u16_at(d, 1) as usize, u16_at(d, 3) as usize, u16_at(d, 5) as usize);
                if prefix + suffix > payload.len() {
                    return false;
                }
                let end = payload.len() - suffix;
                payload.splice(prefix..end, d[7..7 + n].iter().copied());
            }
            _ => {}
        }
        true
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_gives_back_the_old_payload() {
        let mut x = 7u64;
        let mut rnd = move |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        for round in 0..3000 {
            let old: Vec<u8> = (0..rnd(400)).map(|_| rnd(3) as u8).collect();
            let mut new = old.clone();
            for _ in 0..rnd(6) {
                match rnd(3) {
                    0 if !new.is_empty() => {
                        let i = rnd(new.len() as u64) as usize;
                        new[i] = rnd(256) as u8;
                    }
                    1 if round % 2 == 0 => new.insert(rnd(new.len() as u64 + 1) as usize, 9),
                    2 if round % 2 == 0 && !new.is_empty() => {
                        new.remove(rnd(new.len() as u64) as usize);
                    }
                    _ => {}
                }
            }
            let head = Head { undo_no: 5, before: RollPtr::new(77, 900, false), table: 12 };
            let was =
                OldVersion { trx: TrxId(99), roll: RollPtr::new(u32::MAX, 16383, true), flags: 1 };
            let list = [Obsolete::Entry { index: 3, key: b"abc" }, Obsolete::Chain(70)];
            let mut e = Vec::new();
            change(&mut e, head, was, b"key", &list, &old, &new);
            assert!(e.len() < 120 + old.len());
            let mut page = vec![0; PAGE_SIZE];
            page[FIRST..FIRST + e.len()].copy_from_slice(&e);
            let Some(Entry::Change { head, old: o, key, rest }) = parse(&page, FIRST) else {
                panic!()
            };
            assert_eq!(
                (head.undo_no, head.before, head.table, o, key),
                (5, RollPtr::new(77, 900, false), 12, was, &b"key"[..])
            );
            assert_eq!(rest.obsolete().collect::<Vec<_>>(), list);
            assert_eq!(rest.may_delete(), old == new);
            assert!(rest.is_whole());
            assert!(rest.restore(&mut new) && new == old);
            // The difference does not fit a much shorter payload, and never writes beyond one.
            let _ = rest.restore(&mut vec![0; 3]);
        }
    }

    #[test]
    fn all_bytes_different_still_fits() {
        let (old, new): (Vec<u8>, Vec<u8>) =
            ((0..2000).map(|i| (i % 6 == 0) as u8).collect(), vec![2; 2000]);
        let mut e = Vec::new();
        put_difference(&mut e, &old, &new);
        assert!(e.len() <= 2007);
    }
}

//! Redo records, which make up a frame's payload. They are physical and absolute: if a page is in
//! any older or partly newer state, applying its records again in order gives the same page.
//!
//! | tag | fields after it | meaning |
//! |---|---|---|
//! | 1 PAGE | space u32, page u32 | the records that follow are of this page (format 2) |
//! | 2 WRITE | at u16, len u8, bytes | |
//! | 3 WRITE | at u16, len u16, bytes | |
//! | 4 FILL | at u16, len u16, byte | read from older redo logs; nothing writes this record |
//! | 5 INIT | | the page is all zeros but for its number and space |
//! | 7 PAGE | space u32, page u32, before u32 | as 1; `before`: the low half of the page's LSN before this frame |
//! | 8 FILE | space u32 | the file of this table space is being made or dropped: if no table has it, it may go |
//! | 9 COMMIT | len u32, bytes | what travels with a commit ([`crate::commit_stream`]) (format 4) |
//!
//! RECORD-1: a page's frames are a chain: each frame names the LSN that the page had before it. If
//! the page does not have this LSN when the frame's turn comes, it is not the page that was
//! changed: it is an older copy of its file, or a write never came to the disk. (SQL Server logs
//! the same link for the same reason.) A frame whose first change of a page is INIT needs no link.
use crate::bytes::{u16_at, u32_at};
use crate::{Lsn, PAGE_SIZE, PageId, SpaceId};

const PAGE_2: u8 = 1;
const WRITE_SHORT: u8 = 2;
const WRITE: u8 = 3;
const FILL: u8 = 4;
const INIT: u8 = 5;
const PAGE: u8 = 7;
const FILE: u8 = 8;
const COMMIT: u8 = 9;

/// Begins the records of a page. `before` is the page's LSN before this frame.
pub fn put_page(out: &mut Vec<u8>, id: PageId, before: Lsn) {
    let mut b = [PAGE; 13];
    b[1..5].copy_from_slice(&id.space.0.to_le_bytes());
    b[5..9].copy_from_slice(&id.no.to_le_bytes());
    b[9..].copy_from_slice(&link(before).to_le_bytes());
    out.extend_from_slice(&b);
}
/// The part of a page's LSN that a record names: the low half.
pub fn link(lsn: Lsn) -> u32 {
    lsn.0 as u32
}
pub fn put_file(out: &mut Vec<u8>, space: SpaceId) {
    out.push(FILE);
    out.extend_from_slice(&space.0.to_le_bytes());
}
/// Appends what travels with a commit.
pub fn put_commit(out: &mut Vec<u8>, record: &[u8]) {
    out.push(COMMIT);
    out.extend_from_slice(&(record.len() as u32).to_le_bytes());
    out.extend_from_slice(record);
}
pub fn put_write(out: &mut Vec<u8>, at: usize, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    let at = (at as u16).to_le_bytes();
    match u8::try_from(len) {
        Ok(n) => out.extend_from_slice(&[WRITE_SHORT, at[0], at[1], n]),
        Err(_) => {
            let n = (len as u16).to_le_bytes();
            out.extend_from_slice(&[WRITE, at[0], at[1], n[0], n[1]]);
        }
    }
    for p in parts {
        out.extend_from_slice(p);
    }
}
pub fn put_init(out: &mut Vec<u8>) {
    out.push(INIT);
}

/// One record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Write { at: usize, bytes: &'a [u8] },
    Fill { at: usize, len: usize, byte: u8 },
    Init,
}
impl Change<'_> {
    pub fn apply(&self, id: PageId, page: &mut [u8; PAGE_SIZE]) {
        match *self {
            Change::Write { at, bytes } => page[at..at + bytes.len()].copy_from_slice(bytes),
            Change::Fill { at, len, byte } => page[at..at + len].fill(byte),
            Change::Init => init_page(page, id),
        }
    }
}
/// Puts the page into the state that an INIT record describes.
pub fn init_page(page: &mut [u8; PAGE_SIZE], id: PageId) {
    page.fill(0);
    page[4..8].copy_from_slice(&id.no.to_le_bytes());
    page[8..12].copy_from_slice(&id.space.0.to_le_bytes());
}

/// One record of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A change of a page. `before` is the link of RECORD-1, which format 2 does not have.
    Page {
        id: PageId,
        before: Option<u32>,
        change: Change<'a>,
    },
    File(SpaceId),
    /// What travels with a commit.
    Commit(&'a [u8]),
}

/// The records of one frame's payload. A payload that does not consist of records ends early with
/// an error; the frame's checksum rules such a payload out.
pub struct Records<'a> {
    rest: &'a [u8],
    page: Option<(PageId, Option<u32>)>,
}
impl<'a> Records<'a> {
    pub fn new(payload: &'a [u8]) -> Records<'a> {
        Records { rest: payload, page: None }
    }
    /// The number of bytes that have not been read yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (a, b) = self.rest.split_at_checked(n).ok_or("a redo record is cut off")?;
        self.rest = b;
        Ok(a)
    }
    fn next_record(&mut self) -> Result<Option<Record<'a>>, String> {
        loop {
            let Some(tag) = self.rest.first().copied() else { return Ok(None) };
            self.rest = &self.rest[1..];
            match tag {
                PAGE | PAGE_2 => {
                    let b = self.take(if tag == PAGE { 12 } else { 8 })?;
                    let id = PageId { space: SpaceId(u32_at(b, 0)), no: u32_at(b, 4) };
                    self.page = Some((id, (tag == PAGE).then(|| u32_at(b, 8))));
                    continue;
                }
                FILE => return Ok(Some(Record::File(SpaceId(u32_at(self.take(4)?, 0))))),
                COMMIT => {
                    let len = u32_at(self.take(4)?, 0) as usize;
                    return Ok(Some(Record::Commit(self.take(len)?)));
                }
                _ => {}
            }
            let (id, before) = self.page.ok_or("a redo record without a page")?;
            let change = match tag {
                WRITE_SHORT | WRITE => {
                    let at = u16_at(self.take(2)?, 0) as usize;
                    let len = if tag == WRITE {
                        u16_at(self.take(2)?, 0) as usize
                    } else {
                        self.take(1)?[0] as usize
                    };
                    Change::Write { at, bytes: self.take(len)? }
                }
                FILL => {
                    let b = self.take(5)?;
                    Change::Fill {
                        at: u16_at(b, 0) as usize,
                        len: u16_at(b, 2) as usize,
                        byte: b[4],
                    }
                }
                INIT => Change::Init,
                t => return Err(format!("redo record of unknown kind {t}")),
            };
            let end = match change {
                Change::Write { at, bytes } => at + bytes.len(),
                Change::Fill { at, len, .. } => at + len,
                Change::Init => 0,
            };
            if end > PAGE_SIZE {
                return Err(format!("redo record of page {id} reaches beyond the page"));
            }
            return Ok(Some(Record::Page { id, before, change }));
        }
    }
}
impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, String>;
    fn next(&mut self) -> Option<Self::Item> {
        let r = self.next_record().transpose();
        if matches!(r, Some(Err(_))) {
            self.rest = &[];
        }
        r
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let (a, b) = (PageId { space: SpaceId(3), no: 9 }, PageId { space: SpaceId(4), no: 1 });
        let mut v = Vec::new();
        put_page(&mut v, a, Lsn(7 << 32 | 5));
        put_init(&mut v);
        put_write(&mut v, 700, &[b"ab", b"", b"c"]);
        v.extend_from_slice(&[PAGE_2, 4, 0, 0, 0, 1, 0, 0, 0]);
        put_file(&mut v, SpaceId(77));
        put_commit(&mut v, b"record");
        v.extend_from_slice(&[FILL, 40, 0, 132, 3, 7]);
        put_write(&mut v, 0, &[&[1; 300]]);
        let got: Vec<_> = Records::new(&v).map(|r| r.unwrap()).collect();
        assert_eq!(
            got,
            vec![
                Record::Page { id: a, before: Some(5), change: Change::Init },
                Record::Page {
                    id: a,
                    before: Some(5),
                    change: Change::Write { at: 700, bytes: b"abc" }
                },
                Record::File(SpaceId(77)),
                Record::Commit(b"record"),
                Record::Page {
                    id: b,
                    before: None,
                    change: Change::Fill { at: 40, len: 900, byte: 7 }
                },
                Record::Page {
                    id: b,
                    before: None,
                    change: Change::Write { at: 0, bytes: &[1; 300] }
                },
            ]
        );
        for cut in 1..v.len() {
            let _ = Records::new(&v[..cut]).count();
        }
        assert!(Records::new(&[10]).next().unwrap().is_err());
    }
}

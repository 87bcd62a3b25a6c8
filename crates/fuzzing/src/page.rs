//! Index pages, with any bytes: a page that is well formed can be read, and a page that passes the
//! structural check can be changed.
//!
//! An input is a list of changes to a valid page, because random bytes would fail the first
//! condition of the check.
use crate::{change, take};
use redolith_engine::PAGE_SIZE;
use redolith_engine::testing::page::{Patch, index};

/// A page in memory, without a redo log.
pub struct Sheet(Box<index::Page>);
impl Patch for Sheet {
    fn bytes(&self) -> &index::Page {
        &self.0
    }
    fn write(&mut self, at: usize, data: &[u8]) {
        self.0[at..at + data.len()].copy_from_slice(data);
    }
}

fn made(records: u8, level: u16) -> Sheet {
    let mut sheet = Sheet(Box::new([0; PAGE_SIZE]));
    index::init(&mut sheet, 7, level);
    for n in 0..records {
        let key = [b'k', n.reverse_bits(), n];
        let pos = index::search(sheet.bytes(), &key);
        index::insert(&mut sheet, pos, n & 1, &key, &[&[n; 40][..4 + n as usize % 30]]);
    }
    for n in (0..records).step_by(5) {
        let pos = index::search(sheet.bytes(), &[b'k', n.reverse_bits(), n]);
        index::remove(&mut sheet, pos);
    }
    sheet
}

pub fn index(data: &[u8]) {
    let ([records, kind], changes) = take::<2>(data);
    let mut sheet = made(records, (kind & 1) as u16);
    if kind & 2 != 0 {
        index::set_high_key(&mut sheet, Some(b"kz"));
    }
    change(&mut sheet.0[..], changes);
    // This check is made for every page that is read from a disk.
    if index::well_formed(&sheet.0).is_err() {
        assert!(index::check(&sheet.0).is_err());
        return;
    }
    let keys: Vec<Vec<u8>> =
        index::records(&sheet.0).map(|r| index::key(&sheet.0, r).to_vec()).collect();
    assert_eq!(keys.len(), index::n_recs(&sheet.0) as usize);
    let is_right = index::check(&sheet.0).is_ok();
    for (r, key) in index::records(&sheet.0).zip(&keys) {
        let found = index::search(&sheet.0, key).found;
        assert!(!is_right || found == Some(r));
        let _ = (index::value(&sheet.0, r), index::is_marked(&sheet.0, r));
        if index::level(&sheet.0) > 0 {
            // In a node whose keys are out of order, a key may have no child. A descent checks for
            // this.
            let child = index::search_child(&sheet.0, key);
            assert!(!is_right || child != index::INFIMUM);
            let _ = (child != index::INFIMUM).then(|| index::child(&sheet.0, child));
        }
    }
    let _ = (
        index::search_end(&sheet.0),
        index::middle(&sheet.0),
        index::used(&sheet.0),
        index::high_key(&sheet.0),
    );
    if !is_right {
        return;
    }
    for key in keys.iter().step_by(3) {
        let pos = index::search(&sheet.0, key);
        index::remove(&mut sheet, pos);
    }
    let new = [&b"kk"[..], changes].concat();
    let new = &new[..new.len().min(60)];
    let pos = index::search(&sheet.0, new);
    if pos.found.is_none() && index::fits(&sheet.0, new.len(), 20) {
        index::insert(&mut sheet, pos, 0, new, &[&[9; 20]]);
        assert!(index::search(&sheet.0, new).found.is_some());
    }
    if index::first_rec(&sheet.0).is_some() {
        index::reorganise(&mut sheet);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0, 0], vec![3, 1], vec![200, 2], vec![255, 3]];
    // Seeds that set each field of the header to values at its limits.
    for at in (12..60u16).step_by(2) {
        for value in [0u16, 1, 52, 60, 0x3fff, 0xffff] {
            let ([a, b], [c, d]) = (at.to_le_bytes(), value.to_le_bytes());
            all.push(vec![40, 2, a, b, 2, c, d]);
        }
    }
    all
}

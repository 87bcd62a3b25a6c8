//! CHECK TABLE finds what is wrong in pages that verify, and says what it is.
#![allow(clippy::disallowed_methods)] // the test damages files behind the engine's back
use crate::common::Dir;
use crate::common::tables::*;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::block_on;
use redolith_engine::testing::page::{header, index};
use redolith_engine::{PAGE_SIZE, PageNo};
use redolith_types::{IndexDef, Value};
use std::path::PathBuf;

type Page = [u8; PAGE_SIZE];

/// Page types, and where pages have what the tests change. The tables of [`index`] and of the
/// overflow pages name the offsets.
const INDEX_TYPE: u16 = 3;
const OVERFLOW_TYPE: u16 = 5;
const HEAP_TOP: usize = 38;
const GARBAGE: usize = 40;
const NEXT: usize = 44;
const HIGH: usize = 48;
const KEY_LEN: usize = 3;
const VALUE_LEN: usize = 5;
const OVERFLOW_NEXT: usize = 24;
const OVERFLOW_LEN: usize = 28;

const ROWS: i64 = 300;
/// Columns of this length take two overflow pages.
const LONG: usize = 20_000;

fn number(page: &Page, at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}
fn add(page: &mut Page, at: usize, n: i32) {
    let sum = u16::try_from(i32::from(number(page, at)) + n).unwrap();
    page[at..at + 2].copy_from_slice(&sum.to_le_bytes());
}
fn set_page(page: &mut Page, at: usize, no: PageNo) {
    page[at..at + 4].copy_from_slice(&no.to_le_bytes());
}

/// A closed directory with a table, and the file of the table.
struct Closed {
    dir: Dir,
    path: PathBuf,
    good: Vec<u8>,
}
impl Closed {
    /// (id, k, c) with an index on k. The last row has the greatest k, and two rows are long.
    fn new(name: &str) -> Closed {
        let dir = Dir::new(name);
        let (e, _) = open(&dir);
        let space = block_on(async {
            let columns = vec![("k", int()), ("c", text(60_000))];
            let t = create(&e, "t", columns, vec![IndexDef::secondary("k", false, [1])]).await;
            let mut trx = e.begin(KillFlag::new());
            for id in 0..ROWS {
                let k = if id + 1 == ROWS { i64::from(i32::MAX) } else { id };
                let len = if [7, 200].contains(&id) { LONG } else { 700 };
                let row = [Value::Int(id), Value::Int(k), Value::Bytes(vec![b'x'; len].into())];
                trx.insert(&t, &encoded(&t, &row)).await.unwrap();
            }
            commit(&mut trx).await;
            drop(trx);
            clean(&e, &t, ROWS as u64).await;
            e.close().await.unwrap();
            t.space.0
        });
        drop(e);
        let path = dir.0.join(format!("tables/{space}.rdl"));
        let good = std::fs::read(&path).unwrap();
        Closed { dir, path, good }
    }
    fn page(&self, no: PageNo) -> &Page {
        self.good[no as usize * PAGE_SIZE..].first_chunk().unwrap()
    }
    fn pages(&self, holds: impl Fn(&Page) -> bool) -> Vec<PageNo> {
        let all = 0..(self.good.len() / PAGE_SIZE) as PageNo;
        all.filter(|no| holds(self.page(*no))).collect()
    }
    /// The leaves of the clustered index (0) or of the other one (1), from the lowest on.
    fn leaves(&self, which: usize) -> Vec<PageNo> {
        let is_leaf =
            |page: &Page| header::page_type(page) == INDEX_TYPE && index::level(page) == 0;
        let leaves = self.pages(is_leaf);
        let mut ids: Vec<u64> = leaves.iter().map(|no| index::index_id(self.page(*no))).collect();
        ids.sort();
        ids.dedup();
        let of = |no: &PageNo| index::index_id(self.page(*no)) == ids[which];
        let leaves: Vec<PageNo> = leaves.into_iter().filter(of).collect();
        let nexts: Vec<PageNo> = leaves.iter().map(|no| index::next_page(self.page(*no))).collect();
        let mut chain: Vec<PageNo> =
            leaves.iter().copied().filter(|no| !nexts.contains(no)).collect();
        assert_eq!(chain.len(), 1, "one leaf has no other one before it");
        while let next @ 1.. = index::next_page(self.page(chain[chain.len() - 1])) {
            chain.push(next);
        }
        assert_eq!(chain.len(), leaves.len());
        chain
    }
    /// The chains of the long columns: two pages each.
    fn chains(&self) -> Vec<[PageNo; 2]> {
        let next = |no: PageNo| {
            PageNo::from_le_bytes(*self.page(no)[OVERFLOW_NEXT..].first_chunk().unwrap())
        };
        let pages = self.pages(|page| header::page_type(page) == OVERFLOW_TYPE);
        let first = pages.into_iter().filter(|no| next(*no) != 0);
        let chains: Vec<_> = first.map(|no| [no, next(no)]).collect();
        assert_eq!(chains.len(), 2);
        chains
    }
    /// What CHECK TABLE finds after a change of one page, which gets a right checksum.
    fn found(&self, no: PageNo, harm: impl FnOnce(&mut Page)) -> Vec<String> {
        let mut bad = self.good.clone();
        let page = bad[no as usize * PAGE_SIZE..].first_chunk_mut::<PAGE_SIZE>().unwrap();
        harm(page);
        header::stamp(page);
        std::fs::write(&self.path, &bad).unwrap();
        let (e, _) = open(&self.dir);
        let errors = block_on(async {
            let t = e.table("test", "t").await.unwrap().unwrap();
            let errors = e.check_table(&t).await.unwrap().errors;
            e.close().await.unwrap();
            errors
        });
        drop(e);
        errors
    }
}
#[track_caller]
fn says(errors: &[String], what: &str) {
    assert!(errors.iter().any(|e| e.contains(what)), "{what}: {errors:#?}");
}
fn last_record(page: &Page) -> u16 {
    index::records(page).last().unwrap()
}

#[test]
fn a_level_ends_too_early_or_too_late() {
    let closed = Closed::new("check-levels");
    assert_eq!(closed.found(0, |_| ()), Vec::<String>::new());
    for which in 0..2 {
        let leaves = closed.leaves(which);
        let (first, last) = (leaves[0], *leaves.last().unwrap());
        if which == 0 {
            assert!(leaves.len() > 5, "{leaves:?}");
        } else if leaves.len() == 1 {
            // The root is the only leaf.
            continue;
        }
        let errors = closed.found(first, |page| {
            let high = number(page, HIGH) as usize;
            let (key, value) = (number(page, high + KEY_LEN), number(page, high + VALUE_LEN));
            add(page, GARBAGE, (index::REC as u16 + key + value).into());
            page[HIGH..HIGH + 2].fill(0);
            set_page(page, NEXT, 0);
        });
        says(&errors, "it has no high key, but is not the last page of its level");
        let errors = closed.found(first, |page| set_page(page, NEXT, leaves[2]));
        says(&errors, "its right neighbour is not the parent's next child");
        let errors = closed.found(last, |page| {
            let key = [0xff; 4];
            let (at, len) = (number(page, HEAP_TOP), index::REC + key.len());
            let record = &mut page[at as usize..][..len];
            record.fill(0);
            record[KEY_LEN] = key.len() as u8;
            record[index::REC..].copy_from_slice(&key);
            add(page, HEAP_TOP, len as i32);
            add(page, HIGH, at.into());
        });
        says(&errors, "the last page of its level has a high key");
    }
}

#[test]
fn a_long_column_has_too_few_bytes_or_pages_of_another() {
    let closed = Closed::new("check-chains");
    let [one, other] = closed.chains().try_into().unwrap();
    let errors = closed.found(one[1], |page| add(page, OVERFLOW_LEN, -1));
    says(&errors, "do not have its");
    let errors = closed.found(one[0], |page| set_page(page, OVERFLOW_NEXT, 0));
    says(&errors, "do not have its");
    let errors = closed.found(other[0], |page| set_page(page, OVERFLOW_NEXT, one[1]));
    says(&errors, "of a long column belongs to something else too");
    let errors = closed.found(other[0], |page| set_page(page, OVERFLOW_NEXT, other[0]));
    says(&errors, "of a long column belongs to something else too");
    let leaf = closed.leaves(0)[0];
    let errors = closed.found(other[0], |page| set_page(page, OVERFLOW_NEXT, leaf));
    says(&errors, "of a long column belongs to something else too");
}

/// Records whose bytes are no row and no entry.
#[test]
fn malformed_records_are_findings() {
    let closed = Closed::new("check-records");
    let leaf = *closed.leaves(0).last().unwrap();
    let len = index::value(closed.page(leaf), last_record(closed.page(leaf))).len();
    for left in [0, 5, 14, 20, len - 300] {
        let errors = closed.found(leaf, |page| {
            let at = last_record(page) as usize;
            add(page, at + VALUE_LEN, left as i32 - len as i32);
            add(page, GARBAGE, len as i32 - left as i32);
        });
        says(&errors, &format!("a row of page {leaf} is malformed"));
        says(&errors, "index 'k' has an entry without a row");
    }
    let leaf = *closed.leaves(1).last().unwrap();
    for (left, what) in [
        (1, "index 'k' has a malformed entry"),
        (3, "index 'k' has a malformed entry"),
        (4, "index 'k' has an entry without a row"),
        (6, "index 'k' has an entry without a row"),
    ] {
        let errors = closed.found(leaf, |page| {
            let at = last_record(page) as usize;
            let len = i32::from(number(page, at + KEY_LEN));
            add(page, at + KEY_LEN, left - len);
            add(page, at + VALUE_LEN, len - left);
        });
        says(&errors, what);
        says(&errors, "index 'k' lacks the entry of a row");
    }
}

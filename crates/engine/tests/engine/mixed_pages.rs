//! Pages of different ages in one file: what a disk leaves that has not written a page.
#![allow(clippy::disallowed_methods)] // writes damaged files
use crate::common::Dir;
use crate::common::tables::*;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::block_on;
use redolith_engine::testing::page::{Patch, header, index};
use redolith_engine::{Error, PAGE_SIZE};
use redolith_types::Value;
use std::borrow::Cow;

struct Raw<'a>(&'a mut [u8; PAGE_SIZE]);
impl Patch for Raw<'_> {
    fn bytes(&self) -> &[u8; PAGE_SIZE] {
        self.0
    }
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Tests TREE-2: a leaf says that it was split, and its parent has another page in the place of the
/// new one.
#[test]
fn a_split_that_the_parent_knows_otherwise_is_an_error() {
    let dir = Dir::new("mixed-split");
    let (e, _) = open(&dir);
    let row = |id: i64| [Value::Int(id), Value::Bytes(Cow::Owned(vec![b'.'; 700]))];
    let (space, root) = block_on(async {
        let t = create(&e, "t", vec![("c", text(1000))], vec![]).await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..200 {
            trx.insert(&t, &encoded(&t, &row(2 * id))).await.unwrap();
        }
        commit(&mut trx).await;
        drop(trx);
        e.close().await.unwrap();
        (t.space.0, t.clustered().tree.root as usize)
    });
    drop(e);
    let path = dir.0.join(format!("tables/{space}.rdl"));
    let mut file = std::fs::read(&path).unwrap();
    let at = |no: usize| no * PAGE_SIZE..(no + 1) * PAGE_SIZE;
    let page = |file: &[u8], no| -> [u8; PAGE_SIZE] { file[at(no)].try_into().unwrap() };
    let top = page(&file, root);
    assert_eq!(index::level(&top), 1);
    let leaf = index::child(&top, index::first_rec(&top).unwrap()) as usize;
    let mut first = page(&file, leaf);
    let third = index::next_page(&page(&file, index::next_page(&first) as usize));
    index::set_next_page(&mut Raw(&mut first), third);
    index::set_incomplete(&mut Raw(&mut first), true);
    header::stamp(&mut first);
    file[at(leaf)].copy_from_slice(&first);
    std::fs::write(&path, &file).unwrap();

    let (e, _) = open(&dir);
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        let mut trx = e.begin(KillFlag::new());
        let failed = trx.insert(&t, &encoded(&t, &row(1))).await.map(drop).unwrap_err();
        assert!(
            matches!(&failed, Error::Corrupt { why, .. } if why.contains("belongs")),
            "{failed}"
        );
        // The rest of the table is served.
        trx.insert(&t, &encoded(&t, &row(301))).await.unwrap();
        commit(&mut trx).await;
        drop(trx);
        e.close().await.unwrap();
    });
}

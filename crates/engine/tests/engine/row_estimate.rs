//! The number of rows that a table is taken to have when it is opened.
#![allow(clippy::disallowed_methods)] // writes damaged files
use crate::common::Dir;
use crate::common::tables::*;
use redolith_engine::PAGE_SIZE;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::block_on;
use redolith_engine::testing::btree::Seek;
use redolith_engine::testing::buf::Latch;
use redolith_engine::testing::page::{header, index};
use redolith_types::Value;
use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

/// Plans depend on the estimate. Neither the first leaf, which has other rows than the rest, nor
/// the height of the tree says how many rows there are.
#[test]
fn an_opened_table_has_about_its_number_of_rows() {
    for (narrow, wide) in [(0, 0), (5, 0), (300, 0), (300, 40), (300, 3000)] {
        let dir = Dir::new("row-estimate");
        let (e, _) = open(&dir);
        block_on(async {
            let t = create(&e, "wide", vec![("c", text(7000))], vec![]).await;
            let mut trx = e.begin(KillFlag::new());
            for id in 0..narrow + wide {
                let len = if id < narrow { 1 } else { 7000 };
                let row = [Value::Int(id), Value::Bytes(Cow::Owned(vec![b'.'; len]))];
                trx.insert(&t, &encoded(&t, &row)).await.unwrap();
            }
            commit(&mut trx).await;
            drop(trx);
            e.close().await.unwrap();
        });
        drop(e);
        let (e, _) = open(&dir);
        block_on(async {
            let t = e.table("test", "wide").await.unwrap().unwrap();
            let (rows, real) = (t.rows.load(Relaxed), narrow + wide);
            assert!(rows >= real / 3 && rows <= real * 3, "{rows} for {real}");
            if wide > 1000 {
                let tree = &t.clustered().tree;
                let Ok(root) = tree.descend(&e.store, Seek::Key(b""), 2, Latch::S, None) else {
                    panic!("it is in memory")
                };
                assert_eq!(index::level(&root), 2, "the tree has pages between root and leaves");
            }
            e.close().await.unwrap();
        });
    }
}

/// Where an index page has its level.
const LEVEL: usize = 32;

/// A page that verifies and is of another kind, or has a level that no tree reaches.
#[test]
fn a_root_that_is_none_is_an_error() {
    type Harm = fn(&mut [u8; PAGE_SIZE]);
    let harms: [(Harm, bool); 2] = [
        (
            |page| {
                page[header::TYPE] = 0x66;
                page[header::BODY..header::BODY + 4000].fill(0xfe);
            },
            false,
        ),
        (|page| page[LEVEL..LEVEL + 2].fill(0xff), true),
    ];
    for (harm, opens) in harms {
        let dir = Dir::new("row-estimate-root");
        let (e, _) = open(&dir);
        let (space, root) = block_on(async {
            let t = create(&e, "t", vec![("c", text(7000))], vec![]).await;
            let mut trx = e.begin(KillFlag::new());
            for id in 0..100 {
                let row = [Value::Int(id), Value::Bytes(Cow::Owned(vec![b'.'; 700]))];
                trx.insert(&t, &encoded(&t, &row)).await.unwrap();
            }
            commit(&mut trx).await;
            drop(trx);
            e.close().await.unwrap();
            (t.space.0, t.clustered().tree.root as usize)
        });
        drop(e);
        let path = dir.0.join(format!("tables/{space}.rdl"));
        let mut file = std::fs::read(&path).unwrap();
        let page = file[root * PAGE_SIZE..].first_chunk_mut::<PAGE_SIZE>().unwrap();
        harm(page);
        header::stamp(page);
        std::fs::write(&path, &file).unwrap();
        let (e, _) = open(&dir);
        block_on(async {
            let opened = e.table("test", "t").await;
            assert_eq!(opened.is_ok(), opens);
            e.close().await.unwrap();
        });
    }
}

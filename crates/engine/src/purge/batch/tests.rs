use super::*;
use crate::small_engine::*;

/// A walk that has waited, three versions back, answers nothing for the next entry.
/// Tests VERS-1 and PURGE-2.
#[test]
fn a_walk_that_waits_answers_nothing_for_other_entries() {
    with_engine("purge-batch", async |e| {
        let t = table(&e).await;
        let mut trx = begin(&e);
        trx.insert(&t, &row(&t, 1, 0)).await.unwrap();
        commit(&mut trx).await;
        purged(&e).await;
        for k in 1..=4 {
            update(&mut trx, &t, 1, k).await;
        }
        let (key, mut b) = (key(&t, 1), Batch::default());
        b.tables.push(t.clone());
        for k in [2, 9] {
            let mut entry = Vec::new();
            t.entry_key(1, &row(&t, 1, k), &key, &mut entry);
            b.put(0, 1, &entry, key.len(), RollPtr::NONE);
        }
        for (i, needed) in [(0, true), (1, false), (0, true)] {
            {
                let Ok(g) = t.clustered().tree.leaf(&e.store, Seek::Key(&key)) else { panic!() };
                let r = index::search(&g, &key).found.expect("the row is there");
                b.walk.wait_after(&e.store, (&g, r), 3);
            }
            let told = e.is_needed(&mut b, &t, i).ok().flatten();
            assert_eq!(told, Some(needed), "entry {i}");
        }
        trx.rollback().await.unwrap();
        clean(&e, &t, 1).await;
        drop(trx);
    });
}

/// A batch without entries of secondary indexes does not stay large.
#[test]
fn batches_without_walks_become_small() {
    let batch = Batch { pages: 256, ..Batch::default() };
    assert_eq!(batch.next_pages(), 128);
}

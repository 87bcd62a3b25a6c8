use super::*;
use crate::buf::HELD;
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::small_engine::*;
use crate::trx::Trx;
use std::sync::Arc;

/// Leaves of the rows' tree, from the left.
fn leaves(e: &Engine, t: &Table) -> Vec<PageNo> {
    let mut leaves = Vec::new();
    assert!(t.clustered().tree.leaves_of_range(&e.store, b"", None, 1000, &mut leaves).is_ok());
    leaves
}
async fn filled(e: &Arc<Engine>, rows: i64) -> (Arc<Table>, Trx) {
    let (t, mut trx) = (table(e).await, begin(e));
    for id in 0..rows {
        trx.insert(&t, &row(&t, id, id)).await.unwrap();
    }
    commit(&mut trx).await;
    purged(e).await;
    (t, trx)
}
/// Makes the parent, which is the root, forget the right neighbour of a leaf.
fn forget_right_of(e: &Engine, tree: &Tree, left: PageNo) {
    let Ok(mut m) = Mtr::begin(&e.store) else { panic!("there is room") };
    let (Ok(root), Ok(l)) = (m.x(tree.page_id(tree.root)), m.x(tree.page_id(left))) else {
        panic!("they are in memory")
    };
    let separator = index::high_key(m.page(l)).unwrap().to_vec();
    let pos = index::search(m.page(root), &separator);
    index::remove(&mut m.patch(root), pos);
    index::set_incomplete(&mut m.patch(l), true);
    m.commit();
}

/// A page that the parent does not know is told about after the pages before it.
#[test]
fn a_row_of_incomplete_splits_is_completed_from_any_of_them() {
    for first in 1..4 {
        with_engine(&format!("btree-row-{first}"), async |e| {
            let (t, trx) = filled(&e, 4000).await;
            let (tree, all) = (&t.clustered().tree, leaves(&e, &t));
            assert!(all.len() > 6);
            for left in &all[1..4] {
                forget_right_of(&e, tree, *left);
            }
            assert_eq!(leaves(&e, &t).len(), all.len() - 3);
            assert!(tree.complete(&e.store, 0, all[first]).is_ok());
            for left in &all[1..4] {
                assert!(tree.complete(&e.store, 0, *left).is_ok());
            }
            assert_eq!(leaves(&e, &t), all);
            clean(&e, &t, 4000).await;
            drop(trx);
        });
    }
}

/// Tests TREE-1: a page that has left its place since its incomplete split was seen is not latched
/// below the parent of its former place. The test holds the page's latch, which a thread that
/// latches pages in another order would wait for.
#[test]
fn a_page_that_has_left_its_place_is_not_latched() {
    with_engine("btree-place", async |e| {
        let (t, mut trx) = filled(&e, 4000).await;
        let (tree, all) = (&t.clustered().tree, leaves(&e, &t));
        let left = all[2];
        forget_right_of(&e, tree, left);
        let Ok(Some(split)) = tree.incomplete_split(&e.store, 0, left) else {
            panic!("the split is incomplete")
        };
        // Another thread completes the split, and then the page's rows go, and the page with them.
        assert!(tree.complete(&e.store, 0, left).is_ok());
        for id in 1..2000 {
            let at = locked(&mut trx, &t, id).await;
            trx.delete(&t, at.row()).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        let now = leaves(&e, &t);
        assert!(!now.contains(&left) && !now.contains(&split.right));
        let Ok(elsewhere) = e.store.pool.fix(tree.page_id(left), Latch::X) else {
            panic!("it is in memory")
        };
        HELD.set(Some(elsewhere.id()));
        let told = tree.tell_parent(&e.store, 0, &split);
        HELD.set(None);
        assert!(matches!(told, Ok(Told::Behind(_) | Told::Changed)));
        drop(elsewhere);
        assert!(tree.complete(&e.store, 0, left).is_ok());
        clean(&e, &t, 2001).await;
        drop(trx);
    });
}

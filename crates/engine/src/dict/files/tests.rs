use super::*;
use crate::PageId;
use crate::row::overflow::{self, Writer};
use crate::small_engine::*;
use crate::testing::within;

/// A task of purge may still walk the trees of a dropped table. Tests LOAD-4.
#[test]
fn no_page_of_a_file_that_is_gone_is_read_again() {
    with_engine("gone-file", async |e| {
        let (t, store) = (table(&e).await, &e.store);
        let mut trx = begin(&e);
        for id in 0..100 {
            trx.insert(&t, &row(&t, id, id)).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        let root = PageId { space: t.space, no: t.clustered().tree.root };
        assert!(store.pool.contains(root));
        // Between the removal of the file and the moment at which its space is forgotten.
        store.spaces.remove_file(t.space).unwrap();
        store.spaces.set_gone(t.space);
        store.log.flush_to(store.log.tail()).await;
        // A page that is being written stays until it is.
        within(&e, "the pages go", || {
            store.pool.drop_space(t.space, store.log.durable()).is_none()
                && !store.pool.contains(root)
        })
        .await;
        assert!(store.spaces.get(t.space).is_some());
        let read = store.pool.load(root).await;
        assert!(matches!(&read, Err(Error::Io { .. })), "the file has an empty tree: {read:?}");
        assert!(store.pool.prefetch(root).is_none());
        assert!(!store.pool.contains(root));
        // What purge leaves behind and what a checkpoint asks for is nothing.
        overflow::free_chain(&e, t.space, root.no, Writer::Any).await.unwrap();
        store.spaces.written_again(&store.spaces.get(t.space).unwrap());
        // False: the engine's own task is at it.
        while !e.stamp_files().await.unwrap() {
            e.runtime.yield_now().await;
        }
        e.forget_space(t.space).await;
        assert!(store.spaces.get(t.space).is_none());
    });
}

use super::*;
use crate::small_engine::*;

/// Tests OLDER-2.
#[test]
fn a_long_walk_lets_others_run() {
    with_engine("rollback-walk", async |e| {
        let t = table(&e).await;
        let mut trx = begin(&e);
        trx.insert(&t, &row(&t, 1, 0)).await.unwrap();
        commit(&mut trx).await;
        for k in 1..=2000 {
            update(&mut trx, &t, 1, k).await;
        }
        let key = key(&t, 1);
        let Ok(Some(newest)) = e.own_version(&t, trx.id, trx.undo.last, &key) else {
            panic!("the newest version is its own, and in memory")
        };
        let (mut older, mut steps) = (Older::default(), 1);
        let find = |older: &mut Older| older.find(&e.store, &e.horizon, &t, trx.id, &key, &newest);
        loop {
            let before = older.read;
            match find(&mut older) {
                Ok(true) => break,
                Ok(false) => steps += 1,
                Err(_) => panic!("all is in memory"),
            }
            assert!(older.read - before <= 256);
        }
        assert!(steps >= 8 && older.read == 2000, "{steps} steps, {} versions", older.read);
        trx.rollback().await.unwrap();
        clean(&e, &t, 1).await;
        drop(trx);
    });
}

/// Tests ROLLBACK-1: between the mark of an entry and the return of the version before, the last
/// view closes that reads the version with the entry, and purge passes over the entry, which the
/// newest version still has.
#[test]
fn an_entry_that_purge_has_passed_meanwhile_goes() {
    with_engine("rollback-late", async |e| {
        let t = table(&e).await;
        let (mut reader, mut other, mut trx) = (begin(&e), begin(&e), begin(&e));
        other.insert(&t, &row(&t, 1, 10)).await.unwrap();
        commit(&mut other).await;
        purged(&e).await;
        reader.open_view();
        update(&mut other, &t, 1, 20).await;
        commit(&mut other).await;
        // The entry of 10 is the row's again.
        update(&mut trx, &t, 1, 10).await;
        let at = trx.undo.last;
        let Ok((_, Step::Change { key, flags, head, .. })) = read_step(&e, at) else {
            panic!("a change, in memory")
        };
        let change = Change { trx: trx.id, at, key: &key, flags, head: &head };
        let mut older = Older::default();
        let Ok(Entries::Done(left)) = e.take_back_entries(&t, &change, &mut older) else {
            panic!("all is in memory")
        };
        assert_eq!(left.needed_until.len(), 1, "the reader needs the entry of 10");
        reader.rollback().await.unwrap();
        purged(&e).await;
        assert!(matches!(e.put_back(&t, &change, &left, &mut older), Ok(Tried::Again)));
        trx.rollback().await.unwrap();
        clean(&e, &t, 1).await;
        drop((reader, other, trx));
    });
}

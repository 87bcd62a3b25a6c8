use super::*;
use crate::btree::Seek;
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::small_engine::*;
use crate::trx::Trx;

/// Goes on with the walk through the row with id 1. Returns whether it has come to its end, or
/// whether a version has the entry of `k`, which the batch has.
fn step(newer: &mut Newer, e: &Engine, t: &Table, k: Option<i64>) -> Option<bool> {
    let key = key(t, 1);
    let Ok(g) = t.clustered().tree.leaf(&e.store, Seek::Key(&key)) else { panic!("in memory") };
    let r = index::search(&g, &key).found.expect("the row is there");
    let (horizon, read) = (e.horizon.read(), newer.read);
    let told = match k {
        Some(k) => {
            let k = entry(t, k);
            newer.has_entry(&e.store, &horizon, (t, 1), &k, (&g, r), ENTRIES_AT_ONCE)
        }
        None => newer.walk(&e.store, &horizon, t, (&g, r), ENTRIES_AT_ONCE).map(Some),
    };
    assert!(newer.read - read <= ENTRIES_AT_ONCE as u64, "NEWER-3");
    told.unwrap_or_else(|_| panic!("all is in memory"))
}
fn entry(t: &Table, k: i64) -> Vec<u8> {
    let mut entry = Vec::new();
    t.entry_key(1, &row(t, 1, k), &key(t, 1), &mut entry);
    entry
}
/// The walk's answers are those of a row whose versions have the values of `there`.
fn expect(newer: &mut Newer, e: &Engine, t: &Table, there: impl Fn(i64) -> bool) {
    while step(newer, e, t, None) == Some(false) {}
    for k in (0..6000).filter(|k| k % 10 < 2) {
        assert_eq!(step(newer, e, t, Some(k)), Some(there(k)), "{k}");
    }
}
async fn change(trx: &mut Trx, t: &std::sync::Arc<Table>, to: std::ops::Range<i64>) {
    for k in to {
        update(trx, t, 1, k).await;
    }
}

/// Tests NEWER-1 and NEWER-3: versions come, and go back, before, within and after the walk.
#[test]
fn a_walk_answers_for_the_versions_that_are_there() {
    with_engine("purge-newer", async |e| {
        let t = table(&e).await;
        let mut trx = begin(&e);
        trx.insert(&t, &row(&t, 1, 0)).await.unwrap();
        commit(&mut trx).await;
        purged(&e).await;
        let mut newer = Newer::default();
        (0..6000).for_each(|k| newer.add(t.id, 1, &entry(&t, k)));
        change(&mut trx, &t, 1..1001).await;
        let early = trx.savepoint();
        change(&mut trx, &t, 1001..2001).await;
        let late = trx.savepoint();
        // Versions come while the walk goes on.
        let mut steps = 0;
        while step(&mut newer, &e, &t, None) == Some(false) {
            steps += 1;
            let next = 2000 + steps * 10;
            change(&mut trx, &t, next - 9..next + 1).await;
            assert!(newer.is_walking() && newer.walks.len() == 1);
        }
        let last = 2000 + steps * 10;
        assert!(steps >= 3 && newer.read == last as u64, "{steps} steps, {}", newer.read);
        expect(&mut newer, &e, &t, |k| k <= last);
        assert_eq!(newer.read, last as u64, "a walk that is over answers without another one");
        // More versions come than one step reads: the walks lead to each other.
        change(&mut trx, &t, 3000..3600).await;
        assert_eq!(step(&mut newer, &e, &t, Some(1)), None);
        change(&mut trx, &t, 3600..4200).await;
        assert_eq!(step(&mut newer, &e, &t, Some(1)), None);
        assert_eq!(newer.walks.len(), 3);
        expect(&mut newer, &e, &t, |k| k <= last || (3000..4200).contains(&k));
        assert_eq!(newer.read, last as u64 + 1200);
        // The walk before has begun with a version that goes back.
        trx.rollback_to(late).await.unwrap();
        expect(&mut newer, &e, &t, |k| k <= 2000);
        // So does the present one, in the middle.
        change(&mut trx, &t, 5000..6000).await;
        assert_eq!(step(&mut newer, &e, &t, Some(1)), None);
        trx.rollback_to(early).await.unwrap();
        change(&mut trx, &t, 4999..5000).await;
        expect(&mut newer, &e, &t, |k| k <= 1000 || k == 4999);
        // More walks than may lead to each other: the last one answers alone.
        for n in 0..MOST_WALKS as i64 + 1 {
            change(&mut trx, &t, 1001..1002 + ENTRIES_AT_ONCE as i64).await;
            assert_eq!(step(&mut newer, &e, &t, Some(n)), None);
            assert!(newer.walks.len() <= MOST_WALKS);
        }
        let to = 1001 + ENTRIES_AT_ONCE as i64;
        expect(&mut newer, &e, &t, |k| k <= to || k == 4999);
        trx.rollback().await.unwrap();
        expect(&mut newer, &e, &t, |k| k == 0);
        // Another row's walk comes between.
        trx.insert(&t, &row(&t, 2, 0)).await.unwrap();
        change(&mut trx, &t, 1..700).await;
        expect(&mut newer, &e, &t, |k| k < 700);
        let read = newer.read;
        newer.turn_to(t.id, &key(&t, 2));
        assert!(newer.walks.is_empty() && newer.knows(t.id, &key(&t, 1)));
        expect(&mut newer, &e, &t, |k| k < 700);
        assert_eq!(newer.read, read);
        trx.rollback().await.unwrap();
        clean(&e, &t, 1).await;
        drop(trx);
    });
}

/// An entry that a walk has found is needed no more after the horizon has moved. The answer stays,
/// and the entry goes with the undo log of the transaction that replaced its version.
/// Tests NEWER-2.
#[test]
fn entries_that_an_earlier_horizon_needed_go_later() {
    with_engine("purge-horizon", async |e| {
        let t = table(&e).await;
        let mut trx = begin(&e);
        trx.insert(&t, &row(&t, 1, 0)).await.unwrap();
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        for k in 1..=20 {
            update(&mut trx, &t, 1, k).await;
            commit(&mut trx).await;
        }
        let asked = || {
            let mut newer = Newer::default();
            (0..=20).for_each(|k| newer.add(t.id, 1, &entry(&t, k)));
            newer
        };
        let (mut before, mut after) = (asked(), asked());
        assert_eq!(step(&mut before, &e, &t, Some(5)), Some(true));
        e.history.resume();
        clean(&e, &t, 1).await;
        assert_eq!(step(&mut before, &e, &t, Some(5)), Some(true));
        assert_eq!(step(&mut after, &e, &t, Some(5)), Some(false));
        assert_eq!(step(&mut after, &e, &t, Some(20)), Some(true));
        drop(trx);
    });
}

//! Rows that are made from the entries of a secondary index (CURSOR-3).
use crate::common::Dir;
use crate::common::table::{LOCK, def, key, row};
use crate::common::tables::{commit, open};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::block_on;
use redolith_engine::testing::AtEnd;
use redolith_engine::{DEFAULT_COLLATION, Error, Trx};
use redolith_types::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The rows in the order of k, as (id, k), and how many of them were made from entries.
async fn by_k(
    trx: &mut Trx,
    t: &Arc<Table>,
    covered: bool,
    reverse: bool,
) -> (Vec<(i64, i64)>, usize) {
    let mut c = Cursor::new(t.clone(), 1, Vec::new(), None, reverse, Read::Consistent);
    if covered {
        c.cover(&[0, 1]);
    }
    let (mut rows, mut made) = (Vec::new(), 0);
    while c.next(trx).await.unwrap() {
        let number = |column| match t.layout.get(c.row().stored, column) {
            Value::Int(n) => n,
            other => panic!("{other:?}"),
        };
        rows.push((number(0), number(1)));
        // The text is in no entry.
        made += usize::from(t.layout.is_null(c.row().stored, 2));
    }
    (rows, made)
}
/// Inserts, changes or deletes a row.
async fn change(trx: &mut Trx, t: &Arc<Table>, id: i64, k: i64) -> Result<(), Error> {
    let mut c = Cursor::point(t.clone(), key(t, id), LOCK);
    if !c.next(trx).await? {
        trx.insert(t, &row(t, id, k, "x")).await
    } else if k % 5 == 0 {
        trx.delete(t, c.row()).await
    } else {
        trx.update(t, c.row(), &row(t, id, k, "y")).await
    }
}

/// Whoever changes rows meanwhile, a view has the same rows with and without their entries alone.
/// Tests CURSOR-3 and VIEW-3.
#[test]
fn entries_alone_give_the_rows_of_the_view() {
    const IDS: i64 = 3000;
    let dir = Dir::new("covered");
    let (e, _) = open(&dir);
    let t = block_on(async {
        e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
        let t = e.create_table(def("t"), 1, None).await.unwrap();
        let mut trx = e.begin(KillFlag::new());
        for id in 0..IDS {
            trx.insert(&t, &row(&t, id, id * 7919 % IDS, "x")).await.unwrap();
        }
        commit(&mut trx).await;
        // Nobody has changed anything since, so all rows come from entries.
        for reverse in [false, true] {
            let mut trx = e.begin(KillFlag::new());
            assert_eq!(by_k(&mut trx, &t, true, reverse).await.1, IDS as usize);
            commit(&mut trx).await;
        }
        t
    });
    let (done, alone, mixed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _ends = AtEnd(|| done.store(true, Relaxed));
        for writer in 0..2 {
            let (e, t, done) = (&e, &t, &done);
            scope.spawn(move || {
                let mut random = writer as u64 + 1;
                let mut draw = move |n: u64| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(99);
                    ((random >> 33) % n) as i64
                };
                block_on(async {
                    while !done.load(Relaxed) {
                        let mut trx = e.begin(KillFlag::new());
                        // Writers meet in few places, and leave most pages alone for a while.
                        let from = draw(IDS as u64 - 50);
                        let mut ends_well = true;
                        for _ in 0..1 + draw(20) {
                            let (id, k) = (2 * (from / 2) + 2 * draw(25) + writer, draw(300));
                            ends_well &= change(&mut trx, t, id, k).await.is_ok();
                        }
                        if ends_well && draw(4) > 0 {
                            commit(&mut trx).await;
                        } else {
                            trx.rollback().await.unwrap();
                        }
                    }
                });
            });
        }
        for round in 0..60 {
            block_on(async {
                let mut trx = e.begin(KillFlag::new());
                trx.open_view();
                if round % 2 == 0 {
                    change(&mut trx, &t, IDS + round, round).await.unwrap();
                }
                let reverse = round % 3 == 0;
                let (rows, made) = by_k(&mut trx, &t, true, reverse).await;
                assert_eq!(by_k(&mut trx, &t, false, reverse).await, (rows.clone(), 0), "{round}");
                assert!(rows.is_sorted_by_key(|row| if reverse { -row.1 } else { row.1 }));
                alone.fetch_add(made, Relaxed);
                mixed.fetch_add(rows.len() - made, Relaxed);
                trx.rollback().await.unwrap();
            });
        }
    });
    let (alone, mixed) = (alone.into_inner(), mixed.into_inner());
    assert!(alone > 0 && mixed > 0, "{alone} rows from entries, {mixed} from rows");
    block_on(e.close()).unwrap();
}

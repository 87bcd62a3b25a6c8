//! Rollbacks: their work is in proportion to the changes that they take back, and they leave no
//! entries behind.
use crate::common::Dir;
use crate::common::tables::*;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::block_on;
use redolith_engine::{Engine, Trx};
use redolith_types::{IndexDef, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// A table of rows (id, a, b, c) with an index on a and one on b.
async fn indexed(e: &Arc<Engine>) -> Arc<Table> {
    let columns = vec![("a", int()), ("b", int()), ("c", int())];
    let indexes = vec![IndexDef::secondary("a", false, [1]), IndexDef::secondary("b", false, [2])];
    create(e, "t", columns, indexes).await
}
fn row(t: &Table, id: i64, a: i64, b: i64, c: i64) -> Vec<u8> {
    encoded(t, &[Value::Int(id), Value::Int(a), Value::Int(b), Value::Int(c)])
}
async fn update(trx: &mut Trx, t: &Arc<Table>, id: i64, a: i64, b: i64, c: i64) {
    let at = locked(trx, t, id).await.unwrap();
    trx.update(t, at.row(), &row(t, id, a, b, c)).await.unwrap();
}
fn read(e: &Engine) -> u64 {
    e.history.counts.older_read.load(SeqCst)
}

/// Tests OLDER-3: each version is read a bounded number of times, whatever the order in which the
/// rows were changed, and whichever indexes the changes were of.
#[test]
fn many_changes_of_a_row_are_taken_back_in_linear_work() {
    const CHANGES: i64 = 2000;
    let dir = Dir::new("rollback-linear");
    let (e, _) = open(&dir);
    block_on(async {
        let t = indexed(&e).await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..4 {
            trx.insert(&t, &row(&t, id, -1, -1, 0)).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        for rows in [1, 4] {
            for to_savepoint in [false, true] {
                // A view keeps purge away from all versions.
                let (mut reader, mut other) = (e.begin(KillFlag::new()), e.begin(KillFlag::new()));
                reader.open_view();
                for n in 0..200 {
                    update(&mut other, &t, n % rows, n, -n, 0).await;
                    commit(&mut other).await;
                }
                for id in 0..rows {
                    update(&mut other, &t, id, -1, -1, 0).await;
                }
                commit(&mut other).await;
                update(&mut trx, &t, 0, 7, 8, 9).await;
                let savepoint = trx.savepoint();
                for n in 0..CHANGES {
                    // Values come again, and some changes are of one index or of none.
                    let (a, b) = (n - n % 3, if n % 5 == 0 { n } else { n % 100 });
                    update(&mut trx, &t, n % rows, a, b, n).await;
                }
                let before = read(&e);
                if to_savepoint {
                    trx.rollback_to(savepoint).await.unwrap();
                    let steps = read(&e) - before;
                    assert!(steps > 0 && steps < 12 * CHANGES as u64, "{rows} rows: {steps}");
                    let at = locked(&mut trx, &t, 0).await.unwrap();
                    assert_eq!(at.row().stored, row(&t, 0, 7, 8, 9));
                    commit(&mut trx).await;
                    update(&mut trx, &t, 0, -1, -1, 0).await;
                    commit(&mut trx).await;
                } else {
                    trx.rollback().await.unwrap();
                    let steps = read(&e) - before;
                    assert!(steps > 0 && steps < 12 * CHANGES as u64, "{rows} rows: {steps}");
                }
                reader.rollback().await.unwrap();
                clean(&e, &t, 4).await;
                for id in 0..4 {
                    let at = locked(&mut trx, &t, id).await.unwrap();
                    assert_eq!(at.row().stored, row(&t, id, -1, -1, 0));
                }
                commit(&mut trx).await;
            }
        }
        e.close().await.unwrap();
    });
}

/// Versions of others that a view still reads need their entries, whatever is rolled back in
/// between; and the entries go when the view has closed. Tests OLDER-1.
#[test]
fn entries_that_a_view_reads_stay() {
    let dir = Dir::new("rollback-view");
    let (e, _) = open(&dir);
    block_on(async {
        let t = indexed(&e).await;
        let mut trx = e.begin(KillFlag::new());
        trx.insert(&t, &row(&t, 1, 0, 0, 0)).await.unwrap();
        commit(&mut trx).await;
        let mut views = Vec::new();
        for n in 1..40 {
            let mut reader = e.begin(KillFlag::new());
            reader.open_view();
            views.push(reader);
            update(&mut trx, &t, 1, n % 7, n, 0).await;
            commit(&mut trx).await;
        }
        for round in 0..3 {
            for n in 0..300 {
                let (a, b) = (n % 11, n % 60);
                update(&mut trx, &t, 1, a, b, 1).await;
                if n % 90 == 89 {
                    let at = locked(&mut trx, &t, 1).await.unwrap();
                    trx.delete(&t, at.row()).await.unwrap();
                    trx.insert(&t, &row(&t, 1, n, n, n)).await.unwrap();
                }
            }
            trx.rollback().await.unwrap();
            let c = e.check_table(&t).await.unwrap();
            assert_eq!((c.errors, c.rows), (vec![], 1));
            for (n, reader) in views.iter_mut().enumerate() {
                let (a, b) = (n as i64 % 7, n as i64);
                for (no, value) in [(1, a), (2, b)] {
                    let (mut low, mut found) = (Vec::new(), 0);
                    t.indexes[no].key.encode_values(&[Value::Int(value)], &mut low);
                    let mut high = low.clone();
                    *high.last_mut().unwrap() += 1;
                    let read = Read::Consistent;
                    let mut rows = Cursor::new(t.clone(), no, low, Some(high), false, read);
                    while rows.next(reader).await.unwrap() {
                        assert_eq!(rows.row().stored, row(&t, 1, a, b, 0));
                        found += 1;
                    }
                    assert_eq!(found, 1, "round {round}, view {n}, index {no}");
                }
            }
        }
        for reader in &mut views {
            reader.rollback().await.unwrap();
        }
        clean(&e, &t, 1).await;
        e.close().await.unwrap();
    });
}

/// The redo log has room for a small part of what the rollback at a start writes. Tests REGISTER-3.
#[test]
fn a_start_takes_back_more_than_the_redo_log_has_room_for() {
    const ROWS: i64 = 20_000;
    let dir = Dir::new("rollback-large");
    let open_small = || {
        open_with(&dir, |c| {
            c.pool_bytes = 4 << 20;
            c.log_segment_bytes = 256 << 10;
            c.log_capacity_bytes = 1 << 20;
            c.log_buffer_bytes = 256 << 10;
        })
    };
    let (e, _) = open_small();
    block_on(async {
        let t = indexed(&e).await;
        let mut trx = e.begin(KillFlag::new());
        trx.insert(&t, &row(&t, -1, -1, -1, -1)).await.unwrap();
        commit(&mut trx).await;
        for n in 0..ROWS {
            trx.insert(&t, &row(&t, n, n * 7919 % ROWS, -n, n)).await.unwrap();
        }
        std::mem::forget(trx); // unfinished when the process ends
        e.close().await.unwrap();
    });
    drop(e);
    let (e, report) = open_small();
    assert_eq!(report.rolled_back, 1);
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        assert!(e.store.log.tail().0 > 3 << 20, "{}", e.store.log.tail());
        clean(&e, &t, 1).await;
        e.close().await.unwrap();
    });
}

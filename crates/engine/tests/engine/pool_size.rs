//! The buffer pool's size, changed while sessions use the pool.

use crate::common::tables::{commit, create, encoded, int, locked, open_with, sound, text, within};
use crate::common::{Dir, at_one_moment, copy};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::block_on;
use redolith_engine::testing::AtEnd;
use redolith_engine::{Config, Engine, Error, PoolResizeState};
use redolith_types::Value;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

const MIB: u64 = 1 << 20;

fn open(dir: &Dir, pool_bytes: u64, instances: usize) -> Arc<Engine> {
    let with = |c: &mut Config| {
        (c.pool_bytes, c.pool_max_bytes, c.pool_instances) = (pool_bytes, 64 * MIB, instances);
    };
    open_with(dir, with).0
}
fn row(t: &Table, id: i64, changes: i64) -> Vec<u8> {
    let c = vec![b'a' + (id % 26) as u8; 1000];
    encoded(t, &[Value::Int(id), Value::Int(changes), Value::Bytes(Cow::Borrowed(&c))])
}
async fn table(e: &Arc<Engine>) -> Arc<Table> {
    create(e, "t", vec![("n", int()), ("c", text(1000))], vec![]).await
}
async fn insert(e: &Arc<Engine>, t: &Arc<Table>, ids: impl Iterator<Item = i64>) {
    let mut trx = e.begin(KillFlag::new());
    for id in ids {
        trx.insert(t, &row(t, id, 0)).await.unwrap();
        if id % 50 == 49 {
            commit(&mut trx).await;
        }
    }
    commit(&mut trx).await;
}
async fn change(e: &Arc<Engine>, t: &Arc<Table>, id: i64) -> Result<(), Error> {
    let mut trx = e.begin(KillFlag::new());
    let c = locked(&mut trx, t, id).await?;
    let Value::Int(n) = t.layout.get(c.row().stored, 1) else { panic!("n is an int") };
    trx.update(t, c.row(), &row(t, id, n + 1)).await?;
    commit(&mut trx).await;
    Ok(())
}
/// The changes of all rows, each of which has its content.
async fn changes(e: &Arc<Engine>, t: &Arc<Table>, rows: i64) -> i64 {
    sound(e, t, rows as u64).await;
    let (mut trx, mut sum) = (e.begin(KillFlag::new()), 0);
    for id in 0..rows {
        let c = locked(&mut trx, t, id).await.unwrap();
        let Value::Int(n) = t.layout.get(c.row().stored, 1) else { panic!("n is an int") };
        assert_eq!(c.row().stored, row(t, id, n));
        sum += n;
        if id % 100 == 99 {
            commit(&mut trx).await;
        }
    }
    commit(&mut trx).await;
    sum
}
fn count(e: &Engine, name: &str) -> u64 {
    e.metrics().iter().find(|(metric, _)| metric.name == name).unwrap().1
}
/// Waits until the pool has this size.
async fn has(e: &Arc<Engine>, bytes: u64) {
    let done = || match e.pool_resize_state() {
        PoolResizeState::Done { bytes: has, .. } => has == bytes,
        PoolResizeState::Failed(why) => panic!("{why}"),
        _ => false,
    };
    within(e, "the pool's size", done).await;
    assert_eq!((e.pool_bytes(), count(e, "buffer_pool_size")), (bytes, bytes));
    let pages = count(e, "buffer_pool_pages_total");
    assert_eq!(pages, bytes / 16384);
    // One look at both, because sessions move frames from the one to the other.
    let stats = e.pool_stats();
    assert!(stats.pages + stats.free <= stats.frames, "{stats:?}");
}

/// Tests RESIZE-1 and RESIZE-2: sessions change rows of which a part fits into the pool, while its
/// size goes up and down.
#[test]
fn sessions_change_rows_while_the_pool_is_resized() {
    const ROWS: i64 = 8000;
    for instances in [1, 3] {
        let dir = Dir::new("pool-size");
        let e = open(&dir, 5 * MIB, instances);
        block_on(async {
            let t = table(&e).await;
            insert(&e, &t, 0..ROWS).await;
            let (stop, changed) = (AtomicBool::new(false), AtomicI64::new(0));
            std::thread::scope(|s| {
                let _ends = AtEnd(|| stop.store(true, Relaxed));
                for session in 0..4 {
                    let (e, t, stop, changed) = (&e, &t, &stop, &changed);
                    s.spawn(move || {
                        let mut id = session * 1000;
                        while !stop.load(Relaxed) {
                            block_on(change(e, t, id)).unwrap();
                            changed.fetch_add(1, Relaxed);
                            // All rows in turn, in a wild order (Hull and Dobell, 1962).
                            id = (id * 7921 + [1, 3, 7, 9][session as usize]) % ROWS;
                        }
                    });
                }
                for size in [20, 5, 40, 6, 64, 30, 12, 5] {
                    e.resize_pool(size * MIB);
                    block_on(has(&e, size * MIB));
                    // All pages come in, as far as they fit.
                    block_on(sound(&e, &t, ROWS as u64));
                    let now = changed.load(Relaxed);
                    block_on(within(&e, "changes", || changed.load(Relaxed) > now + 50));
                }
            });
            assert_eq!(changes(&e, &t, ROWS).await, changed.load(Relaxed));
            assert!(count(&e, "buffer_pages_moved") > 0);
            e.close().await.unwrap();
        });
        drop(e);
        let e = open(&dir, 5 * MIB, 0);
        block_on(async {
            let t = e.table("test", "t").await.unwrap().unwrap();
            sound(&e, &t, ROWS as u64).await;
            e.close().await.unwrap();
        });
    }
}

/// The pool shrinks to less than its dirty pages, and the process ends at once or during that.
#[test]
fn a_crash_during_and_after_a_shrink_loses_nothing() {
    const ROWS: i64 = 4000;
    let dir = Dir::new("pool-size-crash");
    let e = open(&dir, 32 * MIB, 2);
    e.flush_settings.max_dirty_lwm.set(0);
    e.flush_settings.idle_flush_pct.set(0);
    let images = ["during", "after"].map(|when| Dir::new(&format!("pool-size-crash-{when}")));
    block_on(async {
        let t = table(&e).await;
        insert(&e, &t, 0..ROWS).await;
        for id in (0..ROWS).step_by(9) {
            change(&e, &t, id).await.unwrap();
        }
        e.resize_pool(2 * MIB);
        at_one_moment(&e, &dir.0, || copy(&dir.0, &images[0].0)).await;
        has(&e, 2 * MIB).await;
        at_one_moment(&e, &dir.0, || copy(&dir.0, &images[1].0)).await;
        e.close().await.unwrap();
    });
    for image in images {
        let e = open(&image, 5 * MIB, 0);
        block_on(async {
            let t = e.table("test", "t").await.unwrap().unwrap();
            assert_eq!(changes(&e, &t, ROWS).await, (ROWS as u64).div_ceil(9) as i64);
            e.close().await.unwrap();
        });
    }
}

/// Tests RESIZE-3.
#[test]
fn a_newer_size_and_the_shutdown_end_a_resize() {
    let dir = Dir::new("pool-size-ends");
    let e = open(&dir, 48 * MIB, 4);
    block_on(async {
        let t = table(&e).await;
        insert(&e, &t, 0..20_000).await;
        // The sizes come faster than the pool follows; the last one stays.
        for size in [5, 60, 7, 64, 4, 33, 20] {
            e.resize_pool(size * MIB);
        }
        has(&e, 20 * MIB).await;
        // A size out of range is the nearest one.
        e.resize_pool(u64::MAX);
        has(&e, 64 * MIB).await;
        e.resize_pool(0);
        has(&e, 4 * MIB).await;
        e.resize_pool(64 * MIB);
        has(&e, 64 * MIB).await;
        sound(&e, &t, 20_000).await;
        e.resize_pool(4 * MIB);
        e.close().await.unwrap();
        assert!(!matches!(e.pool_resize_state(), PoolResizeState::Running { .. }));
    });
    drop(e);
    let e = open(&dir, 8 * MIB, 1);
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        sound(&e, &t, 20_000).await;
        e.close().await.unwrap();
    });
}

/// Tables come and go while the pool's size does: their pages leave it wherever they are.
/// Tests FORGET-1.
#[test]
fn tables_are_dropped_while_the_pool_is_resized() {
    let dir = Dir::new("pool-size-drop");
    let e = open(&dir, 5 * MIB, 2);
    block_on(async {
        for round in 0..6 {
            let t = table(&e).await;
            insert(&e, &t, 0..1500).await;
            e.resize_pool(if round % 2 == 0 { 40 * MIB } else { 3 * MIB });
            e.drop_tables(&[t], None).await.unwrap();
        }
        has(&e, 3 * MIB).await;
        e.close().await.unwrap();
    });
}

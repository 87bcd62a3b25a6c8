//! The list of the pool's pages: what a start reads again, and what a list that lies may do.
#![allow(clippy::disallowed_methods)] // the test writes the list

use crate::common::Dir;
use crate::common::table::{def, row};
use crate::common::tables::{sound, within};
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, PoolListState};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

const ROWS: i64 = 20_000;

fn open(dir: &Dir, pool_bytes: u64) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut config = Config::new(&dir.0);
    config.pool_bytes = pool_bytes;
    (config.log_segment_bytes, config.log_capacity_bytes) = (2 << 20, 16 << 20);
    block_on(Engine::open(config, disk.clone(), Threads::new(disk))).unwrap().0
}
fn list(dir: &Dir) -> PathBuf {
    dir.0.join("ib_buffer_pool")
}
async fn filled(e: &Arc<Engine>) -> Arc<Table> {
    e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
    let t = e.create_table(def("t"), 1, None).await.unwrap();
    let mut trx = e.begin(KillFlag::new());
    for id in 0..ROWS {
        trx.insert(&t, &row(&t, id, id, &"x".repeat(200))).await.unwrap();
    }
    trx.commit().await.unwrap().durable().await;
    t
}
fn count(e: &Engine, name: &str) -> u64 {
    e.metrics().iter().find(|(metric, _)| metric.name == name).unwrap().1
}
/// A list of pages of which most do not exist.
fn made_up() -> String {
    let mut list = String::new();
    for no in 0..3000u32 {
        let _ = writeln!(list, "{},{}", no % 40, no.wrapping_mul(2_654_435_761));
        let _ = writeln!(list, "{},{}", no % 40, no);
    }
    list
}
/// Loads the list to its end.
async fn load(e: &Arc<Engine>) -> PoolListState {
    e.load_pool();
    within(e, "the load", || !matches!(e.pool_lists().1, PoolListState::Running { .. })).await;
    e.pool_lists().1
}

/// Tests WARM-2.
#[test]
fn a_start_reads_the_pages_of_the_last_run() {
    let dir = Dir::new("pool-list");
    let e = open(&dir, 32 << 20);
    block_on(async {
        filled(&e).await;
        e.set_pool_dump_percent(100);
        e.dump_pool().await;
        assert!(matches!(e.pool_lists().0, PoolListState::Done { pages: 300.., .. }));
        assert!(list(&dir).exists() && !dir.0.join("ib_buffer_pool.incomplete").exists());
        e.close().await.unwrap();
    });
    drop(e);
    let e = open(&dir, 32 << 20);
    block_on(async {
        assert!(matches!(load(&e).await, PoolListState::Done { pages: 300.., .. }));
        let read = count(&e, "buffer_pages_read");
        let t = e.table("test", "t").await.unwrap().unwrap();
        sound(&e, &t, ROWS as u64).await;
        assert!(count(&e, "buffer_pages_read") < read + 5, "nearly all pages were there");
        assert_eq!(count(&e, "buffer_pages_evicted"), 0);
        // A tenth of the pages are those that were used last.
        e.set_pool_dump_percent(10);
        e.dump_pool().await;
        assert!(matches!(e.pool_lists().0, PoolListState::Done { pages: 30..200, .. }));
        // WARM-1: there is room for pages that do not exist.
        std::fs::write(list(&dir), made_up()).unwrap();
        assert!(matches!(load(&e).await, PoolListState::Done { pages: 1000.., .. }));
        sound(&e, &t, ROWS as u64).await;
        e.close().await.unwrap();
    });
}

/// Tests WARM-1.
#[test]
fn a_list_that_lies_costs_reads_only() {
    let dir = Dir::new("pool-list-lies");
    // A sixth of the data fits.
    let e = open(&dir, 2 << 20);
    block_on(async {
        let t = filled(&e).await;
        assert_eq!(load(&e).await, PoolListState::NotBegun, "there is no list");
        for text in [made_up().as_bytes(), b"4294967295,4294967295\n0,0\n", b""] {
            std::fs::write(list(&dir), text).unwrap();
            // The cleaners keep a sixteenth of the frames free, so there is no frame for the list.
            assert!(matches!(load(&e).await, PoolListState::Done { pages: 0, .. }));
        }
        for other in [&b"RDLCTRL\0\x01"[..], b"1;2\n", &[b'7'; 100_000], b"\n\n\n"] {
            std::fs::write(list(&dir), other).unwrap();
            assert!(matches!(load(&e).await, PoolListState::Failed(why) if why.contains("list")));
        }
        std::fs::remove_file(list(&dir)).unwrap();
        std::fs::create_dir(list(&dir)).unwrap();
        assert!(matches!(load(&e).await, PoolListState::Failed(_)));
        e.dump_pool().await;
        assert!(matches!(e.pool_lists().0, PoolListState::Failed(_)), "a folder is in the way");
        sound(&e, &t, ROWS as u64).await;
        e.close().await.unwrap();
    });
}

#[test]
fn a_load_stops_when_it_is_told_to_and_at_the_shutdown() {
    let dir = Dir::new("pool-list-stops");
    let e = open(&dir, 32 << 20);
    block_on(async {
        filled(&e).await;
        e.set_pool_dump_percent(100);
        e.begin_pool_dump();
        within(&e, "the list", || matches!(e.pool_lists().0, PoolListState::Done { .. })).await;
        e.load_pool();
        e.stop_pool_load();
        let ended = || {
            matches!(e.pool_lists().1, PoolListState::Stopped { .. } | PoolListState::Done { .. })
        };
        within(&e, "the load", ended).await;
        e.load_pool();
        e.close().await.unwrap();
        assert!(ended());
    });
}

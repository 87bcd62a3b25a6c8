//! Data several times the buffer pool, a small log, many sessions at once: nothing hangs, nothing
//! is lost, and a clean close leaves nothing to redo.

use crate::common::Dir;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{BoxFuture, Runtime, Threads, block_on};
use redolith_engine::testing::mtr::Mtr;
use redolith_engine::testing::page::index;
use redolith_engine::{
    Config, DEFAULT_COLLATION, Engine, Error, PAGE_SIZE, Report, Trx, WouldBlock,
};
use redolith_types::{Collation, Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

const ROWS: i64 = 12_000;
const SESSIONS: u64 = 96;
const TRANSACTIONS: u64 = 30;
const CHANGES: u64 = 4;

fn open(dir: &Dir) -> (Arc<Engine>, Report) {
    open_with(dir, |_| ())
}
fn open_with(dir: &Dir, with: impl FnOnce(&mut Config)) -> (Arc<Engine>, Report) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut c = Config::new(&dir.0);
    c.pool_bytes = 5 << 20;
    c.log_segment_bytes = 2 << 20;
    c.log_capacity_bytes = 16 << 20;
    with(&mut c);
    block_on(Engine::open(c, disk.clone(), Threads::new(disk))).unwrap()
}
fn def() -> TableDef {
    let int = || SqlType::Int {
        size: IntSize::Int,
        sign: redolith_types::sql_type::Sign::SIGNED,
        display: None,
    };
    let text = SqlType::VarChar { chars: 1000, collation: Collation::Latin1SwedishCi };
    TableDef {
        schema: "test".into(),
        name: "big".into(),
        columns: vec![
            Column::new("id", int()).not_null(),
            Column::new("k", int()).not_null(),
            Column::new("c", text).not_null(),
        ],
        indexes: vec![IndexDef::primary([0]), IndexDef::secondary("k", false, [1])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    }
}
fn row(t: &Table, id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let c = vec![b'a' + (id % 26) as u8; 900];
    t.layout.encode(
        &[Value::Int(id), Value::Int(id * 7919 % ROWS), Value::Bytes(Cow::Borrowed(&c))],
        &mut out,
    );
    out
}
fn key(t: &Table, id: i64) -> Vec<u8> {
    let mut k = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut k);
    k
}
/// Moves the row far away in the secondary index.
async fn change(trx: &mut Trx, t: &Arc<Table>, id: i64) -> Result<(), Error> {
    let mut c = Cursor::point(
        t.clone(),
        key(t, id),
        Read::Locking { mode: Mode::X, conflict: OnConflict::Wait },
    );
    assert!(c.next(trx).await?);
    let Value::Int(k) = t.layout.get(c.row().stored, 1) else { panic!("k is an int") };
    let mut new = Vec::new();
    t.layout.update(c.row().stored, &[(1, Value::Int(k + ROWS))], &mut new);
    trx.update(t, c.row(), &new).await
}
async fn check(trx: &mut Trx, t: &Arc<Table>, index: usize) -> (i64, i64) {
    let mut c = Cursor::new(t.clone(), index, Vec::new(), None, false, Read::Consistent);
    let (mut rows, mut changes) = (0, 0);
    while c.next(trx).await.unwrap() {
        let Value::Int(k) = t.layout.get(c.row().stored, 1) else { panic!("k is an int") };
        rows += 1;
        changes += k / ROWS;
    }
    (rows, changes)
}

/// Makes the table with all its rows.
async fn fill(e: &Arc<Engine>) {
    e.create_schema("test", DEFAULT_COLLATION, None).await.unwrap();
    let t = e.create_table(def(), 1, None).await.unwrap();
    let mut trx = e.begin(KillFlag::new());
    for id in 0..ROWS {
        trx.insert(&t, &row(&t, id)).await.unwrap();
        if id % 100 == 99 {
            trx.commit().await.unwrap().wait();
        }
    }
}

/// A program drops the rollback of a statement in any of its waits: the transaction cannot commit
/// what is left of the statement.
#[test]
fn half_a_statement_is_not_committed() {
    let dir = Dir::new("half-a-statement");
    let (e, _) = open(&dir);
    block_on(fill(&e));
    let t = e.dict.table("test", "big").unwrap();
    let (mut given_up, mut whole) = (0, 0);
    for polls in 1.. {
        let mut trx = e.begin(KillFlag::new());
        block_on(change(&mut trx, &t, 0)).unwrap();
        let before = trx.savepoint();
        for id in 1..800 {
            block_on(change(&mut trx, &t, id * 13)).unwrap();
        }
        let is_done = {
            let mut back = pin!(trx.rollback_to(before));
            (0..polls * polls * 80).any(|n| {
                if n > 0 {
                    std::thread::yield_now();
                }
                back.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
            })
        };
        let committed = block_on(trx.commit());
        match is_done {
            true => {
                committed.unwrap().wait();
                whole += 1;
            }
            false => {
                assert!(matches!(committed, Err(Error::Interrupted)));
                given_up += 1;
            }
        }
        let mut reader = e.begin(KillFlag::new());
        let (rows, changes) = block_on(check(&mut reader, &t, 0));
        assert_eq!((rows, changes), (ROWS, whole), "{given_up}");
        if whole == 2 {
            break;
        }
    }
    assert!(given_up > 0);
}

/// Tests TREE-1, SPACE-2 and UNDO-4.
#[test]
fn data_beyond_the_pool_under_many_sessions() {
    let dir = Dir::new("small-pool");
    let (e, _) = open(&dir);
    block_on(fill(&e));
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|n| {
            let e = e.clone();
            let session = move || {
                block_on(async move {
                    let t = e.table("test", "big").await.unwrap().unwrap();
                    let mut trx = e.begin(KillFlag::new());
                    let (mut x, mut done) = (n, 0);
                    while done < TRANSACTIONS {
                        let mut result = Ok(());
                        for _ in 0..CHANGES {
                            x = x
                                .wrapping_mul(6364136223846793005)
                                .wrapping_add(1442695040888963407);
                            result = change(&mut trx, &t, (x >> 33) as i64 % ROWS).await;
                            if result.is_err() {
                                break;
                            }
                        }
                        match result {
                            Ok(()) => {
                                trx.commit().await.unwrap().durable().await;
                                done += 1;
                            }
                            Err(Error::Deadlock) => trx.rollback().await.unwrap(),
                            Err(e) => panic!("{e}"),
                        }
                    }
                })
            };
            std::thread::spawn(session)
        })
        .collect();
    sessions.into_iter().for_each(|s| s.join().unwrap());
    let wanted = (ROWS, (SESSIONS * TRANSACTIONS * CHANGES) as i64);
    let verify = |e: &Arc<Engine>| {
        block_on(async {
            let t = e.table("test", "big").await.unwrap().unwrap();
            let mut trx = e.begin(KillFlag::new());
            assert_eq!(check(&mut trx, &t, 0).await, wanted);
            assert_eq!(check(&mut trx, &t, 1).await, wanted);
            trx.rollback().await.unwrap();
            e.close().await.unwrap();
        });
    };
    verify(&e);
    assert_eq!(e.store.pool.pages().dirty, 0);
    assert!(
        e.store.pool.counters.pages_evicted.get() > 1000
            && e.store.pool.counters.checkpoints.get() > 3
    );
    drop(e);
    let (e, report) = open(&dir);
    assert_eq!((report.frames, report.repaired.len()), (0, 0), "{report}");
    verify(&e);
}

/// Tests AHEAD-1: scans of data that are not in memory read ahead, in the order of any index, and
/// see the rows that a scan without read-ahead sees.
#[test]
fn cold_scans_read_ahead() {
    let dir = Dir::new("read-ahead");
    let (e, _) = open(&dir);
    block_on(async {
        fill(&e).await;
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open(&dir);
    block_on(async {
        let t = e.table("test", "big").await.unwrap().unwrap();
        let counters = &e.store.pool.counters;
        let reads = || (counters.reads.get(), counters.read_ahead.get());
        let mut trx = e.begin(KillFlag::new());
        for index in [0, 1] {
            let before = reads();
            assert_eq!(check(&mut trx, &t, index).await, (ROWS, 0));
            let (waited, ahead) = (reads().0 - before.0, reads().1 - before.1);
            assert!(ahead > 3 * waited, "index {index}: {ahead} pages ahead, {waited} waited for");
        }
        // A range of a few rows has no more read than its leaves.
        let before = reads().1;
        let mut c = Cursor::new(t.clone(), 0, key(&t, 50), Some(key(&t, 60)), false, Read::Newest);
        while c.next(&mut trx).await.unwrap() {}
        assert!(reads().1 <= before + 2);
        e.close().await.unwrap();
    });
}

/// A scan passes more empty leaves than the pool has frames, upwards and downwards, and ends.
#[test]
fn scans_pass_empty_leaves_beyond_the_pool() {
    let dir = Dir::new("empty-leaves");
    let (e, _) = open(&dir);
    block_on(fill(&e));
    let t = e.dict.table("test", "big").unwrap();
    let (mut left, mut emptied) = (ROWS, 0);
    block_on(async {
        // As leaves are when no neighbour is in memory while purge empties them.
        for id in (ROWS / 10..ROWS * 9 / 10).step_by(10) {
            loop {
                let blocked = {
                    let mut m = Mtr::begin(&e.store).ok().unwrap();
                    match t.clustered().tree.leaf_x(&mut m, &key(&t, id)) {
                        Ok(leaf) => {
                            let keys = index::records(m.page(leaf))
                                .map(|r| index::key(m.page(leaf), r).to_vec())
                                .collect::<Vec<_>>();
                            for k in &keys {
                                let at = index::search(m.page(leaf), k);
                                index::remove(&mut m.patch(leaf), at);
                            }
                            m.commit();
                            left -= keys.len() as i64;
                            emptied += usize::from(!keys.is_empty());
                            break;
                        }
                        Err(blocked) => blocked,
                    }
                };
                match blocked {
                    WouldBlock::Page(page) => e.store.pool.load(page).await.unwrap(),
                    WouldBlock::Frame => e.store.pool.wait_frame().await,
                    WouldBlock::LogSpace(bytes) => e.store.log.wait_space(bytes).await.unwrap(),
                    _ => panic!("no other wait"),
                }
            }
        }
    });
    assert!(emptied > (5 << 20) / PAGE_SIZE * 3 / 2, "{emptied} leaves");
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        block_on(async {
            for reverse in [false, true] {
                for read in
                    [Read::Newest, Read::Locking { mode: Mode::S, conflict: OnConflict::Wait }]
                {
                    let mut trx = e.begin(KillFlag::new());
                    let mut c = Cursor::new(t.clone(), 0, Vec::new(), None, reverse, read);
                    let mut rows = 0;
                    while c.next(&mut trx).await.unwrap() {
                        rows += 1;
                    }
                    tell.send(rows).unwrap();
                    trx.rollback().await.unwrap();
                }
            }
        });
    });
    for _ in 0..4 {
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(left), "the scan ends");
    }
}

/// Copies a directory that an engine has open. The register of files comes first, so that it asks
/// for no stamp that a copied file lacks (REGISTER-1). The redo log comes last, so that no page in
/// the copy is newer, and the copies of pages that are written meanwhile come behind the pages.
#[allow(clippy::disallowed_methods)] // it copies behind the engine's back
fn copied(from: &Path, name: &str) -> Dir {
    let dir = Dir::new(name);
    let copy = |folder: &str| {
        std::fs::create_dir_all(dir.0.join(folder)).unwrap();
        for entry in std::fs::read_dir(from.join(folder)).unwrap().map(|e| e.unwrap().path()) {
            let name = entry.file_name().unwrap();
            if entry.is_file() && name != "doublewrite.rdl" && name != "files.rdl" {
                std::fs::copy(&entry, dir.0.join(folder).join(name)).unwrap();
            }
        }
    };
    std::fs::create_dir_all(&dir.0).unwrap();
    std::fs::copy(from.join("files.rdl"), dir.0.join("files.rdl")).unwrap();
    copy("");
    copy("tables");
    std::fs::copy(from.join("doublewrite.rdl"), dir.0.join("doublewrite.rdl")).unwrap();
    copy("redo");
    dir
}

/// Tests JUDGE-6: a start ends whose redo log changes more pages than the pool has frames.
#[test]
fn redo_beyond_the_pool_is_judged() {
    let dir = Dir::new("judge-small-pool");
    let large = |c: &mut Config| (c.pool_bytes, c.log_capacity_bytes) = (64 << 20, 64 << 20);
    let (e, _) = open_with(&dir, large);
    block_on(async {
        fill(&e).await;
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open_with(&dir, large);
    e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
    const EVERY: usize = 5;
    block_on(async {
        let t = e.table("test", "big").await.unwrap().unwrap();
        let mut trx = e.begin(KillFlag::new());
        for id in (0..ROWS).step_by(EVERY) {
            change(&mut trx, &t, id).await.unwrap();
        }
        trx.commit().await.unwrap().durable().await;
    });
    let crashed = copied(&dir.0, "judge-small-pool-crashed");
    block_on(e.close()).unwrap();
    let frames = (5 << 20) / PAGE_SIZE as u64;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (e, report) = open_with(&crashed, |c| c.log_capacity_bytes = 64 << 20);
        block_on(async {
            let t = e.table("test", "big").await.unwrap().unwrap();
            let mut trx = e.begin(KillFlag::new());
            assert_eq!(check(&mut trx, &t, 0).await, (ROWS, ROWS / EVERY as i64));
            trx.rollback().await.unwrap();
            e.close().await.unwrap();
        });
        tell.send(report).unwrap();
    });
    let report = told.recv_timeout(Duration::from_secs(60)).expect("the start ends");
    assert!(report.pages > 2 * frames, "{report}");
}

/// A runtime that counts the cleaners that are spawned.
struct Counting {
    below: Arc<Threads>,
    cleaners: AtomicUsize,
}
impl Runtime for Counting {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.cleaners.fetch_add(usize::from(name == "cleaner"), Relaxed);
        self.below.spawn(name, task);
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        self.below.sleep(time)
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.below.yield_now()
    }
}

#[test]
fn there_are_as_many_cleaners_as_the_setting_says() {
    for cleaners in [1, 5] {
        let dir = Dir::new("page-cleaners");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let below = Threads::new(disk.clone());
        let runtime = Arc::new(Counting { below, cleaners: AtomicUsize::new(0) });
        let c = Config { page_cleaners: cleaners, pool_bytes: 5 << 20, ..Config::new(&dir.0) };
        let (e, _) = block_on(Engine::open(c, disk, runtime.clone())).unwrap();
        assert_eq!(runtime.cleaners.load(Relaxed), cleaners);
        block_on(e.close()).unwrap();
    }
}

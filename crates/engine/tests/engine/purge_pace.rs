//! Purge keeps up with those who make history, and slows them where it is told to.

use crate::common::Dir;
use crate::common::tables::*;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{BoxFuture, Runtime, Threads, block_on};
use redolith_engine::testing::btree::Seek;
use redolith_engine::testing::page::index;
use redolith_engine::{Config, Engine, Error};
use redolith_types::{IndexDef, LobSize, SqlType, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A runtime with one worker, where everybody who is ready has a turn, in order: as a server's
/// workers under many connections.
struct Turns {
    disk: Arc<dyn Disk>,
    queue: Mutex<VecDeque<Arc<Task>>>,
    sleepers: Mutex<Vec<(Duration, Waker)>>,
}
struct Task {
    future: Mutex<Option<BoxFuture<()>>>,
    queued: AtomicBool,
    runtime: Arc<Turns>,
}
impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, SeqCst) {
            self.runtime.queue.lock().unwrap().push_back(self.clone());
        }
    }
}
/// The engine's handle: tasks need the runtime itself.
struct Handle(Arc<Turns>);
impl Runtime for Handle {
    fn spawn(&self, _: &'static str, task: BoxFuture<()>) {
        Arc::new(Task {
            future: Mutex::new(Some(task)),
            queued: AtomicBool::new(false),
            runtime: self.0.clone(),
        })
        .wake();
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        let (runtime, end) = (self.0.clone(), self.0.disk.now() + time);
        Box::pin(poll_fn(move |cx| {
            if runtime.disk.now() >= end {
                return Poll::Ready(());
            }
            runtime.sleepers.lock().unwrap().push((end, cx.waker().clone()));
            Poll::Pending
        }))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        let mut yielded = false;
        Box::pin(poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }
}
impl Turns {
    fn run_until(&self, done: impl Fn() -> bool) {
        while !done() {
            let now = self.disk.now();
            let due: Vec<_> =
                self.sleepers.lock().unwrap().extract_if(.., |s| s.0 <= now).collect();
            due.into_iter().for_each(|s| s.1.wake());
            let Some(task) = self.queue.lock().unwrap().pop_front() else {
                std::thread::yield_now();
                continue;
            };
            task.queued.store(false, SeqCst);
            let mut future = task.future.lock().unwrap();
            let waker = task.clone().into();
            if future
                .as_mut()
                .is_some_and(|f| f.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
            {
                *future = None;
            }
        }
    }
}

/// A session commits a change of an indexed column in each of its turns, and 256 of them have one
/// before purge has its next: what purge does in one has to grow with what there is to do.
#[test]
fn the_history_stays_short_however_many_write() {
    const SESSIONS: i64 = 256;
    const EACH: i64 = 120;
    let dir = Dir::new("purge-pace");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let turns =
        Arc::new(Turns { disk: disk.clone(), queue: Mutex::default(), sleepers: Mutex::default() });
    let opened: Arc<Mutex<Option<Arc<Engine>>>> = Arc::default();
    let runtime = Arc::new(Handle(turns.clone()));
    let (to, config) = (opened.clone(), Config { pool_bytes: 64 << 20, ..Config::new(&dir.0) });
    let its_runtime: Arc<dyn Runtime> = runtime.clone();
    runtime.spawn(
        "open",
        Box::pin(async move {
            *to.lock().unwrap() = Some(Engine::open(config, disk, its_runtime).await.unwrap().0)
        }),
    );
    turns.run_until(|| opened.lock().unwrap().is_some());
    let e = opened.lock().unwrap().take().unwrap();
    let (committed, longest, ready) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (engine, sessions, c, l, r) =
        (e.clone(), runtime.clone(), committed.clone(), longest.clone(), ready.clone());
    let main = async move {
        let t =
            create(&engine, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])])
                .await;
        let mut trx = engine.begin(KillFlag::new());
        for id in 0..SESSIONS {
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Int(0)])).await.unwrap();
        }
        commit(&mut trx).await;
        for id in 0..SESSIONS {
            let (engine, runtime, t, c, l) =
                (engine.clone(), sessions.clone(), t.clone(), c.clone(), l.clone());
            let session = async move {
                let mut trx = engine.begin(KillFlag::new());
                for n in 1..=EACH {
                    let at = locked(&mut trx, &t, id).await.unwrap();
                    trx.update(
                        &t,
                        at.row(),
                        &encoded(&t, &[Value::Int(id), Value::Int(n * 7919 % 1000)]),
                    )
                    .await
                    .unwrap();
                    drop(trx.commit().await.unwrap());
                    c.fetch_add(1, SeqCst);
                    l.fetch_max(engine.history.len(), SeqCst);
                    runtime.yield_now().await;
                }
            };
            sessions.spawn("session", Box::pin(session));
        }
        r.store(true, SeqCst);
    };
    runtime.spawn("main", Box::pin(main));
    let all = (SESSIONS * EACH) as u64;
    turns.run_until(|| committed.load(SeqCst) == all);
    assert!(longest.load(SeqCst) < all / 4, "{} of {all} waited for purge", longest.load(SeqCst));
    turns.run_until(|| e.history.is_empty());
    let (engine, closed) = (e.clone(), Arc::new(AtomicBool::new(false)));
    let c = closed.clone();
    let check = async move {
        let t = engine.table("test", "t").await.unwrap().unwrap();
        clean(&engine, &t, SESSIONS as u64).await;
        assert_eq!(records(&engine, &t, 1), SESSIONS as usize, "no entry is left over");
        engine.close().await.unwrap();
        c.store(true, SeqCst);
    };
    runtime.spawn("close", Box::pin(check));
    turns.run_until(|| closed.load(SeqCst));
}
/// Records of one of the table's indexes, marked or not. The tree is in memory.
fn records(e: &Engine, t: &Table, no: usize) -> usize {
    let tree = &t.indexes[no].tree;
    let Ok(leaf) = tree.leaf(&e.store, Seek::Key(b"")) else { panic!("the first leaf") };
    let (mut leaf, mut n) = (Some(leaf), 0);
    while let Some(g) = leaf {
        n += index::records(&g).count();
        let Ok(next) = tree.right_of(&e.store, &g) else { panic!("the leaf behind {}", g.id()) };
        leaf = next;
    }
    n
}

/// Purge takes entries of rows that have got many versions since which its view does not see: it
/// reads them a bounded number of times, whether the entries are of one long transaction or of many
/// short ones, and of one row or of several. Tests NEWER-4.
#[test]
fn purge_behind_many_changes_of_a_row_is_linear_work() {
    const CHANGES: i64 = 6000;
    let dir = Dir::new("purge-behind");
    let (e, _) = open_with(&dir, |c| c.purge_threads = 1);
    block_on(async {
        let columns = vec![("a", int()), ("b", int())];
        let indexes =
            vec![IndexDef::secondary("a", false, [1]), IndexDef::secondary("b", false, [2])];
        let t = create(&e, "t", columns, indexes).await;
        let row =
            |id: i64, a: i64, b: i64| encoded(&t, &[Value::Int(id), Value::Int(a), Value::Int(b)]);
        let mut trx = e.begin(KillFlag::new());
        for id in 0..5 {
            trx.insert(&t, &row(id, -1, -1)).await.unwrap();
        }
        commit(&mut trx).await;
        let mut newer = e.begin(KillFlag::new());
        for (round, (rows, long)) in [(1, false), (1, true), (5, true)].into_iter().enumerate() {
            purged(&e).await;
            e.history.stop();
            let base = round as i64 * 1_000_000;
            for n in 0..CHANGES {
                let id = n % rows;
                let at = locked(&mut trx, &t, id).await.unwrap();
                trx.update(&t, at.row(), &row(id, base + n, base + n % 50)).await.unwrap();
                if !long {
                    drop(trx.commit().await.unwrap());
                }
            }
            commit(&mut trx).await;
            // These versions need other entries than those before, and some of the same.
            for n in 0..CHANGES {
                let id = n % rows;
                let at = locked(&mut newer, &t, id).await.unwrap();
                let b = base + if n % 7 == 0 { n % 50 } else { n };
                newer.update(&t, at.row(), &row(id, base + CHANGES + n, b)).await.unwrap();
            }
            let before = e.history.counts.newer_read.load(SeqCst);
            e.history.resume();
            purged(&e).await;
            let read = e.history.counts.newer_read.load(SeqCst) - before;
            assert!(read > CHANGES as u64 / 2, "{rows} rows, long: {long}: {read}");
            assert!(read < 10 * CHANGES as u64, "{rows} rows, long: {long}: {read}");
            // The entries of the older versions are gone, and those of the newer ones are there.
            let of_a = records(&e, &t, 1) as i64;
            assert!((CHANGES..CHANGES + 16).contains(&of_a), "{rows} rows, long: {long}: {of_a}");
            if round == 0 {
                newer.rollback().await.unwrap();
            } else {
                commit(&mut newer).await;
            }
            clean(&e, &t, 5).await;
            for no in 0..3 {
                assert_eq!(records(&e, &t, no), 5, "index {no}");
            }
        }
        drop((trx, newer));
        e.close().await.unwrap();
    });
}

/// While a reader holds purge up, a row gets any number of versions. Purge does not walk through
/// them afterwards: if nobody reads then, it takes them all.
#[test]
fn purge_that_has_waited_for_a_reader_goes_to_the_present() {
    const CHANGES: i64 = 2000;
    let dir = Dir::new("purge-reader");
    let (e, _) = open(&dir);
    block_on(async {
        let t =
            create(&e, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await;
        let row = |k: i64| encoded(&t, &[Value::Int(1), Value::Int(k)]);
        let (mut trx, mut reader) = (e.begin(KillFlag::new()), e.begin(KillFlag::new()));
        trx.insert(&t, &row(-1)).await.unwrap();
        commit(&mut trx).await;
        reader.open_view();
        for k in 0..CHANGES {
            let at = locked(&mut trx, &t, 1).await.unwrap();
            trx.update(&t, at.row(), &row(k)).await.unwrap();
            commit(&mut trx).await;
            if k == 300 {
                within(&e, "purge has a view", || e.sys.open_views() == 2).await;
            }
        }
        reader.rollback().await.unwrap();
        clean(&e, &t, 1).await;
        assert_eq!(e.history.counts.newer_read.load(SeqCst), 0);
        drop((trx, reader));
        e.close().await.unwrap();
    });
}

/// `innodb_max_purge_lag`: changes wait while the history is too long, and no longer.
#[test]
fn changes_wait_while_purge_is_too_far_behind() {
    let dir = Dir::new("purge-lag");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let (e, _) =
        block_on(Engine::open(Config::new(&dir.0), disk.clone(), Threads::new(disk))).unwrap();
    block_on(async {
        let t =
            create(&e, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await;
        let mut trx = e.begin(KillFlag::new());
        trx.insert(&t, &encoded(&t, &[Value::Int(1), Value::Int(0)])).await.unwrap();
        commit(&mut trx).await;
        purged(&e).await;
        e.history.stop();
        let change = async |trx: &mut redolith_engine::Trx, k: i64| {
            let begun = e.disk.now();
            let at = locked(trx, &t, 1).await.unwrap();
            trx.update(&t, at.row(), &encoded(&t, &[Value::Int(1), Value::Int(k)])).await.unwrap();
            commit(trx).await;
            e.disk.now() - begun
        };
        for k in 1..=20 {
            change(&mut trx, k).await;
        }
        assert_eq!((e.history.len(), e.history.lag.delay()), (20, None));
        e.history.lag.set_max(10);
        within(&e, "purge tells of the lag, though it is stopped", || {
            e.history.lag.delay().is_some()
        })
        .await;
        assert_eq!(e.history.lag.delay(), Some(Duration::from_millis(15)));
        assert!(change(&mut trx, 21).await >= Duration::from_millis(15));
        e.history.lag.set_max_delay_us(700);
        within(&e, "it is bounded", || e.history.lag.delay() == Some(Duration::from_micros(700)))
            .await;
        // Who is killed waits no longer.
        e.history.lag.set_max_delay_us(0);
        e.history.lag.set_max(1);
        within(&e, "a long delay", || e.history.lag.delay() > Some(Duration::from_millis(100)))
            .await;
        let kill = KillFlag::new();
        let mut killed = e.begin(kill.clone());
        kill.kill();
        let _ = killed.insert(&t, &encoded(&t, &[Value::Int(2), Value::Int(0)])).await;
        killed.rollback().await.unwrap();
        e.history.resume();
        purged(&e).await;
        within(&e, "it is over", || e.history.lag.delay().is_none()).await;
        drop((trx, killed));
        e.close().await.unwrap();
    });
}

/// PURGE-8: four tasks purge what four threads change, insert, delete and roll back, in short
/// transactions and in ones of several undo pages; afterwards each row has its entries, and nothing
/// else is there.
#[test]
fn several_tasks_purge_what_several_threads_change() {
    const ROWS: i64 = 300;
    const ROUNDS: u64 = 1500;
    let dir = Dir::new("purge-tasks");
    // Whoever helps has something to do.
    let (e, _) = open_with(&dir, |c| c.purge_logs_per_task = 0);
    let t = block_on(async {
        let columns =
            vec![("k", int()), ("c", text(600)), ("l", SqlType::Blob { size: LobSize::Long })];
        let t = create(
            &e,
            "t",
            columns,
            vec![IndexDef::secondary("k", false, [1]), IndexDef::secondary("c", false, [2, 1])],
        )
        .await;
        let mut trx = e.begin(KillFlag::new());
        for id in 0..ROWS {
            trx.insert(&t, &wide(&t, id, 0, false)).await.unwrap();
        }
        commit(&mut trx).await;
        t
    });
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let (e, t) = (e.clone(), t.clone());
            scope.spawn(move || block_on(change_rows(&e, &t, n, ROWS, ROUNDS)));
        }
        for _ in 0..40 {
            // A DDL statement, or a check, comes in between.
            e.history.stop();
            block_on(e.runtime.sleep(Duration::from_millis(3)));
            e.history.resume();
            block_on(e.runtime.sleep(Duration::from_millis(20)));
        }
    });
    block_on(async {
        purged(&e).await;
        let c = e.check_table(&t).await.unwrap();
        assert_eq!((c.errors, c.notes), (vec![], vec![]));
        for no in 0..3 {
            assert_eq!(records(&e, &t, no), c.rows as usize, "records of index {no}");
        }
        e.close().await.unwrap();
    });
}
fn wide(t: &Table, id: i64, k: i64, long: bool) -> Vec<u8> {
    let text = vec![b'a' + (k % 26) as u8; 20 + (k % 500) as usize];
    let blob = vec![b'l'; if long { 20_000 } else { 0 }];
    encoded(
        t,
        &[
            Value::Int(id),
            Value::Int(k),
            Value::Bytes(Cow::Owned(text)),
            Value::Bytes(Cow::Owned(blob)),
        ],
    )
}
async fn change_rows(e: &Arc<Engine>, t: &Arc<Table>, thread: u64, rows: i64, rounds: u64) {
    let mut x = thread + 1;
    let mut random = move |n: i64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) as i64 % n
    };
    let mut trx = e.begin(KillFlag::new());
    for _ in 0..rounds {
        // One in forty is long.
        let changes = if random(40) == 0 { 100 } else { 1 + random(3) };
        let done: Result<(), Error> = async {
            for _ in 0..changes {
                let (id, k, long) = (random(rows), random(1000), random(20) == 0);
                let mut key = Vec::new();
                t.clustered().key.encode_values(&[Value::Int(id)], &mut key);
                let mut c = Cursor::point(
                    t.clone(),
                    key,
                    Read::Locking { mode: Mode::X, conflict: OnConflict::Wait },
                );
                match (c.next(&mut trx).await?, random(4)) {
                    (true, 0) => trx.delete(t, c.row()).await?,
                    (true, _) => trx.update(t, c.row(), &wide(t, id, k, long)).await?,
                    (false, _) => trx.insert(t, &wide(t, id, k, long)).await?,
                }
            }
            Ok(())
        }
        .await;
        match done {
            Ok(()) if random(8) > 0 => drop(trx.commit().await.unwrap()),
            Ok(()) | Err(Error::Deadlock | Error::DuplicateKey { .. }) => {
                trx.rollback().await.unwrap()
            }
            Err(e) => panic!("{e}"),
        }
    }
}

//! Purge keeps up with those who make history, and slows them where it is told to.
mod common;
#[path = "common/tables.rs"]
#[allow(dead_code)] // each test program uses its part
mod tables;

use common::Dir;
use redolith_disk::{Disk, RealDisk};
use redolith_engine::host::{BoxFuture, Host, Threads, block_on};
use redolith_engine::lock::KillFlag;
use redolith_engine::{Config, Engine};
use redolith_types::{IndexDef, Value};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tables::*;

/// A host with one worker, where everybody who is ready has a turn, in order: as a server's workers under many connections.
struct Turns {
    disk: Arc<dyn Disk>,
    queue: Mutex<VecDeque<Arc<Task>>>,
    sleepers: Mutex<Vec<(Duration, Waker)>>,
}
struct Task {
    future: Mutex<Option<BoxFuture<()>>>,
    queued: AtomicBool,
    host: Arc<Turns>,
}
impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, SeqCst) {
            self.host.queue.lock().unwrap().push_back(self.clone());
        }
    }
}
/// The engine's handle: tasks need the host itself.
struct Handle(Arc<Turns>);
impl Host for Handle {
    fn spawn(&self, _: &'static str, task: BoxFuture<()>) {
        Arc::new(Task { future: Mutex::new(Some(task)), queued: AtomicBool::new(false), host: self.0.clone() }).wake();
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        let (host, end) = (self.0.clone(), self.0.disk.now() + time);
        Box::pin(poll_fn(move |cx| {
            if host.disk.now() >= end {
                return Poll::Ready(());
            }
            host.sleepers.lock().unwrap().push((end, cx.waker().clone()));
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
            let due: Vec<_> = self.sleepers.lock().unwrap().extract_if(.., |s| s.0 <= now).collect();
            due.into_iter().for_each(|s| s.1.wake());
            let Some(task) = self.queue.lock().unwrap().pop_front() else {
                std::thread::yield_now();
                continue;
            };
            task.queued.store(false, SeqCst);
            let mut future = task.future.lock().unwrap();
            let waker = task.clone().into();
            if future.as_mut().is_some_and(|f| f.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()) {
                *future = None;
            }
        }
    }
}

/// A session commits a change of an indexed column in each of its turns, and 256 of them have one before purge has its next: what purge does in
/// one has to grow with what there is to do.
#[test]
fn the_history_stays_short_however_many_write() {
    const SESSIONS: i64 = 256;
    const EACH: i64 = 120;
    let dir = Dir::new("purge-pace");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let turns = Arc::new(Turns { disk: disk.clone(), queue: Mutex::default(), sleepers: Mutex::default() });
    let opened: Arc<Mutex<Option<Arc<Engine>>>> = Arc::default();
    let host = Arc::new(Handle(turns.clone()));
    let (to, config) = (opened.clone(), Config { pool_bytes: 64 << 20, ..Config::new(&dir.0) });
    let its_host: Arc<dyn Host> = host.clone();
    host.spawn("open", Box::pin(async move { *to.lock().unwrap() = Some(Engine::open(config, disk, its_host).await.unwrap().0) }));
    turns.run_until(|| opened.lock().unwrap().is_some());
    let e = opened.lock().unwrap().take().unwrap();
    let (committed, longest, ready) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (engine, sessions, c, l, r) = (e.clone(), host.clone(), committed.clone(), longest.clone(), ready.clone());
    let main = async move {
        let t = create(&engine, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await;
        let mut trx = engine.begin(KillFlag::new());
        for id in 0..SESSIONS {
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Int(0)])).await.unwrap();
        }
        commit(&mut trx).await;
        for id in 0..SESSIONS {
            let (engine, host, t, c, l) = (engine.clone(), sessions.clone(), t.clone(), c.clone(), l.clone());
            let session = async move {
                let mut trx = engine.begin(KillFlag::new());
                for n in 1..=EACH {
                    let at = locked(&mut trx, &t, id).await.unwrap();
                    trx.update(&t, at.row(), &encoded(&t, &[Value::Int(id), Value::Int(n * 7919 % 1000)])).await.unwrap();
                    drop(trx.commit().await.unwrap());
                    c.fetch_add(1, SeqCst);
                    l.fetch_max(engine.history.len(), SeqCst);
                    host.yield_now().await;
                }
            };
            sessions.spawn("session", Box::pin(session));
        }
        r.store(true, SeqCst);
    };
    host.spawn("main", Box::pin(main));
    let all = (SESSIONS * EACH) as u64;
    turns.run_until(|| committed.load(SeqCst) == all);
    assert!(longest.load(SeqCst) < all / 4, "{} of {all} waited for purge", longest.load(SeqCst));
    turns.run_until(|| e.history.is_empty());
    let (engine, closed) = (e.clone(), Arc::new(AtomicBool::new(false)));
    let c = closed.clone();
    let check = async move {
        let t = engine.table("test", "t").await.unwrap().unwrap();
        clean(&engine, &t, SESSIONS as u64).await;
        assert_eq!(index_records(&engine, &t), SESSIONS as usize, "no entry is left over");
        engine.close().await.unwrap();
        c.store(true, SeqCst);
    };
    host.spawn("close", Box::pin(check));
    turns.run_until(|| closed.load(SeqCst));
}
/// Entries of the table's second index, marked or not.
fn index_records(e: &Engine, t: &redolith_engine::dict::table::Table) -> usize {
    use redolith_engine::{btree::Seek, page::index};
    let tree = &t.indexes[1].tree;
    let Ok(mut g) = tree.leaf(&e.store, Seek::Key(b"")) else { panic!("it is in memory") };
    let mut n = 0;
    loop {
        n += index::records(&g).count();
        match tree.right_of(&e.store, &g) {
            Ok(Some(next)) => g = next,
            Ok(None) => return n,
            Err(_) => panic!("it is in memory"),
        }
    }
}

/// `innodb_max_purge_lag`: changes wait while the history is too long, and no longer.
#[test]
fn changes_wait_while_purge_is_too_far_behind() {
    let dir = Dir::new("purge-lag");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let (e, _) = block_on(Engine::open(Config::new(&dir.0), disk.clone(), Threads::new(disk))).unwrap();
    block_on(async {
        let t = create(&e, "t", vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await;
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
        within(&e, "purge tells of the lag, though it is stopped", || e.history.lag.delay().is_some()).await;
        assert_eq!(e.history.lag.delay(), Some(Duration::from_millis(15)));
        assert!(change(&mut trx, 21).await >= Duration::from_millis(15));
        e.history.lag.set_max_delay_us(700);
        within(&e, "it is bounded", || e.history.lag.delay() == Some(Duration::from_micros(700))).await;
        // Who is killed waits no longer.
        e.history.lag.set_max_delay_us(0);
        e.history.lag.set_max(1);
        within(&e, "a long delay", || e.history.lag.delay() > Some(Duration::from_millis(100))).await;
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

//! A small engine on a real disk, for unit tests that look at the inside of one.
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::lock::{KillFlag, Mode};
use crate::row::cursor::{Cursor, OnConflict, Read};
use crate::runtime::{BoxFuture, Runtime, Threads, block_on};
use crate::testing::within;
use crate::trx::Trx;
use crate::{Config, DEFAULT_COLLATION};
use parking_lot::Mutex;
use redolith_disk::{Disk, RealDisk};
use redolith_types::{Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The engine, and its directory, which goes with it.
pub(crate) struct SmallEngine {
    engine: Arc<Engine>,
    dir: PathBuf,
}
impl SmallEngine {
    /// A directory that is new.
    pub(crate) fn open(name: &str, disk: Arc<dyn Disk>, on: Arc<dyn Runtime>) -> SmallEngine {
        let dir = std::env::temp_dir().join(format!("redolith-{name}-{}", std::process::id()));
        SmallEngine { engine: open(&dir, disk, on), dir }
    }
    /// Closes the engine, and opens the directory again.
    pub(crate) fn reopen(self, disk: Arc<dyn Disk>, on: Arc<dyn Runtime>) -> SmallEngine {
        let SmallEngine { engine, dir } = self;
        block_on(engine.close()).unwrap();
        drop(engine);
        SmallEngine { engine: open(&dir, disk, on), dir }
    }
    pub(crate) fn run(&self, test: impl AsyncFnOnce(Arc<Engine>)) {
        block_on(test(self.engine.clone()));
    }
    pub(crate) fn close(self) {
        block_on(self.engine.close()).unwrap();
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}
fn open(dir: &Path, disk: Arc<dyn Disk>, on: Arc<dyn Runtime>) -> Arc<Engine> {
    let config = Config { pool_bytes: 8 << 20, ..Config::new(dir) };
    block_on(Engine::open(config, disk, on)).unwrap().0
}
/// Runs a test with an engine in a new directory.
pub(crate) fn with_engine(name: &str, test: impl AsyncFnOnce(Arc<Engine>)) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let small = SmallEngine::open(name, disk.clone(), Threads::new(disk));
    small.run(test);
    small.close();
}
/// A runtime that keeps the tasks with a name until they are released, and may sleep shortly.
pub(crate) struct Holding {
    name: &'static str,
    longest_sleep: Duration,
    below: Arc<Threads>,
    held: Mutex<Option<Vec<BoxFuture<()>>>>,
}
impl Holding {
    pub(crate) fn new(name: &'static str, disk: &Arc<dyn Disk>) -> Arc<Holding> {
        Holding::sleeping(name, disk, Duration::from_millis(2))
    }
    /// As `new`, with sleeps up to `longest_sleep`.
    pub(crate) fn sleeping(
        name: &'static str,
        disk: &Arc<dyn Disk>,
        longest_sleep: Duration,
    ) -> Arc<Holding> {
        let (below, held) = (Threads::new(disk.clone()), Mutex::new(Some(Vec::new())));
        Arc::new(Holding { name, longest_sleep, below, held })
    }
    /// The tasks run from here on. An engine cannot close before.
    pub(crate) fn release(&self) {
        for task in self.held.lock().take().into_iter().flatten() {
            self.below.spawn(self.name, task);
        }
    }
}
impl Runtime for Holding {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        match &mut *self.held.lock() {
            Some(held) if name == self.name => held.push(task),
            _ => self.below.spawn(name, task),
        }
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        self.below.sleep(time.min(self.longest_sleep))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.below.yield_now()
    }
}
/// s.t (id INT PRIMARY KEY, k INT, each with an index of its own).
pub(crate) async fn table(e: &Arc<Engine>) -> Arc<Table> {
    table_with(e, |_| ()).await
}
pub(crate) async fn table_with(e: &Arc<Engine>, change: impl FnOnce(&mut TableDef)) -> Arc<Table> {
    let sign = redolith_types::sql_type::Sign::SIGNED;
    let int = SqlType::Int { size: IntSize::Int, sign, display: None };
    let mut def = TableDef {
        schema: "s".into(),
        name: "t".into(),
        columns: ["id", "k"].map(|name| Column::new(name, int.clone()).not_null()).into(),
        indexes: vec![IndexDef::primary([0]), IndexDef::secondary("k", false, [1])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
        checks: Vec::new(),
        statistics: Default::default(),
    };
    change(&mut def);
    e.create_schema("s", DEFAULT_COLLATION, None).await.unwrap();
    e.create_table(def, 1, None).await.unwrap()
}
pub(crate) fn row(t: &Table, id: i64, k: i64) -> Vec<u8> {
    let mut out = Vec::new();
    t.layout.encode(&[Value::Int(id), Value::Int(k)], &mut out);
    out
}
pub(crate) fn key(t: &Table, id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut key);
    key
}
/// At the row with this id, locked.
pub(crate) async fn locked(trx: &mut Trx, t: &Arc<Table>, id: i64) -> Cursor {
    let read = Read::Locking { mode: Mode::X, conflict: OnConflict::Wait };
    let mut at = Cursor::point(t.clone(), key(t, id), read);
    assert!(at.next(trx).await.unwrap());
    at
}
pub(crate) async fn update(trx: &mut Trx, t: &Arc<Table>, id: i64, k: i64) {
    let at = locked(trx, t, id).await;
    trx.update(t, at.row(), &row(t, id, k)).await.unwrap();
}
pub(crate) async fn commit(trx: &mut Trx) {
    trx.commit().await.unwrap().durable().await;
}
/// Waits until the history is empty.
pub(crate) async fn purged(e: &Arc<Engine>) {
    within(e, "all is purged", || e.history.is_empty()).await;
}
/// Checks that a table is sound, and that nothing in it belongs to no row.
pub(crate) async fn clean(e: &Arc<Engine>, t: &Arc<Table>, rows: u64) {
    purged(e).await;
    let c = e.check_table(t).await.unwrap();
    assert_eq!((c.errors, c.notes, c.rows), (vec![], vec![], rows));
}
/// A transaction.
pub(crate) fn begin(e: &Arc<Engine>) -> Trx {
    e.begin(KillFlag::new())
}

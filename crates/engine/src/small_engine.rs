//! A small engine on a real disk, for unit tests that look at the inside of one.
use crate::dict::table::Table;
use crate::engine::Engine;
use crate::lock::{KillFlag, Mode};
use crate::row::cursor::{Cursor, OnConflict, Read};
use crate::runtime::{Threads, block_on};
use crate::trx::Trx;
use crate::{Config, DEFAULT_COLLATION};
use redolith_disk::{Disk, RealDisk};
use redolith_types::{Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The engine, and its directory, which goes with it.
pub(crate) struct SmallEngine {
    pub(crate) engine: Arc<Engine>,
    dir: PathBuf,
}
impl SmallEngine {
    pub(crate) fn open(name: &str) -> SmallEngine {
        let dir = std::env::temp_dir().join(format!("redolith-{name}-{}", std::process::id()));
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let mut config = Config::new(&dir);
        config.pool_bytes = 8 << 20;
        let opened = block_on(Engine::open(config, disk.clone(), Threads::new(disk)));
        SmallEngine { engine: opened.unwrap().0, dir }
    }
    pub(crate) fn close(self) {
        block_on(self.engine.close()).unwrap();
        std::fs::remove_dir_all(&self.dir).unwrap();
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
    while !e.history.is_empty() {
        e.runtime.sleep(Duration::from_millis(5)).await;
    }
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

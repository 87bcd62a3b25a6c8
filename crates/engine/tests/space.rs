//! What grows and shrinks again: the history and the undo file while purge is stopped and after, the redo log when its capacity changes.
use redolith_disk::{Disk, RealDisk};
use redolith_engine::dict::table::Table;
use redolith_engine::host::{Threads, block_on};
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::purge::State;
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Report, Trx};
use redolith_types::{Collation, Column, IndexDef, IntSize, SqlType, TableDef, Value};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

struct Dir(PathBuf);
impl Dir {
    fn new(name: &str) -> Dir {
        let p = std::env::temp_dir().join(format!("redolith-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&p);
        Dir(p)
    }
}
impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
fn open(dir: &Dir) -> (Arc<Engine>, Report) {
    open_with(dir, |_| ())
}
fn open_with(dir: &Dir, change: impl FnOnce(&mut Config)) -> (Arc<Engine>, Report) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut c = Config::new(&dir.0);
    c.pool_bytes = 8 << 20;
    c.log_segment_bytes = 1 << 20;
    c.log_capacity_bytes = 16 << 20;
    c.log_buffer_bytes = 1 << 20;
    change(&mut c);
    block_on(Engine::open(c, disk.clone(), Threads::new(disk))).unwrap()
}
async fn table(e: &Arc<Engine>) -> Arc<Table> {
    if let Some(t) = e.table("test", "t").await.unwrap() {
        return t;
    }
    let int = || SqlType::Int { size: IntSize::Int, sign: redolith_types::sql_type::Sign::SIGNED, display: None };
    let text = SqlType::VarChar { chars: 1000, collation: Collation::Latin1SwedishCi };
    let def = TableDef {
        schema: "test".into(),
        name: "t".into(),
        columns: vec![Column::new("id", int()).not_null(), Column::new("k", int()).not_null(), Column::new("c", text).not_null()],
        indexes: vec![IndexDef::primary([0]), IndexDef::secondary("k", false, [1])],
        collation: DEFAULT_COLLATION,
        comment: String::new(),
    };
    e.create_schema("test", DEFAULT_COLLATION).await.unwrap();
    e.create_table(def, 1).await.unwrap()
}
fn row(t: &Table, id: i64, k: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let c = vec![b'a' + (k % 26) as u8; 800];
    t.layout.encode(&[Value::Int(id), Value::Int(k), Value::Bytes(Cow::Borrowed(&c))], &mut out);
    out
}
async fn fill(e: &Arc<Engine>, t: &Arc<Table>, rows: i64) {
    let mut trx = e.begin(KillFlag::new());
    for id in 0..rows {
        trx.insert(t, &row(t, id, 0)).await.unwrap();
    }
    trx.commit().await.unwrap().durable().await;
}
async fn update(trx: &mut Trx, t: &Arc<Table>, id: i64, k: i64) {
    let mut key = Vec::new();
    t.clustered().key.encode_values(&[Value::Int(id)], &mut key);
    let mut c = Cursor::point(t.clone(), key, Read::Locking { mode: Mode::X, conflict: OnConflict::Wait });
    assert!(c.next(trx).await.unwrap());
    trx.update(t, c.row(), &row(t, id, k)).await.unwrap();
}
async fn purged(e: &Arc<Engine>) {
    for _ in 0..4000 {
        if e.history.is_empty() {
            return;
        }
        e.host.sleep(Duration::from_millis(5)).await;
    }
    panic!("{} undo logs are not purged", e.history.len());
}
async fn sound(e: &Arc<Engine>, t: &Arc<Table>, rows: u64) {
    let c = e.check_table(t).await.unwrap();
    assert!(c.errors.is_empty(), "{:?}", c.errors);
    assert_eq!(c.rows, rows);
}

#[test]
fn a_stopped_purge_holds_up_nothing_and_goes_on_after_a_restart() {
    let dir = Dir::new("purge-stop");
    let (e, _) = open(&dir);
    block_on(async {
        let t = table(&e).await;
        fill(&e, &t, 200).await;
        purged(&e).await;
        e.history.stop();
        e.history.stop();
        assert_eq!(e.history.state(), State::Stopped);
        let mut trx = e.begin(KillFlag::new());
        for round in 1..=20 {
            for id in 0..200 {
                update(&mut trx, &t, id, round).await;
            }
            trx.commit().await.unwrap().durable().await;
        }
        e.host.sleep(Duration::from_millis(100)).await;
        assert_eq!(e.history.len(), 20);
        assert!(e.history.done_below(e.sys.next_id()) < e.sys.next_id());
        sound(&e, &t, 200).await;
        drop(trx);
        e.close().await.unwrap();
    });
    drop(e);
    let (e, report) = open(&dir);
    assert_eq!((report.history, report.rolled_back), (20, 0));
    block_on(async {
        let t = table(&e).await;
        purged(&e).await;
        assert!(matches!(e.history.state(), State::Idle));
        assert!(e.history.counts.changes.load(std::sync::atomic::Ordering::Relaxed) >= 4000);
        sound(&e, &t, 200).await;
        e.history.stop();
        let mut trx = e.begin(KillFlag::new());
        update(&mut trx, &t, 7, 99).await;
        trx.commit().await.unwrap().durable().await;
        e.host.sleep(Duration::from_millis(60)).await;
        assert_eq!(e.history.len(), 1);
        e.history.resume();
        purged(&e).await;
        drop(trx);
        e.close().await.unwrap();
    });
}

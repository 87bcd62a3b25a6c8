//! Commits that wait, hidden, for the engine's stream.

use crate::common::Dir;
use crate::common::table::{LOCK, def, key, row};
use redolith_disk::{Disk, RealDisk};
use redolith_engine::commit_stream::CommitStream;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::{KillFlag, Mode};
use redolith_engine::row::cursor::{Cursor, OnConflict, Read};
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, Engine, Error, Lsn, Result, Trx, TrxId};
use std::sync::{Arc, Mutex};

/// A stream that only notes what it gets.
#[derive(Default)]
struct Notes {
    appended: Mutex<Vec<(Vec<u8>, Option<TrxId>)>>,
}
impl CommitStream for Notes {
    fn judge(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn replay(&self, _: Lsn, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn begin(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
    fn appended(&self, _: Lsn, _: Lsn, record: &[u8], hidden: Option<TrxId>) {
        self.appended.lock().unwrap().push((record.to_vec(), hidden));
    }
    fn limit(&self) -> Lsn {
        Lsn::MAX
    }
    fn state(&self) -> Vec<u8> {
        Vec::new()
    }
}

fn open(dir: &Dir) -> (Arc<Engine>, Arc<Notes>) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let notes = Arc::new(Notes::default());
    let mut config = Config::new(&dir.0);
    config.pool_bytes = 8 << 20;
    (config.log_segment_bytes, config.log_capacity_bytes) = (1 << 20, 16 << 20);
    let runtime = Threads::new(disk.clone());
    let (engine, _) = block_on(Engine::open_with(config, disk, runtime, notes.clone())).unwrap();
    (engine, notes)
}
async fn table(engine: &Arc<Engine>) -> Arc<Table> {
    engine.create_schema("test", redolith_engine::DEFAULT_COLLATION, None).await.unwrap();
    engine.create_table(def("t"), 1, None).await.unwrap()
}
async fn sees(engine: &Arc<Engine>, t: &Arc<Table>, id: i64) -> bool {
    let mut trx = engine.begin(KillFlag::new());
    let mut cursor = Cursor::point(t.clone(), key(t, id), Read::Consistent);
    let found = cursor.next(&mut trx).await.unwrap();
    trx.rollback().await.unwrap();
    found
}
async fn is_locked(engine: &Arc<Engine>, t: &Arc<Table>, id: i64) -> bool {
    let mut trx = engine.begin(KillFlag::new());
    let read = Read::Locking { mode: Mode::X, conflict: OnConflict::NoWait };
    let mut cursor = Cursor::point(t.clone(), key(t, id), read);
    let refused = matches!(cursor.next(&mut trx).await, Err(Error::LockNoWait));
    trx.rollback().await.unwrap();
    refused
}
async fn placed(engine: &Arc<Engine>, t: &Arc<Table>, id: i64) -> (Trx, Lsn) {
    let mut trx = engine.begin(KillFlag::new());
    trx.insert(t, &row(t, id, 0, "x")).await.unwrap();
    let end = trx.place_commit(&id.to_le_bytes()).await.unwrap().unwrap();
    (trx, end)
}

/// Tests STREAM-4.
#[test]
fn a_placed_commit_shows_and_lets_go_when_it_is_told_to() {
    let dir = Dir::new("hidden");
    let (engine, notes) = open(&dir);
    block_on(async {
        let t = table(&engine).await;
        let (mut trx, end) = placed(&engine, &t, 1).await;
        let id = trx.id();
        assert_eq!(
            notes.appended.lock().unwrap().pop().unwrap(),
            (vec![1, 0, 0, 0, 0, 0, 0, 0], Some(id))
        );
        assert!(!sees(&engine, &t, 1).await && is_locked(&engine, &t, 1).await);
        engine.show_commit(id);
        engine.show_commit(id);
        assert!(sees(&engine, &t, 1).await);
        assert_eq!(trx.finish_commit().lsn(), Some(end));
        assert!(sees(&engine, &t, 1).await && !is_locked(&engine, &t, 1).await);
        // The session goes on with another transaction.
        let mut cursor = Cursor::point(t.clone(), key(&t, 1), LOCK);
        assert!(cursor.next(&mut trx).await.unwrap());
        trx.delete(&t, cursor.row()).await.unwrap();
        trx.commit_with(Some(b"deleted")).await.unwrap().durable().await;
        assert_eq!(notes.appended.lock().unwrap().pop().unwrap(), (b"deleted".to_vec(), None));
        assert!(!sees(&engine, &t, 1).await);
        engine.close().await.unwrap();
    });
}

/// A transaction that has changed nothing has nothing to hide.
#[test]
fn without_changes_there_is_no_place() {
    let dir = Dir::new("hidden-empty");
    let (engine, notes) = open(&dir);
    block_on(async {
        let mut trx = engine.begin(KillFlag::new());
        assert_eq!(trx.place_commit(b"record").await.unwrap(), None);
        assert_eq!(trx.finish_commit().lsn(), None);
        assert_eq!(notes.appended.lock().unwrap().len(), 0);
        engine.close().await.unwrap();
    });
}

/// The commit is in the redo log, so a session that goes away does not take it back.
#[test]
fn a_placed_commit_stays_whatever_becomes_of_its_session() {
    let dir = Dir::new("hidden-dropped");
    let (engine, _) = open(&dir);
    block_on(async {
        let t = table(&engine).await;
        drop(placed(&engine, &t, 1).await);
        assert!(sees(&engine, &t, 1).await && !is_locked(&engine, &t, 1).await);
        engine.close().await.unwrap();
    });
}

//! Definitions while others look at their tables, and those that end in the middle.

use crate::common::hanging::Hanging;
use crate::common::tables::*;
use crate::common::{Dir, at_one_moment, copy};
use redolith_disk::{Create, Disk, File, OpenHow, RealDisk};
use redolith_engine::dict::alter::Alteration;
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{Threads, block_on};
use redolith_engine::{Config, DEFAULT_COLLATION, Engine, Error, Trx};
use redolith_types::{IndexDef, TableDef, Value};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

fn open_on(dir: &Dir, disk: Arc<dyn Disk>) -> Arc<Engine> {
    let mut c = Config::new(&dir.0);
    (c.pool_bytes, c.log_capacity_bytes, c.log_buffer_bytes) = (8 << 20, 16 << 20, 1 << 20);
    block_on(Engine::open(c, disk.clone(), Threads::new(disk))).unwrap().0
}
async fn put(e: &Arc<Engine>, t: &Arc<Table>, ids: Range<i64>) {
    let mut trx = e.begin(KillFlag::new());
    put_in(&mut trx, t, ids).await;
    commit(&mut trx).await;
}
async fn put_in(trx: &mut Trx, t: &Arc<Table>, ids: Range<i64>) {
    for id in ids {
        trx.insert(t, &encoded(t, &[Value::Int(id), Value::Int(id)])).await.unwrap();
    }
}
async fn make(e: &Arc<Engine>, name: &str) -> Arc<Table> {
    create(e, name, vec![("k", int())], vec![IndexDef::secondary("k", false, [1])]).await
}
fn called(t: &Table, name: &str) -> TableDef {
    TableDef { name: name.into(), ..t.def.clone() }
}

/// Where a thread that works on a table's file stops.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    BeforeOpen,
    AfterOpen,
    BeforeRemove,
}
/// A real disk on which work on the files of tables stops until the test goes on with it.
struct Stopping {
    disk: RealDisk,
    stop: Mutex<Option<Arc<Stop>>>,
}
struct Stop {
    place: Place,
    tell: Sender<()>,
    go: Mutex<Receiver<()>>,
}
impl Stopping {
    fn new() -> Arc<Stopping> {
        Arc::new(Stopping { disk: RealDisk::new(), stop: Mutex::new(None) })
    }
    /// What tells that a thread has stopped, and what lets one go on. When they are gone, none
    /// stops any more.
    fn stop_at(&self, place: Place) -> (Receiver<()>, Sender<()>) {
        let ((tell, told), (go, gone)) = (channel(), channel());
        let stop = Stop { place, tell, go: Mutex::new(gone) };
        *self.stop.lock().unwrap() = Some(Arc::new(stop));
        (told, go)
    }
    fn at(&self, place: Place, path: &Path) {
        let stop = self.stop.lock().unwrap().clone();
        if let Some(stop) = stop.filter(|stop| stop.place == place)
            && path.parent().is_some_and(|dir| dir.ends_with("tables"))
            && stop.tell.send(()).is_ok()
        {
            let _ = stop.go.lock().unwrap().recv();
        }
    }
}
impl Disk for Stopping {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        if how.create == Create::Existing {
            self.at(Place::BeforeOpen, path);
        }
        let file = self.disk.open(path, how);
        if how.create == Create::Existing {
            self.at(Place::AfterOpen, path);
        }
        file
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.at(Place::BeforeRemove, path);
        self.disk.remove(path)
    }
    redolith_disk::forward_disk! {
        disk: exists list create_dir_all rename sync_dir lock_dir now wall_us random
    }
}

/// The first look at a table takes no metadata lock. Tests DICT-2.
#[test]
fn a_table_that_goes_while_it_is_opened_is_looked_up_again() {
    let (dir, disk) = (Dir::new("first-look"), Stopping::new());
    let cases = [Place::BeforeOpen, Place::AfterOpen].map(|place| [(place, false), (place, true)]);
    let cases: Vec<_> = cases.into_iter().flatten().enumerate().collect();
    let e = open_on(&dir, disk.clone());
    block_on(async {
        for (n, _) in &cases {
            put(&e, &make(&e, &format!("t{n}")).await, 0..10).await;
        }
        purged(&e).await;
        e.close().await.unwrap();
    });
    drop(e);
    let e = open_on(&dir, disk.clone());
    for (n, (place, drops)) in cases {
        let name = format!("t{n}");
        let old = e.dict.table("test", &name).unwrap();
        let (told, go) = disk.stop_at(place);
        let (engine, looks_for) = (e.clone(), name.clone());
        let looking =
            std::thread::spawn(move || block_on(engine.table("test", &looks_for)).unwrap());
        told.recv().unwrap();
        let new = block_on(async {
            if drops {
                e.drop_tables(std::slice::from_ref(&old), None).await.unwrap();
                None
            } else {
                Some(e.truncate_table(&old, None).await.unwrap())
            }
        });
        drop((told, go));
        let found = looking.join().unwrap();
        assert_eq!(found.map(|t| t.id), new.map(|t| t.id), "{name}");
        assert!(e.store.spaces.get(old.space).is_none(), "the file of {name} stays open");
    }
    block_on(e.close()).unwrap();
}

/// Files that are not removed yet need their notes at all times, however many they are.
/// Tests TABLEFILE-1.
#[test]
fn a_crash_while_many_files_go_leaves_none_that_nothing_explains() {
    const TABLES: usize = 130;
    let (dir, disk) = (Dir::new("many-files"), Stopping::new());
    let e = open_on(&dir, disk.clone());
    let crashed = block_on(async {
        for n in 0..TABLES {
            make(&e, &format!("t{n}")).await;
        }
        e.create_schema("stays", DEFAULT_COLLATION, None).await.unwrap();
        let model = e.table("test", "t0").await.unwrap().unwrap();
        let def = TableDef { schema: "stays".into(), ..model.def.clone() };
        let other = e.create_table(def, 1, None).await.unwrap();
        let (told, go) = disk.stop_at(Place::BeforeRemove);
        let engine = e.clone();
        let dropping = std::thread::spawn(move || block_on(engine.drop_schema("test", None)));
        told.recv().unwrap();
        // A checkpoint passes all notes.
        let noted = e.store.log.tail();
        e.flush_settings.checkpoint_interval_ms.set(1);
        put(&e, &other, 0..1).await;
        within(&e, "a checkpoint", || e.store.log.checkpoint_lsn() >= noted).await;
        e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
        e.runtime.sleep(Duration::from_millis(200)).await;
        go.send(()).unwrap();
        told.recv().unwrap();
        let crashed = at_one_moment(&e, &dir.0, || {
            let crashed = Dir::new("many-files-crashed");
            copy(&dir.0, &crashed.0);
            crashed
        })
        .await;
        drop((told, go));
        dropping.join().unwrap().unwrap();
        e.close().await.unwrap();
        crashed
    });
    drop(e);
    let (e, report) = open(&crashed);
    assert_eq!((report.removed_files.len(), report.set_aside.len()), (TABLES - 1, 0), "{report:?}");
    block_on(e.close()).unwrap();
}

/// What a transaction makes obsolete in the table that it fills is purged like everything else.
/// Tests NEWTABLE-5.
#[test]
fn purge_waits_until_a_new_table_is_found() {
    let dir = Dir::new("purge-new");
    let (e, _) = open(&dir);
    block_on(async {
        let model = make(&e, "model").await;
        let mut trx = e.begin(KillFlag::new());
        let mut new = e.begin_table(&mut trx, called(&model, "made"), 1).await.unwrap();
        put_in(&mut trx, new.table(), 0..20).await;
        for id in 0..10 {
            let at = locked(&mut trx, new.table(), id).await.unwrap();
            trx.delete(new.table(), at.row()).await.unwrap();
        }
        let removed = e.history.counts.removed.load(SeqCst);
        new.commit(&mut trx, None).await.unwrap().durable().await;
        // Purge comes by several times.
        for _ in 0..20 {
            e.runtime.sleep(Duration::from_millis(5)).await;
        }
        new.enter().await.unwrap();
        let made = e.table("test", "made").await.unwrap().unwrap();
        clean(&e, &made, 10).await;
        assert_eq!(e.history.counts.removed.load(SeqCst) - removed, 10);
        drop(trx);
        e.close().await.unwrap();
    });
}

/// A name that only the dictionary's rows have, because its table is not entered yet, is taken all
/// the same: the record of one table never goes under that of another.
#[test]
fn no_definition_takes_the_row_of_another_table() {
    let dir = Dir::new("row-taken");
    let (e, _) = open(&dir);
    block_on(async {
        let t = make(&e, "t").await;
        let mut trx = e.begin(KillFlag::new());
        let mut new = e.begin_table(&mut trx, called(&t, "made"), 1).await.unwrap();
        put_in(&mut trx, new.table(), 0..5).await;
        new.commit(&mut trx, None).await.unwrap().durable().await;
        let how = Building::in_memory(KillFlag::new());
        let to = altered(called(&t, "made"), None);
        let renamed = [(t.clone(), "test".to_string(), "made".to_string())];
        let mut other = e.begin(KillFlag::new());
        let done = [
            e.create_table(called(&t, "made"), 1, None).await.map(drop),
            e.alter_table(&t, to, &how).await.map(drop),
            e.rename_tables(&renamed, &[], None).await,
            e.begin_table(&mut other, called(&t, "made"), 1).await.map(drop),
            e.begin_replacement(&mut other, &t, called(&t, "made"), 1, &[]).await.map(drop),
        ];
        for (n, done) in done.into_iter().enumerate() {
            assert!(matches!(&done, Err(Error::TableExists(name)) if name == "made"), "{n}");
        }
        other.rollback().await.unwrap();
        new.enter().await.unwrap();
        // A name that becomes free in the statement itself is no other table's.
        let made = e.table("test", "made").await.unwrap().unwrap();
        let swapped = [
            (t, "test".to_string(), "made".to_string()),
            (made, "test".to_string(), "t".to_string()),
        ];
        e.rename_tables(&swapped, &[], None).await.unwrap();
        drop((trx, other));
        e.close().await.unwrap();
    });
    drop(e);
    let (e, report) = open(&dir);
    assert!(report.removed_files.is_empty() && report.set_aside.is_empty(), "{report:?}");
    block_on(async {
        sound(&e, &e.table("test", "t").await.unwrap().unwrap(), 5).await;
        sound(&e, &e.table("test", "made").await.unwrap().unwrap(), 0).await;
        e.close().await.unwrap();
    });
}
fn altered(def: TableDef, auto_increment: Option<u64>) -> Alteration {
    Alteration { def, added: 0, dropped: vec![], auto_increment, record: None }
}

/// Nobody sees the old counter in the new form of the table, and no crash brings it back.
/// Tests COUNTER-3.
#[test]
fn a_counter_that_was_lowered_stays_low() {
    lowered(false);
    // The index that goes takes a second record of the table.
    lowered(true);
}
fn lowered(drops_index: bool) {
    let (dir, disk) = (Dir::new("lowered"), Hanging::new());
    let e = open_on(&dir, disk.clone());
    block_on(async {
        let model = make(&e, "model").await;
        let mut def = called(&model, "t");
        def.columns[0].auto_increment = true;
        let t = e.create_table(def, 1, None).await.unwrap();
        put(&e, &t, 1..101).await;
        let mut trx = e.begin(KillFlag::new());
        for id in 11..101 {
            let at = locked(&mut trx, &t, id).await.unwrap();
            trx.delete(&t, at.row()).await.unwrap();
        }
        commit(&mut trx).await;
        purged(&e).await;
        drop(trx);
        e.close().await.unwrap();
    });
    drop(e);
    let e = open_on(&dir, disk.clone());
    let crashed = block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        assert_eq!(t.auto_increment.load(SeqCst), 101);
        e.flush_settings.checkpoint_interval_ms.set(u32::MAX);
        e.history.stop();
        disk.hang();
        let how = Building::in_memory(KillFlag::new());
        let mut to = altered(t.def.clone(), Some(20));
        if drops_index {
            to.def.indexes.truncate(1);
            to.dropped.push(1);
        }
        {
            let mut altering = pin!(e.alter_table(&t, to, &how));
            let cx = &mut Context::from_waker(Waker::noop());
            while altering.as_mut().poll(cx).is_pending() {
                let now = e.dict.table("test", "t").unwrap();
                let expected = if Arc::ptr_eq(&now, &t) { 101 } else { 20 };
                assert_eq!(now.auto_increment.load(SeqCst), expected);
                e.runtime.sleep(Duration::from_millis(1)).await;
            }
        }
        // Data files do not change, and the redo log is durable as far as the statement has waited.
        let crashed = Dir::new("lowered-crashed");
        copy(&dir.0, &crashed.0);
        disk.go_on();
        e.history.resume();
        e.close().await.unwrap();
        crashed
    });
    drop(e);
    for dir in [crashed, dir] {
        let (e, _) = open(&dir);
        block_on(async {
            let t = e.table("test", "t").await.unwrap().unwrap();
            assert_eq!(t.auto_increment.load(SeqCst), 20);
            clean(&e, &t, 10).await;
            e.close().await.unwrap();
        });
    }
}

/// The next start frees the pages of an index whose build was given up, also if the table has got
/// other records since.
#[test]
fn the_pages_of_an_index_that_was_given_up_are_not_lost() {
    let dir = Dir::new("index-given-up");
    let (e, _) = open(&dir);
    block_on(async {
        let t = make(&e, "t").await;
        put(&e, &t, 0..20_000).await;
        let (how, by_k) = (
            Building::in_memory(KillFlag::new()),
            vec![IndexDef::secondary("again", false, [1, 0])],
        );
        let now = {
            let mut building = pin!(e.create_indexes(&t, by_k, &how));
            let cx = &mut Context::from_waker(Waker::noop());
            loop {
                assert!(building.as_mut().poll(cx).is_pending(), "it was given up too late");
                let now = e.dict.table("test", "t").unwrap();
                if !Arc::ptr_eq(&now, &t) {
                    break now;
                }
            }
        };
        assert_eq!(now.def.indexes.len(), t.def.indexes.len());
        let mut def = now.def.clone();
        def.comment = "altered".into();
        let now = e.alter_table(&now, altered(def, None), &how).await.unwrap();
        e.rename_tables(&[(now, "test".into(), "u".into())], &[], None).await.unwrap();
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open(&dir);
    block_on(async {
        let t = e.table("test", "u").await.unwrap().unwrap();
        clean(&e, &t, 20_000).await;
        e.close().await.unwrap();
    });
}

//! Indexes of tables that have rows: sorted in memory and in files, with leaves of any size.
use crate::common::Dir;
use crate::common::filling::Filling;
use crate::common::tables::{clean, commit, create, encoded, int, open, open_with, text, within};
use redolith_disk::{Disk, File, OpenHow, RealDisk};
use redolith_engine::dict::index_build::Building;
use redolith_engine::dict::table::Table;
use redolith_engine::lock::KillFlag;
use redolith_engine::progress::Progress;
use redolith_engine::row::cursor::{Cursor, Read};
use redolith_engine::runtime::{BoxFuture, Runtime, Threads, block_on};
use redolith_engine::temporary::TemporarySpace;
use redolith_engine::{Config, Engine, Error};
use redolith_types::{IndexDef, Value};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A building that sorts `memory` bytes at a time, with leaves of `fill` bytes, and its files.
fn building(memory: usize, fill: usize, limit: u64) -> (Building, Arc<TemporarySpace>) {
    let space = TemporarySpace::new(&std::env::temp_dir(), limit);
    let how = Building::in_files(KillFlag::new(), memory, space.clone(), Progress::new());
    (Building { fill, ..how }, space)
}
/// A table of rows (id, k, c) with k = `k(id)`, and a text of `len` bytes that begins with k.
async fn filled(
    e: &Arc<Engine>,
    name: &str,
    rows: i64,
    len: usize,
    k: impl Fn(i64) -> Option<i64>,
) -> Arc<Table> {
    let mut def =
        create(e, "columns", vec![("k", int()), ("c", text(3400))], vec![]).await.def.clone();
    def.name = name.into();
    def.columns[1].nullable = true;
    let t = e.create_table(def, 1, None).await.unwrap();
    e.drop_tables(&[e.table("test", "columns").await.unwrap().unwrap()], None).await.unwrap();
    let mut trx = e.begin(KillFlag::new());
    for id in 0..rows {
        let (k, c) = (k(id), format!("{:0len$}", k(id).unwrap_or(0)));
        let k = k.map_or(Value::Null, Value::Int);
        let row = encoded(&t, &[Value::Int(id), k, Value::bytes(c.as_bytes())]);
        trx.insert(&t, &row).await.unwrap();
    }
    commit(&mut trx).await;
    t
}
fn by_k(unique: bool) -> Vec<IndexDef> {
    vec![IndexDef::secondary("k", unique, [1])]
}
fn mixed(id: i64) -> Option<i64> {
    Some(id * 7919 % 10_007)
}

/// Tests BUILD-1 and INDEXBUILD-2: the tree has all entries in their order, and no page is lost.
#[test]
fn trees_of_any_shape_have_all_entries() {
    let dir = Dir::new("build-shapes");
    let (e, _) = open(&dir);
    block_on(async {
        for (rows, len, column) in
            [(0, 8, 1), (1, 8, 1), (3000, 8, 1), (3000, 8, 2), (300, 3000, 2)]
        {
            let mut t = filled(&e, "t", rows, len, mixed).await;
            for (memory, fill) in [(usize::MAX, 15 << 10), (2000, 100), (2000, 4000), (60_000, 1)] {
                let (how, space) = building(memory, fill, u64::MAX);
                let index = vec![IndexDef::secondary("new", false, [column])];
                t = e.create_indexes(&t, index, &how).await.unwrap();
                assert_eq!((space.used(), how.progress.seen()), (0, None));
                if rows == 3000 {
                    assert_eq!(space.files() > 0, memory < usize::MAX, "{memory}");
                }
                clean(&e, &t, rows as u64).await;
                let mut trx = e.begin(KillFlag::new());
                let mut c = Cursor::new(t.clone(), 1, Vec::new(), None, false, Read::Newest);
                let (mut count, mut last) = (0, i64::MIN);
                while c.next(&mut trx).await.unwrap() {
                    let Value::Int(k) = t.layout.get(c.row().stored, 1) else { panic!("a number") };
                    assert!(k > last, "{k} after {last}");
                    (count, last) = (count + 1, k);
                }
                assert_eq!(count, rows);
                trx.rollback().await.unwrap();
                t = e.drop_indexes(&t, &[1]).await.unwrap();
                clean(&e, &t, rows as u64).await;
            }
            e.drop_tables(&[t], None).await.unwrap();
        }
        e.close().await.unwrap();
    });
}

/// Rows are written and deleted through an index that was built.
#[test]
fn a_built_index_takes_changes() {
    let dir = Dir::new("build-changes");
    let (e, _) = open(&dir);
    block_on(async {
        for fill in [60, 15 << 10] {
            let t = filled(&e, "t", 2000, 20, mixed).await;
            let (how, _) = building(5000, fill, u64::MAX);
            let t = e.create_indexes(&t, by_k(true), &how).await.unwrap();
            let mut trx = e.begin(KillFlag::new());
            for id in 2000..4000 {
                let row = [Value::Int(id), Value::Int(mixed(id).unwrap()), Value::bytes(b"more")];
                trx.insert(&t, &encoded(&t, &row)).await.unwrap();
            }
            let again = [Value::Int(9999), Value::Int(mixed(7).unwrap()), Value::bytes(b"again")];
            let failed = trx.insert(&t, &encoded(&t, &again)).await;
            assert!(matches!(failed, Err(Error::DuplicateKey { .. })), "{failed:?}");
            commit(&mut trx).await;
            for id in 1000..3500 {
                let at = crate::common::tables::locked(&mut trx, &t, id).await.unwrap();
                trx.delete(&t, at.row()).await.unwrap();
            }
            commit(&mut trx).await;
            drop(trx);
            clean(&e, &t, 1500).await;
            e.drop_tables(&[t], None).await.unwrap();
        }
        e.close().await.unwrap();
    });
}

/// Tests INDEXBUILD-1.
#[test]
fn a_duplicate_is_found_wherever_it_lies() {
    let dir = Dir::new("build-duplicates");
    let (e, _) = open(&dir);
    block_on(async {
        for (a, b) in [(0, 1), (0, 1999), (1000, 1001), (3, 1500), (1998, 1999)] {
            for memory in [usize::MAX, 3000] {
                let k = |id| if id == b { mixed(a) } else { mixed(id) };
                let t = filled(&e, "t", 2000, 8, k).await;
                let (how, space) = building(memory, 200, u64::MAX);
                let failed = e.create_indexes(&t, by_k(true), &how).await.map(drop);
                let Err(Error::DuplicateKey { index, row, .. }) = failed else {
                    panic!("{failed:?}")
                };
                let mut key = Vec::new();
                t.clustered().key.encode_values(&[Value::Int(b)], &mut key);
                assert_eq!((&*index, row, space.used()), ("k", key, 0));
                let t = e.table("test", "t").await.unwrap().unwrap();
                clean(&e, &t, 2000).await;
                let t = e.create_indexes(&t, by_k(false), &how).await.unwrap();
                clean(&e, &t, 2000).await;
                e.drop_tables(&[t], None).await.unwrap();
            }
        }
        // NULLs are equal to nothing.
        let t = filled(&e, "t", 2000, 8, |id| mixed(id).filter(|_| id % 3 > 0)).await;
        let t = e.create_indexes(&t, by_k(true), &building(3000, 200, u64::MAX).0).await.unwrap();
        clean(&e, &t, 2000).await;
        e.close().await.unwrap();
    });
}

/// A build that is killed, or has no room for its files or its pages, leaves nothing behind.
/// Tests INDEXBUILD-2.
#[test]
fn a_build_that_fails_leaves_nothing() {
    let dir = Dir::new("build-fails");
    let full = Arc::new(AtomicBool::new(false));
    let disk = Filling::new(&full);
    let mut config = Config::new(&dir.0);
    config.pool_bytes = 8 << 20;
    let open = || block_on(Engine::open(config.clone(), disk.clone(), Threads::new(disk.clone())));
    let (e, _) = open().unwrap();
    block_on(async {
        let t = filled(&e, "t", 3000, 600, mixed).await;
        let on_c = || vec![IndexDef::secondary("c", true, [2])];
        let (how, _) = building(100_000, 8000, u64::MAX);
        how.kill.kill();
        let killed = e.create_indexes(&t, on_c(), &how).await.map(drop);
        assert!(matches!(killed, Err(Error::Interrupted)), "{killed:?}");
        let t = e.table("test", "t").await.unwrap().unwrap();
        clean(&e, &t, 3000).await;

        let (how, space) = building(100_000, 8000, 1_000_000);
        let refused = e.create_indexes(&t, on_c(), &how).await.map(drop);
        assert!(matches!(refused, Err(Error::TemporarySpaceFull { .. })), "{refused:?}");
        assert_eq!(space.used(), 0);
        let gone = TemporarySpace::new(Path::new("/there/is/no/such/folder"), u64::MAX);
        let how = Building { space: Some(gone), ..how };
        let nowhere = e.create_indexes(&t, on_c(), &how).await.map(drop);
        assert!(matches!(nowhere, Err(Error::TemporaryFile { .. })), "{nowhere:?}");

        full.store(true, SeqCst);
        let (how, space) = building(100_000, 8000, u64::MAX);
        let unwritten = e.create_indexes(&t, on_c(), &how).await.map(drop);
        assert!(matches!(unwritten, Err(Error::TemporaryFile { .. })), "{unwritten:?}");
        assert_eq!(space.used(), 0);
        // The pages that the file has are used up, and more do not come.
        let how = Building::in_memory(KillFlag::new());
        let no_room = e.create_indexes(&t, on_c(), &how).await.map(drop);
        assert!(
            matches!(no_room, Err(Error::DiskFull(_) | Error::Io { full: true, .. })),
            "{no_room:?}"
        );
        let t = e.table("test", "t").await.unwrap().unwrap();
        clean(&e, &t, 3000).await;
        full.store(false, SeqCst);
        let t = e.create_indexes(&t, on_c(), &how).await.unwrap();
        clean(&e, &t, 3000).await;
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open().unwrap();
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        clean(&e, &t, 3000).await;
        e.close().await.unwrap();
    });
}

/// The indexes of a table that is made with its rows are built when it has them, or the table is
/// not there.
/// Tests NEWTABLE-4.
#[test]
fn a_new_table_gets_its_indexes_last() {
    let dir = Dir::new("build-new");
    let (e, _) = open(&dir);
    block_on(async {
        let t = filled(&e, "t", 2000, 30, mixed).await;
        for (name, twice) in [("twice", true), ("fine", false)] {
            let mut def = t.def.clone();
            def.name = name.into();
            def.indexes.extend(by_k(true));
            def.indexes.push(IndexDef::secondary("c", false, [2]));
            let mut trx = e.begin(KillFlag::new());
            let mut new = e.begin_table(&mut trx, def, 1).await.unwrap();
            new.build_later();
            for id in 0..2000 {
                let k = if twice && id == 77 { mixed(1234) } else { mixed(id) };
                let row = [Value::Int(id), Value::Int(k.unwrap()), Value::bytes(b"text")];
                trx.insert(new.table(), &encoded(new.table(), &row)).await.unwrap();
            }
            let (how, _) = building(3000, 500, u64::MAX);
            let built = new.build_indexes(&how).await;
            if twice {
                assert!(matches!(built, Err(Error::DuplicateKey { index_no: 1, .. })), "{built:?}");
                trx.rollback().await.unwrap();
                new.discard().await.unwrap();
                assert!(e.table("test", name).await.unwrap().is_none());
            } else {
                built.unwrap();
                new.commit(&mut trx, None).await.unwrap().durable().await;
                new.enter().await.unwrap();
                let made = e.table("test", name).await.unwrap().unwrap();
                clean(&e, &made, 2000).await;
                let again = [Value::Int(5000), Value::Int(mixed(5).unwrap()), Value::bytes(b"")];
                let failed = trx.insert(&made, &encoded(&made, &again)).await;
                assert!(matches!(failed, Err(Error::DuplicateKey { .. })), "{failed:?}");
            }
        }
        e.close().await.unwrap();
    });
}

/// A build in a small pool with a small log waits for both, and goes on.
#[test]
fn a_large_build_needs_little() {
    let dir = Dir::new("build-small");
    let (e, _) = open_with(&dir, |c| {
        c.pool_bytes = 2 << 20;
        c.log_segment_bytes = 256 << 10;
        c.log_capacity_bytes = 1 << 20;
        c.log_buffer_bytes = 256 << 10;
    });
    block_on(async {
        let t = filled(&e, "t", 4000, 1000, mixed).await;
        let (how, space) = building(50_000, 15 << 10, u64::MAX);
        let index = vec![IndexDef::secondary("c", true, [2])];
        let t = e.create_indexes(&t, index, &how).await.unwrap();
        assert!(space.files() > 1, "parts were merged before the last merge");
        clean(&e, &t, 4000).await;
        e.close().await.unwrap();
    });
}

/// A bad disk, which changes a bit of each temporary file.
struct Flips {
    disk: RealDisk,
}
struct FlipsFile {
    file: Arc<dyn File>,
}
impl Disk for Flips {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let (file, name) =
            (self.disk.open(path, how)?, path.file_name().unwrap().to_str().unwrap());
        let is_temporary = name.len() == 25 && name.starts_with("redolith-");
        Ok(if is_temporary { Arc::new(FlipsFile { file }) } else { file })
    }
    redolith_disk::forward_disk! {
        disk: exists list
        create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}
impl File for FlipsFile {
    redolith_disk::forward_file!(file: read_at write_durable_at set_len submit sync len);
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut buf = buf.to_vec();
        if offset == 0 {
            buf[20] ^= 1;
        }
        self.file.write_at(&buf, offset)
    }
}

/// Tests TEMP-3: an index is not made of what a bad disk gives back.
#[test]
fn a_damaged_file_makes_no_index() {
    let dir = Dir::new("build-flips");
    let disk = Arc::new(Flips { disk: RealDisk::new() });
    let config = Config { pool_bytes: 8 << 20, ..Config::new(&dir.0) };
    let (e, _) = block_on(Engine::open(config, disk.clone(), Threads::new(disk))).unwrap();
    block_on(async {
        let t = filled(&e, "t", 3000, 8, Some).await;
        let (how, space) = building(3000, 4000, u64::MAX);
        let failed = e.create_indexes(&t, by_k(true), &how).await.map(drop);
        assert!(matches!(failed, Err(Error::TemporaryFile { .. })), "{failed:?}");
        assert_eq!(space.used(), 0);
        let t = e.table("test", "t").await.unwrap().unwrap();
        clean(&e, &t, 3000).await;
        e.close().await.unwrap();
    });
}

/// Without temporary files, entries have the memory that they are given, and no more.
#[test]
fn entries_beyond_their_memory_need_a_file() {
    let dir = Dir::new("build-bound");
    let (e, _) = open(&dir);
    block_on(async {
        let t = filled(&e, "t", 3000, 8, mixed).await;
        for (memory, fits) in [(50_000, false), (5_000_000, true)] {
            let how = Building::in_memory_up_to(KillFlag::new(), memory, Progress::new());
            match e.create_indexes(&t, by_k(true), &how).await {
                Ok(_) => assert!(fits),
                Err(Error::TemporarySpaceFull { limit: 0 }) => assert!(!fits),
                Err(e) => panic!("{e}"),
            }
            let t = e.table("test", "t").await.unwrap().unwrap();
            clean(&e, &t, 3000).await;
        }
        e.close().await.unwrap();
    });
}

/// A runtime that counts how often tasks leave their workers.
struct Leaving {
    below: Arc<Threads>,
    left: AtomicUsize,
}
impl Runtime for Leaving {
    fn spawn(&self, name: &'static str, task: BoxFuture<()>) {
        self.below.spawn(name, task);
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        self.below.sleep(time)
    }
    fn yield_now(&self) -> BoxFuture<()> {
        self.below.yield_now()
    }
    fn leave_worker(&self) -> bool {
        self.left.fetch_add(1, SeqCst);
        true
    }
}

/// A build leaves its worker for the reads of a file, of which a build in memory has none. The few
/// other times are for turns that were long.
#[test]
fn a_build_leaves_its_worker_to_read() {
    let dir = Dir::new("build-workers");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let runtime =
        Arc::new(Leaving { below: Threads::new(disk.clone()), left: AtomicUsize::new(0) });
    let config = Config { pool_bytes: 8 << 20, ..Config::new(&dir.0) };
    let (e, _) = block_on(Engine::open(config, disk, runtime.clone())).unwrap();
    block_on(async {
        let mut t = filled(&e, "t", 3000, 8, mixed).await;
        for (memory, reads) in [(usize::MAX, false), (2000, true)] {
            let (how, space) = building(memory, 60, u64::MAX);
            let before = runtime.left.load(SeqCst);
            t = e.create_indexes(&t, by_k(true), &how).await.unwrap();
            let left = runtime.left.load(SeqCst) - before;
            assert_eq!(space.files() > 0, reads);
            assert!(if reads { left > 50 } else { left < 300 }, "{memory}: {left}");
            t = e.drop_indexes(&t, &[1]).await.unwrap();
        }
        e.close().await.unwrap();
    });
}

/// A disk whose temporary files set a kill flag when they are read, once it is there.
struct Killing {
    disk: RealDisk,
    kill: Arc<Mutex<Option<Arc<KillFlag>>>>,
}
struct KillingFile {
    file: Arc<dyn File>,
    kill: Arc<Mutex<Option<Arc<KillFlag>>>>,
}
impl Disk for Killing {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_temporary = name.len() == 25 && name.starts_with("redolith-");
        Ok(if is_temporary {
            Arc::new(KillingFile { file, kill: self.kill.clone() })
        } else {
            file
        })
    }
    redolith_disk::forward_disk! {
        disk: exists list
        create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}
impl File for KillingFile {
    redolith_disk::forward_file!(file: write_at write_durable_at set_len submit sync len);
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if let Some(kill) = &*self.kill.lock().unwrap() {
            kill.kill();
        }
        self.file.read_at(buf, offset)
    }
}

/// A build that is killed while it writes its tree ends before the next entry; and a tree that is
/// large goes in the background, also at a shutdown and with its table.
/// Tests FREETREE-1 and FREETREE-2.
#[test]
fn a_killed_build_and_a_dropped_index_do_not_keep_their_statement() {
    let dir = Dir::new("build-killed");
    let kill = Arc::new(Mutex::new(None));
    let disk = Arc::new(Killing { disk: RealDisk::new(), kill: kill.clone() });
    let config = Config { pool_bytes: 8 << 20, ..Config::new(&dir.0) };
    let open = || block_on(Engine::open(config.clone(), disk.clone(), Threads::new(disk.clone())));
    let lost = async |e: &Arc<Engine>, t: &Arc<Table>| {
        let c = e.check_table(t).await.unwrap();
        assert_eq!((c.errors, c.rows), (vec![], 3000));
        c.notes.iter().any(|note| note.contains("belong to no index"))
    };
    let (e, _) = open().unwrap();
    block_on(async {
        let t = filled(&e, "t", 3000, 8, mixed).await;
        let pages = || e.store.spaces.get(t.space).unwrap().pages();
        let before = pages();
        // A leaf has one entry.
        let (how, _) = building(20_000, 1, u64::MAX);
        *kill.lock().unwrap() = Some(how.kill.clone());
        let killed = e.create_indexes(&t, by_k(false), &how).await.map(drop);
        assert!(matches!(killed, Err(Error::Interrupted)), "{killed:?}");
        assert!(pages() < before + 500, "{} pages were added", pages() - before);
        *kill.lock().unwrap() = None;

        let t = e.table("test", "t").await.unwrap().unwrap();
        clean(&e, &t, 3000).await;
        // While the background may not work, the pages wait.
        e.history.stop();
        let (how, _) = building(usize::MAX, 1, u64::MAX);
        let mut t = t;
        for _ in 0..2 {
            t = e.create_indexes(&t, by_k(false), &how).await.unwrap();
            t = e.drop_indexes(&t, &[1]).await.unwrap();
            assert!(e.frees_trees() && lost(&e, &t).await);
        }
        e.history.resume();
        clean(&e, &t, 3000).await;
        e.history.stop();
        t = e.create_indexes(&t, by_k(false), &how).await.unwrap();
        t = e.drop_indexes(&t, &[1]).await.unwrap();
        assert!(lost(&e, &t).await);
        e.close().await.unwrap();
    });
    drop(e);
    let (e, _) = open().unwrap();
    block_on(async {
        let t = e.table("test", "t").await.unwrap().unwrap();
        clean(&e, &t, 3000).await;
        e.history.stop();
        let (how, _) = building(usize::MAX, 1, u64::MAX);
        let t = e.create_indexes(&t, by_k(false), &how).await.unwrap();
        let t = e.drop_indexes(&t, &[1]).await.unwrap();
        assert!(e.frees_trees());
        e.drop_tables(&[t], None).await.unwrap();
        e.history.resume();
        within(&e, "the task has ended", || !e.frees_trees()).await;
        e.close().await.unwrap();
    });
}

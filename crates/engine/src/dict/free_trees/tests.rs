use super::*;
use crate::dict::alter::Alteration;
use crate::dict::index_build::Building;
use crate::lock::KillFlag;
use crate::runtime::Threads;
use crate::small_engine::*;
use crate::testing::within;
use redolith_disk::{Disk, File, OpenHow, RealDisk};
use redolith_types::{IndexDef, TableDef};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

const ROWS: i64 = 300;

/// Makes an index with a leaf for each row, and drops it.
async fn drop_large(e: &Arc<Engine>, t: &Arc<Table>) -> Arc<Table> {
    let how = Building { fill: 1, ..Building::in_memory(KillFlag::new()) };
    let index = IndexDef::secondary("large", false, [1, 0]);
    let t = e.create_indexes(t, vec![index], &how).await.unwrap();
    e.drop_indexes(&t, &[2]).await.unwrap()
}
async fn fill(e: &Arc<Engine>, t: &Arc<Table>) {
    let mut trx = begin(e);
    for id in 0..ROWS {
        trx.insert(t, &row(t, id, id)).await.unwrap();
    }
    commit(&mut trx).await;
    purged(e).await;
}
async fn found(e: &Arc<Engine>) -> Arc<Table> {
    e.table("s", "t").await.unwrap().unwrap()
}
/// Whether the table's file has pages that belong to no index.
async fn has_lost(e: &Arc<Engine>, t: &Arc<Table>) -> bool {
    let c = e.check_table(t).await.unwrap();
    assert_eq!((c.errors, c.rows), (vec![], ROWS as u64));
    !c.notes.is_empty()
}
async fn freed(e: &Arc<Engine>) {
    within(e, "the trees are freed", || !e.frees_trees()).await;
}

/// A start serves before the trees are freed, and their record names them until they are: through a
/// DDL statement, and through another shutdown and start. Tests FREETREE-1 and FREETREE-3.
#[test]
fn a_start_leaves_trees_to_the_background() {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let runtime = Holding::new("free-trees", &disk);
    let small = SmallEngine::open("free-start", disk.clone(), runtime.clone());
    small.run(async |e| {
        let t = table(&e).await;
        fill(&e, &t).await;
        e.history.stop();
        let t = drop_large(&e, &t).await;
        assert!(e.frees_trees() && t.unfinished.len() == 1 && has_lost(&e, &t).await);
    });
    runtime.release();

    let runtime = Holding::new("free-trees", &disk);
    let small = small.reopen(disk.clone(), runtime.clone());
    small.run(async |e| {
        let t = found(&e).await;
        assert!(e.frees_trees() && t.unfinished.len() == 1 && has_lost(&e, &t).await);
        e.history.stop();
        let mut def = t.def.clone();
        def.comment = "changed".into();
        let to =
            Alteration { def, added: 0, dropped: Vec::new(), auto_increment: None, record: None };
        let t = e.alter_table(&t, to, &Building::in_memory(KillFlag::new())).await.unwrap();
        assert_eq!(t.unfinished.len(), 1, "the record names what is not freed yet");
    });
    runtime.release();

    let runtime = Holding::new("free-trees", &disk);
    let small = small.reopen(disk.clone(), runtime.clone());
    small.run(async |e| {
        let t = found(&e).await;
        assert!(t.def.comment == "changed" && has_lost(&e, &t).await);
        runtime.release();
        freed(&e).await;
        clean(&e, &t, ROWS as u64).await;
        assert_eq!(t.unfinished.len(), 1, "nothing has changed the record since");
    });

    let small = small.reopen(disk.clone(), Holding::new("free-trees", &disk));
    small.run(async |e| {
        let t = found(&e).await;
        assert!(!e.frees_trees() && t.unfinished.is_empty());
        clean(&e, &t, ROWS as u64).await;
    });
    small.close();
}

/// A tree of which a page leads out of it stays in use, and the statement or the start goes on.
#[test]
fn a_damaged_tree_stays_in_use() {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let runtime = Holding::new("free-trees", &disk);
    let small = SmallEngine::open("free-damaged", disk.clone(), runtime.clone());
    small.run(async |e| {
        let t = table(&e).await;
        fill(&e, &t).await;
        let t = drop_large(&e, &t).await;
        let tree = t.unfinished[0];
        // The root leads to the rows' tree, which does not lose a page.
        e.retry(|| {
            let mut m = Mtr::begin(&e.store)?;
            let at = m.x(PageId { space: t.space, no: tree.root })?;
            let first = index::first_rec(m.page(at)).expect("the root has children");
            let pos = index::search(m.page(at), index::key(m.page(at), first));
            let rows = t.clustered().tree.root.to_le_bytes();
            index::replace_value(&mut m.patch(at), pos, 0, &[&rows]);
            m.commit();
            Ok(())
        })
        .await
        .unwrap();
        let failed = e.free_trees(t.space, &[tree], u64::MAX).await;
        assert!(matches!(failed, Err(Error::Corrupt { .. })), "{failed:?}");
        runtime.release();
        freed(&e).await;
        assert!(has_lost(&e, &t).await);
        // The next record forgets it.
        let t = drop_large(&e, &t).await;
        assert!(t.unfinished.iter().all(|other| other.id != tree.id));
        freed(&e).await;
        // As if the record had been written before.
        let mut r = t.record();
        r.unfinished.push(tree);
        e.replace_record(&t, r, None, None).await.unwrap();
    });

    let small = small.reopen(disk.clone(), Threads::new(disk.clone()));
    small.run(async |e| {
        let t = found(&e).await;
        assert!(!e.frees_trees() && t.unfinished.is_empty() && has_lost(&e, &t).await);
    });
    small.close();
}

/// A disk that cannot read the file of a space, while it is told so.
struct Unreadable {
    disk: RealDisk,
    space: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}
struct UnreadableFile {
    file: Arc<dyn File>,
    space: u64,
    unreadable: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}
impl UnreadableFile {
    fn fails(&self) -> bool {
        let fails = self.unreadable.load(Acquire) == self.space;
        self.failed.fetch_or(fails, std::sync::atomic::Ordering::AcqRel);
        fails
    }
}
impl Disk for Unreadable {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let space = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
        Ok(match space {
            Some(space) => {
                let (unreadable, failed) = (self.space.clone(), self.failed.clone());
                Arc::new(UnreadableFile { file, space, unreadable, failed })
            }
            None => file,
        })
    }
    redolith_disk::forward_disk! {
        disk: exists list
        create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}
impl File for UnreadableFile {
    redolith_disk::forward_file!(file: write_at write_durable_at set_len sync len next_data);
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.fails() {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.file.read_at(buf, offset)
    }
    fn submit(&self, io: redolith_disk::Io) {
        if matches!(io.op, redolith_disk::Op::Read(_)) && self.fails() {
            return (io.done)(Err(io::Error::from_raw_os_error(5)), io.op.into_buf());
        }
        self.file.submit(io);
    }
}

/// After an error of the disk the task tries again, and frees the trees of other tables meanwhile.
/// Tests FREETREE-3.
#[test]
fn an_error_that_passes_holds_up_one_table() {
    let (space, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let unreadable =
        Unreadable { disk: RealDisk::new(), space: space.clone(), failed: failed.clone() };
    let disk: Arc<dyn Disk> = Arc::new(unreadable);
    let runtime = Holding::new("free-trees", &disk);
    let small = SmallEngine::open("free-errors", disk.clone(), runtime.clone());
    small.run(async |e| {
        let t = table(&e).await;
        let other = TableDef { name: "other".into(), ..t.def.clone() };
        let other = e.create_table(other, 1, None).await.unwrap();
        for t in [t, other] {
            fill(&e, &t).await;
            drop_large(&e, &t).await;
        }
        e.history.stop();
    });
    runtime.release();

    let runtime = Holding::new("free-trees", &disk);
    let small = small.reopen(disk.clone(), runtime.clone());
    small.run(async |e| {
        let t = found(&e).await;
        let other = e.table("s", "other").await.unwrap().unwrap();
        let done = |t: &Table| e.freeing.lock().get(&t.unfinished[0].id) == Some(&true);
        space.store(t.space.0.into(), std::sync::atomic::Ordering::Release);
        runtime.release();
        within(&e, "one is freed, one fails", || done(&other) && failed.load(Acquire)).await;
        assert!(!done(&t) && e.frees_trees());
        space.store(0, std::sync::atomic::Ordering::Release);
        freed(&e).await;
        for t in [t, other] {
            clean(&e, &t, ROWS as u64).await;
        }
    });
    small.close();
}

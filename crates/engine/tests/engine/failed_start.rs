//! A start that fails late leaves nobody behind: another start may follow in the same process.
use crate::common::tables::*;
use crate::common::{Dir, at_one_moment, copy};
use redolith_disk::{Disk, File, Io, OpenHow, RealDisk};
use redolith_engine::lock::KillFlag;
use redolith_engine::runtime::{Runtime, Threads, block_on};
use redolith_engine::{Config, Engine, Error};
use redolith_types::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A disk that cannot list the folder of the tables, and counts what is written.
struct Listless {
    disk: RealDisk,
    writes: Arc<AtomicU64>,
}
struct Counted {
    file: Arc<dyn File>,
    writes: Arc<AtomicU64>,
}
impl File for Counted {
    redolith_disk::forward_file!(file: read_at sync len set_len);
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.writes.fetch_add(1, SeqCst);
        self.file.write_at(buf, offset)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.writes.fetch_add(1, SeqCst);
        self.file.write_durable_at(buf, offset)
    }
    fn submit(&self, io: Io) {
        self.writes.fetch_add(1, SeqCst);
        self.file.submit(io);
    }
}
impl Disk for Listless {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        Ok(Arc::new(Counted { file, writes: self.writes.clone() }))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if dir.ends_with("tables") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.disk.list(dir)
    }
    redolith_disk::forward_disk! {
        disk: exists create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}

#[test]
fn a_start_that_fails_late_leaves_nobody_who_writes() {
    let dir = Dir::new("failed-start");
    let (e, _) = open(&dir);
    let insert = async |e: &Arc<Engine>, from: i64| {
        let t = e.table("test", "t").await.unwrap().unwrap();
        let mut trx = e.begin(KillFlag::new());
        for id in from..from + 1000 {
            trx.insert(&t, &encoded(&t, &[Value::Int(id), Value::Int(id)])).await.unwrap();
        }
        trx
    };
    let crashed = block_on(async {
        create(&e, "t", vec![("k", int())], Vec::new()).await;
        commit(&mut insert(&e, 0).await).await;
        let unfinished = insert(&e, 1000).await;
        e.store.log.flush_to(e.store.log.tail()).await;
        let crashed = at_one_moment(&e, &dir.0, || {
            let crashed = Dir::new("failed-start-crashed");
            copy(&dir.0, &crashed.0);
            crashed
        })
        .await;
        drop(unfinished);
        e.close().await.unwrap();
        crashed
    });

    let disk = Arc::new(Listless { disk: RealDisk::new(), writes: Arc::default() });
    let runtime = Threads::new(disk.clone());
    for _ in 0..3 {
        let mut c = Config::new(&crashed.0);
        (c.pool_bytes, c.log_capacity_bytes, c.log_buffer_bytes) = (8 << 20, 16 << 20, 1 << 20);
        let opened = block_on(Engine::open(c, disk.clone(), runtime.clone()));
        let Err(failed) = opened.map(drop) else { panic!("the folder was listed") };
        assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
        let writes = disk.writes.load(SeqCst);
        assert!(writes > 0);
        block_on(runtime.sleep(Duration::from_millis(1500)));
        assert_eq!(disk.writes.load(SeqCst), writes, "somebody goes on writing");
    }
    let (e, report) = open(&crashed);
    block_on(async {
        assert_eq!(report.rolled_back, 1);
        sound(&e, &e.table("test", "t").await.unwrap().unwrap(), 1000).await;
        e.close().await.unwrap();
    });
}

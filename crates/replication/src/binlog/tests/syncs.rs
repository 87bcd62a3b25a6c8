//! Syncs of the open file that fail.
use super::super::stages::submit_sync;
use super::*;
use parking_lot::Mutex;
use redolith_disk::{File, Io, Op, SimDisk};

/// A disk whose files have one report of errors for all syncs, as those of the page cache have.
struct OneReport {
    inner: SimDisk,
    held: Arc<Held>,
}
/// The submitted syncs, until the test ends them.
type Held = Mutex<Vec<Io>>;
struct FileOfOneReport {
    inner: Arc<dyn File>,
    held: Arc<Held>,
}

impl Disk for OneReport {
    redolith_disk::forward_disk! {
        inner: exists list create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
    fn open(&self, path: &std::path::Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, how)?;
        Ok(Arc::new(FileOfOneReport { inner, held: self.held.clone() }))
    }
}
impl File for FileOfOneReport {
    redolith_disk::forward_file! {
        inner: read_at write_at write_durable_at sync len set_len
    }
    fn reports_apart(&self) -> bool {
        false
    }
    fn submit(&self, io: Io) {
        match io.op {
            Op::Sync => self.held.lock().push(io),
            _ => self.inner.submit(io),
        }
    }
}

/// The kernel tells one sync of an error, and the sync beside it that nothing is wrong: who asks
/// for a sync while a session's is under way learns of its error. Tests BINLOG-FILES-4.
#[test]
fn a_failed_sync_is_told_to_all_whose_bytes_it_covered() {
    let held: Arc<Held> = Arc::default();
    let disk = Arc::new(OneReport { inner: SimDisk::new(3), held: held.clone() });
    let place = Place { dir: "/data".into(), base: "binlog".into() };
    let binlog = Binlog::new(disk, place).unwrap();
    binlog.begin(Lsn(0)).unwrap();
    let begin = Rig::new(1 << 20).rotation(Why::Start, 1 << 20, 0);
    binlog.appended(Lsn(0), Lsn(100), &begin, None);
    binlog.advance(Lsn(100)).unwrap();
    let unsynced = binlog.work.lock().files.unsynced().expect("the new file");
    assert!(is_pending(submit_sync(unsynced)));
    let under_way = held.lock().pop().expect("a sync was submitted");
    // The task writes more, and syncs it.
    let (at_work, task) = (Arc::new(std::sync::Barrier::new(2)), binlog.clone());
    let arrives = at_work.clone();
    let task = std::thread::spawn(move || {
        let sealed = events(b"a").seal(STAMP, &GtidTemplate::default()).unwrap();
        task.appended(Lsn(100), Lsn(200), &transaction(2, None, sealed.as_bytes()), None);
        task.advance(Lsn(200)).unwrap();
        arrives.wait();
        task.work.lock().files.sync();
    });
    at_work.wait();
    let told = catch_unwind(AssertUnwindSafe(|| {
        (under_way.done)(Err(io::Error::from_raw_os_error(5)), None);
    }));
    let words = |panic: Box<dyn std::any::Any + Send>| panic.downcast_ref::<String>().cloned();
    for panic in [told, task.join()] {
        let why = words(panic.expect_err("the process ends")).expect("its words");
        assert!(why.contains("syncing /data/binlog.000001: "), "{why}");
    }
}

//! Growth of a file beside other syncs of the file.
use super::*;
use crate::buf::testing::MemDisk;
use redolith_disk::Io;
use std::io;

/// A file of the page cache, of which the submitted operations wait for the test. It is all zeros.
struct Zeros {
    held: Mutex<Vec<Io>>,
}
impl File for Zeros {
    fn reports_apart(&self) -> bool {
        false
    }
    fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        buf.fill(0);
        Ok(())
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }
    fn write_durable_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(u64::from(bitmap::PAGES - 4) * PAGE_SIZE as u64)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn submit(&self, io: Io) {
        self.held.lock().push(io);
    }
}
struct ZerosDisk {
    inner: MemDisk,
    file: Arc<Zeros>,
}
impl Disk for ZerosDisk {
    redolith_disk::forward_disk! {
        inner: list create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
    fn open(&self, _: &Path, _: OpenHow) -> io::Result<Arc<dyn File>> {
        Ok(self.file.clone())
    }
    fn exists(&self, _: &Path) -> bool {
        true
    }
}

/// A file grows by a bitmap page while the flusher syncs it, and this sync fails. The kernel would
/// let the sync of the growth succeed. Tests FLUSH-6.
#[test]
fn growth_learns_of_a_failed_sync() {
    let file = Arc::new(Zeros { held: Mutex::default() });
    let disk = Arc::new(ZerosDisk { inner: MemDisk::default(), file: file.clone() });
    let space = Spaces::new(disk, Path::new(""), false).open(SpaceId(16), "t").unwrap();
    let done = Box::new(|result: io::Result<()>, _| assert!(result.is_err()));
    space.file.submit(Io { op: redolith_disk::Op::Sync, offset: 0, done });
    let growing = space.clone();
    let growth = std::thread::spawn(move || growing.grow(bitmap::PAGES + 4));
    // Growth has written its bitmap page when it gives up its turn at the processor here; if it has
    // not, its sync comes later, and fails as well.
    for _ in 0..100 {
        std::thread::yield_now();
    }
    assert!(!growth.is_finished(), "a sync began while another one ran");
    let Io { done, .. } = file.held.lock().pop().unwrap();
    done(Err(io::Error::from_raw_os_error(5)), None);
    assert!(growth.join().is_err(), "the process would have ended");
    assert!(file.held.lock().is_empty() && space.pages() < bitmap::PAGES);
}

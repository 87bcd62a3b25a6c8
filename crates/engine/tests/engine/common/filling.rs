//! A real disk that can be full: files neither come nor grow.
use redolith_disk::{Disk, File, Io, Op, OpenHow, RealDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

pub struct Filling {
    disk: RealDisk,
    full: Arc<AtomicBool>,
}
struct FillingFile {
    file: Arc<dyn File>,
    full: Arc<AtomicBool>,
}
impl Filling {
    pub fn new(full: &Arc<AtomicBool>) -> Arc<Filling> {
        Arc::new(Filling { disk: RealDisk::new(), full: full.clone() })
    }
}
fn no_space() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
}
impl FillingFile {
    fn check(&self, end: u64) -> io::Result<()> {
        if self.full.load(SeqCst) && end > self.file.len()? { Err(no_space()) } else { Ok(()) }
    }
}
impl Disk for Filling {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        if self.full.load(SeqCst) && !self.disk.exists(path) {
            return Err(no_space());
        }
        Ok(Arc::new(FillingFile { file: self.disk.open(path, how)?, full: self.full.clone() }))
    }
    redolith_disk::forward_disk! {
        disk: exists list
        create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}
impl File for FillingFile {
    redolith_disk::forward_file!(file: read_at sync len);
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check(offset + buf.len() as u64)?;
        self.file.write_at(buf, offset)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check(offset + buf.len() as u64)?;
        self.file.write_durable_at(buf, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check(len)?;
        self.file.set_len(len)
    }
    fn submit(&self, io: Io) {
        let refused = match &io.op {
            Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) => {
                self.check(io.offset + buf.len() as u64).err()
            }
            _ => None,
        };
        match (refused, io.op) {
            (Some(e), Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf)) => {
                (io.done)(Err(e), Some(buf))
            }
            (_, op) => self.file.submit(Io { op, ..io }),
        }
    }
}

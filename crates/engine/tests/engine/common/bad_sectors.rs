//! A real disk that cannot read some places of its files until they are written again.
use redolith_disk::{AlignedBuf, Disk, File, Io, Op, OpenHow, RealDisk};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A place that cannot be read.
#[derive(Clone)]
pub struct BadSectors {
    pub file: PathBuf,
    pub at: Range<u64>,
    /// Whether it cannot be written either.
    pub stays: bool,
    /// How many reads of it fail.
    pub reads: u64,
}
type Bad = Arc<Mutex<Vec<BadSectors>>>;

pub struct BadDisk {
    disk: RealDisk,
    bad: Bad,
}
struct BadFile {
    file: Arc<dyn File>,
    path: PathBuf,
    bad: Bad,
}
impl BadDisk {
    pub fn new(bad: Vec<BadSectors>) -> Arc<BadDisk> {
        Arc::new(BadDisk { disk: RealDisk::new(), bad: Arc::new(Mutex::new(bad)) })
    }
    /// The places that still cannot be read.
    pub fn left(&self) -> usize {
        self.bad.lock().unwrap().iter().filter(|bad| bad.reads > 0).count()
    }
}
fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}
impl BadFile {
    fn read(&self, len: usize, offset: u64) -> io::Result<()> {
        let end = offset + len as u64;
        for bad in self.bad.lock().unwrap().iter_mut().filter(|bad| bad.file == self.path) {
            if bad.at.start < end && offset < bad.at.end && bad.reads > 0 {
                bad.reads -= 1;
                return Err(eio());
            }
        }
        Ok(())
    }
    fn write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let (mut all, end) = (self.bad.lock().unwrap(), offset + buf.len() as u64);
        let here =
            |bad: &BadSectors| bad.file == self.path && offset <= bad.at.start && bad.at.end <= end;
        if all.iter().any(|bad| here(bad) && bad.stays) {
            return Err(eio());
        }
        all.retain(|bad| !here(bad));
        Ok(())
    }
}
impl Disk for BadDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        Ok(Arc::new(BadFile { file, path: path.to_path_buf(), bad: self.bad.clone() }))
    }
    redolith_disk::forward_disk! {
        disk: exists list create_dir_all remove rename sync_dir lock_dir now wall_us random
    }
}
impl File for BadFile {
    redolith_disk::forward_file!(file: sync len set_len);
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read(buf.len(), offset)?;
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf, offset)?;
        self.file.write_at(buf, offset)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf, offset)?;
        self.file.write_durable_at(buf, offset)
    }
    fn submit(&self, io: Io) {
        let failed = match &io.op {
            Op::Read(buf) => self.read(buf.len(), io.offset),
            Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) => {
                self.write(buf, io.offset)
            }
            Op::Sync => Ok(()),
        };
        let Err(e) = failed else { return self.file.submit(io) };
        let buf: Option<AlignedBuf> = match io.op {
            Op::Read(buf) | Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) => {
                Some(buf)
            }
            Op::Sync => None,
        };
        (io.done)(Err(e), buf);
    }
}

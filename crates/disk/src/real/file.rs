//! An open file of the real disk: whole reads and writes at an offset, durable writes, and the
//! file's length.
use super::dir_lock::DirLock;
use super::queue::Pending;
use super::{Shared, again, at};
use crate::{ALIGN, AlignedBuf, File, Io, assert_aligned};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

pub(super) struct RealFile(pub Arc<Inner>);

pub(super) struct Inner {
    pub fd: OwnedFd,
    pub path: PathBuf,
    /// The caller asked for direct I/O and aligns its calls.
    pub direct: bool,
    /// The kernel granted direct I/O.
    pub bypass: bool,
    /// Growing on a full disk takes two steps, so only one caller changes the length at a time.
    pub size: Mutex<()>,
    /// The least and the most bytes of an atomic write; 0 where there are none.
    pub atomic_bytes: (AtomicU32, AtomicU32),
    /// The lock of the file's directory, which all that changes the file holds (REAL-5).
    pub dir_lock: Weak<DirLock>,
    pub shared: Arc<Shared>,
}

const ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// Returns how many bytes of `len` are done after `n` bytes more than `at`; `None` when the call
/// made no progress (end of file, nothing written). Direct I/O goes on from a block border, so a
/// count that ends inside a block repeats that block.
pub(super) fn progress(at: usize, n: usize, len: usize, bypass: bool) -> Option<usize> {
    match at + n {
        whole if whole >= len => Some(len),
        part => Some(if bypass { part / ALIGN * ALIGN } else { part }).filter(|p| *p > at),
    }
}

/// Whether the error says that the system or the file system has no durable writes.
pub(super) fn no_dsync(e: &io::Error) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS].iter().any(|r| e.raw_os_error() == Some(r.raw_os_error()))
}

impl Inner {
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
    pub fn error(&self, what: &str, offset: u64, error: impl Into<io::Error>) -> io::Error {
        let error = error.into();
        at(&self.path, io::Error::new(error.kind(), format!("{what} at {offset}: {error}")))
    }
    pub fn end_of_file(&self, offset: u64) -> io::Error {
        self.error("read", offset, io::ErrorKind::UnexpectedEof)
    }
    pub fn wrote_nothing(&self, offset: u64) -> io::Error {
        self.error("write", offset, io::ErrorKind::WriteZero)
    }

    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let from = offset + done as u64;
            let n = again(|| rustix::io::pread(&self.fd, &mut buf[done..], from))
                .map_err(|e| self.error("read", from, e))?;
            done =
                progress(done, n, buf.len(), self.bypass).ok_or_else(|| self.end_of_file(from))?;
        }
        Ok(())
    }
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_with(buf, offset, |buf, from| rustix::io::pwrite(&self.fd, buf, from))
            .map_err(|(from, e)| self.error("write", from, e))
    }
    fn write_with(
        &self,
        buf: &[u8],
        offset: u64,
        mut write: impl FnMut(&[u8], u64) -> rustix::io::Result<usize>,
    ) -> Result<(), (u64, io::Error)> {
        let mut done = 0;
        while done < buf.len() {
            let from = offset + done as u64;
            let n = again(|| write(&buf[done..], from)).map_err(|e| (from, e.into()))?;
            done = progress(done, n, buf.len(), self.bypass)
                .ok_or_else(|| (from, io::ErrorKind::WriteZero.into()))?;
        }
        Ok(())
    }
    pub fn sync(&self) -> io::Result<()> {
        again(|| rustix::fs::fdatasync(&self.fd)).map_err(|e| self.error("fdatasync", 0, e))
    }
    pub fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if !self.shared.no_dsync.load(Ordering::Relaxed) {
            let write = |buf: &[u8], from| {
                rustix::io::pwritev2(
                    &self.fd,
                    &[io::IoSlice::new(buf)],
                    from,
                    ReadWriteFlags::DSYNC,
                )
            };
            match self.write_with(buf, offset, write) {
                Ok(()) => return Ok(()),
                Err((_, e)) if no_dsync(&e) => self.shared.no_dsync.store(true, Ordering::Relaxed),
                Err((from, e)) => return Err(self.error("durable write", from, e)),
            }
        }
        self.write_at(buf, offset)?;
        self.sync()
    }
    /// Writes a page as a whole or not at all.
    pub fn write_atomic_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let outcome =
            again(|| rustix::io::pwritev2(&self.fd, &[io::IoSlice::new(buf)], offset, ATOMIC));
        self.wrote_atomically(buf.len(), offset, outcome.map_err(io::Error::from))
    }
    /// Judges the outcome of an atomic write. Where the kernel refuses such a write, the file has
    /// none from here on.
    pub fn wrote_atomically(
        &self,
        len: usize,
        offset: u64,
        outcome: io::Result<usize>,
    ) -> io::Result<()> {
        let refusals = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS];
        match outcome {
            Ok(n) if n == len => Ok(()),
            // The kernel promises never to do a part.
            Ok(n) => {
                let why = format!("only {n} of {len} bytes of an atomic write were written");
                Err(self.error("atomic write", offset, io::Error::other(why)))
            }
            Err(e) if refusals.iter().any(|r| e.raw_os_error() == Some(r.raw_os_error())) => {
                self.atomic_bytes.1.store(0, Ordering::Relaxed);
                let e = io::Error::new(io::ErrorKind::Unsupported, e);
                Err(self.error("atomic write", offset, e))
            }
            Err(e) => Err(self.error("atomic write", offset, e)),
        }
    }
    /// Asks the file system for its atomic writes (Linux 6.11 and later).
    pub fn find_atomic_bytes(&self) {
        // STATX_WRITE_ATOMIC, which rustix has no name for.
        let mask = StatxFlags::from_bits_retain(0x1_0000);
        let Ok(stat) = rustix::fs::statx(&self.fd, c"", AtFlags::EMPTY_PATH, mask) else { return };
        if self.bypass && stat.stx_mask & mask.bits() != 0 {
            self.atomic_bytes.0.store(stat.stx_atomic_write_unit_min, Ordering::Relaxed);
            self.atomic_bytes.1.store(stat.stx_atomic_write_unit_max, Ordering::Relaxed);
        }
    }

    /// Grows the file by writing zeros, where the file system cannot allocate space.
    pub fn zero_fill(&self, from: u64, to: u64) -> io::Result<()> {
        const CHUNK: u64 = 1 << 20;
        // The block that the old end lies in is read and written whole, as direct I/O requires.
        let start = from / ALIGN as u64 * ALIGN as u64;
        let mut chunk = AlignedBuf::new(CHUNK as usize);
        let kept = (from - start) as usize;
        if kept > 0 {
            let got = again(|| rustix::io::pread(&self.fd, &mut chunk[..ALIGN], start))
                .map_err(|e| self.error("read", start, e))?;
            chunk[got.min(kept)..ALIGN].fill(0);
        }
        let mut offset = start;
        while offset < to {
            let n = (to - offset).next_multiple_of(ALIGN as u64).min(CHUNK);
            self.write_at(&chunk[..n as usize], offset)?;
            chunk[..ALIGN].fill(0);
            offset += n;
        }
        again(|| rustix::fs::ftruncate(&self.fd, to)).map_err(|e| self.error("truncate", to, e))
    }
    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        match again(|| rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), from, to - from)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.zero_fill(from, to),
            Err(e) => Err(self.error("allocate", from, e)),
        }
    }
}

impl RealFile {
    fn pending(&self, io: Io) -> Box<Pending> {
        if let Some(buf) = io.op.buf() {
            assert_aligned(self.0.direct, buf, io.offset);
        }
        Box::new(Pending::new(self.0.clone(), io))
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.0.direct, buf, offset);
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.0.direct, buf, offset);
        let _lock = self.0.dir_lock.upgrade();
        self.0.write_at(buf, offset)
    }
    fn reports_apart(&self) -> bool {
        self.0.bypass && !self.0.shared.no_dsync.load(Ordering::Relaxed)
    }
    fn writes_atomically(&self, bytes: usize) -> bool {
        let (least, most) = &self.0.atomic_bytes;
        let (least, most) = (least.load(Ordering::Relaxed), most.load(Ordering::Relaxed));
        (least as usize..=most as usize).contains(&bytes)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.0.direct, buf, offset);
        let _lock = self.0.dir_lock.upgrade();
        self.0.write_durable_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        let _lock = self.0.dir_lock.upgrade();
        self.0.sync()
    }
    fn len(&self) -> io::Result<u64> {
        let stat = again(|| rustix::fs::fstat(&self.0.fd)).map_err(|e| at(&self.0.path, e))?;
        Ok(stat.st_size as u64)
    }
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // No call depends on the position of the descriptor, which this moves.
        match again(|| rustix::fs::seek(&self.0.fd, SeekFrom::Data(offset))) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                Ok((offset < self.len()?).then_some(offset))
            }
            Err(e) => Err(self.0.error("seek", offset, e)),
        }
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let f = &*self.0;
        let _lock = f.dir_lock.upgrade();
        let _one = f.size.lock();
        let old = self.len()?;
        let cut = |len| {
            again(|| rustix::fs::ftruncate(&f.fd, len)).map_err(|e| f.error("truncate", len, e))
        };
        if len <= old {
            return cut(len);
        }
        f.grow(old, len).inspect_err(|_| {
            // A full disk may have granted a part. The caller gets the first error.
            let _ = cut(old);
        })
    }
    fn submit(&self, io: Io) {
        self.0.shared.queue().submit(self.pending(io));
    }
    fn submit_many(&self, ios: Vec<Io>) {
        self.0.shared.queue().submit_many(&mut ios.into_iter().map(|io| self.pending(io)));
    }
}

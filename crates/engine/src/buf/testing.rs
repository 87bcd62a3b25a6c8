//! A disk in memory and a runtime of threads, for the tests of `buf` and `flush`.
#![allow(clippy::disallowed_methods)]
use super::{BufConfig, BufferPool, PageIo};
use crate::page::header;
use crate::runtime::{BoxFuture, Runtime, block_on};
use crate::{Lsn, PAGE_SIZE, PageId, SpaceId};
use parking_lot::Mutex;
use redolith_disk::{Disk, File, Io, Op, OpenHow};
use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

/// Runs each task on a thread of its own.
pub struct Threads;
impl Runtime for Threads {
    fn spawn(&self, _: &'static str, task: BoxFuture<()>) {
        thread::spawn(move || block_on(task));
    }
    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        struct Sleep(Instant, bool);
        impl Future for Sleep {
            type Output = ();
            fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
                let now = Instant::now();
                if now >= self.0 {
                    return Poll::Ready(());
                }
                if !std::mem::replace(&mut self.1, true) {
                    let (waker, time) = (cx.waker().clone(), self.0 - now);
                    thread::spawn(move || {
                        thread::sleep(time);
                        waker.wake();
                    });
                }
                Poll::Pending
            }
        }
        Box::pin(Sleep(Instant::now() + time, false))
    }
    fn yield_now(&self) -> BoxFuture<()> {
        Box::pin(async { thread::yield_now() })
    }
}

/// A file of [`MemDisk`]: its content as the process sees it, and as a crash would leave it.
#[derive(Default)]
pub struct MemFile {
    name: String,
    now: Mutex<Vec<u8>>,
    synced: Mutex<Vec<u8>>,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub syncs: AtomicU64,
    /// The operations submitted since [`MemFile::hold`], which run at [`MemFile::release`].
    held: Mutex<Option<Vec<Io>>>,
    pub fail_writes: AtomicBool,
    /// The next sync fails, and the writes that it was for are lost.
    pub fail_sync: AtomicBool,
    /// Whether the file reports errors as one does that is written through the page cache.
    pub page_cache: AtomicBool,
    /// Whether the file says that it has atomic writes, and whether it refuses them nevertheless.
    pub atomic: AtomicBool,
    pub refuses_atomic: AtomicBool,
    pub atomic_writes: AtomicU64,
    /// The operations on all files in order: (name, 'w' or 's', offset).
    log: Arc<Mutex<Vec<(String, char, u64)>>>,
}
impl MemFile {
    pub fn hold(&self) {
        *self.held.lock() = Some(Vec::new());
    }
    pub fn release(&self) {
        let ios = self.held.lock().take().unwrap_or_default();
        ios.into_iter().for_each(|io| self.run(io));
    }
    /// The number of operations that [`MemFile::release`] would run.
    pub fn held(&self) -> usize {
        self.held.lock().as_ref().map_or(0, Vec::len)
    }
    pub fn bytes(&self) -> Vec<u8> {
        self.now.lock().clone()
    }
    pub fn synced_bytes(&self) -> Vec<u8> {
        self.synced.lock().clone()
    }
    fn run(&self, io: Io) {
        match io.op {
            Op::Read(mut buf) => {
                let result = self.read_at(&mut buf, io.offset);
                (io.done)(result, Some(buf));
            }
            Op::Write(buf) => {
                let result = self.write_at(&buf, io.offset);
                (io.done)(result, Some(buf));
            }
            Op::WriteDurable(buf) => {
                let result = self.write_durable_at(&buf, io.offset);
                (io.done)(result, Some(buf));
            }
            Op::WriteAtomic(buf) => {
                let result = match self.refuses_atomic.load(Relaxed) {
                    true => {
                        self.atomic.store(false, Relaxed);
                        Err(io::ErrorKind::Unsupported.into())
                    }
                    false => self.write_at(&buf, io.offset),
                };
                self.atomic_writes.fetch_add(1, Relaxed);
                (io.done)(result, Some(buf));
            }
            Op::Sync => (io.done)(self.sync(), None),
        }
    }
}
impl File for MemFile {
    fn reports_apart(&self) -> bool {
        !self.page_cache.load(Relaxed)
    }
    fn writes_atomically(&self, _: usize) -> bool {
        self.atomic.load(Relaxed)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Relaxed);
        let now = self.now.lock();
        let range = offset as usize..offset as usize + buf.len();
        buf.copy_from_slice(now.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.fail_writes.load(Relaxed) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.writes.fetch_add(1, Relaxed);
        self.log.lock().push((self.name.clone(), 'w', offset));
        let (mut now, end) = (self.now.lock(), offset as usize + buf.len());
        if now.len() < end {
            now.resize(end, 0);
        }
        now[offset as usize..end].copy_from_slice(buf);
        Ok(())
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(buf, offset)?;
        self.sync()
    }
    fn sync(&self) -> io::Result<()> {
        if self.fail_sync.swap(false, Relaxed) {
            *self.now.lock() = self.synced.lock().clone();
            return Err(io::Error::from_raw_os_error(5));
        }
        self.syncs.fetch_add(1, Relaxed);
        self.log.lock().push((self.name.clone(), 's', 0));
        *self.synced.lock() = self.now.lock().clone();
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.now.lock().len() as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.now.lock().resize(len as usize, 0);
        Ok(())
    }
    fn submit(&self, io: Io) {
        if let Some(held) = &mut *self.held.lock() {
            held.push(io);
            return;
        }
        self.run(io);
    }
}

/// A disk in memory. The files of spaces are named `space_<n>`.
#[derive(Default)]
pub struct MemDisk {
    files: Mutex<HashMap<PathBuf, Arc<MemFile>>>,
    pub now_ms: AtomicU64,
    pub log: Arc<Mutex<Vec<(String, char, u64)>>>,
    /// The pages of which a write was announced.
    pub told: Mutex<Vec<PageId>>,
}
impl MemDisk {
    pub fn mem(&self, name: impl AsRef<Path>) -> Arc<MemFile> {
        let name = name.as_ref();
        let new = || MemFile {
            name: name.display().to_string(),
            log: self.log.clone(),
            ..MemFile::default()
        };
        self.files.lock().entry(name.to_path_buf()).or_insert_with(|| Arc::new(new())).clone()
    }
    pub fn space(&self, space: u32) -> Arc<MemFile> {
        self.mem(format!("space_{space}"))
    }
    /// Writes `pages` stamped pages to a space; page n has byte n in its body and LSN 1.
    pub fn fill(&self, space: u32, pages: u32) {
        for no in 0..pages {
            let mut page = [no as u8; PAGE_SIZE];
            header::set_id(&mut page, pid(space, no));
            header::set_lsn(&mut page, Lsn(1));
            header::stamp(&mut page);
            self.space(space).write_at(&page, u64::from(no) * PAGE_SIZE as u64).unwrap();
        }
        self.space(space).sync().unwrap();
        self.log.lock().clear();
    }
}
impl Disk for MemDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        match how.create {
            redolith_disk::Create::Existing if !self.exists(path) => {
                Err(io::ErrorKind::NotFound.into())
            }
            redolith_disk::Create::CreateNew if self.exists(path) => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            _ => Ok(self.mem(path)),
        }
    }
    fn exists(&self, path: &Path) -> bool {
        self.files.lock().contains_key(path)
    }
    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_path_buf(), file);
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn lock_dir(&self, _: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(()))
    }
    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Relaxed))
    }
    fn wall_us(&self) -> i64 {
        0
    }
    fn random(&self) -> u64 {
        4
    }
}
impl PageIo for MemDisk {
    fn file(&self, space: SpaceId) -> crate::Result<Option<Arc<dyn File>>> {
        Ok(self
            .files
            .lock()
            .get(Path::new(&format!("space_{}", space.0)))
            .map(|f| f.clone() as Arc<dyn File>))
    }
    fn written(&self, id: PageId) {
        self.told.lock().push(id);
    }
    fn describe(&self, space: SpaceId) -> (String, String) {
        (format!("space_{}", space.0), format!("t{}", space.0))
    }
}

pub fn pid(space: u32, no: u32) -> PageId {
    PageId { space: SpaceId(space), no }
}
pub fn pool(disk: &Arc<MemDisk>, frames: usize) -> Arc<BufferPool> {
    let config = BufConfig { frames, ..BufConfig::new(0, 256 << 20) };
    BufferPool::new(&config, disk.clone(), disk.clone()).unwrap()
}

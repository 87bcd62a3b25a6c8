//! A disk in memory and a runtime without threads of its own, for the log's unit tests.
use crate::runtime::{BoxFuture, Runtime};
use parking_lot::Mutex;
use redolith_disk::{Create, Disk, File, Io, Op, OpenHow};
use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct Bytes {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// The offset and the length of each write that is not synced.
    unsynced: Vec<(usize, usize)>,
}
#[derive(Default)]
struct MemFile(Mutex<Bytes>, Arc<Faults>, Mutex<Option<Vec<Io>>>, Mutex<Range<u64>>);
#[derive(Default)]
struct Faults {
    full: AtomicBool,
    refuse_sync: AtomicBool,
    shared_reports: AtomicBool,
    hold_new: AtomicBool,
    during_sync: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}
#[derive(Default, Clone)]
pub(in crate::log) struct MemDisk {
    files: Arc<Mutex<BTreeMap<PathBuf, Arc<MemFile>>>>,
    faults: Arc<Faults>,
    clock_us: Arc<AtomicU64>,
}

impl MemFile {
    fn write(&self, buf: &[u8], at: usize) {
        let mut b = self.0.lock();
        assert!(at + buf.len() <= b.now.len(), "a write beyond the end would change metadata");
        assert!(at.is_multiple_of(4096) && buf.len().is_multiple_of(4096), "direct I/O");
        b.now[at..at + buf.len()].copy_from_slice(buf);
        b.unsynced.push((at, buf.len()));
    }
}
impl File for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bad = self.3.lock().clone();
        if offset < bad.end && bad.start < offset + buf.len() as u64 {
            return Err(io::Error::other("EIO"));
        }
        let b = self.0.lock();
        let from = b
            .now
            .get(offset as usize..offset as usize + buf.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(from);
        Ok(())
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf, offset as usize);
        Ok(())
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.1.refuse_sync.load(SeqCst) {
            return Err(io::Error::other("EIO"));
        }
        let at = offset as usize;
        self.write(buf, at);
        let mut b = self.0.lock();
        b.unsynced.pop();
        b.durable[at..at + buf.len()].copy_from_slice(buf);
        Ok(())
    }
    fn reports_apart(&self) -> bool {
        !self.1.shared_reports.load(SeqCst)
    }
    fn sync(&self) -> io::Result<()> {
        let (now, count) = {
            let b = self.0.lock();
            (b.now.clone(), b.unsynced.len())
        };
        let during = self.1.during_sync.lock().take();
        during.into_iter().for_each(|during| during());
        let mut b = self.0.lock();
        b.durable = now;
        b.unsynced.drain(..count);
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().now.len() as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.1.full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut b = self.0.lock();
        b.now.resize(len as usize, 0);
        b.durable.resize(len as usize, 0);
        Ok(())
    }
    fn submit(&self, io: Io) {
        if let Some(held) = &mut *self.2.lock() {
            return held.push(io);
        }
        self.run(io);
    }
}
impl MemFile {
    fn run(&self, io: Io) {
        match io.op {
            Op::Read(mut b) => {
                let r = self.read_at(&mut b, io.offset);
                (io.done)(r, Some(b));
            }
            Op::Write(b) | Op::WriteAtomic(b) => (io.done)(self.write_at(&b, io.offset), Some(b)),
            Op::WriteDurable(b) => (io.done)(self.write_durable_at(&b, io.offset), Some(b)),
            Op::Sync => (io.done)(self.sync(), None),
        }
    }
}

impl MemDisk {
    pub fn content(&self, path: &Path) -> Vec<u8> {
        self.files.lock()[path].0.lock().now.clone()
    }
    pub fn put(&self, path: &Path, content: Vec<u8>) {
        let bytes = Bytes { durable: content.clone(), now: content, unsynced: Vec::new() };
        self.files.lock().insert(
            path.into(),
            Arc::new(MemFile(
                Mutex::new(bytes),
                self.faults.clone(),
                Mutex::default(),
                Mutex::default(),
            )),
        );
    }
    /// From now on these bytes of the file cannot be read.
    pub fn lose(&self, path: &Path, bytes: Range<u64>) {
        *self.file(path).3.lock() = bytes;
    }
    /// The next sync runs this after it has begun.
    pub fn during_sync(&self, during: impl FnOnce() + Send + 'static) {
        *self.faults.during_sync.lock() = Some(Box::new(during));
    }
    /// From now on operations submitted to the file stay in flight.
    pub fn hold(&self, path: &Path) {
        *self.file(path).2.lock() = Some(Vec::new());
    }
    /// From now on operations submitted to new files stay in flight too.
    pub fn hold_new(&self) {
        self.faults.hold_new.store(true, SeqCst);
    }
    /// A file with operations in flight.
    pub fn first_held(&self) -> Option<PathBuf> {
        self.paths().into_iter().find(|path| self.held(path) > 0)
    }
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.lock().keys().cloned().collect()
    }
    pub fn held(&self, path: &Path) -> usize {
        self.file(path).2.lock().as_ref().map_or(0, Vec::len)
    }
    /// Ends the `n`-th of the file's operations in flight.
    pub fn end(&self, path: &Path, n: usize) {
        let file = self.file(path);
        let io = file.2.lock().as_mut().expect("held").remove(n);
        file.run(io);
    }
    pub fn has(&self, path: &Path) -> bool {
        self.files.lock().contains_key(path)
    }
    fn file(&self, path: &Path) -> Arc<MemFile> {
        self.files.lock()[path].clone()
    }
    pub fn set_full(&self, full: bool) {
        self.faults.full.store(full, SeqCst);
    }
    /// Behaves like a file system that has no durable write in one step.
    pub fn share_reports(&self) {
        self.faults.shared_reports.store(true, SeqCst);
    }
    pub fn refuse_sync(&self) {
        self.faults.refuse_sync.store(true, SeqCst);
    }
    /// The disk after a crash: everything synced is kept, and of the rest the sectors that `keep`
    /// chooses.
    pub fn crashed(&self, mut keep: impl FnMut() -> bool) -> MemDisk {
        let image = MemDisk::default();
        for (path, file) in self.files.lock().iter() {
            let b = file.0.lock();
            let mut content = b.durable.clone();
            for (at, len) in &b.unsynced {
                for sector in (*at..at + len).step_by(512).filter(|_| keep()) {
                    content[sector..sector + 512].copy_from_slice(&b.now[sector..sector + 512]);
                }
            }
            image.put(path, content);
        }
        image
    }
}
impl Disk for MemDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let mut files = self.files.lock();
        match (files.get(path), how.create) {
            (Some(_), Create::CreateNew) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(f), _) => Ok(f.clone()),
            (None, Create::Existing) => Err(io::ErrorKind::NotFound.into()),
            (None, _) => {
                let held = self.faults.hold_new.load(SeqCst).then(Vec::new);
                let f = Arc::new(MemFile(
                    Mutex::default(),
                    self.faults.clone(),
                    Mutex::new(held),
                    Mutex::default(),
                ));
                files.insert(path.into(), f.clone());
                Ok(f)
            }
        }
    }
    fn exists(&self, path: &Path) -> bool {
        self.files.lock().contains_key(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = |p: &PathBuf| Some(p.strip_prefix(dir).ok()?.to_str()?.to_owned());
        Ok(self.files.lock().keys().filter_map(name).collect())
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let f = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), f);
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn lock_dir(&self, _: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(()))
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.clock_us.fetch_add(1, SeqCst))
    }
    fn wall_us(&self) -> i64 {
        0
    }
    fn random(&self) -> u64 {
        0x1234_5678_9abc_def0
    }
}

/// Runs background tasks when a test calls `run`. Time passes when a test calls `tick`.
#[derive(Default)]
pub(in crate::log) struct TestRuntime {
    tasks: Mutex<Vec<BoxFuture<()>>>,
    ticks: Arc<AtomicU64>,
    /// How many threads the system still gives; None: any number.
    pub threads_left: Mutex<Option<u32>>,
    /// How many threads it has refused.
    pub threads_refused: AtomicU64,
}
struct Flag(AtomicBool, Option<std::thread::Thread>);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
        if let Some(t) = &self.1 {
            t.unpark();
        }
    }
}
impl TestRuntime {
    pub fn tick(&self) {
        self.ticks.fetch_add(1, SeqCst);
        self.run();
    }
    /// Polls the tasks until none of them wants to be polled again.
    pub fn run(&self) {
        let Some(mut tasks) = self.tasks.try_lock() else { return };
        let flag = Arc::new(Flag(AtomicBool::new(true), None));
        let waker = Waker::from(flag.clone());
        while flag.0.swap(false, SeqCst) {
            tasks.retain_mut(|t| t.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    pub fn tasks(&self) -> usize {
        self.tasks.lock().len()
    }
    pub fn block_on<T>(&self, f: impl Future<Output = T>) -> T {
        let mut f = pin!(f);
        let flag = Arc::new(Flag(AtomicBool::new(false), Some(std::thread::current())));
        let waker = Waker::from(flag.clone());
        let mut parked = 0;
        // A leader does nothing but spin while the thread of an unfinished copy does not run.
        while parked < 60_000 {
            if let Poll::Ready(v) = f.as_mut().poll(&mut Context::from_waker(&waker)) {
                return v;
            }
            self.run();
            if !flag.0.swap(false, SeqCst) {
                parked += 1;
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        panic!("the future hangs");
    }
}
impl Runtime for TestRuntime {
    fn spawn(&self, _: &'static str, task: BoxFuture<()>) {
        self.tasks.lock().push(task);
    }
    fn spawn_thread(&self, name: &'static str, task: BoxFuture<()>) -> io::Result<()> {
        if let Some(left) = &mut *self.threads_left.lock() {
            *left = left.checked_sub(1).ok_or_else(|| {
                self.threads_refused.fetch_add(1, SeqCst);
                io::Error::from_raw_os_error(11)
            })?;
        }
        self.spawn(name, task);
        Ok(())
    }
    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        let (ticks, begun) = (self.ticks.clone(), self.ticks.load(SeqCst));
        Box::pin(std::future::poll_fn(move |_| {
            if ticks.load(SeqCst) > begun { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
    #[allow(clippy::disallowed_methods)] // This is the runtime.
    fn pause(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(async move { std::thread::sleep(time) })
    }
    fn yield_now(&self) -> BoxFuture<()> {
        let mut yielded = false;
        Box::pin(std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            std::thread::yield_now();
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }
}

//! The disk of this machine.
//!
//! Blocking calls are plain system calls on the caller's thread. Submitted operations go through
//! one io_uring per disk (`ring`), or through a small thread pool where the kernel refuses io_uring
//! (`pool`). The ring or the pool starts with the first submitted operation or the first lock of a
//! directory.
//!
//! REAL-1: a durable write or a sync has returned Ok only if the kernel says that the device has
//! the data (RWF_DSYNC, fdatasync).
//! REAL-2: an error is returned once, and the call is not repeated, except after EINTR: a second
//! fdatasync after a failed fdatasync may report success for lost data.
//! REAL-3: an operation in flight owns its file descriptor and its buffer.
//!
//! Lock order: a file's `size` lock, the queue's lock and that of `DirLocks` are leaves.
use crate::{Create, Disk, File, OpenHow, Processors};
use dir_lock::{DirLock, DirLocks};
use file::{Inner, RealFile};
use parking_lot::Mutex;
use queue::Queue;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

mod dir_lock;
mod enter;
mod file;
mod memory;
mod pool;
mod processors;
mod queue;
mod ring;
mod schedule;
mod standard_output;
#[cfg(test)]
mod tests;

pub use enter::enter_ring;
pub use memory::{available_memory_bytes, memory_bytes};
pub use schedule::{
    Contention, Placement, Thread, bind_thread, calculate_in_background, calculate_in_foreground,
    place_thread, process_cpus, this_thread, unbind_this_thread,
};
pub use standard_output::standard_output_to;

const LOCK_FILE: &str = "redolith.lock";

/// The mechanism that runs submitted operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// io_uring, or threads where the kernel refuses io_uring.
    Auto,
    Ring,
    Threads,
}

/// Files, clock and randomness of this machine.
pub struct RealDisk {
    shared: Arc<Shared>,
    start: Instant,
}

/// State shared by a disk and its open files; dropping the last of them stops the queue's threads.
struct Shared {
    kind: QueueKind,
    queue: OnceLock<Queue>,
    locks: DirLocks,
    said_buffered: AtomicBool,
    /// The kernel or the file system has refused RWF_DSYNC: a durable write is a write and an
    /// fdatasync.
    no_dsync: AtomicBool,
}

impl Shared {
    fn queue(&self) -> &Queue {
        self.queue.get_or_init(|| Queue::start(self.kind))
    }
}

impl Default for RealDisk {
    fn default() -> RealDisk {
        RealDisk::new()
    }
}

impl RealDisk {
    pub fn new() -> RealDisk {
        RealDisk::with_queue(QueueKind::Auto)
    }
    /// [`QueueKind::Ring`] panics at the first submitted operation where io_uring is refused.
    pub fn with_queue(kind: QueueKind) -> RealDisk {
        let shared = Shared {
            kind,
            queue: OnceLock::new(),
            locks: DirLocks::default(),
            said_buffered: AtomicBool::new(false),
            no_dsync: AtomicBool::new(false),
        };
        #[allow(clippy::disallowed_methods)] // this is the clock
        let start = Instant::now();
        RealDisk { shared: Arc::new(shared), start }
    }
    /// Which kind runs submitted operations. The call starts the queue.
    #[cfg(test)]
    pub(crate) fn queue_kind(&self) -> QueueKind {
        self.shared.queue().kind()
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let flags = OFlags::RDWR
            | OFlags::CLOEXEC
            | match how.create {
                Create::Existing => OFlags::empty(),
                Create::Create => OFlags::CREATE,
                Create::CreateNew => OFlags::CREATE | OFlags::EXCL,
            };
        let (fd, bypass) = if how.direct {
            // File systems without direct I/O refuse with EINVAL. Some kernels have created the
            // file by then, so the second try must not insist on a new file.
            let existed = self.exists(path);
            match open(path, flags | OFlags::DIRECT) {
                Err(Errno::INVAL) => {
                    if !self.shared.said_buffered.swap(true, Ordering::Relaxed) {
                        tracing::warn!(
                            "{}: the file system refuses direct I/O: files go \
                             through the page cache",
                            path.display()
                        );
                    }
                    let flags = if existed { flags } else { flags - OFlags::EXCL };
                    (open(path, flags).map_err(|e| at(path, e))?, false)
                }
                other => (other.map_err(|e| at(path, e))?, true),
            }
        } else {
            (open(path, flags).map_err(|e| at(path, e))?, false)
        };
        let inner = Inner {
            fd,
            path: path.into(),
            direct: how.direct,
            bypass,
            size: Mutex::new(()),
            atomic_bytes: Default::default(),
            dir_lock: self.shared.locks.of(path),
            shared: self.shared.clone(),
        };
        inner.find_atomic_bytes();
        Ok(Arc::new(RealFile(Arc::new(inner))))
    }
    fn exists(&self, path: &Path) -> bool {
        // Of a file that cannot be looked at, the open says why.
        path.try_exists().unwrap_or(true)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(|e| at(dir, e))? {
            names.push(entry.map_err(|e| at(dir, e))?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }
    #[allow(clippy::disallowed_methods)] // this is the door to files
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists()).collect();
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
        missing.iter().rev().try_for_each(|d| self.sync_dir(parent(d)))
    }
    #[allow(clippy::disallowed_methods)] // this is the door to files
    fn remove(&self, path: &Path) -> io::Result<()> {
        let is_dir = std::fs::symlink_metadata(path).map_err(|e| at(path, e))?.is_dir();
        if is_dir { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
            .map_err(|e| at(path, e))
    }
    #[allow(clippy::disallowed_methods)] // this is the door to files
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to).map_err(|e| at(from, e))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC).map_err(|e| {
            let e = at(dir, e);
            io::Error::new(e.kind(), crate::NotBegun(e))
        })?;
        again(|| rustix::fs::fsync(&fd)).map_err(|e| at(dir, e))
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }
    fn open_resolved(&self, path: &Path, create: bool) -> io::Result<Arc<dyn File>> {
        // A pipe or a terminal must not hold the caller up before it is found to be no file.
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags
            | if create { OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL } else { OFlags::RDONLY };
        let mode = if create { Mode::from_raw_mode(0o640) } else { Mode::empty() };
        let opened =
            again(|| rustix::fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS));
        let fd = match opened {
            // The kernel is older than 5.6, or a sandbox refuses the call.
            Err(Errno::NOSYS | Errno::PERM) => again(|| rustix::fs::open(path, flags, mode))?,
            Err(Errno::LOOP) => return Err(io::ErrorKind::InvalidInput.into()),
            other => other?,
        };
        let stat = again(|| rustix::fs::fstat(&fd))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let inner = Inner {
            fd,
            path: path.into(),
            direct: false,
            bypass: false,
            size: Mutex::new(()),
            atomic_bytes: Default::default(),
            dir_lock: self.shared.locks.of(path),
            shared: self.shared.clone(),
        };
        Ok(Arc::new(RealFile(Arc::new(inner))))
    }
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(DirLock::take(&self.shared, dir, || self.now())?))
    }
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
    #[allow(clippy::disallowed_methods)] // this is the clock
    fn wall_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }
    fn random(&self) -> u64 {
        os_random()
    }
    fn thread_cpu(&self) -> Duration {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }
    fn processors(&self) -> Option<Processors> {
        processors::processors()
    }
}

/// A random number from the operating system, drawn 32 at a time: about 15 ns each, and fit for
/// authentication scrambles.
fn os_random() -> u64 {
    thread_local!(static DRAWN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) });
    DRAWN.with_borrow_mut(|drawn| {
        if drawn.is_empty() {
            // Requests of up to 256 bytes are served whole, even when a signal arrives
            // (getrandom(2)).
            let mut bytes = [0u8; 256];
            let got = again(|| {
                rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
            });
            assert_eq!(got, Ok(256), "the operating system gives no random numbers");
            drawn.extend(bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)));
        }
        drawn.pop().expect("just filled")
    })
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<std::os::fd::OwnedFd> {
    again(|| rustix::fs::open(path, flags, Mode::from_raw_mode(0o640)))
}

fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Adds the file's path to an error, and reports an exceeded quota as a full disk.
fn at(path: &Path, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    let kind = if error.kind() == io::ErrorKind::QuotaExceeded {
        io::ErrorKind::StorageFull
    } else {
        error.kind()
    };
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

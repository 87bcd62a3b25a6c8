//! Locks of data directories.
//!
//! REAL-4: the lock of a directory outlives the process until none of its operations is in flight.
//! Operations that io_uring has begun for a killed process go on, and must not meet the writes of
//! the next process. The ring registers the lock's file, and the kernel drops registered files when
//! the ring's last request has ended. A kernel that registers no files gets no ring.
//! REAL-5: nor is the lock given back while the process lives and a write is in flight in the
//! directory, whoever drops the lock: a start that fails, or whose future is dropped, may have
//! writes in flight. So each operation holds the lock of the directory that its file was opened in.
use super::{LOCK_FILE, Shared, again, at, open};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a process waits for the lock of a directory (REAL-4).
const LOCK_WAIT: Duration = Duration::from_secs(3);

/// A locked directory.
pub(super) struct DirLock {
    _fd: OwnedFd,
    shared: Arc<Shared>,
    /// The lock file's place among the ring's registered files.
    place: Option<u32>,
}
impl Drop for DirLock {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.shared.queue().let_go(place);
        }
    }
}

impl DirLock {
    /// Locks the directory. `now` tells the time.
    pub fn take(
        shared: &Arc<Shared>,
        dir: &Path,
        now: impl Fn() -> Duration,
    ) -> io::Result<Arc<DirLock>> {
        let path = dir.join(LOCK_FILE);
        let fd = open(&path, OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC)
            .map_err(|e| at(&path, e))?;
        let end = now() + LOCK_WAIT;
        loop {
            match again(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if now() < end => {
                    #[allow(clippy::disallowed_methods)] // a wait for the kernel, outside tasks
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(Errno::WOULDBLOCK) => {
                    let why = "another process uses this data directory, or a process that has \
                        ended still has writes in flight";
                    return Err(io::Error::new(
                        io::ErrorKind::WouldBlock,
                        format!("{}: {why}", path.display()),
                    ));
                }
                Err(e) => return Err(at(&path, e)),
            }
        }
        let place = shared.queue().keep_open(&fd).map_err(|e| at(&path, e))?;
        let lock = Arc::new(DirLock { _fd: fd, shared: shared.clone(), place });
        shared.locks.add(dir, &lock);
        Ok(lock)
    }
}

/// The locked directories of a disk.
#[derive(Default)]
pub(super) struct DirLocks(Mutex<Vec<(PathBuf, Weak<DirLock>)>>);
impl DirLocks {
    fn add(&self, dir: &Path, lock: &Arc<DirLock>) {
        let mut locks = self.0.lock();
        locks.retain(|(_, lock)| lock.strong_count() > 0);
        locks.push((dir.into(), Arc::downgrade(lock)));
    }
    /// The lock of the directory that the path leads into. An empty value where there is none.
    pub fn of(&self, path: &Path) -> Weak<DirLock> {
        let locks = self.0.lock();
        let above = locks.iter().rev().find(|(dir, _)| path.starts_with(dir));
        above.map(|(_, lock)| lock.clone()).unwrap_or_default()
    }
}

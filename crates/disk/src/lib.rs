//! The engine's only access to files, time and randomness.
//!
//! Everything that the engine does to the outside goes through [`Disk`]. The implementation that a
//! server runs on is the real disk (`real`). [`OverlayDisk`] lies over any other disk, which it
//! only reads. The feature `testing` adds a simulated disk that tears, loses and reorders unsynced
//! changes (`sim`), and a disk that records every write and sync of a real run (`record`).
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod buf;
mod forward;
#[cfg(any(test, feature = "testing"))]
mod image;
mod in_turn;
#[cfg(any(test, feature = "testing"))]
mod medium;
mod overlay;
mod real;
#[cfg(any(test, feature = "testing"))]
pub mod record;
#[cfg(any(test, feature = "testing"))]
mod rng;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
#[cfg(test)]
mod test_dir;

pub use buf::AlignedBuf;
pub use in_turn::in_turn;
#[cfg(any(test, feature = "testing"))]
pub use medium::Loss;
pub use overlay::OverlayDisk;
pub use real::{
    Contention, Placement, QueueKind, RealDisk, Thread, available_memory_bytes, bind_thread,
    calculate_in_background, calculate_in_foreground, enter_ring, memory_bytes, place_thread,
    process_cpus, standard_output_to, this_thread, unbind_this_thread,
};
#[cfg(any(test, feature = "testing"))]
pub use record::RecordingDisk;
#[cfg(any(test, feature = "testing"))]
pub use sim::SimDisk;

/// Alignment, in bytes, of offsets, lengths and memory of direct I/O.
pub const ALIGN: usize = 4096;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// `CreateNew` fails if the file exists; `Create` opens or creates; `Existing` fails with
    /// `NotFound`.
    pub create: Create,
    /// I/O bypasses the page cache: offsets, lengths and buffers are multiples of [`ALIGN`].
    pub direct: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    Existing,
    Create,
    CreateNew,
}

/// Files, clock and random numbers of one machine, real or simulated.
pub trait Disk: Send + Sync + 'static {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>>;
    fn exists(&self, path: &Path) -> bool;
    /// Names (not paths) of the entries of a folder, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a folder and its missing parents. The folders are durable when the call returns;
    /// files made in them need [`Disk::sync_dir`].
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes a file or an empty folder. Open handles of the file stay usable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file atomically and replaces `to` if `to` exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes creations, removals and renames in `dir` durable. If that fails, what of them is
    /// durable is unknown, and a second success does not tell either, unless [`was_not_begun`].
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The path of an existing file or folder without symbolic links, `.` and `..`.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        if self.exists(path) { Ok(path.to_path_buf()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
    /// Opens a file of a user by a path that [`Disk::resolve`] has made: to read it, or, if
    /// `create` is set, to write a file that does not exist yet. Fails with `InvalidInput` if the
    /// path leads to something else than a file, and if it leads through a symbolic link, which
    /// somebody has made meanwhile.
    fn open_resolved(&self, path: &Path, create: bool) -> io::Result<Arc<dyn File>> {
        let how = if create { OpenHow::create_new(false) } else { OpenHow::existing(false) };
        self.open(path, how)
    }
    /// Locks a data directory for this process until the value is dropped. Fails with `WouldBlock`
    /// when another process has the lock.
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;
    /// Microseconds since the Unix epoch, UTC.
    fn wall_us(&self) -> i64;
    /// An unpredictable number: the real disk takes it from the operating system.
    fn random(&self) -> u64;
    /// CPU time that the calling thread has used.
    fn thread_cpu(&self) -> Duration {
        self.now()
    }
    /// The idle time and the quota of the CPUs; `None` where the system does not say.
    fn processors(&self) -> Option<Processors> {
        None
    }
}

/// The CPUs that this process may use. The times only grow: callers use the difference between two
/// calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    pub count: f64,
    /// CPU time, of all these CPUs together, that no thread used.
    pub idle: Duration,
    pub quota: Option<Quota>,
}
/// The CPU time that a control group may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    pub cpus: f64,
    /// CPU time that the group has used.
    pub used: Duration,
}

/// One open file. All offsets are in bytes. Calls may come from any thread.
#[allow(clippy::len_without_is_empty)] // a length in bytes that can fail, not a collection
pub trait File: Send + Sync {
    /// Fills `buf`, or fails with `UnexpectedEof` when the file ends too early.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf`. The bytes are not durable before [`File::sync`].
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` durably (RWF_DSYNC: one command on a device with FUA).
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Whether durable writes in flight at the same time each report their own errors. They do not
    /// where they pass through the page cache or consist of a write and an fdatasync: the kernel
    /// reports a failed write-back to one caller for each open file, and the sync of another caller
    /// returns Ok. [`in_turn`] makes such a file one whose syncs fail for all callers.
    fn reports_apart(&self) -> bool {
        true
    }
    /// Whether [`Op::WriteAtomic`] can write aligned pages of `bytes` bytes, a power of two, as a
    /// whole or not at all, even if the power goes. A write that fails may show that it cannot,
    /// after all; then the answer changes.
    fn writes_atomically(&self, bytes: usize) -> bool {
        let _ = bytes;
        false
    }
    /// Makes the completed writes and the file's length durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    /// The first place from `offset` on where the file may have something: before it are only
    /// holes, which read as zeros. `None` if holes are all that is left. Where the system cannot
    /// tell, there may be something everywhere.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok((offset < self.len()?).then_some(offset))
    }
    /// Grows or cuts the file. Growing allocates space that reads as zeros, so a full disk is
    /// reported here and not at a later write.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Starts one operation and returns; `done` is called once, from any thread, and must not
    /// block.
    fn submit(&self, io: Io);
    /// Submits many operations at once: on the real disk with one system call per batch instead of
    /// one per operation.
    fn submit_many(&self, ios: Vec<Io>) {
        ios.into_iter().for_each(|io| self.submit(io));
    }
}

/// A submitted operation. `done` gets the operation's buffer back.
pub enum Op {
    /// A read that fills the whole buffer.
    Read(AlignedBuf),
    Write(AlignedBuf),
    /// A write like [`File::write_durable_at`].
    WriteDurable(AlignedBuf),
    /// A write that a crash leaves done or not done, and never done in part (RWF_ATOMIC). Only for
    /// files whose [`File::writes_atomically`] allows the size. The bytes are not durable before
    /// [`File::sync`]. The error `Unsupported` says that the file has no such writes; nothing has
    /// been written then.
    WriteAtomic(AlignedBuf),
    Sync,
}
impl Op {
    /// The buffer that is read into or written.
    pub fn buf(&self) -> Option<&AlignedBuf> {
        match self {
            Op::Read(buf) | Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) => {
                Some(buf)
            }
            Op::Sync => None,
        }
    }
    /// Gives the buffer back.
    pub fn into_buf(self) -> Option<AlignedBuf> {
        match self {
            Op::Read(buf) | Op::Write(buf) | Op::WriteDurable(buf) | Op::WriteAtomic(buf) => {
                Some(buf)
            }
            Op::Sync => None,
        }
    }
}
pub type Done = Box<dyn FnOnce(io::Result<()>, Option<AlignedBuf>) + Send>;
pub struct Io {
    pub op: Op,
    pub offset: u64,
    pub done: Done,
}

impl OpenHow {
    pub const fn existing(direct: bool) -> OpenHow {
        OpenHow { create: Create::Existing, direct }
    }
    pub const fn create(direct: bool) -> OpenHow {
        OpenHow { create: Create::Create, direct }
    }
    pub const fn create_new(direct: bool) -> OpenHow {
        OpenHow { create: Create::CreateNew, direct }
    }
}

/// Panics on every disk, also where direct I/O fell back to buffered I/O, because the caller is
/// broken and not the disk.
fn assert_aligned(direct: bool, buf: &[u8], offset: u64) {
    assert!(
        !direct || (buf.as_ptr().addr() | buf.len() | offset as usize).is_multiple_of(ALIGN),
        "direct I/O of {} bytes at offset {offset}, address {:p}: not aligned to {ALIGN}",
        buf.len(),
        buf.as_ptr()
    );
}

/// Why a folder could not be opened that was to be synced.
#[derive(Debug)]
struct NotBegun(io::Error);
impl std::fmt::Display for NotBegun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for NotBegun {}
/// Whether [`Disk::sync_dir`] has failed before it asked for anything, as without a free
/// descriptor: then nothing is lost, and it may be tried again.
pub fn was_not_begun(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|e| e.is::<NotBegun>())
}

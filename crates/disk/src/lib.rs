//! The only door to files, time and randomness.
//!
//! Everything that the engine does to the outside goes through [`Disk`]; there are three: the real one (`real`), a simulated one that
//! tears, loses and reorders what was not synced (`sim`), and one that records every write and sync of a real run (`record`).
use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod buf;
pub use buf::AlignedBuf;

/// Alignment, in bytes, of offsets, lengths and memory of direct I/O.
pub const ALIGN: usize = 4096;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHow {
    /// `CreateNew` fails if the file exists; `Create` opens or creates; `Existing` fails with `NotFound`.
    pub create: Create,
    /// Bypass the page cache: offsets, lengths and buffers are multiples of [`ALIGN`].
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
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes creations, removals and renames in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a data directory for this process until the value is dropped. `WouldBlock` when another process has it.
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;
    /// Microseconds since the Unix epoch, UTC.
    fn wall_us(&self) -> i64;
    fn random(&self) -> u64;
}

/// One open file. All offsets are in bytes. Calls may come from any thread.
pub trait File: Send + Sync {
    /// Fills `buf`, or fails with `UnexpectedEof` when the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf`; not durable before [`File::sync`].
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` and makes it durable (RWF_DSYNC: one command on a device with FUA).
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes completed writes durable, and the length with them (fdatasync).
    fn sync(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    /// Grows (allocated, reads as zeros) or cuts the file. Disk full is reported here, not later.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Starts one operation and returns; `done` is called once, from any thread, and must not block.
    fn submit(&self, io: Io);
}

/// What a submitted operation does. A buffer is given away and comes back to `done`.
pub enum Op {
    /// Fill the whole buffer.
    Read(AlignedBuf),
    Write(AlignedBuf),
    Sync,
}
pub type Done = Box<dyn FnOnce(io::Result<()>, Option<AlignedBuf>) + Send>;
pub struct Io {
    pub op: Op,
    pub offset: u64,
    pub done: Done,
}

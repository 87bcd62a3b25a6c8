//! A submitted operation on its way, and the choice between the ring and the thread pool that run
//! it.
use super::QueueKind;
use super::dir_lock::DirLock;
use super::file::{Inner, no_dsync, progress};
use super::pool::Pool;
use super::ring::Ring;
use crate::{Io, Op};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// An operation in flight. It owns its file, its buffer and its `done`, and shares the lock of the
/// file's directory (REAL-5).
pub(super) struct Pending {
    pub file: Arc<Inner>,
    dir_lock: Option<Arc<DirLock>>,
    pub io: Io,
    /// Bytes done by earlier, short rounds.
    pub at: usize,
    /// A durable write runs as a plain write and a sync, because durable writes are not supported
    /// here.
    pub plain: bool,
}

impl Pending {
    pub fn new(file: Arc<Inner>, io: Io) -> Pending {
        let plain = matches!(io.op, Op::WriteDurable(_)) && file.shared.no_dsync.load(Relaxed);
        let dir_lock = file.dir_lock.upgrade();
        Pending { file, dir_lock, io, at: 0, plain }
    }
    /// Whether the operation is such a durable write and its next step is the sync.
    pub fn syncs_next(&self) -> bool {
        self.plain && matches!(&self.io.op, Op::WriteDurable(buf) if self.at == buf.len())
    }
    pub fn finish(self, result: io::Result<()>) {
        let Pending { file, dir_lock, io, .. } = self;
        // `done` may drop the last handle of the disk, or lock the directory again, so our shares
        // of the file and of the lock are dropped first.
        drop((file, dir_lock));
        (io.done)(result, io.op.into_buf());
    }
    /// Runs the operation in the calling thread.
    pub fn run(mut self) {
        let offset = self.io.offset;
        let result = match &mut self.io.op {
            Op::Read(buf) => self.file.read_at(buf, offset),
            Op::Write(buf) => self.file.write_at(buf, offset),
            Op::WriteDurable(buf) => self.file.write_durable_at(buf, offset),
            Op::WriteAtomic(buf) => self.file.write_atomic_at(buf, offset),
            Op::Sync => self.file.sync(),
        };
        self.finish(result);
    }
    /// Takes in one completion. Returns `None` when a part of the operation is left to do.
    pub fn advance(&mut self, outcome: Result<usize, io::Error>) -> Option<io::Result<()>> {
        let from = self.io.offset + self.at as u64;
        let (what, len) = match &self.io.op {
            Op::Read(buf) => ("read", buf.len()),
            Op::Write(buf) => ("write", buf.len()),
            Op::WriteDurable(buf) => ("durable write", buf.len()),
            Op::WriteAtomic(buf) => {
                let written = self.file.wrote_atomically(buf.len(), from, outcome);
                return Some(written);
            }
            Op::Sync => ("fdatasync", 0),
        };
        if self.syncs_next() {
            return Some(outcome.map(|_| ()).map_err(|e| self.file.error(what, self.io.offset, e)));
        }
        let n = match outcome {
            Ok(n) => n,
            Err(e) if matches!(self.io.op, Op::WriteDurable(_)) && !self.plain && no_dsync(&e) => {
                self.file.shared.no_dsync.store(true, Relaxed);
                (self.plain, self.at) = (true, 0);
                return None;
            }
            Err(e) => return Some(Err(self.file.error(what, from, e))),
        };
        match progress(self.at, n, len, self.file.bypass) {
            Some(all) if all == len && self.plain => {
                self.at = all;
                None
            }
            Some(all) if all == len => Some(Ok(())),
            Some(part) => {
                self.at = part;
                None
            }
            None if what == "read" => Some(Err(self.file.end_of_file(from))),
            None => Some(Err(self.file.wrote_nothing(from))),
        }
    }
}

pub(super) enum Queue {
    Ring(Ring),
    Pool(Pool),
}

impl Queue {
    pub fn start(kind: QueueKind) -> Queue {
        if kind == QueueKind::Threads {
            return Queue::Pool(Pool::start());
        }
        Queue::of(kind, Ring::start())
    }
    /// The ring, or threads where the kernel refuses it.
    pub fn of(kind: QueueKind, ring: io::Result<Ring>) -> Queue {
        match ring {
            Ok(ring) => Queue::Ring(ring),
            Err(e) => {
                assert!(kind == QueueKind::Auto, "io_uring refused: {e}");
                tracing::warn!("the kernel refuses io_uring ({e}): threads do the page I/O");
                Queue::Pool(Pool::start())
            }
        }
    }
    #[cfg(test)]
    pub fn kind(&self) -> QueueKind {
        match self {
            Queue::Ring(_) => QueueKind::Ring,
            Queue::Pool(_) => QueueKind::Threads,
        }
    }
    /// Keeps the file open until no operation is in flight, even when this process dies (REAL-4).
    /// Returns `None` for the thread pool, which needs no such help because threads end with their
    /// system calls.
    pub fn keep_open(&self, file: &OwnedFd) -> io::Result<Option<u32>> {
        match self {
            Queue::Ring(ring) => ring.keep_open(file).map(Some),
            Queue::Pool(_) => Ok(None),
        }
    }
    pub fn let_go(&self, place: u32) {
        if let Queue::Ring(ring) = self {
            ring.let_go(place);
        }
    }
    pub fn submit(&self, op: Box<Pending>) {
        self.submit_many(&mut std::iter::once(op));
    }
    pub fn submit_many(&self, ops: &mut dyn Iterator<Item = Box<Pending>>) {
        match self {
            Queue::Ring(ring) => ring.submit(ops),
            Queue::Pool(pool) => pool.submit(ops),
        }
    }
}

/// Ends the process when a `done` panics: the panic would leave every waiter of the queue waiting
/// for ever.
pub(super) struct AbortOnPanic;
impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the completion of an I/O panicked: the process ends");
            std::process::abort();
        }
    }
}

//! A disk in memory that shows, steered by a seed, all the faults of a bad disk and of a power
//! loss.
//!
//! **The fault model.** A program under test may meet these faults:
//!
//!  1. A power loss keeps every synced write. Any subset of the unsynced writes survives, in any
//!     order.
//!  2. A surviving write may be torn between sectors of 512 bytes, or pages of 4 KiB. A sector is
//!     never torn.
//!  3. Unsynced changes of a file's length are lost or kept. Where a length is kept without the
//!     data, there are zeros, or garbage where no `set_len` had allocated.
//!  4. Names created, renamed or removed without a sync of the folder are lost or kept, one by one
//!     or up to a moment. A rename is never half done. A sync of a file does not sync its name.
//!     Folders are durable at once.
//!  5. Submitted operations run in any order, when the scheduler calls [`SimDisk::step`]. At a
//!     power loss each submitted write has or has not begun.
//!  6. Any operation may fail with an input/output error: the k-th operation of a kind, once or for
//!     ever ([`Fault`]).
//!  7. After a failed sync of a file, its writes may or may not be durable. Readers see the writes,
//!     but later successful syncs do not write them.
//!  8. The disk can be full: it has a byte budget that can be raised again. A write that does not
//!     fit leaves a part of itself behind.
//!  9. Writes may be short or torn and report an error.
//! 10. Writes and syncs may be reported done and be lost, and writes may go to a wrong place.
//! 11. Bits may flip: at rest in a named file, or on the way.
//! 12. The power can go at the n-th operation: that operation may be half done, and it and all
//!     further calls fail with [`PowerLost`] until [`SimDisk::restart`]. Files opened before stay
//!     dead after the restart.
//! 13. After [`SimDisk::set_atomic_pages`], aligned pages of 16 KiB take the place of sectors in 2
//!     and 9.
//! 14. The process can be killed ([`SimDisk::kill`]): its writes stay in the page cache and are
//!     still not durable.
//!
//! The model leaves out sectors torn inside, file systems that lose synced names, and two programs
//! at once.
//!
//! SIM-1: the same seed and the same calls give the same results and the same [`SimDisk::trace`].
//! The clock moves only by [`SimDisk::advance`].
//! SIM-2: no code of the caller runs under the lock: `done` is called, and dropped, outside.
use crate::medium::{FileId, Loss, Medium};
use crate::rng::{Rng, mix_all, mix_bytes};
use crate::{Create, Disk, File, OpenHow};
use faults::Plan;
pub use faults::{Damage, Fault, OpKind};
use file::SimFile;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use world::{Verdict, World};

mod control;
mod faults;
mod file;
#[cfg(test)]
mod tests;
mod world;

/// The error of every call between a power loss and the restart.
#[derive(Debug)]
pub struct PowerLost;
impl std::fmt::Display for PowerLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the simulated machine has lost power")
    }
}
impl std::error::Error for PowerLost {}
impl PowerLost {
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|e| e.is::<PowerLost>())
    }
    fn error() -> io::Error {
        io::Error::other(PowerLost)
    }
}

/// A simulated disk, see the head of this file. Clones are the same disk; [`SimDisk::fork`] makes
/// another disk.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn File>> {
        let mut w = self.world.lock();
        let id = w.open(path, how)?;
        w.medium.opened(id);
        Ok(Arc::new(SimFile { world: self.world.clone(), id, boot: w.boot, direct: how.direct }))
    }
    fn exists(&self, path: &Path) -> bool {
        let w = self.world.lock();
        !w.stopped && (w.medium.find(path).is_some() || w.medium.is_dir(path))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut w = self.world.lock();
        w.plain(OpKind::List, dir)?;
        w.medium.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut w = self.world.lock();
        w.plain(OpKind::CreateDir, dir)?;
        w.medium.create_dir_all(dir);
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.world.lock().change_names(OpKind::Remove, path, |m| m.remove(path).map(drop))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut w = self.world.lock();
        w.fold(&[mix_bytes(to.as_os_str().as_encoded_bytes())]);
        w.change_names(OpKind::Rename, from, |m| m.rename(from, to).map(drop))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut w = self.world.lock();
        match w.begin(OpKind::SyncDir, Some(dir), &[])? {
            Verdict::Go(None) => w.medium.sync_dir(dir, |_| true),
            Verdict::Go(Some(Damage::Lost | Damage::Misdirected | Damage::Flip)) => Ok(()),
            Verdict::Go(Some(d)) => Err(world::error_of(d)),
            Verdict::Cut => Err(PowerLost::error()),
        }
    }
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut w = self.world.lock();
        w.plain(OpKind::Lock, dir)?;
        if !w.locks.insert(dir.into()) {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{}: locked", dir.display()),
            ));
        }
        Ok(Box::new(DirLock { world: self.world.clone(), dir: dir.into(), boot: w.boot }))
    }
    fn now(&self) -> Duration {
        self.world.lock().clock
    }
    fn wall_us(&self) -> i64 {
        const START_US: i64 = 1_750_000_000_000_000; // June 2025
        START_US + self.world.lock().clock.as_micros() as i64
    }
    fn random(&self) -> u64 {
        self.world.lock().callers_rng.next()
    }
}

struct DirLock {
    world: Arc<Mutex<World>>,
    dir: PathBuf,
    boot: u64,
}
impl Drop for DirLock {
    fn drop(&mut self) {
        let mut w = self.world.lock();
        if w.boot == self.boot {
            w.locks.remove(&self.dir);
        }
    }
}

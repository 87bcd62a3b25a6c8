//! Table spaces: each is one file of pages, with bitmaps of the pages in use.
//!
//! Files: `system.rdl` (space 0: dictionary), `undo.rdl` and `undo2.rdl` (spaces 1 and 2),
//! `tables/<space id>.rdl`. A file is identified by its space's id, which is never used again. So
//! renaming a table changes only the dictionary, and a file that the dictionary does not name is
//! left from an unfinished statement and can be removed at start.
//!
//! Page 0 of a space has, after the common header: magic u64 at 24, format u32 at 32, in a table's
//! space the AUTO_INCREMENT counter u64 at 40, and the file's stamp u64 at 48 ([`register`]; 0 in
//! files of format 2 of the data directory).
//!
//! - SPACE-1: a page with a number below `pages()` can be read and written: the file is that long
//!   and allocated.
//! - SPACE-4: ranges of bitmap pages of which the end of a file has holes alone are not counted: a
//!   crash has come while the file grew, or somebody has made it longer. Growth makes them anew.
//! - SPACE-2: bitmap pages are latched after all other pages of a mini-transaction.
//! - SPACE-3: a mini-transaction that holds a bitmap page latches only later bitmap pages of the
//!   same space. So it does not keep the latch of a bitmap page without a free page.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub mod bitmap;
mod growth;
pub(crate) mod register;
pub(crate) mod stamping;

use crate::buf::{Latch, PageIo};
use crate::bytes::u64_at;
use crate::checkpoint::CheckpointSource;
use crate::flush::group::Syncs;
use crate::log::Log;
use crate::mtr::{At, Mtr, Store};
use crate::page::{Patch, header, kind};
use crate::sync::event::Event;
use crate::{Error, Lsn, PAGE_SIZE, PageId, PageNo, Result, SpaceId, Try, WouldBlock};
pub(crate) use growth::{counted_pages, is_range_empty};
use parking_lot::{Mutex, RwLock};
use redolith_disk::{AlignedBuf, Create, Disk, File, OpenHow, in_turn};
use register::Register;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};

const MAGIC: u64 = u64::from_le_bytes(*b"RDLSPACE");
const FORMAT: u32 = 1;
/// Offset of the file's stamp in the header page.
const STAMP: usize = 48;
/// How often a page is read before it counts as damaged.
pub(crate) const READS: usize = 8;
/// The number of pages of a new file: header, bitmap, and room for some indexes' roots.
pub(crate) const FIRST_PAGES: u32 = 8;

pub struct Space {
    pub id: SpaceId,
    pub file: Arc<dyn File>,
    pub path: PathBuf,
    pages: AtomicU32,
    /// The page where the next search for a free page begins if there is no better hint.
    search_from: AtomicU32,
    /// The content of the file, for messages: a table's name, or that of a system space.
    label: RwLock<String>,
    growing: Mutex<()>,
    /// The syncs of all data files.
    syncs: Arc<Syncs>,
    /// Whether the file has been removed or moved away (LOAD-4).
    is_gone: AtomicBool,
    /// Whether pages were written since the header got its stamp.
    written: AtomicBool,
    /// Whether pages were written in this run of the engine, and whether a stamp of this run is
    /// registered.
    first_written: AtomicBool,
    stamped: AtomicBool,
    /// End LSN of the last stamp of this run.
    stamp_end: AtomicU64,
}
impl Space {
    fn new(
        id: SpaceId,
        file: Arc<dyn File>,
        path: PathBuf,
        pages: u32,
        label: &str,
        syncs: &Arc<Syncs>,
    ) -> Arc<Space> {
        Arc::new(Space {
            id,
            file,
            path,
            pages: AtomicU32::new(pages),
            search_from: AtomicU32::new(2),
            label: RwLock::new(label.to_string()),
            growing: Mutex::new(()),
            syncs: syncs.clone(),
            is_gone: AtomicBool::new(false),
            written: AtomicBool::new(false),
            first_written: AtomicBool::new(false),
            stamped: AtomicBool::new(false),
            stamp_end: AtomicU64::new(0),
        })
    }
    /// End LSN of the last stamp of this run; 0 if there was none.
    pub fn stamp_end(&self) -> Lsn {
        Lsn(self.stamp_end.load(Acquire))
    }
    pub fn pages(&self) -> u32 {
        self.pages.load(Acquire)
    }
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Acquire)
    }
    pub fn label(&self) -> String {
        self.label.read().clone()
    }
    pub fn set_label(&self, label: &str) {
        *self.label.write() = label.to_string();
    }
    /// Sets where the next search without a hint begins, so that a simulation gets to later bitmap
    /// pages.
    #[cfg(feature = "canary")]
    pub fn search_from(&self, no: PageNo) {
        self.search_from.store(no, Relaxed);
    }
}

/// Sets the id and the checksum of a page.
fn finish(p: &mut [u8; PAGE_SIZE], id: PageId) {
    p[4..8].copy_from_slice(&id.no.to_le_bytes());
    p[8..12].copy_from_slice(&id.space.0.to_le_bytes());
    header::stamp(p);
}

/// The open spaces of an instance.
pub struct Spaces {
    pub disk: Arc<dyn Disk>,
    dir: PathBuf,
    open: RwLock<HashMap<SpaceId, Arc<Space>>>,
    forced: bool,
    /// While a start judges the directory, nothing is written (JUDGE-1).
    judging: AtomicBool,
    log: OnceLock<Arc<Log>>,
    register: Mutex<Register>,
    /// The syncs of the data files (FLUSH-7).
    syncs: Arc<Syncs>,
    /// Whether a task gives stamps or puts a file in the place of another (REGISTER-4).
    stamping: AtomicBool,
    /// How many spaces were written in this run and have no stamp of this run yet (REGISTER-3).
    unstamped: AtomicUsize,
    /// `unstamped` has increased.
    pub(crate) first_write: Event,
    /// The register cannot be written or stamps cannot be given, because the disk fails, or it or
    /// the redo log is full. Checkpoints go on without them.
    pub(crate) without_register: AtomicBool,
    /// The engine stops, and checkpoints do not wait for stamps.
    pub(crate) closing: AtomicBool,
}
/// The right that [`Spaces::try_stamping`] gives, until it is dropped.
pub struct Stamping<'a>(&'a Spaces);
impl Drop for Stamping<'_> {
    fn drop(&mut self) {
        self.0.stamping.store(false, Release);
    }
}
/// Holds checkpoints back for REGISTER-3.
pub(crate) struct StampGate(pub Arc<Spaces>);
impl CheckpointSource for StampGate {
    fn limit(&self) -> Lsn {
        let open = self.0.unstamped() == 0
            || self.0.closing.load(Acquire)
            || self.0.without_register.load(Acquire);
        if open { Lsn::MAX } else { Lsn(0) }
    }
    fn payload(&self, _: Lsn) -> Vec<u8> {
        Vec::new()
    }
}
impl Spaces {
    /// Makes an instance over the files in `dir`, which it does not change before
    /// [`Spaces::begin_writing`]. With `forced`, files are read whatever their age.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, forced: bool) -> Spaces {
        let (open, log, register, syncs, stamping, unstamped, first_write, without_register) =
            Default::default();
        let (judging, closing) = (AtomicBool::new(true), AtomicBool::new(forced));
        Spaces {
            disk,
            dir: dir.to_path_buf(),
            open,
            forced,
            judging,
            log,
            register,
            syncs,
            stamping,
            unstamped,
            first_write,
            without_register,
            closing,
        }
    }
    /// The right to give stamps or to replace a file, unless another task has it (REGISTER-4).
    pub fn try_stamping(&self) -> Option<Stamping<'_>> {
        self.stamping
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_ok()
            .then_some(Stamping(self))
    }
    pub fn unstamped(&self) -> usize {
        self.unstamped.load(Acquire)
    }
    /// Marks a space as written again, because its stamp could not be registered.
    pub fn written_again(&self, s: &Space) {
        s.written.store(true, Release);
    }
    /// Says that checkpoints need not wait for a stamp of the space: the space has one, cannot have
    /// one, or is gone.
    pub fn needs_no_stamp(&self, s: &Space) {
        if !s.stamped.swap(true, AcqRel) && s.first_written.swap(true, AcqRel) {
            self.unstamped.fetch_sub(1, AcqRel);
        }
    }
    pub fn set_register(&self, register: Register) {
        *self.register.lock() = register;
    }
    /// The least stamp that a space's header may have.
    fn least_stamp(&self, id: SpaceId) -> u64 {
        self.register.lock().entries.get(&id).map_or(0, |entry| entry.stamp)
    }
    /// The least number of pages that a space's file may have (REGISTER-5).
    pub fn least_pages(&self, id: SpaceId) -> u32 {
        self.register.lock().entries.get(&id).map_or(0, |entry| entry.pages)
    }
    pub fn stamp_of(header: &header::Page) -> u64 {
        u64_at(header, STAMP)
    }
    /// Whether stamps are to be looked for in headers after redo, as with a register of format 1.
    pub fn stamps_are_in_redo(&self) -> bool {
        self.register.lock().before_redo
    }
    /// Called when the register's statements about the files have been judged. A register of format
    /// 1 is emptied, since its stamps may be in no file yet.
    pub fn register_judged(&self) {
        let mut r = self.register.lock();
        r.lost = None;
        if std::mem::take(&mut r.before_redo) {
            r.entries.clear();
        }
    }
    /// Whether pages may have been torn that only the redo log can rebuild (TORN-4).
    pub fn redo_protects(&self) -> bool {
        self.register.lock().redo_protects
    }
    /// Why the register could not be read, where there has to be one.
    pub(crate) fn lost_register(&self) -> Option<register::NoRegister> {
        self.register.lock().lost
    }
    /// Says durably whether the redo log protects pages against tearing (TORN-4). To begin with it
    /// is said before the first such page is written, and to end it when no redo is left to apply.
    pub fn set_redo_protects(&self, protects: bool) -> Result<()> {
        let next = {
            let mut r = self.register.lock();
            if std::mem::replace(&mut r.redo_protects, protects) == protects {
                return Ok(());
            }
            r.clone()
        };
        next.write(&*self.disk, &self.dir)
    }
    /// Whether a header with this stamp is as young as the register says.
    pub fn check_stamp(&self, id: SpaceId, has: u64) -> std::result::Result<(), String> {
        let least = self.least_stamp(id);
        if has >= least {
            return Ok(());
        }
        Err(format!(
            "its stamp is of LSN {has}, and {} says that the file had one of LSN {least}: the file \
                is an older copy",
            register::FILE
        ))
    }
    /// Checks the age of a file that is opened while the engine runs. No redo is outstanding for
    /// it, so the header on disk counts.
    fn check_age(&self, s: &Space) -> Result<()> {
        if self.least_stamp(s.id) == 0 {
            return Ok(());
        }
        let mut buf = AlignedBuf::new(PAGE_SIZE);
        let id = PageId { space: s.id, no: 0 };
        s.file.read_at(&mut buf, 0).map_err(|e| {
            Error::io(format_args!("reading the header of {}", s.path.display()), &e)
        })?;
        let page: &header::Page = buf.first_chunk().expect("a page");
        let checked = header::verify(page, id)
            .map_err(|bad| bad.to_string())
            .and_then(|()| self.check_stamp(s.id, Spaces::stamp_of(page)));
        checked.map_err(|why| Error::Corrupt {
            page: id,
            file: s.path.display().to_string(),
            table: s.label(),
            why,
        })
    }
    /// The spaces whose files were written since their last stamp. The call resets their marks.
    pub fn take_written(&self) -> Vec<SpaceId> {
        self.all().iter().filter(|s| s.written.swap(false, AcqRel)).map(|s| s.id).collect()
    }
    /// Enters the stamps that headers have durably (REGISTER-1) in the register and writes it.
    /// Spaces that are not known any more are left out.
    pub fn registered(
        &self,
        durable: Lsn,
        entries: &[(SpaceId, register::Entry)],
        is_known: impl Fn(SpaceId) -> bool,
    ) -> Result<()> {
        let next = {
            let mut r = self.register.lock();
            r.durable = r.durable.max(durable);
            r.entries.extend(entries.iter().copied());
            r.entries.retain(|id, _| is_known(*id));
            r.clone()
        };
        next.write(&*self.disk, &self.dir)
    }
    /// Allows changes of files from here on, and completes what a crash left unfinished in the open
    /// files.
    pub fn begin_writing(&self) -> Result<()> {
        self.judging.store(false, Release);
        self.all().iter().try_for_each(|s| s.init_bitmaps())
    }
    /// Sets the redo log, whose tail no page's LSN exceeds.
    pub fn set_log(&self, log: Arc<Log>) {
        let _ = self.log.set(log);
    }
    pub fn path(&self, id: SpaceId) -> PathBuf {
        match id {
            SpaceId::SYSTEM => self.dir.join("system.rdl"),
            id if id == SpaceId::UNDO[0] => self.dir.join("undo.rdl"),
            id if id == SpaceId::UNDO[1] => self.dir.join("undo2.rdl"),
            SpaceId(n) => self.tables_dir().join(format!("{n}.rdl")),
        }
    }
    pub fn tables_dir(&self) -> PathBuf {
        self.dir.join("tables")
    }
    pub fn get(&self, id: SpaceId) -> Option<Arc<Space>> {
        self.open.read().get(&id).cloned()
    }
    /// The space, opened if its file exists; `None` if it does not.
    pub fn find(&self, id: SpaceId) -> Result<Option<Arc<Space>>> {
        match self.get(id) {
            None if self.disk.exists(&self.path(id)) => match self.open(id, "") {
                // A forced start reads the other tables.
                Err(_) if self.forced && id >= SpaceId::FIRST_TABLE => Ok(None),
                opened => opened.map(Some),
            },
            known => Ok(known),
        }
    }
    /// Whether the space has gone, so that what an error says of its pages is of no interest.
    pub fn is_known_gone(&self, id: SpaceId) -> bool {
        self.find(id).is_ok_and(|space| space.is_none_or(|space| space.is_gone()))
    }
    /// Does the same as [`Spaces::find`] for recovery, but returns `None` also for a table's file
    /// that is cut off: that table is lost, and the others are not.
    pub fn find_whole(&self, id: SpaceId) -> Result<Option<Arc<Space>>> {
        match self.find(id) {
            Err(Error::Incompatible(_)) if id >= SpaceId::FIRST_TABLE => Ok(None),
            found => found,
        }
    }
    /// Whether the administrator has given up the table whose file is missing (JUDGE-7). This takes
    /// more than a file that cannot be looked at.
    pub fn was_given_up(&self, id: SpaceId) -> bool {
        let name = format!("{}.rdl.lost", id.0);
        self.disk.list(&self.tables_dir()).is_ok_and(|names| names.contains(&name))
    }
    /// Says durably that these files are older copies if they come back (JUDGE-7).
    pub fn ban(&self, ids: impl Iterator<Item = SpaceId>, end: Lsn) -> Result<()> {
        let next = {
            let mut r = self.register.lock();
            ids.for_each(|id| r.entries.entry(id).or_default().stamp = end.0);
            r.clone()
        };
        next.write(&*self.disk, &self.dir)
    }
    /// The open spaces, ordered by id.
    pub fn all(&self) -> Vec<Arc<Space>> {
        let mut all: Vec<Arc<Space>> = self.open.read().values().cloned().collect();
        all.sort_unstable_by_key(|s| s.id);
        all
    }
    /// Creates the file of a space durably, with its header, its bitmap and the given further pages
    /// (from page 2 on).
    pub fn create(
        &self,
        id: SpaceId,
        label: &str,
        pages: &[&crate::page::index::Page],
    ) -> Result<Arc<Space>> {
        let path = self.path(id);
        let (file, pages) = self.make(&path, id, pages, 0)?;
        match self.disk.sync_dir(path.parent().unwrap_or(&self.dir)) {
            Ok(()) => Ok(self.enter(id, file, path, pages, label)),
            Err(e) => {
                let _ = self.disk.remove(&path);
                Err(Error::io(format_args!("cannot create table space {}", path.display()), &e))
            }
        }
    }
    /// Puts an empty file in the place of a space's file, which may be missing, in one step. No
    /// page of the space is in memory, and none is needed any more.
    pub fn replace(&self, id: SpaceId) -> Result<Arc<Space>> {
        let (path, label) = (self.path(id), self.get(id).map_or_else(String::new, |s| s.label()));
        let making = path.with_extension("new");
        let fail =
            |e: std::io::Error| Error::io(format_args!("cannot replace {}", path.display()), &e);
        if self.disk.exists(&making) {
            self.disk.remove(&making).map_err(fail)?;
        }
        let (file, pages) = self.make(&making, id, &[], self.least_stamp(id))?;
        if let Err(e) = self.disk.rename(&making, &path) {
            let _ = self.disk.remove(&making);
            return Err(fail(e));
        }
        if let Err(e) = self.disk.sync_dir(&self.dir) {
            // It is unknown which of the two files is there after a crash.
            crate::poison(&format!("syncing {}: {e}", self.dir.display()));
        }
        Ok(self.enter(id, file, path, pages, &label))
    }
    /// Makes a file whose content is durable and whose name is not. Returns the file and its number
    /// of pages.
    fn make(
        &self,
        path: &Path,
        id: SpaceId,
        pages: &[&crate::page::index::Page],
        stamp: u64,
    ) -> Result<(Arc<dyn File>, u32)> {
        let fail = |e: std::io::Error| {
            Error::io(format_args!("cannot create table space {}", path.display()), &e)
        };
        let file = self.file_at(path, Create::CreateNew).map_err(fail)?;
        let made = (|| {
            let first = (2 + pages.len() as u32).max(FIRST_PAGES);
            file.set_len(first as u64 * PAGE_SIZE as u64)?;
            let mut buf = AlignedBuf::new((2 + pages.len()) * PAGE_SIZE);
            let mut fresh = Fresh(Box::new([0; PAGE_SIZE]));
            fresh.write_u16(12, kind::SPACE_HEADER);
            fresh.write_u64(24, MAGIC);
            fresh.write_u32(32, FORMAT);
            fresh.write_u64(STAMP, stamp);
            let mut map = Fresh(Box::new([0; PAGE_SIZE]));
            bitmap::init(&mut map, 0);
            for no in 0..pages.len() as u32 {
                bitmap::set(&mut map, 2 + no, true);
            }
            for (no, page) in
                [&*fresh.0, &*map.0].into_iter().chain(pages.iter().copied()).enumerate()
            {
                let to: &mut [u8; PAGE_SIZE] =
                    (&mut buf[no * PAGE_SIZE..][..PAGE_SIZE]).try_into().expect("a page");
                to.copy_from_slice(page);
                finish(to, PageId { space: id, no: no as PageNo });
            }
            file.write_at(&buf, 0)?;
            Ok(first)
        })();
        // FLUSH-7
        if made.is_ok()
            && let Err(e) = self.syncs.sync_blocking(&*file)
        {
            // The failed sync may have reported, and used up, the error of another file's pages.
            crate::poison(&format!("fsync of {} failed: {e}", path.display()));
        }
        match made {
            Ok(n) => Ok((file, n)),
            Err(e) => {
                let _ = self.disk.remove(path);
                Err(fail(e))
            }
        }
    }
    fn file_at(&self, path: &Path, create: Create) -> std::io::Result<Arc<dyn File>> {
        // FLUSH-6
        Ok(in_turn(self.disk.open(path, OpenHow { create, direct: true })?))
    }
    /// Opens the file of a space that the dictionary names.
    pub fn open(&self, id: SpaceId, label: &str) -> Result<Arc<Space>> {
        if let Some(s) = self.get(id) {
            if !label.is_empty() {
                s.set_label(label);
            }
            return Ok(s);
        }
        let path = self.path(id);
        let fail = |e: std::io::Error| {
            let what = format_args!("cannot open {}{}", path.display(), of(label));
            Error::io_advised(what, &e, "Restore it or a backup")
        };
        let file = self.file_at(&path, Create::Existing).map_err(fail)?;
        let len = file.len().map_err(fail)?;
        let pages = counted_pages(&*file).map_err(fail)?;
        let least = if self.forced { 2 } else { self.least_pages(id).max(2) };
        if pages < least {
            return Err(Error::Incompatible(format!(
                "{}{} is cut off: it has {len} bytes, and had {} or more. Restore it or a backup{}",
                path.display(),
                of(label),
                u64::from(least) * PAGE_SIZE as u64,
                crate::recovery::give_up(id)
            )));
        }
        let made = Space::new(id, file, path.clone(), pages, label, &self.syncs);
        if !self.judging.load(Acquire) {
            if !self.forced {
                self.check_age(&made)?;
            }
            made.init_bitmaps()?;
        }
        let mut open = self.open.write();
        // The file may have been removed after it was opened. Nobody would forget a space that is
        // entered after that ([`Spaces::forget`] takes the same lock): its file would stay open.
        if !self.disk.exists(&made.path) {
            return Err(fail(std::io::ErrorKind::NotFound.into()));
        }
        // Another thread may have been faster. The first space is kept, since two would each count
        // the pages of the file.
        Ok(open.entry(id).or_insert(made).clone())
    }
    fn enter(
        &self,
        id: SpaceId,
        file: Arc<dyn File>,
        path: PathBuf,
        pages: u32,
        label: &str,
    ) -> Arc<Space> {
        let s = Space::new(id, file, path, pages, label, &self.syncs);
        let before = self.open.write().insert(id, s.clone());
        before.iter().for_each(|s| self.needs_no_stamp(s));
        s
    }
    /// Removes the file of a space that has no pages in the buffer pool, and forgets the space.
    pub fn remove(&self, id: SpaceId) -> Result<()> {
        self.remove_file(id)?;
        self.forget(id);
        Ok(())
    }
    /// Removes the file of a space durably. The space stays known, because a cleaner that has
    /// copied pages looks the space up and would open the file again.
    pub fn remove_file(&self, id: SpaceId) -> Result<()> {
        let path = self.path(id);
        let gone = if self.disk.exists(&path) {
            let dir = path.parent().unwrap_or(&self.dir);
            self.disk.remove(&path).and_then(|()| self.disk.sync_dir(dir))
        } else {
            Ok(())
        };
        gone.map_err(|e| Error::io(format_args!("cannot remove {}", path.display()), &e))
    }
    /// Says that the file of a space has been removed or moved away, before the pool forgets its
    /// pages (LOAD-4).
    pub fn set_gone(&self, id: SpaceId) {
        if let Some(s) = self.get(id) {
            s.is_gone.store(true, Release);
            self.needs_no_stamp(&s);
        }
    }
    /// Forgets a space whose file has been removed or moved away.
    pub fn forget(&self, id: SpaceId) {
        let known = self.open.write().remove(&id);
        known.iter().for_each(|s| self.needs_no_stamp(s));
    }
    /// Resolves a `WouldBlock::Extend`. The call blocks while the file system allocates, but not
    /// for data.
    pub fn extend(&self, id: SpaceId) -> Result<()> {
        let s = self.get(id).ok_or_else(|| Error::NoSuchTable(format!("table space {}", id.0)))?;
        s.grow(s.pages())
    }
    /// Makes page `no` exist, for recovery.
    pub fn ensure(&self, id: SpaceId, no: PageNo) -> Result<()> {
        match self.get(id) {
            Some(s) if no >= s.pages() => s.grow(no),
            _ => Ok(()),
        }
    }
}

impl PageIo for Spaces {
    fn file(&self, space: SpaceId) -> Result<Option<Arc<dyn File>>> {
        Ok(self.find(space)?.map(|s| s.file.clone()))
    }
    fn is_gone(&self, space: SpaceId) -> bool {
        // Who asks has had the file, so a space that is not known has been forgotten.
        self.get(space).is_none_or(|s| s.is_gone())
    }
    fn written(&self, id: PageId) {
        // A write of the header page does not count, since it follows from a stamp.
        if id.no != 0
            && let Some(s) = self.get(id.space)
        {
            s.written.store(true, Release);
            if !s.first_written.load(Relaxed) && !s.first_written.swap(true, AcqRel) {
                self.unstamped.fetch_add(1, AcqRel);
                self.first_write.notify();
            }
        }
    }
    fn syncs(&self) -> Arc<Syncs> {
        self.syncs.clone()
    }
    fn newest(&self) -> Lsn {
        self.log.get().map_or(Lsn::MAX, |log| log.tail())
    }
    fn describe(&self, space: SpaceId) -> (String, String) {
        let name = |s: Arc<Space>| (s.path.display().to_string(), s.label());
        self.get(space)
            .map_or_else(|| (self.path(space).display().to_string(), String::new()), name)
    }
}

/// Gives the header of a space its stamp, in a mini-transaction of its own. Returns the stamp and
/// the LSN up to which the redo log must be durable.
pub(crate) fn stamp(store: &crate::mtr::Store, id: SpaceId) -> Try<(u64, Lsn)> {
    let mut m = Mtr::begin_reserved(store)?;
    let header = m.x(PageId { space: id, no: 0 })?;
    let stamp = store.log.tail().0;
    m.patch(header).write_u64(STAMP, stamp);
    let end = m.commit();
    if let Some(s) = store.spaces.get(id) {
        s.stamp_end.fetch_max(end.0, AcqRel);
    }
    Ok((stamp, end))
}

/// For messages: names the table that the file belongs to, if it is known.
fn of(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!(", the file of {label},") }
}

/// Free pages that a mini-transaction has found, with their bitmap pages latched.
/// [`Reserved::take`] puts them in use.
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub struct Reserved {
    pub pages: SmallVec<[PageNo; 4]>,
    maps: SmallVec<[At; 4]>,
}
/// Finds `n` free pages near `hint` (0: anywhere). The search latches bitmap pages, so it comes
/// after all other latches (SPACE-2).
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
pub fn reserve(m: &mut Mtr<'_>, id: SpaceId, n: usize, hint: PageNo) -> Try<Reserved> {
    let space =
        m.store().spaces.get(id).ok_or_else(|| {
            WouldBlock::Failed(Error::NoSuchTable(format!("table space {}", id.0)))
        })?;
    let limit = space.pages();
    let mut out = Reserved { pages: SmallVec::new(), maps: SmallVec::new() };
    let start = if hint != 0 { hint } else { space.search_from.load(Relaxed) };
    let maps = limit.div_ceil(bitmap::PAGES);
    let home = (start / bitmap::PAGES).min(maps - 1);
    // The hint's range is searched first, then the other ranges (SPACE-3).
    let mut held = None;
    for k in (0..maps).map(|i| (home + i) % maps) {
        let first = k * bitmap::PAGES;
        let (page, end) = (PageId { space: id, no: first + 1 }, limit.min(first + bitmap::PAGES));
        if page.no >= limit || held.is_some_and(|h| k < h) {
            continue;
        }
        if !m.holds(page)
            && bitmap::find(&*m.store().pool.fix(page, Latch::S)?, first, end, start, &out.pages)
                .is_none()
        {
            continue;
        }
        let map = m.x(page)?;
        held = Some(k);
        while out.pages.len() < n {
            let near = out.pages.last().map_or(start, |p| p + 1);
            let Some(no) = bitmap::find(m.page(map), first, end, near, &out.pages) else { break };
            out.pages.push(no);
            out.maps.push(map);
        }
        if out.pages.len() == n {
            if hint == 0 {
                space.search_from.store(out.pages[n - 1] + 1, Relaxed);
            }
            return Ok(out);
        }
    }
    Err(WouldBlock::Extend(id))
}
impl Reserved {
    /// Marks the pages as used, which is a change of the mini-transaction.
    #[cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
    pub fn take(&self, m: &mut Mtr<'_>) {
        for (no, map) in self.pages.iter().zip(&self.maps) {
            bitmap::set(&mut m.patch(*map), *no, true);
        }
    }
}
/// Whether a page is in use.
pub(crate) fn is_in_use(store: &Store, id: SpaceId, no: PageNo) -> Try<bool> {
    if store.spaces.find(id)?.is_none_or(|space| no >= space.pages()) {
        return Ok(false);
    }
    let map = store.pool.fix(PageId { space: id, no: bitmap::page_of(no) }, Latch::S)?;
    Ok(bitmap::is_used(&map, no))
}
/// Latches the bitmap page of a page that is going to be freed.
pub(crate) fn prepare_free(m: &mut Mtr<'_>, id: PageId) -> Try<At> {
    let map = m.x(PageId { space: id.space, no: bitmap::page_of(id.no) })?;
    if bitmap::is_used(m.page(map), id.no) {
        return Ok(map);
    }
    let (file, table) = m.store().spaces.describe(id.space);
    let why = "it is in use, and the bitmap page of its range says that it is free".to_string();
    Err(WouldBlock::Failed(Error::Corrupt { page: id, file, table, why }))
}
/// Frees a held page, which is a change of the mini-transaction.
pub(crate) fn free(m: &mut Mtr<'_>, page: At, map: At) {
    let no = m.id(page).no;
    m.patch(page).write_u16(12, kind::FREE);
    bitmap::set(&mut m.patch(map), no, false);
}

/// A page under construction that belongs to no mini-transaction, because its file is made durable
/// as a whole.
pub(crate) struct Fresh(pub Box<[u8; PAGE_SIZE]>);
impl Patch for Fresh {
    fn bytes(&self) -> &[u8; PAGE_SIZE] {
        &self.0
    }
    fn write(&mut self, at: usize, data: &[u8]) {
        self.0[at..at + data.len()].copy_from_slice(data);
    }
}

#[cfg(all(test, not(model)))]
mod growth_tests;

//! `redolith check`: reads every page of the data files of a stopped directory, and names what is
//! wrong.
//!
//! The directory is judged as a start judges it, and then every file is read from its beginning to
//! its end. What a crash may leave is not damage: a torn page that has a whole doublewrite copy, or
//! that the redo log makes anew. The structure of the trees, and whether rows and index entries
//! match, is the business of CHECK TABLE.
//!
//! CHECK-1: nothing is written (JUDGE-1).
//! STOPPED-1: what is read is that of a stopped server: [`StoppedDirectory`] keeps the lock of the
//! directory until the last file has been read, those of the binary log included.
use super::directory::{self, Directory};
use super::{Judged, Report};
use crate::buf::BufferPool;
use crate::commit_stream::CommitStream;
use crate::dict::record::Named;
use crate::engine::Config;
use crate::flush::Copies;
use crate::log::Log;
use crate::page::header::{self, Bad, Page};
use crate::page::{index, kind};
use crate::runtime::block_on;
use crate::space::{READS, Spaces, bitmap, counted_pages, is_range_empty};
use crate::{Error, Lsn, PAGE_SIZE, PageId, PageNo, Result, SpaceId};
use hashbrown::HashMap;
use redolith_disk::{AlignedBuf, Disk, File, Io, Op, OpenHow};
use std::any::Any;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

/// Pages of one read.
const READ_PAGES: u32 = 64;
/// Reads that are under way at the same time.
const READS_AHEAD: usize = 4;

/// News of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Damage, with the file and what to do about it.
    Damage(String),
    /// A finding that is no damage.
    Note(String),
    /// So many bytes of so many have been read.
    Progress(u64, u64),
}
/// The sums of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of data files.
    pub files: u64,
    /// The number of pages in them.
    pub pages: u64,
    /// Pages that the files' bitmaps say are in use.
    pub in_use: u64,
    /// How often there was [`Told::Damage`].
    pub damaged: u64,
}

/// A data directory that no server uses, nor begins to use while this value is there (STOPPED-1).
pub struct StoppedDirectory<'c> {
    disk: Arc<dyn Disk>,
    config: &'c Config,
    _lock: Box<dyn Any + Send + Sync>,
}
impl StoppedDirectory<'_> {
    /// Locks the directory of `config`, whose other parts say where the doublewrite files are.
    /// Fails where there is no data directory, or a server uses it.
    pub fn lock(disk: Arc<dyn Disk>, config: &Config) -> Result<StoppedDirectory<'_>> {
        let dir = &config.dir;
        if !Log::exists(&*disk, &config.log()) {
            return Err(Error::Incompatible(format!(
                "{} is no data directory, or has lost its redo log: redo/control is missing",
                dir.display()
            )));
        }
        let lock = disk.lock_dir(dir).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => Error::InUse(dir.display().to_string()),
            _ => Error::io(dir.display(), &e),
        })?;
        Ok(StoppedDirectory { disk, config, _lock: lock })
    }
    /// Checks the data files, and lets `stream`, if there is one, judge what the redo log has for
    /// it. Fails where a file cannot be listed; damage is told, and no error.
    pub fn check(
        &self,
        stream: Option<&dyn CommitStream>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<Checked> {
        let (disk, config) = (self.disk.clone(), self.config);
        let spaces = Arc::new(Spaces::new(disk.clone(), &config.dir, false));
        let pool = BufferPool::new(&config.buf(), spaces.clone(), disk.clone())?;
        let mut check = Check {
            disk,
            spaces,
            redo: None,
            names: HashMap::new(),
            sums: Checked::default(),
            done: 0,
            whole: 0,
            tell,
        };
        check.judge(config, &pool, stream);
        check.sweep()?;
        Ok(check.sums)
    }
}

/// What a start would do to the pages.
struct Redo {
    end: Lsn,
    copies: Copies,
    judged: Judged,
}
struct Check<'a> {
    disk: Arc<dyn Disk>,
    spaces: Arc<Spaces>,
    /// `None` if a start would be refused.
    redo: Option<Redo>,
    /// The tables of the dictionary.
    names: HashMap<SpaceId, String>,
    sums: Checked,
    /// Bytes that have been read, and all bytes.
    done: u64,
    whole: u64,
    tell: &'a mut dyn FnMut(Told),
}
/// A data file.
struct DataFile {
    id: SpaceId,
    path: PathBuf,
    file: Arc<dyn File>,
    pages: u32,
}

impl Check<'_> {
    fn damage(&mut self, why: String) {
        self.sums.damaged += 1;
        (self.tell)(Told::Damage(why));
    }
    fn note(&mut self, what: String) {
        (self.tell)(Told::Note(what));
    }
    fn judge(
        &mut self,
        config: &Config,
        pool: &Arc<BufferPool>,
        stream: Option<&dyn CommitStream>,
    ) {
        let (mut report, disk, spaces) =
            (Report::default(), self.disk.clone(), self.spaces.clone());
        match block_on(directory::read(config, &disk, &spaces, pool, stream, &mut report)) {
            Ok(Directory { scanner, copies, mut judged, records, .. }) => {
                if let Err(e) = records {
                    self.damage(format!("a start would be refused: {e}"));
                }
                if scanner.position() > report.checkpoint {
                    self.note(format!(
                        "not stopped cleanly: a start would apply the redo log from LSN {} to {}",
                        report.checkpoint,
                        scanner.position()
                    ));
                }
                for named in std::mem::take(&mut judged.definitions) {
                    if let Named::Table(r) = named {
                        let name = format!("{}.{}", r.def.schema, r.def.name);
                        self.names.insert(SpaceId(r.space), name);
                    }
                }
                self.redo = Some(Redo { end: scanner.position(), copies, judged });
            }
            Err(e) => self.damage(format!("a start would be refused: {e}")),
        }
        report.notes.into_iter().for_each(|note| self.note(note));
    }

    /// Reads all data files.
    fn sweep(&mut self) -> Result<()> {
        let mut ids = vec![SpaceId::SYSTEM, SpaceId::UNDO[0], SpaceId::UNDO[1]];
        let dir = self.spaces.tables_dir();
        let listed = self.disk.list(&dir).map_err(|e| Error::io(dir.display(), &e))?;
        let mut tables: Vec<SpaceId> = listed
            .iter()
            .filter_map(|name| name.strip_suffix(".rdl")?.parse().ok().map(SpaceId))
            .filter(|id| *id >= SpaceId::FIRST_TABLE)
            .collect();
        tables.sort_unstable();
        let missing: Vec<SpaceId> =
            self.names.keys().filter(|id| !tables.contains(id)).copied().collect();
        for id in missing {
            self.damage(format!(
                "{}{} is missing: restore it or a backup",
                self.spaces.path(id).display(),
                self.of(id)
            ));
        }
        ids.extend(tables);
        let files: Vec<DataFile> = ids.into_iter().filter_map(|id| self.open(id)).collect();
        self.whole = files.iter().map(|f| u64::from(f.pages) * PAGE_SIZE as u64).sum();
        for file in &files {
            self.sums.files += 1;
            if let Err(e) = self.file(file) {
                self.damage(format!("reading {}{}: {e}", file.path.display(), self.of(file.id)));
            }
        }
        Ok(())
    }
    /// For messages: the table of the file, if it is known.
    fn of(&self, id: SpaceId) -> String {
        self.names.get(&id).map_or(String::new(), |name| format!(" ({name})"))
    }
    fn open(&mut self, id: SpaceId) -> Option<DataFile> {
        let path = self.spaces.path(id);
        let opened = || {
            let file = self.disk.open(&path, OpenHow::existing(true))?;
            let (len, pages) = (file.len()?, counted_pages(&*file)?);
            Ok((file, len, pages))
        };
        let (file, len, pages) = match opened() {
            Ok(opened) => opened,
            Err(e) => {
                let e: io::Error = e;
                self.damage(format!("{}{} cannot be opened: {e}", path.display(), self.of(id)));
                return None;
            }
        };
        if id >= SpaceId::FIRST_TABLE && self.redo.is_some() && !self.names.contains_key(&id) {
            self.note(format!("{}: no table has this file", path.display()));
        } else if let least = self.spaces.least_pages(id).max(2)
            && pages < least
        {
            self.damage(format!(
                "{}{} is cut off: it has {len} bytes, and had {} or more. Restore it or a backup",
                path.display(),
                self.of(id),
                u64::from(least) * PAGE_SIZE as u64
            ));
        }
        if !len.is_multiple_of(PAGE_SIZE as u64) {
            self.note(format!(
                "{} ends within a page, as when a crash comes while a file grows",
                path.display()
            ));
        }
        Some(DataFile { id, path, file, pages })
    }

    fn file(&mut self, f: &DataFile) -> io::Result<()> {
        let mut maps = Vec::new();
        for no in (1..f.pages).step_by(bitmap::PAGES as usize) {
            let mut map = AlignedBuf::new(PAGE_SIZE);
            // The page is told of when its turn comes.
            let read = f.file.read_at(&mut map, u64::from(no) * PAGE_SIZE as u64).is_ok();
            let page: &Page = map.first_chunk().expect("a page");
            let whole = read
                && header::verify(page, PageId { space: f.id, no }).is_ok()
                && header::page_type(page) == kind::BITMAP;
            maps.push(whole.then_some(map));
        }
        self.behind_the_end(f, &maps);
        let is_used = |no: PageNo| {
            // A file that is cut off may end before the bitmap page of its last pages.
            let map = maps.get((no / bitmap::PAGES) as usize)?.as_ref()?;
            Some(bitmap::is_used(map.first_chunk().expect("a page"), no))
        };
        let (finished, results) = mpsc::channel();
        let begin = |first: PageNo| {
            let pages = READ_PAGES.min(f.pages - first);
            let finished = finished.clone();
            f.file.submit(Io {
                op: Op::Read(AlignedBuf::new(pages as usize * PAGE_SIZE)),
                offset: u64::from(first) * PAGE_SIZE as u64,
                done: Box::new(move |result, buf| {
                    // The check that asked may have ended with an error.
                    let _ = finished.send((first, result, buf));
                }),
            });
        };
        let (mut next, mut running) = (0, 0);
        loop {
            while running < READS_AHEAD && next < f.pages {
                let data = f.file.next_data(u64::from(next) * PAGE_SIZE as u64)?;
                let data = data.map_or(u64::MAX, |at| at / PAGE_SIZE as u64);
                let first = u32::try_from(data).unwrap_or(f.pages).min(f.pages);
                self.hole(f, next..first, &maps);
                if first < f.pages {
                    begin(first);
                    running += 1;
                }
                next = (first + READ_PAGES).min(f.pages);
            }
            if running == 0 {
                break;
            }
            let (first, result, buf) = results.recv().expect("each read ends");
            running -= 1;
            let buf = buf.expect("a read gives its buffer back");
            let pages = (buf.len() / PAGE_SIZE) as u32;
            match result {
                Ok(()) => {
                    for (no, page) in (first..).zip(buf.chunks_exact(PAGE_SIZE)) {
                        self.page(f, no, page.first_chunk().expect("a page"), is_used(no));
                    }
                }
                // One of the pages cannot be read: each is read alone.
                Err(_) => (first..first + pages).for_each(|no| {
                    let mut buf = AlignedBuf::new(PAGE_SIZE);
                    match f.file.read_at(&mut buf, u64::from(no) * PAGE_SIZE as u64) {
                        Ok(()) => {
                            self.page(f, no, buf.first_chunk().expect("a page"), is_used(no));
                        }
                        Err(e) => self.bad(f, no, is_used(no), &format!("the disk says: {e}")),
                    }
                }),
            }
            self.done += buf.len() as u64;
            (self.tell)(Told::Progress(self.done, self.whole));
        }
        Ok(())
    }

    /// Checks the pages of a hole, which are zeros: only those in use are worth a look.
    fn hole(&mut self, f: &DataFile, pages: Range<PageNo>, maps: &[Option<AlignedBuf>]) {
        if pages.is_empty() {
            return;
        }
        self.sums.pages += u64::from(pages.end - pages.start);
        self.done += u64::from(pages.end - pages.start) * PAGE_SIZE as u64;
        (self.tell)(Told::Progress(self.done, self.whole));
        for range in pages.start / bitmap::PAGES..pages.end.div_ceil(bitmap::PAGES) {
            let Some(Some(map)) = maps.get(range as usize) else {
                // Only the bitmap page itself can be judged then.
                let no = range * bitmap::PAGES + 1;
                if range > 0 && pages.contains(&no) {
                    self.sums.pages -= 1;
                    self.page(f, no, &[0; PAGE_SIZE], None);
                }
                continue;
            };
            let map: &Page = map.first_chunk().expect("a page");
            let first = pages.start.max(range * bitmap::PAGES);
            let end = pages.end.min((range + 1).saturating_mul(bitmap::PAGES));
            for no in (first..end).filter(|no| bitmap::is_used(map, *no)) {
                self.sums.pages -= 1;
                self.page(f, no, &[0; PAGE_SIZE], Some(true));
            }
        }
        // Without a bitmap page, the two first pages still are.
        let unmapped = (0..2).filter(|no| pages.contains(no) && !matches!(maps, [Some(_), ..]));
        for no in unmapped {
            self.sums.pages -= 1;
            self.page(f, no, &[0; PAGE_SIZE], None);
        }
    }
    /// Tells of pages in use that the file is too short for.
    fn behind_the_end(&mut self, f: &DataFile, maps: &[Option<AlignedBuf>]) {
        let Some(Some(map)) = maps.last() else { return };
        let map: &Page = map.first_chunk().expect("a page");
        let end = maps.len() as u32 * bitmap::PAGES;
        let made = |no: &PageNo| {
            let id = PageId { space: f.id, no: *no };
            self.redo.as_ref().is_some_and(|redo| redo.judged.makes(id))
        };
        let missing: Vec<PageNo> =
            (f.pages..end).filter(|no| bitmap::is_used(map, *no) && !made(no)).collect();
        if let Some(first) = missing.first() {
            self.damage(format!(
                "{}{} is cut off: {} pages in use lie behind its end, page {first} first. Restore \
                 the file or a backup",
                f.path.display(),
                self.of(f.id),
                missing.len()
            ));
        }
    }

    /// Checks a page. `used` is `None` if the bitmap cannot be read.
    fn page(&mut self, f: &DataFile, no: PageNo, page: &Page, used: Option<bool>) {
        let id = PageId { space: f.id, no };
        self.sums.pages += 1;
        self.sums.in_use += u64::from(used == Some(true));
        let Err(mut bad) = header::verify(page, id) else {
            return self.whole_page(f, id, page, used);
        };
        // Pages that were never written are zeros, and so are bitmaps behind the first one until
        // the part that they cover is used.
        let may_be_zeros = || match bitmap::is_bitmap(no) {
            true => is_range_empty(&*f.file, no, f.pages).unwrap_or(false),
            false => used != Some(true),
        };
        if bad == Bad::Zero && no > 1 && may_be_zeros() {
            return;
        }
        // The page may have been spoiled on its way from the disk.
        let mut again = AlignedBuf::new(PAGE_SIZE);
        for _ in 0..READS {
            if f.file.read_at(&mut again, u64::from(no) * PAGE_SIZE as u64).is_err() {
                break;
            }
            let page: &Page = again.first_chunk().expect("a page");
            match header::verify(page, id) {
                Ok(()) => return self.whole_page(f, id, page, used),
                Err(still) => bad = still,
            }
        }
        match &self.redo {
            Some(redo) if redo.copies.has(id) => self.note(format!(
                "page {id} of {}{}: {bad}; a start repairs it from its doublewrite copy",
                f.path.display(),
                self.of(f.id)
            )),
            Some(redo) if redo.judged.torn.contains_key(&id) => self.note(format!(
                "page {id} of {}{}: {bad}; a start rebuilds it from the redo log",
                f.path.display(),
                self.of(f.id)
            )),
            Some(redo) if redo.judged.makes(id) => {}
            // Whether the redo log makes the page is not known.
            None if bad == Bad::Zero => {}
            _ => self.bad(f, no, used, &bad.to_string()),
        }
    }
    fn bad(&mut self, f: &DataFile, no: PageNo, used: Option<bool>, why: &str) {
        self.damage(format!(
            "page {}:{no} of {}{}: {why}. {}",
            f.id.0,
            f.path.display(),
            self.of(f.id),
            if used == Some(false) {
                "The page is not in use"
            } else {
                "Restore the file or a backup"
            }
        ));
    }
    fn whole_page(&mut self, f: &DataFile, id: PageId, page: &Page, used: Option<bool>) {
        let lsn = header::lsn(page);
        if let Some(redo) = self.redo.as_ref().filter(|redo| lsn > redo.end) {
            let why = format!(
                "its LSN {lsn} is beyond the end of the redo log, LSN {}: the redo log or the file \
                 comes from another state of this directory",
                redo.end
            );
            return self.bad(f, id.no, used, &why);
        }
        // The start has judged the headers that the redo log changes.
        let judged = self.redo.as_ref().is_none_or(|redo| redo.judged.makes(id));
        if id.no == 0
            && !judged
            && let Err(why) = self.spaces.check_stamp(id.space, Spaces::stamp_of(page))
        {
            self.damage(format!(
                "{}{}: {why}. Restore the file or a backup",
                f.path.display(),
                self.of(f.id)
            ));
        }
        if header::page_type(page) == kind::INDEX
            && let Err(why) = index::well_formed(page)
        {
            self.bad(f, id.no, used, why);
        }
    }
}

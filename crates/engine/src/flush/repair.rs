//! Repairs pages that a crash has torn, from their copies in the doublewrite file. The repair runs
//! at start, before redo.
//!
//! REPAIR-1: a page is repaired only from a whole copy that is younger than the checkpoint. The
//! write that a crash tore had not been synced, so its dirty bucket held the checkpoint back. A bad
//! page with only older copies is damage of another kind, and redo could not bring an older copy up
//! to date: the page stays as it is, and is reported when it is read.
//! REPAIR-2: repaired pages are synced before the doublewrite file is written again.
use super::doublewrite::{HEADER, SEGMENT_BYTES, SEGMENT_PAGES, read_header};
use crate::buf::PageIo;
use crate::canary::{Canary, planted};
use crate::page::header::{self, Page};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result};
use redolith_disk::{AlignedBuf, Disk, File, OpenHow};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A page that was rewritten from its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    pub page: PageId,
    pub file: String,
    pub table: String,
    pub lsn: Lsn,
    /// What was wrong with the page.
    pub why: String,
}
impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "page {} of {} was torn ({}); repaired from its doublewrite copy of LSN {}",
            self.page, self.file, self.why, self.lsn
        )
    }
}

/// The place of the youngest whole copy of a page.
struct Copy {
    lsn: Lsn,
    offset: u64,
}
/// The youngest whole copy of each page, if it is younger than the checkpoint (REPAIR-1).
pub(crate) struct Copies {
    file: Option<Arc<dyn File>>,
    path: PathBuf,
    found: HashMap<PageId, Copy>,
}

impl Copies {
    /// No copies, for a start that does without the doublewrite file.
    pub(crate) fn none(path: &Path) -> Copies {
        Copies { file: None, path: path.to_path_buf(), found: HashMap::new() }
    }
    /// Reads the doublewrite file at `path`, which may be missing.
    pub(crate) fn read(disk: &dyn Disk, path: &Path, checkpoint: Lsn) -> Result<Copies> {
        let mut copies = Copies::none(path);
        if disk.exists(path) && !planted(Canary::NoRepair) {
            let file = disk.open(path, OpenHow::existing(true)).map_err(|e| copies.fail(e))?;
            copies.found = scan(&*file, checkpoint).map_err(|e| copies.fail(e))?;
            copies.file = Some(file);
        }
        Ok(copies)
    }
    fn fail(&self, e: io::Error) -> Error {
        let what = format_args!("reading the doublewrite file {}", self.path.display());
        Error::io_advised(what, &e, "Restore the file or a backup")
    }
    /// The highest LSN among the copies, and its page. Copies are written only when the redo log is
    /// durable up to their LSN.
    pub(crate) fn newest(&self) -> Option<(Lsn, PageId)> {
        self.found.iter().map(|(id, copy)| (copy.lsn, *id)).max()
    }
    /// Whether there is a copy of the page.
    pub(crate) fn has(&self, id: PageId) -> bool {
        self.found.contains_key(&id)
    }
    /// Reads the copy of a page into `buf`. Returns false if there is none.
    pub(crate) fn get(&self, id: PageId, buf: &mut AlignedBuf) -> Result<bool> {
        let (Some(copy), Some(file)) = (self.found.get(&id), &self.file) else { return Ok(false) };
        file.read_at(buf, copy.offset).map_err(|e| self.fail(e))?;
        header::verify(page(buf), id).map_err(|bad| {
            self.fail(io::Error::other(format!("the copy of page {id} has changed: {bad}")))
        })?;
        Ok(true)
    }

    /// Checks every page that has a copy and rewrites the bad pages. Returns the rewritten pages,
    /// in page order.
    ///
    /// REPAIR-2: afterwards every page that has a copy is durable in its place. The bytes that an
    /// ended process wrote may so far be in a cache only, and nothing else would sync them before
    /// the copy is overwritten or the checkpoint passes the page's changes.
    pub(crate) fn repair(&self, io: &dyn PageIo) -> Result<Vec<Repaired>> {
        let mut copies: Vec<(PageId, Lsn)> =
            self.found.iter().map(|(id, copy)| (*id, copy.lsn)).collect();
        copies.sort_unstable_by_key(|(id, _)| *id);
        let mut repaired = Vec::new();
        let mut files: Vec<(Arc<dyn File>, String)> = Vec::new();
        let mut buf = AlignedBuf::new(PAGE_SIZE);
        for (id, lsn) in copies {
            let file = match io.file(id.space) {
                Ok(Some(file)) => file,
                // The space has been dropped or its file was cut off, so there is nothing to
                // repair.
                Ok(None) | Err(Error::Incompatible(_)) => continue,
                Err(e) => return Err(e),
            };
            let (name, table) = io.describe(id.space);
            if files.last().is_none_or(|(last, _)| !Arc::ptr_eq(last, &file)) {
                files.push((file.clone(), name.clone()));
            }
            let at = u64::from(id.no) * PAGE_SIZE as u64;
            let why = match file.read_at(&mut buf, at) {
                // The file's growth was lost: redo makes the file grow again, and makes the page.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(e) => return Err(Error::io(format_args!("reading page {id} of {name}"), &e)),
                Ok(()) => match header::verify(page(&buf), id) {
                    Ok(()) => continue,
                    Err(bad) => bad.to_string(),
                },
            };
            self.get(id, &mut buf)?;
            file.write_at(&buf, at)
                .map_err(|e| Error::io(format_args!("repairing page {id} of {name}"), &e))?;
            repaired.push(Repaired { page: id, file: name, table, lsn, why });
        }
        for (file, name) in files {
            file.sync().map_err(|e| Error::io(format_args!("syncing {name}"), &e))?;
        }
        Ok(repaired)
    }
}
fn page(buf: &AlignedBuf) -> &Page {
    buf.first_chunk().expect("a page")
}

/// Finds the youngest whole copy of each page (REPAIR-1).
fn scan(dblwr: &dyn File, checkpoint: Lsn) -> io::Result<HashMap<PageId, Copy>> {
    let mut copies = HashMap::new();
    let mut segment = AlignedBuf::new(SEGMENT_BYTES as usize);
    for n in 0..dblwr.len()? / SEGMENT_BYTES {
        dblwr.read_at(&mut segment, n * SEGMENT_BYTES)?;
        let Some(entries) = read_header(&segment[..HEADER]) else { continue };
        assert!(entries.len() <= SEGMENT_PAGES);
        for (k, (id, checksum)) in entries.into_iter().enumerate() {
            let at = HEADER + k * PAGE_SIZE;
            let copy: &Page = segment[at..].first_chunk().expect("inside the segment");
            let lsn = header::lsn(copy);
            if header::checksum(copy) != checksum
                || header::verify(copy, id).is_err()
                || lsn <= checkpoint
            {
                continue;
            }
            let found = Copy { lsn, offset: n * SEGMENT_BYTES + at as u64 };
            let best = copies.entry(id).or_insert(Copy { lsn: Lsn(0), offset: 0 });
            if best.lsn < lsn {
                *best = found;
            }
        }
    }
    Ok(copies)
}

//! Repairs pages that a crash has torn, or that the disk cannot read, from their copies in the
//! doublewrite file. The repair runs at start, before redo.
//!
//! REPAIR-1: a page is repaired only from a whole copy that is younger than the checkpoint. The
//! write that a crash tore had not been synced, so its dirty bucket held the checkpoint back. A bad
//! page with only older copies is damage of another kind, and redo could not bring an older copy up
//! to date: the page stays as it is, and is reported when it is read.
//! REPAIR-2: repaired pages are synced before the doublewrite file is written again.
use super::doublewrite::{HEADER, SEGMENT_BYTES, SEGMENTS, file_name, read_header};
use crate::buf::PageIo;
use crate::canary::{Canary, planted};
use crate::page::header::{self, Page};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result};
use redolith_disk::{AlignedBuf, Disk, File, OpenHow};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A torn page, or one that the disk could not read, that was made whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    pub page: PageId,
    pub file: String,
    pub table: String,
    /// The LSN of the doublewrite copy; `None` if the page was rebuilt from the redo log.
    pub copy: Option<Lsn>,
    /// Whether the disk could read the page, so that it counts as torn.
    pub was_read: bool,
    /// What was wrong with the page.
    pub why: String,
}
impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.was_read { "was torn" } else { "could not be read from the disk" };
        write!(f, "page {} of {} {what} ({}); ", self.page, self.file, self.why)?;
        match self.copy {
            Some(lsn) => write!(f, "repaired from its doublewrite copy of LSN {lsn}"),
            None => write!(f, "rebuilt from the redo log"),
        }
    }
}

/// The place of the youngest whole copy of a page.
struct Copy {
    lsn: Lsn,
    file: usize,
    offset: u64,
}
/// The youngest whole copy of each page, if it is younger than the checkpoint (REPAIR-1).
#[derive(Default)]
pub(crate) struct Copies {
    files: Vec<(PathBuf, Arc<dyn File>)>,
    found: HashMap<PageId, Copy>,
}

impl Copies {
    /// Reads the doublewrite files in `dir`, which may be missing. `log_id` is the id of the data
    /// directory's redo log, if it is known: copies of another directory's pages are an error.
    pub(crate) fn read(
        disk: &dyn Disk,
        dir: &Path,
        checkpoint: Lsn,
        log_id: Option<u64>,
    ) -> Result<Copies> {
        let mut copies = Copies::default();
        if planted(Canary::NoRepair) {
            return Ok(copies);
        }
        for path in (0..SEGMENTS).map(|n| dir.join(file_name(n))).filter(|p| disk.exists(p)) {
            let file = disk.open(&path, OpenHow::existing(true)).map_err(|e| fail(&path, e))?;
            let number = copies.files.len();
            let theirs = scan(&*file, number, checkpoint, log_id, &mut copies.found);
            if theirs.map_err(|e| fail(&path, e))? {
                return Err(Error::Incompatible(format!(
                    "the doublewrite file {} belongs to another data directory: give each data \
                     directory a folder of its own with innodb_doublewrite_dir, or move the file \
                     away if it is a leftover",
                    path.display()
                )));
            }
            copies.files.push((path, file));
        }
        Ok(copies)
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
        let Some(copy) = self.found.get(&id) else { return Ok(false) };
        let (path, file) = &self.files[copy.file];
        file.read_at(buf, copy.offset).map_err(|e| fail(path, e))?;
        header::verify(page(buf), id).map_err(|bad| {
            fail(path, io::Error::other(format!("the copy of page {id} has changed: {bad}")))
        })?;
        Ok(true)
    }

    /// Checks every page that has a copy and rewrites the bad pages. Returns the rewritten pages,
    /// in page order. A disk that cannot read a page may have given up its sectors, and has others
    /// for them once they are written (JUDGE-10).
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
            let (was_read, why) = match file.read_at(&mut buf, at) {
                // The file's growth was lost: redo makes the file grow again, and makes the page.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(e) => (false, e.to_string()),
                Ok(()) => match header::verify(page(&buf), id) {
                    Ok(()) => continue,
                    Err(bad) => (true, bad.to_string()),
                },
            };
            self.get(id, &mut buf)?;
            file.write_at(&buf, at)
                .map_err(|e| Error::io(format_args!("repairing page {id} of {name}"), &e))?;
            let copy = Some(lsn);
            repaired.push(Repaired { page: id, file: name, table, copy, was_read, why });
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

fn fail(path: &Path, e: io::Error) -> Error {
    let what = format_args!("reading the doublewrite file {}", path.display());
    Error::io_advised(what, &e, "Restore the file or a backup")
}

/// Finds the youngest whole copy of each page (REPAIR-1). Returns true if the file has copies of
/// another data directory's pages.
fn scan(
    dblwr: &dyn File,
    file: usize,
    checkpoint: Lsn,
    log_id: Option<u64>,
    copies: &mut HashMap<PageId, Copy>,
) -> io::Result<bool> {
    let mut segment = AlignedBuf::new(SEGMENT_BYTES as usize);
    // No file was ever longer, and what follows may be petabytes of holes.
    for n in 0..(dblwr.len()? / SEGMENT_BYTES).min(SEGMENTS as u64) {
        dblwr.read_at(&mut segment, n * SEGMENT_BYTES)?;
        let Some(header) = read_header(&segment[..HEADER]) else { continue };
        if header.log_id != 0 && log_id.is_some_and(|own| own != header.log_id) {
            return Ok(true);
        }
        for (k, (id, checksum)) in header.pages.into_iter().enumerate() {
            let at = HEADER + k * PAGE_SIZE;
            let copy: &Page = segment[at..].first_chunk().expect("inside the segment");
            let lsn = header::lsn(copy);
            if header::checksum(copy) != checksum
                || header::verify(copy, id).is_err()
                || lsn <= checkpoint
            {
                continue;
            }
            let found = Copy { lsn, file, offset: n * SEGMENT_BYTES + at as u64 };
            match copies.entry(id) {
                Entry::Occupied(best) if best.get().lsn >= lsn => {}
                Entry::Occupied(mut best) => _ = best.insert(found),
                Entry::Vacant(none) => _ = none.insert(found),
            }
        }
    }
    Ok(false)
}

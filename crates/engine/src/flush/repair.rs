//! At start, before the redo: mends pages that a crash has torn, from their copies in the doublewrite file.
//!
//! REPAIR-1: a page is mended only from a copy that is whole, and younger than the checkpoint. The write that a crash tore had not been synced, so
//! its dirty bucket held the checkpoint back; a bad page with only older copies is damage of another kind, and redo could not bring it up to date: it
//! stays as it is, to be reported when it is read.
//! REPAIR-2: mended pages are synced before the doublewrite file is written again.
use super::doublewrite::{HEADER, SEGMENT_BYTES, SEGMENT_PAGES, read_header};
use crate::buf::PageIo;
use crate::canary::{Canary, planted};
use crate::page::header::{self, Page};
use crate::{Error, Lsn, PAGE_SIZE, PageId, Result};
use redolith_disk::{AlignedBuf, Disk, File, OpenHow};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A page that was rewritten from its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    pub page: PageId,
    pub file: String,
    pub table: String,
    pub lsn: Lsn,
    /// What was wrong with it.
    pub why: String,
}
impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {} was torn ({}); mended from its doublewrite copy of LSN {}", self.page, self.file, self.why, self.lsn)
    }
}

/// Where the youngest whole copy of a page is.
struct Copy {
    lsn: Lsn,
    offset: u64,
}

/// Checks every page that has a copy in the doublewrite file at `path` and rewrites those that are bad. Returns them, in page order.
///
/// REPAIR-2: afterwards every page that has a copy is durable in its place: what an ended process wrote may have been read from a cache, and nobody else would
/// sync it before the copy is overwritten, or the checkpoint passes its changes.
pub fn repair(disk: &dyn Disk, path: &Path, io: &dyn PageIo, checkpoint: Lsn) -> Result<Vec<Mended>> {
    if !disk.exists(path) || planted(Canary::NoRepair) {
        return Ok(Vec::new());
    }
    let fail = |e: io::Error| Error::io(format_args!("reading the doublewrite file {}", path.display()), &e);
    let dblwr = disk.open(path, OpenHow::existing(true)).map_err(fail)?;
    let mut copies: Vec<(PageId, Copy)> = scan(&*dblwr, checkpoint).map_err(fail)?.into_iter().collect();
    copies.sort_unstable_by_key(|(id, _)| *id);

    let mut mended = Vec::new();
    let mut files: Vec<(Arc<dyn File>, String)> = Vec::new();
    let mut buf = AlignedBuf::new(PAGE_SIZE);
    for (id, copy) in copies {
        let Some(file) = io.file(id.space)? else { continue };
        let (name, table) = io.describe(id.space);
        if files.last().is_none_or(|(last, _)| !Arc::ptr_eq(last, &file)) {
            files.push((file.clone(), name.clone()));
        }
        let at = u64::from(id.no) * PAGE_SIZE as u64;
        let why = match file.read_at(&mut buf, at) {
            // The file's growth was lost: redo makes it grow again, and the page with it.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => continue,
            Err(e) => return Err(Error::io(format_args!("reading page {id} of {name}"), &e)),
            Ok(()) => match header::verify(page(&buf), id) {
                Ok(()) => continue,
                Err(bad) => bad.to_string(),
            },
        };
        dblwr.read_at(&mut buf, copy.offset).map_err(fail)?;
        header::verify(page(&buf), id).map_err(|bad| fail(io::Error::other(format!("the copy of page {id} has changed: {bad}"))))?;
        file.write_at(&buf, at).map_err(|e| Error::io(format_args!("mending page {id} of {name}"), &e))?;
        mended.push(Mended { page: id, file: name, table, lsn: copy.lsn, why });
    }
    for (file, name) in files {
        file.sync().map_err(|e| Error::io(format_args!("syncing {name}"), &e))?;
    }
    Ok(mended)
}
fn page(buf: &AlignedBuf) -> &Page {
    buf.first_chunk().expect("a page")
}

/// The youngest whole copy of each page (REPAIR-1).
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
            if header::checksum(copy) != checksum || header::verify(copy, id).is_err() || lsn <= checkpoint {
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
